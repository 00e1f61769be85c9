#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <unordered_map>
#include <vector>

#include "isa/opcode.h"
#include "workloads/compiler/codegen/values.h"

namespace tpu::compiler {

/// A number, or the address that the caller leaves in a scalar register, plus a number.
struct KnownNumber {
  int operand = -1;  ///< -1: none.
  std::uint32_t number = 0;
};

/// What is known while a kernel is written of the values in scalar registers and SMEM. Values are
/// written once; of words of SMEM those are known that hold what they hold however control comes.
class KnownNumbers {
 public:
  std::optional<KnownNumber> of(const ScalarOperand& operand) const;
  /// The number; nothing for addresses.
  std::optional<std::uint32_t> number(const ScalarOperand& operand) const;
  std::optional<bool> of(const PredicateOperand& predicate) const;

  void set(SReg value, const std::optional<KnownNumber>& known);
  void set(PReg value, const std::optional<bool>& known);
  /// The result of an operation of the scalar unit.
  void compute(SReg value, isa::Opcode opcode, const ScalarOperand& a, const ScalarOperand& b);
  void compare(PReg value, isa::Opcode opcode, const ScalarOperand& a, const ScalarOperand& b);

  /// A word of SMEM; `is_certain`: of no other place.
  void store(std::uint32_t word, const ScalarOperand& value, bool is_certain);
  std::optional<KnownNumber> load(std::uint32_t word) const;
  /// Code begins that may be executed several times, or not at all, and ends.
  void begin_region();
  void end_region();

 private:
  std::unordered_map<std::uint32_t, KnownNumber> numbers_;
  std::unordered_map<std::uint32_t, bool> predicates_;
  using Words = std::unordered_map<std::uint32_t, KnownNumber>;
  /// What was known before the region, less what it stores.
  struct Region {
    Words before;
    std::set<std::uint32_t> stored;
    bool stores_anywhere = false;
  };
  Words words_;
  std::vector<Region> regions_;  ///< That have begun, from the outermost one on.
};

}  // namespace tpu::compiler
