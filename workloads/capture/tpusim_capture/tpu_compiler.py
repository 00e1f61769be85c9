"""XLA's TPU compiler, as libtpu brings it: a slice of chips that need not be there, and compilations for it.

Each compilation runs in a process of its own: the listings of a program then do not depend on what was compiled before it (registers
are chosen otherwise in the second compilation of a process), and a compiler that ends its process takes nothing with it. The processes
are forked from one that has imported jax and has neither threads nor libtpu yet.
"""

import functools
import gzip
import json
import multiprocessing
import os
import time

from tpusim_capture.errors import CaptureError, last_words
from tpusim_capture.folder import drop_unneeded_listings, empty, pack_listings
from tpusim_capture.placement import placement_of

POLL_SECONDS = 0.2


@functools.lru_cache
def devices_of(chip, chips):
    """The devices (cores) of a slice, such as v3 and 4x4."""
    from jax.experimental import topologies

    try:
        topology = topologies.get_topology_desc(topology_name=f"{chip}:{chips}", platform="tpu", chips_per_host_bounds=(2, 2, 1))
    except Exception as error:  # libtpu's errors have no type of their own
        raise CaptureError(f"libtpu has no topology {chip}:{chips}: {str(error).splitlines()[0]}") from None
    return tuple(topology.devices)


class CompilerProcesses:
    """Compiles one module after the other."""

    def __init__(self):
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(["jax", "jax.experimental.topologies", "tarfile", "tpusim_capture.tpu_compiler"])

    def compile(self, request, lowered):
        """Writes the files of one chip; returns {} or why there are none: "refused" or "does_not_fit", the compiler's own words."""
        result_path = request["facts"] + ".result"
        arguments = dict(lowered.without_module(), bytecode=lowered.bytecode())
        empty(request["dump"])
        process = self._context.Process(target=compile_and_pack, args=(request, arguments, result_path))
        process.start()
        while process.is_alive():
            process.join(POLL_SECONDS)
            drop_unneeded_listings(request["dump"])
        if not os.path.exists(result_path):
            return {"refused": last_words(process.exitcode, request["log"])}
        with open(result_path, encoding="utf-8") as file:
            outcome = json.load(file)
        os.unlink(result_path)
        empty(request["dump"])
        return outcome


def compile_and_pack(request, arguments, result_path):
    """What a compiler process does."""
    from tpusim_capture.lowered import Lowered

    try:
        outcome = compile_one(request, Lowered(arguments.pop("bytecode"), **arguments))
    except CaptureError as error:
        outcome = {"refused": str(error)}
    with open(result_path, "w", encoding="utf-8") as file:
        json.dump(outcome, file)


def compile_one(request, lowered):
    chip, folder = request["chip"], request["folder"]
    devices = devices_of(chip, request["slice"])
    start = time.process_time()
    try:
        executable = compile_for(devices, lowered)
    except CaptureError:
        raise
    except Exception as error:  # the compiler's errors are told apart by their text alone
        return {"does_not_fit" if ran_out_of_memory(error) else "refused": str(error)}
    facts = {"topology": f"{chip}:{request['slice']}", "compile_cpu_seconds": round(time.process_time() - start, 1)}
    write_gzip(os.path.join(folder, f"{chip}.scheduled.hlo.gz"), executable.hlo_modules()[0].to_string())
    facts["listings"] = pack_listings(request["dump"], os.path.join(folder, f"{chip}.bundles.tar.xz"), f"{chip}.bundles")
    if facts["listings"] == 0:
        return {"refused": "the compiler printed no listing: expected *-final_bundles.txt; this libtpu may know no such switch"}
    facts.update(facts_of(executable, devices, lowered))
    with open(request["facts"], "w", encoding="utf-8") as file:
        json.dump(facts, file)
    return {}


def write_gzip(path, text):
    with gzip.GzipFile(path, "wb", mtime=0) as file:
        file.write(text.encode())


def compile_for(devices, lowered):
    """The executable, from which the scheduled module and its analyses can be read; the listings go to libtpu's dump folder."""
    import numpy as np
    from jax._src import compiler
    from jax._src.lib import _jax

    count = lowered.replicas * lowered.partitions
    if count > len(devices):
        raise CaptureError(f"the program is for {count} devices, the slice has {len(devices)}: choose a larger --slice")
    used = [devices[number] for number in lowered.device_numbers]
    assignment = np.array(used, dtype=object).reshape(lowered.replicas, lowered.partitions)
    options = compiler.get_compile_options(
        num_replicas=lowered.replicas, num_partitions=lowered.partitions, device_assignment=assignment
    )
    options.parameter_is_tupled_arguments = lowered.tuple_arguments
    build = options.executable_build_options
    if lowered.propagate_to_inputs:
        build.allow_spmd_sharding_propagation_to_parameters = list(lowered.propagate_to_inputs)
    if lowered.propagate_to_outputs:
        build.allow_spmd_sharding_propagation_to_output = list(lowered.propagate_to_outputs)
    return devices[0].client.compile(module_of(lowered), executable_devices=_jax.DeviceList(tuple(used)), compile_options=options)


def module_of(lowered):
    """The module, read again where another process sent it."""
    from jax._src.interpreters import mlir as jax_mlir
    from jax._src.lib.mlir import ir

    if not isinstance(lowered.module, bytes):
        return lowered.module
    with jax_mlir.make_ir_context():
        return ir.Module.parse(lowered.module)


def ran_out_of_memory(error):
    return "RESOURCE_EXHAUSTED" in str(error) or "Ran out of memory" in str(error)


def facts_of(executable, devices, lowered):
    """What the compiler says about its result, for facts.json."""
    memory = executable.get_compiled_memory_stats()
    placement = {"placement": placement_of(executable, lowered, devices)} if lowered.partitions > 1 else {}
    return {
        **placement,
        "device_kind": devices[0].device_kind,
        "devices": lowered.replicas * lowered.partitions,
        "cost_analysis": executable.cost_analysis(),
        "memory_analysis": {key: getattr(memory, key) for key in dir(memory) if key.endswith("_in_bytes")},
    }
