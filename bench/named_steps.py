"""Training steps by name, for files that print one as JAX lowers it for the computer's CPU."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax


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


def print_named(names, stablehlo, usage):
    """Prints the step that the command line names."""
    if sys.argv[1:2] in ([], ["-h"], ["--help"]) or sys.argv[1] not in names:
        sys.exit(f"{usage}\nNAME is one of: {' '.join(names)}")
    print(stablehlo(sys.argv[1]))


def cross_entropy(logits, labels):
    return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()


def square(found, wanted):
    return jnp.mean((found - wanted) ** 2)
