#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "isa/program.h"
#include "models/params.h"
#include "sim/app/arguments.h"
#include "workloads/compiler/compiler.h"
#include "workloads/compiler/sharding/partition.h"
#include "workloads/frontend/workload.h"

namespace tpu::app {

/// A workload as a program for a machine, with what is known of its values.
struct PreparedWorkload {
  isa::Program program;
  std::vector<std::uint32_t> cores;            ///< That run it, by number.
  std::optional<frontend::Workload> frontend;  ///< Of the zoo.
  std::string folder;                          ///< Captured folder, or "".
  bool is_from_xla = false;                    ///< XLA compiled the program.
  /// How the arrays of all cores together are handed out, where they are; without starts: each core
  /// has its own.
  std::vector<compiler::ArrayParts> parameter_parts, result_parts;
  std::string widening_note;   ///< What --feature-multiple did to a module; empty: nothing.
  bool keeps_padding = false;  ///< Some extents of the module's products could not grow.
  std::string update_note;     ///< What weight-update sharding did, or "".
  compiler::CompileReport compile_report;
  double cpu_s = 0;  ///< Building and compiling, or reading.

  /// How a parameter or result is handed out; null: each core has its own.
  const compiler::ArrayParts* parts_of_parameter(std::size_t number) const {
    return parts_of(parameter_parts, number);
  }
  const compiler::ArrayParts* parts_of_result(std::size_t number) const {
    return parts_of(result_parts, number);
  }

 private:
  static const compiler::ArrayParts* parts_of(const std::vector<compiler::ArrayParts>& parts,
                                              std::size_t number) {
    return number < parts.size() && !parts[number].starts.empty() ? &parts[number] : nullptr;
  }
};

/// Modules that were read out of HLO files, by path: a file is parsed once.
class ParsedModules {
 public:
  /// The module of a file, read the first time. Throws as read_hlo_file().
  const hlo::Module& module(const std::string& path);

 private:
  std::map<std::string, hlo::Module> modules_;
};

/// Finds the workload that the arguments name and makes a program of it for the machine. `parsed`
/// keeps what was read for other machines. Throws UsageError or WorkloadError.
PreparedWorkload prepare_workload(const Arguments& arguments, const MachineParams& params,
                                  const compiler::PassObserver& after_pass = {},
                                  ParsedModules* parsed = nullptr);

/// Whether our compiler makes the program that the arguments name. Throws WorkloadError where there
/// is none.
bool is_compiled_here(const Arguments& arguments);

/// The graph that our compiler would compile for the machine, of a workload that has one. Throws
/// UsageError or WorkloadError.
hlo::Module workload_module(const Arguments& arguments, const MachineParams& params);

/// Of gradients that are reduced together, as a compiler's Target has it.
std::uint64_t bucket_bytes_of(const Arguments& arguments);

/// Whether a file has the form of programs that were compiled before, and of results.
bool is_hdf5(const std::string& name);

}  // namespace tpu::app
