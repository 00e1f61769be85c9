#include "workloads/compiler/passes/layout/copy_steps.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include "sim/base/contains.h"
#include "sim/base/error.h"
#include "workloads/compiler/cost.h"
#include "workloads/compiler/ir/array_layout.h"
#include "workloads/compiler/ir/dimension_order.h"
#include "workloads/compiler/ir/kernel_forms.h"
#include "workloads/compiler/passes/edit.h"
#include "workloads/compiler/passes/layout/reshape_way.h"
#include "workloads/compiler/passes/simplify/simplify.h"

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
    users_ = users_of(entry_);
    for (std::size_t i = 0; i < count; ++i) {
      if (entry_.instructions[i].opcode == HloOpcode::kReshape) {
        split_reshape(static_cast<InstructionId>(i));
      }
    }
    for (std::size_t i = 0; i < count; ++i) visit(static_cast<InstructionId>(i));
    if (entry_.instructions.size() > count) tidy(entry_);
  }

 private:
  void visit(InstructionId id);
  void make_copy(InstructionId id);
  void split_copy(InstructionId id);
  void split_concatenation(InstructionId id);
  void split_reshape(InstructionId id);
  using Way = std::vector<hlo::Shape>;
  Way shortest_way(const hlo::Shape& from, const hlo::Shape& to, double most);
  bool is_copy_for_one(InstructionId id) const;
  bool is_step(const hlo::Shape& from, const hlo::Shape& to);
  static HloOpcode opcode_of_step(const hlo::Shape& from, const hlo::Shape& to);
  void split_box(InstructionId id);
  bool is_large(const hlo::Shape& shape) const {
    return static_cast<std::uint64_t>(shape.padded_bytes()) >= target_.vmem_bytes / 8;
  }
  bool has_kernel(const HloInstruction& copy) { return has_kernel(entry_, copy); }
  bool has_kernel(const hlo::Computation& computation, const HloInstruction& copy);

  hlo::Module& module_;
  hlo::Computation& entry_;
  const Target& target_;
  std::vector<std::vector<InstructionId>> users_;
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
  if (entry_.at(id).opcode == HloOpcode::kTranspose) make_copy(id);
  if (entry_.at(id).opcode == HloOpcode::kCopy) split_copy(id);
  if (entry_.at(id).opcode == HloOpcode::kConcatenate) split_concatenation(id);
  const HloOpcode opcode = entry_.at(id).opcode;
  if (opcode == HloOpcode::kPad || opcode == HloOpcode::kSlice || opcode == HloOpcode::kReverse) {
    split_box(id);
  }
}

