"""Single operations of jax.numpy, jax.lax and jax.image at sizes that a seed draws, most of them odd.

    python bench/programs/drawn_operations.py 7 > operation_7.mlir

A chain of operations (drawn_functions.py) hides what one of them costs; here is one each, as libraries write it: convolutions of any kind, norms,
attention, gathers, scatters, segments, running sums, sorts, moves, signals, linear algebra, resizing, recurrent nets, einsums, losses, reductions,
pooling, patches, control flow; two of three with the gradients of a square error. drawn_operations.md says what came out. The line on stderr says what
was drawn. Needs jax.
"""

import os

os.environ["JAX_PLATFORMS"] = "cpu"

import sys

import jax
import jax.numpy as jnp
import numpy as np

lax, nn = jax.lax, jax.nn
EXTENTS = (1, 2, 3, 4, 5, 7, 8, 9, 12, 16, 17, 31, 32, 33, 48, 50, 64, 65, 77, 100, 128, 129, 197, 200, 256, 300)
MOST = 1 << 22  # Elements of a result.
OPERATIONS = {}


def operation(make):
    """A function of a drawing, which asks for its arguments and returns the operation on them."""
    OPERATIONS[make.__name__.strip("_")] = make
    return make


class Drawing:
    def __init__(self, seed):
        self.random, self.arguments, self.type = np.random.default_rng(seed), [], None

    def one(self, *options):
        return options[int(self.random.integers(len(options)))]

    def between(self, least, most):
        return int(self.random.integers(least, most + 1))

    def extent(self):
        return self.one(*EXTENTS)

    def shape(self, least, most, elements):
        """So many dimensions, the longest ones halved until there are no more elements."""
        extents = [self.extent() for _ in range(self.between(least, most))]
        while np.prod(extents) > elements:
            extents[int(np.argmax(extents))] //= 2
        return extents

    def argument(self, *extents, type=None):
        self.arguments.append(jax.ShapeDtypeStruct(tuple(int(e) for e in extents), type or self.type))


def images(d):
    """The dimension numbers of images of d dimensions, the features last."""
    return "N" + "DHW"[-d:] + "C", "DHW"[-d:] + "IO", "N" + "DHW"[-d:] + "C"


