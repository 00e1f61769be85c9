"""Control: scan, while, cond, switch, loops with data-dependent ends, remat."""

import jax
import jax.numpy as jnp
import numpy as np

from declare import cross_entropy, dense, dense_weights, descend, integers, normal, step, trained


def batch():
    return normal(32, 24), integers(6, 32)


def classify():
    return (dense_weights(24, 40, 6), *batch())


def classifier_loss(weights, images, labels):
    return cross_entropy(dense(weights, images), labels)


@step(lambda: (*classify(), np.float32(1.0)))
def cond_on_loss(weights, images, labels, threshold):
    value, gradient = jax.value_and_grad(classifier_loss)(weights, images, labels)
    rate = jax.lax.cond(value > threshold, lambda v: 0.1 * jnp.sqrt(v), lambda v: 0.01 * v * v, value)
    return descend(weights, gradient, rate), value


@step(lambda: (*classify(), np.int32(2)))
def switch_of_losses(weights, images, labels, kind):
    def loss(weights):
        logits = dense(weights, images)
        hot = jax.nn.one_hot(labels, 6)
        return jax.lax.switch(
            kind,
            [
                lambda x: jnp.mean((x - hot) ** 2),
                lambda x: jnp.mean(jnp.abs(x - hot)),
                lambda x: -jnp.mean(jax.nn.log_softmax(x) * hot),
            ],
            logits,
        )

    value, gradient = jax.value_and_grad(loss)(weights)
    return descend(weights, gradient), value


@step(lambda: (normal(48, 24), normal(48), np.zeros(24, np.float32)))
def while_until_converged(matrix, target, start):
    def residual(x):
        return matrix.T @ (matrix @ x - target)

    def unfinished(state):
        count, x = state
        return (count < 40) & (jnp.sum(residual(x) ** 2) > 1.0)

    def body(state):
        count, x = state
        return count + 1, x - 0.01 * residual(x)

    return jax.lax.while_loop(unfinished, body, (np.int32(0), start))


@step(classify)
def scan_of_microbatches(weights, images, labels):
    def body(total, part):
        value, gradient = jax.value_and_grad(classifier_loss)(weights, *part)
        return jax.tree.map(jnp.add, total, gradient), value

    zeros = jax.tree.map(jnp.zeros_like, weights)
    gradient, values = jax.lax.scan(body, zeros, (images.reshape(4, 8, 24), labels.reshape(4, 8)))
    return descend(weights, gradient, 0.025), values


@step(lambda: (normal(6, 32, 32, scale=0.2), normal(16, 32), normal(16, 32, seed=4)))
def scan_over_layers(weights, x, target):
    def loss(weights):
        hidden, _ = jax.lax.scan(lambda h, w: (h + jnp.tanh(h @ w), None), x, weights)
        return jnp.mean((hidden - target) ** 2)

    value, gradient = jax.value_and_grad(loss)(weights)
    return weights - gradient, value


@step(lambda: (normal(6, 32, 32, scale=0.2), normal(16, 32), normal(16, 32, seed=4)))
def scan_over_layers_remat(weights, x, target):
    @jax.checkpoint
    def block(h, w):
        return h + jax.nn.gelu(h @ w), None

    def loss(weights):
        hidden, _ = jax.lax.scan(block, x, weights)
        return jnp.mean((hidden - target) ** 2)

    value, gradient = jax.value_and_grad(loss)(weights)
    return weights - gradient, value


@step(lambda: (normal(16, 96, scale=0.2), normal(32, 96, seed=5, scale=0.2), normal(20, 8, 16), normal(8, 32, seed=6)))
def scan_gru(weights_in, weights_state, sequence, target):
    def cell(h, x):
        from_input, from_state = jnp.split(x @ weights_in, 3, axis=-1), jnp.split(h @ weights_state, 3, axis=-1)
        reset = jax.nn.sigmoid(from_input[0] + from_state[0])
        update = jax.nn.sigmoid(from_input[1] + from_state[1])
        candidate = jnp.tanh(from_input[2] + reset * from_state[2])
        return update * h + (1 - update) * candidate, None

    def loss(both):
        nonlocal weights_in, weights_state
        weights_in, weights_state = both
        return jnp.mean((jax.lax.scan(cell, jnp.zeros((8, 32)), sequence)[0] - target) ** 2)

    both = (weights_in, weights_state)
    value, gradient = jax.value_and_grad(loss)(both)
    return descend(both, gradient), value


@step(classify)
def remat_dots(weights, images, labels):
    policy = jax.checkpoint_policies.dots_saveable
    loss = jax.checkpoint(classifier_loss, policy=policy)
    value, gradient = jax.value_and_grad(loss)(weights, images, labels)
    return descend(weights, gradient), value


@step(lambda: (dense_weights(24, 40, 6), *batch(), np.int32(3)))
def fori_dynamic_count(weights, images, labels, count):
    return jax.lax.fori_loop(0, count, lambda i, w: descend(w, jax.grad(classifier_loss)(w, images, labels)), weights)


@step(lambda: (normal(24, 24),))
def power_iteration(matrix):
    symmetric = matrix @ matrix.T

    def body(_, x):
        y = symmetric @ x
        return y / jnp.linalg.norm(y)

    x = jax.lax.fori_loop(0, 12, body, jnp.ones(24))
    return x, x @ symmetric @ x


@step(lambda: (dense_weights(24, 24), normal(8, 24)))
def fixed_point(weights, x):
    """A deep-equilibrium layer: solved by a while loop, differentiated at its end."""

    def f(weights, z):
        return jnp.tanh(0.3 * dense(weights, z) + x)

    def solve(weights):
        def unfinished(state):
            return (jnp.max(jnp.abs(state[0] - state[1])) > 1e-3) & (state[2] < 30)

        def body(state):
            return f(weights, state[0]), state[0], state[2] + 1

        return jax.lax.while_loop(unfinished, body, (f(weights, jnp.zeros_like(x)), jnp.zeros_like(x), 0))[0]

    z = jax.lax.stop_gradient(solve(weights))
    value, gradient = jax.value_and_grad(lambda w: jnp.mean(f(w, z) ** 2))(weights)
    return descend(weights, gradient), value


@step(lambda: (normal(40, 12), normal(12, scale=0.3)))
def associative_scan(decay, start):
    a = jax.nn.sigmoid(decay)

    def combine(left, right):
        return left[0] * right[0], right[0] * left[1] + right[1]

    return jax.grad(lambda d: jnp.mean(jax.lax.associative_scan(combine, (jax.nn.sigmoid(d), jnp.sin(d) + start))[1] ** 2))(decay), a


@step(lambda: (normal(10, 16, 32), normal(32, 32, scale=0.2)))
def map_with_cond(blocks, weights):
    def one(block):
        return jax.lax.cond(jnp.sum(block) > 0, lambda b: jnp.tanh(b @ weights), lambda b: b * 0.5, block)

    return jax.lax.map(one, blocks)
