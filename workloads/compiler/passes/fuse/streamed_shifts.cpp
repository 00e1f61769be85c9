#include "workloads/compiler/passes/fuse/streamed_shifts.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "isa/instruction.h"
#include "workloads/compiler/cost.h"
#include "workloads/compiler/ir/array_layout.h"
#include "workloads/compiler/ir/array_part.h"
#include "workloads/compiler/ir/kernel_forms.h"
#include "workloads/compiler/passes/edit.h"
#include "workloads/compiler/passes/fuse/kernel_sequences.h"
#include "workloads/compiler/passes/fuse/member_body.h"
#include "workloads/compiler/passes/fuse/slices_in_place.h"

namespace tpu::compiler {

using hlo::Computation;
using hlo::HloInstruction;
using hlo::HloOpcode;
using hlo::InstructionId;

namespace {

/// Addresses of a kernel: more than these leave few registers until they are in SMEM.
constexpr std::size_t kMostStreamedOperands = 12;
/// Operations and loads of a kernel: straight code of more has no registers for what is known.
constexpr std::size_t kMostStreamedInstructions = 400;

class StreamReader {
 public:
  StreamReader(hlo::Module& module, const Target& target)
      : module_(module),
        entry_(module.entry_computation()),
        target_(target),
        users_(users_of(entry_)) {}

  void run();

 private:
  /// What computes or moves a value, and what it is expected to take.
  struct Kernel {
    MemberBody body;
    double cycles = 0;
    bool is_changed = false;
  };
  using Kernels = std::map<InstructionId, Kernel>;

  const std::vector<InstructionId>& users(InstructionId id) const {
    return users_[static_cast<std::size_t>(id)];
  }
  MemberBody body_with_slices(const HloInstruction& move) const;
  std::optional<Kernel> kernel_of(const HloInstruction& instruction) const;
  std::optional<double> cycles_of(const MemberBody& body) const;
  bool is_large(const MemberBody& body) const;
  std::vector<InstructionId> values_of(InstructionId made) const;
  bool is_needed(InstructionId value) const;
  std::set<InstructionId> readers_of(InstructionId made) const;
  std::optional<MemberBody> with(const MemberBody& reader, InstructionId made) const;
  bool take_in(InstructionId made);
  void make_steps(InstructionId id, Kernel& kernel) const;

