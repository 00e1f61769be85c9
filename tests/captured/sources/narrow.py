"""Integers of 4, 8 and 16 bits, masks and bf16: wrap-around, signs, shifts, division by a constant, bf16 pixels."""

import jax
import jax.numpy as jnp
import numpy as np

lax = jax.lax
SHAPE = (6, 40)


def arithmetic(x, y):
    shift = y & (np.iinfo(x.dtype).bits - 1)
    return x * y, jnp.minimum(x, y), x > y, lax.shift_right_arithmetic(x, shift), lax.shift_right_logical(x, shift)


def step(bytes_, words, signs, masks, pixels, integers, flags):
    pixels = lax.bitcast_convert_type(pixels, jnp.bfloat16).reshape(1, 6, 6, 8)
    results = arithmetic(bytes_, bytes_[::-1])[:3] + (jnp.minimum(flags, flags[::-1]),)
    for halves in (words, signs):
        results += arithmetic(halves, halves[::-1])[3:]
    for nibble in (jnp.int4, jnp.uint4):
        results += ((integers.astype(nibble) + integers[::-1].astype(nibble)).astype(jnp.int32),)
    results += (jnp.where(masks, words, 7), jax.image.resize(pixels, (1, 9, 4, 8), "nearest"))
    return results + (lax.div(integers, np.int32(7)),)


def step_arguments():
    random = np.random.RandomState(1)
    integers = random.randint(-(2**31), 2**31 - 1, SHAPE).astype(np.int32)
    integers[0, :6] = (-(2**31), 2**31 - 1, 0, -1, 6, 7)
    return (
        random.randint(-128, 128, SHAPE).astype(np.int8),
        random.randint(0, 65536, SHAPE).astype(np.uint16),
        random.randint(-32768, 32768, SHAPE).astype(np.int16),
        random.randint(0, 2, SHAPE).astype(bool),
        random.randint(0x3c00, 0x4200, 288).astype(np.uint16),  # bf16 between 0.0078 and 32
        integers,
        random.randint(0, 256, SHAPE).astype(np.uint8),
    )
