"""Programs that see one, two, three or four examples at a time, to capture: what serves a model (predictions, a decoder's next token), small nets as
they are trained by single examples, large pictures of which a batch holds few, vectors, and single operations on arrays of few rows, as of sounds.
Names: the kind, `_grad` with the gradients of what it learns, the examples.

    python bench/programs/few_examples.py next_token_2 > next_token_2.mlir
    python bench/programs/few_examples.py lstm_grad_4 > lstm_grad_4.mlir

few_examples.md says what came out. Needs jax, flax and optax.
"""

import os

os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import jax.numpy as jnp
import optax
from named_steps import NamedFunctions, cross_entropy, f, ints, layers, mlp, print_named, square

lax = jax.lax
FUNCTIONS = NamedFunctions()


def kind(parameters, batch, trained=True, examples=(1, 2, 4)):
    """A kind of program: parameters; a function of the number of examples that gives the other arguments."""

    def add(function):
        name = function.__name__
        for b in examples:
            FUNCTIONS.add(f"{name}_{b}", function, parameters, *batch(b))
            if trained:
                FUNCTIONS.add(
                    f"{name}_grad_{b}", jax.value_and_grad(lambda p, *rest: jnp.mean(jnp.square(function(p, *rest).astype(jnp.float32)))), parameters, *batch(b)
                )
        return function

    return add


def normalised(x, scale):
    return x * lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * scale


def bf16(*extents):
    return jax.ShapeDtypeStruct(extents, jnp.bfloat16)


@kind(layers(784, 512, 512, 10), lambda b: (f(b, 784),))
def classifier(p, x):
    return mlp(p, x, jax.nn.relu)


@kind(layers(17, 256, 256, 6), lambda b: (f(b, 17),), examples=(1, 3, 4))
def policy(p, x):
    return jnp.tanh(mlp(p, x))


@kind((bf16(1024, 4096), bf16(1024, 4096), bf16(4096, 1024), bf16(1024)), lambda b: (bf16(b, 1024),))
def gated(p, x):
    gate, up, down, scale = p
    y = normalised(x, scale)
    return x + (jax.nn.silu(y @ gate) * (y @ up)) @ down


BLOCK = dict(q=bf16(512, 512), k=bf16(512, 512), v=bf16(512, 512), o=bf16(512, 512), up=bf16(512, 2048), down=bf16(2048, 512), a=bf16(512), b=bf16(512))


@kind(BLOCK, lambda b: (bf16(b, 512), bf16(b, 256, 8, 64), bf16(b, 256, 8, 64), ints()), trained=False)
def next_token(p, x, keys, values, at):
    b = x.shape[0]
    y = normalised(x, p["a"])
    q, k, v = ((y @ p[n]).reshape(b, 1, 8, 64) for n in "qkv")
    keys, values = (lax.dynamic_update_slice(cache, new, (0, at, 0, 0)) for cache, new in ((keys, k), (values, v)))
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, keys).astype(jnp.float32) / 8
    shares = jax.nn.softmax(jnp.where(jnp.arange(256) <= at, scores, -1e9), -1).astype(x.dtype)
    x = x + jnp.einsum("bhqk,bkhd->bqhd", shares, values).reshape(b, 512) @ p["o"]
    return x + jax.nn.gelu(normalised(x, p["b"]) @ p["up"]) @ p["down"], keys, values


@kind(BLOCK, lambda b: (bf16(b, 128, 512),))
def encoder(p, x):
    b = x.shape[0]
    y = normalised(x, p["a"])
    q, k, v = ((y @ p[n]).reshape(b, 128, 8, 64) for n in "qkv")
    shares = jax.nn.softmax(jnp.einsum("bqhd,bkhd->bhqk", q, k).astype(jnp.float32) / 8, -1).astype(x.dtype)
    x = x + jnp.einsum("bhqk,bkhd->bqhd", shares, v).reshape(b, 128, 512) @ p["o"]
    return x + jax.nn.gelu(normalised(x, p["b"]) @ p["up"]) @ p["down"]


@kind((f(64, 512), f(128, 512), f(512)), lambda b: (f(b, 50, 64),), examples=(1, 2, 3, 4))
def lstm(p, x):
    into, again, bias = p

    def cell(state, x):
        h, c = state
        i, g, o, keep = jnp.split(x @ into + h @ again + bias, 4, -1)
        c = jax.nn.sigmoid(keep) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    zeros = jnp.zeros((x.shape[0], 128))
    return lax.scan(cell, (zeros, zeros), x.transpose(1, 0, 2))[1]


