"""Keras 3 models on JAX: `stateless_compute_loss` and the optimiser's `stateless_apply`, as Keras's guide writes a JAX step."""

import jax
import keras
import numpy as np
from keras import layers

from declare import integers, normal, step

DONATED = (0, 1, 2)


def declare_keras(name, build, batch, optimiser="adam", loss="sparse_categorical_crossentropy"):
    made = {}

    def model():
        if not made:
            keras.utils.set_random_seed(0)
            made["model"] = build()
            made["optimiser"] = keras.optimizers.get(optimiser)
            made["model"].compile(optimizer=made["optimiser"], loss=loss)
            made["model"].build(batch()[0].shape)
            made["optimiser"].build(made["model"].trainable_variables)
        return made["model"], made["optimiser"]

    def train(trainable, others, state, images, labels):
        network, optimiser = model()

        def total(trainable):
            result, others_now = network.stateless_call(trainable, others, images, training=True)
            return network.compute_loss(images, labels, result), others_now

        (value, others_now), gradient = jax.value_and_grad(total, has_aux=True)(trainable)
        trainable, state = optimiser.stateless_apply(state, gradient, trainable)
        return trainable, others_now, state, value

    def arguments():
        network, optimiser = model()
        lists = (network.trainable_variables, network.non_trainable_variables, optimiser.variables)
        return (*([np.asarray(v.value) for v in part] for part in lists), *batch())

    step(arguments, "keras_" + name)(train)


def pictures():
    return normal(8, 12, 12, 3), integers(10, 8)


def sequential(*parts):
    return lambda: keras.Sequential([*(part() for part in parts), layers.Dense(10, activation="softmax")])


declare_keras("mlp", sequential(layers.Flatten, lambda: layers.Dense(32, activation="relu")), pictures)
declare_keras(
    "cnn_dropout",
    sequential(lambda: layers.Conv2D(8, 3, activation="relu"), layers.MaxPooling2D, layers.Flatten, lambda: layers.Dropout(0.3)),
    pictures,
)
declare_keras(
    "batch_norm_separable",
    sequential(lambda: layers.SeparableConv2D(8, 3), layers.BatchNormalization, layers.ReLU, layers.GlobalAveragePooling2D),
    pictures,
    "rmsprop",
)
declare_keras("gru", sequential(lambda: layers.GRU(16)), lambda: (normal(8, 10, 6), integers(10, 8)), "adamw")
declare_keras(
    "lstm_bidirectional", sequential(lambda: layers.Bidirectional(layers.LSTM(12))), lambda: (normal(8, 6, 6), integers(10, 8)), "nadam"
)
declare_keras(
    "embedding_conv1d",
    sequential(lambda: layers.Embedding(60, 16), lambda: layers.Conv1D(16, 3, activation="relu"), layers.GlobalMaxPooling1D),
    lambda: (integers(60, 8, 20), integers(10, 8)),
    "lion",
)
declare_keras(
    "upsampling",
    sequential(lambda: layers.Conv2D(4, 3, strides=2), layers.UpSampling2D, lambda: layers.Conv2DTranspose(4, 3), layers.GlobalAveragePooling2D),
    pictures,
    "adafactor",
)


def attention_model():
    inputs = layers.Input((12, 16))
    x = layers.MultiHeadAttention(2, 8)(inputs, inputs)
    x = layers.LayerNormalization()(x + inputs)
    x = layers.GlobalAveragePooling1D()(layers.Dense(16, activation="gelu")(x))
    return keras.Model(inputs, layers.Dense(10, activation="softmax")(x))


declare_keras("attention", attention_model, lambda: (normal(8, 12, 16), integers(10, 8)))
declare_keras("regularised_regression", lambda: keras.Sequential([layers.Dense(16, "tanh", kernel_regularizer="l2"), layers.Dense(1)]),
              lambda: (normal(16, 8), normal(16, 1)), "ftrl", "huber")
