"""A convolution of few features over 128 images, its pool, and the gradient of its kernel, as in LeNet: whole numbers, whose products and sums are exact."""

import jax
import jax.numpy as jnp
import numpy as np


def pooled(kernel, images):
    features = jax.lax.conv_general_dilated(images, kernel, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    return jax.lax.reduce_window(jnp.maximum(features, 0), -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


def step(image, scale, kernel, weights):
    images = image * scale[:, None, None, None]
    features, gradient = jax.vjp(lambda k: pooled(k, images), kernel)
    return jnp.max(features, axis=0), kernel - gradient(jnp.broadcast_to(weights, features.shape))[0]


def step_arguments():
    random = np.random.default_rng(12)
    numbers = lambda most, *shape: random.integers(-most, most + 1, size=shape).astype(np.float32)
    return numbers(3, 14, 14, 6), numbers(2, 128), numbers(1, 5, 5, 6, 16), numbers(2, 5, 5, 16)
