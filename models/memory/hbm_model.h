#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "isa/instruction.h"
#include "models/exact_account.h"
#include "models/machine.h"
#include "models/memory/bus_history.h"
#include "models/step_state.h"

namespace tpu {

/// Who waits for an HBM request: told when its last byte has passed and the latency is over.
class HbmClient {
 public:
  virtual ~HbmClient() = default;
  virtual void hbm_done(std::uint64_t token, std::uint64_t now) = 0;
};

/// A transfer to or from one half of the HBM: of an array that is `granules_per_run` granules at
/// `address`, the same number `stride` granules further on, and so on, the granules `first` to
/// `first + granules - 1`.
struct HbmRequest {
  static constexpr std::uint32_t kNoFlag = ~std::uint32_t{0};
  bool write = false;
  std::uint64_t address = 0;           ///< Granule.
  std::uint64_t granules_per_run = 0;  ///< 0: contiguous.
  std::uint64_t stride = 0;
  std::uint64_t first = 0;
  std::uint64_t granules = 0;
  HbmClient* client = nullptr;
  std::uint64_t token = 0;
  /// The sync flag of the core behind this half that its end raises, if that is all that comes of
  /// it.
  std::uint32_t flag = kNoFlag;
  bool exact = true;       ///< Others than the core behind this half notice when it is done.
  std::uint64_t done = 0;  ///< The cycle, of one that is.
};

/// What serves the requests to one half of the HBM, in cycles of the core clock: HbmController in
/// closed form, HbmCommandController command by command.
class HbmModel {
 public:
  virtual ~HbmModel() = default;
  /// A request arrives; `now` never decreases from call to call.
  virtual void submit(const HbmRequest& request, std::uint64_t now) = 0;
  /// A cycle before which no request will be done; nothing when there is no request.
  virtual std::optional<std::uint64_t> next_event() const = 0;
  /// The same of those requests whose end may raise a flag; nothing: look at all of them.
  virtual std::optional<std::uint64_t> next_event_of(std::uint32_t /*flag*/) const {
    return std::nullopt;
  }
  /// The requests that are done by `now`, in the order of their cycles; valid until the next call.
  virtual const std::vector<HbmRequest>& advance(std::uint64_t now) = 0;
  /// The accounts say when data moved, too.
  virtual void keep_history() = 0;
  /// The account of its channels begins now.
  virtual void begin_account(std::uint64_t now) = 0;
  /// Its state in a cycle to which everything is known.
  virtual void describe(StepState& state) = 0;
  /// Adds the accounts of its channels up to `end`, in clocks of the memory. They are not
  /// asked for again; requests may go on.
  virtual void add_accounts(std::uint32_t core, std::uint64_t end, ExactAccounts& accounts) = 0;
};

/// The history of a channel, which takes so many clocks for a granule of 1 KiB, as bytes.
template <class ToCore>
std::vector<PartAccount::Moved> moved_bytes(const BusHistory& history, std::uint64_t granule,
                                            const ToCore& to_core) {
  std::vector<PartAccount::Moved> moved;
  std::uint64_t clocks = 0, bytes = 0;
  for (std::size_t i = 0; i < history.clocks().size(); ++i) {
    clocks += history.clocks()[i];
    const std::uint64_t all = clocks * isa::kHbmGranuleBytes / granule;
    moved.push_back({to_core(history.begin() + i * history.stretch()), all - bytes});
    bytes = all;
  }
  return moved;
}

}  // namespace tpu
