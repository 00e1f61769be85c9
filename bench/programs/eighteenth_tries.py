"""Fourteen more training steps that were measured before anybody looked at them, like those of first_tries.py.

    python bench/programs/eighteenth_tries.py weather > weather.mlir

third_tries.py says how to measure one. Needs jax, flax, dm-haiku, equinox, keras and optax.
"""

import os

os.environ["JAX_PLATFORMS"] = "cpu"

import flax.linen as nn
import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
import optax
from eighteenth_more import STEPS as MORE
from model_steps import A_KEY, KEY, flax_step, haiku_step, normalised, shapes
from named_steps import NamedSteps, cross_entropy, print_named
from ordinary_steps import floats
from twelfth_tries import below

lax = jax.lax
HALF = jnp.bfloat16
STEPS = NamedSteps()
step = STEPS.step


@step
def expanded_terms():
    """Which passage answers a question: a weight for each of 30522 words, the most that any place says, few of them other than nought (SPLADE)."""
    f, heads, layers, words, b, asked, told = 256, 4, 4, 30522, 8, 24, 128

    class Encode(nn.Module):
        @nn.compact
        def __call__(self, text):
            heard = text > 0
            table = nn.Embed(words, f)
            drop = lambda x: nn.Dropout(0.1, deterministic=False)(x)
            x = nn.LayerNorm(epsilon=1e-12)(table(text) + nn.Embed(512, f)(jnp.arange(text.shape[1])))
            x = drop(x)
            mask = nn.make_attention_mask(jnp.ones_like(heard), heard)
            for _ in range(layers):
                y = nn.MultiHeadDotProductAttention(heads, dropout_rate=0.1, deterministic=False)(x, mask=mask)
                x = nn.LayerNorm(epsilon=1e-12)(x + drop(y))
                y = nn.Dense(f)(nn.gelu(nn.Dense(4 * f)(x), approximate=False))
                x = nn.LayerNorm(epsilon=1e-12)(x + drop(y))
            x = nn.LayerNorm(epsilon=1e-12)(nn.gelu(nn.Dense(f)(x), approximate=False))
            logits = table.attend(x) + self.param("bias", nn.initializers.zeros, (words,))
            return (jnp.log1p(nn.relu(logits)) * heard[..., None]).max(1)

    class Both(nn.Module):
        @nn.compact
        def __call__(self, question, passages):
            encode = Encode()
            return encode(question), encode(passages)

    def loss(found, question, passages):
        q, d = found
        kept = jnp.square(jnp.abs(q).mean(0)).sum() * 3e-4 + jnp.square(jnp.abs(d).mean(0)).sum() * 1e-4
        return cross_entropy(q @ d.T, jnp.arange(b)) + kept

    optimizer = optax.adamw(optax.warmup_cosine_decay_schedule(0, 2e-5, 6000, 150000), weight_decay=0.01)
    return flax_step(Both(), loss, optimizer, below(words, b, asked), below(words, 2 * b, told), inputs=2)