@kind((f(128, 128), f(128, 128), f(128)), lambda b: (f(b, 80, 128),))
def elman(p, x):
    into, again, bias = p

    def cell(h, x):
        h = jnp.tanh(x @ into + h @ again + bias)
        return h, h

    return lax.scan(cell, jnp.zeros((x.shape[0], 128)), x.transpose(1, 0, 2))[1]


@kind((f(256), f(256, 16), f(256, 16), f(256)), lambda b: (f(b, 64, 256),))
def state_space(p, x):
    decay, into, out, skip = p
    decay = jax.nn.sigmoid(decay)

    def cell(h, x):
        h = decay[:, None] * h + into * x[..., None]
        return h, (h * out).sum(-1) + skip * x

    return lax.scan(cell, jnp.zeros((x.shape[0], 256, 16)), x.transpose(1, 0, 2))[1]


def convolved(x, w, step=1, groups=1):
    return lax.conv_general_dilated(
        x, w, (step,) * (x.ndim - 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC") if x.ndim == 4 else ("NWC", "WIO", "NWC"), feature_group_count=groups
    )


@kind((f(7, 7, 3, 64), f(3, 3, 64, 64), f(3, 3, 64, 128), f(128, 1000)), lambda b: (f(b, 128, 128, 3),))
def picture(p, x):
    first, second, third, out = p
    x = jax.nn.relu(convolved(x, first, 2))
    x = x + jax.nn.relu(convolved(x, second))
    return jax.nn.relu(convolved(x, third, 2)).mean((1, 2)) @ out


@kind((bf16(1, 1, 96, 384), bf16(3, 3, 1, 384), bf16(1, 1, 384, 96)), lambda b: (bf16(b, 28, 28, 96),))
def inverted(p, x):
    up, depth, down = p
    return x + convolved(jax.nn.silu(convolved(jax.nn.silu(convolved(x, up)), depth, groups=384)), down)


@kind((f(3, 3, 16, 32), f(3, 3, 32, 32), f(3, 3, 48, 16)), lambda b: (f(b, 96, 96, 16),))
def segmented(p, x):
    down, inner, up = p
    y = jax.nn.relu(convolved(jax.nn.relu(convolved(x, down, 2)), inner))
    y = jnp.repeat(jnp.repeat(y, 2, 1), 2, 2)
    return convolved(jnp.concatenate([x, y], -1), up)


@kind((f(9, 32, 64), f(64), f(64, 40)), lambda b: (f(b, 3000, 32),))
def sound(p, x):
    window, bias, out = p
    return jax.nn.gelu(convolved(x, window, 2) + bias).mean(1) @ out


@kind((f(30000, 128), f(128, 20)), lambda b: (ints(b, 64),))
def words(p, tokens):
    table, out = p
    return table[tokens].mean(1) @ out


@kind((f(512, 32000),), lambda b: (f(b, 512),), trained=False)
def sampled(p, x):
    logits, best = lax.top_k(x @ p[0], 40)
    return jnp.take_along_axis(best, jnp.argmax(logits + jnp.sin(logits), -1)[:, None], -1), jax.nn.softmax(logits / 0.8, -1)


@kind((f(4096), f(4096)), lambda b: (f(b, 4096),), examples=(1, 2, 3, 4))
def norm(p, x):
    scale, shift = p
    x = (x - x.mean(-1, keepdims=True)) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-5)
    return jnp.tanh(x * scale + shift)


@kind((f(100), f(100), f(1000), f(384)), lambda b: (f(b, 100), f(b, 1000)))
def vectors(p, x, y):
    a, c, d, e = p
    return jnp.sin(x * a + c).sum(-1) + jnp.exp(-jnp.abs(y * d)).mean(-1) + jnp.cumsum(e)[-1]


@kind((f(500, 8), f(500), f(8)), lambda b: (f(b, 8),))
def kernel_regression(p, x):
    points, weights, scale = p
    return jnp.exp(-0.5 * jnp.sum(jnp.square((x[:, None] - points) * scale), -1)) @ weights


