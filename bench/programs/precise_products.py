"""Programs whose products of f32 ask for more than the default precision, to capture: products of matrices, a net's and an attention's gradients,
transforms and factorizations; and what the files of single layers, blocks and moved pixels have, with all of its products at the highest precision.

    python bench/programs/precise_products.py attention > attention.mlir
    python bench/programs/precise_products.py layer_steps.conv3_c64 > conv3_c64.mlir

precise_products.md says what came out. Needs jax, flax and optax.
"""

import os

os.environ["JAX_PLATFORMS"] = "cpu"

import block_steps
import jax
import jax.numpy as jnp
import layer_steps
import moved_pixels
from jax.scipy.linalg import lu_factor, solve_triangular
from named_steps import NamedFunctions, f, print_named

FUNCTIONS = NamedFunctions()
OTHERS = dict(layer_steps=layer_steps.STEPS, block_steps=block_steps.STEPS, moved_pixels=moved_pixels.FUNCTIONS)
# Rows, contracted elements, columns: even and odd ones, few of each, and one that fills the chip.
SIZES = ((512, 512, 512), (2048, 2048, 2048), (1024, 64, 1024), (4096, 14, 28), (256, 784, 128), (8192, 128, 256), (33, 77, 99), (3456, 128, 256))


def product(precision):
    return lambda a, b: jnp.dot(a, b, precision=precision)


for precision in ("high", "highest"):
    for m, k, n in SIZES:
        FUNCTIONS.add(f"{precision}_{m}_{k}_{n}", product(precision), f(m, k), f(k, n))


def einsum(name, text, *arguments):
    FUNCTIONS.add(name, lambda a, b: jnp.einsum(text, a, b, precision="highest"), *arguments)


einsum("matrices", "bij,bjk->bik", f(64, 128, 64), f(64, 64, 128))
einsum("small_matrices", "bij,bjk->bik", f(256, 24, 24), f(256, 24, 24))
einsum("both_turned", "ki,kj->ij", f(4096, 256), f(4096, 300))
einsum("right_turned", "ik,jk->ij", f(1000, 256), f(300, 256))


def highest(function):
    """With its products at the highest precision, as `jax.default_matmul_precision` asks."""

    def made(*arguments):
        with jax.default_matmul_precision("highest"):
            return function(*arguments)

    return made


def mlp(w, v, x, y):
    def loss(w, v):
        return jnp.mean((jax.nn.gelu(x @ w) @ v - y) ** 2)

    of_w, of_v = jax.grad(loss, (0, 1))(w, v)
    return w - 0.1 * of_w, v - 0.1 * of_v


def attention(query, key, value, x):
    def loss(query, key, value):
        q, k, v = ((x @ w).reshape(8, 128, 4, 32) for w in (query, key, value))
        shares = jax.nn.softmax(jnp.einsum("bqhd,bkhd->bhqk", q, k) / 32**0.5)
        return jnp.sum(jnp.einsum("bhqk,bkhd->bqhd", shares, v) ** 2)

    return jax.grad(loss, (0, 1, 2))(query, key, value)


def convolutions(first, second, x):
    def convolved(x, window, stride):
        return jax.nn.relu(jax.lax.conv_general_dilated(x, window, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")))

    return jax.grad(lambda first, second: jnp.mean(convolved(convolved(x, first, 1), second, 2) ** 2), (0, 1))(first, second)


FUNCTIONS.add("mlp", highest(mlp), f(784, 512), f(512, 10), f(256, 784), f(256, 10))
FUNCTIONS.add("attention", highest(attention), *[f(128, 128)] * 3, f(8, 128, 128))
FUNCTIONS.add("convolutions", highest(convolutions), f(3, 3, 3, 32), f(3, 3, 32, 64), f(64, 32, 32, 3))
FUNCTIONS.add("covariance", lambda x: jnp.cov(x.T), f(2000, 64))
FUNCTIONS.add("transform", lambda x: jnp.abs(jnp.fft.rfft(x)), f(64, 1024))


# Factorizations and solutions, whose large products ask for the highest precision. The computer's CPU has them as calls of LAPACK, so they are lowered for TPUs.
FACTORIZATIONS = NamedFunctions()
for n in (128, 256, 384, 512, 768, 1024):
    FACTORIZATIONS.add(f"tri_{n}", lambda a, b: solve_triangular(a, b, lower=True), f(n, n), f(n, n))
    FACTORIZATIONS.add(f"chol_{n}", jnp.linalg.cholesky, f(n, n))
for n in (128, 256, 512):
    FACTORIZATIONS.add(f"lu_{n}", lu_factor, f(n, n))
    FACTORIZATIONS.add(f"qr_{n}", jnp.linalg.qr, f(n, n))
    FACTORIZATIONS.add(f"tri_b8_{n}", lambda a, b: solve_triangular(a, b, lower=True), f(8, n, n), f(8, n, 64))
    FACTORIZATIONS.add(f"chol_b8_{n}", jnp.linalg.cholesky, f(8, n, n))
    FACTORIZATIONS.add(f"gchol_{n}", jax.grad(lambda a: jnp.sum(jnp.linalg.cholesky(a @ a.T + len(a) * jnp.eye(len(a))))), f(n, n))
    FACTORIZATIONS.add(f"inv_{n}", jnp.linalg.inv, f(n, n))
    FACTORIZATIONS.add(f"solve_{n}", jnp.linalg.solve, f(n, n), f(n, 16))


def stablehlo(name):
    if name in FUNCTIONS:
        return FUNCTIONS.stablehlo(name)
    if name in FACTORIZATIONS:
        function, arguments = FACTORIZATIONS[name]
        return jax.jit(function).trace(*arguments).lower(lowering_platforms=("tpu",)).as_text()
    file, _, step = name.partition(".")
    return OTHERS[file].stablehlo(step).replace("precision DEFAULT", "precision HIGHEST").replace("[DEFAULT, DEFAULT]", "[HIGHEST, HIGHEST]")


NAMES = [*FUNCTIONS, *FACTORIZATIONS, *(f"{file}.{step}" for file, steps in OTHERS.items() for step in steps)]

if __name__ == "__main__":
    print_named(NAMES, stablehlo, __doc__)
