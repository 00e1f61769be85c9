#include "workloads/compiler/codegen/known_numbers.h"

#include <utility>

#include "isa/meaning.h"

namespace tpu::compiler {

using isa::Opcode;

std::optional<KnownNumber> KnownNumbers::of(const ScalarOperand& operand) const {
  if (!operand.reg) return KnownNumber{-1, operand.immediate};
  const auto found = numbers_.find(operand.reg.id);
  if (found == numbers_.end()) return std::nullopt;
  return found->second;
}

std::optional<std::uint32_t> KnownNumbers::number(const ScalarOperand& operand) const {
  const std::optional<KnownNumber> known = of(operand);
  if (!known || known->operand >= 0) return std::nullopt;
  return known->number;
}

std::optional<bool> KnownNumbers::of(const PredicateOperand& predicate) const {
  if (!predicate.reg) return predicate.constant;
  const auto found = predicates_.find(predicate.reg.id);
  if (found == predicates_.end()) return std::nullopt;
  return found->second != predicate.negated;
}

void KnownNumbers::set(SReg value, const std::optional<KnownNumber>& known) {
  if (known) numbers_[value.id] = *known;
}

void KnownNumbers::set(PReg value, const std::optional<bool>& known) {
  if (known) predicates_[value.id] = *known;
}

namespace {

/// Operations that compute addresses; of others nothing is known.
bool is_of_addresses(Opcode opcode) {
  switch (opcode) {
    case Opcode::kSaddS32:
    case Opcode::kSsubS32:
    case Opcode::kSmulU24:
    case Opcode::kSmulU32:
    case Opcode::kSandU32:
    case Opcode::kSorU32:
    case Opcode::kSxorU32:
    case Opcode::kSshllU32:
    case Opcode::kSshrlU32:
      return true;
    default:
      return false;
  }
}

bool compares_integers(Opcode opcode) {
  switch (opcode) {
    case Opcode::kScmpEqS32:
    case Opcode::kScmpNeS32:
    case Opcode::kScmpLtS32:
    case Opcode::kScmpLeS32:
    case Opcode::kScmpGtS32:
    case Opcode::kScmpGeS32:
      return true;
    default:
      return false;
  }
}

}  // namespace

void KnownNumbers::compute(SReg value, Opcode opcode, const ScalarOperand& a,
                           const ScalarOperand& b) {
  const std::optional<KnownNumber> left = of(a), right = of(b);
  if (!left || !right || !is_of_addresses(opcode)) return;
  const bool adds = opcode == Opcode::kSaddS32;
  const bool is_address = left->operand >= 0 || right->operand >= 0;
  const bool is_sum =
      right->operand < 0 ? adds || opcode == Opcode::kSsubS32 : adds && left->operand < 0;
  if (is_address && !is_sum) return;
  numbers_[value.id] = {left->operand >= 0 ? left->operand : right->operand,
                        isa::scalar_result(opcode, left->number, right->number)};
}

void KnownNumbers::compare(PReg value, Opcode opcode, const ScalarOperand& a,
                           const ScalarOperand& b) {
  const std::optional<std::uint32_t> left = number(a), right = number(b);
  if (!left || !right || !compares_integers(opcode)) return;
  set(value, isa::scalar_comparison(opcode, *left, *right));
}

void KnownNumbers::store(std::uint32_t word, const ScalarOperand& value, bool is_certain) {
  if (!regions_.empty()) {
    regions_.back().stored.insert(word);
    regions_.back().stores_anywhere |= !is_certain;
  }
  if (!is_certain) return words_.clear();
  const std::optional<KnownNumber> known = of(value);
  known ? void(words_[word] = *known) : void(words_.erase(word));
}

void KnownNumbers::begin_region() {
  regions_.emplace_back();
  regions_.back().before.swap(words_);
}

void KnownNumbers::end_region() {
  Region region = std::move(regions_.back());
  regions_.pop_back();
  words_ = std::move(region.before);
  for (const std::uint32_t word : region.stored) words_.erase(word);
  if (region.stores_anywhere) words_.clear();
  if (regions_.empty()) return;
  regions_.back().stored.merge(region.stored);
  regions_.back().stores_anywhere |= region.stores_anywhere;
}

std::optional<KnownNumber> KnownNumbers::load(std::uint32_t word) const {
  const auto found = words_.find(word);
  if (found == words_.end()) return std::nullopt;
  return found->second;
}

}  // namespace tpu::compiler
