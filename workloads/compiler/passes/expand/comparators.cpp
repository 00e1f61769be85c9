#include "workloads/compiler/passes/expand/comparators.h"

#include <algorithm>
#include <string>

namespace tpu::compiler {

using hlo::ComparisonDirection;
using hlo::Computation;
using hlo::HloInstruction;
using hlo::HloOpcode;
using hlo::InstructionId;

namespace {

/// Whether two values are computed alike, `b` of the elements of the side that `turn` says: 0 the
/// same, 1 the other one.
bool are_alike(const Computation& body, InstructionId a, InstructionId b, std::int64_t turn) {
  const HloInstruction &left = body.at(a), &right = body.at(b);
  if (left.opcode != right.opcode || left.shape.type != right.shape.type) return false;
  if (left.opcode == HloOpcode::kParameter) {
    return left.parameter_number == (right.parameter_number ^ turn);
  }
  const bool is_same = left.direction == right.direction && left.literal == right.literal &&
                       left.raw_attributes == right.raw_attributes.get() &&
                       left.operands.size() == right.operands.size();
  const bool is_simple = left.opcode == HloOpcode::kConstant ||
                         left.opcode == HloOpcode::kBroadcast || hlo::is_elementwise(left.opcode);
  if (!is_same || !is_simple) return false;
  for (std::size_t i = 0; i < left.operands.size(); ++i) {
    if (!are_alike(body, left.operands[i], right.operands[i], turn)) return false;
  }
  return true;
}

/// A comparison of what is computed of the left element with the same of the right one.
struct Atom {
  std::size_t term = 0;
  bool is_turned = false;  ///< The right element's value stands first.
};

class ComparatorAnalysis {
 public:
  explicit ComparatorAnalysis(const Computation& body)
      : body_(body), atoms_(body.instructions.size()) {}

  std::optional<std::vector<OrderingTerm>> run();

 private:
  static constexpr std::size_t kMostTerms = 6;  // 729 outcomes.
  enum Side : unsigned { kLeft = 1, kRight = 2 };

  void find_atoms();
  std::optional<bool> value(InstructionId id, const std::vector<int>& signs) const;
  std::optional<bool> always(std::vector<int> signs, const std::vector<bool>& is_fixed,
                             std::size_t from) const;
  bool find_next(std::vector<bool>& is_fixed, std::vector<OrderingTerm>& order) const;

