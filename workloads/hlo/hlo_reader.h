#pragma once

#include <string>
#include <string_view>

#include "sim/base/unpack_limit.h"
#include "workloads/graph/graph.h"

namespace tpu::hlo {

/// Reads a module in HLO text, as XLA prints it today and printed it since 2019: both operand
/// styles (with and without shapes), old and new spellings, instructions and computations written
/// in the place where they are used, comments, stack-frame tables, elided constants. `file` names
/// it in errors.
///
/// Operands are put before their users. Throws WorkloadError `file:line:column: expected ..., found
/// ...` with the line itself.
Module read_hlo_text(std::string_view file, std::string_view text);

/// Reads a module in either form that XLA writes, text or HloModuleProto, as its contents show.
Module read_hlo(std::string_view file, std::string_view contents);

/// Reads a file or a pipe with a module in either form, compressed with gzip or not.
Module read_hlo_file(const std::string& path, const UnpackLimit& limit = {});

}  // namespace tpu::hlo
