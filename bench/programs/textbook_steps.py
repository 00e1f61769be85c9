"""Programs that textbooks and courses have: statistics, classical learning, physics, signals, games, and the nets that one begins with.

    python bench/programs/textbook_steps.py mixture > mixture.mlir
    PYTHONPATH=workloads/capture python -m tpusim_capture mixture.mlir --chip v3 -o STEPS/mixture
    bench/xla_ratio.py --folder STEPS mixture

textbook_steps.md says what came out. Needs jax and optax.
"""

import os

os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import jax.numpy as jnp
import numpy as np
import optax
from named_steps import KEY, cross_entropy, f, ints, layers, mlp, print_named, square
from textbook_more import FUNCTIONS, apart, repeat

lax, nn, random = jax.lax, jax.nn, jax.random
add, trained = FUNCTIONS.add, FUNCTIONS.trained


# Statistics and classical learning.


def mixture(mean, spread, share, x):
    likely = -0.5 * (jnp.square((x[:, None] - mean) / spread) + 2 * jnp.log(spread)).sum(-1) + jnp.log(share)
    of = nn.softmax(likely, -1)
    n = of.sum(0)
    mean = of.T @ x / n[:, None]
    spread = jnp.sqrt(of.T @ jnp.square(x) / n[:, None] - jnp.square(mean) + 1e-6)
    return mean, spread, n / len(x), nn.logsumexp(likely, -1).mean()


add("mixture", mixture, f(8, 3), f(8, 3), f(8), f(30000, 3))
add("ridge", lambda x, y: jnp.linalg.solve(x.T @ x + 0.1 * jnp.eye(64), x.T @ y), f(20000, 64), f(20000))


def principal(v, x):
    x = x - x.mean(0)
    return repeat(20, lambda v: (lambda w: w / jnp.linalg.norm(w))(x.T @ (x @ v)), v)


add("principal", principal, f(50), f(10000, 50))
trained(
    "hinge",
    lambda w, x, y: nn.relu(1 - y * (x @ w[0] + w[1])).mean() + 1e-3 * jnp.square(w[0]).sum(),
    (f(30), f()),
    f(40000, 30),
    f(40000),
    optimizer=optax.sgd(0.1),
)


def lasso(w, x, y):
    def turn(w):
        w = w - 1e-4 * (x.T @ (x @ w - y))
        return jnp.sign(w) * nn.relu(jnp.abs(w) - 1e-3)

    return repeat(30, turn, w)


add("lasso", lasso, f(100), f(5000, 100), f(5000))


def stump(x, y, weight):
    order = jnp.argsort(x, 0)
    gain = jnp.cumsum((weight * y)[order], 0)
    at = jnp.abs(gain).argmax(0)
    of = jnp.abs(gain).max(0).argmax()
    return of, x[order[at[of], of], of]


add("stump", stump, f(4096, 12), f(4096), f(4096))


def neighbors(known, label, x):
    _, near = lax.top_k(-apart(x, known), 5)
    return nn.one_hot(label[near], 10).sum(1).argmax(-1)


add("neighbors", neighbors, f(5000, 16), ints(5000), f(1000, 16))


def stochastic_neighbors(at, p):
    near = 1 / (1 + apart(at, at))
    near = near * (1 - jnp.eye(len(at)))
    return (p * jnp.log((p + 1e-12) / (near / near.sum() + 1e-12))).sum()


trained("stochastic_neighbors", stochastic_neighbors, f(1500, 2), f(1500, 1500), optimizer=optax.sgd(10.0, 0.8))


def naive_bayes(x, y, seen):
    count = jax.ops.segment_sum(x, y, 20) + 1
    prior = jnp.bincount(y, length=20) / len(y)
    return (seen @ jnp.log(count / count.sum(1, keepdims=True)).T + jnp.log(prior)).argmax(-1)


add("naive_bayes", naive_bayes, f(6000, 2000), ints(6000), f(1000, 2000))


def kernel_ridge(x, y):
    k = jnp.exp(-0.5 * apart(x, x)) + 0.1 * jnp.eye(len(x))
    return jax.scipy.sparse.linalg.cg(lambda v: k @ v, y, maxiter=10)[0]


