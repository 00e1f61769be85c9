#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "workloads/compiler/ir/array_layout.h"
#include "workloads/compiler/ir/dot_problem.h"
#include "workloads/compiler/ir/operand_parts.h"
#include "workloads/compiler/target.h"
#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// What dots cost by the orders in which their arrays lie, in estimated cycles, each asked for
/// once: dots of the same dimensions and shapes (those of the layers of a net) cost the same.
class DotCosts {
 public:
  explicit DotCosts(const Target& target) : target_(target) {}

  struct Cost {
    double products = 0;
    double copies = 0;  ///< And blocks that are turned.
  };
  using Orders = std::array<DimensionOrder, 3>;  ///< Of both operands and of the result.
  /// The shapes are those of both operands; the layouts they have do not matter.
  const Cost& of(const hlo::HloInstruction& dot, const hlo::Shape& lhs, const hlo::Shape& rhs,
                 const Orders& orders);

 private:
  using Extents = std::vector<std::int64_t>;
  /// Types and extents of the three arrays, dimension numbers, parts of the operands.
  using Kind = std::tuple<std::array<hlo::ElementType, 3>, std::array<Extents, 3>,
                          std::array<Extents, 6>, OperandParts>;
  std::size_t kind_of(const hlo::HloInstruction& dot, const hlo::Shape& lhs, const hlo::Shape& rhs);
  Cost cost_of_products(DotProblem problem) const;
  Cost cost_with_copies(const hlo::HloInstruction& dot, const hlo::Shape& lhs,
                        const hlo::Shape& rhs, const hlo::Shape& result) const;

  const Target& target_;
  std::map<Kind, std::size_t> kinds_;
  std::map<hlo::InstructionId, std::size_t> kind_of_dot_;
  std::map<std::pair<std::size_t, Orders>, Cost> costs_;
};

}  // namespace tpu::compiler
