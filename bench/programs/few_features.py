"""Single functions over points, boxes, pairs and other arrays of few features, and over pooling and vectors, at usual sizes.

    python bench/programs/few_features.py g_norm > g_norm.mlir
    PYTHONPATH=workloads/capture python -m tpusim_capture g_norm.mlir --chip v3 -o FUNCTIONS/g_norm
    bench/xla_ratio.py --folder FUNCTIONS g_norm

few_features.md says what came out. g_NAME is a gradient. Needs jax.
"""

import os

os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import jax.numpy as jnp
from named_steps import print_named

f32, S = jnp.float32, jax.ShapeDtypeStruct
FUNCTIONS = {}


def add(name, function, *arguments):
    FUNCTIONS[name] = (function, arguments)


def g(function):
    return jax.grad(lambda *a: function(*a).sum())


def stablehlo(name):
    function, arguments = FUNCTIONS[name]
    return jax.jit(function, keep_unused=True).trace(*arguments).lower(lowering_platforms=("tpu",)).as_text()


P = S((1000000, 3), f32)
add("g_norm", g(lambda x: jnp.linalg.norm(x, axis=-1)), P)
add("norm", lambda x: jnp.linalg.norm(x, axis=-1), P)
add("normalize", lambda x: x / jnp.linalg.norm(x, axis=-1, keepdims=True), P)
add("cross", lambda x, y: jnp.cross(x, y), S((200000, 3), f32), S((200000, 3), f32))
add(
    "quat",
    lambda p, q: jnp.stack(
        [
            p[:, 0] * q[:, 0] - p[:, 1] * q[:, 1] - p[:, 2] * q[:, 2] - p[:, 3] * q[:, 3],
            p[:, 0] * q[:, 1] + p[:, 1] * q[:, 0] + p[:, 2] * q[:, 3] - p[:, 3] * q[:, 2],
            p[:, 0] * q[:, 2] - p[:, 1] * q[:, 3] + p[:, 2] * q[:, 0] + p[:, 3] * q[:, 1],
            p[:, 0] * q[:, 3] + p[:, 1] * q[:, 2] - p[:, 2] * q[:, 1] + p[:, 3] * q[:, 0],
        ],
        -1,
    ),
    S((100000, 4), f32),
    S((100000, 4), f32),
)
mp3 = lambda x: jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 2, 1), (1, 2, 2, 2, 1), "VALID")
add("max_pool3", mp3, S((2, 64, 64, 64, 16), f32))
add("g_max_pool3", g(lambda x: mp3(x) ** 2), S((2, 64, 64, 64, 16), f32))
mp2 = lambda x: jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
add("g_max_pool2", g(lambda x: mp2(x) ** 2), S((32, 112, 112, 64), f32))
add("repeat_up", lambda x: jnp.repeat(jnp.repeat(x, 2, 1), 2, 2), S((32, 56, 56, 64), f32))
add("g_repeat_up", g(lambda x: jnp.repeat(jnp.repeat(x, 2, 1), 2, 2) ** 2), S((32, 56, 56, 64), f32))
add("g_lse11", g(lambda x: jax.nn.logsumexp(x, axis=0)), S((11, 500001), f32))
add("softmax_1m", lambda x: jax.nn.softmax(x), S((1000000,), f32))
add("transform", lambda x, r: x @ r, P, S((3, 3), f32))
add("g_transform", jax.grad(lambda x, r: ((x @ r) ** 2).sum(), argnums=(0, 1)), P, S((3, 3), f32))
add("pair", lambda x, y: ((x[:, None] - y[None]) ** 2).sum(-1), S((2048, 3), f32), S((4096, 3), f32))
add("g_pair", g(lambda x, y: jnp.sqrt(((x[:, None] - y[None]) ** 2).sum(-1) + 1e-6)), S((2048, 3), f32), S((4096, 3), f32))
add("mean_rows", lambda x: x - x.mean(0), P)
add("cov", lambda x: jnp.cov(x.T), P)
add("repeat", lambda x: jnp.repeat(x, 4), S((250000,), f32))
add(
    "rotate2",
    lambda x, a: jnp.stack([x[:, 0] * jnp.cos(a) - x[:, 1] * jnp.sin(a), x[:, 0] * jnp.sin(a) + x[:, 1] * jnp.cos(a)], -1),
    S((500000, 2), f32),
    S((500000,), f32),
)
add("onehot", lambda i: jax.nn.one_hot(i, 10), S((100000,), jnp.int32))
add(
    "g_cross_entropy10",
    jax.grad(lambda x, i: -jnp.take_along_axis(jax.nn.log_softmax(x), i[:, None], 1).mean()),
    S((100000, 10), f32),
    S((100000,), jnp.int32),
)
add(
    "rope",
    lambda x, c, s: jnp.concatenate([x[..., :32] * c - x[..., 32:] * s, x[..., :32] * s + x[..., 32:] * c], -1),
    S((8, 8, 512, 64), f32),
    S((512, 32), f32),
    S((512, 32), f32),
)
add("interleave", lambda x, y: jnp.stack([x, y], -1).reshape(16, -1), S((16, 100000), f32), S((16, 100000), f32))
add("diff", lambda x: jnp.diff(x), S((1000000,), f32))
add("roll", lambda x: jnp.roll(x, 7), S((1000000,), f32))
add("glu", lambda x: x[..., :768] * jax.nn.sigmoid(x[..., 768:]), S((8, 512, 1536), f32))
add("std3", lambda x: (x - x.mean(-1, keepdims=True)) / x.std(-1, keepdims=True), S((300000, 5), f32))
add("argmin3", lambda x: jnp.argmin(x, -1), S((300000, 6), f32))
add("sum_last8", lambda x: x.sum(-1), S((300000, 8), f32))
add("sum_mid", lambda x: x.sum(1), S((64, 100, 5000), f32))
add("hist", lambda x: jnp.histogram(x, bins=32)[0], S((200000,), f32))
add("products3", lambda a, b: jnp.einsum("bij,bjk->bik", a, b), S((100000, 3, 3), f32), S((100000, 3, 3), f32))
add("det3", lambda a: jnp.linalg.det(a), S((50000, 3, 3), f32))
add("g_products3", g(lambda a, b: jnp.einsum("bij,bj->bi", a, b) ** 2), S((100000, 3, 3), f32), S((100000, 3), f32))
add("scaled", lambda x, s: (x * s[:, None]).sum(1), P, S((1000000,), f32))
add("state_norm", lambda x, s: jnp.sqrt((x * x * s[:, None]).sum(1) + s), P, S((1000000,), f32))
add("bf16_norm", lambda x: jnp.linalg.norm(x, axis=-1), S((1000000, 3), jnp.bfloat16))
add("amax7", lambda x: jnp.max(jnp.abs(x), -1), S((900001, 7), f32))
add("softmax4", g(lambda x: jax.nn.softmax(x) ** 2), S((700000, 4), f32))
add("norm_many", lambda x: jnp.linalg.norm(x, axis=-1), S((4, 500000, 3), f32))
add("g_norm_many", g(lambda x: jnp.linalg.norm(x, axis=-1)), S((4, 500000, 3), f32))
Q = S((4, 500000, 3), f32)
add("twice_and_sums", lambda x: (x + x, x.sum(2)), Q)
add("weighted_by_place", lambda x: (x * jnp.arange(500000.0)[None, :, None]).sum(2), Q)
add("most_and_total", lambda x: (x.max(2), x.sum()), Q)
add("normalize_many", lambda x: x / jnp.linalg.norm(x, axis=-1, keepdims=True), Q)
add("products_and_most", lambda x, m: (x @ m).max(-1), Q, S((3, 7), f32))
add("running_sums", lambda x: jnp.cumsum(x, 1).sum(2), Q)
add("scaled_many", lambda x, y: (x * y[None]).sum(2) + y.sum(1), Q, S((500000, 3), f32))
add("differences", lambda x: (x[:, 1:] - x[:, :-1]).sum(2), Q)
add("places_of_most", lambda x: jnp.argmax(x, -1), Q)
add("softmax_sums", lambda x: jax.nn.softmax(x, -1).sum(0), Q)
add("deviations", lambda x: x.std(-1) + x.mean(0).sum(-1), S((5, 700001, 6), jnp.bfloat16))
add("g_first_of_many", jax.grad(lambda x: (jax.nn.log_softmax(x, -1)[..., 0] ** 2).mean()), Q)
add("g_first", jax.grad(lambda x: (jax.nn.log_softmax(x, -1)[..., 0] ** 2).mean()), S((1000000, 5), f32))
add("standard_and_sums", lambda x: (x - x.mean(-1, keepdims=True), x.var(-1), x.sum(0)), S((1000000, 5), f32))
add("sorted_first", lambda x: (jnp.sort(x, -1)[:, 0], x.min(-1)), S((1000000, 5), f32))
add("chosen_below_most", lambda x, i: jnp.take_along_axis(x, i[:, None], 1)[:, 0] - x.max(1), S((1000000, 5), f32), S((1000000,), jnp.int32))


if __name__ == "__main__":
    print_named(FUNCTIONS, stablehlo, __doc__)
