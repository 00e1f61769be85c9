"""Fourteen more training steps that were measured before anybody looked at them, like those of first_tries.py.

    python bench/programs/eighth_tries.py pillars > pillars.mlir

eighth_tries.md says what came out; third_tries.py says how to measure one. Needs jax, flax and optax.
"""

import os

os.environ["JAX_PLATFORMS"] = "cpu"

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from named_steps import NamedSteps, print_named, square
from ordinary_steps import classes, floats, integers, step_of_loss, training_step

lax = jax.lax
STEPS = NamedSteps()
ADAM = optax.adamw(1e-3)
step = STEPS.step


@step
def hourglasses():
    """Where sixteen joints are in an image, guessed twice, down to 4x4 and up again each time (stacked hourglasses)."""
    norm = lambda x: nn.relu(nn.GroupNorm(8)(x))

    class Residual(nn.Module):
        features: int

        @nn.compact
        def __call__(self, x):
            h = nn.Conv(self.features // 2, (1, 1))(norm(x))
            h = nn.Conv(self.features // 2, (3, 3))(norm(h))
            h = nn.Conv(self.features, (1, 1))(norm(h))
            return h + (x if x.shape[-1] == self.features else nn.Conv(self.features, (1, 1))(x))

    class Hourglass(nn.Module):
        depth: int

        @nn.compact
        def __call__(self, x):
            f = x.shape[-1]
            beside = Residual(f)(x)
            h = Residual(f)(nn.max_pool(x, (2, 2), (2, 2)))
            h = Hourglass(self.depth - 1)(h) if self.depth > 1 else Residual(f)(h)
            h = Residual(f)(h)
            return beside + jax.image.resize(h, x.shape, "nearest")

    class Net(nn.Module):
        @nn.compact
        def __call__(self, images):
            x = norm(nn.Conv(32, (7, 7), (2, 2))(images))
            x = Residual(128)(nn.max_pool(Residual(64)(x), (2, 2), (2, 2)))
            told = []
            for _ in range(2):
                h = norm(nn.Conv(128, (1, 1))(Residual(128)(Hourglass(3)(x))))
                told.append(nn.Conv(16, (1, 1))(h))
                x = x + nn.Conv(128, (1, 1))(h) + nn.Conv(128, (1, 1))(told[-1])
            return jnp.stack(told)

    return training_step(Net(), lambda out, images, maps: square(out, maps), optax.rmsprop(2.5e-4), floats(8, 128, 128, 3), floats(8, 32, 32, 16))


@step
def set_of_boxes():
    """Fifty questions about an image, each answered by a thing and its box or by nothing (DETR, its matches made by the host)."""

    class Attention(nn.Module):
        @nn.compact
        def __call__(self, x, y, places_x, places_y):
            q, k, v = (nn.DenseGeneral((8, 32))(z) for z in (x + places_x, y + places_y, y))
            a = nn.softmax(jnp.einsum("bqhd,bkhd->bhqk", q, k) / 32**0.5)
            return nn.DenseGeneral(x.shape[-1], (-2, -1))(jnp.einsum("bhqk,bkhd->bqhd", a, v))

    wider = lambda x: nn.Dense(x.shape[-1])(nn.relu(nn.Dense(1024)(x)))

    class Net(nn.Module):
        @nn.compact
        def __call__(self, images):
            x = images
            for features, stride in ((32, 2), (64, 2), (128, 2), (256, 2)):
                x = nn.relu(nn.GroupNorm(8)(nn.Conv(features, (3, 3), (stride, stride))(x)))
            b, high, wide, _ = x.shape
            row = self.param("row", nn.initializers.normal(), (high, 1, 128))
            column = self.param("column", nn.initializers.normal(), (1, wide, 128))
            places = jnp.concatenate([jnp.broadcast_to(row, (high, wide, 128)), jnp.broadcast_to(column, (high, wide, 128))], -1).reshape(-1, 256)
            x = x.reshape(b, -1, 256)
            for _ in range(2):
                x = nn.LayerNorm()(x + Attention()(x, x, places, places))
                x = nn.LayerNorm()(x + wider(x))
            asked = self.param("asked", nn.initializers.normal(), (50, 256))
            y = jnp.zeros((b, 50, 256))
            told = []
            names, boxes = nn.Dense(92), [nn.Dense(256), nn.Dense(256), nn.Dense(4)]
            for _ in range(3):
                y = nn.LayerNorm()(y + Attention()(y, y, asked, asked))
                y = nn.LayerNorm()(y + Attention()(y, x, asked, places))
                y = nn.LayerNorm()(y + wider(y))
                h = y
                for layer in boxes[:-1]:
                    h = nn.relu(layer(h))
                told.append((names(y), nn.sigmoid(boxes[-1](h))))
            return told

    def corners(box):
        return box[..., :2] - box[..., 2:] / 2, box[..., :2] + box[..., 2:] / 2

    def overlap(one, other):
        """Intersection over union, less what a box around both has besides (generalised)."""
        (low, high), (low_2, high_2) = corners(one), corners(other)
        area = lambda a, b: jnp.maximum(b - a, 0).prod(-1)
        shared = area(jnp.maximum(low, low_2), jnp.minimum(high, high_2))
        both = area(low, high) + area(low_2, high_2) - shared
        around = area(jnp.minimum(low, low_2), jnp.maximum(high, high_2))
        return shared / (both + 1e-6) - (around - both) / (around + 1e-6)

    def loss(out, images, match, names, boxes):
        total = 0
        there = names > 0
        for logits, found in out:
            at = match[:, :, None]
            chosen = jnp.take_along_axis(found, at, 1)
            wanted = jnp.zeros(logits.shape[:2], int).at[jnp.arange(len(match))[:, None], match].set(names)
            each = optax.softmax_cross_entropy_with_integer_labels(logits, wanted)
            weight = jnp.where(wanted > 0, 1, 0.1)
            away = 5 * jnp.abs(chosen - boxes).sum(-1) + 2 * (1 - overlap(chosen, boxes))
            total += (each * weight).sum() / weight.sum() + (away * there).sum() / jnp.maximum(there.sum(), 1)
        return total

    optimizer = optax.chain(optax.clip_by_global_norm(0.1), optax.adamw(1e-4))
    return training_step(Net(), loss, optimizer, floats(8, 192, 192, 3), integers(8, 20), integers(8, 20), floats(8, 20, 4))


@step
def tours():
    """A way through 50 places, one after the other, drawn by attention; short ways are made likelier (attention model for routing, REINFORCE)."""

    class Net(nn.Module):
        def setup(self):
            self.start = nn.Dense(128)
            self.layers = [(nn.MultiHeadDotProductAttention(8), nn.LayerNorm(), nn.Dense(512), nn.Dense(128), nn.LayerNorm()) for _ in range(3)]
            self.keys, self.fixed, self.context, self.out = nn.Dense(3 * 128, use_bias=False), nn.Dense(128), nn.Dense(128), nn.Dense(128, use_bias=False)
            self.first = self.param("first", nn.initializers.uniform(), (2 * 128,))

        def __call__(self, places, key):
            x = self.start(places)
            for look, norm, wide, narrow, other in self.layers:
                x = norm(x + look(x))
                x = other(x + narrow(nn.relu(wide(x))))
            b, n, f = x.shape
            key_look, value, key_point = jnp.split(self.keys(x), 3, -1)
            heads = lambda z: z.reshape(b, -1, 8, 16)
            whole = self.fixed(x.mean(1))
            rows = jnp.arange(b)

            def go(net, state, turn):
                seen, ends, likely = state
                q = whole + net.context(ends)
                scores = jnp.einsum("bqhd,bkhd->bhqk", heads(q[:, None]), heads(key_look)) / 4
                a = nn.softmax(jnp.where(seen[:, None, None], -1e9, scores))
                glimpse = net.out(jnp.einsum("bhqk,bkhd->bqhd", a, heads(value)).reshape(b, f))
                logits = 10 * jnp.tanh(jnp.einsum("bf,bnf->bn", glimpse, key_point) / f**0.5)
                logits = nn.log_softmax(jnp.where(seen, -1e9, logits))
                chosen = jax.random.categorical(turn, lax.stop_gradient(logits))
                here = x[rows, chosen]
                begin = jnp.where(seen.any(-1, keepdims=True), ends[:, :f], here)
                return (seen | (jnp.arange(n) == chosen[:, None]), jnp.concatenate([begin, here], -1), likely + logits[rows, chosen]), chosen

            self.context(jnp.zeros((b, 2 * f))), self.out(jnp.zeros((b, f)))  # Their weights are made here, not in the loop.
            state = jnp.zeros((b, n), bool), jnp.broadcast_to(self.first, (b, 2 * f)), jnp.zeros(b)
            (_, _, likely), order = nn.scan(go, variable_broadcast="params", split_rngs={"params": False})(self, state, jax.random.split(key, n))
            return likely, order.T

    def loss(out, places, key, usual):
        likely, order = out
        way = jnp.take_along_axis(places, order[..., None], 1)
        length = jnp.sqrt(jnp.square(way - jnp.roll(way, 1, 1)).sum(-1)).sum(-1)
        return ((length - usual) * likely).mean()

    key = jax.eval_shape(lambda: jnp.zeros(2, jnp.uint32))
    return training_step(Net(), loss, optax.adam(1e-4), floats(128, 50, 2), key, floats(128), inputs=2)


@step
def turned_alike():
    """Where five bodies go next; nodes move along the lines between them, however the world is turned (E(n)-equivariant graph net)."""

    class Layer(nn.Module):
        @nn.compact
        def __call__(self, h, x, v):
            b, n, f = h.shape
            apart = x[:, :, None] - x[:, None]
            far = jnp.square(apart).sum(-1, keepdims=True)
            pair = jnp.concatenate([jnp.broadcast_to(h[:, :, None], (b, n, n, f)), jnp.broadcast_to(h[:, None], (b, n, n, f)), far], -1)
            m = nn.silu(nn.Dense(64)(nn.silu(nn.Dense(64)(pair))))
            m = m * nn.sigmoid(nn.Dense(1)(m)) * (1 - jnp.eye(n))[..., None]
            push = nn.Dense(1, use_bias=False)(nn.silu(nn.Dense(64)(m)))
            v = nn.Dense(1)(nn.silu(nn.Dense(64)(h))) * v + (apart / (jnp.sqrt(far + 1e-8) + 1) * push).sum(2) / (n - 1)
            h = h + nn.Dense(f)(nn.silu(nn.Dense(64)(jnp.concatenate([h, m.sum(2)], -1))))
            return h, x + v, v

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x, v, charge):
            h = nn.Dense(64)(jnp.concatenate([jnp.sqrt(jnp.square(v).sum(-1, keepdims=True) + 1e-8), charge], -1))
            for _ in range(4):
                h, x, v = Layer()(h, x, v)
            return x

    batch = floats(128, 5, 3), floats(128, 5, 3), floats(128, 5, 1), floats(128, 5, 3)
    return training_step(Net(), lambda out, x, v, charge, later: square(out, later), ADAM, *batch, inputs=3)


@step
def spikes():
    """Neurons that fire when they are full, for 25 moments; on the way back a step has a slope (spiking net for images)."""

    @jax.custom_vjp
    def fires(x):
        return (x > 0).astype(x.dtype)

    fires.defvjp(lambda x: (fires(x), x), lambda x, g: (g / jnp.square(1 + 25 * jnp.abs(x)),))

    class Moment(nn.Module):
        @nn.compact
        def __call__(self, state, image):
            first, second, third, last = state
            first = 0.9 * first + nn.Conv(16, (5, 5))(image)
            spike = fires(first - 1)
            first = first - lax.stop_gradient(spike)
            second = 0.9 * second + nn.Conv(32, (5, 5))(nn.avg_pool(spike, (2, 2), (2, 2)))
            spike = fires(second - 1)
            second = second - lax.stop_gradient(spike)
            third = 0.9 * third + nn.Dense(256)(nn.avg_pool(spike, (2, 2), (2, 2)).reshape(len(image), -1))
            spike = fires(third - 1)
            third = third - lax.stop_gradient(spike)
            last = 0.9 * last + nn.Dense(10)(spike)
            return (first, second, third, last), last

    class Net(nn.Module):
        @nn.compact
        def __call__(self, events):
            t, b, high, wide, _ = events.shape
            state = jnp.zeros((b, high, wide, 16)), jnp.zeros((b, high // 2, wide // 2, 32)), jnp.zeros((b, 256)), jnp.zeros((b, 10))
            return nn.scan(Moment, variable_broadcast="params", split_rngs={"params": False})()(state, events)[1]

    def loss(out, events, labels):
        return optax.softmax_cross_entropy_with_integer_labels(out, jnp.broadcast_to(labels, out.shape[:2])).mean()

    return training_step(Net(), loss, optax.adam(5e-4), floats(25, 32, 28, 28, 2), integers(32))


@step
def grown_pictures():
    """Cells that look at their neighbours and change a little, half of them at a time, until they are a picture (neural cellular automaton)."""
    look = jnp.array([[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]]) / 8.0
    kernels = jnp.stack([jnp.zeros((3, 3)).at[1, 1].set(1), look, look.T], -1)
    kernels = jnp.tile(kernels[:, :, None], (1, 1, 1, 16))

    def alive(x):
        return nn.max_pool(x[..., 3:4], (3, 3), padding="SAME") > 0.1

    def loss(p, cells, wanted, key):
        def go(x, turn):
            seen = lax.conv_general_dilated(x, kernels, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"), feature_group_count=16)
            h = nn.relu(seen @ p["first"] + p["bias"]) @ p["second"]
            before = alive(x)
            x = x + h * jax.random.bernoulli(turn, 0.5, (*x.shape[:3], 1))
            return x * (before & alive(x)), None

        x = lax.scan(jax.checkpoint(go), cells, jax.random.split(key, 48))[0]
        return square(x[..., :4], wanted), x

    optimizer = optax.chain(optax.normalize_by_update_norm(), optax.adam(2e-3))

    def update(p, state, cells, wanted, key):
        (value, cells), gradients = jax.value_and_grad(loss, has_aux=True)(p, cells, wanted, key)
        updates, state = optimizer.update(gradients, state, p)
        return optax.apply_updates(p, updates), state, cells, value

    def arguments():
        p = {"first": floats(48, 128), "bias": floats(128), "second": floats(128, 16)}
        return p, jax.eval_shape(optimizer.init, p), floats(8, 40, 40, 16), floats(8, 40, 40, 4), jax.ShapeDtypeStruct((2,), jnp.uint32)

    return update, arguments


@step
def foreseen_moves():
    """Rewards, values and moves of five steps that a net thinks ahead, no frame between seen (MuZero)."""

    class Residual(nn.Module):
        @nn.compact
        def __call__(self, x):
            h = nn.relu(nn.LayerNorm()(nn.Conv(64, (3, 3), use_bias=False)(x)))
            return nn.relu(x + nn.LayerNorm()(nn.Conv(64, (3, 3), use_bias=False)(h)))

    def between(x):
        """Features between 0 and 1, for each example."""
        low, high = x.min((1, 2, 3), keepdims=True), x.max((1, 2, 3), keepdims=True)
        return (x - low) / (high - low + 1e-5)

    class Net(nn.Module):
        def setup(self):
            self.eyes = nn.Sequential([nn.Conv(32, (3, 3), (2, 2)), nn.relu, nn.Conv(64, (3, 3), (2, 2)), Residual(), nn.Conv(64, (3, 3), (2, 2)), Residual()])
            self.next = nn.Sequential([nn.Conv(64, (3, 3)), nn.LayerNorm(), nn.relu, Residual(), Residual()])
            head = lambda size: nn.Sequential([nn.Conv(16, (1, 1)), nn.relu, lambda x: x.reshape(len(x), -1), nn.Dense(64), nn.relu, nn.Dense(size)])
            self.reward, self.value, self.policy = head(121), head(121), head(18)

        def __call__(self, frames, moves):
            x = between(self.eyes(frames))
            told = [(self.value(x), self.policy(x))]
            rewards = []
            for t in range(moves.shape[1]):
                move = jnp.broadcast_to(jax.nn.one_hot(moves[:, t], 18)[:, None, None], (*x.shape[:3], 18))
                x = self.next(jnp.concatenate([x, move], -1))
                rewards.append(self.reward(x))
                x = between(x)
                x = 0.5 * x + 0.5 * lax.stop_gradient(x)
                told.append((self.value(x), self.policy(x)))
            return rewards, told

    def places(x):
        """A number as weights of the two whole numbers beside it, of 121."""
        x = jnp.sign(x) * (jnp.sqrt(jnp.abs(x) + 1) - 1) + 0.001 * x
        x = jnp.clip(x, -60, 60) + 60
        low = jnp.floor(x)
        part = (x - low)[..., None]
        return jax.nn.one_hot(low, 121) * (1 - part) + jax.nn.one_hot(low + 1, 121) * part

    def loss(out, frames, moves, reward, value, policy):
        rewards, told = out
        entropy = lambda logits, wanted: optax.softmax_cross_entropy(logits, wanted).mean()
        total = entropy(told[0][0], places(value[:, 0])) * 0.25 + entropy(told[0][1], policy[:, 0])
        for t, found in enumerate(rewards):
            total += (
                entropy(found, places(reward[:, t])) + 0.25 * entropy(told[t + 1][0], places(value[:, t + 1])) + entropy(told[t + 1][1], policy[:, t + 1])
            ) / 5
        return total

    batch = floats(64, 96, 96, 12), integers(64, 5), floats(64, 5), floats(64, 6), floats(64, 6, 18)
    return training_step(Net(), loss, optax.adamw(1e-3, weight_decay=1e-4), *batch, inputs=2)


@step
def enlarged():
    """Images three times as large, their pixels out of features (EDSR)."""

    class Net(nn.Module):
        @nn.compact
        def __call__(self, small):
            first = x = nn.Conv(64, (3, 3))(small)
            for _ in range(8):
                x = x + 0.1 * nn.Conv(64, (3, 3))(nn.relu(nn.Conv(64, (3, 3))(x)))
            x = first + nn.Conv(64, (3, 3))(x)
            x = nn.Conv(64 * 9, (3, 3))(x)
            n, high, wide, _ = x.shape
            x = x.reshape(n, high, wide, 3, 3, 64).transpose(0, 1, 3, 2, 4, 5).reshape(n, 3 * high, 3 * wide, 64)
            return nn.Conv(3, (3, 3))(x)

    return training_step(Net(), lambda out, small, large: jnp.abs(out - large).mean(), optax.adam(1e-4), floats(8, 32, 32, 3), floats(8, 96, 96, 3))


@step
def periods():
    """Sound from what an ear hears of it, and critics that see every second, third, fifth and seventh sample (HiFi-GAN)."""
    leaky = lambda x: nn.leaky_relu(x, 0.1)

    class Voice(nn.Module):
        @nn.compact
        def __call__(self, heard):
            x = nn.Conv(128, (7,))(heard)
            for factor in (8, 8, 2):
                x = nn.ConvTranspose(x.shape[-1] // 2, (2 * factor,), (factor,))(leaky(x))
                several = []
                for size in (3, 7):
                    h = x
                    for dilation in (1, 3):
                        h = h + nn.Conv(h.shape[-1], (size,))(leaky(nn.Conv(h.shape[-1], (size,), kernel_dilation=dilation)(leaky(h))))
                    several.append(h)
                x = sum(several) / 2
            return jnp.tanh(nn.Conv(1, (7,))(leaky(x)))

    class Critic(nn.Module):
        @nn.compact
        def __call__(self, sound):
            told = []
            n, t, _ = sound.shape
            for period in (2, 3, 5, 7):
                x = jnp.pad(sound, ((0, 0), (0, -t % period), (0, 0)), "reflect").reshape(n, -1, period, 1)
                seen = []
                for features in (32, 64, 128):
                    x = leaky(nn.Conv(features, (5, 1), (3, 1))(x))
                    seen.append(x)
                told.append((nn.Conv(1, (3, 1))(x), seen))
            return told

    voice, critic = Voice(), Critic()
    optimizer = optax.adamw(2e-4, b1=0.8)

    def update(p, state, heard, sound):
        made = voice.apply(p["voice"], heard)

        def judged(q):
            both = critic.apply(q, jnp.concatenate([sound, lax.stop_gradient(made)]))
            return sum(square(jnp.split(out, 2)[0], 1) + square(jnp.split(out, 2)[1], 0) for out, _ in both)

        def spoken(q):
            out = voice.apply(q, heard)
            true, false = critic.apply(p["critic"], sound), critic.apply(p["critic"], out)
            alike = sum(jnp.abs(a - b).mean() for (_, one), (_, other) in zip(true, false) for a, b in zip(one, other))
            return sum(square(a, 1) for a, _ in false) + 2 * alike + 45 * jnp.abs(out - sound).mean()

        value, critics = jax.value_and_grad(judged)(p["critic"])
        other, voices = jax.value_and_grad(spoken)(p["voice"])
        updates, state = optimizer.update({"voice": voices, "critic": critics}, state, p)
        return optax.apply_updates(p, updates), state, value + other

    def arguments():
        heard, sound = floats(8, 32, 80), floats(8, 4096, 1)
        p = {"voice": jax.eval_shape(voice.init, jax.random.key(0), heard), "critic": jax.eval_shape(critic.init, jax.random.key(0), sound)}
        return p, jax.eval_shape(optimizer.init, p), heard, sound

    return update, arguments


@step
def compressed_images():
    """Images as few bits, and how wide the bits' distributions are as fewer bits still (scale hyperprior with divisive normalisation)."""

    class Divisive(nn.Module):
        inverse: bool = False

        @nn.compact
        def __call__(self, x):
            f = x.shape[-1]
            weight = self.param("weight", lambda *_: 0.1 * jnp.eye(f))
            least = self.param("least", nn.initializers.ones, (f,))
            norm = jnp.sqrt(jnp.square(x) @ jnp.square(weight) + jnp.square(least))
            return x * norm if self.inverse else x / norm

    def lower(f, x):
        return nn.Conv(f, (5, 5), (2, 2))(x)

    def upper(f, x):
        return nn.ConvTranspose(f, (5, 5), (2, 2))(x)

    class Net(nn.Module):
        @nn.compact
        def __call__(self, images, noise, other):
            y = lower(128, Divisive()(lower(96, Divisive()(lower(96, Divisive()(lower(96, images)))))))
            z = lower(64, nn.relu(lower(64, nn.relu(nn.Conv(96, (3, 3))(jnp.abs(y))))))
            z, y = z + other, y + noise
            scale = nn.softplus(nn.Conv(128, (3, 3))(nn.relu(upper(96, nn.relu(upper(64, z)))))) + 0.1
            x = upper(3, Divisive(True)(upper(96, Divisive(True)(upper(96, Divisive(True)(upper(96, y)))))))
            steep = nn.softplus(self.param("steep", nn.initializers.normal(), (64,)))
            chance_z = nn.sigmoid(steep * (z + 0.5)) - nn.sigmoid(steep * (z - 0.5))
            below = jax.scipy.stats.norm.cdf
            chance_y = below((0.5 - jnp.abs(y)) / scale) - below((-0.5 - jnp.abs(y)) / scale)
            bits = sum(-jnp.log2(jnp.maximum(c, 1e-9)).sum() for c in (chance_z, chance_y)) / (len(images) * 128 * 128)
            return x, bits

    def loss(out, images, *_):
        return out[1] + 0.01 * 255**2 * square(out[0], images)

    return training_step(Net(), loss, optax.adam(1e-4), floats(8, 128, 128, 3), floats(8, 8, 8, 128), floats(8, 2, 2, 64), inputs=3)


@step
def pillars():
    """Points of a laser in upright pillars, the pillars as an image from above, and boxes in it (PointPillars)."""

    class Net(nn.Module):
        @nn.compact
        def __call__(self, points, there, cells):
            b, n, t, _ = points.shape
            x = nn.relu(nn.LayerNorm()(nn.Dense(64, use_bias=False)(points)))
            x = jnp.where(there[..., None] > 0, x, 0).max(2)
            x = jnp.zeros((b, 64 * 64, 64)).at[jnp.arange(b)[:, None], cells].set(x, mode="drop").reshape(b, 64, 64, 64)
            levels = []
            for features, layers in ((64, 2), (128, 3), (256, 3)):
                x = nn.relu(nn.GroupNorm(8)(nn.Conv(features, (3, 3), (2, 2), use_bias=False)(x)))
                for _ in range(layers):
                    x = nn.relu(nn.GroupNorm(8)(nn.Conv(features, (3, 3), use_bias=False)(x)))
                levels.append(x)
            up = [nn.relu(nn.GroupNorm(8)(nn.ConvTranspose(128, (2**i, 2**i), (2**i, 2**i), use_bias=False)(x))) for i, x in enumerate(levels)]
            x = jnp.concatenate(up, -1)
            return nn.Conv(6, (1, 1))(x), nn.Conv(42, (1, 1))(x), nn.Conv(12, (1, 1))(x)

    def loss(out, points, there, cells, named, boxes, facing):
        names, moved, faces = out
        n = names.shape
        chance = optax.sigmoid_binary_cross_entropy(names, named)
        right = jnp.where(named > 0, nn.sigmoid(names), 1 - nn.sigmoid(names))
        count = jnp.maximum(named.sum(), 1)
        moved, faces = moved.reshape(*n, 7), faces.reshape(*n, 2)
        plain = optax.huber_loss(moved[..., :6], boxes[..., :6]).sum(-1) + optax.huber_loss(jnp.sin(moved[..., 6] - boxes[..., 6]), jnp.zeros(n))
        turn = optax.softmax_cross_entropy_with_integer_labels(faces, facing)
        return (chance * jnp.square(1 - right) * 0.25).sum() / count + ((2 * plain + 0.2 * turn) * named).sum() / count

    batch = floats(2, 1024, 20, 9), floats(2, 1024, 20), integers(2, 1024), floats(2, 32, 32, 6), floats(2, 32, 32, 6, 7), integers(2, 32, 32, 6)
    return training_step(Net(), loss, optax.adamw(2e-4, weight_decay=0.01), *batch, inputs=3)


@step
def many_horizons():
    """What will be sold each day of a month, low, likely and high, by gates that choose among columns (temporal fusion transformer)."""
    f = 64

    class Gate(nn.Module):
        @nn.compact
        def __call__(self, x, past):
            a, b = jnp.split(nn.Dense(2 * past.shape[-1])(x), 2, -1)
            return nn.LayerNorm()(past + a * nn.sigmoid(b))

    class Residual(nn.Module):
        out: int = f

        @nn.compact
        def __call__(self, x, told=None):
            h = nn.Dense(f)(x)
            if told is not None:
                h = h + nn.Dense(f, use_bias=False)(told)
            h = nn.Dense(f)(nn.elu(h))
            return Gate()(h, x if x.shape[-1] == self.out else nn.Dense(self.out)(x))

    class Choice(nn.Module):
        """Weighs columns, each of which has features of its own."""

        @nn.compact
        def __call__(self, columns, told):
            n = len(columns)
            weight = nn.softmax(Residual(n)(jnp.concatenate(columns, -1), told))
            return sum(Residual()(c) * weight[..., i : i + 1] for i, c in enumerate(columns))

    class Net(nn.Module):
        @nn.compact
        def __call__(self, fixed, before, later):
            each = lambda x: [nn.Dense(f)(x[..., i : i + 1]) for i in range(x.shape[-1])]
            shop = Choice()(each(fixed), None)
            told, memory, start, wide = (Residual()(shop) for _ in range(4))
            past, known = Choice()(each(before), told[:, None]), Choice()(each(later), told[:, None])
            read = nn.RNN(nn.OptimizedLSTMCell(f), return_carry=True)
            carry, h = read(past, initial_carry=(memory, start))
            future = nn.RNN(nn.OptimizedLSTMCell(f))(known, initial_carry=carry)
            x = Gate()(jnp.concatenate([h, future], 1), jnp.concatenate([past, known], 1))
            x = Residual()(x, wide[:, None])
            t = x.shape[1]
            q, k = nn.DenseGeneral((4, 16))(x), nn.DenseGeneral((4, 16))(x)
            a = nn.softmax(jnp.where(jnp.tril(jnp.ones((t, t), bool)), jnp.einsum("bqhd,bkhd->bhqk", q, k) / 4, -1e9))
            seen = nn.Dense(f)(jnp.einsum("bqk,bkd->bqd", a.mean(1), nn.Dense(16)(x)))
            y = Residual()(Gate()(seen, x))
            return nn.Dense(3)(Gate()(y, x)[:, before.shape[1] :])

    def loss(out, fixed, before, later, sold):
        away = sold[..., None] - out
        share = jnp.array([0.1, 0.5, 0.9])
        return jnp.maximum(share * away, (share - 1) * away).sum(-1).mean()

    batch = floats(64, 4), floats(64, 90, 6), floats(64, 30, 3), floats(64, 30)
    optimizer = optax.chain(optax.clip_by_global_norm(0.01), optax.adam(1e-3))
    return training_step(Net(), loss, optimizer, *batch, inputs=3)


@step
def tracked():
    """Where a thing from an earlier frame is in a later one, found with its features as the kernel (fully convolutional siamese net)."""

    class Eyes(nn.Module):
        @nn.compact
        def __call__(self, x):
            valid = lambda f, k, s=1, groups=1: nn.Conv(f, (k, k), (s, s), "VALID", feature_group_count=groups)
            norm = lambda x: nn.relu(nn.GroupNorm(8)(x))
            x = nn.max_pool(norm(valid(96, 11, 2)(x)), (3, 3), (2, 2))
            x = nn.max_pool(norm(valid(256, 5, 1, 2)(x)), (3, 3), (2, 2))
            x = norm(valid(192, 3)(x))
            return valid(128, 3)(norm(valid(192, 3)(x)))

    eyes = Eyes()

    def found(thing, frame):
        """Each frame has a kernel of its own."""
        return lax.conv_general_dilated(frame[None], thing[..., None], (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"))[0, ..., 0]

    def loss(p, thing, frame, wanted):
        out = jax.vmap(found)(eyes.apply(p["eyes"], thing), eyes.apply(p["eyes"], frame))
        out = 1e-3 * out + p["bias"]
        weight = jnp.where(wanted > 0, 0.5 / jnp.maximum(wanted.sum((1, 2), keepdims=True), 1), 0.5 / (1 - wanted).sum((1, 2), keepdims=True))
        return (optax.sigmoid_binary_cross_entropy(out, wanted) * weight).sum((1, 2)).mean()

    def parameters():
        return {"eyes": jax.eval_shape(eyes.init, jax.random.key(0), floats(8, 127, 127, 3)), "bias": floats()}

    return step_of_loss(loss, optax.sgd(1e-2, momentum=0.9), parameters, floats(8, 127, 127, 3), floats(8, 191, 191, 3), floats(8, 9, 9))


@step
def flat_minima():
    """Places of an image mixed by a matrix that gates (gMLP); the gradient is that of the worst weights nearby (SAM)."""

    class Block(nn.Module):
        @nn.compact
        def __call__(self, x):
            h = nn.gelu(nn.Dense(768)(nn.LayerNorm()(x)))
            a, b = jnp.split(h, 2, -1)
            b = nn.LayerNorm()(b).swapaxes(1, 2)
            b = nn.Dense(b.shape[-1], kernel_init=nn.initializers.normal(1e-3), bias_init=nn.initializers.ones)(b).swapaxes(1, 2)
            return x + nn.Dense(x.shape[-1])(a * b)

    class Net(nn.Module):
        @nn.compact
        def __call__(self, images):
            x = nn.Conv(192, (8, 8), (8, 8))(images)
            x = x.reshape(len(x), -1, 192)
            for _ in range(4):
                x = Block()(x)
            return nn.Dense(100)(nn.LayerNorm()(x).mean(1))

    net = Net()
    optimizer = optax.adamw(1e-3)

    def update(p, state, images, labels):
        loss = lambda p: classes(net.apply(p, images), images, labels)
        value, gradients = jax.value_and_grad(loss)(p)
        length = optax.global_norm(gradients) + 1e-12
        gradients = jax.grad(loss)(jax.tree.map(lambda p, g: p + 0.05 * g / length, p, gradients))
        updates, state = optimizer.update(gradients, state, p)
        return optax.apply_updates(p, updates), state, value

    def arguments():
        p = jax.eval_shape(net.init, jax.random.key(0), floats(32, 96, 96, 3))
        return p, jax.eval_shape(optimizer.init, p), floats(32, 96, 96, 3), integers(32)

    return update, arguments


if __name__ == "__main__":
    print_named(STEPS, STEPS.stablehlo, __doc__)
