"""Single layers, losses and optimisers, one program each with the gradients of parameters and inputs.

    python bench/programs/layer_steps.py mha > mha.mlir
    tpusim run mha.mlir --config v3-8 --cores 1
    PYTHONPATH=workloads/capture python -m tpusim_capture mha.mlir --chip v3 -o LAYERS/mha

`python bench/programs/layer_steps.py NAME > NAME.mlir` lowers one as JAX does for the computer's CPU; block_steps.py has blocks of several layers.
layer_steps.md has the table of both. Needs jax, flax and optax.
"""

import os

os.environ["JAX_PLATFORMS"] = "cpu"

from collections.abc import Callable

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from named_steps import NamedSteps, print_named
from ordinary_steps import floats, integers

lax = jax.lax


def mean_square(result):
    return jnp.mean(jnp.square(result.astype(jnp.float32)))


class GradientSteps(NamedSteps):
    """Programs by their names; each makes a function and its arguments, of which none is donated."""

    def layer(self, name, module, *inputs):
        """The mean square of what the module makes of its inputs, and the gradients of its parameters and of a first input that is no integer."""

        def make():
            parameters = jax.eval_shape(module.init, jax.random.PRNGKey(0), *inputs)
            differentiated = 0 if jnp.issubdtype(inputs[0].dtype, jnp.integer) else (0, 1)

            def step(p, x, *rest):
                def loss(p, x):
                    result = module.apply(p, x, *rest)
                    result = result[0] if isinstance(result, tuple) else result
                    return mean_square(jax.tree.leaves(result)[-1])

                return jax.value_and_grad(loss, argnums=differentiated)(p, x)

            return step, (parameters, *inputs)

        self[name] = make

    def layer_with_statistics(self, name, module, x):
        """As `layer`, of a module whose running statistics come out, too."""

        def make():
            variables = jax.eval_shape(module.init, jax.random.PRNGKey(0), x)

            def step(variables, x):
                def loss(p, x):
                    result, changed = module.apply({**variables, "params": p}, x, mutable=["batch_stats"])
                    return jnp.mean(result**2), changed

                return jax.value_and_grad(loss, argnums=(0, 1), has_aux=True)(variables["params"], x)

            return step, (variables, x)

        self[name] = make

    def function(self, name, function, *arguments, of=(0,)):
        """The mean square of what the function makes of the arguments, and the gradients of those whose places are in `of`."""

        def make():
            def step(*given):
                return jax.value_and_grad(lambda *inner: mean_square(jnp.asarray(function(*inner))), argnums=of)(*given)

            return step, arguments

        self[name] = make

    def gradient(self, *arguments, of=(0,)):
        """Decorator: `function` under the name of what follows."""

        def add(function):
            self.function(function.__name__, function, *arguments, of=of)
            return function

        return add

    def forward(self, *arguments):
        """Decorator: the function that follows, without a gradient."""

        def add(function):
            self[function.__name__] = lambda: (function, arguments)
            return function

        return add

    def optimizer(self, name, optimizer, *shapes):
        """One update of parameters of these shapes."""

        def make():
            parameters = [floats(*shape) for shape in shapes]

            def step(parameters, gradients, state):
                updates, state = optimizer.update(gradients, state, parameters)
                return optax.apply_updates(parameters, updates), state

            return step, (parameters, parameters, jax.eval_shape(optimizer.init, parameters))

        self[name] = make

    def stablehlo(self, name):
        function, arguments = self[name]()
        shapes = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype), arguments)
        return jax.jit(function).lower(*shapes).as_text()


STEPS = GradientSteps()
layer, layer_with_statistics = STEPS.layer, STEPS.layer_with_statistics
function, gradient, forward, optimizer = STEPS.function, STEPS.gradient, STEPS.forward, STEPS.optimizer

