"""Training steps that were measured before anybody looked at them: sixteen nets of other kinds than those of the other lists.

    python bench/programs/first_tries.py alexnet > alexnet.mlir              as JAX prints it, lowered for the computer's CPU
    tpusim run alexnet.mlir --config v3-8 --cores 1
    PYTHONPATH=workloads/capture python -m tpusim_capture alexnet.mlir --chip v3 -o STEPS/alexnet
    bench/xla_ratio.py --folder STEPS alexnet

first_tries.md says what came out. Needs jax, flax and optax.
"""

import functools
import os

os.environ["JAX_PLATFORMS"] = "cpu"

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from named_steps import NamedSteps, cross_entropy, print_named, square
from ordinary_steps import classes, floats, integers, training_step

lax = jax.lax
STEPS = NamedSteps()
ADAM = optax.adamw(1e-3)
SGD = optax.sgd(0.1, momentum=0.9)
step = STEPS.step


@step
def alexnet():
    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            pool = functools.partial(nn.max_pool, window_shape=(3, 3), strides=(2, 2))
            x = pool(nn.relu(nn.Conv(64, (11, 11), (4, 4))(x)))
            x = pool(nn.relu(nn.Conv(192, (5, 5))(x)))
            for features in (384, 256, 256):
                x = nn.relu(nn.Conv(features, (3, 3))(x))
            x = pool(x).reshape(x.shape[0], -1)
            for _ in range(2):
                x = nn.relu(nn.Dense(1024)(x))
            return nn.Dense(1000)(x)

    return training_step(Net(), classes, SGD, floats(64, 160, 160, 3), integers(64))


@step
def squeezenet():
    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            x = nn.relu(nn.Conv(64, (3, 3), (2, 2))(x))
            for index, narrow in enumerate((16, 16, 32, 32, 48, 48)):
                if index % 2 == 0:
                    x = nn.max_pool(x, (3, 3), (2, 2))
                x = nn.relu(nn.Conv(narrow, (1, 1))(x))
                x = jnp.concatenate([nn.relu(nn.Conv(4 * narrow, (1, 1))(x)), nn.relu(nn.Conv(4 * narrow, (3, 3))(x))], -1)
            return nn.Conv(100, (1, 1))(x).mean((1, 2))

    return training_step(Net(), classes, ADAM, floats(32, 128, 128, 3), integers(32))


@step
def shufflenet():
    class Unit(nn.Module):
        features: int
        stride: int

        @nn.compact
        def __call__(self, x):
            norm = functools.partial(nn.GroupNorm, 4)
            half = self.features // 2
            left, right = (x, x) if self.stride == 2 else jnp.split(x, 2, -1)
            if self.stride == 2:
                left = norm()(nn.Conv(left.shape[-1], (3, 3), (2, 2), feature_group_count=left.shape[-1])(left))
                left = nn.relu(norm()(nn.Conv(half, (1, 1))(left)))
            right = nn.relu(norm()(nn.Conv(half, (1, 1))(right)))
            right = norm()(nn.Conv(half, (3, 3), (self.stride,) * 2, feature_group_count=half)(right))
            right = nn.relu(norm()(nn.Conv(half, (1, 1))(right)))
            x = jnp.concatenate([left, right], -1)
            return x.reshape(*x.shape[:-1], 2, half).swapaxes(-1, -2).reshape(x.shape)

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            x = nn.relu(nn.Conv(24, (3, 3), (2, 2))(x))
            for features, count in ((64, 3), (128, 3), (256, 2)):
                for index in range(count):
                    x = Unit(features, 1 if index else 2)(x)
            return nn.Dense(100)(x.mean((1, 2)))

    return training_step(Net(), classes, SGD, floats(32, 96, 96, 3), integers(32))


