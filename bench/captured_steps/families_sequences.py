"""Families of sequence and graph models in plain JAX: caches, rotary and relative positions, routing, recurrences, alignment."""

import jax
import jax.numpy as jnp
import numpy as np

from declare import cross_entropy, dense, dense_weights, integers, normal, step, trained

LOOKED_AT = True


def kernel(*shape, seed=4):
    return normal(*shape, seed=seed, scale=float(1 / np.sqrt(np.prod(shape[:-1]))))


def rms(x, scale):
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * scale


def rotary(x, places):
    half = x.shape[-1] // 2
    angles = places[:, None] * 10000.0 ** (-jnp.arange(half) / half)
    sine, cosine = jnp.sin(angles), jnp.cos(angles)
    a, b = x[..., :half], x[..., half:]
    return jnp.concatenate([a * cosine - b * sine, a * sine + b * cosine], -1)


@step(lambda: (kernel(64, 96), kernel(32, 64, seed=5), normal(2, 2, 32, 16), normal(2, 2, 32, 16, seed=6), normal(2, 1, 64, seed=7), np.int32(9)))
def decode_with_cache(qkv, out, keys, values, x, place):
    """One token of a decoder: the cache is updated in place, attention is masked by the position."""
    q, k, v = jnp.split((x @ qkv).reshape(2, 1, 3, 2, 16).transpose(2, 0, 3, 1, 4), 3)
    q, k = rotary(q[0], place[None]), rotary(k[0], place[None])
    keys = jax.lax.dynamic_update_slice(keys, k, (0, 0, place, 0))
    values = jax.lax.dynamic_update_slice(values, v[0], (0, 0, place, 0))
    scores = jnp.where(jnp.arange(32) <= place, q @ keys.mT / 4, -1e9)
    y = (jax.nn.softmax(scores) @ values).swapaxes(1, 2).reshape(2, 1, 32) @ out
    return keys, values, y


@step(lambda: (kernel(48, 96), kernel(24, 48, seed=2), normal(40, 48), normal(2, 40, 2, 16, 12), np.zeros((2, 12), np.int32)))
def generate_by_scan(wide, narrow, table, cache, tokens):
    """Greedy generation: argmax feeds the next step of a scan, with a state of counters."""
    def one(state, _):
        token, h = state
        gates = jnp.concatenate([table[token], h], -1) @ jnp.concatenate([wide[:, :48], wide[:24, 48:].repeat(1, 0)], 0)[:72]
        h = jnp.tanh(gates[:, :24])
        logits = h @ narrow @ table.T
        token = jnp.argmax(logits, -1).astype(jnp.int32)
        return (token, h), token

    (last, h), tokens = jax.lax.scan(one, (tokens[:, 0], jnp.zeros((2, 24))), None, length=12)
    return last, h, tokens.T, cache.sum((1, 3))


def relative_bias(w, x, target):
    """T5: buckets of distances choose a bias from a table."""
    length = x.shape[1]
    apart = jnp.arange(length)[None] - jnp.arange(length)[:, None]
    near = jnp.abs(apart) < 4
    far = 4 + (jnp.log(jnp.maximum(jnp.abs(apart), 1) / 4) / np.log(8) * 4).astype(jnp.int32)
    bucket = jnp.where(apart > 0, 8, 0) + jnp.where(near, jnp.abs(apart), jnp.minimum(far, 7))
    q, k, v = (jnp.einsum("btc,chd->bhtd", rms(x, w["scale"]), w[n]) for n in "qkv")
    scores = q @ k.mT + w["table"][bucket].transpose(2, 0, 1)
    y = jnp.einsum("bhtd,hdc->btc", jax.nn.softmax(scores) @ v, w["out"])
    return jnp.mean((x + y - target) ** 2)


step(
    lambda: (
        {"scale": np.ones(32, np.float32), "q": kernel(32, 4, 8), "k": kernel(32, 4, 8, seed=5), "v": kernel(32, 4, 8, seed=6),
         "out": kernel(4, 8, 32, seed=7), "table": normal(16, 4)},
        normal(2, 24, 32), normal(2, 24, 32, seed=9),
    ), "relative_bias",
)(trained(relative_bias))


