#include "models/network/ici_routes.h"

#include <algorithm>
#include <string>

#include "models/slow_parts.h"
#include "sim/base/error.h"

namespace tpu {
namespace {

constexpr std::uint8_t kNoWay = isa::Topology::kDirections;

}  // namespace

IciRoutes::IciRoutes(const MachineParams& params)
    : topology_(params.topology()),
      chips_(params.chips()),
      link_mbps_(params.ici.link_mbps),
      clock_mhz_(params.clock_mhz) {
  if (link_mbps_ == 0) {
    throw ConfigurationError("ici.link_mbps: expected a rate above 0, found 0");
  }
  const LinkRates slow = slow_links(params);
  if (slow.empty()) return;
  rates_.assign(std::size_t{chips_} * isa::Topology::kDirections, link_mbps_);
  bool broken = false;
  for (const auto& [ends, mbps] : slow) {
    broken = broken || mbps == 0;
    for (const auto& [from, to] : {ends, std::pair(ends.second, ends.first)}) {
      for (std::uint8_t d = 0; d < isa::Topology::kDirections; ++d) {
        const auto direction = static_cast<Direction>(d);
        if (!topology_.has_link(from, direction) || neighbour(from, direction) != to) continue;
        rates_[std::size_t{from} * isa::Topology::kDirections + d] = mbps;
      }
    }
  }
  if (broken) make_table();
}

std::uint32_t IciRoutes::link_mbps(std::uint32_t chip, Direction direction) const {
  if (rates_.empty()) return link_mbps_;
  return rates_[std::size_t{chip} * isa::Topology::kDirections + direction];
}

Link IciRoutes::link(std::uint32_t chip, Direction direction) const {
  const std::uint32_t mbps = link_mbps(chip, direction);
  return wire(mbps > 0 ? mbps : link_mbps_);
}

void IciRoutes::make_table() {
  table_.assign(std::size_t{chips_} * chips_, kNoWay);
  for (std::uint32_t to = 0; to < chips_; ++to) {
    route_to(to);
    const auto* begin = table_.data() + std::size_t{to} * chips_;
    const auto* cut_off = std::find(begin, begin + chips_, kNoWay);
    if (cut_off == begin + chips_) continue;
    throw ConfigurationError(
        "ici.slow_links: the broken links (of 0 Mb/s) leave no way from chip " +
        std::to_string(cut_off - begin) + " to chip " + std::to_string(to));
  }
}

/// First the chips from which all links of the usual way are sound, then, step by step, those that
/// have a sound link to one that has a way.
void IciRoutes::route_to(std::uint32_t to) {
  std::uint8_t* of = table_.data() + std::size_t{to} * chips_;
  std::vector<std::uint32_t> reached;
  for (std::uint32_t first = 0; first < chips_; ++first) {
    std::uint32_t chip = first;
    while (chip != to && is_sound(chip, topology_.towards(chip, to))) {
      chip = neighbour(chip, topology_.towards(chip, to));
    }
    if (chip != to) continue;
    of[first] = static_cast<std::uint8_t>(topology_.towards(first, to));
    reached.push_back(first);
  }
  while (!reached.empty()) {
    std::vector<std::uint32_t> next;
    for (std::uint32_t chip = 0; chip < chips_; ++chip) {
      if (of[chip] != kNoWay) continue;
      if (step_back(chip, to)) next.push_back(chip);
    }
    std::vector<Direction> taken;
    taken.reserve(next.size());
    for (const std::uint32_t chip : next) taken.push_back(*step_back(chip, to));
    for (std::size_t i = 0; i < next.size(); ++i) of[next[i]] = taken[i];
    reached = std::move(next);
  }
}

/// The link from a chip to a neighbour that has a way.
std::optional<IciRoutes::Direction> IciRoutes::step_back(std::uint32_t chip,
                                                         std::uint32_t to) const {
  for (std::uint8_t d = 0; d < isa::Topology::kDirections; ++d) {
    const auto direction = static_cast<Direction>(d);
    if (!is_sound(chip, direction)) continue;
    if (table_[std::size_t{to} * chips_ + neighbour(chip, direction)] != kNoWay) return direction;
  }
  return std::nullopt;
}

}  // namespace tpu
