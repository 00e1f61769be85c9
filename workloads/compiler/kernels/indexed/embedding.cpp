#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "sim/base/ceil_divide.h"
#include "sim/base/error.h"
#include "workloads/compiler/cost.h"
#include "workloads/compiler/ir/array_layout.h"
#include "workloads/compiler/ir/combining_operation.h"
#include "workloads/compiler/ir/constant_word.h"
#include "workloads/compiler/ir/kernel_forms.h"
#include "workloads/compiler/kernels/elementwise/elementwise_memory.h"
#include "workloads/compiler/kernels/indexed/index_words.h"
#include "workloads/compiler/kernels/indexed/scatter_combiner.h"
#include "workloads/compiler/kernels/lowering.h"
#include "workloads/compiler/kernels/tiles/block_pipeline.h"
#include "workloads/compiler/kernels/tiles/box_dma.h"

namespace tpu::compiler {

namespace {

using isa::Opcode;

/// Of VMEM, for what finds no register.
constexpr std::int64_t kRoomForSpills = 64 << 10;

/// A table [rows, width], indices [count] and rows [count, width] that are taken from it or added
/// to it.
struct EmbeddingShapes {
  std::int64_t table_rows = 0, count = 0;
  std::int64_t lane_tiles = 1;
  bool packed = false;              ///< bf16: two rows of a tile in a VMEM row.
  std::int64_t chunk = kIndexTile;  ///< Indices that stand in SMEM at a time.
  bool are_in_range = false;        ///< The indices; not what stands behind the last one.

  std::int64_t tile_rows() const { return packed ? 4 : 8; }  ///< Of VMEM.
  std::int64_t tile_granules() const { return tile_rows() / 2; }
};

[[noreturn]] void refuse_rows(const hlo::HloInstruction& instruction, const hlo::Shape& table,
                              const hlo::Shape& indices, const std::string& why) {
  throw WorkloadError("no kernel for " + std::string(hlo::to_string(instruction.opcode)) + " " +
                      hlo::to_string(table) + ", " + hlo::to_string(indices) + " -> " +
                      hlo::to_string(instruction.shape) + " \"" + instruction.name + "\": " + why);
}

EmbeddingShapes read_shapes(const hlo::HloInstruction& instruction, const hlo::Shape& table,
                            const hlo::Shape& indices, const hlo::Shape& rows,
                            const Target& target) {
  const hlo::GatherDimensions& dimensions = instruction.gather;
  const bool is_gather = instruction.opcode == hlo::HloOpcode::kGather;
  const std::vector<std::int64_t> zero{0}, one{1};
  const bool whole_rows =
      table.rank() == 2 && indices.rank() == 1 && rows.rank() == 2 &&
      dimensions.offset_dims == one && dimensions.collapsed_slice_dims == zero &&
      dimensions.start_index_map == zero && dimensions.index_vector_dim == 1 &&
      (!is_gather || dimensions.slice_sizes == std::vector<std::int64_t>{1, table.dimensions[1]});
  if (!whole_rows) {
    refuse_rows(instruction, table, indices,
                "expected whole rows of a table by a vector of indices");
  }
  const std::vector<std::int64_t> row_major{1, 0};
  const bool plain =
      (is_gather || table.type != hlo::ElementType::kBf16) && rows.type == table.type &&
      (indices.type == hlo::ElementType::kS32 || indices.type == hlo::ElementType::kU32) &&
      table.layout.minor_to_major == row_major && rows.layout.minor_to_major == row_major;
  if (!plain) {
    refuse_rows(instruction, table, indices,
                "expected a table and result in row-major order and 32-bit indices");
  }
  return {table.dimensions[0],
          rows.dimensions[0],
          ceil_divide(table.dimensions[1], 128),
          table.type == hlo::ElementType::kBf16,
          indices_at_once(target),
          dimensions.indices_in_range};
}

/// The VMEM row in which a row of a table of 32-bit elements stands, in the first of `width` lane
/// tiles that stand side by side: whole tiles before it, and the rest; of a single lane tile all
/// rows follow each other.
SReg place_of_row(KernelBuilder& builder, SReg row, std::int64_t width) {
  if (width == 1) return row;
  const auto beside = static_cast<std::uint32_t>(isa::kSublanes * (width - 1));
  return builder.add(row, builder.mul(builder.shift_right(row, 3), beside));
}

/// `width` lane tiles of so many rows of tiles.
StridedBox lane_tiles_box(std::int64_t tile_rows, std::int64_t width,
                          const EmbeddingShapes& shapes) {
  return {static_cast<std::uint32_t>(shapes.tile_granules() * width),
          static_cast<std::uint32_t>(tile_rows),
          static_cast<std::uint32_t>(shapes.tile_granules() * shapes.lane_tiles)};
}

/// By how much a VMEM row of two packed rows is shifted so that the upper halves are this one's.
VReg shift_of_packed(KernelBuilder& builder, SReg row) {
  const SReg is_even = builder.sub(1, builder.and_(row, 1));
  return builder.splat(builder.shift_left(is_even, 4));
}

/// Two packed rows as one: the first in the lower halves.
VReg packed_pair(KernelBuilder& builder, VReg even, VReg even_shift, VReg odd, VReg odd_shift) {
  const VReg low = builder.vector(Opcode::kVshllU32, even, even_shift);
  const VReg high = builder.vector(Opcode::kVshllU32, odd, odd_shift);
  return builder.or_(builder.shift_right(low, 16), builder.and_(high, 0xffff0000U));
}

/// Gather of rows from a table in HBM. A granule holds two rows of a tile, so that a DMA of a
/// granule per lane tile brings the pair of rows (of bf16 four rows) in which the wanted one
/// stands; 32 such DMAs are under way while the 32 rows before are put together to tiles; of fewer
/// rows than a tile has, those alone are moved. Rows of which VMEM does not hold so many are
/// gathered in parts, some lane tiles of all rows at a time.
class GatherKernel {
 public:
  GatherKernel(const hlo::HloInstruction& instruction, const EmbeddingShapes& shapes,
               const Target& target)
      : shapes_(shapes),
        builder_(instruction.name, target),
        group_(std::min(kMostRows, round_up(shapes.count, std::int64_t{isa::kSublanes}))),
        rows_of_tile_(std::min<std::int64_t>(shapes.count, isa::kSublanes)) {
    const std::int64_t rows =
        (static_cast<std::int64_t>(target.vmem_bytes) - kRoomForSpills) / isa::kVmemRowBytes;
    width_ = std::min(shapes.lane_tiles, rows / (6 * group_));
    while (shapes.lane_tiles % width_ != 0) --width_;
  }

