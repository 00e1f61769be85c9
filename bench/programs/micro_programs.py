"""Micro programs: one operation each that no product does (sorts, cumulative operations, gathers, scatters, 1-D pooling), of ordinary size.

    PYTHONPATH=workloads/capture python -m tpusim_capture bench/programs/micro_programs.py:NAME --chip v3 --values -o MICRO/NAME
    bench/micro_table.py MICRO

`all_names` of this module lists them; micro_programs.md has what came out.
"""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

all_names = []


def values(number, *extents, dtype="float32"):
    return np.asarray(np.random.default_rng(number).standard_normal(extents).astype("float32"), dtype)


def places(number, end, *extents):
    return np.random.default_rng(number).integers(0, end, extents).astype("int32")


def program(function, *arguments):
    """Stands in the module under the function's name, with what the capture tool calls for its arguments."""
    name = function.__name__
    globals()[name] = function
    globals()[name + "_arguments"] = lambda: arguments
    all_names.append(name)


def named(name, function, *arguments):
    def call(*given):
        return function(*given)

    call.__name__ = name
    program(call, *arguments)


def with_special_values(array):
    """Numbers of which many are equal, with infinities, zeros of both signs and NaN among them."""
    flat = np.round(array.reshape(-1), 2)
    flat[::97], flat[1::97], flat[2::97], flat[3::97], flat[4::97] = np.inf, -np.inf, 0.0, -0.0, np.nan
    return flat.reshape(array.shape)


def gradient(function):
    return lambda *given: jax.grad(lambda *inner: jnp.sum(function(*inner) ** 2))(*given)


# Cumulative operations.
named("cumsum_rows", lambda x: jnp.cumsum(x, 0), values(1, 1024, 256))
named("cumsum_lanes", lambda x: jnp.cumsum(x, 1), values(2, 256, 1024))
named("cumsum_middle", lambda x: jnp.cumsum(x, 1), values(3, 32, 64, 128))
named("cumsum_vector", jnp.cumsum, values(4, 65536))
named("cumsum_s32", lambda x: jnp.cumsum(x, 1), places(5, 100, 128, 512))
named("cumsum_gradient", gradient(lambda x: jnp.cumsum(x, 1)), values(6, 256, 512))
named("cumprod_lanes", lambda x: jnp.cumprod(1 + 0.01 * x, 1), values(7, 256, 512))
named("cummax_lanes", lambda x: lax.cummax(x, 1), values(8, 256, 1024))
named("cummax_rows", lambda x: lax.cummax(x, 0), values(9, 1024, 256))
named("cumlogsumexp_rows", lambda x: lax.cumlogsumexp(x, 0), values(10, 512, 128))

# Gathers.
named("take_rows", lambda t, i: jnp.take(t, i, axis=0), values(11, 8192, 256), places(12, 8192, 2048))
named("take_rows_bf16", lambda t, i: t[i], values(13, 8192, 256, dtype=jnp.bfloat16), places(14, 8192, 16, 128))
named("take_rows_narrow", lambda t, i: t[i], values(15, 4096, 64), places(16, 4096, 4096))
named("take_elements", lambda t, i: t[i], values(17, 65536), places(18, 65536, 16384))
named("take_columns", lambda t, i: jnp.take(t, i, axis=1), values(19, 512, 1024), places(20, 1024, 256))
named("take_along_lanes", lambda x, i: jnp.take_along_axis(x, i, 1), values(21, 128, 512), places(22, 512, 128, 512))
named("take_along_rows", lambda x, i: jnp.take_along_axis(x, i, 0), values(23, 512, 128), places(24, 512, 512, 128))
named("take_label", lambda x, i: jnp.take_along_axis(x, i[:, None], 1), values(25, 1024, 1000), places(26, 1000, 1024))
named("take_pairs", lambda x, i, j: x[i, j], values(27, 512, 512), places(28, 512, 4096), places(29, 512, 4096))

