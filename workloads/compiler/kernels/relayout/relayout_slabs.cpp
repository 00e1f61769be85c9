#include "workloads/compiler/kernels/relayout/relayout_slabs.h"

#include <algorithm>
#include <deque>
#include <memory>
#include <numeric>

#include "sim/base/ceil_divide.h"
#include "sim/base/error.h"
#include "workloads/compiler/ir/array_layout.h"
#include "workloads/compiler/kernels/elementwise/expression_graph.h"
#include "workloads/compiler/kernels/tiles/block_pipeline.h"
#include "workloads/compiler/kernels/tiles/box_dma.h"

namespace tpu::compiler {

namespace {

/// VMEM rows of arrays that are worked on at once rather than in slabs.
constexpr std::int64_t kRowsAtOnce = 512;
/// Of less, few slabs hide less than begin and end of each take.
constexpr std::int64_t kWorthFewSlabs = 2048;

/// Rows of VMEM for arrays.
std::int64_t room_of(std::uint64_t vmem_bytes) {
  return static_cast<std::int64_t>(vmem_bytes / 512) - 256;
}

/// Of a tile of a vector: 2^10.
constexpr std::int64_t kLineElements = 1024;
constexpr int kLineBits = 10;

/// Elements of a tile along a physical dimension.
std::int64_t tile_size(std::size_t rank, int dimension) {
  if (dimension + 1 == static_cast<int>(rank)) return 128;
  if (dimension + 2 == static_cast<int>(rank)) return 8;
  return 1;
}

/// One array of the kernel and where it lies in VMEM.
struct Placed {
  SlabArray array;
  std::vector<std::int64_t> extents;
  std::int64_t tile_granules = 4;
  std::int64_t outer_tiles = 1;  ///< Of a piece, along the outer dimension.
  VmemRegion buffers;            ///< As in HBM; two when there are several slabs.
  VmemRegion wide;               ///< Of packed arrays: as 32-bit tiles.
  BoxDma dma, last_dma;

  bool is_cut() const { return array.dimension >= 0; }
  /// Works on a copy of 32-bit elements.
  bool is_widened() const { return is_packed(array.shape) && !array.stays_packed; }
  bool is_cut_twice() const { return array.outer_dimension >= 0; }
  /// Indices of the cut dimension in a slab of so much of `extent`.
  std::int64_t indices(std::int64_t elements) const {
    return ceil_divide(elements + array.more, array.of_index);
  }
  /// Of a line: tiles that hold so many elements, wherever they begin.
  std::int64_t line_tiles(std::int64_t elements) const {
    return std::min(extents.front() / 8, ceil_divide(elements, kLineElements) + 1);
  }
  /// Tiles along the cut dimension that so many elements take.
  std::int64_t tiles_of(std::int64_t elements) const {
    return ceil_divide(ceil_divide(elements, array.of_index),
                       tile_size(extents.size(), array.dimension));
  }
  /// Tiles along a physical dimension.
  std::int64_t tiles_along(std::size_t i) const {
    return ceil_divide(extents[i], tile_size(extents.size(), static_cast<int>(i)));
  }
  /// Tiles of a slab whose cut dimension has so many tiles.
  std::int64_t tiles(std::int64_t slab) const {
    std::int64_t count = 1;
    for (std::size_t i = 0; i < extents.size(); ++i) {
      if (static_cast<int>(i) == array.dimension) {
        count *= slab;
      } else {
        count *= static_cast<int>(i) == array.outer_dimension ? outer_tiles : tiles_along(i);
      }
    }
    return count;
  }
  /// Granules from one tile along a dimension to the next.
  std::int64_t distance(int dimension) const {
    std::int64_t count = tile_granules;
    for (std::size_t i = static_cast<std::size_t>(dimension) + 1; i < extents.size(); ++i) {
      count *= tiles_along(i);
    }
    return count;
  }
  /// The minor one of the cut dimensions, and the major one; -1: none.
  int inner_cut() const { return std::max(array.dimension, array.outer_dimension); }
  int outer_cut() const { return std::min(array.dimension, array.outer_dimension); }
  /// A DMA steps along one distance: so many are needed where two dimensions are cut.
  std::int64_t dmas() const {
    if (!is_cut_twice()) return 1;
    std::int64_t count = 1;
    for (int i = 0; i < outer_cut(); ++i) count *= tiles_along(static_cast<std::size_t>(i));
    return count;
  }
  std::int64_t granules(std::int64_t slab) const {
    if (array.shape.rank() == 0) return 1;
    return tiles(slab) * tile_granules;
  }
  std::int64_t buffer_rows(std::int64_t slab) const {
    return ceil_divide(tiles(slab) * tile_granules * 2, 8) * 8;
  }
};

/// What the stretches of a kernel share.
class SlabSite {
 public:
  SlabSite(const std::string& name, const Target& chip) : builder(name, chip), mover(builder) {}

