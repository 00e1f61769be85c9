#pragma once

#include <string>

#include "sim/app/arguments.h"

namespace tpu::app {

/// The SHA-256 of a file's bytes.
std::string digest_of_file(const std::string& path);

/// The SHA-256 of what a workload is made of: the files of a captured program or module; for a
/// network of the zoo, which this program holds, its name.
std::string digest_of_contents(const std::string& workload);

/// The SHA-256 of what a run's program is made of: contents and the flags that shape it.
std::string workload_sha256(const Arguments& arguments);

}  // namespace tpu::app
