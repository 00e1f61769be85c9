#include "workloads/compiler/kernels/contraction/convolution_lanes_weights_tiling.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "sim/base/error.h"
#include "workloads/compiler/kernels/contraction/matmul_memory.h"

namespace tpu::compiler {

Patch patch_of(const ConvolutionProblem& problem, std::uint32_t group) {
  const auto& [height, width] = problem.spatial;
  std::set<std::array<std::uint32_t, 2>> pixels;
  for (std::uint32_t y = 0; y < height.output; ++y) {
    for (std::uint32_t x = 0; x < width.output; ++x) {
      for (std::uint32_t g = 0; g < group; ++g) {
        pixels.insert({y * static_cast<std::uint32_t>(height.stride),
                       static_cast<std::uint32_t>(x * width.stride + g * width.window_dilation)});
      }
    }
  }
  return {pixels.begin(), pixels.end()};
}

LanesWeightsSizes::LanesWeightsSizes(const ConvolutionProblem& problem,
                                     const LanesWeightsTiling& tiling, Patch met,
                                     const Target& target)
    : patch(std::move(met)), plan(matmul_units(tiling.split, target)) {
  const auto& [height, width] = problem.spatial;
  batch_tiles = tiles_of(problem.contracted, 128);
  all_row_tiles = tiles_of(problem.rows, 8);
  all_column_tiles = tiles_of(problem.columns, 8);
  lane_tiles = tiles_of(tiling.block_columns, 16);
  out_y = static_cast<std::uint32_t>(height.window);
  out_x = static_cast<std::uint32_t>(width.window);
  window_y = static_cast<std::uint32_t>(height.output);
  window_x = static_cast<std::uint32_t>(width.output);
  slab_y = static_cast<std::uint32_t>((tiling.block_y - 1) * height.window_dilation +
                                      (height.output - 1) * height.stride + 1);
  slab_x = static_cast<std::uint32_t>((tiling.groups * tiling.group - 1) * width.window_dilation +
                                      (width.output - 1) * width.stride + 1);
  const auto tiles = static_cast<std::uint32_t>(patch.size()) * tiling.block_rows;
  run_tiles = std::gcd(tiling.chunk, tiling.block_rows);
  runs = tiling.chunk / run_tiles;
  units = tiles_of(tiles, tiling.chunk);
  input_pixel = tiling.block_rows * tile_rows(problem.input_type);
  gradient_pixel = tiling.block_columns * tile_rows(problem.window_type);
  sum_pitch = units * tiling.chunk * 8;
  sum_rows = std::uint64_t{lane_tiles} * sum_pitch;
  product_rows = std::uint64_t{window_y} * window_x * tiling.block_rows * lane_tiles * 8;
  products_apart = problem.out_type() == hlo::ElementType::kBf16 || problem.has_epilogue;
  smem_words = units * runs + window_y * window_x * tiling.group;
  plan.grid = {all_column_tiles / tiling.block_columns, all_row_tiles / tiling.block_rows,
               batch_tiles, tiles_of(out_y, tiling.block_y)};
  set_blocks(problem, tiling);
  set_steps(problem, tiling);
}

void LanesWeightsSizes::set_blocks(const ConvolutionProblem& problem,
                                   const LanesWeightsTiling& tiling) {
  const auto& [height, width] = problem.spatial;
  const std::uint32_t pixels = tiling.groups * tiling.group;
  plan.lhs.dimensions = {kRows, kBatch, kY};
  plan.lhs.rows = std::uint64_t{slab_y} * slab_x * input_pixel;
  plan.lhs.bytes = block_bytes(height.input, slab_y, width.input, slab_x, input_pixel);
  // An MXU tile's columns may reach beyond the last pixel's features.
  const std::uint32_t beyond = lane_tiles > 1 ? 16 * tile_rows(problem.window_type) : 0;
  plan.rhs.dimensions = {kColumns, kBatch, kY};
  plan.rhs.rows = std::uint64_t{tiling.block_y} * pixels * gradient_pixel + beyond;
  plan.rhs.bytes = block_bytes(out_y, tiling.block_y, out_x, pixels, gradient_pixel);
  const std::uint64_t tiles = product_rows / 8;
  plan.add_in_step({kColumns, kRows}, problem.epilogue_types, problem.result_types, tiles,
                   double(tiles) * plan.grid[kColumns] * plan.grid[kRows]);
  plan.results.cycles = double(tiles) * (2 + 8.0 * (tiling.group - 1));  // Groups are added.
  plan.rows_apart = sum_rows + problem.resident_rows + (products_apart ? product_rows : 0) +
                    problem.further_packed() * product_rows;
  plan.make_side(plan.lhs, problem.made[0], problem.input_type);
  plan.make_side(plan.rhs, problem.made[1], problem.window_type);
}

void LanesWeightsSizes::set_steps(const ConvolutionProblem& problem,
                                  const LanesWeightsTiling& tiling) {
  plan.steps.pushes = tiling.chunk;
  plan.steps.set_lots(problem.parts);
  plan.steps.count =
      double(lane_tiles) * tiling.block_y * tiling.groups * units / plan.steps.units.pieces();
  plan.set_expression(problem.has_epilogue, problem.epilogue_cost);
}

MatmulUnits matmul_units(LanesWeightsTiling::Split split, const Target& target) {
  if (split == LanesWeightsTiling::Split::kColumns) {
    return {target, target.mxu_count * target.column_parts()};
  }
  return {target, 1, target.row_parts()};
}

namespace {

class LanesWeightsSearch {
 public:
  LanesWeightsSearch(const ConvolutionProblem& problem, const Target& target)
      : problem_(problem), target_(target) {}

