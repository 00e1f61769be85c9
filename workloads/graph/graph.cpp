#include "workloads/graph/graph.h"

#include <algorithm>
#include <unordered_map>

namespace tpu::hlo {

namespace {

struct OpcodeRow {
  std::string_view name;
  int operands;  ///< Of an elementwise operation.
  VectorCost cost;
};

constexpr OpcodeRow kOpcodes[] = {
#define TPU_HLO_OPCODE(enumerator, text, operands, cycles, instructions) \
  {text, operands, {cycles, instructions}},
#include "workloads/graph/hlo_opcodes.def"
#undef TPU_HLO_OPCODE
};

/// Of an opcode, or of none.
OpcodeRow row_of(HloOpcode opcode) {
  return opcode < HloOpcode::kCount ? kOpcodes[static_cast<std::size_t>(opcode)] : OpcodeRow{};
}

std::unordered_map<std::string_view, HloOpcode> opcode_table() {
  std::unordered_map<std::string_view, HloOpcode> table;
  for (int i = 0; i < static_cast<int>(HloOpcode::kCount); ++i) {
    table.emplace(kOpcodes[i].name, static_cast<HloOpcode>(i));
  }
  table.emplace("cross-replica-sum", HloOpcode::kAllReduce);
  table.emplace("optimization-barrier", HloOpcode::kOptimizationBarrier);
  table.emplace("round-nearest-afz", HloOpcode::kRoundNearestAfz);
  table.emplace("expm1", HloOpcode::kExponentialMinusOne);
  table.emplace("log1p", HloOpcode::kLogPlusOne);
  table.emplace("generate-token", HloOpcode::kAfterAll);
  table.emplace("top-k", HloOpcode::kTopk);
  return table;
}

}  // namespace

std::string_view to_string(HloOpcode opcode) {
  return opcode < HloOpcode::kCount ? row_of(opcode).name : "no opcode";
}

HloOpcode hlo_opcode(std::string_view text) {
  static const std::unordered_map<std::string_view, HloOpcode> kTable = opcode_table();
  const auto found = kTable.find(text);
  return found == kTable.end() ? HloOpcode::kCount : found->second;
}

int elementwise_operands(HloOpcode opcode) { return row_of(opcode).operands; }

VectorCost vector_cost(HloOpcode opcode) { return row_of(opcode).cost; }

bool is_allocation(const HloInstruction& instruction) {
  return instruction.opcode == HloOpcode::kCustomCall &&
         instruction.custom_call_target.get() == kAllocateBuffer;
}

std::string_view to_string(ComparisonDirection direction) {
  constexpr std::string_view kNames[] = {"EQ", "NE", "LT", "LE", "GT", "GE"};
  return kNames[static_cast<std::size_t>(direction)];
}

std::vector<InstructionId> Computation::parameters() const {
  std::vector<InstructionId> ids;
  for (const HloInstruction& instruction : instructions) {
    if (instruction.opcode == HloOpcode::kParameter) ids.push_back(instruction.id);
  }
  std::sort(ids.begin(), ids.end(), [&](InstructionId a, InstructionId b) {
    return at(a).parameter_number < at(b).parameter_number;
  });
  return ids;
}

}  // namespace tpu::hlo
