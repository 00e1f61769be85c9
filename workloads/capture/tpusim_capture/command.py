"""The command line: checks what was asked for, runs the process that holds the programs, and puts finished folders in place.

libtpu reads its switches from the environment, and a program may end the process that executes it: the programs that are left then go
on in a new one.
"""

import argparse
import contextlib
import importlib.metadata
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from tpusim_capture import TRIED_VERSIONS
from tpusim_capture.cache import default_folder
from tpusim_capture.errors import CaptureError, last_words
from tpusim_capture.progress import Progress

EXIT_USAGE = 2
EXIT_CAPTURE_FAILED = 4

CHIPS = ("v2", "v3", "v4")
POLL_SECONDS = 0.2
MOST_CPU_DEVICES = 64
"""Reference values of a program on a larger mesh are not computed."""


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(
        prog="python -m tpusim_capture",
        description="Compiles training steps for TPUs that need not be there and writes folders for `tpusim run`.",
    )
    parser.add_argument(
        "programs",
        nargs="+",
        metavar="PROGRAM",
        help="FILE.py:FUNCTION or FILE.py:FUNCTION,FUNCTION (FILE.py also defines FUNCTION_arguments() or example_arguments()), or a "
        "module file: StableHLO (text or bytecode), HLO text, HloModuleProto or HloProto (.pb), a serialized jax.export; also with .gz",
    )
    parser.add_argument("--chip", default="v2,v3", help="comma-separated: v2, v3, v4 (default: v2,v3)")
    parser.add_argument("--slice", default="2x2", help="chips of the slice, 2x2, 4x4 ... (default: 2x2)")
    parser.add_argument(
        "--data-parallel",
        action="store_true",
        help="replicate the state and split the arguments in SPLIT over all cores of the slice; without it, and without a mesh, "
        "the program runs on one core",
    )
    parser.add_argument("--mesh", help="axes of the mesh over all cores of the slice, such as data=4,model=2 (one size may be -1)")
    parser.add_argument("-o", "--output", required=True, help="folder to write, for several programs the folder of their folders")
    parser.add_argument("--values", action="store_true", help="also run on the CPU and keep inputs and outputs in values.npz")
    parser.add_argument("--cache", default=default_folder(), help="folder of earlier results (default: %(default)s)")
    parser.add_argument("--no-cache", action="store_true", help="compile anew, and keep nothing")
    parser.add_argument("--keep-going", action="store_true", help="has no effect any more: versions never tried are tried, with a warning")
    options = parser.parse_args(arguments)
    options.chips = options.chip.split(",")
    for chip in options.chips:
        if chip not in CHIPS:
            parser.error(f"--chip: expected some of v2, v3 and v4, such as v2,v3, found '{chip}'")
    if not re.fullmatch(r"[1-9]\d*x[1-9]\d*", options.slice):
        parser.error(f"--slice: expected XxY such as 2x2, found '{options.slice}'")
    options.mesh_axes = parse_mesh(parser, options)
    return options


def parse_mesh(parser, options):
    if options.mesh is None:
        return None
    if options.data_parallel:
        parser.error("--mesh: expected without --data-parallel, which is a mesh of its own")
    axes = {}
    for part in options.mesh.split(","):
        found = re.fullmatch(r"([A-Za-z_]\w*)=(-1|[1-9]\d*)", part)
        if not found or found.group(1) in axes:
            parser.error(f"--mesh: expected AXIS=SIZE,AXIS=SIZE such as data=4,model=2, found '{options.mesh}'")
        axes[found.group(1)] = int(found.group(2))
    if list(axes.values()).count(-1) > 1:
        parser.error(f"--mesh: expected -1 for one axis at most, found '{options.mesh}'")
    return axes


def installed_versions():
    """The versions of jax and libtpu; a warning where the reader was checked with others."""
    found = {}
    for package, tried in TRIED_VERSIONS.items():
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            raise CaptureError(
                f"{package} is not installed: expected {package} {tried}; run: pip install \"jax[tpu]=={TRIED_VERSIONS['jax']}\""
            ) from None
    different = {name: version for name, version in found.items() if version != TRIED_VERSIONS[name]}
    if different:
        listed = ", ".join(f"{name} {version} (tried: {TRIED_VERSIONS[name]})" for name, version in different.items())
        warn(
            f"found {listed}: the text of the listings changes from version to version; `tpusim run` names what it can't read, "
            f"and `pip install \"jax[tpu]=={TRIED_VERSIONS['jax']}\"` brings what was tried"
        )
    return found


def warn(message):
    print(f"tpusim_capture: warning: {message}", file=sys.stderr)


