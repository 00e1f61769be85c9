"""Linear algebra, transforms and generative models: every kind of factorisation and Fourier transform, flows, neural ODEs."""

import jax
import jax.numpy as jnp
import numpy as np

from declare import dense, dense_weights, integers, normal, step, trained

LOOKED_AT = True


def positive(*shape, seed=1):
    a = normal(*(shape * 2 if len(shape) == 1 else shape), seed=seed)
    return (a @ a.swapaxes(-1, -2) / shape[-1] + np.eye(shape[-1])).astype(np.float32)


@step(lambda: (normal(4, 24), normal(4, 24, seed=2)))
def transforms_one(x, y):
    z = jax.lax.complex(x, y)
    return [part(a) for a in (jnp.fft.fft(z), jnp.fft.ifft(z), jnp.fft.rfft(x)) for part in (jnp.real, jnp.imag)] + [
        jnp.fft.irfft(jnp.fft.rfft(x), 24), jnp.fft.hfft(z[:, :13], 24), jnp.fft.fftshift(x, axes=1),
    ]


@step(lambda: (normal(2, 8, 12), normal(2, 8, 12, seed=2)))
def transforms_several(x, y):
    z = jax.lax.complex(x, y)
    both = lambda a: (a.real, a.imag)
    return *both(jnp.fft.fft2(z)), *both(jnp.fft.ifftn(z)), *both(jnp.fft.rfft2(x)), jnp.fft.irfftn(jnp.fft.rfftn(x), x.shape)


@step(lambda: (normal(3, 128), normal(128, seed=2, scale=0.1)))
def spectral_loss(x, shape):
    """Short-time transforms and their magnitudes, differentiated."""
    def loss(s):
        frames = jnp.stack([(x * s)[:, i : i + 32] * jnp.hanning(32) for i in range(0, 97, 16)], 1)
        magnitude = jnp.abs(jnp.fft.rfft(frames))
        return jnp.mean(jnp.log1p(magnitude)) + jnp.mean(magnitude**2)

    return jax.value_and_grad(loss)(shape)


def fourier_layer(w, x, target):
    """A Fourier neural operator: low frequencies times complex weights."""
    z = jnp.fft.rfft2(x, axes=(1, 2))
    low = jnp.einsum("bxyi,ioxy->bxyo", z[:, :4, :4], w["real"] + 1j * w["imag"])
    z = jnp.zeros((*z.shape[:3], 8), low.dtype).at[:, :4, :4].set(low)
    y = jnp.fft.irfft2(z, x.shape[1:3], axes=(1, 2)) + x @ w["skip"]
    return jnp.mean((jax.nn.gelu(y) - target) ** 2)


step(
    lambda: (
        {"real": normal(8, 8, 4, 4, scale=0.1), "imag": normal(8, 8, 4, 4, seed=4, scale=0.1), "skip": normal(8, 8, scale=0.3)},
        normal(2, 16, 16, 8), normal(2, 16, 16, 8, seed=6),
    ), "fourier_layer",
)(trained(fourier_layer))


@step(lambda: (normal(8, 8), normal(8, 8, seed=2), normal(8, seed=3), normal(8, seed=4)))
def complex_arithmetic(a, b, c, d):
    z, w = a + 1j * b, c + 1j * d
    y = jnp.exp(1j * jnp.abs(z)) @ w / (1 + jnp.abs(w))
    values = (y, z @ z.conj().T, jnp.sqrt(z), jnp.angle(z), jnp.log(z), z**2, jnp.cumsum(z, 1), jnp.linalg.norm(z), jnp.sinh(z))
    return [part(value) for value in values for part in (jnp.real, jnp.imag)]


@step(lambda: (positive(12), normal(12, 3)))
def linalg_solves(a, b):
    chol = jnp.linalg.cholesky(a)
    return jnp.linalg.inv(a), jnp.linalg.slogdet(a), jax.scipy.linalg.solve(a, b, assume_a="pos"), jnp.linalg.lstsq(a, b)[0], jax.scipy.linalg.solve_triangular(chol, b, lower=True, trans=1)