add("kernel_ridge", kernel_ridge, f(2000, 5), f(2000))
trained("fourier_features", lambda w, m, b, x, y: square(jnp.sqrt(2 / 200) * jnp.cos(x @ m + b) @ w, y), f(200), f(6, 200), f(200), f(20000, 6), f(20000))


def boosted(weight, found, y):
    wrong = (found != y[:, None]).astype(jnp.float32)
    error = weight @ wrong
    of = error.argmin()
    alpha = 0.5 * jnp.log((1 - error[of]) / error[of])
    weight = weight * jnp.exp(jnp.where(wrong[:, of] > 0, alpha, -alpha))
    return weight / weight.sum(), alpha, of


add("boosted", boosted, f(20000), f(20000, 40), f(20000))
add("bootstrap", lambda x, key: jnp.percentile(x[random.randint(key, (500, 1000), 0, 1000)].mean(1), jnp.array([2.5, 97.5])), f(1000), KEY)


def hamiltonian(w, key, x, y):
    def energy(w):
        return optax.sigmoid_binary_cross_entropy(x @ w, y).sum() + 0.5 * jnp.square(w).sum()

    push = random.normal(key, w.shape)

    def move(s):
        w, p = s
        p = p - 0.005 * jax.grad(energy)(w)
        w = w + 0.01 * p
        return w, p - 0.005 * jax.grad(energy)(w)

    new, end = repeat(10, move, (w, push))
    odds = energy(w) + 0.5 * jnp.square(push).sum() - energy(new) - 0.5 * jnp.square(end).sum()
    return jnp.where(jnp.log(random.uniform(key)) < odds, new, w)


add("hamiltonian", hamiltonian, f(16), KEY, f(5000, 16), f(5000))


def kalman(x, p, seen, a, c, q, r):
    def move(s, z):
        x, p = s
        x, p = x @ a.T, a @ p @ a.T + q
        gain = jnp.linalg.solve(c @ p @ c.T + r, c @ p).T
        return (x + (z - x @ c.T) @ gain.T, p - gain @ c @ p), x

    return lax.scan(move, (x, p), seen)


add("kalman", kalman, f(64, 4), f(4, 4), f(200, 64, 2), f(4, 4), f(2, 4), f(4, 4), f(2, 2))


def volatility(p, returns):
    def move(v, r):
        v = p[0] + p[1] * r * r + p[2] * v
        return v, 0.5 * (jnp.log(v) + r * r / v)

    return lax.scan(move, jnp.ones(returns.shape[1]), returns)[1].mean()


add("volatility", jax.value_and_grad(volatility), f(3), f(250, 512))


def black_scholes(s, k, t, v, r=0.02):
    d = (jnp.log(s / k) + (r + v * v / 2) * t) / (v * jnp.sqrt(t))
    cdf = jax.scipy.stats.norm.cdf
    return s * cdf(d) - k * jnp.exp(-r * t) * cdf(d - v * jnp.sqrt(t))


add("greeks", jax.vmap(jax.value_and_grad(black_scholes, (0, 2, 3))), f(200000), f(200000), f(200000), f(200000))


# Physics and numerics.


def gravity(at, speed, mass):
    def pull(at):
        d = at[None] - at[:, None]
        return (mass[None, :, None] * d / (jnp.square(d).sum(-1) + 0.01)[..., None] ** 1.5).sum(1)

    speed = speed + 0.01 * pull(at)
    return at + 0.01 * speed, speed


add("gravity", gravity, f(2048, 3), f(2048, 3), f(2048))


def ising(spins, key):
    black = (jnp.indices(spins.shape).sum(0) % 2).astype(bool)

    def turn(i, spins):
        for half, mask in enumerate((black, ~black)):
            n = sum(jnp.roll(spins, by, d) for by in (1, -1) for d in (0, 1))
            luck = random.uniform(random.fold_in(key, 2 * i + half), spins.shape)
            spins = jnp.where(mask & (luck < jnp.exp(-2 * 0.44 * spins * n)), -spins, spins)
        return spins

    return lax.fori_loop(0, 10, turn, spins)


add("ising", ising, f(512, 512), KEY)


