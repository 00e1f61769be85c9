"""How the arrays of a partitioned program lie on its devices, for facts.json: with it, `tpusim run` hands out values and joins outputs."""


def placement_of(executable, lowered, devices):
    """By parameter and by result the extents of the whole array, and, where devices hold parts of it, those of a part and by device where
    its part begins."""
    from jax._src.lib import xla_client

    shape = xla_client._xla.mlir.mlir_module_to_xla_computation(
        lowered.bytecode(), use_tuple_args=lowered.tuple_arguments
    ).program_shape()
    result = shape.result_shape()
    results = result.tuple_shapes() if result.is_tuple() else [result]
    used = [devices[number] for number in lowered.device_numbers]
    return {
        "parameters": parts_of(shape.parameter_shapes(), executable.get_parameter_shardings(), used),
        "results": parts_of(results, executable.get_output_shardings(), used),
    }


def parts_of(shapes, shardings, devices):
    if shardings is None:
        return []
    return [part_of(tuple(shape.dimensions()), sharding, devices) for shape, sharding in zip(shapes, shardings)]


def part_of(whole, sharding, devices):
    from jax._src.sharding_impls import GSPMDSharding

    placed = GSPMDSharding(tuple(devices), sharding)
    entry = {"whole": list(whole)}
    part = list(placed.shard_shape(whole))
    if part != entry["whole"]:
        places = placed.devices_indices_map(whole)
        entry.update(part=part, starts=[[index.start or 0 for index in places[device]] for device in devices])
    return entry
