#include "workloads/compiler/kernels/relayout/relayout_long_rows.h"

#include <algorithm>
#include <functional>

#include "isa/instruction.h"
#include "sim/base/ceil_divide.h"
#include "workloads/compiler/ir/array_layout.h"
#include "workloads/compiler/ir/kernel_forms.h"
#include "workloads/compiler/kernels/relayout/relayout_slabs.h"
#include "workloads/compiler/kernels/tiles/block_pipeline.h"
#include "workloads/compiler/kernels/tiles/box_dma.h"

namespace tpu::compiler {

namespace {

/// Elements of a register.
constexpr std::int64_t kLongRegister = std::int64_t{isa::kSublanes} * isa::kLanes;
constexpr int kLongRegisterBits = 10, kLongLaneBits = 7;
constexpr std::int64_t kGranulesOfATile = 4;
/// Of a row; more hide no more of the memory's latency.
constexpr std::int64_t kLargestPart = 1 << 16;
/// Registers that one piece of straight code moves.
constexpr std::int64_t kRegistersAtOnce = 16;

/// Matrices of rows of lanes.
struct LongRows {
  std::int64_t matrices = 1, rows = 1, lanes = 1;
  std::int64_t part = 0;  ///< Lanes that are worked on at a time.

  std::int64_t tiles() const { return ceil_divide(lanes, std::int64_t{isa::kLanes}); }
  std::int64_t parts() const { return ceil_divide(lanes, part); }
  std::int64_t elements() const { return matrices * rows * lanes; }
  std::int64_t row_tiles() const { return ceil_divide(rows, std::int64_t{isa::kSublanes}); }
  /// Of the last tile of rows.
  std::int64_t rest() const { return rows - isa::kSublanes * (row_tiles() - 1); }
};

std::optional<LongRows> long_rows_of(const hlo::Shape& shape) {
  if (shape.rank() < 2 || hlo::byte_size(shape.type) != 4) return std::nullopt;
  LongRows rows;
  rows.lanes = shape.dimensions.back();
  rows.rows = shape.dimensions[shape.dimensions.size() - 2];
  rows.matrices = shape.element_count() / (rows.rows * rows.lanes);
  return rows;
}

/// Elements one behind the other.
bool is_line(const hlo::Shape& shape) {
  if (shape.rank() < 2) return true;
  const bool is_one_matrix =
      shape.dimensions[shape.dimensions.size() - 2] * isa::kLanes == shape.element_count() ||
      shape.dimensions[shape.dimensions.size() - 2] % isa::kSublanes == 0;
  return shape.dimensions.back() == isa::kLanes && is_one_matrix;
}

/// Moves a part of a row to the line, or of a tile of rows from it, whose padding is written, too.
/// In HBM a granule has two rows of a tile: those of one row are fetched alone.
class LongRowsKernel {
 public:
  LongRowsKernel(const std::string& name, const LongRows& rows, bool cuts, const Target& chip)
      : builder_(name, chip), rows_(rows), cuts_(cuts) {}

  LoweredKernel emit();

  /// VMEM rows of a part, and of the elements of one row of it in a line.
  static std::int64_t part_rows(std::int64_t part, bool cuts) {
    return (cuts ? isa::kSublanes : 2) * part / isa::kLanes;
  }
  static std::int64_t line_rows(std::int64_t part) { return part / isa::kLanes + 16; }
  static std::int64_t lines(const LongRows& rows, bool cuts) {
    return cuts ? std::min<std::int64_t>(rows.rows, isa::kSublanes) : 1;
  }
  static std::int64_t vmem_rows(const LongRows& rows, bool cuts) {
    return 2 * (part_rows(rows.part, cuts) + lines(rows, cuts) * line_rows(rows.part));
  }

