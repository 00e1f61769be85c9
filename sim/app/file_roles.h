#pragma once

#include <vector>

#include "sim/app/arguments.h"
#include "sim/config/configuration.h"

namespace tpu::app {

/// Checks, before a command does anything, that each file that it writes can be written, has room
/// for the least that is written, and is neither a file that it reads nor written twice. Two names
/// are one file by inode, whatever links lead to it. Throws UsageError; no file has changed then.
void check_files(const Arguments& arguments,
                 const std::vector<config::Configuration>& configurations);

}  // namespace tpu::app