def routed(w, x, target):
    """Experts by top 2, one-hot dispatch with a capacity, the auxiliary loss of a balanced load."""
    gates = jax.nn.softmax(x @ w["gate"])
    best, which = jax.lax.top_k(gates, 2)
    best = best / best.sum(-1, keepdims=True)
    chosen = jax.nn.one_hot(which, 4)
    place = (jnp.cumsum(chosen.reshape(-1, 4), 0).reshape(chosen.shape) - 1) * chosen
    slot = jax.nn.one_hot(jnp.sum(place, -1).astype(jnp.int32), 20) * (place.sum(-1) < 20)[..., None]
    dispatch = jnp.einsum("tke,tkc->tec", chosen, slot)
    combine = jnp.einsum("tke,tkc,tk->tec", chosen, slot, best)
    inside = jnp.einsum("tec,td->ecd", dispatch, x)
    outside = jnp.einsum("ech,ehd->ecd", jax.nn.gelu(jnp.einsum("ecd,edh->ech", inside, w["wide"])), w["narrow"])
    y = jnp.einsum("tec,ecd->td", combine, outside)
    balance = 4 * jnp.sum(gates.mean(0) * chosen[:, 0].mean(0))
    return jnp.mean((y - target) ** 2) + 0.01 * balance


step(
    lambda: ({"gate": kernel(16, 4), "wide": kernel(4, 16, 32, seed=2), "narrow": kernel(4, 32, 16, seed=3)}, normal(32, 16), normal(32, 16, seed=8)),
    "experts_by_top_k",
)(trained(routed))


def lstm_cell(w, state, x):
    h, c = state
    i, f, g, o = jnp.split(x @ w["in"] + h @ w["state"] + w["bias"], 4, -1)
    c = jax.nn.sigmoid(f + 1) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
    h = jax.nn.sigmoid(o) * jnp.tanh(c)
    return (h, c), h


def both_ways(w, tokens, labels):
    x = w["table"][tokens].swapaxes(0, 1)
    zero = (jnp.zeros((x.shape[1], 16)),) * 2
    _, ahead = jax.lax.scan(lambda s, x: lstm_cell(w["ahead"], s, x), zero, x)
    _, back = jax.lax.scan(lambda s, x: lstm_cell(w["back"], s, x), zero, x, reverse=True)
    y = jnp.concatenate([ahead, back], -1).swapaxes(0, 1)
    return cross_entropy((y @ w["head"]).reshape(-1, 7), labels.reshape(-1))


def both_ways_weights():
    cell = lambda seed: {"in": kernel(12, 64, seed=seed), "state": kernel(16, 64, seed=seed + 1), "bias": np.zeros(64, np.float32)}
    return {"table": normal(50, 12), "ahead": cell(3), "back": cell(6), "head": kernel(32, 7)}


step(lambda: (both_ways_weights(), integers(50, 4, 14), integers(7, 4, 14)), "lstm_both_ways")(trained(both_ways))


def conditional_field(w, x, tags):
    """Linear-chain CRF: forward algorithm against the score of the given tags."""
    scores = x @ w["emit"]

    def one(alpha, s):
        return jax.nn.logsumexp(alpha[:, :, None] + w["move"], 1) + s, None

    alpha, _ = jax.lax.scan(one, scores[:, 0], scores.swapaxes(0, 1)[1:])
    picked = jnp.take_along_axis(scores, tags[..., None], -1).sum((1, 2)) + w["move"][tags[:, :-1], tags[:, 1:]].sum(1)
    return jnp.mean(jax.nn.logsumexp(alpha, 1) - picked)


step(lambda: ({"emit": kernel(16, 5), "move": normal(5, 5)}, normal(4, 12, 16), integers(5, 4, 12)), "crf_forward")(trained(conditional_field))


@step(lambda: (normal(12, 5), normal(5, 5, seed=3)))
def viterbi(scores, move):
    def one(best, s):
        through = best[:, None] + move
        return through.max(0) + s, through.argmax(0)

    best, back = jax.lax.scan(one, scores[0], scores[1:])
    last = best.argmax()
    _, path = jax.lax.scan(lambda tag, b: (b[tag], tag), last, back, reverse=True)
    return best, path, last


def graph_attention(w, nodes, senders, receivers, target):
    h = nodes @ w["in"]
    logits = jax.nn.leaky_relu((h[senders] * w["from"]).sum(-1) + (h[receivers] * w["to"]).sum(-1))
    largest = jax.ops.segment_max(logits, receivers, 24)
    e = jnp.exp(logits - jax.lax.stop_gradient(largest)[receivers])
    share = e / (jax.ops.segment_sum(e, receivers, 24)[receivers] + 1e-9)
    y = jax.ops.segment_sum(h[senders] * share[:, None], receivers, 24)
    return jnp.mean((jax.nn.elu(y) - target) ** 2)


step(
    lambda: (
        {"in": kernel(12, 16), "from": normal(16), "to": normal(16, seed=2)},
        normal(24, 12), integers(24, 70), integers(24, 70, seed=5), normal(24, 16, seed=6),
    ), "graph_attention",
)(trained(graph_attention))


