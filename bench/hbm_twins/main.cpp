// Prints the table of hbm_twins.md: the closed form of the HBM beside its commands one by one, in
// the mean over phases of the refresh.
#include <cmath>
#include <cstdio>
#include <ctime>

#include "bench/hbm_twins/traffic.h"
#include "models/memory/hbm_command_controller.h"
#include "models/memory/hbm_controller.h"

// libsystemc holds a main() that calls this.
extern "C" int sc_main(int, char**) { return 1; }

namespace tpu::bench {
namespace {

constexpr std::uint32_t kClockMhz = 940;
constexpr std::uint32_t kPhases = 8;

struct Figures {
  double cycles = 0;  ///< Mean.
  double cpu_ms = 0;  ///< Of all phases.
};

template <class Model>
Figures figures(const HbmTraffic& traffic) {
  Figures figures;
  const std::clock_t begin = std::clock();
  for (std::uint32_t phase = 0; phase < kPhases; ++phase) {
    HbmParams params;
    params.first_refresh_ns = params.refresh_interval_ns * phase / kPhases;
    Model hbm(params, kClockMhz, 2);
    figures.cycles += static_cast<double>(run(hbm, traffic)) / kPhases;
  }
  figures.cpu_ms = 1e3 * static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  return figures;
}

void print_table() {
  std::printf(
      "| traffic of a v3 core | closed form, cycles | command by command | difference | "
      "CPU ms, closed | CPU ms, commands |\n|---|--:|--:|--:|--:|--:|\n");
  for (const HbmTraffic& traffic : hbm_traffic()) {
    const Figures closed = figures<HbmController>(traffic);
    const Figures command = figures<HbmCommandController>(traffic);
    std::printf("| %s | %.0f | %.0f | %+.1f %% | %.1f | %.0f |\n", traffic.name.c_str(),
                closed.cycles, command.cycles, 100 * (closed.cycles / command.cycles - 1),
                closed.cpu_ms, command.cpu_ms);
  }
}

}  // namespace
}  // namespace tpu::bench

int main() { tpu::bench::print_table(); }
