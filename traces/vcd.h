#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include "traces/bundle_recorder.h"
#include "traces/run_record.h"

namespace tpu::traces {

/// Cycles of a run that an export shows: from the first on, up to the second.
struct Window {
  std::uint64_t begin = 0;
  std::uint64_t end = std::numeric_limits<std::uint64_t>::max();
};

/// Bundles of a run that say what its units do; without them nothing does.
struct UnitBundles {
  const isa::Program* program = nullptr;
  const BundleLog* log = nullptr;
};

/// Writes a value change dump (IEEE 1364) for GTKWave: for each core the step, the op, what the
/// core waits for, the DMAs that are on their way and their bytes; with bundles, of each unit and
/// slot of the cores that issued them the instruction that keeps it busy. Time in picoseconds, an
/// edge of the clock is the begin of a cycle.
void export_vcd(const RunRecord& record, const Window& window, const std::string& path,
                const UnitBundles& units = {});

}  // namespace tpu::traces
