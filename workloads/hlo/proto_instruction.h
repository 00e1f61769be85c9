#pragma once

#include <cstdint>
#include <vector>

#include "workloads/graph/graph.h"
#include "workloads/hlo/proto_cursor.h"

namespace tpu::hlo {

/// An instruction with the ids that its message refers by.
struct ProtoInstruction {
  HloInstruction made;
  std::int64_t id = 0;
  std::vector<std::int64_t> operands, predecessors, called;
};

/// Reads an HloInstructionProto. What the graph keeps as text is written as XLA's printer writes
/// it, in the same order.
ProtoInstruction read_instruction(ProtoCursor message);

}  // namespace tpu::hlo
