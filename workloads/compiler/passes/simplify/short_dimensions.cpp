#include "workloads/compiler/passes/simplify/short_dimensions.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "isa/instruction.h"
#include "sim/base/contains.h"
#include "workloads/compiler/ir/combining_operation.h"
#include "workloads/compiler/passes/edit.h"
#include "workloads/compiler/passes/graph_editor.h"
#include "workloads/compiler/passes/simplify/constant_folding.h"
#include "workloads/compiler/passes/simplify/spread_values.h"

namespace tpu::compiler {

using hlo::Computation;
using hlo::HloInstruction;
using hlo::HloOpcode;

namespace {

using Id = GraphEditor::Id;
using Extents = GraphEditor::Extents;

constexpr std::int64_t kLongestShort = 8;
/// At each index of the short dimension: of fewer the kernels are small anyway.
constexpr std::int64_t kFewestAtIndex = 1 << 16;
/// How much smaller arrays are that have the short dimension: slices of them cost little beside.
constexpr std::int64_t kShareOfSources = 32;

Extents without(Extents extents, std::int64_t dimension) {
  extents.erase(extents.begin() + dimension);
  return extents;
}

class ShortDimensions {
 public:
  explicit ShortDimensions(hlo::Module& module) : module_(module), edit_(module) {}

  void run() {
    const std::size_t count = entry().instructions.size();
    bool changed = false;
    for (std::size_t i = 0; i < count; ++i) {
      const HloInstruction instruction = entry().instructions[i];
      if (instruction.opcode == HloOpcode::kReduce && !instruction.shape.is_tuple()) {
        changed |= visit(instruction);
      }
    }
    if (changed) tidy(module_.computations[static_cast<std::size_t>(module_.entry)]);
  }

 private:
  const Computation& entry() const { return module_.entry_computation(); }
  const HloInstruction& at(Id id) const { return entry().at(id); }
  std::optional<std::int64_t> short_dimension(const SpreadValue& spread, const Extents& space,
                                              const Extents& reduced) const;
  bool visit(const HloInstruction& reduction);
  Id at_index(Id leaf, std::int64_t dimension, std::int64_t index);

