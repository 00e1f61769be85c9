#pragma once

#include "sim/app/arguments.h"
#include "sim/base/error.h"

namespace tpu::app {

/// Runs a command to its end; its results go to stdout and to the files that it names.
ExitCode execute(const Arguments& arguments);

/// The program from its words to its exit code: prints errors on stderr, one line first. Lets only
/// std::bad_alloc out: who has no memory can print nothing here.
int run_program(const std::vector<std::string>& words);

}  // namespace tpu::app
