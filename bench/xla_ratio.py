#!/usr/bin/env python3
"""Compares programs compiled by tpusim with the same programs compiled by XLA, on the simulated machine; those of several
devices on as many cores.

For every captured folder that has both the HLO before optimisation and XLA's bundles: cycles of one step, their
ratio, and the geometric mean of the ratios. With names, only these programs; with --kernels N also the N most
expensive kernels of both compilers, side by side. What our compiler refuses is listed by reason.

    bench/xla_ratio.py                                 all programs, v3
    bench/xla_ratio.py --config v2-8 --bundles v2      all programs, v2
    bench/xla_ratio.py mlp_b128 --kernels 15           one program, its kernels
    bench/xla_ratio.py --folder STEPS --half learn     the half of the captured steps to look at, with where the cycles go
    bench/xla_ratio.py --folder STEPS --half count     the other half: its mean and number of refusals, nothing of a step
"""

import argparse
import collections
import json
import math
import pathlib
import subprocess
import sys

from captured_steps import half_of, halves_of

ROOT = pathlib.Path(__file__).resolve().parent.parent


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", nargs="*", help="names of folders; default: all")
    parser.add_argument("--folder", type=pathlib.Path, default=ROOT.parent / "shared/xla/programs")
    parser.add_argument("--tpusim", type=pathlib.Path, default=ROOT / "build/tpusim")
    parser.add_argument("--config", default="v3-8")
    parser.add_argument("--bundles", default="v3", help="which of XLA's listings the folder must have")
    parser.add_argument("--kernels", type=int, default=0, metavar="N")
    parser.add_argument("--half", choices=("learn", "count"), help="of the steps of captured_steps.py")
    parser.add_argument("--timeout", type=int, default=300, metavar="SECONDS", help="for one run")
    return parser.parse_args()


def cores_of(program, chip):
    """Devices that the program was made for."""
    file = program / "facts.json"
    facts = json.loads(file.read_text()) if file.exists() else {}
    return facts.get("devices", facts.get(chip, {}).get("devices", 1))


def run(options, program, compiler):
    """The JSON report of one step, or what was said instead: its first line and the first of its list."""
    command = [options.tpusim, "run", program, "--config", options.config, "--cores", str(cores_of(program, options.bundles)),
               "--compiler", compiler, "--json", "-"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=options.timeout)
    except subprocess.TimeoutExpired:
        return None, f"no end within {options.timeout} s"
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines()
        return None, " ".join(line.strip() for line in lines[:2]) if lines else f"exit code {done.returncode}"
    return json.loads(done.stdout), None


def print_kernels(reports, count):
    for compiler, report in reports.items():
        ops = sorted(report["ops"], key=lambda op: -op["cycles"])[:count]
        print(f"\n  {compiler}: {len(report['ops'])} ops")
        for op in ops:
            print(f"  {op['cycles']:>12,} {op['count']:>5} x {op['category'][:16]:<16} {op['name'][:70]}")


def programs_of(options):
    """Folders with both, of the names or of the half."""
    names = options.programs or sorted(folder.name for folder in options.folder.iterdir() if folder.is_dir())
    halves = halves_of(options.folder)
    for name in names:
        program = options.folder / name
        if options.half and halves.get(name, half_of(name)) != options.half:
            continue
        if any(program.glob(f"{options.bundles}.bundles*")) and any(program.glob("before.hlo*")):
            yield program


def geometric_mean(ratios):
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def print_categories(totals):
    """Shares of a step by category of kernels, each program weighing the same: ours and XLA's in steps of XLA's."""
    print(f"\n{'category':<24} {'tpusim':>8} {'XLA':>8}   of XLA's step, in the mean over programs")
    programs = totals.pop("")["xla"]
    for category, shares in sorted(totals.items(), key=lambda item: -item[1]["tpusim"]):
        print(f"{category:<24} {shares['tpusim'] / programs:>8.3f} {shares['xla'] / programs:>8.3f}")


def main():
    options = arguments()
    silent = options.half == "count"
    ratios, refused = [], {}
    totals = collections.defaultdict(lambda: {"tpusim": 0.0, "xla": 0.0})
    if not silent:
        print(f"{'program':<24} {'tpusim':>14} {'XLA':>14} {'ratio':>7}")
    for program in programs_of(options):
        reports, errors = {}, {}
        for compiler in ("tpusim", "xla"):
            report, error = run(options, program, compiler)
            if error:
                errors[compiler] = error
            else:
                reports[compiler] = report
        cycles = {compiler: report["steps"][-1]["cycles"] for compiler, report in reports.items()}
        if "tpusim" in errors:
            refused[program.name] = errors["tpusim"].replace(str(program), "")
        if len(cycles) == 2:
            ratios.append(cycles["tpusim"] / cycles["xla"])
            totals[""]["xla"] += 1
            for compiler, report in reports.items():
                for op in report["ops"]:
                    totals[op["category"]][compiler] += op["cycles"] / cycles["xla"]
        if silent:
            continue
        cells = [f"{cycles[c]:>14,}" if c in cycles else f"{'-':>14}" for c in ("tpusim", "xla")]
        ratio = f"{ratios[-1]:>7.2f}" if len(cycles) == 2 else f"{'-':>7}"
        print(f"{program.name:<24} {cells[0]} {cells[1]} {ratio}", flush=True)
        for compiler, error in errors.items():
            print(f"  {compiler}: {error}")
        if options.kernels:
            print_kernels(reports, options.kernels)
    if not ratios:
        return 1
    print(f"{'geometric mean':<24} {'':>14} {'':>14} {geometric_mean(ratios):>7.2f}  of {len(ratios)}, "
          f"median {sorted(ratios)[len(ratios) // 2]:.2f}, worst {max(ratios):.2f}, {sum(r > 2 for r in ratios)} above 2, "
          f"{len(refused)} refused")
    if not silent:
        print_categories(totals)
        for name, error in refused.items():
            print(f"refused: {name}: {error}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
