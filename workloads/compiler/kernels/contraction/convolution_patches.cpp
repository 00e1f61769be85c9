#include "workloads/compiler/kernels/contraction/convolution_patches.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "workloads/compiler/kernels/contraction/matmul_memory.h"

namespace tpu::compiler {

namespace {

constexpr std::uint32_t kUnitTiles = 16;

using Shift = std::array<std::int64_t, 2>;

/// The runs of all pixels that the group meets in one phase.
std::vector<Patches::Run> runs_of(const std::vector<Tap>& taps, std::int64_t stride,
                                  const Patches& patches) {
  std::map<Shift, std::vector<std::int64_t>> pixels;
  for (const Tap& tap : taps) {
    for (std::uint32_t g = 0; g < patches.group; ++g) {
      const Shift shift{tap.shift[0], tap.shift[1] + g * stride};
      std::vector<std::int64_t>& positions = pixels[shift];
      positions.resize(patches.group, -1);
      positions[g] = tap.window;
    }
  }
  std::vector<Patches::Run> runs;
  for (const auto& [shift, positions] : pixels) {
    for (std::uint32_t tile = 0; tile < patches.feature_tiles; tile += patches.run_tiles) {
      runs.push_back({shift, tile, false, positions});
    }
  }
  return runs;
}

}  // namespace

Patches::Patches(const ConvolutionProblem& problem, std::uint32_t pixels,
                 std::uint32_t feature_blocks)
    : group(pixels), blocks(feature_blocks) {
  feature_tiles = tiles_of(problem.contracted, 8) / blocks;
  run_tiles = std::gcd(feature_tiles, kUnitTiles);
  runs = kUnitTiles / run_tiles;
  std::map<std::array<std::uint32_t, 2>, std::vector<Tap>> phases;
  const std::vector<Tap> taps = taps_of(problem);
  for (std::size_t i = 0; i < taps.size(); ++i) {
    phases[taps[i].phase].push_back(taps[i]);
    for (std::size_t d = 0; d < 2; ++d) {
      first[d] = i == 0 ? taps[i].shift[d] : std::min(first[d], taps[i].shift[d]);
      last[d] = i == 0 ? taps[i].shift[d] : std::max(last[d], taps[i].shift[d]);
    }
  }
  for (const auto& [phase, phase_taps] : phases) {
    const std::vector<Run> all = runs_of(phase_taps, problem.spatial[1].stride, *this);
    for (std::size_t i = 0; i < all.size(); i += runs) {
      Unit unit{phase, i == 0, {}};
      for (std::size_t j = i; j < i + runs; ++j) {
        unit.runs.push_back(j < all.size() ? all[j] : all[i]);
        if (j < all.size()) continue;
        unit.runs.back().empty = true;
        unit.runs.back().positions.assign(group, -1);
      }
      units.push_back(std::move(unit));
    }
  }
}

}  // namespace tpu::compiler
