"""Random training steps as libraries lower them, for tests/jax_differential.py --libraries: layers of flax.linen, flax.nnx, equinox,
Haiku and Keras in any order, a loss and an optimiser of optax with what people put around it, or Keras's own train step.

The optimiser's state is an argument, past its first steps: the sign of a gradient that is nearly zero decides nothing. What is
compared is the loss, the new weights, the new state, and at times the gradients.
"""
import contextlib
import os

os.environ.setdefault("KERAS_BACKEND", "jax")
import equinox as eqx
import flax.linen as nn
import haiku as hk
import jax
import jax.numpy as jnp
import keras
import numpy as np
import optax
from flax import nnx
from jax_programs import Program

lax = jax.lax
FEATURES = [3, 8, 16, 20, 32, 48, 64, 96, 127, 128, 129, 200]
KINDS = ["rows", "sequences", "sequences", "images", "images", "words"]
LARGEST = 300_000


def is_float(a):
    return jnp.issubdtype(a.dtype, jnp.floating)


def filled(random, path, leaf):
    """A weight, a statistic or a part of an optimiser's state by its name and shape."""
    name, shape = jax.tree_util.keystr(path).lower(), leaf.shape
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) or not is_float(leaf):
        return np.full(shape, 3 if "count" in name or "step" in name or "iteration" in name else 0, leaf.dtype)
    value = random.standard_normal(shape) / 8
    if "scale" in name or "gamma" in name or "sigma" in name or "prelu" in name or (name.endswith(".weight") and leaf.ndim < 2):
        value = value + 1
    elif leaf.ndim > 1:
        value = value * 8 * np.prod(shape[:-1]) ** -0.5
    if "var" in name:
        value = np.abs(value) + 1
    return value.astype(leaf.dtype)


def state_of(random, path, leaf):
    """Of an optimiser: second moments are positive, first moments have signs."""
    if not is_float(leaf):
        return np.full(leaf.shape, 3 if leaf.dtype != bool else False, leaf.dtype)
    name = jax.tree_util.keystr(path).lower()
    value = 0.5 + np.abs(random.standard_normal(leaf.shape)) / 4
    if any(word in name for word in ("mu", "trace", "moment", "acc_grads", "ema", "mean", "delta", "m_")) and "nu" not in name:
        value = value * random.choice([-1, 1], leaf.shape)
    return value.astype(leaf.dtype)


