#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "workloads/hlo/stablehlo_operation.h"

namespace tpu::hlo {

/// How a region's arguments become the parameters of its computation.
enum class RegionKind : std::uint8_t {
  kFunction,  ///< One by one; nothing outside is known.
  kReducer,   ///< One by one; constants outside are written again inside.
  kBranch,    ///< Elements of one tuple, behind them the values outside that the region reads.
};

/// A function or region while its operations are read.
struct StablehloScope {
  struct Captured {
    MlirOperand value;
    InstructionId local = -1;  ///< Its get-tuple-element in this region.
  };

  RegionKind kind = RegionKind::kFunction;
  Computation computation;
  std::unordered_map<std::string_view, std::vector<InstructionId>> values;
  std::vector<Captured> captured;
  std::vector<InstructionId> returned;
  std::size_t arguments = 0;

  Shape& tuple() { return computation.instructions[0].shape; }
  const Shape& shape(InstructionId id) const { return computation.at(id).shape; }
  std::vector<Shape> shapes(const std::vector<InstructionId>& ids) const;
};

/// The functions and regions that are open, the innermost last, and what they know by name.
class StablehloScopes {
 public:
  explicit StablehloScopes(HloCursor& cursor) : cursor_(cursor) {}

  void open(RegionKind kind);
  /// Gives the innermost region an argument.
  void add_argument(std::string_view name, const Shape& shape, const Metadata& metadata);
  StablehloScope close();
  StablehloScope& innermost() { return scopes_.back(); }

  /// Adds an instruction to the innermost region and gives it a name of its own.
  InstructionId add(HloInstruction instruction) { return add(scopes_.back(), instruction); }
  InstructionId add(StablehloScope& scope, HloInstruction& instruction);
  InstructionId add(HloOpcode opcode, std::vector<InstructionId> operands, Shape shape);
  /// The tuple of values of the innermost region.
  InstructionId add_tuple(const std::vector<InstructionId>& values);
  InstructionId add_element(StablehloScope& scope, InstructionId tuple, std::size_t index);

  void define(std::string_view name, std::vector<InstructionId> values);
  InstructionId value(const MlirOperand& operand) { return value(operand, scopes_.size() - 1); }

 private:
  InstructionId value(const MlirOperand& operand, std::size_t level);

  HloCursor& cursor_;
  std::vector<StablehloScope> scopes_;
  int instructions_ = 0;  ///< Of the module, so far.
};

Shape tuple_shape(std::vector<Shape> elements);

/// Orders a computation as XLA does when it makes HLO of StableHLO: what an instruction needs right
/// before it, operand after operand; parameters that nothing needs stay, other instructions go.
void put_in_post_order(Computation& computation);

}  // namespace tpu::hlo
