#include "workloads/compiler/kernels/indexed/scatter_combiner.h"

#include "workloads/compiler/kernels/elementwise/integer_arithmetic.h"
#include "workloads/compiler/kernels/elementwise/transcendental.h"

namespace tpu::compiler {

using hlo::HloOpcode;
using isa::Opcode;

VReg combined_update(KernelBuilder& builder, const ScatterCombiner& combiner, VReg value,
                     VReg update) {
  const bool is_float = combiner.type == hlo::ElementType::kF32;
  const auto extreme = [&](bool greatest) {
    const bool is_unsigned = combiner.type == hlo::ElementType::kU32;
    const VReg &first = greatest ? value : update, &second = greatest ? update : value;
    const MReg less = is_unsigned ? emit_less_u32(builder, first, second)
                                  : builder.vector_compare(Opcode::kVcmpLtS32, first, second);
    return builder.select(less, update, value);
  };
  switch (combiner.opcode) {
    case HloOpcode::kParameter:
      return update;
    case HloOpcode::kAdd:
      return is_float ? builder.add(value, update)
                      : builder.vector(Opcode::kVaddS32, value, update);
    case HloOpcode::kMultiply:
      return is_float ? builder.mul(value, update) : emit_multiply_s32(builder, value, update);
    case HloOpcode::kMaximum:
      return is_float ? builder.vector(Opcode::kVmaxF32, value, update) : extreme(true);
    case HloOpcode::kMinimum:
      return is_float ? builder.vector(Opcode::kVminF32, value, update) : extreme(false);
    case HloOpcode::kAnd:
      return builder.vector(Opcode::kVandU32, value, update);
    default:
      return builder.vector(Opcode::kVorU32, value, update);
  }
}

}  // namespace tpu::compiler
