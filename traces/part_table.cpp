#include "traces/part_table.h"

#include <cstdint>
#include <string>

namespace tpu::traces {

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

std::vector<PartAccount> parts_of(const Table& table) {
  std::vector<PartAccount> parts;
  for (std::size_t i = 0; i < table.rows(); ++i) {
    const std::string& name = table.column<std::string>("part")[i];
    if (parts.empty() || parts.back().part != name) parts.push_back({name, {}});
    parts.back().cycles.emplace_back(table.column<std::string>("activity")[i],
                                     table.column<std::uint64_t>("cycles")[i]);
  }
  return parts;
}

}  // namespace tpu::traces
