#pragma once

namespace tpu::hlo {

/// How a dot is computed in terms of products of other types, as PrecisionConfig.Algorithm of
/// XLA's xla_data.proto names them from 1 on (ALG_...; 0 is unset). `_x3` and its like are so many
/// products of parts.
inline constexpr const char* kDotAlgorithms[] = {
    "dot_any_f8_any_f8_f32", "dot_any_f8_any_f8_f32_fast_accum",
    "dot_f16_f16_f16",       "dot_f16_f16_f32",
    "dot_bf16_bf16_bf16",    "dot_bf16_bf16_f32",
    "dot_bf16_bf16_f32_x3",  "dot_bf16_bf16_f32_x6",
    "dot_tf32_tf32_f32",     "dot_tf32_tf32_f32_x3",
    "dot_f32_f32_f32",       "dot_f64_f64_f64",
    "dot_bf16_bf16_f32_x9"};

}  // namespace tpu::hlo
