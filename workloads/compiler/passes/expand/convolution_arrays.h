#pragma once

#include "workloads/compiler/passes/graph_editor.h"

namespace tpu::compiler {

/// Where hlo::ConvolutionDimensions keeps what the dimensions of one of the three arrays are.
struct ArrayRoles {
  std::int64_t hlo::ConvolutionDimensions::*rows;     ///< Batch, or the kernel's input features.
  std::int64_t hlo::ConvolutionDimensions::*columns;  ///< Features.
  std::vector<std::int64_t> hlo::ConvolutionDimensions::*spatial;
};
inline constexpr ArrayRoles kInputRoles{&hlo::ConvolutionDimensions::input_batch,
                                        &hlo::ConvolutionDimensions::input_feature,
                                        &hlo::ConvolutionDimensions::input_spatial};
inline constexpr ArrayRoles kWindowRoles{&hlo::ConvolutionDimensions::kernel_input_feature,
                                         &hlo::ConvolutionDimensions::kernel_output_feature,
                                         &hlo::ConvolutionDimensions::kernel_spatial};
inline constexpr ArrayRoles kOutputRoles{&hlo::ConvolutionDimensions::output_batch,
                                         &hlo::ConvolutionDimensions::output_feature,
                                         &hlo::ConvolutionDimensions::output_spatial};

/// Dimensions from `place` on move up.
void make_room(hlo::ConvolutionDimensions& dims, const ArrayRoles& roles, std::int64_t place);
/// The array gets a spatial dimension `index` at `place`; dimensions from there on move up.
void insert_dimension(hlo::ConvolutionDimensions& dims, const ArrayRoles& roles, std::int64_t place,
                      std::size_t index);
/// The window and the roles of all three arrays lose spatial dimension `index`; the shapes stay.
void remove_spatial_dimension(hlo::HloInstruction& convolution, std::size_t index);

inline std::int64_t extent_of(const hlo::Shape& shape, std::int64_t dimension) {
  return shape.dimensions[static_cast<std::size_t>(dimension)];
}
GraphEditor::Extents extents_at(const GraphEditor::Extents& extents,
                                const GraphEditor::Extents& places);
/// The permutation that undoes another one.
GraphEditor::Extents inverse(const GraphEditor::Extents& permutation);

/// Dimension `from` goes into dimension `into`, as its major part or as its minor one. Meanwhile
/// dimension `minor` is the last one: the lanes stay as they are where it is in them; -1: none.
GraphEditor::Id merge_dimension(GraphEditor& edit, GraphEditor::Id value, std::int64_t from,
                                std::int64_t into, bool as_major, std::int64_t minor);
/// What merge_dimension() with the same arguments has made of an array of these extents becomes
/// that array again.
GraphEditor::Id split_dimension(GraphEditor& edit, GraphEditor::Id value,
                                const GraphEditor::Extents& extents, std::int64_t from,
                                std::int64_t into, bool as_major, std::int64_t minor);

}  // namespace tpu::compiler
