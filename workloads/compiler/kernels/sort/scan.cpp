#include <algorithm>

#include "sim/base/ceil_divide.h"
#include "sim/base/error.h"
#include "workloads/compiler/ir/scan_form.h"
#include "workloads/compiler/kernels/elementwise/elementwise_memory.h"
#include "workloads/compiler/kernels/elementwise/transcendental.h"
#include "workloads/compiler/kernels/lowering.h"
#include "workloads/compiler/kernels/tiles/block_pipeline.h"
#include "workloads/compiler/kernels/tiles/box_dma.h"

namespace tpu::compiler {

namespace {

using hlo::HloOpcode;
using isa::Opcode;

constexpr std::int64_t kTogether = 16;       ///< Registers of a straight piece of code.
constexpr std::int64_t kMostTileRows = 128;  ///< Of a block of several matrices.

/// Cumulative operations along the rows of matrices, a lane tile of all rows of some matrices at a
/// time. Each sublane takes an eighth of the rows, one register of eight such rows after the other;
/// what the sublanes before have in all is combined with the results in a second pass.
class ScanKernel {
 public:
  ScanKernel(const hlo::HloInstruction& instruction, const ScanForm& form, const Target& target)
      : form_(form),
        builder_(instruction.name, target),
        tile_rows_(ceil_divide(form.rows, 8)),
        lane_tiles_(ceil_divide(form.lanes, 128)) {
    const std::int64_t most = std::max<std::int64_t>(1, kMostTileRows / tile_rows_);
    groups_ = ceil_divide(form.outer, most);
    matrices_ = ceil_divide(form.outer, groups_);
    groups_ = ceil_divide(form.outer, matrices_);
  }

  LoweredKernel emit();

 private:
  std::int64_t block_rows() const { return 8 * matrices_ * tile_rows_; }  ///< Of VMEM.
  void emit_blocks(std::int64_t blocks, std::int64_t distance, SReg array, SReg result);
  void scan_matrix(Index row);
  VReg before_each(VReg totals);
  VReg combined(VReg a, VReg b);
  std::uint32_t identity() const { return identity_bits(form_.operation, form_.is_integer); }

