#include "workloads/compiler/program/call_sequence.h"

#include <algorithm>
#include <utility>

#include "isa/instruction.h"

namespace tpu::compiler {

HbmRange range_of(const CallOperand& address, std::uint64_t extent, std::uint64_t trips) {
  const std::int64_t last = address.step * (static_cast<std::int64_t>(trips) - 1);
  const std::int64_t begin = address.number + std::min<std::int64_t>(0, last);
  const std::int64_t end = address.number + std::max<std::int64_t>(0, last);
  return {static_cast<std::uint64_t>(begin), static_cast<std::uint64_t>(end) + extent};
}

bool CallSequence::may_be_early(const FirstLoad& load, const SequencedCall& call) const {
  CallOperand from = call.operands.at(static_cast<std::size_t>(load.operand));
  from.number += load.offset;
  const HbmRange read = range_of(from, load.hbm_extent(), top_.trips());
  const VmemUse& used = last_->kernel.vmem;
  return load.row >= used.below &&
         load.end_row() + used.above <= target_.vmem_bytes / isa::kVmemRowBytes &&
         std::none_of(last_->writes.begin(), last_->writes.end(),
                      [&](const HbmRange& written) { return written.meets(read); });
}

/// What the memory could move beside the last call.
std::int64_t CallSequence::idle_granules() const {
  const double granules = static_cast<double>(last_->kernel.cycles) * target_.hbm_bytes_per_cycle /
                          isa::kHbmGranuleBytes;
  return static_cast<std::int64_t>(granules) - static_cast<std::int64_t>(last_->granules);
}

void CallSequence::add(SequencedCall call) {
  std::vector<FirstLoad>& loads = call.kernel.loads;
  std::vector<FirstLoad> early;
  if (last_ && !last_->kernel.stands_apart &&
      last_->kernel.place.is_high != call.kernel.place.is_high) {
    std::int64_t idle = idle_granules();
    const auto late = std::stable_partition(loads.begin(), loads.end(), [&](const FirstLoad& load) {
      if (load.granules > idle || !may_be_early(load, call)) return false;
      idle -= load.granules;
      return true;
    });
    early.assign(loads.begin(), late);
    loads.erase(loads.begin(), late);
  }
  if (last_) openings_.call(top_, last_->site, last_->kernel.loads, last_->operands);
  openings_.call(top_, call.site, early, call.operands);
  if (last_) top_.call(last_->site, last_->operands);
  last_ = std::move(call);
}

void CallSequence::finish() {
  if (!last_) return;
  openings_.call(top_, last_->site, last_->kernel.loads, last_->operands);
  top_.call(last_->site, last_->operands);
  last_.reset();
}

}  // namespace tpu::compiler
