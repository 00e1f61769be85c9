#include "sim/report/critical_path_report.h"

#include <algorithm>
#include <map>
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

}  // namespace

std::vector<Cause> causes_of(const traces::RunRecord& record, const Summary& summary) {
  const CriticalPath& path = record.result.critical_path;
  std::vector<Cause> causes;
  if (path.cycles == 0) return causes;
  const std::array<double, kResources> shares = path.shares();
  for (std::size_t r = 0; r < kResources; ++r) {
    const auto resource = static_cast<Resource>(r);
    const auto gain = static_cast<double>(path.gain(CriticalPath::set_of(resource)));
    causes.push_back({resource, shares[r],
                      step_ms(record, summary, static_cast<double>(path.path[r])),
                      step_ms(record, summary, gain)});
  }
  std::stable_sort(causes.begin(), causes.end(),
                   [](const Cause& a, const Cause& b) { return a.share > b.share; });
  return causes;
}

std::string causes_text(const traces::RunRecord& record, const Summary& summary,
                        const TextStyle& style) {
  const std::vector<Cause> causes = causes_of(record, summary);
  if (causes.empty()) return "";
  std::ostringstream out;
  out << "Why the step takes this long       share on the path if it is free\n";
  for (const Cause& cause : causes) {
    if (cause.share < kShown && cause.path_ms == 0) continue;
    out << "  " << left(to_string(cause.resource), 9) << left(bar(cause.share, 20, style), 20)
        << right(percent(cause.share), 9) << right(short_time(cause.path_ms), 12)
        << right((cause.gain_ms > 0 ? "-" : "") + short_time(cause.gain_ms), 14) << "\n";
  }
  out << "\n";
  return out.str();
}

Json causes_json(const traces::RunRecord& record, const Summary& summary) {
  Json rows = Json::array();
  for (const Cause& cause : causes_of(record, summary)) {
    rows.push_back({{"cause", to_string(cause.resource)},
                    {"share", cause.share},
                    {"path_ms", cause.path_ms},
                    {"gain_ms", cause.gain_ms}});
  }
  return rows;
}

Json op_causes_json(const traces::RunRecord& record, const OpSummary& op) {
  Json shares = Json::object(), on_path = Json::object(), gains = Json::object();
  for (std::size_t r = 0; r < kResources; ++r) {
    const char* name = to_string(static_cast<Resource>(r));
    if (op.causes[r] != 0) shares[name] = op.causes[r];
    if (op.op >= record.result.critical_path.ops.size()) continue;
    const CriticalPath::Op& mine = record.result.critical_path.ops[op.op];
    const double ms = 1e-3 / record.params.clock_mhz;
    if (mine.path[r] > 0) on_path[name] = static_cast<double>(mine.path[r]) * ms;
    if (mine.gain[r] != 0) gains[name] = static_cast<double>(mine.gain[r]) * ms;
  }
  return {{"causes", shares}, {"path_ms", on_path}, {"gain_ms", gains}};
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
  return std::nullopt;
}

std::vector<SameProgramGain> same_program_gains(const traces::RunRecord& record,
                                                const Summary& summary) {
  std::vector<std::string> names{"HBM free"};
  if (record.infeed_bytes > 0) {
    names.emplace_back("infeed free");
    names.emplace_back("HBM and infeed free");
  }
  if (record.core_numbers.size() > 1) names.emplace_back("ICI free");
  std::vector<SameProgramGain> gains;
  for (const std::string& name : names) {
    if (const auto gain = expected_gain_ms(record, summary, name)) gains.push_back({name, *gain});
  }
  std::stable_sort(
      gains.begin(), gains.end(),
      [](const SameProgramGain& a, const SameProgramGain& b) { return a.gain_ms > b.gain_ms; });
  return gains;
}

double moved_bytes_ms(const MachineParams& params, const Summary& summary) {
  return summary.hbm_bytes_per_step / params.core_hbm_bytes_per_s() * 1e3;
}

}  // namespace tpu::report
