#pragma once

#include <cstdint>
#include <vector>

#include "workloads/reference/value.h"

namespace tpu::reference {

struct InterpreterOptions {
  /// Rounds the operands of dots and convolutions to bf16, as the matrix unit does.
  bool round_matmul_operands_to_bf16 = false;
  /// A loop that has not ended after so many iterations is a WorkloadError.
  std::int64_t most_iterations = 1'000'000;
};

/// Executes a module on values, one instruction after the other, as HLO defines it: the yardstick
/// for compiled programs. It shares no code with the compiler and the machine. Arithmetic is done
/// in double and rounded to the type of each instruction; sums of a dot, convolution or reduction
/// are rounded once.
class Interpreter {
 public:
  /// Keeps a reference to the module, which must be verified.
  explicit Interpreter(const hlo::Module& module, const InterpreterOptions& options = {})
      : module_(module), options_(options) {}

  /// One replica. Where the module has more, all are taken to hold these arguments: an all-reduce
  /// then combines as many equal values.
  Value run(std::vector<Value> arguments) const;

  /// All replicas, with a set of arguments each; all-reduce combines them. Loops and branches that
  /// contain a collective must go the same way on all.
  std::vector<Value> run_replicas(std::vector<std::vector<Value>> arguments) const;

 private:
  using Replicas = std::vector<Value>;  ///< The value of one instruction on each replica.

  Replicas evaluate(hlo::ComputationId id, std::vector<Replicas> parameters,
                    std::size_t replicas) const;
  /// `last_use[i]`: operand i is not read again, so its value may be taken.
  Replicas step(const hlo::HloInstruction& instruction, std::vector<Replicas>& values,
                const std::vector<bool>& last_use, std::size_t replicas) const;
  Value compute(const hlo::HloInstruction& instruction,
                const std::vector<const Value*>& operands) const;
  Replicas all_reduce(const hlo::HloInstruction& instruction,
                      const std::vector<const Replicas*>& operands) const;
  /// all-gather, reduce-scatter, all-to-all, collective-permute.
  Replicas exchange(const hlo::HloInstruction& instruction,
                    const std::vector<const Replicas*>& operands) const;
  Replicas permute(const hlo::HloInstruction& instruction, const Replicas& given) const;
  /// What one member of a group has of an operand after the exchange.
  Value exchanged(const hlo::HloInstruction& instruction, const hlo::Shape& shape,
                  const Replicas& given, const std::vector<std::int64_t>& group,
                  std::size_t member) const;
  Value combine(const hlo::HloInstruction& instruction, const Replicas& values,
                const std::vector<std::int64_t>& group) const;
  Replicas while_loop(const hlo::HloInstruction& instruction, Replicas state) const;
  Replicas conditional(const hlo::HloInstruction& instruction,
                       const std::vector<const Replicas*>& operands) const;
  bool has_collective(hlo::ComputationId id) const;

  const hlo::Module& module_;
  InterpreterOptions options_;
};

}  // namespace tpu::reference
