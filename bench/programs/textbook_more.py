"""The second part of the programs of textbook_steps.py, which prints these, too: written later, and run once with both compilers before anybody looked at one."""

import os

os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import jax.numpy as jnp
import numpy as np
import optax
from named_steps import KEY, NamedFunctions, cross_entropy, f, ints, layers, mlp, square

lax, nn, random = jax.lax, jax.nn, jax.random
FUNCTIONS = NamedFunctions()
add, trained = FUNCTIONS.add, FUNCTIONS.trained


def repeat(times, turn, state):
    return lax.fori_loop(0, times, lambda i, s: turn(s), state)


def apart(a, b):
    return jnp.square(a).sum(-1)[:, None] + jnp.square(b).sum(-1)[None] - 2 * a @ b.T


def sinkhorn(a, b, cost):
    k = jnp.exp(-cost / 0.05)
    u, v = repeat(30, lambda s: (lambda u: (u, b / (k.T @ u)))(a / (k @ s[1])), (jnp.ones_like(a), jnp.ones_like(b)))
    return (u[:, None] * k * v * cost).sum()


add("sinkhorn", sinkhorn, f(800), f(1000), f(800, 1000))


def warped(a, b):
    cost = jnp.abs(a[:, None] - b[None])

    def row(before, c):
        def cell(left, t):
            up, corner, here = t
            now = here + jnp.minimum(jnp.minimum(left, up), corner)
            return now, now

        first = c[0] + before[0]
        return (lambda rest: (jnp.concatenate([first[None], rest]), None))(lax.scan(cell, first, (before[1:], before[:-1], c[1:]))[1])

    return lax.scan(row, jnp.cumsum(cost[0]), cost[1:])[0][-1]


add("warped", jax.vmap(warped), f(128, 40), f(128, 40))


def topics(w, h, x):
    h = h * (w.T @ x) / (w.T @ w @ h + 1e-9)
    return w * (x @ h.T) / (w @ (h @ h.T) + 1e-9), h


add("topics", topics, f(3000, 20), f(20, 2000), f(3000, 2000))


def fuzzy(centers, x):
    d = jnp.square(x[:, None] - centers).sum(-1) + 1e-6
    u = 1 / (d[:, :, None] / d[:, None]).sum(-1) ** 2
    return u.T @ x / u.sum(0)[:, None]


add("fuzzy", fuzzy, f(6, 4), f(20000, 4))


def perceptron(w, x, y):
    return lax.scan(lambda w, t: (w + jnp.where(t[1] * (w @ t[0]) <= 0, 0.1 * t[1], 0) * t[0], None), w, (x, y))[0]


add("perceptron", perceptron, f(32), f(500, 32), f(500))


def binomial(price, strike):
    at = price[:, None] * jnp.exp(0.02 * (2 * jnp.arange(101) - 100))
    value = nn.relu(strike[:, None] - at)
    for n in range(100, 80, -1):
        at = at[:, :n] * jnp.exp(0.02)
        value = jnp.maximum(0.9995 * (0.51 * value[:, 1 : n + 1] + 0.49 * value[:, :n]), strike[:, None] - at)
    return value[:, 0]


add("binomial", binomial, f(4096), f(4096))


def counts(w, x, y):
    rate = jnp.exp(x @ w)
    curve = (x * rate[:, None]).T @ x + 1e-3 * jnp.eye(x.shape[1])
    return w + jnp.linalg.solve(curve, x.T @ (y - rate)), (rate - y * jnp.log(rate)).mean()


add("counts", counts, f(10), f(30000, 10), f(30000))
add("survival", jax.value_and_grad(lambda w, x, seen: -((x @ w - lax.cumlogsumexp(x @ w, reverse=True)) * seen).sum()), f(12), f(4096, 12), f(4096))


def alternating(v, r, seen):
    def one(r, seen):
        a = (v * seen[:, None]).T @ v + 0.1 * jnp.eye(8)
        return jnp.linalg.solve(a, v.T @ (r * seen))

    return jax.vmap(one)(r, seen)


add("alternating", alternating, f(500, 8), f(300, 500), f(300, 500))


