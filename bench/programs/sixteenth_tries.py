"""Twenty-four more training steps, and a few of inference, that were measured before anybody looked at them, like those of first_tries.py.

    python bench/programs/sixteenth_tries.py joined_resolutions > joined_resolutions.mlir

third_tries.py says how to measure one. Needs jax, flax, dm-haiku, equinox, jraph, keras and optax.
"""

import os

os.environ["JAX_PLATFORMS"] = "cpu"

import flax.linen as nn
import haiku as hk
import jax
import jax.numpy as jnp
import jraph
import numpy as np
import optax
from flax import nnx
from model_steps import A_KEY, KEY, flax_step, haiku_step, normalised, shapes
from named_steps import NamedSteps, print_named
from ordinary_steps import floats, next_words, step_of_loss
from sixteenth_more import STEPS as MORE
from twelfth_tries import below

lax = jax.lax
HALF = jnp.bfloat16
STEPS = NamedSteps()
step = STEPS.step


@step
def joined_resolutions():
    """Seventeen joints of people: branches at three resolutions side by side tell each other what they see; the hardest joints count (HRNet)."""
    conv = lambda f, size=3, stride=1: nn.Conv(f, (size, size), (stride, stride), use_bias=False)

    class Block(nn.Module):
        @nn.compact
        def __call__(self, x):
            y = nn.relu(normalised()(conv(x.shape[-1])(x)))
            return nn.relu(x + normalised()(conv(x.shape[-1])(y)))

    class Fuse(nn.Module):
        @nn.compact
        def __call__(self, branches):
            out = []
            for i, own in enumerate(branches):
                total = own
                for j, x in enumerate(branches):
                    if j > i:
                        x = normalised()(conv(own.shape[-1], 1)(x))
                        total = total + jax.image.resize(x, own.shape, "nearest")
                    for k in range(j, i):
                        x = normalised()(conv(own.shape[-1] if k == i - 1 else x.shape[-1], 3, 2)(x))
                        x = nn.relu(x) if k < i - 1 else x
                    total = total + x if j < i else total
                out.append(nn.relu(total))
            return out

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            x = nn.relu(normalised()(conv(64, 3, 2)(x)))
            x = nn.relu(normalised()(conv(64, 3, 2)(x)))
            branches = [nn.relu(normalised()(conv(32)(Block()(x))))]
            for f, modules in ((64, 1), (128, 2)):
                branches.append(nn.relu(normalised()(conv(f, 3, 2)(branches[-1]))))
                for _ in range(modules):
                    branches = Fuse()([Block()(Block()(x)) for x in branches])
            return nn.Conv(17, (1, 1))(branches[0])

    def loss(out, x, wanted, seen):
        each = jnp.square(out - wanted).mean((1, 2)) * seen
        hardest, _ = lax.top_k(each, 8)
        return (each.mean() + hardest.mean()) / 2

    return flax_step(Net(), loss, optax.adam(1e-3), floats(12, 192, 144, 3), floats(12, 48, 36, 17), floats(12, 17))


@step
def corrupted_spans():
    """Spans that are missing from texts are written by a decoder, places told by buckets of distances (T5 with gated layers, Adafactor, bf16)."""
    f, heads, hidden, words = 384, 6, 1024, 32128

    def bucket(far, both):
        count, most = (16, 128) if both else (32, 128)
        start = jnp.where(far > 0, count, 0) if both else 0
        far = jnp.abs(far) if both else jnp.maximum(-far, 0)
        exact = count // 2
        wide = exact + (jnp.log(jnp.maximum(far, 1) / exact) / np.log(most / exact) * (count - exact)).astype(jnp.int32)
        return start + jnp.where(far < exact, far, jnp.minimum(wide, count - 1))

    class Attend(nn.Module):
        @nn.compact
        def __call__(self, x, told, bias):
            q, k, v = (nn.DenseGeneral((heads, 64), use_bias=False, dtype=HALF)(y) for y in (x, told, told))
            scores = jnp.einsum("bqhd,bkhd->bhqk", q, k).astype(jnp.float32) + bias
            weights = nn.Dropout(0.1, deterministic=False)(nn.softmax(scores).astype(HALF))
            return nn.DenseGeneral(f, (-2, -1), use_bias=False, dtype=HALF)(jnp.einsum("bhqk,bkhd->bqhd", weights, v))

    class Stack(nn.Module):
        causal: bool

        @nn.compact
        def __call__(self, x, told=None, heard=None):
            t, drop = x.shape[1], nn.Dropout(0.1, deterministic=False)
            far = jnp.arange(t) - jnp.arange(t)[:, None]
            bias = nn.Embed(32, heads)(bucket(far, not self.causal)).transpose(2, 0, 1)
            bias = jnp.where(far > 0, -1e9, bias) if self.causal else bias + jnp.where(heard, 0, -1e9)[:, None, None]
            for _ in range(3):
                y = nn.RMSNorm(dtype=HALF)(x)
                x = x + drop(Attend()(y, y, bias))
                if self.causal:
                    x = x + drop(Attend()(nn.RMSNorm(dtype=HALF)(x), told, jnp.where(heard, 0, -1e9)[:, None, None]))
                y = nn.RMSNorm(dtype=HALF)(x)
                a, b = (nn.Dense(hidden, use_bias=False, dtype=HALF)(y) for _ in range(2))
                x = x + drop(nn.Dense(f, use_bias=False, dtype=HALF)(nn.gelu(a) * b))
            return drop(nn.RMSNorm(dtype=HALF)(x))

    class Net(nn.Module):
        @nn.compact
        def __call__(self, text, spans):
            table = nn.Embed(words, f, dtype=HALF)
            told = Stack(False)(table(text), heard=text > 0)
            x = Stack(True)(table(jnp.pad(spans, ((0, 0), (1, 0)))[:, :-1]), told, text > 0)
            return nn.Dense(words, use_bias=False, dtype=HALF)(x).astype(jnp.float32)

    def loss(out, text, spans):
        each = optax.softmax_cross_entropy_with_integer_labels(out, spans)
        return (each * (spans > 0)).sum() / jnp.maximum((spans > 0).sum(), 1)

    return flax_step(Net(), loss, optax.adafactor(1e-2, min_dim_size_to_factor=128), below(words, 12, 256), below(words, 12, 57), inputs=2)


