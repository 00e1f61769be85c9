"""Training steps of nets that a seed draws: nobody chose them, so nobody can have built for them.

    python bench/programs/drawn_nets.py 7 > drawn_7.mlir

A seed draws the kind (images, words, maps, series, sounds, tables, points), the layers and their sizes, the batch, the type of numbers, the norm,
the activation, the loss and the optimiser. drawn_nets.md says what came out, third_tries.py how to measure one. The line on stderr says what was drawn. Needs jax, flax and optax.
"""

import os

os.environ["JAX_PLATFORMS"] = "cpu"

import sys

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from model_steps import flax_step
from ordinary_steps import floats, integers

lax = jax.lax


class Drawn:
    """What the seed says, by name: each thing is drawn once, in the order in which it is first asked for."""

    def __init__(self, seed):
        self.random, self.said = np.random.default_rng(seed), {}

    def __call__(self, name, *options):
        if name not in self.said:
            self.said[name] = options[int(self.random.integers(len(options)))]
        return self.said[name]


ACTIVATIONS = dict(relu=nn.relu, gelu=nn.gelu, silu=nn.silu, elu=nn.elu, tanh=jnp.tanh, leaky=nn.leaky_relu, hard_swish=nn.hard_swish, mish=jax.nn.mish)


class Layers:
    """The layers that every kind shares, of the drawn type, norm and activation."""

    def __init__(self, d, images=False):
        self.d, self.type = d, dict(f32=jnp.float32, bf16=jnp.bfloat16, f64=jnp.float64)[d("type", "f32", "bf16", "bf16")]
        self.activate = ACTIVATIONS[d("activation", *ACTIVATIONS)]
        self.norms = ("batch", "batch", "group", "layer", "none", "instance") if images else ("layer", "layer", "rms", "none")
        d("norm", *self.norms)

    def dense(self, n, **given):
        return nn.Dense(n, dtype=self.type, **given)

    def conv(self, n, size, **given):
        return nn.Conv(n, size, dtype=self.type, use_bias=self.d("norm") == "none", **given)

    def norm(self, x):
        kind, features = self.d("norm"), x.shape[-1]
        if kind == "batch":
            return nn.BatchNorm(use_running_average=False, momentum=0.9, dtype=self.type)(x)
        if kind == "group":
            return nn.GroupNorm(num_groups=next(n for n in (32, 16, 8, 4, 3, 1) if features % n == 0), dtype=self.type)(x)
        if kind == "instance":
            return nn.InstanceNorm(dtype=self.type)(x)
        return dict(layer=nn.LayerNorm, rms=nn.RMSNorm)[kind](dtype=self.type)(x) if kind != "none" else x

    def drop(self, x):
        return nn.Dropout(self.d("dropout", 0.0, 0.0, 0.1, 0.3), deterministic=False)(x)

    def around(self, block):
        """A layer, or the same computed again behind the loss."""
        return nn.remat(block) if self.d("again", False, False, False, True) else block


def optimizer(d):
    rate = optax.warmup_cosine_decay_schedule(0.0, 1e-3, 100, 10000)
    made = dict(
        sgd=lambda: optax.sgd(rate, 0.9, nesterov=d("nesterov", False, True)),
        adam=lambda: optax.adam(1e-3),
        adamw=lambda: optax.adamw(rate, weight_decay=0.05),
        rmsprop=lambda: optax.rmsprop(rate, momentum=0.9),
        adafactor=lambda: optax.adafactor(1e-3),
        lamb=lambda: optax.lamb(rate, weight_decay=0.01),
        lion=lambda: optax.lion(1e-4),
    )
    found = made[d("optimiser", "sgd", "sgd", "adam", "adam", "adamw", "adamw", "rmsprop", "adafactor", "lamb", "lion")]()
    return optax.chain(optax.clip_by_global_norm(1.0), found) if d("clipped", False, True) else found


