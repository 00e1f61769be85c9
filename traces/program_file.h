#pragma once

#include <string>

#include "isa/program.h"

namespace tpu::traces {

/// Writes a compiled program; the same program gives the same bytes.
void write_program_file(const std::string& path, const isa::Program& program);

/// Reads it back; throws WorkloadError for a file that is none, cut, changed, of another version,
/// or that refers to kernels, ops or code that it does not hold.
isa::Program read_program_file(const std::string& path);

}  // namespace tpu::traces
