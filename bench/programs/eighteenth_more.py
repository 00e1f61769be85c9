"""The second half of the steps of eighteenth_tries.py, which prints these, too."""

import os

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["KERAS_BACKEND"] = "jax"

import equinox as eqx
import haiku as hk
import jax
import jax.numpy as jnp
import keras
import numpy as np
import optax
from flax import nnx
from model_steps import haiku_step, keras_step, shapes
from named_steps import NamedSteps, cross_entropy
from ordinary_steps import floats
from twelfth_tries import below

lax = jax.lax
HALF = jnp.bfloat16
STEPS = NamedSteps()
step = STEPS.step


@step
def corrected_flow():
    """Eddies on 64x64 places for sixteen moments: a coarse solver and a net that mends it after each (learnt correction, equinox, computed again)."""
    b, n, moments, dt, thick = 8, 64, 16, 0.01, 1e-3
    width = 2 * np.pi / n

    class Net(eqx.Module):
        layers: list

        def __init__(self, key):
            extents = [2, 64, 64, 64, 64, 2]
            keys = jax.random.split(key, len(extents))
            self.layers = [eqx.nn.Conv2d(i, o, 3, padding=1, padding_mode="CIRCULAR", key=k) for i, o, k in zip(extents, extents[1:], keys)]

        def __call__(self, x):
            for layer in self.layers[:-1]:
                x = jax.nn.relu(layer(x))
            return self.layers[-1](x)

    after = lambda x, axis: jnp.roll(x, -1, axis)
    before = lambda x, axis: jnp.roll(x, 1, axis)

    def without_divergence(u, v):
        apart = (u - before(u, 1) + v - before(v, 2)) / width
        k = jnp.fft.fftfreq(n, 1 / n)
        waves = (2 * jnp.cos(2 * np.pi * k / n) - 2) / width**2
        waves = (waves[:, None] + waves[None, : n // 2 + 1]).at[0, 0].set(1.0)
        pressure = jnp.fft.irfft2(jnp.fft.rfft2(apart) / waves, (n, n))
        return u - (after(pressure, 1) - pressure) / width, v - (after(pressure, 2) - pressure) / width

    def solved(u, v):
        def change(u, v):
            spread = lambda x: (after(x, 1) + before(x, 1) + after(x, 2) + before(x, 2) - 4 * x) / width**2
            uu = jnp.square((u + after(u, 1)) / 2)
            vv = jnp.square((v + after(v, 2)) / 2)
            uv = (u + after(u, 2)) * (v + after(v, 1)) / 4
            du = (uu - before(uu, 1) + uv - before(uv, 2)) / width
            dv = (uv - before(uv, 1) + vv - before(vv, 2)) / width
            return thick * spread(u) - du, thick * spread(v) - dv

        du, dv = change(u, v)
        eu, ev = change(u + dt * du, v + dt * dv)
        return without_divergence(u + dt * (du + eu) / 2, v + dt * (dv + ev) / 2)

    net = eqx.filter_eval_shape(Net, jax.random.PRNGKey(0))
    p, rest = eqx.partition(net, lambda x: isinstance(x, jax.ShapeDtypeStruct))
    optimizer = optax.adam(1e-3, b2=0.99)

    def update(p, state, start, wanted):
        def loss(p):
            net = jax.vmap(eqx.combine(p, rest))

            @jax.checkpoint
            def move(at, wanted):
                at = jnp.stack(solved(at[:, 0], at[:, 1]), 1)
                at = at + dt * net(at)
                return at, jnp.square(at - wanted).mean()

            return lax.scan(move, start, wanted)[1].mean()

        value, gradient = jax.value_and_grad(loss)(p)
        changes, state = optimizer.update(gradient, state, p)
        return optax.apply_updates(p, changes), state, value

    return update, lambda: (p, shapes(optimizer.init, p), floats(b, 2, n, n), floats(moments, b, 2, n, n))


@step
def weather():
    """The weather six hours on: 2048 places tell 642 nodes of a ball, edges of four lengths carry messages, and back (GraphCast, haiku, bf16)."""
    grid, mesh, f, b, before, after, rounds = 2048, 642, 256, 2, 178, 83, 6
    draw = np.random.default_rng(0)
    edges = {
        "up": (draw.integers(grid, size=3392), np.sort(draw.integers(mesh, size=3392))),
        "on": (draw.integers(mesh, size=5100), np.sort(draw.integers(mesh, size=5100))),
        "down": (draw.integers(mesh, size=3 * grid), np.repeat(np.arange(grid), 3)),
    }
    told = {n: draw.standard_normal((len(e[0]), 4)).astype(np.float32) for n, e in edges.items()}
    latitude = np.linspace(-np.pi / 2, np.pi / 2, 32)
    area = np.repeat(np.cos(latitude) / np.cos(latitude).mean(), 64).astype(np.float32)

    def part(x, n=f):
        x = hk.Linear(n)(jax.nn.swish(hk.Linear(f)(x)))
        return x if n != f else hk.LayerNorm(-1, True, True)(x)

    def spread(x):
        return jnp.broadcast_to(x[:, None], (x.shape[0], b, x.shape[-1])).astype(HALF)

    def messages(which, e, source, target, count):
        sender, receiver = edges[which]
        new = part(jnp.concatenate([e, source[sender], target[receiver]], -1))
        heard = jax.ops.segment_sum(new.astype(jnp.float32), receiver, count, indices_are_sorted=True)
        return e + new, target + part(jnp.concatenate([target, heard.astype(HALF)], -1))

    def net(x):
        x = part(x.astype(HALF))
        ball = part(spread(draw.standard_normal((mesh, 3)).astype(np.float32)))
        e = {n: part(spread(t)) for n, t in told.items()}
        _, ball = messages("up", e["up"], x, ball, mesh)
        x = x + part(x)
        for _ in range(rounds):
            e["on"], ball = messages("on", e["on"], ball, ball, mesh)
        _, x = messages("down", e["down"], ball, x, grid)
        return part(x, after).astype(jnp.float32)

    def halved(x):
        whole = lambda make, shape, dtype, init, context: make(shape, jnp.float32, init)
        half = lambda get, value, context: get(value.astype(HALF))
        with hk.custom_creator(whole), hk.custom_getter(half):
            return net(x)

    def loss(change, x, wanted, sizes):
        return (jnp.square((change - wanted) / sizes) * area[:, None, None]).mean()

    optimizer = optax.chain(optax.clip_by_global_norm(32.0), optax.adamw(1e-3, b2=0.95, weight_decay=0.1))
    return haiku_step(halved, loss, optimizer, floats(grid, b, before), floats(grid, b, after), floats(after))


@step
def algorithms():
    """What algorithms do, step by step: nodes, edges and triplets of nodes tell each other, the largest message counts (CLRS, triplet-GMPNN, haiku)."""
    b, n, f, thin, moments = 32, 16, 128, 8, 24

    def processed(z, e, g, adjacent):
        lin = lambda n: hk.Linear(n)
        t = [lin(thin)(z) for _ in range(3)]
        te = [lin(thin)(e) for _ in range(3)]
        triplets = t[0][:, :, None, None] + t[1][:, None, :, None] + t[2][:, None, None] + te[0][:, :, :, None]
        triplets = triplets + te[1][:, :, None] + te[2][:, None] + lin(thin)(g)[:, None, None, None]
        edges = jax.nn.relu(lin(f)(triplets.max(1)))
        m = lin(f)(z)[:, None] + lin(f)(z)[:, :, None] + lin(f)(e) + lin(f)(g)[:, None, None]
        m = hk.nets.MLP([f, f])(jax.nn.relu(m))
        heard = jnp.where(adjacent[..., None] > 0, m, -1e6).max(1)
        out = jax.nn.relu(lin(f)(z) + lin(f)(heard))
        return hk.LayerNorm(-1, True, True)(out), edges, heard

    class Move(hk.Module):
        def __call__(self, at, hint, nodes, matrix, adjacent):
            hidden, edges = at
            pointer, mask, number = hint
            x = hk.Linear(f)(nodes) + hk.Linear(f)(mask[..., None]) + hk.Linear(f)(number[..., None])
            e = hk.Linear(f)(matrix) + hk.Linear(f)(adjacent[..., None]) + hk.Linear(f)(jax.nn.one_hot(pointer, n)[..., None])
            z = jnp.concatenate([x, hidden], -1)
            out, edges, heard = processed(z, jnp.concatenate([e, edges], -1), jnp.zeros((b, f)), adjacent)
            gate = hk.Linear(f)(z) + hk.Linear(f)(heard)
            gate = jax.nn.sigmoid(hk.Linear(f, b_init=hk.initializers.Constant(-3))(jax.nn.relu(gate)))
            hidden = out * gate + hidden * (1 - gate)
            both = jnp.concatenate([x, hidden], -1)
            pair = hk.Linear(f)(both)[:, :, None] + hk.Linear(f)(jnp.concatenate([e, edges], -1))
            points = hk.Linear(1)(jnp.maximum(hk.Linear(f)(both)[:, None], pair))[..., 0]
            return (hidden, edges), (points, hk.Linear(1)(both)[..., 0], hk.Linear(1)(both)[..., 0])

    def net(nodes, matrix, adjacent, told):
        move = Move()
        start = jnp.zeros((b, n, f)), jnp.zeros((b, n, n, f))
        return hk.scan(lambda at, hint: move(at, hint, nodes, matrix, adjacent), start, told)[1]

    def loss(found, nodes, matrix, adjacent, given, wanted, lengths):
        points, masks, numbers = found
        pointer, mask, number = wanted
        lives = (jnp.arange(moments)[:, None] < lengths)[..., None]
        each = optax.softmax_cross_entropy_with_integer_labels(points, pointer)
        each = each + optax.sigmoid_binary_cross_entropy(masks, mask) + jnp.square(numbers - number)
        return jnp.where(lives, each, 0).sum() / lives.sum() / n

    of = lambda: (below(n, moments, b, n), floats(moments, b, n), floats(moments, b, n))
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(1e-3))
    given = floats(b, n, 4), floats(b, n, n, 1), floats(b, n, n), of()
    return haiku_step(net, loss, optimizer, *given, of(), below(moments, b), inputs=4)


@step
def mixed_operations():
    """Which of eight operations belongs on each edge of a cell: all of them, weighed; weights learn from half of the data, shares from the rest (DARTS)."""
    b, channels, cells, nodes, kinds = 32, 16, 3, 2, 10
    count = sum(2 + i for i in range(nodes))
    conv = lambda f, size=1, stride=1, rate=1, groups=1: hk.Conv2D(f, size, stride, rate, with_bias=False, feature_group_count=groups)
    norm = lambda x, learnt=False: hk.BatchNorm(learnt, learnt, 0.9)(x, True)

    def separable(x, f, size, stride):
        for i in range(2):
            x = conv(x.shape[-1], size, 1 if i else stride, 1, x.shape[-1])(jax.nn.relu(x))
            x = norm(conv(f)(x))
        return x

    def reduced(x, f):
        x = jax.nn.relu(x)
        return norm(jnp.concatenate([conv(f // 2, 1, 2)(x), conv(f // 2, 1, 2)(x[:, 1:, 1:])], -1))

    def dilated(x, f, size, stride):
        x = conv(x.shape[-1], size, stride, 1 if stride > 1 else 2, x.shape[-1])(jax.nn.relu(x))
        return norm(conv(f)(x))

    def edge(x, f, stride, share):
        size, by = (3, 3, 1), (stride, stride, 1)
        made = [norm(hk.max_pool(x, size, by, "SAME")), norm(hk.avg_pool(x, size, by, "SAME")), x if stride == 1 else reduced(x, f)]
        made += [separable(x, f, s, stride) for s in (3, 5)] + [dilated(x, f, s, stride) for s in (3, 5)]
        return sum(share[i + 1] * y for i, y in enumerate(made))

    def net(p, x):
        shares = [jax.nn.softmax(a) for a in p]
        x = norm(conv(3 * channels, 3)(x), True)
        one, other, f, halved = x, x, channels, False
        for i in range(cells):
            reduces = i == 1
            f = 2 * f if reduces else f
            states = [reduced(one, f) if halved else norm(conv(f)(jax.nn.relu(one))), norm(conv(f)(jax.nn.relu(other)))]
            at = 0
            for _ in range(nodes):
                made = [edge(s, f, 2 if reduces and j < 2 else 1, shares[int(reduces)][at + j]) for j, s in enumerate(states)]
                at += len(states)
                states.append(sum(made))
            one, other, halved = other, jnp.concatenate(states[2:], -1), reduces
        return hk.Linear(kinds)(other.mean((1, 2)))

    model = hk.without_apply_rng(hk.transform_with_state(net))
    of_weights = optax.chain(optax.clip_by_global_norm(5.0), optax.add_decayed_weights(3e-4), optax.sgd(0.025, 0.9))
    of_shares = optax.chain(optax.add_decayed_weights(1e-3), optax.adam(3e-4, b1=0.5))

    def update(p, state, others, x, labels, more, more_labels):
        def loss(w, a, others, x, labels):
            out, others = model.apply(w, others, a, x)
            return cross_entropy(out, labels), others

        (w, a), (s, t) = p, state
        (_, others), gradient = jax.value_and_grad(loss, 1, has_aux=True)(w, a, others, more, more_labels)
        changes, t = of_shares.update(gradient, t, a)
        a = optax.apply_updates(a, changes)
        (value, others), gradient = jax.value_and_grad(loss, has_aux=True)(w, a, others, x, labels)
        changes, s = of_weights.update(gradient, s, w)
        return (optax.apply_updates(w, changes), a), (s, t), others, value

    def arguments():
        a, batch = (floats(count, 8), floats(count, 8)), (floats(b, 32, 32, 3), below(kinds, b))
        w, others = shapes(model.init, jax.random.PRNGKey(0), a, batch[0])
        return (w, a), (shapes(of_weights.init, w), shapes(of_shares.init, a)), others, *batch, *batch

    return update, arguments


@step
def retrieved_chunks():
    """A decoder that looks at what was found for each chunk of 64 words before: two neighbours of 128 words each (RETRO, nnx, bf16)."""
    f, heads, layers, words, b, t, chunk, found, long = 512, 8, 4, 32000, 8, 512, 64, 2, 128
    n = t // chunk
    dense = lambda i, o, rngs: nnx.Linear(i, o, use_bias=False, dtype=HALF, rngs=rngs)

    class Attend(nnx.Module):
        def __init__(self, rngs):
            self.q, self.k, self.v, self.o = (dense(f, f, rngs) for _ in range(4))
            self.norm = nnx.RMSNorm(f, dtype=HALF, rngs=rngs)

        def __call__(self, x, told=None, causal=False):
            y = self.norm(x)
            told = y if told is None else told
            q, k, v = (m(a).reshape(*a.shape[:-1], heads, -1) for m, a in ((self.q, y), (self.k, told), (self.v, told)))
            return self.o(jax.nn.dot_product_attention(q, k, v, is_causal=causal).reshape(y.shape))

    class Feed(nnx.Module):
        def __init__(self, rngs):
            self.up, self.down = dense(f, 4 * f, rngs), dense(4 * f, f, rngs)
            self.norm = nnx.RMSNorm(f, dtype=HALF, rngs=rngs)

        def __call__(self, x):
            return self.down(nnx.gelu(self.up(self.norm(x))))

    class Net(nnx.Module):
        def __init__(self, rngs):
            self.words = nnx.Embed(words, f, dtype=HALF, rngs=rngs)
            self.places = nnx.Embed(t, f, dtype=HALF, rngs=rngs)
            self.read = nnx.List([nnx.List([Attend(rngs), Attend(rngs), Feed(rngs)]) for _ in range(2)])
            self.own = nnx.List([nnx.List([Attend(rngs), Attend(rngs), Feed(rngs)]) for _ in range(layers)])
            self.norm = nnx.RMSNorm(f, rngs=rngs)

        def across(self, layer, x, told):
            """Words of a chunk, from its last one on, see what was found for it."""
            moved = jnp.pad(x[:, chunk - 1 :], ((0, 0), (0, chunk - 1), (0, 0))).reshape(b * n, chunk, f)
            out = layer(moved, told).reshape(b, t, f)
            return jnp.pad(out, ((0, 0), (chunk - 1, 0), (0, 0)))[:, :t]

        def __call__(self, text, near):
            x = self.words(text) + self.places(jnp.arange(t))
            e = (self.words(near) + self.places(jnp.arange(long))).reshape(b * n * found, long, f)
            for i, (attend, across, feed) in enumerate(self.own):
                x = x + attend(x, causal=True)
                if i == 1:
                    given = jnp.repeat(x.reshape(b * n, chunk, f), found, 0)
                    for own, other, more in self.read:
                        e = e + own(e)
                        e = e + other(e, given)
                        e = e + more(e)
                    told = e.reshape(b * n, found * long, f)
                if i % 2 == 1:
                    x = x + self.across(across, x, told)
                x = x + feed(x)
            return self.norm(x).astype(HALF) @ self.words.embedding[...].T.astype(HALF)

    graph, p = nnx.split(nnx.eval_shape(lambda: Net(nnx.Rngs(0))))
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(2e-4, b2=0.95, weight_decay=0.1))

    def update(p, state, text, near):
        def loss(p):
            logits = nnx.merge(graph, p)(text, near).astype(jnp.float32)
            return cross_entropy(logits[:, :-1], text[:, 1:])

        value, gradient = jax.value_and_grad(loss)(p)
        changes, state = optimizer.update(gradient, state, p)
        return optax.apply_updates(p, changes), state, value

    return update, lambda: (p, shapes(optimizer.init, p), below(words, b, t), below(words, b, n, found, long))


@step
def engine_noise():
    """Whether an engine is broken, by 500 moments of its noise: attention of 256 features a head over one feature, as an example of Keras has it."""
    layers = keras.layers
    inputs = keras.Input((500, 1))
    x = inputs
    for _ in range(4):
        y = layers.MultiHeadAttention(key_dim=256, num_heads=4, dropout=0.25)(x, x)
        x = x + layers.LayerNormalization(epsilon=1e-6)(layers.Dropout(0.25)(y))
        y = layers.Dropout(0.25)(layers.Conv1D(4, 1, activation="relu")(x))
        x = x + layers.LayerNormalization(epsilon=1e-6)(layers.Conv1D(1, 1)(y))
    x = layers.GlobalAveragePooling1D(data_format="channels_first")(x)
    x = layers.Dropout(0.4)(layers.Dense(128, activation="relu")(x))
    model = keras.Model(inputs, layers.Dense(2, activation="softmax")(x))
    loss = lambda y, out: keras.losses.sparse_categorical_crossentropy(y, out).mean()
    return keras_step(model, loss, keras.optimizers.Adam(1e-4), floats(64, 500, 1), below(2, 64))


@step
def cleaned_digits():
    """Digits without their noise: two convolutions and pools, two transposed convolutions, a probability for each pixel, as an example of Keras has it."""
    layers = keras.layers
    inputs = keras.Input((28, 28, 1))
    x = inputs
    for _ in range(2):
        x = layers.MaxPooling2D((2, 2), padding="same")(layers.Conv2D(32, (3, 3), activation="relu", padding="same")(x))
    for _ in range(2):
        x = layers.Conv2DTranspose(32, (3, 3), strides=2, activation="relu", padding="same")(x)
    model = keras.Model(inputs, layers.Conv2D(1, (3, 3), activation="sigmoid", padding="same")(x))
    loss = lambda y, out: keras.losses.binary_crossentropy(y, out).mean()
    return keras_step(model, loss, keras.optimizers.Adam(), floats(128, 28, 28, 1), floats(128, 28, 28, 1))
