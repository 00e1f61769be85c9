#include "sim/app/op_graph.h"

#include <set>

namespace tpu::app {

compiler::PassObserver OpGraph::observer() {
  return [this](const compiler::PassResult& result) {
    if (result.is_last()) read(result.module());
  };
}

void OpGraph::read(const hlo::Module& module) {
  nodes_.clear();
  const hlo::Computation& entry = module.entry_computation();
  for (const hlo::HloInstruction& instruction : entry.instructions) {
    Node& node = nodes_[instruction.name];
    if (instruction.opcode == hlo::HloOpcode::kParameter) {
      node.parameter = instruction.parameter_number;
    }
    for (const hlo::InstructionId operand : instruction.operands) {
      node.operands.push_back(entry.at(operand).name);
    }
  }
}

std::vector<traces::OpOperand> OpGraph::operands(const std::vector<isa::OpInfo>& ops) const {
  std::map<std::string, std::uint32_t> numbers;
  for (std::uint32_t op = 0; op < ops.size(); ++op) numbers.emplace(ops[op].name, op);
  std::vector<traces::OpOperand> result;
  for (std::uint32_t op = 0; op < ops.size(); ++op) {
    const auto node = nodes_.find(ops[op].name);
    if (node == nodes_.end()) continue;
    std::set<std::string> seen;
    std::vector<std::string> open(node->second.operands.rbegin(), node->second.operands.rend());
    while (!open.empty()) {
      const std::string name = open.back();
      open.pop_back();
      if (!seen.insert(name).second) continue;
      const auto number = numbers.find(name);
      if (number != numbers.end()) {
        result.push_back({op, number->second, false});
        continue;
      }
      const Node& through = nodes_.at(name);
      if (through.parameter >= 0) {
        result.push_back({op, static_cast<std::uint32_t>(through.parameter), true});
      }
      open.insert(open.end(), through.operands.rbegin(), through.operands.rend());
    }
  }
  return result;
}

}  // namespace tpu::app
