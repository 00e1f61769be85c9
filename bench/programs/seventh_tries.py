"""Fourteen more training steps that were measured before anybody looked at them, like those of first_tries.py.

    python bench/programs/seventh_tries.py splats > splats.mlir

seventh_tries.md says what came out; third_tries.py says how to measure one. Needs jax, flax and optax.
"""

import os

os.environ["JAX_PLATFORMS"] = "cpu"

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from named_steps import NamedSteps, cross_entropy, print_named, square
from ordinary_steps import classes, floats, integers, next_words, step_of_loss, training_step

lax = jax.lax
STEPS = NamedSteps()
ADAM = optax.adamw(1e-3)
step = STEPS.step


@step
def pairs_of_residues():
    """What residues of a protein are to each other, from aligned sequences: triangles of pairs (Evoformer)."""

    class Triangle(nn.Module):
        sums: str

        @nn.compact
        def __call__(self, z):
            f = z.shape[-1]
            z = nn.LayerNorm()(z)
            one, other = (nn.sigmoid(nn.Dense(f)(z)) * nn.Dense(f)(z) for _ in range(2))
            return nn.sigmoid(nn.Dense(f)(z)) * nn.Dense(f)(nn.LayerNorm()(jnp.einsum(self.sums, one, other)))

    class Rows(nn.Module):
        """Attention along the last axis but one, biased by the pairs."""

        heads: int

        @nn.compact
        def __call__(self, x, pairs):
            h = nn.LayerNorm()(x)
            q, k, v, gate = (nn.DenseGeneral((self.heads, 16))(h) for _ in range(4))
            bias = nn.Dense(self.heads, use_bias=False)(nn.LayerNorm()(pairs))
            a = nn.softmax(jnp.einsum("rihd,rjhd->rhij", q, k) / 4 + bias.transpose(2, 0, 1))
            return nn.DenseGeneral(x.shape[-1], (-2, -1))(jnp.einsum("rhij,rjhd->rihd", a, v) * nn.sigmoid(gate))

    wider = lambda x: nn.Dense(x.shape[-1])(nn.relu(nn.Dense(2 * x.shape[-1])(nn.LayerNorm()(x))))

    class Net(nn.Module):
        @nn.compact
        def __call__(self, aligned):
            m = nn.Dense(128)(aligned)
            near = jax.nn.one_hot(jnp.clip(jnp.arange(64)[:, None] - jnp.arange(64), -16, 16) + 16, 33)
            z = nn.Dense(64)(near) + nn.Dense(64)(aligned[0])[:, None] + nn.Dense(64)(aligned[0])[None]
            for _ in range(2):
                m = m + Rows(8)(m, z)
                m = m + wider(m)
                h = nn.LayerNorm()(m)
                one, other = nn.Dense(16)(h), nn.Dense(16)(h)
                z = z + nn.Dense(64)(jnp.einsum("sic,sjd->ijcd", one, other).reshape(64, 64, 256) / 32)
                z = z + Triangle("ikc,jkc->ijc")(z)
                z = z + Triangle("kic,kjc->ijc")(z)
                z = z + Rows(4)(z, z)
                z = z + wider(z)
            return nn.Dense(32)(z + z.swapaxes(0, 1))

    return training_step(Net(), lambda out, aligned, distances: cross_entropy(out, distances), ADAM, floats(32, 64, 23), integers(64, 64))


@step
def hashed_places():
    """A picture of space in tables that places are hashed into, level by level, and a small net (Instant-NGP)."""
    entries, levels = 2**14, 8

    def parameters():
        return {
            "tables": floats(levels, entries, 2),
            "net": jax.eval_shape(net.init, jax.random.key(0), floats(2048, 2 * levels)),
        }

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            for _ in range(2):
                x = nn.relu(nn.Dense(64)(x))
            return nn.Dense(4)(x)

    net = Net()
    corners = np.stack(np.meshgrid([0, 1], [0, 1], [0, 1], indexing="ij"), -1).reshape(8, 3)
    primes = np.array([1, 2654435761, 805459861], np.uint32)

    def loss(p, places, wanted):
        told = []
        for level in range(levels):
            at = places * 16 * 1.5**level
            low = jnp.floor(at)
            part = (at - low)[:, None]
            corner = (low[:, None] + corners).astype(jnp.uint32) * primes
            index = (corner[..., 0] ^ corner[..., 1] ^ corner[..., 2]) % entries
            weight = jnp.where(corners == 1, part, 1 - part).prod(-1)
            told.append((p["tables"][level][index] * weight[..., None]).sum(1))
        return square(net.apply(p["net"], jnp.concatenate(told, -1)), wanted)

    return step_of_loss(loss, optax.adam(1e-2, eps=1e-15), parameters, floats(2048, 3), floats(2048, 4))


