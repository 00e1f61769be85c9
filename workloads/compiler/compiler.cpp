#include "workloads/compiler/compiler.h"

#include "workloads/compiler/buffers.h"
#include "workloads/compiler/codegen/schedule_memo.h"
#include "workloads/compiler/kept_schedules.h"
#include "workloads/compiler/passes/pass_timer.h"
#include "workloads/compiler/passes/pipeline.h"
#include "workloads/compiler/program/kernel_selection.h"
#include "workloads/compiler/program/program_assembly.h"
#include "workloads/graph/while_loop_analysis.h"

namespace tpu::compiler {

namespace {

constexpr const char* kCompilerName = "tpusim 0.1";

/// Machines that programs of XLA run on may be too small for ours.
void check(const Target& target) {
  const auto least = [](const char* name, std::uint32_t found, std::uint32_t needed) {
    if (found >= needed) return;
    throw ConfigurationError(std::string(name) + ": expected at least " + std::to_string(needed) +
                             " for programs of our compiler, found " + std::to_string(found));
  };
  least("core.smem_words", target.smem_words, kLeastSmemWords);
  least("core.xlu_queue_entries", target.xlu_queue_entries, kLeastXluQueueEntries);
}

/// Parameters read once, results written once.
std::uint64_t compulsory_bytes(const hlo::Module& module) {
  const hlo::Computation& entry = module.entry_computation();
  std::int64_t bytes = entry.at(entry.root).shape.unpadded_bytes();
  for (hlo::InstructionId parameter : entry.parameters()) {
    bytes += entry.at(parameter).shape.unpadded_bytes();
  }
  return static_cast<std::uint64_t>(bytes);
}

}  // namespace

isa::Program compile(const hlo::Module& module, const Target& target, CompileReport* report,
                     const PassObserver& after_pass) {
  check(target);
  const ScheduledModule scheduled = schedule(module, target, report, after_pass);
  isa::Program program;
  {
    const PassTimer timer(report, "make_kernels");
    program = assemble_program(scheduled, target,
                               [&](const hlo::Module& body, const hlo::HloInstruction& instruction,
                                   const KernelPlace& place, const SequenceLoop& loop) {
                                 Target placed = target;
                                 placed.place = place;
                                 return make_kernel(body, instruction, placed, loop);
                               });
  }
  program.name = module.name;
  program.chip = target.chip;
  program.compiler = kCompilerName;
  program.cores = target.cores;
  program.examples_per_core = static_cast<std::uint64_t>(module.examples_per_step);
  program.model_flops = static_cast<std::uint64_t>(hlo::matmul_flops(module));
  program.data_dependent_control = hlo::data_dependent_control(module).size();
  program.compulsory_hbm_bytes = compulsory_bytes(module);
  if (report != nullptr) {
    report->kernels = program.kernels.size();
    report->call_sites = program.ops.size();
    report->bundles = 0;
    for (const isa::Kernel& kernel : program.kernels) report->bundles += kernel.bundles.size();
    const std::vector<std::string> unknown = constants_without_values(program);
    if (!unknown.empty()) report->notes.push_back(advice_on_values(unknown));
  }
  return program;
}

void keep_schedules(bool keeps) { ScheduleMemo::of_process().keep(keeps); }

std::size_t schedules_taken_over() { return ScheduleMemo::of_process().found(); }

bool fits(const hlo::Module& module, const Target& target) {
  try {
    schedule(module, target, nullptr);
    return true;
  } catch (const OutOfMemoryError&) {
    return false;
  }
}

}  // namespace tpu::compiler
