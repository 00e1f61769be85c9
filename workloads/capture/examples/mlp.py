"""A training step of a small network: 64-96-32-8, softmax cross-entropy, momentum.

    python -m tpusim_capture examples/mlp.py:step --chip v2,v3 --values -o mlp/
"""

import jax
import jax.numpy as jnp
import numpy as np

SIZES = (64, 96, 32, 8)
BATCH = 24
RATE = 0.1
MOMENTUM = 0.9

DONATED = (0, 1)
SPLIT = (2, 3)


def loss(weights, images, labels):
    hidden = images
    for number, (weight, bias) in enumerate(weights):
        hidden = hidden @ weight + bias
        if number + 1 < len(weights):
            hidden = jax.nn.relu(hidden)
    chosen = jax.nn.log_softmax(hidden) * jax.nn.one_hot(labels, SIZES[-1])
    return -jnp.mean(jnp.sum(chosen, axis=-1))


def step(weights, velocity, images, labels):
    value, gradient = jax.value_and_grad(loss)(weights, images, labels)
    velocity = jax.tree.map(lambda v, g: MOMENTUM * v + g, velocity, gradient)
    weights = jax.tree.map(lambda w, v: w - RATE * v, weights, velocity)
    return weights, velocity, value


def step_arguments():
    random = np.random.default_rng(7)
    weights = [
        (
            (random.normal(size=shape) / np.sqrt(shape[0])).astype(np.float32),
            np.zeros(shape[1], np.float32),
        )
        for shape in zip(SIZES[:-1], SIZES[1:])
    ]
    velocity = jax.tree.map(np.zeros_like, weights)
    images = random.normal(size=(BATCH, SIZES[0])).astype(np.float32)
    labels = random.integers(SIZES[-1], size=BATCH).astype(np.int32)
    return weights, velocity, images, labels
