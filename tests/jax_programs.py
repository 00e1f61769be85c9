"""The random programs of tests/jax_differential.py that have one array of floats: operations of jax.numpy and jax.lax in a row,
and convolutions of images with what networks have behind them."""
import flax.linen
import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np


def weighted_sum(y):
    """Each element weighs another share: the gradient of the plain sum of what was normalised is nothing but rounding."""
    return jnp.sum(y.astype(jnp.float32) * (1 + jnp.arange(y.size, dtype=jnp.float32).reshape(y.shape) % 7 / 8))


class Program:
    """A random function and its arguments."""

    precision = "highest"
    allowed = 1e-4
    for_tpu = False
    patience = 20

    def __init__(self, seed, nested=False):
        self.random = np.random.default_rng(seed)
        self.arguments = []
        self.steps = []
        self.shape = tuple(int(n) for n in self.random.choice([1, 2, 3, 5, 8, 16, 33, 64, 127, 128, 130], self.pick([1, 2, 2, 3])))
        self.add_argument(self.shape, self.pick([np.float32, np.float32, ml_dtypes.bfloat16]))
        for _ in range(int(self.random.integers(1, 9))):
            self.steps.append(self.pick(STEPS)(self))
        self.form = self.pick(["plain", "plain", "plain", "plain", "grad", "vmap", "scan"])
        if nested:
            self.form = self.pick(["grad", "grad of scan", "vmap of grad", "scan of grad", "checkpoint"])

    def exactly(self, *arguments):
        """What is compared with, computed in fp64."""
        return self(*arguments)

    def rounded(self):
        """Its results with roundings that the machine may make, where those may carry far; else nothing."""

    def compared(self, outputs):
        """What is compared of its results."""
        return outputs

    def least(self, outputs):
        """What elements count as at least; outputs that are nearly zero count in absolute terms."""
        return 1e-4

    def pick(self, options):
        return options[int(self.random.integers(len(options)))]

    def add_argument(self, shape, dtype):
        if np.issubdtype(dtype, np.integer):
            value = self.random.integers(-100, 100, shape).astype(dtype)
        else:
            # Few bits: sums of some are exact, and rounding to bf16 changes nothing.
            value = (self.random.integers(-32, 33, shape) / 16).astype(dtype)
        self.arguments.append(value)
        return len(self.arguments) - 1

    def __call__(self, *arguments):
        if self.form not in ("plain", "grad", "vmap", "scan"):
            return self.nested(*arguments)
        if self.form == "grad":
            def total(x):
                return weighted_sum(self.apply(x, *arguments[1:]))
            return jax.grad(total)(arguments[0])
        if self.form == "vmap":
            return jax.vmap(lambda k: self.apply(arguments[0] + k.astype(arguments[0].dtype), *arguments[1:]))(
                jnp.arange(3, dtype=jnp.float32))
        if self.form == "scan":
            def body(carry, k):
                return carry * jnp.asarray(0.5, carry.dtype) + k.astype(carry.dtype), jnp.max(self.apply(carry, *arguments[1:]))
            return jax.lax.scan(body, arguments[0], jnp.arange(3, dtype=jnp.float32))
        return self.apply(*arguments)

    def nested(self, *arguments):
        """Of a function from x to a number, in the forms that training steps have."""
        rest = arguments[1:]
        def total(x):
            return weighted_sum(self.apply(x, *rest))
        def scanned(x):
            def body(carry, k):
                return carry * jnp.asarray(0.5, carry.dtype) + k.astype(carry.dtype), total(carry)
            return jnp.sum(jax.lax.scan(body, x, jnp.arange(3, dtype=jnp.float32))[1])
        if self.form == "grad of scan":
            return jax.value_and_grad(scanned)(arguments[0])
        if self.form == "vmap of grad":
            return jax.vmap(lambda k: jax.grad(total)(arguments[0] * k.astype(arguments[0].dtype)))(
                jnp.asarray([0.5, 1, 2], jnp.float32))
        if self.form == "scan of grad":
            def step(x, _):
                value, slope = jax.value_and_grad(total)(x)
                return x - jnp.asarray(0.125, x.dtype) * jnp.clip(slope, -1, 1), value
            return jax.lax.scan(step, arguments[0], None, length=2)
        return jax.grad(jax.checkpoint(total))(arguments[0])

    def apply(self, x, *rest):
        for step in self.steps:
            x = step(x, rest)
        return x