  ScanForm form_;
  KernelBuilder builder_;
  std::int64_t tile_rows_, lane_tiles_;
  std::int64_t matrices_ = 1, groups_ = 1;  ///< Of a block, the last of which may have fewer.
  VmemRegion given_, made_, totals_;
  BoxDma load_, store_;
  std::uint32_t load_flag_ = 0, store_flag_ = 0;
};

LoweredKernel ScanKernel::emit() {
  const SReg array = builder_.operand(0), result = builder_.operand(2);
  given_ = builder_.allocate_vmem(static_cast<std::uint64_t>(2 * block_rows()));
  made_ = builder_.allocate_vmem(static_cast<std::uint64_t>(2 * block_rows()));
  totals_ = builder_.allocate_vmem(8);
  load_flag_ = BlockPipeline::allocate_flags(builder_);
  store_flag_ = BlockPipeline::allocate_flags(builder_);
  const StridedBox box{4, static_cast<std::uint32_t>(matrices_ * tile_rows_),
                       static_cast<std::uint32_t>(4 * lane_tiles_), 4};
  load_ = BoxDma(builder_, true, box);
  store_ = BoxDma(builder_, false, box);
  if (groups_ == 1) {  // Lane tile after lane tile.
    emit_blocks(lane_tiles_, 4, array, result);
    return lowered_kernel(builder_);
  }
  const std::int64_t distance = 4 * lane_tiles_ * matrices_ * tile_rows_;
  if (lane_tiles_ == 1) {
    emit_blocks(groups_, distance, array, result);
  } else {
    builder_.loop(static_cast<std::uint64_t>(lane_tiles_), [&](SReg lane_tile) {
      const SReg right = builder_.mul(lane_tile, 4);
      emit_blocks(groups_, distance, builder_.add(array, right), builder_.add(result, right));
    });
  }
  return lowered_kernel(builder_);
}

/// Blocks that stand `distance` granules from each other.
void ScanKernel::emit_blocks(std::int64_t blocks, std::int64_t distance, SReg array, SReg result) {
  BlockPipeline::Transfer load, store;
  load.flag = load_flag_;
  store.flag = store_flag_;
  const auto granules = [=](Index block) -> ScalarOperand {
    return extent_of_block(builder_, block, form_.outer, matrices_, 4 * tile_rows_);
  };
  load.granules = store.granules = granules;
  const auto start = [=](BoxDma& dma, SReg hbm, VmemRegion region, std::uint32_t flag, Index block,
                         Index buffer) {
    dma.start(builder_.add(hbm, to_operand(builder_, multiply(builder_, block, distance))),
              at(region, multiply(builder_, buffer, block_rows())),
              to_operand(builder_, buffer.plus(flag)), granules(block));
  };
  load.start = [=](Index block, Index buffer) {
    start(load_, array, given_, load_flag_, block, buffer);
  };
  store.start = [=](Index block, Index buffer) {
    start(store_, result, made_, store_flag_, block, buffer);
  };
  BlockPipeline(builder_, {blocks}, load, store).run([&](Index, Index buffer) {
    const Index first = multiply(builder_, buffer, block_rows());
    if (matrices_ == 1) return scan_matrix(first);
    const SReg begin = builder_.add(to_operand(builder_, first), 0);
    builder_.loop(static_cast<std::uint64_t>(matrices_), [&](SReg matrix) {
      const SReg down = builder_.mul(matrix, static_cast<std::uint32_t>(8 * tile_rows_));
      scan_matrix({builder_.add(begin, down), 0});
    });
  });
}

VReg ScanKernel::combined(VReg a, VReg b) {
  if (form_.operation != HloOpcode::kMultiply) {
    return combine(builder_, form_.operation, form_.is_integer, a, b);
  }
  return form_.is_integer ? emit_multiply_s32(builder_, a, b) : builder_.mul(a, b);
}

/// Of the totals of the sublanes those before (behind) each one, together.
VReg ScanKernel::before_each(VReg totals) {
  const VReg sublane = builder_.shift_right(builder_.lane_sequence(), 7);
  const auto from = [&](VReg value, int distance) {
    builder_.store(totals_, value);
    std::uint32_t pattern = 0;
    for (int s = 0; s < 8; ++s) {
      const int source = std::clamp(form_.forwards ? s - distance : s + distance, 0, 7);
      pattern |= static_cast<std::uint32_t>(source) << (3 * s);
    }
    return builder_.load_shuffled(totals_, pattern);
  };
  const auto exists = [&](int distance) {
    return form_.forwards ? builder_.vector_compare(Opcode::kVcmpGeS32, sublane, distance)
                          : builder_.vector_compare(Opcode::kVcmpLtS32, sublane, 8 - distance);
  };
  for (const int distance : {1, 2, 4}) {
    const VReg both = combined(from(totals, distance), totals);
    totals = builder_.select(exists(distance), both, totals);
  }
  return builder_.select(exists(1), from(totals, 1), identity());
}

/// The matrix that begins at this VMEM row.
void ScanKernel::scan_matrix(Index row) {
  builder_.new_block();
  if (form_.rows % 8 != 0 && !form_.forwards) {
    const auto padding = static_cast<std::uint8_t>(0xff << (form_.rows % 8));
    builder_.store(at(given_, row.plus(8 * (tile_rows_ - 1))).mask(padding), identity());
  }
  const auto stride = static_cast<std::int32_t>(tile_rows_);
  const VVariable sum = builder_.vector_variable(identity());
  in_pieces(builder_, tile_rows_, kTogether, [&](Index first, std::int64_t many) {
    VReg all = builder_.get(sum);
    // Backwards from the last row that each sublane has.
    Index from = first;
    if (!form_.forwards) {
      from = first.is_constant()
                 ? Index{{}, tile_rows_ - 1 - first.offset}
                 : Index{builder_.sub(tile_rows_ - 1, to_operand(builder_, first)), 0};
    }
    const Index begin = add(builder_, row, from);
    for (std::int64_t i = 0; i < many; ++i) {
      const Index place = begin.plus(form_.forwards ? i : -i);
      const VReg next = builder_.load(at(given_, place).stride(stride));
      all = form_.forwards ? combined(all, next) : combined(next, all);
      builder_.store(at(made_, place).stride(stride), all);
    }
    builder_.set(sum, all);
  });
  builder_.new_block();
  const VReg before = before_each(builder_.get(sum));
  const VVariable kept = builder_.vector_variable(before);
  in_pieces(builder_, tile_rows_, kTogether, [&](Index first, std::int64_t many) {
    const VReg offset = builder_.get(kept);
    const Index begin = add(builder_, row, first);
    for (std::int64_t i = 0; i < many; ++i) {
      const VmemAddress place = at(made_, begin.plus(i)).stride(stride);
      builder_.store(place, combined(offset, builder_.load(place)));
    }
  });
}

}  // namespace

LoweredKernel lower_scan(const hlo::Module& module, const hlo::Computation& computation,
                         const hlo::HloInstruction& instruction, const Target& target) {
  const std::optional<ScanForm> form = scan_form(module, computation, instruction);
  if (!form || !scan_fits(form->rows, target)) {
    throw WorkloadError("no kernel for a cumulative operation \"" + instruction.name +
                        "\": expected matrices of which a lane tile fits VMEM, found " +
                        to_string(instruction.shape));
  }
  return ScanKernel(instruction, *form, target).emit();
}

}  // namespace tpu::compiler
