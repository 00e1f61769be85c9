"""Eight more training steps that were measured before anybody looked at them, like those of first_tries.py.

    python bench/programs/eleventh_tries.py sound_places > sound_places.mlir

eleventh_tries.md says what came out; third_tries.py says how to measure one. Needs jax, flax and optax.
"""

import os

os.environ["JAX_PLATFORMS"] = "cpu"

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from named_steps import NamedSteps, cross_entropy, print_named, square
from ordinary_steps import floats, integers, training_step

lax = jax.lax
STEPS = NamedSteps()
ADAM = optax.adamw(1e-3)
step = STEPS.step


@step
def sound_places():
    """Where a sound comes from and what it is: four channels, convolutions, two recurrent layers (SELDnet)."""

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            for f, pool in ((32, (5, 4)), (48, (1, 4)), (64, (1, 2))):
                x = nn.relu(nn.GroupNorm(8)(nn.Conv(f, (3, 3))(x)))
                x = nn.max_pool(x, pool, pool)
            x = x.reshape(*x.shape[:2], -1)
            for _ in range(2):
                forward = nn.RNN(nn.GRUCell(64))(x)
                x = nn.tanh(forward) * nn.RNN(nn.GRUCell(64), reverse=True, keep_order=True)(x)
            return nn.Dense(12 * 3)(nn.relu(nn.Dense(128)(x)))

    return training_step(Net(), lambda out, x, places: square(jnp.tanh(out), places), ADAM, floats(8, 200, 64, 4), floats(8, 40, 36))


@step
def edges():
    """An image of edges by five depths of a net, each enlarged to the image (holistically nested edges)."""

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            sides = []
            for depth, f in enumerate((32, 64, 96, 128)):
                if depth:
                    x = nn.max_pool(x, (2, 2), (2, 2))
                for _ in range(2):
                    x = nn.relu(nn.Conv(f, (3, 3))(x))
                side = nn.Conv(1, (1, 1))(x)
                sides.append(jax.image.resize(side, (len(x), 96, 96, 1), "bilinear"))
            return sides + [nn.Conv(1, (1, 1))(jnp.concatenate(sides, -1))]

    def loss(sides, x, wanted):
        few = wanted.mean()
        weight = jnp.where(wanted > 0.5, 1 - few, few)
        return sum((weight * optax.sigmoid_binary_cross_entropy(s[..., 0], wanted)).mean() for s in sides)

    return training_step(Net(), loss, optax.sgd(1e-3, 0.9), floats(8, 96, 96, 3), floats(8, 96, 96))


@step
def two_directions():
    """Words from left and from right, then both ways by attention, masked entities (a reader with gated layers)."""

    class Net(nn.Module):
        @nn.compact
        def __call__(self, words, question):
            table = nn.Embed(4000, 96)
            x, q = table(words), table(question)
            both = lambda y: jnp.concatenate([nn.RNN(nn.OptimizedLSTMCell(64))(y), nn.RNN(nn.OptimizedLSTMCell(64), reverse=True, keep_order=True)(y)], -1)
            x, q = both(x), both(q)
            scores = jnp.einsum("bsf,btf->bst", nn.Dense(128)(x), q)
            seen = jnp.einsum("bst,btf->bsf", nn.softmax(scores), q)
            back = jnp.einsum("bs,bsf->bf", nn.softmax(scores.max(-1)), x)
            x = jnp.concatenate([x, seen, x * seen, x * back[:, None]], -1)
            x = both(nn.relu(nn.Dense(128)(x)))
            return nn.Dense(2)(x)

    def loss(out, words, question, begin, end):
        return cross_entropy(out[..., 0], begin) + cross_entropy(out[..., 1], end)

    return training_step(Net(), loss, ADAM, integers(16, 120), integers(16, 20), integers(16), integers(16), inputs=2)