def drum(now, before):
    def turn(s):
        u, old = s
        p = jnp.pad(u, 1)
        near = p[2:, 1:-1] + p[:-2, 1:-1] + p[1:-1, 2:] + p[1:-1, :-2] - 4 * u
        return 2 * u - old + 0.25 * near, u

    return repeat(50, turn, (now, before))


add("drum", drum, f(300, 300), f(300, 300))


def v_cycle(u, b):
    def smooth(u, b):
        p = jnp.pad(u, 1)
        return 0.25 * (p[2:, 1:-1] + p[:-2, 1:-1] + p[1:-1, 2:] + p[1:-1, :-2] + b)

    def left(u, b):
        p = jnp.pad(u, 1)
        return b - (4 * u - p[2:, 1:-1] - p[:-2, 1:-1] - p[1:-1, 2:] - p[1:-1, :-2])

    u = smooth(smooth(u, b), b)
    if len(u) > 32:
        n = len(u) // 2
        coarse = left(u, b).reshape(n, 2, n, 2).sum((1, 3))
        u = u + jnp.repeat(jnp.repeat(v_cycle(jnp.zeros((n, n)), coarse), 2, 0), 2, 1)
    return smooth(smooth(u, b), b)


add("v_cycle", v_cycle, f(256, 256), f(256, 256))


def hares(x):
    change = lambda x: jnp.stack([x[0] * (1.1 - 0.4 * x[1]), x[1] * (0.1 * x[0] - 0.4)])

    def move(x):
        a = change(x)
        b = change(x + 0.05 * a)
        c = change(x + 0.05 * b)
        return x + 0.1 / 6 * (a + 2 * b + 2 * c + change(x + 0.1 * c))

    return repeat(50, move, x)


add("hares", hares, f(2, 65536))


def packet(u, v, k):
    u = u * jnp.exp(-0.5j * 0.01 * v)
    u = jnp.fft.ifft(jnp.fft.fft(u) * jnp.exp(-0.5j * 0.01 * k * k))
    u = u * jnp.exp(-0.5j * 0.01 * v)
    return u, jnp.square(jnp.abs(u))


add("packet", packet, jax.ShapeDtypeStruct((32, 1024), jnp.complex64), f(1024), f(1024))


def mandelbrot(x, y):
    def turn(s):
        a, b, n = s
        inside = a * a + b * b < 4
        return jnp.where(inside, a * a - b * b + x, a), jnp.where(inside, 2 * a * b + y, b), n + inside

    return repeat(40, turn, (x, y, jnp.zeros(x.shape, jnp.int32)))[2]


add("mandelbrot", mandelbrot, f(512, 768), f(512, 768))


def liquid(at, near):
    d = at[:, None] - at[near]
    d = d - jnp.round(d)
    r = 1e-4 / (jnp.square(d).sum(-1) + 1e-6)
    return (4 * (r**6 - r**3)).sum()


add("liquid", jax.value_and_grad(liquid), f(4000, 3), ints(4000, 32))


def oscillators(phase, pace):
    return repeat(10, lambda p: p + 0.05 * (pace + jnp.sin(p[None] - p[:, None]).mean(1)), phase)


add("oscillators", oscillators, f(1500), f(1500))


def conjugate(b):
    def laplace(x):
        p = jnp.pad(x, 1)
        return 4 * x - p[2:, 1:-1] - p[:-2, 1:-1] - p[1:-1, 2:] - p[1:-1, :-2]

    return jax.scipy.sparse.linalg.cg(laplace, b, maxiter=20)[0]


add("conjugate", conjugate, f(256, 256))
add("pi", lambda key: 4 * (jnp.square(random.uniform(key, (1000000, 2))).sum(1) < 1).mean(), KEY)


# Graphs, sequences, games.


def ranks(rank, source, target):
    degree = jnp.maximum(jax.ops.segment_sum(jnp.ones(len(source)), source, len(rank)), 1)
    return repeat(5, lambda r: 0.15 / len(r) + 0.85 * jax.ops.segment_sum((r / degree)[source], target, len(r)), rank)


add("ranks", ranks, f(5000), ints(20000), ints(20000))
add("shortest_ways", lambda d: lax.fori_loop(0, 200, lambda k, d: jnp.minimum(d, d[:, k, None] + d[None, k]), d), f(200, 200))


