#include "workloads/compiler/kernels/convolution_lanes_kernel.h"

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <optional>

#include "sim/base/error.h"
#include "workloads/compiler/kernels/convolution_blocks.h"
#include "workloads/compiler/kernels/matmul_stream.h"
#include "workloads/compiler/kernels/moving_window.h"
#include "workloads/compiler/kernels/step_counter.h"
#include "workloads/compiler/kernels/tile_grid.h"
#include "workloads/compiler/kernels/window_blocks.h"

namespace tpu::compiler {

namespace {

using hlo::ElementType;
using isa::Opcode;
using Split = LanesTiling::Split;
using Rows = EpilogueEmitter::Position::Rows;

/// Emits a forward convolution or an input gradient of arrays (height, width, features, batch).
///
/// A tile of 8 features of a pixel by 128 of the batch is what the MXUs take as 8 rows of weights:
/// the patch of the input that a group of neighbouring pixels of the result meets fills units of 16
/// such tiles, however few features there are. The kernel of the convolution streams past them
/// (MovingWindow): a result has the features of a pixel as rows and the batch as lanes. Sums over
/// the units are kept in VMEM in fp32.
///
/// A position of a unit that a pixel of the group does not meet is multiplied by 0: an infinite or
/// undefined input there makes an undefined result.
class LanesKernel {
 public:
  LanesKernel(const ConvolutionProblem& problem, const LanesTiling& tiling,
              const MatmulEpilogue& epilogue, const Target& target)
      : problem_(problem),
        tiling_(tiling),
        epilogue_(epilogue),
        patches_(problem, tiling.group, tiling.feature_blocks),
        sizes_(problem, tiling, patches_),
        builder_(epilogue.kernel_name, target),
        mxu_units_(matmul_units(tiling, target)),
        stream_(builder_, mxu_units_, tiling.group * tiling.chunk),
        memory_(builder_, is_packed(problem.input_type) || is_packed(problem.window_type),
                is_packed(problem.input_type)),
        results_(builder_, epilogue) {}

  LoweredKernel emit() {
    results_.start();
    addresses_ = store_addresses(builder_, epilogue_);
    store_units();
    make_mask();
    moving_.emplace(builder_, memory_, problem_, patches_, tiling_.block_columns,
                    sizes_.moving_columns);
    make_grid();
    clear_borders();
    builder_.new_block();
    grid_->run([this] { work(); }, [this] { results_.ready(); });
    if (!patches_.units.empty()) stream_.close();
    results_.finish();
    LoweredKernel lowered;
    lowered.kernel = builder_.finish();
    lowered.vmem_bytes = builder_.vmem_bytes();
    return lowered;
  }

 private:
  // Dimensions of the grid.
  static constexpr int kColumns = 0, kLanes = 1, kY = 2, kX = 3, kFeatures = 4;

  const SpatialDimension& height() const { return problem_.spatial[0]; }
  const SpatialDimension& width() const { return problem_.spatial[1]; }
  bool sums_apart() const { return sizes_.sums_apart; }
  std::uint32_t unit_words() const { return patches_.runs + 2; }
  /// The last tile of a pixel's features has rows of padding.
  bool has_padding() const { return problem_.contracted % 8 != 0; }
  /// It stands at the same places of every unit.
  bool masks() const { return has_padding() && patches_.run_tiles == patches_.feature_tiles; }
  /// Some pixels of the result meet nothing.
  bool has_gaps() const;

