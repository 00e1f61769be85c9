#include "models/core/schedule_causes.h"

#include <algorithm>
#include <array>

#include "isa/opcode_table.h"

namespace tpu {
namespace {

using Cause = ScheduleCause;
constexpr std::size_t kSlots = static_cast<std::size_t>(isa::Slot::kCount);
constexpr std::uint16_t kUnforcedCost = 1000;

/// How little a cycle of a hold explains, by cause: taken ports explain most.
constexpr std::array<std::uint16_t, kScheduleCauses> kCosts = [] {
  std::array<std::uint16_t, kScheduleCauses> costs{};
  for (std::size_t c = 0; c < costs.size(); ++c) {
    const auto cause = static_cast<Cause>(c);
    if (cause <= Cause::kEup) continue;
    costs[c] = cause <= Cause::kOtherSlot ? 1 : cause == Cause::kUnforced ? kUnforcedCost : 2;
  }
  return costs;
}();
std::uint64_t cost_of(Cause cause) { return kCosts[static_cast<std::size_t>(cause)]; }

Cause cause_of_slot(isa::Slot slot) {
  switch (slot) {
    case isa::Slot::kScalar:
      return Cause::kScalar;
    case isa::Slot::kVectorAlu:
      return Cause::kVectorAlu;
    case isa::Slot::kVectorLoad:
      return Cause::kLoad;
    case isa::Slot::kVectorStore:
      return Cause::kStore;
    default:
      return Cause::kOtherSlot;
  }
}

constexpr std::uint32_t places(isa::Slot slot) {
  return slot == isa::Slot::kScalar || slot == isa::Slot::kVectorAlu ? 2 : 1;
}

/// Added to counts of slots, this sets the top bit of a byte where all its places are taken.
constexpr SlotCounts kAllTaken = [] {
  SlotCounts all = 0;
  for (std::size_t s = 0; s < kSlots; ++s) {
    all |= SlotCounts{0x80 - places(static_cast<isa::Slot>(s))} << (8 * s);
  }
  return all;
}();

Cause cause_of_result(const isa::OpcodeInfo& row) {
  switch (row.queue) {
    case isa::Queue::kMxuResult:
      return Cause::kMxuResult;
    case isa::Queue::kXlu:
    case isa::Queue::kTranspose:
      return Cause::kXluResult;
    case isa::Queue::kEup:
      return Cause::kEupResult;
    case isa::Queue::kVectorToScalar:
      return Cause::kScalarResult;
    case isa::Queue::kCmem:
      return Cause::kLoadResult;
    default:
      break;
  }
  if (row.unit == isa::UnitKind::kVectorLoad) return Cause::kLoadResult;
  return row.unit == isa::UnitKind::kVectorAlu ? Cause::kVectorResult : Cause::kScalarResult;
}

/// The port whose results they are.
Cause port_of_result(Cause cause) {
  if (cause == Cause::kMxuResult) return Cause::kMxuPush;
  return cause == Cause::kXluResult ? Cause::kXlu : Cause::kEup;
}

/// A bundle of a piece of code, or its end: who holds it.
struct Node {
  std::uint64_t time = 0;
  std::uint64_t cost = 0;
  std::uint32_t holder = 0;
  Cause cause = Cause::kUnforced;
};

/// What the analysis asks of an instruction.
struct OpcodeCauses {
  bool writes = false;
  std::uint8_t first_timed = 0;  ///< timed_register of its destination's file.
  std::uint32_t latency = 0;     ///< To the first reader of its destination.
  Cause result = Cause::kUnforced;
};

/// By opcode.
const std::array<OpcodeCauses, isa::kOpcodeCount> kOpcodeCauses = [] {
  std::array<OpcodeCauses, isa::kOpcodeCount> all;
  for (std::size_t o = 0; o < all.size(); ++o) {
    const isa::OpcodeInfo& row = isa::info(static_cast<isa::Opcode>(o));
    all[o] = {row.dest_file != 0, timed_register::number(row.dest_file, 0),
              row.pops ? 1 : isa::result_latency(row.opcode), cause_of_result(row)};
  }
  return all;
}();

/// Some of many numbered places, visited in their order.
class Places {
 public:
  explicit Places(std::size_t count) : words_((count + kBits - 1) / kBits) {}
  void add(std::size_t place) { words_[place / kBits] |= std::uint64_t{1} << (place % kBits); }
  void clear() { std::fill(words_.begin(), words_.end(), 0); }
  template <class Visit>
  void for_each(const Visit& visit) const {
    for (std::size_t w = 0; w < words_.size(); ++w) {
      for (std::uint64_t bits = words_[w]; bits != 0; bits &= bits - 1) {
        visit(w * kBits + static_cast<std::size_t>(__builtin_ctzll(bits)));
      }
    }
  }

