#include "workloads/compiler/kernels/contraction/convolution_depthwise_kernel.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>

#include "sim/base/ceil_divide.h"
#include "sim/base/error.h"
#include "workloads/compiler/kernels/contraction/contraction_blocks.h"
#include "workloads/compiler/kernels/contraction/pixel_lines.h"
#include "workloads/compiler/kernels/elementwise/elementwise_memory.h"
#include "workloads/compiler/kernels/refusal.h"
#include "workloads/compiler/kernels/tiles/step_counter.h"
#include "workloads/compiler/kernels/tiles/tile_grid.h"

namespace tpu::compiler {

namespace {

using hlo::HloOpcode;
using isa::Opcode;

/// What a piece of straight code costs beside its pixels, and how much longer the whole takes than
/// its operations: chosen with 14 convolutions in view (7 to 56 pixels a row, windows of 3x3 to
/// 7x7).
constexpr std::int64_t kStraightCodeCycles = 8;
constexpr double kScheduleFactor = 1.17;
/// Pixels of such a piece, at most: their sums and the pixels that they meet stand in registers.
constexpr std::int64_t kMostPixels = 8;

/// An image of one pixel a row: straight code goes along its column. (Where phases take turns in
/// the column it goes along rows, as elsewhere.)
bool is_column(const ConvolutionProblem& problem) {
  const auto& [height, width] = problem.spatial;
  return !problem.pixels_in_rows && width.input == 1 && width.window == 1 && width.output == 1 &&
         width.padding == 0 && height.base_dilation == 1;
}

/// Pixels of a row, or of a column, that one piece of straight code works on, and what all of the
/// row takes for one tile of a pixel.
struct RowWork {
  std::uint32_t pixels;
  std::int64_t cycles;
};

/// Of a row of `results`: with more of them fewer pixels of the input are loaded (and unpacked)
/// again, with fewer of them less is computed behind the end of the row.
RowWork row_work(const ConvolutionProblem& problem, std::int64_t results) {
  const bool gradient = problem.contracts_rows;
  const auto window = [gradient](const SpatialDimension& s) {
    return ceil_divide(gradient ? s.output : s.window, s.base_dilation);
  };
  const std::size_t along = is_column(problem) ? 0 : 1;
  const std::int64_t y = window(problem.spatial[1 - along]), x = window(problem.spatial[along]);
  const std::int64_t step =
      gradient ? problem.spatial[along].window_dilation : problem.spatial[along].stride;
  RowWork best{0, 0};
  for (std::int64_t pixels = 1; pixels <= kMostPixels; ++pixels) {
    const std::int64_t met = std::min(pixels * x, (pixels - 1) * step + x);
    const bool unpacks = is_packed(problem.input_type) && !problem.pixels_in_rows;
    const std::int64_t unpacked = unpacks ? y * met : 0;
    const std::int64_t cycles =
        ceil_divide(results, pixels) * (y * x * pixels + unpacked + kStraightCodeCycles);
    if (best.pixels == 0 || cycles <= best.cycles)
      best = {static_cast<std::uint32_t>(pixels), cycles};
  }
  return best;
}

/// Registers that a row of pixels takes in each tile of features: with pixels in rows eight of them
/// share one.
std::int64_t row_units(const ConvolutionProblem& problem, std::int64_t pixels) {
  return problem.pixels_in_rows ? tiles_of(pixels, isa::kSublanes) : pixels;
}

/// Sizes that follow from a problem and its cut: a block is some rows of pixels over some rows of
/// tiles of each pixel. With pixels in rows those of a row are counted by eights, but in shifts.
struct Sizes {
  Sizes(const ConvolutionProblem& problem, std::uint32_t rows, std::uint32_t y);
  /// Rows and groups of pixels of a block that loops go through.
  std::uint32_t walked_y() const { return column ? 1 : block_y; }
  std::uint32_t walked_groups() const { return column ? block_y / pixels : groups; }
  /// What all blocks are expected to take: their transfers or their work, whichever is more, the
  /// transfers at both ends, and a wait between blocks.
  double cycles(const Target& target) const;

