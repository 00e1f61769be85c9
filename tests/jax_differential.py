#!/usr/bin/env python3
"""Random JAX programs, computed by tpusim and by JAX on the CPU.

    tests/jax_differential.py --count 1000 --tpusim build/tpusim
    tests/jax_differential.py --only 417 --keep /tmp/x      one program again, its files kept
    tests/jax_differential.py --nested --cycles             gradients of scans, vmaps of gradients; cycles, too
    tests/jax_differential.py --mixed                       floats, integers and predicates together; indices from data
    tests/jax_differential.py --images                      convolutions with an expression behind them, and their gradients
    tests/jax_differential.py --windows                     sums, means and maxima of windows of any size, and their gradients
    tests/jax_differential.py --models                      small models of layers in any order, and the gradients of all weights
    tests/jax_differential.py --structures                  one operation of any places, windows, orders and types, or a loop; derivatives and batches of it
    tests/jax_differential.py --libraries                   training steps of flax, equinox, Haiku and Keras, with optax's losses and optimisers
    tests/jax_differential.py --nets                        the training steps that bench/programs/drawn_nets.py draws, smaller
    tests/jax_differential.py --functions                   the functions of jax.numpy, jax.nn, jax.lax, jax.scipy, optax, flax by name

Each program is a function of its seed: one to eight operations of jax.numpy and jax.lax at random shapes and types,
a third of them behind a gradient, a vmap or a scan. It is lowered by JAX as it is, compiled and run by tpusim with
values on. Both results are compared with those of the same function in fp64: tpusim may be 20 times as far away as JAX,
or 1e-4 (bf16: 2e-2; convolutions of --images at default precision: 6e-3). Other products run at the highest precision, and functions with steps (floor, comparisons, sorts) see
inputs that both sides hold exactly. What differs is compared once more, with JAX operation by operation: compiled, it leaves out roundings that the program asks
for, and has bugs. Ends with a table, the seeds of what differs, and exit code 1 if there are any.

With --orders each program is StableHLO that states how what it takes and gives lies.
With --cycles the first step of each program takes the same time with values on and off, by blocks and bundle by bundle.

Needs jax and flax (pip install jax flax); without it, exit code 77.
"""
import argparse
import collections
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile

os.environ["JAX_PLATFORMS"] = "cpu"
# Each program is compiled for two runs of a moment: a fifth of the time went into making them fast. At level 0 some
# gradients are NaN; YNNPACK refuses some reductions, and ends the process at others (jaxlib 0.10.2).
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=1 --xla_llvm_disable_expensive_passes=true "
                                   "--xla_cpu_use_xnnpack=false --xla_cpu_experimental_ynn_fusion_type=")
try:
    import jax
    import ml_dtypes
    import numpy as np
    from jax_functions import FUNCTIONS, FunctionProgram
    from jax_libraries import LibraryProgram
    from jax_mixed_programs import MixedProgram
    from jax_models import ModelProgram
    from jax_nets import NetProgram
    from jax_programs import ImageProgram, Program, WindowProgram
    from jax_structures import StructureProgram
except ImportError as error:
    print(f"no jax: {error}")
    sys.exit(77)

# What tpusim says of programs that it does not claim to run; the text is part of its message.
EXPLAINED = {
    "has no kernel": "no kernel, said so",
    "have no kernel": "no kernel, said so",
    "Ran out of memory": "does not fit",
}


def plain(array):
    """As numpy stores it without ml_dtypes."""
    array = np.asarray(array)
    return array.view("V2") if array.dtype == ml_dtypes.bfloat16 else array


def exact(program):
    """The results of the same function in fp64; integers stay what they are."""
    with jax.enable_x64(True):
        arguments = [a if a.dtype.kind in "iub" else np.asarray(a, np.float64) for a in program.arguments]
        return [np.asarray(o, np.float64) for o in jax.tree_util.tree_leaves(jax.jit(program.exactly)(*arguments))]


def one_by_one(program):
    """The results of JAX operation by operation, each rounded to its type."""
    with jax.disable_jit():
        return [np.asarray(o, np.float64) for o in jax.tree_util.tree_leaves(program(*program.arguments))]


def distance(a, b, least):
    """Relative L2; elements below `least` in the mean, zeros but for rounding, count in absolute terms."""
    scale = max(np.linalg.norm(b.ravel()), least * max(b.size, 1) ** 0.5)
    return float(np.linalg.norm((np.asarray(a, np.float64) - b).ravel()) / scale)


