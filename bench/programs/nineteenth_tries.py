"""Fourteen more training steps that were measured before anybody looked at them, like those of first_tries.py.

    python bench/programs/nineteenth_tries.py smoke > smoke.mlir

third_tries.py says how to measure one. Needs jax, flax, dm-haiku, keras and optax.
"""

import os

os.environ["JAX_PLATFORMS"] = "cpu"

import flax.linen as nn
import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
import optax
from model_steps import A_KEY, flax_step, haiku_step, normalised, shapes
from named_steps import NamedSteps, cross_entropy, print_named, square
from nineteenth_more import STEPS as MORE
from ordinary_steps import floats
from twelfth_tries import below

lax = jax.lax
HALF = jnp.bfloat16
STEPS = NamedSteps()
step = STEPS.step


@step
def smoke():
    """Which wind at the start makes smoke look like a picture after twelve moments: carried along, freed of divergence by forty Jacobi turns, gradient of all."""
    n, moments, turns, dt = 256, 12, 40, 1.0
    optimizer = optax.adam(0.1)

    def carried(x, u, v):
        row, column = jnp.meshgrid(jnp.arange(n, dtype=jnp.float32), jnp.arange(n, dtype=jnp.float32), indexing="ij")
        return jax.scipy.ndimage.map_coordinates(x, [row - dt * v, column - dt * u], order=1, mode="wrap")

    def freed(u, v):
        apart = (jnp.roll(u, -1, 1) - jnp.roll(u, 1, 1) + jnp.roll(v, -1, 0) - jnp.roll(v, 1, 0)) / 2
        around = lambda p: jnp.roll(p, 1, 0) + jnp.roll(p, -1, 0) + jnp.roll(p, 1, 1) + jnp.roll(p, -1, 1)
        p = lax.fori_loop(0, turns, lambda _, p: (around(p) - apart) / 4, jnp.zeros_like(u))
        return u - (jnp.roll(p, -1, 1) - jnp.roll(p, 1, 1)) / 2, v - (jnp.roll(p, -1, 0) - jnp.roll(p, 1, 0)) / 2

    def update(wind, state, density, wanted):
        def loss(wind):
            def move(_, at):
                u, v, x = at
                u, v = freed(*(carried(w, u, v) for w in (u, v)))
                return u, v, carried(x, u, v)

            *_, x = lax.fori_loop(0, moments, move, (*freed(wind[0], wind[1]), density))
            return square(x, wanted)

        value, gradient = jax.value_and_grad(loss)(wind)
        changes, state = optimizer.update(gradient, state, wind)
        return optax.apply_updates(wind, changes), state, value

    wind = floats(2, n, n)
    return update, lambda: (wind, shapes(optimizer.init, wind), floats(n, n), floats(n, n))


@step
def streaming_particles():
    """Air around things by nine directions of particles on each place that meet and stream on, and how thick the air must be (lattice Boltzmann, D2Q9)."""
    high, wide, moments = 256, 512, 16
    ways = np.array([(0, 0), (1, 0), (0, 1), (-1, 0), (0, -1), (1, 1), (-1, 1), (-1, -1), (1, -1)])
    weights = np.array([4 / 9] + [1 / 9] * 4 + [1 / 36] * 4, np.float32)
    opposite = np.array([0, 3, 4, 1, 2, 7, 8, 5, 6])

    def balanced(mass, u):
        along = jnp.einsum("kd,dyx->kyx", ways.astype(np.float32), u)
        return weights[:, None, None] * mass * (1 + 3 * along + 4.5 * along**2 - 1.5 * (u**2).sum(0))

    def update(thick, rate, f, solid, wanted):
        def loss(thick):
            turn = 1 / (3 * jnp.exp(thick) + 0.5)

            @jax.checkpoint
            def move(f, _):
                f = f.at[jnp.array([3, 6, 7]), :, -1].set(f[jnp.array([3, 6, 7]), :, -2])
                mass = f.sum(0)
                u = jnp.einsum("kd,kyx->dyx", ways.astype(np.float32), f) / mass
                met = f - turn * (f - balanced(mass, u))
                met = jnp.where(solid, f[opposite], met)
                return jnp.stack([jnp.roll(met[k], (y, x), (0, 1)) for k, (x, y) in enumerate(ways)]), None

            f_end, _ = lax.scan(move, f, None, moments)
            return square(f_end.sum(0), wanted), f_end

        (value, f), gradient = jax.value_and_grad(loss, has_aux=True)(thick)
        return thick - rate * gradient, rate * 0.999, f, value

    return update, lambda: (floats(), floats(), floats(9, high, wide), jax.ShapeDtypeStruct((high, wide), jnp.bool_), floats(high, wide))


