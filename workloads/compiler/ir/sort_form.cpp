#include "workloads/compiler/ir/sort_form.h"

#include <algorithm>
#include <string>

#include "sim/base/ceil_divide.h"
#include "sim/base/power_of_two.h"
#include "workloads/compiler/cost.h"

namespace tpu::compiler {

using hlo::ComparisonDirection;
using hlo::Computation;
using hlo::ElementType;
using hlo::HloInstruction;
using hlo::HloOpcode;
using hlo::InstructionId;

namespace {

/// Whether the instruction compares the two elements of the key in this direction.
bool compares_key(const Computation& comparator, InstructionId id, std::int64_t key,
                  ComparisonDirection direction) {
  const HloInstruction& compare = comparator.at(id);
  if (compare.opcode != HloOpcode::kCompare || compare.direction != direction) return false;
  for (std::size_t side = 0; side < 2; ++side) {
    const HloInstruction& element = comparator.at(compare.operands[side]);
    const std::int64_t number = 2 * key + static_cast<std::int64_t>(side);
    if (element.opcode != HloOpcode::kParameter || element.parameter_number != number) return false;
  }
  return true;
}

/// Of how many keys the comparison `id` is, counted from `key` on; 0: it is none of that kind.
std::int64_t keys_compared(const Computation& comparator, InstructionId id, std::int64_t key) {
  if (compares_key(comparator, id, key, ComparisonDirection::kLt)) return 1;
  const HloInstruction& either = comparator.at(id);
  if (either.opcode != HloOpcode::kOr) return 0;
  const HloInstruction& tie = comparator.at(either.operands[1]);
  if (tie.opcode != HloOpcode::kAnd) return 0;
  if (!compares_key(comparator, either.operands[0], key, ComparisonDirection::kLt)) return 0;
  if (!compares_key(comparator, tie.operands[0], key, ComparisonDirection::kEq)) return 0;
  const std::int64_t others = keys_compared(comparator, tie.operands[1], key + 1);
  return others == 0 ? 0 : others + 1;
}

InstructionId add_key_comparison(Computation& made, std::int64_t key,
                                 ComparisonDirection direction) {
  HloInstruction compare;
  compare.opcode = HloOpcode::kCompare;
  compare.direction = direction;
  compare.operands = {static_cast<InstructionId>(2 * key), static_cast<InstructionId>(2 * key + 1)};
  compare.shape = hlo::array_shape(ElementType::kPred, {});
  compare.id = static_cast<InstructionId>(made.instructions.size());
  compare.name = "compare." + std::to_string(compare.id);
  made.instructions.push_back(compare);
  return compare.id;
}

InstructionId add_combination(Computation& made, HloOpcode opcode, InstructionId a,
                              InstructionId b) {
  HloInstruction logic;
  logic.opcode = opcode;
  logic.operands = {a, b};
  logic.shape = hlo::array_shape(ElementType::kPred, {});
  logic.id = static_cast<InstructionId>(made.instructions.size());
  logic.name = std::string(hlo::to_string(opcode)) + "." + std::to_string(logic.id);
  made.instructions.push_back(logic);
  return logic.id;
}

}  // namespace

std::int64_t SortForm::registers() const { return round_up_to_power_of_two(ceil_divide(rows, 8)); }

int SortForm::kept_bits() const {
  const int register_bits = ceil_log2(registers());
  const int bits = register_bits + 3 + ceil_log2(columns);
  const int wanted = kept == 0 ? bits : ceil_log2(kept);
  return wanted < register_bits ? wanted : bits;
}

std::int64_t SortForm::stages() const {
  const std::int64_t bits = ceil_log2(8 * registers() * columns);
  return bits * (bits + 1) / 2;
}

int SortForm::lane_bits() const { return std::min(7, ceil_log2(columns)); }

int SortForm::tile_bits() const { return std::max(0, ceil_log2(columns) - 7); }

int SortForm::part_bits() const {
  constexpr int kEnoughRegisterBits = 8;  // Of all lane tiles.
  const int bits = std::max(0, kEnoughRegisterBits - tile_bits());
  return std::clamp(ceil_log2(registers()) - tile_bits() - 1, 0, bits);
}

bool SortForm::may_turn() const {
  return registers() >= 16 && kept_bits() >= ceil_log2(registers());
}

std::optional<SortForm> sort_form(const hlo::Module& module, const Computation& computation,
                                  const HloInstruction& instruction) {
  if (instruction.opcode != HloOpcode::kSort ||
      instruction.dimensions != std::vector<std::int64_t>{0}) {
    return std::nullopt;
  }
  for (const InstructionId operand : instruction.operands) {
    const hlo::Shape& shape = computation.at(operand).shape;
    if (shape.type != ElementType::kS32 || shape.rank() != 2) return std::nullopt;
  }
  const hlo::Shape& shape = computation.at(instruction.operands.at(0)).shape;
  const Computation& comparator = module.computation(instruction.called.at(0));
  SortForm form;
  form.rows = shape.dimensions[0];
  form.lanes = shape.dimensions[1];
  form.columns = instruction.feature_group_count;
  form.words = static_cast<std::int64_t>(instruction.operands.size());
  form.keys = keys_compared(comparator, comparator.root, 0);
  form.kept = instruction.batch_group_count > 1 ? instruction.batch_group_count : 0;
  const bool is_stable = instruction.raw_attributes.is_set() &&
                         instruction.raw_attributes->find("is_stable=true") != std::string::npos;
  if (form.keys == 0 || is_stable) return std::nullopt;
  return form;
}

Computation comparator_of_words(std::int64_t words, std::int64_t keys) {
  Computation made;
  made.name = "ascending_words";
  for (std::int64_t number = 0; number < 2 * words; ++number) {
    HloInstruction parameter;
    parameter.id = static_cast<InstructionId>(number);
    parameter.opcode = HloOpcode::kParameter;
    parameter.parameter_number = number;
    parameter.name = "word." + std::to_string(number);
    parameter.shape = hlo::array_shape(ElementType::kS32, {});
    made.instructions.push_back(std::move(parameter));
  }
  InstructionId before = add_key_comparison(made, keys - 1, ComparisonDirection::kLt);
  for (std::int64_t key = keys - 1; key-- > 0;) {
    const InstructionId less = add_key_comparison(made, key, ComparisonDirection::kLt);
    const InstructionId equal = add_key_comparison(made, key, ComparisonDirection::kEq);
    before = add_combination(made, HloOpcode::kAnd, equal, before);
    before = add_combination(made, HloOpcode::kOr, less, before);
  }
  made.root = before;
  return made;
}

SortBlocks sort_blocks(const SortForm& form, const Target& target) {
  constexpr std::int64_t kEnoughRegisters = 64;  // What a loop begins with is little beside them.
  const std::int64_t lane_tiles = ceil_divide(form.lanes, 128);
  const auto fit = static_cast<std::int64_t>(target.vmem_bytes) / (form.words * 4096);
  SortBlocks blocks;
  if (form.registers() > fit) return blocks;
  blocks.width = 1;
  blocks.buffers = lane_tiles > 1 && 2 * form.registers() <= fit ? 2 : 1;
  if (form.tile_bits() > 0) {
    // Two blocks of all lane tiles have room where one lane tile has.
    if (form.tile_bits() >= ceil_log2(form.registers())) blocks.width = 0;
    return blocks;
  }
  for (std::int64_t width = 2; width <= lane_tiles; ++width) {
    if (width * form.registers() > kEnoughRegisters) break;
    if (lane_tiles % width == 0 && 2 * width * form.registers() <= fit / 2) blocks.width = width;
  }
  if (blocks.width == lane_tiles) blocks.buffers = 1;
  return blocks;
}

double sort_cycles(const SortForm& form, const Target& target) {
  const std::int64_t registers = ceil_divide(form.lanes, 128) * form.registers();
  const int row_bits = ceil_log2(form.registers()), column_bits = row_bits + 3 + form.lane_bits();
  const int bits = column_bits + form.tile_bits();
  const auto words = static_cast<double>(form.words), keys = static_cast<double>(form.keys);
  // Two instructions of the vector unit a cycle: comparisons and their combination for a pair, and
  // a selection for each word of each of both.
  // A quarter is lost where a piece of code begins and ends.
  const double in_registers = 1.25 * (3 * keys - 2 + 2 * words) / 4;
  // Where there are eight registers their sublanes are loaded as registers.
  const double in_sublanes =
      form.registers() >= 8 ? 1.1 * in_registers : std::max(2 * words, (3 * keys - 1 + words) / 2);
  const double turn = 1.05 * words * target.xlu_interval_cycles;
  // Of the first so many bits of lanes.
  const auto of_lanes = [&](int lane_bits) {
    if (lane_bits == 0) return 0.0;
    if (form.may_turn() && lane_bits > 1) {
      return 2 * turn + std::min(3, lane_bits) * in_sublanes +
             std::max(0, lane_bits - 3) * in_registers;
    }
    return 2 * words * target.xlu_interval_cycles * lane_bits;
  };
  const auto of_stages = [&](int phase) {
    return std::min(phase, row_bits) * in_registers +
           std::clamp(phase - row_bits, 0, 3) * in_sublanes +
           of_lanes(std::clamp(phase - row_bits - 3, 0, 7)) +
           std::max(0, phase - column_bits) * in_registers;
  };
  double cycles = words;  // The copy that puts them in order.
  double left = 1;        // Of the registers.
  const int kept = form.kept_bits();
  for (int phase = 1; phase <= bits; ++phase) {
    cycles += left * keys / 2;  // Complements.
    if (phase > kept) {
      // A stage by itself is bound by its loads and stores.
      const double stage = of_stages(phase) - of_stages(phase - 1);
      cycles += left * std::max(1.25 * words, stage);
      if (phase <= row_bits) left /= 2;
    }
    cycles += left * of_stages(std::min(phase, kept));
  }
  // What moves while others are worked on takes no time of its own, but for the stages between lane
  // tiles, which take less than that.
  const SortBlocks blocks = sort_blocks(form, target);
  const double share = blocks.buffers == 1 ? 1
                                           : static_cast<double>(blocks.width) /
                                                 static_cast<double>(ceil_divide(form.lanes, 128));
  const double stored =
      form.kept == 0 ? 1
                     : static_cast<double>(form.kept) / 8 / static_cast<double>(form.registers());
  const double traffic = 4096 * words / target.hbm_bytes_per_cycle;
  cycles += traffic * (share * (1 + stored) + 2 * form.tile_bits() * (1 + share));
  return kKernelCycles + cycles * static_cast<double>(registers);
}

}  // namespace tpu::compiler
