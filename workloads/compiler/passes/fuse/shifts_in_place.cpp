#include "workloads/compiler/passes/fuse/shifts_in_place.h"

#include <algorithm>
#include <iterator>
#include <map>
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
#include "workloads/compiler/passes/fuse/streamed_shifts.h"

namespace tpu::compiler {

using hlo::Computation;
using hlo::HloInstruction;
using hlo::HloOpcode;
using hlo::InstructionId;

namespace {

/// Arrays that a kernel reads behind this: registers for their addresses.
constexpr std::size_t kMostShiftedOperands = 12;
/// Loads of a place from elsewhere: each is code, and scalar arithmetic.
constexpr std::size_t kMostShifts = 48;
/// Two registers are loaded for one, from the places that fit.
constexpr double kShiftedLoadCycles = 4;

class ShiftReader {
 public:
  ShiftReader(hlo::Module& module, const Target& target)
      : module_(module),
        entry_(module.entry_computation()),
        target_(target),
        users_(users_of(entry_)) {}

  void run();

 private:
  using Moved = std::set<InstructionId>;

  const std::vector<InstructionId>& users(InstructionId id) const {
    return users_[static_cast<std::size_t>(id)];
  }
  const Computation& called(const HloInstruction& fusion) const {
    return module_.computation(fusion.called.at(0));
  }
  bool may_be_read(const HloInstruction& move) const;
  Moved taken_by(const HloInstruction& fusion, const Moved& moved) const;
  MemberBody body_of(InstructionId move) const;
  MemberBody body_with(const HloInstruction& fusion, const Moved& taken) const;
  bool fits(const HloInstruction& fusion, const MemberBody& body) const;
  bool pays(const HloInstruction& fusion, const Moved& taken, const MemberBody& body) const;
  double granule_cycles() const {
    return double{isa::kHbmGranuleBytes} / target_.hbm_bytes_per_cycle;
  }

