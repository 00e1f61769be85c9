"""Blocks of a few layers, one program each with the gradients of parameters and inputs; like the single layers of layer_steps.py.

    python bench/programs/block_steps.py mamba > mamba.mlir

layer_steps.md says what came out; layer_steps.py says how to measure one. Needs jax, flax and optax.
"""

import os

os.environ["JAX_PLATFORMS"] = "cpu"

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from layer_steps import GradientSteps
from named_steps import print_named
from ordinary_steps import floats, integers

lax = jax.lax
STEPS = GradientSteps()
layer, gradient = STEPS.layer, STEPS.gradient
normal = nn.initializers.normal()


def block(name, *inputs):
    """Decorator: the module that follows, with these inputs, under this name."""

    def add(module):
        layer(name, module(), *inputs)
        return module

    return add


def shuffled(x, groups):
    """The channels of the groups take turns."""
    b, height, width, channels = x.shape
    return x.reshape(b, height, width, groups, channels // groups).swapaxes(3, 4).reshape(b, height, width, channels)


# Convolutional nets.
class ShuffleUnit(nn.Module):
    @nn.compact
    def __call__(self, x):
        kept, y = jnp.split(x, 2, -1)
        y = nn.relu(nn.Conv(58, (1, 1))(y))
        y = nn.Conv(58, (3, 3), feature_group_count=58)(y)
        y = nn.relu(nn.Conv(58, (1, 1))(y))
        return shuffled(jnp.concatenate([kept, y], -1), 2)


@block("shuffle_block", floats(32, 28, 28, 116))
class TwoShuffleUnits(nn.Module):
    @nn.compact
    def __call__(self, x):
        for _ in range(2):
            x = ShuffleUnit()(x)
        return x


@block("gshuffle", floats(16, 28, 28, 128))
class ShuffledGroups(nn.Module):
    @nn.compact
    def __call__(self, x):
        y = nn.relu(nn.Conv(128, (1, 1), feature_group_count=4)(x))
        return nn.Conv(128, (1, 1), feature_group_count=4)(shuffled(y, 4)) + x


@block("densenet_block", floats(16, 28, 28, 128))
class DenselyConnected(nn.Module):
    @nn.compact
    def __call__(self, x):
        for _ in range(3):
            y = nn.Conv(128, (1, 1))(nn.relu(x))
            x = jnp.concatenate([x, nn.Conv(32, (3, 3))(nn.relu(y))], -1)
        return x


@block("inception_block", floats(16, 28, 28, 192))
class Inception(nn.Module):
    @nn.compact
    def __call__(self, x):
        ones = nn.Conv(64, (1, 1))(x)
        threes = nn.Conv(128, (3, 3))(nn.relu(nn.Conv(96, (1, 1))(x)))
        fives = nn.Conv(32, (5, 5))(nn.relu(nn.Conv(16, (1, 1))(x)))
        pooled = nn.Conv(32, (1, 1))(nn.max_pool(x, (3, 3), (1, 1), "SAME"))
        return nn.relu(jnp.concatenate([ones, threes, fives, pooled], -1))


@block("unet_block", floats(8, 96, 96, 3))
class DownAndUp(nn.Module):
    @nn.compact
    def __call__(self, x):
        wide = nn.relu(nn.Conv(32, (3, 3))(x))
        low = nn.relu(nn.Conv(64, (3, 3))(nn.max_pool(wide, (2, 2), (2, 2))))
        up = nn.ConvTranspose(32, (2, 2), (2, 2))(low)
        return nn.Conv(1, (1, 1))(nn.relu(nn.Conv(32, (3, 3))(jnp.concatenate([wide, up], -1))))


@block("mbconv", floats(16, 56, 56, 24))
class InvertedBottleneck(nn.Module):
    @nn.compact
    def __call__(self, x):
        y = nn.silu(nn.GroupNorm(8)(nn.Conv(144, (1, 1))(x)))
        y = nn.silu(nn.GroupNorm(8)(nn.Conv(144, (3, 3), feature_group_count=144)(y)))
        return nn.Conv(24, (1, 1))(y) + x


@block("involution", floats(8, 28, 28, 32))
class Involution(nn.Module):
    """Each pixel has a kernel of its own, made from it."""

    @nn.compact
    def __call__(self, x, groups=4):
        kernels = nn.softmax(nn.Dense(9 * groups)(x).reshape(*x.shape[:3], groups, 9))
        patches = lax.conv_general_dilated_patches(x, (3, 3), (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        patches = patches.reshape(*x.shape[:3], groups, x.shape[-1] // groups, 9)
        return jnp.einsum("bhwgck,bhwgk->bhwgc", patches, kernels).reshape(x.shape)


@block("nonlocal", floats(8, 24, 24, 64))
class AllPixels(nn.Module):
    """Each pixel attends to all (non-local nets)."""

    @nn.compact
    def __call__(self, x):
        b, height, width, c = x.shape
        q, k, v = [nn.Dense(c // 2)(x).reshape(b, height * width, -1) for _ in range(3)]
        return x + nn.Dense(c)(nn.softmax(q @ k.swapaxes(1, 2)) @ v).reshape(x.shape)


@block("ws_conv", floats(16, 32, 32, 64))
class StandardizedKernel(nn.Module):
    @nn.compact
    def __call__(self, x):
        kernel = self.param("kernel", normal, (3, 3, x.shape[-1], 64))
        mean, variance = kernel.mean((0, 1, 2)), kernel.var((0, 1, 2))
        kernel = (kernel - mean) / jnp.sqrt(variance + 1e-5)
        return lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


@block("style_mod", floats(8, 32, 32, 64), floats(8, 128))
class ModulatedConvolution(nn.Module):
    """A style scales the inputs of a convolution, whose outputs are brought back to one (StyleGAN 2)."""

    @nn.compact
    def __call__(self, x, style):
        kernel = self.param("kernel", normal, (3, 3, x.shape[-1], 64))
        style = nn.Dense(x.shape[-1])(style) + 1
        y = lax.conv_general_dilated(x * style[:, None, None], kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        return y * lax.rsqrt(jnp.einsum("hwio,bi->bo", kernel**2, style**2) + 1e-8)[:, None, None]


@block("conv_nchw", floats(16, 64, 32, 32))
class ChannelsFirst(nn.Module):
    @nn.compact
    def __call__(self, x):
        kernel = self.param("kernel", normal, (64, x.shape[1], 3, 3))
        return lax.conv_general_dilated(x, kernel, (1, 1), "SAME")


# Attention, tables, sets of points.
@block("axial_block", floats(4, 32, 32, 128))
class AxialAttention(nn.Module):
    """Attention along the rows, then along the columns."""

    @nn.compact
    def __call__(self, x):
        x = x + nn.MultiHeadDotProductAttention(4)(x)
        return x + nn.MultiHeadDotProductAttention(4)(x.swapaxes(1, 2)).swapaxes(1, 2)


@block("tabtransformer", integers(512, 26), floats(512, 13))
class AttentionOfColumns(nn.Module):
    """Columns of a table, classes and numbers, attend to each other."""

    @nn.compact
    def __call__(self, classes, numbers):
        x = nn.Embed(1000, 32)(classes)
        x = jnp.concatenate([x, numbers[..., None] * self.param("numbers", normal, (13, 32))], 1)
        x = x + nn.MultiHeadDotProductAttention(4)(nn.LayerNorm()(x))
        return nn.Dense(1)(x.reshape(len(x), -1))


@block("retnet", floats(8, 256, 256))
class Retention(nn.Module):
    """Words before count less the further they are away, by a rate of each head."""

    @nn.compact
    def __call__(self, x, heads=4):
        b, s, d = x.shape
        q, k, v = [nn.Dense(d)(x).reshape(b, s, heads, -1) for _ in range(3)]
        rates = 1 - 2.0 ** (-5 - jnp.arange(heads))
        kept = jnp.tril(rates[:, None, None] ** jnp.maximum(jnp.arange(s)[:, None] - jnp.arange(s), 0) * 1.0)
        y = jnp.einsum("bhqk,bkhd->bqhd", jnp.einsum("bqhd,bkhd->bhqk", q, k) * kept, v)
        return nn.GroupNorm(heads)(y.reshape(b * s, d))


@block("pointnet", floats(16, 1024, 3))
class PointNet(nn.Module):
    @nn.compact
    def __call__(self, x):
        h = nn.relu(nn.Dense(64)(x))
        h = nn.relu(nn.Dense(256)(h))
        return nn.Dense(10)(h.max(1))


@block("edgeconv", floats(8, 256, 3))
class EdgeConvolution(nn.Module):
    """Each point looks at its sixteen nearest (DGCNN)."""

    @nn.compact
    def __call__(self, x):
        apart = ((x[:, :, None] - x[:, None]) ** 2).sum(-1)
        nearest = lax.top_k(-apart, 16)[1]
        others = jax.vmap(lambda points, places: points[places])(x, nearest)
        edges = jnp.concatenate([others - x[:, :, None], jnp.broadcast_to(x[:, :, None], others.shape)], -1)
        return nn.relu(nn.Dense(64)(edges)).max(2)


# Dense nets.
@block("hypernet", floats(64, 256, 32), floats(64, 64))
class WeightsByContext(nn.Module):
    @nn.compact
    def __call__(self, x, context):
        weights = nn.Dense(32 * 32)(context).reshape(-1, 32, 32)
        return jnp.tanh(jnp.einsum("bni,bij->bnj", x, weights))


@block("capsule_route", floats(32, 288, 8))
class Capsules(nn.Module):
    """Ten capsules by three rounds of routing."""

    @nn.compact
    def __call__(self, x):
        weights = self.param("weights", normal, (x.shape[1], 10, 16, 8))
        votes = jnp.einsum("bni,njoi->bnjo", x, weights)
        logits = jnp.zeros(votes.shape[:3])
        for _ in range(3):
            shares = nn.softmax(logits, -1)
            total = jnp.einsum("bnj,bnjo->bjo", shares, votes)
            size = (total**2).sum(-1, keepdims=True)
            out = size / (1 + size) * total / jnp.sqrt(size + 1e-8)
            logits = logits + jnp.einsum("bnjo,bjo->bnj", votes, out)
        return out


@block("mdn", floats(2048, 32), floats(2048, 6))
class MixtureDensities(nn.Module):
    @nn.compact
    def __call__(self, x, y):
        h = nn.tanh(nn.Dense(128)(x))
        shares = nn.Dense(20)(h)
        means = nn.Dense(20 * 6)(h).reshape(-1, 20, 6)
        widths = nn.Dense(20 * 6)(h).reshape(-1, 20, 6)
        each = nn.log_softmax(shares) - (0.5 * ((y[:, None] - means) * jnp.exp(-widths)) ** 2 + widths).sum(-1)
        return -jax.nn.logsumexp(each, -1)


@block("vq", floats(8, 256, 64))
class NearestCode(nn.Module):
    @nn.compact
    def __call__(self, x):
        codes = self.param("codes", normal, (512, 64))
        apart = (x**2).sum(-1, keepdims=True) - 2 * x @ codes.T + (codes**2).sum(-1)
        nearest = codes[jnp.argmin(apart, -1)]
        return x + lax.stop_gradient(nearest - x) + nearest


@block("resmlp_drop", floats(1024, 128))
class ResidualsWithDropout(nn.Module):
    @nn.compact
    def __call__(self, x):
        for _ in range(3):
            outer, dropout = nn.Dense(x.shape[-1]), nn.Dropout(0.1, deterministic=False, rng_collection="d")
            hidden = nn.gelu(nn.Dense(256)(nn.LayerNorm()(x)))
            x = x + outer(dropout(hidden, rng=jax.random.PRNGKey(1)))
        return x


@block("nbeats", floats(1024, 96))
class BackcastAndForecast(nn.Module):
    @nn.compact
    def __call__(self, x):
        forecast = 0
        for _ in range(3):
            h = x
            for _ in range(3):
                h = nn.relu(nn.Dense(256)(h))
            x = x - nn.Dense(x.shape[-1])(h)
            forecast = forecast + nn.Dense(24)(h)
        return forecast


@block("siren", floats(16384, 2))
class SineLayers(nn.Module):
    @nn.compact
    def __call__(self, x):
        for _ in range(4):
            x = jnp.sin(30 * nn.Dense(256)(x))
        return nn.Dense(3)(x)


@block("ncf", integers(8192), integers(8192))
class UsersAndItems(nn.Module):
    @nn.compact
    def __call__(self, user, item):
        u, v = nn.Embed(20000, 32)(user), nn.Embed(5000, 32)(item)
        return nn.Dense(1)(nn.relu(nn.Dense(64)(jnp.concatenate([u * v, u, v], -1))))


@block("kan", floats(2048, 64))
class FunctionsOnEdges(nn.Module):
    """A sum of eight bells for each pair of input and output (Kolmogorov-Arnold nets)."""

    @nn.compact
    def __call__(self, x):
        bells = jnp.exp(-(((x[..., None] - jnp.linspace(-2, 2, 8)) / 0.5) ** 2))
        return jnp.einsum("bik,iko->bo", bells, self.param("weights", normal, (x.shape[-1], 8, 64)))


# Sequences.
@block("tcn", floats(32, 256, 64))
class CausalConvolutions(nn.Module):
    @nn.compact
    def __call__(self, x):
        for dilation in (1, 2, 4):
            x = x + nn.relu(nn.Conv(64, (3,), kernel_dilation=(dilation,), padding="CAUSAL")(x))
        return x


@block("wavenet", floats(4, 2048, 64))
class GatedConvolutions(nn.Module):
    @nn.compact
    def __call__(self, x):
        skipped = 0
        for dilation in (1, 2, 4, 8):
            y = nn.Conv(128, (2,), kernel_dilation=(dilation,), padding="CAUSAL")(x)
            value, gate = jnp.split(y, 2, -1)
            y = jnp.tanh(value) * nn.sigmoid(gate)
            skipped = skipped + nn.Dense(64)(y)
            x = x + nn.Dense(64)(y)
        return skipped


@block("s4d", floats(4, 512, 64))
class DiagonalStates(nn.Module):
    """A long filter for each feature, a sum of sixteen decays, as a product of Fourier transforms."""

    @nn.compact
    def __call__(self, x):
        length, features = x.shape[1:]
        decay = self.param("decay", normal, (features, 16))
        out = self.param("out", normal, (features, 16))
        filters = (out[:, :, None] * jnp.exp(-jnp.exp(decay)[:, :, None] * jnp.arange(length) * 0.01)).sum(1).T
        product = jnp.fft.rfft(x, 2 * length, axis=1) * jnp.fft.rfft(filters, 2 * length, axis=0)
        return jnp.fft.irfft(product, axis=1)[:, :length]


@block("mamba", floats(4, 128, 128))
class SelectedStates(nn.Module):
    """Eight states a feature, whose decay and input depend on the word; a scan over the words."""

    @nn.compact
    def __call__(self, x):
        features = x.shape[-1]
        pace = nn.softplus(nn.Dense(features)(x))
        inward, outward = nn.Dense(8)(x), nn.Dense(8)(x)
        rates = -jnp.exp(self.param("A", normal, (features, 8)))
        kept = jnp.exp(pace[..., None] * rates)
        added = pace[..., None] * inward[:, :, None] * x[..., None]

        def word(state, given):
            state = given[0] * state + given[1]
            return state, (state * given[2][:, None]).sum(-1)

        return lax.scan(word, jnp.zeros((len(x), features, 8)), (kept.swapaxes(0, 1), added.swapaxes(0, 1), outward.swapaxes(0, 1)))[1]


@gradient(floats(8, 64), floats(8, 64), of=(0, 1))
def soft_dtw_row(x, y):
    """Rows of a table of warped distances, each from the one before."""

    def row(before, costs):
        row = jnp.minimum(before, jnp.roll(before, 1)) + costs
        return row, row

    return lax.scan(row, jnp.zeros((8, 64)), jnp.abs(x[:, :, None] - y[:, None]).transpose(1, 0, 2))[1]


# Graphs and atoms.
@block("gcn", floats(2708, 256), integers(10556), integers(10556))
class GraphConvolution(nn.Module):
    @nn.compact
    def __call__(self, x, senders, receivers):
        messages = nn.Dense(64)(x)[senders]
        return nn.Dense(16)(nn.relu(jax.ops.segment_sum(messages, receivers, len(x))))


@block("gat", floats(2708, 256), integers(8192), integers(8192))
class GraphAttention(nn.Module):
    @nn.compact
    def __call__(self, x, senders, receivers, heads=8):
        n = len(x)
        y = nn.Dense(64)(x).reshape(n, heads, 8)
        of_sender = (y * self.param("sender", normal, (heads, 8))).sum(-1)[senders]
        of_receiver = (y * self.param("receiver", normal, (heads, 8))).sum(-1)[receivers]
        scores = nn.leaky_relu(of_sender + of_receiver)
        weights = jnp.exp(scores - jax.ops.segment_max(scores, receivers, n)[receivers])
        weights = weights / jax.ops.segment_sum(weights, receivers, n)[receivers]
        return jax.ops.segment_sum(weights[..., None] * y[senders], receivers, n).reshape(n, -1)


@block("schnet", floats(32, 24, 64), floats(32, 24, 3))
class ContinuousFilters(nn.Module):
    """Atoms pass on what they know by filters of their distances."""

    @nn.compact
    def __call__(self, x, places):
        apart = jnp.sqrt(((places[:, :, None] - places[:, None]) ** 2).sum(-1) + 1e-6)
        bells = jnp.exp(-((apart[..., None] - jnp.linspace(0, 5, 25)) ** 2))
        filters = nn.Dense(64)(nn.softplus(nn.Dense(64)(bells)))
        return jnp.einsum("bijf,bjf->bif", filters, x)


# Losses of detection and of learning by reward.
@gradient(floats(8, 26, 26, 3, 25), floats(8, 26, 26, 3, 25))
def yolo(found, wanted):
    boxes, sure, classes = jax.nn.sigmoid(found[..., :4]), found[..., 4:5], found[..., 5:]
    error = jnp.where(wanted[..., 4:5] > 0.5, (boxes - wanted[..., :4]) ** 2, 0).sum((1, 2, 3, 4))
    error += optax.sigmoid_binary_cross_entropy(sure, wanted[..., 4:5]).sum((1, 2, 3, 4))
    return error + optax.softmax_cross_entropy(classes, jax.nn.softmax(wanted[..., 5:])).sum((1, 2, 3))


@gradient(floats(129, 64), floats(129, 64), of=(0, 1))
def gae(rewards, values):
    """Generalized advantages, from the last step to the first."""

    def before(after, given):
        reward, value, next_value = given
        advantage = reward + 0.99 * next_value - value + 0.94 * after
        return advantage, advantage

    return lax.scan(before, jnp.zeros(64), (rewards[:-1], values[:-1], values[1:]), reverse=True)[1]


@gradient(floats(256, 51), floats(256, 51))
def c51(logits, target):
    """Returns in 51 bins, those of the target moved and shared among their neighbours."""
    moved = target * 0.99 + 1
    shares = jax.nn.softmax(target)
    near = jnp.clip(1 - jnp.abs(jnp.clip(moved[:, :, None], -10, 10) - jnp.linspace(-10, 10, 51)) / 0.4, 0, 1)
    return optax.softmax_cross_entropy(logits, jnp.einsum("ba,bap->bp", shares, near))


@gradient(floats(256, 64), floats(256, 64))
def quantile_huber(quantiles, target):
    apart = target[:, :, None] - quantiles[:, None]
    weights = jnp.abs(jnp.linspace(0.01, 0.99, 64) - (apart < 0))
    return (weights * optax.huber_loss(apart, jnp.zeros_like(apart))).mean(1)


if __name__ == "__main__":
    print_named(STEPS, STEPS.stablehlo, __doc__)