def edits(a, b):
    def row(before, s):
        letter, i = s

        def cell(left, t):
            up, corner, other = t
            now = jnp.minimum(jnp.minimum(left, up) + 1, corner + (letter != other))
            return now, now

        first = jnp.full((), i, jnp.int32)
        _, rest = lax.scan(cell, first, (before[1:], before[:-1], b))
        return jnp.concatenate([first[None], rest]), None

    return lax.scan(row, jnp.arange(len(b) + 1), (a, jnp.arange(1, len(a) + 1)))[0][-1]


add("edits", jax.vmap(edits), ints(256, 24), ints(256, 24))


def values_of_places(v, reward):
    def turn(v):
        p = jnp.pad(v, 1, "edge")
        return reward + 0.95 * jnp.stack([p[2:, 1:-1], p[:-2, 1:-1], p[1:-1, 2:], p[1:-1, :-2]]).max(0)

    return repeat(50, turn, v)


add("values_of_places", values_of_places, f(100, 100), f(100, 100))


def q_learning(q, state, action, reward, then):
    wanted = reward + 0.9 * q[then].max(1)
    return q.at[state, action].add(0.1 * (wanted - q[state, action]))


add("q_learning", q_learning, f(2500, 4), ints(512), ints(512), f(512), ints(512))


def bandits(count, total, key, truth):
    def pull(i, s):
        count, total = s
        bound = total / jnp.maximum(count, 1) + jnp.sqrt(2 * jnp.log(i + 1.0) / jnp.maximum(count, 1)) + 1e3 * (count == 0)
        hand = nn.one_hot(bound.argmax(1), 10)
        won = (random.uniform(random.fold_in(key, i), (len(count), 1)) < truth) * hand
        return count + hand, total + won

    return lax.fori_loop(0, 50, pull, (count, total))


add("bandits", bandits, f(1000, 10), f(1000, 10), KEY, f(1000, 10))


def balanced(p, state, key):
    def move(s, key):
        x, v, a, w = s
        push = jnp.where(random.bernoulli(key, nn.sigmoid(mlp(p, jnp.stack(s, -1))[:, 0])), 10.0, -10.0)
        t = (push + 0.05 * w * w * jnp.sin(a)) / 1.1
        turn = (9.8 * jnp.sin(a) - jnp.cos(a) * t) / (0.5 * (4 / 3 - 0.1 * jnp.square(jnp.cos(a)) / 1.1))
        go = t - 0.05 * turn * jnp.cos(a) / 1.1
        return (x + 0.02 * v, v + 0.02 * go, a + 0.02 * w, w + 0.02 * turn), (jnp.abs(a) < 0.2).astype(jnp.float32)

    return lax.scan(move, tuple(state), random.split(key, 40))[1].sum(0).mean()


add("balanced", balanced, layers(4, 16, 1), f(4, 512), KEY)


def clipped(p, seen, action, before, gain, wanted):
    logits, value = mlp(p[0], seen), mlp(p[1], seen)[:, 0]
    now = jnp.take_along_axis(nn.log_softmax(logits), action[:, None], 1)[:, 0]
    ratio = jnp.exp(now - before)
    kept = jnp.minimum(ratio * gain, jnp.clip(ratio, 0.8, 1.2) * gain).mean()
    return square(value, wanted) - kept + 0.01 * (nn.softmax(logits) * nn.log_softmax(logits)).sum(-1).mean()


trained("clipped", clipped, (layers(8, 64, 64, 4), layers(8, 64, 64, 1)), f(2048, 8), ints(2048), f(2048), f(2048), f(2048))


# Signals and pictures.


def edges(x):
    k = jnp.array([[1.0, 0, -1], [2, 0, -2], [1, 0, -1]])
    filters = jnp.stack([k, k.T])[:, None]
    g = lax.conv_general_dilated(x[:, None], filters, (1, 1), "SAME")
    return jnp.sqrt(jnp.square(g).sum(1))


add("edges", edges, f(16, 512, 512))


def equalised(x):
    level = jnp.clip((x * 255).astype(jnp.int32), 0, 255)
    count = jax.vmap(lambda l: jnp.bincount(l.ravel(), length=256))(level)
    cdf = jnp.cumsum(count, 1) / level[0].size
    return jax.vmap(lambda c, l: c[l])(cdf, level)


