#include "isa/schedule_survey.h"

#include <algorithm>
#include <sstream>

namespace tpu::isa {
namespace {

/// No result is longer on its way.
constexpr std::uint64_t kLongestLatency = 160;

std::size_t register_number(char file, std::uint8_t reg) {
  switch (file) {
    case 's':
      return reg;
    case 'v':
      return std::size_t{kScalarRegisters} + reg;
    case 'p':
      return std::size_t{kScalarRegisters} + kVectorRegisters + reg;
    default:
      return std::size_t{kScalarRegisters} + kVectorRegisters + kPredicateRegisters + reg;
  }
}

bool is_register_file(char file) {
  return file == 's' || file == 'v' || file == 'p' || file == 'm';
}

/// Calls visit(file, register) for each register that an instruction reads.
template <class Visit>
void for_each_read(const Instruction& in, const Visit& visit) {
  const OpcodeInfo& row = info(in.opcode);
  if (in.guard.predicate != kNoRegister) visit('p', in.guard.predicate);
  for (std::uint8_t o = 0; o < row.operand_count; ++o) {
    if (in.operands[o].kind == Operand::Kind::kRegister && is_register_file(row.operand_files[o])) {
      visit(row.operand_files[o], in.operands[o].reg);
    }
  }
  if (row.address == 0) return;
  for (const std::uint8_t base : in.address.base) {
    if (base != kNoRegister) visit('s', base);
  }
  if (in.address.mask_register != kNoRegister) visit('s', in.address.mask_register);
}

/// How many results a push will deliver.
std::uint32_t results_of(const Instruction& in) {
  if (info(in.opcode).queue != Queue::kTranspose) return 1;
  if (in.operands[2].immediate != in.operands[3].immediate) return 0;
  return in.operands[1].immediate / (takes_packed_rows(in.opcode) ? 2 * kSublanes : kSublanes);
}

}  // namespace

const char* to_string(DistanceKind kind) {
  switch (kind) {
    case DistanceKind::kRegister:
      return "register";
    case DistanceKind::kQueue:
      return "queue";
    case DistanceKind::kInterval:
      return "interval";
  }
  return "?";
}

void ScheduleSurvey::add(const Kernel& kernel, const std::string& where) {
  where_ = &where;
  bundles_ += kernel.bundles.size();
  walk(kernel, 0, {}, ~std::uint64_t{0}, true);
}

std::vector<Distance> ScheduleSurvey::distances() const {
  std::vector<Distance> all;
  for (const auto& [key, distance] : distances_) all.push_back(distance);
  return all;
}

/// From bundle `first` on, up to a cycle or a branch that is always taken. `all`: goes on behind
/// that, knowing nothing, and follows each branch.
void ScheduleSurvey::walk(const Kernel& kernel, std::uint32_t first, Walk state,
                          std::uint64_t until, bool all) {
  const auto count = static_cast<std::uint32_t>(kernel.bundles.size());
  const Instruction* branch = nullptr;  ///< In the bundle before.
  for (std::uint32_t b = first; b < count && state.now < until; ++b) {
    bundle_ = b;
    const Instruction* taken = branch;
    branch = nullptr;
    for (const Instruction* in = kernel.begin(kernel.bundles[b]);
         in != kernel.end(kernel.bundles[b]); ++in) {
      if (in->opcode == Opcode::kSbrRel) branch = in;
    }
    issue(kernel, b, state);
    if (taken == nullptr) continue;
    if (all) {
      walk(kernel, taken->operands[0].immediate, state, state.now + kLongestLatency, false);
    }
    if (taken->guard.predicate != kNoRegister) continue;
    if (!all) return;
    const std::uint64_t now = state.now;
    state = {};
    state.now = now;
  }
}

void ScheduleSurvey::issue(const Kernel& kernel, std::uint32_t bundle, Walk& state) {
  const Bundle& code = kernel.bundles[bundle];
  const std::uint32_t end = code.first_instruction + code.instruction_count;
  for (std::uint32_t i = code.first_instruction; i < end; ++i) read(kernel, i, state);
  // Pops take what was there before the bundle.
  for (const bool pops : {true, false}) {
    for (std::uint32_t i = code.first_instruction; i < end; ++i) {
      const OpcodeInfo& row = info(kernel.instructions[i].opcode);
      if (row.queue != Queue::kNone && row.pops == pops) use_queue(kernel, i, state);
    }
  }
  for (std::uint32_t i = code.first_instruction; i < end; ++i) {
    const Instruction& in = kernel.instructions[i];
    keep_interval(in, state);
    const OpcodeInfo& row = info(in.opcode);
    if (row.dest_file == 0) continue;
    Event& writer = state.writers[register_number(row.dest_file, in.dest)];
    writer.cycle = state.now;
    writer.opcode = in.opcode;
  }
  state.now += 1 + code.delay;
}

void ScheduleSurvey::read(const Kernel& kernel, std::uint32_t instruction, const Walk& state) {
  const Instruction& in = kernel.instructions[instruction];
  for_each_read(in, [&](char file, std::uint8_t reg) {
    const Event& writer = state.writers[register_number(file, reg)];
    if (writer.opcode == Opcode::kCount) return;
    note(DistanceKind::kRegister, writer, in.opcode, result_latency(writer.opcode, latencies_),
         state.now);
  });
}

void ScheduleSurvey::use_queue(const Kernel& kernel, std::uint32_t instruction, Walk& state) {
  const Instruction& in = kernel.instructions[instruction];
  const OpcodeInfo& row = info(in.opcode);
  auto& queue = state.queues[static_cast<std::size_t>(row.queue) * kMaxUnits + in.unit];
  const VirtualNames* names = kernel.names.empty() ? nullptr : &kernel.names[instruction];
  if (!row.pops) {
    queue.push_back(
        {state.now, in.opcode, names != nullptr ? names->dest : 0, results_of(in), false});
    if (queue.back().results == 0) queue.pop_back();
    return;
  }
  const std::uint32_t wanted = names != nullptr ? names->operands.at(row.operand_count) : 0;
  const auto named = std::find_if(queue.begin(), queue.end(),
                                  [&](const Event& push) { return push.name == wanted; });
  if (wanted != 0 && named == queue.end()) return;  // Pushed where this walk did not come by.
  if (wanted != 0) queue.erase(queue.begin(), named);
  if (queue.empty()) return;
  Event& push = queue.front();
  // Only the first result of a transpose waits for the unit.
  if (!push.popped) {
    note(DistanceKind::kQueue, push, in.opcode, result_latency(push.opcode, latencies_), state.now);
  }
  push.popped = true;
  if (--push.results == 0) queue.pop_front();
}

void ScheduleSurvey::keep_interval(const Instruction& in, Walk& state) {
  const std::uint32_t interval = issue_interval(in.opcode, latencies_);
  if (interval <= 1) return;
  const OpcodeInfo& row = info(in.opcode);
  // Weights and rows enter an MXU by doors of their own.
  const bool rows = row.queue != Queue::kNone;
  Event& last = state.last[{row.slot, row.unit, rows, in.unit}];
  if (last.opcode != Opcode::kCount) {
    note(DistanceKind::kInterval, last, in.opcode, interval, state.now);
  }
  last.cycle = state.now;
  last.opcode = in.opcode;
}

void ScheduleSurvey::note(DistanceKind kind, const Event& first, Opcode second, std::uint32_t table,
                          std::uint64_t now) {
  const auto cycles = static_cast<std::uint32_t>(std::min<std::uint64_t>(now - first.cycle, ~0U));
  Distance& distance = distances_[{kind, first.opcode, second}];
  if (distance.all++ == 0) {
    distance.kind = kind;
    distance.first = first.opcode;
    distance.second = second;
    distance.table = table;
    distance.smallest = ~0U;
  }
  if (cycles < distance.smallest) {
    distance.smallest = cycles;
    distance.at_smallest = 0;
    std::ostringstream place;
    place << *where_ << ", bundle 0x" << std::hex << bundle_;
    distance.where = place.str();
  }
  if (cycles == distance.smallest) ++distance.at_smallest;
}

}  // namespace tpu::isa