class ImageProgram(Program):
    """A convolution of a batch that fills the lanes, or does not, with what networks have behind it; or gradients of it.

    Operands hold few bits, so that rounding them to bf16 changes those of the forward pass not at all.
    """

    precision = "default"
    allowed = 6e-3

    def __init__(self, seed):
        self.random = np.random.default_rng(seed)
        self.arguments = []
        size, extent = self.pick([1, 2, 3, 5]), int(self.random.integers(5, 14))
        features, results = self.pick([1, 3, 4, 8, 12, 16, 24, 32]), self.pick([4, 8, 16, 20, 32, 64])
        self.stride, self.padding = self.pick([1, 1, 2]), self.pick(["SAME", "VALID"])
        for shape in ((self.pick([8, 64, 96, 128, 130, 256]), extent, extent, features), (size, size, features, results),
                      (results,)):
            self.add_argument(shape, np.float32)
        self.form = self.pick(["relu", "sums", "tanh", "gradients", "squares"])

    def apply(self, x, w):
        return jax.lax.conv_general_dilated(x, w, (self.stride, self.stride), self.padding,
                                            dimension_numbers=("NHWC", "HWIO", "NHWC"))

    def __call__(self, x, w, b):
        relu = lambda y: jnp.maximum(y, 0)
        if self.form == "relu":
            return relu(self.apply(x, w) + b)
        if self.form == "sums":
            return jnp.sum(relu(self.apply(x, w) * b), (0, 1, 2))
        if self.form == "tanh":
            return jnp.tanh(self.apply(x, w)) * b
        if self.form == "gradients":
            return jax.grad(lambda x, w: jnp.sum(relu(self.apply(x, w) + b)), (0, 1))(x, w)
        return jax.grad(lambda w: jnp.sum(relu(self.apply(x, w) + b) ** 2))(w)


class WindowProgram(Program):
    """Windows over one to three dimensions of an image, a line or a volume: their sums, means or maxima, or gradients of them.

    Extents, steps and padding are such that windows overlap, leave gaps, cover everything or hang over the edge.
    """

    allowed = 1e-4

    def __init__(self, seed):
        self.random = np.random.default_rng(seed)
        self.arguments = []
        rank = self.pick([1, 2, 2, 2, 3])
        extents = [int(self.random.integers(1, {1: 70, 2: 34, 3: 10}[rank])) for _ in range(rank)]
        self.add_argument((self.pick([1, 2, 8, 128]), *extents, self.pick([1, 3, 16, 48, 130])),
                          self.pick([np.float32, np.float32, ml_dtypes.bfloat16]))
        self.window = [self.pick([1, 2, 3, n, n, int(self.random.integers(1, n + 1))]) for n in extents]
        self.strides = [self.pick([1, 2, w, int(self.random.integers(1, w + 1))]) for w in self.window]
        self.padding = self.pick(["SAME", "VALID", [(int(self.random.integers(w)), int(self.random.integers(w)))
                                                   for w in self.window]])
        self.pool = self.pick([flax.linen.avg_pool, flax.linen.avg_pool, flax.linen.max_pool])
        self.form = self.pick(["plain", "gradient", "convolution"])

    def apply(self, x):
        return self.pool(x, tuple(self.window), tuple(self.strides), self.padding)

    def __call__(self, x):
        if self.form == "gradient":
            return jax.grad(lambda x: weighted_sum(self.apply(x)))(x)
        if self.form == "convolution":
            kernel = jnp.ones((1,) * (x.ndim - 2) + (x.shape[-1], 8), x.dtype)
            letters = "DHW"[-(x.ndim - 2):]
            form = (f"N{letters}C", f"{letters}IO", f"N{letters}C")
            return jax.lax.conv_general_dilated(self.apply(x), kernel, (1,) * (x.ndim - 2), "VALID", dimension_numbers=form)
        return self.apply(x)


