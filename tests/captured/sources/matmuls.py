"""Products of which TPU v4 multiplies packed rows of bf16: plain, with a transposed side, of bf16, on part of an array."""

import jax.numpy as jnp
import numpy as np


def step(a, b, c):
    plain = a @ b
    return plain, plain.T @ a, c @ c.T, jnp.maximum(c, 0).astype(jnp.float32)


def step_arguments():
    random = np.random.default_rng(11)
    a = random.integers(-8, 8, size=(40, 24)).astype(np.float32)
    b = random.integers(-8, 8, size=(24, 72)).astype(np.float32)
    c = jnp.asarray(random.integers(-8, 8, size=(24, 40)), jnp.bfloat16)
    return a, b, c
