#pragma once

#include <cstddef>
#include <cstdint>

namespace tpu::isa {

/// Every instruction of the TensorCore, in the order of opcodes.def.
enum class Opcode : std::uint16_t {
#define TPU_OPCODE(enumerator, text, slot, signature, unit, queue, latency, status, meaning) \
  enumerator,
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

/// Who executes an instruction.
enum class UnitKind : std::uint8_t {
  kScalar,
  kControl,  ///< Branches, calls, traps: the sequencer.
  kVectorAlu,
  kVectorLoad,
  kVectorStore,
  kCmem,  ///< Loads and stores of CMEM.
  kMxu,
  kXlu,  ///< Transpose, reduce and permute unit.
  kEup,  ///< Transcendental unit.
  kDma,
  kSync,
  kTrace,
  kCount
};

/// The queues between a push and its pop. Each delivers in the order of the pushes.
enum class Queue : std::uint8_t {
  kNone,
  kMxuResult,  ///< One per MXU.
  kEup,
  kXlu,             ///< Lane reductions, rotations and permutations; one per XLU.
  kTranspose,       ///< One per XLU.
  kVectorToScalar,  ///< vpush and vsyncmov to spop.
  kCmem,            ///< Loads of CMEM.
  kCount
};

/// From the issue of an instruction to the first bundle that may read or pop its result.
enum class Latency : std::uint8_t {
  kNone,       ///< No result.
  kOne,        ///< The next bundle.
  kTwo,        ///< The next but one.
  kMatmul,     ///< Latencies::matmul_cycles.
  kXlu,        ///< Latencies::xlu_cycles.
  kTranspose,  ///< Latencies::transpose_cycles.
  kEup,        ///< Latencies::eup_cycles.
  kCmem,       ///< Latencies::cmem_cycles.
};

/// How sure the meaning of an instruction is.
enum class Status : std::uint8_t {
  kConfirmed,  ///< By the values of programs that contain it.
  kRead,       ///< From the text of listings, and consistent.
  kGuessed,    ///< Nothing contradicts it.
  kOurs,       ///< No real core has it: for machines that do not exist.
};

/// Who executes an opcode: the column `unit` of the table, for hot loops.
constexpr UnitKind unit_of(Opcode opcode) {
  constexpr UnitKind units[] = {
#define TPU_OPCODE(enumerator, text, slot, signature, unit, queue, latency, status, meaning) \
  UnitKind::unit,
#include "isa/opcodes.def"
#undef TPU_OPCODE
  };
  return units[static_cast<std::size_t>(opcode)];
}

/// True for the instructions of the scalar unit that make a predicate of scalars: comparisons and
/// tests of fp32 numbers.
constexpr bool compares_scalars(Opcode opcode) {
  constexpr const char* signatures[] = {
#define TPU_OPCODE(enumerator, text, slot, signature, unit, queue, latency, status, meaning) \
  signature,
#include "isa/opcodes.def"
#undef TPU_OPCODE
  };
  const char* signature = signatures[static_cast<std::size_t>(opcode)];
  return signature[0] == 'p' && signature[2] == 's';
}

}  // namespace tpu::isa
