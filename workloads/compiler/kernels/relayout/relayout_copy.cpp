#include "workloads/compiler/kernels/relayout/relayout_copy.h"

#include <algorithm>
#include <functional>

#include "sim/base/ceil_divide.h"
#include "workloads/compiler/kernels/elementwise/elementwise_memory.h"
#include "workloads/compiler/kernels/tiles/box_dma.h"

namespace tpu::compiler {

namespace {

constexpr std::int64_t kBlockGranules = 256;
constexpr std::int64_t kBuffers = 4;

class TileMoveKernel {
 public:
  /// Runs of granules; each side has its own distance from run to run.
  struct Rows {
    std::int64_t count = 0, run = 1, source_stride = 1, target_stride = 1;
    std::int64_t per_block() const { return std::max<std::int64_t>(1, kBlockGranules / run); }
  };
  struct Prepared {
    Rows rows;
    TileRuns runs;  ///< Loops around them.
    BoxDma load, store;
  };

  TileMoveKernel(const std::string& name, const Target& target) : builder_(name, target) {
    for (std::int64_t i = 0; i < kBuffers; ++i) load_flags_.push_back(builder_.allocate_flag());
    for (std::int64_t i = 0; i < kBuffers; ++i) store_flags_.push_back(builder_.allocate_flag());
    buffers_ = builder_.allocate_vmem(static_cast<std::uint64_t>(kBuffers * kBlockGranules * 2));
  }

  void fill(SReg result, std::uint64_t granules, std::uint32_t word);
  Prepared prepare(TileRuns runs);
  /// Adds the distances that are known only now to the places of a move.
  void offset(const std::vector<TileOffset>& offsets, SReg& source, SReg& result);
  void move(SReg source, SReg result, const Prepared& prepared);
  /// Whether the buffers hold everything that the moves bring at once.
  static bool fit_together(const std::vector<Prepared>& moves);
  /// All loads at once, then all stores: small moves wait for the memory twice, not twice each.
  void move_together(const std::vector<SReg>& sources, const std::vector<SReg>& results,
                     const std::vector<Prepared>& moves);
  LoweredKernel finish() { return lowered_kernel(builder_); }
  KernelBuilder& builder() { return builder_; }

 private:
  BoxDma rows_dma(bool loads, const Rows& rows);
  void transfer(bool loads, SReg base, const Rows& rows, Index block);
  Index size_of(const Rows& rows, Index block);
  void copy_rows(SReg source, SReg result, const Rows& rows);
  void for_each(const TileRuns& runs, std::size_t level, SReg source, SReg result,
                const std::function<void(SReg, SReg)>& body);

