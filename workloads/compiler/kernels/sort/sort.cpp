#include <algorithm>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "sim/base/ceil_divide.h"
#include "sim/base/error.h"
#include "sim/base/power_of_two.h"
#include "workloads/compiler/ir/sort_form.h"
#include "workloads/compiler/kernels/elementwise/elementwise_memory.h"
#include "workloads/compiler/kernels/lowering.h"
#include "workloads/compiler/kernels/sort/sort_network.h"
#include "workloads/compiler/kernels/tiles/block_pipeline.h"
#include "workloads/compiler/kernels/tiles/box_dma.h"

namespace tpu::compiler {

namespace {

using isa::Opcode;

constexpr std::uint32_t kLastKey = 0x7fffffff;

/// Sorts columns of matrices that stand in VMEM, some lane tiles at a time, by a bitonic network.
///
/// The lowest bits of an element's position are the number of its register, so that most stages
/// compare whole registers; the bits above are its sublane (the partner comes by a load that
/// shuffles) and, where a sequence has several columns, its lane (by rotations, or as sublanes and
/// registers of the transpose). Which element stands where at the beginning does not matter; at the
/// end sublane s of register r is row s * registers + r.
///
/// Where a sequence has several lane tiles each is sorted, and the network goes on through HBM: of
/// each phase the stages between lane tiles come first, some registers of all of them at a time,
/// then those within a lane tile.
class SortKernel {
 public:
  /// `together`: registers of one word times words that stages are taken in at once.
  SortKernel(const hlo::HloInstruction& instruction, const SortForm& form, const Target& target,
             std::int64_t together)
      : form_(form),
        together_(together),
        builder_(instruction.name, target),
        registers_(form.registers()),
        lane_tiles_(ceil_divide(form.lanes, 128)),
        blocks_(sort_blocks(form, target)) {
    network_.register_bits = floor_log2(registers_);
    network_.lane_bits = form.lane_bits();
    network_.tile_bits = form.tile_bits();
    network_.kept = form.kept_bits();
    network_.most = floor_log2(std::max<std::int64_t>(2, together_ / form_.words));
    network_.part_bits = form.part_bits();
    network_.may_turn = form.may_turn();
  }

  /// Nothing where values find no registers; with `may_spill` they wait in VMEM.
  std::optional<LoweredKernel> emit(bool may_spill);

 private:
  using Words = std::vector<VReg>;
  /// A straight piece of code: the register that it begins with, and the VMEM row of that.
  struct Piece {
    SReg first_register, row;
    std::optional<VReg> known_mask;
    std::pair<int, int> known_bits{-1, -1};  ///< That it is made of.
  };
  /// What a DMA moves of a lane tile, `count` times.
  struct Boxes {
    StridedBox box;
    std::int64_t count = 1;
    std::int64_t hbm_distance = 0;    ///< Granules.
    std::int64_t vmem_distance = 0;   ///< VMEM rows.
    std::vector<std::int64_t> tiles;  ///< That are in each, where it is not all of the box.
  };

  void emit_round(const SortRound& round, bool is_first, bool is_last);
  BlockPipeline::Transfer transfer(bool is_load, const std::vector<SReg>& arrays,
                                   const Boxes& boxes);
  Boxes whole_columns(std::int64_t rows) const;
  Boxes columns_in_order() const;
  Index granule_of(Index block);
  std::int64_t lane_tiles_of_block() const {
    return round_->tile_bits > 0 ? std::int64_t{1} << round_->tile_bits : blocks_.width;
  }
  /// Registers of a word.
  std::int64_t block_registers() const {
    return lane_tiles_of_block() << (round_->tile_bits > 0 ? round_->part_bits
                                                           : network_.register_bits);
  }

  void fill_up(Index buffer);
  void emit_pass(const SortPass& pass, Index buffer);
  void emit_register_pass(const SortPass& pass, Index buffer);
  void emit_inner_pass(const SortPass& pass, Index buffer);
  void emit_turn(const SortPass& pass, Index buffer);
  void put_in_order(Index buffer);

