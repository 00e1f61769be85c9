"""Transposed convolutions, pixels and patches that are put elsewhere, and sorts: written on 2026-11-30 for what a transposed convolution over volumes had shown.

    python bench/programs/moved_pixels.py g_vnet > g_vnet.mlir     g_: with the gradients of a square error
    PYTHONPATH=workloads/capture python -m tpusim_capture g_vnet.mlir --chip v3 -o STEPS/g_vnet
    bench/xla_ratio.py --folder STEPS g_vnet

moved_pixels.md says what came out. Needs jax.
"""

import os

os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import jax.numpy as jnp
from named_steps import KEY, NamedFunctions, f, ints, print_named

lax, nn = jax.lax, jax.nn
FUNCTIONS = NamedFunctions()
HALF = jnp.bfloat16
ORDERS = {1: ("NHC", "HIO", "NHC"), 2: ("NHWC", "HWIO", "NHWC"), 3: ("NDHWC", "DHWIO", "NDHWC")}


def in_type(shape, type):
    return jax.ShapeDtypeStruct(shape.shape, type)


def with_gradients(name, function, x, w):
    """The function, and what a training step asks of it."""
    result = jax.eval_shape(function, x, w)

    def gradients(x, w, wanted):
        return jax.value_and_grad(lambda x, w: jnp.mean((function(x, w) - wanted) ** 2), (0, 1))(x, w)

    FUNCTIONS.add(name, function, x, w)
    FUNCTIONS.add("g_" + name, gradients, x, w, in_type(result, result.dtype))


def transposed(name, x, size, features, stride, type=jnp.float32):
    d = len(x.shape) - 2

    def convolution(x, w):
        return nn.leaky_relu(lax.conv_transpose(x, w, (stride,) * d, "SAME", dimension_numbers=ORDERS[d]))

    with_gradients(name, convolution, in_type(x, type), in_type(f(*[size] * d, x.shape[-1], features), type))


transposed("dcgan1", f(64, 4, 4, 512), 4, 256, 2)
transposed("dcgan3", f(64, 16, 16, 128), 4, 64, 2)
transposed("dcgan4", f(64, 32, 32, 64), 4, 3, 2)
transposed("unet_b8", f(8, 32, 32, 128), 2, 64, 2)
transposed("unet_b2", f(2, 64, 64, 64), 2, 32, 2)
transposed("unet_b1_bf16", f(1, 128, 128, 64), 2, 32, 2, HALF)
transposed("vae_gray", f(128, 14, 14, 32), 3, 1, 2)
transposed("k3s2", f(32, 16, 16, 64), 3, 32, 2)
transposed("fpn4", f(4, 32, 32, 128), 4, 128, 4)
transposed("vnet", f(2, 16, 16, 16, 64), 2, 32, 2)
transposed("vnet_b1", f(1, 16, 32, 32, 32), 2, 16, 2)
transposed("vnet3", f(2, 16, 16, 16, 32), 3, 16, 2)
transposed("wave", f(16, 512, 64), 8, 32, 4)
transposed("wave_long", f(4, 4000, 32), 16, 16, 8)


def shuffled(x, times, features):
    b, h, w, _ = x.shape
    return x.reshape(b, h, w, times, times, features).transpose(0, 1, 3, 2, 4, 5).reshape(b, times * h, times * w, features)


def gathered(x, high, wide):
    """Windows of an image, each in one row."""
    b, h, w, c = x.shape
    return x.reshape(b, h // high, high, w // wide, wide, c).transpose(0, 1, 3, 2, 4, 5)


def convolved(x, w):
    return lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=ORDERS[2])


def quarters(x, order):
    return jnp.concatenate([x[:, i::2, j::2] for i, j in order], -1)


