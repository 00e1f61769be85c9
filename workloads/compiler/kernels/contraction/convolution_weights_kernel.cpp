#include "workloads/compiler/kernels/contraction/convolution_weights_kernel.h"

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <optional>

#include "sim/base/error.h"
#include "workloads/compiler/kernels/contraction/contraction.h"
#include "workloads/compiler/kernels/contraction/contraction_blocks.h"
#include "workloads/compiler/kernels/contraction/convolution_weights_tiling.h"
#include "workloads/compiler/kernels/contraction/matmul_memory.h"
#include "workloads/compiler/kernels/contraction/matmul_stream.h"
#include "workloads/compiler/kernels/tiles/step_counter.h"
#include "workloads/compiler/kernels/tiles/tile_grid.h"

namespace tpu::compiler {

namespace {

using hlo::ElementType;
using isa::Opcode;

/// Emits a weight gradient: for each position of the window, the sum over pixels and batch of input
/// features times gradient features.
///
/// The gradient's batch rows of a pixel (or of a few neighbouring ones) are the weights; the input,
/// turned by the transpose unit so that its features are rows and its batch lanes, streams past
/// them, once for each position of the window. The sums for all positions stay in VMEM in fp32
/// while the pixels pass.
///
/// With the pixels in the rows of tiles eight neighbours stand in place of the batch, and the
/// images pass one after the other: a position of the window turns the input from its own first
/// pixel on.
class WeightsKernel : WeightsGrid {
 public:
  WeightsKernel(const ConvolutionProblem& problem, const WeightsTiling& tiling,
                const MatmulEpilogue& epilogue, const Target& target)
      : problem_(problem),
        tiling_(tiling),
        epilogue_(epilogue),
        sizes_(problem, tiling, target),
        builder_(epilogue.kernel_name, target),
        units_(sizes_.plan.steps.units),
        groups_at_once_(units_.groups() * tiling.group_parts),
        stream_(builder_, units_, sizes_.plan.steps.pushes, kWeightPushes, sizes_.plan.steps.lots),
        memory_(builder_, is_packed(problem.input_type), is_packed(problem.window_type)),
        results_(builder_, epilogue),
        input_(builder_, epilogue.prologues[0]),
        gradient_(builder_, epilogue.prologues[1]) {}

  LoweredKernel emit() {
    results_.start();
    input_.start();
    gradient_.start();
    addresses_ = store_addresses(builder_, epilogue_);
    store_units();
    if (masks()) make_masks();
    make_grid();
    if (in_rows()) lined_up_ = builder_.allocate_vmem(sizes_.lines.rows());
    transposed_ = builder_.allocate_vmem(sizes_.transposed_rows);
    if (sizes_.runs) turner_.emplace(builder_, *sizes_.runs);
    clear_borders();
    builder_.new_block();
    grid_->run([this] { work(); },
               [this] {
                 results_.ready();
                 input_.ready();
                 gradient_.ready();
               });
    stream_.close();
    return lowered_kernel(builder_);
  }

 private:
  static constexpr int kColumns = 0, kRows = 1, kBatch = 2, kY = 3;
  static constexpr std::uint32_t kUnitWords = 2;

  const SpatialDimension& height() const { return problem_.spatial[0]; }
  const SpatialDimension& width() const { return problem_.spatial[1]; }
  bool masks() const { return problem_.contracted % 8 != 0; }
  bool in_rows() const { return problem_.pixels_in_rows; }
  /// Which side is lined up.
  bool lines_up_gradient() const { return in_rows() && tiling_.moves_gradient; }
  bool lines_up_input() const { return in_rows() && !tiling_.moves_gradient; }
  /// Each pixel is turned once for all positions that meet it.
  bool turns_pixels() const { return tiling_.group == 1 && !in_rows(); }
  bool shares_tiles() const { return tiling_.tile_pixels > 1; }
  /// Rows of a tile that a pixel has.
  std::uint32_t pixel_rows() const { return 8 / tiling_.tile_pixels; }
  bool sums_apart() const { return sizes_.sums_apart; }
  /// VMEM rows of a unit's sums.
  std::uint32_t unit_sum_rows() const { return sizes_.unit_tiles * tiling_.block_columns * 8; }
  std::uint32_t dilation_x() const { return static_cast<std::uint32_t>(width().window_dilation); }
  std::uint32_t dilation_y() const { return static_cast<std::uint32_t>(height().window_dilation); }
  /// Transposed groups between neighbouring groups of pixels, and between positions of the window.
  std::uint32_t group_starts() const {
    return turns_pixels() ? dilation_x() : sizes_.window_x / sizes_.walked_x;
  }
  std::uint32_t position_starts() const {
    return turns_pixels() ? static_cast<std::uint32_t>(width().stride) : 1;
  }

