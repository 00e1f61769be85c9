#include <iterator>

#include "models/machine.h"

namespace tpu {

const char* to_string(CoreState state) {
  switch (state) {
    case CoreState::kIssue:
      return "issue";
    case CoreState::kDelay:
      return "delay";
    case CoreState::kMemoryWait:
      return "memory_wait";
    case CoreState::kInfeedWait:
      return "infeed_wait";
    case CoreState::kOutfeedWait:
      return "outfeed_wait";
    case CoreState::kIciWait:
      return "ici_wait";
    case CoreState::kPeerWait:
      return "peer_wait";
    case CoreState::kPeerHostWait:
      return "peer_host_wait";
    case CoreState::kFinished:
      return "finished";
    case CoreState::kCount:
      break;
  }
  return "?";
}

const char* to_string(ScheduleCause cause) {
  constexpr const char* kNames[] = {
      "mxu_push",       "weights",    "xlu",         "eup",           "load",
      "store",          "vector_alu", "scalar",      "other_slot",    "mxu_result",
      "xlu_result",     "eup_result", "load_result", "vector_result", "scalar_result",
      "fill_and_drain", "contact",    "branch",      "unforced",      "slow_clock"};
  static_assert(std::size(kNames) == kScheduleCauses);
  return kNames[static_cast<std::size_t>(cause)];
}

const char* to_string(Unit unit) {
  switch (unit) {
    case Unit::kScalar:
      return "scalar";
    case Unit::kVectorAlu:
      return "vector_alu";
    case Unit::kVectorLoad:
      return "vector_load";
    case Unit::kVectorStore:
      return "vector_store";
    case Unit::kMxu0:
      return "mxu0";
    case Unit::kMxu1:
      return "mxu1";
    case Unit::kMxu2:
      return "mxu2";
    case Unit::kMxu3:
      return "mxu3";
    case Unit::kXlu:
      return "xlu";
    case Unit::kEup:
      return "eup";
    case Unit::kCount:
      break;
  }
  return "?";
}

namespace {

/// Calls apply(a member of one, the same member of the other) for each number.
template <class Apply>
void for_each_number(Counters& a, const Counters& b, const Apply& apply) {
  apply(a.bundles, b.bundles);
  apply(a.scalar_ops, b.scalar_ops);
  apply(a.vector_alu_ops, b.vector_alu_ops);
  apply(a.vector_loads, b.vector_loads);
  apply(a.vector_stores, b.vector_stores);
  apply(a.matmul_pushes, b.matmul_pushes);
  apply(a.weight_pushes, b.weight_pushes);
  apply(a.xlu_pushes, b.xlu_pushes);
  apply(a.eup_pushes, b.eup_pushes);
  apply(a.dmas, b.dmas);
  apply(a.hbm_read_bytes, b.hbm_read_bytes);
  apply(a.hbm_write_bytes, b.hbm_write_bytes);
  apply(a.ici_bytes, b.ici_bytes);
  for (std::size_t u = 0; u < kUnits; ++u) apply(a.busy_cycles[u], b.busy_cycles[u]);
  for (std::size_t c = 0; c < kScheduleCauses; ++c) apply(a.schedule[c], b.schedule[c]);
}

}  // namespace

Counters& Counters::operator+=(const Counters& other) {
  for_each_number(*this, other, [](std::uint64_t& mine, std::uint64_t its) { mine += its; });
  for (std::size_t u = 0; u < kUnits; ++u) idle[u] += other.idle[u];
  core += other.core;
  return *this;
}

Counters operator-(Counters later, const Counters& earlier) {
  for_each_number(later, earlier, [](std::uint64_t& mine, std::uint64_t its) { mine -= its; });
  for (std::size_t u = 0; u < kUnits; ++u) {
    later.idle[u] = later.idle[u] - earlier.idle[u];
  }
  later.core = later.core - earlier.core;
  return later;
}

UnitAccount unit_account(const Counters& total, Unit unit) {
  const auto u = static_cast<std::size_t>(unit);
  return {total.busy_cycles[u], total.idle[u]};
}

}  // namespace tpu
