"""Steps and functions as they are written to learn or to try something: small nets over many points, nearest centers, equations of motion, games.

    python bench/programs/small_steps.py k_means > k_means.mlir
    PYTHONPATH=workloads/capture python -m tpusim_capture k_means.mlir --chip v3 -o STEPS/k_means
    bench/xla_ratio.py --folder STEPS k_means

small_steps.md says what came out. Needs jax and optax.
"""

import os

os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import jax.numpy as jnp
import numpy as np
import optax
from named_steps import KEY, NamedFunctions, cross_entropy, f, ints, layers, mlp, print_named, square

lax = jax.lax
FUNCTIONS = NamedFunctions()
add, trained = FUNCTIONS.add, FUNCTIONS.trained


def burgers(p, points, edges, wanted):
    """A net that obeys an equation: how u(x, t) changes, by its own derivatives."""
    u = lambda x, t: mlp(p, jnp.stack([x, t]))[0]

    def residual(point):
        x, t = point
        along = jax.grad(u, 0)
        return jax.grad(u, 1)(x, t) + u(x, t) * along(x, t) - 0.01 / np.pi * jax.grad(along, 0)(x, t)

    return jnp.square(jax.vmap(residual)(points)).mean() + square(mlp(p, edges)[:, 0], wanted)


trained("equation", burgers, layers(2, 20, 20, 20, 1), f(10000, 2), f(200, 2), f(200))
trained("regression", lambda p, x, y: square(mlp(p, x, jax.nn.relu), y), layers(10, 32, 32, 1), f(50000, 10), f(50000, 1))
trained(
    "two_moons",
    lambda p, x, y: optax.sigmoid_binary_cross_entropy(mlp(p, x, jax.nn.relu)[:, 0], y).mean(),
    layers(2, 16, 16, 1),
    f(20000, 2),
    f(20000),
)


def waves(x):
    return jnp.concatenate([x] + [g(x * 2.0**k) for k in range(4) for g in (jnp.sin, jnp.cos)], -1)


trained(
    "colours_of_places",
    lambda p, x, y: square(jax.nn.sigmoid(mlp(p, waves(x), jax.nn.relu)), y),
    layers(27, 64, 64, 4),
    f(32768, 3),
    f(32768, 4),
)
trained(
    "logistic",
    lambda p, x, y: optax.sigmoid_binary_cross_entropy(x @ p[0] + p[1], y).mean() + 1e-3 * jnp.square(p[0]).sum(),
    (f(20), f()),
    f(100000, 20),
    f(100000),
    optimizer=optax.sgd(0.1),
)
trained(
    "softmax_of_digits",
    lambda p, x, y: cross_entropy(x @ p[0] + p[1], y),
    (f(784, 10), f(10)),
    f(20000, 784),
    ints(20000),
    optimizer=optax.sgd(0.1),
)


def newton(w, x, y):
    likely = jax.nn.sigmoid(x @ w)
    curve = (x * (likely * (1 - likely))[:, None]).T @ x + 1e-3 * jnp.eye(12)
    return w - jnp.linalg.solve(curve, x.T @ (likely - y))


add("newton", newton, f(12), f(60000, 12), f(60000))


def remembered(p, x, y):
    wi, wh, b, wo = p

    def cell(h, x):
        g, r = x @ wi + b, h @ wh
        z = jax.nn.sigmoid(g[:, :16] + r[:, :16])
        q = jax.nn.sigmoid(g[:, 16:32] + r[:, 16:32])
        return (1 - z) * jnp.tanh(g[:, 32:] + q * r[:, 32:]) + z * h, None

    h, _ = lax.scan(cell, jnp.zeros((x.shape[0], 16)), x.swapaxes(0, 1))
    return square(h @ wo, y)


trained("gru16", remembered, (f(4, 48), f(16, 48), f(48), f(16, 1)), f(64, 50, 4), f(64, 1))


def signals(p, x, y):
    for w in p[:-1]:
        x = jax.nn.relu(lax.conv_general_dilated(x, w, (2,), "SAME", dimension_numbers=("NWC", "WIO", "NWC")))
    return cross_entropy(x.mean(1) @ p[-1], y)


trained("signals", signals, [f(5, 4, 8), f(5, 8, 16), f(5, 16, 16), f(16, 6)], f(64, 1024, 4), ints(64))


