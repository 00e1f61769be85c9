"""Number formats, random numbers and dropout: int8, fp16, bf16, mixed precision, threefry and rbg."""

import jax
import jax.numpy as jnp
import numpy as np

from declare import cross_entropy, dense, dense_weights, descend, integers, normal, step, trained


def classify():
    return dense_weights(24, 40, 6), normal(32, 24), integers(6, 32)


def with_dropout(implementation):
    def train(weights, images, labels, key_data):
        key = jax.random.wrap_key_data(key_data, impl=implementation)

        def loss(weights):
            hidden = jax.nn.relu(images @ weights[0][0] + weights[0][1])
            kept = jax.random.bernoulli(key, 0.8, hidden.shape)
            hidden = jnp.where(kept, hidden / 0.8, 0.0)
            return cross_entropy(hidden @ weights[1][0] + weights[1][1], labels)

        value, gradient = jax.value_and_grad(loss)(weights)
        return descend(weights, gradient), value

    return train


def keyed(words):
    return lambda: (*classify(), np.arange(7, 7 + words, dtype=np.uint32))


step(keyed(2), "dropout_threefry")(with_dropout("threefry2x32"))
step(keyed(4), "dropout_rbg")(with_dropout("rbg"))
step(keyed(4), "dropout_unsafe_rbg")(with_dropout("unsafe_rbg"))


@step(lambda: (normal(16, 64), np.array([3, 9], np.uint32)))
def dropout_mask_bytes(x, key_data):
    mask = jax.random.bits(jax.random.wrap_key_data(key_data), x.shape, np.uint8)
    return jnp.where((mask & np.uint8(7)) > 1, x, 0.0), mask >> np.uint8(1)


@step(lambda: (np.array([3, 9], np.uint32), normal(64, scale=0.1)))
def random_distributions(key_data, mean):
    keys = jax.random.split(jax.random.wrap_key_data(key_data), 5)
    return (
        jax.random.normal(keys[0], (64,)) + mean,
        jax.random.uniform(keys[1], (8, 64), minval=-1.0),
        jax.random.randint(keys[2], (64,), 0, 1000),
        jax.random.categorical(keys[3], jnp.tile(mean, (8, 1))),
        jax.random.permutation(keys[4], 64),
    )


@step(lambda: (np.array([3, 9], np.uint32), normal(32, scale=0.1)))
def random_gamma(key_data, mean):
    keys = jax.random.split(jax.random.wrap_key_data(key_data), 3)
    return (
        jax.random.gamma(keys[0], jnp.exp(mean)),
        jax.random.truncated_normal(keys[1], -2.0, 2.0, (32,)),
        jax.random.gumbel(keys[2], (32,)),
    )


@step(lambda: (integers(255, 32, 64, dtype=np.uint8), normal(64, 16, scale=0.1)))
def uint8_images(images, weights):
    x = images.astype(jnp.float32) / 127.5 - 1
    value, gradient = jax.value_and_grad(lambda w: jnp.mean((x @ w) ** 2))(weights)
    return weights - 0.1 * gradient, value


def int8(*shape, seed):
    return (integers(255, *shape, seed=seed) - 127).astype(np.int8)


@step(lambda: (int8(32, 64, seed=1), int8(64, 48, seed=2)))
def int8_product(a, b):
    return jax.lax.dot(a, b, preferred_element_type=jnp.int32)


@step(lambda: (int8(32, 64, seed=1), int8(32, 64, seed=2)))
def int8_arithmetic(a, b):
    return (a >> 2, a + b, jnp.maximum(a, b), (a.astype(jnp.int32) * b) >> 7, jnp.abs(a) & b)


@step(lambda: (normal(32, 64), normal(64, 48, scale=0.1), normal(32, 48, seed=4)))
def int8_quantised_training(x, weights, target):
    """Fake quantisation with a straight-through gradient."""

    def quantised(a):
        scale = jnp.max(jnp.abs(a)) / 127
        rounded = jnp.clip(jnp.round(a / scale), -127, 127).astype(jnp.int8).astype(jnp.float32) * scale
        return a + jax.lax.stop_gradient(rounded - a)

    value, gradient = jax.value_and_grad(lambda w: jnp.mean((quantised(x) @ quantised(w) - target) ** 2))(weights)
    return weights - 0.1 * gradient, value


