#include "workloads/compiler/passes/fuse/fusion_writer.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "workloads/compiler/ir/array_layout.h"
#include "workloads/compiler/passes/edit.h"
#include "workloads/compiler/passes/expand/widen.h"

namespace tpu::compiler {

using hlo::Computation;
using hlo::HloInstruction;
using hlo::HloOpcode;
using hlo::InstructionId;

namespace {

class FusionWriter {
 public:
  explicit FusionWriter(hlo::Module& module)
      : module_(module), entry_(module.entry_computation()) {}

  void run(const std::vector<FusionDraft>& drafts);

 private:
  const HloInstruction& at(InstructionId id) const { return entry_.at(id); }
  std::uint64_t bytes(InstructionId id) const { return granules(stored_shape(at(id).shape)); }
  const HloInstruction& most_expensive(const FusionDraft& draft) const;
  hlo::ComputationId build_computation(const FusionDraft& draft, const std::string& name);
  void build_fusion(const FusionDraft& draft, std::size_t number);
  void place(const FusionDraft& draft, HloInstruction fusion);

  hlo::Module& module_;
  Computation& entry_;
  std::vector<Computation> computations_;
  std::vector<std::pair<const FusionDraft*, HloInstruction>> pending_;
  std::map<InstructionId, InstructionId> renamed_;  ///< Results that stand in another place.
};

/// The instruction whose name a user knows the kernel by.
const HloInstruction& FusionWriter::most_expensive(const FusionDraft& draft) const {
  if (draft.product >= 0) return at(draft.product);
  const HloInstruction* best = &at(draft.roots[0]);
  for (InstructionId id : draft.inside) {
    const bool is_named = !at(id).metadata.op_name->empty();
    if (is_named && (best->metadata.op_name->empty() || bytes(id) > bytes(best->id))) {
      best = &at(id);
    }
  }
  return *best;
}

hlo::ComputationId FusionWriter::build_computation(const FusionDraft& draft,
                                                   const std::string& name) {
  Computation body;
  body.name = "fused_computation." + name;
  std::map<InstructionId, InstructionId> inner;
  for (InstructionId leaf : draft.leaves) {
    HloInstruction parameter;
    parameter.opcode = HloOpcode::kParameter;
    parameter.parameter_number = static_cast<std::int64_t>(inner.size());
    parameter.name = "param_" + std::to_string(parameter.parameter_number) + "." + name;
    parameter.shape = at(leaf).shape;
    inner[leaf] = append(body, std::move(parameter));
  }
  for (InstructionId id : draft.inside) {
    HloInstruction copy = at(id);
    for (InstructionId& operand : copy.operands) operand = inner.at(operand);
    copy.control_predecessors.reset();
    inner[id] = append(body, std::move(copy));
  }
  if (draft.roots.size() == 1) {
    body.root = inner.at(draft.roots[0]);
  } else {
    HloInstruction tuple;
    tuple.opcode = HloOpcode::kTuple;
    tuple.name = "tuple." + name;
    tuple.shape.type = hlo::ElementType::kTuple;
    for (InstructionId root : draft.roots) {
      tuple.operands.push_back(inner.at(root));
      tuple.shape.elements.push_back(at(root).shape);
    }
    body.root = append(body, std::move(tuple));
  }
  computations_.push_back(std::move(body));
  return static_cast<hlo::ComputationId>(module_.computations.size() + computations_.size() - 1);
}

void FusionWriter::build_fusion(const FusionDraft& draft, std::size_t number) {
  const std::string name = "fusion." + std::to_string(number);
  HloInstruction fusion;
  fusion.name = name;
  fusion.opcode = HloOpcode::kFusion;
  fusion.fusion_kind = std::string(draft.product >= 0   ? "kOutput"
                                   : draft.is_reduction ? "kInput"
                                                        : "kLoop");
  fusion.operands = draft.leaves;
  fusion.metadata = most_expensive(draft).metadata;
  fusion.called = {build_computation(draft, name)};
  fusion.shape = computations_.back().at(computations_.back().root).shape;
  pending_.push_back({&draft, std::move(fusion)});
}

/// The fusion of one result takes the place of its root; of several, the roots become
/// get-tuple-elements of a new instruction. One around a product stands where the product stood:
/// its operands need not live until its results are read.
void FusionWriter::place(const FusionDraft& draft, HloInstruction fusion) {
  const std::vector<InstructionId>& roots = draft.roots;
  const bool is_product_free =
      draft.product >= 0 && std::count(roots.begin(), roots.end(), draft.product) == 0;
  if (roots.size() == 1) {
    fusion.id = is_product_free ? draft.product : roots[0];
    if (is_product_free) renamed_[roots[0]] = draft.product;
    entry_.at(fusion.id) = std::move(fusion);
    return;
  }
  const std::string name = fusion.name;
  InstructionId tuple = draft.product;
  if (is_product_free) {
    fusion.id = tuple;
    entry_.at(tuple) = std::move(fusion);
  } else {
    tuple = append(entry_, std::move(fusion));
  }
  for (std::size_t i = 0; i < roots.size(); ++i) {
    HloInstruction part;
    part.id = roots[i];
    part.opcode = HloOpcode::kGetTupleElement;
    part.name = name + "." + std::to_string(i);
    part.tuple_index = static_cast<std::int64_t>(i);
    part.operands = {tuple};
    part.shape = entry_.at(roots[i]).shape;
    part.metadata = entry_.at(roots[i]).metadata;
    entry_.at(roots[i]) = std::move(part);
  }
}

void FusionWriter::run(const std::vector<FusionDraft>& drafts) {
  std::vector<const FusionDraft*> order;
  for (const FusionDraft& draft : drafts) {
    if (draft.is_fusion && !draft.is_merged_away) order.push_back(&draft);
  }
  std::stable_sort(order.begin(), order.end(), [](const FusionDraft* a, const FusionDraft* b) {
    return a->roots[0] < b->roots[0];
  });
  for (std::size_t i = 0; i < order.size(); ++i) build_fusion(*order[i], i);
  for (auto& [draft, fusion] : pending_) place(*draft, std::move(fusion));
  const auto rename = [this](InstructionId& id) {
    const auto found = renamed_.find(id);
    if (found != renamed_.end()) id = found->second;
  };
  for (HloInstruction& instruction : entry_.instructions) {
    std::for_each(instruction.operands.begin(), instruction.operands.end(), rename);
  }
  rename(entry_.root);
  tidy(entry_);
  for (Computation& computation : computations_) {
    module_.computations.push_back(std::move(computation));
  }
  remove_unused_computations(module_);
}

}  // namespace

void write_fusions(hlo::Module& module, const std::vector<FusionDraft>& drafts) {
  FusionWriter(module).run(drafts);
}

}  // namespace tpu::compiler
