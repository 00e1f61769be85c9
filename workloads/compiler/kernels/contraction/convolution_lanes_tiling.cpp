#include "workloads/compiler/kernels/contraction/convolution_lanes_tiling.h"

#include <algorithm>

#include "sim/base/error.h"
#include "workloads/compiler/kernels/contraction/matmul_memory.h"

namespace tpu::compiler {

namespace {

/// Phases of the pixels of the result along a spatial dimension, see Tap.
std::uint32_t phases_of(const ConvolutionProblem& problem, int dimension) {
  return static_cast<std::uint32_t>(problem.spatial[dimension].base_dilation);
}

}  // namespace

LanesSizes::LanesSizes(const ConvolutionProblem& problem, const LanesTiling& tiling,
                       const Patches& patches, const Target& target)
    : plan(matmul_units(tiling, target)) {
  const auto& [height, width] = problem.spatial;
  lane_tiles = tiles_of(problem.rows, 128);
  column_tiles = tiles_of(problem.columns, 8);
  column_blocks = tiles_of(column_tiles, tiling.block_columns);
  phases_y = phases_of(problem, 0);
  phases_x = phases_of(problem, 1);
  pixels_y = tiles_of(height.output, phases_y);
  const std::int64_t pixels_x = std::int64_t{tiling.groups} * tiling.group;
  slab_y = static_cast<std::uint32_t>((tiling.block_y - 1) * height.stride + patches.last[0] -
                                      patches.first[0] + 1);
  slab_x = static_cast<std::uint32_t>((pixels_x - 1) * width.stride + patches.last[1] -
                                      patches.first[1] + 1);
  out_y = tiling.block_y * phases_y;
  out_x = static_cast<std::uint32_t>(pixels_x) * phases_x;
  const std::uint32_t columns = tiling.block_columns;
  input_pixel = patches.feature_tiles * tile_rows(problem.input_type);
  sum_pixel = columns * 8;
  const std::uint32_t window_tile = tile_rows(problem.window_type);
  window_rows_of_position =
      problem.window_transposed
          ? columns * tiles_of(problem.contracted, 128) * window_tile
          : tiles_of(problem.contracted, 8) * tiles_of(columns, 16) * window_tile;
  moving_columns = columns > 16 ? tiles_of(columns, 16) * 16 : columns;
  moving_rows =
      std::uint64_t{patches.blocks * patches.units.size()} * tiling.group * moving_columns * 8;
  sum_rows = std::uint64_t{out_y} * out_x * sum_pixel;
  // Of each unit, and the digits of what steps finish.
  smem_words = static_cast<std::uint32_t>(
      patches.units.size() * (patches.runs + 2 + tiling.group * patches.runs * 2 + 4) + 4);
  sums_apart = problem.out_type() == hlo::ElementType::kBf16 || problem.has_epilogue;
  plan.grid = {column_blocks, lane_tiles, tiles_of(pixels_y, tiling.block_y), tiling.blocks_x,
               patches.blocks};
  set_blocks(problem);
  set_steps(problem, tiling, patches);
}

void LanesSizes::set_blocks(const ConvolutionProblem& problem) {
  const auto& [height, width] = problem.spatial;
  plan.lhs.dimensions = {kLanes, kY, kX, kFeatures};
  plan.lhs.rows = std::uint64_t{slab_y} * slab_x * input_pixel;
  plan.lhs.bytes = block_bytes(height.input, slab_y, width.input, slab_x, input_pixel);
  plan.rhs.dimensions = {kColumns};
  plan.rhs.rows =
      static_cast<std::uint64_t>(height.window * width.window) * window_rows_of_position;
  plan.rhs.bytes = double(plan.rhs.rows) * isa::kVmemRowBytes;
  plan.rhs.cycles = double(moving_rows) / 8 * 16;  // Turned.
  plan.add_in_step({kColumns, kLanes, kY, kX}, problem.epilogue_types, problem.result_types,
                   sum_rows / 8, double(height.output * width.output) * lane_tiles * column_tiles);
  plan.rows_apart = moving_rows + problem.resident_rows + (sums_apart ? sum_rows : 0);
  if (sum_pixel / 8 % 2 != 0) plan.rows_apart += problem.further_packed() * sum_rows;
  plan.make_side(plan.lhs, problem.made[0], problem.input_type);
}

void LanesSizes::set_steps(const ConvolutionProblem& problem, const LanesTiling& tiling,
                           const Patches& patches) {
  plan.steps.pushes = tiling.chunk * tiling.group;
  plan.steps.set_lots({problem.parts[1], problem.parts[0]});
  plan.steps.count = double(patches.units.size()) * tiling.block_y * tiling.groups *
                     tiling.block_columns / tiling.chunk / plan.steps.units.count();
  plan.set_expression(problem.has_epilogue, problem.epilogue_cost);
  plan.finish.beside = 2.0 * tiling.finished_pairs;
  plan.finish.behind =
      2.0 * tiling.group * tiling.chunk * plan.steps.units.count() * phases_y * phases_x;
}

MatmulUnits matmul_units(const LanesTiling& tiling, const Target& target) {
  const std::uint32_t parts = tiling.splits_columns ? target.column_parts() : 1;
  return {target, parts == 1 ? 1 : target.mxu_count * parts};
}

namespace {

std::uint32_t units_of(const LanesTiling& tiling, const Target& target, LanesTiling::Split split) {
  return tiling.split == split ? matmul_units(tiling, target).count() : 1;
}

}  // namespace

std::uint32_t pairs_of_units(const ConvolutionProblem& problem, const LanesTiling& tiling,
                             const Target& target) {
  const std::uint32_t step = tiling.group * tiling.chunk / 2 * matmul_units(tiling, target).count();
  return step * phases_of(problem, 0) * phases_of(problem, 1);
}

PairPlace pair_place(const ConvolutionProblem& problem, const LanesTiling& tiling,
                     const Target& target, std::uint32_t pair) {
  using Split = LanesTiling::Split;
  std::uint32_t rest = pair;
  const auto digit = [&rest](std::uint32_t extent) {
    const std::uint32_t value = rest % extent;
    rest /= extent;
    return value;
  };
  const std::uint32_t phases_y = phases_of(problem, 0), phases_x = phases_of(problem, 1);
  PairPlace place;
  place.x = phases_x * digit(units_of(tiling, target, Split::kGroups) * tiling.group);
  place.row = phases_y * digit(units_of(tiling, target, Split::kRows));
  place.x += digit(phases_x);
  place.row += digit(phases_y);
  const std::uint32_t parts = units_of(tiling, target, Split::kFeatures);
  const std::uint32_t in_chunk = digit(tiling.chunk / 2);
  place.column = rest * (tiling.block_columns / parts) + in_chunk * 2;
  return place;
}

std::uint32_t pairs_to_finish(const ConvolutionProblem& problem, const LanesTiling& tiling,
                              const Patches& patches, const Target& target) {
  if (tiling.chunk % 2 != 0 || patches.blocks > 1 || patches.units.empty()) return 0;
  // So that the pairs of a step stand as those of any other one: whole digits of a pair's place.
  using Split = LanesTiling::Split;
  const auto units = static_cast<std::uint32_t>(patches.units.size());
  const std::uint32_t all = pairs_of_units(problem, tiling, target);
  std::uint32_t aligned = 1;
  for (const std::uint32_t extent :
       {units_of(tiling, target, Split::kGroups) * tiling.group,
        units_of(tiling, target, Split::kRows), phases_of(problem, 1), phases_of(problem, 0),
        tiling.chunk / 2, units_of(tiling, target, Split::kFeatures)}) {
    for (std::uint32_t part = 1; part <= extent; ++part) {
      if (extent % part == 0 && aligned * part * units >= all) {
        return aligned * part;
      }
    }
    aligned *= extent;
  }
  return aligned;
}

namespace {

constexpr std::uint32_t kLargestGroup = 8;

class LanesSearch {
 public:
  LanesSearch(const ConvolutionProblem& problem, const Target& target)
      : problem_(problem), target_(target) {}

