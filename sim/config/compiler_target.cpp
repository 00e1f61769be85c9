#include "sim/config/compiler_target.h"

#include "models/memory/hbm_timing.h"

namespace tpu::config {

compiler::Target target_of(const MachineParams& params, std::uint32_t cores) {
  compiler::Target target;
  target.chip = params.chip;
  target.mxu_count = params.core.mxu.count;
  target.mxu_rows = params.core.mxu.rows;
  target.mxu_columns = params.core.mxu.columns;
  target.matmul_latency_cycles = params.core.mxu.latency_cycles();
  target.push_interval_cycles = params.core.mxu.push_interval_cycles;
  target.result_queue_entries = params.core.mxu.result_queue_entries;
  target.xlu_latency_cycles = params.core.xlu_latency_cycles;
  target.xlu_interval_cycles = params.core.xlu_interval_cycles;
  target.xlu_queue_entries = params.core.xlu_queue_entries;
  target.eup_latency_cycles = params.core.eup_latency_cycles;
  target.eup_queue_entries = params.core.eup_queue_entries;
  target.smem_words = params.core.smem_words;
  target.vmem_bytes = std::uint64_t{params.core.vmem_mib} << 20;
  target.hbm_bytes = params.core_hbm_bytes();
  target.hbm_reserved_bytes = std::uint64_t{params.hbm.reserved_mib} << 20;
  const HbmTiming timing(params.hbm, params.clock_mhz);
  const double channels =
      1.0 * params.hbm.channels * params.hbm.pseudo_channels / params.cores_per_chip;
  target.hbm_bytes_per_cycle =
      channels * timing.single_rate() * timing.memory_clocks / timing.core_clocks;
  target.dma_latency_cycles =
      params.hbm.latency_cycles +
      static_cast<std::uint32_t>(timing.to_core(timing.first_data[kHbmRead] + timing.granule));
  target.cores = cores;
  target.cores_per_chip = params.cores_per_chip;
  target.slice = params.topology();
  target.link_bytes_per_cycle = params.ici.link_mbps / 8.0 / params.clock_mhz;
  target.hop_cycles = params.ici.hop_latency_ns * params.clock_mhz / 1000;
  target.local_hop_cycles = params.ici.local_latency_ns * params.clock_mhz / 1000;
  return target;
}

}  // namespace tpu::config
