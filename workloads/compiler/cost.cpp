#include "workloads/compiler/cost.h"

namespace tpu::compiler {

using hlo::HloOpcode;

VectorCost vector_cost(HloOpcode opcode) {
  switch (opcode) {
    case HloOpcode::kSign:
      return {2.5, 4};
    case HloOpcode::kFloor:
      return {4.5, 8};
    case HloOpcode::kDivide:
      return {4.5, 10};
    case HloOpcode::kCeil:
      return {6, 10};
    case HloOpcode::kTanh:
      return {6, 1};
    case HloOpcode::kExponential:
    case HloOpcode::kLog:
      return {6.7, 2};
    case HloOpcode::kRoundNearestAfz:
      return {8.6, 15};
    case HloOpcode::kExponentialMinusOne:
      return {10, 6};
    case HloOpcode::kRsqrt:
      return {10, 10};
    case HloOpcode::kRoundNearestEven:
      return {12, 21};
    case HloOpcode::kSqrt:
      return {13, 15};
    case HloOpcode::kLogPlusOne:
      return {16, 19};
    case HloOpcode::kPower:
      return {18, 23};
    case HloOpcode::kLogistic:
      return {18, 12};
    case HloOpcode::kErf:
      return {26, 35};
    case HloOpcode::kCbrt:
      return {30, 24};
    case HloOpcode::kAtan2:
      return {46, 52};
    case HloOpcode::kSine:
      return {82, 162};
    case HloOpcode::kCosine:
      return {82, 163};
    case HloOpcode::kTan:
      return {106, 199};
    case HloOpcode::kRemainder:
      return {262, 394};
    default:
      return hlo::is_elementwise(opcode) ? VectorCost{0.5, 1} : VectorCost{};
  }
}

}  // namespace tpu::compiler
