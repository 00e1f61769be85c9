"""Fourteen more training steps that were measured before anybody looked at them, like those of first_tries.py.

    python bench/programs/fourth_tries.py slots > slots.mlir

fourth_tries.md says what came out; third_tries.py says how to measure one. Needs jax, flax and optax.
"""

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
def gaussian_process():
    """The likelihood of 512 points under a process whose kernel is over a net's features (deep kernel learning)."""

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            for features in (256, 256, 16):
                x = nn.Dense(features)(nn.tanh(x))
            size, noise = (self.param(name, nn.initializers.zeros, ()) for name in ("size", "noise"))
            squares = jnp.square(x).sum(-1)
            apart = squares[:, None] + squares[None] - 2 * x @ x.T
            return jnp.exp(size - apart / 2) + jnp.eye(x.shape[0]) * (jnp.exp(noise) + 1e-3)

    def loss(kernel, x, y):
        lower = jnp.linalg.cholesky(kernel)
        solved = jax.scipy.linalg.solve_triangular(lower, y, lower=True)
        return jnp.square(solved).sum() / 2 + jnp.log(jnp.diagonal(lower)).sum()

    return training_step(Net(), loss, ADAM, floats(512, 32), floats(512))


@step
def equilibrium():
    """A layer that is applied until nothing changes, differentiated where it stands still (deep equilibrium)."""

    def solve(f, start):
        def going(state):
            before, now, turns = state
            return (jnp.abs(now - before).max() > 1e-4) & (turns < 24)

        return lax.while_loop(going, lambda state: (state[1], f(state[1]), state[2] + 1), (start, f(start), 0))[1]

    @jax.custom_vjp
    def fixed(weights, x):
        return solve(lambda z: layer(weights, x, z), jnp.zeros_like(x))

    def layer(weights, x, z):
        inner, outer = weights
        z = jnp.tanh(z @ inner) @ outer + x
        return z / jnp.sqrt(jnp.square(z).mean(-1, keepdims=True) + 1e-6)

    def forward(weights, x):
        z = fixed(weights, x)
        return z, (weights, x, z)

    def backward(kept, cotangent):
        weights, x, z = kept
        pull = jax.vjp(lambda z: layer(weights, x, z), z)[1]
        return jax.vjp(lambda weights, x: layer(weights, x, z), weights, x)[1](solve(lambda u: pull(u)[0] + cotangent, cotangent))

    fixed.defvjp(forward, backward)

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            x = nn.Dense(256)(x)
            weights = tuple(self.param(name, nn.initializers.normal(0.02), (256, 256)) for name in ("inner", "outer"))
            return nn.Dense(10)(fixed(weights, x))

    return training_step(Net(), classes, ADAM, floats(512, 784), integers(512))


@step
def volumes():
    """Voxels of a scan named by convolutions in three dimensions, down and up again (V-Net)."""

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            def two(x, features):
                for _ in range(2):
                    x = nn.relu(nn.GroupNorm(8)(nn.Conv(features, (3, 3, 3))(x)))
                return x

            high = two(x, 16)
            low = two(nn.Conv(32, (2, 2, 2), (2, 2, 2))(high), 32)
            x = two(nn.Conv(64, (2, 2, 2), (2, 2, 2))(low), 64)
            x = two(jnp.concatenate([nn.ConvTranspose(32, (2, 2, 2), (2, 2, 2))(x), low], -1), 32)
            x = two(jnp.concatenate([nn.ConvTranspose(16, (2, 2, 2), (2, 2, 2))(x), high], -1), 16)
            return nn.Conv(4, (1, 1, 1))(x)

    return training_step(Net(), classes, ADAM, floats(2, 32, 32, 32, 1), integers(2, 32, 32, 32))


