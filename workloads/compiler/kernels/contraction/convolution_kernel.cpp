#include "workloads/compiler/kernels/contraction/convolution_kernel.h"

#include <algorithm>
#include <memory>
#include <optional>

#include "sim/base/error.h"
#include "workloads/compiler/kernels/contraction/contraction.h"
#include "workloads/compiler/kernels/contraction/contraction_blocks.h"
#include "workloads/compiler/kernels/contraction/image_rows.h"
#include "workloads/compiler/kernels/contraction/joined_weights.h"
#include "workloads/compiler/kernels/contraction/matmul_memory.h"
#include "workloads/compiler/kernels/contraction/matmul_stream.h"
#include "workloads/compiler/kernels/tiles/index.h"
#include "workloads/compiler/kernels/tiles/step_counter.h"
#include "workloads/compiler/kernels/tiles/tile_grid.h"

namespace tpu::compiler {

namespace {

using hlo::ElementType;

/// Emits a forward convolution or an input gradient.
///
/// A block of the result is some rows of pixels over some of the batch. The rows of the input that
/// it needs stand in VMEM with a border of zeros. A step takes one position of the window and one
/// tile of contracted features, or several positions whose few features stand beside each other:
/// its weights stay in the MXUs while the batch rows of a few neighbouring pixels stream through,
/// of several rows where rows are short. Positions of the window differ only in addresses: offsets
/// of the input, the weights and the result, from a table in SMEM. Sums are kept in VMEM in fp32.
///
/// With the pixels in the rows of tiles it is the same with eight neighbours in place of the batch,
/// each image by itself: a position of the window begins at any row of VMEM.
class ConvolutionKernel : ConvolutionGrid {
 public:
  ConvolutionKernel(const ConvolutionProblem& problem, const ConvolutionTiling& tiling,
                    const MatmulEpilogue& epilogue, const Target& target)
      : problem_(problem),
        tiling_(tiling),
        epilogue_(epilogue),
        sizes_(problem, tiling, target),
        taps_(taps_of(problem)),
        builder_(epilogue.kernel_name, target),
        units_(sizes_.plan.steps.units),
        pushes_(sizes_.plan.steps.pushes),
        stream_(builder_, units_, pushes_, kWeightPushes, sizes_.plan.steps.lots),
        memory_(builder_, is_packed(problem.input_type), is_packed(problem.window_type)),
        results_(builder_, epilogue),
        input_(builder_, epilogue.prologues[0]) {}

  LoweredKernel emit() {
    results_.start(sizes_.column_tiles);
    input_.start();
    addresses_ = store_addresses(builder_, epilogue_);
    store_taps();
    if (masks()) memory_.make_masks(problem_.contracted);
    make_grid();
    if (sizes_.join) {
      joiner_.emplace(builder_, memory_, *sizes_.join);
      joined_weights_.emplace(builder_, memory_, problem_, *sizes_.join, tiling_.block_columns);
    }
    clear_borders();
    builder_.new_block();
    grid_->run([this] { work(); },
               [this] {
                 results_.ready();
                 input_.ready();
               });
    if (!taps_.empty()) stream_.close();
    results_.finish();
    return lowered_kernel(builder_);
  }

 private:
  // SMEM words of a tap.
  static constexpr std::uint32_t kTapWords = 4;

  const SpatialDimension& height() const { return problem_.spatial[0]; }
  const SpatialDimension& width() const { return problem_.spatial[1]; }
  bool masks() const { return problem_.contracted % 128 != 0; }
  bool sums_apart() const { return sizes_.sums_apart; }
  std::uint32_t window_positions() const {
    return static_cast<std::uint32_t>(height().window * width().window);
  }
  /// Positions of the window, or groups of them, that steps multiply by.
  std::uint32_t steps_taps() const {
    if (sizes_.join) return sizes_.join->y.groups * sizes_.join->x.groups;
    return static_cast<std::uint32_t>(taps_.size());
  }
  /// Lines are single pixels: straight code goes from one to the next.
  bool is_column() const { return sizes_.out_x == 1; }
  /// Pixels of a block beyond the result.
  bool has_x_outside() const { return sizes_.out_x != sizes_.result_x; }
  bool in_rows() const { return problem_.pixels_in_rows; }
  /// Of the last eight pixels of a row of the result, those that are none.
  bool has_part_of_tile() const { return in_rows() && width().output % 8 != 0; }
  bool has_y_outside() const {
    return tiles_of(sizes_.pixels_y, tiling_.block_y) * sizes_.out_y != height().output;
  }
  /// Pixels that the expression goes along: all of the block where it does not ask which is which.
  std::uint32_t run() const {
    const bool has_outside = has_x_outside() || has_y_outside() || has_part_of_tile();
    const bool asks =
        (epilogue_.has_sums() && has_outside) || (in_rows() && epilogue_.depends_on_rows());
    if (!asks) return sizes_.out_y * sizes_.out_x;
    return is_column() ? sizes_.out_y : sizes_.out_x;
  }
  /// Some pixels of the result meet no position of the window.
  bool has_gaps() const;

