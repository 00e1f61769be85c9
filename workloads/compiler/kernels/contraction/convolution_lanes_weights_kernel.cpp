#include "workloads/compiler/kernels/contraction/convolution_lanes_weights_kernel.h"

#include <algorithm>
#include <memory>
#include <optional>

#include "sim/base/error.h"
#include "workloads/compiler/kernels/contraction/contraction.h"
#include "workloads/compiler/kernels/contraction/contraction_blocks.h"
#include "workloads/compiler/kernels/contraction/convolution_lanes_weights_tiling.h"
#include "workloads/compiler/kernels/contraction/matmul_stream.h"
#include "workloads/compiler/kernels/tiles/step_counter.h"
#include "workloads/compiler/kernels/tiles/tile_grid.h"

namespace tpu::compiler {

namespace {

using hlo::ElementType;
using isa::Opcode;

/// Emits a weight gradient of arrays (height, width, features, batch): for each position of the
/// window, the sum over pixels and batch of input features times gradient features.
///
/// Both operands have the contracted batch in their lanes, as rows that stream and as weights that
/// are pushed transposed: nothing is turned. The gradient's features of a group of neighbouring
/// pixels fill the columns of the MXUs; the pixels of the input that the group meets stream past
/// them, each once. A sum belongs to a pixel of that patch; which position of the window it is
/// depends on the pixel of the group, so that the positions are put together at the end, by turning
/// lanes. Sums stay in VMEM in fp32 while the pixels pass.
class LanesWeightsKernel : LanesWeightsGrid {
 public:
  LanesWeightsKernel(const ConvolutionProblem& problem, const LanesWeightsTiling& tiling,
                     const MatmulEpilogue& epilogue, const Target& target)
      : problem_(problem),
        tiling_(tiling),
        epilogue_(epilogue),
        sizes_(problem, tiling, patch_of(problem, tiling.group), target),
        builder_(epilogue.kernel_name, target),
        mxu_units_(sizes_.plan.steps.units),
        stream_(builder_, mxu_units_, sizes_.plan.steps.pushes, kWeightPushes,
                sizes_.plan.steps.lots),
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
    if (masks()) memory_.make_masks(problem_.contracted);
    make_grid();
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
  const SpatialDimension& height() const { return problem_.spatial[0]; }
  const SpatialDimension& width() const { return problem_.spatial[1]; }
  bool masks() const { return problem_.contracted % 128 != 0; }
  std::uint32_t dilation_y() const { return static_cast<std::uint32_t>(height().window_dilation); }
  std::uint32_t dilation_x() const { return static_cast<std::uint32_t>(width().window_dilation); }
  std::uint32_t groups_at_once() const {
    return tiling_.split == LanesWeightsTiling::Split::kGroups ? mxu_units_.pieces() : 1;
  }
  std::uint32_t rows_at_once() const {
    return tiling_.split == LanesWeightsTiling::Split::kRows ? mxu_units_.pieces() : 1;
  }
  std::uint32_t columns_at_once() const {
    return tiling_.split == LanesWeightsTiling::Split::kColumns ? mxu_units_.pieces() : 1;
  }
  std::uint32_t input_pitch() const { return sizes_.slab_x * sizes_.input_pixel; }
  /// From the input of a row of the gradient, and of a group of its pixels, to that of the next.
  std::uint32_t row_pitch() const { return dilation_y() * input_pitch(); }
  std::uint32_t group_pitch() const { return tiling_.group * dilation_x() * sizes_.input_pixel; }
  std::uint32_t gradient_pitch() const {
    return tiling_.groups * tiling_.group * sizes_.gradient_pixel;
  }