# Convolutions.
layer("conv3_c3", nn.Conv(32, (3, 3)), floats(32, 64, 64, 3))
layer("conv3_c64", nn.Conv(64, (3, 3)), floats(16, 56, 56, 64))
layer("conv7_s2", nn.Conv(64, (7, 7), (2, 2)), floats(16, 112, 112, 3))
layer("conv1_s2", nn.Conv(256, (1, 1), (2, 2)), floats(16, 56, 56, 128))
layer("conv_dw3", nn.Conv(96, (3, 3), feature_group_count=96), floats(16, 56, 56, 96))
layer("conv_dw7", nn.Conv(96, (7, 7), feature_group_count=96), floats(8, 56, 56, 96))
layer("conv_dw_s2", nn.Conv(144, (5, 5), (2, 2), feature_group_count=144), floats(16, 56, 56, 144))
layer("conv_grp", nn.Conv(128, (3, 3), feature_group_count=32), floats(16, 28, 28, 128))
layer("conv_dil", nn.Conv(64, (3, 3), kernel_dilation=(4, 4)), floats(8, 64, 64, 64))
layer("conv_patch", nn.Conv(384, (16, 16), (16, 16)), floats(32, 224, 224, 3))
layer("conv_patch4", nn.Conv(96, (4, 4), (4, 4)), floats(8, 224, 224, 3))
layer("convT_k4", nn.ConvTranspose(32, (4, 4), (2, 2)), floats(16, 32, 32, 64))
layer("convT_k2", nn.ConvTranspose(64, (2, 2), (2, 2)), floats(8, 64, 64, 128))
layer("convT_c3", nn.ConvTranspose(3, (5, 5), (2, 2)), floats(16, 32, 32, 64))
layer("conv1d_k3", nn.Conv(128, (3,)), floats(16, 512, 128))
layer("conv1d_k9_c1", nn.Conv(64, (9,), (2,)), floats(16, 8000, 1))
layer("conv1d_dil", nn.Conv(64, (2,), kernel_dilation=(64,), padding="CAUSAL"), floats(8, 4000, 64))
layer("conv1d_dw", nn.Conv(256, (15,), feature_group_count=256), floats(8, 400, 256))
layer("conv1d_causal4", nn.Conv(512, (4,), feature_group_count=512, padding="CAUSAL"), floats(8, 512, 512))
layer("conv3d", nn.Conv(32, (3, 3, 3)), floats(4, 16, 32, 32, 16))
layer("conv3d_c1", nn.Conv(16, (3, 3, 3)), floats(2, 32, 64, 64, 1))
layer("conv_small", nn.Conv(16, (3, 3)), floats(64, 32, 32, 16))
layer("conv_b1", nn.Conv(64, (3, 3)), floats(1, 128, 128, 64))
layer("conv_bf16", nn.Conv(128, (3, 3), dtype=jnp.bfloat16), floats(32, 28, 28, 128))


# Norms.
class NormalizedBatch(nn.Module):
    @nn.compact
    def __call__(self, x):
        return nn.relu(nn.BatchNorm(use_running_average=False)(x))


layer("layernorm", nn.LayerNorm(), floats(16, 512, 768))
layer("layernorm_narrow", nn.LayerNorm(), floats(16, 3136, 96))
layer("rmsnorm", nn.RMSNorm(), floats(8, 1024, 512))
layer("groupnorm", nn.GroupNorm(32), floats(16, 32, 32, 128))
layer("groupnorm8", nn.GroupNorm(8), floats(16, 64, 64, 32))
layer("instancenorm", nn.InstanceNorm(), floats(8, 64, 64, 64))
layer("weightnorm", nn.WeightNorm(nn.Dense(512)), floats(4096, 512))
layer_with_statistics("batchnorm", NormalizedBatch(), floats(32, 56, 56, 64))
layer_with_statistics("batchnorm_1d", NormalizedBatch(), floats(4096, 256))
layer_with_statistics("batchnorm_c24", NormalizedBatch(), floats(32, 112, 112, 24))