@step
def masked_positions():
    """Words that were hidden are guessed, and only their positions see the vocabulary (BERT's pretraining, bf16)."""
    bf16 = jnp.bfloat16

    class Net(nn.Module):
        @nn.compact
        def __call__(self, words, kinds, places):
            embed = nn.Embed(8192, 256, dtype=bf16)
            x = embed(words) + nn.Embed(2, 256, dtype=bf16)(kinds) + nn.Embed(128, 256, dtype=bf16)(jnp.arange(128))
            x = nn.LayerNorm(dtype=bf16)(x)
            for _ in range(3):
                x = nn.LayerNorm(dtype=bf16)(x + nn.SelfAttention(4, dtype=bf16)(x))
                x = nn.LayerNorm(dtype=bf16)(x + nn.Dense(256, dtype=bf16)(nn.gelu(nn.Dense(1024, dtype=bf16)(x))))
            hidden = jnp.take_along_axis(x, places[..., None], axis=1)
            hidden = nn.LayerNorm(dtype=bf16)(nn.gelu(nn.Dense(256, dtype=bf16)(hidden)))
            return embed.attend(hidden), nn.Dense(2, dtype=bf16)(nn.tanh(nn.Dense(256, dtype=bf16)(x[:, 0])))

    def loss(p, words, kinds, places, hidden, weights, follows):
        guesses, next_one = Net().apply(p, words, kinds, places)
        each = optax.softmax_cross_entropy_with_integer_labels(guesses.astype(jnp.float32), hidden)
        return (each * weights).sum() / (weights.sum() + 1e-5) + cross_entropy(next_one.astype(jnp.float32), follows)

    batch = integers(32, 128), integers(32, 128), integers(32, 20), integers(32, 20), floats(32, 20), integers(32)
    return step_of_loss(loss, optax.lamb(1e-3), lambda: jax.eval_shape(Net().init, jax.random.key(0), *batch[:3]), *batch)


@step
def evolution():
    """64 nets with disturbed parameters are tried at once, and the best say where to go (evolution strategies)."""

    def act(p, x):
        x = jnp.tanh(x @ p["a"] + p["b"])
        x = jnp.tanh(x @ p["c"] + p["d"])
        return x @ p["e"]

    def update(p, state, noise, x, wanted):
        def worth(sign):
            disturbed = jax.tree.map(lambda p, n: p + sign * 0.02 * n, p, noise)
            return jax.vmap(lambda p: -square(act(p, x), wanted))(disturbed)

        plus, minus = worth(1), worth(-1)
        both = jnp.concatenate([plus, minus])
        ranks = jnp.zeros_like(both).at[jnp.argsort(both)].set(jnp.linspace(-0.5, 0.5, 128))
        weights = (ranks[:64] - ranks[64:]) / 64
        gradients = jax.tree.map(lambda n, p: -jnp.tensordot(weights, n, 1) / 0.02 + 0.005 * p, noise, p)
        updates, state = ADAM.update(gradients, state, p)
        return optax.apply_updates(p, updates), state, both.mean()

    def arguments():
        p = {"a": floats(24, 128), "b": floats(128), "c": floats(128, 128), "d": floats(128), "e": floats(128, 6)}
        noise = jax.tree.map(lambda p: floats(64, *p.shape), p)
        return p, jax.eval_shape(ADAM.init, p), noise, floats(256, 24), floats(256, 6)

    return update, arguments


@step
def teacher():
    """A small net learns what a large one says of the same images (distillation)."""

    def blocks(features, x):
        for i, f in enumerate(features):
            h = nn.relu(nn.GroupNorm(8)(nn.Conv(f, (3, 3), (2, 2) if i else (1, 1))(x)))
            h = nn.GroupNorm(8)(nn.Conv(f, (3, 3))(h))
            x = nn.relu(h + nn.Conv(f, (1, 1), (2, 2) if i else (1, 1))(x))
        return nn.Dense(100)(x.mean((1, 2)))

    class Large(nn.Module):
        @nn.compact
        def __call__(self, x):
            return blocks((64, 128, 256), x)

    class Small(nn.Module):
        @nn.compact
        def __call__(self, x):
            return blocks((16, 32, 64), x)

    def loss(p, large, images, labels):
        wanted = nn.softmax(lax.stop_gradient(Large().apply(large, images)) / 4)
        found = Small().apply(p, images)
        return 0.1 * cross_entropy(found, labels) - 16 * (wanted * nn.log_softmax(found / 4)).sum(-1).mean()

    images = floats(64, 32, 32, 3)
    large = jax.eval_shape(Large().init, jax.random.key(0), images)
    return step_of_loss(loss, SGD, lambda: jax.eval_shape(Small().init, jax.random.key(0), images), large, images, integers(64))


