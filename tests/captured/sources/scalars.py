"""What XLA computes on the scalar unit: sums, differences, minima, maxima and comparisons of single numbers."""

import jax
import jax.numpy as jnp
import numpy as np


def step(a, b, c, x):
    clip = jnp.minimum(1.0, a / jnp.sqrt(jnp.sum(x * x)))
    either = jnp.where(a != b, x, 2 * x)

    def body(state):
        i, t, u = state
        t = jnp.minimum(t + a, c)
        return i + 1, t, jnp.maximum(u - b, t)

    _, t, u = jax.lax.while_loop(lambda state: state[0] < 5, body, (0, a, b))
    branch = jax.lax.cond(t != u, lambda v: v + 1.0, lambda v: v * 2.0, x)
    row = jax.lax.dynamic_slice(x, (jnp.where(a != c, 1, 2), 0), (1, 128))
    smaller, greater, total, rest = x * jnp.minimum(a, b), x * jnp.maximum(b, c), x * (a + c), x * (b - c)
    return x * clip, either, t, u, branch, smaller, greater, total, rest, row, jnp.minimum(a + 1.0, c) - b


def step_arguments():
    x = np.random.RandomState(1).randn(8, 128).astype(np.float32)
    return np.float32(0.75), np.float32(0.25), np.float32(3.5), x
