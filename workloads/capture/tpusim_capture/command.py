"""The command line: one compiler process per chip, then one folder with what they printed.

The compiler runs in a process of its own because libtpu reads its switches once, from the environment, and because
a failed compilation may end the process.
"""

import argparse
import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

from tpusim_capture import TRIED_VERSIONS
from tpusim_capture.folder import drop_unneeded_listings, pack_listings

EXIT_USAGE = 2
EXIT_CAPTURE_FAILED = 4

CHIPS = ("v2", "v3")


class CaptureError(Exception):
    """Something the user can mend; the message says what was expected, what was found and what to do."""


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(
        prog="python -m tpusim_capture",
        description="Compiles a training step for TPUs that need not be there and writes a folder for `tpusim run`.",
    )
    parser.add_argument(
        "program",
        help="FILE.py:FUNCTION (FILE.py also defines FUNCTION_arguments() or example_arguments()), or a module: "
        "StableHLO text (.mlir), HLO text (.hlo, .txt) or either with .gz",
    )
    parser.add_argument("--chip", default="v2,v3", help="comma-separated: v2, v3 (default: both)")
    parser.add_argument("--slice", default="2x2", help="chips of the slice, 2x2, 4x4 ... (default: 2x2)")
    parser.add_argument(
        "--data-parallel",
        action="store_true",
        help="replicate the state and split the batch over all cores of the slice (the function's shardings() decides "
        "which arguments are split); without it the program runs on one core",
    )
    parser.add_argument("-o", "--output", required=True, help="folder to write; must not exist or be empty")
    parser.add_argument("--values", action="store_true", help="also run on the CPU and keep inputs and outputs in values.npz")
    parser.add_argument("--keep-going", action="store_true", help="go on with versions of jax and libtpu that were never tried")
    options = parser.parse_args(arguments)
    options.chips = options.chip.split(",")
    for chip in options.chips:
        if chip not in CHIPS:
            parser.error(f"--chip: expected v2, v3 or v2,v3, found '{chip}'")
    if not re.fullmatch(r"[1-9]\d*x[1-9]\d*", options.slice):
        parser.error(f"--slice: expected XxY such as 2x2, found '{options.slice}'")
    return options


def check_versions(keep_going):
    """Says what is missing, or that the installed versions are none that tpusim's reader was checked with."""
    found = {}
    for package, tried in TRIED_VERSIONS.items():
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            raise CaptureError(
                f"{package} is not installed: expected {package} {tried}; run: pip install \"jax[tpu]=={TRIED_VERSIONS['jax']}\""
            ) from None
    different = {name: version for name, version in found.items() if version != TRIED_VERSIONS[name]}
    if different and not keep_going:
        listed = ", ".join(f"{name} {version} (tried: {TRIED_VERSIONS[name]})" for name, version in different.items())
        raise CaptureError(
            f"found {listed}: the text of the listings changes from version to version and tpusim may refuse it; "
            f"run: pip install \"jax[tpu]=={TRIED_VERSIONS['jax']}\", or add --keep-going"
        )
    return found


def check_program(program):
    path = program.rsplit(":", 1)[0] if re.search(r"\.py:\w+$", program) else program
    if not os.path.isfile(path):
        raise CaptureError(f"{path}: no such file; expected FILE.py:FUNCTION or a module file (.mlir, .hlo, .txt, .gz)")
    if path.endswith(".py") and path == program:
        raise CaptureError(f"{program}: expected the function's name behind a colon, as in {program}:step")


def compiler_environment(dump):
    """The environment that makes libtpu compile without a TPU and print its listings into `dump`."""
    return dict(
        os.environ,
        JAX_PLATFORMS="cpu",
        TPU_SKIP_MDS_QUERY="1",
        TPU_WORKER_HOSTNAMES="localhost",
        ALLOW_MULTIPLE_LIBTPU_LOAD="1",
        LIBTPU_INIT_ARGS=f"--xla_jf_dump_to={dump} --xla_jf_dump_hlo_text=true --xla_jf_dump_llo_text=true",
        PYTHONPATH=os.pathsep.join(
            [os.path.dirname(os.path.dirname(os.path.abspath(__file__))), os.environ.get("PYTHONPATH", "")]
        ),
    )