@kind((f(8, 256, 512), f(8, 512, 256), f(256, 8)), lambda b: (f(b, 256),))
def experts(p, x):
    up, down, gate = p
    shares = jax.nn.softmax(x @ gate, -1)
    best, which = lax.top_k(shares, 2)
    kept = jax.nn.one_hot(which, 8).transpose(0, 2, 1) @ best[..., None]
    return jnp.einsum("be,ben->bn", kept[..., 0], jnp.einsum("ebh,ehn->ben", jax.nn.relu(jnp.einsum("bn,enh->ebh", x, up)), down))


def trained(name, p, batch, loss, optimizer=optax.adam(1e-3)):
    for b in (1, 2, 4):
        FUNCTIONS.trained(f"{name}_adam_{b}", loss, p, *batch(b), optimizer=optimizer)


trained("classifier", layers(784, 512, 512, 10), lambda b: (f(b, 784), ints(b)), lambda p, x, y: cross_entropy(mlp(p, x, jax.nn.relu), y))
trained("policy", layers(17, 256, 256, 6), lambda b: (f(b, 17), f(b, 6)), lambda p, x, y: square(jnp.tanh(mlp(p, x)), y))
trained("lstm", (f(64, 512), f(128, 512), f(512)), lambda b: (f(b, 50, 64), f(50, b, 128)), lambda p, x, y: square(lstm(p, x), y))
trained("encoder", BLOCK, lambda b: (bf16(b, 128, 512), bf16(b, 128, 512)), lambda p, x, y: square(encoder(p, x).astype(jnp.float32), y.astype(jnp.float32)))


def rows(name, function, *extents, examples=(1, 2, 3, 4)):
    """A function of arrays of few rows; `extents` of the examples."""
    for b in examples:
        FUNCTIONS.add(f"rows_{name}_{b}", function, *(a(b) if callable(a) else a for a in extents))


rows("mulaw", lambda x: jnp.sign(x) * jnp.log1p(255 * jnp.abs(x)) / jnp.log(256.0), lambda b: f(b, 160000))
rows("chain", lambda x: jnp.tanh(jnp.sin(x) * jnp.exp(-x * x)), lambda b: f(b, 65536))
rows("chainh", lambda x: jnp.tanh(jnp.sin(x) * jnp.exp(-x * x)), lambda b: bf16(b, 65536))
rows("lsm", lambda x: jax.nn.log_softmax(x), lambda b: f(b, 50000))
rows("lin", lambda x, w, c: jnp.tanh(x * w + c), lambda b: f(b, 50000), f(50000), f(50000))
rows("norm", lambda x: (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5), lambda b: f(b, 50000))
rows("pre", lambda x: x[:, 1:] - 0.97 * x[:, :-1], lambda b: f(b, 160000))
rows("roll", lambda x: jnp.roll(x, 3, 1) * x, lambda b: f(b, 40000))
rows("mix", lambda x, w: jnp.einsum("bt,bc->ct", x, w), lambda b: f(b, 40000), lambda b: f(b, 8))
rows("seq", lambda x: jnp.exp(x).sum(1), lambda b: f(b, 512, b * 16))
rows("tr", lambda x: jnp.tanh(x.T), lambda b: f(b, 40000))
rows("mid", lambda x: jnp.cos(jnp.tanh(x)), lambda b: f(300, b, 1000))
rows("midr", lambda x: jnp.cos(jnp.tanh(x)).sum(1), lambda b: f(300, b, 1000))
rows("midg", lambda x, i: x[i], lambda b: f(300, b, 1000), ints(64))
rows("cat", lambda x, y: jnp.concatenate([x, y], 0), lambda b: f(b, 40000), lambda b: f(b, 40000))
rows("cum", lambda x: jnp.cumsum(x, 1), lambda b: f(b, 40000))
rows("sort", lambda x: jnp.sort(x, 1), lambda b: f(b, 4000))
rows("pool", lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, 4), (1, 4), "VALID"), lambda b: f(b, 40000))
rows(
    "adam",
    lambda p, g, m, v: (p - 1e-3 * (0.9 * m + 0.1 * g) / (jnp.sqrt(0.99 * v + 0.01 * g * g) + 1e-8), 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g * g),
    *[lambda b: f(b, 100000)] * 4,
)


if __name__ == "__main__":
    print_named(FUNCTIONS, FUNCTIONS.stablehlo, "usage: few_examples.py NAME > NAME.mlir")
