"""Training steps of models of Flax, Haiku and Keras: a function and what has the shapes of its arguments.

For the files beside this one; Haiku is needed where its step is.
"""

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax

KEY = jax.random.PRNGKey(0)
A_KEY = jax.ShapeDtypeStruct((2,), jnp.uint32)


def shapes(make, *given):
    return jax.eval_shape(make, *given)


def flax_step(model, loss_of, optimizer, *batch, inputs=1):
    """The step of a model with statistics (if it has any) and dropout, whose key is given: loss_of(output, *batch)."""

    def update(p, state, others, key, *batch):
        def loss(p):
            out, changed = model.apply({"params": p, **others}, *batch[:inputs], rngs={"dropout": key}, mutable=list(others))
            return loss_of(out, *batch), changed

        (value, changed), gradient = jax.value_and_grad(loss, has_aux=True)(p)
        changes, state = optimizer.update(gradient, state, p)
        return optax.apply_updates(p, changes), state, changed, value

    def arguments():
        others = dict(shapes(model.init, {"params": KEY, "dropout": KEY}, *batch[:inputs]))
        p = others.pop("params")
        return p, shapes(optimizer.init, p), others, A_KEY, *batch

    return update, arguments


def haiku_step(function, loss_of, optimizer, *batch, inputs=1):
    """The same of a function with Haiku's modules."""
    import haiku as hk

    model = hk.transform_with_state(function)

    def update(p, state, others, key, *batch):
        def loss(p):
            out, changed = model.apply(p, others, key, *batch[:inputs])
            return loss_of(out, *batch), changed

        (value, changed), gradient = jax.value_and_grad(loss, has_aux=True)(p)
        changes, state = optimizer.update(gradient, state, p)
        return optax.apply_updates(p, changes), state, changed, value

    def arguments():
        p, others = shapes(model.init, KEY, *batch[:inputs])
        return p, shapes(optimizer.init, p), others, A_KEY, *batch

    return update, arguments


def keras_step(model, loss_of, optimizer, *batch):
    """The same of a model of Keras, with its own optimiser."""
    optimizer.build(model.trainable_variables)

    def update(trained, state, others, x, y):
        def loss(trained):
            out, changed = model.stateless_call(trained, others, x, training=True)
            return loss_of(y, out), changed

        (value, changed), gradient = jax.value_and_grad(loss, has_aux=True)(trained)
        trained, state = optimizer.stateless_apply(state, gradient, trained)
        return trained, state, changed, value

    def arguments():
        of = lambda variables: [jax.ShapeDtypeStruct(v.shape, v.dtype) for v in variables]
        return of(model.trainable_variables), of(optimizer.variables), of(model.non_trainable_variables), *batch

    return update, arguments


def normalised():
    return nn.BatchNorm(use_running_average=False, momentum=0.9)
