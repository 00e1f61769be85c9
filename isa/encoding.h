#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "isa/program.h"

namespace tpu::isa {

/// The binary form of bundles. It is our own: the chip's encoding is not public. The real bundle
/// has 322 bits: two scalar, two vector ALU, load, store, push, pop and misc slots and six
/// immediates of 16 bits. Ours holds the same slots, but only those that are used, and immediates
/// of 32 bits, as XLA's listings print them; it is a sequence of 32-bit words:
///
///     header       2 words: instruction count (bits 0-4), immediate count (5-12), delay (32-63)
///     instruction  2 words each, in the order of the bundle:
///                    0-7 opcode, 8-9 unit, 10-14 guard (predicate, 14 negated), 15 guard present,
///                    16-20 destination, 21-40 four operands of 5 bits (register), 41-44 operand is
///                    an immediate, 45-48 operand is negated, 49-54 and 55-60 address registers
///                    (highest bit: present), 61 offset, 62 stride, 63 mask and pattern follow
///                    (an address's mask register stands in the fourth operand, marked by bit 48)
///     immediate    1 word each: per instruction its immediate operands in order, then offset,
///                    stride, mask | pattern << 8
///
/// What an opcode does not use is 0; other bits are refused, so that bits -> text -> bits is the
/// identity as text -> bits -> text is.
std::vector<std::uint32_t> encode_bundles(const Kernel& kernel);

/// The inverse. Throws WorkloadError "SOURCE: word N: expected ..., found ..." for anything that
/// encode_bundles does not produce. Fills bundles and instructions only.
Kernel decode_bundles(const std::vector<std::uint32_t>& words, const std::string& source);

/// Instructions without bundles: the two words of each, its immediates behind them.
std::vector<std::uint32_t> encode_instructions(const std::vector<Instruction>& instructions);
std::vector<std::uint32_t> encode_instructions(const std::vector<const Instruction*>& instructions);

/// The inverse, for `count` of them; throws as decode_bundles().
std::vector<Instruction> decode_instructions(const std::vector<std::uint32_t>& words,
                                             std::size_t count, const std::string& source);

/// The same, one after another out of bytes that have to stay. The first `count` of them take all.
class InstructionReader {
 public:
  InstructionReader(const std::uint8_t* words, std::size_t word_count, std::size_t count,
                    const std::string& source);
  ~InstructionReader();
  Instruction next();
  /// Throws unless `count` instructions were read, and no word is left.
  void check_end() const;

 private:
  struct Reading;
  std::unique_ptr<Reading> reading_;
};

}  // namespace tpu::isa
