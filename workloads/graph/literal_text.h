#pragma once

#include <string>

#include "workloads/graph/graph.h"

namespace tpu::hlo {

/// Appends the value of a constant as it stands between the parentheses of HLO text: nested braces,
/// numbers that read back as the same bits, "{...}" for an elided one.
void append_literal(const HloInstruction& constant, std::string& text);

}  // namespace tpu::hlo
