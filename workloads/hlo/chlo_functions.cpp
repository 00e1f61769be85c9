#include "workloads/hlo/chlo_functions.h"

#include <map>
#include <string>

#include "workloads/hlo/hlo_reader.h"

namespace tpu::hlo {

namespace {

struct ChloFunction {
  std::string_view name, body;
};

constexpr ChloFunction kChloFunctions[] = {
#define TPU_CHLO_FUNCTION(name, body) {name, body},
#include "workloads/hlo/chlo_functions.def"
#undef TPU_CHLO_FUNCTION
};

HloInstruction of_extent(HloOpcode opcode, std::vector<InstructionId> operands, ElementType type,
                         const Shape& extent) {
  HloInstruction made;
  made.opcode = opcode;
  made.operands = std::move(operands);
  made.shape = array_shape(type, extent.dimensions);
  return made;
}

}  // namespace

const Computation* chlo_function(std::string_view name) {
  static std::map<std::string_view, Module> read;
  const auto found = read.find(name);
  if (found != read.end()) return &found->second.entry_computation();
  for (const ChloFunction& function : kChloFunctions) {
    if (function.name != name) continue;
    const std::string text =
        "HloModule chlo\nENTRY function {\n" + std::string(function.body) + "\n}\n";
    Module& module = read[function.name] = read_hlo_text("chlo_functions.def", text);
    return &module.entry_computation();
  }
  return nullptr;
}

InstructionId add_chlo_function(const Computation& function,
                                const std::vector<InstructionId>& arguments, const Shape& extent,
                                const std::function<InstructionId(HloInstruction)>& add) {
  std::vector<InstructionId> values;
  const ElementType own = function.at(function.root).shape.type;
  const bool is_own = extent.type == own;
  for (const HloInstruction& scalar : function.instructions) {
    InstructionId value = -1;
    if (scalar.opcode == HloOpcode::kParameter) {
      value = arguments.at(static_cast<std::size_t>(scalar.parameter_number));
      if (!is_own) value = add(of_extent(HloOpcode::kConvert, {value}, own, extent));
    } else {
      HloInstruction made = scalar;
      for (InstructionId& operand : made.operands) {
        operand = values[static_cast<std::size_t>(operand)];
      }
      const bool is_constant = scalar.opcode == HloOpcode::kConstant;
      if (!is_constant) made.shape.dimensions = extent.dimensions;
      value = add(std::move(made));
      if (is_constant && extent.rank() > 0) {
        value = add(of_extent(HloOpcode::kBroadcast, {value}, scalar.shape.type, extent));
      }
    }
    values.push_back(value);
  }
  const InstructionId result = values[static_cast<std::size_t>(function.root)];
  return is_own ? result : add(of_extent(HloOpcode::kConvert, {result}, extent.type, extent));
}

}  // namespace tpu::hlo