def programs_of(options):
    """The programs with their names and folders, one for each function."""
    programs = []
    for word in options.programs:
        found = re.fullmatch(r"(.+\.py):(\w+(?:,\w+)*)", word)
        path = found.group(1) if found else word
        if not os.path.isfile(path):
            raise CaptureError(f"{path}: no such file; expected FILE.py:FUNCTION or a module file (.mlir, .hlo, .txt, .pb, .bin, .gz)")
        if path.endswith(".py") and not found:
            raise CaptureError(f"{word}: expected the function's name behind a colon, as in {word}:step")
        stem = re.sub(r"(\.(gz|mlir|mlirbc|hlo|txt|pb|bin|pkl|pickle))+$", "", os.path.basename(path)) or "program"
        for function in found.group(2).split(",") if found else [None]:
            programs.append({"path": os.path.abspath(path), "function": function, "name": function or stem})
    name_folders(programs, options)
    return programs


def name_folders(programs, options):
    """One program is written to the output folder itself, several to folders of their names in it."""
    names = [program["name"] for program in programs]
    for program in programs:
        if names.count(program["name"]) > 1:
            file = os.path.basename(program["path"])
            program["name"] = f"{os.path.splitext(file)[0]}_{program['name']}" if program["function"] else file
        alone = len(programs) == 1
        program["shown"] = options.output if alone else os.path.join(options.output, program["name"])
        program["output"] = os.path.abspath(program["shown"])
        if os.path.exists(program["output"]) and (not os.path.isdir(program["output"]) or os.listdir(program["output"])):
            raise CaptureError(f"{program['shown']}: expected a new or empty folder, found something in it")
    for name in {program["name"] for program in programs}:
        if sum(program["name"] == name for program in programs) > 1:
            raise CaptureError(f"{name}: expected each program once, found it twice")


def compiler_environment(dump, cpu_devices):
    """The environment that makes libtpu compile without a TPU and print its listings into `dump`; the user's own switches stay."""
    switches = f"--xla_jf_dump_to={dump} --xla_jf_dump_hlo_text=true --xla_jf_dump_llo_text=true"
    environment = dict(
        os.environ,
        JAX_PLATFORMS="cpu",
        TPU_SKIP_MDS_QUERY="1",
        TPU_WORKER_HOSTNAMES="localhost",
        ALLOW_MULTIPLE_LIBTPU_LOAD="1",
        LIBTPU_INIT_ARGS=f"{os.environ.get('LIBTPU_INIT_ARGS', '')} {switches}".strip(),
        PYTHONPATH=os.pathsep.join(
            [os.path.dirname(os.path.dirname(os.path.abspath(__file__))), os.environ.get("PYTHONPATH", "")]
        ),
    )
    environment.setdefault("KERAS_BACKEND", "jax")
    if cpu_devices > 1:
        flags = os.environ.get("XLA_FLAGS", "")
        environment["XLA_FLAGS"] = f"{flags} --xla_force_host_platform_device_count={cpu_devices}".strip()
    return environment


def cpu_devices_for(options, programs):
    """How many devices of the CPU the reference values of a program on a mesh need."""
    across, down = map(int, options.slice.split("x"))
    cores = 2 * across * down
    if not options.values or cores > MOST_CPU_DEVICES:
        return 1
    if options.data_parallel or options.mesh_axes:
        return cores
    for program in programs:
        if program["function"] is not None:
            with open(program["path"], encoding="utf-8", errors="replace") as file:
                if re.search(r"\bMESH\b|NamedSharding|shard_map|shardings", file.read()):
                    return cores
    return 1


