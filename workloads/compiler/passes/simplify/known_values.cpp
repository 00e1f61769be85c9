#include "workloads/compiler/passes/simplify/known_values.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "workloads/compiler/passes/expand/scalar_samples.h"
#include "workloads/compiler/passes/simplify/constant_folding.h"
#include "workloads/compiler/passes/simplify/scalar_arithmetic.h"

namespace tpu::compiler {

using hlo::ElementType;
using hlo::HloInstruction;
using hlo::HloOpcode;

KnownValues::Numbers KnownValues::constant(const HloInstruction& instruction) const {
  const auto size = static_cast<std::size_t>(hlo::byte_size(instruction.shape.type));
  const auto count = static_cast<std::size_t>(instruction.shape.element_count());
  if (instruction.literal.size() != size * count) return std::nullopt;
  HloInstruction element;
  element.shape = hlo::array_shape(instruction.shape.type, {});
  std::vector<double> values;
  for (std::size_t i = 0; i < count; ++i) {
    const auto at = instruction.literal.begin() + static_cast<std::ptrdiff_t>(i * size);
    element.literal.assign(at, at + static_cast<std::ptrdiff_t>(size));
    const std::optional<double> value = scalar_value(element);
    if (!value) return std::nullopt;
    values.push_back(*value);
  }
  return values;
}

std::vector<double> KnownValues::spread(const std::vector<double>& values, const Extents& extents,
                                        const Extents& places) {
  const std::int64_t count =
      std::accumulate(extents.begin(), extents.end(), std::int64_t{1}, std::multiplies<>());
  std::vector<double> all;
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t index = 0, inner = count;
    for (std::size_t d = 0; d < extents.size(); ++d) {
      inner /= extents[d];
      const bool is_kept =
          std::find(places.begin(), places.end(), static_cast<std::int64_t>(d)) != places.end();
      if (is_kept) index = index * extents[d] + i / inner % extents[d];
    }
    all.push_back(values[static_cast<std::size_t>(index)]);
  }
  return all;
}

KnownValues::Numbers KnownValues::elementwise(const HloInstruction& instruction) {
  std::vector<const std::vector<double>*> operands;
  for (Id operand : instruction.operands) {
    const Numbers& values = of(operand);
    if (!values) return std::nullopt;
    operands.push_back(&*values);
  }
  const ElementType from = module_.entry_computation().at(instruction.operands.at(0)).shape.type;
  std::vector<double> results;
  for (std::int64_t i = 0; i < instruction.shape.element_count(); ++i) {
    std::vector<double> elements;
    elements.reserve(operands.size());
    for (const std::vector<double>* values : operands) {
      elements.push_back((*values)[values->size() == 1 ? 0 : static_cast<std::size_t>(i)]);
    }
    const std::optional<double> result = scalar_result(instruction, from, elements);
    if (!result) return std::nullopt;
    results.push_back(*result);
  }
  return results;
}

KnownValues::Numbers KnownValues::concatenated(const HloInstruction& instruction) {
  if (instruction.shape.rank() != 1) return std::nullopt;
  std::vector<double> all;
  for (Id part : instruction.operands) {
    const Numbers& values = of(part);
    if (!values) return std::nullopt;
    all.insert(all.end(), values->begin(), values->end());
  }
  return all;
}

KnownValues::Numbers KnownValues::compute(const HloInstruction& instruction) {
  if (instruction.shape.is_tuple() || instruction.shape.element_count() > kMostElements) {
    return std::nullopt;
  }
  switch (instruction.opcode) {
    case HloOpcode::kConstant:
      return constant(instruction);
    case HloOpcode::kIota: {
      const Extents line{
          instruction.shape.dimensions[static_cast<std::size_t>(instruction.dimensions[0])]};
      std::vector<double> values(static_cast<std::size_t>(line[0]));
      std::iota(values.begin(), values.end(), 0.0);
      return spread(values, instruction.shape.dimensions, instruction.dimensions);
    }
    case HloOpcode::kBroadcast: {
      const Numbers& values = of(instruction.operands[0]);
      const bool in_order =
          std::is_sorted(instruction.dimensions.begin(), instruction.dimensions.end());
      if (!values || !in_order) return std::nullopt;
      return spread(*values, instruction.shape.dimensions, instruction.dimensions);
    }
    case HloOpcode::kReshape:
    case HloOpcode::kBitcast:
      return of(instruction.operands[0]);
    case HloOpcode::kConcatenate:
      return concatenated(instruction);
    case HloOpcode::kReduce:
      return reduced(instruction);
    default:
      if (!hlo::is_elementwise(instruction.opcode)) return std::nullopt;
      return elementwise(instruction);
  }
}

/// One element after the other.
KnownValues::Numbers KnownValues::reduced(const HloInstruction& instruction) {
  if (instruction.operands.size() != 2) return std::nullopt;
  const Numbers values = of(instruction.operands[0]), initial = of(instruction.operands[1]);
  if (!values || !initial || initial->size() != 1) return std::nullopt;
  const Extents extents = module_.entry_computation().at(instruction.operands[0]).shape.dimensions;
  std::vector<double> results(static_cast<std::size_t>(instruction.shape.element_count()),
                              initial->front());
  const hlo::Computation& reducer = module_.computation(instruction.called[0]);
  for (std::size_t i = 0; i < values->size(); ++i) {
    std::size_t at = 0, inner = values->size();
    for (std::size_t d = 0; d < extents.size(); ++d) {
      const auto extent = static_cast<std::size_t>(extents[d]);
      inner /= extent;
      const bool is_reduced =
          std::find(instruction.dimensions.begin(), instruction.dimensions.end(),
                    static_cast<std::int64_t>(d)) != instruction.dimensions.end();
      if (!is_reduced) at = at * extent + i / inner % extent;
    }
    const auto result = run_scalars(reducer, {results[at], (*values)[i]});
    if (!result || result->size() != 1) return std::nullopt;
    results[at] = result->front();
  }
  return results;
}

}  // namespace tpu::compiler
