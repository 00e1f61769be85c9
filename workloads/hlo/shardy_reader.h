#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "workloads/hlo/stablehlo_emitter.h"
#include "workloads/hlo/stablehlo_operation.h"
#include "workloads/hlo/stablehlo_scope.h"

namespace tpu::hlo {

/// What StableHLO text says of several devices in the dialect of Shardy, written as XLA writes it
/// in HLO: meshes as an attribute of the module, shardings as frontend attributes, constraints and
/// manual computations (shard_map) as custom calls.
class ShardyReader {
 public:
  ShardyReader(HloCursor& cursor, StablehloScopes& scopes, StablehloEmitter& emitter,
               Module& module)
      : cursor_(cursor), scopes_(scopes), emitter_(emitter), module_(module) {}

  /// `@name = <["data"=8]>` behind `sdy.mesh`.
  void mesh();
  /// The same from the properties of `"sdy.mesh"()`.
  void mesh(const MlirAttributes& attributes);
  /// The sharding of an argument or of results, `#sdy.sharding<...>` or
  /// `#sdy.sharding_per_value<[...]>`, if the attributes have one.
  static void add_sharding(const MlirAttributes& attributes, HloInstruction& made);
  /// A function's result whose attributes have a sharding.
  InstructionId result(InstructionId value, const MlirAttributes& attributes);

  /// `%0 <@mesh, [...]>` behind `sdy.sharding_constraint`, or operands and properties.
  static void read_constraint(HloCursor& cursor, StablehloOperation& operation);
  std::vector<InstructionId> constraint(const StablehloOperation& operation,
                                        const HloInstruction& made);

  /// `(%0) in_shardings=[...] out_shardings=[...] manual_axes={...}` behind
  /// `sdy.manual_computation`, or operands and properties.
  static void read_manual(HloCursor& cursor, StablehloOperation& operation);
  /// The values of a manual computation whose body is a function of the shapes of one device.
  std::vector<InstructionId> manual(const StablehloOperation& operation, const HloInstruction& made,
                                    StablehloScope body);

 private:
  void add_mesh(std::string_view name, HloCursor& cursor);
  std::vector<InstructionId> custom_call(const std::string& target, const std::string& attributes,
                                         const std::vector<InstructionId>& operands,
                                         const std::vector<Shape>& results,
                                         const Metadata& metadata);

  HloCursor& cursor_;
  StablehloScopes& scopes_;
  StablehloEmitter& emitter_;
  Module& module_;
  std::deque<std::string> bodies_;  ///< Names of manual computations; they stay where they are.
};

}  // namespace tpu::hlo
