"""Hugging Face's Flax models in tiny configurations."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import transformers

from declare import integers, normal, step

OPTIMISER = optax.adamw(1e-3)
DONATED = (0,)


def declare_model(name, kind, configuration, inputs, loss, train=False, **shape):
    made = {}

    def model():
        if not made:
            made["model"] = kind(configuration(), seed=0, _do_init=True, **shape)
        return made["model"]

    def trained(state, *batch):
        weights, optimiser = state
        network = model()
        value, gradient = jax.value_and_grad(lambda w: loss(network(*batch[:1], params=w, **inputs(batch)), batch))(weights)
        update, optimiser = OPTIMISER.update(gradient, optimiser, weights)
        return (optax.apply_updates(weights, update), optimiser), value

    return trained, model


def declare_text(name, kind, configuration, loss, extra=None, batch=lambda: (integers(90, 2, 16) + 3,)):
    trained, model = declare_model(name, kind, configuration, lambda b: extra(b) if extra else {}, loss)

    def arguments():
        weights = model().params
        return ((weights, OPTIMISER.init(weights)), *batch())

    step(arguments, "hf_" + name)(trained)


def next_token(result, batch):
    return optax.softmax_cross_entropy_with_integer_labels(result.logits[:, :-1], batch[0][:, 1:]).mean()


def same_token(result, batch):
    return optax.softmax_cross_entropy_with_integer_labels(result.logits, batch[0]).mean()


def labelled(result, batch):
    return optax.softmax_cross_entropy_with_integer_labels(result.logits, batch[1]).mean()


SMALL = dict(hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64, vocab_size=100, max_position_embeddings=32)

declare_text("bert", transformers.FlaxBertForMaskedLM, lambda: transformers.BertConfig(**SMALL), same_token)
declare_text("roberta", transformers.FlaxRobertaForCausalLM, lambda: transformers.RobertaConfig(**SMALL, is_decoder=True), next_token)
declare_text(
    "gpt2", transformers.FlaxGPT2LMHeadModel, lambda: transformers.GPT2Config(vocab_size=100, n_positions=32, n_embd=32, n_layer=1, n_head=2), next_token
)
declare_text("llama", transformers.FlaxLlamaForCausalLM, lambda: transformers.LlamaConfig(**SMALL), next_token)
declare_text(
    "distilbert",
    transformers.FlaxDistilBertForMaskedLM,
    lambda: transformers.DistilBertConfig(vocab_size=100, dim=32, hidden_dim=64, n_layers=1, n_heads=2, max_position_embeddings=32),
    same_token,
)
declare_text(
    "vit",
    transformers.FlaxViTForImageClassification,
    lambda: transformers.ViTConfig(hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64, image_size=16, patch_size=4, num_labels=5),
    labelled,
    batch=lambda: (normal(4, 3, 16, 16), integers(5, 4)),
)
declare_text(
    "resnet",
    transformers.FlaxResNetForImageClassification,
    lambda: transformers.ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic", num_labels=5),
    lambda result, batch: labelled(result, batch),
    batch=lambda: (normal(2, 3, 32, 32), integers(5, 2)),
)
