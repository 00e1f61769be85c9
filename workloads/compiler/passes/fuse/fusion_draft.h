#pragma once

#include <set>
#include <string>
#include <vector>

#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// A kernel in the making: the values it writes and the arrays it reads.
struct FusionDraft {
  bool is_fusion = false;
  bool is_reduction = false;
  hlo::InstructionId product = -1;        ///< The dot or convolution whose epilogue the rest is.
  std::vector<hlo::InstructionId> roots;  ///< In order.
  /// Once roots of kernels of their own, now read by this one alone, which does not write them.
  std::set<hlo::InstructionId> absorbed;
  std::vector<hlo::InstructionId> inside;  ///< What it computes, roots included, operands first.
  std::vector<hlo::InstructionId> leaves;  ///< What it reads.
  std::string extent;                      ///< Equal for kernels that may become one.
  bool is_merged_away = false;
};

bool is_plain_reduce(const hlo::HloInstruction& instruction);
/// A kernel around the MXUs. Convolutions by groups are none.
bool is_matrix_product(const hlo::HloInstruction& instruction);

/// Equal for shapes that a kernel steps through in the same way.
std::string extent_text(const hlo::Shape& shape);

/// What kernels step through, of each value: equal where one kernel steps through both. So it does
/// where lanes of a single tile move from an array to another one.
class SteppedExtents {
 public:
  explicit SteppedExtents(const hlo::Computation& entry);
  const std::string& of(hlo::InstructionId id) const {
    return texts_[static_cast<std::size_t>(id)];
  }

 private:
  std::vector<std::string> texts_;
};

/// The value that an instruction of a kernel steps through: of a reduction its operand.
hlo::InstructionId stepped_through(const hlo::Computation& entry, hlo::InstructionId id);

}  // namespace tpu::compiler