  /// Whether there is a tiling at all; the search ends with the first one.
  bool finds_any() {
    any_ = true;
    consider_all();
    return best_.cycles != 0;
  }

  OrRefusal<LanesTiling> run() {
    consider_all();
    if (best_.cycles == 0) {
      return Refusal{"convolution " + problem_.name + ": no cut of a " +
                     std::to_string(height().input) + "x" + std::to_string(width().input) +
                     " image of " + std::to_string(problem_.contracted) +
                     " features, batch in the lanes, fits the VMEM of " +
                     std::to_string(target_.vmem_bytes) + " bytes"};
    }
    return best_;
  }

 private:
  void consider_all() {
    const std::uint32_t pixels_x = tiles_of(width().output, width().base_dilation);
    for (std::uint32_t group = 1; group <= std::min(pixels_x, kLargestGroup); ++group) {
      for (std::uint32_t blocks : feature_blocks()) {
        const Patches patches(problem_, group, blocks);
        for (std::uint32_t block : column_blocks()) {
          consider_rows(group, block, patches);
          if (any_ && best_.cycles != 0) return;
        }
      }
    }
  }

  const SpatialDimension& height() const { return problem_.spatial[0]; }
  const SpatialDimension& width() const { return problem_.spatial[1]; }

  /// All columns; or, where a DMA's one stride is not needed for the batch, parts of them: whole
  /// lanes of the kernel where it has them there.
  std::vector<std::uint32_t> column_blocks() const {
    const std::uint32_t all = tiles_of(problem_.columns, 8);
    std::vector<std::uint32_t> blocks{all};
    if (problem_.rows > 128) return blocks;
    const std::uint32_t step = problem_.window_transposed ? 8 : 16;
    for (std::uint32_t block = step; block < all; block += step) {
      if (all % block == 0) blocks.push_back(block);
    }
    return blocks;
  }