def close_enough(mine, other, least, allowed):
    """Whether tpusim is so near to JAX that what fp64 says can't change the judgement: half of what is allowed.

    With both that near, tpusim is within `allowed` of fp64, or JAX is half of that away and tpusim at most twice as far.
    """
    return distance(other, np.asarray(mine, np.float64), least) <= allowed / 2.1


def compare(outputs, theirs, program):
    """What differs by more than the type explains, or than 20 times what JAX itself is away from fp64.

    Numbers of integer types and predicates have to be the same.
    """
    messages = []
    references = rounded = carried = None
    short = any(a.dtype == ml_dtypes.bfloat16 for a in program.arguments)
    least_of, allowed = (1e-2, 2e-2) if short else (program.least(outputs), program.allowed)
    theirs = [theirs[f"out_{i:03}"] for i in range(len(outputs))]
    theirs = [o.view(ml_dtypes.bfloat16) if o.dtype.kind == "V" else o for o in theirs]
    for i, (mine, other) in enumerate(zip(program.compared(outputs), program.compared(theirs))):
        least = least_of[i] if isinstance(least_of, list) else least_of
        if other.shape != mine.shape or other.dtype != mine.dtype:
            messages.append(f"out_{i:03} is {other.dtype}{other.shape}, expected {mine.dtype}{mine.shape}")
            continue
        if mine.dtype.kind in "iub":
            if not np.array_equal(mine, other):
                messages.append(f"out_{i:03}: {np.count_nonzero(mine != other)} of {mine.size} {mine.dtype} differ")
            continue
        if close_enough(mine, other, least, allowed):
            continue
        references = references or program.compared(exact(program))
        jax_away, away = distance(mine, references[i], least), distance(other, references[i], least)
        if not away <= max(allowed, program.patience * jax_away):
            if carried is None:
                carried = [distance(np.asarray(o, np.float64), r, least) for o, r in zip(program.rounded() or [], references)]
            if carried and away <= 4 * carried[i]:
                continue
            rounded = rounded or program.compared(one_by_one(program))
            if distance(other, rounded[i], least) <= allowed:
                continue
            messages.append(f"out_{i:03} is {away:.1e} away from fp64, JAX {jax_away:.1e}")
    return "; ".join(messages)


def first_steps(module, folder, tpusim):
    """How long the first step takes, by what is simulated; all are to be equal."""
    times = {}
    for words in ("--values off", "--values on", "--values off --detail core=interpret",
                  "--values on --detail core=interpret"):
        report = folder / "cycles.json"
        run = subprocess.run([tpusim, "run", str(module), "--cores", "1", "--json", str(report), *words.split()],
                             capture_output=True, text=True)
        times[words] = json.loads(report.read_text())["first_step_ms"] if run.returncode == 0 else run.stderr[:200]
    return times


def with_orders(stablehlo, seed):
    """The module with a random order of dimensions for each array that @main takes or gives."""
    draw = random.Random(seed)

    def order(match):
        dimensions = list(range(match["shape"].count("x") + 1))
        draw.shuffle(dimensions)
        layout = f'mhlo.layout_mode = "{{{",".join(map(str, dimensions))}}}"'
        return f"{match['type']} {{{layout}{', ' if match['more'] else '}'}"

    lines = stablehlo.split("\n")
    at = next(i for i, line in enumerate(lines) if "@main(" in line)
    lines[at] = re.sub(r"(?P<type>tensor<(?P<shape>\d+(x\d+)*)x[a-z]\w*(<\w+>)?>)(?P<more> \{)?", order, lines[at])
    if " -> tensor<" in lines[at]:  # One result has its attributes in parentheses.
        head, result = lines[at].split(" -> ")
        lines[at] = f"{head} -> ({result.removesuffix(' {')}) {{"
    return "\n".join(lines)