def flock(at, speed):
    d = at[None] - at[:, None]
    r = jnp.square(d).sum(-1)
    near = (r < 0.04).astype(jnp.float32)
    n = jnp.maximum(near.sum(1, keepdims=True), 1)
    apart = -(d * ((r < 0.01) / (r + 1e-4))[..., None]).sum(1)
    speed = speed + 0.05 * ((near @ speed) / n - speed) + 0.01 * ((near @ at) / n - at) + 0.001 * apart
    return (at + 0.02 * speed) % 1.0, speed


add("flock", flock, f(1000, 2), f(1000, 2))


def spheres(way, center, radius):
    def march(t):
        at = way * t[:, None]
        return t + jnp.min(jnp.sqrt(jnp.square(at[:, None] - center).sum(-1)) - radius, 1)

    t = repeat(20, march, jnp.zeros(len(way)))
    return jnp.where(t < 10, 1 / (1 + t), 0)


add("spheres", spheres, f(40000, 3), f(8, 3), f(8))


def between_points(x, y, corner):
    i, j = jnp.floor(x).astype(jnp.int32), jnp.floor(y).astype(jnp.int32)
    u, v = x - i, y - j
    s = lambda t: t * t * t * (t * (t * 6 - 15) + 10)
    dot = lambda a, b: (corner[(i + a) % 32, (j + b) % 32] * jnp.stack([u - a, v - b], -1)).sum(-1)
    top = dot(0, 0) + s(u) * (dot(1, 0) - dot(0, 0))
    low = dot(0, 1) + s(u) * (dot(1, 1) - dot(0, 1))
    return top + s(v) * (low - top)


add("between_points", between_points, f(128, 128), f(128, 128), f(32, 32, 2))


def motion(first, second):
    x = jnp.gradient(first, axis=1)
    y = jnp.gradient(first, axis=0)
    t = second - first
    mean = lambda a: (jnp.roll(a, 1, 0) + jnp.roll(a, -1, 0) + jnp.roll(a, 1, 1) + jnp.roll(a, -1, 1)) / 4

    def turn(s):
        u, v = mean(s[0]), mean(s[1])
        e = (x * u + y * v + t) / (0.1 + x * x + y * y)
        return u - x * e, v - y * e

    return repeat(20, turn, (jnp.zeros_like(t), jnp.zeros_like(t)))


add("motion", motion, f(256, 256), f(256, 256))


def bilateral(x):
    p = jnp.pad(x, ((0, 0), (2, 2), (2, 2)), "edge")
    total = weight = 0.0
    for a in range(5):
        for b in range(5):
            q = p[:, a : a + x.shape[1], b : b + x.shape[2]]
            w = jnp.exp(-((a - 2) ** 2 + (b - 2) ** 2) / 8 - jnp.square(q - x) * 50)
            total, weight = total + w * q, weight + w
    return total / weight


add("bilateral", bilateral, f(4, 256, 256))


def heat_of_a_room(u):
    def turn(u):
        p = jnp.pad(u, 1, "edge")
        c = p[1:-1, 1:-1, 1:-1]
        near = sum(jnp.roll(p, by, d)[1:-1, 1:-1, 1:-1] for by in (1, -1) for d in range(3))
        return c + 0.1 * (near - 6 * c)

    return repeat(10, turn, u)


add("heat_of_a_room", heat_of_a_room, f(64, 64, 64))


def pendulums(s):
    def change(s):
        a, b, p, q = s
        d = a - b
        n = 3 - jnp.cos(2 * d)
        pp = (-3 * 9.8 * jnp.sin(a) - 9.8 * jnp.sin(a - 2 * b) - 2 * jnp.sin(d) * (q * q + p * p * jnp.cos(d))) / n
        qq = 2 * jnp.sin(d) * (2 * p * p + 19.6 * jnp.cos(a) + q * q * jnp.cos(d)) / n
        return jnp.stack([p, q, pp, qq])

    def move(s):
        k = change(s)
        m = change(s + 0.005 * k)
        return s + 0.01 * m

    return repeat(20, move, s)


add("pendulums", pendulums, f(4, 20000))