  void store_units();
  void make_masks();
  VReg batch_mask(ElementType type, bool descending);
  std::vector<VReg> tile_masks(ElementType type, bool descending);
  template <typename Load>
  VReg shared_tile(std::uint32_t tile, std::uint32_t pitch, std::uint32_t tile_rows,
                   const std::vector<VReg>& masks, const Load& load);
  void make_grid();
  std::uint32_t input_border() const {
    if (in_rows()) return 0;
    return static_cast<std::uint32_t>(width().padding) - sizes_.left_out;
  }
  /// Pixels of a line of the slab that lie in the image.
  std::uint32_t fetched_pixels() const {
    if (in_rows()) return sizes_.input_x;
    return std::min<std::uint32_t>(static_cast<std::uint32_t>(width().input),
                                   sizes_.slab_x - std::min(input_border(), sizes_.slab_x));
  }
  TileGrid::Block input_block(ElementType type, std::uint32_t word);
  TileGrid::Block gradient_block(ElementType type, std::uint32_t word);
  ProductSide::Tiles made_input();
  ProductSide::Tiles made_gradient();
  TileGrid::Block result_block(ElementType type, bool to_vmem, std::uint32_t word);
  SReg block_row(const GridPoint& point, std::uint32_t step);
  void clear_borders();
  void line_up();
  void clear_outside(int input, ImageRows& rows, std::uint32_t step, std::uint32_t count,
                     std::uint32_t pitch);
  void clear_sums();
  PReg is_first_block();
  PReg is_last_block();
  void work();
  void transpose_part(SReg part);
  enum Digit : std::size_t { kColumn, kPixelY, kGroup, kPosition, kUnits };
  std::uint32_t rows_at_once() const { return tiling_.splits_rows ? groups_at_once_ : 1; }
  std::uint32_t neighbours_at_once() const { return tiling_.splits_rows ? 1 : groups_at_once_; }
  /// The group of pixels that a part of a unit contracts, of those at once.
  std::uint32_t group_of(std::uint32_t unit, std::uint32_t part) const {
    return units_.group_of(unit) * tiling_.group_parts + part;
  }
  SReg unit_word(const Digits& digits, std::uint32_t unit, std::uint32_t word);
  std::uint32_t input_line() const;
  std::uint32_t input_group() const;
  std::vector<SReg> input_places(const Digits& digits);
  Contraction::Tiles input_tiles(const std::vector<SReg>& places);
  std::uint32_t gradient_group() const;
  std::uint32_t gradient_column() const;
  std::uint32_t gradient_line() const;
  std::vector<SReg> gradient_places(SReg origin, const Digits& digits);
  Contraction::Tiles gradient_tiles(const VmemAddress& gradient, SReg base,
                                    const std::vector<VReg>& masks);
  Contraction::Tiles run_tiles(const VmemAddress& gradient, const std::vector<SReg>& places);
  SReg sums_row(const VmemAddress& sums, const Digits& digits, std::uint32_t unit);
  Contraction::Results unit_sums(const VmemAddress& sums, const Digits& digits,
                                 const Digits& before, PReg started);
  void multiply_part(SReg part);
  void finish();
  void apply_epilogue();

