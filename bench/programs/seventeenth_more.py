"""The second half of the steps of seventeenth_tries.py, which prints these, too."""

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
from model_steps import A_KEY, KEY, keras_step, shapes
from named_steps import NamedSteps, cross_entropy
from ordinary_steps import floats, step_of_loss
from twelfth_tries import below

lax = jax.lax
HALF = jnp.bfloat16
STEPS = NamedSteps()
step = STEPS.step


@step
def sampled_neighbours():
    """Kinds of 512 of 200000 products, told by ten things bought with each and ten bought with each of these, drawn in the step (GraphSAGE, equinox)."""
    nodes, edges, features, f, kinds, b, fan = 200000, 4000000, 100, 256, 47, 512, 10

    class Mean(eqx.Module):
        own: eqx.nn.Linear
        others: eqx.nn.Linear

        def __init__(self, i, o, key):
            one, two = jax.random.split(key)
            self.own, self.others = eqx.nn.Linear(i, o, key=one), eqx.nn.Linear(i, o, use_bias=False, key=two)

        def __call__(self, x, near, seen):
            near = (near * seen[..., None]).sum(-2) / jnp.maximum(seen.sum(-1, keepdims=True), 1)
            each = lambda layer, x: jax.vmap(layer)(x.reshape(-1, x.shape[-1])).reshape(*x.shape[:-1], -1)
            return each(self.own, x) + each(self.others, near)

    class Net(eqx.Module):
        one: Mean
        two: Mean
        say: eqx.nn.Linear
        drop: eqx.nn.Dropout

        def __init__(self, key):
            k = jax.random.split(key, 3)
            self.one, self.two = Mean(features, f, k[0]), Mean(f, f, k[1])
            self.say, self.drop = eqx.nn.Linear(f, kinds, key=k[2]), eqx.nn.Dropout(0.5)

        def __call__(self, own, near, far, seen, seen_far, key):
            k = jax.random.split(key)
            inner = self.drop(jax.nn.relu(self.one(own, near, seen)), key=k[0])
            outer = self.drop(jax.nn.relu(self.one(near, far, seen_far)), key=k[1])
            x = jax.nn.relu(self.two(inner, outer, seen))
            return jax.vmap(self.say)(x / jnp.maximum(jnp.linalg.norm(x, axis=-1, keepdims=True), 1e-12))

    p, static = eqx.partition(eqx.filter_eval_shape(Net, KEY), lambda a: isinstance(a, jax.ShapeDtypeStruct))
    optimizer = optax.adam(3e-3)

    def update(p, state, key, table, starts, ends, labels, batch):
        k = jax.random.split(key, 3)

        def drawn(key, of):
            count = starts[of + 1] - starts[of]
            at = (jax.random.uniform(key, (*of.shape, fan)) * count[..., None]).astype(jnp.int32)
            return ends[jnp.minimum(starts[of][..., None] + at, edges - 1)], jnp.broadcast_to((count > 0)[..., None], (*of.shape, fan))

        near, seen = drawn(k[0], batch)
        far, seen_far = drawn(k[1], near)
        rows = [table[i] for i in (batch, near, far)]

        def loss(p):
            return cross_entropy(eqx.combine(p, static)(*rows, seen, seen_far & seen[..., None], k[2]), labels[batch])

        value, gradient = jax.value_and_grad(loss)(p)
        changes, state = optimizer.update(gradient, state, p)
        return optax.apply_updates(p, changes), state, value

    graph = floats(nodes, features), below(edges, nodes + 1), below(nodes, edges), below(kinds, nodes)
    return update, lambda: (p, shapes(optimizer.init, p), A_KEY, *graph, below(nodes, b))


