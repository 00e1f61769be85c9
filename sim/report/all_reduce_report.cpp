#include "sim/report/all_reduce_report.h"

#include <algorithm>
#include <map>
#include <set>

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

/// Milliseconds of the ops of a step, and of what they send beside others.
class CollectiveTimes {
 public:
  CollectiveTimes(const traces::RunRecord& record, const Summary& summary)
      : record_(record),
        ms_(record.ops.size(), 0),
        step_ms_(record.params.seconds(1) * 1e3 /
                 std::max<double>(1, static_cast<double>(summary.steps.size()))) {
    for (const OpSummary& op : summary.ops) ms_[op.op] = step_ms_ * op.cycles;
  }

  double of(std::size_t op) const { return ms_[op]; }
  /// What the ops of a collective send, while a core executes none of them.
  double hidden(const std::set<std::uint32_t>& ops) const {
    double cycles = 0, cores = 0;
    for (const CoreResult& core : record_.result.cores) {
      bool ran = false;
      for (const std::uint32_t op : ops) {
        if (op >= core.ops.size() || core.ops[op].count == 0) continue;
        ran = true;
        for (const auto& [other, beside] : core.ops[op].beside) {
          if (ops.count(other) == 0) cycles += static_cast<double>(beside);
        }
      }
      cores += ran ? 1 : 0;
    }
    return cores > 0 ? step_ms_ * cycles / cores : 0;
  }

 private:
  const traces::RunRecord& record_;
  std::vector<double> ms_;
  double step_ms_;
};

}  // namespace

bool is_collective(const std::string& category) {
  return category == "all-reduce" || category == "all-gather" || category == "reduce-scatter" ||
         category == "all-to-all" || category == "collective-permute";
}

std::vector<AllReduceTime> all_reduce_times(const traces::RunRecord& record,
                                            const Summary& summary) {
  const CollectiveTimes ms(record, summary);
  std::vector<AllReduceTime> times;
  std::vector<std::set<std::uint32_t>> ops;
  std::map<std::string, std::size_t> open;  // By name.
  for (std::uint32_t i = 0; i < record.ops.size(); ++i) {
    if (!is_collective(record.ops[i].category)) {
      for (const auto& [name, at] : open) times[at].beside_ms += ms.of(i);
      continue;
    }
    std::string name = record.ops[i].name;
    const bool begins = takes_end(name, kFirst);
    if (!begins) takes_end(name, kMiddle);
    const auto found = open.find(name);
    const std::size_t at = found != open.end() ? found->second : times.size();
    if (found == open.end()) {
      if (begins) open.emplace(name, at);
      times.emplace_back();
      times.back().name = name;
      ops.emplace_back();
    } else if (name == record.ops[i].name) {
      open.erase(found);
    }
    times[at].exposed_ms += ms.of(i);
    ops[at].insert(i);
  }
  for (std::size_t i = 0; i < times.size(); ++i) times[i].hidden_ms = ms.hidden(ops[i]);
  return times;
}

AllReduceTime all_reduce_sum(const std::vector<AllReduceTime>& times) {
  AllReduceTime sum;
  for (const AllReduceTime& time : times) {
    sum.exposed_ms += time.exposed_ms;
    sum.hidden_ms += time.hidden_ms;
  }
  return sum;
}

std::string all_reduces_text(const traces::RunRecord& record, const Summary& summary) {
  const std::vector<AllReduceTime> times = all_reduce_times(record, summary);
  if (times.empty()) return "";
  const AllReduceTime all = all_reduce_sum(times);
  const bool hides = std::any_of(times.begin(), times.end(), [](const AllReduceTime& time) {
    return time.hidden_ms > 0 || time.beside_ms > 0;
  });
  if (!hides) {
    return "Collectives of a step: exposed " + fixed(all.exposed_ms, 3) +
           " ms, hidden 0 (no other kernel runs beside them)\n\n";
  }
  std::vector<std::vector<std::string>> rows{{"", "exposed ms", "hidden ms", "beside others ms"}};
  for (const AllReduceTime& time : times) {
    rows.push_back(
        {time.name, fixed(time.exposed_ms, 3), fixed(time.hidden_ms, 3), fixed(time.beside_ms, 3)});
  }
  rows.push_back({"all", fixed(all.exposed_ms, 3), fixed(all.hidden_ms, 3), ""});
  return "Collectives of a step\n" + columns(rows) +
         "  exposed: time in its kernels; hidden: what it sends is under way while other kernels\n"
         "  run; beside others: kernels that run from its start to its end\n\n";
}

Json all_reduces_json(const traces::RunRecord& record, const Summary& summary) {
  Json list = Json::array();
  for (const AllReduceTime& time : all_reduce_times(record, summary)) {
    list.push_back({{"name", time.name},
                    {"exposed_ms", time.exposed_ms},
                    {"hidden_ms", time.hidden_ms},
                    {"beside_ms", time.beside_ms}});
  }
  return list;
}

}  // namespace tpu::report
