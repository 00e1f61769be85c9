#include "workloads/compiler/passes/copy_steps.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include "isa/instruction.h"
#include "sim/base/contains.h"
#include "sim/base/error.h"
#include "workloads/compiler/cost.h"
#include "workloads/compiler/ir/array_layout.h"
#include "workloads/compiler/ir/kernel_forms.h"
#include "workloads/compiler/passes/edit.h"

namespace tpu::compiler {

using hlo::HloInstruction;
using hlo::HloOpcode;
using hlo::InstructionId;

namespace {

/// Of a concatenation: the other addresses of a kernel are its result and scratch.
constexpr std::size_t kMostOperands = 16;

class CopySteps {
 public:
  CopySteps(hlo::Module& module, const Target& target)
      : module_(module), entry_(module.entry_computation()), target_(target) {}

  void run() {
    const std::size_t count = entry_.instructions.size();
    for (std::size_t i = 0; i < count; ++i) visit(static_cast<InstructionId>(i));
    if (entry_.instructions.size() > count) tidy(entry_);
  }

 private:
  void visit(InstructionId id);
  void split_copy(InstructionId id);
  void split_concatenation(InstructionId id);
  void split_reshape(InstructionId id);
  void split_box(InstructionId id);
  bool is_large(const hlo::Shape& shape) const {
    return static_cast<std::uint64_t>(shape.padded_bytes()) >= target_.vmem_bytes / 8;
  }
  bool has_kernel(const HloInstruction& copy) { return has_kernel(entry_, copy); }
  bool has_kernel(const hlo::Computation& computation, const HloInstruction& copy);

