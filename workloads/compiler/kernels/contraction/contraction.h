#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <vector>

#include "workloads/compiler/ir/operand_parts.h"
#include "workloads/compiler/kernels/contraction/matmul_stream.h"
#include "workloads/compiler/kernels/tiles/step_counter.h"

namespace tpu::compiler {

/// Values of a contraction's digits; none where the extent is 1.
using Digits = std::vector<SReg>;

/// The steps of a block of a dot, a convolution or one of its gradients. They count through a loop
/// nest; what multiplies, what streams past it and which sums take the results follow from the
/// digits. Kernels differ in these walks and in what stands around them.
struct Contraction {
  /// A register of eight rows, for push i of the array of a unit, from one of the step's tiles
  /// along the contracted dimension (MatmulStream::Step).
  using Tiles = std::function<VReg(std::uint32_t unit, std::uint32_t i, std::uint32_t part)>;
  using Results =
      std::function<void(std::uint32_t unit, std::uint32_t i, bool previous, VReg result)>;
  /// The tiles of one side.
  struct Walk {
    /// VMEM rows, entries of tables and the like that tiles of a step with these digits need. They
    /// are computed during the step before, so that the units have work as soon as a step begins.
    std::function<std::vector<SReg>(const Digits& digits)> places;
    /// `present`: the digits of the step that takes them in.
    std::function<Tiles(const Digits& present, const std::vector<SReg>& places)> tiles;
  };
  /// Other work that shares a step's time: behind each push, and behind the step.
  struct Meanwhile {
    std::function<void(std::uint32_t i)> push;
    std::function<void()> end;
  };

  std::vector<std::uint32_t> extents;  ///< Of the digits, outermost first.
  std::uint32_t pushes = 0;            ///< Per MXU and lot.
  bool transposed = false;             ///< Stationary tiles are pushed transposed.
  /// Of the moving and the stationary side, in f32: a lot for each pair (MatmulParts), which all
  /// add to the same sums. `sums` and `meanwhile` count the pushes of all lots.
  OperandParts parts{1, 1};
  std::uint32_t steps_at_once = 2;  ///< In one block of code, where they divide the steps.
  Walk moving;
  /// Its tiles multiply in the step after the one that takes them in; before the first step
  /// `present` is empty.
  Walk stationary;
  /// Takes the results of a step, and of the step before it where one has `started`; behind the
  /// last step `digits` is empty.
  std::function<Results(const Digits& digits, PReg started)> sums;
  std::function<void()> advance;  ///< Moves sums on, at the end of a step.
  /// May be absent. `next` makes the digits of the step behind.
  std::function<Meanwhile(const Digits& digits, const std::function<Digits()>& next, SReg index)>
      meanwhile;
  /// Those that have other work to share: from this step on, up to that one (all where absent).
  std::uint64_t steps_before = 0;
  std::optional<std::uint64_t> steps_until;
};

/// Emits the steps.
void emit_steps(KernelBuilder& builder, MatmulStream& stream, const Contraction& contraction);

/// The word of a table in SMEM that has some words for each value of a digit.
SReg table_word(KernelBuilder& builder, std::uint32_t word, std::uint32_t words, SReg digit);
/// The words of an entry of such a table, each read when it is first asked for: there are few
/// scalar registers.
class TableEntry {
 public:
  /// `entry`: words before it in the table; none: 0.
  TableEntry(KernelBuilder& builder, std::uint32_t table, std::uint32_t words, SReg entry)
      : builder_(builder), table_(table), entry_(entry), read_(words) {}
  SReg word(std::uint32_t number) {
    SReg& word = read_[number];
    if (!word) word = table_word(builder_, table_ + number, 1, entry_);
    return word;
  }

 private:
  KernelBuilder& builder_;
  std::uint32_t table_;
  SReg entry_;
  std::vector<SReg> read_;
};

/// Tiles by their place in VMEM, each loaded once however many units and pushes take it. `place` of
/// (unit, i, part).
Contraction::Tiles loaded_once(
    const std::function<std::uint32_t(std::uint32_t unit, std::uint32_t i, std::uint32_t part)>&
        place,
    const std::function<VReg(std::uint32_t place, std::uint32_t part)>& load);

/// Sums of products in fp32 in VMEM. Results come out while the next step is under way, so each
/// step also adds to the sums of the one before.
class RunningSums {
 public:
  struct Place {
    SReg row;   ///< VMEM rows from the begin of the region; none: 0.
    SReg mask;  ///< Sublanes that are loaded: none of them where sums begin. None: all.
  };
  struct Form {
    /// VMEM rows from a step's place to result i of a unit.
    std::function<std::uint32_t(std::uint32_t unit, std::uint32_t i)> offset;
    bool has_masks = false;
    /// Results of a lot, where all lots of a step add to the same sums: only those of the first one
    /// may begin them.
    std::uint32_t lot = std::numeric_limits<std::uint32_t>::max();
    bool adds_groups = false;   ///< Units of a column multiply parts of one sum.
    bool is_only_step = false;  ///< Each sum is one product.
  };

  RunningSums(KernelBuilder& builder, const MatmulUnits& units, const VmemAddress& sums, Form form);

  /// Contraction::sums for a step that adds there.
  Contraction::Results at(const Place& place, PReg started);
  /// Behind the last step.
  Contraction::Results end() { return results({}, {}); }
  void advance();

 private:
  Contraction::Results results(const Place& place, PReg started);

  KernelBuilder& builder_;
  MatmulUnits units_;
  VmemRegion region_;
  Form form_;
  SVariable previous_row_, previous_mask_;
  Place present_;
};

/// Adds the results of the units of each column, which come in the order of their groups; true with
/// the last one, when `result` is the sum.
class GroupSums {
 public:
  GroupSums(KernelBuilder& builder, const MatmulUnits& units) : builder_(builder), units_(units) {}
  bool add(std::uint32_t unit, VReg& result);

 private:
  KernelBuilder& builder_;
  MatmulUnits units_;
  std::map<std::uint32_t, VReg> sums_;  ///< So far, by column.
};

}  // namespace tpu::compiler
