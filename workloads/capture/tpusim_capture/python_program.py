"""A program that comes as a Python function: FILE.py:FUNCTION, its arguments, its mesh and its shardings."""

import functools
import importlib.util
import inspect
import os
import sys

from tpusim_capture import lowered
from tpusim_capture.errors import CaptureError


@functools.lru_cache
def load_file(path):
    """The module of FILE.py; a file with several functions is executed once."""
    name = "captured_" + os.path.splitext(os.path.basename(path))[0]
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, os.path.dirname(path))
    spec.loader.exec_module(module)
    return module


def takes_mesh(function):
    try:
        return "mesh" in inspect.signature(function).parameters
    except (TypeError, ValueError):  # a callable that does not say
        return False


class PythonProgram:
    """A function and what its file says about it: FUNCTION_arguments(), DONATED, SPLIT, MESH, FUNCTION_shardings(mesh)."""

    def __init__(self, path, name, mesh=None, data_parallel=False):
        self.path = path
        self.name = name
        self.file = load_file(path)
        self._made = None
        self.function = getattr(self.file, name, None)
        if not callable(self.function):
            raise CaptureError(f"{path}: expected a function '{name}', found none")
        self._arguments = self._of_this("arguments") or getattr(self.file, "example_arguments", None)
        if self._arguments is None:
            raise CaptureError(f"{path}: expected {name}_arguments() or example_arguments() that returns the arguments of '{name}'")
        self.donated = tuple(self._of_this("donated") or getattr(self.file, "DONATED", ()))
        self.split = tuple(self._of_this("split") or getattr(self.file, "SPLIT", ()))
        self._shardings = self._of_this("shardings") or getattr(self.file, "shardings", None)
        self._result_shardings = self._of_this("result_shardings") or getattr(self.file, "result_shardings", None)
        self.axes = self._axes(mesh, data_parallel)

    def lower(self, devices):
        """Lowered for TPU devices of a slice."""
        mesh = self._mesh(devices)
        arguments = self.arguments(mesh)
        described = self._described(arguments, mesh, devices)
        return lowered.of_jit(self._lower(described, mesh, self._results_of(mesh)), devices)

    def reference(self, devices):
        """For reference values: the StableHLO module lowered for the CPU, its inputs, and their shardings, None on one device."""
        import jax

        mesh = self._mesh(devices)
        arguments = jax.tree.map(example_value, self.arguments(mesh))
        if mesh is None:
            result = jax.jit(self._bound(mesh), keep_unused=True).lower(*arguments)
        else:
            result = self._lower(self._described(arguments, mesh, devices), mesh, everywhere(mesh))
        inputs = [stored_form(leaf) for leaf in jax.tree.leaves(arguments)]
        return result.compiler_ir("stablehlo"), inputs, None if mesh is None else result._lowering.compile_args["in_shardings"]

    def batch(self):
        """The number of examples of a step: what the arguments that are split over the cores have in common."""
        import jax
        import numpy as np

        leaves = jax.tree.leaves([self.arguments(None)[number] for number in self.split]) if self.axes is None else []
        counts = {np.shape(leaf)[0] if np.shape(leaf) else 0 for leaf in leaves}
        return counts.pop() if len(counts) == 1 else 0

    def arguments(self, mesh):
        """The example arguments; made once where they do not depend on the mesh."""
        if self._made is not None:
            return self._made
        arguments = self._arguments(mesh=mesh) if takes_mesh(self._arguments) else self._arguments()
        if not isinstance(arguments, (tuple, list)):
            raise CaptureError(f"{self.path}: expected a tuple of arguments, found {type(arguments).__name__}")
        if not takes_mesh(self._arguments):
            self._made = tuple(arguments)
        return tuple(arguments)

    def _of_this(self, what):
        return getattr(self.file, f"{self.name}_{what}", None)

    def _axes(self, mesh, data_parallel):
        """Sizes of the mesh by axis; None for a program on one core. The command line wins over MESH, that over the arguments' shardings."""
        if data_parallel:
            if not self.split:
                raise CaptureError("--data-parallel: expected SPLIT = (numbers of the arguments that are split over the cores), found none")
            return {"data": -1}
        stated = mesh or getattr(self.file, "MESH", None)
        if stated is not None:
            return dict(stated)
        return None if takes_mesh(self._arguments) else mesh_of(self.arguments(None))

    def _mesh(self, devices):
        import numpy as np
        from jax.sharding import Mesh

        if self.axes is None:
            return None
        sizes = list(self.axes.values())
        known = int(np.prod([size for size in sizes if size != -1]))
        if sizes.count(-1) == 1:
            sizes[sizes.index(-1)] = len(devices) // known
        stated = " x ".join(f"{axis}={size}" for axis, size in zip(self.axes, sizes))
        if np.prod(sizes) != len(devices):
            raise CaptureError(f"mesh {stated}: expected {len(devices)} devices, those of the slice; change --slice or --mesh")
        return Mesh(np.array(devices).reshape(sizes), tuple(self.axes))

    def _results_of(self, mesh):
        """What the function says; steps that say nothing and split their batch leave the same state on every core."""
        if mesh is None:
            return None
        if self._result_shardings is not None:
            return on_mesh_throughout(self._result_shardings(mesh), mesh)
        return everywhere(mesh) if self._shardings is None and self.split else None

    def _bound(self, mesh):
        return functools.partial(self.function, mesh=mesh) if takes_mesh(self.function) else self.function

    def _lower(self, described, mesh, results):
        import contextlib

        import jax

        options = {} if results is None else {"out_shardings": results}
        function = jax.jit(self._bound(mesh), donate_argnums=self.donated, keep_unused=True, **options)
        with contextlib.nullcontext() if mesh is None else jax.set_mesh(mesh):
            return function.lower(*described)

    def _described(self, arguments, mesh, devices):
        """Shape, type and sharding of every leaf of the arguments."""
        import jax
        from jax.sharding import SingleDeviceSharding

        if mesh is None:
            return jax.tree.map(lambda leaf: described_leaf(leaf, SingleDeviceSharding(devices[0])), arguments)
        given = self._shardings(mesh) if self._shardings is not None else self._split_over(mesh)
        if len(given) != len(arguments):
            raise CaptureError(f"{self.path}: expected shardings for {len(arguments)} arguments, found {len(given)}")
        return tuple(described_tree(argument, sharding, mesh) for argument, sharding in zip(arguments, given))

    def _split_over(self, mesh):
        from jax.sharding import PartitionSpec

        divided = PartitionSpec(mesh.axis_names[0])
        return [divided if number in self.split else None for number in range(len(self.arguments(mesh)))]


