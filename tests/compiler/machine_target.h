#pragma once

#include "models/params.h"
#include "workloads/compiler/target.h"

namespace tpu::test {

/// What the compiler is told of a machine.
inline compiler::Target target_of(const MachineParams& params, std::uint32_t cores) {
  compiler::Target target;
  target.chip = params.chip;
  target.mxu_count = params.core.mxu.count;
  target.mxu_rows = params.core.mxu.rows;
  target.mxu_columns = params.core.mxu.columns;
  target.matmul_latency_cycles = params.core.mxu.matmul_latency_cycles;
  target.push_interval_cycles = params.core.mxu.push_interval_cycles;
  target.result_queue_entries = params.core.mxu.result_queue_entries;
  target.xlu_latency_cycles = params.core.xlu_latency_cycles;
  target.xlu_interval_cycles = params.core.xlu_interval_cycles;
  target.xlu_queue_entries = params.core.xlu_queue_entries;
  target.eup_latency_cycles = params.core.eup_latency_cycles;
  target.eup_queue_entries = params.core.eup_queue_entries;
  target.vmem_bytes = std::uint64_t{params.core.vmem_mib} << 20;
  target.hbm_bytes = params.core_hbm_bytes();
  target.hbm_reserved_bytes = std::uint64_t{params.hbm.reserved_mib} << 20;
  target.dma_latency_cycles = params.hbm.latency_cycles;
  target.cores = cores;
  target.cores_per_chip = params.cores_per_chip;
  target.mesh_x = params.ici.mesh_x;
  target.mesh_y = params.ici.mesh_y;
  return target;
}

/// The published v2-8 beside the default parameters, which are v3-8.
inline MachineParams v2_8() {
  MachineParams params;
  params.name = "v2-8";
  params.chip = "v2";
  params.clock_mhz = 700;
  params.core.mxu.count = 1;
  params.hbm.gib = 16;
  params.hbm.pin_mbps = 1400;
  params.ici.link_mbps = 496000;
  return params;
}

}  // namespace tpu::test
