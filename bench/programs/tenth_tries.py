"""Fourteen more training steps that were measured before anybody looked at them, like those of first_tries.py.

    python bench/programs/tenth_tries.py raw_sound > raw_sound.mlir

tenth_tries.md says what came out; third_tries.py says how to measure one. Needs jax, flax and optax.
"""

import os

os.environ["JAX_PLATFORMS"] = "cpu"

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from named_steps import NamedSteps, cross_entropy, print_named, square
from ordinary_steps import classes, floats, integers, step_of_loss, training_step

lax = jax.lax
STEPS = NamedSteps()
ADAM = optax.adamw(1e-3)
step = STEPS.step


class Encoder(nn.Module):
    """Layers of a transformer, norms ahead."""

    heads: int
    layers: int
    dtype: object = jnp.float32

    @nn.compact
    def __call__(self, x, mask=None):
        for _ in range(self.layers):
            h = nn.LayerNorm(dtype=self.dtype)(x)
            x = x + nn.MultiHeadDotProductAttention(self.heads, dtype=self.dtype)(h, mask=mask)
            h = nn.gelu(nn.Dense(4 * x.shape[-1], dtype=self.dtype)(nn.LayerNorm(dtype=self.dtype)(x)))
            x = x + nn.Dense(x.shape[-1], dtype=self.dtype)(h)
        return nn.LayerNorm(dtype=self.dtype)(x)


@step
def raw_sound():
    """Convolutions over samples, some places hidden, and which of eleven sounds stood there (wav2vec 2.0)."""

    class Net(nn.Module):
        @nn.compact
        def __call__(self, sound, hidden):
            x = sound[..., None]
            for f, k, s in ((64, 10, 5), (128, 3, 2), (128, 3, 2), (192, 3, 2), (192, 2, 2)):
                x = nn.gelu(nn.GroupNorm(8)(nn.Conv(f, (k,), (s,), padding="VALID")(x)))
            heard = nn.Dense(128)(x)
            y = nn.Dense(256)(nn.LayerNorm()(x))
            y = jnp.where(hidden[:, : y.shape[1], None], self.param("hidden", nn.initializers.normal(), (256,)), y)
            y = y + nn.gelu(nn.Conv(256, (31,), feature_group_count=8)(y))
            return nn.Dense(128)(Encoder(4, 2)(y)), heard

    def loss(out, sound, hidden, others):
        guess, heard = out
        many = jnp.concatenate([heard[:, :, None], jnp.take_along_axis(heard, others.reshape(len(heard), -1, 1), 1).reshape(*others.shape, -1)], 2)
        unit = lambda v: v * lax.rsqrt(jnp.square(v).sum(-1, keepdims=True) + 1e-6)
        logits = jnp.einsum("btf,btnf->btn", unit(guess), unit(many)) / 0.1
        return (optax.softmax_cross_entropy_with_integer_labels(logits, jnp.zeros(logits.shape[:2], jnp.int32)) * hidden).mean()

    length = 99
    hidden = jax.ShapeDtypeStruct((4, length), jnp.bool_)
    return training_step(Net(), loss, ADAM, floats(4, 8000), hidden, integers(4, length, 10), inputs=2)


