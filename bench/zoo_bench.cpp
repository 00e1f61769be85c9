#include <sys/resource.h>

#include "bench/bench_program.h"
#include "sim/config/compiler_target.h"
#include "workloads/compiler/compiler.h"
#include "workloads/frontend/zoo.h"

namespace tpu::bench {
namespace {

struct Case {
  const char* name;
  std::int64_t batch;
};
constexpr Case kCases[] = {{"mlp", 128}, {"lenet", 128}, {"transformer", 8}, {"resnet50", 128}};

hlo::Module module_of(const Case& workload) {
  frontend::WorkloadOptions options;
  options.batch = workload.batch;
  return frontend::build_workload(workload.name, options).module;
}

double peak_rss_mib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

void BM_Compile(benchmark::State& state) {
  const Case& workload = kCases[state.range(0)];
  const hlo::Module module = module_of(workload);
  std::size_t instructions = 0;
  for (const hlo::Computation& computation : module.computations) {
    instructions += computation.instructions.size();
  }
  for (auto _ : state) {
    const isa::Program program = compiler::compile(module, config::target_of(MachineParams(), 1));
    if (program.kernels.empty() || program.model_flops == 0) {
      state.SkipWithError("nothing was compiled");
      return;
    }
  }
  state.SetLabel(workload.name);
  state.counters["instructions/s"] = benchmark::Counter(
      static_cast<double>(state.iterations() * static_cast<std::int64_t>(instructions)),
      benchmark::Counter::kIsRate);
}
BENCHMARK(BM_Compile)->DenseRange(0, 3)->Unit(benchmark::kMillisecond);

void BM_Step(benchmark::State& state) {
  const Case& workload = kCases[state.range(0)];
  const isa::Program program =
      compiler::compile(module_of(workload), config::target_of(MachineParams(), 1));
  const bool interpret = state.range(1) != 0;
  std::uint64_t cycles = 0;
  for (auto _ : state) {
    const RunResult result = run(program, interpret);
    // Both paths of the core and every repetition take the same cycles.
    if (cycles != 0 && result.cycles != cycles) {
      state.SkipWithError("two runs took different cycles");
      return;
    }
    cycles = result.cycles;
  }
  state.SetLabel(std::string(workload.name) + (interpret ? " interpreted" : " by block"));
  state.counters["cycles"] = static_cast<double>(cycles);
  state.counters["cycles/s"] =
      benchmark::Counter(static_cast<double>(state.iterations()) * static_cast<double>(cycles),
                         benchmark::Counter::kIsRate);
  state.counters["peak MiB"] = peak_rss_mib();
}
BENCHMARK(BM_Step)->ArgsProduct({{0, 1, 2, 3}, {0, 1}})->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace tpu::bench
