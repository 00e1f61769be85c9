#pragma once

#include <cstddef>
#include <cstdint>

namespace tpu::isa {

/// Every instruction of the TensorCore, in the order of opcodes.def.
enum class Opcode : std::uint16_t {
#define TPU_OPCODE(enumerator, text, slot, signature, meaning) enumerator,
#include "isa/opcodes.def"
#undef TPU_OPCODE
  kCount
};

constexpr std::size_t kOpcodeCount = static_cast<std::size_t>(Opcode::kCount);

/// The slots of a bundle (Norrie et al., IEEE Micro 2021): two scalar, two vector ALU, one each of
/// the others.
enum class Slot : std::uint8_t {
  kScalar,
  kVectorAlu,
  kVectorLoad,
  kVectorStore,
  kPush,
  kPop,
  kMisc,
  kCount
};

}  // namespace tpu::isa
