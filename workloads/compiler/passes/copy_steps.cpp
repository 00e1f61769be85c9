#include "workloads/compiler/passes/copy_steps.h"

#include <algorithm>
#include <map>
#include <string>

#include "isa/instruction.h"
#include "sim/base/error.h"
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
  void split_pad(InstructionId id);
  bool is_large(const hlo::Shape& shape) const {
    return static_cast<std::uint64_t>(shape.padded_bytes()) >= target_.vmem_bytes / 8;
  }
  bool has_kernel(const HloInstruction& copy);

  hlo::Module& module_;
  hlo::Computation& entry_;
  const Target& target_;
  std::map<std::string, bool> known_;
};

bool CopySteps::has_kernel(const HloInstruction& copy) {
  std::string key = std::string(hlo::to_string(copy.opcode)) + to_string(copy.shape);
  for (InstructionId operand : copy.operands) key += " " + to_string(entry_.at(operand).shape);
  const auto [entry, is_new] = known_.emplace(key, true);
  if (is_new) entry->second = has_relayout_kernel(module_, entry_, copy, target_);
  return entry->second;
}

void CopySteps::visit(InstructionId id) {
  if (entry_.at(id).opcode == HloOpcode::kCopy) split_copy(id);
  if (entry_.at(id).opcode == HloOpcode::kConcatenate) split_concatenation(id);
  if (entry_.at(id).opcode == HloOpcode::kReshape) split_reshape(id);
  if (entry_.at(id).opcode == HloOpcode::kPad) split_pad(id);
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

void CopySteps::split_reshape(InstructionId id) {
  const HloInstruction whole = entry_.at(id);
  const hlo::Shape source = entry_.at(whole.operands[0]).shape;
  if (whole.shape.rank() < 2 || source.rank() < 2) return;
  if ((!is_large(source) && !is_large(whole.shape)) || has_kernel(whole)) return;
  const bool is_source = source.dimensions.back() > whole.shape.dimensions.back();
  HloInstruction first = whole, second = whole;
  first.name += ".step";
  first.shape = hlo::array_shape(
      whole.shape.type, rows_as_matrices(is_source ? source.dimensions : whole.shape.dimensions));
  first.shape.layout = row_major_layout(first.shape.type, first.shape.rank());
  const bool begins = has_kernel(first);
  second.operands = {append(entry_, std::move(first))};
  if (begins && has_kernel(second)) entry_.at(id) = std::move(second);
}

void CopySteps::split_pad(InstructionId id) {
  const HloInstruction whole = entry_.at(id);
  if (whole.shape.rank() < 2 || !is_large(whole.shape) || has_kernel(whole)) return;
  std::vector<std::size_t> padded;  ///< From the outermost dimension on.
  for (std::int64_t d : major_to_minor(whole.shape)) {
    const hlo::PaddingDimension& p = whole.padding[static_cast<std::size_t>(d)];
    if (p.low != 0 || p.high != 0 || p.interior != 0) padded.push_back(static_cast<std::size_t>(d));
  }
  if (padded.size() < 2) return;
  HloInstruction first = whole;
  first.name += ".step";
  first.padding[padded[0]] = {};
  first.shape.dimensions[padded[0]] = entry_.at(whole.operands[0]).shape.dimensions[padded[0]];
  const InstructionId step = append(entry_, std::move(first));
  HloInstruction& last = entry_.at(id);
  for (std::size_t i = 1; i < padded.size(); ++i) last.padding[padded[i]] = {};
  last.operands[0] = step;
  visit(step);
}

}  // namespace

void split_large_copies(hlo::Module& module, const Target& target) {
  CopySteps(module, target).run();
}

}  // namespace tpu::compiler