@step
def random_blocks():
    """Masked words of long texts: blocks of 64 words see their neighbours, the first block and two random ones (BigBird, haiku)."""
    f, heads, block, t, words, masked = 384, 6, 64, 1024, 16000, 152
    n = t // block
    random = np.random.default_rng(0)
    chosen = np.stack([random.permutation([j for j in range(1, n) if abs(i - j) > 1])[:2] for i in range(n)])
    seen = np.concatenate([(np.arange(n)[:, None] + np.array([-1, 0, 1])) % n, np.zeros((n, 1), int), chosen], 1)

    def attended(x, heard):
        b = len(x)
        q, k, v = (hk.Linear(f)(x).reshape(b, n, block, heads, f // heads) for _ in range(3))
        first = jnp.einsum("bqhd,bnkhd->bhqnk", q[:, 0], k).reshape(b, heads, block, t) / np.sqrt(f // heads)
        first = jax.nn.softmax(jnp.where(heard[:, None, None], first, -1e9))
        first = jnp.einsum("bhqk,bkhd->bqhd", first, v.reshape(b, t, heads, -1))
        near = lambda a: a[:, seen].reshape(b, n, seen.shape[1] * block, *a.shape[3:])
        scores = jnp.einsum("bnqhd,bnkhd->bnhqk", q, near(k)) / np.sqrt(f // heads)
        scores = jnp.where(near(heard.reshape(b, n, block))[:, :, None, None], scores, -1e9)
        weights = hk.dropout(hk.next_rng_key(), 0.1, jax.nn.softmax(scores))
        rest = jnp.einsum("bnhqk,bnkhd->bnqhd", weights, near(v))
        return hk.Linear(f)(rest.at[:, 0].set(first).reshape(b, t, f))

    def net(text, places):
        norm = lambda x: hk.LayerNorm(-1, True, True)(x)
        drop = lambda x: hk.dropout(hk.next_rng_key(), 0.1, x)
        table = hk.Embed(words, f, w_init=hk.initializers.TruncatedNormal(0.02))
        x = table(text) + hk.get_parameter("places", (t, f), init=hk.initializers.TruncatedNormal(0.02))
        x = drop(norm(x))
        for _ in range(3):
            x = norm(x + drop(attended(x, text > 0)))
            x = norm(x + drop(hk.Linear(f)(jax.nn.gelu(hk.Linear(4 * f)(x)))))
        x = jnp.take_along_axis(x, places[..., None], 1)
        x = norm(jax.nn.gelu(hk.Linear(f)(x)))
        return x @ table.embeddings.T + hk.get_parameter("bias", (words,), init=jnp.zeros)

    def loss(out, text, places, wanted, weights):
        each = optax.softmax_cross_entropy_with_integer_labels(out, wanted)
        return (each * weights).sum() / (weights.sum() + 1e-5)

    optimizer = optax.adamw(optax.warmup_cosine_decay_schedule(0, 1e-4, 10000, 500000), weight_decay=0.01, mask=lambda p: jax.tree.map(lambda a: a.ndim > 1, p))
    batch = below(words, 4, t), below(t, 4, masked), below(words, 4, masked), floats(4, masked)
    return haiku_step(net, loss, optimizer, *batch, inputs=2)


@step
def gated_recurrences():
    """Words by linear recurrences whose gates look at the word, and attention to the 128 words before, in turn (Griffin, bf16)."""
    f, wide, heads, window, words = 512, 640, 8, 128, 8000
    dense = lambda n, **given: nn.Dense(n, use_bias=False, dtype=HALF, **given)

    class Recurrence(nn.Module):
        @nn.compact
        def __call__(self, x):
            gate = nn.gelu(dense(wide)(x))
            x = nn.Conv(wide, (4,), padding="CAUSAL", feature_group_count=wide, dtype=HALF)(dense(wide)(x))
            b, t, _ = x.shape
            parts = x.reshape(b, t, heads, wide // heads).astype(jnp.float32)
            told = []
            for name in ("input", "fade"):
                w = self.param(name, nn.initializers.lecun_normal(batch_axis=0), (heads, wide // heads, wide // heads))
                told.append(nn.sigmoid(jnp.einsum("bthi,hij->bthj", parts, w)).reshape(b, t, wide))
            log_fade = -8 * told[1] * nn.softplus(self.param("rate", nn.initializers.uniform(1.0), (wide,)))
            fade = jnp.exp(log_fade)
            into = x * told[0] * jnp.sqrt(jnp.maximum(1 - jnp.exp(2 * log_fade), 1e-6))
            _, h = lax.associative_scan(lambda one, two: (one[0] * two[0], two[0] * one[1] + two[1]), (fade, into), axis=1)
            return dense(f)(h.astype(HALF) * gate)

    class Near(nn.Module):
        @nn.compact
        def __call__(self, x):
            b, t, _ = x.shape
            q = dense(f)(x).reshape(b, t // window, window, heads, f // heads)
            k, v = (dense(f // heads)(x).reshape(b, t // window, window, -1) for _ in range(2))
            both = lambda a: jnp.concatenate([jnp.pad(a, ((0, 0), (1, 0), (0, 0), (0, 0)))[:, :-1], a], 2)
            far = jnp.arange(window)[:, None] + window - jnp.arange(2 * window)
            seen = (far >= 0) & (far < window) & ((jnp.arange(t // window) > 0)[:, None, None] | (jnp.arange(2 * window) >= window))
            scores = jnp.einsum("bnqhd,bnkd->bhnqk", q, both(k)).astype(jnp.float32) * (f // heads) ** -0.5
            weights = nn.softmax(jnp.where(seen, scores, -1e9)).astype(HALF)
            return dense(f)(jnp.einsum("bhnqk,bnkd->bnqhd", weights, both(v)).reshape(b, t, f))

    class Net(nn.Module):
        @nn.compact
        def __call__(self, text):
            table = nn.Embed(words, f, dtype=HALF)
            x = table(text) * HALF(f**0.5)
            for mixer in (Recurrence, Recurrence, Near) * 2:
                x = x + mixer()(nn.RMSNorm(dtype=HALF)(x))
                y = nn.RMSNorm(dtype=HALF)(x)
                x = x + dense(f)(nn.gelu(dense(3 * f)(y)) * dense(3 * f)(y))
            logits = table.attend(nn.RMSNorm(dtype=HALF)(x)).astype(jnp.float32)
            return 30 * jnp.tanh(logits / 30)

    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(optax.cosine_decay_schedule(1e-3, 30000), b2=0.95, weight_decay=0.1))
    return flax_step(Net(), next_words, optimizer, below(words, 4, 640))


@step
def separable_sounds():
    """Letters of speech by long depthwise convolutions along time, parts of the spectrum hidden at random (QuartzNet, CTC, NovoGrad)."""

    def part(x, f, size, stride=1, dilation=1, act=True):
        x = hk.DepthwiseConv1D(1, size, stride, rate=dilation, with_bias=False)(x) if size > 1 else x
        x = hk.BatchNorm(True, True, 0.9)(hk.Conv1D(f, 1, with_bias=False)(x), True)
        return jax.nn.relu(x) if act else x

    def hidden(x):
        for axis, most, count in ((1, 40, 2), (2, 12, 2)):
            for _ in range(count):
                size = x.shape[axis]
                long = jax.random.randint(hk.next_rng_key(), (len(x), 1), 0, most)
                start = jax.random.randint(hk.next_rng_key(), (len(x), 1), 0, size - most)
                out = (jnp.arange(size) >= start) & (jnp.arange(size) < start + long)
                x = jnp.where(jnp.expand_dims(out, 3 - axis), 0, x)
        return x

    def net(x):
        x = (x - x.mean(1, keepdims=True)) / (x.std(1, keepdims=True) + 1e-5)
        x = part(hidden(x), 256, 33, 2)
        for f, size in ((256, 33), (256, 39), (384, 51), (384, 63)):
            y = x
            for i in range(4):
                y = part(y, f, size, act=i < 3)
            x = jax.nn.relu(y + part(x, f, 1, act=False))
        x = part(part(x, 384, 87, dilation=2), 768, 1)
        return hk.Conv1D(29, 1)(hk.dropout(hk.next_rng_key(), 0.1, x))

    def loss(out, x, frames, letters, count):
        silent = (jnp.arange(out.shape[1]) >= (frames[:, None] + 1) // 2).astype(jnp.float32)
        unused = (jnp.arange(letters.shape[1]) >= count[:, None]).astype(jnp.float32)
        return (optax.ctc_loss(out, silent, letters, unused) / jnp.maximum(count, 1)).mean()

    optimizer = optax.novograd(optax.cosine_decay_schedule(0.01, 40000), 0.95, 0.5, weight_decay=0.001)
    return haiku_step(net, loss, optimizer, floats(12, 560, 64), below(560, 12), below(28, 12, 70), below(70, 12))


@step
def timed_items():
    """What somebody takes next of 60000 things: attention without a softmax, told when; wrong ones drawn by how often they come (HSTU)."""
    items, f, heads, layers, t, wrong = 60000, 128, 4, 4, 200, 512

    def layer(x, p, near, seen):
        norm = lambda y: (y - y.mean(-1, keepdims=True)) * lax.rsqrt(y.var(-1, keepdims=True) + 1e-6)
        split = lambda y: y.reshape(*y.shape[:2], heads, f // heads)
        u, v, q, k = jnp.split(jax.nn.silu(norm(x) @ p["in"]), 4, -1)
        scores = jnp.einsum("bqhd,bkhd->bhqk", split(q), split(k)) + p["near"][near]
        far = jnp.arange(t)[:, None] - jnp.arange(t)
        scores = scores + p["far"][jnp.maximum(far, 0)]
        weights = jnp.where(seen, jax.nn.silu(scores) / t, 0)
        y = jnp.einsum("bhqk,bkhd->bqhd", weights, split(v)).reshape(x.shape)
        return x + (norm(y) * u) @ p["out"]

    def loss(p, taken, when, often, drawn):
        now, later = taken[:, :-1], taken[:, 1:]
        x = p["items"][now] * np.sqrt(f) + p["places"]
        apart = jnp.abs(when[:, :-1, None] - when[:, None, :-1])
        near = jnp.minimum((jnp.log(jnp.maximum(apart, 1.0)) / 0.301).astype(jnp.int32), 127)[:, None]
        seen = jnp.tril(jnp.ones((t, t), bool)) & (now > 0)[:, None, None]
        for q in p["layers"]:
            x = layer(x, q, near, seen)
        unit = lambda y: y / jnp.maximum(jnp.linalg.norm(y, axis=-1, keepdims=True), 1e-6)
        x, right, others = unit(x), unit(p["items"][later]), unit(p["items"][drawn])
        own = (x * right).sum(-1) / 0.05 - often[later]
        rest = jnp.einsum("btf,wf->btw", x, others) / 0.05 - often[drawn]
        rest = jnp.where(later[..., None] == drawn, -1e9, rest)
        each = jax.nn.logsumexp(jnp.concatenate([own[..., None], rest], -1), -1) - own
        return (each * (later > 0)).sum() / jnp.maximum((later > 0).sum(), 1)

    def parameters():
        one = lambda: {"in": floats(f, 4 * f), "out": floats(f, f), "near": floats(128), "far": floats(t)}
        return {"items": floats(items, f), "places": floats(t, f), "layers": [one() for _ in range(layers)]}

    batch = below(items, 20, t + 1), floats(20, t + 1), floats(items), below(items, wrong)
    return step_of_loss(loss, optax.adamw(1e-3, b2=0.98), parameters, *batch)


@step
def bond_angles():
    """Energies of 24 molecules and the forces on their atoms, by messages between bonds that know the angle to the bond before (DimeNet, jraph)."""
    atoms, bonds, pairs, molecules, f, radial, angular = 456, 3600, 24000, 25, 96, 6, 7

    class Net(nn.Module):
        @nn.compact
        def __call__(self, where, kinds, owner, senders, receivers, before, after):
            line = where[receivers] - where[senders]
            far = jnp.sqrt(jnp.square(line).sum(-1) + 1e-8)
            x = far / 5.0
            cut = jnp.where(x < 1, 1 - 28 * x**6 + 48 * x**7 - 21 * x**8, 0)
            waves = cut[:, None] * jnp.sin(jnp.pi * jnp.arange(1, radial + 1) * x[:, None]) / far[:, None]
            one, two = -line[before], line[after]
            angle = jnp.arctan2(jnp.linalg.norm(jnp.cross(one, two) + 1e-9, axis=-1), (one * two).sum(-1))
            round_about = jnp.cos(angle[:, None] * jnp.arange(angular))
            both = (waves[before][:, :, None] * round_about[:, None]).reshape(pairs, -1)
            h = nn.Embed(95, f)(kinds)
            m = nn.silu(nn.Dense(f)(jnp.concatenate([h[senders], h[receivers], nn.silu(nn.Dense(f)(waves))], -1)))
            energy = 0
            for i in range(4):
                told = nn.silu(nn.Dense(f)(m)) * nn.Dense(f, use_bias=False)(waves)
                told = nn.silu(nn.Dense(48, use_bias=False)(told))[before] * nn.Dense(48, use_bias=False)(nn.Dense(8, use_bias=False)(both))
                told = nn.silu(nn.Dense(f, use_bias=False)(jraph.segment_sum(told, after, bonds)))
                y = nn.silu(nn.Dense(f)(m)) + told
                y = y + nn.silu(nn.Dense(f)(nn.silu(nn.Dense(f)(y))))
                m = m + nn.silu(nn.Dense(f)(y))
                m = m + nn.silu(nn.Dense(f)(nn.silu(nn.Dense(f)(m))))
                out = jraph.segment_sum(nn.Dense(f, use_bias=False)(waves) * m, receivers, atoms)
                energy = energy + nn.Dense(1, use_bias=False)(nn.silu(nn.Dense(f)(nn.silu(nn.Dense(f)(out)))))
            return jraph.segment_sum(energy[:, 0], owner, molecules)

    net = Net()

    def loss(p, where, *rest):
        *graph, energy, force, real = rest
        total = lambda where: (lambda e: (e.sum(), e))(net.apply(p, where, *graph))
        slope, found = jax.grad(total, has_aux=True)(where)
        return jnp.abs(found - energy)[:-1].mean() + 100 * (jnp.linalg.norm(slope + force + 1e-9, axis=-1) * real).sum() / real.sum()

    graph = below(95, atoms), below(molecules, atoms), below(atoms, bonds), below(atoms - 1, bonds), below(bonds, pairs), below(bonds - 1, pairs)
    optimizer = optax.chain(optax.clip_by_global_norm(10.0), optax.amsgrad(1e-3))
    parameters = lambda: shapes(net.init, KEY, floats(atoms, 3), *graph)
    return step_of_loss(loss, optimizer, parameters, floats(atoms, 3), *graph, floats(molecules), floats(atoms, 3), floats(atoms))


@step
def shifted_frames():
    """A robot from what it sees, each picture moved a little at random: two critics, their slow copies, an actor with less and less noise (DrQ-v2)."""
    b, actions = 96, 6

    def look(x):
        x = x / 255.0 - 0.5
        for i in range(4):
            x = jax.nn.relu(hk.Conv2D(32, 3, 2 if i == 0 else 1, padding="VALID")(x))
        return x.reshape(len(x), -1)

    def trunk(x):
        return jnp.tanh(hk.LayerNorm(-1, True, True)(hk.Linear(50)(x)))

    def act(x):
        return jnp.tanh(hk.nets.MLP([512, 512, actions])(trunk(x)))

    def judge(x, action):
        x = jnp.concatenate([trunk(x), action], -1)
        return [hk.nets.MLP([512, 512, 1])(x)[:, 0] for _ in range(2)]

    looks, acts, judges = (hk.without_apply_rng(hk.transform(g)) for g in (look, act, judge))
    adam = optax.adam(1e-4)

    def shifted(key, x):
        x = jnp.pad(x, ((0, 0), (4, 4), (4, 4), (0, 0)), mode="edge")
        one = lambda image, at: lax.dynamic_slice(image, (at[0], at[1], 0), (84, 84, 9))
        return jax.vmap(one)(x, jax.random.randint(key, (b, 2), 0, 9))

    def noisy(key, mean, count, clip):
        spread = jnp.maximum(1.0 - count / 100000 * 0.9, 0.1)
        noise = jnp.clip(spread * jax.random.normal(key, mean.shape), -clip, clip)
        return jnp.clip(mean + noise, -1 + 1e-6, 1 - 1e-6)

    def update(p, state, slow, key, count, frames, action, reward, fade, later):
        k = jax.random.split(key, 4)
        frames, later = shifted(k[0], frames.astype(jnp.float32)), shifted(k[1], later.astype(jnp.float32))
        seen = looks.apply(p["look"], later)
        then = noisy(k[2], acts.apply(p["act"], seen), count, 0.3)
        wanted = reward + fade * jnp.minimum(*judges.apply(slow, seen, then))

        def of_critic(p):
            x = looks.apply(p["look"], frames)
            return sum(jnp.square(q - wanted).mean() for q in judges.apply(p["judge"], x, action)), x

        both = {n: p[n] for n in ("look", "judge")}
        (value, seen), gradient = jax.value_and_grad(of_critic, has_aux=True)(both)
        changes, critic_state = adam.update(gradient, state[0])
        both = optax.apply_updates(both, changes)

        def of_actor(q):
            action = noisy(k[3], acts.apply(q, seen), count, 0.3)
            return -jnp.minimum(*judges.apply(both["judge"], seen, action)).mean()

        changes, actor_state = adam.update(jax.grad(of_actor)(p["act"]), state[1])
        p = {**both, "act": optax.apply_updates(p["act"], changes)}
        return p, (critic_state, actor_state), optax.incremental_update(p["judge"], slow, 0.01), count + 1, value

    def arguments():
        x = shapes(lambda: jnp.zeros((b, 84, 84, 9)))
        q = shapes(looks.init, KEY, x)
        h = shapes(looks.apply, q, x)
        p = {"look": q, "act": shapes(acts.init, KEY, h), "judge": shapes(judges.init, KEY, h, floats(b, actions))}
        states = shapes(adam.init, {n: p[n] for n in ("look", "judge")}), shapes(adam.init, p["act"])
        frames = jax.ShapeDtypeStruct((b, 84, 84, 9), jnp.uint8)
        return p, states, p["judge"], A_KEY, floats(), frames, floats(b, actions), floats(b), floats(b), frames

    return update, arguments


@step
def planned_moves():
    """Four robots think six rounds of 512 plans through, five moments ahead in a learnt world, and do the first move of a good one (TD-MPC2; no training)."""
    robots, plans, own, elite, moments, rounds, f, actions = 4, 512, 24, 64, 5, 6, 512, 12
    bins = jnp.linspace(-10.0, 10.0, 101)

    def net(p, x):
        for w, b, gain in p[:-1]:
            x = x @ w + b
            x = jax.nn.mish((x - x.mean(-1, keepdims=True)) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-5) * gain)
        return x @ p[-1][0] + p[-1][1]

    def simplex(x):
        return jax.nn.softmax(x.reshape(*x.shape[:-1], -1, 8)).reshape(x.shape)

    def number(logits):
        x = (jax.nn.softmax(logits) * bins).sum(-1)
        return jnp.sign(x) * (jnp.exp(jnp.abs(x)) - 1)

    def act(p, z, key):
        mean, spread = jnp.split(net(p["act"], z), 2, -1)
        return jnp.tanh(mean + jnp.exp(-10 + 6 * (jnp.tanh(spread) + 1)) * jax.random.normal(key, mean.shape))

    def onward(p, z, a):
        both = jnp.concatenate([z, a], -1)
        return simplex(net(p["world"], both)), number(net(p["reward"], both))

    def worth(p, z, moves, key):
        def moment(carry, a):
            z, total, fade = carry
            z, reward = onward(p, z, a)
            return (z, total + fade * reward, fade * 0.99), None

        (z, total, fade), _ = lax.scan(moment, (z, jnp.zeros(z.shape[:-1]), 1.0), moves)
        one, two = jax.random.split(key)
        both = jnp.concatenate([z, act(p, z, one)], -1)
        critics = jax.tree.map(lambda w: w[jax.random.permutation(two, 5)[:2]], p["critics"])
        return total + fade * number(jax.vmap(net, (0, None))(critics, both)).mean(0)

    def update(mean, key, p, seen):
        key, *k = jax.random.split(key, 5)
        z = simplex(net(p["look"], seen))

        def by_policy(z, key):
            a = act(p, z, key)
            return onward(p, z, a)[0], a

        wide = lambda n: jnp.broadcast_to(z[:, None], (robots, n, f))
        _, mine = lax.scan(by_policy, wide(own), jax.random.split(k[0], moments))

        def think(carry, key):
            mean, spread = carry
            a, b = jax.random.split(key)
            drawn = mean[:, :, None] + spread[:, :, None] * jax.random.normal(a, (moments, robots, plans - own, actions))
            moves = jnp.concatenate([mine, jnp.clip(drawn, -1, 1)], 2)
            values, best = lax.top_k(worth(p, wide(plans), moves, b), elite)
            moves = jnp.take_along_axis(moves, best[None, :, :, None], 2)
            share = jax.nn.softmax(0.5 * (values - values[:, :1]))[None, ..., None]
            mean = (share * moves).sum(2)
            spread = jnp.sqrt((share * jnp.square(moves - mean[:, :, None])).sum(2))
            return (mean, jnp.clip(spread, 0.05, 2.0)), (moves, values)

        start = jnp.concatenate([mean[1:], jnp.zeros_like(mean[:1])]), jnp.full_like(mean, 2.0)
        (mean, spread), (moves, values) = lax.scan(think, start, jax.random.split(k[1], rounds))
        which = jax.random.categorical(k[2], 0.5 * values[-1])
        move = jnp.take_along_axis(moves[-1, 0], which[:, None, None], 1)[:, 0]
        return mean, key, jnp.clip(move + spread[0] * jax.random.normal(k[3], move.shape), -1, 1), values[-1].mean(1)

    def arguments():
        def layers(*widths, first=()):
            bias = lambda o: floats(*first, *(1 for _ in first), o)
            made = [(floats(*first, i, o), bias(o), bias(o)) for i, o in zip(widths, widths[1:])]
            return [*made[:-1], made[-1][:2]]

        p = {"look": layers(39, 256, f), "world": layers(f + actions, f, f, f), "reward": layers(f + actions, f, f, 101)}
        p |= {"act": layers(f, f, f, 2 * actions), "critics": layers(f + actions, f, f, 101, first=(5,))}
        return floats(moments, robots, actions), A_KEY, p, floats(robots, 39)

    return update, arguments


@step
def unmasked_words():
    """Words that were hidden at a random rate are guessed from both sides, weighed by one over the rate; slow weights (masked diffusion, nnx, bf16)."""
    f, heads, words, b, t = 512, 8, 30522, 12, 128

    class Layer(nnx.Module):
        def __init__(self, rngs):
            linear = lambda i, o: nnx.Linear(i, o, use_bias=False, dtype=HALF, rngs=rngs)
            self.norms = nnx.List([nnx.LayerNorm(f, use_bias=False, dtype=HALF, rngs=rngs) for _ in range(2)])
            self.qkv, self.out, self.up, self.down = linear(f, 3 * f), linear(f, f), linear(f, 4 * f), linear(4 * f, f)
            self.drop = nnx.Dropout(0.1, rngs=rngs)

        def __call__(self, x):
            q, k, v = jnp.split(self.qkv(self.norms[0](x)).reshape(b, t, 3 * heads, f // heads), 3, 2)
            angle = jnp.arange(t)[:, None] / 10000 ** (jnp.arange(0, f // heads, 2) / (f // heads))
            cos, sin = (jnp.tile(g(angle), 2)[:, None].astype(HALF) for g in (jnp.cos, jnp.sin))

            def turned(x):
                one, other = jnp.split(x, 2, -1)
                return x * cos + jnp.concatenate([-other, one], -1) * sin

            y = jax.nn.dot_product_attention(turned(q), turned(k), v).reshape(b, t, f)
            x = x + self.drop(self.out(y))
            return x + self.drop(self.down(nnx.gelu(self.up(self.norms[1](x)))))

    class Net(nnx.Module):
        def __init__(self, rngs):
            self.words = nnx.Embed(words + 1, f, dtype=HALF, rngs=rngs)
            self.layers = nnx.List([Layer(rngs) for _ in range(4)])
            self.norm = nnx.LayerNorm(f, use_bias=False, dtype=HALF, rngs=rngs)
            self.say = nnx.Linear(f, words, dtype=HALF, rngs=rngs)

        def __call__(self, text):
            x = self.words(text)
            for layer in self.layers:
                x = layer(x)
            return self.say(self.norm(x)).astype(jnp.float32)

    graph, p, others = nnx.split(nnx.eval_shape(lambda: Net(nnx.Rngs(0))), nnx.Param, ...)
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(optax.warmup_constant_schedule(0, 3e-4, 2500), weight_decay=0.0))

    def update(p, state, slow, others, key, text):
        k = jax.random.split(key)
        rate = jnp.clip((jax.random.uniform(k[0]) + jnp.arange(b) / b) % 1, 1e-3, 1.0)[:, None]
        out = jax.random.uniform(k[1], text.shape) < rate

        def loss(p):
            net = nnx.merge(graph, p, others, copy=True)
            each = optax.softmax_cross_entropy_with_integer_labels(net(jnp.where(out, words, text)), text)
            return (each * out / rate).mean(), nnx.split(net, nnx.Param, ...)[2]

        (value, others), gradient = jax.value_and_grad(loss, has_aux=True)(p)
        changes, state = optimizer.update(gradient, state, p)
        p = optax.apply_updates(p, changes)
        return p, state, optax.incremental_update(p, slow, 1e-4), others, value

    return update, lambda: (p, shapes(optimizer.init, p), p, others, A_KEY, below(words, b, t))


@step
def planes_of_space():
    """Colours along 1000 rays from three planes of features at two sizes; samples where an earlier guess saw something (K-planes)."""
    f, rays, guesses, samples = 16, 1000, 64, 32

    def read(planes, x):
        made = 1
        for plane, (i, j) in zip(planes, ((0, 1), (0, 2), (1, 2))):
            size = plane.shape[0]
            at = jnp.clip((x[..., jnp.array((i, j))] + 1) / 2, 0, 1) * (size - 1)
            low = jnp.minimum(jnp.floor(at).astype(jnp.int32), size - 2)
            a, b = jnp.moveaxis((at - low)[..., None], -2, 0)
            r, c = low[..., 0], low[..., 1]
            near = plane[r, c] * (1 - a) * (1 - b) + plane[r + 1, c] * a * (1 - b)
            made = made * (near + plane[r, c + 1] * (1 - a) * b + plane[r + 1, c + 1] * a * b)
        return made

    def shares(density, ends):
        optical = density * jnp.diff(ends)
        return (1 - jnp.exp(-optical)) * jnp.exp(-(jnp.cumsum(optical, -1) - optical))

    def dense(p, x):
        return jax.nn.relu(x @ p[0]) @ p[1]

    def loss(p, start, way, colour, key):
        k = jax.random.split(key)
        ends = jnp.linspace(0.5, 4.0, guesses + 1) + jax.random.uniform(k[0], (rays, 1)) * 0.05
        place = lambda ends: start[:, None] + way[:, None] * ((ends[:, 1:] + ends[:, :-1]) / 2)[..., None]
        bounded = lambda x: x / jnp.maximum(1.0, jnp.linalg.norm(x, axis=-1, keepdims=True))
        rough = shares(jnp.exp(jnp.minimum(dense(p["guess"], read(p["small"], bounded(place(ends))))[..., 0] - 1, 8)), ends)
        summed = jnp.concatenate([jnp.zeros((rays, 1)), jnp.cumsum(lax.stop_gradient(rough) + 1e-4, -1)], -1)
        summed = summed / summed[:, -1:]
        at = (jnp.arange(samples + 1) + jax.random.uniform(k[1], (rays, 1))) / (samples + 2)
        fine = jax.vmap(jnp.interp)(at, summed, ends)
        x = bounded(place(fine))
        told = dense(p["density"], jnp.concatenate([read(planes, x) for planes in p["large"]], -1))
        weights = shares(jnp.exp(jnp.minimum(told[..., 0] - 1, 8)), fine)
        turns = jnp.concatenate([g(way[:, None] * 2**i) for i in range(4) for g in (jnp.sin, jnp.cos)], -1)
        both = jnp.concatenate([told, jnp.broadcast_to(turns, (rays, samples, 24))], -1)
        seen = (weights[..., None] * jax.nn.sigmoid(dense(p["colour"], both))).sum(1)
        inner = jax.vmap(lambda f, e, s: jnp.diff(jnp.interp(f, e, s)))(fine, ends, jnp.pad(jnp.cumsum(rough, -1), ((0, 0), (1, 0))))
        missed = (jnp.square(jnp.maximum(lax.stop_gradient(weights) - inner, 0)) / (lax.stop_gradient(weights) + 1e-6)).sum(-1).mean()
        middle = (fine[:, 1:] + fine[:, :-1]) / 2
        spread = (weights[:, :, None] * weights[:, None] * jnp.abs(middle[:, :, None] - middle[:, None])).sum((1, 2)).mean()
        rough_planes = sum(jnp.square(jnp.diff(a, axis=i)).mean() for planes in p["large"] for a in planes for i in (0, 1))
        return jnp.square(seen - colour).mean() + missed + 1e-3 * spread + 1e-4 * rough_planes

    def parameters():
        planes = lambda size, f: [floats(size, size, f) for _ in range(3)]
        p = {"small": planes(64, 8), "guess": [floats(8, 64), floats(64, 1)], "large": [planes(128, f), planes(250, f)]}
        return p | {"density": [floats(2 * f, 64), floats(64, 16)], "colour": [floats(16 + 24, 64), floats(64, 3)]}

    return step_of_loss(loss, optax.adam(optax.cosine_decay_schedule(0.01, 30000), eps=1e-15), parameters, *(floats(rays, 3) for _ in range(3)), A_KEY)


@step
def sharp_codes():
    """Images as 1024 kinds of patches and back, and a critic of patches whose say is as large as the slope of the rest on the last layer (VQGAN)."""
    codes, size = 1024, 64

    class Res(nn.Module):
        f: int

        @nn.compact
        def __call__(self, x):
            y = nn.Conv(self.f, (3, 3))(nn.swish(nn.GroupNorm(16)(x)))
            y = nn.Conv(self.f, (3, 3))(nn.swish(nn.GroupNorm(16)(y)))
            return y + (x if x.shape[-1] == self.f else nn.Conv(self.f, (1, 1))(x))

    class Attend(nn.Module):
        @nn.compact
        def __call__(self, x):
            y = nn.GroupNorm(16)(x).reshape(len(x), -1, x.shape[-1])
            return x + nn.MultiHeadDotProductAttention(1)(y).reshape(x.shape)

    class Encoder(nn.Module):
        @nn.compact
        def __call__(self, x):
            x = nn.Conv(32, (3, 3))(x)
            for f in (32, 64, 128):
                x = nn.Conv(f, (3, 3), (2, 2), padding=((0, 1), (0, 1)))(Res(f)(x))
            return nn.Conv(size, (1, 1))(nn.swish(nn.GroupNorm(16)(Attend()(Res(128)(x)))))

    class Decoder(nn.Module):
        @nn.compact
        def __call__(self, x):
            x = Attend()(Res(128)(nn.Conv(128, (3, 3))(x)))
            for f in (128, 64, 32):
                b, h, w, _ = x.shape
                x = nn.Conv(f, (3, 3))(jax.image.resize(Res(f)(x), (b, 2 * h, 2 * w, f), "nearest"))
            return nn.swish(nn.GroupNorm(16)(x))

    class Critic(nn.Module):
        @nn.compact
        def __call__(self, x):
            for i, f in enumerate((48, 96, 192)):
                x = nn.Conv(f, (4, 4), (2, 2))(x)
                x = nn.leaky_relu(nn.GroupNorm(16)(x) if i else x, 0.2)
            return nn.Conv(1, (4, 4))(x)

    encoder, decoder, critic = Encoder(), Decoder(), Critic()
    adam = optax.adam(4.5e-5, b1=0.5, b2=0.9)

    def painted(last, y):
        return lax.conv_general_dilated(y, last, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))

    def update(both, states, images):
        p, q = both

        def rest(p):
            z = encoder.apply(p["encoder"], images)
            flat = z.reshape(-1, size)
            far = jnp.square(flat).sum(1, keepdims=True) - 2 * flat @ p["codes"].T + jnp.square(p["codes"]).sum(1)
            which = far.argmin(1)
            near = p["codes"][which].reshape(z.shape)
            commit = jnp.square(lax.stop_gradient(z) - near).mean() + 0.25 * jnp.square(z - lax.stop_gradient(near)).mean()
            return decoder.apply(p["decoder"], z + lax.stop_gradient(near - z)), commit, which

        def loss(p):
            y, commit, which = rest(p)
            apart = lambda last, y: jnp.abs(painted(last, y) - images).mean() + jnp.square(painted(last, y) - images).mean()
            fooled = lambda last, y: -critic.apply(q, painted(last, y)).mean()
            slopes = [jnp.linalg.norm(jax.grad(g)(p["last"], lax.stop_gradient(y))) for g in (apart, fooled)]
            say = lax.stop_gradient(jnp.clip(slopes[0] / (slopes[1] + 1e-4), 0, 1e4))
            return apart(p["last"], y) + 0.8 * say * fooled(p["last"], y) + commit, (painted(p["last"], y), which)

        (value, (made, which)), gradient = jax.value_and_grad(loss, has_aux=True)(p)
        made = lax.stop_gradient(made)
        hinge = lambda q: (jax.nn.relu(1 - critic.apply(q, images)).mean() + jax.nn.relu(1 + critic.apply(q, made)).mean()) / 2
        wrong, other = jax.value_and_grad(hinge)(q)
        changes, states = zip(*(adam.update(g, s) for g, s in zip((gradient, other), states)))
        used = jnp.bincount(which, length=codes) / which.size
        return tuple(map(optax.apply_updates, (p, q), changes)), states, value, wrong, jnp.exp(-(used * jnp.log(used + 1e-10)).sum())

    def arguments():
        x = floats(4, 128, 128, 3)
        p = {"encoder": shapes(encoder.init, KEY, x), "decoder": shapes(decoder.init, KEY, floats(4, 16, 16, size))}
        p |= {"codes": floats(codes, size), "last": floats(3, 3, 32, 3)}
        q = shapes(critic.init, KEY, x)
        return (p, q), (shapes(adam.init, p), shapes(adam.init, q)), x

    return update, arguments


STEPS.update(MORE)

if __name__ == "__main__":
    print_named(STEPS, STEPS.stablehlo, __doc__)
