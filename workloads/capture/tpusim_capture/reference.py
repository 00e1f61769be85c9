"""The reference values of a program: what JAX computes on the CPU, once in fp32 and once with every product rounded as the chip rounds it.

The matrix units of v2 and v3 multiply bf16: the compiler rounds fp32 operands of a product once (`Precision.DEFAULT`), splits them into two
bf16 parts (`HIGH`, three passes) or into three (`HIGHEST`, six passes, fp32 but for the last bits). The rewrite works on the lowered module,
operation by operation, so that products in the bodies of loops, branches, called functions and manual sharding are rounded like all others.
`reduce_precision` is what XLA's CPU compiler keeps; it drops a conversion to bf16 and back.

Not rounded, because the chip does not: products that the compiler turns into a multiplication and a sum on the vector unit (one row, one
column, or nothing to contract: the compiler's own scheduled HLO shows it), and operands that are bf16 or integers already. Depthwise
convolutions run on the vector unit, too, but the compiler rounds their operands or leaves them, one by one: that is read from its
scheduled HLO.
"""

import io
import re
import typing

import numpy as np

from tpusim_capture.lowered import operations

BF16_EXPONENT_BITS = 8
BF16_MANTISSA_BITS = 7

PRODUCTS = ("stablehlo.dot_general", "stablehlo.dot", "stablehlo.convolution")
"""The operations whose operands are rounded."""
OPAQUE = ("stablehlo.custom_call", "chlo.ragged_dot", "stablehlo.dynamic_conv", "stablehlo.fft", "stablehlo.cholesky",
          "stablehlo.triangular_solve")
"""Operations in which the chip may multiply, too, and whose operands the rewrite leaves alone."""
WITHOUT_PRODUCTS = ("Sharding", "SPMD", "sdy", "annotate", "shape_assertion", "optimization_barrier", "mhlo.topk", "TopK", "ApproxTopK")

MOVED_BY = 1e-6
"""How far, relatively, the inputs are moved to find how sensitive each output is."""
MOVES = 2


def passes_of(operation):
    """How many products of bf16 the chip makes of this one: 1, 3 or 6."""
    attributes = operation.attributes
    if "algorithm" in attributes:
        text = str(attributes["algorithm"])
        if "lhs_precision_type = bf16" not in text:
            return 6
        return int(text.split("num_primitive_operations = ")[1].split(",")[0])
    stated = str(attributes["precision_config"]) if "precision_config" in attributes else ""
    return 6 if "HIGHEST" in stated else 3 if "HIGH" in stated else 1


def numbers_in(text, key):
    """The list of numbers behind `key =` in the text of an attribute; empty when it is not there."""
    if key not in text:
        return []
    inside = text.split(key, 1)[1].split("[", 1)[1].split("]", 1)[0]
    return [int(number) for number in inside.split(",") if number.strip()]


def is_on_vector_unit(operation):
    """True for a product that the compiler turns into multiplications and sums: a dot of one row, of one column or with nothing to
    contract, a convolution whose groups have one channel in and one out (depthwise, and its gradient)."""
    if operation.name == "stablehlo.convolution":
        return is_depthwise(operation)
    for operand, contracted, batch in dimensions_of(operation):
        shape = operand.type.shape
        rows = np.prod([extent for axis, extent in enumerate(shape) if axis not in contracted + batch], initial=1)
        if rows == 1 or np.prod([shape[axis] for axis in contracted], initial=1) == 1:
            return True
    return False


def dimensions_of(operation):
    """Both operands of a dot with their contracted and batch dimensions."""
    left, right = list(operation.operands)[:2]
    if operation.name == "stablehlo.dot":
        return (left, [left.type.rank - 1], []), (right, [0], [])
    text = str(operation.attributes["dot_dimension_numbers"])
    return tuple(
        (operand, numbers_in(text, f"{side}_contracting_dimensions"), numbers_in(text, f"{side}_batching_dimensions"))
        for side, operand in (("lhs", left), ("rhs", right))
    )


