#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "workloads/compiler/compiler.h"
#include "workloads/compiler/passes/scheduled_module.h"
#include "workloads/compiler/target.h"
#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// Pass: gives every storage of the entry, and of what its loops and branches run, a range of HBM.
///
/// The step's inputs come first, as one range in the order of Module::infeed_parameters, then the
/// other parameters, in order; their memory holds nothing else, but for results that alias them.
/// Constants stand behind them, since every step reads them again. Everything else shares the rest:
/// storages are placed in order of falling size, each in the smallest gap between those whose
/// lifetimes (first write to last read, in the order of the entry) overlap its own. An elementwise
/// kernel may write over an operand that nothing reads later. What an all-reduce works on lies in
/// one range in operand order. The bodies of a loop or conditional find their parameters and
/// results in the memory of its operands and results, and share one range for everything else,
/// which is theirs while it runs.
///
/// Constants carry their words, but for those that the HLO text elides: whoever reads one with
/// values on reads memory that nobody has written, which the machine reports.
///
/// Needs: the final schedule, with copies inserted.
/// Leaves: plans that fit target.hbm_bytes; else it throws the out-of-memory report as
/// WorkloadError.
void plan_hbm(ScheduledModule& scheduled, const Target& target);

/// "27.90G", as XLA prints sizes: two decimals and a binary prefix, from B to G.
std::string memory_size_text(std::uint64_t bytes);

/// Bytes that arguments and program take, at the peak.
OutOfMemoryError::Use hbm_use(const HbmPlan& plan, const Target& target);

/// The report of a program whose buffers do not fit.
std::string out_of_memory_report(const HbmPlan& plan, const hlo::Module& module,
                                 const Target& target);

}  // namespace tpu::compiler
