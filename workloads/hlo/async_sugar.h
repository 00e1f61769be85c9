#pragma once

#include <string_view>

#include "workloads/graph/graph.h"

namespace tpu::hlo {

/// What an opcode such as `slice-start`, `fusion-update` or `custom-call-done` stands for. The
/// graph has the long form: async-start calls a computation that holds the operation.
struct AsyncSugar {
  HloOpcode opcode = HloOpcode::kCount;   ///< kCount: it stands for nothing.
  HloOpcode wrapped = HloOpcode::kCount;  ///< Of a start: the operation.
};
AsyncSugar async_sugar(std::string_view word);

/// True for ((operands), result, ...), the shape of a start.
bool can_wrap(const Shape& start);

/// Moves the operation out of its start, which keeps operands, shape, thread and metadata, into a
/// computation without a name. `called` is what the operation calls or null: where a later update
/// brings the operands, it has their shapes and that of the result.
Computation wrap_operation(HloInstruction& start, HloOpcode wrapped, const Computation* called);

}  // namespace tpu::hlo