  void store_units();
  void make_mask();
  void make_grid();
  void add_input();
  void add_window();
  void add_output();
  ImageShape result_image(ElementType type) const;
  SReg result_base(std::uint32_t word, ElementType type, const GridPoint& point);
  SReg first_row(const GridPoint& point, std::uint32_t step);
  /// A part of a row of an image: its first pixel, where it stands in the block, and its pixels.
  struct Segment {
    SReg begin, before, pixels;
  };
  Segment segment(const GridPoint& point, std::uint32_t step, std::int64_t shift,
                  std::uint32_t taken, std::int64_t width);
  Segment input_segment(const GridPoint& point);
  Segment output_segment(const GridPoint& point);
  SReg result_row(ElementType type, const GridPoint& point);
  std::uint32_t input_step() const {
    return tiling_.block_y * static_cast<std::uint32_t>(height().stride);
  }
  void clear_borders();
  void clear_outside();
  void clear_columns_outside();
  void clear_padding();
  void work();
  void multiply();
  std::function<VReg(std::uint32_t, std::uint32_t, std::uint32_t)> patch_weights(
      const std::vector<SReg>& digits);
  void finish();
  MReg inside(SReg y, SReg x);
  void apply_epilogue();
  bool pairs_tiles() const;
  void apply_to_pixels(const std::vector<SReg>& digits, std::uint32_t unroll, std::uint32_t pixels);
  void apply_to_tile(EpilogueEmitter::Position& position);
  void apply_to_pair(EpilogueEmitter::Position& position);

  enum Digit : std::size_t { kUnit, kPixelY, kGroup, kChunk };

