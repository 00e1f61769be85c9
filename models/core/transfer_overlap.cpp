#include "models/core/transfer_overlap.h"

#include <algorithm>
#include <utility>

namespace tpu {

void TransferOverlap::runs(std::uint32_t op, std::uint64_t now) {
  if (under_way_.empty()) stretches_.clear();
  stretches_.push_back({now, op});
}

std::uint32_t TransferOverlap::begin(std::uint64_t now) {
  const std::uint32_t op = stretches_.back().op;
  UnderWay& of_op = under_way_[op];
  if (of_op.transfers++ == 0) of_op.since = now;
  return op;
}

void TransferOverlap::end(std::uint32_t op, std::uint64_t now) {
  const auto found = under_way_.find(op);
  if (--found->second.transfers > 0) return;
  count(op, found->second.since, now);
  under_way_.erase(found);
  forget();
}

/// Cycles in which transfers of an op were under way, by what the core did.
void TransferOverlap::count(std::uint32_t op, std::uint64_t begin, std::uint64_t end) {
  auto stretch = std::upper_bound(stretches_.begin(), stretches_.end(), begin,
                                  [](std::uint64_t cycle, auto& s) { return cycle < s.begin; });
  if (stretch != stretches_.begin()) --stretch;
  for (; stretch != stretches_.end() && stretch->begin < end; ++stretch) {
    const auto next = std::next(stretch);
    const std::uint64_t from = std::max(begin, stretch->begin);
    const std::uint64_t to = next == stretches_.end() ? end : std::min(end, next->begin);
    if (stretch->op != op && to > from) beside_[op][stretch->op] += to - from;
  }
}

/// What the core did before the first transfer that is under way matters no more.
void TransferOverlap::forget() {
  std::uint64_t first = stretches_.back().begin;
  for (const auto& [op, of_op] : under_way_) first = std::min(first, of_op.since);
  const auto behind =
      std::upper_bound(stretches_.begin(), stretches_.end(), first,
                       [](std::uint64_t cycle, auto& s) { return cycle < s.begin; });
  stretches_.erase(stretches_.begin(), std::prev(behind));
}

void TransferOverlap::begin_account(std::uint64_t now) {
  beside_.clear();
  for (auto& [op, of_op] : under_way_) of_op.since = now;
}

void TransferOverlap::add_to(OpResults& ops, std::uint64_t run_end) {
  for (const auto& [op, of_op] : under_way_) count(op, of_op.since, run_end);
  for (auto& [op, beside] : beside_) {
    if (op < ops.size()) ops[op].beside = std::move(beside);
  }
}

}  // namespace tpu