@step
def pixelcnn():
    """Gated convolutions whose kernels are masked; 256 values a pixel."""

    class Masked(nn.Module):
        features: int
        size: int
        own: bool

        @nn.compact
        def __call__(self, x):
            kernel = self.param("kernel", nn.initializers.lecun_normal(), (self.size, self.size, x.shape[-1], self.features))
            mask = np.ones((self.size, self.size, 1, 1), np.float32)
            mask[self.size // 2, self.size // 2 + self.own :] = 0
            mask[self.size // 2 + 1 :] = 0
            return lax.conv_general_dilated(x, kernel * mask, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            x = Masked(64, 7, False)(x)
            for _ in range(4):
                a, b = jnp.split(Masked(128, 3, True)(x), 2, -1)
                x = x + nn.Conv(64, (1, 1))(jnp.tanh(a) * nn.sigmoid(b))
            return nn.Conv(256, (1, 1))(nn.relu(nn.Conv(128, (1, 1))(nn.relu(x))))

    def loss(logits, images, wanted):
        return cross_entropy(logits, wanted)

    return training_step(Net(), loss, ADAM, floats(32, 28, 28, 1), integers(32, 28, 28))


@step
def superresolution():
    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            x = head = nn.Conv(64, (3, 3))(x)
            for _ in range(6):
                x = x + 0.1 * nn.Conv(64, (3, 3))(nn.relu(nn.Conv(64, (3, 3))(x)))
            x = nn.Conv(256, (3, 3))(nn.Conv(64, (3, 3))(x) + head)
            b, h, w, _ = x.shape
            x = x.reshape(b, h, w, 2, 2, 64).transpose(0, 1, 3, 2, 4, 5).reshape(b, 2 * h, 2 * w, 64)
            return nn.Conv(3, (3, 3))(x)

    def loss(found, images, wanted):
        return jnp.mean(jnp.abs(found - wanted))

    return training_step(Net(), loss, ADAM, floats(16, 48, 48, 3), floats(16, 96, 96, 3))


@step
def skipgram():
    def loss(p, centre, near, far):
        c = p["in"][centre]
        close = jnp.einsum("bd,bd->b", c, p["out"][near])
        apart = jnp.einsum("bd,bkd->bk", c, p["out"][far])
        return -jnp.mean(jax.nn.log_sigmoid(close) + jax.nn.log_sigmoid(-apart).sum(-1))

    def update(p, centre, near, far):
        value, gradients = jax.value_and_grad(loss)(p, centre, near, far)
        return jax.tree.map(lambda a, g: a - 0.1 * g, p, gradients), value

    return update, lambda: ({"in": floats(20000, 128), "out": floats(20000, 128)}, integers(1024), integers(1024), integers(1024, 5))


@step
def diffusion_transformer():
    """Conditioned by scale and shift of each norm, bf16 products."""

    class Block(nn.Module):
        @nn.compact
        def __call__(self, x, c):
            a = jnp.split(nn.Dense(6 * x.shape[-1], dtype=jnp.bfloat16)(nn.silu(c))[:, None], 6, -1)
            norm = functools.partial(nn.LayerNorm, use_bias=False, use_scale=False, dtype=jnp.bfloat16)
            h = norm()(x) * (1 + a[1]) + a[0]
            x = x + a[2] * nn.MultiHeadDotProductAttention(6, dtype=jnp.bfloat16)(h, h)
            h = norm()(x) * (1 + a[4]) + a[3]
            return x + a[5] * nn.Dense(x.shape[-1], dtype=jnp.bfloat16)(nn.gelu(nn.Dense(4 * x.shape[-1], dtype=jnp.bfloat16)(h)))

    class Net(nn.Module):
        @nn.compact
        def __call__(self, inputs):
            x, t, y = inputs
            frequencies = np.exp(-np.log(1e4) * np.arange(128) / 128).astype(np.float32)
            t = t[:, None] * frequencies
            c = nn.Dense(384)(nn.silu(nn.Dense(384)(jnp.concatenate([jnp.cos(t), jnp.sin(t)], -1)))) + nn.Embed(1001, 384)(y)
            b, s = x.shape[0], x.shape[1] // 2
            x = nn.Conv(384, (2, 2), (2, 2))(x).reshape(b, s * s, 384)
            x = (x + self.param("places", nn.initializers.normal(0.02), (1, s * s, 384))).astype(jnp.bfloat16)
            for _ in range(4):
                x = Block()(x, c)
            x = nn.Dense(16)(nn.LayerNorm()(x))
            return x.reshape(b, s, s, 2, 2, 4).transpose(0, 1, 3, 2, 4, 5).reshape(b, 2 * s, 2 * s, 4)

    def loss(found, inputs, noise):
        return square(found, noise)

    return training_step(Net(), loss, ADAM, (floats(16, 32, 32, 4), floats(16), integers(16)), floats(16, 32, 32, 4))


@step
def retention():
    """A decoder whose attention decays by powers in place of a softmax."""

    class Net(nn.Module):
        @nn.compact
        def __call__(self, words):
            length, heads = words.shape[1], 4
            distance = np.arange(length)[:, None] - np.arange(length)
            decay = 1 - 2.0 ** (-5 - np.arange(heads))
            mask = np.where(distance >= 0, decay[:, None, None] ** np.maximum(distance, 0), 0).astype(np.float32)
            x = nn.Embed(4096, 256)(words)
            for _ in range(4):
                h = nn.LayerNorm()(x)
                q, k, v = (nn.DenseGeneral((heads, 64))(h) for _ in range(3))
                h = jnp.einsum("bhqk,bkhd->bqhd", jnp.einsum("bqhd,bkhd->bhqk", q, k) / 8 * mask, v)
                h = nn.GroupNorm(None, group_size=64)(h.reshape(-1, 256)).reshape(x.shape)
                x = x + nn.Dense(256)(h * nn.silu(nn.Dense(256)(x)))
                h = nn.LayerNorm()(x)
                x = x + nn.Dense(256)(nn.silu(nn.Dense(512)(h)) * nn.Dense(512)(h))
            return nn.Dense(4096)(nn.LayerNorm()(x))

    return training_step(Net(), classes, ADAM, integers(8, 256), integers(8, 256))


@step
def actor_critic():
    """Soft actor-critic: two critics, their slow copies, a stochastic actor, a temperature."""

    class Net(nn.Module):
        out: int

        @nn.compact
        def __call__(self, *x):
            x = jnp.concatenate(x, -1)
            for _ in range(2):
                x = nn.relu(nn.Dense(256)(x))
            return nn.Dense(self.out)(x)

    actor, critic = Net(12), Net(1)
    optimizer = optax.adam(3e-4)

    def act(p, seen, noise):
        mean, log_std = jnp.split(actor.apply(p, seen), 2, -1)
        log_std = jnp.clip(log_std, -20, 2)
        raw = mean + jnp.exp(log_std) * noise
        chance = -0.5 * noise**2 - log_std - 2 * (np.log(2) - raw - jax.nn.softplus(-2 * raw))
        return jnp.tanh(raw), chance.sum(-1)

    def values(p, *given):
        return jnp.minimum(*(critic.apply(one, *given)[:, 0] for one in p))

    def update(p, state, seen, action, reward, then, going_on, noise):
        next_action, chance = act(p["actor"], then, noise[0])
        wanted = reward + 0.99 * going_on * (values(p["slow"], then, next_action) - jnp.exp(p["heat"]) * chance)
        wanted = lax.stop_gradient(wanted)

        def loss(q):
            judged = sum(square(critic.apply(one, seen, action)[:, 0], wanted) for one in q["critics"])
            own, chance = act(q["actor"], seen, noise[1])
            heat = lax.stop_gradient(jnp.exp(q["heat"]))
            acted = (heat * chance - values(lax.stop_gradient(q["critics"]), seen, own)).mean()
            return judged + acted - (q["heat"] * lax.stop_gradient(chance - 6)).mean()

        trained = {name: p[name] for name in ("actor", "critics", "heat")}
        value, gradients = jax.value_and_grad(loss)(trained)
        updates, state = optimizer.update(gradients, state)
        trained = optax.apply_updates(trained, updates)
        return trained | {"slow": optax.incremental_update(trained["critics"], p["slow"], 0.005)}, state, value

    def arguments():
        shaped = functools.partial(jax.eval_shape, actor.init, jax.random.key(0))
        critics = [jax.eval_shape(critic.init, jax.random.key(0), floats(256, 17), floats(256, 6))] * 2
        trained = {"actor": shaped(floats(256, 17)), "critics": critics, "heat": floats()}
        state = jax.eval_shape(optimizer.init, trained)
        return (trained | {"slow": critics}, state, floats(256, 17), floats(256, 6), floats(256), floats(256, 17), floats(256), floats(2, 256, 6))

    return update, arguments


@step
def tagger():
    """Words from both sides by LSTMs, tags by a conditional random field."""

    class Net(nn.Module):
        @nn.compact
        def __call__(self, words):
            x = nn.Embed(10000, 128)(words)
            x = nn.Bidirectional(nn.RNN(nn.OptimizedLSTMCell(128)), nn.RNN(nn.OptimizedLSTMCell(128)))(x)
            return nn.Dense(20)(x), self.param("follows", nn.initializers.zeros, (20, 20))

    def loss(outputs, words, tags):
        scores, follows = outputs

        def forward(alpha, score):
            return jax.nn.logsumexp(alpha[:, :, None] + follows, 1) + score, None

        alpha, _ = lax.scan(forward, scores[:, 0], scores[:, 1:].swapaxes(0, 1))
        chosen = jnp.take_along_axis(scores, tags[..., None], -1)[..., 0].sum(1) + follows[tags[:, :-1], tags[:, 1:]].sum(1)
        return (jax.nn.logsumexp(alpha, -1) - chosen).mean()

    return training_step(Net(), loss, ADAM, integers(32, 48), integers(32, 48))


@step
def pose():
    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            x = nn.relu(nn.Conv(32, (7, 7), (2, 2))(x))
            for features in (64, 128, 256):
                h = nn.relu(nn.GroupNorm(8)(nn.Conv(features, (3, 3), (2, 2))(x)))
                x = nn.relu(nn.GroupNorm(8)(nn.Conv(features, (3, 3))(h)) + h)
            for _ in range(3):
                x = nn.relu(nn.GroupNorm(8)(nn.ConvTranspose(128, (4, 4), (2, 2))(x)))
            return nn.Conv(17, (1, 1))(x)

    def loss(found, images, wanted, weights):
        return jnp.mean(weights[:, None, None] * (found - wanted) ** 2)

    return training_step(Net(), loss, ADAM, floats(16, 128, 96, 3), floats(16, 64, 48, 17), floats(16, 17))


@step
def grouped_residuals():
    """Grouped convolutions and gates of channels by their means (ResNeXt, squeeze and excitation), bf16."""

    class Block(nn.Module):
        features: int
        stride: int

        @nn.compact
        def __call__(self, x):
            conv = functools.partial(nn.Conv, use_bias=False, dtype=jnp.bfloat16)
            norm = functools.partial(nn.BatchNorm, use_running_average=False, dtype=jnp.bfloat16)
            h = nn.relu(norm()(conv(self.features // 2, (1, 1))(x)))
            h = nn.relu(norm()(conv(self.features // 2, (3, 3), (self.stride,) * 2, feature_group_count=16)(h)))
            h = norm()(conv(self.features, (1, 1))(h))
            gate = nn.relu(nn.Dense(self.features // 16)(h.mean((1, 2))))
            h = h * nn.sigmoid(nn.Dense(self.features)(gate)).astype(jnp.bfloat16)[:, None, None]
            if x.shape != h.shape:
                x = norm()(conv(self.features, (1, 1), (self.stride,) * 2)(x))
            return nn.relu(x + h)

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            x = nn.relu(nn.Conv(64, (3, 3), (2, 2), dtype=jnp.bfloat16)(x))
            for features, count in ((128, 2), (256, 2), (512, 2)):
                for index in range(count):
                    x = Block(features, 1 if index else 2)(x)
            return nn.Dense(100)(x.mean((1, 2)).astype(jnp.float32))

    model = Net()

    def update(p, statistics, state, images, labels):
        def loss(q):
            logits, changed = model.apply({"params": q, "batch_stats": statistics}, images, mutable=["batch_stats"])
            return cross_entropy(logits, labels), changed["batch_stats"]

        (value, statistics), gradients = jax.value_and_grad(loss, has_aux=True)(p)
        updates, state = SGD.update(gradients, state, p)
        return optax.apply_updates(p, updates), statistics, state, value

    def arguments():
        variables = jax.eval_shape(model.init, jax.random.key(0), floats(32, 128, 128, 3))
        p = variables["params"]
        return p, variables["batch_stats"], jax.eval_shape(SGD.init, p), floats(32, 128, 128, 3), integers(32)

    return update, arguments


@step
def tabular():
    """A word for each column of a table, read by a transformer."""

    class Net(nn.Module):
        @nn.compact
        def __call__(self, inputs):
            numbers, kinds = inputs
            weight, bias = (self.param(name, nn.initializers.normal(0.02), (24, 64)) for name in ("weight", "bias"))
            tables = self.param("tables", nn.initializers.normal(0.02), (8, 100, 64))
            x = jnp.concatenate([numbers[..., None] * weight + bias, tables[np.arange(8), kinds]], 1)
            x = jnp.concatenate([jnp.broadcast_to(self.param("whole", nn.initializers.zeros, (1, 1, 64)), (x.shape[0], 1, 64)), x], 1)
            for _ in range(3):
                h = nn.LayerNorm()(x)
                x = x + nn.MultiHeadDotProductAttention(4)(h, h)
                a, b = jnp.split(nn.Dense(256)(nn.LayerNorm()(x)), 2, -1)
                x = x + nn.Dense(64)(a * nn.gelu(b))
            return nn.Dense(1)(nn.relu(nn.LayerNorm()(x[:, 0])))[:, 0]

    def loss(found, inputs, wanted):
        return square(found, wanted)

    return training_step(Net(), loss, ADAM, (floats(256, 24), integers(256, 8)), floats(256))


@step
def neural_ode():
    """Runge and Kutta's fourth order, sixteen steps."""

    class Field(nn.Module):
        @nn.compact
        def __call__(self, x):
            return nn.Dense(x.shape[-1])(jnp.tanh(nn.Dense(128)(jnp.tanh(nn.Dense(128)(x)))))

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            x, field = nn.Dense(32)(x), Field()
            field(x)
            apply, variables = Field(parent=None).apply, field.variables

            def go(x, _):
                a = apply(variables, x)
                b = apply(variables, x + a / 32)
                c = apply(variables, x + b / 32)
                d = apply(variables, x + c / 16)
                return x + (a + 2 * b + 2 * c + d) / 96, None

            return nn.Dense(10)(lax.scan(go, x, None, length=16)[0])

    return training_step(Net(), classes, ADAM, floats(256, 64), integers(256))


@step
def temporal_convolutions():
    """Causal, dilated convolutions of sequences, their kernels of unit length times a learnt one."""

    class Layer(nn.Module):
        features: int
        dilation: int

        @nn.compact
        def __call__(self, x):
            shape = (3, x.shape[-1], self.features)
            direction = self.param("direction", nn.initializers.lecun_normal(), shape)
            length = self.param("length", nn.initializers.ones, shape[-1:])
            kernel = direction * length / jnp.sqrt((direction**2).sum((0, 1)))
            return lax.conv_general_dilated(x, kernel, (1,), [(2 * self.dilation, 0)], rhs_dilation=(self.dilation,), dimension_numbers=("NWC", "WIO", "NWC"))

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            for level in range(6):
                h = nn.relu(Layer(64, 2**level)(nn.relu(Layer(64, 2**level)(x))))
                x = nn.relu(h + (x if x.shape == h.shape else nn.Dense(64)(x)))
            return nn.Dense(10)(x[:, -1])

    return training_step(Net(), classes, ADAM, floats(32, 512, 2), integers(32))


@step
def two_views():
    """A net and its slow copy on two views of the same images (BYOL)."""

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            for features in (32, 64, 128):
                x = nn.relu(nn.GroupNorm(8)(nn.Conv(features, (3, 3), (2, 2))(x)))
                x = x + nn.relu(nn.GroupNorm(8)(nn.Conv(features, (3, 3))(x)))
            return nn.Dense(64)(nn.relu(nn.LayerNorm()(nn.Dense(256)(x.mean((1, 2))))))

    class Predictor(nn.Module):
        @nn.compact
        def __call__(self, x):
            return nn.Dense(64)(nn.relu(nn.LayerNorm()(nn.Dense(256)(x))))

    net, predictor = Net(), Predictor()

    def unit(x):
        return x / jnp.sqrt((x**2).sum(-1, keepdims=True) + 1e-6)

    def update(p, slow, state, one, other):
        def loss(p):
            def apart(x, y):
                return 2 - 2 * (unit(predictor.apply(p["predictor"], net.apply(p["net"], x))) * unit(lax.stop_gradient(net.apply(slow, y)))).sum(-1)

            return (apart(one, other) + apart(other, one)).mean()

        value, gradients = jax.value_and_grad(loss)(p)
        updates, state = ADAM.update(gradients, state, p)
        p = optax.apply_updates(p, updates)
        return p, optax.incremental_update(p["net"], slow, 0.01), state, value

    def arguments():
        slow = jax.eval_shape(net.init, jax.random.key(0), floats(64, 32, 32, 3))
        p = {"net": slow, "predictor": jax.eval_shape(predictor.init, jax.random.key(0), floats(64, 64))}
        return p, slow, jax.eval_shape(ADAM.init, p), floats(64, 32, 32, 3), floats(64, 32, 32, 3)

    return update, arguments


if __name__ == "__main__":
    print_named(STEPS, STEPS.stablehlo, __doc__)
