#include "workloads/compiler/kernels/relayout/relayout_copy.h"

#include <algorithm>
#include <functional>

#include "sim/base/ceil_divide.h"
#include "workloads/compiler/ir/kernel_forms.h"
#include "workloads/compiler/kernels/elementwise/elementwise_memory.h"
#include "workloads/compiler/kernels/tiles/block_pipeline.h"
#include "workloads/compiler/kernels/tiles/box_dma.h"

namespace tpu::compiler {

namespace {

constexpr std::int64_t kBlockGranules = 256;
constexpr std::int64_t kBufferGranules = 4 * kBlockGranules;  ///< Of all buffers.
constexpr std::int64_t kFewestBuffers = 4, kMostBuffers = 8;

class TileMoveKernel {
 public:
  /// Runs of granules; each side has its own distance from run to run.
  struct Rows {
    std::int64_t count = 0, run = 1, source_stride = 1, target_stride = 1;
    std::int64_t per_block() const { return std::max<std::int64_t>(1, kBlockGranules / run); }
    std::int64_t blocks() const { return ceil_divide(count, per_block()); }
    std::int64_t block_granules() const { return std::min(count, per_block()) * run; }
  };
  struct Prepared {
    Rows rows;
    TileRuns runs;  ///< Around them.
    /// The inner ones of these are passed through without a pause; the others are loops.
    std::size_t loops = 0;
    BoxDma load, store;
  };

  TileMoveKernel(const std::string& name, const Target& target) : builder_(name, target) {
    load_flag_ = BlockPipeline::allocate_flags(builder_, kMostBuffers);
    store_flag_ = BlockPipeline::allocate_flags(builder_, kMostBuffers);
    buffers_ = builder_.allocate_vmem(static_cast<std::uint64_t>(kBufferGranules * 2));
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
  Index size_of(const Rows& rows, Index block);
  SReg place_of(bool loads, SReg base, const Prepared& prepared, Index block);
  void copy(SReg source, SReg result, const Prepared& prepared);
  void for_each(const Prepared& prepared, std::size_t level, SReg source, SReg result);

  KernelBuilder builder_;
  std::uint32_t load_flag_ = 0, store_flag_ = 0;
  VmemRegion buffers_;
};

/// `base` and so many strides, which may be negative.
SReg moved(KernelBuilder& builder, SReg base, Index count, std::int64_t stride) {
  const ScalarOperand distance = to_operand(builder, multiply(builder, count, std::abs(stride)));
  return stride < 0 ? builder.sub(base, distance) : builder.add(base, distance);
}

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
    builder_.dma_out(buffers_, place, size(block), store_flag_);
  });
  builder_.wait(store_flag_, total);
}

/// Outer dimensions, from `level` on, as loops.
void TileMoveKernel::for_each(const Prepared& prepared, std::size_t level, SReg source,
                              SReg result) {
  if (level == prepared.loops) return copy(source, result, prepared);
  const TileRuns& runs = prepared.runs;
  builder_.loop(static_cast<std::uint64_t>(runs.counts[level]), [&](SReg index) {
    for_each(prepared, level + 1, moved(builder_, source, {index, 0}, runs.source_strides[level]),
             moved(builder_, result, {index, 0}, runs.target_strides[level]));
  });
}

/// The dimension whose runs are rows of DMAs: the longest that a descriptor can step through. None:
/// -1.
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
  prepared.loops = runs.counts.size();
  std::int64_t blocks = prepared.rows.blocks();
  for (bool has_digits = true; has_digits && prepared.loops > 0;) {
    blocks *= runs.counts[prepared.loops - 1];
    has_digits = has_modulo(prepared.rows.blocks(), blocks);
    for (std::size_t i = prepared.loops - 1; i < runs.counts.size(); ++i) {
      has_digits = has_digits && has_modulo(runs.counts[i], blocks);
    }
    if (has_digits) --prepared.loops;
  }
  prepared.runs = std::move(runs);
  return prepared;
}

void TileMoveKernel::offset(const std::vector<TileOffset>& offsets, SReg& source, SReg& result) {
  constexpr std::uint32_t kGranuleWords = 256;
  for (const TileOffset& each : offsets) {
    const std::uint32_t words = builder_.allocate_smem(kGranuleWords);
    builder_.misc(isa::Opcode::kDmaHbmToSmem,
                  {builder_.operand(each.operand), 1, words, load_flag_});
    builder_.wait(load_flag_, 1);
    builder_.new_block();
    const SReg given = builder_.load_smem(words);
    const SReg place = builder_.min(builder_.max(given, 0), each.last);
    const SReg distance = builder_.mul(place, static_cast<std::uint32_t>(each.stride));
    SReg& moved = each.moves_target ? result : source;
    moved = builder_.add(moved, distance);
  }
}

