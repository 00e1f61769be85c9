#include "workloads/compiler/passes/layout/dot_costs.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "workloads/compiler/ir/dot_orders.h"
#include "workloads/compiler/ir/kernel_forms.h"

namespace tpu::compiler {

using hlo::HloInstruction;
using hlo::Shape;

namespace {

constexpr double kTransposeCycles = 128;  ///< A block of 128 by 128 through the transpose unit.
/// Of so many and so small matrices what is not the products themselves takes most: the kernel is
/// asked.
constexpr double kManyMatrices = 16, kSmallProduct = 128 * 128 * 32;
constexpr double kTileCycles = 64;  ///< A tile of weights against 128 rows, on two MXUs.

}  // namespace

/// Of a dot by its products, and of the blocks that it turns.
DotCosts::Cost DotCosts::cost_of_products(DotProblem problem) const {
  const auto tiles = [](double extent) { return std::ceil(extent / 128); };
  exchange_where_cheaper(problem);
  double matrices = 1;
  for (const OuterDimension& outer : problem.outer) matrices *= outer.extent;
  for (const OuterDimension& outer : problem.outer_k) matrices *= outer.extent;
  const double products =
      matrices * tiles(problem.m) * tiles(problem.n) * tiles(problem.k) * kTileCycles;
  const double multiplications = double(problem.m) * problem.n * problem.k;
  if (matrices >= kManyMatrices && multiplications <= kSmallProduct) {
    const double cycles = product_cycles(std::move(problem), target_);
    return {std::min(products, cycles), std::max(0.0, cycles - products)};
  }
  return {products, double(blocks_to_transpose(problem)) * kTransposeCycles};
}

/// Copies bring arrays that lie as no matrices into orders in which they do, and the product reads
/// and writes those.
DotCosts::Cost DotCosts::cost_with_copies(const HloInstruction& dot, const Shape& lhs,
                                          const Shape& rhs, const Shape& result) const {
  const DotOrders orders = orders_of_matrices(dot, lhs, rhs, result);
  Cost cost;
  const auto moved = [&](const Shape& array, const DimensionOrder& order, bool to_dot) {
    const Shape matrices = in_order(array, order);
    cost.copies +=
        to_dot ? move_cycles(array, matrices, target_) : move_cycles(matrices, array, target_);
    cost.copies +=
        double(matrices.padded_bytes() - array.padded_bytes()) / target_.hbm_bytes_per_cycle;
    return matrices;
  };
  const Shape left = moved(lhs, orders.lhs, true), right = moved(rhs, orders.rhs, true),
              out = moved(result, orders.result, false);
  if (std::optional<DotProblem> problem = find_dot_problem(dot, left, right, out)) {
    const Cost products = cost_of_products(*std::move(problem));
    cost.products = products.products;
    cost.copies += products.copies;
  }
  return cost;
}

std::size_t DotCosts::kind_of(const HloInstruction& dot, const Shape& lhs, const Shape& rhs) {
  const auto [known, is_new] = kind_of_dot_.try_emplace(dot.id);
  if (is_new) {
    const hlo::DotDimensions& dims = dot.dot;
    const Kind kind{{lhs.type, rhs.type, dot.shape.type},
                    {lhs.dimensions, rhs.dimensions, dot.shape.dimensions},
                    {dims.lhs_batch, dims.rhs_batch, dims.lhs_contracting, dims.rhs_contracting,
                     dims.lhs_ragged, dims.rhs_group},
                    operand_parts(dot, lhs.type, rhs.type)};
    known->second = kinds_.emplace(kind, kinds_.size()).first->second;
  }
  return known->second;
}

const DotCosts::Cost& DotCosts::of(const HloInstruction& dot, const Shape& lhs, const Shape& rhs,
                                   const Orders& orders) {
  const auto [place, is_new] = costs_.try_emplace({kind_of(dot, lhs, rhs), orders});
  if (is_new) {
    const Shape left = in_order(lhs, orders[0]), right = in_order(rhs, orders[1]),
                result = in_order(dot.shape, orders[2]);
    std::optional<DotProblem> problem = find_dot_problem(dot, left, right, result);
    place->second = problem ? cost_of_products(*std::move(problem))
                            : cost_with_copies(dot, left, right, result);
  }
  return place->second;
}

}  // namespace tpu::compiler
