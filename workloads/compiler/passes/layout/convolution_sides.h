#pragma once

#include <map>
#include <optional>

#include "workloads/compiler/passes/expand/convolution_kernels.h"
#include "workloads/compiler/passes/layout/convolution_layouts.h"
#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// Where the batch of images lies: in the rows of tiles, or in the lanes.
enum class ImageSide : unsigned char { kRows, kLanes };

/// Whether passes to come rewrite a convolution that has no kernel on its side; if not, it lies
/// where it has one.
enum class Rewriting : unsigned char { kToCome, kDone };

/// Which convolutions of a computation have the batch of their images in the lanes, the others in
/// the rows of tiles, and on which side each array of images lies.
///
/// In the lanes, a tile holds 8 features of 128 examples, which suits large batches and few
/// features; in the rows, 128 features of 8 examples, and gradients of kernels turn their operands.
/// The sides are those that take least together: what the kernels' searches expect, what passes
/// over the images take, and turning an image wherever a convolution or a window reads or makes it
/// on another side than its own: a minimum cut. Small networks take the side with fewer padded
/// bytes as a whole.
class ConvolutionSides {
 public:
  ConvolutionSides(const hlo::Computation& computation, ConvolutionKernels& kernels,
                   Rewriting rewriting = Rewriting::kToCome);

  /// Of a convolution of the computation, or of what is made in its place.
  ImageSide of(const hlo::HloInstruction& convolution) const {
    return weighed(convolution).value_or(otherwise_);
  }
  /// Absent where nothing weighed it: a convolution of another rank than a kernel's, or what was
  /// made in its place.
  std::optional<ImageSide> weighed(const hlo::HloInstruction& convolution) const;
  bool in_lanes(const hlo::HloInstruction& convolution) const {
    return of(convolution) == ImageSide::kLanes;
  }
  /// Whether a side was chosen for the array.
  bool has_image(hlo::InstructionId id) const { return images_.count(id) != 0; }
  /// Calls `visit(image, side)` of each array that a convolution reads or makes, and of what lies
  /// like it.
  template <typename Visit>
  void for_each_image(const Visit& visit) const {
    for (const auto& [id, lying] : images_) visit(ConvolutionImage{id, lying.roles}, lying.side);
  }

 private:
  struct Lying {
    ImageRoles roles;
    ImageSide side;
  };
  std::map<hlo::InstructionId, ImageSide> convolutions_;
  std::map<hlo::InstructionId, Lying> images_;
  ImageSide otherwise_ = ImageSide::kLanes;  ///< Of what was not weighed.
};

}  // namespace tpu::compiler