  /// Numbers of blocks of whole lanes of contracted features.
  std::vector<std::uint32_t> feature_blocks() const {
    std::vector<std::uint32_t> numbers{1};
    if (problem_.rows > 128) return numbers;
    for (std::uint32_t number : {2U, 4U, 8U}) {
      const std::uint32_t unit = problem_.window_transposed ? 128 : 64;
      if (problem_.contracted % (number * unit) == 0) numbers.push_back(number);
    }
    return numbers;
  }

  bool fits(const LanesSizes& sizes) const {
    return sizes.plan.vmem_rows() * isa::kVmemRowBytes <= target_.vmem_bytes;
  }

  void consider_rows(std::uint32_t group, std::uint32_t block, const Patches& patches) {
    LanesTiling tiling;
    tiling.group = group;
    tiling.block_columns = block;
    tiling.feature_blocks = patches.blocks;
    const std::uint32_t pixels_x = tiles_of(width().output, width().base_dilation);
    const std::uint32_t pixels_y = tiles_of(height().output, height().base_dilation);
    for (std::uint32_t y = 1; y <= pixels_y; ++y) {
      tiling.block_y = y;
      bool fits_none = true;
      for (std::uint32_t blocks : {1U, 2U, 4U, 8U}) {
        const std::uint32_t groups = tiles_of(pixels_x, group);
        if (blocks > groups) break;
        tiling.groups = tiles_of(groups, blocks);
        tiling.blocks_x = tiles_of(groups, tiling.groups);
        if (!fits(LanesSizes(problem_, tiling, patches, target_))) continue;
        fits_none = false;
        consider_splits(tiling, patches);
        if (any_ && best_.cycles != 0) return;
      }
      // More rows take more memory, but for all of them: then nothing may move.
      if (fits_none) y = std::max(y, pixels_y - 1);
    }
  }

