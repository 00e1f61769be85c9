#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "workloads/compiler/codegen/first_load.h"
#include "workloads/compiler/program/openings.h"
#include "workloads/compiler/program/top_level.h"
#include "workloads/compiler/target.h"

namespace tpu::compiler {

/// Granules of HBM from one to before another.
struct HbmRange {
  std::uint64_t begin = 0, end = 0;
  bool meets(const HbmRange& other) const { return begin < other.end && other.begin < end; }
};

/// Where so many granules from an address on stand, over all iterations of the innermost loop.
HbmRange range_of(const CallOperand& address, std::uint64_t extent, std::uint64_t trips);

/// What calls have to know of a kernel.
struct CalledKernel {
  KernelPlace place;
  VmemUse vmem;
  std::uint64_t cycles = 0;      ///< If it waits for nothing.
  std::vector<FirstLoad> loads;  ///< That its caller starts.
  /// Other cores reach into its memory, or its DMAs go on behind it.
  bool stands_apart = false;
};

/// A call, and what it does in HBM.
struct SequencedCall {
  std::uint32_t site = 0;
  std::vector<CallOperand> operands;
  CalledKernel kernel;
  std::vector<HbmRange> writes;
  std::uint64_t granules = 0;  ///< That it moves.
};

/// Kernels that are called one after the other, in straight code. The loads that a kernel begins
/// with start in front of the call before, and go on while that one runs.
///
/// A load is early where the kernel before writes nothing of what it reads and touches neither the
/// VMEM that it fills nor its flag (the two are of different places, KernelPlace), and as far as
/// that kernel leaves the memory time: what it takes if it waits for nothing, less what it moves.
/// The other loads start when the kernel before has ended, in front of the early ones of the next:
/// who runs first loads first. Nothing is early in front of a kernel that other cores reach into,
/// nor across the begin or end of a loop or branch. Left out: the stores of the kernel before,
/// which end before the next one begins.
class CallSequence {
 public:
  CallSequence(TopLevel& top, Openings& openings, const Target& target)
      : top_(top), openings_(openings), target_(target) {}

  /// Whether what a kernel loads first could be early behind the last call if it were high.
  bool asks_for_high() const {
    return last_ && !last_->kernel.stands_apart && !last_->kernel.place.is_high;
  }
  /// Comes behind the calls before.
  void add(SequencedCall call);
  /// What follows is no straight code, or stands in another loop.
  void finish();

 private:
  std::int64_t idle_granules() const;
  bool may_be_early(const FirstLoad& load, const SequencedCall& call) const;

  TopLevel& top_;
  Openings& openings_;
  const Target& target_;
  std::optional<SequencedCall> last_;  ///< With the loads that are not started yet.
};

}  // namespace tpu::compiler
