"""Sixteen more training steps that were measured before anybody looked at them, like those of first_tries.py.

    python bench/programs/fourteenth_tries.py speakers > speakers.mlir

fourteenth_tries.md says what came out; third_tries.py says how to measure one. Needs jax, flax, dm-haiku, equinox, keras and optax.
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
from model_steps import A_KEY, KEY, flax_step, haiku_step, keras_step, normalised, shapes
from named_steps import NamedSteps, cross_entropy, print_named, square
from ordinary_steps import floats, next_words
from twelfth_tries import below

lax = jax.lax
STEPS = NamedSteps()
step = STEPS.step


@step
def unnormalised():
    """Residual blocks without norms: kernels standardised, branches scaled, gradients clipped unit by unit (NFNet)."""

    class Conv(hk.Module):
        def __init__(self, f, size, stride=1, groups=1):
            super().__init__()
            self.f, self.size, self.stride, self.groups = f, size, stride, groups

        def __call__(self, x):
            extents = (self.size, self.size, x.shape[-1] // self.groups, self.f)
            w = hk.get_parameter("w", extents, init=hk.initializers.VarianceScaling())
            mean, variance = w.mean((0, 1, 2)), w.var((0, 1, 2))
            w = (w - mean) * lax.rsqrt(jnp.maximum(variance * np.prod(extents[:3]), 1e-4)) * hk.get_parameter("gain", (self.f,), init=jnp.ones)
            y = lax.conv_general_dilated(x, w, (self.stride,) * 2, "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"), feature_group_count=self.groups)
            return y + hk.get_parameter("b", (self.f,), init=jnp.zeros)

    gelu = lambda x: jax.nn.gelu(x) * 1.7015043497085571

    class Block(hk.Module):
        def __init__(self, f, stride, beta):
            super().__init__()
            self.f, self.stride, self.beta = f, stride, beta

        def __call__(self, x):
            h = gelu(x) * self.beta
            short = x
            if self.stride > 1 or x.shape[-1] != self.f:
                pooled = hk.avg_pool(h, (1, 2, 2, 1), (1, 2, 2, 1), "SAME") if self.stride > 1 else h
                short = Conv(self.f, 1)(pooled)
            h = gelu(Conv(self.f // 2, 1)(h))
            h = gelu(Conv(self.f // 2, 3, self.stride, self.f // 64)(h))
            h = Conv(self.f, 1)(h)
            gates = hk.Linear(self.f)(jax.nn.relu(hk.Linear(self.f // 4)(h.mean((1, 2)))))
            h = 2 * jax.nn.sigmoid(gates)[:, None, None] * h
            kept = jax.random.bernoulli(hk.next_rng_key(), 0.9, (len(x), 1, 1, 1))
            return short + 0.2 * h * kept / 0.9 * hk.get_parameter("skip", (), init=jnp.zeros)

    def net(x):
        x = Conv(64, 3)(gelu(Conv(32, 3, 2)(x)))
        expected = 1.0
        for f, blocks, stride in ((128, 1, 1), (256, 2, 2), (384, 3, 2)):
            for i in range(blocks):
                x = Block(f, stride if i == 0 else 1, expected**-0.5)(x)
                expected = 1.0 + 0.04 if i == 0 else expected + 0.04
        x = gelu(Conv(768, 1)(x)).mean((1, 2))
        return hk.Linear(200)(hk.dropout(hk.next_rng_key(), 0.2, x))

    def loss(out, x, y):
        return optax.softmax_cross_entropy(out, optax.smooth_labels(jax.nn.one_hot(y, 200), 0.1)).mean()

    optimizer = optax.chain(optax.adaptive_grad_clip(0.01), optax.add_decayed_weights(2e-5), optax.sgd(0.1, 0.9, nesterov=True))
    return haiku_step(net, loss, optimizer, floats(48, 64, 64, 3), below(200, 48))


@step
def token_of_a_teacher():
    """A vision transformer with one more token that hears a teacher, its layers scanned and computed again, by LAMB (DeiT)."""

    class Layer(nn.Module):
        @nn.compact
        def __call__(self, x, rate):
            drop = lambda y: y * jax.random.bernoulli(self.make_rng("dropout"), 1 - rate, (len(x), 1, 1)) / (1 - rate)
            x = x + drop(nn.MultiHeadDotProductAttention(3)(nn.LayerNorm()(x)))
            y = nn.Dense(192)(nn.gelu(nn.Dense(768)(nn.LayerNorm()(x))))
            return x + drop(y), None

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            x = nn.Conv(192, (8, 8), (8, 8))(x).reshape(len(x), -1, 192)
            tokens = self.param("tokens", nn.initializers.normal(0.02), (1, 2, 192))
            x = jnp.concatenate([jnp.broadcast_to(tokens, (len(x), 2, 192)), x], 1)
            x = x + self.param("places", nn.initializers.normal(0.02), (1, x.shape[1], 192))
            layers = nn.scan(nn.remat(Layer, prevent_cse=False), variable_axes={"params": 0}, split_rngs={"params": True, "dropout": True}, length=8)
            x, _ = layers()(x, jnp.linspace(0, 0.1, 8))
            x = nn.LayerNorm()(x)
            return nn.Dense(100)(x[:, 0]), nn.Dense(100)(x[:, 1])

    def loss(out, x, y, teacher):
        return (cross_entropy(out[0], y) + cross_entropy(out[1], teacher.argmax(-1))) / 2

    optimizer = optax.lamb(optax.warmup_cosine_decay_schedule(0, 4e-3, 500, 20000), weight_decay=0.05)
    return flax_step(Net(), loss, optimizer, floats(32, 96, 96, 3), below(100, 32), floats(32, 100))


@step
def capped_logits():
    """A small decoder as people race them: normed queries and keys, squared ReLUs, logits capped, values of the words mixed in (bf16, Adafactor)."""
    f, heads, half = 384, 6, jnp.bfloat16
    rms = lambda x: x * lax.rsqrt(jnp.mean(jnp.square(x.astype(jnp.float32)), -1, keepdims=True) + 1e-6).astype(x.dtype)

    class Layer(nn.Module):
        @nn.compact
        def __call__(self, x, first, words_values):
            mix = self.param("mix", lambda key: jnp.array([1.0, 0.0]))
            x = (mix[0] * x + mix[1] * first).astype(half)
            b, t, _ = x.shape
            dense = lambda n, name: nn.Dense(n, use_bias=False, dtype=half, name=name)
            q, k, v = jnp.split(dense(3 * f, "qkv")(rms(x)).reshape(b, t, 3 * heads, f // heads), 3, 2)
            share = self.param("share", nn.initializers.constant(0.5), ())
            v = ((1 - share) * v + share * words_values.reshape(v.shape)).astype(half)
            angle = jnp.arange(t)[:, None] * 1024.0 ** -jnp.linspace(0, 1, f // heads // 2)
            cos, sin = jnp.cos(angle)[:, None].astype(half), jnp.sin(angle)[:, None].astype(half)

            def turned(y):
                a, c = jnp.split(rms(y), 2, -1)
                return jnp.concatenate([a * cos + c * sin, c * cos - a * sin], -1)

            scores = jnp.einsum("bihd,bjhd->bhij", turned(q), turned(k)).astype(jnp.float32) * 0.12
            scores = jnp.where(jnp.tril(jnp.ones((t, t), bool)), scores, -1e9)
            y = jnp.einsum("bhij,bjhd->bihd", nn.softmax(scores).astype(half), v).reshape(b, t, f)
            x = x + dense(f, "out")(y)
            return x + dense(f, "down")(jnp.square(nn.relu(dense(4 * f, "up")(rms(x)))))

    class Net(nn.Module):
        @nn.compact
        def __call__(self, words):
            x = first = rms(nn.Embed(6000, f, dtype=half)(words))
            values = nn.Embed(6000, f, dtype=half)(words)
            for _ in range(4):
                x = Layer()(x, first, values)
            logits = nn.Dense(6000, use_bias=False, dtype=half)(rms(x)).astype(jnp.float32)
            return 15 * jnp.tanh(logits / 15)

    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adafactor(optax.warmup_cosine_decay_schedule(0, 1e-2, 100, 5000)))
    return flax_step(Net(), next_words, optimizer, below(6000, 8, 384))


@step
def speakers():
    """Who speaks: dilated convolutions in eight parts, gates, statistics weighed by attention, angles with a margin (ECAPA-TDNN)."""
    c = 256

    class Conv(nn.Module):
        f: int
        size: int
        dilation: int = 1

        @nn.compact
        def __call__(self, x):
            return normalised()(nn.relu(nn.Conv(self.f, (self.size,), kernel_dilation=(self.dilation,))(x)))

    class Block(nn.Module):
        dilation: int

        @nn.compact
        def __call__(self, x):
            first, *parts = jnp.split(Conv(c, 1)(x), 8, -1)
            done, last = [first], 0
            for part in parts:
                last = Conv(c // 8, 3, self.dilation)(part + last)
                done.append(last)
            y = Conv(c, 1)(jnp.concatenate(done, -1))
            gates = nn.sigmoid(nn.Dense(c)(nn.relu(nn.Dense(128)(y.mean(1, keepdims=True)))))
            return x + y * gates

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            x = x - x.mean(1, keepdims=True)
            x = Conv(c, 5)(x)
            outs = []
            for dilation in (2, 3, 4):
                x = Block(dilation)(x)
                outs.append(x)
            x = nn.relu(nn.Conv(768, (1,))(jnp.concatenate(outs, -1)))
            mean, spread = x.mean(1, keepdims=True), jnp.sqrt(x.var(1, keepdims=True) + 1e-5)
            all_of_it = jnp.concatenate([x, *(jnp.broadcast_to(s, x.shape) for s in (mean, spread))], -1)
            weights = nn.softmax(nn.Conv(768, (1,))(nn.tanh(Conv(128, 1)(all_of_it))), 1)
            mean = (weights * x).sum(1)
            spread = jnp.sqrt(jnp.maximum((weights * x**2).sum(1) - mean**2, 1e-5))
            x = normalised()(nn.Dense(192)(normalised()(jnp.concatenate([mean, spread], -1))))
            table = self.param("speakers", nn.initializers.xavier_uniform(), (1200, 192))
            unit = lambda v: v * lax.rsqrt(jnp.square(v).sum(-1, keepdims=True) + 1e-8)
            return unit(x) @ unit(table).T

    def loss(cosine, x, y, margin=0.2):
        sine = jnp.sqrt(jnp.clip(1 - cosine**2, 1e-6, 1))
        moved = cosine * np.cos(margin) - sine * np.sin(margin)
        moved = jnp.where(cosine > np.cos(np.pi - margin), moved, cosine - np.sin(np.pi - margin) * margin)
        own = jax.nn.one_hot(y, 1200)
        return cross_entropy(30 * (own * moved + (1 - own) * cosine), y)

    return flax_step(Net(), loss, optax.adamw(1e-3, weight_decay=2e-5), floats(32, 200, 80), below(1200, 32))


@step
def demand():
    """What many products will sell: two LSTM layers told of each product and day, negative binomials a day (DeepAR)."""
    length = 7 * 4 + 84

    def net(sales, days, product, kind):
        b = len(sales)
        scale = 1 + sales[:, :28].mean(1, keepdims=True)
        of_product = jnp.concatenate([hk.Embed(1500, 20)(product), hk.Embed(30, 8)(kind), jnp.log(scale)], -1)
        before = jnp.pad(sales, ((0, 0), (1, 0)))[:, :-1] / scale
        lags = [jnp.pad(before, ((0, 0), (lag, 0)))[:, :length] for lag in (0, 6, 13, 27)]
        x = jnp.concatenate([jnp.stack(lags, -1), days, jnp.broadcast_to(of_product[:, None], (b, length, 29))], -1)
        core = hk.DeepRNN([hk.LSTM(64), lambda h: hk.dropout(hk.next_rng_key(), 0.1, h), hk.LSTM(64)])
        h, _ = hk.dynamic_unroll(core, x.swapaxes(0, 1), core.initial_state(b))
        mean = jax.nn.softplus(hk.Linear(1)(h))[..., 0].T * scale
        alpha = jax.nn.softplus(hk.Linear(1)(h))[..., 0].T / jnp.sqrt(scale)
        return mean + 1e-6, alpha + 1e-6

    def loss(out, sales, days, product, kind):
        mean, alpha = out
        r, lg = 1 / alpha, jax.scipy.special.gammaln
        likely = lg(sales + r) - lg(sales + 1) - lg(r) - r * jnp.log1p(alpha * mean) + sales * (jnp.log(alpha * mean) - jnp.log1p(alpha * mean))
        return -likely.mean()

    optimizer = optax.chain(optax.clip_by_global_norm(10.0), optax.adam(1e-3))
    return haiku_step(net, loss, optimizer, floats(64, length), floats(64, length, 5), below(1500, 64), below(30, 64), inputs=4)


@step
def mixed_series():
    """Twenty-one series of weather at once: dense layers along time and along the series in turn, the level put back (TSMixer, Keras)."""
    import keras

    layers, past, future, series = keras.layers, 336, 96, 21
    inputs = keras.Input((past, series))
    mean = keras.ops.mean(inputs, 1, keepdims=True)
    spread = keras.ops.sqrt(keras.ops.var(inputs, 1, keepdims=True) + 1e-5)
    x = (inputs - mean) / spread
    for _ in range(4):
        y = layers.LayerNormalization(axis=[-2, -1])(x)
        y = layers.Dense(past, activation="relu")(layers.Permute((2, 1))(y))
        x = x + layers.Dropout(0.3)(layers.Permute((2, 1))(y))
        y = layers.LayerNormalization(axis=[-2, -1])(x)
        y = layers.Dropout(0.3)(layers.Dense(128, activation="relu")(y))
        x = x + layers.Dropout(0.3)(layers.Dense(series)(y))
    x = layers.Permute((2, 1))(layers.Dense(future)(layers.Permute((2, 1))(x)))
    model = keras.Model(inputs, x * spread + mean)
    return keras_step(model, keras.losses.MeanSquaredError(), keras.optimizers.Adam(1e-4), floats(128, past, series), floats(128, future, series))


@step
def interests():
    """What somebody looked at, weighed by what is offered; experts shared by two answers, click and purchase (DIN, multi-gate experts)."""

    class Net(nn.Module):
        @nn.compact
        def __call__(self, person, offered, seen, numbers):
            items, kinds = nn.Embed(20000, 24), nn.Embed(400, 8)
            word = lambda i: jnp.concatenate([items(i), kinds(i % 400)], -1)
            offer, past = word(offered), word(seen)
            wide = jnp.broadcast_to(offer[:, None], past.shape)
            h = jnp.concatenate([past, wide, past - wide, past * wide], -1)
            for f in (64, 32):
                h = nn.PReLU()(nn.Dense(f)(h))
            weights = jnp.where((seen > 0)[..., None], nn.Dense(1)(h), 0)
            interest = (weights * past).sum(1)
            x = jnp.concatenate([nn.Embed(10000, 16)(person), offer, interest, interest * offer, numbers], -1)
            x = normalised()(x)
            experts = jnp.stack([nn.relu(nn.Dense(96)(nn.relu(nn.Dense(128)(x)))) for _ in range(6)], 1)
            answers = []
            for _ in range(2):
                gate = nn.softmax(nn.Dense(6)(x))
                h = jnp.einsum("be,bef->bf", gate, experts)
                answers.append(nn.Dense(1)(nn.Dropout(0.2, deterministic=False)(nn.PReLU()(nn.Dense(64)(h))))[:, 0])
            return answers

    def loss(out, person, offered, seen, numbers, clicked, bought):
        click, purchase = out
        both = jax.nn.sigmoid(click) * jax.nn.sigmoid(purchase)
        of_both = -(bought * jnp.log(both + 1e-7) + (1 - bought) * jnp.log(1 - both + 1e-7))
        return optax.sigmoid_binary_cross_entropy(click, clicked).mean() + of_both.mean()

    batch = below(10000, 512), below(20000, 512), below(19999, 512, 40), floats(512, 10), floats(512), floats(512)
    return flax_step(Net(), loss, optax.adagrad(0.02), *batch, inputs=4)


@step
def likes_on_a_graph():
    """Who will like which film: means over neighbours, three times, and nothing else; liked ones before others (LightGCN, BPR)."""
    people, films, likes = 943, 1682, 12000

    def net(p, person, film):
        x = jnp.concatenate([p["people"], p["films"]])
        a, b = jnp.concatenate([person, film + people]), jnp.concatenate([film + people, person])
        degree = jax.ops.segment_sum(jnp.ones(len(a)), b, people + films)
        scale = lax.rsqrt(jnp.maximum(degree, 1))
        outs = [x]
        for _ in range(3):
            x = jax.ops.segment_sum(x[a] * (scale[a] * scale[b])[:, None], b, people + films)
            outs.append(x)
        x = sum(outs) / 4
        return x[:people], x[people:]

    optimizer = optax.adam(1e-3)

    def update(p, state, person, film, who, liked, other):
        def loss(p):
            x, y = net(p, person, film)
            score = lambda i: (x[who] * y[i]).sum(-1)
            decay = sum(jnp.square(v).sum() for v in (p["people"][who], p["films"][liked], p["films"][other]))
            return jax.nn.softplus(score(other) - score(liked)).mean() + 1e-4 * decay / len(who) / 2

        value, gradient = jax.value_and_grad(loss)(p)
        changes, state = optimizer.update(gradient, state, p)
        return optax.apply_updates(p, changes), state, value

    def arguments():
        p = {"people": floats(people, 64), "films": floats(films, 64)}
        return p, shapes(optimizer.init, p), below(people, likes), below(films, likes), below(people, 1024), below(films, 1024), below(films - 1, 1024)

    return update, arguments


@step
def expectiles():
    """An agent from what others did: the better of values by expectiles, ten critics at once, an actor that copies what was good (IQL)."""

    class Mlp(nn.Module):
        out: int
        norm: bool = False
        rate: float = 0.0

        @nn.compact
        def __call__(self, x):
            for _ in range(2):
                x = nn.Dense(256, kernel_init=nn.initializers.orthogonal())(x)
                x = nn.relu(nn.LayerNorm()(x) if self.norm else x)
                x = nn.Dropout(self.rate, deterministic=self.rate == 0)(x)
            return nn.Dense(self.out)(x)

    critics = nn.vmap(Mlp, variable_axes={"params": 0}, split_rngs={"params": True}, in_axes=None, out_axes=0, axis_size=10)(1, True)
    worth, actor = Mlp(1), Mlp(6, rate=0.1)
    optimizers = {
        "critics": optax.adam(3e-4),
        "worth": optax.adam(3e-4),
        "actor": optax.chain(optax.scale_by_adam(), optax.scale_by_schedule(optax.cosine_decay_schedule(-3e-4, 10**6))),
    }

    def update(p, state, slow, key, seen, done, reward, mask, then):
        both = jnp.concatenate([seen, done], -1)
        q = critics.apply(slow, both)[..., 0].min(0)

        def worth_loss(w):
            off = q - worth.apply(w, seen)[:, 0]
            return (jnp.where(off > 0, 0.8, 0.2) * off**2).mean(), off

        (_, off), dw = jax.value_and_grad(worth_loss, has_aux=True)(p["worth"])
        weight = jnp.minimum(jnp.exp(3 * off), 100)

        def actor_loss(a):
            mean = jnp.tanh(actor.apply(a["net"], seen, rngs={"dropout": key}))
            log = jnp.clip(a["log"], -5, 2)
            likely = -0.5 * jnp.square((done - mean) / jnp.exp(log)) - log - 0.5 * np.log(2 * np.pi)
            return -(weight * likely.sum(-1)).mean()

        def critic_loss(c):
            target = reward + 0.99 * mask * worth.apply(p["worth"], then)[:, 0]
            return jnp.square(critics.apply(c, both)[..., 0] - target).mean(1).sum()

        gradient = {"worth": dw, "actor": jax.grad(actor_loss)(p["actor"]), "critics": jax.grad(critic_loss)(p["critics"])}
        new, new_state = {}, {}
        for k, o in optimizers.items():
            changes, new_state[k] = o.update(gradient[k], state[k], p[k])
            new[k] = optax.apply_updates(p[k], changes)
        return new, new_state, optax.incremental_update(new["critics"], slow, 0.005), off.mean()

    def arguments():
        seen, done = floats(1024, 17), floats(1024, 6)
        p = {
            "critics": shapes(critics.init, KEY, floats(1, 23)),
            "worth": shapes(worth.init, KEY, floats(1, 17)),
            "actor": {"net": shapes(actor.init, {"params": KEY, "dropout": KEY}, floats(1, 17)), "log": floats(6)},
        }
        return p, {k: shapes(o.init, p[k]) for k, o in optimizers.items()}, p["critics"], A_KEY, seen, done, floats(1024), floats(1024), seen

    return update, arguments


@step
def wanted_returns():
    """What to do so that a wanted return comes, after returns, states and actions of twenty moments (decision transformer, equinox)."""
    f, moments = 128, 20

    class Layer(eqx.Module):
        attend: eqx.nn.MultiheadAttention
        norms: list
        mlp: eqx.nn.MLP
        drop: eqx.nn.Dropout

        def __init__(self, key):
            a, b = jax.random.split(key)
            self.attend = eqx.nn.MultiheadAttention(
                4, f, use_query_bias=True, use_key_bias=True, use_value_bias=True, use_output_bias=True, dropout_p=0.1, key=a
            )
            self.norms = [eqx.nn.LayerNorm(f), eqx.nn.LayerNorm(f)]
            self.mlp = eqx.nn.MLP(f, f, 4 * f, 1, jax.nn.gelu, key=b)
            self.drop = eqx.nn.Dropout(0.1)

        def __call__(self, x, mask, key):
            a, b, c = jax.random.split(key, 3)
            h = jax.vmap(self.norms[0])(x)
            x = x + self.drop(self.attend(h, h, h, mask, key=a), key=b)
            return x + self.drop(jax.vmap(self.mlp)(jax.vmap(self.norms[1])(x)), key=c)

    class Net(eqx.Module):
        when: eqx.nn.Embedding
        into: list
        norm: eqx.nn.LayerNorm
        layers: list
        out: eqx.nn.Linear

        def __init__(self, key):
            k = jax.random.split(key, 8)
            self.when = eqx.nn.Embedding(1000, f, key=k[0])
            self.into = [eqx.nn.Linear(n, f, key=i) for n, i in zip((1, 17, 6), k[1:4])]
            self.norm = eqx.nn.LayerNorm(f)
            self.layers = [Layer(i) for i in k[4:7]]
            self.out = eqx.nn.Linear(f, 6, key=k[7])

        def __call__(self, wanted, seen, done, time, valid, key):
            when = jax.vmap(self.when)(time)
            x = jnp.stack([jax.vmap(layer)(y) + when for layer, y in zip(self.into, (wanted, seen, done))], 1)
            x = jax.vmap(self.norm)(x.reshape(3 * moments, f))
            mask = jnp.tril(jnp.ones((3 * moments,) * 2, bool)) & jnp.repeat(valid, 3)
            for layer, k in zip(self.layers, jax.random.split(key, 3)):
                x = layer(x, mask, k)
            return jnp.tanh(jax.vmap(self.out)(x.reshape(moments, 3, f)[:, 1]))

    net = eqx.filter_eval_shape(Net, KEY)
    optimizer = optax.chain(optax.clip_by_global_norm(0.25), optax.adamw(optax.linear_schedule(0, 1e-4, 10000), weight_decay=1e-4))
    is_trained = lambda leaf: isinstance(leaf, jax.ShapeDtypeStruct)
    p, rest = eqx.partition(net, is_trained)

    def update(p, state, key, wanted, seen, done, time, valid):
        def loss(p):
            keys = jax.random.split(key, len(seen))
            out = jax.vmap(eqx.combine(p, rest))(wanted, seen, done, time, valid, keys)
            return jnp.where(valid[..., None], jnp.square(out - done), 0).sum() / valid.sum()

        value, gradient = eqx.filter_value_and_grad(loss)(p)
        changes, state = optimizer.update(gradient, state, p)
        return eqx.apply_updates(p, changes), state, value

    b = 64
    batch = A_KEY, floats(b, moments, 1), floats(b, moments, 17), floats(b, moments, 6), below(1000, b, moments), np.ones((b, moments), bool)
    return update, lambda: (p, shapes(optimizer.init, p), *batch)


@step
def centres():
    """Things as the peaks of a map, with their sizes and what the map's grid leaves over (CenterNet)."""

    class Block(nn.Module):
        f: int
        stride: int = 1

        @nn.compact
        def __call__(self, x):
            y = nn.relu(normalised()(nn.Conv(self.f, (3, 3), (self.stride,) * 2, use_bias=False)(x)))
            y = normalised()(nn.Conv(self.f, (3, 3), use_bias=False)(y))
            if x.shape != y.shape:
                x = normalised()(nn.Conv(self.f, (1, 1), (self.stride,) * 2, use_bias=False)(x))
            return nn.relu(x + y)

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            x = nn.relu(normalised()(nn.Conv(32, (7, 7), (2, 2), use_bias=False)(x)))
            x = nn.max_pool(x, (3, 3), (2, 2), "SAME")
            for f, stride in ((32, 1), (64, 2), (128, 2), (256, 2)):
                x = Block(f)(Block(f, stride)(x))
            for f in (128, 64, 64):
                x = nn.relu(normalised()(nn.ConvTranspose(f, (4, 4), (2, 2), use_bias=False)(x)))
            head = lambda n, bias: nn.Conv(n, (1, 1), bias_init=nn.initializers.constant(bias))(nn.relu(nn.Conv(64, (3, 3))(x)))
            return head(20, -2.19), head(2, 0.0), head(2, 0.0)

    def loss(out, x, peaks, at, size, rest, valid):
        heat, sizes, offsets = out
        p = jnp.clip(jax.nn.sigmoid(heat), 1e-4, 1 - 1e-4)
        hit = peaks == 1
        focal = jnp.where(hit, (1 - p) ** 2 * jnp.log(p), (1 - peaks) ** 4 * p**2 * jnp.log(1 - p))
        number = jnp.maximum(hit.sum(), 1)
        read = lambda t: jnp.take_along_axis(t.reshape(len(t), -1, 2), at[..., None], 1)
        apart = lambda a, b: (jnp.abs(a - b) * valid[..., None]).sum() / (valid.sum() + 1e-4)
        return -focal.sum() / number + 0.1 * apart(read(sizes), size) + apart(read(offsets), rest)

    batch = floats(16, 160, 160, 3), floats(16, 40, 40, 20), below(1600, 16, 24), floats(16, 24, 2), floats(16, 24, 2), floats(16, 24)
    return flax_step(Net(), loss, optax.adam(optax.piecewise_constant_schedule(1.25e-4, {9000: 0.1})), *batch)


