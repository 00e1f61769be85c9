"""Families of vision models in plain JAX: inverted residuals with gates, diffusion, capsules, bent and volumetric windows."""

import jax
import jax.numpy as jnp
import numpy as np

from declare import cross_entropy, dense, dense_weights, integers, normal, step, trained

LOOKED_AT = True


def conv(x, w, stride=1, padding="SAME", groups=1, **more):
    return jax.lax.conv_general_dilated(
        x, w, (stride,) * (w.ndim - 2), padding, dimension_numbers=("NHWC", "HWIO", "NHWC"), feature_group_count=groups, **more
    )


def kernel(*shape, seed=4):
    return normal(*shape, seed=seed, scale=float(1 / np.sqrt(np.prod(shape[:-1]))))


def group_norm(x, scale, groups=4):
    parts = x.reshape(*x.shape[:-1], groups, -1)
    mean = parts.mean((1, 2, 4), keepdims=True)
    variance = parts.var((1, 2, 4), keepdims=True)
    return ((parts - mean) * jax.lax.rsqrt(variance + 1e-5)).reshape(x.shape) * scale


def inverted_residual_weights():
    return {
        "stem": kernel(3, 3, 3, 16, seed=1),
        "expand": kernel(1, 1, 16, 64, seed=2),
        "depth": kernel(5, 5, 1, 64, seed=3),
        "squeeze": dense_weights(64, 8, 64),
        "project": kernel(1, 1, 64, 16, seed=5),
        "head": dense_weights(16, 10),
    }


def inverted_residual(w, x, labels):
    x = jax.nn.silu(conv(x, w["stem"], 2))
    y = jax.nn.silu(conv(x, w["expand"]))
    y = jax.nn.silu(conv(y, w["depth"], groups=64))
    y = y * jax.nn.sigmoid(dense(w["squeeze"], y.mean((1, 2)), jax.nn.silu))[:, None, None]
    x = x + conv(y, w["project"])
    return cross_entropy(dense(w["head"], jax.nn.hard_swish(x).mean((1, 2))), labels)


step(lambda: (inverted_residual_weights(), normal(4, 24, 24, 3), integers(10, 4)), "squeeze_excite")(trained(inverted_residual))


def diffusion_weights():
    return {
        "time": dense_weights(16, 32, 32),
        "in": kernel(3, 3, 3, 16, seed=1),
        "down": kernel(3, 3, 16, 32, seed=2),
        "middle": kernel(3, 3, 32, 32, seed=3),
        "query": kernel(32, 96, seed=5),
        "up": kernel(3, 3, 32, 16, seed=6),
        "out": kernel(3, 3, 32, 3, seed=7),
        "scale": np.ones(32, np.float32),
    }


def time_features(t, width=16):
    angles = t[:, None].astype(jnp.float32) * jnp.exp(-jnp.arange(width // 2) * 0.8)
    return jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], -1)


def diffusion(w, images, noise, t):
    level = jnp.cos(t / 1000 * np.pi / 2)[:, None, None, None]
    x = level * images + jnp.sqrt(1 - level**2) * noise
    embedded = dense(w["time"], time_features(t), jax.nn.silu)
    skip = jax.nn.silu(conv(x, w["in"]))
    x = conv(skip, w["down"], 2) + embedded[:, None, None]
    x = conv(jax.nn.silu(group_norm(x, w["scale"])), w["middle"]) + x
    b, h, v, c = x.shape
    q, k, u = jnp.split(group_norm(x, w["scale"]).reshape(b, h * v, c) @ w["query"], 3, -1)
    x = x + (jax.nn.softmax(q @ k.mT / np.sqrt(c)) @ u).reshape(x.shape)
    x = jax.image.resize(x, (b, 2 * h, 2 * v, c), "nearest")
    x = jnp.concatenate([jax.nn.silu(conv(x, w["up"])), skip], -1)
    return jnp.mean((conv(x, w["out"]) - noise) ** 2)


step(
    lambda: (diffusion_weights(), normal(2, 16, 16, 3), normal(2, 16, 16, 3, seed=5), integers(1000, 2)), "diffusion_unet"
)(trained(diffusion))


def squash(x):
    squared = jnp.sum(x * x, -1, keepdims=True)
    return x * squared / (1 + squared) / jnp.sqrt(squared + 1e-7)


def capsules(w, x, labels):
    y = jax.nn.relu(conv(x, w["first"], padding="VALID"))
    y = conv(y, w["second"], 2, padding="VALID")
    low = squash(y.reshape(y.shape[0], -1, 8))
    votes = jnp.einsum("bid,inde->bine", low, w["votes"])
    logits = jnp.zeros(votes.shape[:3])
    for _ in range(3):
        high = squash(jnp.einsum("bin,bine->bne", jax.nn.softmax(logits, 2), votes))
        logits = logits + jnp.einsum("bine,bne->bin", votes, high)
    length = jnp.linalg.norm(high, axis=-1)
    wanted = jax.nn.one_hot(labels, length.shape[1])
    return jnp.mean(wanted * jax.nn.relu(0.9 - length) ** 2 + 0.5 * (1 - wanted) * jax.nn.relu(length - 0.1) ** 2)