class LibraryProgram(Program):
    """A training step: model, loss and optimiser of a seed."""

    for_tpu = True

    def __init__(self, seed):
        self.random = np.random.default_rng(seed)
        self.kind = self.pick(KINDS)
        self.library = self.pick(["linen", "linen", "nnx", "equinox", "haiku", "keras"])
        self.short, self.is_exact = self.maybe(4), False
        self.precision = self.pick(["default", "highest", "highest", "highest"])
        self.allowed = 0.3 if self.precision == "default" else 0.1 if self.short else 1e-3
        self.shows_gradients, self.batch = self.maybe(2), self.pick([1, 2, 3, 4, 8, 16])
        self.seed = self.below(1 << 30)
        self.form = "step"
        x = {"rows": lambda: self.draw(8 * self.batch, self.pick(FEATURES)), "sequences": lambda: self.draw(self.batch, self.pick([5, 8, 17, 32, 64, 100]), self.pick(FEATURES)),
             "images": lambda: self.draw(self.batch, self.pick([8, 12, 16, 17]), self.pick([8, 12, 16, 20]), self.pick([1, 3, 4, 16])),
             "words": lambda: self.random.integers(0, 50, (self.batch, self.pick([5, 16, 33, 64]))).astype(np.int32)}[self.kind]()
        self.model = {"linen": Linen, "nnx": Nnx, "equinox": Equinox, "haiku": Haiku, "keras": Keras}[self.library](self)
        weights, rest = self.model.made(x)
        self.count, self.split = len(jax.tree.leaves(weights)), jax.tree.structure((weights, rest))
        leaves = [filled(self.random, path, leaf) for path, leaf in jax.tree_util.tree_leaves_with_path((weights, rest))]
        if sum(a.size for a in leaves) > 1_500_000:
            raise ValueError("too large")
        weights, rest = jax.tree.unflatten(self.split, leaves)
        self.results = jax.eval_shape(lambda w, r, x: self.model.apply(w, r, x, jax.random.key(1))[0], weights, rest, x)
        if self.results.size > LARGEST:
            raise ValueError("too large")
        self.loss_name = self.pick(sorted(LOSSES))
        self.optimiser = self.optimiser_of_optax() if self.library != "keras" or self.maybe(3) else None
        state = jax.eval_shape(self.optimiser.init, weights) if self.optimiser else self.model.optimiser_state()
        self.state = jax.tree.structure(state)
        key = np.asarray([3, self.seed % 1000], np.uint32)
        self.arguments = [x, key, *leaves, *(state_of(self.random, path, leaf) for path, leaf in jax.tree_util.tree_leaves_with_path(state))]

    def maybe(self, one_in):
        return int(self.random.integers(one_in)) == 0

    def below(self, n):
        return int(self.random.integers(n))

    def draw(self, *shape):
        return (self.random.integers(-32, 33, shape) / 16).astype(np.float32)

    def type(self):
        """Of products: bf16 where the policy is mixed."""
        return jnp.bfloat16 if self.short and not self.is_exact else None

    def exactly(self, *arguments):
        self.is_exact = True
        try:
            return self(*arguments)
        finally:
            self.is_exact = False

    def rounded(self):
        if self.precision != "default":
            return None
        round = lambda a: a.astype(jnp.bfloat16).astype(np.float32) if a.dtype == np.float32 else a
        return jax.tree.leaves(jax.jit(self)(*(round(a) for a in self.arguments)))

    def least(self, outputs):
        return max(1e-4, 1e-3 * max(float(np.sqrt(np.mean(np.square(np.asarray(o, np.float64))))) for o in outputs))

    def optimiser_of_optax(self):
        rate = self.pick([0.1, optax.warmup_cosine_decay_schedule(0.01, 0.3, 5, 50), optax.piecewise_constant_schedule(0.2, {2: 0.5}), optax.polynomial_schedule(0.3, 0.1, 2, 10)])
        contrib = optax.contrib
        one = self.pick([
            lambda: optax.sgd(rate, 0.9, nesterov=True), lambda: optax.adam(rate), lambda: optax.adamw(rate, mask=lambda w: jax.tree.map(lambda a: a.ndim > 1, w)), lambda: optax.lamb(rate),
            lambda: optax.lars(rate), lambda: optax.lion(rate), lambda: optax.adafactor(0.1, min_dim_size_to_factor=8), lambda: optax.adafactor(0.1, multiply_by_parameter_scale=False, momentum=0.9),
            lambda: optax.rmsprop(rate, centered=True, momentum=0.9), lambda: optax.adagrad(rate), lambda: optax.adadelta(rate), lambda: optax.novograd(0.1), lambda: optax.yogi(rate),
            lambda: optax.radam(rate), lambda: optax.amsgrad(rate), lambda: optax.adabelief(rate), lambda: optax.adan(rate), lambda: optax.sm3(0.1), lambda: optax.nadamw(rate), lambda: optax.adamax(rate),
            lambda: optax.fromage(0.1), lambda: contrib.muon(0.1), lambda: contrib.prodigy(0.1), lambda: contrib.ademamix(0.1), lambda: contrib.schedule_free_adamw(0.1), lambda: contrib.dog(0.1),
            lambda: optax.inject_hyperparams(optax.adam)(learning_rate=rate), lambda: optax.adam(rate, mu_dtype=jnp.bfloat16)])()
        around = self.pick([
            lambda o: o, lambda o: o, lambda o: optax.chain(optax.clip_by_global_norm(0.5), o), lambda o: optax.chain(optax.adaptive_grad_clip(0.1), o), lambda o: optax.chain(optax.clip(0.01), o),
            lambda o: optax.MultiSteps(o, 4), lambda o: optax.apply_if_finite(o, 3), lambda o: optax.chain(o, optax.ema(0.9)), lambda o: optax.chain(optax.centralize(), o), lambda o: optax.chain(optax.add_decayed_weights(0.01), o),
            lambda o: optax.chain(optax.zero_nans(), o), lambda o: optax.chain(optax.clip_by_block_rms(0.1), o), lambda o: optax.chain(o, optax.keep_params_nonnegative()), lambda o: optax.chain(optax.normalize_by_update_norm(), o),
            lambda o: optax.partition({"a": o, "b": optax.sgd(0.1)}, lambda w: jax.tree.map(lambda a: "a" if a.ndim > 1 else "b", w))])
        return around(one)

    def loss(self, y):
        y = y.astype(jnp.float64 if self.is_exact else jnp.float32)
        return LOSSES[self.loss_name](y if y.ndim > 1 else y[:, None])

    def __call__(self, x, key, *rest):
        with jax.default_matmul_precision(self.precision):
            leaves, state = rest[:self.split.num_leaves], jax.tree.unflatten(self.state, rest[self.split.num_leaves:])
            weights, others = jax.tree.unflatten(self.split, leaves)
            def total(weights):
                y, changed = self.model.apply(weights, others, x, jax.random.wrap_key_data(key))
                return self.loss(y), changed
            (value, changed), slopes = jax.value_and_grad(total, has_aux=True)(weights)
            if self.optimiser is None:
                weights, state = self.model.optimised(slopes, state, weights)
            else:
                updates, state = self.optimiser.update(slopes, state, weights)
                weights = optax.apply_updates(weights, updates)
            return value, weights, state, changed, slopes if self.shows_gradients else ()