@step
def splats():
    """An image from 512 blurred ellipses, the nearest in front (Gaussian splatting)."""

    def loss(p, wanted):
        order = jnp.argsort(p["depth"])
        place, size, angle, colour, solid = (p[name][order] for name in ("place", "size", "angle", "colour", "solid"))
        y, x = jnp.meshgrid(jnp.linspace(-1, 1, 96), jnp.linspace(-1, 1, 96), indexing="ij")
        away = jnp.stack([x, y], -1).reshape(-1, 1, 2) - jnp.tanh(place)
        c, s = jnp.cos(angle), jnp.sin(angle)
        along, across = away[..., 0] * c + away[..., 1] * s, away[..., 1] * c - away[..., 0] * s
        wide = jnp.exp(size)
        seen = nn.sigmoid(solid) * jnp.exp(-0.5 * (jnp.square(along / wide[:, 0]) + jnp.square(across / wide[:, 1])))
        seen = jnp.minimum(seen, 0.99)
        passed = jnp.exp(jnp.cumsum(jnp.log1p(-seen), -1))
        passed = jnp.concatenate([jnp.ones_like(passed[:, :1]), passed[:, :-1]], -1)
        return jnp.abs((seen * passed) @ nn.sigmoid(colour) - wanted.reshape(-1, 3)).mean()

    def parameters():
        return {"depth": floats(512), "place": floats(512, 2), "size": floats(512, 2), "angle": floats(512), "colour": floats(512, 3), "solid": floats(512)}

    return step_of_loss(loss, optax.adam(1e-2), parameters, floats(96, 96, 3))


def rotated(x):
    """Pairs of features turned by their place (RoPE), halves as Llama has them."""
    t, half = x.shape[1], x.shape[-1] // 2
    angle = jnp.arange(t)[:, None] * 10000.0 ** (-jnp.arange(half) / half)
    c, s = (f(angle)[None, :, None].astype(x.dtype) for f in (jnp.cos, jnp.sin))
    a, b = jnp.split(x, 2, -1)
    return jnp.concatenate([a * c - b * s, b * c + a * s], -1)


class Gated(nn.Module):
    inner: int

    @nn.compact
    def __call__(self, x):
        dense = lambda f: nn.Dense(f, use_bias=False, dtype=jnp.bfloat16)
        return dense(x.shape[-1])(nn.silu(dense(self.inner)(x)) * dense(self.inner)(x))


@step
def preferences():
    """Of two answers the one that people like is made likelier than a frozen copy finds it (DPO, bf16)."""
    half = jnp.bfloat16

    class Net(nn.Module):
        @nn.compact
        def __call__(self, words):
            dense = lambda f: nn.DenseGeneral(f, use_bias=False, dtype=half)
            x = nn.Embed(8192, 512, dtype=half)(words)
            b, t, _ = x.shape
            causal = jnp.tril(jnp.ones((t, t), bool))
            for _ in range(3):
                h = nn.RMSNorm(dtype=half)(x)
                q, k, v = rotated(dense((8, 64))(h)), rotated(dense((2, 64))(h)), dense((2, 64))(h)
                scores = jnp.einsum("bqghd,bkgd->bghqk", q.reshape(b, t, 2, 4, 64), k).astype(jnp.float32) / 8
                a = nn.softmax(jnp.where(causal, scores, -1e30)).astype(half)
                x = x + dense(512)(jnp.einsum("bghqk,bkgd->bqghd", a, v).reshape(b, t, 512))
                x = x + Gated(1408)(nn.RMSNorm(dtype=half)(x))
            return dense(8192)(nn.RMSNorm(dtype=half)(x))

    net = Net()

    def likely(p, words, answer):
        logits = net.apply(p, words[:, :-1]).astype(jnp.float32)
        each = jnp.take_along_axis(nn.log_softmax(logits), words[:, 1:, None], -1)[..., 0]
        return jnp.split((each * answer[:, 1:]).sum(-1), 2)

    def update(p, state, frozen, words, answer):
        liked, other = likely(frozen, words, answer)

        def loss(p):
            more, less = likely(p, words, answer)
            return -nn.log_sigmoid(0.1 * ((more - liked) - (less - other))).mean()

        value, gradients = jax.value_and_grad(loss)(p)
        updates, state = ADAM.update(gradients, state, p)
        return optax.apply_updates(p, updates), state, value

    def arguments():
        p = jax.eval_shape(net.init, jax.random.key(0), integers(8, 192))
        return p, jax.eval_shape(ADAM.init, p), p, integers(8, 193), floats(8, 193)

    return update, arguments