@operation
def conv(r):
    d, groups = r.one(1, 2, 2, 2, 3), r.one(1, 1, 1, 2, 4)
    inputs, outputs = groups * r.one(1, 2, 3, 8, 16, 33, 64), groups * r.one(1, 2, 3, 8, 16, 40, 64)
    batch = r.one(1, 2, 3, 8, 16, 33)
    pixels = [r.between(5, {1: 600, 2: 60, 3: 14}[d]) for _ in range(d)]
    kernel = [r.between(1, 5) for _ in range(d)]
    strides = [r.between(1, 3) for _ in range(d)]
    apart = [r.one(1, 1, 1, 2, 3) for _ in range(d)]
    spread = [r.one(1, 1, 1, 2) for _ in range(d)]
    padding = r.one("SAME", "VALID") if max(spread) == 1 else [(r.between(0, 2), r.between(0, 3)) for _ in range(d)]
    r.argument(batch, *pixels, inputs)
    r.argument(*kernel, inputs // groups, outputs)
    return lambda x, w: lax.conv_general_dilated(x, w, strides, padding, spread, apart, images(d), groups)


@operation
def conv_transpose(r):
    d = r.one(1, 2, 2)
    inputs, outputs = r.extent(), r.extent()
    batch = r.one(1, 2, 8, 16)
    pixels = [r.between(3, 30) for _ in range(d)]
    kernel = [r.between(1, 5) for _ in range(d)]
    strides = [r.between(1, 4) for _ in range(d)]
    r.argument(batch, *pixels, inputs)
    r.argument(*kernel, inputs, outputs)
    padding = r.one("SAME", "VALID")
    return lambda x, w: lax.conv_transpose(x, w, strides, padding, dimension_numbers=images(d))


@operation
def norm(r):
    extents = r.shape(2, 4, 1 << 21)
    along = tuple(sorted(set(r.between(0, len(extents) - 1) for _ in range(r.between(1, 3)))))
    r.argument(*extents)
    is_along = bool(r.between(0, 1))
    scale = [1 if (i in along) == is_along else e for i, e in enumerate(extents)]
    r.argument(*scale)
    r.argument(*scale)
    return lambda x, g, b: (x - x.mean(along, keepdims=True)) * lax.rsqrt(x.var(along, keepdims=True) + 1e-5) * g + b


@operation
def groupnorm(r):
    batch, height, width = r.one(1, 2, 8), r.between(3, 40), r.between(3, 40)
    groups = r.one(2, 4, 8, 32)
    features = groups * r.one(1, 2, 3, 4, 16)
    r.argument(batch, height, width, features)
    r.argument(features)

    def normed(x, scale):
        y = x.reshape(batch, height, width, groups, features // groups)
        y = (y - y.mean((1, 2, 4), keepdims=True)) / jnp.sqrt(y.var((1, 2, 4), keepdims=True) + 1e-5)
        return nn.silu(y.reshape(x.shape) * scale)

    return normed


@operation
def attention(r):
    batch, heads = r.one(1, 2, 3, 8), r.one(1, 2, 3, 8)
    queries, keys, size = r.one(1, 7, 16, 50, 77, 128, 197), r.one(7, 16, 50, 77, 128, 197), r.one(5, 16, 32, 33, 64)
    of_keys = r.one(1, heads)
    r.argument(batch, queries, heads, size)
    r.argument(batch, keys, of_keys, size)
    r.argument(batch, keys, of_keys, size)
    is_causal = r.between(0, 1)

    def attended(q, k, v):
        k, v = (jnp.broadcast_to(a, (batch, keys, heads, size)) for a in (k, v))
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / size**0.5
        if is_causal:
            scores = jnp.where(jnp.arange(queries)[:, None] + keys - queries >= jnp.arange(keys)[None], scores, -1e9)
        return jnp.einsum("bhqk,bkhd->bqhd", nn.softmax(scores, -1), v)

    return attended


@operation
def gather(r):
    extents = r.shape(1, 4, 1 << 20)
    along = r.between(0, len(extents) - 1)
    r.argument(*extents)
    places = [r.extent() for _ in range(r.between(0, 2))]
    while np.prod(places + extents) / extents[along] > 1 << 21:
        places[int(np.argmax(places))] //= 2
    r.argument(*places, type=jnp.int32)
    mode = r.one("clip", "wrap", "fill")
    return lambda x, i: jnp.take(x, i, along, mode=mode)


@operation
def take_along(r):
    extents = r.shape(1, 3, 1 << 18)
    along = r.between(0, len(extents) - 1)
    r.argument(*extents)
    places = list(extents)
    places[along] = r.one(1, 2, 5, extents[along])
    r.argument(*places, type=jnp.int32)
    return lambda x, i: jnp.take_along_axis(x, i % extents[along], along)


@operation
def scatter(r):
    extents = r.shape(1, 4, 1 << 19)
    along, count = r.between(0, len(extents) - 1), r.extent()
    updates = list(extents)
    updates[along] = count
    while np.prod(updates) > 1 << 20:
        updates[along] = count = count // 2
    r.argument(*extents)
    r.argument(count, type=jnp.int32)
    r.argument(*updates)
    how = r.one("set", "add", "max", "mul", "min")
    return lambda x, i, u: getattr(x.at[(slice(None),) * along + (i % extents[along],)], how)(u)


@operation
def segment(r):
    rows, features, segments = r.between(2, 5000), r.one(1, 3, 16, 100, 128), r.between(1, 300)
    r.argument(rows, features)
    r.argument(rows, type=jnp.int32)
    how = r.one(jax.ops.segment_sum, jax.ops.segment_max, jax.ops.segment_min, jax.ops.segment_prod)
    return lambda x, i: how(x, i % segments, segments)


@operation
def scan(r):
    extents = r.shape(1, 4, 1 << 20)
    along = r.between(0, len(extents) - 1)
    r.argument(*extents)
    how, backwards = r.one(jnp.cumsum, lax.cummax, lax.cummin, lax.cumlogsumexp, lax.cumprod), bool(r.between(0, 1))
    return (lambda x: jnp.cumsum(x, along)) if how is jnp.cumsum else (lambda x: how(x, along, reverse=backwards))


@operation
def sort(r):
    extents = r.shape(1, 4, 1 << 18)
    along = r.between(0, len(extents) - 1)
    r.argument(*extents)
    what = r.one("sort", "top", "median", "argsort", "rank")
    if what == "top":
        count = min(extents[-1], r.between(1, 10))
        return lambda x: lax.top_k(x, count)[0]
    return {
        "sort": lambda x: jnp.sort(x, along),
        "median": lambda x: jnp.median(x.astype(jnp.float32), along),
        "argsort": lambda x: jnp.take_along_axis(x, jnp.argsort(-x, along), along),
        "rank": lambda x: x * jnp.argsort(jnp.argsort(x, along), along),
    }[what]


@operation
def moves(r):
    extents = r.shape(1, 4, 1 << 19)
    rank, along = len(extents), r.between(0, len(extents) - 1)
    r.argument(*extents)
    length, what = extents[along], r.one("pad", "roll", "flip", "repeat", "tile", "diff", "split", "stack", "shift", "perm", "kron")
    sides = [tuple(r.between(0, min(3, max(0, e - 1))) for _ in range(2)) for e in extents]
    mode, count, order = r.one("reflect", "edge", "wrap", "symmetric", "constant", "linear_ramp"), r.between(1, 5), list(r.random.permutation(rank))

    def shifted(x):
        first = jnp.zeros_like(lax.slice_in_dim(x, 0, 1, axis=along))
        return jnp.concatenate([first, lax.slice_in_dim(x, 0, length - 1, axis=along)], along) + x

    return {
        "pad": lambda x: jnp.pad(x, sides, mode),
        "roll": lambda x: jnp.roll(x, count, along) * x,
        "flip": lambda x: jnp.flip(x, along) - x,
        "repeat": lambda x: jnp.repeat(x, count, along),
        "tile": lambda x: jnp.tile(x, [count if i == along else 1 for i in range(rank)]),
        "diff": lambda x: jnp.diff(x, axis=along) if length > 1 else x,
        "split": lambda x: jnp.concatenate(jnp.array_split(x, min(count, length), along)[::-1], along),
        "stack": lambda x: jnp.stack([x, nn.relu(x), x * 2], along),
        "shift": shifted,
        "perm": lambda x: x.transpose(order).reshape(-1, x.shape[order[-1]]) if rank > 1 else x,
        "kron": lambda x: jnp.kron(x.reshape(-1)[:50], jnp.arange(7, dtype=x.dtype)),
    }[what]


@operation
def signal_(r):
    count, length = r.one(1, 3, 8), r.one(16, 50, 64, 100, 128, 200, 256, 512, 1000)
    r.argument(count, length)
    what = r.one("fft", "rfft", "ifft", "convolve", "stft", "interp", "irfft", "fft2")
    f32 = lambda x: x.astype(jnp.float32)
    if what == "convolve":
        r.argument(r.between(2, 40))
        return lambda x, w: jax.vmap(lambda x: jnp.convolve(x, w, "same"))(x)
    if what == "stft":
        wide = r.one(16, 10, 32)
        frames = lambda x: jnp.stack([x[:, i : i + wide] for i in range(0, length - wide + 1, wide // 2)], 1)
        return lambda x: jnp.abs(jnp.fft.rfft(f32(frames(x)))) + 1e-3 if length >= wide else x
    if what == "interp":
        r.argument(r.between(5, 300))
        return lambda x, t: jax.vmap(lambda x: jnp.interp(nn.sigmoid(t) * length, jnp.arange(length, dtype=jnp.float32), f32(x)))(x)
    return {
        "fft": lambda x: jnp.abs(jnp.fft.fft(f32(x))),
        "rfft": lambda x: jnp.abs(jnp.fft.rfft(f32(x))) + 1e-3,
        "ifft": lambda x: jnp.real(jnp.fft.ifft(jnp.fft.fft(f32(x)) * jnp.arange(length))),
        "irfft": lambda x: jnp.fft.irfft(f32(x[:, : length // 2 + 1]), n=length),
        "fft2": lambda x: jnp.real(jnp.fft.fft2(f32(x))),
    }[what]


@operation
def linalg(r):
    size, batch = r.one(1, 2, 3, 5, 8, 16, 20, 33, 50), r.one((), (1,), (3,), (8,), (2, 3))
    r.argument(*batch, size, size)
    what = r.one("chol", "solve", "inv", "det", "qr", "tri", "eigh", "lu")
    one = jnp.eye(size)
    definite = lambda x: x @ jnp.swapaxes(x, -1, -2) + size * one
    if what == "solve":
        r.argument(*batch, size, r.between(1, 5))
        return lambda x, y: jnp.linalg.solve(x.astype(jnp.float32) + 3 * size * one, y.astype(jnp.float32))
    function = {
        "chol": lambda x: jnp.linalg.cholesky(definite(x)),
        "inv": lambda x: jnp.linalg.inv(definite(x)),
        "det": lambda x: jnp.log(jnp.linalg.det(definite(x) / size)),
        "qr": lambda x: jnp.abs(jnp.linalg.qr(x + 3 * size * one)[1]),
        "tri": lambda x: jax.scipy.linalg.solve_triangular(jnp.tril(x) + size * one, x, lower=True),
        "eigh": lambda x: jnp.linalg.eigvalsh(definite(x)),
        "lu": lambda x: jax.scipy.linalg.lu_factor(definite(x))[0],
    }[what]
    return lambda x: function(x.astype(jnp.float32))


@operation
def resize(r):
    batch, height, width, features = r.one(1, 2, 8), r.between(2, 60), r.between(2, 60), r.one(1, 3, 16, 64)
    taller, wider = r.between(1, 90), r.between(1, 90)
    method = r.one("nearest", "linear", "cubic", "lanczos3")
    r.argument(batch, height, width, features)
    smooth = bool(r.between(0, 1))
    return lambda x: jax.image.resize(x, (batch, taller, wider, features), method, antialias=smooth)


@operation
def rnn(r):
    batch, steps, inputs, size = r.one(1, 2, 8, 33), r.between(2, 30), r.one(3, 16, 40), r.one(8, 32, 50, 64)
    for extents in ((batch, steps, inputs), (inputs, 4 * size), (size, 4 * size), (4 * size,)):
        r.argument(*extents)
    backwards = bool(r.between(0, 1))

    def outputs(x, w, u, b):
        def step(state, x):
            h, c = state
            forget, take, new, give = jnp.split(x @ w + h @ u + b, 4, -1)
            c = nn.sigmoid(forget) * c + nn.sigmoid(take) * jnp.tanh(new)
            h = nn.sigmoid(give) * jnp.tanh(c)
            return (h, c), h

        return lax.scan(step, (jnp.zeros((batch, size), x.dtype),) * 2, x.swapaxes(0, 1), reverse=backwards)[1]

    return outputs


@operation
def einsum(r):
    products = "bij,bjk->bik ij,jk->ik bijk,bkl->bijl abc,cd->abd abc,abd->acd ab,ab->a abc,dc->adb bnd,bmd->bnm bhqd,bkd->bhqk ijk,jil->kl"
    product = r.one(*products.split(), "ab,cb->ca", "abcd,acbe->abde", "i,j->ij", "abi,abj->abij", "abij,cj->abci")
    extents = {letter: r.one(1, 2, 3, 5, 8, 16, 20, 33, 64, 100, 128, 150) for letter in sorted(set(product)) if letter.isalpha()}
    arrays = product.replace("->", ",").split(",")
    while max(np.prod([extents[letter] for letter in array]) for array in arrays) > 1 << 20:
        extents[max(extents, key=extents.get)] //= 2
    for array in arrays[:-1]:
        r.argument(*[extents[letter] for letter in array])
    return lambda x, y: jnp.einsum(product, x, y)


@operation
def losses(r):
    batch, steps, classes = r.one(1, 2, 8, 33), r.one(1, 7, 50, 128), r.one(2, 3, 10, 33, 128, 1000)
    r.argument(batch, steps, classes)
    r.argument(batch, steps, type=jnp.int32)
    what = r.one("xent", "smooth", "focal", "margin", "kl")

    def loss(x, labels):
        labels, x = labels % classes, x.astype(jnp.float32)
        logs = nn.log_softmax(x)
        own = lambda a: jnp.take_along_axis(a, labels[..., None], -1)
        right = own(logs)[..., 0]
        smooth = nn.one_hot(labels, classes) * 0.9 + 0.1 / classes
        return {
            "xent": -right,
            "smooth": -(0.9 * right + 0.1 * logs.mean(-1)),
            "focal": -((1 - jnp.exp(right)) ** 2) * right,
            "margin": jnp.maximum(0, 1 + x - own(x)).sum(-1),
            "kl": (smooth * (jnp.log(smooth) - logs)).sum(-1),
        }[what]

    return loss


@operation
def reduce(r):
    extents = r.shape(1, 5, 1 << 21)
    along = tuple(sorted(set(r.between(0, len(extents) - 1) for _ in range(r.between(1, 3)))))
    r.argument(*extents)
    what = r.one("sum", "max", "min", "mean", "var", "std", "logsumexp", "prod", "argmax", "norm", "any", "softmax", "log_softmax")
    functions = {
        "logsumexp": lambda x: nn.logsumexp(x, along),
        "argmax": lambda x: x * jnp.argmax(x, along[0], keepdims=True),
        "norm": lambda x: jnp.sqrt((x * x).sum(along, keepdims=True) + 1) * x,
        "any": lambda x: jnp.where((x > 1).any(along, keepdims=True), x, 2 * x),
        "softmax": lambda x: nn.softmax(x, along),
        "log_softmax": lambda x: nn.log_softmax(x, along),
    }
    return functions.get(what, lambda x: getattr(jnp, what)(x, along))


@operation
def avgpool(r):
    batch, height, width, features = r.one(1, 2, 8, 16), r.between(4, 60), r.between(4, 60), r.one(1, 3, 16, 64, 128)
    window = (1, r.between(1, 4), r.between(1, 4), 1)
    strides = (1, r.between(1, 3), r.between(1, 3), 1)
    padding = r.one("SAME", "VALID")
    r.argument(batch, height, width, features)
    counts_padding = bool(r.between(0, 1))
    sums = lambda x: lax.reduce_window(x, 0.0, lax.add, window, strides, padding)
    return lambda x: sums(x) / (np.prod(window) if counts_padding else sums(jnp.ones_like(x)))


@operation
def patches(r):
    batch, side, features = r.one(1, 2, 8), r.between(4, 40), r.one(1, 3, 16)
    patch = r.one(2, 3, 4)
    side = side // patch * patch or patch
    count = side // patch
    r.argument(batch, side, side, features)
    what = r.one("im2col", "space", "depth", "shuffle")
    numbers = ("NHWC", "HWIO", "NHWC")
    tiled = lambda x: jnp.tile(x, (1, 1, 1, patch * patch)).reshape(batch, side, side, features, patch, patch)
    return {
        "im2col": lambda x: lax.conv_general_dilated_patches(x, (patch, patch), (1, 1), "SAME", dimension_numbers=numbers),
        "space": lambda x: x.reshape(batch, count, patch, count, patch, features).transpose(0, 1, 3, 2, 4, 5).reshape(batch, count * count, -1),
        "depth": lambda x: jnp.repeat(jnp.repeat(x, patch, 1), patch, 2),
        "shuffle": lambda x: tiled(x).transpose(0, 1, 4, 2, 5, 3).reshape(batch, side * patch, side * patch, features),
    }[what]


@operation
def control(r):
    rows, columns = r.extent(), r.extent()
    r.argument(rows, columns)
    what, steps = r.one("fori", "while", "cond", "vmapcond", "scan2", "map"), r.between(2, 8)
    goes_on = lambda s: (s[0] < steps) & (jnp.abs(s[1]).max() > 1e-6)
    return {
        "fori": lambda x: lax.fori_loop(0, steps, lambda i, x: x * 0.5 + jnp.roll(x, i, 0), x),
        "while": lambda x: lax.while_loop(goes_on, lambda s: (s[0] + 1, s[1] * 0.5 + jnp.tanh(s[1])), (0, x))[1],
        "cond": lambda x: lax.cond(x.sum() > 0, lambda x: x * 2, lambda x: -x, x),
        "vmapcond": lambda x: jax.vmap(lambda v: lax.cond(v.sum() > 0, jnp.cumsum, lambda v: v * 3, v))(x),
        "scan2": lambda x: lax.scan(lambda c, v: (c * 0.9 + v, c), jnp.zeros((columns,), x.dtype), x)[1],
        "map": lambda x: lax.map(lambda v: (v - v.mean()) / jnp.sqrt(v.var() + 1), x),
    }[what]


def stablehlo(seed):
    """The text; None where the result is empty or too large."""
    r = Drawing(seed)
    names = sorted(OPERATIONS)
    name = names[seed % len(names)]
    r.type = r.one(jnp.float32, jnp.float32, jnp.bfloat16)
    trained = r.between(0, 2) < 2 and name != "control"
    function = OPERATIONS[name](r)
    result = jax.eval_shape(function, *r.arguments)
    if np.prod(result.shape) > MOST or 0 in result.shape:
        return None
    floating = tuple(i for i, a in enumerate(r.arguments) if a.dtype != jnp.int32)
    loss = lambda *a: (function(*a).astype(jnp.float32) ** 2).mean()
    gradients = lambda *a: jax.value_and_grad(loss, floating)(*a)
    text = None
    if trained and jnp.issubdtype(result.dtype, jnp.floating):
        try:
            text = jax.jit(gradients).lower(*r.arguments).as_text()
        except (NotImplementedError, ValueError):
            trained = False  # JAX has no gradient of it.
    said = [(a.shape, a.dtype.name) for a in r.arguments]
    print(f"{seed}: {name}{', gradients' if text else ''}, {said} -> {result.shape}", file=sys.stderr)
    return text or jax.jit(function).lower(*r.arguments).as_text()


if __name__ == "__main__":
    if len(sys.argv) != 2 or not sys.argv[1].isdigit():
        sys.exit("python bench/programs/drawn_operations.py SEED, a number, prints StableHLO")
    drawn = stablehlo(int(sys.argv[1]))
    sys.exit("an empty or too large result: take another seed") if drawn is None else print(drawn)
