#pragma once

#include <string>
#include <vector>

#include "sim/app/arguments.h"
#include "sim/app/simulation.h"
#include "traces/run_record.h"

namespace tpu::app {

/// A change of the machine or of the batch whose effect on the step is asked for.
struct WhatIfQuestion {
  std::string name;                   ///< "HBM free".
  std::vector<std::string> settings;  ///< As --set takes them, behind those of the command line.
  std::optional<std::int64_t> batch;  ///< In place of the command line's.
  /// Layers of the zoo, products of a module have extents that fill the lanes.
  std::optional<std::int64_t> feature_multiple{};
  /// Our compiler makes the program, in place of the bundles that XLA's made: what changes is told
  /// from a run of such a program on the machine as it is.
  bool compiles_anew = false;
  std::string problem{};  ///< Why it cannot be asked of this run; empty: it can.
};

/// The questions that make sense for a run: no free ICI for one core, no free infeed for a program
/// without one. "No padding" is the workload with every layer as wide as the lanes that it takes:
/// what was padding is work, and its time is that of a useful FLOP. The bundles of XLA's programs
/// are made for their MXUs and shapes: the module beside them is compiled anew. Programs without a
/// module are fixed: the answer says so.
std::vector<WhatIfQuestion> what_if_questions(const Arguments& arguments,
                                              const traces::RunRecord& record);

/// Programs that what-ifs keep: that of the run, and that of the change before.
constexpr std::size_t kWhatIfPrograms = 2;

/// Simulates each of them again, as `tpusim run` with its settings would; compiled anew where the
/// compiler can tell the machines apart. `programs` has that of the run. With more `jobs` than one
/// each program has a process of its own, at most so many at a time.
std::vector<traces::WhatIf> what_if(const Arguments& arguments, const std::string& config_name,
                                    const traces::RunRecord& record, ProgramCache& programs,
                                    std::uint32_t jobs);

/// The same for a run that is in a file. Throws WorkloadError where its command line does not make
/// that run any more: another workload, configuration or number of cycles.
void ask_what_if(const std::string& path, const Arguments& arguments, traces::RunRecord& record);

}  // namespace tpu::app
