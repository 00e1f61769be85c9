"""One training step each of models of Haiku, Equinox and jraph, and of nets with the channels before height and width.

    python bench/programs/library_steps.py pool > pool.mlir               as JAX prints it, lowered for the computer's CPU
    tpusim run pool.mlir --config v3-8 --cores 1
    PYTHONPATH=workloads/capture python -m tpusim_capture pool.mlir --chip v3 -o STEPS/pool
    bench/xla_ratio.py --folder STEPS pool

The libraries' layers are theirs; what is made of them are their examples in small, or nets as PyTorch has them. library_steps.md says what
came out. Needs jax, optax, dm-haiku, equinox, flax and jraph.
"""

import os

os.environ["JAX_PLATFORMS"] = "cpu"

import equinox as eqx
import flax.linen as nn
import haiku as hk
import jax
import jax.numpy as jnp
import jraph
import optax
from named_steps import NamedSteps, cross_entropy, print_named, square
from ordinary_steps import floats, integers

lax = jax.lax
KEY = jax.random.PRNGKey(0)
STEPS = NamedSteps()
step = STEPS.step


def train(parameters, batch, loss, optimizer=optax.adam(1e-3)):
    """The step and its arguments; loss(parameters, *batch)."""

    def update(parameters, state, *batch):
        value, gradients = jax.value_and_grad(loss)(parameters, *batch)
        updates, state = optimizer.update(gradients, state, parameters)
        return optax.apply_updates(parameters, updates), state, value

    return update, lambda: (parameters, jax.eval_shape(optimizer.init, parameters), *batch)


def haiku(function, batch, loss=cross_entropy):
    model = hk.transform_with_state(function)
    parameters, state = jax.eval_shape(lambda x: model.init(KEY, x), batch[0])
    zeros = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), state)
    return train(parameters, batch, lambda p, x, y: loss(model.apply(p, zeros, KEY, x)[0], y))


def equinox(model, batch, loss):
    parameters, rest = eqx.partition(model, eqx.is_inexact_array)
    return train(parameters, batch, lambda p, *given: loss(eqx.combine(p, rest), *given))


@step
def mobilenet():
    return haiku(lambda x: hk.nets.MobileNetV1((1, 2, 2, 2, 2), (16, 32, 64, 128, 128), 100)(x, is_training=True), (floats(16, 64, 64, 3), integers(16)))


@step
def resnet():
    return haiku(lambda x: hk.nets.ResNet18(100)(x, is_training=True), (floats(16, 64, 64, 3), integers(16)))


@step
def vqvae():
    def model(x):
        h = jax.nn.relu(hk.Conv2D(128, 4, 2)(jax.nn.relu(hk.Conv2D(64, 4, 2)(x))))
        codes = hk.nets.VectorQuantizer(64, 512, 0.25)(hk.Conv2D(64, 1)(h), is_training=True)
        h = jax.nn.relu(hk.Conv2DTranspose(64, 4, 2)(codes["quantize"]))
        return hk.Conv2DTranspose(3, 4, 2)(h), codes["loss"]

    return haiku(model, (floats(32, 32, 32, 3), floats(32, 32, 32, 3)), lambda out, x: square(out[0], x) + out[1])


@step
def characters():
    def model(x):
        core = hk.DeepRNN([hk.LSTM(256), jax.nn.relu, hk.LSTM(256)])
        return hk.Linear(128)(hk.dynamic_unroll(core, hk.Embed(128, 256)(x), core.initial_state(x.shape[0]), time_major=False)[0])

    return haiku(model, (integers(32, 64), integers(32, 64)))


@step
def gru():
    def model(x):
        core = hk.GRU(128)
        return hk.Linear(10)(hk.dynamic_unroll(core, x, core.initial_state(x.shape[1]))[1])

    return haiku(model, (floats(50, 64, 40), integers(64)))