@step
def shifted_windows_of_film():
    """Windows of film in space and time, shifted every second layer, with places relative to each other (video Swin)."""

    class Block(nn.Module):
        heads: int
        shift: bool

        @nn.compact
        def __call__(self, x):
            b, t, h, w, f = x.shape
            y = nn.LayerNorm()(x)
            if self.shift:
                y = jnp.roll(y, (-1, -2, -2), (1, 2, 3))
            y = y.reshape(b, t // 2, 2, h // 4, 4, w // 4, 4, f).transpose(0, 1, 3, 5, 2, 4, 6, 7).reshape(-1, 32, f)
            q, k, v = jnp.split(nn.Dense(3 * f)(y).reshape(-1, 32, self.heads, 3 * f // self.heads), 3, -1)
            places = self.param("places", nn.initializers.normal(0.02), (self.heads, 32, 32))
            weights = nn.softmax(jnp.einsum("nshf,nthf->nhst", q, k) * q.shape[-1] ** -0.5 + places)
            y = nn.Dense(f)(jnp.einsum("nhst,nthf->nshf", weights, v).reshape(-1, 32, f))
            y = y.reshape(b, t // 2, h // 4, w // 4, 2, 4, 4, f).transpose(0, 1, 4, 2, 5, 3, 6, 7).reshape(x.shape)
            if self.shift:
                y = jnp.roll(y, (1, 2, 2), (1, 2, 3))
            x = x + y
            return x + nn.Dense(f)(nn.gelu(nn.Dense(3 * f)(nn.LayerNorm()(x))))

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            x = nn.Conv(64, (2, 4, 4), (2, 4, 4))(x)
            for i in range(2):
                x = Block(4, bool(i % 2))(x)
            x = nn.Conv(128, (1, 2, 2), (1, 2, 2))(x)
            for i in range(2):
                x = Block(8, bool(i % 2))(x)
            return nn.Dense(40)(nn.LayerNorm()(x).mean((1, 2, 3)))

    return training_step(Net(), lambda out, x, kinds: cross_entropy(out, kinds), ADAM, floats(4, 8, 64, 64, 3), integers(4))


@step
def pruned():
    """A net of dense layers whose smaller weights are cut at each step, by a threshold of their sizes."""

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            for f in (768, 512, 512, 256):
                w = self.param(f"w{f}_{x.shape[-1]}", nn.initializers.lecun_normal(), (x.shape[-1], f))
                size = jnp.abs(w)
                least = jnp.quantile(lax.stop_gradient(size), 0.7)
                x = nn.relu(nn.LayerNorm()(x @ jnp.where(size > least, w, 0)))
            return nn.Dense(100)(x)

    return training_step(Net(), lambda out, x, kinds: cross_entropy(out, kinds), optax.adam(1e-3), floats(256, 512), integers(256))


@step
def gated_images():
    """Holes in images filled by convolutions with gates, wide ones in the middle (free-form inpainting)."""

    class Gated(nn.Module):
        f: int
        stride: int = 1
        rate: int = 1

        @nn.compact
        def __call__(self, x):
            y = nn.Conv(2 * self.f, (3, 3), (self.stride, self.stride), kernel_dilation=(self.rate, self.rate))(x)
            a, b = jnp.split(y, 2, -1)
            return nn.elu(a) * nn.sigmoid(b)

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x, hole):
            x = jnp.concatenate([x * (1 - hole), hole], -1)
            x = Gated(64, 2)(Gated(64)(Gated(48, 2)(Gated(24)(x))))
            for rate in (2, 4, 8):
                x = x + Gated(64, 1, rate)(x)
            for f in (48, 24):
                x = jnp.repeat(jnp.repeat(x, 2, 1), 2, 2)
                x = Gated(f)(x)
            return jnp.tanh(nn.Conv(3, (3, 3))(x))

    return training_step(
        Net(), lambda out, x, hole, wanted: jnp.abs(out - wanted).mean(), ADAM, floats(4, 96, 96, 3), floats(4, 96, 96, 1), floats(4, 96, 96, 3), inputs=2
    )


@step
def trees_of_words():
    """Scores of pairs of words by two bilinear forms, heads and labels of a tree of dependencies."""

    class Net(nn.Module):
        @nn.compact
        def __call__(self, words, tags):
            x = jnp.concatenate([nn.Embed(6000, 100)(words), nn.Embed(50, 28)(tags)], -1)
            for _ in range(2):
                h = nn.LayerNorm()(x)
                x = x + nn.MultiHeadDotProductAttention(4)(h)
                x = x + nn.Dense(128)(nn.gelu(nn.Dense(512)(nn.LayerNorm()(x))))
            one = lambda: jnp.pad(nn.leaky_relu(nn.Dense(96)(x)), ((0, 0), (0, 0), (0, 1)), constant_values=1)
            arcs = jnp.einsum("bif,fg,bjg->bij", one(), self.param("arc", nn.initializers.normal(0.1), (97, 97)), one())
            labels = jnp.einsum("bif,fkg,bjg->bijk", one()[..., :49], self.param("label", nn.initializers.normal(0.1), (49, 24, 49)), one()[..., :49])
            return arcs, labels

    def loss(out, words, tags, heads, kinds):
        arcs, labels = out
        chosen = jnp.take_along_axis(labels, heads[..., None, None], 2)[:, :, 0]
        return cross_entropy(arcs, heads) + cross_entropy(chosen, kinds)

    return training_step(Net(), loss, ADAM, integers(16, 48), integers(16, 48), integers(16, 48), integers(16, 48), inputs=2)


@step
def fields_of_waves():
    """Waves as functions of place and time: layers of sines, the equation of waves as the loss (SIREN)."""

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            for i in range(4):
                x = jnp.sin((30.0 if i == 0 else 1.0) * nn.Dense(128)(x))
            return nn.Dense(1)(x)[..., 0]

    model = Net()

    def update(p, state, places, begin, heights):
        def loss(p):
            value = lambda q: model.apply(p, q)
            slope = jax.grad(value)
            second = lambda q: jnp.diagonal(jax.jacfwd(slope)(q))
            curved = jax.vmap(second)(places)
            rest = curved[:, 2] - curved[:, 0] - curved[:, 1]
            return jnp.square(rest).mean() + 100 * square(jax.vmap(value)(begin), heights)

        gradient = jax.grad(loss)(p)
        changes, state = ADAM.update(gradient, state, p)
        return optax.apply_updates(p, changes), state

    def arguments():
        p = jax.eval_shape(model.init, jax.random.key(0), floats(3))
        return p, jax.eval_shape(ADAM.init, p), floats(1024, 3), floats(512, 3), floats(512)

    return update, arguments


if __name__ == "__main__":
    print_named(STEPS, STEPS.stablehlo, __doc__)
