#!/usr/bin/env python3
"""Random programs over arrays of ordinary sizes: which of them does our compiler refuse?

    python tests/jax_large_programs.py --seed 1 --count 200 --tpusim build/tpusim

A program is a loss and its gradient, a dozen operations one behind the other on up to three million elements; extents
are those that people use (50, 77, 197, 1000, 4096), and those that fill no tile. jax_differential.py compares values,
of small arrays. Here no values are computed: what fits VMEM in one order and not in another is a matter of size. Prints
what was refused and in what words; exit code 1 if anything was. Needs jax.
"""
import argparse
import os
import pathlib
import random
import subprocess
import sys
import tempfile

os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import jax.numpy as jnp
import numpy as np

lax = jax.lax
EXTENTS = [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 20, 24, 30, 32, 48, 49, 50, 64, 77, 80, 96, 100, 128, 150, 196, 200, 256, 300, 384, 500, 512, 768,
           1000, 1024, 2000, 4096]
FEWEST, MOST = 2000, 3_000_000


class LargeProgram:
    """The step of a seed: `operations` read x, a random source and `given(shape)`, a parameter; `whole(shape, most)`, integers below `most`."""

    def __init__(self, seed):
        source = random.Random(seed)
        self.seed, self.type = seed, source.choice([jnp.float32, jnp.float32, jnp.bfloat16])
        self.length = source.choice([4, 6, 8, 10, 12])
        self.shape = (0,)
        while not FEWEST <= np.prod(self.shape) <= MOST:
            self.shape = tuple(source.choice(EXTENTS) for _ in range(source.choice([2, 2, 3, 3, 3, 4, 4, 5])))

    def loss(self, given, whole, x):
        source, values = random.Random(self.seed + 1), [x]
        for _ in range(self.length):
            x = values[-1] if source.random() < 0.75 else source.choice(values)
            along = source.randrange(x.ndim)
            operation = source.choice(OPERATIONS) if x.size <= 4 * MOST / 3 else lambda source, x, along, *_: x.mean(along)
            y = operation(source, x, along, given, whole)
            values.append((y if y.ndim else y[None]).astype(self.type))
        return sum((y.astype(jnp.float32) ** 2).mean() for y in values[-2:])

    def stablehlo(self):
        parameters, integers = [], []
        note = lambda shape: (parameters.append(shape), jnp.zeros(shape, self.type))[1]
        note_whole = lambda shape, most: (integers.append(shape), jnp.zeros(shape, jnp.int32))[1]
        x = jax.ShapeDtypeStruct(self.shape, self.type)
        jax.eval_shape(lambda x: self.loss(note, note_whole, x), x)

        def step(parameters, integers, x):
            def loss(parameters, x):
                mine, wholes = iter(parameters), iter(integers)
                return self.loss(lambda shape: next(mine).astype(self.type), lambda shape, most: jnp.clip(next(wholes), 0, most - 1), x)

            value, (gradient, of_x) = jax.value_and_grad(loss, (0, 1))(parameters, x)
            return [p - 0.1 * g for p, g in zip(parameters, gradient)], value, of_x

        shapes = lambda all_of, type: [jax.ShapeDtypeStruct(shape, type) for shape in all_of]
        return jax.jit(step, keep_unused=True).lower(shapes(parameters, jnp.float32), shapes(integers, jnp.int32), x).as_text()


def normalised(source, x, along, *_):
    centred = x - x.mean(along, keepdims=True)
    return centred * lax.rsqrt((centred**2).mean(along, keepdims=True) + 1e-3)


def product(source, x, along, given, whole):
    return jnp.tensordot(x, given((x.shape[along], min(source.choice(EXTENTS), 1024))), ((along,), (0,)))


def products_of_matrices(source, x, *_):
    if x.ndim < 2 or x.size * x.shape[-2] / x.shape[-1] > MOST:
        return x * 2
    return jnp.einsum("...ij,...kj->...ik", x, x) / x.shape[-1]


def part(source, x, along, *_):
    begin = source.randrange(x.shape[along])
    return lax.slice_in_dim(x, begin, source.randrange(begin, x.shape[along]) + 1, axis=along)


def padded(source, x, along, *_):
    sides = source.randrange(5), source.randrange(5)
    return jnp.pad(x, [sides if d == along else (0, 0) for d in range(x.ndim)])