def everywhere(mesh):
    from jax.sharding import NamedSharding, PartitionSpec

    return NamedSharding(mesh, PartitionSpec())


def on_mesh_throughout(tree, mesh):
    """A tree of PartitionSpecs, NamedShardings and None (the compiler's choice) as shardings on the mesh."""
    import jax
    from jax.sharding import NamedSharding, PartitionSpec

    def place(node):
        return NamedSharding(mesh, node) if isinstance(node, PartitionSpec) else node

    return jax.tree.map(place, tree, is_leaf=lambda node: isinstance(node, PartitionSpec))


def mesh_of(arguments):
    """The axes of the mesh that the arguments' own shardings name, as {"data": 4, "model": 2}; None where none does."""
    import jax
    from jax.sharding import NamedSharding

    for leaf in jax.tree.leaves(arguments):
        sharding = getattr(leaf, "sharding", None)
        if isinstance(sharding, NamedSharding) and sharding.mesh.size > 1:
            return dict(sharding.mesh.shape)
    return None


def described_tree(argument, given, mesh):
    """An argument's leaves with their shardings: a PartitionSpec or NamedSharding for all, or a tree of them; None and leaves with a
    sharding of their own keep that or are everywhere."""
    import jax
    from jax.sharding import NamedSharding, PartitionSpec

    def is_sharding(node):
        return node is None or isinstance(node, (PartitionSpec, jax.sharding.Sharding))

    def on_mesh(leaf, sharding):
        own = getattr(leaf, "sharding", None)
        if sharding is None:
            sharding = own.spec if isinstance(own, NamedSharding) else PartitionSpec()
        spec = sharding.spec if isinstance(sharding, NamedSharding) else sharding
        return described_leaf(leaf, NamedSharding(mesh, spec))

    def below(sharding, subtree):
        return jax.tree.map(lambda leaf: on_mesh(leaf, sharding), subtree)

    return jax.tree.map(below, given, argument, is_leaf=is_sharding)


def described_leaf(leaf, sharding):
    """Shape and type of an argument, as the compiler is told of it."""
    import jax
    import numpy as np

    plain_number = isinstance(leaf, (bool, int, float, complex))
    kind = leaf.dtype if hasattr(leaf, "dtype") else jax.dtypes.canonicalize_dtype(np.result_type(leaf))
    return jax.ShapeDtypeStruct(np.shape(leaf), kind, sharding=sharding, weak_type=plain_number)


def example_value(leaf):
    """An argument as JAX takes it; the same random numbers on every machine where only shape and type are given."""
    import jax
    import numpy as np

    if not isinstance(leaf, jax.ShapeDtypeStruct):
        return leaf
    if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return jax.random.split(jax.random.key(0), leaf.shape)
    return example_array(leaf.shape, leaf.dtype)


def example_array(shape, kind):
    import jax
    import numpy as np

    random = np.random.default_rng(int(np.prod(shape)))
    if jax.numpy.issubdtype(kind, jax.numpy.inexact):
        return random.normal(size=shape).astype(kind)
    return random.integers(2, size=shape).astype(kind)


def stored_form(leaf):
    """The array that the compiled program takes for an argument: random keys are words there, 64 bits are 32."""
    import jax
    import numpy as np

    if isinstance(leaf, jax.Array) and jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        leaf = jax.random.key_data(leaf)
    return np.asarray(jax.numpy.asarray(leaf))