@step(lambda: (normal(10, 6), positive(8)))
def linalg_factors(a, s):
    u, d, v = jnp.linalg.svd(a, full_matrices=False)
    w, q = jnp.linalg.eigh(s)
    return jnp.abs(u), d, jnp.abs(v), w, jnp.abs(q), jnp.linalg.pinv(a), jnp.linalg.matrix_rank(a), jnp.linalg.cond(s), jnp.linalg.matrix_power(s, 3)


@step(lambda: (positive(8),))
def eigenvalue_gradient(s):
    return jax.value_and_grad(lambda s: jnp.sum(jnp.log(jnp.linalg.eigh(s)[0])) + jnp.linalg.norm(s, "nuc"))(s)


@step(lambda: (positive(4, 10, 10), normal(4, 10, 2)))
def batched_solves(a, b):
    def loss(a):
        return jnp.sum(jnp.linalg.solve(a, b) ** 2) + jnp.sum(jnp.linalg.slogdet(a)[1])

    return jax.value_and_grad(loss)(a)


@step(lambda: (positive(40), normal(40, 8)))
def wide_factors(a, b):
    factor = jax.scipy.linalg.cho_factor(a)
    return jax.scipy.linalg.cho_solve(factor, b), jnp.linalg.qr(b)[1], jax.scipy.linalg.lu(a)[2]


@step(lambda: (normal(6, 6, scale=0.4), normal(6, 6, seed=2)))
def linalg_functions(a, b):
    s = a @ a.T
    return jax.scipy.linalg.expm(a), jnp.linalg.multi_dot([a, b, a]), jnp.kron(a, b), jnp.linalg.det(a), jnp.trace(b), jnp.tril(a), jax.scipy.linalg.block_diag(a, b), jax.scipy.linalg.toeplitz(a[0]), jnp.linalg.cross(a[:, :3], b[:, :3]), jnp.vander(a[0]), jax.scipy.linalg.sqrtm(s + jnp.eye(6)).real if False else s


@step(lambda: (positive(24), normal(24)))
def conjugate_gradients(a, b):
    x, _ = jax.scipy.sparse.linalg.cg(a, b, maxiter=20)
    y, _ = jax.scipy.sparse.linalg.bicgstab(a, b, maxiter=10)
    return x, y


@step(lambda: (normal(16, scale=2.0), np.abs(normal(16, seed=2)) + 0.5, normal(16, seed=3)))
def special_functions(x, p, y):
    s = jax.scipy.special
    return s.gammaln(p), s.digamma(p), s.erf(x), s.erfc(x), s.erfinv(jnp.tanh(x)), s.logit(jax.nn.sigmoid(x)), s.i0e(x), s.i1e(x), s.betaln(p, p + 1), s.ndtri(jax.nn.sigmoid(y)), s.xlogy(p, p), s.expit(x), s.gammainc(p, p + 0.3), s.zeta(p + 1.2, p), s.polygamma(1, p), s.bernoulli(4), s.log_ndtr(x)


@step(lambda: (normal(40), np.sort(normal(12, seed=2)), normal(12, seed=3)))
def statistics_more(x, edges, values):
    return (
        jnp.percentile(x, jnp.array([10.0, 50, 90])), jnp.cov(x.reshape(4, 10)), jnp.corrcoef(x.reshape(4, 10)), jnp.median(x.reshape(8, 5), 1),
        jnp.interp(x, edges, values), jnp.histogram(x, 8)[0], jnp.convolve(x, values[:5]), jnp.gradient(x), jnp.trapezoid(x), jnp.unique(jnp.round(x), size=8),
        jnp.nonzero(x > 0, size=12)[0], jnp.partition(x, 5), jnp.cumsum(x[::-1]), jax.scipy.stats.norm.logpdf(x), jnp.polyfit(edges, values, 2), jnp.nanmean(jnp.where(x > 1, jnp.nan, x)),
    )


def adversarial(g, d, z, real):
    """GAN: both networks' steps, a gradient penalty of second order."""
    fake = dense(g, z)
    score = lambda d, x: dense(d, x, jax.nn.leaky_relu)[..., 0]

    def d_loss(d):
        middle = 0.3 * real + 0.7 * fake
        slope = jax.vmap(jax.grad(lambda x: score(d, x)))(middle)
        return score(d, fake).mean() - score(d, real).mean() + 10 * jnp.mean((jnp.linalg.norm(slope, axis=-1) - 1) ** 2)

    d_value, d_gradient = jax.value_and_grad(d_loss)(d)
    d = jax.tree.map(lambda w, x: w - 0.01 * x, d, d_gradient)
    g_value, g_gradient = jax.value_and_grad(lambda g: -score(d, dense(g, z)).mean())(g)
    return jax.tree.map(lambda w, x: w - 0.01 * x, g, g_gradient), d, d_value, g_value


