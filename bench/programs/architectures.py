"""One training step each of twenty architectures, of ordinary size, as their authors would write them.

    PYTHONPATH=workloads/capture python -m tpusim_capture bench/programs/architectures.py:mixer --chip v3 -o STEPS/mixer
    bench/xla_ratio.py --folder STEPS mixer

XLA's compiler takes half a minute to three minutes for each (jax[tpu], flax, optax). bench/xla_ratio.md says what they showed and for which
something was built.
"""

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from jax import ShapeDtypeStruct
from ordinary_steps import Block, classes, floats, integers, next_words, training_step


class MixerBlock(nn.Module):
    @nn.compact
    def __call__(self, x):
        y = jnp.swapaxes(nn.LayerNorm()(x), 1, 2)
        y = nn.Dense(x.shape[1], dtype=jnp.bfloat16)(nn.gelu(nn.Dense(128, dtype=jnp.bfloat16)(y)))
        x = x + jnp.swapaxes(y, 1, 2)
        y = nn.LayerNorm()(x)
        return x + nn.Dense(x.shape[2], dtype=jnp.bfloat16)(nn.gelu(nn.Dense(1024, dtype=jnp.bfloat16)(y)))


class Mixer(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.Conv(256, (8, 8), (8, 8))(x)
        x = x.reshape(x.shape[0], -1, 256)
        for _ in range(3):
            x = MixerBlock()(x)
        return nn.Dense(100)(nn.LayerNorm()(x).mean(1))


class MBConv(nn.Module):
    out: int
    expand: int
    kernel: int
    stride: int

    @nn.compact
    def __call__(self, x):
        y = x
        width = x.shape[-1] * self.expand
        if self.expand > 1:
            y = nn.swish(nn.GroupNorm(8)(nn.Conv(width, (1, 1), use_bias=False)(y)))
        y = nn.Conv(width, (self.kernel, self.kernel), (self.stride, self.stride), feature_group_count=width, use_bias=False)(y)
        y = nn.swish(nn.GroupNorm(8)(y))
        s = nn.sigmoid(nn.Dense(width)(nn.swish(nn.Dense(max(8, x.shape[-1] // 4))(y.mean((1, 2))))))
        y = nn.GroupNorm(8)(nn.Conv(self.out, (1, 1), use_bias=False)(y * s[:, None, None]))
        return x + y if y.shape == x.shape else y


class EfficientNet(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.swish(nn.GroupNorm(8)(nn.Conv(32, (3, 3), (2, 2), use_bias=False)(x)))
        for out, expand, kernel, stride in ((16, 1, 3, 1), (24, 6, 3, 2), (24, 6, 3, 1), (40, 6, 5, 2), (80, 6, 3, 2), (112, 6, 5, 1)):
            x = MBConv(out, expand, kernel, stride)(x)
        x = nn.swish(nn.Conv(640, (1, 1))(x))
        return nn.Dense(100)(x.mean((1, 2)))


def adversaries(p, latent, images):
    fake = Generator().apply(p["g"], latent)
    d = Discriminator()
    on_fake, on_real = d.apply(p["d"], fake), d.apply(p["d"], images)
    bce = optax.sigmoid_binary_cross_entropy
    return jnp.mean(bce(on_fake, jnp.zeros_like(on_fake))) + jnp.mean(bce(on_real, jnp.ones_like(on_real)))


class Generator(nn.Module):
    @nn.compact
    def __call__(self, z):
        x = nn.relu(nn.Dense(4 * 4 * 256)(z)).reshape(-1, 4, 4, 256)
        for features in (128, 64, 32):
            x = nn.relu(nn.GroupNorm(8)(nn.ConvTranspose(features, (4, 4), (2, 2))(x)))
        return nn.tanh(nn.ConvTranspose(3, (4, 4), (2, 2))(x))


class Discriminator(nn.Module):
    @nn.compact
    def __call__(self, x):
        for features in (32, 64, 128, 256):
            x = nn.leaky_relu(nn.Conv(features, (4, 4), (2, 2))(x), 0.2)
        return nn.Dense(1)(x.reshape(x.shape[0], -1))


class Cross(nn.Module):
    @nn.compact
    def __call__(self, x, memory):
        causal = nn.make_causal_mask(x[..., 0])
        x = x + nn.MultiHeadDotProductAttention(4)(nn.LayerNorm()(x), mask=causal)
        x = x + nn.MultiHeadDotProductAttention(4)(nn.LayerNorm()(x), memory)
        return x + nn.Dense(256)(nn.relu(nn.Dense(1024)(nn.LayerNorm()(x))))


class Plain(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = x + nn.MultiHeadDotProductAttention(4)(nn.LayerNorm()(x))
        return x + nn.Dense(256)(nn.relu(nn.Dense(1024)(nn.LayerNorm()(x))))


class Translate(nn.Module):
    @nn.compact
    def __call__(self, words):
        source, target = words[:, :48], words[:, 48:]
        embed = nn.Embed(4000, 256)
        x, y = embed(source), embed(target)
        for _ in range(2):
            x = Plain()(x)
        for _ in range(2):
            y = Cross()(y, x)
        return embed.attend(nn.LayerNorm()(y))


def smoothed(logits, words):
    target = words[:, 48:]
    labels = optax.smooth_labels(jax.nn.one_hot(target[:, 1:], 4000), 0.1)
    weights = (target[:, 1:] != 0).astype(jnp.float32)
    return jnp.sum(optax.softmax_cross_entropy(logits[:, :-1], labels) * weights) / jnp.sum(weights)


class ScanBlock(nn.Module):
    @nn.compact
    def __call__(self, x, _):
        return Block(256, 4)(x), None


class ViTScan(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.Conv(256, (8, 8), (8, 8), dtype=jnp.bfloat16)(x)
        x = x.reshape(x.shape[0], -1, 256)
        x = x + self.param("positions", nn.initializers.normal(), (1, x.shape[1], 256))
        x, _ = nn.scan(ScanBlock, variable_axes={"params": 0}, split_rngs={"params": True}, length=4)()(x, None)
        return nn.Dense(100)(nn.LayerNorm()(x).mean(1))


class LeNet(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.max_pool(nn.relu(nn.Conv(6, (5, 5))(x)), (2, 2), (2, 2))
        x = nn.max_pool(nn.relu(nn.Conv(16, (5, 5), padding="VALID")(x)), (2, 2), (2, 2))
        x = x.reshape(x.shape[0], -1)
        return nn.Dense(10)(nn.relu(nn.Dense(84)(nn.relu(nn.Dense(120)(x)))))


class WaveNet(nn.Module):
    @nn.compact
    def __call__(self, words):
        x = nn.Embed(256, 64)(words)
        skip = 0
        for dilation in (1, 2, 4, 8, 16, 32):
            y = nn.Conv(128, (2,), kernel_dilation=(dilation,), padding="CAUSAL")(x)
            y = nn.tanh(y[..., :64]) * nn.sigmoid(y[..., 64:])
            skip = skip + nn.Dense(128)(y)
            x = x + nn.Dense(64)(y)
        return nn.Dense(256)(nn.relu(nn.Dense(128)(nn.relu(skip))))


class Gcn(nn.Module):
    @nn.compact
    def __call__(self, features, senders, receivers):
        x = features
        for width in (128, 128, 16):
            x = nn.Dense(width)(x)
            messages = x[senders]
            x = jax.ops.segment_sum(messages, receivers, num_segments=x.shape[0])
            x = nn.relu(x)
        return x


class DenseNet(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.Conv(32, (3, 3))(x)
        for block in range(3):
            for _ in range(4):
                y = nn.Conv(64, (1, 1), use_bias=False)(nn.relu(nn.GroupNorm(8)(x)))
                y = nn.Conv(16, (3, 3), use_bias=False)(nn.relu(nn.GroupNorm(8)(y)))
                x = jnp.concatenate([x, y], -1)
            if block < 2:
                x = nn.avg_pool(nn.Conv(x.shape[-1] // 2, (1, 1))(nn.relu(nn.GroupNorm(8)(x))), (2, 2), (2, 2))
        return nn.Dense(10)(nn.relu(x).mean((1, 2)))


class Dlrm(nn.Module):
    @nn.compact
    def __call__(self, sparse, dense):
        d = nn.relu(nn.Dense(64)(nn.relu(nn.Dense(256)(dense))))
        e = [nn.Embed(20000, 64, name=f"table{i}")(sparse[:, i]) for i in range(8)]
        t = jnp.stack([d] + e, 1)
        dots = jnp.einsum("bif,bjf->bij", t, t)
        i, j = jnp.tril_indices(9, -1)
        x = jnp.concatenate([d, dots[:, i, j]], 1)
        return nn.Dense(1)(nn.relu(nn.Dense(128)(nn.relu(nn.Dense(256)(x)))))[:, 0]


class Atari(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = x.astype(jnp.float32) / 255
        x = nn.relu(nn.Conv(32, (8, 8), (4, 4), padding="VALID")(x))
        x = nn.relu(nn.Conv(64, (4, 4), (2, 2), padding="VALID")(x))
        x = nn.relu(nn.Conv(64, (3, 3), padding="VALID")(x))
        x = nn.relu(nn.Dense(512)(x.reshape(x.shape[0], -1)))
        return nn.Dense(6)(x), nn.Dense(1)(x)[:, 0]


def ppo(outputs, images, actions, old, advantages, returns):
    logits, values = outputs
    logp = jax.nn.log_softmax(logits)
    chosen = jnp.take_along_axis(logp, actions[:, None], 1)[:, 0]
    ratio = jnp.exp(chosen - old)
    policy = -jnp.mean(jnp.minimum(ratio * advantages, jnp.clip(ratio, 0.8, 1.2) * advantages))
    entropy = -jnp.mean(jnp.sum(jnp.exp(logp) * logp, 1))
    return policy + 0.5 * jnp.mean((values - returns) ** 2) - 0.01 * entropy


class Video(nn.Module):
    @nn.compact
    def __call__(self, x):
        for features in (16, 32, 64):
            x = nn.relu(nn.GroupNorm(8)(nn.Conv(features, (3, 3, 3))(x)))
            x = nn.max_pool(x, (1, 2, 2), (1, 2, 2))
        return nn.Dense(20)(x.mean((1, 2, 3)))


class WindowAttention(nn.Module):
    shift: int

    @nn.compact
    def __call__(self, x):
        b, h, w, c = x.shape
        y = nn.LayerNorm()(x)
        if self.shift:
            y = jnp.roll(y, (-self.shift, -self.shift), (1, 2))
        y = y.reshape(b, h // 8, 8, w // 8, 8, c).transpose(0, 1, 3, 2, 4, 5).reshape(-1, 64, c)
        qkv = nn.Dense(3 * c)(y).reshape(-1, 64, 3, 4, c // 4)
        q, k, v = qkv[:, :, 0], qkv[:, :, 1], qkv[:, :, 2]
        bias = self.param("bias", nn.initializers.normal(), (4, 64, 64))
        a = nn.softmax(jnp.einsum("nqhc,nkhc->nhqk", q, k) / 5.6 + bias)
        y = nn.Dense(c)(jnp.einsum("nhqk,nkhc->nqhc", a, v).reshape(-1, 64, c))
        y = y.reshape(b, h // 8, w // 8, 8, 8, c).transpose(0, 1, 3, 2, 4, 5).reshape(b, h, w, c)
        if self.shift:
            y = jnp.roll(y, (self.shift, self.shift), (1, 2))
        x = x + y
        return x + nn.Dense(c)(nn.gelu(nn.Dense(4 * c)(nn.LayerNorm()(x))))


class Swin(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.Conv(128, (4, 4), (4, 4))(x)
        x = WindowAttention(4)(WindowAttention(0)(x))
        b, h, w, c = x.shape
        x = x.reshape(b, h // 2, 2, w // 2, 2, c).transpose(0, 1, 3, 2, 4, 5).reshape(b, h // 2, w // 2, 4 * c)
        x = nn.Dense(256)(nn.LayerNorm()(x))
        x = WindowAttention(4)(WindowAttention(0)(x))
        return nn.Dense(100)(nn.LayerNorm()(x.mean((1, 2))))


class Moe(nn.Module):
    @nn.compact
    def __call__(self, words):
        x = nn.Embed(4096, 256)(words)
        b, t, d = x.shape
        causal = nn.make_causal_mask(words)
        for _ in range(2):
            x = x + nn.MultiHeadDotProductAttention(4)(nn.LayerNorm()(x), mask=causal)
            y = nn.LayerNorm()(x).reshape(-1, d)
            gates = nn.softmax(nn.Dense(8)(y))
            top, which = jax.lax.top_k(gates, 2)
            chosen = jax.nn.one_hot(which, 8)
            place = jnp.cumsum(chosen.reshape(-1, 8), 0).reshape(chosen.shape) * chosen - 1
            room = jax.nn.one_hot(place.astype(jnp.int32), 320)[..., :] * chosen[..., None]
            dispatch = room.sum(1)
            combine = (room * top[..., None, None]).sum(1)
            w1 = self.param(f"w1_{_}", nn.initializers.normal(), (8, d, 512))
            w2 = self.param(f"w2_{_}", nn.initializers.normal(), (8, 512, d))
            e = jnp.einsum("nec,nd->ecd", dispatch, y)
            e = jnp.einsum("ecf,efd->ecd", nn.relu(jnp.einsum("ecd,edf->ecf", e, w1)), w2)
            x = x + jnp.einsum("nec,ecd->nd", combine, e).reshape(b, t, d)
        return nn.Dense(4096)(nn.LayerNorm()(x))


def labelled(logits, *batch):
    return jnp.mean(optax.softmax_cross_entropy_with_integer_labels(logits, batch[-1]))


def clicks(logits, sparse, dense, labels):
    return jnp.mean(optax.sigmoid_binary_cross_entropy(logits, labels))


class DropoutBert(nn.Module):
    @nn.compact
    def __call__(self, words, key):
        mask = nn.make_attention_mask(words > 0, words > 0)
        x = nn.Embed(5000, 256)(words) + self.param("positions", nn.initializers.normal(), (1, words.shape[1], 256))
        keys = jax.random.split(jax.random.wrap_key_data(key), 6)
        for i in range(2):
            drop = lambda v, k: jnp.where(jax.random.bernoulli(k, 0.9, v.shape), v / 0.9, 0)
            x = nn.LayerNorm()(x + drop(nn.MultiHeadDotProductAttention(4)(x, mask=mask), keys[2 * i]))
            x = nn.LayerNorm()(x + drop(nn.Dense(256)(nn.gelu(nn.Dense(1024)(x))), keys[2 * i + 1]))
        return nn.Dense(2)(nn.tanh(nn.Dense(256)(x[:, 0])))


class ConvMixer(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.BatchNorm(use_running_average=False)(nn.gelu(nn.Conv(128, (4, 4), (4, 4))(x)))
        for _ in range(4):
            y = nn.BatchNorm(use_running_average=False)(nn.gelu(nn.Conv(128, (7, 7), feature_group_count=128)(x)))
            x = nn.BatchNorm(use_running_average=False)(nn.gelu(nn.Conv(128, (1, 1))(x + y)))
        return nn.Dense(100)(x.mean((1, 2)))


class Nerf(nn.Module):
    @nn.compact
    def __call__(self, rays):
        points = rays[:, None, :3] + jnp.linspace(2.0, 6.0, 32)[None, :, None] * rays[:, None, 3:]
        frequencies = 2.0 ** jnp.arange(8)
        angles = (points[..., None] * frequencies).reshape(*points.shape[:2], -1)
        x = h = jnp.concatenate([points, jnp.sin(angles), jnp.cos(angles)], -1)
        for i in range(6):
            h = nn.relu(nn.Dense(256)(jnp.concatenate([h, x], -1) if i == 3 else h))
        density, colour = nn.relu(nn.Dense(1)(h))[..., 0], nn.sigmoid(nn.Dense(3)(nn.relu(nn.Dense(128)(h))))
        alpha = 1 - jnp.exp(-density * 0.125)
        weights = alpha * jnp.cumprod(jnp.concatenate([jnp.ones((rays.shape[0], 1)), 1 - alpha[:, :-1] + 1e-10], 1), 1)
        return jnp.sum(weights[..., None] * colour, 1)


def colours(seen, rays, wanted):
    return jnp.mean((seen - wanted) ** 2)


class PointNet(nn.Module):
    @nn.compact
    def __call__(self, points):
        x = points
        for features in (64, 128, 512):
            x = nn.relu(nn.LayerNorm()(nn.Dense(features)(x)))
        x = x.max(1)
        return nn.Dense(40)(nn.relu(nn.Dense(256)(x)))


class Conformer(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.Dense(144)(x)
        for _ in range(2):
            x = x + 0.5 * nn.Dense(144)(nn.swish(nn.Dense(576)(nn.LayerNorm()(x))))
            x = x + nn.MultiHeadDotProductAttention(4)(nn.LayerNorm()(x))
            y = nn.glu(nn.Dense(288)(nn.LayerNorm()(x)))
            y = nn.Conv(144, (15,), feature_group_count=144)(y)
            x = x + nn.Dense(144)(nn.swish(nn.LayerNorm()(y)))
            x = nn.LayerNorm()(x + 0.5 * nn.Dense(144)(nn.swish(nn.Dense(576)(nn.LayerNorm()(x)))))
        return nn.Dense(64)(x).mean(1)


class RelativeDecoder(nn.Module):
    """T5's norm without a mean, a bias by distance, gated feed-forward, words that share their table with the logits."""

    @nn.compact
    def __call__(self, words):
        t, d, heads = words.shape[1], 256, 4
        embed = nn.Embed(4096, d)
        x = embed(words)
        distance = jnp.clip(jnp.arange(t)[:, None] - jnp.arange(t)[None], 0, 31)
        bias = self.param("bias", nn.initializers.normal(), (32, heads))[distance].transpose(2, 0, 1)
        bias = jnp.where(jnp.tril(jnp.ones((t, t), bool)), bias, -1e9)
        for _ in range(3):
            y = nn.RMSNorm()(x)
            q, k, v = (nn.DenseGeneral((heads, d // heads), use_bias=False, dtype=jnp.bfloat16)(y) for _ in range(3))
            a = nn.softmax(jnp.einsum("bqhd,bkhd->bhqk", q, k).astype(jnp.float32) + bias)
            y = jnp.einsum("bhqk,bkhd->bqhd", a.astype(jnp.bfloat16), v)
            x = x + nn.DenseGeneral(d, (-2, -1), use_bias=False, dtype=jnp.bfloat16)(y)
            y = nn.RMSNorm()(x)
            y = nn.gelu(nn.Dense(1024, use_bias=False, dtype=jnp.bfloat16)(y)) * nn.Dense(1024, use_bias=False, dtype=jnp.bfloat16)(y)
            x = x + nn.Dense(d, use_bias=False, dtype=jnp.bfloat16)(y)
        return embed.attend(nn.RMSNorm()(x) / 16)


def several(model, loss_of, optimizer, inputs, *rest):
    """A step whose model takes several arrays."""
    return training_step(model, loss_of, optimizer, *inputs, *rest, inputs=len(inputs))


mixer, mixer_arguments = training_step(Mixer(), classes, optax.adamw(1e-3), floats(32, 96, 96, 3), integers(32))
efficientnet, efficientnet_arguments = training_step(EfficientNet(), classes, optax.rmsprop(1e-3), floats(32, 64, 64, 3), integers(32))
translate, translate_arguments = training_step(Translate(), smoothed, optax.adam(1e-3), integers(32, 112))
vit_scan, vit_scan_arguments = training_step(ViTScan(), classes, optax.adamw(1e-3), floats(32, 112, 112, 3), integers(32))
lenet_b8, lenet_b8_arguments = training_step(LeNet(), classes, optax.sgd(0.1), floats(8, 28, 28, 1), integers(8))
wavenet, wavenet_arguments = training_step(WaveNet(), next_words, optax.adam(1e-3), integers(8, 1024))
densenet, densenet_arguments = training_step(DenseNet(), classes, optax.sgd(0.1, 0.9), floats(64, 32, 32, 3), integers(64))
atari, atari_arguments = training_step(
    Atari(), ppo, optax.adam(1e-3), ShapeDtypeStruct((256, 84, 84, 4), jnp.uint8), integers(256), floats(256), floats(256), floats(256)
)
video, video_arguments = training_step(Video(), classes, optax.adam(1e-3), floats(4, 8, 64, 64, 3), integers(4))
swin, swin_arguments = training_step(Swin(), classes, optax.adamw(1e-3), floats(16, 128, 128, 3), integers(16))
moe, moe_arguments = training_step(Moe(), next_words, optax.adam(1e-3), integers(8, 128))
gcn, gcn_arguments = several(Gcn(), labelled, optax.adam(1e-2), (floats(2708, 256), integers(10556), integers(10556)), integers(2708))
dlrm, dlrm_arguments = several(Dlrm(), clicks, optax.adagrad(1e-2), (integers(1024, 8), floats(1024, 13)), floats(1024))
dropout_bert, dropout_bert_arguments = several(
    DropoutBert(), labelled, optax.adamw(1e-3), (integers(16, 128), ShapeDtypeStruct((2,), jnp.uint32)), integers(16)
)

nerf, nerf_arguments = training_step(Nerf(), colours, optax.adam(5e-4), floats(1024, 6), floats(1024, 3))
pointnet, pointnet_arguments = training_step(PointNet(), classes, optax.adam(1e-3), floats(32, 512, 3), integers(32))
conformer, conformer_arguments = training_step(Conformer(), classes, optax.adamw(1e-3), floats(16, 200, 80), integers(16))
relative_decoder, relative_decoder_arguments = training_step(RelativeDecoder(), next_words, optax.adafactor(1e-2), integers(16, 128))


def convmixer(p, statistics, state, images, labels):
    def loss_of(p):
        logits, changed = ConvMixer().apply({"params": p, "batch_stats": statistics}, images, mutable=["batch_stats"])
        return classes(logits, images, labels), changed["batch_stats"]

    (loss, statistics), gradients = jax.value_and_grad(loss_of, has_aux=True)(p)
    updates, state = optax.adamw(1e-3).update(gradients, state, p)
    return optax.apply_updates(p, updates), statistics, state, loss


def convmixer_arguments():
    variables = jax.eval_shape(ConvMixer().init, jax.random.key(0), floats(32, 64, 64, 3))
    p = variables["params"]
    return p, variables["batch_stats"], jax.eval_shape(optax.adamw(1e-3).init, p), floats(32, 64, 64, 3), integers(32)


def dcgan(p, state, latent, images):
    loss, gradients = jax.value_and_grad(adversaries)(p, latent, images)
    updates, state = optax.adam(2e-4, 0.5).update(gradients, state, p)
    return optax.apply_updates(p, updates), state, loss


def dcgan_arguments():
    p = {
        "g": jax.eval_shape(Generator().init, jax.random.key(0), floats(64, 100)),
        "d": jax.eval_shape(Discriminator().init, jax.random.key(0), floats(64, 64, 64, 3)),
    }
    return p, jax.eval_shape(optax.adam(2e-4, 0.5).init, p), floats(64, 100), floats(64, 64, 64, 3)
