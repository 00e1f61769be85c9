#include "sim/report/summary.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "sim/base/error.h"
#include "traces/buffer_lifetimes.h"
#include "workloads/graph/shape.h"

namespace tpu::report {
namespace {

constexpr double kMostlyPadding = 1.5;
constexpr std::size_t kBuffersNamed = 5;

double ratio(double part, double whole) { return whole > 0 ? part / whole : 0; }

/// HBM bytes that the pins behind one core could move in a core cycle.
double pin_bytes_per_cycle(const MachineParams& params) {
  return params.core_hbm_bytes_per_s() / (params.clock_mhz * 1e6);
}

/// Bytes that the links of a chip could carry away in a core cycle: mean over the chips of the
/// mesh, whose border chips have fewer links.
double link_bytes_per_cycle(const MachineParams& params) {
  const double links = static_cast<double>(params.topology().links()) / params.chips();
  return links * params.ici.link_mbps / 8 / params.clock_mhz;
}

Counters total_of(const RunResult& result) {
  Counters total;
  for (const CoreResult& core : result.cores) total += core.total;
  return total;
}

/// Bytes of an op's result with tile padding over those without; 1 where the shape has no layout.
double layout_padding(const std::string& shape) {
  if (shape.find(":T(") == std::string::npos) return 1;
  try {
    const hlo::Shape parsed = hlo::parse_shape(shape);
    const double unpadded = static_cast<double>(parsed.unpadded_bytes());
    return unpadded > 0 ? static_cast<double>(parsed.padded_bytes()) / unpadded : 1;
  } catch (const UserError&) {
    return 1;  // A shape that only XLA writes says nothing about padding.
  }
}

Shares shares_of(const MachineParams& params, const Counters& counters, double cycles) {
  Shares shares;
  for (std::uint32_t mxu = 0; mxu < params.core.mxu.count; ++mxu) {
    const std::size_t unit = static_cast<std::size_t>(Unit::kMxu0) + mxu;
    shares.mxu =
        std::max(shares.mxu, ratio(static_cast<double>(counters.busy_cycles[unit]), cycles));
  }
  const auto busy = [&](Unit unit) {
    return ratio(static_cast<double>(counters.busy_cycles[static_cast<std::size_t>(unit)]), cycles);
  };
  shares.vector_alu = ratio(static_cast<double>(counters.vector_alu_ops), 2 * cycles);
  shares.vector_load = ratio(static_cast<double>(counters.vector_loads), cycles);
  shares.vector_store = ratio(static_cast<double>(counters.vector_stores), cycles);
  shares.xlu = busy(Unit::kXlu);
  shares.eup = busy(Unit::kEup);
  shares.hbm = ratio(static_cast<double>(counters.hbm_read_bytes + counters.hbm_write_bytes),
                     cycles * pin_bytes_per_cycle(params));
  const auto state = [&](CoreState which) {
    return ratio(static_cast<double>(counters.core[which]), cycles);
  };
  shares.ici = state(CoreState::kIciWait);
  shares.peer = state(CoreState::kPeerWait);
  shares.infeed = state(CoreState::kInfeedWait) + state(CoreState::kOutfeedWait) +
                  state(CoreState::kPeerHostWait);
  shares.memory_wait = state(CoreState::kMemoryWait);
  shares.schedule = state(CoreState::kIssue) + state(CoreState::kDelay);
  return shares;
}

/// Shares of an op's time by what it depends on.
ByResource causes_by_resource(const CriticalPath& path, std::uint32_t op) {
  if (op >= path.ops.size()) return {};
  ByResource causes = path.ops[op].cycles;
  const double all = std::accumulate(causes.begin(), causes.end(), 0.0);
  for (double& cause : causes) cause = ratio(cause, all);
  return causes;
}

/// FLOPs of one matmul push: what the MXU can do from it to the next.
double flops_per_push(const MachineParams& params) {
  return params.core_peak_flops() / (params.clock_mhz * 1e6) / params.core.mxu.blocks() *
         params.core.mxu.push_interval_cycles;
}

OpSummary summarize_op(const traces::RunRecord& record, std::uint32_t index) {
  const isa::OpInfo& info = record.ops[index];
  OpSummary op;
  op.op = index;
  Counters counters;
  std::uint64_t count = 0, cycles = 0;
  std::size_t cores = 0;
  for (const CoreResult& core : record.result.cores) {
    if (index >= core.ops.size() || core.ops[index].count == 0) continue;
    const OpResult& result = core.ops[index];
    ++cores;
    count += result.count;
    cycles += result.cycles;
    counters += result.counters;
    op.cycles_max = std::max(op.cycles_max, result.cycles);
  }
  if (cores == 0) return op;
  const double share = 1.0 / static_cast<double>(cores);
  op.count = static_cast<double>(count) * share;
  op.cycles = static_cast<double>(cycles) * share;
  op.flops = static_cast<double>(info.flops) * op.count;
  op.matmul_flops = static_cast<double>(info.matmul_flops) * op.count;
  op.padded_matmul_flops = static_cast<double>(info.padded_matmul_flops) * op.count;
  op.pushed_matmul_flops =
      static_cast<double>(counters.matmul_pushes) * share * flops_per_push(record.params);
  op.compulsory_hbm_bytes = static_cast<double>(info.hbm_bytes) * op.count;
  op.hbm_bytes = static_cast<double>(counters.hbm_read_bytes + counters.hbm_write_bytes) * share;
  op.dmas = static_cast<double>(counters.dmas) * share;
  op.ici_bytes = static_cast<double>(counters.ici_bytes) * share;
  op.shares = shares_of(record.params, counters, static_cast<double>(cycles));
  op.causes = causes_by_resource(record.result.critical_path, index);
  if (info.matmul_flops > 0 && info.padded_matmul_flops > 0) {
    op.matmul_padding = op.padded_matmul_flops / op.matmul_flops;
  }
  op.layout_padding = layout_padding(info.shape);
  find_bound(record.result.critical_path, {index}, op);
  return op;
}

void summarize_ops(const traces::RunRecord& record, Summary& summary) {
  for (std::uint32_t index = 0; index < record.ops.size(); ++index) {
    OpSummary op = summarize_op(record, index);
    if (op.count == 0) continue;
    summary.useful_matmul_flops += op.matmul_flops;
    summary.padded_matmul_flops +=
        op.padded_matmul_flops > 0 ? op.padded_matmul_flops : op.matmul_flops;
    summary.pushed_matmul_flops += op.pushed_matmul_flops;
    summary.ops.push_back(op);
  }
  std::stable_sort(summary.ops.begin(), summary.ops.end(),
                   [](const OpSummary& a, const OpSummary& b) { return a.cycles > b.cycles; });
  summary.model_flops_are_executed = record.data_dependent_control > 0;
  summary.model_flops =
      summary.model_flops_are_executed
          ? ratio(summary.useful_matmul_flops, static_cast<double>(summary.steps.size()))
          : static_cast<double>(record.model_flops);
}

/// Cycles of each of the warm-up steps or of those that count, of the slowest core.
std::vector<std::uint64_t> slowest(const std::vector<CoreResult>& cores,
                                   std::vector<StepSpan> CoreResult::*spans) {
  std::vector<std::uint64_t> cycles;
  for (const CoreResult& core : cores) {
    const std::vector<StepSpan>& mine = core.*spans;
    cycles.resize(std::max(cycles.size(), mine.size()));
    for (std::size_t step = 0; step < mine.size(); ++step) {
      cycles[step] = std::max(cycles[step], mine[step].end - mine[step].begin);
    }
  }
  return cycles;
}

void find_steady_state(const traces::RunRecord& record, Summary& summary) {
  SteadyState& steady = summary.steady;
  steady.warmup_cycles = slowest(record.result.cores, &CoreResult::warmup);
  steady.number = steady.warmup_cycles.size() + 1;
  if (steady.warmup_cycles.empty()) {
    steady.first_ms = summary.steps.front().time_ms;
    return;
  }
  steady.first_ms = record.params.seconds(steady.warmup_cycles.front()) * 1e3;
  std::vector<StepSpan> before;
  for (const std::uint64_t cycles : steady.warmup_cycles) before.push_back({0, cycles});
  const std::size_t back = repeated_step(record.params, before, summary.steps.front().cycles);
  if (back > 0) steady.repeats = steady.number - back;
}

void summarize_steps(const traces::RunRecord& record, Summary& summary) {
  for (const std::uint64_t cycles : slowest(record.result.cores, &CoreResult::steps)) {
    summary.steps.push_back({cycles, record.params.seconds(cycles) * 1e3});
  }
  if (summary.steps.empty()) return;
  summary.step_min_ms = summary.steps.front().time_ms;
  for (const StepSummary& step : summary.steps) {
    summary.step_mean_ms += step.time_ms / static_cast<double>(summary.steps.size());
    summary.step_min_ms = std::min(summary.step_min_ms, step.time_ms);
    summary.step_max_ms = std::max(summary.step_max_ms, step.time_ms);
  }
  find_steady_state(record, summary);
  const double examples = static_cast<double>(record.examples_per_core) *
                          static_cast<double>(record.result.cores.size());
  summary.examples_per_s = ratio(examples, summary.step_mean_ms / 1e3);
}

std::vector<std::pair<std::uint32_t, double>> late_cores_of(const RunResult& result,
                                                            double cycles) {
  std::map<std::uint32_t, std::uint64_t> waited;
  for (const CoreResult& core : result.cores) {
    for (const auto& [late, waits] : core.waited_for) waited[late] += waits;
  }
  std::vector<std::pair<std::uint32_t, double>> late;
  late.reserve(waited.size());
  for (const auto& [core, waits] : waited) {
    late.emplace_back(core, ratio(static_cast<double>(waits), cycles));
  }
  std::stable_sort(late.begin(), late.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  return late;
}

Breakdown breakdown_of(const CycleAccount<CoreState>& account) {
  const double total = static_cast<double>(account.total());
  const auto part = [&](CoreState state) {
    return ratio(static_cast<double>(account[state]), total);
  };
  Breakdown breakdown;
  breakdown.compute = part(CoreState::kIssue) + part(CoreState::kDelay);
  breakdown.memory_wait = part(CoreState::kMemoryWait);
  breakdown.infeed_wait = part(CoreState::kInfeedWait);
  breakdown.outfeed_wait = part(CoreState::kOutfeedWait);
  breakdown.ici_wait = part(CoreState::kIciWait);
  breakdown.peer_wait = part(CoreState::kPeerWait);
  breakdown.peer_host_wait = part(CoreState::kPeerHostWait);
  breakdown.finished = part(CoreState::kFinished);
  return breakdown;
}

std::vector<UnitSummary> units_of(const MachineParams& params, const Counters& total) {
  std::vector<UnitSummary> units;
  const std::size_t first_mxu = static_cast<std::size_t>(Unit::kMxu0);
  for (std::size_t index = 0; index < kUnits; ++index) {
    const bool is_mxu = index >= first_mxu && index <= static_cast<std::size_t>(Unit::kMxu3);
    if (is_mxu && index - first_mxu >= params.core.mxu.count) continue;
    UnitSummary unit;
    unit.unit = static_cast<Unit>(index);
    const UnitAccount account = unit_account(total, unit.unit);
    const double cycles = static_cast<double>(account.total());
    unit.busy = ratio(static_cast<double>(account.busy), cycles);
    for (std::size_t state = 0; state < unit.idle.size(); ++state) {
      unit.idle[state] =
          ratio(static_cast<double>(account.idle[static_cast<CoreState>(state)]), cycles);
    }
    units.push_back(unit);
  }
  return units;
}

Utilization utilization_of(const traces::RunRecord& record, const Counters& total,
                           double model_flops, std::size_t steps) {
  const MachineParams& params = record.params;
  const double cycles = static_cast<double>(total.core.total());
  const MxuParams& mxu = params.core.mxu;
  const double cores = static_cast<double>(record.result.cores.size());
  Utilization used;
  used.mxu = ratio(static_cast<double>(total.matmul_pushes) * mxu.push_interval_cycles,
                   cycles * mxu.blocks());
  const double flops = model_flops * cores * static_cast<double>(steps);
  used.mxu_flops = ratio(flops, cycles / (params.clock_mhz * 1e6) * params.core_peak_flops());
  used.vpu = ratio(static_cast<double>(total.vector_alu_ops), 2 * cycles);
  used.hbm = ratio(static_cast<double>(total.hbm_read_bytes + total.hbm_write_bytes),
                   cycles * pin_bytes_per_cycle(params));
  std::vector<std::uint32_t> chips;
  for (const CoreResult& core : record.result.cores) chips.push_back(core.chip);
  std::sort(chips.begin(), chips.end());
  chips.erase(std::unique(chips.begin(), chips.end()), chips.end());
  const double cycles_per_core = ratio(cycles, cores);
  used.ici =
      ratio(static_cast<double>(total.ici_bytes),
            cycles_per_core * static_cast<double>(chips.size()) * link_bytes_per_cycle(params));
  return used;
}

/// Granules that the buffers of a role cover; temporaries share ranges at different times.
std::uint64_t covered_bytes(const std::vector<isa::Buffer>& buffers,
                            const std::vector<std::uint32_t>& counted, isa::BufferRole role) {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> ranges;
  for (const std::uint32_t index : counted) {
    const isa::Buffer& buffer = buffers[index];
    if (buffer.role != role) continue;
    const std::uint64_t begin = buffer.granule * isa::kHbmGranuleBytes;
    ranges.emplace_back(begin, begin + buffer.bytes);
  }
  std::sort(ranges.begin(), ranges.end());
  std::uint64_t covered = 0, end = 0;
  for (const auto& [from, to] : ranges) {
    const std::uint64_t start = std::max(from, end);
    if (to > start) covered += to - start;
    end = std::max(end, to);
  }
  return covered;
}

Memory memory_of(const traces::RunRecord& record) {
  Memory memory;
  memory.hbm_peak_bytes = traces::hbm_peak_bytes(record);
  memory.hbm_plan_bytes = record.hbm_plan_bytes;
  memory.hbm_capacity_bytes = record.params.core_hbm_bytes();
  std::vector<std::uint64_t> parameter_granules;
  for (const isa::Buffer& buffer : record.buffers) {
    if (buffer.role == isa::BufferRole::kParameter) parameter_granules.push_back(buffer.granule);
  }
  std::sort(parameter_granules.begin(), parameter_granules.end());
  for (std::size_t i = 0; i < record.buffers.size(); ++i) {
    const isa::Buffer& buffer = record.buffers[i];
    const bool donated =
        buffer.role == isa::BufferRole::kOutput &&
        std::binary_search(parameter_granules.begin(), parameter_granules.end(), buffer.granule);
    if (donated) continue;
    memory.padded_bytes += buffer.bytes;
    memory.unpadded_bytes += buffer.unpadded_bytes;
    memory.largest.push_back(static_cast<std::uint32_t>(i));
  }
  for (std::size_t role = 0; role < memory.role_bytes.size(); ++role) {
    memory.role_bytes[role] =
        covered_bytes(record.buffers, memory.largest, static_cast<isa::BufferRole>(role));
  }
  std::stable_sort(memory.largest.begin(), memory.largest.end(),
                   [&](std::uint32_t a, std::uint32_t b) {
                     return record.buffers[a].bytes > record.buffers[b].bytes;
                   });
  if (memory.largest.size() > kBuffersNamed) memory.largest.resize(kBuffersNamed);
  return memory;
}

}  // namespace

/// Resources that alone shorten the ops by `kBinds` of their time, the others as well that come
/// near the first of them.
void find_bound(const CriticalPath& path, const std::vector<std::uint32_t>& ops, OpSummary& op) {
  constexpr double kBinds = 1.0 / 3, kNear = 0.5;
  constexpr std::size_t kMostNamed = 2;
  std::array<std::int64_t, kResources> gains{};
  for (const std::uint32_t each : ops) {
    if (each >= path.ops.size()) return;
    for (std::size_t r = 0; r < kResources; ++r) gains[r] += path.ops[each].gain[r];
  }
  op.bound = {};
  const std::int64_t most = *std::max_element(gains.begin(), gains.end());
  op.bound.gain = std::max(0.0, ratio(static_cast<double>(most), op.cycles));
  if (op.bound.gain < kBinds) return;
  for (std::size_t r = 0; r < kResources; ++r) {
    if (static_cast<double>(gains[r]) < kNear * static_cast<double>(most)) continue;
    op.bound.by.push_back(static_cast<Resource>(r));
  }
  std::stable_sort(op.bound.by.begin(), op.bound.by.end(), [&](Resource a, Resource b) {
    return gains[static_cast<std::size_t>(a)] > gains[static_cast<std::size_t>(b)];
  });
  if (op.bound.by.size() > kMostNamed) op.bound.by.clear();
  if (op.bound.by.size() != 1) return;
  const Resource by = op.bound.by.front();
  op.bound.is_padding =
      (by == Resource::kMxu && op.matmul_padding > kMostlyPadding) ||
      ((by == Resource::kVector || by == Resource::kHbm) && op.layout_padding > kMostlyPadding);
}

std::string to_string(const Bound& bound) {
  if (bound.is_padding) return "padding";
  std::string text;
  for (const Resource resource : bound.by) {
    text += (text.empty() ? "" : "+") + std::string(tpu::to_string(resource));
  }
  if (!text.empty()) return text;
  return bound.gain > 0 ? "balanced" : "";
}

const char* role_name(isa::BufferRole role) {
  switch (role) {
    case isa::BufferRole::kParameter:
      return "parameters";
    case isa::BufferRole::kOutput:
      return "outputs";
    case isa::BufferRole::kTemporary:
      return "temporaries";
    case isa::BufferRole::kConstant:
      return "constants";
    case isa::BufferRole::kInfeed:
      return "infeed";
  }
  return "?";
}

Summary summarize(const traces::RunRecord& record) {
  Summary summary;
  summarize_steps(record, summary);
  summarize_ops(record, summary);
  const Counters total = total_of(record.result);
  const std::size_t steps = summary.steps.size();
  const double cores = static_cast<double>(record.result.cores.size());
  summary.core_cycles = total.core.total();
  summary.utilization = utilization_of(record, total, summary.model_flops, steps);
  summary.breakdown = breakdown_of(total.core);
  summary.sequencer = sequencer_account(total);
  summary.units = units_of(record.params, total);
  const Breakdown& parts = summary.breakdown;
  summary.idle_fraction = parts.infeed_wait + parts.outfeed_wait + parts.peer_host_wait +
                          parts.host_wait + parts.finished;
  summary.late_cores = late_cores_of(record.result, static_cast<double>(total.core.total()));
  summary.hbm_bytes_per_step =
      ratio(static_cast<double>(total.hbm_read_bytes + total.hbm_write_bytes),
            cores * static_cast<double>(steps));
  summary.roofline.compute_ms = summary.model_flops / record.params.core_peak_flops() * 1e3;
  summary.roofline.memory_ms =
      static_cast<double>(record.compulsory_hbm_bytes) / record.params.core_hbm_bytes_per_s() * 1e3;
  summary.roofline.bound_ms = std::max(summary.roofline.compute_ms, summary.roofline.memory_ms);
  summary.roofline.reached = ratio(summary.roofline.bound_ms, summary.step_mean_ms);
  summary.memory = memory_of(record);
  return summary;
}

}  // namespace tpu::report
