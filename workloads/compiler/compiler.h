#pragma once

#include <string>
#include <vector>

#include "isa/program.h"
#include "workloads/compiler/target.h"
#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// What a compilation says of itself.
struct CompileReport {
  struct Pass {
    std::string name;
    double cpu_s = 0;
  };
  std::vector<Pass> passes;
  std::size_t kernels = 0;  ///< Distinct kernels.
  std::size_t call_sites = 0;
  std::size_t bundles = 0;  ///< Static bundles.
};

/// Compiles a training step (or any module) for one core of the target; the cores of a
/// data-parallel run all execute it. The module's gradients are reduced over target.cores replicas
/// by its all-reduce instructions. Throws WorkloadError for an operation without a kernel (its
/// opcode and shapes) and for what does not fit (the out-of-memory report).
isa::Program compile(const hlo::Module& module, const Target& target,
                     CompileReport* report = nullptr);

}  // namespace tpu::compiler
