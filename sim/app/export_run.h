#pragma once

#include <string>
#include <vector>

#include "sim/app/arguments.h"
#include "sim/base/error.h"

namespace tpu::app {

/// The formats of `tpusim export`, in the order of the help.
const std::vector<std::string>& export_formats();
/// Whether -o names a folder.
bool exports_folder(const Arguments& arguments);

/// `tpusim export`: a results file in the form of a viewer.
ExitCode export_run(const Arguments& arguments);

}  // namespace tpu::app
