#include "models/core/scoreboard.h"

#include <algorithm>

#include "isa/opcode_table.h"

namespace tpu {
namespace {

bool is_mxu(QueueOp::Kind kind) {
  using Kind = QueueOp::Kind;
  return kind == Kind::kMxuPop || kind == Kind::kMxuRows || kind == Kind::kMxuSwap ||
         kind == Kind::kMxuLatch || kind == Kind::kMxuWeights;
}

}  // namespace

Scoreboard::Scoreboard(const CoreParams& params, const std::vector<MatrixPort*>& arrays)
    : arrays_(arrays),
      mxus_(params.mxu.count, Mxu(params.mxu)),
      xlus_(1, Xlu(params, isa::Latencies().transpose_cycles)),
      eup_(1, params.eup_latency_cycles, params.eup_queue_entries),
      to_scalar_(params.scalar_queue_entries),
      to_scalar_latency_(isa::result_latency(isa::Opcode::kVpush)),
      cmem_(params.cmem.load_interval_cycles, params.cmem.load_latency_cycles,
            params.cmem.mib == 0 ? 0 : params.cmem.queue_entries) {}

Scoreboard::Violation Scoreboard::issue(const DecodedKernel& kernel, std::size_t index,
                                        std::uint64_t guards, std::uint64_t now) {
  const DecodedBundle& bundle = kernel.bundles[index];
  const DecodedBundle& next = kernel.bundles[index + 1];
  if (!writes_.empty()) {
    while (const Hazard hazard = writes_.check(bundle.reads, now + held_)) {
      if (!hold(hazard, now)) return {hazard, nullptr};
    }
  }
  for (std::uint32_t i = bundle.first_queue_op; i < next.first_queue_op; ++i) {
    const QueueOp& op = kernel.queue_ops[i];
    if (op.guarded) {
      const bool acts = (guards & 1) != 0;
      guards >>= 1;
      if (!acts) continue;
    }
    while (const Hazard hazard = act(op, now + held_)) {
      if (!hold(hazard, now)) return {hazard, &op};
    }
  }
  for (std::uint32_t i = bundle.first_slow_write; i < next.first_slow_write; ++i) {
    writes_.add(kernel.slow_writes[i], now + held_);
  }
  return {};
}

/// Waits out what only comes too early, where the code counts on that.
bool Scoreboard::hold(const Hazard& hazard, std::uint64_t now) {
  const bool early = hazard.kind != Hazard::Kind::kQueueEmpty &&
                     hazard.kind != Hazard::Kind::kQueueFull &&
                     hazard.kind != Hazard::Kind::kNoSuchUnit;
  if (!interlocked_ || !early) return false;
  held_ = std::max(held_, hazard.ready - now);
  return true;
}

Hazard Scoreboard::act(const QueueOp& op, std::uint64_t now) {
  using Kind = QueueOp::Kind;
  if (!arrays_.empty() && is_mxu(op.kind)) return arrays_[op.unit]->issue(op, now);
  switch (op.kind) {
    case Kind::kMxuPop:
      return mxus_[op.unit].pop(op.part, now);
    case Kind::kMxuRows:
      return mxus_[op.unit].push_rows(op.results, op.swaps, now, op.packed ? 2 : 1);
    case Kind::kMxuSwap:
      mxus_[op.unit].swap_at_next_rows();
      return {};
    case Kind::kMxuLatch:
      return mxus_[op.unit].latch_rows(op.part, now);
    case Kind::kMxuWeights:
      return mxus_[op.unit].push_weights(op.part, now);
    case Kind::kXluPop:
      return xlus_[op.unit].pop(now);
    case Kind::kXluPush:
      return xlus_[op.unit].push(now);
    case Kind::kTransposePop:
      return xlus_[op.unit].pop_transposed(now);
    case Kind::kTransposePush:
      return xlus_[op.unit].push_transpose(now, op.results);
    case Kind::kEupPop:
      return eup_.pop(now);
    case Kind::kEupPush:
      return eup_.push(now);
    case Kind::kCmemPop:
      return cmem_.pop(now);
    case Kind::kCmemPush:
      return cmem_.push(now);
    case Kind::kScalarPop:
      return to_scalar_.pop(now);
    case Kind::kScalarPush:
      return to_scalar_.push(now + to_scalar_latency_);
  }
  return {};
}

Scoreboard::State Scoreboard::save(std::uint64_t now) {
  StateWriter out(now);
  for (const Mxu& mxu : mxus_) mxu.save(out);
  for (const Xlu& xlu : xlus_) xlu.save(out);
  eup_.save(out);
  to_scalar_.save(out);
  cmem_.save(out);
  writes_.save(out, now);
  return out.take();
}

void Scoreboard::load(const State& state) {
  StateReader in(state);
  for (Mxu& mxu : mxus_) mxu.load(in);
  for (Xlu& xlu : xlus_) xlu.load(in);
  eup_.load(in);
  to_scalar_.load(in);
  cmem_.load(in);
  writes_.load(in);
}

}  // namespace tpu
