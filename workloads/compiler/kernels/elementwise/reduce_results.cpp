#include "sim/base/ceil_divide.h"
#include "sim/base/error.h"
#include "workloads/compiler/ir/array_layout.h"
#include "workloads/compiler/kernels/elementwise/elementwise_kernel.h"

namespace tpu::compiler {

namespace {

using isa::Opcode;

}  // namespace

/// Those of a part are waited for later.
void ElementwiseKernel::write_results(bool sliced) {
  builder_.new_block();
  emitter_.forget();
  std::uint64_t waiting = 0;
  for (const Output& output : plan_.outputs) {
    if (output.kind == OutputKind::kStream || output.sliced != sliced) continue;
    if (output.kind == OutputKind::kAccumulated) finish(output);
    if (output.staging.rows > 0) {
      const std::int64_t tiles = output.shape.padded_bytes() / 2048;
      for_each(tiles, 4, [&](Index tile) {
        const VReg value = builder_.load(at(output.staging, multiply(builder_, tile, 8)));
        memory_->store_tile(output.shape.type, at(output.region, multiply(builder_, tile, 4)),
                            value);
      });
    }
    builder_.new_block();
    emitter_.forget();
    if (is_resident_) continue;
    const std::uint64_t size = granules(output.shape);
    builder_.dma_out(output.region, part_address(output.operand, output.begin, {part_, 0}, size),
                     size, sliced ? part_store_flag_ : store_flag_);
    waiting += size;
  }
  if (waiting > 0 && !sliced) builder_.wait(store_flag_, waiting);
}

void ElementwiseKernel::finish(const Output& output) {
  const Reduction& reduction = plan_.reductions[static_cast<std::size_t>(output.reduction)];
  if (reduction.rows_kept && reduction.lanes_kept) {
    finish_tiles(output, reduction);
  } else if (reduction.lanes_kept) {
    finish_lane_rows(output, reduction);
  } else if (reduction.rows_kept) {
    finish_column_sums(output, reduction);
  } else {
    finish_totals(output, reduction);
  }
  emitter_.forget();
}

VReg ElementwiseKernel::accumulated(const Reduction& reduction, Index accumulator) {
  return builder_.load(at(reduction.accumulators, multiply(builder_, accumulator, 8)));
}

/// A reduction's value with its initial value.
VReg ElementwiseKernel::total(const Reduction& reduction, VReg value) {
  const ExpressionNode& node = graph_.node(reduction.node);
  if (node.bits == identity_bits(node.reducer, reduction.integer)) return value;
  return combine(builder_, node.reducer, reduction.integer, value, node.bits);
}

/// All lanes of a register combined.
VReg ElementwiseKernel::lanes_of(const Reduction& reduction, VReg value) {
  const hlo::HloOpcode reducer = graph_.node(reduction.node).reducer;
  return reducer == hlo::HloOpcode::kAdd       ? builder_.lane_sum(value)
         : reducer == hlo::HloOpcode::kMaximum ? builder_.lane_max(value)
                                               : builder_.lane_min(value);
}

/// Only major dimensions are reduced: the accumulators are the result's tiles.
void ElementwiseKernel::finish_tiles(const Output& output, const Reduction& reduction) {
  for_each(reduction.registers, 8, [&](Index tile) {
    builder_.store(at(tiles_of(output), multiply(builder_, tile, 8)),
                   total(reduction, accumulated(reduction, tile)));
  });
}

/// What an accumulator makes of the result, in its first row. What was used in the kernel is the
/// result already.
VReg ElementwiseKernel::finished_row(const Output& output, const Reduction& reduction,
                                     Index accumulator) {
  if (output.is_column_value) {
    const VmemRegion region = plan_.column_value_of(output.node, false)->region;
    return builder_.load(at(region, multiply(builder_, accumulator, 8)));
  }
  const VReg value = accumulated(reduction, accumulator);
  if (reduction.along_rows) return value;
  const hlo::HloOpcode reducer = graph_.node(reduction.node).reducer;
  return total(reduction, combine_sublanes(builder_, reducer, reduction.integer, value));
}

/// Rows are reduced, lanes stay: each accumulator becomes one row of the result.
void ElementwiseKernel::finish_lane_rows(const Output& output, const Reduction& reduction) {
  const std::int64_t lane_tiles = space_.lane_tiles();
  const auto row = [&](Index accumulator, VmemAddress address) {
    builder_.store(address.mask(0x1), finished_row(output, reduction, accumulator));
  };
  if (output.shape.rank() < 2) {
    for_each(lane_tiles, 4, [&](Index tile) { row(tile, at(output.region, tile)); });
    return;
  }
  const std::int64_t row_groups = reduction.registers / (8 * lane_tiles);
  TPU_CHECK(row_groups >= 1 || reduction.kept_majors.empty(), graph_.kernel_name());
  if (row_groups == 0) {  // A result of one row.
    for_each(lane_tiles, 4,
             [&](Index tile) { row(tile, at(tiles_of(output), multiply(builder_, tile, 8))); });
    return;
  }
  for_each(row_groups, 1, [&](Index group) {
    for (std::int64_t s = 0; s < 8; ++s) {
      for_each(lane_tiles, 4, [&](Index tile) {
        const Index first = multiply(builder_, group, 8 * lane_tiles);
        const Index accumulator = add(builder_, first, tile).plus(s * lane_tiles);
        row(accumulator,
            at(tiles_of(output), add(builder_, first, multiply(builder_, tile, 8)).plus(s)));
      });
    }
  });
}

/// Numbers in the sublanes of some registers go to the lanes of a row of the result, eight lanes
/// for each, from the eight with number `tile` on. The row is one of those of `y_tile`, a tile of
/// which there are `x_tiles` beside each other.
void ElementwiseKernel::store_numbers(const Output& output, const std::vector<VReg>& numbers,
                                      Index y_tile, Index row, Index tile, std::int64_t x_tiles) {
  Index line = divide_by_power_of_two(builder_, tile, 4);
  if (output.shape.rank() >= 2) {
    line = multiply(builder_, add(builder_, line, multiply(builder_, y_tile, x_tiles)), 8);
    line = add(builder_, line, modulo_power_of_two(builder_, row, 3));
  }
  const Index lane = multiply(builder_, modulo_power_of_two(builder_, tile, 4), 8);
  store_across_lanes(builder_, emitter_, numbers, at(tiles_of(output), line), lane);
}

/// Eight tiles at a time, or those that are left, which share the wait for the lanes.
void ElementwiseKernel::for_eights(std::int64_t tiles,
                                   const std::function<void(Index, std::int64_t)>& body) {
  for_each(tiles / 8, 1, [&](Index group) { body(multiply(builder_, group, 8), 8); });
  if (tiles % 8 != 0) body({{}, tiles / 8 * 8}, tiles % 8);
}

/// Lanes are reduced (with majors), rows stay: the rows of an accumulator become lanes.
void ElementwiseKernel::finish_column_sums(const Output& output, const Reduction& reduction) {
  const std::int64_t row_tiles = space_.row_tiles();
  const std::int64_t x_tiles = ceil_divide(space_.rows(), 128);
  const std::int64_t rows = reduction.registers / row_tiles;
  for_each(rows, 1, [&](Index row) {
    for_eights(row_tiles, [&](Index tile, std::int64_t together) {
      const Index first = add(builder_, multiply(builder_, row, row_tiles), tile);
      std::vector<VReg> sums;
      for (std::int64_t i = 0; i < together; ++i) {
        sums.push_back(
            total(reduction, lanes_of(reduction, accumulated(reduction, first.plus(i)))));
      }
      store_numbers(output, sums, divide_by_power_of_two(builder_, row, 3), row, tile, x_tiles);
    });
  });
}

/// Eight accumulators that follow each other, one in each sublane, with their lanes combined.
VReg ElementwiseKernel::eight_totals(const Reduction& reduction, Index first) {
  const hlo::HloOpcode reducer = graph_.node(reduction.node).reducer;
  VReg eight;
  for (int i = 0; i < 8; ++i) {
    const VReg rows = combine_sublanes(builder_, reducer, reduction.integer,
                                       accumulated(reduction, first.plus(i)));
    const MReg own = builder_.vector_compare(Opcode::kVcmpEqS32, emitter_.sublane_index(), i);
    eight = builder_.select(own, rows, eight ? VectorOperand(eight) : VectorOperand(0));
  }
  return total(reduction, lanes_of(reduction, eight));
}

/// Rows and lanes are reduced: one number per accumulator. Eight of them share a register on their
/// way, some registers the wait for the lanes.
void ElementwiseKernel::finish_totals(const Output& output, const Reduction& reduction) {
  const std::vector<std::int64_t> extents = physical_extents(output.shape);
  if (reduction.kept_majors.empty()) {  // There is one accumulator.
    const VReg lanes = lanes_of(reduction, accumulated(reduction, {}));
    const VReg value =
        combine_sublanes(builder_, graph_.node(reduction.node).reducer, reduction.integer, lanes);
    builder_.store(at(tiles_of(output), {}).mask(0x1), total(reduction, value));
    return;
  }
  const std::int64_t columns = extents.back();
  const std::int64_t rows = extents.size() >= 2 ? extents[extents.size() - 2] : 1;
  std::int64_t matrices = 1;
  for (std::size_t i = 0; i + 2 < extents.size(); ++i) matrices *= extents[i];
  const std::int64_t tiles = ceil_divide(columns, 8);
  const std::int64_t x_tiles = ceil_divide(columns, 128), y_tiles = ceil_divide(rows, 8);
  for_each(matrices, 1, [&](Index matrix) {
    for_each(rows, 1, [&](Index row) {
      const Index all_rows = add(builder_, multiply(builder_, matrix, rows), row);
      for_eights(tiles, [&](Index tile, std::int64_t together) {
        const Index first =
            multiply(builder_, add(builder_, multiply(builder_, all_rows, tiles), tile), 8);
        std::vector<VReg> values;
        for (std::int64_t i = 0; i < together; ++i) {
          values.push_back(eight_totals(reduction, first.plus(8 * i)));
        }
        const Index y_tile = add(builder_, multiply(builder_, matrix, y_tiles),
                                 divide_by_power_of_two(builder_, row, 3));
        store_numbers(output, values, y_tile, row, tile, x_tiles);
      });
    });
  });
}

}  // namespace tpu::compiler