  const ConvolutionProblem& problem_;
  const WeightsTiling& tiling_;
  const MatmulEpilogue& epilogue_;
  WeightsSizes sizes_;
  KernelBuilder builder_;
  MatmulUnits units_;
  std::uint32_t groups_at_once_;
  MatmulStream stream_;
  MatmulMemory memory_;
  TileExpressionEmitter results_;
  ProductSide input_, gradient_;
  std::unique_ptr<TileGrid> grid_;
  std::uint32_t addresses_ = 0;  ///< SMEM: input, gradient, result, operands behind the product.
  std::uint32_t unit_words_ = 0;
  std::shared_ptr<ImageRows> input_rows_, gradient_rows_;
  std::vector<int> epilogue_inputs_;
  VmemRegion lined_up_;  ///< The rows of a block of pixels in rows.
  VmemRegion transposed_, sums_;
  std::vector<VmemRegion> unrounded_;
  std::optional<RunTurner> turner_;
  /// Ones; valid rows of the last batch tile; the same in descending order. Where pixels share a
  /// tile: rows of each of them, then the same in descending order.
  VmemRegion masks_;
};

/// Per position of the window and tile of input features: offsets in VMEM rows of the transposed
/// input and of the sums. Units that only fill the last step have sums of their own. Where steps
/// walk through the positions in a row, those of the first of them.
void WeightsKernel::store_units() {
  unit_words_ = builder_.allocate_smem(kUnitWords * sizes_.walked_units);
  const std::uint32_t window_x = sizes_.window_x / sizes_.walked_x;
  const std::uint32_t real = sizes_.window_y * window_x * sizes_.row_tiles;
  for (std::uint32_t unit = 0; unit < sizes_.walked_units; ++unit) {
    const std::uint32_t position = unit / sizes_.row_tiles, row = unit % sizes_.row_tiles;
    const std::uint32_t y = position / window_x * static_cast<std::uint32_t>(height().stride);
    const std::uint32_t x = position % window_x * position_starts();
    const std::uint32_t block = (y * sizes_.starts + x) * sizes_.row_tiles + row;
    builder_.store_smem(unit_words_ + kUnitWords * unit,
                        unit < real ? block * sizes_.unit_tiles * 8 : 0);
    builder_.store_smem(unit_words_ + kUnitWords * unit + 1,
                        (position * sizes_.walked_x * sizes_.row_tiles + row) * unit_sum_rows());
  }
}

void WeightsKernel::make_masks() {
  const std::uint32_t pixels = tiling_.tile_pixels;
  masks_ = builder_.allocate_vmem(8 + 16 * pixels);
  const auto valid = static_cast<int>(problem_.contracted % 8);
  const VReg sublane = builder_.shift_right(builder_.lane_sequence(), 7);
  const VReg descending = builder_.vector(Opcode::kVxorU32, sublane, 7);
  const auto store_mask = [&](std::uint32_t at, VReg rows, std::uint32_t pixel) {
    const auto begin = static_cast<int>(pixel * pixel_rows());
    const MReg in = builder_.vector_compare(Opcode::kVcmpLtS32, rows, begin + valid);
    const VReg below = builder_.select(in, 0xffffffffU, 0U);
    const MReg out = builder_.vector_compare(Opcode::kVcmpLtS32, rows, begin);
    builder_.store({masks_, at}, builder_.select(out, 0, below));
  };
  builder_.store({masks_, 0}, 0xffffffffU);
  for (std::uint32_t pixel = 0; pixel < pixels; ++pixel) {
    store_mask(8 + 8 * pixel, sublane, pixel);
    store_mask(8 + 8 * (pixels + pixel), descending, pixel);
  }
}

/// For the last tile of a block's batch.
VReg WeightsKernel::batch_mask(ElementType type, bool descending) {
  const int row = descending ? 16 : 8;
  const PReg last = grid_->is_last(kBatch);
  const VReg mask = last ? builder_.load({masks_, 0, builder_.select(last, row, 0)})
                         : builder_.load({masks_, row});
  return is_packed(type) ? builder_.and_(mask, 0xffff0000U) : mask;
}

/// Of each pixel of a tile that several share.
std::vector<VReg> WeightsKernel::tile_masks(ElementType type, bool descending) {
  std::vector<VReg> masks;
  for (std::uint32_t pixel = 0; pixel < tiling_.tile_pixels; ++pixel) {
    const std::uint32_t at = 8 + 8 * (pixel + (descending ? tiling_.tile_pixels : 0));
    const VReg mask = builder_.load({masks_, at});
    masks.push_back(is_packed(type) ? builder_.and_(mask, 0xffff0000U) : mask);
  }
  return masks;
}

/// Tile `tile` of a group whose pixels, `pitch` VMEM rows apart, share tiles. `load` takes an
/// offset and a mask.
template <typename Load>
VReg WeightsKernel::shared_tile(std::uint32_t tile, std::uint32_t pitch, std::uint32_t tile_rows,
                                const std::vector<VReg>& masks, const Load& load) {
  VReg rows;
  for (std::uint32_t i = 0; i < tiling_.tile_pixels; ++i) {
    const std::uint32_t pixel = tile * tiling_.tile_pixels + i;
    if (pixel >= tiling_.group) break;
    // The pixel's first row is to come out at its place in the tile.
    const VReg part = load(pixel * pitch - i * pixel_rows() * tile_rows / 8, masks[i]);
    rows = rows ? builder_.or_(rows, part) : part;
  }
  return rows;
}

void WeightsKernel::make_grid() {
  grid_ = std::make_unique<TileGrid>(builder_, sizes_.plan.grid);
  const int input = grid_->add_input(input_block(problem_.input_type, addresses_));
  const int gradient = grid_->add_input(gradient_block(problem_.window_type, addresses_ + 1));
  epilogue_inputs_ = add_result_blocks(*grid_, epilogue_, addresses_,
                                       [this](ElementType type, bool to_vmem, std::uint32_t word) {
                                         return result_block(type, to_vmem, word);
                                       });
  input_.add_arrays(*grid_, input, [this](ElementType type, std::uint32_t word) {
    return input_block(type, word);
  });
  gradient_.add_arrays(*grid_, gradient, [this](ElementType type, std::uint32_t word) {
    return gradient_block(type, word);
  });
  if (sums_apart()) sums_ = builder_.allocate_vmem(sizes_.sum_rows);
  unrounded_ = unrounded_regions(builder_, problem_.result_types, sums_, sizes_.sum_rows);
}

SReg WeightsKernel::block_row(const GridPoint& point, std::uint32_t step) {
  return point[kY] ? builder_.mul(point[kY], step) : builder_.constant(0);
}

/// The block of an array that lies like the input.
TileGrid::Block WeightsKernel::input_block(ElementType type, std::uint32_t word) {
  const std::uint32_t tile = tile_granules(type);
  const std::uint32_t slab_pixel = sizes_.input_pixel / sizes_.input_tile * tile_rows(type);
  const std::uint32_t pixel = sizes_.batch_tiles * sizes_.all_row_tiles * tile;
  const bool all_rows = tiling_.block_rows == sizes_.all_row_tiles;
  const std::uint32_t fetched = fetched_pixels();
  ImageShape shape;
  shape.height = static_cast<std::uint32_t>(height().input);
  shape.row_stride = sizes_.input_x * pixel;
  const std::uint32_t run = sizes_.row_tiles * tile;
  if (all_rows) {
    shape.row = {run * tiling_.block_batch, fetched, pixel};
  } else {
    shape.row = {run, fetched * tiling_.block_batch, sizes_.all_row_tiles * tile};
  }
  shape.block_rows = sizes_.slab_y;
  shape.shift = static_cast<std::int32_t>(-height().padding);
  shape.pitch = sizes_.slab_x * slab_pixel;
  const auto rows = std::make_shared<ImageRows>(builder_, true, shape);
  if (!input_rows_) input_rows_ = rows;
  const std::uint32_t batch_block = in_rows() ? shape.height * shape.row_stride
                                              : tiling_.block_batch * sizes_.all_row_tiles * tile;
  const std::uint32_t row_block = tiling_.block_rows * tile;
  return image_block(
      rows, sizes_.plan.lhs.dimensions, sizes_.plan.lhs.rows_of(type, problem_.input_type),
      [=](const GridPoint& point) {
        return weighted_sum(builder_, {point[kBatch], point[kRows]}, {batch_block, row_block},
                            builder_.load_smem(word));
      },
      [this](const GridPoint& point) { return block_row(point, tiling_.block_y * dilation_y()); },
      std::int64_t{input_border()} * slab_pixel);
}

/// The same of the gradient.
TileGrid::Block WeightsKernel::gradient_block(ElementType type, std::uint32_t word) {
  const std::uint32_t tile = tile_granules(type);
  const std::uint32_t line_pixel = sizes_.gradient_pixel / sizes_.gradient_tile * tile_rows(type);
  const std::uint32_t pixel = sizes_.batch_tiles * sizes_.column_tiles * tile;
  const bool all_columns = tiling_.block_columns == sizes_.column_tiles;
  ImageShape shape;
  shape.height = sizes_.out_y;
  shape.row_stride = sizes_.out_x * pixel;
  if (all_columns) {
    shape.row = {tiling_.block_batch * sizes_.column_tiles * tile, sizes_.out_x, pixel};
  } else {
    shape.row = {tiling_.block_columns * tile, sizes_.out_x * tiling_.block_batch,
                 sizes_.column_tiles * tile};
  }
  shape.block_rows = tiling_.block_y;
  shape.pitch = sizes_.line_pixels * line_pixel;
  const auto rows = std::make_shared<ImageRows>(builder_, true, shape);
  if (!gradient_rows_) gradient_rows_ = rows;
  const std::uint32_t batch_block = in_rows() ? shape.height * shape.row_stride
                                              : tiling_.block_batch * sizes_.column_tiles * tile;
  return image_block(
      rows, sizes_.plan.rhs.dimensions, sizes_.plan.rhs.rows_of(type, problem_.window_type),
      [=](const GridPoint& point) {
        return weighted_sum(builder_, {point[kBatch], point[kColumns]},
                            {batch_block, tiling_.block_columns * tile}, builder_.load_smem(word));
      },
      [this](const GridPoint& point) { return block_row(point, tiling_.block_y); },
      std::int64_t{sizes_.margin - sizes_.left_out} * line_pixel);
}

/// What is made of a block of the input, and of the gradient.
ProductSide::Tiles WeightsKernel::made_input() {
  const std::uint32_t features = sizes_.row_tiles, pixel = tiling_.block_batch * features;
  ProductSide::Tiles tiles;
  tiles.before = input_border() * pixel;
  tiles.outer = {{sizes_.slab_y, sizes_.slab_x * pixel}, {fetched_pixels(), pixel}};
  tiles.rows = {tiling_.block_batch, features};
  tiles.lanes = {features, 1};
  tiles.first_row = multiply(builder_, {grid_->index(kBatch), 0}, tiling_.block_batch);
  tiles.first_lane = multiply(builder_, {grid_->index(kRows), 0}, tiling_.block_rows);
  return tiles;
}

ProductSide::Tiles WeightsKernel::made_gradient() {
  const std::uint32_t columns = tiling_.block_columns, pixel = tiling_.block_batch * columns;
  ProductSide::Tiles tiles;
  tiles.before = (sizes_.margin - sizes_.left_out) * pixel;
  tiles.outer = {{tiling_.block_y, sizes_.line_pixels * pixel}, {sizes_.out_x, pixel}};
  tiles.rows = {tiling_.block_batch, columns};
  tiles.lanes = {columns, 1};
  tiles.first_row = multiply(builder_, {grid_->index(kBatch), 0}, tiling_.block_batch);
  tiles.first_lane = multiply(builder_, {grid_->index(kColumns), 0}, columns);
  return tiles;
}

/// The block of an array in step with the result.
TileGrid::Block WeightsKernel::result_block(ElementType type, bool to_vmem, std::uint32_t word) {
  BlockShape shape;
  shape.tile_granules = tile_granules(type);
  shape.rows = tiles_of(problem_.rows, 8);
  shape.columns = sizes_.column_tiles;
  shape.block_columns = tiling_.block_columns;
  shape.block_rows = sizes_.unit_tiles * tiling_.block_rows;
  shape.matrices = sizes_.window_y * sizes_.window_x;
  shape.matrix_stride = shape.matrix_granules();
  TileGrid::Block block = matrix_block(
      builder_, to_vmem, shape, sizes_.plan.results.dimensions,
      [=](const GridPoint&) { return builder_.load_smem(word); }, kRows, kColumns);
  block.rows = sizes_.unit_tiles * sizes_.units * tiling_.block_columns * tile_rows(type);
  return block;
}

/// Pixels of the blocks that no DMA writes are 0 for good.
void WeightsKernel::clear_borders() {
  if (in_rows()) memory_.clear({lined_up_, 0}, lined_up_.rows);
  const bool has_border = !in_rows() && width().padding != 0;
  if (sizes_.slab_x != sizes_.input_x || has_border) {
    const VmemRegion slab = grid_->input_region(0);
    memory_.clear({slab, 0}, slab.rows);
  }
  if (sizes_.line_pixels != sizes_.out_x) {
    const VmemRegion gradient = grid_->input_region(1);
    memory_.clear({gradient, 0}, gradient.rows);
  }
  builder_.new_block();
}

/// New blocks of pixels in rows: those of one side are lined up; of the other one what stands
/// behind the last pixel of a row in its tile is 0.
void WeightsKernel::line_up() {
  const int side = lines_up_gradient() ? 1 : 0;
  emit_if(builder_, grid_->fresh(side),
          [&] { sizes_.lines.emit(builder_, memory_, grid_->input(side), lined_up_); });
  const auto pixels =
      static_cast<std::uint32_t>(lines_up_gradient() ? width().input : width().window);
  if (pixels % isa::kSublanes == 0) return;
  emit_if(builder_, grid_->fresh(1 - side), [&] {
    if (lines_up_gradient()) {
      clear_line_ends(builder_, memory_, problem_.input_type, grid_->input(0), sizes_.slab_y,
                      sizes_.slab_x * sizes_.input_pixel, pixels, sizes_.row_tiles);
    } else {
      clear_line_ends(builder_, memory_, problem_.window_type, grid_->input(1), tiling_.block_y,
                      gradient_line(), pixels, tiling_.block_columns);
    }
  });
}

/// Rows of a block that lie outside of the image are 0.
void WeightsKernel::clear_outside(int input, ImageRows& rows, std::uint32_t step,
                                  std::uint32_t count, std::uint32_t pitch) {
  GridPoint point(4);
  point[kY] = grid_->index(kY);
  const bool is_lined_up = input == 0 ? lines_up_input() : lines_up_gradient();
  clear_rows_outside(builder_, memory_, rows, block_row(point, step),
                     is_lined_up ? VmemAddress(lined_up_) : grid_->input(input), count, pitch);
}

PReg WeightsKernel::is_first_block() {
  return both(builder_, grid_->is_first(kBatch), grid_->is_first(kY));
}

PReg WeightsKernel::is_last_block() {
  return both(builder_, grid_->is_last(kBatch), grid_->is_last(kY));
}

void WeightsKernel::clear_sums() {
  const auto clear = [this] {
    memory_.clear(sums_apart() ? VmemAddress(sums_) : grid_->output(0), sizes_.sum_rows);
  };
  emit_if(builder_, is_first_block(), clear);
  builder_.new_block();
}

void WeightsKernel::work() {
  input_.make(*grid_, [this] { return made_input(); });
  gradient_.make(*grid_, [this] { return made_gradient(); });
  clear_sums();
  if (in_rows()) line_up();
  const std::int64_t rows = tiles_of(sizes_.out_y, tiling_.block_y) * tiling_.block_y;
  if (rows != sizes_.out_y) {
    clear_outside(1, *gradient_rows_, tiling_.block_y, tiling_.block_y, gradient_line());
  }
  const std::int64_t end =
      (rows - tiling_.block_y) * height().window_dilation + sizes_.slab_y - height().padding;
  if (height().padding > 0 || end > height().input) {
    clear_outside(
        0, *input_rows_, tiling_.block_y * dilation_y(), sizes_.slab_y,
        lines_up_input() ? sizes_.lines.image_line() : sizes_.slab_x * sizes_.input_pixel);
  }
  builder_.new_block();
  builder_.loop(tiling_.parts, [&](SReg part) {
    transpose_part(part);
    multiply_part(part);
  });
  if (sums_apart()) finish();
}

/// Turns the input pixels that a part of the groups meets: their batch becomes lanes. Lanes of
/// tiles that a group does not have are 0.
void WeightsKernel::transpose_part(SReg part) {
  // From a pixel (with pixels in rows, eight of them) to the next one, and from a position of the
  // window; from a tile of features.
  const auto padding = static_cast<std::uint32_t>(width().padding);
  const bool lined_up = lines_up_input();
  const VmemAddress slab =
      lined_up ? VmemAddress(lined_up_, sizes_.lines.left - padding) : grid_->input(0);
  const std::uint32_t pixel = lined_up ? isa::kSublanes : sizes_.input_pixel;
  const std::uint32_t position = lined_up ? 1 : pixel;
  const std::uint32_t features = lined_up ? sizes_.lines.line_rows : sizes_.input_tile;
  const std::uint32_t part_pixels = tiling_.part_groups * tiling_.group * dilation_x();
  SReg origin = builder_.mul(part, part_pixels * pixel);
  if (slab.base) origin = builder_.add(origin, slab.base);
  if (turner_) return turner_->make({slab.region, slab.offset, origin}, transposed_);
  const bool single = turns_pixels();
  StepCounter counter(builder_, {sizes_.slab_y, single ? sizes_.starts : tiling_.part_groups,
                                 single ? 1 : sizes_.window_x / sizes_.walked_x, sizes_.row_tiles});
  const std::vector<std::uint32_t> distances{
      lined_up ? sizes_.lines.image_line() : sizes_.slab_x * pixel,
      single ? pixel : tiling_.group * dilation_x() * pixel,
      static_cast<std::uint32_t>(width().stride) * position, features};
  const std::uint32_t tiles = sizes_.group_tiles;
  const bool shares = shares_tiles();
  const VReg mask = masks() && !shares ? batch_mask(problem_.input_type, false) : VReg();
  const auto pixel_masks = shares ? tile_masks(problem_.input_type, false) : std::vector<VReg>();
  const std::uint32_t lanes = sizes_.unit_tiles * 8;
  const auto push = [&](const std::vector<SReg>& digits) {
    const SReg source = weighted_sum(builder_, digits, distances, origin);
    const auto load = [&](std::uint32_t at, VReg rows) -> VReg {
      if (!lined_up) {
        return memory_.load_rows(problem_.input_type, {slab.region, at, source}, rows);
      }
      return builder_.load(VmemAddress(slab.region, slab.offset + at, source)
                               .stride(static_cast<std::int32_t>(dilation_x())));
    };
    for (std::uint32_t i = 0; i < tiles; ++i) {
      const std::uint32_t batch = i % tiling_.block_batch;
      const std::uint32_t at =
          i / tiling_.block_batch * dilation_x() * pixel + batch * sizes_.row_tiles * features;
      const bool last = masks() && batch + 1 == tiling_.block_batch;
      const VReg rows =
          shares ? shared_tile(i, dilation_x() * pixel, sizes_.input_tile, pixel_masks, load)
                 : load(at, last ? mask : VReg());
      builder_.transpose_push(rows, lanes, i, tiles);
    }
  };
  push(std::vector<SReg>(4));
  builder_.loop(counter.steps(), [&](SReg index) {
    const std::vector<SReg> next = counter.next();
    push(next);
    const SReg target = builder_.mul(index, lanes);
    for (std::uint32_t i = 0; i < sizes_.unit_tiles; ++i) {
      builder_.store({transposed_, std::int64_t{8} * i, target}, builder_.transpose_pop());
    }
    counter.advance(next);
  });
  // What the last iteration pushed is nobody's.
  for (std::uint32_t i = 0; i < sizes_.unit_tiles; ++i) builder_.transpose_pop();
  builder_.new_block();
}

/// A word of the table of units, for one of the units of a step.
SReg WeightsKernel::unit_word(const Digits& digits, std::uint32_t unit, std::uint32_t word) {
  return table_word(builder_, unit_words_ + kUnitWords * unit + word,
                    kUnitWords * tiling_.step_units, digits[kUnits]);
}

/// VMEM rows of the turned input from a row of pixels, and from a group of a row, to the next one.
std::uint32_t WeightsKernel::input_line() const {
  return dilation_y() * sizes_.starts * sizes_.row_tiles * sizes_.unit_tiles * 8;
}
std::uint32_t WeightsKernel::input_group() const {
  return group_starts() * sizes_.row_tiles * sizes_.unit_tiles * 8;
}

/// Where a step's pixels begin in the turned input, and the words of its units.
std::vector<SReg> WeightsKernel::input_places(const Digits& digits) {
  const SReg pixel =
      weighted_sum(builder_, digits,
                   {0, rows_at_once() * input_line(), neighbours_at_once() * input_group(), 0, 0});
  const SReg entry =
      digits[kUnits] ? builder_.mul(digits[kUnits], kUnitWords * tiling_.step_units) : SReg();
  return {pixel, entry};
}

/// The turned input there.
Contraction::Tiles WeightsKernel::input_tiles(const std::vector<SReg>& places) {
  const std::uint32_t piece = tiling_.splits_rows ? input_line() : input_group();
  const SReg pixel = places[0];
  auto units = std::make_shared<TableEntry>(builder_, unit_words_, kUnitWords * tiling_.step_units,
                                            places[1]);
  units->word(0);  // The first to be pushed.
  return [=](std::uint32_t unit, std::uint32_t i, std::uint32_t part) {
    const SReg row = units->word(kUnitWords * (i / sizes_.unit_tiles));
    const std::uint32_t at = group_of(unit, part) * piece + i % sizes_.unit_tiles * 8;
    return builder_.load({transposed_, at, row, pixel});
  };
}

/// VMEM rows of the gradient of a group of pixels.
std::uint32_t WeightsKernel::gradient_group() const {
  return tiling_.group * (lines_up_gradient() ? isa::kSublanes : sizes_.gradient_pixel);
}

/// From one tile of columns of the gradient to the next one.
std::uint32_t WeightsKernel::gradient_column() const {
  return lines_up_gradient() ? sizes_.lines.line_rows : sizes_.gradient_tile;
}

/// VMEM rows of the gradient from a line to the next one.
std::uint32_t WeightsKernel::gradient_line() const {
  return lines_up_gradient() ? sizes_.lines.image_line()
                             : sizes_.line_pixels * sizes_.gradient_pixel;
}

/// Where the gradient's tiles of a step begin, of positions in a row the last one first; the shift
/// that its group takes of a run of pixels.
std::vector<SReg> WeightsKernel::gradient_places(SReg origin, const Digits& digits) {
  const std::uint32_t column = tiling_.columns_at_once * gradient_column();
  const std::uint32_t line = rows_at_once() * gradient_line();
  const std::uint32_t position = static_cast<std::uint32_t>(width().stride) *
                                 (lines_up_gradient() ? 1 : sizes_.gradient_pixel);
  if (!turner_) {
    return {
        weighted_sum(builder_, digits,
                     {column, line, neighbours_at_once() * gradient_group(), position, 0}, origin),
        {}};
  }
  // Both groups of a run at once, or one after the other.
  SReg run = digits[kGroup], shift;
  if (groups_at_once_ == 1) {
    run = builder_.and_(digits[kGroup], 0xfffffffeU);
    const SReg odd = builder_.shift_left(builder_.and_(digits[kGroup], 1U), 4);
    shift = builder_.sub(16, odd);
  }
  return {weighted_sum(builder_, {digits[kColumn], digits[kPixelY], run, digits[kPosition]},
                       {column, line, groups_at_once_ * gradient_group(), position}, origin),
          shift};
}

/// The tiles there. `masks`: of the rows that count, or of each pixel of a tile.
Contraction::Tiles WeightsKernel::gradient_tiles(const VmemAddress& gradient, SReg base,
                                                 const std::vector<VReg>& masks) {
  const WeightsTiling& t = tiling_;
  const std::uint32_t piece = t.splits_rows ? gradient_line() : gradient_group();
  return [=](std::uint32_t unit, std::uint32_t j, std::uint32_t part) {
    const std::uint32_t tile = 15 - j;
    if (tile >= sizes_.group_tiles) return builder_.vector(Opcode::kVmov, 0.0F);
    const std::uint32_t begin =
        group_of(unit, part) * piece + units_.column_of(unit) * gradient_column();
    if (lines_up_gradient()) {
      const std::int64_t at = gradient.offset + begin + tile * isa::kSublanes;
      return memory_.load_weights(ElementType::kF32, {gradient.region, at, base});
    }
    const auto load = [&](std::uint32_t at, VReg rows) -> VReg {
      return memory_.load_weights(problem_.window_type, {gradient.region, begin + at, base}, rows);
    };
    if (shares_tiles()) {
      return shared_tile(tile, sizes_.gradient_pixel, sizes_.gradient_tile, masks, load);
    }
    const bool last = this->masks() && tile % tiling_.block_batch + 1 == tiling_.block_batch;
    return load(tile * tiling_.block_columns * sizes_.gradient_tile, last ? masks[0] : VReg());
  };
}

/// The same where groups are the even and the odd rows of a run of pixels.
Contraction::Tiles WeightsKernel::run_tiles(const VmemAddress& gradient,
                                            const std::vector<SReg>& places) {
  const SReg base = places[0];
  const VReg shift = places[1] ? builder_.splat(places[1]) : VReg();
  const std::uint32_t tile_pitch = tiling_.block_columns * sizes_.gradient_tile;
  const auto load = loaded_once(
      [=](std::uint32_t unit, std::uint32_t j, std::uint32_t part) {
        return group_of(unit, part) / 2 * 2 * gradient_group() +
               units_.column_of(unit) * sizes_.gradient_tile + 2 * (15 - j) * tile_pitch;
      },
      [=](std::uint32_t at, std::uint32_t) {
        return load_tile_pair(builder_, {gradient.region, at, base}, tile_pitch, true);
      });
  return [=](std::uint32_t unit, std::uint32_t j, std::uint32_t part) {
    const VReg pairs = load(unit, j, part);
    if (shift) return builder_.unpack_odd(builder_.shift_left(pairs, shift));
    return group_of(unit, part) % 2 == 0 ? builder_.unpack_even(pairs) : builder_.unpack_odd(pairs);
  };
}

/// Where the sums of a unit of a step begin.
SReg WeightsKernel::sums_row(const VmemAddress& sums, const Digits& digits, std::uint32_t unit) {
  SReg row = weighted_sum(builder_, digits, {tiling_.columns_at_once * 8, 0, 0, 0, 0},
                          unit_word(digits, unit, 1));
  if (sums.base) row = builder_.add(row, sums.base);
  if (!digits[kPosition]) return row;
  const SReg from_last = builder_.sub(static_cast<int>(sizes_.walked_x) - 1, digits[kPosition]);
  return builder_.add(row, builder_.mul(from_last, sizes_.row_tiles * unit_sum_rows()));
}

/// Adds to the sums of a step's units, whose places are read from the table when they are needed.
Contraction::Results WeightsKernel::unit_sums(const VmemAddress& sums, const Digits& digits,
                                              const Digits& before, PReg started) {
  auto groups = std::make_shared<GroupSums>(builder_, units_);
  auto rows = std::make_shared<std::map<std::pair<bool, std::uint32_t>, SReg>>();
  const std::uint32_t pushes = sizes_.plan.steps.pushes;
  return [=](std::uint32_t unit, std::uint32_t push, bool previous, VReg result) {
    if (!groups->add(unit, result)) return;
    const std::uint32_t i = push % pushes;
    SReg& row = (*rows)[{previous, i / sizes_.unit_tiles}];
    if (!row) row = sums_row(sums, previous ? before : digits, i / sizes_.unit_tiles);
    const std::uint32_t at =
        (i % sizes_.unit_tiles * tiling_.block_columns + units_.column_of(unit)) * 8;
    const VmemAddress address(sums.region, at, row);
    const VReg sum = builder_.add(builder_.load(address), result);
    const auto guard = previous && started ? PredicateOperand(started) : PredicateOperand(true);
    builder_.guarded(guard, [&] { builder_.store(address, sum); });
  };
}

void WeightsKernel::multiply_part(SReg part) {
  const WeightsTiling& t = tiling_;
  // Of positions in a row the last one meets the first pixel that is met.
  const std::int64_t first = width().padding - (width().output - 1) * width().stride;
  const VmemAddress gradient =
      lines_up_gradient() ? VmemAddress(lined_up_, sizes_.lines.left + first) : grid_->input(1);
  const VmemAddress sums = sums_apart() ? VmemAddress(sums_) : grid_->output(0);
  SReg origin = builder_.mul(part, t.part_groups * gradient_group());
  if (gradient.base) origin = builder_.add(origin, gradient.base);
  std::vector<VReg> gradient_masks;
  if (shares_tiles()) {
    gradient_masks = tile_masks(problem_.window_type, true);
  } else if (masks()) {
    gradient_masks = {batch_mask(problem_.window_type, true)};
  }
  Digits present;
  Contraction steps;
  steps.extents = {t.block_columns / t.columns_at_once, t.block_y / rows_at_once(),
                   t.part_groups / neighbours_at_once(), sizes_.walked_x,
                   sizes_.walked_units / t.step_units};
  // Of the step before, what its sums depend on.
  std::vector<std::optional<SVariable>> before(steps.extents.size());
  for (const Digit digit : {kColumn, kPosition, kUnits}) {
    if (steps.extents[digit] > 1) before[digit] = builder_.scalar_variable(0);
  }
  steps.pushes = sizes_.unit_tiles * t.step_units;
  steps.parts = problem_.parts;
  steps.steps_at_once = 1;  // Two may need more scalar registers than there are.
  steps.moving.places = [&](const Digits& digits) { return input_places(digits); };
  steps.moving.tiles = [&](const Digits&, const std::vector<SReg>& places) {
    return input_tiles(places);
  };
  steps.stationary.places = [&](const Digits& digits) { return gradient_places(origin, digits); };
  steps.stationary.tiles = [&](const Digits&, const std::vector<SReg>& places) {
    return turner_ ? run_tiles(gradient, places)
                   : gradient_tiles(gradient, places[0], gradient_masks);
  };
  steps.sums = [&](const Digits& digits, PReg started) {
    Digits previous(steps.extents.size());
    for (std::size_t i = 0; i < before.size(); ++i) {
      if (before[i]) previous[i] = builder_.get(*before[i]);
    }
    present = digits;
    return unit_sums(sums, digits, previous, started);
  };
  steps.advance = [&] {
    for (std::size_t i = 0; i < before.size(); ++i) {
      if (before[i]) builder_.set(*before[i], present[i]);
    }
  };
  emit_steps(builder_, stream_, steps);
}

/// Complete sums become results.
void WeightsKernel::finish() {
  const auto body = [this] {
    if (!results_.is_identity()) apply_epilogue();
    round_results(memory_, *grid_, unrounded_, sizes_.sum_rows / 8);
  };
  emit_if(builder_, is_last_block(), body);
}

void WeightsKernel::apply_epilogue() {
  builder_.new_block();
  apply_epilogue_by_columns(builder_, results_, *grid_, epilogue_inputs_, kColumns,
                            sizes_.unit_tiles * sizes_.units, tiling_.block_columns, sums_,
                            unrounded_);
}

}  // namespace

LoweredKernel convolution_weights_kernel(const ConvolutionProblem& problem,
                                         const MatmulEpilogue& epilogue, const Target& target) {
  const WeightsTiling tiling = find_weights_tiling(problem, target).value();
  return WeightsKernel(problem, tiling, epilogue, target).emit();
}

}  // namespace tpu::compiler
