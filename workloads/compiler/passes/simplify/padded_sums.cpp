#include "workloads/compiler/passes/simplify/padded_sums.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "workloads/compiler/passes/edit.h"
#include "workloads/compiler/passes/simplify/constant_folding.h"

namespace tpu::compiler {

using hlo::Computation;
using hlo::HloInstruction;
using hlo::HloOpcode;
using hlo::InstructionId;

namespace {

/// A part of an array along one dimension that need not be zero.
struct Part {
  std::int64_t begin = 0;
  InstructionId value = -1;
};

/// An array as parts along a dimension, zero in between.
struct PaddedParts {
  std::int64_t dimension = 0;
  std::vector<Part> parts;
};

class PaddedSums {
 public:
  explicit PaddedSums(Computation& entry) : entry_(entry) {}

  void run() {
    const std::size_t count = entry_.instructions.size();
    for (std::size_t i = 0; i < count; ++i) visit(static_cast<InstructionId>(i));
    tidy(entry_);
  }

 private:
  HloInstruction& at(InstructionId id) { return entry_.at(id); }
  std::int64_t extent(InstructionId id, std::int64_t d) {
    return at(id).shape.dimensions[static_cast<std::size_t>(d)];
  }
  bool is_zero(InstructionId id) { return splat_value(entry_, id) == 0.0; }
  std::optional<PaddedParts> parts_of(InstructionId id);
  std::optional<PaddedParts> parts_of_pad(const HloInstruction& pad);
  void visit(InstructionId id);
  InstructionId zeros(InstructionId like, std::int64_t dimension, std::int64_t extent);

  Computation& entry_;
};

std::optional<PaddedParts> PaddedSums::parts_of_pad(const HloInstruction& pad) {
  if (!is_zero(pad.operands[1])) return std::nullopt;
  PaddedParts found{-1, {}};
  for (std::size_t d = 0; d < pad.padding.size(); ++d) {
    const hlo::PaddingDimension& p = pad.padding[d];
    if (p.low == 0 && p.high == 0 && p.interior == 0) continue;
    if (found.dimension >= 0 || p.low < 0 || p.high < 0 || p.interior != 0) return std::nullopt;
    found.dimension = static_cast<std::int64_t>(d);
    found.parts = {{p.low, pad.operands[0]}};
  }
  if (found.dimension < 0) return std::nullopt;
  return found;
}

std::optional<PaddedParts> PaddedSums::parts_of(InstructionId id) {
  const HloInstruction& value = at(id);
  if (value.opcode == HloOpcode::kPad) return parts_of_pad(value);
  if (value.opcode != HloOpcode::kConcatenate) return std::nullopt;
  PaddedParts found{value.dimensions.at(0), {}};
  std::int64_t begin = 0;
  for (InstructionId operand : value.operands) {
    if (!is_zero(operand)) found.parts.push_back({begin, operand});
    begin += extent(operand, found.dimension);
  }
  return found;
}

InstructionId PaddedSums::zeros(InstructionId like, std::int64_t dimension, std::int64_t count) {
  HloInstruction zero = scalar_constant(at(like).shape.type, 0);
  zero.name = at(like).name + ".zero." + std::to_string(entry_.instructions.size());
  HloInstruction spread;
  spread.opcode = HloOpcode::kBroadcast;
  spread.name = at(like).name + ".zeros." + std::to_string(entry_.instructions.size());
  spread.shape = hlo::array_shape(at(like).shape.type, at(like).shape.dimensions);
  spread.shape.dimensions[static_cast<std::size_t>(dimension)] = count;
  spread.operands = {append(entry_, std::move(zero))};
  return append(entry_, std::move(spread));
}

void PaddedSums::visit(InstructionId id) {
  if (at(id).opcode != HloOpcode::kAdd) return;
  std::optional<PaddedParts> left = parts_of(at(id).operands[0]),
                             right = parts_of(at(id).operands[1]);
  if (!left || !right || left->dimension != right->dimension) return;
  const std::int64_t dimension = left->dimension;
  std::vector<Part> parts = left->parts;
  parts.insert(parts.end(), right->parts.begin(), right->parts.end());
  std::sort(parts.begin(), parts.end(),
            [](const Part& a, const Part& b) { return a.begin < b.begin; });
  std::int64_t end = 0;
  for (const Part& part : parts) {
    if (part.begin < end) return;
    end = part.begin + extent(part.value, dimension);
  }
  std::vector<InstructionId> operands;
  end = 0;
  const auto fill_to = [&](std::int64_t begin) {
    if (begin > end) operands.push_back(zeros(id, dimension, begin - end));
  };
  for (const Part& part : parts) {
    fill_to(part.begin);
    operands.push_back(part.value);
    end = part.begin + extent(part.value, dimension);
  }
  fill_to(extent(id, dimension));
  at(id).opcode = HloOpcode::kConcatenate;
  at(id).dimensions = {dimension};
  at(id).operands = std::move(operands);
}

}  // namespace

void join_padded_sums(hlo::Module& module) { PaddedSums(module.entry_computation()).run(); }

}  // namespace tpu::compiler
