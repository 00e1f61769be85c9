#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "workloads/compiler/kernels/contraction/contraction.h"
#include "workloads/compiler/kernels/contraction/contraction_blocks.h"
#include "workloads/compiler/kernels/contraction/convolution_lanes_tiling.h"
#include "workloads/compiler/kernels/contraction/matmul_epilogue.h"
#include "workloads/compiler/kernels/contraction/matmul_stream.h"
#include "workloads/compiler/kernels/contraction/moving_window.h"
#include "workloads/compiler/kernels/lowering.h"
#include "workloads/compiler/kernels/tiles/step_counter.h"
#include "workloads/compiler/kernels/tiles/tile_grid.h"

namespace tpu::compiler {

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
class LanesKernel : LanesGrid {
 public:
  LanesKernel(const ConvolutionProblem& problem, const LanesTiling& tiling,
              const MatmulEpilogue& epilogue, const Target& target)
      : problem_(problem),
        tiling_(tiling),
        epilogue_(epilogue),
        patches_(problem, tiling.group, tiling.feature_blocks),
        sizes_(problem, tiling, patches_, target),
        builder_(epilogue.kernel_name, target),
        mxu_units_(sizes_.plan.steps.units),
        stream_(builder_, mxu_units_, sizes_.plan.steps.pushes, kWeightPushes,
                sizes_.plan.steps.lots),
        memory_(builder_, is_packed(problem.input_type) || is_packed(problem.window_type),
                is_packed(problem.input_type)),
        results_(builder_, epilogue),
        input_(builder_, epilogue.prologues[0]) {}

  /// Nothing when values find no register; with `may_spill` they wait in VMEM then.
  std::optional<LoweredKernel> emit(bool may_spill) {
    results_.start();
    input_.start();
    addresses_ = store_addresses(builder_, epilogue_);
    store_units();
    store_finished();
    make_mask();
    moving_.emplace(builder_, memory_, problem_, patches_, tiling_.block_columns,
                    sizes_.moving_columns);
    make_grid();
    clear_borders();
    builder_.new_block();
    grid_->run([this] { work(); },
               [this] {
                 results_.ready();
                 input_.ready();
               });
    if (!patches_.units.empty()) stream_.close();
    results_.finish();
    return lowered_kernel(builder_, may_spill);
  }

 private:
  using Split = LanesTiling::Split;
  using Rows = TileExpressionEmitter::Position::Rows;

  const SpatialDimension& height() const { return problem_.spatial[0]; }
  const SpatialDimension& width() const { return problem_.spatial[1]; }
  std::uint32_t groups_at_once() const {
    return tiling_.split == Split::kGroups ? mxu_units_.count() : 1;
  }
  std::uint32_t rows_at_once() const {
    return tiling_.split == Split::kRows ? mxu_units_.count() : 1;
  }
  /// VMEM rows of the slab from a row of pixels, and from a group of one, to the next.
  std::uint32_t row_pitch() const {
    return static_cast<std::uint32_t>(height().stride) * sizes_.slab_x * sizes_.input_pixel;
  }
  std::uint32_t group_pitch() const {
    return tiling_.group * static_cast<std::uint32_t>(width().stride) * sizes_.input_pixel;
  }
  bool sums_apart() const { return sizes_.sums_apart; }
  std::uint32_t unit_words() const { return patches_.runs + 2; }
  /// The last tile of a pixel's features has rows of padding.
  bool has_padding() const { return problem_.contracted % 8 != 0; }
  /// It stands at the same places of every unit.
  bool masks() const { return has_padding() && patches_.run_tiles == patches_.feature_tiles; }
  /// Some pixels of the result meet nothing.
  bool has_gaps() const;

  /// Steps make results of complete sums beside their products.
  bool overlaps() const { return tiling_.finished_pairs > 0; }

  void store_units();
  void store_finished();
  void make_mask();
  void make_grid();
  TileGrid::Block input_block(hlo::ElementType type, std::uint32_t word);
  ProductSide::Tiles made_input();
  void add_window();
  ImageShape result_image(hlo::ElementType type) const;
  TileGrid::Block result_block(hlo::ElementType type, bool to_vmem, std::uint32_t word);
  SReg first_row(const GridPoint& point, std::uint32_t step);
  /// A part of a row of an image: its first pixel, where it stands in the block, and its pixels.
  struct Segment {
    SReg begin, before, pixels;
  };
  Segment segment(const GridPoint& point, std::uint32_t step, std::int64_t shift,
                  std::uint32_t taken, std::int64_t width);
  Segment input_segment(const GridPoint& point);
  Segment output_segment(const GridPoint& point);
  SReg result_row(hlo::ElementType type, const GridPoint& point);
  std::uint32_t input_step() const {
    return tiling_.block_y * static_cast<std::uint32_t>(height().stride);
  }
  void clear_borders();
  void clear_outside();
  void clear_columns_outside();
  void clear_padding();
  void work();
  Contraction::Tiles moving_rows(SReg base);
  std::vector<SReg> patch_places(const Digits& digits);
  Contraction::Meanwhile finish_in_step(StepCounter& finished, SReg index);
  void multiply();
  std::vector<std::uint32_t> step_extents() const;
  std::vector<SReg> step_digits(const std::vector<SReg>& counted) const;
  Contraction::Tiles patch_weights(const std::vector<SReg>& places);
  void finish();
  MReg inside(SReg y, SReg x, PReg is_live = {});
  void apply_epilogue();
  bool pairs_tiles() const;
  void apply_to_pixels(const std::vector<SReg>& digits, std::uint32_t unroll, std::uint32_t pixels);
  void apply_to_tile(TileExpressionEmitter::Position& position);
  void apply_to_pair(TileExpressionEmitter::Position& position);
  /// Pairs of complete sums that a step finishes.
  struct FinishedPairs {
    TileExpressionEmitter::Position position;
    SReg column, y, x;  ///< Of the first one, in the grid's block.
    PReg is_live;       ///< None: it is. Else nothing is added to sums.
  };
  FinishedPairs begin_pairs(const std::vector<SReg>& digits, PReg is_live);
  void finish_pair(FinishedPairs& run, std::uint32_t pair);
  void finish_last_pairs(StepCounter& counter);
  /// Steps from a product to its result: those that complete its sums, and one more, in which the
  /// last sum comes out; all in blocks of code before that of the result, because the sums' second
  /// name keeps no order within one.
  std::uint64_t delay() const {
    return std::max<std::uint64_t>(patches_.units.size(), tiling_.steps_at_once) + 1;
  }

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
  TileExpressionEmitter results_;
  ProductSide input_;
  std::optional<MovingWindow> moving_;
  std::unique_ptr<TileGrid> grid_;
  std::uint32_t addresses_ = 0;  ///< SMEM: input, window, result, operands behind the product.
  std::uint32_t units_ = 0;      ///< SMEM: per unit its runs, its sums, the mask of its sums.
  std::shared_ptr<ImageRows> input_rows_;
  std::vector<int> epilogue_inputs_;
  std::uint32_t fetched_ = 0;   ///< Pixels of the image in a slab's row, where it is whole.
  std::uint32_t finished_ = 0;  ///< SMEM: per unit the place of its pairs of complete sums.
  VmemRegion sums_, mask_;
  VmemRegion finished_sums_;           ///< A second name of the sums, where complete.
  std::vector<VmemRegion> unrounded_;  ///< Where tiles go one by one.
};

}  // namespace tpu::compiler