  hlo::Module& module_;
  GraphEditor edit_;
};

/// The shortest one of those that are reduced, else of the others; none where arrays that have it
/// are large.
std::optional<std::int64_t> ShortDimensions::short_dimension(const SpreadValue& spread,
                                                             const Extents& space,
                                                             const Extents& reduced) const {
  std::int64_t elements = 1, terms = 1;
  for (const std::int64_t each : space) elements *= each;
  for (const std::int64_t d : reduced) terms *= space[static_cast<std::size_t>(d)];
  std::int64_t dimension = -1, extent = kLongestShort + 1;
  for (const bool is_reduced : {true, false}) {
    if (dimension >= 0) break;
    for (std::size_t d = 0; d < space.size(); ++d) {
      const auto candidate = static_cast<std::int64_t>(d);
      if (contains(reduced, candidate) != is_reduced || space[d] >= extent) continue;
      // Many sums of few terms stand in whole tiles.
      const bool fills_tiles = space[d] % isa::kSublanes == 0 && elements / terms > terms;
      if (!is_reduced && fills_tiles) continue;
      dimension = candidate, extent = space[d];
    }
  }
  if (extent < 2 || extent > kLongestShort || elements / extent < kFewestAtIndex) {
    return std::nullopt;
  }
  if (spread.operations.size() * static_cast<std::size_t>(extent) > kMostOperations) {
    return std::nullopt;
  }
  bool is_spread = false;  // Something has it, or counts it: else it is none of the expression.
  for (const Id leaf : spread.leaves) {
    if (!contains(at(leaf).dimensions, dimension)) continue;
    is_spread = true;
    if (at(leaf).opcode == HloOpcode::kBroadcast &&
        at(at(leaf).operands[0]).shape.element_count() * kShareOfSources > elements) {
      return std::nullopt;
    }
  }
  if (!is_spread) return std::nullopt;
  return dimension;
}

/// A leaf at one index of the dimension.
Id ShortDimensions::at_index(Id leaf, std::int64_t dimension, std::int64_t index) {
  const HloInstruction given = at(leaf);
  const Extents space = without(given.shape.dimensions, dimension);
  if (given.opcode == HloOpcode::kIota) {
    const std::int64_t along = given.dimensions.at(0);
    if (along == dimension) return edit_.splat(given.shape.type, space, double(index));
    return edit_.iota(given.shape.type, space, along - (along > dimension ? 1 : 0));
  }
  Id source = given.operands[0];
  Extents places;
  for (std::size_t d = 0; d < given.dimensions.size(); ++d) {
    const std::int64_t place = given.dimensions[d];
    if (place == dimension) {
      const auto along = static_cast<std::int64_t>(d);
      Extents starts(given.dimensions.size(), 0), limits = edit_.dimensions(source);
      starts[d] = index;
      limits[d] = index + 1;
      source = edit_.slice(source, starts, limits);
      source = edit_.reshape(source, without(edit_.dimensions(source), along));
    } else {
      places.push_back(place - (place > dimension ? 1 : 0));
    }
  }
  return edit_.broadcast(source, space, places);
}

bool ShortDimensions::visit(const HloInstruction& reduction) {
  const HloOpcode combine = combining_operation(module_.computation(reduction.called.at(0)));
  if (combine != HloOpcode::kAdd && combine != HloOpcode::kMaximum &&
      combine != HloOpcode::kMinimum) {
    return false;
  }
  const Extents space = edit_.dimensions(reduction.operands[0]);
  const std::optional<double> initial = splat_value(entry(), reduction.operands[1]);
  const auto spread = spread_value(entry(), reduction.operands[0]);
  if (!initial || !spread) return false;
  const std::optional<std::int64_t> dimension =
      short_dimension(*spread, space, reduction.dimensions);
  if (!dimension) return false;
  const bool is_along = contains(reduction.dimensions, *dimension);
  if (is_along && combine == HloOpcode::kAdd && *initial != 0) return false;
  edit_.stand_for(reduction.id);
  const std::int64_t extent = space[static_cast<std::size_t>(*dimension)];
  Extents others;  // Reduced, too.
  std::int64_t kept_before = 0;
  for (const std::int64_t d : reduction.dimensions) {
    if (d != *dimension) others.push_back(d - (d > *dimension ? 1 : 0));
  }
  for (std::int64_t d = 0; d < *dimension; ++d) {
    kept_before += contains(reduction.dimensions, d) ? 0 : 1;
  }
  std::vector<Id> terms;
  for (std::int64_t index = 0; index < extent; ++index) {
    Id value = make_again(edit_, entry(), *spread, without(space, *dimension),
                          [&, at = index](Id leaf) { return at_index(leaf, *dimension, at); });
    if (!others.empty()) value = edit_.reduce_again(reduction, value, others);
    terms.push_back(value);
  }
  if (!is_along) {
    for (Id& each : terms) {
      Extents one = edit_.dimensions(each);
      one.insert(one.begin() + kept_before, 1);
      each = edit_.reshape(each, one);
    }
    edit_.finish(edit_.concatenate(terms, kept_before));
    return true;
  }
  Id value = terms[0];
  for (std::size_t i = 1; i < terms.size(); ++i) value = edit_.binary(combine, value, terms[i]);
  // Where others are reduced, too, each part begins with it.
  const bool is_extreme = combine != HloOpcode::kAdd;
  if (is_extreme && others.empty()) value = edit_.binary_with(combine, value, *initial);
  edit_.finish(value);
  return true;
}

}  // namespace

void unroll_short_dimensions(hlo::Module& module) { ShortDimensions(module).run(); }

}  // namespace tpu::compiler
