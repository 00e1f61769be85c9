#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "workloads/frontend/workload.h"

namespace tpu::frontend {

/// What may be chosen of a workload; what is not set takes the workload's default. Each workload
/// has some of them: setting another is a UsageError that lists those it has.
struct WorkloadOptions {
  std::int64_t replicas = 1;          ///< Data-parallel cores: gradients are averaged over them.
  bool forward_only = false;          ///< An evaluation step instead of a training step.
  std::optional<std::int64_t> batch;  ///< Examples per replica and step.
  std::optional<std::string> dtype;   ///< "f32" or "bf16": type of activations and operands.
  /// "default", "high", "highest": what dots and convolutions of f32 ask of the MXUs.
  std::optional<std::string> precision;
  std::optional<double> learning_rate;
  std::optional<std::int64_t> image;  ///< Height and width of the images before space-to-depth.
  std::optional<std::int64_t> classes;
  std::optional<std::int64_t> layers, width, heads, sequence, vocabulary;
  /// Layers have their features rounded up to a multiple of it: 128 fills lanes and MXUs.
  std::optional<std::int64_t> feature_multiple;
  std::optional<std::string> shape;    ///< "MxKxN", "NxHxWxCixCo".
  std::optional<std::string> kernel;   ///< "3" or "3x3".
  std::optional<std::string> stride;   ///< "1" or "1x1".
  std::optional<std::string> padding;  ///< "same", "valid", "1", "1x1", "0_1x0_1".
  std::optional<std::string> pass;     ///< "fwd", "dgrad", "wgrad".

  StepForm form() const { return {replicas, forward_only}; }
};

/// Sets an option from text; UsageError for a name that is none or a value that does not parse.
void set_option(WorkloadOptions& options, std::string_view name, std::string_view value);

struct WorkloadInfo {
  std::string_view name;
  std::string_view description;
  std::vector<std::string_view> options;
};
/// The zoo, in the order to show it.
const std::vector<WorkloadInfo>& workload_list();
bool is_workload(std::string_view name);

/// Builds a workload of the zoo. UsageError for a name or option that does not exist, or a value
/// outside what is allowed; WorkloadError for sizes that do not fit together.
Workload build_workload(std::string_view name, const WorkloadOptions& options = {});

}  // namespace tpu::frontend