add("equalised", equalised, f(8, 64, 64))
add("resized", lambda x: jax.image.resize(x, (16, 224, 224, 3), "bilinear"), f(16, 128, 128, 3))


def blurred(x):
    w = jnp.exp(-0.5 * jnp.square(jnp.arange(-4, 5) / 2.0))
    w = w / w.sum()
    for axis in (1, 2):
        p = jnp.pad(x, [(0, 0)] + [(4, 4) if d == axis else (0, 0) for d in (1, 2)], "reflect")
        x = sum(w[k] * lax.slice_in_dim(p, k, k + x.shape[axis], axis=axis) for k in range(9))
    return x


add("blurred", blurred, f(8, 512, 512))


def spectrum(x, m):
    frames = x[:, jnp.arange(0, 15488, 128)[:, None] + jnp.arange(512)] * jnp.hanning(512)
    power = jnp.square(jnp.abs(jnp.fft.rfft(frames)))
    return jnp.log(power @ m + 1e-6)


add("spectrum", spectrum, f(8, 16000), f(257, 40))


def blocks(x):
    c = jnp.cos(np.pi / 8 * (jnp.arange(8) + 0.5)[None] * jnp.arange(8)[:, None])
    b = x.reshape(-1, 64, 8, 64, 8)
    t = jnp.round(jnp.einsum("ui,npiqj,vj->npuqv", c, b, c) / 16) * 16
    return jnp.einsum("ui,npuqv,vj->npiqj", c, t, c).reshape(x.shape)


add("blocks", blocks, f(8, 512, 512))


def resonator(x):
    def move(s, x):
        y = x + 1.6 * s[0] - 0.8 * s[1]
        return (y, s[0]), y

    return lax.scan(move, (jnp.zeros(x.shape[1]),) * 2, x)[1]


add("resonator", resonator, f(1000, 256))
add("sorted", lambda x: (jnp.sort(x), jnp.argsort(x[:100000])), f(300000))
add("running_sum", lambda x: jnp.cumsum(x), f(1000000))
add("between", lambda edges, x: jnp.bincount(jnp.searchsorted(edges, x), length=65), f(64), f(100000))
add("moments", lambda x: (x.mean(0), x.std(0), ((x - x.mean(0)) ** 3).mean(0) / x.std(0) ** 3, jnp.corrcoef(x.T)), f(50000, 20))


# Nets that one begins with.


def first_words(p, h, x, y):
    def cell(h, x):
        h = jnp.tanh(p[0][x] + h @ p[1] + p[2])
        return h, h @ p[3] + p[4]

    return cross_entropy(lax.scan(cell, h, x)[1], y)


trained("first_words", first_words, (f(65, 100), f(100, 100), f(100), f(100, 65), f(65)), f(1, 100), ints(25, 1), ints(25, 1), optimizer=optax.adagrad(0.1))


def word_pairs(p, word, near, far):
    v = p[0][word]
    good = (v * p[1][near]).sum(-1)
    bad = jnp.einsum("bd,bkd->bk", v, p[1][far])
    return -(nn.log_sigmoid(good) + nn.log_sigmoid(-bad).sum(1)).mean()


trained("word_pairs", word_pairs, (f(5000, 50), f(5000, 50)), ints(1024), ints(1024), ints(1024, 5), optimizer=optax.sgd(0.1))


def forged(p, key, x):
    fake = mlp(p[0], random.normal(key, (len(x), 8)), nn.relu)
    judge = lambda x: mlp(p[1], x, nn.leaky_relu)[:, 0]
    return optax.sigmoid_binary_cross_entropy(judge(x), jnp.ones(len(x))).mean() + optax.sigmoid_binary_cross_entropy(judge(fake), jnp.zeros(len(x))).mean()


trained("forged", forged, (layers(8, 32, 32, 2), layers(2, 32, 32, 1)), KEY, f(1024, 2))


def pictures_again(p, x):
    down = ("NHWC", "HWIO", "NHWC")
    h = nn.relu(lax.conv_general_dilated(x, p[0], (2, 2), "SAME", dimension_numbers=down))
    h = nn.relu(lax.conv_general_dilated(h, p[1], (2, 2), "SAME", dimension_numbers=down))
    h = nn.relu(lax.conv_transpose(h, p[2], (2, 2), "SAME", dimension_numbers=down))
    return square(nn.sigmoid(lax.conv_transpose(h, p[3], (2, 2), "SAME", dimension_numbers=down)), x)


