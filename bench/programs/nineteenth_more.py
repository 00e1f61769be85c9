"""The second half of the steps of nineteenth_tries.py, which prints these, too."""

import os

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["KERAS_BACKEND"] = "jax"

import flax.linen as nn
import haiku as hk
import jax
import jax.numpy as jnp
import keras
import numpy as np
import optax
from model_steps import KEY, flax_step, haiku_step, keras_step, shapes
from named_steps import NamedSteps, cross_entropy, square
from ordinary_steps import floats
from twelfth_tries import below

lax = jax.lax
HALF = jnp.bfloat16
STEPS = NamedSteps()
step = STEPS.step


@step
def charges():
    """Charges that move in their own field: spread over the nearest places of a grid, the field by Fourier transforms, and how strong it was at first (particle in cell)."""
    n, particles, moments, dt = 128, 32768, 8, 0.1
    optimizer = optax.adam(1e-2)

    def near(at):
        low = jnp.floor(at)
        part = at - low
        low = low.astype(jnp.int32)
        for dy in (0, 1):
            for dx in (0, 1):
                weight = jnp.abs(1 - dy - part[:, 0]) * jnp.abs(1 - dx - part[:, 1])
                yield (low[:, 0] + dy) % n, (low[:, 1] + dx) % n, weight

    def field(at):
        density = sum(jnp.zeros((n, n)).at[y, x].add(w) for y, x, w in near(at))
        k = 2 * jnp.pi * jnp.fft.fftfreq(n)[:, None], 2 * jnp.pi * jnp.fft.rfftfreq(n)[None]
        waves = jnp.fft.rfft2(density - density.mean()) / (k[0] ** 2 + k[1] ** 2).at[0, 0].set(1.0)
        return jnp.stack([jnp.fft.irfft2(-1j * q * waves, (n, n)) for q in k], -1)

    def update(p, state, at, wanted):
        def loss(p):
            def move(carry, _):
                at, speed = carry
                e = field(at)
                force = sum(e[y, x] * w[:, None] for y, x, w in near(at))
                speed = speed + dt * p["charge"] * force
                return ((at + dt * speed) % n, speed), jnp.square(speed).mean()

            start = p["speed"][None] * jnp.sin(2 * jnp.pi * at[:, ::-1] / n)
            (_, speed), energies = lax.scan(jax.checkpoint(move), (at, start), None, moments)
            return square(energies, wanted)

        value, gradient = jax.value_and_grad(loss)(p)
        changes, state = optimizer.update(gradient, state, p)
        return optax.apply_updates(p, changes), state, value

    p = {"charge": floats(), "speed": floats(2)}
    return update, lambda: (p, shapes(optimizer.init, p), floats(particles, 2), floats(moments))


@step
def parsed_sentences():
    """Which word each word hangs on and how, scored by products of two views of each pair (deep biaffine parser, LSTMs both ways, haiku)."""
    b, t, words, tags, kinds, f, arc, label = 32, 64, 12000, 48, 40, 200, 400, 100

    def net(text, tag):
        drop = lambda x, rate=0.33: hk.dropout(hk.next_rng_key(), rate, x)
        x = jnp.concatenate([drop(hk.Embed(words, 100)(text)), drop(hk.Embed(tags, 100)(tag))], -1)
        for _ in range(2):
            steps = x.swapaxes(0, 1)
            one, other = hk.LSTM(f), hk.LSTM(f)
            forward, _ = hk.dynamic_unroll(one, steps, one.initial_state(b))
            backward, _ = hk.dynamic_unroll(other, steps[::-1], other.initial_state(b))
            x = drop(jnp.concatenate([forward, backward[::-1]], -1).swapaxes(0, 1))
        view = lambda n: drop(jax.nn.leaky_relu(hk.Linear(n)(x), 0.1))
        one = lambda x: jnp.concatenate([x, jnp.ones_like(x[..., :1])], -1)
        of, on = view(arc), view(arc)
        w = hk.get_parameter("arcs", (arc + 1, arc), init=jnp.zeros)
        arcs = jnp.einsum("bdi,ij,bhj->bdh", one(of), w, on)
        of, on = view(label), view(label)
        w = hk.get_parameter("labels", (label + 1, kinds, label + 1), init=jnp.zeros)
        return arcs, jnp.einsum("bdi,ikj,bhj->bdhk", one(of), w, one(on))

    def loss(out, text, tag, head, kind):
        arcs, labels = out
        there = (text > 0).astype(jnp.float32)
        arcs = jnp.where(text[:, None] > 0, arcs, -1e9)
        of_arcs = optax.softmax_cross_entropy_with_integer_labels(arcs, head)
        labels = jnp.take_along_axis(labels, head[:, :, None, None], 2)[:, :, 0]
        of_labels = optax.softmax_cross_entropy_with_integer_labels(labels, kind)
        return ((of_arcs + of_labels) * there).sum() / there.sum()

    optimizer = optax.chain(optax.clip_by_global_norm(5.0), optax.adam(optax.exponential_decay(2e-3, 5000, 0.75), b2=0.9))
    return haiku_step(net, loss, optimizer, below(words, b, t), below(tags, b, t), below(t, b, t), below(kinds, b, t), inputs=2)


