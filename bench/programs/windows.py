"""Pooling windows and resized images: lines and pictures of usual and unusual sizes, with and without the gradients of a square error.

    python bench/programs/windows.py g_line_2_1024_64_2_2 > line.mlir      lines: count, pixels, features, window, stride
    python bench/programs/windows.py max_1_512_3_3_2 > picture.mlir        max, sum, g_max: pictures, side, features, window, stride
    python bench/programs/windows.py g_bilinear_8_32_64 > resized.mlir     pictures, side, features; a name without g_ has no gradients

What a choice between kernels and parts of the image takes (passes/expand/window_choice.cpp) is estimated by factors that these showed. Needs jax.
"""

import os

os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import jax.numpy as jnp
from named_steps import NamedFunctions, f, print_named

lax = jax.lax
FUNCTIONS = NamedFunctions()
LINES = ((2, 1024, 64), (3, 1024, 5), (8, 1024, 64), (1, 1500, 128), (16, 2048, 32), (128, 1000, 64), (4, 800, 200), (2, 4096, 64))
SMALL_PICTURES = ((1, 112, 64), (1, 112, 128), (4, 112, 64), (8, 112, 64), (32, 56, 64), (32, 56, 192), (128, 28, 64))
PICTURES = SMALL_PICTURES + ((2, 224, 32), (16, 32, 3), (128, 32, 3), (1, 512, 3))
RESIZED = ((8, 32, 64, 2), (2, 64, 128, 2), (16, 28, 32, 8), (1, 128, 3, 2), (32, 224, 3, 0.5), (8, 14, 256, 2))


def trained(function):
    return jax.value_and_grad(lambda x: (function(x).astype(jnp.float32) ** 2).sum())


def windows(size, strides, padding, initial=-jnp.inf, how=lax.max):
    return lambda x: lax.reduce_window(x, initial, how, size, strides, padding)


for count, pixels, features in LINES:
    for size, stride in ((2, 2), (3, 2), (3, 3), (3, 1), (5, 5), (4, 2)):
        for padding in ("SAME", "VALID"):
            name = f"g_line_{count}_{pixels}_{features}_{size}_{stride}" + ("" if padding == "SAME" else "_valid")
            FUNCTIONS.add(name, trained(windows((1, size, 1), (1, stride, 1), padding)), f(count, pixels, features))
for count, side, features in PICTURES:
    for size, stride in ((2, 2), (3, 2), (3, 1), (7, 7)):
        shape = f(count, side, side, features)
        along, steps, name = (1, size, size, 1), (1, stride, stride, 1), f"{count}_{side}_{features}_{size}_{stride}"
        FUNCTIONS.add("max_" + name, windows(along, steps, "SAME"), shape)
        FUNCTIONS.add("sum_" + name, windows(along, steps, "SAME", 0.0, lax.add), shape)
        FUNCTIONS.add("g_max_" + name, trained(windows(along, steps, "SAME")), shape)
for count, side, features, scale in RESIZED:
    for method in ("bilinear", "bicubic"):
        extents = (count, int(side * scale), int(side * scale), features)
        resized = lambda x, extents=extents, method=method: jax.image.resize(x, extents, method)
        FUNCTIONS.add(f"{method}_{count}_{side}_{features}", resized, f(count, side, side, features))
        FUNCTIONS.add(f"g_{method}_{count}_{side}_{features}", trained(resized), f(count, side, side, features))


if __name__ == "__main__":
    print_named(FUNCTIONS, FUNCTIONS.stablehlo, __doc__)