trained("pictures_again", pictures_again, [f(3, 3, 1, 16), f(3, 3, 16, 4), f(3, 3, 4, 16), f(3, 3, 16, 1)], f(128, 28, 28, 1))


def little_talk(p, x, y):
    h = p["words"][x] + p["places"]
    for q in p["layers"]:
        n = nn.standardize(h)
        cut = lambda a: a.reshape(32, 64, 4, 8)
        k, v, s = cut(n @ q[0]), cut(n @ q[1]), cut(n @ q[2])
        seen = jnp.where(jnp.tril(jnp.ones((64, 64), bool)), jnp.einsum("bqhd,bkhd->bhqk", s, k) / np.sqrt(8), -1e9)
        h = h + jnp.einsum("bhqk,bkhd->bqhd", nn.softmax(seen), v).reshape(h.shape) @ q[3]
        h = h + nn.relu(nn.standardize(h) @ q[4]) @ q[5]
    return cross_entropy(h @ p["out"], y)


trained(
    "little_talk",
    little_talk,
    {"words": f(65, 32), "places": f(64, 32), "layers": [[f(32, 32)] * 4 + [f(32, 128), f(128, 32)]] * 3, "out": f(32, 65)},
    ints(32, 64),
    ints(32, 64),
    optimizer=optax.adamw(1e-3),
)


def swiss_roll(p, x, key):
    a, b = random.split(key)
    t = random.randint(a, (len(x), 1), 0, 100) / 100.0
    noise = random.normal(b, x.shape)
    seen = jnp.cos(t * np.pi / 2) * x + jnp.sin(t * np.pi / 2) * noise
    return square(mlp(p, jnp.concatenate([seen, t, jnp.sin(4 * t)], 1), nn.swish), noise)


trained("swiss_roll", swiss_roll, layers(4, 64, 64, 64, 2), f(4096, 2), KEY)


def flow(p, x):
    turned = 0.0
    for i, q in enumerate(p):
        a, b = (x[:, :1], x[:, 1:]) if i % 2 else (x[:, 1:], x[:, :1])
        s, t = jnp.split(mlp(q, a), 2, 1)
        s = jnp.tanh(s)
        b = b * jnp.exp(s) + t
        turned = turned + s[:, 0]
        x = jnp.concatenate([a, b] if i % 2 else [b, a], 1)
    return (0.5 * jnp.square(x).sum(1) - turned).mean()


trained("flow", flow, [layers(1, 24, 24, 2)] * 6, f(2000, 2))


def papers(p, x, source, target, y):
    def spread(h):
        return jax.ops.segment_sum(h[source], target, len(h))

    h = nn.relu(spread(x @ p[0]))
    return cross_entropy(spread(h @ p[1]), y)


trained("papers", papers, [f(1433, 16), f(16, 7)], f(2708, 1433), ints(10556), ints(10556), ints(2708))


def sine_wave(p, x, y):
    def cell(s, x):
        h, c = s
        i, g, k, o = jnp.split(jnp.concatenate([x, h], 1) @ p[0] + p[1], 4, 1)
        c = nn.sigmoid(k) * c + nn.sigmoid(i) * jnp.tanh(g)
        h = nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h @ p[2]

    zero = jnp.zeros((x.shape[1], 51))
    return square(lax.scan(cell, (zero, zero), x)[1], y)


trained("sine_wave", sine_wave, (f(52, 204), f(204), f(51, 1)), f(100, 97, 1), f(100, 97, 1), optimizer=optax.sgd(0.1))


def spiral(p, start, wanted):
    def move(x, _):
        x = x + 0.05 * mlp(p, x**3)
        return x, x

    return jnp.abs(lax.scan(move, start, None, 30)[1] - wanted).mean()


trained("spiral", spiral, layers(2, 50, 2), f(64, 2), f(30, 64, 2), optimizer=optax.rmsprop(1e-3))