@step
def convlstm():
    def model(x):
        core = hk.Conv2DLSTM((16, 16), 16, 3)
        return hk.Conv2D(3, 1)(hk.dynamic_unroll(core, x, core.initial_state(x.shape[1]))[0][-1])

    return haiku(model, (floats(10, 8, 16, 16, 3), floats(8, 16, 16, 3)), square)


@step
def pool():
    a, b, c, d = jax.random.split(KEY, 4)
    model = eqx.nn.Sequential(
        [
            eqx.nn.Conv2d(1, 3, 4, key=a),
            eqx.nn.MaxPool2d(2),
            eqx.nn.Lambda(jax.nn.relu),
            eqx.nn.Lambda(jnp.ravel),
            eqx.nn.Linear(1728, 512, key=b),
            eqx.nn.Lambda(jax.nn.sigmoid),
            eqx.nn.Linear(512, 64, key=c),
            eqx.nn.Lambda(jax.nn.relu),
            eqx.nn.Linear(64, 10, key=d),
        ]
    )
    return equinox(model, (floats(64, 1, 28, 28), integers(64)), lambda m, x, y: cross_entropy(jax.vmap(m)(x), y))


@step
def critic():
    """With a penalty on the gradient of what it says of the images."""
    a, b, c = jax.random.split(KEY, 3)
    model = eqx.nn.Sequential(
        [
            eqx.nn.Conv2d(3, 32, 4, 2, 1, key=a),
            eqx.nn.GroupNorm(4, 32),
            eqx.nn.Lambda(jax.nn.leaky_relu),
            eqx.nn.Conv2d(32, 64, 4, 2, 1, key=b),
            eqx.nn.GroupNorm(4, 64),
            eqx.nn.Lambda(jax.nn.leaky_relu),
            eqx.nn.Lambda(jnp.ravel),
            eqx.nn.Linear(4096, "scalar", key=c),
        ]
    )

    def loss(m, x, y):
        slope = jax.vmap(jax.grad(lambda image: m(image)))(x)
        return jnp.mean(jax.nn.softplus(-y * jax.vmap(m)(x))) + 10 * jnp.mean(jnp.sum(slope**2, (1, 2, 3)))

    return equinox(model, (floats(32, 3, 32, 32), floats(32)), loss)


@step
def recurrent():
    class Classifier(eqx.Module):
        cell: eqx.nn.GRUCell
        linear: eqx.nn.Linear

        def __init__(self):
            a, b = jax.random.split(KEY)
            self.cell = eqx.nn.GRUCell(2, 64, key=a)
            self.linear = eqx.nn.Linear(64, "scalar", key=b)

        def __call__(self, x):
            state, _ = lax.scan(lambda state, given: (self.cell(given, state), None), jnp.zeros(64), x)
            return jax.nn.sigmoid(self.linear(state))

    return equinox(Classifier(), (floats(32, 16, 2), floats(32)), lambda m, x, y: square(jax.vmap(m)(x), y))


