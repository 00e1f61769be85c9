#include "workloads/compiler/codegen/unit_state.h"

#include <algorithm>

#include "sim/base/error.h"

namespace tpu::compiler {

using isa::Opcode;
using isa::Queue;
using isa::UnitKind;

isa::Latencies latencies_of(const Target& target) {
  isa::Latencies latencies;
  latencies.matmul_cycles = target.matmul_latency_cycles;
  latencies.mxu_interval_cycles = target.push_interval_cycles;
  latencies.xlu_cycles = target.xlu_latency_cycles;
  latencies.xlu_interval_cycles = target.xlu_interval_cycles;
  latencies.eup_cycles = target.eup_latency_cycles;
  return latencies;
}

UnitState::UnitState(const Target& target, const std::string& kernel)
    : latencies_(latencies_of(target)),
      kernel_(kernel),
      mxu_entries_(target.result_queue_entries),
      xlu_entries_(target.xlu_queue_entries),
      eup_entries_(target.eup_queue_entries),
      mxus_(target.mxu_count, Mxu(target.column_parts())) {}

bool UnitState::is_matmul(Opcode opcode) {
  return isa::info(opcode).queue == Queue::kMxuResult && !isa::info(opcode).pops;
}

isa::MxuParts UnitState::parts(const Node& node) {
  return isa::parts_of(node.opcode,
                       {node.sources[0].payload, node.sources[1].payload, node.sources[2].payload});
}

void UnitState::begin_block() {
  const auto interval = static_cast<std::int32_t>(latencies_.mxu_interval_cycles);
  const auto latency = static_cast<std::int32_t>(latencies_.matmul_cycles);
  for (Mxu& mxu : mxus_) {
    for (Fifo& results : mxu.results) {
      const auto pending = static_cast<std::int32_t>(results.ready.size());
      for (std::int32_t i = 0; i < pending; ++i) {
        results.ready[static_cast<std::size_t>(i)] =
            std::max(0, latency - interval * (pending - i));
      }
      results.pop_cycles.clear();
      results.pushes = static_cast<std::uint64_t>(pending);
      results.last_pop = kLongAgo;
    }
    mxu.last_weight_push.fill(kLongAgo);
    mxu.last_latch.fill(kLongAgo);
    mxu.last_matmul = mxu.last_swap = mxu.first_use = kLongAgo;
    mxu.swapped = true;
  }
  // The pushes that the block before issued last are an interval old: transposed rows are ready.
  const std::size_t transposed = transpose_.ready.size();
  xlu_ = transpose_ = eup_ = scalar_ = {};
  transpose_.ready.assign(transposed, 0);
  transpose_.pushes = transposed;
  last_xlu_push_ = last_eup_push_ = last_scalar_push_ = kLongAgo;
}

const UnitState::Fifo& UnitState::fifo(const Node& node) const {
  switch (isa::info(node.opcode).queue) {
    case Queue::kMxuResult:
      return mxus_[node.unit].results[parts(node).column];
    case Queue::kXlu:
      return xlu_;
    case Queue::kTranspose:
      return transpose_;
    case Queue::kEup:
      return eup_;
    default:
      return scalar_;
  }
}

/// A push may issue after the pop that leaves room for its result.
std::int32_t UnitState::room(const Fifo& fifo, std::uint32_t entries, const char* what) const {
  if (fifo.pushes < entries) return 0;
  const std::uint64_t freeing = fifo.pushes - entries;
  TPU_CHECK(freeing < fifo.pop_cycles.size(), kernel_ << ": more than " << entries
                                                      << " results in the queue of the " << what
                                                      << ": pop earlier in the program");
  return fifo.pop_cycles[freeing] + 1;
}

std::int32_t UnitState::earliest_mxu(const Node& node) const {
  const Mxu& mxu = mxus_[node.unit];
  const isa::MxuParts touched = parts(node);
  const auto interval = static_cast<std::int32_t>(isa::issue_interval(node.opcode, latencies_));
  if (node.opcode == Opcode::kVdwg) return mxu.last_matmul + 1;
  if (node.opcode == Opcode::kVmatlatchPart) {
    return std::max(mxu.last_latch[touched.row] + interval, mxu.last_matmul + 1);
  }
  if (is_matmul(node.opcode)) {
    const auto last = [](const auto& of_parts) {
      return *std::max_element(of_parts.begin(), of_parts.end());
    };
    std::int32_t cycle = std::max(mxu.last_matmul + interval, last(mxu.last_latch) + 1);
    for (std::uint32_t c = 0; c < touched.columns; ++c) {
      cycle = std::max(cycle, room(mxu.results[c], mxu_entries_, "MXU"));
    }
    if (mxu.swapped) {
      cycle = std::max({cycle, last(mxu.last_weight_push) + interval, mxu.last_swap + 1});
    }
    return cycle;
  }
  return std::max(mxu.last_weight_push[touched.column] + interval, mxu.first_use + 1);
}

std::int32_t UnitState::earliest(const Node& node) const {
  const isa::OpcodeInfo& row = isa::info(node.opcode);
  const auto interval = static_cast<std::int32_t>(isa::issue_interval(node.opcode, latencies_));
  if (row.pops) {
    const Fifo& queue = fifo(node);
    TPU_CHECK(!queue.ready.empty(),
              kernel_ << ": " << row.text << " pops an empty queue (pops stand after their push)");
    return std::max(queue.ready.front(), queue.last_pop + interval);
  }
  if (row.unit == UnitKind::kMxu) return earliest_mxu(node);
  if (node.opcode == Opcode::kVsetPatternPermute) return last_xlu_push_ + 1;
  switch (row.queue) {
    case Queue::kXlu:
      return std::max(last_xlu_push_ + interval, room(xlu_, xlu_entries_, "XLU"));
    case Queue::kTranspose:
      return std::max(last_xlu_push_ + interval, room(transpose_, xlu_entries_, "transpose unit"));
    case Queue::kEup:
      return std::max(last_eup_push_ + 1, room(eup_, eup_entries_, "transcendental unit"));
    case Queue::kVectorToScalar:
      return std::max(last_scalar_push_ + 1, room(scalar_, eup_entries_, "vector to scalar path"));
    default:
      return 0;
  }
}

void UnitState::issue_mxu(const Node& node, std::int32_t cycle) {
  Mxu& mxu = mxus_[node.unit];
  const isa::MxuParts touched = parts(node);
  if (is_matmul(node.opcode)) {
    const auto ready =
        cycle + static_cast<std::int32_t>(isa::result_latency(node.opcode, latencies_));
    for (std::uint32_t c = 0; c < touched.columns; ++c) {
      mxu.results[c].ready.push_back(ready);
      ++mxu.results[c].pushes;
    }
    mxu.last_matmul = cycle;
    if (mxu.swapped) mxu.first_use = cycle;
    mxu.swapped = false;
  } else if (node.opcode == Opcode::kVmatlatchPart) {
    mxu.last_latch[touched.row] = cycle;
  } else if (node.opcode != Opcode::kVdwg) {
    mxu.last_weight_push[touched.column] = cycle;
  }
  if (isa::swaps_weights(node.opcode)) {
    mxu.swapped = true;
    mxu.last_swap = cycle;
  }
}

/// The last push of a transposition makes width / 8 results.
void UnitState::issue_transpose(const Node& node, std::int32_t cycle) {
  last_xlu_push_ = cycle;
  if (node.sources[2].payload != node.sources[3].payload) return;
  const auto ready =
      cycle + static_cast<std::int32_t>(isa::result_latency(node.opcode, latencies_));
  for (std::uint32_t i = 0; i < node.sources[1].payload / 8; ++i) {
    transpose_.ready.push_back(ready);
    ++transpose_.pushes;
  }
}

void UnitState::issue(const Node& node, std::int32_t cycle) {
  const isa::OpcodeInfo& row = isa::info(node.opcode);
  if (row.pops) {
    Fifo& queue = fifo(node);
    queue.ready.pop_front();
    queue.pop_cycles.push_back(cycle);
    queue.last_pop = cycle;
    return;
  }
  if (row.unit == UnitKind::kMxu) return issue_mxu(node, cycle);
  if (node.opcode == Opcode::kVsetPatternPermute) last_xlu_push_ = cycle;
  if (row.queue == Queue::kNone) return;
  if (row.queue == Queue::kTranspose) return issue_transpose(node, cycle);
  Fifo& queue = fifo(node);
  queue.ready.push_back(cycle +
                        static_cast<std::int32_t>(isa::result_latency(node.opcode, latencies_)));
  ++queue.pushes;
  if (row.queue == Queue::kXlu) last_xlu_push_ = cycle;
  if (row.queue == Queue::kEup) last_eup_push_ = cycle;
  if (row.queue == Queue::kVectorToScalar) last_scalar_push_ = cycle;
}

std::int32_t UnitState::all_ready() const {
  TPU_CHECK(xlu_.ready.empty() && eup_.ready.empty() && scalar_.ready.empty(),
            kernel_ << ": a block ends with results that nobody popped");
  const auto interval = static_cast<std::int32_t>(latencies_.mxu_interval_cycles);
  std::int32_t cycle = last_xlu_push_ + static_cast<std::int32_t>(latencies_.xlu_interval_cycles);
  cycle = std::max(cycle,
                   transpose_.last_pop + static_cast<std::int32_t>(latencies_.xlu_interval_cycles));
  for (const Mxu& mxu : mxus_) {
    cycle = std::max({cycle, mxu.last_matmul + interval, mxu.last_swap + 1});
    for (const std::int32_t last : mxu.last_weight_push) cycle = std::max(cycle, last + interval);
    for (const std::int32_t last : mxu.last_latch) cycle = std::max(cycle, last + interval);
    for (const Fifo& results : mxu.results) cycle = std::max(cycle, results.last_pop + interval);
  }
  return std::max(0, cycle);
}

std::vector<std::uint32_t> UnitState::pending_results() const {
  std::vector<std::uint32_t> pending;
  for (const Mxu& mxu : mxus_) {
    for (const Fifo& results : mxu.results) {
      pending.push_back(static_cast<std::uint32_t>(results.ready.size()));
    }
  }
  pending.push_back(static_cast<std::uint32_t>(transpose_.ready.size()));
  return pending;
}

void UnitState::leave_block(const std::vector<std::uint32_t>& pending_results) {
  std::size_t at = 0;
  for (Mxu& mxu : mxus_) {
    for (Fifo& results : mxu.results) results.ready.assign(pending_results[at++], 0);
  }
  transpose_.ready.assign(pending_results[at], 0);
}

}  // namespace tpu::compiler