  void store_taps();
  void store_groups();
  void make_grid();
  void set_fetched_pixels();
  TileGrid::Block input_block(ElementType type, std::uint32_t word);
  ProductSide::Tiles made_input();
  void add_window();
  ImageShape result_image(ElementType type) const;
  TileGrid::Block result_block(ElementType type, bool to_vmem, std::uint32_t word);
  SReg first_input_row(const GridPoint& point);
  SReg first_output_row(const GridPoint& point);
  void clear_borders();
  void clear_outside();
  void clear_weight_rows();
  void join();
  void work();
  // Digits of a step: columns, tap, contracted tile, rows and chunk of pixels.
  enum Digit : std::size_t { kColumn, kTap, kContracted, kPixelY, kPixelX };
  /// Row of tiles that push i of a unit takes.
  std::uint32_t row_of(std::uint32_t unit, std::uint32_t i) const {
    return units_.group_of(unit) * pushes_ + i;
  }
  /// VMEM rows of sums from a row of pixels to the next one, and from a pixel.
  std::uint32_t sum_line() const { return sizes_.phases_y * sizes_.out_x * sizes_.sum_pixel; }
  std::uint32_t sum_pixel() const { return sizes_.phases_x * sizes_.sum_pixel; }
  PReg is_last_tile(SReg contracted);
  SReg tap_word(const Digits& digits, std::uint32_t word, SReg base = {});
  std::uint32_t slab_line() const;
  std::uint32_t slab_pixel() const;
  std::vector<SReg> slab_places(const VmemAddress& slab, const Digits& digits);
  Contraction::Tiles slab_rows(const VmemAddress& slab, SReg row, SReg contracted);
  ElementType window_type() const;
  std::uint32_t window_part() const;
  std::uint32_t window_column() const;
  bool masks_window() const { return masks() && problem_.window_transposed && !sizes_.join; }
  std::vector<SReg> window_places(const VmemAddress& window, const Digits& digits);
  Contraction::Tiles window_tiles(const VmemAddress& window, const std::vector<SReg>& places);
  RunningSums::Place sums_at(const VmemAddress& sums, const Digits& digits);
  void multiply();
  void finish();
  void apply_epilogue();
  void apply_to_pixels(const std::vector<SReg>& digits, std::uint32_t pixels, std::uint32_t unroll);
  Index valid_rows(Index y, Index x, Index tile);

