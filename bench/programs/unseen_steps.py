"""One training step each of ten kinds that neither architectures.py nor ordinary_steps.py has, as their authors would write them.

    PYTHONPATH=workloads/capture:bench python -m tpusim_capture bench/programs/unseen_steps.py:xception --chip v3 -o STEPS/xception
    bench/xla_ratio.py --folder STEPS xception

Each was captured before anybody looked at what the compiler makes of it. NAME_small is the same step with fewer and smaller layers and
with arrays in place of shapes: `--values` takes their reference values (XLA's compiler takes minutes for the large ones; jax[tpu], flax,
optax). bench/xla_ratio.md says what they showed and for which something was built.
"""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax

LABELS = optax.softmax_cross_entropy_with_integer_labels


def normal(*shape):
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)


def integers(limit, *shape):
    return np.random.default_rng(limit).integers(limit, size=shape).astype(np.int32)


def key():
    return np.array([3, 5], np.uint32)


def declare(name, make):
    """NAME and NAME_small: make(small) has init(key) -> (parameters, statistics), loss(parameters, statistics, *batch) ->
    (loss, statistics), the optimiser and the batch."""
    for small in (False, True):
        init, loss, optimizer, batch = make(small)

        def step(parameters, statistics, state, *batch, loss=loss, optimizer=optimizer):
            (value, statistics), gradients = jax.value_and_grad(loss, has_aux=True)(parameters, statistics, *batch)
            updates, state = optimizer.update(gradients, state, parameters)
            return optax.apply_updates(parameters, updates), statistics, state, value

        def arguments(small=small, init=init, optimizer=optimizer, batch=batch):
            made = (lambda f, *of: f(*of)) if small else jax.eval_shape
            parameters, statistics = made(init, jax.random.key(0))
            return (parameters, statistics, made(optimizer.init, parameters), *batch)

        globals()[name + "_small" * small] = step
        globals()[f"{name}{'_small' * small}_arguments"] = arguments


def without_statistics(model, loss, *inputs):
    """init and loss of a model without statistics; loss(outputs, *batch), whose first arrays are the model's inputs."""
    return (
        lambda key: (model.init(key, *inputs), {}),
        lambda p, s, *batch: (loss(model.apply(p, *batch[: len(inputs)]), *batch), s),
    )


def with_statistics(model, loss, *inputs):
    def init(key):
        variables = model.init(key, *inputs)
        return variables["params"], variables["batch_stats"]

    def run(p, s, *batch):
        out, changed = model.apply({"params": p, "batch_stats": s}, *batch[: len(inputs)], mutable=["batch_stats"])
        return loss(out, *batch), changed["batch_stats"]

    return init, run


# Xception: separable convolutions in front of batch normalisations, residuals through 1x1 convolutions of stride 2


class Separable(nn.Module):
    features: int

    @nn.compact
    def __call__(self, x):
        x = nn.Conv(x.shape[-1], (3, 3), feature_group_count=x.shape[-1], use_bias=False)(x)
        x = nn.Conv(self.features, (1, 1), use_bias=False)(x)
        return nn.BatchNorm(use_running_average=False, momentum=0.99, epsilon=1e-3)(x)


