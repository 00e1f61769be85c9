"""Fifteen more training steps that were measured before anybody looked at them, like those of first_tries.py.

    python bench/programs/sixth_tries.py radiance > radiance.mlir

sixth_tries.md says what came out; third_tries.py says how to measure one. Needs jax, flax and optax.
"""

import os

os.environ["JAX_PLATFORMS"] = "cpu"

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from named_steps import NamedSteps, cross_entropy, print_named, square
from ordinary_steps import classes, floats, integers, next_words, step_of_loss, training_step

lax = jax.lax
STEPS = NamedSteps()
ADAM = optax.adamw(1e-3)
SGD = optax.sgd(0.1, momentum=0.9, nesterov=True)
step = STEPS.step


@step
def radiance():
    """Colours along rays from a net that sees places and directions in octaves (NeRF)."""

    def octaves(x, most):
        x = (x[..., None, :] * 2.0 ** jnp.arange(most)[:, None]).reshape(*x.shape[:-1], -1)
        return jnp.concatenate([jnp.sin(x), jnp.cos(x)], -1)

    class Net(nn.Module):
        @nn.compact
        def __call__(self, begin, direction, depths):
            places = begin[:, None] + depths[..., None] * direction[:, None]
            told = octaves(places, 10)
            x = told
            for layer in range(8):
                x = nn.relu(nn.Dense(256)(jnp.concatenate([x, told], -1) if layer == 5 else x))
            density = nn.softplus(nn.Dense(1)(x)[..., 0])
            seen = jnp.broadcast_to(octaves(direction, 4)[:, None], (*depths.shape, 24))
            colour = nn.sigmoid(nn.Dense(3)(nn.relu(nn.Dense(128)(jnp.concatenate([nn.Dense(256)(x), seen], -1)))))
            between = jnp.diff(depths, axis=-1, append=depths[:, -1:] + 1)
            stopped = 1 - jnp.exp(-density * between)
            passed = jnp.cumprod(jnp.concatenate([jnp.ones_like(stopped[:, :1]), 1 - stopped[:, :-1] + 1e-10], -1), -1)
            return ((stopped * passed)[..., None] * colour).sum(1)

    batch = floats(512, 3), floats(512, 3), floats(512, 64), floats(512, 3)
    return training_step(Net(), lambda out, begin, direction, depths, wanted: square(out, wanted), optax.adam(5e-4), *batch, inputs=3)


@step
def clouds():
    """Points and their nearest neighbours, found anew in the features of each layer (DGCNN)."""

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            each = []
            for features in (64, 64, 128):
                inner = jnp.einsum("bnf,bmf->bnm", x, x)
                norm = jnp.square(x).sum(-1)
                _, near = lax.top_k(2 * inner - norm[:, None] - norm[:, :, None], 16)
                there = jax.vmap(lambda x, near: x[near])(x, near)
                here = jnp.broadcast_to(x[:, :, None], there.shape)
                x = nn.leaky_relu(nn.Dense(features)(jnp.concatenate([here, there - here], -1))).max(2)
                each.append(x)
            x = nn.leaky_relu(nn.Dense(512)(jnp.concatenate(each, -1))).max(1)
            return nn.Dense(40)(nn.relu(nn.Dense(256)(x)))

    return training_step(Net(), classes, SGD, floats(8, 512, 3), integers(8))


