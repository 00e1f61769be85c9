"""Twelve more training steps that were measured before anybody looked at them, like those of first_tries.py.

    python bench/programs/twelfth_tries.py hashed_attention > hashed_attention.mlir

twelfth_tries.md says what came out; third_tries.py says how to measure one. Needs jax, flax, dm-haiku, equinox, keras and optax.
"""

import os

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["KERAS_BACKEND"] = "jax"

import equinox as eqx
import flax.linen as nn
import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.experimental.ode import odeint
from library_steps import equinox
from named_steps import NamedSteps, cross_entropy, print_named, square
from ordinary_steps import floats, next_words, step_of_loss, training_step

lax = jax.lax
KEY = jax.random.PRNGKey(0)
STEPS = NamedSteps()
ADAM = optax.adamw(1e-3)
step = STEPS.step


def below(limit, *extents):
    return np.random.default_rng(limit).integers(limit, size=extents, dtype=np.int32)


def haiku(function, loss_of, optimizer, inputs, *rest):
    model = hk.without_apply_rng(hk.transform(function))
    return step_of_loss(
        lambda p, *batch: loss_of(model.apply(p, *batch[: len(inputs)]), *batch), optimizer, lambda: jax.eval_shape(model.init, KEY, *inputs), *inputs, *rest
    )


