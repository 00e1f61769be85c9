#pragma once

#include <string>
#include <vector>

#include "isa/program.h"
#include "workloads/compiler/sharding/partition.h"

namespace tpu::app {

/// How the arrays of all devices together are handed out to a captured program that XLA has cut for
/// several devices.
struct CapturedPlacement {
  std::vector<compiler::ArrayParts> parameters, results;
};

/// Reads `placement` of the program's chip from the folder's facts.json:
///
///     {"parameters": [{"whole": [128, 256], "part": [128, 128], "starts": [[0, 0], [0, 128]]}, ...
///
/// `starts` by device; `part` and `starts` are missing where every device holds the whole array.
/// Empty for programs of one device and for captures of before. Throws WorkloadError for a file
/// that does not fit the program.
CapturedPlacement captured_placement(const std::string& folder, const isa::Program& program);

}  // namespace tpu::app