def labels_of(y, classes):
    return (jnp.arange(y.size // y.shape[-1]) * 7 % classes).reshape(y.shape[:-1])


def ctc(y):
    y = y.reshape(y.shape[0], -1, y.shape[-1])
    n = min(4, max(1, y.shape[1] // 2))
    labels = jnp.arange(y.shape[0] * n).reshape(-1, n) % max(1, y.shape[-1] - 1) + min(1, y.shape[-1] - 1)
    return jnp.mean(optax.ctc_loss(y, jnp.zeros(y.shape[:2]), labels, jnp.zeros(labels.shape)))


def contrastive(y):
    y = y.reshape(y.shape[0], -1)
    unit = y * lax.rsqrt(jnp.sum(y * y, -1, keepdims=True) + 0.1)
    logits = unit @ unit.T * 4 - 10 * jnp.eye(y.shape[0])
    return jnp.mean(optax.softmax_cross_entropy_with_integer_labels(logits, jnp.roll(jnp.arange(y.shape[0]), 1)))


def triplet(y):
    return jnp.mean(jax.nn.softplus(jnp.sum(jnp.square(y - jnp.roll(y, 1, 0) * 0.5), -1) - jnp.sum(jnp.square(y - jnp.roll(y, 2, 0) * 0.25), -1)))


def dice(y):
    p, t = jax.nn.sigmoid(y), labels_of(y, 2)[..., None]
    return 1 - jnp.mean((2 * jnp.sum(p * t, -1) + 1) / (jnp.sum(p, -1) + jnp.sum(t * jnp.ones_like(p), -1) + 1))


target = lambda y: jnp.cos(jnp.arange(y.size)).reshape(y.shape).astype(y.dtype)
LOSSES = {
    "cross entropy": lambda y: jnp.mean(optax.softmax_cross_entropy_with_integer_labels(y, labels_of(y, y.shape[-1]))),
    "smoothed": lambda y: jnp.mean(optax.softmax_cross_entropy(y, optax.smooth_labels(jax.nn.one_hot(labels_of(y, y.shape[-1]), y.shape[-1]), 0.1))),
    "focal": lambda y: jnp.mean(optax.sigmoid_focal_loss(y, (target(y) > 0).astype(y.dtype), alpha=0.25)), "huber": lambda y: jnp.mean(optax.huber_loss(y, target(y), delta=0.3)),
    "log cosh": lambda y: jnp.mean(optax.log_cosh(y, target(y))), "cosine": lambda y: jnp.mean(optax.cosine_distance(y, target(y), epsilon=0.1)), "ctc": ctc, "contrastive": contrastive, "triplet": triplet,
    "dice": dice, "squared": lambda y: jnp.mean(optax.squared_error(y, target(y))),
    "divergence": lambda y: jnp.mean(optax.kl_divergence(jax.nn.log_softmax(y), jax.nn.softmax(target(y)))), "hinge": lambda y: jnp.mean(optax.hinge_loss(y, jnp.sign(target(y)))),
    "sigmoid": lambda y: jnp.mean(optax.sigmoid_binary_cross_entropy(y, (target(y) > 0).astype(y.dtype)))}


class Drawn:
    """Draws what a model does, the same whenever its seed is drawn from again."""

    def __init__(self, program):
        self.program, self.random = program, np.random.default_rng(program.seed)
        self.layers = 1 + self.below(4)

    pick = LibraryProgram.pick
    maybe, below = LibraryProgram.maybe, LibraryProgram.below

    def again(self):
        self.random = np.random.default_rng(self.program.seed)
        self.below(4)
        return self

    def activation(self):
        return self.pick([jax.nn.relu, jax.nn.gelu, jax.nn.silu, jnp.tanh, jax.nn.leaky_relu, jax.nn.softplus, jax.nn.mish])

    def square(self, low=(2, 3, 3, 5)):
        return self.pick(low), self.pick(low)


class LinenNet(nn.Module):
    d: Drawn

    @nn.compact
    def __call__(self, x):
        d = self.d.again()
        t = d.program.type()
        if jnp.issubdtype(x.dtype, jnp.integer):
            x = nn.Embed(50, d.pick([8, 32, 64]), dtype=t)(x)
            x = x + self.param("places", nn.initializers.normal(), x.shape[1:]).astype(x.dtype) if d.maybe(2) else x
        for _ in range(d.layers):
            x = d.pick(LINEN[x.ndim])(d, t, x)
        return x


def linen_norm(d, t, x):
    if x.shape[-1] % 4 == 0 and d.maybe(3):
        return nn.GroupNorm(4, dtype=t, epsilon=0.1)(x)
    return d.pick([lambda: nn.LayerNorm(dtype=t, epsilon=0.1), lambda: nn.RMSNorm(dtype=t, epsilon=0.1), lambda: nn.BatchNorm(False, dtype=t, epsilon=0.1)])()(x)


def linen_conv(d, t, x):
    rank, c = x.ndim - 2, d.pick(FEATURES)
    window = tuple(d.pick([1, 2, 3, 3, 5]) for _ in range(rank))
    more = d.pick([dict(), dict(), dict(strides=(2,) * rank), dict(kernel_dilation=(2,) * rank), dict(padding="CIRCULAR"), dict(padding="VALID" if min(x.shape[1:-1]) > 5 else "SAME"), dict(feature_group_count=x.shape[-1])])
    if "feature_group_count" in more:
        c = x.shape[-1] * d.pick([1, 2])
    if rank == 1 and d.maybe(4):
        more = dict(padding="CAUSAL", kernel_dilation=(d.pick([1, 2, 4]),))
    kind = nn.ConvTranspose if d.maybe(5) and not set(more) & {"feature_group_count", "padding", "kernel_dilation"} else nn.Conv
    return d.activation()(kind(c, window, dtype=t, **more)(x))


def linen_dense(d, t, x):
    y = d.pick([lambda: nn.Dense(d.pick(FEATURES), dtype=t), lambda: nn.DenseGeneral((4, d.pick([2, 8, 16])), dtype=t)])()(x)
    return d.activation()(y.reshape(*x.shape[:-1], -1))


def linen_block(d, t, x):
    h = nn.LayerNorm(dtype=t, epsilon=0.1)(x)
    heads = d.pick([1, 2, 4])
    mask = nn.make_causal_mask(jnp.ones(x.shape[:2])) if d.maybe(2) else None
    y = nn.MultiHeadDotProductAttention(heads, qkv_features=heads * d.pick([4, 16, 32]), dtype=t, dropout_rate=0.1 if d.maybe(3) else 0.0, deterministic=False, normalize_qk=d.maybe(4))(h, mask=mask)
    x = x + y
    return x + nn.Dense(x.shape[-1], dtype=t)(nn.gelu(nn.Dense(2 * x.shape[-1], dtype=t)(x)))


def linen_recurrent(d, t, x):
    cell = d.pick([nn.LSTMCell, nn.OptimizedLSTMCell, nn.GRUCell, nn.SimpleCell, nn.MGUCell])
    make = lambda **more: nn.RNN(cell(d.pick([8, 20, 64]), dtype=t), **more)
    if d.maybe(3):
        return nn.Bidirectional(make(), make())(x)
    lengths = jnp.arange(x.shape[0]) % x.shape[1] + 1 if d.maybe(3) else None
    return make(reverse=d.maybe(2), keep_order=True)(x, seq_lengths=lengths)


def linen_pool(d, t, x):
    rank = x.ndim - 2
    f = d.pick([nn.avg_pool, nn.max_pool])
    window = tuple(d.pick([2, 3]) for _ in range(rank))
    return f(x, window, window if d.maybe(2) else (1,) * rank, "SAME")


def linen_stacked(d, t, x):
    """The same layer several times, a loop over its weights."""
    class Layer(nn.Module):
        @nn.compact
        def __call__(self, x, _):
            return x + nn.Dense(x.shape[-1])(nn.gelu(nn.LayerNorm(epsilon=0.1)(x))).astype(x.dtype), None
    layer = nn.remat(Layer) if d.maybe(2) else Layer
    return nn.scan(layer, variable_axes={"params": 0}, split_rngs={"params": True}, length=3)()(x, None)[0]


def resized(d, t, x):
    return jax.image.resize(x, (x.shape[0], x.shape[1] * 2, max(1, x.shape[2] // 2), x.shape[3]), d.pick(["nearest", "bilinear", "cubic"]))


def flattened(d, t, x):
    return x.reshape(x.shape[0], -1) if x.size // x.shape[0] < 1500 and d.maybe(2) else jnp.mean(x, tuple(range(1, x.ndim - 1)))


def linen_dropped(d, t, x):
    return nn.Dropout(d.pick([0.1, 0.5]), deterministic=False, broadcast_dims=d.pick([(), (1,)]) if x.ndim > 2 else ())(x)


def linen_other(d, t, x):
    return d.pick([lambda: nn.SpectralNorm(nn.Dense(d.pick(FEATURES)))(x, update_stats=True), lambda: nn.WeightNorm(nn.Dense(d.pick(FEATURES)))(x), lambda: nn.PReLU()(x), lambda: nn.InstanceNorm(epsilon=0.1)(x) if x.ndim > 2 else x,
                   lambda: nn.Einsum((x.shape[-1], 24), "...c,cd->...d")(x), lambda: nn.glu(nn.Dense(2 * d.pick([8, 33]))(x))])()


LINEN = {2: [linen_dense, linen_dense, linen_norm, linen_stacked, linen_dropped, linen_other],
         3: [linen_dense, linen_norm, linen_conv, linen_conv, linen_block, linen_block, linen_recurrent, linen_recurrent, linen_pool, linen_stacked, linen_dropped, linen_other, flattened],
         4: [linen_conv, linen_conv, linen_conv, linen_norm, linen_norm, linen_pool, linen_dense, linen_dropped, linen_other, resized, flattened]}


class Linen:
    def __init__(self, program):
        self.net = LinenNet(Drawn(program))

    def made(self, x):
        variables = dict(jax.eval_shape(lambda x: self.net.init({"params": jax.random.key(0), "dropout": jax.random.key(1)}, x), x))
        return variables.pop("params", {}), variables

    def apply(self, weights, rest, x, key):
        return self.net.apply({"params": weights, **rest}, x, rngs={"dropout": key}, mutable=[*rest])


class NnxNet(nnx.Module):
    def __init__(self, d, shape, words, rngs):
        self.d, t, c = d, d.again().program.type(), shape[-1]
        self.embedding = nnx.Embed(50, 32, dtype=t, rngs=rngs) if words else None
        c = 32 if words else c
        layers, self.rank = [], 3 if words else len(shape)
        for _ in range(d.layers):
            results = d.pick(FEATURES)
            spatial = (d.pick([1, 3, 5]),) * (self.rank - 2)
            options = [lambda: (nnx.Linear(c, results, dtype=t, rngs=rngs), results), lambda: (nnx.LayerNorm(c, dtype=t, epsilon=0.1, rngs=rngs), c), lambda: (nnx.BatchNorm(c, dtype=t, epsilon=0.1, rngs=rngs), c),
                       lambda: (nnx.Dropout(0.25, rngs=rngs), c), lambda: (nnx.LoRA(c, 4, results, rngs=rngs), results), lambda: (nnx.RMSNorm(c, dtype=t, epsilon=0.1, rngs=rngs), c)]
            if self.rank > 2:
                options += [lambda: (nnx.Conv(c, results, spatial, strides=d.pick([1, 2]), dtype=t, rngs=rngs), results), lambda: (nnx.ConvTranspose(c, results, spatial, dtype=t, rngs=rngs), results)] * 2
            if self.rank == 3:
                options += [lambda: (nnx.MultiHeadAttention(2, c, 2 * d.pick([4, 16]), dtype=t, decode=False, rngs=rngs), c), lambda: (nnx.RNN(d.pick([nnx.LSTMCell, nnx.GRUCell])(c, results, rngs=rngs)), results)] * 2
            layer, c = d.pick(options)()
            layers.append(layer)
        self.layers = nnx.List(layers)
        self.activations = [d.activation() for _ in layers]

    def __call__(self, x):
        x = x if self.embedding is None else self.embedding(x)
        for layer, f in zip(self.layers, self.activations):
            y = layer(x)
            x = f(y) if y.shape != x.shape else x + f(y)
        return x


class Nnx:
    def __init__(self, program):
        self.d = Drawn(program)

    def made(self, x):
        def parts(is_exact):
            self.d.program.is_exact = is_exact
            net = nnx.eval_shape(lambda: NnxNet(self.d, x.shape, x.dtype == np.int32, nnx.Rngs(params=0, dropout=1)))
            return nnx.split(net, nnx.Param, nnx.RngState, ...)
        self.exact_graph = parts(True)[0]
        self.graph, weights, keys, rest = parts(False)
        self.keys = jax.tree.map(lambda k: jax.random.key(1) if jnp.issubdtype(k.dtype, jax.dtypes.prng_key) else jnp.zeros(k.shape, k.dtype), keys)
        return weights, rest

    def apply(self, weights, rest, x, key):
        keys = jax.tree.map(lambda k: key if jnp.issubdtype(k.dtype, jax.dtypes.prng_key) else k, self.keys)
        net = nnx.merge(self.exact_graph if self.d.program.is_exact else self.graph, weights, keys, rest, copy=True)
        return net(x), nnx.state(net, nnx.BatchStat)


class Equinox:
    """Of one example each; the batch is a vmap."""

    def __init__(self, program):
        self.d = Drawn(program)

    def build(self, shape, words):
        d, layers, key = self.d.again(), [], jax.random.key(0)
        shape, lib = tuple(shape), eqx.nn
        if words:
            layers.append(("each", lib.Embedding(50, 32, key=key)))
            shape = (*shape, 32)
        else:
            shape = (shape[-1], *shape[:-1]) if len(shape) > 2 else shape
        for _ in range(d.layers):
            c, results = (shape[0] if len(shape) == 3 else shape[-1]), d.pick(FEATURES)
            if len(shape) == 3:
                size = d.pick([1, 2, 3])
                options = [lambda: ("whole", lib.Conv2d(c, results, size, d.pick([1, 2]), padding="SAME", key=key)), lambda: ("whole", lib.MaxPool2d(2, 2)), lambda: ("whole", lib.AvgPool2d(3, 1, 1)), lambda: ("whole", lib.GroupNorm(1, c, eps=0.1)),
                           lambda: ("whole", lib.ConvTranspose2d(c, results, size, 2, key=key)), lambda: ("whole", lib.AdaptiveAvgPool2d(3)), lambda: ("whole", lib.LayerNorm(shape, eps=0.1)), lambda: ("whole", lib.PReLU(0.1))]
            else:
                options = [lambda: ("each", lib.Linear(c, results, key=key)), lambda: ("each", lib.MLP(c, results, d.pick([8, 64]), 2, activation=d.activation(), key=key)), lambda: ("each", lib.LayerNorm(c, eps=0.1)), lambda: ("each", lib.RMSNorm(c, eps=0.1))]
                if len(shape) == 2:
                    options += [lambda: ("attention", lib.MultiheadAttention(d.pick([1, 2]), c, qk_size=8, vo_size=8, key=key)), lambda: ("scan", d.pick([lib.GRUCell, lib.LSTMCell])(c, results, key=key)), lambda: ("turned", lib.Conv1d(c, results, 3, padding=1, key=key))]
            kind, layer = d.pick(options)()
            layers.append((kind, layer))
            shape = jax.eval_shape(lambda x: self.run(kind, layer, x), jax.ShapeDtypeStruct(shape, jnp.float32)).shape
        self.kinds = [kind for kind, _ in layers]
        return [layer for _, layer in layers]

    def run(self, kind, layer, x):
        if kind == "attention":
            return x + layer(x, x, x)
        if kind == "turned":
            return layer(x.T).T
        if kind == "scan":
            state = jnp.zeros(layer.hidden_size, x.dtype)
            state = (state, state) if isinstance(layer, eqx.nn.LSTMCell) else state
            return lax.scan(lambda s, row: (lambda s: (s, s[0] if isinstance(s, tuple) else s))(layer(row, s)), state, x)[1]
        if kind == "each":
            for _ in range(x.ndim - (0 if isinstance(layer, eqx.nn.Embedding) else 1)):
                layer = jax.vmap(layer)
        return layer(x)

    def made(self, x):
        layers = eqx.filter_eval_shape(lambda: self.build(x.shape[1:], x.dtype == np.int32))
        weights, self.static = eqx.partition(layers, lambda a: isinstance(a, jax.ShapeDtypeStruct))
        return weights, ()

    def apply(self, weights, rest, x, key):
        layers = eqx.combine(weights, self.static)
        type = self.d.program.type()
        if type is not None:
            layers = jax.tree.map(lambda a: a.astype(type) if eqx.is_inexact_array(a) else a, layers)
            x = x.astype(type) if is_float(x) else x
        def one(x):
            x = jnp.moveaxis(x, -1, 0) if x.ndim == 3 else x
            for kind, layer in zip(self.kinds, layers):
                y = self.run(kind, layer, x)
                x = jax.nn.gelu(y) if y.shape != x.shape else y
            return x
        return jax.vmap(one)(x), ()


class Haiku:
    def __init__(self, program):
        self.d = Drawn(program)
        self.f = hk.transform_with_state(self.net)

    def net(self, x):
        d = self.d.again()
        if jnp.issubdtype(x.dtype, jnp.integer):
            x = hk.Embed(50, 32)(x)
        for _ in range(d.layers):
            c = d.pick(FEATURES)
            options = [lambda: hk.Linear(c)(x), lambda: hk.nets.MLP([16, c])(x), lambda: hk.LayerNorm(-1, True, True, eps=0.1)(x), lambda: hk.BatchNorm(True, True, 0.9, eps=0.1)(x, True), lambda: hk.dropout(hk.next_rng_key(), 0.25, x),
                       lambda: hk.RMSNorm(-1, eps=0.1)(x)]
            if x.ndim == 4:
                options += [lambda: hk.Conv2D(c, d.pick([1, 3, 5]), d.pick([1, 2]))(x), lambda: hk.DepthwiseConv2D(2, 3)(x), lambda: hk.SeparableDepthwiseConv2D(1, 3)(x), lambda: hk.Conv2DTranspose(c, 3, 2)(x), lambda: hk.max_pool(x, (2, 2, 1), (2, 2, 1), "SAME"),
                            lambda: hk.avg_pool(x, (3, 3, 1), (1, 1, 1), "SAME"), lambda: hk.InstanceNorm(True, True, eps=0.1)(x), lambda: jnp.mean(x, (1, 2))]
            if x.ndim == 3:
                core = d.pick([hk.LSTM, hk.GRU, hk.VanillaRNN])
                options += [lambda: hk.dynamic_unroll(core(c), x, core(c).initial_state(x.shape[0]), time_major=False)[0], lambda: hk.MultiHeadAttention(2, 16, w_init_scale=1.0)(x, x, x), lambda: hk.Conv1D(c, 3, rate=d.pick([1, 2]))(x)] * 2
            y = d.pick(options)()
            x = d.activation()(y) if y.shape != x.shape else x + y
        return x

    def made(self, x):
        return jax.eval_shape(lambda x: self.f.init(jax.random.key(0), x), x)

    def apply(self, weights, rest, x, key):
        return self.f.apply(weights, rest, key, x)


class Keras:
    """stateless_call and stateless_apply, as Keras's trainer for JAX calls them."""

    def __init__(self, program):
        self.d = Drawn(program)

    def made(self, x):
        # Sums in f16 over many rows, as JAX has them on the CPU, are a seventh away.
        self.exact_model = self.build(x, "float32") if self.d.program.short else None
        self.model = self.build(x, self.d.random.choice(["mixed_bfloat16", "mixed_float16"]) if self.d.program.short else "float32")
        self.optimiser.build(self.model.trainable_variables)
        shapes = lambda variables: {f"{i:03} {v.path}": jax.ShapeDtypeStruct(v.shape, v.dtype) for i, v in enumerate(variables)}
        return shapes(self.model.trainable_variables), shapes(self.model.non_trainable_variables)

    def build(self, x, policy):
        d, lib = self.d.again(), keras.layers
        keras.utils.set_random_seed(1)
        inputs = y = keras.Input(batch_shape=x.shape, dtype=str(x.dtype))
        with self.policy(policy):
            if x.dtype == np.int32:
                y = lib.Embedding(50, 32)(y)
            for _ in range(d.layers):
                c, rank = d.pick(FEATURES), len(y.shape)
                options = [lambda: lib.Dense(c, activation=d.pick(["relu", "gelu", "selu", "swish"])), lambda: lib.LayerNormalization(epsilon=0.1), lambda: lib.BatchNormalization(epsilon=0.1), lambda: lib.Activation("softmax"), lambda: lib.PReLU()]
                if rank == 4:
                    options += [lambda: lib.Conv2D(c, d.square(), strides=d.pick([1, 2]), padding=d.pick(["same", "valid"]) if min(y.shape[1:3]) > 5 else "same", activation="relu"), lambda: lib.DepthwiseConv2D(3, padding="same"),
                                lambda: lib.SeparableConv2D(c, 3, padding="same"), lambda: lib.Conv2DTranspose(c, d.square(), strides=2, padding=d.pick(["same", "valid"])), lambda: lib.MaxPooling2D(2, padding="same"), lambda: lib.AveragePooling2D(3, 1, padding="same"),
                                lambda: lib.GlobalAveragePooling2D(), lambda: lib.UpSampling2D(2, interpolation=d.pick(["nearest", "bilinear"])), lambda: lib.ZeroPadding2D(((1, 2), (0, 3))), lambda: lib.GroupNormalization(1, epsilon=0.1), lambda: lib.Cropping2D(1)]
                if rank == 3:
                    options += [lambda: lib.LSTM(d.pick([8, 32]), return_sequences=d.maybe(2)), lambda: lib.GRU(d.pick([8, 32]), return_sequences=True), lambda: lib.Bidirectional(lib.LSTM(8, return_sequences=True)), lambda: lib.Conv1D(c, 3, padding=d.pick(["same", "causal"])),
                                lambda: lib.GlobalMaxPooling1D(), lambda: lib.SimpleRNN(16), lambda: (lambda y: lib.MultiHeadAttention(2, 16)(y, y, use_causal_mask=True))] * 2
                y = d.pick(options)()(y)
        self.optimiser = d.pick([lambda: keras.optimizers.Adam(0.1), lambda: keras.optimizers.SGD(0.1, 0.9, True), lambda: keras.optimizers.RMSprop(0.1, centered=True), lambda: keras.optimizers.AdamW(0.1, clipnorm=0.5), lambda: keras.optimizers.Lion(0.1),
                                 lambda: keras.optimizers.Adafactor(0.1), lambda: keras.optimizers.Nadam(0.1), lambda: keras.optimizers.Adagrad(0.1, use_ema=True), lambda: keras.optimizers.Adamax(0.1), lambda: keras.optimizers.Adam(0.1, amsgrad=True, global_clipnorm=0.1)])()
        return keras.Model(inputs, y)

    @contextlib.contextmanager
    def policy(self, name):
        before = keras.config.dtype_policy()
        keras.config.set_dtype_policy(name)
        try:
            yield
        finally:
            keras.config.set_dtype_policy(before)

    def optimiser_state(self):
        return {f"{i:03} {v.path}": jax.ShapeDtypeStruct(v.shape, v.dtype) for i, v in enumerate(self.optimiser.variables)}

    def apply(self, weights, rest, x, key):
        model = self.exact_model if self.d.program.is_exact and self.exact_model else self.model
        y, changed = model.stateless_call(list(weights.values()), list(rest.values()), x, training=True)
        return y, dict(zip(rest, changed))

    def optimised(self, slopes, state, weights):
        made, changed = self.optimiser.stateless_apply(list(state.values()), list(slopes.values()), list(weights.values()))
        return dict(zip(weights, made)), dict(zip(state, changed))