@step
def blocks_and_grids():
    """Images by depthwise bottlenecks, then attention within blocks of 7x7 and among the same place of all blocks (MaxViT, bf16)."""
    b, side, window, width = 16, 224, 7, 32
    norm = lambda: nn.BatchNorm(use_running_average=False, momentum=0.99, epsilon=1e-3, dtype=HALF)
    conv = lambda f, size=1, stride=1, **given: nn.Conv(f, (size, size), (stride, stride), dtype=HALF, **given)

    class Bottleneck(nn.Module):
        f: int
        stride: int

        @nn.compact
        def __call__(self, x):
            beside = x
            if self.stride > 1:
                beside = nn.avg_pool(x, (2, 2), (2, 2))
            if x.shape[-1] != self.f:
                beside = conv(self.f)(beside)
            n = 4 * self.f
            y = nn.gelu(norm()(conv(n, use_bias=False)(norm()(x))))
            y = nn.gelu(norm()(conv(n, 3, self.stride, feature_group_count=n, use_bias=False)(y)))
            seen = nn.silu(conv(self.f // 4)(y.mean((1, 2), keepdims=True)))
            return beside + conv(self.f)(y * nn.sigmoid(conv(n)(seen)))

    class Attend(nn.Module):
        @nn.compact
        def __call__(self, x):
            f, n = x.shape[-1], window * window
            heads = f // width
            place = np.stack(np.meshgrid(np.arange(window), np.arange(window), indexing="ij"), -1).reshape(n, 2)
            apart = place[:, None] - place[None] + window - 1
            table = self.param("bias", nn.initializers.normal(0.02), ((2 * window - 1) ** 2, heads))
            bias = table[apart[..., 0] * (2 * window - 1) + apart[..., 1]].transpose(2, 0, 1)
            y = nn.LayerNorm(dtype=HALF)(x)
            q, k, v = (nn.DenseGeneral((heads, width), dtype=HALF)(y) for _ in range(3))
            scores = jnp.einsum("...qhd,...khd->...hqk", q, k) * width**-0.5 + bias.astype(HALF)
            y = jnp.einsum("...hqk,...khd->...qhd", nn.softmax(scores.astype(jnp.float32)).astype(HALF), v)
            x = x + nn.DenseGeneral(f, (-2, -1), dtype=HALF)(y)
            y = nn.LayerNorm(dtype=HALF)(x)
            return x + nn.Dense(f, dtype=HALF)(nn.gelu(nn.Dense(4 * f, dtype=HALF)(y)))

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            x = nn.gelu(norm()(conv(64, 3, 2, use_bias=False)(x)))
            x = conv(64, 3)(x)
            for f, depth in ((64, 1), (128, 1), (256, 2), (512, 1)):
                for i in range(depth):
                    x = Bottleneck(f, 2 if i == 0 else 1)(x)
                    n, w = x.shape[1] // window, window
                    blocks = x.reshape(b, n, w, n, w, f).transpose(0, 1, 3, 2, 4, 5).reshape(b, n * n, w * w, f)
                    x = Attend()(blocks).reshape(b, n, n, w, w, f).transpose(0, 1, 3, 2, 4, 5).reshape(b, w, n, w, n, f)
                    grid = x.transpose(0, 2, 4, 1, 3, 5).reshape(b, n * n, w * w, f)
                    x = Attend()(grid).reshape(b, n, n, w, w, f).transpose(0, 3, 1, 4, 2, 5).reshape(b, n * w, n * w, f)
            x = nn.tanh(nn.Dense(512)(nn.LayerNorm()(x.mean((1, 2)))))
            return nn.Dense(1000)(nn.Dropout(0.2, deterministic=False)(x)).astype(jnp.float32)

    def loss(logits, images, labels):
        return optax.softmax_cross_entropy(logits, optax.smooth_labels(jax.nn.one_hot(labels, 1000), 0.1)).mean()

    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-3, weight_decay=0.05))
    return flax_step(Net(), loss, optimizer, floats(b, side, side, 3), below(1000, b))


@step
def many_tasks():
    """Three things that people may do with what is advertised: 26 tables, eight experts, a gate and a tower for each thing (MMoE, haiku, Adagrad)."""
    b, f, experts, tasks = 4096, 16, 8, 3
    rows = (1460, 583, 100000, 100000, 305, 24, 12517, 633, 3, 93145, 5683, 100000, 3194)
    rows += (27, 14992, 100000, 10, 5652, 2173, 4, 100000, 18, 15, 100000, 105, 100000)

    def net(numbers, kinds):
        parts = [hk.Embed(n, f, w_init=hk.initializers.RandomNormal(0.01))(kinds[:, i]) for i, n in enumerate(rows)]
        x = jnp.concatenate([hk.BatchNorm(True, True, 0.99)(jnp.log1p(jnp.maximum(numbers, 0)), True), *parts], -1)
        dense = hk.initializers.VarianceScaling()
        for i, n in enumerate((256, 128)):
            w = hk.get_parameter(f"w{i}", (experts, x.shape[-1], n), init=dense)
            bias = hk.get_parameter(f"b{i}", (experts, 1, n), init=jnp.zeros)
            given, x = (x, jnp.einsum("bi,eio->ebo", x, w)) if i == 0 else (given, jnp.einsum("ebi,eio->ebo", x, w))
            x = jax.nn.relu(x + bias)
        out = []
        for _ in range(tasks):
            gate = jax.nn.softmax(hk.Linear(experts)(given))
            out.append(hk.nets.MLP([64, 1])(jnp.einsum("be,ebf->bf", gate, x))[:, 0])
        return jnp.stack(out, -1)

    def loss(logits, numbers, kinds, did, known):
        each = optax.sigmoid_binary_cross_entropy(logits, did)
        return (each * known).sum(0).mean() / b

    return haiku_step(net, loss, optax.adagrad(0.01), floats(b, 13), below(3, b, 26), floats(b, tasks), floats(b, tasks), inputs=2)


