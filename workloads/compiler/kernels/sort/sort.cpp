#include <algorithm>
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
/// shuffles) and, where a sequence has several columns, its lane (by rotations). Which element
/// stands where at the beginning does not matter; at the end sublane s of register r is row
/// s * registers + r.
class SortKernel {
 public:
  /// `together`: registers of one word times words that stages are taken in at once.
  SortKernel(const hlo::HloInstruction& instruction, const SortForm& form, const Target& target,
             std::int64_t together)
      : form_(form),
        together_(together),
        builder_(instruction.name, target),
        registers_(form.registers()),
        register_bits_(floor_log2(registers_)),
        bits_(register_bits_ + 3 + floor_log2(form.columns)),
        kept_bits_(form.kept_bits()),
        lane_tiles_(ceil_divide(form.lanes, 128)),
        width_(sorted_lane_tiles(form, target)) {}

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

  void prepare(BlockPipeline::Transfer& load, BlockPipeline::Transfer& store);
  void fill_up(Index buffer);
  void emit_pass(const SortPass& pass, Index buffer);
  void emit_register_pass(const SortPass& pass, Index buffer);
  void emit_inner_pass(const SortPass& pass, Index buffer);
  void store_in_order(Index buffer);

  VReg bit_mask(int position_bit);
  std::optional<VectorOperand> complement(Piece& piece, const SortStep& step,
                                          std::int64_t register_offset);
  void complement_keys(Piece& piece, const SortStep& step, std::int64_t register_offset,
                       Words& words);
  std::vector<Words> load_group(const Piece& piece, const std::vector<std::int64_t>& registers);
  void take_steps(const SortPass& pass, Piece& piece, const std::vector<std::int64_t>& registers,
                  std::vector<Words>& words);
  static std::int64_t spread(const SortPass& pass, std::int64_t group);
  Piece piece_of(const SortPass& pass, SReg index, std::int64_t together, Index buffer);
  std::int64_t kept_registers() const {
    return kept_bits_ < register_bits_ ? std::int64_t{1} << kept_bits_ : registers_;
  }
  void compare_exchange(Words& low, Words& high);
  MReg is_before(const Words& a, const Words& b);
  Words partners(int bit, const VmemAddress& address, const Words& mine);
  VmemAddress place(std::int64_t word, SReg row, std::int64_t registers) const {
    return VmemAddress(work_[static_cast<std::size_t>(word)], 8 * registers, row);
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
  int register_bits_, bits_, kept_bits_;
  std::int64_t lane_tiles_, width_;
  std::vector<VmemRegion> work_, sorted_;  ///< Of each word.
  std::vector<SReg> operands_, results_;
  BoxDma load_, store_;
};

std::optional<LoweredKernel> SortKernel::emit(bool may_spill) {
  const std::int64_t blocks = lane_tiles_ / width_;
  const std::int64_t block_rows = 8 * registers_ * width_;
  const bool has_two = blocks > 1 && 4 * form_.words * block_rows * isa::kVmemRowBytes <=
                                         static_cast<std::int64_t>(builder_.target().vmem_bytes);
  const std::int64_t buffers = has_two ? 2 : 1;
  for (int i = 0; i < form_.words; ++i) operands_.push_back(builder_.operand(i));
  for (int i = 0; i < form_.words; ++i) {
    results_.push_back(builder_.operand(static_cast<int>(form_.words) + i));
  }
  for (std::int64_t word = 0; word < form_.words; ++word) {
    work_.push_back(builder_.allocate_vmem(static_cast<std::uint64_t>(buffers * block_rows)));
    sorted_.push_back(builder_.allocate_vmem(static_cast<std::uint64_t>(buffers * block_rows)));
  }
  BlockPipeline::Transfer load, store;
  prepare(load, store);
  const int most = floor_log2(std::max<std::int64_t>(2, together_ / form_.words));
  const std::vector<SortPass> passes = sort_passes(bits_, register_bits_, most, kept_bits_);
  BlockPipeline(builder_, {blocks, false, buffers}, load, store).run([&](Index, Index buffer) {
    const Index row = multiply(builder_, buffer, block_rows);
    fill_up(row);
    for (const SortPass& pass : passes) emit_pass(pass, row);
    store_in_order(row);
  });
  return lowered_kernel(builder_, may_spill);
}

/// Lane tile after lane tile, all rows of each.
void SortKernel::prepare(BlockPipeline::Transfer& load, BlockPipeline::Transfer& store) {
  const std::int64_t block_rows = 8 * registers_ * width_;
  const auto transfer = [&](BoxDma& dma, bool is_load, std::int64_t rows) {
    const std::int64_t tile_rows = ceil_divide(rows, 8);
    const StridedBox box{4, static_cast<std::uint32_t>(tile_rows),
                         static_cast<std::uint32_t>(4 * lane_tiles_), 4};
    dma =
        BoxDma(builder_, is_load, box,
               {static_cast<std::uint32_t>(width_), 4, static_cast<std::uint32_t>(8 * registers_)});
    const std::uint32_t flag = BlockPipeline::allocate_flags(builder_);
    const std::int64_t granules = 4 * tile_rows * width_ * form_.words;
    const std::vector<SReg>& arrays = is_load ? operands_ : results_;
    const std::vector<VmemRegion>& regions = is_load ? work_ : sorted_;
    BlockPipeline::Transfer made;
    made.flag = flag;
    made.is_straight = false;
    made.granules = [granules](Index) -> ScalarOperand { return granules; };
    made.start = [=, &dma, &arrays, &regions](Index block, Index buffer) {
      const Index right = multiply(builder_, block, 4 * width_);
      for (std::size_t word = 0; word < arrays.size(); ++word) {
        dma.start(builder_.add(arrays[word], to_operand(builder_, right)),
                  at(regions[word], multiply(builder_, buffer, block_rows)),
                  to_operand(builder_, buffer.plus(flag)));
      }
    };
    return made;
  };
  load = transfer(load_, true, form_.rows);
  store = transfer(store_, false, form_.kept > 0 ? std::min(form_.kept, form_.rows) : form_.rows);
}

/// Rows that no element has get the last of all keys.
void SortKernel::fill_up(Index buffer) {
  const std::int64_t tiles = form_.rows / 8, rest = form_.rows % 8;
  if (form_.rows == 8 * registers_) return;
  builder_.new_block();
  for (std::int64_t column = 0; column < width_; ++column) {
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
  pass.is_within ? emit_inner_pass(pass, buffer) : emit_register_pass(pass, buffer);
}

/// -1 where the bit of the position is set, a bit of the sublane or of the lane; else 0.
VReg SortKernel::bit_mask(int position_bit) {
  const int inner = position_bit - register_bits_;
  const int bit = inner < 3 ? 7 + inner : inner - 3;
  const VReg high = builder_.shift_left(builder_.lane_sequence(), 31 - bit);
  return builder_.vector(Opcode::kVshraS32, high, 31);
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
    if (bit < register_bits_) is_set = is_set != (((register_offset >> bit) & 1) != 0);
    if (is_known) continue;
    std::optional<VReg> mask;
    if (bit >= register_bits_) {
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
    row = add(builder_, buffer, {builder_.shift_left(number, 3), 0});
  }
  piece.row = builder_.add(to_operand(builder_, row), 0);
  return piece;
}

std::vector<SortKernel::Words> SortKernel::load_group(const Piece& piece,
                                                      const std::vector<std::int64_t>& registers) {
  std::vector<Words> words;
  for (const std::int64_t number : registers) {
    words.emplace_back();
    for (std::int64_t word = 0; word < form_.words; ++word) {
      words.back().push_back(builder_.load(place(word, piece.row, number)));
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
  const std::int64_t groups = (width_ * registers_ / held) >> pass.dead_count;
  const std::int64_t together = unrolled(groups, std::max<std::int64_t>(1, 2 * together_ / held));
  const auto body = [&](SReg index) {
    Piece piece = piece_of(pass, index, together, buffer);
    for (std::int64_t group = 0; group < together; ++group) {
      std::vector<std::int64_t> registers;
      for (std::int64_t i = 0; i < held; ++i) {
        registers.push_back(spread(pass, group) + (i << pass.low));
      }
      std::vector<Words> words = load_group(piece, registers);
      take_steps(pass, piece, registers, words);
      for (std::size_t i = 0; i < words.size(); ++i) {
        for (std::size_t word = 0; word < words[i].size(); ++word) {
          builder_.store(place(static_cast<std::int64_t>(word), piece.row, registers[i]),
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
  const int inner = bit - register_bits_;
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
  const std::int64_t count = (width_ * registers_) >> pass.dead_count;
  const std::int64_t together = unrolled(count, 16);
  const bool crosses_lanes = pass.low >= register_bits_ + 3;
  const auto body = [&](SReg index) {
    Piece piece = piece_of(pass, index, together, buffer);
    const MReg is_high = builder_.vector_compare(Opcode::kVcmpNeS32, bit_mask(pass.low), 0);
    for (std::int64_t i = 0; i < together; ++i) {
      const std::int64_t number = spread(pass, i);
      const VmemAddress address = place(0, piece.row, number);
      Words mine = load_group(piece, {number})[0], other;
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

/// Sublane s of register r becomes row s * registers + r.
void SortKernel::store_in_order(Index buffer) {
  builder_.new_block();
  for (std::int64_t column = 0; column < width_; ++column) {
    in_pieces(builder_, kept_registers(), 16, [&](Index from, std::int64_t many) {
      const Index first = buffer.plus(8 * registers_ * column);
      const Index source = add(builder_, multiply(builder_, from, 8), first);
      const Index target = add(builder_, from, first);
      for (std::int64_t i = 0; i < many; ++i) {
        for (std::size_t word = 0; word < work_.size(); ++word) {
          const VReg value = builder_.load(at(work_[word], source.plus(8 * i)));
          builder_.store(
              at(sorted_[word], target.plus(i)).stride(static_cast<std::int32_t>(registers_)),
              value);
        }
      }
    });
  }
}

}  // namespace

LoweredKernel lower_sort(const hlo::Module& module, const hlo::Computation& computation,
                         const hlo::HloInstruction& instruction, const Target& target) {
  const std::optional<SortForm> form = sort_form(module, computation, instruction);
  if (!form || sorted_lane_tiles(*form, target) == 0) {
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