@step(lambda: (integers(65000, 16, 64, dtype=np.uint16), integers(30000, 16, 64, seed=5, dtype=np.int16)))
def int16_arithmetic(a, b):
    return a >> np.uint16(3), a ^ np.uint16(0x5555), b * np.int16(3), jnp.minimum(b, np.int16(77)), a.astype(jnp.float32)


@step(lambda: (integers(1 << 30, 16, 64), integers(1 << 12, 16, 64, seed=5)))
def integer_division(a, b):
    return a // (b + 1), a % (b + 1), jax.lax.population_count(a), jax.lax.clz(b), a.astype(jnp.uint32) // 10


@step(lambda: (dense_weights(24, 40, 6), normal(32, 24), integers(6, 32)))
def mixed_bf16(weights, images, labels):
    def loss(weights):
        low = jax.tree.map(lambda w: w.astype(jnp.bfloat16), weights)
        return cross_entropy(dense(low, images.astype(jnp.bfloat16)).astype(jnp.float32), labels)

    value, gradient = jax.value_and_grad(loss)(weights)
    return descend(weights, gradient), value


@step(lambda: (dense_weights(24, 40, 6), normal(32, 24), integers(6, 32), np.float32(1024), np.int32(5)))
def mixed_fp16_loss_scale(weights, images, labels, scale, good_steps):
    """Dynamic loss scaling: the update is skipped where a gradient is not finite."""

    def loss(weights):
        low = jax.tree.map(lambda w: w.astype(jnp.float16), weights)
        return cross_entropy(dense(low, images.astype(jnp.float16)).astype(jnp.float32), labels) * scale

    value, gradient = jax.value_and_grad(loss)(weights)
    gradient = jax.tree.map(lambda g: g / scale, gradient)
    finite = jnp.all(jnp.stack([jnp.all(jnp.isfinite(g)) for g in jax.tree.leaves(gradient)]))
    weights = jax.tree.map(lambda w, g: jnp.where(finite, w - 0.1 * g, w), weights, gradient)
    scale = jnp.where(finite, jnp.where(good_steps >= 5, scale * 2, scale), scale / 2)
    return weights, value / scale, scale, jnp.where(finite, good_steps + 1, 0)


@step(lambda: (normal(32, 64, dtype=np.float16), normal(64, 32, seed=4, dtype=np.float16)))
def fp16_arithmetic(a, b):
    return a @ b, jnp.exp(a), a + b.T, jax.nn.softmax(a)


def bf16_arguments():
    return jnp.asarray(normal(32, 64), jnp.bfloat16), jnp.asarray(normal(64, 32, seed=4), jnp.bfloat16)


@step(bf16_arguments)
def bf16_arithmetic(a, b):
    return a @ b, jnp.exp(a), a + b.T, jax.nn.softmax(a), jnp.cumsum(a, axis=0)


@step(lambda: (normal(32, 64),))
def stochastic_rounding(x):
    bits = jax.lax.bitcast_convert_type(x, jnp.uint32)
    noise = (bits * jnp.uint32(2654435761)) >> 16
    return jax.lax.bitcast_convert_type((bits + noise) & jnp.uint32(0xFFFF0000), jnp.float32)


@step(lambda: (normal(32, 64, scale=3.0),))
def rounding_kinds(x):
    return jnp.round(x), jnp.floor(x), jnp.ceil(x), jnp.trunc(x), jnp.sign(x), x.astype(jnp.int32), jnp.fmod(x, 1.5), jnp.isnan(x)


@step(lambda: (normal(16, 64, scale=2.0),))
def elementary_functions(x):
    return (
        jnp.sin(x), jnp.cos(x), jnp.tan(x), jnp.arctan2(x, x + 1), jnp.sinh(x), jnp.log1p(jnp.abs(x)), jnp.expm1(x),
        jax.scipy.special.erf(x), jax.lax.erf_inv(x / 10), jnp.cbrt(x), jnp.power(jnp.abs(x), 1.7), jax.lax.lgamma(jnp.abs(x) + 0.5),
        jax.lax.digamma(jnp.abs(x) + 0.5),
    )
