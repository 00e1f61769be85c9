#include "workloads/compiler/kernels/contraction/convolution_lanes_kernel.h"

#include <algorithm>
#include <memory>

#include "workloads/compiler/kernels/contraction/contraction_blocks.h"
#include "workloads/compiler/kernels/contraction/convolution_lanes_emitter.h"

namespace tpu::compiler {

using hlo::ElementType;
using isa::Opcode;

bool LanesKernel::has_gaps() const {
  const auto starts = std::count_if(patches_.units.begin(), patches_.units.end(),
                                    [](const Patches::Unit& unit) { return unit.starts; });
  return starts != std::ptrdiff_t{sizes_.phases_y} * sizes_.phases_x;
}

/// Per unit: the VMEM rows of its runs in the slab, of its sums, and the sublane mask with which
/// it loads the sums so far.
void LanesKernel::store_units() {
  const auto count = static_cast<std::uint32_t>(patches_.units.size());
  units_ = builder_.allocate_smem(std::max(1U, unit_words() * count));
  std::uint32_t word = units_;
  for (const Patches::Unit& unit : patches_.units) {
    for (const Patches::Run& run : unit.runs) {
      const auto y = static_cast<std::uint32_t>(run.shift[0] - patches_.first[0]);
      const auto x = static_cast<std::uint32_t>(run.shift[1] - patches_.first[1]);
      builder_.store_smem(word++, (y * sizes_.slab_x + x) * sizes_.input_pixel +
                                      run.tile * tile_rows(problem_.input_type));
    }
    const std::uint32_t pixel = unit.phase[0] * sizes_.out_x + unit.phase[1];
    builder_.store_smem(word++, pixel * sizes_.sum_pixel);
    builder_.store_smem(word++, unit.starts && !has_gaps() ? 0 : 0xff);
  }
}

/// Per unit: tiles of the block before the pairs that it finishes, then their tile of features, row
/// and pixel in what the units complete.
void LanesKernel::store_finished() {
  const auto count = static_cast<std::uint32_t>(patches_.units.size());
  if (!overlaps() || count == 1) return;
  finished_ = builder_.allocate_smem(4 * count);
  const std::uint32_t pairs = tiling_.finished_pairs;
  const std::uint32_t last = pairs_of_units(problem_, tiling_, builder_.target()) / pairs - 1;
  for (std::uint32_t unit = 0; unit < count; ++unit) {
    const PairPlace place =
        pair_place(problem_, tiling_, builder_.target(), std::min(unit, last) * pairs);
    const std::uint32_t before = place.row * sizes_.out_x + place.x;
    std::uint32_t word = finished_ + 4 * unit;
    for (const std::uint32_t value :
         {before * tiling_.block_columns + place.column, place.column, place.row, place.x}) {
      builder_.store_smem(word++, value);
    }
  }
}

/// The valid rows of the last tile of features, in descending order.
void LanesKernel::make_mask() {
  if (!masks()) return;
  mask_ = builder_.allocate_vmem(8);
  const VReg sublane = builder_.shift_right(builder_.lane_sequence(), 7);
  const int padding = 8 - static_cast<int>(problem_.contracted % 8);
  const MReg valid = builder_.vector_compare(Opcode::kVcmpGeS32, sublane, padding);
  const std::uint32_t ones = is_packed(problem_.input_type) ? 0xffff0000U : 0xffffffffU;
  builder_.store(mask_, builder_.select(valid, ones, 0U));
}

void LanesKernel::make_grid() {
  grid_ = std::make_unique<TileGrid>(builder_, sizes_.plan.grid);
  const int input = grid_->add_input(input_block(problem_.input_type, addresses_));
  add_window();
  epilogue_inputs_ = add_result_blocks(*grid_, epilogue_, addresses_,
                                       [this](ElementType type, bool to_vmem, std::uint32_t word) {
                                         return result_block(type, to_vmem, word);
                                       });
  input_.add_arrays(*grid_, input, [this](ElementType type, std::uint32_t word) {
    return input_block(type, word);
  });
  if (sums_apart()) sums_ = builder_.allocate_vmem(sizes_.sum_rows);
  if (overlaps()) finished_sums_ = builder_.second_name(sums_);
  if (pairs_tiles() && !results_.is_identity()) return;
  unrounded_ = unrounded_regions(builder_, problem_.result_types, sums_, sizes_.sum_rows);
}

SReg LanesKernel::first_row(const GridPoint& point, std::uint32_t step) {
  return point[kY] ? builder_.mul(point[kY], step) : builder_.constant(0);
}

/// What a block's rows have of an image's rows of `width` pixels: blocks begin `shift` pixels after
/// multiples of `step` and take `taken` pixels.
LanesKernel::Segment LanesKernel::segment(const GridPoint& point, std::uint32_t step,
                                          std::int64_t shift, std::uint32_t taken,
                                          std::int64_t width) {
  if (!point[kX]) {
    const std::int64_t begin = std::max<std::int64_t>(0, shift);
    const std::int64_t end = std::min<std::int64_t>(width, shift + taken);
    return {builder_.constant(static_cast<std::uint32_t>(begin)),
            builder_.constant(static_cast<std::uint32_t>(begin - shift)),
            builder_.constant(static_cast<std::uint32_t>(std::max<std::int64_t>(0, end - begin)))};
  }
  const SReg first = builder_.add(builder_.mul(point[kX], step), shift);
  const SReg begin = builder_.max(first, 0);
  const SReg end = builder_.min(builder_.add(first, taken), width);
  return {begin, builder_.sub(begin, first), builder_.sub(end, begin)};
}

LanesKernel::Segment LanesKernel::input_segment(const GridPoint& point) {
  const std::uint32_t step =
      tiling_.groups * tiling_.group * static_cast<std::uint32_t>(width().stride);
  return segment(point, step, patches_.first[1], sizes_.slab_x, width().input);
}

LanesKernel::Segment LanesKernel::output_segment(const GridPoint& point) {
  return segment(point, sizes_.out_x, 0, sizes_.out_x, width().output);
}

/// The block of an array that lies like the input.
TileGrid::Block LanesKernel::input_block(ElementType type, std::uint32_t word) {
  const std::uint32_t tile = tile_granules(type);
  const std::uint32_t slab_pixel =
      sizes_.input_pixel / tile_rows(problem_.input_type) * tile_rows(type);
  const std::uint32_t features = patches_.feature_tiles * patches_.blocks;
  const std::uint32_t pixel = features * sizes_.lane_tiles * tile;
  const bool whole = patches_.blocks == 1;
  const std::int64_t shift = patches_.first[1];
  const std::int64_t fetched = std::min<std::int64_t>(width().input, shift + sizes_.slab_x) -
                               std::max<std::int64_t>(0, shift);
  fetched_ = static_cast<std::uint32_t>(std::max<std::int64_t>(0, fetched));
  const std::uint32_t moved = patches_.feature_tiles * tile;
  ImageShape shape;
  shape.height = static_cast<std::uint32_t>(height().input);
  shape.row_stride = static_cast<std::uint32_t>(width().input) * pixel;
  if (whole) {
    shape.row = {tile, fetched_ * patches_.feature_tiles, sizes_.lane_tiles * tile};
  } else {
    shape.row = {moved, fetched_, features * tile};
  }
  shape.block_rows = sizes_.slab_y;
  shape.shift = static_cast<std::int32_t>(patches_.first[0]);
  shape.pitch = sizes_.slab_x * slab_pixel;
  shape.rows_vary = sizes_.plan.grid[kX] > 1;
  const auto rows = std::make_shared<ImageRows>(builder_, true, shape);
  if (!input_rows_) input_rows_ = rows;
  TileGrid::Block input;
  input.dimensions = sizes_.plan.lhs.dimensions;
  input.rows = sizes_.plan.lhs.rows_of(type, problem_.input_type);
  input.start = [=](const GridPoint& point, const VmemAddress& to, ScalarOperand flag) {
    const Segment part = input_segment(point);
    const SReg base = weighted_sum(builder_, {point[kLanes], point[kFeatures], part.begin},
                                   {tile, moved, pixel}, builder_.load_smem(word));
    SReg row = builder_.mul(part.before, slab_pixel);
    if (to.base) row = builder_.add(row, to.base);
    rows->start(base, first_row(point, input_step()), {to.region, to.offset, row}, flag,
                point[kX] ? builder_.mul(part.pixels, moved) : SReg());
  };
  input.granules = [=](const GridPoint& point) {
    const SReg row = point[kX] ? builder_.mul(input_segment(point).pixels, moved) : SReg();
    return ScalarOperand(rows->granules(first_row(point, input_step()), row));
  };
  return input;
}

/// What is made of a block of the input. Where rows are cut, all of a
/// block's pixels are made: those outside of the image are cleared behind it.
ProductSide::Tiles LanesKernel::made_input() {
  const std::uint32_t features = patches_.feature_tiles;
  const bool is_whole = tiling_.blocks_x == 1;
  ProductSide::Tiles tiles;
  if (is_whole && patches_.first[1] < 0) {
    tiles.before = static_cast<std::uint32_t>(-patches_.first[1]) * features;
  }
  tiles.outer = {{sizes_.slab_y, sizes_.slab_x * features},
                 {is_whole ? fetched_ : sizes_.slab_x, features}};
  tiles.rows = {features, 1};
  tiles.first_row = compiler::multiply(builder_, {grid_->index(kFeatures), 0}, features);
  tiles.first_lane = {grid_->index(kLanes), 0};
  return tiles;
}

void LanesKernel::add_window() {
  const bool turned = problem_.window_transposed;
  BlockShape shape;
  shape.tile_granules = tile_granules(problem_.window_type);
  shape.rows = turned ? sizes_.column_tiles : tiles_of(problem_.contracted, 8);
  shape.columns = turned ? tiles_of(problem_.contracted, 128) : tiles_of(problem_.columns, 128);
  shape.block_rows = turned ? tiling_.block_columns : shape.rows;
  shape.block_columns = turned ? shape.columns : tiles_of(tiling_.block_columns, 16);
  shape.matrices = static_cast<std::uint32_t>(height().window * width().window);
  shape.matrix_stride = shape.matrix_granules();
  grid_->add_input(matrix_block(
      builder_, true, shape, sizes_.plan.rhs.dimensions,
      [this](const GridPoint&) { return builder_.load_smem(addresses_ + 1); },
      turned ? kColumns : -1, turned ? -1 : kColumns));
}

ImageShape LanesKernel::result_image(ElementType type) const {
  const std::uint32_t tile = tile_granules(type);
  const std::uint32_t pixel = sizes_.column_tiles * sizes_.lane_tiles * tile;
  const bool all_columns = tiling_.block_columns == sizes_.column_tiles;
  ImageShape shape;
  shape.height = static_cast<std::uint32_t>(height().output);
  shape.row_stride = static_cast<std::uint32_t>(width().output) * pixel;
  const auto pixels = static_cast<std::uint32_t>(width().output);
  if (all_columns) {
    shape.row = {tile, pixels * tiling_.block_columns, sizes_.lane_tiles * tile};
  } else {
    shape.row = {tiling_.block_columns * tile, pixels, sizes_.column_tiles * tile};
  }
  shape.block_rows = sizes_.out_y;
  shape.pitch = sizes_.out_x * tiling_.block_columns * tile_rows(type);
  shape.rows_vary = sizes_.plan.grid[kX] > 1;
  return shape;
}

/// Granules of a row of a block of the result; none: those of the whole row.
SReg LanesKernel::result_row(ElementType type, const GridPoint& point) {
  if (!point[kX]) return {};
  return builder_.mul(output_segment(point).pixels, tiling_.block_columns * tile_granules(type));
}

/// The block of an array in step with the result.
TileGrid::Block LanesKernel::result_block(ElementType type, bool to_vmem, std::uint32_t word) {
  const std::uint32_t tile = tile_granules(type);
  const std::uint32_t pixel = sizes_.column_tiles * sizes_.lane_tiles * tile;
  const ImageShape shape = result_image(type);
  return image_block(
      std::make_shared<ImageRows>(builder_, to_vmem, shape), sizes_.plan.results.dimensions,
      shape.pitch * shape.block_rows,
      [=](const GridPoint& point) {
        return weighted_sum(builder_, {point[kLanes], point[kColumns], point[kX]},
                            {tile, tiling_.block_columns * tile, sizes_.out_x * pixel},
                            builder_.load_smem(word));
      },
      [this](const GridPoint& point) { return first_row(point, sizes_.out_y); }, 0,
      [=](const GridPoint& point) { return result_row(type, point); });
}

LoweredKernel convolution_lanes_kernel(const ConvolutionProblem& problem,
                                       const MatmulEpilogue& epilogue, const Target& target) {
  const ConvolutionProblem flat = with_flat_pixels(problem);
  LanesTiling tiling = find_lanes_tiling(flat, target).value();
  // Expressions that need more registers than there are get less code that overlaps.
  for (; tiling.finished_pairs > 0; tiling.finished_pairs = 0, tiling.steps_at_once = 2) {
    for (; tiling.steps_at_once > 0; --tiling.steps_at_once) {
      auto overlapping = LanesKernel(flat, tiling, epilogue, target).emit(false);
      if (overlapping) return std::move(*overlapping);
    }
  }
  auto lowered = LanesKernel(flat, tiling, epilogue, target).emit(false);
  if (lowered) return std::move(*lowered);
  tiling.steps_at_once = 1;
  return *LanesKernel(flat, tiling, epilogue, target).emit(true);
}

}  // namespace tpu::compiler
