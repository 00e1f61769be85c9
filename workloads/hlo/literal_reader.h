#pragma once

#include <cstdint>
#include <vector>

#include "workloads/graph/shape.h"
#include "workloads/hlo/hlo_cursor.h"

namespace tpu::hlo {

/// Reads the value of a constant, between the parentheses: nested braces of numbers, `true` and
/// `false`, complex numbers as `(1, 2)`, a tuple of values, or one number for all elements. Returns
/// the row-major bytes (of a tuple: of its arrays one after another); nothing for an elided value,
/// `{...}`. Refuses numbers that the type does not hold.
std::vector<std::uint8_t> read_literal(HloCursor& cursor, const Shape& shape);

/// Reads what MLIR has between the brackets of `dense<...>`: the same with square brackets, the
/// bits of single elements as `0x7FC00000`, or those of all elements in one string. Fails in place
/// of elided values.
std::vector<std::uint8_t> read_dense(HloCursor& cursor, const Shape& shape);

}  // namespace tpu::hlo
