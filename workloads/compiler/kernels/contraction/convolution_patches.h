#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "workloads/compiler/kernels/contraction/convolution_problem.h"

namespace tpu::compiler {

/// What a group of neighbouring pixels of a convolution's result meets of the input, for kernels
/// whose batch lies in the lanes: a pixel of the input is a column of tiles of eight contracted
/// features. The tiles that the group meets, pixel after pixel, are cut into units of 16, the rows
/// of one MXU tile. The features may be cut into blocks: then these are the units of one block.
struct Patches {
  /// Neighbouring tiles of one pixel of the input.
  struct Run {
    std::array<std::int64_t, 2> shift{};  ///< Of the pixel (see Tap).
    std::uint32_t tile = 0;               ///< The first one, of the block.
    bool empty = false;                   ///< Only fills the unit.
    /// Of each pixel of the group: the position of the window that meets the run; -1: none.
    std::vector<std::int64_t> positions;
  };
  struct Unit {
    std::array<std::uint32_t, 2> phase{};
    bool starts = false;  ///< The first one of its phase.
    std::vector<Run> runs;
  };

  Patches(const ConvolutionProblem& problem, std::uint32_t group, std::uint32_t blocks);

  std::uint32_t group, blocks;
  std::uint32_t feature_tiles;  ///< Of a pixel of the input, in a block.
  std::uint32_t run_tiles;      ///< Of each run.
  std::uint32_t runs;           ///< Of each unit: 16 / run_tiles.
  std::vector<Unit> units;
  std::array<std::int64_t, 2> first{}, last{};  ///< Least and greatest shifts of the window.
};

}  // namespace tpu::compiler
