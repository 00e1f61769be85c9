#include "traces/part_table.h"

#include <cstdint>
#include <map>
#include <string>

#include "sim/base/error.h"

namespace tpu::traces {
namespace {

/// Rows of a channel stand behind each other, in the order of the parts that have some.
void read_moved(const Table& table, std::vector<PartAccount>& parts) {
  std::map<std::string, PartAccount*> by_name;
  for (PartAccount& part : parts) by_name.emplace(part.part, &part);
  for (std::size_t i = 0; i < table.rows(); ++i) {
    const std::uint32_t core = table.column<std::uint32_t>("core")[i];
    const std::uint32_t channel = table.column<std::uint32_t>("channel")[i];
    const auto found = by_name.find(channel_name(core, channel));
    if (found == by_name.end()) {
      throw WorkloadError("hbm_channels: row " + std::to_string(i) + ": expected a part \"" +
                          channel_name(core, channel) + "\"");
    }
    PartAccount& part = *found->second;
    part.core = core;
    part.channel = channel;
    part.moved.push_back(
        {table.column<std::uint64_t>("begin_cycle")[i], table.column<std::uint64_t>("bytes")[i]});
  }
}

}  // namespace

Table part_table(const std::vector<PartAccount>& parts) {
  std::vector<std::string> names, activities;
  std::vector<std::uint64_t> cycles;
  for (const PartAccount& part : parts) {
    for (const auto& [activity, count] : part.cycles) {
      names.push_back(part.part);
      activities.push_back(activity);
      cycles.push_back(count);
    }
  }
  Table table;
  table.add("part", names).add("activity", activities).add("cycles", cycles);
  return table;
}

Table hbm_channel_table(const std::vector<PartAccount>& parts) {
  std::vector<std::uint32_t> cores, channels;
  std::vector<std::uint64_t> begins, bytes;
  for (const PartAccount& part : parts) {
    for (const PartAccount::Moved& moved : part.moved) {
      cores.push_back(part.core);
      channels.push_back(part.channel);
      begins.push_back(moved.begin_cycle);
      bytes.push_back(moved.bytes);
    }
  }
  Table table;
  table.add("core", cores).add("channel", channels).add("begin_cycle", begins).add("bytes", bytes);
  return table;
}

std::vector<PartAccount> parts_of(const Table& table, const Table& channels) {
  std::vector<PartAccount> parts;
  for (std::size_t i = 0; i < table.rows(); ++i) {
    const std::string& name = table.column<std::string>("part")[i];
    if (parts.empty() || parts.back().part != name) {
      parts.emplace_back();
      parts.back().part = name;
    }
    parts.back().cycles.emplace_back(table.column<std::string>("activity")[i],
                                     table.column<std::uint64_t>("cycles")[i]);
  }
  read_moved(channels, parts);
  return parts;
}

}  // namespace tpu::traces