# Scatters.
named("segment_sum", lambda x, i: jax.ops.segment_sum(x, i, 1024), values(31, 8192, 128), places(32, 1024, 8192))
named("segment_max", lambda x, i: jax.ops.segment_max(x, i, 512), values(33, 4096, 128), places(34, 512, 4096))
named("embedding_gradient", gradient(lambda t, i: t[i]), values(35, 8192, 256), places(36, 8192, 2048))
named("add_elements", lambda x, i, u: x.at[i].add(u), values(37, 65536), places(38, 65536, 16384), values(39, 16384))
named(
    "set_pairs",
    lambda x, i, j, u: x.at[i, j].set(u),
    values(40, 512, 512),
    np.arange(2048, dtype="int32") // 4,
    np.arange(2048, dtype="int32") % 512,
    values(41, 2048),
)
named("set_row", lambda x, i, u: x.at[i].set(u), values(42, 1024, 512), places(43, 1024), values(44, 512))
named("set_column", lambda x, i, u: x.at[:, i].set(u), values(45, 1024, 512), places(46, 512), values(47, 1024))
named("bincount", lambda x: jnp.bincount(x, length=256), places(48, 256, 16384))

# Pooling along one dimension.
pool = {"window_shape": (4,), "strides": (2,)}
same = {"window_shape": (3,), "strides": (2,), "padding": "SAME"}
named("avg_pool_1d", lambda x: nn.avg_pool(x, **pool), values(51, 16, 512, 128))
named("max_pool_1d", lambda x: nn.max_pool(x, **same), values(52, 16, 512, 64))
named("avg_pool_1d_gradient", gradient(lambda x: nn.avg_pool(x, **pool)), values(53, 16, 512, 128))
named("max_pool_1d_gradient", gradient(lambda x: nn.max_pool(x, **same)), values(54, 16, 512, 64))
named("max_pool_1d_first", lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, 1, 4), (1, 1, 4), "VALID"), values(55, 16, 64, 1024))
named("moving_average", lambda x: lax.reduce_window(x, 0.0, lax.add, (1, 16), (1, 1), "VALID"), values(56, 128, 1024))

# Sorts and what rests on them.
named("sort_lanes", lambda x: jnp.sort(x, 1), with_special_values(values(61, 128, 1024)))
named("sort_rows", lambda x: jnp.sort(x, 0), with_special_values(values(62, 1000, 128)))
named("sort_vector", jnp.sort, values(63, 65536))
named("sort_bf16", lambda x: jnp.sort(x, 1), values(64, 64, 2048, dtype=jnp.bfloat16))
named("sort_s32_descending", lambda x: jnp.sort(x, 1, descending=True), places(65, 1000, 256, 512))
named("sort_short_rows", lambda x: jnp.sort(x, 1), values(66, 4096, 16))
named("argsort_lanes", lambda x: jnp.argsort(x, 1), with_special_values(values(67, 128, 1024)))
named("sort_key_value", lambda k, v: lax.sort_key_val(k, v, 1), places(68, 300, 128, 1024), values(69, 128, 1024))
named("sort_two_keys", lambda a, b, v: lax.sort((a, b, v), dimension=0, num_keys=2), places(70, 20, 4096), values(71, 4096), values(72, 4096))
named("sort_unstable", lambda x: lax.sort(x, is_stable=False, dimension=1), values(73, 128, 1024))
named("top_k", lambda x: lax.top_k(x, 8), values(74, 256, 1024))
named("top_k_words", lambda x: lax.top_k(x, 40), values(75, 16, 32000))
named("approx_max_k", lambda x: lax.approx_max_k(x, 16), values(76, 64, 4096))
named("permutation", lambda key: jax.random.permutation(jax.random.wrap_key_data(key), 16384), np.array([1, 2], "uint32"))
named("median", lambda x: jnp.median(x, 1), values(77, 128, 1000))
named("quantile", lambda x: jnp.quantile(x, jnp.array([0.1, 0.9]), axis=0), values(78, 2000, 64))
named("unique", lambda x: jnp.unique(x, size=512, return_inverse=True, fill_value=-1), places(79, 600, 4096))
named("searchsorted", lambda a, v: jnp.searchsorted(jnp.sort(a), v), values(80, 1024), values(81, 4096))
