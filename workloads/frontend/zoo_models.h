#pragma once

#include "workloads/frontend/zoo.h"

namespace tpu::frontend {

/// The builders of the zoo; options that a builder does not read are refused before.
Workload build_mlp(const WorkloadOptions& options);
Workload build_lenet(const WorkloadOptions& options);
Workload build_resnet50(const WorkloadOptions& options);
Workload build_transformer(const WorkloadOptions& options);
Workload build_matmul(const WorkloadOptions& options);
Workload build_conv(const WorkloadOptions& options);

}  // namespace tpu::frontend
