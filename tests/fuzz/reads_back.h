#pragma once

#include <cstdlib>
#include <iostream>
#include <string>

#include "sim/base/error.h"
#include "workloads/hlo/hlo_reader.h"

namespace tpu::fuzz {

/// Ends the fuzzer unless the text that a module prints as reads to the same text: to be refused is
/// a mistake here, for it was written by us.
inline void expect_reads_back(const hlo::Module& module) {
  const std::string printed = to_string(module);
  std::string again;
  try {
    again = to_string(hlo::read_hlo_text("printed.hlo", printed));
  } catch (const WorkloadError& error) {
    again = error.what();
  }
  if (again == printed) return;
  std::cerr << "printed:\n" << printed << "\nand again:\n" << again << "\n";
  std::abort();
}

}  // namespace tpu::fuzz
