"""A program lowered to StableHLO, with what the compiler has to know beside it."""

import dataclasses
import io
import math
import re


@dataclasses.dataclass
class Lowered:
    """A StableHLO module for `replicas * partitions` devices; it names none of them, so one lowering serves both chips."""

    module: object  # Of MLIR, or its bytecode.
    replicas: int = 1
    partitions: int = 1
    device_numbers: tuple = (0,)  # Positions in the topology's list of devices, in the order of the mesh.
    tuple_arguments: bool = False
    propagate_to_inputs: tuple = ()  # The compiler chooses the sharding of these.
    propagate_to_outputs: tuple = ()
    before: str = None  # HLO text that the program came as.

    def without_module(self):
        """All but the module and its text, for another process."""
        kept = ("replicas", "partitions", "device_numbers", "tuple_arguments", "propagate_to_inputs", "propagate_to_outputs")
        return {name: getattr(self, name) for name in kept}

    def bytecode(self):
        if isinstance(self.module, bytes):
            return self.module
        output = io.BytesIO()
        self.module.operation.write_bytecode(file=output)
        return output.getvalue()

    def hlo_text(self):
        """The module before optimisation, with op names and source lines, as `tpusim run --compiler tpusim` reads it."""
        if self.before is not None:
            return self.before
        from jax._src.lib import xla_client
        from jaxlib import _hlo

        computation = xla_client._xla.mlir.mlir_module_to_xla_computation(self.bytecode(), use_tuple_args=self.tuple_arguments)
        options = _hlo.HloPrintOptions.short_parsable()
        options.print_metadata = True
        return computation.as_hlo_module().to_string(options)

    def identity(self):
        """Everything about the program that decides what a compiler makes of it, as text."""
        counts = (self.replicas, self.partitions, self.device_numbers, self.tuple_arguments)
        shardings = (self.propagate_to_inputs, self.propagate_to_outputs)
        return f"{counts}\n{shardings}\n{self.module.operation.get_asm(enable_debug_info=True)}"


def operations(operation):
    """All operations inside, those of nested regions before the ones that follow."""
    for region in operation.regions:
        for block in region:
            for inner in list(block):
                yield inner.operation
                yield from operations(inner.operation)


def of_jit(lowered, devices):
    """From `jax.jit(f).lower(...)`."""
    import jax
    from jax._src.interpreters import pxla

    arguments = lowered._lowering.compile_args
    to_inputs, to_outputs = pxla.get_prop_to_input_output(
        arguments["in_shardings"], arguments["out_shardings"], len(arguments["ordered_effects"])
    )
    numbers = {device: number for number, device in enumerate(devices)}
    used = [numbers[device] for device in lowered._lowering._device_list]
    assert jax.process_count() == 1
    return Lowered(
        lowered._lowering.stablehlo(),
        partitions=len(used),
        device_numbers=tuple(used),
        tuple_arguments=arguments["tuple_args"],
        propagate_to_inputs=tuple(to_inputs),
        propagate_to_outputs=tuple(to_outputs),
    )


def of_module(module, before=None, devices=1):
    """From a module file, whose attributes say for how many devices it is: in numbers, or by the meshes of Shardy (JAX's HLO text has
    these alone)."""
    attributes = module.operation.attributes

    def count(name):
        return attributes[name].value if name in attributes else 1

    meshes = largest_mesh(str(attributes["mhlo.frontend_attributes"])) if "mhlo.frontend_attributes" in attributes else 1
    replicas, partitions = count("mhlo.num_replicas"), max(devices, count("mhlo.num_partitions"), meshes)
    return Lowered(
        module, replicas=replicas, partitions=partitions, device_numbers=tuple(range(replicas * partitions)), before=before
    )


def largest_mesh(text):
    """The devices of the largest mesh in an attribute such as `xla.sdy.meshes = "{mesh = #sdy.mesh<[\\22d\\22=4, \\22m\\22=2]>}"`."""
    meshes = re.findall(r"#sdy\.mesh<\[(.*?)\]", text)
    return max((math.prod(int(size) for size in re.findall(r"=\s*(\d+)", axes)) for axes in meshes), default=1)