  VReg bit_mask(int position_bit);
  std::optional<VReg> outer_mask(int position_bit);
  std::optional<VectorOperand> complement(Piece& piece, const SortStep& step,
                                          std::int64_t register_offset);
  void complement_keys(Piece& piece, const SortStep& step, std::int64_t register_offset,
                       Words& words);
  std::vector<Words> load_group(const SortPass& pass, const Piece& piece,
                                const std::vector<std::int64_t>& registers);
  void take_steps(const SortPass& pass, Piece& piece, const std::vector<std::int64_t>& registers,
                  std::vector<Words>& words);
  static std::int64_t spread(const SortPass& pass, std::int64_t group);
  Piece piece_of(const SortPass& pass, SReg index, std::int64_t together, Index buffer);
  std::int64_t kept_registers() const {
    return network_.kept < network_.register_bits ? std::int64_t{1} << network_.kept : registers_;
  }
  void compare_exchange(Words& low, Words& high);
  MReg is_before(const Words& a, const Words& b);
  Words partners(int bit, const VmemAddress& address, const Words& mine);
  VmemAddress place(std::int64_t word, SReg row, std::int64_t registers) const {
    return VmemAddress(work_[static_cast<std::size_t>(word)], 8 * registers, row);
  }
  VmemAddress place(const SortPass& pass, std::int64_t word, SReg row,
                    std::int64_t registers) const {
    if (!pass.is_strided) return place(word, row, registers);
    return VmemAddress(work_[static_cast<std::size_t>(word)], registers / 8 * 64 + registers % 8,
                       row)
        .stride(8);
  }
  /// Registers that one straight piece of code takes: a power of two.
  std::int64_t unrolled(std::int64_t count, std::int64_t most) const {
    std::int64_t together = 1;
    while (2 * together <= most && count % (2 * together) == 0) together *= 2;
    return together;
  }

