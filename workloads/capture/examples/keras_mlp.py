"""A Keras model and its optimizer, as functions of their variables (Keras 3 with the JAX backend).

    KERAS_BACKEND=jax python -m tpusim_capture examples/keras_mlp.py:step --values -o keras_mlp/
"""

import os

os.environ["KERAS_BACKEND"] = "jax"

import jax  # noqa: E402
import keras  # noqa: E402
import numpy as np  # noqa: E402

BATCH = 32

DONATED = (0, 1, 2)
SPLIT = (3, 4)

keras.utils.set_random_seed(7)
model = keras.Sequential(
    [
        keras.layers.Input((48,)),
        keras.layers.Dense(96, activation="gelu"),
        keras.layers.BatchNormalization(),
        keras.layers.Dense(10),
    ]
)
loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
optimizer = keras.optimizers.SGD(0.05, momentum=0.9)
optimizer.build(model.trainable_variables)


def step(trainable, others, state, features, labels):
    def loss(trainable):
        logits, updated = model.stateless_call(trainable, others, features, training=True)
        return loss_of(labels, logits), updated

    (value, updated), gradient = jax.value_and_grad(loss, has_aux=True)(trainable)
    trainable, state = optimizer.stateless_apply(state, gradient, trainable)
    return trainable, updated, state, value


def values_of(variables):
    return [np.asarray(variable.value) for variable in variables]


def step_arguments():
    random = np.random.default_rng(7)
    features = random.normal(size=(BATCH, 48)).astype(np.float32)
    labels = random.integers(10, size=BATCH).astype(np.int32)
    return (
        values_of(model.trainable_variables),
        values_of(model.non_trainable_variables),
        values_of(optimizer.variables),
        features,
        labels,
    )
