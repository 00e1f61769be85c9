"""Functions of zeros, infinities, NaN and numbers at both ends of the range: what vweird and the masks are for."""

import jax
import jax.numpy as jnp
import numpy as np

SPECIAL = np.array(
    [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1.2e-38, 3e38, -3e38, 1e-30, 2.0, 0.5, 7.25, -1e-30, 1e30], np.float32
)


def step(x, y):
    return (
        x / y,
        jax.lax.rsqrt(x),
        jnp.sqrt(x),
        jnp.exp(x),
        jnp.log(x),
        jnp.tanh(x),
        jnp.log1p(x),
        jnp.expm1(x),
        jax.lax.logistic(x),
        jnp.sin(x),
        jax.lax.erf(x),
        jnp.floor(x),
        jnp.sign(x),
        jnp.isfinite(x).astype(jnp.float32),
        jnp.maximum(x, y),
        jnp.minimum(x, y),
        jnp.power(jnp.abs(x), y),
        jnp.arctan2(x, y),
    )


def step_arguments():
    x = np.random.RandomState(0).randn(1024).astype(np.float32)
    y = x.copy()
    x[:256] = np.repeat(SPECIAL, 16)
    y[:256] = np.tile(SPECIAL, 16)
    return x.reshape(8, 128), y.reshape(8, 128)