def message_passing(w, nodes, edges, senders, receivers, graph, target):
    def one(h, _):
        message = dense(w["message"], jnp.concatenate([h[senders], h[receivers], edges], -1))
        total = jnp.zeros_like(h).at[receivers].add(message)
        gate = jax.nn.sigmoid(jnp.concatenate([h, total], -1) @ w["gate"])
        return gate * h + (1 - gate) * total, None

    h, _ = jax.lax.scan(one, nodes, None, length=3)
    count = jax.ops.segment_sum(jnp.ones(h.shape[0]), graph, 3)
    pooled = jax.ops.segment_sum(h, graph, 3) / count[:, None]
    return jnp.mean((pooled @ w["head"] - target) ** 2)


step(
    lambda: (
        {"message": dense_weights(36, 32, 16), "gate": kernel(32, 16), "head": kernel(16, 2)},
        normal(20, 16), normal(50, 4, seed=2), integers(20, 50), integers(20, 50, seed=3), np.sort(integers(3, 20, seed=4)), normal(3, 2),
    ), "message_passing",
)(trained(message_passing))


def fourier_mixer(w, x, target):
    """FNet: the mixing is the real part of a transform along both dimensions."""
    y = x + jnp.fft.fft2(x, axes=(1, 2)).real / 16
    y = jax.nn.standardize(y, -1)
    y = y + jax.nn.gelu(y @ w["wide"]) @ w["narrow"]
    return jnp.mean((y - target) ** 2)


step(lambda: ({"wide": kernel(32, 64), "narrow": kernel(64, 32, seed=5)}, normal(2, 16, 32), normal(2, 16, 32, seed=3)), "fourier_mixer")(
    trained(fourier_mixer)
)


def long_convolution(w, x, target):
    """Hyena and S4: a convolution as long as the sequence, by real transforms."""
    length = x.shape[1]
    filters = w["filter"] * jnp.exp(-jnp.arange(length) / 8.0)[:, None]
    y = jnp.fft.irfft(jnp.fft.rfft(x, 2 * length, axis=1) * jnp.fft.rfft(filters, 2 * length, axis=0), 2 * length, axis=1)[:, :length]
    return jnp.mean(((y * jax.nn.silu(x @ w["gate"])) @ w["out"] - target) ** 2)


step(
    lambda: ({"filter": normal(24, 16), "gate": kernel(16, 16), "out": kernel(16, 16, seed=6)}, normal(2, 24, 16), normal(2, 24, 16, seed=3)),
    "long_convolution",
)(trained(long_convolution))


def selective_scan(w, x, target):
    """Mamba: input-dependent rates, an associative scan over time."""
    rate = jax.nn.softplus(x @ w["rate"])
    b, c = x @ w["b"], x @ w["c"]
    decay = jnp.exp(-rate[..., None] * jnp.exp(w["a"]))
    drive = (rate * x)[..., None] * b[:, :, None, :]
    _, states = jax.lax.associative_scan(lambda p, q: (q[0] * p[0], q[0] * p[1] + q[1]), (decay, drive), axis=1)
    y = jnp.einsum("btds,bts->btd", states, c)
    return jnp.mean((y - target) ** 2)


step(
    lambda: (
        {"rate": kernel(16, 16), "b": kernel(16, 4, seed=5), "c": kernel(16, 4, seed=6), "a": normal(16, 4, scale=0.3)},
        normal(2, 16, 16), normal(2, 16, 16, seed=3),
    ), "selective_scan",
)(trained(selective_scan))


def contrastive_views(w, a, b):
    """CLIP and SimCLR: normalised features, a learned temperature, symmetric cross-entropy over the batch."""
    unit = lambda x: x / jnp.linalg.norm(x, axis=-1, keepdims=True)
    logits = unit(dense(w["a"], a)) @ unit(dense(w["b"], b)).T * jnp.exp(w["temperature"])
    labels = jnp.arange(a.shape[0])
    return cross_entropy(logits, labels) + cross_entropy(logits.T, labels)


step(
    lambda: ({"a": dense_weights(32, 48, 16), "b": dense_weights(20, 24, 16), "temperature": np.float32(1.0)}, normal(24, 32), normal(24, 20, seed=4)),
    "contrastive_views",
)(trained(contrastive_views))


def tabular(w, numbers, categories, target):
    """Wide and deep with embeddings of several tables, batch statistics, a factorisation machine."""
    rows = [table[categories[:, n]] for n, table in enumerate(w["tables"])]
    x = (numbers - numbers.mean(0)) / jnp.sqrt(numbers.var(0) + 1e-3)
    stacked = jnp.stack(rows, 1)
    pairs = 0.5 * (stacked.sum(1) ** 2 - (stacked**2).sum(1)).sum(-1)
    deep = dense(w["deep"], jnp.concatenate([x, *rows], -1))[:, 0]
    return jnp.mean(jax.nn.softplus(-target * (pairs + deep)))


