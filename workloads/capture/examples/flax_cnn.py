"""A Flax network trained with optax: two convolutions, dropout, Adam.

    python -m tpusim_capture examples/flax_cnn.py:step --values -o flax_cnn/
"""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax

BATCH = 16

DONATED = (0, 1)
SPLIT = (2, 3)


class Network(nn.Module):
    @nn.compact
    def __call__(self, images, train):
        for features in (16, 32):
            images = nn.Conv(features, (3, 3))(images)
            images = nn.relu(images)
            images = nn.avg_pool(images, (2, 2), strides=(2, 2))
        hidden = nn.relu(nn.Dense(64)(images.reshape(images.shape[0], -1)))
        hidden = nn.Dropout(0.25, deterministic=not train)(hidden)
        return nn.Dense(10)(hidden)


network = Network()
optimizer = optax.adam(1e-3)


def step(weights, state, images, labels, key):
    def loss(weights):
        logits = network.apply(weights, images, True, rngs={"dropout": key})
        return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()

    value, gradient = jax.value_and_grad(loss)(weights)
    updates, state = optimizer.update(gradient, state, weights)
    return optax.apply_updates(weights, updates), state, value


def step_arguments():
    random = np.random.default_rng(7)
    images = random.normal(size=(BATCH, 16, 16, 3)).astype(np.float32)
    labels = random.integers(10, size=BATCH).astype(np.int32)
    weights = network.init(jax.random.key(0), jnp.asarray(images), False)
    return weights, optimizer.init(weights), images, labels, jax.random.key(1)
