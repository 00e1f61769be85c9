#pragma once

#include <string_view>
#include <vector>

#include "workloads/graph/graph.h"
#include "workloads/hlo/hlo_cursor.h"
#include "workloads/hlo/mlir_attributes.h"

namespace tpu::hlo {

/// A value where it is used: `%5`, or `%5#1` for one of several results.
struct MlirOperand {
  std::string_view name;
  std::size_t index = 0;
};

/// An operation of StableHLO as its text has it: operands, attributes and types, however its own
/// form orders them.
struct StablehloOperation {
  /// `%5`, or `%5:2` for two results under one name.
  struct Result {
    std::string_view name;
    std::size_t count = 1;
  };

  explicit StablehloOperation(const HloCursor& cursor)
      : at(cursor.at()), attributes(cursor, cursor.at()) {}

  const char* at;            ///< Its name in the text.
  std::string_view name;     ///< Without the dialect: `add`, `while`, `call`.
  std::string_view dialect;  ///< `stablehlo`, `chlo`, `func`; empty where the text has none.
  std::vector<Result> results;
  std::vector<MlirOperand> operands;
  std::vector<std::string_view> words;  ///< Names alone: `LT`, `SIGNED`, `@function`.
  MlirAttributes attributes;
  std::vector<Shape> operand_types;  ///< Empty where the text states those of the results alone.
  std::vector<Shape> result_types;
  std::vector<ComputationId> regions;

  std::size_t result_count() const;
};

MlirOperand read_mlir_operand(HloCursor& cursor);

/// `%0, %1:2 =` in front of an operation, if it has results.
std::vector<StablehloOperation::Result> read_results(HloCursor& cursor);

/// The name, as `stablehlo.add`, `"stablehlo.add"` or `return`.
void read_operation_name(HloCursor& cursor, StablehloOperation& operation);

/// What stands behind the name up to the types: operands, attributes in all their forms, words.
/// Stops in front of ':', of a region `({` and of what it does not know.
void read_operands(HloCursor& cursor, StablehloOperation& operation);

/// `: types` or `: (types) -> types`.
void read_types(HloCursor& cursor, StablehloOperation& operation);

}  // namespace tpu::hlo
