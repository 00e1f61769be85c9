#!/usr/bin/env python3
"""What hosts were measured to feed, beside ours: prints a table with the signed error of each row.

    bench/host_rows.py build/tpusim [MEASURED.csv] > bench/host_rows.md

With the file of measured rows also the fully connected nets on a v2-8 (PDT2) whose share of infeed is known.
"""

import csv
import json
import os
import re
import subprocess
import sys
import tempfile

PROGRAM = os.path.abspath(sys.argv[1])
FOLDER = tempfile.mkdtemp()


def run(name, base, words, settings=""):
    """The JSON report of a run on a machine of these parts."""
    path = os.path.join(FOLDER, name + ".toml")
    with open(path, "w") as file:
        file.write("base = [" + ", ".join('"%s"' % part for part in base) + "]\n" + settings)
    command = [PROGRAM, "run"] + words.split() + ["--config", path, "--json", "-"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise SystemExit(" ".join(command) + "\n" + done.stderr)
    return json.loads(done.stdout)


def signed(ours, theirs):
    return "%+.1f %%" % (100 * (ours / theirs - 1))


def row(*cells):
    print("| " + " | ".join(str(cell) for cell in cells) + " |")


def persistent_ssd_mb_per_s(gigabytes):
    """A zonal SSD disk of Google's: 0.48 MiB/s for each GiB of its size."""
    return 0.48 * gigabytes * 1e9 / 2**30 * 2**20 / 1e6


TORCH_HOST = ("[host]\nstorage_mb_per_s = %g\nstorage_latency_us = 500\nstorage_parallel_reads = 64\n"
              "hand_over_mb_per_s = 1000\n[input]\nworkers = 64\npage_cache = %s\n")


def torch_row(what, page_cache, measured, origin):
    """PyTorch/XLA: a process a core, each with loader processes and a thread that hands batches over."""
    settings = TORCH_HOST % (persistent_ssd_mb_per_s(200), page_cache)
    torch = run("torch", ["v2-8", "hosts/tpu-vm", "datasets/imagenet"], "resnet50 --batch 1024", settings)
    row(what, "%s" % format(measured, ",") if measured else "", "%.0f" % torch["examples_per_s"],
        signed(torch["examples_per_s"], measured) if measured else "",
        torch["host_verdict"][0].split(" bounds")[0] if torch["host_verdict"] else "the chips", origin)
    return torch["examples_per_s"]


def two_epochs():
    """What that command runs: two epochs, the first from the disk, the second out of the page cache."""
    training = run("torch", ["v2-8", "hosts/tpu-vm", "datasets/imagenet"],
                   "resnet50 --batch 1024 --dataset 1281167 --epochs 2 --drop-last on --scenario pytorch-xla",
                   TORCH_HOST % (persistent_ssd_mb_per_s(200), "true"))["training"]
    return training["steps"] * 1024 / training["seconds"]


def outside_rows():
    print("## Rates of input pipelines\n")
    row("row", "measured", "ours", "error", "what bounds ours", "how independent")
    row("---", "--:", "--:", "--:", "---", "---")
    # Small images, so that the chips never bound; files, decoding and augmentation are those of 224 x 224.
    vm = run("vm", ["v3-8", "hosts/tpu-vm", "datasets/imagenet"],
             "resnet50 --image 32 --batch 1024")
    row("tf.data, ImageNet from GCS, VM of 96 vCPU, images/s (PlumberApp; 8,212 to 10,899)", "9,400",
        "%.0f" % vm["examples_per_s"], signed(vm["examples_per_s"], 9400),
        vm["host_verdict"][0].split(" bounds")[0],
        "augmentation and parallel reads were chosen with this row in view")
    from_disk = torch_row(
        "PyTorch/XLA's loader, 64 workers, persistent SSD of 200 GB, v2-8 VM, images/s (pytorch/xla#3491): an epoch from the disk",
        "false", 1334,
        "0.48 MiB/s a GiB are Google's figure; the size is the one of pytorch/xla#2381, this user's is not told: "
        "1,334 are a disk of 313 GB")
    from_ram = torch_row(
        "the same, a later epoch: the page cache of the VM's 335 GiB holds all files", "true", 1334,
        "rate of a thread as above; 1 GB/s for laying a batch out, a thread a core, is assumed")
    told = two_epochs()
    row("the same, both epochs of the command that was told, with compilation and launches", "1,334", "%.0f" % told,
        signed(told, 1334), "read, then the chips", "the disk as two rows above; that 1,334 is the mean of both epochs is not told")
    device = run("device", ["v2-8", "hosts/tpu-vm"], "resnet50 --batch 1024")
    row("the device of that row, images/s", "4,474", "%.0f" % device["examples_per_s"],
        signed(device["examples_per_s"], 4474), "the chips", "nothing chosen")
    colab = run("colab", ["v2-8", "hosts/colab-highram", "datasets/imagenet"],
                "resnet50 --dtype f32 --batch 256", "[input]\ncache = \"ram\"\nimages = 20000\n")
    rate = colab["examples_per_s"] * 224 * 224 * 3 * 4 / 1e6
    row("Colab's v2-8 Node, MB/s of fp32 into the TPU (pytorch/xla#3001; 82 to 109)", "95.5",
        "%.1f" % rate, signed(rate, 95.5), "network to the TPU", "the rate is the parameter")
    epochs = (from_disk, from_ram, told)
    print("\n1,334 images/s are an epoch of \"around 16 min\". The command that was told runs two epochs on a VM that was just "
          "started, whose 335 GiB of RAM hold the 140 GB of files once they were read; which epoch took 16 minutes it does "
          "not say. Here an epoch takes %.1f min from the disk, %.1f out of the page cache, and %.1f in the mean of the two."
          % tuple(1281167 / 60 / rate for rate in epochs))


def silicon_step_ms(facts, utilisation):
    """Of a fully connected net: its FLOPs over what the profiler says of 180 TFLOP/s."""
    return 6.0 * facts["params"] * facts["global_batch"] / (utilisation / 100 * 180e12) * 1e3


def nets(path):
    found = {}
    for line in csv.DictReader(open(path)):
        if not line["id"].startswith("PDT2"):
            continue
        found.setdefault(line["workload"], {"facts": json.loads(line["params_json"])})
        found[line["workload"]][line["metric"]] = float(line["value"])
    return {name: net for name, net in found.items()
            if {"infeed_percent", "flops_utilisation"} <= set(net) and
            net["facts"]["hidden_layers"] <= 32 and net["facts"]["params"] < 50e6}


def net_words(facts):
    widths = [2000] + [facts["nodes"]] * facts["hidden_layers"] + [1000]
    return "mlp --dtype f32 --shape %s --batch %d" % ("x".join(map(str, widths)),
                                                      facts["global_batch"])


def infeed_rows(path):
    print("\n## Fully connected nets on a v2-8 (PDT2), `hosts/tpu-node-2018`\n")
    print("Silicon's step follows from its FLOPs and the utilisation that the profiler gave. Infeed: "
          "share of the step.\n")
    row("layers x width, batch", "silicon", "ours", "error", "infeed there", "infeed here", "same bound")
    row("---", "--:", "--:", "--:", "--:", "--:", "---")
    rows = []
    for net in nets(path).values():
        facts = net["facts"]
        report = run("node", ["v2-8", "hosts/tpu-node-2018", "datasets/none"], net_words(facts))
        theirs = silicon_step_ms(facts, net["flops_utilisation"])
        ours = report["step_time_ms"]["mean"]
        infeed = 100 * (report["breakdown"]["infeed_wait"] + report["breakdown"]["peer_host_wait"])
        same = (infeed > 50) == (net["infeed_percent"] > 50)
        rows.append((net["infeed_percent"], "%d x %d, %d" % (facts["hidden_layers"], facts["nodes"],
                                                             facts["global_batch"]),
                     "%.1f ms" % theirs, "%.1f ms" % ours, signed(ours, theirs),
                     "%.1f %%" % net["infeed_percent"], "%.1f %%" % infeed, "yes" if same else "no"))
    for cells in sorted(rows, reverse=True):
        row(*cells[1:])
    errors = sorted(abs(float(cells[4].split()[0])) for cells in rows if cells[0] > 50)
    print("\nOf the %d rows that wait for infeed more than half of their step: median error %.1f %%, worst %.1f %%. "
          "The rows do not tell the type of their inputs; f32 here, 8,004 bytes an example. The other rows are "
          "programs of 2018's compiler, which take twice as long as ours."
          % (len(errors), errors[len(errors) // 2], errors[-1]))


def small_nets_of(path):
    """Nets of at most 8 layers of 128: their arithmetic takes no time beside their input."""
    found = []
    for line in csv.DictReader(open(path)):
        facts = json.loads(line["params_json"]) if line["id"].startswith("PDN2") else {}
        if facts.get("hidden_layers", 99) <= 8 and facts.get("nodes", 999) <= 128:
            found.append(dict(facts, ms=float(line["value"]), odd=int(line["id"][-1]) % 2 == 1))
    return found


def parts_of(net):
    """What a step is said to be a sum of: a constant, elements of inputs and of classes."""
    return [1.0, net["global_batch"] * net["input"], net["global_batch"] * net["output"]]


def least_squares(nets):
    """Milliseconds of each of the parts, with the least sum of squared relative errors."""
    rows = [[part / net["ms"] for part in parts_of(net)] + [1.0] for net in nets]
    system = [[sum(row[i] * row[j] for row in rows) for j in range(4)] for i in range(3)]
    for i in range(3):
        system[i] = [cell / system[i][i] for cell in system[i]]
        for k in range(3):
            if k != i:
                system[k] = [a - system[k][i] * b for a, b in zip(system[k], system[i])]
    return [line[3] for line in system]


def larger_part(net, constant, scale, parts):
    """The step if its constant and its bytes overlapped."""
    return max(constant, scale * sum(a * b for a, b in zip(parts[1:], parts_of(net)[1:])))


def overlapped(nets, parts):
    """Constant and scale with which the larger of both times fits best."""
    candidates = [(0.05 * c, 0.02 * s) for c in range(20, 120) for s in range(35, 75)]
    return min(candidates, key=lambda pair: sum((larger_part(net, *pair, parts) / net["ms"] - 1) ** 2 for net in nets))


def errors_of(pairs):
    """Count, median and worst of the errors of (ours, theirs)."""
    errors = sorted((abs(ours / theirs - 1), ours / theirs - 1) for ours, theirs in pairs)
    return len(errors), "%.1f %%" % (100 * errors[len(errors) // 2][0]), "%+.1f %%" % (100 * errors[-1][1])


def small_nets(path):
    """Steps as they were measured, not from a utilisation, of nets that the host bounds."""
    print("\n## Small nets on a v2-8 (PDN2), bf16, `hosts/tpu-node-2018`\n")
    every = small_nets_of(path)
    chosen, judged = [net for net in every if net["odd"]], [net for net in every if not net["odd"]]
    parts = least_squares(chosen)
    print("A step as a constant, the bytes of its inputs and its classes, one behind the other. By least squares over the %d rows of odd "
          "numbers: %.2f ms, %.0f MB/s of bf16, %.2f ns a class and example; `host.hand_over_us` and `host.network_mb_per_s` are the first two. "
          "Silicon beside that sum, and beside the run of each net of an even number:\n"
          % (len(chosen), parts[0], 2 / parts[1] / 1e3, parts[2] * 1e6))
    row("rows", "how many", "median error", "worst")
    row("---", "--:", "--:", "--:")
    of = lambda nets: [(sum(a * b for a, b in zip(parts, parts_of(net))), net["ms"]) for net in nets]
    row("sum, rows it was chosen on", *errors_of(of(chosen)))
    row("sum, the others", *errors_of(of(judged)))
    best = overlapped(chosen, parts)
    row("larger of both times, the others", *errors_of([(larger_part(net, *best, parts), net["ms"]) for net in judged]))
    for net in judged:
        shape = "x".join(map(str, [net["input"]] + [net["nodes"]] * net["hidden_layers"] + [net["output"]]))
        net["ours"] = run("node", ["v2-8", "hosts/tpu-node-2018", "datasets/none"],
                          "mlp --dtype bf16 --shape %s --batch %d" % (shape, net["global_batch"]))["step_time_ms"]["mean"]
    runs = lambda holds: [(net["ours"], net["ms"]) for net in judged if holds(net)]
    row("runs, the others", *errors_of(runs(lambda net: True)))
    for outputs in sorted({net["output"] for net in judged}):
        row("those of %d classes" % outputs, *errors_of(runs(lambda net: net["output"] == outputs)))
    row("those of a batch of 64", *errors_of(runs(lambda net: net["global_batch"] == 64)))
    row("those of larger batches and 200 classes", *errors_of(runs(lambda net: net["global_batch"] > 64 and net["output"] == 200)))
    print("\nThat constant and bytes add up, and do not overlap, has a reason: TPUEstimator of TensorFlow 1, given an input function "
          "that returns arrays, as ParaDnn's does, calls `session.run` for each step from a loop of Python; a call makes, splits and "
          "enqueues the inputs and ends before the next begins (with a dataset the loop runs on the chips' host). How the %.2f ms divide "
          "into the call and the making of inputs is not told. The time of classes stands for nothing here: the published script sends "
          "labels as a number an example, so steps of 1,000 classes come out too short. A batch of 64 took silicon up to 4.1 ms, longer "
          "than twice as many examples: no constant says that." % parts[0])


def shortest_step():
    print("\n## The shortest step\n")
    print("A tiny net on a v2-8, bf16, 2000 inputs, 4 layers of 128, 1000 classes, batch 256; 2.7 ms on silicon (PDN2), the shortest of "
          "all rows 2.0 ms.\n")
    row("host's loop", "from step to step", "chips", "of that waits for infeed", "launch")
    row("---", "--:", "--:", "--:", "--:")
    shape = "mlp --dtype bf16 --shape 2000x128x128x128x128x1000 --batch 256 --dataset 2560000 "
    for scenario, flags in (("tf-estimator", ""), ("tf-estimator", "--iterations-per-loop 1"),
                            ("pytorch-xla-node", "")):
        report = run("node", ["v2-8", "hosts/tpu-node-2018", "datasets/none"],
                     shape + "--between compile.base_s=0 --between compile.ms_per_instruction=0 "
                     "--scenario " + scenario + " " + flags)
        training = report["training"]
        part = lambda cause: "%.2f ms" % (training["causes"].get(cause, 0) * 1e3 *
                                          training["seconds"] / training["steps"])
        row((scenario + " " + flags).strip(), "%.2f ms" % training["step_to_step_ms"]["mean"],
            part("steps"), "%.0f %%" % (100 * (report["breakdown"]["infeed_wait"] +
                                               report["breakdown"]["peer_host_wait"])),
            part("launch"))
    print("\nThe same net's step by parts, in a loop of the chips:\n")
    row("host", "step")
    row("---", "--:")
    for what, settings in (("none: the chips alone", "network_mb_per_s = 0\nhand_over_us = 0"),
                           ("the bytes at 2.85 GB/s", "hand_over_us = 0"), ("and the thread that hands a batch over, 2.28 ms", "")):
        report = run("parts", ["v2-8", "hosts/tpu-node-2018", "datasets/none"], shape.split(" --dataset")[0], "[host]\n" + settings + "\n")
        row(what, "%.2f ms" % report["step_time_ms"]["mean"])
    print("\nThe thread is the host's call of a session for each step (see above).")


def main():
    print("# Hosts\n\nMade by `" + re.sub(r"\s+", " ", "bench/host_rows.py build/tpusim [MEASURED.csv]") +
          "`.\n")
    outside_rows()
    if len(sys.argv) > 2:
        infeed_rows(sys.argv[2])
        small_nets(sys.argv[2])
    shortest_step()


if __name__ == "__main__":
    main()
