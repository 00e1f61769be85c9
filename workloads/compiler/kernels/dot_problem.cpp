#include "workloads/compiler/kernels/dot_problem.h"

#include <algorithm>
#include <utility>

#include "sim/base/error.h"
#include "workloads/compiler/kernels/expression_graph.h"

namespace tpu::compiler {

using hlo::ElementType;
using hlo::Shape;

namespace {

using Dimensions = std::vector<std::int64_t>;

bool contains(const Dimensions& list, std::int64_t value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

std::uint32_t ceil_divide(std::int64_t a, std::int64_t b) {
  return static_cast<std::uint32_t>((a + b - 1) / b);
}

std::uint32_t tile_granules(ElementType type) { return type == ElementType::kBf16 ? 2 : 4; }

/// An operand or the result: its dimensions in physical order and the distance between neighbours
/// of each.
struct View {
  Shape shape;
  Dimensions order;  ///< Logical dimensions, major to minor.
  std::vector<std::uint32_t>
      strides;  ///< Granules, per place in `order`; 0 for the two minor ones.

  explicit View(const Shape& given) : shape(given), order(major_to_minor(given)) {
    const std::vector<std::int64_t> extents = physical_extents(given);
    strides.assign(extents.size(), 0);
    std::uint64_t granules = std::uint64_t{ceil_divide(extents[extents.size() - 2], 8)} *
                             ceil_divide(extents.back(), 128) * tile_granules(given.type);
    for (std::size_t i = extents.size() - 2; i-- > 0;) {
      strides[i] = static_cast<std::uint32_t>(granules);
      granules *= static_cast<std::uint64_t>(extents[i]);
    }
  }
  std::int64_t row_dimension() const { return order[order.size() - 2]; }
  std::int64_t lane_dimension() const { return order.back(); }
  std::uint32_t stride_of(std::int64_t dimension) const {
    const auto place = std::find(order.begin(), order.end(), dimension) - order.begin();
    return strides[static_cast<std::size_t>(place)];
  }
  bool is_minor(std::int64_t dimension) const {
    return dimension == row_dimension() || dimension == lane_dimension();
  }
};

[[noreturn]] void refuse(const hlo::HloInstruction& dot, const Shape& lhs, const Shape& rhs,
                         const std::string& why) {
  throw WorkloadError("dot " + dot.name + " of " + hlo::to_string(lhs) + " and " +
                      hlo::to_string(rhs) + ": no kernel: " + why);
}

bool is_supported(const Shape& shape) {
  return shape.rank() >= 2 && (shape.type == ElementType::kF32 || shape.type == ElementType::kBf16);
}

Dimensions free_dimensions(const Shape& shape, const Dimensions& batch,
                           const Dimensions& contracting) {
  Dimensions free;
  for (std::int64_t d = 0; d < shape.rank(); ++d) {
    if (!contains(batch, d) && !contains(contracting, d)) free.push_back(d);
  }
  return free;
}

/// Neighbouring outer dimensions that every array steps through evenly become one.
void merge(std::vector<OuterDimension>& outer) {
  std::vector<OuterDimension> merged;
  for (const OuterDimension& dimension : outer) {
    if (dimension.extent == 1) continue;
    if (!merged.empty()) {
      OuterDimension& before = merged.back();
      const auto even = [&](std::uint32_t major, std::uint32_t minor) {
        return std::uint64_t{minor} * dimension.extent == major;
      };
      if (even(before.lhs, dimension.lhs) && even(before.rhs, dimension.rhs) &&
          even(before.out, dimension.out)) {
        before = {before.extent * dimension.extent, dimension.lhs, dimension.rhs, dimension.out};
        continue;
      }
    }
    merged.push_back(dimension);
  }
  outer = merged;
}

}  // namespace

DotProblem dot_problem(const hlo::HloInstruction& dot, const Shape& lhs, const Shape& rhs,
                       const Shape& out) {
  // The expression behind the product may make it of any 32-bit type.
  const Shape product = hlo::array_shape(
      hlo::byte_size(out.type) == 4 ? ElementType::kF32 : out.type, out.dimensions);
  for (const Shape* shape : {&lhs, &rhs, &product}) {
    if (!is_supported(*shape)) {
      refuse(dot, lhs, rhs, "expected f32 or bf16 arrays of rank 2 or more");
    }
  }
  const hlo::DotDimensions& dims = dot.dot;
  const Dimensions lhs_free = free_dimensions(lhs, dims.lhs_batch, dims.lhs_contracting);
  const Dimensions rhs_free = free_dimensions(rhs, dims.rhs_batch, dims.rhs_contracting);
  const View l(lhs), r(rhs), o(out);
  if (dims.lhs_contracting.size() != 1 || !l.is_minor(dims.lhs_contracting[0]) ||
      !r.is_minor(dims.rhs_contracting[0])) {
    refuse(dot, lhs, rhs,
           "expected one contracted dimension, among the two minor ones of each side");
  }
  if (lhs_free.empty() || rhs_free.size() != 1) {
    refuse(dot, lhs, rhs, "expected free dimensions on both sides, one on the right");
  }
  const std::int64_t lhs_k = dims.lhs_contracting[0];
  const std::int64_t rhs_k = dims.rhs_contracting[0];
  DotProblem problem;
  problem.name = dot.name;
  problem.lhs_transposed = lhs_k == l.row_dimension();
  problem.rhs_transposed = rhs_k == r.lane_dimension();
  const std::int64_t m = problem.lhs_transposed ? l.lane_dimension() : l.row_dimension();
  const std::int64_t n = problem.rhs_transposed ? r.row_dimension() : r.lane_dimension();
  const auto out_of_batch = [](std::size_t i) { return static_cast<std::int64_t>(i); };
  const auto out_of_lhs = [&](std::size_t i) {
    return static_cast<std::int64_t>(dims.lhs_batch.size() + i);
  };
  if (!contains(lhs_free, m) || n != rhs_free[0] ||
      out_of_lhs(lhs_free.size()) != o.lane_dimension() ||
      lhs_free[static_cast<std::size_t>(o.row_dimension()) - dims.lhs_batch.size()] != m) {
    refuse(dot, lhs, rhs, "the two minor dimensions of operands and result make no matrices");
  }
  const auto extent = [](const Shape& shape, std::int64_t d) {
    return static_cast<std::uint32_t>(shape.dimensions[static_cast<std::size_t>(d)]);
  };
  problem.m = extent(lhs, m);
  problem.n = extent(rhs, n);
  problem.k = extent(lhs, lhs_k);
  for (std::size_t i = 0; i < dims.lhs_batch.size(); ++i) {
    problem.outer.push_back({extent(lhs, dims.lhs_batch[i]), l.stride_of(dims.lhs_batch[i]),
                             r.stride_of(dims.rhs_batch[i]), o.stride_of(out_of_batch(i))});
  }
  for (std::size_t i = 0; i < lhs_free.size(); ++i) {
    if (lhs_free[i] == m) continue;
    problem.outer.push_back(
        {extent(lhs, lhs_free[i]), l.stride_of(lhs_free[i]), 0, o.stride_of(out_of_lhs(i))});
  }
  std::sort(problem.outer.begin(), problem.outer.end(),
            [](const OuterDimension& a, const OuterDimension& b) { return a.out > b.out; });
  merge(problem.outer);
  problem.lhs_type = lhs.type;
  problem.rhs_type = rhs.type;
  problem.result_types = {out.type};
  return problem;
}

void turn_where_cheaper(DotProblem& problem) {
  if (!problem.lhs_transposed || problem.row_period != 0) return;
  const bool narrower = (problem.n + 127) / 128 < (problem.m + 127) / 128;
  if (!problem.rhs_transposed && !narrower) return;
  // [k, m] and [k, n] become [n, k] x [k, m], [k, m] and [n, k] become the same without a
  // transposition of either side.
  std::swap(problem.m, problem.n);
  std::swap(problem.lhs_type, problem.rhs_type);
  problem.lhs_transposed = !problem.rhs_transposed;
  problem.rhs_transposed = false;
  problem.result_turned = true;
  for (OuterDimension& outer : problem.outer) std::swap(outer.lhs, outer.rhs);
}

}  // namespace tpu::compiler