def is_depthwise(operation):
    """`#stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>` names the dimensions of input, kernel and result."""
    names = str(operation.attributes["dimension_numbers"]).split("<", 1)[1].split("->")[0].split("x")
    places = [[name.strip() for name in side.strip("[]>").split(",")] for side in names]
    images, kernel = (operand.type.shape for operand in list(operation.operands)[:2])
    out_channels = kernel[places[1].index("o")]
    feature_groups = operation.attributes["feature_group_count"].value
    batch_groups = operation.attributes["batch_group_count"].value
    groups = max(feature_groups, batch_groups)
    channels = images[places[0].index("f" if feature_groups > 1 else "b")]
    return groups > 1 and groups == channels == out_channels


class ProductRounding:
    """Rewrites the products of a StableHLO module in place and counts what it did and what it could not do."""

    def __init__(self, module, depthwise=None):
        self.module = module
        self.depthwise = depthwise or {}
        self.rounded = {1: 0, 3: 0, 6: 0}
        self.on_vector_unit = 0
        self.left = {}

    def rewrite(self):
        for operation in list(operations(self.module.operation)):
            if operation.name in PRODUCTS:
                self._rewrite_product(operation)
            elif operation.name in OPAQUE:
                self._leave(operation)
        return self

    def notes(self):
        """For facts.json: what was rounded how, what stays as the CPU computes it."""
        return {
            "rounded_to_bf16": self.rounded[1],
            "three_passes": self.rounded[3],
            "six_passes_taken_as_fp32": self.rounded[6],
            "fp32_on_the_vector_unit": self.on_vector_unit,
            "not_rounded": self.left,
        }

    def _leave(self, operation):
        name = operation.name.split(".", 1)[1]
        if "call_target_name" in operation.attributes:
            name = str(operation.attributes["call_target_name"]).strip('"')
            if any(word in name for word in WITHOUT_PRODUCTS):
                return
        self.left[name] = self.left.get(name, 0) + 1

    def _rewrite_product(self, operation):
        kinds = [operand_kind(value) for value in operation.operands[:2]]
        if "unknown" in kinds:
            types = " x ".join(str(value.type.element_type) for value in operation.operands[:2])
            self.left[f"{operation.name.split('.')[1]} of {types}"] = self.left.get(types, 0) + 1
            return
        if "wide" not in kinds and "complex" not in kinds:
            return
        if is_on_vector_unit(operation):
            self.on_vector_unit += 1
            if operation.name == "stablehlo.convolution" and "complex" not in kinds:
                round_operands(operation, self.depthwise.get(convolution_key(operation), (False, False)))
            return
        passes = passes_of(operation)
        self.rounded[passes if passes in self.rounded else 6] += 1
        if passes == 1 and "complex" in kinds:
            complex_product(operation)
        elif passes == 1:
            round_operands(operation, (True, True))
        elif passes == 3 and kinds_are_fp32(operation):
            three_products(operation)


def round_operands(operation, which):
    for number, wanted in enumerate(which):
        if wanted:
            operation.operands[number] = rounded(operation, operation.operands[number])


def convolution_key(operation):
    """What a convolution of StableHLO has in common with that of the scheduled HLO: shapes of operands and result, groups."""
    shapes = [tuple(value.type.shape) for value in (*list(operation.operands)[:2], operation.results[0])]
    return (*shapes, operation.attributes["feature_group_count"].value, operation.attributes["batch_group_count"].value)


