#include "workloads/compiler/kernels/contraction/convolution_tiling.h"

#include <algorithm>
#include <map>

#include "sim/base/error.h"
#include "workloads/compiler/kernels/contraction/joined_weights.h"
#include "workloads/compiler/kernels/contraction/matmul_memory.h"
#include "workloads/compiler/kernels/contraction/matmul_stream.h"

namespace tpu::compiler {

using hlo::ElementType;

ConvolutionSizes::ConvolutionSizes(const ConvolutionProblem& problem,
                                   const ConvolutionTiling& tiling, const Target& target,
                                   const std::vector<Tap>& taps)
    : plan({target, tiling.columns_at_once, tiling.contracted_parts}) {
  const auto& [height, width] = problem.spatial;
  const bool in_rows = problem.pixels_in_rows;
  row_tiles = in_rows ? 1 : tiles_of(problem.rows, 8);
  images = in_rows ? problem.images : row_tiles / tiling.block_rows;
  input_x = in_rows ? tiles_of(width.input, 8) : static_cast<std::uint32_t>(width.input);
  result_x = in_rows ? tiles_of(width.output, 8) : static_cast<std::uint32_t>(width.output);
  column_tiles = tiles_of(problem.columns, 128);
  contracted_tiles = tiles_of(problem.contracted, 128);
  phases_y = static_cast<std::uint32_t>(height.base_dilation);
  phases_x = static_cast<std::uint32_t>(width.base_dilation);
  pixels_y = tiles_of(height.output, phases_y);
  set_slab(problem, tiling, taps);
  out_y = tiling.block_y * phases_y;
  out_x = tiling.pixels_x * phases_x;
  input_tile = tile_rows(problem.input_type);
  window_tile = tile_rows(problem.window_type);
  input_pixel = tiling.block_rows * contracted_tiles * input_tile;
  input_part = in_rows ? lines.line_rows : input_tile;
  const bool few = contracted_tiles == 1 && !problem.window_transposed;
  window_row_tiles = few ? tiles_of(problem.contracted, 8) : 16 * contracted_tiles;
  window_tap = window_row_tiles * tiling.block_columns * window_tile;
  sum_pixel = tiling.block_rows * tiling.block_columns * 8;
  sum_rows = std::uint64_t{out_y} * out_x * sum_pixel;
  sums_apart = problem.out_type() == ElementType::kBf16 || problem.has_epilogue;
  plan.grid = {column_tiles / tiling.block_columns, images, tiles_of(pixels_y, tiling.block_y)};
  set_blocks(problem, tiling);
  set_steps(problem, tiling, taps.size());
  if (join) set_join(problem, tiling, target);
}

/// The pixels of the input that a block reads.
void ConvolutionSizes::set_slab(const ConvolutionProblem& problem, const ConvolutionTiling& tiling,
                                const std::vector<Tap>& taps) {
  const auto& [height, width] = problem.spatial;
  if (tiling.joined.count() > 1) {
    const auto direction = [](const SpatialDimension& s, std::uint32_t results,
                              std::uint32_t joined) {
      return JoinedDirection(static_cast<std::uint32_t>(s.window),
                             static_cast<std::uint32_t>(s.window_dilation),
                             static_cast<std::uint32_t>(s.stride), results, joined);
    };
    join.emplace(std::array{direction(height, tiling.block_y, tiling.joined.y),
                            direction(width, tiling.pixels_x, tiling.joined.x)},
                 problem.input_type, tiling.block_rows, problem.contracted);
    shift_y = -height.padding;
    shift_x = -width.padding;
    slab_y = join->y.input_pixels();
    slab_x = join->x.input_pixels();
    return;
  }
  std::int64_t last_y = 0, last_x = 0;
  for (std::size_t i = 0; i < taps.size(); ++i) {
    shift_y = i == 0 ? taps[i].shift[0] : std::min(shift_y, taps[i].shift[0]);
    shift_x = i == 0 ? taps[i].shift[1] : std::min(shift_x, taps[i].shift[1]);
    last_y = i == 0 ? taps[i].shift[0] : std::max(last_y, taps[i].shift[0]);
    last_x = i == 0 ? taps[i].shift[1] : std::max(last_x, taps[i].shift[1]);
  }
  slab_y = static_cast<std::uint32_t>((tiling.block_y - 1) * height.stride + last_y - shift_y + 1);
  if (problem.pixels_in_rows) {
    const std::int64_t results = 8 * std::int64_t{tiling.pixels_x};
    lines.lines = slab_y;
    lines.tiles = contracted_tiles;
    lines.type = problem.input_type;
    lines.set_line(width.input, shift_x, (results - 1) * width.stride + last_x);
    slab_x = input_x;
    shift_x = 0;
    return;
  }
  slab_x = static_cast<std::uint32_t>((tiling.pixels_x - 1) * width.stride + last_x - shift_x + 1);
}

void ConvolutionSizes::set_blocks(const ConvolutionProblem& problem,
                                  const ConvolutionTiling& tiling) {
  const SpatialDimension& height = problem.spatial[0];
  plan.lhs.dimensions = {kRows, kY};
  plan.lhs.rows = std::uint64_t{slab_y} * slab_x * input_pixel;
  plan.lhs.bytes = block_bytes(height.input, slab_y, input_x, slab_x, input_pixel);
  plan.rhs.dimensions = {kColumns};
  plan.rhs.rows =
      static_cast<std::uint64_t>(height.window * problem.spatial[1].window) * window_tap;
  plan.rhs.bytes = double(plan.rhs.rows) * isa::kVmemRowBytes;
  const std::uint64_t tiles =
      std::uint64_t{out_y} * out_x * tiling.block_rows * tiling.block_columns;
  plan.add_in_step({kColumns, kRows, kY}, problem.epilogue_types, problem.result_types, tiles,
                   double(height.output) * result_x * images * tiling.block_rows * column_tiles);
  plan.rows_apart = problem.resident_rows + (sums_apart ? sum_rows : 0);
  plan.rows_apart += problem.further_packed() * sum_rows;
  plan.make_side(plan.lhs, problem.made[0], problem.input_type);
  if (!problem.pixels_in_rows) return;
  plan.rows_apart += lines.rows();
  plan.lhs.cycles += lines.cycles();
}

void ConvolutionSizes::set_steps(const ConvolutionProblem& problem, const ConvolutionTiling& tiling,
                                 std::size_t taps) {
  const std::uint32_t pixels = tiling.chunk_y * tiling.chunk_x;
  if (join) taps = std::size_t{join->y.groups} * join->x.groups;
  plan.steps.pushes = pixels * tiling.block_rows / plan.steps.units.groups();
  plan.steps.set_lots(problem.parts);
  plan.steps.count = double(tiling.block_columns) / tiling.columns_at_once * double(taps) *
                     contracted_tiles / tiling.contracted_parts * tiling.block_y * tiling.pixels_x /
                     pixels;
  plan.set_expression(problem.has_epilogue, problem.epilogue_cost);
}

/// New blocks of the input and of the window are made into joined ones.
void ConvolutionSizes::set_join(const ConvolutionProblem& problem, const ConvolutionTiling& tiling,
                                const Target& target) {
  plan.rows_apart += join->all_rows() + JoinedWeights::rows(problem, *join, tiling.block_columns);
  plan.lhs.cycles += join->cycles(target);
  plan.rhs.cycles += JoinedWeights::cycles(problem, *join, tiling.block_columns, target);
}

namespace {

/// Of rows of tiles, by a unit in a step: they are straight code.
constexpr std::uint32_t kMostPushes = 48;
/// Ways to join positions that are tried.
constexpr std::size_t kMostJoins = 3;

/// Positions that fit in the lanes, fewest steps first: for each count of steps those that take the
/// fewest turns.
std::vector<JoinedPositions> choices_of_joined(const ConvolutionProblem& problem) {
  const auto& [height, width] = problem.spatial;
  const std::uint32_t most = 128 / WindowJoin::pitch_of(problem.contracted);
  std::map<std::uint32_t, JoinedPositions> by_steps;
  if (height.base_dilation > 1 || width.base_dilation > 1) return {};
  for (std::uint32_t y = 1; y <= std::min<std::int64_t>(most, height.window); ++y) {
    for (std::uint32_t x = 1; x * y <= most && x <= width.window; ++x) {
      if (x * y == 1) continue;
      const std::uint32_t steps = tiles_of(height.window, y) * tiles_of(width.window, x);
      const auto [found, is_new] = by_steps.try_emplace(steps, JoinedPositions{y, x});
      if (!is_new && y * x < found->second.count()) found->second = {y, x};
    }
  }
  std::vector<JoinedPositions> choices;
  std::uint32_t fewest = ~0U;
  for (const auto& [steps, joined] : by_steps) {
    if (joined.count() >= fewest) continue;
    fewest = joined.count();
    choices.push_back(joined);
    if (choices.size() == kMostJoins) break;
  }
  return choices;
}

class ConvolutionSearch {
 public:
  ConvolutionSearch(const ConvolutionProblem& problem, const Target& target)
      : problem_(problem), target_(target) {}

