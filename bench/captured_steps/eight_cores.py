"""Steps on all eight cores of a 2x2 slice: data parallel, tensor parallel, shard_map and its collectives."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec as P

from declare import cross_entropy, dense, dense_weights, descend, integers, normal, step

SPLIT = (1, 2)
CORES = 8


def classify():
    return dense_weights(24, 40, 6), normal(32, 24), integers(6, 32)


@step(classify)
def dp8_mlp(weights, images, labels):
    value, gradient = jax.value_and_grad(lambda w: cross_entropy(dense(w, images), labels))(weights)
    return descend(weights, gradient), value


@step(lambda: ((dense_weights(24, 40, 6), normal(1)), *classify()[1:]))
def dp8_momentum_clipped(state, images, labels):
    weights, momentum = state
    value, gradient = jax.value_and_grad(lambda w: cross_entropy(dense(w, images, jnp.tanh), labels))(weights)
    norm = jnp.sqrt(sum(jnp.sum(g * g) for g in jax.tree.leaves(gradient)))
    gradient = jax.tree.map(lambda g: g * jnp.minimum(1.0, 0.1 / norm), gradient)
    return (descend(weights, gradient), momentum * 0.9 + norm), value


def kernel(*shape, seed=4):
    return normal(*shape, seed=seed, scale=1 / np.sqrt(np.prod(shape[:-1])))


def conv(x, w, stride=1):
    return jax.lax.conv_general_dilated(
        x, w.astype(x.dtype), (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )


def residual_weights():
    blocks = []
    for number, (before, after) in enumerate(((8, 8), (8, 16))):
        blocks.append(
            {
                "first": kernel(3, 3, before, after, seed=10 * number),
                "second": kernel(3, 3, after, after, seed=10 * number + 1),
                "skip": kernel(1, 1, before, after, seed=10 * number + 2),
                "norms": [(np.ones(after, np.float32), normal(after, scale=0.1, seed=10 * number + k)) for k in (3, 4)],
            }
        )
    return {"stem": kernel(7, 7, 3, 8), "blocks": blocks, "head": kernel(16, 10)}


def batch_norm(x, scale, shift):
    """Over the whole batch: the sums go over all cores."""
    wide = x.astype(jnp.float32)
    mean = jnp.mean(wide, (0, 1, 2))
    variance = jnp.mean(wide * wide, (0, 1, 2)) - mean * mean
    return ((wide - mean) * jax.lax.rsqrt(variance + 1e-5) * scale + shift).astype(x.dtype)


def residual_network(weights, images, dtype):
    x = jax.nn.relu(conv(images.astype(dtype), weights["stem"], 2))
    x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME").astype(dtype)
    for number, block in enumerate(weights["blocks"]):
        y = jax.nn.relu(batch_norm(conv(x, block["first"], number + 1), *block["norms"][0]))
        y = batch_norm(conv(y, block["second"]), *block["norms"][1])
        x = jax.nn.relu(y + conv(x, block["skip"], number + 1))
    return jnp.mean(x.astype(jnp.float32), (1, 2)) @ weights["head"]


def residual_step(dtype, state, images, labels):
    weights, momentum = state
    value, gradient = jax.value_and_grad(lambda w: cross_entropy(residual_network(w, images, dtype), labels))(weights)
    momentum = jax.tree.map(lambda m, g: 0.9 * m + g, momentum, gradient)
    return (descend(weights, momentum, 0.05), momentum), value


def residual_arguments():
    weights = residual_weights()
    return (weights, jax.tree.map(lambda w: 0.01 * w, weights)), normal(16, 24, 24, 3), integers(10, 16)


step(residual_arguments, "dp8_resnet")(functools.partial(residual_step, jnp.float32))
step(residual_arguments, "dp8_resnet_bf16")(functools.partial(residual_step, jnp.bfloat16))


def mesh():
    """The mesh that the capture tool has set."""
    return jax.sharding.get_abstract_mesh()


def is_on_mesh():
    """False where the step is computed on one CPU, as a reference."""
    return not mesh().empty


def placed(x, *spec):
    return jax.lax.with_sharding_constraint(x, jax.sharding.NamedSharding(mesh(), P(*spec))) if is_on_mesh() else x


def on_each_core(function, whole, split):
    """shard_map of function(whole, part of split); on one CPU a vmap over the parts, which knows the same collectives. The results
    are split like the parts."""
    if is_on_mesh():
        mapped = jax.shard_map(function, mesh=mesh(), in_specs=(P(), P("data")), out_specs=P("data"), check_vma=False)
        return mapped(whole, split)
    parts = jax.tree.map(lambda x: x.reshape(CORES, x.shape[0] // CORES, *x.shape[1:]), split)
    results = jax.vmap(function, in_axes=(None, 0), axis_name="data", axis_size=CORES)(whole, parts)
    return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), results)


@step(classify)
def tp8_mlp(weights, images, labels):
    """Columns of the first matrix and rows of the second on the cores: one all-reduce in each direction."""

    def loss(weights):
        (first, bias), (second, last_bias) = weights
        hidden = jax.nn.relu(placed(images, None, None) @ placed(first, None, "data") + placed(bias, "data"))
        return cross_entropy(hidden @ placed(second, "data", None) + last_bias, placed(labels, None))

    value, gradient = jax.value_and_grad(loss)(weights)
    return descend(weights, gradient), value


@step(lambda: (normal(4, 32, 64, scale=0.2), normal(8, 16, 32), normal(8, 16, 32, seed=4)))
def tp8_attention(weights, x, target):
    """A head on each core."""

    def loss(weights):
        q, k, v = (placed((placed(x, None) @ w).reshape(8, 16, 8, 8), None, None, "data") for w in weights[:3])
        y = jax.nn.dot_product_attention(q, k, v).reshape(8, 16, 64)
        return jnp.mean((y @ weights[3].T - placed(target, None)) ** 2)

    value, gradient = jax.value_and_grad(loss)(weights)
    return weights - 0.1 * gradient, value


@step(lambda: (dense_weights(24, 64, 16), normal(32, 24), integers(16, 32)))
def fsdp8_mlp(weights, images, labels):
    """Weights and gradients lie in parts on the cores and are gathered for use."""
    parts = jax.tree.map(lambda w: placed(w, "data"), weights)
    value, gradient = jax.value_and_grad(lambda w: cross_entropy(dense(w, images), labels))(parts)
    return descend(parts, jax.tree.map(lambda g: placed(g, "data"), gradient)), value


@step(lambda: (dense_weights(24, 40, 6), normal(32, 24), integers(6, 32)))
def shard_map_gradient_mean(weights, images, labels):
    def local(weights, batch):
        gradient = jax.grad(lambda w: cross_entropy(dense(w, batch[0]), batch[1]))(weights)
        mean = jax.lax.pmean(gradient, "data")
        return jax.tree.map(lambda w, g: (w - 0.1 * g)[None], weights, mean)

    return jax.tree.map(lambda w: w[0], on_each_core(local, weights, (images, labels)))


@step(lambda: (normal(16, 16), normal(32, 16), integers(6, 32)))
def shard_map_ring(weights, x, labels):
    """Every part goes once around the ring, as in ring attention."""

    def local(weights, batch):
        rows, _ = batch
        total = jnp.zeros_like(rows)
        for _ in range(CORES):
            total = total + jax.nn.softmax(rows @ weights, axis=-1)
            rows = jax.lax.ppermute(rows, "data", [(k, (k + 1) % CORES) for k in range(CORES)])
        return total

    return on_each_core(local, weights, (x, labels))


@step(lambda: (normal(8, 16, 16, scale=0.3), normal(64, 16), integers(6, 64)))
def shard_map_experts(weights, x, labels):
    """Tokens go to the core of their expert and back: two all-to-alls."""

    def local(weights, batch):
        sent = jax.lax.all_to_all(batch[0].reshape(CORES, -1, 16), "data", 0, 0, tiled=True)
        mine = jax.lax.dynamic_index_in_dim(weights, jax.lax.axis_index("data"), keepdims=False)
        done = jnp.tanh(sent.reshape(-1, 16) @ mine).reshape(CORES, -1, 16)
        return jax.lax.all_to_all(done, "data", 0, 0, tiled=True).reshape(-1, 16)

    return on_each_core(local, weights, (x, labels))


@step(lambda: (normal(16, 16), normal(32, 16), integers(6, 32)))
def shard_map_gather_scatter(weights, x, labels):
    def local(weights, batch):
        everything = jax.lax.all_gather(batch[0], "data", tiled=True)
        return jax.lax.psum_scatter(jnp.tanh(everything @ weights), "data", scatter_dimension=0, tiled=True)

    return on_each_core(local, weights, (x, labels))


@step(classify)
def dp8_gradient_mean_by_cond(weights, images, labels):
    value, gradient = jax.value_and_grad(lambda w: cross_entropy(dense(w, images), labels))(weights)
    rate = jax.lax.cond(value > 1.0, lambda: 0.2, lambda: 0.05)
    return descend(weights, gradient, rate), value


@step(lambda: (dense_weights(24, 40, 6), normal(64, 24), integers(6, 64)))
def dp8_scan_of_microbatches(weights, images, labels):
    def body(total, part):
        value, gradient = jax.value_and_grad(lambda w: cross_entropy(dense(w, part[0]), part[1]))(weights)
        return jax.tree.map(jnp.add, total, gradient), value

    zeros = jax.tree.map(jnp.zeros_like, weights)
    parts = images.reshape(32, 2, 24).swapaxes(0, 1), labels.reshape(32, 2).swapaxes(0, 1)
    gradient, values = jax.lax.scan(body, zeros, parts)
    return descend(weights, gradient, 0.05), values


@step(lambda: (normal(32, 16, scale=0.3), normal(16, 12, 32), integers(16, 16, 12)))
def dp8_language_model(table, hidden, tokens):
    def loss(table):
        return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(hidden @ table), tokens[..., None], -1)) + jnp.mean(table.T[tokens] ** 2)

    value, gradient = jax.value_and_grad(loss)(table)
    return table - 0.1 * gradient, value
