#pragma once

#include <map>
#include <optional>
#include <set>
#include <vector>

#include "workloads/compiler/passes/graph_editor.h"
#include "workloads/compiler/target.h"

namespace tpu::compiler {

/// Dimensions that a pooling kernel wants: two of windows, two of tiles.
constexpr std::size_t kPoolingRank = 4;

/// Dimensions of a window that are more than one element.
std::vector<std::int64_t> dimensions_of(const std::vector<hlo::WindowDimension>& window);

/// Whether windows stand side by side along a dimension that is not the minor one: its parts are
/// reduced then, whatever their size.
bool are_parts(const hlo::HloInstruction& pooling, std::size_t dimension, hlo::HloOpcode operation);

/// Arrays of four dimensions, merged of neighbours over which a window does not extend.
struct FourDimensions {
  std::vector<hlo::WindowDimension> window;
  /// Behind the last of the dimensions that become each of the four.
  std::vector<std::int64_t> ends;

  std::vector<std::int64_t> merged(const std::vector<std::int64_t>& extents) const;
};

/// None where the window's dimensions are more than two, not neighbours, or the last one: nothing
/// would fill the lanes.
std::optional<FourDimensions> four_dimensions(const std::vector<hlo::WindowDimension>& window,
                                              const std::vector<std::int64_t>& extents);

/// Which form takes least, of windows and of the gradients of their maxima: a pooling kernel, or
/// parts of the image, one for each position of the window, combined by elementwise operations.
///
/// A kernel has the dimensions of the window outside of its tiles; parts lie as densely as the
/// image does. Windows and their gradient take the same form, as they read the same image.
class WindowChoice {
 public:
  using Id = GraphEditor::Id;
  using Extents = GraphEditor::Extents;

  /// Of the entry as it is now; operands of its windows may be replaced later.
  WindowChoice(const hlo::Module& module, const Target& target);

  /// Beside convolutions the image lies as theirs do.
  bool has_convolutions() const { return !images_.empty(); }
  /// Whether there is a kernel over these dimensions: those that images have outermost.
  bool has_kernel_window(const std::vector<hlo::WindowDimension>& window) const;

  /// What a pooling kernel takes: a window of four dimensions, and its arrays, in an order.
  struct KernelForm {
    hlo::HloInstruction pooling;
    std::vector<hlo::Shape> arrays;
    std::vector<std::int64_t> order;  ///< Major to minor.
    const hlo::Shape& image() const { return arrays.front(); }
    const hlo::Shape& windows() const {
      return pooling.opcode == hlo::HloOpcode::kSelectAndScatter ? arrays[1] : pooling.shape;
    }
  };
  /// As it is or of merged dimensions.
  std::optional<KernelForm> kernel_form(const hlo::HloInstruction& pooling) const;
  /// Whether the kernel has room for rows of the image, with its windows outermost.
  bool rows_fit(const KernelForm& form) const;
  /// Whether a kernel takes it, as it is or of merged dimensions.
  bool has_kernel(const hlo::HloInstruction& pooling) const {
    const std::optional<KernelForm> form = kernel_form(pooling);
    return form && rows_fit(*form);
  }

  /// Of an image that becomes one of pixels of rows of lanes.
  struct DensePixels {
    std::int64_t images = 1, features = 1;  ///< In front of the windows and behind them.
    double bytes = 0;
  };
  /// Rows of lanes that what stands in front of and behind the windows fills, where tiles of its
  /// dimensions would be half padding or more; else none.
  std::optional<DensePixels> dense_pixels(const hlo::HloInstruction& pooling) const;

  /// Whether the positions of a window, combined one after the other from parts of the array, take
  /// less than its kernel does.
  bool is_faster_in_parts(const hlo::HloInstruction& pooling) const;
  /// The same of windows; along one dimension, side by side, they are reduced in any case.
  bool is_faster_shifted(const hlo::HloInstruction& pooling, hlo::HloOpcode operation) const;
  /// Whether a window over three dimensions or more takes less where its outermost one is combined
  /// from slices. What the gradient makes, too, is made once.
  bool is_faster_from_outside(const hlo::HloInstruction& pooling) const;
  /// Whether the gradient over the same image is made of parts of it: windows have the same ones.
  bool shares_phases(const hlo::HloInstruction& pooling) const;
  /// Whether a stride of the window goes through the lanes of the image where it lies densely.
  bool steps_through_dense_lanes(const hlo::HloInstruction& pooling) const;

 private:
  struct FormCycles {
    double kernel = 0, parts = 0;
  };
  const hlo::Computation& entry() const { return module_.entry_computation(); }
  Id image_of(const hlo::HloInstruction& pooling) const;
  double padded_bytes(const hlo::HloInstruction& pooling, const KernelForm& form) const;
  FormCycles form_cycles(const hlo::HloInstruction& pooling) const;

  const hlo::Module& module_;
  const Target& target_;
  std::set<Extents> images_;  ///< Spatial dimensions of the convolutions.
  /// Windows, and those whose greatest elements get something, by their images.
  std::map<Id, hlo::HloInstruction> maxima_, gradients_;
};

}  // namespace tpu::compiler
