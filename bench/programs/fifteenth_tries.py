"""Sixteen more training steps that were measured before anybody looked at them, like those of first_tries.py.

    python bench/programs/fifteenth_tries.py rollouts > rollouts.mlir

third_tries.py says how to measure one. Needs jax, flax, dm-haiku, equinox, jraph, keras and optax.
"""

import os

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["KERAS_BACKEND"] = "jax"

import equinox as eqx
import flax.linen as nn
import haiku as hk
import jax
import jax.numpy as jnp
import jmp
import jraph
import numpy as np
import optax
from flax import nnx
from model_steps import A_KEY, KEY, flax_step, haiku_step, keras_step, normalised, shapes
from named_steps import NamedSteps, print_named
from ordinary_steps import floats, next_words, step_of_loss
from twelfth_tries import below

lax = jax.lax
HALF = jnp.bfloat16
STEPS = NamedSteps()
step = STEPS.step


def root_mean_square(x, gain):
    wide = x.astype(jnp.float32)
    return (wide * lax.rsqrt(jnp.square(wide).mean(-1, keepdims=True) + 1e-5) * gain).astype(x.dtype)


@step
def words_in_chunks():
    """A decoder of scanned layers with few heads of keys; 50257 words are compared chunk by chunk, computed again on the way back (bf16, Lion)."""
    words, f, heads, groups, layers, hidden, b, t = 50257, 512, 8, 2, 4, 1408, 4, 512
    each = f // heads

    def turned(x):
        angle = jnp.arange(t)[:, None] * 10000.0 ** (-jnp.arange(0, each, 2) / each)
        cos, sin = jnp.cos(angle)[:, None].astype(HALF), jnp.sin(angle)[:, None].astype(HALF)
        one, other = x[..., ::2], x[..., 1::2]
        return jnp.stack([one * cos - other * sin, one * sin + other * cos], -1).reshape(x.shape)

    def layer(x, p):
        w = {k: v.astype(HALF) for k, v in p.items()}
        y = root_mean_square(x, p["norm"])
        q = turned((y @ w["q"]).reshape(b, t, heads, each)).reshape(b, t, groups, heads // groups, each)
        k, v = turned((y @ w["k"]).reshape(b, t, groups, each)), (y @ w["v"]).reshape(b, t, groups, each)
        scores = jnp.einsum("bqghd,bkgd->bghqk", q, k, preferred_element_type=jnp.float32) / np.sqrt(each)
        scores = jnp.where(jnp.tril(jnp.ones((t, t), bool)), scores, jnp.finfo(jnp.float32).min)
        y = jnp.einsum("bghqk,bkgd->bqghd", jax.nn.softmax(scores).astype(HALF), v).reshape(b, t, f)
        x = x + y @ w["o"]
        y = root_mean_square(x, p["other_norm"])
        return x + (jax.nn.silu(y @ w["gate"]) * (y @ w["up"])) @ w["down"], None

    def loss(p, text):
        x, _ = lax.scan(jax.checkpoint(layer), p["words"].astype(HALF)[text[:, :-1]], p["layers"])
        x = root_mean_square(x, p["norm"])
        table = p["words"].astype(HALF)

        @jax.checkpoint
        def of_chunk(total, chunk):
            h, y = chunk
            logits = jnp.einsum("btf,wf->btw", h, table, preferred_element_type=jnp.float32)
            own = jnp.take_along_axis(logits, y[..., None], -1)[..., 0]
            rest = jax.nn.logsumexp(logits, -1)
            return total + (rest - own + 1e-4 * rest**2).sum(), None

        in_chunks = lambda a: a.reshape(b, 4, t // 4, *a.shape[2:]).swapaxes(0, 1)
        total, _ = lax.scan(of_chunk, 0.0, (in_chunks(x), in_chunks(text[:, 1:])))
        return total / (b * t)

    extents = {"norm": (f,), "q": (f, f), "k": (f, groups * each), "v": (f, groups * each), "o": (f, f)}
    extents |= {"other_norm": (f,), "gate": (f, hidden), "up": (f, hidden), "down": (hidden, f)}
    parameters = lambda: {"words": floats(words, f), "norm": floats(f), "layers": {k: floats(layers, *v) for k, v in extents.items()}}
    rate = optax.warmup_cosine_decay_schedule(0, 3e-4, 1000, 50000)
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.lion(rate, b2=0.98, mu_dtype=HALF, weight_decay=0.1))
    return step_of_loss(loss, optimizer, parameters, below(words, b, t + 1))


@step
def sorted_experts():
    """A decoder whose words are sorted by the four of sixteen small experts that they go to, one for all; loads are evened by a bias (nnx, bf16)."""
    f, hidden, experts, chosen, words = 384, 256, 16, 4, 12000

    class Balance(nnx.Variable):
        pass

    class Experts(nnx.Module):
        def __init__(self, rngs):
            start = nnx.initializers.lecun_normal(batch_axis=0)
            self.gate = nnx.Linear(f, experts, use_bias=False, rngs=rngs)
            self.into = nnx.Param(start(rngs.params(), (experts, f, 2 * hidden)))
            self.out = nnx.Param(start(rngs.params(), (experts, hidden, f)))
            self.shared_into = nnx.Linear(f, 2 * hidden, use_bias=False, dtype=HALF, rngs=rngs)
            self.shared_out = nnx.Linear(hidden, f, use_bias=False, dtype=HALF, rngs=rngs)
            self.balance = Balance(jnp.zeros(experts))

        def __call__(self, x):
            n = len(x)
            room = n * chosen * 5 // (4 * experts)
            likes = nnx.sigmoid(self.gate(x.astype(jnp.float32)))
            _, at = lax.top_k(likes + self.balance[...], chosen)
            weight = jnp.take_along_axis(likes, at, -1)
            weight = (weight / weight.sum(-1, keepdims=True)).reshape(-1)
            expert = at.reshape(-1)
            order = jnp.argsort(expert)
            loads = jnp.bincount(expert, length=experts)
            sorted_expert = expert[order]
            place = jnp.arange(n * chosen) - (jnp.cumsum(loads) - loads)[sorted_expert]
            slot = jnp.where(place < room, sorted_expert * room + place, experts * room)
            rows = jnp.zeros((experts * room + 1, f), HALF).at[slot].set(x[order // chosen])[:-1].reshape(experts, room, f)
            a, b = jnp.split(jnp.einsum("erf,efh->erh", rows, self.into[...].astype(HALF)), 2, -1)
            rows = jnp.einsum("erh,ehf->erf", nnx.silu(a) * b, self.out[...].astype(HALF)).reshape(-1, f)
            found = jnp.concatenate([rows, jnp.zeros((1, f), HALF)])[slot] * weight[order][:, None].astype(HALF)
            self.balance[...] = self.balance[...] + 1e-3 * jnp.sign(loads.mean() - loads)
            a, b = jnp.split(self.shared_into(x), 2, -1)
            return self.shared_out(nnx.silu(a) * b) + jnp.zeros_like(x).at[order // chosen].add(found)

    class Layer(nnx.Module):
        def __init__(self, rngs):
            self.norm, self.other_norm = (nnx.RMSNorm(f, dtype=HALF, rngs=rngs) for _ in range(2))
            self.attend = nnx.MultiHeadAttention(6, f, dtype=HALF, use_bias=False, decode=False, rngs=rngs)
            self.experts = Experts(rngs)

        def __call__(self, x, mask):
            x = x + self.attend(self.norm(x), mask=mask)
            return x + self.experts(self.other_norm(x).reshape(-1, f)).reshape(x.shape)

    class Net(nnx.Module):
        def __init__(self, rngs):
            self.words = nnx.Embed(words, f, dtype=HALF, rngs=rngs)
            self.layers = nnx.List([Layer(rngs) for _ in range(3)])
            self.norm = nnx.RMSNorm(f, dtype=HALF, rngs=rngs)

        def __call__(self, text):
            x, mask = self.words(text), nnx.make_causal_mask(text)
            for layer in self.layers:
                x = layer(x, mask)
            return self.words.attend(self.norm(x)).astype(jnp.float32)

    graph, p, others = nnx.split(nnx.eval_shape(lambda: Net(nnx.Rngs(0))), nnx.Param, ...)
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(optax.cosine_decay_schedule(6e-4, 20000), b2=0.95, weight_decay=0.1))

    def update(p, state, others, text):
        def loss(p):
            net = nnx.merge(graph, p, others, copy=True)
            value = next_words(net(text), text)
            return value, nnx.split(net, nnx.Param, ...)[2]

        (value, changed), gradient = jax.value_and_grad(loss, has_aux=True)(p)
        changes, state = optimizer.update(gradient, state, p)
        return optax.apply_updates(p, changes), state, changed, value

    return update, lambda: (p, shapes(optimizer.init, p), others, below(words, 8, 256))


@step
def chunks_of_states():
    """A decoder of states that fade by one number a head, as products within chunks and a pass over them (Mamba 2, bf16)."""
    f, inner, heads, size, chunk = 512, 1024, 16, 64, 64

    def sums_between(x):
        t = x.shape[-1]
        x = jnp.where(jnp.tril(jnp.ones((t, t), bool), -1), jnp.broadcast_to(x[..., None], (*x.shape, t)), 0)
        return jnp.where(jnp.tril(jnp.ones((t, t), bool)), jnp.cumsum(x, -2), -jnp.inf)

    def states(x, a, b, c):
        """x: batch, chunks, length, heads, features; a: batch, heads, chunks, length; b, c: batch, chunks, length, states."""
        after = jnp.cumsum(a, -1)
        within = jnp.exp(sums_between(a))
        own = jnp.einsum("bcln,bcsn,bhcls,bcshp->bclhp", c, b, within.astype(HALF), x)
        left = jnp.exp(after[..., -1:] - after)
        ends = jnp.einsum("bcln,bhcl,bclhp->bchpn", b, left.astype(HALF), x)
        ends = jnp.concatenate([jnp.zeros_like(ends[:, :1]), ends], 1)
        decay = jnp.exp(sums_between(jnp.pad(after[..., -1], ((0, 0), (0, 0), (1, 0)))))
        begins = jnp.einsum("bhzc,bchpn->bzhpn", decay.astype(HALF), ends)[:, :-1]
        return own + jnp.einsum("bcln,bchpn,bhcl->bclhp", c, begins, jnp.exp(after).astype(HALF))

    class Mixer(nn.Module):
        @nn.compact
        def __call__(self, x):
            n, t, _ = x.shape
            gate, h, rate = jnp.split(nn.Dense(2 * inner + 2 * size + heads, use_bias=False, dtype=HALF)(x), [inner, 2 * inner + 2 * size], -1)
            h = nn.silu(nn.Conv(inner + 2 * size, (4,), padding="CAUSAL", feature_group_count=inner + 2 * size, dtype=HALF)(h))
            h, b, c = jnp.split(h, [inner, inner + size], -1)
            rate = nn.softplus(rate.astype(jnp.float32) + self.param("rate", nn.initializers.constant(-4.0), (heads,)))
            fade = -jnp.exp(self.param("fade", nn.initializers.constant(1.0), (heads,))) * rate
            h = h.reshape(n, t // chunk, chunk, heads, inner // heads)
            moved = h * rate.reshape(n, t // chunk, chunk, heads, 1).astype(HALF)
            b, c = (y.reshape(n, t // chunk, chunk, size) for y in (b, c))
            y = states(moved, fade.reshape(n, t // chunk, chunk, heads).transpose(0, 3, 1, 2), b, c)
            y = y + h * self.param("skip", nn.initializers.ones, (heads, 1)).astype(HALF)
            y = nn.RMSNorm(dtype=HALF)(y.reshape(n, t, inner) * nn.silu(gate))
            return nn.Dense(f, use_bias=False, dtype=HALF)(y)

    class Net(nn.Module):
        @nn.compact
        def __call__(self, words):
            table = nn.Embed(10000, f, dtype=HALF)
            x = table(words)
            for _ in range(3):
                x = x + nn.remat(Mixer)()(nn.RMSNorm(dtype=HALF)(x))
            return table.attend(nn.RMSNorm(dtype=HALF)(x)).astype(jnp.float32)

    optimizer = optax.MultiSteps(optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(8e-4, b2=0.95, weight_decay=0.1)), 4)
    return flax_step(Net(), next_words, optimizer, below(10000, 4, 512))


@step
def grouped_answers():
    """Eight answers to each of four questions, written word by word out of a cache; better ones of a group become likelier (GRPO, bf16)."""
    f, heads, layers, words, asked, answered, group = 384, 6, 4, 1024, 32, 32, 8
    b, most, each = 4 * group, asked + answered, f // heads

    def project(x, p):
        y = root_mean_square(x, p["norm"]) @ p["qkv"].astype(HALF)
        return jnp.moveaxis(y.reshape(*x.shape[:-1], 3, heads, each), -3, 0)

    def rest_of_layer(x, y, p):
        x = x + y.reshape(x.shape) @ p["out"].astype(HALF)
        return x + jax.nn.gelu(root_mean_square(x, p["other_norm"]) @ p["up"].astype(HALF)) @ p["down"].astype(HALF)

    def hear(p, text):
        """Logits of all words, and keys and values of each layer."""
        t = text.shape[1]

        def layer(x, p):
            q, k, v = project(x, p)
            scores = jnp.einsum("bqhd,bkhd->bhqk", q, k).astype(jnp.float32) / np.sqrt(each)
            scores = jax.nn.softmax(jnp.where(jnp.tril(jnp.ones((t, t), bool)), scores, -1e9))
            return rest_of_layer(x, jnp.einsum("bhqk,bkhd->bqhd", scores.astype(HALF), v), p), (k, v)

        x, cache = lax.scan(layer, (p["words"][text] + p["places"][:t]).astype(HALF), p["layers"])
        return (root_mean_square(x, p["norm"]) @ p["words"].astype(HALF).T).astype(jnp.float32), cache

    def say(p, cache, word, place):
        def layer(x, given):
            p, keys, values = given
            q, k, v = project(x, p)
            keys = lax.dynamic_update_slice_in_dim(keys, k[:, None], place, 1)
            values = lax.dynamic_update_slice_in_dim(values, v[:, None], place, 1)
            scores = jnp.einsum("bhd,bkhd->bhk", q, keys).astype(jnp.float32) / np.sqrt(each)
            scores = jax.nn.softmax(jnp.where(jnp.arange(most) <= place, scores, -1e9))
            return rest_of_layer(x, jnp.einsum("bhk,bkhd->bhd", scores.astype(HALF), values), p), (keys, values)

        x, cache = lax.scan(layer, (p["words"][word] + p["places"][place]).astype(HALF), (p["layers"], *cache))
        return (root_mean_square(x, p["norm"]) @ p["words"].astype(HALF).T).astype(jnp.float32), cache

    def answers(p, questions, key):
        logits, cache = hear(p, questions)
        cache = [jnp.pad(a, ((0, 0), (0, 0), (0, answered), (0, 0), (0, 0))) for a in cache]

        def next_word(carry, given):
            logits, cache = carry
            place, key = given
            word = jax.random.categorical(key, logits)
            return say(p, cache, word, place), word

        _, said = lax.scan(next_word, (logits[:, -1], tuple(cache)), (jnp.arange(asked, most), jax.random.split(key, answered)))
        return said.T

    def likely(p, text):
        logits, _ = hear(p, text[:, :-1])
        return jnp.take_along_axis(jax.nn.log_softmax(logits), text[:, 1:, None], -1)[:, asked - 1 :, 0]

    optimizer = optax.chain(optax.clip_by_global_norm(0.1), optax.adamw(1e-5, b2=0.99))

    def update(p, state, first, key, questions, wanted):
        questions = jnp.repeat(questions, group, 0)
        said = answers(p, questions, key)
        ended = jnp.cumsum(said == 0, 1) - (said == 0)
        counts = (ended == 0).astype(jnp.float32)
        good = ((said == jnp.repeat(wanted, group)[:, None]) * counts).max(1) - 0.001 * counts.sum(1)
        good = good.reshape(-1, group)
        better = ((good - good.mean(1, keepdims=True)) / (good.std(1, keepdims=True) + 1e-4)).reshape(b, 1)
        text = jnp.concatenate([questions, said], 1)
        before, of_first = likely(p, text), likely(first, text)

        def loss(p):
            now = likely(p, text)
            ratio, away = jnp.exp(now - lax.stop_gradient(before)), of_first - now
            gain = jnp.minimum(ratio * better, jnp.clip(ratio, 0.8, 1.2) * better)
            return -((gain - 0.04 * (jnp.exp(away) - away - 1)) * counts).sum() / counts.sum()

        value, gradient = jax.value_and_grad(loss)(p)
        changes, state = optimizer.update(gradient, state, p)
        return optax.apply_updates(p, changes), state, value, good.mean()

    def arguments():
        extents = {"norm": (f,), "qkv": (f, 3 * f), "out": (f, f), "other_norm": (f,), "up": (f, 4 * f), "down": (4 * f, f)}
        p = {"words": floats(words, f), "places": floats(most, f), "norm": floats(f), "layers": {k: floats(layers, *v) for k, v in extents.items()}}
        return p, shapes(optimizer.init, p), p, A_KEY, below(words, 4, asked), below(words, 4)

    return update, arguments


@step
def rollouts():
    """A pendulum that learns to stand: 256 of them for 64 moments, all inside the step, then three times over them in eight parts (PPO)."""
    many, moments, parts = 256, 64, 8

    def seen(world):
        return jnp.stack([jnp.cos(world[0]), jnp.sin(world[0]), world[1] / 8], -1)

    def move(world, push, key):
        angle, speed, age = world
        push = 2 * jnp.clip(push, -1, 1)
        angle_now = (angle + jnp.pi) % (2 * jnp.pi) - jnp.pi
        reward = -(angle_now**2 + 0.1 * speed**2 + 0.001 * push**2) / 8
        speed = jnp.clip(speed + (15 * jnp.sin(angle) + 3 * push) * 0.05, -8, 8)
        over = age >= 199
        anew = jax.random.uniform(key, (2, many), minval=-1.0) * jnp.array([[jnp.pi], [1.0]])
        kept = lambda new, old: jnp.where(over, new, old)
        return (kept(anew[0], angle + speed * 0.05), kept(anew[1], speed), kept(0, age + 1)), reward, over

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            wide = nn.initializers.orthogonal(np.sqrt(2))
            h = nn.tanh(nn.Dense(64, kernel_init=wide)(nn.tanh(nn.Dense(64, kernel_init=wide)(x))))
            mean = nn.Dense(1, kernel_init=nn.initializers.orthogonal(0.01))(h)[..., 0]
            h = nn.tanh(nn.Dense(64, kernel_init=wide)(nn.tanh(nn.Dense(64, kernel_init=wide)(x))))
            return mean, self.param("spread", nn.initializers.zeros, ()), nn.Dense(1)(h)[..., 0]

    net = Net()
    log_normal = lambda x, mean, spread: -0.5 * jnp.square((x - mean) / jnp.exp(spread)) - spread - 0.5 * jnp.log(2 * jnp.pi)
    optimizer = optax.chain(optax.clip_by_global_norm(0.5), optax.adam(optax.linear_schedule(3e-4, 0.0, 12000), eps=1e-5))

    def update(p, state, world, key):
        def moment(carry, _):
            world, key = carry
            key, a, b = jax.random.split(key, 3)
            x = seen(world)
            mean, spread, value = net.apply(p, x)
            push = mean + jnp.exp(spread) * jax.random.normal(a, mean.shape)
            world, reward, over = move(world, push, b)
            return (world, key), (x, push, log_normal(push, mean, spread), value, reward, over)

        (world, key), (x, push, likely, value, reward, over) = lax.scan(moment, (world, key), None, moments)
        _, _, last = net.apply(p, seen(world))

        def before(carry, given):
            gain, later = carry
            value, reward, over = given
            gain = reward + 0.99 * later * (1 - over) - value + 0.99 * 0.95 * (1 - over) * gain
            return (gain, value), gain

        _, gains = lax.scan(before, (jnp.zeros_like(last), last), (value, reward, over.astype(jnp.float32)), reverse=True, unroll=8)
        batch = jax.tree.map(lambda a: a.reshape(moments * many, *a.shape[2:]), (x, push, likely, value, gains, gains + value))

        def loss(p, x, push, likely, value, gain, wanted):
            mean, spread, now = net.apply(p, x)
            gain = (gain - gain.mean()) / (gain.std() + 1e-8)
            ratio = jnp.exp(log_normal(push, mean, spread) - likely)
            clipped = value + jnp.clip(now - value, -0.2, 0.2)
            apart = 0.5 * jnp.maximum(jnp.square(now - wanted), jnp.square(clipped - wanted)).mean()
            return -jnp.minimum(ratio * gain, jnp.clip(ratio, 0.8, 1.2) * gain).mean() + 0.5 * apart - 0.001 * spread

        def part(carry, batch):
            p, state = carry
            value, gradient = jax.value_and_grad(loss)(p, *batch)
            changes, state = optimizer.update(gradient, state, p)
            return (optax.apply_updates(p, changes), state), value

        def epoch(carry, key):
            order = jax.random.permutation(key, moments * many)
            return lax.scan(part, carry, jax.tree.map(lambda a: a[order].reshape(parts, -1, *a.shape[1:]), batch))

        key, own = jax.random.split(key)
        (p, state), values = lax.scan(epoch, (p, state), jax.random.split(own, 3))
        return p, state, world, key, values.mean(), reward.mean()

    def arguments():
        p = shapes(net.init, KEY, floats(many, 3))
        return p, shapes(optimizer.init, p), (floats(many), floats(many), below(200, many)), A_KEY

    return update, arguments


@step
def mixing_agents():
    """Five agents with memories whose values are mixed by weights that the whole state gives, none negative; sequences of 60 moments (QMIX)."""
    b, moments, agents, wide, state_size, actions = 32, 60, 5, 80, 120, 11

    def values(seen, before):
        x = jnp.concatenate([seen, jax.nn.one_hot(before, actions)], -1)
        ids = jnp.broadcast_to(jnp.eye(agents), (*x.shape[:2], agents, agents))
        x = jax.nn.relu(hk.Linear(64)(jnp.concatenate([x, ids], -1))).reshape(moments + 1, b * agents, 64)
        core = hk.GRU(64)
        h, _ = hk.dynamic_unroll(core, x, core.initial_state(b * agents))
        return hk.Linear(actions)(h).reshape(moments + 1, b, agents, actions)

    def mixed(each, world):
        first = jnp.abs(hk.Linear(agents * 32)(jax.nn.relu(hk.Linear(64)(world)))).reshape(*each.shape, 32)
        h = jax.nn.elu(jnp.einsum("tba,tbah->tbh", each, first) + hk.Linear(32)(world))
        last = jnp.abs(hk.Linear(32)(jax.nn.relu(hk.Linear(64)(world))))
        return (h * last).sum(-1) + hk.Linear(1)(jax.nn.relu(hk.Linear(32)(world)))[..., 0]

    of_agents, mixer = (hk.without_apply_rng(hk.transform(function)) for function in (values, mixed))
    optimizer = optax.chain(optax.clip_by_global_norm(10.0), optax.rmsprop(5e-4, decay=0.99, eps=1e-5))

    def update(p, state, slow, number, seen, world, before, done, allowed, reward, over, valid):
        slow_values = of_agents.apply(slow["agents"], seen, before)

        def loss(p):
            now = of_agents.apply(p["agents"], seen, before)
            own = jnp.take_along_axis(now[:-1], done[..., None], -1)[..., 0]
            best = jnp.where(allowed, lax.stop_gradient(now), -1e7).argmax(-1)
            later = jnp.take_along_axis(slow_values[1:], best[1:, ..., None], -1)[..., 0]
            wanted = reward + 0.99 * (1 - over) * mixer.apply(slow["mixer"], later, world[1:])
            apart = (mixer.apply(p["mixer"], own, world[:-1]) - lax.stop_gradient(wanted)) * valid
            return jnp.square(apart).sum() / jnp.maximum(valid.sum(), 1)

        value, gradient = jax.value_and_grad(loss)(p)
        changes, state = optimizer.update(gradient, state, p)
        p = optax.apply_updates(p, changes)
        return p, state, optax.periodic_update(p, slow, number, 200), number + 1, value

    def arguments():
        seen, world, before = floats(moments + 1, b, agents, wide), floats(moments + 1, b, state_size), below(actions, moments + 1, b, agents)
        p = {"agents": shapes(of_agents.init, KEY, seen, before), "mixer": shapes(mixer.init, KEY, floats(moments, b, agents), floats(moments, b, state_size))}
        rest = below(actions, moments, b, agents), np.ones((moments + 1, b, agents, actions), bool), *(floats(moments, b) for _ in range(3))
        return p, shapes(optimizer.init, p), p, np.int32(0), seen, world, before, *rest

    return update, arguments


@step
def rows_alone():
    """Clicks from twelve bags of items each; only the rows that were read change, each at its own pace (row-wise Adagrad, low-rank crosses)."""
    b, bags, most, f, rows = 1024, 12, 6, 32, 300000
    into = (bags + 1) * f

    def net(p, vectors, numbers):
        h = numbers
        for w, bias in p["bottom"]:
            h = jax.nn.relu(h @ w + bias)
        x = first = jnp.concatenate([h, vectors.reshape(b, -1)], -1)
        for u, v, bias in p["cross"]:
            x = first * ((x @ u) @ v + bias) + x
        for i, (w, bias) in enumerate(p["top"]):
            x = x @ w + bias
            x = jax.nn.relu(x) if i < len(p["top"]) - 1 else x
        return x[:, 0]

    optimizer = optax.adagrad(0.01)

    def update(p, state, table, paces, ids, counts, numbers, clicked):
        present = (jnp.arange(most) < counts[..., None])[..., None]
        read = table[ids]

        def loss(p, read):
            vectors = jnp.where(present, read, 0).sum(2) / jnp.maximum(counts, 1)[..., None]
            return optax.sigmoid_binary_cross_entropy(net(p, vectors, numbers), clicked).mean()

        value, (gradient, of_rows) = jax.value_and_grad(loss, (0, 1))(p, read)
        changes, state = optimizer.update(gradient, state, p)
        at, of_rows = ids.reshape(-1), of_rows.reshape(-1, f)
        paces = paces.at[at].add(jnp.square(of_rows).mean(-1))
        table = table.at[at].add(-0.05 * of_rows * lax.rsqrt(paces[at] + 1e-8)[:, None])
        return optax.apply_updates(p, changes), state, table, paces, value

    def arguments():
        layers = lambda *widths: [(floats(i, o), floats(o)) for i, o in zip(widths, widths[1:])]
        p = {
            "bottom": layers(13, 256, 64, f),
            "cross": [(floats(into, 64), floats(64, into), floats(into)) for _ in range(3)],
            "top": layers(into, 512, 256, 1),
        }
        batch = below(rows, b, bags, most), below(most, b, bags), floats(b, 13), floats(b)
        return p, shapes(optimizer.init, p), floats(rows, f), floats(rows), *batch

    return update, arguments


@step
def degrees():
    """What 128 molecules do in 128 tests, some not made: means, maxima, minima and spreads over neighbours, scaled by how many (PNA, jraph)."""
    nodes, edges, molecules, f = 3328, 7168, 129, 80

    class Net(nn.Module):
        @nn.compact
        def __call__(self, atoms, bonds, senders, receivers, owner):
            kinds = lambda table, sizes: sum(nn.Embed(size, f)(table[:, i]) for i, size in enumerate(sizes))
            x = kinds(atoms, (119, 5, 12, 12, 10, 6, 6, 2, 2))
            degree = jraph.segment_sum(jnp.ones(edges), receivers, nodes)
            scale = jnp.log(degree + 1)[:, None] / 1.2
            for _ in range(4):
                e = kinds(bonds, (5, 6, 2))
                message = nn.Dense(f)(jnp.concatenate([x[receivers], x[senders], e], -1))
                mean = jraph.segment_mean(message, receivers, nodes)
                spread = jnp.sqrt(nn.relu(jraph.segment_mean(jnp.square(message), receivers, nodes) - jnp.square(mean)) + 1e-5)
                ends = [jnp.where(degree[:, None] > 0, take(message, receivers, nodes), 0) for take in (jraph.segment_max, jraph.segment_min)]
                all_of_it = jnp.concatenate([mean, *ends, spread], -1)
                scaled = [x, all_of_it, all_of_it * scale, all_of_it / jnp.maximum(scale, 0.5)]
                y = normalised()(nn.Dense(f)(nn.Dense(f)(jnp.concatenate(scaled, -1))))
                x = x + nn.Dropout(0.2, deterministic=False)(nn.relu(y))
            whole = jraph.segment_mean(x, owner, molecules)
            return nn.Dense(128)(nn.relu(nn.Dense(60)(whole)))

    def loss(out, atoms, bonds, senders, receivers, owner, y):
        known = ~jnp.isnan(y) & (jnp.arange(molecules) < molecules - 1)[:, None]
        return jnp.where(known, optax.sigmoid_binary_cross_entropy(out, jnp.where(known, y, 0)), 0).sum() / known.sum()

    batch = below(2, nodes, 9), below(2, edges, 3), below(nodes, edges), below(nodes, edges), below(molecules, nodes), floats(molecules, 128)
    return flax_step(Net(), loss, optax.adamw(5e-4, weight_decay=3e-6), *batch, inputs=5)


@step
def bases():
    """What 531 experiments read along 4096 bases: convolutions, pools with weights, attention that knows distances, counts (Enformer, bf16)."""
    f, heads, of_key, kinds = 384, 4, 32, 24
    policy = jmp.get_policy("p=f32,c=bf16,o=bf16")
    for module in (hk.Linear, hk.Conv1D):
        hk.mixed_precision.set_policy(module, policy)

    class Norm(hk.Module):
        def __call__(self, x):
            return hk.BatchNorm(True, True, 0.9)(x.astype(jnp.float32), True).astype(HALF)

    gelu = lambda x: x * jax.nn.sigmoid(1.702 * x)
    block = lambda x, width, size: hk.Conv1D(width, size)(gelu(Norm()(x)))

    def pooled(x):
        pairs = x.reshape(len(x), -1, 2, x.shape[-1])
        logits = hk.Linear(x.shape[-1], with_bias=False, w_init=hk.initializers.Identity(2.0))(pairs)
        return (pairs * jax.nn.softmax(logits.astype(jnp.float32), 2).astype(HALF)).sum(2)

    def places(t):
        away = np.arange(-t + 1, t)
        halves = np.exp2(np.linspace(3, np.log2(t), kinds // 4))
        told = np.concatenate([np.exp(-np.log(2) * np.abs(away)[:, None] / halves), np.abs(away)[:, None] <= 2.0 ** np.arange(1, kinds // 4 + 1)], -1)
        return jnp.asarray(np.concatenate([told, np.sign(away)[:, None] * told], -1), HALF)

    def attended(x):
        b, t, _ = x.shape
        q, k = (hk.Linear(heads * of_key, with_bias=False)(x).reshape(b, t, heads, of_key) for _ in range(2))
        v = hk.Linear(f, with_bias=False)(x).reshape(b, t, heads, f // heads)
        far = hk.Linear(heads * of_key, with_bias=False)(places(t)).reshape(2 * t - 1, heads, of_key)
        of_word, of_place = (hk.get_parameter(name, (heads, of_key), init=hk.initializers.RandomNormal()).astype(HALF) for name in ("word", "place"))
        q = q * of_key**-0.5
        by_place = jnp.pad(jnp.einsum("bihd,jhd->bhij", q + of_place, far), ((0, 0), (0, 0), (0, 0), (1, 0)))
        by_place = by_place.reshape(b, heads, 2 * t, t)[:, :, 1:].reshape(b, heads, t, 2 * t - 1)[..., :t]
        scores = jnp.einsum("bihd,bjhd->bhij", q + of_word, k) + by_place
        weights = hk.dropout(hk.next_rng_key(), 0.05, jax.nn.softmax(scores.astype(jnp.float32))).astype(HALF)
        return hk.Linear(f)(jnp.einsum("bhij,bjhd->bihd", weights, v).reshape(b, t, f))

    def net(x):
        x = hk.Conv1D(192, 15)(x)
        x = pooled(x + block(x, 192, 1))
        for width in (224, 256, 320, 384):
            x = block(x, width, 5)
            x = pooled(x + block(x, width, 1))
        norm = lambda x: hk.LayerNorm(-1, True, True)(x.astype(jnp.float32)).astype(HALF)
        for _ in range(3):
            x = x + hk.dropout(hk.next_rng_key(), 0.4, attended(norm(x)))
            y = hk.dropout(hk.next_rng_key(), 0.4, jax.nn.relu(hk.Linear(2 * f)(norm(x))))
            x = x + hk.dropout(hk.next_rng_key(), 0.4, hk.Linear(f)(y))
        x = gelu(hk.dropout(hk.next_rng_key(), 0.05, block(x[:, 8:-8], 768, 1)))
        return jax.nn.softplus(hk.Linear(531)(x).astype(jnp.float32))

    def loss(out, x, y):
        return (out - y * jnp.log(out + 1e-6)).mean()

    optimizer = optax.chain(optax.clip_by_global_norm(0.2), optax.adam(optax.linear_schedule(0, 5e-4, 5000)))
    return haiku_step(net, loss, optimizer, floats(4, 4096, 4), floats(4, 112, 531))


@step
def separated_speakers():
    """Two voices out of one sound, whichever comes first: dilated depthwise convolutions give masks of learnt filters (Conv-TasNet)."""
    filters, narrow, wide = 256, 128, 256

    class Norm(nn.Module):
        @nn.compact
        def __call__(self, x):
            gain, bias = (self.param(n, nn.initializers.constant(v), (x.shape[-1],)) for n, v in (("gain", 1.0), ("bias", 0.0)))
            mean, variance = x.mean((1, 2), keepdims=True), x.var((1, 2), keepdims=True)
            return (x - mean) * lax.rsqrt(variance + 1e-8) * gain + bias

    class Net(nn.Module):
        @nn.compact
        def __call__(self, sound):
            w = nn.relu(nn.Conv(filters, (16,), (8,), padding="VALID", use_bias=False)(sound[..., None]))
            x, skips = nn.Dense(narrow)(Norm()(w)), 0
            for dilation in (1, 2, 4, 8, 16, 32) * 2:
                y = Norm()(nn.PReLU()(nn.Dense(wide)(x)))
                y = nn.Conv(wide, (3,), kernel_dilation=(dilation,), feature_group_count=wide)(y)
                y = Norm()(nn.PReLU()(y))
                skips = skips + nn.Dense(narrow)(y)
                x = x + nn.Dense(narrow)(y)
            masks = nn.sigmoid(nn.Dense(2 * filters)(nn.PReLU()(skips)))
            masked = w[:, :, None] * masks.reshape(*w.shape[:2], 2, filters)
            masked = masked.transpose(0, 2, 1, 3).reshape(-1, w.shape[1], filters)
            out = nn.ConvTranspose(1, (16,), (8,), padding="VALID", use_bias=False)(masked)
            return out.reshape(len(sound), 2, -1)

    def decibels(found, wanted):
        found, wanted = (a - a.mean(-1, keepdims=True) for a in (found, wanted))
        along = (found * wanted).sum(-1, keepdims=True) * wanted / (jnp.square(wanted).sum(-1, keepdims=True) + 1e-8)
        return 10 * jnp.log10(jnp.square(along).sum(-1) / (jnp.square(found - along).sum(-1) + 1e-8) + 1e-8)

    def loss(out, sound, voices):
        pairs = decibels(out[:, :, None], voices[:, None])
        return -jnp.maximum(pairs[:, 0, 0] + pairs[:, 1, 1], pairs[:, 0, 1] + pairs[:, 1, 0]).mean() / 2

    optimizer = optax.chain(optax.clip_by_global_norm(5.0), optax.adam(1e-3))
    return flax_step(Net(), loss, optimizer, floats(4, 16000), floats(4, 2, 16000))


@step
def stretched_letters():
    """A spectrogram from letters that are repeated for as long as each sounds; length, pitch and energy are guessed, too (FastSpeech 2)."""
    f, letters, frames = 256, 80, 400

    class Layer(nn.Module):
        @nn.compact
        def __call__(self, x, mask):
            drop = nn.Dropout(0.2, deterministic=False)
            x = nn.LayerNorm()(x + drop(nn.MultiHeadDotProductAttention(2)(x, mask=mask[:, None, None])))
            y = nn.Conv(f, (1,))(nn.relu(nn.Conv(1024, (9,))(x)))
            return nn.LayerNorm()(x + drop(y)) * mask[..., None]

    class Guess(nn.Module):
        @nn.compact
        def __call__(self, x):
            for _ in range(2):
                x = nn.Dropout(0.5, deterministic=False)(nn.LayerNorm()(nn.relu(nn.Conv(f, (3,))(x))))
            return nn.Dense(1)(x)[..., 0]

    def waves(t):
        angle = np.arange(t)[:, None] / 10000 ** (np.arange(0, f, 2) / f)
        return np.concatenate([np.sin(angle), np.cos(angle)], -1).astype(np.float32)

    class Net(nn.Module):
        @nn.compact
        def __call__(self, text, speaker, lengths, pitch, energy):
            mask = text > 0
            x = nn.Embed(76, f)(text) + waves(letters)
            for _ in range(3):
                x = Layer()(x, mask)
            x = x + nn.Embed(247, f)(speaker)[:, None]
            guesses = [Guess()(x) for _ in range(3)]
            for values in (pitch, energy):
                x = x + nn.Embed(256, f)(jnp.digitize(values, jnp.linspace(-3, 3, 255)))
            ends = jnp.cumsum(lengths, 1)
            which = jax.vmap(lambda e: jnp.searchsorted(e, jnp.arange(frames), side="right"))(ends)
            heard = jnp.arange(frames) < ends[:, -1:]
            x = jnp.take_along_axis(x, jnp.minimum(which, letters - 1)[..., None], 1) * heard[..., None] + waves(frames)
            for _ in range(3):
                x = Layer()(x, heard)
            coarse = y = nn.Dense(80)(x)
            for i in range(3):
                y = normalised()(nn.Conv(80 if i == 2 else 256, (5,))(y))
                y = nn.Dropout(0.5, deterministic=False)(y if i == 2 else nn.tanh(y))
            return coarse, coarse + y, guesses, mask, heard

    def loss(out, text, speaker, lengths, pitch, energy, wanted):
        coarse, fine, guesses, mask, heard = out
        over = lambda values, mask: jnp.where(mask, values, 0).sum() / jnp.maximum(mask.sum(), 1)
        total = sum(over(jnp.abs(y - wanted).mean(-1), heard) for y in (coarse, fine))
        for guess, value in zip(guesses, (jnp.log(lengths + 1.0), pitch, energy)):
            total = total + over(jnp.square(guess - value), mask)
        return total

    rate = lambda count: f**-0.5 * jnp.minimum((count + 1.0) ** -0.5, (count + 1.0) * 4000**-1.5)
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(rate, b2=0.98, eps=1e-9))
    batch = below(76, 16, letters), below(247, 16), below(10, 16, letters), floats(16, letters), floats(16, letters), floats(16, frames, 80)
    return flax_step(Net(), loss, optimizer, *batch, inputs=5)


@step
def restored():
    """Photos without their noise by blocks that know no activation but products of halves (NAFNet, equinox; the channels come first)."""

    class Norm(eqx.Module):
        gain: jax.Array
        bias: jax.Array

        def __init__(self, f):
            self.gain, self.bias = jnp.ones((f, 1, 1)), jnp.zeros((f, 1, 1))

        def __call__(self, x):
            mean, variance = x.mean(0, keepdims=True), x.var(0, keepdims=True)
            return (x - mean) / jnp.sqrt(variance + 1e-6) * self.gain + self.bias

    class Block(eqx.Module):
        norms: list
        convs: list
        depthwise: eqx.nn.Conv2d
        channels: eqx.nn.Conv2d
        scales: list

        def __init__(self, f, key):
            k = jax.random.split(key, 6)
            pointwise = lambda i, o, k: eqx.nn.Conv2d(i, o, 1, key=k)
            self.norms = [Norm(f), Norm(f)]
            self.convs = [pointwise(f, 2 * f, k[0]), pointwise(f, f, k[1]), pointwise(f, 2 * f, k[2]), pointwise(f, f, k[3])]
            self.depthwise = eqx.nn.Conv2d(2 * f, 2 * f, 3, padding=1, groups=2 * f, key=k[4])
            self.channels = pointwise(f, f, k[5])
            self.scales = [jnp.zeros((f, 1, 1)), jnp.zeros((f, 1, 1))]

        def __call__(self, x):
            a, b = jnp.split(self.depthwise(self.convs[0](self.norms[0](x))), 2)
            y = a * b
            y = y * self.channels(y.mean((1, 2), keepdims=True))
            x = x + self.convs[1](y) * self.scales[0]
            a, b = jnp.split(self.convs[2](self.norms[1](x)), 2)
            return x + self.convs[3](a * b) * self.scales[1]

    class Net(eqx.Module):
        ends: list
        down: list
        up: list
        blocks: list

        def __init__(self, key):
            k = iter(jax.random.split(key, 16))
            widths = 32, 64, 128
            self.ends = [eqx.nn.Conv2d(3, 32, 3, padding=1, key=next(k)), eqx.nn.Conv2d(32, 3, 3, padding=1, key=next(k))]
            self.down = [eqx.nn.Conv2d(f, 2 * f, 2, 2, key=next(k)) for f in widths[:2]]
            self.up = [eqx.nn.Conv2d(2 * f, 4 * f, 1, use_bias=False, key=next(k)) for f in widths[:2]]
            self.blocks = [Block(f, next(k)) for f in (32, 64, 128, 128, 64, 32)]

        def __call__(self, x):
            y = self.ends[0](x)
            y = one = self.blocks[0](y)
            y = two = self.blocks[1](self.down[0](y))
            y = self.blocks[3](self.blocks[2](self.down[1](y)))
            for i, skip in ((1, two), (0, one)):
                y = self.up[i](y)
                f, h, w = y.shape
                y = y.reshape(f // 4, 2, 2, h, w).transpose(0, 3, 1, 4, 2).reshape(f // 4, 2 * h, 2 * w)
                y = self.blocks[5 - i](y + skip)
            return x + self.ends[1](y)

    net = eqx.filter_eval_shape(Net, KEY)
    optimizer = optax.adamw(optax.cosine_decay_schedule(1e-3, 200000), b2=0.9)
    p, rest = eqx.partition(net, lambda leaf: isinstance(leaf, jax.ShapeDtypeStruct))

    def update(p, state, noisy, clean):
        def loss(p):
            apart = jnp.square(jax.vmap(eqx.combine(p, rest))(noisy) - clean).mean((1, 2, 3))
            return 10 / np.log(10) * jnp.log(apart + 1e-8).mean()

        value, gradient = eqx.filter_value_and_grad(loss)(p)
        changes, state = optimizer.update(gradient, state, p)
        return eqx.apply_updates(p, changes), state, value

    return update, lambda: (p, shapes(optimizer.init, p), floats(4, 3, 128, 128), floats(4, 3, 128, 128))


@step
def patches_in_turn():
    """Thirty-seven breeds by convolutions whose pixels at the same place of each 2x2 patch attend to each other (MobileViT, Keras, mixed_bfloat16)."""
    import keras

    layers = keras.layers
    keras.config.set_dtype_policy("mixed_bfloat16")

    def conv(x, f, size=3, stride=1, act=True):
        x = layers.BatchNormalization(momentum=0.9)(layers.Conv2D(f, size, stride, padding="same", use_bias=False)(x))
        return layers.Activation("silu")(x) if act else x

    def narrow(x, f, stride=1):
        y = layers.DepthwiseConv2D(3, stride, padding="same", use_bias=False)(conv(x, 2 * x.shape[-1], 1))
        y = conv(layers.Activation("silu")(layers.BatchNormalization(momentum=0.9)(y)), f, 1, act=False)
        return layers.Add()([x, y]) if stride == 1 and x.shape[-1] == f else y

    def patches(x, f, depth):
        h, w, c = x.shape[1:]
        y = layers.Conv2D(f, 1, use_bias=False)(conv(x, c))
        y = layers.Reshape((h // 2, 2, w // 2, 2, f))(y)
        y = layers.Reshape((4, h * w // 4, f))(layers.Permute((2, 4, 1, 3, 5))(y))
        for _ in range(depth):
            a = layers.LayerNormalization(epsilon=1e-5)(y)
            y = layers.Add()([y, layers.MultiHeadAttention(4, f // 4, dropout=0.1, attention_axes=2)(a, a)])
            a = layers.Dense(2 * f, activation="silu")(layers.LayerNormalization(epsilon=1e-5)(y))
            y = layers.Add()([y, layers.Dropout(0.1)(layers.Dense(f)(a))])
        y = layers.Reshape((2, 2, h // 2, w // 2, f))(layers.LayerNormalization(epsilon=1e-5)(y))
        y = layers.Reshape((h, w, f))(layers.Permute((3, 1, 4, 2, 5))(y))
        return conv(layers.Concatenate()([x, conv(y, c, 1)]), c)

    inputs = keras.Input((128, 128, 3))
    x = conv(layers.Rescaling(1 / 255)(inputs), 16, stride=2)
    x = narrow(narrow(x, 32), 48, 2)
    x = patches(narrow(narrow(x, 48), 64, 2), 96, 2)
    x = patches(narrow(x, 80, 2), 128, 2)
    x = layers.GlobalAveragePooling2D()(conv(x, 320, 1))
    model = keras.Model(inputs, layers.Dense(37, dtype="float32")(layers.Dropout(0.1)(x)))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    optimizer = keras.optimizers.AdamW(keras.optimizers.schedules.CosineDecay(2e-3, 30000), weight_decay=0.01, use_ema=True, ema_momentum=0.999)
    return keras_step(model, loss, optimizer, floats(32, 128, 128, 3), below(37, 32))


@step
def occupied_voxels():
    """Kinds of 4096 places that a laser met: convolutions of what is occupied alone, neighbours read by a table, fewer places and back (sparse U-Net)."""
    fine, coarse = 4096, 1100

    class Conv(hk.Module):
        def __init__(self, f):
            super().__init__()
            self.f = f

        def __call__(self, x, table):
            offsets = table.shape[1]
            w = hk.get_parameter("w", (offsets, x.shape[-1], self.f), init=hk.initializers.VarianceScaling(2.0))
            read = jnp.concatenate([x, jnp.zeros((1, x.shape[-1]))])[table]
            return jnp.einsum("nkc,kcf->nf", read, w)

    def normed(x):
        return jax.nn.relu(hk.BatchNorm(True, True, 0.9)(x, True))

    def block(x, table, f):
        y = hk.BatchNorm(True, True, 0.9)(Conv(f)(normed(Conv(f)(x, table)), table), True)
        return jax.nn.relu(y + (x if x.shape[-1] == f else hk.Linear(f, with_bias=False)(x)))

    def net(x, near, coarse_near, children, parent):
        x = skip = block(hk.Linear(32)(x), near, 32)
        x = normed(Conv(64)(x, children))
        x = block(x, coarse_near, 64)
        x = hk.dropout(hk.next_rng_key(), 0.3, normed(hk.Linear(64, with_bias=False)(x)))
        x = jnp.concatenate([x[parent], skip], -1)
        x = normed(Conv(32)(x, near))
        return hk.Linear(19)(x)

    def loss(out, x, near, coarse_near, children, parent, y):
        weight = jnp.linspace(0.5, 2.0, 20)[jnp.minimum(y, 19)] * (y < 19)
        each = optax.softmax_cross_entropy_with_integer_labels(out, jnp.minimum(y, 18))
        return (weight * each).sum() / jnp.maximum(weight.sum(), 1e-6)

    tables = below(fine + 1, fine, 27), below(coarse + 1, coarse, 27), below(fine + 1, coarse, 8), below(coarse, fine)
    optimizer = optax.chain(optax.add_decayed_weights(1e-4), optax.sgd(optax.polynomial_schedule(0.24, 0.0, 0.9, 60000), 0.9, nesterov=True))
    return haiku_step(net, loss, optimizer, floats(fine, 4), *tables, below(20, fine), inputs=5)


@step
def mean_velocities():
    """How far noise goes on average between any two moments, told by its own slope along the way: images in one step (MeanFlow, forward derivatives)."""
    f, heads, side, channels = 256, 4, 16, 4

    def waves(t):
        angle = 1000 * t[:, None] * jnp.exp(-jnp.arange(64) * np.log(10000) / 64)
        return jnp.concatenate([jnp.cos(angle), jnp.sin(angle)], -1)

    class Layer(nn.Module):
        @nn.compact
        def __call__(self, x, c):
            zeros = nn.initializers.zeros
            shift, scale, gate, other_shift, other_scale, other_gate = jnp.split(nn.Dense(6 * f, kernel_init=zeros)(nn.silu(c))[:, None], 6, -1)
            norm = lambda y, shift, scale: nn.LayerNorm(use_bias=False, use_scale=False)(y) * (1 + scale) + shift
            y = norm(x, shift, scale)
            q, k, v = (nn.DenseGeneral((heads, f // heads))(y) for _ in range(3))
            weights = nn.softmax(jnp.einsum("bqhd,bkhd->bhqk", q, k) * (f // heads) ** -0.5)
            x = x + gate * nn.DenseGeneral(f, (-2, -1))(jnp.einsum("bhqk,bkhd->bqhd", weights, v))
            y = nn.Dense(f)(nn.gelu(nn.Dense(4 * f)(norm(x, other_shift, other_scale))))
            return x + other_gate * y, None

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x, r, t, kind):
            b = len(x)
            h = nn.Conv(f, (2, 2), (2, 2))(x).reshape(b, -1, f)
            h = h + self.param("places", nn.initializers.normal(0.02), (h.shape[1], f))
            told = lambda t: nn.Dense(f)(nn.silu(nn.Dense(f)(waves(t))))
            c = told(t) + told(t - r) + nn.Embed(101, f)(kind)
            h, _ = nn.scan(Layer, variable_axes={"params": 0}, split_rngs={"params": True}, in_axes=nn.broadcast, length=6)()(h, c)
            shift, scale = jnp.split(nn.Dense(2 * f)(nn.silu(c))[:, None], 2, -1)
            h = nn.Dense(4 * channels)(nn.LayerNorm(use_bias=False, use_scale=False)(h) * (1 + scale) + shift)
            return h.reshape(b, side // 2, side // 2, 2, 2, channels).transpose(0, 1, 3, 2, 4, 5).reshape(x.shape)

    model, optimizer = Net(), optax.adam(1e-4, b2=0.95)

    def update(p, state, slow, key, images, kinds):
        b = len(images)
        k = jax.random.split(key, 4)
        noise = jax.random.normal(k[0], images.shape)
        both = jax.nn.sigmoid(jax.random.normal(k[1], (2, b)) - 0.4)
        t, r = both.max(0), both.min(0)
        r = jnp.where(jax.random.bernoulli(k[2], 0.75, (b,)), t, r)
        kinds = jnp.where(jax.random.bernoulli(k[3], 0.1, kinds.shape), 100, kinds)
        wide = lambda t: t[:, None, None, None]
        mixed, velocity = (1 - wide(t)) * images + wide(t) * noise, noise - images

        def loss(p):
            ways = velocity, jnp.zeros(b), jnp.ones(b)
            mean, slope = jax.jvp(lambda x, r, t: model.apply(p, x, r, t, kinds), (mixed, r, t), ways)
            apart = jnp.square(mean - lax.stop_gradient(velocity - wide(t - r) * slope)).sum((1, 2, 3))
            return (apart / lax.stop_gradient(apart + 1e-3)).mean(), apart.mean()

        (_, value), gradient = jax.value_and_grad(loss, has_aux=True)(p)
        changes, state = optimizer.update(gradient, state, p)
        p = optax.apply_updates(p, changes)
        return p, state, optax.incremental_update(p, slow, 1e-4), value

    def arguments():
        images, kinds = floats(64, side, side, channels), below(100, 64)
        p = shapes(model.init, KEY, images, floats(64), floats(64), kinds)
        return p, shapes(optimizer.init, p), p, A_KEY, images, kinds

    return update, arguments


@step
def electrons():
    """The least energy of boron's five electrons: 512 walkers, determinants of a net, its Laplacian by forward derivatives (FermiNet)."""
    charge, up, walkers, f, pairs, determinants = 5.0, 3, 512, 128, 16, 8

    def apart(x):
        eye = jnp.eye(5)[..., None]
        away = x[:, None] - x[None]
        return away, jnp.sqrt(jnp.square(away + eye).sum(-1, keepdims=True)) * (1 - eye)

    def log_wave(p, x):
        far = jnp.sqrt(jnp.square(x).sum(-1, keepdims=True))
        one, two = jnp.concatenate([x, far], -1), jnp.concatenate(apart(x), -1)
        for layer in p["layers"]:
            means = [one[:up].mean(0), one[up:].mean(0)]
            told = [one, *(jnp.broadcast_to(m, (5, len(m))) for m in means), two[:, :up].mean(1), two[:, up:].mean(1)]
            y = jnp.tanh(jnp.concatenate(told, -1) @ layer["w"] + layer["b"])
            z = jnp.tanh(two @ layer["v"] + layer["c"])
            one, two = (new + old if new.shape == old.shape else new for new, old in ((y, one), (z, two)))
        total = 1
        for name, spin in (("up", slice(0, up)), ("down", slice(up, 5))):
            q, n = p[name], len(range(5)[spin])
            orbitals = (one[spin] @ q["w"] + q["b"]) * jnp.exp(-jax.nn.softplus(q["decay"]) * far[spin]) * q["weight"]
            total = total * jnp.linalg.det(orbitals.reshape(n, determinants, n).swapaxes(0, 1))
        return jnp.log(jnp.abs((total * p["mix"]).sum()) + 1e-20)

    def energy(p, x):
        slope = jax.grad(lambda flat: log_wave(p, flat.reshape(5, 3)))
        flat = x.reshape(-1)

        def of_one(total, way):
            first, second = jax.jvp(slope, (flat,), (way,))
            return total + second @ way + (first @ way) ** 2, None

        kinetic, _ = lax.scan(of_one, 0.0, jnp.eye(15))
        _, between = apart(x)
        others = jnp.triu(1 / (between[..., 0] + jnp.eye(5)), 1).sum()
        return -kinetic / 2 - (charge / jnp.sqrt(jnp.square(x).sum(-1))).sum() + others

    batched = jax.vmap(log_wave, (None, 0))
    optimizer = optax.chain(optax.scale_by_adam(), optax.scale_by_schedule(lambda count: -1e-3 / (1 + count / 10000)))

    def update(p, state, x, width, key):
        def walk(carry, key):
            x, now = carry
            a, b = jax.random.split(key)
            there = x + width * jax.random.normal(a, x.shape)
            new = batched(p, there)
            goes = jnp.log(jax.random.uniform(b, now.shape)) < 2 * (new - now)
            return (jnp.where(goes[:, None, None], there, x), jnp.where(goes, new, now)), goes.mean()

        (x, _), went = lax.scan(walk, (x, batched(p, x)), jax.random.split(key, 10))
        energies = jax.vmap(energy, (None, 0))(p, x)
        middle = jnp.median(energies)
        spread = jnp.abs(energies - middle).mean()
        clipped = jnp.clip(energies, middle - 5 * spread, middle + 5 * spread)
        weight = 2 * (clipped - clipped.mean())
        gradient = jax.grad(lambda p: (weight * batched(p, x)).mean())(p)
        changes, state = optimizer.update(gradient, state)
        width = jnp.where(went.mean() > 0.5, width * 1.1, width / 1.1)
        return optax.apply_updates(p, changes), state, x, width, energies.mean(), energies.var()

    def arguments():
        layers, one, two = [], 4, 4
        for _ in range(4):
            layers.append({"w": floats(3 * one + 2 * two, f), "b": floats(f), "v": floats(two, pairs), "c": floats(pairs)})
            one, two = f, pairs
        p = {"layers": layers, "mix": floats(determinants)}
        for name, n in (("up", up), ("down", 5 - up)):
            wide = n * determinants
            p[name] = {"w": floats(f, wide), "b": floats(wide), "decay": floats(wide), "weight": floats(wide)}
        return p, shapes(optimizer.init, p), floats(walkers, 5, 3), floats(), A_KEY

    return update, arguments


if __name__ == "__main__":
    print_named(STEPS, STEPS.stablehlo, __doc__)