step(
    lambda: (
        {"tables": [normal(n, 6, seed=n, scale=0.2) for n in (11, 40, 300)], "deep": dense_weights(28, 32, 1)},
        normal(48, 10), np.stack([integers(11, 48), integers(40, 48, seed=3), integers(300, 48, seed=4)], 1), np.sign(normal(48, seed=8)),
    ), "tabular_embeddings",
)(trained(tabular))


def ranking(w, x, relevance):
    """Soft ranks by pairwise sigmoids, a sorted list's discounted gain, and a loss of sorted quantiles."""
    s = dense(w, x)[..., 0]
    ranks = 1 + jax.nn.sigmoid((s[:, None, :] - s[:, :, None]) * 4).sum(-1) - 0.5
    gain = ((2**relevance - 1) / jnp.log2(1 + ranks)).sum(-1)
    ideal = ((2 ** -jnp.sort(-relevance, -1) - 1) / jnp.log2(2.0 + jnp.arange(relevance.shape[1]))).sum(-1)
    transport = jnp.abs(jnp.sort(s, -1) - jnp.sort(relevance, -1)).mean()
    return -jnp.mean(gain / ideal) + transport


step(lambda: (dense_weights(12, 24, 1), normal(6, 10, 12), 1 + integers(4, 6, 10).astype(np.float32)), "ranking_sorted")(trained(ranking))


@step(lambda: (integers(256, 4, 24, dtype=np.uint8), integers(2**31 - 1, 16), np.array([7, 9], np.uint32)))
def hashed_features(text, keys, seed):
    """Rolling and mixing hashes of unsigned words; buckets counted."""
    words = text.astype(jnp.uint32)
    rolled = jax.lax.fori_loop(0, 24, lambda i, h: (h * jnp.uint32(16777619)) ^ words[:, i], jnp.full(4, 2166136261, jnp.uint32))
    mixed = keys.astype(jnp.uint32) * jnp.uint32(2654435761)
    mixed = mixed ^ (mixed >> 15)
    buckets = jnp.zeros(8, jnp.int32).at[(mixed % 8).astype(jnp.int32)].add(1)
    bits = jax.lax.population_count(mixed), jax.lax.clz(mixed)
    return rolled, buckets, *bits, jax.random.permutation(jax.random.wrap_key_data(seed), 24)


@step(lambda: (kernel(24, 32), kernel(32, 4, seed=5), normal(12, 24), normal(12, seed=3), integers(4, 12), (normal(12, seed=6) > 0.8).astype(np.float32)))
def clipped_policy(first, second, states, rewards, actions, ends):
    """PPO: advantages by a reversed scan, clipped ratios, entropy; old and new policy."""
    def logp(w):
        return jax.nn.log_softmax(jnp.tanh(states @ w[0]) @ w[1])

    values = states.mean(-1)
    def back(carry, now):
        advantage, next_value = carry
        reward, value, end = now
        delta = reward + 0.99 * next_value * (1 - end) - value
        advantage = delta + 0.95 * 0.99 * (1 - end) * advantage
        return (advantage, value), advantage

    _, advantages = jax.lax.scan(back, (0.0, 0.0), (rewards, values, ends), reverse=True)
    advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
    pick = lambda logs: jnp.take_along_axis(logs, actions[:, None], -1)[:, 0]
    old = jax.lax.stop_gradient(pick(logp((first, second)))) + 0.01 * rewards

    def loss(w):
        logs = logp(w)
        ratio = jnp.exp(pick(logs) - old)
        clipped = jnp.clip(ratio, 0.8, 1.2)
        entropy = -jnp.sum(jnp.exp(logs) * logs, -1).mean()
        return -jnp.minimum(ratio * advantages, clipped * advantages).mean() - 0.01 * entropy

    return jax.value_and_grad(loss)((first, second))


@step(lambda: (dense_weights(6, 32, 3), dense_weights(6, 32, 3), normal(16, 6), integers(3, 16), normal(16, seed=3), normal(16, 6, seed=4)))
def double_q(online, slow, states, actions, rewards, following):
    """DQN: target network, argmax of the online one, Huber loss, a moving average of weights."""
    best = jnp.argmax(dense(online, following), -1)
    future = jnp.take_along_axis(dense(slow, following), best[:, None], -1)[:, 0]

    def loss(w):
        q = jnp.take_along_axis(dense(w, states), actions[:, None], -1)[:, 0]
        error = rewards + 0.99 * future - q
        return jnp.mean(jnp.where(jnp.abs(error) < 1, 0.5 * error**2, jnp.abs(error) - 0.5))

    value, gradient = jax.value_and_grad(loss)(online)
    online = jax.tree.map(lambda w, g: w - 0.01 * g, online, gradient)
    return online, jax.tree.map(lambda s, w: 0.995 * s + 0.005 * w, slow, online), value
