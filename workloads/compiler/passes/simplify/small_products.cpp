#include "workloads/compiler/passes/simplify/small_products.h"

#include <algorithm>
#include <utility>

#include "isa/instruction.h"
#include "sim/base/contains.h"
#include "workloads/compiler/passes/edit.h"
#include "workloads/compiler/passes/graph_editor.h"

namespace tpu::compiler {

using hlo::ElementType;
using hlo::HloInstruction;
using hlo::HloOpcode;

namespace {

using Id = GraphEditor::Id;
using Extents = GraphEditor::Extents;

/// A matrix costs the MXU 130 to 160 cycles in a kernel of this compiler; a register of 1024
/// multiplications and sums costs the vector unit about 7, where a dimension of the batch fills the
/// lanes: 16 registers are less. Where only several dimensions together would, it is a quarter.
constexpr std::int64_t kMostMultiplications = 16384, kMostOfShortBatches = 4096;
constexpr std::int64_t kFewestMatrices = 128;
/// Where a dimension of one side fills the lanes, fewer matrices are many.
constexpr std::int64_t kFewestLongMatrices = 8;

/// A dot in the space [batch..., left free..., right free..., contracted...], or, where an operand
/// has all of these dimensions (of a matrix and a vector the matrix), in the order of that operand.
struct ProductSpace {
  Extents extents;
  Extents left_places, right_places;  ///< Of each dimension of the operands.
  Extents contracted;
  std::int64_t matrices = 1, longest_batch = 1, rows = 1, columns = 1;
  std::int64_t longest_side = 1;  ///< Of the free dimensions.
  std::int64_t terms = 1;         ///< Of a sum.
  Extents result_order;           ///< Of what the sums leave: the dot's dimensions.

  ProductSpace(const hlo::DotDimensions& dims, const Extents& left, const Extents& right)
      : left_places(left.size(), -1), right_places(right.size(), -1) {
    for (std::size_t i = 0; i < dims.lhs_batch.size(); ++i) {
      join(left, dims.lhs_batch[i], dims.rhs_batch[i]);
      matrices *= extents.back();
      longest_batch = std::max(longest_batch, extents.back());
    }
    rows = add_free(left, left_places, dims.lhs_batch, dims.lhs_contracting);
    columns = add_free(right, right_places, dims.rhs_batch, dims.rhs_contracting);
    for (std::size_t i = 0; i < dims.lhs_contracting.size(); ++i) {
      contracted.push_back(static_cast<std::int64_t>(extents.size()));
      join(left, dims.lhs_contracting[i], dims.rhs_contracting[i]);
      terms *= extents.back();
    }
    for (std::size_t d = 0; d + contracted.size() < extents.size(); ++d) {
      result_order.push_back(static_cast<std::int64_t>(d));
    }
    if (right_places.size() == extents.size()) {
      take_order_of(right_places);
    } else if (left_places.size() == extents.size()) {
      take_order_of(left_places);
    }
  }

  /// What the vector unit does as fast as the operands arrive, or faster than the MXU.
  bool is_for_vector_unit() const {
    const std::int64_t most =
        longest_batch >= isa::kLanes ? kMostMultiplications : kMostOfShortBatches;
    const bool is_small = matrices >= kFewestMatrices && multiplications() <= most * matrices;
    const bool is_long = longest_side >= isa::kLanes && matrices >= kFewestLongMatrices &&
                         multiplications() <= kMostMultiplications * matrices;
    return terms == 1 || rows == 1 || columns == 1 || is_small || is_long;
  }