@step
def sparse_features():
    """What a model thinks as 32 of 4096 directions; those that are never used get a share of what is left (top-k sparse autoencoder)."""

    def loss(p, state, x):
        inner = (x - p["middle"]) @ p["read"] + p["bias"]
        value, index = lax.top_k(inner, 32)
        rows = jnp.arange(len(x))[:, None]
        chosen = jnp.zeros_like(inner).at[rows, index].set(nn.relu(value))
        made = chosen @ p["write"] + p["middle"]
        rest = x - made
        unused = jnp.where(state > 100, inner, -jnp.inf)
        value, index = lax.top_k(unused, 64)
        spare = jnp.zeros_like(inner).at[rows, index].set(jnp.where(jnp.isfinite(value), nn.relu(value), 0))
        return jnp.square(rest).mean() + jnp.square(lax.stop_gradient(rest) - spare @ p["write"]).mean() / 32, chosen

    def update(p, state, since, x):
        (value, chosen), gradients = jax.value_and_grad(loss, has_aux=True)(p, since, x)
        # Directions keep their length: what points along them is taken out of the gradient.
        write = p["write"]
        gradients["write"] -= (gradients["write"] * write).sum(-1, keepdims=True) * write
        updates, state = ADAM.update(gradients, state, p)
        p = optax.apply_updates(p, updates)
        p["write"] /= jnp.sqrt(jnp.square(p["write"]).sum(-1, keepdims=True)) + 1e-8
        return p, state, jnp.where((chosen > 0).any(0), 0, since + 1), value

    def arguments():
        p = {"middle": floats(256), "read": floats(256, 4096), "bias": floats(4096), "write": floats(4096, 256)}
        return p, jax.eval_shape(ADAM.init, p), integers(4096), floats(1024, 256)

    return update, arguments


@step
def crops():
    """Small pieces of an image say what a slow net says of large ones (DINO, bf16 products)."""

    class Net(nn.Module):
        @nn.compact
        def __call__(self, large, small):
            half = jnp.bfloat16
            cut = nn.Conv(192, (8, 8), (8, 8))
            first = self.param("first", nn.initializers.normal(0.02), (1, 1, 192))
            places = self.param("places", nn.initializers.normal(0.02), (1, 8, 8, 192))
            layers = [
                (nn.LayerNorm(), nn.MultiHeadDotProductAttention(3, dtype=half), nn.LayerNorm(), nn.Dense(768, dtype=half), nn.Dense(192, dtype=half))
                for _ in range(3)
            ]
            last = nn.LayerNorm()
            seen = []
            for images in (large, small) if small is not None else (large,):
                x = cut(images)
                n, high, wide, f = x.shape
                x = (x + (places if high == 8 else jax.image.resize(places, (1, high, wide, f), "bicubic"))).reshape(n, -1, f)
                x = jnp.concatenate([jnp.broadcast_to(first, (n, 1, f)), x], 1)
                for norm, look, other, wide, narrow in layers:
                    x = x + look(norm(x))
                    x = x + narrow(nn.gelu(wide(other(x))))
                seen.append(last(x)[:, 0])
            x = jnp.concatenate(seen)
            for f in (512, 512):
                x = nn.gelu(nn.Dense(f)(x))
            x = nn.Dense(128)(x)
            x = x / jnp.sqrt(jnp.square(x).sum(-1, keepdims=True) + 1e-8)
            names = self.param("names", nn.initializers.normal(), (128, 2048))
            return x @ (names / jnp.sqrt(jnp.square(names).sum(0) + 1e-8))

    net = Net()
    large, small = floats(32, 64, 64, 3), floats(64, 32, 32, 3)

    def update(p, state, slow, centre, large, small):
        told = net.apply(slow, large, None)
        target = nn.softmax((told - centre) / 0.04).reshape(2, 16, -1)

        def loss(p):
            found = nn.log_softmax(net.apply(p, large, small) / 0.1).reshape(6, 16, -1)
            each = -jnp.einsum("tbk,sbk->ts", target, found) / 16
            return jnp.where(jnp.eye(2, 6, dtype=bool), 0, each).sum() / 10

        value, gradients = jax.value_and_grad(loss)(p)
        updates, state = ADAM.update(gradients, state, p)
        p = optax.apply_updates(p, updates)
        slow = jax.tree.map(lambda s, p: 0.996 * s + 0.004 * p, slow, p)
        return p, state, slow, 0.9 * centre + 0.1 * told.mean(0), value

    def arguments():
        p = jax.eval_shape(net.init, jax.random.key(0), large, small)
        return p, jax.eval_shape(ADAM.init, p), p, floats(2048), large, small

    return update, arguments