def classified(d):
    """Loss of logits (b, n) and labels (b,)."""
    kind = d("loss", "plain", "smoothed", "focal", "bits")

    def loss(logits, labels):
        logits, n = logits.astype(jnp.float32), logits.shape[-1]
        wanted = jax.nn.one_hot(labels, n)
        if kind == "smoothed":
            return optax.softmax_cross_entropy(logits, optax.smooth_labels(wanted, 0.1)).mean()
        if kind == "focal":
            return optax.sigmoid_focal_loss(logits, wanted, gamma=2.0).sum(-1).mean()
        if kind == "bits":
            return optax.sigmoid_binary_cross_entropy(logits, wanted).mean()
        return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()

    return loss


def near(d):
    """Loss of numbers and wanted numbers."""
    kind = d("loss", "square", "huber", "absolute", "cosine")

    def loss(found, wanted):
        found = found.astype(jnp.float32)
        if kind == "huber":
            return optax.huber_loss(found, wanted).mean()
        if kind == "cosine":
            return optax.cosine_distance(found, wanted, epsilon=1e-6).mean()
        return jnp.mean(jnp.abs(found - wanted) if kind == "absolute" else (found - wanted) ** 2)

    return loss


def convolved(l, x, n, step=1):
    """A block of an image or a series: plain, bottleneck, inverted bottleneck, ConvNeXt's, with gates by means."""
    d, dims = l.d, x.ndim - 2
    size = lambda k: (k,) * dims
    kind, k = d("block", "plain", "basic", "bottleneck", "inverted", "next", "grouped"), d("window", 3, 3, 3, 5, 7)
    strides = size(step)
    if kind == "plain":
        return l.activate(l.norm(l.conv(n, size(k), strides=strides)(x)))
    if kind == "basic":
        y = l.activate(l.norm(l.conv(n, size(k), strides=strides)(x)))
        y = l.norm(l.conv(n, size(k))(y))
    elif kind in ("bottleneck", "grouped"):
        inner = n // 2 if kind == "grouped" else n // 4
        y = l.activate(l.norm(l.conv(inner, size(1))(x)))
        y = l.activate(l.norm(l.conv(inner, size(k), strides=strides, feature_group_count=inner // 8 if kind == "grouped" else 1)(y)))
        y = l.norm(l.conv(n, size(1))(y))
    elif kind == "inverted":
        inner = x.shape[-1] * d("wider", 3, 4, 6)
        y = l.activate(l.norm(l.conv(inner, size(1))(x)))
        y = l.activate(l.norm(l.conv(inner, size(k), strides=strides, feature_group_count=inner)(y)))
        y = l.norm(l.conv(n, size(1))(y))
    else:
        y = l.norm(nn.Conv(x.shape[-1], size(7), strides=strides, feature_group_count=x.shape[-1], dtype=l.type)(x))
        y = l.dense(n)(l.activate(l.dense(4 * n)(y)))
    if d("gate by means", False, False, True):
        means = y.mean(tuple(range(1, x.ndim - 1)))
        gate = nn.sigmoid(l.dense(n)(l.activate(l.dense(max(n // 8, 8))(means))))
        y = y * gate.reshape(len(y), *(1,) * dims, n)
    if x.shape[-1] != n or step > 1:
        x = l.norm(l.conv(n, size(1), strides=strides)(x))
    return l.activate(x + l.drop(y)) if kind != "next" else x + l.drop(y)


def pooled(l, x):
    """Half the extents: by most, by means, or not at all (the next block strides)."""
    window = (2,) * (x.ndim - 2)
    kind = l.d("smaller by", "most", "means", "strides", "strides")
    return (dict(most=nn.max_pool, means=nn.avg_pool)[kind](x, window, window), 1) if kind != "strides" else (x, 2)


def attended(l, x, causal=False, told=None):
    """A layer of a transformer: norm before or behind, heads that share keys, turned places, gated or plain MLP."""
    d, f = l.d, x.shape[-1]
    size = d("head", 32, 48, 64, 80, 128)
    heads = max(f // size, 1)
    first = d("norm first", True, True, False)

    def attention(x, told):
        shared = heads // 2 if d("shared keys", False, False, True) and heads % 2 == 0 else heads
        q = l.dense(heads * size)(x).reshape(*x.shape[:2], heads, size)
        k, v = (l.dense(shared * size)(told).reshape(*told.shape[:2], shared, size) for _ in range(2))
        if d("places", "learnt", "turned") == "turned":
            q, k = turned(q), turned(k)
        y = jax.nn.dot_product_attention(q, k, v, is_causal=causal)
        return l.dense(f)(y.reshape(*x.shape[:2], heads * size))

    def mlp(x):
        wide = int(f * d("MLP", 2, 2.5, 4))
        y = l.activate(l.dense(wide)(x))
        return l.dense(f)(y * l.dense(wide)(x) if d("gated", False, True) else y)

    for layer in (lambda x: attention(x, x), mlp) if told is None else (lambda x: attention(x, x), lambda x: attention(x, told), mlp):
        x = x + l.drop(layer(l.norm(x))) if first else l.norm(x + l.drop(layer(x)))
        if told is not None:
            causal = False
    return x


def turned(x):
    """Rotary places of (b, t, h, d)."""
    half = x.shape[-1] // 2
    angle = np.arange(x.shape[1])[:, None, None] * 10000.0 ** (-np.arange(half) / half)
    sin, cos = np.sin(angle).astype(x.dtype), np.cos(angle).astype(x.dtype)
    a, b = x[..., :half], x[..., half:]
    return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], -1)


def images(d):
    """Classes of images: convolutions, or patches and a transformer, or patches and an MLP across them."""
    l = Layers(d, images=True)
    b, size = d("batch", 16, 24, 32, 48, 64, 100, 128), d("size", 32, 48, 64, 96, 112, 128)
    width, depth, kinds = d("width", 24, 32, 40, 48, 64), d("depth", 1, 2, 3), d("kinds", 10, 37, 100, 555, 1000)
    stages = 3 if size <= 48 else 4
    body = d("body", "stages", "stages", "dense", "patches")

    def stages_of(x):
        x = l.activate(l.norm(l.conv(width, (7, 7) if size > 64 else (3, 3), strides=2 if size > 64 else 1)(x)))
        for stage in range(stages):
            x, step = pooled(l, x) if stage else (x, 1)
            for layer in range(depth):
                if body == "dense":
                    x = jnp.concatenate([x, l.conv(width // 2, (3, 3))(l.activate(l.norm(x)))], -1)
                else:
                    x = convolved(l, x, width << stage, step if layer == 0 else 1)
            if body == "dense" and step > 1:
                x = nn.avg_pool(l.conv(x.shape[-1] // 2, (1, 1))(l.activate(l.norm(x))), (2, 2), (2, 2))
        return x.mean((1, 2))

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            x = x.astype(l.type)
            if body != "patches":
                return l.dense(kinds)(l.drop(stages_of(x)))
            patch = d("patch", 4, 8, 16) if size > 32 else 4
            x = nn.Conv(4 * width, (patch,) * 2, (patch,) * 2, dtype=l.type)(x).reshape(len(x), -1, 4 * width)
            x = x + self.param("places", nn.initializers.normal(0.02), x.shape[1:]).astype(l.type)
            mixed = d("across", "attention", "attention", "MLP") == "MLP"
            for _ in range(2 * depth):
                if mixed:
                    y = l.dense(2 * x.shape[1])(l.norm(x).swapaxes(1, 2))
                    x = x + l.dense(x.shape[1])(l.activate(y)).swapaxes(1, 2)
                    x = x + l.dense(4 * width)(l.activate(l.dense(8 * width)(l.norm(x))))
                else:
                    x = attended(l, x)
            return l.dense(kinds)(l.norm(x).mean(1))

    return flax_step(Net(), lambda out, x, labels: classified(d)(out, labels), optimizer(d), floats(b, size, size, d("channels", 1, 3, 3, 4)), integers(b))


def words(d):
    """Next words, words under masks, classes of texts, or translation."""
    l = Layers(d)
    b, t = d("batch", 8, 12, 16, 32, 48), d("length", 64, 100, 128, 200, 256)
    f, depth, known = d("width", 128, 192, 256, 320, 384, 512), d("depth", 2, 3, 4), d("words", 256, 5000, 10000, 32000, 30522)
    task, body = d("task", "next", "next", "masked", "classes", "translated"), d("body", "attention", "attention", "attention", "recurrent", "convolutions")

    def encoded(x, causal):
        for layer in range(depth):
            if body == "recurrent":
                cell = dict(lstm=nn.OptimizedLSTMCell, gru=nn.GRUCell)[d("cell", "lstm", "gru")](f, dtype=l.type)
                y = nn.RNN(cell)(x)
                if not causal and d("both ways", False, True):
                    y = y + nn.RNN(nn.GRUCell(f, dtype=l.type), reverse=True, keep_order=True)(x)
                x = l.drop(x + y)
            elif body == "convolutions":
                y = l.conv(2 * f, (d("window", 3, 4, 5),), padding="CAUSAL" if causal else "SAME", kernel_dilation=1 << layer)(l.norm(x))
                x = x + l.drop(nn.glu(y))
            else:
                x = attended(l, x, causal)
        return x

    class Net(nn.Module):
        @nn.compact
        def __call__(self, seen, said):
            table = nn.Embed(known, f, dtype=l.type)
            x = table(seen) * f**0.5
            if d("places", "learnt", "turned") == "learnt":
                x = x + self.param("places", nn.initializers.normal(0.02), x.shape[1:]).astype(l.type)
            x = encoded(l.drop(x), task in ("next",))
            if task == "translated":
                y = table(said)
                for _ in range(depth):
                    y = attended(l, y, True, x)
                x = y
            if task == "classes":
                return l.dense(20)(l.norm(x).max(1))
            return table.attend(l.norm(x)) if d("tied", False, True) else l.dense(known)(l.norm(x))

    def loss(out, seen, said, labels):
        if task == "classes":
            return classified(d)(out, labels)
        wanted = said if task in ("masked",) else jnp.roll(seen if task == "next" else said, -1, 1)
        each = optax.softmax_cross_entropy_with_integer_labels(out.astype(jnp.float32), wanted)
        counted = (wanted > 0) if task != "masked" else (seen == 1)
        return (each * counted).sum() / jnp.maximum(counted.sum(), 1)

    return flax_step(Net(), loss, optimizer(d), integers(b, t), integers(b, t), integers(b), inputs=2)


def maps(d):
    """An image from an image, down and up again."""
    l = Layers(d, images=True)
    b, size, width, steps = d("batch", 4, 8, 12, 16, 32), d("size", 64, 96, 128, 160), d("width", 16, 24, 32, 48), d("steps", 2, 3)
    out = d("results", 1, 3, 21)

    def larger(x, n):
        kind = d("larger by", "transposed", "nearest", "bilinear", "shuffled")
        if kind == "transposed":
            return nn.ConvTranspose(n, (2, 2) if d("window up", 2, 4) == 2 else (4, 4), (2, 2), dtype=l.type)(x)
        if kind == "shuffled":
            y = l.conv(4 * n, (1, 1))(x).reshape(*x.shape[:3], 2, 2, n)
            return y.transpose(0, 1, 3, 2, 4, 5).reshape(len(x), 2 * x.shape[1], 2 * x.shape[2], n)
        return l.conv(n, (3, 3))(jax.image.resize(x, (len(x), 2 * x.shape[1], 2 * x.shape[2], x.shape[3]), kind))

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            x, kept = convolved(l, l.conv(width, (3, 3))(x.astype(l.type)), width), []
            for level in range(steps):
                kept.append(x)
                x, step = pooled(l, x)
                x = convolved(l, x, width << (level + 1), step)
            if d("attention inside", False, True):
                y = attended(l, x.reshape(len(x), -1, x.shape[-1]))
                x = x + y.reshape(x.shape)
            for level in reversed(range(steps)):
                x = larger(x, width << level)
                x = jnp.concatenate([x, kept[level]], -1) if d("kept by", "joined", "added") == "joined" else x + kept[level]
                x = convolved(l, x, width << level)
            return l.conv(out, (1, 1))(x)

    return flax_step(Net(), lambda found, x, wanted: near(d)(found, wanted), optimizer(d), floats(b, size, size, 3), floats(b, size, size, out))


def series(d):
    """What follows in many series, from what was, by convolutions, by a recurrent net, or by attention over patches."""
    l = Layers(d)
    b, t, n, ahead = d("batch", 32, 64, 100, 256), d("length", 96, 168, 336), d("variables", 1, 7, 21), d("ahead", 12, 24, 96)
    f, depth, body = d("width", 64, 96, 128, 200), d("depth", 1, 2, 3), d("body", "convolutions", "recurrent", "patches", "MLP")

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            mean, deviation = x.mean(1, keepdims=True), x.std(1, keepdims=True) + 1e-5
            y = ((x - mean) / deviation).astype(l.type)
            if body == "patches":
                y = y.swapaxes(1, 2).reshape(b * n, t // 12, 12)
                y = l.dense(f)(y)
                for _ in range(depth):
                    y = attended(l, y)
                y = l.dense(ahead)(y.reshape(b, n, -1)).swapaxes(1, 2)
            elif body == "MLP":
                y = y.swapaxes(1, 2)
                for _ in range(depth):
                    y = y + l.dense(t)(l.activate(l.dense(2 * f)(l.norm(y))))
                y = l.dense(ahead)(y).swapaxes(1, 2)
            else:
                y = l.dense(f)(y)
                for layer in range(depth):
                    if body == "recurrent":
                        y = nn.RNN(nn.OptimizedLSTMCell(f, dtype=l.type))(y)
                    else:
                        y = y + l.activate(l.conv(f, (3,), padding="CAUSAL", kernel_dilation=2**layer)(l.norm(y)))
                y = l.dense(ahead * n)(y[:, -1]).reshape(b, ahead, n)
            return y.astype(jnp.float32) * deviation + mean

    return flax_step(Net(), lambda out, x, wanted: near(d)(out, wanted), optimizer(d), floats(b, t, n), floats(b, ahead, n))


def sounds(d):
    """Classes of raw sounds or of their spectra: convolutions along the line, then means or a recurrent net."""
    l = Layers(d, images=True)
    b, t, width, depth = d("batch", 8, 16, 32, 64), d("samples", 4000, 8000, 16000), d("width", 32, 48, 64), d("depth", 2, 3)
    spectra = d("heard as", "samples", "spectra")

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            if spectra == "spectra":
                frames = x[:, np.arange(0, t - 400, 160)[:, None] + np.arange(400)] * np.hanning(400).astype(np.float32)
                power = jnp.abs(jnp.fft.rfft(frames, 512)) ** 2
                x = jnp.log(power @ self.param("filters", nn.initializers.uniform(), (257, 80)) + 1e-6).astype(l.type)
            else:
                x = l.activate(l.norm(l.conv(width, (10,), strides=(5,))(x[..., None].astype(l.type))))
            for stage in range(depth):
                x, step = pooled(l, x)
                x = convolved(l, x, width << min(stage, 2), step)
            if d("then", "means", "recurrent") == "recurrent":
                x = nn.RNN(nn.GRUCell(2 * width, dtype=l.type))(x)
            return l.dense(d("kinds", 10, 35))(x.mean(1))

    return flax_step(Net(), lambda out, x, labels: classified(d)(out, labels), optimizer(d), floats(b, t), integers(b))


def tables(d):
    """Rows of numbers and of kinds: tables of vectors, then an MLP, products of pairs, or attention over the columns."""
    l = Layers(d)
    b, numbers, columns = d("batch", 512, 1000, 2048, 4096), d("numbers", 4, 13, 30), d("columns", 6, 10, 26)
    rows, f, body = d("rows", 1000, 20000, 100000), d("width", 8, 16, 32, 64), d("body", "MLP", "pairs", "attention", "crossed")
    wide, depth = d("MLP width", 128, 200, 256, 512), d("depth", 2, 3)

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x, kinds):
            e = nn.Embed(rows * columns, f, dtype=l.type)(kinds + np.arange(columns) * rows)
            x = x.astype(l.type)
            if body == "attention":
                e = jnp.concatenate([e, x[..., None] * self.param("each", nn.initializers.normal(), (numbers, f)).astype(l.type)], 1)
                for _ in range(depth):
                    e = attended(l, e)
                return l.dense(1)(e.mean(1))[:, 0]
            if body == "pairs":
                e = jnp.concatenate([e, l.dense(f)(x)[:, None]], 1)
                one, other = np.triu_indices(columns + 1, 1)
                y = jnp.concatenate([l.dense(f)(x), jnp.einsum("bif,bjf->bij", e, e)[:, one, other]], 1)
            else:
                y = jnp.concatenate([x, e.reshape(len(e), -1)], 1)
            if body == "crossed":
                first = y
                for _ in range(depth):
                    y = first * l.dense(first.shape[1])(y) + y
            for _ in range(depth):
                y = l.drop(l.activate(l.norm(l.dense(wide)(y))))
            return l.dense(1)(y)[:, 0]

    loss = lambda out, x, kinds, wanted: optax.sigmoid_binary_cross_entropy(out.astype(jnp.float32), wanted).mean()
    return flax_step(Net(), loss, optimizer(d), floats(b, numbers), integers(b, columns), floats(b), inputs=2)


def points(d):
    """Classes of clouds or of graphs: each point's neighbours, or edges given as pairs."""
    l = Layers(d)
    b, n, f, depth = d("batch", 8, 16, 32), d("points", 128, 256, 500, 1024), d("width", 32, 64, 128), d("depth", 2, 3)
    body = d("body", "alone", "neighbours", "edges")
    edges = 6 * n

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x, pairs):
            y = l.dense(f)(x.astype(l.type))
            near = lax.top_k(2 * jnp.einsum("bic,bjc->bij", x, x) - (x * x).sum(-1)[:, None], 8)[1]
            for _ in range(depth):
                if body == "neighbours":
                    around = jnp.take_along_axis(y[:, None], near[..., None], 2)
                    y = l.activate(l.norm(l.dense(f)(around - y[:, :, None]))).max(2) + y
                elif body == "edges":
                    sent = jax.vmap(lambda y, e: jax.ops.segment_sum(y[e[0]], e[1], n))(y, pairs)
                    y = l.activate(l.norm(l.dense(f)(sent) + l.dense(f)(y)))
                else:
                    y = l.activate(l.norm(l.dense(f)(y)))
            y = jnp.concatenate([y.max(1), y.mean(1)], -1)
            return l.dense(40)(l.drop(l.activate(l.dense(4 * f)(y))))

    loss = lambda out, x, pairs, labels: classified(d)(out, labels)
    return flax_step(Net(), loss, optimizer(d), floats(b, n, 3), integers(b, 2, edges), integers(b), inputs=2)


KINDS = (images, images, images, words, words, words, maps, maps, series, sounds, tables, points)


def stablehlo(seed):
    d = Drawn(seed)
    kind = d("kind", *KINDS)
    update, arguments = kind(d)
    text = jax.jit(update, donate_argnums=(0, 1, 2)).lower(*arguments()).as_text()
    print(f"{seed}: {kind.__name__}, " + ", ".join(f"{k} {v}" for k, v in d.said.items() if k != "kind"), file=sys.stderr)
    return text


if __name__ == "__main__":
    if len(sys.argv) != 2 or not sys.argv[1].isdigit():
        sys.exit("python bench/programs/drawn_nets.py SEED, a number, prints StableHLO")
    print(stablehlo(int(sys.argv[1])))