  /// Once, before the first stretch: `rows` of VMEM, for each stretch from the first one on.
  void prepare(std::int64_t rows, bool loads_packed, bool stores_packed) {
    memory = std::make_unique<TileMemory>(builder, loads_packed, stores_packed);
    load_flag = BlockPipeline::allocate_flags(builder);
    store_flag = BlockPipeline::allocate_flags(builder);
    arena_ = builder.allocate_vmem(static_cast<std::uint64_t>(rows));
  }
  void begin_stretch() { taken_ = 0; }
  VmemRegion allocate(std::int64_t rows) {
    VmemRegion region = builder.second_name(arena_);
    region.row += static_cast<std::uint32_t>(taken_);
    region.rows = static_cast<std::uint32_t>(rows);
    taken_ += round_up(rows, std::int64_t{8});
    TPU_CHECK(taken_ <= arena_.rows, "a stretch takes " << taken_ << " rows of " << arena_.rows);
    return region;
  }

  KernelBuilder builder;
  ElementMover mover;
  std::unique_ptr<TileMemory> memory;
  std::uint32_t load_flag = 0, store_flag = 0;

 private:
  VmemRegion arena_;
  std::int64_t taken_ = 0;
};

/// Slabs that are made alike, one behind the other.
class SlabKernel {
 public:
  SlabKernel(SlabSite& site, const std::vector<SlabArray>& sources, const SlabArray& target,
             std::int64_t extent, std::int64_t outer_extent, const ScratchRows& scratch)
      : site_(site),
        builder_(site.builder),
        mover_(site.mover),
        scratch_(scratch),
        outer_extent_(outer_extent) {
    for (const SlabArray& source : sources) sources_.push_back(place(source));
    target_ = place(target);
    for (const Placed* each : all()) {
      if (!each->is_cut() || each->array.is_line) continue;
      const std::int64_t tile = tile_size(each->extents.size(), each->array.dimension);
      unit_ = std::lcm(unit_, tile * each->array.of_index);
      if (!each->is_cut_twice()) continue;
      piece_ = std::max(piece_, tile_size(each->extents.size(), each->array.outer_dimension));
    }
    extent_ = extent;
    piece_ = std::min(piece_, outer_extent_);
    set_piece(piece_);
  }

  /// Chooses the slab; false when none fits.
  bool fit(std::uint64_t vmem_bytes);
  /// Takes slabs of so many elements; false where those do not fit.
  bool take(std::int64_t slab, std::uint64_t vmem_bytes);
  double exposed() const;
  /// Granules of all arrays.
  double granules() const;
  /// VMEM rows of all buffers.
  std::int64_t rows() const { return allocated_rows(); }
  bool loads_packed() const;
  bool stores_packed() const { return is_packed(target_.array.shape); }
  void emit(const SlabBody& body);

