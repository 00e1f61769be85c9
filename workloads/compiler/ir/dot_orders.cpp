#include "workloads/compiler/ir/dot_orders.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>

#include "sim/base/contains.h"
#include "workloads/compiler/ir/array_layout.h"
#include "workloads/compiler/ir/dot_problem.h"

namespace tpu::compiler {

using hlo::Shape;

namespace {

/// Several, as the heads of attention. The order of the result of a layer is what the search for
/// orders is after: were it moved alone, the search would stop there.
bool has_matrices(const hlo::HloInstruction& dot) {
  const hlo::DotDimensions& dims = dot.dot;
  return !dims.lhs_batch.empty() && !dims.lhs_contracting.empty();
}

std::optional<DotOrders> with_one_moved(const hlo::HloInstruction& dot, const Shape& lhs,
                                        const Shape& rhs, const Shape& result) {
  const std::array<const Shape*, 3> arrays{&lhs, &rhs, &result};
  std::array<std::size_t, 3> smaller_first{0, 1, 2};
  std::stable_sort(smaller_first.begin(), smaller_first.end(), [&](std::size_t a, std::size_t b) {
    return arrays[a]->element_count() < arrays[b]->element_count();
  });
  for (const std::size_t moved : smaller_first) {
    if (moved == 2 && !has_matrices(dot)) continue;
    const std::int64_t minor = arrays[moved]->layout.minor_to_major[0];
    for (const bool keeps_lanes : {true, false}) {
      DimensionOrder wanted = row_major(arrays[moved]->rank());
      do {
        if ((wanted.back() == minor) != keeps_lanes) continue;
        std::array<Shape, 3> turned{lhs, rhs, result};
        turned[moved] = in_order(*arrays[moved], wanted);
        if (!find_dot_problem(dot, turned[0], turned[1], turned[2])) continue;
        return DotOrders{major_to_minor(turned[0]), major_to_minor(turned[1]),
                         major_to_minor(turned[2])};
      } while (std::next_permutation(wanted.begin(), wanted.end()));
    }
  }
  return std::nullopt;
}

/// A side whose dimensions stand as those of the result do in an order, the last contracted one
/// minor, the other contracted ones outside. `first_free`: of the side's free dimensions in the
/// result.
DimensionOrder side_as_result(const Shape& side, const DimensionOrder& batch,
                              const DimensionOrder& contracting, std::int64_t first_free,
                              const DimensionOrder& order) {
  DimensionOrder own = batch;
  std::vector<std::int64_t> places(batch.size());
  std::iota(places.begin(), places.end(), 0);
  for (std::int64_t d = 0; d < side.rank(); ++d) {
    if (contains(batch, d) || contains(contracting, d)) continue;
    own.push_back(d);
    places.push_back(first_free++);
  }
  DimensionOrder wanted(contracting.begin(), contracting.end() - 1);
  for (const std::int64_t d : order) {
    const auto at = std::find(places.begin(), places.end(), d);
    if (at != places.end()) wanted.push_back(own[static_cast<std::size_t>(at - places.begin())]);
  }
  wanted.push_back(contracting.back());
  return wanted;
}

/// Both operands as a result lies in an order: it has the batch, then the free dimensions of the
/// left side, then those of the right.
DotOrders operands_as_result(const hlo::DotDimensions& dims, const Shape& lhs, const Shape& rhs,
                             const DimensionOrder& order) {
  const auto batch = static_cast<std::int64_t>(dims.lhs_batch.size());
  const std::int64_t behind_left =
      lhs.rank() - static_cast<std::int64_t>(dims.lhs_contracting.size());
  return {side_as_result(lhs, dims.lhs_batch, dims.lhs_contracting, batch, order),
          side_as_result(rhs, dims.rhs_batch, dims.rhs_contracting, behind_left, order), order};
}

}  // namespace

DotOrders orders_of_matrices(const hlo::HloInstruction& dot, const Shape& lhs, const Shape& rhs,
                             const Shape& result) {
  if (auto orders = with_one_moved(dot, lhs, rhs, result)) return *std::move(orders);
  const hlo::DotDimensions& dims = dot.dot;
  if (has_matrices(dot)) {
    DotOrders orders = operands_as_result(dims, lhs, rhs, major_to_minor(result));
    if (find_dot_problem(dot, in_order(lhs, orders.lhs), in_order(rhs, orders.rhs), result)) {
      return orders;
    }
  }
  DotOrders orders = operands_as_result(dims, lhs, rhs, row_major(result.rank()));
  // The last free dimension of the left side and that of the right side make the matrices.
  const auto left_free = lhs.rank() - static_cast<std::int64_t>(dims.lhs_contracting.size()) - 1;
  orders.result.erase(orders.result.begin() + left_free);
  orders.result.insert(orders.result.end() - 1, left_free);
  return orders;
}

}  // namespace tpu::compiler
