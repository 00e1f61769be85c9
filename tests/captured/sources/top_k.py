"""The two largest numbers of each row: XLA's kernel keeps up to 20 values between `vpush` and `spop`."""

import jax
import numpy as np


def step(x):
    return jax.lax.top_k(x, 2)


def step_arguments():
    return (np.round(np.random.RandomState(1).randn(32, 256), 1).astype(np.float32),)
