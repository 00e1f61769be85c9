#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "isa/program.h"
#include "models/params.h"
#include "sim/app/arguments.h"
#include "workloads/compiler/compiler.h"
#include "workloads/frontend/workload.h"

namespace tpu::app {

/// A workload as a program for a machine, with what is known of its values.
struct PreparedWorkload {
  isa::Program program;
  std::vector<std::uint32_t> cores;            ///< That run it, by number.
  std::optional<frontend::Workload> frontend;  ///< Of the zoo.
  std::string folder;                          ///< Captured folder, or "".
  compiler::CompileReport compile_report;
  double cpu_s = 0;  ///< Building and compiling, or reading.
};

/// Finds the workload that the arguments name and makes a program of it for the machine. Throws
/// UsageError or WorkloadError.
PreparedWorkload prepare_workload(const Arguments& arguments, const MachineParams& params,
                                  const compiler::PassObserver& after_pass = {});

/// The graph that our compiler would compile for the machine, of a workload that has one. Throws
/// UsageError or WorkloadError.
hlo::Module workload_module(const Arguments& arguments, const MachineParams& params);

}  // namespace tpu::app
