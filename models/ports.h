#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "models/memory/hbm_model.h"
#include "models/network/ici_message.h"
#include "models/step_state.h"
#include "models/timed_module.h"

namespace tpu {

// What the modules of a pod offer to each other; ports are bound to it in the netlists.

/// The half of the HBM behind a core. It acts by itself, in the cycle in which something is done,
/// while anybody may notice: for exact requests and for a core that waits. Otherwise the core asks.
class HbmPort : public virtual sc_core::sc_interface {
 public:
  virtual void submit(const HbmRequest& request, std::uint64_t now) = 0;
  /// Tells the clients of what is done by `cycle`, which may be ahead of the machine's time.
  virtual void advance(std::uint64_t cycle) = 0;
  /// A cycle before which nothing will be done; nothing when there is no request.
  virtual std::optional<std::uint64_t> next_event() const = 0;
  /// The same of what may raise a flag of the core; nothing: look at all.
  virtual std::optional<std::uint64_t> next_event_of(std::uint32_t flag) const = 0;
  /// Whether the core waits, and the HBM acts by itself.
  virtual void set_awaited(bool awaited) = 0;
  /// The account of the core, and of its channels, begins now.
  virtual void begin_account(std::uint64_t now) = 0;
  /// The run ends here, and the account of the channels, which are those of a core.
  virtual void end_account(std::uint32_t core, std::uint64_t end) = 0;
  virtual void describe(StepState& state) = 0;
};

/// The router of a chip, for its cores.
class IciPort : public virtual sc_core::sc_interface {
 public:
  virtual void send(const IciMessage& message, std::uint64_t now) = 0;
  /// The account of one of its cores, and of its links, begins now.
  virtual void begin_account(std::uint64_t now) = 0;
};

/// The router of a chip, for its neighbours.
class NeighbourPort : public virtual sc_core::sc_interface {
 public:
  virtual void head_arrives(const IciMessage& message, std::uint64_t at) = 0;
};

/// A core as its host sees it.
class HostClient {
 public:
  virtual ~HostClient() = default;
  virtual void infeed_arrived(std::uint64_t token, std::vector<std::uint32_t> words,
                              std::uint64_t now) = 0;
  virtual void outfeed_sent(std::uint64_t token, std::uint64_t now) = 0;
};

/// The host of a core. `core` is the core's number in the slice.
class HostPort : public virtual sc_core::sc_interface {
 public:
  virtual void take_infeed(std::uint32_t core, std::uint64_t granules, std::uint64_t token) = 0;
  virtual void send_outfeed(std::uint32_t core, std::uint64_t bytes, std::uint64_t token) = 0;
  /// The account of one of its cores, and of its own parts, begins now.
  virtual void begin_account(std::uint64_t now) = 0;
};

}  // namespace tpu
