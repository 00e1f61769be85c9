#!/usr/bin/env python3
"""Runs captured programs of XLA's TPU compiler and prints a table of what they took.

    bench/captured_table.py [--tpusim build/tpusim] [--values] [--chip v2,v3] [--json FILE] FOLDER...

FOLDER is a captured folder, or a folder of captured folders (searched to any depth). Each program runs on the chips whose
listings it holds. Columns: bundles of one core, cycles, the sum of XLA's own estimates, cycles of silicon where facts.json
or tiles.csv has them, CPU seconds (reading, running), and what no experiment has confirmed. The exit code is the number of
programs that did not run to their end (at most 100).
"""

import argparse
import csv
import json
import pathlib
import subprocess
import sys


def captured_folders(paths):
    for path in paths:
        places = [path] + sorted(p for p in path.rglob("*") if p.is_dir())
        found = [p for p in places if chips_of(p)]
        if not found:
            sys.exit(f"{path}: expected captured folders (with v2.bundles or v3.bundles), found none")
        yield from found


def chips_of(folder):
    return [chip for chip in ("v2", "v3") if any((folder / f"{chip}.bundles{end}").exists() for end in ("", ".tar.xz"))]


def facts_of(folder):
    for place in (folder, folder.parent):
        if (place / "facts.json").exists():
            return json.loads((place / "facts.json").read_text())
    return {}


def silicon_cycles(folder, chip, facts):
    """Cycles that the chip took, and whether they are those of the kernels alone."""
    tiles = folder.parent / "tiles.csv"
    if tiles.exists():
        for row in csv.DictReader(tiles.open()):
            if "run" + row["run"] == folder.name:
                return float(row["measured_cycles_940MHz"]), True
    if facts.get("chip") != chip:
        return None, False
    if facts.get("measured_cycles"):
        return facts["measured_cycles"], False
    default = facts.get("measured_default", {}).get("ns")
    if default and folder.name in ("default", "own"):
        return default * facts["clock_hz"] * 1e-9, True
    return None, False


def machine_of(folder, chip):
    """The name of a slice with as many cores as the program was compiled for."""
    cores = 8
    for number in (32, 128, 512, 2048):
        if folder.name.endswith(f"_n{number}"):
            cores = number
    return f"{chip}-{cores}"


def run(tpusim, folder, chip, values, seconds):
    command = [tpusim, "run", str(folder), "--config", machine_of(folder, chip), "--compiler", "xla", "--json", "-"]
    if values:
        command += ["--values", "on"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        return None, f"not done after {seconds} s"
    if done.returncode != 0:
        return None, f"exit {done.returncode}: " + (done.stderr.strip().splitlines() or ["(silent)"])[0]
    return json.loads(done.stdout), ""


def unconfirmed(notes):
    for note in notes:
        if "no experiment has confirmed: " in note:
            return note.split(": ", 1)[1].replace(" (", "(").split(", ")
    return []


def row_of(result, alone):
    cycles = max(step["cycles"] for step in result["steps"])
    kernels = sum(op["cycles"] for op in result["ops"] if op["category"] != "runtime")
    return {
        "cycles": kernels if alone else cycles,
        "bundles": result["cores"][0]["bundles"],
        "estimate": sum(op["estimated_cycles"] * op["count"] for op in result["ops"]),
        "read_s": result["simulator"]["compile_cpu_s"],
        "run_s": result["simulator"]["run_cpu_s"],
        "unconfirmed": unconfirmed(result["notes"]),
        "notes": result["notes"],
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=pathlib.Path)
    parser.add_argument("--tpusim", default="build/tpusim")
    parser.add_argument("--values", action="store_true")
    parser.add_argument("--chip", default="v2,v3")
    parser.add_argument("--seconds", type=float, default=120, help="give a program up after so long")
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()

    rows = []
    print(f"{'program':44} {'chip':4} {'bundles':>12} {'cycles':>12} {'XLA':>12} {'silicon':>10} {'error':>8} {'read s':>7} {'run s':>7}  unconfirmed")
    for folder in captured_folders(arguments.folders):
        facts = facts_of(folder)
        for chip in chips_of(folder):
            if chip not in arguments.chip.split(","):
                continue
            silicon, alone = silicon_cycles(folder, chip, facts)
            name = folder.name if folder.name not in ("own", "default", "best") else f"{folder.parent.name}/{folder.name}"
            result, problem = run(arguments.tpusim, folder, chip, arguments.values, arguments.seconds)
            row = {"program": name, "chip": chip, "silicon": silicon, "problem": problem}
            rows.append(row)
            if result is None:
                print(f"{name:44} {chip:4} {problem}", flush=True)
                continue
            row.update(row_of(result, alone))
            error = f"{100 * (row['cycles'] / silicon - 1):+.2f} %" if silicon else ""
            estimate = f"{row['estimate']:.0f}" if row["estimate"] else ""
            print(
                f"{name:44} {chip:4} {row['bundles']:12.0f} {row['cycles']:12.0f} {estimate:>12} {silicon and f'{silicon:.0f}' or '':>10} "
                f"{error:>8} {row['read_s']:7.2f} {row['run_s']:7.2f}  {' '.join(row['unconfirmed'])}",
                flush=True,
            )
    failed = [row for row in rows if row["problem"]]
    print(f"{len(rows)} runs, {len(failed)} failed")
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n")
    sys.exit(min(len(failed), 100))


if __name__ == "__main__":
    main()
