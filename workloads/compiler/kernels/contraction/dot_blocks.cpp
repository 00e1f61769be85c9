#include <algorithm>

#include "sim/base/error.h"
#include "workloads/compiler/kernels/contraction/dot_emitter.h"
#include "workloads/compiler/kernels/tiles/step_counter.h"

namespace tpu::compiler {

namespace {

using hlo::ElementType;

}  // namespace

/// Begin of the (first) matrix of a grid point.
SReg DotKernel::matrix(SReg base, std::uint32_t OuterDimension::*stride, const GridPoint& point) {
  std::vector<SReg> digits;
  std::vector<std::uint32_t> distances;
  for (std::size_t i = 0; i < problem_.outer.size(); ++i) {
    const bool blocked = i + 1 == problem_.outer.size();
    digits.push_back(point[static_cast<std::size_t>(sizes_.outer_dimension(i))]);
    distances.push_back(problem_.outer[i].*stride * (blocked ? tiling_.block_outer : 1));
  }
  for (std::size_t i = 0; i < problem_.outer_k.size(); ++i) {
    if (problem_.outer_k[i].*stride == 0) continue;
    digits.push_back(point[static_cast<std::size_t>(sizes_.first_k_dimension()) + i]);
    distances.push_back(problem_.outer_k[i].*stride);
  }
  return weighted_sum(builder_, digits, distances, base);
}

void DotKernel::make_grid() {
  using Outer = OuterDimension;
  if (arrays_.empty()) addresses_ = store_addresses(builder_, epilogue_);
  const ContractionPlan& plan = sizes_.plan;
  grid_ = std::make_unique<TileGrid>(builder_, plan.grid);
  const int m = sizes_.m_dimension(), n = sizes_.n_dimension(), k = sizes_.k_dimension();
  const bool x_turned = problem_.lhs_transposed, w_turned = problem_.rhs_transposed;
  const auto left = [&](std::uint32_t word) {
    return side(&Outer::lhs, word, plan.lhs.dimensions, x_turned ? k : m, x_turned ? m : k,
                sizes_.left, problem_.lhs_rows);
  };
  const auto right = [&](std::uint32_t word) {
    return side(&Outer::rhs, word, plan.rhs.dimensions, w_turned ? n : k, w_turned ? k : n,
                sizes_.right, problem_.rhs_rows);
  };
  TileGrid::Block x = left(addresses_);
  x.standing = standing(arrays_, epilogue_.lhs);
  x_input_ = grid_->add_input(std::move(x));
  TileGrid::Block w = right(addresses_ + 1);
  w.standing = standing(arrays_, epilogue_.rhs);
  w_input_ = grid_->add_input(std::move(w));
  epilogue_inputs_ = add_result_blocks(
      *grid_, epilogue_, addresses_,
      [&](ElementType type, bool to_vmem, std::uint32_t word) {
        return array_block(
            to_vmem, sizes_.result_shape(type), plan.results.dimensions,
            [=](const GridPoint& point) { return result_matrix(word, type, point); },
            sizes_.row_dimension(), sizes_.column_dimension(), problem_.out_rows);
      },
      arrays_);
  // Arrays beside have the side's type: makes_sides() sees to it.
  left_.add_arrays(*grid_, x_input_, [&](ElementType, std::uint32_t word) { return left(word); });
  right_.add_arrays(*grid_, w_input_, [&](ElementType, std::uint32_t word) { return right(word); });
  allocate_sums();
}

/// What is made of a block of a side.
ProductSide::Tiles DotKernel::made_side(const BlockShape& shape, int column_dimension) {
  const std::uint32_t columns = shape.block_columns;
  ProductSide::Tiles tiles;
  tiles.outer = {{shape.matrices, shape.block_rows * columns}};
  tiles.rows = {shape.block_rows, columns};
  tiles.lanes = {columns, 1};
  tiles.first_lane = compiler::multiply(builder_, {grid_->index(column_dimension), 0}, columns);
  return tiles;
}

TileGrid::Block DotKernel::side(std::uint32_t OuterDimension::*stride, std::uint32_t word,
                                const std::vector<int>& dimensions, int row_dimension,
                                int column_dimension, const BlockShape& shape,
                                const SpacedMatrices& rows) {
  return array_block(
      true, shape, dimensions,
      [=](const GridPoint& point) { return matrix(builder_.load_smem(word), stride, point); },
      row_dimension, column_dimension, rows);
}

/// Blocks of an array; where several matrices have the lanes or the rows of one, the block's number
/// along these says with which matrix it begins.
TileGrid::Block DotKernel::array_block(bool to_vmem, BlockShape shape,
                                       const std::vector<int>& dimensions, const OfPoint& first,
                                       int row_dimension, int column_dimension,
                                       const SpacedMatrices& rows) {
  // No DMA, so no descriptor.
  if (!arrays_.empty()) shape.granules_with_rows = 0;
  const bool counts_rows = !rows.is_one();
  const int counted = shape.abreast ? column_dimension : row_dimension;
  const auto begin = [=](const GridPoint& point) {
    if (!shape.abreast && !counts_rows) return first(point);
    return weighted_sum(builder_, {index_of(point, counted)},
                        {shape.matrices * shape.matrix_stride}, first(point));
  };
  return matrix_block(builder_, to_vmem, shape, dimensions, begin, counts_rows ? -1 : row_dimension,
                      shape.abreast ? -1 : column_dimension);
}

void DotKernel::allocate_sums() {
  if (sizes_.sums_apart) {
    sums_ = results_at_ = builder_.allocate_vmem(sizes_.sum_rows);
    if (overlaps()) finished_sums_ = builder_.second_name(sums_);
  }
  if (sizes_.turned_rows > 0) turned_ = results_at_ = builder_.allocate_vmem(sizes_.turned_rows);
  unrounded_.resize(problem_.result_types.size());
  for (std::size_t i = 0; i < unrounded_.size(); ++i) {
    if (!sizes_.has_unrounded(i)) continue;
    // The first one takes the product's place.
    unrounded_[i] = i == 0 ? results_at_ : builder_.allocate_vmem(8 * sizes_.result_tiles);
  }
  if (sizes_.transposed_rows > 0) transposed_ = builder_.allocate_vmem(sizes_.transposed_rows);
  if (tiling_.turns_beside) turned_next_ = builder_.second_name(transposed_);
}

/// Begin of its (first) matrix of a grid point.
SReg DotKernel::result_matrix(std::uint32_t address, ElementType type, const GridPoint& point) {
  const auto first = point.begin() + sizes_.outer_dimension(0);
  std::vector<SReg> digits(first, first + sizes_.outer_count());
  std::vector<std::uint32_t> distances;
  for (std::size_t i = 0; i < problem_.outer.size(); ++i) {
    const bool blocked = i + 1 == problem_.outer.size();
    distances.push_back(problem_.outer[i].out / tile_granules(problem_.result_types[0]) *
                        tile_granules(type) * (blocked ? tiling_.block_outer : 1));
  }
  return weighted_sum(builder_, digits, distances, builder_.load_smem(address));
}

}  // namespace tpu::compiler
