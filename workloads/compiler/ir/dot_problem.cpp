#include "workloads/compiler/ir/dot_problem.h"

#include <algorithm>
#include <array>
#include <utility>

#include "sim/base/ceil_divide.h"
#include "sim/base/contains.h"
#include "sim/base/error.h"
#include "workloads/compiler/ir/array_layout.h"
#include "workloads/compiler/ir/dimension_order.h"
#include "workloads/compiler/ir/kernel_forms.h"

namespace tpu::compiler {

using hlo::ElementType;
using hlo::Shape;

namespace {

using Dimensions = std::vector<std::int64_t>;

/// Tiles of `size` that cover `extent`.
std::uint32_t tiles_across(std::int64_t extent, std::int64_t size) {
  return static_cast<std::uint32_t>(ceil_divide(extent, size));
}

std::uint32_t lane_tiles(std::uint32_t extent) { return tiles_across(extent, 128); }

std::uint32_t tile_granules(ElementType type) { return type == ElementType::kBf16 ? 2 : 4; }

/// Of a matrix.
std::uint64_t granules_of(std::int64_t rows, std::int64_t columns, ElementType type) {
  return std::uint64_t{tiles_across(rows, 8)} * tiles_across(columns, 128) * tile_granules(type);
}

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
    std::uint64_t granules = granules_of(extents[extents.size() - 2], extents.back(), given.type);
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

[[noreturn]] void refuse_dot(const hlo::HloInstruction& dot, const Shape& lhs, const Shape& rhs,
                             const std::string& why) {
  throw WorkloadError("dot " + dot.name + " of " + hlo::to_string(lhs) + " and " +
                      hlo::to_string(rhs) + ": no kernel: " + why);
}

bool is_supported(const Shape& shape) {
  return shape.rank() >= 2 && (shape.type == ElementType::kF32 || shape.type == ElementType::kBf16);
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

/// The dimension numbers of a dot with the way its arrays lie.
struct Sides {
  const hlo::DotDimensions& dims;
  View lhs, rhs, out;
  Dimensions lhs_free, rhs_free;

  std::int64_t out_of_batch(std::size_t i) const { return static_cast<std::int64_t>(i); }
  std::int64_t out_of_lhs(std::size_t i) const {
    return static_cast<std::int64_t>(dims.lhs_batch.size() + i);
  }
  std::int64_t out_of_rhs(std::size_t i) const {
    return static_cast<std::int64_t>(dims.lhs_batch.size() + lhs_free.size() + i);
  }
};

std::uint32_t dimension_extent(const Shape& shape, std::int64_t d) {
  return static_cast<std::uint32_t>(shape.dimensions[static_cast<std::size_t>(d)]);
}

/// Fills in the matrices; false when the minor dimensions are not those of matrices.
bool find_matrices(const Sides& sides, DotProblem& problem) {
  const hlo::DotDimensions& dims = sides.dims;
  problem.lhs_transposed = contains(dims.lhs_contracting, sides.lhs.row_dimension());
  problem.rhs_transposed = contains(dims.rhs_contracting, sides.rhs.lane_dimension());
  std::int64_t lhs_k = sides.lhs.lane_dimension(), m = sides.lhs.row_dimension();
  std::int64_t rhs_k = sides.rhs.row_dimension(), n = sides.rhs.lane_dimension();
  if (problem.lhs_transposed) std::swap(lhs_k, m);
  if (problem.rhs_transposed) std::swap(rhs_k, n);
  const auto k = static_cast<std::size_t>(place_in(dims.lhs_contracting, lhs_k));
  if (k == dims.lhs_contracting.size() || dims.rhs_contracting[k] != rhs_k) return false;
  if (!contains(sides.lhs_free, m) || !contains(sides.rhs_free, n)) return false;
  const std::int64_t out_m = sides.out_of_lhs(place_in(sides.lhs_free, m));
  const std::int64_t out_n = sides.out_of_rhs(place_in(sides.rhs_free, n));
  problem.result_turned = sides.out.lane_dimension() == out_m;
  if (!sides.out.is_minor(out_m) || !sides.out.is_minor(out_n)) return false;
  problem.m = dimension_extent(sides.lhs.shape, m);
  problem.n = dimension_extent(sides.rhs.shape, n);
  problem.k = dimension_extent(sides.lhs.shape, lhs_k);
  for (std::size_t i = 0; i < dims.lhs_batch.size(); ++i) {
    const std::int64_t l = dims.lhs_batch[i], r = dims.rhs_batch[i];
    if (dimension_extent(sides.lhs.shape, l) == 1) continue;
    problem.outer.push_back({dimension_extent(sides.lhs.shape, l), sides.lhs.stride_of(l),
                             sides.rhs.stride_of(r), sides.out.stride_of(sides.out_of_batch(i))});
  }
  for (std::size_t i = 0; i < sides.lhs_free.size(); ++i) {
    const std::int64_t d = sides.lhs_free[i];
    if (d == m || dimension_extent(sides.lhs.shape, d) == 1) continue;
    problem.outer.push_back({dimension_extent(sides.lhs.shape, d), sides.lhs.stride_of(d), 0,
                             sides.out.stride_of(sides.out_of_lhs(i))});
  }
  for (std::size_t i = 0; i < sides.rhs_free.size(); ++i) {
    const std::int64_t d = sides.rhs_free[i];
    if (d == n || dimension_extent(sides.rhs.shape, d) == 1) continue;
    problem.outer.push_back({dimension_extent(sides.rhs.shape, d), 0, sides.rhs.stride_of(d),
                             sides.out.stride_of(sides.out_of_rhs(i))});
  }
  for (std::size_t i = 0; i < dims.lhs_contracting.size(); ++i) {
    const std::int64_t l = dims.lhs_contracting[i];
    if (i == k || dimension_extent(sides.lhs.shape, l) == 1) continue;
    problem.outer_k.push_back({dimension_extent(sides.lhs.shape, l), sides.lhs.stride_of(l),
                               sides.rhs.stride_of(dims.rhs_contracting[i]), 0});
  }
  return true;
}

/// Rows of an array that become longer by those of further matrices.
class LongerRows {
 public:
  /// `rows` of `lanes` elements; `in_vmem`: none may stand apart.
  LongerRows(SpacedMatrices& matrices, ElementType type, bool in_vmem)
      : matrices_(matrices), type_(type), in_vmem_(in_vmem) {}

  /// Whether the next matrix, so many granules on, goes on where these rows end.
  bool follows(std::uint32_t rows, std::uint32_t lanes, std::uint32_t distance) const {
    if (matrices_.is_one()) return distance == granules_of(rows, lanes, type_);
    return distance == std::uint64_t{tiles_across(rows, 8)} / matrices_.tiles * matrices_.distance;
  }
  /// Whether `count` of them may stand apart: of blocks of 128 rows each has whole matrices.
  bool may_stand_apart(std::uint32_t rows, std::uint32_t distance, std::uint32_t count) const {
    const std::uint32_t tiles = tiles_across(rows, 8);
    return !in_vmem_ && matrices_.is_one() && distance != 0 && 16 % tiles == 0 &&
           tiles * count % 16 == 0;
  }
  void stand_apart(std::uint32_t rows, std::uint32_t distance) {
    matrices_ = {tiles_across(rows, 8), distance};
  }

 private:
  SpacedMatrices& matrices_;
  ElementType type_;
  bool in_vmem_;
};

/// One of two arrays whose rows become longer together.
struct LongerArray {
  LongerRows rows;
  std::uint32_t lanes;
  std::uint32_t OuterDimension::*distance;
};

/// Whether a kernel finds the padding between so many matrices of these rows, if there is any.
bool finds_padding(std::uint32_t rows, std::uint32_t matrices) {
  const std::uint32_t tiles = tiles_across(rows, 8);
  return rows % 8 == 0 || has_modulo(tiles, 2 * std::int64_t{tiles} * matrices);
}

/// Whether rows of both go on with an outer dimension; where they stand apart, from here on.
bool go_on(std::array<LongerArray, 2>& arrays, std::uint32_t rows, const OuterDimension& outer) {
  const auto follows = [&](const LongerArray& array) {
    return array.rows.follows(rows, array.lanes, outer.*array.distance);
  };
  for (const LongerArray& array : arrays) {
    if (follows(array)) continue;
    if (!array.rows.may_stand_apart(rows, outer.*array.distance, outer.extent)) return false;
  }
  for (LongerArray& array : arrays) {
    if (!follows(array)) array.rows.stand_apart(rows, outer.*array.distance);
  }
  return true;
}

/// Where the contracted dimension stands in the rows of both sides, contracted dimensions right
/// above it only make it longer.
void merge_contracted(const Sides& sides, DotProblem& problem, bool in_vmem) {
  if (!problem.lhs_transposed || problem.rhs_transposed) return;
  std::array arrays{
      LongerArray{
          {problem.lhs_rows, sides.lhs.shape.type, in_vmem}, problem.m, &OuterDimension::lhs},
      LongerArray{
          {problem.rhs_rows, sides.rhs.shape.type, in_vmem}, problem.n, &OuterDimension::rhs}};
  while (!problem.outer_k.empty()) {
    const OuterDimension& last = problem.outer_k.back();
    if (!finds_padding(problem.k, last.extent) || !go_on(arrays, problem.k, last)) return;
    if (problem.k % 8 != 0) {
      problem.matrix_k = problem.k;
      problem.k = 8 * tiles_across(problem.k, 8);
    }
    problem.k *= last.extent;
    problem.outer_k.pop_back();
  }
}

/// Where an operand's free dimension and the result's stand in the rows of both, free dimensions
/// right above it only make it longer. So a matrix of weights is read once for all examples of a
/// batch.
void merge_free(const Sides& sides, DotProblem& problem, bool in_vmem) {
  // The left side's rows are those of a result that lies straight, the right side's of a turned
  // one.
  if (problem.result_turned ? !problem.rhs_transposed : problem.lhs_transposed) return;
  const bool turned = problem.result_turned;
  std::uint32_t& rows = turned ? problem.n : problem.m;
  const std::uint32_t across = turned ? problem.m : problem.n;
  const auto mine = turned ? &OuterDimension::rhs : &OuterDimension::lhs;
  const auto other = turned ? &OuterDimension::lhs : &OuterDimension::rhs;
  const ElementType type = turned ? sides.rhs.shape.type : sides.lhs.shape.type;
  std::array arrays{
      LongerArray{{turned ? problem.rhs_rows : problem.lhs_rows, type, in_vmem}, problem.k, mine},
      LongerArray{{problem.out_rows, sides.out.shape.type, in_vmem}, across, &OuterDimension::out}};
  const auto lengthens_rows = [&](const OuterDimension& outer) {
    return outer.*other == 0 && finds_padding(rows, outer.extent) && go_on(arrays, rows, outer);
  };
  for (;;) {
    // The innermost first: what stands apart has no other inside.
    const auto next = std::find_if(problem.outer.rbegin(), problem.outer.rend(), lengthens_rows);
    if (next == problem.outer.rend()) return;
    if (rows % 8 != 0) {
      problem.matrix_rows = rows;
      rows = 8 * tiles_across(rows, 8);
    }
    rows *= next->extent;
    problem.outer.erase(std::next(next).base());
  }
}

}  // namespace

std::vector<std::int64_t> free_dimensions(const Shape& shape,
                                          const std::vector<std::int64_t>& batch,
                                          const std::vector<std::int64_t>& contracting) {
  std::vector<std::int64_t> free;
  for (std::int64_t d = 0; d < shape.rank(); ++d) {
    if (!contains(batch, d) && !contains(contracting, d)) free.push_back(d);
  }
  return free;
}

DotProblem dot_problem(const hlo::HloInstruction& dot, const Shape& lhs, const Shape& rhs,
                       const Shape& out, const DotForm& form) {
  // The expression behind the product may make it of any 32-bit type.
  const Shape product = hlo::array_shape(
      hlo::byte_size(out.type) == 4 ? ElementType::kF32 : out.type, out.dimensions);
  for (const Shape* shape : {&lhs, &rhs, &product}) {
    if (!is_supported(*shape)) {
      refuse_dot(dot, lhs, rhs, "expected f32 or bf16 arrays of rank 2 or more");
    }
  }
  std::optional<DotProblem> problem = find_dot_problem(dot, lhs, rhs, out, form);
  if (!problem) {
    refuse_dot(
        dot, lhs, rhs,
        "expected a contracted and a free dimension as the two minor ones of each side, and the "
        "two free ones as those of the result " +
            hlo::to_string(out));
  }
  return *std::move(problem);
}

std::optional<DotProblem> find_dot_problem(const hlo::HloInstruction& dot, const Shape& lhs,
                                           const Shape& rhs, const Shape& out,
                                           const DotForm& form) {
  const hlo::DotDimensions& dims = dot.dot;
  const Sides sides{dims,
                    View(lhs),
                    View(rhs),
                    View(out),
                    free_dimensions(lhs, dims.lhs_batch, dims.lhs_contracting),
                    free_dimensions(rhs, dims.rhs_batch, dims.rhs_contracting)};
  DotProblem problem;
  problem.name = dot.name;
  problem.keeps_matrices = form.keeps_matrices;
  if (!find_matrices(sides, problem)) return std::nullopt;
  std::sort(problem.outer.begin(), problem.outer.end(),
            [](const OuterDimension& a, const OuterDimension& b) { return a.out > b.out; });
  if (!form.keeps_matrices) merge_free(sides, problem, form.stands_in_vmem);
  merge(problem.outer);
  std::sort(problem.outer_k.begin(), problem.outer_k.end(),
            [](const OuterDimension& a, const OuterDimension& b) { return a.lhs > b.lhs; });
  merge_contracted(sides, problem, form.stands_in_vmem);
  merge(problem.outer_k);
  problem.lhs_type = lhs.type;
  problem.rhs_type = rhs.type;
  problem.parts = operand_parts(dot, lhs.type, rhs.type);
  problem.result_types = {out.type};
  return problem;
}

std::uint64_t blocks_to_transpose(const DotProblem& problem) {
  std::uint64_t lhs = std::uint64_t{lane_tiles(problem.m)} * lane_tiles(problem.k);
  std::uint64_t out = std::uint64_t{lane_tiles(problem.m)} * lane_tiles(problem.n);
  for (const OuterDimension& outer : problem.outer) {
    if (outer.lhs != 0) lhs *= outer.extent;
    out *= outer.extent;
  }
  for (const OuterDimension& outer : problem.outer_k) lhs *= outer.extent;
  return (problem.lhs_transposed ? lhs : 0) + (problem.result_turned ? out : 0);
}

std::optional<DotProblem> with_sides_exchanged(const DotProblem& problem) {
  if (problem.row_period != 0) return std::nullopt;
  DotProblem other = problem;
  std::swap(other.m, other.n);
  std::swap(other.lhs_type, other.rhs_type);
  std::swap(other.parts[0], other.parts[1]);
  std::swap(other.made[0], other.made[1]);
  std::swap(other.lhs_rows, other.rhs_rows);
  other.lhs_transposed = !problem.rhs_transposed;
  other.rhs_transposed = !problem.lhs_transposed;
  other.result_turned = !problem.result_turned;
  other.sides_exchanged = !problem.sides_exchanged;
  for (OuterDimension& outer : other.outer) std::swap(outer.lhs, outer.rhs);
  for (OuterDimension& outer : other.outer_k) std::swap(outer.lhs, outer.rhs);
  return other;
}

void exchange_where_cheaper(DotProblem& problem) {
  std::optional<DotProblem> other = with_sides_exchanged(problem);
  if (other && blocks_to_transpose(*other) < blocks_to_transpose(problem)) {
    problem = *std::move(other);
  }
}

void take_rows_in_lanes(DotProblem& problem) {
  const std::uint32_t tiles = tiles_across(problem.m, 8);
  const bool in_whole_tiles = problem.m % 128 == 0 || 16 % tiles == 0;
  if (!problem.lhs_transposed || problem.result_turned || problem.keeps_matrices ||
      problem.row_period != 0 || problem.matrix_rows != 0 || !problem.out_rows.is_one() ||
      !problem.lhs_rows.is_one() ||  // A block gathers along rows or along lanes.
      !in_whole_tiles) {
    return;
  }
  const std::uint64_t granules = granules_of(problem.m, problem.n, problem.result_types.front());
  const auto follow = [&](const OuterDimension& outer) {
    return outer.rhs == 0 && outer.out == granules;
  };
  const auto outer = std::find_if(problem.outer.begin(), problem.outer.end(), follow);
  if (outer == problem.outer.end()) return;
  if (problem.m % 8 != 0) {
    if (!has_modulo(tiles, 2 * std::int64_t{tiles} * outer->extent)) return;
    problem.matrix_rows = problem.m;
  }
  problem.lane_row_tiles = std::min(tiles, 16U);
  problem.lhs_lanes = {lane_tiles(problem.m), outer->lhs};
  problem.m = 8 * tiles * outer->extent;
  problem.outer.erase(outer);
}

void take_k_in_lanes(DotProblem& problem) {
  if (problem.outer_k.empty() || problem.k % 128 != 0 || problem.matrix_k != 0) return;
  if (!problem.lhs_rows.is_one() || !problem.rhs_rows.is_one()) return;
  const OuterDimension& last = problem.outer_k.back();
  const bool lhs_in_rows = problem.lhs_transposed, rhs_in_rows = !problem.rhs_transposed;
  if (lhs_in_rows && last.lhs != granules_of(problem.k, problem.m, problem.lhs_type)) return;
  if (rhs_in_rows && last.rhs != granules_of(problem.k, problem.n, problem.rhs_type)) return;
  if (!lhs_in_rows) problem.lhs_lanes = {problem.k / 128, last.lhs};
  if (!rhs_in_rows) problem.rhs_lanes = {problem.k / 128, last.rhs};
  problem.k *= last.extent;
  problem.outer_k.pop_back();
}

}  // namespace tpu::compiler
