#!/usr/bin/env python3
"""The micro programs of micro_programs.py, as both compilers make them, as a table: from the greatest ratio to the least.

    for NAME in $(python -c "import micro_programs; print(*micro_programs.all_names)"); do        in bench, where jax[tpu] is
        PYTHONPATH=../workloads/capture python -m tpusim_capture micro_programs.py:$NAME --chip v3 --values -o MICRO/$NAME; done
    bench/micro_table.py MICRO                   all of them, with values beside those of JAX on the CPU

Ends with 1 where one is refused, computes something else, or takes more than --most times XLA's cycles.
"""

import argparse
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("programs", nargs="*", help="names of folders; default: all")
    parser.add_argument("--tpusim", type=pathlib.Path, default=ROOT / "build/tpusim")
    parser.add_argument("--config", default="v3-8")
    parser.add_argument("--most", type=float, default=2.0)
    return parser.parse_args()


def report_of(options, program, compiler, check):
    """What --json says; None where the run said no."""
    command = [options.tpusim, "run", program, "--config", options.config, "--cores", "1", "--compiler", compiler, "--json", "-"]
    # With values where branches or addresses need them; some of XLA's programs run without them alone.
    for values in [["--check"]] if check else [["--values", "on"], []]:
        done = subprocess.run(command + values, capture_output=True, text=True)
        start = done.stdout.find("{")
        if start >= 0:
            return json.loads(done.stdout[start:])
    return None


def row_of(options, program):
    """Name, cycles of both (None: it does not run), ratio, what is to be said of its values."""
    ours, theirs = report_of(options, program, "tpusim", True), report_of(options, program, "xla", False)
    cycles = [report["steps"][-1]["cycles"] if report else None for report in (ours, theirs)]
    ratio = cycles[0] / cycles[1] if all(cycles) else None
    wrong = [check["name"] for check in ours["checks"] if not check["passed"]] if ours else []
    return program.name, cycles, ratio, ("differ: " + ", ".join(wrong)) if wrong else ""


def main():
    options = arguments()
    names = options.programs or sorted(folder.name for folder in options.folder.iterdir() if (folder / "facts.json").exists())
    rows = [row_of(options, options.folder / name) for name in names]
    rows.sort(key=lambda row: -(row[2] or 0))
    print("| program | ours | XLA's | ratio | values |\n|---|--:|--:|--:|---|")
    for name, cycles, ratio, values in rows:
        cells = [f"{c:,}" if c else "-" for c in cycles] + [f"{ratio:.2f}" if ratio else "-", values]
        print(f"| `{name}` | {' | '.join(cells)} |")
    return 1 if any(cycles[0] is None or values or (ratio or 0) > options.most for _, cycles, ratio, values in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
