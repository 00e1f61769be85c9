"""Training steps by name, for files that print one as JAX lowers it for the computer's CPU."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax

KEY = jax.ShapeDtypeStruct((2,), jnp.uint32)  # Of random numbers.


class NamedSteps(dict):
    """Functions by their names; each makes a step and a function of its arguments, or of what has their shapes."""

    def step(self, make):
        self[make.__name__] = make
        return make

    def stablehlo(self, name, platforms=None):
        """The step as text; its first two arguments, parameters and the optimiser's state, are donated. `platforms`: for others than this computer's."""
        update, arguments = self[name]()
        shapes = jax.tree.map(lambda a: jax.ShapeDtypeStruct(np.shape(a), a.dtype), arguments())
        return jax.jit(update, donate_argnums=(0, 1), keep_unused=True).trace(*shapes).lower(lowering_platforms=platforms).as_text()


class NamedFunctions(dict):
    """Functions by their names, each with the shapes of its arguments."""

    def add(self, name, function, *arguments):
        self[name] = (function, arguments)

    def trained(self, name, loss, p, *batch, optimizer=optax.adam(1e-3)):
        """A step of `optimizer` on `loss` of parameters `p` and a batch."""

        def step(p, state, *batch):
            value, gradient = jax.value_and_grad(loss)(p, *batch)
            changes, state = optimizer.update(gradient, state, p)
            return optax.apply_updates(p, changes), state, value

        self.add(name, step, p, jax.eval_shape(optimizer.init, p), *batch)

    def stablehlo(self, name):
        function, arguments = self[name]
        return jax.jit(function).lower(*arguments).as_text()


def f(*extents):
    return jax.ShapeDtypeStruct(extents, jnp.float32)


def ints(*extents):
    return jax.ShapeDtypeStruct(extents, jnp.int32)


def layers(*extents):
    """Weights and biases of a net of dense layers."""
    return [(f(i, o), f(o)) for i, o in zip(extents, extents[1:])]


def mlp(p, x, act=jnp.tanh):
    for w, b in p[:-1]:
        x = act(x @ w + b)
    w, b = p[-1]
    return x @ w + b


def print_named(names, stablehlo, usage):
    """Prints the step that the command line names."""
    if sys.argv[1:2] in ([], ["-h"], ["--help"]) or sys.argv[1] not in names:
        sys.exit(f"{usage}\nNAME is one of: {' '.join(names)}")
    print(stablehlo(sys.argv[1]))


def cross_entropy(logits, labels):
    return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()


def square(found, wanted):
    return jnp.mean((found - wanted) ** 2)