 private:
  static constexpr std::size_t kBits = 64;
  std::vector<std::uint64_t> words_;
};

/// Follows a piece of code, bundle by bundle, and remembers what may hold a later one.
class Piece {
 public:
  Piece(const isa::Kernel& kernel, const DecodedKernel& code, const CoreParams& params)
      : kernel_(kernel),
        code_(code),
        params_(params),
        parts_(std::max(params.mxu.row_parts(), params.mxu.column_parts())),
        queues_(kPopKinds * kMostUnits * parts_),
        ports_(kKinds * kMostUnits * parts_),
        written_(writers_.size()),
        pushed_(queues_.size()),
        used_(ports_.size()) {}

  /// Forgets the last piece.
  void begin();
  void add(std::uint32_t bundle);
  /// The end of the code, as a node.
  void close();
  const std::vector<Node>& nodes() const { return nodes_; }

 private:
  static constexpr std::size_t kKinds = static_cast<std::size_t>(QueueOp::Kind::kCmemPush) + 1;
  static constexpr std::size_t kPopKinds = static_cast<std::size_t>(QueueOp::Kind::kScalarPop) + 1;
  static constexpr std::size_t kMostUnits = isa::kMaxUnits;

  /// What makes a later bundle wait. One that is ready in cycle 0 holds nothing: there is none.
  struct Result {
    std::uint64_t ready = 0;
    std::uint32_t node = 0;
    Cause cause = Cause::kUnforced;
  };
  struct ResultList {
    std::vector<Result> results;
    std::size_t first = 0;  ///< The oldest that was not popped.
  };
  using Port = std::size_t;
  /// The number of a port, by kind, unit and part.
  Port port(QueueOp::Kind kind, std::size_t unit = 0, std::size_t part = 0) const {
    return (static_cast<std::size_t>(kind) * kMostUnits + unit) * parts_ + part;
  }

  /// A node that, so far, the one before it holds, for no reason.
  void append_node() {
    const auto number = static_cast<std::uint32_t>(nodes_.size());
    const Node first{now_, 0, 0, Cause::kUnforced};
    if (number == 0) return nodes_.push_back(first);
    const Node& before = nodes_.back();
    const std::uint64_t cost = before.cost + kUnforcedCost * (now_ - before.time);
    nodes_.push_back({now_, cost, number - 1, Cause::kUnforced});
  }
  void hold(std::uint32_t holder, Cause cause);
  void hold_if_due(const Result& result) {
    if (result.ready == nodes_.back().time) hold(result.node, result.cause);
  }
  void hold_by_registers(const DecodedBundle& bundle);
  void write_register(std::size_t reg, const Result& result);
  SlotCounts take_instructions(std::uint32_t bundle);
  void hold_by_slots(SlotCounts mine);
  void use_queue(const QueueOp& op);
  void use_port(Port port, std::uint32_t interval, Cause cause);
  void push(Port queue, std::uint32_t latency, Cause cause, std::uint32_t count = 1);
  void pop(Port queue);
  bool interacts(std::uint32_t bundle) const {
    return code_.bundles[bundle].first_interaction != code_.bundles[bundle + 1].first_interaction;
  }

