#pragma once

#include <cstdint>
#include <vector>

#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// Memory that one or several values of the entry share: a parameter, a constant, or the result of
/// a kernel with everything that is the same bytes (bitcasts, elements of tuples, what an
/// instruction that works in place makes of it: an all-reduce, a loop, a
/// dynamic-update-slice, a scatter).
struct Storage {
  enum class Kind : std::uint8_t { kParameter, kConstant, kResult };
  Kind kind = Kind::kResult;
  hlo::Shape shape;                    ///< As it is written.
  hlo::InstructionId definer = -1;     ///< Parameter, constant, or the kernel's instruction.
  std::int64_t leaf = 0;               ///< Which result of the kernel.
  hlo::InstructionId last_use = -1;    ///< -1: a parameter that nothing reads.
  hlo::InstructionId all_reduce = -1;  ///< That works on it; -1: none.
  std::int64_t all_reduce_leaf = 0;
};

/// The storages of an entry computation, in its order as schedule.
class StorageMap {
 public:
  explicit StorageMap(const hlo::Computation& entry);

  const std::vector<Storage>& storages() const { return storages_; }
  const Storage& at(std::size_t index) const { return storages_[index]; }
  /// Storages of an instruction's arrays: one for an array, one per element for a tuple; none for
  /// constants that stand in no buffer.
  const std::vector<std::size_t>& of(hlo::InstructionId id) const {
    return of_[static_cast<std::size_t>(id)];
  }

 private:
  void define(const hlo::HloInstruction& instruction, Storage::Kind kind);
  void define_leaf(const hlo::HloInstruction& instruction, Storage::Kind kind, std::size_t leaf);
  void share_bucket(const hlo::HloInstruction& phase);
  void use(std::size_t storage, const hlo::HloInstruction& user);
  void share(const hlo::Computation& entry, const hlo::HloInstruction& instruction);

  std::vector<Storage> storages_;
  std::vector<std::vector<std::size_t>> of_;
};

/// True for instructions that are no kernel: parameters, constants, bitcasts, tuples and their
/// elements, slices whose place an iteration says.
bool is_bookkeeping(const hlo::HloInstruction& instruction);

/// True when the instruction may write a result of this shape over its operand: it reads each
/// element only where it writes the same element, and nothing else of the operand.
bool may_overwrite(const hlo::Module& module, const hlo::HloInstruction& instruction,
                   std::size_t operand, const hlo::Shape& result);

}  // namespace tpu::compiler