# Attention, and what stands beside it.
class CausalAttention(nn.Module):
    """Words attend to those before them; with places as turned pairs, and fewer heads of keys and values, where asked."""

    rotary: bool = False
    key_heads: int = 8

    @nn.compact
    def __call__(self, x, heads=8):
        b, s, d = x.shape
        q = nn.DenseGeneral((heads, d // heads))(x)
        k = nn.DenseGeneral((self.key_heads, d // heads))(x)
        v = nn.DenseGeneral((self.key_heads, d // heads))(x)
        if self.rotary:
            angles = jnp.arange(s)[:, None] / (10000 ** (jnp.arange(0, d // heads, 2) / (d // heads)))

            def turned(y):
                first, second = jnp.split(y, 2, -1)
                cosine, sine = jnp.cos(angles)[:, None], jnp.sin(angles)[:, None]
                return jnp.concatenate([first * cosine - second * sine, first * sine + second * cosine], -1)

            q, k = turned(q), turned(k)
        k = jnp.repeat(k, heads // self.key_heads, 2)
        v = jnp.repeat(v, heads // self.key_heads, 2)
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / 8
        weights = jax.nn.softmax(jnp.where(jnp.tril(jnp.ones((s, s), bool)), scores, -1e9))
        return nn.DenseGeneral(d, axis=(-2, -1))(jnp.einsum("bhqk,bkhd->bqhd", weights, v))


class RelativeAttention(nn.Module):
    """Scores have a bias by how far two words are apart, from a table."""

    @nn.compact
    def __call__(self, x, heads=8):
        b, s, d = x.shape
        q, k, v = jnp.split(nn.Dense(3 * d)(x).reshape(b, s, heads, -1), 3, -1)
        table = self.param("table", nn.initializers.normal(), (2 * s - 1, heads))
        bias = table[(jnp.arange(s)[:, None] - jnp.arange(s) + s - 1)].transpose(2, 0, 1)
        weights = jax.nn.softmax(jnp.einsum("bqhd,bkhd->bhqk", q, k) + bias)
        return nn.Dense(d)(jnp.einsum("bhqk,bkhd->bqhd", weights, v).reshape(b, s, d))


class WindowAttention(nn.Module):
    """Attention within windows of 7x7 pixels (Swin)."""

    @nn.compact
    def __call__(self, x, side=7, heads=4):
        b, height, width, d = x.shape
        windows = x.reshape(b, height // side, side, width // side, side, d).transpose(0, 1, 3, 2, 4, 5)
        y = RelativeAttention()(windows.reshape(-1, side * side, d), heads)
        return y.reshape(b, height // side, width // side, side, side, d).transpose(0, 1, 3, 2, 4, 5).reshape(x.shape)


class LinearAttention(nn.Module):
    """Keys and values are summed over the words before a query asks."""

    @nn.compact
    def __call__(self, x, heads=8):
        b, s, d = x.shape
        q, k, v = [nn.Dense(d)(x).reshape(b, s, heads, -1) for _ in range(3)]
        q, k = jax.nn.elu(q) + 1, jax.nn.elu(k) + 1
        sums = jnp.einsum("bshd,bshe->bhde", k, v)
        scale = 1 / jnp.einsum("bshd,bhd->bsh", q, k.sum(1))
        return jnp.einsum("bshd,bhde,bsh->bshe", q, sums, scale).reshape(b, s, d)


class CrossAttention(nn.Module):
    """A few words ask many others (Perceiver)."""

    @nn.compact
    def __call__(self, x, others):
        return nn.MultiHeadDotProductAttention(8)(x, others)


class SqueezeAndExcite(nn.Module):
    @nn.compact
    def __call__(self, x):
        features = x.shape[-1]
        scale = nn.sigmoid(nn.Dense(features)(nn.silu(nn.Dense(features // 4)(x.mean((1, 2))))))
        return x * scale[:, None, None]


class GatedDense(nn.Module):
    activation: Callable = jax.nn.silu
    dtype: object = None

    @nn.compact
    def __call__(self, x):
        gate = nn.Dense(1024, use_bias=False, dtype=self.dtype)(x)
        value = nn.Dense(1024, use_bias=False, dtype=self.dtype)(x)
        return nn.Dense(x.shape[-1], use_bias=False, dtype=self.dtype)(self.activation(gate) * value)


class MixedWords(nn.Module):
    """Dense layers along the words in place of the features (MLP-Mixer)."""

    @nn.compact
    def __call__(self, x):
        y = nn.LayerNorm()(x).swapaxes(1, 2)
        return x + nn.Dense(x.shape[1])(nn.gelu(nn.Dense(256)(y))).swapaxes(1, 2)


layer("mha", nn.MultiHeadDotProductAttention(8), floats(16, 256, 512))
layer("mha_d32", nn.MultiHeadDotProductAttention(12), floats(16, 197, 384))
layer("mha_bf16", nn.MultiHeadDotProductAttention(12, dtype=jnp.bfloat16), floats(8, 512, 768))
layer("mha_1head", nn.MultiHeadDotProductAttention(1), floats(16, 256, 64))
layer("mha_long", nn.MultiHeadDotProductAttention(4), floats(2, 2048, 256))
layer("mha_short", nn.MultiHeadDotProductAttention(4), floats(512, 20, 128))
layer("causal", CausalAttention(), floats(8, 256, 512))
layer("rope_gqa", CausalAttention(True, 2), floats(4, 512, 512))
layer("relbias", RelativeAttention(), floats(64, 49, 96))
layer("windowattn", WindowAttention(), floats(4, 56, 56, 96))
layer("linattn", LinearAttention(), floats(8, 1024, 256))
layer("perceiver", CrossAttention(), floats(16, 64, 256), floats(16, 1024, 256))
layer("squeeze", SqueezeAndExcite(), floats(32, 28, 28, 120))
layer("swiglu", GatedDense(), floats(8, 512, 384))
layer("geglu_bf16", GatedDense(jax.nn.gelu, jnp.bfloat16), floats(8, 512, 384))
layer("mixer", MixedWords(), floats(32, 196, 512))

# Recurrent nets.
both_ways = [nn.RNN(nn.OptimizedLSTMCell(128)) for _ in range(2)]
layer("lstm", nn.RNN(nn.OptimizedLSTMCell(256)), floats(32, 64, 128))
layer("lstm_plain", nn.RNN(nn.LSTMCell(128)), floats(64, 50, 64))
layer("gru", nn.RNN(nn.GRUCell(256)), floats(32, 64, 128))
layer("bilstm", nn.Bidirectional(*both_ways), floats(16, 64, 128))
layer("convlstm", nn.RNN(nn.ConvLSTMCell(32, (3, 3))), floats(4, 8, 32, 32, 16))
layer("mgu", nn.RNN(nn.MGUCell(128)), floats(32, 32, 128))
layer("simplernn", nn.RNN(nn.SimpleCell(256)), floats(64, 64, 64))

# Embeddings and pooling.
layer("embed", nn.Embed(10000, 256), integers(16, 128))
layer("embed_narrow", nn.Embed(50000, 16), integers(4096, 26))
function("maxpool", lambda x: nn.max_pool(x, (3, 3), (2, 2), "SAME"), floats(16, 112, 112, 64))
function("maxpool2", lambda x: nn.max_pool(x, (2, 2), (2, 2)), floats(32, 56, 56, 64))
function("maxpool_c16", lambda x: nn.max_pool(x, (2, 2), (2, 2)), floats(64, 32, 32, 16))
function("avgpool", lambda x: nn.avg_pool(x, (3, 3), (1, 1), "SAME"), floats(16, 28, 28, 192))
function("avgpool2", lambda x: nn.avg_pool(x, (2, 2), (2, 2)), floats(32, 64, 64, 48))

# Other shapes of images.
function("resize2", lambda x: jax.image.resize(x, (8, 64, 64, 64), "bilinear"), floats(8, 32, 32, 64))
function("resize_nearest", lambda x: jax.image.resize(x, (8, 64, 64, 64), "nearest"), floats(8, 32, 32, 64))
function("repeat_up", lambda x: jnp.repeat(jnp.repeat(x, 2, 1), 2, 2), floats(8, 32, 32, 64))
function("concat_ch", lambda x, y: jnp.concatenate([x, y], -1), floats(16, 56, 56, 64), floats(16, 56, 56, 32), of=(0, 1))
function("split_ch", lambda x: jnp.concatenate([jnp.sin(x[..., :32]), x[..., 32:]], -1), floats(16, 56, 56, 64))
function("pad_hw", lambda x: jnp.pad(x, ((0, 0), (3, 3), (3, 3), (0, 0)), mode="reflect"), floats(8, 64, 64, 32))
function("roll_hw", lambda x: jnp.roll(x, (3, 3), (1, 2)) * 2, floats(16, 56, 56, 96))
function("flip", lambda x: x[:, ::-1] * x, floats(32, 128, 128, 3))


@gradient(floats(8, 48, 48, 64))
def pixelshuffle(x):
    return x.reshape(8, 48, 48, 2, 2, 16).transpose(0, 1, 3, 2, 4, 5).reshape(8, 96, 96, 16)


@gradient(floats(8, 96, 96, 32))
def space2depth(x):
    return x.reshape(8, 48, 2, 48, 2, 32).transpose(0, 1, 3, 2, 4, 5).reshape(8, 48, 48, 128)


@gradient(floats(16, 28, 28, 128))
def chan_shuffle(x):
    return x.reshape(16, 28, 28, 4, 32).swapaxes(3, 4).reshape(16, 28, 28, 128)


@gradient(floats(8, 32, 32, 32))
def patches(x):
    return lax.conv_general_dilated_patches(x, (3, 3), (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


# Losses.
function("softmax_ce", optax.softmax_cross_entropy_with_integer_labels, floats(4096, 10000), integers(4096))
function("ce_dense", optax.softmax_cross_entropy, floats(1024, 1000), floats(1024, 1000))
function("sigmoid_bce", optax.sigmoid_binary_cross_entropy, floats(64, 128, 128, 1), floats(64, 128, 128, 1))
function("focal", optax.sigmoid_focal_loss, floats(32, 8192, 20), floats(32, 8192, 20))
function("cosine", optax.cosine_similarity, floats(8192, 64), floats(8192, 64), of=(0, 1))
function("huber_ssim", optax.huber_loss, floats(16, 96, 96, 3), floats(16, 96, 96, 3))
function("gram", lambda x: jnp.einsum("bijc,bijd->bcd", x, x), floats(8, 64, 64, 64))
function("logsumexp_lanes1", lambda x: jax.nn.logsumexp(x, 1), floats(64, 200, 100))


@gradient(floats(16, 128, 128, 4), floats(16, 128, 128, 4))
def dice(x, y):
    return 1 - 2 * (jax.nn.sigmoid(x) * y).sum((1, 2)) / (jax.nn.sigmoid(x) + y).sum((1, 2))


@gradient(floats(16, 128, 40), integers(16, 30))
def ctc(scores, labels):
    return optax.ctc_loss(scores, jnp.zeros(scores.shape[:2]), labels, jnp.zeros(labels.shape))


@gradient(floats(512, 256), floats(512, 256), of=(0, 1))
def contrastive(x, y):
    x, y = x / jnp.linalg.norm(x, axis=-1, keepdims=True), y / jnp.linalg.norm(y, axis=-1, keepdims=True)
    return optax.softmax_cross_entropy_with_integer_labels(x @ y.T * 14, jnp.arange(512))


@gradient(floats(4096, 128), floats(4096, 128), floats(4096, 128), of=(0, 1, 2))
def triplet(anchor, near, far):
    return jnp.maximum(0, jnp.sum((anchor - near) ** 2, -1) - jnp.sum((anchor - far) ** 2, -1) + 1)


@gradient(floats(8, 256, 3), floats(8, 256, 3), of=(0, 1))
def pairdist(x, y):
    return jnp.sqrt(jnp.sum((x[:, :, None] - y[:, None]) ** 2, -1) + 1e-6)


@gradient(floats(16, 96, 96, 3))
def tv(x):
    """Total variation: differences of neighbours."""
    return jnp.abs(x[:, 1:] - x[:, :-1]).mean() + jnp.abs(x[:, :, 1:] - x[:, :, :-1]).mean()


@gradient(floats(512, 16), floats(512, 16), of=(0, 1))
def mmd(x, y):
    """The kernel of a maximum mean discrepancy."""
    return jnp.exp(-((x[:, None] - y[None]) ** 2).sum(-1))


@gradient(floats(4096, 32), floats(4096, 32), of=(0, 1))
def gausskl(mean, log_variance):
    return 0.5 * (mean**2 + jnp.exp(log_variance) - 1 - log_variance).sum(-1)


# Graphs and experts.
function("segment", lambda x, i: jax.ops.segment_sum(x, i, 2048), floats(16384, 64), integers(16384))
function("gather_nodes", lambda x, i: x[i] * 2, floats(2048, 128), integers(16384))
function("adj", lambda a, x: a @ x, floats(1024, 1024), floats(1024, 64), of=(0, 1))
function("topk_gate", lambda x: lax.top_k(x, 2)[0], floats(4096, 16))


@gradient(floats(16384, 8), integers(16384))
def gat_softmax(scores, receivers):
    weights = jnp.exp(scores - jax.ops.segment_max(scores, receivers, 2048)[receivers])
    return weights / jax.ops.segment_sum(weights, receivers, 2048)[receivers]


@gradient(floats(4096, 8), floats(4096, 256), of=(0, 1))
def onehot_moe(gates, x):
    return jnp.einsum("te,td->ed", jax.nn.one_hot(jnp.argmax(gates, -1), 8) * jax.nn.softmax(gates), x)


@gradient(floats(8, 512, 256), floats(8, 256, 512), floats(8, 512, 256), of=(0, 1, 2))
def experts(x, inner, outer):
    return jnp.einsum("ech,ehd->ecd", jax.nn.gelu(jnp.einsum("ecd,edh->ech", x, inner)), outer)


# Scans, sorts and Fourier transforms.
function("fft2", lambda x: jnp.abs(jnp.fft.rfft2(x, axes=(1, 2))), floats(8, 64, 64, 32))
function("stft", lambda x: jnp.abs(jax.scipy.signal.stft(x, nperseg=256)[2]), floats(8, 8192))
function("cumsum", lambda x: jnp.cumsum(x, 1), floats(16, 512, 64))
function("sortloss", lambda x, y: jnp.sort(x, -1) - jnp.sort(y, -1), floats(256, 512), floats(256, 512), of=(0, 1))


@gradient(floats(8, 256, 256), floats(8, 256, 256), of=(0, 1))
def scan_ssm(kept, added):
    def both(first, second):
        return first[0] * second[0], second[0] * first[1] + second[1]

    return lax.associative_scan(both, (jax.nn.sigmoid(kept), added), axis=1)[1]


@gradient(floats(128, 8, 256), floats(128, 8, 256), of=(0, 1))
def scan_ema(kept, added):
    def one(state, x):
        state = x[0] * state + x[1]
        return state, state

    return lax.scan(one, jnp.zeros((8, 256)), (jax.nn.sigmoid(kept), added))[1]


@gradient(floats(8, 1024, 64), floats(1024, 64), of=(0, 1))
def fft_conv(x, kernel):
    product = jnp.fft.rfft(x, 2048, axis=1) * jnp.fft.rfft(kernel, 2048, axis=0)
    return jnp.fft.irfft(product, axis=1)[:, :1024]


# Random numbers.
@gradient(floats(256, 32, 64))
def gumbel(x):
    return jax.nn.softmax((x + jax.random.gumbel(jax.random.PRNGKey(1), x.shape)) / 0.5)


@gradient(floats(32, 256, 256))
def dropout(x):
    return jnp.where(jax.random.bernoulli(jax.random.PRNGKey(1), 0.9, x.shape), x / 0.9, 0)


@gradient(floats(32, 28, 28, 192))
def droppath(x):
    return x * jax.random.bernoulli(jax.random.PRNGKey(1), 0.9, (32, 1, 1, 1))


# Rendering and recommendations.
function("fm", lambda x: 0.5 * (x.sum(1) ** 2 - (x**2).sum(1)), floats(4096, 26, 16))
function("crossnet", lambda x, w: x * (x @ w) + x, floats(4096, 429), floats(429, 429), of=(0, 1))


@gradient(floats(8192, 3))
def posenc(x):
    angles = x[..., None] * 2.0 ** jnp.arange(10)
    return jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], -1).reshape(*x.shape[:-1], -1)


@gradient(floats(1024, 64), floats(1024, 64, 3), of=(0, 1))
def volrender(density, colours):
    opaque = 1 - jnp.exp(-jax.nn.softplus(density))
    return jnp.einsum("rs,rsc->rc", opaque * jnp.exp(-jnp.cumsum(density, 1)), colours)


@gradient(floats(2048, 27, 32))
def interactions(x):
    products = jnp.einsum("bfd,bgd->bfg", x, x)
    return products[:, jnp.tril_indices(27, -1)[0], jnp.tril_indices(27, -1)[1]]


@gradient(floats(8, 64, 64), floats(8, 2, 4096))
def gridsample(images, places):
    return jax.vmap(lambda image, at: jax.scipy.ndimage.map_coordinates(image, [at[0], at[1]], 1))(images, places)


@gradient(floats(32, 64, 64, 3), floats(32))
def affine_aug(x, contrast):
    return x * jnp.clip(contrast, 0.5, 1.5)[:, None, None, None] + x.mean((1, 2, 3), keepdims=True)


# Products and linear algebra.
function("einsum_bil", lambda x, w, y: jnp.einsum("bi,kij,bj->bk", x, w, y), floats(256, 64), floats(32, 64, 64), floats(256, 64), of=(0, 1, 2))
function("tri_mul", lambda a, b: jnp.einsum("bikc,bjkc->bijc", a, b), floats(1, 96, 96, 64), floats(1, 96, 96, 64), of=(0, 1))
function("outer_mean", lambda a, b: jnp.einsum("bsic,bsjd->bijcd", a, b) / 32, floats(1, 32, 64, 16), floats(1, 32, 64, 16), of=(0, 1))
function("cholesky", lambda x: jnp.linalg.cholesky(x @ x.T + 512 * jnp.eye(256)), floats(256, 256))
function("solve", lambda a, b: jnp.linalg.solve(a + 20 * jnp.eye(64), b), floats(16, 64, 64), floats(16, 64, 8), of=(0, 1))


@forward(floats(512, 1024))
def muon(gradient):
    """The nearest orthogonal matrix by five steps of Newton and Schulz."""

    def one(_, x):
        return 3.4445 * x + (-4.775 * (x @ x.T) + 2.0315 * (x @ x.T) @ (x @ x.T)) @ x

    return lax.fori_loop(0, 5, one, gradient / jnp.linalg.norm(gradient))


# Optimisers.
OF_A_NET = [(768, 3072), (3072, 768), (768, 768), (768,), (3072,), (3, 3, 64, 64), (10,), (7, 7, 3, 64)]
optimizer("adam", optax.adam(1e-3), *OF_A_NET)
optimizer("adamw_clip", optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-3)), *OF_A_NET)
optimizer("lamb", optax.lamb(1e-3), *OF_A_NET)
optimizer("adafactor", optax.adafactor(1e-3), *OF_A_NET)
optimizer("lion", optax.lion(1e-3), *OF_A_NET)
optimizer("sgdm", optax.sgd(1e-2, momentum=0.9, nesterov=True), *OF_A_NET)
optimizer("rmsprop", optax.rmsprop(1e-3), *OF_A_NET)
optimizer("shampoo_like", optax.lars(1e-3), *OF_A_NET)
optimizer("small_many", optax.adam(1e-3), *[(64, 64)] * 20, *[(64,)] * 20)
optimizer("emb_adam", optax.adam(1e-3), (50000, 64))

if __name__ == "__main__":
    print_named(STEPS, STEPS.stablehlo, __doc__)