def parted(source, x, along, *_):
    parts = [n for n in (2, 3, 4, 8, 16) if x.shape[along] % n == 0 and x.shape[along] > n]
    if not parts or x.ndim > 5:
        return jax.nn.gelu(x)
    n = source.choice(parts)
    return x.reshape(x.shape[:along] + (n, x.shape[along] // n) + x.shape[along + 1:])


def turned(source, x, *_):
    order = list(range(x.ndim))
    source.shuffle(order)
    return x.transpose(order)


def recurrent(source, x, along, given, whole):
    along = min(along, x.ndim - 2)
    if x.ndim < 2 or x.shape[-1] > 1024 or x.shape[along] > 200:
        return x
    w = given((x.shape[-1], x.shape[-1]))
    steps = jnp.moveaxis(x, along, 0)
    _, all_of = lax.scan(lambda h, v: (jnp.tanh(h * 0.5 + v @ w).astype(x.dtype),) * 2, jnp.zeros_like(steps[0]), steps)
    return jnp.moveaxis(all_of, 0, along)


def taken(source, x, along, given, whole):
    return jnp.take(x, whole((source.choice([7, 64, 100]),), x.shape[along]), along)


def taken_from_each(source, x, along, given, whole):
    if x.size / x.shape[along] > 20000:
        return x
    return jnp.take_along_axis(x, whole(x.shape[:along] + (3,) + x.shape[along + 1:], x.shape[along]), along)


OPERATIONS = [
    normalised, product, products_of_matrices, part, padded, parted, turned, recurrent, taken, taken_from_each,
    lambda source, x, along, given, whole: jnp.tanh(x) * given(x.shape[-1:]),
    lambda source, x, along, given, whole: x + given(tuple(n if source.random() < 0.5 else 1 for n in x.shape)),
    lambda source, x, along, *_: jax.nn.softmax(x.astype(jnp.float32), along),
    lambda source, x, along, *_: x.sum(along) if x.ndim > 1 else x,
    lambda source, x, along, *_: x.max(along) if x.ndim > 1 else x,
    lambda source, x, along, *_: jnp.concatenate([x, jnp.flip(x, along)], along) if x.size < MOST else jnp.flip(x, along),
    lambda source, x, along, *_: jnp.roll(x, source.randrange(1, x.shape[along] + 1), along),
    lambda source, x, along, *_: jnp.cumsum(x, along) * 0.1,
    lambda source, x, along, *_: x.reshape(-1, x.shape[-1]),
    lambda source, x, along, given, whole: jnp.where(x > given(()), x, 0.1 * x),
    lambda source, x, along, *_: jax.nn.one_hot(jnp.argmax(x, along), x.shape[along], axis=along, dtype=x.dtype) * x,
    lambda source, x, along, given, whole: jax.ops.segment_sum(x, whole((x.shape[0],), 17), 17),
    lambda source, x, along, *_: jnp.sort(x, along) if x.shape[along] < 2000 else x,
    lambda source, x, along, *_: lax.top_k(x, min(5, x.shape[-1]))[0],
    lambda source, x, along, given, whole: x[..., None] * given((source.choice([2, 3, 16]),)) if x.size < MOST / 10 and x.ndim < 5 else x,
    lambda source, x, along, *_: jnp.stack([x, x * x], along) if x.size < MOST and x.ndim < 5 else x,
    lambda source, x, along, *_: lax.slice_in_dim(x, 0, x.shape[along], 2, along),
    lambda source, x, *_: jnp.exp(-jnp.abs(x)),
    lambda source, x, *_: jax.nn.silu(x),
]


def refusal(text, options):
    """What the compiler says of the program; empty where it takes it."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "program.mlir"
        file.write_text(text)
        command = [options.tpusim, "compile", file, "--config", options.config, "--cores", "1", "--compiler", "tpusim", "-o",
                   pathlib.Path(folder) / "program.h5"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=options.timeout)
    return done.stderr.strip() if done.returncode else ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tpusim", default="build/tpusim", metavar="FILE")
    parser.add_argument("--config", default="v3-8", metavar="MACHINE")
    parser.add_argument("--seed", type=int, default=1, help="of the first program (1)")
    parser.add_argument("--count", type=int, default=50, help="programs (50)")
    parser.add_argument("--timeout", type=int, default=300, metavar="SECONDS", help="for one program (300)")
    options = parser.parse_args()
    refused = 0
    for seed in range(options.seed, options.seed + options.count):
        said = refusal(LargeProgram(seed).stablehlo(), options)
        if said:
            refused += 1
            print(f"{seed}: {said}")
    print(f"{options.count} programs, {refused} refused")
    sys.exit(1 if refused else 0)


if __name__ == "__main__":
    main()
