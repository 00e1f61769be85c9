"""The second half of the steps of sixteenth_tries.py, which prints these, too."""

import os

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["KERAS_BACKEND"] = "jax"

import equinox as eqx
import flax.linen as nn
import haiku as hk
import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np
import optax
from model_steps import A_KEY, KEY, flax_step, haiku_step, keras_step, shapes
from named_steps import NamedSteps
from ordinary_steps import floats, next_words, step_of_loss
from twelfth_tries import below

lax = jax.lax
HALF = jnp.bfloat16
STEPS = NamedSteps()
step = STEPS.step


@step
def inducing_points():
    """What seven joints of a robot's arm push, by processes known at 200 places; their means and covariances move by natural gradients (SVGP)."""
    outs, m, d, b, rows = 7, 200, 21, 500, 44484

    def kernel(p, x, z):
        scale = jnp.exp(p["scales"])
        far = jnp.square(x[:, None] / scale - z / scale).sum(-1)
        far = jnp.sqrt(5.0 * jnp.maximum(far, 1e-12))
        return jnp.exp(p["height"]) * (1 + far + far**2 / 3) * jnp.exp(-far)

    def one(p, mean, root, x, y):
        kzz = kernel(p, p["places"], p["places"]) + 1e-4 * jnp.eye(m)
        chol = jnp.linalg.cholesky(kzz)
        a = jax.scipy.linalg.solve_triangular(chol, kernel(p, p["places"], x), lower=True)
        found = a.T @ mean
        var = jnp.exp(p["height"]) - jnp.square(a).sum(0) + jnp.square(root.T @ a).sum(0)
        noise = jnp.exp(p["noise"])
        fits = -0.5 * (jnp.log(2 * jnp.pi * noise) + (jnp.square(y - found) + var) / noise).sum()
        apart = 0.5 * (jnp.square(root).sum() + mean @ mean - m) - jnp.log(jnp.abs(jnp.diagonal(root))).sum()
        return -fits / b * rows + apart

    def loss(p, natural, x, y):
        def of_expected(first, second):
            root = jnp.linalg.cholesky(second - first[:, None] * first + 1e-6 * jnp.eye(m))
            return first, root

        mean, root = jax.vmap(of_expected)(*natural)
        return jax.vmap(one, (0, 0, 0, None, 1))(p, mean, root, x, y).sum()

    optimizer = optax.adam(1e-2)

    def update(p, state, natural, x, y):
        """natural: the precision times the mean, and minus half of the precision."""

        def expected(linear, half):
            cov = jax.scipy.linalg.cho_solve((jnp.linalg.cholesky(-2 * half), True), jnp.eye(m))
            mean = cov @ linear
            return mean, cov + mean[:, None] * mean

        moments = jax.vmap(expected)(*natural)
        value, (gradient, (linear, half)) = jax.value_and_grad(loss, (0, 1))(p, moments, x, y)
        natural = natural[0] - 0.1 * linear, natural[1] - 0.1 * (half + half.swapaxes(1, 2)) / 2
        changes, state = optimizer.update(gradient, state)
        return optax.apply_updates(p, changes), state, natural, value / rows

    def arguments():
        p = {"places": floats(outs, m, d), "scales": floats(outs, d), "height": floats(outs), "noise": floats(outs)}
        return p, shapes(optimizer.init, p), (floats(outs, m), floats(outs, m, m)), floats(b, d), floats(b, outs)

    return update, arguments