def digits(p, x, y):
    for w in p[:-1]:
        x = jax.nn.relu(lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")))
        x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    return cross_entropy(x.reshape(x.shape[0], -1) @ p[-1], y)


trained("digits", digits, [f(3, 3, 1, 8), f(3, 3, 8, 16), f(784, 10)], f(256, 28, 28, 1), ints(256))


def letters(p, x, y):
    cut = lambda a: a.reshape(64, 32, 2, 8)
    q, k, v = (cut(x @ w) for w in p[:3])
    seen = jax.nn.softmax(jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(8))
    h = x + jnp.einsum("bhqk,bkhd->bqhd", seen, v).reshape(64, 32, 16) @ p[3]
    h = h + jax.nn.relu(h @ p[4]) @ p[5]
    return cross_entropy(h @ p[6], y)


trained("letters", letters, [f(16, 16)] * 4 + [f(16, 64), f(64, 16), f(16, 65)], f(64, 32, 16), ints(64, 32))


def distances(centers, x):
    return jnp.square(x[:, None] - centers[None]).sum(-1)


def k_means(centers, x):
    apart = distances(centers, x)
    nearest = apart.argmin(1)
    count = jax.ops.segment_sum(jnp.ones(len(x)), nearest, len(centers))
    total = jax.ops.segment_sum(x, nearest, len(centers))
    return total / jnp.maximum(count, 1)[:, None], apart.min(1).mean()


add("k_means", k_means, f(16, 4), f(50000, 4))
for centers, features in ((16, 10), (64, 16), (10, 64), (100, 32)):
    add(f"nearest_{centers}_of_{features}", lambda c, x: distances(c, x).argmin(1), f(centers, features), f(50000, features))
add("density", lambda x, q: jnp.exp(-0.5 * distances(x, q) / 0.01).mean(1), f(4000, 2), f(2000, 2))
trained(
    "factors",
    lambda p, u, v, r: square((p[0][u] * p[1][v]).sum(-1) + p[2][u] + p[3][v], r),
    (f(6000, 8), f(4000, 8), f(6000), f(4000)),
    ints(8192),
    ints(8192),
    f(8192),
)
trained(
    "bag_of_words",
    lambda p, t, y: optax.sigmoid_binary_cross_entropy((p[0][t].mean(1) @ p[1])[:, 0], y).mean(),
    (f(10000, 16), f(16, 1)),
    ints(512, 200),
    f(512),
)


def lorenz(p, x, wanted):
    def change(x):
        return jnp.stack([p[0] * (x[:, 1] - x[:, 0]), x[:, 0] * (p[1] - x[:, 2]) - x[:, 1], x[:, 0] * x[:, 1] - p[2] * x[:, 2]], -1)

    def move(x, _):
        h = 0.01
        a = change(x)
        b = change(x + h / 2 * a)
        c = change(x + h / 2 * b)
        return x + h / 6 * (a + 2 * b + 2 * c + change(x + h * c)), None

    return square(lax.scan(move, x, None, 40)[0], wanted)


add("lorenz", jax.value_and_grad(lorenz), f(3), f(10000, 3), f(10000, 3))


def poles(p, other, seen, action, reward, then, done):
    q = jnp.take_along_axis(mlp(p, seen, jax.nn.relu), action[:, None], 1)[:, 0]
    wanted = reward + 0.99 * (1 - done) * mlp(other, then, jax.nn.relu).max(1)
    return optax.huber_loss(q, lax.stop_gradient(wanted)).mean()


trained("poles", poles, layers(4, 64, 64, 2), layers(4, 64, 64, 2), f(128, 4), ints(128), f(128), f(128, 4), f(128))


def codes(p, x, key):
    h = jax.nn.relu(x @ p[0])
    mean, spread = h @ p[1], h @ p[2]
    z = mean + jnp.exp(spread / 2) * jax.random.normal(key, mean.shape)
    told = optax.sigmoid_binary_cross_entropy(jax.nn.relu(z @ p[3]) @ p[4], x).sum(-1)
    return (told - 0.5 * (1 + spread - mean**2 - jnp.exp(spread)).sum(-1)).mean()


trained("codes_of_two", codes, [f(784, 256), f(256, 2), f(256, 2), f(2, 256), f(256, 784)], f(128, 784), KEY)


def heat(u):
    around = lambda u: u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1]
    return lax.fori_loop(0, 100, lambda _, u: u.at[1:-1, 1:-1].add(0.1 * around(u)), u)


def life(cells):
    def turn(_, cells):
        ways = [(a, b) for a in (-1, 0, 1) for b in (-1, 0, 1) if (a, b) != (0, 0)]
        n = sum(jnp.roll(cells, way, (0, 1)) for way in ways)
        return ((n == 3) | ((cells == 1) & (n == 2))).astype(jnp.int32)

    return lax.fori_loop(0, 50, turn, cells)


add("heat", heat, f(128, 128))
add("life", life, ints(256, 256))
add("second_derivatives", jax.hessian(lambda w, x, y: square(jnp.tanh(x @ w.reshape(4, 5)) @ jnp.ones(5), y)), f(20), f(2000, 4), f(2000))


def chains(at, key):
    def move(i, at):
        new = at + 0.5 * jax.random.normal(jax.random.fold_in(key, i), at.shape)
        luck = jax.random.uniform(jax.random.fold_in(key, i + 100), (at.shape[0],))
        taken = jnp.log(luck) < 0.5 * (jnp.square(at) - jnp.square(new)).sum(-1)
        return jnp.where(taken[:, None], new, at)

    return lax.fori_loop(0, 20, move, at)


add("chains", chains, f(4096, 2), KEY)


def little_net(p, x, wanted):
    for w in p[:-1]:
        x = jnp.tanh(x @ w)
    return square(x @ p[-1], wanted)


add("net_of_8", jax.grad(little_net), [f(2, 8), f(8, 8), f(8, 1)], f(50000, 2), f(50000, 1))
add("net_of_12", jax.grad(little_net), [f(3, 12), f(12, 4), f(4, 3)], f(20000, 3), f(20000, 3))
add("mapped_8", lambda x, m: x @ m, f(30000, 8), f(8, 8))
add("mapped_16_to_4", lambda x, m: x @ m, f(30000, 16), f(16, 4))
add("covariance_of_8", lambda x: x.T @ x, f(40000, 8))
add("colours", lambda x, m: jnp.einsum("bchw,dc->bdhw", x, m), f(64, 3, 64, 64), f(3, 3))
add("shares_of_12", lambda x, m: jax.nn.softmax(x @ m, -1), f(512, 64, 12), f(12, 5))


def decayed(state, x):
    def move(state, x):
        state = jnp.sin(state) * 0.5 + x
        return state, state * 2

    return lax.scan(move, state, x)


add("scan_of_10000", decayed, f(10000), f(40, 10000))
add("long_scan_of_4096", decayed, f(4096), f(400, 4096))


if __name__ == "__main__":
    print_named(FUNCTIONS, FUNCTIONS.stablehlo, __doc__)
