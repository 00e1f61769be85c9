"""The process that holds the user's program: `python -m tpusim_capture.program_process REQUEST EVENTS`, started by the command only.

It executes the program's file, lowers its functions, has each compiled in a process of its own, and computes reference values.

REQUEST is a JSON file: the programs and what to do with each. What happens is written to the file EVENTS, a JSON object a line; the
last event of a program is "done" or "failed".
"""

import gzip
import json
import os
import re
import sys
import traceback

from tpusim_capture.cache import Cache, key_of
from tpusim_capture.errors import LAST_LINES, CaptureError
from tpusim_capture.tpu_compiler import CompilerProcesses, devices_of, write_gzip

LARGEST_CACHED_VALUES = 64 << 20
"""Larger values.npz files are computed anew."""


class Events:
    """What happens, for the command that started this process."""

    def __init__(self, path):
        self._file = open(path, "a", encoding="utf-8")  # noqa: SIM115 (as long as the process)

    def __call__(self, event, **details):
        self._file.write(json.dumps({"event": event, **details}) + "\n")
        self._file.flush()


class Capture:
    """One program on its way to a folder."""

    def __init__(self, request, program, say, compiler):
        self.request = request
        self.program = program
        self.say = say
        self.compiler = compiler
        self.folder = program["folder"]
        self.cache = Cache(request["cache"])
        self.facts = {}

    def run(self):
        chips = self.request["chips"]
        self.say("stage", program=self.program["name"], stage="lowering")
        source = open_program(self.program, self.request)
        lowered = source.lower(devices_of(chips[0], self.request["slice"]))
        write_gzip(os.path.join(self.folder, "before.hlo.gz"), lowered.hlo_text())
        identity = lowered.identity()
        failed = {}
        for chip in chips:
            message = self._compile(chip, lowered, identity)
            if message is not None:
                failed[chip] = message
                self.say("chip_failed", program=self.program["name"], chip=chip, message=message)
        if len(failed) == len(chips):
            raise CaptureError(f"it does not fit {' or '.join(chips)}, so nothing was written")
        if failed:
            self.facts["failed"] = failed
        if source.batch():
            self.facts["batch"] = source.batch()
        if self.request["values"]:
            self._values(source)
        with open(os.path.join(self.folder, "facts.json"), "w", encoding="utf-8") as file:
            json.dump({**self.program["facts"], **self.facts}, file, indent=1, sort_keys=True)
            file.write("\n")

    def _compile(self, chip, lowered, identity):
        """Writes the files of one chip; the compiler's report when the program does not fit."""
        options = [chip, self.request["slice"], self.request["environment"], sorted(self.request["versions"].items())]
        key = key_of("compile", *options, identity)
        facts_path = os.path.join(self.folder, f"{chip}.facts.json")
        cached = self.cache.fetch(key, self.folder)
        if not cached:
            self.say("stage", program=self.program["name"], chip=chip, stage="compiling")
            message = self._compile_anew(chip, lowered, facts_path)
            if message is not None:
                return message
            names = (f"{chip}.scheduled.hlo.gz", f"{chip}.bundles.tar.xz", f"{chip}.facts.json")
            self.cache.store(key, [os.path.join(self.folder, name) for name in names])
        with open(facts_path, encoding="utf-8") as file:
            self.facts[chip] = json.load(file)
        os.unlink(facts_path)
        self.say("compiled", program=self.program["name"], chip=chip, listings=self.facts[chip]["listings"], cached=cached)
        return None

    def _compile_anew(self, chip, lowered, facts_path):
        request = {name: self.request[name] for name in ("slice", "dump", "log")}
        request.update(chip=chip, folder=self.folder, facts=facts_path)
        outcome = self.compiler.compile(request, lowered)
        if "refused" in outcome:
            raise CaptureError(f"{chip}: {outcome['refused']}")
        return outcome.get("does_not_fit")

    def _values(self, source):
        """values.npz, or in facts.json why there is none."""
        self.say("stage", program=self.program["name"], stage="computing reference values")
        try:
            self.facts["reference"] = self._values_of(source)
        except Exception as error:  # whatever the CPU's compiler does not do
            reason = str(error) if isinstance(error, CaptureError) else f"{type(error).__name__}: {error}"
            self.facts["reference"] = {"failed": reason}
            self.say("warning", program=self.program["name"], message=f"no values.npz: {reason.splitlines()[0]}")

    def _scheduled_hlo(self):
        """The text of the first chip that the program was compiled for."""
        paths = [os.path.join(self.folder, f"{chip}.scheduled.hlo.gz") for chip in self.request["chips"]]
        with gzip.open(next(path for path in paths if os.path.exists(path)), "rt", encoding="utf-8") as file:
            return file.read()

    def _values_of(self, source):
        import jax
        import numpy as np

        from tpusim_capture.reference import depthwise_operands, reference_values, storable

        module, inputs, shardings = source.reference(tuple(jax.devices("cpu")))
        notes_path = os.path.join(self.folder, "reference.json")
        text = module.operation.get_asm(enable_debug_info=False)
        depthwise = depthwise_operands(self._scheduled_hlo())
        key = key_of("values", text, str(shardings), str(depthwise), *[array.tobytes() for array in inputs], sorted(self.request["versions"].items()))
        if not self.cache.fetch(key, self.folder):
            values = reference_values(module, inputs, shardings, depthwise)
            arrays = {f"arg_{number:03d}": storable(array) for number, array in enumerate(inputs)}
            for prefix, outputs in (("out", values.exact), ("bf16", values.rounded)):
                arrays.update({f"{prefix}_{number:03d}": storable(array) for number, array in enumerate(outputs)})
            arrays.update(sensitivity=values.sensitivity, sensitivity_narrow=values.narrow)
            path = os.path.join(self.folder, "values.npz")
            np.savez_compressed(path, **arrays)
            with open(notes_path, "w", encoding="utf-8") as file:
                json.dump(values.notes, file)
            if os.path.getsize(path) <= LARGEST_CACHED_VALUES:
                self.cache.store(key, [path, notes_path])
        with open(notes_path, encoding="utf-8") as file:
            notes = json.load(file)
        os.unlink(notes_path)
        return notes