  std::uint32_t row_tiles, lane_tiles;  ///< Of a pixel.
  std::uint32_t row_blocks;             ///< Along the rows of tiles, or images.
  std::uint32_t input_x, other_x;  ///< Pixels of a row of the input and of the result, or gradient.
  std::uint32_t block_rows, block_y;
  std::uint32_t feature_tiles;  ///< Of 128, as the window has them.
  std::int64_t first_y = 0, first_x = 0;
  bool column;                   ///< Straight code goes along the column; blocks have whole pieces.
  std::uint32_t pixels;          ///< Of a row, or of the column, in a piece of straight code.
  std::uint32_t slab_y, slab_x;  ///< Pixels of the input that a block reads.
  std::uint32_t pixels_y, groups;
  std::uint32_t out_y, out_x;  ///< Pixels of the result, or of its gradient, of a block.
  std::uint32_t input_pixel, other_pixel;  ///< VMEM rows.
  std::uint32_t window_features;           ///< Registers of one position of the window.
  std::uint64_t slab_rows, other_rows, vmem_rows;
  double work_cycles;  ///< Of all blocks.
  PixelLines lines;    ///< Of a block with pixels in rows.
};

Sizes::Sizes(const ConvolutionProblem& problem, std::uint32_t rows, std::uint32_t y)
    : block_rows(rows), block_y(y) {
  const auto& [height, width] = problem.spatial;
  const bool lanes = problem.batch_in_lanes;
  const bool in_rows = problem.pixels_in_rows;
  row_tiles = in_rows ? 1 : tiles_of(lanes ? problem.columns : problem.rows, 8);
  row_blocks = in_rows ? problem.images : row_tiles / rows;
  lane_tiles = tiles_of(lanes ? problem.rows : problem.columns, 128);
  feature_tiles = tiles_of(problem.columns, 128);
  const bool gradient = problem.contracts_rows;
  column = is_column(problem);
  const auto phases_y = static_cast<std::uint32_t>(height.base_dilation);
  const auto phases_x = static_cast<std::uint32_t>(width.base_dilation);
  std::int64_t last_y = 0, last_x = 0, step_y = height.stride, step_x = width.stride;
  RowWork work{};
  if (gradient) {
    first_y = -height.padding;
    first_x = -width.padding;
    last_y = (height.output - 1) * height.stride - height.padding;
    last_x = (width.output - 1) * width.stride - width.padding;
    step_y = height.window_dilation;
    step_x = width.window_dilation;
    pixels_y = static_cast<std::uint32_t>(height.window);
    const std::int64_t units = row_units(problem, width.window);
    work = row_work(problem, column ? height.window : units);
    pixels = work.pixels;
    groups = column ? 1 : tiles_of(units, pixels);
  } else {
    const std::vector<Tap> taps = taps_of(problem);
    for (std::size_t i = 0; i < taps.size(); ++i) {
      first_y = i == 0 ? taps[i].shift[0] : std::min(first_y, taps[i].shift[0]);
      first_x = i == 0 ? taps[i].shift[1] : std::min(first_x, taps[i].shift[1]);
      last_y = i == 0 ? taps[i].shift[0] : std::max(last_y, taps[i].shift[0]);
      last_x = i == 0 ? taps[i].shift[1] : std::max(last_x, taps[i].shift[1]);
    }
    pixels_y = tiles_of(height.output, phases_y);
    const std::int64_t units = row_units(problem, tiles_of(width.output, phases_x));
    work = row_work(problem, column ? pixels_y : units);
    pixels = work.pixels;
    groups = column ? 1 : tiles_of(units, pixels);
  }
  const std::uint32_t row_pixels = column ? 1 : groups * pixels;
  slab_y = static_cast<std::uint32_t>((y - 1) * step_y + last_y - first_y + 1);
  slab_x = static_cast<std::uint32_t>((row_pixels - 1) * step_x + last_x - first_x + 1);
  input_x = static_cast<std::uint32_t>(row_units(problem, width.input));
  other_x = static_cast<std::uint32_t>(row_units(problem, gradient ? width.window : width.output));
  out_y = y * phases_y;
  out_x = row_pixels * phases_x;
  const std::uint32_t tiles = rows * lane_tiles;
  const hlo::ElementType other = gradient ? problem.window_type : problem.out_type();
  input_pixel = tiles * tile_rows(problem.input_type);
  other_pixel = tiles * tile_rows(other);
  if (in_rows) {
    lines.lines = slab_y;
    lines.tiles = lane_tiles;
    lines.type = problem.input_type;
    lines.set_line(width.input, first_x, (8 * std::int64_t{row_pixels} - 1) * step_x + last_x);
    slab_x = input_x;
  }
  slab_rows = std::uint64_t{slab_y} * slab_x * input_pixel;
  other_rows = std::uint64_t{out_y} * out_x * other_pixel;
  window_features = lanes ? rows : lane_tiles;
  const auto positions = static_cast<std::uint64_t>(gradient ? height.output * width.output
                                                             : height.window * width.window);
  vmem_rows = 2 * slab_rows + 2 * other_rows + lines.rows() +
              positions * (window_features + feature_tiles) * 8 + 2048;
  const double blocks_y = tiles_of(pixels_y, y), walked = column ? 1 : blocks_y * y;
  work_cycles = kScheduleFactor * double(row_blocks) * rows * lane_tiles * walked * phases_y *
                    phases_x * static_cast<double>(work.cycles) +
                row_blocks * blocks_y * lines.cycles();
}

double Sizes::cycles(const Target& target) const {
  const double blocks = double(row_blocks) * tiles_of(pixels_y, block_y);
  const double block = double(slab_rows + other_rows) * isa::kVmemRowBytes /
                       static_cast<double>(target.hbm_bytes_per_cycle);
  return std::max(blocks * block, work_cycles) + block + blocks * target.dma_latency_cycles;
}

/// The cut that is expected to take least.
OrRefusal<Sizes> find_sizes(const ConvolutionProblem& problem, const Target& target) {
  const Sizes whole(problem, 1, 1);
  std::optional<Sizes> best;
  double least = 0;
  for (std::uint32_t rows = 1; rows <= whole.row_tiles; ++rows) {
    if (whole.row_tiles % rows != 0) continue;
    const std::uint32_t step = whole.column ? whole.pixels : 1;
    for (std::uint32_t y = step; y < whole.pixels_y + step; y += step) {
      const Sizes sizes(problem, rows, y);
      if (sizes.vmem_rows * isa::kVmemRowBytes > target.vmem_bytes) break;
      const double cost = sizes.cycles(target);
      if (best && cost >= least) continue;
      best = sizes;
      least = cost;
    }
  }
  if (!best) {
    return Refusal{"convolution " + problem.name + ": no cut of a depthwise convolution of " +
                   std::to_string(problem.columns) + " features fits the VMEM of " +
                   std::to_string(target.vmem_bytes) + " bytes"};
  }
  return *best;
}

/// Emits a depthwise convolution, its input gradient or its weight gradient, on the vector unit in
/// fp32: each feature meets its own kernel alone, which leaves an MXU nothing to add.
///
/// Pixels are matrices of tiles, with the batch in the rows or in the lanes; the kernel's value of
/// a position is the same for all of the batch: a row in all sublanes, or spread over the lanes
/// once per block of features. Rows of the input stand in VMEM with a border of zeros. Takes no
/// operations behind the product.
///
/// With the pixels in the rows of tiles eight neighbours are multiplied at once, each image by
/// itself; a position of the window begins at any pixel of the rows, which are lined up for it.
class DepthwiseKernel {
 public:
  DepthwiseKernel(const ConvolutionProblem& problem, const Sizes& sizes,
                  const MatmulEpilogue& epilogue, const Target& target)
      : problem_(problem),
        sizes_(sizes),
        taps_(taps_of(problem)),
        builder_(epilogue.kernel_name, target),
        tiles_(builder_, true, true),
        clearing_(builder_, problem.pixels_in_rows && is_packed(problem.input_type), false) {
    addresses_ = store_addresses(builder_, epilogue);
  }

