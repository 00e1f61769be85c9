#!/usr/bin/env python3
"""Compares programs compiled by tpusim with the same programs compiled by XLA, on the simulated machine; those of several
devices on as many cores.

For every captured folder that has both the HLO before optimisation and XLA's bundles: cycles of one step, their
ratio, and the geometric mean of the ratios. With names, only these programs; with --kernels N also the N most
expensive kernels of both compilers, side by side.

    bench/xla_ratio.py                                 all programs, v3
    bench/xla_ratio.py --config v2-8 --bundles v2      all programs, v2
    bench/xla_ratio.py mlp_b128 --kernels 15           one program, its kernels
"""

import argparse
import json
import math
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", nargs="*", help="names of folders; default: all")
    parser.add_argument("--folder", type=pathlib.Path, default=ROOT.parent / "shared/xla/programs")
    parser.add_argument("--tpusim", type=pathlib.Path, default=ROOT / "build/tpusim")
    parser.add_argument("--config", default="v3-8")
    parser.add_argument("--bundles", default="v3", help="which of XLA's listings the folder must have")
    parser.add_argument("--kernels", type=int, default=0, metavar="N")
    parser.add_argument("--timeout", type=int, default=300, metavar="SECONDS", help="for one run")
    return parser.parse_args()


def cores_of(program):
    """Devices that the program was made for."""
    facts = program / "facts.json"
    return json.loads(facts.read_text()).get("devices", 1) if facts.exists() else 1


def run(options, program, compiler):
    """The JSON report of one step, or the first line of the error."""
    command = [options.tpusim, "run", program, "--config", options.config, "--cores", str(cores_of(program)),
               "--compiler", compiler, "--json", "-"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=options.timeout)
    except subprocess.TimeoutExpired:
        return None, f"no end within {options.timeout} s"
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines()
        return None, lines[0] if lines else f"exit code {done.returncode}"
    return json.loads(done.stdout), None


def print_kernels(reports, count):
    for compiler, report in reports.items():
        ops = sorted(report["ops"], key=lambda op: -op["cycles"])[:count]
        print(f"\n  {compiler}: {len(report['ops'])} ops")
        for op in ops:
            print(f"  {op['cycles']:>12,} {op['count']:>5} x {op['category'][:16]:<16} {op['name'][:70]}")


def main():
    options = arguments()
    names = options.programs or sorted(folder.name for folder in options.folder.iterdir())
    ratios = []
    print(f"{'program':<24} {'tpusim':>14} {'XLA':>14} {'ratio':>7}")
    for name in names:
        program = options.folder / name
        if not any(program.glob(f"{options.bundles}.bundles*")) or not any(program.glob("before.hlo*")):
            continue
        reports, errors = {}, []
        for compiler in ("tpusim", "xla"):
            report, error = run(options, program, compiler)
            if error:
                errors.append(f"{compiler}: {error}")
            else:
                reports[compiler] = report
        cycles = {compiler: report["steps"][-1]["cycles"] for compiler, report in reports.items()}
        cells = [f"{cycles[c]:>14,}" if c in cycles else f"{'-':>14}" for c in ("tpusim", "xla")]
        ratio = f"{'-':>7}"
        if len(cycles) == 2:
            ratios.append(cycles["tpusim"] / cycles["xla"])
            ratio = f"{ratios[-1]:>7.2f}"
        print(f"{name:<24} {cells[0]} {cells[1]} {ratio}", flush=True)
        for error in errors:
            print(f"  {error}")
        if options.kernels:
            print_kernels(reports, options.kernels)
    if ratios:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        print(f"{'geometric mean':<24} {'':>14} {'':>14} {mean:>7.2f}  of {len(ratios)}, worst {max(ratios):.2f}")
    return 0 if ratios else 1


if __name__ == "__main__":
    sys.exit(main())
