#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "workloads/hlo/stablehlo_operation.h"
#include "workloads/hlo/stablehlo_scope.h"

namespace tpu::hlo {

/// Writes operations of StableHLO as instructions of HLO: regions become computations, the values
/// that loops and branches read from outside elements of their tuples, several results the elements
/// of one.
class StablehloEmitter {
 public:
  StablehloEmitter(const HloCursor& cursor, StablehloScopes& scopes, Module& module)
      : cursor_(cursor), scopes_(scopes), module_(module) {}

  /// The values that the operation's results are. `made` has its operands and the shape of its
  /// result, regions are those behind it.
  std::vector<InstructionId> values_of(const StablehloOperation& operation, HloInstruction made,
                                       std::vector<StablehloScope> regions);
  /// Adds the instruction; where its result is a tuple, the values are its first `count` elements.
  std::vector<InstructionId> add_results(HloInstruction made, std::size_t count);
  InstructionId binary(const StablehloOperation& operation, InstructionId a, InstructionId b,
                       const Shape& shape);

  void add_function(std::string_view name, StablehloScope scope);
  ComputationId function(std::string_view name) const;  ///< -1: none.
  /// Once all functions are read. Refuses recursion.
  void resolve_calls();

 private:
  struct Call {
    ComputationId caller = -1;
    InstructionId user = -1;
    std::string_view callee;
  };

  ComputationId finish(StablehloScope scope);
  void refuse_recursion() const;
  void constant(const StablehloOperation& operation, HloInstruction& made) const;
  std::vector<InstructionId> loop(const StablehloOperation& operation, HloInstruction made,
                                  std::vector<StablehloScope> regions);
  void branches(const StablehloOperation& operation, HloInstruction& made,
                std::vector<StablehloScope> regions);
  InstructionId all_to_all(const StablehloOperation& operation, HloInstruction made);
  void adapt_operands(const StablehloOperation& operation, HloInstruction& made);
  void broadcast(const StablehloOperation& operation, HloInstruction& made);
  std::vector<InstructionId> chlo(const StablehloOperation& operation, HloInstruction made);
  const Shape& shape(InstructionId id) { return scopes_.innermost().shape(id); }

  const HloCursor& cursor_;
  StablehloScopes& scopes_;
  Module& module_;
  std::unordered_map<std::string_view, ComputationId> functions_;
  std::unordered_map<std::string, std::string_view> callees_;  ///< By the calling instruction.
  std::vector<Call> calls_;
};

}  // namespace tpu::hlo