void TileMoveKernel::move(SReg source, SReg result, const Prepared& prepared) {
  const SReg first_source = builder_.add(source, prepared.runs.source_begin);
  const SReg first_result = builder_.add(result, prepared.runs.target_begin);
  for_each(prepared, 0, first_source, first_result);
}

bool TileMoveKernel::fit_together(const std::vector<Prepared>& moves) {
  std::int64_t granules = 0;
  for (const Prepared& each : moves) {
    if (!each.runs.counts.empty()) return false;
    granules += each.rows.count * each.rows.run;
  }
  return granules <= kBufferGranules;
}

void TileMoveKernel::move_together(const std::vector<SReg>& sources,
                                   const std::vector<SReg>& results,
                                   const std::vector<Prepared>& moves) {
  std::int64_t total = 0;
  for (bool loads : {true, false}) {
    total = 0;
    const std::uint32_t flag = loads ? load_flag_ : store_flag_;
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
  box.runs = static_cast<std::uint32_t>(std::min(rows.count, kBufferGranules));
  box.hbm_stride = static_cast<std::uint32_t>(loads ? rows.source_stride : rows.target_stride);
  return {builder_, loads, box};
}

/// Of a block of rows; the last one may be smaller.
Index TileMoveKernel::size_of(const Rows& rows, Index block) {
  const std::int64_t most = rows.per_block();
  if (rows.blocks() == 1 || rows.count % most == 0) return {{}, rows.block_granules()};
  const Index begin = multiply(builder_, block, most);
  if (begin.is_constant()) return {{}, std::min(most, rows.count - begin.offset) * rows.run};
  const SReg left = builder_.sub(rows.count, to_operand(builder_, begin));
  return multiply(builder_, {builder_.min(left, most), 0}, rows.run);
}

/// Where a block of those that are passed through without a pause lies.
SReg TileMoveKernel::place_of(bool loads, SReg base, const Prepared& prepared, Index block) {
  const Rows& rows = prepared.rows;
  const TileRuns& runs = prepared.runs;
  const auto& strides = loads ? runs.source_strides : runs.target_strides;
  const bool is_outermost = runs.counts.size() == prepared.loops;
  const Index of_rows = is_outermost ? block : modulo(builder_, block, rows.blocks());
  SReg place = moved(builder_, base, of_rows,
                     rows.per_block() * (loads ? rows.source_stride : rows.target_stride));
  Index rest = divide(builder_, block, rows.blocks());
  for (std::size_t i = runs.counts.size(); i-- > prepared.loops;) {
    const bool is_last = i == prepared.loops;
    place =
        moved(builder_, place, is_last ? rest : modulo(builder_, rest, runs.counts[i]), strides[i]);
    if (!is_last) rest = divide(builder_, rest, runs.counts[i]);
  }
  return place;
}

/// All that is passed through without a pause: small blocks have more buffers, of which half are on
/// their way in.
void TileMoveKernel::copy(SReg source, SReg result, const Prepared& prepared) {
  const Rows& rows = prepared.rows;
  BlockPipeline::Blocks blocks;
  blocks.count = rows.blocks();
  for (std::size_t i = prepared.loops; i < prepared.runs.counts.size(); ++i) {
    blocks.count *= prepared.runs.counts[i];
  }
  blocks.buffers = kFewestBuffers;
  blocks.is_in_place = true;
  while (blocks.buffers < kMostBuffers &&
         2 * blocks.buffers * rows.block_granules() <= kBufferGranules) {
    blocks.buffers *= 2;
  }
  const auto size = [&](Index block) {
    return to_operand(builder_, size_of(rows, modulo(builder_, block, rows.blocks())));
  };
  const auto transfer = [&](bool loads) {
    BlockPipeline::Transfer each;
    each.flag = loads ? load_flag_ : store_flag_;
    each.granules = size;
    each.start = [&, loads](Index block, Index buffer) {
      BoxDma dma = loads ? prepared.load : prepared.store;
      const Index vmem = multiply(builder_, buffer, kBufferGranules / blocks.buffers * 2);
      const std::uint32_t flag = loads ? load_flag_ : store_flag_;
      dma.start(place_of(loads, loads ? source : result, prepared, block), at(buffers_, vmem),
                to_operand(builder_, buffer.plus(flag)), size(block));
    };
    return each;
  };
  BlockPipeline(builder_, blocks, transfer(true), transfer(false)).run(nullptr);
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
