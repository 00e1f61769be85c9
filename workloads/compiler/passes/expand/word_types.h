#pragma once

#include <string>
#include <vector>

#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// Pass: arrays of types that the lanes do not hold become arrays of words that they do, in every
/// computation, parameters and results included.
///
/// - s8, s16 are s32, u8, u16 are u32; what overflows is cut to the type's bits again.
/// - u64 is two u32 arrays, low and high words: `u32[2,...]` between computations, `u32[...,2]`
/// (the
///   bytes that a host has) where it is a parameter or result of the entry. Sums, products, shifts,
///   logic, comparisons and whatever moves elements are exact; division, reduction and sorting are
///   refused.
/// - c64 is two f32 arrays, real and imaginary parts, in the same places. Arithmetic, functions,
///   products, sums and Fourier transforms become those of the parts (`complex_arithmetic.h`,
///   `fourier_expander.h`); factorizations and other reductions are refused.
/// - s64 is s32 and f64 is f32, as frontends without 64-bit types compute; constants beyond become
///   the extreme value where they are an extreme of their type and are refused otherwise.
/// - f16 and floating types of 8 bits are f32, rounded where the module converts to them
///   (`float_rounding.h`).
/// - bitcast-converts between widths become shifts of words; of u64 to f64 the nearest that fp32
///   has.
/// - dots of s8 or u8 are dots of floating values, which are exact (`integer_dots.h`).
///
/// Needs: a verified module. Leaves: no such type; those that stay unknown (4-bit, f8e8m0fnu,
/// c128) are refused by refuse_unknown_operations. Throws WorkloadError for operations on u64
/// that have no such form.
///
/// Returns what the user should know: which types were narrowed.
std::vector<std::string> hold_in_words(hlo::Module& module);

}  // namespace tpu::compiler