  hlo::Module& module_;
  Computation& entry_;
  const Target& target_;
  std::vector<std::vector<InstructionId>> users_;
  Kernels kernels_;
  std::set<InstructionId> taken_;  ///< That nothing writes.
};

std::optional<double> StreamReader::cycles_of(const MemberBody& body) const {
  return elementwise_cycles(module_, body.fused, body.operands.size(), target_);
}

/// A concatenation reads the arrays that its operands are slices of: a roll is one move.
MemberBody StreamReader::body_with_slices(const HloInstruction& move) const {
  MemberBody body = body_of_move(entry_, move);
  if (move.opcode != HloOpcode::kConcatenate) return body;
  for (std::size_t i = 0; i < body.operands.size();) {
    const HloInstruction part = as_slice(entry_.at(body.operands[i]));
    const bool is_slice = part.opcode == HloOpcode::kSlice && moves_by_shifts(entry_, part);
    if (is_slice) body = inlined(body, i, body_of_move(entry_, part));
    i = is_slice ? 0 : i + 1;
  }
  return body;
}

/// Elementwise kernels, and what moves elements; none for others.
std::optional<StreamReader::Kernel> StreamReader::kernel_of(
    const HloInstruction& instruction) const {
  if (instruction.control_predecessors.is_set()) return std::nullopt;
  Kernel kernel;
  if (instruction.opcode == HloOpcode::kFusion) {
    const std::string kind = instruction.fusion_kind.get();
    if (kind == "kCustom" || kind == "kOutput") return std::nullopt;
    kernel.body = {module_.computation(instruction.called.at(0)), instruction.operands};
    const std::optional<double> cycles = cycles_of(kernel.body);
    if (!cycles) return std::nullopt;
    kernel.cycles = *cycles;
    return kernel;
  }
  const HloInstruction move = as_slice(instruction);
  if (!moves_by_shifts(entry_, move) && !takes_steps(entry_, move)) return std::nullopt;
  kernel.body = body_with_slices(move);
  if (!is_named_part(instruction)) {
    kernel.cycles = kKernelCycles + 2 * double(granules(instruction.shape)) *
                                        isa::kHbmGranuleBytes /
                                        (target_.hbm_bytes_per_cycle * kMixedTrafficRate);
  }
  return kernel;
}

/// Whether VMEM has no room for all arrays of a kernel: others stand there whole, or are members of
/// sequences.
bool StreamReader::is_large(const MemberBody& body) const {
  std::uint64_t brought = 0;
  const std::set<InstructionId> operands(body.operands.begin(), body.operands.end());
  for (InstructionId operand : operands) brought += granules(entry_.at(operand).shape);
  const HloInstruction& root = body.fused.at(body.fused.root);
  return brought + granules(root.shape) > most_granules_in_vmem(target_);
}

/// The instruction, or the elements of its tuple.
std::vector<InstructionId> StreamReader::values_of(InstructionId made) const {
  return entry_.at(made).shape.is_tuple() ? users(made) : std::vector<InstructionId>{made};
}

/// Whether something that takes nothing in reads a value, or the step gives it.
bool StreamReader::is_needed(InstructionId value) const {
  return value == entry_.root ||
         std::any_of(users(value).begin(), users(value).end(),
                     [&](InstructionId user) { return kernels_.count(user) == 0; });
}

/// Those that read what a kernel makes; none where it is needed beside them.
std::set<InstructionId> StreamReader::readers_of(InstructionId made) const {
  std::set<InstructionId> readers;
  for (const InstructionId value : values_of(made)) {
    const bool is_element = value == made || entry_.at(value).opcode == HloOpcode::kGetTupleElement;
    if (!is_element || is_needed(value)) return {};
    for (const auto& [id, kernel] : kernels_) {
      const std::vector<InstructionId>& operands = kernel.body.operands;
      const bool reads = std::count(operands.begin(), operands.end(), value) != 0;
      if (reads && taken_.count(id) == 0) readers.insert(id);
    }
  }
  return readers;
}

/// The reader with what makes a value in the value's place.
std::optional<MemberBody> StreamReader::with(const MemberBody& reader, InstructionId made) const {
  MemberBody body = reader;
  for (const InstructionId value : values_of(made)) {
    MemberBody inner = kernels_.at(made).body;
    if (value != made) {
      const auto index = static_cast<std::size_t>(entry_.at(value).tuple_index);
      inner.fused.root = inner.fused.at(inner.fused.root).operands.at(index);
    }
    for (auto place = body.operands.begin(); place != body.operands.end();) {
      place = std::find(body.operands.begin(), body.operands.end(), value);
      if (place == body.operands.end()) break;
      const auto parameter = static_cast<std::size_t>(place - body.operands.begin());
      body = inlined(body, parameter, inner);
      place = body.operands.begin();
    }
  }
  if (body.fused.instructions.size() > kMostStreamedInstructions) return std::nullopt;
  if (body.operands.size() > std::max(kMostStreamedOperands, reader.operands.size()))
    return std::nullopt;
  return body;
}

/// Moves of moves are kernels that move boxes.
bool computes(const MemberBody& body) {
  return std::any_of(body.fused.instructions.begin(), body.fused.instructions.end(),
                     [](const HloInstruction& each) { return hlo::is_elementwise(each.opcode); });
}

/// Whether what reads a value has it in its own kernel from now on.
bool StreamReader::take_in(InstructionId made) {
  const std::set<InstructionId> readers = readers_of(made);
  if (readers.empty()) return false;
  double before = kernels_.at(made).cycles, after = 0;
  Kernels changed;
  for (const InstructionId reader : readers) {
    const Kernel& old = kernels_.at(reader);
    const auto body = with(old.body, made);
    if (!body || !is_large(*body) || !computes(*body)) return false;
    const std::optional<double> cycles = cycles_of(*body);
    if (!cycles) return false;
    before += old.cycles;
    after += *cycles;
    changed[reader] = {*body, *cycles, true};
  }
  if (after >= before) return false;
  for (auto& [id, kernel] : changed) kernels_[id] = std::move(kernel);
  taken_.insert(made);
  return true;
}

/// A slice with steps that stays by itself is an elementwise kernel, too, where that is faster than
/// one that moves boxes.
void StreamReader::make_steps(InstructionId id, Kernel& kernel) const {
  const HloInstruction& slice = entry_.at(id);
  if (kernel.is_changed || !takes_steps(entry_, slice) || moves_by_shifts(entry_, slice)) return;
  if (may_read_in_place(entry_, id) || !is_large(kernel.body)) return;
  const std::optional<double> cycles = cycles_of(kernel.body);
  kernel.is_changed = cycles.has_value();
}

void StreamReader::run() {
  const bool moves = std::any_of(
      entry_.instructions.begin(), entry_.instructions.end(), [&](const HloInstruction& each) {
        return (moves_by_shifts(entry_, each) || takes_steps(entry_, each)) &&
               granules(each.shape) > kMostMemberGranules / 4;
      });
  if (!moves) return;
  for (const HloInstruction& each : entry_.instructions) {
    if (auto kernel = kernel_of(each)) kernels_[each.id] = std::move(*kernel);
  }
  for (bool is_stable = false; !is_stable;) {
    is_stable = true;
    for (const HloInstruction& each : entry_.instructions) {
      if (kernels_.count(each.id) == 0 || taken_.count(each.id) != 0) continue;
      if (take_in(each.id)) is_stable = false;
    }
  }
  for (auto& [id, kernel] : kernels_) make_steps(id, kernel);
  std::vector<Computation> made;
  for (auto& [id, kernel] : kernels_) {
    if (!kernel.is_changed || taken_.count(id) != 0) continue;
    const std::size_t number = module_.computations.size() + made.size();
    made.push_back(make_fusion(entry_.at(id), std::move(kernel.body), number));
  }
  if (made.empty()) return;
  tidy(entry_);
  std::move(made.begin(), made.end(), std::back_inserter(module_.computations));
}

}  // namespace

void read_streamed_shifts(hlo::Module& module, const Target& target) {
  StreamReader(module, target).run();
}

}  // namespace tpu::compiler
