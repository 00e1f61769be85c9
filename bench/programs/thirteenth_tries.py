"""Fourteen more training steps that were measured before anybody looked at them, like those of first_tries.py.

    python bench/programs/thirteenth_tries.py two_experts > two_experts.mlir

twelfth_tries.md says what came out, too; third_tries.py says how to measure one. Needs jax, flax, dm-haiku, equinox, keras and optax.
"""

import os

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["KERAS_BACKEND"] = "jax"

import equinox as eqx
import flax.linen as nn
import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
import optax
from library_steps import equinox
from named_steps import NamedSteps, cross_entropy, print_named, square
from ordinary_steps import floats, next_words, step_of_loss, training_step
from twelfth_tries import below, haiku

lax = jax.lax
KEY = jax.random.PRNGKey(0)
STEPS = NamedSteps()
ADAM = optax.adamw(1e-3)
step = STEPS.step


@step
def two_experts():
    """Each word goes to the two of eight experts that like it best, as far as they have room (GShard)."""
    experts, room = 8, 96

    class Experts(nn.Module):
        @nn.compact
        def __call__(self, x):
            t, f = x.shape
            gates = nn.softmax(nn.Dense(experts, use_bias=False)(x))
            first = jax.nn.one_hot(gates.argmax(-1), experts)
            second = jax.nn.one_hot((gates * (1 - first)).argmax(-1), experts)
            balance = experts * (gates.mean(0) * first.mean(0)).sum()
            at = jnp.cumsum(first, 0) - first
            at2 = jnp.cumsum(second, 0) - second + first.sum(0)
            weights = []
            for chosen, place in ((first, at), (second, at2)):
                chosen = chosen * (place < room)
                slot = jax.nn.one_hot((place * chosen).sum(-1).astype(jnp.int32), room)
                weights.append((gates * chosen)[..., None] * slot[:, None])
            total = sum(w.sum((1, 2), keepdims=True) for w in weights) + 1e-9
            combine = sum(weights) / total
            dispatch = (combine > 0).astype(x.dtype)
            w1 = self.param("w1", nn.initializers.lecun_normal(), (experts, f, 2 * f))
            w2 = self.param("w2", nn.initializers.lecun_normal(), (experts, 2 * f, f))
            h = jnp.einsum("tec,tf->ecf", dispatch, x)
            h = jnp.einsum("ecg,egf->ecf", nn.gelu(jnp.einsum("ecf,efg->ecg", h, w1)), w2)
            return jnp.einsum("tec,ecf->tf", combine, h), balance

    class Net(nn.Module):
        @nn.compact
        def __call__(self, words):
            x, balance = nn.Embed(1500, 112)(words), 0
            for _ in range(2):
                x = x + nn.SelfAttention(4)(nn.LayerNorm()(x), mask=nn.make_causal_mask(words))
                y, own = Experts()(nn.LayerNorm()(x).reshape(-1, 112))
                x, balance = x + y.reshape(x.shape), balance + own
            return nn.Dense(1500)(nn.LayerNorm()(x)), balance

    return training_step(Net(), lambda out, words: next_words(out[0], words) + 0.01 * out[1], ADAM, below(1500, 5, 64))


@step
def line_search():
    """A net for small tables by L-BFGS, each step as long as a search along the line says."""

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            for f in (48, 48):
                x = nn.tanh(nn.Dense(f)(x))
            return nn.Dense(1)(x)[:, 0]

    model, optimizer = Net(), optax.lbfgs(memory_size=5)

    def update(p, state, x, y):
        loss = lambda p: square(model.apply(p, x), y)
        value, gradient = optax.value_and_grad_from_state(loss)(p, state=state)
        changes, state = optimizer.update(gradient, state, p, value=value, grad=gradient, value_fn=loss)
        return optax.apply_updates(p, changes), state, value

    def arguments():
        p = jax.eval_shape(model.init, KEY, floats(1, 13))
        return p, jax.eval_shape(optimizer.init, p), floats(506, 13), floats(506)

    return update, arguments


