"""Writes NAME.mlir, NAME.generic.mlir and NAME.hlo of the functions below: StableHLO as JAX prints it by default, in MLIR's generic
form, and the HLO that it makes of it.

make.py FOLDER (jax 0.10.2)
"""

import os
import pathlib
import sys

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

lax = jax.lax
FUNCTIONS = {}


def function(*shapes, donate=()):
    def register(f):
        FUNCTIONS[f.__name__] = (f, [jax.ShapeDtypeStruct(s, d) for s, d in shapes], donate)

    return register


F, I, U = jnp.float32, jnp.int32, jnp.uint32


@function(((2, 8, 8, 3), F), ((3, 3, 3, 8), F), ((8, 4), F), donate=(1,))
def train_convolution(x, w, b):
    def loss(w):
        h = jax.nn.relu(lax.conv_general_dilated(x, w, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")))
        p = lax.reduce_window(h, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        return jnp.mean((p @ b) ** 2)

    value, gradient = jax.value_and_grad(loss)(w)
    return w - 0.1 * gradient, value


@function(((6, 16, 16), F), ((4, 16), F))
def train_scan(weights, x):
    def loss(weights):
        y, _ = lax.scan(lambda c, w: (jnp.tanh(c @ w), None), x, weights)
        return jnp.sum(y)

    return weights - 0.1 * jax.grad(loss)(weights)


@function(((5, 7), F), ((), I), ((7,), F))
def branches_and_loops(x, n, v):
    y = lax.cond(n > 2, lambda: x * v, lambda: x + n)
    z = lax.switch(n, [lambda a: a, lambda a: a - v, jnp.sin], y)
    _, total = lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] * 0.5 + jnp.sum(z)), (0, 1.0))
    return total, lax.fori_loop(0, 4, lambda i, a: a.at[i].add(v[i]), z[:, 0])


@function(((6, 9), F), ((4,), I), ((4, 9), F))
def rows(x, i, u):
    return x[i], x.at[i].add(u), x[::2, 1:8:3], jnp.pad(x, ((1, 0), (0, 2))), lax.dynamic_slice(x, (i[0], 2), (2, 3)), x[:, ::-1]


@function(((4, 12), F))
def orders(x):
    return jnp.sort(x, axis=-1), jnp.argsort(x, axis=0), jnp.argmax(x, axis=1), jnp.cumsum(x, axis=1), jnp.any(x > 1)


@function(((2,), U))
def random_numbers(key):
    key = jax.random.wrap_key_data(key, impl="threefry2x32")
    return jax.random.normal(key, (3, 5))


@function(((3, 130), F), ((3, 130), F))
def functions_of_chlo(x, y):
    return lax.erf(x), lax.erfc(x), lax.lgamma(y), jnp.arcsin(x / 9), jnp.sinh(x), lax.square(x), lax.nextafter(x, y), jax.nn.gelu(x.astype(jnp.bfloat16))


@function(((3, 130), F), ((3, 130), F))
def functions_of_complex_numbers(x, y):
    z = lax.complex(x, y)
    made = [lax.sinh(z), lax.cosh(z), lax.asin(z), lax.acos(z), lax.atan(z), lax.asinh(z), lax.acosh(z + 2), lax.atanh(z), lax.square(z)]
    return [lax.real(w) for w in made], [lax.imag(w) for w in made]


@function(((3, 130), F))
def polygammas(x):
    return lax.polygamma(jnp.float32(1), x), lax.polygamma(jnp.float32(3), x + 1), lax.zeta(x + 1.5, x)


@function(((4, 8, 16), F), ((4, 16, 8), F), ((8, 8), F))
def products(a, b, c):
    high = jnp.einsum("bij,bjk->bik", a, b, precision="highest")
    return high, jnp.clip(high, 0.0, 1.0), lax.reduce_precision(c, 5, 10)


@function(((4, 12), F), ((8, 8), F))
def expanded(x, c):
    return lax.top_k(x, 3), lax.linalg.cholesky(c, symmetrize_input=False), lax.linalg.triangular_solve(c, c, lower=True)


