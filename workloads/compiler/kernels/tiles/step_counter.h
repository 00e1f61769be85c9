#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "workloads/compiler/codegen/kernel_builder.h"

namespace tpu::compiler {

/// Counts through nested loops in one flat loop: the last digit runs fastest. Digits of extent 1
/// have no register.
class StepCounter {
 public:
  /// Where the digits stand from step to step: there are few scalar registers.
  enum class Digits : std::uint8_t { kRegisters, kSmem };
  StepCounter(KernelBuilder& builder, std::vector<std::uint32_t> extents,
              Digits digits = Digits::kRegisters);

  std::uint64_t steps() const;
  /// Digits of the present step.
  std::vector<SReg> present();
  /// Digits of the step after it; 0 again after the last one. With a condition: of the same step
  /// where it does not hold.
  std::vector<SReg> next(PReg moves = {}) { return behind(present(), moves); }
  /// The same behind any digits.
  std::vector<SReg> behind(const std::vector<SReg>& present, PReg moves = {});
  /// Moves on; call it at the end of the loop's body.
  void advance(const std::vector<SReg>& next);

 private:
  KernelBuilder& builder_;
  std::vector<std::uint32_t> extents_;
  Digits place_;
  std::vector<SVariable> digits_;
  std::uint32_t words_ = 0;
};

/// A loop over so many steps, where `at_once` divides them that many in one block of code: it ends
/// when its units are ready, and they share the wait.
void loop_over_steps(KernelBuilder& builder, std::uint64_t steps, std::uint32_t at_once,
                     const std::function<void(SReg index)>& step);

/// Sum of digits times distances, with the constant 0 where nothing remains.
SReg weighted_sum(KernelBuilder& builder, const std::vector<SReg>& digits,
                  const std::vector<std::uint32_t>& distances, SReg base = {});

}  // namespace tpu::compiler
