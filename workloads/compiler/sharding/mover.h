#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "workloads/compiler/passes/graph_editor.h"
#include "workloads/compiler/sharding/device_mesh.h"

namespace tpu::compiler {

/// Appends to a computation what brings an array from one sharding to another.
class Mover {
 public:
  using Id = GraphEditor::Id;

  Mover(hlo::Module& module, hlo::ComputationId computation, const DeviceMesh& mesh)
      : mesh_(mesh), edit_(module, computation) {}

  /// The editor that appends; the caller says what its instructions stand for.
  GraphEditor& edit() { return edit_; }

  /// The value as `to` says. `partial`: axes along which the devices hold parts of a combination.
  Id move(Id value, Sharding from, const Sharding& to, Axes partial = {},
          hlo::HloOpcode combination = hlo::HloOpcode::kAdd);
  /// The device's place along the axes, an s32 scalar.
  Id index(const Axes& axes);

 private:
  Id combine(Id value, Sharding& from, const Sharding& to, Axes partial, hlo::HloOpcode opcode);
  Id collective(hlo::HloOpcode opcode, Id value, const Axes& axes, std::int64_t dimension,
                std::vector<std::int64_t> extents, hlo::ComputationId called = -1);
  Id cut(Id value, std::size_t dimension, const Axes& axes);
  bool exchange(Id& value, Sharding& from, const Sharding& to);
  bool cut_free_axes(Id& value, Sharding& from, const Sharding& to);
  bool gather(Id& value, Sharding& from, const Sharding& to);
  hlo::ComputationId combination(hlo::HloOpcode opcode, hlo::ElementType type);

  const DeviceMesh& mesh_;
  GraphEditor edit_;
  std::map<std::pair<hlo::HloOpcode, hlo::ElementType>, hlo::ComputationId> combinations_;
};

}  // namespace tpu::compiler