def glove(p, i, j, x):
    w, c, a, b = p
    weight = jnp.minimum(1.0, (x / 100) ** 0.75)
    return (weight * jnp.square((w[i] * c[j]).sum(-1) + a[i] + b[j] - jnp.log(x))).mean()


trained("glove", glove, (f(8000, 64), f(8000, 64), f(8000), f(8000)), ints(4096), ints(4096), f(4096), optimizer=optax.adagrad(0.05))


def digits_with_dropout(p, x, y, key):
    d = ("NHWC", "HWIO", "NHWC")
    for w, scale, shift in p[:2]:
        x = lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=d)
        x = (x - x.mean((0, 1, 2))) * lax.rsqrt(x.var((0, 1, 2)) + 1e-5) * scale + shift
        x = lax.reduce_window(nn.relu(x), -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    h = nn.relu(x.reshape(len(x), -1) @ p[2])
    h = jnp.where(random.bernoulli(key, 0.5, h.shape), h * 2, 0)
    return cross_entropy(h @ p[3], y)


trained(
    "digits_with_dropout",
    digits_with_dropout,
    [(f(3, 3, 1, 32), f(32), f(32)), (f(3, 3, 32, 64), f(64), f(64)), f(3136, 128), f(128, 10)],
    f(128, 28, 28, 1),
    ints(128),
    KEY,
)


def small_pictures(p, x, y):
    n = len(x)
    h = x.reshape(n, 8, 4, 8, 4, 3).transpose(0, 1, 3, 2, 4, 5).reshape(n, 64, 48) @ p["in"] + p["places"]
    for q in p["layers"]:
        z = nn.standardize(h)
        cut = lambda a: a.reshape(n, 64, 4, 16)
        k, v, s = cut(z @ q[0]), cut(z @ q[1]), cut(z @ q[2])
        seen = nn.softmax(jnp.einsum("bqhd,bkhd->bhqk", s, k) / 4)
        h = h + jnp.einsum("bhqk,bkhd->bqhd", seen, v).reshape(h.shape) @ q[3]
        h = h + nn.gelu(nn.standardize(h) @ q[4]) @ q[5]
    return cross_entropy(h.mean(1) @ p["out"], y)


trained(
    "small_pictures",
    small_pictures,
    {"in": f(48, 64), "places": f(64, 64), "layers": [[f(64, 64)] * 4 + [f(64, 128), f(128, 64)]] * 4, "out": f(64, 10)},
    f(64, 32, 32, 3),
    ints(64),
    optimizer=optax.adamw(1e-3),
)


def cells_of_pictures(p, x, y):
    d = ("NHWC", "HWIO", "NHWC")
    conv = lambda x, w: nn.relu(lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=d))
    pool = lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    twice = lambda x: jnp.repeat(jnp.repeat(x, 2, 1), 2, 2)
    a = conv(x, p[0])
    b = conv(pool(a), p[1])
    c = conv(pool(b), p[2])
    b = conv(jnp.concatenate([b, twice(c)], -1), p[3])
    a = conv(jnp.concatenate([a, twice(b)], -1), p[4])
    return optax.sigmoid_binary_cross_entropy((a @ p[5])[..., 0], y).mean()


trained(
    "cells_of_pictures",
    cells_of_pictures,
    [f(3, 3, 1, 16), f(3, 3, 16, 32), f(3, 3, 32, 64), f(3, 3, 96, 32), f(3, 3, 48, 16), f(16, 1)],
    f(16, 64, 64, 1),
    f(16, 64, 64),
)


def sets(p, x, y):
    h = mlp(p[0], x, nn.relu)
    return cross_entropy(mlp(p[1], jnp.concatenate([h.mean(1), h.max(1)], -1), nn.relu), y)


trained("sets", sets, (layers(3, 64, 128), layers(256, 64, 10)), f(64, 256, 3), ints(64))


