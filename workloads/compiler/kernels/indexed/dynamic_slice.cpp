#include <algorithm>
#include <cstring>

#include "sim/base/error.h"
#include "workloads/compiler/ir/array_layout.h"
#include "workloads/compiler/ir/iteration_place.h"
#include "workloads/compiler/kernels/elementwise/expression_graph.h"
#include "workloads/compiler/kernels/lowering.h"
#include "workloads/compiler/kernels/relayout/relayout_boxes.h"
#include "workloads/compiler/kernels/relayout/relayout_copy.h"

namespace tpu::compiler {

namespace {

using hlo::HloInstruction;
using hlo::HloOpcode;

[[noreturn]] void refuse_slice(const hlo::Computation& computation,
                               const HloInstruction& instruction, const std::string& why) {
  throw WorkloadError("no kernel for " + std::string(hlo::to_string(instruction.opcode)) + " (" +
                      hlo::to_string(computation.at(instruction.operands[0]).shape) + ") -> " +
                      hlo::to_string(instruction.shape) + " \"" + instruction.name + "\": " + why);
}

}  // namespace

LoweredKernel lower_dynamic_slice(const hlo::Module&, const hlo::Computation& computation,
                                  const HloInstruction& instruction, const Target& target) {
  const bool updates = instruction.opcode == HloOpcode::kDynamicUpdateSlice;
  const std::size_t first_start = updates ? 2 : 1;
  const hlo::Shape& array = computation.at(instruction.operands[0]).shape;
  const hlo::Shape& slice =
      updates ? computation.at(instruction.operands[1]).shape : instruction.shape;
  if (major_to_minor(array) != major_to_minor(slice) || array.type != slice.type) {
    refuse_slice(computation, instruction, "expected array and slice of one type and order");
  }
  const std::vector<std::int64_t> order = major_to_minor(array);
  const std::vector<std::int64_t> strides = major_strides(array);
  const bool is_placed = is_update_of_iteration(instruction);  // By who calls the kernel.
  Box box;
  TileMove move;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const auto d = static_cast<std::size_t>(order[i]);
    const std::int64_t last = array.dimensions[d] - slice.dimensions[d];
    Box::Dimension dimension;
    dimension.extent = slice.dimensions[d];
    box.dimensions.push_back(dimension);
    if (last == 0 || is_placed) continue;
    if (i + 2 >= order.size()) {
      refuse_slice(computation, instruction, "expected the two minor dimensions to be taken whole");
    }
    const HloInstruction& start = computation.at(instruction.operands.at(first_start + d));
    if (start.opcode != HloOpcode::kConstant || start.literal.size() < 4) {
      move.offsets.push_back({static_cast<int>(first_start + d), last, strides[i], updates});
      continue;
    }
    std::int32_t given = 0;
    std::memcpy(&given, start.literal.data(), sizeof given);
    const std::int64_t place = std::min(std::max<std::int64_t>(given, 0), last);
    (updates ? box.dimensions.back().to : box.dimensions.back().from) = place;
  }
  const std::optional<TileRuns> runs =
      tile_runs(box, updates ? slice : array, updates && !is_placed ? array : slice);
  if (!runs) refuse_slice(computation, instruction, "expected whole tiles");
  move.runs = *runs;
  move.source = updates ? 1 : 0;
  return emit_tile_moves(instruction.name, {move}, static_cast<int>(instruction.operands.size()), 0,
                         false, 0, target);
}

}  // namespace tpu::compiler