  const ConvolutionProblem& problem_;
  const LanesTiling& tiling_;
  const MatmulEpilogue& epilogue_;
  Patches patches_;
  LanesSizes sizes_;
  KernelBuilder builder_;
  MatmulUnits mxu_units_;
  MatmulStream stream_;
  MatmulMemory memory_;
  EpilogueEmitter results_;
  std::optional<MovingWindow> moving_;
  std::unique_ptr<TileGrid> grid_;
  std::uint32_t addresses_ = 0;  ///< SMEM: input, window, result, operands behind the product.
  std::uint32_t units_ = 0;      ///< SMEM: per unit its runs, its sums, the mask of its sums.
  std::optional<ImageRows> input_rows_, output_rows_;
  std::optional<WindowBlocks> window_blocks_;
  std::vector<std::unique_ptr<ImageRows>> epilogue_rows_;
  std::vector<int> epilogue_inputs_;
  std::uint32_t fetched_ = 0;  ///< Pixels of the image in a slab's row, where it is whole.
  VmemRegion sums_, mask_;
};

bool LanesKernel::has_gaps() const {
  const auto starts = std::count_if(patches_.units.begin(), patches_.units.end(),
                                    [](const Patches::Unit& unit) { return unit.starts; });
  return starts != static_cast<std::ptrdiff_t>(sizes_.phases_y * sizes_.phases_x);
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
  grid_ = std::make_unique<TileGrid>(
      builder_, std::vector<std::uint32_t>{sizes_.column_blocks, sizes_.lane_tiles,
                                           tiles_of(sizes_.pixels_y, tiling_.block_y),
                                           tiling_.blocks_x, patches_.blocks});
  add_input();
  add_window();
  add_output();
  if (sums_apart()) sums_ = builder_.allocate_vmem(sizes_.sum_rows);
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

void LanesKernel::add_input() {
  const std::uint32_t tile = tile_granules(problem_.input_type);
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
  shape.row_granules = fetched_ * moved;
  shape.run = whole ? tile : moved;
  shape.run_stride = whole ? sizes_.lane_tiles * tile : features * tile;
  shape.block_rows = sizes_.slab_y;
  shape.shift = static_cast<std::int32_t>(patches_.first[0]);
  shape.pitch = sizes_.slab_x * sizes_.input_pixel;
  input_rows_.emplace(builder_, true, shape);
  TileGrid::Input input;
  input.dimensions = {kLanes, kY, kX, kFeatures};
  input.rows = static_cast<std::uint32_t>(sizes_.slab_rows);
  input.start = [=](const GridPoint& point, const VmemAddress& to, ScalarOperand flag) {
    const Segment part = input_segment(point);
    const SReg base = weighted_sum(builder_, {point[kLanes], point[kFeatures], part.begin},
                                   {tile, moved, pixel}, builder_.load_smem(addresses_));
    SReg row = builder_.mul(part.before, sizes_.input_pixel);
    if (to.base) row = builder_.add(row, to.base);
    input_rows_->start(base, first_row(point, input_step()), {to.region, to.offset, row}, flag,
                       point[kX] ? builder_.mul(part.pixels, moved) : SReg());
  };
  input.granules = [=](const GridPoint& point) {
    const SReg row = point[kX] ? builder_.mul(input_segment(point).pixels, moved) : SReg();
    return ScalarOperand(input_rows_->granules(first_row(point, input_step()), row));
  };
  grid_->add_input(input);
}

void LanesKernel::add_window() {
  const bool turned = problem_.window_transposed;
  WindowShape shape;
  shape.positions = static_cast<std::uint32_t>(height().window * width().window);
  shape.tile_granules = tile_granules(problem_.window_type);
  shape.rows = turned ? sizes_.column_tiles : tiles_of(problem_.contracted, 8);
  shape.columns = turned ? tiles_of(problem_.contracted, 128) : tiles_of(problem_.columns, 128);
  shape.block_rows = turned ? tiling_.block_columns : shape.rows;
  shape.block_columns = turned ? shape.columns : tiles_of(tiling_.block_columns, 16);
  window_blocks_.emplace(builder_, true, shape);
  TileGrid::Input window;
  window.dimensions = {kColumns};
  window.rows = static_cast<std::uint32_t>(sizes_.window_rows);
  window.start = [=](const GridPoint& point, const VmemAddress& to, ScalarOperand flag) {
    window_blocks_->start(builder_.load_smem(addresses_ + 1), turned ? point[kColumns] : SReg(),
                          turned ? SReg() : point[kColumns], to, flag);
  };
  window.granules = [=](const GridPoint& point) {
    return window_blocks_->granules(turned ? point[kColumns] : SReg());
  };
  grid_->add_input(window);
}

ImageShape LanesKernel::result_image(ElementType type) const {
  const std::uint32_t tile = tile_granules(type);
  const std::uint32_t pixel = sizes_.column_tiles * sizes_.lane_tiles * tile;
  const bool all_columns = tiling_.block_columns == sizes_.column_tiles;
  ImageShape shape;
  shape.height = static_cast<std::uint32_t>(height().output);
  shape.row_stride = static_cast<std::uint32_t>(width().output) * pixel;
  shape.row_granules = static_cast<std::uint32_t>(width().output) * tiling_.block_columns * tile;
  shape.run = all_columns ? tile : tiling_.block_columns * tile;
  shape.run_stride = all_columns ? sizes_.lane_tiles * tile : sizes_.column_tiles * tile;
  shape.block_rows = sizes_.out_y;
  shape.pitch = sizes_.out_x * tiling_.block_columns * tile_rows(type);
  return shape;
}

SReg LanesKernel::result_base(std::uint32_t word, ElementType type, const GridPoint& point) {
  const std::uint32_t tile = tile_granules(type);
  const std::uint32_t pixel = sizes_.column_tiles * sizes_.lane_tiles * tile;
  return weighted_sum(builder_, {point[kLanes], point[kColumns], point[kX]},
                      {tile, tiling_.block_columns * tile, sizes_.out_x * pixel},
                      builder_.load_smem(word));
}

/// Granules of a row of a block of the result; none: those of the whole row.
SReg LanesKernel::result_row(ElementType type, const GridPoint& point) {
  if (!point[kX]) return {};
  return builder_.mul(output_segment(point).pixels, tiling_.block_columns * tile_granules(type));
}

void LanesKernel::add_output() {
  output_rows_.emplace(builder_, false, result_image(problem_.out_type));
  TileGrid::Output output;
  output.dimensions = {kColumns, kLanes, kY, kX};
  output.rows = static_cast<std::uint32_t>(sizes_.out_rows);
  output.start = [this](const GridPoint& point, const VmemAddress& from, ScalarOperand flag) {
    output_rows_->start(result_base(addresses_ + 2, problem_.out_type, point),
                        first_row(point, sizes_.out_y), from, flag,
                        result_row(problem_.out_type, point));
  };
  output.granules = [this](const GridPoint& point) {
    return ScalarOperand(output_rows_->granules(first_row(point, sizes_.out_y),
                                                result_row(problem_.out_type, point)));
  };
  grid_->add_output(output);
  for (std::size_t i = 0; i < epilogue_.operands.size(); ++i) {
    const MatmulEpilogue::Operand& operand = epilogue_.operands[i];
    if (operand.kind != MatmulEpilogue::Operand::Kind::kBlocks) continue;
    const ElementType type = operand.type();
    const ImageShape shape = result_image(type);
    epilogue_rows_.push_back(std::make_unique<ImageRows>(builder_, true, shape));
    ImageRows* rows = epilogue_rows_.back().get();
    const std::uint32_t word = addresses_ + 3 + static_cast<std::uint32_t>(i);
    TileGrid::Input input;
    input.dimensions = {kColumns, kLanes, kY, kX};
    input.rows = shape.pitch * shape.block_rows;
    input.start = [=](const GridPoint& point, const VmemAddress& to, ScalarOperand flag) {
      rows->start(result_base(word, type, point), first_row(point, sizes_.out_y), to, flag,
                  result_row(type, point));
    };
    input.granules = [=](const GridPoint& point) {
      return ScalarOperand(rows->granules(first_row(point, sizes_.out_y), result_row(type, point)));
    };
    epilogue_inputs_.push_back(grid_->add_input(input));
  }
}

/// Pixels of the slabs that no DMA writes are 0 for good.
void LanesKernel::clear_borders() {
  if (patches_.units.empty() || fetched_ == sizes_.slab_x || tiling_.blocks_x > 1) return;
  const VmemRegion region = grid_->input_region(0);
  memory_.clear({region, 0}, region.rows);
  builder_.new_block();
}

/// Rows of the slab above and below the image are 0 for this block.
void LanesKernel::clear_outside() {
  const std::int64_t blocks = tiles_of(sizes_.pixels_y, tiling_.block_y);
  const std::int64_t end =
      (blocks - 1) * std::int64_t{input_step()} + patches_.first[0] + sizes_.slab_y;
  if (patches_.first[0] >= 0 && end <= height().input) return;
  GridPoint point(5);
  point[kY] = grid_->index(kY);
  clear_rows_outside(builder_, memory_, *input_rows_, first_row(point, input_step()),
                     grid_->input(0), sizes_.slab_y, sizes_.slab_x * sizes_.input_pixel);
}

/// Where rows are cut: pixels before the image in the first block and after it in the last one.
void LanesKernel::clear_columns_outside() {
  if (tiling_.blocks_x == 1) return;
  const VmemAddress slab = grid_->input(0);
  const auto clear = [&](std::int64_t first, std::int64_t count) {
    if (count <= 0) return;
    builder_.new_block();
    builder_.loop(sizes_.slab_y, [&](SReg index) {
      SReg row = builder_.mul(index, sizes_.slab_x * sizes_.input_pixel);
      if (slab.base) row = builder_.add(row, slab.base);
      memory_.clear({slab.region, first * sizes_.input_pixel, row},
                    static_cast<std::uint64_t>(count) * sizes_.input_pixel);
    });
    builder_.new_block();
  };
  const std::int64_t step = std::int64_t{tiling_.groups} * tiling_.group * width().stride;
  const std::int64_t last = (tiling_.blocks_x - 1) * step + patches_.first[1];
  const std::int64_t inside = std::min<std::int64_t>(width().input - last, sizes_.slab_x);
  emit_if(builder_, grid_->is_first(kX), [&] { clear(0, -patches_.first[1]); });
  emit_if(builder_, grid_->is_last(kX), [&] { clear(inside, sizes_.slab_x - inside); });
}

/// Rows of padding of the features become 0 where no mask takes them out.
void LanesKernel::clear_padding() {
  if (!has_padding() || masks()) return;
  const VmemAddress slab = grid_->input(0);
  const std::uint32_t last = (patches_.feature_tiles - 1) * tile_rows(problem_.input_type);
  builder_.new_block();
  builder_.loop(std::uint64_t{sizes_.slab_y} * sizes_.slab_x, [&](SReg pixel) {
    SReg row = builder_.mul(pixel, sizes_.input_pixel);
    if (slab.base) row = builder_.add(row, slab.base);
    memory_.clear_rows(problem_.input_type, {slab.region, last, row}, problem_.contracted % 8, 1,
                       1);
  });
  builder_.new_block();
}

void LanesKernel::work() {
  PReg fresh = grid_->fresh(1);
  if (!fresh) {
    for (int dimension : {kLanes, kY, kX, kFeatures}) {
      fresh = both(builder_, fresh, grid_->is_first(dimension));
    }
  }
  emit_if(builder_, fresh, [this] { moving_->make(grid_->input(1)); });
  clear_outside();
  clear_columns_outside();
  clear_padding();
  if (has_gaps()) {
    emit_if(builder_, grid_->is_first(kFeatures), [this] {
      memory_.clear(sums_apart() ? VmemAddress(sums_) : grid_->output(0), sizes_.sum_rows);
    });
  }
  builder_.new_block();
  if (!patches_.units.empty()) multiply();
  if (sums_apart()) emit_if(builder_, grid_->is_last(kFeatures), [this] { finish(); });
}

/// The tiles of a step's patches.
std::function<VReg(std::uint32_t, std::uint32_t, std::uint32_t)> LanesKernel::patch_weights(
    const std::vector<SReg>& digits) {
  const VmemAddress slab = grid_->input(0);
  const auto stride_x = static_cast<std::uint32_t>(width().stride);
  const std::uint32_t row_pitch =
      static_cast<std::uint32_t>(height().stride) * sizes_.slab_x * sizes_.input_pixel;
  const std::uint32_t group_pitch = tiling_.group * stride_x * sizes_.input_pixel;
  const std::uint32_t groups = tiling_.split == Split::kGroups ? mxu_units_.count() : 1;
  const std::uint32_t rows = tiling_.split == Split::kRows ? mxu_units_.count() : 1;
  SReg origin = weighted_sum(builder_, digits, {0, rows * row_pitch, groups * group_pitch, 0});
  if (slab.base) origin = origin ? builder_.add(origin, slab.base) : slab.base;
  const SReg entry = digits[kUnit] ? builder_.mul(digits[kUnit], unit_words()) : SReg();
  auto bases = std::make_shared<std::vector<SReg>>(patches_.runs);
  const VReg mask = masks() ? builder_.load(VmemAddress(mask_)) : VReg();
  const std::uint32_t distance = groups > 1 ? group_pitch : rows > 1 ? row_pitch : 0;
  const std::uint32_t tile = tile_rows(problem_.input_type);
  auto cached = std::make_shared<std::pair<std::uint32_t, VReg>>(~0U, VReg());
  return [=](std::uint32_t unit, std::uint32_t j, std::uint32_t) {
    if (distance == 0 && cached->first == j) return cached->second;
    const std::uint32_t number = 15 - j, in_run = number % patches_.run_tiles;
    // Read from the table when it is needed: there are few scalar registers.
    SReg& base = (*bases)[number / patches_.run_tiles];
    const std::uint32_t word = units_ + number / patches_.run_tiles;
    if (!base) base = entry ? builder_.load_smem(word, entry) : builder_.load_smem(word);
    const VmemAddress from(slab.region, std::int64_t{in_run} * tile + unit * distance, base,
                           origin);
    const bool last = masks() && in_run + 1 == patches_.run_tiles;
    *cached = {j, memory_.load_weights(problem_.input_type, from, last ? mask : VReg())};
    return cached->second;
  };
}

void LanesKernel::multiply() {
  const LanesTiling& t = tiling_;
  const VmemAddress sums = sums_apart() ? VmemAddress(sums_) : grid_->output(0);
  const std::uint32_t groups = t.split == Split::kGroups ? mxu_units_.count() : 1;
  const std::uint32_t rows = t.split == Split::kRows ? mxu_units_.count() : 1;
  const std::uint32_t columns = t.split == Split::kFeatures ? mxu_units_.count() : 1;
  const std::uint32_t unit_columns = t.block_columns / columns;
  StepCounter counter(builder_, {static_cast<std::uint32_t>(patches_.units.size()),
                                 t.block_y / rows, t.groups / groups, unit_columns / t.chunk});
  const std::uint32_t sum_row = sizes_.phases_y * sizes_.out_x * sizes_.sum_pixel;
  const std::uint32_t sum_pixel = sizes_.phases_x * sizes_.sum_pixel;
  const std::uint32_t sum_group = t.group * sum_pixel;
  const std::uint32_t sum_distance = groups > 1    ? sum_group
                                     : rows > 1    ? sum_row
                                     : columns > 1 ? unit_columns * 8
                                                   : 0;
  const auto unit_word = [&](const std::vector<SReg>& digits, std::uint32_t word) {
    if (!digits[kUnit]) return builder_.load_smem(units_ + word);
    return builder_.load_smem(units_ + word, builder_.mul(digits[kUnit], unit_words()));
  };
  const auto consume_at = [=](SReg row, SReg mask, SReg before, SReg before_mask, PReg started) {
    return [=](std::uint32_t unit, std::uint32_t i, bool previous, VReg result) {
      const std::uint32_t at = i / t.chunk * sum_pixel + i % t.chunk * 8 + unit * sum_distance;
      const VmemAddress address(sums.region, at, previous ? before : row);
      VmemAddress source = address;
      source.mask_register = previous ? before_mask : mask;
      const VReg sum = builder_.add(builder_.load(source), result);
      const auto guard = previous && started ? PredicateOperand(started) : PredicateOperand(true);
      builder_.guarded(guard, [&] { builder_.store(address, sum); });
    };
  };
  // Of this block of features: its moving rows; ones where there are sums of an earlier block.
  SReg block_row, later;
  if (const SReg block = grid_->index(kFeatures)) {
    const auto units = static_cast<std::uint32_t>(patches_.units.size());
    block_row = builder_.mul(block, units * moving_->unit_rows());
    later = builder_.select(builder_.equal(block, 0), 0, 0xff);
  }
  const SVariable previous_row =
      builder_.scalar_variable(sums.base ? ScalarOperand(sums.base) : ScalarOperand(0));
  const SVariable previous_mask = builder_.scalar_variable(0);
  MatmulStream::Step step;
  step.pushes = t.group * t.chunk;
  step.next_weights = patch_weights(std::vector<SReg>(4));
  stream_.begin(step);
  builder_.loop(counter.steps(), [&](SReg index) {
    const std::vector<SReg> digits = counter.present();
    const std::vector<SReg> next = counter.next();
    SReg moving_row = weighted_sum(builder_, digits, {moving_->unit_rows(), 0, 0, t.chunk * 8});
    if (block_row) moving_row = moving_row ? builder_.add(moving_row, block_row) : block_row;
    SReg sum = unit_word(digits, patches_.runs);
    if (sums.base) sum = builder_.add(sum, sums.base);
    sum = weighted_sum(builder_, digits, {0, rows * sum_row, groups * sum_group, t.chunk * 8}, sum);
    SReg mask = unit_word(digits, patches_.runs + 1);
    if (later) mask = builder_.or_(mask, later);
    std::map<std::uint32_t, VReg> loaded;
    step.rows = [&](std::uint32_t unit, std::uint32_t i, std::uint32_t) {
      const std::uint32_t column = i % t.chunk + (columns > 1 ? unit * unit_columns : 0);
      const std::uint32_t row = moving_->rows(i / t.chunk, column);
      const auto found = loaded.find(row);
      if (found != loaded.end()) return found->second;
      return loaded[row] = builder_.load({moving_->region(), row, moving_row});
    };
    step.next_weights = patch_weights(next);
    step.consume = consume_at(sum, mask, builder_.get(previous_row), builder_.get(previous_mask),
                              builder_.less(0, index));
    stream_.step(step);
    builder_.set(previous_row, sum);
    builder_.set(previous_mask, mask);
    counter.advance(next);
  });
  step.consume = consume_at({}, {}, builder_.get(previous_row), builder_.get(previous_mask), {});
  stream_.end(step);
  builder_.new_block();
}

/// Complete sums become results.
void LanesKernel::finish() {
  if (!results_.is_identity()) apply_epilogue();
  const bool is_rounded = !results_.is_identity() && pairs_tiles();
  if (is_packed(problem_.out_type) && !is_rounded) {
    memory_.round_tiles(sums_, grid_->output(0), sizes_.sum_rows / 8);
  }
}

/// The lanes of a pixel that belong to the result, for sums; none: all of all pixels.
MReg LanesKernel::inside(SReg y, SReg x) {
  if (!epilogue_.has_sums()) return {};
  const std::uint32_t rows = tiles_of(sizes_.pixels_y, tiling_.block_y) * sizes_.out_y;
  const bool whole_rows = rows == height().output;
  const bool whole_columns = sizes_.out_x * tiling_.blocks_x == width().output;
  const std::uint32_t last_lanes = problem_.rows - (sizes_.lane_tiles - 1) * 128;
  if (whole_rows && whole_columns && last_lanes == 128) return {};
  SReg lanes = builder_.constant(last_lanes);
  if (const PReg last = grid_->is_last(kLanes)) lanes = builder_.select(last, last_lanes, 128);
  const auto keep = [&](SReg pixel, int dimension, std::uint32_t step, std::int64_t extent) {
    const SReg at = weighted_sum(builder_, {grid_->index(dimension)}, {step}, pixel);
    lanes = builder_.select(builder_.less(at, extent), lanes, 0);
  };
  if (!whole_rows) keep(y, kY, sizes_.out_y, height().output);
  if (!whole_columns) keep(x, kX, sizes_.out_x, width().output);
  return builder_.vector_compare(Opcode::kVcmpLtS32, builder_.and_(builder_.lane_sequence(), 127),
                                 builder_.splat(lanes));
}

/// Tiles of features of a pixel go in pairs: a register has the even rows of both, another one the
/// odd rows, as packed arrays stand in memory.
bool LanesKernel::pairs_tiles() const { return tiling_.block_columns % 2 == 0; }

void LanesKernel::apply_epilogue() {
  const std::uint32_t columns = tiling_.block_columns;
  const auto dividing = [](std::uint32_t most, std::uint32_t extent, std::uint32_t step) {
    while (extent % most != 0) most -= step;
    return most;
  };
  const bool has_sums = epilogue_.has_sums();
  const std::uint32_t unroll = dividing(has_sums ? 4 : 8, columns, pairs_tiles() ? 2 : 1);
  const std::uint32_t pixels = dividing(has_sums ? 8 : 1, sizes_.out_x, 1);
  builder_.new_block();
  StepCounter counter(builder_, {columns / unroll, sizes_.out_y, sizes_.out_x / pixels});
  builder_.loop(counter.steps(), [&](SReg) {
    apply_to_pixels(counter.present(), unroll, pixels);
    counter.advance(counter.next());
  });
  builder_.new_block();
}

/// `unroll` tiles of each of some neighbouring pixels of the block.
void LanesKernel::apply_to_pixels(const std::vector<SReg>& digits, std::uint32_t unroll,
                                  std::uint32_t pixels) {
  const std::uint32_t columns = tiling_.block_columns;
  const SReg zero = builder_.constant(0);
  const SReg column = weighted_sum(builder_, {digits[0]}, {unroll}, zero);
  const SReg x = weighted_sum(builder_, {digits[2]}, {pixels}, zero);
  // All tiles share their base: the scheduler sees that they do not overlap.
  const SReg tiles =
      weighted_sum(builder_, {digits[1], x}, {sizes_.out_x * columns, columns}, column);
  EpilogueEmitter::Position position;
  position.rows32 = builder_.shift_left(tiles, 3);
  position.rows16 = builder_.shift_left(tiles, 2);
  std::vector<VmemAddress> blocks;
  for (int input : epilogue_inputs_) blocks.push_back(grid_->input(input));
  results_.begin(blocks);
  results_.begin_row_sums(unroll, pairs_tiles());
  // Nothing else depends on the pixel: matmul_epilogue() sees to it.
  position.place.digits.resize(4);
  const Index row{weighted_sum(builder_, {grid_->index(kColumns)}, {columns}, column), 0};
  position.place.digits[3] = {grid_->index(kLanes), 0};
  position.place.lane_key = 0;
  const std::uint32_t step = pairs_tiles() ? 2 : 1;
  for (std::uint32_t pixel = 0; pixel < pixels; ++pixel) {
    position.inside = inside(digits[1] ? digits[1] : zero, pixel > 0 ? builder_.add(x, pixel) : x);
    for (std::uint32_t i = 0; i < unroll; i += step) {
      position.tiles = pixel * columns + i;
      position.place.row_key = static_cast<int>(pixel * unroll + i);
      position.place.digits[2] = row.plus(i);
      pairs_tiles() ? apply_to_pair(position) : apply_to_tile(position);
    }
  }
  results_.end_row_sums(row);
}

void LanesKernel::apply_to_tile(EpilogueEmitter::Position& position) {
  VmemAddress out = is_packed(problem_.out_type) ? VmemAddress(sums_) : grid_->output(0);
  out.base2 = position.rows32;
  const VReg product = builder_.load({sums_, 8 * position.tiles, position.rows32});
  builder_.store(out.plus(8 * position.tiles), results_.apply(position, product).front());
}

void LanesKernel::apply_to_pair(EpilogueEmitter::Position& position) {
  const VmemAddress sum(sums_, 8 * position.tiles, position.rows32);
  std::array<VReg, 2> results;
  for (const int odd : {0, 1}) {
    position.rows = odd == 0 ? Rows::kEven : Rows::kOdd;
    position.place.row_key += odd;
    results[odd] = results_.apply(position, builder_.load(sum.plus(odd).stride(2))).front();
  }
  VmemAddress out = grid_->output(0);
  if (is_packed(problem_.out_type)) {
    out.base2 = position.rows16;
    builder_.store(out.plus(4 * position.tiles), builder_.pack_bf16(results[0], results[1]));
    return;
  }
  out.base2 = position.rows32;
  for (const int odd : {0, 1}) {
    builder_.store(out.plus(8 * position.tiles + odd).stride(2), results[odd]);
  }
}

}  // namespace

LoweredKernel convolution_lanes_kernel(const ConvolutionProblem& problem,
                                       const MatmulEpilogue& epilogue, const Target& target) {
  const ConvolutionProblem flat = with_flat_pixels(problem);
  const LanesTiling tiling = find_lanes_tiling(flat, target);
  return LanesKernel(flat, tiling, epilogue, target).emit();
}

}  // namespace tpu::compiler
