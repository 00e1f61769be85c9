#pragma once

#include <cstdint>

#include "workloads/compiler/kernels/contraction/matmul_memory.h"
#include "workloads/compiler/target.h"

namespace tpu::compiler {

/// Packed rows of neighbouring pixels that become lanes for a gradient of a kernel. A run of pixels
/// fills 16 registers: it is turned once, in pairs of rows, so that a lane holds two examples. What
/// a position of the window meets begins some pixels on: the run and the next one, turned by lanes,
/// which are as many registers as a pixel has tiles of eight features. Even and odd rows, unpacked,
/// are two groups of 128 to contract.
struct TurnedRuns {
  static constexpr std::uint32_t kRunTiles = 32;  ///< Packed ones, of 8 rows.

  std::uint32_t lines = 1;          ///< Of pixels.
  std::uint32_t runs = 1;           ///< Of a line, that the first position meets.
  std::uint32_t positions = 1;      ///< Of the window.
  std::uint32_t distance = 1;       ///< Pixels from a position to the next.
  std::uint32_t batch_tiles = 1;    ///< Of a pixel: 1, or even ones.
  std::uint32_t row_tiles = 1;      ///< Of 128 features of a pixel.
  std::uint32_t feature_tiles = 1;  ///< Of 8 features, of each of them.
  std::uint32_t line_rows = 0;      ///< VMEM rows of a line of the source.

  std::uint32_t run_pixels() const { return kRunTiles / batch_tiles; }
  std::uint32_t pixel_lanes() const { return 4 * batch_tiles; }
  std::uint32_t pixel_rows() const { return 4 * batch_tiles * row_tiles; }
  /// Runs behind the last one that later positions reach into.
  std::uint32_t further_runs() const;
  std::uint32_t all_runs() const { return runs + further_runs(); }
  std::uint32_t features() const { return row_tiles * feature_tiles; }  ///< In tiles of 8.
  std::uint32_t run_rows() const { return features() * 8; }             ///< VMEM rows, turned.
  /// VMEM rows of all turned runs.
  std::uint64_t rows() const { return std::uint64_t{lines} * all_runs() * run_rows(); }
  double cycles(const Target& target) const;
};

/// The kernel of it.
class RunTurner {
 public:
  /// Allocates VMEM for the turned runs.
  RunTurner(KernelBuilder& builder, const TurnedRuns& runs);

  /// Emits the work on lines that begin at `from`, where lanes of no feature may hold anything. The
  /// groups of a line follow each other, the two of a run side by side, each with a block of
  /// run_rows() for each position.
  void make(const VmemAddress& from, VmemRegion to);

 private:
  void turn(const VmemAddress& from);
  void unpack(VmemRegion to);
  void shift(VmemRegion to);
  void store(VReg pairs, VmemRegion to, SReg row, std::uint32_t run, std::uint32_t offset);

  KernelBuilder& builder_;
  TurnedRuns runs_;
  VmemRegion turned_;
};

/// Packed tiles at two places as one register, in descending order where `descends`.
VReg load_tile_pair(KernelBuilder& builder, const VmemAddress& first, std::int64_t apart,
                    bool descends);

}  // namespace tpu::compiler
