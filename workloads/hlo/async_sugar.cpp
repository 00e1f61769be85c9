#include "workloads/hlo/async_sugar.h"

#include <string>
#include <utility>

namespace tpu::hlo {

namespace {

constexpr std::string_view kThread = "async_execution_thread=";

/// Takes the thread's attribute, a string in quotes, out of attributes that are kept as text.
std::string take_thread(std::string& raw) {
  std::size_t begin = raw.find(kThread);
  if (begin == std::string::npos) return "";
  const std::size_t quote = raw.find('"', begin + kThread.size() + 1);
  std::size_t end = quote == std::string::npos ? raw.size() : quote + 1;
  std::string thread = raw.substr(begin, end - begin);
  if (raw.compare(end, 2, ", ") == 0) {
    end += 2;
  } else if (begin >= 2) {
    begin -= 2;
  }
  raw.erase(begin, end - begin);
  return thread;
}

}  // namespace

AsyncSugar async_sugar(std::string_view word) {
  const std::pair<std::string_view, HloOpcode> suffixes[] = {{"-start", HloOpcode::kAsyncStart},
                                                             {"-update", HloOpcode::kAsyncUpdate},
                                                             {"-done", HloOpcode::kAsyncDone}};
  AsyncSugar sugar;
  for (const auto& [suffix, opcode] : suffixes) {
    if (word.size() <= suffix.size() || word.substr(word.size() - suffix.size()) != suffix)
      continue;
    const HloOpcode base = hlo_opcode(word.substr(0, word.size() - suffix.size()));
    if (base == HloOpcode::kCount) continue;
    // The attributes of a start are those of its operation, which reads them.
    sugar.opcode = opcode == HloOpcode::kAsyncStart ? base : opcode;
    if (opcode == HloOpcode::kAsyncStart) sugar.wrapped = base;
  }
  if (sugar.wrapped == HloOpcode::kParameter || sugar.wrapped == HloOpcode::kConstant) return {};
  return sugar;
}

bool can_wrap(const Shape& start) {
  return start.is_tuple() && start.elements.size() >= 2 && start.elements[0].is_tuple();
}

Computation wrap_operation(HloInstruction& start, HloOpcode wrapped, const Computation* called) {
  Computation computation;
  std::vector<Shape> operands = start.shape.elements[0].elements;
  Shape result = start.shape.elements[1];
  if (called != nullptr && operands.empty() && !called->parameters().empty()) {
    for (InstructionId id : called->parameters()) operands.push_back(called->at(id).shape);
    result = called->at(called->root).shape;
  }
  for (std::size_t i = 0; i < operands.size(); ++i) {
    HloInstruction parameter;
    parameter.id = static_cast<InstructionId>(i);
    parameter.name = "param_" + std::to_string(i);
    parameter.opcode = HloOpcode::kParameter;
    parameter.parameter_number = static_cast<std::int64_t>(i);
    parameter.shape = operands[i];
    computation.instructions.push_back(std::move(parameter));
  }
  HloInstruction outside;
  outside.opcode = HloOpcode::kAsyncStart;
  outside.name = start.name;
  outside.shape = start.shape;
  outside.operands = std::move(start.operands);
  const std::string thread = take_thread(start.raw_attributes.edit());
  if (!thread.empty()) outside.raw_attributes = thread;
  outside.metadata = start.metadata;
  computation.raw_attributes =
      thread.empty() ? "" : "execution_thread=" + thread.substr(kThread.size());
  HloInstruction operation = std::exchange(start, std::move(outside));
  operation.opcode = wrapped;
  operation.id = static_cast<InstructionId>(operands.size());
  operation.name = std::string(to_string(wrapped)) + ".wrapped";
  operation.shape = std::move(result);
  operation.operands.clear();
  for (std::size_t i = 0; i < operands.size(); ++i) {
    operation.operands.push_back(static_cast<InstructionId>(i));
  }
  computation.root = operation.id;
  computation.instructions.push_back(std::move(operation));
  return computation;
}

}  // namespace tpu::hlo
