#!/usr/bin/env python3
"""Slices beside published measurements: ResNet-50 on all cores of v2-8 to v3-1024, and all-reduces of v2-8.

A row of `measured.csv` each, signed error, worst first. ResNet-50 is compiled by tpusim; steps of MLPerf's rows include
the host's input, and evaluation (1 to 2 %) where the row says so. Beside rows of more than 10 M parameters whose net did
not wait for its infeed stand the all-reduces of its weights and biases, one tensor after the other, as silicon's compiler
of 2018 did it, and joined into one, as ours does.

    bench/pods.py > TABLE.md         80 s of CPU time
"""

import argparse
import csv
import functools
import json
import pathlib
import re
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Row, machine, examples on all cores.
RESNET = [("MLP2-0007", "v2-8", 1024), ("MLP3-0091", "v3-32", 4096), ("MLP3-0031", "v3-128", 16384), ("MLP3-0018", "v3-1024", 32768)]
LEAST_PARAMETERS = 10_000_000
V3_TO_V2 = 1.67  # Of one board, published with the chips: shared/hardware.md.


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--measured", type=pathlib.Path, default=ROOT.parent / "shared/measured/measured.csv")
    parser.add_argument("--tpusim", type=pathlib.Path, default=ROOT / "build/tpusim")
    return parser.parse_args()


def report(tpusim, *words):
    done = subprocess.run([tpusim, "run", *words, "--json", "-"], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def resnet_ms(options, machine, batch):
    return report(options.tpusim, "resnet50", "--config", machine, "--batch", str(batch))["step_time_ms"]["mean"]


def tensors(workload, facts):
    """Elements of each weight matrix and each bias of a fully connected net."""
    layers, nodes, inputs, outputs = (int(re.search(rf"{word}_(\d+)", workload)[1]) for word in ("layer", "node", "input", "output"))
    widths = [inputs] + [nodes] * layers + [outputs]
    sizes = [a * b for a, b in zip(widths, widths[1:])] + widths[1:]
    if len(sizes) != facts["tensors"] or sum(sizes) != facts["params"]:
        raise SystemExit(f"{workload}: {len(sizes)} tensors of {sum(sizes)} parameters, the row says {facts['tensors']} of {facts['params']}")
    return sizes


@functools.lru_cache(maxsize=None)
def all_reduce_ms(tpusim, parameters):
    text = ("HloModule sum, replica_count=8\nadd {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n"
            "  ROOT c = f32[] add(a, b)\n}\nENTRY main {\n"
            f"  x = f32[{parameters}] parameter(0)\n  ROOT r = f32[{parameters}] all-reduce(x), to_apply=add\n}}\n")
    with tempfile.NamedTemporaryFile("w", suffix=".hlo") as file:
        file.write(text)
        file.flush()
        ops = report(tpusim, file.name, "--config", "v2-8")["ops"]
    return sum(op["time_ms"] for op in ops if op["category"] == "all-reduce")


def rows(options):
    measured = {row["id"]: row for row in csv.DictReader(options.measured.open())}
    alone = {}
    for number, machine, batch in RESNET:
        facts = json.loads(measured[number]["params_json"])
        includes = " (train+eval)" if "eval" in measured[number]["workload"] else ""
        alone[machine] = resnet_ms(options, machine, batch)
        yield number, f"ResNet-50, {batch} on {machine}{includes}, ms", facts["step_ms"], alone[machine]
    yield "ratio", "ResNet-50, 1024, v3-8 to v2-8", V3_TO_V2, alone["v2-8"] / resnet_ms(options, "v3-8", 1024)
    for number, row in measured.items():
        if row["category"] != "allreduce" or not number.startswith("PDA2"):
            continue
        facts = json.loads(row["params_json"])
        if facts.get("params", 0) > LEAST_PARAMETERS and facts.get("infeed_perc", 100) < 1 and row["unit"] == "ms":
            joined = all_reduce_ms(options.tpusim, facts["params"])
            each = sum(all_reduce_ms(options.tpusim, size) for size in tensors(row["workload"], facts))
            yield (number, f"all-reduce of {facts['params'] / 1e6:.1f} M on v2-8, {facts['tensors']} tensors (joined: {joined:.4g}), ms",
                   float(row["value"]), each)


def main():
    options = arguments()
    table = [(number, what, silicon, here, here / silicon - 1) for number, what, silicon, here in rows(options)]
    table.sort(key=lambda row: -abs(row[4]))
    print("| row | what | silicon | here | error |\n|---|---|--:|--:|--:|")
    for number, what, silicon, here, error in table:
        print(f"| {number} | {what} | {silicon:.4g} | {here:.4g} | {100 * error:+.1f} % |")
    reduces = [abs(row[4]) for row in table if "all-reduce" in row[1]]
    print(f"\n{sum(error <= 0.25 for error in reduces)} of {len(reduces)} all-reduces within 25 %.")


if __name__ == "__main__":
    main()
