#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "workloads/frontend/layers.h"
#include "workloads/frontend/zoo.h"

namespace tpu::frontend {

/// Largest batch, image, width...: far above what any TPU v2 or v3 holds, low enough that no size
/// overflows.
inline constexpr std::int64_t kLargestBatch = 1 << 20;
inline constexpr std::int64_t kLargestReplicas = 2048;
inline constexpr std::int64_t kLargestExtent = 1 << 30;

/// WorkloadOptions::feature_multiple, 1 where it is not set.
std::int64_t checked_feature_multiple(const WorkloadOptions& options);

/// Checks a number; UsageError "option batch: expected 1 to 1048576, found 0".
std::int64_t checked(std::string_view option, std::int64_t value, std::int64_t low,
                     std::int64_t high);
/// The option, its default when unset, within bounds.
std::int64_t checked(std::string_view option, const std::optional<std::int64_t>& value,
                     std::int64_t otherwise, std::int64_t low, std::int64_t high);
/// A width of a model of language, and words that it knows, rounded up to a multiple of
/// WorkloadOptions::feature_multiple.
std::int64_t full_width(const WorkloadOptions& options, std::int64_t width);
/// The most heads, up to `heads`, of which each has such a multiple of the width.
std::int64_t full_heads(const WorkloadOptions& options, std::int64_t width, std::int64_t heads);
/// Refuses heads that do not divide the width.
void check_heads(std::int64_t width, std::int64_t heads);
double checked_rate(const std::optional<double>& value, double otherwise);
/// "default" when unset; one of three.
std::string checked_precision(const std::optional<std::string>& value);
hlo::ElementType element_type(const std::optional<std::string>& value, hlo::ElementType otherwise);

/// "8x128x256" -> {8, 128, 256}; each from `low` to kLargestExtent.
Extents parse_extents(std::string_view option, std::string_view text, std::size_t count,
                      std::string_view form, std::int64_t low = 1);
/// "3" or "3x3" -> two numbers.
Extents parse_pair(std::string_view option, std::string_view text);
/// Padding of two dimensions: "same", "valid", "1", "1x2", "0_1x0_1".
std::vector<Padding> parse_padding(std::string_view text, const Extents& input,
                                   const Extents& kernel, const Extents& stride);

}  // namespace tpu::frontend