  OrRefusal<ConvolutionTiling> run() {
    const std::uint32_t column_tiles = tiles_of(problem_.columns, 128);
    for (std::uint32_t block = 1; block <= column_tiles; ++block) {
      if (column_tiles % block == 0) consider_columns(block);
    }
    if (best_.cycles == 0) {
      return Refusal{"convolution " + problem_.name + ": no cut of a " +
                     std::to_string(problem_.spatial[0].input) + "x" +
                     std::to_string(problem_.spatial[1].input) + " image of " +
                     std::to_string(problem_.contracted) + " features fits the VMEM of " +
                     std::to_string(target_.vmem_bytes) + " bytes"};
    }
    return best_;
  }

 private:
  void consider_columns(std::uint32_t block_columns) {
    ConvolutionTiling tiling;
    tiling.block_columns = block_columns;
    const bool all_columns = block_columns == tiles_of(problem_.columns, 128);
    // Blocks of columns that are not all need all rows: a DMA has one stride.
    const bool in_rows = problem_.pixels_in_rows;
    const std::uint32_t row_tiles = in_rows ? 1 : tiles_of(problem_.rows, 8);
    const auto& [height, width] = problem_.spatial;
    const std::uint32_t pixels_x = tiles_of(width.output, in_rows ? 8 : width.base_dilation);
    const std::uint32_t pixels_y = tiles_of(height.output, height.base_dilation);
    for (std::uint32_t rows = 1; rows <= row_tiles; ++rows) {
      if (row_tiles % rows != 0 || (!all_columns && rows != row_tiles)) continue;
      tiling.block_rows = rows;
      for (std::uint32_t y = 1; y <= pixels_y; ++y) {
        tiling.block_y = y;
        for (std::uint32_t chunk = 1; chunk <= pixels_x; ++chunk) {
          tiling.chunk_x = chunk;
          tiling.pixels_x = tiles_of(pixels_x, chunk) * chunk;
          if (tiling.pixels_x > pixels_x + std::max(pixels_x / 4, 1U)) continue;
          consider_rows_of_pixels(tiling);
        }
      }
    }
  }

