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
        most_brought_(std::min(kMostMemberGranules, most_granules_in_vmem(target))),
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
  bool is_written_in_place(const HloInstruction& move) const;
  MemberBody body_with_slices(const HloInstruction& move) const;
  std::optional<Kernel> kernel_of(const HloInstruction& instruction) const;
  std::optional<double> cycles_of(const MemberBody& body) const;
  bool is_large(const MemberBody& body) const;
  std::vector<InstructionId> values_of(InstructionId made) const;
  bool is_needed(InstructionId value) const;
  std::set<InstructionId> readers_of(InstructionId made) const;
  std::optional<MemberBody> with(const MemberBody& reader, InstructionId made) const;
  bool reads_elsewhere(const MemberBody& reader, InstructionId made) const;
  void leave_unread();
  bool take_in(const std::vector<InstructionId>& group);
  std::vector<std::vector<InstructionId>> moves_by_array() const;
  void make_steps(InstructionId id, Kernel& kernel) const;

  hlo::Module& module_;
  Computation& entry_;
  const Target& target_;
  std::uint64_t most_brought_;  ///< Granules of the arrays of a member of a sequence.
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

/// Whether the kernel that makes all parts of a concatenation writes them where they stand: nobody
/// else reads them.
bool StreamReader::is_written_in_place(const HloInstruction& move) const {
  if (parts_of_concatenation(entry_, move).empty()) return false;
  std::set<InstructionId> makers, parts;
  for (const InstructionId operand : move.operands) {
    const HloInstruction& part = entry_.at(operand);
    if (part.opcode != HloOpcode::kGetTupleElement || users(operand).size() != 1) return false;
    makers.insert(part.operands[0]);
    if (!parts.insert(operand).second) return false;
  }
  return makers.size() == 1;
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
  if (is_written_in_place(move)) return std::nullopt;
  kernel.body = body_with_slices(move);
  if (!is_named_part(instruction)) {
    // Slices with steps read what they leave out.
    const std::uint64_t made = granules(instruction.shape);
    const std::uint64_t read =
        moves_by_shifts(entry_, move) ? made : granules(entry_.at(move.operands[0]).shape);
    kernel.cycles = kKernelCycles + double(made + read) * isa::kHbmGranuleBytes /
                                        (target_.hbm_bytes_per_cycle * kMixedTrafficRate);
  }
  return kernel;
}

/// Whether the arrays of a kernel are too large for a sequence, where they would stand in VMEM
/// whole.
bool StreamReader::is_large(const MemberBody& body) const {
  std::uint64_t brought = 0;
  const std::set<InstructionId> operands(body.operands.begin(), body.operands.end());
  for (InstructionId operand : operands) brought += granules(entry_.at(operand).shape);
  const HloInstruction& root = body.fused.at(body.fused.root);
  return brought + granules(root.shape) > most_brought_;
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

/// Whether it is elementwise, without sums.
bool computes_elements(const MemberBody& body) {
  return computes(body) &&
         std::none_of(body.fused.instructions.begin(), body.fused.instructions.end(),
                      [](const HloInstruction& each) { return each.opcode == HloOpcode::kReduce; });
}

bool moves(const HloInstruction& instruction) {
  return instruction.opcode == HloOpcode::kSlice || instruction.opcode == HloOpcode::kPad ||
         instruction.opcode == HloOpcode::kConcatenate;
}

/// Whether a reader moves what another kernel makes: of other values the fusion of kernels has
/// decided.
bool StreamReader::reads_elsewhere(const MemberBody& reader, InstructionId made) const {
  const std::vector<InstructionId> values = values_of(made);
  const std::vector<InstructionId> parameters = reader.fused.parameters();
  for (const HloInstruction& move : reader.fused.instructions) {
    if (!moves(move)) continue;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const bool reads = std::count(move.operands.begin(), move.operands.end(), parameters[i]) != 0;
      if (reads && std::count(values.begin(), values.end(), reader.operands[i]) != 0) return true;
    }
  }
  return false;
}

/// Whether what reads some values has them in its own kernel from now on.
bool StreamReader::take_in(const std::vector<InstructionId>& group) {
  std::set<InstructionId> readers;
  double before = 0, after = 0;
  for (const InstructionId made : group) {
    const std::set<InstructionId> some = readers_of(made);
    if (some.empty()) return false;
    readers.insert(some.begin(), some.end());
    before += kernels_.at(made).cycles;
  }
  Kernels changed;
  bool is_moved = false;
  for (const InstructionId reader : readers) {
    const Kernel& old = kernels_.at(reader);
    for (const InstructionId made : group) {
      const bool is_fusion = entry_.at(made).opcode == HloOpcode::kFusion;
      if (is_fusion && !computes_elements(kernels_.at(made).body)) return false;
      is_moved |= !is_fusion || reads_elsewhere(old.body, made);
    }
    std::optional<MemberBody> body = old.body;
    for (const InstructionId made : group) {
      if (body) body = with(*body, made);
    }
    if (!body || !is_large(*body) || !computes(*body)) return false;
    const std::optional<double> cycles = cycles_of(*body);
    if (!cycles) return false;
    before += old.cycles;
    after += *cycles;
    changed[reader] = {*body, *cycles, true};
  }
  if (!is_moved || after >= before) return false;
  for (auto& [id, kernel] : changed) kernels_[id] = std::move(kernel);
  taken_.insert(group.begin(), group.end());
  return true;
}

/// Nothing writes what nobody reads any more: slices of which a concatenation reads the array.
void StreamReader::leave_unread() {
  for (const auto& [id, kernel] : kernels_) {
    const std::vector<InstructionId> values = values_of(id);
    const bool is_read = std::any_of(values.begin(), values.end(), [&](InstructionId value) {
      return is_needed(value) || users(value).empty();
    });
    if (!is_read && readers_of(id).empty()) taken_.insert(id);
  }
}

/// Moves of one array that is still to be read: taken in together they share its way to VMEM.
std::vector<std::vector<InstructionId>> StreamReader::moves_by_array() const {
  std::map<InstructionId, std::vector<InstructionId>> moves;
  for (const auto& [id, kernel] : kernels_) {
    const bool is_move = entry_.at(id).opcode != HloOpcode::kFusion;
    if (!is_move || kernel.body.operands.size() != 1 || taken_.count(id) != 0) continue;
    if (!readers_of(id).empty()) moves[kernel.body.operands[0]].push_back(id);
  }
  std::vector<std::vector<InstructionId>> groups;
  for (auto& [array, of_array] : moves) {
    if (of_array.size() > 1) groups.push_back(std::move(of_array));
  }
  return groups;
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
        if (!moves_by_shifts(entry_, each) && !takes_steps(entry_, each)) return false;
        const std::uint64_t read = granules(entry_.at(each.operands[0]).shape);
        return 2 * (read + granules(each.shape)) > most_brought_;
      });
  if (!moves) return;
  for (const HloInstruction& each : entry_.instructions) {
    if (auto kernel = kernel_of(each)) kernels_[each.id] = std::move(*kernel);
  }
  for (bool is_stable = false; !is_stable;) {
    is_stable = true;
    leave_unread();
    for (const std::vector<InstructionId>& group : moves_by_array()) {
      if (take_in(group)) is_stable = false;
    }
    for (const HloInstruction& each : entry_.instructions) {
      if (kernels_.count(each.id) == 0 || taken_.count(each.id) != 0) continue;
      if (take_in({each.id})) is_stable = false;
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
