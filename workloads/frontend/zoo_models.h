#pragma once

#include "workloads/frontend/zoo.h"

namespace tpu::frontend {

/// The builders of the zoo; options that a builder does not read are refused before.
Workload build_mlp(const WorkloadOptions& options);
Workload build_lenet(const WorkloadOptions& options);
Workload build_resnet50(const WorkloadOptions& options);
Workload build_transformer(const WorkloadOptions& options);
Workload build_bert(const WorkloadOptions& options);
Workload build_bert_large(const WorkloadOptions& options);
Workload build_roberta(const WorkloadOptions& options);
Workload build_fairseq_transformer(const WorkloadOptions& options);
Workload build_biggan(const WorkloadOptions& options);
Workload build_matmul(const WorkloadOptions& options);
Workload build_conv(const WorkloadOptions& options);

}  // namespace tpu::frontend