def tubes(x, w):
    b, t, h, v, c = x.shape
    return x.reshape(b, t // 2, 2, h // 16, 16, v // 16, 16, c).transpose(0, 1, 3, 5, 2, 4, 6, 7).reshape(b, -1, 512 * c) @ w


CORNERS = ((0, 0), (1, 0), (0, 1), (1, 1))
MOVES = {
    "espcn": (lambda x, w: jnp.tanh(shuffled(convolved(x, w), 3, 3)), f(16, 64, 64, 32), f(3, 3, 32, 27)),
    "edsr": (lambda x, w: nn.relu(shuffled(convolved(x, w), 2, 64)), f(4, 48, 48, 64), f(3, 3, 64, 256)),
    "unpatch": (lambda x, w: shuffled((x @ w).reshape(len(x), 16, 16, -1), 2, 4), f(32, 256, 384), f(384, 16)),
    "unpatch16": (lambda x, w: (x @ w).reshape(len(x), 14, 14, 16, 16, 3).transpose(0, 1, 3, 2, 4, 5).reshape(-1, 224, 224, 3), f(16, 196, 512), f(512, 768)),
    "patch": (lambda x, w: gathered(x, 4, 4).reshape(len(x), -1, 16 * x.shape[-1]) @ w, f(16, 64, 64, 16), f(256, 384)),
    "merge": (lambda x, w: quarters(x, CORNERS) @ w, f(8, 56, 56, 96), f(384, 192)),
    "s2d": (lambda x, w: convolved(gathered(x, 2, 2).reshape(8, 64, 64, 64), w), f(8, 128, 128, 16), f(3, 3, 64, 32)),
    "focus": (lambda x, w: convolved(quarters(x, CORNERS), w), f(4, 256, 256, 3), f(3, 3, 12, 32)),
    "tube": (tubes, f(2, 16, 112, 112, 3), f(1536, 512)),
    "windows": (lambda x, w: gathered(x, 7, 7).reshape(-1, 49, x.shape[-1]) @ w, f(8, 56, 56, 96), f(96, 288)),
}
for move, (function, *arguments) in MOVES.items():
    with_gradients(move, function, *arguments)
    if move in ("edsr", "unpatch", "patch", "merge", "windows"):
        with_gradients(move + "_b", function, *[in_type(a, HALF) for a in arguments])


def between(x, w):
    b, z, y, v, _ = x.shape
    return jnp.einsum("bzyxc,kc->bzyxk", x, w).reshape(b, z, y, v, 2, 2, 2, -1).transpose(0, 1, 4, 2, 5, 3, 6, 7).reshape(b, 2 * z, 2 * y, 2 * v, -1)


def placed(x, w):
    b, z, y, v, c = x.shape
    return jnp.einsum("bzyxc,pqrkc->bzpyqxrk", x, w.reshape(2, 2, 2, -1, c)).reshape(b, 2 * z, 2 * y, 2 * v, -1)


FUNCTIONS.add("vn", between, f(2, 16, 16, 16, 64), f(256, 64))
FUNCTIONS.add("vg", placed, f(2, 16, 16, 16, 64), f(256, 64))
FUNCTIONS.add("vn1", between, f(1, 16, 32, 32, 32), f(128, 32))
FUNCTIONS.add("hn", lambda x, w: shuffled(jnp.einsum("byxc,kc->byxk", x, w), 2, 32), f(2, 64, 64, 64), f(128, 64))

FUNCTIONS.add("vec100", jnp.sort, f(100))
FUNCTIONS.add("vec5000", jnp.sort, f(5000))
FUNCTIONS.add("rows64", jnp.sort, f(64, 200))
FUNCTIONS.add("rows8", jnp.sort, f(8, 1000))
FUNCTIONS.add("cols", lambda x: jnp.sort(x, 0), f(200, 64))
FUNCTIONS.add("arg", jnp.argsort, f(32, 100))
FUNCTIONS.add("argdesc", lambda x: jnp.argsort(-x)[:, :10], f(128, 50))
FUNCTIONS.add("topk", lambda x: lax.top_k(x, 8), f(64, 300))
FUNCTIONS.add("topk1", lambda x: lax.top_k(x, 1), f(256, 64))
FUNCTIONS.add("median", lambda x: jnp.median(x, -1), f(64, 99))
FUNCTIONS.add("perm", jax.random.permutation, KEY, f(512))
FUNCTIONS.add("unique", lambda x: jnp.unique(x, size=64), ints(300))
FUNCTIONS.add("tied", lambda k, v: lax.sort((k, v), num_keys=1), ints(16, 128), f(16, 128))
FUNCTIONS.add("quant", lambda x: jnp.quantile(x, jnp.array([0.1, 0.5, 0.9])), f(1000))
FUNCTIONS.add("g_sort", lambda x, w: jax.grad(lambda x: (jnp.sort(x) * w).sum())(x), f(32, 100), f(32, 100))
FUNCTIONS.add("rank", lambda x: jnp.argsort(jnp.argsort(x)), f(2000))

if __name__ == "__main__":
    print_named(FUNCTIONS, FUNCTIONS.stablehlo, __doc__)
