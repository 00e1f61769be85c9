#pragma once

#include <array>

#include "workloads/graph/shape.h"

namespace tpu::hlo {

/// XLA's PrimitiveType: the element type of each number, as protobufs have it. Number 0 is none.
inline constexpr std::array kPrimitiveTypes{
    ElementType::kCount,      ElementType::kPred,       ElementType::kS8,
    ElementType::kS16,        ElementType::kS32,        ElementType::kS64,
    ElementType::kU8,         ElementType::kU16,        ElementType::kU32,
    ElementType::kU64,        ElementType::kF16,        ElementType::kF32,
    ElementType::kF64,        ElementType::kTuple,      ElementType::kOpaque,
    ElementType::kC64,        ElementType::kBf16,       ElementType::kToken,
    ElementType::kC128,       ElementType::kF8E5M2,     ElementType::kF8E4M3Fn,
    ElementType::kS4,         ElementType::kU4,         ElementType::kF8E4M3B11Fnuz,
    ElementType::kF8E5M2Fnuz, ElementType::kF8E4M3Fnuz, ElementType::kS2,
    ElementType::kU2,         ElementType::kF8E4M3,     ElementType::kF8E3M4,
    ElementType::kS1,         ElementType::kU1,         ElementType::kF4E2M1Fn,
    ElementType::kF8E8M0Fnu};

}  // namespace tpu::hlo
