#!/usr/bin/env python3
"""Collectives of eight and of 32 cores: XLA's bundles beside what tpusim compiles of the same module, as a table in Markdown.

Both run on the same machine and the same random inputs. A row has the time of a step, the CPU time of each simulation (values off), and
how far the outputs of both lie apart (relative L2; "equal" to the last bit; of arrays of at most a million elements). What one of them refuses stands in its row.

    bench/collectives.py ../shared/xla/ops > bench/collectives.md
"""

import argparse
import json
import math
import pathlib
import re
import resource
import signal
import subprocess
import tempfile

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
LARGEST_COMPARED = 1 << 20  # Elements of an array.
KINDS = ("all_gather", "all_reduce", "all_to_all", "permute", "reduce_scatter")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path, help="captured operations, a folder each")
    parser.add_argument("--tpusim", type=pathlib.Path, default=ROOT / "build/tpusim")
    parser.add_argument("--limit", type=int, default=60, help="CPU seconds that a run may take (60)")
    parser.add_argument("--all-values", action="store_true", help="compare outputs of large arrays, too (minutes)")
    return parser.parse_args()


def tpusim(options, folder, machine, compiler, *words):
    command = [options.tpusim, "run", folder, "--config", machine, "--compiler", compiler, *words]
    limit = lambda: resource.setrlimit(resource.RLIMIT_CPU, (options.limit, options.limit + 5))
    done = subprocess.run(command, capture_output=True, text=True, preexec_fn=limit)
    if done.returncode == -signal.SIGXCPU:
        done.stderr = f"not done in {options.limit} CPU s"
    return done


def time_of(options, folder, machine, compiler):
    """Milliseconds of a step, CPU seconds of the run; or what was said instead."""
    done = tpusim(options, folder, machine, compiler, "--json", "-")
    if done.returncode != 0:
        return None, None, done.stderr.strip().splitlines()[0]
    report = json.loads(done.stdout)
    return report["step_time_ms"]["mean"], report["simulator"]["run_cpu_s"], ""


def difference(options, folder, machine):
    """The largest relative distance of an output of one compiler from the other's."""
    with tempfile.TemporaryDirectory() as scratch:
        outputs = []
        for compiler in ("xla", "tpusim"):
            file = pathlib.Path(scratch) / f"{compiler}.npz"
            if tpusim(options, folder, machine, compiler, "--values", "on", "--outputs", file).returncode != 0:
                return "refused"
            outputs.append(np.load(file))
        xla, ours = outputs
        if sorted(xla.files) != sorted(ours.files):
            return "other outputs"
        largest = 0
        for name in xla.files:
            a, b = xla[name].astype(float), ours[name].astype(float)
            if a.shape != b.shape:  # Of one of them it is known how the cores' results lie side by side: the first one's.
                a, b = a[: min(len(a), len(b))], b[: min(len(a), len(b))]
            largest = max(largest, np.linalg.norm(b - a) / max(np.linalg.norm(a), 1e-30))
        return "equal" if largest == 0 else f"{largest:.0e}"


def elements(folder):
    shape = re.search(r"_(\d+(?:x\d+)*)_n", folder.name)
    return math.prod(int(extent) for extent in shape[1].split("x")) if shape else 1


def row(options, folder):
    machine = "v3-32" if folder.name.endswith("_n32") else "v3-8"
    xla_ms, xla_cpu, why_xla = time_of(options, folder, machine, "xla")
    our_ms, our_cpu, why_ours = time_of(options, folder, machine, "tpusim")
    name = folder.name.rsplit("_n", 1)[0]
    cells = [name, machine]
    for ms, why in ((xla_ms, why_xla), (our_ms, why_ours)):
        cells.append(f"{ms:.4g}" if ms is not None else why)
    is_whole = xla_ms is not None and our_ms is not None
    cells.append(f"{our_ms / xla_ms:.2f}" if is_whole else "")
    cells += [f"{cpu:.3f}" if cpu is not None else "" for cpu in (xla_cpu, our_cpu)]
    is_compared = is_whole and (options.all_values or elements(folder) <= LARGEST_COMPARED)
    cells.append(difference(options, folder, machine) if is_compared else "")
    return cells, our_ms / xla_ms if is_whole else None


def main():
    options = arguments()
    folders = [folder for kind in KINDS for folder in sorted(options.folder.glob(f"{kind}_*_n*"))]
    rows = [row(options, folder) for folder in folders]
    print("# Collectives: tpusim's programs beside XLA's bundles\n")
    print("`bench/collectives.py ../shared/xla/ops > bench/collectives.md`. Milliseconds of a step, CPU seconds of its simulation, distance of the outputs.\n")
    print("| collective | machine | XLA ms | tpusim ms | ratio | CPU s, XLA's | CPU s, tpusim's | outputs |")
    print("|---|---|--:|--:|--:|--:|--:|--:|")
    for cells, _ in sorted(rows, key=lambda each: -(each[1] or 0)):
        print("| " + " | ".join(cells) + " |")
    ratios = [ratio for _, ratio in rows if ratio is not None]
    print(f"\n{len(ratios)} of {len(rows)} run both ways; ratio of tpusim's time to XLA's: geometric mean {np.exp(np.mean(np.log(ratios))):.2f}, "
          f"worst {max(ratios):.2f}.")


if __name__ == "__main__":
    main()