@step
def counts_of_genes():
    """Counts of genes in cells as negative binomials with zeros too many, by a narrow middle (scVI)."""
    genes = 1200

    class Net(nn.Module):
        @nn.compact
        def __call__(self, counts, batch):
            x, of_batch = jnp.log1p(counts), jax.nn.one_hot(batch, 4)
            h = nn.relu(nn.LayerNorm()(nn.Dense(128)(jnp.concatenate([x, of_batch], -1))))
            mean, log = nn.Dense(10)(h), nn.Dense(10)(h)
            z = mean + jnp.exp(log / 2) * jax.random.normal(KEY, mean.shape)
            h = nn.relu(nn.LayerNorm()(nn.Dense(128)(jnp.concatenate([z, of_batch], -1))))
            rate = nn.softmax(nn.Dense(genes)(h)) * counts.sum(-1, keepdims=True)
            spread = jnp.exp(self.param("spread", nn.initializers.normal(1), (genes,)))
            return rate, spread, nn.Dense(genes)(h), mean, log

    def loss(out, counts, batch):
        rate, spread, zero, mean, log = out
        pi, eps = -jax.nn.softplus(-zero), 1e-8
        none = spread * (jnp.log(spread + eps) - jnp.log(spread + rate + eps))
        some = (
            none
            + counts * (jnp.log(rate + eps) - jnp.log(spread + rate + eps))
            + jax.scipy.special.gammaln(counts + spread)
            - jax.scipy.special.gammaln(spread)
            - jax.scipy.special.gammaln(counts + 1)
        )
        likely = jnp.where(counts < 0.5, jnp.logaddexp(pi, -jax.nn.softplus(zero) + none), -jax.nn.softplus(zero) + some)
        return -likely.sum(-1).mean() + 0.5 * (jnp.exp(log) + mean**2 - 1 - log).sum(-1).mean()

    return training_step(Net(), loss, ADAM, np.abs(np.random.default_rng(2).normal(size=(96, genes)) * 3).round().astype(np.float32), below(4, 96), inputs=2)


@step
def hyperbolic_words():
    """Words in a ball whose distances grow towards its edge, moved as the ball is curved (Poincaré embeddings)."""

    def apart(u, v):
        inner = lambda x: 1 - jnp.square(x).sum(-1)
        return jnp.arccosh(1 + 2 * jnp.square(u - v).sum(-1) / (inner(u) * inner(v)) + 1e-6)

    def update(p, state, here, there):
        ball = lambda t: t / jnp.maximum(1, (jnp.linalg.norm(t, axis=-1, keepdims=True) + 1e-5) / 0.9)

        def loss(table):
            table = ball(table)
            return -jax.nn.log_softmax(-apart(table[here][:, None], table[there]))[:, 0].mean()

        value, slope = jax.value_and_grad(loss)(p)
        curved = jnp.square(1 - jnp.square(ball(p)).sum(-1, keepdims=True)) / 4
        return ball(p - 0.3 * curved * slope), state + 1, value

    return update, lambda: (floats(5000, 10), jax.ShapeDtypeStruct((), jnp.int32), below(5000, 150), below(4999, 150, 11))


