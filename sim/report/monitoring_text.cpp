#include "sim/report/monitoring_text.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <sstream>

namespace tpu::report {
namespace {

constexpr double kNanosecondsPerSecond = 1e9;

std::string printed(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

std::string timestamp(double seconds) {
  const auto whole = static_cast<std::uint64_t>(seconds);
  char text[16];
  std::snprintf(text, sizeof text, "%02u:%02u:%02u", static_cast<unsigned>(whole / 3600 % 24),
                static_cast<unsigned>(whole / 60 % 60), static_cast<unsigned>(whole % 60));
  return text;
}

double mean(const std::vector<double>& values) {
  return values.empty() ? 0
                        : std::accumulate(values.begin(), values.end(), 0.0) /
                              static_cast<double>(values.size());
}

/// "90.8ms (avg), 89.8ms (min), 92.2ms (max)".
std::string spread(const char* format, double average, double least, double most) {
  return printed(format, average) + " (avg), " + printed(format, least) + " (min), " +
         printed(format, most) + " (max)";
}

void print_metric(std::ostringstream& out, const std::string& name, std::vector<double> samples,
                  double run_s) {
  if (samples.empty() || run_s <= 0) return;
  std::sort(samples.begin(), samples.end());
  const double sum = std::accumulate(samples.begin(), samples.end(), 0.0);
  const auto count = static_cast<double>(samples.size());
  out << "Metric: " << name << "\n  TotalSamples: " << samples.size()
      << "\n  Accumulator: " << metric_time(sum) << "\n  ValueRate: " << metric_time(sum / run_s)
      << " / second\n  Rate: " << printed("%.6g", count / run_s) << " / second\n  Percentiles: ";
  const char* separator = "";
  for (const int percentile : {1, 5, 10, 20, 50, 80, 90, 95, 99}) {
    const auto place = static_cast<std::size_t>(percentile * samples.size() / 100);
    out << separator << percentile << "%=" << metric_time(samples[place]);
    separator = "; ";
  }
  out << "\n";
}

}  // namespace

std::string metric_time(double nanoseconds) {
  struct Part {
    const char* suffix;
    double nanoseconds;
    int width;
  };
  constexpr Part kParts[] = {
      {"d", 86400e9, 2}, {"h", 3600e9, 2}, {"m", 60e9, 2}, {"s", 1e9, 2}, {"ms", 1e6, 3}};
  nanoseconds = std::round(nanoseconds);  // As printed: else 1000.000us may stand behind 999ms.
  std::string text;
  for (const Part& part : kParts) {
    const double whole = std::floor(nanoseconds / part.nanoseconds);
    nanoseconds -= whole * part.nanoseconds;
    if (text.empty() && whole == 0) continue;
    char digits[32];
    std::snprintf(digits, sizeof digits, "%0*.0f%s", part.width, whole, part.suffix);
    text += digits;
  }
  return text + printed("%.3fus", nanoseconds / 1e3);
}

std::vector<double> infeed_percentages(const traces::RunRecord& record, const Summary& summary) {
  std::vector<double> shares;
  for (std::size_t i = 0; i < record.result.cores.size(); ++i) {
    for (const StepSpan& step : record.result.cores[i].steps) {
      if (step.end <= step.begin) continue;
      if (!record.has_events) {
        shares.push_back(100 * summary.breakdown.infeed_wait);
        continue;
      }
      std::uint64_t waited = 0;
      for (const traces::WaitEvent& wait : record.events.waits) {
        const bool counts = wait.core == record.core_numbers[i] &&
                            wait.reason == CoreState::kInfeedWait && wait.begin >= step.begin &&
                            wait.begin < step.end;
        if (counts) waited += std::min(wait.end, step.end) - wait.begin;
      }
      shares.push_back(100 * static_cast<double>(waited) /
                       static_cast<double>(step.end - step.begin));
    }
  }
  return shares;
}

std::string profile_text(const traces::RunRecord& record, const Summary& summary, int level) {
  std::ostringstream out;
  out << "Timestamp: " << timestamp(record.params.seconds(record.result.cycles)) << "\n"
      << "  TPU type: TPU " << record.params.chip << "\n";
  const std::string matrix_units = "  Utilization of TPU Matrix Units (higher is better): " +
                                   printed("%.3g", 100 * summary.utilization.mxu) + "%\n";
  if (level < 2) {
    out << matrix_units;
    return out.str();
  }
  const std::size_t cores = record.result.cores.size();
  out << "  Number of TPU cores: " << cores << " (Replica count = " << cores
      << ", num cores per replica = 1)\n";
  if (record.examples_per_core > 0) {
    out << "  Per-core batch size: " << record.examples_per_core << "\n";
  }
  out << "  TPU idle time (lower is better): " << printed("%.3g", 100 * summary.idle_fraction)
      << "%\n"
      << matrix_units << "  Step time: "
      << spread("%.3gms", summary.step_mean_ms, summary.step_min_ms, summary.step_max_ms) << "\n";
  const std::vector<double> infeed = infeed_percentages(record, summary);
  if (infeed.empty()) return out.str();
  const auto [least, most] = std::minmax_element(infeed.begin(), infeed.end());
  out << "  Infeed percentage: " << spread("%.3f%%", mean(infeed), *least, *most) << "\n";
  return out.str();
}

std::string metrics_text(const traces::RunRecord& record) {
  const auto nanoseconds = [&](std::uint64_t cycles) {
    return record.params.seconds(cycles) * kNanosecondsPerSecond;
  };
  std::vector<double> execute, to_server, from_server;
  std::uint64_t first = record.result.cycles;
  std::size_t steps = 0;
  for (const CoreResult& core : record.result.cores) {
    for (const StepSpan& step : core.steps) {
      execute.push_back(nanoseconds(step.end - step.begin));
      first = std::min(first, step.begin);
    }
    steps = std::max(steps, core.steps.size());
  }
  for (const DmaEvent& dma : record.events.dmas) {
    const double time = nanoseconds(dma.end - dma.begin);
    if (dma.source == isa::MemorySpace::kInfeed) to_server.push_back(time);
    if (dma.destination == isa::MemorySpace::kOutfeed) from_server.push_back(time);
  }
  const double run_s = record.params.seconds(record.result.cycles - first);
  std::ostringstream out;
  print_metric(out, "ExecuteTime", execute, run_s);
  print_metric(out, "TransferFromServerTime", from_server, run_s);
  print_metric(out, "TransferToServerTime", to_server, run_s);
  if (steps > 1) out << "Counter: CachedCompile\n  Value: " << steps - 1 << "\n";
  out << "Counter: UncachedCompile\n  Value: 1\n";
  return out.str();
}

}  // namespace tpu::report