def quick_learner(p, x, y, new, wanted):
    def task(x, y, new, wanted):
        loss = lambda q, x, y: square(mlp(q, x, nn.relu), y)
        q = jax.tree.map(lambda a, g: a - 0.01 * g, p, jax.grad(loss)(p, x, y))
        return loss(q, new, wanted)

    return jax.vmap(task)(x, y, new, wanted).mean()


trained("quick_learner", quick_learner, layers(1, 40, 40, 1), f(25, 10, 1), f(25, 10, 1), f(25, 10, 1), f(25, 10, 1))


def restricted_boltzmann(w, a, b, x, key):
    k = random.split(key, 2)
    hidden = nn.sigmoid(x @ w + b)
    drawn = random.bernoulli(k[0], hidden).astype(jnp.float32)
    again = nn.sigmoid(drawn @ w.T + a)
    then = nn.sigmoid(again @ w + b)
    n = len(x)
    return w + 0.1 * (x.T @ hidden - again.T @ then) / n, a + 0.1 * (x - again).mean(0), b + 0.1 * (hidden - then).mean(0), square(x, again)


add("restricted_boltzmann", restricted_boltzmann, f(784, 128), f(784), f(128), f(256, 784), KEY)


def maps(nodes, x):
    grid = jnp.stack(jnp.meshgrid(jnp.arange(16.0), jnp.arange(16.0)), -1).reshape(-1, 2)

    def turn(nodes, x):
        best = jnp.square(nodes - x).sum(1).argmin()
        pull = jnp.exp(-jnp.square(grid - grid[best]).sum(1) / 8)
        return nodes + 0.1 * pull[:, None] * (x - nodes), None

    return lax.scan(turn, nodes, x)[0]


add("maps", maps, f(256, 3), f(200, 3))


def evolved(p, key, x, y):
    leaves, tree = jax.tree.flatten(p)
    noise = [random.normal(k, (128,) + l.shape) for k, l in zip(random.split(key, len(leaves)), leaves)]
    many = jax.tree.unflatten(tree, [l + 0.1 * n for l, n in zip(leaves, noise)])
    score = -jax.vmap(lambda q: square(mlp(q, x), y))(many)
    score = (score - score.mean()) / (score.std() + 1e-6)
    return jax.tree.unflatten(tree, [l + 0.01 * jnp.tensordot(score, n, 1) for l, n in zip(leaves, noise)])


add("evolved", evolved, layers(4, 32, 32, 2), KEY, f(256, 4), f(256, 2))


def twins(p, a, b):
    x = nn.relu(jnp.concatenate([a, b]) @ p[0]) @ p[1]
    x = x / jnp.linalg.norm(x, axis=1, keepdims=True)
    alike = x @ x.T / 0.1 - 1e9 * jnp.eye(len(x))
    n = len(a)
    return cross_entropy(alike, (jnp.arange(2 * n) + n) % (2 * n))


trained("twins", twins, (f(256, 128), f(128, 32)), f(256, 256), f(256, 256))
trained(
    "passengers",
    lambda p, x, y: optax.sigmoid_binary_cross_entropy(mlp(p, x, nn.relu)[:, 0], y).mean(),
    layers(7, 8, 8, 1),
    f(891, 7),
    f(891),
    optimizer=optax.sgd(0.1),
)
trained(
    "houses", lambda p, x, y: optax.huber_loss(mlp(p, x, nn.elu)[:, 0], y).mean(), layers(13, 64, 64, 1), f(20640, 13), f(20640), optimizer=optax.rmsprop(1e-3)
)
trained(
    "clothes",
    lambda p, x, y: cross_entropy(mlp(p, x.reshape(len(x), 784) / 255.0, nn.relu), y),
    layers(784, 128, 10),
    f(1000, 28, 28),
    ints(1000),
)


def dropped(p, x, y, key):
    h = nn.relu(x @ p[0])
    h = jnp.where(random.bernoulli(key, 0.5, h.shape), h * 2, 0)
    h = nn.standardize(h @ p[1]) * p[2]
    return cross_entropy(nn.gelu(h) @ p[3], y)


trained("dropped", dropped, (f(100, 256), f(256, 64), f(64), f(64, 5)), f(2048, 100), ints(2048), KEY)

if __name__ == "__main__":
    print_named(FUNCTIONS, FUNCTIONS.stablehlo, __doc__)