@step
def regions():
    """Features of an image at several sizes, and what is in 64 regions of it, read between the pixels (Faster R-CNN's second half)."""

    def aligned(features, boxes):
        """7x7 places of each region, each between four pixels."""
        high, wide, _ = features.shape
        part = (jnp.arange(7) + 0.5) / 7
        y = boxes[:, None, 0] * high + (boxes[:, None, 2] * high) * part - 0.5
        x = boxes[:, None, 1] * wide + (boxes[:, None, 3] * wide) * part - 0.5
        y, x = jnp.clip(y, 0, high - 1), jnp.clip(x, 0, wide - 1)
        total = 0
        for down in (0, 1):
            for right in (0, 1):
                row, column = jnp.minimum(jnp.floor(y) + down, high - 1), jnp.minimum(jnp.floor(x) + right, wide - 1)
                by_row = jnp.where(down, y - jnp.floor(y), 1 - (y - jnp.floor(y)))
                by_column = jnp.where(right, x - jnp.floor(x), 1 - (x - jnp.floor(x)))
                found = features[row.astype(int)[:, :, None], column.astype(int)[:, None, :]]
                total += found * (by_row[:, :, None] * by_column[:, None, :])[..., None]
        return total

    class Net(nn.Module):
        @nn.compact
        def __call__(self, images, boxes):
            x = images
            levels = []
            for features in (32, 64, 96, 128):
                h = nn.relu(nn.GroupNorm(8)(nn.Conv(features, (3, 3), (2, 2))(x)))
                x = nn.relu(nn.Conv(features, (1, 1), (2, 2))(x) + nn.GroupNorm(8)(nn.Conv(features, (3, 3))(h)))
                levels.append(x)
            top = nn.Conv(128, (1, 1))(levels.pop())
            below = nn.Conv(128, (1, 1))(levels.pop())
            below = nn.Conv(128, (3, 3))(below + jax.image.resize(top, below.shape, "nearest"))
            both = [jax.vmap(aligned)(level, boxes) for level in (below, top)]
            large = (boxes[..., 2] * boxes[..., 3] > 0.1)[..., None, None, None]
            x = jnp.where(large, both[1], both[0]).reshape(*boxes.shape[:2], -1)
            for _ in range(2):
                x = nn.relu(nn.Dense(512)(x))
            return nn.Dense(21)(x), nn.Dense(84)(x).reshape(*x.shape[:2], 21, 4)

    def loss(out, images, boxes, names, moved):
        named, moves = out
        move = jnp.take_along_axis(moves, names[..., None, None], 2)[..., 0, :]
        return cross_entropy(named, names) + (optax.huber_loss(move, moved).sum(-1) * (names > 0)).mean()

    batch = floats(2, 192, 192, 3), floats(2, 64, 4), integers(2, 64), floats(2, 64, 4)
    return training_step(Net(), loss, optax.sgd(0.01, momentum=0.9), *batch, inputs=2)