def depthwise_operands(scheduled_hlo):
    """By convolution_key, which operands of the grouped convolutions in a scheduled HLO text are rounded: those that come to the kernel as
    bf16. What the kernel itself makes of fp32 stays in fp32, whatever type the text gives it (found with values)."""
    lines = re.findall(r"^\s*(?:ROOT )?%([^ ]+) = (\w+)\[([0-9,]*)\][^ ]* ([\w-]+)\(([^)]*)\)([^\n]*)", scheduled_hlo, re.MULTILINE)
    arrays = {
        name: (kind, tuple(int(extent) for extent in extents.split(",") if extent), opcode, names_in(operands))
        for name, kind, extents, opcode, operands, _ in lines
    }

    def is_stored_narrow(name):
        kind, _, opcode, sources = arrays.get(name, ("", (), "", []))
        return kind == "bf16" and (opcode == "parameter" or (bool(sources) and all(is_stored_narrow(source) for source in sources)))

    found = {}
    for name, _, _, opcode, operands, attributes in lines:
        groups = [re.search(rf"{kind}_group_count=(\d+)", attributes) for kind in ("feature", "batch")]
        pair = names_in(operands)[:2]
        if opcode != "convolution" or not any(groups) or any(operand not in arrays for operand in pair):
            continue
        shapes = [arrays[array][1] for array in (*pair, name)]
        key = (*shapes, *(int(group[1]) if group else 1 for group in groups))
        before = found.get(key, (True, True))
        found[key] = (before[0] and is_stored_narrow(pair[0]), before[1] and is_stored_narrow(pair[1]))
    return found


def names_in(operands):
    return re.findall(r"%([^ ,]+)", operands)


def kinds_are_fp32(operation):
    return all(str(value.type.element_type) in ("f32", "bf16") for value in operation.operands)


def operand_kind(value):
    """ "wide": rounded by the chip; "narrow": bf16 or integer, taken as it is."""
    kind = str(value.type.element_type)
    if kind in ("f32", "f16"):
        return "wide"
    if kind == "complex<f32>":
        return "complex"
    return "narrow" if kind == "bf16" or kind.startswith(("i", "ui", "si")) else "unknown"


def rounded(before, value):
    """`value` rounded to bf16, computed in front of the operation `before`."""
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import stablehlo

    kind = operand_kind(value)
    if kind == "narrow":
        return value
    with ir.InsertionPoint(before), before.location:
        if str(value.type.element_type) == "f16":
            value = in_fp32(value)
        return stablehlo.reduce_precision(value, BF16_EXPONENT_BITS, BF16_MANTISSA_BITS)


def in_fp32(value):
    """An fp16 value in fp32; a conversion from fp32 just before is undone, as XLA does for the TPU (excess precision)."""
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import stablehlo

    producer = value.owner
    if getattr(producer, "name", "") == "stablehlo.convert" and str(producer.operands[0].type.element_type) == "f32":
        return producer.operands[0]
    return stablehlo.convert(ir.RankedTensorType.get(value.type.shape, ir.F32Type.get()), value)


def upper_half(before, value):
    """The upper 16 bits of an fp32 value: how the matrix unit's instructions split an operand in parts."""
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import stablehlo

    with ir.InsertionPoint(before), before.location:
        words = ir.RankedTensorType.get(value.type.shape, ir.IntegerType.get_signless(32))
        mask = ir.DenseElementsAttr.get_splat(words, ir.IntegerAttr.get(words.element_type, -65536))
        bits = stablehlo.and_(stablehlo.bitcast_convert(words, value), stablehlo.constant(mask))
        return stablehlo.bitcast_convert(value.type, bits)


def three_products(operation):
    """Replaces a product by high*high + (high*low + low*high), where high and low are the bf16 parts of its fp32 operands."""
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import stablehlo

    def parts(value):
        if operand_kind(value) == "narrow":
            return value, None
        high = upper_half(operation, value)
        with ir.InsertionPoint(operation), operation.location:
            rest = stablehlo.subtract(value, high)
        return high, upper_half(operation, rest)

    def product(left, right):
        with ir.InsertionPoint(operation), operation.location:
            copy = operation.clone()
        copy.operands[0], copy.operands[1] = left, right
        return copy.results[0]

    (left, left_low), (right, right_low) = parts(operation.operands[0]), parts(operation.operands[1])
    low = [product(left, right_low)] if right_low is not None else []
    low += [product(left_low, right)] if left_low is not None else []
    total = product(left, right)
    with ir.InsertionPoint(operation), operation.location:
        correction = low[0] if len(low) == 1 else stablehlo.add(*low)
        total = stablehlo.add(total, correction)
    operation.results[0].replace_all_uses_with(total)
    operation.erase()


