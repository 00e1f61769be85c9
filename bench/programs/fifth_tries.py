"""Fifteen more training steps that were measured before anybody looked at them, like those of first_tries.py.

    python bench/programs/fifth_tries.py mixup > mixup.mlir

fifth_tries.md says what came out; third_tries.py says how to measure one. Needs jax, flax and optax.
"""

import os

os.environ["JAX_PLATFORMS"] = "cpu"

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from named_steps import NamedSteps, print_named, square
from ordinary_steps import classes, floats, integers, next_words, step_of_loss, training_step

lax = jax.lax
STEPS = NamedSteps()
ADAM = optax.adamw(1e-3)
SGD = optax.sgd(0.1, momentum=0.9, nesterov=True)
step = STEPS.step


@step
def spline_flow():
    """Densities through monotone rational splines whose knots a net gives (neural spline flow)."""
    bins = 8

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            total = 0
            for _ in range(4):
                kept, x = jnp.split(x, 2, -1)
                h = nn.relu(nn.Dense(128)(nn.relu(nn.Dense(128)(kept))))
                wide, high, slope = jnp.split(nn.Dense(8 * (3 * bins - 1))(h).reshape(*x.shape, -1), [bins, 2 * bins], -1)
                knots = lambda raw: jnp.pad(jnp.cumsum(nn.softmax(raw), -1), ((0, 0), (0, 0), (1, 0))) * 6 - 3
                across, up = knots(wide), knots(high)
                slope = jnp.pad(nn.softplus(slope), ((0, 0), (0, 0), (1, 1)), constant_values=1)
                clipped = jnp.clip(x, -2.999, 2.999)
                at = ((clipped[..., None] >= across[..., 1:-1]).sum(-1))[..., None]
                pick = lambda knots, at: jnp.take_along_axis(knots, at, -1)[..., 0]
                left, below, begin, end = pick(across, at), pick(up, at), pick(slope, at), pick(slope, at + 1)
                width, height = pick(across, at + 1) - left, pick(up, at + 1) - below
                t, s = (clipped - left) / width, height / width
                bend = s + (end + begin - 2 * s) * t * (1 - t)
                y = below + height * (s * t * t + begin * t * (1 - t)) / bend
                total = total + jnp.log(s * s * (end * t * t + 2 * s * t * (1 - t) + begin * (1 - t) ** 2) / bend**2).sum(-1)
                x = jnp.concatenate([y, kept], -1)
            return x, total

    return training_step(Net(), lambda out, x: jnp.mean(jnp.square(out[0]).sum(-1) / 2 - out[1]), ADAM, floats(1024, 16))


