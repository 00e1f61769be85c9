#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "isa/instruction.h"
#include "isa/opcode.h"
#include "workloads/compiler/codegen/values.h"

namespace tpu::compiler {

/// A source of a node: a value or an immediate.
struct Source {
  enum class Kind : std::uint8_t { kNone, kValue, kImmediate };
  Kind kind = Kind::kNone;
  bool negated = false;  ///< Predicates only.
  std::uint32_t payload = 0;

  static Source of_value(std::uint32_t id, bool negated = false) {
    return {Kind::kValue, negated, id};
  }
  static Source of_immediate(std::uint32_t bits) { return {Kind::kImmediate, false, bits}; }
  bool is_value() const { return kind == Kind::kValue; }
};

/// One instruction with virtual operands, in program order within its block.
struct Node {
  isa::Opcode opcode = isa::Opcode::kCount;
  std::uint8_t unit = 0;
  std::uint32_t dest = 0;  ///< Value; 0: none.
  Source guard;
  std::array<Source, 4> sources;

  /// Address in VMEM or SMEM, with the region's row in the offset.
  isa::Address address;  ///< Without registers.
  std::array<std::uint32_t, 2> base{};
  std::uint32_t mask_register = 0;

  /// VMEM region of a load, store or DMA; 0: none.
  std::uint32_t region = 0;
  bool reads_vmem = false;  ///< Of a DMA by descriptor: the region is its source.
};

/// A straight run of nodes. Control enters at its first bundle and leaves behind its last.
struct Block {
  std::vector<Node> nodes;
  /// Variables that the block assigns, with the value that each holds at the end.
  std::vector<std::pair<std::uint32_t, std::uint32_t>> assigned;
  /// Value that stands for a variable at the block's begin, where the block reads it.
  std::unordered_map<std::uint32_t, std::uint32_t> entry_values;

  bool branches = false;
  Source condition;          ///< Of the branch; none: always.
  std::uint32_t target = 0;  ///< Block.
};

constexpr std::uint32_t kNowhere = 0xffffffff;

/// What is known of a value, beside its one definition.
struct ValueInfo {
  RegisterFile file = RegisterFile::kScalar;
  std::uint32_t block = kNowhere;         ///< That defines it; kNowhere: the caller (operands).
  std::uint32_t variable = kNowhere;      ///< Stands for this variable at the begin of `block`.
  std::uint8_t fixed = isa::kNoRegister;  ///< The register of a value that crosses blocks.
};

struct VariableInfo {
  RegisterFile file = RegisterFile::kScalar;
  std::uint32_t block = 0;  ///< In which it begins to live.
  std::uint8_t fixed = isa::kNoRegister;
};

/// Blocks [first, last] that repeat.
struct LoopRange {
  std::uint32_t first = 0;
  std::uint32_t last = 0;
  std::uint64_t trips = 1;
};

/// A kernel as the builder records it.
struct KernelDraft {
  std::string name;
  std::vector<Block> blocks;
  std::vector<ValueInfo> values;  ///< Index = id; 0 unused.
  std::vector<VariableInfo> variables;
  std::vector<LoopRange> loops;
  std::vector<std::pair<std::uint32_t, std::uint8_t>> operands;  ///< (value, scalar register).
  std::optional<std::uint32_t> crowded_block;  ///< Linked in vain: it found no registers.
  std::uint64_t cycles = 0;                    ///< Linked: of all trips, without waits.
};

}  // namespace tpu::compiler
