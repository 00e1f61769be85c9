#!/usr/bin/env python3
"""Measures pieces of the simulator's work and compares them with a stored baseline.

    bench/work.py                      instructions per unit under callgrind, beside the baseline; fails (exit code 1)
                                       where one rises by more than a tenth or a result is wrong
    bench/work.py --time               CPU time per unit, too, in steps of a calibration loop: least of five runs
    bench/work.py --update             the same, and what was measured becomes the baseline
    bench/work.py --not-judged NAME    that piece may rise: it was compiled with less optimisation
    bench/work.py --program FILE       the program (build/tpusim_work, which the target tpusim_work builds)

Instructions do not depend on what else runs on the machine. They do depend on the compiler: with another one than that of
the baseline the table is printed and nothing fails. What a unit is says the table.
"""
import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile

BASELINE = pathlib.Path(__file__).with_name("work_baseline.json")
MOST_RISE = 0.10
TIMED_RUNS = 5


def run_work(command):
    """What the program prints of each piece: its unit, number of units, seconds."""
    finished = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    pieces = {}
    for line in finished.stdout.splitlines():
        name, unit, units, seconds, result = line.split("\t")
        if result != "right":
            sys.exit(f"work.py: {name}: the result is wrong")
        pieces[name] = {"unit": unit, "units": int(units), "seconds": float(seconds)}
    if finished.returncode != 0 or not pieces:
        sys.exit(f"work.py: {' '.join(command)} failed:\n{finished.stderr[-2000:]}")
    return pieces


def instructions(program):
    """Instructions per unit of each piece."""
    with tempfile.TemporaryDirectory() as folder:
        pieces = run_work(["valgrind", "--tool=callgrind", "--instr-atstart=no",
                           f"--callgrind-out-file={folder}/out", str(program)])
        for dump in pathlib.Path(folder).glob("out.*"):
            text = dump.read_text()
            name = re.search(r"^desc: Trigger: Client Request: (.*)$", text, re.M)
            total = re.search(r"^(?:totals|summary): (\d+)", text, re.M)
            if name and total:
                piece = pieces[name.group(1)]
                piece["instructions"] = int(total.group(1)) / piece["units"]
    missing = [name for name, piece in pieces.items() if "instructions" not in piece]
    if missing:
        sys.exit(f"work.py: callgrind gave nothing for {', '.join(missing)}; was the program built with valgrind's headers?")
    return pieces


def times(program):
    """CPU time per unit, in steps of the calibration loop: the least of several runs."""
    runs = [run_work([str(program)]) for _ in range(TIMED_RUNS)]
    least = {name: min(run[name]["seconds"] for run in runs) / runs[0][name]["units"] for name in runs[0]}
    step = least["calibration"]
    return {name: seconds / step for name, seconds in least.items()}


def compiler():
    return subprocess.run(["c++", "--version"], stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()[0]


def number(value):
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def print_table(pieces, baseline, same_compiler, not_judged):
    """Returns the pieces that have become too expensive."""
    risen = []
    print(f"{'work':34} {'unit':12} {'instructions':>14} {'baseline':>14} {'change':>8} {'steps':>10} {'baseline':>10}")
    for name, piece in pieces.items():
        before = baseline.get("pieces", {}).get(name, {})
        change = ""
        if "instructions" in before:
            rise = piece["instructions"] / before["instructions"] - 1
            change = f"{100 * rise:+.1f} %"
            if rise > MOST_RISE and same_compiler and name not in not_judged:
                risen.append(f"{name} ({change})")
        columns = [number(piece["instructions"]), number(before["instructions"]) if before else "", change,
                   number(piece["steps"]) if "steps" in piece else "", number(before["steps"]) if "steps" in before else ""]
        print(f"{name:34} {piece['unit']:12} {columns[0]:>14} {columns[1]:>14} {columns[2]:>8} {columns[3]:>10} {columns[4]:>10}")
    for name in baseline.get("pieces", {}):
        if name not in pieces:
            print(f"{name}: in the baseline only")
    return risen


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=pathlib.Path, default=BASELINE.parent.parent / "build" / "tpusim_work")
    parser.add_argument("--not-judged", action="append", default=[], metavar="NAME")
    parser.add_argument("--time", action="store_true")
    parser.add_argument("--update", action="store_true")
    arguments = parser.parse_args()
    if not arguments.program.exists():
        sys.exit(f"work.py: no {arguments.program}; build it: cmake --build build --target tpusim_work")
    pieces = instructions(arguments.program)
    if arguments.time or arguments.update:
        for name, steps in times(arguments.program).items():
            pieces[name]["steps"] = steps
    baseline = json.loads(BASELINE.read_text()) if BASELINE.exists() else {}
    same_compiler = baseline.get("compiler", compiler()) == compiler()
    risen = print_table(pieces, baseline, same_compiler, arguments.not_judged)
    if not same_compiler:
        print(f"not judged: the baseline was measured with {baseline['compiler']}, this is {compiler()}")
    if arguments.update:
        kept = {name: {key: float(f"{piece[key]:.6g}") if key != "unit" else piece[key]
                       for key in ("unit", "instructions", "steps")} for name, piece in pieces.items()}
        BASELINE.write_text(json.dumps({"compiler": compiler(), "pieces": kept}, indent=1) + "\n")
    elif risen:
        sys.exit(f"work.py: more than {100 * MOST_RISE:.0f} % above the baseline: {', '.join(risen)}")


if __name__ == "__main__":
    main()