step(
    lambda: (
        {"first": kernel(5, 5, 1, 16, seed=1), "second": kernel(3, 3, 16, 32, seed=2), "votes": normal(64, 5, 8, 12, scale=0.1)},
        normal(4, 14, 14, 1), integers(5, 4),
    ), "capsule_routing",
)(trained(lambda w, x, labels: capsules(w, x, labels)))


def bilinear(image, places):
    low = jnp.floor(places)
    part = places - low
    y, x = low[..., 0].astype(jnp.int32), low[..., 1].astype(jnp.int32)
    size = image.shape[0]
    take = lambda i, j: image[jnp.clip(i, 0, size - 1), jnp.clip(j, 0, size - 1)]
    fy, fx = part[..., :1], part[..., 1:]
    return (take(y, x) * (1 - fy) + take(y + 1, x) * fy) * (1 - fx) + (take(y, x + 1) * (1 - fy) + take(y + 1, x + 1) * fy) * fx


def deformable(w, x, target):
    size = x.shape[1]
    offsets = conv(x, w["offset"]).reshape(*x.shape[:3], 9, 2)
    grid = jnp.stack(jnp.meshgrid(jnp.arange(size), jnp.arange(size), indexing="ij"), -1)[:, :, None] + jnp.array(
        [[i, j] for i in (-1, 0, 1) for j in (-1, 0, 1)]
    )
    patches = jax.vmap(bilinear)(x, grid + offsets)
    return jnp.mean((jnp.einsum("bhwkc,kcd->bhwd", patches, w["kernel"]) - target) ** 2)


step(
    lambda: ({"offset": kernel(3, 3, 8, 18, seed=1), "kernel": kernel(9, 8, 16)}, normal(2, 8, 8, 8), normal(2, 8, 8, 16, seed=3)),
    "deformable_windows",
)(trained(deformable))


def volumes(w, x, labels):
    numbers = ("NDHWC", "DHWIO", "NDHWC")
    convolve = lambda x, k, s: jax.lax.conv_general_dilated(x, k, (s,) * 3, "SAME", dimension_numbers=numbers)
    y = jax.nn.relu(convolve(x, w["first"], 1))
    y = jax.lax.reduce_window(y, -jnp.inf, jax.lax.max, (1, 2, 2, 2, 1), (1, 2, 2, 2, 1), "VALID")
    y = jax.nn.relu(convolve(y, w["second"], 2))
    return cross_entropy(dense(w["head"], y.mean((1, 2, 3))), labels)


step(
    lambda: (
        {"first": kernel(3, 3, 3, 2, 8, seed=1), "second": kernel(3, 3, 3, 8, 16, seed=2), "head": dense_weights(16, 4)},
        normal(2, 8, 8, 8, 2), integers(4, 2),
    ), "volumes",
)(trained(volumes))


def convnext(w, x, labels):
    x = conv(x, w["patch"], 4, "VALID")
    for block in w["blocks"]:
        y = conv(x, block["depth"], groups=x.shape[-1])
        y = jax.nn.standardize(y, -1) * block["scale"]
        x = x + block["gamma"] * (jax.nn.gelu(y @ block["wide"]) @ block["narrow"])
    return cross_entropy(dense(w["head"], x.mean((1, 2))), labels)


def convnext_weights():
    block = lambda seed: {
        "depth": kernel(7, 7, 1, 24, seed=seed), "scale": np.ones(24, np.float32), "wide": kernel(24, 96, seed=seed + 1),
        "narrow": kernel(96, 24, seed=seed + 2), "gamma": np.full(24, 0.1, np.float32),
    }
    return {"patch": kernel(4, 4, 3, 24, seed=1), "blocks": [block(5), block(9)], "head": dense_weights(24, 10)}


step(lambda: (convnext_weights(), normal(4, 32, 32, 3), integers(10, 4)), "convnext_blocks")(trained(convnext))