  const isa::Kernel& kernel_;
  const DecodedKernel& code_;
  const CoreParams& params_;
  std::vector<Node> nodes_;
  std::uint32_t last_bundle_ = 0;  ///< Of the newest node.
  SlotCounts slots_ = 0;           ///< Taken by it.
  std::uint64_t now_ = 0;
  std::array<Result, timed_register::kCount> writers_{};
  /// Registers whose writer is ready in a cycle, a bit each, by its last digits: most bundles read
  /// several and are held by none.
  struct Due {
    std::array<std::uint64_t, 2> registers{};
  };
  static constexpr std::uint64_t kCycles = 256;
  std::array<Due, kCycles> due_{};
  std::size_t parts_;
  std::vector<ResultList> queues_;
  std::vector<Result> ports_;
  // Most pieces are short: those of the above that the piece has changed.
  Places written_, pushed_, used_;
};

void Piece::begin() {
  nodes_.clear();
  now_ = 0;
  written_.for_each([&](std::size_t reg) { write_register(reg, {}); });
  pushed_.for_each([&](std::size_t queue) {
    queues_[queue].results.clear();
    queues_[queue].first = 0;
  });
  used_.for_each([&](std::size_t port) { ports_[port] = {}; });
  for (Places* places : {&written_, &pushed_, &used_}) places->clear();
}

/// The newest node is held, exactly as long as it stands, by an earlier one.
void Piece::hold(std::uint32_t holder, Cause cause) {
  Node& node = nodes_.back();
  const std::uint64_t cost =
      nodes_[holder].cost + cost_of(cause) * (node.time - nodes_[holder].time);
  if (cost > node.cost || (cost == node.cost && cause >= node.cause)) return;
  node.cost = cost;
  node.holder = holder;
  node.cause = cause;
}

void Piece::add(std::uint32_t bundle) {
  const DecodedBundle& decoded = code_.bundles[bundle];
  const auto number = static_cast<std::uint32_t>(nodes_.size());
  append_node();
  if (number > 0) hold_by_registers(decoded);
  const SlotCounts slots = take_instructions(bundle);
  if (number > 0) {
    const std::uint32_t before = last_bundle_;
    if (nodes_[number - 1].time + 1 == now_) {
      hold_by_slots(slots);
      if (interacts(before) || interacts(bundle)) hold(number - 1, Cause::kContact);
      if (code_.bundles[before].branch_target != DecodedBundle::kNone) {
        hold(number - 1, Cause::kBranch);
      }
    }
  }
  for (std::uint32_t q = decoded.first_queue_op; q < code_.bundles[bundle + 1].first_queue_op;
       ++q) {
    use_queue(code_.queue_ops[q]);
  }
  last_bundle_ = bundle;
  slots_ = slots;
  now_ += 1 + decoded.delay;
}

void Piece::close() {
  const auto last = static_cast<std::uint32_t>(nodes_.size() - 1);
  append_node();
  written_.for_each([&](std::size_t reg) { hold_if_due(writers_[reg]); });
  pushed_.for_each([&](std::size_t number) {
    const ResultList& queue = queues_[number];
    for (std::size_t i = queue.first; i < queue.results.size(); ++i) hold_if_due(queue.results[i]);
  });
  used_.for_each([&](std::size_t port) { hold_if_due(ports_[port]); });
  if (nodes_[last].time + 1 != now_) return;
  // A bundle takes its own cycle, for what stands in it.
  for (std::size_t slot = 0; slot < kSlots; ++slot) {
    const auto each = static_cast<isa::Slot>(slot);
    if (count_of(slots_, each) > 0) hold(last, cause_of_slot(each));
  }
}

void Piece::hold_by_registers(const DecodedBundle& bundle) {
  const Due& due = due_[now_ % kCycles];
  const std::array<std::uint64_t, 2> read = {bundle.reads[0] | std::uint64_t{bundle.reads[1]} << 32,
                                             bundle.reads[2]};
  for (std::size_t word = 0; word < read.size(); ++word) {
    for (std::uint64_t bits = read[word] & due.registers[word]; bits != 0; bits &= bits - 1) {
      hold_if_due(writers_[word * 64 + static_cast<std::size_t>(__builtin_ctzll(bits))]);
    }
  }
}

void Piece::write_register(std::size_t reg, const Result& result) {
  const std::uint64_t bit = std::uint64_t{1} << reg % 64;
  due_[writers_[reg].ready % kCycles].registers[reg / 64] &= ~bit;
  due_[result.ready % kCycles].registers[reg / 64] |= bit;
  writers_[reg] = result;
}

/// What the instructions of the newest node write, and their slots.
SlotCounts Piece::take_instructions(std::uint32_t bundle) {
  const auto node = static_cast<std::uint32_t>(nodes_.size() - 1);
  const isa::Bundle& source = kernel_.bundles[bundle];
  const BriefInstruction* const end = code_.brief.end(source);
  SlotCounts used = 0;
  for (const BriefInstruction* i = code_.brief.begin(source); i != end; ++i) {
    used += kSlotCounts[i->opcode];
    const OpcodeCauses& row = kOpcodeCauses[i->opcode];
    if (!row.writes) continue;
    const std::size_t reg = row.first_timed + std::size_t{i->dest};
    write_register(reg, {now_ + row.latency, node, row.result});
    written_.add(reg);
  }
  return used;
}

/// By slots that were all taken in the cycle before.
void Piece::hold_by_slots(SlotCounts mine) {
  const auto before = static_cast<std::uint32_t>(nodes_.size() - 2);
  SlotCounts held = (mine + kAnySlotTaken) & (slots_ + kAllTaken) & kTopOfSlots;
  for (; held != 0; held &= held - 1) {
    hold(before, cause_of_slot(static_cast<isa::Slot>(__builtin_ctzll(held) / 8)));
  }
}

void Piece::use_port(Port port, std::uint32_t interval, Cause cause) {
  Result& last = ports_[port];
  hold_if_due(last);
  last = {nodes_.back().time + interval, static_cast<std::uint32_t>(nodes_.size() - 1), cause};
  used_.add(port);
}

void Piece::push(Port queue, std::uint32_t latency, Cause cause, std::uint32_t count) {
  const auto node = static_cast<std::uint32_t>(nodes_.size() - 1);
  const Result result{nodes_.back().time + latency, node, cause};
  queues_[queue].results.insert(queues_[queue].results.end(), count, result);
  pushed_.add(queue);
}

/// The oldest result; one that is not ready yet is not the one that is popped: that was pushed
/// before the piece began.
void Piece::pop(Port queue) {
  ResultList& list = queues_[queue];
  if (list.first == list.results.size()) return;
  const Result& oldest = list.results[list.first];
  if (oldest.ready > nodes_.back().time) return;
  hold_if_due(oldest);
  ++list.first;
}

void Piece::use_queue(const QueueOp& op) {
  using Kind = QueueOp::Kind;
  constexpr std::uint32_t kRows = MxuParams::push_interval_cycles;
  const auto swap = [&] { return port(Kind::kMxuSwap, op.unit); };
  const auto xlu = [&] { return port(Kind::kXluPush, op.unit); };
  switch (op.kind) {
    case Kind::kMxuRows:
      hold_if_due(ports_[swap()]);
      use_port(port(Kind::kMxuRows, op.unit), op.packed ? 2 * kRows : kRows, Cause::kMxuPush);
      for (std::uint8_t part = 0; part < op.results; ++part) {
        push(port(Kind::kMxuPop, op.unit, part), params_.mxu.latency_cycles(part),
             Cause::kMxuResult);
      }
      return;
    case Kind::kMxuLatch:
      return use_port(port(Kind::kMxuLatch, op.unit, op.part), kRows, Cause::kMxuPush);
    case Kind::kMxuWeights:
      use_port(port(Kind::kMxuWeights, op.unit, op.part), kRows, Cause::kWeights);
      ports_[swap()] = ports_[port(Kind::kMxuWeights, op.unit, op.part)];
      --ports_[swap()].ready;
      used_.add(swap());
      return;
    case Kind::kMxuPop:
      use_port(port(Kind::kMxuPop, op.unit, op.part), kRows, Cause::kMxuPush);
      return pop(port(Kind::kMxuPop, op.unit, op.part));
    case Kind::kXluPush:
      use_port(xlu(), params_.xlu_interval_cycles, Cause::kXlu);
      return push(port(Kind::kXluPop, op.unit), params_.xlu_latency_cycles, Cause::kXluResult);
    case Kind::kTransposePush:
      use_port(xlu(), params_.xlu_interval_cycles, Cause::kXlu);
      return push(port(Kind::kTransposePop, op.unit), isa::Latencies().transpose_cycles,
                  Cause::kXluResult, op.results);
    case Kind::kTransposePop:
      use_port(port(Kind::kTransposePop, op.unit), params_.xlu_interval_cycles, Cause::kXlu);
      return pop(port(Kind::kTransposePop, op.unit));
    case Kind::kEupPush:
      use_port(port(Kind::kEupPush), 1, Cause::kEup);
      return push(port(Kind::kEupPop), params_.eup_latency_cycles, Cause::kEupResult);
    case Kind::kCmemPush:
      use_port(port(Kind::kCmemPush), params_.cmem.load_interval_cycles, Cause::kLoad);
      return push(port(Kind::kCmemPop), params_.cmem.load_latency_cycles, Cause::kLoadResult);
    case Kind::kScalarPush:
      return push(port(Kind::kScalarPop), isa::result_latency(isa::Opcode::kVpush),
                  Cause::kScalarResult);
    case Kind::kXluPop:
      return pop(port(Kind::kXluPop, op.unit));
    case Kind::kEupPop:
    case Kind::kCmemPop:
    case Kind::kScalarPop:
      return pop(port(op.kind));
    case Kind::kMxuSwap:
      return;
  }
}

/// A stretch of cycles of a piece.
struct Stretch {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  Cause cause = Cause::kUnforced;
};

/// The holds from the begin of the code to its end, in place of what is in `result`. Results that
/// are awaited before the first, or behind the last, stretch in which the port of their unit is
/// taken fill and drain it.
void find_chain(const std::vector<Node>& nodes, std::vector<Stretch>& result) {
  result.clear();
  for (auto node = static_cast<std::uint32_t>(nodes.size() - 1); node > 0;
       node = nodes[node].holder) {
    result.push_back({nodes[nodes[node].holder].time, nodes[node].time, nodes[node].cause});
  }
  std::reverse(result.begin(), result.end());
  for (const Cause awaited : {Cause::kMxuResult, Cause::kXluResult, Cause::kEupResult}) {
    const auto is_port = [&](const Stretch& each) { return each.cause == port_of_result(awaited); };
    const auto first = std::find_if(result.begin(), result.end(), is_port);
    if (first == result.end()) continue;
    const auto behind = std::find_if(result.rbegin(), result.rend(), is_port).base();
    const auto mark = [&](Stretch& each) {
      if (each.cause == awaited) each.cause = Cause::kFillAndDrain;
    };
    std::for_each(result.begin(), first, mark);
    std::for_each(behind, result.end(), mark);
  }
}

/// Where pieces begin: at targets of branches, behind delay slots and behind calls.
std::vector<bool> begins(const DecodedKernel& code) {
  const std::size_t count = code.bundles.size() - 1;
  std::vector<bool> result(count + 2, false);
  result[0] = result[count] = true;
  for (std::size_t b = 0; b < count; ++b) {
    const DecodedBundle& bundle = code.bundles[b];
    if (bundle.call_site != DecodedBundle::kNone) result[b + 1] = true;
    if (bundle.branch_target == DecodedBundle::kNone) continue;
    result[bundle.branch_target] = true;
    result[std::min(b + 2, count)] = true;
  }
  return result;
}

}  // namespace

ScheduleCauses::ScheduleCauses(const isa::Kernel& kernel, const DecodedKernel& code,
                               const CoreParams& params) {
  const std::vector<bool> is_begin = begins(code);
  const auto count = static_cast<std::uint32_t>(code.bundles.size() - 1);
  first_.reserve(count + 1);
  charges_.reserve(count + count / 2);  // Most bundles have one.
  Piece piece(kernel, code, params);
  std::vector<Stretch> stretches;
  for (std::uint32_t first = 0, end = 0; first < count; first = end) {
    for (end = first + 1; !is_begin[end]; ++end) {
    }
    const bool repeats = end - first >= 2 && code.bundles[end - 2].branch_target == first;
    piece.begin();
    for (int trip = repeats ? 0 : 2; trip < 3; ++trip) {
      for (std::uint32_t b = first; b < end; ++b) piece.add(b);
    }
    piece.close();
    const std::vector<Node>& nodes = piece.nodes();
    find_chain(nodes, stretches);
    std::size_t node = repeats ? end - first : 0;
    auto stretch = stretches.begin();
    for (std::uint32_t b = first; b < end; ++b, ++node) {
      first_.push_back(static_cast<std::uint32_t>(charges_.size()));
      for (std::uint64_t at = nodes[node].time; at < nodes[node + 1].time;) {
        while (stretch->end <= at) ++stretch;
        const std::uint64_t until = std::min(stretch->end, nodes[node + 1].time);
        charges_.push_back({stretch->cause, static_cast<std::uint32_t>(until - at)});
        at = until;
      }
    }
  }
  first_.push_back(static_cast<std::uint32_t>(charges_.size()));
}

}  // namespace tpu
