#include "workloads/compiler/kernels/contraction/convolution_weights_tiling.h"

#include <algorithm>

#include "sim/base/error.h"
#include "workloads/compiler/kernels/contraction/matmul_memory.h"
#include "workloads/compiler/kernels/contraction/matmul_stream.h"

namespace tpu::compiler {

using hlo::ElementType;

namespace {

/// Pixels from what the first position in a row of the window meets to what the last one does.
std::int64_t reach_of_row(const SpatialDimension& width) {
  return (width.output - 1) * width.stride;
}

std::uint32_t zeros_left_out(const ConvolutionProblem& problem) {
  const SpatialDimension& width = problem.spatial[1];
  return static_cast<std::uint32_t>(std::min(width.padding, reach_of_row(width)));
}

}  // namespace

std::uint32_t moved_line(const ConvolutionProblem& problem) {
  const SpatialDimension& width = problem.spatial[1];
  const std::int64_t met =
      std::min(width.window + reach_of_row(width), width.input + width.padding);
  return static_cast<std::uint32_t>(std::max(met, width.window)) - zeros_left_out(problem);
}

std::uint32_t gradient_pixels(const ConvolutionProblem& problem) {
  const std::int64_t pixels = problem.spatial[1].window;
  return tiles_of(pixels, problem.pixels_in_rows ? isa::kSublanes : 1);
}

WeightsSizes::WeightsSizes(const ConvolutionProblem& problem, const WeightsTiling& tiling,
                           const Target& target)
    : plan({target, tiling.columns_at_once, tiling.group_parts}) {
  const auto& [height, width] = problem.spatial;
  batch_tiles = tiles_of(problem.contracted, 8);
  all_row_tiles = tiles_of(problem.rows, 128);
  row_tiles = tiling.block_rows;
  unit_tiles = all_row_tiles == 1 ? tiles_of(problem.rows, 8) : 16;
  column_tiles = tiles_of(problem.columns, 128);
  out_y = static_cast<std::uint32_t>(height.window);
  out_x = gradient_pixels(problem);
  window_y = static_cast<std::uint32_t>(height.output);
  window_x = static_cast<std::uint32_t>(width.output);
  group_tiles = tiles_of(tiling.group, tiling.tile_pixels) * tiling.block_batch;
  groups = tiling.parts * tiling.part_groups;
  units = tiles_of(window_y * window_x * row_tiles, tiling.step_units) * tiling.step_units;
  walked_x = tiling.moves_gradient ? window_x : 1;
  walked_units = units / walked_x;
  const bool in_rows = problem.pixels_in_rows, has_margin = tiling.moves_gradient && !in_rows;
  margin = has_margin ? static_cast<std::uint32_t>(reach_of_row(width)) : 0;
  left_out = has_margin ? zeros_left_out(problem) : 0;
  input_x = tiles_of(width.input, in_rows ? isa::kSublanes : 1);
  line_pixels = in_rows && tiling.moves_gradient ? out_x : groups * tiling.group + margin;
  slab_y = static_cast<std::uint32_t>((tiling.block_y - 1) * height.window_dilation +
                                      (height.output - 1) * height.stride + 1);
  slab_x = static_cast<std::uint32_t>((groups * tiling.group - 1) * width.window_dilation +
                                      (width.output - 1) * width.stride + 1) -
           margin;
  // A pixel by itself is transposed once for all positions that meet it; a group of several anew
  // for each position, but where the gradient moves.
  starts = tiling.moves_gradient ? tiling.part_groups
           : tiling.group == 1 && !in_rows
               ? static_cast<std::uint32_t>((tiling.part_groups - 1) * width.window_dilation +
                                            (width.output - 1) * width.stride + 1)
               : tiling.part_groups * window_x;
  if (in_rows) set_lines(problem, tiling);
  input_tile = tile_rows(problem.input_type);
  gradient_tile = tile_rows(problem.window_type);
  input_pixel = tiling.block_batch * row_tiles * input_tile;
  gradient_pixel = tiling.block_batch * tiling.block_columns * gradient_tile;
  transposed_rows = std::uint64_t{slab_y} * starts * row_tiles * unit_tiles * 8;
  sum_rows = std::uint64_t{unit_tiles} * units * tiling.block_columns * 8;
  sums_apart = problem.out_type() == ElementType::kBf16 || problem.has_epilogue;
  plan.grid = {column_tiles / tiling.block_columns, all_row_tiles / tiling.block_rows,
               in_rows ? problem.images : batch_tiles / tiling.block_batch,
               tiles_of(out_y, tiling.block_y)};
  if (tiling.turns_runs) set_runs(problem, tiling);
  set_blocks(problem, tiling);
  set_steps(problem, tiling, target);
}

void WeightsSizes::set_lines(const ConvolutionProblem& problem, const WeightsTiling& tiling) {
  const SpatialDimension& width = problem.spatial[1];
  const std::int64_t pixels = std::int64_t{groups} * tiling.group * isa::kSublanes;
  if (tiling.moves_gradient) {
    lines.lines = tiling.block_y;
    lines.tiles = tiling.block_columns;
    lines.type = problem.window_type;
    lines.set_line(width.window, width.padding - reach_of_row(width), pixels - 1 + width.padding);
    slab_x = groups * tiling.group;
    return;
  }
  lines.lines = slab_y;
  lines.tiles = row_tiles;
  lines.type = problem.input_type;
  lines.set_line(width.input, -width.padding,
                 (pixels - 1) * width.window_dilation + reach_of_row(width) - width.padding);
  slab_x = input_x;
}

void WeightsSizes::set_runs(const ConvolutionProblem& problem, const WeightsTiling& tiling) {
  runs.emplace();
  runs->lines = slab_y;
  runs->runs = tiling.part_groups / 2;
  runs->positions = window_x / walked_x;
  runs->distance = static_cast<std::uint32_t>(problem.spatial[1].stride);
  runs->batch_tiles = tiling.block_batch;
  runs->row_tiles = row_tiles;
  runs->feature_tiles = unit_tiles;
  runs->line_rows = slab_x * input_pixel;
}

void WeightsSizes::set_blocks(const ConvolutionProblem& problem, const WeightsTiling& tiling) {
  const SpatialDimension& height = problem.spatial[0];
  plan.lhs.dimensions = {kRows, kBatch, kY};
  plan.lhs.rows = std::uint64_t{slab_y} * slab_x * input_pixel;
  // The runs behind the last line are read, whatever they hold.
  if (runs) plan.lhs.rows += runs->further_runs() * runs->run_pixels() * input_pixel;
  plan.lhs.bytes = block_bytes(height.input, slab_y, input_x, slab_x, input_pixel);
  plan.rhs.dimensions = {kColumns, kBatch, kY};
  plan.rhs.rows = std::uint64_t{tiling.block_y} * line_pixels * gradient_pixel;
  plan.rhs.bytes = block_bytes(out_y, tiling.block_y, out_x, line_pixels, gradient_pixel);
  const std::uint64_t tiles = sum_rows / 8;
  plan.add_in_step({kColumns, kRows}, problem.epilogue_types, problem.result_types, tiles,
                   double(window_y) * window_x * tiles_of(problem.rows, 8) * column_tiles);
  plan.rows_apart = transposed_rows + (runs ? runs->rows() : 0) + problem.resident_rows +
                    (sums_apart ? sum_rows : 0) + problem.further_packed() * sum_rows;
  plan.make_side(plan.lhs, problem.made[0], problem.input_type);
  plan.make_side(plan.rhs, problem.made[1], problem.window_type);
  if (!problem.pixels_in_rows) return;
  plan.rows_apart += lines.rows();
  (tiling.moves_gradient ? plan.rhs : plan.lhs).cycles += lines.cycles();
}

void WeightsSizes::set_steps(const ConvolutionProblem& problem, const WeightsTiling& tiling,
                             const Target& target) {
  plan.steps.pushes = unit_tiles * tiling.step_units;
  plan.steps.set_lots(problem.parts);
  plan.steps.rounds = tiling.parts;
  plan.steps.count = double(tiling.parts) * tiling.block_columns * tiling.block_y *
                     tiling.part_groups * units / tiling.step_units / plan.steps.units.pieces();
  // The next one is pushed while this one is on its way.
  const double transpose = std::max(8.0 * group_tiles, double(target.xlu_latency_cycles)) + 8;
  plan.steps.before = double(tiling.parts) * slab_y * starts * row_tiles * transpose;
  if (runs) plan.steps.before = double(tiling.parts) * runs->cycles(target);
  plan.set_expression(problem.has_epilogue, problem.epilogue_cost);
}

std::uint32_t most_tile_pixels(const ConvolutionProblem& problem) {
  const bool packed = is_packed(problem.input_type) || is_packed(problem.window_type);
  std::uint32_t rows = packed ? 2 : 1;
  while (rows < problem.contracted && rows < 8) rows *= 2;
  return 8 / rows;
}

namespace {

/// Pushes of a step per MXU.
constexpr std::uint32_t kLongestStep = 48;
constexpr std::uint32_t kMostUnits = 16;

class WeightsSearch {
 public:
  WeightsSearch(const ConvolutionProblem& problem, const Target& target)
      : problem_(problem), target_(target) {}