 private:
  Placed place(const SlabArray& array) const {
    Placed placed;
    placed.array = array;
    placed.extents = tiled_extents(array.shape);
    placed.tile_granules = is_packed(array.shape) ? 2 : 4;
    return placed;
  }
  std::vector<const Placed*> all() const {
    std::vector<const Placed*> arrays;
    for (const Placed& source : sources_) arrays.push_back(&source);
    arrays.push_back(&target_);
    return arrays;
  }
  /// Tiles along the cut dimension of an array, for so many elements of it.
  static std::int64_t slab_tiles(const Placed& array, std::int64_t elements) {
    if (!array.is_cut()) return 0;
    if (array.array.is_line) return array.line_tiles(elements);
    return ceil_divide(array.indices(elements),
                       tile_size(array.extents.size(), array.array.dimension));
  }
  std::int64_t rows_needed(std::int64_t slab) const;
  bool fit_slab(std::int64_t buffers, std::int64_t rows);
  bool has_descriptors() const;
  std::int64_t buffers_of(const Placed& array) const;
  std::int64_t allocated_rows() const;
  /// The pieces that follow have so many elements along the outer dimension.
  void set_piece(std::int64_t elements) {
    piece_elements_ = elements;
    const auto set = [elements](Placed& each) {
      if (!each.is_cut_twice()) return;
      each.outer_tiles =
          ceil_divide(elements, tile_size(each.extents.size(), each.array.outer_dimension));
    };
    for (Placed& source : sources_) set(source);
    set(target_);
  }
  void make_descriptors();
  bool follow_each_other() const;
  void emit_pieces(const SlabBody& body, std::int64_t pieces);
  void emit_piece(const SlabBody& body, Index piece);
  void run_pipeline(const SlabBody& body, const BlockPipeline::Blocks& blocks,
                    const std::function<Index(Index block)>& slab_of);
  void allocate();
  BoxDma dma_of(const Placed& array, bool loads, std::int64_t elements);
  void transfer(Placed& array, bool loads, Index slab, Index parity, std::int64_t elements);
  void start_loads(Index slab, Index parity);
  std::int64_t elements_of(Index slab) const;
  std::int64_t loaded(std::int64_t elements) const;
  Index line_tile(Index slab);
  Index loaded_tile(const Placed& line, Index slab);
  Index finished_tiles(const Placed& line, Index slab);
  ScalarOperand finished_granules(const Placed& line, Index slab);
  void take_over(Index slab, Index parity);
  void work(const SlabBody& body, Index slab, Index parity, std::int64_t elements);
  /// An array of a slab of so many elements, wherever it lies.
  TileArray extents_of(const Placed& array, std::int64_t elements) const;
  TileArray view(const Placed& array, Index slab, Index parity, std::int64_t elements);
  std::int64_t scratch_rows(std::int64_t slab) const;
  Index buffer_begin(const Placed& array, Index parity) {
    return multiply(builder_, parity, array.buffer_rows(slab_tiles(array, slab_)));
  }