  /// Whether there is a tiling at all; the search ends with the first one.
  bool finds_any() {
    any_ = true;
    consider_all();
    return best_.cycles != 0;
  }

  OrRefusal<LanesWeightsTiling> run() {
    consider_all();
    if (best_.cycles == 0) {
      return Refusal{"convolution " + problem_.name + ": no cut of a weight gradient of " +
                     std::to_string(problem_.rows) + "x" + std::to_string(problem_.columns) +
                     " features, batch in the lanes, fits the VMEM of " +
                     std::to_string(target_.vmem_bytes) + " bytes"};
    }
    return best_;
  }

 private:
  void consider_all() {
    // Parts of the batch and of the features are a DMA for each tile of features and row.
    consider_blocks(problem_.contracted > 128);
    if (best_.cycles == 0 && problem_.contracted > 128) consider_blocks(false);
  }

  void consider_blocks(bool whole_features) {
    const std::uint32_t rows = tiles_of(problem_.rows, 8);
    const std::uint32_t columns = tiles_of(problem_.columns, 8);
    for (std::uint32_t block = columns; block > 0; --block) {
      const bool whole = block == columns;
      if (!whole && (whole_features || block % 16 != 0 || columns % block != 0)) continue;
      for (std::uint32_t block_rows = rows; block_rows > 0; --block_rows) {
        if (block_rows != rows && (whole_features || rows % block_rows != 0)) continue;
        if (block_rows < 2 && block_rows != rows) continue;
        consider_groups(block, block_rows);
        if (any_ && best_.cycles != 0) return;
      }
    }
  }

  void consider_groups(std::uint32_t columns, std::uint32_t rows) {
    LanesWeightsTiling tiling;
    tiling.block_columns = columns;
    tiling.block_rows = rows;
    const auto& [height, width] = problem_.spatial;
    const std::uint32_t most = std::min<std::uint32_t>(std::max(1U, 16 / columns),
                                                       static_cast<std::uint32_t>(width.window));
    for (std::uint32_t group = 1; group <= most; ++group) {
      tiling.group = group;
      patch_ = patch_of(problem_, group);
      for (std::uint32_t y = 1; y <= height.window; ++y) {
        tiling.block_y = y;
        tiling.chunk = 16;
        tiling.groups = tiles_of(width.window, group);
        if (!fits(LanesWeightsSizes(problem_, tiling, patch_, target_))) break;
        consider_splits(tiling);
        if (any_ && best_.cycles != 0) return;
      }
    }
  }

  void consider_splits(LanesWeightsTiling tiling) {
    using Split = LanesWeightsTiling::Split;
    const std::uint32_t groups = tiling.groups;
    const std::uint32_t contracted = matmul_units(Split::kGroups, target_).pieces();
    const std::uint32_t columns = matmul_units(Split::kColumns, target_).pieces();
    tiling.split = Split::kGroups;
    tiling.groups = tiles_of(groups, contracted) * contracted;
    consider_chunks(tiling);
    tiling.groups = groups;
    if (columns > 1 && tiles_of(tiling.block_columns, 16) % columns == 0) {
      tiling.split = Split::kColumns;
      consider_chunks(tiling);
    }
    if (contracted > 1 && tiling.block_y % contracted == 0) {
      tiling.split = Split::kRows;
      consider_chunks(tiling);
    }
  }

  void consider_chunks(LanesWeightsTiling tiling) {
    const auto tiles = static_cast<std::uint32_t>(patch_.size()) * tiling.block_rows;
    for (std::uint32_t units = 1; units <= tiles; ++units) {
      tiling.chunk = tiles_of(tiles, units);
      if (tiling.chunk > kLongestStep) continue;
      if (tiling.chunk < 8 && units > 1) break;
      consider(tiling);
    }
  }

  bool fits(const LanesWeightsSizes& sizes) const {
    return sizes.plan.vmem_rows() * isa::kVmemRowBytes <= target_.vmem_bytes;
  }

  void consider(LanesWeightsTiling tiling) {
    const LanesWeightsSizes sizes(problem_, tiling, patch_, target_);
    if (!fits(sizes) || sizes.smem_words > most_words_) return;
    tiling.cycles = sizes.plan.cycles(target_);
    if (best_.cycles == 0 || tiling.cycles < best_.cycles) best_ = tiling;
  }

  const ConvolutionProblem& problem_;
  const Target& target_;
  /// Words of SMEM for the kernel's tables: what the grid needs beside them stays free.
  const std::uint32_t most_words_ = std::min(kMostWords, target_.kernel_smem_words() - 248);
  Patch patch_;       ///< Of the groups at hand.
  bool any_ = false;  ///< The first tiling that fits is as good as the best.
  LanesWeightsTiling best_;
};

}  // namespace

OrRefusal<LanesWeightsTiling> find_lanes_weights_tiling(const ConvolutionProblem& problem,
                                                        const Target& target) {
  return LanesWeightsSearch(problem, target).run();
}

bool has_lanes_weights_tiling(const ConvolutionProblem& problem, const Target& target) {
  return LanesWeightsSearch(problem, target).finds_any();
}

}  // namespace tpu::compiler
