#include "workloads/compiler/passes/simplify/padded_sums.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <set>
#include <vector>

#include "workloads/compiler/passes/edit.h"
#include "workloads/compiler/passes/simplify/constant_folding.h"

namespace tpu::compiler {

using hlo::Computation;
using hlo::HloInstruction;
using hlo::HloOpcode;
using hlo::InstructionId;

namespace {

/// Parts that meet: of arrays of so many bytes (kernels read the pads of smaller ones where they
/// stand), in so many pieces, of which those that meet are no more than this share.
constexpr std::int64_t kLeastBytes = std::int64_t{4} << 20, kMostSumPieces = 8, kLeastOwn = 4;

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
  /// The same, or a slice as one part.
  std::optional<PaddedParts> parts_along(InstructionId id, std::int64_t dimension);
  /// What lies between these positions of the whole array.
  InstructionId cut(const Part& part, std::int64_t dimension, std::int64_t begin, std::int64_t end);
  InstructionId zeros(InstructionId like, std::int64_t dimension, std::int64_t extent);

  /// Positions that one part, or one of each side, has.
  struct Segment {
    std::int64_t begin = 0, end = 0;
    std::vector<Part> parts;
  };
  std::vector<Segment> segments_of(const PaddedParts& left, const PaddedParts& right);
  bool is_worth(InstructionId sum, std::int64_t dimension, const std::vector<Segment>& segments);

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

std::optional<PaddedParts> PaddedSums::parts_along(InstructionId id, std::int64_t dimension) {
  std::optional<PaddedParts> found = parts_of(id);
  if (found && found->dimension == dimension) return found;
  if (at(id).opcode != HloOpcode::kSlice) return std::nullopt;
  return PaddedParts{dimension, {{0, id}}};
}

InstructionId PaddedSums::cut(const Part& part, std::int64_t dimension, std::int64_t begin,
                              std::int64_t end) {
  begin -= part.begin;
  end -= part.begin;
  if (begin == 0 && end == extent(part.value, dimension)) return part.value;
  HloInstruction slice;
  slice.opcode = HloOpcode::kSlice;
  slice.name = at(part.value).name + ".cut." + std::to_string(entry_.instructions.size());
  slice.shape = hlo::array_shape(at(part.value).shape.type, at(part.value).shape.dimensions);
  hlo::SliceBounds bounds;
  bounds.limits = slice.shape.dimensions;
  bounds.starts.assign(bounds.limits.size(), 0);
  bounds.strides.assign(bounds.limits.size(), 1);
  slice.operands = {part.value};
  if (at(part.value).opcode == HloOpcode::kSlice) {
    bounds = at(part.value).slice;
    slice.operands = at(part.value).operands;
  }
  const auto d = static_cast<std::size_t>(dimension);
  bounds.limits[d] = bounds.starts[d] + (end - 1) * bounds.strides[d] + 1;
  bounds.starts[d] += begin * bounds.strides[d];
  slice.slice = bounds;
  slice.shape.dimensions[d] = end - begin;
  return append(entry_, std::move(slice));
}

std::vector<PaddedSums::Segment> PaddedSums::segments_of(const PaddedParts& left,
                                                         const PaddedParts& right) {
  const std::int64_t dimension = left.dimension;
  std::set<std::int64_t> borders;
  for (const PaddedParts* side : {&left, &right}) {
    for (const Part& part : side->parts) {
      borders.insert({part.begin, part.begin + extent(part.value, dimension)});
    }
  }
  std::vector<Segment> segments;
  for (auto begin = borders.begin(); begin != borders.end() && std::next(begin) != borders.end();
       ++begin) {
    Segment segment{*begin, *std::next(begin), {}};
    for (const PaddedParts* side : {&left, &right}) {
      for (const Part& part : side->parts) {
        const std::int64_t end = part.begin + extent(part.value, dimension);
        if (part.begin <= segment.begin && segment.end <= end) segment.parts.push_back(part);
      }
    }
    if (!segment.parts.empty()) segments.push_back(std::move(segment));
  }
  return segments;
}

bool PaddedSums::is_worth(InstructionId sum, std::int64_t dimension,
                          const std::vector<Segment>& segments) {
  std::int64_t shared = 0;
  for (const Segment& segment : segments) {
    if (segment.parts.size() > 1) shared += segment.end - segment.begin;
  }
  if (shared == 0) return true;
  return at(sum).shape.unpadded_bytes() >= kLeastBytes && segments.size() <= kMostSumPieces &&
         shared * kLeastOwn <= extent(sum, dimension);
}

void PaddedSums::visit(InstructionId id) {
  if (at(id).opcode != HloOpcode::kAdd) return;
  const std::array<InstructionId, 2> sides{at(id).operands[0], at(id).operands[1]};
  std::optional<PaddedParts> left = parts_of(sides[0]), right = parts_of(sides[1]);
  if (left && !right) right = parts_along(sides[1], left->dimension);
  if (right && !left) left = parts_along(sides[0], right->dimension);
  if (!left || !right || left->dimension != right->dimension) return;
  const std::int64_t dimension = left->dimension;
  const std::vector<Segment> segments = segments_of(*left, *right);
  if (!is_worth(id, dimension, segments)) return;
  std::vector<InstructionId> operands;
  std::int64_t end = 0;
  const auto fill_to = [&](std::int64_t begin) {
    if (begin > end) operands.push_back(zeros(id, dimension, begin - end));
  };
  for (const Segment& segment : segments) {
    fill_to(segment.begin);
    InstructionId value = cut(segment.parts[0], dimension, segment.begin, segment.end);
    if (segment.parts.size() > 1) {
      HloInstruction add = at(id);
      add.name += ".shared." + std::to_string(entry_.instructions.size());
      add.operands = {value, cut(segment.parts[1], dimension, segment.begin, segment.end)};
      add.shape = at(value).shape;
      value = append(entry_, std::move(add));
    }
    operands.push_back(value);
    end = segment.end;
  }
  fill_to(extent(id, dimension));
  at(id).opcode = HloOpcode::kConcatenate;
  at(id).dimensions = {dimension};
  at(id).operands = std::move(operands);
}

}  // namespace

void join_padded_sums(hlo::Module& module) { PaddedSums(module.entry_computation()).run(); }

}  // namespace tpu::compiler
