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
    ssd = ("[host]\nstorage_mb_per_s = 400\nstorage_latency_us = 500\nstorage_parallel_reads = 64\n"
           "[input]\nworkers = 64\n")
    torch = run("torch", ["v2-8", "hosts/tpu-vm", "datasets/imagenet"], "resnet50 --batch 1024", ssd)
    row("PyTorch/XLA's loader, 64 workers, SSD, v2-8 VM, images/s (pytorch/xla#3491)", "1,334",
        "%.0f" % torch["examples_per_s"], signed(torch["examples_per_s"], 1334),
        torch["host_verdict"][0].split(" bounds")[0] if torch["host_verdict"] else "the chips",
        "rates of disk and thread assumed; processes cost what threads do, which is not so")
    device = run("device", ["v2-8", "hosts/tpu-vm"], "resnet50 --batch 1024")
    row("the device of that row, images/s", "4,474", "%.0f" % device["examples_per_s"],
        signed(device["examples_per_s"], 4474), "the chips", "nothing chosen")
    colab = run("colab", ["v2-8", "hosts/colab-highram", "datasets/imagenet"],
                "resnet50 --dtype f32 --batch 256", "[input]\ncache = \"ram\"\nimages = 20000\n")
    rate = colab["examples_per_s"] * 224 * 224 * 3 * 4 / 1e6
    row("Colab's v2-8 Node, MB/s of fp32 into the TPU (pytorch/xla#3001; 82 to 109)", "95.5",
        "%.1f" % rate, signed(rate, 95.5), "network to the TPU", "the rate is the parameter")


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
    print("\nSilicon's infeed-bound steps of batch 8,192 and less are mostly 1.5 to 4 ms longer than ours, "
          "larger ones between 1 ms shorter and 6 ms longer: time of the host for a step, which no published "
          "figure takes apart and nothing here stands for.")


def shortest_step():
    print("\n## The shortest step\n")
    print("A tiny net on a v2-8, 2000 inputs, 4 layers of 128, batch 256; about 2 ms on silicon.\n")
    row("host's loop", "from step to step", "chips", "of that waits for infeed", "launch")
    row("---", "--:", "--:", "--:", "--:")
    shape = "mlp --dtype f32 --shape 2000x128x128x128x128x1000 --batch 256 --dataset 2560000 "
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
    print("\nThe bytes of the batch at 2.8 GB/s and the launch make it; with a loop of 100 steps a launch, "
          "1.2 of silicon's 2 ms are not explained (see above).")


def main():
    print("# Hosts\n\nMade by `" + re.sub(r"\s+", " ", "bench/host_rows.py build/tpusim [MEASURED.csv]") +
          "`.\n")
    outside_rows()
    if len(sys.argv) > 2:
        infeed_rows(sys.argv[2])
    shortest_step()


if __name__ == "__main__":
    main()
