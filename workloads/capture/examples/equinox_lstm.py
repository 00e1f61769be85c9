"""An Equinox model: an LSTM over time with lax.scan, and optax. Its static parts stay out of the arguments.

    python -m tpusim_capture examples/equinox_lstm.py:step --values -o equinox_lstm/
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

BATCH = 8
TIME = 12

DONATED = (0, 1)
SPLIT = (2, 3)


class Classifier(eqx.Module):
    cell: eqx.nn.LSTMCell
    head: eqx.nn.Linear

    def __init__(self, key):
        first, second = jax.random.split(key)
        self.cell = eqx.nn.LSTMCell(16, 64, key=first)
        self.head = eqx.nn.Linear(64, 4, key=second)

    def __call__(self, series):
        start = (jnp.zeros(64), jnp.zeros(64))
        (hidden, _), _ = jax.lax.scan(lambda state, x: (self.cell(x, state), None), start, series)
        return self.head(hidden)


weights, structure = eqx.partition(Classifier(jax.random.key(0)), eqx.is_array)
optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.sgd(0.1, momentum=0.9))


def step(weights, state, series, labels):
    def loss(weights):
        logits = jax.vmap(eqx.combine(weights, structure))(series)
        return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()

    value, gradient = jax.value_and_grad(loss)(weights)
    updates, state = optimizer.update(gradient, state)
    return optax.apply_updates(weights, updates), state, value


def step_arguments():
    random = np.random.default_rng(7)
    series = random.normal(size=(BATCH, TIME, 16)).astype(np.float32)
    labels = random.integers(4, size=BATCH).astype(np.int32)
    return weights, optimizer.init(weights), series, labels
