#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "workloads/compiler/sharding/device_mesh.h"
#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// What a module says of one array: over which digits of the device's number each dimension is cut.
struct ShardingAnnotation {
  std::vector<std::vector<DeviceDigit>> dimensions;  ///< Empty: whole everywhere.
  std::vector<bool> open;    ///< Dimensions that may be cut further; empty: none.
  bool is_manual = false;    ///< Already the part of one device.
  std::int64_t devices = 1;  ///< That the annotation speaks of; 1: of any number.
};

/// The annotations of an instruction in the text of its attributes.
struct InstructionAnnotation {
  std::vector<ShardingAnnotation> leaves;  ///< One per array, or one for all of a tuple; or none.
  std::vector<DeviceDigit> manual_axes;    ///< Of Shardy's manual computations.
  std::string text;                        ///< For messages.
};

/// Reads XLA's `sharding={devices=[8,1]<=[8]}` and Shardy's
/// `xla.sdy.sharding="#sdy.sharding<@mesh, [{\"x\"}, {}]>"` and its forms for values, operands and
/// results of manual computations; where both stand, the former.
///
/// Throws WorkloadError that names the instruction for what it does not understand: devices in an
/// order that no mesh has, partial sums between instructions.
class AnnotationReader {
 public:
  /// Takes the meshes of the module's attributes.
  explicit AnnotationReader(const hlo::Module& module);

  InstructionAnnotation read(const hlo::HloInstruction& instruction) const;
  /// Devices of the largest mesh; 1 where there is none.
  std::int64_t mesh_devices() const;

 private:
  struct NamedMesh {
    std::string name;
    std::vector<std::string> axes;
    std::vector<DeviceDigit> digits;
    std::int64_t devices = 1;
  };
  class HloText;
  class ShardyText;

  const hlo::Module& module_;
  std::vector<NamedMesh> meshes_;
};

}  // namespace tpu::compiler