  LoweredKernel emit();

 private:
  static constexpr std::int64_t kMostRows = 32;
  void emit_part();
  void emit_chunk(Index chunk, std::int64_t groups);
  void start_group(Index group);
  void assemble(Index group);
  void assemble_tile(const std::vector<SReg>& from, const std::vector<VReg>& shifts, Index right,
                     Index to);
  SReg row_of(Index i);

  EmbeddingShapes shapes_;
  KernelBuilder builder_;
  std::int64_t group_;         ///< Rows of the result that are under way together.
  std::int64_t rows_of_tile_;  ///< Of eight, those that are moved.
  std::int64_t width_;         ///< Lane tiles of a part.
  std::unique_ptr<IndexWords> indices_;
  SReg table_, result_;  ///< Of the part.
  VmemRegion pairs_, tiles_;
  BoxDma pair_dma_, result_dma_;
  std::uint32_t load_flag_ = 0, store_flag_ = 0;
};

LoweredKernel GatherKernel::emit() {
  const SReg table = builder_.operand(0), indices = builder_.operand(1);
  const SReg result = builder_.operand(2);
  load_flag_ = BlockPipeline::allocate_flags(builder_);
  store_flag_ = BlockPipeline::allocate_flags(builder_);
  indices_ = std::make_unique<IndexWords>(builder_, indices, shapes_.count, shapes_.chunk);
  const auto rows = static_cast<std::uint64_t>(2 * group_ * width_);
  pairs_ = builder_.allocate_vmem(2 * rows + 8);
  tiles_ = builder_.allocate_vmem(rows);
  pair_dma_ = BoxDma(
      builder_, true,
      {1, static_cast<std::uint32_t>(width_), static_cast<std::uint32_t>(shapes_.tile_granules())});
  result_dma_ = BoxDma(builder_, false, lane_tiles_box(group_ / 8, width_, shapes_));
  repeat(builder_, shapes_.lane_tiles / width_, [&](Index part) {
    const Index right = multiply(builder_, part, shapes_.tile_granules() * width_);
    table_ = right.reg ? builder_.add(table, right.reg) : table;
    result_ = right.reg ? builder_.add(result, right.reg) : result;
    emit_part();
  });
  return lowered_kernel(builder_);
}

void GatherKernel::emit_part() {
  indices_->for_each_chunk([this](Index chunk, std::int64_t indices) {
    emit_chunk(chunk, ceil_divide(indices, group_));
  });
}

SReg GatherKernel::row_of(Index i) { return indices_->clamped(i, shapes_.table_rows); }

void GatherKernel::start_group(Index group) {
  const Index parity = modulo_power_of_two(builder_, group, 1);
  const Index buffer = multiply(builder_, parity, 2 * group_ * width_);
  builder_.loop(group_ / 8, [&](SReg part) {
    const Index first =
        add(builder_, multiply(builder_, group, group_), multiply(builder_, {part, 0}, 8));
    for (std::int64_t i = 0; i < rows_of_tile_; ++i) {
      const SReg row = row_of(first.plus(i));
      const SReg tile_row =
          builder_.mul(builder_.shift_right(row, 3),
                       static_cast<std::uint32_t>(shapes_.tile_granules() * shapes_.lane_tiles));
      const SReg pair = builder_.shift_right(builder_.and_(row, 7), shapes_.packed ? 2 : 1);
      const SReg place = builder_.add(table_, builder_.add(tile_row, pair));
      const Index to = add(builder_, buffer, multiply(builder_, {part, 0}, 8 * 2 * width_));
      pair_dma_.start(place, at(pairs_, to.plus(i * 2 * width_)),
                      to_operand(builder_, parity.plus(load_flag_)));
    }
  });
}

void GatherKernel::assemble(Index group) {
  const std::int64_t tile_rows = shapes_.tile_rows();
  const Index parity = modulo_power_of_two(builder_, group, 1);
  const Index buffer = multiply(builder_, parity, 2 * group_ * width_);
  const Index target = multiply(builder_, parity, group_ / 8 * tile_rows * width_);
  builder_.loop(group_ / 8, [&](SReg part) {
    const Index first =
        add(builder_, multiply(builder_, group, group_), multiply(builder_, {part, 0}, 8));
    std::vector<SReg> from;
    const Index pairs = add(builder_, buffer, multiply(builder_, {part, 0}, 8 * 2 * width_));
    for (std::int64_t i = 0; i < rows_of_tile_; ++i) {
      const SReg number = row_of(first.plus(i));
      const SReg odd = builder_.and_(shapes_.packed ? builder_.shift_right(number, 1) : number, 1);
      const Index row = add(builder_, {odd, 0}, pairs.plus(i * 2 * width_));
      from.push_back(builder_.add(row.reg, row.offset));
    }
    const Index tiles = add(builder_, target, multiply(builder_, {part, 0}, tile_rows * width_));
    std::vector<VReg> shifts;
    for (std::int64_t i = 0; shapes_.packed && i < rows_of_tile_; ++i) {
      shifts.push_back(shift_of_packed(builder_, row_of(first.plus(i))));
    }
    const std::int64_t together = shapes_.packed ? std::gcd(width_, std::int64_t{4}) : 1;
    repeat(builder_, width_ / together, [&](Index group_of_tiles) {
      for (std::int64_t i = 0; i < together; ++i) {
        const Index lane_tile = multiply(builder_, group_of_tiles, together).plus(i);
        assemble_tile(from, shifts, multiply(builder_, lane_tile, 2),
                      add(builder_, tiles, multiply(builder_, lane_tile, tile_rows)));
      }
    });
  });
}

/// The rows of a lane tile.
void GatherKernel::assemble_tile(const std::vector<SReg>& from, const std::vector<VReg>& shifts,
                                 Index right, Index to) {
  const auto load = [&](std::size_t i) {
    const VmemAddress source(pairs_, right.offset, from[i], right.reg);
    return builder_.load(source.mask(0x1));
  };
  if (!shapes_.packed) {
    for (std::size_t i = 0; i < from.size(); ++i) {
      builder_.store(at(tiles_, to.plus(static_cast<std::int64_t>(i))).mask(0x1), load(i));
    }
    return;
  }
  for (std::size_t i = 0; i < from.size(); i += 2) {
    const std::size_t next = std::min(i + 1, from.size() - 1);
    builder_.store(at(tiles_, to.plus(static_cast<std::int64_t>(i / 2))).mask(0x1),
                   packed_pair(builder_, load(i), shifts[i], load(next), shifts[next]));
  }
}

void GatherKernel::emit_chunk(Index chunk, std::int64_t groups) {
  const std::int64_t tile_rows = ceil_divide(shapes_.count, 8);
  const std::int64_t row_granules = shapes_.tile_granules() * shapes_.lane_tiles;
  const std::int64_t part_granules = shapes_.tile_granules() * width_;
  const std::int64_t buffer_rows = group_ / 8 * shapes_.tile_rows() * width_;
  const auto begin_of = [=](Index group) {  // Tile row of the result.
    return add(builder_, multiply(builder_, chunk, shapes_.chunk / 8),
               multiply(builder_, group, group_ / 8));
  };
  BlockPipeline::Transfer load, store;
  load.flag = load_flag_;
  load.is_straight = false;
  load.start = [this](Index group, Index) { start_group(group); };
  load.granules = [this](Index) { return group_ / isa::kSublanes * rows_of_tile_ * width_; };
  store.flag = store_flag_;
  store.granules = [=](Index group) -> ScalarOperand {
    const Index begin = begin_of(group);
    if (begin.is_constant()) {
      return std::min(group_ / 8, tile_rows - begin.offset) * part_granules;
    }
    const SReg left = builder_.sub(tile_rows, to_operand(builder_, begin));
    return builder_.mul(builder_.min(left, group_ / 8), static_cast<std::uint32_t>(part_granules));
  };
  store.start = [=](Index group, Index parity) {
    const Index place = multiply(builder_, begin_of(group), row_granules);
    result_dma_.start(builder_.add(result_, to_operand(builder_, place)),
                      at(tiles_, multiply(builder_, parity, buffer_rows)),
                      to_operand(builder_, parity.plus(store_flag_)), store.granules(group));
  };
  BlockPipeline(builder_, {groups}, load, store).run([this](Index group, Index) {
    assemble(group);
  });
}

/// Rows of a gather's result, or of a scatter's updates, that a DMA moves, and buffers of them: the
/// DMAs are short.
constexpr std::int64_t kRowGroup = 64, kRowBuffers = 4;

/// Packed tiles of a table that come to VMEM at a time, to be unpacked there.
constexpr std::int64_t kTilesUnpacked = 64;

/// Tiles of a table that VMEM holds beside the buffers of such rows of this width, a scatter's
/// spare row, packed tiles on their way and what finds no register.
std::int64_t tiles_beside_rows(std::int64_t width, const EmbeddingShapes& shapes,
                               const Target& target) {
  constexpr std::int64_t kTileBytes = isa::kSublanes * isa::kVmemRowBytes;
  // Two buffers of half a tile, and room for a whole block behind the last tile.
  const std::int64_t unpacking = shapes.packed ? 2 * kTilesUnpacked * kTileBytes : 0;
  const std::int64_t apart =
      (kRowBuffers * kRowGroup + 8) * width * isa::kVmemRowBytes + kRoomForSpills + unpacking;
  return (static_cast<std::int64_t>(target.vmem_bytes) - apart) / kTileBytes;
}

double table_bytes(const EmbeddingShapes& shapes) {
  return static_cast<double>(1024 * shapes.tile_granules() * ceil_divide(shapes.table_rows, 8) *
                             shapes.lane_tiles);
}

/// Lane tiles of a table that stand in VMEM together, all rows of them, a divisor of all. 0: not
/// even one does.
std::int64_t resident_lane_tiles(const EmbeddingShapes& shapes, const Target& target) {
  constexpr std::int64_t kMost = 16;  // Unrolled.
  const std::int64_t tile_rows = ceil_divide(shapes.table_rows, 8);
  for (std::int64_t width = std::min(kMost, shapes.lane_tiles); width > 0; --width) {
    if (shapes.lane_tiles % width != 0) continue;
    if (width * tile_rows <= tiles_beside_rows(width, shapes, target)) return width;
  }
  return 0;
}

/// Some lane tiles of the rows that the indices of a chunk are for.
struct ChunkRows {
  EmbeddingShapes shapes;
  std::int64_t width = 1;  ///< Lane tiles.
  Index chunk;
  SReg array;  ///< Granule of the first row's first lane tile.
};

/// The DMAs of their groups, out of buffers or into them; the last group may be smaller.
BlockPipeline::Transfer groups_of_rows(KernelBuilder& builder, const ChunkRows& rows, BoxDma& dma,
                                       const VmemRegion& buffers, std::uint32_t flag) {
  const auto begin_of = [=, &builder](Index group) {  // Tile row of the array.
    return add(builder, multiply(builder, rows.chunk, rows.shapes.chunk / 8),
               multiply(builder, group, kRowGroup / 8));
  };
  BlockPipeline::Transfer transfer;
  transfer.flag = flag;
  transfer.granules = [=, &builder](Index group) {
    const SReg left =
        builder.sub(ceil_divide(rows.shapes.count, 8), to_operand(builder, begin_of(group)));
    return builder.mul(builder.min(left, kRowGroup / 8),
                       static_cast<std::uint32_t>(rows.shapes.tile_granules() * rows.width));
  };
  transfer.start = [=, &builder, &dma, granules = transfer.granules](Index group, Index parity) {
    const Index place =
        multiply(builder, begin_of(group), rows.shapes.tile_granules() * rows.shapes.lane_tiles);
    const std::int64_t buffer_rows = kRowGroup / 8 * rows.shapes.tile_rows() * rows.width;
    dma.start(builder.add(rows.array, to_operand(builder, place)),
              at(buffers, multiply(builder, parity, buffer_rows)),
              to_operand(builder, parity.plus(flag)), granules(group));
  };
  return transfer;
}

/// Gather of rows from a table that stands in VMEM, some lane tiles of all its rows at a time: a
/// load and a store per row and lane tile at the address that the index gives, while the DMA of the
/// rows before is under way. Two rows of bf16 share a VMEM row: the table is unpacked when it
/// comes, and the rows are packed when they leave.
class ResidentGatherKernel {
 public:
  ResidentGatherKernel(const hlo::HloInstruction& instruction, const EmbeddingShapes& shapes,
                       const Target& target)
      : shapes_(shapes),
        builder_(instruction.name, target),
        width_(resident_lane_tiles(shapes, target)) {}

