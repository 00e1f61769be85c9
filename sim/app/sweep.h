#pragma once

#include "sim/app/arguments.h"
#include "sim/base/error.h"

namespace tpu::app {

/// `tpusim sweep`: plans, simulates what is missing, counts, makes the table.
ExitCode sweep(const Arguments& arguments);

}  // namespace tpu::app