@step
def graphs():
    nodes, edges, count = 1024, 4096, 32

    class Network(nn.Module):
        @nn.compact
        def __call__(self, graph):
            def update():
                return jraph.concatenated_args(nn.Sequential([nn.Dense(64), nn.relu, nn.LayerNorm(), nn.Dense(64)]))

            for _ in range(3):
                graph = jraph.GraphNetwork(update_edge_fn=update(), update_node_fn=update(), update_global_fn=update())(graph)
            return nn.Dense(1)(graph.globals)

    def graph(node, edge, senders, receivers, whole):
        return jraph.GraphsTuple(
            nodes=node,
            edges=edge,
            senders=senders,
            receivers=receivers,
            globals=whole,
            n_node=jnp.full(count, nodes // count),
            n_edge=jnp.full(count, edges // count),
        )

    batch = (floats(nodes, 16), floats(edges, 8), integers(edges), integers(edges), floats(count, 4))
    parameters = jax.eval_shape(lambda *given: Network().init(KEY, graph(*given)), *batch)
    return train(parameters, (*batch, floats(count, 1)), lambda p, *given: square(Network().apply(p, graph(*given[:5])), given[5]))


# Channels before height and width, kernels as (output features, input features, height, width).


def conv(x, kernel, stride=1, padding=None, groups=1, dilation=1):
    pad = (kernel.shape[2] - 1) // 2 * dilation if padding is None else padding
    return lax.conv_general_dilated(
        x, kernel, (stride, stride), [(pad, pad)] * 2, rhs_dilation=(dilation, dilation), dimension_numbers=("NCHW", "OIHW", "NCHW"), feature_group_count=groups
    )


def batch_norm(x, scale, offset):
    mean = x.mean((0, 2, 3), keepdims=True)
    scaled = (x - mean) * lax.rsqrt(((x - mean) ** 2).mean((0, 2, 3), keepdims=True) + 1e-5)
    return scaled * scale[None, :, None, None] + offset[None, :, None, None]


def max_pool(x, size=3, stride=2, pad=1):
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 1, size, size), (1, 1, stride, stride), ((0, 0), (0, 0), (pad, pad), (pad, pad)))


def norm(features):
    return floats(features), floats(features)


SGD = optax.sgd(0.1, momentum=0.9)


@step
def channels_resnet():
    layers = ((64, 1), (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), (512, 1))
    parameters = {"stem": floats(64, 3, 7, 7), "norm": norm(64), "blocks": [], "head": floats(512, 100)}
    features = 64
    for width, stride in layers:
        block = {"a": floats(width, features, 3, 3), "an": norm(width), "b": floats(width, width, 3, 3), "bn": norm(width)}
        if stride > 1:
            block |= {"d": floats(width, features, 1, 1), "dn": norm(width)}
        parameters["blocks"].append(block)
        features = width

    def loss(p, x, y):
        x = max_pool(jax.nn.relu(batch_norm(conv(x, p["stem"], 2), *p["norm"])))
        for block, (_, stride) in zip(p["blocks"], layers):
            short = batch_norm(conv(x, block["d"], stride, 0), *block["dn"]) if "d" in block else x
            x = jax.nn.relu(batch_norm(conv(x, block["a"], stride), *block["an"]))
            x = jax.nn.relu(batch_norm(conv(x, block["b"]), *block["bn"]) + short)
        return cross_entropy(x.mean((2, 3)) @ p["head"], y)

    return train(parameters, (floats(16, 3, 112, 112), integers(16)), loss, SGD)


@step
def channels_vgg():
    widths = (3, 64, 128, 256, 512)
    parameters = {"kernels": [floats(b, a, 3, 3) for a, b in zip(widths, widths[1:])], "head": [floats(2048, 256), floats(256, 10)]}

    def loss(p, x, y):
        for kernel in p["kernels"]:
            x = max_pool(jax.nn.relu(conv(x, kernel)), 2, 2, 0)
        return cross_entropy(jax.nn.relu(x.reshape(x.shape[0], -1) @ p["head"][0]) @ p["head"][1], y)

    return train(parameters, (floats(64, 3, 32, 32), integers(64)), loss, SGD)


@step
def channels_unet():
    down = [(floats(b, a, 3, 3), floats(b, b, 3, 3)) for a, b in ((1, 32), (32, 64), (64, 128))]
    up = [(floats(b, 2 * b, 2, 2), floats(b, 2 * b, 3, 3), floats(b, b, 3, 3)) for b in (64, 32)]

    def twice(x, a, b):
        return jax.nn.relu(conv(jax.nn.relu(conv(x, a)), b))

    def loss(p, x, y):
        kept = []
        for level, kernels in enumerate(p["down"]):
            x = twice(max_pool(x, 2, 2, 0) if level else x, *kernels)
            kept.append(x)
        for (larger, *kernels), skip in zip(p["up"], kept[-2::-1]):
            x = lax.conv_transpose(x, larger, (2, 2), "SAME", dimension_numbers=("NCHW", "OIHW", "NCHW"))
            x = twice(jnp.concatenate([skip, x], 1), *kernels)
        return jnp.mean(optax.sigmoid_binary_cross_entropy(conv(x, p["out"], 1, 0), y))

    return train({"down": down, "up": up, "out": floats(1, 32, 1, 1)}, (floats(4, 1, 128, 128), floats(4, 1, 128, 128)), loss)