@step
def stream_functions():
    """A flow around a cylinder: its stream function and pressure by a net, third derivatives at 3000 points, its viscosity learnt (equinox)."""
    points, known = 3000, 500

    class Net(eqx.Module):
        waves: jax.Array
        layers: list
        viscosity: jax.Array

        def __init__(self, key):
            k = jax.random.split(key, 7)
            self.waves = jax.random.normal(k[0], (3, 50))
            self.layers = [eqx.nn.Linear(i, o, key=q) for i, o, q in zip((100, *(100,) * 5), (*(100,) * 5, 2), k[1:])]
            self.viscosity = jnp.array(0.0)

        def __call__(self, at):
            turn = at @ lax.stop_gradient(self.waves)
            h = jnp.concatenate([jnp.cos(turn), jnp.sin(turn)])
            for layer in self.layers[:-1]:
                h = jnp.tanh(layer(h))
            return self.layers[-1](h)

    def flow(net, at):
        out, slope = jax.vjp(net, at)
        (of_stream,) = slope(jnp.array([1.0, 0.0]))
        return jnp.array([of_stream[1], -of_stream[0], out[1]])

    def wrong(net, at):
        first = jax.jacfwd(lambda at: flow(net, at))
        x, y = jnp.eye(3)[:2]
        (j, along_x), (_, along_y) = (jax.jvp(first, (at,), (way,)) for way in (x, y))
        u, v, _ = flow(net, at)
        curved = along_x[:2, 0] + along_y[:2, 1]
        return j[:2, 2] + u * j[:2, 0] + v * j[:2, 1] + j[2, :2] - jnp.exp(net.viscosity - 4.6) * curved

    def loss(net, at, places, speeds, weights):
        found = jax.vmap(lambda at: flow(net, at)[:2])(places)
        return weights[0] * jnp.square(found - speeds).mean() + weights[1] * jnp.square(jax.vmap(lambda at: wrong(net, at))(at)).mean()

    net = eqx.filter_eval_shape(Net, KEY)
    optimizer = optax.adam(optax.exponential_decay(1e-3, 2000, 0.9))
    p, rest = eqx.partition(net, lambda leaf: isinstance(leaf, jax.ShapeDtypeStruct))

    def update(p, state, key, low, high, places, speeds, weights):
        key, own = jax.random.split(key)
        at = low + (high - low) * jax.random.uniform(own, (points, 3))
        value, gradient = jax.value_and_grad(lambda p: loss(eqx.combine(p, rest), at, places, speeds, weights))(p)
        changes, state = optimizer.update(gradient, state)
        return optax.apply_updates(p, changes), state, key, value

    return update, lambda: (p, shapes(optimizer.init, p), A_KEY, floats(3), floats(3), floats(known, 3), floats(known, 2), floats(2))


@step
def mechanics():
    """How a chain of four rods swings on, by a net that says its Lagrangian: Hessians, their solutions, twelve steps of Runge and Kutta."""
    joints, b, moments = 4, 100, 12

    def lagrangian(p, q, v):
        h = jnp.concatenate([jnp.cos(q), jnp.sin(q), v])
        for w, bias in p[:-1]:
            h = jax.nn.softplus(h @ w + bias)
        return (h @ p[-1][0] + p[-1][1])[0] + 0.5 * v @ v

    def onward(p, state):
        q, v = jnp.split(state, 2)
        mass = jax.hessian(lagrangian, 2)(p, q, v)
        force = jax.grad(lagrangian, 1)(p, q, v) - jax.jacfwd(jax.grad(lagrangian, 2), 1)(p, q, v) @ v
        return jnp.concatenate([v, jnp.linalg.solve(mass + 1e-3 * jnp.eye(joints), force)])

    def loss(p, start, wanted):
        def moment(state, _):
            k1 = onward(p, state)
            k2 = onward(p, state + 0.01 * k1)
            k3 = onward(p, state + 0.01 * k2)
            k4 = onward(p, state + 0.02 * k3)
            state = state + 0.02 / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
            return state, state

        way = jax.vmap(lambda s: lax.scan(jax.checkpoint(moment), s, None, moments)[1])(start)
        q, v = jnp.split(way - wanted, 2, -1)
        return (1 - jnp.cos(q)).mean() + 0.1 * jnp.abs(v).mean()

    widths = 3 * joints, 128, 128, 1
    parameters = lambda: [(floats(i, o), floats(o)) for i, o in zip(widths, widths[1:])]
    optimizer = optax.chain(optax.zero_nans(), optax.clip_by_global_norm(1.0), optax.adamw(1e-3))
    return step_of_loss(loss, optimizer, parameters, floats(b, 2 * joints), floats(b, moments, 2 * joints))


