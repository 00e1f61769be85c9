#!/usr/bin/env python3
"""Functions of JAX's libraries at the sizes that people use: which of them does our compiler refuse, how many cycles does each take?

    python tests/jax_large_functions.py --tpusim build/tpusim --cycles now.json [NAME ...]

The table has a name, a function and its arguments on each line; with `GRADIENT`, g_NAME is the gradient of the sum of the
result's squares by all arguments that are floats. Each is lowered as for a TPU (factorisations as operations), compiled by our
compiler and simulated for a step on a core, without values. jax_functions.py compares values, at sizes where every array is a few
tiles; here vectors have a million elements, images 224 rows, tables 50,000. Prints what was refused, in the message's first two
lines; exit code 1 if anything was, 77 without jax and optax. `--cycles` writes the cycles of each, and the bytes of its arguments
and results, so that two versions can be compared.
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

os.environ["JAX_PLATFORMS"] = "cpu"

try:
    import jax
    import jax.flatten_util
    import jax.numpy as jnp
    import jax.scipy as jsp
    import numpy as np
    import optax
    from jax import lax, nn, random
except ImportError as error:
    print(f"no jax: {error}")
    sys.exit(77)

TYPES = {"f32": jnp.float32, "bf16": jnp.bfloat16, "s32": jnp.int32, "u8": jnp.uint8, "pred": jnp.bool_}
SHAPES = """
vector=f32[1000000] square=f32[1000,1000] odd=f32[1001,300] images=f32[32,224,224,3] maps=f32[32,56,56,64] points=f32[100000,3]
cloud=f32[1000000,3] rotations=f32[100000,4] table=f32[50000,64] places=s32[4096] sequences=f32[16,1024,512] heads=f32[8,8,512,64]
queries=f32[8,512,8,64] volumes=f32[2,64,64,64,8] audio=f32[16,48000] logits=f32[32,50257] labels=s32[32] whole=s32[1000000] key=key[]
"""
SHAPES = dict(word.split("=") for word in SHAPES.split())
NHWC = ("NHWC", "HWIO", "NHWC")
GRADIENT = True


def of_shape(word):
    """The argument that a word stands for: vector, or f32[3,4]."""
    kind, extents = re.fullmatch(r"(\w+)\[([\d,]*)\]", SHAPES.get(word, word)).groups()
    kind = random.key(0).dtype if kind == "key" else TYPES[kind]
    return jax.ShapeDtypeStruct(tuple(int(n) for n in extents.split(",") if n), kind)


def each(module, names, words, *gradient):
    """Lines of the table for functions that need no more than their arguments."""
    return [(name, getattr(module, name), words, *gradient) for name in names.split()]


def layer_norm(x, scale, offset):
    centred = x - x.mean(-1, keepdims=True)
    return centred * lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * scale + offset


def batch_norm(x, scale, offset):
    return (x - x.mean((0, 1, 2))) * lax.rsqrt(x.var((0, 1, 2)) + 1e-5) * scale + offset


def group_norm(x, scale, offset):
    parts = x.reshape(x.shape[:-1] + (32, -1))
    parts = nn.standardize(parts, axis=(1, 2, 4), epsilon=1e-5)
    return parts.reshape(x.shape) * scale + offset


def rotary(x):
    """Halves of the features turned, by the place in the sequence."""
    half = x.shape[-1] // 2
    angles = jnp.arange(x.shape[-2])[:, None] * 10000.0 ** (-jnp.arange(half) / half)
    left, right = jnp.split(x, 2, -1)
    return jnp.concatenate([left * jnp.cos(angles) - right * jnp.sin(angles), right * jnp.cos(angles) + left * jnp.sin(angles)], -1)


def rotary_pairs(x):
    """Neighbours turned."""
    angles = jnp.arange(x.shape[-2])[:, None] * 10000.0 ** (-jnp.arange(0, x.shape[-1], 2) / x.shape[-1])
    even, odd = x[..., ::2], x[..., 1::2]
    turned = even * jnp.cos(angles) - odd * jnp.sin(angles), odd * jnp.cos(angles) + even * jnp.sin(angles)
    return jnp.stack(turned, -1).reshape(x.shape)


def alibi(q, k, v):
    places = jnp.arange(q.shape[2])
    slopes = 2.0 ** -jnp.arange(1, q.shape[1] + 1)
    scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) / 8 - slopes[:, None, None] * jnp.abs(places[:, None] - places)
    return nn.softmax(jnp.where(places[:, None] >= places, scores, -1e9)) @ v


def windows(x, size):
    b, h, w, c = x.shape
    return x.reshape(b, h // size, size, w // size, size, c).transpose(0, 1, 3, 2, 4, 5).reshape(-1, size * size, c)


def quaternion_product(p, q):
    a, b, c, d = p.T
    e, f, g, h = q.T
    return jnp.stack([a * e - b * f - c * g - d * h, a * f + b * e + c * h - d * g, a * g - b * h + c * e + d * f, a * h + b * g - c * f + d * e], -1)


def rotated(q, points):
    """Points turned by quaternions."""
    u = q[:, 1:]
    t = 2 * jnp.cross(u, points)
    return points + q[:, :1] * t + jnp.cross(u, t)


def distances(x, y):
    return jnp.sqrt(jnp.maximum((x * x).sum(-1)[:, None] - 2 * x @ y.T + (y * y).sum(-1), 1e-9))


def pooled(x, window, stride, largest):
    window, stride = (1, *window, 1), (1, *stride, 1)
    if largest:
        return lax.reduce_window(x, -jnp.inf, lax.max, window, stride, "VALID")
    return lax.reduce_window(x, 0.0, lax.add, window, stride, "SAME") / np.prod(window)


def convolved(x, kernel, stride, **more):
    letters = "DHW"[5 - x.ndim :]
    numbers = (f"N{letters}C", f"{letters}IO", f"N{letters}C")
    return lax.conv_general_dilated(x, kernel, stride, more.pop("padding", "SAME"), dimension_numbers=numbers, **more)


def updated(optimiser):
    """A step of an optimiser on a list of arrays and their gradients."""

    def step(*arrays):
        weights, gradients = list(arrays[: len(arrays) // 2]), list(arrays[len(arrays) // 2 :])
        updates, state = optimiser.update(gradients, optimiser.init(weights), weights)
        return optax.apply_updates(weights, updates), state

    return step


def linear_recurrence(a, b):
    return lax.associative_scan(lambda l, r: (l[0] * r[0], l[1] * r[0] + r[1]), (a, b), axis=1)[1]


def recurrent(x, w):
    step = lambda h, v: (jnp.tanh(h @ w + v),) * 2
    return lax.scan(step, jnp.zeros_like(x[:, 0]), x.swapaxes(0, 1))[1]


TABLE = [
    # jax.numpy: by name alone.
    *each(jnp, "sum argmax nanmax nan_to_num cumprod sort argsort median flip", "vector"),
    *each(jnp, "max cumsum diff", "vector", GRADIENT),
    *each(jnp, "dot logaddexp trapezoid", "vector vector", GRADIENT),
    *each(jnp, "gradient tril rot90", "square"),
    *each(jnp, "diag trace", "square", GRADIENT),
    *each(jnp, "transpose corrcoef", "odd"),
    # Norms, sums, extremes.
    ("norm", lambda x: jnp.linalg.norm(x), "vector", GRADIENT),
    ("norm_rows", lambda x: jnp.linalg.norm(x, axis=1), "odd", GRADIENT),
    ("norm_columns", lambda x: jnp.linalg.norm(x, 1, 0), "square"),
    ("norm_cloud", lambda x: jnp.linalg.norm(x, axis=-1), "cloud", GRADIENT),
    ("normalise_cloud", lambda x: x / jnp.linalg.norm(x, axis=-1, keepdims=True), "cloud", GRADIENT),
    ("norm_max", lambda x: jnp.linalg.norm(x, jnp.inf), "square"),
    ("mean_images", lambda x: jnp.mean(x, (1, 2)), "images", GRADIENT),
    ("var_channels", lambda x: jnp.var(x, (0, 1, 2)), "images", GRADIENT),
    ("prod_rows", lambda x: jnp.prod(x, 1), "odd", GRADIENT),
    ("argmax_logits", lambda x: jnp.argmax(x, 1), "logits"),
    ("argmin_columns", lambda x: jnp.argmin(x, 0), "points"),
    ("argmax_channels", lambda x: jnp.argmax(x, -1), "f32[8,512,512,21]"),
    ("nanmean", lambda x: jnp.nanmean(x, 0), "odd", GRADIENT),
    ("nanstd", lambda x: jnp.nanstd(x, 1), "square"),
    ("average", lambda x, w: jnp.average(x, 0, w), "points f32[100000]", GRADIENT),
    ("cov", lambda x: jnp.cov(x, rowvar=False), "odd", GRADIENT),
    ("any_all", lambda x: (jnp.any(x > 3, 1), jnp.all(x < 3, 0)), "square"),
    # Sums along, differences.
    ("cumsum_rows", lambda x: jnp.cumsum(x, 1), "odd", GRADIENT),
    ("cumsum_columns", lambda x: jnp.cumsum(x, 0), "points"),
    ("cumsum_sequences", lambda x: jnp.cumsum(x, 1), "sequences"),
    ("cumprod_rays", lambda x: jnp.cumprod(1 - x, -1), "f32[16384,128]", GRADIENT),
    ("diff_rows", lambda x: jnp.diff(x, axis=0), "points"),
    ("gradient_vector", lambda x: jnp.gradient(x), "vector"),
    ("polyval", lambda p, x: jnp.polyval(p, x), "f32[6] vector", GRADIENT),
    # Order, places, histograms.
    ("sort_rows", lambda x: jnp.sort(x, 1), "odd", GRADIENT),
    ("sort_columns", lambda x: jnp.sort(x, 0), "points"),
    ("sort_stack", lambda x: jnp.sort(x, 0), "f32[10,512,512]", GRADIENT),
    ("sort_few", lambda x: jnp.sort(x, 1), "f32[300000,10]", GRADIENT),
    ("sort_long_rows", lambda x: jnp.sort(x, 1), "f32[64,100000]", GRADIENT),
    ("argsort_rows", lambda x: jnp.argsort(x, 1), "square"),
    ("lexsort", lambda a, b: jnp.lexsort((a, b)), "s32[100000] s32[100000]"),
    ("median_stack", lambda x: jnp.median(x, 0), "f32[9,512,512]"),
    ("median_frames", lambda x: jnp.median(x, 0), "f32[30,480,640]"),
    ("quantile", lambda x: jnp.quantile(x, jnp.array([0.05, 0.5, 0.95]), axis=0), "odd"),
    ("percentile", lambda x: jnp.percentile(x, 99), "f32[100000]"),
    ("unique", lambda i: jnp.unique(i, size=1000), "s32[100000]"),
    ("histogram", lambda x: jnp.histogram(x, 100, (0.0, 1.0)), "vector"),
    ("bincount", lambda i: jnp.bincount(i, length=1000), "whole"),
    ("bincount_pixels", lambda x: jnp.bincount(x.reshape(-1), length=256), "u8[1080,1920,3]"),
    ("bincount_weights", lambda i, w: jnp.bincount(i, w, length=256), "whole vector"),
    ("searchsorted", lambda a, x: jnp.searchsorted(a, x), "f32[10000] f32[100000]"),
    ("digitize", lambda x: jnp.digitize(x, jnp.linspace(0, 1, 20)), "vector"),
    ("interp", lambda x, xp, fp: jnp.interp(x, xp, fp), "f32[100000] f32[1000] f32[1000]", GRADIENT),
    ("nonzero", lambda x: jnp.nonzero(x > 0, size=1000), "f32[100000]"),
    ("isin", lambda a, b: jnp.isin(a, b), "s32[100000] s32[100]"),
    # Indices.
    ("take", lambda t, i: jnp.take(t, i, 0), "table places", GRADIENT),
    ("take_tokens", lambda t, i: t[i], "f32[30522,768] s32[32,128]", GRADIENT),
    ("take_columns", lambda x, i: jnp.take(x, i, 1), "odd s32[77]", GRADIENT),
    ("take_vector", lambda x, i: x[i], "vector s32[100000]", GRADIENT),
    ("take_neighbours", lambda x, i: x[i], "points s32[100000,16]"),
    ("permuted_points", lambda x, i: x[i], "points s32[100000]", GRADIENT),
    ("take_along_rows", lambda x, i: jnp.take_along_axis(x, i, 1), "logits s32[32,1]", GRADIENT),
    ("take_along_many", lambda x, i: jnp.take_along_axis(x, i, 1), "square s32[1000,100]"),
    ("take_mask", lambda x, i: x[jnp.arange(16)[:, None], i], "sequences s32[16,77]", GRADIENT),
    ("take_from_rows", lambda x, i: x.reshape(-1)[i], "f32[2,1000000] places", GRADIENT),
    ("take_faces", lambda x, i: x[i], "f32[50000,3] s32[100000,3]", GRADIENT),
    ("take_windows", lambda x: x[jnp.arange(10000)[:, None] + jnp.arange(16)], "f32[10015]", GRADIENT),
    ("relative_bias", lambda t: t[jnp.clip(jnp.arange(512)[:, None] - jnp.arange(512), -128, 128) + 128], "f32[257,12]", GRADIENT),
    ("choose", lambda i, *x: jnp.choose(i, x, mode="clip"), "whole vector vector vector"),
    ("put", lambda x, i, v: jnp.put(x, i, v, inplace=False), "vector places f32[4096]"),
    ("at_set_rows", lambda t, i, v: t.at[i].set(v), "table places f32[4096,64]", GRADIENT),
    ("at_add_rows", lambda t, i, v: t.at[i].add(v), "table places f32[4096,64]", GRADIENT),
    ("at_add_vector", lambda x, i, v: x.at[i].add(v), "vector s32[100000] f32[100000]"),
    ("at_max", lambda x, i, v: x.at[i].max(v), "f32[10000] s32[100000] f32[100000]"),
    ("at_add_pixels", lambda i, j, v: jnp.zeros((512, 512)).at[i, j].add(v), "s32[100000] s32[100000] f32[100000]"),
    ("at_set_slice", lambda x, y: x.at[10:110, 3:53].set(y), "square f32[100,50]", GRADIENT),
    ("at_set_column", lambda x, v: x.at[:, 1].set(v), "cloud vector"),
    ("cache_update", lambda c, v, i: lax.dynamic_update_slice(c, v, (0, i, 0, 0)), "f32[8,2048,16,64] f32[8,1,16,64] s32[]"),
    # Moves.
    ("roll", lambda x: jnp.roll(x, 1), "vector"),
    ("roll_by_argument", lambda x, n: jnp.roll(x, n), "vector s32[]"),
    ("reverse_sequences", jax.vmap(lambda x, n: jnp.roll(x[::-1], n, 0)), "f32[16,512,256] s32[16]", GRADIENT),
    ("flip_channels", lambda x: x[..., ::-1], "images"),
    ("repeat", lambda x: jnp.repeat(x, 2), "vector", GRADIENT),
    ("repeat_heads", lambda x: jnp.repeat(x, 4, 2), "f32[8,512,2,64]", GRADIENT),
    ("repeat_by_counts", lambda x, n: jnp.repeat(x, n, total_repeat_length=100000), "f32[20000] s32[20000]"),
    ("tile", lambda x: jnp.tile(x, (3, 2)), "odd", GRADIENT),
    ("pad", lambda x: jnp.pad(x, ((0, 0), (3, 3), (3, 3), (0, 0))), "images"),
    ("pad_reflect", lambda x: jnp.pad(x, ((0, 0), (4, 4), (4, 4), (0, 0)), "reflect"), "f32[128,32,32,3]", GRADIENT),
    ("concatenate", lambda x, y: jnp.concatenate([x, y]), "vector f32[300001]"),
    ("concatenate_features", lambda x, y: jnp.concatenate([x, y], -1), "points f32[100000,4]", GRADIENT),
    ("stack", lambda x, y, z: jnp.stack([x, y, z], -1), "vector vector vector", GRADIENT),
    ("transpose_points", lambda x: x.T, "cloud"),
    ("to_channels_first", lambda x: x.transpose(0, 3, 1, 2), "images"),
    ("triu_heads", lambda x: jnp.triu(x, 1), "f32[8,8,512,512]"),
    ("diag_matrix", lambda v: jnp.diag(v), "f32[1000]", GRADIENT),
    ("ravel_rows", lambda x: x.reshape(-1), "f32[3,1000000]", GRADIENT),
    ("to_rows", lambda x: x.reshape(3, -1), "f32[3000000]"),
    ("pixels_to_rows", lambda x: x.reshape(3, -1), "f32[1080,1920,3]", GRADIENT),
    ("every_second", lambda x: x[::2], "vector", GRADIENT),
    ("where", lambda b, x, y: jnp.where(b, x, y), "pred[1000000] vector vector"),
    ("where_rows", lambda b, x: jnp.where(b[:, None], x, 0), "pred[100000] points", GRADIENT),
    ("normalise_bytes", lambda x: (x.astype(jnp.float32) / 255 - jnp.array([0.485, 0.456, 0.406])) / 0.225, "u8[32,224,224,3]"),
    # Products.
    ("matmul_odd", lambda x, y: x @ y.T, "odd odd", GRADIENT),
    ("matvec", lambda x, v: x @ v, "f32[5000,5000] f32[5000]", GRADIENT),
    ("matmul_points", lambda x, r: x @ r, "cloud f32[3,3]", GRADIENT),
    ("matmul_small_batch", lambda x, y: x @ y, "f32[100000,3,3] f32[100000,3,3]", GRADIENT),
    ("matvec_small_batch", lambda m, x: jnp.einsum("nij,nj->ni", m, x), "f32[100000,3,3] points", GRADIENT),
    ("kron", lambda x, y: jnp.kron(x, y), "f32[50,40] f32[30,20]", GRADIENT),
    ("outer", lambda x, y: jnp.outer(x, y), "f32[1001] f32[3000]", GRADIENT),
    ("einsum_heads", lambda q, k: jnp.einsum("bqhd,bkhd->bhqk", q, k), "queries queries", GRADIENT),
    ("einsum_bilinear", lambda x, w, y: jnp.einsum("bi,oij,bj->bo", x, w, y), "f32[256,128] f32[64,128,128] f32[256,128]"),
    ("tensordot", lambda x, y: jnp.tensordot(x, y, ((1, 2), (0, 1))), "f32[64,30,50] f32[30,50,77]", GRADIENT),
    ("gram", lambda x: jnp.einsum("bhwc,bhwd->bcd", x, x), "maps", GRADIENT),
    ("cross", lambda x, y: jnp.cross(x, y), "points points", GRADIENT),
    ("cross_cloud", lambda x, y: jnp.cross(x, y), "cloud cloud"),
    ("convolve", lambda x, y: jnp.convolve(x, y, "same"), "vector f32[101]", GRADIENT),
    ("correlate", lambda x, y: jnp.correlate(x, y, "valid"), "f32[100000] f32[31]"),
    # By hand.
    ("layer_norm", layer_norm, "sequences f32[512] f32[512]", GRADIENT),
    ("rms_norm", lambda x, scale: x * lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-6) * scale, "sequences f32[512]", GRADIENT),
    ("batch_norm", batch_norm, "maps f32[64] f32[64]", GRADIENT),
    ("group_norm", group_norm, "maps f32[64] f32[64]", GRADIENT),
    ("rotary", rotary, "heads", GRADIENT),
    ("rotary_pairs", rotary_pairs, "heads", GRADIENT),
    ("alibi", alibi, "heads heads heads", GRADIENT),
    ("window_partition", lambda x: windows(x, 7), "f32[32,56,56,96]", GRADIENT),
    ("window_partition_images", lambda x: windows(x, 16), "images"),
    ("patches", lambda x: lax.conv_general_dilated_patches(x, (16, 16), (16, 16), "VALID", dimension_numbers=NHWC), "images", GRADIENT),
    ("patches_overlapping", lambda x: lax.conv_general_dilated_patches(x, (3, 3), (1, 1), "SAME"), "f32[8,16,64,64]"),
    ("pixel_shuffle", lambda x: x.reshape(16, 64, 64, 2, 2, 16).transpose(0, 1, 3, 2, 4, 5).reshape(16, 128, 128, 16), "f32[16,64,64,64]"),
    ("quaternion_product", quaternion_product, "rotations rotations", GRADIENT),
    ("quaternion_rotation", rotated, "rotations points", GRADIENT),
    ("distances", distances, "f32[2048,3] f32[2000,3]", GRADIENT),
    ("distances_by_difference", lambda x: jnp.linalg.norm(x[:, None] - x[None] + 1e-6, axis=-1), "f32[1000,3]", GRADIENT),
    ("knn", lambda x, y: lax.top_k(-distances(x, y), 16), "f32[2048,3] f32[2048,3]"),
    ("chamfer", lambda x, y: distances(x, y).min(1).mean() + distances(x, y).min(0).mean(), "f32[4096,3] f32[4096,3]", GRADIENT),
    # jax.lax.
    ("max_pool_1d", lambda x: pooled(x, (2,), (2,), True), "f32[32,4096,64]", GRADIENT),
    ("max_pool", lambda x: pooled(x, (3, 3), (2, 2), True), "f32[32,112,112,64]", GRADIENT),
    ("max_pool_3d", lambda x: pooled(x, (2, 2, 2), (2, 2, 2), True), "volumes", GRADIENT),
    ("max_pool_audio", lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, 60), (1, 1), "SAME"), "audio", GRADIENT),
    ("avg_pool_1d", lambda x: pooled(x, (4,), (4,), False), "f32[32,4096,64]", GRADIENT),
    ("avg_pool", lambda x: pooled(x, (2, 2), (2, 2), False), "maps", GRADIENT),
    ("avg_pool_3d", lambda x: pooled(x, (3, 3, 3), (1, 1, 1), False), "volumes", GRADIENT),
    ("conv_audio", lambda x, k: convolved(x[..., None], k, (160,)), "audio f32[400,1,128]", GRADIENT),
    ("conv_1d", lambda x, k: convolved(x, k, (1,)), "f32[32,1000,128] f32[5,128,256]", GRADIENT),
    ("conv_2d", lambda x, k: convolved(x, k, (2, 2)), "images f32[7,7,3,64]", GRADIENT),
    ("conv_3d", lambda x, k: convolved(x, k, (1, 1, 1)), "volumes f32[3,3,3,8,16]", GRADIENT),
    ("conv_depthwise", lambda x, k: convolved(x, k, (1, 1), feature_group_count=96), "f32[32,56,56,96] f32[7,7,1,96]", GRADIENT),
    ("conv_dilated", lambda x, k: convolved(x, k, (1, 1), rhs_dilation=(4, 4)), "maps f32[3,3,64,64]", GRADIENT),
    ("conv_causal", lambda x, k: convolved(x, k, (1,), padding=[(8, 0)], rhs_dilation=(8,)), "f32[16,4000,32] f32[2,32,64]", GRADIENT),
    ("conv_transposed", lambda x, k: lax.conv_transpose(x, k, (2, 2), "SAME"), "maps f32[4,4,64,32]", GRADIENT),
    ("dynamic_slice_vector", lambda x, i: lax.dynamic_slice(x, (i,), (10000,)), "vector s32[]", GRADIENT),
    ("dynamic_slice_matrix", lambda x, i, j: lax.dynamic_slice(x, (i, j), (224, 224)), "square s32[] s32[]", GRADIENT),
    ("random_crops", jax.vmap(lambda x, i: lax.dynamic_slice(x, (i[0], i[1], 0), (224, 224, 3))), "f32[32,256,256,3] s32[32,2]"),
    ("dynamic_update_vector", lambda x, y, i: lax.dynamic_update_slice(x, y, (i,)), "vector f32[10000] s32[]"),
    ("top_k_logits", lambda x: lax.top_k(x, 50), "logits", GRADIENT),
    ("top_k_vector", lambda x: lax.top_k(x, 100), "vector"),
    ("top_k_experts", lambda x: lax.top_k(x, 2), "f32[16384,64]", GRADIENT),
    ("approx_max_k", lambda x: lax.approx_max_k(x, 10), "f32[256,100000]"),
    ("nucleus", lambda x: jnp.cumsum(nn.softmax(-jnp.sort(-x)), -1) < 0.9, "logits"),
    ("scan_recurrent", recurrent, "f32[32,100,512] f32[512,512]", GRADIENT),
    ("scan_smoothed", lambda x: lax.scan(lambda state, value: (0.9 * state + 0.1 * value,) * 2, x[:, 0], x.T)[1], "f32[16,2000]", GRADIENT),
    ("scan_rewards", lambda x: lax.scan(lambda s, v: (0.9 * s + v,) * 2, x[0], x, reverse=True)[1], "f32[2048,64]", GRADIENT),
    ("associative_scan", linear_recurrence, "f32[8,1024,256] f32[8,1024,256]", GRADIENT),
    ("associative_max", lambda x: lax.associative_scan(jnp.maximum, x), "vector"),
    ("cummax", lambda x: lax.cummax(x, 1), "audio"),
    ("fori_power", lambda m, v: lax.fori_loop(0, 20, lambda _, v: m @ v / jnp.linalg.norm(v), v), "square f32[1000]"),
    ("fori_heat", lambda x: lax.fori_loop(0, 10, lambda _, x: x.at[1:-1].add(0.1 * (x[2:] + x[:-2] - 2 * x[1:-1])), x), "square"),
    ("cumlogsumexp", lambda x: lax.cumlogsumexp(x, 1), "odd", GRADIENT),
    # jax.scipy.
    ("logsumexp", lambda x: jsp.special.logsumexp(x, 1), "logits", GRADIENT),
    ("logsumexp_vector", lambda x: jsp.special.logsumexp(x), "vector"),
    *each(jsp.special, "erf digamma i0e ndtri", "vector"),
    *each(jsp.special, "erfinv gammaln", "vector", GRADIENT),
    ("betainc", lambda a, b, x: jsp.special.betainc(a, b, x), "f32[10000] f32[10000] f32[10000]"),
    ("xlogy", lambda x, y: jsp.special.xlogy(x, y), "vector vector", GRADIENT),
    ("cholesky", lambda x: jsp.linalg.cholesky(x @ x.T + 500 * jnp.eye(500)), "f32[500,500]", GRADIENT),
    ("cholesky_batch", lambda x: jnp.linalg.cholesky(x), "f32[100,32,32]"),
    ("solve", lambda a, b: jsp.linalg.solve(a, b), "f32[500,500] f32[500,10]"),
    ("solve_batch", lambda a, b: jnp.linalg.solve(a, b), "f32[1000,6,6] f32[1000,6,1]"),
    ("solve_triangular", lambda a, b: jsp.linalg.solve_triangular(a, b, lower=True), "f32[1000,1000] f32[1000,77]", GRADIENT),
    ("inv", lambda x: jnp.linalg.inv(x), "f32[300,300]"),
    ("inv_batch", lambda x: jnp.linalg.inv(x), "f32[100000,3,3]"),
    ("eigh", lambda x: jnp.linalg.eigh(x), "f32[200,200]"),
    ("tridiagonal_solve", lax.linalg.tridiagonal_solve, "f32[1000] f32[1000] f32[1000] f32[1000,1]"),
    ("det_batch", lambda x: jnp.linalg.det(x), "f32[1000,3,3]"),
    ("lu", lambda x: jsp.linalg.lu(x), "f32[300,300]"),
    ("qr", lambda x: jsp.linalg.qr(x, mode="economic"), "odd"),
    ("expm", lambda x: jsp.linalg.expm(x), "f32[256,256]"),
    ("stft", lambda x: jsp.signal.stft(x, nperseg=400, nfft=512)[2], "audio"),
    ("fftconvolve", lambda x, y: jsp.signal.fftconvolve(x, y, "same"), "f32[48000] f32[1000]"),
    ("signal_convolve", lambda x, y: jsp.signal.convolve(x, y, "same"), "square f32[9,9]", GRADIENT),
    ("fft2", lambda x: jnp.abs(jnp.fft.fft2(x)), "f32[8,256,256]"),
    ("rfft", lambda x: jnp.abs(jnp.fft.rfft(x)), "f32[64,1024]"),
    ("map_coordinates", lambda x, *places: jsp.ndimage.map_coordinates(x, places, 1, "nearest"), "f32[512,512] f32[512,512] f32[512,512]", GRADIENT),
    ("norm_logpdf", lambda x: jsp.stats.norm.logpdf(x, 1.0, 2.0), "vector", GRADIENT),
    ("multivariate_logpdf", lambda x, m: jsp.stats.multivariate_normal.logpdf(x, m, 2 * jnp.eye(3)), "points f32[3]"),
    ("kde", lambda x, y: jsp.stats.gaussian_kde(x).evaluate(y), "f32[2000] f32[1000]"),
    # jax.nn.
    *each(nn, "relu gelu silu softplus elu mish", "vector", GRADIENT),
    *each(nn, "relu6 leaky_relu selu celu sigmoid log_sigmoid soft_sign tanh", "sequences"),
    *each(nn, "hard_tanh hard_sigmoid hard_silu squareplus sparse_plus sparse_sigmoid", "images"),
    ("gelu_exact", lambda x: nn.gelu(x, approximate=False), "sequences", GRADIENT),
    ("glu", lambda x: nn.glu(x), "sequences", GRADIENT),
    ("softmax", lambda x: nn.softmax(x), "logits", GRADIENT),
    ("softmax_vector", lambda x: nn.softmax(x), "vector", GRADIENT),
    ("softmax_columns", lambda x: nn.softmax(x, 0), "points", GRADIENT),
    ("softmax_heads", lambda x: nn.softmax(x), "f32[8,8,512,512]", GRADIENT),
    ("softmax_pixels", lambda x: nn.softmax(x), "f32[8,512,512,21]"),
    ("log_softmax", lambda x: nn.log_softmax(x), "logits", GRADIENT),
    ("one_hot", lambda i: nn.one_hot(i, 50257), "labels"),
    ("one_hot_many", lambda i: nn.one_hot(i, 10), "s32[100000]"),
    ("standardize", lambda x: nn.standardize(x), "sequences", GRADIENT),
    ("attention", lambda q, k, v: nn.dot_product_attention(q, k, v), "queries queries queries", GRADIENT),
    ("attention_causal", lambda q, k, v: nn.dot_product_attention(q, k, v, is_causal=True), "bf16[4,1024,16,64] " * 3, GRADIENT),
    ("attention_grouped", lambda q, k, v: nn.dot_product_attention(q, k, v), "queries f32[8,512,2,64] f32[8,512,2,64]"),
    # jax.image.
    ("resize_nearest_up", lambda x: jax.image.resize(x, (16, 128, 128, 32), "nearest"), "f32[16,64,64,32]", GRADIENT),
    ("resize_bilinear_up", lambda x: jax.image.resize(x, (8, 448, 448, 3), "bilinear"), "f32[8,224,224,3]", GRADIENT),
    ("resize_bilinear_down", lambda x: jax.image.resize(x, (32, 96, 96, 3), "bilinear"), "images", GRADIENT),
    ("resize_bicubic", lambda x: jax.image.resize(x, (32, 299, 299, 3), "bicubic"), "images"),
    ("resize_audio", lambda x: jax.image.resize(x, (16, 16000), "linear"), "audio"),
    ("scale_and_translate", lambda x, s, t: jax.image.scale_and_translate(x, (200, 200, 3), (0, 1), s, t, "linear"), "f32[224,224,3] f32[2] f32[2]"),
    # jax.random.
    ("normal", lambda k: random.normal(k, (1000, 1000)), "key"),
    ("uniform", lambda k: random.uniform(k, (1000000,)), "key"),
    ("truncated_normal", lambda k: random.truncated_normal(k, -2, 2, (768, 3072)), "key"),
    ("randint", lambda k: random.randint(k, (100000,), 0, 50257), "key"),
    ("permutation", lambda k: random.permutation(k, 50000), "key"),
    ("shuffled_rows", lambda k, x: random.permutation(k, x), "key table"),
    ("choice", lambda k: random.choice(k, 100000, (4096,)), "key"),
    ("choice_weighted", lambda k, p: random.choice(k, 1000, (4096,), p=p), "key f32[1000]"),
    ("categorical", lambda k, x: random.categorical(k, x), "key logits"),
    ("gumbel", lambda k: random.gumbel(k, (32, 50257)), "key"),
    ("bernoulli", lambda k: random.bernoulli(k, 0.1, (16, 1024, 512)), "key"),
    ("dropout", lambda k, x: jnp.where(random.bernoulli(k, 0.9, x.shape), x / 0.9, 0), "key sequences", GRADIENT),
    ("split_keys", lambda k: random.key_data(random.split(k, 10000)), "key"),
    # Lists of arrays, optax.
    ("ravel_pytree", lambda *a: (lambda flat, back: (flat, back(flat * 2)))(*jax.flatten_util.ravel_pytree(a)), "odd f32[64,197] f32[9]", GRADIENT),
    ("cross_entropy", optax.softmax_cross_entropy_with_integer_labels, "logits labels", GRADIENT),
    ("cross_entropy_tokens", optax.softmax_cross_entropy_with_integer_labels, "f32[8,128,32000] s32[8,128]", GRADIENT),
    ("cross_entropy_soft", optax.softmax_cross_entropy, "f32[256,1000] f32[256,1000]", GRADIENT),
    ("binary_cross_entropy", optax.sigmoid_binary_cross_entropy, "vector vector", GRADIENT),
    ("huber_loss", optax.huber_loss, "points points", GRADIENT),
    ("cosine_distance", lambda x, y: optax.cosine_distance(x, y, epsilon=1e-6), "f32[4096,512] f32[4096,512]", GRADIENT),
    ("ctc_loss", optax.ctc_loss, "f32[16,200,40] f32[16,200] s32[16,30] f32[16,30]", GRADIENT),
    ("focal_loss", optax.sigmoid_focal_loss, "f32[32,8400,80] f32[32,8400,80]", GRADIENT),
    ("dice_loss", optax.losses.dice_loss, "f32[4,64,64,64,2] f32[4,64,64,64,2]", GRADIENT),
    ("triplet_loss", optax.losses.triplet_margin_loss, "f32[4096,128] f32[4096,128] f32[4096,128]"),
    ("adamw", updated(optax.adamw(1e-3)), "f32[768,3072] f32[3072] f32[1001,300] " * 2),
    ("sgd_momentum", updated(optax.sgd(0.1, 0.9, nesterov=True)), "f32[3,3,512,512] f32[512] f32[2048,1000] " * 2),
    ("clipped_lamb", updated(optax.chain(optax.clip_by_global_norm(1.0), optax.lamb(1e-3))), "f32[768,3072] f32[768] f32[1001,300] " * 2),
    # Segments.
    ("segment_sum", lambda x, i: jax.ops.segment_sum(x, i, 1000), "f32[100000] s32[100000]", GRADIENT),
    ("segment_sum_rows", lambda x, i: jax.ops.segment_sum(x, i, 1000), "table s32[50000]", GRADIENT),
    ("segment_sum_points", lambda x, i: jax.ops.segment_sum(x, i, 100000), "cloud whole"),
    ("segment_max", lambda x, i: jax.ops.segment_max(x, i, 1000), "f32[100000] s32[100000]"),
    ("segment_max_rows", lambda x, i: jax.ops.segment_max(x, i, 100000), "table s32[50000]", GRADIENT),
    ("messages", lambda x, i, j: jax.ops.segment_sum(x[i], j, 10000), "f32[10000,128] s32[50000] s32[50000]", GRADIENT),
]


def gradient_of(function):
    """By all arguments that are floats, of the sum of the squares of the results that are."""

    def gradient(*arguments):
        floats = tuple(n for n, a in enumerate(arguments) if jnp.issubdtype(a.dtype, jnp.floating))

        def total(*arguments):
            results = (r for r in jax.tree.leaves(function(*arguments)) if jnp.issubdtype(r.dtype, jnp.floating))
            return sum(jnp.sum(jnp.square(r.astype(jnp.float32))) for r in results)

        return jax.grad(total, floats)(*arguments)

    return gradient


def functions():
    """What each name stands for: the function and its arguments."""
    found = {}
    for name, function, words, *gradient in TABLE:
        arguments = [of_shape(word) for word in words.split()]
        assert name not in found, name
        found[name] = function, arguments
        if gradient:
            found["g_" + name] = gradient_of(function), arguments
    return found


def bytes_of(arrays):
    return sum(a.size * (8 if jnp.issubdtype(a.dtype, jax.dtypes.prng_key) else a.dtype.itemsize) for a in jax.tree.leaves(arrays))


def step_cycles(file, options):
    """Cycles of a step; where there are none, the exit code and what was said."""
    command = [options.tpusim, "run", file, "--config", options.config, "--cores", "1", "--compiler", "tpusim", "--json", "-"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=options.timeout)
    except subprocess.TimeoutExpired:
        return None, f"more than {options.timeout} s"
    if done.returncode:
        return None, f"exit code {done.returncode}: " + "\n    ".join(done.stderr.strip().splitlines()[:2])
    return json.loads(done.stdout)["steps"][0]["cycles"], ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="functions (all)")
    parser.add_argument("--tpusim", default="build/tpusim", metavar="FILE")
    parser.add_argument("--config", default="v3-8", metavar="MACHINE")
    parser.add_argument("--timeout", type=int, default=120, metavar="SECONDS", help="for one function (120)")
    parser.add_argument("--cycles", metavar="FILE.json", help="write cycles and bytes of each")
    parser.add_argument("--keep", metavar="FOLDER", help="keep the modules there")
    options = parser.parse_args()
    known, cycles, refused, slow = functions(), {}, 0, 0
    unknown = [name for name in options.names if name not in known]
    if unknown:
        parser.error("no function of this name: " + " ".join(unknown))
    with tempfile.TemporaryDirectory() as passing:
        folder = pathlib.Path(options.keep or passing)
        folder.mkdir(parents=True, exist_ok=True)
        for name in options.names or known:
            function, arguments = known[name]
            traced = jax.jit(function).trace(*arguments)
            file = folder / f"{name}.mlir"
            file.write_text(traced.lower(lowering_platforms=("tpu",)).as_text())
            taken, said = step_cycles(file, options)
            if taken is None:
                refused, slow = refused + (not said.startswith("more")), slow + said.startswith("more")
                print(f"{name}: {said}", flush=True)
            else:
                cycles[name] = {"cycles": taken, "bytes": bytes_of(arguments) + bytes_of(traced.out_info)}
            if not options.keep:
                file.unlink()
    if options.cycles:
        pathlib.Path(options.cycles).write_text(json.dumps(cycles, indent=1) + "\n")
    print(f"{len(cycles) + refused + slow} functions, {refused} refused, {slow} not done in {options.timeout} s")
    sys.exit(1 if refused or slow else 0)


if __name__ == "__main__":
    main()
