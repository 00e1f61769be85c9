#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "workloads/compiler/passes/fuse/fusion.h"
#include "workloads/compiler/passes/fuse/fusion_draft.h"
#include "workloads/compiler/passes/fuse/sums_in_kernels.h"
#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// Which values stand in HBM: those that something other than a kernel of fused operations needs,
/// and those that take fewer bytes to write and read than to compute again in each kernel that
/// uses them.
class WrittenValues {
 public:
  WrittenValues(const hlo::Computation& entry, const SteppedExtents& extents,
                const SumsInKernels& sums, const FusionLimits& limits);

  bool contains(hlo::InstructionId id) const { return written_[static_cast<std::size_t>(id)]; }
  /// From now on it does, or not.
  void write(hlo::InstructionId id, bool is_written) {
    written_[static_cast<std::size_t>(id)] = is_written;
  }
  /// Whether a kernel of fused operations may compute it.
  bool is_fusible(hlo::InstructionId id) const;
  /// Granules that the value takes in HBM.
  std::uint64_t bytes(hlo::InstructionId id) const { return bytes_[static_cast<std::size_t>(id)]; }
  /// Those that read it.
  const std::vector<hlo::InstructionId>& users(hlo::InstructionId id) const {
    return users_[static_cast<std::size_t>(id)];
  }
  /// What a kernel reads: of slices that it reads in place the array.
  hlo::InstructionId array_of(hlo::InstructionId leaf) const {
    return arrays_[static_cast<std::size_t>(leaf)];
  }
  /// Vectors that are rows of the array.
  std::vector<hlo::InstructionId> rows_of(hlo::InstructionId array) const;
  /// Arrays that a kernel has for what it reads: few rows and elements of one come with it.
  std::size_t operand_count(const std::vector<hlo::InstructionId>& leaves) const;
  /// Fills in what the draft computes and reads, from its roots and its product: operands before
  /// their users, in the order in which the roots need them, so that equal kernels look alike.
  void collect(FusionDraft& draft) const;

 private:
  const hlo::HloInstruction& at(hlo::InstructionId id) const { return entry_.at(id); }
  const std::string& extent_of(hlo::InstructionId root) const {
    return extents_.of(stepped_through(entry_, root));
  }
  bool is_forced(hlo::InstructionId id) const;
  std::set<hlo::InstructionId> sinks(hlo::InstructionId id);
  bool is_moved_in_lanes(hlo::InstructionId id) const;
  bool is_cheaper_written(hlo::InstructionId id);
  bool readers_fit(hlo::InstructionId id);
  void choose();
  bool is_narrower_than_source(hlo::InstructionId id) const;
  bool becomes_private(hlo::InstructionId array, hlo::InstructionId reader);
  bool spares_its_source(hlo::InstructionId id);
  void write_what_spares_its_source();
  bool takes_longer_again(hlo::InstructionId id);
  void write_what_takes_long();

  const hlo::Computation& entry_;
  const SteppedExtents& extents_;
  const SumsInKernels& sums_;
  const FusionLimits& limits_;
  std::vector<std::vector<hlo::InstructionId>> users_;
  std::vector<std::uint64_t> bytes_;          ///< Of each instruction.
  std::vector<hlo::InstructionId> arrays_;    ///< Of each instruction: where its value lies.
  std::vector<hlo::InstructionId> operands_;  ///< Of each: the array of a row, or of an element.
  std::map<hlo::InstructionId, std::vector<hlo::InstructionId>> rows_;
  std::vector<bool> written_;                ///< Of each instruction.
  std::vector<std::uint32_t> seen_in_walk_;  ///< Of each instruction: the last walk that met it.
  std::uint32_t walk_ = 0;
  /// Of each instruction: the last walk of collect() that met it, two numbers each.
  mutable std::vector<std::uint32_t> collected_;
  mutable std::uint32_t collecting_ = 0;
};

}  // namespace tpu::compiler
