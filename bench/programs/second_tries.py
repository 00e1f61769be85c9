"""Sixteen more training steps that were measured before anybody looked at them, like those of first_tries.py.

    python bench/programs/second_tries.py inception > inception.mlir         as JAX prints it, lowered for the computer's CPU
    tpusim run inception.mlir --config v3-8 --cores 1
    PYTHONPATH=workloads/capture python -m tpusim_capture inception.mlir --chip v3 -o STEPS/inception
    bench/xla_ratio.py --folder STEPS inception

second_tries.md says what came out. Needs jax, flax and optax.
"""

import functools
import os

os.environ["JAX_PLATFORMS"] = "cpu"

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from named_steps import NamedSteps, cross_entropy, print_named, square
from ordinary_steps import classes, floats, integers, next_words, step_of_loss, training_step

lax = jax.lax
STEPS = NamedSteps()
ADAM = optax.adamw(1e-3)
SGD = optax.sgd(0.1, momentum=0.9)
step = STEPS.step


def apart(found, inputs, wanted):
    return square(found, wanted)


@step
def inception():
    """Branches of several kernel sizes and of a pool, joined by their features."""

    class Mixed(nn.Module):
        widths: tuple

        @nn.compact
        def __call__(self, x):
            def conv(x, features, size):
                return nn.relu(nn.Conv(features, (size, size))(x))

            one, three_in, three, five_in, five, pooled = self.widths
            pool = nn.max_pool(x, (3, 3), (1, 1), "SAME")
            branches = conv(x, one, 1), conv(conv(x, three_in, 1), three, 3), conv(conv(x, five_in, 1), five, 5), conv(pool, pooled, 1)
            return jnp.concatenate(branches, -1)

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            x = nn.max_pool(nn.relu(nn.Conv(64, (7, 7), (2, 2))(x)), (3, 3), (2, 2), "SAME")
            x = nn.relu(nn.Conv(192, (3, 3))(nn.relu(nn.Conv(64, (1, 1))(x))))
            x = nn.max_pool(x, (3, 3), (2, 2), "SAME")
            x = Mixed((64, 96, 128, 16, 32, 32))(x)
            x = Mixed((128, 128, 192, 32, 96, 64))(x)
            x = nn.max_pool(x, (3, 3), (2, 2), "SAME")
            x = Mixed((192, 96, 208, 16, 48, 64))(x)
            x = Mixed((160, 112, 224, 24, 64, 64))(x)
            return nn.Dense(200)(x.mean((1, 2)))

    return training_step(Net(), classes, SGD, floats(32, 128, 128, 3), integers(32))


@step
def segmentation():
    """Dilated convolutions beside each other, their sum enlarged to the image (DeepLab)."""

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            extents = x.shape[1:3]
            norm = functools.partial(nn.GroupNorm, 16)
            for features, stride in ((32, 2), (64, 2), (128, 2), (128, 1)):
                h = nn.relu(norm()(nn.Conv(features, (3, 3), (stride, stride))(x)))
                h = norm()(nn.Conv(features, (3, 3))(h))
                x = nn.relu(h + nn.Conv(features, (1, 1), (stride, stride))(x))
            views = [nn.Conv(64, (1, 1))(x)] + [nn.Conv(64, (3, 3), kernel_dilation=(d, d))(x) for d in (2, 4, 6)]
            whole = jnp.broadcast_to(nn.Conv(64, (1, 1))(x.mean((1, 2), keepdims=True)), views[0].shape)
            x = nn.relu(norm()(nn.Conv(128, (1, 1))(jnp.concatenate([*views, whole], -1))))
            x = nn.Conv(21, (1, 1))(x)
            return jax.image.resize(x, (x.shape[0], *extents, 21), "bilinear")

    return training_step(Net(), classes, SGD, floats(8, 128, 128, 3), integers(8, 128, 128))


