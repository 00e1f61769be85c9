"""Training steps of the nets that a seed draws (bench/programs/drawn_nets.py) in a small form, for tests/jax_differential.py --nets.

The layers, types, losses and optimisers are those of the same seed; batches, images, texts and vocabularies are smaller. Weights and
the optimiser's state are those after a few steps of JAX. Compared is what the step gives: the state, the statistics, the loss, and the
weights less what they were; of half of the seeds the gradients, too. At the default precision JAX rounds the operands of products as
the MXU does, so that both sides compute the same.
"""
import atexit
import contextlib
import functools
import pathlib
import sys
import tempfile
import unittest.mock

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "bench/programs"))
import drawn_nets
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax._src.interpreters import mlir
from jax_libraries import filled, is_float
from jax_programs import Program

lax = jax.lax
STEPS_BEFORE = 3
# What each size is divided by, and the least of it; a kind's own sizes come first.
SMALLER = {"batch": (8, 2), "size": (4, 8), "length": (4, 8), "samples": (2, 8), "points": (4, 8), "rows": (100, 8), "words": (50, 16), "MLP width": (2, 8), "ahead": (2, 8),
           "words width": (4, 8), "series width": (4, 8), "series length": (2, 8), "points width": (2, 8)}
# Integers of the batch are below these, in their order.
BELOW = {"images": ["kinds"], "words": ["words", "words", 20], "sounds": ["kinds"], "tables": ["rows"], "points": ["points", 40]}


