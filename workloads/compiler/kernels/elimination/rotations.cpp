#include "workloads/compiler/ir/rotations.h"

#include <algorithm>
#include <array>
#include <functional>
#include <numeric>
#include <vector>

#include "sim/base/ceil_divide.h"
#include "sim/base/error.h"
#include "workloads/compiler/kernels/elementwise/elementwise_memory.h"
#include "workloads/compiler/kernels/elementwise/transcendental.h"
#include "workloads/compiler/kernels/elimination/matrix_groups.h"
#include "workloads/compiler/kernels/lowering.h"

namespace tpu::compiler {

namespace {

using hlo::HloOpcode;
using isa::Opcode;

struct RotationShapes {
  std::int64_t rows = 2, half = 1, count = 1;
  std::int64_t tiles = 1;       ///< Of all rows.
  std::int64_t half_tiles = 1;  ///< Of half of them.
  std::int64_t together = 1;    ///< Matrices, as many as keep the XLU at work.

  explicit RotationShapes(const std::vector<std::int64_t>& extents)
      : rows(extents.back()),
        half(rows / 2),
        count(std::accumulate(extents.begin(), extents.end() - 2, std::int64_t{1},
                              std::multiplies<>())),
        tiles(ceil_divide(rows, kMatrixTileRows)),
        half_tiles(ceil_divide(half, kMatrixTileRows)) {
    constexpr std::int64_t kMostTiles = 8;  // Unrolled.
    together = std::min(count, std::max<std::int64_t>(1, kMostTiles / tiles));
  }
  MatrixGroups::Shapes groups() const {
    return {count, together, tiles, ceil_divide(rows + 1, kMatrixTileRows)};
  }
};

/// Row i and row i + n/2 are a pair, so quarters of the matrix stand by themselves: what a rotation
/// adds up stands in one lane and sublane. Its angles are computed with a pair in each lane.
/// Columns turn and move to their next partners while the angles are on their way to the sublanes;
/// then rows turn, and move by where they are stored. The moves go round all rows but the first:
/// the lower half goes back by one, the upper one on, and at both ends one changes halves.
class RotationKernel {
 public:
  RotationKernel(const hlo::HloInstruction& instruction, const Target& target)
      : builder_(instruction.name, target),
        shapes_(instruction.shape.dimensions),
        groups_(builder_, shapes_.groups()) {}

  LoweredKernel emit();

 private:
  /// The left and the right half of the same rows.
  template <typename T>
  using Sides = std::array<T, 2>;

  /// One matrix on its way: its quarters with rows to spare in front and behind, the vectors.
  struct Matrix {
    Sides<VmemRegion> upper, lower, vectors;
  };
  struct Angles {
    VReg cosine, sine;
  };
  /// Of the pairs: both elements on the diagonal, the one between them.
  struct Pairs {
    VReg first, second, between;
  };

  VmemAddress place(VmemRegion quarter, std::int64_t row) const {
    return {quarter, kMatrixTileRows + row};
  }
  /// The diagonal of a quarter, in all sublanes.
  VReg diagonal(VmemRegion quarter);
  Pairs pairs_of(const Matrix& matrix);
  Angles angles_of(const Pairs& pairs);
  /// The number of a lane in all sublanes of that number.
  VReg in_sublanes(VReg of_lanes, std::int64_t tile);
  MReg is_diagonal(std::int64_t first_row, std::int64_t first_lane = 0);
  Sides<VReg> turned(const Angles& angles, const Sides<VReg>& pair);
  Sides<VReg> moved_columns(const Sides<VReg>& columns);
  void store_moved_rows(VmemRegion upper, VmemRegion lower, std::int64_t tile, VReg of_upper,
                        VReg of_lower);

  void split(const Matrix& matrix, std::int64_t number, Index buffer);
  void emit_step(const Matrix& matrix);
  void join(const Matrix& matrix, std::int64_t number, Index buffer);

