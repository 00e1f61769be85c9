"""Sorting, scans along an axis, FFT, linear algebra, statistics, physics."""

import jax
import jax.numpy as jnp
import numpy as np

from declare import descend, integers, normal, step, trained


@step(lambda: (normal(16, 64),))
def sort_rows(x):
    return jnp.sort(x, axis=-1), jnp.argsort(x, axis=-1)


@step(lambda: (normal(16, 64), integers(100, 16, 64)))
def sort_pairs(keys, values):
    return jax.lax.sort((values, keys), dimension=0, num_keys=2)


@step(lambda: (normal(16, 100),))
def top_k(x):
    values, places = jax.lax.top_k(x, 5)
    return values, places, jnp.argmax(x, axis=-1), jnp.median(x, axis=-1)


@step(lambda: (normal(32, 48),))
def cumulative(x):
    return jnp.cumsum(x, axis=1), jnp.cumprod(1 + 0.1 * x, axis=0), jax.lax.cummax(x, axis=1), jax.lax.cumlogsumexp(x, axis=0)


@step(lambda: (normal(16, 64), integers(50, 200)))
def statistics(x, samples):
    return jnp.quantile(x, 0.3, axis=1), jnp.histogram(samples.astype(jnp.float32), bins=10)[0], jnp.bincount(samples, length=50), jnp.std(x, axis=0)


@step(lambda: (np.sort(normal(50)), normal(30, seed=5)))
def search_sorted(edges, values):
    return jnp.searchsorted(edges, values), jnp.interp(values, edges, edges**2), jnp.digitize(values, edges)


@step(lambda: (normal(8, 64),))
def fft_filter(x):
    return jnp.fft.irfft(jnp.fft.rfft(x) * jnp.exp(-jnp.arange(33) / 8.0), n=64)


@step(lambda: (normal(4, 16, 16), normal(9, 16, 16, seed=4)))
def fourier_operator(x, weights):
    return jax.value_and_grad(lambda w: jnp.mean(jnp.abs(jnp.fft.rfft(x, axis=-1)[..., :9] @ jnp.moveaxis(w, 0, 1)[:, :, :9].mean(0)) ** 2))(weights)


def positive(n, seed=1):
    a = normal(n, n, seed=seed)
    return (a @ a.T / n + np.eye(n)).astype(np.float32)


@step(lambda: (positive(24), normal(24, 4)))
def cholesky_solve(a, b):
    return jax.scipy.linalg.cho_solve(jax.scipy.linalg.cho_factor(a), b), jnp.linalg.cholesky(a)


@step(lambda: (positive(16), normal(16)))
def log_likelihood(a, x):
    def loss(a):
        factor = jnp.linalg.cholesky(a)
        z = jax.scipy.linalg.solve_triangular(factor, x, lower=True)
        return 0.5 * jnp.sum(z * z) + jnp.sum(jnp.log(jnp.diagonal(factor)))

    return jax.value_and_grad(loss)(a)


@step(lambda: (normal(20, 20), normal(20, 3)))
def lu_solve(a, b):
    return jnp.linalg.solve(a, b), jnp.linalg.det(a)


@step(lambda: (normal(24, 8),))
def qr_factors(a):
    q, r = jnp.linalg.qr(a)
    return q, r


@step(lambda: (positive(8),))
def eigenvalues(a):
    return jnp.linalg.eigvalsh(a)


@step(lambda: (normal(12, 6),))
def singular_values(a):
    return jnp.linalg.svd(a, compute_uv=False)


@step(lambda: (normal(12, 12, scale=0.2),))
def matrix_exponential(a):
    return jax.scipy.linalg.expm(a)


@step(lambda: (normal(6, 6, 6), normal(6, 6, 6, seed=2)))
def einsum_kinds(a, b):
    return jnp.einsum("ijk,kjl->il", a, b), jnp.einsum("ijk,ijk->k", a, b), jnp.einsum("iij->j", a), jnp.kron(a[0], b[0])


@step(lambda: (normal(10, 3), normal(10, 3, seed=2, scale=0.1)))
def n_body(places, speeds):
    def energy(p):
        difference = p[:, None] - p[None]
        return -jnp.sum(jnp.triu(jax.lax.rsqrt(jnp.sum(difference**2, -1) + 0.1), 1))

    def leap(state, _):
        p, v = state
        v = v - 0.01 * jax.grad(energy)(p)
        return (p + 0.01 * v, v), energy(p)

    return jax.lax.scan(leap, (places, speeds), None, length=5)


@step(lambda: (normal(32, 32), normal(32, 32, seed=3)))
def heat_equation(u, source):
    def body(_, u):
        around = jnp.roll(u, 1, 0) + jnp.roll(u, -1, 0) + jnp.roll(u, 1, 1) + jnp.roll(u, -1, 1)
        return u + 0.2 * (around - 4 * u) + 0.01 * source

    return jax.lax.fori_loop(0, 8, body, u)


@step(lambda: (normal(24, 4), normal(24), np.float32(0.7), np.float32(0.2)))
def gaussian_process(x, y, length, noise):
    def loss(length, noise):
        distance = jnp.sum((x[:, None] - x[None]) ** 2, -1)
        k = jnp.exp(-distance / (2 * length**2)) + (noise**2 + 1e-3) * jnp.eye(24)
        factor = jnp.linalg.cholesky(k)
        z = jax.scipy.linalg.solve_triangular(factor, y, lower=True)
        return 0.5 * jnp.sum(z**2) + jnp.sum(jnp.log(jnp.diag(factor)))

    return jax.value_and_grad(loss, (0, 1))(length, noise)


@step(lambda: (normal(8, 16), normal(16, 16, scale=0.3)))
def hessian_vector(x, w):
    loss = lambda w: jnp.sum(jnp.log(jnp.cosh(x @ w)))
    return jax.jvp(jax.grad(loss), (w,), (w,))


@step(lambda: (normal(6, 5), normal(5, 5, scale=0.3)))
def jacobian_penalty(x, w):
    def loss(w):
        jacobian = jax.vmap(jax.jacfwd(lambda a: jnp.tanh(a @ w)))(x)
        return jnp.mean(jacobian**2)

    return trained(loss)(w)


@step(lambda: (normal(8, 4), normal(8), normal(4, 32, scale=0.4), normal(32, 3, scale=0.3), integers(3, 8)))
def policy_gradient(states, rewards, first, second, actions):
    def loss(weights):
        logits = jnp.tanh(states @ weights[0]) @ weights[1]
        chosen = jnp.take_along_axis(jax.nn.log_softmax(logits), actions[:, None], 1)[:, 0]
        returns = jax.lax.associative_scan(lambda a, b: 0.9 * a + b, rewards, reverse=True)
        ratio = jnp.clip(jnp.exp(chosen - jax.lax.stop_gradient(chosen) + 0.1), 0.8, 1.2)
        return -jnp.mean(ratio * returns) - 0.01 * jnp.mean(jax.scipy.special.entr(jax.nn.softmax(logits)))

    value, gradient = jax.value_and_grad(loss)((first, second))
    return descend((first, second), gradient), value


@step(lambda: (normal(16, 8), normal(2, 8), np.array([1, 5], np.uint32)))
def k_means(points, centres, key_data):
    def body(_, centres):
        nearest = jnp.argmin(jnp.sum((points[:, None] - centres[None]) ** 2, -1), 1)
        hot = jax.nn.one_hot(nearest, 2)
        return (hot.T @ points) / jnp.maximum(hot.sum(0), 1)[:, None]

    return jax.lax.fori_loop(0, 4, body, centres)