 private:
  /// What a block is about.
  struct Place {
    Index part;      ///< Of the rows.
    Index granule;   ///< Of the part, in the array of rows.
    Index row;       ///< Of the line, the first one of those that the block moves.
    Index in_pair;   ///< Of the row, where there is one.
    Index row_tile;  ///< Of the matrix, where there are several rows.
  };
  Place place(Index block);
  /// Before the first block, where what waits for one is skipped, v2's products want a number.
  Index that_is(Index block) {
    return block.is_constant() ? block : Index{builder_.max(to_operand(builder_, block), 0), 0};
  }
  Index least(Index a, std::int64_t b) {
    if (a.is_constant()) return {{}, std::min(a.offset, b)};
    return {builder_.min(to_operand(builder_, a), b), 0};
  }
  Index element(Index row, Index part) {
    return add(builder_, multiply(builder_, row, rows_.lanes),
               multiply(builder_, part, rows_.part));
  }
  Index tile(Index element) { return divide_by_power_of_two(builder_, element, kLongRegisterBits); }
  std::int64_t line_tiles() const { return ceil_divide(rows_.elements(), kLongRegister); }
  std::int64_t blocks() const {
    return rows_.matrices * (cuts_ ? rows_.row_tiles() : rows_.rows) * rows_.parts();
  }
  ScalarOperand part_granules(Index part);
  Index fetched_tiles(Index first);
  Index finished_tiles(Index block);
  VmemAddress line(Index buffer, Index row) {
    const Index begin = multiply(builder_, buffer, line_rows(rows_.part));
    return at(line_, add(builder_, begin, row));
  }
  VmemAddress part(Index buffer, Index row) {
    const Index begin = multiply(builder_, buffer, part_rows(rows_.part, cuts_));
    return at(part_, add(builder_, begin, row));
  }
  void take_over(Index block, Index buffer);
  void append(const Place& place, Index buffer);
  void cut(Index row, Index part, Index line_buffer, std::int64_t in_tile, Index buffer);
  void for_rows(const Place& place, const std::function<void(std::int64_t row)>& body);
  Index tiles_of_rows(const Place& place);
  Index line_of(Index buffer, std::int64_t row) {
    return multiply(builder_, buffer, lines(rows_, true)).plus(row);
  }
  void join_all();
  void cut_all();
  /// The registers of a part, in pieces of straight code.
  void for_registers(const std::function<void(Index first, std::int64_t many)>& piece) {
    builder_.new_block();
    in_pieces(builder_, rows_.part / kLongRegister, kRegistersAtOnce, piece);
    builder_.new_block();
  }
  MReg lanes_below(SReg end) {
    const VReg lane = builder_.and_(builder_.lane_sequence(), isa::kLanes - 1);
    return builder_.vector_compare(isa::Opcode::kVcmpLtS32, lane, builder_.splat(end));
  }