  OrRefusal<WeightsTiling> run() {
    const std::uint32_t batch_tiles = tiles_of(problem_.contracted, 8);
    const std::uint32_t column_tiles = tiles_of(problem_.columns, 128);
    const std::uint32_t row_tiles = tiles_of(problem_.rows, 128);
    for (std::uint32_t columns = 1; columns <= column_tiles; ++columns) {
      for (std::uint32_t rows = 1; rows <= row_tiles; ++rows) {
        if (column_tiles % columns != 0 || row_tiles % rows != 0) continue;
        for (std::uint32_t batch = 1; batch <= std::min(batch_tiles, 16U); ++batch) {
          // A DMA has one stride: not parts of the batch and of the features.
          const bool all_features = columns == column_tiles && rows == row_tiles;
          if (batch_tiles % batch != 0 || (!all_features && batch != batch_tiles)) continue;
          try_pixels(columns, rows, batch, 1);
        }
        const std::uint32_t pixels = most_tile_pixels(problem_);
        if (pixels > 1) try_pixels(columns, rows, 1, pixels);
      }
    }
    if (best_.cycles == 0) {
      return Refusal{"convolution " + problem_.name + ": no cut of a weight gradient of " +
                     std::to_string(problem_.rows) + "x" + std::to_string(problem_.columns) +
                     " features fits the VMEM of " + std::to_string(target_.vmem_bytes) + " bytes"};
    }
    return best_;
  }

