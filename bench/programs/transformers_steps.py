"""One training step each of thirty models of Hugging Face's transformers 4.57 (the last with JAX), two layers of 384 features or so, with dropout and AdamW.

    python bench/programs/transformers_steps.py bert > bert.mlir          as JAX prints it, lowered for the computer's CPU
    tpusim run bert.mlir --config v3-8 --cores 1
    PYTHONPATH=workloads/capture python -m tpusim_capture bert.mlir --chip v3 -o STEPS/bert
    bench/xla_ratio.py --folder STEPS bert

Nobody here wrote the models; transformers_steps.md says what came out. Needs jax, flax, optax and transformers.
"""

import os

os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import jax.numpy as jnp
import optax
import transformers as hf
from named_steps import print_named

BATCH, TOKENS, WORDS = 16, 128, 8000
TEXT = dict(vocab_size=WORDS, hidden_size=384, num_hidden_layers=2, num_attention_heads=6, intermediate_size=1536)
GPT = dict(vocab_size=WORDS, n_positions=TOKENS, n_embd=384, n_layer=2, n_head=6)
TRANSLATION = dict(
    vocab_size=WORDS,
    d_model=384,
    encoder_layers=2,
    decoder_layers=2,
    encoder_attention_heads=6,
    decoder_attention_heads=6,
    encoder_ffn_dim=1536,
    decoder_ffn_dim=1536,
    max_position_embeddings=256,
)
VISION = dict(hidden_size=384, num_hidden_layers=2, num_attention_heads=6, num_labels=100)


def integers(*shape):
    return jax.ShapeDtypeStruct(shape, jnp.int32)


def floats(*shape):
    return jax.ShapeDtypeStruct(shape, jnp.float32)


def words(batch=BATCH, tokens=TOKENS):
    return {"x": integers(batch, tokens), "mask": integers(batch, tokens), "y": integers(batch, tokens)}


def images(side=224):
    return {"x": floats(BATCH, 3, side, side), "y": integers(BATCH)}


def cross_entropy(logits, labels):
    return optax.softmax_cross_entropy_with_integer_labels(logits.astype(jnp.float32), labels).mean()


def masked(model, batch, **others):
    return cross_entropy(model(batch["x"], batch["mask"], **others).logits, batch["y"])


def sparse(model, batch, dropout_rng, **others):
    return masked(model, batch, dropout_rng=dropout_rng, indices_rng=dropout_rng, **others)


def causal(model, batch, **others):
    places = jnp.broadcast_to(jnp.arange(batch["x"].shape[1]), batch["x"].shape)
    return cross_entropy(model(batch["x"], batch["mask"], places, **others).logits, batch["y"])


def translated(model, batch, **others):
    return cross_entropy(model(batch["x"], batch["mask"], decoder_input_ids=batch["y"], **others).logits, batch["y"])


def classified(model, batch, **others):
    return cross_entropy(model(batch["x"], **others).logits, batch["y"])


def normalised(model, batch, dropout_rng, **others):
    return cross_entropy(model(batch["x"], **others)[0].logits, batch["y"])


def contrasted(model, batch, **others):
    out = model(batch["x"], batch["image"], batch["mask"], **others)
    labels = jnp.arange(BATCH)
    return cross_entropy(out.logits_per_text, labels) + cross_entropy(out.logits_per_image, labels)


def aligned(model, batch, **others):
    logits = model(batch["x"], batch["mask"], **others).logits
    return optax.ctc_loss(logits, jnp.zeros(logits.shape[:2]), batch["y"], jnp.zeros(batch["y"].shape)).mean()


def transcribed(model, batch, **others):
    return cross_entropy(model(batch["x"], batch["y"], **others).logits, batch["y"])


