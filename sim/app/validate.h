#pragma once

#include <cstdint>
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
  std::uint64_t estimated_cycles = 0;  ///< XLA's own estimate; 0 where there is none.
  std::string problem;                 ///< Why it did not run; empty when it did.

  double error() const { return static_cast<double>(cycles) / silicon_cycles - 1; }
};

/// Tilings of one kernel, imposed one by one on the compiler and measured.
struct ValidatedTilings {
  std::string name;
  std::vector<ValidatedProgram> tilings;
};

/// Spearman's rank correlation of silicon's cycles and ours; ties share their mean rank.
double rank_correlation(const std::vector<ValidatedProgram>& programs);

/// `tpusim validate FOLDER`: runs the captured programs in the sub-folders of FOLDER that hold a
/// `facts.json` with measured cycles, each on the built-in machine of its chip (v2-8 or v3-8; --set
/// changes them), and prints silicon, ours, XLA's estimate and the errors. A sub-folder `tiles/`
/// with a `tiles.csv` (columns run, measured_cycles_940MHz) holds tilings of the kernel.
ExitCode validate(const Arguments& arguments);

}  // namespace tpu::app