  /// A row of few pixels is over before the next weights are loaded: several rows go through.
  void consider_rows_of_pixels(ConvolutionTiling tiling) {
    const std::uint32_t step_rows = tiling.chunk_x * tiling.block_rows;
    const bool is_whole = tiling.chunk_x == tiling.pixels_x;
    const std::uint32_t most =
        is_whole
            ? std::max(kMostPushes * target_.mxu_count * target_.column_parts() / step_rows, 1U)
            : 1;
    for (std::uint32_t rows = 1; rows <= std::min(most, tiling.block_y); ++rows) {
      tiling.chunk_y = rows;
      if (tiling.block_y % rows == 0) consider_units(tiling);
    }
  }

  void consider_units(ConvolutionTiling tiling) {
    const std::uint32_t step_rows = tiling.chunk_y * tiling.chunk_x * tiling.block_rows;
    const std::uint32_t contracted_tiles = tiles_of(problem_.contracted, 128);
    for (const std::uint32_t columns : columns_) {
      const std::uint32_t groups = MatmulUnits(target_, columns).groups();
      if (tiling.block_columns % columns != 0 || step_rows % groups != 0 ||
          step_rows / groups > kMostPushes) {
        continue;
      }
      tiling.columns_at_once = columns;
      for (std::uint32_t parts = target_.row_parts(); parts > 0; --parts) {
        tiling.contracted_parts = parts;
        if (contracted_tiles % parts == 0) consider(tiling);
      }
    }
  }

  void consider(const ConvolutionTiling& tiling) {
    consider_cut(tiling);
    const bool may_join = WindowJoin::has_form(problem_.input_type, tiling.block_rows);
    if (problem_.pixels_in_rows || !may_join) return;
    for (const JoinedPositions& joined : joined_) {
      ConvolutionTiling with = tiling;
      with.joined = joined;
      consider_cut(with);
    }
  }

  void consider_cut(ConvolutionTiling tiling) {
    const ContractionPlan& plan = ConvolutionSizes(problem_, tiling, target_, taps_).plan;
    if (plan.vmem_rows() * isa::kVmemRowBytes > target_.vmem_bytes) return;
    tiling.cycles = plan.cycles(target_);
    if (best_.cycles == 0 || tiling.cycles < best_.cycles) best_ = tiling;
  }

  const ConvolutionProblem& problem_;
  const Target& target_;
  const std::vector<Tap> taps_ = taps_of(problem_);
  const std::vector<std::uint32_t> columns_ = column_choices(target_);
  const std::vector<JoinedPositions> joined_ =
      taps_.empty() ? std::vector<JoinedPositions>() : choices_of_joined(problem_);
  ConvolutionTiling best_;
};

}  // namespace

OrRefusal<ConvolutionTiling> find_convolution_tiling(const ConvolutionProblem& problem,
                                                     const Target& target) {
  return ConvolutionSearch(problem, target).run();
}

}  // namespace tpu::compiler