step(lambda: (dense_weights(8, 32, 16), dense_weights(16, 32, 1), normal(16, 8), normal(16, 16, seed=5)), "gan_gradient_penalty")(adversarial)


def variational(w, x, key_data):
    mean, spread = jnp.split(dense(w["encode"], x), 2, -1)
    noise = jax.random.normal(jax.random.wrap_key_data(key_data), mean.shape)
    logits = dense(w["decode"], mean + jnp.exp(0.5 * spread) * noise)
    likelihood = jnp.sum(x * jax.nn.log_sigmoid(logits) + (1 - x) * jax.nn.log_sigmoid(-logits), -1)
    divergence = 0.5 * jnp.sum(jnp.exp(spread) + mean**2 - 1 - spread, -1)
    return jnp.mean(divergence - likelihood)


step(
    lambda: (
        {"encode": dense_weights(36, 32, 16), "decode": dense_weights(8, 32, 36)},
        (normal(16, 36) > 0).astype(np.float32), np.array([3, 9], np.uint32),
    ), "vae_bernoulli",
)(trained(variational))


def quantised_codes(w, x):
    """VQ-VAE: the nearest code of a book, straight-through gradients."""
    z = dense(w["encode"], x)
    distance = jnp.sum(z**2, -1, keepdims=True) - 2 * z @ w["book"].T + jnp.sum(w["book"] ** 2, -1)
    code = w["book"][jnp.argmin(distance, -1)]
    y = dense(w["decode"], z + jax.lax.stop_gradient(code - z))
    stop = jax.lax.stop_gradient
    return jnp.mean((y - x) ** 2) + jnp.mean((stop(z) - code) ** 2) + 0.25 * jnp.mean((z - stop(code)) ** 2)


step(lambda: ({"encode": dense_weights(24, 32, 8), "decode": dense_weights(8, 32, 24), "book": normal(20, 8)}, normal(32, 24)), "vq_codes")(
    trained(quantised_codes)
)


def coupling_flow(w, x):
    """RealNVP with an invertible 1x1 (its determinant is in the likelihood)."""
    total = jnp.linalg.slogdet(w["mix"])[1]
    x = x @ w["mix"]
    for number, net in enumerate(w["nets"]):
        a, b = (x[:, ::2], x[:, 1::2]) if number % 2 else (x[:, 1::2], x[:, ::2])
        scale, shift = jnp.split(dense(net, a, jnp.tanh), 2, -1)
        b = b * jnp.exp(jnp.tanh(scale)) + shift
        total = total + jnp.tanh(scale).sum(-1)
        x = jnp.stack([a, b], -1).reshape(x.shape)
    return -jnp.mean(-0.5 * jnp.sum(x**2, -1) + total)


step(lambda: ({"mix": np.eye(6, dtype=np.float32) + normal(6, 6, scale=0.1), "nets": [dense_weights(3, 16, 6, seed=s) for s in (1, 2, 3)]}, normal(20, 6)), "coupling_flow")(
    trained(coupling_flow)
)


def neural_spline(w, x):
    """Rational quadratic splines: cumulative widths, searchsorted by comparison, gathers by bin."""
    parameters = dense(w, x[:, :1]).reshape(x.shape[0], 3, 8)
    widths = jax.nn.softmax(parameters[:, 0]) * 6
    heights = jax.nn.softmax(parameters[:, 1]) * 6
    slopes = jax.nn.softplus(parameters[:, 2]) + 0.1
    left = jnp.cumsum(widths, -1) - widths - 3
    low = jnp.cumsum(heights, -1) - heights - 3
    value = jnp.clip(x[:, 1:], -2.9, 2.9)
    which = jnp.sum(value >= left, -1, keepdims=True) - 1
    pick = lambda a: jnp.take_along_axis(a, which, -1)
    t = (value - pick(left)) / pick(widths)
    slope, s = pick(heights) / pick(widths), pick(slopes)
    y = pick(low) + pick(heights) * (slope * t**2 + s * t * (1 - t)) / (slope + (2 * s - 2 * slope) * t * (1 - t))
    return jnp.mean(y**2) - jnp.mean(jnp.log(slope))


