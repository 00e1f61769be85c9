#pragma once

#include <cstdint>

#include "traces/core_events.h"
#include "traces/perfetto_file.h"
#include "traces/run_record.h"

namespace tpu::traces {

/// The counters of a core: HBM GB/s, MXU %, bytes of HBM and VMEM in use. `rank` is the place of
/// the first among its tracks.
void write_core_counters(PerfettoFile& file, const RunRecord& record, const CoreEvents& events,
                         std::uint32_t rank);

/// GB/s of each channel of the HBM, in stretches as they were counted where they passed. Of cores
/// that are simulated as one, the one has them.
void write_hbm_channels(PerfettoFile& file, const RunRecord& record);

/// GB/s of each direction of each link that carries something.
void write_link_counters(PerfettoFile& file, const RunRecord& record);

/// GB/s of the infeed and outfeed queues of all cores together (their side of the HBM, not that of
/// PCIe), and for each stage of the input pipeline a slice as long as the
/// steps that count, with its share.
void write_host(PerfettoFile& file, const RunRecord& record);

}  // namespace tpu::traces