@step
def alternated():
    """Who listens to what, how often: numbers of 1024 users solved for exactly, then those of 512 artists, from padded lists (implicit least squares)."""
    users, artists, f, long, rows, columns = 20000, 12000, 64, 128, 1024, 512

    def solved(table, which, counts):
        near = table[which]
        sure = 40.0 * counts
        whole = jnp.matmul(table.T, table, precision="highest")
        own = whole + jnp.einsum("ntf,nt,ntg->nfg", near, sure, near, precision="highest") + 0.1 * jnp.eye(f)
        wanted = jnp.einsum("ntf,nt->nf", near, jnp.where(counts > 0, 1 + sure, 0))
        return jax.scipy.linalg.cho_solve(jax.scipy.linalg.cho_factor(own), wanted[..., None])[..., 0]

    def update(x, y, now, heard, counts, these, hearers, times):
        x = x.at[now].set(solved(y, heard, counts))
        y = y.at[these].set(solved(x, hearers, times))
        found = jnp.einsum("nf,ntf->nt", x[now], y[heard])
        wrong = ((1 + 40 * counts) * jnp.square((counts > 0) - found)).sum() + 0.1 * (jnp.square(x).sum() + jnp.square(y).sum())
        return x, y, wrong

    def arguments():
        mine = below(users, rows), below(artists, rows, long), floats(rows, long)
        return floats(users, f), floats(artists, f), *mine, below(artists, columns), below(users, columns, long), floats(columns, long)

    return update, arguments