step(lambda: (dense_weights(1, 16, 24), normal(24, 2)), "spline_flow")(trained(neural_spline))


@step(lambda: (dense_weights(5, 24, 4), normal(8, 4), normal(8, 4, seed=4)))
def neural_ode(w, start, end):
    """Adaptive Runge-Kutta (jax.experimental.ode): while loop forwards, its adjoint backwards."""
    from jax.experimental.ode import odeint

    def field(y, t, w):
        return jnp.tanh(dense(w, jnp.concatenate([y, jnp.broadcast_to(t, (*y.shape[:-1], 1))], -1), jnp.tanh))

    def loss(w):
        path = odeint(field, start, jnp.array([0.0, 1.0]), w, rtol=1e-3, atol=1e-3, mxstep=50)
        return jnp.mean((path[-1] - end) ** 2)

    return jax.value_and_grad(loss)(w)


@step(lambda: (normal(12, 3), normal(12, 4, seed=2), np.array([1, 2], np.uint32)))
def langevin(x, weights, key_data):
    """Hamiltonian Monte Carlo: leapfrog in a loop, acceptance by a random number, keys split."""
    energy = lambda q: jnp.sum((x @ q - weights) ** 2) / 2 + jnp.sum(q**2) / 2
    key = jax.random.wrap_key_data(key_data)

    def one(state, key):
        q = state
        first, second = jax.random.split(key)
        p = jax.random.normal(first, q.shape)
        before = energy(q) + 0.5 * jnp.sum(p**2)

        def leap(_, qp):
            q, p = qp
            p = p - 0.02 * jax.grad(energy)(q)
            q = q + 0.04 * p
            return q, p - 0.02 * jax.grad(energy)(q)

        new, p = jax.lax.fori_loop(0, 5, leap, (q, p))
        after = energy(new) + 0.5 * jnp.sum(p**2)
        accept = jnp.log(jax.random.uniform(second)) < before - after
        q = jnp.where(accept, new, q)
        return q, accept

    q, accepted = jax.lax.scan(one, jnp.zeros((3, 4)), jax.random.split(key, 4))
    return q, accepted


@step(lambda: (normal(12, 8), normal(14, 8, seed=2)))
def optimal_transport(x, y):
    """Sinkhorn in the logarithm, differentiated through its iterations."""
    def loss(x):
        cost = jnp.sum((x[:, None] - y[None]) ** 2, -1)
        def one(fg, _):
            f, g = fg
            f = -0.5 * jax.nn.logsumexp((g[None] - cost) / 0.5 + jnp.log(1 / 14), 1)
            g = -0.5 * jax.nn.logsumexp((f[:, None] - cost) / 0.5 + jnp.log(1 / 12), 0)
            return (f, g), None
        (f, g), _ = jax.lax.scan(one, (jnp.zeros(12), jnp.zeros(14)), None, length=10)
        return f.mean() + g.mean()

    return jax.value_and_grad(loss)(x)


@step(lambda: (normal(20, 3), normal(20, seed=2), normal(7, 3, seed=3)))
def gaussian_process_fit(x, y, inducing):
    """Sparse Gaussian process: two Cholesky factors, triangular solves, gradients through both."""
    def kernel(a, b, length):
        return jnp.exp(-0.5 * jnp.sum(((a[:, None] - b[None]) / length) ** 2, -1))

    def loss(p):
        length, noise = jnp.exp(p[:3]), jnp.exp(p[3])
        kuu = kernel(inducing, inducing, length) + 1e-3 * jnp.eye(7)
        low = jnp.linalg.cholesky(kuu)
        a = jax.scipy.linalg.solve_triangular(low, kernel(inducing, x, length), lower=True) / noise
        b = jnp.linalg.cholesky(jnp.eye(7) + a @ a.T)
        c = jax.scipy.linalg.solve_triangular(b, a @ y, lower=True) / noise
        return jnp.sum(jnp.log(jnp.diag(b))) + 20 * p[3] + 0.5 * jnp.sum(y**2) / noise**2 - 0.5 * jnp.sum(c**2)

    return jax.value_and_grad(loss)(jnp.zeros(4))


