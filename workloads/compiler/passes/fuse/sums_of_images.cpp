#include "workloads/compiler/passes/fuse/sums_of_images.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "sim/base/contains.h"
#include "workloads/compiler/cost.h"
#include "workloads/compiler/ir/array_layout.h"
#include "workloads/compiler/ir/combining_operation.h"
#include "workloads/compiler/ir/dimension_order.h"
#include "workloads/compiler/passes/edit.h"
#include "workloads/compiler/passes/fuse/epilogue_forms.h"
#include "workloads/compiler/passes/simplify/constant_folding.h"

namespace tpu::compiler {

using hlo::Computation;
using hlo::HloInstruction;
using hlo::HloOpcode;
using hlo::InstructionId;
using hlo::Shape;

namespace {

using Dimensions = std::vector<std::int64_t>;

class SumsOfImages {
 public:
  SumsOfImages(hlo::Module& module, double hbm_bytes_per_cycle)
      : module_(module),
        entry_(module.entry_computation()),
        forms_(module, entry_),
        hbm_bytes_per_cycle_(hbm_bytes_per_cycle) {}

  void run() {
    const std::size_t count = entry_.instructions.size();
    for (std::size_t i = 0; i < count; ++i) visit(static_cast<InstructionId>(i));
    tidy(entry_);
  }

 private:
  HloInstruction& at(InstructionId id) { return entry_.at(id); }
  bool is_sum(const HloInstruction& instruction) const;
  InstructionId image_of(InstructionId value);
  std::optional<InstructionId> convolution_behind(InstructionId value);
  void visit(InstructionId id);

  hlo::Module& module_;
  Computation& entry_;
  EpilogueForms forms_;
  double hbm_bytes_per_cycle_;
};

bool SumsOfImages::is_sum(const HloInstruction& instruction) const {
  return is_plain_reduce(instruction) && instruction.shape.type == hlo::ElementType::kF32 &&
         combining_operation(module_.computation(instruction.called[0])) == HloOpcode::kAdd &&
         starts_from_neutral(module_, instruction);
}

/// The array that the value is but for dimensions of extent 1.
InstructionId SumsOfImages::image_of(InstructionId value) {
  while (at(value).opcode == HloOpcode::kBitcast) {
    const InstructionId operand = at(value).operands[0];
    const bool differs_in_units =
        at(operand).shape.type == at(value).shape.type &&
        long_extents(at(operand).shape.dimensions) == long_extents(at(value).shape.dimensions);
    if (!differs_in_units) break;
    value = operand;
  }
  return value;
}

/// The convolution that elementwise operations make the value of.
std::optional<InstructionId> SumsOfImages::convolution_behind(InstructionId value) {
  constexpr std::size_t kFarthest = 64;
  const Dimensions extents = at(value).shape.dimensions;
  std::set<InstructionId> seen{value};
  std::vector<InstructionId> work{value};
  while (!work.empty() && seen.size() < kFarthest) {
    const InstructionId id = work.back();
    work.pop_back();
    if (at(id).shape.dimensions != extents) continue;
    if (forms_.makes_images(id)) return id;
    if (!hlo::is_elementwise(at(id).opcode)) continue;
    for (InstructionId operand : at(id).operands) {
      if (seen.insert(operand).second) work.push_back(operand);
    }
  }
  return std::nullopt;
}

/// Dimensions of the image that the sum keeps.
Dimensions kept_of_image(const HloInstruction& sum, const Shape& operand, const Shape& image) {
  Dimensions kept;
  std::int64_t there = 0;
  for (std::int64_t d = 0; d < operand.rank(); ++d) {
    if (operand.dimensions[static_cast<std::size_t>(d)] == 1) continue;
    while (image.dimensions[static_cast<std::size_t>(there)] == 1) ++there;
    if (!contains(sum.dimensions, d)) kept.push_back(there);
    ++there;
  }
  return kept;
}

Dimensions all_but(const Dimensions& kept, std::int64_t rank) {
  Dimensions others;
  for (std::int64_t d = 0; d < rank; ++d) {
    if (!contains(kept, d)) others.push_back(d);
  }
  return others;
}

void SumsOfImages::visit(InstructionId id) {
  if (!is_sum(at(id))) return;
  const Shape operand = at(at(id).operands[0]).shape;
  const InstructionId value = image_of(at(id).operands[0]);
  const std::optional<InstructionId> convolution = convolution_behind(value);
  if (!convolution) return;
  const Shape image = at(value).shape;
  const Dimensions kept = kept_of_image(at(id), operand, image);
  if (kept.size() != at(id).shape.dimensions.size()) return;
  const Dimensions& order = image.layout.minor_to_major;
  // A sum for each feature, or for each example and feature.
  Dimensions with_features = kept;
  const std::int64_t features = at(*convolution).convolution->output_feature;
  if (!contains(kept, features)) with_features.push_back(features);
  std::sort(with_features.begin(), with_features.end());
  Dimensions minor{order[0], order[1]};
  if (!std::all_of(kept.begin(), kept.end(), [&](auto d) { return contains(minor, d); })) return;
  const bool is_one_sum = with_features == kept;
  if (is_one_sum && value == at(id).operands[0]) return;
  if (forms_.has_batch_in_lanes(*convolution) && with_features.size() > 1) return;
  const double cycles = static_cast<double>(image.padded_bytes()) / hbm_bytes_per_cycle_;
  if (!is_one_sum && cycles < 2 * kKernelCycles) return;
  HloInstruction sum = at(id);
  sum.operands[0] = value;
  sum.dimensions = all_but(with_features, image.rank());
  if (is_one_sum) {
    at(id) = std::move(sum);
    return;
  }
  Dimensions extents, rest, lanes_last;
  for (std::size_t i = 0; i < with_features.size(); ++i) {
    extents.push_back(image.dimensions[static_cast<std::size_t>(with_features[i])]);
    if (!contains(kept, with_features[i])) rest.push_back(static_cast<std::int64_t>(i));
  }
  for (std::int64_t d : order) {
    const auto place = std::find(with_features.begin(), with_features.end(), d);
    if (place != with_features.end()) lanes_last.push_back(place - with_features.begin());
  }
  sum.name += ".pixels";
  sum.shape = hlo::array_shape(hlo::ElementType::kF32, extents);
  sum.shape.layout = tiled_layout(hlo::ElementType::kF32, lanes_last);
  const InstructionId pixels = append(entry_, std::move(sum));
  at(id).operands[0] = pixels;
  at(id).dimensions = rest;
}

}  // namespace

void sum_images_behind_convolutions(hlo::Module& module, double hbm_bytes_per_cycle) {
  SumsOfImages(module, hbm_bytes_per_cycle).run();
}

}  // namespace tpu::compiler