@step
def under_ground():
    """How fast waves go under the ground, from what 96 places hear of four shots: 320 moments of waves, parts of them computed again (full waveform inversion)."""
    shots, deep, wide, moments, parts, edge, rate, apart = 4, 128, 256, 320, 16, 20, 0.001, 10.0
    weights = (-205 / 72, 8 / 5, -1 / 5, 8 / 315, -1 / 560)

    def bent(u):
        out = 2 * weights[0] * u
        for axis in (1, 2):
            for i, w in enumerate(weights[1:], 1):
                out = out + w * (jnp.roll(u, i, axis) + jnp.roll(u, -i, axis))
        return out / apart**2

    side = lambda n: jnp.maximum(jnp.maximum(edge - jnp.arange(n), jnp.arange(n) - (n - 1 - edge)), 0) / edge
    damped = lambda: jnp.exp(-0.3 * jnp.square(jnp.maximum(side(deep)[:, None], side(wide))))

    def heard(speed, wave, places):
        fade = damped()
        factor = jnp.square(speed * rate)

        def moment(carry, drive):
            before, now = carry
            later = fade * (2 * now - fade * before + factor * bent(now))
            later = later.at[jnp.arange(shots), edge + 2, places].add(drive)
            return (fade * now, later), later[:, edge + 2, 80:176]

        part = jax.checkpoint(lambda carry, drives: lax.scan(moment, carry, drives))
        zero = jnp.zeros((shots, deep, wide))
        _, out = lax.scan(part, (zero, zero), wave.reshape(parts, moments // parts))
        return out.reshape(moments, shots, 96)

    def loss(p, wave, places, wanted):
        speed = 1500 + 3000 * jax.nn.sigmoid(p)
        rough = jnp.abs(jnp.diff(speed, axis=0)).mean() + jnp.abs(jnp.diff(speed, axis=1)).mean()
        return jnp.square(heard(speed, wave, places) - wanted).sum() + 1e-6 * rough

    return step_of_loss(loss, optax.adam(0.02), lambda: floats(deep, wide), floats(moments), below(wide, shots), floats(moments, shots, 96))


@step
def rolling_chains():
    """How likely votes are, by age, state and schooling: sixteen chains at once walk sixteen leaps, lengths of leaps learnt (Hamiltonian Monte Carlo)."""
    chains, leaps, people, states, ages, schools, columns = 16, 16, 12000, 51, 6, 5, 8

    def energy(q, columns, state, age, school, vote):
        logits = q["base"] + columns @ q["slopes"]
        prior = jnp.square(q["base"]) / 50 + jnp.square(q["slopes"]).sum() / 2
        for name, index in (("state", state), ("age", age), ("school", school), ("both", state * ages + age)):
            spread = jnp.exp(q["spread_" + name])
            logits = logits + (spread * q[name])[index]
            prior = prior + jnp.square(q[name]).sum() / 2 + jnp.square(spread) / 2 - q["spread_" + name]
        return prior + (jax.nn.softplus(logits) - vote * logits).sum()

    def update(q, tuned, key, count, *data):
        length, mean = tuned["length"], tuned["mean"]
        k = jax.random.split(key, 3)
        keys = jax.tree.unflatten(jax.tree.structure(q), list(jax.random.split(k[0], len(jax.tree.leaves(q)))))
        push = jax.tree.map(lambda a, k, m: jax.random.normal(k, a.shape) / jnp.sqrt(m), q, keys, tuned["mass"])
        slope = jax.vmap(jax.value_and_grad(energy), (0,) + (None,) * 5)
        start, gradient = slope(q, *data)
        moved = lambda a, b, n: jax.tree.map(lambda a, b: a + n * b, a, b)
        eps = jnp.exp(length) * (0.9 + 0.2 * jax.random.uniform(k[1]))
        moving = lambda push: jax.tree.map(lambda v, m: (jnp.square(v) * m).reshape(chains, -1).sum(-1), push, tuned["mass"])
        total = lambda tree: sum(jax.tree.leaves(tree)) / 2

        def leap(carry, _):
            x, v, g, _ = carry
            v = jax.tree.map(lambda v, g, m: v - eps / 2 * g / m, v, g, tuned["mass"])
            x = moved(x, v, eps)
            u, g = slope(x, *data)
            v = jax.tree.map(lambda v, g, m: v - eps / 2 * g / m, v, g, tuned["mass"])
            return (x, v, g, u), None

        (x, v, _, end), _ = lax.scan(leap, (q, push, gradient, start), None, length=leaps)
        chance = jnp.exp(jnp.minimum(start + total(moving(push)) - end - total(moving(v)), 0.0))
        chance = jnp.where(jnp.isnan(chance), 0, chance)
        take = jax.random.uniform(k[2], (chains,)) < chance
        q = jax.tree.map(lambda new, old: jnp.where(take.reshape(-1, *(1,) * (old.ndim - 1)), new, old), x, q)
        off = 0.8 - chance.mean()
        mean = (1 - 1 / (count + 10)) * mean + off / (count + 10)
        tuned = {**tuned, "mean": mean, "length": np.log(0.01) - jnp.sqrt(count) / 0.05 * mean}
        return q, tuned, chance.mean(), jax.tree.map(lambda a: (a.mean(0), a.var(0)), q)

    def arguments():
        sizes = {"base": (), "slopes": (columns,), "state": (states,), "age": (ages,), "school": (schools,), "both": (states * ages,)}
        q = {n: floats(chains, *e) for n, e in sizes.items()}
        q |= {"spread_" + n: floats(chains) for n in ("state", "age", "school", "both")}
        mass = {n: floats(*a.shape[1:]) for n, a in q.items()}
        tuned = {"length": floats(), "mean": floats(), "mass": mass}
        return (
            q,
            tuned,
            A_KEY,
            floats(),
            floats(people, columns),
            below(states, people),
            below(ages, people),
            below(schools, people),
            floats(people),
        )

    return update, arguments


@step
def packed_texts():
    """Texts of any length one after the other, none sees another; nearer words count more by a slope a head; logits kept small (MPT with z-loss, equinox, bf16)."""
    f, heads, layers, words, b, t = 768, 12, 3, 50432, 2, 1024

    class Layer(eqx.Module):
        norms: list
        qkv: eqx.nn.Linear
        out: eqx.nn.Linear
        up: eqx.nn.Linear
        down: eqx.nn.Linear

        def __init__(self, key):
            k = jax.random.split(key, 4)
            linear = lambda i, o, key: eqx.nn.Linear(i, o, use_bias=False, key=key)
            self.norms = [eqx.nn.LayerNorm(f, use_bias=False) for _ in range(2)]
            self.qkv, self.out = linear(f, 3 * f, k[0]), linear(f, f, k[1])
            self.up, self.down = linear(f, 4 * f, k[2]), linear(4 * f, f, k[3])

        def __call__(self, x, bias):
            norm = lambda i, x: jax.vmap(self.norms[i])(x.astype(jnp.float32)).astype(HALF)
            q, k, v = (a.reshape(t, heads, -1) for a in jnp.split(jnp.clip(jax.vmap(self.qkv)(norm(0, x)), -6, 6), 3, -1))
            scores = jnp.einsum("qhd,khd->hqk", q, k).astype(jnp.float32) * (f // heads) ** -0.5 + bias
            y = jnp.einsum("hqk,khd->qhd", jax.nn.softmax(scores).astype(HALF), v).reshape(t, f)
            x = x + jax.vmap(self.out)(y)
            return x + jax.vmap(self.down)(jax.nn.gelu(jax.vmap(self.up)(norm(1, x))))

    class Net(eqx.Module):
        words: eqx.nn.Embedding
        layers: list
        norm: eqx.nn.LayerNorm

        def __init__(self, key):
            k = jax.random.split(key, layers + 1)
            self.words = eqx.nn.Embedding(words, f, key=k[0])
            self.layers = [Layer(i) for i in k[1:]]
            self.norm = eqx.nn.LayerNorm(f, use_bias=False)

        def __call__(self, text, owner):
            far = jnp.arange(t)[:, None] - jnp.arange(t)
            slopes = 2.0 ** (-8 * jnp.arange(1, heads + 1) / heads)
            seen = (far >= 0) & (owner[:, None] == owner)
            bias = jnp.where(seen, -slopes[:, None, None] * far, -1e9)
            x = self.words.weight[text]
            for layer in self.layers:
                x = eqx.filter_checkpoint(layer)(x, bias)
            x = jax.vmap(self.norm)(x.astype(jnp.float32)).astype(HALF)
            return (x @ self.words.weight.T).astype(jnp.float32)

    p, static = eqx.partition(eqx.filter_eval_shape(Net, KEY), lambda a: isinstance(a, jax.ShapeDtypeStruct))

    def loss(p, text, owner):
        half = jax.tree.map(lambda a: a.astype(HALF), p)
        logits = jax.vmap(eqx.combine(half, static))(text, owner)[:, :-1]
        whole = jax.nn.logsumexp(logits, -1)
        own = jnp.take_along_axis(logits, text[:, 1:, None], -1)[..., 0]
        counts = (owner[:, 1:] == owner[:, :-1]) & (owner[:, 1:] > 0)
        return ((whole - own + 1e-4 * jnp.square(whole)) * counts).sum() / jnp.maximum(counts.sum(), 1)

    rate = optax.warmup_cosine_decay_schedule(0, 6e-4, 100, 4800, 6e-5)
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(rate, b2=0.95, eps=1e-8, weight_decay=0.1))
    return step_of_loss(loss, optimizer, lambda: p, below(words, b, t), below(9, b, t))


@step
def seen_sounds():
    """Which of 527 things sound in ten seconds: spectrums within the step, two sounds mixed, stripes hidden, overlapping patches, a transformer (AST)."""
    b, samples, window, hop, mels, f, heads, kinds = 6, 163840, 400, 160, 128, 384, 6, 527

    def filters():
        mel = lambda hz: 1127 * np.log(1 + hz / 700)
        ends = np.linspace(mel(20), mel(8000), mels + 2)
        at = mel(np.arange(257) * 16000 / 512)[:, None]
        up, down = (at - ends[:-2]) / np.diff(ends[:-1]), (ends[2:] - at) / np.diff(ends[1:])
        return np.maximum(np.minimum(up, down), 0).astype(np.float32)

    hann = np.hanning(window).astype(np.float32)

    def spectrums(sound):
        sound = sound - sound.mean(-1, keepdims=True)
        at = hop * np.arange(1022)[:, None] + np.arange(window)
        frames = sound[:, at]
        frames = frames - frames.mean(-1, keepdims=True)
        frames = frames - 0.97 * jnp.concatenate([frames[..., :1], frames[..., :-1]], -1)
        power = jnp.square(jnp.abs(jnp.fft.rfft(frames * hann, 512)))
        return (jnp.log(jnp.maximum(power @ filters(), 1.19e-7)) + 4.27) / (4.57 * 2)

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            x = nn.Conv(f, (16, 16), (10, 10), padding="VALID")(x[..., None]).reshape(b, -1, f)
            first = self.param("first", nn.initializers.normal(0.02), (1, 2, f))
            x = jnp.concatenate([jnp.broadcast_to(first, (b, 2, f)), x], 1)
            x = x + self.param("places", nn.initializers.normal(0.02), (1, x.shape[1], f))
            for _ in range(3):
                y = nn.LayerNorm()(x)
                x = x + nn.MultiHeadDotProductAttention(heads)(y)
                x = x + nn.Dense(f)(nn.gelu(nn.Dense(4 * f)(nn.LayerNorm()(x))))
            return nn.Dense(kinds)(nn.LayerNorm()(nn.LayerNorm()(x)[:, :2].mean(1)))

    net, optimizer = Net(), optax.adam(optax.piecewise_constant_schedule(1e-5, {20000: 0.5, 30000: 0.5}), b1=0.95)

    def update(p, state, key, sound, kind):
        k = jax.random.split(key, 6)
        share = jax.random.beta(k[0], 10.0, 10.0, (b, 1))
        other = jax.random.permutation(k[1], b)
        sound = share * sound + (1 - share) * sound[other]
        kind = share * kind + (1 - share) * kind[other]
        x = spectrums(sound)
        for i, (axis, most) in enumerate(((1, 192), (2, 48))):
            size = x.shape[axis]
            long = jax.random.uniform(k[2 + 2 * i], (b, 1)) * most
            start = jax.random.uniform(k[3 + 2 * i], (b, 1)) * (size - long)
            out = (jnp.arange(size) >= start) & (jnp.arange(size) < start + long)
            x = jnp.where(jnp.expand_dims(out, 3 - axis), 0, x)
        loss = lambda p: optax.sigmoid_binary_cross_entropy(net.apply(p, x), kind).mean()
        value, gradient = jax.value_and_grad(loss)(p)
        changes, state = optimizer.update(gradient, state, p)
        return optax.apply_updates(p, changes), state, value

    def arguments():
        p = shapes(net.init, KEY, floats(b, 1022, mels))
        return p, shapes(optimizer.init, p), A_KEY, floats(b, samples), floats(b, kinds)

    return update, arguments


@step
def widths_of_words():
    """What a message of 200 words is about, of twenty groups: convolutions over three, four and five words, the most of each (TextCNN, Keras)."""
    import keras

    layers = keras.layers
    words, f, t, b = 20000, 128, 200, 128
    keras.config.set_dtype_policy("float32")
    inputs = keras.Input((t,), dtype="int32")
    x = layers.SpatialDropout1D(0.2)(layers.Embedding(words, f)(inputs))
    found = [layers.GlobalMaxPooling1D()(layers.Conv1D(f, size, activation="relu")(x)) for size in (3, 4, 5)]
    x = layers.Dropout(0.5)(layers.Concatenate()(found))
    x = layers.Dense(128, activation="relu", kernel_regularizer=keras.regularizers.L2(1e-4))(x)
    model = keras.Model(inputs, layers.Dense(20, activation="softmax")(x))
    loss = lambda y, out: keras.losses.sparse_categorical_crossentropy(y, out).mean()
    return keras_step(model, loss, keras.optimizers.Adam(1e-3, clipnorm=1.0), below(words, b, t), below(20, b))


@step
def averaged_clients():
    """Ten writers learn letters with a net each, four small batches of their own, and the net becomes the mean of theirs (federated averaging, haiku)."""
    clients, rounds, b, kinds = 10, 4, 20, 62

    def net(x):
        for f in (32, 64):
            x = hk.max_pool(jax.nn.relu(hk.Conv2D(f, 5)(x)), (2, 2, 1), (2, 2, 1), "SAME")
        return hk.Linear(kinds)(jax.nn.relu(hk.Linear(512)(x.reshape(len(x), -1))))

    model = hk.without_apply_rng(hk.transform(net))
    own, whole = optax.sgd(0.1), optax.yogi(0.01, eps=1e-3)

    def update(p, state, images, kind, counts):
        def learnt(images, kind):
            def batch(carry, given):
                q, inner = carry
                value, gradient = jax.value_and_grad(lambda q: cross_entropy(model.apply(q, given[0]), given[1]))(q)
                changes, inner = own.update(gradient, inner)
                return (optax.apply_updates(q, changes), inner), value

            (q, _), values = lax.scan(batch, (p, own.init(p)), (images, kind))
            return q, values.mean()

        nets, values = jax.vmap(learnt)(images, kind)
        share = counts / counts.sum()
        apart = jax.tree.map(lambda a, q: a - jnp.tensordot(share, q, 1), p, nets)
        changes, state = whole.update(apart, state, p)
        return optax.apply_updates(p, changes), state, (share * values).sum()

    def arguments():
        p = shapes(model.init, KEY, floats(b, 28, 28, 1))
        return p, shapes(whole.init, p), floats(clients, rounds, b, 28, 28, 1), below(kinds, clients, rounds, b), floats(clients)

    return update, arguments
