#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "isa/core_state.h"
#include "isa/program.h"

namespace tpu::isa {

/// Checks, in code out of XLA's listings, that every register and queue element that an instruction
/// reads was last written under the name that the listing prints beside it. Names of different
/// kernels differ. A name that nothing in its kernel defines may be read (a few listings do).
class NameCheck {
 public:
  /// `kernel_number` tells the names of kernels apart. The kernel has to outlive the check.
  NameCheck(const Kernel& kernel, std::uint32_t kernel_number);

  /// False for kernels without names: nothing to check.
  bool active() const { return active_; }

  /// On a call: the operands in s0, s1, ... go by the kernel's own names from now on.
  void enter(RegisterNames& names) const;
  /// Before a call: checks the operands that the caller leaves for it; throws ProgramFault.
  void check_call(const CallSite& site, const RegisterNames& names) const;

  void rename_before(std::uint32_t bundle, RegisterNames& names) const;
  void rename_after(std::uint32_t bundle, RegisterNames& names) const;

  /// Registers that an instruction (by its number in Kernel::instructions) reads; throws
  /// ProgramFault. The guard always, the rest when the guard holds.
  void check_guard(std::uint32_t instruction, const RegisterNames& names) const;
  void check_reads(std::uint32_t instruction, const RegisterNames& names) const;
  /// The element that a pop takes, or the pattern that vperm uses: its name stands behind the
  /// operands' names.
  void check_queue(std::uint32_t instruction, std::uint64_t found) const;

  /// The name under which an instruction writes its destination or pushes. A copy of a register to
  /// itself under a name that nothing reads leaves it the one that it has: a listing may go on with
  /// that.
  std::uint64_t written_name(std::uint32_t instruction, const RegisterNames& names) const;

 private:
  std::uint64_t full_name(std::uint32_t name) const {
    return name == 0 ? 0 : std::uint64_t{number_} << 32 | name;
  }
  void check(std::uint32_t instruction, char file, std::uint8_t reg, std::uint32_t name,
             const RegisterNames& names) const;
  void rename(std::uint32_t bundle, bool after, RegisterNames& names) const;
  void note_reads();
  bool is_read(std::uint32_t name) const { return name < read_.size() && read_[name]; }
  bool is_defined(std::uint32_t name) const { return name < defined_.size() && defined_[name]; }

  const Kernel& kernel_;
  std::uint32_t number_;
  bool active_;
  std::vector<bool> defined_, read_;  ///< By name.
};

}  // namespace tpu::isa
