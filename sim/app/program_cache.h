#pragma once

#include <cstddef>
#include <list>
#include <string>

#include "sim/app/arguments.h"
#include "sim/app/workload_source.h"

namespace tpu::app {

/// Everything of a command line that shapes its program, as text.
std::string workload_key(const Arguments& arguments);

/// Programs that were compiled or read for earlier runs: a machine that the compiler can't tell
/// from an earlier one runs the same program. The least recently used ones are forgotten.
class ProgramCache {
 public:
  explicit ProgramCache(std::size_t capacity) : capacity_(capacity) {}

  /// What tells programs apart: those with equal keys are one.
  static std::string key(const Arguments& arguments, const MachineParams& params);
  /// As prepare_workload(); the passes of a program that is there already are not observed. The
  /// result lives until the next call.
  const PreparedWorkload& prepare(const Arguments& arguments, const MachineParams& params,
                                  const compiler::PassObserver& after_pass = {});
  std::size_t prepared() const { return prepared_; }  ///< How many were not there yet.

 private:
  struct Entry {
    std::string key;
    PreparedWorkload workload;
  };
  std::size_t capacity_, prepared_ = 0;
  std::list<Entry> entries_;  ///< Last used first.
  ParsedModules parsed_;
};

}  // namespace tpu::app
