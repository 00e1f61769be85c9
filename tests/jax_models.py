"""Random small models with their gradients, for tests/jax_differential.py --models.

A model is two to five layers over rows (b, c), sequences (b, t, c) or images (b, h, w, c): attention with its heads in any
order, convolutions, pooling, normalisation, recurrent scans, gates, patches, windows, indices. Layers stand behind each
other, in a scan over stacked weights or behind a checkpoint. What is compared is the loss, the gradient of each weight and that of
the input; or one step of an optimiser; or an ensemble of models side by side.
"""
import jax
import jax.numpy as jnp
import numpy as np

from jax_programs import Program

lax = jax.lax
FEATURES = [3, 6, 8, 16, 20, 24, 32, 40, 48, 64, 64, 96, 128, 130, 192]


class Layers:
    """Draws what a model does, the same each time for a seed, and makes its weights the first time, takes them later."""

    def __init__(self, seed, weights=None):
        self.random = np.random.default_rng(seed)
        self.seed, self.made, self.weights = seed, [], None if weights is None else iter(weights)

    def pick(self, options):
        return options[int(self.random.integers(len(options)))]

    def maybe(self, one_in):
        return int(self.random.integers(one_in)) == 0

    def take(self, make):
        """The next array among the arguments; the first time, the one that `make` makes with numpy."""
        if self.weights is not None:
            return next(self.weights)
        self.made.append(make(np.random.default_rng((self.seed, len(self.made)))))
        return self.made[-1]

    def weight(self, *shape, inputs=None, mean=0.0):
        """Normal with a variance of 1 / inputs."""
        deviation = (inputs or shape[0]) ** -0.5
        return self.take(lambda r: (mean + deviation * r.standard_normal(shape)).astype(np.float32))


def dense(l, x, results, of=None):
    w = l.weight(x.shape[-1], results).astype(x.dtype)
    y = jnp.einsum(l.pick(["...c,cd->...d", "...c,cd->...d", "...i,io->...o"]), x, w)
    return y + l.weight(results, inputs=16).astype(x.dtype) if l.maybe(2) else y


def activated(l, x):
    return l.pick([jax.nn.relu, jax.nn.gelu, jax.nn.silu, jnp.tanh, jax.nn.sigmoid, jax.nn.elu])(x)


def mlp(l, x):
    wide = l.pick([16, 40, 64, 128, 256])
    y = activated(l, dense(l, x, wide))
    if l.maybe(3):
        y = y * dense(l, x, wide)
    return x + dense(l, y, x.shape[-1])


def widened(l, x):
    return activated(l, dense(l, x, l.pick(FEATURES)))


def normalised(l, x):
    axes = l.pick([(-1,), (-1,), (-1,), tuple(range(x.ndim - 1)), tuple(range(1, x.ndim - 1)) or (0,), (0,)])
    y = x.astype(jnp.float32)
    if l.maybe(4):
        y = y * lax.rsqrt(jnp.mean(y * y, axes, keepdims=True) + 0.1)
    else:
        y = y - jnp.mean(y, axes, keepdims=True)
        y = y * lax.rsqrt(jnp.mean(y * y, axes, keepdims=True) + 0.1)
    y = y * l.weight(x.shape[-1], inputs=16, mean=1)
    return (y + l.weight(x.shape[-1], inputs=16) if l.maybe(2) else y).astype(x.dtype)


def grouped_norm(l, x):
    groups = next(g for g in (4, 3, 2, 1) if x.shape[-1] % g == 0)
    y = x.astype(jnp.float32).reshape(x.shape[:-1] + (groups, -1))
    axes = tuple(range(1, x.ndim - 1)) + (-1,)
    y = (y - jnp.mean(y, axes, keepdims=True)) * lax.rsqrt(jnp.var(y, axes, keepdims=True) + 0.1)
    return (y.reshape(x.shape) * l.weight(x.shape[-1], inputs=16, mean=1)).astype(x.dtype)


def heads(l, x, h, d, order):
    """(b, t, c) to heads, the letters of `order` saying where batch, time, head and feature stand."""
    if l.maybe(2):
        y = jnp.einsum("btc,chd->" + order, x, l.weight(x.shape[-1], h, d).astype(x.dtype))
    else:
        y = dense(l, x, h * d).reshape(x.shape[:2] + (h, d))
        y = jnp.transpose(y, ["bthd".index(c) for c in order])
    if l.maybe(4):
        y = y + l.weight(*(n if c in "hd" else 1 for n, c in zip(y.shape, order)), inputs=16).astype(x.dtype)
    return y