  const Computation& body_;
  std::vector<std::optional<Atom>> atoms_;
  std::vector<OrderingTerm> terms_;
};

void ComparatorAnalysis::find_atoms() {
  std::vector<unsigned> sides;
  for (const HloInstruction& instruction : body_.instructions) {
    unsigned side = 0;
    if (instruction.opcode == HloOpcode::kParameter) {
      side = instruction.parameter_number % 2 == 0 ? kLeft : kRight;
    }
    for (const InstructionId operand : instruction.operands) {
      side |= sides[static_cast<std::size_t>(operand)];
    }
    sides.push_back(side);
    if (instruction.opcode != HloOpcode::kCompare) continue;
    const InstructionId first = instruction.operands[0], second = instruction.operands[1];
    const unsigned first_side = sides[static_cast<std::size_t>(first)],
                   second_side = sides[static_cast<std::size_t>(second)];
    const bool is_turned = first_side == kRight && second_side == kLeft;
    if (!is_turned && !(first_side == kLeft && second_side == kRight)) continue;
    if (!are_alike(body_, first, second, 1)) continue;
    OrderingTerm term;
    term.value = is_turned ? second : first;
    term.is_total = instruction.raw_attributes.is_set() &&
                    instruction.raw_attributes->find("TOTALORDER") != std::string::npos;
    const auto known = std::find_if(terms_.begin(), terms_.end(), [&](const OrderingTerm& other) {
      return other.is_total == term.is_total && are_alike(body_, other.value, term.value, 0);
    });
    atoms_[sides.size() - 1] = Atom{static_cast<std::size_t>(known - terms_.begin()), is_turned};
    if (known == terms_.end()) terms_.push_back(term);
  }
}

bool holds(ComparisonDirection direction, int sign) {
  switch (direction) {
    case ComparisonDirection::kEq:
      return sign == 0;
    case ComparisonDirection::kNe:
      return sign != 0;
    case ComparisonDirection::kLt:
      return sign < 0;
    case ComparisonDirection::kLe:
      return sign <= 0;
    case ComparisonDirection::kGt:
      return sign > 0;
    default:
      return sign >= 0;
  }
}

/// The predicate where the terms of both elements compare like this; nothing where it is made of
/// anything but these comparisons.
std::optional<bool> ComparatorAnalysis::value(InstructionId id,
                                              const std::vector<int>& signs) const {
  const HloInstruction& instruction = body_.at(id);
  if (const auto& atom = atoms_[static_cast<std::size_t>(id)]) {
    const int sign = signs[atom->term];
    return holds(instruction.direction, atom->is_turned ? -sign : sign);
  }
  if (instruction.shape.type != hlo::ElementType::kPred) return std::nullopt;
  if (instruction.opcode == HloOpcode::kConstant && instruction.literal.size() == 1) {
    return instruction.literal[0] != 0;
  }
  std::vector<bool> given;
  for (const InstructionId operand : instruction.operands) {
    const std::optional<bool> one = value(operand, signs);
    if (!one) return std::nullopt;
    given.push_back(*one);
  }
  switch (instruction.opcode) {
    case HloOpcode::kAnd:
      return given[0] && given[1];
    case HloOpcode::kOr:
      return given[0] || given[1];
    case HloOpcode::kXor:
      return given[0] != given[1];
    case HloOpcode::kNot:
      return !given[0];
    case HloOpcode::kSelect:
      return given[0] ? given[1] : given[2];
    case HloOpcode::kCompare:
      return holds(instruction.direction, int(given[0]) - int(given[1]));
    case HloOpcode::kBroadcast:
    case HloOpcode::kCopy:
      return given[0];
    default:
      return std::nullopt;
  }
}

/// The predicate where it is the same however the terms that are not fixed compare.
std::optional<bool> ComparatorAnalysis::always(std::vector<int> signs,
                                               const std::vector<bool>& is_fixed,
                                               std::size_t from) const {
  while (from < signs.size() && is_fixed[from]) ++from;
  if (from == signs.size()) return value(body_.root, signs);
  std::optional<bool> common;
  for (const int sign : {-1, 0, 1}) {
    signs[from] = sign;
    const std::optional<bool> one = always(signs, is_fixed, from + 1);
    if (!one || (common && *common != *one)) return std::nullopt;
    common = one;
  }
  return common;
}

/// The term that decides among those not fixed.
bool ComparatorAnalysis::find_next(std::vector<bool>& is_fixed,
                                   std::vector<OrderingTerm>& order) const {
  for (std::size_t term = 0; term < terms_.size(); ++term) {
    if (is_fixed[term]) continue;
    is_fixed[term] = true;
    std::vector<int> signs(terms_.size(), 0);
    signs[term] = -1;
    const std::optional<bool> below = always(signs, is_fixed, 0);
    signs[term] = 1;
    const std::optional<bool> above = always(signs, is_fixed, 0);
    if (below && above && *below != *above) {
      order.push_back(terms_[term]);
      order.back().descends = *above;
      return true;
    }
    is_fixed[term] = false;
  }
  return false;
}

std::optional<std::vector<OrderingTerm>> ComparatorAnalysis::run() {
  find_atoms();
  if (terms_.empty() || terms_.size() > kMostTerms) return std::nullopt;
  std::vector<OrderingTerm> order;
  std::vector<bool> is_fixed(terms_.size(), false);
  const std::vector<int> equal(terms_.size(), 0);
  while (true) {
    const std::optional<bool> rest = always(equal, is_fixed, 0);
    if (rest) return *rest || order.empty() ? std::nullopt : std::make_optional(order);
    if (!find_next(is_fixed, order)) return std::nullopt;
  }
}

}  // namespace

std::optional<std::vector<OrderingTerm>> ordering_terms(const Computation& comparator) {
  return ComparatorAnalysis(comparator).run();
}

}  // namespace tpu::compiler