def windows(x, size):
    b, h, v, c = x.shape
    return x.reshape(b, h // size, size, v // size, size, c).transpose(0, 1, 3, 2, 4, 5).reshape(-1, size * size, c)


def shifted_windows(w, x, target):
    """Swin: attention in windows that a roll has shifted, with a table of relative positions."""
    y = windows(jnp.roll(x, (-2, -2), (1, 2)), 4)
    q, k, v = jnp.split(y @ w["qkv"], 3, -1)
    split = lambda a: a.reshape(*a.shape[:2], 2, -1).swapaxes(1, 2)
    at = np.stack(np.meshgrid(np.arange(4), np.arange(4), indexing="ij"), -1).reshape(-1, 2)
    apart = (at[:, None] - at[None] + 3) @ np.array([7, 1])
    scores = split(q) @ split(k).mT / 4 + w["bias"][apart].transpose(2, 0, 1)
    y = (jax.nn.softmax(scores) @ split(v)).swapaxes(1, 2).reshape(y.shape)
    b, h, width, c = x.shape
    y = y.reshape(b, h // 4, width // 4, 4, 4, c).transpose(0, 1, 3, 2, 4, 5).reshape(x.shape)
    return jnp.mean((x + jnp.roll(y, (2, 2), (1, 2)) - target) ** 2)


step(
    lambda: ({"qkv": kernel(32, 96), "bias": normal(49, 2, scale=0.1)}, normal(2, 8, 8, 32), normal(2, 8, 8, 32, seed=7)), "shifted_windows"
)(trained(shifted_windows))


def total_variation(image, noisy):
    """Denoising by the gradient of an energy, with a Gaussian blur that JAX makes of slices."""
    def energy(x):
        across = jnp.diff(x, axis=1)
        down = jnp.diff(x, axis=0)
        blurred = jax.scipy.signal.convolve2d(x, jnp.outer(jnp.array([1.0, 2, 1]), jnp.array([1.0, 2, 1])) / 16, mode="same")
        return jnp.sum((blurred - noisy) ** 2) + 0.1 * (jnp.abs(across).sum() + jnp.abs(down).sum())

    value, gradient = jax.value_and_grad(energy)(image)
    return image - 0.05 * gradient, value


step(lambda: (normal(28, 28), normal(28, 28, seed=2)), "total_variation")(total_variation)


def detection(w, x, boxes, labels):
    """Anchors, overlaps, the best anchor for each box, focal loss: what a one-stage detector does behind its network."""
    y = jax.nn.relu(conv(x, w["body"], 2))
    out = (y.reshape(y.shape[0], -1, 16) @ w["head"])
    centres = jnp.stack(jnp.meshgrid(jnp.arange(8), jnp.arange(8), indexing="ij"), -1).reshape(-1, 2) * 2.0 + 1
    anchors = jnp.concatenate([centres - 2, centres + 2], -1)
    low = jnp.maximum(anchors[None, :, None, :2], boxes[:, None, :, :2])
    high = jnp.minimum(anchors[None, :, None, 2:], boxes[:, None, :, 2:])
    common = jnp.prod(jnp.maximum(high - low, 0), -1)
    area = jnp.prod(boxes[..., 2:] - boxes[..., :2], -1)
    overlap = common / (16 + area[:, None] - common)
    best = jnp.argmax(overlap, -1)
    positive = jnp.max(overlap, -1) > 0.3
    wanted = jnp.take_along_axis(boxes, best[..., None], 1)
    classes = jax.nn.one_hot(jnp.take_along_axis(labels, best, 1), 3) * positive[..., None]
    p = jax.nn.sigmoid(out[..., 4:])
    focal = -jnp.where(classes > 0, (1 - p) ** 2 * jax.nn.log_sigmoid(out[..., 4:]), p**2 * jax.nn.log_sigmoid(-out[..., 4:]))
    error = jnp.abs(out[..., :4] + anchors - wanted)
    smooth = jnp.where(error < 1, 0.5 * error**2, error - 0.5)
    return (focal.sum() + (smooth * positive[..., None]).sum()) / jnp.maximum(positive.sum(), 1)


def boxes(count=2, each=3):
    low = np.random.default_rng(3).uniform(0, 10, (count, each, 2))
    return np.concatenate([low, low + np.random.default_rng(4).uniform(2, 6, (count, each, 2))], -1).astype(np.float32)


step(
    lambda: ({"body": kernel(3, 3, 3, 16), "head": kernel(16, 7)}, normal(2, 16, 16, 3), boxes(), integers(3, 2, 3)), "detection_anchors"
)(trained(detection))


@step(lambda: (boxes(1, 40)[0], normal(40)))
def suppression(boxes, scores):
    """Non-maximum suppression: sort, overlaps, a loop that keeps or drops."""
    order = jnp.argsort(-scores)
    sorted_boxes = boxes[order]
    low = jnp.maximum(sorted_boxes[:, None, :2], sorted_boxes[None, :, :2])
    high = jnp.minimum(sorted_boxes[:, None, 2:], sorted_boxes[None, :, 2:])
    common = jnp.prod(jnp.maximum(high - low, 0), -1)
    area = jnp.prod(sorted_boxes[:, 2:] - sorted_boxes[:, :2], -1)
    overlap = common / (area[:, None] + area[None] - common)

    def body(i, keep):
        return jnp.where((overlap[i] > 0.5) & (jnp.arange(40) > i) & keep[i], False, keep)

    keep = jax.lax.fori_loop(0, 40, body, jnp.ones(40, bool))
    return sorted_boxes, keep, scores[order] * keep