STEPS = {
    "bert": lambda: (hf.FlaxBertForMaskedLM, hf.BertConfig(**TEXT), masked, words()),
    "roberta": lambda: (hf.FlaxRobertaForMaskedLM, hf.RobertaConfig(**TEXT), masked, words()),
    "albert": lambda: (hf.FlaxAlbertForMaskedLM, hf.AlbertConfig(embedding_size=128, **TEXT), masked, words()),
    "electra": lambda: (hf.FlaxElectraForMaskedLM, hf.ElectraConfig(embedding_size=128, **TEXT), masked, words()),
    "distilbert": lambda: (
        hf.FlaxDistilBertForMaskedLM,
        hf.DistilBertConfig(vocab_size=WORDS, dim=384, n_layers=2, n_heads=6, hidden_dim=1536),
        masked,
        words(),
    ),
    "roformer": lambda: (hf.FlaxRoFormerForMaskedLM, hf.RoFormerConfig(**TEXT), masked, words()),
    "bigbird": lambda: (
        hf.FlaxBigBirdForMaskedLM,
        hf.BigBirdConfig(attention_type="block_sparse", block_size=16, num_random_blocks=2, max_position_embeddings=512, **TEXT),
        sparse,
        words(4, 512),
    ),
    "gpt2": lambda: (hf.FlaxGPT2LMHeadModel, hf.GPT2Config(**GPT), causal, words()),
    "gptj": lambda: (hf.FlaxGPTJForCausalLM, hf.GPTJConfig(rotary_dim=32, **GPT), causal, words()),
    "gptneo": lambda: (
        hf.FlaxGPTNeoForCausalLM,
        hf.GPTNeoConfig(
            vocab_size=WORDS,
            max_position_embeddings=256,
            hidden_size=384,
            num_layers=2,
            num_heads=6,
            attention_types=[[["global", "local"], 1]],
            window_size=64,
        ),
        causal,
        words(),
    ),
    "llama": lambda: (hf.FlaxLlamaForCausalLM, hf.LlamaConfig(num_key_value_heads=6, max_position_embeddings=256, **TEXT), causal, words()),
    "mistral": lambda: (
        hf.FlaxMistralForCausalLM,
        hf.MistralConfig(num_key_value_heads=2, sliding_window=64, max_position_embeddings=256, **TEXT),
        causal,
        words(),
    ),
    "gemma": lambda: (hf.FlaxGemmaForCausalLM, hf.GemmaConfig(num_key_value_heads=1, head_dim=64, max_position_embeddings=256, **TEXT), causal, words()),
    "xglm": lambda: (
        hf.FlaxXGLMForCausalLM,
        hf.XGLMConfig(vocab_size=WORDS, d_model=384, num_layers=2, ffn_dim=1536, attention_heads=6, max_position_embeddings=256),
        causal,
        words(),
    ),
    "bart": lambda: (hf.FlaxBartForConditionalGeneration, hf.BartConfig(**TRANSLATION), translated, words()),
    "mbart": lambda: (hf.FlaxMBartForConditionalGeneration, hf.MBartConfig(**TRANSLATION), translated, words()),
    "marian": lambda: (hf.FlaxMarianMTModel, hf.MarianConfig(pad_token_id=0, decoder_start_token_id=0, **TRANSLATION), translated, words()),
    "pegasus": lambda: (hf.FlaxPegasusForConditionalGeneration, hf.PegasusConfig(**TRANSLATION), translated, words()),
    "blenderbot": lambda: (hf.FlaxBlenderbotForConditionalGeneration, hf.BlenderbotConfig(**TRANSLATION), translated, words()),
    "vit": lambda: (hf.FlaxViTForImageClassification, hf.ViTConfig(intermediate_size=1536, **VISION), classified, images()),
    "beit": lambda: (
        hf.FlaxBeitForImageClassification,
        hf.BeitConfig(use_relative_position_bias=True, use_mean_pooling=True, intermediate_size=1536, **VISION),
        classified,
        images(),
    ),
    "dinov2": lambda: (hf.FlaxDinov2ForImageClassification, hf.Dinov2Config(image_size=224, **VISION), classified, images()),
    "resnet": lambda: (
        hf.FlaxResNetForImageClassification,
        hf.ResNetConfig(num_labels=100, depths=[2, 2, 2, 2], hidden_sizes=[64, 128, 256, 512], layer_type="basic", embedding_size=64),
        normalised,
        images(),
    ),
    "regnet": lambda: (
        hf.FlaxRegNetForImageClassification,
        hf.RegNetConfig(num_labels=100, depths=[1, 2, 3, 1], hidden_sizes=[48, 104, 208, 440], groups_width=8),
        normalised,
        images(),
    ),
    "clip": lambda: (
        hf.FlaxCLIPModel,
        hf.CLIPConfig(
            text_config=dict(max_position_embeddings=77, eos_token_id=2, **TEXT),
            projection_dim=256,
            vision_config=dict(image_size=224, patch_size=32, intermediate_size=1536, **{k: v for k, v in VISION.items() if k != "num_labels"}),
        ),
        contrasted,
        {"x": integers(BATCH, 77), "mask": integers(BATCH, 77), "image": floats(BATCH, 3, 224, 224)},
    ),
    "wav2vec2": lambda: (
        hf.FlaxWav2Vec2ForCTC,
        hf.Wav2Vec2Config(
            vocab_size=32,
            hidden_size=384,
            num_hidden_layers=2,
            num_attention_heads=6,
            intermediate_size=1536,
            conv_dim=[256] * 7,
            num_conv_pos_embeddings=32,
            feat_extract_norm="layer",
            do_stable_layer_norm=True,
            mask_time_prob=0.0,
            layerdrop=0.0,
        ),
        aligned,
        {"x": floats(4, 32000), "mask": integers(4, 32000), "y": integers(4, 40)},
    ),
    "whisper": lambda: (
        hf.FlaxWhisperForConditionalGeneration,
        hf.WhisperConfig(
            vocab_size=WORDS,
            d_model=256,
            encoder_layers=2,
            decoder_layers=2,
            encoder_attention_heads=4,
            decoder_attention_heads=4,
            encoder_ffn_dim=1024,
            decoder_ffn_dim=1024,
            max_source_positions=500,
            max_target_positions=128,
            num_mel_bins=80,
        ),
        transcribed,
        {"x": floats(4, 80, 1000), "y": integers(4, 64)},
    ),
}


def stablehlo(name):
    """The step as text; activations in bf16, parameters, statistics and the optimiser's state in fp32, donated."""
    make, config, loss, batch = STEPS[name]()
    model = make(config, _do_init=False, dtype=jnp.bfloat16)
    parameters = jax.eval_shape(lambda key: model.init_weights(key, model.input_shape), jax.random.PRNGKey(0))
    optimizer = optax.adamw(1e-3)

    def step(parameters, state, batch, key):
        def of(parameters):
            return loss(model, batch, params=parameters, dropout_rng=key, train=True)

        value, gradients = jax.value_and_grad(of)(parameters)
        updates, state = optimizer.update(gradients, state, parameters)
        return optax.apply_updates(parameters, updates), state, value

    state = jax.eval_shape(optimizer.init, parameters)
    key = jax.eval_shape(lambda: jax.random.PRNGKey(0))
    return jax.jit(step, donate_argnums=(0, 1)).lower(parameters, state, batch, key).as_text()


if __name__ == "__main__":
    print_named(STEPS, stablehlo, __doc__)