def unary(p):
    name = p.pick(["tanh", "exp", "sin", "cos", "sqrt", "log1p", "expm1", "abs", "negative", "square", "cbrt", "arctan",
                   "logistic", "erf", "rsqrt", "relu"])
    def step(x, rest):
        if name == "sqrt":
            return jnp.sqrt(jnp.abs(x) + 1)
        if name == "log1p":
            return jnp.log1p(jnp.abs(x))
        if name == "cbrt":
            return jnp.cbrt(jnp.abs(x) + 1)
        if name == "rsqrt":
            return jax.lax.rsqrt(jnp.abs(x) + 1)
        if name in ("exp", "expm1"):
            return getattr(jnp, name)(jnp.clip(x, -8, 4))
        if name == "logistic":
            return jax.nn.sigmoid(x)
        if name == "erf":
            return jax.lax.erf(x)
        if name == "relu":
            return jnp.maximum(x, jnp.asarray(-0.01, x.dtype) * x)
        return getattr(jnp, name)(x)
    return step


def binary(p):
    name = p.pick(["add", "subtract", "multiply", "maximum", "minimum", "divide", "power", "arctan2"])
    value = float(p.random.integers(1, 40) / 16)
    def step(x, rest):
        other = jnp.asarray(value, x.dtype)
        if name == "power":
            return jnp.power(jnp.abs(x) + 1, other)
        return getattr(jnp, name)(x, other)
    return step


def with_argument(p):
    """Adds or multiplies an argument of its own, of the shape that is there when the function is traced."""
    seed = int(p.random.integers(1 << 30))
    multiply = bool(p.random.integers(2))
    def step(x, rest):
        values = np.random.default_rng(seed).integers(-8, 9, x.shape[-1:]) / 8
        other = jnp.asarray(values, x.dtype)
        return x * other if multiply else x + other
    return step


