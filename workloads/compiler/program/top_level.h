#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "isa/program.h"

namespace tpu::compiler {

/// A number handed to a kernel: an address, which may move from one iteration of the innermost
/// counted loop to the next.
struct CallOperand {
  std::uint32_t number = 0;
  std::int64_t step = 0;
};

/// Writes the top-level kernel, bundle by bundle: calls of kernels, loops and branches around them.
///
/// A called kernel keeps nothing in registers, so a loop's remaining trips stand in SMEM, a word
/// per loop around it; a predicate or selector comes from HBM by a DMA before each test. A loop
/// costs a store before it and six cycles per iteration, a test the DMA and seven cycles. All
/// branches of a conditional stand one behind the other. Nothing is scheduled: the bundles stand in
/// program order.
class TopLevel {
 public:
  TopLevel(const std::string& name, const std::string& chip) : chip_(chip) { kernel_.name = name; }

  /// Moves the numbers into s0, s1, ..., two a bundle, then calls. Those that move take three
  /// cycles more for all and two each: the trips left, times the step, off the place behind the
  /// last iteration.
  void call(std::uint32_t call_site, const std::vector<CallOperand>& operands);
  /// Of the innermost counted loop around; outside of loops 1.
  std::uint64_t trips() const { return trips_.empty() ? 1 : trips_.back(); }
  /// Runs the body so many times, at least once.
  void counted_loop(std::uint64_t trips, const std::function<void()>& body);
  /// Runs the test, which leaves a word in HBM at this granule, then, while it is not 0, the body
  /// and the test again. Returns where it is decided.
  isa::ControlPoint tested_loop(std::uint32_t granule, const std::function<void()>& test,
                                const std::function<void()>& body);
  /// Runs the branch whose number stands in HBM at this granule; the last one for numbers outside.
  /// With `by_predicate` the word is a predicate: branch 0 when it is not 0, else branch 1.
  /// Returns where it is decided.
  std::vector<isa::ControlPoint> branches(std::uint32_t granule, bool by_predicate,
                                          std::size_t count,
                                          const std::function<void(std::size_t)>& branch);

  isa::Kernel take();

 private:
  void begin_bundle();
  void move_with_iterations(const std::vector<CallOperand>& operands);
  isa::Instruction& add(isa::Opcode opcode);
  /// Brings the word into s0.
  void fetch_word(std::uint32_t granule);
  /// p0: s0 compared with a number.
  void compare(isa::Opcode opcode, std::uint32_t number);
  /// Branches when p0 holds (or not); returns the instruction, whose target can be set later.
  std::size_t branch_if(bool holds, std::uint32_t target);
  /// The bundle of a branch, whose delay slot is the last bundle.
  std::uint32_t branch_bundle() const { return here() - 2; }
  std::uint32_t here() const { return static_cast<std::uint32_t>(kernel_.bundles.size()); }
  void aim(std::size_t branch) {
    kernel_.instructions[branch].operands[0] = isa::Operand::immediate_(here());
  }

  isa::Kernel kernel_;
  std::string chip_;
  std::vector<std::uint64_t> trips_;  ///< Of the counted loops around.
  bool is_target_ = false;            ///< The next bundle must exist: something branches to it.
};

}  // namespace tpu::compiler