  LoweredKernel emit() {
    if (!gradient()) fetch_window();
    make_grid();
    if (gradient()) clear_sums();
    clear_borders();
    builder_.new_block();
    grid_->run([this] { work(); });
    if (gradient()) send_sums();
    return lowered_kernel(builder_);
  }

 private:
  // Dimensions of the grid.
  static constexpr int kRows = 0, kY = 1;

  enum Digit : std::size_t { kRow, kLane, kPixelY, kGroup };

  const SpatialDimension& height() const { return problem_.spatial[0]; }
  const SpatialDimension& width() const { return problem_.spatial[1]; }
  bool gradient() const { return problem_.contracts_rows; }
  bool in_lanes() const { return problem_.batch_in_lanes; }
  bool in_rows() const { return problem_.pixels_in_rows; }
  std::uint32_t step_y() const {
    return static_cast<std::uint32_t>(gradient() ? height().window_dilation : height().stride);
  }
  std::uint32_t step_x() const {
    return static_cast<std::uint32_t>(gradient() ? width().window_dilation : width().stride);
  }
  /// Between neighbours in straight code.
  std::uint32_t step() const { return sizes_.column ? step_y() : step_x(); }
  std::uint32_t positions() const {
    return static_cast<std::uint32_t>(gradient() ? height().output * width().output
                                                 : height().window * width().window);
  }
  hlo::ElementType other_type() const {
    return gradient() ? problem_.window_type : problem_.out_type();
  }

