"""Functions of jax.numpy that a seed draws: nobody chose them, so nobody can have built for them.

    python bench/programs/drawn_functions.py 7 > drawn_7.mlir

A seed draws the arrays and a chain of operations on them (elementwise, reductions, products, convolutions, windows, gathers, scatters, sorts, sums
that run along, and all that puts elements elsewhere), the type of numbers, and whether gradients are asked for. drawn_functions.md says what came
out, third_tries.py how to measure one. The line on stderr says what was drawn. Needs jax.
"""

import os

os.environ["JAX_PLATFORMS"] = "cpu"

import sys

import jax
import jax.numpy as jnp
import numpy as np

lax, nn = jax.lax, jax.nn
EXTENTS = (1, 2, 3, 4, 5, 7, 8, 10, 12, 16, 20, 28, 32, 50, 64, 100, 128, 200, 256, 300, 512, 784, 1000, 1024, 2048, 4096)
LEAST, MOST = 1 << 12, 1 << 21  # Elements of an array.


class Drawing:
    """What a seed says. The same seed says the same each time that the function is traced; arguments are asked for in the order of use."""

    def __init__(self, seed, arguments=None):
        self.random, self.arguments, self.asked, self.said = np.random.default_rng(seed), arguments, [], []
        self.type = self.one((jnp.float32, jnp.float32, jnp.float32, jnp.bfloat16))

    def one(self, options):
        return options[int(self.random.integers(len(options)))]

    def below(self, n):
        return int(self.random.integers(n))

    def argument(self, shape, type=None):
        """An array that the caller gives; zeros as long as only shapes are asked."""
        self.asked.append(jax.ShapeDtypeStruct(shape, type or self.type))
        return jnp.zeros(shape, type or self.type) if self.arguments is None else self.arguments[len(self.asked) - 1]

    def shape(self):
        while True:
            extents = tuple(self.one(EXTENTS) for _ in range(self.one((1, 2, 2, 3, 3, 4))))
            if LEAST <= np.prod(extents) <= MOST:
                return extents

    def axis(self, x):
        return self.below(x.ndim)

    def order(self, n):
        return tuple(int(i) for i in self.random.permutation(n))


def along(x, axis):
    """The extents of x but one."""
    return x.shape[:axis] + x.shape[axis + 1 :]


UNARY = dict(
    tanh=jnp.tanh,
    relu=nn.relu,
    gelu=nn.gelu,
    silu=nn.silu,
    exp=lambda x: jnp.exp(-jnp.abs(x)),
    log=lambda x: jnp.log1p(jnp.abs(x)),
    sqrt=lambda x: jnp.sqrt(jnp.abs(x) + 1e-3),
    square=lambda x: x * x,
    sigmoid=nn.sigmoid,
    sine=jnp.sin,
    inverse=lambda x: 1 / (1 + jnp.abs(x)),
    clipped=lambda x: jnp.clip(x, -1, 1),
    rounded=lambda x: jnp.where(x > 0, x, 0.1 * x),
)
REDUCED = dict(sum=jnp.sum, mean=jnp.mean, max=jnp.max, var=jnp.var, logsumexp=nn.logsumexp)
ALONG = dict(
    softmax=nn.softmax, log_softmax=nn.log_softmax, cumsum=jnp.cumsum, sort=jnp.sort, cummax=lambda x, axis: lax.cummax(x, axis), standardized=nn.standardize
)


def elementwise(d, x):
    name = d.one(tuple(UNARY))
    return name, UNARY[name](x)


def with_another(d, x):
    """x and an array of some of its extents."""
    shape = tuple(n if d.below(2) else 1 for n in x.shape)
    y = d.argument(shape)
    name = d.one(("plus", "times", "most", "where"))
    return f"{name} {shape}", dict(plus=lambda: x + y, times=lambda: x * y, most=lambda: jnp.maximum(x, y), where=lambda: jnp.where(y > 0, x, 0.5 * x))[name]()


def reduced(d, x):
    name = d.one(tuple(REDUCED))
    axes = tuple(sorted(d.order(x.ndim)[: d.one((1, 1, 2))]))
    y = REDUCED[name](x, axis=axes, keepdims=True)
    return f"less {name} along {axes}", x - y if d.below(2) else x * nn.sigmoid(y)