@step
def foreseen_features():
    """What a slow net sees in four blocks of an image is foreseen from the rest of it (I-JEPA, bf16)."""
    f, narrow, side, b, kept, blocks, size = 384, 192, 14, 20, 100, 4, 30

    def waves(f):
        angle = np.arange(side)[:, None] / 10000 ** (np.arange(f // 4) / (f // 4))
        one = np.concatenate([np.sin(angle), np.cos(angle)], -1)
        both = np.concatenate([np.repeat(one, side, 0), np.tile(one, (side, 1))], -1)
        return jnp.asarray(both, HALF)

    class Layer(nn.Module):
        heads: int

        @nn.compact
        def __call__(self, x):
            f = x.shape[-1]
            x = x + nn.MultiHeadDotProductAttention(self.heads, dtype=HALF)(nn.LayerNorm(dtype=HALF)(x))
            return x + nn.Dense(f, dtype=HALF)(nn.gelu(nn.Dense(4 * f, dtype=HALF)(nn.LayerNorm(dtype=HALF)(x))))

    class Encoder(nn.Module):
        @nn.compact
        def __call__(self, images, at=None):
            x = nn.Conv(f, (8, 8), (8, 8), dtype=HALF)(images).reshape(len(images), -1, f) + waves(f)
            x = x if at is None else jnp.take_along_axis(x, at[..., None], 1)
            for _ in range(4):
                x = Layer(6)(x)
            return nn.LayerNorm(dtype=HALF)(x)

    class Foresee(nn.Module):
        @nn.compact
        def __call__(self, x, at, wanted):
            x = nn.Dense(narrow, dtype=HALF)(x) + waves(narrow)[at]
            asked = self.param("asked", nn.initializers.normal(0.02), (narrow,)).astype(HALF) + waves(narrow)[wanted]
            x = jnp.concatenate([jnp.repeat(x, blocks, 0), asked.reshape(b * blocks, size, narrow)], 1)
            for _ in range(3):
                x = Layer(4)(x)
            return nn.Dense(f, dtype=HALF)(nn.LayerNorm(dtype=HALF)(x[:, kept:])).reshape(b, blocks, size, f)

    encoder, foresee = Encoder(), Foresee()
    rate = optax.warmup_cosine_decay_schedule(1e-4, 1e-3, 15000, 300000)
    optimizer = optax.adamw(rate, weight_decay=0.04, mask=lambda p: jax.tree.map(lambda a: a.ndim > 1, p))

    def update(p, state, slow, count, images, at, wanted):
        seen = encoder.apply(slow, images).astype(jnp.float32)
        seen = (seen - seen.mean(-1, keepdims=True)) * lax.rsqrt(seen.var(-1, keepdims=True) + 1e-5)
        seen = jnp.take_along_axis(seen[:, None], wanted[..., None], 2)

        def loss(p):
            found = foresee.apply(p["foresee"], encoder.apply(p["encoder"], images, at), at, wanted)
            return optax.huber_loss(found.astype(jnp.float32), seen).mean()

        value, gradient = jax.value_and_grad(loss)(p)
        changes, state = optimizer.update(gradient, state, p)
        p = optax.apply_updates(p, changes)
        pace = 0.996 + 0.004 * jnp.minimum(count / 300000, 1.0)
        return p, state, jax.tree.map(lambda a, b: pace * a + (1 - pace) * b, slow, p["encoder"]), count + 1, value

    def arguments():
        images, at, wanted = floats(b, 8 * side, 8 * side, 3), below(side**2, b, kept), below(side**2, b, blocks, size)
        q = shapes(encoder.init, KEY, images)
        p = {"encoder": q, "foresee": shapes(foresee.init, KEY, jax.ShapeDtypeStruct((b, kept, f), HALF), at, wanted)}
        return p, shapes(optimizer.init, p), q, floats(), images, at, wanted

    return update, arguments


@step
def trust_region():
    """A policy that moves as far as its divergence allows: conjugate gradients through Fisher's matrix, a search along the way, a value beside it (TRPO)."""
    b, seen, actions = 5000, 111, 8
    flat = jax.flatten_util.ravel_pytree

    def net(p, x):
        for w, bias in p[:-1]:
            x = jnp.tanh(x @ w + bias)
        return x @ p[-1][0] + p[-1][1]

    def likely(p, x, a):
        spread = p["spread"]
        return (-0.5 * jnp.square((a - net(p["mean"], x)) / jnp.exp(spread)) - spread - 0.919).sum(-1)

    def divergence(old, new, x):
        one, two = net(old["mean"], x), net(new["mean"], x)
        s, t = old["spread"], new["spread"]
        return (t - s + (jnp.exp(2 * s) + jnp.square(one - two)) / (2 * jnp.exp(2 * t)) - 0.5).sum(-1).mean()

    adam = optax.adam(1e-3)

    def update(p, state, x, a, gain, wanted):
        policy = p["policy"]
        gain = (gain - gain.mean()) / (gain.std() + 1e-8)
        start, whole = flat(policy)
        before = likely(policy, x, a)
        gained = lambda v: (jnp.exp(likely(whole(v), x, a) - before) * gain).mean()
        away = lambda v: divergence(policy, whole(v), x)
        fisher = lambda v: jax.jvp(jax.grad(away), (start,), (v,))[1] + 0.1 * v
        now, slope = jax.value_and_grad(gained)(start)
        way, _ = jax.scipy.sparse.linalg.cg(fisher, slope, maxiter=10, tol=1e-10)
        way = way * jnp.sqrt(2 * 0.01 / (way @ fisher(way) + 1e-8))

        def worse(carry):
            share, tries, good = carry
            return ~good & (tries < 10)

        def shorter(carry):
            share, tries, _ = carry
            there = start + share * way
            return share * 0.8, tries + 1, (gained(there) > now) & (away(there) < 0.015)

        share, _, good = lax.while_loop(worse, shorter, (1.0, 0, False))
        policy = whole(jnp.where(good, start + share / 0.8 * way, start))

        def fit(carry, i):
            q, state = carry
            part = lambda y: lax.dynamic_slice_in_dim(y, i * 500, 500)
            value, gradient = jax.value_and_grad(lambda q: jnp.square(net(q, part(x))[:, 0] - part(wanted)).mean())(q)
            changes, state = adam.update(gradient, state)
            return (optax.apply_updates(q, changes), state), value

        (value, state), wrong = lax.scan(fit, (p["value"], state), jnp.tile(jnp.arange(10), 3))
        return {"policy": policy, "value": value}, state, wrong.mean(), good

    def arguments():
        layers = lambda *widths: [(floats(i, o), floats(o)) for i, o in zip(widths, widths[1:])]
        p = {"policy": {"mean": layers(seen, 256, 128, actions), "spread": floats(actions)}, "value": layers(seen, 256, 128, 1)}
        return p, shapes(adam.init, p["value"]), floats(b, seen), floats(b, actions), floats(b), floats(b)

    return update, arguments


@step
def kronecker():
    """Faces through 30 numbers and back; each layer's curvature is two small matrices, inverted every time (K-FAC)."""
    widths = 625, 1000, 500, 250, 30, 250, 500, 1000, 625
    b, damping = 1000, 0.1

    def net(p, bumps, x):
        inputs = []
        for i, (w, bump) in enumerate(zip(p, bumps)):
            x = jnp.concatenate([x, jnp.ones((len(x), 1))], -1)
            inputs.append(x)
            x = x @ w + bump
            x = jnp.tanh(x) if i not in (3, len(p) - 1) else x
        return x, inputs

    def inverse(a, extra):
        root = jnp.linalg.cholesky(a + extra * jnp.eye(len(a)))
        return jax.scipy.linalg.cho_solve((root, True), jnp.eye(len(a)))

    def update(p, state, key, x):
        key, own = jax.random.split(key)
        bumps = [jnp.zeros((b, o)) for o in widths[1:]]

        def loss(p, bumps):
            out, inputs = net(p, bumps, x)
            return optax.sigmoid_binary_cross_entropy(out, x).sum(-1).mean(), (out, inputs)

        (value, (out, inputs)), gradient = jax.value_and_grad(loss, has_aux=True)(p, bumps)
        drawn = jax.random.bernoulli(own, jax.nn.sigmoid(out)).astype(jnp.float32)
        sampled = lambda bumps: optax.sigmoid_binary_cross_entropy(net(p, bumps, x)[0], drawn).sum()
        slopes = jax.grad(sampled)(bumps)
        out_p, out_state = [], []
        for w, g, a, s, (left, right, before) in zip(p, gradient, inputs, slopes, state):
            left, right = 0.95 * left + 0.05 * a.T @ a / b, 0.95 * right + 0.05 * s.T @ s / b
            balance = jnp.sqrt((jnp.trace(left) / len(left)) / (jnp.trace(right) / len(right) + 1e-12))
            root = np.sqrt(damping)
            way = inverse(left, balance * root) @ (g + 1e-5 * w) @ inverse(right, root / balance)
            before = 0.9 * before - 0.02 * way / jnp.maximum(1.0, jnp.linalg.norm(way))
            out_p.append(w + before)
            out_state.append((left, right, before))
        return out_p, out_state, key, value

    def arguments():
        pairs = list(zip(widths, widths[1:]))
        p = [floats(i + 1, o) for i, o in pairs]
        return p, [(floats(i + 1, i + 1), floats(o, o), floats(i + 1, o)) for i, o in pairs], A_KEY, floats(b, 625)

    return update, arguments


@step
def ternary_words():
    """A decoder whose weights are minus one, nought or one times a size, its activations eight bits, slopes as if they were not (BitNet, bf16)."""
    f, heads, words, b, t = 512, 8, 12000, 8, 256
    kept = lambda x, rounded: x + lax.stop_gradient(rounded - x)

    class Bits(nn.Module):
        f: int

        @nn.compact
        def __call__(self, x):
            x = nn.RMSNorm(use_scale=False, dtype=HALF)(x).astype(jnp.float32)
            w = self.param("w", nn.initializers.lecun_normal(), (x.shape[-1], self.f))
            scale = 127 / jnp.maximum(jnp.abs(x).max(-1, keepdims=True), 1e-5)
            x = kept(x, jnp.clip(jnp.round(x * scale), -128, 127) / scale)
            size = jnp.maximum(jnp.abs(w).mean(), 1e-5)
            w = kept(w, jnp.clip(jnp.round(w / size), -1, 1) * size)
            return x.astype(HALF) @ w.astype(HALF)

    class Layer(nn.Module):
        @nn.compact
        def __call__(self, x):
            q, k, v = jnp.split(Bits(3 * f)(x).reshape(b, t, heads, 3 * f // heads), 3, -1)
            angle = jnp.arange(t)[:, None] / 10000 ** (jnp.arange(0, f // heads, 2) / (f // heads))
            turn = jnp.exp(1j * angle)[:, None]

            def turned(x):
                y = lax.complex(*jnp.moveaxis(x.astype(jnp.float32).reshape(*x.shape[:-1], -1, 2), -1, 0)) * turn
                return jnp.stack([y.real, y.imag], -1).reshape(x.shape).astype(HALF)

            scores = jnp.einsum("bqhd,bkhd->bhqk", turned(q), turned(k)).astype(jnp.float32) * (f // heads) ** -0.5
            scores = nn.softmax(jnp.where(nn.make_causal_mask(x[..., 0], dtype=bool), scores, -1e9))
            x = x + Bits(f)(jnp.einsum("bhqk,bkhd->bqhd", scores.astype(HALF), v).reshape(b, t, f))
            gate, up = jnp.split(Bits(6 * f)(x), 2, -1)
            return x + Bits(f)(jnp.square(nn.relu(gate)) * up)

    class Net(nn.Module):
        @nn.compact
        def __call__(self, text):
            table = nn.Embed(words, f, dtype=HALF)
            x = table(text)
            for _ in range(4):
                x = Layer()(x)
            return table.attend(nn.RMSNorm(dtype=HALF)(x)).astype(jnp.float32)

    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(optax.linear_schedule(1.5e-3, 0.0, 50000), b2=0.95, weight_decay=0.1))
    return flax_step(Net(), next_words, optimizer, below(words, b, t))


@step
def slow_and_fast():
    """What people do in films: a wide net sees eight frames, a narrow one thirty-two, and tells the wide one (SlowFast, haiku)."""
    norm = lambda x: hk.BatchNorm(True, True, 0.9)(x, True)

    def conv(x, f, time, size, stride=1):
        return norm(hk.Conv3D(f, (time, size, size), (1, stride, stride), with_bias=False)(x))

    def block(x, f, time, stride):
        y = jax.nn.relu(conv(x, f, time, 1))
        y = conv(jax.nn.relu(conv(y, f, 1, 3, stride)), 4 * f, 1, 1)
        short = x if x.shape == y.shape else conv(x, 4 * f, 1, 1, stride)
        return jax.nn.relu(y + short)

    def joined(slow, fast):
        told = hk.Conv3D(2 * fast.shape[-1], (5, 1, 1), (4, 1, 1), with_bias=False)(fast)
        return jnp.concatenate([slow, jax.nn.relu(norm(told))], -1)

    def net(film):
        slow, fast = film[:, ::4], film
        slow = jax.nn.relu(conv(slow, 48, 1, 7, 2))
        fast = jax.nn.relu(conv(fast, 6, 5, 7, 2))
        pool = lambda x: hk.max_pool(x, (1, 1, 3, 3, 1), (1, 1, 2, 2, 1), "SAME")
        slow, fast = joined(pool(slow), pool(fast)), pool(fast)
        for f, time, stride in ((48, 1, 1), (96, 1, 2), (192, 3, 2)):
            for i in range(2):
                slow = block(slow, f, time, stride if i == 0 else 1)
                fast = block(fast, f // 8, 3, stride if i == 0 else 1)
            slow = joined(slow, fast) if f < 192 else slow
        x = jnp.concatenate([slow.mean((1, 2, 3)), fast.mean((1, 2, 3))], -1)
        return hk.Linear(400)(hk.dropout(hk.next_rng_key(), 0.5, x))

    def loss(out, film, kinds):
        return optax.softmax_cross_entropy_with_integer_labels(out, kinds).mean()

    optimizer = optax.chain(optax.add_decayed_weights(1e-4), optax.sgd(optax.cosine_decay_schedule(0.1, 100000), 0.9, nesterov=True))
    return haiku_step(net, loss, optimizer, floats(4, 32, 112, 112, 3), below(400, 4))


@step
def folded_points():
    """Whole shapes from points of one side: 224 rough places, nine points folded around each, compared by nearest ones both ways (PCN)."""
    b, given, whole, rough = 12, 1024, 2048, 224

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            y = nn.Dense(256)(nn.relu(nn.Dense(128)(x)))
            y = jnp.concatenate([y, jnp.broadcast_to(y.max(1, keepdims=True), y.shape)], -1)
            told = nn.Dense(1024)(nn.relu(nn.Dense(512)(y))).max(1)
            coarse = nn.Dense(3 * rough)(nn.relu(nn.Dense(1024)(nn.relu(nn.Dense(1024)(told))))).reshape(b, rough, 3)
            at = np.stack(np.meshgrid(*[np.linspace(-0.05, 0.05, 3, dtype=np.float32)] * 2), -1).reshape(-1, 2)
            parts = jnp.repeat(coarse, 9, 1), jnp.tile(at, (b, rough, 1)), jnp.broadcast_to(told[:, None], (b, 9 * rough, 1024))
            y = jnp.concatenate(parts, -1)
            for _ in range(2):
                y = nn.relu(nn.Dense(512)(y))
            return coarse, parts[0] + nn.Dense(3)(y)

    def apart(one, two):
        far = jnp.square(one).sum(-1)[:, :, None] + jnp.square(two).sum(-1)[:, None] - 2 * jnp.einsum("bnd,bmd->bnm", one, two)
        far = jnp.maximum(far, 1e-9)
        return jnp.sqrt(far.min(2)).mean() + jnp.sqrt(far.min(1)).mean()

    def loss(out, x, wanted, share):
        coarse, fine = out
        return apart(coarse, wanted) + share * apart(fine, wanted)

    return flax_step(Net(), loss, optax.adam(optax.exponential_decay(1e-4, 50000, 0.7, staircase=True)), floats(b, given, 3), floats(b, whole, 3), floats())


@step
def beams():
    """Four summaries, each the best of five that are written side by side for 40 words; caches follow their beams (no training, bf16)."""
    b, k, t, heard, f, heads, layers, words = 4, 5, 40, 300, 512, 8, 4, 16000
    each = f // heads

    def norm(x, gain):
        y = x.astype(jnp.float32)
        y = (y - y.mean(-1, keepdims=True)) * lax.rsqrt(y.var(-1, keepdims=True) + 1e-6)
        return (y * gain).astype(HALF)

    def attended(q, keys, values, seen):
        scores = jnp.einsum("bkhd,bkthd->bkht", q, keys).astype(jnp.float32) * each**-0.5
        weights = jax.nn.softmax(jnp.where(seen, scores, -1e9)).astype(HALF)
        return jnp.einsum("bkht,bkthd->bkhd", weights, values).reshape(b, k, f)

    def say(p, keys, values, told, length, word, place):
        x = (p["words"][word] * f**0.5 + p["places"][place]).astype(HALF)
        for i, l in enumerate(p["layers"]):
            q, key, value = jnp.split((norm(x, l["norm"]) @ l["qkv"]).reshape(b, k, 3 * heads, each), 3, 2)
            keys, values = keys.at[i, :, :, place].set(key), values.at[i, :, :, place].set(value)
            x = x + attended(q, keys[i], values[i], jnp.arange(t) <= place) @ l["out"]
            q = (norm(x, l["other_norm"]) @ l["q"]).reshape(b, k, heads, each)
            other = (jnp.broadcast_to(a[:, None], (b, k, heard, heads, each)) for a in told[i])
            x = x + attended(q, *other, (jnp.arange(heard) < length[:, None])[:, None, None]) @ l["other_out"]
            x = x + jax.nn.relu(norm(x, l["last_norm"]) @ l["up"]) @ l["down"]
        logits = norm(x, p["norm"]).astype(jnp.float32) @ p["words"].T
        return jax.nn.log_softmax(logits), keys, values

    def update(keys, values, p, memory, length):
        told = [jnp.split((memory @ l["kv"]).reshape(b, heard, 2 * heads, each), 2, 2) for l in p["layers"]]

        def going(carry):
            place, alive, _, done, *_ = carry
            best = alive[:, 0] / ((5 + t) / 6) ** 0.6
            return (place < t - 1) & (best > done.min(1)).any()

        def word(carry):
            place, alive, text, done, ended, keys, values = carry
            chances, keys, values = say(p, keys, values, told, length, lax.dynamic_index_in_dim(text, place, 2, False), place)
            both = (alive[..., None] + chances).reshape(b, k * words)
            top, at = lax.top_k(both, 2 * k)
            which, new = at // words, at % words
            longer = jnp.take_along_axis(text, which[..., None], 1).at[:, :, place + 1].set(new)
            over = new == 1
            alive, rows = lax.top_k(jnp.where(over, -1e7, top), k)
            text = jnp.take_along_axis(longer, rows[..., None], 1)
            which = jnp.take_along_axis(which, rows, 1)
            keys, values = (jnp.take_along_axis(a, which[None, :, :, None, None, None], 2) for a in (keys, values))
            scores = jnp.concatenate([done, jnp.where(over, top, -1e7) / ((6 + place) / 6.0) ** 0.6], 1)
            done, rows = lax.top_k(scores, k)
            ended = jnp.take_along_axis(jnp.concatenate([ended, longer], 1), rows[..., None], 1)
            return place + 1, alive, text, done, ended, keys, values

        alive = jnp.tile(jnp.array([0.0] + [-1e7] * (k - 1)), (b, 1))
        text = jnp.zeros((b, k, t), jnp.int32)
        start = 0, alive, text, jnp.full((b, k), -1e7), text, keys, values
        _, alive, text, done, ended, keys, values = lax.while_loop(going, word, start)
        some = (done > -1e6).any(1)
        return keys, values, jnp.where(some[:, None, None], ended, text), jnp.where(some[:, None], done, alive)

    def arguments():
        half = lambda *extents: jax.ShapeDtypeStruct(extents, HALF)
        extents = {"qkv": (f, 3 * f), "out": (f, f), "q": (f, f), "kv": (f, 2 * f), "other_out": (f, f), "up": (f, 4 * f), "down": (4 * f, f)}
        one = lambda: {n: half(*e) for n, e in extents.items()} | {n: floats(f) for n in ("norm", "other_norm", "last_norm")}
        p = {"words": floats(words, f), "places": floats(t, f), "norm": floats(f), "layers": [one() for _ in range(layers)]}
        cache = half(layers, b, k, t, heads, each)
        return cache, cache, p, half(b, heard, f), below(heard, b)

    return update, arguments


@step
def chosen_columns():
    """Kinds of trees from 54 columns: five looks, each at columns that a sparse softmax chose and earlier ones left; norms of 128 rows (TabNet, haiku)."""
    rows, columns, f, looks = 4096, 54, 96, 5

    def sparse(x):
        x = x - x.max(-1, keepdims=True)
        z = -jnp.sort(-x, -1)
        summed, n = jnp.cumsum(z, -1), jnp.arange(1, x.shape[-1] + 1)
        count = (1 + n * z > summed).sum(-1, keepdims=True)
        return jax.nn.relu(x - (jnp.take_along_axis(summed, count - 1, -1) - 1) / count)

    class Norm(hk.Module):
        def __call__(self, x):
            y = x.reshape(-1, 128, x.shape[-1])
            mean, var = y.mean(1, keepdims=True), y.var(1, keepdims=True)
            for name, now, start in (("mean", mean, jnp.zeros), ("var", var, jnp.ones)):
                old = hk.get_state(name, x.shape[-1:], init=start)
                hk.set_state(name, 0.98 * old + 0.02 * lax.stop_gradient(now.mean((0, 1))))
            y = ((y - mean) * lax.rsqrt(var + 1e-3)).reshape(x.shape)
            return y * hk.get_parameter("gain", x.shape[-1:], init=jnp.ones) + hk.get_parameter("bias", x.shape[-1:], init=jnp.zeros)

    def gated(x, linear):
        a, b = jnp.split(Norm()(linear(x)), 2, -1)
        return a * jax.nn.sigmoid(b)

    def net(numbers, kinds):
        x = jnp.concatenate([numbers, *(hk.Embed(40, 1)(kinds[:, i]) for i in range(columns - numbers.shape[1]))], -1)
        x = hk.BatchNorm(True, True, 0.98)(x, True)
        shared = [hk.Linear(4 * f, with_bias=False) for _ in range(2)]

        def features(x):
            y = gated(x, shared[0])
            for linear in (shared[1], *(hk.Linear(4 * f, with_bias=False) for _ in range(2))):
                y = (y + gated(y, linear)) * np.sqrt(0.5)
            return y

        left, total, entropy = jnp.ones_like(x), 0, 0
        a = features(x)[:, f:]
        for _ in range(looks):
            mask = sparse(left * Norm()(hk.Linear(columns, with_bias=False)(a)))
            left = left * (1.3 - mask)
            entropy = entropy - (mask * jnp.log(mask + 1e-15)).sum(-1).mean() / looks
            y = features(mask * x)
            total, a = total + jax.nn.relu(y[:, :f]), y[:, f:]
        return hk.Linear(7, with_bias=False)(total), entropy

    def loss(out, numbers, kinds, wanted):
        return optax.softmax_cross_entropy_with_integer_labels(out[0], wanted).mean() + 1e-3 * out[1]

    optimizer = optax.chain(optax.clip(2.0), optax.adam(optax.exponential_decay(0.02, 500, 0.95)))
    return haiku_step(net, loss, optimizer, floats(rows, 44), below(40, rows, 10), below(7, rows), inputs=2)


@step
def moved_pets():
    """Thirty-seven breeds of pets, photos turned over and moved at random: grouped convolutions of regular widths, gates (RegNetY, Keras, mixed_bfloat16)."""
    import keras

    layers = keras.layers
    keras.config.set_dtype_policy("mixed_bfloat16")

    def conv(x, f, size=1, stride=1, groups=1, act=True):
        x = layers.Conv2D(f, size, stride, padding="same", groups=groups, use_bias=False)(x)
        x = layers.BatchNormalization(momentum=0.9, epsilon=1e-5)(x)
        return layers.ReLU()(x) if act else x

    def block(x, f, stride):
        y = conv(conv(x, f), f, 3, stride, f // 24)
        gate = layers.GlobalAveragePooling2D(keepdims=True)(y)
        gate = layers.Conv2D(f, 1, activation="sigmoid")(layers.Conv2D(x.shape[-1] // 4, 1, activation="relu")(gate))
        y = conv(layers.Multiply()([y, gate]), f, act=False)
        short = x if x.shape == y.shape else conv(x, f, 1, stride, act=False)
        return layers.ReLU()(layers.Add()([y, short]))

    inputs = keras.Input((160, 160, 3))
    x = layers.RandomFlip("horizontal")(layers.Rescaling(1 / 127.5, -1)(inputs))
    x = layers.RandomTranslation(0.1, 0.1)(x)
    x = conv(x, 32, 3, 2)
    for f, depth in ((48, 1), (120, 2), (240, 4), (480, 1)):
        for i in range(depth):
            x = block(x, f, 2 if i == 0 else 1)
    x = layers.Dropout(0.2)(layers.GlobalAveragePooling2D()(x))
    model = keras.Model(inputs, layers.Dense(37, dtype="float32")(x))
    each = keras.losses.CategoricalCrossentropy(from_logits=True, label_smoothing=0.1)
    loss = lambda y, out: each(jax.nn.one_hot(y, 37), out)
    rate = keras.optimizers.schedules.CosineDecay(0.0, 30000, warmup_target=0.1, warmup_steps=1500)
    optimizer = keras.optimizers.SGD(rate, momentum=0.9, nesterov=True, weight_decay=5e-5)
    return keras_step(model, loss, optimizer, floats(20, 160, 160, 3), below(37, 20))