@step
def hidden_chains():
    """Sequences of symbols from states that nobody sees: sums over all ways, their gradient is the expected counts (hidden Markov models, 48 states)."""
    b, t, states, symbols = 64, 200, 48, 512
    optimizer = optax.adam(0.02)

    def update(p, state, seen, lengths):
        def loss(p):
            move = jax.nn.log_softmax(p["move"], -1)
            show = jax.nn.log_softmax(p["show"], -1)
            at = jax.nn.log_softmax(p["start"]) + show[:, seen[:, 0]].T

            def turn(at, given):
                symbol, i = given
                new = jax.nn.logsumexp(at[:, :, None] + move, 1) + show.T[symbol]
                return jnp.where((i < lengths)[:, None], new, at), None

            at, _ = lax.scan(turn, at, (seen[:, 1:].T, jnp.arange(1, t)))
            return -(jax.nn.logsumexp(at, -1) / lengths).mean()

        value, gradient = jax.value_and_grad(loss)(p)
        changes, state = optimizer.update(gradient, state, p)
        return optax.apply_updates(p, changes), state, value

    p = {"move": floats(states, states), "show": floats(states, symbols), "start": floats(states)}
    return update, lambda: (p, shapes(optimizer.init, p), below(symbols, b, t), below(t, b))


@step
def early_sales():
    """What an option is worth that may be used early: prices whose spread moves, too, regressions backwards in time, and how the worth depends on all (Heston, Longstaff and Schwartz)."""
    paths, moments, years, strike = 16384, 50, 1.0, 100.0
    dt = years / moments

    def update(p, rate, key):
        def loss(p):
            def move(at, key):
                log, v = at
                one, two = jax.random.normal(key, (2, paths))
                kept = jnp.maximum(v, 0)
                log = log + (p["rate"] - kept / 2) * dt + jnp.sqrt(kept * dt + 1e-12) * one
                together = jnp.tanh(p["together"])
                other = together * one + jnp.sqrt(1 - together**2) * two
                v = v + p["back"] * (p["mean"] - kept) * dt + p["spread"] * jnp.sqrt(kept * dt + 1e-12) * other
                return (log, v), (jnp.exp(log), kept)

            start = (jnp.full(paths, jnp.log(p["price"])), jnp.full(paths, p["start"]))
            _, (prices, spreads) = lax.scan(move, start, jax.random.split(key, moments))
            paid = lambda s: jnp.maximum(strike - s, 0)

            def back(worth, at):
                s, v = at
                worth = worth * jnp.exp(-p["rate"] * dt)
                x = s / strike - 1
                terms = lax.stop_gradient(jnp.stack([jnp.ones_like(x), x, x**2, x**3, v, v * x], 1))
                used = lax.stop_gradient((s < strike).astype(jnp.float32))
                square_ = jnp.einsum("pi,pj,p->ij", terms, terms, used) + 1e-4 * jnp.eye(6)
                wanted = jnp.einsum("pi,p,p->i", terms, lax.stop_gradient(worth), used)
                kept = terms @ jax.scipy.linalg.solve(square_, wanted, assume_a="pos")
                return jnp.where((paid(s) > kept) & (s < strike), paid(s), worth), None

            worth, _ = lax.scan(back, paid(prices[-1]), (prices[:-1], spreads[:-1]), reverse=True)
            return jnp.square(worth.mean() * jnp.exp(-p["rate"] * dt) - 9.0)

        value, gradient = jax.value_and_grad(loss)(p)
        return jax.tree.map(lambda a, g: a - rate * g, p, gradient), rate * 0.99, value

    p = {n: floats() for n in ("rate", "together", "back", "mean", "spread", "price", "start")}
    return update, lambda: (p, floats(), A_KEY)