def smaller(d, x):
    name, axis = d.one(tuple(REDUCED)), d.axis(x)
    return f"{name} along {axis}", REDUCED[name](x, axis=axis)


def running(d, x):
    name, axis = d.one(tuple(ALONG)), d.axis(x)
    return f"{name} along {axis}", ALONG[name](x, axis=axis)


def transposed(d, x):
    order = d.order(x.ndim)
    return f"transposed {order}", x.transpose(order)


def reshaped(d, x):
    """Two neighbours joined, or one split."""
    if x.ndim > 1 and d.below(2):
        i = d.below(x.ndim - 1)
        shape = x.shape[:i] + (x.shape[i] * x.shape[i + 1],) + x.shape[i + 2 :]
    else:
        i = d.axis(x)
        parts = [k for k in (2, 3, 4, 5, 7, 8, 16, 32) if x.shape[i] % k == 0 and x.shape[i] > k]
        k = d.one(parts) if parts else 1
        shape = x.shape[:i] + ((k, x.shape[i] // k) if d.below(2) else (x.shape[i] // k, k)) + x.shape[i + 1 :]
    return f"reshaped {shape}", x.reshape(shape)


def moved(d, x):
    axis, n = d.axis(x), d.one((1, 2, 3, 5))
    name = d.one(("flip", "roll", "pad", "tile", "repeat", "joined", "cut", "stepped", "spread", "shifted"))
    at = lambda s: (slice(None),) * axis + (s,)
    wide = lambda low, high, inner=0: [(low, high, inner) if i == axis else (0, 0, 0) for i in range(x.ndim)]
    zero = np.zeros((), x.dtype)
    made = dict(
        flip=lambda: jnp.flip(x, axis),
        roll=lambda: jnp.roll(x, n, axis),
        pad=lambda: lax.pad(x, zero, wide(n, 1)),
        tile=lambda: jnp.concatenate([x] * (1 + n % 3), axis),
        repeat=lambda: jnp.repeat(x, 2, axis),
        joined=lambda: jnp.concatenate([x, jnp.tanh(x[at(slice(0, max(x.shape[axis] // 3, 1)))])], axis),
        cut=lambda: x[at(slice(min(n, x.shape[axis] // 2), None))],
        stepped=lambda: x[at(slice(x.shape[axis] % 2, None, 2))],
        spread=lambda: lax.pad(x, zero, wide(0, 1, 1)),
        shifted=lambda: x - jnp.roll(x, 1, axis),
    )
    return f"{name} along {axis}", made[name]()


def product(d, x):
    """One axis of x and one of a matrix of weights."""
    axis, n = d.axis(x), d.one((1, 3, 8, 10, 16, 32, 64, 100, 128, 256))
    w = d.argument((x.shape[axis], n))
    y = jnp.tensordot(x, w, ((axis,), (0,))) / np.sqrt(x.shape[axis]).astype(x.dtype)
    return f"product along {axis} into {n}", jnp.moveaxis(y, -1, axis) if d.below(2) else y


def with_itself(d, x):
    """Products of the vectors of x along an axis, pair by pair."""
    if x.ndim < 2:
        return "square", x * x
    i, k = d.order(x.ndim)[:2]
    if np.prod(x.shape) * x.shape[i] // x.shape[k] > MOST:
        return "half", 0.5 * x
    y = jnp.moveaxis(x, (i, k), (-2, -1))
    return f"pairs of {i} along {k}", jnp.matmul(y, y.swapaxes(-1, -2)) / np.sqrt(x.shape[k]).astype(x.dtype)


def convolved(d, x):
    """The last axis are features, the first the batch, what is between the window's."""
    dims = x.ndim - 2
    if dims not in (1, 2, 3):
        return "third", x / 3
    n, k, step = d.one((1, 4, 8, 16, 32, 64)), d.one((1, 3, 3, 4, 5)), d.one((1, 1, 1, 2))
    group = d.one((1, 1, 1, x.shape[-1]))
    n = x.shape[-1] if group > 1 else n
    w = d.argument((k,) * dims + (x.shape[-1] // group, n))
    order = ("N" + "XYZ"[:dims] + "C", "XYZ"[:dims] + "IO", "N" + "XYZ"[:dims] + "C")
    y = lax.conv_general_dilated(x, w, (step,) * dims, "SAME", dimension_numbers=order, feature_group_count=group)
    return f"convolved {k} into {n} by {step}" + (" depthwise" if group > 1 else ""), y / k


def pooled(d, x):
    axes, name, k = d.order(x.ndim)[: d.one((1, 2))], d.one(("max", "sum")), d.one((2, 3))
    window, steps = (tuple(n if i in axes else 1 for i in range(x.ndim)) for n in (k, d.one((1, 2))))
    initial, combine = (-np.inf, lax.max) if name == "max" else (0.0, lax.add)
    return f"{name} of windows {window} by {steps}", lax.reduce_window(x, np.array(initial, x.dtype), combine, window, steps, "SAME")


def taken(d, x):
    """Slices along an axis by their numbers, or sums of slices of one number, or one element of each row."""
    axis, name = d.axis(x), d.one(("slices", "sums", "elements"))
    n = x.shape[axis]
    if name == "slices":
        return f"slices along {axis}", jnp.take(x, d.argument((d.one((8, 64, 100, n)),), jnp.int32) % n, axis)
    if name == "sums":
        m = d.one((4, 16, 100))
        found = jax.ops.segment_sum(jnp.moveaxis(x, axis, 0), d.argument((n,), jnp.int32) % m, m)
        return f"sums of slices along {axis}", jnp.moveaxis(found, 0, axis)
    return f"elements along {axis}", jnp.take_along_axis(x, d.argument(x.shape[:axis] + (d.one((1, 2, 8)),) + x.shape[axis + 1 :], jnp.int32) % n, axis)


def chosen(d, x):
    """The largest of an axis, in their order."""
    axis = d.axis(x)
    k = min(d.one((1, 2, 5, 16)), x.shape[axis])
    y = jnp.moveaxis(lax.top_k(jnp.moveaxis(x, axis, -1), k)[0], -1, axis)
    return f"top {k} along {axis}", y


STEPS = (elementwise,) * 4 + (with_another,) * 4 + (reduced,) * 2 + (smaller, running, running) + (transposed,) * 2 + (reshaped,) * 3
STEPS += (moved,) * 4 + (product,) * 3 + (with_itself, convolved, convolved, pooled, pooled, taken, taken, chosen)


def drawn(d):
    """The results: the last array, and each that a step left aside."""
    x = d.argument(d.shape())
    d.said.append(f"{x.shape} {x.dtype}")
    left = []
    for _ in range(4 + d.below(7)):
        name, y = d.one(STEPS)(d, x)
        size = np.prod(y.shape)
        if y.ndim > 5 or not LEAST // 16 <= size <= 2 * MOST:
            continue
        d.said.append(name)
        if d.below(6) == 0:
            left.append(x)
        x = y.astype(d.type)
    return [x] + left[:2]


def stablehlo(seed):
    first = Drawing(seed)
    results = jax.eval_shape(lambda: drawn(first))
    arguments, floating = first.asked, [i for i, a in enumerate(first.asked) if a.dtype != jnp.int32]
    function = lambda *arguments: drawn(Drawing(seed, arguments))
    trained = np.random.default_rng(~seed & 0xFFFFFFFF).integers(5) < 3

    def gradients(*arguments):
        loss = lambda *arguments: sum(jnp.mean(y.astype(jnp.float32) ** 2) for y in function(*arguments))
        return jax.value_and_grad(loss, tuple(floating))(*arguments)

    print(f"{seed}: {'gradients of ' if trained else ''}{'; '.join(first.said)} -> {[r.shape for r in results]}", file=sys.stderr)
    return jax.jit(gradients if trained else function).lower(*arguments).as_text()


if __name__ == "__main__":
    if len(sys.argv) != 2 or not sys.argv[1].isdigit():
        sys.exit("python bench/programs/drawn_functions.py SEED, a number, prints StableHLO")
    print(stablehlo(int(sys.argv[1])))
