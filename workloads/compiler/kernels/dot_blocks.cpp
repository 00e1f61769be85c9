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
  const auto results = static_cast<std::uint32_t>(problem_.result_types.size());
  const std::uint32_t addresses =
      builder_.allocate_smem(2 + results + static_cast<std::uint32_t>(epilogue_.operands.size()));
  builder_.store_smem(addresses, builder_.operand(epilogue_.lhs));
  builder_.store_smem(addresses + 1, builder_.operand(epilogue_.rhs));
  const DotTiling& t = tiling_;
  const std::uint32_t k_rows = tiles_of(problem_.k, 8), n_rows = tiles_of(problem_.n, 8);
  const std::uint32_t m_columns = tiles_of(problem_.m, 128);
  using Outer = OuterDimension;
  x_dma_.emplace(
      builder_, true,
      problem_.lhs_transposed
          ? block_shape(&Outer::lhs, problem_.lhs_type, k_rows, m_columns, 16 * t.block_k,
                        tiles_of(t.block_m, 16))
          : block_shape(&Outer::lhs, problem_.lhs_type, m_tiles_, k_tiles_, t.block_m, t.block_k));
  w_dma_.emplace(builder_, true,
                 problem_.rhs_transposed ? block_shape(&Outer::rhs, problem_.rhs_type, n_rows,
                                                       k_tiles_, 16 * t.block_n, t.block_k)
                                         : block_shape(&Outer::rhs, problem_.rhs_type, k_rows,
                                                       n_tiles_, 16 * t.block_k, t.block_n));
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
  const auto at = [](const GridPoint& point, int dimension) {
    return point[static_cast<std::size_t>(dimension)];
  };
  const auto vmem_rows = [&](std::uint32_t outer_stride, std::uint32_t tiles) {
    const bool several = !problem_.outer.empty() && outer_stride != 0;
    return tiles * (several ? t.block_outer : 1);
  };
  const Outer last = problem_.outer.empty() ? Outer{} : problem_.outer.back();
  const auto block = [at](bool transposed, int row, int column, const GridPoint& point) {
    const SReg a = at(point, row), b = at(point, column);
    return transposed ? std::make_pair(b, a) : std::make_pair(a, b);
  };

  TileGrid::Input x;
  x.dimensions = contracted_dimensions(&Outer::lhs, {m_dimension()});
  const std::uint32_t m_tiles = problem_.lhs_transposed ? 16 * tiles_of(t.block_m, 16) : t.block_m;
  x.rows = vmem_rows(last.lhs, m_tiles * t.block_k * x_tile_);
  x.start = [=](const GridPoint& point, const VmemAddress& to, ScalarOperand flag) {
    const auto [r, c] = block(problem_.lhs_transposed, m_dimension(), k_dimension(), point);
    x_dma_->start(matrix(builder_.load_smem(addresses), &Outer::lhs, point), r, c, to, flag);
  };
  x.granules = [=](const GridPoint& point) {
    const auto [r, c] = block(problem_.lhs_transposed, m_dimension(), k_dimension(), point);
    return x_dma_->granules(r, c);
  };
  x_input_ = grid_->add_input(x);

  TileGrid::Input w;
  w.dimensions = contracted_dimensions(&Outer::rhs, {n_dimension()});
  w.rows = vmem_rows(last.rhs, 16 * t.block_n * t.block_k * w_tile_);
  w.start = [=](const GridPoint& point, const VmemAddress& to, ScalarOperand flag) {
    const auto [r, c] = block(problem_.rhs_transposed, k_dimension(), n_dimension(), point);
    w_dma_->start(matrix(builder_.load_smem(addresses + 1), &Outer::rhs, point), r, c, to, flag);
  };
  w.granules = [=](const GridPoint& point) {
    const auto [r, c] = block(problem_.rhs_transposed, k_dimension(), n_dimension(), point);
    return w_dma_->granules(r, c);
  };
  w_input_ = grid_->add_input(w);

  add_results(addresses + 2);
  add_epilogue_inputs(addresses + 2 + results);

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

void DotKernel::add_results(std::uint32_t address) {
  const auto row = static_cast<std::size_t>(row_dimension());
  const auto column = static_cast<std::size_t>(column_dimension());
  for (std::size_t i = 0; i < problem_.result_types.size(); ++i) {
    const ElementType type = problem_.result_types[i];
    builder_.store_smem(address, builder_.operand(epilogue_.results[i].operand));
    const BlockShape shape = result_shape(type);
    result_dmas_.push_back(std::make_unique<BlockDma>(builder_, false, shape));
    BlockDma* dma = result_dmas_.back().get();
    TileGrid::Output output;
    output.dimensions = dimensions(&OuterDimension::out, {m_dimension(), n_dimension()});
    output.rows = shape.vmem_rows();
    output.start = [=](const GridPoint& point, const VmemAddress& from, ScalarOperand flag) {
      dma->start(result_matrix(address, type, point), point[row], point[column], from, flag);
    };
    output.granules = [=](const GridPoint& point) {
      return dma->granules(point[row], point[column]);
    };
    grid_->add_output(output);
    ++address;
  }
}

/// Arrays behind the product come in blocks as the result goes.
void DotKernel::add_epilogue_inputs(std::uint32_t address) {
  const auto row = static_cast<std::size_t>(row_dimension());
  const auto column = static_cast<std::size_t>(column_dimension());
  for (const MatmulEpilogue::Operand& operand : epilogue_.operands) {
    if (operand.kind != MatmulEpilogue::Operand::Kind::kBlocks) continue;
    const ElementType type = operand.type();
    builder_.store_smem(address, builder_.operand(operand.operand));
    const BlockShape shape = result_shape(type);
    epilogue_dmas_.push_back(std::make_unique<BlockDma>(builder_, true, shape));
    BlockDma* dma = epilogue_dmas_.back().get();
    TileGrid::Input input;
    input.dimensions = dimensions(&OuterDimension::out, {m_dimension(), n_dimension()});
    input.rows = shape.vmem_rows();
    input.start = [=](const GridPoint& point, const VmemAddress& to, ScalarOperand flag) {
      dma->start(result_matrix(address, type, point), point[row], point[column], to, flag);
    };
    input.granules = [=](const GridPoint& point) {
      return dma->granules(point[row], point[column]);
    };
    epilogue_inputs_.push_back(grid_->add_input(input));
    ++address;
  }
}

}  // namespace tpu::compiler
