"""The process that compiles: `python -m tpusim_capture.compiler_process REQUEST`, started by the command only."""

import gzip
import importlib.util
import json
import os
import re
import sys
import time


def fail(message):
    print(f"tpusim_capture: {message}", flush=True)
    sys.exit(1)


def load_function(program):
    """The function of FILE.py:FUNCTION, its example arguments and which of them are split over the cores."""
    path, name = program.rsplit(":", 1)
    spec = importlib.util.spec_from_file_location("captured_program", path)
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, os.path.dirname(path))
    spec.loader.exec_module(module)
    function = getattr(module, name, None)
    if not callable(function):
        fail(f"{path}: expected a function '{name}', found none")
    for candidate in (f"{name}_arguments", "example_arguments"):
        if hasattr(module, candidate):
            arguments = getattr(module, candidate)()
            break
    else:
        fail(f"{path}: expected {name}_arguments() or example_arguments() that returns the arguments of '{name}'")
    if not isinstance(arguments, (tuple, list)):
        fail(f"{path}: expected a tuple of arguments, found {type(arguments).__name__}")
    donated = tuple(getattr(module, "DONATED", ()))
    split = tuple(getattr(module, "SPLIT", ()))
    return function, tuple(arguments), donated, split


def lower_function(request, topology):
    import jax
    import numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec, SingleDeviceSharding

    function, arguments, donated, split = load_function(request["program"])
    if request["data_parallel"]:
        if not split:
            fail("--data-parallel: expected SPLIT = (numbers of the arguments that are split over the cores), found none")
        mesh = Mesh(np.array(topology.devices), ("data",))
        everywhere = NamedSharding(mesh, PartitionSpec())
        divided = NamedSharding(mesh, PartitionSpec("data"))
        shardings = [divided if number in split else everywhere for number in range(len(arguments))]
        jitted = jax.jit(function, donate_argnums=donated, keep_unused=True, out_shardings=everywhere)
    else:
        shardings = [SingleDeviceSharding(topology.devices[0])] * len(arguments)
        jitted = jax.jit(function, donate_argnums=donated, keep_unused=True)
    described = [
        jax.tree.map(lambda x, s=sharding: jax.ShapeDtypeStruct(np.shape(x), x.dtype, sharding=s), argument)
        for argument, sharding in zip(arguments, shardings)
    ]
    return jitted.lower(*described), function, arguments


def save_values(request, function, arguments):
    """Inputs in parameter order and outputs in result order, computed on the CPU in fp32; the bf16_ outputs have the operands
    of every dot and convolution rounded to bf16, as the MXU does."""
    import jax
    import numpy as np

    concrete = jax.tree.map(lambda x: np.asarray(x), arguments)
    with jax.default_matmul_precision("highest"):
        outputs = jax.jit(function)(*concrete)
    rounded = jax.jit(with_bf16_products(function, concrete))(*concrete)
    arrays = {f"arg_{number:03d}": storable(leaf) for number, leaf in enumerate(jax.tree.leaves(concrete))}
    arrays.update({f"out_{number:03d}": storable(leaf) for number, leaf in enumerate(jax.tree.leaves(outputs))})
    arrays.update({f"bf16_{number:03d}": storable(leaf) for number, leaf in enumerate(jax.tree.leaves(rounded))})
    np.savez_compressed(os.path.join(request["output"], "values.npz"), **arrays)


def storable(array):
    """numpy has no bf16: such arrays are kept as fp32."""
    import numpy as np

    array = np.asarray(array)
    return array.astype(np.float32) if array.dtype.name == "bfloat16" else array


def with_bf16_products(function, arguments):
    """The function with every operand of dot_general and conv_general_dilated rounded to bf16, products and sums in fp32."""
    import jax
    import jax.numpy as jnp

    closed, tree = jax.make_jaxpr(function, return_shape=True)(*arguments)
    structure = jax.tree.structure(tree)

    def rounded(x):
        return x.astype(jnp.bfloat16).astype(x.dtype) if jnp.issubdtype(x.dtype, jnp.floating) else x

    def evaluate(jaxpr, constants, inputs):
        from jax.extend import core

        values = {}

        def read(variable):
            return variable.val if isinstance(variable, core.Literal) else values[variable]

        values.update(zip(jaxpr.constvars, constants))
        values.update(zip(jaxpr.invars, inputs))
        for equation in jaxpr.eqns:
            operands = [read(variable) for variable in equation.invars]
            inner = equation.params.get("jaxpr") or equation.params.get("call_jaxpr")
            if inner is not None and equation.primitive.name in ("pjit", "jit", "custom_jvp_call", "custom_vjp_call", "closed_call"):
                results = evaluate(inner.jaxpr, inner.consts, operands)
            elif equation.primitive.name in ("dot_general", "conv_general_dilated"):
                parameters = dict(equation.params, precision=jax.lax.Precision.HIGHEST)
                results = [equation.primitive.bind(*map(rounded, operands), **parameters)]
            else:
                results = equation.primitive.bind(*operands, **equation.params)
                results = results if equation.primitive.multiple_results else [results]
            values.update(zip(equation.outvars, results))
        return [read(variable) for variable in jaxpr.outvars]

    def run(*inputs):
        return jax.tree.unflatten(structure, evaluate(closed.jaxpr, closed.consts, jax.tree.leaves(inputs)))

    return run


