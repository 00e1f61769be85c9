#!/usr/bin/env python3
"""What users of TPUs have written about speed, each sentence beside a run: prints a table, and fails where one came out otherwise than it says.

The users: A, Wabinab's TPU_utility (a Kaggle notebook, PyTorch/XLA); B, PyTorch Lightning's pages on TPUs; C, a tutorial of PyTorch on TPUs in
Chinese (BigGAN); D, "TPU Starter" (JAX). A sentence with a figure holds where the run is within what the sentence leaves open; one of an order
(slower, fewer) where the run has that order. One that does not hold says why, and fails once it does.

    bench/users_sentences.py build/tpusim > bench/users_sentences.md
"""

import functools
import json
import pathlib
import subprocess
import sys
import tempfile

PROGRAM = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "build/tpusim").resolve()
FOLDER = pathlib.Path(tempfile.mkdtemp())


@functools.lru_cache(maxsize=None)
def run(words, machine="v3-8"):
    """The report of a run. `machine`: a name, or names of parts with settings behind a semicolon each."""
    if "+" in machine:
        bases, *settings = machine.split(";")
        path = FOLDER / f"{abs(hash(machine))}.toml"
        path.write_text("base = [" + ", ".join(f'"{base}"' for base in bases.split("+")) + "]\n")
        machine = [str(path)] + [word for setting in settings for word in ("--set", setting)]
    else:
        machine = [machine]
    done = subprocess.run([PROGRAM, "run", *words.split(), "--config", *machine, "--json", "-"], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{words} on {machine}: {done.stderr}")
    return json.loads(done.stdout)


KAGGLE_FLY = "v3-8+hosts/kaggle+datasets/large-jpegs"
KAGGLE_CACHED = "v3-8+hosts/kaggle+datasets/large-jpegs-cached"
KAGGLE_IMAGENET = "v3-8+hosts/kaggle+datasets/imagenet"
COMPILED = " --between compile.base_s=0 --between compile.ms_per_instruction=0"


def rate(words, machine="v3-8"):
    return run(words, machine)["examples_per_s"]


def idle(words, machine="v3-8"):
    return 100 * run(words, machine)["idle_fraction"]


def mxu(words, machine="v3-8"):
    return 100 * run(words, machine)["utilization"]["mxu"]


def training(words, machine="v3-8"):
    return run(words, machine)["training"]


def epochs(dataset):
    """Minutes of 4 epochs of 818 images; those of the cache begin with one that fills it."""
    return training("resnet50 --batch 64 --dataset 818 --epochs 4 --scenario kaggle-notebook", dataset)["seconds"] / 60


def peak_tflops(machine):
    core = run("mlp --steps 1", machine)["parameters"]
    mxu_of = core["core"]["mxu"]
    return 2 * mxu_of["count"] * mxu_of["rows"] * mxu_of["columns"] * core["clock_mhz"] * 1e6 / 1e12


def useful_tflops(words, machine="v3-8"):
    """Of a core: what the model needs, padding apart."""
    report = run(words, machine)
    return report["flops"]["model"] / report["step_time_ms"]["mean"] / 1e9


def compilation_s(words):
    whole = training(words)
    return whole["causes"]["compilation"] * whole["seconds"]


def per_vcpu(vcpus):
    return idle("resnet50 --batch 1024", f"{KAGGLE_IMAGENET};host.vcpus={vcpus};host.storage_parallel_reads=1024;host.storage_mb_per_s=2000")


def steps_ms(words, machine="v3-8"):
    return training("mlp --batch 1024 --dataset 1024000 --scenario pytorch-xla " + words + COMPILED, machine)["step_to_step_ms"]["mean"]


def shapes_s(dataset):
    """Of an epoch whose last batch is of another shape, or is not."""
    return training(f"mlp --batch 1024 --scenario pytorch-xla --dataset {dataset}")["seconds"]


# Who, the sentence, their figure, ours, its unit, from, to, why it does not hold.
def sentences():
    large = "resnet50 --batch 64"
    yield "A", "TPU v2: 180 TFLOP/s a board of four chips", "180", 8 * peak_tflops("v2-8"), "TFLOP/s", 178, 184, ""
    yield "A", "TPU v3: 420 TFLOP/s a board", "420", 8 * peak_tflops("v3-8"), "TFLOP/s", 410, 500, ""
    yield "A", "4 vCPUs, augmentation of 2 to 2.5 s an image on the CPU: 99 % idle", "99", idle(large, KAGGLE_FLY), "%", 98.5, 100, ""
    yield "A", "the chips work for less than a second, then wait 1.5 minutes (a batch of 32 on one worker: 1.2 to 1.5)", "1.2 to 1.5", \
        run("resnet50 --batch 32", KAGGLE_FLY + ";input.workers=1")["step_time_ms"]["mean"] / 6e4, "min a step", 1.07, 1.5, ""
    yield "A", "zero percent MXU", "0.0", mxu(large, KAGGLE_FLY), "%", 0, 0.05, ""
    yield "A", "cached and presized: idle 75 % on average", "75", idle(large, KAGGLE_CACHED), "%", 70, 80, \
        "the host takes what it took, and the compiler's program of the step 5 % less than when this was 79 %"
    yield "A", "cached and presized: 5 % MXU", "5", mxu(large, KAGGLE_CACHED), "%", 4, 6, ""
    yield "A", "an epoch on the fly takes 7.5 minutes", "7.5", epochs(KAGGLE_FLY) / 4, "min", 7.2, 7.8, ""
    yield "A", "cached: 7.5 to about 2 minutes, some four times faster (four epochs, the first fills the cache)", "3.75", \
        epochs(KAGGLE_FLY) / epochs(KAGGLE_CACHED), "times", 3, 4.6, ""
    yield "A", "with 16 vCPUs at least data comes fast enough (idle with 16; ImageNet's files)", "little", per_vcpu(16), "%", 0, 10, \
        "16 vCPUs decode 1,764 images/s, a v3-8 takes 7,500: ResNet-50 on images of this size needs 70"
    yield "A", "ideally 24 (idle with 24)", "little", per_vcpu(24), "%", 0, 10, "as above"
    yield "A", "fewer vCPUs starve the chips more (idle with 4 less idle with 24)", "above 0", per_vcpu(4) - per_vcpu(24), "points", 5, 100, ""
    yield "A", "40 vCPUs of Colab fully utilise a v2 (idle; ImageNet's files, read from RAM)", "little", \
        idle("resnet50 --batch 1024", "v2-8+hosts/colab-highram+datasets/imagenet;host.storage_mb_per_s=2000;host.storage_latency_us=100"), \
        "%", 0, 10, \
        "the network to a TPU Node of Colab, 95 MB/s, lets 316 images/s through"
    yield "A", "batches of 32 under-utilise the chips, 64 is better (useful FLOPs a second, 64 a core over 32)", "above 1", \
        useful_tflops("resnet50 --batch 512") / useful_tflops("resnet50 --batch 256"), "times", 1.02, 3, ""
    yield "A", "v2 is slower than v3", "above 1", rate("resnet50 --batch 1024") / rate("resnet50 --batch 1024", "v2-8"), "times", 1.4, 2.3, ""
    yield "A", "on Kaggle's host v3 gains nothing over v2", "1", \
        rate(large, KAGGLE_FLY) / rate(large, KAGGLE_FLY.replace("v3-8", "v2-8")), "times", 0.99, 1.01, ""
    yield "A", "560,000 small files of 10 GB come slower than 100 large ones (examples of 18 kB over four reads; 100 MB each)", "far", \
        run("mlp --batch 1024", "v3-8+hosts/kaggle;input.images=560000;input.file_bytes=18000")["step_time_ms"]["mean"] / (1024 * 18000 / 1e5), \
        "times", 3, 1e9, ""
    yield "B", "too small batches are slow (examples/s of 1,024 over those of 8)", "above 1", \
        rate("resnet50 --batch 1024") / rate("resnet50 --batch 8"), "times", 2, 1e9, ""
    yield "B", "tensor.item() in each step is slow (step to step, with over without)", "above 1", \
        steps_ms("--loss-every 1") / steps_ms("--loss-every 0"), "times", 1.02, 100, ""
    yield "B", "shapes that change recompile (an epoch of 1,024 and one that leaves 8: seconds more)", "1.2, median of a compilation", \
        shapes_s(1024 * 20 + 8) - shapes_s(1024 * 20), "s", 0.6, 3.5, ""
    yield "B", "XLA compiles during the first steps: CompileTime 1.23 s (median)", "1.23", \
        compilation_s("mlp --batch 1024 --dataset 10240 --scenario pytorch-xla"), "s", 0.37, 2.5, ""
    yield "B", "operations that fall back to the CPU are slow (one a step, 4 kB; with over without)", "above 1", \
        steps_ms("--between fallback.per_step=1 --between fallback.bytes=4096") / steps_ms(""), "times", 1.02, 100, ""
    yield "B, D", "a program that does not spread its work uses one core of eight (examples/s, 8 cores over 1)", "8", \
        rate("resnet50 --batch 1024") / rate("resnet50 --batch 128 --cores 1"), "times", 7, 8.01, ""
    yield "B", "v3-8, BERT base of 32 sequences: one TPU is about 5 V100 (125 TFLOP/s each; useful TFLOP/s of a v3-8)", "below 625", \
        8 * useful_tflops("bert --batch 1024"), "TFLOP/s", 100, 625, ""
    yield "C", "systolic arrays of 128 x 128 in a chip of v2: 32,768 multipliers", "32768", \
        2 * 128 * 128 * run("mlp --steps 1", "v2-8")["parameters"]["core"]["mxu"]["count"], "", 32767, 32769, ""
    yield "C", "n1-highmem-96 feeds faster than n1-standard-16 (images/s)", "above 1", \
        rate("resnet50 --batch 1024", "v3-8+hosts/n1-highmem-96+datasets/imagenet") / \
        rate("resnet50 --batch 1024", "v3-8+hosts/n1-standard-16+datasets/imagenet"), "times", 1.05, 6, ""
    yield "C", "a core of v2 is about a V100 (125 TFLOP/s, 15.7 of them in f32; useful TFLOP/s of the core on ResNet-50)", "15 to 125", \
        useful_tflops("resnet50 --batch 128 --cores 1", "v2-8"), "TFLOP/s", 15, 125, \
        "half of its 22.5 TFLOP/s: as much as a V100 in f32, a fifth of one in its tensor cores"
    yield "C", "fairseq's transformer, RoBERTa and BigGAN run on a v3-8 (examples/s of the slowest)", "above 0", \
        min(rate("fairseq-transformer --batch 128"), rate("roberta --batch 16"), rate("biggan --batch 64")), "examples/s", 1, 1e9, ""
    yield "D", "one batch took 14 s on a CPU and over 4 hours with PyTorch on a TPU (programs of BERT's size that are compiled in 4 hours)", \
        "", \
        14400 / compilation_s("bert --batch 64 --dataset 640 --scenario pytorch-xla"), "compilations", 100, 10000, ""
    yield "D", "np.dot of 10000x100000 by 100000x10000 in f32, one core (its two MXUs' time for it: 0.325 s)", "", \
        run("matmul --shape 10000x100000x10000 --cores 1")["step_time_ms"]["mean"] / 1e3, "s", 0.325, 0.5, ""


def number(value):
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def main():
    print("# What users say about speed\n\nMade by `bench/users_sentences.py build/tpusim`, which names the users and the runs.\n")
    print("| who | sentence | theirs | here | holds |\n|---|---|--:|--:|---|")
    wrong, count, holding = [], 0, 0
    for who, sentence, theirs, ours, unit, low, high, why in sentences():
        holds = low <= ours <= high
        count, holding = count + 1, holding + holds
        if holds == bool(why):
            wrong.append(f"{sentence}: {number(ours)} {unit}, expected {'outside of ' if why else ''}{low} to {high}")
        print(f"| {who} | {sentence} | {theirs} | {number(ours)} {unit} | {'yes' if holds else 'no: ' + why} |", flush=True)
    print(f"\n{holding} of {count} hold.")
    if wrong:
        raise SystemExit("\n".join(wrong))


if __name__ == "__main__":
    main()
