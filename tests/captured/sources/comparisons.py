"""Comparisons of scalars, what control makes of them, and products of fp32 in parts."""

import jax
import jax.numpy as jnp
import numpy as np

lax = jax.lax
NUMBERS = np.array([np.nan, 1.0, -0.0, 0.0, np.inf, -1.5], np.float32)
INTEGERS = np.array([0, 1, 2**31, 2**31 - 1, 2**32 - 1, 7], np.uint32)


def comparisons(x, y):
    return jnp.stack([x < y, x <= y, x > y, x >= y, x == y, x != y])


def step(numbers, integers, values, limit, a, b):
    pairs = ((0, 1), (5, 1), (2, 3))
    results = [jnp.stack([comparisons(numbers[i], numbers[j]) for i, j in pairs])]
    results.append(jnp.stack([comparisons(integers[i], integers[j]) for i, j in ((2, 3),)]))
    results.append(jnp.stack([jnp.stack([integers[i] // 7, integers[i] % 10]) for i in (2, 4)]))
    results.append(lax.cond(limit < numbers[1], lambda v: v * 2, lambda v: v - 1, values))
    results.append(lax.cond(numbers[0] >= limit, lambda v: v * 2, lambda v: v - 1, values))
    results += lax.while_loop(lambda s: s[1] < limit, lambda s: (s[0] + 1, s[1] * 1.5 + s[0].astype(jnp.float32)), (1, numbers[1]))
    return tuple(results) + (lax.dot_general(a, b, (((0,), (0,)), ((), ())), precision="highest"),)


def step_arguments():
    random = np.random.RandomState(2)
    a, b = random.rand(40, 8).astype(np.float32), random.rand(40, 16).astype(np.float32)
    return NUMBERS, INTEGERS, random.randn(64).astype(np.float32), np.float32(5000.0), a, b