  const ConvolutionProblem& problem_;
  const ConvolutionTiling& tiling_;
  const MatmulEpilogue& epilogue_;
  ConvolutionSizes sizes_;
  std::vector<Tap> taps_;
  KernelBuilder builder_;
  MatmulUnits units_;
  std::uint32_t pushes_;
  MatmulStream stream_;
  MatmulMemory memory_;
  TileExpressionEmitter results_;
  ProductSide input_;
  std::unique_ptr<TileGrid> grid_;
  std::uint32_t addresses_ = 0;  ///< SMEM: input, window, result, operands behind the product.
  std::uint32_t tap_words_ = 0;
  std::shared_ptr<ImageRows> input_rows_;
  std::vector<int> epilogue_inputs_;
  std::optional<BlockJoiner> joiner_;  ///< Where the window has joined positions.
  std::optional<JoinedWeights> joined_weights_;
  std::uint32_t fetched_x_ = 0;  ///< Pixels of an input row that are fetched,
  std::int64_t first_x_ = 0;     ///< from this one on.
  VmemRegion lined_up_;          ///< The rows of a block of pixels in rows.
  VmemRegion sums_;
  std::vector<VmemRegion> unrounded_;
};

bool ConvolutionKernel::has_gaps() const {
  const auto starts =
      std::count_if(taps_.begin(), taps_.end(), [](const Tap& t) { return t.starts; });
  return starts != std::ptrdiff_t{sizes_.phases_y} * sizes_.phases_x;
}

/// Per position of the window: offsets in VMEM rows of the input, the weights and the sums, and the
/// sublane mask with which its first tile loads the sums so far.
void ConvolutionKernel::store_taps() {
  if (sizes_.join) return store_groups();
  tap_words_ = builder_.allocate_smem(kTapWords * static_cast<std::uint32_t>(taps_.size()));
  for (std::size_t i = 0; i < taps_.size(); ++i) {
    const Tap& tap = taps_[i];
    const auto y = static_cast<std::uint32_t>(tap.shift[0] - sizes_.shift_y);
    const auto x = static_cast<std::uint32_t>(tap.shift[1] - sizes_.shift_x);
    const std::uint32_t word = tap_words_ + kTapWords * static_cast<std::uint32_t>(i);
    const std::uint32_t line = y * sizes_.lines.image_line();
    builder_.store_smem(
        word, in_rows() ? line + static_cast<std::uint32_t>(sizes_.lines.left + tap.shift[1])
                        : (y * sizes_.slab_x + x) * sizes_.input_pixel);
    builder_.store_smem(word + 1, tap.window * sizes_.window_tap);
    builder_.store_smem(word + 2, (tap.phase[0] * sizes_.out_x + tap.phase[1]) * sizes_.sum_pixel);
    builder_.store_smem(word + 3, tap.starts && !has_gaps() ? 0 : 0xff);
  }
}

/// The same per group of joined positions.
void ConvolutionKernel::store_groups() {
  const WindowJoin& join = *sizes_.join;
  tap_words_ = builder_.allocate_smem(kTapWords * steps_taps());
  const std::uint32_t matrix =
      JoinedWeights::rows(problem_, join, tiling_.block_columns) / steps_taps();
  for (std::uint32_t i = 0; i < steps_taps(); ++i) {
    const std::uint32_t y = i / join.x.groups * join.y.group_step;
    const std::uint32_t x = i % join.x.groups * join.x.group_step;
    const std::uint32_t word = tap_words_ + kTapWords * i;
    builder_.store_smem(word, y * join.line_rows + x * join.pixel_rows);
    builder_.store_smem(word + 1, i * matrix);
    builder_.store_smem(word + 2, 0);
    builder_.store_smem(word + 3, i == 0 ? 0 : 0xff);
  }
}

void ConvolutionKernel::make_grid() {
  grid_ = std::make_unique<TileGrid>(builder_, sizes_.plan.grid);
  set_fetched_pixels();
  const int input = grid_->add_input(input_block(problem_.input_type, addresses_));
  if (in_rows()) lined_up_ = builder_.allocate_vmem(sizes_.lines.rows());
  add_window();
  epilogue_inputs_ = add_result_blocks(*grid_, epilogue_, addresses_,
                                       [this](ElementType type, bool to_vmem, std::uint32_t word) {
                                         return result_block(type, to_vmem, word);
                                       });
  input_.add_arrays(*grid_, input, [this](ElementType type, std::uint32_t word) {
    return input_block(type, word);
  });
  if (sums_apart()) sums_ = builder_.allocate_vmem(sizes_.sum_rows);
  unrounded_ = unrounded_regions(builder_, problem_.result_types, sums_, sizes_.sum_rows);
}

/// Before the shift of the window's first row.
SReg ConvolutionKernel::first_input_row(const GridPoint& point) {
  const auto step = static_cast<std::uint32_t>(tiling_.block_y * height().stride);
  return point[kY] ? builder_.mul(point[kY], step) : builder_.constant(0);
}

SReg ConvolutionKernel::first_output_row(const GridPoint& point) {
  return point[kY] ? builder_.mul(point[kY], sizes_.out_y) : builder_.constant(0);
}

/// Those of a line of the slab that lie in the image.
void ConvolutionKernel::set_fetched_pixels() {
  first_x_ = std::max<std::int64_t>(0, sizes_.shift_x);
  const std::int64_t end = std::min<std::int64_t>(sizes_.input_x, sizes_.shift_x + sizes_.slab_x);
  fetched_x_ = static_cast<std::uint32_t>(std::max<std::int64_t>(0, end - first_x_));
}

/// The block of an array that lies like the input.
TileGrid::Block ConvolutionKernel::input_block(ElementType type, std::uint32_t word) {
  const std::uint32_t tile = tile_granules(type);
  const std::uint32_t slab_pixel = sizes_.input_pixel / sizes_.input_tile * tile_rows(type);
  const std::uint32_t pixel = sizes_.row_tiles * sizes_.contracted_tiles * tile;
  ImageShape shape;
  shape.height = static_cast<std::uint32_t>(height().input);
  shape.row_stride = sizes_.input_x * pixel;
  shape.row = {tiling_.block_rows * sizes_.contracted_tiles * tile, fetched_x_, pixel};
  shape.block_rows = sizes_.slab_y;
  shape.shift = static_cast<std::int32_t>(sizes_.shift_y);
  shape.pitch = sizes_.slab_x * slab_pixel;
  const auto rows = std::make_shared<ImageRows>(builder_, true, shape);
  if (!input_rows_) input_rows_ = rows;
  const std::uint32_t block = in_rows() ? shape.height * shape.row_stride : shape.row.run;
  return image_block(
      rows, sizes_.plan.lhs.dimensions, sizes_.plan.lhs.rows_of(type, problem_.input_type),
      [=](const GridPoint& point) {
        return builder_.add(
            weighted_sum(builder_, {point[kRows]}, {block}, builder_.load_smem(word)),
            static_cast<std::uint32_t>(first_x_) * pixel);
      },
      [=](const GridPoint& point) { return first_input_row(point); },
      (first_x_ - sizes_.shift_x) * slab_pixel);
}

/// What is made of a block of the input.
ProductSide::Tiles ConvolutionKernel::made_input() {
  const std::uint32_t columns = sizes_.contracted_tiles, pixel = tiling_.block_rows * columns;
  ProductSide::Tiles tiles;
  tiles.before = static_cast<std::uint32_t>(first_x_ - sizes_.shift_x) * pixel;
  tiles.outer = {{sizes_.slab_y, sizes_.slab_x * pixel}, {fetched_x_, pixel}};
  tiles.rows = {tiling_.block_rows, columns};
  tiles.lanes = {columns, 1};
  tiles.first_row = compiler::multiply(builder_, {grid_->index(kRows), 0}, tiling_.block_rows);
  return tiles;
}

/// The weights of a block of columns, for all positions of the window.
void ConvolutionKernel::add_window() {
  const bool transposed = problem_.window_transposed;
  BlockShape shape;
  shape.tile_granules = tile_granules(problem_.window_type);
  shape.rows = tiles_of(transposed ? problem_.columns : problem_.contracted, 8);
  shape.columns = transposed ? sizes_.contracted_tiles : sizes_.column_tiles;
  shape.block_rows = transposed ? 16 * tiling_.block_columns : sizes_.window_row_tiles;
  shape.block_columns = transposed ? shape.columns : tiling_.block_columns;
  shape.matrices = window_positions();
  shape.matrix_stride = shape.matrix_granules();
  grid_->add_input(matrix_block(
      builder_, true, shape, sizes_.plan.rhs.dimensions,
      [this](const GridPoint&) { return builder_.load_smem(addresses_ + 1); },
      transposed ? kColumns : -1, transposed ? -1 : kColumns));
}

ImageShape ConvolutionKernel::result_image(ElementType type) const {
  const std::uint32_t tile = tile_granules(type);
  const std::uint32_t pixel = sizes_.row_tiles * sizes_.column_tiles * tile;
  ImageShape shape;
  shape.height = static_cast<std::uint32_t>(height().output);
  const std::uint32_t pixels = sizes_.result_x;
  shape.row_stride = pixels * pixel;
  if (tiling_.block_columns == sizes_.column_tiles) {
    shape.row = {tiling_.block_rows * sizes_.column_tiles * tile, pixels, pixel};
  } else {
    shape.row = {tiling_.block_columns * tile, pixels * tiling_.block_rows,
                 sizes_.column_tiles * tile};
  }
  shape.block_rows = sizes_.out_y;
  shape.pitch = sizes_.out_x * tiling_.block_rows * tiling_.block_columns * tile_rows(type);
  return shape;
}

/// The block of an array in step with the result.
TileGrid::Block ConvolutionKernel::result_block(ElementType type, bool to_vmem,
                                                std::uint32_t word) {
  const std::uint32_t tile = tile_granules(type);
  const ImageShape shape = result_image(type);
  const std::uint32_t block =
      in_rows() ? shape.height * shape.row_stride : tiling_.block_rows * sizes_.column_tiles * tile;
  return image_block(
      std::make_shared<ImageRows>(builder_, to_vmem, shape), sizes_.plan.results.dimensions,
      shape.pitch * shape.block_rows,
      [=](const GridPoint& point) {
        return weighted_sum(builder_, {point[kRows], point[kColumns]},
                            {block, tiling_.block_columns * tile}, builder_.load_smem(word));
      },
      [this](const GridPoint& point) { return first_output_row(point); });
}

/// Columns of the slabs that no DMA writes are 0 for good.
void ConvolutionKernel::clear_borders() {
  if (in_rows()) memory_.clear({lined_up_, 0}, lined_up_.rows);
  if (taps_.empty() || fetched_x_ == sizes_.slab_x) return;
  const VmemRegion region = grid_->input_region(0);
  memory_.clear({region, 0}, region.rows);
  builder_.new_block();
}

/// Rows of the slab above and below the image are 0 for this block.
void ConvolutionKernel::clear_outside() {
  const std::int64_t blocks = tiles_of(sizes_.pixels_y, tiling_.block_y);
  const std::int64_t end =
      (blocks - 1) * tiling_.block_y * height().stride + sizes_.shift_y + sizes_.slab_y;
  if (sizes_.shift_y >= 0 && end <= height().input) return;
  GridPoint point(3);
  point[kY] = grid_->index(kY);
  clear_rows_outside(builder_, memory_, *input_rows_, first_input_row(point),
                     in_rows() ? VmemAddress(lined_up_) : grid_->input(0), sizes_.slab_y,
                     in_rows() ? sizes_.lines.image_line() : sizes_.slab_x * sizes_.input_pixel);
}

void ConvolutionKernel::clear_weight_rows() {
  const auto clear = [this] {
    const VmemAddress window = grid_->input(1);
    builder_.new_block();
    builder_.loop(window_positions(), [&](SReg position) {
      SReg row = builder_.mul(position, sizes_.window_tap);
      if (window.base) row = builder_.add(row, window.base);
      memory_.clear_rows(problem_.window_type, {window.region, 0, row}, problem_.contracted,
                         sizes_.window_row_tiles, tiling_.block_columns);
    });
    builder_.new_block();
  };
  PReg fresh = grid_->fresh(1);
  if (!fresh) fresh = both(builder_, grid_->is_first(kRows), grid_->is_first(kY));
  emit_if(builder_, fresh, clear);
}

/// Makes joined blocks of those that are new.
void ConvolutionKernel::join() {
  emit_if(builder_, grid_->fresh(0), [this] { joiner_->make(grid_->input(0)); });
  builder_.new_block();
  emit_if(builder_, grid_->fresh(1), [this] { joined_weights_->make(grid_->input(1)); });
  builder_.new_block();
}

void ConvolutionKernel::work() {
  input_.make(*grid_, [this] { return made_input(); });
  if (masks() && !problem_.window_transposed && !sizes_.join) clear_weight_rows();
  if (in_rows()) {
    emit_if(builder_, grid_->fresh(0),
            [this] { sizes_.lines.emit(builder_, memory_, grid_->input(0), lined_up_); });
  }
  clear_outside();
  if (sizes_.join) join();
  if (has_gaps()) {
    memory_.clear(sums_apart() ? VmemAddress(sums_) : grid_->output(0), sizes_.sum_rows);
  }
  builder_.new_block();
  if (!taps_.empty()) multiply();
  if (sums_apart()) finish();
}

/// Whether a step's last tile of contracted features is the last one; none: it is.
PReg ConvolutionKernel::is_last_tile(SReg contracted) {
  if (!contracted) return {};
  return builder_.equal(contracted, sizes_.contracted_tiles / tiling_.contracted_parts - 1);
}

SReg ConvolutionKernel::tap_word(const Digits& digits, std::uint32_t word, SReg base) {
  const SReg found = table_word(builder_, tap_words_ + word, kTapWords, digits[kTap]);
  return base ? builder_.add(found, base) : found;
}

/// VMEM rows of the slab from what makes a line, and a pixel, of the result to what makes the next.
std::uint32_t ConvolutionKernel::slab_line() const {
  if (sizes_.join) return sizes_.join->y.result_step * sizes_.join->line_rows;
  const auto step = static_cast<std::uint32_t>(height().stride);
  if (in_rows()) return step * sizes_.lines.image_line();
  return step * sizes_.slab_x * sizes_.input_pixel;
}
std::uint32_t ConvolutionKernel::slab_pixel() const {
  if (sizes_.join) return sizes_.join->x.result_step * sizes_.join->pixel_rows;
  return static_cast<std::uint32_t>(width().stride) * (in_rows() ? 8 : sizes_.input_pixel);
}

/// Where the rows of the slab begin that stream in a step.
std::vector<SReg> ConvolutionKernel::slab_places(const VmemAddress& slab, const Digits& digits) {
  const ConvolutionTiling& t = tiling_;
  const SReg row = weighted_sum(builder_, digits,
                                {0, 0, t.contracted_parts * sizes_.input_part,
                                 t.chunk_y * slab_line(), t.chunk_x * slab_pixel()},
                                tap_word(digits, 0, slab.base));
  return {row};
}

/// The rows there. `contracted`: the step's digit.
Contraction::Tiles ConvolutionKernel::slab_rows(const VmemAddress& slab, SReg row,
                                                SReg contracted) {
  const std::uint32_t parts = tiling_.contracted_parts;
  const std::uint32_t line = slab_line(), pixel = slab_pixel();
  const ElementType type = in_rows() ? ElementType::kF32 : problem_.input_type;
  const int between_rows = in_rows() ? static_cast<int>(width().stride) : 1;
  const VReg mask = masks() && !sizes_.join ? memory_.mask(type, is_last_tile(contracted)) : VReg();
  return loaded_once(
      [=](std::uint32_t unit, std::uint32_t i, std::uint32_t part) {
        const std::uint32_t at = row_of(unit, i), number = at / tiling_.block_rows;
        const std::uint32_t tile = at % tiling_.block_rows * sizes_.contracted_tiles + part;
        return number / tiling_.chunk_x * line + number % tiling_.chunk_x * pixel +
               tile * sizes_.input_part;
      },
      [=](std::uint32_t at, std::uint32_t part) {
        return memory_.load_rows(type, VmemAddress(slab.region, at, row).stride(between_rows),
                                 part + 1 == parts ? mask : VReg());
      });
}

/// What the window is stored as where it is loaded from.
ElementType ConvolutionKernel::window_type() const {
  return sizes_.join ? ElementType::kF32 : problem_.window_type;
}

/// From a tile of weights to the next one along the contracted features, and along the columns.
std::uint32_t ConvolutionKernel::window_part() const {
  return (problem_.window_transposed ? 1 : 16 * tiling_.block_columns) * tile_rows(window_type());
}
std::uint32_t ConvolutionKernel::window_column() const {
  return (problem_.window_transposed ? 16 * sizes_.contracted_tiles : 1) * tile_rows(window_type());
}

/// Where the tiles of the window begin that a step multiplies by; its digit along the contracted
/// features, where tiles have padding there.
std::vector<SReg> ConvolutionKernel::window_places(const VmemAddress& window,
                                                   const Digits& digits) {
  const ConvolutionTiling& t = tiling_;
  const SReg base = weighted_sum(
      builder_, digits,
      {t.columns_at_once * window_column(), 0, t.contracted_parts * window_part(), 0, 0},
      tap_word(digits, 1, window.base));
  return {base, masks_window() ? digits[kContracted] : SReg()};
}

/// The tiles there.
Contraction::Tiles ConvolutionKernel::window_tiles(const VmemAddress& window,
                                                   const std::vector<SReg>& places) {
  const bool transposed = problem_.window_transposed;
  const std::uint32_t parts = tiling_.contracted_parts;
  const ElementType type = window_type();
  const std::uint32_t part_rows = window_part(), column = window_column();
  const SReg base = places[0];
  const VReg mask = masks_window() ? memory_.mask(type, is_last_tile(places[1])) : VReg();
  const auto load = loaded_once(
      [=](std::uint32_t unit, std::uint32_t j, std::uint32_t part) {
        const std::uint32_t row = transposed ? sizes_.contracted_tiles : tiling_.block_columns;
        return part * part_rows + units_.column_of(unit) * column +
               (15 - j) * row * tile_rows(type);
      },
      [=](std::uint32_t at, std::uint32_t part) {
        return memory_.load_weights(type, {window.region, at, base},
                                    part + 1 == parts ? mask : VReg());
      });
  const std::uint32_t row_tiles =
      sizes_.join ? JoinedWeights::row_tiles(problem_, *sizes_.join, 1) : sizes_.window_row_tiles;
  return [=](std::uint32_t unit, std::uint32_t j, std::uint32_t part) {
    if (15 - j >= row_tiles) return builder_.vector(isa::Opcode::kVmov, 0.0F);
    return load(unit, j, part);
  };
}

/// Where a step's sums stand, and whether they begin.
RunningSums::Place ConvolutionKernel::sums_at(const VmemAddress& sums, const Digits& digits) {
  const ConvolutionTiling& t = tiling_;
  const SReg row =
      weighted_sum(builder_, digits,
                   {t.columns_at_once * 8, 0, 0, t.chunk_y * sum_line(), t.chunk_x * sum_pixel()},
                   tap_word(digits, 2, sums.base));
  SReg mask = tap_word(digits, 3);
  if (digits[kContracted]) {
    mask = builder_.select(builder_.equal(digits[kContracted], 0), mask, 0xff);
  }
  return {row, mask};
}

void ConvolutionKernel::multiply() {
  const ConvolutionTiling& t = tiling_;
  const VmemAddress slab = joiner_     ? VmemAddress(joiner_->region())
                           : in_rows() ? VmemAddress(lined_up_)
                                       : grid_->input(0);
  const VmemAddress window =
      joined_weights_ ? VmemAddress(joined_weights_->region()) : grid_->input(1);
  const VmemAddress sums = sums_apart() ? VmemAddress(sums_) : grid_->output(0);
  RunningSums::Form form;
  form.has_masks = true;
  form.offset = [this](std::uint32_t unit, std::uint32_t i) {
    const std::uint32_t row = row_of(unit, i), pixel = row / tiling_.block_rows;
    return pixel / tiling_.chunk_x * sum_line() + pixel % tiling_.chunk_x * sum_pixel() +
           (row % tiling_.block_rows * tiling_.block_columns + units_.column_of(unit)) * 8;
  };
  form.lot = pushes_;
  RunningSums running(builder_, units_, sums, form);
  Contraction steps;
  steps.extents = {t.block_columns / t.columns_at_once, steps_taps(),
                   sizes_.contracted_tiles / t.contracted_parts, t.block_y / t.chunk_y,
                   t.pixels_x / t.chunk_x};
  steps.pushes = pushes_;
  steps.transposed = problem_.window_transposed;
  steps.parts = problem_.parts;
  steps.steps_at_once = 1;  // Two may need more scalar registers than there are.
  steps.moving.places = [&](const Digits& digits) { return slab_places(slab, digits); };
  steps.moving.tiles = [&](const Digits& present, const std::vector<SReg>& places) {
    return slab_rows(slab, places[0], present[kContracted]);
  };
  steps.stationary.places = [&](const Digits& digits) { return window_places(window, digits); };
  steps.stationary.tiles = [&](const Digits&, const std::vector<SReg>& places) {
    return window_tiles(window, places);
  };
  steps.sums = [&](const Digits& digits, PReg started) {
    return digits.empty() ? running.end() : running.at(sums_at(sums, digits), started);
  };
  steps.advance = [&] { running.advance(); };
  emit_steps(builder_, stream_, steps);
}

/// Complete sums become results.
void ConvolutionKernel::finish() {
  if (!results_.is_identity()) apply_epilogue();
  round_results(memory_, *grid_, unrounded_, sizes_.sum_rows / 8);
}

void ConvolutionKernel::apply_epilogue() {
  const std::uint32_t unroll = largest_divisor(tiling_.block_rows, 8);
  const std::uint32_t pixels = largest_divisor(run(), 8 / unroll);
  builder_.new_block();
  StepCounter counter(builder_, {tiling_.block_columns, sizes_.out_y * sizes_.out_x / run(),
                                 run() / pixels, tiling_.block_rows / unroll});
  builder_.loop(counter.steps(), [&](SReg) {
    apply_to_pixels(counter.present(), pixels, unroll);
    counter.advance(counter.next());
  });
  builder_.new_block();
}

/// Sublanes of a tile that lie in the result, for sums.
Index ConvolutionKernel::valid_rows(Index y, Index x, Index tile) {
  const std::uint32_t rows = in_rows() ? 8 : problem_.rows - (sizes_.row_tiles - 1) * 8;
  SReg valid;
  const auto keep = [&](PReg inside, std::uint32_t otherwise) {
    valid = builder_.select(inside, valid ? ScalarOperand(valid) : ScalarOperand(8U), otherwise);
  };
  if (rows < 8 && sizes_.row_tiles > 1) {
    keep(builder_.less(to_operand(builder_, tile), sizes_.row_tiles - 1), rows);
  } else if (rows < 8) {
    valid = builder_.constant(rows);
  }
  if (has_part_of_tile()) {
    keep(builder_.less(to_operand(builder_, x), sizes_.result_x - 1),
         static_cast<std::uint32_t>(width().output % 8));
  }
  if (has_x_outside()) {
    keep(builder_.less(to_operand(builder_, x), sizes_.result_x), 0);
  }
  if (has_y_outside()) {
    const Index first{weighted_sum(builder_, {grid_->index(kY)}, {sizes_.out_y}), 0};
    const Index row = add(builder_, first, y);
    keep(builder_.less(to_operand(builder_, row), static_cast<std::uint32_t>(height().output)), 0);
  }
  return valid ? Index{valid, 0} : Index{{}, 8};
}

/// `unroll` tiles of each of some neighbouring pixels of the block.
void ConvolutionKernel::apply_to_pixels(const std::vector<SReg>& digits, std::uint32_t pixels,
                                        std::uint32_t unroll) {
  const std::uint32_t columns = tiling_.block_columns;
  const std::uint32_t pixel_tiles = tiling_.block_rows * columns;
  const SReg tiles = weighted_sum(builder_, digits,
                                  {1, run() * pixel_tiles, pixels * pixel_tiles, unroll * columns});
  TileExpressionEmitter::Position position;
  if (tiles) {
    position.rows32 = builder_.shift_left(tiles, 3);
    position.rows16 = builder_.shift_left(tiles, 2);
  }
  std::vector<VmemAddress> blocks;
  for (int input : epilogue_inputs_) blocks.push_back(grid_->input(input));
  results_.begin(blocks);
  std::vector<VmemAddress> outs;
  for (std::size_t i = 0; i < unrounded_.size(); ++i) {
    outs.push_back(is_packed(problem_.result_types[i]) ? VmemAddress(unrounded_[i])
                                                       : grid_->output(static_cast<int>(i)));
    outs.back().base2 = position.rows32;
  }
  // Nothing depends on another dimension: matmul_epilogue() sees to it.
  std::vector<Index>& place_of = position.place.digits;
  place_of.resize(static_cast<std::size_t>(epilogue_.out_shape.rank()));
  Index& row_digit = place_of[place_of.size() - 2];
  const Index row{
      weighted_sum(builder_, {grid_->index(kRows), digits[3]}, {tiling_.block_rows, unroll}), 0};
  place_of.back() = {weighted_sum(builder_, {grid_->index(kColumns), digits[0]}, {columns, 1}), 0};
  position.place.lane_key = 0;
  const Index whole{digits[1], 0}, part{weighted_sum(builder_, {digits[2]}, {pixels}), 0};
  results_.begin_row_sums(unroll);
  for (std::uint32_t i = 0; i < pixels * unroll; ++i) {
    const std::uint32_t pixel = i / unroll, tile = i % unroll;
    position.tiles = std::int64_t{pixel * tiling_.block_rows + tile} * columns;
    position.place.row_key = static_cast<int>(i);
    const Index place = part.plus(pixel);
    row_digit = !in_rows() ? row.plus(tile) : is_column() ? whole : place;
    if (epilogue_.has_sums()) {
      position.valid_rows =
          valid_rows(is_column() ? place : whole, is_column() ? whole : place, row.plus(tile));
    }
    const VReg product = builder_.load({sums_, 8 * position.tiles, position.rows32});
    const std::vector<VReg> results = results_.apply(position, product);
    for (std::size_t r = 0; r < outs.size(); ++r) {
      builder_.store(outs[r].plus(8 * position.tiles), results[r]);
    }
  }
  results_.end(position);
  results_.end_row_sums(row, place_of.back());
}

}  // namespace

LoweredKernel convolution_kernel(const ConvolutionProblem& problem, const ConvolutionTiling& tiling,
                                 const MatmulEpilogue& epilogue, const Target& target) {
  return ConvolutionKernel(problem, tiling, epilogue, target).emit();
}

}  // namespace tpu::compiler