  KernelBuilder builder_;
  LongRows rows_;
  bool cuts_;
  SReg from_, to_;
  VmemRegion part_, line_;  ///< Two buffers; of the line that is cut for each row of a tile.
  BoxDma part_dma_, line_dma_;
  SVariable finished_;  ///< Tiles of the line that the block before has completed.
  std::uint32_t load_flag_ = 0, store_flag_ = 0;
};

LongRowsKernel::Place LongRowsKernel::place(Index block) {
  Place place;
  place.part = modulo(builder_, block, rows_.parts());
  const Index item = divide(builder_, block, rows_.parts());
  const std::int64_t of_matrix = cuts_ ? rows_.row_tiles() : rows_.rows;
  const Index matrix = divide(builder_, item, of_matrix), of = modulo(builder_, item, of_matrix);
  place.row_tile = cuts_ ? of : divide_by_power_of_two(builder_, of, 3);
  place.row = cuts_ ? add(builder_, multiply(builder_, matrix, rows_.rows),
                          multiply(builder_, of, isa::kSublanes))
                    : item;
  const Index row_tile =
      add(builder_, multiply(builder_, matrix, rows_.row_tiles()), place.row_tile);
  const Index tile = add(builder_, multiply(builder_, row_tile, rows_.tiles()),
                         multiply(builder_, place.part, rows_.part / isa::kLanes));
  place.granule = multiply(builder_, tile, kGranulesOfATile);
  if (cuts_) return place;
  place.in_pair = modulo_power_of_two(builder_, of, 1);
  const Index pair = divide_by_power_of_two(builder_, modulo_power_of_two(builder_, of, 3), 1);
  place.granule = add(builder_, place.granule, pair);
  return place;
}

/// The last part of a row has fewer.
ScalarOperand LongRowsKernel::part_granules(Index part) {
  const std::int64_t whole = rows_.part / isa::kLanes;
  const std::int64_t last = rows_.tiles() - (rows_.parts() - 1) * whole;
  if (last == whole) return whole;
  if (part.is_constant()) return part.offset + 1 < rows_.parts() ? whole : last;
  const PReg is_last = builder_.equal(to_operand(builder_, part), rows_.parts() - 1);
  return builder_.select(is_last, last, whole);
}

/// Tiles of the line that hold a part that begins in this one: those that are there.
Index LongRowsKernel::fetched_tiles(Index first) {
  return least(counted_back(builder_, line_tiles(), first), rows_.part / kLongRegister + 1);
}

/// Tiles of the line that are complete with the block, with the last one all.
Index LongRowsKernel::finished_tiles(Index block) {
  const Place here = place(block), next = place(block.plus(1));
  const Index first = tile(element(here.row, here.part));
  const Index end = tile(element(next.row, next.part));
  if (block.is_constant()) {
    return {{}, (block.offset + 1 < blocks() ? end.offset : line_tiles()) - first.offset};
  }
  const PReg is_last = builder_.equal(to_operand(builder_, block), blocks() - 1);
  const SReg behind = builder_.select(is_last, line_tiles(), to_operand(builder_, end));
  return {builder_.sub(behind, to_operand(builder_, first)), 0};
}

/// The tile that the block before began goes to the begin of this one's buffer.
void LongRowsKernel::take_over(Index block, Index buffer) {
  builder_.if_(builder_.less(0, to_operand(builder_, block)), [&] {
    const Index other{builder_.sub(1, to_operand(builder_, buffer)), 0};
    const Index row = multiply(builder_, {builder_.get(finished_), 0}, 8);
    builder_.store(line(buffer, {}), builder_.load(line(other, row)));
  });
  builder_.set(finished_, to_operand(builder_, finished_tiles(block)));
  builder_.new_block();
}

/// What stands behind the row's end comes along, and is overwritten by the next part.
void LongRowsKernel::append(const Place& place, Index buffer) {
  const Index first = element(place.row, place.part);
  for_registers([&](Index number, std::int64_t many) {
    const Index row = divide_by_power_of_two(
        builder_, modulo_power_of_two(builder_, first, kLongRegisterBits), kLongLaneBits);
    const SReg shift =
        to_operand(builder_, modulo_power_of_two(builder_, first, kLongLaneBits)).reg;
    const MReg below = lanes_below(shift);
    const MReg above = builder_.mask(isa::Opcode::kVmneg, below);
    for (std::int64_t i = 0; i < many; ++i) {
      const Index of_part = add(builder_, place.in_pair, multiply(builder_, number.plus(i), 16));
      const VReg value = builder_.load(part(buffer, of_part).stride(2));
      const VReg turned = builder_.rotate_lanes(value, shift);
      const Index of_line = add(builder_, row, multiply(builder_, number.plus(i), 8));
      builder_.store(line(buffer, of_line), above, turned);
      builder_.store(line(buffer, of_line.plus(1)), below, turned);
    }
  });
}

void LongRowsKernel::cut(Index row, Index of_part, Index line_buffer, std::int64_t in_tile,
                         Index buffer) {
  const Index first = element(row, of_part);
  for_registers([&](Index number, std::int64_t many) {
    const Index begin = divide_by_power_of_two(
        builder_, modulo_power_of_two(builder_, first, kLongRegisterBits), kLongLaneBits);
    const SReg lane = to_operand(builder_, modulo_power_of_two(builder_, first, kLongLaneBits)).reg;
    const SReg turn = builder_.and_(builder_.sub(isa::kLanes, lane), isa::kLanes - 1);
    const MReg of_next = lanes_below(lane);
    for (std::int64_t i = 0; i < many; ++i) {
      const Index of_line = add(builder_, begin, multiply(builder_, number.plus(i), 8));
      const VReg here = builder_.load(line(line_buffer, of_line));
      const VReg next = builder_.load(line(line_buffer, of_line.plus(1)));
      const VReg turned = builder_.rotate_lanes(builder_.select(of_next, next, here), turn);
      const Index to = multiply(builder_, number.plus(i), 64).plus(in_tile);
      builder_.store(part(buffer, to).stride(8), turned);
    }
  });
}

void LongRowsKernel::join_all() {
  BlockPipeline::Transfer load, store;
  load.flag = load_flag_;
  load.granules = [&](Index block) { return part_granules(place(block).part); };
  load.start = [&](Index block, Index buffer) {
    const Place here = place(block);
    part_dma_.start(builder_.add(from_, to_operand(builder_, here.granule)), part(buffer, {}),
                    to_operand(builder_, buffer.plus(load_flag_)), part_granules(here.part));
  };
  store.flag = store_flag_;
  const auto finished = [&](Index block) {
    return to_operand(builder_,
                      multiply(builder_, finished_tiles(that_is(block)), kGranulesOfATile));
  };
  store.granules = finished;
  store.start = [&](Index block, Index buffer) {
    const Place here = place(block);
    const Index first = multiply(builder_, tile(element(here.row, here.part)), kGranulesOfATile);
    line_dma_.start(builder_.add(to_, to_operand(builder_, first)), line(buffer, {}),
                    to_operand(builder_, buffer.plus(store_flag_)), finished(block));
  };
  BlockPipeline(builder_, {blocks(), false, 2}, load, store).run([&](Index block, Index buffer) {
    builder_.new_block();
    take_over(block, buffer);
    append(place(block), buffer);
  });
}

/// Those that are there of a tile of rows: of the last one there may be fewer.
void LongRowsKernel::for_rows(const Place& place,
                              const std::function<void(std::int64_t row)>& body) {
  const auto some = [&body](std::int64_t first, std::int64_t end) {
    for (std::int64_t row = first; row < end; ++row) body(row);
  };
  some(0, rows_.rest());
  if (rows_.row_tiles() == 1 || rows_.rest() == isa::kSublanes) return;
  const auto others = [&] { some(rows_.rest(), isa::kSublanes); };
  const std::int64_t last = rows_.row_tiles() - 1;
  if (!place.row_tile.is_constant()) {
    builder_.if_(builder_.less(to_operand(builder_, place.row_tile), last), others);
  } else if (place.row_tile.offset < last) {
    others();
  }
}

/// Tiles of the line that are fetched for a block.
Index LongRowsKernel::tiles_of_rows(const Place& place) {
  Index tiles, others;
  const std::int64_t all = lines(rows_, true);
  for (std::int64_t row = 0; row < all; ++row) {
    Index& sum = row < rows_.rest() ? tiles : others;
    sum = add(builder_, sum, fetched_tiles(tile(element(place.row.plus(row), place.part))));
  }
  const std::int64_t last = rows_.row_tiles() - 1;
  if (last == 0 || rows_.rest() == isa::kSublanes) return tiles;
  if (place.row_tile.is_constant()) {
    return place.row_tile.offset < last ? add(builder_, tiles, others) : tiles;
  }
  const PReg has_others = builder_.less(to_operand(builder_, place.row_tile), last);
  const SReg more = builder_.select(has_others, to_operand(builder_, others), 0);
  return add(builder_, tiles, {more, 0});
}

void LongRowsKernel::cut_all() {
  BlockPipeline::Transfer load, store;
  load.flag = load_flag_;
  load.is_straight = false;
  load.granules = [&](Index block) -> ScalarOperand {
    return to_operand(builder_, multiply(builder_, tiles_of_rows(place(block)), kGranulesOfATile));
  };
  load.start = [&](Index block, Index buffer) {
    const Place here = place(block);
    for_rows(here, [&](std::int64_t row) {
      const Index first = tile(element(here.row.plus(row), here.part));
      const Index from = multiply(builder_, first, kGranulesOfATile);
      line_dma_.start(
          builder_.add(from_, to_operand(builder_, from)), line(line_of(buffer, row), {}),
          to_operand(builder_, buffer.plus(load_flag_)),
          to_operand(builder_, multiply(builder_, fetched_tiles(first), kGranulesOfATile)));
    });
  };
  store.flag = store_flag_;
  const auto stored = [&](const Place& here) {
    const ScalarOperand tiles = part_granules(here.part);
    return tiles.reg ? ScalarOperand(builder_.mul(tiles.reg, kGranulesOfATile))
                     : ScalarOperand(std::int64_t{tiles.immediate} * kGranulesOfATile);
  };
  store.granules = [&](Index block) { return stored(place(that_is(block))); };
  store.start = [&](Index block, Index buffer) {
    const Place here = place(block);
    part_dma_.start(builder_.add(to_, to_operand(builder_, here.granule)), part(buffer, {}),
                    to_operand(builder_, buffer.plus(store_flag_)), stored(here));
  };
  BlockPipeline(builder_, {blocks(), false, 2}, load, store).run([&](Index block, Index buffer) {
    const Place here = place(block);
    for_rows(here, [&](std::int64_t row) {
      cut(here.row.plus(row), here.part, line_of(buffer, row), row, buffer);
    });
  });
}

LoweredKernel LongRowsKernel::emit() {
  from_ = builder_.operand(0);
  to_ = builder_.operand(1);
  part_ = builder_.allocate_vmem(static_cast<std::uint64_t>(2 * part_rows(rows_.part, cuts_)));
  line_ = builder_.allocate_vmem(
      static_cast<std::uint64_t>(2 * lines(rows_, cuts_) * line_rows(rows_.part)));
  load_flag_ = BlockPipeline::allocate_flags(builder_);
  store_flag_ = BlockPipeline::allocate_flags(builder_);
  if (!cuts_) finished_ = builder_.scalar_variable(0);
  const auto tiles = static_cast<std::uint32_t>(rows_.part / isa::kLanes);
  const StridedBox of_part = cuts_
                                 ? StridedBox{static_cast<std::uint32_t>(tiles * kGranulesOfATile)}
                                 : StridedBox{1, tiles, kGranulesOfATile};
  part_dma_ = BoxDma(builder_, !cuts_, of_part);
  const StridedBox of_line{
      static_cast<std::uint32_t>((rows_.part / kLongRegister + 1) * kGranulesOfATile)};
  line_dma_ = BoxDma(builder_, cuts_, of_line);
  cuts_ ? cut_all() : join_all();
  return lowered_kernel(builder_);
}

/// The largest part of which blocks can be counted, and the last of a row is no less than a
/// register.
std::optional<std::int64_t> part_of(LongRows rows, bool cuts, const Target& chip) {
  const std::int64_t of_matrix = cuts ? rows.row_tiles() : rows.rows;
  for (rows.part = kLargestPart; rows.part >= kLongRegister; rows.part -= kLongRegister) {
    const std::int64_t parts = rows.parts(), items = rows.matrices * of_matrix;
    const bool fits = 512 * LongRowsKernel::vmem_rows(rows, cuts) <=
                      static_cast<std::int64_t>(chip.vmem_bytes) / 2;
    if (!fits || parts < 2 || rows.lanes - (parts - 1) * rows.part < kLongRegister) continue;
    if (has_modulo(parts, items * parts + 1) && has_modulo(of_matrix, items + 1)) return rows.part;
  }
  return std::nullopt;
}

}  // namespace

std::optional<KernelPlan> plan_long_rows(const std::string& name, const hlo::Shape& from,
                                         const hlo::Shape& to, const Target& chip) {
  const bool cuts = is_line(from);
  if (cuts == is_line(to)) return std::nullopt;
  std::optional<LongRows> rows = long_rows_of(cuts ? to : from);
  if (!rows) return std::nullopt;
  const std::optional<std::int64_t> part = part_of(*rows, cuts, chip);
  // v2 multiplies 24 bits.
  if (!part || rows->lanes >= 1 << 24 || rows->elements() > INT32_MAX) return std::nullopt;
  rows->part = *part;
  return KernelPlan(
      [name, rows = *rows, cuts, &chip] { return LongRowsKernel(name, rows, cuts, chip).emit(); });
}

}  // namespace tpu::compiler
