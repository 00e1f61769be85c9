#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "models/core/decoded_kernel.h"
#include "models/core_classes.h"
#include "models/step_state.h"

namespace tpu {

/// Scalar state in which the members of a class of cores differ: what follows from the numbers of
/// chip, core and partition in SMEM. A register or word of SMEM that varies has a value for each
/// member; the representative's is the one in ScalarUnit, too. Everything else is the same for all.
class ScalarLanes {
 public:
  using Values = std::vector<std::uint32_t>;  ///< One for each member.

  ScalarLanes(const CoreClasses& classes, std::uint32_t of_class)
      : of_class_(of_class), members_(classes.members(of_class).size()) {}

  std::uint32_t of_class() const { return of_class_; }
  std::size_t members() const { return members_; }
  bool any_word() const { return !words_.empty(); }
  bool any_register() const { return varying_ != 0; }
  bool varies(std::uint8_t reg) const { return (varying_ >> reg & 1) != 0; }
  bool word_varies(std::uint32_t word) const {
    return !words_.empty() && words_.find(word) != words_.end();
  }
  /// Values of a register or of a word that varies.
  const Values& of(std::uint8_t reg) const { return registers_[reg]; }
  const Values& of_word(std::uint32_t word) const { return words_.at(word); }

  /// A word that has a value for each member; nothing varies where these are equal.
  void set_word(std::uint32_t word, Values values);
  void set_word_alike(std::uint32_t word) {
    if (!words_.empty()) words_.erase(word);
  }
  /// A register takes the value of a word that varies.
  void load(std::uint8_t reg, std::uint32_t word) { set(reg, words_.at(word)); }
  /// A register takes a value that is the same for all.
  void set_alike(std::uint8_t reg);

  void describe(StepState& state) const;

  /// Some operand of an operation varies.
  bool touches(const MicroOp& op) const {
    return varying_ != 0 &&
           (varies(op.guard.reg) || varies(op.reg[0]) || varies(op.reg[1]) || varies(op.reg[2]));
  }
  /// The words of SMEM that a load or a store of the members goes to.
  Values words(const MicroOp& op,
               const std::array<std::uint32_t, scalar_file::kSize>& registers) const;
  /// The operation on all members, of one that touches(); `registers` are the representative's
  /// before it, `smem` its memory. Throws MembersDiffer where control or the address of a store
  /// would differ.
  /// Returns what the representative's register, or word of SMEM, holds after it; nothing: no guard
  /// holds.
  std::optional<std::uint32_t> execute(
      const MicroOp& op, const std::array<std::uint32_t, scalar_file::kSize>& registers,
      const std::vector<std::uint32_t>& smem);
  /// The values of register + immediate, of all members.
  Values values(const ScalarOperand& operand, std::uint32_t representative) const;
  /// Control depends on it: throws MembersDiffer where it varies.
  void require_alike(std::uint8_t reg) const {
    if (varies(reg)) differ("a value that control depends on", registers_[reg]);
  }
  [[noreturn]] void differ(const char* in_what, const Values& values) const;
  /// Each member for itself.
  [[noreturn]] void differ_all(const char* in_what) const;

 private:
  using Registers = std::array<std::uint32_t, scalar_file::kSize>;
  void set(std::uint8_t reg, Values values);
  void compute(const MicroOp& op, const Registers& registers, Values& result) const;
  void load(const MicroOp& op, const Registers& registers, const std::vector<std::uint32_t>& smem,
            Values& result) const;
  std::uint32_t store(const MicroOp& op, const Registers& registers,
                      const std::vector<std::uint32_t>& smem);
  void apply_guard(const MicroOp& op, const Values& before, Values& result) const;

  const std::uint32_t of_class_;
  const std::size_t members_;
  std::uint64_t varying_ = 0;  ///< A bit per entry of registers_.
  std::array<Values, scalar_file::kSize> registers_;
  std::unordered_map<std::uint32_t, Values> words_;
};

}  // namespace tpu
