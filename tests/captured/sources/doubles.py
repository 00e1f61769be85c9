"""Numbers of 64 bits: doubles as sums of two floats, integers as two words, in parameters and results."""

import jax
import jax.numpy as jnp
import numpy as np

jax.config.update("jax_enable_x64", True)


def step(x, y, i):
    return x * y, x + y, jnp.sqrt(jnp.abs(x)), (x * x).sum(), i * i + (i << 20), i.astype(jnp.float64) / 3


def step_arguments():
    random = np.random.RandomState(2)
    x = random.randn(8, 128)
    return x, 1 + 1e-9 * random.randn(8, 128), random.randint(-(2**45), 2**45, (8, 128))
