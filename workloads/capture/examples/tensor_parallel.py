"""A two-layer block on a mesh of data and model axes, once with shardings of the arguments (the compiler partitions), once by hand.

    python -m tpusim_capture examples/tensor_parallel.py:step,by_hand --slice 2x2 --values -o parallel/
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec as P

MESH = {"data": 4, "model": 2}  # over all cores of the slice; --mesh changes it

WIDTH = 128
HIDDEN = 256
BATCH = 32
RATE = 0.1


def loss(up, down, inputs, targets):
    return jnp.mean((jax.nn.gelu(inputs @ up) @ down - targets) ** 2)


def step(up, down, inputs, targets):
    value, (d_up, d_down) = jax.value_and_grad(loss, (0, 1))(up, down, inputs, targets)
    return up - RATE * d_up, down - RATE * d_down, value


def step_shardings(mesh):
    """Of each argument: the first matrix is cut by columns, the second by rows, the batch by examples."""
    return P(None, "model"), P("model", None), P("data"), P("data")


def by_hand(up, down, inputs, mesh):
    """The forward pass with its communication written out."""

    def block(up, down, inputs):
        return jax.lax.psum(jax.nn.gelu(inputs @ up) @ down, "model")

    specs = (P(None, "model"), P("model", None), P("data"))
    return jax.shard_map(block, mesh=mesh, in_specs=specs, out_specs=P("data"))(up, down, inputs)


def by_hand_shardings(mesh):
    return step_shardings(mesh)[:3]


def by_hand_arguments():
    return step_arguments()[:3]


def step_arguments():
    random = np.random.default_rng(7)
    up = (random.normal(size=(WIDTH, HIDDEN)) / np.sqrt(WIDTH)).astype(np.float32)
    down = (random.normal(size=(HIDDEN, WIDTH)) / np.sqrt(HIDDEN)).astype(np.float32)
    inputs, targets = random.normal(size=(2, BATCH, WIDTH)).astype(np.float32)
    return up, down, inputs, targets
