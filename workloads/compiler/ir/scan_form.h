#pragma once

#include <cstdint>
#include <optional>

#include "workloads/compiler/target.h"
#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// A cumulative operation in the form that has a kernel: a reduce-window over the middle dimension
/// of [outer, rows, lanes] that reaches from each row to the first one (or the last one), of f32 or
/// s32, by addition, multiplication, maximum or minimum, from the value that changes nothing.
struct ScanForm {
  std::int64_t outer = 1, rows = 1, lanes = 1;
  bool forwards = true;
  hlo::HloOpcode operation = hlo::HloOpcode::kAdd;
  bool is_integer = false;
};

/// The form, where the instruction has it.
std::optional<ScanForm> scan_form(const hlo::Module& module, const hlo::Computation& computation,
                                  const hlo::HloInstruction& instruction);

/// Whether there is a kernel for so many rows.
bool scan_fits(std::int64_t rows, const Target& target);

/// The value that changes nothing; absent where the operation has no such kernel.
std::optional<double> scan_identity(hlo::HloOpcode operation, bool is_integer);

}  // namespace tpu::compiler
