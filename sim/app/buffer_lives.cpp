#include "sim/app/buffer_lives.h"

#include <algorithm>
#include <map>

#include "workloads/compiler/passes/memory/storage.h"

namespace tpu::app {
namespace {

/// The storages of the entry. Observers are shown what only our compiler knows as calls
/// (`tpusim.while.region0`): what a loop carries lies where its operands lay, and so does a part of
/// an array; the branches of a conditional write elsewhere.
std::vector<compiler::Storage> storages_behind_calls(const hlo::Computation& entry) {
  const compiler::StorageMap map(entry);
  std::vector<compiler::Storage> storages = map.storages();
  for (auto call = entry.instructions.rbegin(); call != entry.instructions.rend(); ++call) {
    const std::string& target = call->custom_call_target.get();
    const auto is_a = [&](const char* kind) { return target.rfind(kind, 0) == 0; };
    if (!is_a("tpusim.") || is_a("tpusim.conditional")) continue;
    const std::vector<std::size_t>& results = map.of(call->id);
    for (std::size_t i = 0; i < call->operands.size(); ++i) {
      for (const std::size_t carried : map.of(call->operands[i])) {
        for (std::size_t leaf = 0; leaf < results.size(); ++leaf) {
          if (is_a("tpusim.while") && leaf != i) continue;
          hlo::InstructionId& last = storages[carried].last_use;
          last = std::max(last, storages[results[leaf]].last_use);
        }
      }
    }
  }
  return storages;
}

/// Ops between two that the entry computation has: those of a loop or branch.
struct Span {
  std::uint32_t first = 0, last = 0;
};

/// Ops by name. Those of a body may be called as some of the entry.
using Numbers = std::map<std::string, std::vector<std::uint32_t>>;

/// The only op of a name; null where there is none or another one.
const std::uint32_t* only(const Numbers& ops, const std::string& name) {
  const auto found = ops.find(name);
  return found != ops.end() && found->second.size() == 1 ? found->second.data() : nullptr;
}

/// The ops of each instruction, by its place. One whose name has no op, or several, has all that
/// may be its own between those of its neighbours.
std::vector<Span> spans_of(const std::vector<std::string>& names, const Numbers& ops,
                           std::uint32_t end) {
  std::vector<Span> spans(names.size());
  std::uint32_t next = 0;  // Behind the ops of the instructions before.
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::uint32_t* op = only(ops, names[i]);
    spans[i].first = op != nullptr ? *op : next;
    if (op != nullptr) next = *op + 1;
  }
  next = end;
  for (std::size_t i = names.size(); i-- > 0;) {
    const std::uint32_t* op = only(ops, names[i]);
    const std::uint32_t behind = op != nullptr ? *op + 1 : next;
    spans[i].last = behind > 0 ? behind - 1 : 0;
    spans[i].first = std::min(spans[i].first, spans[i].last);
    if (op != nullptr) next = *op;
  }
  return spans;
}

}  // namespace

compiler::PassObserver BufferLives::observer(const compiler::PassObserver& next) {
  return [this, next](const compiler::PassResult& result) {
    if (result.is_last()) read(result.module());
    if (next) next(result);
  };
}

void BufferLives::read(const hlo::Module& planned) {
  const hlo::Computation& entry = planned.entry_computation();
  names_.clear();
  lives_.clear();
  for (const hlo::HloInstruction& instruction : entry.instructions) {
    names_.push_back(instruction.name);
  }
  for (const compiler::Storage& storage : storages_behind_calls(entry)) {
    if (storage.kind != compiler::Storage::Kind::kResult) continue;
    const hlo::HloInstruction& definer = entry.at(storage.definer);
    Life life;
    life.buffer = definer.name;
    if (definer.shape.is_tuple()) life.buffer += "{" + std::to_string(storage.leaf) + "}";
    life.first = static_cast<std::size_t>(storage.definer);
    life.last = static_cast<std::size_t>(std::max(storage.definer, storage.last_use));
    lives_.push_back(std::move(life));
  }
}

std::vector<isa::Lifetime> BufferLives::of(const isa::Program& program) const {
  if (names_.empty() || program.ops.empty()) return {};
  const auto end = static_cast<std::uint32_t>(program.ops.size());
  Numbers ops;
  for (std::uint32_t op = 0; op < end; ++op) ops[program.ops[op].name].push_back(op);
  const std::vector<Span> spans = spans_of(names_, ops, end);
  std::vector<bool> is_of_entry(end, false);
  for (const std::string& name : names_) {
    if (const std::uint32_t* op = only(ops, name)) is_of_entry[*op] = true;
  }
  // What a body keeps for itself: the ops around its maker that are not the entry's.
  const auto life_in_body = [&](std::uint32_t maker) {
    isa::Lifetime life{maker, maker};
    while (life.first_op > 0 && !is_of_entry[life.first_op - 1]) --life.first_op;
    while (life.last_op + 1 < end && !is_of_entry[life.last_op + 1]) ++life.last_op;
    return life;
  };
  std::vector<isa::Lifetime> result;
  auto next = lives_.begin();  // The plan has the entry's buffers first, in the order of lives_.
  for (const isa::Buffer& buffer : program.buffers) {
    isa::Lifetime life{0, end - 1};
    const auto is_of = [&](const Life& each) { return each.buffer == buffer.name; };
    if (buffer.role == isa::BufferRole::kTemporary) {
      const auto known = std::find_if(next, lives_.end(), is_of);
      const auto maker = ops.find(buffer.name.substr(0, buffer.name.find('{')));
      if (known != lives_.end()) {
        next = known + 1;
        life = {spans[known->first].first, spans[known->last].last};
      } else if (maker != ops.end()) {
        life = life_in_body(maker->second.back());
      }
    } else if (buffer.role == isa::BufferRole::kOutput) {
      const auto known = std::find_if(lives_.begin(), lives_.end(), is_of);
      if (known != lives_.end()) life.first_op = spans[known->first].first;
    }
    result.push_back(life);
  }
  return result;
}

}  // namespace tpu::app