  LoweredKernel emit();

 private:
  /// Rows in straight code, times their lane tiles.
  static constexpr std::int64_t kMostAtOnce = 64;
  void emit_column(SReg first_lane_granule);
  void load_packed(SReg table);
  void emit_chunk(Index chunk, std::int64_t indices, SReg result);
  void assemble(Index group, Index buffer);
  void pack(Index buffer);
  /// Tile rows that are unpacked at a time: whole registers of packed ones.
  std::int64_t unpacked_tile_rows() const {
    return std::max<std::int64_t>(2, kTilesUnpacked / width_ / 2 * 2);
  }

  EmbeddingShapes shapes_;
  KernelBuilder builder_;
  std::int64_t width_;  ///< Lane tiles in VMEM.
  std::unique_ptr<IndexWords> indices_;
  SReg table_, result_;
  VmemRegion table_rows_;  ///< Of 32 bits.
  VmemRegion packed_;      ///< Two buffers of a packed table.
  VmemRegion assembled_;   ///< A group of rows of 32 bits; where they leave as such, the buffers.
  VmemRegion rows_;        ///< Buffers of what leaves.
  BoxDma table_dma_, result_dma_;
  std::uint32_t table_flag_ = 0, store_flag_ = 0;
};

LoweredKernel ResidentGatherKernel::emit() {
  table_ = builder_.operand(0);
  const SReg indices = builder_.operand(1);
  result_ = builder_.operand(2);
  table_flag_ = BlockPipeline::allocate_flags(builder_);
  store_flag_ = BlockPipeline::allocate_flags(builder_, kRowBuffers);
  indices_ = std::make_unique<IndexWords>(builder_, indices, shapes_.count, shapes_.chunk);
  std::int64_t tile_rows = ceil_divide(shapes_.table_rows, 8);
  const auto lanes = [&](std::int64_t rows) { return lane_tiles_box(rows, width_, shapes_); };
  const auto allocate = [&](std::int64_t rows) {
    return builder_.allocate_vmem(static_cast<std::uint64_t>(rows * width_));
  };
  if (shapes_.packed) {
    packed_ = allocate(2 * unpacked_tile_rows() * shapes_.tile_rows());
    table_dma_ = BoxDma(builder_, true, lanes(unpacked_tile_rows()));
    tile_rows = round_up(tile_rows, unpacked_tile_rows());
    assembled_ = allocate(kRowGroup);
    rows_ = allocate(kRowBuffers * kRowGroup / 2);
  } else {
    table_dma_ = BoxDma(builder_, true, lanes(tile_rows));
    assembled_ = rows_ = allocate(kRowBuffers * kRowGroup);
  }
  table_rows_ = allocate(8 * tile_rows);
  result_dma_ = BoxDma(builder_, false, lanes(kRowGroup / 8));
  repeat(builder_, shapes_.lane_tiles / width_, [&](Index column) {
    const Index right = multiply(builder_, column, shapes_.tile_granules() * width_);
    emit_column(builder_.add(to_operand(builder_, right), 0));
  });
  return lowered_kernel(builder_);
}

void ResidentGatherKernel::emit_column(SReg first_lane_granule) {
  const SReg table = builder_.add(table_, first_lane_granule);
  if (shapes_.packed) {
    load_packed(table);
  } else {
    const std::int64_t granules = 4 * ceil_divide(shapes_.table_rows, 8) * width_;
    table_dma_.start(table, table_rows_, table_flag_, granules);
    builder_.wait(table_flag_, granules);
  }
  const SReg result = builder_.add(result_, first_lane_granule);
  indices_->for_each_chunk(
      [&](Index chunk, std::int64_t indices) { emit_chunk(chunk, indices, result); });
}

/// Eight VMEM rows of pairs become sixteen rows. Behind the last tile is whatever the buffer held.
void ResidentGatherKernel::load_packed(SReg table) {
  const std::int64_t tile_rows = ceil_divide(shapes_.table_rows, 8), block = unpacked_tile_rows();
  const std::int64_t buffer_rows = block * width_ * shapes_.tile_rows();
  BlockPipeline::Transfer load;
  load.flag = table_flag_;
  load.granules = [=](Index number) -> ScalarOperand {
    const SReg left =
        builder_.sub(tile_rows, to_operand(builder_, multiply(builder_, number, block)));
    return builder_.mul(builder_.min(left, block),
                        static_cast<std::uint32_t>(shapes_.tile_granules() * width_));
  };
  load.start = [=, granules = load.granules](Index number, Index buffer) {
    const Index place =
        multiply(builder_, number, block * shapes_.tile_granules() * shapes_.lane_tiles);
    table_dma_.start(builder_.add(table, to_operand(builder_, place)),
                     at(packed_, multiply(builder_, buffer, buffer_rows)),
                     to_operand(builder_, buffer.plus(table_flag_)), granules(number));
  };
  BlockPipeline(builder_, {ceil_divide(tile_rows, block)}, load, {})
      .run([&](Index number, Index buffer) {
        builder_.new_block();
        const Index source = multiply(builder_, buffer, buffer_rows);
        const Index target = multiply(builder_, number, 2 * buffer_rows);
        in_pieces(builder_, buffer_rows / 8, 8, [&](Index first, std::int64_t many) {
          const Index from = add(builder_, source, multiply(builder_, first, 8));
          const Index to = add(builder_, target, multiply(builder_, first, 16));
          for (std::int64_t i = 0; i < many; ++i) {
            const VReg pairs = builder_.load(at(packed_, from.plus(8 * i)));
            const VmemAddress rows = at(table_rows_, to.plus(16 * i)).stride(2);
            builder_.store(rows, builder_.unpack_even(pairs));
            builder_.store(rows.plus(1), builder_.unpack_odd(pairs));
          }
        });
        builder_.new_block();
      });
}

/// Indices behind the last one are whatever their memory holds: they are clamped, whether others
/// are or not, and the tiles that only they would fill are not written. Of indices in range the
/// group with a constant number may be the last one.
void ResidentGatherKernel::assemble(Index group, Index buffer) {
  // Of narrow rows so many in straight code that the latency of an index counts little.
  const std::int64_t tiles = std::max<std::int64_t>(1, kMostAtOnce / width_ / 8);
  const bool clamps = !shapes_.are_in_range || group.is_constant();
  in_pieces(builder_, kRowGroup / 8, tiles, [&](Index tile, std::int64_t many) {
    const Index first =
        add(builder_, multiply(builder_, group, kRowGroup), multiply(builder_, tile, 8));
    const Index to =
        add(builder_, shapes_.packed ? Index{} : buffer, multiply(builder_, tile, 8 * width_));
    for (std::int64_t i = 0; i < 8 * many; ++i) {
      const SReg row = clamps ? indices_->clamped(first.plus(i), shapes_.table_rows)
                              : indices_->get(first.plus(i));
      const SReg from = place_of_row(builder_, row, width_);
      const std::int64_t below = i / 8 * 8 * width_ + i % 8;
      for (std::int64_t lane_tile = 0; lane_tile < width_; ++lane_tile) {
        builder_.store(at(assembled_, to.plus(8 * lane_tile + below)).mask(0x1),
                       builder_.load(VmemAddress(table_rows_, 8 * lane_tile, from).mask(0x1)));
      }
    }
  });
  if (shapes_.packed) pack(buffer);
}

/// The group's rows, in pairs.
void ResidentGatherKernel::pack(Index buffer) {
  builder_.new_block();
  in_pieces(builder_, kRowGroup / 16 * width_, 8, [&](Index first, std::int64_t many) {
    const Index from = multiply(builder_, first, 16),
                to = add(builder_, buffer, multiply(builder_, first, 8));
    for (std::int64_t i = 0; i < many; ++i) {
      const VmemAddress rows = at(assembled_, from.plus(16 * i)).stride(2);
      builder_.store(at(rows_, to.plus(8 * i)),
                     builder_.pack_bf16(builder_.load(rows), builder_.load(rows.plus(1))));
    }
  });
  builder_.new_block();
}

void ResidentGatherKernel::emit_chunk(Index chunk, std::int64_t indices, SReg result) {
  const BlockPipeline::Transfer store =
      groups_of_rows(builder_, {shapes_, width_, chunk, result}, result_dma_, rows_, store_flag_);
  BlockPipeline::Blocks groups;
  groups.count = ceil_divide(indices, kRowGroup);
  groups.last_is_apart = shapes_.are_in_range && indices % kRowGroup != 0 && groups.count > 1;
  groups.buffers = kRowBuffers;
  BlockPipeline(builder_, groups, {}, store).run([this](Index group, Index buffer) {
    assemble(group, multiply(builder_, buffer, kRowGroup / 8 * shapes_.tile_rows() * width_));
  });
}

// Cycles of these kernels by rows and their lane tiles, measured on them (IndexedAccess, see the
// tests): what stands around a row's loads and stores, or these.

/// A row of a table that stands in VMEM, by an index in range.
double resident_row_cycles(std::int64_t lane_tiles) {
  return 0.5 + 1.25 * static_cast<double>(lane_tiles);
}
/// A row that comes by a DMA of its own.
double fetched_row_cycles(std::int64_t lane_tiles) {
  return 12 + 3.2 * static_cast<double>(lane_tiles);
}
/// A row that a scatter adds to one in VMEM, or leaves out.
double added_row_cycles(std::int64_t lane_tiles) {
  return 3.2 + 1.8 * static_cast<double>(lane_tiles);
}

/// Of a gather that brings its table to VMEM first. None: VMEM does not hold a column of lane
/// tiles.
std::optional<double> resident_cycles(const EmbeddingShapes& shapes, const Target& target) {
  const std::int64_t width = resident_lane_tiles(shapes, target);
  if (width == 0) return std::nullopt;
  const std::int64_t column_count = shapes.lane_tiles / width;
  const auto columns = static_cast<double>(column_count);
  return table_bytes(shapes) / target.hbm_bytes_per_cycle +
         columns * (target.dma_latency_cycles +
                    static_cast<double>(shapes.count) * resident_row_cycles(width));
}

double fetched_cycles(const EmbeddingShapes& shapes) {
  return static_cast<double>(shapes.count) * fetched_row_cycles(shapes.lane_tiles);
}

bool table_is_resident(const EmbeddingShapes& shapes, const Target& target) {
  const std::optional<double> cycles = resident_cycles(shapes, target);
  return cycles && *cycles < fetched_cycles(shapes);
}

/// What of its table a scatter has in VMEM at once.
struct PartOfTable {
  std::int64_t width = 1;   ///< Lane tiles, a divisor of all.
  std::int64_t height = 1;  ///< Tile rows.
};

PartOfTable part_of_table(const EmbeddingShapes& shapes, const Target& target) {
  constexpr std::int64_t kMostWidth = 32;  // Unrolled.
  const auto room = [&](std::int64_t width) { return tiles_beside_rows(width, shapes, target); };
  const std::int64_t tile_rows = ceil_divide(shapes.table_rows, 8);
  PartOfTable part;
  for (std::int64_t width = 1; width <= std::min(kMostWidth, shapes.lane_tiles); ++width) {
    if (shapes.lane_tiles % width == 0 && width * tile_rows <= room(width)) part.width = width;
  }
  part.height = std::min(tile_rows, room(part.width) / part.width);
  return part;
}

/// Scatter that combines rows. A part of the table (rows by lane tiles) stands in VMEM while all
/// updates pass by in their order; those of other rows meet a spare row.
class ScatterKernel {
 public:
  ScatterKernel(const hlo::HloInstruction& instruction, const EmbeddingShapes& shapes,
                const ScatterCombiner& combiner, const hlo::HloInstruction* start,
                const Target& target)
      : shapes_(shapes),
        combiner_(combiner),
        builder_(instruction.name, target),
        width_(part_of_table(shapes, target).width),
        height_(part_of_table(shapes, target).height) {
    if (start != nullptr) start_ = constant_word(*start, combiner.type);
  }

