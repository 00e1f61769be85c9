#pragma once

#include <array>
#include <cstdint>

#include "workloads/compiler/kernels/contraction/matmul_memory.h"
#include "workloads/compiler/target.h"

namespace tpu::compiler {

/// Neighbouring positions of a window whose features stand beside each other in the lanes of one
/// tile: a step of the matrix unit then contracts all of them.
struct JoinedPositions {
  std::uint32_t y = 1, x = 1;

  std::uint32_t count() const { return y * x; }
};

/// One direction of a window whose positions are joined. Pixels of the input are counted in the
/// block of it that is in VMEM; joined pixels are those that steps read.
struct JoinedDirection {
  /// `positions` of the window stand `distance` pixels of the input apart; the first of them meets
  /// `results` pixels, `step` apart.
  JoinedDirection(std::uint32_t positions, std::uint32_t distance, std::uint32_t step,
                  std::uint32_t results, std::uint32_t joined);

  std::uint32_t joined, distance;
  std::uint32_t groups;  ///< Of joined positions; the last one may reach beyond the window.
  std::uint32_t unit;    ///< Pixels of the input from a joined pixel to the next.
  std::uint32_t pixels;  ///< Joined ones.
  std::uint32_t result_step, group_step;  ///< In joined pixels.
  std::uint32_t input_pixels() const { return (pixels - 1) * unit + (joined - 1) * distance + 1; }
};

/// What is done to join positions along one direction: registers of eight VMEM rows are turned to
/// the lanes of their position and united, two and two where neighbours share such unions.
struct JoinPass {
  std::uint32_t joined = 1;
  std::uint32_t lanes = 0;                         ///< From a position to the next.
  std::uint32_t lines = 1, chunks = 1, parts = 1;  ///< Trips: parts are registers of a pixel.
  std::uint32_t chunk = 1;                         ///< Registers in straight code, of neighbours.
  bool pairs = false;       ///< A register holds a packed tile each of two neighbouring pixels.
  bool has_padding = true;  ///< Lanes behind the features are to be cleared.
  // VMEM rows of the source: of a line, of a pixel, of a joined position.
  std::uint32_t line = 0, pixel = 0, position = 0;

  std::uint32_t unit() const { return pairs ? 2 * pixel : pixel; }
  bool keeps_unions() const { return joined > 3; }
  double cycles(const Target& target) const;
};

/// The joined tiles of a block of the input, pixel after pixel, and how they are made.
struct WindowJoin {
  /// Of pixels of `tiles` tiles (one of the features), `features` of them valid, in lines of
  /// `directions[1]`.
  WindowJoin(const std::array<JoinedDirection, 2>& directions, hlo::ElementType type,
             std::uint32_t tiles, std::uint32_t features);

  /// Lanes, and rows of the stationary side, from a position to the next.
  static std::uint32_t pitch_of(std::uint32_t features) { return tiles_of(features, 8) * 8; }
  /// Registers have whole tiles of one pixel, or one tile each of two.
  static bool has_form(hlo::ElementType type, std::uint32_t tiles) {
    return !is_packed(type) || tiles == 1 || tiles % 2 == 0;
  }

  JoinedDirection y, x;
  std::uint32_t pitch;
  std::uint32_t pixel_rows, line_rows;  ///< VMEM rows of joined pixels.
  std::uint32_t between_rows = 0;       ///< VMEM rows of what the first of two passes leaves.
  std::uint32_t pass_count = 0;
  std::array<JoinPass, 2> passes;

  std::uint32_t rows() const { return y.pixels * line_rows; }
  /// VMEM rows of all that is made.
  std::uint32_t all_rows() const { return rows() + between_rows; }
  double cycles(const Target& target) const;
};

/// Joins a block in VMEM.
class BlockJoiner {
 public:
  /// Allocates VMEM. `memory` has masks of the features.
  BlockJoiner(KernelBuilder& builder, MatmulMemory& memory, const WindowJoin& join);

  /// Emits the work.
  void make(const VmemAddress& block);
  VmemRegion region() const { return joined_; }

 private:
  void emit(const JoinPass& pass, const VmemAddress& from, VmemRegion to);

  KernelBuilder& builder_;
  MatmulMemory& memory_;
  const WindowJoin& join_;
  VmemRegion between_, joined_;
};

}  // namespace tpu::compiler
