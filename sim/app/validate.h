#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "sim/app/arguments.h"
#include "sim/base/error.h"

namespace tpu::app {

/// A program that silicon ran, too: what it took there, and here in several phases of the refresh.
/// Silicon's figures come from runs whose phases nobody chose.
struct ValidatedProgram {
  std::string name;
  std::string chip;
  bool kernel_alone = false;  ///< Silicon's figure is for the kernel without the top-level program.
  double silicon_cycles = 0;
  std::vector<std::uint64_t> cycles;   ///< Ours, of the program or kernel, per phase.
  std::uint64_t bundle_cycles = 0;     ///< Of those, bundles and their delays: no wait.
  std::uint64_t estimated_cycles = 0;  ///< XLA's own estimate; 0 where there is none.
  bool short_run = false;              ///< A refresh more or less is a visible part of it.
  std::string problem;                 ///< Why it did not run; empty when it did.
  std::string excluded;                ///< Why it is not among the kept rows; empty: it is.

  std::uint64_t least() const;
  std::uint64_t most() const;
  double mean() const;
  /// Of the mean over the phases.
  double error() const { return mean() / silicon_cycles - 1; }
};

/// Tilings of one kernel, imposed one by one on the compiler and measured.
struct ValidatedTilings {
  std::string name;
  std::vector<ValidatedProgram> tilings;
};

/// Everything that a folder of measured programs holds.
struct ValidatedFolder {
  std::vector<ValidatedProgram> programs;
  std::vector<ValidatedTilings> tilings;
};

/// What is known of a measured row before anything runs: from `facts.json` and `tiles.csv`.
struct RowProperties {
  std::string name;           ///< Of the folder.
  std::string category;       ///< Of the measurement: "gemm", "model_8core", "kernel", ...
  std::string metric;         ///< Of the measurement: "execution_cycles", "step_time", ...
  std::string kernel_bounds;  ///< Of the tile that silicon ran, as the data has them.
  std::string output_bounds;
};

/// Why a row is not among the kept ones: a property of the program that is known beforehand, never
/// how long it took. Empty: it is kept.
std::string exclusion(const RowProperties& row);

/// Of the absolute errors of what ran, over all rows or the kept ones.
struct ErrorSummary {
  std::size_t rows = 0;
  double median = 0;
  double mean = 0;
  double worst = 0;
};
enum class Rows : std::uint8_t { kAll, kKept };
ErrorSummary summarize_errors(const std::vector<ValidatedProgram>& programs, Rows rows);
/// The same of XLA's estimates, where there are any.
ErrorSummary summarize_estimates(const std::vector<ValidatedProgram>& programs, Rows rows);

/// Runs what is measured in a folder. `row` is called with each program when it is done.
ValidatedFolder validate_folder(const Arguments& arguments,
                                const std::function<void(const ValidatedProgram&)>& row);

/// Spearman's rank correlation of silicon's cycles and ours; ties share their mean rank.
double rank_correlation(const std::vector<ValidatedProgram>& programs);

/// `tpusim validate FOLDER`: runs the captured programs in the sub-folders of FOLDER that hold a
/// `facts.json` with measured cycles, each on the built-in machine of its chip (v2-8 or v3-8; --set
/// changes them) in --phases phases of the refresh, and prints silicon, ours (least, mean, most),
/// the errors of the mean and of XLA's estimate, all rows and the kept ones side by side. A
/// sub-folder `tiles/` with a `tiles.csv` (columns run, measured_cycles_940MHz, kernel_bounds,
/// output_bounds) holds tilings of the kernel. FOLDER may also be one such sub-folder.
ExitCode validate(const Arguments& arguments);

}  // namespace tpu::app
