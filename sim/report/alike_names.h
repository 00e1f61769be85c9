#pragma once

#include <string>
#include <vector>

namespace tpu::report {

/// "net/stage2/block11/conv1" -> "net/stage#/block#/conv#": layers that a loop made have one
/// pattern. Names that are no scopes (without a "/") are their own pattern: compilers number what
/// is not alike.
std::string scope_pattern(const std::string& scope);

/// Names of one pattern as one: "net/stage{1,2}/block{0-2}/conv1". A number that is not everywhere
/// the same stands with all that it is, in a range where none between is missing.
std::string joined_scopes(const std::vector<std::string>& scopes);

/// "f32[8,64]{1,0:T(8,128)}" -> "f32[8,64]".
std::string without_layout(const std::string& shape);

}  // namespace tpu::report