  SortForm form_;
  std::int64_t together_;
  KernelBuilder builder_;
  std::int64_t registers_;  ///< Of a column of lanes.
  std::int64_t lane_tiles_;
  SortBlocks blocks_;
  SortNetwork network_;
  const SortRound* round_ = nullptr;  ///< That is being emitted.
  Index outer_;                       ///< The number that the outer bits of a position are.
  std::vector<VmemRegion> work_;      ///< Of each word.
  std::vector<SReg> operands_, results_;
  std::uint32_t load_flag_ = 0, store_flag_ = 0;
};

std::optional<LoweredKernel> SortKernel::emit(bool may_spill) {
  for (int i = 0; i < form_.words; ++i) operands_.push_back(builder_.operand(i));
  for (int i = 0; i < form_.words; ++i) {
    results_.push_back(builder_.operand(static_cast<int>(form_.words) + i));
  }
  const std::int64_t rows = 8 * blocks_.buffers * blocks_.width * registers_;
  for (std::int64_t word = 0; word < form_.words; ++word) {
    work_.push_back(builder_.allocate_vmem(static_cast<std::uint64_t>(rows)));
  }
  load_flag_ = BlockPipeline::allocate_flags(builder_);
  store_flag_ = BlockPipeline::allocate_flags(builder_);
  const std::vector<SortRound> rounds = sort_rounds(network_);
  for (std::size_t i = 0; i < rounds.size(); ++i) {
    emit_round(rounds[i], i == 0, i + 1 == rounds.size());
  }
  return lowered_kernel(builder_, may_spill);
}

void SortKernel::emit_round(const SortRound& round, bool is_first, bool is_last) {
  round_ = &round;
  BlockPipeline::Blocks blocks;
  blocks.count = lane_tiles_ * registers_ / block_registers();
  blocks.buffers = round.tile_bits > 0 ? 2 : blocks_.buffers;
  blocks.is_in_place = true;
  const auto load = transfer(true, is_first ? operands_ : results_,
                             whole_columns(is_first ? form_.rows : 8 * registers_));
  const auto store =
      transfer(false, results_, is_last ? columns_in_order() : whole_columns(8 * registers_));
  const int parts = round.tile_bits > 0 ? network_.register_bits - round.part_bits : 0;
  BlockPipeline pipeline(builder_, blocks, load, store);
  pipeline.run([&](Index block, Index buffer) {
    const Index row = multiply(builder_, buffer, 8 * block_registers());
    outer_ = divide_by_power_of_two(builder_, block, parts);
    if (is_first) fill_up(row);
    for (std::size_t i = 0; i < round.passes.size(); ++i) {
      // The block before leaves during the first half, the next one comes during the second.
      if (i == round.passes.size() / 2) pipeline.take_next(block, buffer);
      emit_pass(round.passes[i], row);
    }
    if (round.passes.empty()) pipeline.take_next(block, buffer);
    if (is_last) put_in_order(row);
  });
}

/// Where in HBM a block begins.
Index SortKernel::granule_of(Index block) {
  if (round_->tile_bits == 0) return multiply(builder_, block, 4 * blocks_.width);
  const int parts = network_.register_bits - round_->part_bits;
  const Index right =
      multiply(builder_, divide_by_power_of_two(builder_, block, parts), 4 * lane_tiles_of_block());
  const Index down = multiply(builder_, modulo_power_of_two(builder_, block, parts),
                              4 * lane_tiles_ << round_->part_bits);
  return add(builder_, right, down);
}

/// Registers as they stand.
SortKernel::Boxes SortKernel::whole_columns(std::int64_t rows) const {
  const std::int64_t tiles =
      round_->tile_bits > 0 ? std::int64_t{1} << round_->part_bits : ceil_divide(rows, 8);
  Boxes boxes;
  boxes.box = {4, static_cast<std::uint32_t>(tiles), static_cast<std::uint32_t>(4 * lane_tiles_),
               4};
  boxes.tiles = {tiles};
  return boxes;
}

/// What put_in_order() leaves: tile s * registers / 8 + a of a column is register 8 a + s, in as
/// few boxes as there are.
SortKernel::Boxes SortKernel::columns_in_order() const {
  const std::int64_t rows = form_.kept > 0 ? std::min(form_.kept, form_.rows) : form_.rows;
  const std::int64_t tiles = ceil_divide(rows, 8),
                     parts = std::max<std::int64_t>(1, registers_ / 8);
  const bool by_sublane = parts > 8 || 4 * lane_tiles_ * parts > kLargestStride;
  Boxes boxes;
  const auto row_tile = static_cast<std::uint32_t>(4 * lane_tiles_);
  if (by_sublane) {
    boxes = {{4, static_cast<std::uint32_t>(parts), row_tile, 32}, 8, row_tile * parts, 8, {}};
    for (std::int64_t s = 0; s < 8; ++s) {
      boxes.tiles.push_back(std::clamp<std::int64_t>(tiles - s * parts, 0, parts));
    }
    return boxes;
  }
  const auto runs = static_cast<std::uint32_t>(std::min<std::int64_t>(8, registers_));
  boxes = {{4, runs, static_cast<std::uint32_t>(row_tile * parts), 4}, parts, row_tile, 64, {}};
  for (std::int64_t a = 0; a < parts; ++a) {
    boxes.tiles.push_back(std::min<std::int64_t>(runs, ceil_divide(tiles - a, parts)));
  }
  return boxes;
}

/// Lane tile after lane tile.
BlockPipeline::Transfer SortKernel::transfer(bool is_load, const std::vector<SReg>& arrays,
                                             const Boxes& boxes) {
  const auto dma = std::make_shared<BoxDma>(builder_, is_load, boxes.box);
  const std::int64_t count = lane_tiles_of_block();
  const std::int64_t lane_tile_rows = 8 * block_registers() / count;
  const std::int64_t tiles =
      std::accumulate(boxes.tiles.begin(), boxes.tiles.end(), std::int64_t{0});
  const std::int64_t granules = 4 * tiles * count * form_.words;
  BlockPipeline::Transfer made;
  made.flag = is_load ? load_flag_ : store_flag_;
  made.is_straight = count == 1;
  made.granules = [granules](Index) -> ScalarOperand { return granules; };
  made.start = [=, &arrays](Index block, Index buffer) {
    const Index first = granule_of(block);
    const SReg flag = builder_.add(to_operand(builder_, buffer), made.flag);
    const Index buffer_row = multiply(builder_, buffer, 8 * block_registers());
    const auto start = [&](Index lane_tile) {
      const Index right = add(builder_, first, multiply(builder_, lane_tile, 4));
      const Index row = add(builder_, buffer_row, multiply(builder_, lane_tile, lane_tile_rows));
      for (std::size_t word = 0; word < arrays.size(); ++word) {
        for (std::size_t i = 0; i < boxes.tiles.size(); ++i) {
          if (boxes.tiles[i] <= 0) continue;
          const auto number = static_cast<std::int64_t>(i);
          const Index from = right.plus(number * boxes.hbm_distance);
          dma->start(builder_.add(arrays[word], to_operand(builder_, from)),
                     at(work_[word], row.plus(number * boxes.vmem_distance)), flag,
                     4 * boxes.tiles[i]);
        }
      }
    };
    if (count == 1) return start({});
    builder_.new_block();
    builder_.loop(static_cast<std::uint64_t>(count), [&](SReg number) { start({number, 0}); });
  };
  return made;
}

/// Rows that no element has get the last of all keys.
void SortKernel::fill_up(Index buffer) {
  const std::int64_t tiles = form_.rows / 8, rest = form_.rows % 8;
  if (form_.rows == 8 * registers_) return;
  builder_.new_block();
  for (std::int64_t column = 0; column < blocks_.width; ++column) {
    const Index rows = buffer.plus(8 * registers_ * column);
    for (std::int64_t key = 0; key < form_.keys; ++key) {
      const VmemRegion region = work_[static_cast<std::size_t>(key)];
      if (rest != 0) {
        const auto sublanes = static_cast<std::uint8_t>(0xff << rest);
        builder_.store(at(region, rows.plus(8 * tiles)).mask(sublanes), kLastKey);
      }
      const std::int64_t first = tiles + (rest != 0 ? 1 : 0);
      in_pieces(builder_, registers_ - first, 16, [&](Index from, std::int64_t many) {
        const Index row = add(builder_, multiply(builder_, from, 8), rows.plus(8 * first));
        for (std::int64_t i = 0; i < many; ++i) {
          builder_.store(at(region, row.plus(8 * i)), kLastKey);
        }
      });
    }
  }
}

void SortKernel::emit_pass(const SortPass& pass, Index buffer) {
  builder_.new_block();
  if (pass.turns) return emit_turn(pass, buffer);
  pass.is_within ? emit_inner_pass(pass, buffer) : emit_register_pass(pass, buffer);
}

/// -1 where the bit of the position is set, a bit of the sublane or of the lane; else 0.
VReg SortKernel::bit_mask(int position_bit) {
  const int inner = position_bit - round_->register_bits;
  const int bit = inner < 3 ? 7 + inner : inner - 3;
  const VReg high = builder_.shift_left(builder_.lane_sequence(), 31 - bit);
  return builder_.vector(Opcode::kVshraS32, high, 31);
}

/// The same for a bit of the block's number, where it is not known before.
std::optional<VReg> SortKernel::outer_mask(int position_bit) {
  if (outer_.is_constant()) return std::nullopt;
  const SReg shifted =
      builder_.shift_right(to_operand(builder_, outer_), position_bit - round_->outer_bits);
  return builder_.splat(builder_.sub(0, builder_.and_(shifted, 1)));
}

/// What the keys of the register `register_offset` behind the piece's first one are combined with
/// by exclusive or; nothing where that changes nothing. The offset has no bit in common with the
/// number of the first one.
std::optional<VectorOperand> SortKernel::complement(Piece& piece, const SortStep& step,
                                                    std::int64_t register_offset) {
  bool is_set = false;
  const bool is_known = piece.known_bits == std::pair<int, int>(step.bit, step.other);
  if (!is_known) piece.known_mask.reset();
  piece.known_bits = {step.bit, step.other};
  for (const int bit : {step.bit, step.other}) {
    if (bit < 0) continue;
    if (bit < round_->register_bits) is_set = is_set != (((register_offset >> bit) & 1) != 0);
    if (is_known) continue;
    std::optional<VReg> mask;
    if (bit >= round_->outer_bits) {
      mask = outer_mask(bit);
    } else if (bit >= round_->register_bits) {
      mask = bit_mask(bit);
    } else if (piece.first_register) {
      const SReg set = builder_.and_(builder_.shift_right(piece.first_register, bit), 1);
      mask = builder_.splat(builder_.sub(0, set));
    }
    if (!mask) continue;
    piece.known_mask =
        piece.known_mask ? builder_.vector(Opcode::kVxorU32, *piece.known_mask, *mask) : *mask;
  }
  if (!piece.known_mask) {
    return is_set ? std::optional<VectorOperand>(VectorOperand(-1)) : std::nullopt;
  }
  return is_set ? builder_.vector(Opcode::kVxorU32, *piece.known_mask, -1) : *piece.known_mask;
}

void SortKernel::complement_keys(Piece& piece, const SortStep& step, std::int64_t register_offset,
                                 Words& words) {
  const auto mask = complement(piece, step, register_offset);
  for (std::size_t key = 0; mask && key < static_cast<std::size_t>(form_.keys); ++key) {
    words[key] = builder_.vector(Opcode::kVxorU32, words[key], *mask);
  }
}

MReg SortKernel::is_before(const Words& a, const Words& b) {
  std::size_t key = static_cast<std::size_t>(form_.keys) - 1;
  MReg before = builder_.vector_compare(Opcode::kVcmpLtS32, a[key], b[key]);
  while (key-- > 0) {
    const MReg equal = builder_.vector_compare(Opcode::kVcmpEqS32, a[key], b[key]);
    const MReg less = builder_.vector_compare(Opcode::kVcmpLtS32, a[key], b[key]);
    before = builder_.mask(Opcode::kVmor, less, builder_.mask(Opcode::kVmand, equal, before));
  }
  return before;
}

void SortKernel::compare_exchange(Words& low, Words& high) {
  const MReg swaps = is_before(high, low);
  for (std::size_t word = 0; word < low.size(); ++word) {
    const VReg lesser = builder_.select(swaps, high[word], low[word]);
    high[word] = builder_.select(swaps, low[word], high[word]);
    low[word] = lesser;
  }
}

/// The number of the first register of a group: it has the bits of the group's number around those
/// that are compared and those that nothing wanted has.
std::int64_t SortKernel::spread(const SortPass& pass, std::int64_t group) {
  const auto opened = [](std::int64_t number, int low, int count) {
    const std::int64_t below = (std::int64_t{1} << low) - 1;
    return ((number & ~below) << count) | (number & below);
  };
  const int compared = pass.is_within ? 0 : pass.count;
  if (pass.low < pass.dead_low) {
    return opened(opened(group, pass.low, compared), pass.dead_low, pass.dead_count);
  }
  return opened(opened(group, pass.dead_low, pass.dead_count), pass.is_within ? 0 : pass.low,
                compared);
}

/// The same for the first one of a piece of code for so many groups.
SortKernel::Piece SortKernel::piece_of(const SortPass& pass, SReg index, std::int64_t together,
                                       Index buffer) {
  Piece piece;
  Index row = buffer;
  if (index) {
    SReg number = builder_.shift_left(index, floor_log2(together));
    const auto open = [&](int low, int count) {
      if (count == 0) return;
      const SReg above = builder_.shift_left(builder_.shift_right(number, low), low + count);
      number = builder_.or_(above, builder_.and_(number, (1 << low) - 1));
    };
    const int compared = pass.is_within ? 0 : pass.count;
    if (pass.low < pass.dead_low) open(pass.low, compared);
    open(pass.dead_low, pass.dead_count);
    if (pass.low >= pass.dead_low) open(pass.low, compared);
    piece.first_register = number;
    SReg first = builder_.shift_left(number, 3);
    if (pass.is_strided) {
      first = builder_.or_(builder_.shift_left(builder_.shift_right(number, 3), 6),
                           builder_.and_(number, 7));
    }
    row = add(builder_, buffer, {first, 0});
  }
  piece.row = builder_.add(to_operand(builder_, row), 0);
  return piece;
}

std::vector<SortKernel::Words> SortKernel::load_group(const SortPass& pass, const Piece& piece,
                                                      const std::vector<std::int64_t>& registers) {
  std::vector<Words> words;
  for (const std::int64_t number : registers) {
    words.emplace_back();
    for (std::int64_t word = 0; word < form_.words; ++word) {
      words.back().push_back(builder_.load(place(pass, word, piece.row, number)));
    }
  }
  return words;
}

void SortKernel::take_steps(const SortPass& pass, Piece& piece,
                            const std::vector<std::int64_t>& registers, std::vector<Words>& words) {
  for (const SortStep& step : pass.steps) {
    for (std::size_t i = 0; i < words.size(); ++i) {
      if (step.kind == SortStep::Kind::kComplement) {
        complement_keys(piece, step, registers[i], words[i]);
      } else if (const std::size_t other = i | (std::size_t{1} << (step.bit - pass.low));
                 other != i) {
        compare_exchange(words[i], words[other]);
      }
    }
  }
}

void SortKernel::emit_register_pass(const SortPass& pass, Index buffer) {
  const std::int64_t held = std::int64_t{1} << pass.count;
  const std::int64_t groups = (block_registers() / held) >> pass.dead_count;
  const std::int64_t together = unrolled(groups, std::max<std::int64_t>(1, 2 * together_ / held));
  const auto body = [&](SReg index) {
    Piece piece = piece_of(pass, index, together, buffer);
    // Groups that share eight registers stand as far apart as there are others.
    const std::int64_t sharing =
        pass.is_strided ? std::min(together, std::max<std::int64_t>(1, 8 / held)) : 1;
    for (std::int64_t i = 0; i < together; ++i) {
      const std::int64_t apart = together / sharing;
      const std::int64_t group = i % apart * sharing + i / apart;
      std::vector<std::int64_t> registers;
      for (std::int64_t i = 0; i < held; ++i) {
        registers.push_back(spread(pass, group) + (i << pass.low));
      }
      std::vector<Words> words = load_group(pass, piece, registers);
      take_steps(pass, piece, registers, words);
      for (std::size_t i = 0; i < words.size(); ++i) {
        for (std::size_t word = 0; word < words[i].size(); ++word) {
          builder_.store(place(pass, static_cast<std::int64_t>(word), piece.row, registers[i]),
                         words[i][word]);
        }
      }
    }
  };
  in_pieces(builder_, groups / together, 1, [&](Index piece, std::int64_t) { body(piece.reg); });
}

/// The words of the elements whose positions differ in a bit within registers.
SortKernel::Words SortKernel::partners(int bit, const VmemAddress& address, const Words& mine) {
  Words others;
  const int inner = bit - network_.register_bits;
  for (std::size_t word = 0; word < mine.size(); ++word) {
    if (inner < 3) {
      std::uint32_t pattern = 0;
      for (std::uint32_t s = 0; s < 8; ++s) pattern |= (s ^ (1U << inner)) << (3 * s);
      VmemAddress there = address;
      there.region = work_[word];
      others.push_back(builder_.load_shuffled(there, pattern));
      continue;
    }
    const int distance = 1 << (inner - 3);
    const VReg from_lower = builder_.rotate_lanes(mine[word], distance);
    if (distance == 64) {
      others.push_back(from_lower);
      continue;
    }
    const VReg from_higher = builder_.rotate_lanes(mine[word], 128 - distance);
    const VReg lane = builder_.and_(builder_.lane_sequence(), distance);
    const MReg is_high = builder_.vector_compare(Opcode::kVcmpNeS32, lane, 0);
    others.push_back(builder_.select(is_high, from_lower, from_higher));
  }
  return others;
}

void SortKernel::emit_inner_pass(const SortPass& pass, Index buffer) {
  const std::int64_t count = block_registers() >> pass.dead_count;
  const std::int64_t together = unrolled(count, 16);
  const bool crosses_lanes = pass.low >= network_.register_bits + 3;
  const auto body = [&](SReg index) {
    Piece piece = piece_of(pass, index, together, buffer);
    const MReg is_high = builder_.vector_compare(Opcode::kVcmpNeS32, bit_mask(pass.low), 0);
    for (std::int64_t i = 0; i < together; ++i) {
      const std::int64_t number = spread(pass, i);
      const VmemAddress address = place(0, piece.row, number);
      Words mine = load_group(pass, piece, {number})[0], other;
      if (!crosses_lanes) other = partners(pass.low, address, mine);
      for (const SortStep& step : pass.steps) {
        if (step.kind != SortStep::Kind::kComplement) continue;
        complement_keys(piece, step, number, mine);
        if (crosses_lanes) continue;
        complement_keys(piece, step, number, other);
        // The partner differs in the bit that is compared.
        if (step.bit != pass.low && step.other != pass.low) continue;
        for (std::size_t key = 0; key < static_cast<std::size_t>(form_.keys); ++key) {
          other[key] = builder_.vector(Opcode::kVxorU32, other[key], -1);
        }
      }
      if (crosses_lanes) other = partners(pass.low, address, mine);
      const MReg takes = builder_.mask(Opcode::kVmxor, is_high, is_before(other, mine));
      for (std::size_t word = 0; word < mine.size(); ++word) {
        builder_.store(place(static_cast<std::int64_t>(word), piece.row, number),
                       builder_.select(takes, other[word], mine[word]));
      }
    }
  };
  in_pieces(builder_, count / together, 1, [&](Index piece, std::int64_t) { body(piece.reg); });
}

/// Each 16 registers of a word become their transpose. While results of one such block leave the
/// unit, the next one enters; what enters last is nobody's.
void SortKernel::emit_turn(const SortPass& pass, Index buffer) {
  constexpr std::int64_t kTurned = 16;
  const std::int64_t count = block_registers() / kTurned;
  for (std::int64_t word = 0; word < form_.words; ++word) {
    const auto push = [&](SReg number) {
      Piece piece;
      piece.first_register = builder_.shift_left(number, 4);
      piece.row = builder_.add(to_operand(builder_, buffer), builder_.shift_left(number, 7));
      for (std::int64_t i = 0; i < kTurned; ++i) {
        VReg rows = builder_.load(place(word, piece.row, i));
        for (const SortStep& step : pass.steps) {
          const auto mask = complement(piece, step, i);
          if (mask && word < form_.keys) rows = builder_.vector(Opcode::kVxorU32, rows, *mask);
        }
        builder_.transpose_push(rows, 128, static_cast<std::uint32_t>(i), kTurned);
      }
    };
    builder_.new_block();
    push(builder_.constant(0));
    builder_.loop(static_cast<std::uint64_t>(count), [&](SReg number) {
      push(builder_.min(builder_.add(number, 1), count - 1));
      const SReg row = builder_.add(to_operand(builder_, buffer), builder_.shift_left(number, 7));
      for (std::int64_t i = 0; i < kTurned; ++i) {
        builder_.store(place(word, row, i), builder_.transpose_pop());
      }
    });
    for (std::int64_t i = 0; i < kTurned; ++i) builder_.transpose_pop();
  }
}

/// Sublane s of register r is row s * registers + r: eight neighbouring rows are of neighbouring
/// registers, and come to one register of those; of fewer registers than eight they are in place
/// then.
void SortKernel::put_in_order(Index buffer) {
  builder_.new_block();
  const std::int64_t group = std::min<std::int64_t>(8, registers_);
  const std::int64_t groups = ceil_divide(kept_registers(), group);
  const auto piece = [&](Index first, std::int64_t many) {
    for (std::int64_t i = 0; i < many; ++i) {
      const Index row = first.plus(8 * group * i);
      for (const VmemRegion& region : work_) {
        std::vector<VReg> values;
        for (std::int64_t s = 0; s < group; ++s) {
          if (group == 8) {
            values.push_back(builder_.load(at(region, row.plus(s)).stride(8)));
          } else {
            values.push_back(builder_.load(at(region, row.plus(8 * s))));
          }
        }
        for (std::int64_t s = 0; s < group; ++s) {
          const VmemAddress to =
              group == 8 ? at(region, row.plus(8 * s))
                         : at(region, row.plus(s)).stride(static_cast<std::int32_t>(group));
          builder_.store(to, values[static_cast<std::size_t>(s)]);
        }
      }
    }
  };
  for (std::int64_t column = 0; column < blocks_.width; ++column) {
    in_pieces(builder_, groups, 4, [&](Index from, std::int64_t many) {
      piece(
          add(builder_, multiply(builder_, from, 8 * group), buffer.plus(8 * registers_ * column)),
          many);
    });
  }
}

}  // namespace

LoweredKernel lower_sort(const hlo::Module& module, const hlo::Computation& computation,
                         const hlo::HloInstruction& instruction, const Target& target) {
  const std::optional<SortForm> form = sort_form(module, computation, instruction);
  if (!form || sort_blocks(*form, target).width == 0) {
    throw WorkloadError("no kernel for sort \"" + instruction.name +
                        "\": expected matrices of words of which a column fits VMEM, found " +
                        to_string(computation.at(instruction.operands.at(0)).shape));
  }
  // As many stages at once as find registers.
  for (const std::int64_t together : {16, 8}) {
    if (auto kernel = SortKernel(instruction, *form, target, together).emit(false)) return *kernel;
  }
  return *SortKernel(instruction, *form, target, 1).emit(true);
}

}  // namespace tpu::compiler
