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
  for (int i = 0; i < outer_count(); ++i) {
    if (problem_.outer[static_cast<std::size_t>(i)].*stride != 0) inner.push_back(i);
  }
  return inner;
}

/// Begin of the (first) matrix of a grid point.
SReg DotKernel::matrix(SReg base, std::uint32_t OuterDimension::*stride, const GridPoint& point) {
  std::vector<SReg> digits;
  std::vector<std::uint32_t> distances;
  for (std::size_t i = 0; i < problem_.outer.size(); ++i) {
    const bool blocked = i + 1 == problem_.outer.size();
    digits.push_back(point[i]);
    distances.push_back(problem_.outer[i].*stride * (blocked ? tiling_.block_outer : 1));
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
  const std::uint32_t addresses =
      builder_.allocate_smem(3 + static_cast<std::uint32_t>(epilogue_.operands.size()));
  builder_.store_smem(addresses, builder_.operand(epilogue_.lhs));
  builder_.store_smem(addresses + 1, builder_.operand(epilogue_.rhs));
  builder_.store_smem(addresses + 2, builder_.operand(epilogue_.out));
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
  out_dma_.emplace(builder_, false,
                   block_shape(&Outer::out, problem_.out_type, out_rows_.tiles, out_columns_.tiles,
                               out_rows_.block, out_columns_.block));
  std::vector<std::uint32_t> extents;
  for (const OuterDimension& outer : problem_.outer) extents.push_back(outer.extent);
  if (!extents.empty()) extents.back() /= t.block_outer;
  extents.resize(extents.size() + 3);
  extents[static_cast<std::size_t>(m_dimension())] = tiles_of(m_tiles_, t.block_m);
  extents[static_cast<std::size_t>(n_dimension())] = tiles_of(n_tiles_, t.block_n);
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
  const auto block = [this, at](bool transposed, int row, int column, const GridPoint& point) {
    const SReg a = at(point, row), b = at(point, column);
    return transposed ? std::make_pair(b, a) : std::make_pair(a, b);
  };

  TileGrid::Input x;
  x.dimensions = dimensions(&Outer::lhs, {m_dimension(), k_dimension()});
  x.rows = vmem_rows(last.lhs, t.block_m * t.block_k * x_tile_);
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
  w.dimensions = dimensions(&Outer::rhs, {k_dimension(), n_dimension()});
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

  TileGrid::Output result;
  result.dimensions = dimensions(&Outer::out, {m_dimension(), n_dimension()});
  result.rows = vmem_rows(last.out, t.block_m * t.block_n * tile_rows(problem_.out_type));
  result.start = [=](const GridPoint& point, const VmemAddress& from, ScalarOperand flag) {
    out_dma_->start(matrix(builder_.load_smem(addresses + 2), &Outer::out, point),
                    at(point, row_dimension()), at(point, column_dimension()), from, flag);
  };
  result.granules = [=](const GridPoint& point) {
    return out_dma_->granules(at(point, row_dimension()), at(point, column_dimension()));
  };
  grid_->add_output(result);
  add_epilogue_inputs(addresses + 3);

  if (sums_apart()) {
    sums_ = results_at_ = builder_.allocate_vmem(8 * block_tiles());
    const bool lasts = is_packed(problem_.out_type) || !results_.is_identity();
    if (problem_.result_turned && lasts) {
      turned_ = results_at_ = builder_.allocate_vmem(8 * block_tiles());
    }
  }
  if (problem_.lhs_transposed) {
    transposed_ = builder_.allocate_vmem(std::uint64_t{8} * t.block_outer * t.block_m * t.block_k);
  }
}

/// Arrays behind the product come in blocks as the result goes.
void DotKernel::add_epilogue_inputs(std::uint32_t address) {
  for (const MatmulEpilogue::Operand& operand : epilogue_.operands) {
    if (operand.kind != MatmulEpilogue::Operand::Kind::kBlocks) continue;
    builder_.store_smem(address, builder_.operand(operand.operand));
    BlockShape shape = block_shape(&OuterDimension::out, operand.type(), out_rows_.tiles,
                                   out_columns_.tiles, out_rows_.block, out_columns_.block);
    // Distances between matrices are those of the result, in the operand's own granules.
    const std::uint32_t out_granules = tile_granules(problem_.out_type);
    const std::uint32_t own_granules = tile_granules(operand.type());
    shape.matrix_stride = shape.matrix_stride / out_granules * own_granules;
    epilogue_dmas_.push_back(std::make_unique<BlockDma>(builder_, true, shape));
    BlockDma* dma = epilogue_dmas_.back().get();
    TileGrid::Input input;
    input.dimensions = dimensions(&OuterDimension::out, {m_dimension(), n_dimension()});
    input.rows = shape.vmem_rows();
    const auto row = static_cast<std::size_t>(row_dimension());
    const auto column = static_cast<std::size_t>(column_dimension());
    input.start = [=](const GridPoint& point, const VmemAddress& to, ScalarOperand flag) {
      std::vector<SReg> digits(point.begin(), point.begin() + outer_count());
      std::vector<std::uint32_t> distances;
      for (std::size_t i = 0; i < problem_.outer.size(); ++i) {
        const bool blocked = i + 1 == problem_.outer.size();
        distances.push_back(problem_.outer[i].out / out_granules * own_granules *
                            (blocked ? tiling_.block_outer : 1));
      }
      const SReg base = weighted_sum(builder_, digits, distances, builder_.load_smem(address));
      dma->start(base, point[row], point[column], to, flag);
    };
    input.granules = [=](const GridPoint& point) {
      return dma->granules(point[row], point[column]);
    };
    epilogue_inputs_.push_back(grid_->add_input(input));
    ++address;
  }
}

}  // namespace tpu::compiler