def complex_product(operation):
    """Replaces a product of complex numbers by three real ones as XLA's TPU compiler does: with a + bi and c + di, k = (a + b) c,
    k - b (c + d) is the real part and k + a (d - c) the imaginary one. The operands of the three are rounded, sums as well."""
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import stablehlo

    attributes = dict(operation.attributes.items())

    def product(left, right):
        operands = [rounded(operation, left), rounded(operation, right)]
        return ir.Operation.create(operation.name, results=[real_kind], operands=operands, attributes=attributes).results[0]

    with ir.InsertionPoint(operation), operation.location:
        real_kind = ir.RankedTensorType.get(operation.results[0].type.shape, ir.F32Type.get())
        (a, b), (c, d) = ((stablehlo.real(value), stablehlo.imag(value)) for value in operation.operands)
        both = product(stablehlo.add(a, b), c)
        real = stablehlo.subtract(both, product(b, stablehlo.add(c, d)))
        imaginary = stablehlo.add(both, product(a, stablehlo.subtract(d, c)))
        total = stablehlo.complex(real, imaginary)
    operation.results[0].replace_all_uses_with(total)
    operation.erase()


def without_algorithms(module):
    """Drops requests for a way to multiply that the CPU may not know; the rewrite has read them."""
    for operation in operations(module.operation):
        if operation.name in PRODUCTS and "algorithm" in operation.attributes:
            del operation.attributes["algorithm"]


class CpuProgram:
    """A StableHLO module compiled for the CPU of this machine; with shardings of the inputs, for as many of its devices as they name."""

    def __init__(self, module, shardings=None):
        import jax
        from jax._src import compiler
        from jax._src.lib import _jax

        self.places = shardings
        devices = (jax.devices("cpu")[0],) if shardings is None else tuple(shardings[0].mesh.devices.flat)
        self.device = devices[0]
        options = compiler.get_compile_options(
            num_replicas=1, num_partitions=len(devices), device_assignment=np.array(devices, dtype=object).reshape(1, -1)
        )
        self.executable = self.device.client.compile_and_load(
            module, executable_devices=_jax.DeviceList(devices), compile_options=options
        )

    def run(self, inputs):
        """The outputs; those of a program for several devices have to be on all of them."""
        import jax

        places = self.places or [self.device] * len(inputs)
        with jax.enable_x64(True):  # Module files may take 64 bits.
            buffers = [jax.device_put(array, place) for array, place in zip(inputs, places)]
        results = self.executable.execute_sharded(buffers)
        return [np.asarray(part[0]) for part in results.disassemble_into_single_device_arrays()]


def is_floating(array):
    return np.issubdtype(array.dtype, np.floating) or array.dtype.name.startswith(("bfloat16", "float8_"))


def moved(inputs, seed):
    """The inputs with every floating-point element moved by MOVED_BY, up or down."""
    random = np.random.default_rng(seed)
    changed = []
    for array in inputs:
        if is_floating(array) and array.dtype.itemsize >= 4:
            signs = random.integers(2, size=array.shape).astype(array.dtype) * 2 - 1
            array = (array * (1 + array.dtype.type(MOVED_BY) * signs)).astype(array.dtype)
        changed.append(array)
    return changed


def relative_distance(array, reference):
    """Relative L2 distance where both are finite, as `tpusim run --check` measures it; 0 when both are all zero."""
    left, right = np.asarray(array, np.float64).ravel(), np.asarray(reference, np.float64).ravel()
    both = np.isfinite(left) & np.isfinite(right)
    norm = np.linalg.norm(right[both])
    error = np.linalg.norm(left[both] - right[both])
    return float(error / norm if norm > 0 else error)


