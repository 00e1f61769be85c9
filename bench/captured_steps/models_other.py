"""Models of Haiku and Equinox."""

import equinox as eqx
import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
import optax

from declare import cross_entropy, integers, normal, step

OPTIMISER = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(1e-3))
DONATED = (0,)


def declare_haiku(name, function, batch, loss=cross_entropy):
    network = hk.transform_with_state(function)

    def train(state, x, target):
        weights, moving, optimiser = state

        def total(weights):
            result, now = network.apply(weights, moving, jax.random.key(5), x)
            return loss(result, target), now

        (value, moving), gradient = jax.value_and_grad(total, has_aux=True)(weights)
        update, optimiser = OPTIMISER.update(gradient, optimiser, weights)
        return (optax.apply_updates(weights, update), moving, optimiser), value

    def arguments():
        weights, moving = network.init(jax.random.key(0), batch()[0])
        return ((weights, moving, OPTIMISER.init(weights)), *batch())

    step(arguments, "haiku_" + name)(train)


def pictures():
    return normal(8, 12, 12, 3), integers(10, 8)


def residual(x):
    for channels in (8, 16):
        y = hk.Conv2D(channels, 3, stride=2, with_bias=False)(x)
        y = jax.nn.relu(hk.BatchNorm(True, True, 0.9)(y, is_training=True))
        x = hk.Conv2D(channels, 1, stride=2)(x) + hk.Conv2D(channels, 3)(y)
    return hk.Linear(10)(jnp.mean(x, (1, 2)))


def dropout_mlp(x):
    x = hk.dropout(hk.next_rng_key(), 0.2, jax.nn.relu(hk.Linear(32)(x)))
    return hk.Linear(10)(x)


def lstm(x):
    core = hk.LSTM(16)
    y, _ = hk.dynamic_unroll(core, jnp.swapaxes(x, 0, 1), core.initial_state(x.shape[0]))
    return hk.Linear(10)(y[-1])


def transformer(x):
    y = hk.LayerNorm(-1, True, True)(x)
    x = x + hk.MultiHeadAttention(2, 8, w_init=hk.initializers.VarianceScaling())(y, y, y)
    return hk.Linear(10)(hk.Flatten()(x + hk.nets.MLP([32, 16])(x)))


declare_haiku("resnet", residual, pictures)
declare_haiku("dropout", dropout_mlp, lambda: (normal(16, 24), integers(10, 16)))
declare_haiku("lstm", lstm, lambda: (normal(8, 10, 6), integers(10, 8)))
declare_haiku("transformer", transformer, lambda: (normal(4, 12, 16), integers(10, 4)))
declare_haiku("mobilenet_block", lambda x: hk.Linear(10)(jnp.mean(jax.nn.relu6(hk.DepthwiseConv2D(2, 3)(x)), (1, 2))), pictures)


def declare_equinox(name, make, call, batch, loss=cross_entropy):
    def parts():
        return eqx.partition(make(jax.random.key(0)), eqx.is_inexact_array)

    def train(state, x, target):
        arrays, optimiser = state
        rest = jax.eval_shape(make, jax.random.key(0)) if False else parts()[1]

        def total(arrays):
            return loss(call(eqx.combine(arrays, rest), x), target)

        value, gradient = jax.value_and_grad(total)(arrays)
        update, optimiser = OPTIMISER.update(gradient, optimiser, arrays)
        return (eqx.apply_updates(arrays, update), optimiser), value

    step(lambda: ((parts()[0], OPTIMISER.init(parts()[0])), *batch()), "equinox_" + name)(train)


class Cnn(eqx.Module):
    conv: eqx.nn.Conv2d
    norm: eqx.nn.GroupNorm
    last: eqx.nn.Linear

    def __init__(self, key):
        keys = jax.random.split(key)
        self.conv = eqx.nn.Conv2d(3, 8, 3, key=keys[0])
        self.norm = eqx.nn.GroupNorm(2, 8)
        self.last = eqx.nn.Linear(8 * 5 * 5, 10, key=keys[1])

    def __call__(self, x):
        y = jax.nn.relu(self.norm(self.conv(x)))
        return self.last(eqx.nn.AvgPool2d(2, 2)(y).reshape(-1))


class Recurrent(eqx.Module):
    cell: eqx.nn.GRUCell
    last: eqx.nn.Linear

    def __init__(self, key):
        keys = jax.random.split(key)
        self.cell = eqx.nn.GRUCell(6, 16, key=keys[0])
        self.last = eqx.nn.Linear(16, 10, key=keys[1])

    def __call__(self, x):
        h, _ = jax.lax.scan(lambda h, a: (self.cell(a, h), None), jnp.zeros(16), x)
        return self.last(h)


class Ode(eqx.Module):
    """A neural ordinary differential equation with a fixed number of Runge-Kutta steps."""

    field: eqx.nn.MLP

    def __init__(self, key):
        self.field = eqx.nn.MLP(4, 4, 24, 1, activation=jnp.tanh, key=key)

    def __call__(self, x):
        def body(x, _):
            k1 = self.field(x)
            k2 = self.field(x + 0.05 * k1)
            return x + 0.1 * k2, None

        return jax.lax.scan(body, x, None, length=6)[0]


def mapped(model, x):
    return jax.vmap(model)(x)


def squared_error(a, b):
    return jnp.mean((a - b) ** 2)


declare_equinox("mlp", lambda key: eqx.nn.MLP(24, 10, 32, 2, key=key), mapped, lambda: (normal(16, 24), integers(10, 16)))
declare_equinox("cnn", Cnn, mapped, lambda: (normal(8, 3, 12, 12), integers(10, 8)))
declare_equinox("gru", Recurrent, mapped, lambda: (normal(8, 10, 6), integers(10, 8)))
declare_equinox("neural_ode", Ode, mapped, lambda: (normal(16, 4), normal(16, 4, seed=5)), squared_error)
