"""Runs HLO modules with XLA on the CPU, the way JAX does.

jax_graphs.py FOLDER: for each NAME.hlo and its arguments NAME.npz (arg_000, arg_001, ...) writes
NAME.out.npz (out_000, ...), or NAME.error with what XLA said. Exits with 77 where there is no jax.
"""

import os
import pathlib
import sys

os.environ.setdefault("JAX_PLATFORMS", "cpu")
try:
    import jax
    import ml_dtypes
    import numpy
    from jax.extend import backend
    from jaxlib import _hlo, _jax
except ImportError as error:
    print(f"no judge: {error}")
    sys.exit(77)


def arguments_of(path):
    file = numpy.load(path)
    arrays = []
    for name in sorted(file.files):
        array = file[name]
        arrays.append(array.view(ml_dtypes.bfloat16) if array.dtype.kind == "V" else array)
    return arrays


def run(client, text, arguments):
    module = _hlo.hlo_module_from_text(text)
    computation = _hlo.XlaComputation(module.as_serialized_hlo_module_proto())
    code = _jax.mlir.xla_computation_to_mlir_module(computation)
    device = client.local_devices()[0]
    program = client.compile_and_load(code, _jax.DeviceList((device,)), _jax.CompileOptions())
    return [numpy.asarray(x) for x in program.execute([jax.device_put(a, device) for a in arguments])]


def main():
    client = backend.get_backend("cpu")
    for path in sorted(pathlib.Path(sys.argv[1]).glob("*.hlo")):
        try:
            results = run(client, path.read_text(), arguments_of(path.with_suffix(".npz")))
        except Exception as error:  # Whatever XLA throws is an answer.
            path.with_suffix(".error").write_text(str(error))
            continue
        named = {f"out_{i:03}": result for i, result in enumerate(results)}
        numpy.savez(path.with_suffix(".out.npz"), **named)
    return 0


if __name__ == "__main__":
    sys.exit(main())