def in_fp32_throughout(module, depthwise=None):
    """The program with its values of bf16 and fp16 in fp32, as a compiler may keep them from operation to operation; None where it has
    none, or where one is taken for its bits."""
    kinds = ("bf16", "f16")
    every = list(operations(module.operation))
    if not any(str(getattr(result.type, "element_type", "")) in kinds for operation in every for result in operation.results):
        return None
    if any(operation.name == "stablehlo.bitcast_convert" for operation in every):
        return None
    text = module.operation.get_asm(enable_debug_info=False)
    text = re.sub(r"dense<0x([0-9A-F]{4})>( : tensor<[0-9x]*bf16>)", r"dense<0x\g<1>0000>\2", text)
    text = re.sub(r"dense<0x([0-9A-F]{4})>( : tensor<[0-9x]*f16>)", lambda found: f"dense<{half_bits(found.group(1))}>{found.group(2)}", text)
    wide = type(module).parse(re.sub(r"\bb?f16\b|(?<=x)b?f16\b", "f32", text))
    ProductRounding(wide, depthwise).rewrite()
    without_algorithms(wide)
    return wide


def half_bits(digits):
    """The fp32 literal of an fp16 one that MLIR prints as bits: infinities and NaN."""
    value = np.frombuffer(int(digits, 16).to_bytes(2, "little"), np.float16).astype(np.float32)
    return f"0x{value.view(np.uint32)[0]:08X}"


def real(array):
    return np.stack([array.real, array.imag]) if np.iscomplexobj(array) else array


def farthest(others, reference):
    """By output, the largest distance of the others from the reference."""
    moves = np.zeros(len(reference))
    for other in others:
        moves = np.maximum(moves, [relative_distance(real(array), real(sharp)) for array, sharp in zip(other, reference)])
    return moves


class ReferenceValues(typing.NamedTuple):
    """Outputs in fp32 and with rounded products, how far each of the latter moves, and how far when values of bf16 and fp16 stay in
    fp32; notes on what was rounded."""

    exact: list
    rounded: list
    sensitivity: np.ndarray
    narrow: np.ndarray
    notes: dict


def reference_values(module, inputs, shardings=None, depthwise=None):
    """The values of a program.

    `module` is StableHLO as lowered for the CPU and is changed; `inputs` are numpy arrays in parameter order; `shardings` say where
    they lie in a program for several devices; `depthwise` which operands of depthwise convolutions are rounded (depthwise_operands).
    """
    bytecode = io.BytesIO()
    module.operation.write_bytecode(bytecode)
    with module.context:
        rounding = ProductRounding(module, depthwise).rewrite()
        without_algorithms(module)
        plain = type(module).parse(bytecode.getvalue())
        wide = in_fp32_throughout(plain, depthwise)
        without_algorithms(plain)
        outputs = CpuProgram(plain, shardings).run(inputs)
        program = CpuProgram(module, shardings)
        sharp = program.run(inputs)
        others = [program.run(moved(inputs, seed)) for seed in range(MOVES)]
        if wide is not None:
            wide_inputs = [array.astype(np.float32) if is_floating(array) else array for array in inputs]
            wide_outputs = CpuProgram(wide, shardings).run(wide_inputs)
    sensitivity = farthest(others, sharp)
    narrow = farthest([] if wide is None else [wide_outputs], sharp)
    return ReferenceValues(outputs, sharp, np.maximum(sensitivity, narrow), narrow, rounding.notes())


def storable(array):
    """numpy has no bf16 and no types of 8 bits and fewer but integers: such arrays are kept as fp32 or 8 bits."""
    if array.dtype.name.startswith(("bfloat16", "float8_", "float6_", "float4_")):
        return array.astype(np.float32)
    return array.astype(np.int8) if array.dtype.name in ("int4", "uint4", "int2", "uint2") else array