@step
def sharpened():
    """Pictures four times as large: residual blocks in dense blocks, a critic of which is the more real, edges of a small net (ESRGAN, flax, bf16)."""
    b, f, growth, blocks, small = 8, 64, 32, 4, 48
    bent = lambda x: nn.leaky_relu(x, 0.2)
    conv = lambda n, size=3, stride=1: nn.Conv(n, (size, size), (stride, stride), dtype=HALF)

    class Dense(nn.Module):
        @nn.compact
        def __call__(self, x):
            parts = [x]
            for _ in range(4):
                parts.append(bent(conv(growth)(jnp.concatenate(parts, -1))))
            return x + 0.2 * conv(f)(jnp.concatenate(parts, -1))

    class Draw(nn.Module):
        @nn.compact
        def __call__(self, x):
            x = conv(f)(x)
            y = x
            for _ in range(blocks):
                z = y
                for _ in range(3):
                    z = Dense()(z)
                y = y + 0.2 * z
            x = x + conv(f)(y)
            for _ in range(2):
                x = jnp.repeat(jnp.repeat(x, 2, 1), 2, 2)
                x = bent(conv(f)(x))
            return conv(3)(bent(conv(f)(x)))

    class Judge(nn.Module):
        @nn.compact
        def __call__(self, x):
            for i, n in enumerate((64, 128, 256, 512)):
                x = bent(conv(n)(x))
                x = bent(conv(n, 4, 2)(x))
            return nn.Dense(1)(bent(nn.Dense(100, dtype=HALF)(x.reshape(b, -1)))).astype(jnp.float32)

    draw, judge = Draw(), Judge()
    adam = optax.adam(1e-4, b1=0.9, b2=0.99)

    def update(p, state, few, many):
        mean = lambda x: x.mean()
        cross = lambda logits, wanted: optax.sigmoid_binary_cross_entropy(logits, wanted).mean()

        def drawn(d):
            x = draw.apply(d, few)
            real, made = judge.apply(p["judge"], many), judge.apply(p["judge"], x)
            against = (cross(real - mean(made), 0.0) + cross(made - mean(real), 1.0)) / 2
            return jnp.abs(x.astype(jnp.float32) - many).mean() + 5e-3 * against, x

        def judged(j, x):
            real, made = judge.apply(j, many), judge.apply(j, x)
            return (cross(real - mean(made), 1.0) + cross(made - mean(real), 0.0)) / 2

        (value, x), g = jax.value_and_grad(drawn, has_aux=True)(p["draw"])
        other, h = jax.value_and_grad(judged)(p["judge"], lax.stop_gradient(x))
        changes, state = adam.update({"draw": g, "judge": h}, state, p)
        return optax.apply_updates(p, changes), state, value + other

    def arguments():
        key = jax.random.PRNGKey(0)
        p = {
            "draw": shapes(draw.init, key, floats(b, small, small, 3)),
            "judge": shapes(judge.init, key, floats(b, 4 * small, 4 * small, 3)),
        }
        return p, shapes(adam.init, p), floats(b, small, small, 3), floats(b, 4 * small, 4 * small, 3)

    return update, arguments


@step
def aligned_regions():
    """What 64 boxes of each picture show and which of their places: 7x7 and 14x14 places between places of a film at four scales, three heads (Mask R-CNN's second half, haiku)."""
    b, boxes, f, kinds, side = 2, 64, 128, 81, 512
    conv = lambda n, size=3, stride=1: hk.Conv2D(n, size, stride)

    def read(films, scale, box, places):
        """Bilinear, two samples each way of each place, of the scale that each box has."""
        at = (jnp.arange(2 * places) + 0.5) / (2 * places)
        rows = box[:, None, 0] + at * (box[:, 2] - box[:, 0])[:, None]
        columns = box[:, None, 1] + at * (box[:, 3] - box[:, 1])[:, None]

        def of(film):
            high, wide, _ = film.shape

            def weights(x, n):
                x = jnp.clip(x * n - 0.5, 0, n - 1)
                return jnp.maximum(0, 1 - jnp.abs(x[..., None] - jnp.arange(n)))

            return jnp.einsum("kih,hwf,kjw->kijf", weights(rows, high), film, weights(columns, wide))

        found = sum(jnp.where((scale == i)[:, None, None, None], of(film), 0) for i, film in enumerate(films))
        return found.reshape(boxes, places, 2, places, 2, -1).mean((2, 4))

    def net(pictures, box, scale):
        x = jax.nn.relu(conv(64, 7, 4)(pictures))
        levels = []
        for n in (64, 128, 256, 512):
            y = jax.nn.relu(conv(n, 3, 1 if n == 64 else 2)(x))
            y = conv(n)(y)
            x = jax.nn.relu(y + conv(n, 1, 1 if n == 64 else 2)(x))
            levels.append(x)
        beside = [conv(f, 1)(x) for x in levels]
        for i in (2, 1, 0):
            beside[i] = beside[i] + jnp.repeat(jnp.repeat(beside[i + 1], 2, 1), 2, 2)
        films = [conv(f)(x) for x in beside]
        many = lambda places: jax.vmap(lambda film, s, k: read(film, s, k, places))(films, scale, box)
        x = many(7).reshape(b * boxes, -1)
        for _ in range(2):
            x = jax.nn.relu(hk.Linear(512)(x))
        y = many(14).reshape(b * boxes, 14, 14, f)
        for _ in range(4):
            y = jax.nn.relu(conv(f)(y))
        y = jax.nn.relu(hk.Conv2DTranspose(f, 2, 2)(y))
        return hk.Linear(kinds)(x), hk.Linear(4 * kinds)(x).reshape(-1, kinds, 4), conv(kinds, 1)(y)

    def loss(out, pictures, box, scale, kind, moved, mask):
        logits, places, shown = out
        kind = kind.reshape(-1)
        known = (kind > 0).astype(jnp.float32)
        moved = optax.huber_loss(jnp.take_along_axis(places, kind[:, None, None], 1)[:, 0], moved.reshape(-1, 4)).sum(-1)
        shown = jnp.take_along_axis(shown, kind[:, None, None, None], 3)[..., 0]
        of_mask = optax.sigmoid_binary_cross_entropy(shown, mask.reshape(-1, 28, 28)).mean((1, 2))
        return cross_entropy(logits, kind) + ((moved + of_mask) * known).sum() / jnp.maximum(known.sum(), 1)

    given = (
        floats(b, side, side, 3),
        floats(b, boxes, 4),
        below(4, b, boxes),
        below(kinds, b, boxes),
        floats(b, boxes, 4),
        floats(b, boxes, 28, 28),
    )
    return haiku_step(net, loss, optax.sgd(0.02, 0.9), *given, inputs=3)


