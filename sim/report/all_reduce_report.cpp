#include "sim/report/all_reduce_report.h"

#include <algorithm>
#include <map>

#include "sim/report/text_layout.h"

namespace tpu::report {
namespace {

constexpr const char* kFirst = ".scatter";
constexpr const char* kMiddle = ".sum";

bool takes_end(std::string& name, const std::string& end) {
  if (name.size() <= end.size() || name.compare(name.size() - end.size(), end.size(), end) != 0) {
    return false;
  }
  name.resize(name.size() - end.size());
  return true;
}

}  // namespace

std::vector<AllReduceTime> all_reduce_times(const traces::RunRecord& record,
                                            const Summary& summary) {
  std::vector<double> ms(record.ops.size(), 0);
  const double steps = std::max<double>(1, static_cast<double>(summary.steps.size()));
  for (const OpSummary& op : summary.ops) {
    ms[op.op] = record.params.seconds(1) * op.cycles / steps * 1e3;
  }
  std::vector<AllReduceTime> times;
  std::map<std::string, std::size_t> open;  // By name.
  for (std::size_t i = 0; i < record.ops.size(); ++i) {
    if (record.ops[i].category != "all-reduce") {
      for (const auto& [name, at] : open) times[at].beside_ms += ms[i];
      continue;
    }
    std::string name = record.ops[i].name;
    const bool begins = takes_end(name, kFirst);
    if (!begins) takes_end(name, kMiddle);
    const auto found = open.find(name);
    if (found != open.end()) {
      times[found->second].exposed_ms += ms[i];
      if (name == record.ops[i].name) open.erase(found);
      continue;
    }
    if (begins) open.emplace(name, times.size());
    times.push_back({name, ms[i], 0});
  }
  return times;
}

std::string all_reduces_text(const traces::RunRecord& record, const Summary& summary) {
  const std::vector<AllReduceTime> times = all_reduce_times(record, summary);
  const bool hides = std::any_of(times.begin(), times.end(),
                                 [](const AllReduceTime& time) { return time.beside_ms > 0; });
  if (!hides) return "";
  std::vector<std::vector<std::string>> rows{{"", "exposed ms", "beside others ms"}};
  double exposed = 0;
  for (const AllReduceTime& time : times) {
    rows.push_back({time.name, fixed(time.exposed_ms, 3), fixed(time.beside_ms, 3)});
    exposed += time.exposed_ms;
  }
  rows.push_back({"all", fixed(exposed, 3), ""});
  return "All-reduces of a step\n" + columns(rows) +
         "  exposed: time in its kernels; beside others: kernels that run from its start to its "
         "end\n\n";
}

Json all_reduces_json(const traces::RunRecord& record, const Summary& summary) {
  Json list = Json::array();
  for (const AllReduceTime& time : all_reduce_times(record, summary)) {
    list.push_back(
        {{"name", time.name}, {"exposed_ms", time.exposed_ms}, {"beside_ms", time.beside_ms}});
  }
  return list;
}

}  // namespace tpu::report
