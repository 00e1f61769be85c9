#include "bench/bench_program.h"
#include "bench/loops.h"

namespace tpu::bench {
namespace {

constexpr std::uint64_t kTrips = 200000;

void bundles(benchmark::State& state, bool interpret, bool values, std::uint64_t trips) {
  const isa::Program program = program_of(vector_loop(trips));
  for (auto _ : state) {
    if (!cycles_are(state, run(program, interpret, values), 2 + kLoopBundles * trips)) return;
  }
  state.counters["bundles/s"] =
      benchmark::Counter(static_cast<double>(state.iterations() * (2 + kLoopBundles * trips)),
                         benchmark::Counter::kIsRate);
}

void BM_BundlesInterpreted(benchmark::State& state) { bundles(state, true, false, kTrips); }
void BM_BundlesByBlock(benchmark::State& state) { bundles(state, false, false, kTrips); }
void BM_BundlesWithValues(benchmark::State& state) { bundles(state, false, true, 2000); }
BENCHMARK(BM_BundlesInterpreted)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_BundlesByBlock)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_BundlesWithValues)->Unit(benchmark::kMillisecond);

void pushes(benchmark::State& state, bool values, std::uint64_t trips) {
  const isa::Program program = program_of(mxu_loop(trips));
  const std::uint64_t expected = 1 + 33 * 8 + trips * 16 * 8;
  for (auto _ : state) {
    const RunResult result = run(program, false, values);
    if (!cycles_are(state, result, expected)) return;
    if (result.cores[0].total.matmul_pushes != 16 + 16 * trips) {
      state.SkipWithError("wrong number of pushes");
      return;
    }
  }
  state.counters["pushes/s"] = benchmark::Counter(
      static_cast<double>(state.iterations() * (16 + 16 * trips)), benchmark::Counter::kIsRate);
}

void BM_MxuPushes(benchmark::State& state) { pushes(state, false, 100000); }
void BM_MxuPushesWithValues(benchmark::State& state) { pushes(state, true, 200); }
BENCHMARK(BM_MxuPushes)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_MxuPushesWithValues)->Unit(benchmark::kMillisecond);

void BM_Dmas(benchmark::State& state) {
  constexpr std::uint64_t kDmas = 50000;
  const isa::Program program = program_of(dma_loop(kDmas));
  for (auto _ : state) {
    const RunResult result = run(program);
    if (result.cores[0].total.dmas != kDmas ||
        result.cores[0].total.hbm_read_bytes != kDmas * 16 * 1024) {
      state.SkipWithError("wrong number of DMAs or bytes");
      return;
    }
  }
  state.counters["DMAs/s"] = benchmark::Counter(static_cast<double>(state.iterations() * kDmas),
                                                benchmark::Counter::kIsRate);
}
BENCHMARK(BM_Dmas)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace tpu::bench