@step
def traffic():
    """Speeds at 207 places of a network of roads, along time and along the roads in turn (STGCN)."""

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x, roads):
            def in_time(x, features):
                a, b = jnp.split(nn.Conv(2 * features, (3, 1), padding="VALID")(x), 2, -1)
                return (a + nn.Dense(features)(x[:, 2:])) * nn.sigmoid(b)

            for _ in range(2):
                x = in_time(x, 64)
                kinds = [x]
                for order in range(2):
                    h = jnp.einsum("nm,btmf->btnf", roads, kinds[-1])
                    kinds.append(h if order == 0 else 2 * h - kinds[-2])
                x = nn.relu(nn.Dense(16)(jnp.concatenate(kinds, -1)))
                x = in_time(x, 64)
                x = nn.LayerNorm(reduction_axes=(-2, -1), feature_axes=(-2, -1))(x)
            x = in_time(x, 128)[:, 0]
            return nn.Dense(12)(nn.relu(nn.Dense(128)(x)))

    return training_step(
        Net(), lambda out, x, roads, later: jnp.abs(out - later).mean(), ADAM, floats(32, 12, 207, 2), floats(207, 207), floats(32, 207, 12), inputs=2
    )


@step
def fitted_splines():
    """Each edge of the net is a function of its own, of cubic pieces (Kolmogorov-Arnold network)."""

    class Layer(nn.Module):
        features: int

        @nn.compact
        def __call__(self, x):
            pieces, order = 8, 3
            knots = jnp.linspace(-1 - 2 * order / pieces, 1 + 2 * order / pieces, pieces + 2 * order + 1)
            x_ = x[..., None]
            basis = ((x_ >= knots[:-1]) & (x_ < knots[1:])).astype(x.dtype)
            for k in range(1, order + 1):
                left = (x_ - knots[: -(k + 1)]) / (knots[k:-1] - knots[: -(k + 1)])
                right = (knots[k + 1 :] - x_) / (knots[k + 1 :] - knots[1:-k])
                basis = left * basis[..., :-1] + right * basis[..., 1:]
            weights = self.param("weights", nn.initializers.normal(0.1), (x.shape[-1], self.features, pieces + order))
            return jnp.einsum("bik,iok->bo", basis, weights) + nn.Dense(self.features)(nn.silu(x))

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            for features in (64, 64, 10):
                x = Layer(features)(x)
            return x

    return training_step(Net(), classes, ADAM, floats(512, 196), integers(512))