 private:
  void try_pixels(std::uint32_t columns, std::uint32_t rows, std::uint32_t batch,
                  std::uint32_t tile_pixels) {
    WeightsTiling tiling;
    tiling.block_columns = columns;
    tiling.block_rows = rows;
    tiling.block_batch = batch;
    tiling.tile_pixels = tile_pixels;
    const auto& [height, width] = problem_.spatial;
    const std::uint32_t all_units =
        static_cast<std::uint32_t>(height.output * width.output) * tiles_of(problem_.rows, 128);
    // Parts of a tile that no pixel fills are no gain.
    for (std::uint32_t group = tile_pixels; group <= 16 * tile_pixels / batch;
         group += tile_pixels) {
      if (tile_pixels > 1 && group >= width.window + tile_pixels) break;
      tiling.group = group;
      const std::uint32_t groups = tiles_of(gradient_pixels(problem_), group);
      for (std::uint32_t parts = 1; parts <= groups; ++parts) {
        tiling.parts = parts;
        const std::uint32_t unit_tiles = std::min<std::uint32_t>(16, tiles_of(problem_.rows, 8));
        for (std::uint32_t units = 1; units <= all_units; ++units) {
          if (units > 1 && (units * unit_tiles > kLongestStep || units > kMostUnits)) break;
          tiling.step_units = units;
          for (std::uint32_t y = 1; y <= std::min<std::int64_t>(height.window, 8); ++y) {
            tiling.block_y = y;
            tiling.moves_gradient = false;
            consider_units(tiling, tiles_of(groups, parts));
            if (!may_move_gradient(tiling)) continue;
            tiling.moves_gradient = true;
            consider_units(tiling, tiles_of(tiles_of(moved_pixels(), group), parts));
          }
        }
      }
    }
  }

