"""Convolutions of all kinds, pooling, resizing, batch norm."""

import jax
import jax.numpy as jnp
import numpy as np

from declare import cross_entropy, descend, integers, normal, step, trained

NHWC = ("NHWC", "HWIO", "NHWC")


def conv(x, w, stride=1, padding="SAME", **more):
    return jax.lax.conv_general_dilated(x, w, (stride, stride), padding, dimension_numbers=NHWC, **more)


def squared(result):
    return jnp.mean(result**2)


def images(channels=8, size=12, batch=8):
    return normal(batch, size, size, channels, seed=9)


def kernel(*shape, seed=4):
    return normal(*shape, seed=seed, scale=1 / np.sqrt(np.prod(shape[:-1])))


def declare_conv(name, shape, result, channels=8, size=12):
    step(lambda: (kernel(*shape), images(channels, size)), name)(trained(lambda w, x: squared(jnp.tanh(result(x, w)))))


declare_conv("conv_same", (3, 3, 8, 16), conv)
declare_conv("conv_stride2_7x7", (7, 7, 3, 16), lambda x, w: conv(x, w, 2), channels=3, size=24)
declare_conv("conv_depthwise", (3, 3, 1, 16), lambda x, w: conv(x, w, feature_group_count=8))
declare_conv("conv_grouped", (3, 3, 4, 16), lambda x, w: conv(x, w, feature_group_count=2))
declare_conv("conv_dilated", (3, 3, 8, 16), lambda x, w: conv(x, w, rhs_dilation=(2, 2)))
declare_conv("conv_transposed", (3, 3, 8, 16), lambda x, w: jax.lax.conv_transpose(x, w, (2, 2), "SAME"))
declare_conv("conv_1x1", (1, 1, 8, 32), conv)
declare_conv("conv_per_image", (3, 3, 8, 16), lambda x, w: jax.vmap(lambda a: conv(a[None], w + jnp.mean(a))[0])(x))


@step(lambda: (kernel(5, 8, 16), normal(8, 40, 8)))
def conv_1d_causal(weights, x):
    def loss(w):
        y = jax.lax.conv_general_dilated(x, w, (1,), [(4, 0)], dimension_numbers=("NWC", "WIO", "NWC"))
        return squared(jax.nn.swish(y))

    value, gradient = jax.value_and_grad(loss)(weights)
    return weights - 0.1 * gradient, value


@step(lambda: (kernel(3, 3, 3, 4, 8), normal(2, 8, 8, 8, 4)))
def conv_3d(weights, x):
    def loss(w):
        return squared(jnp.tanh(jax.lax.conv_general_dilated(x, w, (1, 1, 1), "SAME", dimension_numbers=("NDHWC", "DHWIO", "NDHWC"))))

    value, gradient = jax.value_and_grad(loss)(weights)
    return weights - 0.1 * gradient, value


def declare_resize(method, size):
    @step(lambda: (kernel(3, 3, 4, 4), images(4, 12, 4)), f"resize_{method}_{size}")
    def train(weights, x):
        return trained(lambda w, x: squared(jax.image.resize(conv(x, w), (4, size, size, 4), method)))(weights, x)


declare_resize("bilinear", 24)
declare_resize("nearest", 24)
declare_resize("cubic", 7)
declare_resize("lanczos3", 20)


@step(lambda: (kernel(3, 3, 8, 8), images()))
def pooling_max(weights, x):
    def loss(w, x):
        y = jax.lax.reduce_window(conv(x, w), -jnp.inf, jax.lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")
        return squared(y)

    return trained(loss)(weights, x)


@step(lambda: (kernel(3, 3, 8, 8), images()))
def pooling_average(weights, x):
    def loss(w, x):
        y = jax.lax.reduce_window(conv(x, w), 0.0, jax.lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "VALID") / 4
        return squared(y)

    return trained(loss)(weights, x)


@step(lambda: (kernel(3, 3, 8, 16), np.ones(16, np.float32), normal(16), images()))
def conv_batch_norm(weights, scale, shift, x):
    def loss(all_weights):
        w, scale, shift = all_weights
        y = conv(x, w)
        mean, variance = jnp.mean(y, (0, 1, 2)), jnp.var(y, (0, 1, 2))
        return squared(jax.nn.relu((y - mean) * jax.lax.rsqrt(variance + 1e-5) * scale + shift) - 1)

    value, gradient = jax.value_and_grad(loss)((weights, scale, shift))
    return descend((weights, scale, shift), gradient), value


@step(lambda: (images(3, 16, 8), integers(5, 8, 2), integers(2, 8, seed=8)))
def augment_crop_flip(x, corners, flips):
    def one(image, corner, flip):
        cropped = jax.lax.dynamic_slice(image, (corner[0], corner[1], 0), (12, 12, 3))
        return jnp.where(flip == 1, cropped[:, ::-1], cropped)

    return jax.vmap(one)(x, corners, flips)


@step(lambda: (images(3, 16, 4), normal(4, 2, 3, scale=0.1)))
def spatial_transformer(x, theta):
    def loss(theta):
        grid = jnp.stack(jnp.meshgrid(jnp.linspace(-1, 1, 10), jnp.linspace(-1, 1, 10), indexing="ij") + [jnp.ones((10, 10))])
        places = (jnp.einsum("bij,jhw->bihw", theta + jnp.eye(2, 3), grid) + 1) * 7.5

        def sample(image, place):
            return jnp.stack([jax.scipy.ndimage.map_coordinates(image[..., c], list(place), 1, mode="nearest") for c in range(3)])

        return squared(jax.vmap(sample)(x, places))

    return jax.value_and_grad(loss)(theta)