@step
def one_look():
    """Boxes in one look: halves that pass by, windows of three sizes over the last image, mish (YOLOv4)."""
    mish = lambda x: x * jnp.tanh(nn.softplus(x))

    class Unit(nn.Module):
        f: int
        k: int = 3
        s: int = 1

        @nn.compact
        def __call__(self, x):
            x = nn.Conv(self.f, (self.k, self.k), (self.s, self.s), use_bias=False)(x)
            return mish(nn.BatchNorm(use_running_average=False)(x))

    class Halves(nn.Module):
        f: int

        @nn.compact
        def __call__(self, x):
            x = Unit(self.f, 3, 2)(x)
            by, x = Unit(self.f // 2, 1)(x), Unit(self.f // 2, 1)(x)
            x = x + Unit(self.f // 2)(Unit(self.f // 2, 1)(x))
            return Unit(self.f, 1)(jnp.concatenate([Unit(self.f // 2, 1)(x), by], -1))

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            x = Halves(64)(Unit(32)(x))
            near = Halves(128)(x)
            x = Unit(128, 1)(Halves(256)(near))
            x = jnp.concatenate([x] + [nn.max_pool(x, (k, k), (1, 1), "SAME") for k in (5, 9, 13)], -1)
            far = Unit(128)(Unit(128, 1)(x))
            up = jnp.repeat(jnp.repeat(Unit(64, 1)(far), 2, 1), 2, 2)
            near = Unit(128)(jnp.concatenate([up, Unit(64, 1)(near)], -1))
            return [nn.Conv(3 * 25, (1, 1))(y).reshape(*y.shape[:3], 3, 25) for y in (near, far)]

    model = Net()

    def loss(p, statistics, images, near, far):
        out, changed = model.apply({"params": p, "batch_stats": statistics}, images, mutable=["batch_stats"])
        total = 0
        for found, wanted in zip(out, (near, far)):
            there = wanted[..., 4:5]
            total += (
                square(nn.sigmoid(found[..., :2]), wanted[..., :2])
                + (there * jnp.square(found[..., 2:4] - wanted[..., 2:4])).mean()
                + optax.sigmoid_binary_cross_entropy(found[..., 4:], wanted[..., 4:]).mean()
            )
        return total, changed["batch_stats"]

    optimizer = optax.sgd(0.01, 0.9)

    def update(p, state, statistics, *batch):
        (value, statistics), gradients = jax.value_and_grad(loss, has_aux=True)(p, statistics, *batch)
        changes, state = optimizer.update(gradients, state, p)
        return optax.apply_updates(p, changes), state, statistics, value

    def arguments():
        v = jax.eval_shape(model.init, jax.random.key(0), floats(8, 96, 96, 3))
        return (
            v["params"],
            jax.eval_shape(optimizer.init, v["params"]),
            v["batch_stats"],
            floats(8, 96, 96, 3),
            floats(8, 24, 24, 3, 25),
            floats(8, 12, 12, 3, 25),
        )

    return update, arguments


@step
def described_images():
    """A caption, word by word, each looking at the places of an image (Show, Attend and Tell)."""

    class Teller(nn.Module):
        @nn.compact
        def __call__(self, carry, word, places, keys):
            (c, h), look = carry
            e = nn.Dense(1)(jnp.tanh(keys + nn.Dense(128)(h)[:, None]))[..., 0]
            look = jnp.einsum("bp,bpf->bf", nn.softmax(e), places) * nn.sigmoid(nn.Dense(128)(h))
            state, h = nn.OptimizedLSTMCell(256)((c, h), jnp.concatenate([word, look], -1))
            return (state, look), h

    class Net(nn.Module):
        @nn.compact
        def __call__(self, images, words):
            x = images
            for f in (32, 64, 128):
                x = nn.relu(nn.GroupNorm(8)(nn.Conv(f, (3, 3), (2, 2))(x)))
            places = x.reshape(len(x), -1, 128)
            keys = nn.Dense(128)(places)
            mean = places.mean(1)
            first = ((jnp.tanh(nn.Dense(256)(mean)), jnp.tanh(nn.Dense(256)(mean))), jnp.zeros_like(mean))
            x = nn.Embed(5000, 128)(words)
            tell = nn.scan(Teller, variable_broadcast="params", split_rngs={"params": False}, in_axes=(1, nn.broadcast, nn.broadcast), out_axes=1)
            _, h = tell()(first, x, places, keys)
            return nn.Dense(5000)(h)

    loss = lambda out, images, words: cross_entropy(out[:, :-1], words[:, 1:])
    return training_step(Net(), loss, ADAM, floats(16, 64, 64, 3), integers(16, 20), inputs=2)


@step
def ladder():
    """An image from what is drawn at four scales, the coarsest first, each with its divergence (a hierarchical VAE)."""

    class Block(nn.Module):
        out: int

        @nn.compact
        def __call__(self, x):
            h = nn.Conv(32, (1, 1))(nn.gelu(x))
            for _ in range(2):
                h = nn.Conv(32, (3, 3))(nn.gelu(h))
            return nn.Conv(self.out, (1, 1))(nn.gelu(h))

    class Net(nn.Module):
        @nn.compact
        def __call__(self, images, *noises):
            x = nn.Conv(96, (3, 3))(images)
            seen = []
            for _ in range(4):
                x = x + Block(96)(x)
                seen.append(x)
                x = nn.avg_pool(x, (2, 2), (2, 2))
            y = jnp.broadcast_to(self.param("first", nn.initializers.normal(), (4, 4, 96)), seen[3].shape)
            cost = 0
            for x, noise in zip(seen[::-1], noises):
                prior = Block(96 + 32)(y)
                q = Block(32)(jnp.concatenate([x, y], -1))
                qm, qs = jnp.split(q, 2, -1)
                pm, ps = jnp.split(prior[..., :32], 2, -1)
                cost += (ps - qs + 0.5 * (jnp.exp(2 * qs) + (qm - pm) ** 2) * jnp.exp(-2 * ps) - 0.5).sum((1, 2, 3)).mean()
                y = y + prior[..., 32:] + nn.Conv(96, (1, 1))(qm + jnp.exp(qs) * noise)
                y = y + Block(96)(y)
                if noise is not noises[-1]:
                    y = jnp.repeat(jnp.repeat(y, 2, 1), 2, 2)
            return nn.Conv(3, (3, 3))(y), cost

    loss = lambda out, images, *noises: jnp.abs(out[0] - images).sum((1, 2, 3)).mean() + out[1]
    noises = [floats(16, s, s, 16) for s in (4, 8, 16, 32)]
    return training_step(Net(), loss, optax.adamax(1e-3), floats(16, 32, 32, 3), *noises, inputs=5)


@step
def gated_attention():
    """Words by attention of one head with squared scores, within chunks and summed over those before (FLASH)."""

    class Unit(nn.Module):
        @nn.compact
        def __call__(self, x):
            b, t, f = x.shape
            h = nn.LayerNorm()(x)
            u, v = jnp.split(nn.silu(nn.Dense(4 * f)(h)), 2, -1)
            z = nn.silu(nn.Dense(128)(h))
            scaled = [z * self.param(f"scale{i}", nn.initializers.normal(), (128,)) + self.param(f"shift{i}", nn.initializers.zeros, (128,)) for i in range(4)]
            chunks = lambda y: y.reshape(b, t // 64, 64, -1)
            q, k, ql, kl, v = (chunks(y) for y in (*scaled, v))
            near = jnp.square(nn.relu(jnp.einsum("bcqd,bckd->bcqk", q, k) / 64)) * jnp.tril(jnp.ones((64, 64)))
            sums = jnp.einsum("bckd,bcke->bcde", kl, v) / 64
            before = jnp.cumsum(sums, 1) - sums
            out = jnp.einsum("bcqk,bcke->bcqe", near, v) + jnp.einsum("bcqd,bcde->bcqe", ql, before) / t
            return x + nn.Dense(f)(u * out.reshape(b, t, -1))

    class Net(nn.Module):
        @nn.compact
        def __call__(self, words):
            table = nn.Embed(6000, 256)
            x = table(words)
            for _ in range(3):
                x = Unit()(x)
            return table.attend(nn.LayerNorm()(x))

    return training_step(Net(), lambda out, words: cross_entropy(out[:, :-1], words[:, 1:]), ADAM, integers(4, 512))


@step
def landmarks():
    """Attention through sixteen means of the keys and a product that nears an inverse (Nyströmformer)."""

    class Attention(nn.Module):
        @nn.compact
        def __call__(self, x):
            b, t, f = x.shape
            q, k, v = (nn.DenseGeneral((4, f // 4))(x).swapaxes(1, 2) for _ in range(3))
            means = lambda y: y.reshape(b, 4, 16, t // 16, -1).mean(3)
            ql, kl = means(q), means(k)
            soft = lambda a, c: nn.softmax(jnp.einsum("bhqd,bhkd->bhqk", a, c) * (f // 4) ** -0.5)
            left, middle, right = soft(q, kl), soft(ql, kl), soft(ql, k)
            z = middle.swapaxes(2, 3) / (jnp.abs(middle).sum(2).max() * jnp.abs(middle).sum(3).max())
            eye = jnp.eye(16)
            for _ in range(6):
                a = middle @ z
                z = 0.25 * z @ (13 * eye - a @ (15 * eye - a @ (7 * eye - a)))
            out = (left @ z) @ (right @ v)
            out = out + nn.Conv(f, (33,), feature_group_count=f)(v.swapaxes(1, 2).reshape(b, t, f)).reshape(b, t, 4, -1).swapaxes(1, 2)
            return nn.DenseGeneral(f, (-2, -1))(out.swapaxes(1, 2))

    class Net(nn.Module):
        @nn.compact
        def __call__(self, words):
            x = nn.Embed(4000, 256)(words) + self.param("places", nn.initializers.normal(0.02), (words.shape[1], 256))
            for _ in range(2):
                x = x + Attention()(nn.LayerNorm()(x))
                x = x + nn.Dense(256)(nn.gelu(nn.Dense(512)(nn.LayerNorm()(x))))
            return nn.Dense(2)(nn.LayerNorm()(x).mean(1))

    return training_step(Net(), classes, ADAM, integers(8, 512), integers(8))


@step
def operators_by_points():
    """What an equation makes of a function, at any place, and how well it obeys the equation (a physics-informed DeepONet)."""

    class Mlp(nn.Module):
        @nn.compact
        def __call__(self, x):
            for _ in range(4):
                x = jnp.tanh(nn.Dense(100)(x))
            return nn.Dense(100)(x)

    class Net(nn.Module):
        def setup(self):
            self.branch, self.trunk = Mlp(), Mlp()

        def __call__(self, given, at):
            return (self.branch(given) * self.trunk(at)).sum(-1)

    model = Net()

    def loss(p, given, at, force, edge):
        def found(g, x, t):
            return model.apply(p, g, jnp.stack([x, t]))

        slope_t = jax.grad(found, 2)
        curve = jax.grad(jax.grad(found, 1), 1)

        def residual(g, xt, f):
            x, t = xt
            u = found(g, x, t)
            return slope_t(g, x, t) - 0.01 * curve(g, x, t) - 0.01 * u * u - f

        inside = jax.vmap(residual)(given, at, force)
        border = jax.vmap(lambda g, xt: found(g, xt[0], xt[1]))(given, edge)
        return jnp.square(inside).mean() + jnp.square(border).mean()

    parameters = lambda: jax.eval_shape(model.init, jax.random.key(0), floats(100), floats(2))
    return step_of_loss(loss, optax.adam(1e-3), parameters, floats(2048, 100), floats(2048, 2), floats(2048), floats(2048, 2))


@step
def split_scales():
    """Residual blocks whose features are cut in four, each part convolved with what came of the one before (Res2Net)."""

    class Block(nn.Module):
        f: int
        s: int = 1

        @nn.compact
        def __call__(self, x):
            h = nn.relu(nn.GroupNorm(8)(nn.Conv(self.f, (1, 1), (self.s, self.s), use_bias=False)(x)))
            parts = jnp.split(h, 4, -1)
            out, before = [parts[0]], 0
            for part in parts[1:]:
                before = nn.relu(nn.GroupNorm(4)(nn.Conv(self.f // 4, (3, 3), use_bias=False)(part + before)))
                out.append(before)
            h = nn.GroupNorm(8)(nn.Conv(2 * self.f, (1, 1), use_bias=False)(jnp.concatenate(out, -1)))
            short = x if self.s == 1 and x.shape[-1] == 2 * self.f else nn.Conv(2 * self.f, (1, 1), (self.s, self.s))(x)
            return nn.relu(h + short)

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            x = nn.relu(nn.GroupNorm(8)(nn.Conv(32, (3, 3))(x)))
            for f, s in ((32, 1), (32, 1), (64, 2), (64, 1), (128, 2), (128, 1)):
                x = Block(f, s)(x)
            return nn.Dense(100)(x.mean((1, 2)))

    return training_step(Net(), classes, optax.sgd(0.1, 0.9), floats(32, 32, 32, 3), integers(32))


@step
def reduced_keys():
    """A pyramid of transformers over images; keys and values are of patches of patches (PVT), depthwise in between."""

    class Layer(nn.Module):
        heads: int
        ratio: int

        @nn.compact
        def __call__(self, x):
            b, h, w, f = x.shape
            y = nn.LayerNorm()(x)
            few = nn.LayerNorm()(nn.Conv(f, (self.ratio,) * 2, (self.ratio,) * 2)(y)) if self.ratio > 1 else y
            q = nn.DenseGeneral((self.heads, f // self.heads))(y.reshape(b, h * w, f))
            k, v = (nn.DenseGeneral((self.heads, f // self.heads))(few.reshape(b, -1, f)) for _ in range(2))
            a = nn.softmax(jnp.einsum("bqhd,bkhd->bhqk", q, k) * (f // self.heads) ** -0.5)
            x = x + nn.DenseGeneral(f, (-2, -1))(jnp.einsum("bhqk,bkhd->bqhd", a, v)).reshape(x.shape)
            y = nn.Dense(4 * f)(nn.LayerNorm()(x))
            y = nn.Conv(4 * f, (3, 3), feature_group_count=4 * f)(y)
            return x + nn.Dense(f)(nn.gelu(y))

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            for f, heads, ratio, patch in ((32, 1, 8, 4), (64, 2, 4, 2), (128, 4, 2, 2)):
                x = nn.LayerNorm()(nn.Conv(f, (patch, patch), (patch, patch))(x))
                for _ in range(2):
                    x = Layer(heads, ratio)(x)
            return nn.Dense(100)(x.mean((1, 2)))

    return training_step(Net(), classes, ADAM, floats(8, 128, 128, 3), integers(8))


@step
def images_and_words():
    """Which words go with which image: a transformer of each, a matrix of all pairs, in bf16 (CLIP)."""
    half = jnp.bfloat16

    class Net(nn.Module):
        @nn.compact
        def __call__(self, images, words):
            x = nn.Conv(192, (8, 8), (8, 8), dtype=half)(images)
            x = x.reshape(len(x), -1, 192)
            x = jnp.concatenate([jnp.broadcast_to(self.param("class", nn.initializers.normal(0.02), (192,)).astype(half), (len(x), 1, 192)), x], 1)
            x = Encoder(3, 2, half)(x + self.param("image_places", nn.initializers.normal(0.02), x.shape[1:]).astype(half))[:, 0]
            y = nn.Embed(8000, 192, dtype=half)(words) + self.param("word_places", nn.initializers.normal(0.02), (words.shape[1], 192)).astype(half)
            y = Encoder(3, 2, half)(y, nn.make_causal_mask(words))
            y = jnp.take_along_axis(y, words.argmax(-1)[:, None, None], 1)[:, 0]
            unit = lambda v: v / jnp.linalg.norm(v.astype(jnp.float32), axis=-1, keepdims=True)
            x, y = unit(nn.Dense(128, use_bias=False, dtype=half)(x)), unit(nn.Dense(128, use_bias=False, dtype=half)(y))
            return jnp.exp(self.param("scale", nn.initializers.constant(2.6), ())) * x @ y.T

    def loss(out, images, words):
        same = jnp.arange(len(out))
        return (cross_entropy(out, same) + cross_entropy(out.T, same)) / 2

    return training_step(Net(), loss, ADAM, floats(32, 64, 64, 3), integers(32, 32), inputs=2)


@step
def twin_critics():
    """An actor, two critics and their slow copies, with a temperature that learns (SAC)."""
    actions, seen = 6, 17

    class Mlp(nn.Module):
        out: int

        @nn.compact
        def __call__(self, x):
            for _ in range(2):
                x = nn.relu(nn.Dense(256)(x))
            return nn.Dense(self.out)(x)

    actor, critic = Mlp(2 * actions), Mlp(1)
    optimizer = optax.adam(3e-4)

    def act(p, s, noise):
        mean, log = jnp.split(actor.apply(p, s), 2, -1)
        log = jnp.clip(log, -20, 2)
        u = mean + jnp.exp(log) * noise
        a = jnp.tanh(u)
        likely = (-0.5 * jnp.square(noise) - log - 0.919).sum(-1) - (2 * (0.693 - u - nn.softplus(-2 * u))).sum(-1)
        return a, likely

    def value(p, s, a):
        both = jax.vmap(lambda q: critic.apply(q, jnp.concatenate([s, a], -1))[..., 0])(p)
        return both

    def update(p, state, slow, s, a, reward, after, last, noise, later):
        heat = jnp.exp(p["heat"])
        following, likely = act(p["actor"], after, later)
        wanted = reward + 0.99 * (1 - last) * (value(slow, after, following).min(0) - heat * likely)

        def loss(p):
            found = value(p["critic"], s, a)
            mine, likely = act(p["actor"], s, noise)
            told = value(lax.stop_gradient(p["critic"]), s, mine).min(0)
            warm = -(p["heat"] * lax.stop_gradient(likely - actions)).mean()
            return jnp.square(found - lax.stop_gradient(wanted)).mean() + (lax.stop_gradient(heat) * likely - told).mean() + warm

        total, gradients = jax.value_and_grad(loss)(p)
        changes, state = optimizer.update(gradients, state, p)
        p = optax.apply_updates(p, changes)
        return p, state, jax.tree.map(lambda o, n: 0.995 * o + 0.005 * n, slow, p["critic"]), total

    def parameters(key):
        a, b = jax.random.split(key)
        both = jax.vmap(lambda k: critic.init(k, jnp.zeros((1, seen + actions))))(jax.random.split(b))
        return {"actor": actor.init(a, jnp.zeros((1, seen))), "critic": both, "heat": jnp.zeros(())}

    def arguments():
        p = jax.eval_shape(parameters, jax.random.PRNGKey(0))
        n = 256
        return (
            p,
            jax.eval_shape(optimizer.init, p),
            p["critic"],
            floats(n, seen),
            floats(n, actions),
            floats(n),
            floats(n, seen),
            floats(n),
            floats(n, actions),
            floats(n, actions),
        )

    return update, arguments


@step
def top_features():
    """What a layer says in the 32 greatest of 4096 features (a sparse autoencoder)."""
    width, features = 256, 4096

    def loss(p, x):
        h = (x - p["shift"]) @ p["read"] + p["bias"]
        best, where = lax.top_k(h, 32)
        kept = jnp.zeros_like(h).at[jnp.arange(len(h))[:, None], where].set(nn.relu(best))
        again = kept @ p["write"] + p["shift"]
        return jnp.square(again - x).sum(-1).mean() / jnp.square(x - x.mean(0)).sum(-1).mean()

    def parameters():
        return {"read": floats(width, features), "write": floats(features, width), "bias": floats(features), "shift": floats(width)}

    return step_of_loss(loss, optax.adam(1e-3), parameters, floats(512, width))


@step
def read_lines():
    """A line of writing: convolutions, LSTMs from both ends over its columns, letters without their places (CRNN, CTC)."""

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            for f, pool in ((32, (2, 2)), (64, (2, 2)), (128, (2, 1)), (128, (2, 1))):
                x = nn.max_pool(nn.relu(nn.GroupNorm(8)(nn.Conv(f, (3, 3))(x))), pool, pool)
            b, h, w, f = x.shape
            x = x.swapaxes(1, 2).reshape(b, w, h * f)
            x = nn.Bidirectional(nn.RNN(nn.OptimizedLSTMCell(128)), nn.RNN(nn.OptimizedLSTMCell(128)))(x)
            return nn.Dense(80)(x)

    def loss(out, images, letters, lengths):
        ends = (jnp.arange(letters.shape[1]) >= lengths[:, None]).astype(jnp.float32)
        return optax.ctc_loss(out, jnp.zeros(out.shape[:2]), letters, ends).mean()

    return training_step(Net(), loss, ADAM, floats(8, 32, 256, 1), integers(8, 20), integers(8))


@step
def spoken_text():
    """A spectrogram from letters: convolutions and LSTMs read, an LSTM that remembers where it looked speaks (Tacotron 2)."""

    class Speaker(nn.Module):
        @nn.compact
        def __call__(self, carry, frame, read, keys):
            (c, h), look, been = carry
            for _ in range(2):
                frame = nn.relu(nn.Dense(64)(frame))
            state, h = nn.OptimizedLSTMCell(256)((c, h), jnp.concatenate([frame, look], -1))
            place = nn.Dense(64, use_bias=False)(nn.Conv(8, (15,))(been[..., None]))
            e = nn.Dense(1)(jnp.tanh(keys + place + nn.Dense(64)(h)[:, None]))[..., 0]
            now = nn.softmax(e)
            look = jnp.einsum("bt,btf->bf", now, read)
            return (state, look, been + now), nn.Dense(80)(jnp.concatenate([h, look], -1))

    class Net(nn.Module):
        @nn.compact
        def __call__(self, letters, frames):
            x = nn.Embed(64, 128)(letters)
            for _ in range(3):
                x = nn.relu(nn.GroupNorm(8)(nn.Conv(128, (5,))(x)))
            x = nn.Bidirectional(nn.RNN(nn.OptimizedLSTMCell(64)), nn.RNN(nn.OptimizedLSTMCell(64)))(x)
            keys = nn.Dense(64)(x)
            b = len(letters)
            first = ((jnp.zeros((b, 256)), jnp.zeros((b, 256))), jnp.zeros((b, 128)), jnp.zeros(letters.shape))
            before = jnp.pad(frames[:, :-1], ((0, 0), (1, 0), (0, 0)))
            speak = nn.scan(Speaker, variable_broadcast="params", split_rngs={"params": False}, in_axes=(1, nn.broadcast, nn.broadcast), out_axes=1)
            _, y = speak()(first, before, x, keys)
            z = y
            for f in (128, 128, 80):
                z = nn.Conv(f, (5,))(jnp.tanh(z))
            return y, y + z

    loss = lambda out, letters, frames: square(out[0], frames) + square(out[1], frames)
    return training_step(Net(), loss, ADAM, integers(8, 48), floats(8, 80, 80), inputs=2)


if __name__ == "__main__":
    print_named(STEPS, STEPS.stablehlo, __doc__)