@step
def delta_rule():
    """A matrix that forgets what it knew of a key before it learns it anew, 32 words at a time (DeltaNet)."""
    heads, size, chunk = 4, 64, 32

    class Mix(nn.Module):
        @nn.compact
        def __call__(self, x):
            b, t, f = x.shape
            unit = lambda x: x * lax.rsqrt(jnp.square(x).sum(-1, keepdims=True) + 1e-6)
            parts = lambda x: x.reshape(b, t // chunk, chunk, heads, -1).transpose(1, 0, 3, 2, 4)
            q, k, v = (parts(nn.Dense(heads * size, use_bias=False)(x)) for _ in range(3))
            q, k = unit(nn.silu(q)), unit(nn.silu(k))
            learn = parts(nn.sigmoid(nn.Dense(heads)(x)))
            own = jnp.tril(jnp.einsum("cbhid,cbhjd->cbhij", k * learn, k), -1) + jnp.eye(chunk)
            w, u = jnp.split(jax.scipy.linalg.solve_triangular(own, jnp.concatenate([k * learn, v * learn], -1), lower=True, unit_diagonal=True), 2, -1)
            seen = jnp.tril(jnp.einsum("cbhid,cbhjd->cbhij", q, k))

            def go(known, parts):
                q, k, w, u, seen = parts
                new = u - w @ known
                out = q @ known + seen @ new
                return known + jnp.swapaxes(k, -1, -2) @ new, out

            _, out = lax.scan(go, jnp.zeros((b, heads, size, size)), (q, k, w, u, seen))
            out = nn.RMSNorm()(out).transpose(1, 0, 3, 2, 4).reshape(b, t, heads * size)
            return nn.Dense(f, use_bias=False)(out)

    class Net(nn.Module):
        @nn.compact
        def __call__(self, words):
            x = nn.Embed(4096, 256)(words)
            for _ in range(2):
                x = x + Mix()(nn.RMSNorm()(x))
                x = x + Gated(704)(nn.RMSNorm()(x))
            return nn.Dense(4096)(nn.RMSNorm()(x))

    return training_step(Net(), next_words, ADAM, integers(4, 256))


@step
def resonances():
    """Long sequences through oscillators that die away, all times at once and in both directions (S5)."""

    class Layer(nn.Module):
        @nn.compact
        def __call__(self, x):
            f, states = x.shape[-1], 64
            normal = nn.initializers.normal
            rate = -jnp.exp(self.param("rate", normal(), (states,)))
            turn = self.param("turn", normal(3.0), (states,))
            pace = jnp.exp(self.param("pace", nn.initializers.constant(-3.0), (states,)))
            by = jnp.exp(rate * pace)
            one = by * jnp.cos(turn * pace), by * jnp.sin(turn * pace)
            read = nn.Dense(2 * states, use_bias=False)(x)

            def after(first, second):
                (ar, ai), (br, bi) = first
                (cr, ci), (dr, di) = second
                return (cr * ar - ci * ai, cr * ai + ci * ar), (cr * br - ci * bi + dr, cr * bi + ci * br + di)

            every = jax.tree.map(lambda a: jnp.broadcast_to(a, (*x.shape[:2], states)), one)
            pair = tuple(jnp.split(read * jnp.tile(pace, 2), 2, -1))
            both = [*lax.associative_scan(after, (every, pair), axis=1)[1], *lax.associative_scan(after, (every, pair), axis=1, reverse=True)[1]]
            y = nn.Dense(f, use_bias=False)(jnp.concatenate(both, -1)) + x * self.param("past", normal(), (f,))
            return nn.gelu(y) * nn.sigmoid(nn.Dense(f)(nn.gelu(y)))

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            x = nn.Dense(128)(x)
            for _ in range(3):
                x = x + Layer()(nn.LayerNorm()(x))
            return nn.Dense(10)(x.mean(1))

    return training_step(Net(), classes, ADAM, floats(8, 512, 3), integers(8))


@step
def vector_attention():
    """Points weigh each feature of their neighbours by where they are; fewer points, far from each other, layer by layer (Point Transformer)."""

    def apart(places, count):
        """Places one after the other that are farthest from all before."""

        def go(i, state):
            far, chosen = state
            far = jnp.minimum(far, jnp.square(places - places[chosen[i - 1]]).sum(-1))
            return far, chosen.at[i].set(jnp.argmax(far).astype(jnp.int32))

        return lax.fori_loop(1, count, go, (jnp.full(len(places), jnp.inf), jnp.zeros(count, jnp.int32)))[1]

    def nearest(where, places, count):
        return lax.top_k(-jnp.square(where[:, :, None] - places[:, None]).sum(-1), count)[1]

    take = jax.vmap(lambda x, index: x[index])

    class Layer(nn.Module):
        @nn.compact
        def __call__(self, x, places):
            f = x.shape[-1]
            near = nearest(places, places, 16)
            q, k, v = nn.Dense(f)(x)[:, :, None], take(nn.Dense(f)(x), near), take(nn.Dense(f)(x), near)
            to = nn.Dense(f)(nn.relu(nn.Dense(f)(places[:, :, None] - take(places, near))))
            a = nn.softmax(nn.Dense(f)(nn.relu(nn.Dense(f)(nn.LayerNorm()(q - k + to)))), 2)
            return x + nn.Dense(f)((a * (v + to)).sum(2))

    class Net(nn.Module):
        @nn.compact
        def __call__(self, places):
            x = nn.relu(nn.Dense(32)(places))
            for features, count in ((32, None), (64, 128), (128, 32)):
                if count:
                    chosen = jax.vmap(lambda p: apart(p, count))(lax.stop_gradient(places))
                    fewer = take(places, chosen)
                    near = nearest(fewer, places, 16)
                    x = nn.relu(nn.LayerNorm()(nn.Dense(features)(take(x, near)))).max(2)
                    places = fewer
                x = Layer()(nn.relu(nn.Dense(features)(x)), places)
            return nn.Dense(40)(nn.relu(nn.Dense(128)(x.mean(1))))

    return training_step(Net(), classes, optax.sgd(0.05, momentum=0.9), floats(8, 512, 3), integers(8))


@step
def actions_by_noise():
    """Sixteen actions of a robot at once, taken out of noise by a net along time (diffusion policy)."""

    class Block(nn.Module):
        features: int

        @nn.compact
        def __call__(self, x, told):
            mish = lambda x: x * jnp.tanh(nn.softplus(x))
            h = mish(nn.GroupNorm(8)(nn.Conv(self.features, (5,))(x)))
            scale, shift = jnp.split(nn.Dense(2 * self.features)(mish(told))[:, None], 2, -1)
            h = mish(nn.GroupNorm(8)(nn.Conv(self.features, (5,))(h * scale + shift)))
            return h + (nn.Conv(self.features, (1,))(x) if x.shape[-1] != self.features else x)

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x, time, seen):
            angle = time[:, None] * jnp.exp(-jnp.arange(64) * (jnp.log(10000.0) / 63))
            told = nn.Dense(256)(nn.silu(nn.Dense(512)(jnp.concatenate([jnp.sin(angle), jnp.cos(angle)], -1))))
            told = jnp.concatenate([told, seen], -1)
            kept = []
            for features in (128, 256, 512):
                x = Block(features)(Block(features)(x, told), told)
                if features < 512:
                    kept.append(x)
                    x = nn.Conv(features, (3,), (2,))(x)
            x = Block(512)(x, told)
            for features in (256, 128):
                x = nn.ConvTranspose(features, (4,), (2,))(x)
                x = Block(features)(Block(features)(jnp.concatenate([x, kept.pop()], -1), told), told)
            return nn.Conv(7, (1,))(nn.Conv(128, (5,))(x))

    batch = floats(64, 16, 7), floats(64), floats(64, 132), floats(64, 16, 7)
    return training_step(Net(), lambda out, x, time, seen, noise: square(out, noise), ADAM, *batch, inputs=3)


