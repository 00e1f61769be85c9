#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "sim/app/arguments.h"
#include "sim/base/error.h"

namespace tpu::app {

/// A program that silicon ran, too: what it took there and here.
struct ValidatedProgram {
  std::string name;
  std::string chip;
  bool kernel_alone = false;  ///< Silicon's figure is for the kernel without the top-level program.
  double silicon_cycles = 0;
  std::uint64_t cycles = 0;            ///< Ours, of the program or kernel.
  std::uint64_t bundle_cycles = 0;     ///< Of those, bundles and their delays: no wait.
  std::uint64_t estimated_cycles = 0;  ///< XLA's own estimate; 0 where there is none.
  std::string problem;                 ///< Why it did not run; empty when it did.
  std::string gap;                     ///< Why silicon ran another program; empty: it did not.

  double error() const { return static_cast<double>(cycles) / silicon_cycles - 1; }
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

/// Why a program of the public measurements is not the one that silicon ran: today's compiler is
/// years younger. Such rows say nothing of the machine; they are named and left out of the medians
/// of comparable programs. Two ways to know: the compiler's output differs from what the
/// measurement says (a list, by name of the folder and, for tilings, by tile), or the bundles
/// alone, without any wait, take longer than silicon took. Empty: comparable.
std::string version_gap(const ValidatedProgram& program, const std::string& kernel,
                        const std::string& kernel_bounds);

/// Median of the absolute errors of what ran; with or without the version gaps.
double median_error(const std::vector<ValidatedProgram>& programs, bool with_gaps);
/// The mean of the same.
double mean_error(const std::vector<ValidatedProgram>& programs, bool with_gaps);

/// Runs what is measured in a folder. `row` is called with each program when it is done.
ValidatedFolder validate_folder(const Arguments& arguments,
                                const std::function<void(const ValidatedProgram&)>& row);

/// Spearman's rank correlation of silicon's cycles and ours; ties share their mean rank.
double rank_correlation(const std::vector<ValidatedProgram>& programs);

/// `tpusim validate FOLDER`: runs the captured programs in the sub-folders of FOLDER that hold a
/// `facts.json` with measured cycles, each on the built-in machine of its chip (v2-8 or v3-8; --set
/// changes them), and prints silicon, ours, XLA's estimate, the errors and the version gaps. A
/// sub-folder `tiles/` with a `tiles.csv` (columns run, measured_cycles_940MHz, kernel_bounds)
/// holds tilings of the kernel. FOLDER may also be one such sub-folder.
ExitCode validate(const Arguments& arguments);

}  // namespace tpu::app
