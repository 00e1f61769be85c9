#pragma once

#include <map>
#include <utility>

#include "models/machine.h"
#include "traces/run_record.h"

namespace tpu::traces {

/// Keeps the ops, waits and DMAs of a run in the order in which they end. Steps are in the result
/// anyway. Memory is what bounds it: 40 to 56 bytes an event.
class EventRecorder : public Observer {
 public:
  void on_step(std::uint32_t core, std::uint32_t step, std::uint64_t begin,
               std::uint64_t end) override;
  void on_op(std::uint32_t core, std::uint32_t op, std::uint64_t begin, std::uint64_t end,
             const Counters& counters) override;
  void on_wait(std::uint32_t core, CoreState reason, std::uint64_t begin,
               std::uint64_t end) override;
  void on_dma(const DmaEvent& event) override;
  void on_account(const AccountBegin& begin) override;

  /// Moves the events out, each kind sorted by begin, then core; without those of warm-up steps. A
  /// DMA that is under way when the account of its source begins is in.
  Events take();

 private:
  void forget_warm_up();

  Events events_;
  std::map<std::uint32_t, std::uint64_t> account_;  ///< Begin, by number of the core.
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint64_t> account_of_place_;
};

}  // namespace tpu::traces