/// A transpose that no kernel takes whole is a copy of the operand's bytes under other names of its
/// dimensions.
void CopySteps::make_copy(InstructionId id) {
  const HloInstruction& transpose = entry_.at(id);
  const hlo::Shape& source = entry_.at(transpose.operands[0]).shape;
  if ((!is_large(source) && !is_large(transpose.shape)) || has_kernel(transpose)) return;
  HloInstruction renamed = transpose;
  renamed.opcode = HloOpcode::kBitcast;
  renamed.name += ".renamed";
  renamed.dimensions.clear();
  renamed.shape = in_order(transpose.shape,
                           order_behind_transpose(major_to_minor(source), transpose.dimensions));
  const InstructionId operand = append(entry_, std::move(renamed));
  HloInstruction& copy = entry_.at(id);
  copy.opcode = HloOpcode::kCopy;
  copy.dimensions.clear();
  copy.operands = {operand};
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

/// The copies to other orders around a reshape that nothing else reads belong to it: the way begins
/// before and ends behind them. Of the arrays between, the shortest way by what kernels expect of
/// each step, where the present one takes more than twice what the bytes of both ends do, or has no
/// kernel.
void CopySteps::split_reshape(InstructionId id) {
  const bool has_copy_before = is_copy_for_one(entry_.at(id).operands[0]);
  const InstructionId begin = has_copy_before ? entry_.at(entry_.at(id).operands[0]).operands[0]
                                              : entry_.at(id).operands[0];
  const std::vector<InstructionId>& readers = users_[static_cast<std::size_t>(id)];
  const bool has_copy_behind =
      id != entry_.root && readers.size() == 1 && entry_.at(readers[0]).opcode == HloOpcode::kCopy;
  const InstructionId end = has_copy_behind ? readers[0] : id;
  const hlo::Shape from = entry_.at(begin).shape, to = entry_.at(end).shape;
  if (from.element_count() == 0) return;
  const hlo::Shape& before = entry_.at(entry_.at(id).operands[0]).shape;
  const hlo::Shape& behind = entry_.at(id).shape;
  const double alone = move_cycles(from, before, target_) + move_cycles(before, behind, target_) +
                       move_cycles(behind, to, target_);
  const bool exists = (!is_large(before) && !is_large(behind)) || has_kernel(entry_.at(id));
  const double passes =
      static_cast<double>(from.padded_bytes() + to.padded_bytes()) / target_.hbm_bytes_per_cycle;
  const int kernels = 1 + (has_copy_before ? 1 : 0) + (has_copy_behind ? 1 : 0);
  if (exists && alone <= (1 + kernels) * (passes + kKernelCycles)) return;
  constexpr double kWorthSteps = 0.7;
  const Way way = shortest_way(from, to, exists ? kWorthSteps * alone : HUGE_VAL);
  if (way.empty()) return;
  InstructionId operand = begin;
  for (std::size_t i = 0; i < way.size(); ++i) {
    HloInstruction step = entry_.at(id);
    step.name += ".step" + std::to_string(i);
    step.shape = way[i];
    step.operands = {operand};
    step.opcode = opcode_of_step(entry_.at(operand).shape, way[i]);
    if (i + 1 < way.size()) {
      operand = append(entry_, std::move(step));
    } else {
      step.id = end;
      step.name = entry_.at(end).name;
      entry_.at(end) = std::move(step);
    }
  }
}

bool CopySteps::is_copy_for_one(InstructionId id) const {
  return entry_.at(id).opcode == HloOpcode::kCopy && id != entry_.root &&
         users_[static_cast<std::size_t>(id)].size() == 1;
}

HloOpcode CopySteps::opcode_of_step(const hlo::Shape& from, const hlo::Shape& to) {
  if (same_bytes_after_reshape(from, to)) return HloOpcode::kBitcast;
  return from.dimensions == to.dimensions ? HloOpcode::kCopy : HloOpcode::kReshape;
}

bool CopySteps::is_step(const hlo::Shape& from, const hlo::Shape& to) {
  HloInstruction step;
  step.opcode = opcode_of_step(from, to);
  if (step.opcode == HloOpcode::kBitcast) return true;
  step.name = "step";
  step.shape = to;
  hlo::Computation alone_in;
  HloInstruction operand;
  operand.opcode = HloOpcode::kParameter;
  operand.shape = from;
  step.operands = {append(alone_in, std::move(operand))};
  return has_kernel(alone_in, step);
}

/// What is made one after the other, the last of them `to`; empty where no way takes less than
/// `most` cycles. (Dijkstra's.)
CopySteps::Way CopySteps::shortest_way(const hlo::Shape& from, const hlo::Shape& to, double most) {
  constexpr std::int64_t kMostPadding = 8;
  std::vector<hlo::Shape> shapes{from};
  const std::int64_t largest = kMostPadding * std::max(from.padded_bytes(), to.padded_bytes());
  for (hlo::Shape& shape : shapes_between(from, to)) {
    if (most == HUGE_VAL || shape.padded_bytes() <= largest) shapes.push_back(std::move(shape));
  }
  shapes.push_back(to);
  const std::size_t end = shapes.size() - 1;
  std::vector<double> cycles(shapes.size(), HUGE_VAL);
  std::vector<std::size_t> before(shapes.size(), 0);
  std::vector<bool> is_done(shapes.size(), false);
  cycles[0] = 0;
  cycles[end] = most;
  while (true) {
    std::size_t nearest = end;
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      if (!is_done[i] && cycles[i] < cycles[nearest]) nearest = i;
    }
    if (nearest == end) break;
    is_done[nearest] = true;
    for (std::size_t i = 1; i < shapes.size(); ++i) {
      if (is_done[i]) continue;
      const bool moves = !same_bytes_after_reshape(shapes[nearest], shapes[i]);
      const double sum =
          cycles[nearest] + (moves ? move_cycles(shapes[nearest], shapes[i], target_) : 0);
      if (sum >= std::min(cycles[i], cycles[end]) || !is_step(shapes[nearest], shapes[i])) continue;
      cycles[i] = sum;
      before[i] = nearest;
    }
  }
  Way way;
  if (cycles[end] == most) return way;
  for (std::size_t at = end; at != 0; at = before[at]) way.insert(way.begin(), shapes[at]);
  return way;
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
