#pragma once

#include <cstdint>
#include <optional>

#include "workloads/compiler/target.h"
#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// A sort in the form that has a kernel: matrices of s32 words, of which the first ones are keys in
/// ascending order, the most significant first. A sequence stands in `columns` adjacent columns,
/// the instruction's feature_group_count, one column after the other. Elements of a sequence differ
/// in their keys, or nothing goes along with the keys.
struct SortForm {
  std::int64_t rows = 0;   ///< Of a column; a power of two where sequences have several
                           ///< columns and all elements are wanted.
  std::int64_t lanes = 0;  ///< Columns of all sequences.
  /// Of a sequence: a power of two; above 128 whole lane tiles, between which the network goes on
  /// through HBM.
  std::int64_t columns = 1;
  std::int64_t words = 1;  ///< Matrices.
  std::int64_t keys = 1;
  /// So many elements of each sequence are wanted, its first ones, the instruction's
  /// batch_group_count, two at least, and the results have no others; 0: all.
  std::int64_t kept = 0;

  /// The network keeps 2^n elements; all bits of a position where that is not worth its while.
  int kept_bits() const;
  /// Registers that a column of 128 sequences takes, with what fills it up: a power of two.
  std::int64_t registers() const;
  /// Stages of the network.
  std::int64_t stages() const;
  /// Of a position: those of the lane, and those of the lane tile.
  int lane_bits() const;
  int tile_bits() const;
  /// Stages between lane tiles take 2^n registers of each at a time.
  int part_bits() const;
  /// Stages between lanes are taken on the transposes of registers.
  bool may_turn() const;
};

/// The form, where the instruction has it.
std::optional<SortForm> sort_form(const hlo::Module& module, const hlo::Computation& computation,
                                  const hlo::HloInstruction& instruction);

/// The comparator of such a sort of `words` matrices.
hlo::Computation comparator_of_words(std::int64_t words, std::int64_t keys);

struct SortBlocks {
  std::int64_t width = 0;  ///< Lane tiles that stand in VMEM together; 0: there is no kernel.
  std::int64_t buffers = 1;
};

SortBlocks sort_blocks(const SortForm& form, const Target& target);

/// What the kernel takes.
double sort_cycles(const SortForm& form, const Target& target);

}  // namespace tpu::compiler
