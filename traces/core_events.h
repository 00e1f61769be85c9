#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "traces/run_record.h"
#include "traces/timeline.h"

namespace tpu::traces {

/// What a record holds of one core, in the order of time.
struct CoreEvents {
  std::uint32_t number = 0;
  const CoreResult* result = nullptr;
  std::vector<const OpEvent*> ops;
  std::vector<const WaitEvent*> waits;
  std::vector<const DmaEvent*> dmas;  ///< That it issued, or that bring it its infeed.
};
CoreEvents core_events(const RunRecord& record, std::size_t core);

/// Refuses a record without events, or with events of ops that it does not have: WorkloadError.
void check_events(const RunRecord& record);

/// Whether the host is at one end.
bool is_of_host(const DmaEvent& dma);

/// "HBM", "VMEM", ...
std::string_view space_name(isa::MemorySpace space);
/// "memory wait", ...
std::string_view wait_name(CoreState state);
/// "HBM->VMEM"; "VMEM->ICI->VMEM" to another core.
std::string dma_path(const DmaEvent& dma);

/// Executions of ops as spans in lanes: the first holds those that follow each other.
std::vector<std::vector<Span>> op_lanes(const CoreEvents& events);

/// Cycles of a core in which an op keeps a unit busy, over its cycles.
double mxu_share(const OpEvent& op, std::size_t mxu);
double vector_alu_share(const OpEvent& op);
/// The same of a unit of which an event has no count of its own: that of all executions of its op.
double mean_share(const CoreEvents& events, const OpEvent& op, Unit unit);

/// Bytes of a core's half of the HBM in `bins` equal parts of the run from `begin` on, never more
/// in a part than the pins move: what passed its channels, as they counted it. Of cores that are
/// simulated as one, the one has channels, and stands for the others. A record without them (a
/// kernel's model of the HBM in a test, an old file) has the DMAs' bytes: local ones are taken to
/// go as early as the pins let them, the one that ends first before others; those of the host and
/// of other cores evenly.
std::vector<double> hbm_bytes(const RunRecord& record, const CoreEvents& events, std::size_t bins,
                              std::uint64_t begin = 0);

}  // namespace tpu::traces