@step
def gated_skips():
    """Organs in slices of scans: a U-Net whose skips pass gates that the coarser level holds, Dice and entropy (attention U-Net)."""

    conv = lambda x, f, size=3: hk.BatchNorm(True, True, 0.9)(hk.Conv2D(f, size, with_bias=False)(x), True)
    double = lambda x, f: jax.nn.relu(conv(jax.nn.relu(conv(x, f)), f))

    def net(x):
        skips = []
        for f in (24, 48, 96):
            x = double(x, f)
            skips.append(x)
            x = hk.max_pool(x, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        x = double(x, 192)
        for f in (96, 48, 24):
            skip = skips.pop()
            b, h, w, _ = skip.shape
            x = jax.nn.relu(conv(jax.image.resize(x, (b, h, w, x.shape[-1]), "nearest"), f))
            gate = jax.nn.relu(conv(x, f // 2, 1) + conv(skip, f // 2, 1))
            skip = skip * jax.nn.sigmoid(conv(gate, 1, 1))
            x = double(jnp.concatenate([skip, x], -1), f)
        return hk.Conv2D(5, 1)(x)

    def loss(out, x, y):
        wanted, p = jax.nn.one_hot(y, 5), jax.nn.softmax(out)
        both, all_of_it = (p * wanted).sum((1, 2)), (p + wanted).sum((1, 2))
        return cross_entropy(out, y) + 1 - ((2 * both + 1) / (all_of_it + 1))[:, 1:].mean()

    return haiku_step(net, loss, optax.adam(1e-4), floats(8, 128, 128, 1), below(5, 8, 128, 128))


@step
def straight_paths():
    """Images along straight lines out of noise, by a transformer with skips over its middle; slow weights (flow matching, U-ViT)."""
    f = 256

    class Layer(nn.Module):
        @nn.compact
        def __call__(self, x, skip=None):
            if skip is not None:
                x = nn.Dense(f)(jnp.concatenate([x, skip], -1))
            x = x + nn.MultiHeadDotProductAttention(4, use_bias=False)(nn.LayerNorm()(x))
            return x + nn.Dense(f)(nn.gelu(nn.Dense(4 * f)(nn.LayerNorm()(x))))

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x, t, kind):
            b, side = len(x), x.shape[1]
            h = nn.Conv(f, (4, 4), (4, 4))(x).reshape(b, -1, f)
            angle = 1000 * t[:, None] * jnp.exp(-jnp.arange(f // 2) * np.log(10000) / (f // 2))
            time = nn.Dense(f)(nn.silu(nn.Dense(f)(jnp.concatenate([jnp.cos(angle), jnp.sin(angle)], -1))))
            h = jnp.concatenate([time[:, None], nn.Embed(11, f)(kind)[:, None], h], 1)
            h = h + self.param("places", nn.initializers.normal(0.02), (1, h.shape[1], f))
            skips = []
            for _ in range(2):
                h = Layer()(h)
                skips.append(h)
            h = Layer()(h)
            for _ in range(2):
                h = Layer()(h, skips.pop())
            h = nn.Dense(48)(nn.LayerNorm()(h))[:, 2:].reshape(b, side // 4, side // 4, 4, 4, 3)
            return nn.Conv(3, (3, 3))(h.transpose(0, 1, 3, 2, 4, 5).reshape(x.shape))

    model, optimizer = Net(), optax.adamw(2e-4, b2=0.99, weight_decay=0.03)

    def update(p, state, slow, key, images, kinds):
        a, b, c = jax.random.split(key, 3)
        noise = jax.random.normal(a, images.shape)
        t = jax.nn.sigmoid(jax.random.normal(b, (len(images),)))
        kinds = jnp.where(jax.random.bernoulli(c, 0.1, kinds.shape), 10, kinds)
        mixed = (1 - t)[:, None, None, None] * noise + t[:, None, None, None] * images
        value, gradient = jax.value_and_grad(lambda p: square(model.apply(p, mixed, t, kinds), images - noise))(p)
        changes, state = optimizer.update(gradient, state, p)
        p = optax.apply_updates(p, changes)
        return p, state, optax.incremental_update(p, slow, 1e-4), value

    def arguments():
        images, kinds = floats(64, 32, 32, 3), below(10, 64)
        p = shapes(model.init, KEY, images, floats(64), kinds)
        return p, shapes(optimizer.init, p), p, A_KEY, images, kinds

    return update, arguments


@step
def signed_distances():
    """How far points are from surfaces of shapes, each a vector of its own that learns with the net (DeepSDF)."""
    width, code = 256, 128

    def net(p, x, key):
        h = x
        for i, layer in enumerate(p):
            if i == 4:
                h = jnp.concatenate([h, x], -1)
            v = layer["v"]
            h = h @ (layer["g"] * v * lax.rsqrt(jnp.square(v).sum(0) + 1e-12)) + layer["b"]
            if i < len(p) - 1:
                key, own = jax.random.split(key)
                h = jax.nn.relu(h)
                h = jnp.where(jax.random.bernoulli(own, 0.8, h.shape), h / 0.8, 0)
        return jnp.tanh(h[..., 0])

    optimizer = optax.multi_transform({"net": optax.adam(5e-4), "codes": optax.adam(1e-3)}, {"net": "net", "codes": "codes"})

    def update(p, state, key, shape, points, distance):
        def loss(p):
            codes = p["codes"][shape]
            codes = codes / jnp.maximum(jnp.linalg.norm(codes, axis=-1, keepdims=True), 1)
            x = jnp.concatenate([jnp.broadcast_to(codes[:, None], (*points.shape[:2], code)), points], -1)
            clamp = lambda d: jnp.clip(d, -0.1, 0.1)
            return jnp.abs(clamp(net(p["net"], x, key)) - clamp(distance)).mean() + 1e-4 * jnp.square(codes).sum(-1).mean()

        value, gradient = jax.value_and_grad(loss)(p)
        changes, state = optimizer.update(gradient, state, p)
        return optax.apply_updates(p, changes), state, value

    def arguments():
        into = code + 3
        extents = [(into, width), (width, width), (width, width), (width, width - into), (width, width), (width, width), (width, width), (width, 1)]
        p = {"net": [{"v": floats(*e), "g": floats(e[1]), "b": floats(e[1])} for e in extents], "codes": floats(1000, code)}
        return p, shapes(optimizer.init, p), A_KEY, below(1000, 16), floats(16, 1024, 3), floats(16, 1024)

    return update, arguments


@step
def fine_tuned():
    """Five kinds of flowers by a net that knew other images: its first layers and statistics stay (MobileNetV2 of keras.applications)."""
    import keras

    layers = keras.layers
    base = keras.applications.MobileNetV2(input_shape=(128, 128, 3), include_top=False, weights=None)
    for layer in base.layers[:100]:
        layer.trainable = False
    inputs = keras.Input((128, 128, 3))
    x = layers.RandomFlip("horizontal")(inputs)
    x = base(layers.Rescaling(1 / 127.5, -1)(x), training=False)
    x = layers.Dropout(0.2)(layers.GlobalAveragePooling2D()(x))
    model = keras.Model(inputs, layers.Dense(5)(x))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    return keras_step(model, loss, keras.optimizers.RMSprop(1e-5), floats(32, 128, 128, 3), below(5, 32))


@step
def photos_of_drawings():
    """A photo from a drawing by a U-Net, and a critic of patches that sees both; a step of each (pix2pix)."""

    class Painter(nn.Module):
        @nn.compact
        def __call__(self, x):
            skips = []
            for i, f in enumerate((32, 64, 128, 256, 256)):
                x = nn.Conv(f, (4, 4), (2, 2), use_bias=i == 0)(x if i == 0 else nn.leaky_relu(x, 0.2))
                x = x if i == 0 else normalised()(x)
                skips.append(x)
            skips.pop()
            for i, f in enumerate((256, 128, 64, 32)):
                x = normalised()(nn.ConvTranspose(f, (4, 4), (2, 2), use_bias=False)(nn.relu(x)))
                x = nn.Dropout(0.5, deterministic=False)(x) if i < 2 else x
                x = jnp.concatenate([x, skips.pop()], -1)
            return nn.tanh(nn.ConvTranspose(3, (4, 4), (2, 2))(nn.relu(x)))

    class Critic(nn.Module):
        @nn.compact
        def __call__(self, drawing, photo):
            x = nn.leaky_relu(nn.Conv(32, (4, 4), (2, 2))(jnp.concatenate([drawing, photo], -1)), 0.2)
            for f, stride in ((64, 2), (128, 2), (256, 1)):
                x = nn.leaky_relu(normalised()(nn.Conv(f, (4, 4), (stride, stride), use_bias=False)(x)), 0.2)
            return nn.Conv(1, (4, 4))(x)

    painter, critic, optimizer = Painter(), Critic(), optax.adam(2e-4, b1=0.5)
    says = lambda out, real: optax.sigmoid_binary_cross_entropy(out, jnp.full(out.shape, real)).mean()

    def update(p, state, others, key, drawing, photo):
        paint = lambda q: painter.apply({"params": q, **others["painter"]}, drawing, rngs={"dropout": key}, mutable=["batch_stats"])
        judge = lambda q, s, x: critic.apply({"params": q, **s}, drawing, x, mutable=["batch_stats"])
        painted, of_painter = paint(p["painter"])

        def critic_loss(q):
            real, s = judge(q, others["critic"], photo)
            false, s = judge(q, s, lax.stop_gradient(painted))
            return (says(real, 1.0) + says(false, 0.0)) / 2, s

        (bad, of_critic), gradient = jax.value_and_grad(critic_loss, has_aux=True)(p["critic"])
        changes, critic_state = optimizer.update(gradient, state["critic"])
        new_critic = optax.apply_updates(p["critic"], changes)

        def painter_loss(q):
            painted, _ = paint(q)
            out, _ = judge(new_critic, of_critic, painted)
            return says(out, 1.0) + 100 * jnp.abs(painted - photo).mean()

        value, gradient = jax.value_and_grad(painter_loss)(p["painter"])
        changes, painter_state = optimizer.update(gradient, state["painter"])
        p = {"painter": optax.apply_updates(p["painter"], changes), "critic": new_critic}
        return p, {"painter": painter_state, "critic": critic_state}, {"painter": of_painter, "critic": of_critic}, (value, bad)

    def arguments():
        x = floats(8, 128, 128, 3)
        all_of_it = {"painter": dict(shapes(painter.init, {"params": KEY, "dropout": KEY}, x)), "critic": dict(shapes(critic.init, KEY, x, x))}
        p = {k: v.pop("params") for k, v in all_of_it.items()}
        return p, {k: shapes(optimizer.init, v) for k, v in p.items()}, all_of_it, A_KEY, x, x

    return update, arguments


if __name__ == "__main__":
    print_named(STEPS, STEPS.stablehlo, __doc__)
