#include "workloads/compiler/ir/elimination.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "sim/base/ceil_divide.h"
#include "sim/base/error.h"
#include "workloads/compiler/cost.h"
#include "workloads/compiler/ir/array_layout.h"
#include "workloads/compiler/ir/kernel_forms.h"
#include "workloads/compiler/kernels/elementwise/transcendental.h"
#include "workloads/compiler/kernels/elimination/matrix_groups.h"
#include "workloads/compiler/kernels/lowering.h"

namespace tpu::compiler {

namespace {

using isa::Opcode;

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
};

/// Each step takes a row, over its element on the diagonal, off all rows below, times their
/// elements of that column. These come to all lanes by a permutation: one a tile, which is most of
/// what a step takes. Tiles above the row are done, and their code is left out.
class EliminationKernel {
 public:
  EliminationKernel(const hlo::HloInstruction& instruction, const Target& target)
      : builder_(instruction.name, target),
        shapes_(instruction.shape.dimensions),
        matrices_(builder_, {shapes_.count, shapes_.together, shapes_.tiles, shapes_.tiles}) {}

  LoweredKernel emit();

 private:
  /// What a step brings to all lanes of one matrix.
  struct Column {
    VReg row, diagonal;
    std::vector<VReg> elements;  ///< Of each tile from the row's on.
  };

  void eliminate(Index buffer);
  void emit_step(std::int64_t tile, SReg sublane, Index buffer);
  VmemAddress tile_at(std::int64_t matrix, std::int64_t tile, Index buffer) const;

  KernelBuilder builder_;
  EliminationShapes shapes_;
  MatrixGroups matrices_;
};

LoweredKernel EliminationKernel::emit() {
  matrices_.run([this](Index buffer) { eliminate(buffer); });
  return lowered_kernel(builder_);
}

VmemAddress EliminationKernel::tile_at(std::int64_t matrix, std::int64_t tile, Index buffer) const {
  return matrices_.row(matrix, tile * isa::kSublanes, buffer);
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
  std::vector<Column> columns(static_cast<std::size_t>(shapes_.together));
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
  const bool fits = are_matrices_in_rows(given) && are_matrices_in_rows(instruction.shape) &&
                    extents[rank - 1] == extents[rank - 2] &&
                    extents[rank - 1] <= kMostEliminatedRows;
  if (!fits) {
    throw WorkloadError("no kernel for an elimination " + hlo::to_string(given) + " -> " +
                        hlo::to_string(instruction.shape) + " \"" + instruction.name +
                        "\": expected square f32 matrices of at most 128 rows, row-major");
  }
  return EliminationKernel(instruction, target).emit();
}

}  // namespace tpu::compiler
