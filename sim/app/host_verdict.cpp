#include "sim/app/host_verdict.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "models/host/loader.h"
#include "models/slow_parts.h"
#include "sim/base/ceil_divide.h"
#include "sim/report/summary.h"
#include "sim/report/text_layout.h"

namespace tpu::app {
namespace {

constexpr double kHardlyWaits = 0.05;

double host_waits(const report::Summary& summary) {
  return summary.idle_fraction - summary.breakdown.finished;
}

/// Runs of one program on machines whose hosts differ.
class Reruns {
 public:
  Reruns(Arguments arguments, const config::Configuration& configuration,
         const PreparedWorkload& workload)
      : arguments_(std::move(arguments)), configuration_(configuration), workload_(workload) {
    arguments_.output.clear();
    arguments_.values = false;
  }
  template <class Change>
  report::Summary with(const Change& change) const {
    config::Configuration changed = configuration_;
    change(changed.params);
    return report::summarize(
        simulate(arguments_, changed, arguments_.configs[0], workload_, true).record);
  }

 private:
  Arguments arguments_;
  const config::Configuration& configuration_;
  const PreparedWorkload& workload_;
};

std::string rate(double examples_per_s) {
  return report::short_number(examples_per_s) + " examples/s";
}

LoaderStage slowest(const MachineParams& params, std::uint64_t bytes, std::uint64_t examples) {
  const std::vector<LoaderStage> stages = loader_stages(params, bytes, examples);
  return *std::min_element(stages.begin(), stages.end(), [](const auto& a, const auto& b) {
    return a.examples_per_s < b.examples_per_s;
  });
}

/// What bounds a host where one of its stages does not: another one, or what its chips take.
double chips_or_next_stage(const MachineParams& params, std::uint64_t bytes, std::uint64_t examples,
                           std::string_view without, double chips) {
  double next = chips;
  for (const LoaderStage& stage : loader_stages(params, bytes, examples)) {
    if (stage.name != without) next = std::min(next, stage.examples_per_s);
  }
  return next;
}

/// What a run with a change says.
std::string outcome(const report::Summary& summary, const MachineParams& params,
                    std::uint64_t bytes, std::uint64_t examples) {
  std::string text = rate(summary.examples_per_s) + ", idle " +
                     report::fixed(100 * summary.idle_fraction, 1) + " %";
  const bool waits = Loader::is_described(params) && host_waits(summary) > kHardlyWaits;
  return text + "; then " + (waits ? slowest(params, bytes, examples).name : "the chips") +
         (waits ? " bounds it" : " bound it");
}

constexpr double kGiB = 1024.0 * 1024 * 1024;

/// Files that the operating system keeps in RAM: that it does, or RAM for those it has no room for.
void add_page_cache(const MachineParams& params, const Reruns& reruns, std::string_view bound,
                    std::uint64_t bytes, std::uint64_t batch, std::vector<std::string>& verdict) {
  const double files = file_bytes_of(params, bytes);
  const auto found = [&](const MachineParams& of) {
    return report::fixed(100 * page_cache_of(of, bytes, batch).found(), 1) + " % of reads";
  };
  const auto add = [&](const std::string& what, const auto& change) {
    MachineParams changed = params;
    change(changed);
    verdict.push_back(what + " (" + found(changed) + " find their file there): " +
                      outcome(reruns.with(change), changed, bytes, batch));
  };
  if (files == 0) return;
  if (!params.input.page_cache) {
    if (bound != kReadStage && bound != kWorkerStage) return;
    add("with files that stay in RAM once they were read",
        [](MachineParams& changed) { changed.input.page_cache = true; });
    return;
  }
  const double gib = std::ceil(
      (files + bytes_made_ahead(params, batch, bytes) + shuffle_bytes(params, bytes)) / kGiB);
  if (page_cache_of(params, bytes, batch).held() >= 1 || gib > 65536) return;
  verdict.push_back("RAM holds " +
                    report::fixed(100 * page_cache_of(params, bytes, batch).held(), 1) + " % of " +
                    report::fixed(files / kGiB, 1) + " GiB of files, read in " +
                    (params.input.order == "shuffled" ? "a new" : "the same") +
                    " order in each epoch: " + found(params) + " find their file there");
  add("with " + report::fixed(gib, 0) + " GiB of RAM instead of " +
          std::to_string(params.host.ram_gib),
      [&](MachineParams& changed) { changed.host.ram_gib = static_cast<std::uint32_t>(gib); });
}

}  // namespace

std::vector<std::string> host_verdict(const Arguments& arguments,
                                      const config::Configuration& configuration,
                                      const PreparedWorkload& workload,
                                      const traces::RunRecord& record) {
  const isa::Program& program = workload.program;
  const report::Summary summary = report::summarize(record);
  if (program.infeed_bytes == 0 || program.examples_per_core == 0 ||
      host_waits(summary) < kHardlyWaits) {
    return {};
  }
  const std::uint64_t on_host =
      program.infeed_host_bytes > 0 ? program.infeed_host_bytes : program.infeed_bytes;
  const std::uint64_t bytes = on_host / program.examples_per_core;
  const MachineParams& stated = configuration.params;
  const std::size_t a_host = std::size_t{stated.host.chips} * stated.cores_per_chip;
  const std::uint64_t batch = program.examples_per_core * std::min(a_host, workload.cores.size());
  const std::uint32_t which = slowest_host(stated, bytes, batch);
  // What would lift the slowest host is asked of all of them.
  config::Configuration as_slowest = configuration;
  as_slowest.params = as_host(stated, which);
  const MachineParams& params = as_slowest.params;
  const Reruns reruns(arguments, as_slowest, workload);
  std::vector<std::string> verdict;
  if (!stated.slow_hosts.empty()) {
    MachineParams alike = stated;
    alike.slow_hosts.clear();
    verdict.push_back("host " + std::to_string(which) + " is the slowest; with it as the others: " +
                      outcome(reruns.with([&](MachineParams& changed) { changed = alike; }), alike,
                              bytes, batch));
  }
  if (!Loader::is_described(params)) return verdict;
  const double chips =
      reruns.with([](MachineParams& changed) { changed.input.images = 0; }).examples_per_s;
  const std::size_t whole_hosts = ceil_divide(workload.cores.size(), a_host);
  const auto hosts = static_cast<double>(whole_hosts);
  const LoaderStage bound = slowest(params, bytes, batch);
  verdict.push_back(std::string(bound.name) + " bounds the input at " +
                    rate(bound.examples_per_s * hosts) + "; the chips take " + rate(chips) +
                    " where examples are there at once");
  if (std::string_view(bound.name) == kThreadStage) {
    const double next = chips_or_next_stage(params, bytes, batch, kThreadStage, chips / hosts);
    const double threads = std::ceil(1.02 * next * thread_work(params, bytes).seconds());
    const auto vcpus = static_cast<std::uint32_t>(std::min(threads, 4096.0));
    const auto more = [&](MachineParams& changed) {
      changed.host.vcpus = std::max(vcpus, changed.host.vcpus);
      changed.input.workers = 0;
    };
    MachineParams changed = params;
    more(changed);
    verdict.push_back("with " + std::to_string(changed.host.vcpus) + " vCPUs instead of " +
                      std::to_string(params.host.vcpus) + ": " +
                      outcome(reruns.with(more), changed, bytes, batch));
  }
  if (std::string_view(bound.name) == kWorkerStage) {
    const double next = chips_or_next_stage(params, bytes, batch, kWorkerStage, chips / hosts);
    const double wanted = std::ceil(1.02 * next * worker_seconds(params, bytes, batch));
    const auto workers = static_cast<std::uint32_t>(std::min(wanted, 4096.0));
    const auto more = [&](MachineParams& changed) { changed.input.workers = workers; };
    MachineParams changed = params;
    more(changed);
    const std::uint32_t now = params.input.workers == 0 ? params.host.vcpus : params.input.workers;
    verdict.push_back("with " + std::to_string(workers) + " workers instead of " +
                      std::to_string(now) + ": " +
                      outcome(reruns.with(more), changed, bytes, batch));
  }
  add_page_cache(params, reruns, bound.name, bytes, batch, verdict);
  if (params.input.cache == "ram") return verdict;
  MachineParams cached = params;
  cached.input.cache = "ram";
  const bool fits = loader_ram_bytes(cached, batch, bytes) <= params.host.ram_gib * kGiB;
  if (!fits && params.input.cache == "disk") return verdict;
  cached.input.cache = fits ? "ram" : "disk";
  const auto change = [&](MachineParams& changed) { changed.input.cache = cached.input.cache; };
  verdict.push_back("with prepared examples cached " +
                    std::string(fits ? "in RAM: " : "on the local disk (RAM is too small): ") +
                    outcome(reruns.with(change), cached, bytes, batch));
  return verdict;
}

}  // namespace tpu::app
