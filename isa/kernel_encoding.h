#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "isa/program.h"

namespace tpu::isa {

/// The binary form of whole kernels, in bytes: what program files hold. It is made for reading:
/// each instruction that occurs in the kernels stands there once, in the bits of `encoding.h`, and
/// bundles name it by number, so that a million instructions are copied, not decoded. Numbers of 32
/// bits have the low byte first; a `varint` has seven bits in a byte, low ones first, the highest
/// bit set in all bytes but its last.
///
///     mark, version, fingerprint of the opcode table    4 bytes each
///     instructions    varint count, varint words, then the words: each instruction's two words,
///                     its immediates behind them; in the order of their first use
///     kernels         varint count, then of each
///       name          varint bytes, the bytes
///       bundles       varint count, then of each a byte: instructions (bits 0-4), a delay follows
///                     as varint (5)
///       code          varint count, then the number of each instruction, 4 bytes
///       names         a byte: 1 where there are names; then of each instruction 2 bytes, which of
///                     the nine names it has, and these names as varints
///       renamings     varint count, then bundle, after, file, register, name of each as varints
///       operand names varint count, then register and name of each as varints
std::vector<std::uint8_t> encode_kernels(const std::vector<Kernel>& kernels);

/// The inverse. Throws WorkloadError "SOURCE: byte N: expected ..., found ..." for anything else.
std::vector<Kernel> decode_kernels(const std::vector<std::uint8_t>& bytes,
                                   const std::string& source);

}  // namespace tpu::isa
