#pragma once

#include <string>
#include <vector>

#include "models/core/core.h"

namespace tpu {

/// The report of a deadlock: every waiting core with its flag, and who waits for whom. To find out
/// who would raise a flag it follows the waiting cores' code past their waits, so the cores are of
/// no further use.
std::string describe_deadlock(const MachineParams& params, const std::vector<Core*>& cores);

}  // namespace tpu
