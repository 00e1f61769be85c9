#include "traces/core_events.h"

#include "sim/base/error.h"

namespace tpu::traces {
namespace {

bool is_remote(const DmaEvent& dma) {
  return dma.source_chip != dma.destination_chip || dma.source_core != dma.destination_core;
}

double share(double part, const OpEvent& op) {
  return op.end > op.begin ? part / static_cast<double>(op.end - op.begin) : 0;
}

}  // namespace

CoreEvents core_events(const RunRecord& record, std::size_t core) {
  CoreEvents events;
  events.number = record.core_numbers[core];
  events.result = &record.result.cores[core];
  for (const OpEvent& op : record.events.ops) {
    if (op.core == events.number) events.ops.push_back(&op);
  }
  for (const WaitEvent& wait : record.events.waits) {
    if (wait.core == events.number) events.waits.push_back(&wait);
  }
  for (const DmaEvent& dma : record.events.dmas) {
    const bool from_host = dma.source == isa::MemorySpace::kInfeed;
    const std::uint32_t chip = from_host ? dma.destination_chip : dma.source_chip;
    const std::uint32_t of_chip = from_host ? dma.destination_core : dma.source_core;
    if (chip == events.result->chip && of_chip == events.result->core) events.dmas.push_back(&dma);
  }
  return events;
}

void check_events(const RunRecord& record) {
  if (!record.has_events) {
    throw WorkloadError("the run was recorded without events; run it again with --output");
  }
  for (const OpEvent& op : record.events.ops) {
    if (op.op >= record.ops.size() || op.end < op.begin) {
      throw WorkloadError("the record holds an event of op " + std::to_string(op.op) +
                          " from cycle " + std::to_string(op.begin) + " to " +
                          std::to_string(op.end) + " of " + std::to_string(record.ops.size()) +
                          " ops");
    }
  }
}

bool is_of_host(const DmaEvent& dma) {
  return dma.source == isa::MemorySpace::kInfeed || dma.destination == isa::MemorySpace::kOutfeed;
}

std::string_view space_name(isa::MemorySpace space) {
  switch (space) {
    case isa::MemorySpace::kHbm:
      return "HBM";
    case isa::MemorySpace::kVmem:
      return "VMEM";
    case isa::MemorySpace::kSmem:
      return "SMEM";
    case isa::MemorySpace::kInfeed:
      return "infeed";
    case isa::MemorySpace::kOutfeed:
      return "outfeed";
    case isa::MemorySpace::kCmem:
      return "CMEM";
  }
  return "?";
}

std::string_view wait_name(CoreState state) {
  switch (state) {
    case CoreState::kMemoryWait:
      return "memory wait";
    case CoreState::kInfeedWait:
      return "infeed wait";
    case CoreState::kOutfeedWait:
      return "outfeed wait";
    case CoreState::kIciWait:
      return "ICI wait";
    case CoreState::kPeerWait:
      return "peer wait";
    case CoreState::kPeerHostWait:
      return "peer's host wait";
    case CoreState::kFinished:
      return "finished";
    case CoreState::kIssue:
    case CoreState::kDelay:
    case CoreState::kCount:
      break;
  }
  return "busy";
}

std::string dma_path(const DmaEvent& dma) {
  std::string path = std::string(space_name(dma.source)) + "->";
  if (is_remote(dma) && dma.source != isa::MemorySpace::kInfeed) path += "ICI->";
  path += space_name(dma.destination);
  return path;
}

std::vector<std::vector<Span>> op_lanes(const CoreEvents& events) {
  std::vector<Span> spans;
  for (std::size_t i = 0; i < events.ops.size(); ++i) {
    spans.push_back({events.ops[i]->begin, events.ops[i]->end, i});
  }
  return disjoint_lanes(spans);
}

double mxu_share(const OpEvent& op, std::size_t mxu) {
  return share(static_cast<double>(op.mxu_busy[mxu]), op);
}

double vector_alu_share(const OpEvent& op) {
  return share(static_cast<double>(op.vector_alu_ops) / 2, op);
}

double mean_share(const CoreEvents& events, const OpEvent& op, Unit unit) {
  const OpResults& ops = events.result->ops;
  if (op.op >= ops.size() || ops[op.op].cycles == 0) return 0;
  const OpResult& all = ops[op.op];
  return static_cast<double>(all.counters.busy_cycles[static_cast<std::size_t>(unit)]) /
         static_cast<double>(all.cycles);
}

namespace {

/// Whether two cores did the same in the steps that count, as those that are simulated as one do.
bool did_the_same(const CoreResult& a, const CoreResult& b) {
  const auto is_same_step = [](const StepSpan& x, const StepSpan& y) {
    return x.begin == y.begin && x.end == y.end;
  };
  return a.total.hbm_read_bytes == b.total.hbm_read_bytes &&
         a.total.hbm_write_bytes == b.total.hbm_write_bytes && a.steps.size() == b.steps.size() &&
         std::equal(a.steps.begin(), a.steps.end(), b.steps.begin(), is_same_step);
}

/// What passed the channels of a core, each stretch of each by itself.
std::vector<Quantity> through_channels(const RunRecord& record, std::uint32_t core) {
  std::vector<Quantity> all;
  for (const PartAccount& part : record.result.parts) {
    if (part.core != core) continue;
    for (std::size_t i = 0; i < part.moved.size(); ++i) {
      const bool is_last = i + 1 == part.moved.size();
      all.push_back({part.moved[i].begin_cycle,
                     is_last ? record.result.cycles : part.moved[i + 1].begin_cycle,
                     static_cast<double>(part.moved[i].bytes)});
    }
  }
  return all;
}

/// The same of a core whose channels were counted, or else of another that did what it did.
std::vector<Quantity> through_channels(const RunRecord& record, const CoreEvents& events) {
  std::vector<Quantity> all = through_channels(record, events.number);
  for (std::size_t c = 0; c < record.result.cores.size() && all.empty(); ++c) {
    if (did_the_same(*events.result, record.result.cores[c])) {
      all = through_channels(record, record.core_numbers[c]);
    }
  }
  return all;
}

/// What DMAs read and wrote, `even` what came from elsewhere at its pace.
void through_dmas(const RunRecord& record, const CoreResult& core, std::vector<Quantity>& even,
                  std::vector<Quantity>& greedy) {
  for (const DmaEvent& dma : record.events.dmas) {
    std::uint64_t sides = 0;
    if (dma.source == isa::MemorySpace::kHbm && dma.source_chip == core.chip &&
        dma.source_core == core.core) {
      ++sides;
    }
    if (dma.destination == isa::MemorySpace::kHbm && dma.destination_chip == core.chip &&
        dma.destination_core == core.core) {
      ++sides;
    }
    if (sides == 0) continue;
    const bool paced = is_of_host(dma) || is_remote(dma);
    (paced ? even : greedy).push_back({dma.begin, dma.end, static_cast<double>(dma.bytes * sides)});
  }
}

}  // namespace

std::vector<double> hbm_bytes(const RunRecord& record, const CoreEvents& events, std::size_t bins,
                              std::uint64_t begin) {
  std::vector<Quantity> greedy, even = through_channels(record, events);
  if (even.empty()) through_dmas(record, *events.result, even, greedy);
  const double per_cycle = record.params.core_hbm_bytes_per_s() / (record.params.clock_mhz * 1e6);
  return binned_within(since(begin, even), since(begin, greedy), record.result.cycles - begin, bins,
                       per_cycle);
}

}  // namespace tpu::traces
