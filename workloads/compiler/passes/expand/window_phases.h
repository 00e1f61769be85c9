#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "workloads/compiler/passes/graph_editor.h"

namespace tpu::compiler {

/// The positions of windows that step over an image, as parts of its phases: pixel stride * q + r
/// of a dimension is pixel q of phase r, and a position of all windows is neighbours in one phase.
/// The image is rearranged once, however many positions the window has; strides through lanes or
/// rows of tiles would be one rearrangement for each.
class WindowPhases {
 public:
  using Id = GraphEditor::Id;
  using Extents = GraphEditor::Extents;

  /// Of an image and windows of these extents, without dilation of the base.
  WindowPhases(GraphEditor& edit, std::vector<hlo::WindowDimension> window, Extents image,
               Extents windows);

  /// The image with a dimension in front for the phases of each stride; `fill` where they are
  /// longer.
  Id split(Id image, double fill);
  /// Of a split image the elements that are the `at`th of each window; `fill` where it reaches over
  /// the image.
  Id position(Id phases, const Extents& at, double fill);
  /// Adds a value of each window to the `at`th element of it.
  void add(Id value, const Extents& at);
  /// The sums of what was added, where they lie in the image; zeros elsewhere.
  Id sums(hlo::ElementType type);

 private:
  /// Where the first window has this position.
  struct Place {
    std::int64_t pixel, phase;
  };
  Place place(std::size_t d, const Extents& at) const;
  Extents split_order() const;
  Extents split_extents() const;

  GraphEditor& edit_;
  std::vector<hlo::WindowDimension> window_;
  Extents image_, windows_;
  Extents counts_;              ///< Pixels of a phase.
  Extents strided_;             ///< Dimensions with more than one.
  std::map<Extents, Id> sums_;  ///< By the phase along each of them.
};

}  // namespace tpu::compiler
