#include "workloads/compiler/codegen/register_timeline.h"

#include <algorithm>

namespace tpu::compiler {

RegisterTimeline::RegisterTimeline(std::uint32_t pool) : pool_(pool) {}

std::uint32_t RegisterTimeline::free_between(std::int32_t written, std::int32_t last_read) const {
  std::uint32_t candidates = pool_;
  const auto end = std::min<std::int64_t>(last_read, static_cast<std::int64_t>(busy_.size()) - 1);
  for (std::int64_t cycle = written + 1; cycle <= end; ++cycle) {
    candidates &= ~busy_[static_cast<std::size_t>(cycle)];
  }
  for (std::uint32_t open = open_ & candidates; open != 0; open &= open - 1) {
    const int reg = __builtin_ctz(open);
    if (registers_[static_cast<std::size_t>(reg)].open_from < last_read) candidates &= ~(1U << reg);
  }
  return candidates;
}

std::uint32_t RegisterTimeline::free_from(std::int32_t written) const {
  std::uint32_t candidates = pool_ & ~open_;
  for (std::uint32_t rest = candidates; rest != 0; rest &= rest - 1) {
    const int reg = __builtin_ctz(rest);
    if (registers_[static_cast<std::size_t>(reg)].last_busy > written) candidates &= ~(1U << reg);
  }
  return candidates;
}

std::optional<RegisterTimeline::Taken> RegisterTimeline::take(std::int32_t written,
                                                              std::int32_t last_read) {
  const std::uint32_t candidates =
      last_read == kOpen ? free_from(written) : free_between(written, last_read);
  if (candidates == 0) return std::nullopt;
  auto best = static_cast<std::uint8_t>(__builtin_ctz(candidates));
  for (std::uint32_t rest = candidates; rest != 0; rest &= rest - 1) {
    const auto reg = static_cast<std::uint8_t>(__builtin_ctz(rest));
    if (registers_[reg].last_busy > registers_[best].last_busy) best = reg;
  }
  const Taken taken{best, written, last_read, registers_[best].last_busy};
  if (last_read == kOpen) {
    open_ |= 1U << best;
    registers_[best].open_from = written;
  } else {
    occupy(best, written + 1, last_read);
  }
  return taken;
}

void RegisterTimeline::occupy(std::uint8_t reg, std::int32_t from, std::int32_t to) {
  if (to < from) return;
  if (busy_.size() <= static_cast<std::size_t>(to)) {
    busy_.resize(static_cast<std::size_t>(to) * 2 + 64, 0);
  }
  for (std::int32_t cycle = from; cycle <= to; ++cycle) {
    busy_[static_cast<std::size_t>(cycle)] |= 1U << reg;
  }
  registers_[reg].last_busy = std::max(registers_[reg].last_busy, to);
}

void RegisterTimeline::close(std::uint8_t reg, std::int32_t last_read) {
  open_ &= ~(1U << reg);
  occupy(reg, registers_[reg].open_from + 1, last_read);
}

void RegisterTimeline::release(const Taken& taken) {
  if (taken.last_read == kOpen) {
    open_ &= ~(1U << taken.reg);
    return;
  }
  for (std::int32_t cycle = taken.written + 1; cycle <= taken.last_read; ++cycle) {
    busy_[static_cast<std::size_t>(cycle)] &= ~(1U << taken.reg);
  }
  registers_[taken.reg].last_busy = taken.busy_before;
}

}  // namespace tpu::compiler
