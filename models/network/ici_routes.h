#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "isa/topology.h"
#include "models/network/link.h"
#include "models/params.h"

namespace tpu {

/// The links of a slice as they are: their rates, which of them are broken, and which one a message
/// takes. Where no link of its way along x, y and z is broken, a message goes that way; else it
/// takes the fewest links to a chip from which such a way leads on (of several the first in the
/// order of isa::Topology::Direction), as a table that is loaded into the routers when a link is
/// taken out. How the real ones of v2 and v3 go around a fault is not published; assumed.
class IciRoutes {
 public:
  using Direction = isa::Topology::Direction;

  /// Throws ConfigurationError when broken links cut the slice in two.
  explicit IciRoutes(const MachineParams& params);

  /// The link that a message for another chip takes.
  Direction towards(std::uint32_t chip, std::uint32_t to) const {
    if (table_.empty()) return topology_.towards(chip, to);
    return static_cast<Direction>(table_[std::size_t{to} * chips_ + chip]);
  }
  std::uint32_t neighbour(std::uint32_t chip, Direction direction) const {
    return topology_.neighbour(chip, direction);
  }
  /// There is such a link, and it is not broken.
  bool is_sound(std::uint32_t chip, Direction direction) const {
    return topology_.has_link(chip, direction) && link_mbps(chip, direction) > 0;
  }
  /// Mb/s of a link; 0: it is broken.
  std::uint32_t link_mbps(std::uint32_t chip, Direction direction) const;
  /// The same as a wire; of a broken one, over which nothing goes, that of a sound one.
  Link link(std::uint32_t chip, Direction direction) const;
  /// Where a link is slower than the one behind it, that one waits for the last bytes. (Elsewhere
  /// it never does, but for parts of a cycle.)
  bool has_slow_links() const { return !rates_.empty(); }
  /// The path between the cores of a chip.
  Link local_link() const { return wire(link_mbps_); }

 private:
  Link wire(std::uint32_t mbps) const { return {mbps, std::uint64_t{8} * clock_mhz_}; }
  void make_table();
  void route_to(std::uint32_t to);
  std::optional<Direction> step_back(std::uint32_t chip, std::uint32_t to) const;

  const isa::Topology topology_;
  const std::uint32_t chips_;
  const std::uint32_t link_mbps_;
  const std::uint32_t clock_mhz_;
  /// Mb/s by chip and direction, where some differ.
  std::vector<std::uint32_t> rates_;
  /// The direction by destination and chip, where links are broken.
  std::vector<std::uint8_t> table_;
};

}  // namespace tpu
