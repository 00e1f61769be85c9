"""Random sentences of jax.lax for tests/jax_differential.py --structures: one operation whose places, windows, orders and types
are drawn, or a loop; on arrays that take several tiles, or a part of one.

What decides a place, an order or a branch is an argument that both sides hold exactly. Around the operation stand moves that round
nothing, in front, and a function or a sum, behind; around both a gradient, a batch over some of the arguments, a derivative along a
direction, a second one, a loop, a checkpoint.
"""
import functools

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np

from jax_programs import Program, weighted_sum

lax = jax.lax
SIZES = [1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 31, 33, 64, 100, 127, 128, 129, 130, 200, 256, 257, 384, 513, 1000, 2049]
WHOLE = [np.int32, np.int32, np.uint32, np.int8, np.uint8, np.int16, np.uint16]
SHORT_FLOATS = [jnp.float16, jnp.bfloat16, jnp.float8_e4m3fn, jnp.float8_e5m2, jnp.float8_e4m3b11fnuz, jnp.float8_e4m3fnuz, jnp.float8_e5m2fnuz]
FORMS = ["plain"] * 4 + ["grad"] * 3 + ["vmap"] * 3 + ["vmap of grad", "grad of vmap", "jvp", "curvature", "scan", "grad of scan", "checkpoint"]


def now(type):
    """A floating type; fp64 where the whole function is asked for in fp64."""
    return np.float64 if jax.config.jax_enable_x64 else type


def counted(n):
    return jnp.arange(n, dtype=jnp.int32)


def is_float(array):
    return jnp.issubdtype(array.dtype, jnp.floating)


