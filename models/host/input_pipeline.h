#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <queue>
#include <vector>

#include "models/host/hand_over.h"
#include "models/host/infeed_queue.h"
#include "models/host/loader.h"
#include "models/host/outfeed_queue.h"
#include "models/machine.h"
#include "models/network/link.h"
#include "models/params.h"

namespace tpu {

/// The host as its chips see it: it makes one global batch for all its cores after the other (by a
/// Loader, or at `examples_per_s`, or in no time), splits it over them at once and sends the parts
/// over PCIe, one link per chip and direction, on which the parts of the chip's cores travel side
/// by side; then come the cores' infeed queues. A Loader works ahead by `input.prefetch_batches`,
/// and a batch leaves when every core's queue has a place; without one a batch begins when they
/// have. Where the queues are bounded in bytes, a batch leaves in pieces of a
/// quarter of one, each when every core's queue has room for it. With a network between host and
/// chips (TPU Node) the parts of each chip cross that first, one chip after the other. Where
/// handing a batch over takes time, that comes before. Outfeed data crosses PCIe the other way.
class InputPipeline {
 public:
  /// A core that this host feeds.
  struct Fed {
    std::uint32_t chip = 0;                             ///< Index of the PCIe link.
    const std::vector<MemoryBlock>* batches = nullptr;  ///< Values, one block per batch.
  };
  struct Workload {
    std::uint64_t infeed_bytes = 0;  ///< Of a batch of one core in HBM; 0: no infeed.
    std::uint64_t host_bytes = 0;    ///< Of the same batch on PCIe.
    std::uint64_t examples = 0;      ///< In a batch of one core.
  };
  struct Done {
    bool outfeed = false;
    std::uint32_t core = 0;  ///< Index in the list given to the constructor.
    std::uint64_t token = 0;
    std::vector<std::uint32_t> words;
  };

  /// A time in cycles and, so that rates do not drift, fractions of a cycle (ticks).
  struct Time {
    std::uint64_t cycle = 0;
    std::uint64_t ticks = 0;
    std::uint64_t rounded_up() const { return cycle + (ticks > 0 ? 1 : 0); }
  };

  InputPipeline(const MachineParams& params, const Workload& workload, std::vector<Fed> cores);

  /// A core asks for something now: no run ends before.
  void settle(std::uint64_t now);
  /// The accounts of its parts begin now, with that of a core.
  void begin_account(std::uint64_t now);
  /// Adds the accounts of PCIe, of the network and of the loader's stages. `host`: its name.
  void add_accounts(const std::string& host, std::uint64_t end, ExactAccounts& accounts) const;

  /// Its state where nobody waits for a batch.
  void describe(StepState& state) const;

  void request(std::uint32_t core, std::uint64_t granules, std::uint64_t token);
  void send_outfeed(std::uint32_t core, std::uint64_t bytes, std::uint64_t token,
                    std::uint64_t now);
  std::optional<std::uint64_t> next_event() const;
  std::vector<Done> advance(std::uint64_t now);

 private:
  struct Arrival {
    std::uint64_t cycle = 0;
    std::uint64_t order = 0;
    bool outfeed = false;
    std::uint32_t core = 0;
    std::uint64_t token = 0;
    std::uint64_t granules = 0;  ///< Of infeed.
    friend bool operator<(const Arrival& a, const Arrival& b) {
      return a.cycle != b.cycle ? a.cycle > b.cycle : a.order > b.order;
    }
  };
  void begin_batches(std::uint64_t now);
  Time next_ready(std::uint64_t now);
  bool have_places() const;
  bool may_leave() const;
  void take_places();
  std::uint64_t next_piece() const;
  bool have_room() const;
  void send_piece(std::uint64_t now);
  std::vector<std::uint32_t> words_of(std::uint32_t core,
                                      const InfeedQueue::Request& request) const;

  std::uint64_t batch_bytes_ = 0;
  std::uint64_t host_bytes_ = 0;
  Time batch_time_;  ///< Preparation of a global batch without a loader.
  std::uint64_t ticks_per_cycle_ = 1;
  std::optional<Loader> loader_;
  std::size_t ahead_ = 1;            ///< Batches that are made or wait to leave.
  std::deque<Time> made_;            ///< When each of those is ready, in order.
  std::deque<std::uint64_t> begun_;  ///< In which cycle the work on each of them began.
  Time last_made_;
  std::uint64_t pcie_latency_;
  std::vector<Fed> cores_;
  std::vector<InfeedQueue> queues_;
  std::uint64_t batch_granules_ = 0;          ///< Of a core.
  std::uint64_t piece_granules_ = 0;          ///< That leave together, at the most.
  std::uint64_t left_granules_ = 0;           ///< Of the first batch that waits to leave.
  std::vector<OutfeedQueue> outfeed_queues_;  ///< None: a DMA is done at the host.
  std::optional<HandOver> hand_over_;
  std::optional<HostWire> network_;  ///< From the user's VM to the host of the chips.
  std::vector<HostWire> down_;
  std::vector<HostWire> up_;
  std::priority_queue<Arrival> arrivals_;
  std::uint64_t order_ = 0;
};

}  // namespace tpu