@step
def channels_mobile():
    layers = ((16, 32, 2), (32, 64, 2), (64, 64, 1), (64, 128, 2))
    blocks = [(floats(4 * a, a, 1, 1), norm(4 * a), floats(4 * a, 1, 3, 3), norm(4 * a), floats(b, 4 * a, 1, 1), norm(b)) for a, b, _ in layers]

    def loss(p, x, y):
        x = jax.nn.relu6(conv(x, p["stem"], 2))
        for (wide, wide_norm, depth, depth_norm, narrow, narrow_norm), (_, _, stride) in zip(p["blocks"], layers):
            h = jax.nn.relu6(batch_norm(conv(x, wide, 1, 0), *wide_norm))
            h = jax.nn.relu6(batch_norm(conv(h, depth, stride, 1, h.shape[1]), *depth_norm))
            h = batch_norm(conv(h, narrow, 1, 0), *narrow_norm)
            x = x + h if x.shape == h.shape else h
        return cross_entropy(x.mean((2, 3)) @ p["head"], y)

    return train({"stem": floats(16, 3, 3, 3), "blocks": blocks, "head": floats(128, 10)}, (floats(32, 3, 64, 64), integers(32)), loss, SGD)


@step
def channels_dilated():
    parameters = {"stem": [floats(32, 3, 3, 3), floats(64, 32, 3, 3)], "rates": [floats(64, 64, 3, 3)] * 3, "out": floats(21, 192, 1, 1)}

    def loss(p, x, y):
        for kernel in p["stem"]:
            x = jax.nn.relu(conv(x, kernel, 2))
        x = jnp.concatenate([jax.nn.relu(conv(x, kernel, dilation=rate)) for kernel, rate in zip(p["rates"], (1, 2, 4))], 1)
        out = jax.image.resize(conv(x, p["out"], 1, 0), (x.shape[0], 21, 64, 64), "bilinear")
        return cross_entropy(jnp.moveaxis(out, 1, -1), y)

    return train(parameters, (floats(8, 3, 64, 64), integers(8, 64, 64)), loss)


@step
def channels_grouped():
    kernels = [floats(64, 3, 3, 3), floats(64, 16, 3, 3), floats(64, 16, 3, 3)]

    def loss(p, x, y):
        x = jax.nn.relu(conv(x, p["kernels"][0], 2))
        x = jax.nn.relu(conv(x, p["kernels"][1], groups=4))
        x = jax.nn.relu(conv(x, p["kernels"][2], 2, groups=4))
        return cross_entropy(x.mean((2, 3)) @ p["head"], y)

    return train({"kernels": kernels, "head": floats(64, 10)}, (floats(32, 3, 32, 32), integers(32)), loss)


@step
def channels_line():
    kernels = [floats(32, 2, 5), floats(64, 32, 5), floats(64, 64, 5)]

    def loss(p, x, y):
        for kernel in p["kernels"]:
            x = jax.nn.relu(lax.conv_general_dilated(x, kernel, (2,), [(2, 2)], dimension_numbers=("NCH", "OIH", "NCH")))
        return cross_entropy(x.mean(2) @ p["head"], y)

    return train({"kernels": kernels, "head": floats(64, 5)}, (floats(32, 2, 512), integers(32)), loss)


if __name__ == "__main__":
    print_named(STEPS, STEPS.stablehlo, __doc__)