class Xception(nn.Module):
    widths: tuple
    middle: int
    classes: int

    @nn.compact
    def __call__(self, x):
        def norm(x):
            return nn.BatchNorm(use_running_average=False, momentum=0.99, epsilon=1e-3)(x)

        x = nn.relu(norm(nn.Conv(self.widths[0] // 2, (3, 3), (2, 2), use_bias=False)(x)))
        x = nn.relu(norm(nn.Conv(self.widths[0], (3, 3), use_bias=False)(x)))
        for width in self.widths:
            skip = norm(nn.Conv(width, (1, 1), (2, 2), use_bias=False)(x))
            x = Separable(width)(nn.relu(Separable(width)(nn.relu(x))))
            x = nn.max_pool(x, (3, 3), (2, 2), "SAME") + skip
        for _ in range(self.middle):
            y = x
            for _ in range(3):
                y = Separable(x.shape[-1])(nn.relu(y))
            x = x + y
        return nn.Dense(self.classes)(nn.relu(x).mean((1, 2)))


def xception_step(small):
    images, labels = (normal(4, 16, 16, 3), integers(5, 4)) if small else (normal(32, 64, 64, 3), integers(100, 32))
    model = Xception((8, 16), 1, 5) if small else Xception((64, 128, 256), 2, 100)
    optimizer = optax.chain(optax.add_decayed_weights(1e-5), optax.sgd(optax.cosine_decay_schedule(0.045, 1000), 0.9, nesterov=True))
    return *with_statistics(model, lambda out, x, wanted: LABELS(out, wanted).mean(), images), optimizer, (images, labels)


# Mamba: a selective state space, its recurrence as an associative scan


class MambaBlock(nn.Module):
    inner: int
    states: int
    rank: int

    @nn.compact
    def __call__(self, x):
        d = x.shape[-1]
        y, gate = jnp.split(nn.Dense(2 * self.inner, use_bias=False)(nn.RMSNorm()(x)), 2, -1)
        y = nn.silu(nn.Conv(self.inner, (4,), feature_group_count=self.inner, padding=[(3, 0)])(y))
        rates = -jnp.exp(self.param("log_rates", lambda k: jnp.log(jnp.tile(jnp.arange(1.0, self.states + 1), (self.inner, 1)))))
        skip = self.param("skip", nn.initializers.ones, (self.inner,))
        delta, b, c = jnp.split(nn.Dense(self.rank + 2 * self.states, use_bias=False)(y), [self.rank, self.rank + self.states], -1)
        delta = nn.softplus(nn.Dense(self.inner)(delta))
        decay = jnp.exp(delta[..., None] * rates)
        drive = (delta * y)[..., None] * b[:, :, None, :]
        _, h = jax.lax.associative_scan(lambda l, r: (r[0] * l[0], r[0] * l[1] + r[1]), (decay, drive), axis=1)
        y = jnp.einsum("bldn,bln->bld", h, c) + skip * y
        return x + nn.Dense(d, use_bias=False)(y * nn.silu(gate))


class Mamba(nn.Module):
    words: int
    width: int
    states: int
    blocks: int

    @nn.compact
    def __call__(self, tokens):
        embed = nn.Embed(self.words, self.width)
        x = embed(tokens)
        for _ in range(self.blocks):
            x = MambaBlock(2 * self.width, self.states, max(self.width // 16, 1))(x)
        return embed.attend(nn.RMSNorm()(x))


def mamba_step(small):
    tokens = integers(40, 2, 16) if small else integers(4096, 4, 256)
    model = Mamba(40, 16, 4, 1) if small else Mamba(4096, 128, 16, 2)
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(6e-4, weight_decay=0.1))
    return *without_statistics(model, lambda out, x: LABELS(out[:, :-1], x[:, 1:]).mean(), tokens), optimizer, (tokens,)


# A variational autoencoder of convolutions


class Autoencoder(nn.Module):
    widths: tuple
    latent: int

    @nn.compact
    def __call__(self, images, key):
        x = images
        for width in self.widths:
            x = nn.leaky_relu(nn.LayerNorm()(nn.Conv(width, (3, 3), (2, 2))(x)))
        extents = x.shape[1:]
        x = x.reshape(x.shape[0], -1)
        mean, log_variance = nn.Dense(self.latent)(x), nn.Dense(self.latent)(x)
        z = mean + jnp.exp(0.5 * log_variance) * jax.random.normal(jax.random.wrap_key_data(key), mean.shape)
        x = nn.leaky_relu(nn.Dense(int(np.prod(extents)))(z)).reshape(-1, *extents)
        for width in self.widths[-2::-1]:
            x = nn.leaky_relu(nn.LayerNorm()(nn.ConvTranspose(width, (3, 3), (2, 2))(x)))
        return nn.ConvTranspose(images.shape[-1], (3, 3), (2, 2))(x), mean, log_variance


def evidence(outputs, images, key):
    logits, mean, log_variance = outputs
    seen = optax.sigmoid_binary_cross_entropy(logits, nn.sigmoid(images)).sum((1, 2, 3))
    divergence = -0.5 * jnp.sum(1 + log_variance - mean**2 - jnp.exp(log_variance), -1)
    return jnp.mean(seen + divergence)


def vae_step(small):
    images = normal(4, 16, 16, 3) if small else normal(64, 64, 64, 3)
    model = Autoencoder((8, 16), 6) if small else Autoencoder((32, 64, 128, 256), 128)
    return *without_statistics(model, evidence, images, key()), optax.adabelief(1e-3), (images, key())


# Graph attention: a softmax over the edges of each node


class GraphAttention(nn.Module):
    heads: int
    features: int

    @nn.compact
    def __call__(self, x, senders, receivers):
        n = x.shape[0]
        x = nn.Dense(self.heads * self.features, use_bias=False)(x).reshape(n, self.heads, self.features)
        to, of = (self.param(w, nn.initializers.glorot_normal(), (self.heads, self.features)) for w in ("to", "of"))
        score = nn.leaky_relu((x * of).sum(-1)[senders] + (x * to).sum(-1)[receivers], 0.2)
        score = jnp.exp(score - jax.ops.segment_max(score, receivers, n)[receivers])
        share = score / (jax.ops.segment_sum(score, receivers, n)[receivers] + 1e-9)
        return jax.ops.segment_sum(x[senders] * share[..., None], receivers, n)


class Gat(nn.Module):
    classes: int

    @nn.compact
    def __call__(self, x, senders, receivers):
        x = nn.elu(GraphAttention(8, 8)(x, senders, receivers).reshape(x.shape[0], -1))
        return GraphAttention(1, self.classes)(x, senders, receivers).mean(1)


def gat_step(small):
    nodes, features, edges, classes = (24, 10, 60, 3) if small else (2708, 1433, 13264, 7)
    inputs = (normal(nodes, features), integers(nodes, edges), np.sort(integers(nodes, edges))[::-1].copy())
    batch = (*inputs, integers(classes, nodes), (normal(nodes) > 0).astype(np.float32))

    def loss(out, x, senders, receivers, labels, mask):
        return (LABELS(out, labels) * mask).sum() / mask.sum()

    optimizer = optax.chain(optax.add_decayed_weights(5e-4), optax.adam(5e-3))
    return *without_statistics(Gat(classes), loss, *inputs), optimizer, batch


# SimCLR: two views of each image, NT-Xent


class Encoder(nn.Module):
    widths: tuple
    out: int

    @nn.compact
    def __call__(self, x):
        def convolution(x, width, size, stride=1):
            x = nn.Conv(width, (size, size), (stride, stride), use_bias=False)(x)
            return nn.BatchNorm(use_running_average=False, momentum=0.9)(x)

        x = nn.relu(convolution(x, self.widths[0], 3))
        for number, width in enumerate(self.widths):
            stride = 1 if number == 0 else 2
            y = convolution(nn.relu(convolution(nn.relu(convolution(x, width // 4, 1)), width // 4, 3, stride)), width, 1)
            x = nn.relu(y + (x if x.shape == y.shape else convolution(x, width, 1, stride)))
        x = nn.Dense(self.out)(nn.relu(nn.Dense(x.shape[-1])(x.mean((1, 2)))))
        return x / jnp.linalg.norm(x, axis=-1, keepdims=True)


def nt_xent(z, images):
    n = z.shape[0]
    scores = jnp.where(jnp.eye(n, dtype=bool), -1e9, z @ z.T / 0.1)
    return LABELS(scores, (jnp.arange(n) + n // 2) % n).mean()


def simclr_step(small):
    images = normal(8, 8, 8, 3) if small else normal(128, 32, 32, 3)
    model = Encoder((16, 32), 8) if small else Encoder((64, 128, 256, 512), 128)
    return *with_statistics(model, nt_xent, images), optax.lars(0.3, 1e-6), (images,)


# A recurrent encoder and decoder with additive attention


class AttendingCell(nn.Module):
    width: int

    @nn.compact
    def __call__(self, state, x, memory, keys, mask):
        query = nn.Dense(self.width, use_bias=False)(state)
        score = nn.Dense(1, use_bias=False)(nn.tanh(keys + query[:, None]))[..., 0]
        share = nn.softmax(jnp.where(mask, score, -1e9))
        seen = jnp.einsum("bt,btf->bf", share, memory)
        state, _ = nn.GRUCell(self.width)(state, jnp.concatenate([x, seen], -1))
        return state, jnp.concatenate([state, seen], -1)


class Seq2Seq(nn.Module):
    words: int
    width: int

    @nn.compact
    def __call__(self, source, target):
        x = nn.Embed(self.words, self.width)(source)
        memory = nn.Bidirectional(nn.RNN(nn.GRUCell(self.width)), nn.RNN(nn.GRUCell(self.width)))(x)
        keys = nn.Dense(self.width)(memory)
        state = nn.tanh(nn.Dense(self.width)(memory.mean(1)))
        cells = nn.scan(
            AttendingCell, variable_broadcast="params", split_rngs={"params": False}, in_axes=(1, nn.broadcast, nn.broadcast, nn.broadcast), out_axes=1
        )
        _, y = cells(self.width)(state, nn.Embed(self.words, self.width)(target), memory, keys, source > 0)
        return nn.Dense(self.words)(nn.tanh(nn.Dense(self.width)(y)))


def seq2seq_step(small):
    inputs = (integers(30, 4, 6), integers(30, 4, 5)) if small else (integers(4000, 32, 32), integers(4000, 32, 28))
    model = Seq2Seq(30, 16) if small else Seq2Seq(4000, 256)

    def loss(out, source, target):
        weights = (target[:, 1:] > 0).astype(jnp.float32)
        return (LABELS(out[:, :-1], target[:, 1:]) * weights).sum() / weights.sum()

    return *without_statistics(model, loss, *inputs), optax.chain(optax.clip(1.0), optax.adadelta(1.0)), inputs


# Speech: convolutions over the spectrogram, LSTMs both ways, CTC


class Speech(nn.Module):
    width: int
    symbols: int

    @nn.compact
    def __call__(self, x):
        x = x[..., None]
        for features, stride in ((self.width // 8, (2, 2)), (self.width // 8, (1, 2))):
            x = jnp.clip(nn.LayerNorm()(nn.Conv(features, (11, 21), stride)(x)), 0, 20)
        x = x.reshape(*x.shape[:2], -1)
        for _ in range(2):
            x = nn.LayerNorm()(nn.Bidirectional(nn.RNN(nn.OptimizedLSTMCell(self.width)), nn.RNN(nn.OptimizedLSTMCell(self.width)))(x))
        return nn.Dense(self.symbols)(x)


def speech_step(small):
    frames, spoken = (normal(2, 16, 12), integers(5, 2, 4)) if small else (normal(16, 200, 80), integers(29, 16, 24))
    model = Speech(16, 5) if small else Speech(256, 29)

    def loss(logits, frames, spoken):
        return optax.ctc_loss(logits, jnp.zeros(logits.shape[:2]), spoken, (spoken == 0).astype(jnp.float32)).mean()

    optimizer = optax.chain(optax.clip_by_global_norm(5.0), optax.novograd(1e-2))
    return *without_statistics(model, loss, frames), optimizer, (frames, spoken)


# StyleGAN2's generator: a kernel of its own for each image


def modulated(x, kernel, style, demodulate=True):
    """Each image has its own kernel: convolutions of a batch as groups of one."""
    b, h, w, c = x.shape
    k = kernel[None] * style[:, None, None, :, None]
    if demodulate:
        k = k * jax.lax.rsqrt((k**2).sum((1, 2, 3), keepdims=True) + 1e-8)
    k = k.transpose(1, 2, 3, 0, 4).reshape(*kernel.shape[:3], -1)
    x = x.transpose(1, 2, 0, 3).reshape(1, h, w, b * c)
    x = jax.lax.conv_general_dilated(x, k, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"), feature_group_count=b)
    return x.reshape(h, w, b, -1).transpose(2, 0, 1, 3)


class Generator(nn.Module):
    widths: tuple
    latent: int

    @nn.compact
    def __call__(self, z, key):
        w = z / jnp.sqrt(jnp.mean(z**2, -1, keepdims=True) + 1e-8)
        for _ in range(4):
            w = nn.leaky_relu(nn.Dense(self.latent)(w), 0.2)
        x = jnp.tile(self.param("first", nn.initializers.normal(1.0), (1, 4, 4, self.widths[0])), (z.shape[0], 1, 1, 1))
        key, image = jax.random.wrap_key_data(key), 0
        for level, width in enumerate(self.widths):
            if level:
                x = jax.image.resize(x, (x.shape[0], 2 * x.shape[1], 2 * x.shape[2], x.shape[3]), "bilinear")
                image = jax.image.resize(image, (*x.shape[:3], 3), "bilinear")
            for part in range(2 if level else 1):
                kernel = self.param(f"kernel{level}{part}", nn.initializers.he_normal(), (3, 3, x.shape[-1], width))
                x = modulated(x, kernel, nn.Dense(x.shape[-1], bias_init=nn.initializers.ones)(w))
                key, used = jax.random.split(key)
                x = x + self.param(f"strength{level}{part}", nn.initializers.ones, ()) * jax.random.normal(used, (*x.shape[:3], 1))
                x = nn.leaky_relu(x + self.param(f"bias{level}{part}", nn.initializers.zeros, (width,)), 0.2) * np.sqrt(2)
            to_rgb = self.param(f"rgb{level}", nn.initializers.he_normal(), (1, 1, width, 3))
            image = image + modulated(x, to_rgb, nn.Dense(width, bias_init=nn.initializers.ones)(w), False)
        return image


class Critic(nn.Module):
    widths: tuple

    @nn.compact
    def __call__(self, x):
        for width in self.widths[::-1]:
            y = nn.leaky_relu(nn.Conv(width, (3, 3))(x), 0.2)
            x = nn.avg_pool(y, (2, 2), (2, 2)) + nn.Conv(width, (1, 1), (2, 2), use_bias=False)(x)
        spread = jnp.sqrt(x.var(0) + 1e-8).mean()
        x = jnp.concatenate([x, jnp.full((*x.shape[:3], 1), spread)], -1)
        return nn.Dense(1)(nn.leaky_relu(nn.Dense(self.widths[0])(x.reshape(x.shape[0], -1)), 0.2))


def stylegan_step(small):
    widths, latent, batch = ((16, 8), 8, 2) if small else ((256, 256, 128, 64), 256, 16)
    z, extent = normal(batch, latent), 4 * 2 ** (len(widths) - 1)
    generator, critic = Generator(widths, latent), Critic(widths)

    def init(k):
        return generator.init(k, z, key()), critic.init(k, np.zeros((batch, extent, extent, 3), np.float32))

    def loss(g, d, z, key):
        return nn.softplus(-critic.apply(d, generator.apply(g, z, key))).mean(), d

    return init, loss, optax.adam(2e-3, 0.0, 0.99), (z, key())


# A detector: features of three scales, anchors matched to boxes, focal loss


class Detector(nn.Module):
    width: int
    classes: int
    anchors: int = 9

    @nn.compact
    def __call__(self, x):
        def block(x, width, stride):
            y = nn.relu(nn.GroupNorm(8)(nn.Conv(width, (3, 3), (stride, stride))(x)))
            return nn.relu(nn.GroupNorm(8)(nn.Conv(width, (3, 3))(y)) + nn.Conv(width, (1, 1), (stride, stride))(x))

        x = block(nn.max_pool(nn.relu(nn.Conv(self.width // 2, (7, 7), (2, 2))(x)), (3, 3), (2, 2), "SAME"), self.width // 2, 1)
        levels = []
        for factor in (1, 2, 4):
            x = block(x, factor * self.width, 2)
            levels.append(nn.Conv(self.width, (1, 1))(x))
        for fine in (1, 0):
            levels[fine] = levels[fine] + levels[fine + 1].repeat(2, 1).repeat(2, 2)
        heads = [[nn.Conv(self.width, (3, 3)) for _ in range(2)] + [nn.Conv(self.anchors * n, (3, 3))] for n in (self.classes, 4)]
        outputs = []
        for head, n in zip(heads, (self.classes, 4)):
            parts = []
            for y in levels:
                y = nn.relu(head[1](nn.relu(head[0](y))))
                parts.append(head[2](y).reshape(y.shape[0], -1, n))
            outputs.append(jnp.concatenate(parts, 1))
        return outputs


def anchors_of(extent):
    """Centres and sizes, in pixels, of nine anchors for each position of three scales."""
    made = []
    for stride in (8, 16, 32):
        places = (np.arange(extent // stride) + 0.5) * stride
        sizes = [(4 * stride * s * r**0.5, 4 * stride * s / r**0.5) for s in (1, 2 ** (1 / 3), 2 ** (2 / 3)) for r in (0.5, 1, 2)]
        made += [(y, x, h, w) for y in places for x in places for h, w in sizes]
    return np.array(made, np.float32)


def detection_loss(outputs, images, boxes, labels):
    scores, moved = outputs
    anchors = anchors_of(images.shape[1])
    low, high = anchors[:, :2] - anchors[:, 2:] / 2, anchors[:, :2] + anchors[:, 2:] / 2

    def of_one(scores, moved, boxes, labels):
        box_low, box_high = boxes[:, :2] - boxes[:, 2:] / 2, boxes[:, :2] + boxes[:, 2:] / 2
        common = jnp.maximum(jnp.minimum(high[:, None], box_high) - jnp.maximum(low[:, None], box_low), 0).prod(-1)
        iou = common / (anchors[:, None, 2:].prod(-1) + boxes[:, 2:].prod(-1) - common)
        best, overlap = iou.argmax(1), iou.max(1)
        chosen, matched = boxes[best], overlap >= 0.5
        wanted = jax.nn.one_hot(labels[best], scores.shape[-1]) * matched[:, None]
        focal = optax.sigmoid_focal_loss(scores, wanted, alpha=0.25, gamma=2.0).sum(-1)
        offsets = jnp.concatenate([(chosen[:, :2] - anchors[:, :2]) / anchors[:, 2:], jnp.log(chosen[:, 2:] / anchors[:, 2:])], -1)
        apart = optax.huber_loss(moved, offsets).sum(-1)
        count = jnp.maximum(matched.sum(), 1)
        return (jnp.where(matched | (overlap < 0.4), focal, 0).sum() + jnp.where(matched, apart, 0).sum()) / count

    return jax.vmap(of_one)(scores, moved, boxes, labels).mean()


def detector_step(small):
    count, extent, boxes, width, classes = (1, 32, 2, 16, 3) if small else (8, 128, 12, 64, 20)
    draw = np.random.default_rng(7)
    places = np.concatenate([draw.uniform(0, extent, (count, boxes, 2)), draw.uniform(extent / 8, extent / 2, (count, boxes, 2))], -1).astype(np.float32)
    batch = (normal(count, extent, extent, 3), places, integers(classes, count, boxes))
    optimizer = optax.chain(optax.clip_by_global_norm(10.0), optax.sgd(optax.linear_schedule(1e-4, 1e-2, 500), 0.9))
    return *without_statistics(Detector(width, classes), detection_loss, batch[0]), optimizer, batch


# A decoder of Llama's kind: bf16 with fp32 weights, a dynamic loss scale, blocks computed again in the backward pass


def rotary(x):
    t, half = x.shape[1], x.shape[-1] // 2
    angles = jnp.arange(t)[:, None] * 10000.0 ** (-jnp.arange(half) / half)
    sine, cosine = jnp.sin(angles)[None, :, None], jnp.cos(angles)[None, :, None]
    a, b = x[..., :half].astype(jnp.float32), x[..., half:].astype(jnp.float32)
    return jnp.concatenate([a * cosine - b * sine, b * cosine + a * sine], -1).astype(x.dtype)


class DecoderBlock(nn.Module):
    heads: int
    groups: int

    @nn.compact
    def __call__(self, x):
        b, t, d = x.shape
        size = d // self.heads

        def dense(n, name):
            return nn.Dense(n, use_bias=False, dtype=jnp.bfloat16, name=name)

        y = nn.RMSNorm(dtype=jnp.bfloat16)(x)
        q = rotary(dense(d, "q")(y).reshape(b, t, self.heads, size))
        k = rotary(dense(self.groups * size, "k")(y).reshape(b, t, self.groups, size))
        v = dense(self.groups * size, "v")(y).reshape(b, t, self.groups, size)
        k, v = (jnp.repeat(a, self.heads // self.groups, 2) for a in (k, v))
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k).astype(jnp.float32) / size**0.5
        scores = jnp.where(jnp.tril(jnp.ones((t, t), bool)), scores, -1e30)
        y = jnp.einsum("bhqk,bkhd->bqhd", nn.softmax(scores).astype(jnp.bfloat16), v).reshape(b, t, d)
        x = x + dense(d, "o")(y)
        y = nn.RMSNorm(dtype=jnp.bfloat16)(x)
        return x + dense(d, "down")(nn.silu(dense(8 * d // 3 // 64 * 64 or 32, "gate")(y)) * dense(8 * d // 3 // 64 * 64 or 32, "up")(y))


class Decoder(nn.Module):
    words: int
    width: int
    heads: int
    groups: int
    blocks: int

    @nn.compact
    def __call__(self, tokens):
        x = nn.Embed(self.words, self.width, dtype=jnp.bfloat16)(tokens)
        for _ in range(self.blocks):
            x = nn.remat(DecoderBlock)(self.heads, self.groups)(x)
        return nn.Dense(self.words, use_bias=False, dtype=jnp.bfloat16)(nn.RMSNorm(dtype=jnp.bfloat16)(x)).astype(jnp.float32)


def declare_decoder(name, model, optimizer, tokens, small):
    """The scale doubles after 2000 steps without an overflow; a step that overflows changes nothing but the scale."""

    def step(parameters, state, scale, good, tokens):
        def loss(p):
            value = LABELS(model.apply(p, tokens)[:, :-1], tokens[:, 1:]).mean()
            return value * scale, value

        (_, value), gradients = jax.value_and_grad(loss, has_aux=True)(parameters)
        gradients = jax.tree.map(lambda g: g / scale, gradients)
        finite = jnp.all(jnp.array([jnp.all(jnp.isfinite(g)) for g in jax.tree.leaves(gradients)]))
        updates, changed = optimizer.update(gradients, state, parameters)
        new = optax.apply_updates(parameters, updates)
        parameters, state = jax.tree.map(lambda a, b: jnp.where(finite, a, b), (new, changed), (parameters, state))
        scale = jnp.where(finite, jnp.where(good >= 1999, scale * 2, scale), scale / 2)
        return parameters, state, scale, jnp.where(finite & (good < 1999), good + 1, 0), value

    def arguments():
        made = (lambda f, *of: f(*of)) if small else jax.eval_shape
        parameters = made(model.init, jax.random.key(0), tokens)
        return parameters, made(optimizer.init, parameters), np.float32(1024), np.int32(7), tokens

    globals()[name], globals()[f"{name}_arguments"] = step, arguments


declare("xception", xception_step)
declare("mamba", mamba_step)
declare("vae", vae_step)
declare("gat", gat_step)
declare("simclr", simclr_step)
declare("seq2seq", seq2seq_step)
declare("speech", speech_step)
declare("stylegan", stylegan_step)
declare("detector", detector_step)
warm_adamw = optax.adamw(optax.warmup_cosine_decay_schedule(0, 3e-4, 100, 1000), 0.9, 0.95, weight_decay=0.1)
declare_decoder("llama", Decoder(8192, 512, 8, 2, 2), warm_adamw, integers(8192, 8, 256), False)
declare_decoder("llama_small", Decoder(40, 32, 4, 2, 1), warm_adamw, integers(40, 2, 8), True)
