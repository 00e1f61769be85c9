"""Conversions and roundings of vectors and of scalars: ties, numbers beyond the range, infinities, NaN."""

import jax
import jax.numpy as jnp
import numpy as np

NUMBERS = np.array(
    [0.0, -0.0, 0.5, -0.5, 1.5, 2.5, -2.5, 0.49999997, 127.5, 128.0, -128.5, 255.5, 256.0, -1.0, 32767.6, 65535.5]
    + [65536.0, -32768.7, 4194304.5, 8388609.0, 16777217.0, 2147483520.0, 2147483648.0, -2147483648.0, 3e9, -3e9]
    + [np.inf, -np.inf, np.nan, 1e-3, -7.25, 99.99],
    np.float32,
)
INTEGERS = np.array([16777217, 16777219, -16777217, 2147483647, -2147483648, 33554435, 7, 0], np.int32)
AWAY = jax.lax.RoundingMethod.AWAY_FROM_ZERO


def roundings(x):
    return jnp.floor(x), jnp.ceil(x), jnp.round(x), jax.lax.round(x, AWAY), x.astype(jnp.int32), jnp.isfinite(x)


def step(x, i, numbers, integers):
    narrow = tuple(x.astype(t) for t in (jnp.int8, jnp.uint8, jnp.uint16, jnp.float16))
    words = (i.astype(jnp.uint32).astype(jnp.float32), i.astype(jnp.bfloat16), jax.lax.population_count(i))
    scalars = [jnp.stack(roundings(numbers[k])[2:]) for k in range(4)]
    counted = [jnp.stack((integers[k].astype(jnp.float32), jax.lax.clz(integers[k]))) for k in range(2)]
    return roundings(x) + narrow + words + (jnp.stack(scalars), jnp.stack(counted))


def step_arguments():
    random = np.random.RandomState(0)
    x = (random.randn(256) * np.exp(random.uniform(-5, 12, 256))).astype(np.float32)
    x[: len(NUMBERS)] = NUMBERS
    i = random.randint(-(2**31), 2**31 - 1, 256).astype(np.int32)
    i[: len(INTEGERS)] = INTEGERS
    return x.reshape(2, 128), i.reshape(2, 128), np.array([-2.5, 4194304.5, 3e9, np.nan], np.float32), INTEGERS[1:3]