@step
def experts_choose():
    """A decoder whose experts take the words that they like best (expert choice)."""

    class Net(nn.Module):
        @nn.compact
        def __call__(self, words):
            x = nn.Embed(4096, 256)(words)
            mask = nn.make_causal_mask(words)
            for layer in range(2):
                x = x + nn.MultiHeadDotProductAttention(8)(nn.LayerNorm()(x), mask=mask)
                flat = nn.LayerNorm()(x).reshape(-1, 256)
                likes = nn.softmax(nn.Dense(8, use_bias=False)(flat))
                much, which = lax.top_k(likes.T, flat.shape[0] // 4)
                chosen = flat[which]
                inner, outer = (
                    self.param(f"{name}{layer}", nn.initializers.normal(0.02), (8, *shape)) for name, shape in (("inner", (256, 512)), ("outer", (512, 256)))
                )
                done = jnp.einsum("ecf,efd->ecd", nn.gelu(jnp.einsum("ecd,edf->ecf", chosen, inner)), outer) * much[..., None]
                x = x + jnp.zeros_like(flat).at[which.reshape(-1)].add(done.reshape(-1, 256)).reshape(x.shape)
            return nn.Dense(4096)(nn.LayerNorm()(x))

    return training_step(Net(), next_words, ADAM, integers(8, 128))


@step
def knowledge_graph():
    """Relations turn entities in the complex plane; true triples beat false ones (RotatE)."""

    def loss(p, heads, relations, tails, wrong):
        entities, angles = p
        head, tail, false = (entities[i] for i in (heads, tails, wrong))
        turn = angles[relations]
        cos, sin = jnp.cos(turn), jnp.sin(turn)
        real, imaginary = jnp.split(head, 2, -1)
        turned = jnp.concatenate([real * cos - imaginary * sin, real * sin + imaginary * cos], -1)
        apart = lambda other, turned: jnp.abs(turned - other).sum(-1)
        wrongly = apart(false, turned[:, None])
        weight = lax.stop_gradient(nn.softmax(-wrongly, -1))
        return -(nn.log_sigmoid(12 - apart(tail, turned)).mean() + (weight * nn.log_sigmoid(wrongly - 12)).sum(-1).mean())

    parameters = lambda: (floats(14541, 256), floats(237, 128))
    return step_of_loss(loss, optax.adam(1e-3), parameters, integers(512), integers(512), integers(512), integers(512, 64))


@step
def axial():
    """Attention along the rows and along the columns of an image (axial attention)."""

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            x = nn.Conv(128, (4, 4), (4, 4))(x)
            x = x + self.param("row", nn.initializers.zeros, (32, 1, 128)) + self.param("column", nn.initializers.zeros, (1, 32, 128))
            for _ in range(2):
                for turned in (False, True):
                    h = nn.LayerNorm()(x)
                    h = jnp.swapaxes(h, 1, 2) if turned else h
                    h = nn.MultiHeadDotProductAttention(4)(h)
                    x = x + (jnp.swapaxes(h, 1, 2) if turned else h)
                x = x + nn.Dense(128)(nn.gelu(nn.Dense(512)(nn.LayerNorm()(x))))
            return nn.Dense(100)(x.mean((1, 2)))

    return training_step(Net(), classes, ADAM, floats(8, 128, 128, 3), integers(8))


@step
def triplets():
    """The hardest friend and the hardest stranger of each image in the batch (batch-hard triplets)."""

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            for features in (32, 64, 128):
                x = nn.GroupNorm(8)(nn.relu(nn.Conv(features, (3, 3), (2, 2))(x)))
            x = nn.Dense(64)(x.mean((1, 2)))
            return x / jnp.sqrt(jnp.square(x).sum(-1, keepdims=True) + 1e-8)

    def loss(x, images, labels):
        apart = jnp.sqrt(jnp.maximum(2 - 2 * x @ x.T, 1e-8))
        same = labels[:, None] == labels[None]
        friend = jnp.where(same, apart, -jnp.inf).max(-1)
        stranger = jnp.where(same, jnp.inf, apart).min(-1)
        return nn.softplus(friend - stranger).mean()

    return training_step(Net(), loss, ADAM, floats(128, 64, 64, 3), integers(128))


@step
def impala():
    """An agent with a memory learns from other agents' plays (IMPALA with V-trace)."""

    class Net(nn.Module):
        @nn.compact
        def __call__(self, frames, rewards, ended):
            time, batch = frames.shape[:2]
            x = frames.reshape(time * batch, *frames.shape[2:])
            for features in (16, 32, 32):
                x = nn.max_pool(nn.Conv(features, (3, 3))(x), (3, 3), (2, 2), "SAME")
                for _ in range(2):
                    x = x + nn.Conv(features, (3, 3))(nn.relu(nn.Conv(features, (3, 3))(nn.relu(x))))
            x = nn.relu(nn.Dense(256)(nn.relu(x).reshape(time * batch, -1))).reshape(time, batch, -1)
            x = jnp.concatenate([x, jnp.clip(rewards, -1, 1)[..., None]], -1)
            cell = nn.OptimizedLSTMCell(256)

            def over(cell, carry, now):
                x, ended = now
                carry = jax.tree.map(lambda c: c * (1 - ended)[:, None], carry)
                return cell(carry, x)

            start = jnp.zeros((batch, 256)), jnp.zeros((batch, 256))
            _, x = nn.scan(over, variable_broadcast="params", split_rngs={"params": False})(cell, start, (x, ended))
            return nn.Dense(18)(x), nn.Dense(1)(x)[..., 0]

    def loss(out, frames, rewards, ended, actions, behaviour):
        logits, values = out
        logs = nn.log_softmax(logits)
        chosen = jnp.take_along_axis(logs, actions[..., None], -1)[..., 0]
        rho = jnp.minimum(1, jnp.exp(lax.stop_gradient(chosen) - behaviour))
        discount = 0.99 * (1 - ended)
        fixed = lax.stop_gradient(values)
        delta = rho[:-1] * (rewards[:-1] + discount[:-1] * fixed[1:] - fixed[:-1])
        _, ahead = lax.scan(lambda a, t: (t[0] + t[1] * t[2] * a,) * 2, jnp.zeros(rewards.shape[1]), (delta, discount[:-1], rho[:-1]), reverse=True)
        target = fixed[:-1] + ahead
        after = jnp.concatenate([target[1:], fixed[-1:]])
        advantage = rho[:-1] * (rewards[:-1] + discount[:-1] * after - fixed[:-1])
        entropy = -(jnp.exp(logs) * logs).sum(-1).mean()
        return -(chosen[:-1] * advantage).mean() + 0.5 * square(values[:-1], target) - 0.01 * entropy

    batch = (floats(20, 16, 72, 96, 3), floats(20, 16), floats(20, 16), integers(20, 16), floats(20, 16))
    return training_step(Net(), loss, optax.chain(optax.clip_by_global_norm(40.0), optax.rmsprop(5e-4)), *batch, inputs=3)


@step
def graph_transformer():
    """Attention between all nodes of small graphs, told by bonds and distances (Graphormer)."""

    class Net(nn.Module):
        @nn.compact
        def __call__(self, kinds, bonds, hops):
            real = kinds > 0
            x = nn.Embed(64, 192)(kinds) + nn.Embed(16, 192)(jnp.minimum((bonds > 0).sum(-1), 15))
            told = nn.Embed(16, 8)(bonds) + nn.Embed(32, 8)(hops)
            told = jnp.where(real[:, None, :, None], told, -1e9)
            for _ in range(3):
                q, k, v = jnp.split(nn.Dense(576)(nn.LayerNorm()(x)).reshape(*x.shape[:2], 24, 24), 3, 2)
                a = nn.softmax(jnp.einsum("bihd,bjhd->bijh", q, k) / 24**0.5 + told, 2)
                x = x + nn.Dense(192)(jnp.einsum("bijh,bjhd->bihd", a, v).reshape(x.shape))
                x = x + nn.Dense(192)(nn.gelu(nn.Dense(192)(nn.LayerNorm()(x))))
            return nn.Dense(1)(jnp.where(real[..., None], x, 0).sum(1))[:, 0]

    loss = lambda y, kinds, bonds, hops, wanted: jnp.abs(y - wanted).mean()
    return training_step(Net(), loss, ADAM, integers(64, 48), integers(64, 48, 48), integers(64, 48, 48), floats(64), inputs=3)


@step
def codec():
    """Sound through strided convolutions, quantized in four rounds, and back (SoundStream)."""

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            x = nn.Conv(32, (7,))(x)
            for features, stride in ((64, 2), (128, 4), (256, 5)):
                for apart in (1, 3):
                    x = x + nn.Conv(x.shape[-1], (1,))(nn.elu(nn.Conv(x.shape[-1], (7,), kernel_dilation=apart)(nn.elu(x))))
                x = nn.Conv(features, (2 * stride,), (stride,))(nn.elu(x))
            left, kept, wanted = nn.Conv(64, (3,))(x), 0, 0
            for i in range(4):
                book = self.param(f"book{i}", nn.initializers.normal(), (256, 64))
                far = jnp.square(left).sum(-1, keepdims=True) - 2 * left @ book.T + jnp.square(book).sum(-1)
                near = book[far.argmin(-1)]
                wanted = wanted + square(near, lax.stop_gradient(left)) + 0.25 * square(left, lax.stop_gradient(near))
                kept, left = kept + left + lax.stop_gradient(near - left), left - lax.stop_gradient(near)
            x = nn.Conv(256, (7,))(kept)
            for features, stride in ((128, 5), (64, 4), (32, 2)):
                x = nn.ConvTranspose(features, (2 * stride,), (stride,))(nn.elu(x))
                for apart in (1, 3):
                    x = x + nn.Conv(features, (1,))(nn.elu(nn.Conv(features, (7,), kernel_dilation=apart)(nn.elu(x))))
            return nn.Conv(1, (7,))(nn.elu(x)), wanted

    return training_step(Net(), lambda out, x: jnp.abs(out[0] - x).mean() + out[1], ADAM, floats(8, 4000, 1))


@step
def mixup():
    """A residual net for small images on mixtures of two of them, labels smoothed, as recipes for CIFAR have it."""

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            norm = lambda x: nn.GroupNorm(16)(x)
            x = nn.Conv(64, (3, 3), use_bias=False)(x)
            for features, blocks, stride in ((64, 2, 1), (128, 2, 2), (256, 2, 2), (512, 2, 2)):
                for i in range(blocks):
                    by = (stride, stride) if i == 0 else (1, 1)
                    h = nn.relu(norm(x))
                    x = nn.Conv(features, (1, 1), by, use_bias=False)(h) if x.shape[-1] != features or by != (1, 1) else x
                    h = nn.Conv(features, (3, 3), by, use_bias=False)(h)
                    x = x + nn.Conv(features, (3, 3), use_bias=False)(nn.relu(norm(h)))
            return nn.Dense(100)(nn.relu(norm(x)).mean((1, 2)))

    def loss(p, images, labels, order, share):
        mixed = share * images + (1 - share) * images[order]
        wanted = optax.smooth_labels(jax.nn.one_hot(labels, 100), 0.1)
        wanted = share * wanted + (1 - share) * wanted[order]
        return optax.softmax_cross_entropy(Net().apply(p, mixed), wanted).mean()

    batch = floats(128, 32, 32, 3), integers(128), integers(128), floats()
    return step_of_loss(loss, SGD, lambda: jax.eval_shape(Net().init, jax.random.key(0), batch[0]), *batch)


@step
def mobilenet_v3():
    """Bottlenecks that are wide inside, depthwise, and weigh their channels (MobileNetV3 small)."""

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            norm = lambda x: nn.GroupNorm(None, group_size=8)(x)
            hard = nn.hard_swish
            x = hard(norm(nn.Conv(16, (3, 3), (2, 2), use_bias=False)(x)))
            rows = (
                (3, 16, 16, True, nn.relu, 2),
                (3, 72, 24, False, nn.relu, 2),
                (3, 88, 24, False, nn.relu, 1),
                (5, 96, 40, True, hard, 2),
                (5, 240, 40, True, hard, 1),
                (5, 120, 48, True, hard, 1),
                (5, 144, 48, True, hard, 1),
                (5, 288, 96, True, hard, 2),
                (5, 576, 96, True, hard, 1),
            )
            for size, inside, features, weighed, act, by in rows:
                h = act(norm(nn.Conv(inside, (1, 1), use_bias=False)(x)))
                h = act(norm(nn.Conv(inside, (size, size), (by, by), feature_group_count=inside, use_bias=False)(h)))
                if weighed:
                    h = h * nn.hard_sigmoid(nn.Dense(inside)(nn.relu(nn.Dense(inside // 4)(h.mean((1, 2), keepdims=True)))))
                h = norm(nn.Conv(features, (1, 1), use_bias=False)(h))
                x = x + h if x.shape == h.shape else h
            x = hard(norm(nn.Conv(576, (1, 1), use_bias=False)(x))).mean((1, 2))
            return nn.Dense(1000)(hard(nn.Dense(1024)(x)))

    return training_step(Net(), classes, SGD, floats(64, 128, 128, 3), integers(64))


class Decoder(nn.Module):
    width: int = 256
    layers: int = 4
    dtype: jnp.dtype = jnp.float32
    again: bool = False

    @nn.compact
    def __call__(self, words):
        x = nn.Embed(8192, self.width, dtype=self.dtype)(words)
        mask = nn.make_causal_mask(words)

        def layer(self, x):
            x = x + nn.MultiHeadDotProductAttention(self.width // 32, dtype=self.dtype)(nn.LayerNorm(dtype=self.dtype)(x), mask=mask)
            h = nn.gelu(nn.Dense(4 * self.width, dtype=self.dtype)(nn.LayerNorm(dtype=self.dtype)(x)))
            return x + nn.Dense(self.width, dtype=self.dtype)(h)

        for _ in range(self.layers):
            x = (nn.remat(layer) if self.again else layer)(self, x)
        return nn.Dense(8192, dtype=self.dtype)(nn.LayerNorm(dtype=self.dtype)(x))


@step
def accumulated():
    """Four small batches one after the other, layers computed again on the way back, one update."""
    net = Decoder(again=True)

    def loss(p, words):
        one = jax.value_and_grad(lambda p, words: next_words(net.apply(p, words), words))

        def add(total, words):
            return jax.tree.map(jnp.add, total, one(p, words)), None

        zero = jax.tree.map(jnp.zeros_like, (jnp.zeros(()), p))
        return jax.tree.map(lambda x: x / 4, lax.scan(add, zero, words)[0])

    def step(p, state, words):
        value, gradients = loss(p, words)
        updates, state = ADAM.update(gradients, state, p)
        return optax.apply_updates(p, updates), state, value

    def arguments():
        p = jax.eval_shape(net.init, jax.random.key(0), integers(4, 256))
        return p, jax.eval_shape(ADAM.init, p), integers(4, 4, 256)

    return step, arguments


@step
def half():
    """A decoder that computes in bf16 on fp32 weights, its loss scaled, an update left out where it overflows."""
    net = Decoder(512, 3, jnp.bfloat16)

    def step(p, state, words):
        scale, good, inner = state
        value, gradients = jax.value_and_grad(lambda p: scale * next_words(net.apply(p, words).astype(jnp.float32), words))(p)
        gradients = jax.tree.map(lambda g: g / scale, gradients)
        finite = jnp.all(jnp.array([jnp.all(jnp.isfinite(g)) for g in jax.tree.leaves(gradients)]))
        updates, after = ADAM.update(gradients, inner, p)
        keep = lambda new, old: jnp.where(finite, new, old)
        p = jax.tree.map(keep, optax.apply_updates(p, updates), p)
        scale = jnp.where(finite, jnp.where(good == 1999, scale * 2, scale), jnp.maximum(scale / 2, 1))
        return p, (scale, jnp.where(finite, (good + 1) % 2000, 0), jax.tree.map(keep, after, inner)), value / scale

    def arguments():
        p = jax.eval_shape(net.init, jax.random.key(0), integers(8, 256))
        return p, (floats(), integers(), jax.eval_shape(ADAM.init, p)), integers(8, 256)

    return step, arguments


@step
def survival():
    """Who lives longer: the partial likelihood of Cox, sorted by time (DeepSurv)."""

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            for features in (256, 256, 128):
                x = nn.selu(nn.Dense(features)(x))
            return nn.Dense(1)(x)[:, 0]

    def loss(risk, x, times, seen):
        order = jnp.argsort(-times)
        risk, seen = risk[order], seen[order]
        most = lax.stop_gradient(risk.max())
        at_risk = jnp.log(jnp.cumsum(jnp.exp(risk - most))) + most
        return -((risk - at_risk) * seen).sum() / (seen.sum() + 1e-6)

    return training_step(Net(), loss, ADAM, floats(2048, 64), floats(2048), floats(2048))


@step
def forest():
    """Soft decision trees whose leaves vote (deep neural decision forest)."""
    depth, trees = 6, 16

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            x = nn.relu(nn.Dense(256)(x))
            turns = nn.sigmoid(nn.Dense(trees * (2**depth - 1))(x)).reshape(-1, trees, 2**depth - 1)
            reach = jnp.ones((x.shape[0], trees, 1))
            for level in range(depth):
                here = turns[..., 2**level - 1 : 2 ** (level + 1) - 1]
                reach = jnp.stack([reach * here, reach * (1 - here)], -1).reshape(x.shape[0], trees, -1)
            leaves = nn.softmax(self.param("leaves", nn.initializers.normal(), (trees, 2**depth, 10)))
            return jnp.einsum("btl,tlc->bc", reach, leaves) / trees

    loss = lambda found, x, labels: -jnp.log(jnp.take_along_axis(found, labels[:, None], -1) + 1e-8).mean()
    return training_step(Net(), loss, ADAM, floats(512, 128), integers(512))


@step
def depth():
    """How far things are, judged by structure and smoothness (monocular depth with skips and SSIM)."""

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            skips = []
            for features in (32, 64, 128, 256):
                x = nn.elu(nn.Conv(features, (3, 3))(nn.elu(nn.Conv(features, (3, 3), (2, 2))(x))))
                skips.append(x)
            for features, skip in zip((128, 64, 32), skips[-2::-1]):
                x = jax.image.resize(x, (*skip.shape[:3], x.shape[-1]), "bilinear")
                x = nn.elu(nn.Conv(features, (3, 3))(jnp.concatenate([x, skip], -1)))
            return nn.sigmoid(nn.Conv(1, (3, 3))(x))

    def loss(found, images, wanted):
        pool = lambda x: nn.avg_pool(x, (3, 3), (1, 1))
        a, b = pool(found), pool(wanted)
        var_a, var_b, both = pool(found**2) - a**2, pool(wanted**2) - b**2, pool(found * wanted) - a * b
        alike = (2 * a * b + 1e-4) * (2 * both + 9e-4) / ((a**2 + b**2 + 1e-4) * (var_a + var_b + 9e-4))
        rough = jnp.abs(found[:, 1:] - found[:, :-1]).mean() + jnp.abs(found[:, :, 1:] - found[:, :, :-1]).mean()
        return 0.85 * jnp.clip((1 - alike) / 2, 0, 1).mean() + 0.15 * jnp.abs(found - wanted).mean() + 0.1 * rough

    return training_step(Net(), loss, ADAM, floats(8, 96, 160, 3), floats(8, 48, 80, 1))


if __name__ == "__main__":
    print_named(STEPS, STEPS.stablehlo, __doc__)
