#pragma once

#include <functional>
#include <string>
#include <vector>

#include "workloads/graph/graph.h"
#include "workloads/hlo/hlo_cursor.h"

namespace tpu::hlo {

/// A computation that an instruction calls: by name, or one whose text stands in its place.
struct NamedCall {
  std::string_view name;
  ComputationId id = -1;  ///< Of a text in its place.
  int order = 0;          ///< Place in HloInstruction::called.
};

/// What the attributes of an instruction name.
struct NamedReferences {
  std::vector<NamedCall> calls;
  std::vector<std::string_view> predecessors;
};

/// Reads the attributes behind the operands of one instruction, `, name=value` until the end of the
/// line. What the graph has no place for is kept as text.
class AttributeReader {
 public:
  /// `nested` reads a computation from its '{' and returns its number.
  AttributeReader(HloCursor& cursor, std::function<ComputationId()> nested)
      : cursor_(cursor), nested_(std::move(nested)) {}

  void read(HloInstruction& instruction, NamedReferences& references);

 private:
  void attribute(std::string_view name, HloInstruction& instruction);
  bool calls(std::string_view name);
  void call(int order);
  bool gather_or_scatter(std::string_view name, HloInstruction& instruction);
  bool dot(std::string_view name, HloInstruction& instruction);
  std::vector<std::int64_t> integers();
  void slices(HloInstruction& instruction);
  void window(HloInstruction& instruction);
  void padding(HloInstruction& instruction);
  void dimension_labels(HloInstruction& instruction);
  void replica_groups(HloInstruction& instruction);
  void metadata(Metadata& metadata);
  void direction(HloInstruction& instruction);

  HloCursor& cursor_;
  std::function<ComputationId()> nested_;
  std::vector<NamedCall> calls_;
};

}  // namespace tpu::hlo
