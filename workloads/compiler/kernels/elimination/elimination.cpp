#include "workloads/compiler/ir/elimination.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "sim/base/ceil_divide.h"
#include "sim/base/error.h"
#include "workloads/compiler/cost.h"
#include "workloads/compiler/ir/array_layout.h"
#include "workloads/compiler/ir/kernel_forms.h"
#include "workloads/compiler/kernels/elementwise/elementwise_memory.h"
#include "workloads/compiler/kernels/elementwise/transcendental.h"
#include "workloads/compiler/kernels/lowering.h"
#include "workloads/compiler/kernels/tiles/block_pipeline.h"

namespace tpu::compiler {

namespace {

using isa::Opcode;

constexpr std::int64_t kTileGranules = 4;

/// Matrices of so many rows, as many of them at a time as keep the permute unit at work while the
/// first element of a step is on its way.
struct EliminationShapes {
  std::int64_t rows = 1, count = 1;
  std::int64_t tiles = 1;     ///< Of eight rows.
  std::int64_t together = 1;  ///< Matrices.

  explicit EliminationShapes(const std::vector<std::int64_t>& extents)
      : rows(extents.back()),
        count(std::accumulate(extents.begin(), extents.end() - 2, std::int64_t{1},
                              std::multiplies<>())),
        tiles(ceil_divide(rows, std::int64_t{isa::kSublanes})) {
    constexpr std::int64_t kMostTiles = 64;  // Unrolled.
    together = std::min(count, std::max<std::int64_t>(1, kMostTiles / tiles));
  }
  std::int64_t granules() const { return tiles * kTileGranules; }
};

/// Each step takes a row, over its element on the diagonal, off all rows below, times their
/// elements of that column. These come to all lanes by a permutation: one a tile, which is most of
/// what a step takes. Tiles above the row are done, and their code is left out.
class EliminationKernel {
 public:
  EliminationKernel(const hlo::HloInstruction& instruction, const Target& target)
      : builder_(instruction.name, target), shapes_(instruction.shape.dimensions) {}

  LoweredKernel emit();

 private:
  /// What a step brings to all lanes of one matrix.
  struct Column {
    VReg row, diagonal;
    std::vector<VReg> elements;  ///< Of each tile from the row's on.
  };

  void for_each_present(Index group, const std::function<void(std::int64_t, Index)>& body);
  ScalarOperand granules_of(Index group);
  void eliminate(Index buffer);
  void emit_step(std::int64_t tile, SReg sublane, Index buffer);
  VmemAddress tile_at(std::int64_t matrix, std::int64_t tile, Index buffer) const;