  hlo::Module& module_;
  Computation& entry_;
  const Target& target_;
  std::vector<std::vector<InstructionId>> users_;
};

/// Whether all that reads a move are kernels that can take it in.
bool ShiftReader::may_be_read(const HloInstruction& move) const {
  if (move.control_predecessors.is_set() || move.id == entry_.root || users(move.id).empty()) {
    return false;
  }
  if (!moves_by_shifts(entry_, move)) return false;
  return std::all_of(users(move.id).begin(), users(move.id).end(), [&](InstructionId id) {
    const HloInstruction& user = entry_.at(id);
    if (user.opcode != HloOpcode::kFusion || user.fusion_kind.get() == "kCustom") return false;
    const auto place = std::find(user.operands.begin(), user.operands.end(), move.id);
    const auto parameter = static_cast<std::size_t>(place - user.operands.begin());
    return std::count(place, user.operands.end(), move.id) == 1 &&
           may_read_elsewhere(called(user), parameter, move.shape);
  });
}

ShiftReader::Moved ShiftReader::taken_by(const HloInstruction& fusion, const Moved& moved) const {
  Moved taken;
  for (InstructionId operand : fusion.operands) {
    if (moved.count(operand) != 0) taken.insert(operand);
  }
  return taken;
}

/// A concatenation reads the arrays that its operands are slices of.
MemberBody ShiftReader::body_of(InstructionId move) const {
  MemberBody body = body_of_move(entry_, entry_.at(move));
  if (entry_.at(move).opcode != HloOpcode::kConcatenate) return body;
  for (std::size_t i = 0; i < body.operands.size();) {
    const HloInstruction part = as_slice(entry_.at(body.operands[i]));
    const bool is_slice = part.opcode == HloOpcode::kSlice && moves_by_shifts(entry_, part);
    if (is_slice) body = inlined(body, i, body_of_move(entry_, part));
    i = is_slice ? 0 : i + 1;
  }
  return body;
}

MemberBody ShiftReader::body_with(const HloInstruction& fusion, const Moved& taken) const {
  MemberBody body{called(fusion), fusion.operands};
  for (InstructionId move : taken) {
    const auto place = std::find(body.operands.begin(), body.operands.end(), move);
    body = inlined(body, static_cast<std::size_t>(place - body.operands.begin()), body_of(move));
  }
  return body;
}

/// Whether the kernel can be a sequence by itself, whose results are elements of a tuple.
bool ShiftReader::fits(const HloInstruction& fusion, const MemberBody& body) const {
  if (fusion.id == entry_.root && fusion.shape.is_tuple()) return false;
  if (body.operands.size() > std::max(kMostShiftedOperands, fusion.operands.size())) return false;
  const std::size_t results = fusion.shape.is_tuple() ? fusion.shape.elements.size() : 1;
  if (body.operands.size() + results > kMostSequenceAddresses) return false;
  if (kept_granules(body.fused) > most_kept_granules(target_)) return false;
  std::size_t shifts = 0;
  for (const HloInstruction& each : body.fused.instructions) {
    if (each.opcode == HloOpcode::kConcatenate) shifts += each.operands.size();
    if (each.opcode == HloOpcode::kPad) ++shifts;
  }
  std::uint64_t brought = granules(fusion.shape);
  for (InstructionId operand : body.operands) brought += granules(entry_.at(operand).shape);
  return shifts <= kMostShifts && brought <= most_granules_in_vmem(target_);
}

/// How many registers of a moved array, and what a register takes that is loaded from elsewhere.
double shifted_cycles(const HloInstruction& move, const Computation& computation) {
  const auto lanes = static_cast<std::size_t>(move.shape.layout.minor_to_major.at(0));
  bool turns = false;
  if (move.opcode == HloOpcode::kConcatenate) {
    turns = static_cast<std::size_t>(move.dimensions[0]) == lanes;
  } else if (move.opcode == HloOpcode::kPad) {
    turns = move.padding[lanes].low % isa::kLanes != 0;
  } else {
    turns = move.slice->starts[lanes] % isa::kLanes != 0;
  }
  const double registers =
      double(granules(move.shape)) * isa::kHbmGranuleBytes / (isa::kVmemRowBytes * isa::kSublanes);
  std::set<InstructionId> arrays;
  for (InstructionId operand : move.operands) {
    const HloInstruction part = as_slice(computation.at(operand));
    if (part.shape.rank() > 0) {
      arrays.insert(part.opcode == HloOpcode::kSlice ? part.operands[0] : operand);
    }
  }
  return registers * double(arrays.size()) *
         (kShiftedLoadCycles + (turns ? 2 * kTurnedLanesCycles : 0));
}

/// What the moves' own kernels take and what is read of them, beside what loads from elsewhere do
/// and transfers that no longer hide behind the arithmetic.
bool ShiftReader::pays(const HloInstruction& fusion, const Moved& taken,
                       const MemberBody& body) const {
  double vector = 0, before = 0, after = 0;
  for (const HloInstruction& inner : called(fusion).instructions) {
    if (!hlo::is_elementwise(inner.opcode)) continue;
    vector += vector_cycles(inner.opcode) * double(granules(inner.shape)) *
              double{isa::kHbmGranuleBytes} / (isa::kVmemRowBytes * isa::kSublanes);
  }
  const auto transfers = [&](const std::vector<InstructionId>& operands) {
    std::uint64_t sum = granules(fusion.shape);
    for (InstructionId operand : operands) sum += granules(entry_.at(operand).shape);
    return double(sum) * granule_cycles();
  };
  for (InstructionId move : taken) {
    const double written = 2 * double(granules(entry_.at(move).shape)) * granule_cycles();
    before += (written + kKernelCycles) / double(users(move).size());
    after += shifted_cycles(entry_.at(move), entry_);
  }
  before += std::max(transfers(fusion.operands), vector);
  after += transfers(body.operands) + vector;
  return after < before;
}

void ShiftReader::run() {
  Moved moved;
  for (const HloInstruction& each : entry_.instructions) {
    if (may_be_read(each)) moved.insert(each.id);
  }
  std::map<InstructionId, MemberBody> bodies;
  for (bool is_stable = false; !is_stable;) {
    is_stable = true;
    bodies.clear();
    for (const HloInstruction& fusion : entry_.instructions) {
      if (fusion.opcode != HloOpcode::kFusion) continue;
      const Moved taken = taken_by(fusion, moved);
      if (taken.empty()) continue;
      MemberBody body = body_with(fusion, taken);
      if (fits(fusion, body) && pays(fusion, taken, body)) {
        bodies[fusion.id] = std::move(body);
        continue;
      }
      for (InstructionId move : taken) moved.erase(move);
      is_stable = false;
    }
  }
  if (bodies.empty()) return;
  std::vector<Computation> made;
  for (auto& [id, body] : bodies) {
    const std::size_t number = module_.computations.size() + made.size();
    made.push_back(make_fusion(entry_.at(id), std::move(body), number));
  }
  tidy(entry_);
  std::move(made.begin(), made.end(), std::back_inserter(module_.computations));
}

}  // namespace

void read_shifts_in_place(hlo::Module& module, const Target& target) {
  ShiftReader(module, target).run();
  read_streamed_shifts(module, target);
}

}  // namespace tpu::compiler