  KernelBuilder builder_;
  RotationShapes shapes_;
  MatrixGroups groups_;
  VReg lane_, behind_diagonal_;  ///< Lane, and lane less sublane, in the present block.
};

LoweredKernel RotationKernel::emit() {
  std::vector<Matrix> matrices(static_cast<std::size_t>(shapes_.together));
  for (Matrix& matrix : matrices) {
    const auto allocate = [&](std::int64_t tiles) {
      return builder_.allocate_vmem(static_cast<std::uint64_t>(tiles * kMatrixTileRows));
    };
    for (std::size_t side = 0; side < 2; ++side) {
      matrix.upper[side] = allocate(shapes_.half_tiles + 2);
      matrix.lower[side] = allocate(shapes_.half_tiles + 2);
      matrix.vectors[side] = allocate(shapes_.tiles);
    }
  }
  const auto for_each = [&](const std::function<void(const Matrix&, std::int64_t)>& body) {
    lane_ = builder_.and_(builder_.lane_sequence(), 127);
    behind_diagonal_ =
        builder_.vector(Opcode::kVsubS32, lane_, builder_.shift_right(builder_.lane_sequence(), 7));
    for (std::size_t m = 0; m < matrices.size(); ++m) {
      body(matrices[m], static_cast<std::int64_t>(m));
    }
  };
  groups_.run([&](Index buffer) {
    for_each([&](const Matrix& matrix, std::int64_t m) { split(matrix, m, buffer); });
    builder_.loop(static_cast<std::uint64_t>(rotation_steps(shapes_.rows)), [&](SReg) {
      for_each([&](const Matrix& matrix, std::int64_t) { emit_step(matrix); });
    });
    for_each([&](const Matrix& matrix, std::int64_t m) { join(matrix, m, buffer); });
  });
  return lowered_kernel(builder_);
}

MReg RotationKernel::is_diagonal(std::int64_t first_row, std::int64_t first_lane) {
  return builder_.vector_compare(Opcode::kVcmpEqS32, behind_diagonal_,
                                 static_cast<std::uint32_t>(first_row - first_lane));
}

VReg RotationKernel::diagonal(VmemRegion quarter) {
  VReg chosen;
  for (std::int64_t t = 0; t < shapes_.half_tiles; ++t) {
    const VReg tile = builder_.load(place(quarter, t * kMatrixTileRows));
    chosen = builder_.select(is_diagonal(t * kMatrixTileRows), tile,
                             t == 0 ? VectorOperand(0.0F) : VectorOperand(chosen));
  }
  return combine_sublanes(builder_, HloOpcode::kAdd, false, chosen);
}

RotationKernel::Pairs RotationKernel::pairs_of(const Matrix& matrix) {
  return {diagonal(matrix.upper[0]), diagonal(matrix.lower[1]), diagonal(matrix.upper[1])};
}

/// The tangent of the smaller one of both angles that make the element between zero: 1 over
/// cot(2a) and the root of its square and 1.
RotationKernel::Angles RotationKernel::angles_of(const Pairs& pairs) {
  const VReg cotangent = emit_divide(builder_, builder_.sub(pairs.second, pairs.first),
                                     builder_.add(pairs.between, pairs.between));
  const VReg root = emit_sqrt(builder_, builder_.add(builder_.mul(cotangent, cotangent), 1.0F));
  const VReg size = builder_.and_(cotangent, 0x7fffffffU);
  const VReg tangent = builder_.or_(emit_reciprocal(builder_, builder_.add(size, root)),
                                    builder_.and_(cotangent, 0x80000000U));
  const MReg is_zero = builder_.vector_compare(Opcode::kVcmpEqF32, pairs.between, 0.0F);
  const VReg chosen = builder_.select(is_zero, 0.0F, tangent);
  Angles angles;
  const VReg square = builder_.add(builder_.mul(chosen, chosen), 1.0F);
  const VReg near = emit_rsqrt(builder_, square);
  // What is too short is so each time: one more step of Newton's method.
  const VReg rest = builder_.sub(1.0F, builder_.mul(builder_.mul(square, near), near));
  angles.cosine = builder_.add(near, builder_.mul(builder_.mul(near, 0.5F), rest));
  angles.sine = builder_.mul(chosen, angles.cosine);
  return angles;
}

VReg RotationKernel::in_sublanes(VReg of_lanes, std::int64_t tile) {
  return builder_.lane_sum(builder_.select(is_diagonal(tile * kMatrixTileRows), of_lanes, 0.0F));
}

RotationKernel::Sides<VReg> RotationKernel::turned(const Angles& angles, const Sides<VReg>& pair) {
  return {builder_.sub(builder_.mul(angles.cosine, pair[0]), builder_.mul(angles.sine, pair[1])),
          builder_.add(builder_.mul(angles.sine, pair[0]), builder_.mul(angles.cosine, pair[1]))};
}

RotationKernel::Sides<VReg> RotationKernel::moved_columns(const Sides<VReg>& columns) {
  if (shapes_.half < 2) return columns;
  const auto is_lane = [&](std::int64_t lane) {
    return builder_.vector_compare(Opcode::kVcmpEqS32, lane_, static_cast<std::uint32_t>(lane));
  };
  const MReg is_first = is_lane(0), is_last = is_lane(shapes_.half - 1);
  const VReg on = builder_.rotate_lanes(builder_.select(is_first, columns[1], columns[0]), 1);
  const VReg back = builder_.rotate_lanes(columns[1], isa::kLanes - 1);
  return {builder_.select(is_first, columns[0], on), builder_.select(is_last, columns[0], back)};
}

/// Eight rows of the upper and of the lower half, each a row further on or back; what changes
/// halves, or stays, comes over that.
void RotationKernel::store_moved_rows(VmemRegion upper, VmemRegion lower, std::int64_t tile,
                                      VReg of_upper, VReg of_lower) {
  const std::int64_t distance = shapes_.half < 2 ? 0 : 1, row = tile * kMatrixTileRows;
  builder_.store(place(upper, row + distance), of_upper);
  builder_.store(place(lower, row - distance), of_lower);
  if (distance == 0) return;
  if (tile == 0) {
    builder_.store(place(upper, 0).mask(1), of_upper);
    builder_.store(place(upper, 1).mask(1), of_lower);
  }
  if (tile + 1 == shapes_.half_tiles) {
    const std::int64_t last = shapes_.half - 1 - row;
    builder_.store(place(lower, row).mask(static_cast<std::uint8_t>(1U << last)), of_upper);
  }
}

/// What stands beside the matrix is 0 in its quarters.
void RotationKernel::split(const Matrix& matrix, std::int64_t number, Index buffer) {
  const auto half = static_cast<std::uint32_t>(shapes_.half);
  const MReg is_left = builder_.vector_compare(Opcode::kVcmpLtS32, lane_, half);
  const VReg sublane = builder_.shift_right(builder_.lane_sequence(), 7);
  for (std::int64_t t = 0; t < shapes_.half_tiles; ++t) {
    const std::int64_t row = t * kMatrixTileRows;
    const MReg is_row = builder_.vector_compare(Opcode::kVcmpLtS32, sublane,
                                                static_cast<std::uint32_t>(shapes_.half - row));
    const MReg is_kept = builder_.mask(Opcode::kVmand, is_left, is_row);
    for (const bool is_lower : {false, true}) {
      const VReg given =
          builder_.load(groups_.row(number, row + (is_lower ? shapes_.half : 0), buffer));
      const Sides<VReg> sides{given, builder_.rotate_lanes(given, isa::kLanes - half)};
      for (std::size_t side = 0; side < 2; ++side) {
        builder_.store(place(is_lower ? matrix.lower[side] : matrix.upper[side], row),
                       builder_.select(is_kept, sides[side], 0.0F));
      }
    }
  }
  const VReg one = builder_.splat(builder_.constant(0x3f800000U));
  for (std::int64_t t = 0; t < shapes_.tiles; ++t) {
    for (std::size_t side = 0; side < 2; ++side) {
      const MReg is_one = is_diagonal(t * kMatrixTileRows, side == 0 ? 0 : shapes_.half);
      builder_.store({matrix.vectors[side], t * kMatrixTileRows},
                     builder_.select(is_one, one, 0.0F));
    }
  }
}

void RotationKernel::emit_step(const Matrix& matrix) {
  const Angles angles = angles_of(pairs_of(matrix));
  std::vector<Angles> of_rows;
  for (std::int64_t t = 0; t < shapes_.half_tiles; ++t) {
    of_rows.push_back({in_sublanes(angles.cosine, t), in_sublanes(angles.sine, t)});
  }
  const auto columns = [&](const Sides<VmemRegion>& sides, std::int64_t tile) {
    return moved_columns(turned(angles, {builder_.load(place(sides[0], tile * kMatrixTileRows)),
                                         builder_.load(place(sides[1], tile * kMatrixTileRows))}));
  };
  // Rows go to where those of the next tile have been: these are in registers by then.
  Sides<VReg> upper = columns(matrix.upper, 0), lower = columns(matrix.lower, 0);
  for (std::int64_t t = 0; t < shapes_.half_tiles; ++t) {
    const Sides<VReg> present_upper = upper, present_lower = lower;
    if (t + 1 < shapes_.half_tiles) {
      upper = columns(matrix.upper, t + 1);
      lower = columns(matrix.lower, t + 1);
    }
    for (std::size_t side = 0; side < 2; ++side) {
      const Sides<VReg> rows =
          turned(of_rows[static_cast<std::size_t>(t)], {present_upper[side], present_lower[side]});
      store_moved_rows(matrix.upper[side], matrix.lower[side], t, rows[0], rows[1]);
    }
  }
  for (std::int64_t t = 0; t < shapes_.tiles; ++t) {
    const Sides<VmemAddress> places{VmemAddress(matrix.vectors[0], t * kMatrixTileRows),
                                    VmemAddress(matrix.vectors[1], t * kMatrixTileRows)};
    const Sides<VReg> moved =
        moved_columns(turned(angles, {builder_.load(places[0]), builder_.load(places[1])}));
    for (std::size_t side = 0; side < 2; ++side) builder_.store(places[side], moved[side]);
  }
}

void RotationKernel::join(const Matrix& matrix, std::int64_t number, Index buffer) {
  const auto half = static_cast<std::uint32_t>(shapes_.half);
  const MReg is_left = builder_.vector_compare(Opcode::kVcmpLtS32, lane_, half);
  const auto joined = [&](VReg left, VReg right) {
    return builder_.select(is_left, left, builder_.rotate_lanes(right, half));
  };
  const Pairs pairs = pairs_of(matrix);
  const VReg values = joined(pairs.first, pairs.second);
  for (std::int64_t t = 0; t < shapes_.tiles; ++t) {
    builder_.store(groups_.row(number, t * kMatrixTileRows, buffer),
                   joined(builder_.load({matrix.vectors[0], t * kMatrixTileRows}),
                          builder_.load({matrix.vectors[1], t * kMatrixTileRows})));
  }
  builder_.store(groups_.row(number, shapes_.rows, buffer).mask(1), values);
}

}  // namespace

LoweredKernel lower_rotations(const hlo::Module&, const hlo::Computation& computation,
                              const hlo::HloInstruction& instruction, const Target& target) {
  const hlo::Shape& given = computation.at(instruction.operands.at(0)).shape;
  const hlo::Shape& made = instruction.shape;
  const bool fits = are_matrices_in_rows(given) && are_matrices_in_rows(made) &&
                    given.dimensions.end()[-1] == given.dimensions.end()[-2] &&
                    given.dimensions.back() == made.dimensions.back() &&
                    given.dimensions.back() + 1 == made.dimensions.end()[-2] &&
                    given.dimensions.back() <= kMostRotatedRows && given.dimensions.back() % 2 == 0;
  if (!fits) {
    throw WorkloadError("no kernel for rotations " + hlo::to_string(given) + " -> " +
                        hlo::to_string(made) + " \"" + instruction.name +
                        "\": expected square f32 matrices of an even number of rows, at most "
                        "128, row-major");
  }
  return RotationKernel(instruction, target).emit();
}

}  // namespace tpu::compiler