def compile_for(chip, options, work):
    """Runs the compiler process for one chip; its listings are in the folder returned."""
    dump = os.path.join(work, f"{chip}.dump")
    os.makedirs(dump)
    request = {
        "program": os.path.abspath(options.program) if ":" not in options.program else _absolute(options.program),
        "chip": chip,
        "slice": options.slice,
        "data_parallel": options.data_parallel,
        "output": work,
        "values": options.values and chip == options.chips[0],
    }
    log_path = os.path.join(work, f"{chip}.log")
    with open(log_path, "w", encoding="utf-8") as log:
        child = subprocess.Popen(
            [sys.executable, "-m", "tpusim_capture.compiler_process", json.dumps(request)],
            env=compiler_environment(dump),
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        try:
            while child.poll() is None:
                time.sleep(0.3)
                drop_unneeded_listings(dump)
        except BaseException:
            child.kill()
            raise
    if child.returncode != 0:
        raise CaptureError(explain_failure(chip, child.returncode, log_path))
    os.unlink(log_path)
    return dump


def _absolute(program):
    path, function = program.rsplit(":", 1)
    return f"{os.path.abspath(path)}:{function}"


def explain_failure(chip, returncode, log_path):
    """One line for the failures that users meet, the compiler's own words behind it."""
    with open(log_path, encoding="utf-8", errors="replace") as log:
        lines = [line.rstrip() for line in log if line.strip()]
    for line in lines:
        found = re.search(r"(RESOURCE_EXHAUSTED.*|Ran out of memory.*)", line)
        if found:
            return f"{chip}: the program does not fit: {found.group(1)}"
    for line in lines:
        found = re.match(r"tpusim_capture: (.*)", line)
        if found:
            return f"{chip}: {found.group(1)}"
    last = "\n  ".join(lines[-8:])
    return f"{chip}: the compiler process ended with code {returncode}; it last said:\n  {last}"


def write_facts(options, versions, work):
    facts = {"program": os.path.basename(options.program), "slice": options.slice, "versions": versions}
    for chip in options.chips:
        path = os.path.join(work, f"{chip}.facts.json")
        with open(path, encoding="utf-8") as file:
            facts[chip] = json.load(file)
        facts.update({key: facts[chip].pop(key) for key in ("reference",) if key in facts[chip]})
        os.unlink(path)
    with open(os.path.join(work, "facts.json"), "w", encoding="utf-8") as file:
        json.dump(facts, file, indent=1, sort_keys=True)
        file.write("\n")


def capture(options):
    versions = check_versions(options.keep_going)
    check_program(options.program)
    output = os.path.abspath(options.output)
    if os.path.exists(output) and (not os.path.isdir(output) or os.listdir(output)):
        raise CaptureError(f"{options.output}: expected a new or empty folder, found something in it")
    work = tempfile.mkdtemp(prefix=".tpusim_capture_", dir=os.path.dirname(output) or ".")
    try:
        for chip in options.chips:
            dump = compile_for(chip, options, work)
            kernels = pack_listings(dump, os.path.join(work, f"{chip}.bundles.tar.xz"), f"{chip}.bundles")
            if kernels == 0:
                raise CaptureError(
                    f"{chip}: the compiler printed no listing: expected *-final_bundles.txt; is libtpu "
                    f"{TRIED_VERSIONS['libtpu']} installed?"
                )
            shutil.rmtree(dump)
            print(f"{chip}: {kernels} listings")
        write_facts(options, versions, work)
        if os.path.isdir(output):
            os.rmdir(output)
        os.chmod(work, 0o755)
        os.rename(work, output)
    except BaseException:
        shutil.rmtree(work, ignore_errors=True)
        raise
    print(f"wrote {options.output}; next: tpusim run {options.output} --config {options.chips[-1]}-8")


def main(arguments=None):
    options = parse_arguments(arguments)
    try:
        capture(options)
    except CaptureError as error:
        print(f"tpusim_capture: {error}", file=sys.stderr)
        return EXIT_CAPTURE_FAILED
    except KeyboardInterrupt:
        print("tpusim_capture: interrupted; nothing was written", file=sys.stderr)
        return 130
    return 0
