#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <vector>

#include "workloads/compiler/cost.h"
#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// A side of a product that its kernel makes of arrays of the side's extent, in the place where the
/// blocks of one of them arrive.
struct MadeSide {
  bool is_made = false;  ///< Else it stands in memory.
  /// As it is made: f32 for one of bf16 that is made of arrays of f32 alone. The MXU rounds it.
  hlo::ElementType type = hlo::ElementType::kF32;
  VectorCost cost;                       ///< Per tile.
  std::vector<hlo::ElementType> beside;  ///< Of the arrays beside that one.
  std::uint64_t resident_rows = 0;       ///< VMEM for what stays.
  bool depends_on_rows = false;          ///< Anything does on the row in its matrix.
};

/// What a kernel makes of a side of its product: the side, or what is rounded to bf16 for it, where
/// nothing that it is made of has that type. `is_inside`: whether the kernel computes a value.
hlo::InstructionId made_for_side(const hlo::Computation& computation,
                                 const hlo::HloInstruction& side,
                                 const std::function<bool(hlo::InstructionId)>& is_inside);

/// The left and the right one.
using MadeSides = std::array<MadeSide, 2>;

}  // namespace tpu::compiler