@step
def hashed_attention():
    """Words attend to words whose keys fall into the same bucket, sorted by bucket, chunk by chunk (Reformer)."""

    class Attend(nn.Module):
        @nn.compact
        def __call__(self, x, heads=4, chunk=60, buckets=16):
            b, s, f = x.shape
            split = lambda y: y.reshape(b, s, heads, -1).transpose(0, 2, 1, 3)
            keys, values = split(nn.Dense(f, use_bias=False)(x)), split(nn.Dense(f, use_bias=False)(x))
            turn = np.random.default_rng(1).standard_normal((f // heads, buckets // 2)).astype(np.float32)
            at = lax.stop_gradient(keys) @ turn
            bucket = jnp.argmax(jnp.concatenate([at, -at], -1), -1)
            order = jnp.argsort(bucket * s + jnp.arange(s), -1)
            back = jnp.argsort(order, -1)
            chunks = lambda y: y.reshape(b, heads, s // chunk, chunk, *y.shape[3:])
            before = lambda y: jnp.concatenate([y, jnp.roll(y, 1, 2)], 3)
            sort = lambda y: chunks(jnp.take_along_axis(y, order[..., None], 2))
            q, v, place = sort(keys), before(sort(values)), chunks(order)
            k = before(q / jnp.linalg.norm(q + 1e-6, axis=-1, keepdims=True))
            scores = jnp.einsum("bhcid,bhcjd->bhcij", q, k) * q.shape[-1] ** -0.5
            apart = place[..., :, None] - before(place)[..., None, :]
            scores = jnp.where(apart < 0, -1e9, jnp.where(apart == 0, -1e5, scores))
            y = jnp.einsum("bhcij,bhcjd->bhcid", nn.softmax(scores), v).reshape(b, heads, s, -1)
            y = jnp.take_along_axis(y, back[..., None], 2)
            return nn.Dense(f)(y.transpose(0, 2, 1, 3).reshape(b, s, f))

    class Net(nn.Module):
        @nn.compact
        def __call__(self, words):
            x = nn.Embed(3000, 160)(words) + self.param("places", nn.initializers.normal(0.02), (480, 160))
            for _ in range(2):
                x = x + Attend()(nn.LayerNorm()(x))
                x = x + nn.Dense(160)(nn.gelu(nn.Dense(480)(nn.LayerNorm()(x))))
            return nn.Dense(3000)(nn.LayerNorm()(x))

    return training_step(Net(), next_words, ADAM, below(3000, 4, 480))


@step
def long_filters():
    """Filters as long as the sequence, made by a net of sines and applied by Fourier transforms, with gates (Hyena)."""
    length, f = 768, 96

    class Mix(nn.Module):
        @nn.compact
        def __call__(self, x):
            t = jnp.linspace(0, 1, length)[:, None]
            bands = 2 * jnp.pi * jnp.arange(1, 9) * t
            h = jnp.concatenate([t, jnp.cos(bands), jnp.sin(bands)], -1)
            for _ in range(2):
                h = jnp.sin(nn.Dense(64)(h))
            h = nn.Dense(2 * f)(h).reshape(length, 2, f) * jnp.exp(-t[:, None] * jnp.logspace(0, 2, f))
            y = nn.Dense(3 * f)(x)
            y = nn.Conv(3 * f, (3,), padding=((2, 0),), feature_group_count=3 * f)(y)
            v, *gates = jnp.split(y, 3, -1)
            for i, gate in enumerate(gates):
                filtered = jnp.fft.irfft(jnp.fft.rfft(v, 2 * length, 1) * jnp.fft.rfft(h[:, i], 2 * length, 0), 2 * length, 1)[:, :length]
                v = gate * (filtered + v * self.param(f"through{i}", nn.initializers.ones, (f,)))
            return nn.Dense(f)(v)

    class Net(nn.Module):
        @nn.compact
        def __call__(self, words):
            table = nn.Embed(2000, f)
            x = table(words)
            for _ in range(2):
                x = x + Mix()(nn.LayerNorm()(x))
                x = x + nn.Dense(f)(nn.gelu(nn.Dense(3 * f)(nn.LayerNorm()(x))))
            return table.attend(nn.LayerNorm()(x))

    return training_step(Net(), next_words, ADAM, below(2000, 3, length))


@step
def copied_words():
    """A summary whose words come from a vocabulary or out of the text, with a penalty on reading twice (pointer-generator)."""

    def net(text, summary):
        table = hk.Embed(2000, 96)
        x = table(text).swapaxes(0, 1)
        forward, _ = hk.dynamic_unroll(hk.LSTM(96), x, hk.LSTM(96).initial_state(x.shape[1]))
        backward, _ = hk.dynamic_unroll(hk.LSTM(96, name="back"), x[::-1], hk.LSTM(96).initial_state(x.shape[1]))
        memory = jnp.concatenate([forward, backward[::-1]], -1).swapaxes(0, 1)
        keys = hk.Linear(128)(memory)
        cell, query, score, gate = hk.LSTM(128), hk.Linear(128), hk.Linear(1), hk.Linear(1)
        seen_before = hk.Linear(128, with_bias=False)
        words = hk.Linear(2000)

        def speak(carry, x):
            state, seen, cover = carry
            h, state = cell(jnp.concatenate([x, seen], -1), state)
            scores = score(jnp.tanh(keys + query(h)[:, None] + seen_before(cover[..., None])))[..., 0]
            share = jax.nn.softmax(scores)
            seen = jnp.einsum("bs,bsf->bf", share, memory)
            twice = jnp.minimum(share, cover).sum(-1)
            return (state, seen, cover + share), (jnp.concatenate([h, seen, x], -1), share, twice)

        b, s = text.shape
        start = (cell.initial_state(b), jnp.zeros((b, memory.shape[-1])), jnp.zeros((b, s)))
        _, (h, share, twice) = hk.scan(speak, start, table(summary).swapaxes(0, 1))
        own = jax.nn.sigmoid(gate(h))
        made = own * jax.nn.softmax(words(h))
        copied = jax.vmap(lambda m, w: m.at[jnp.arange(b)[:, None], text].add(w))(made, (1 - own) * share)
        return copied, twice

    def loss(out, text, summary):
        made, twice = out
        said = jnp.take_along_axis(made[:-1], summary.T[1:, :, None], -1)
        return -jnp.log(said + 1e-9).mean() + twice.mean()

    return haiku(net, loss, optax.chain(optax.clip_by_global_norm(2.0), optax.adagrad(0.15)), (below(2000, 13, 61), below(2000, 13, 19)))


@step
def returns_in_bins():
    """How likely each of 51 returns is, by an agent with noise in its weights; the next ones are spread over the bins (C51)."""
    actions, bins = 6, 51
    support = jnp.linspace(-10.0, 10.0, bins)

    class Noisy(eqx.Module):
        mean: eqx.nn.Linear
        spread: eqx.nn.Linear

        def __init__(self, fan_in, fan_out, key):
            self.mean, self.spread = (eqx.nn.Linear(fan_in, fan_out, key=k) for k in jax.random.split(key))

        def __call__(self, x, key):
            a, b = jax.random.split(key)
            f = lambda k, n: jnp.sign(z := jax.random.normal(k, (n,))) * jnp.sqrt(jnp.abs(z))
            left, right = f(a, x.size), f(b, self.mean.out_features)
            return self.mean(x) + right * (self.spread.weight @ (x * left) + self.spread.bias)

    class Agent(eqx.Module):
        look: list
        value: list
        gain: list

        def __init__(self, key):
            k = jax.random.split(key, 7)
            self.look = [eqx.nn.Conv2d(4, 32, 5, 3, key=k[0]), eqx.nn.Conv2d(32, 64, 3, 2, key=k[1]), eqx.nn.Conv2d(64, 64, 3, 1, key=k[2])]
            self.value = [Noisy(1024, 256, k[3]), Noisy(256, bins, k[4])]
            self.gain = [Noisy(1024, 256, k[5]), Noisy(256, actions * bins, k[6])]

        def __call__(self, x, key):
            for layer in self.look:
                x = jax.nn.relu(layer(x))
            x, k = x.reshape(-1), jax.random.split(key, 4)
            value = self.value[1](jax.nn.relu(self.value[0](x, k[0])), k[1])
            gain = self.gain[1](jax.nn.relu(self.gain[0](x, k[2])), k[3]).reshape(actions, bins)
            return jax.nn.log_softmax(value + gain - gain.mean(0))

    def loss(both, image, action, reward, following, ended):
        agent, slow = both
        keys = jax.random.split(KEY, 3)
        every = lambda net, x, key: jax.vmap(net, (0, None))(x, key)
        best = (jnp.exp(every(agent, following, keys[0])) * support).sum(-1).argmax(-1)
        rows = jnp.arange(len(action))
        chance = jnp.exp(every(slow, following, keys[1])[rows, best])
        moved = jnp.clip(reward[:, None] + 0.97 * (1 - ended)[:, None] * support, -10, 10)
        at = (moved + 10) / 0.4
        low = jnp.clip(jnp.floor(at), 0, bins - 2).astype(jnp.int32)
        share = at - low
        wanted = jnp.zeros_like(chance).at[rows[:, None], low].add(chance * (1 - share)).at[rows[:, None], low + 1].add(chance * share)
        said = every(agent, image, keys[2])[rows, action]
        return -(lax.stop_gradient(wanted) * said).sum(-1).mean()

    k = jax.random.split(KEY)
    batch = (floats(32, 4, 44, 44), below(actions, 32), floats(32), floats(32, 4, 44, 44), floats(32))
    return equinox((Agent(k[0]), Agent(k[1])), batch, loss)


@step
def measured_steps():
    """A field that carries points for as many steps as it needs, each as long as its error allows, and back (adaptive neural ODE)."""

    class Field(nn.Module):
        @nn.compact
        def __call__(self, t, x):
            t = jnp.broadcast_to(t, (*x.shape[:-1], 1))
            for f in (96, 96):
                x = nn.tanh(nn.Dense(f)(jnp.concatenate([x, t], -1)))
            return nn.Dense(10)(jnp.concatenate([x, t], -1))

    model = Field()

    def loss(p, x, y):
        x = x @ p["in"]
        out = odeint(lambda x, t, p: model.apply(p, t, x), x, jnp.array([0.0, 1.0]), p["field"], rtol=1e-3, atol=1e-3)[-1]
        return cross_entropy(out, y)

    def parameters():
        return {"in": floats(28, 10), "field": jax.eval_shape(model.init, KEY, floats(), floats(192, 10))}

    return step_of_loss(loss, optax.adam(1e-3), parameters, floats(192, 28), below(10, 192))


@step
def filtered_states():
    """How likely series are, by a filter of what cannot be seen, all of its matrices learnt (Kalman)."""
    hidden, seen = 6, 5

    def one(p, y):
        moves, looks = jnp.eye(hidden) + 0.1 * p["moves"], p["looks"]
        noise = lambda m: jnp.tril(m) @ jnp.tril(m).T + 0.5 * jnp.eye(len(m))
        within, around = noise(p["within"]), noise(p["around"])

        def update(carry, y):
            mean, cov = carry
            mean, cov = moves @ mean, moves @ cov @ moves.T + within
            root = jnp.linalg.cholesky(looks @ cov @ looks.T + around)
            off = jax.scipy.linalg.solve_triangular(root, y - looks @ mean, lower=True)
            gain = jax.scipy.linalg.cho_solve((root, True), looks @ cov).T
            mean, cov = mean + gain @ (y - looks @ mean), cov - gain @ looks @ cov
            return (mean, (cov + cov.T) / 2), -0.5 * (off @ off) - jnp.log(jnp.diagonal(root)).sum()

        _, chances = lax.scan(update, (p["start"], jnp.eye(hidden)), y)
        return chances.mean()

    def parameters():
        return {
            "moves": floats(hidden, hidden),
            "looks": floats(seen, hidden),
            "within": floats(hidden, hidden),
            "around": floats(seen, seen),
            "start": floats(hidden),
        }

    loss = lambda p, series: -jax.vmap(one, (None, 0))(p, series).mean()
    return step_of_loss(loss, optax.chain(optax.clip_by_global_norm(1.0), optax.adam(1e-2)), parameters, floats(48, 100, seen))


@step
def moved_kernels():
    """Convolutions that read each of their nine places where a net says, between pixels (deformable convolutions), bf16."""

    class Moved(nn.Module):
        f: int

        @nn.compact
        def __call__(self, x):
            b, h, w, c = x.shape
            said = nn.Conv(27, (3, 3), kernel_init=nn.initializers.normal(0.02), dtype=jnp.float32)(x)
            dy, dx, weight = said[..., :9], said[..., 9:18], nn.sigmoid(said[..., 18:])
            tap = jnp.arange(9)
            at_y = jnp.arange(h)[:, None, None] + tap // 3 - 1 + dy
            at_x = jnp.arange(w)[:, None] + tap % 3 - 1 + dx
            y0, x0 = jnp.floor(at_y), jnp.floor(at_x)
            taken = 0
            for oy in (0, 1):
                for ox in (0, 1):
                    yy, xx = y0 + oy, x0 + ox
                    inside = (yy >= 0) & (yy < h) & (xx >= 0) & (xx < w)
                    part = weight * inside * (1 - jnp.abs(at_y - yy)) * (1 - jnp.abs(at_x - xx))
                    rows = (jnp.clip(yy, 0, h - 1) * w + jnp.clip(xx, 0, w - 1)).astype(jnp.int32).reshape(b, -1)
                    values = jax.vmap(lambda image, r: image[r])(x.reshape(b, h * w, c), rows).reshape(b, h, w, 9, c)
                    taken = taken + values * part[..., None].astype(x.dtype)
            return nn.Dense(self.f, dtype=jnp.bfloat16)(taken.reshape(b, h, w, 9 * c))

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            x = x.astype(jnp.bfloat16)
            x = nn.relu(nn.GroupNorm(8)(nn.Conv(32, (3, 3), dtype=jnp.bfloat16)(x)))
            x = nn.max_pool(x, (2, 2), (2, 2))
            x = x + nn.relu(nn.GroupNorm(8)(Moved(32)(x)))
            x = nn.relu(nn.GroupNorm(8)(nn.Conv(64, (3, 3), (2, 2), dtype=jnp.bfloat16)(x)))
            x = x + nn.relu(nn.GroupNorm(8)(Moved(64)(x)))
            return nn.Dense(20)(x.mean((1, 2)).astype(jnp.float32))

    return training_step(Net(), lambda out, x, kinds: cross_entropy(out, kinds), optax.sgd(0.05, 0.9, nesterov=True), floats(10, 48, 48, 3), below(20, 10))


@step
def sound_masks():
    """Speech out of noise: a spectrum times a complex mask, judged as sound and at three resolutions of its spectrum."""

    def frames(x, size, hop):
        count = (x.shape[-1] - size) // hop + 1
        return x[:, np.arange(count)[:, None] * hop + np.arange(size)]

    def spectrum(x, size, hop):
        return jnp.fft.rfft(frames(x, size, hop) * jnp.hanning(size), axis=-1)

    class Net(nn.Module):
        @nn.compact
        def __call__(self, sound):
            s = spectrum(sound, 256, 128)
            x = jnp.stack([s.real, s.imag, jnp.log(jnp.abs(s) + 1e-3)], -1)
            for f in (16, 32):
                x = nn.relu(nn.LayerNorm()(nn.Conv(f, (3, 5), (1, 2))(x)))
            y = nn.RNN(nn.GRUCell(96))(x.reshape(*x.shape[:2], -1))
            mask = nn.Dense(2 * s.shape[-1])(y).reshape(*s.shape, 2)
            s = s * lax.complex(jnp.tanh(mask[..., 0]), jnp.tanh(mask[..., 1]))
            parts = jnp.fft.irfft(s, 256, -1) * jnp.hanning(256)
            count = parts.shape[1]
            made = jnp.zeros((len(sound), (count + 1) * 128))
            return made.at[:, : count * 128].add(parts[..., :128].reshape(len(sound), -1)).at[:, 128:].add(parts[..., 128:].reshape(len(sound), -1))

    def loss(made, sound, clean):
        clean = clean[:, : made.shape[1]]
        scale = (made * clean).sum(-1, keepdims=True) / (clean * clean).sum(-1, keepdims=True)
        total = -10 * jnp.log10((scale * clean).var(-1) / (made - scale * clean).var(-1)).mean()
        for size in (128, 512, 1024):
            a, b = (jnp.sqrt(z.real**2 + z.imag**2 + 1e-7) for z in (spectrum(made, size, size // 4), spectrum(clean, size, size // 4)))
            total += jnp.linalg.norm(a - b) / jnp.linalg.norm(b) + jnp.abs(jnp.log(a) - jnp.log(b)).mean()
        return total

    return training_step(Net(), loss, ADAM, floats(6, 8192), floats(6, 8192))


@step
def pondered_words():
    """One layer that is applied until each word has had enough, at most six times (universal transformer, ACT)."""
    width, heads = 144, 6

    def net(words):
        b, s = words.shape
        x = hk.Embed(1500, width)(words)
        attend = hk.MultiHeadAttention(heads, width // heads, w_init=hk.initializers.VarianceScaling(1.0))
        mlp = hk.nets.MLP([4 * width, width], activation=jax.nn.gelu)
        norms = [hk.LayerNorm(-1, True, True) for _ in range(2)]
        halt = hk.Linear(1, b_init=hk.initializers.Constant(1.0))
        turns = hk.get_parameter("turns", (6, width), init=hk.initializers.RandomNormal(0.02))
        mask = jnp.tril(jnp.ones((s, s), bool))[None, None]

        def think(carry, turn):
            x, done, left, made, count = carry
            x = x + turn
            h = norms[0](x)
            x = x + attend(h, h, h, mask=mask)
            x = x + mlp(norms[1](x))
            p = jax.nn.sigmoid(halt(x))[..., 0]
            running = (done < 0.99).astype(x.dtype)
            ends = (done + p * running >= 0.99) * running
            share = jnp.where(ends > 0, left, p * running)
            made = made + share[..., None] * x
            return (x, done + share, left - share, made, count + running), None

        zero = jnp.zeros((b, s))
        (_, _, left, made, count), _ = hk.scan(think, (x, zero, zero + 1, jnp.zeros_like(x), zero), turns)
        return hk.Linear(1500)(made), (count + left).mean()

    loss = lambda out, words: next_words(out[0], words) + 0.01 * out[1]
    return haiku(net, loss, optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(3e-4)), (below(1500, 7, 101),))


@step
def relations():
    """Kinds of nodes from seven relations between them, whose matrices are sums of four (R-GCN)."""
    nodes, edges, kinds, bases = 1003, 5009, 7, 4

    class Layer(eqx.Module):
        basis: jax.Array
        share: jax.Array
        own: eqx.nn.Linear

        def __init__(self, fan_in, fan_out, key):
            k = jax.random.split(key, 3)
            self.basis = jax.random.normal(k[0], (bases, fan_in, fan_out)) * fan_in**-0.5
            self.share = jax.random.normal(k[1], (kinds, bases))
            self.own = eqx.nn.Linear(fan_in, fan_out, key=k[2])

        def __call__(self, x, here, there, kind):
            messages = jnp.einsum("nf,bfg->nbg", x, self.basis)[here]
            messages = jnp.einsum("ebg,eb->eg", messages, self.share[kind])
            pair = there * kinds + kind
            count = jax.ops.segment_sum(jnp.ones(edges), pair, nodes * kinds)
            messages = messages / count[pair][:, None]
            return jax.ops.segment_sum(messages, there, nodes) + jax.vmap(self.own)(x)

    class Net(eqx.Module):
        table: jax.Array
        layers: list

        def __init__(self, key):
            k = jax.random.split(key, 4)
            self.table = jax.random.normal(k[0], (nodes, 50)) * 0.1
            self.layers = [Layer(50, 64, k[1]), Layer(64, 64, k[2]), Layer(64, 11, k[3])]

        def __call__(self, here, there, kind):
            x = self.table
            for i, layer in enumerate(self.layers):
                x = layer(x, here, there, kind)
                x = jax.nn.relu(x) if i < 2 else x
            return x

    def loss(net, here, there, kind, some, wanted):
        return cross_entropy(net(here, there, kind)[some], wanted) + 5e-4 * sum((layer.share**2).sum() for layer in net.layers)

    return equinox(Net(KEY), (below(nodes, edges), below(nodes, edges)[::-1].copy(), below(kinds, edges), below(nodes, 140), below(11, 140)), loss)


@step
def frames_of_residues():
    """Where residues of a protein are and how they are turned, by attention that knows points in space (AlphaFold's structure module)."""
    heads, points, width = 4, 4, 96

    def turned(rotation, x):
        return jnp.einsum("...ij,...pj->...pi", rotation, x)

    class Attend(nn.Module):
        @nn.compact
        def __call__(self, x, pair, rotation, place):
            b, r, _ = x.shape
            q, k, v = (nn.DenseGeneral((heads, 16))(x) for _ in range(3))
            spots = lambda n: (turned(rotation, nn.Dense(heads * n * 3)(x).reshape(b, r, heads * n, 3)) + place[:, :, None]).reshape(b, r, heads, n, 3)
            at_q, at_k, at_v = spots(points), spots(points), spots(2 * points)
            scale = nn.softplus(self.param("scale", nn.initializers.ones, (heads,)))
            apart = jnp.square(at_q[:, :, None] - at_k[:, None]).sum((-1, -2))
            scores = jnp.einsum("bihd,bjhd->bijh", q, k) / 4 + nn.Dense(heads)(pair) - 0.1 * scale * apart
            share = nn.softmax(scores * 3**-0.5, 2)
            plain = jnp.einsum("bijh,bjhd->bihd", share, v).reshape(b, r, -1)
            of_pairs = jnp.einsum("bijh,bijf->bihf", share, pair).reshape(b, r, -1)
            spots = jnp.einsum("bijh,bjhpc->bihpc", share, at_v).reshape(b, r, -1, 3) - place[:, :, None]
            spots = turned(rotation.swapaxes(-1, -2), spots)
            length = jnp.sqrt(jnp.square(spots).sum(-1) + 1e-8)
            return nn.Dense(width)(jnp.concatenate([plain, of_pairs, spots.reshape(b, r, -1), length], -1))

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x, pair):
            b, r, _ = x.shape
            x, pair = nn.Dense(width)(x), nn.LayerNorm()(pair)
            rotation, place = jnp.broadcast_to(jnp.eye(3), (b, r, 3, 3)), jnp.zeros((b, r, 3))
            attend, act, move = Attend(), [nn.Dense(width) for _ in range(2)], nn.Dense(6)
            norms, made = [nn.LayerNorm() for _ in range(2)], []
            for _ in range(4):
                x = norms[0](x + attend(x, pair, rotation, place))
                x = norms[1](x + act[1](nn.relu(act[0](x))))
                change = move(x)
                q = jnp.concatenate([jnp.ones((b, r, 1)), change[..., :3]], -1)
                w, i, j, k = jnp.moveaxis(q / jnp.linalg.norm(q, axis=-1, keepdims=True), -1, 0)
                turn = jnp.stack(
                    [
                        w * w + i * i - j * j - k * k,
                        2 * (i * j - w * k),
                        2 * (i * k + w * j),
                        2 * (i * j + w * k),
                        w * w - i * i + j * j - k * k,
                        2 * (j * k - w * i),
                        2 * (i * k - w * j),
                        2 * (j * k + w * i),
                        w * w - i * i - j * j + k * k,
                    ],
                    -1,
                )
                place = place + jnp.einsum("brij,brj->bri", rotation, change[..., 3:])
                rotation = rotation @ turn.reshape(b, r, 3, 3)
                made.append((rotation, place))
                rotation = lax.stop_gradient(rotation)
            return made

    def loss(made, x, pair, rotation, place):
        local = lambda rotation, place: jnp.einsum("bikc,bijk->bijc", rotation, place[:, None] - place[:, :, None])
        wanted = local(rotation, place)
        error = lambda found: jnp.minimum(jnp.sqrt(jnp.square(found - wanted).sum(-1) + 1e-4), 10).mean() / 10
        return sum(error(local(*frame)) for frame in made) / len(made)

    return training_step(Net(), loss, optax.adam(1e-3), floats(2, 67, 80), floats(2, 67, 67, 48), floats(2, 67, 3, 3), floats(2, 67, 3), inputs=2)


@step
def few_shots():
    """Letters of five kinds by the mean of five examples each, a net of Keras and its own optimiser (prototypical nets)."""
    import keras

    layers = [keras.Input((28, 28, 1))]
    for _ in range(4):
        layers += [keras.layers.Conv2D(64, 3, padding="same"), keras.layers.BatchNormalization(), keras.layers.ReLU(), keras.layers.MaxPooling2D()]
    model = keras.Sequential([*layers, keras.layers.Flatten()])
    optimizer = keras.optimizers.Adam(1e-3)
    optimizer.build(model.trainable_variables)

    def update(trained, state, others, images, asked, kinds):
        def loss(trained):
            out, changed = model.stateless_call(trained, others, jnp.concatenate([images, asked]), training=True)
            means = out[: len(images)].reshape(5, 5, -1).mean(1)
            apart = jnp.square(out[len(images) :, None] - means).sum(-1)
            return cross_entropy(-apart, kinds), changed

        (value, changed), gradients = jax.value_and_grad(loss, has_aux=True)(trained)
        trained, state = optimizer.stateless_apply(state, gradients, trained)
        return trained, state, changed, value

    def arguments():
        shapes = lambda variables: [jax.ShapeDtypeStruct(v.shape, v.dtype) for v in variables]
        return (
            shapes(model.trainable_variables),
            shapes(optimizer.variables),
            shapes(model.non_trainable_variables),
            floats(25, 28, 28, 1),
            floats(40, 28, 28, 1),
            below(5, 40),
        )

    return update, arguments


if __name__ == "__main__":
    print_named(STEPS, STEPS.stablehlo, __doc__)