  /// Only the first and the last block of a row may reach beyond the image.
  bool has_borders_in_the_middle(const LanesTiling& tiling, const LanesSizes& sizes,
                                 const Patches& patches) const {
    if (tiling.blocks_x == 1) return false;
    const std::int64_t step = std::int64_t{tiling.groups} * tiling.group * width().stride;
    const std::int64_t second_last = (tiling.blocks_x - 2) * step + patches.first[1];
    return step + patches.first[1] < 0 || second_last + sizes.slab_x > width().input ||
           second_last + step >= width().input;
  }

  void consider_splits(LanesTiling tiling, const Patches& patches) {
    using Split = LanesTiling::Split;
    for (const Split split : {Split::kGroups, Split::kFeatures, Split::kRows}) {
      tiling.split = split;
      tiling.splits_columns = false;
      consider_split(tiling, patches);
      if (split == Split::kFeatures || target_.column_parts() == 1) continue;
      tiling.splits_columns = true;
      consider_split(tiling, patches);
    }
  }

  void consider_split(LanesTiling tiling, const Patches& patches) {
    const std::uint32_t at_once = matmul_units(tiling, target_).count();
    switch (tiling.split) {
      case LanesTiling::Split::kGroups: {
        tiling.groups = tiles_of(tiling.groups, at_once) * at_once;
        const std::uint32_t pixels_x = tiles_of(width().output, width().base_dilation);
        if ((tiling.blocks_x - 1) * tiling.groups * tiling.group >= pixels_x) return;
        return consider_chunks(tiling, patches, tiling.block_columns);
      }
      case LanesTiling::Split::kFeatures:
        if (tiling.block_columns % at_once != 0) return;
        return consider_chunks(tiling, patches, tiling.block_columns / at_once);
      case LanesTiling::Split::kRows:
        if (tiling.block_y % at_once != 0) return;
        return consider_chunks(tiling, patches, tiling.block_columns);
    }
  }

  /// Of the sizes only those of the steps depend on the chunk.
  void consider_chunks(LanesTiling tiling, const Patches& patches, std::uint32_t columns) {
    LanesSizes sizes(problem_, tiling, patches, target_);
    if (!fits(sizes) || sizes.smem_words > most_words_) return;
    if (has_borders_in_the_middle(tiling, sizes, patches)) return;
    for (std::uint32_t chunk = 1; chunk <= columns; ++chunk) {
      if (columns % chunk != 0 || chunk * tiling.group > kLongestStep) continue;
      tiling.chunk = chunk;
      // Rounding alone takes less time behind the steps than it takes from them.
      if (problem_.has_epilogue) {
        tiling.finished_pairs = pairs_to_finish(problem_, tiling, patches, target_);
      }
      sizes.set_steps(problem_, tiling, patches);
      tiling.cycles = sizes.plan.cycles(target_);
      if (best_.cycles == 0 || tiling.cycles < best_.cycles) best_ = tiling;
    }
  }

  const ConvolutionProblem& problem_;
  const Target& target_;
  /// Words of SMEM for the kernel's tables: what the grid needs beside them stays free.
  const std::uint32_t most_words_ = std::min(kMostWords, target_.kernel_smem_words() - 248);
  bool any_ = false;  ///< The first tiling that fits is as good as the best.
  LanesTiling best_;
};

}  // namespace

OrRefusal<LanesTiling> find_lanes_tiling(const ConvolutionProblem& problem, const Target& target) {
  return LanesSearch(problem, target).run();
}

bool has_lanes_tiling(const ConvolutionProblem& problem, const Target& target) {
  return LanesSearch(problem, target).finds_any();
}

}  // namespace tpu::compiler
