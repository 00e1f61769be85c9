#include "workloads/compiler/passes/copy_steps.h"

#include <algorithm>
#include <map>
#include <string>

#include "sim/base/error.h"
#include "workloads/compiler/kernels/expression_graph.h"
#include "workloads/compiler/kernels/lowering.h"
#include "workloads/compiler/passes/edit.h"
#include "workloads/compiler/passes/layouts.h"

namespace tpu::compiler {

using hlo::HloInstruction;
using hlo::HloOpcode;
using hlo::InstructionId;

namespace {

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
  bool has_kernel(const HloInstruction& copy);

  hlo::Module& module_;
  hlo::Computation& entry_;
  const Target& target_;
  std::map<std::string, bool> known_;
};

bool CopySteps::has_kernel(const HloInstruction& copy) {
  const std::string key =
      to_string(entry_.at(copy.operands[0]).shape) + " " + to_string(copy.shape);
  const auto [entry, is_new] = known_.emplace(key, true);
  if (!is_new) return entry->second;
  try {
    lower_relayout(module_, entry_, copy, target_);
  } catch (const WorkloadError&) {
    entry->second = false;
  }
  return entry->second;
}

void CopySteps::visit(InstructionId id) {
  const HloInstruction& copy = entry_.at(id);
  if (copy.opcode != HloOpcode::kCopy || copy.shape.is_tuple() || copy.shape.rank() < 3) return;
  const hlo::Shape source = entry_.at(copy.operands[0]).shape;
  const std::vector<std::int64_t> from = major_to_minor(source);
  std::vector<std::int64_t> between = major_to_minor(copy.shape);
  // Smaller ones always fit.
  const auto bytes =
      static_cast<std::uint64_t>(std::max(source.padded_bytes(), copy.shape.padded_bytes()));
  if (from == between || bytes < target_.vmem_bytes / 8 || has_kernel(copy)) return;
  between.erase(std::find(between.begin(), between.end(), from.back()));
  between.push_back(from.back());
  HloInstruction first = copy;
  first.name += ".step";
  first.shape.layout = tiled_layout(copy.shape.type, {between.rbegin(), between.rend()});
  const InstructionId step = append(entry_, std::move(first));
  entry_.at(id).operands[0] = step;
}

}  // namespace

void split_large_copies(hlo::Module& module, const Target& target) {
  CopySteps(module, target).run();
}

}  // namespace tpu::compiler
