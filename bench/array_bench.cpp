#include <benchmark/benchmark.h>

#include "models/core/systolic_cells.h"

namespace tpu::bench {
namespace {

/// What enters the array beside a row of operands in every cycle.
enum Load : int { kNothing, kPlain, kTransposed };

/// Cycles of one array of 128x128 through which a row of ones enters in every cycle; every sum is
/// checked: the weights are ones, too.
void BM_ArrayCycles(benchmark::State& state) {
  constexpr std::uint64_t kCycles = 4096;
  const std::vector<std::uint16_t> ones(128, 0x3f80);
  const auto load = static_cast<Load>(state.range(0));
  SystolicCells cells{CellArray()};
  for (int row = 0; row < 128; ++row) {
    cells.enter_weights(cells.cycle(), 0, 0, false, false, ones.data());
    cells.run(1);
  }
  cells.enter_swap(cells.cycle());
  std::uint64_t sums = 0, wrong = 0;
  for (auto _ : state) {
    for (std::uint64_t i = 0; i < kCycles; i += SystolicCells::kAtOnce) {
      for (std::uint64_t at = cells.cycle(); at < cells.cycle() + SystolicCells::kAtOnce; ++at) {
        cells.enter_operands(at, 1, ones);
        if (load == kNothing) continue;
        cells.enter_weights(at, 0, 0, load == kTransposed, false, ones.data());
      }
      for (const SystolicCells::Output& output : cells.run(SystolicCells::kAtOnce)) {
        for (std::uint32_t c = 0; c < output.count; ++c, ++sums) wrong += output.sums[c] != 128;
      }
    }
  }
  const std::uint64_t expected = (state.iterations() * kCycles - 63) * 128 - 4 * (31 * 32 / 2);
  if (wrong != 0 || sums != expected) {
    state.SkipWithError("sums are wrong or missing");
    return;
  }
  state.counters["cycles/s"] = benchmark::Counter(static_cast<double>(state.iterations() * kCycles),
                                                  benchmark::Counter::kIsRate);
}
BENCHMARK(BM_ArrayCycles)->DenseRange(kNothing, kTransposed)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace tpu::bench