  SlabSite& site_;
  KernelBuilder& builder_;
  ElementMover& mover_;
  ScratchRows scratch_;
  std::vector<Placed> sources_;
  Placed target_;
  std::int64_t unit_ = 1, extent_ = 1;
  std::int64_t outer_extent_ = 1, piece_ = 1, piece_elements_ = 1;
  Index present_piece_;
  std::int64_t slab_ = 1;  ///< Elements of the cut dimension.
  std::int64_t buffers_ = 2;
  bool has_room_for_next_ = false;  ///< Where a piece is one slab.
  std::vector<SReg> addresses_;
};

/// Of the larger of a slab and the last one, which may lie otherwise.
std::int64_t SlabKernel::scratch_rows(std::int64_t slab) const {
  if (!scratch_) return 0;
  std::int64_t rows = 0;
  for (const std::int64_t elements : {std::min(slab, extent_), extent_ % slab}) {
    if (elements == 0) continue;
    std::vector<TileArray> sources;
    for (const Placed& source : sources_) sources.push_back(extents_of(source, elements));
    rows = std::max(rows, scratch_(sources, extents_of(target_, elements)));
  }
  return rows;
}

std::int64_t SlabKernel::rows_needed(std::int64_t slab) const {
  const std::int64_t buffers = slab >= extent_ ? 1 : buffers_;
  std::int64_t rows = scratch_rows(slab);
  for (const Placed* each : all()) {
    const std::int64_t tiles = slab_tiles(*each, slab);
    rows += (each->is_cut() ? buffers : 1) * each->buffer_rows(tiles) + 8;
    if (each->is_widened()) rows += 8 * each->tiles(tiles);
  }
  return rows;
}

/// A descriptor has to hold the distance from run to run, unless there is only one run.
bool SlabKernel::has_descriptors() const {
  for (const Placed* each : all()) {
    if (!each->is_cut()) continue;
    const auto inner = static_cast<std::size_t>(each->inner_cut());
    bool is_one_run = !each->is_cut_twice();
    for (std::size_t i = 0; i < inner; ++i) is_one_run = is_one_run && each->tiles_along(i) == 1;
    if (!is_one_run && each->tiles_along(inner) * each->distance(each->inner_cut()) > 0xffff) {
      return false;
    }
  }
  return true;
}

bool SlabKernel::take(std::int64_t slab, std::uint64_t vmem_bytes) {
  slab_ = std::min(slab, extent_);
  return has_descriptors() && rows_needed(slab_) <= room_of(vmem_bytes);
}

bool SlabKernel::fit(std::uint64_t vmem_bytes) {
  if (!has_descriptors()) return false;
  const std::int64_t room = room_of(vmem_bytes);
  slab_ = extent_;
  const std::int64_t whole = rows_needed(extent_);
  has_room_for_next_ = 2 * whole <= room;
  if (whole <= std::min(room, kRowsAtOnce)) return true;
  if (!target_.is_cut()) return whole <= room;
  // Two buffers in half of VMEM at most, so that DMAs and work overlap, and at least a few slabs,
  // or the smallest slabs; else one buffer in all of VMEM.
  if (fit_slab(2, std::min(room / 2, std::max(kRowsAtOnce, whole / 4 + 64)))) return true;
  slab_ = unit_;
  if (whole > kWorthFewSlabs && unit_ < extent_ && rows_needed(unit_) <= room) return true;
  if (whole > room / 4 && (fit_slab(2, room / 2) || fit_slab(1, room))) return true;
  slab_ = extent_;
  return whole <= room;
}

/// The first slab is waited for, and the last one's way out; all of them where there is one buffer.
/// Of small arrays it is nothing worth other slabs.
double SlabKernel::exposed() const {
  if (rows_needed(extent_) * ceil_divide(outer_extent_, piece_) <= kWorthFewSlabs) return 0;
  const bool overlaps = slab_ < extent_ && buffers_ == 2;
  return overlaps ? double(slab_) / double(extent_) : 1;
}

/// Finds the largest slab, less than everything, with so many buffers in so many rows; false when
/// there is none.
bool SlabKernel::fit_slab(std::int64_t buffers, std::int64_t rows) {
  buffers_ = buffers;
  std::int64_t best = 0;
  for (std::int64_t low = 1, high = (extent_ - 1) / unit_; low <= high;) {
    const std::int64_t middle = (low + high) / 2;
    const bool fits = rows_needed(middle * unit_) <= rows;
    if (fits) best = middle;
    (fits ? low : high) = fits ? middle + 1 : middle - 1;
  }
  slab_ = best * unit_;
  return best > 0;
}

double SlabKernel::granules() const {
  const std::int64_t pieces = ceil_divide(outer_extent_, piece_);
  double granules = 0;
  for (const Placed* each : all()) {
    const std::int64_t slabs = each->is_cut() ? extent_ / slab_ : 1;
    const std::int64_t rest = each->is_cut() ? extent_ % slab_ : 0;
    std::int64_t of_piece = slabs * each->granules(slab_tiles(*each, slab_));
    if (rest > 0) of_piece += each->granules(slab_tiles(*each, rest));
    granules += static_cast<double>(pieces * of_piece);
  }
  return granules;
}

bool SlabKernel::loads_packed() const {
  return std::any_of(sources_.begin(), sources_.end(),
                     [](const Placed& source) { return is_packed(source.array.shape); });
}

std::int64_t SlabKernel::buffers_of(const Placed& array) const {
  if (!array.is_cut()) return 1;
  return follow_each_other() ? 2 : slab_ < extent_ ? buffers_ : 1;
}

std::int64_t SlabKernel::allocated_rows() const {
  std::int64_t rows = round_up(scratch_rows(slab_), std::int64_t{8});
  for (const Placed* each : all()) {
    const std::int64_t tiles = slab_tiles(*each, slab_);
    rows += buffers_of(*each) * each->buffer_rows(tiles) + 8;
    if (each->is_widened()) rows += 8 * each->tiles(tiles);
  }
  return rows;
}

void SlabKernel::allocate() {
  site_.begin_stretch();
  const auto prepare = [&](Placed& each) {
    const std::int64_t tiles = slab_tiles(each, slab_);
    each.buffers = site_.allocate(buffers_of(each) * each.buffer_rows(tiles) + 8);
    if (each.is_widened()) each.wide = site_.allocate(8 * each.tiles(tiles));
  };
  for (Placed& source : sources_) prepare(source);
  prepare(target_);
  if (const std::int64_t rows = scratch_rows(slab_); rows > 0) {
    mover_.use_scratch(site_.allocate(rows));
  }
}

void SlabKernel::make_descriptors() {
  const std::int64_t rest = extent_ % slab_;
  const auto prepare = [&](Placed& each, bool loads) {
    each.dma = dma_of(each, loads, std::min(slab_, extent_));
    if (rest > 0) each.last_dma = each.array.is_line ? each.dma : dma_of(each, loads, rest);
  };
  for (Placed& source : sources_) prepare(source, true);
  prepare(target_, false);
}

BoxDma SlabKernel::dma_of(const Placed& array, bool loads, std::int64_t elements) {
  const std::int64_t tiles = slab_tiles(array, elements);
  const std::int64_t granules = array.granules(tiles) / array.dmas();
  StridedBox box{static_cast<std::uint32_t>(granules)};
  if (array.is_cut()) {
    const int inner = array.inner_cut();
    const std::int64_t distance = array.distance(inner);
    const std::int64_t run =
        (inner == array.array.dimension ? tiles : array.outer_tiles) * distance;
    box.run = static_cast<std::uint32_t>(run);
    box.runs = static_cast<std::uint32_t>(granules / run);
    box.hbm_stride =
        static_cast<std::uint32_t>(array.tiles_along(static_cast<std::size_t>(inner)) * distance);
  }
  BoxDma::Boxes boxes;
  boxes.count = static_cast<std::uint32_t>(array.dmas());
  if (boxes.count > 1) {
    const int major = array.outer_cut();
    boxes.hbm_distance = static_cast<std::uint32_t>(
        array.tiles_along(static_cast<std::size_t>(major)) * array.distance(major));
    boxes.vmem_distance = 2 * box.granules();
  }
  return {builder_, loads, box, boxes};
}

void SlabKernel::transfer(Placed& array, bool loads, Index slab, Index parity,
                          std::int64_t elements) {
  const std::uint32_t flag = loads ? site_.load_flag : site_.store_flag;
  Index offset;
  if (array.array.is_line) {
    offset =
        multiply(builder_, loads ? loaded_tile(array, slab) : line_tile(slab), array.tile_granules);
  } else if (array.is_cut()) {
    const std::int64_t distance = array.distance(array.array.dimension);
    const std::int64_t advance = array.array.advance.value_or(slab_);
    const Index passed = multiply(builder_, slab, array.tiles_of(std::abs(advance)) * distance);
    const std::int64_t first = array.tiles_of(array.array.begin) * distance;
    offset = advance < 0 ? counted_back(builder_, first, passed) : passed.plus(first);
  }
  if (array.is_cut_twice()) {
    const std::int64_t tiles =
        ceil_divide(piece_, tile_size(array.extents.size(), array.array.outer_dimension));
    offset = add(
        builder_, offset,
        multiply(builder_, present_piece_, tiles * array.distance(array.array.outer_dimension)));
  }
  const SReg hbm = builder_.add(addresses_[static_cast<std::size_t>(array.array.operand)],
                                to_operand(builder_, offset));
  const VmemAddress vmem =
      at(array.buffers, array.is_cut() ? buffer_begin(array, parity) : Index{});
  const ScalarOperand to_flag = to_operand(builder_, parity.plus(flag));
  if (!loads && array.array.is_line) {
    return array.dma.start(hbm, vmem, to_flag, finished_granules(array, slab));
  }
  (elements == slab_ ? array.dma : array.last_dma).start(hbm, vmem, to_flag);
}

/// The tile of a line that a slab's first element stands in.
Index SlabKernel::line_tile(Index slab) {
  return divide_by_power_of_two(builder_, multiply(builder_, slab, slab_), kLineBits);
}

/// The first tile of a line that is fetched for a slab: all of them are in the array.
Index SlabKernel::loaded_tile(const Placed& line, Index slab) {
  const std::int64_t last = line.extents.front() / 8 - line.line_tiles(slab_);
  const Index first = line_tile(slab);
  if (first.is_constant()) return {{}, std::min(first.offset, last)};
  return {builder_.min(to_operand(builder_, first), last), 0};
}

/// Tiles that are complete with the slab, with the last one all.
Index SlabKernel::finished_tiles(const Placed& line, Index slab) {
  const Index first = line_tile(slab);
  const auto until = [&](Index end) {
    return add(builder_, end, {builder_.sub(0, to_operand(builder_, first)), 0});
  };
  const std::int64_t slabs = ceil_divide(extent_, slab_), all = line.extents.front() / 8;
  const Index next = line_tile(slab.plus(1));
  if (slab.is_constant()) {
    return {{}, (slab.offset + 1 < slabs ? next.offset : all) - first.offset};
  }
  if (extent_ % slab_ != 0) return until(next);
  const PReg is_last = builder_.equal(to_operand(builder_, slab), slabs - 1);
  return until({builder_.select(is_last, all, to_operand(builder_, next)), 0});
}

ScalarOperand SlabKernel::finished_granules(const Placed& line, Index slab) {
  return to_operand(builder_, multiply(builder_, finished_tiles(line, slab), line.tile_granules));
}

/// The tile that the slab before began goes to the begin of this one's buffer.
void SlabKernel::take_over(Index slab, Index parity) {
  const auto copy = [&] {
    const Index before = slab.plus(-1);
    const Index place =
        add(builder_, buffer_begin(target_, modulo_power_of_two(builder_, before, 1)),
            multiply(builder_, finished_tiles(target_, before), 8));
    builder_.store(at(target_.buffers, buffer_begin(target_, parity)),
                   builder_.load(at(target_.buffers, place)));
  };
  if (slab.is_constant()) {
    if (slab.offset > 0) copy();
    return;
  }
  builder_.if_(builder_.less(0, to_operand(builder_, slab)), copy);
  builder_.new_block();
}

/// Of a slab; the last one may be smaller, and has DMAs of its own.
void SlabKernel::start_loads(Index slab, Index parity) {
  const std::int64_t full = extent_ / slab_, rest = extent_ % slab_;
  const auto start = [&](std::int64_t elements) {
    for (Placed& source : sources_) {
      if (source.is_cut()) transfer(source, true, slab, parity, elements);
    }
  };
  if (slab.is_constant() || rest == 0 || buffers_ == 1) return start(elements_of(slab));
  builder_.if_(builder_.less(to_operand(builder_, slab), full), [&] { start(slab_); });
  builder_.if_(builder_.equal(to_operand(builder_, slab), full), [&] { start(rest); });
}

/// A slab with a constant number may be the smaller last one.
std::int64_t SlabKernel::elements_of(Index slab) const {
  return std::min(slab_, extent_ - (slab.is_constant() ? slab.offset * slab_ : 0));
}

std::int64_t SlabKernel::loaded(std::int64_t elements) const {
  std::int64_t granules = 0;
  for (const Placed& source : sources_) {
    const std::int64_t of_slab = source.array.is_line ? slab_ : elements;
    if (source.is_cut()) granules += source.granules(slab_tiles(source, of_slab));
  }
  return granules;
}

TileArray SlabKernel::extents_of(const Placed& array, std::int64_t elements) const {
  TileArray tiles;
  tiles.extents = array.extents;
  if (array.is_cut()) {
    tiles.extents[static_cast<std::size_t>(array.array.dimension)] =
        array.array.is_line ? 8 * array.line_tiles(slab_) : array.indices(elements);
  }
  if (array.is_cut_twice()) {
    tiles.extents[static_cast<std::size_t>(array.array.outer_dimension)] = piece_elements_;
  }
  return tiles;
}

TileArray SlabKernel::view(const Placed& array, Index slab, Index parity, std::int64_t elements) {
  TileArray tiles = extents_of(array, elements);
  if (array.array.is_line) {
    const bool loads = &array != &target_;
    const Index tile = loads ? loaded_tile(array, slab) : line_tile(slab);
    const Index before = multiply(builder_, tile, -kLineElements);
    tiles.first = add(builder_, multiply(builder_, slab, slab_), before);
  }
  if (array.is_widened()) {
    tiles.region = array.wide;
  } else {
    if (is_packed(array.array.shape)) tiles.packed = site_.memory.get();
    tiles.region = array.buffers;
    if (array.is_cut()) tiles.begin = buffer_begin(array, parity);
  }
  return tiles;
}

void SlabKernel::work(const SlabBody& body, Index slab, Index parity, std::int64_t elements) {
  builder_.new_block();
  if (target_.array.is_line && slab_ < extent_) take_over(slab, parity);
  std::vector<TileArray> sources;
  for (const Placed& source : sources_) {
    sources.push_back(view(source, slab, parity, elements));
    if (source.is_widened()) {
      mover_.unpack(*site_.memory, source.buffers,
                    source.is_cut() ? buffer_begin(source, parity) : Index{}, sources.back());
    }
  }
  const TileArray target = view(target_, slab, parity, elements);
  body(mover_, sources, target);
  if (target_.is_widened()) {
    mover_.pack(*site_.memory, target, target_.buffers,
                target_.is_cut() ? buffer_begin(target_, parity) : Index{});
  }
  builder_.new_block();
}

void SlabKernel::emit(const SlabBody& body) {
  int last = target_.array.operand;
  for (int i = 0; i <= last; ++i) addresses_.push_back(builder_.operand(i));
  allocate();
  const std::int64_t pieces = outer_extent_ / piece_, rest = outer_extent_ % piece_;
  make_descriptors();
  if (pieces == 1) {
    emit_piece(body, {});
  } else if (follow_each_other()) {
    emit_pieces(body, pieces);
  } else {
    builder_.loop(static_cast<std::uint64_t>(pieces), [&](SReg piece) {
      emit_piece(body, {piece, 0});
    });
  }
  if (rest > 0) {
    set_piece(rest);
    make_descriptors();
    emit_piece(body, {{}, pieces});
  }
}

/// Whether pieces are single slabs, of which the next one is fetched while one is worked on.
bool SlabKernel::follow_each_other() const {
  const std::vector<const Placed*> arrays = all();
  return slab_ >= extent_ && outer_extent_ / piece_ > 1 && has_room_for_next_ &&
         std::all_of(arrays.begin(), arrays.end(),
                     [](const Placed* each) { return each->is_cut_twice(); });
}

/// Pieces of a slab each.
void SlabKernel::emit_pieces(const SlabBody& body, std::int64_t pieces) {
  run_pipeline(body, {pieces, false, 2}, [this](Index piece) {
    present_piece_ = piece;
    return Index{};
  });
}

/// All slabs of a piece. When it ends nothing is under way.
void SlabKernel::emit_piece(const SlabBody& body, Index piece) {
  present_piece_ = piece;
  std::int64_t whole = 0;
  for (Placed& source : sources_) {
    if (source.is_cut()) continue;
    transfer(source, true, {}, {}, slab_);
    whole += source.granules(0);
  }
  if (whole > 0) builder_.wait(site_.load_flag, whole);
  const std::int64_t slabs = ceil_divide(extent_, slab_);
  run_pipeline(body, {slabs, extent_ % slab_ != 0, buffers_}, [](Index slab) { return slab; });
}

/// `slab_of`: the slab that a block is; makes its piece the present one.
void SlabKernel::run_pipeline(const SlabBody& body, const BlockPipeline::Blocks& blocks,
                              const std::function<Index(Index block)>& slab_of) {
  BlockPipeline::Transfer load, store;
  load.flag = site_.load_flag;
  load.is_straight = false;
  load.granules = [&](Index block) { return loaded(elements_of(slab_of(block))); };
  if (loaded(slab_) > 0) {
    load.start = [&](Index block, Index parity) { start_loads(slab_of(block), parity); };
  }
  store.flag = site_.store_flag;
  store.granules = [&](Index block) -> ScalarOperand {
    if (target_.array.is_line) return finished_granules(target_, slab_of(block));
    return target_.granules(slab_tiles(target_, elements_of(slab_of(block))));
  };
  store.start = [&](Index block, Index parity) {
    const Index slab = slab_of(block);
    transfer(target_, false, slab, parity, elements_of(slab));
  };
  BlockPipeline(builder_, blocks, load, store).run([&](Index block, Index parity) {
    const Index slab = slab_of(block);
    work(body, slab, parity, elements_of(slab));
  });
}

/// Stretches of slabs, one behind the other.
class StretchedKernel {
 public:
  StretchedKernel(const std::string& name, const Target& chip) : site_(name, chip) {}

