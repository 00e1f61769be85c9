#include "sim/report/critical_path_report.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <sstream>
#include <vector>

namespace tpu::report {
namespace {

constexpr double kShown = 0.0005;

/// Milliseconds of the mean step that cycles of the whole account are.
double step_ms(const traces::RunRecord& record, const Summary& summary, double cycles) {
  const auto all = static_cast<double>(record.result.critical_path.cycles);
  return all > 0 ? cycles / all * summary.step_mean_ms : 0;
}

std::vector<std::size_t> by_share(const std::array<double, kResources>& shares) {
  std::vector<std::size_t> order(kResources);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return shares[a] > shares[b]; });
  return order;
}

double gain_ms(const traces::RunRecord& record, const Summary& summary, std::size_t resource) {
  const std::size_t set = std::size_t{1} << resource;
  return step_ms(record, summary, static_cast<double>(record.result.critical_path.gain(set)));
}

}  // namespace

std::string critical_path_text(const traces::RunRecord& record, const Summary& summary,
                               const TextStyle& style) {
  const CriticalPath& path = record.result.critical_path;
  if (path.cycles == 0) return "";
  const std::array<double, kResources> shares = path.shares();
  std::ostringstream out;
  out << "What the step depends on      share of the step    on the path   free, gains\n";
  for (const std::size_t r : by_share(shares)) {
    if (shares[r] < kShown && path.path[r] == 0) continue;
    const double on_path = step_ms(record, summary, static_cast<double>(path.path[r]));
    out << "  " << left(to_string(static_cast<Resource>(r)), 9)
        << left(bar(shares[r], 24, style), 24) << right(percent(shares[r]), 12)
        << right(short_time(on_path), 15) << right(short_time(gain_ms(record, summary, r)), 14)
        << "\n";
  }
  out << "\n";
  return out.str();
}

Json critical_path_json(const traces::RunRecord& record, const Summary& summary) {
  const CriticalPath& path = record.result.critical_path;
  Json rows = Json::array();
  if (path.cycles == 0) return rows;
  const std::array<double, kResources> shares = path.shares();
  for (const std::size_t r : by_share(shares)) {
    rows.push_back({{"resource", to_string(static_cast<Resource>(r))},
                    {"share", shares[r]},
                    {"path_ms", step_ms(record, summary, static_cast<double>(path.path[r]))},
                    {"gain_ms", gain_ms(record, summary, r)}});
  }
  return rows;
}

Json op_path_json(const traces::RunRecord& record, std::uint32_t op) {
  Json on_path = Json::object(), gains = Json::object();
  if (op < record.result.critical_path.ops.size()) {
    const CriticalPath::Op& mine = record.result.critical_path.ops[op];
    const double ms = 1e-3 / record.params.clock_mhz;
    for (std::size_t r = 0; r < kResources; ++r) {
      const char* name = to_string(static_cast<Resource>(r));
      if (mine.path[r] > 0) on_path[name] = static_cast<double>(mine.path[r]) * ms;
      if (mine.gain[r] != 0) gains[name] = static_cast<double>(mine.gain[r]) * ms;
    }
  }
  return {{"path_ms", on_path}, {"gain_ms", gains}};
}

std::optional<double> expected_gain_ms(const traces::RunRecord& record, const Summary& summary,
                                       const std::string& what_if) {
  const CriticalPath& path = record.result.critical_path;
  if (path.cycles == 0) return std::nullopt;
  const std::size_t hbm = CriticalPath::set_of(Resource::kHbm);
  const std::size_t host = CriticalPath::set_of(Resource::kHost);
  const std::map<std::string, std::size_t> sets{{"HBM free", hbm},
                                                {"infeed free", host},
                                                {"HBM and infeed free", hbm | host},
                                                {"ICI free", CriticalPath::set_of(Resource::kIci)}};
  if (const auto found = sets.find(what_if); found != sets.end()) {
    return step_ms(record, summary, static_cast<double>(path.gain(found->second)));
  }
  if (what_if != "twice the MXUs") return std::nullopt;
  return step_ms(record, summary,
                 static_cast<double>(path.cycles) - static_cast<double>(path.twice_the_mxus));
}

double moved_bytes_ms(const MachineParams& params, const Summary& summary) {
  return summary.hbm_bytes_per_step / params.core_hbm_bytes_per_s() * 1e3;
}

}  // namespace tpu::report
