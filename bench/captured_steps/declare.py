"""How the files of this folder declare their steps, and small networks that several of them train.

A step is a function of arrays; `@step(arguments)` puts it under its name, and `arguments` as `<name>_arguments`, into the
file's module, where `tpusim_capture FILE.py:NAME` finds both. STEPS lists the names.
"""

import inspect

import jax
import jax.numpy as jnp
import numpy as np


def step(arguments, name=None):
    space = inspect.currentframe().f_back.f_globals

    def register(function):
        chosen = name or function.__name__
        space[chosen] = function
        space[f"{chosen}_arguments"] = arguments
        space.setdefault("STEPS", []).append(chosen)
        return function

    return register


def random(seed=1):
    return np.random.default_rng(seed)


def normal(*shape, seed=1, scale=1.0, dtype=np.float32):
    return (random(seed).normal(size=shape) * scale).astype(dtype)


def integers(limit, *shape, seed=2, dtype=np.int32):
    return random(seed).integers(limit, size=shape).astype(dtype)


def dense_weights(*sizes, seed=3):
    """Weights and biases of dense layers: a list of (matrix, bias)."""
    draw = random(seed)
    return [
        (
            (draw.normal(size=shape) / np.sqrt(shape[0])).astype(np.float32),
            (0.1 * draw.normal(size=shape[1])).astype(np.float32),
        )
        for shape in zip(sizes[:-1], sizes[1:])
    ]


def dense(weights, x, activation=jax.nn.relu):
    for number, (matrix, bias) in enumerate(weights):
        x = x @ matrix + bias
        if number + 1 < len(weights):
            x = activation(x)
    return x


def cross_entropy(logits, labels):
    chosen = jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], axis=-1)
    return -jnp.mean(chosen)


def descend(weights, gradient, rate=0.1):
    return jax.tree.map(lambda w, g: (w - rate * g).astype(w.dtype), weights, gradient)


def trained(loss):
    """A step of gradient descent on loss(weights, *batch): returns the weights and the loss."""

    def stepped(weights, *batch):
        value, gradient = jax.value_and_grad(loss)(weights, *batch)
        return descend(weights, gradient), value

    return stepped