 private:
  std::int64_t multiplications() const {
    std::int64_t all = 1;
    for (std::int64_t extent : extents) all *= extent;
    return all;
  }
  /// `places` are those of an operand that has all dimensions.
  void take_order_of(const Extents places) {
    Extents new_place(places.size()), ordered;
    for (std::size_t d = 0; d < places.size(); ++d) {
      new_place[static_cast<std::size_t>(places[d])] = static_cast<std::int64_t>(d);
      ordered.push_back(extents[static_cast<std::size_t>(places[d])]);
    }
    extents = std::move(ordered);
    for (Extents* of : {&left_places, &right_places, &contracted, &result_order}) {
      for (std::int64_t& d : *of) d = new_place[static_cast<std::size_t>(d)];
    }
    // Places in the space become places in what the sums leave.
    Extents left = result_order;
    std::sort(left.begin(), left.end());
    for (std::int64_t& d : result_order) {
      d = std::lower_bound(left.begin(), left.end(), d) - left.begin();
    }
  }
  /// A dimension that both operands have.
  void join(const Extents& left, std::int64_t of_left, std::int64_t of_right) {
    left_places[static_cast<std::size_t>(of_left)] = static_cast<std::int64_t>(extents.size());
    right_places[static_cast<std::size_t>(of_right)] = static_cast<std::int64_t>(extents.size());
    extents.push_back(left[static_cast<std::size_t>(of_left)]);
  }
  /// Those of one operand; how many elements they have.
  std::int64_t add_free(const Extents& operand, Extents& places, const Extents& batch,
                        const Extents& contracting) {
    std::int64_t elements = 1;
    for (std::size_t d = 0; d < operand.size(); ++d) {
      const auto dimension = static_cast<std::int64_t>(d);
      if (contains(batch, dimension) || contains(contracting, dimension)) continue;
      places[d] = static_cast<std::int64_t>(extents.size());
      extents.push_back(operand[d]);
      elements *= operand[d];
      longest_side = std::max(longest_side, operand[d]);
    }
    return elements;
  }
};

/// The value all over the space; a broadcast takes dimensions in the order of the space. It becomes
/// f32 there, in the kernel that multiplies: before, it would be an array of its own.
Id spread(GraphEditor& edit, Id value, const Extents& places, const Extents& extents) {
  Extents permutation(places.size()), sorted = places;
  for (std::size_t d = 0; d < places.size(); ++d) permutation[d] = static_cast<std::int64_t>(d);
  std::sort(permutation.begin(), permutation.end(), [&](std::int64_t a, std::int64_t b) {
    return places[static_cast<std::size_t>(a)] < places[static_cast<std::size_t>(b)];
  });
  std::sort(sorted.begin(), sorted.end());
  const Id all_over = edit.broadcast(edit.transpose(value, permutation), extents, sorted);
  return edit.convert(all_over, ElementType::kF32);
}

bool is_floating(const hlo::Shape& shape) {
  return shape.type == ElementType::kF32 || shape.type == ElementType::kBf16;
}

}  // namespace

void multiply_small_matrices(hlo::Module& module) {
  GraphEditor edit(module);
  const std::size_t count = module.entry_computation().instructions.size();
  for (std::size_t i = 0; i < count; ++i) {
    const HloInstruction dot = module.entry_computation().instructions[i];
    if (dot.opcode != HloOpcode::kDot) continue;
    const Id left = dot.operands[0], right = dot.operands[1];
    if (!is_floating(dot.shape) || !is_floating(edit.shape(left)) ||
        !is_floating(edit.shape(right))) {
      continue;
    }
    const ProductSpace space(dot.dot, edit.dimensions(left), edit.dimensions(right));
    if (!space.is_for_vector_unit()) continue;
    edit.stand_for(dot.id);
    const Id product =
        edit.binary(HloOpcode::kMultiply, spread(edit, left, space.left_places, space.extents),
                    spread(edit, right, space.right_places, space.extents));
    const Id sum = space.contracted.empty()
                       ? product
                       : edit.reduce(product, HloOpcode::kAdd, space.contracted, 0);
    edit.finish(edit.convert(edit.transpose(sum, space.result_order), dot.shape.type));
  }
  if (module.entry_computation().instructions.size() > count) tidy(module.entry_computation());
}

}  // namespace tpu::compiler