def open_program(program, request):
    if program["function"] is None:
        from tpusim_capture.module_program import ModuleProgram

        return ModuleProgram(program["path"])
    from tpusim_capture.python_program import PythonProgram

    return PythonProgram(program["path"], program["function"], request["mesh"], request["data_parallel"])


def drop_folder_names(programs):
    """File names in the program's metadata stand without the folders of this machine, and without the frames of this tool."""
    import jax
    from jax._src import source_info_util

    here = os.path.dirname(os.path.abspath(__file__))
    for place in (here + os.sep, "<frozen runpy>"):
        source_info_util.register_exclusion(place)
    folders = {os.path.dirname(program["path"]) for program in programs} | {here}
    pattern = "|".join("^" + re.escape(folder + os.sep) for folder in sorted(folders) if folder)
    jax.config.update("jax_hlo_source_file_canonicalization_regex", pattern)


def explanation(error):
    """One line for what the user can mend, the last lines of the traceback for the user's own errors."""
    if isinstance(error, CaptureError):
        return str(error)
    lines = "".join(traceback.format_exception(error)).rstrip().splitlines()
    return "the program failed:\n  " + "\n  ".join(lines[-LAST_LINES:])


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        request = json.load(file)
    say = Events(sys.argv[2])
    compiler = CompilerProcesses()
    drop_folder_names(request["programs"])
    for program in request["programs"]:
        say("start", program=program["name"])
        try:
            Capture(request, program, say, compiler).run()
        except Exception as error:  # the user's own code may raise anything
            say("failed", program=program["name"], message=explanation(error))
        else:
            say("done", program=program["name"])


if __name__ == "__main__":
    main()
