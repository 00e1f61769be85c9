#!/usr/bin/env python3
"""How the simulator's own time and memory grow with what is simulated: batch, layers, steps, chips. Prints Markdown.

    bench/scaling_curves.py [--program build/tpusim] > bench/scaling_curves.md
"""
import argparse
import json
import math
import subprocess

CURVES = {
    "batch of ResNet-50, one core": [["resnet50", "--cores", "1", "--batch", str(batch)] for batch in (8, 16, 32, 64, 128)],
    "layers of the transformer, one core": [["transformer", "--cores", "1", "--layers", str(layers)] for layers in (2, 4, 8, 16)],
    "steps of the MLP, one core": [["mlp", "--cores", "1", "--steps", str(steps)] for steps in (10, 100, 1000, 10000)],
    "chips, the MLP": [["mlp", "--config", config] for config in ("v3-8", "v3-32", "v3-64")],
    "chips, every core by itself, the MLP": [["mlp", "--config", config, "--detail", "pod=full"] for config in ("v3-8", "v3-32", "v3-64")],
}


def figures(program, arguments):
    """Cycles, CPU seconds of compiling and of the machine, MiB of a run."""
    text = subprocess.run([program, "run", *arguments, "--warmup", "0", "--json", "-"], stdout=subprocess.PIPE, check=True).stdout
    simulator = json.loads(text)["simulator"]
    return (simulator["core_cycles"], simulator["compile_cpu_s"], simulator["run_cpu_s"], simulator["peak_rss_bytes"] / 2**20)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build/tpusim")
    program = parser.parse_args().program
    print("# Scaling curves\n\nMade by `bench/scaling_curves.py`, first step, values off. The exponent is that of the machine's CPU time between")
    print("the first and the last row: 1 is proportional to what the row counts (cycles of all cores).")
    for name, runs in CURVES.items():
        print(f"\n## {name}\n\n| run | cycles of all cores | compiling, CPU s | machine, CPU s | MiB |\n|---|--:|--:|--:|--:|")
        rows = [figures(program, run) for run in runs]
        for run, row in zip(runs, rows):
            print(f"| `{' '.join(run)}` | {row[0]:,} | {row[1]:.3f} | {row[2]:.3f} | {row[3]:.0f} |")
        growth = math.log(rows[-1][2] / rows[0][2]) / math.log(rows[-1][0] / rows[0][0])
        print(f"\nExponent of the machine's time: {growth:.2f}")


if __name__ == "__main__":
    main()