  KernelBuilder builder_;
  EliminationShapes shapes_;
  std::vector<VmemRegion> matrices_;  ///< Two buffers of each of those at a time.
};

VmemAddress EliminationKernel::tile_at(std::int64_t matrix, std::int64_t tile, Index buffer) const {
  return at(matrices_[static_cast<std::size_t>(matrix)], buffer.plus(isa::kSublanes * tile));
}

/// The matrices of a group, with their numbers, that there are.
void EliminationKernel::for_each_present(Index group,
                                         const std::function<void(std::int64_t, Index)>& body) {
  const Index first = multiply(builder_, group, shapes_.together);
  for (std::int64_t m = 0; m < shapes_.together; ++m) {
    const Index number = first.plus(m);
    if (shapes_.count % shapes_.together == 0) {
      body(m, number);
    } else if (number.is_constant()) {
      if (number.offset < shapes_.count) body(m, number);
    } else {
      const PReg is_present = builder_.less(to_operand(builder_, number), shapes_.count);
      builder_.guarded(is_present, [&] { body(m, number); });
    }
  }
}

ScalarOperand EliminationKernel::granules_of(Index group) {
  const Index first = multiply(builder_, group, shapes_.together);
  if (shapes_.count % shapes_.together == 0) return shapes_.together * shapes_.granules();
  if (first.is_constant()) {
    return std::min(shapes_.together, shapes_.count - first.offset) * shapes_.granules();
  }
  const SReg left = builder_.sub(shapes_.count, to_operand(builder_, first));
  return builder_.mul(builder_.min(left, shapes_.together),
                      static_cast<std::uint32_t>(shapes_.granules()));
}

LoweredKernel EliminationKernel::emit() {
  const SReg from = builder_.operand(0), to = builder_.operand(1);
  const std::int64_t rows = shapes_.tiles * isa::kSublanes, granules = shapes_.granules();
  for (std::int64_t m = 0; m < shapes_.together; ++m) {
    matrices_.push_back(builder_.allocate_vmem(static_cast<std::uint64_t>(2 * rows)));
  }
  const auto place = [&](SReg array, Index number) {
    return builder_.add(array, to_operand(builder_, multiply(builder_, number, granules)));
  };
  const auto in_buffer = [&](std::int64_t m, Index buffer) {
    return tile_at(m, 0, multiply(builder_, buffer, rows));
  };
  BlockPipeline::Transfer load, store;
  load.flag = BlockPipeline::allocate_flags(builder_);
  load.granules = [this](Index group) { return granules_of(group); };
  load.start = [&, flag = load.flag](Index group, Index buffer) {
    for_each_present(group, [&](std::int64_t m, Index number) {
      builder_.dma_in(place(from, number), in_buffer(m, buffer), granules,
                      to_operand(builder_, buffer.plus(flag)));
    });
  };
  store.flag = BlockPipeline::allocate_flags(builder_);
  store.granules = load.granules;
  store.start = [&, flag = store.flag](Index group, Index buffer) {
    for_each_present(group, [&](std::int64_t m, Index number) {
      builder_.dma_out(in_buffer(m, buffer), place(to, number), granules,
                       to_operand(builder_, buffer.plus(flag)));
    });
  };
  BlockPipeline::Blocks groups;
  groups.count = ceil_divide(shapes_.count, shapes_.together);
  groups.is_in_place = true;
  BlockPipeline pipeline(builder_, groups, load, store);
  pipeline.run([&](Index group, Index buffer) {
    pipeline.take_next(group, buffer);
    eliminate(multiply(builder_, buffer, rows));
  });
  return lowered_kernel(builder_);
}

void EliminationKernel::eliminate(Index buffer) {
  for (std::int64_t tile = 0; tile < shapes_.tiles; ++tile) {
    const std::int64_t first = tile * isa::kSublanes;
    const std::int64_t steps = std::min<std::int64_t>(isa::kSublanes, shapes_.rows - first);
    builder_.loop(static_cast<std::uint64_t>(steps),
                  [&](SReg sublane) { emit_step(tile, sublane, buffer); });
  }
}

/// A step of all matrices: the elements of the next matrix come while those of one are worked on.
void EliminationKernel::emit_step(std::int64_t tile, SReg sublane, Index buffer) {
  const VReg places = builder_.lane_sequence();
  const VReg step = builder_.splat(builder_.add(sublane, tile * isa::kSublanes));
  const MReg is_column =
      builder_.vector_compare(Opcode::kVcmpEqS32, builder_.and_(places, 127), step);
  const MReg is_below = builder_.vector_compare(Opcode::kVcmpGtS32, builder_.shift_right(places, 7),
                                                builder_.splat(sublane));
  builder_.set_lane_pattern(step);
  std::vector<Column> columns(matrices_.size());
  const auto bring = [&](std::int64_t m) {
    Column& column = columns[static_cast<std::size_t>(m)];
    const Index row = add(builder_, buffer, {sublane, 0});
    column.row = builder_.load(tile_at(m, tile, row).stride(0));
    column.diagonal = builder_.permute_lanes(column.row);
    for (std::int64_t t = tile; t < shapes_.tiles; ++t) {
      column.elements.push_back(builder_.permute_lanes(builder_.load(tile_at(m, t, buffer))));
    }
  };
  const auto take_off = [&](std::int64_t m) {
    const Column& column = columns[static_cast<std::size_t>(m)];
    const VReg inverse = emit_reciprocal(builder_, column.diagonal);
    const VReg row = builder_.select(is_column, inverse, builder_.mul(column.row, inverse));
    for (std::int64_t t = tile; t < shapes_.tiles; ++t) {
      const VmemAddress place = tile_at(m, t, buffer);
      const VReg element = column.elements[static_cast<std::size_t>(t - tile)];
      const VReg left = builder_.sub(builder_.select(is_column, 0.0F, builder_.load(place)),
                                     builder_.mul(element, row));
      t == tile ? builder_.store(place, is_below, left) : builder_.store(place, left);
    }
  };
  bring(0);
  for (std::int64_t m = 0; m < shapes_.together; ++m) {
    if (m + 1 < shapes_.together) bring(m + 1);
    take_off(m);
  }
}

}  // namespace

double elimination_cycles(const std::vector<std::int64_t>& extents, const Target& target) {
  // Of a step, beside the permutations: the way of its first element to all rows (measured).
  constexpr double kStepCycles = 30;
  const EliminationShapes shapes(extents);
  const auto groups = static_cast<double>(ceil_divide(shapes.count, shapes.together));
  const double permuted =
      (static_cast<double>(shapes.tiles) / 2 + 1.5) * target.xlu_interval_cycles;
  const double step =
      kStepCycles + target.xlu_latency_cycles + static_cast<double>(shapes.together) * permuted;
  return kKernelCycles + groups * static_cast<double>(shapes.rows) * step;
}

LoweredKernel lower_elimination(const hlo::Module&, const hlo::Computation& computation,
                                const hlo::HloInstruction& instruction, const Target& target) {
  const hlo::Shape& given = computation.at(instruction.operands.at(0)).shape;
  const std::vector<std::int64_t>& extents = instruction.shape.dimensions;
  const std::size_t rank = extents.size();
  const bool fits = rank >= 2 && extents[rank - 1] == extents[rank - 2] &&
                    extents[rank - 1] <= kMostEliminatedRows &&
                    given.type == hlo::ElementType::kF32 &&
                    given.layout.minor_to_major == instruction.shape.layout.minor_to_major &&
                    given.layout.minor_to_major[0] + 1 == static_cast<std::int64_t>(rank) &&
                    given.layout.minor_to_major[1] + 2 == static_cast<std::int64_t>(rank);
  if (!fits) {
    throw WorkloadError("no kernel for an elimination " + hlo::to_string(given) + " -> " +
                        hlo::to_string(instruction.shape) + " \"" + instruction.name +
                        "\": expected square f32 matrices of at most 128 rows, row-major");
  }
  return EliminationKernel(instruction, target).emit();
}

}  // namespace tpu::compiler
