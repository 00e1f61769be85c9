#include "workloads/compiler/ir/scan_form.h"

#include <cmath>
#include <cstring>

#include "sim/base/ceil_divide.h"
#include "workloads/compiler/ir/combining_operation.h"
#include "workloads/compiler/ir/kernel_forms.h"

namespace tpu::compiler {

using hlo::ElementType;
using hlo::HloInstruction;
using hlo::HloOpcode;

namespace {

/// Whether the instruction is a scalar constant of this value.
bool is_scan_start(const HloInstruction& constant, double value, bool is_integer) {
  if (constant.opcode != HloOpcode::kConstant || constant.literal.size() != 4) return false;
  if (is_integer) {
    std::int32_t word = 0;
    std::memcpy(&word, constant.literal.data(), sizeof word);
    return word == value;
  }
  float number = 0;
  std::memcpy(&number, constant.literal.data(), sizeof number);
  return number == value;
}

}  // namespace

std::optional<double> scan_identity(HloOpcode operation, bool is_integer) {
  switch (operation) {
    case HloOpcode::kAdd:
      return 0;
    case HloOpcode::kMultiply:
      return 1;
    case HloOpcode::kMaximum:
      return is_integer ? -2147483648.0 : -HUGE_VAL;
    case HloOpcode::kMinimum:
      return is_integer ? 2147483647.0 : HUGE_VAL;
    default:
      return std::nullopt;
  }
}

std::optional<ScanForm> scan_form(const hlo::Module& module, const hlo::Computation& computation,
                                  const HloInstruction& instruction) {
  if (instruction.opcode != HloOpcode::kReduceWindow || instruction.operands.size() != 2 ||
      instruction.shape.rank() != 3 || instruction.window.size() != 3) {
    return std::nullopt;
  }
  const hlo::Shape& shape = instruction.shape;
  ScanForm form;
  form.is_integer = shape.type == ElementType::kS32;
  if (!form.is_integer && shape.type != ElementType::kF32) return std::nullopt;
  form.outer = shape.dimensions[0];
  form.rows = shape.dimensions[1];
  form.lanes = shape.dimensions[2];
  const hlo::WindowDimension& w = instruction.window[1];
  const bool reaches = w.size == form.rows && w.size > 1 && w.stride == 1 && !w.reversal &&
                       w.base_dilation == 1 && w.window_dilation == 1 &&
                       w.padding_low + w.padding_high == w.size - 1 &&
                       (w.padding_low == 0 || w.padding_high == 0);
  if (!reaches || !is_trivial(instruction.window[0]) || !is_trivial(instruction.window[2])) {
    return std::nullopt;
  }
  form.forwards = w.padding_high == 0;
  form.operation = combining_operation(module.computation(instruction.called.at(0)));
  const std::optional<double> identity = scan_identity(form.operation, form.is_integer);
  const HloInstruction& start = computation.at(instruction.operands[1]);
  if (!identity || !is_scan_start(start, *identity, form.is_integer)) return std::nullopt;
  return form;
}

bool scan_fits(std::int64_t rows, const Target& target) {
  constexpr std::int64_t kBuffers = 4;  // Two of what comes, two of what leaves.
  return kBuffers * 4096 * ceil_divide(rows, 8) <= static_cast<std::int64_t>(target.vmem_bytes / 2);
}

}  // namespace tpu::compiler