def attention(l, x):
    """Over the second dimension of (b, t, c); queries, keys and values each with dimensions in an order of its own."""
    h, d, c = l.pick([1, 2, 3, 4, 8]), l.pick([8, 16, 24, 32, 64]), x.shape[-1]
    if l.maybe(3):
        fused = dense(l, x, 3 * h * d)
        split = fused.reshape(x.shape[:2] + ((3, h, d) if l.maybe(2) else (h, 3, d)))
        axis = 2 if split.shape[2] == 3 and split.shape[3] == h else 3
        q, k, v = (jnp.squeeze(part, axis) for part in jnp.split(split, 3, axis))
        orders = ["bthd"] * 3
    else:
        orders = ["".join(l.random.permutation(list("bthd"))) if l.maybe(2) else l.pick(["bthd", "bhtd"]) for _ in range(3)]
        few = 1 if l.maybe(4) else h
        q, k, v = heads(l, x, h, d, orders[0]), heads(l, x, few, d, orders[1]), heads(l, x, few, d, orders[2])
        if few != h:
            k, v = (jnp.repeat(a, h, o.index("h")) for a, o in zip((k, v), orders[1:]))
    if l.maybe(4):  # Rotated positions.
        def rotated(a, order):
            at = order.index("d")
            angle = np.arange(x.shape[1])[:, None] / 8.0 ** np.linspace(0, 1, d // 2)
            shape = [x.shape[1] if c == "t" else d // 2 if c == "d" else 1 for c in order]
            angle = angle if order.index("t") < at else angle.T
            one, two = jnp.split(a, 2, at)
            cos, sin = (f(angle).reshape(shape).astype(np.float32) for f in (np.cos, np.sin))
            return jnp.concatenate([one * cos - two * sin, one * sin + two * cos], at).astype(a.dtype)
        q, k = rotated(q, orders[0]), rotated(k, orders[1])
    scores = l.pick(["bhqk", "bhqk", "bhqk", "hbqk", "bqhk", "bqkh", "bhkq", "bkhq"])
    s = jnp.einsum(f"{orders[0].replace('t', 'q')},{orders[1].replace('t', 'k')}->{scores}", q, k).astype(jnp.float32) * d ** -0.5
    shape = lambda letters: [n if c in letters else 1 for n, c in zip(s.shape, scores)]
    if l.maybe(4):
        s = s + l.weight(*shape("hqk"), inputs=4)
    if l.maybe(3):
        below = lax.broadcasted_iota(jnp.int32, s.shape, scores.index("q")) >= lax.broadcasted_iota(jnp.int32, s.shape, scores.index("k"))
        s = jnp.where(below, s, -1e9)
    p = jax.nn.softmax(s, scores.index("k")) if not l.maybe(6) else jax.nn.relu(s) / x.shape[1]
    out = l.pick(["bqhd", "bqhd", "bhqd", "bqdh"])
    y = jnp.einsum(f"{scores},{orders[2].replace('t', 'k')}->{out}", p.astype(x.dtype), v)
    if l.maybe(2) or out != "bqhd":
        letters = "".join(c for c in out if c in "hd")
        w = l.weight(*(h if c == "h" else d for c in letters), c, inputs=h * d).astype(x.dtype)
        y = jnp.einsum(f"{out},{letters}c->bqc", y, w)
    else:
        y = dense(l, y.reshape(x.shape[:2] + (h * d,)), c)
    return x + y


def linear_attention(l, x):
    h, d = l.pick([1, 2, 4]), l.pick([8, 16, 32])
    q, k, v = (jax.nn.elu(heads(l, x, h, d, "bthd")) + 1 for _ in range(3))
    kv = jnp.einsum("bthd,bthe->bhde", k, v) / x.shape[1]
    return x + dense(l, jnp.einsum("bthd,bhde->bthe", q, kv).reshape(x.shape[:2] + (h * d,)), x.shape[-1])


def token_mixing(l, x):
    w = l.weight(x.shape[1], x.shape[1])
    return x + jnp.einsum(l.pick(["btc,ts->bsc", "btc,st->bsc"]), x, w.astype(x.dtype))


def recurrent(l, x):
    n = l.pick([8, 24, 32, 64, 128])
    gates = l.pick([1, 3, 4])
    w, u = l.weight(x.shape[-1], gates * n), l.weight(n, gates * n)
    def cell(state, row):
        h, c = state
        z = row @ w.astype(x.dtype) + h @ u.astype(x.dtype)
        if gates == 1:
            h = jnp.tanh(z)
        elif gates == 3:
            r, i, new = jnp.split(z, 3, -1)
            h = h + jax.nn.sigmoid(i) * (jnp.tanh(jax.nn.sigmoid(r) * new) - h)
        else:
            i, f, g, o = jnp.split(z, 4, -1)
            c = jax.nn.sigmoid(f + 1) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h
    zero = jnp.zeros((x.shape[0], n), x.dtype)
    _, hs = lax.scan(cell, (zero, zero), jnp.swapaxes(x, 0, 1), reverse=l.maybe(3))
    return jnp.swapaxes(hs, 0, 1)


def shifted(l, x):
    axis = int(l.random.integers(1, x.ndim))
    half = max(1, x.shape[-1] // l.pick([2, 2, 3, 4]))
    one, two = x[..., :half], x[..., half:]
    moved = jnp.roll(one, l.pick([1, -1, 2]), axis) if l.maybe(2) else lax.pad(
        lax.slice_in_dim(one, 0, one.shape[axis] - 1, axis=axis), jnp.zeros((), x.dtype),
        [(1, 0, 0) if i == axis else (0, 0, 0) for i in range(x.ndim)])
    return jnp.concatenate([moved, two] if l.maybe(2) else [two, moved, one], -1)


def gated_by_mean(l, x):
    mean = jnp.mean(x, tuple(range(1, x.ndim - 1)), keepdims=True)
    return x * jax.nn.sigmoid(dense(l, activated(l, dense(l, mean, l.pick([4, 8, 16]))), x.shape[-1]))


def branches(l, x):
    return jnp.concatenate([dense(l, x, l.pick(FEATURES)), activated(l, dense(l, x, l.pick(FEATURES)))] + [x] * l.maybe(2), -1)


def cumulated(l, x):
    return jnp.cumsum(x.astype(jnp.float32), 1).astype(x.dtype) * jnp.asarray(x.shape[1] ** -0.5, x.dtype)


def conv(l, x):
    """Any windows, strides, dilations, groups, over one or two dimensions."""
    rank = x.ndim - 2
    letters = "HW"[-rank:]
    results, groups = l.pick(FEATURES), 1
    form = l.pick(["plain", "plain", "plain", "strided", "dilated", "depthwise", "grouped", "transposed"])
    windows = [l.pick([1, 2, 3, 3, 3, 5, 7]) for _ in range(rank)]
    if form == "depthwise":
        results = groups = x.shape[-1]
    if form == "grouped":
        groups = next(g for g in (4, 3, 2, 1) if x.shape[-1] % g == 0)
        results = groups * l.pick([4, 8, 20, 32])
    w = l.weight(*windows, x.shape[-1] // groups, results, inputs=int(np.prod(windows)) * x.shape[-1] // groups).astype(x.dtype)
    numbers = (f"N{letters}C", f"{letters}IO", f"N{letters}C")
    if form == "transposed":
        return lax.conv_transpose(x, w, (2,) * rank, l.pick(["SAME", "VALID"]), dimension_numbers=numbers)
    strides = (l.pick([2, 2, 3]),) * rank if form == "strided" else (1,) * rank
    y = lax.conv_general_dilated(x, w, strides, l.pick(["SAME", "SAME", "VALID"]) if min(x.shape[1:-1]) >= 7 else "SAME",
                                 rhs_dilation=(2,) * rank if form == "dilated" else None, dimension_numbers=numbers,
                                 feature_group_count=groups)
    y = y + l.weight(results, inputs=16).astype(x.dtype) if l.maybe(2) else y
    return activated(l, y) if l.maybe(2) else y


def residual_conv(l, x):
    rank, c = x.ndim - 2, x.shape[-1]
    letters = "HW"[-rank:]
    numbers = (f"N{letters}C", f"{letters}IO", f"N{letters}C")
    y = x
    for _ in range(2):
        w = l.weight(*(3,) * rank, c, c, inputs=3 ** rank * c).astype(x.dtype)
        y = activated(l, lax.conv_general_dilated(normalised(l, y), w, (1,) * rank, "SAME", dimension_numbers=numbers))
    return x + y


def pooled(l, x):
    rank = x.ndim - 2
    window = (1, *(l.pick([2, 2, 3]) for _ in range(rank)), 1)
    stride = window if l.maybe(2) else (1,) + (l.pick([1, 2]),) * rank + (1,)
    padding = l.pick(["SAME", "VALID"]) if min(x.shape[1:-1]) >= 3 else "SAME"
    if l.maybe(2):
        return lax.reduce_window(x, -jnp.inf, lax.max, window, stride, padding)
    return lax.reduce_window(x, 0.0, lax.add, window, stride, padding) * jnp.asarray(1 / np.prod(window), x.dtype)


def upsampled(l, x):
    for axis in range(1, x.ndim - 1):
        x = jnp.repeat(x, 2, axis)
    return x


def into_channels(l, x):
    """Space to depth, where the extents are even."""
    b, h, w, c = x.shape
    if h % 2 or w % 2:
        return dense(l, x, 16)
    y = x.reshape(b, h // 2, 2, w // 2, 2, c)
    return y.transpose(0, 1, 3, *l.pick([(2, 4, 5), (4, 2, 5), (5, 2, 4)])).reshape(b, h // 2, w // 2, 4 * c)


def from_channels(l, x):
    b, h, w, _ = x.shape
    y = dense(l, x, 4 * l.pick([3, 8, 16, 32])).reshape(b, h, w, 2, 2, -1)
    return y.transpose(0, 1, 3, 2, 4, 5).reshape(b, 2 * h, 2 * w, -1)


def along_an_axis(l, x):
    """A layer over sequences, along the rows or the columns of images; or within windows of them."""
    layer = l.pick([attention, token_mixing, linear_attention, recurrent])
    b, h, w, c = x.shape
    n = l.pick([2, 4])
    if h % n == 0 and w % n == 0 and l.maybe(2):
        y = x.reshape(b, h // n, n, w // n, n, c).transpose(0, 1, 3, 2, 4, 5)
        z = layer(l, y.reshape(-1, n * n, c))
        return z.reshape(*y.shape[:-1], -1).transpose(0, 1, 3, 2, 4, 5).reshape(b, h, w, -1)
    if l.maybe(2):
        return layer(l, x.reshape(b * h, w, c)).reshape(b, h, w, -1)
    y = layer(l, jnp.swapaxes(x, 1, 2).reshape(b * w, h, c)).reshape(b, w, h, -1)
    return jnp.swapaxes(y, 1, 2)


def patches(l, x):
    """Images to sequences."""
    b, h, w, c = x.shape
    n = l.pick([1, 2, 4])
    if h % n or w % n:
        return x.reshape(b, h * w, c)
    y = x.reshape(b, h // n, n, w // n, n, c).swapaxes(2, 3).reshape(b, -1, n * n * c)
    y = dense(l, y, l.pick([16, 32, 64, 96]))
    return y + l.weight(*y.shape[1:], inputs=16).astype(x.dtype) if l.maybe(2) else y


def onto_a_line(l, x):
    """Sequences to rows: one element, the mean, the greatest, or all."""
    how = l.pick(["first", "last", "mean", "max", "all"])
    if how == "all":
        return dense(l, x.reshape(x.shape[0], -1), l.pick([16, 64, 100]))
    axes = tuple(range(1, x.ndim - 1))
    return {"first": lambda: x[(slice(None), *(0,) * len(axes))], "last": lambda: x[(slice(None), *(-1,) * len(axes))],
            "mean": lambda: jnp.mean(x, axes), "max": lambda: jnp.max(x, axes)}[how]()


def experts(l, x):
    """A dense mixture: each expert multiplies everything."""
    n, wide = l.pick([2, 3, 4, 8]), l.pick([16, 32, 64])
    gate = jax.nn.softmax(dense(l, x, n).astype(jnp.float32)).astype(x.dtype)
    w, v = l.weight(n, x.shape[-1], wide, inputs=x.shape[-1]), l.weight(n, wide, x.shape[-1], inputs=wide)
    y = jax.nn.relu(jnp.einsum("...c,ecd->...ed", x, w.astype(x.dtype)))
    return x + jnp.einsum("...ed,edc,...e->...c", y, v.astype(x.dtype), gate)


def crossed(l, x):
    """Products of pairs of columns, as recommenders have them."""
    if x.ndim > 2:
        return mlp(l, x)
    n = l.pick([2, 4])
    fields = dense(l, x, n * 8).reshape(-1, n, 8)
    return jnp.concatenate([x, jnp.einsum("bid,bjd->bij", fields, fields).reshape(-1, n * n)], -1)


ROWS = [mlp, widened, normalised, experts, crossed, branches, grouped_norm]
SEQUENCES = [attention, attention, attention, attention, mlp, widened, normalised, linear_attention, token_mixing, recurrent, shifted,
             gated_by_mean, branches, cumulated, conv, conv, residual_conv, pooled, upsampled, experts, grouped_norm, onto_a_line]
IMAGES = [conv, conv, conv, conv, residual_conv, pooled, pooled, upsampled, into_channels, from_channels, along_an_axis, along_an_axis, patches,
          patches, normalised, grouped_norm, gated_by_mean, branches, shifted, mlp, onto_a_line]
LARGEST = 400_000


def block(l, x):
    """One layer, at times behind a normalisation, or several of its kind in a loop over weights."""
    layer = l.pick([ROWS, SEQUENCES, IMAGES][x.ndim - 2])
    whole = (lambda l, x: layer(l, normalised(l, x) if l.maybe(2) else x))
    form, seed = l.pick(["plain", "plain", "plain", "scan", "checkpoint"]), int(l.random.integers(1 << 30))
    first = Layers(seed)
    same = jax.eval_shape(lambda x: whole(first, x), x)
    if form == "scan" and same.shape == x.shape and same.dtype == x.dtype and first.made:
        stacked = [l.take(lambda r, w=w: np.stack([w, np.roll(w, 1), np.roll(w, 2)])) for w in first.made]
        return lax.scan(lambda x, weights: (whole(Layers(seed, weights), x), None), x, stacked)[0]
    weights = [l.take(lambda r, w=w: w) for w in first.made]
    run = lambda x, weights: whole(Layers(seed, weights), x)
    return (jax.checkpoint(run) if form == "checkpoint" else run)(x, weights)


class ModelProgram(Program):
    """The loss of a random model and its gradients; the model is the same for a seed.

    At default precision each product rounds its operands to bf16, and gradients add that up: only a wrong order, place or number is seen
    there. At the highest precision the values are near, but for those of models in bf16.
    """

    def __init__(self, seed):
        l = Layers(seed)
        b, c, t, h, w = l.pick([1, 2, 3, 4, 8, 16, 32]), l.pick(FEATURES), l.pick([5, 8, 16, 32, 49, 64, 100]), l.pick([6, 8, 14, 16]), l.pick([6, 8, 12, 16, 20])
        shape = l.pick([(8 * b, c), (b, t, c), (b, t, c), (b, h, w, c), (b, h, w, c)])
        self.short, self.count = l.maybe(4), int(l.random.integers(1, 5))
        self.form = l.pick(["gradients"] * 6 + ["step", "ensemble", "forward"])
        self.precision = l.pick(["default", "highest"])
        self.allowed = 0.3 if self.precision == "default" else 0.1 if self.short else 5e-4
        self.seed = int(l.random.integers(1 << 30))
        x = l.random.standard_normal(shape).astype(jnp.bfloat16).astype(np.float32)
        first = Layers(self.seed)
        jax.eval_shape(lambda x: self.loss(first, x), x)
        weights = first.made
        if self.form == "ensemble":
            weights = [np.stack([w, w[::-1] * np.float32(0.75)]) for w in weights]
        self.arguments = [x, *weights]

    def loss(self, l, x):
        y = x.astype(jnp.bfloat16) if self.short else x
        for _ in range(self.count):
            y = block(l, y)
            if y.size > LARGEST:
                raise ValueError("too large")
        y = y.astype(jnp.float32)
        if l.maybe(2):
            labels = np.arange(y.size // y.shape[-1]).reshape(y.shape[:-1] + (1,)) * 7 % y.shape[-1]
            return jnp.mean(jax.nn.logsumexp(y, -1, keepdims=True) - jnp.take_along_axis(y, labels, -1))
        return jnp.mean(jnp.square(y - np.cos(np.arange(y.size, dtype=np.float32)).reshape(y.shape)))

    def __call__(self, x, *weights):
        with jax.default_matmul_precision(self.precision):
            return self.results(x, *weights)

    def exactly(self, x, *weights):
        """Without roundings to bf16; sums in bf16 over thousands of rows, as JAX has them on the CPU, are a fifth away."""
        short, self.short = self.short, False
        results = self.results(x, *weights)
        self.short = short
        return results

    def rounded(self):
        """Its results with all arguments rounded to bf16: how far such roundings carry."""
        if self.precision != "default":
            return None
        return jax.tree_util.tree_leaves(jax.jit(self)(*(a.astype(jnp.bfloat16).astype(np.float32) for a in self.arguments)))

    def least(self, outputs):
        """Gradients that are zero but for rounding are small beside the others."""
        return max(1e-4, 1e-3 * max(float(np.sqrt(np.mean(np.square(np.asarray(o, np.float64))))) for o in outputs))

    def results(self, x, *weights):
        gradients = jax.value_and_grad(lambda x, weights: self.loss(Layers(self.seed, weights), x), (0, 1))
        if self.form == "forward":
            return self.loss(Layers(self.seed, weights), x)
        if self.form == "ensemble":
            return jax.vmap(gradients, (None, 0))(x, list(weights))
        value, (slope, slopes) = gradients(x, list(weights))
        if self.form == "step":
            return value, [w - 0.125 * s for w, s in zip(weights, slopes)]
        return value, slope, slopes