  void fetch_window();
  void make_grid();
  ImageShape image(bool input) const;
  /// From the blocks along the rows to the next ones: of images, from one to the next.
  std::uint32_t block_distance(const ImageShape& shape) const {
    return in_rows() ? shape.height * shape.row_stride : shape.row.run;
  }
  void add_input();
  void add_other();
  SReg first_row(const GridPoint& point, std::uint32_t step);
  void clear_borders();
  void line_up();
  void clear_outside();
  void work();
  void spread_window();
  VReg window_value(std::uint32_t position, const std::vector<SReg>& digits);
  VReg input_tile(const VmemAddress& input, std::int64_t pixel, const std::vector<SReg>& digits);
  VmemAddress input_at(const std::vector<SReg>& digits);
  std::int64_t input_pixel(std::int64_t y, std::int64_t x, std::uint32_t i) const;
  VmemAddress tile_at(const VmemAddress& block, std::uint32_t pixel_rows, std::uint32_t tile_rows,
                      const std::vector<SReg>& digits, std::uint32_t pitch_y,
                      std::uint32_t pitch_x);
  void multiply();
  void clear_sums();
  VReg valid(VReg value, const std::vector<SReg>& digits);
  void add_up();
  void finish_lanes();
  void finish_rows();
  void send_sums();

