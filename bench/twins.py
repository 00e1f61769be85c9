#!/usr/bin/env python3
"""The slow twins beside the forms that are used: cycles and CPU time of both on programs, and how many random programs the tests try. Prints Markdown.

    bench/twins.py [--program build/tpusim] > bench/twins.md
"""
import argparse
import json
import subprocess

MLP = ["mlp", "--cores", "1"]
RESNET = ["resnet50", "--cores", "1", "--batch", "8"]
# Detail, what both sides have in common, programs, largest difference in %.
TWINS = [
    ("core=interpret", [], [MLP, RESNET], 0),
    ("mxu=array", ["--values", "on"], [["mlp", "--cores", "1", "--batch", "64"], ["matmul", "--shape", "512x512x512", "--cores", "1"]], 0),
    ("hbm=command", [], [MLP, RESNET], 1),
    ("ici=packet", [], [["mlp"], ["mlp", "--config", "v3-32"]], 1),
    ("pod=full", [], [["mlp"], ["mlp", "--config", "v3-32"]], 0),
]
TESTS = """
| twin | random programs by default | more | agreement |
|---|--:|---|---|
| array, cell by cell | 200 | `TPUSIM_ARRAY_PROGRAMS=10000 build/models_tests --gtest_filter='SystolicArray.*'` | cycles, bits, faults |
| every bundle by itself | 400 | `TPUSIM_TWIN_PROGRAMS=10000 build/models_tests --gtest_filter='Twins.Interpreter*'` | cycles, counters, faults |
| HBM, every burst | 1000 sets of requests | `TPUSIM_HBM_REQUEST_SETS=10000 build/models_tests --gtest_filter='Hbm*'` | cycles |
| HBM, every command | 15 kinds of traffic | `build/hbm_twins` (`hbm_twins.md`) | each within its bound |
| interconnect, packets | all pairs, rings, hot spots, all-to-all | `ici_twins.md` | equal without contention, else within a bound |
| every core of a slice | 120 | `TPUSIM_FOLDED_PROGRAMS=3000 build/models_tests --gtest_filter='Folded.*'` | cycles, counters |
| every step of a long run (`pod=full`) | 180 | `TPUSIM_REPETITION_PROGRAMS=1000 build/models_tests --gtest_filter='Repetition.*'` | cycles, counters, accounts |"""


def figures(program, arguments):
    """Step cycles and CPU seconds of the machine."""
    command = [program, "run", *arguments, "--warmup", "0", "--json", "-"]
    run = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
    return run["steps"][0]["cycles"], run["simulator"]["run_cpu_s"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build/tpusim")
    program = parser.parse_args().program
    print("# The twins\n\nMade by `bench/twins.py`: first step, cycles of the longest core, CPU seconds of the machine alone.\n")
    print("| `--detail` | program | cycles | of the twin | difference | CPU s | of the twin |\n|---|---|--:|--:|--:|--:|--:|")
    beyond = []
    for detail, common, programs, bound in TWINS:
        for run in programs:
            cycles, seconds = figures(program, run + common)
            twin_cycles, twin_seconds = figures(program, run + common + ["--detail", detail])
            difference = 100 * (twin_cycles / cycles - 1)
            if abs(difference) > bound:
                beyond.append(f"{detail}, {' '.join(run)}: expected at most {bound} %, found {difference:.2f} %")
            print(f"| {detail} | `{' '.join(run + common)}` | {cycles:,} | {twin_cycles:,} | {difference:+.2f} % | {seconds:.3f} | {twin_seconds:.3f} |", flush=True)
    print(TESTS)
    if beyond:
        raise SystemExit("\n".join(beyond))


if __name__ == "__main__":
    main()