  /// Where groups of several pixels meet several positions in a row; steps take whole rows of
  /// units.
  bool may_move_gradient(const WeightsTiling& tiling) const {
    const auto& [height, width] = problem_.spatial;
    return (tiling.group > 1 || problem_.pixels_in_rows) && width.output > 1 &&
           width.window_dilation == 1 && height.output * tiling.block_rows % tiling.step_units == 0;
  }

  std::uint32_t moved_pixels() const {
    return problem_.pixels_in_rows ? tiles_of(problem_.spatial[1].input, isa::kSublanes)
                                   : moved_line(problem_);
  }

  void consider_units(WeightsTiling tiling, std::uint32_t part_groups) {
    for (const std::uint32_t columns : columns_) {
      if (tiling.block_columns % columns != 0) continue;
      tiling.columns_at_once = columns;
      for (std::uint32_t parts = target_.row_parts(); parts > 0; --parts) {
        tiling.group_parts = parts;
        const std::uint32_t at_once = MatmulUnits(target_, columns, parts).groups() * parts;
        tiling.splits_rows = false;
        if (has_runs(tiling) && (at_once == 1 || at_once % 2 == 0)) {
          const std::uint32_t pairs = std::max(at_once, 2U);
          tiling.turns_runs = true;
          tiling.part_groups = tiles_of(part_groups, pairs) * pairs;
          consider(tiling);
        }
        tiling.turns_runs = false;
        tiling.part_groups = tiles_of(part_groups, at_once) * at_once;
        consider(tiling);
        if (at_once == 1 || part_groups % at_once == 0 || tiling.block_y % at_once != 0) continue;
        tiling.splits_rows = true;
        tiling.part_groups = part_groups;
        consider(tiling);
      }
    }
  }

  /// Runs are of whole registers of packed rows, of neighbouring pixels.
  bool has_runs(const WeightsTiling& tiling) const {
    const std::uint32_t batch = tiling.block_batch;
    return !problem_.pixels_in_rows && is_packed(problem_.input_type) &&
           is_packed(problem_.window_type) && problem_.contracted % 8 == 0 &&
           tiling.tile_pixels == 1 && (batch == 1 || batch % 2 == 0) && tiling.group > 1 &&
           2 * tiling.group * batch == TurnedRuns::kRunTiles &&
           problem_.spatial[1].window_dilation == 1;
  }

  void consider(WeightsTiling tiling) {
    const ContractionPlan& plan = WeightsSizes(problem_, tiling, target_).plan;
    if (plan.vmem_rows() * isa::kVmemRowBytes > target_.vmem_bytes) return;
    tiling.cycles = plan.cycles(target_);
    if (best_.cycles == 0 || tiling.cycles < best_.cycles) best_ = tiling;
  }

  const ConvolutionProblem& problem_;
  const Target& target_;
  const std::vector<std::uint32_t> columns_ = column_choices(target_);
  WeightsTiling best_;
};

}  // namespace

OrRefusal<WeightsTiling> find_weights_tiling(const ConvolutionProblem& problem,
                                             const Target& target) {
  return WeightsSearch(problem, target).run();
}

}  // namespace tpu::compiler
