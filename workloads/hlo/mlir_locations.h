#pragma once

#include <string_view>
#include <unordered_map>

#include "workloads/graph/graph.h"
#include "workloads/hlo/hlo_cursor.h"

namespace tpu::hlo {

/// Where operations of an MLIR text come from: `loc("jit(f)/add"(#loc3))` behind them, with
/// `#loc3 = loc("model.py":12:4)` anywhere in the text.
class MlirLocations {
 public:
  /// Finds the lines that give locations a name.
  explicit MlirLocations(std::string_view text);

  /// Takes a location, where one stands here, as the name and source line of what is in front of
  /// it.
  void take(HloCursor& cursor, Metadata& metadata) const;
  /// Passes over a line that gives a location a name.
  static bool skip_alias(HloCursor& cursor);

 private:
  void read(HloCursor& cursor, Metadata& metadata, int depth) const;

  std::unordered_map<std::string_view, const char*> begins_;  ///< Of "loc(" by "loc3".
};

}  // namespace tpu::hlo