@step
def whitened():
    """Images whose features are made independent of each other between layers, by eigenvalues (decorrelated batch normalisation)."""

    class White(nn.Module):
        groups: int = 4

        @nn.compact
        def __call__(self, x):
            *rest, f = x.shape
            y = x.reshape(-1, self.groups, f // self.groups)
            y = y - y.mean(0)
            cov = jnp.einsum("ngf,nge->gfe", y, y) / len(y) + 1e-2 * jnp.eye(f // self.groups)
            root = jnp.linalg.cholesky(cov)
            turn = jax.vmap(lambda r: jax.scipy.linalg.solve_triangular(r, jnp.eye(len(r)), lower=True))(root)
            y = jnp.einsum("gfe,nge->ngf", turn, y).reshape(*rest, f)
            return y * self.param("scale", nn.initializers.ones, (f,)) + self.param("shift", nn.initializers.zeros, (f,))

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            for f in (32, 64):
                x = nn.relu(White()(nn.Conv(f, (3, 3), (2, 2))(x)))
            return nn.Dense(10)(x.mean((1, 2)))

    return training_step(Net(), lambda out, x, y: cross_entropy(out, y), optax.sgd(0.05, 0.9), floats(48, 28, 28, 3), below(10, 48))


@step
def own_kernels():
    """Faces by layers whose every place has a kernel of its own (DeepFace's locally connected layers)."""

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            x = nn.relu(nn.Conv(32, (5, 5), (2, 2))(x))
            x = nn.max_pool(x, (3, 3), (2, 2))
            x = nn.relu(nn.ConvLocal(16, (5, 5), padding="VALID")(x))
            x = nn.relu(nn.ConvLocal(16, (3, 3), (2, 2), padding="VALID")(x))
            return nn.Dense(120)(nn.Dropout(0.5, deterministic=False, rng_collection="dropout")(x.reshape(len(x), -1), rng=KEY))

    return training_step(Net(), lambda out, x, y: cross_entropy(out, y), optax.sgd(0.01, 0.9), floats(20, 64, 64, 1), below(120, 20))


@step
def turning_states():
    """Long sequences by states of complex numbers that only turn, a gate that is real (unitary recurrent net)."""
    n = 64

    def net(p, x):
        turn = lambda angle, h: h * jnp.exp(1j * angle)
        mirror = lambda v, h: h - 2 * jnp.einsum("bn,n->b", h, v.conj())[:, None] * v / jnp.square(jnp.abs(v)).sum()

        def cell(h, x):
            h = turn(p["d1"], h)
            h = mirror(p["r1"], jnp.fft.fft(h) / n**0.5)
            h = turn(p["d2"], h[:, np.random.default_rng(0).permutation(n)])
            h = mirror(p["r2"], jnp.fft.ifft(h) * n**0.5)
            h = turn(p["d3"], h) + x @ p["in"]
            size = jnp.sqrt(jnp.square(h.real) + jnp.square(h.imag) + 1e-6)
            h = h * (jax.nn.relu(size + p["b"]) / size)
            return h, None

        h, _ = lax.scan(cell, jnp.zeros((x.shape[0], n), jnp.complex64), x.swapaxes(0, 1).astype(jnp.complex64))
        return jnp.concatenate([h.real, h.imag], -1) @ p["out"]

    def parameters():
        c = lambda *s: jax.ShapeDtypeStruct(s, jnp.complex64)
        return {"d1": floats(n), "d2": floats(n), "d3": floats(n), "r1": c(n), "r2": c(n), "in": c(2, n), "b": floats(n), "out": floats(2 * n, 1)}

    return step_of_loss(lambda p, x, y: square(net(p, x)[:, 0], y), optax.rmsprop(1e-3), parameters, floats(32, 100, 2), floats(32))


@step
def shared_shapes():
    """Series that come nearer by a soft alignment of one to the other, diagonal by diagonal (soft DTW)."""
    length = 48

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            h = nn.relu(nn.Conv(48, (7,))(x))
            h = nn.relu(nn.Conv(48, (5,), kernel_dilation=(2,))(h))
            return nn.Dense(3)(h)

    def aligned(a, b):
        cost = jnp.square(a[:, None] - b[None]).sum(-1)
        skewed = jnp.stack([jnp.pad(jnp.diagonal(cost[::-1], k), (max(0, k), max(0, -k))) for k in range(1 - length, length)])
        far = jnp.full(length, 1e6)

        def go(carry, row):
            before, last = carry
            up = jnp.concatenate([jnp.array([1e6]), last[:-1]])
            both = jnp.concatenate([jnp.array([1e6]), before[:-1]])
            best = -0.1 * jax.nn.logsumexp(-jnp.stack([last, up, both]) / 0.1, 0)
            return (last, row + best), (row + best)[-1]

        (_, end), _ = lax.scan(go, (far.at[0].set(0), far.at[0].set(0)), skewed)
        return end[-1]

    return training_step(Net(), lambda out, x, y: jax.vmap(aligned)(out, y).mean(), ADAM, floats(9, length, 5), floats(9, length, 3))


@step
def sorted_answers():
    """Documents for a question put in order by a loss on their order, noise on scores (LambdaRank's pairs, perturbed ranks)."""

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            for f in (128, 64):
                x = nn.relu(nn.BatchNorm(use_running_average=False)(nn.Dense(f)(x)))
            return nn.Dense(1)(x)[..., 0]

    model = Net()

    def loss(p, x, grades):
        scores, _ = model.apply(p, x, mutable=["batch_stats"])
        rank = jnp.argsort(jnp.argsort(-scores, -1), -1)
        gain, discount = 2.0**grades - 1, 1 / jnp.log2(2.0 + rank)
        ideal = (-jnp.sort(-gain, -1) / jnp.log2(2.0 + jnp.arange(x.shape[1]))).sum(-1)
        weight = jnp.abs((gain[:, :, None] - gain[:, None]) * (discount[:, :, None] - discount[:, None])) / (ideal[:, None, None] + 1e-6)
        better = grades[:, :, None] > grades[:, None]
        return jnp.where(better, weight * jax.nn.softplus(scores[:, None] - scores[:, :, None]), 0).sum() / len(x)

    parameters = lambda: {"params": jax.eval_shape(model.init, KEY, floats(1, 4, 136))["params"]}
    return step_of_loss(lambda p, x, g: loss({**p, "batch_stats": {}}, x, g), optax.adagrad(0.1), parameters, floats(24, 75, 136), below(5, 24, 75))


@step
def masked_sequences():
    """Clicks of an hour, padded, by masked GRUs both ways and a pool, as tutorials of Keras have it."""
    import keras

    inputs = keras.Input((50,), dtype="int32")
    x = keras.layers.Embedding(3000, 64, mask_zero=True)(inputs)
    x = keras.layers.Bidirectional(keras.layers.GRU(48, return_sequences=True))(x)
    x = keras.layers.LayerNormalization()(x)
    x = keras.layers.MultiHeadAttention(4, 24)(x, x)
    x = keras.layers.SeparableConv1D(64, 5, padding="same", activation="gelu")(x)
    x = keras.layers.GlobalAveragePooling1D()(x)
    model = keras.Model(inputs, keras.layers.Dense(1, activation="sigmoid")(keras.layers.Dense(32, "relu")(x)))
    optimizer = keras.optimizers.Nadam(1e-3, global_clipnorm=1.0)
    optimizer.build(model.trainable_variables)
    entropy = keras.losses.BinaryCrossentropy(label_smoothing=0.05)

    def update(trained, state, others, words, bought):
        def loss(trained):
            out, changed = model.stateless_call(trained, others, words, training=True)
            return entropy(bought, out), changed

        (value, changed), gradients = jax.value_and_grad(loss, has_aux=True)(trained)
        trained, state = optimizer.stateless_apply(state, gradients, trained)
        return trained, state, changed, value

    def arguments():
        shapes = lambda variables: [jax.ShapeDtypeStruct(v.shape, v.dtype) for v in variables]
        return shapes(model.trainable_variables), shapes(optimizer.variables), shapes(model.non_trainable_variables), below(3000, 33, 50), floats(33, 1)

    return update, arguments


@step
def tensor_products():
    """Atoms whose features are numbers, vectors and matrices that turn with them (tensor field net, degrees 0 to 2)."""
    atoms, neighbours = 270, 14

    class Layer(eqx.Module):
        radial: eqx.nn.MLP
        mix: list

        def __init__(self, f, key):
            k = jax.random.split(key, 4)
            self.radial = eqx.nn.MLP(8, 7 * f, 32, 2, jax.nn.silu, key=k[0])
            self.mix = [jax.random.normal(i, (f, f)) * f**-0.5 for i in k[1:]]

        def __call__(self, s, v, m, near, way, bands):
            f = s.shape[1]
            w = jnp.split(jax.vmap(jax.vmap(self.radial))(bands), 7, -1)
            y2 = way[..., :, None] * way[..., None, :] - jnp.eye(3) / 3
            sn, vn, mn = s[near], v[near], m[near]
            s2 = w[0] * sn + w[1] * jnp.einsum("anfi,ani->anf", vn, way) + w[2] * jnp.einsum("anfij,anij->anf", mn, y2)
            v2 = (
                w[3][..., None] * sn[..., None] * way[:, :, None]
                + w[4][..., None] * jnp.cross(vn, way[:, :, None])
                + w[5][..., None] * jnp.einsum("anfij,anj->anfi", mn, way)
            )
            m2 = (w[6] * sn)[..., None, None] * y2[:, :, None]
            s = s + jax.nn.silu(s2.sum(1) @ self.mix[0])
            gate = jax.nn.sigmoid(s)
            v = v + gate[..., None] * jnp.einsum("afi,fg->agi", v2.sum(1), self.mix[1])
            m = m + gate[..., None, None] * jnp.einsum("afij,fg->agij", m2.sum(1), self.mix[2])
            return s, v, m

    class Net(eqx.Module):
        table: jax.Array
        layers: list
        out: jax.Array

        def __init__(self, key):
            k = jax.random.split(key, 4)
            self.table = jax.random.normal(k[0], (10, 24))
            self.layers = [Layer(24, k[1]), Layer(24, k[2])]
            self.out = jax.random.normal(k[3], (24,)) * 0.2

        def __call__(self, places, kinds, near):
            apart = places[near] - places[:, None]
            length = jnp.sqrt(jnp.square(apart).sum(-1) + 1e-4)
            way = apart / length[..., None]
            bands = jnp.exp(-4 * jnp.square(length[..., None] - jnp.linspace(0, 4, 8)))
            s = self.table[kinds]
            v, m = jnp.zeros((*s.shape, 3)), jnp.zeros((*s.shape, 3, 3))
            for layer in self.layers:
                s, v, m = layer(s, v, m, near, way, bands)
            return (s @ self.out).sum()

    def loss(net, places, kinds, near, forces):
        return square(-jax.grad(lambda q: net(q, kinds, near))(places), forces)

    return equinox(Net(KEY), (floats(atoms, 3), below(10, atoms), below(atoms, atoms, neighbours), floats(atoms, 3)), loss)


@step
def cut_and_mixed():
    """Small images, each turned over, moved and partly covered by another one, at random; weight averages (CutMix, EMA)."""

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            for f, stride in ((32, 1), (64, 2), (128, 2)):
                y = nn.relu(nn.GroupNorm(8)(nn.Conv(f, (3, 3), (stride, stride))(x)))
                y = nn.GroupNorm(8)(nn.Conv(f, (3, 3))(y))
                x = nn.relu(y + nn.Conv(f, (1, 1), (stride, stride))(x))
            return nn.Dense(100)(x.mean((1, 2)))

    model = Net()
    optimizer = optax.chain(optax.add_decayed_weights(5e-4), optax.sgd(optax.cosine_decay_schedule(0.1, 1000), 0.9, nesterov=True))

    def changed(key, image):
        a, b = jax.random.split(key)
        image = jnp.where(jax.random.bernoulli(a), image[:, ::-1], image)
        y, x = jax.random.randint(b, (2,), 0, 9)
        return lax.dynamic_slice(jnp.pad(image, ((4, 4), (4, 4), (0, 0)), mode="reflect"), (y, x, 0), image.shape)

    def update(p, state, average, images, kinds, count):
        key = jax.random.fold_in(KEY, count)
        keys = jax.random.split(key, len(images) + 4)
        images = jax.vmap(changed)(keys[4:], images)
        other = jax.random.permutation(keys[0], len(images))
        share = jax.random.beta(keys[1], 1.0, 1.0)
        side = jnp.sqrt(1 - share) * 32
        middle = jax.random.uniform(keys[2], (2,)) * 32
        inside = lambda c: jnp.abs(jnp.arange(32) - c) < side / 2
        cover = (inside(middle[0])[:, None] & inside(middle[1]))[..., None]
        mixed = jnp.where(cover, images[other], images)
        share = 1 - cover.mean()

        def loss(p):
            out = model.apply(p, mixed)
            return share * cross_entropy(out, kinds) + (1 - share) * cross_entropy(out, kinds[other])

        value, gradient = jax.value_and_grad(loss)(p)
        changes, state = optimizer.update(gradient, state, p)
        p = optax.apply_updates(p, changes)
        return p, state, optax.incremental_update(p, average, 0.01), value

    def arguments():
        p = jax.eval_shape(model.init, KEY, floats(1, 32, 32, 3))
        return p, jax.eval_shape(optimizer.init, p), p, floats(64, 32, 32, 3), below(100, 64), jax.ShapeDtypeStruct((), jnp.int32)

    return update, arguments


@step
def shares_of_topics():
    """Documents as shares of fifty topics, drawn from Dirichlet distributions (ProdLDA)."""

    def net(counts):
        h = jax.nn.softplus(hk.nets.MLP([100, 100], activation=jax.nn.softplus)(jnp.log1p(counts)))
        alpha = jax.nn.softplus(hk.Linear(50)(h)) + 0.1
        gamma = jax.random.gamma(KEY, alpha)
        theta = gamma / (gamma.sum(-1, keepdims=True) + 1e-6)
        words = hk.Linear(2000, with_bias=False)(theta)
        return jax.nn.log_softmax(words), alpha

    def loss(out, counts):
        words, alpha = out
        digamma, gammaln = jax.scipy.special.digamma, jax.scipy.special.gammaln
        total = alpha.sum(-1, keepdims=True)
        apart = gammaln(total[:, 0]) - gammaln(alpha).sum(-1) + ((alpha - 0.1) * (digamma(alpha) - digamma(total))).sum(-1)
        return (-(counts * words).sum(-1) + apart).mean()

    return haiku(net, loss, optax.adam(2e-3, b1=0.95), (np.random.default_rng(1).poisson(0.1, (40, 2000)).astype(np.float32),))


@step
def cells_of_tables():
    """A table's columns in bins and harmonics, a net of low rank between pairs of columns, quantiles as the answer."""
    edges = np.sort(np.random.default_rng(3).normal(size=(17, 24)), -1).astype(np.float32)

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            left, right = edges[:, :-1], edges[:, 1:]
            bins = jnp.clip((x[..., None] - left) / (right - left), 0, 1)
            at = jax.vmap(jnp.searchsorted, (0, 1), 1)(edges, x)
            own = self.param("own", nn.initializers.normal(0.1), (17, 25, 16))
            words = own[jnp.arange(17), at] + jnp.einsum("bck,ckf->bcf", bins, self.param("line", nn.initializers.normal(0.1), (17, 23, 16)))
            waves = 2 * jnp.pi * x[..., None] * self.param("waves", nn.initializers.normal(0.5), (17, 8))
            words = jnp.concatenate([words, jnp.sin(waves), jnp.cos(waves)], -1)
            pairs = jnp.einsum("bif,bjf->bij", words, words)[:, *np.triu_indices(17, 1)]
            h = jnp.concatenate([words.reshape(len(x), -1), pairs], -1)
            for _ in range(2):
                h = nn.Dropout(0.1, deterministic=False)(nn.relu(nn.Dense(192)(h)), rng=KEY)
            return jnp.cumsum(nn.softplus(nn.Dense(9)(h)), -1)

    def loss(out, x, y):
        q = jnp.linspace(0.1, 0.9, 9)
        off = y[:, None] - out
        return jnp.maximum(q * off, (q - 1) * off).mean()

    return training_step(Net(), loss, optax.chain(optax.zero_nans(), optax.lion(1e-4)), floats(251, 17), floats(251))


if __name__ == "__main__":
    print_named(STEPS, STEPS.stablehlo, __doc__)
