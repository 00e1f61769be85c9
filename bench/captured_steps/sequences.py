"""Attention of several kinds, embeddings, gather and scatter, state-space layers, losses."""

import jax
import jax.numpy as jnp
import numpy as np
import optax

from declare import cross_entropy, descend, integers, normal, step, trained


def heads(batch=2, length=32, count=4, width=16):
    return tuple(normal(batch, length, count, width, seed=seed) for seed in (11, 12, 13))


def squared(result):
    return jnp.mean(result**2)


def declare_attention(name, attend, arguments=heads):
    def train(q, k, v, *more):
        value, gradient = jax.value_and_grad(lambda qkv: squared(attend(*qkv, *more)))((q, k, v))
        return gradient, value

    step(arguments, "attention_" + name)(train)


declare_attention("plain", jax.nn.dot_product_attention)
declare_attention("causal", lambda q, k, v: jax.nn.dot_product_attention(q, k, v, is_causal=True))
declare_attention("window", lambda q, k, v: jax.nn.dot_product_attention(q, k, v, local_window_size=(4, 4)))
declare_attention(
    "grouped_query", jax.nn.dot_product_attention, lambda: (heads()[0], normal(2, 32, 2, 16), normal(2, 32, 2, 16, seed=14))
)


@step(lambda: (*heads(), integers(30, 2) + 2))
def attention_padded(q, k, v, lengths):
    value, gradient = jax.value_and_grad(
        lambda qkv: squared(jax.nn.dot_product_attention(*qkv, key_value_seq_lengths=lengths))
    )((q, k, v))
    return gradient, value


