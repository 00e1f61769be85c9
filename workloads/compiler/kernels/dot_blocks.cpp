#include <algorithm>

#include "sim/base/error.h"
#include "workloads/compiler/kernels/dot_emitter.h"
#include "workloads/compiler/kernels/step_counter.h"

namespace tpu::compiler {

namespace {

using hlo::ElementType;

}  // namespace

std::vector<int> DotKernel::dimensions(std::uint32_t OuterDimension::*stride,
                                       std::vector<int> inner) const {
  for (std::size_t i = 0; i < problem_.outer.size(); ++i) {
    if (problem_.outer[i].*stride != 0) inner.push_back(outer_dimension(i));
  }
  return inner;
}

/// The same for an operand, which has the contracted dimensions, too.
std::vector<int> DotKernel::contracted_dimensions(std::uint32_t OuterDimension::*stride,
                                                  std::vector<int> inner) const {
  for (int d = first_k_dimension(); d <= k_dimension(); ++d) inner.push_back(d);
  return dimensions(stride, std::move(inner));
}

/// Begin of the (first) matrix of a grid point.
SReg DotKernel::matrix(SReg base, std::uint32_t OuterDimension::*stride, const GridPoint& point) {
  std::vector<SReg> digits;
  std::vector<std::uint32_t> distances;
  for (std::size_t i = 0; i < problem_.outer.size(); ++i) {
    const bool blocked = i + 1 == problem_.outer.size();
    digits.push_back(point[static_cast<std::size_t>(outer_dimension(i))]);
    distances.push_back(problem_.outer[i].*stride * (blocked ? tiling_.block_outer : 1));
  }
  for (std::size_t i = 0; i < problem_.outer_k.size(); ++i) {
    if (problem_.outer_k[i].*stride == 0) continue;
    digits.push_back(point[static_cast<std::size_t>(first_k_dimension()) + i]);
    distances.push_back(problem_.outer_k[i].*stride);
  }
  return weighted_sum(builder_, digits, distances, base);
}

BlockShape DotKernel::block_shape(std::uint32_t OuterDimension::*stride, ElementType type,
                                  std::uint32_t rows, std::uint32_t columns,
                                  std::uint32_t block_rows, std::uint32_t block_columns) const {
  BlockShape shape;
  shape.tile_granules = tile_granules(type);
  shape.rows = rows;
  shape.columns = columns;
  shape.block_rows = block_rows;
  shape.block_columns = block_columns;
  if (!problem_.outer.empty() && problem_.outer.back().*stride != 0) {
    shape.matrices = tiling_.block_outer;
    shape.matrix_stride = problem_.outer.back().*stride;
  }
  return shape;
}

void DotKernel::make_grid() {
  const DotTiling& t = tiling_;
  addresses_ = store_addresses(builder_, epilogue_);
  std::vector<std::uint32_t> extents(static_cast<std::size_t>(k_dimension()) + 1);
  for (std::size_t i = 0; i < problem_.outer.size(); ++i) {
    const bool blocked = i + 1 == problem_.outer.size();
    extents[static_cast<std::size_t>(outer_dimension(i))] =
        problem_.outer[i].extent / (blocked ? t.block_outer : 1);
  }
  extents[static_cast<std::size_t>(m_dimension())] = tiles_of(m_tiles_, t.block_m);
  extents[static_cast<std::size_t>(n_dimension())] = tiles_of(n_tiles_, t.block_n);
  for (std::size_t i = 0; i < problem_.outer_k.size(); ++i) {
    extents[static_cast<std::size_t>(first_k_dimension()) + i] = problem_.outer_k[i].extent;
  }
  extents[static_cast<std::size_t>(k_dimension())] = grid_k();
  grid_ = std::make_unique<TileGrid>(builder_, extents);
  add_sides();
  epilogue_inputs_ = add_result_blocks(
      *grid_, epilogue_, addresses_, [this](ElementType type, bool to_vmem, std::uint32_t word) {
        return matrix_block(
            builder_, to_vmem, result_shape(type),
            dimensions(&OuterDimension::out, {m_dimension(), n_dimension()}),
            [=](const GridPoint& point) { return result_matrix(word, type, point); },
            row_dimension(), column_dimension());
      });
  allocate_sums();
}

void DotKernel::add_sides() {
  using Outer = OuterDimension;
  const DotTiling& t = tiling_;
  const std::uint32_t k_rows = tiles_of(problem_.k, 8), block_k_rows = 16 * t.block_k;
  x_input_ = grid_->add_input(side(
      &Outer::lhs, addresses_, m_dimension(), problem_.lhs_transposed,
      problem_.lhs_transposed
          ? block_shape(&Outer::lhs, problem_.lhs_type, k_rows, tiles_of(problem_.m, 128),
                        block_k_rows, tiles_of(t.block_m, 16))
          : block_shape(&Outer::lhs, problem_.lhs_type, m_tiles_, k_tiles_, t.block_m, t.block_k)));
  w_input_ = grid_->add_input(side(
      &Outer::rhs, addresses_ + 1, n_dimension(), !problem_.rhs_transposed,
      problem_.rhs_transposed ? block_shape(&Outer::rhs, problem_.rhs_type, tiles_of(problem_.n, 8),
                                            k_tiles_, 16 * t.block_n, t.block_k)
                              : block_shape(&Outer::rhs, problem_.rhs_type, k_rows, n_tiles_,
                                            block_k_rows, t.block_n)));
}

/// The block of a side; `k_in_rows`: the contracted dimension is that of its rows.
TileGrid::Block DotKernel::side(std::uint32_t OuterDimension::*stride, std::uint32_t word,
                                int dimension, bool k_in_rows, const BlockShape& shape) {
  const int k = k_dimension();
  return matrix_block(
      builder_, true, shape, contracted_dimensions(stride, {dimension}),
      [=](const GridPoint& point) { return matrix(builder_.load_smem(word), stride, point); },
      k_in_rows ? k : dimension, k_in_rows ? dimension : k);
}

void DotKernel::allocate_sums() {
  const DotTiling& t = tiling_;
  if (sums_apart()) {
    sums_ = results_at_ = builder_.allocate_vmem(8 * sum_tiles());
    if (overlaps()) finished_sums_ = builder_.second_name(sums_);
    const bool lasts = is_packed(problem_.result_types[0]) || !results_.is_identity();
    if (problem_.result_turned && lasts) {
      turned_ = results_at_ = builder_.allocate_vmem(8 * result_tiles());
    }
  }
  unrounded_.resize(problem_.result_types.size());
  for (std::size_t i = 0; i < unrounded_.size(); ++i) {
    if (!is_packed(problem_.result_types[i]) || overlaps()) continue;
    // The first one takes the product's place.
    unrounded_[i] = i == 0 ? results_at_ : builder_.allocate_vmem(8 * result_tiles());
  }
  if (problem_.lhs_transposed) {
    transposed_ = builder_.allocate_vmem(std::uint64_t{8} * t.block_outer * t.block_m * t.block_k);
  }
}

/// The block of an array in step with the result. Distances between matrices are those of the
/// first result, in the array's own granules.
BlockShape DotKernel::result_shape(ElementType type) const {
  BlockShape shape = block_shape(&OuterDimension::out, type, out_rows_.tiles, out_columns_.tiles,
                                 out_rows_.block, out_columns_.block);
  shape.matrix_stride =
      shape.matrix_stride / tile_granules(problem_.result_types[0]) * tile_granules(type);
  return shape;
}

/// Begin of its (first) matrix of a grid point.
SReg DotKernel::result_matrix(std::uint32_t address, ElementType type, const GridPoint& point) {
  const auto first = point.begin() + outer_dimension(0);
  std::vector<SReg> digits(first, first + outer_count());
  std::vector<std::uint32_t> distances;
  for (std::size_t i = 0; i < problem_.outer.size(); ++i) {
    const bool blocked = i + 1 == problem_.outer.size();
    distances.push_back(problem_.outer[i].out / tile_granules(problem_.result_types[0]) *
                        tile_granules(type) * (blocked ? tiling_.block_outer : 1));
  }
  return weighted_sum(builder_, digits, distances, builder_.load_smem(address));
}

}  // namespace tpu::compiler