  const ConvolutionProblem& problem_;
  Sizes sizes_;
  std::vector<Tap> taps_;
  KernelBuilder builder_;
  TileMemory tiles_;
  MatmulMemory clearing_;
  std::unique_ptr<TileGrid> grid_;
  std::uint32_t addresses_ = 0;  ///< SMEM: input, window or gradient, result.
  std::shared_ptr<ImageRows> input_rows_, other_rows_;
  std::map<std::int64_t, VReg> input_tiles_;  ///< Loaded in the present piece of straight code.
  VmemRegion window_;                         ///< As it lies in HBM.
  VmemRegion spread_;    ///< With the batch in the lanes: a register per position and row tile.
  VmemRegion lined_up_;  ///< The rows of a block of pixels in rows.
  VmemRegion sums_;      ///< Of a weight gradient: a register per position and tile of features.
  VmemRegion result_;    ///< Of a weight gradient: one row per position, as fp32 tiles.
};

void DepthwiseKernel::fetch_window() {
  const std::uint32_t granules =
      positions() * sizes_.feature_tiles * tile_granules(problem_.window_type);
  window_ = builder_.allocate_vmem(2 * granules);
  const std::uint32_t flag = builder_.allocate_flag();
  builder_.dma_in(builder_.load_smem(addresses_ + 1), window_, granules, flag);
  builder_.wait(flag, granules);
  if (in_lanes()) {
    spread_ = builder_.allocate_vmem(std::uint64_t{positions()} * sizes_.block_rows * 8);
  }
}

void DepthwiseKernel::make_grid() {
  grid_ = std::make_unique<TileGrid>(
      builder_,
      std::vector<std::uint32_t>{sizes_.row_blocks, tiles_of(sizes_.pixels_y, sizes_.block_y)});
  if (in_rows()) lined_up_ = builder_.allocate_vmem(sizes_.lines.rows());
  add_input();
  add_other();
}

ImageShape DepthwiseKernel::image(bool input) const {
  const SpatialDimension& y = height();
  const std::uint32_t x = input ? sizes_.input_x : sizes_.other_x;
  const std::uint32_t tile = tile_granules(input ? problem_.input_type : other_type());
  const std::uint32_t pixel = sizes_.row_tiles * sizes_.lane_tiles * tile;
  ImageShape shape;
  shape.height = static_cast<std::uint32_t>(input ? y.input : gradient() ? y.window : y.output);
  shape.row_stride = x * pixel;
  shape.row = {sizes_.block_rows * sizes_.lane_tiles * tile, x, pixel};
  shape.block_rows = input ? sizes_.slab_y : sizes_.out_y;
  shape.pitch = input ? sizes_.slab_x * sizes_.input_pixel : sizes_.out_x * sizes_.other_pixel;
  return shape;
}

SReg DepthwiseKernel::first_row(const GridPoint& point, std::uint32_t step) {
  return point[kY] ? builder_.mul(point[kY], step) : builder_.constant(0);
}

void DepthwiseKernel::add_input() {
  const std::int64_t first = in_rows() ? 0 : sizes_.first_x;
  const std::int64_t begin = std::max<std::int64_t>(0, first);
  const std::int64_t end = std::min<std::int64_t>(sizes_.input_x, first + sizes_.slab_x);
  ImageShape shape = image(true);
  shape.row.runs = static_cast<std::uint32_t>(std::max<std::int64_t>(0, end - begin));
  shape.shift = static_cast<std::int32_t>(sizes_.first_y);
  input_rows_ = std::make_shared<ImageRows>(builder_, true, shape);
  grid_->add_input(image_block(
      input_rows_, {kRows, kY}, static_cast<std::uint32_t>(sizes_.slab_rows),
      [=](const GridPoint& point) {
        const SReg base = weighted_sum(builder_, {point[kRows]}, {block_distance(shape)},
                                       builder_.load_smem(addresses_));
        return builder_.add(base, static_cast<std::uint32_t>(begin) * shape.row.hbm_stride);
      },
      [this](const GridPoint& point) { return first_row(point, sizes_.block_y * step_y()); },
      (begin - first) * sizes_.input_pixel));
}

/// The result, or its gradient.
void DepthwiseKernel::add_other() {
  const ImageShape shape = image(false);
  other_rows_ = std::make_shared<ImageRows>(builder_, gradient(), shape);
  const std::uint32_t word = addresses_ + (gradient() ? 1 : 2);
  const TileGrid::Block block = image_block(
      other_rows_, {kRows, kY}, static_cast<std::uint32_t>(sizes_.other_rows),
      [=](const GridPoint& point) {
        return weighted_sum(builder_, {point[kRows]}, {block_distance(shape)},
                            builder_.load_smem(word));
      },
      [this](const GridPoint& point) { return first_row(point, sizes_.out_y); });
  gradient() ? grid_->add_input(block) : grid_->add_output(block);
}

/// Pixels of the blocks that no DMA writes are 0 for good.
void DepthwiseKernel::clear_borders() {
  const VmemRegion slab = in_rows() ? lined_up_ : grid_->input_region(0);
  clearing_.clear({slab, 0}, slab.rows);
  if (gradient() && sizes_.out_x != sizes_.other_x) {
    const VmemRegion other = grid_->input_region(1);
    clearing_.clear({other, 0}, other.rows);
  }
  builder_.new_block();
}

/// New blocks of pixels in rows.
void DepthwiseKernel::line_up() {
  emit_if(builder_, grid_->fresh(0),
          [this] { sizes_.lines.emit(builder_, clearing_, grid_->input(0), lined_up_); });
  if (!gradient() || width().window % isa::kSublanes == 0) return;
  emit_if(builder_, grid_->fresh(1), [this] {
    clear_line_ends(builder_, clearing_, problem_.window_type, grid_->input(1), sizes_.out_y,
                    sizes_.out_x * sizes_.other_pixel, static_cast<std::uint32_t>(width().window),
                    sizes_.lane_tiles);
  });
}

/// Rows of a block that lie outside of the image are 0 for this block.
void DepthwiseKernel::clear_outside() {
  GridPoint point(2);
  point[kY] = grid_->index(kY);
  const std::int64_t blocks = tiles_of(sizes_.pixels_y, sizes_.block_y);
  if (gradient() && blocks * sizes_.block_y != sizes_.pixels_y) {
    clear_rows_outside(builder_, clearing_, *other_rows_, first_row(point, sizes_.out_y),
                       grid_->input(1), sizes_.out_y, sizes_.out_x * sizes_.other_pixel);
  }
  const std::uint32_t step = sizes_.block_y * step_y();
  const std::int64_t end = (blocks - 1) * step + sizes_.first_y + sizes_.slab_y;
  if (sizes_.first_y >= 0 && end <= height().input) return;
  clear_rows_outside(builder_, clearing_, *input_rows_, first_row(point, step),
                     in_rows() ? VmemAddress(lined_up_) : grid_->input(0), sizes_.slab_y,
                     in_rows() ? sizes_.lines.image_line() : sizes_.slab_x * sizes_.input_pixel);
}

void DepthwiseKernel::work() {
  if (!gradient() && in_lanes()) {
    emit_if(builder_, grid_->is_first(kY), [this] { spread_window(); });
  }
  if (in_rows()) line_up();
  clear_outside();
  builder_.new_block();
  gradient() ? add_up() : multiply();
  builder_.new_block();
  if (gradient() && in_lanes()) {
    emit_if(builder_, grid_->is_last(kY), [this] { finish_lanes(); });
  }
}

/// Values of the block's features, each in all lanes of its row.
void DepthwiseKernel::spread_window() {
  builder_.new_block();
  StepCounter counter(builder_, {positions(), sizes_.block_rows});
  builder_.loop(counter.steps(), [&](SReg index) {
    const std::vector<SReg> digits = counter.present();
    SReg tile = weighted_sum(builder_, {grid_->index(kRows), digits[1]}, {sizes_.block_rows, 1});
    if (!tile) tile = builder_.constant(0);
    const std::uint32_t rows = tile_rows(problem_.window_type);
    SReg row = builder_.mul(builder_.shift_right(tile, 4), rows);
    if (digits[0]) {
      row = builder_.add(row, builder_.mul(digits[0], sizes_.feature_tiles * rows));
    }
    const VReg values = tiles_.load_row(problem_.window_type, window_, {row, 0}, {});
    const VReg sequence = builder_.lane_sequence();
    const VReg lane = builder_.and_(sequence, 127);
    const VReg position =
        builder_.vector(Opcode::kVsubS32, lane, builder_.shift_right(sequence, 7));
    const SReg first = builder_.shift_left(builder_.and_(tile, 15), 3);
    const MReg chosen =
        builder_.vector_compare(Opcode::kVcmpEqS32, position, builder_.splat(first));
    builder_.store({spread_, 0, builder_.shift_left(index, 3)},
                   builder_.lane_sum(builder_.select(chosen, values, 0.0F)));
    counter.advance(counter.next());
  });
  builder_.new_block();
}

VReg DepthwiseKernel::window_value(std::uint32_t position, const std::vector<SReg>& digits) {
  if (in_lanes()) {
    const SReg row = digits[kRow] ? builder_.shift_left(digits[kRow], 3) : SReg();
    return builder_.load({spread_, std::int64_t{position} * sizes_.block_rows * 8, row});
  }
  const std::uint32_t rows = tile_rows(problem_.window_type);
  const SReg row = digits[kLane] ? builder_.mul(digits[kLane], rows) : SReg();
  const Index tile{row, std::int64_t{position} * sizes_.feature_tiles * rows};
  return tiles_.load_row(problem_.window_type, window_, tile, {});
}

/// A pixel of the input, counted from the first one that the piece of code meets. Positions of the
/// window that follow each other meet most pixels again: those are loaded, and unpacked, once.
VReg DepthwiseKernel::input_tile(const VmemAddress& input, std::int64_t pixel,
                                 const std::vector<SReg>& digits) {
  VReg& tile = input_tiles_[pixel];
  if (tile) return tile;
  if (in_rows()) {
    return tile = builder_.load(input.plus(pixel).stride(static_cast<std::int32_t>(step_x())));
  }
  tile = tiles_.load_tile(problem_.input_type, input.plus(pixel * sizes_.input_pixel));
  // In a gradient what lies behind the batch meets a 0, but may be no number.
  if (gradient()) tile = valid(tile, digits);
  return tile;
}

/// Where the input of a straight piece of code begins.
VmemAddress DepthwiseKernel::input_at(const std::vector<SReg>& digits) {
  if (!in_rows()) {
    return tile_at(grid_->input(0), sizes_.input_pixel, tile_rows(problem_.input_type), digits,
                   step_y() * sizes_.slab_x, step());
  }
  VmemAddress address(lined_up_, sizes_.lines.left);
  address.base2 = weighted_sum(builder_, digits,
                               {0, sizes_.lines.line_rows, step_y() * sizes_.lines.image_line(),
                                sizes_.pixels * isa::kSublanes * step_x()});
  return address;
}

/// The pixel of the input, counted as input_tile() does, that lies `y` and `x` pixels from the
/// first one that positions of the window meet, for result `i` of a piece.
std::int64_t DepthwiseKernel::input_pixel(std::int64_t y, std::int64_t x, std::uint32_t i) const {
  if (!in_rows()) return y * sizes_.slab_x + x + i * step();
  return y * sizes_.lines.image_line() + sizes_.first_x + x + i * isa::kSublanes * step_x();
}

/// The first tile of the straight piece of code at these digits.
VmemAddress DepthwiseKernel::tile_at(const VmemAddress& block, std::uint32_t pixel_rows,
                                     std::uint32_t tile_rows, const std::vector<SReg>& digits,
                                     std::uint32_t pitch_y, std::uint32_t pitch_x) {
  VmemAddress address = block;
  address.base2 = weighted_sum(builder_, digits,
                               {sizes_.lane_tiles * tile_rows, tile_rows, pitch_y * pixel_rows,
                                sizes_.pixels * pitch_x * pixel_rows});
  return address;
}

void DepthwiseKernel::multiply() {
  StepCounter counter(
      builder_, {sizes_.block_rows, sizes_.lane_tiles, sizes_.walked_y(), sizes_.walked_groups()});
  const auto phases_y = static_cast<std::uint32_t>(height().base_dilation);
  const auto phases_x = static_cast<std::uint32_t>(width().base_dilation);
  builder_.loop(counter.steps(), [&](SReg) {
    input_tiles_.clear();
    const std::vector<SReg> digits = counter.present();
    const VmemAddress input = input_at(digits);
    const VmemAddress output =
        tile_at(grid_->output(0), sizes_.other_pixel, tile_rows(problem_.out_type()), digits,
                phases_y * sizes_.out_x, phases_x);
    for (std::uint32_t y = 0; y < phases_y; ++y) {
      for (std::uint32_t x = 0; x < phases_x; ++x) {
        std::vector<VReg> sums(sizes_.pixels);
        for (const Tap& tap : taps_) {
          if (tap.phase != std::array<std::uint32_t, 2>{y, x}) continue;
          const VReg value = window_value(tap.window, digits);
          for (std::uint32_t i = 0; i < sizes_.pixels; ++i) {
            const std::int64_t pixel =
                input_pixel(tap.shift[0] - sizes_.first_y, tap.shift[1] - sizes_.first_x, i);
            const VReg product = builder_.mul(input_tile(input, pixel, digits), value);
            sums[i] = sums[i] ? builder_.add(sums[i], product) : product;
          }
        }
        for (std::uint32_t i = 0; i < sizes_.pixels; ++i) {
          const std::int64_t pixel = y * sizes_.out_x + i * phases_x + x;
          tiles_.store_tile(problem_.out_type(), output.plus(pixel * sizes_.other_pixel),
                            sums[i] ? VectorOperand(sums[i]) : VectorOperand(0.0F));
        }
      }
    }
    counter.advance(counter.next());
  });
}

void DepthwiseKernel::clear_sums() {
  sums_ = builder_.allocate_vmem(std::uint64_t{positions()} * sizes_.window_features * 8);
  result_ = builder_.allocate_vmem(std::uint64_t{positions()} * sizes_.feature_tiles * 8);
  clearing_.clear(VmemAddress(sums_), sums_.rows);
  clearing_.clear(VmemAddress(result_), result_.rows);
}

/// The value where its row or lane belongs to the batch, else 0. Lanes of a single tile are left to
/// the end.
VReg DepthwiseKernel::valid(VReg value, const std::vector<SReg>& digits) {
  if (in_rows()) return value;
  if (in_lanes()) {
    if (problem_.rows % 128 == 0 || sizes_.lane_tiles == 1) return value;
    const SReg lanes = builder_.sub(problem_.rows, builder_.shift_left(digits[kLane], 7));
    const MReg inside = builder_.vector_compare(
        Opcode::kVcmpLtS32, builder_.and_(builder_.lane_sequence(), 127), builder_.splat(lanes));
    return builder_.select(inside, value, 0.0F);
  }
  if (problem_.rows % 8 == 0) return value;
  const SReg tile = weighted_sum(builder_, {grid_->index(kRows), digits[kRow]},
                                 {sizes_.block_rows, 1}, builder_.constant(0));
  const SReg rows = builder_.sub(problem_.rows, builder_.shift_left(tile, 3));
  const MReg inside = builder_.vector_compare(
      Opcode::kVcmpLtS32, builder_.shift_right(builder_.lane_sequence(), 7), builder_.splat(rows));
  return builder_.select(inside, value, 0.0F);
}

/// A weight gradient: products of the gradient's pixels and those of the input that meet them.
void DepthwiseKernel::add_up() {
  StepCounter counter(
      builder_, {sizes_.block_rows, sizes_.lane_tiles, sizes_.walked_y(), sizes_.walked_groups()});
  const auto window_x = static_cast<std::uint32_t>(width().output);
  builder_.loop(counter.steps(), [&](SReg) {
    input_tiles_.clear();
    const std::vector<SReg> digits = counter.present();
    const VmemAddress input = input_at(digits);
    const VmemAddress other = tile_at(grid_->input(1), sizes_.other_pixel,
                                      tile_rows(problem_.window_type), digits, sizes_.out_x, 1);
    std::vector<VReg> gradients;
    for (std::uint32_t i = 0; i < sizes_.pixels; ++i) {
      gradients.push_back(valid(
          tiles_.load_tile(problem_.window_type, other.plus(std::int64_t{i} * sizes_.other_pixel)),
          digits));
    }
    const SReg feature = in_lanes() ? digits[kRow] : digits[kLane];
    const SReg row = feature ? builder_.shift_left(feature, 3) : SReg();
    for (std::uint32_t position = 0; position < positions(); ++position) {
      VReg sum;
      for (std::uint32_t i = 0; i < sizes_.pixels; ++i) {
        const std::int64_t pixel = input_pixel(position / window_x * height().stride,
                                               position % window_x * width().stride, i);
        const VReg product = builder_.mul(input_tile(input, pixel, digits), gradients[i]);
        sum = sum ? builder_.add(sum, product) : product;
      }
      const VmemAddress total(sums_, std::int64_t{position} * sizes_.window_features * 8, row);
      builder_.store(total, builder_.add(builder_.load(total), sum));
    }
    counter.advance(counter.next());
  });
}

/// The batch in the lanes: a block's features are complete. Their sums over the lanes go to the
/// lanes of the result, and the next block begins with 0.
void DepthwiseKernel::finish_lanes() {
  builder_.new_block();
  StepCounter counter(builder_, {positions(), sizes_.block_rows});
  builder_.loop(counter.steps(), [&](SReg index) {
    const std::vector<SReg> digits = counter.present();
    SReg tile = weighted_sum(builder_, {grid_->index(kRows), digits[1]}, {sizes_.block_rows, 1});
    if (!tile) tile = builder_.constant(0);
    const VReg sequence = builder_.lane_sequence();
    const VReg lane = builder_.and_(sequence, 127);
    const VmemAddress at(sums_, 0, builder_.shift_left(index, 3));
    VReg value = builder_.load(at);
    builder_.store(at, 0.0F);
    if (problem_.rows % 128 != 0 && sizes_.lane_tiles == 1) {
      const MReg inside =
          builder_.vector_compare(Opcode::kVcmpLtS32, lane, static_cast<int>(problem_.rows % 128));
      value = builder_.select(inside, value, 0.0F);
    }
    const VReg sum = builder_.lane_sum(value);
    const VReg position =
        builder_.vector(Opcode::kVsubS32, lane, builder_.shift_right(sequence, 7));
    const SReg first = builder_.shift_left(builder_.and_(tile, 15), 3);
    const MReg own = builder_.vector_compare(Opcode::kVcmpEqS32, position, builder_.splat(first));
    const VReg row =
        combine_sublanes(builder_, HloOpcode::kAdd, false, builder_.select(own, sum, 0.0F));
    SReg place = builder_.shift_left(builder_.shift_right(tile, 4), 3);
    if (digits[0]) place = builder_.add(place, builder_.mul(digits[0], sizes_.feature_tiles * 8));
    const VmemAddress to(result_, 0, place);
    builder_.store(to, builder_.add(builder_.load(to), row));
    counter.advance(counter.next());
  });
  builder_.new_block();
}

/// The batch in the rows: sums over the sublanes, at the end of the kernel.
void DepthwiseKernel::finish_rows() {
  builder_.new_block();
  builder_.loop(std::uint64_t{positions()} * sizes_.feature_tiles, [&](SReg index) {
    const SReg row = builder_.shift_left(index, 3);
    builder_.store({result_, 0, row}, combine_sublanes(builder_, HloOpcode::kAdd, false,
                                                       builder_.load({sums_, 0, row})));
  });
  builder_.new_block();
}

void DepthwiseKernel::send_sums() {
  if (!in_lanes()) finish_rows();
  const std::uint32_t tiles = positions() * sizes_.feature_tiles;
  VmemRegion from = result_;
  if (is_packed(problem_.out_type())) {
    from = builder_.allocate_vmem(std::uint64_t{tiles} * 4);
    clearing_.round_tiles(result_, VmemAddress(from), tiles);
    builder_.new_block();
  }
  const std::uint32_t flag = builder_.allocate_flag();
  const std::uint32_t granules = tiles * tile_granules(problem_.out_type());
  builder_.dma_out(from, builder_.load_smem(addresses_ + 2), granules, flag);
  builder_.wait(flag, granules);
}

}  // namespace

std::optional<double> depthwise_cycles(const ConvolutionProblem& problem, const Target& target) {
  OrRefusal<Sizes> sizes = find_sizes(problem, target);
  return sizes ? std::optional(sizes->cycles(target)) : std::nullopt;
}

LoweredKernel convolution_depthwise_kernel(const ConvolutionProblem& problem,
                                           const MatmulEpilogue& epilogue, const Target& target) {
  return DepthwiseKernel(problem, find_sizes(problem, target).value(), epilogue, target).emit();
}

}  // namespace tpu::compiler
