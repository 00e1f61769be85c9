"""Fourteen more training steps that were measured before anybody looked at them, like those of first_tries.py.

    python bench/programs/ninth_tries.py electra > electra.mlir

ninth_tries.md says what came out; third_tries.py says how to measure one. Needs jax, flax and optax.
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


@step
def electra():
    """A small model fills in masked words, a larger one finds which are not the author's (ELECTRA)."""
    words, length, batch = 4000, 64, 24

    class Encoder(nn.Module):
        width: int

        @nn.compact
        def __call__(self, x, layers):
            x = nn.LayerNorm()(nn.Dense(self.width)(x))
            for _ in range(layers):
                x = nn.LayerNorm()(x + nn.MultiHeadDotProductAttention(self.width // 64)(x))
                x = nn.LayerNorm()(x + nn.Dense(self.width)(nn.gelu(nn.Dense(4 * self.width)(x))))
            return x

    class Net(nn.Module):
        @nn.compact
        def __call__(self, given, masked, noise):
            table = nn.Embed(words, 128)
            places = self.param("places", nn.initializers.normal(0.02), (length, 128))
            x = Encoder(64)(table(jnp.where(masked, 0, given)) + places, 2)
            logits = table.attend(nn.Dense(128)(x))
            sampled = (lax.stop_gradient(logits) + noise).argmax(-1)
            seen = jnp.where(masked, sampled, given)
            y = Encoder(256)(table(seen) + places, 2)
            return logits, nn.Dense(1)(y)[..., 0], seen

    def loss(out, given, masked, noise):
        logits, found, seen = out
        filled = optax.softmax_cross_entropy_with_integer_labels(logits, given)
        wrong = optax.sigmoid_binary_cross_entropy(found, (seen != given).astype(jnp.float32))
        return (filled * masked).sum() / masked.sum() + 50 * wrong.mean()

    masked = jax.ShapeDtypeStruct((batch, length), jnp.bool_)
    return training_step(Net(), loss, ADAM, integers(batch, length), masked, floats(batch, length, words), inputs=3)


@step
def adapters():
    """A decoder whose weights stay, but for matrices of rank eight beside them (LoRA)."""
    width, heads, layers, words = 256, 4, 3, 8000

    def parameters(key):
        keys = iter(jax.random.split(key, 64))
        normal = lambda *shape: jax.random.normal(next(keys), shape) * 0.02
        frozen = [
            {
                n: normal(*s).astype(jnp.bfloat16)
                for n, s in (("qkv", (width, 3 * width)), ("out", (width, width)), ("up", (width, 1024)), ("down", (1024, width)))
            }
            for _ in range(layers)
        ]
        low = [{n: (normal(width, 8), jnp.zeros((8, o))) for n, o in (("qkv", 3 * width), ("out", width))} for _ in range(layers)]
        return low, frozen, normal(words, width).astype(jnp.bfloat16)

    def norm(x):
        x = x.astype(jnp.float32)
        return (x * lax.rsqrt(jnp.square(x).mean(-1, keepdims=True) + 1e-6)).astype(jnp.bfloat16)

    def forward(low, frozen, table, tokens):
        x = table[tokens]
        b, t = tokens.shape
        mask = jnp.tril(jnp.ones((t, t), bool))
        for small, large in zip(low, frozen):
            project = lambda h, n: h @ large[n] + (h @ small[n][0].astype(h.dtype)) @ small[n][1].astype(h.dtype)
            q, k, v = jnp.moveaxis(project(norm(x), "qkv").reshape(b, t, 3, heads, -1), 2, 0)
            scores = jnp.einsum("bqhd,bkhd->bhqk", q, k).astype(jnp.float32) / 8
            a = nn.softmax(jnp.where(mask, scores, -1e9)).astype(jnp.bfloat16)
            x = x + project(jnp.einsum("bhqk,bkhd->bqhd", a, v).reshape(b, t, width), "out")
            x = x + nn.silu(norm(x) @ large["up"]) @ large["down"]
        return (norm(x) @ table.T).astype(jnp.float32)

    optimizer = optax.adam(1e-4)

    def update(low, state, frozen, table, tokens):
        loss = lambda p: cross_entropy(forward(p, frozen, table, tokens[:, :-1]), tokens[:, 1:])
        value, gradient = jax.value_and_grad(loss)(low)
        changes, state = optimizer.update(gradient, state, low)
        return optax.apply_updates(low, changes), state, value

    def arguments():
        low, frozen, table = jax.eval_shape(parameters, jax.random.PRNGKey(0))
        return low, jax.eval_shape(optimizer.init, low), frozen, table, integers(8, 129)

    return update, arguments


@step
def bytes_in_patches():
    """Bytes in patches of eight: a wide model over patches, a narrow one within each (MegaByte)."""

    class Block(nn.Module):
        heads: int

        @nn.compact
        def __call__(self, x):
            t, f = x.shape[-2:]
            h = nn.LayerNorm(use_bias=False)(x)
            q, k, v = (nn.DenseGeneral((self.heads, f // self.heads), use_bias=False)(h) for _ in range(3))
            a = jnp.einsum("...qhd,...khd->...hqk", q, k) * (f // self.heads) ** -0.5
            a = nn.softmax(jnp.where(jnp.tril(jnp.ones((t, t), bool)), a, -1e9))
            x = x + nn.DenseGeneral(f, (-2, -1), use_bias=False)(jnp.einsum("...hqk,...khd->...qhd", a, v))
            return x + nn.Dense(f)(nn.gelu(nn.Dense(4 * f)(nn.LayerNorm(use_bias=False)(x))))

    class Net(nn.Module):
        @nn.compact
        def __call__(self, text):
            b, t = text.shape
            far = nn.Embed(256, 32)(text).reshape(b, t // 8, 256)
            far = jnp.pad(far[:, :-1], ((0, 0), (1, 0), (0, 0))) + self.param("places", nn.initializers.normal(0.02), (t // 8, 256))
            for _ in range(2):
                far = Block(4)(far)
            near = nn.Embed(256, 64)(jnp.pad(text.reshape(b, t // 8, 8)[..., :-1], ((0, 0), (0, 0), (1, 0))))
            near = near + nn.Dense(8 * 64)(far).reshape(b, t // 8, 8, 64)
            for _ in range(2):
                near = Block(2)(near)
            return nn.Dense(256)(near).reshape(b, t, 256)

    return training_step(Net(), lambda out, text: cross_entropy(out, text), ADAM, integers(4, 1024))


@step
def weighted_keys():
    """Keys that fade, each channel at its own pace, in place of attention (RWKV)."""

    class Block(nn.Module):
        @nn.compact
        def __call__(self, x):
            b, t, f = x.shape
            before = lambda y: jnp.pad(y[:, :-1], ((0, 0), (1, 0), (0, 0)))
            mix = lambda name, y: (lambda m: y * m + before(y) * (1 - m))(self.param(name, nn.initializers.constant(0.5), (f,)))
            h = nn.LayerNorm()(x)
            r, k, v = (nn.Dense(f, use_bias=False)(mix(n, h)) for n in ("mr", "mk", "mv"))
            fade = -jnp.exp(self.param("fade", nn.initializers.normal(), (f,)))
            first = self.param("first", nn.initializers.normal(), (f,))

            def tell(carry, kv):
                top, low, most = carry
                k, v = kv
                now = jnp.maximum(most, first + k)
                a, c = jnp.exp(most - now), jnp.exp(first + k - now)
                out = (a * top + c * v) / (a * low + c)
                kept = jnp.maximum(most + fade, k)
                a, c = jnp.exp(most + fade - kept), jnp.exp(k - kept)
                return (a * top + c * v, a * low + c, kept), out

            zero = jnp.zeros((b, f))
            _, out = lax.scan(tell, (zero, zero, zero - 1e30), (k.swapaxes(0, 1), v.swapaxes(0, 1)))
            x = x + nn.Dense(f, use_bias=False)(nn.sigmoid(r) * out.swapaxes(0, 1))
            h = nn.LayerNorm()(x)
            k = jnp.square(nn.relu(nn.Dense(4 * f, use_bias=False)(mix("ck", h))))
            return x + nn.sigmoid(nn.Dense(f, use_bias=False)(mix("cr", h))) * nn.Dense(f, use_bias=False)(k)

    class Net(nn.Module):
        @nn.compact
        def __call__(self, text):
            x = nn.LayerNorm()(nn.Embed(4000, 256)(text))
            for _ in range(2):
                x = Block()(x)
            return nn.Dense(4000, use_bias=False)(nn.LayerNorm()(x))

    return training_step(Net(), lambda out, text: cross_entropy(out[:, :-1], text[:, 1:]), ADAM, integers(8, 128))


@step
def pyramid_both_ways():
    """Boxes and classes from a pyramid of images that is walked up and down, weights in its sums (EfficientDet)."""

    class Apart(nn.Module):
        features: int

        @nn.compact
        def __call__(self, x):
            x = nn.Conv(x.shape[-1], (3, 3), feature_group_count=x.shape[-1], use_bias=False)(x)
            return nn.GroupNorm(8)(nn.Conv(self.features, (1, 1))(x))

    class Sum(nn.Module):
        @nn.compact
        def __call__(self, *xs):
            w = nn.relu(self.param("w", nn.initializers.ones, (len(xs),)))
            return Apart(64)(nn.silu(sum(w[i] * x for i, x in enumerate(xs)) / (w.sum() + 1e-4)))

    up = lambda x: jnp.repeat(jnp.repeat(x, 2, 1), 2, 2)
    down = lambda x: nn.max_pool(x, (3, 3), (2, 2), "SAME")

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            levels = []
            for f in (32, 64, 96, 128):
                x = nn.silu(nn.GroupNorm(8)(nn.Conv(f, (3, 3), (2, 2))(x)))
                x = x + Apart(f)(nn.silu(Apart(f)(x)))
                levels.append(nn.Conv(64, (1, 1))(x))
            for _ in range(2):
                a, b, c, d = levels
                c2 = Sum()(c, up(d))
                b2 = Sum()(b, up(c2))
                a = Sum()(a, up(b2))
                b = Sum()(b, b2, down(a))
                c = Sum()(c, c2, down(b))
                levels = [a, b, c, Sum()(d, down(c))]
            head = lambda n, name: nn.Sequential([Apart(64, name=name + "1"), nn.silu, nn.Conv(n, (3, 3), name=name + "2")])
            which, where = head(9 * 20, "which"), head(9 * 4, "where")
            flat = lambda f, n: jnp.concatenate([f(x).reshape(len(x), -1, n) for x in levels], 1)
            return flat(which, 20), flat(where, 4)

    def loss(out, images, wanted, places):
        found, boxes = out
        p = nn.sigmoid(found)
        focal = optax.sigmoid_binary_cross_entropy(found, wanted) * jnp.abs(wanted - p) ** 1.5
        return focal.sum() / 100 + optax.huber_loss(boxes, places).mean()

    anchors = 9 * (32**2 + 16**2 + 8**2 + 4**2)
    return training_step(Net(), loss, optax.sgd(0.01, 0.9), floats(8, 64, 64, 3), floats(8, anchors, 20), floats(8, anchors, 4))


@step
def hinged_critic():
    """A critic whose weights have a spectral norm of one, and a generator of residual blocks, one step of each (SNGAN)."""

    def spectral(w, u):
        m = w.reshape(-1, w.shape[-1])
        v = m @ u
        v = v / (jnp.linalg.norm(v) + 1e-6)
        u = v @ m
        u = u / (jnp.linalg.norm(u) + 1e-6)
        u, v = lax.stop_gradient(u), lax.stop_gradient(v)
        return w / (v @ m @ u), u

    conv = lambda x, w: lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    half = lambda x: nn.avg_pool(x, (2, 2), (2, 2))
    up = lambda x: jnp.repeat(jnp.repeat(x, 2, 1), 2, 2)
    norm = lambda x: (x - x.mean((0, 1, 2))) * lax.rsqrt(x.var((0, 1, 2)) + 1e-5)

    def parameters(key):
        keys = iter(jax.random.split(key, 64))
        w = lambda *s: jax.random.normal(next(keys), s) * 0.02
        critic = [(w(3, 3, i, 128), w(3, 3, 128, 128), w(1, 1, i, 128)) for i in (3, 128, 128)]
        maker = [(w(3, 3, 128, 128), w(3, 3, 128, 128)) for _ in range(3)]
        us = [tuple(w(x.shape[-1]) for x in layer) for layer in critic]
        return {"critic": critic, "last": w(128, 1), "first": w(64, 4 * 4 * 128), "maker": maker, "rgb": w(3, 3, 128, 3)}, us

    def make(p, noise):
        x = (noise @ p["first"]).reshape(-1, 4, 4, 128)
        for a, b in p["maker"]:
            x = up(x) + conv(nn.relu(norm(conv(up(nn.relu(norm(x))), a))), b)
        return jnp.tanh(conv(nn.relu(norm(x)), p["rgb"]))

    def judge(p, us, x):
        found = []
        for i, (layer, u) in enumerate(zip(p["critic"], us)):
            (a, ua), (b, ub), (c, uc) = (spectral(w, v) for w, v in zip(layer, u))
            found.append((ua, ub, uc))
            h = conv(nn.relu(conv(nn.relu(x) if i else x, a)), b)
            x = half(h) + conv(half(x), c)
        return (nn.relu(x).sum((1, 2)) @ p["last"])[:, 0], found

    optimizer = optax.adam(2e-4, 0, 0.9)

    def update(p, state, us, images, noise):
        def loss(p):
            made = make(p, noise)
            real, found = judge(p, us, images)
            fake, _ = judge(p, us, lax.stop_gradient(made))
            fixed = {**p, "critic": lax.stop_gradient(p["critic"]), "last": lax.stop_gradient(p["last"])}
            told, _ = judge(fixed, us, made)
            return nn.relu(1 - real).mean() + nn.relu(1 + fake).mean() - told.mean(), found

        (value, us), gradient = jax.value_and_grad(loss, has_aux=True)(p)
        changes, state = optimizer.update(gradient, state, p)
        return optax.apply_updates(p, changes), state, us, value

    def arguments():
        p, us = jax.eval_shape(parameters, jax.random.PRNGKey(0))
        return p, jax.eval_shape(optimizer.init, p), us, floats(16, 32, 32, 3), floats(16, 64)

    return update, arguments


@step
def mesh():
    """A flow on a mesh: messages along its edges, added up at its nodes, five times (MeshGraphNet)."""
    nodes, edges = 1200, 6400

    class Mlp(nn.Module):
        @nn.compact
        def __call__(self, x):
            return nn.LayerNorm()(nn.Dense(128)(nn.relu(nn.Dense(128)(nn.relu(nn.Dense(128)(x))))))

    class Net(nn.Module):
        @nn.compact
        def __call__(self, at, between, senders, receivers):
            x, e = Mlp()(at), Mlp()(between)
            for _ in range(5):
                e = e + Mlp()(jnp.concatenate([e, x[senders], x[receivers]], -1))
                x = x + Mlp()(jnp.concatenate([x, jax.ops.segment_sum(e, receivers, nodes)], -1))
            return nn.Dense(3)(nn.relu(nn.Dense(128)(x)))

    loss = lambda out, at, between, senders, receivers, wanted: square(out, wanted)
    return training_step(Net(), loss, ADAM, floats(nodes, 11), floats(edges, 4), integers(edges), integers(edges), floats(nodes, 3), inputs=4)


@step
def moving_atoms():
    """Atoms that move each other, whichever way the molecule is turned (EGNN)."""

    class Layer(nn.Module):
        @nn.compact
        def __call__(self, h, x):
            b, n, f = h.shape
            apart = x[:, :, None] - x[:, None]
            far = jnp.square(apart).sum(-1, keepdims=True)
            pair = lambda y: jnp.broadcast_to(y, (b, n, n, f))
            m = jnp.concatenate([pair(h[:, :, None]), pair(h[:, None]), far], -1)
            m = nn.silu(nn.Dense(64)(nn.silu(nn.Dense(64)(m))))
            m = m * nn.sigmoid(nn.Dense(1)(m)) * (1 - jnp.eye(n))[..., None]
            x = x + (apart * nn.Dense(1, use_bias=False)(nn.silu(nn.Dense(64)(m)))).mean(2)
            return h + nn.Dense(f)(nn.silu(nn.Dense(64)(jnp.concatenate([h, m.sum(2)], -1)))), x

    class Net(nn.Module):
        @nn.compact
        def __call__(self, kinds, places):
            h, x = nn.Embed(10, 64)(kinds), places
            for _ in range(3):
                h, x = Layer()(h, x)
            return nn.Dense(1)(nn.silu(nn.Dense(64)(h.sum(1)))), x

    def loss(out, kinds, places, energy, later):
        return square(out[0][:, 0], energy) + square(out[1], later)

    return training_step(Net(), loss, ADAM, integers(32, 24), floats(32, 24, 3), floats(32), floats(32, 24, 3), inputs=2)


@step
def heard_words():
    """Words from a spectrogram: two convolutions, an encoder, a decoder that looks at it, in bf16 (Whisper)."""
    half = jnp.bfloat16

    class Block(nn.Module):
        crosses: bool = False

        @nn.compact
        def __call__(self, x, y=None, mask=None):
            attend = lambda: nn.MultiHeadDotProductAttention(4, dtype=half)
            norm = lambda z: nn.LayerNorm(dtype=half)(z)
            x = x + attend()(norm(x), mask=mask)
            if self.crosses:
                x = x + attend()(norm(x), y)
            return x + nn.Dense(256, dtype=half)(nn.gelu(nn.Dense(1024, dtype=half)(norm(x))))

    class Net(nn.Module):
        @nn.compact
        def __call__(self, sound, words):
            x = nn.gelu(nn.Conv(256, (3,), dtype=half)(sound))
            x = nn.gelu(nn.Conv(256, (3,), (2,), dtype=half)(x))
            x = x + self.param("places", nn.initializers.normal(0.02), x.shape[1:]).astype(half)
            for _ in range(2):
                x = Block()(x)
            x = nn.LayerNorm(dtype=half)(x)
            table = nn.Embed(6000, 256, dtype=half)
            y = table(words) + self.param("order", nn.initializers.normal(0.02), (words.shape[1], 256)).astype(half)
            for _ in range(2):
                y = Block(True)(y, x, nn.make_causal_mask(words))
            return table.attend(nn.LayerNorm(dtype=half)(y)).astype(jnp.float32)

    loss = lambda out, sound, words: cross_entropy(out[:, :-1], words[:, 1:])
    return training_step(Net(), loss, ADAM, floats(4, 600, 80), integers(4, 48), inputs=2)


@step
def denoised_images():
    """What noise was put on small images, at every scale, by a U-Net with attention at 8x8 (DDPM)."""

    class Residual(nn.Module):
        features: int

        @nn.compact
        def __call__(self, x, t):
            h = nn.Conv(self.features, (3, 3))(nn.silu(nn.GroupNorm(8)(x)))
            h = h + nn.Dense(self.features)(nn.silu(t))[:, None, None]
            h = nn.Conv(self.features, (3, 3))(nn.silu(nn.GroupNorm(8)(h)))
            return h + (x if x.shape[-1] == self.features else nn.Conv(self.features, (1, 1))(x))

    class Looks(nn.Module):
        @nn.compact
        def __call__(self, x):
            b, h, w, f = x.shape
            y = nn.GroupNorm(8)(x).reshape(b, h * w, f)
            q, k, v = jnp.split(nn.Dense(3 * f)(y), 3, -1)
            a = nn.softmax(jnp.einsum("bqf,bkf->bqk", q, k) * f**-0.5)
            return x + nn.Dense(f)(jnp.einsum("bqk,bkf->bqf", a, v)).reshape(x.shape)

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x, time):
            angles = time[:, None] * jnp.exp(-jnp.arange(32) / 32 * 9.2)
            t = nn.Dense(256)(nn.silu(nn.Dense(256)(jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], -1))))
            x = nn.Conv(64, (3, 3))(x)
            kept = [x]
            for i, f in enumerate((64, 128, 128)):
                x = Residual(f)(x, t)
                x = Looks()(x) if i == 2 else x
                kept.append(x)
                x = nn.Conv(f, (3, 3), (2, 2))(x) if i < 2 else x
            x = Residual(128)(Looks()(Residual(128)(x, t)), t)
            for i, f in enumerate((128, 128, 64)):
                x = Residual(f)(jnp.concatenate([x, kept.pop()], -1), t)
                x = nn.Conv(f, (3, 3))(jax.image.resize(x, (len(x), 2 * x.shape[1], 2 * x.shape[2], f), "nearest")) if i < 2 else x
            return nn.Conv(3, (3, 3))(nn.silu(nn.GroupNorm(8)(x)))

    return training_step(
        Net(), lambda out, x, time, noise: square(out, noise), optax.adam(2e-4), floats(16, 32, 32, 3), floats(16), floats(16, 32, 32, 3), inputs=2
    )


@step
def sets():
    """What a set of points has in common, by way of sixteen points of its own (set transformer)."""

    class Look(nn.Module):
        @nn.compact
        def __call__(self, x, y):
            h = nn.LayerNorm()(x + nn.MultiHeadDotProductAttention(4)(x, y))
            return nn.LayerNorm()(h + nn.relu(nn.Dense(x.shape[-1])(h)))

    class Net(nn.Module):
        @nn.compact
        def __call__(self, points):
            x = nn.Dense(128)(points)
            for i in range(2):
                own = self.param(f"own{i}", nn.initializers.xavier_uniform(), (1, 16, 128))
                x = Look()(x, Look()(jnp.broadcast_to(own, (len(x), 16, 128)), x))
            seeds = self.param("seeds", nn.initializers.xavier_uniform(), (1, 4, 128))
            x = Look()(jnp.broadcast_to(seeds, (len(x), 4, 128)), x)
            return nn.Dense(40)(nn.Dense(128)(Look()(x, x).reshape(len(x), -1)))

    return training_step(Net(), classes, optax.adam(1e-3), floats(32, 256, 3), integers(32))


@step
def stacked_forecasts():
    """A series taken apart by thirty small nets, each told what those before left (N-BEATS)."""

    class Net(nn.Module):
        @nn.compact
        def __call__(self, series):
            left, told = series, 0
            for stack, degree in ((0, 3), (1, 0), (2, 0)):
                for _ in range(5):
                    h = left
                    for _ in range(4):
                        h = nn.relu(nn.Dense(256)(h))
                    if degree:
                        t = jnp.arange(144) / 144
                        basis = t[None] ** jnp.arange(degree)[:, None]
                        back, ahead = nn.Dense(degree)(h) @ basis[:, :120], nn.Dense(degree)(h) @ basis[:, 120:]
                    else:
                        back, ahead = nn.Dense(120)(nn.Dense(32)(h)), nn.Dense(24)(nn.Dense(32)(h))
                    left, told = left - back, told + ahead
            return told

    def loss(out, series, wanted):
        return (2 * jnp.abs(out - wanted) / (jnp.abs(out) + jnp.abs(wanted) + 1e-6)).mean()

    return training_step(Net(), loss, optax.adam(1e-3), floats(512, 120), floats(512, 24))


@step
def small_pictures():
    """Pictures of CIFAR by convolutions in pairs, batch norm, pools and dropout, as tutorials have it."""

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            x = x / 255
            for features, rate in ((32, 0.2), (64, 0.3), (128, 0.4)):
                for _ in range(2):
                    x = nn.relu(nn.Conv(features, (3, 3))(x))
                    mean, variance = x.mean((0, 1, 2)), x.var((0, 1, 2))
                    scale = self.param(f"scale{self.name}{x.shape[1]}{_}", nn.initializers.ones, (features,))
                    shift = self.param(f"shift{self.name}{x.shape[1]}{_}", nn.initializers.zeros, (features,))
                    x = (x - mean) * lax.rsqrt(variance + 1e-3) * scale + shift
                x = nn.max_pool(x, (2, 2), (2, 2))
                key = jax.random.PRNGKey(features)
                x = jnp.where(jax.random.bernoulli(key, 1 - rate, x.shape), x / (1 - rate), 0)
            return nn.Dense(10)(nn.relu(nn.Dense(128)(x.reshape(len(x), -1))))

    return training_step(Net(), classes, optax.adam(1e-3), floats(64, 32, 32, 3), integers(64))


@step
def reviews():
    """Whether a review is kind, by LSTMs that read it from both ends, as tutorials have it."""

    class Net(nn.Module):
        @nn.compact
        def __call__(self, words):
            x = nn.Embed(10000, 128)(words)
            for _ in range(2):
                there = nn.RNN(nn.OptimizedLSTMCell(64))
                back = nn.RNN(nn.OptimizedLSTMCell(64), reverse=True, keep_order=True)
                x = nn.Bidirectional(there, back)(x)
            return nn.Dense(1)(x[:, -1])[:, 0]

    loss = lambda out, words, kind: optax.sigmoid_binary_cross_entropy(out, kind).mean()
    return training_step(Net(), loss, optax.rmsprop(1e-3), integers(32, 100), floats(32))


if __name__ == "__main__":
    print_named(STEPS, STEPS.stablehlo, __doc__)
