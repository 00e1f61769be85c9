#include "workloads/compiler/kernels/elementwise/elementwise_plan.h"

#include <algorithm>
#include <utility>

#include "isa/instruction.h"
#include "workloads/compiler/ir/array_layout.h"
#include "workloads/compiler/kernels/elementwise/elementwise_memory.h"

namespace tpu::compiler {

using hlo::HloOpcode;

std::int64_t ElementwisePlan::Input::kept_registers(const IterationSpace& space) const {
  std::int64_t registers = access.needs_rows() ? space.row_tiles() : 1;
  for (int axis : kept_majors) registers *= space.extent(axis);
  return registers;
}

const ElementwisePlan::Input* ElementwisePlan::input_of(int node) const {
  for (const Input& input : inputs) {
    if (input.node == node) return &input;
  }
  return nullptr;
}

int ElementwisePlan::reduction_of(int node) const {
  for (std::size_t i = 0; i < reductions.size(); ++i) {
    if (reductions[i].node == node) return static_cast<int>(i);
  }
  return -1;
}

const ElementwisePlan::RowValue* ElementwisePlan::row_value_of(int node) const {
  for (const RowValue& value : row_values) {
    if (value.node == node) return &value;
  }
  return nullptr;
}

const ElementwisePlan::ColumnValue* ElementwisePlan::column_value_of(int node,
                                                                     bool is_reciprocal) const {
  for (const ColumnValue& value : column_values) {
    if (value.node == node && value.is_reciprocal == is_reciprocal) return &value;
  }
  return nullptr;
}

const ElementwisePlan::Reduction* ElementwisePlan::reduction_along_rows() const {
  const auto found = std::find_if(reductions.begin(), reductions.end(),
                                  [](const Reduction& each) { return each.along_rows; });
  return found == reductions.end() ? nullptr : &*found;
}

std::int64_t ElementwisePlan::run(const Group& group) const {
  const std::int64_t rows = group.rows, matrix = radix(0);
  if (matrix <= kLineTiles && rows % matrix == 0) return matrix;
  // Where the last group of a matrix is smaller, each begins at a multiple of the others' size.
  return rows & -rows;
}

bool ElementwisePlan::spreads() const {
  return std::any_of(inputs.begin(), inputs.end(),
                     [](const Input& input) { return input.is_spread(); }) ||
         std::any_of(row_values.begin(), row_values.end(),
                     [](const RowValue& value) { return value.level < 0; });
}

PassKind ElementwisePlan::pass_at(int level) const {
  if (level < 0) return PassKind::kSpread;
  const bool has_sums = std::any_of(
      reductions.begin(), reductions.end(),
      [level](const Reduction& each) { return each.along_lanes && each.level == level; });
  return has_sums ? PassKind::kSums : PassKind::kResults;
}

bool PlanLimits::reduce(std::optional<PassKind> crowded) {
  const bool were_apart = std::exchange(passes_apart, true);
  if (!were_apart && (!crowded || *crowded == PassKind::kTogether)) return true;
  bool is_less = false;
  if (crowded && most_tiles[static_cast<std::size_t>(*crowded)] == 1) crowded.reset();
  for (std::size_t kind = 0; kind < kPassKinds; ++kind) {
    int& most = most_tiles[kind];
    if ((crowded && kind != static_cast<std::size_t>(*crowded)) || most == 1) continue;
    most /= 2;
    is_less = true;
  }
  return is_less;
}

std::int64_t ElementwisePlan::radix(int digit) const {
  return digit == 0 ? space.row_tiles()
                    : space.extents[static_cast<std::size_t>(axis_of_digit(digit))];
}

std::int64_t ElementwisePlan::waited_granules() const {
  std::int64_t sum = 0;
  for (const Input& input : inputs) {
    if (input.stays()) sum += static_cast<std::int64_t>(granules(input.access.shape));
  }
  return sum;
}

bool ElementwisePlan::has_streams() const {
  return std::any_of(inputs.begin(), inputs.end(),
                     [](const Input& input) { return !input.stays(); }) ||
         std::any_of(outputs.begin(), outputs.end(),
                     [](const Output& output) { return output.kind == OutputKind::kStream; });
}

std::int64_t ElementwisePlan::units_along(int axis) const {
  std::int64_t units = 1;
  for (int inner = axis + 1; inner <= unit_axis; ++inner) {
    units *= inner == space.row_axis() ? space.row_tiles() : space.extent(inner);
  }
  return units;
}

bool ElementwisePlan::turns_neighbors() const {
  return joins_lanes || std::any_of(inputs.begin(), inputs.end(), [](const Input& input) {
           return input.is_in_neighborhood() && input.access.shift.back() % isa::kLanes != 0;
         });
}

bool ElementwisePlan::has_vectors_in_rows() const {
  return std::any_of(inputs.begin(), inputs.end(),
                     [this](const Input& input) { return is_in_rows(input.access.shape); }) ||
         std::any_of(outputs.begin(), outputs.end(),
                     [this](const Output& output) { return is_in_rows(output.shape); });
}

bool ElementwisePlan::keeps_columns() const {
  return std::any_of(inputs.begin(), inputs.end(), [](const Input& input) { return input.kept; });
}

std::int64_t ElementwisePlan::stream_rows(const hlo::Shape& shape) const {
  const std::int64_t tiles = is_in_rows(shape) ? isa::kSublanes : lane_tiles;
  return tiles * (shape.type == hlo::ElementType::kBf16 ? 4 : 8);
}

std::int64_t ElementwisePlan::last_granules(const hlo::Shape& shape, std::int64_t count) const {
  if (!is_in_rows(shape)) return stream_granules(shape, count);
  return static_cast<std::int64_t>(granules(shape)) - stream_granules(shape, row_tiles - count);
}

std::int64_t ElementwisePlan::moved_granules(const ArrayPart& part, const hlo::Shape& shape,
                                             std::int64_t granules) const {
  const std::int64_t with_rows = part.is_one_range() ? granules_with_rows(shape) : 0;
  return with_rows == 0 ? granules : granules / granules_of_tile(shape) * with_rows;
}

bool ElementwisePlan::ends_early() const {
  const auto ends = [this](const hlo::Shape& shape) {
    return last_granules(shape, row_tiles) != stream_granules(shape, row_tiles);
  };
  return std::any_of(
             inputs.begin(), inputs.end(),
             [&](const Input& each) { return each.is_stream() && ends(each.access.shape); }) ||
         std::any_of(outputs.begin(), outputs.end(), [&](const Output& each) {
           return each.kind == OutputKind::kStream && ends(each.shape);
         });
}

std::int64_t ElementwisePlan::stream_granules(const hlo::Shape& shape, std::int64_t count) const {
  if (shape.rank() == 0) return 1;
  return count * stream_rows(shape) / 2;
}

}  // namespace tpu::compiler
