#include "workloads/compiler/passes/fuse/copy_sequences.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "sim/base/contains.h"
#include "workloads/compiler/ir/array_layout.h"
#include "workloads/compiler/passes/edit.h"
#include "workloads/compiler/passes/memory/storage.h"
#include "workloads/compiler/passes/unique_names.h"
#include "workloads/compiler/target.h"

namespace tpu::compiler {

using hlo::Computation;
using hlo::HloInstruction;
using hlo::HloOpcode;
using hlo::InstructionId;

namespace {

/// Of a copy, and of all that one kernel makes: what is larger hides the latency by itself.
constexpr std::uint64_t kMostCopiedGranules = 128, kMostCopiedTogether = 1024;
/// Each has an address to read and one to write.
constexpr std::size_t kMostCopiesTogether = kMostKernelAddresses / 2;

class CopyJoiner {
 public:
  explicit CopyJoiner(hlo::Module& module) : module_(module), entry_(module.entry_computation()) {}

  void run(bool is_loop) {
    std::size_t kernels = 0;
    for (const HloInstruction& instruction : entry_.instructions) {
      kernels += is_bookkeeping(instruction) ? 0 : 1;
      consider(instruction);
    }
    close();
    std::size_t joined = 0;
    for (const auto& members : runs_) joined += members.size();
    if (runs_.empty() || (is_loop && joined == kernels)) return;
    for (const auto& members : runs_) join(members);
    tidy(entry_);
    for (Computation& made : new_computations_) module_.computations.push_back(std::move(made));
  }

 private:
  bool is_small_copy(const HloInstruction& instruction) const {
    if (instruction.opcode != HloOpcode::kCopy || instruction.shape.is_tuple()) return false;
    const hlo::Shape& from = entry_.at(instruction.operands[0]).shape;
    return from.type == instruction.shape.type && from.dimensions == instruction.shape.dimensions &&
           from.layout == instruction.shape.layout &&
           granules(instruction.shape) <= kMostCopiedGranules;
  }

  void consider(const HloInstruction& instruction) {
    const auto is_made = [this](InstructionId operand) { return made_.count(operand) != 0; };
    const bool follows =
        std::any_of(instruction.operands.begin(), instruction.operands.end(), is_made);
    if (is_bookkeeping(instruction)) {
      if (follows) made_.insert(instruction.id);
      return;
    }
    if (!is_small_copy(instruction)) return close();
    const std::uint64_t own = granules(instruction.shape);
    if (follows || run_.size() == kMostCopiesTogether || granules_ + own > kMostCopiedTogether) {
      close();
    }
    run_.push_back(instruction.id);
    made_.insert(instruction.id);
    granules_ += own;
  }

  void close() {
    if (run_.size() > 1) runs_.push_back(std::move(run_));
    run_.clear();
    made_.clear();
    granules_ = 0;
  }

  void join(const std::vector<InstructionId>& members);

  hlo::Module& module_;
  Computation& entry_;
  std::vector<InstructionId> run_;
  std::set<InstructionId> made_;  ///< The run's copies and what names them.
  std::uint64_t granules_ = 0;
  std::vector<std::vector<InstructionId>> runs_;
  std::vector<Computation> new_computations_;
};

/// The last copy becomes the kernel; elements of its results stand for all.
void CopyJoiner::join(const std::vector<InstructionId>& members) {
  Computation inside;
  HloInstruction call = entry_.at(members.back()), tuple;
  call.opcode = HloOpcode::kFusion;
  call.fusion_kind = std::string("kCustom");
  call.name += ".copies";
  call.operands.clear();
  tuple.opcode = HloOpcode::kTuple;
  tuple.name = "results";
  tuple.shape.type = hlo::ElementType::kTuple;
  for (std::size_t i = 0; i < members.size(); ++i) {
    HloInstruction parameter;
    parameter.id = static_cast<InstructionId>(i);
    parameter.opcode = HloOpcode::kParameter;
    parameter.parameter_number = static_cast<std::int64_t>(i);
    parameter.name = "operand." + std::to_string(i);
    parameter.shape = entry_.at(members[i]).shape;
    call.operands.push_back(entry_.at(members[i]).operands[0]);
    tuple.operands.push_back(parameter.id);
    tuple.shape.elements.push_back(parameter.shape);
    inside.instructions.push_back(std::move(parameter));
  }
  inside.name = "computation." + call.name;
  call.shape = tuple.shape;
  inside.root = tuple.id = static_cast<InstructionId>(members.size());
  inside.instructions.push_back(std::move(tuple));
  call.called = {
      static_cast<hlo::ComputationId>(module_.computations.size() + new_computations_.size())};

  const InstructionId kernel = call.id;
  std::vector<InstructionId> elements;
  for (std::size_t i = 0; i < members.size(); ++i) {
    HloInstruction element;
    element.opcode = HloOpcode::kGetTupleElement;
    element.name = call.name + "." + std::to_string(i);
    element.shape = entry_.at(members[i]).shape;
    element.operands = {kernel};
    element.tuple_index = static_cast<std::int64_t>(i);
    elements.push_back(append(entry_, std::move(element)));
  }
  std::vector<InstructionId> before;
  for (const InstructionId member : members) {
    const HloInstruction& copy = entry_.at(member);
    if (!copy.control_predecessors.is_set()) continue;
    for (const InstructionId each : copy.control_predecessors.get()) {
      if (!contains(members, each)) before.push_back(each);
    }
  }
  const auto element_of = [&](InstructionId id) {
    const auto found = std::find(members.begin(), members.end(), id);
    return found == members.end() ? id
                                  : elements[static_cast<std::size_t>(found - members.begin())];
  };
  const auto kernel_of = [&](InstructionId id) { return contains(members, id) ? kernel : id; };
  for (HloInstruction& instruction : entry_.instructions) {
    if (contains(elements, instruction.id)) continue;
    for (InstructionId& operand : instruction.operands) operand = element_of(operand);
    if (!contains(members, instruction.id)) instruction.renumber_predecessors(kernel_of);
  }
  for (const InstructionId member : members) entry_.at(member).control_predecessors.reset();
  for (InstructionId& operand : call.operands) operand = element_of(operand);
  call.control_predecessors.reset();
  if (!before.empty()) call.control_predecessors.edit() = before;
  entry_.root = element_of(entry_.root);
  entry_.instructions[static_cast<std::size_t>(kernel)] = std::move(call);
  new_computations_.push_back(std::move(inside));
}

}  // namespace

void join_copies(hlo::Module& module, bool is_loop) {
  CopyJoiner(module).run(is_loop);
  make_names_unique(module);
}

}  // namespace tpu::compiler