@step
def optical_flow():
    """All places of two images compared, then a recurrent net of convolutions that moves what it looks up (RAFT)."""

    class Eyes(nn.Module):
        @nn.compact
        def __call__(self, x):
            for features, stride in ((32, 2), (48, 2), (64, 2)):
                h = nn.relu(nn.GroupNorm(8)(nn.Conv(features, (3, 3), (stride, stride))(x)))
                x = nn.Conv(features, (1, 1), (stride, stride))(x) + nn.GroupNorm(8)(nn.Conv(features, (3, 3))(h))
            return nn.Conv(128, (1, 1))(x)

    class Net(nn.Module):
        @nn.compact
        def __call__(self, first, second):
            eyes = Eyes()
            one, other = eyes(first), eyes(second)
            batch, high, wide, _ = one.shape
            volume = jnp.einsum("bhwf,bijf->bhwij", one, other) / 128**0.5
            levels = [volume, nn.avg_pool(volume.reshape(-1, high, wide, 1), (2, 2), (2, 2)).reshape(batch, high, wide, high // 2, wide // 2)]
            state, told = jnp.tanh(one), nn.relu(nn.Conv(64, (1, 1))(one))
            grid = jnp.stack(jnp.meshgrid(jnp.arange(high), jnp.arange(wide), indexing="ij"), -1).astype(jnp.float32)
            flow = jnp.zeros((batch, high, wide, 2))
            look, gate, new, move = nn.Conv(64, (1, 1)), nn.Conv(256, (3, 3)), nn.Conv(128, (3, 3)), nn.Conv(2, (3, 3))
            flows = []
            for _ in range(3):
                flow = lax.stop_gradient(flow)
                seen = []
                for scale, level in enumerate(levels):
                    # Weights of a place by its distance from each row and each column: a bilinear look-up as products.
                    centre = (grid + flow) / 2**scale
                    offset = jnp.arange(-3, 4)
                    row = nn.relu(1 - jnp.abs(centre[..., 0, None, None] + offset[:, None] - jnp.arange(level.shape[3])))
                    column = nn.relu(1 - jnp.abs(centre[..., 1, None, None] + offset[:, None] - jnp.arange(level.shape[4])))
                    seen.append(jnp.einsum("bhwyi,bhwij,bhwxj->bhwyx", row, level, column).reshape(batch, high, wide, 49))
                x = jnp.concatenate([nn.relu(look(jnp.concatenate([*seen, flow], -1))), told], -1)
                update, reset = jnp.split(nn.sigmoid(gate(jnp.concatenate([state, x], -1))), 2, -1)
                state = (1 - update) * state + update * jnp.tanh(new(jnp.concatenate([reset * state, x], -1)))
                flow = flow + move(state)
                flows.append(flow)
            return flows

    def loss(flows, first, second, wanted):
        return sum(0.8 ** (len(flows) - 1 - i) * jnp.abs(flow - wanted).mean() for i, flow in enumerate(flows))

    return training_step(Net(), loss, ADAM, floats(2, 128, 192, 3), floats(2, 128, 192, 3), floats(2, 16, 24, 2), inputs=2)


@step
def dense_blocks():
    """Each layer sees the features of all before it, statistics of the batch, bf16 activations (DenseNet)."""

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            norm = lambda x: nn.relu(nn.LayerNorm(reduction_axes=(0, 1, 2), feature_axes=-1, dtype=jnp.bfloat16)(x))
            conv = lambda features, size: nn.Conv(features, (size, size), use_bias=False, dtype=jnp.bfloat16)
            x = conv(48, 3)(x)
            for block in range(3):
                for _ in range(6):
                    x = jnp.concatenate([x, conv(24, 3)(norm(conv(96, 1)(norm(x))))], -1)
                if block < 2:
                    x = nn.avg_pool(conv(x.shape[-1] // 2, 1)(norm(x)), (2, 2), (2, 2))
            return nn.Dense(100)(norm(x).mean((1, 2)).astype(jnp.float32))

    return training_step(Net(), classes, SGD, floats(64, 32, 32, 3), integers(64))


@step
def clips():
    """Space and time in convolutions one after the other (R(2+1)D)."""

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            norm = lambda x: nn.relu(nn.GroupNorm(8)(x))
            x = norm(nn.Conv(48, (1, 7, 7), (1, 2, 2))(x))
            for features, stride in ((64, 1), (128, 2)):
                h = x
                for s in (stride, 1):
                    h = norm(nn.Conv(features * 2, (1, 3, 3), (1, s, s))(h))
                    h = norm(nn.Conv(features, (3, 1, 1), (s, 1, 1))(h))
                x = h + nn.Conv(features, (1, 1, 1), (stride,) * 3)(x)
            return nn.Dense(101)(x.mean((1, 2, 3)))

    return training_step(Net(), classes, SGD, floats(4, 8, 56, 56, 3), integers(4))


@step
def redundancy():
    """Features of two views agree, and each says something else (Barlow Twins)."""

    class Net(nn.Module):
        @nn.compact
        def __call__(self, one, other):
            x = jnp.concatenate([one, other])
            for features in (32, 64, 128, 256):
                x = nn.relu(nn.GroupNorm(16)(nn.Conv(features, (3, 3), (2, 2))(x)))
            x = x.mean((1, 2))
            for _ in range(2):
                x = nn.relu(nn.LayerNorm(reduction_axes=0, feature_axes=-1)(nn.Dense(1024)(x)))
            return jnp.split(nn.Dense(1024)(x), 2)

    def loss(out, one, other):
        one, other = ((x - x.mean(0)) / (x.std(0) + 1e-5) for x in out)
        across = one.T @ other / one.shape[0]
        same = jnp.eye(across.shape[0], dtype=bool)
        return jnp.where(same, jnp.square(across - 1), 0.005 * jnp.square(across)).sum()

    return training_step(Net(), loss, ADAM, floats(128, 48, 48, 3), floats(128, 48, 48, 3), inputs=2)


@step
def queue():
    """Keys of a slow net wait in a queue that the batch's are compared with (MoCo)."""

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            x = nn.relu(nn.Conv(32, (3, 3))(x))
            for features in (32, 64, 128):
                h = nn.Conv(features, (3, 3), (2, 2))(nn.relu(nn.GroupNorm(8)(x)))
                x = nn.Conv(features, (1, 1), (2, 2))(x) + nn.Conv(features, (3, 3))(nn.relu(nn.GroupNorm(8)(h)))
            x = nn.Dense(128)(nn.relu(x.mean((1, 2))))
            return x / jnp.sqrt(jnp.square(x).sum(-1, keepdims=True) + 1e-8)

    net = Net()
    images = floats(64, 32, 32, 3)

    def update(p, state, slow, waiting, place, queries, keys):
        slow = jax.tree.map(lambda s, p: 0.999 * s + 0.001 * p, slow, p)
        key = net.apply(slow, keys)

        def loss(p):
            query = net.apply(p, queries)
            right = (query * key).sum(-1, keepdims=True)
            logits = jnp.concatenate([right, query @ waiting.T], -1) / 0.07
            return cross_entropy(logits, jnp.zeros(len(logits), jnp.int32))

        value, gradients = jax.value_and_grad(loss)(p)
        updates, state = SGD.update(gradients, state, p)
        waiting = lax.dynamic_update_slice(waiting, key, (place, 0))
        return optax.apply_updates(p, updates), state, slow, waiting, (place + 64) % 8192, value

    def arguments():
        p = jax.eval_shape(net.init, jax.random.key(0), images)
        return p, jax.eval_shape(SGD.init, p), p, floats(8192, 128), integers(), images, images

    return update, arguments


@step
def preconditioned():
    """Gradients between roots of the inverses of their products, found by iteration (Shampoo)."""

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            for _ in range(3):
                x = nn.relu(nn.Dense(256)(x))
            return nn.Dense(10)(x)

    net = Net()
    loss = lambda p, images, labels: classes(net.apply(p, images), images, labels)

    def root(a):
        """The inverse fourth root by coupled Newton steps."""
        eye = jnp.eye(a.shape[0])
        a = a + 1e-4 * jnp.trace(a) / a.shape[0] * eye
        z = 2.5 / jnp.linalg.norm(a)

        def body(_, carry):
            matrix, found = carry
            next = 1.25 * eye - 0.25 * matrix
            twice = next @ next
            return twice @ twice @ matrix, found @ next

        return lax.fori_loop(0, 12, body, (a * z, eye * z**0.25))[1]

    def update(p, state, images, labels):
        value, gradients = jax.value_and_grad(loss)(p, images, labels)

        def move(p, g, pair):
            if g.ndim != 2 or g.shape[1] < 128:
                return p - 0.01 * g, pair
            left, right = pair[0] + g @ g.T, pair[1] + g.T @ g
            return p - 0.01 * root(left) @ g @ root(right), (left, right)

        flat, tree = jax.tree.flatten(p)
        moved = [move(*each) for each in zip(flat, jax.tree.leaves(gradients), state)]
        return jax.tree.unflatten(tree, [m[0] for m in moved]), [m[1] for m in moved], value

    def arguments():
        p = jax.eval_shape(net.init, jax.random.key(0), floats(512, 256))
        pairs = [(floats(*x.shape[:1] * 2), floats(*x.shape[1:] * 2)) if len(x.shape) == 2 and x.shape[1] >= 128 else () for x in jax.tree.leaves(p)]
        return p, pairs, floats(512, 256), integers(512)

    return update, arguments


@step
def next_items():
    """What somebody buys next, against wrong things drawn by how common they are (SASRec with sampled softmax)."""

    class Net(nn.Module):
        @nn.compact
        def __call__(self, items, wrong):
            table = nn.Embed(50000, 64)
            x = table(items) * 8 + self.param("places", nn.initializers.normal(0.02), (50, 64))
            mask = nn.make_causal_mask(items)
            for _ in range(2):
                x = x + nn.MultiHeadDotProductAttention(1)(nn.LayerNorm()(x), mask=mask)
                x = x + nn.Dense(64)(nn.relu(nn.Dense(64)(nn.LayerNorm()(x))))
            x = nn.LayerNorm()(x)[:, :-1]
            return (x * table(items[:, 1:])).sum(-1), x @ table(wrong).T

    def loss(out, items, wrong):
        right, others = out
        others = others - jnp.log(1024 * (jnp.log1p(1 / (1.0 + wrong)) / jnp.log(50001.0)))
        others = jnp.where(items[:, 1:, None] == wrong, -1e9, others)
        real = (items[:, 1:] > 0).astype(jnp.float32)
        return ((jax.nn.logsumexp(jnp.concatenate([right[..., None], others], -1), -1) - right) * real).sum() / real.sum()

    return training_step(Net(), loss, optax.adam(1e-3), integers(128, 50), integers(1024), inputs=2)


@step
def ratings():
    """What people liked of 20,000 films through a narrow random middle (variational autoencoder for collaborative filtering)."""

    class Net(nn.Module):
        @nn.compact
        def __call__(self, liked, noise):
            x = liked / jnp.sqrt(jnp.square(liked).sum(-1, keepdims=True) + 1e-8)
            mean, log = jnp.split(nn.Dense(400)(jnp.tanh(nn.Dense(600)(x))), 2, -1)
            return nn.Dense(20108)(jnp.tanh(nn.Dense(600)(mean + noise * jnp.exp(log / 2)))), mean, log

    def loss(out, liked, noise):
        logits, mean, log = out
        apart = -0.5 * (1 + log - jnp.square(mean) - jnp.exp(log)).sum(-1).mean()
        return -(nn.log_softmax(logits) * liked).sum(-1).mean() + 0.2 * apart

    return training_step(Net(), loss, optax.adam(1e-3), floats(500, 20108), floats(500, 200), inputs=2)


@step
def patches_of_series():
    """Overlapping pieces of each of many series are the words of a transformer (PatchTST)."""

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            mean, spread = x.mean(1, keepdims=True), x.std(1, keepdims=True) + 1e-5
            x = ((x - mean) / spread).swapaxes(1, 2)
            x = jnp.pad(x, ((0, 0), (0, 0), (0, 8)), mode="edge")
            pieces = jnp.stack([x[..., 8 * i : 8 * i + 16] for i in range(42)], -2).reshape(-1, 42, 16)
            x = nn.Dense(128)(pieces) + self.param("places", nn.initializers.normal(0.02), (42, 128))
            for _ in range(3):
                x = nn.LayerNorm()(x + nn.MultiHeadDotProductAttention(16)(x))
                x = nn.LayerNorm()(x + nn.Dense(128)(nn.gelu(nn.Dense(256)(x))))
            ahead = nn.Dense(96)(x.reshape(mean.shape[0], mean.shape[2], -1)).swapaxes(1, 2)
            return ahead * spread + mean

    return training_step(Net(), lambda out, past, wanted: square(out, wanted), ADAM, floats(16, 336, 21), floats(16, 96, 21))


@step
def latent_diffusion():
    """Noise is taken from small images of features by a net that looks at words (latent diffusion, bf16)."""
    half = jnp.bfloat16

    class Block(nn.Module):
        features: int

        @nn.compact
        def __call__(self, x, time):
            h = nn.Conv(self.features, (3, 3), dtype=half)(nn.silu(nn.GroupNorm(32)(x)))
            h = h + nn.Dense(self.features, dtype=half)(nn.silu(time))[:, None, None]
            h = nn.Conv(self.features, (3, 3), dtype=half)(nn.silu(nn.GroupNorm(32)(h)))
            return h + (x if x.shape[-1] == self.features else nn.Conv(self.features, (1, 1), dtype=half)(x))

    class Looks(nn.Module):
        @nn.compact
        def __call__(self, x, words):
            features = x.shape[-1]
            h = nn.GroupNorm(32)(x).reshape(x.shape[0], -1, features)
            h = h + nn.MultiHeadDotProductAttention(8, dtype=half)(nn.LayerNorm()(h))
            h = h + nn.MultiHeadDotProductAttention(8, dtype=half)(nn.LayerNorm()(h), words, words)
            gate, value = jnp.split(nn.Dense(features * 8, dtype=half)(nn.LayerNorm()(h)), 2, -1)
            return x + nn.Dense(features, dtype=half)(value * nn.gelu(gate)).reshape(x.shape) + h.reshape(x.shape)

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x, time, words):
            angle = time[:, None] * jnp.exp(-jnp.arange(64) * (jnp.log(10000.0) / 64))
            time = nn.Dense(512, dtype=half)(nn.silu(nn.Dense(512, dtype=half)(jnp.concatenate([jnp.sin(angle), jnp.cos(angle)], -1))))
            x = nn.Conv(128, (3, 3), dtype=half)(x)
            kept = [x]
            for level, features in enumerate((128, 256)):
                x = Block(features)(x, time)
                x = Looks()(x, words)
                kept.append(x)
                if level == 0:
                    x = nn.Conv(features, (3, 3), (2, 2), dtype=half)(x)
            x = Block(256)(Looks()(Block(256)(x, time), words), time)
            for level, features in enumerate((256, 128)):
                x = Looks()(Block(features)(jnp.concatenate([x, kept.pop()], -1), time), words)
                if level == 0:
                    batch, high, wide, f = x.shape
                    x = nn.Conv(f, (3, 3), dtype=half)(jax.image.resize(x, (batch, high * 2, wide * 2, f), "nearest"))
            return nn.Conv(4, (3, 3))(nn.silu(nn.GroupNorm(32)(x)))

    def loss(out, x, time, words, noise):
        return square(out, noise)

    batch = floats(4, 32, 32, 4), floats(4), floats(4, 77, 256), floats(4, 32, 32, 4)
    return training_step(Net(), loss, ADAM, *batch, inputs=3)


@step
def remembered_words():
    """A decoder that also sees what it thought of the words before, told by distances (Transformer-XL)."""
    layers, features, heads = 3, 256, 8

    class Net(nn.Module):
        @nn.compact
        def __call__(self, words, memory):
            x = nn.Embed(8192, features)(words)
            batch, length, _ = x.shape
            whole = length + memory.shape[2]
            angle = jnp.arange(whole - 1, -1, -1.0)[:, None] * jnp.exp(-jnp.arange(0, features, 2) * (jnp.log(10000.0) / features))
            far = jnp.concatenate([jnp.sin(angle), jnp.cos(angle)], -1)
            later = jnp.arange(whole)[None] > jnp.arange(length)[:, None] + memory.shape[2]
            by = [self.param(name, nn.initializers.normal(0.02), (heads, features // heads)) for name in ("content", "place")]
            kept = []
            for layer in range(layers):
                kept.append(x)
                seen = jnp.concatenate([memory[layer], x], 1)
                split = lambda x: x.reshape(*x.shape[:-1], heads, -1)
                query = split(nn.Dense(features, use_bias=False)(x))
                key, value = (split(nn.Dense(features, use_bias=False)(seen)) for _ in range(2))
                place = split(nn.Dense(features, use_bias=False)(far))
                scores = jnp.einsum("bihd,bjhd->bhij", query + by[0], key)
                apart = jnp.einsum("bihd,jhd->bhij", query + by[1], place)
                # Row i moves by i places: a column more, read in rows of another length.
                apart = jnp.pad(apart, ((0, 0), (0, 0), (0, 0), (1, 0))).reshape(batch, heads, whole + 1, length)[:, :, 1:].reshape(apart.shape)
                scores = jnp.where(later, -1e9, (scores + apart) / (features // heads) ** 0.5)
                read = jnp.einsum("bhij,bjhd->bihd", nn.softmax(scores), value).reshape(x.shape)
                x = nn.LayerNorm()(x + nn.Dense(features, use_bias=False)(read))
                x = nn.LayerNorm()(x + nn.Dense(features)(nn.relu(nn.Dense(1024)(x))))
            return nn.Dense(8192)(x), jnp.stack(kept)

    net = Net()

    def update(p, state, words, memory):
        def loss(p):
            logits, kept = net.apply(p, words, memory)
            return next_words(logits, words), lax.stop_gradient(kept)

        (value, kept), gradients = jax.value_and_grad(loss, has_aux=True)(p)
        updates, state = ADAM.update(gradients, state, p)
        return optax.apply_updates(p, updates), state, kept, value

    def arguments():
        batch = integers(8, 128), floats(layers, 8, 128, features)
        p = jax.eval_shape(net.init, jax.random.key(0), *batch)
        return p, jax.eval_shape(ADAM.init, p), *batch

    return update, arguments


@step
def board():
    """Moves and winners of a game from its board (AlphaZero's residual tower)."""

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            x = nn.relu(nn.GroupNorm(8)(nn.Conv(128, (3, 3))(x)))
            for _ in range(5):
                h = nn.relu(nn.GroupNorm(8)(nn.Conv(128, (3, 3))(x)))
                x = nn.relu(x + nn.GroupNorm(8)(nn.Conv(128, (3, 3))(h)))
            moves = nn.relu(nn.Conv(2, (1, 1))(x)).reshape(len(x), -1)
            value = nn.relu(nn.Conv(1, (1, 1))(x)).reshape(len(x), -1)
            return nn.Dense(362)(moves), jnp.tanh(nn.Dense(1)(nn.relu(nn.Dense(256)(value))))[..., 0]

    def loss(out, boards, searched, won):
        moves, value = out
        return square(value, won) - (searched * nn.log_softmax(moves)).sum(-1).mean()

    return training_step(Net(), loss, SGD, floats(64, 19, 19, 17), floats(64, 362), floats(64))


@step
def speaking():
    """Letters to sound, a frame at a time, by attention that knows where it was (Tacotron 2)."""

    class Frame(nn.Module):
        @nn.compact
        def __call__(self, carry, frame, letters, keys):
            hears, speaks, weights, total, read = carry
            frame = nn.relu(nn.Dense(128)(nn.relu(nn.Dense(128)(frame))))
            hears, x = nn.OptimizedLSTMCell(256)(hears, jnp.concatenate([frame, read], -1))
            where = nn.Dense(64, use_bias=False)(nn.Conv(16, (15,))(jnp.stack([weights, total], -1)))
            scores = nn.Dense(1)(jnp.tanh(nn.Dense(64)(x)[:, None] + keys + where))[..., 0]
            weights = nn.softmax(scores)
            read = jnp.einsum("bt,btf->bf", weights, letters)
            speaks, x = nn.OptimizedLSTMCell(256)(speaks, jnp.concatenate([x, read], -1))
            out = nn.Dense(80)(jnp.concatenate([x, read], -1))
            return (hears, speaks, weights, total + weights, read), out

    class Net(nn.Module):
        @nn.compact
        def __call__(self, letters, frames):
            x = nn.Embed(64, 256)(letters)
            for _ in range(2):
                x = nn.relu(nn.LayerNorm()(nn.Conv(256, (5,))(x)))
            batch, length = letters.shape
            keys = nn.Dense(64)(x)
            zero = lambda *shape: jnp.zeros((batch, *shape))
            start = (zero(256), zero(256)), (zero(256), zero(256)), zero(length), zero(length), zero(256)
            over = nn.scan(Frame, variable_broadcast="params", split_rngs={"params": False}, in_axes=(0, nn.broadcast, nn.broadcast))
            before = jnp.pad(frames, ((0, 0), (1, 0), (0, 0)))[:, :-1].swapaxes(0, 1)
            _, out = over()(start, before, x, keys)
            out = out.swapaxes(0, 1)
            after = out
            for features in (128, 128, 80):
                after = nn.Conv(features, (5,))(jnp.tanh(after))
            return out, out + after

    def loss(out, letters, frames):
        return square(out[0], frames) + square(out[1], frames)

    return training_step(Net(), loss, optax.chain(optax.clip_by_global_norm(1.0), optax.adam(1e-3)), integers(16, 64), floats(16, 80, 80), inputs=2)


if __name__ == "__main__":
    print_named(STEPS, STEPS.stablehlo, __doc__)
