#pragma once

#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "workloads/graph/graph.h"
#include "workloads/hlo/text_cursor.h"

namespace tpu::hlo {

/// The tables of file names, functions and frames in front of a module, by number from 1.
struct StackFrameTables {
  struct Location {
    int file = 0;
    int line = 0;
  };
  std::vector<std::string> files;
  std::vector<Location> locations;
  std::vector<int> frame_locations;
};

/// A computation that an instruction calls, by name; resolved when the whole module is read.
struct NamedCall {
  std::string_view name;
  int order = 0;  ///< Place in HloInstruction::called.
};

/// Reads the attributes behind the operands of one instruction, `, name=value` until the end of the
/// line.
class AttributeReader {
 public:
  AttributeReader(TextCursor& cursor, const StackFrameTables& frames)
      : cursor_(cursor), frames_(frames) {}

  /// Fills `instruction`; returns the computations that it calls. Names of control predecessors are
  /// appended to `predecessors`.
  std::vector<NamedCall> read(HloInstruction& instruction,
                              std::vector<std::string_view>& predecessors);

 private:
  void attribute(std::string_view name, HloInstruction& instruction);
  bool calls(std::string_view name);
  bool gather_or_scatter(std::string_view name, HloInstruction& instruction);
  bool dot(std::string_view name, HloInstruction& instruction);
  std::vector<std::int64_t> integers();
  void slices(HloInstruction& instruction);
  void window(HloInstruction& instruction);
  void padding(HloInstruction& instruction);
  void dimension_labels(HloInstruction& instruction);
  void replica_groups(HloInstruction& instruction);
  void iota_groups(HloInstruction& instruction);
  void mesh_groups(HloInstruction& instruction);
  void metadata(Metadata& metadata);
  void direction(HloInstruction& instruction);

  TextCursor& cursor_;
  const StackFrameTables& frames_;
  std::vector<NamedCall> calls_;
};

}  // namespace tpu::hlo