@function(((12, 8), F), ((3, 8, 6), F), ((3,), I), ((3, 130), I), ((3, 130), I))
def ragged_products(x, w, sizes, i, j):
    def loss(x, w):
        return jnp.sum(lax.ragged_dot(x, w, sizes) ** 2)

    return jax.grad(loss, (0, 1))(x, w), lax.mulhi(i, j)


@function(((4, 1000), F))
def approximate_top_k(x):
    return lax.approx_max_k(x, 3)


@function(((5000, 3), F))
def least_of_groups(x):
    return lax.approx_min_k(x, 10, reduction_dimension=0, aggregate_to_topk=False)


MESH = Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model"))
SHARDED = {}


def on_devices(*arguments):
    """Arguments as (shape, axis of each dimension)."""

    def register(f):
        SHARDED[f.__name__] = (f, [jax.ShapeDtypeStruct(s, F, sharding=NamedSharding(MESH, PartitionSpec(*a))) for s, a in arguments])
        return f

    return register


def manual(inputs, outputs):
    return lambda f: jax.shard_map(f, mesh=MESH, in_specs=inputs, out_specs=outputs, check_vma=False)


P = PartitionSpec


@on_devices(((16, 32), (None, "model")), ((32, 8), ("model",)), ((32, 16), ("data",)), ((32, 8), ("data",)))
def sharded_step(a, b, x, y):
    def loss(a, b):
        h = lax.with_sharding_constraint(jnp.tanh(x @ a), NamedSharding(MESH, P("data", "model")))
        return jnp.mean((h @ b - y) ** 2)

    value, (da, db) = jax.value_and_grad(loss, (0, 1))(a, b)
    return a - 0.1 * da, b - 0.1 * db, value


@on_devices(((16, 8), ("data", "model")), ((3, 8, 8), ()))
def sharded_scan(x, weights):
    return lax.scan(lambda c, w: (lax.with_sharding_constraint(jnp.tanh(c @ w), NamedSharding(MESH, P("data"))), None), x, weights)[0]


@on_devices(((8, 32, 16), (None, "data")), ((8, 16, 24), ("data",)))
@manual((P(None, "data"), P("data")), P(None, "data"))
def manual_experts(x, w):
    x = lax.all_to_all(x, "data", 0, 1, tiled=True)
    return lax.all_to_all(jnp.einsum("etd,edf->etf", x, w), "data", 1, 0, tiled=True)


@on_devices(((32, 16), ("data", "model")), ((4, 8, 8), ("data",)))
@manual((P("data", "model"), P("data")), (P("data", "model"), P(), P("data")))
def manual_ring(x, w):
    for _ in range(3):
        x = lax.ppermute(jnp.tanh(x @ w[0]), "data", [(i, (i + 1) % 4) for i in range(4)])
    gathered = lax.all_gather(x, "model", axis=1, tiled=True)
    scattered = lax.psum_scatter(gathered, "model", scatter_dimension=1, tiled=True)
    return scattered * lax.axis_index("data"), lax.pmax(jnp.sum(x), ("data", "model")), lax.all_to_all(x, "data", 0, 0, tiled=True)


@on_devices(((16, 8), ("data",)))
@manual(P("data"), P())
def manual_sum(x):
    return lax.psum(x, "data")


def write(name, lowered):
    (folder / f"{name}.mlir").write_text(lowered.as_text())
    generic = lowered.compiler_ir("stablehlo").operation.get_asm(print_generic_op_form=True)
    (folder / f"{name}.generic.mlir").write_text(generic)
    (folder / f"{name}.hlo").write_text(lowered.as_text("hlo"))


folder = pathlib.Path(sys.argv[1])
for name, (f, arguments, donate) in FUNCTIONS.items():
    write(name, jax.jit(f, donate_argnums=donate).trace(*arguments).lower(lowering_platforms=("tpu",)))
for name, (f, arguments) in SHARDED.items():
    write(name, jax.jit(f).trace(*arguments).lower(lowering_platforms=("tpu",)))
replicas = jax.pmap(lambda x: lax.pmean(x @ x.T, "i"), axis_name="i")
write("replicas", replicas.lower(jax.ShapeDtypeStruct((8, 16, 24), F)))
