#include "workloads/compiler/passes/fuse/epilogue_forms.h"

#include <algorithm>
#include <iterator>
#include <set>

#include "sim/base/ceil_divide.h"
#include "sim/base/contains.h"
#include "workloads/compiler/ir/array_layout.h"
#include "workloads/compiler/ir/kernel_forms.h"
#include "workloads/compiler/ir/lane_moves.h"
#include "workloads/compiler/passes/layout/convolution_layouts.h"

namespace tpu::compiler {

using hlo::Computation;
using hlo::HloInstruction;
using hlo::HloOpcode;
using hlo::InstructionId;
using hlo::Shape;

std::uint64_t resident_rows(const Shape& array, bool is_along_rows) {
  const auto elements = static_cast<std::uint64_t>(array.element_count());
  const std::uint64_t registers = round_up(ceil_divide(elements, 8), 16);
  return 6 * granules(array) + 16 + (is_along_rows ? 8 * registers : 0);
}

/// A sum over all of the product's dimensions but one or two, in f32, that its kernel makes.
bool EpilogueForms::is_sum_behind(InstructionId root, InstructionId product) const {
  const HloInstruction& reduce = at(root);
  const Shape& input = at(reduce.operands[0]).shape;
  if (input.dimensions != at(product).shape.dimensions ||
      reduce.shape.type != hlo::ElementType::kF32) {
    return false;
  }
  const Computation& reducer = module_.computation(reduce.called[0]);
  if (reducer.at(reducer.root).opcode != HloOpcode::kAdd) return false;
  // What it keeps, minor dimension first.
  std::vector<std::int64_t> kept;
  for (std::int64_t d = 0; d < input.rank(); ++d) {
    if (std::count(reduce.dimensions.begin(), reduce.dimensions.end(), d) == 0) kept.push_back(d);
  }
  std::vector<std::int64_t> order;
  for (std::int64_t d : reduce.shape.layout.minor_to_major) {
    order.push_back(kept[static_cast<std::size_t>(d)]);
  }
  return may_sum_to(order, product);
}

/// Dots sum to their minor dimension; convolutions that make images to their features, or to both
/// minor dimensions.
bool EpilogueForms::may_sum_to(const std::vector<std::int64_t>& kept, InstructionId product) const {
  const std::vector<std::int64_t>& order = at(product).shape.layout.minor_to_major;
  if (at(product).opcode == HloOpcode::kDot) return kept == std::vector{order[0]};
  if (!makes_images(product)) return false;
  // With pixels in rows the kernel goes from one row of tiles to the next, which a matrix of sums
  // would not stay in registers for.
  if (has_pixels_in_rows(at(product))) return kept == std::vector{order[0]};
  return kept == std::vector{has_batch_in_lanes(product) ? order[1] : order[0]} ||
         kept == std::vector{order[0], order[1]};
}

/// A convolution whose result has its batch in the lanes.
bool EpilogueForms::has_batch_in_lanes(InstructionId product) const {
  const HloInstruction& instruction = at(product);
  return instruction.opcode == HloOpcode::kConvolution &&
         instruction.shape.layout.minor_to_major[0] == instruction.convolution->output_batch;
}

/// A convolution that makes images, not the gradient of a kernel.
bool EpilogueForms::makes_images(InstructionId product) const {
  const HloInstruction& instruction = at(product);
  return instruction.opcode == HloOpcode::kConvolution &&
         instruction.convolution->input_batch < instruction.convolution->input_feature;
}

/// A value whose lanes are fewer or more than the product's, in the same tiles.
bool EpilogueForms::has_other_lanes(InstructionId id, InstructionId product) const {
  const Shape& shape = at(id).shape;
  return shape.dimensions != at(product).shape.dimensions &&
         lie_in_same_tiles(shape, at(product).shape);
}

/// Behind a product there are arrays of its extent, matrices and vectors along its minor dimensions
/// and scalars; results are of its extent or sums to one or both of its minor dimensions.
bool EpilogueForms::fit(const FusionDraft& draft) const {
  const InstructionId product = draft.product;
  const std::vector<std::int64_t>& order = at(product).shape.layout.minor_to_major;
  const bool is_dot = at(product).opcode == HloOpcode::kDot;
  const auto fits = [&](InstructionId id) {
    const HloInstruction& instruction = at(id);
    if (moves_lanes(entry_, instruction) || has_other_lanes(id, product)) return false;
    if (instruction.opcode == HloOpcode::kReduce) return is_sum_behind(id, product);
    if (instruction.opcode == HloOpcode::kIota && instruction.shape.rank() > 0) {
      const std::int64_t along = instruction.dimensions[0];
      return order[0] == along || (is_dot && order[1] == along);
    }
    return instruction.opcode != HloOpcode::kBroadcast || is_broadcast_behind(id, product);
  };
  return std::all_of(draft.inside.begin(), draft.inside.end(), fits) &&
         (is_dot || fit_convolution(draft));
}

bool EpilogueForms::is_side(InstructionId id, InstructionId product) const {
  return contains(at(product).operands, id);
}

/// An array, no side of the convolution, that is the same for all pixels, or a sum over them.
bool EpilogueForms::is_matrix_behind(InstructionId id, const FusionDraft& draft) const {
  return at(id).shape.rank() == 2 && (contains(draft.roots, id) || !is_side(id, draft.product));
}

std::uint64_t EpilogueForms::matrix_granules(const FusionDraft& draft) const {
  std::uint64_t found = 0;
  const std::vector<InstructionId> read = read_behind(draft);
  for (const auto* arrays : {&read, &draft.roots}) {
    for (InstructionId id : *arrays) {
      if (is_matrix_behind(id, draft)) found += granules(at(id).shape);
    }
  }
  return found;
}

/// Blocks of arrays of the convolution's extent, and what stays, leave room for the product. The
/// gradient of a kernel keeps all of its blocks in VMEM, others whole rows of pixels: with one
/// array behind it the layout was chosen so that it has a kernel, with more, or with matrices that
/// stay, it may have none.
bool EpilogueForms::fit_convolution(const FusionDraft& draft) const {
  std::size_t images = 0, read = 0, made = 0;
  std::int64_t elements = 0;
  const auto count = [&](InstructionId id, std::size_t& apart) {
    const Shape& shape = at(id).shape;
    if (shape.rank() == 1) elements += shape.element_count();
    if (shape.dimensions != at(draft.product).shape.dimensions) return;
    ++images;
    if (!is_side(id, draft.product)) ++apart;
  };
  for (InstructionId leaf : draft.leaves) count(leaf, read);
  for (InstructionId root : draft.roots) count(root, made);
  const std::uint64_t matrices = matrix_granules(draft);
  if (images > limits_.convolution_images || elements > limits_.convolution_vectors ||
      matrices > limits_.convolution_matrices) {
    return false;
  }
  return !limits_.product_cycles || (read <= 1 && made <= 1 && matrices == 0) || made == 0 ||
         cycles(draft).has_value();
}

/// What the operations behind the product read: not what makes its sides alone.
std::vector<InstructionId> EpilogueForms::read_behind(const FusionDraft& draft) const {
  const std::set<InstructionId> inside(draft.inside.begin(), draft.inside.end());
  std::set<InstructionId> behind(draft.roots.begin(), draft.roots.end());
  std::vector<InstructionId> work(draft.roots.begin(), draft.roots.end());
  while (!work.empty()) {
    const InstructionId id = work.back();
    work.pop_back();
    if (id == draft.product || inside.count(id) == 0) continue;
    for (InstructionId operand : at(id).operands) {
      if (behind.insert(operand).second) work.push_back(operand);
    }
  }
  std::vector<InstructionId> read;
  std::copy_if(draft.leaves.begin(), draft.leaves.end(), std::back_inserter(read),
               [&](InstructionId leaf) { return behind.count(leaf) != 0; });
  return read;
}

/// VMEM rows of vectors and matrices behind the product, and of sums to such.
std::uint64_t EpilogueForms::rows_behind(const FusionDraft& draft) const {
  const bool spreads = has_batch_in_lanes(draft.product);
  const auto stays = [&](InstructionId id) {
    const std::int64_t rank = at(id).shape.rank();
    return (rank == 1 || rank == 2) && rank < at(draft.product).shape.rank();
  };
  std::uint64_t rows = 0;
  for (InstructionId leaf : read_behind(draft)) {
    if (!stays(leaf) || is_side(leaf, draft.product)) continue;
    rows += resident_rows(at(leaf).shape, spreads && at(leaf).shape.rank() == 1);
  }
  for (InstructionId root : draft.roots) {
    if (!stays(root)) continue;
    const bool is_vector = at(root).shape.rank() == 1;
    // Sums to lanes have a register for each tile of them.
    rows += resident_rows(at(root).shape, spreads && is_vector) +
            (is_vector && !spreads ? 32 * granules(at(root).shape) + 256 : 0);
  }
  return rows;
}

std::optional<double> EpilogueForms::cycles(const FusionDraft& draft,
                                            const MadeSides& sides) const {
  if (!limits_.product_cycles) return std::nullopt;
  const HloInstruction& product = at(draft.product);
  AroundProduct around;
  around.has_expression = !draft.inside.empty();
  around.sides = sides;
  around.resident_rows = rows_behind(draft);
  for (InstructionId leaf : read_behind(draft)) {
    if (!is_side(leaf, draft.product) && at(leaf).shape.dimensions == product.shape.dimensions) {
      around.read.push_back(at(leaf).shape.type);
    }
  }
  const Shape* made = nullptr;
  for (InstructionId root : draft.roots) {
    if (at(root).shape.dimensions != product.shape.dimensions) continue;
    if (made != nullptr) {
      around.made.push_back(at(root).shape.type);
    } else {
      made = &at(root).shape;
    }
  }
  if (made == nullptr) return std::nullopt;
  return limits_.product_cycles(entry_, product, *made, around);
}

/// A scalar, a vector or a matrix that goes along one or both of the minor dimensions.
bool EpilogueForms::is_broadcast_behind(InstructionId id, InstructionId product) const {
  const HloInstruction& broadcast = at(id);
  const Shape& operand = at(broadcast.operands[0]).shape;
  const std::vector<std::int64_t>& order = at(product).shape.layout.minor_to_major;
  if (operand.rank() == 0) return true;
  const bool is_dot = at(product).opcode == HloOpcode::kDot;
  if (operand.rank() == 1) {
    const bool is_short = static_cast<std::uint64_t>(operand.element_count()) <= kLongestRowVector;
    return broadcast.dimensions[0] == order[0] ||
           ((has_batch_in_lanes(product) || (is_dot && is_short)) &&
            broadcast.dimensions[0] == order[1]);
  }
  if (operand.rank() != 2 || order.size() <= 2) return false;
  const auto along = [&](std::size_t minor) {
    return broadcast.dimensions[static_cast<std::size_t>(operand.layout.minor_to_major[minor])];
  };
  return (is_dot || makes_images(product)) && along(0) == order[0] && along(1) == order[1];
}

/// A sum over rows is known when the kernel ends.
bool EpilogueForms::uses_own_sum(const FusionDraft& draft) const {
  const std::set<InstructionId> inside(draft.inside.begin(), draft.inside.end());
  return std::any_of(draft.inside.begin(), draft.inside.end(), [&](InstructionId id) {
    const std::vector<InstructionId>& operands = at(id).operands;
    return std::any_of(operands.begin(), operands.end(), [&](InstructionId operand) {
      return is_plain_reduce(at(operand)) && inside.count(operand) != 0;
    });
  });
}

}  // namespace tpu::compiler
