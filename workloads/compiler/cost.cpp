#include "workloads/compiler/cost.h"

namespace tpu::compiler {

using hlo::HloOpcode;

double vector_cycles(HloOpcode opcode) {
  switch (opcode) {
    case HloOpcode::kSign:
      return 2.5;
    case HloOpcode::kFloor:
    case HloOpcode::kDivide:
      return 4.5;
    case HloOpcode::kCeil:
    case HloOpcode::kTanh:
      return 6;
    case HloOpcode::kExponential:
    case HloOpcode::kLog:
      return 6.7;
    case HloOpcode::kRoundNearestAfz:
      return 8.6;
    case HloOpcode::kExponentialMinusOne:
    case HloOpcode::kRsqrt:
      return 10;
    case HloOpcode::kRoundNearestEven:
      return 12;
    case HloOpcode::kSqrt:
      return 13;
    case HloOpcode::kLogPlusOne:
      return 16;
    case HloOpcode::kPower:
    case HloOpcode::kLogistic:
      return 18;
    case HloOpcode::kErf:
      return 26;
    case HloOpcode::kCbrt:
      return 30;
    case HloOpcode::kAtan2:
      return 46;
    case HloOpcode::kSine:
    case HloOpcode::kCosine:
      return 82;
    case HloOpcode::kTan:
      return 106;
    case HloOpcode::kRemainder:
      return 262;
    default:
      return hlo::is_elementwise(opcode) ? 0.5 : 0;
  }
}

}  // namespace tpu::compiler