@step(lambda: (normal(16, 32), normal(32, 24, scale=0.2), normal(16, 24, seed=5)))
def float8_training(x, w, target):
    """Scaled 8-bit floats in front of a product, with the delayed scale of Transformer Engine."""
    def cast(a, kind, limit):
        scale = limit / jnp.maximum(jnp.max(jnp.abs(a)), 1e-6)
        return (a * scale).astype(kind).astype(jnp.float32) / scale

    def loss(w):
        return jnp.mean((cast(x, jnp.float8_e4m3fn, 448.0) @ cast(w, jnp.float8_e4m3fn, 448.0) - target) ** 2)

    value, gradient = jax.value_and_grad(loss)(w)
    return w - 0.1 * cast(gradient, jnp.float8_e5m2, 57344.0), value, x.astype(jnp.float8_e4m3fn).astype(jnp.float32), w.astype(jnp.float8_e5m2).astype(jnp.float32)


@step(lambda: (integers(16, 32, 64, dtype=np.uint8).astype(np.uint8), normal(16, 64), normal(32, 2, seed=4)))
def four_bit_weights(packed, x, scales):
    """Weights of 4 bits, two a byte, unpacked and scaled by group in front of the product."""
    low = (packed & 15).astype(jnp.int8) - 8
    high = (packed >> 4).astype(jnp.int8) - 8
    w = jnp.stack([low, high], 1).reshape(64, 64).astype(jnp.float32)
    w = (w.reshape(2, 32, 64).swapaxes(0, 1) * scales[:, :, None]).swapaxes(0, 1).reshape(64, 64)
    return x @ w


@step(lambda: (normal(8, 16), integers(2**31 - 1, 8, 16)))
def bits_of_floats(x, n):
    """Bits between widths and types: what quantisers, samplers and hashes do."""
    bits = jax.lax.bitcast_convert_type(x, jnp.uint32)
    halves = jax.lax.bitcast_convert_type(x, jnp.uint16)
    octets = jax.lax.bitcast_convert_type(n, jnp.uint8)
    rounded = jax.lax.bitcast_convert_type((bits + 0x7FFF + ((bits >> 16) & 1)) & jnp.uint32(0xFFFF0000), jnp.float32)
    joined = jax.lax.bitcast_convert_type(halves[..., ::-1], jnp.float32)
    return rounded, octets.astype(jnp.int32).sum(-1), halves, joined, jnp.frexp(x), jnp.nextafter(x, x + 1), jnp.signbit(x)


@step(lambda: (normal(24, 6), normal(24, 6, seed=2), integers(24, 10), integers(6, 10, seed=4), normal(10, seed=5)))
def scatters_of_elements(a, b, rows, columns, values):
    return (
        a.at[rows, columns].set(0.5), a.at[rows, columns].add(values), a.at[rows].multiply(2.0), b.at[:, columns].max(values), b.at[rows, columns].min(values),
        a[::-2, ::3], jnp.flip(b, (0, 1)), a.at[5:9, 1:3].set(1.0), jnp.rot90(b), jnp.roll(a, 5, 0), jnp.tile(b, (1, 3))[:, 5:11],
    )


@step(lambda: (normal(24, 10), normal(10, seed=2)))
def newton_steps(x, w):
    """Newton's method: a Hessian by forward over reverse and a solve in each trip."""
    loss = lambda w: jnp.mean(jax.nn.softplus(x @ w)) + 0.05 * jnp.sum(w**2)

    def one(w, _):
        w = w - jnp.linalg.solve(jax.hessian(loss)(w), jax.grad(loss)(w))
        return w, loss(w)

    return jax.lax.scan(one, w, None, length=3)


@step(lambda: (normal(10, 4), normal(10, 4, seed=2), np.float32(0.3)))
def procrustes(x, y, rate):
    """The nearest rotation between two clouds by an SVD, and its power iteration's spectral norm."""
    u, s, v = jnp.linalg.svd((x - x.mean(0)).T @ (y - y.mean(0)))
    turn = u @ v
    return turn, s.sum(), x - rate * (x @ turn - y)
