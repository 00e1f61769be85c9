"""A program that comes as a module file."""

import numpy as np

from tpusim_capture import lowered
from tpusim_capture.errors import CaptureError
from tpusim_capture.program_file import ModuleFile
from tpusim_capture.python_program import example_array

NUMPY_TYPES = {"f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16", "i1": "bool", "complex<f32>": "complex64"}


class ModuleProgram:
    """The module of a file; its arguments have types and no values."""

    def __init__(self, path):
        self.file = ModuleFile(path)
        exported = self.file.exported
        if exported is not None and any(not isinstance(extent, int) for aval in exported.in_avals for extent in aval.shape):
            raise CaptureError(f"{path}: expected fixed shapes, found symbolic ones: export it with the shapes of a step")

    def lower(self, devices):
        exported = self.file.exported
        if exported is not None and len(exported.platforms) > 1:
            return self._lower_for("tpu", devices)
        return lowered.of_module(self.file.module(), self.file.before, exported.nr_devices if exported else 1)

    def reference(self, devices):
        exported = self.file.exported
        if exported is not None and len(exported.platforms) > 1:
            module = self._lower_for("cpu", devices).module
        else:
            module = self.file.module()
        if lowered.of_module(module).partitions > 1:
            raise CaptureError("a module file for several devices: its shardings do not say how JAX would place the arguments")
        return module, [example_of(kind) for kind in argument_types(module)], None

    def batch(self):
        return 0

    def _lower_for(self, platform, devices):
        """A jax.export for several platforms has a branch for each: JAX chooses."""
        import jax
        from jax.sharding import SingleDeviceSharding

        exported = self.file.exported
        if platform not in exported.platforms:
            raise CaptureError(f"{self.file.path}: exported for {', '.join(exported.platforms)}: expected {platform} among them")
        place = SingleDeviceSharding(devices[0])
        described = [jax.ShapeDtypeStruct(aval.shape, aval.dtype, sharding=place) for aval in exported.in_avals]
        flat = jax.jit(lambda *leaves: exported.call(*unflattened(exported, leaves)), keep_unused=True)
        return lowered.of_jit(flat.lower(*described), devices)


def unflattened(exported, leaves):
    import jax

    arguments, keywords = jax.tree.unflatten(exported.in_tree, leaves)
    if keywords:
        raise CaptureError("an exported function with keyword arguments: export it with positional ones")
    return arguments


def argument_types(module):
    """The types of main's arguments."""
    from jaxlib.mlir import ir

    for operation in module.body.operations:
        if operation.operation.name == "func.func" and ir.StringAttr(operation.attributes["sym_name"]).value == "main":
            return ir.FunctionType(ir.TypeAttr(operation.attributes["function_type"]).value).inputs
    raise CaptureError("expected a function 'main' in the module, found none")


def example_of(kind):
    from jaxlib.mlir import ir

    import jax

    tensor = ir.RankedTensorType(kind)
    element = str(tensor.element_type)
    if element in NUMPY_TYPES:
        name = NUMPY_TYPES[element]
    elif element.lstrip("usi").isdigit():
        name = ("uint" if element.startswith("ui") else "int") + element.lstrip("usi")
    else:
        raise CaptureError(f"no example values of type {element}")
    return example_array(tuple(tensor.shape), np.dtype(jax.numpy.dtype(name)))
