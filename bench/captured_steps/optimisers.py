"""Every optimiser of optax on a network 24-40-6, in the state that it has after three steps."""

import jax
import jax.numpy as jnp
import optax
from optax import contrib

from declare import cross_entropy, dense, dense_weights, integers, normal, step

DONATED = (0, 1)


def loss(weights, images, labels):
    return cross_entropy(dense(weights, images, jnp.tanh), labels)


def batch():
    return normal(32, 24), integers(6, 32)


def declare_optimiser(name, optimiser, needs_value=False):
    def train(weights, state, images, labels):
        value, gradient = jax.value_and_grad(loss)(weights, images, labels)
        extra = {"value": value, "grad": gradient, "value_fn": lambda w: loss(w, images, labels)} if needs_value else {}
        update, state = optax.with_extra_args_support(optimiser).update(gradient, state, weights, **extra)
        return optax.apply_updates(weights, update), state, value

    def arguments():
        weights = dense_weights(24, 40, 6)
        state = optimiser.init(weights)
        run = jax.jit(train)
        for _ in range(3):
            weights, state, _ = run(weights, state, *batch())
        return (weights, state, *batch())

    step(arguments, "optax_" + name)(train)


RATE = 0.01
for plain in (
    "adam adamw sgd rmsprop lamb adafactor adagrad lion adabelief adadelta adamax adamaxw adan amsgrad fromage lars nadam nadamw "
    "novograd optimistic_adam_v2 radam rprop sign_sgd sm3 yogi"
).split():
    declare_optimiser(plain, getattr(optax, plain)(RATE))
declare_optimiser("nesterov", optax.sgd(RATE, momentum=0.9, nesterov=True))
declare_optimiser("rmsprop_centred", optax.rmsprop(RATE, centered=True, momentum=0.9))
declare_optimiser("noisy_sgd", optax.noisy_sgd(RATE))
declare_optimiser("polyak_sgd", optax.polyak_sgd(1.0), needs_value=True)
declare_optimiser("lbfgs", optax.lbfgs(memory_size=4), needs_value=True)
declare_optimiser("backtracking", optax.chain(optax.sgd(1.0), optax.scale_by_backtracking_linesearch(8)), needs_value=True)
for plain in "ademamix adopt acprop cocob dadapt_adamw dog dowg madgrad muon prodigy schedule_free_adamw".split():
    made = getattr(contrib, plain)
    declare_optimiser(plain, made() if plain in ("cocob", "dadapt_adamw", "prodigy") else made(RATE))
declare_optimiser("momo_adam", contrib.momo_adam(RATE), needs_value=True)

SCHEDULE = optax.warmup_cosine_decay_schedule(0.0, 0.1, 10, 100)
declare_optimiser("clip_adam", optax.chain(optax.clip_by_global_norm(0.05), optax.adam(RATE)))
declare_optimiser("clip_adaptive", optax.chain(optax.adaptive_grad_clip(0.01), optax.sgd(SCHEDULE, momentum=0.9)))
declare_optimiser("clip_block_rms", optax.chain(optax.clip(0.01), optax.clip_by_block_rms(0.005), optax.adamw(SCHEDULE)))
declare_optimiser("multi_steps", optax.MultiSteps(optax.adam(RATE), every_k_schedule=2).gradient_transformation())
declare_optimiser("if_finite", optax.apply_if_finite(optax.adam(RATE), 3))
declare_optimiser("inject", optax.inject_hyperparams(optax.adamw)(learning_rate=SCHEDULE))
declare_optimiser("plateau", optax.chain(optax.adam(RATE), contrib.reduce_on_plateau(patience=2)), needs_value=True)
declare_optimiser(
    "masked", optax.chain(optax.masked(optax.add_decayed_weights(0.1), [(True, False)] * 2), optax.adam(RATE), optax.ema(0.9))
)
