#include "traces/event_recorder.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace tpu::traces {

void EventRecorder::on_step(std::uint32_t /*core*/, std::uint32_t /*step*/, std::uint64_t /*begin*/,
                            std::uint64_t /*end*/) {}

void EventRecorder::on_op(std::uint32_t core, std::uint32_t op, std::uint64_t begin,
                          std::uint64_t end, const Counters& counters) {
  OpEvent event{core,
                op,
                begin,
                end,
                counters.matmul_pushes,
                counters.vector_alu_ops,
                counters.hbm_read_bytes + counters.hbm_write_bytes,
                {}};
  for (std::size_t mxu = 0; mxu < event.mxu_busy.size(); ++mxu) {
    event.mxu_busy[mxu] = counters.busy_cycles[static_cast<std::size_t>(Unit::kMxu0) + mxu];
  }
  events_.ops.push_back(event);
}

void EventRecorder::on_wait(std::uint32_t core, CoreState reason, std::uint64_t begin,
                            std::uint64_t end) {
  events_.waits.push_back({core, reason, begin, end});
}

void EventRecorder::on_dma(const DmaEvent& event) { events_.dmas.push_back(event); }

void EventRecorder::on_account(const AccountBegin& begin) {
  account_[begin.number] = begin.cycle;
  account_of_place_[{begin.chip, begin.core}] = begin.cycle;
}

void EventRecorder::forget_warm_up() {
  if (account_.empty()) return;
  const auto forget = [](auto& events, const auto& is_early) {
    events.erase(std::remove_if(events.begin(), events.end(), is_early), events.end());
  };
  const auto is_early = [&](const auto& event) {
    const auto begin = account_.find(event.core);
    return begin != account_.end() && event.begin < begin->second;
  };
  forget(events_.ops, is_early);
  forget(events_.waits, is_early);
  forget(events_.dmas, [&](const DmaEvent& event) {
    const auto begin = account_of_place_.find({event.source_chip, event.source_core});
    return begin != account_of_place_.end() && event.end <= begin->second;
  });
}

Events EventRecorder::take() {
  forget_warm_up();
  const auto by_time = [](const auto& a, const auto& b) {
    return std::tie(a.begin, a.core, a.end) < std::tie(b.begin, b.core, b.end);
  };
  std::stable_sort(events_.ops.begin(), events_.ops.end(), by_time);
  std::stable_sort(events_.waits.begin(), events_.waits.end(), by_time);
  std::stable_sort(events_.dmas.begin(), events_.dmas.end(),
                   [](const DmaEvent& a, const DmaEvent& b) {
                     return std::tie(a.begin, a.source_chip, a.source_core, a.end) <
                            std::tie(b.begin, b.source_chip, b.source_core, b.end);
                   });
  return std::exchange(events_, {});
}

}  // namespace tpu::traces