def product(p):
    seed, columns = int(p.random.integers(1 << 30)), int(p.pick([1, 3, 8, 64, 128, 130]))
    def step(x, rest):
        rows = x.shape[-1]
        w = np.random.default_rng(seed).integers(-4, 5, (rows, columns)) / 2.0 ** (2 + rows.bit_length() // 2)
        return jnp.matmul(x, jnp.asarray(w, x.dtype))
    return step


def convolution(p):
    seed, channels, stride = int(p.random.integers(1 << 30)), int(p.pick([1, 4, 16])), int(p.pick([1, 1, 2]))
    padding = p.pick(["SAME", "VALID"])
    def step(x, rest):
        if x.ndim != 3 or min(x.shape) < 3 or x.size > 40000:
            return x
        w = np.random.default_rng(seed).integers(-4, 5, (3, 3, 1, channels)) / 16
        out = jax.lax.conv_general_dilated(x[..., None], jnp.asarray(w, x.dtype), (stride, stride), padding,
                                           dimension_numbers=("NHWC", "HWIO", "NHWC"))
        return jnp.sum(out, axis=-1)
    return step


def reduction(p):
    name, axis, keep = p.pick(["sum", "max", "min", "mean", "prod", "var"]), int(p.random.integers(3)), bool(p.random.integers(2))
    def step(x, rest):
        if x.ndim == 0:
            return x
        if name == "prod":
            x = x * jnp.asarray(0.125, x.dtype) + jnp.asarray(1, x.dtype)
        return getattr(jnp, name)(x, axis=axis % x.ndim, keepdims=keep or x.ndim == 1)
    return step


def movement(p):
    name, a, b = p.pick(["transpose", "reshape", "slice", "pad", "concatenate", "reverse", "roll", "tile", "broadcast",
                         "stride", "repeat"]), int(p.random.integers(1, 6)), int(p.random.integers(3))
    def step(x, rest):
        if x.ndim == 0 or x.size > 60000:
            return x
        axis = b % x.ndim
        n = x.shape[axis]
        if name == "transpose":
            return jnp.moveaxis(x, axis, 0)
        if name == "reshape":
            return x.reshape(-1) if a % 2 else x.reshape((x.shape[0], -1))
        if name == "slice":
            return jax.lax.slice_in_dim(x, min(a, n - 1), n, axis=axis)
        if name == "stride":
            return jax.lax.slice_in_dim(x, 0, n, stride=min(a, n), axis=axis)
        if name == "pad":
            return jnp.pad(x, [(a, 1) if i == axis else (0, 0) for i in range(x.ndim)])
        if name == "concatenate":
            return jnp.concatenate([x, x * jnp.asarray(2, x.dtype)], axis=axis)
        if name == "reverse":
            return jnp.flip(x, axis)
        if name == "roll":
            return jnp.roll(x, a, axis)
        if name == "tile":
            return jnp.tile(x, a % 3 + 1)
        if name == "repeat":
            return jnp.repeat(x, a % 2 + 1, axis=axis)
        return jnp.broadcast_to(x[None], (a % 3 + 1,) + x.shape)
    return step


def indexing(p):
    name, seed = p.pick(["take", "dynamic_slice", "update", "scatter_add", "one_hot"]), int(p.random.integers(1 << 30))
    def step(x, rest):
        if x.ndim == 0:
            return x
        random = np.random.default_rng(seed)
        n = x.shape[0]
        if name == "take":
            return jnp.take(x, jnp.asarray(random.integers(0, n, 5)), axis=0)
        at = int(random.integers(0, n))
        if name == "dynamic_slice":
            return jax.lax.dynamic_slice_in_dim(x, jnp.int32(at), max(1, n // 2), axis=0)
        if name == "update":
            return jax.lax.dynamic_update_slice_in_dim(x, x[:1] * jnp.asarray(3, x.dtype), jnp.int32(at), axis=0)
        if name == "scatter_add":
            return x.at[jnp.asarray(random.integers(0, n, 4))].add(jnp.asarray(0.5, x.dtype))
        return x + jax.nn.one_hot(at, x.shape[-1], dtype=x.dtype)
    return step


def ordered(p):
    """Of inputs that both sides hold exactly: a constant array is sorted, searched, counted and added."""
    name, seed = p.pick(["sort", "argmax", "cumsum", "where", "integers"]), int(p.random.integers(1 << 30))
    def step(x, rest):
        if x.ndim == 0:
            return x
        values = np.random.default_rng(seed).permutation(x.shape[-1]).astype(np.float32) / 8
        v = jnp.asarray(values)
        if name == "sort":
            return x + jnp.sort(v).astype(x.dtype)
        if name == "argmax":
            return x + (jnp.argmax(v) % 7).astype(x.dtype)
        if name == "cumsum":
            return x + (jnp.cumsum(v) / values.size).astype(x.dtype)
        if name == "where":
            return jnp.where(v > 1, x, -x)
        whole = v.astype(jnp.int32)
        return x + ((whole * 3 // 2) % 5 ^ 1).astype(x.dtype)
    return step


def normalisation(p):
    name = p.pick(["softmax", "layer", "logsumexp"])
    def step(x, rest):
        if x.ndim == 0:
            return x
        if name == "softmax":
            return jax.nn.softmax(x, axis=-1)
        if name == "logsumexp":
            return x - jax.scipy.special.logsumexp(x, axis=-1, keepdims=True)
        mean = jnp.mean(x, -1, keepdims=True)
        return (x - mean) / jnp.sqrt(jnp.mean((x - mean) ** 2, -1, keepdims=True) + 1)
    return step


STEPS = [unary, unary, binary, binary, with_argument, product, convolution, reduction, movement, movement, indexing,
         ordered, normalisation]