@step
def crossed_features():
    """What is clicked, by crosses of all features with what came of them, in experts of low rank beside a deep net (DCN v2, Keras)."""
    b, rank, experts = 2048, 64, 4
    sizes = (1000, 50000, 20000, 100, 12, 3000, 7, 800, 40000, 24, 300, 5000)
    numbers = keras.Input((13,))
    kinds = keras.Input((len(sizes),), dtype="int32")
    parts = [keras.layers.Embedding(n, 24)(kinds[:, i]) for i, n in enumerate(sizes)]
    first = keras.layers.Concatenate()([keras.layers.BatchNormalization()(keras.ops.log1p(keras.ops.abs(numbers))), *parts])
    width = first.shape[-1]

    class Cross(keras.layers.Layer):
        def build(self, first_shape, x_shape):
            weight = lambda *extents: self.add_weight(shape=extents, initializer="glorot_uniform")
            self.down, self.middle, self.up = weight(experts, width, rank), weight(experts, rank, rank), weight(experts, rank, width)
            self.bias, self.gates = self.add_weight(shape=(width,), initializer="zeros"), weight(width, experts)

        def call(self, first, x):
            y = keras.ops.tanh(keras.ops.einsum("bi,eir->ber", x, self.down))
            y = keras.ops.tanh(keras.ops.einsum("ber,ers->bes", y, self.middle))
            y = keras.ops.einsum("ber,eri->bei", y, self.up) + self.bias
            gates = keras.ops.softmax(keras.ops.matmul(x, self.gates))
            return keras.ops.einsum("be,bei->bi", gates, first[:, None] * y) + x

        def compute_output_shape(self, first_shape, x_shape):
            return first_shape

    x = first
    for _ in range(3):
        x = Cross()(first, x)
    y = first
    for n in (512, 256):
        y = keras.layers.Dropout(0.1)(keras.layers.Dense(n, activation="relu", kernel_regularizer=keras.regularizers.L2(1e-5))(y))
    out = keras.layers.Dense(1)(keras.layers.Concatenate()([x, y]))
    model = keras.Model([numbers, kinds], out)
    loss = lambda y, out: keras.losses.BinaryCrossentropy(from_logits=True)(y, out)
    return keras_step(model, loss, keras.optimizers.Adam(1e-3, clipnorm=10.0), [floats(b, 13), below(7, b, len(sizes))], floats(b, 1))


