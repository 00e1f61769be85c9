#include "workloads/compiler/passes/expand/scalar_samples.h"

#include <limits>

#include "workloads/compiler/passes/simplify/constant_folding.h"
#include "workloads/compiler/passes/simplify/scalar_arithmetic.h"

namespace tpu::compiler {

using hlo::Computation;
using hlo::HloInstruction;
using hlo::HloOpcode;

namespace {

bool passes_on(HloOpcode opcode) {
  return opcode == HloOpcode::kCopy || opcode == HloOpcode::kReshape ||
         opcode == HloOpcode::kBitcast || opcode == HloOpcode::kBroadcast;
}

}  // namespace

std::optional<std::vector<double>> run_scalars(const Computation& computation,
                                               const std::vector<double>& arguments) {
  std::vector<std::optional<double>> values(computation.instructions.size());
  for (const HloInstruction& instruction : computation.instructions) {
    std::optional<double>& value = values[static_cast<std::size_t>(instruction.id)];
    const auto operand = [&](std::size_t i) {
      return values[static_cast<std::size_t>(instruction.operands[i])];
    };
    if (instruction.opcode == HloOpcode::kTuple) continue;
    if (instruction.opcode == HloOpcode::kParameter) {
      value = arguments.at(static_cast<std::size_t>(instruction.parameter_number));
    } else if (instruction.opcode == HloOpcode::kConstant) {
      value = scalar_value(instruction);
    } else {
      std::vector<double> operands;
      for (std::size_t i = 0; i < instruction.operands.size() && operand(i); ++i) {
        operands.push_back(*operand(i));
      }
      if (operands.empty() || operands.size() != instruction.operands.size()) return std::nullopt;
      const hlo::ElementType from = computation.at(instruction.operands[0]).shape.type;
      value =
          passes_on(instruction.opcode) ? operands[0] : scalar_result(instruction, from, operands);
    }
    if (!value) return std::nullopt;
  }
  const HloInstruction& root = computation.at(computation.root);
  std::vector<hlo::InstructionId> results = root.operands;
  if (root.opcode != HloOpcode::kTuple) results = {root.id};
  std::vector<double> found;
  found.reserve(results.size());
  for (hlo::InstructionId id : results) found.push_back(*values[static_cast<std::size_t>(id)]);
  return found;
}

SortOrder sort_order(const Computation& comparator) {
  const std::size_t count = comparator.parameters().size();
  const auto before = [&](double a, double b, double others) -> std::optional<bool> {
    std::vector<double> arguments(count, 1);
    arguments.at(0) = a;
    arguments.at(1) = b;
    for (std::size_t i = 2; i < count; i += 2) arguments[i] = 1 + others;
    const auto result = run_scalars(comparator, arguments);
    if (!result) return std::nullopt;
    return result->at(0) != 0;
  };
  if (count < 2) return SortOrder::kUnknown;
  std::optional<bool> ascending;
  for (double others : {0.0, 3.0, -3.0}) {
    for (const auto& [low, high] : {std::pair<double, double>{1, 2}, {-5, 3}, {-7, -6}, {0, 100}}) {
      const std::optional<bool> up = before(low, high, others), down = before(high, low, others);
      const std::optional<bool> same = before(low, low, others);
      if (!up || !down || !same || *up == *down || *same) return SortOrder::kUnknown;
      if (ascending && *ascending != *up) return SortOrder::kUnknown;
      ascending = up;
    }
  }
  return *ascending ? SortOrder::kAscending : SortOrder::kDescending;
}

PairReducer pair_reducer(const Computation& reducer) {
  if (reducer.parameters().size() != 4) return {};
  const auto kept = [&](double a, double i, double b, double j) {
    std::optional<std::vector<double>> result = run_scalars(reducer, {a, i, b, j});
    if (result && result->size() != 2) result.reset();
    return result;
  };
  std::optional<bool> greatest, last;
  for (const auto& [low, high] : {std::pair<double, double>{1, 5}, {-5, -2}, {-3, 8}}) {
    for (const auto& [i, j] : {std::pair<double, double>{3, 7}, {7, 3}}) {
      const auto up = kept(low, i, high, j), down = kept(high, j, low, i);
      if (!up || !down || *up != *down) return {};
      const bool takes_high = (*up)[0] == high && (*up)[1] == j;
      const bool takes_low = (*up)[0] == low && (*up)[1] == i;
      if (takes_high == takes_low || (greatest && *greatest != takes_high)) return {};
      greatest = takes_high;
    }
    const auto first = kept(low, 3, low, 7), swapped = kept(low, 7, low, 3);
    if (!first || !swapped || (*first)[0] != low) return {};
    // A reducer that keeps its left argument meets the indices in rising order.
    const bool takes_last = (*first)[1] == 7;
    if (last && *last != takes_last) return {};
    last = takes_last;
  }
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  const auto index = [&](double a, double i, double b, double j) {
    return kept(a, i, b, j).value_or(std::vector<double>(2)).at(1);
  };
  const bool keeps_nan =
      index(kNan, 3, 2, 7) == 3 && index(2, 3, kNan, 7) == 7 && index(kNan, 3, kNan, 7) == 3;
  return {true, greatest.value_or(false), last.value_or(false), keeps_nan};
}

}  // namespace tpu::compiler