  LoweredKernel emit();

 private:
  void emit_part(Index part, std::int64_t height, SReg first_lane_granule);
  void add_chunk(Index chunk, std::int64_t groups, Index first_row, std::int64_t height,
                 SReg updates);
  void add_group(Index chunk, Index group, Index buffer, Index first_row, std::int64_t height);
  PReg lies_in_part(SReg row, std::int64_t height);
  VReg combined(const VmemAddress& old, VReg update);

  EmbeddingShapes shapes_;
  ScatterCombiner combiner_;
  std::optional<std::uint32_t> start_;  ///< What the table has everywhere; else it is operand 0.
  KernelBuilder builder_;
  std::int64_t width_;   ///< Lane tiles of a part.
  std::int64_t height_;  ///< Tile rows of a part.
  std::unique_ptr<IndexWords> indices_;
  SReg table_, updates_, result_;
  VmemRegion part_, rows_;
  BoxDma table_dma_, result_dma_, update_dma_;
  std::uint32_t table_flag_ = 0, update_flag_ = 0;
};

LoweredKernel ScatterKernel::emit() {
  if (!start_) table_ = builder_.operand(0);
  const SReg indices = builder_.operand(1);
  updates_ = builder_.operand(2);
  result_ = builder_.operand(3);
  table_flag_ = builder_.allocate_flag();
  update_flag_ = BlockPipeline::allocate_flags(builder_, kRowBuffers);
  indices_ = std::make_unique<IndexWords>(builder_, indices, shapes_.count, shapes_.chunk);
  part_ = builder_.allocate_vmem(static_cast<std::uint64_t>(8 * (height_ + 1) * width_));
  rows_ = builder_.allocate_vmem(static_cast<std::uint64_t>(kRowBuffers * kRowGroup * width_));
  const auto shape_of = [&](std::int64_t tile_rows) {
    return lane_tiles_box(tile_rows, width_, shapes_);
  };
  if (!start_) table_dma_ = BoxDma(builder_, true, shape_of(height_));
  result_dma_ = BoxDma(builder_, false, shape_of(height_));
  update_dma_ = BoxDma(builder_, true, shape_of(kRowGroup / 8));
  const std::int64_t tile_rows = ceil_divide(shapes_.table_rows, 8);
  const std::int64_t full = tile_rows / height_;
  repeat(builder_, shapes_.lane_tiles / width_, [&](Index column) {
    const Index right = multiply(builder_, column, 4 * width_);
    const SReg lanes = builder_.add(to_operand(builder_, right), 0);
    repeat(builder_, full, [&](Index part) { emit_part(part, height_, lanes); });
    if (tile_rows % height_ != 0) emit_part({{}, full}, tile_rows % height_, lanes);
  });
  return lowered_kernel(builder_);
}

void ScatterKernel::emit_part(Index part, std::int64_t height, SReg first_lane_granule) {
  const Index below = multiply(builder_, part, height_ * 4 * shapes_.lane_tiles);
  const SReg offset = builder_.add(first_lane_granule, to_operand(builder_, below));
  const std::int64_t granules = 4 * height * width_;
  if (start_) {
    builder_.new_block();
    fill_tiles(builder_, part_, {}, height * width_, *start_, 16);
    builder_.new_block();
  } else {
    table_dma_.start(builder_.add(table_, offset), part_, table_flag_, granules);
    builder_.wait(table_flag_, granules);
  }
  const Index first_row = multiply(builder_, part, 8 * height_);
  const SReg updates = builder_.add(updates_, first_lane_granule);
  indices_->for_each_chunk([&](Index chunk, std::int64_t indices) {
    add_chunk(chunk, ceil_divide(indices, kRowGroup), first_row, height, updates);
  });
  result_dma_.start(builder_.add(result_, offset), part_, table_flag_, granules);
  builder_.wait(table_flag_, granules);
}

void ScatterKernel::add_chunk(Index chunk, std::int64_t groups, Index first_row,
                              std::int64_t height, SReg updates) {
  const BlockPipeline::Transfer load =
      groups_of_rows(builder_, {shapes_, width_, chunk, updates}, update_dma_, rows_, update_flag_);
  BlockPipeline(builder_, {groups, false, kRowBuffers}, load, {})
      .run([&](Index group, Index buffer) {
        add_group(chunk, group, multiply(builder_, buffer, kRowGroup * width_), first_row, height);
      });
}

/// Updates that are for no row of the part go to the spare row, and so does what stands behind the
/// last update.
void ScatterKernel::add_group(Index chunk, Index group, Index buffer, Index first_row,
                              std::int64_t height) {
  const bool is_last = indices_->is_last(chunk);
  builder_.loop(kRowGroup / 8, [&](SReg part) {
    const Index within =
        add(builder_, multiply(builder_, group, kRowGroup), multiply(builder_, {part, 0}, 8));
    const Index from = add(builder_, buffer, multiply(builder_, {part, 0}, 8 * width_));
    for (std::int64_t i = 0; i < 8; ++i) {
      const SReg index = indices_->get(within.plus(i));
      const SReg row = first_row.is_constant() && first_row.offset == 0
                           ? index
                           : builder_.sub(index, to_operand(builder_, first_row));
      const SReg place = place_of_row(builder_, row, width_);
      PReg here = lies_in_part(row, height);
      if (is_last) {
        const SReg number = to_operand(builder_, within.plus(i)).reg;
        here = builder_.and_(here, builder_.less(number, shapes_.count % shapes_.chunk));
      }
      const SReg to = builder_.select(here, place, 8 * height_ * width_);
      for (std::int64_t lane_tile = 0; lane_tile < width_; ++lane_tile) {
        const VmemAddress sum = VmemAddress(part_, 8 * lane_tile, to).mask(0x1);
        const VmemAddress update = at(rows_, from.plus(8 * lane_tile + i)).mask(0x1);
        builder_.store(sum, combined(sum, builder_.load(update)));
      }
    }
  });
}

/// Whether a row lies in a part of so many tile rows, and not in another one or outside of the
/// table. (Behind the table's last row its tile has padding, which nothing reads.)
PReg ScatterKernel::lies_in_part(SReg row, std::int64_t height) {
  constexpr std::uint32_t kSign = 0x80000000;  // With it turned, numbers below 0 are the largest.
  const std::uint32_t end = static_cast<std::uint32_t>(8 * height) ^ kSign;
  return builder_.less(builder_.scalar(Opcode::kSxorU32, row, kSign), end);
}

VReg ScatterKernel::combined(const VmemAddress& old, VReg update) {
  if (combiner_.replaces()) return update;
  return combined_update(builder_, combiner_, builder_.load(old), update);
}

}  // namespace

double gathered_rows_cycles(std::int64_t table_rows, std::int64_t lane_tiles, std::int64_t count,
                            const Target& target) {
  const EmbeddingShapes shapes{table_rows, count, lane_tiles};
  return std::min(resident_cycles(shapes, target).value_or(HUGE_VAL), fetched_cycles(shapes));
}

double scattered_rows_cycles(std::int64_t table_rows, std::int64_t lane_tiles, std::int64_t count,
                             const Target& target) {
  const EmbeddingShapes shapes{table_rows, count, lane_tiles};
  const PartOfTable part = part_of_table(shapes, target);
  const std::int64_t columns = lane_tiles / part.width;
  const auto parts =
      static_cast<double>(columns * ceil_divide(ceil_divide(table_rows, 8), part.height));
  return 2 * table_bytes(shapes) / target.hbm_bytes_per_cycle +
         parts * (static_cast<double>(count) * added_row_cycles(part.width) +
                  3 * target.dma_latency_cycles);
}

LoweredKernel lower_embedding(const hlo::Module& module, const hlo::Computation& computation,
                              const hlo::HloInstruction& instruction, const Target& target) {
  const hlo::Shape& table = computation.at(instruction.operands.at(0)).shape;
  const hlo::Shape& indices = computation.at(instruction.operands.at(1)).shape;
  if (instruction.opcode == hlo::HloOpcode::kGather) {
    if (table.rank() > 2) return lower_block_gather(module, computation, instruction, target);
    const EmbeddingShapes shapes =
        read_shapes(instruction, table, indices, instruction.shape, target);
    if (table_is_resident(shapes, target)) {
      return ResidentGatherKernel(instruction, shapes, target).emit();
    }
    return GatherKernel(instruction, shapes, target).emit();
  }
  if (table.rank() == 1) return lower_element_scatter(module, computation, instruction, target);
  if (table.rank() > 2) return lower_block_scatter(module, computation, instruction, target);
  const hlo::Computation& to_apply = module.computation(instruction.called.at(0));
  const ScatterCombiner combiner{scatter_operation(to_apply), table.type};
  if (combiner.opcode == hlo::HloOpcode::kCount) {
    refuse_rows(instruction, table, indices,
                "expected the update alone, a sum, product, maximum, minimum, and or or");
  }
  const hlo::Shape& rows = computation.at(instruction.operands.at(2)).shape;
  const EmbeddingShapes shapes = read_shapes(instruction, table, indices, rows, target);
  return ScatterKernel(instruction, shapes, combiner, uniform_start(computation, instruction),
                       target)
      .emit();
}

}  // namespace tpu::compiler