def judge(program, seed, folder, tpusim, cycles=False, config="v3-8", orders=False):
    """What became of the program that a function makes of a seed: a word and the message."""
    with jax.default_matmul_precision(getattr(program, "precision", Program.precision)):
        try:
            program = program(seed)
            traced = jax.jit(program, keep_unused=True).trace(*program.arguments)
            lowered = traced.lower()
            outputs = [np.asarray(o) for o in jax.tree_util.tree_leaves(lowered.compile()(*program.arguments))]
            if program.for_tpu:  # Factorisations as operations, not as calls of a library of the CPU.
                lowered = traced.lower(lowering_platforms=("tpu",))
        except (TypeError, ValueError, IndexError, ZeroDivisionError, NotImplementedError, AttributeError, jax.errors.JaxRuntimeError) as error:
            return "no program", str(error)
        if not all(np.isfinite(o.astype(np.float64)).all() for o in outputs):
            return "not finite", ""
        module, inputs, results = (folder / f"{seed}.{end}" for end in ("mlir" if orders else "pb", "npz", "out.npz"))
        if orders:
            module.write_text(with_orders(lowered.as_text(), seed))
        else:
            module.write_bytes(lowered.compiler_ir("hlo").as_serialized_hlo_module_proto())
        command = [tpusim, "run", str(module), "--config", config, "--cores", "1", "--outputs", str(results), "--max-cycles", "1000000000"]
        if program.arguments:
            np.savez(inputs, **{f"arg_{i:03}": plain(a) for i, a in enumerate(program.arguments)})
            command += ["--inputs", str(inputs)]
        try:
            run = subprocess.run(command, capture_output=True, text=True, timeout=120)
        except subprocess.TimeoutExpired:
            return "time", "more than 120 s"
        if run.returncode == 0:
            try:
                message = compare(outputs, np.load(results), program)
            except TypeError as error:
                return "no fp64", str(error)
            times = first_steps(module, folder, tpusim) if cycles else {}
            if len(set(times.values())) > 1:
                message += f"cycles: {times}"
            return ("differs", message) if message else ("same", "")
    for text, why in EXPLAINED.items():
        if text in run.stderr:
            return why, run.stderr
    words = {1: "fault", 4: "refused", 70: "our bug"}
    return words.get(run.returncode, f"ends with {run.returncode}"), run.stderr


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int)
    parser.add_argument("--nested", action="store_true", help="gradients of scans, vmaps of gradients, checkpoints")
    parser.add_argument("--mixed", action="store_true", help="integers, predicates, short types; loops and indices that the data decides")
    parser.add_argument("--images", action="store_true", help="convolutions, what stands behind them, their gradients")
    parser.add_argument("--windows", action="store_true", help="sums, means and maxima of windows of any size, and their gradients")
    parser.add_argument("--models", action="store_true", help="small models of random layers, and the gradients of their weights")
    parser.add_argument("--structures", action="store_true", help="one operation or loop of any form, its derivatives and batches")
    parser.add_argument("--libraries", action="store_true", help="training steps of random layers of libraries, with losses and optimisers")
    parser.add_argument("--nets", action="store_true", help="training steps that bench/programs/drawn_nets.py draws, smaller")
    parser.add_argument("--functions", action="store_true", help="each function by name, then its gradient; all of them without --count")
    parser.add_argument("--orders", action="store_true", help="a random order of dimensions is stated for each argument and result")
    parser.add_argument("--cycles", action="store_true", help="the same time with values on and off, by blocks and not")
    parser.add_argument("--tpusim", default="build/tpusim")
    parser.add_argument("--config", default="v3-8", help="the machine (v3-8), such as v2-8")
    parser.add_argument("--keep", type=pathlib.Path, help="folder for the programs and values of what is not the same")
    arguments = parser.parse_args()
    if arguments.functions:
        arguments.seed, arguments.count = max(arguments.seed - 1, 0), arguments.count or 2 * len(FUNCTIONS)
    program = (FunctionProgram if arguments.functions else ImageProgram if arguments.images else WindowProgram if arguments.windows else
               ModelProgram if arguments.models else StructureProgram if arguments.structures else LibraryProgram if arguments.libraries else
               NetProgram if arguments.nets else
               MixedProgram if arguments.mixed else lambda seed: Program(seed, arguments.nested))
    counts = collections.Counter()
    bad = ("differs", "our bug", "time", "refused", "fault")
    failed = []
    with tempfile.TemporaryDirectory() as name:
        folder = arguments.keep or pathlib.Path(name)
        folder.mkdir(parents=True, exist_ok=True)
        seeds = [arguments.only] if arguments.only is not None else range(arguments.seed, arguments.seed + (arguments.count or 1000))
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        for seed in seeds:
            try:
                word, message = judge(program, seed, folder, arguments.tpusim, arguments.cycles, arguments.config, arguments.orders)
            except KeyboardInterrupt:  # The table is of what ran so far.
                break
            counts[word] += 1
            quiet = ("same",) if arguments.functions else ("same", "no program", "not finite")
            if word not in quiet:
                name = f" {FUNCTIONS[seed // 2 % len(FUNCTIONS)]}{' gradient' * (seed % 2)}" if arguments.functions else ""
                print(f"{seed}{name}: {word}: {message.strip()[:400]}", flush=True)
            elif arguments.only is None:
                for file in folder.glob(f"{seed}.*"):
                    file.unlink()
            if word in bad or word.startswith("ends"):
                failed.append(seed)
    for word, count in counts.most_common():
        print(f"{count:6} {word}")
    print(f"{len(failed)} of {sum(counts.values())} to explain: {failed[:50]}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
