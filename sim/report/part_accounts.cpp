#include "sim/report/part_accounts.h"

#include <algorithm>
#include <sstream>

#include "sim/report/text_layout.h"

namespace tpu::report {
namespace {

/// How the names of parts begin and end, and what those of a kind are called.
struct PartKind {
  const char* begin;
  const char* end;
  const char* name;
};
constexpr PartKind kPartKinds[] = {
    {"HBM", "", "HBM channels"}, {"DMAs", "", "DMAs of cores"},       {"way", "", "ways on chips"},
    {"link", "", "ICI links"},   {"PCIe", "down", "PCIe down"},       {"PCIe", "up", "PCIe up"},
    {"network", "", "network"},  {"copies", "", "copies to batches"}, {"threads", "", "threads"},
    {"storage", "", "storage"},  {"hand-over", "", "hand-over"}};

bool is_of(const PartKind& kind, const std::string& part) {
  const std::string begin = kind.begin, end = kind.end;
  return part.compare(0, begin.size(), begin) == 0 && part.size() >= end.size() &&
         part.compare(part.size() - end.size(), end.size(), end) == 0;
}

double all_cycles(const PartAccount& part) {
  double all = 0;
  for (const auto& [activity, cycles] : part.cycles) all += static_cast<double>(cycles);
  return all;
}

/// Counts a part's cycles in with those of its kind, and notes how busy it was.
void add(const PartAccount& part, PartGroup& group, double& group_cycles) {
  const double all = all_cycles(part);
  if (all <= 0) return;
  const double busy = static_cast<double>(part.cycles.front().second);
  ++group.count;
  group_cycles += all;
  group.busy += busy;
  group.busiest = std::max(group.busiest, busy / all);
  for (std::size_t a = 1; a < part.cycles.size(); ++a) {
    const auto& [activity, cycles] = part.cycles[a];
    const auto found =
        std::find_if(group.others.begin(), group.others.end(),
                     [&, name = activity](const auto& o) { return o.first == name; });
    if (found == group.others.end()) {
      group.others.emplace_back(activity, static_cast<double>(cycles));
    } else {
      found->second += static_cast<double>(cycles);
    }
  }
}

}  // namespace

std::vector<PartGroup> part_groups(const std::vector<PartAccount>& parts) {
  std::vector<PartGroup> groups;
  for (const PartKind& kind : kPartKinds) {
    PartGroup group;
    group.name = kind.name;
    double cycles = 0;
    for (const PartAccount& part : parts) {
      if (is_of(kind, part.part) && !part.cycles.empty()) add(part, group, cycles);
    }
    if (group.busy <= 0) continue;
    group.busy /= cycles;
    for (auto& [activity, share] : group.others) share /= cycles;
    groups.push_back(std::move(group));
  }
  return groups;
}

std::string parts_text(const std::vector<PartAccount>& parts) {
  const std::vector<PartGroup> groups = part_groups(parts);
  if (groups.empty()) return "";
  std::ostringstream out;
  out << "Beside the cores   number    busy  busiest   the rest of their time\n";
  for (const PartGroup& group : groups) {
    out << "  " << left(group.name, 17) << right(grouped(group.count), 6)
        << right(percent(group.busy), 8) << right(percent(group.busiest), 9) << "  ";
    const char* separator = " ";
    for (const auto& [activity, share] : group.others) {
      if (share < 0.0005) continue;
      out << separator << activity << " " << percent(share);
      separator = ", ";
    }
    out << "\n";
  }
  out << "\n";
  return out.str();
}

Json parts_json(const std::vector<PartAccount>& parts) {
  Json rows = Json::array();
  for (const PartGroup& group : part_groups(parts)) {
    Json others = Json::object();
    for (const auto& [activity, share] : group.others) others[activity] = share;
    rows.push_back({{"part", group.name},
                    {"count", group.count},
                    {"busy", group.busy},
                    {"busiest", group.busiest},
                    {"others", others}});
  }
  return rows;
}

}  // namespace tpu::report