class StructureProgram(Program):
    """An operation, what stands around it, and its derivatives and batches."""

    for_tpu = True

    def __init__(self, seed):
        self.random = np.random.default_rng(seed)
        self.arguments = []
        self.type = self.pick([np.float32] * 5 + [ml_dtypes.bfloat16, np.float16])
        self.allowed = 5e-3 if self.type == np.float16 else 2e-4
        self.word = self.pick(WORDS)
        self.core = self.word(self)
        self.after = self.pick(["nothing", "nothing", "nothing", "tanh", "sum", "transposed", "shifted", "flat", "normalised"])
        self.axis = int(self.random.integers(8))
        self.form = self.pick(FORMS)
        self.batched = [not self.maybe(3) for _ in self.arguments]
        self.axes = [int(self.random.integers(3)) for _ in self.arguments]
        if not any(is_float(np.asarray(a)) for a in self.arguments) and self.form not in ("plain", "vmap", "scan"):
            self.form = "plain"

    def least(self, outputs):
        """Sums of what cancels are rounding alone."""
        return 1e-2

    def maybe(self, one_in):
        return int(self.random.integers(one_in)) == 0

    def below(self, n, least=0):
        return int(self.random.integers(least, n))

    def extents(self, rank, most=100_000):
        """So many sizes whose product is at most `most`."""
        sizes = [self.pick(SIZES) for _ in range(rank)]
        while np.prod(sizes) > most:
            i = int(np.argmax(sizes))
            sizes[i] = self.pick([n for n in SIZES if n < sizes[i]])
        return tuple(sizes)

    def add(self, array):
        self.arguments.append(array)
        return len(self.arguments) - 1

    def floats(self, *shape, type=None):
        """An argument of few bits behind a move that rounds nothing; a function from all arguments to it."""
        type = type or self.type
        draw = lambda shape: (self.random.integers(-32, 33, shape) / 16).astype(type)
        how = self.pick(["as it is"] * 4 + ["turned", "part", "flat", "halved", "chosen", "from rows", "whole"])
        if how == "turned" and len(shape) > 1:
            order = [int(i) for i in self.random.permutation(len(shape))]
            at = self.add(draw([shape[i] for i in order]))
            return lambda a: jnp.transpose(a[at], np.argsort(order))
        if how == "part":
            low = [self.pick([0, 1, 3, 8]) for _ in shape]
            at = self.add(draw([n + l + self.pick([0, 1, 5]) for n, l in zip(shape, low)]))
            return lambda a: lax.slice(a[at], low, [l + n for l, n in zip(low, shape)])
        if how == "flat":
            at = self.add(draw((int(np.prod(shape)),)))
            return lambda a: a[at].reshape(shape)
        if how == "from rows" and len(shape) > 1:
            at = self.add(draw(shape[1:]))
            scale = ((np.arange(shape[0]) % 5 - 2) / 2).astype(type).reshape((-1,) + (1,) * (len(shape) - 1))
            return lambda a: a[at] * scale
        if how == "whole":
            at = self.add(self.random.integers(-32, 33, shape).astype(np.int32))
            return lambda a: a[at].astype(now(type)) * 0.0625
        at = self.add(draw(shape))
        if how == "halved":
            return lambda a: a[at] * -0.5
        if how == "chosen":
            return lambda a: jnp.where(a[at] > 1, jnp.asarray(0.25, a[at].dtype), a[at])
        return lambda a: a[at]

    def whole(self, low, high, *shape, type=np.int32):
        """An argument of integers from low to high, high excluded."""
        at = self.add(self.random.integers(low, high, shape).astype(type))
        return lambda a: a[at]

    def mask(self, *shape):
        at = self.add(self.random.random(shape) < 0.5)
        return lambda a: a[at]

    def behind(self, y):
        """What reads a result: its shape and type stay, or not."""
        if not is_float(y) or y.ndim == 0 or y.size == 0:
            return y
        axis = self.axis % y.ndim
        if self.after == "tanh":
            return jnp.tanh(y)
        if self.after == "sum":
            return jnp.sum(y.astype(jnp.float32), axis) * jnp.float32(y.shape[axis] ** -0.5)
        if self.after == "transposed":
            return jnp.moveaxis(y, axis, 0)
        if self.after == "shifted":
            return jnp.concatenate([lax.slice_in_dim(y, y.shape[axis] // 2, None, axis=axis), y * jnp.asarray(0.5, y.dtype)], axis)
        if self.after == "flat":
            return y.reshape(-1) + jnp.asarray(0.25, y.dtype)
        if self.after == "normalised":
            z = y.astype(jnp.float32)
            return z * lax.rsqrt(jnp.mean(z * z, axis, keepdims=True) + 1)
        return y

    def apply(self, *arguments):
        return jax.tree.map(self.behind, self.core(arguments))

    def total(self, floats, arguments):
        given = [floats.get(i, a) for i, a in enumerate(arguments)]
        parts = [weighted_sum(y) for y in jax.tree.leaves(self.apply(*given)) if is_float(y)]
        if not parts:
            raise ValueError("no floats in the result")
        return sum(parts)

    def gradient(self, *arguments):
        floats = {i: a for i, a in enumerate(arguments) if is_float(a)}
        return jax.grad(self.total)(floats, arguments)

    def batch(self, a, i):
        """Three of an argument along one of its dimensions."""
        axis = min(self.axes[i], a.ndim)
        return jnp.stack([a, jnp.flip(a), jnp.roll(a, 1)] if a.ndim else [a] * 3, axis), axis

    def over_batch(self, f, arguments):
        many = [self.batch(a, i) if self.batched[i] else (a, None) for i, a in enumerate(arguments)]
        if not any(self.batched):
            many[0] = self.batch(arguments[0], 0)
        return jax.vmap(f, [axis for _, axis in many])(*(a for a, _ in many))

    def __call__(self, *arguments):
        floats = {i: a for i, a in enumerate(arguments) if is_float(a)}
        if self.form == "grad":
            return self.gradient(*arguments)
        if self.form == "vmap":
            return self.over_batch(self.apply, arguments)
        if self.form == "vmap of grad":
            return self.over_batch(self.gradient, arguments)
        if self.form == "grad of vmap":
            def total(floats):
                results = self.over_batch(self.apply, [floats.get(i, a) for i, a in enumerate(arguments)])
                return sum(weighted_sum(y) for y in jax.tree.leaves(results) if is_float(y)) + jnp.float32(0)
            return jax.grad(total)(floats)
        if self.form in ("jvp", "curvature"):
            direction = {i: jnp.flip(a) * jnp.asarray(0.5, a.dtype) for i, a in floats.items()}
            f = lambda floats: self.total(floats, arguments)
            return jax.jvp(f if self.form == "jvp" else jax.grad(f), (floats,), (direction,))
        if self.form in ("scan", "grad of scan"):
            return self.looped(arguments, floats)
        if self.form == "checkpoint":
            return jax.grad(jax.checkpoint(lambda floats: self.total(floats, arguments) / 64))(floats)
        return self.apply(*arguments)

    def looped(self, arguments, floats):
        def body(factor, more):
            given = [a * factor.astype(a.dtype) if i in floats else a for i, a in enumerate(arguments)]
            return factor * 0.5, (self.apply(*given), more)
        def run(factor):
            return lax.scan(jax.checkpoint(body) if self.axis % 2 else body, factor, counted(3))[1][0]
        if self.form == "scan":
            return run(jnp.float32(1))
        return jax.grad(lambda f: sum(weighted_sum(y) / 64 for y in jax.tree.leaves(run(f)) if is_float(y)) + jnp.float32(0))(jnp.float32(1))


def sorting(p):
    """Along any dimension, by several keys, of any type."""
    name = p.pick(["sort", "argsort", "keys", "top", "bottom", "extreme", "median", "search", "rank", "unique", "whole", "lexsort"])
    shape = p.extents(p.pick([1, 2, 2, 3]), 20_000)
    axis, x = p.below(len(shape)), p.floats(*shape)
    if name == "sort":
        descending = p.maybe(2)
        return lambda a: jnp.sort(x(a), axis, descending=descending)
    if name == "argsort":
        descending = p.maybe(2)
        return lambda a: jnp.argsort(x(a), axis, descending=descending)
    if name == "keys":
        k, n = p.whole(0, 5, *shape, type=p.pick(WHOLE)), p.pick([1, 2])
        return lambda a: lax.sort((k(a), x(a), lax.broadcasted_iota(jnp.int32, shape, axis)), axis, is_stable=True, num_keys=n)
    if name in ("top", "bottom"):
        n = min(shape[axis], p.pick([1, 2, 3, 8, 50, 128, 200]))
        return lambda a: lax.top_k(jnp.moveaxis(-x(a) if name == "bottom" else x(a), axis, -1), n)
    if name == "extreme":
        f = p.pick([jnp.argmax, jnp.argmin, jnp.nanargmax])
        return lambda a: f(x(a), axis if len(shape) < 3 or axis else None)
    if name == "median":
        return lambda a: jnp.quantile(x(a).astype(jnp.float32), jnp.float32([0.25, 0.5]), axis)
    if name == "search":
        v, side, method = p.floats(*p.extents(p.pick([1, 2]), 2000)), p.pick(["left", "right"]), p.pick(["scan", "sort", "compare_all"])
        return lambda a: jnp.searchsorted(jnp.sort(x(a).ravel()[:1000]), v(a), side, method=method)
    if name == "unique":
        k = p.whole(0, 9, p.pick(SIZES[:20]))
        return lambda a: jnp.unique(k(a), return_inverse=True, return_counts=True, size=9, fill_value=-1)
    if name == "rank":
        return lambda a: jnp.argsort(jnp.argsort(x(a), axis), axis).astype(jnp.int16)
    if name == "whole":
        k = p.whole(0, 120, *shape, type=p.pick(WHOLE))
        return lambda a: (jnp.sort(k(a), axis), jnp.argsort(k(a), axis, descending=True))
    k = p.whole(0, 3, shape[axis])
    return lambda a: jnp.lexsort((jnp.moveaxis(x(a), axis, 0).reshape(shape[axis], -1)[:, 0], k(a)))


def segments(p):
    n, c, groups = p.pick(SIZES), p.pick(SIZES[:18]), p.pick([1, 2, 5, 8, 50, 128, 300])
    f = getattr(jax.ops, "segment_" + p.pick(["sum", "sum", "max", "min", "prod"]))
    type = p.pick([p.type, p.type, np.int32, np.int8])
    x = p.floats(n, c) if type == p.type else p.whole(-3, 4, n, c, type=type)
    beyond = p.pick([0, 0, 2])
    ids, ordered = p.whole(-beyond, groups + beyond, n), p.maybe(3)
    def step(a):
        k = jnp.sort(ids(a)) if ordered else ids(a)
        y = f(x(a) * 0.5 if f is jax.ops.segment_prod and is_float(x(a)) else x(a), k, groups, indices_are_sorted=ordered)
        return jnp.where(jnp.isfinite(y), y, 0) if is_float(y) else y
    return step


def places(p, shape, unique):
    """An index of some dimensions of an array, as JAX writes it: arrays at some, slices at others."""
    rank, taken = len(shape), []
    among = sorted(int(i) for i in p.random.permutation(rank)[:p.below(rank + 1, 1)])
    count = p.pick([(1,), (3,), (8,), (5, 2), (40,), (129,)])
    beyond = p.pick([0, 0, 0, 3])
    for i in among:
        if unique:
            count = (min(int(np.prod(count)), min(shape[j] for j in among)),)
            at = p.add(p.random.permutation(shape[i])[:count[0]].astype(np.int32))
        else:
            at = p.add(p.random.integers(-beyond, shape[i] + beyond, count).astype(p.pick([np.int32, np.int32, np.int8]) if shape[i] < 100 else np.int32))
        taken.append(at)
    outer = len(among) == 2 and not unique and len(count) == 1 and p.maybe(2)
    def index(a):
        arrays = [a[at] for at in taken]
        if outer:
            arrays = [arrays[0][:, None], arrays[1][None, :]]
        result = [slice(None)] * rank
        for i, array in zip(among, arrays):
            result[i] = array
        return tuple(result)
    return index


def scattering(p):
    shape = p.extents(p.pick([1, 2, 2, 3, 4]), 40_000)
    name, mode = p.pick(["set", "add", "add", "max", "min", "multiply", "apply"]), p.pick(["clip", "drop", None])
    type = p.pick([p.type, p.type, np.int32, np.uint8])
    x = p.floats(*shape) if type == p.type else p.whole(0, 5, *shape, type=type)
    index = places(p, shape, name in ("set", "apply"))
    seed = p.below(7)
    def step(a):
        given, at = x(a), index(a)
        extent = jax.eval_shape(lambda g, at: g[at], given, at).shape
        rows = ((np.arange(int(np.prod(extent))) + seed) % 9 / 8 + 0.25 if is_float(given) else np.arange(int(np.prod(extent))) % 3 + 1)
        if name == "apply":
            return given.at[at].apply(lambda t: t * 2, mode=mode)
        return getattr(given.at[at], name)(jnp.asarray(rows.reshape(extent), given.dtype), mode=mode)
    return step


def gathering(p):
    shape = p.extents(p.pick([1, 2, 2, 3, 4]), 40_000)
    type = p.pick([p.type, p.type, np.int32, np.uint8, bool])
    x = p.floats(*shape) if type == p.type else p.whole(0, 2, *shape, type=type)
    name, mode = p.pick(["places", "along", "take", "one hot"]), p.pick(["clip", "fill", "promise_in_bounds"])
    axis, n = p.below(len(shape)), p.pick([1, 2, 7, 64, 130])
    if name == "along":
        extent = shape[:axis] + (n,) + shape[axis + 1:]
        if np.prod(extent) > 60_000:
            name = "take"
        else:
            k = p.whole(0, shape[axis], *extent)
            return lambda a: jnp.take_along_axis(x(a), k(a), axis, mode=mode)
    if name == "take":
        k = p.whole(0, shape[axis], *p.pick([(n,), (n, 2), ()]))
        return lambda a: jnp.take(x(a), k(a), axis, mode="wrap" if mode == "fill" else mode)
    if name == "one hot":
        k, classes = p.whole(-1, 12, *shape), p.pick([5, 12, 130])
        return lambda a: jax.nn.one_hot(k(a)[..., :100], classes, dtype=now(p.type))
    index = places(p, shape, False)
    mode = "clip" if mode == "promise_in_bounds" else mode
    return lambda a: x(a).at[index(a)].get(mode=mode, fill_value=3 if type != bool else None)


def cumulating(p):
    shape = p.extents(p.pick([1, 2, 2, 3]), 40_000)
    name, axis, reverse = p.pick(["sum", "sum", "prod", "max", "min", "logsumexp", "associative", "whole", "order"]), p.below(len(shape)), p.maybe(2)
    x = p.floats(*shape)
    if name == "whole":
        k, f = p.whole(0, 100, *shape, type=p.pick(WHOLE)), p.pick([lax.cumsum, lax.cummax, lax.cummin])
        return lambda a: f(k(a), axis, reverse)
    if name == "order":
        return lambda a: lax.associative_scan(jnp.minimum, x(a), reverse=reverse, axis=axis)
    def step(a):
        y = x(a)
        if name == "prod":
            return lax.cumprod(jnp.tanh(y) * jnp.asarray(1 / 64, y.dtype) + jnp.asarray(1, y.dtype), axis, reverse)
        if name == "associative":
            def f(l, r):
                return l[0] * r[0], r[0] * l[1] + r[1]
            return lax.associative_scan(f, (jnp.tanh(y), y), reverse=reverse, axis=axis)
        return getattr(lax, "cum" + name)(y, axis, reverse)
    return step


def moving(p):
    """Parts at places that an argument says, rolls by an argument, pads that cut, gaps, reversals."""
    shape = p.extents(p.pick([1, 2, 3, 3, 4]), 60_000)
    type = p.pick([p.type, p.type, p.type, np.int8, np.uint32, bool])
    x = p.floats(*shape) if type == p.type else p.whole(0, 2, *shape, type=type)
    name = p.pick(["slice", "update", "roll", "pad", "pad", "reverse", "stride", "tile", "interleave", "split", "diagonal", "shape"])
    sizes = [p.pick([1, max(1, n // 2), n, max(1, n - 1)]) for n in shape]
    starts = p.whole(-2, max(shape) + 3, len(shape)) if name in ("slice", "update", "roll") else None
    if name == "slice":
        return lambda a: lax.dynamic_slice(x(a), list(starts(a)), sizes)
    if name == "update":
        u = p.floats(*sizes) if type == p.type else p.whole(0, 2, *sizes, type=type)
        return lambda a: lax.dynamic_update_slice(x(a), u(a), list(starts(a)))
    if name == "roll":
        axes = tuple(range(p.below(len(shape) + 1, 1)))
        return lambda a: jnp.roll(x(a), starts(a)[:len(axes)], axes)
    if name == "pad":
        low = [(p.below(5, -2 if n > 4 else 0), p.below(5, -2 if n > 4 else 0), p.pick([0, 0, 1, 2])) for n in shape]
        return lambda a: lax.pad(x(a), jnp.asarray(1, x(a).dtype), low)
    if name == "stride":
        step = [min(n, p.pick([1, 2, 3, 5])) for n in shape]
        first = [p.below(s) for s in step]
        return lambda a: lax.slice(x(a), first, shape, step)
    axis, n = p.below(len(shape)), p.pick([2, 3])
    order = [int(i) for i in p.random.permutation(len(shape))]
    if name == "shape":
        flat = int(np.prod(shape))
        d = next(d for d in p.random.permutation(np.arange(1, flat + 1))[:50].tolist() + [1] if flat % d == 0)
        return lambda a: jnp.transpose(x(a), order).reshape(d, flat // d)
    return {"reverse": lambda a: lax.rev(x(a), sorted(order[:axis + 1])), "tile": lambda a: jnp.tile(x(a), (n,) + (1,) * axis),
            "interleave": lambda a: jnp.stack([x(a), ~x(a) if type == bool else -x(a)], axis + 1).reshape(shape[:axis] + (-1,) + shape[axis + 1:]),
            "split": lambda a: [t * 2 if type != bool else t for t in jnp.array_split(x(a), n, axis)],
            "diagonal": lambda a: jnp.diagonal(x(a), p.axis % 3 - 1, 0, -1) if len(shape) > 1 else jnp.diag(x(a)[:60], 1)}[name]


def einsum(p):
    """Of two or three arrays, whose letters stand in any order."""
    letters = "abcdefg"[:p.below(7, 2)]
    sizes = {c: p.pick(SIZES[:20]) if p.maybe(3) else p.pick([1, 2, 3, 5, 8, 9, 16, 33]) for c in letters}
    count = p.pick([1, 2, 2, 2, 3])
    words = ["".join(p.random.permutation([c for c in letters if not p.maybe(3)] or [letters[0]])) for _ in range(count)]
    for w in words + [letters]:
        while np.prod([float(sizes[c]) for c in w]) > (30_000 if w != letters else 30_000_000):
            c = max(w, key=sizes.get)
            sizes[c] = max(1, sizes[c] // 2)
    used = sorted(set("".join(words)))
    while True:
        out = "".join(p.random.permutation([c for c in used if p.maybe(2)]))
        if np.prod([float(sizes[c]) for c in out]) <= 60_000:
            break
    arrays = [p.floats(*(sizes[c] for c in w)) for w in words]
    return lambda a: jnp.einsum(",".join(words) + "->" + out, *(x(a) for x in arrays)) * 0.125


def dotted(p):
    """Batches, sums and the rest of each side at any dimension; types of operands and results."""
    def dims(n, most):
        return [p.pick(SIZES[:20]) if p.maybe(2) else p.pick([1, 2, 3, 8]) for _ in range(n)]
    batch, summed, mine, yours = dims(p.below(3), 0), dims(p.pick([0, 1, 1, 2]), 0), dims(p.below(3), 0), dims(p.below(3), 0)
    def fits():
        size = lambda *groups: np.prod([float(n) for g in groups for n in g])
        return size(batch, summed, mine) <= 60_000 and size(batch, summed, yours) <= 60_000 and size(batch, mine, yours) <= 100_000
    while not fits():
        group = max((batch, summed, mine, yours), key=lambda g: max(g, default=0))
        group[int(np.argmax(group))] //= 2
    def side(rest):
        roles = [("b", i) for i in range(len(batch))] + [("s", i) for i in range(len(summed))] + [("r", i) for i in range(len(rest))]
        order = [roles[int(i)] for i in p.random.permutation(len(roles))]
        extent = [{"b": batch, "s": summed, "r": rest}[r][i] for r, i in order]
        return extent, [order.index(("s", i)) for i in range(len(summed))], [order.index(("b", i)) for i in range(len(batch))]
    (one, s1, b1), (two, s2, b2) = side(mine), side(yours)
    kind = p.pick(["floats"] * 4 + ["s8", "u8", "s32", "bf16 to f32", "complex", "f8"])
    numbers = ((s1, s2), (b1, b2))
    if kind in ("s8", "u8", "s32"):
        type = {"s8": np.int8, "u8": np.uint8, "s32": np.int32}[kind]
        x, y = p.whole(0, 100, *one, type=type), p.whole(0, 7, *two, type=type)
        return lambda a: lax.dot_general(x(a), y(a), numbers, preferred_element_type=jnp.int32)
    types = {"bf16 to f32": jnp.bfloat16, "f8": jnp.float8_e4m3fn}
    x, y = p.floats(*one), p.floats(*two)
    if kind == "complex":
        return lambda a: (lambda z: (z.real, z.imag))(lax.dot_general(x(a).astype(now(np.float32)) * (1 + 0.5j), y(a).astype(now(np.float32)) * (1 + 0j), numbers))
    if kind in types:
        return lambda a: lax.dot_general(x(a).astype(types[kind]), y(a).astype(types[kind]), numbers, preferred_element_type=jnp.float32)
    return lambda a: lax.dot_general(x(a), y(a), numbers)


def convolving(p):
    """One to three dimensions, in any order, with strides, gaps on both sides, pads that cut, groups of features or of examples."""
    rank = p.pick([1, 1, 2, 2, 2, 3])
    features, results, batch = p.pick([1, 2, 3, 4, 8, 20, 64, 130]), p.pick([1, 2, 3, 8, 20, 128, 130]), p.pick([1, 2, 3, 8, 16])
    kind = p.pick(["none", "none", "none", "depthwise", "features", "batch"])
    groups = 1
    if kind == "depthwise":
        groups, results = features, features * p.pick([1, 1, 2])
    if kind == "features":
        groups = p.pick([2, 3, 4])
        features, results = groups * p.pick([1, 3, 8, 40]), groups * p.pick([1, 2, 5, 32])
    if kind == "batch":
        groups = p.pick([2, 4])
        batch, results = groups * p.pick([1, 2, 5]), groups * p.pick([1, 2, 8, 32])
    extents = [p.below({1: 300, 2: 24, 3: 9}[rank], 3) for _ in range(rank)]
    windows = [min(n, p.pick([1, 2, 3, 3, 4, 5, 7, 11])) for n in extents]
    strides, left, right = ([p.pick([1, 1, 1, 2, 3]) for _ in range(rank)] for _ in range(3))
    if p.maybe(2):
        left = [1] * rank
    if p.maybe(2):
        right = [1] * rank
    def pads(i):
        span, total = (windows[i] - 1) * right[i] + 1, (extents[i] - 1) * left[i] + 1
        low, high = p.below(span + 1, -1 if total > span + 3 else 0), p.below(span + 1, -1 if total > span + 3 else 0)
        return (low, high + max(0, span - total - low - high))
    padding = [pads(i) for i in range(rank)]
    while batch * features * np.prod(extents) > 60_000 and batch > groups:
        batch = max(1, batch // 2) if kind != "batch" else groups
    spatial = "DHW"[-rank:]
    letters = lambda fixed: "".join(p.random.permutation(list(fixed + spatial))) if p.maybe(3) else None
    orders = (letters("NC") or p.pick([f"N{spatial}C", f"NC{spatial}"]), letters("IO") or p.pick([f"{spatial}IO", f"OI{spatial}"]),
              letters("NC") or f"N{spatial}C")
    size = dict(zip(spatial, extents), N=batch, C=features)
    taps = dict(zip(spatial, windows), I=features // (1 if kind == "batch" else groups), O=results)
    x, w = p.floats(*(size[c] for c in orders[0])), p.floats(*(taps[c] for c in orders[1]))
    flipped = p.maybe(6)
    def step(a):
        kernel = w(a) * 0.125
        if flipped:
            kernel = lax.rev(kernel, [orders[1].index(c) for c in spatial])
        return lax.conv_general_dilated(x(a), kernel, strides, padding, left, right, orders,
                                        feature_group_count=1 if kind == "batch" else groups, batch_group_count=groups if kind == "batch" else 1)
    return step


def windowing(p):
    """Any dimension has windows, steps, gaps."""
    shape = p.extents(p.pick([1, 2, 3, 4]), 30_000)
    name = p.pick(["add", "add", "max", "max", "min", "mul", "whole"])
    window = [min(n, p.pick([1, 1, 2, 3, 4, 7, n])) for n in shape]
    strides = [p.pick([1, 1, 2, 3, w]) for w in window]
    apart = [p.pick([1, 1, 1, 2]) for _ in shape]
    inner = [p.pick([1, 1, 1, 2]) if name in ("add", "whole") else 1 for _ in shape]
    padding = [(p.below(w), p.below(w) + max(0, (w - 1) * d + 1 - n)) for w, d, n in zip(window, apart, shape)]
    if name == "whole":
        k, f = p.whole(0, 50, *shape, type=p.pick(WHOLE)), p.pick([lax.add, lax.max])
        return lambda a: lax.reduce_window(k(a), np.zeros((), k(a).dtype), f, window, strides, padding, inner, apart)
    # Of equal ones XLA on the CPU takes which it likes.
    values = p.add((p.random.permutation(int(np.prod(shape))) / 16).astype(np.float32).reshape(shape)) if name in ("max", "min") else None
    x = p.floats(*shape) if values is None else lambda a: a[values]
    first = {"add": 0, "max": -np.inf, "min": np.inf, "mul": 1}[name]
    def step(a):
        y = x(a) * (1 / 64) + 1 if name == "mul" else x(a)
        z = lax.reduce_window(y, np.asarray(first, y.dtype), getattr(lax, name), window, strides, padding, inner, apart)
        return jnp.where(jnp.isfinite(z), z, 0)
    return step


def counting(p):
    """Integers of any width: quotients, shifts beyond the width, bits, sums that wrap round, conversions."""
    shape, type = p.extents(p.pick([1, 2, 3]), 60_000), p.pick(WHOLE)
    limits = np.iinfo(type)
    x, y = (p.whole(limits.min, int(limits.max) + 1, *shape, type=type) for _ in range(2))
    axis, other, times = p.below(len(shape)), p.pick(WHOLE), p.below(4, 1)
    words = [
        lambda x, y: x + y, lambda x, y: x * y, lambda x, y: x - y, lambda x, y: lax.div(x, y | jnp.asarray(1, type)),
        lambda x, y: lax.rem(x, y | jnp.asarray(1, type)), lambda x, y: x // jnp.maximum(y, 1), lambda x, y: x % jnp.maximum(y, 1),
        lambda x, y: lax.shift_left(x, y & jnp.asarray(63, type)), lambda x, y: lax.shift_right_logical(x, y & jnp.asarray(63, type)),
        lambda x, y: lax.shift_right_arithmetic(x, y & jnp.asarray(63, type)), lambda x, y: x & y, lambda x, y: x ^ ~y,
        lambda x, y: lax.population_count(x), lambda x, y: lax.clz(x), lambda x, y: jnp.where(x > y, x, -y), lambda x, y: jnp.abs(x),
        lambda x, y: lax.max(x, lax.min(y, x * y)), lambda x, y: lax.clamp(jnp.asarray(1, type), x, jnp.asarray(99, type)),
        lambda x, y: x.astype(other).astype(type), lambda x, y: jnp.flip(x, axis), lambda x, y: lax.mulhi(x, y), lambda x, y: jnp.sign(x),
        lambda x, y: (x == y).astype(type) + (x <= y), lambda x, y: jnp.bitwise_count(x).astype(type), lambda x, y: lax.integer_pow(x, 3)]
    ends = [lambda x: x, lambda x: x, lambda x: x.astype(jnp.float32), lambda x: jnp.sum(x, axis, dtype=type), lambda x: jnp.max(x, axis),
            lambda x: x.astype(other), lambda x: lax.reduce(x, np.zeros((), type), lax.bitwise_xor, (axis,)), lambda x: jnp.prod(x, axis, dtype=type),
            lambda x: lax.reduce(x, np.zeros((), type), lax.bitwise_or, (axis,)), lambda x: jnp.argmax(x, axis), lambda x: jnp.any(x > 3, axis),
            lambda x: jnp.mean(x.astype(jnp.float32), axis), lambda x: lax.bitcast_convert_type(x, jnp.uint8 if type in (np.int32, np.uint32) else type)]
    chosen, end = [p.pick(words) for _ in range(times)], p.pick(ends)
    def step(a):
        z, w = x(a), y(a)
        for f in chosen:
            z, w = f(z, w), z
        return end(z)
    return step


def converting(p):
    """Between floats of all widths: infinities, NaNs, numbers that are none, ties, what is too large or small for a type."""
    shape, narrow = p.extents(p.pick([1, 2, 2]), 40_000), p.pick(SHORT_FLOATS)
    bits = p.random.integers(0, 1 << 32, shape, dtype=np.uint32)
    scaled = (p.random.standard_normal(shape) * np.exp2(p.random.integers(-30, 20, shape))).astype(np.float32)
    special = np.float32([0, -0.0, np.inf, -np.inf, np.nan, 1, 448, 464, 480, 57344, 61440, 65504, 65520, 1e-8, 2 ** -24, 2 ** -9, 3e38, 1.0625, 240, 247])
    values = {"bits": bits.view(np.float32), "scaled": scaled, "special": p.random.choice(special, shape)}[p.pick(["bits", "scaled", "special"])]
    # No numbers below the normal ones of f32: the machine takes them for zero.
    values = np.where(np.abs(values) < 2.0 ** -126, np.float32(0), values)
    at, name = p.add(values), p.pick(["round", "bits", "classes", "precision", "compare", "extreme"])
    def step(a):
        x = a[at]
        y = x.astype(narrow)
        if name == "bits":
            whole = jnp.uint8 if jnp.finfo(narrow).bits == 8 else jnp.uint16
            number = lax.bitcast_convert_type(y, whole)
            return jnp.where(jnp.isnan(y.astype(jnp.float32)), jnp.asarray(0, whole), number)
        if name == "precision":
            y = lax.reduce_precision(x, p.axis % 6 + 3, p.axis + 1)
        back = y.astype(jnp.float32)
        if name == "compare":
            return x > back, x == back, jnp.sort(back, -1) == back, jnp.sign(jnp.where(jnp.isnan(back), 0, back)), jnp.maximum(back, 1) == 1
        if name == "extreme":
            return jnp.isnan(jnp.max(back, -1)), jnp.argmax(back, 0), jnp.argmin(back, -1)
        return jnp.isnan(back), jnp.isposinf(back), jnp.isneginf(back), jnp.where(jnp.isfinite(back), back, 0), jnp.signbit(jnp.where(jnp.isnan(back), 0, back))
    return step


def drawing(p):
    """Random bits by Threefry and by the machine's generator, and what is made of them."""
    shape, implementation = p.extents(p.pick([1, 2, 3]), 30_000), p.pick(["threefry2x32", "threefry2x32", "rbg", "unsafe_rbg"])
    data = p.whole(0, 1 << 31, 2 if implementation[0] == "t" else 4, type=np.uint32)
    name, axis = p.pick(["bits", "uniform", "normal", "randint", "permutation", "bernoulli", "split", "fold", "categorical", "shuffle", "dropout", "choice"]), p.below(len(shape))
    x, type = p.floats(*shape), p.pick([jnp.uint32, jnp.uint8, jnp.uint16])
    random = jax.random
    def step(a):
        key = random.wrap_key_data(data(a), impl=implementation)
        if name == "split":
            return jax.vmap(lambda k: random.bits(k, shape[:1]))(random.split(key, 5))
        return {"bits": lambda: random.bits(key, shape, type), "uniform": lambda: random.uniform(key, shape, minval=-1, maxval=3),
                "normal": lambda: random.normal(key, shape, p.type), "randint": lambda: random.randint(key, shape, -3, 1000, jnp.int32),
                "permutation": lambda: random.permutation(key, min(shape[0], 1000)), "bernoulli": lambda: random.bernoulli(key, 0.3, shape),
                "fold": lambda: random.uniform(random.fold_in(random.fold_in(key, 7), jnp.sum(data(a) & 255)), shape),
                "categorical": lambda: random.categorical(key, x(a).astype(jnp.float32) * 8, axis), "shuffle": lambda: random.permutation(key, x(a), axis),
                "dropout": lambda: jnp.where(random.bernoulli(key, 0.8, shape), x(a) / 0.75, 0),
                "choice": lambda: random.choice(key, x(a), (min(3, shape[0]),), replace=False)}[name]()
    return step


def transforming(p):
    """Fourier transforms along any dimensions, and complex numbers."""
    shape = p.extents(p.pick([1, 2, 3]), 8_000)
    x, y = p.floats(*shape, type=np.float32), p.floats(*shape, type=np.float32)
    axis, fft = p.below(len(shape)), jnp.fft
    other = p.below(len(shape))
    words = [
        lambda z: fft.fft(z, axis=axis), lambda z: fft.ifft(z, axis=axis), lambda z: fft.rfft(z.real, axis=axis), lambda z: fft.irfft(z, axis=axis) if shape[axis] > 1 else z,
        lambda z: fft.fftn(z), lambda z: fft.irfft(fft.rfft(z.real, axis=axis) * (1 + 2j), n=shape[axis], axis=axis), lambda z: fft.fftshift(fft.rfftn(z.real), -1),
        lambda z: z * jnp.conj(z) + z * (0.5 - 2j), lambda z: z / (z * 0.25 + (3 + 4j)), lambda z: jnp.exp(z * 0.25), lambda z: jnp.log(z + (3 + 1j)), lambda z: jnp.sqrt(z + (5 + 0.5j)),
        lambda z: jnp.cumsum(z, axis), lambda z: jnp.sum(z, axis), lambda z: jnp.flip(z, axis) + jnp.roll(z, 1, other), lambda z: jnp.tanh(z * 0.125),
        lambda z: z ** 3 * 0.0625, lambda z: jnp.where(z.real > z.imag, z, z.conj()), lambda z: jnp.abs(z + (0.5 + 5j)) + jnp.angle(z + 5), lambda z: z.at[0].add(2j).at[-1].multiply(0.5),
        lambda z: jnp.concatenate([z, z.conj()], axis), lambda z: jnp.prod(z * 0.125 + 1, axis), lambda z: jnp.sin(z * 0.25) - lax.reciprocal(z * 0.25 + 4j), lambda z: jnp.take(z, jnp.array([0, -1]), axis)]
    chosen = [p.pick(words) for _ in range(p.pick([1, 1, 2, 3]))]
    p.allowed = 2e-4 if len(chosen) == 1 else 2e-3  # The logarithm of a transform that is nearly zero.
    def step(a):
        z = x(a) + 1j * y(a)
        for f in chosen:
            z = f(z.reshape(z.shape + (1,) * (len(shape) - z.ndim)).astype(jnp.complex64))
        return (z.real, z.imag) if jnp.iscomplexobj(z) else z
    return step


def factorising(p):
    """Of matrices that are far from singular, some at once."""
    n, columns, batch = p.pick([1, 2, 3, 5, 8, 16, 33, 64, 100]), p.pick([1, 3, 8, 130]), p.pick([(), (), (1,), (3,), (2, 2), (9,)])
    name = p.pick(["cholesky", "triangular", "triangular", "qr", "eigenvalues", "expm", "solve", "inverse", "determinant", "power", "lu", "tall"])
    if n > 33 and (batch or name in ("eigenvalues", "expm")):
        n = 24
    m, b = p.floats(*batch, n, n, type=np.float32), p.floats(*batch, n, columns, type=np.float32)
    lower, transposed, unit, left = p.maybe(2), p.maybe(2), p.maybe(4), p.maybe(2)
    p.allowed = 2e-3
    def step(a):
        g, r = m(a) / (2 * n), b(a)
        near = g + jnp.eye(n, dtype=g.dtype)
        gram = g @ jnp.swapaxes(g, -1, -2) + jnp.eye(n, dtype=g.dtype) * jnp.linspace(1, 2, n, dtype=g.dtype)
        if name == "triangular":
            return lax.linalg.triangular_solve(near, r if left else jnp.swapaxes(r, -1, -2), left_side=left, lower=lower, transpose_a=transposed, unit_diagonal=unit)
        if name == "qr":
            q, t = jnp.linalg.qr(near)
            return jnp.abs(t), q @ t
        if name == "tall":
            return jnp.linalg.qr(jnp.concatenate([near, g * 2], -2), "r") ** 2
        return {"cholesky": lambda: jnp.linalg.cholesky(gram, upper=lower), "eigenvalues": lambda: jnp.linalg.eigvalsh(gram), "expm": lambda: jax.scipy.linalg.expm(g * 8),
                "solve": lambda: jnp.linalg.solve(near, r), "inverse": lambda: jnp.linalg.inv(near), "determinant": lambda: jnp.linalg.slogdet(near),
                "power": lambda: jnp.linalg.matrix_power(near, 5), "lu": lambda: jax.scipy.linalg.lu_solve(jax.scipy.linalg.lu_factor(near), r)}[name]()
    return step


def looping(p):
    """Loops that end when the data says, branches inside of loops, loops inside of loops, rules for gradients."""
    shape = p.extents(p.pick([1, 2, 2, 3]), 30_000)
    x, steps = p.floats(*shape), p.pick([1, 2, 5, 9])
    name = p.pick(["early", "branch", "nested", "rule", "stack", "update", "remat", "carried", "reverse", "unrolled", "batches", "search", "switch", "ragged", "history"])
    k, half = p.whole(0, 4, max(steps, 2)), 0.5
    n, some = shape[0], p.pick([1, 2, 3, 4])
    w = p.floats(shape[-1], shape[-1], type=p.type) if shape[-1] < 140 and p.maybe(2) else None
    f = lambda a, y: jnp.tanh(y @ w(a) * shape[-1] ** -1.0 + y) if w else jnp.sin(y)

    @jax.custom_vjp
    def clipped(y):
        return y * half
    clipped.defvjp(lambda y: (y * half, y), lambda y, g: (jnp.clip(g, -1, 1) * jnp.cos(y),))

    def early(a):
        """The first that is large enough, or the last."""
        limit = jnp.sum(k(a), dtype=jnp.int32)
        state = lax.while_loop(lambda s: (s[0] < limit) & (s[2] < 7), lambda s: (s[0] + 1, f(a, s[1]) * half, s[2] + s[0] % 3), (jnp.int32(0), x(a), jnp.int32(0)))
        return state[0], state[1]

    def branch(a):
        body = lambda y, i: (lax.cond(k(a)[i % 2] > 1, lambda y: f(a, y), lambda y: y * half, y), jnp.max(y, -1))
        return lax.scan(jax.checkpoint(body) if some > 2 else body, x(a), counted(steps))

    def switch(a):
        branches = [lambda y: f(a, y), lambda y: y * half, lambda y: jnp.flip(y, 0), lambda y: y - jnp.mean(y, -1, keepdims=True)]
        return lax.fori_loop(jnp.int32(0), jnp.int32(steps), lambda i, y: lax.switch(k(a)[i % 2], branches, y), x(a))

    def nested(a):
        inner = lambda y, j: (f(a, y) + j.astype(now(p.type)) * half, jnp.sum(y.astype(jnp.float32)) / y.size)
        return lax.scan(lambda y, i: lax.scan(inner, y, counted(some)), x(a), counted(steps))

    def history(a):
        """Each row from those before it."""
        body = lambda i, y: y.at[i].add(half * y[jnp.maximum(i - 1, 0)] + (k(a)[0] * half).astype(now(p.type)))
        return lax.fori_loop(1, min(n, 20), body, x(a))

    def stack(a):
        return lax.scan(lambda c, row: (c * half + row, (jnp.sum(c), f(a, c) if x(a).ndim > 1 else c)), jnp.zeros(shape[1:], now(p.type)), x(a)[:40])

    def update(a):
        body = lambda i, s: (lax.dynamic_update_slice_in_dim(s[0], lax.dynamic_slice_in_dim(s[0], i * 2, 1) * half, k(a)[i % 2] + i, 0), s[1] + s[0][i % n])
        return lax.fori_loop(jnp.int32(0), jnp.int32(steps), body, (x(a), jnp.zeros(shape[1:], now(p.type))))

    def carried(a):
        """State of several types that change places."""
        body = lambda s, i: ((s[1], f(a, s[0]) * half + i.astype(now(p.type)), s[2] ^ (i + k(a)[0]), ~s[3]), jnp.where(s[3], jnp.sum(s[0].astype(jnp.float32)) / x(a).size, s[2].astype(jnp.float32)))
        return lax.scan(body, (x(a), jnp.flip(x(a), 0), jnp.int32(3), jnp.bool_(True)), counted(steps))

    def search(a):
        """Halves, in each row for itself."""
        def body(_, s):
            middle = (s[0] + s[1]) * 0.5
            high = middle * middle > jnp.abs(x(a).astype(jnp.float32))
            return jnp.where(high, s[0], middle), jnp.where(high, middle, s[1])
        low, high = lax.fori_loop(0, 8, body, (jnp.zeros(shape, jnp.float32), jnp.full(shape, 3.0)))
        return low + high

    def ragged(a):
        """Each row as often as its number says."""
        one = lambda row, times: lax.while_loop(lambda s: s[0] < times, lambda s: (s[0] + 1, s[1] * half + half), (jnp.int32(0), row))[1]
        times = jnp.resize(k(a), (n,))
        return jax.vmap(one)(x(a), times)

    simple = {
        "rule": lambda a: clipped(f(a, x(a))), "remat": lambda a: lax.scan(jax.checkpoint(lambda y, _: (f(a, y), None)), x(a), None, length=steps)[0],
        "reverse": lambda a: lax.scan(lambda c, row: (c * half + row, c + row), jnp.zeros(shape[1:], now(p.type)), x(a)[:64], reverse=True),
        "unrolled": lambda a: lax.scan(lambda y, i: (f(a, y) + i.astype(now(p.type)), y[0]), x(a), counted(steps), unroll=some),
        "batches": lambda a: lax.map(lambda row: f(a, row) if x(a).ndim > 1 else row * half, x(a)[:70], batch_size=some)}
    return simple.get(name) or {"early": early, "branch": branch, "switch": switch, "nested": nested, "history": history, "stack": stack,
                                "update": update, "carried": carried, "search": search, "ragged": ragged}[name]


def reducing(p):
    """Over any dimensions, several results at once, by any computation."""
    shape = p.extents(p.pick([1, 2, 3, 4]), 100_000)
    x = p.floats(*shape)
    axes = tuple(sorted(int(i) for i in p.random.permutation(len(shape))[:p.below(len(shape) + 1, 1)]))
    name = p.pick(["sum", "max", "var", "softmax", "logsumexp", "prod", "norm", "pair", "centred", "any", "masked", "outer", "covariance", "ties"])
    b = p.mask(*shape) if name in ("masked", "any") else None
    def pair(a):
        y = x(a).astype(jnp.float32)
        one = lambda l, r: (jnp.where(r[0] > l[0], r[0], l[0]), l[1] + r[1])
        return lax.reduce((y, jnp.abs(y)), (np.float32(-1e9), np.float32(0)), one, axes)
    def centred(a):
        y = x(a).astype(jnp.float32)
        y = y - jnp.mean(y, axes, keepdims=True)
        return (y * lax.rsqrt(jnp.mean(y * y, axes, keepdims=True) + 0.25)).astype(now(p.type))
    return {"sum": lambda a: jnp.sum(x(a).astype(jnp.float32), axes), "max": lambda a: (jnp.max(x(a), axes), jnp.min(x(a), axes)),
            "var": lambda a: jnp.var(x(a).astype(jnp.float32), axes), "softmax": lambda a: jax.nn.softmax(x(a).astype(jnp.float32), axes),
            "logsumexp": lambda a: jax.nn.logsumexp(x(a).astype(jnp.float32), axes), "pair": pair, "centred": centred,
            "prod": lambda a: jnp.prod(x(a).astype(jnp.float32)[..., :30] * 0.0625 + 1, axes[0]), "norm": lambda a: jnp.sqrt(jnp.sum(jnp.square(x(a).astype(jnp.float32)), axes) + 1),
            "any": lambda a: (jnp.any(b(a), axes), jnp.all(b(a), axes), jnp.sum(b(a), axes), jnp.argmax(b(a), axes[0])),
            "masked": lambda a: jnp.sum(jnp.where(b(a), x(a).astype(jnp.float32), 0), axes) / jnp.maximum(jnp.sum(b(a), axes), 1),
            "outer": lambda a: jnp.sum(x(a).astype(jnp.float32), axes, keepdims=True) * x(a).astype(jnp.float32) / 32,
            "covariance": lambda a: (lambda y: y.T @ y / y.shape[0])(centred(a).astype(jnp.float32).reshape(-1, shape[-1])[:, :200]),
            "ties": lambda a: x(a) * (x(a) == jnp.max(x(a), axes, keepdims=True)).astype(now(p.type))}[name]


WORDS = [sorting, sorting, segments, scattering, scattering, gathering, gathering, cumulating, moving, moving, einsum, einsum, dotted, convolving, convolving,
         convolving, windowing, windowing, counting, counting, converting, drawing, transforming, transforming, factorising, looping, looping, looping, reducing, reducing]