@step
def style():
    """A net that paints an image anew, each instance normalised, judged by products of features (style transfer)."""

    class Paint(nn.Module):
        @nn.compact
        def __call__(self, x):
            def conv(x, features, kernel, stride=1):
                edge = kernel // 2
                x = jnp.pad(x, ((0, 0), (edge, edge), (edge, edge), (0, 0)), mode="reflect")
                x = nn.Conv(features, (kernel, kernel), (stride, stride), padding="VALID")(x)
                return nn.GroupNorm(num_groups=None, group_size=1)(x)

            x = nn.relu(conv(x, 16, 9))
            x = nn.relu(conv(x, 32, 3, 2))
            x = nn.relu(conv(x, 64, 3, 2))
            for _ in range(3):
                x = x + conv(nn.relu(conv(x, 64, 3)), 64, 3)
            for features in (32, 16):
                x = jnp.repeat(jnp.repeat(x, 2, 1), 2, 2)
                x = nn.relu(conv(x, features, 3))
            return nn.sigmoid(conv(x, 3, 9))

    class Judge(nn.Module):
        @nn.compact
        def __call__(self, x):
            seen = []
            for features in (32, 64, 128):
                x = nn.relu(nn.Conv(features, (3, 3))(x))
                seen.append(x)
                x = nn.avg_pool(x, (2, 2), (2, 2))
            return seen

    def products(x):
        b, h, w, f = x.shape
        return jnp.einsum("bxyf,bxyg->bfg", x, x) / (h * w * f)

    def loss(p, judge, images, grams):
        painted = Paint().apply(p, images)
        seen, before = Judge().apply(judge, painted), Judge().apply(judge, images)
        return square(seen[1], before[1]) + sum(10 * square(products(x), g) for x, g in zip(seen, grams))

    images = floats(4, 128, 128, 3)
    judge = jax.eval_shape(Judge().init, jax.random.key(0), images)
    grams = [floats(f, f) for f in (32, 64, 128)]
    return step_of_loss(loss, ADAM, lambda: jax.eval_shape(Paint().init, jax.random.key(0), images), judge, images, grams)


