#include "workloads/graph/while_loop_analysis.h"

#include <cstring>
#include <deque>

namespace tpu::hlo {

namespace {

/// Loops that run longer than this without an end in sight have no derived trip count.
constexpr std::uint64_t kMostTrips = std::uint64_t{1} << 24;
/// Calls within calls that are followed; a verified module has no recursion.
constexpr int kMostCalls = 64;

/// A computation as one of its callers sees it; without a caller its parameters are unknown.
struct Frame {
  const Module* module = nullptr;
  const Computation* computation = nullptr;
  const Frame* caller = nullptr;
  const HloInstruction* call = nullptr;
  int depth = 0;
};

/// An instruction within a frame and the element of its tuple that is meant (outermost index last).
struct Value {
  const Frame* frame = nullptr;
  InstructionId id = -1;
  std::vector<std::int64_t> path;

  const HloInstruction& instruction() const { return frame->computation->at(id); }
};

std::int64_t leaf_count(const Shape& shape) {
  if (!shape.is_tuple()) return 1;
  std::int64_t count = 0;
  for (const Shape& element : shape.elements) count += leaf_count(element);
  return count;
}

/// Where array `leaf` of a shape stands, outermost index last.
std::vector<std::int64_t> path_to(const Shape& shape, std::int64_t leaf) {
  const Shape* at = &shape;
  std::vector<std::int64_t> path;
  while (at->is_tuple()) {
    std::size_t element = 0;
    while (leaf >= leaf_count(at->elements[element])) leaf -= leaf_count(at->elements[element++]);
    path.insert(path.begin(), static_cast<std::int64_t>(element));
    at = &at->elements[element];
  }
  return path;
}

/// The inverse of path_to; -1 when the path ends at a tuple.
std::int64_t leaf_at(const Shape& shape, std::vector<std::int64_t> path) {
  const Shape* at = &shape;
  std::int64_t leaf = 0;
  while (at->is_tuple()) {
    if (path.empty()) return -1;
    const auto index = static_cast<std::size_t>(path.back());
    path.pop_back();
    for (std::size_t i = 0; i < index; ++i) leaf += leaf_count(at->elements[i]);
    at = &at->elements[index];
  }
  return path.empty() ? leaf : -1;
}

std::optional<std::int64_t> integer_of(const HloInstruction& constant) {
  if (constant.opcode != HloOpcode::kConstant || constant.shape.is_tuple() ||
      constant.shape.rank() != 0) {
    return std::nullopt;
  }
  const auto read = [&](auto number) -> std::optional<std::int64_t> {
    if (constant.literal.size() != sizeof number) return std::nullopt;
    std::memcpy(&number, constant.literal.data(), sizeof number);
    return static_cast<std::int64_t>(number);
  };
  switch (constant.shape.type) {
    case ElementType::kS32:
      return read(std::int32_t{});
    case ElementType::kU32:
      return read(std::uint32_t{});
    case ElementType::kPred:
      return read(std::uint8_t{});
    default:
      return std::nullopt;
  }
}

class CounterSearch {
 public:
  explicit CounterSearch(const LoopCode& code)
      : code_(code),
        body_(frame(code.body_module, code.body)),
        condition_(frame(code.condition_module, code.condition)),
        parent_(frame(code.parent_module, code.parent)) {}

  std::optional<LoopCounter> run();

 private:
  /// A side of the comparison: a number, or an array of the state that iterations change.
  struct Side {
    std::optional<std::int64_t> number;
    std::int64_t leaf = -1;
  };

  const Frame* frame(const Module& module, const Computation& computation) {
    frames_.push_back({&module, &computation, nullptr, nullptr, 0});
    return &frames_.back();
  }
  Value origin(Value value);
  bool step(Value& value);
  bool enter(Value& value);
  std::int64_t state_of(const Value& value) const;
  Value next_of(std::int64_t leaf);
  std::optional<std::int64_t> first_of(std::int64_t leaf);
  std::optional<std::int64_t> number_of(const Value& value);
  Side side(const Value& value);
  Value operand(const Value& value, std::size_t which) {
    return origin({value.frame, value.instruction().operands.at(which), {}});
  }
  std::optional<std::int64_t> step_of(std::int64_t leaf);

