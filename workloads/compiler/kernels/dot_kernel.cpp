#include "workloads/compiler/kernels/dot_kernel.h"

#include <algorithm>
#include <map>
#include <optional>

#include "sim/base/error.h"
#include "workloads/compiler/kernels/block_dma.h"
#include "workloads/compiler/kernels/matmul_memory.h"
#include "workloads/compiler/kernels/matmul_stream.h"
#include "workloads/compiler/kernels/step_counter.h"
#include "workloads/compiler/kernels/tile_grid.h"

namespace tpu::compiler {

namespace {

using hlo::ElementType;

std::uint32_t ceil_divide(std::uint32_t a, std::uint32_t b) { return (a + b - 1) / b; }
bool is_packed(ElementType type) { return type == ElementType::kBf16; }
/// Emits the kernel of a dot.
///
/// Blocks of both sides and of the result stand in VMEM. Over a block run steps: a tile of weights
/// (a pair of neighbouring ones, one per MXU) against a chunk of rows; sums over the contracted
/// dimension are kept in VMEM in fp32. The grid's tiles fetch the next blocks while the present
/// ones are worked on.
class DotKernel {
 public:
  DotKernel(const DotProblem& problem, const DotTiling& tiling, const MatmulEpilogue& epilogue,
            const Target& target)
      : problem_(problem),
        tiling_(tiling),
        epilogue_(epilogue),
        builder_(epilogue.kernel_name, target),
        mxus_(target.mxu_count),
        pushes_(tiling.chunk_m / (tiling.pair_columns ? 1 : target.mxu_count)),
        stream_(builder_, mxus_, pushes_),
        memory_(builder_, is_packed(problem.lhs_type), is_packed(problem.rhs_type)),
        results_(builder_, epilogue),
        x_tile_(tile_rows(problem.lhs_type)),
        w_tile_(tile_rows(problem.rhs_type)) {
    m_tiles_ = ceil_divide(problem.m, 8);
    n_tiles_ = ceil_divide(problem.n, 128);
    k_tiles_ = ceil_divide(problem.k, 128);
    columns_at_once_ = tiling.pair_columns ? mxus_ : 1;
  }

  LoweredKernel emit() {
    results_.prepare();
    make_grid();
    if (masks_k()) memory_.make_masks(problem_.k);
    builder_.new_block();
    grid_->run([this] { work(); });
    stream_.close();
    LoweredKernel lowered;
    lowered.vmem_bytes = builder_.vmem_bytes();
    lowered.kernel = builder_.finish();
    return lowered;
  }

 private:
  /// Places of the grid's dimensions, behind the outer ones.
  int outer_count() const { return static_cast<int>(problem_.outer.size()); }
  int m_dimension() const { return outer_count() + (tiling_.columns_outermost ? 1 : 0); }
  int n_dimension() const { return outer_count() + (tiling_.columns_outermost ? 0 : 1); }
  int k_dimension() const { return outer_count() + 2; }
  std::uint32_t grid_k() const { return k_tiles_ / tiling_.block_k; }
  bool masks_k() const { return problem_.k % 128 != 0; }
  bool sums_apart() const { return is_packed(problem_.out_type) || !results_.is_identity(); }

  void make_grid();
  std::vector<int> dimensions(std::uint32_t OuterDimension::*stride, std::vector<int> inner) const;
  SReg matrix(SReg base, std::uint32_t OuterDimension::*stride, const GridPoint& point);
  BlockShape block_shape(std::uint32_t OuterDimension::*stride, ElementType type,
                         std::uint32_t rows, std::uint32_t columns, std::uint32_t block_rows,
                         std::uint32_t block_columns) const;
  void add_epilogue_inputs(std::uint32_t address);
  void work();
  void when(PReg a, PReg b, const std::function<void()>& body);
  void clear_weight_rows();
  void transpose_rows();
  void multiply();
  void finish();
  void apply_epilogue();
  PReg is_last_tile(const std::vector<SReg>& digits);