  KernelBuilder builder_;
  std::vector<std::uint32_t> load_flags_, store_flags_;
  VmemRegion buffers_;
  BoxDma load_dma_, store_dma_;  ///< Of the rows at hand.
};

void TileMoveKernel::fill(SReg result, std::uint64_t granules, std::uint32_t word) {
  builder_.loop(kBlockGranules * 2 / 64, [&](SReg index) {
    for (std::int64_t i = 0; i < 8; ++i) {
      builder_.store(VmemAddress(buffers_, 8 * i, builder_.shift_left(index, 6)), word);
    }
  });
  const auto total = static_cast<std::int64_t>(granules);
  const std::int64_t blocks = ceil_divide(total, kBlockGranules);
  const auto size = [&](SReg block) {
    return builder_.min(builder_.sub(total, builder_.mul(block, kBlockGranules)), kBlockGranules);
  };
  builder_.loop(static_cast<std::uint64_t>(blocks), [&](SReg block) {
    const SReg place = builder_.add(result, builder_.mul(block, kBlockGranules));
    builder_.dma_out(buffers_, place, size(block), store_flags_[0]);
  });
  builder_.wait(store_flags_[0], total);
}

/// Outer dimensions, from `level` on, as loops.
void TileMoveKernel::for_each(const TileRuns& runs, std::size_t level, SReg source, SReg result,
                              const std::function<void(SReg, SReg)>& body) {
  if (level == runs.counts.size()) {
    body(source, result);
    return;
  }
  builder_.loop(static_cast<std::uint64_t>(runs.counts[level]), [&](SReg index) {
    const auto moved = [&](SReg base, std::int64_t stride) {
      const SReg distance = builder_.mul(index, static_cast<std::uint32_t>(std::abs(stride)));
      return stride < 0 ? builder_.sub(base, distance) : builder_.add(base, distance);
    };
    for_each(runs, level + 1, moved(source, runs.source_strides[level]),
             moved(result, runs.target_strides[level]), body);
  });
}

/// The dimension whose runs are rows of DMAs: the longest that a descriptor can step through, for
/// each round of the loops around it waits for the memory. None: -1.
std::ptrdiff_t dimension_of_rows(const TileRuns& runs) {
  std::ptrdiff_t best = -1;
  if (runs.run >= kBlockGranules) return best;
  for (std::size_t i = runs.counts.size(); i-- > 0;) {
    const bool steps = runs.source_strides[i] > 0 &&
                       std::max(runs.source_strides[i], runs.target_strides[i]) <= kLargestStride;
    if (!steps) continue;
    if (best < 0 || runs.counts[i] > runs.counts[static_cast<std::size_t>(best)]) {
      best = static_cast<std::ptrdiff_t>(i);
    }
  }
  return best;
}

/// Cuts the runs into rows that one DMA can take and loops around them. Descriptors are made here:
/// call it before the first loop.
TileMoveKernel::Prepared TileMoveKernel::prepare(TileRuns runs) {
  Prepared prepared;
  prepared.rows = {runs.run, 1, 1, 1};
  if (const std::ptrdiff_t rows = dimension_of_rows(runs); rows >= 0) {
    const auto take = [rows](std::vector<std::int64_t>& list) {
      const std::int64_t taken = list[static_cast<std::size_t>(rows)];
      list.erase(list.begin() + rows);
      return taken;
    };
    prepared.rows.count = take(runs.counts);
    prepared.rows.run = runs.run;
    prepared.rows.source_stride = take(runs.source_strides);
    prepared.rows.target_stride = take(runs.target_strides);
  }
  prepared.load = rows_dma(true, prepared.rows);
  prepared.store = rows_dma(false, prepared.rows);
  prepared.runs = std::move(runs);
  return prepared;
}

void TileMoveKernel::offset(const std::vector<TileOffset>& offsets, SReg& source, SReg& result) {
  constexpr std::uint32_t kGranuleWords = 256;
  for (const TileOffset& each : offsets) {
    const std::uint32_t words = builder_.allocate_smem(kGranuleWords);
    builder_.misc(isa::Opcode::kDmaHbmToSmem,
                  {builder_.operand(each.operand), 1, words, load_flags_[0]});
    builder_.wait(load_flags_[0], 1);
    builder_.new_block();
    const SReg given = builder_.load_smem(words);
    const SReg place = builder_.min(builder_.max(given, 0), each.last);
    const SReg distance = builder_.mul(place, static_cast<std::uint32_t>(each.stride));
    SReg& moved = each.moves_target ? result : source;
    moved = builder_.add(moved, distance);
  }
}

void TileMoveKernel::move(SReg source, SReg result, const Prepared& prepared) {
  load_dma_ = prepared.load;
  store_dma_ = prepared.store;
  const SReg first_source = builder_.add(source, prepared.runs.source_begin);
  const SReg first_result = builder_.add(result, prepared.runs.target_begin);
  for_each(prepared.runs, 0, first_source, first_result,
           [&](SReg here, SReg there) { copy_rows(here, there, prepared.rows); });
}

bool TileMoveKernel::fit_together(const std::vector<Prepared>& moves) {
  std::int64_t granules = 0;
  for (const Prepared& each : moves) {
    if (!each.runs.counts.empty()) return false;
    granules += each.rows.count * each.rows.run;
  }
  return granules <= kBuffers * kBlockGranules;
}

void TileMoveKernel::move_together(const std::vector<SReg>& sources,
                                   const std::vector<SReg>& results,
                                   const std::vector<Prepared>& moves) {
  std::int64_t total = 0;
  for (bool loads : {true, false}) {
    total = 0;
    const std::uint32_t flag = loads ? load_flags_[0] : store_flags_[0];
    for (std::size_t i = 0; i < moves.size(); ++i) {
      const TileRuns& runs = moves[i].runs;
      const SReg hbm = loads ? builder_.add(sources[i], runs.source_begin)
                             : builder_.add(results[i], runs.target_begin);
      const std::int64_t granules = moves[i].rows.count * moves[i].rows.run;
      BoxDma dma = loads ? moves[i].load : moves[i].store;
      dma.start(hbm, at(buffers_, {{}, 2 * total}), flag, granules);
      total += granules;
    }
    builder_.wait(flag, total);
  }
}

BoxDma TileMoveKernel::rows_dma(bool loads, const Rows& rows) {
  StridedBox box;
  box.run = static_cast<std::uint32_t>(rows.run);
  // A block of them at a time, or what the buffers hold.
  box.runs = static_cast<std::uint32_t>(std::min(rows.count, kBuffers * kBlockGranules));
  box.hbm_stride = static_cast<std::uint32_t>(loads ? rows.source_stride : rows.target_stride);
  return {builder_, loads, box};
}

/// Starts the load or the store of a block of rows; the last one may be smaller.
void TileMoveKernel::transfer(bool loads, SReg base, const Rows& rows, Index block) {
  const std::int64_t stride = loads ? rows.source_stride : rows.target_stride;
  const Index buffer = modulo_power_of_two(builder_, block, 2);
  const Index place = multiply(builder_, block, rows.per_block() * stride);
  const SReg hbm = builder_.add(base, to_operand(builder_, place));
  const VmemAddress vmem = at(buffers_, multiply(builder_, buffer, kBlockGranules * 2));
  const ScalarOperand flag =
      to_operand(builder_, buffer.plus(loads ? load_flags_[0] : store_flags_[0]));
  const ScalarOperand granules = to_operand(builder_, size_of(rows, block));
  (loads ? load_dma_ : store_dma_).start(hbm, vmem, flag, granules);
}

Index TileMoveKernel::size_of(const Rows& rows, Index block) {
  const std::int64_t most = rows.per_block();
  const Index begin = multiply(builder_, block, most);
  if (begin.is_constant()) return {{}, std::min(most, rows.count - begin.offset) * rows.run};
  const SReg left = builder_.sub(rows.count, to_operand(builder_, begin));
  return multiply(builder_, {builder_.min(left, most), 0}, rows.run);
}

void TileMoveKernel::copy_rows(SReg source, SReg result, const Rows& rows) {
  const std::int64_t blocks = ceil_divide(rows.count, rows.per_block());
  const auto wait = [&](bool loads, Index block) {
    const Index buffer = modulo_power_of_two(builder_, block, 2);
    builder_.wait(to_operand(builder_, buffer.plus(loads ? load_flags_[0] : store_flags_[0])),
                  to_operand(builder_, size_of(rows, block)));
  };
  transfer(true, source, rows, {});
  if (blocks > 1) transfer(true, source, rows, {{}, 1});
  const auto step = [&](Index block) {
    wait(true, block);
    transfer(false, result, rows, block);
    if (blocks <= 2) return;
    // The buffer of the load after next was last stored from two blocks ago.
    const SReg here = builder_.add(to_operand(builder_, block), 0);
    const PReg has_load = builder_.less(here, blocks - 2);
    if (blocks > 4) {
      const PReg is_reused = builder_.and_(builder_.less(1, here), has_load);
      builder_.guarded(is_reused, [&] { wait(false, {here, -2}); });
    }
    builder_.guarded(has_load, [&] { transfer(true, source, rows, {here, 2}); });
  };
  if (blocks == 1) {
    step({});
  } else {
    builder_.loop(static_cast<std::uint64_t>(blocks), [&](SReg index) { step({index, 0}); });
  }
  for (std::int64_t block = std::max<std::int64_t>(0, blocks - 4); block < blocks; ++block) {
    wait(false, {{}, block});
  }
}

}  // namespace

LoweredKernel emit_tile_moves(const std::string& name, const std::vector<TileMove>& moves,
                              int result_operand, std::uint64_t result_granules, bool fills,
                              std::uint32_t fill, const Target& target) {
  TileMoveKernel kernel(name, target);
  KernelBuilder& builder = kernel.builder();
  const SReg result = builder.operand(result_operand);
  std::vector<SReg> sources;
  std::vector<TileMoveKernel::Prepared> prepared;
  for (const TileMove& move : moves) {
    sources.push_back(builder.operand(move.source));
    prepared.push_back(kernel.prepare(move.runs));
  }
  if (fills) kernel.fill(result, result_granules, fill);
  std::vector<SReg> results(moves.size(), result);
  const bool together = TileMoveKernel::fit_together(prepared);
  for (std::size_t i = 0; i < moves.size(); ++i) {
    kernel.offset(moves[i].offsets, sources[i], results[i]);
    if (!together) kernel.move(sources[i], results[i], prepared[i]);
  }
  if (together) kernel.move_together(sources, results, prepared);
  return kernel.finish();
}

}  // namespace tpu::compiler
