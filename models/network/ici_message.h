#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "models/origin.h"

namespace tpu {

struct RemoteDma;

/// Of something that all members of a class of cores send at once: the number of the core that each
/// member's goes to. Absent where a core stands for itself.
using MemberDestinations = std::shared_ptr<const std::vector<std::uint32_t>>;

/// A word of SMEM that an addition to a sync flag brings along.
struct RemoteWord {
  std::uint32_t address = 0;
  std::uint32_t value = 0;
  Origin origin;
};

/// What travels between cores: a piece of a remote DMA, or an addition to a sync flag.
struct IciMessage {
  std::uint32_t source_chip = 0;
  std::uint32_t source_core = 0;  ///< Of the chip.
  std::uint32_t destination_chip = 0;
  std::uint32_t destination_core = 0;
  std::uint64_t bytes = 0;
  std::uint64_t number = 0;  ///< Of the messages of its core: 0 for an addition, DMAs from 1.
  RemoteDma* dma = nullptr;  ///< Whose piece it is; absent for an addition.
  bool writes_hbm = false;   ///< A piece that goes into the HBM of the destination.
  std::uint32_t flag = 0;    ///< Of an addition.
  std::uint32_t value = 0;
  std::shared_ptr<const RemoteWord> word;  ///< Of an addition that brings one.
  std::uint64_t sent = 0;                  ///< The cycle in which its DMA or addition was started.
  std::uint32_t transfer = 0;              ///< Of an addition: its number in WaitGraph.
  /// The cycle in which its last byte is at the router that its head has reached, where a link
  /// before was slower than others.
  std::uint64_t tail = 0;
  std::uint32_t links = 0;          ///< That it has passed.
  MemberDestinations destinations;  ///< When the source stands for its class.
};

/// A core as the interconnect sees it.
class IciEndpoint {
 public:
  virtual ~IciEndpoint() = default;
  /// The last byte of a message that this core sent is on its way.
  virtual void message_left(const IciMessage& message, std::uint64_t now) = 0;
  /// The last byte of a message to this core is here.
  virtual void message_arrived(const IciMessage& message, std::uint64_t now) = 0;
};

}  // namespace tpu
