"""Fourteen more training steps that were measured before anybody looked at them, like those of first_tries.py.

    python bench/programs/third_tries.py capsules > capsules.mlir            as JAX prints it, lowered for the computer's CPU
    tpusim run capsules.mlir --config v3-8 --cores 1
    PYTHONPATH=workloads/capture python -m tpusim_capture capsules.mlir --chip v3 -o STEPS/capsules
    bench/xla_ratio.py --folder STEPS capsules

third_tries.md says what came out. Needs jax, flax and optax.
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


@step
def random_features():
    """Attention without a matrix of scores, by random features of queries and keys (Performer)."""

    class Attend(nn.Module):
        @nn.compact
        def __call__(self, x):
            b, s, f = x.shape
            q, k, v = (nn.DenseGeneral((4, 64))(x) for _ in range(3))
            turn = np.random.default_rng(0).standard_normal((64, 128)).astype(np.float32)

            def features(x):
                x = x / 64**0.25
                at = x @ turn
                return jnp.exp(at - jnp.square(x).sum(-1, keepdims=True) / 2 - lax.stop_gradient(at.max((1, 3), keepdims=True))) + 1e-6

            q, k = features(q), features(k)
            sums = jnp.einsum("bshm,bshd->bhmd", k, v)
            scale = jnp.einsum("bshm,bhm->bsh", q, k.sum(1))
            return nn.Dense(f)((jnp.einsum("bshm,bhmd->bshd", q, sums) / scale[..., None]).reshape(b, s, 256))

    class Net(nn.Module):
        @nn.compact
        def __call__(self, words):
            x = nn.Embed(4096, 256)(words)
            for _ in range(2):
                x = x + Attend()(nn.LayerNorm()(x))
                x = x + nn.Dense(256)(nn.gelu(nn.Dense(1024)(nn.LayerNorm()(x))))
            return nn.Dense(16)(nn.LayerNorm()(x).mean(1))

    return training_step(Net(), classes, ADAM, integers(8, 1024), integers(8))


@step
def capsules():
    """Vectors that vote for vectors, three rounds (capsules with dynamic routing)."""

    def squashed(x):
        square = jnp.square(x).sum(-1, keepdims=True)
        return square / (1 + square) * x / jnp.sqrt(square + 1e-8)

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            x = nn.relu(nn.Conv(64, (9, 9), padding="VALID")(x))
            x = nn.Conv(64, (9, 9), (2, 2), padding="VALID")(x)
            x = squashed(x.reshape(x.shape[0], -1, 8))
            turn = self.param("turn", nn.initializers.normal(0.1), (x.shape[1], 10, 8, 16))
            votes = jnp.einsum("bid,iodk->biok", x, turn)
            logits = jnp.zeros(votes.shape[:3])
            for turns in range(3):
                out = squashed((nn.softmax(logits)[..., None] * votes).sum(1))
                logits = logits + jnp.einsum("biok,bok->bio", votes, out)
            return jnp.sqrt(jnp.square(out).sum(-1) + 1e-8)

    def loss(lengths, images, labels):
        wanted = jax.nn.one_hot(labels, 10)
        return (wanted * jnp.square(nn.relu(0.9 - lengths)) + 0.5 * (1 - wanted) * jnp.square(nn.relu(lengths - 0.1))).sum(-1).mean()

    return training_step(Net(), loss, ADAM, floats(64, 28, 28, 1), integers(64))


@step
def content_memory():
    """A controller that reads and writes a memory by content, in a scan (neural Turing machine)."""

    class Cell(nn.Module):
        @nn.compact
        def __call__(self, state, x):
            memory, read, hidden = state
            hidden = nn.tanh(nn.Dense(128)(jnp.concatenate([x, read, hidden], -1)))

            def address(key, sharp):
                likeness = jnp.einsum("bmd,bd->bm", memory, key)
                size = jnp.sqrt(jnp.square(memory).sum(-1) * jnp.square(key).sum(-1, keepdims=True) + 1e-6)
                return nn.softmax(nn.softplus(sharp) * likeness / size)

            write = address(nn.Dense(32)(hidden), nn.Dense(1)(hidden))
            erase, add = nn.sigmoid(nn.Dense(32)(hidden)), nn.Dense(32)(hidden)
            memory = memory * (1 - write[..., None] * erase[:, None]) + write[..., None] * add[:, None]
            read = jnp.einsum("bm,bmd->bd", address(nn.Dense(32)(hidden), nn.Dense(1)(hidden)), memory)
            return (memory, read, hidden), nn.Dense(8)(jnp.concatenate([hidden, read], -1))

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            b = x.shape[0]
            state = jnp.full((b, 64, 32), 1e-3), jnp.zeros((b, 32)), jnp.zeros((b, 128))
            scan = nn.scan(Cell, variable_broadcast="params", split_rngs={"params": False}, in_axes=1, out_axes=1)
            return scan()(state, x)[1]

    return training_step(Net(), lambda found, x, wanted: square(found, wanted), ADAM, floats(32, 24, 8), floats(32, 24, 8))


@step
def restricted_boltzmann():
    """Contrastive divergence: two rounds of sampling between visible and hidden units."""

    def loss(p, key, seen):
        def hidden(v):
            return nn.sigmoid(v @ p["w"] + p["hidden"])

        def visible(h):
            return nn.sigmoid(h @ p["w"].T + p["visible"])

        def energy(v):
            return -(v @ p["visible"]) - nn.softplus(v @ p["w"] + p["hidden"]).sum(-1)

        v = seen
        for k in jax.random.split(key, 2):
            first, second = jax.random.split(k)
            h = jax.random.bernoulli(first, hidden(v)).astype(jnp.float32)
            v = jax.random.bernoulli(second, visible(h)).astype(jnp.float32)
        return (energy(seen) - energy(lax.stop_gradient(v))).mean()

    def parameters():
        return {"w": floats(784, 512), "hidden": floats(512), "visible": floats(784)}

    return step_of_loss(loss, SGD, parameters, jax.ShapeDtypeStruct((2,), jnp.uint32), floats(256, 784))


@step
def clipped_policy():
    """Advantages by a scan from the end, a clipped policy and a value (PPO)."""

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            for _ in range(2):
                x = nn.tanh(nn.Dense(256)(x))
            return nn.Dense(12)(x), nn.Dense(1)(x)[..., 0]

    model = Net()

    def loss(p, seen, actions, before, rewards, ends):
        logits, values = model.apply(p, seen)

        def back(later, now):
            reward, value, following, end = now
            later = reward + 0.99 * following * (1 - end) - value + 0.99 * 0.95 * (1 - end) * later
            return later, later

        fixed = lax.stop_gradient(values)
        following = jnp.concatenate([fixed[1:], fixed[-1:]])
        _, gain = lax.scan(back, jnp.zeros(rewards.shape[1]), (rewards, fixed, following, ends), reverse=True)
        wanted = gain + fixed
        gain = (gain - gain.mean()) / (gain.std() + 1e-8)
        chosen = jnp.take_along_axis(nn.log_softmax(logits), actions[..., None], -1)[..., 0]
        ratio = jnp.exp(chosen - before)
        policy = -jnp.minimum(ratio * gain, jnp.clip(ratio, 0.8, 1.2) * gain).mean()
        entropy = -(nn.softmax(logits) * nn.log_softmax(logits)).sum(-1).mean()
        return policy + 0.5 * square(values, wanted) - 0.01 * entropy

    optimizer = optax.chain(optax.clip_by_global_norm(0.5), optax.adam(3e-4))
    inputs = floats(128, 64, 64), integers(128, 64), floats(128, 64), floats(128, 64), floats(128, 64)
    return step_of_loss(loss, optimizer, lambda: jax.eval_shape(model.init, jax.random.key(0), inputs[0]), *inputs)


@step
def waves():
    """Strided convolutions along sound, then a choice among later frames of the batch (wav2vec)."""

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            for size, stride in ((10, 5), (8, 4), (4, 2), (4, 2)):
                x = nn.gelu(nn.GroupNorm(1)(nn.Conv(128, (size,), (stride,), padding="VALID")(x)))
            context = x
            for _ in range(3):
                context = context + nn.relu(nn.GroupNorm(1)(nn.Conv(128, (3,), padding=((2, 0),))(context)))
            return x, nn.Dense(128)(context)

    def loss(found, sound):
        frames, context = found
        ahead, seen = frames[:, 4:], context[:, :-4]
        scores = jnp.einsum("btf,bsf->bts", seen, ahead)
        return cross_entropy(scores, jnp.broadcast_to(jnp.arange(scores.shape[1]), scores.shape[:2]))

    return training_step(Net(), loss, ADAM, floats(8, 16384, 1))


@step
def mixture_of_densities():
    """A net that says means, widths and weights of 16 normal distributions."""

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            for _ in range(3):
                x = nn.silu(nn.Dense(256)(x))
            return nn.Dense(16)(x), nn.Dense(16 * 4)(x), nn.Dense(16 * 4)(x)

    def loss(found, x, wanted):
        weights, means, widths = found
        means, widths = (a.reshape(-1, 16, 4) for a in (means, widths))
        apart = (wanted[:, None] - means) * jnp.exp(-widths)
        each = -0.5 * jnp.square(apart).sum(-1) - widths.sum(-1) - 2 * np.log(2 * np.pi)
        return -jax.nn.logsumexp(nn.log_softmax(weights) + each, axis=-1).mean()

    return training_step(Net(), loss, ADAM, floats(2048, 32), floats(2048, 4))


@step
def weights_of_weights():
    """A net whose weights another net makes, one for each task (hypernetwork)."""

    class Net(nn.Module):
        @nn.compact
        def __call__(self, inputs):
            task, x = inputs
            h = nn.relu(nn.Dense(128)(task))
            for features in (64, 64, 1):
                w = nn.Dense(x.shape[-1] * features)(h).reshape(-1, x.shape[-1], features) / 8
                x = jnp.einsum("tnf,tfg->tng", x, w) + nn.Dense(features)(h)[:, None]
                x = jnp.sin(x) if features > 1 else x
            return x[..., 0]

    return training_step(Net(), lambda found, x, wanted: square(found, wanted), ADAM, (floats(32, 16), floats(32, 256, 2)), floats(32, 256))


@step
def pools_in_place_of_attention():
    """Averages of neighbours mix the places of an image (PoolFormer)."""

    class Block(nn.Module):
        @nn.compact
        def __call__(self, x):
            f = x.shape[-1]
            scale = functools.partial(self.param, init_fn=nn.initializers.constant(1e-2))
            h = nn.GroupNorm(1)(x)
            mixed = nn.avg_pool(h, (3, 3), (1, 1), "SAME", count_include_pad=False) - h
            x = x + scale("first", shape=(f,)) * mixed
            return x + scale("second", shape=(f,)) * nn.Dense(f)(nn.gelu(nn.Dense(4 * f)(nn.GroupNorm(1)(x))))

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            for features, stride, size in ((32, 4, 7), (64, 2, 3), (128, 2, 3)):
                x = nn.Conv(features, (size, size), (stride, stride))(x)
                for _ in range(2):
                    x = Block()(x)
            return nn.Dense(100)(nn.LayerNorm()(x.mean((1, 2))))

    return training_step(Net(), classes, ADAM, floats(16, 96, 96, 3), integers(16))


@step
def transport():
    """Sets of boxes matched to wanted ones by twenty rounds of normalisation (Sinkhorn)."""

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            queries = self.param("queries", nn.initializers.normal(1.0), (32, 128))
            q = jnp.broadcast_to(queries, (x.shape[0], 32, 128))
            x = nn.Dense(128)(x)
            for _ in range(2):
                q = nn.LayerNorm()(q + nn.MultiHeadDotProductAttention(4)(q, x))
                q = nn.LayerNorm()(q + nn.Dense(128)(nn.relu(nn.Dense(256)(q))))
            return nn.sigmoid(nn.Dense(4)(q))

    def loss(found, x, wanted):
        cost = jnp.abs(found[:, :, None] - wanted[:, None]).sum(-1)

        def round_(scales, _):
            rows, columns = scales
            rows = -jax.nn.logsumexp(-cost / 0.1 + columns[:, None], axis=2)
            columns = -jax.nn.logsumexp(-cost / 0.1 + rows[:, :, None], axis=1)
            return (rows, columns), None

        zeros = jnp.zeros(cost.shape[:2])
        (rows, columns), _ = lax.scan(round_, (zeros, zeros), None, length=20)
        plan = jnp.exp(-cost / 0.1 + rows[:, :, None] + columns[:, None])
        return (plan * cost).sum((1, 2)).mean()

    return training_step(Net(), loss, ADAM, floats(16, 144, 64), floats(16, 32, 4))


@step
def alignments():
    """Letters of speech without their places (CTC)."""

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            x = nn.relu(nn.Conv(128, (5,), (2,))(x))
            for _ in range(2):
                x = x + nn.relu(nn.LayerNorm()(nn.Conv(128, (5,))(x)))
            x = nn.RNN(nn.GRUCell(128))(x)
            return nn.Dense(32)(x)

    def loss(logits, sound, letters):
        return optax.ctc_loss(logits, jnp.zeros(logits.shape[:2]), letters, (letters == 0).astype(jnp.float32)).mean()

    return training_step(Net(), loss, ADAM, floats(16, 96, 40), integers(16, 20))


@step
def quantized():
    """Weights and activations rounded to 8 bits on the way, their gradients as if they were not."""

    def rounded(x, axis):
        scale = lax.stop_gradient(jnp.abs(x).max(axis, keepdims=True)) / 127 + 1e-8
        return x + lax.stop_gradient(jnp.clip(jnp.round(x / scale), -127, 127) * scale - x)

    class Layer(nn.Module):
        features: int
        stride: int = 1

        @nn.compact
        def __call__(self, x):
            w = self.param("w", nn.initializers.he_normal(), (3, 3, x.shape[-1], self.features))
            x = rounded(x, (1, 2, 3))
            x = lax.conv_general_dilated(x, rounded(w, (0, 1, 2)), (self.stride,) * 2, "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
            return nn.relu(nn.GroupNorm(8)(x))

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            for features, stride in ((32, 1), (32, 2), (64, 1), (64, 2), (128, 1)):
                x = Layer(features, stride)(x)
            return nn.Dense(10)(x.mean((1, 2)))

    return training_step(Net(), classes, SGD, floats(64, 32, 32, 3), integers(64))


@step
def two_towers():
    """Bags of hashed words on both sides, every other one of the batch is wrong (recommendation)."""

    class Tower(nn.Module):
        @nn.compact
        def __call__(self, words):
            words = (words * 40503 + 12345) % 16384
            bag = nn.Embed(16384, 64)(words).mean(1)
            x = nn.Dense(64)(nn.relu(nn.Dense(256)(bag)))
            return x / jnp.sqrt(jnp.square(x).sum(-1, keepdims=True) + 1e-6)

    class Net(nn.Module):
        @nn.compact
        def __call__(self, inputs):
            users, items = inputs
            return 20 * Tower()(users) @ Tower()(items).T

    def loss(scores, inputs):
        return cross_entropy(scores, jnp.arange(scores.shape[0]))

    return training_step(Net(), loss, optax.adagrad(0.05), (integers(1024, 20), integers(1024, 8)))


@step
def transformed_images():
    """An image that a net turns and moves before another one looks (spatial transformer)."""

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            b, s = x.shape[:2]
            h = x
            for features in (8, 16):
                h = nn.max_pool(nn.relu(nn.Conv(features, (5, 5))(h)), (2, 2), (2, 2))
            theta = nn.Dense(6, kernel_init=nn.initializers.zeros)(nn.relu(nn.Dense(32)(h.reshape(b, -1))))
            theta = (theta + np.array([1, 0, 0, 0, 1, 0], np.float32)).reshape(b, 2, 3)
            grid = np.stack([*np.meshgrid(*[np.linspace(-1, 1, s)] * 2), np.ones((s, s))], -1).astype(np.float32)
            at = (jnp.einsum("bij,yxj->byxi", theta, grid) + 1) * (s - 1) / 2
            low = jnp.floor(at)
            part = at - low
            total = 0
            for dy in (0, 1):
                for dx in (0, 1):
                    column, row = (jnp.clip(low[..., i].astype(jnp.int32) + d, 0, s - 1) for i, d in ((0, dx), (1, dy)))
                    weight = jnp.abs(1 - dx - part[..., 0]) * jnp.abs(1 - dy - part[..., 1])
                    total = total + weight[..., None] * jax.vmap(lambda image, r, c: image[r, c])(x, row, column)
            for features in (16, 32):
                total = nn.max_pool(nn.relu(nn.Conv(features, (3, 3))(total)), (2, 2), (2, 2))
            return nn.Dense(10)(total.reshape(b, -1))

    return training_step(Net(), classes, SGD, floats(64, 28, 28, 1), integers(64))


if __name__ == "__main__":
    print_named(STEPS, STEPS.stablehlo, __doc__)
