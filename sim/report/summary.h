#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "models/resource.h"
#include "sim/report/sequencer_account.h"
#include "traces/run_record.h"

namespace tpu::report {

/// By Resource.
using ByResource = std::array<double, kResources>;

/// What an op's time depends on most: the resources that shorten it when one of them takes no time
/// (CriticalPath::Op::gain). Nothing alone shortens a balanced op by much: its resources hide
/// behind each other, or each takes a small part.
struct Bound {
  std::vector<Resource> by;  ///< The greatest gain first; empty: balanced.
  bool is_padding = false;  ///< Work that only pads its arrays, in the one resource it is bound by.
  double gain = 0;          ///< Share of the op's time that the greatest gain is.
};
/// "HBM", "MXU+VPU", "balanced", "padding"; nothing of an op that takes no time.
std::string to_string(const Bound& bound);

/// Shares of an op's cycles, 0 to 1.
struct Shares {
  double mxu = 0;
  double vector_alu = 0;
  double vector_load = 0;
  double vector_store = 0;
  double xlu = 0;
  double eup = 0;
  double hbm = 0;
  double ici = 0;
  double peer = 0;
  double infeed = 0;
  double memory_wait = 0;  ///< Waits for a local DMA; no resource.
  double schedule = 0;     ///< Bundles, and the empty cycles that the schedule asks for.

  /// The fullest slot or unit of the vector unit.
  double vpu() const { return std::max({vector_alu, vector_load, vector_store, xlu, eup}); }
};

/// One op over all steps of the run: means over the cores that ran it.
struct OpSummary {
  std::uint32_t op = 0;  ///< Index into RunRecord::ops.
  double count = 0;
  double cycles = 0;
  std::uint64_t cycles_max = 0;  ///< Of the slowest core.
  double flops = 0;              ///< Useful.
  double matmul_flops = 0;
  double padded_matmul_flops = 0;
  double pushed_matmul_flops = 0;  ///< That the MXUs did for its matmul pushes.
  double compulsory_hbm_bytes = 0;
  double hbm_bytes = 0;  ///< Moved.
  double dmas = 0;
  double ici_bytes = 0;
  Shares shares;
  ByResource causes{};        ///< Shares of its time by what it depends on, which add up to 1.
  double matmul_padding = 1;  ///< Padded over useful matrix FLOPs.
  double layout_padding = 1;  ///< Bytes of the result with and without tile padding.
  Bound bound;
};

/// What the time of some ops together depends on, whose cycles and padding `op` has.
void find_bound(const CriticalPath& path, const std::vector<std::uint32_t>& ops, OpSummary& op);

struct StepSummary {
  std::uint64_t cycles = 0;  ///< Of the slowest core.
  double time_ms = 0;
};

/// Which steps count: the steady state, and the first step of the run beside it.
struct SteadyState {
  std::vector<std::uint64_t> warmup_cycles;  ///< Of the slowest core, of each step that ran before.
  double first_ms = 0;                       ///< The first step of the run.
  std::uint64_t number = 1;                  ///< Of the first step that counts, from 1 on.
  std::uint64_t repeats = 0;  ///< The number of the step before it that it repeats; 0: none.
};

/// Fractions of the cycles of all cores; they add up to 1.
struct Breakdown {
  double compute = 0;  ///< Bundles and the empty cycles that the schedule asks for.
  double memory_wait = 0;
  double infeed_wait = 0;
  double outfeed_wait = 0;
  double ici_wait = 0;
  double peer_wait = 0;       ///< For a core that computes or waits for its own memory.
  double peer_host_wait = 0;  ///< For a core that waits for its infeed or outfeed.
  double host_wait = 0;       ///< Send and receive; the machine has none yet, so this stays 0.
  double finished = 0;        ///< The core has ended while others still run.
};

/// Where the cycles of a unit went, as fractions that add up to 1: busy, or idle while the core was
/// in a state; "issue" there: the core ran and gave the unit nothing to do.
struct UnitSummary {
  Unit unit = Unit::kScalar;
  double busy = 0;
  std::array<double, CycleAccount<CoreState>::kStates> idle{};  ///< By CoreState.
};

struct Utilization {
  double mxu = 0;        ///< Matmul push slots used: pushes x interval / (cycles x MXUs).
  double mxu_flops = 0;  ///< Model FLOPs (Summary::model_flops) over the MXUs' peak.
  double vpu = 0;        ///< Vector ALU operations / (2 x cycles).
  double hbm = 0;        ///< HBM bytes moved over what the pins could move.
  double ici = 0;        ///< Bytes sent over what the links of the chips could carry.
};

/// The least time of a step: the greater of useful FLOPs over peak and compulsory bytes over the
/// pin rate of the HBM.
struct Roofline {
  double compute_ms = 0;
  double memory_ms = 0;
  double bound_ms = 0;
  double reached = 0;  ///< bound / mean step time.
};

/// HBM of one core.
struct Memory {
  std::uint64_t hbm_peak_bytes = 0;  ///< Most that hold data at a time.
  std::uint64_t hbm_plan_bytes = 0;  ///< What the buffers span, gaps between them included.
  std::uint64_t hbm_capacity_bytes = 0;
  std::uint64_t padded_bytes = 0;  ///< Of all buffers.
  std::uint64_t unpadded_bytes = 0;
  /// Covered by the buffers of each BufferRole, shared ranges once; donated outputs count as
  /// parameters.
  std::array<std::uint64_t, 5> role_bytes{};
  std::vector<std::uint32_t> largest;  ///< Indices into RunRecord::buffers.
};
const char* role_name(isa::BufferRole role);

/// What reports say of a run, computed once.
struct Summary {
  std::vector<StepSummary> steps;
  double step_mean_ms = 0, step_min_ms = 0, step_max_ms = 0;
  SteadyState steady;
  double examples_per_s = 0;  ///< 0 where the program does not say what an example is.
  Utilization utilization;
  Breakdown breakdown;
  SequencerAccount sequencer{};    ///< Cycles of all cores together.
  std::vector<UnitSummary> units;  ///< All cores together; MXUs that the machine has.
  double idle_fraction = 0;  ///< The core waits for a host, its own or a peer's, or has no work.
  /// Cores that others waited for, most core cycles first: number and fraction of all cycles.
  std::vector<std::pair<std::uint32_t, double>> late_cores;
  Roofline roofline;
  Memory memory;
  std::vector<OpSummary> ops;  ///< Most cycles first.
  /// Useful FLOPs of dots and convolutions of a step and core: of the graph, or of what the machine
  /// executed where the graph has loops and branches that depend on data.
  double model_flops = 0;
  bool model_flops_are_executed = false;
  double useful_matmul_flops = 0;  ///< Of the operations executed, all steps of a core.
  double padded_matmul_flops = 0;
  double pushed_matmul_flops = 0;
  double hbm_bytes_per_step = 0;  ///< Moved, mean of a core.
  std::uint64_t core_cycles = 0;  ///< Simulated cycles of all cores together.
};

Summary summarize(const traces::RunRecord& record);

}  // namespace tpu::report