  SlabKernel& add(const std::vector<SlabArray>& sources, const SlabArray& target,
                  std::int64_t extent, const SlabBody& body, std::int64_t outer_extent,
                  const ScratchRows& scratch) {
    stretches_.emplace_back(site_, sources, target, extent, outer_extent, scratch);
    bodies_.push_back(body);
    return stretches_.back();
  }

  LoweredKernel emit() {
    std::int64_t rows = 0;
    bool loads_packed = false, stores_packed = false;
    for (const SlabKernel& each : stretches_) {
      rows = std::max(rows, each.rows());
      loads_packed |= each.loads_packed();
      stores_packed |= each.stores_packed();
    }
    site_.prepare(rows, loads_packed, stores_packed);
    for (std::size_t i = 0; i < stretches_.size(); ++i) stretches_[i].emit(bodies_[i]);
    return lowered_kernel(site_.builder);
  }

 private:
  SlabSite site_;
  std::deque<SlabKernel> stretches_;
  std::vector<SlabBody> bodies_;
};

}  // namespace

std::vector<std::int64_t> tiled_extents(const hlo::Shape& shape) {
  std::vector<std::int64_t> extents = physical_extents(shape);
  if (extents.size() >= 2) return extents;
  const std::int64_t count = extents.empty() ? 1 : extents.front();
  return {ceil_divide(count, 1024) * 8, 128};
}

std::optional<SlabPlan> plan_slabs(const std::string& name, const std::vector<SlabArray>& sources,
                                   const SlabArray& target, std::int64_t extent,
                                   const SlabBody& body, const Target& chip,
                                   std::int64_t outer_extent, const ScratchRows& scratch) {
  const auto kernel = std::make_shared<StretchedKernel>(name, chip);
  SlabKernel& slabs = kernel->add(sources, target, extent, body, outer_extent, scratch);
  if (!slabs.fit(chip.vmem_bytes)) return std::nullopt;
  return SlabPlan{[kernel] { return kernel->emit(); }, slabs.exposed(), slabs.granules()};
}

std::optional<SlabPlan> plan_stretches(const std::string& name,
                                       const std::vector<SlabStretch>& stretches,
                                       const Target& chip) {
  const auto kernel = std::make_shared<StretchedKernel>(name, chip);
  double granules = 0, exposed = 0;
  for (const SlabStretch& each : stretches) {
    SlabKernel& slabs = kernel->add(each.sources, each.target, each.extent, each.body, 1, {});
    if (!slabs.take(each.slab, chip.vmem_bytes)) return std::nullopt;
    granules += slabs.granules();
    exposed += slabs.granules() * slabs.exposed();
  }
  return SlabPlan{[kernel] { return kernel->emit(); }, exposed / granules, granules};
}

}  // namespace tpu::compiler
