#include "workloads/xla/scheduled_lifetimes.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

namespace tpu::xla {
namespace {

/// An instruction by its place in the module.
struct Place {
  hlo::ComputationId computation = -1;
  hlo::InstructionId id = -1;
};

constexpr std::int64_t kWhole = -1;

/// Who reads what in the entry and in the loops and branches below it.
class Readers {
 public:
  Readers(const hlo::Module& module, const std::vector<isa::OpInfo>& ops) : module_(module) {
    std::map<std::string, int> times;
    for (const isa::OpInfo& op : ops) ++times[op.name];
    for (std::uint32_t op = 0; op < ops.size(); ++op) {
      if (times[ops[op].name] == 1) numbers_.emplace(ops[op].name, op);
    }
    end_ = static_cast<std::uint32_t>(std::max<std::size_t>(1, ops.size()) - 1);
    enter(module.entry, {});
  }

  /// From the op that makes an instruction's result, or one leaf of it, to the last that reads it.
  std::optional<isa::Lifetime> life_of(const std::string& name, std::int64_t leaf) {
    const auto place = places_.find(name);
    const auto maker = numbers_.find(name);
    if (place == places_.end() || maker == numbers_.end()) return std::nullopt;
    life_ = {maker->second, maker->second};
    seen_.clear();
    read(place->second, leaf);
    return life_;
  }

 private:
  struct Body {
    std::vector<std::vector<hlo::InstructionId>> users;
    std::optional<isa::Lifetime> ops;  ///< First and last op in it and below it.
    Place caller;                      ///< Nothing of the entry.
  };

  static bool is_control(hlo::HloOpcode opcode) {
    return opcode == hlo::HloOpcode::kWhile || opcode == hlo::HloOpcode::kConditional ||
           opcode == hlo::HloOpcode::kCall;
  }

  void enter(hlo::ComputationId id, Place caller) {
    const hlo::Computation& computation = module_.computation(id);
    Body body;
    body.caller = caller;
    body.users.resize(computation.instructions.size());
    const auto cover = [&](const isa::Lifetime& ops) {
      if (!body.ops) body.ops = ops;
      body.ops->first_op = std::min(body.ops->first_op, ops.first_op);
      body.ops->last_op = std::max(body.ops->last_op, ops.last_op);
    };
    for (const hlo::HloInstruction& instruction : computation.instructions) {
      places_[instruction.name] = {id, instruction.id};
      for (const hlo::InstructionId operand : instruction.operands) {
        body.users[static_cast<std::size_t>(operand)].push_back(instruction.id);
      }
      const auto number = numbers_.find(instruction.name);
      if (number != numbers_.end()) cover({number->second, number->second});
      if (!is_control(instruction.opcode)) continue;
      for (const hlo::ComputationId called : instruction.called) {
        if (bodies_.count(called) == 0) enter(called, {id, instruction.id});
        if (bodies_.at(called).ops) cover(*bodies_.at(called).ops);
      }
    }
    bodies_[id] = std::move(body);
  }

  void read_at(std::uint32_t op) { life_.last_op = std::max(life_.last_op, op); }

  void read_by(Place user, hlo::InstructionId value, std::int64_t leaf) {
    const hlo::HloInstruction& reader = module_.computation(user.computation).at(user.id);
    switch (reader.opcode) {
      case hlo::HloOpcode::kTuple:
        for (std::size_t i = 0; i < reader.operands.size(); ++i) {
          if (reader.operands[i] == value) read(user, static_cast<std::int64_t>(i));
        }
        return;
      case hlo::HloOpcode::kGetTupleElement:
        if (leaf == kWhole || leaf == reader.tuple_index) read(user, kWhole);
        return;
      default:
        break;
    }
    if (is_control(reader.opcode)) {
      for (const hlo::ComputationId called : reader.called) {
        if (bodies_.at(called).ops) read_at(bodies_.at(called).ops->last_op);
      }
      // What a loop carries lies where it lay before.
      if (reader.opcode == hlo::HloOpcode::kWhile) read(user, leaf);
      return;
    }
    const auto number = numbers_.find(reader.name);
    if (number != numbers_.end()) {
      read_at(number->second);
    } else {
      read(user, kWhole);
    }
  }

  void read(Place value, std::int64_t leaf) {
    if (!seen_.emplace(value.computation, value.id, leaf).second) return;
    const Body& body = bodies_.at(value.computation);
    for (const hlo::InstructionId user : body.users[static_cast<std::size_t>(value.id)]) {
      read_by({value.computation, user}, value.id, leaf);
    }
    if (module_.computation(value.computation).root != value.id) return;
    if (value.computation == module_.entry) {
      read_at(end_);
      return;
    }
    // It goes from one trip to the next, and out of the loop.
    if (body.ops) {
      life_.first_op = std::min(life_.first_op, body.ops->first_op);
      read_at(body.ops->last_op);
    }
    read(body.caller, leaf);
  }

  const hlo::Module& module_;
  std::map<std::string, std::uint32_t> numbers_;  ///< Of ops whose name no other has.
  std::map<std::string, Place> places_;
  std::map<hlo::ComputationId, Body> bodies_;
  std::uint32_t end_ = 0;
  isa::Lifetime life_;  ///< Of what is followed.
  std::set<std::tuple<hlo::ComputationId, hlo::InstructionId, std::int64_t>> seen_;
};

}  // namespace

std::vector<isa::Lifetime> scheduled_lifetimes(const hlo::Module& scheduled,
                                               const std::vector<isa::OpInfo>& ops,
                                               const std::vector<isa::Buffer>& buffers,
                                               std::vector<isa::Lifetime> until_overwritten) {
  Readers readers(scheduled, ops);
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const std::string& name = buffers[i].name;
    const std::size_t at = name.find("@{");
    if (buffers[i].role != isa::BufferRole::kTemporary || at == std::string::npos) continue;
    const bool is_leaf = at + 2 < name.size() && name[at + 2] != '}';
    const std::int64_t leaf = is_leaf ? std::strtoll(name.c_str() + at + 2, nullptr, 10) : kWhole;
    const auto life = readers.life_of(name.substr(0, at), leaf);
    if (!life) continue;
    isa::Lifetime& mine = until_overwritten[i];
    mine.first_op = std::min(mine.first_op, life->first_op);
    // The op that makes another in its place may read it, too.
    mine.last_op = std::max(mine.first_op, std::min(mine.last_op + 1, life->last_op));
  }
  return until_overwritten;
}

}  // namespace tpu::xla