@step
def latent_keys():
    """Keys and values of all heads from one short vector a word; the word after the next is guessed, too (DeepSeek's latent attention, bf16)."""
    half, heads = jnp.bfloat16, 8
    dense = lambda f: nn.DenseGeneral(f, use_bias=False, dtype=half)
    norm = lambda: nn.RMSNorm(dtype=half)

    class Block(nn.Module):
        @nn.compact
        def __call__(self, x):
            h = norm()(x)
            t = x.shape[1]
            query = dense((heads, 96))(norm()(dense(192)(h)))
            short = dense(160)(h)
            latent, turned = norm()(short[..., :128]), rotated(short[..., None, 128:])
            key, value = jnp.split(dense((heads, 128))(latent), 2, -1)
            plain, own = query[..., :64], rotated(query[..., 64:])
            scores = jnp.einsum("bqhd,bkhd->bhqk", plain, key) + jnp.einsum("bqhd,bkd->bhqk", own, turned[:, :, 0])
            a = nn.softmax(jnp.where(jnp.tril(jnp.ones((t, t), bool)), scores.astype(jnp.float32) / 96**0.5, -1e30)).astype(half)
            x = x + nn.DenseGeneral(512, (-2, -1), use_bias=False, dtype=half)(jnp.einsum("bhqk,bkhd->bqhd", a, value))
            return x + Gated(1024)(norm()(x))

    class Net(nn.Module):
        @nn.compact
        def __call__(self, words):
            table, out = nn.Embed(8192, 512, dtype=half), dense(8192)
            each = table(words)
            x = each
            for _ in range(3):
                x = Block()(x)
            later = jnp.concatenate([norm()(x[:, :-1]), norm()(each[:, 1:])], -1)
            return out(norm()(x)), out(norm()(Block()(dense(512)(later))))

    def loss(out, words):
        one, two = (o.astype(jnp.float32) for o in out)
        return cross_entropy(one[:, :-1], words[:, 1:]) + 0.3 * cross_entropy(two[:, :-1], words[:, 2:])

    return training_step(Net(), loss, ADAM, integers(4, 256))


if __name__ == "__main__":
    # XLA for TPUs does not know the calls to LAPACK that a CPU's triangular systems are.
    print_named(STEPS, lambda name: STEPS.stablehlo(name, ("tpu",) if name == "delta_rule" else None), __doc__)
