#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// Parts of bf16 that an f32 operand of a product is taken as: one at the default precision, two at
/// `high`, three at `highest`. Their sum is the operand: the first is its rounding, the next the
/// rounding of what that leaves.
using OperandParts = std::array<std::uint32_t, 2>;
constexpr std::uint32_t kMostParts = 3;
inline bool are_several(const OperandParts& parts) { return parts[0] > 1 || parts[1] > 1; }

/// What operand_precision says of each operand.
OperandParts operand_parts(const hlo::HloInstruction& product);
/// The same where they lie in memory as these: one that is no f32 is one part.
OperandParts operand_parts(const hlo::HloInstruction& product, hlo::ElementType lhs,
                           hlo::ElementType rhs);
/// The text that says it: empty for one part of each.
std::string precision_of_parts(const OperandParts& parts);

/// Of a product whose operands are exchanged.
void exchange_precisions(hlo::HloInstruction& product);

/// Which parts of the operands meet, the smallest products first. Products of parts that together
/// are smaller than the last part are left out: three of two parts, six of three. Searches make
/// them for every cut, so they take no heap.
class PartPairs {
 public:
  static constexpr std::size_t kMost = kMostParts * (kMostParts + 1) / 2;

  explicit PartPairs(const OperandParts& count);
  std::size_t size() const { return size_; }
  const OperandParts& operator[](std::size_t i) const { return pairs_[i]; }
  const OperandParts* begin() const { return pairs_.data(); }
  const OperandParts* end() const { return begin() + size_; }

 private:
  std::array<OperandParts, kMost> pairs_;
  std::size_t size_ = 0;
};

}  // namespace tpu::compiler
