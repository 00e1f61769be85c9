#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "sim/report/json_report.h"
#include "traces/npz.h"
#include "workloads/compiler/buffers.h"

namespace tpu::app {

/// Compares outputs with recorded ones, in the forms that captured programs come with: whole arrays
/// (`bf16_003`, else `out_003`), or samples at flat indices (`out_003_idx` with `bf16_003_val`,
/// else `out_003_val`). An output passes when its relative L2 error is at most the tolerance; where
/// the reference is all zero the L2 norm itself counts. An output without a reference is left out;
/// none at all, or a reference for an output that does not exist, is a WorkloadError.
std::vector<report::CheckedOutput> check_outputs(
    const std::map<std::uint32_t, compiler::HostArray>& outputs, const traces::NpzFile& references,
    double tolerance, const std::string& file);

/// The verdict and the worst tensors, for a reader.
std::string check_text(const std::vector<report::CheckedOutput>& checks, double tolerance);

}  // namespace tpu::app
