#pragma once

#include <cstdint>
#include <vector>

#include "workloads/graph/shape.h"
#include "workloads/hlo/text_cursor.h"

namespace tpu::hlo {

/// Reads the value of a constant, between the parentheses: nested braces of numbers, `true` and
/// `false`, a scalar. Returns its row-major bytes; nothing for an elided one, `{...}`.
std::vector<std::uint8_t> read_literal(TextCursor& cursor, const Shape& shape);

}  // namespace tpu::hlo