@step
def neighbours_kept():
    """3000 points of many features in the plane, neighbours beside each other; ten moves of all points with momentum and gains (t-SNE)."""
    n, moves = 3000, 10

    def divergence(y, p):
        square = jnp.square(y).sum(1)
        near = 1 / (1 + jnp.maximum(square[:, None] + square[None] - 2 * y @ y.T, 0))
        near = near * (1 - jnp.eye(n))
        q = jnp.maximum(near / near.sum(), 1e-12)
        return (p * (jnp.log(jnp.maximum(p, 1e-12)) - jnp.log(q))).sum()

    def update(y, state, p, exaggeration, momentum, rate):
        def move(_, at):
            y, speed, gains = at
            g = jax.grad(divergence)(y, p * exaggeration)
            gains = jnp.maximum(jnp.where(jnp.sign(g) != jnp.sign(speed), gains + 0.2, gains * 0.8), 0.01)
            speed = momentum * speed - rate * gains * g
            y = y + speed
            return y - y.mean(0), speed, gains

        y, *state = lax.fori_loop(0, moves, move, (y, *state))
        return y, tuple(state), divergence(y, p)

    return update, lambda: (floats(n, 2), (floats(n, 2), floats(n, 2)), floats(n, n), floats(), floats(), floats())


@step
def curved_steps():
    """A small decoder whose steps are divided by how curved the loss is along each weight, told by one random direction, and cut (Sophia-H)."""
    f, heads, layers, words, b, t = 384, 6, 4, 8192, 12, 256

    class Net(nn.Module):
        @nn.compact
        def __call__(self, text):
            table = nn.Embed(words, f)
            x = table(text) + nn.Embed(t, f)(jnp.arange(t))
            seen = jnp.tril(jnp.ones((t, t), bool))
            for _ in range(layers):
                y = nn.LayerNorm(use_bias=False)(x)
                q, k, v = jnp.split(nn.Dense(3 * f, use_bias=False)(y).reshape(b, t, heads, -1), 3, -1)
                scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(f // heads)
                scores = nn.softmax(jnp.where(seen, scores, -1e10))
                x = x + nn.Dense(f, use_bias=False)(jnp.einsum("bhqk,bkhd->bqhd", scores, v).reshape(b, t, f))
                y = nn.LayerNorm(use_bias=False)(x)
                x = x + nn.Dense(f, use_bias=False)(nn.gelu(nn.Dense(4 * f, use_bias=False)(y)))
            return table.attend(nn.LayerNorm(use_bias=False)(x))

    net = Net()

    def update(p, state, key, text):
        mean, curve = state

        def loss(p):
            return optax.softmax_cross_entropy_with_integer_labels(net.apply(p, text)[:, :-1], text[:, 1:]).mean()

        leaves, tree = jax.tree.flatten(p)
        way = tree.unflatten([jax.random.normal(k, x.shape) for k, x in zip(jax.random.split(key, len(leaves)), leaves)])
        (value, gradient), (_, along) = jax.jvp(jax.value_and_grad(loss), (p,), (way,))
        norm = optax.global_norm(gradient)
        gradient = jax.tree.map(lambda g: g * jnp.minimum(1, 1 / (norm + 1e-6)), gradient)
        mean = jax.tree.map(lambda m, g: 0.96 * m + 0.04 * g, mean, gradient)
        curve = jax.tree.map(lambda h, u, a: 0.99 * h + 0.01 * u * a, curve, way, along)
        cut = lambda m, h: jnp.clip(m / jnp.maximum(0.01 * h, 1e-12), -1, 1)
        p = jax.tree.map(lambda p, m, h: p * (1 - 6e-4 * 0.2) - 6e-4 * cut(m, h), p, mean, curve)
        return p, (mean, curve), value

    def arguments():
        p = shapes(net.init, KEY, below(words, b, t))
        return p, (p, p), A_KEY, below(words, b, t)

    return update, arguments


@step
def angles_between_faces():
    """Who is on a picture, of 85742 people, by angles that have to be smaller than they need be (ArcFace, residual blocks with PReLU, bf16)."""
    b, people, scale, margin = 64, 85742, 64.0, 0.5
    conv = lambda f, size=3, stride=1: nn.Conv(f, (size, size), (stride, stride), padding=size // 2, use_bias=False, dtype=HALF)
    norm = lambda **given: nn.BatchNorm(use_running_average=False, momentum=0.9, epsilon=1e-5, dtype=HALF, **given)

    class Bent(nn.Module):
        @nn.compact
        def __call__(self, x):
            slope = self.param("slope", nn.initializers.constant(0.25), (x.shape[-1],)).astype(x.dtype)
            return jnp.where(x >= 0, x, x * slope)

    class Block(nn.Module):
        f: int
        stride: int

        @nn.compact
        def __call__(self, x):
            y = Bent()(norm()(conv(self.f)(norm()(x))))
            y = norm()(conv(self.f, 3, self.stride)(y))
            return y + (norm()(conv(self.f, 1, self.stride)(x)) if self.stride > 1 else x)

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            x = Bent()(norm()(conv(64)((x.astype(jnp.float32) / 127.5 - 1).astype(HALF))))
            for f in (64, 128, 256, 512):
                for i in range(2):
                    x = Block(f, 2 if i == 0 else 1)(x)
            x = nn.Dropout(0.4, deterministic=False)(norm()(x)).reshape(b, -1)
            x = norm(use_scale=False)(nn.Dense(512, dtype=HALF)(x)).astype(jnp.float32)
            w = self.param("people", nn.initializers.normal(0.01), (512, people))
            unit = lambda x, axis: x * lax.rsqrt(jnp.maximum(jnp.square(x).sum(axis, keepdims=True), 1e-12))
            return unit(x, 1) @ unit(w, 0)

    def loss(cosine, images, who):
        own = jnp.take_along_axis(cosine, who[:, None], 1)
        sine = jnp.sqrt(jnp.clip(1 - jnp.square(own), 0, 1))
        moved = own * np.cos(margin) - sine * np.sin(margin)
        moved = jnp.where(own > np.cos(np.pi - margin), moved, own - np.sin(np.pi - margin) * margin)
        return cross_entropy(scale * jnp.where(jax.nn.one_hot(who, people, dtype=jnp.bool_), moved, cosine), who)

    optimizer = optax.chain(optax.add_decayed_weights(5e-4), optax.sgd(0.1, 0.9))
    return flax_step(Net(), loss, optimizer, jax.ShapeDtypeStruct((b, 112, 112, 3), jnp.uint8), below(people, b))


@step
def depthwise_films():
    """What people do in films, by few numbers: bottlenecks whose middle is depthwise in space and time, gates (X3D)."""
    b, frames, side, kinds = 8, 13, 160, 400
    conv = lambda f, size, stride=1, groups=1: nn.Conv(f, size, (1, stride, stride), feature_group_count=groups, use_bias=False)

    class Block(nn.Module):
        f: int
        stride: int
        gated: bool

        @nn.compact
        def __call__(self, x):
            n = int(2.25 * self.f)
            y = nn.relu(normalised()(conv(n, (1, 1, 1))(x)))
            y = normalised()(conv(n, (3, 3, 3), self.stride, n)(y))
            if self.gated:
                few = max(8, n // 16 // 8 * 8)
                y = y * nn.sigmoid(nn.Dense(n)(nn.relu(nn.Dense(few)(y.mean((1, 2, 3), keepdims=True)))))
            y = normalised()(conv(self.f, (1, 1, 1))(nn.silu(y)))
            if self.stride > 1 or x.shape[-1] != self.f:
                x = normalised()(conv(self.f, (1, 1, 1), self.stride)(x))
            return nn.relu(x + y)

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            x = conv(24, (1, 3, 3), 2)(x)
            x = nn.relu(normalised()(conv(24, (5, 1, 1), 1, 24)(x)))
            for f, depth in ((24, 2), (48, 2), (96, 3), (192, 2)):
                for i in range(depth):
                    x = Block(f, 2 if i == 0 else 1, i % 2 == 0)(x)
            x = nn.relu(normalised()(conv(432, (1, 1, 1))(x))).mean((1, 2, 3))
            return nn.Dense(kinds)(nn.Dropout(0.5, deterministic=False)(nn.relu(nn.Dense(2048, use_bias=False)(x))))

    optimizer = optax.chain(optax.add_decayed_weights(5e-5), optax.sgd(optax.cosine_decay_schedule(0.1, 100000), 0.9))
    loss = lambda logits, films, labels: cross_entropy(logits, labels)
    return flax_step(Net(), loss, optimizer, floats(b, frames, side, side, 3), below(kinds, b))


STEPS.update(MORE)

if __name__ == "__main__":
    print_named(STEPS, STEPS.stablehlo, __doc__)