def said_again(p, x, y, wanted):
    def cell(w, h, x):
        g = jnp.concatenate([x, h], -1) @ w[0]
        z, r = jnp.split(nn.sigmoid(g), 2, -1)
        return (1 - z) * h + z * jnp.tanh(jnp.concatenate([x, r * h], -1) @ w[1])

    zero = jnp.zeros((x.shape[1], 64))
    step = lambda h, x: (lambda h: (h, h))(cell(p["read"], h, p["words"][x]))
    h, seen = lax.scan(step, zero, x)

    def say(h, y):
        h = cell(p["say"], h, p["words"][y])
        of = nn.softmax(jnp.einsum("bd,tbd->tb", h, seen), 0)
        return h, jnp.concatenate([h, jnp.einsum("tb,tbd->bd", of, seen)], -1) @ p["out"]

    return cross_entropy(lax.scan(say, h, y)[1], wanted)


trained(
    "said_again",
    said_again,
    {"words": f(500, 32), "read": (f(96, 128), f(96, 64)), "say": (f(96, 128), f(96, 64)), "out": f(128, 500)},
    ints(12, 64),
    ints(12, 64),
    ints(12, 64),
)


def annealed(order, at, key):
    length = lambda o: jnp.sqrt(jnp.square(at[o] - at[jnp.roll(o, 1)]).sum(-1)).sum()

    def turn(i, s):
        order, now = s
        a, b = random.randint(random.fold_in(key, i), (2,), 0, len(order))
        new = order.at[a].set(order[b]).at[b].set(order[a])
        then = length(new)
        taken = random.uniform(random.fold_in(key, i + 1000)) < jnp.exp((now - then) * (1 + i / 10))
        return jnp.where(taken, new, order), jnp.where(taken, then, now)

    return lax.fori_loop(0, 50, turn, (order, length(order)))


add("annealed", annealed, ints(200), f(200, 2), KEY)


def sarsa(q, key, reward, then):
    def step(s, k):
        q, state, action = s
        new = then[state, action]
        a, b = random.split(k)
        act = jnp.where(random.uniform(a) < 0.1, random.randint(b, (), 0, 4), q[new].argmax())
        q = q.at[state, action].add(0.1 * (reward[state, action] + 0.9 * q[new, act] - q[state, action]))
        return (q, new, act), None

    return lax.scan(step, (q, 0, 0), random.split(key, 100))[0][0]


add("sarsa", sarsa, f(100, 4), KEY, f(100, 4), ints(100, 4))


def forest(feature, border, left, right, value, x):
    def down(node, feature, border, left, right):
        for _ in range(6):
            go = jnp.take_along_axis(x, feature[node][:, None], 1)[:, 0] < border[node]
            node = jnp.where(go, left[node], right[node])
        return node

    zero = jnp.zeros(len(x), jnp.int32)
    leaves = jax.vmap(lambda *t: down(zero, *t))(feature, border, left, right)
    return jax.vmap(lambda v, l: v[l])(value, leaves).mean(0)


add("forest", forest, ints(20, 127), f(20, 127), ints(20, 127), ints(20, 127), f(20, 127), f(2000, 10))


def portfolio(w, back):
    def risk(w):
        of = back @ nn.softmax(w)
        return of.var() - 0.1 * of.mean()

    return repeat(20, lambda w: w - 0.5 * jax.grad(risk)(w), w)


add("portfolio", portfolio, f(200), f(2500, 200))


def filtered(x, taps):
    n = x.shape[-1]
    return jnp.fft.irfft(jnp.fft.rfft(x) * jnp.fft.rfft(taps, n), n)


add("filtered", filtered, f(64, 4096), f(64))
add("spread_of_points", lambda x: jnp.linalg.eigh((x - x.mean(0)).T @ (x - x.mean(0)) / len(x)), f(10000, 12))


def process(x, y, new):
    near = lambda a, b: jnp.exp(-0.5 * apart(a, b))
    factor = jnp.linalg.cholesky(near(x, x) + 0.1 * jnp.eye(len(x)))
    of = jax.scipy.linalg.cho_solve((factor, True), y)
    k = near(new, x)
    return k @ of, 1 - jnp.square(jax.scipy.linalg.solve_triangular(factor, k.T, lower=True)).sum(0)


add("process", process, f(256, 3), f(256), f(1000, 3))