  hlo::Module& module_;
  hlo::Computation& entry_;
  const Target& target_;
  std::map<std::string, bool> known_;
};

bool CopySteps::has_kernel(const hlo::Computation& computation, const HloInstruction& copy) {
  std::string key = std::string(hlo::to_string(copy.opcode)) + to_string(copy.shape);
  for (InstructionId operand : copy.operands) key += " " + to_string(computation.at(operand).shape);
  const auto [entry, is_new] = known_.emplace(key, true);
  if (is_new) entry->second = has_relayout_kernel(module_, computation, copy, target_);
  return entry->second;
}

void CopySteps::visit(InstructionId id) {
  if (entry_.at(id).opcode == HloOpcode::kCopy) split_copy(id);
  if (entry_.at(id).opcode == HloOpcode::kConcatenate) split_concatenation(id);
  if (entry_.at(id).opcode == HloOpcode::kReshape) split_reshape(id);
  const HloOpcode opcode = entry_.at(id).opcode;
  if (opcode == HloOpcode::kPad || opcode == HloOpcode::kSlice || opcode == HloOpcode::kReverse) {
    split_box(id);
  }
}

void CopySteps::split_copy(InstructionId id) {
  const HloInstruction& copy = entry_.at(id);
  if (copy.shape.is_tuple() || copy.shape.rank() < 3) return;
  const hlo::Shape source = entry_.at(copy.operands[0]).shape;
  const std::vector<std::int64_t> from = major_to_minor(source);
  std::vector<std::int64_t> between = major_to_minor(copy.shape);
  // Smaller ones always fit.
  if (from == between || (!is_large(source) && !is_large(copy.shape)) || has_kernel(copy)) return;
  between.erase(std::find(between.begin(), between.end(), from.back()));
  between.push_back(from.back());
  HloInstruction first = copy;
  first.name += ".step";
  first.shape.layout = tiled_layout(copy.shape.type, {between.rbegin(), between.rend()});
  const InstructionId step = append(entry_, std::move(first));
  entry_.at(id).operands[0] = step;
}

void CopySteps::split_concatenation(InstructionId id) {
  const HloInstruction whole = entry_.at(id);
  const std::size_t count = whole.operands.size();
  if (count <= 2) return;
  if (count <= kMostOperands && (!is_large(whole.shape) || has_kernel(whole))) return;
  const auto d = static_cast<std::size_t>(whole.dimensions[0]);
  std::vector<InstructionId> halves;
  const auto middle = whole.operands.begin() + static_cast<std::ptrdiff_t>(count / 2);
  for (const bool second : {false, true}) {
    HloInstruction half = whole;
    half.name += second ? ".second" : ".first";
    half.operands.assign(second ? middle : whole.operands.begin(),
                         second ? whole.operands.end() : middle);
    half.shape.dimensions[d] = 0;
    for (InstructionId operand : half.operands) {
      half.shape.dimensions[d] += entry_.at(operand).shape.dimensions[d];
    }
    halves.push_back(half.operands.size() == 1 ? half.operands[0]
                                               : append(entry_, std::move(half)));
  }
  entry_.at(id).operands = halves;
  for (InstructionId half : halves) visit(half);
}

/// The extents with each row a matrix: of rows of 128 lanes, or of the one row.
std::vector<std::int64_t> rows_as_matrices(std::vector<std::int64_t> extents) {
  const std::int64_t lanes = extents.back();
  const bool is_whole = lanes % isa::kLanes == 0;
  extents.back() = is_whole ? lanes / isa::kLanes : 1;
  extents.push_back(is_whole ? isa::kLanes : lanes);
  return extents;
}

/// Shapes by whose way one array of elements may become another: matrices whose rows are those of
/// some dimensions of either, the elements one behind the other, and each row a matrix by itself.
std::vector<hlo::Shape> shapes_between(const hlo::Shape& from, const hlo::Shape& to) {
  constexpr std::int64_t kLongestRow = 1 << 17;
  const std::int64_t elements = from.element_count();
  std::vector<std::int64_t> rows{isa::kLanes};
  for (const hlo::Shape* shape : {&from, &to}) {
    std::int64_t lanes = 1;
    for (std::size_t d = shape->dimensions.size(); d-- > 0;) {
      lanes *= shape->dimensions[d];
      if (lanes <= kLongestRow) rows.push_back(lanes);
    }
  }
  std::sort(rows.begin(), rows.end());
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  std::vector<hlo::Shape> shapes;
  if (hlo::byte_size(from.type) == 4) shapes.push_back(hlo::array_shape(from.type, {elements}));
  for (std::int64_t lanes : rows) {
    if (elements % lanes == 0) {
      shapes.push_back(hlo::array_shape(from.type, {elements / lanes, lanes}));
    }
  }
  for (const hlo::Shape* shape : {&from, &to}) {
    if (shape->rank() < 2) continue;
    shapes.push_back(hlo::array_shape(from.type, rows_as_matrices(shape->dimensions)));
  }
  for (hlo::Shape& shape : shapes) shape.layout = row_major_layout(shape.type, shape.rank());
  return shapes;
}

/// A reshape goes by way of other shapes where its own kernel takes much longer, or does not exist:
/// the way of the fewest cycles, as the kernel estimates them.
void CopySteps::split_reshape(InstructionId id) {
  constexpr double kWorthSteps = 0.7;
  const HloInstruction whole = entry_.at(id);
  const hlo::Shape source = entry_.at(whole.operands[0]).shape;
  const auto in_row_major = [](const hlo::Shape& shape) {
    return shape.layout == row_major_layout(shape.type, shape.rank());
  };
  if (!in_row_major(source) || !in_row_major(whole.shape) || source.element_count() == 0) return;
  const bool exists = (!is_large(source) && !is_large(whole.shape)) || has_kernel(whole);
  const double alone = reshape_cycles(source, whole.shape, target_);
  const double passes = static_cast<double>(source.padded_bytes() + whole.shape.padded_bytes()) /
                        target_.hbm_bytes_per_cycle;
  if (exists && alone <= 2 * (passes + kKernelCycles)) return;
  std::vector<hlo::Shape> shapes = shapes_between(source, whole.shape);
  shapes.insert(shapes.begin(), source);
  shapes.push_back(whole.shape);
  // The shortest way to each shape, by way of those that were reached.
  const std::size_t end = shapes.size() - 1;
  std::vector<double> cycles(shapes.size(), HUGE_VAL);
  std::vector<std::size_t> before(shapes.size(), 0);
  std::vector<bool> is_done(shapes.size(), false);
  cycles[0] = 0;
  const auto is_step = [&](std::size_t from, std::size_t to) {
    HloInstruction step = whole;
    step.shape = shapes[to];
    hlo::Computation alone_in;
    HloInstruction operand;
    operand.opcode = HloOpcode::kParameter;
    operand.shape = shapes[from];
    step.operands = {append(alone_in, std::move(operand))};
    return has_kernel(alone_in, step);
  };
  for (std::size_t round = 0; round < shapes.size(); ++round) {
    std::size_t nearest = end;
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      if (!is_done[i] && cycles[i] < cycles[nearest]) nearest = i;
    }
    if (nearest == end || is_done[nearest]) break;
    is_done[nearest] = true;
    for (std::size_t i = 1; i < shapes.size(); ++i) {
      if (is_done[i] || (nearest == 0 && i == end && !exists)) continue;
      const double sum = cycles[nearest] + reshape_cycles(shapes[nearest], shapes[i], target_);
      if (sum >= cycles[i] || !is_step(nearest, i)) continue;
      cycles[i] = sum;
      before[i] = nearest;
    }
  }
  if (cycles[end] == HUGE_VAL || (exists && cycles[end] > kWorthSteps * alone)) return;
  std::vector<std::size_t> way;
  for (std::size_t at = before[end]; at != 0; at = before[at]) way.push_back(at);
  InstructionId operand = whole.operands[0];
  for (auto at = way.rbegin(); at != way.rend(); ++at) {
    HloInstruction step = whole;
    step.name += ".step" + std::to_string(at - way.rbegin());
    step.shape = shapes[*at];
    step.operands = {operand};
    operand = append(entry_, std::move(step));
  }
  entry_.at(id).operands[0] = operand;
}

/// Whether a pad, slice or reverse moves anything along a dimension.
bool moves_along(const HloInstruction& box, const hlo::Shape& source, std::size_t d) {
  if (box.opcode == HloOpcode::kReverse) {
    return contains(box.dimensions, static_cast<std::int64_t>(d));
  }
  if (box.opcode == HloOpcode::kSlice) return box.shape.dimensions[d] != source.dimensions[d];
  const hlo::PaddingDimension& p = box.padding[d];
  return p.low != 0 || p.high != 0 || p.interior != 0;
}

/// Along that dimension the box leaves everything where it is.
void leave_in_place(HloInstruction& box, const hlo::Shape& source, std::size_t d) {
  box.shape.dimensions[d] = source.dimensions[d];
  if (box.opcode == HloOpcode::kReverse) {
    const auto dimension = static_cast<std::int64_t>(d);
    box.dimensions.erase(std::find(box.dimensions.begin(), box.dimensions.end(), dimension));
  } else if (box.opcode == HloOpcode::kSlice) {
    hlo::SliceBounds& slice = box.slice.edit();
    slice.starts[d] = 0;
    slice.limits[d] = source.dimensions[d];
    if (!slice.strides.empty()) slice.strides[d] = 1;
  } else {
    box.padding[d] = {};
  }
}

/// A kernel cuts its arrays along a dimension that stays in place: the outermost one that moves
/// does so in a step of its own, of what grows the last one.
void CopySteps::split_box(InstructionId id) {
  const HloInstruction whole = entry_.at(id);
  const hlo::Shape source = entry_.at(whole.operands[0]).shape;
  if (whole.shape.rank() < 2) return;
  if ((!is_large(source) && !is_large(whole.shape)) || has_kernel(whole)) return;
  std::vector<std::size_t> moved;  ///< From the outermost dimension on.
  for (std::int64_t d : major_to_minor(whole.shape)) {
    const auto dimension = static_cast<std::size_t>(d);
    if (moves_along(whole, source, dimension)) moved.push_back(dimension);
  }
  if (moved.size() < 2) return;
  const bool outermost_first = whole.opcode != HloOpcode::kPad;
  HloInstruction first = whole;
  first.name += ".step" + std::to_string(moved.size());
  for (std::size_t i = 0; i < moved.size(); ++i) {
    if ((i == 0) != outermost_first) leave_in_place(first, source, moved[i]);
  }
  const hlo::Shape between = first.shape;
  const InstructionId step = append(entry_, std::move(first));
  HloInstruction& last = entry_.at(id);
  for (std::size_t i = 0; i < moved.size(); ++i) {
    if ((i == 0) == outermost_first) leave_in_place(last, between, moved[i]);
  }
  last.operands[0] = step;
  visit(step);
  visit(id);
}

}  // namespace

void split_large_copies(hlo::Module& module, const Target& target) {
  CopySteps(module, target).run();
}

}  // namespace tpu::compiler