@step
def known_points():
    """A function told by some of its points and asked at others, with what may vary drawn from a normal (attentive neural processes, flax)."""
    b, known, asked, f, heads = 16, 100, 400, 128, 8

    class Mlp(nn.Module):
        sizes: tuple

        @nn.compact
        def __call__(self, x):
            for n in self.sizes[:-1]:
                x = nn.relu(nn.Dense(n)(x))
            return nn.Dense(self.sizes[-1])(x)

    class Net(nn.Module):
        def setup(self):
            self.paths = Mlp((f,) * 3), Mlp((f,) * 3), Mlp((f,) * 2)
            self.around, self.within = nn.SelfAttention(heads), nn.SelfAttention(heads)
            self.across = nn.MultiHeadDotProductAttention(heads)
            self.normal = Mlp((f, 2 * f))
            self.tell = Mlp((f, f, f, 2))

        def drawn(self, x, y):
            s = self.around(self.paths[0](jnp.concatenate([x, y], -1))).mean(1)
            mean, spread = jnp.split(self.normal(s), 2, -1)
            return mean, 0.1 + 0.9 * nn.sigmoid(spread)

        def __call__(self, x, y, all_x, all_y):
            before, after = self.drawn(x, y), self.drawn(all_x, all_y)
            z = after[0] + after[1] * jax.random.normal(self.make_rng("dropout"), after[0].shape)
            told = self.within(self.paths[1](jnp.concatenate([x, y], -1)))
            seen = self.across(self.paths[2](all_x), self.paths[2](x), told)
            z = jnp.broadcast_to(z[:, None], seen.shape)
            mean, spread = jnp.split(self.tell(jnp.concatenate([seen, z, all_x], -1)), 2, -1)
            return mean, 0.1 + 0.9 * nn.softplus(spread), before, after

    def loss(out, x, y, all_x, all_y):
        mean, spread, (m, s), (n, t) = out
        told = -0.5 * jnp.square((all_y - mean) / spread) - jnp.log(spread)
        apart = jnp.log(s / t) + (jnp.square(t) + jnp.square(n - m)) / (2 * jnp.square(s)) - 0.5
        return -told.sum(-1).mean() + apart.sum(-1).mean() / asked

    return flax_step(Net(), loss, optax.adam(5e-5), floats(b, known, 1), floats(b, known, 1), floats(b, asked, 1), floats(b, asked, 1), inputs=4)