def rotated(x):
    angle = jnp.arange(x.shape[1])[:, None, None] / 100.0 ** (jnp.arange(x.shape[-1] // 2) / (x.shape[-1] // 2))
    a, b = jnp.split(x, 2, axis=-1)
    return jnp.concatenate([a * jnp.cos(angle) - b * jnp.sin(angle), a * jnp.sin(angle) + b * jnp.cos(angle)], axis=-1)


declare_attention("rotary", lambda q, k, v: jax.nn.dot_product_attention(rotated(q), rotated(k), v, is_causal=True))


def linear_attention(q, k, v):
    q, k = jax.nn.elu(q) + 1, jax.nn.elu(k) + 1
    state = jnp.cumsum(jnp.einsum("blhk,blhv->blhkv", k, v), axis=1)
    return jnp.einsum("blhk,blhkv->blhv", q, state) / jnp.einsum("blhk,blhk->blh", q, jnp.cumsum(k, axis=1))[..., None]


declare_attention("linear", linear_attention)


def blockwise(q, k, v):
    """Attention with a running maximum over blocks of keys, as in flash attention."""

    def body(carry, block):
        peak, total, mixed = carry
        keys, values = block
        score = jnp.einsum("blhd,bmhd->bhlm", q, keys) / 4
        now = jnp.maximum(peak, score.max(-1))
        weight = jnp.exp(score - now[..., None])
        shrink = jnp.exp(peak - now)
        return (now, total * shrink + weight.sum(-1), mixed * shrink[..., None] + jnp.einsum("bhlm,bmhd->bhld", weight, values)), None

    split = lambda a: jnp.moveaxis(a.reshape(2, 4, 8, 4, 16), 1, 0)
    start = (jnp.full((2, 4, 32), -jnp.inf), jnp.zeros((2, 4, 32)), jnp.zeros((2, 4, 32, 16)))
    (_, total, mixed), _ = jax.lax.scan(body, start, (split(k), split(v)))
    return mixed / total[..., None]


@step(heads)
def attention_blockwise(q, k, v):
    return blockwise(q, k, v)


@step(lambda: (normal(100, 32), integers(100, 8, 16), normal(8, 32, seed=5)))
def embedding_bag(table, indices, target):
    return trained(lambda table: jnp.mean((jnp.mean(table[indices], axis=1) - target) ** 2))(table)


@step(lambda: (normal(64, 24), integers(64, 40), normal(40, 24, seed=4)))
def scatter_kinds(table, places, rows):
    return table.at[places].add(rows), table.at[places].max(rows), table.at[:, places % 24].mul(0.5), table.at[places[:5]].set(rows[:5])


@step(lambda: (normal(48, 16), integers(10, 48), normal(10, 16, seed=3)))
def segment_sums(rows, groups, target):
    def loss(rows):
        total = jax.ops.segment_sum(rows, groups, 10)
        return jnp.mean((total - target) ** 2) + jnp.mean(jax.ops.segment_max(rows, groups, 10, indices_are_sorted=False) ** 2)

    return jax.value_and_grad(loss)(rows)


@step(lambda: (normal(30, 16), integers(30, 60), integers(30, 60, seed=4), normal(16, 16, seed=5, scale=0.2)))
def graph_convolution(nodes, senders, receivers, weights):
    def loss(weights):
        messages = jax.nn.relu(nodes @ weights)[senders]
        degree = jax.ops.segment_sum(jnp.ones(60), receivers, 30)
        return squared(jax.ops.segment_sum(messages, receivers, 30) / jnp.maximum(degree, 1)[:, None])

    return trained(loss)(weights)


@step(lambda: (normal(32, 8, seed=1), normal(8, 16, 32, scale=0.2), normal(8, 32, 16, scale=0.2, seed=7), normal(40, 16)))
def mixture_of_experts(gate, first, second, tokens):
    def loss(weights):
        gate, first, second = weights
        score = jax.nn.softmax(tokens @ gate[:16])
        weight, chosen = jax.lax.top_k(score, 2)
        dispatch = jnp.sum(jax.nn.one_hot(chosen, 8) * weight[..., None], axis=1)
        hidden = jax.nn.relu(jnp.einsum("td,edf->tef", tokens, first))
        return squared(jnp.einsum("tef,efd,te->td", hidden, second, dispatch) - tokens)

    value, gradient = jax.value_and_grad(loss)((gate, first, second))
    return descend((gate, first, second), gradient), value


@step(lambda: (normal(16, 4, scale=0.3), normal(2, 24, 16), normal(2, 24, 4, seed=9)))
def state_space_scan(rates, x, drive):
    def loss(rates):
        def body(h, inputs):
            x, drive = inputs
            h = jnp.exp(-jax.nn.softplus(rates)) * h + x[..., None] * drive[:, None, :]
            return h, jnp.sum(h * drive[:, None, :], axis=-1)

        _, y = jax.lax.scan(body, jnp.zeros((2, 16, 4)), (jnp.moveaxis(x, 1, 0), jnp.moveaxis(drive, 1, 0)))
        return squared(y - jnp.moveaxis(x, 1, 0))

    return trained(loss)(rates)


@step(lambda: (normal(4, 20, 12), integers(11, 4, 6, seed=3) + 1))
def loss_ctc(logits, labels):
    return jax.value_and_grad(lambda x: jnp.mean(optax.ctc_loss(x, jnp.zeros((4, 20)), labels, jnp.zeros((4, 6)))))(logits)


def declare_loss(name, loss, *arguments):
    step(lambda: arguments, "loss_" + name)(lambda x, *rest: jax.value_and_grad(lambda x: jnp.mean(loss(x, *rest)))(x))


declare_loss("huber", optax.huber_loss, normal(32, 16), normal(32, 16, seed=4))
declare_loss("focal", optax.sigmoid_focal_loss, normal(32, 16), integers(2, 32, 16).astype(np.float32))
declare_loss("label_smoothing", lambda x, y: optax.softmax_cross_entropy(x, optax.smooth_labels(jax.nn.one_hot(y, 16), 0.1)), normal(32, 16), integers(16, 32))
declare_loss("contrastive", optax.ntxent, normal(16, 32), integers(4, 16))
declare_loss("triplet", lambda a, p, n: optax.losses.triplet_margin_loss(a, p, n), normal(16, 32), normal(16, 32, seed=2), normal(16, 32, seed=3))
declare_loss("cosine", optax.cosine_distance, normal(16, 32), normal(16, 32, seed=2))
declare_loss("sparsemax", optax.losses.multiclass_sparsemax_loss, normal(32, 16), integers(16, 32))
declare_loss("kl", lambda x, y: optax.kl_divergence(jax.nn.log_softmax(x), jax.nn.softmax(y)), normal(32, 16), normal(32, 16, seed=2))
declare_loss("cross_entropy_z", lambda x, y: optax.softmax_cross_entropy_with_integer_labels(x, y) + 1e-3 * jax.nn.logsumexp(x, -1) ** 2, normal(32, 50), integers(50, 32))
