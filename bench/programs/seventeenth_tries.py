"""Sixteen more training steps that were measured before anybody looked at them, like those of first_tries.py.

    python bench/programs/seventeenth_tries.py four_bits > four_bits.mlir

third_tries.py says how to measure one; alternated is lowered for the TPU: STEPS.stablehlo("alternated", ("tpu",)). Needs jax, flax, dm-haiku, equinox, keras and optax.
"""

import os

os.environ["JAX_PLATFORMS"] = "cpu"

import flax.linen as nn
import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from model_steps import A_KEY, KEY, flax_step, haiku_step, normalised, shapes
from named_steps import NamedSteps, print_named
from ordinary_steps import floats
from seventeenth_more import STEPS as MORE
from twelfth_tries import below

lax = jax.lax
HALF = jnp.bfloat16
STEPS = NamedSteps()
step = STEPS.step


@step
def adapted_noise():
    """Latent images of a thousand kinds: a transformer whose norms and gates the moment and the kind move; noise and its spread are learnt (DiT, bf16)."""
    f, heads, depth, b, size, patch, moments = 384, 6, 6, 24, 32, 2, 1000
    betas = np.linspace(1e-4, 0.02, moments)
    kept = np.cumprod(1 - betas)
    before = np.append(1.0, kept[:-1])
    variance = betas * (1 - before) / (1 - kept)
    log_variance = np.log(np.append(variance[1], variance[1:]))
    dense = lambda n, **given: nn.Dense(n, dtype=HALF, **given)
    zero = dict(kernel_init=nn.initializers.zeros)

    def waves(n, at):
        angle = at[..., None] * np.exp(-np.log(10000) * np.arange(n // 2) / (n // 2))
        return jnp.concatenate([jnp.cos(angle), jnp.sin(angle)], -1)

    class Block(nn.Module):
        @nn.compact
        def __call__(self, x, told):
            moved = jnp.split(dense(6 * f, **zero)(nn.silu(told))[:, None], 6, -1)
            norm = lambda: nn.LayerNorm(use_bias=False, use_scale=False, epsilon=1e-6, dtype=HALF)
            y = norm()(x) * (1 + moved[1]) + moved[0]
            q, k, v = (dense(f)(y).reshape(*y.shape[:2], heads, -1) for _ in range(3))
            x = x + moved[2] * dense(f)(jax.nn.dot_product_attention(q, k, v).reshape(y.shape))
            y = norm()(x) * (1 + moved[4]) + moved[3]
            return x + moved[5] * dense(f)(nn.gelu(dense(4 * f)(y)))

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x, moment, kind):
            n = size // patch
            x = nn.Conv(f, (patch, patch), (patch, patch), dtype=HALF)(x).reshape(b, n * n, f)
            row, column = np.meshgrid(np.arange(n), np.arange(n), indexing="ij")
            places = jnp.concatenate([waves(f // 2, row.reshape(-1)), waves(f // 2, column.reshape(-1))], -1)
            x = x + places.astype(HALF)
            told = dense(f)(nn.silu(dense(f)(waves(256, moment.astype(jnp.float32)))))
            told = told + nn.Embed(1001, f, dtype=HALF)(kind)
            for _ in range(depth):
                x = Block()(x, told)
            shift, scale = jnp.split(dense(2 * f, **zero)(nn.silu(told))[:, None], 2, -1)
            x = nn.LayerNorm(use_bias=False, use_scale=False, epsilon=1e-6, dtype=HALF)(x) * (1 + scale) + shift
            x = nn.Dense(patch * patch * 8, **zero)(x).reshape(b, n, n, patch, patch, 8)
            return jnp.einsum("bhwpqc->bhpwqc", x).reshape(b, size, size, 8)

    net, optimizer = Net(), optax.adamw(1e-4, weight_decay=0.0)
    of = lambda table, moment: jnp.asarray(table, jnp.float32)[moment][:, None, None, None]

    def update(p, state, slow, key, images, kind):
        k = jax.random.split(key, 4)
        images = images * 0.18215
        moment = jax.random.randint(k[0], (b,), 0, moments)
        kind = jnp.where(jax.random.bernoulli(k[1], 0.1, (b,)), 1000, kind)
        noise = jax.random.normal(k[2], images.shape)
        x = of(np.sqrt(kept), moment) * images + of(np.sqrt(1 - kept), moment) * noise

        def mean(found):
            clean = of(np.sqrt(1 / kept), moment) * x - of(np.sqrt(1 / kept - 1), moment) * found
            return of(betas * np.sqrt(before) / (1 - kept), moment) * clean + of((1 - before) * np.sqrt(1 - betas) / (1 - kept), moment) * x

        def loss(p):
            found, spread = jnp.split(net.apply(p, x, moment, kind), 2, -1)
            share = (spread + 1) / 2
            least, most = of(log_variance, moment), of(np.log(betas), moment)
            log_spread = share * most + (1 - share) * least
            apart = jnp.square(mean(noise) - mean(lax.stop_gradient(found)))
            divergence = 0.5 * (log_spread - least - 1 + jnp.exp(least - log_spread) + apart * jnp.exp(-log_spread))
            return jnp.square(found - noise).mean() + divergence.mean() / np.log(2)

        value, gradient = jax.value_and_grad(loss)(p)
        changes, state = optimizer.update(gradient, state, p)
        p = optax.apply_updates(p, changes)
        return p, state, optax.incremental_update(p, slow, 1e-4), value

    def arguments():
        x = floats(b, size, size, 4)
        p = shapes(net.init, KEY, x, below(moments, b), below(1000, b))
        return p, shapes(optimizer.init, p), p, A_KEY, x, below(1000, b)

    return update, arguments


@step
def four_bits():
    """Answers by a decoder whose own weights are four bits each, read from a table of sixteen, sizes of 64; thin matrices beside them learn (QLoRA, bf16)."""
    f, hidden, heads, few, layers, words, b, t, rank = 1024, 2816, 16, 4, 4, 32000, 4, 512, 16
    table = np.array([-1.0, -0.6962, -0.5251, -0.3949, -0.2844, -0.1848, -0.0911, 0.0, 0.0796, 0.1609, 0.2461, 0.3379, 0.4407, 0.5626, 0.723, 1.0])
    extents = {
        "q": (f, f),
        "k": (f, f // heads * few),
        "v": (f, f // heads * few),
        "o": (f, f),
        "gate": (f, hidden),
        "up": (f, hidden),
        "down": (hidden, f),
    }

    def weights(packed, n, o):
        halves, sizes, mean, larger = packed
        codes = jnp.stack([halves >> 4, halves & 15], -1).reshape(-1, 64)
        sizes = (sizes.astype(jnp.float32).reshape(-1, 256) / 127 * larger[:, None] + mean).reshape(-1, 1)
        return (jnp.asarray(table, jnp.float32)[codes.astype(jnp.int32)] * sizes).astype(HALF).reshape(n, o)

    def norm(x, gain):
        x = x.astype(jnp.float32)
        return (x * lax.rsqrt(jnp.square(x).mean(-1, keepdims=True) + 1e-5) * gain).astype(HALF)

    def turned(x):
        angle = jnp.arange(t)[:, None] / 10000 ** (jnp.arange(0, 64, 2) / 64)
        cos, sin = jnp.cos(angle)[:, None].astype(HALF), jnp.sin(angle)[:, None].astype(HALF)
        one, other = jnp.split(x, 2, -1)
        return jnp.concatenate([one * cos - other * sin, other * cos + one * sin], -1)

    @jax.checkpoint
    def layer(x, own, beside, key):
        keys = iter(jax.random.split(key, 7))

        def linear(x, name):
            dropped = jnp.where(jax.random.bernoulli(next(keys), 0.95, x.shape), x / HALF(0.95), HALF(0))
            thin = dropped @ beside[name][0].astype(HALF) @ beside[name][1].astype(HALF)
            return x @ weights(own[name], *extents[name]) + thin * HALF(2.0)

        y = norm(x, own["norms"][0])
        q, k, v = (linear(y, n).reshape(b, t, -1, f // heads) for n in "qkv")
        y = jax.nn.dot_product_attention(turned(q), turned(k), v, is_causal=True).reshape(b, t, f)
        x = x + linear(y, "o")
        y = norm(x, own["norms"][1])
        return x + linear(jax.nn.silu(linear(y, "gate")) * linear(y, "up"), "down")

    optimizer = optax.chain(optax.clip_by_global_norm(0.3), optax.adamw(2e-4, b2=0.999, weight_decay=0.0))

    def update(p, state, own, key, text, answered):
        def loss(p):
            x = own["words"][text]
            for one, beside, k in zip(own["layers"], p, jax.random.split(key, layers)):
                x = layer(x, one, beside, k)
            logits = (norm(x, own["norm"]) @ own["say"]).astype(jnp.float32)[:, :-1]
            each = optax.softmax_cross_entropy_with_integer_labels(logits, text[:, 1:])
            return (each * answered[:, 1:]).sum() / jnp.maximum(answered[:, 1:].sum(), 1)

        value, gradient = jax.value_and_grad(loss)(p)
        changes, state = optimizer.update(gradient, state, p)
        return optax.apply_updates(p, changes), state, value

    def arguments():
        typed = lambda kind, *e: jax.ShapeDtypeStruct(e, kind)
        packed = lambda i, o: (typed(jnp.uint8, i * o // 2), typed(jnp.int8, i * o // 64), floats(), floats(i * o // 64 // 256))
        one = {n: packed(*e) for n, e in extents.items()} | {"norms": floats(2, f)}
        p = [{n: (floats(e[0], rank), floats(rank, e[1])) for n, e in extents.items()} for _ in range(layers)]
        own = {"words": typed(HALF, words, f), "layers": [one] * layers, "norm": floats(f), "say": typed(HALF, f, words)}
        return p, shapes(optimizer.init, p), own, A_KEY, below(words, b, t), floats(b, t)

    return update, arguments


@step
def skipped_words():
    """Vectors of 100000 words, each pair of neighbours against five words drawn by how often they come; only rows that were read move (word2vec, Adagrad)."""
    words, f, b, wrong = 100000, 200, 8192, 5

    def update(p, state, key, often, centre, near, rate):
        drawn = jnp.searchsorted(often, jax.random.uniform(key, (b, wrong))).astype(jnp.int32)
        rows = {"in": centre, "out": jnp.concatenate([near[:, None], drawn], 1)}
        read = {n: p[n][i] for n, i in rows.items()}

        def loss(read):
            scores = jnp.einsum("bf,bkf->bk", read["in"], read["out"])
            signs = jnp.where(jnp.arange(wrong + 1) == 0, 1.0, -1.0)
            met = (rows["out"] == near[:, None]) & (jnp.arange(wrong + 1) > 0)
            return -(jnp.where(met, 0, jax.nn.log_sigmoid(signs * scores))).sum(1).mean()

        value, gradient = jax.value_and_grad(loss)(read)
        p, state = dict(p), dict(state)
        for n, i in rows.items():
            i, g = i.reshape(-1), gradient[n].reshape(-1, f)
            state[n] = state[n].at[i].add(jnp.square(g).mean(1))
            p[n] = p[n].at[i].add(-rate * g / (jnp.sqrt(state[n][i]) + 1e-7)[:, None])
        return p, state, value

    def arguments():
        p = {"in": floats(words, f), "out": floats(words, f)}
        return p, {"in": floats(words), "out": floats(words)}, A_KEY, floats(words), below(words, b), below(words, b), floats()

    return update, arguments


@step
def late_matches():
    """Which passage answers a question: the best match of each of its words, summed; a hard wrong one and the batch's others (ColBERT, haiku)."""
    f, heads, out, words, b, asked, told = 384, 6, 128, 30522, 16, 32, 160
    init = hk.initializers.TruncatedNormal(0.02)

    def encode(text, kind):
        norm = lambda x: hk.LayerNorm(-1, True, True)(x)
        drop = lambda x: hk.dropout(hk.next_rng_key(), 0.1, x)
        n, t = text.shape
        heard = text > 0
        x = hk.Embed(words, f, w_init=init, name="words")(text) + hk.Embed(2, f, w_init=init, name="kinds")(jnp.full_like(text, kind))
        x = drop(norm(x + hk.get_parameter("places", (512, f), init=init)[:t]))
        for _ in range(4):
            q, k, v = (hk.Linear(f, w_init=init)(x).reshape(n, t, heads, f // heads) for _ in range(3))
            scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(f // heads)
            weights = drop(jax.nn.softmax(jnp.where(heard[:, None, None], scores, -1e9)))
            y = jnp.einsum("bhqk,bkhd->bqhd", weights, v).reshape(n, t, f)
            x = norm(x + drop(hk.Linear(f, w_init=init)(y)))
            x = norm(x + drop(hk.Linear(f, w_init=init)(jax.nn.gelu(hk.Linear(4 * f, w_init=init)(x), approximate=False))))
        x = hk.Linear(out, with_bias=False)(x)
        return x / jnp.maximum(jnp.linalg.norm(x, axis=-1, keepdims=True), 1e-12)

    shared = hk.to_module(encode)

    def net(question, passages):
        encoder = shared("encoder")
        return encoder(question, 0), encoder(passages, 1)

    def loss(found, question, passages, signs):
        q, d = found
        match = jnp.einsum("qif,djf->qdij", q, d)
        match = jnp.where((passages > 0)[None, :, None] & signs[passages][None, :, None], match, -1e4)
        scores = match.max(-1).sum(-1)
        return optax.softmax_cross_entropy_with_integer_labels(scores, jnp.arange(b)).mean()

    optimizer = optax.chain(optax.clip_by_global_norm(2.0), optax.adamw(optax.linear_schedule(3e-6, 0, 100000), weight_decay=0.01))
    signs = jax.ShapeDtypeStruct((words,), jnp.bool_)
    return haiku_step(net, loss, optimizer, below(words, b, asked), below(words, 2 * b, told), signs, inputs=2)


@step
def hardest_boxes():
    """What is where in an image, among 8732 boxes of six sizes: wanted ones are matched in the step, three of the hardest wrong ones for each (SSD, haiku)."""
    b, kinds, things, side = 8, 21, 24, 300
    grids, counts = (38, 19, 10, 5, 3, 1), (4, 6, 6, 6, 4, 4)
    scales = (0.1, 0.2, 0.375, 0.55, 0.725, 0.9, 1.075)

    def anchors():
        made = []
        for i, (n, count) in enumerate(zip(grids, counts)):
            sizes = [(scales[i],) * 2, (np.sqrt(scales[i] * scales[i + 1]),) * 2]
            for ratio in (2, 3)[: count // 2 - 1]:
                wide = scales[i] * np.sqrt(ratio), scales[i] / np.sqrt(ratio)
                sizes += [wide, wide[::-1]]
            for y in range(n):
                for x in range(n):
                    made += [((x + 0.5) / n, (y + 0.5) / n, *s) for s in sizes]
        return np.clip(np.array(made, np.float32), 0, 1)

    boxes = anchors()
    corners = np.concatenate([boxes[:, :2] - boxes[:, 2:] / 2, boxes[:, :2] + boxes[:, 2:] / 2], 1)

    def net(x):
        conv = lambda f, size=3, stride=1, pad="SAME", rate=1: hk.Conv2D(f, size, stride, rate, padding=pad)
        part = lambda x, *given, **named: jax.nn.relu(conv(*given, **named)(x))
        pool = lambda x, size=2, stride=2: hk.max_pool(x, (size, size, 1), (stride, stride, 1), "SAME")
        for f, count in ((32, 2), (64, 2), (128, 3)):
            for _ in range(count):
                x = part(x, f)
            x = pool(x)
        for _ in range(3):
            x = part(x, 256)
        unit = x * lax.rsqrt(jnp.square(x).sum(-1, keepdims=True) + 1e-10)
        seen = [unit * hk.get_parameter("gain", (256,), init=hk.initializers.Constant(20.0))]
        x = pool(x)
        for _ in range(3):
            x = part(x, 256)
        x = part(part(pool(x, 3, 1), 512, rate=6), 512, 1)
        seen.append(x)
        for few, f, stride, pad in ((128, 256, 2, "SAME"), (64, 128, 2, "SAME"), (64, 128, 1, "VALID"), (64, 128, 1, "VALID")):
            x = part(part(x, few, 1), f, 3, stride, pad)
            seen.append(x)
        heads = [(conv(4 * n)(x).reshape(b, -1, 4), conv(kinds * n)(x).reshape(b, -1, kinds)) for x, n in zip(seen, counts)]
        return tuple(jnp.concatenate(parts, 1) for parts in zip(*heads))

    def matched(wanted, kind):
        low = jnp.maximum(wanted[:, None, :2], corners[:, :2])
        high = jnp.minimum(wanted[:, None, 2:], corners[:, 2:])
        shared = jnp.maximum(high - low, 0).prod(-1)
        area = lambda c: (c[..., 2] - c[..., 0]) * (c[..., 3] - c[..., 1])
        overlap = jnp.where((kind > 0)[:, None], shared / (area(wanted)[:, None] + area(corners) - shared + 1e-9), 0)
        best, which = overlap.max(0), overlap.argmax(0)
        own = overlap.argmax(1)
        best = best.at[own].max(jnp.where(kind > 0, 2.0, 0.0))
        which = which.at[own].set(jnp.arange(things))
        box = wanted[which]
        centre, size = (box[:, :2] + box[:, 2:]) / 2, jnp.maximum(box[:, 2:] - box[:, :2], 1e-4)
        places = jnp.concatenate([(centre - boxes[:, :2]) / boxes[:, 2:] / 0.1, jnp.log(size / boxes[:, 2:]) / 0.2], 1)
        return places, jnp.where(best < 0.5, 0, kind[which])

    def loss(out, images, wanted, kind):
        found, logits = out
        places, labels = jax.vmap(matched)(wanted, kind)
        right = labels > 0
        where = (optax.huber_loss(found, places).sum(-1) * right).sum()
        each = optax.softmax_cross_entropy_with_integer_labels(logits, labels)
        rank = jnp.where(right, 0.0, lax.stop_gradient(each)).argsort(1, descending=True).argsort(1)
        hard = rank < 3 * right.sum(1, keepdims=True)
        return (where + (each * (right | hard)).sum()) / jnp.maximum(right.sum(), 1)

    optimizer = optax.chain(optax.add_decayed_weights(5e-4), optax.sgd(1e-3, 0.9))
    return haiku_step(net, loss, optimizer, floats(b, side, side, 3), floats(b, things, 4), below(kinds, b, things))


@step
def delays():
    """Use of power of 321 households, four days from four: what a series was a while ago, whiles found by Fourier transforms (Autoformer, nnx)."""
    series, f, heads, b, t, ahead, period, top = 321, 256, 8, 24, 96, 96, 25, 4

    def apart(x):
        padded = jnp.concatenate([jnp.repeat(x[:, :1], period // 2, 1), x, jnp.repeat(x[:, -1:], period // 2, 1)], 1)
        level = lax.reduce_window(padded, 0.0, lax.add, (1, period, 1), (1, 1, 1), "VALID") / period
        return x - level, level

    class Correlate(nnx.Module):
        def __init__(self, rngs):
            self.q, self.k, self.v, self.o = (nnx.Linear(f, f, rngs=rngs) for _ in range(4))

        def __call__(self, x, told):
            n = x.shape[1]
            q, k, v = self.q(x), self.k(told), self.v(told)
            m = k.shape[1]
            k, v = ((a[:, :n] if m >= n else jnp.pad(a, ((0, 0), (0, n - m), (0, 0)))) for a in (k, v))
            spectrum = jnp.fft.rfft(q, axis=1) * jnp.conj(jnp.fft.rfft(k, axis=1))
            alike = jnp.fft.irfft(spectrum, n, axis=1).mean(-1)
            _, late = lax.top_k(alike.mean(0), top)
            share = jax.nn.softmax(alike[:, late])
            out = sum(jnp.roll(v, -late[i], 1) * share[:, i, None, None] for i in range(top))
            return self.o(out)

    class Layer(nnx.Module):
        def __init__(self, rngs, decodes):
            self.own, self.other = Correlate(rngs), Correlate(rngs) if decodes else None
            self.up = nnx.Linear(f, 2 * f, use_bias=False, rngs=rngs)
            self.down = nnx.Linear(2 * f, f, use_bias=False, rngs=rngs)
            self.drop = nnx.Dropout(0.05, rngs=rngs)
            self.trend = nnx.Conv(f, series, (3,), padding="CIRCULAR", use_bias=False, rngs=rngs) if decodes else None

        def __call__(self, x, told=None):
            x, level = apart(x + self.drop(self.own(x, x)))
            if self.other:
                x, more = apart(x + self.drop(self.other(x, told)))
                level = level + more
            x, more = apart(x + self.drop(self.down(self.drop(nnx.gelu(self.up(x))))))
            return x, self.trend(level + more) if self.other else None

    class Embed(nnx.Module):
        def __init__(self, rngs):
            self.values = nnx.Conv(series, f, (3,), padding="CIRCULAR", use_bias=False, rngs=rngs)
            self.times = nnx.Linear(4, f, use_bias=False, rngs=rngs)
            self.drop = nnx.Dropout(0.05, rngs=rngs)

        def __call__(self, x, times):
            return self.drop(self.values(x) + self.times(times))

    class Net(nnx.Module):
        def __init__(self, rngs):
            self.before, self.after = Embed(rngs), Embed(rngs)
            self.encoder = nnx.List([Layer(rngs, False) for _ in range(2)])
            self.decoder = nnx.List([Layer(rngs, True)])
            self.norms = nnx.List([nnx.LayerNorm(f, rngs=rngs) for _ in range(2)])
            self.say = nnx.Linear(f, series, rngs=rngs)

        def normed(self, x, i):
            x = self.norms[i](x)
            return x - x.mean(1, keepdims=True)

        def __call__(self, x, times, later):
            season, level = (a[:, -t // 2 :] for a in apart(x))
            season = jnp.pad(season, ((0, 0), (0, ahead), (0, 0)))
            level = jnp.concatenate([level, jnp.broadcast_to(x.mean(1, keepdims=True), (b, ahead, series))], 1)
            told = self.before(x, times)
            for layer in self.encoder:
                told, _ = layer(told)
            told = self.normed(told, 0)
            x = self.after(season, later)
            for layer in self.decoder:
                x, more = layer(x, told)
                level = level + more
            return (level + self.say(self.normed(x, 1)))[:, -ahead:]

    graph, p, others = nnx.split(nnx.eval_shape(lambda: Net(nnx.Rngs(0))), nnx.Param, ...)
    optimizer = optax.adam(1e-4)

    def update(p, state, others, x, times, later, wanted):
        def loss(p):
            net = nnx.merge(graph, p, others, copy=True)
            return jnp.square(net(x, times, later) - wanted).mean(), nnx.split(net, nnx.Param, ...)[2]

        (value, others), gradient = jax.value_and_grad(loss, has_aux=True)(p)
        changes, state = optimizer.update(gradient, state, p)
        return optax.apply_updates(p, changes), state, others, value

    batch = floats(b, t, series), floats(b, t, 4), floats(b, t // 2 + ahead, 4), floats(b, ahead, series)
    return update, lambda: (p, shapes(optimizer.init, p), others, *batch)


@step
def burned_in():
    """Games by an agent with a memory: forty frames to remember, forty to learn from, five rewards ahead, how wrong each was (R2D2, haiku)."""
    b, warm, t, ahead, actions, f = 16, 40, 40, 5, 18, 512
    squash = lambda x: jnp.sign(x) * (jnp.sqrt(jnp.abs(x) + 1) - 1) + 1e-3 * x
    stretch = lambda x: jnp.sign(x) * (jnp.square((jnp.sqrt(1 + 4e-3 * (jnp.abs(x) + 1 + 1e-3)) - 1) / 2e-3) - 1)

    def net(frames, action, reward, again, state):
        n, m = frames.shape[:2]
        x = frames.reshape(n * m, 84, 84, 4).astype(jnp.float32) / 255
        for channels, size, stride in ((32, 8, 4), (64, 4, 2), (64, 3, 1)):
            x = jax.nn.relu(hk.Conv2D(channels, size, stride, padding="VALID")(x))
        x = jax.nn.relu(hk.Linear(f)(x.reshape(n * m, -1))).reshape(n, m, f)
        x = jnp.concatenate([x, jax.nn.one_hot(action, actions), reward[..., None]], -1)
        core = hk.ResetCore(hk.LSTM(f))
        x, state = hk.dynamic_unroll(core, (x, again), state)
        value = hk.nets.MLP([f, 1])(x)
        better = hk.nets.MLP([f, actions])(x)
        return value + better - better.mean(-1, keepdims=True), state

    model = hk.without_apply_rng(hk.transform(net))
    optimizer = optax.chain(optax.clip_by_global_norm(40.0), optax.adam(1e-4, eps=1e-3))

    def update(p, state, slow, count, memory, frames, action, reward, fade, again, weights):
        start = hk.LSTMState(*memory)
        before = lambda a: jnp.concatenate([jnp.zeros_like(a[:1]), a[:-1]])
        given = frames, before(action), before(reward), again
        first, rest = ([a[s] for a in given] for s in (slice(None, warm), slice(warm, None)))
        _, own = model.apply(p, *first, start)
        _, other = model.apply(slow, *first, start)
        own = lax.stop_gradient(own)

        def loss(p):
            q, _ = model.apply(p, *rest, own)
            later, _ = model.apply(slow, *rest, other)
            best = jnp.take_along_axis(later, q.argmax(-1)[..., None], -1)[..., 0]
            value = stretch(best[ahead:])
            for i in reversed(range(ahead)):
                value = reward[warm + i : warm + i + t] + fade[warm + i : warm + i + t] * value
            chosen = jnp.take_along_axis(q[:t], action[warm : warm + t, :, None], -1)[..., 0]
            wrong = squash(lax.stop_gradient(value)) - chosen
            return 0.5 * (weights * jnp.square(wrong).sum(0)).mean(), jnp.abs(wrong)

        (value, wrong), gradient = jax.value_and_grad(loss, has_aux=True)(p)
        changes, state = optimizer.update(gradient, state, p)
        p = optax.apply_updates(p, changes)
        slow = optax.periodic_update(p, slow, count, 2500)
        return p, state, slow, count + 1, 0.9 * wrong.max(0) + 0.1 * wrong.mean(0), value

    def arguments():
        n = warm + t + ahead
        frames, again = jax.ShapeDtypeStruct((n, b, 84, 84, 4), jnp.uint8), jax.ShapeDtypeStruct((n, b), jnp.bool_)
        memory = floats(b, f), floats(b, f)
        batch = frames, below(actions, n, b), floats(n, b), floats(n, b), again
        p = shapes(lambda k, m, a, c, r, _, g: model.init(k, a, c, r, g, hk.LSTMState(*m)), KEY, memory, *batch)
        return p, shapes(optimizer.init, p), p, jax.ShapeDtypeStruct((), jnp.int32), memory, *batch, floats(b)

    return update, arguments


@step
def matched_rows():
    """How far everything is from two cameras: features of one slid along the other's, convolutions over what comes of it, a soft minimum (GC-Net)."""
    b, height, width, far, f = 2, 128, 256, 96, 24
    conv = lambda f, size=3, stride=1: nn.Conv(f, (size, size), (stride, stride), use_bias=False)
    deep = lambda f, stride=1: nn.Conv(f, (3, 3, 3), (stride,) * 3, use_bias=False)

    class Look(nn.Module):
        @nn.compact
        def __call__(self, x):
            x = nn.relu(normalised()(conv(f, 5, 2)(x)))
            for _ in range(4):
                y = nn.relu(normalised()(conv(f)(x)))
                x = nn.relu(x + normalised()(conv(f)(y)))
            return nn.Conv(f, (3, 3))(x)

    class Net(nn.Module):
        @nn.compact
        def __call__(self, pair):
            left, right = jnp.split(Look()(jnp.concatenate(pair)), 2)
            slid = [jnp.pad(right, ((0, 0), (0, 0), (d, 0), (0, 0)))[:, :, : width // 2] for d in range(far // 2)]
            seen = [jnp.where((jnp.arange(width // 2) >= d)[:, None], left, 0) for d in range(far // 2)]
            x = jnp.concatenate([jnp.stack(seen, 1), jnp.stack(slid, 1)], -1)
            part = lambda x, f, stride=1: nn.relu(normalised()(deep(f, stride)(x)))
            skips = [part(part(x, f), f)]
            for channels in (2 * f, 2 * f, 4 * f):
                x = part(skips[-1], channels, 2)
                skips.append(part(x, channels))
            x = skips.pop()
            for channels in (2 * f, 2 * f, f):
                x = normalised()(nn.ConvTranspose(channels, (3, 3, 3), (2, 2, 2), use_bias=False)(x))
                x = nn.relu(x + skips.pop())
            cost = nn.ConvTranspose(1, (3, 3, 3), (2, 2, 2))(x)[..., 0]
            return (nn.softmax(-cost, axis=1) * jnp.arange(far)[:, None, None]).sum(1)

    def loss(out, pair, wanted):
        known = (wanted > 0) & (wanted < far)
        return (jnp.abs(out - wanted) * known).sum() / jnp.maximum(known.sum(), 1)

    pair = floats(b, height, width, 3), floats(b, height, width, 3)
    return flax_step(Net(), loss, optax.rmsprop(1e-3, 0.9), pair, floats(b, height, width))


STEPS.update(MORE)

if __name__ == "__main__":
    print_named(STEPS, STEPS.stablehlo, __doc__)