  void store_units();
  void make_grid();
  void cut_pixels(ImageShape& shape, std::uint32_t pixels, std::uint32_t tile, std::uint32_t taken,
                  std::uint32_t all) const;
  std::int64_t input_begin() const { return std::max<std::int64_t>(0, -width().padding); }
  std::int64_t input_border() const { return std::max<std::int64_t>(0, width().padding); }
  /// Pixels of a line of the slab that lie in the image.
  std::uint32_t fetched_pixels() const {
    return static_cast<std::uint32_t>(
        std::clamp<std::int64_t>(sizes_.slab_x - input_border(), 0, width().input - input_begin()));
  }
  TileGrid::Block input_block(ElementType type, std::uint32_t word);
  TileGrid::Block gradient_block(ElementType type, std::uint32_t word);
  ProductSide::Tiles made_input();
  ProductSide::Tiles made_gradient();
  TileGrid::Block result_block(ElementType type, bool to_vmem, std::uint32_t word);
  SReg block_row(const GridPoint& point, std::uint32_t step);
  void clear_borders();
  void clear_outside();
  VReg mask(ElementType type);
  void work();
  void multiply();
  std::vector<SReg> gradient_places(const Digits& digits);
  Contraction::Tiles gradient_weights(SReg base, VReg mask);
  std::vector<SReg> input_places(const Digits& digits);
  Contraction::Tiles input_rows(const std::vector<SReg>& places, VReg mask);
  void finish();
  void put_together();
  void apply_epilogue();

  enum Digit : std::size_t { kColumn, kPixelY, kGroup, kUnit };

