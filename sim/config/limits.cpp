#include "sim/config/limits.h"

namespace tpu::config {
namespace {

constexpr std::string_view kCellsPerCycle = "a block of 128 x 128 cells is crossed in whole cycles";
constexpr std::string_view kVectorShape =
    "a multiple of 128: the instruction set pushes vector registers of 8 x 128 into it";

constexpr Limits kLimits[] = {
    {"clock_mhz", 1, 20000, ""},
    {"cores_per_chip", 1, 2, "sync flag addresses have one bit for the core"},
    {"core.mxu.count", 1, 4, "the instruction set names mxu0 to mxu3"},
    {"core.mxu.rows", 128, 512, kVectorShape},
    {"core.mxu.columns", 128, 512, kVectorShape},
    {"core.mxu.sum_cells_per_cycle", 1, 128, kCellsPerCycle},
    {"core.mxu.operand_cells_per_cycle", 1, 128, kCellsPerCycle},
    {"core.mxu.pipeline_stages", 1, 10000, ""},
    {"core.mxu.result_queue_entries", 1, 65536, ""},
    {"core.cmem.mib", 0, 1024, "0: none"},
    {"core.cmem.load_latency_cycles", 0, 10000, ""},
    {"core.cmem.load_interval_cycles", 1, 1000, ""},
    {"core.cmem.queue_entries", 1, 65536, ""},
    {"core.vmem_mib", 1, 1024, ""},
    {"core.smem_words", 1024, 1048576, ""},
    {"core.sync_flags", 64, 65536, ""},
    {"core.xlu_latency_cycles", 1, 10000, ""},
    {"core.xlu_interval_cycles", 1, 1000, ""},
    {"core.xlu_queue_entries", 1, 65536, ""},
    {"core.eup_latency_cycles", 1, 10000, ""},
    {"core.eup_queue_entries", 1, 65536, ""},
    {"core.scalar_queue_entries", 1, 65536, ""},
    {"hbm.gib", 1, 4096, ""},
    {"hbm.channels", 1, 1024, ""},
    {"hbm.channel_bits", 8, 4096, ""},
    {"hbm.pseudo_channels", 1, 64, ""},
    {"hbm.pin_mbps", 2, 1000000, ""},
    {"hbm.burst_beats", 2, 64, ""},
    {"hbm.banks", 8, 1024, "the rows of a stream go to the banks in turn"},
    {"hbm.row_bytes", 1024, 1048576, ""},
    {"hbm.refresh_interval_ns", 0, 1000000, "0 switches refresh off"},
    {"hbm.refresh_ns", 0, 1000000, ""},
    {"hbm.first_refresh_ns", 0, 1000000, ""},
    {"hbm.precharge_ns", 0, 10000, ""},
    {"hbm.read_activate_ns", 0, 10000, ""},
    {"hbm.write_activate_ns", 0, 10000, ""},
    {"hbm.read_latency_ns", 0, 10000, ""},
    {"hbm.write_latency_ns", 0, 10000, ""},
    {"hbm.read_to_precharge_ns", 0, 10000, ""},
    {"hbm.write_recovery_ns", 0, 10000, ""},
    {"hbm.write_to_read_ns", 0, 10000, ""},
    {"hbm.bus_turn_clocks", 0, 10000, ""},
    {"hbm.command.bank_groups", 1, 64, ""},
    {"hbm.command.row_to_row_ns", 0, 10000, ""},
    {"hbm.command.row_to_row_group_ns", 0, 10000, ""},
    {"hbm.command.four_rows_ns", 0, 10000, ""},
    {"hbm.command.row_open_ns", 0, 10000, ""},
    {"hbm.command.column_to_column_group_clocks", 1, 1000, ""},
    {"hbm.command.write_to_read_other_ns", 0, 10000, ""},
    {"hbm.command.queue_granules", 1, 1024, ""},
    {"hbm.command.bank_refresh_ns", 0, 1000000, ""},
    {"hbm.drain_bursts", 1, 1000000, ""},
    {"hbm.latency_cycles", 0, 1000000, ""},
    {"hbm.reserved_mib", 0, 4194304, ""},
    {"dma.issue_interval_cycles", 1, 1000000, ""},
    {"ici.mesh_x", 1, 128, ""},
    {"ici.mesh_y", 1, 128, ""},
    {"ici.mesh_z", 1, 128, ""},
    {"ici.link_mbps", 1, 1000000000, ""},
    {"ici.hop_latency_ns", 0, 1000000000, ""},
    {"ici.local_latency_ns", 0, 1000000000, ""},
    {"ici.message_kib", 1, 1048576, ""},
    {"host.chips", 1, 8192, ""},
    {"host.examples_per_s", 0, 1e15, ""},
    {"host.vcpus", 1, 4096, ""},
    {"host.ram_gib", 1, 65536, ""},
    {"host.storage_mb_per_s", 0.001, 1e9, ""},
    {"host.storage_latency_us", 0, 1e9, ""},
    {"host.storage_parallel_reads", 1, 65536, ""},
    {"host.disk_mb_per_s", 0.001, 1e9, ""},
    {"host.disk_latency_us", 0, 1e9, ""},
    {"host.copy_mb_per_s", 0.001, 1e9, ""},
    {"host.network_mb_per_s", 0, 1e9, "0: a TPU VM, no network between"},
    {"host.hand_over_us", 0, 1e9, ""},
    {"host.hand_over_mb_per_s", 0, 1e9, "0: no time"},
    {"input.images", 0, 4294967295.0, ""},
    {"input.file_bytes", 0, 4294967295.0, ""},
    {"input.pixels", 0, 4294967295.0, ""},
    {"input.decode_ns_per_pixel", 0, 1e9, ""},
    {"input.augment_us", 0, 1e12, ""},
    {"input.load_us", 0, 1e12, ""},
    {"input.workers", 0, 4096, "0: as many as the host has vCPUs"},
    {"input.shuffle_examples", 0, 16777216, "0: none"},
    {"input.prefetch_batches", 0, 1024, ""},
    {"host.infeed_queue_batches", 1, 65536, ""},
    {"host.infeed_queue_kib", 0, 4194304, "0: not bounded in bytes"},
    {"host.outfeed_queue_kib", 0, 4194304, "0: none"},
    {"host.pcie_gb_per_s", 1, 1000000, ""},
    {"host.pcie_latency_ns", 0, 1000000000, ""},
};

}  // namespace

const Limits* limits_of(std::string_view path) {
  for (const Limits& limits : kLimits) {
    if (limits.path == path) return &limits;
  }
  return nullptr;
}

}  // namespace tpu::config