  const LoopCode& code_;
  std::deque<Frame> frames_;
  const Frame* body_;
  const Frame* condition_;
  const Frame* parent_;
};

/// Into what a call or fusion computes.
bool CounterSearch::enter(Value& value) {
  const HloInstruction& call = value.instruction();
  if (call.called.size() != 1 || value.frame->depth >= kMostCalls) return false;
  const Computation& called = value.frame->module->computation(call.called[0]);
  frames_.push_back({value.frame->module, &called, value.frame, &call, value.frame->depth + 1});
  value.frame = &frames_.back();
  value.id = called.root;
  return true;
}

/// One instruction back where the value only passes through; false where it is made.
bool CounterSearch::step(Value& value) {
  const HloInstruction& instruction = value.instruction();
  switch (instruction.opcode) {
    case HloOpcode::kGetTupleElement:
      value.path.push_back(instruction.tuple_index);
      break;
    case HloOpcode::kTuple:
      if (value.path.empty()) return false;
      value.id = instruction.operands.at(static_cast<std::size_t>(value.path.back()));
      value.path.pop_back();
      return true;
    case HloOpcode::kCopy:
    case HloOpcode::kOptimizationBarrier:
      break;
    case HloOpcode::kBitcast:
    case HloOpcode::kReshape:
    case HloOpcode::kBroadcast: {
      const Shape& from = value.frame->computation->at(instruction.operands.at(0)).shape;
      if (from.is_tuple() || from.type != instruction.shape.type || from.element_count() != 1 ||
          instruction.shape.element_count() != 1) {
        return false;
      }
      break;
    }
    case HloOpcode::kCall:
    case HloOpcode::kFusion:
      return enter(value);
    case HloOpcode::kParameter:
      if (value.frame->call == nullptr) return false;
      value.id =
          value.frame->call->operands.at(static_cast<std::size_t>(instruction.parameter_number));
      value.frame = value.frame->caller;
      return true;
    default:
      return false;
  }
  value.id = instruction.operands.at(0);
  return true;
}

Value CounterSearch::origin(Value value) {
  while (step(value)) {
  }
  return value;
}

/// Which array of the loop's state a parameter of its body or condition is; -1 for other values.
std::int64_t CounterSearch::state_of(const Value& value) const {
  if (value.instruction().opcode != HloOpcode::kParameter || value.frame == parent_) return -1;
  std::int64_t leaf = 0;
  for (const InstructionId id : value.frame->computation->parameters()) {
    const Shape& shape = value.frame->computation->at(id).shape;
    if (id != value.id) {
      leaf += leaf_count(shape);
      continue;
    }
    const std::int64_t within = leaf_at(shape, value.path);
    return within < 0 ? -1 : leaf + within;
  }
  return -1;
}

Value CounterSearch::next_of(std::int64_t leaf) {
  const Computation& code = *body_->computation;
  return origin({body_, code.root, path_to(code.at(code.root).shape, leaf)});
}

std::optional<std::int64_t> CounterSearch::first_of(std::int64_t leaf) {
  for (const InstructionId id : code_.initial) {
    const Shape& shape = code_.parent.at(id).shape;
    if (leaf >= leaf_count(shape)) {
      leaf -= leaf_count(shape);
      continue;
    }
    const Value value = origin({parent_, id, path_to(shape, leaf)});
    return value.path.empty() ? integer_of(value.instruction()) : std::nullopt;
  }
  return std::nullopt;
}

/// A constant, or state that is one at the beginning and that no iteration changes.
std::optional<std::int64_t> CounterSearch::number_of(const Value& value) {
  if (value.path.empty()) {
    if (const auto number = integer_of(value.instruction())) return number;
  }
  const std::int64_t leaf = state_of(value);
  if (leaf < 0 || state_of(next_of(leaf)) != leaf) return std::nullopt;
  return first_of(leaf);
}

CounterSearch::Side CounterSearch::side(const Value& value) {
  Side found;
  found.number = number_of(value);
  if (!found.number) found.leaf = state_of(value);
  return found;
}

/// What the body adds to an array of the state.
std::optional<std::int64_t> CounterSearch::step_of(std::int64_t leaf) {
  const Value next = next_of(leaf);
  const HloOpcode opcode = next.instruction().opcode;
  if (!next.path.empty() || (opcode != HloOpcode::kAdd && opcode != HloOpcode::kSubtract)) {
    return std::nullopt;
  }
  const Value left = operand(next, 0), right = operand(next, 1);
  if (state_of(left) == leaf) {
    const std::optional<std::int64_t> amount = number_of(right);
    return amount && opcode == HloOpcode::kSubtract ? -*amount : amount;
  }
  if (opcode == HloOpcode::kAdd && state_of(right) == leaf) return number_of(left);
  return std::nullopt;
}

bool holds(ComparisonDirection direction, std::int64_t left, std::int64_t right) {
  switch (direction) {
    case ComparisonDirection::kEq:
      return left == right;
    case ComparisonDirection::kNe:
      return left != right;
    case ComparisonDirection::kLt:
      return left < right;
    case ComparisonDirection::kLe:
      return left <= right;
    case ComparisonDirection::kGt:
      return left > right;
    case ComparisonDirection::kGe:
      return left >= right;
  }
  return false;
}

/// Counts the iterations as the machine would, in 32 bits.
std::optional<LoopCounter> CounterSearch::run() {
  const Computation& test = *condition_->computation;
  const Value again = origin({condition_, test.root, path_to(test.at(test.root).shape, 0)});
  if (const auto constant = number_of(again)) {
    return *constant == 0 ? std::optional<LoopCounter>(LoopCounter{}) : std::nullopt;
  }
  const HloInstruction& compare = again.instruction();
  if (compare.opcode != HloOpcode::kCompare || !again.path.empty()) return std::nullopt;
  const Side left = side(operand(again, 0)), right = side(operand(again, 1));
  const bool is_left = left.leaf >= 0;
  const std::int64_t leaf = is_left ? left.leaf : right.leaf;
  const std::optional<std::int64_t>& limit = is_left ? right.number : left.number;
  if (leaf < 0 || !limit) return std::nullopt;
  const std::optional<std::int64_t> first = first_of(leaf), step = step_of(leaf);
  if (!first || !step) return std::nullopt;
  const InstructionId compared = compare.operands.at(is_left ? 0 : 1);
  const bool is_signed = again.frame->computation->at(compared).shape.type == ElementType::kS32;
  std::int64_t value = *first;
  for (std::uint64_t trips = 0; trips < kMostTrips; ++trips) {
    if (!holds(compare.direction, is_left ? value : *limit, is_left ? *limit : value)) {
      return LoopCounter{leaf, *first, *step, trips};
    }
    const auto wrapped = static_cast<std::uint32_t>(value + *step);
    value = is_signed ? static_cast<std::int64_t>(static_cast<std::int32_t>(wrapped))
                      : static_cast<std::int64_t>(wrapped);
  }
  return std::nullopt;
}

/// What backend_config states.
std::optional<std::uint64_t> stated_trip_count(const HloInstruction& loop) {
  const std::string& text = loop.raw_attributes;
  const std::size_t at = text.find("known_trip_count");
  if (at == std::string::npos) return std::nullopt;
  const std::size_t digits = text.find_first_of("0123456789", at);
  std::uint64_t count = 0;
  for (std::size_t i = digits; i < text.size() && text[i] >= '0' && text[i] <= '9'; ++i) {
    constexpr std::uint64_t kMost = std::uint64_t{1} << 62;
    count = count > kMost / 10 ? kMost : count * 10 + static_cast<std::uint64_t>(text[i] - '0');
  }
  return count;
}

}  // namespace

std::optional<LoopCounter> loop_counter(const LoopCode& code) { return CounterSearch(code).run(); }

std::optional<std::uint64_t> trip_count(const Module& module, const Computation& computation,
                                        const HloInstruction& loop) {
  if (const auto stated = stated_trip_count(loop)) return stated;
  if (loop.called.size() != 2) return std::nullopt;
  const std::optional<LoopCounter> counter =
      loop_counter({module, module.computation(loop.called[0]), module,
                    module.computation(loop.called[1]), module, computation, loop.operands});
  if (!counter) return std::nullopt;
  return counter->trips;
}

std::vector<std::string> data_dependent_control(const Module& module) {
  std::vector<std::string> names;
  for (const Computation& computation : module.computations) {
    for (const HloInstruction& instruction : computation.instructions) {
      const bool is_unknown_loop =
          instruction.opcode == HloOpcode::kWhile && !trip_count(module, computation, instruction);
      if (is_unknown_loop || instruction.opcode == HloOpcode::kConditional) {
        names.push_back(instruction.name);
      }
    }
  }
  return names;
}

}  // namespace tpu::hlo
