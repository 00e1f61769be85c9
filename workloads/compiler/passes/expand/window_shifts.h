#pragma once

#include <cstdint>
#include <vector>

#include "workloads/compiler/passes/graph_editor.h"
#include "workloads/compiler/target.h"

namespace tpu::compiler {

/// Windows of an array that begin where only the data know, found by halves.
///
/// A window of `size` of a dimension's elements begins at one of `range` + 1 places. Where its
/// place is in the upper half of them, the array is read from that half on, else from its begin:
/// half of the places are left, and so on. Each step selects between two slices, whole registers at
/// a time, however many windows there are; picks by rows take a DMA's or a copy's time for each row
/// of each window.
class WindowShifts {
 public:
  using Id = GraphEditor::Id;
  using Extents = GraphEditor::Extents;

  struct Window {
    std::int64_t dimension = 0;  ///< Of the array.
    std::int64_t size = 0;
    Id start = -1;  ///< s32, in range, of the extents of `places`.
  };

  WindowShifts(GraphEditor& edit, const Target& target) : edit_(edit), target_(target) {}

  /// Cycles to cut windows of such sizes from an array of such extents, the windows' own among
  /// them.
  double cut_cycles(Extents extents, const std::vector<Window>& windows) const;
  /// The windows, where the array has a dimension for each of `places` (in this order), along which
  /// windows have places of their own; of extent 1 where the array is the same for all of them.
  Id cut(Id array, const std::vector<Window>& windows, const Extents& places);

  /// The reverse: zeros all around each window, up to these extents of the windows' dimensions.
  double put_cycles(const Extents& extents, const std::vector<Window>& windows) const;
  Id put(Id updates, const Extents& extents, const std::vector<Window>& windows,
         const Extents& places);

 private:
  Id reaches(Id start, std::int64_t distance);
  Id behind(Id start, std::int64_t distance);
  Id for_each(Id value, const Extents& extents, const Extents& places);
  double step_cycles(const Extents& extents) const;

  GraphEditor& edit_;
  const Target& target_;
};

}  // namespace tpu::compiler
