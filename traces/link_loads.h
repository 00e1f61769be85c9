#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "isa/topology.h"
#include "traces/hdf5_file.h"
#include "traces/run_record.h"

namespace tpu::traces {

/// What went over one direction of a link between two chips.
struct LinkLoad {
  std::uint32_t from_chip = 0, to_chip = 0;
  isa::Topology::Direction direction = isa::Topology::kEast;
  std::uint64_t bytes = 0;
  double utilization = 0;  ///< Of what the link could carry in the steps that count.
};

/// The links of the slice, those of a chip together, with what the DMAs of the steps that count
/// took over them: each takes the way of Topology::towards(), as in the network itself. Additions
/// to sync flags are left out. Empty for a record without events and for a slice of one chip.
std::vector<LinkLoad> link_loads(const RunRecord& record);

/// Bytes over a link in `bins` equal parts of the run, never more in a part than it carries: a DMA
/// passes each link of its way as early in its time as there is room.
std::vector<double> link_bytes(const RunRecord& record, const LinkLoad& link, std::size_t bins);

/// "+x", "-x", "+y", ...
const char* direction_name(isa::Topology::Direction direction);

Table links_table(const std::vector<LinkLoad>& links);

}  // namespace tpu::traces