class ProgramRuns:
    """Runs program processes until every program is done or has failed."""

    def __init__(self, options, versions, programs, work):
        self.options = options
        self.versions = versions
        self.left = list(programs)
        self.work = work
        self.progress = Progress(sys.stderr)
        self.failures = 0

    def run(self):
        while self.left:
            before = len(self.left)
            self._run_process()
            if len(self.left) == before:
                raise AssertionError("a program process ended without an event for its program")

    def _run_process(self):
        dump = os.path.join(self.work, "dump")
        os.makedirs(dump, exist_ok=True)
        request_path, events_path, log_path = (os.path.join(self.work, name) for name in ("request.json", "events", "log"))
        for program in self.left:
            os.makedirs(program["folder"], exist_ok=True)
        with open(request_path, "w", encoding="utf-8") as file:
            json.dump({**self._request(dump), "log": log_path}, file)
        open(events_path, "w", encoding="utf-8").close()
        with open(log_path, "w", encoding="utf-8") as log, open(events_path, encoding="utf-8") as events:
            child = subprocess.Popen(
                [sys.executable, "-m", "tpusim_capture.program_process", request_path, events_path],
                env=compiler_environment(dump, cpu_devices_for(self.options, self.left)),
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                while child.poll() is None:
                    time.sleep(POLL_SECONDS)
                    self._read(events)
                    self.progress.tick()
            except BaseException:
                os.killpg(child.pid, signal.SIGKILL)
                child.wait()
                raise
            finally:
                self.progress.clear()
            left = len(self.left)
            self._read(events)
        if child.returncode != 0 or len(self.left) == left and self.left:
            if self.left:
                self._failed(self.left[0], last_words(child.returncode, log_path))

    def _request(self, dump):
        options = self.options
        facts = {"slice": options.slice, "versions": self.versions}
        return {
            "programs": [{**p, "facts": {**facts, "program": os.path.basename(program_word(p))}} for p in self.left],
            "chips": options.chips,
            "slice": options.slice,
            "data_parallel": options.data_parallel,
            "mesh": options.mesh_axes,
            "values": options.values,
            "versions": self.versions,
            "environment": [os.environ.get("LIBTPU_INIT_ARGS", ""), os.environ.get("XLA_FLAGS", "")],
            "cache": None if options.no_cache else os.path.abspath(options.cache),
            "dump": dump,
        }

    def _read(self, events):
        for line in events:
            self._handle(json.loads(line))

    def _handle(self, event):
        kind, program = event["event"], next((p for p in self.left if p["name"] == event["program"]), None)
        label = "" if self._is_alone() else f"{event['program']}: "
        if kind == "stage":
            self.progress.stage(f"{label}{event.get('chip', '')} {event['stage']}".strip())
            return
        self.progress.clear()
        if kind == "compiled":
            print(f"{label}{event['chip']}: {event['listings']} listings{', from the cache' if event['cached'] else ''}", flush=True)
        elif kind == "chip_failed":
            print(f"tpusim_capture: {label}{event['chip']}: the program does not fit:\n{event['message']}", file=sys.stderr)
        elif kind == "warning":
            warn(f"{label}{event['message']}")
        elif kind == "failed":
            self._failed(program, event["message"])
        elif kind == "done":
            self._done(program)

    def _is_alone(self):
        return len(self.options.programs) == 1 and "," not in self.options.programs[0]

    def _done(self, program):
        self.left.remove(program)
        if os.path.isdir(program["output"]):
            os.rmdir(program["output"])
        os.makedirs(os.path.dirname(program["output"]), exist_ok=True)
        os.chmod(program["folder"], 0o755)
        os.rename(program["folder"], program["output"])
        check = " --check" if self.options.values else ""
        chip = self.options.chips[-1]
        print(f"wrote {program['shown']}; next: tpusim run {shlex.quote(program['shown'])} --config {chip}-8{check}", flush=True)

    def _failed(self, program, message):
        self.left.remove(program)
        self.failures += 1
        shutil.rmtree(program["folder"], ignore_errors=True)
        label = "" if self._is_alone() else f"{program['name']}: "
        print(f"tpusim_capture: {label}{message}", file=sys.stderr, flush=True)


def program_word(program):
    return f"{program['path']}:{program['function']}" if program["function"] else program["path"]


def capture(options):
    """Exit code; folders appear when they are complete."""
    versions = installed_versions()
    programs = programs_of(options)
    root = os.path.abspath(options.output)
    parent = os.path.dirname(root) if len(programs) == 1 else root
    made = [folder for folder in (parent,) if not os.path.isdir(folder)]
    os.makedirs(parent, exist_ok=True)
    work = tempfile.mkdtemp(prefix=".tpusim_capture_", dir=parent)
    try:
        for number, program in enumerate(programs):
            program["folder"] = os.path.join(work, f"program{number}")
        runs = ProgramRuns(options, versions, programs, work)
        runs.run()
        return EXIT_CAPTURE_FAILED if runs.failures else 0
    finally:
        shutil.rmtree(work, ignore_errors=True)
        for folder in made:
            with contextlib.suppress(OSError):  # something was written into it
                os.rmdir(folder)


def main(arguments=None):
    options = parse_arguments(arguments)
    try:
        return capture(options)
    except CaptureError as error:
        print(f"tpusim_capture: {error}", file=sys.stderr)
        return EXIT_CAPTURE_FAILED
    except KeyboardInterrupt:
        print("tpusim_capture: interrupted; what was not finished is not there", file=sys.stderr)
        return 130