  const DotProblem& problem_;
  const DotTiling& tiling_;
  const MatmulEpilogue& epilogue_;
  KernelBuilder builder_;
  std::uint32_t mxus_, pushes_;
  MatmulStream stream_;
  MatmulMemory memory_;
  EpilogueEmitter results_;
  std::uint32_t x_tile_, w_tile_;
  std::uint32_t m_tiles_ = 0, n_tiles_ = 0, k_tiles_ = 0;
  std::uint32_t columns_at_once_ = 1;
  std::unique_ptr<TileGrid> grid_;
  std::optional<BlockDma> x_dma_, w_dma_, out_dma_;
  std::vector<std::unique_ptr<BlockDma>> epilogue_dmas_;
  int x_input_ = 0, w_input_ = 0;
  std::vector<int> epilogue_inputs_;
  VmemRegion sums_;        ///< fp32 results where the output is packed.
  VmemRegion transposed_;  ///< Rows of the left side where it lies transposed.
};

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
  const std::uint32_t k_rows = ceil_divide(problem_.k, 8), n_rows = ceil_divide(problem_.n, 8);
  const std::uint32_t m_columns = ceil_divide(problem_.m, 128);
  using Outer = OuterDimension;
  x_dma_.emplace(
      builder_, true,
      problem_.lhs_transposed
          ? block_shape(&Outer::lhs, problem_.lhs_type, k_rows, m_columns, 16 * t.block_k,
                        ceil_divide(t.block_m, 16))
          : block_shape(&Outer::lhs, problem_.lhs_type, m_tiles_, k_tiles_, t.block_m, t.block_k));
  w_dma_.emplace(builder_, true,
                 problem_.rhs_transposed ? block_shape(&Outer::rhs, problem_.rhs_type, n_rows,
                                                       k_tiles_, 16 * t.block_n, t.block_k)
                                         : block_shape(&Outer::rhs, problem_.rhs_type, k_rows,
                                                       n_tiles_, 16 * t.block_k, t.block_n));
  out_dma_.emplace(
      builder_, false,
      block_shape(&Outer::out, problem_.out_type, m_tiles_, n_tiles_, t.block_m, t.block_n));
  std::vector<std::uint32_t> extents;
  for (const OuterDimension& outer : problem_.outer) extents.push_back(outer.extent);
  if (!extents.empty()) extents.back() /= t.block_outer;
  extents.resize(extents.size() + 3);
  extents[static_cast<std::size_t>(m_dimension())] = ceil_divide(m_tiles_, t.block_m);
  extents[static_cast<std::size_t>(n_dimension())] = ceil_divide(n_tiles_, t.block_n);
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
                    at(point, m_dimension()), at(point, n_dimension()), from, flag);
  };
  result.granules = [=](const GridPoint& point) {
    return out_dma_->granules(at(point, m_dimension()), at(point, n_dimension()));
  };
  grid_->add_output(result);
  add_epilogue_inputs(addresses + 3);

  if (sums_apart()) {
    sums_ = builder_.allocate_vmem(std::uint64_t{8} * t.block_outer * t.block_m * t.block_n);
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
    const BlockShape shape = block_shape(&OuterDimension::out, operand.type(), m_tiles_, n_tiles_,
                                         tiling_.block_m, tiling_.block_n);
    epilogue_dmas_.push_back(std::make_unique<BlockDma>(builder_, true, shape));
    BlockDma* dma = epilogue_dmas_.back().get();
    // Distances between matrices are those of the result, in the operand's own granules.
    const std::uint32_t out_granules = tile_granules(problem_.out_type);
    const std::uint32_t own_granules = tile_granules(operand.type());
    TileGrid::Input input;
    input.dimensions = dimensions(&OuterDimension::out, {m_dimension(), n_dimension()});
    input.rows = shape.vmem_rows();
    const auto row = static_cast<std::size_t>(m_dimension());
    const auto column = static_cast<std::size_t>(n_dimension());
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

/// Runs the body when both hold; an absent predicate holds.
void DotKernel::when(PReg a, PReg b, const std::function<void()>& body) {
  const PReg both = a && b ? builder_.and_(a, b) : a ? a : b;
  both ? builder_.if_(both, body) : body();
}

void DotKernel::work() {
  if (masks_k() && !problem_.rhs_transposed) clear_weight_rows();
  if (problem_.lhs_transposed) transpose_rows();
  builder_.new_block();
  multiply();
  if (sums_apart()) finish();
}

/// Rows of the last weight tiles that lie beyond k become 0: the rows of x are masked, but 0 times
/// what stands there must be 0.
void DotKernel::clear_weight_rows() {
  const std::uint32_t valid = problem_.k - (k_tiles_ - tiling_.block_k) * 128;
  const bool several = !problem_.outer.empty() && problem_.outer.back().rhs != 0;
  const std::uint32_t matrix = 16 * tiling_.block_k * tiling_.block_n * w_tile_;
  when(grid_->is_last(k_dimension()), grid_->fresh(w_input_), [&] {
    const VmemAddress weights = grid_->input(w_input_);
    for (std::uint32_t o = 0; o < (several ? tiling_.block_outer : 1); ++o) {
      memory_.clear_rows(problem_.rhs_type, weights.plus(std::int64_t{o} * matrix), valid,
                         16 * tiling_.block_k, tiling_.block_n);
    }
  });
}

/// Turns the left blocks, [k, m] as they come, into [m, k].
void DotKernel::transpose_rows() {
  const std::uint32_t m_columns = ceil_divide(tiling_.block_m, 16);
  const VmemAddress from = grid_->input(x_input_);
  when(grid_->fresh(x_input_), {}, [&] {
    builder_.new_block();
    StepCounter counter(builder_, {tiling_.block_outer, tiling_.block_k, m_columns});
    builder_.loop(counter.steps(), [&](SReg) {
      const std::vector<SReg> digits = counter.present();
      const SReg source = weighted_sum(
          builder_, digits,
          {tiling_.block_k * 16 * m_columns * x_tile_, 16 * m_columns * x_tile_, x_tile_},
          from.base);
      const SReg target = weighted_sum(
          builder_, digits, {tiling_.block_m * tiling_.block_k * 8, 8, 16 * tiling_.block_k * 8});
      for (std::uint32_t i = 0; i < 16; ++i) {
        const VmemAddress address(from.region, std::int64_t{i} * m_columns * x_tile_, source);
        builder_.transpose_push(memory_.load_rows(problem_.lhs_type, address), 128, i, 16);
      }
      for (std::uint32_t i = 0; i < 16; ++i) {
        builder_.store({transposed_, std::int64_t{i} * tiling_.block_k * 8, target},
                       builder_.transpose_pop());
      }
      counter.advance(counter.next());
    });
  });
}

/// Whether a step's tile is the last one along k; none: it is.
PReg DotKernel::is_last_tile(const std::vector<SReg>& digits) {
  const PReg block = grid_->is_last(k_dimension());
  const PReg step = digits[2] ? builder_.equal(digits[2], tiling_.block_k - 1) : PReg();
  return block && step ? builder_.and_(block, step) : block ? block : step;
}

void DotKernel::multiply() {
  const DotTiling& t = tiling_;
  const VmemAddress x_block =
      problem_.lhs_transposed ? VmemAddress(transposed_) : grid_->input(x_input_);
  const ElementType x_type = problem_.lhs_transposed ? ElementType::kF32 : problem_.lhs_type;
  const std::uint32_t x_tile = problem_.lhs_transposed ? 8 : x_tile_;
  const VmemAddress w_block = grid_->input(w_input_);
  const VmemAddress sums = sums_apart() ? VmemAddress(sums_) : grid_->output(0);
  const OuterDimension none{};
  const OuterDimension& inner = problem_.outer.empty() ? none : problem_.outer.back();

  StepCounter counter(
      builder_, {t.block_outer, t.block_n / columns_at_once_, t.block_k, t.block_m / t.chunk_m});
  const std::vector<std::uint32_t> x_distances{inner.lhs != 0 ? t.block_m * t.block_k * x_tile : 0,
                                               0, x_tile, t.chunk_m * t.block_k * x_tile};
  const std::uint32_t w_matrix = inner.rhs != 0 ? 16 * t.block_k * t.block_n * w_tile_ : 0;
  const std::vector<std::uint32_t> w_distances =
      problem_.rhs_transposed
          ? std::vector<std::uint32_t>{w_matrix, columns_at_once_ * 16 * t.block_k * w_tile_,
                                       w_tile_, 0}
          : std::vector<std::uint32_t>{w_matrix, columns_at_once_ * w_tile_,
                                       16 * t.block_n * w_tile_, 0};
  const std::vector<std::uint32_t> sum_distances{t.block_m * t.block_n * 8, columns_at_once_ * 8, 0,
                                                 t.chunk_m * t.block_n * 8};
  const SVariable previous_row =
      builder_.scalar_variable(sums.base ? ScalarOperand(sums.base) : ScalarOperand(0));
  const SVariable previous_mask = builder_.scalar_variable(0);

  const auto row_of = [&](std::uint32_t mxu, std::uint32_t i) {
    return t.pair_columns ? i : mxu * pushes_ + i;
  };
  const auto column_of = [&](std::uint32_t mxu) { return t.pair_columns ? mxu : 0; };
  MatmulStream::Step step;
  step.pushes = pushes_;
  step.transposed = problem_.rhs_transposed;
  const auto weights = [&](const std::vector<SReg>& digits) {
    const SReg base = weighted_sum(builder_, digits, w_distances, w_block.base);
    const bool masked = masks_k() && problem_.rhs_transposed;
    const VReg mask = masked ? memory_.mask(problem_.rhs_type, is_last_tile(digits)) : VReg();
    auto cached = std::make_shared<std::pair<std::uint32_t, VReg>>(~0U, VReg());
    return [=](std::uint32_t mxu, std::uint32_t j) {
      if (!tiling_.pair_columns && cached->first == j) return cached->second;
      const std::uint32_t row_tile = 15 - j;
      const std::uint32_t at = problem_.rhs_transposed
                                   ? (column_of(mxu) * 16 + row_tile) * tiling_.block_k * w_tile_
                                   : (row_tile * tiling_.block_n + column_of(mxu)) * w_tile_;
      *cached = {j, memory_.load_weights(problem_.rhs_type, {w_block.region, at, base}, mask)};
      return cached->second;
    };
  };
  const auto consume_at = [&](SReg row, SReg mask, SReg before, SReg before_mask, PReg started) {
    return [=](std::uint32_t mxu, std::uint32_t i, bool previous, VReg result) {
      const std::uint32_t at = (row_of(mxu, i) * tiling_.block_n + column_of(mxu)) * 8;
      VmemAddress address(sums.region, at, previous ? before : row);
      VmemAddress source = address;
      source.mask_register = previous ? before_mask : mask;
      const VReg sum = builder_.add(builder_.load(source), result);
      const auto guard = previous && started ? PredicateOperand(started) : PredicateOperand(true);
      builder_.guarded(guard, [&] { builder_.store(address, sum); });
    };
  };

  std::vector<SReg> zeros(4);
  if (t.block_k > 1) zeros[2] = builder_.constant(0);
  step.next_weights = weights(zeros);
  stream_.begin(step);
  builder_.loop(counter.steps(), [&](SReg index) {
    const std::vector<SReg> digits = counter.present();
    const std::vector<SReg> next = counter.next();
    const SReg x_row = weighted_sum(builder_, digits, x_distances, x_block.base);
    SReg sum_row = weighted_sum(builder_, digits, sum_distances, sums.base);
    if (!sum_row) sum_row = builder_.constant(0);
    // The first sum over k begins at 0: the load of nothing gives 0.
    const PReg starts_block = grid_->is_first(k_dimension());
    const PReg starts_step = digits[2] ? builder_.equal(digits[2], 0) : PReg();
    const PReg starts = starts_block && starts_step ? builder_.and_(starts_block, starts_step)
                        : starts_block              ? starts_block
                                                    : starts_step;
    const SReg mask = starts ? builder_.select(starts, 0, 0xff) : builder_.constant(0);
    const VReg x_mask = masks_k() ? memory_.mask(x_type, is_last_tile(digits)) : VReg();
    std::map<std::uint32_t, VReg> loaded;
    step.rows = [&](std::uint32_t mxu, std::uint32_t i) {
      const std::uint32_t row = row_of(mxu, i);
      const auto found = loaded.find(row);
      if (found != loaded.end()) return found->second;
      const VmemAddress address(x_block.region, std::int64_t{row} * t.block_k * x_tile, x_row);
      return loaded[row] = memory_.load_rows(x_type, address, x_mask);
    };
    step.next_weights = weights(next);
    step.consume = consume_at(sum_row, mask, builder_.get(previous_row),
                              builder_.get(previous_mask), builder_.less(0, index));
    stream_.step(step);
    builder_.set(previous_row, sum_row);
    builder_.set(previous_mask, mask);
    counter.advance(next);
  });
  step.consume = consume_at({}, {}, builder_.get(previous_row), builder_.get(previous_mask), {});
  stream_.end(step);
  builder_.new_block();
}

/// Complete sums become results.
void DotKernel::finish() {
  when(grid_->is_last(k_dimension()), {}, [&] {
    if (!results_.is_identity()) apply_epilogue();
    if (is_packed(problem_.out_type))
      memory_.round_tiles(sums_, grid_->output(0),
                          std::uint64_t{tiling_.block_outer} * tiling_.block_m * tiling_.block_n);
  });
}

/// Tile by tile, in place where the result is packed afterwards.
void DotKernel::apply_epilogue() {
  const std::uint32_t period = problem_.row_period == 0 ? tiling_.block_m : problem_.row_period;
  std::uint32_t unroll = std::min(period, 8U);
  while (period % unroll != 0) --unroll;
  builder_.new_block();
  StepCounter counter(
      builder_, {tiling_.block_outer, tiling_.block_n, tiling_.block_m / period, period / unroll});
  builder_.loop(counter.steps(), [&](SReg) {
    const std::vector<SReg> digits = counter.present();
    const std::vector<std::uint32_t> distances{tiling_.block_m * tiling_.block_n, 1,
                                               period * tiling_.block_n, unroll * tiling_.block_n};
    const SReg tiles = weighted_sum(builder_, digits, distances);
    EpilogueEmitter::Position position;
    if (tiles) {
      position.rows32 = builder_.shift_left(tiles, 3);
      position.rows16 = builder_.shift_left(tiles, 2);
    }
    std::vector<VmemAddress> blocks;
    for (int input : epilogue_inputs_) blocks.push_back(grid_->input(input));
    results_.begin(blocks);
    const bool packed = is_packed(problem_.out_type);
    VmemAddress out = packed ? VmemAddress(sums_) : grid_->output(0);
    out.base2 = position.rows32;
    const auto digit = [&](int dimension, std::uint32_t block, SReg inner, std::uint32_t scale) {
      const SReg index = grid_->index(dimension);
      const SReg sum = weighted_sum(builder_, {index, inner}, {block, scale});
      return Index{sum, 0};
    };
    // Nothing depends on the outer dimensions' indices: matmul_epilogue() sees to it.
    const auto rank = static_cast<std::size_t>(epilogue_.graph->space().rank());
    position.place.digits.resize(rank);
    const Index row = problem_.row_period == 0
                          ? digit(m_dimension(), tiling_.block_m, digits[3], unroll)
                          : Index{weighted_sum(builder_, {digits[3]}, {unroll}), 0};
    position.place.digits[rank - 1] = digit(n_dimension(), tiling_.block_n, digits[1], 1);
    position.place.lane_key = 0;
    for (std::uint32_t i = 0; i < unroll; ++i) {
      position.tiles = std::int64_t{i} * tiling_.block_n;
      position.place.row_key = static_cast<int>(i);
      position.place.digits[rank - 2] = row.plus(i);
      const VReg product = builder_.load({sums_, 8 * position.tiles, position.rows32});
      builder_.store(out.plus(8 * position.tiles), results_.apply(position, product));
    }
    counter.advance(counter.next());
  });
  builder_.new_block();
}

}  // namespace

LoweredKernel dot_kernel(const DotProblem& problem, const DotTiling& tiling,
                         const MatmulEpilogue& epilogue, const Target& target) {
  return DotKernel(problem, tiling, epilogue, target).emit();
}

}  // namespace tpu::compiler