class SmallDraw(drawn_nets.Drawn):
    """What the seed says, with smaller sizes; the type of numbers may be given."""

    def __init__(self, seed, type=None):
        super().__init__(seed)
        self.type = type

    def __call__(self, name, *options):
        divisor, least = SMALLER.get(f"{self.kind()} {name}", SMALLER.get(name, (1, 0)))
        if divisor > 1:
            options = [max(o // divisor, least) for o in options]
        if name == "size" and self.kind() == "images":
            options = [16, 24, 32, 40, 56, 72]  # The last ones have a larger first window and a fourth stage.
        value = super().__call__(name, *options)
        return self.type if name == "type" and self.type else value

    def kind(self):
        return self.said["kind"].__name__ if "kind" in self.said else ""


def keeps_gradients():
    """As a part of the state; they pass."""
    return optax.GradientTransformation(lambda weights: {"gradients": jax.tree.map(jnp.zeros_like, weights)}, lambda g, state, weights=None: (g, {"gradients": g}))


@functools.cache
def round_products():
    """Products of f32 at the default precision take operands of bf16 on the CPU, too."""
    short = lambda a: lax.reduce_precision(a, 8, 7)
    for primitive in (lax.dot_general_p, lax.conv_general_dilated_p):
        plain = mlir._platform_specific_lowerings["cpu"].get(primitive)
        plain = plain.rule if hasattr(plain, "rule") else plain

        def rule(context, a, b, primitive=primitive, plain=plain, **given):
            if given["precision"] not in (None, lax.Precision.DEFAULT, (lax.Precision.DEFAULT, lax.Precision.DEFAULT)) or any(aval.dtype != jnp.float32 for aval in context.avals_in):
                return plain(context, a, b, **given)
            given["precision"] = (lax.Precision.HIGHEST, lax.Precision.HIGHEST)
            return mlir.lower_fun(lambda a, b: primitive.bind(short(a), short(b), **given), multiple_results=False)(context, a, b)

        mlir.register_lowering(primitive, rule, platform="cpu")


@functools.cache
def compiled():
    folder = tempfile.TemporaryDirectory()
    atexit.register(folder.cleanup)
    return folder.name


class NetProgram(Program):
    """The step of a seed after some steps."""

    for_tpu = True
    patience = 4

    def __init__(self, seed):
        round_products()
        jax.clear_caches()
        jax.config.update("jax_compilation_cache_dir", compiled())  # The steps before are compiled as the one that is compared.
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
        self.random, self.seed = np.random.default_rng((seed, 1)), seed
        self.shows_gradients = self.pick([False, True])
        draw, self.step, arguments = self.net()
        arguments = arguments()
        self.precision = self.pick(["default", "default", "highest"]) if draw("type") == "f32" else "default"
        self.allowed = {"f32": 2e-3, "bf16": 2e-2}[draw("type")]
        self.form = ", ".join(f"{name} {value}" for name, value in draw.said.items() if name != "kind")
        self.form = f"{draw.kind()}, {self.form}, {self.precision}, gradients {self.shows_gradients}"
        self.below = [draw.said.get(b, b) for b in BELOW.get(draw.kind(), [])]
        self.tree = jax.tree.structure(arguments)
        weights, state, others, key, *batch = arguments
        if sum(a.size for a in jax.tree.leaves(weights)) > 1_500_000:
            raise ValueError("too large")
        positive = lambda path, a: np.abs(a) if "filters" in jax.tree_util.keystr(path) else a  # Of spectra, behind which stands a logarithm.
        made = lambda tree: jax.tree_util.tree_map_with_path(lambda path, leaf: positive(path, filled(self.random, path, leaf)), tree)
        now = made(weights), jax.tree.map(lambda a: np.zeros(a.shape, a.dtype), state), made(others)
        now = jax.tree.leaves(now)
        with jax.default_matmul_precision(self.precision):
            step = jax.jit(self, keep_unused=True)
            for _ in range(STEPS_BEFORE):
                *now, _ = jax.tree.leaves(step(*now, self.key(), *self.batch(batch)))
        self.arguments = [np.asarray(a) for a in (*now, self.key(), *self.batch(batch))]
        self.weights = len(jax.tree.leaves(weights))

    def net(self, type=None):
        """What was drawn, the step, and what makes its arguments' shapes."""
        draw = SmallDraw(self.seed, type)
        kind = draw("kind", *drawn_nets.KINDS)
        made = drawn_nets.optimizer
        with unittest.mock.patch.object(drawn_nets, "optimizer", lambda d: optax.chain(keeps_gradients(), made(d)) if self.shows_gradients else made(d)):
            return draw, *kind(draw)

    def key(self):
        return np.asarray([3, self.random.integers(1000)], np.uint32)

    def batch(self, shapes):
        """Numbers of few bits; of integers a quarter are the same one."""
        below = iter(self.below)
        draw = lambda a: self.random.integers(-32, 33, a.shape) / 16 if is_float(a) else self.random.integers(0, next(below), a.shape) ** (self.random.integers(4, size=a.shape) > 0)
        return [draw(a).astype(a.dtype) for a in shapes]

    def __call__(self, *leaves):
        return self.step(*jax.tree.unflatten(self.tree, leaves))

    def exactly(self, *leaves):
        _, step, arguments = self.net("f64")
        bernoulli, nn = jax.random.bernoulli, drawn_nets.nn
        with contextlib.ExitStack() as patches:
            # A probability of f64 would draw another mask, and a cell begins with a state of the weights' type.
            patches.enter_context(unittest.mock.patch.object(jax.random, "bernoulli", lambda key, p, *given, **named: bernoulli(key, jnp.float32(p), *given, **named)))
            for cell in ("OptimizedLSTMCell", "GRUCell"):
                patches.enter_context(unittest.mock.patch.object(nn, cell, functools.partial(getattr(nn, cell), param_dtype=jnp.float64)))
            arguments()  # Draws everything in its order.
            return step(*jax.tree.unflatten(self.tree, leaves))

    def compared(self, outputs):
        """The weights, which come first, less what they were."""
        changes = [np.asarray(new, np.float64) - np.asarray(old, np.float64) for new, old in zip(outputs, self.arguments[:self.weights])]
        return [c.astype(o.dtype) for c, o in zip(changes, outputs)] + list(outputs[self.weights:])

    def least(self, outputs):
        """A part of the largest array of the same name, for each: what is nearly zero among gradients is so beside other gradients."""
        paths = jax.tree_util.tree_leaves_with_path(jax.eval_shape(self.step, *jax.tree.unflatten(self.tree, self.arguments)))
        # A name is what stands before that of a weight.
        names = [jax.tree_util.keystr(path[:next((i for i, key in enumerate(path) if isinstance(key, jax.tree_util.DictKey)), len(path))]) for path, _ in paths]
        sizes = [float(np.sqrt(np.mean(np.square(np.asarray(o, np.float64))))) if o.size else 0.0 for o in outputs]
        largest = {name: max(s for n, s in zip(names, sizes) if n == name) for name in names}
        return [max(1e-2 * largest[name], 1e-12) for name in names]