@step
def local_attention():
    """A decoder in bf16 whose heads share keys and see blocks of 64 words and the block before."""

    def turned(x):
        half = x.shape[-1] // 2
        angle = np.arange(x.shape[1])[:, None] * 1e4 ** (-np.arange(half) / half)
        cosine, sine = (f(angle).astype(np.float32)[:, None] for f in (np.cos, np.sin))
        a, b = x[..., :half], x[..., half:]
        return jnp.concatenate([a * cosine - b * sine, a * sine + b * cosine], -1).astype(x.dtype)

    class Block(nn.Module):
        @nn.compact
        def __call__(self, x):
            dense = functools.partial(nn.DenseGeneral, use_bias=False, dtype=jnp.bfloat16)
            b, s, f = x.shape
            h = nn.RMSNorm(dtype=jnp.bfloat16)(x)
            q, k, v = (dense((n, 64))(h) for n in (8, 2, 2))
            q, k = turned(q).reshape(b, s // 64, 64, 2, 4, 64), turned(k).reshape(b, s // 64, 64, 2, 64)
            v = v.reshape(k.shape)

            def with_before(x):
                return jnp.concatenate([jnp.pad(x[:, :-1], ((0, 0), (1, 0)) + ((0, 0),) * 3), x], 2)

            scores = jnp.einsum("bnqgrd,bnkgd->bngrqk", q, with_before(k)).astype(jnp.float32) / 8
            place = np.arange(64)[:, None] + 64 - np.arange(128)
            scores = jnp.where((place >= 0) & (place < 64), scores, -1e9)
            h = jnp.einsum("bngrqk,bnkgd->bnqgrd", nn.softmax(scores).astype(jnp.bfloat16), with_before(v))
            x = x + dense(f)(h.reshape(b, s, 512))
            h = nn.RMSNorm(dtype=jnp.bfloat16)(x)
            return x + dense(f)(nn.silu(dense(1024)(h)) * dense(1024)(h))

    class Net(nn.Module):
        @nn.compact
        def __call__(self, words):
            embed = nn.Embed(8192, 512, dtype=jnp.bfloat16)
            x = embed(words)
            for _ in range(3):
                x = Block()(x)
            return embed.attend(nn.RMSNorm(dtype=jnp.bfloat16)(x)).astype(jnp.float32)

    return training_step(Net(), next_words, ADAM, integers(4, 512))


@step
def perceiver():
    """64 latents that read 1024 pixels, and think in between."""

    class Attend(nn.Module):
        heads: int

        @nn.compact
        def __call__(self, x, seen):
            h = nn.LayerNorm()(x)
            x = x + nn.MultiHeadDotProductAttention(self.heads, qkv_features=128, out_features=128)(h, nn.LayerNorm()(seen))
            return x + nn.Dense(128)(nn.gelu(nn.Dense(256)(nn.LayerNorm()(x))))

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            b, s = x.shape[0], x.shape[1]
            place = np.stack(np.meshgrid(*[np.linspace(-1, 1, s)] * 2), -1)[..., None] * np.pi * 2.0 ** np.arange(6)
            place = np.concatenate([np.sin(place), np.cos(place)], -1).reshape(1, s * s, 24).astype(np.float32)
            seen = jnp.concatenate([x.reshape(b, s * s, 3), jnp.broadcast_to(place, (b, s * s, 24))], -1)
            latents = self.param("latents", nn.initializers.normal(0.02), (64, 128))
            x = jnp.broadcast_to(latents, (b, 64, 128))
            for _ in range(2):
                x = Attend(1)(x, seen)
                for _ in range(2):
                    x = Attend(4)(x, x)
            return nn.Dense(100)(x.mean(1))

    return training_step(Net(), classes, ADAM, floats(32, 32, 32, 3), integers(32))


@step
def decaying_memory():
    """A scan of weighted sums in place of attention (RWKV)."""

    class Mix(nn.Module):
        @nn.compact
        def __call__(self, x):
            f = x.shape[-1]
            before = jnp.pad(x[:, :-1], ((0, 0), (1, 0), (0, 0)))
            r, k, v = (
                nn.Dense(f, use_bias=False)(x * m + before * (1 - m)) for m in (self.param(f"mix_{n}", nn.initializers.constant(0.5), (f,)) for n in "rkv")
            )
            decay = jnp.exp(-jnp.exp(self.param("decay", nn.initializers.zeros, (f,))))
            bonus = self.param("bonus", nn.initializers.zeros, (f,))

            def go(state, kv):
                a, b = state
                k, v = kv
                e, own = jnp.exp(k), jnp.exp(k + bonus)
                return (a * decay + e * v, b * decay + e), (a + own * v) / (b + own)

            zeros = jnp.zeros((x.shape[0], f))
            _, out = lax.scan(go, (zeros, zeros), (k.swapaxes(0, 1), v.swapaxes(0, 1)))
            return nn.Dense(f, use_bias=False)(nn.sigmoid(r) * out.swapaxes(0, 1))

    class Net(nn.Module):
        @nn.compact
        def __call__(self, words):
            x = nn.Embed(4096, 256)(words)
            for _ in range(3):
                x = x + Mix()(nn.LayerNorm()(x))
                h = nn.LayerNorm()(x)
                x = x + nn.Dense(256)(jnp.square(nn.relu(nn.Dense(1024)(h)))) * nn.sigmoid(nn.Dense(256)(h))
            return nn.Dense(4096)(nn.LayerNorm()(x))

    return training_step(Net(), next_words, ADAM, integers(16, 128))


@step
def fourier_operator():
    """Low frequencies of a field, multiplied by a matrix each (FNO)."""

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            x = nn.Dense(32)(x)
            for index in range(4):
                real, imaginary = (self.param(f"{part}_{index}", nn.initializers.normal(0.02), (2, 12, 12, 32, 32)) for part in ("real", "imaginary"))
                w = real + 1j * imaginary
                f = jnp.fft.rfft2(x, axes=(1, 2))
                low = jnp.einsum("bxyi,xyio->bxyo", f[:, :12, :12], w[0])
                high = jnp.einsum("bxyi,xyio->bxyo", f[:, -12:, :12], w[1])
                f = jnp.zeros_like(f).at[:, :12, :12].set(low).at[:, -12:, :12].set(high)
                x = nn.gelu(jnp.fft.irfft2(f, x.shape[1:3], axes=(1, 2)) + nn.Dense(32)(x))
            return nn.Dense(1)(nn.gelu(nn.Dense(128)(x)))

    return training_step(Net(), apart, ADAM, floats(8, 64, 64, 3), floats(8, 64, 64, 1))


@step
def translated_images():
    """A generator of residual blocks with instance norms, a critic of patches, and both their gradients (CycleGAN)."""

    def norm(x):
        x = x - x.mean((1, 2), keepdims=True)
        return x * lax.rsqrt(jnp.square(x).mean((1, 2), keepdims=True) + 1e-5)

    class Generator(nn.Module):
        @nn.compact
        def __call__(self, x):
            x = nn.relu(norm(nn.Conv(32, (7, 7))(x)))
            for features in (64, 128):
                x = nn.relu(norm(nn.Conv(features, (3, 3), (2, 2))(x)))
            for _ in range(3):
                x = x + norm(nn.Conv(128, (3, 3))(nn.relu(norm(nn.Conv(128, (3, 3))(x)))))
            for features in (64, 32):
                x = nn.relu(norm(nn.ConvTranspose(features, (3, 3), (2, 2))(x)))
            return jnp.tanh(nn.Conv(3, (7, 7))(x))

    class Critic(nn.Module):
        @nn.compact
        def __call__(self, x):
            for features in (64, 128, 256):
                x = nn.leaky_relu(norm(nn.Conv(features, (4, 4), (2, 2))(x)), 0.2)
            return nn.Conv(1, (4, 4))(x)

    generator, critic = Generator(), Critic()

    def loss(p, one, other):
        fixed = lax.stop_gradient(p["critic"])
        made = generator.apply(p["there"], one)
        back = generator.apply(p["back"], made)
        own = square(critic.apply(fixed, made), 1) + 10 * jnp.abs(back - one).mean()
        judged = square(critic.apply(p["critic"], other), 1) + square(critic.apply(p["critic"], lax.stop_gradient(made)), 0)
        return own + judged

    def parameters():
        made = functools.partial(jax.eval_shape, generator.init, jax.random.key(0), image)
        return {"there": made(), "back": made(), "critic": jax.eval_shape(critic.init, jax.random.key(0), image)}

    image = floats(4, 64, 64, 3)
    return step_of_loss(loss, ADAM, parameters, image, image)


@step
def meta_learning():
    """A gradient of what three steps of gradients lead to, for eight tasks at once (MAML)."""

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            for _ in range(3):
                x = nn.relu(nn.GroupNorm(8)(nn.Conv(32, (3, 3), (2, 2))(x)))
            return nn.Dense(5)(x.reshape(x.shape[0], -1))

    net = Net()

    def task(p, seen, labels, asked, answers):
        def loss(q, x, y):
            return cross_entropy(net.apply(q, x), y)

        q = p
        for _ in range(3):
            q = jax.tree.map(lambda a, g: a - 0.1 * g, q, jax.grad(loss)(q, seen, labels))
        return loss(q, asked, answers)

    def loss(p, *tasks):
        return jax.vmap(functools.partial(task, p))(*tasks).mean()

    def parameters():
        return jax.eval_shape(net.init, jax.random.key(0), floats(25, 28, 28, 1))

    images, labels = floats(8, 25, 28, 28, 1), integers(8, 25)
    return step_of_loss(loss, ADAM, parameters, images, labels, images, labels)


@step
def world_model():
    """A recurrent state with random categories, its images, and the divergence of what it had foreseen (Dreamer)."""

    class Cell(nn.Module):
        @nn.compact
        def __call__(self, state, inputs):
            h, z = state
            action, seen, noise = inputs
            x = nn.silu(nn.Dense(256)(jnp.concatenate([z, action], -1)))
            h, _ = nn.GRUCell(256)(h, x)

            def kinds(x):
                return nn.log_softmax(nn.Dense(256)(nn.silu(nn.Dense(256)(x))).reshape(-1, 16, 16))

            before, behind = kinds(h), kinds(jnp.concatenate([h, seen], -1))
            chosen = jax.nn.one_hot((behind + noise).argmax(-1), 16)
            share = jnp.exp(behind)
            z = (chosen + share - lax.stop_gradient(share)).reshape(-1, 256)
            return (h, z), (h, z, (share * (behind - before)).sum((1, 2)))

    class Net(nn.Module):
        @nn.compact
        def __call__(self, inputs):
            images, actions, noise = inputs
            t, b = actions.shape[:2]
            x = images.reshape(t * b, 32, 32, 3)
            for features in (32, 64, 128):
                x = nn.silu(nn.Conv(features, (4, 4), (2, 2))(x))
            seen = nn.Dense(256)(x.reshape(t, b, -1))
            scan = nn.scan(Cell, variable_broadcast="params", split_rngs={"params": False})
            zeros = jnp.zeros((b, 256))
            _, (h, z, apart) = scan()((zeros, zeros), (actions, seen, noise))
            x = jnp.concatenate([h, z], -1).reshape(t * b, -1)
            reward = nn.Dense(1)(nn.silu(nn.Dense(256)(x)))
            x = nn.Dense(2048)(x).reshape(-1, 4, 4, 128)
            for features in (64, 32, 3):
                x = nn.ConvTranspose(features, (4, 4), (2, 2))(nn.silu(x))
            return x.reshape(images.shape), reward.reshape(t, b), apart

    def loss(outputs, inputs, rewards):
        made, reward, apart = outputs
        return square(made, inputs[0]) * 3072 + square(reward, rewards) + apart.mean()

    return training_step(Net(), loss, ADAM, (floats(16, 16, 32, 32, 3), floats(16, 16, 6), floats(16, 16, 16, 16)), floats(16, 16))


@step
def low_rank():
    """Two thin matrices beside each of a decoder's, which alone learn; its own are bf16 (LoRA)."""

    class Dense(nn.Module):
        features: int

        @nn.compact
        def __call__(self, x):
            base = self.param("base", nn.initializers.lecun_normal(), (x.shape[-1], self.features), jnp.bfloat16)
            down = self.param("down", nn.initializers.lecun_normal(), (x.shape[-1], 8))
            up = self.param("up", nn.initializers.zeros, (8, self.features))
            return x @ lax.stop_gradient(base) + 2 * (x @ down.astype(jnp.bfloat16)) @ up.astype(jnp.bfloat16)

    class Net(nn.Module):
        @nn.compact
        def __call__(self, words):
            b, s = words.shape
            table = self.param("table", nn.initializers.normal(0.02), (8192, 512), jnp.bfloat16)
            x = lax.stop_gradient(table)[words]
            for _ in range(4):
                h = nn.LayerNorm(use_bias=False, use_scale=False, dtype=jnp.bfloat16)(x)
                q, k, v = (Dense(512)(h).reshape(b, s, 8, 64) for _ in range(3))
                x = x + Dense(512)(jax.nn.dot_product_attention(q, k, v, is_causal=True).reshape(b, s, 512))
                h = nn.LayerNorm(use_bias=False, use_scale=False, dtype=jnp.bfloat16)(x)
                x = x + Dense(512)(nn.gelu(Dense(2048)(h)))
            return (x @ lax.stop_gradient(table).T).astype(jnp.float32)

    model = Net()

    def split(p):
        flat = jax.tree_util.tree_leaves_with_path(p)
        learn = [leaf for path, leaf in flat if path[-1].key in ("down", "up")]
        still = [leaf for path, leaf in flat if path[-1].key not in ("down", "up")]
        return learn, still

    def joined(shape, learn, still):
        learn, still = iter(learn), iter(still)
        return jax.tree_util.tree_map_with_path(lambda path, _: next(learn if path[-1].key in ("down", "up") else still), shape)

    shape = jax.eval_shape(model.init, jax.random.key(0), integers(8, 256))

    def update(learn, state, still, words):
        value, gradients = jax.value_and_grad(lambda q: next_words(model.apply(joined(shape, q, still), words), words))(learn)
        updates, state = ADAM.update(gradients, state, learn)
        return optax.apply_updates(learn, updates), state, value

    def arguments():
        learn, still = split(shape)
        return learn, jax.eval_shape(ADAM.init, learn), still, integers(8, 256)

    return update, arguments


@step
def orthogonal_updates():
    """An encoder whose matrices move by orthogonal matrices, found by iteration (Muon)."""

    class Net(nn.Module):
        @nn.compact
        def __call__(self, words):
            x = nn.Embed(2048, 256)(words)
            for _ in range(3):
                h = nn.LayerNorm()(x)
                x = x + nn.MultiHeadDotProductAttention(4)(h, h)
                x = x + nn.Dense(256)(nn.gelu(nn.Dense(1024)(nn.LayerNorm()(x))))
            return nn.Dense(2048)(nn.LayerNorm()(x))

    model = Net()

    def orthogonal(g):
        x = g.reshape(g.shape[0], -1)
        tall = x.shape[0] > x.shape[1]
        x = x.T if tall else x
        x = x / (jnp.linalg.norm(x) + 1e-7)
        for _ in range(5):
            a = x @ x.T
            x = 3.4445 * x + (-4.775 * a + 2.0315 * a @ a) @ x
        return (x.T if tall else x).reshape(g.shape)

    def update(p, momentum, words, wanted):
        value, gradients = jax.value_and_grad(lambda q: classes(model.apply(q, words), words, wanted))(p)
        momentum = jax.tree.map(lambda m, g: 0.95 * m + g, momentum, gradients)

        def move(a, m, g):
            m = 0.95 * m + g
            return a - 0.02 * (orthogonal(m) if m.ndim > 1 else m)

        return jax.tree.map(move, p, momentum, gradients), momentum, value

    def arguments():
        p = jax.eval_shape(model.init, jax.random.key(0), integers(16, 128))
        return p, p, integers(16, 128), integers(16, 128)

    return update, arguments


@step
def invertible():
    """Affine couplings of images, mixed by a matrix each; the loss has their determinants (Glow)."""

    class Coupling(nn.Module):
        @nn.compact
        def __call__(self, x):
            f = x.shape[-1]
            scale = self.param("scale", nn.initializers.zeros, (f,))
            x = (x + self.param("shift", nn.initializers.zeros, (f,))) * jnp.exp(scale)
            upper = jnp.triu(self.param("upper", nn.initializers.normal(0.02), (f, f)), 1)
            lower = jnp.tril(self.param("lower", nn.initializers.normal(0.02), (f, f)), -1) + jnp.eye(f)
            length = self.param("length", nn.initializers.zeros, (f,))
            x = x @ (lower @ (upper + jnp.diag(jnp.exp(length))))
            a, b = jnp.split(x, 2, -1)
            h = nn.relu(nn.Conv(128, (1, 1))(nn.relu(nn.Conv(128, (3, 3))(a))))
            move, log_scale = jnp.split(nn.Conv(f, (3, 3), kernel_init=nn.initializers.zeros)(h), 2, -1)
            log_scale = jnp.tanh(log_scale)
            place = x.shape[1] * x.shape[2]
            changed = log_scale.sum((1, 2, 3)) + place * (scale.sum() + length.sum())
            return jnp.concatenate([a, b * jnp.exp(log_scale) + move], -1), changed

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            total, likely = 0, 0
            for level in range(3):
                b, h, w, f = x.shape
                x = x.reshape(b, h // 2, 2, w // 2, 2, f).transpose(0, 1, 3, 2, 4, 5).reshape(b, h // 2, w // 2, 4 * f)
                for _ in range(3):
                    x, changed = Coupling()(x)
                    total = total + changed
                if level < 2:
                    x, out = jnp.split(x, 2, -1)
                    likely = likely - 0.5 * (out**2).sum((1, 2, 3))
            return total + likely - 0.5 * (x**2).sum((1, 2, 3))

    def loss(likely, images):
        return -likely.mean() / images.size

    return training_step(Net(), loss, ADAM, floats(32, 32, 32, 3))


@step
def masked_autoencoder():
    """A quarter of an image's patches is read, the others are painted from it."""

    class Block(nn.Module):
        @nn.compact
        def __call__(self, x):
            h = nn.LayerNorm()(x)
            x = x + nn.MultiHeadDotProductAttention(4, dtype=jnp.bfloat16)(h, h)
            return x + nn.Dense(x.shape[-1], dtype=jnp.bfloat16)(nn.gelu(nn.Dense(4 * x.shape[-1], dtype=jnp.bfloat16)(nn.LayerNorm()(x))))

    class Net(nn.Module):
        @nn.compact
        def __call__(self, inputs):
            images, order = inputs
            b, s, p = images.shape[0], images.shape[1] // 8, 8
            patches = images.reshape(b, s, p, s, p, 3).transpose(0, 1, 3, 2, 4, 5).reshape(b, s * s, p * p * 3)
            place = self.param("place", nn.initializers.normal(0.02), (s * s, 256))
            seen = order[:, : s * s // 4]
            x = jnp.take_along_axis(nn.Dense(256)(patches) + place, seen[..., None], 1)
            for _ in range(3):
                x = Block()(x)
            x = nn.Dense(128)(nn.LayerNorm()(x))
            empty = self.param("empty", nn.initializers.normal(0.02), (128,))
            whole = jnp.broadcast_to(empty, (b, s * s, 128)).at[jnp.arange(b)[:, None], seen].set(x)
            x = whole + self.param("out", nn.initializers.normal(0.02), (s * s, 128))
            for _ in range(2):
                x = Block()(x)
            return nn.Dense(p * p * 3)(nn.LayerNorm()(x)), patches

    def loss(outputs, inputs):
        return square(*outputs)

    return training_step(Net(), loss, ADAM, (floats(32, 96, 96, 3), integers(32, 144)))


@step
def factorisation():
    """Tables of 26 columns, their products in pairs, and a net beside them (DeepFM)."""

    class Net(nn.Module):
        @nn.compact
        def __call__(self, inputs):
            numbers, kinds = inputs
            kinds = kinds + 1000 * np.arange(26)
            v = nn.Embed(26000, 16)(kinds)
            first = nn.Embed(26000, 1)(kinds).sum((1, 2))
            pairs = 0.5 * (jnp.square(v.sum(1)) - jnp.square(v).sum(1)).sum(-1)
            x = jnp.concatenate([v.reshape(v.shape[0], -1), numbers], -1)
            for width in (400, 400, 400):
                x = nn.relu(nn.Dense(width)(x))
            return first + pairs + nn.Dense(1)(x)[:, 0] + nn.Dense(1)(numbers)[:, 0]

    def loss(found, inputs, wanted):
        return optax.sigmoid_binary_cross_entropy(found, wanted).mean()

    return training_step(Net(), loss, optax.adagrad(0.01), (floats(2048, 13), integers(2048, 26)), floats(2048))


@step
def forecasts():
    """Blocks that take what they explain away from the past of a series (N-BEATS)."""

    class Net(nn.Module):
        @nn.compact
        def __call__(self, past):
            future = 0
            for _ in range(6):
                h = past
                for _ in range(4):
                    h = nn.relu(nn.Dense(512)(h))
                theta = nn.Dense(16)(h)
                past = past - nn.Dense(96)(theta[:, :8])
                future = future + nn.Dense(24)(theta[:, 8:])
            return future

    def loss(found, past, wanted):
        return (2 * jnp.abs(found - wanted) / (jnp.abs(found) + jnp.abs(wanted) + 1e-6)).mean()

    return training_step(Net(), loss, ADAM, floats(1024, 96), floats(1024, 24))


@step
def physics():
    """A net that has to fulfil a differential equation (of heat) at 4096 points."""

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            for _ in range(4):
                x = jnp.tanh(nn.Dense(64)(x))
            return nn.Dense(1)(x)[..., 0]

    model = Net()

    def loss(p, inner, start, wanted):
        def u(x):
            return model.apply(p, x)

        def residual(x):
            slope = jax.grad(u)
            twice = jax.jvp(slope, (x,), (jnp.array([0.0, 1.0]),))[1][1]
            return slope(x)[0] - 0.1 * twice

        return jnp.square(jax.vmap(residual)(inner)).mean() + square(u(start), wanted)

    def parameters():
        return jax.eval_shape(model.init, jax.random.key(0), floats(2))

    return step_of_loss(loss, ADAM, parameters, floats(4096, 2), floats(256, 2), floats(256))


if __name__ == "__main__":
    print_named(STEPS, STEPS.stablehlo, __doc__)
