#include "workloads/compiler/ir/dot_orders.h"

#include <algorithm>
#include <optional>

#include "sim/base/contains.h"
#include "workloads/compiler/ir/array_layout.h"
#include "workloads/compiler/ir/dot_problem.h"

namespace tpu::compiler {

using hlo::Shape;

namespace {

std::optional<DotOrders> with_one_side(const hlo::HloInstruction& dot, const Shape& lhs,
                                       const Shape& rhs, const Shape& result) {
  const DotOrders present{major_to_minor(lhs), major_to_minor(rhs), major_to_minor(result)};
  const bool right_first = lhs.element_count() > rhs.element_count();
  for (const bool is_right : {right_first, !right_first}) {
    const Shape& side = is_right ? rhs : lhs;
    const std::int64_t minor = side.layout.minor_to_major[0];
    for (const bool keeps_lanes : {true, false}) {
      DimensionOrder wanted = row_major(side.rank());
      do {
        if ((wanted.back() == minor) != keeps_lanes) continue;
        const Shape turned = in_order(side, wanted);
        if (!find_dot_problem(dot, is_right ? lhs : turned, is_right ? turned : rhs, result)) {
          continue;
        }
        DotOrders orders = present;
        (is_right ? orders.rhs : orders.lhs) = wanted;
        return orders;
      } while (std::next_permutation(wanted.begin(), wanted.end()));
    }
  }
  return std::nullopt;
}

}  // namespace

DotOrders orders_of_matrices(const hlo::HloInstruction& dot, const Shape& lhs, const Shape& rhs,
                             const Shape& result) {
  if (auto orders = with_one_side(dot, lhs, rhs, result)) return *std::move(orders);
  const hlo::DotDimensions& dims = dot.dot;
  const auto matrices = [](const Shape& side, const DimensionOrder& batch,
                           const DimensionOrder& contracting) {
    DimensionOrder wanted = batch;
    for (std::int64_t d = 0; d < side.rank(); ++d) {
      if (!contains(batch, d) && !contains(contracting, d)) wanted.push_back(d);
    }
    // All contracted dimensions but the last one stand outside.
    wanted.insert(wanted.begin(), contracting.begin(), contracting.end() - 1);
    wanted.push_back(contracting.back());
    return wanted;
  };
  DotOrders orders{matrices(lhs, dims.lhs_batch, dims.lhs_contracting),
                   matrices(rhs, dims.rhs_batch, dims.rhs_contracting), row_major(result.rank())};
  // The last free dimension of the left side and that of the right side make the matrices.
  const auto left_free = lhs.rank() - static_cast<std::int64_t>(dims.lhs_contracting.size()) - 1;
  orders.result.erase(orders.result.begin() + left_free);
  orders.result.insert(orders.result.end() - 1, left_free);
  return orders;
}

}  // namespace tpu::compiler