def read_module(path):
    with (gzip.open(path, "rb") if path.endswith(".gz") else open(path, "rb")) as file:
        return file.read()


def compile_module(request, topology):
    """Compiles a module file: StableHLO, or HLO text that XLA turns into StableHLO first."""
    from jax._src import compiler
    from jax._src.interpreters import mlir as jax_mlir
    from jax._src.lib import _jax, xla_client
    from jax._src.lib.mlir import ir
    from jaxlib import _hlo

    text = read_module(request["program"]).decode()
    try:
        if is_hlo_text(text):
            proto = _hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto()
            text = xla_client._xla.mlir.hlo_to_stablehlo(proto)
        with jax_mlir.make_ir_context():
            module = ir.Module.parse(text)
    except Exception as error:  # the parsers' errors have no type of their own
        reason = " ".join(line.strip() for line in str(error).splitlines()[:2])
        fail(f"{request['program']}: expected HLO or StableHLO: {reason}")
    devices = _jax.DeviceList((topology.devices[0],))
    options = compiler.get_compile_options(num_replicas=1, num_partitions=1)
    return topology.devices[0].client.compile(module, executable_devices=devices, compile_options=options)


def is_hlo_text(text):
    return bool(re.match(r"\s*HloModule", text))


def drop_folder_names(request):
    """File names in the program's metadata stand without the folders of this machine."""
    import jax

    folders = {os.path.dirname(request["program"].rsplit(":", 1)[0]), os.path.dirname(os.path.abspath(__file__))}
    pattern = "|".join("^" + re.escape(folder + os.sep) for folder in sorted(folders) if folder)
    jax.config.update("jax_hlo_source_file_canonicalization_regex", pattern)


def get_topology(request):
    from jax.experimental import topologies

    try:
        return topologies.get_topology_desc(
            topology_name=f"{request['chip']}:{request['slice']}", platform="tpu", chips_per_host_bounds=(2, 2, 1)
        )
    except Exception as error:  # libtpu's errors have no type of their own
        fail(f"libtpu has no topology {request['chip']}:{request['slice']}: {str(error).splitlines()[0]}")


def write_gzip(path, text):
    with gzip.GzipFile(path, "wb", mtime=0) as file:
        file.write(text.encode())


def main():
    request = json.loads(sys.argv[1])
    drop_folder_names(request)
    topology = get_topology(request)
    is_function = bool(re.search(r"\.py:\w+$", request["program"]))
    start = time.process_time()
    if is_function:
        lowered, function, arguments = lower_function(request, topology)
        before = lowered.as_text(dialect="hlo")
        compiled = lowered.compile()
        scheduled, memory, cost = compiled.as_text(), compiled.memory_analysis(), compiled.cost_analysis()
    else:
        text = read_module(request["program"]).decode()
        before = text if is_hlo_text(text) else None
        compiled = compile_module(request, topology)
        scheduled = compiled.hlo_modules()[0].to_string()
        memory, cost = compiled.get_compiled_memory_stats(), compiled.cost_analysis()
    seconds = time.process_time() - start
    output = request["output"]
    if before is not None:
        write_gzip(os.path.join(output, "before.hlo.gz"), before)
    write_gzip(os.path.join(output, f"{request['chip']}.scheduled.hlo.gz"), scheduled)
    facts = {
        "topology": f"{request['chip']}:{request['slice']}",
        "device_kind": topology.devices[0].device_kind,
        "devices": len(topology.devices) if request["data_parallel"] else 1,
        "compile_cpu_seconds": round(seconds, 1),
        "cost_analysis": cost,
        "memory_analysis": {key: getattr(memory, key) for key in dir(memory) if key.endswith("_in_bytes")},
    }
    with open(os.path.join(output, f"{request['chip']}.facts.json"), "w", encoding="utf-8") as file:
        json.dump(facts, file)
    if request["values"]:
        if not is_function:
            fail("--values: expected FILE.py:FUNCTION, found a module file, which has no example arguments")
        save_values(request, function, arguments)


if __name__ == "__main__":
    main()
