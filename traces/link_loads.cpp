#include "traces/link_loads.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "models/network/ici_routes.h"
#include "sim/base/error.h"
#include "traces/program_tables.h"
#include "traces/timeline.h"

namespace tpu::traces {
namespace {

using isa::Topology;

/// Cycles of the steps that count, of the core with the most.
std::uint64_t counted_cycles(const RunResult& result) {
  std::uint64_t cycles = 0;
  for (const CoreResult& core : result.cores) cycles = std::max(cycles, core.total.core.total());
  return cycles;
}

using LinkEnd = std::pair<std::uint32_t, std::uint8_t>;  ///< Chip, direction.

/// The links of a message's way, in order.
std::vector<LinkEnd> way(const IciRoutes& routes, std::uint32_t chip, std::uint32_t to) {
  std::vector<LinkEnd> links;
  while (chip != to) {
    const Topology::Direction direction = routes.towards(chip, to);
    links.emplace_back(chip, direction);
    chip = routes.neighbour(chip, direction);
  }
  return links;
}

}  // namespace

const char* direction_name(Topology::Direction direction) {
  constexpr std::array<const char*, Topology::kDirections> kNames{"+x", "-x", "+y",
                                                                  "-y", "+z", "-z"};
  return kNames.at(direction);
}

std::vector<LinkLoad> link_loads(const RunRecord& record) {
  const Topology slice = record.params.topology();
  const std::uint32_t chips = slice.chips();
  if (!record.has_events || chips < 2) return {};
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint64_t> sent;
  for (const DmaEvent& dma : record.events.dmas) {
    if (dma.source_chip == dma.destination_chip) continue;
    if (std::max(dma.source_chip, dma.destination_chip) >= chips) {
      throw WorkloadError("events/dmas: expected chips below " + std::to_string(chips) +
                          ", found " +
                          std::to_string(std::max(dma.source_chip, dma.destination_chip)));
    }
    sent[{dma.source_chip, dma.destination_chip}] += dma.bytes;
  }
  const IciRoutes routes(record.params);
  std::map<LinkEnd, std::uint64_t> carried;
  for (const auto& [ends, bytes] : sent) {
    for (const LinkEnd& link : way(routes, ends.first, ends.second)) carried[link] += bytes;
  }
  const double seconds = record.params.seconds(counted_cycles(record.result));
  std::vector<LinkLoad> links;
  for (std::uint32_t chip = 0; chip < chips; ++chip) {
    for (std::uint8_t d = 0; d < Topology::kDirections; ++d) {
      const auto direction = static_cast<Topology::Direction>(d);
      if (!slice.has_link(chip, direction)) continue;
      const auto found = carried.find({chip, d});
      const std::uint64_t bytes = found == carried.end() ? 0 : found->second;
      const double could_carry = seconds * routes.link_mbps(chip, direction) * 1e6 / 8;
      links.push_back({chip, slice.neighbour(chip, direction), direction, bytes,
                       could_carry > 0 ? static_cast<double>(bytes) / could_carry : 0});
    }
  }
  return links;
}

std::vector<double> link_bytes(const RunRecord& record, const LinkLoad& link, std::size_t bins) {
  const IciRoutes routes(record.params);
  const LinkEnd wanted{link.from_chip, link.direction};
  std::map<std::pair<std::uint32_t, std::uint32_t>, bool> passes;
  std::vector<Quantity> sent;
  for (const DmaEvent& dma : record.events.dmas) {
    if (dma.source_chip == dma.destination_chip) continue;
    const auto [known, first] = passes.try_emplace({dma.source_chip, dma.destination_chip}, false);
    if (first) {
      const std::vector<LinkEnd> links = way(routes, dma.source_chip, dma.destination_chip);
      known->second = std::find(links.begin(), links.end(), wanted) != links.end();
    }
    if (known->second) sent.push_back({dma.begin, dma.end, static_cast<double>(dma.bytes)});
  }
  const double per_cycle =
      routes.link_mbps(link.from_chip, link.direction) / 8.0 / record.params.clock_mhz;
  return binned_within({}, sent, record.result.cycles, bins, per_cycle);
}

Table links_table(const std::vector<LinkLoad>& links) {
  Table table;
  table.add("from_chip", column_of<std::uint32_t>(links, [](auto& l) { return l.from_chip; }))
      .add("to_chip", column_of<std::uint32_t>(links, [](auto& l) { return l.to_chip; }))
      .add("direction",
           column_of<std::string>(links, [](auto& l) { return direction_name(l.direction); }))
      .add("bytes", column_of<std::uint64_t>(links, [](auto& l) { return l.bytes; }))
      .add("utilization", column_of<double>(links, [](auto& l) { return l.utilization; }));
  return table;
}

}  // namespace tpu::traces
