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
        jax.tree.map(lambda x, s=sharding: described_leaf(x, s), argument)
        for argument, sharding in zip(arguments, shardings)
    ]
    return jitted.lower(*described), function, arguments


def described_leaf(leaf, sharding):
    """Shape and type of an argument, as the compiler is told of it."""
    import jax
    import numpy as np

    plain_number = isinstance(leaf, (bool, int, float, complex))
    kind = leaf.dtype if hasattr(leaf, "dtype") else jax.dtypes.canonicalize_dtype(np.result_type(leaf))
    return jax.ShapeDtypeStruct(np.shape(leaf), kind, sharding=sharding, weak_type=plain_number)


def save_values(request, function, arguments):
    """Inputs in parameter order and the reference outputs in result order, see reference.py; returns what was rounded, for facts.json."""
    import jax
    import numpy as np
    from tpusim_capture.reference import reference_values

    concrete = jax.tree.map(example_value, arguments)
    module = jax.jit(function, keep_unused=True).lower(*concrete).compiler_ir("stablehlo")
    inputs = [stored_form(leaf) for leaf in jax.tree.leaves(concrete)]
    outputs, rounded, sensitivity, notes = reference_values(module, inputs)
    arrays = {f"arg_{number:03d}": storable(array) for number, array in enumerate(inputs)}
    arrays.update({f"out_{number:03d}": storable(array) for number, array in enumerate(outputs)})
    arrays.update({f"bf16_{number:03d}": storable(array) for number, array in enumerate(rounded)})
    arrays["sensitivity"] = sensitivity
    np.savez_compressed(os.path.join(request["output"], "values.npz"), **arrays)
    return notes


def example_value(leaf):
    """An argument as JAX takes it; the same random numbers on every machine where only shape and type are given."""
    import jax
    import numpy as np

    if not isinstance(leaf, jax.ShapeDtypeStruct):
        return leaf
    random = np.random.default_rng(int(np.prod(leaf.shape)))
    if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return jax.random.split(jax.random.key(0), leaf.shape)
    if jax.numpy.issubdtype(leaf.dtype, jax.numpy.inexact):
        return random.normal(size=leaf.shape).astype(leaf.dtype)
    return random.integers(2, size=leaf.shape).astype(leaf.dtype)


def stored_form(leaf):
    """The array that the compiled program takes for an argument: random keys are words there, 64 bits are 32."""
    import jax
    import numpy as np

    if isinstance(leaf, jax.Array) and jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        leaf = jax.random.key_data(leaf)
    return np.asarray(jax.numpy.asarray(leaf))


def storable(array):
    """numpy has no bf16 and no types of 8 bits and fewer but integers: such arrays are kept as fp32 or 8 bits."""
    import numpy as np

    if array.dtype.name.startswith(("bfloat16", "float8", "float6", "float4")):
        return array.astype(np.float32)
    return array.astype(np.int8) if array.dtype.name in ("int4", "uint4", "int2", "uint2") else array


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
    if request["values"] and not is_function:
        fail("--values: expected FILE.py:FUNCTION, found a module file, which has no example arguments")
    facts = {
        "topology": f"{request['chip']}:{request['slice']}",
        "device_kind": topology.devices[0].device_kind,
        "devices": len(topology.devices) if request["data_parallel"] else 1,
        "compile_cpu_seconds": round(seconds, 1),
        "cost_analysis": cost,
        "memory_analysis": {key: getattr(memory, key) for key in dir(memory) if key.endswith("_in_bytes")},
    }
    if request["values"]:
        facts["reference"] = save_values(request, function, arguments)
    with open(os.path.join(output, f"{request['chip']}.facts.json"), "w", encoding="utf-8") as file:
        json.dump(facts, file)


if __name__ == "__main__":
    main()