@step
def cheap_copies():
    """Half of each film is made of the other half, one by one (GhostNet, flax, squeezed gates, dropout)."""
    b, side, kinds = 32, 160, 1000

    class Ghost(nn.Module):
        f: int
        bent: bool = True

        @nn.compact
        def __call__(self, x):
            half = self.f // 2
            act = nn.relu if self.bent else lambda x: x
            x = act(normalised()(nn.Conv(half, (1, 1), use_bias=False)(x)))
            y = act(normalised()(nn.Conv(half, (3, 3), feature_group_count=half, use_bias=False)(x)))
            return jnp.concatenate([x, y], -1)

    class Block(nn.Module):
        wide: int
        f: int
        size: int
        stride: int
        gated: bool

        @nn.compact
        def __call__(self, x):
            y = Ghost(self.wide)(x)
            depthwise = lambda x, n: nn.Conv(n, (self.size, self.size), (self.stride,) * 2, feature_group_count=n, use_bias=False)(x)
            if self.stride > 1:
                y = normalised()(depthwise(y, self.wide))
            if self.gated:
                few = nn.relu(nn.Conv(max(8, self.wide // 4 // 4 * 4), (1, 1))(y.mean((1, 2), keepdims=True)))
                y = y * nn.hard_sigmoid(nn.Conv(self.wide, (1, 1))(few))
            y = Ghost(self.f, False)(y)
            if self.stride > 1 or x.shape[-1] != self.f:
                x = normalised()(depthwise(x, x.shape[-1]))
                x = normalised()(nn.Conv(self.f, (1, 1), use_bias=False)(x))
            return x + y

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            x = nn.relu(normalised()(nn.Conv(16, (3, 3), (2, 2), use_bias=False)(x)))
            rows = ((16, 16, 3, 1, 0), (48, 24, 3, 2, 0), (72, 24, 3, 1, 0), (72, 40, 5, 2, 1), (120, 40, 5, 1, 1))
            rows += ((240, 80, 3, 2, 0), (200, 80, 3, 1, 0), (480, 112, 3, 1, 1), (672, 160, 5, 2, 1), (960, 160, 5, 1, 1))
            for row in rows:
                x = Block(*row)(x)
            x = nn.relu(normalised()(nn.Conv(960, (1, 1), use_bias=False)(x))).mean((1, 2))
            x = nn.relu(nn.Dense(1280)(x))
            return nn.Dense(kinds)(nn.Dropout(0.2, deterministic=False)(x))

    def loss(logits, images, labels):
        return optax.softmax_cross_entropy(logits, optax.smooth_labels(jax.nn.one_hot(labels, kinds), 0.1)).mean()

    return flax_step(Net(), loss, optax.sgd(0.4, 0.9, nesterov=True), floats(b, side, side, 3), below(kinds, b))


STEPS.update(MORE)

if __name__ == "__main__":
    print_named(STEPS, STEPS.stablehlo, __doc__)