@step
def chunked_attention():
    """A language model whose queries see the keys chunk by chunk, with few heads of keys, recomputed backwards (bf16)."""
    bf16 = jnp.bfloat16

    def turned(x):
        s, half = x.shape[1], x.shape[-1] // 2
        angle = np.arange(s)[:, None] / 10000 ** (np.arange(half) / half)
        sin, cos = (jnp.asarray(f(angle)[:, None], x.dtype) for f in (np.sin, np.cos))
        a, b = jnp.split(x, 2, -1)
        return jnp.concatenate([a * cos - b * sin, a * sin + b * cos], -1)

    def attend(q, k, v, chunk=128):
        b, s, h, d = q.shape
        q = q.reshape(b, s, k.shape[2], -1, d) / d**0.5

        def one(state, part):
            total, top, sums = state
            k, v, at = part
            scores = jnp.einsum("bqgnd,bkgd->bgnqk", q, k).astype(jnp.float32)
            scores = jnp.where(jnp.arange(s)[:, None] >= at + jnp.arange(chunk), scores, -1e30)
            higher = jnp.maximum(top, scores.max(-1))
            shares = jnp.exp(scores - higher[..., None])
            less = jnp.exp(top - higher)
            total = total * less[..., None] + jnp.einsum("bgnqk,bkgd->bgnqd", shares.astype(bf16), v).astype(jnp.float32)
            return (total, higher, sums * less + shares.sum(-1)), None

        parts = [jnp.moveaxis(x.reshape(b, s // chunk, chunk, *x.shape[2:]), 1, 0) for x in (k, v)]
        shape = (b, *q.shape[2:4], s)
        start = jnp.zeros((*shape, d)), jnp.full(shape, -1e30), jnp.zeros(shape)
        total, _, sums = lax.scan(jax.checkpoint(one), start, (*parts, jnp.arange(0, s, chunk)))[0]
        return jnp.moveaxis(total / sums[..., None], 3, 1).reshape(b, s, h * d).astype(bf16)

    class Layer(nn.Module):
        @nn.compact
        def __call__(self, x, _):
            h = nn.RMSNorm(dtype=bf16)(x)
            q, k, v = (nn.DenseGeneral((n, 64), use_bias=False, dtype=bf16)(h) for n in (8, 2, 2))
            x = x + nn.Dense(512, use_bias=False, dtype=bf16)(attend(turned(q), turned(k), v))
            h = nn.RMSNorm(dtype=bf16)(x)
            h = nn.silu(nn.Dense(1024, use_bias=False, dtype=bf16)(h)) * nn.Dense(1024, use_bias=False, dtype=bf16)(h)
            return x + nn.Dense(512, use_bias=False, dtype=bf16)(h), None

    class Net(nn.Module):
        @nn.compact
        def __call__(self, words):
            x = nn.Embed(4096, 512, dtype=bf16)(words)
            layers = nn.scan(nn.remat(Layer, prevent_cse=False), variable_axes={"params": 0}, split_rngs={"params": True}, length=4)
            x, _ = layers()(x, None)
            return nn.Dense(4096, use_bias=False, dtype=bf16)(nn.RMSNorm(dtype=bf16)(x)).astype(jnp.float32)

    return training_step(Net(), next_words, optax.adafactor(1e-3), integers(4, 512))


@step
def deep_q():
    """What an action is worth, from what a slower net says of the next image (double DQN with two streams)."""

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            x = x.astype(jnp.float32) / 255
            for features, kernel, stride in ((32, 8, 4), (64, 4, 2), (64, 3, 1)):
                x = nn.relu(nn.Conv(features, (kernel, kernel), (stride, stride), padding="VALID")(x))
            x = x.reshape(x.shape[0], -1)
            worth = nn.Dense(1)(nn.relu(nn.Dense(512)(x)))
            more = nn.Dense(6)(nn.relu(nn.Dense(512)(x)))
            return worth + more - more.mean(-1, keepdims=True)

    def update(p, state, slow, images, actions, rewards, after, ended, weights):
        def loss(p):
            found = jnp.take_along_axis(Net().apply(p, images), actions[:, None], 1)[:, 0]
            best = Net().apply(p, after).argmax(-1)
            then = jnp.take_along_axis(Net().apply(slow, after), best[:, None], 1)[:, 0]
            error = lax.stop_gradient(rewards + 0.99 * (1 - ended) * then) - found
            return (weights * optax.huber_loss(error)).mean(), jnp.abs(error)

        (value, errors), gradients = jax.value_and_grad(loss, has_aux=True)(p)
        updates, state = ADAM.update(gradients, state, p)
        p = optax.apply_updates(p, updates)
        return p, state, optax.incremental_update(p, slow, 0.005), value, errors

    def arguments():
        images = jax.ShapeDtypeStruct((32, 84, 84, 4), jnp.uint8)
        p = jax.eval_shape(Net().init, jax.random.key(0), images)
        return p, jax.eval_shape(ADAM.init, p), p, images, integers(32), floats(32), images, floats(32), floats(32)

    return update, arguments


@step
def energy():
    """Samples that walk down a net's energy before it is lowered at the data and raised at them (Langevin)."""

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            for features in (32, 64, 128):
                x = nn.silu(nn.Conv(features, (4, 4), (2, 2))(x))
            return nn.Dense(1)(nn.silu(nn.Dense(64)(x.reshape(x.shape[0], -1))))[:, 0]

    def loss(p, images, start, noise):
        def walk(x, noise):
            slope = jax.grad(lambda x: Net().apply(p, x).sum())(x)
            return jnp.clip(x - 10 * jnp.clip(slope, -0.03, 0.03) + 0.005 * noise, -1, 1), None

        samples = lax.stop_gradient(lax.scan(walk, start, noise)[0])
        low, high = Net().apply(p, images), Net().apply(p, samples)
        return (low - high).mean() + 0.1 * (jnp.square(low) + jnp.square(high)).mean()

    images = floats(64, 28, 28, 1)
    return step_of_loss(loss, ADAM, lambda: jax.eval_shape(Net().init, jax.random.key(0), images), images, images, floats(8, 64, 28, 28, 1))


@step
def private():
    """Gradients of each example alone, cut to one length before they are added (differential privacy)."""

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            for features, stride in ((16, 2), (32, 2)):
                x = nn.avg_pool(nn.tanh(nn.Conv(features, (4, 4), (stride, stride))(x)), (2, 2), (1, 1))
            return nn.Dense(10)(nn.tanh(nn.Dense(32)(x.reshape(x.shape[0], -1))))

    def update(p, state, images, labels, noise):
        def loss(p, image, label):
            return cross_entropy(Net().apply(p, image[None]), label[None])

        gradients = jax.vmap(jax.grad(loss), (None, 0, 0))(p, images, labels)
        square = sum(jnp.square(g).reshape(g.shape[0], -1).sum(-1) for g in jax.tree.leaves(gradients))
        scale = jnp.minimum(1, 1 / (jnp.sqrt(square) + 1e-6))
        gradients = jax.tree.map(lambda g, n: (jnp.tensordot(scale, g, 1) + n) / g.shape[0], gradients, noise)
        updates, state = SGD.update(gradients, state, p)
        return optax.apply_updates(p, updates), state

    def arguments():
        p = jax.eval_shape(Net().init, jax.random.key(0), floats(1, 28, 28, 1))
        return p, jax.eval_shape(SGD.init, p), floats(128, 28, 28, 1), integers(128), p

    return update, arguments


@step
def slots():
    """Seven slots that compete for the places of an image, three rounds, each painted by itself (slot attention)."""

    class Net(nn.Module):
        @nn.compact
        def __call__(self, images, start):
            b, n = images.shape[0], start.shape[1]
            x = images
            for _ in range(3):
                x = nn.relu(nn.Conv(64, (5, 5))(x))
            x = x + self.param("where", nn.initializers.normal(0.02), (1, 32, 32, 64))
            x = nn.LayerNorm()(x.reshape(b, -1, 64))
            k, v = nn.Dense(64, use_bias=False)(x), nn.Dense(64, use_bias=False)(x)
            slots, cell, norm, ask = start, nn.GRUCell(64), nn.LayerNorm(), nn.Dense(64, use_bias=False)
            for _ in range(3):
                shares = nn.softmax(jnp.einsum("bpd,bsd->bps", k, ask(norm(slots))) / 8, axis=-1) + 1e-8
                shares = shares / shares.sum(1, keepdims=True)
                slots = cell(slots, jnp.einsum("bps,bpd->bsd", shares, v))[0]
            x = jnp.broadcast_to(slots.reshape(b * n, 1, 1, 64), (b * n, 8, 8, 64))
            x = x + self.param("there", nn.initializers.normal(0.02), (1, 8, 8, 64))
            for _ in range(2):
                x = nn.relu(nn.ConvTranspose(32, (5, 5), (2, 2))(x))
            x = nn.Conv(4, (3, 3))(x).reshape(b, n, 32, 32, 4)
            return (nn.softmax(x[..., 3:], axis=1) * x[..., :3]).sum(1)

    def loss(p, images, start):
        return square(Net().apply(p, images, start), images)

    batch = floats(16, 32, 32, 3), floats(16, 7, 64)
    return step_of_loss(loss, ADAM, lambda: jax.eval_shape(Net().init, jax.random.key(0), *batch), *batch)


@step
def molecules():
    """Forces on atoms: the slope of an energy whose filters are functions of distances (SchNet)."""

    class Net(nn.Module):
        @nn.compact
        def __call__(self, places, kinds):
            n = kinds.shape[1]
            x = nn.Embed(16, 64)(kinds)
            apart = places[:, :, None] - places[:, None]
            distance = jnp.sqrt(jnp.square(apart).sum(-1) + 1e-6)
            basis = jnp.exp(-10 * jnp.square(distance[..., None] - np.linspace(0, 5, 50, dtype=np.float32)))
            near = 0.5 * (jnp.cos(np.pi * jnp.minimum(distance, 5) / 5) + 1) * (1 - np.eye(n, dtype=np.float32))
            soft = lambda x: nn.softplus(x) - np.log(2).astype(np.float32)
            for _ in range(3):
                filters = nn.Dense(64)(soft(nn.Dense(64)(basis))) * near[..., None]
                h = jnp.einsum("bijf,bjf->bif", filters, nn.Dense(64, use_bias=False)(x))
                x = x + nn.Dense(64)(soft(nn.Dense(64)(h)))
            return nn.Dense(1)(soft(nn.Dense(32)(x))).sum((1, 2))

    def loss(p, places, kinds, energies, forces):
        found, slope = jax.value_and_grad(lambda places: (lambda e: (e.sum(), e))(Net().apply(p, places, kinds)), has_aux=True)(places)
        return square(found[1], energies) + 100 * square(-slope, forces)

    batch = floats(32, 20, 3), integers(32, 20), floats(32), floats(32, 20, 3)
    return step_of_loss(loss, ADAM, lambda: jax.eval_shape(Net().init, jax.random.key(0), *batch[:2]), *batch)


@step
def transducer():
    """Sounds and letters advance one at a time, and all ways between are added (RNN transducer)."""

    class Net(nn.Module):
        @nn.compact
        def __call__(self, sounds, letters):
            h = nn.RNN(nn.GRUCell(128))(nn.relu(nn.Conv(128, (3,), (2,))(sounds)))
            start = jnp.zeros_like(letters[:, :1])
            g = nn.RNN(nn.GRUCell(128))(nn.Embed(32, 64)(jnp.concatenate([start, letters], 1)))
            both = nn.tanh(nn.Dense(128)(h)[:, :, None] + nn.Dense(128)(g)[:, None])
            return nn.log_softmax(nn.Dense(32)(both))

    def loss(logs, sounds, letters):
        blank = logs[..., 0]
        emit = jnp.take_along_axis(logs[:, :, :-1], letters[:, None, :, None], -1)[..., 0]

        def along(row, now):
            blank, emit = now

            def over(left, part):
                up, emit = part
                both = jnp.logaddexp(up, left + emit)
                return both, both

            first = row[:, 0] + blank[:, 0]
            rest = lax.scan(over, first, ((row + blank)[:, 1:].T, emit.T))[1]
            return jnp.concatenate([first[:, None], rest.T], 1), None

        start = jnp.concatenate([jnp.zeros_like(emit[:, 0, :1]), jnp.cumsum(emit[:, 0], -1)], 1)
        ways = lax.scan(along, start, (jnp.moveaxis(blank[:, :-1], 1, 0), jnp.moveaxis(emit[:, 1:], 1, 0)))[0]
        return -(ways[:, -1] + blank[:, -1, -1]).mean()

    return training_step(Net(), loss, ADAM, floats(16, 64, 40), integers(16, 12), inputs=2)


if __name__ == "__main__":
    print_named(STEPS, STEPS.stablehlo, __doc__)
