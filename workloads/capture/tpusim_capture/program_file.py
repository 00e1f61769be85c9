"""Reads a module file of any kind into StableHLO: what a user of JAX, PyTorch/XLA or TensorFlow has at hand."""

import gzip
import io
import pickle
import re

from tpusim_capture.errors import CaptureError
from tpusim_capture.lowered import operations

KINDS = "StableHLO (text or bytecode), HLO text, HloModuleProto or HloProto, a serialized jax.export, each also with gzip"
GZIP = b"\x1f\x8b"
MLIR_BYTECODE = b"ML\xefR"


class OnlyBytes(pickle.Unpickler):
    """Opens pickles of bytes alone: a pickle of anything else would run code of its own."""

    def find_class(self, module, name):
        if (module, name) == ("builtins", "bytearray"):
            return bytearray
        raise pickle.UnpicklingError(f"{module}.{name}")


class ModuleFile:
    """A program that comes as a file.

    `module()` gives it as StableHLO, `before` is its HLO text where the file holds one, `exported` the jax.export where the file is one.
    """

    def __init__(self, path):
        self.path = path
        self.before = None
        self.exported = None
        self._source = None
        with open(path, "rb") as file:
            data = file.read()
        if data.startswith(GZIP):
            data = gzip.decompress(data)
        if data[:1] == b"\x80":
            data = self._unpickled(data)
        try:
            self._recognize(data)
        except CaptureError:
            raise
        except Exception as error:  # the parsers' errors have no type of their own
            raise CaptureError(f"{path}: expected {KINDS}: {first_lines(error)}") from None

    def module(self):
        """The module, made anew in a context of its own, so that the caller may change it."""
        from jax._src.interpreters import mlir as jax_mlir

        context = jax_mlir.make_ir_context()
        try:
            with context:
                module = self._parsed(context)
        except Exception as error:  # the parsers' errors have no type of their own
            raise CaptureError(f"{self.path}: expected StableHLO: {first_lines(error)}") from None
        drop_copies(module)
        return module

    def _parsed(self, context):
        from jax._src.lib import xla_client
        from jax._src.lib.mlir import ir
        from jaxlib.mlir.dialects import stablehlo

        if isinstance(self._source, bytes):
            try:
                return stablehlo.deserialize_portable_artifact(context, self._source)
            except Exception:  # bytecode of StableHLO itself, without a version
                return ir.Module.parse(self._source)
        if "mhlo." in self._source and "stablehlo." not in self._source:
            return ir.Module.parse(xla_client._xla.mlir.mhlo_to_stablehlo(self._source.encode()))
        return ir.Module.parse(self._source)

    def _unpickled(self, data):
        try:
            content = OnlyBytes(io.BytesIO(data)).load()
        except Exception as error:
            raise CaptureError(
                f"{self.path}: expected a pickle of the bytes of jax.export's serialize(), found one of {error}; "
                "other pickles are not opened, they can run code"
            ) from None
        if not isinstance(content, (bytes, bytearray)):
            raise CaptureError(f"{self.path}: expected a pickle of bytes, found one of {type(content).__name__}")
        return bytes(content)

    def _recognize(self, data):
        if data.startswith(MLIR_BYTECODE):
            self._source = data
        elif data.startswith(b"\n") and not data[:512].isascii():
            self._read_proto(data)
        elif is_text(data):
            text = data.decode()
            if is_hlo_text(text):
                from jaxlib import _hlo

                self._read_hlo(_hlo.hlo_module_from_text(text), text)
            else:
                self._source = text
        elif data.startswith(b"\n"):
            self._read_proto(data)
        else:
            self._read_export(data)

    def _read_proto(self, data):
        from jaxlib import _hlo

        module = _hlo.HloModule.from_serialized_hlo_module_proto(innermost_module(data))
        options = _hlo.HloPrintOptions.short_parsable()
        options.print_metadata = True
        self._read_hlo(module, module.to_string(options))

    def _read_hlo(self, module, text):
        from jax._src.lib import xla_client

        self.before = text
        source = xla_client._xla.mlir.hlo_to_stablehlo(module.as_serialized_hlo_module_proto())
        self._source = source if isinstance(source, str) else bytes(source)

    def _read_export(self, data):
        from jax import export

        try:
            import flatbuffers  # noqa: F401 (jax's reader needs it)
        except ImportError:
            raise CaptureError(f"{self.path}: to read a serialized jax.export, run: pip install flatbuffers") from None
        self.exported = export.deserialize(bytearray(data))
        self._source = bytes(self.exported.mlir_module_serialized)


def drop_copies(module):
    """HLO's copies, which TensorFlow writes, have no form in StableHLO; the compiler makes those that it needs."""
    for operation in list(operations(module.operation)):
        if operation.name == "mhlo.copy":
            operation.results[0].replace_all_uses_with(operation.operands[0])
            operation.erase()


def first_lines(error):
    return " ".join(line.strip() for line in str(error).splitlines()[:2]) or type(error).__name__


def is_text(data):
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return b"\0" not in data


def is_hlo_text(text):
    """HLO text starts with `HloModule`, perhaps behind comments."""
    return bool(re.match(r"(\s|//[^\n]*\n|/\*.*?\*/)*HloModule\b", text, re.DOTALL))


def innermost_module(data):
    """The HloModuleProto inside an HloProto or HloSnapshot: their first field is a message, that of the module its name."""
    payload = first_field(data)
    while payload is not None and payload[:1] == b"\n" and first_field(payload) is not None:
        data, payload = payload, first_field(payload)
    return data


def first_field(data):
    """The content of a leading field 1 with a length; None where there is none."""
    if data[:1] != b"\n":
        return None
    length = shift = 0
    for position in range(1, min(11, len(data))):
        length |= (data[position] & 0x7F) << shift
        shift += 7
        if data[position] < 0x80:
            end = position + 1 + length
            return data[position + 1 : end] if end <= len(data) else None
    return None
