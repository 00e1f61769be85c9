#include "workloads/compiler/ir/dot_orders.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <optional>

#include "sim/base/ceil_divide.h"
#include "sim/base/contains.h"
#include "workloads/compiler/ir/array_layout.h"
#include "workloads/compiler/ir/dot_problem.h"

namespace tpu::compiler {

using hlo::Shape;

namespace {

/// A larger array is moved only where the products take so many times fewer tiles.
constexpr double kFewerTiles = 4;

/// Several, as the heads of attention. The order of the result of a layer is what the search for
/// orders is after: were it moved alone, the search would stop there.
bool has_matrices(const hlo::HloInstruction& dot) {
  const hlo::DotDimensions& dims = dot.dot;
  return !dims.lhs_batch.empty() && !dims.lhs_contracting.empty();
}

/// Tiles of the MXU that its products take.
double tiles_of(const DotProblem& problem) {
  const auto tiles = [](std::uint32_t extent) { return double(ceil_divide(extent, 128U)); };
  double count = tiles(problem.m) * tiles(problem.n) * tiles(problem.k);
  for (const OuterDimension& outer : problem.outer) count *= outer.extent;
  for (const OuterDimension& outer : problem.outer_k) count *= outer.extent;
  return count;
}

/// Those that no order makes fewer.
double fewest_tiles(const hlo::DotDimensions& dims, const Shape& lhs, const Shape& rhs) {
  double batch = 1, contracted = 1;
  for (const std::int64_t d : dims.lhs_batch)
    batch *= double(lhs.dimensions[static_cast<std::size_t>(d)]);
  for (const std::int64_t d : dims.lhs_contracting) {
    contracted *= double(lhs.dimensions[static_cast<std::size_t>(d)]);
  }
  const double m = double(lhs.element_count()) / (batch * contracted);
  const double n = double(rhs.element_count()) / (batch * contracted);
  return batch * std::ceil(m / 128) * std::ceil(n / 128) * std::ceil(contracted / 128);
}

struct MovedArray {
  DotOrders orders;
  double tiles = 0;  ///< Of the products.
};

/// The first order of one of the arrays with which the dot is one of matrices, of those first that
/// leave its lanes what they are.
std::optional<MovedArray> with_moved(const hlo::HloInstruction& dot,
                                     const std::array<const Shape*, 3>& arrays, std::size_t moved) {
  const std::int64_t minor = arrays[moved]->layout.minor_to_major[0];
  for (const bool keeps_lanes : {true, false}) {
    DimensionOrder wanted = row_major(arrays[moved]->rank());
    do {
      if ((wanted.back() == minor) != keeps_lanes) continue;
      std::array<Shape, 3> turned{*arrays[0], *arrays[1], *arrays[2]};
      turned[moved] = in_order(*arrays[moved], wanted);
      const auto problem = find_dot_problem(dot, turned[0], turned[1], turned[2]);
      if (!problem) continue;
      return MovedArray{
          {major_to_minor(turned[0]), major_to_minor(turned[1]), major_to_minor(turned[2])},
          tiles_of(*problem)};
    } while (std::next_permutation(wanted.begin(), wanted.end()));
  }
  return std::nullopt;
}

std::optional<DotOrders> with_one_moved(const hlo::HloInstruction& dot, const Shape& lhs,
                                        const Shape& rhs, const Shape& result) {
  const std::array<const Shape*, 3> arrays{&lhs, &rhs, &result};
  std::array<std::size_t, 3> smaller_first{0, 1, 2};
  std::stable_sort(smaller_first.begin(), smaller_first.end(), [&](std::size_t a, std::size_t b) {
    return arrays[a]->element_count() < arrays[b]->element_count();
  });
  const double fewest = fewest_tiles(dot.dot, lhs, rhs);
  std::optional<MovedArray> best;
  for (const std::size_t moved : smaller_first) {
    if (best && best->tiles < kFewerTiles * fewest) break;
    if (moved == 2 && !has_matrices(dot)) continue;
    std::optional<MovedArray> next = with_moved(dot, arrays, moved);
    if (next && (!best || next->tiles * kFewerTiles <= best->tiles)) best = std::move(next);
  }
  if (!best) return std::nullopt;
  return best->orders;
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