  const ConvolutionProblem& problem_;
  const LanesWeightsTiling& tiling_;
  const MatmulEpilogue& epilogue_;
  LanesWeightsSizes sizes_;
  KernelBuilder builder_;
  MatmulUnits mxu_units_;
  MatmulStream stream_;
  MatmulMemory memory_;
  TileExpressionEmitter results_;
  ProductSide input_, gradient_;
  std::unique_ptr<TileGrid> grid_;
  std::uint32_t addresses_ = 0;  ///< SMEM: input, gradient, result, operands behind the product.
  std::uint32_t units_ = 0;      ///< SMEM: VMEM rows of the runs of each unit in the slab.
  std::uint32_t positions_ = 0;  ///< SMEM: per position and pixel of the group, rows of its sums.
  std::shared_ptr<ImageRows> input_rows_, gradient_rows_;
  std::vector<int> epilogue_inputs_;
  VmemRegion sums_, products_;
  std::vector<VmemRegion> unrounded_;
};

void LanesWeightsKernel::store_units() {
  units_ = builder_.allocate_smem(sizes_.units * sizes_.runs);
  for (std::uint32_t run = 0; run < sizes_.units * sizes_.runs; ++run) {
    const std::uint32_t tile = run * sizes_.run_tiles;
    const std::uint32_t pixel = tile / tiling_.block_rows;
    if (pixel >= sizes_.patch.size()) {
      builder_.store_smem(units_ + run, 0);
      continue;
    }
    const auto [y, x] = sizes_.patch[pixel];
    builder_.store_smem(units_ + run,
                        (y * sizes_.slab_x + x) * sizes_.input_pixel +
                            tile % tiling_.block_rows * tile_rows(problem_.input_type));
  }
  positions_ = builder_.allocate_smem(sizes_.window_y * sizes_.window_x * tiling_.group);
  std::uint32_t word = positions_;
  for (std::uint32_t y = 0; y < sizes_.window_y; ++y) {
    for (std::uint32_t x = 0; x < sizes_.window_x; ++x) {
      for (std::uint32_t g = 0; g < tiling_.group; ++g) {
        const std::array<std::uint32_t, 2> pixel{
            y * static_cast<std::uint32_t>(height().stride),
            x * static_cast<std::uint32_t>(width().stride) + g * dilation_x()};
        const auto found = std::find(sizes_.patch.begin(), sizes_.patch.end(), pixel);
        const auto number = static_cast<std::uint32_t>(found - sizes_.patch.begin());
        builder_.store_smem(word++, number * tiling_.block_rows * 8);
      }
    }
  }
}

void LanesWeightsKernel::make_grid() {
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
  sums_ = builder_.allocate_vmem(sizes_.sum_rows);
  if (sizes_.products_apart) products_ = builder_.allocate_vmem(sizes_.product_rows);
  unrounded_ = unrounded_regions(builder_, problem_.result_types, products_, sizes_.product_rows);
}

SReg LanesWeightsKernel::block_row(const GridPoint& point, std::uint32_t step) {
  return point[kY] ? builder_.mul(point[kY], step) : builder_.constant(0);
}

/// What a block takes of each pixel: so many tiles of features, of one tile of the batch.
void LanesWeightsKernel::cut_pixels(ImageShape& shape, std::uint32_t pixels, std::uint32_t tile,
                                    std::uint32_t taken, std::uint32_t all) const {
  if (taken == all) {
    shape.row = {tile, pixels * taken, sizes_.batch_tiles * tile};
  } else if (sizes_.batch_tiles == 1) {
    shape.row = {taken * tile, pixels, all * tile};
  } else {
    shape.row = {tile, pixels, sizes_.batch_tiles * all * tile, taken * tile};
    shape.slices = taken;
    shape.slice_stride = sizes_.batch_tiles * tile;
  }
}

/// The block of an array that lies like the input.
TileGrid::Block LanesWeightsKernel::input_block(ElementType type, std::uint32_t word) {
  const std::uint32_t tile = tile_granules(type);
  const std::uint32_t slab_pixel = tiling_.block_rows * tile_rows(type);
  const std::uint32_t pixel = sizes_.batch_tiles * sizes_.all_row_tiles * tile;
  ImageShape shape;
  shape.height = static_cast<std::uint32_t>(height().input);
  shape.row_stride = static_cast<std::uint32_t>(width().input) * pixel;
  cut_pixels(shape, fetched_pixels(), tile, tiling_.block_rows, sizes_.all_row_tiles);
  shape.block_rows = sizes_.slab_y;
  shape.shift = static_cast<std::int32_t>(-height().padding);
  shape.pitch = sizes_.slab_x * slab_pixel;
  const auto rows = std::make_shared<ImageRows>(builder_, true, shape);
  if (!input_rows_) input_rows_ = rows;
  return image_block(
      rows, sizes_.plan.lhs.dimensions, sizes_.plan.lhs.rows_of(type, problem_.input_type),
      [=](const GridPoint& point) {
        return builder_.add(weighted_sum(builder_, {point[kBatch], point[kRows]},
                                         {tile, tiling_.block_rows * sizes_.batch_tiles * tile},
                                         builder_.load_smem(word)),
                            static_cast<std::uint32_t>(input_begin()) * pixel);
      },
      [this](const GridPoint& point) { return block_row(point, tiling_.block_y * dilation_y()); },
      input_border() * slab_pixel);
}

/// The same of the gradient.
TileGrid::Block LanesWeightsKernel::gradient_block(ElementType type, std::uint32_t word) {
  const std::uint32_t tile = tile_granules(type);
  const std::uint32_t pixel = sizes_.batch_tiles * sizes_.all_column_tiles * tile;
  ImageShape shape;
  shape.height = sizes_.out_y;
  shape.row_stride = sizes_.out_x * pixel;
  cut_pixels(shape, sizes_.out_x, tile, tiling_.block_columns, sizes_.all_column_tiles);
  shape.block_rows = tiling_.block_y;
  shape.pitch = tiling_.groups * tiling_.group * tiling_.block_columns * tile_rows(type);
  const auto rows = std::make_shared<ImageRows>(builder_, true, shape);
  if (!gradient_rows_) gradient_rows_ = rows;
  return image_block(
      rows, sizes_.plan.rhs.dimensions, sizes_.plan.rhs.rows_of(type, problem_.window_type),
      [=](const GridPoint& point) {
        return weighted_sum(builder_, {point[kBatch], point[kColumns]},
                            {tile, tiling_.block_columns * sizes_.batch_tiles * tile},
                            builder_.load_smem(word));
      },
      [this](const GridPoint& point) { return block_row(point, tiling_.block_y); });
}

/// What is made of a block of the input, and of the gradient.
ProductSide::Tiles LanesWeightsKernel::made_input() {
  const std::uint32_t features = tiling_.block_rows;
  ProductSide::Tiles tiles;
  tiles.before = static_cast<std::uint32_t>(input_border()) * features;
  tiles.outer = {{sizes_.slab_y, sizes_.slab_x * features}, {fetched_pixels(), features}};
  tiles.rows = {features, 1};
  tiles.first_row = compiler::multiply(builder_, {grid_->index(kRows), 0}, features);
  tiles.first_lane = {grid_->index(kBatch), 0};
  return tiles;
}

ProductSide::Tiles LanesWeightsKernel::made_gradient() {
  const std::uint32_t columns = tiling_.block_columns;
  ProductSide::Tiles tiles;
  tiles.outer = {{tiling_.block_y, tiling_.groups * tiling_.group * columns},
                 {sizes_.out_x, columns}};
  tiles.rows = {columns, 1};
  tiles.first_row = compiler::multiply(builder_, {grid_->index(kColumns), 0}, columns);
  tiles.first_lane = {grid_->index(kBatch), 0};
  return tiles;
}

/// The block of an array in step with the result.
TileGrid::Block LanesWeightsKernel::result_block(ElementType type, bool to_vmem,
                                                 std::uint32_t word) {
  BlockShape shape;
  shape.tile_granules = tile_granules(type);
  shape.rows = sizes_.all_row_tiles;
  shape.columns = tiles_of(problem_.columns, 128);
  shape.block_rows = tiling_.block_rows;
  shape.block_columns = sizes_.lane_tiles;
  shape.matrices = sizes_.window_y * sizes_.window_x;
  shape.matrix_stride = shape.matrix_granules();
  return matrix_block(
      builder_, to_vmem, shape, sizes_.plan.results.dimensions,
      [=](const GridPoint&) { return builder_.load_smem(word); }, kRows, kColumns);
}

/// Pixels of the blocks that no DMA writes are 0 for good.
void LanesWeightsKernel::clear_borders() {
  if (sizes_.slab_x != width().input || width().padding != 0) {
    const VmemRegion slab = grid_->input_region(0);
    memory_.clear({slab, 0}, slab.rows);
  }
  if (tiling_.groups * tiling_.group != sizes_.out_x) {
    const VmemRegion gradient = grid_->input_region(1);
    memory_.clear({gradient, 0}, gradient.rows);
  }
  builder_.new_block();
}

/// Rows of a block that lie outside of the image are 0 for this block.
void LanesWeightsKernel::clear_outside() {
  GridPoint point(4);
  point[kY] = grid_->index(kY);
  const std::int64_t rows = tiles_of(sizes_.out_y, tiling_.block_y) * tiling_.block_y;
  if (rows != sizes_.out_y) {
    clear_rows_outside(builder_, memory_, *gradient_rows_, block_row(point, tiling_.block_y),
                       grid_->input(1), tiling_.block_y, gradient_pitch());
  }
  const std::int64_t end =
      (rows - tiling_.block_y) * height().window_dilation + sizes_.slab_y - height().padding;
  if (height().padding > 0 || end > height().input) {
    clear_rows_outside(builder_, memory_, *input_rows_,
                       block_row(point, tiling_.block_y * dilation_y()), grid_->input(0),
                       sizes_.slab_y, input_pitch());
  }
}

/// The lanes of the batch; none: all of them.
VReg LanesWeightsKernel::mask(ElementType type) {
  return masks() ? memory_.mask(type, grid_->is_last(kBatch)) : VReg();
}

void LanesWeightsKernel::work() {
  const PReg first = both(builder_, grid_->is_first(kBatch), grid_->is_first(kY));
  emit_if(builder_, first, [this] { memory_.clear(VmemAddress(sums_), sizes_.sum_rows); });
  builder_.new_block();
  input_.make(*grid_, [this] { return made_input(); });
  gradient_.make(*grid_, [this] { return made_gradient(); });
  clear_outside();
  builder_.new_block();
  multiply();
  const PReg last = both(builder_, grid_->is_last(kBatch), grid_->is_last(kY));
  emit_if(builder_, last, [this] { finish(); });
}

/// Where the gradient of a step's groups begins.
std::vector<SReg> LanesWeightsKernel::gradient_places(const Digits& digits) {
  const VmemAddress gradient = grid_->input(1);
  SReg base = weighted_sum(
      builder_, digits,
      {columns_at_once() * 16 * tile_rows(problem_.window_type), rows_at_once() * gradient_pitch(),
       groups_at_once() * tiling_.group * sizes_.gradient_pixel, 0});
  if (gradient.base) base = base ? builder_.add(base, gradient.base) : gradient.base;
  return {base};
}

/// The gradient there.
Contraction::Tiles LanesWeightsKernel::gradient_weights(SReg base, VReg mask) {
  const VmemRegion gradient = grid_->input_region(1);
  const std::uint32_t tile = tile_rows(problem_.window_type);
  const std::uint32_t distance = groups_at_once() > 1    ? tiling_.group * sizes_.gradient_pixel
                                 : rows_at_once() > 1    ? gradient_pitch()
                                 : columns_at_once() > 1 ? 16 * tile
                                                         : 0;
  const std::uint32_t used = sizes_.lane_tiles > 1 ? 16 : tiling_.group * tiling_.block_columns;
  const MatmulUnits units = mxu_units_;
  return [=](std::uint32_t unit, std::uint32_t j, std::uint32_t part) {
    const std::uint32_t number = 15 - j;
    if (number >= used) return builder_.vector(Opcode::kVmov, 0.0F);
    const VmemAddress from(gradient, number * tile + units.piece(unit, part) * distance, base);
    return memory_.load_weights(problem_.window_type, from, mask);
  };
}

/// Where the input of a step's groups begins in the slab, and its unit's words.
std::vector<SReg> LanesWeightsKernel::input_places(const Digits& digits) {
  const VmemAddress slab = grid_->input(0);
  SReg origin = weighted_sum(
      builder_, digits, {0, rows_at_once() * row_pitch(), groups_at_once() * group_pitch(), 0});
  if (slab.base) origin = origin ? builder_.add(origin, slab.base) : slab.base;
  return {origin, digits[kUnit] ? builder_.mul(digits[kUnit], sizes_.runs) : SReg()};
}

/// The input at these places.
Contraction::Tiles LanesWeightsKernel::input_rows(const std::vector<SReg>& places, VReg mask) {
  const VmemRegion slab = grid_->input_region(0);
  const std::uint32_t distance = groups_at_once() > 1 ? group_pitch()
                                 : rows_at_once() > 1 ? row_pitch()
                                                      : 0;
  const std::uint32_t tile = tile_rows(problem_.input_type);
  const SReg origin = places[0];
  auto runs = std::make_shared<TableEntry>(builder_, units_, sizes_.runs, places[1]);
  runs->word(0);  // The first to be pushed.
  return [=](std::uint32_t unit, std::uint32_t i, std::uint32_t part) {
    const std::uint32_t at = i % sizes_.run_tiles * tile + mxu_units_.piece(unit, part) * distance;
    return memory_.load_rows(problem_.input_type,
                             {slab, at, runs->word(i / sizes_.run_tiles), origin}, mask);
  };
}

void LanesWeightsKernel::multiply() {
  const LanesWeightsTiling& t = tiling_;
  const VReg gradient_mask = mask(problem_.window_type);
  const VReg input_mask = mask(problem_.input_type);
  RunningSums::Form form;
  form.adds_groups = tiling_.split != LanesWeightsTiling::Split::kColumns;
  form.lot = t.chunk;
  form.offset = [this](std::uint32_t unit, std::uint32_t i) {
    return i * 8 + mxu_units_.column_of(unit) * sizes_.sum_pitch;
  };
  RunningSums running(builder_, mxu_units_, VmemAddress(sums_), form);
  Contraction steps;
  steps.extents = {sizes_.lane_tiles / columns_at_once(), t.block_y / rows_at_once(),
                   t.groups / groups_at_once(), sizes_.units};
  steps.pushes = t.chunk;
  steps.parts = problem_.parts;
  steps.transposed = true;
  steps.moving.places = [&](const Digits& digits) { return input_places(digits); };
  steps.moving.tiles = [&](const Digits&, const std::vector<SReg>& places) {
    return input_rows(places, input_mask);
  };
  steps.stationary.places = [&](const Digits& digits) { return gradient_places(digits); };
  steps.stationary.tiles = [&](const Digits&, const std::vector<SReg>& places) {
    return gradient_weights(places[0], gradient_mask);
  };
  steps.sums = [&](const Digits& digits, PReg started) {
    if (digits.empty()) return running.end();
    const SReg row =
        weighted_sum(builder_, digits, {columns_at_once() * sizes_.sum_pitch, 0, 0, t.chunk * 8});
    return running.at({row, {}}, started);
  };
  steps.advance = [&] { running.advance(); };
  emit_steps(builder_, stream_, steps);
}

/// Complete sums become results.
void LanesWeightsKernel::finish() {
  builder_.new_block();
  put_together();
  if (!results_.is_identity()) apply_epilogue();
  round_results(memory_, *grid_, unrounded_, sizes_.product_rows / 8);
}

/// Each position of the window: the sums of the pixels of the group, their lanes turned.
void LanesWeightsKernel::put_together() {
  const std::uint32_t rows = tiling_.block_rows, lanes = sizes_.lane_tiles;
  std::uint32_t unroll = 8;
  while (rows % unroll != 0) --unroll;
  StepCounter counter(builder_, {sizes_.window_y * sizes_.window_x, lanes, rows / unroll});
  const VmemAddress to = sizes_.products_apart ? VmemAddress(products_) : grid_->output(0);
  builder_.loop(counter.steps(), [&](SReg) {
    const std::vector<SReg> digits = counter.present();
    std::vector<VReg> products(unroll);
    for (std::uint32_t g = 0; g < tiling_.group; ++g) {
      SReg row = digits[0]
                     ? builder_.load_smem(positions_ + g, builder_.mul(digits[0], tiling_.group))
                     : builder_.load_smem(positions_ + g);
      row = weighted_sum(builder_, digits, {0, sizes_.sum_pitch, unroll * 8}, row);
      for (std::uint32_t i = 0; i < unroll; ++i) {
        VReg part = builder_.load({sums_, std::int64_t{8} * i, row});
        if (g > 0) part = builder_.rotate_lanes(part, 128 - g * tiling_.block_columns * 8);
        products[i] = g > 0 ? builder_.add(products[i], part) : part;
      }
    }
    const SReg out_row = weighted_sum(builder_, digits, {rows * lanes * 8, 8, unroll * lanes * 8});
    VmemAddress place = to;
    place.base2 = out_row;
    for (std::uint32_t i = 0; i < unroll; ++i) {
      builder_.store(place.plus(std::int64_t{i} * lanes * 8), products[i]);
    }
    counter.advance(counter.next());
  });
  builder_.new_block();
}

void LanesWeightsKernel::apply_epilogue() {
  apply_epilogue_by_columns(builder_, results_, *grid_, epilogue_inputs_, kColumns,
                            sizes_.window_y * sizes_.window_x * tiling_.block_rows,
                            sizes_.lane_tiles, products_, unrounded_);
}

}  // namespace

LoweredKernel convolution_lanes_weights_kernel(const ConvolutionProblem& problem,
                                               const MatmulEpilogue& epilogue,
                                               const Target& target) {
  const ConvolutionProblem flat = with_flat_pixels(problem);
  const LanesWeightsTiling tiling = find_lanes_weights_tiling(flat, target).value();
  return LanesWeightsKernel(flat, tiling, epilogue, target).emit();
}

}  // namespace tpu::compiler