@step
def exponential_gates():
    """Words by matrices that gates of exponentials write and forget, all moments at once, and by cells one after the other (xLSTM, flax)."""
    b, t, f, heads, words = 8, 256, 256, 4, 8000

    class Matrix(nn.Module):
        @nn.compact
        def __call__(self, x):
            n = 2 * f
            y, gate = jnp.split(nn.Dense(2 * n)(nn.LayerNorm()(x)), 2, -1)
            seen = nn.silu(nn.Conv(n, (4,), padding=((3, 0),), feature_group_count=n)(y))
            cut = lambda x: x.reshape(b, t, heads, -1).transpose(0, 2, 1, 3)
            q, k, v = cut(nn.Dense(n)(seen)), cut(nn.Dense(n)(seen)), cut(nn.Dense(n)(y))
            i = nn.Dense(heads)(y).transpose(0, 2, 1)
            forget = nn.log_sigmoid(nn.Dense(heads)(y)).transpose(0, 2, 1)
            total = jnp.cumsum(forget, -1)
            weights = total[..., :, None] - total[..., None, :] + i[..., None, :]
            weights = jnp.where(jnp.tril(jnp.ones((t, t), bool)), weights, -jnp.inf)
            most = weights.max(-1, keepdims=True)
            scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) / np.sqrt(n // heads) * jnp.exp(weights - most)
            scores = scores / jnp.maximum(jnp.abs(scores.sum(-1, keepdims=True)), jnp.exp(-most))
            h = jnp.einsum("bhqk,bhkd->bhqd", scores, v)
            h = nn.LayerNorm(use_bias=False)(h).transpose(0, 2, 1, 3).reshape(b, t, n)
            h = h + self.param("beside", nn.initializers.ones, (n,)) * seen
            return x + nn.Dense(f)(h * nn.silu(gate))

    class Cells(nn.Module):
        @nn.compact
        def __call__(self, x):
            given = nn.Dense(4 * f)(nn.LayerNorm()(x)).reshape(b, t, 4, heads, -1)
            r = self.param("again", nn.initializers.lecun_normal(), (heads, f // heads, 4, f // heads))

            def turn(at, given):
                c, n, m, h = at
                i, forget, z, o = jnp.moveaxis(given + jnp.einsum("bhd,hdge->bghe", h, r), 1, 0)
                forget = nn.log_sigmoid(forget)
                new = jnp.maximum(forget + m, i)
                i, forget = jnp.exp(i - new), jnp.exp(forget + m - new)
                c, n = forget * c + i * jnp.tanh(z), forget * n + i
                h = nn.sigmoid(o) * c / jnp.maximum(n, 1e-6)
                return (c, n, new, h), h

            start = (jnp.zeros((b, heads, f // heads)),) * 4
            _, h = lax.scan(turn, start, given.swapaxes(0, 1))
            x = x + nn.LayerNorm(use_bias=False)(h.swapaxes(0, 1)).reshape(b, t, f)
            y, gate = jnp.split(nn.Dense(2 * f * 4 // 3)(nn.LayerNorm()(x)), 2, -1)
            return x + nn.Dense(f)(y * nn.gelu(gate))

    class Net(nn.Module):
        @nn.compact
        def __call__(self, text):
            x = nn.Embed(words, f)(text)
            for block in (Matrix, Matrix, Cells, Matrix):
                x = block()(x)
            return nn.Dense(words, use_bias=False)(nn.LayerNorm()(x))

    loss = lambda logits, text: cross_entropy(logits[:, :-1], text[:, 1:])
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-3, b2=0.95, weight_decay=0.1))
    return flax_step(Net(), loss, optimizer, below(words, b, t))


@step
def learning_states():
    """Words by a linear map that learns to mend the words as it reads, sixteen at a time (TTT, haiku, bf16)."""
    b, t, f, heads, chunk, words, layers = 4, 512, 384, 6, 16, 10000, 4
    d = f // heads

    def normed(x, scale, shift):
        mean = x.mean(-1, keepdims=True)
        return (x - mean) * lax.rsqrt(jnp.square(x - mean).mean(-1, keepdims=True) + 1e-6) * scale + shift

    def layer(x):
        norm = lambda x: hk.RMSNorm(-1)(x)
        y = norm(x)
        cut = lambda n: hk.Linear(f, False)(y).reshape(b, t // chunk, chunk, heads, d).transpose(1, 0, 3, 2, 4)
        q, k, v = cut(0), cut(1), cut(2)
        rate = jax.nn.sigmoid(hk.Linear(heads)(y)).reshape(b, t // chunk, chunk, heads).transpose(1, 0, 3, 2)[..., None] / d
        scale = hk.get_parameter("scale", (heads, 1, d), init=jnp.ones)
        shift = hk.get_parameter("shift", (heads, 1, d), init=jnp.zeros)
        w = hk.get_parameter("w", (heads, d, d), init=hk.initializers.RandomNormal(0.02))
        bias = hk.get_parameter("b", (heads, 1, d), init=jnp.zeros)
        before = jnp.tril(jnp.ones((chunk, chunk)))

        def inner(out, aim):
            return jnp.square(normed(out, scale, shift) - aim).sum() / 2

        def read(state, given):
            w, bias = state
            q, k, v, rate = given
            wrong = jax.grad(inner)(k @ w + bias, v - k) * rate
            scores = (q @ k.swapaxes(-1, -2)) * before
            out = q @ w + bias - scores @ wrong - before @ wrong
            state = w - k.swapaxes(-1, -2) @ wrong, bias - wrong.sum(-2, keepdims=True)
            return state, q + normed(out, scale, shift)

        start = jnp.broadcast_to(w, (b, heads, d, d)), jnp.broadcast_to(bias, (b, heads, 1, d))
        _, z = hk.scan(jax.checkpoint(read), start, (q, k, v, rate))
        z = z.transpose(1, 0, 3, 2, 4).reshape(b, t, f)
        x = x + hk.Linear(f, False)(norm(z) * jax.nn.gelu(hk.Linear(f, False)(y)))
        y = norm(x).astype(HALF)
        wide = lambda: hk.Linear(f * 8 // 3, False)(y)
        return x + hk.Linear(f, False)(jax.nn.silu(wide()) * wide()).astype(jnp.float32)

    def net(text):
        table = hk.get_parameter("words", (words, f), init=hk.initializers.RandomNormal(0.02))
        x = table[text]
        for _ in range(layers):
            x = layer(x)
        return hk.RMSNorm(-1)(x) @ table.T

    loss = lambda logits, text: cross_entropy(logits[:, :-1], text[:, 1:])
    return haiku_step(net, loss, optax.adamw(1e-3, weight_decay=0.1), below(words, b, t))


@step
def extreme_inception():
    """Pictures by convolutions that are depthwise, then across features, as Keras has it among its applications (Xception)."""
    model = keras.applications.Xception(weights=None, input_shape=(128, 128, 3), classes=100, classifier_activation=None)
    loss = lambda y, out: keras.losses.SparseCategoricalCrossentropy(from_logits=True)(y, out)
    return keras_step(model, loss, keras.optimizers.SGD(0.045, momentum=0.9, weight_decay=1e-5), floats(16, 128, 128, 3), below(100, 16))
