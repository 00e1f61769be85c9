"""Models of Flax (linen and NNX), trained with optax."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

from declare import cross_entropy, integers, normal, step

DONATED = (0, 1)


def declare_linen(name, model, batch, optimiser=None, loss=cross_entropy, **more):
    """`model` is initialised and applied with the first array of batch(); the last one holds the targets."""
    optimiser = optimiser or optax.adam(1e-3)

    def train(variables, state, *batch):
        rest = {key: value for key, value in variables.items() if key != "params"}

        def total(params):
            result, changed = model.apply({"params": params, **rest}, batch[0], mutable=list(rest) or ["nothing"], **more)
            return loss(result, batch[-1]), changed

        (value, changed), gradient = jax.value_and_grad(total, has_aux=True)(variables["params"])
        update, state = optimiser.update(gradient, state, variables["params"])
        return {**rest, **changed, "params": optax.apply_updates(variables["params"], update)}, state, value

    def arguments():
        arrays = batch()
        variables = model.init({"params": jax.random.key(0)}, arrays[0], **more)
        return (variables, optimiser.init(variables["params"]), *arrays)

    step(arguments, name)(train)


def pictures(size=12, channels=3, count=8):
    return lambda: (normal(count, size, size, channels), integers(10, count))


class Cnn(nn.Module):
    dtype: jnp.dtype = jnp.float32

    @nn.compact
    def __call__(self, x):
        x = nn.relu(nn.Conv(8, (3, 3), dtype=self.dtype)(x))
        x = nn.avg_pool(x, (2, 2), strides=(2, 2))
        x = nn.relu(nn.Conv(16, (3, 3), dtype=self.dtype)(x))
        x = nn.avg_pool(x, (2, 2), strides=(2, 2))
        x = nn.relu(nn.Dense(32, dtype=self.dtype)(x.reshape(x.shape[0], -1)))
        return nn.Dense(10, dtype=self.dtype)(x).astype(jnp.float32)


class ResidualNetwork(nn.Module):
    train: bool = True

    @nn.compact
    def __call__(self, x):
        norm = lambda: nn.BatchNorm(use_running_average=not self.train, momentum=0.9)
        x = nn.relu(norm()(nn.Conv(8, (3, 3), use_bias=False)(x)))
        for channels, stride in ((8, 1), (16, 2)):
            y = nn.relu(norm()(nn.Conv(channels, (3, 3), (stride, stride), use_bias=False)(x)))
            y = norm()(nn.Conv(channels, (3, 3), use_bias=False)(y))
            if y.shape != x.shape:
                x = norm()(nn.Conv(channels, (1, 1), (stride, stride), use_bias=False)(x))
            x = nn.relu(x + y)
        return nn.Dense(10)(jnp.mean(x, (1, 2)))


class Transformer(nn.Module):
    layers: int = 2
    causal: bool = True
    dtype: jnp.dtype = jnp.float32

    @nn.compact
    def __call__(self, tokens):
        x = nn.Embed(50, 32, dtype=self.dtype)(tokens) + nn.Embed(16, 32, dtype=self.dtype)(jnp.arange(tokens.shape[1]))
        mask = nn.make_causal_mask(tokens) if self.causal else None
        for _ in range(self.layers):
            y = nn.LayerNorm(dtype=self.dtype)(x)
            x = x + nn.MultiHeadDotProductAttention(num_heads=4, dtype=self.dtype)(y, y, mask=mask)
            y = nn.gelu(nn.Dense(64, dtype=self.dtype)(nn.LayerNorm(dtype=self.dtype)(x)))
            x = x + nn.Dense(32, dtype=self.dtype)(y)
        return nn.Dense(50, dtype=self.dtype)(nn.LayerNorm(dtype=self.dtype)(x)).astype(jnp.float32)


def next_token(logits, tokens):
    return optax.softmax_cross_entropy_with_integer_labels(logits[:, :-1], tokens[:, 1:]).mean()


def sentences():
    return (integers(50, 4, 16),)


class ScannedBlock(nn.Module):
    @nn.compact
    def __call__(self, x, _):
        y = nn.LayerNorm()(x)
        x = x + nn.MultiHeadDotProductAttention(num_heads=2)(y, y)
        return x + nn.Dense(32)(nn.gelu(nn.Dense(64)(nn.LayerNorm()(x)))), None


class ScannedViT(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.Conv(32, (4, 4), (4, 4))(x)
        x = x.reshape(x.shape[0], -1, 32)
        x = x + self.param("positions", nn.initializers.normal(0.1), (1, x.shape[1], 32))
        block = nn.scan(nn.remat(ScannedBlock), variable_axes={"params": 0}, split_rngs={"params": True}, length=3)
        x, _ = block()(x, None)
        return nn.Dense(10)(jnp.mean(nn.LayerNorm()(x), 1))


class Autoencoder(nn.Module):
    @nn.compact
    def __call__(self, x):
        code = nn.Dense(8)(nn.relu(nn.Dense(32)(x)))
        return nn.Dense(48)(nn.relu(nn.Dense(32)(code)))


class Lstm(nn.Module):
    @nn.compact
    def __call__(self, x):
        return nn.Dense(10)(nn.RNN(nn.LSTMCell(24))(x)[:, -1])


class Mixer(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.Conv(24, (3, 3), (3, 3))(x).reshape(x.shape[0], -1, 24)
        y = jnp.swapaxes(nn.LayerNorm()(x), 1, 2)
        x = x + jnp.swapaxes(nn.Dense(16)(nn.gelu(nn.Dense(32)(y))), 1, 2)
        x = x + nn.Dense(24)(nn.gelu(nn.Dense(48)(nn.LayerNorm()(x))))
        return nn.Dense(10)(x.mean(1))


class UNet(nn.Module):
    @nn.compact
    def __call__(self, x):
        down = nn.swish(nn.GroupNorm(2)(nn.Conv(8, (3, 3))(x)))
        y = nn.swish(nn.GroupNorm(4)(nn.Conv(16, (3, 3), (2, 2))(down)))
        y = nn.ConvTranspose(8, (2, 2), (2, 2))(y)
        return nn.Conv(3, (3, 3))(jnp.concatenate([down, y], -1))


def squared_error(result, target):
    return jnp.mean((result - target) ** 2)


declare_linen("flax_cnn", Cnn(), pictures())
declare_linen("flax_cnn_bf16", Cnn(jnp.bfloat16), pictures(), optax.sgd(0.1, 0.9))
declare_linen("flax_resnet_batch_norm", ResidualNetwork(), pictures(), optax.sgd(0.05, 0.9, nesterov=True))
declare_linen("flax_transformer", Transformer(), sentences, optax.adamw(1e-3), next_token)
declare_linen("flax_transformer_bf16", Transformer(dtype=jnp.bfloat16), sentences, optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-3)), next_token)
declare_linen("flax_vit_scanned", ScannedViT(), pictures(), optax.adamw(1e-3))
declare_linen("flax_autoencoder", Autoencoder(), lambda: (normal(16, 48),), loss=squared_error)
declare_linen("flax_lstm", Lstm(), lambda: (normal(8, 10, 12), integers(10, 8)))
declare_linen("flax_mixer", Mixer(), pictures(), optax.lamb(1e-3))
declare_linen("flax_unet", UNet(), lambda: (normal(2, 12, 12, 3), normal(2, 12, 12, 3, seed=4)), loss=squared_error)


class Gan(nnx.Module):
    def __init__(self, rngs):
        self.generator = nnx.Sequential(nnx.Linear(8, 32, rngs=rngs), nnx.relu, nnx.Linear(32, 20, rngs=rngs))
        self.critic = nnx.Sequential(nnx.Linear(20, 32, rngs=rngs), lambda x: nnx.leaky_relu(x, 0.2), nnx.Linear(32, 1, rngs=rngs))


def declare_nnx(name, make, loss, batch):
    def arguments():
        _, state = nnx.split(make(nnx.Rngs(0)))
        optimiser = optax.adam(1e-3).init(nnx.to_pure_dict(state))
        return (nnx.to_pure_dict(state), optimiser, *batch())

    def train(weights, optimiser, *batch):
        graph, state = nnx.split(make(nnx.Rngs(0)))

        def total(weights):
            nnx.replace_by_pure_dict(state, weights)
            return loss(nnx.merge(graph, state), *batch)

        value, gradient = jax.value_and_grad(total)(weights)
        update, optimiser = optax.adam(1e-3).update(gradient, optimiser, weights)
        return optax.apply_updates(weights, update), optimiser, value

    step(arguments, name)(train)


def gan_loss(model, noise, real):
    fake = model.generator(noise)
    return jnp.mean(jax.nn.softplus(model.critic(fake))) + jnp.mean(jax.nn.softplus(-model.critic(real)))


declare_nnx("nnx_gan", Gan, gan_loss, lambda: (normal(16, 8), normal(16, 20, seed=5)))


class VariationalAutoencoder(nnx.Module):
    def __init__(self, rngs):
        self.encoder = nnx.Linear(24, 16, rngs=rngs)
        self.decoder = nnx.Linear(8, 24, rngs=rngs)


def vae_loss(model, x, noise):
    mean, spread = jnp.split(model.encoder(x), 2, -1)
    decoded = model.decoder(mean + jnp.exp(0.5 * spread) * noise)
    return jnp.mean((decoded - x) ** 2) - 0.5 * jnp.mean(1 + spread - mean**2 - jnp.exp(spread))


declare_nnx("nnx_vae", VariationalAutoencoder, vae_loss, lambda: (normal(16, 24), normal(16, 8, seed=5)))
