#include <sys/resource.h>

#include <string>

#include "bench/bench_program.h"
#include "workloads/frontend/zoo.h"
#include "workloads/hlo/hlo_reader.h"

namespace tpu::bench {
namespace {

/// A module of at least so many bytes of text: the transformer's training step again and again,
/// each time as a computation of its own, then an entry.
std::string long_module(std::size_t bytes) {
  const std::string step =
      hlo::to_string(frontend::build_workload("transformer", frontend::WorkloadOptions()).module);
  const std::size_t entry = step.find("\nENTRY %");
  const std::size_t name_end = step.find(' ', entry + 8);
  std::string text = step.substr(0, entry);
  for (int copy = 0; text.size() < bytes; ++copy) {
    text += "\n%step." + std::to_string(copy) + step.substr(name_end);
  }
  return text + "\nENTRY %main () -> () {\n  ROOT %nothing = () tuple()\n}\n";
}

double peak_rss_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) * 1024;
}

/// Reads the text once per iteration; the memory is that of the process, text included.
void BM_ReadHlo(benchmark::State& state) {
  const std::string text = long_module(static_cast<std::size_t>(state.range(0)) * 1000000);
  std::size_t instructions = 0;
  for (auto _ : state) {
    const hlo::Module module = hlo::read_hlo_text("long.hlo", text);
    instructions = 0;
    for (const hlo::Computation& computation : module.computations) {
      instructions += computation.instructions.size();
    }
    if (instructions < 1000) state.SkipWithError("too few instructions were read");
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(text.size()));
  state.counters["instructions"] = static_cast<double>(instructions);
  state.counters["memory/text"] = peak_rss_bytes() / static_cast<double>(text.size());
}
BENCHMARK(BM_ReadHlo)->Arg(5)->Arg(50)->Unit(benchmark::kMillisecond);

void BM_PrintHlo(benchmark::State& state) {
  const hlo::Module module = hlo::read_hlo_text("long.hlo", long_module(5000000));
  std::size_t bytes = 0;
  for (auto _ : state) {
    bytes = hlo::to_string(module).size();
    if (bytes < 5000000) state.SkipWithError("the text is shorter than what was read");
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(bytes));
}
BENCHMARK(BM_PrintHlo)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace tpu::bench
