"""Training steps of ordinary size, as their authors would write them: what captured_steps has are small ones.

    PYTHONPATH=workloads/capture python -m tpusim_capture bench/programs/ordinary_steps.py:unet --chip v3 -o STEPS/unet
    bench/xla_ratio.py --folder STEPS unet

XLA's compiler takes one to three minutes for each (jax[tpu], flax, optax). They were looked at: bench/xla_ratio.md says what they showed.
"""

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from jax import ShapeDtypeStruct


def step_of_loss(loss, optimizer, parameters, *batch):
    """A step and its arguments: parameters, state of the optimiser, the batch. `loss` has the parameters and the batch."""

    def step(p, state, *batch):
        value, gradients = jax.value_and_grad(loss)(p, *batch)
        updates, state = optimizer.update(gradients, state, p)
        return optax.apply_updates(p, updates), state, value

    def arguments():
        p = parameters()
        return (p, jax.eval_shape(optimizer.init, p), *batch)

    return step, arguments


def training_step(model, loss_of, optimizer, *batch, inputs=1):
    """The same of a model that takes the first `inputs` arrays of the batch. `loss_of` has its output and the batch."""
    return step_of_loss(
        lambda p, *batch: loss_of(model.apply(p, *batch[:inputs]), *batch),
        optimizer,
        lambda: jax.eval_shape(model.init, jax.random.key(0), *batch[:inputs]),
        *batch,
    )


def floats(*extents):
    return ShapeDtypeStruct(extents, jnp.float32)


def integers(*extents):
    return ShapeDtypeStruct(extents, jnp.int32)


def classes(logits, images, labels):
    return jnp.mean(optax.softmax_cross_entropy_with_integer_labels(logits, labels))


def next_words(logits, words):
    return jnp.mean(optax.softmax_cross_entropy_with_integer_labels(logits[:, :-1], words[:, 1:]))


def masks(logits, images, wanted):
    return jnp.mean(optax.sigmoid_binary_cross_entropy(logits, wanted))


class TwoConvolutions(nn.Module):
    features: int

    @nn.compact
    def __call__(self, x):
        for _ in range(2):
            x = nn.silu(nn.GroupNorm(8)(nn.Conv(self.features, (3, 3))(x)))
        return x


class UNet(nn.Module):
    @nn.compact
    def __call__(self, x):
        skips = []
        for features in (32, 64, 128):
            x = TwoConvolutions(features)(x)
            skips.append(x)
            x = nn.max_pool(x, (2, 2), (2, 2))
        x = TwoConvolutions(256)(x)
        for features in (128, 64, 32):
            x = nn.ConvTranspose(features, (2, 2), (2, 2))(x)
            x = TwoConvolutions(features)(jnp.concatenate([x, skips.pop()], -1))
        return nn.Conv(1, (1, 1))(x)


class Block(nn.Module):
    width: int
    heads: int
    causal: bool = False

    @nn.compact
    def __call__(self, x):
        mask = nn.make_causal_mask(x[..., 0]) if self.causal else None
        x = x + nn.MultiHeadDotProductAttention(self.heads, dtype=jnp.bfloat16)(nn.LayerNorm()(x), mask=mask)
        y = nn.Dense(4 * self.width, dtype=jnp.bfloat16)(nn.LayerNorm()(x))
        return x + nn.Dense(self.width, dtype=jnp.bfloat16)(nn.gelu(y))


class ViT(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.Conv(384, (16, 16), (16, 16), dtype=jnp.bfloat16)(x)
        x = x.reshape(x.shape[0], -1, 384)
        first = self.param("class", nn.initializers.zeros, (1, 1, 384))
        x = jnp.concatenate([jnp.broadcast_to(first, (x.shape[0], 1, 384)), x], 1)
        x = x + self.param("positions", nn.initializers.normal(), (1, x.shape[1], 384))
        for _ in range(3):
            x = Block(384, 6)(x)
        return nn.Dense(1000)(nn.LayerNorm()(x)[:, 0])


class Gpt(nn.Module):
    @nn.compact
    def __call__(self, words):
        embed = nn.Embed(8192, 512)
        x = embed(words) + self.param("positions", nn.initializers.normal(), (1, words.shape[1], 512))
        for _ in range(3):
            x = Block(512, 8, True)(x)
        return embed.attend(nn.LayerNorm()(x))


class BasicBlock(nn.Module):
    features: int
    stride: int

    @nn.compact
    def __call__(self, x):
        def convolution(x, size, stride=1):
            return nn.GroupNorm(32)(nn.Conv(self.features, (size, size), (stride, stride), use_bias=False)(x))

        y = convolution(nn.relu(convolution(x, 3, self.stride)), 3)
        if y.shape != x.shape:
            x = convolution(x, 1, self.stride)
        return nn.relu(x + y)


class ResNet18(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.relu(nn.GroupNorm(32)(nn.Conv(64, (3, 3), use_bias=False)(x)))
        for features, stride in ((64, 1), (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), (512, 1)):
            x = BasicBlock(features, stride)(x)
        return nn.Dense(10)(x.mean((1, 2)))


class LstmOfWords(nn.Module):
    @nn.compact
    def __call__(self, words):
        x = nn.Embed(10000, 256)(words)
        for _ in range(2):
            x = nn.RNN(nn.OptimizedLSTMCell(256))(x)
        return nn.Dense(10000)(x)


class ConvNeXtBlock(nn.Module):
    width: int

    @nn.compact
    def __call__(self, x):
        y = nn.Conv(self.width, (7, 7), feature_group_count=self.width)(x)
        y = nn.Dense(self.width)(nn.gelu(nn.Dense(4 * self.width)(nn.LayerNorm()(y))))
        return x + y * self.param("scale", nn.initializers.constant(1e-6), (self.width,))


class ConvNeXt(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.LayerNorm()(nn.Conv(48, (4, 4), (4, 4))(x))
        for width in (48, 96, 192):
            if width > 48:
                x = nn.Conv(width, (2, 2), (2, 2))(nn.LayerNorm()(x))
            for _ in range(2):
                x = ConvNeXtBlock(width)(x)
        return nn.Dense(100)(nn.LayerNorm()(x.mean((1, 2))))


unet, unet_arguments = training_step(UNet(), masks, optax.adam(1e-3), floats(16, 64, 64, 3), floats(16, 64, 64, 1))
vit, vit_arguments = training_step(ViT(), classes, optax.adamw(1e-3), floats(32, 224, 224, 3), integers(32))
gpt, gpt_arguments = training_step(Gpt(), next_words, optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-3)), integers(8, 256))
resnet18_fp32, resnet18_fp32_arguments = training_step(ResNet18(), classes, optax.sgd(0.1, 0.9), floats(128, 32, 32, 3), integers(128))
lstm_lm, lstm_lm_arguments = training_step(LstmOfWords(), next_words, optax.adam(1e-3), integers(32, 48))
convnext, convnext_arguments = training_step(ConvNeXt(), classes, optax.adamw(1e-3), floats(32, 128, 128, 3), integers(32))
