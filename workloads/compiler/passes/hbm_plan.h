#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "isa/program.h"
#include "workloads/compiler/target.h"
#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// Where every array of the entry lies in HBM.
struct HbmPlan {
  /// First granule of each array of each instruction (one for an array, one per element of a
  /// tuple); empty for constants that stand in no buffer.
  std::vector<std::vector<std::uint64_t>> granules_of;
  std::vector<isa::Buffer> buffers;
  std::uint64_t peak_granules = 0;
  std::uint64_t infeed_granule = 0;   ///< Where the batch of a step goes: one range.
  std::uint64_t infeed_granules = 0;  ///< 0: the module takes no batch.
};

/// Pass: gives every storage of the entry a range of HBM.
///
/// The step's inputs come first, as one range in the order of Module::infeed_parameters, then the
/// other parameters, in order; their memory holds nothing else, but for results that alias them.
/// Everything else shares the rest: storages are placed in order of falling size, each in the
/// smallest gap between those whose lifetimes (first write to last read, in the order of the entry)
/// overlap its own. An elementwise kernel may write over an operand that nothing reads later. What
/// an all-reduce works on lies in one range in operand order.
///
/// Constants carry their words, but for those that the HLO text elides: whoever reads one with
/// values on reads memory that nobody has written, which the machine reports.
///
/// Needs: the final schedule, with copies inserted.
/// Leaves: a plan that fits target.hbm_bytes; else it throws the out-of-memory report as
/// WorkloadError.
HbmPlan plan_hbm(const hlo::Module& module, const Target& target);

/// "27.90G", as XLA prints sizes: two decimals and a binary prefix, from B to G.
std::string memory_size_text(std::uint64_t bytes);

/// The report of a program whose buffers do not fit.
std::string out_of_memory_report(const HbmPlan& plan, const hlo::Module& module,
                                 const Target& target);

}  // namespace tpu::compiler
