#pragma once

#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "isa/assembler.h"
#include "isa/execute.h"

namespace tpu::isa::test {

/// Sync flags without time, and a record of what was started.
class RecordingSurroundings : public Surroundings {
 public:
  void start_dma(const DmaDescriptor& descriptor) override { dmas.push_back(descriptor); }
  void add_to_sync_flag(std::uint32_t flag, std::uint32_t value) override { flags[flag] += value; }
  void add_to_remote_sync_flag(std::uint32_t address, std::uint32_t value) override {
    remote.emplace_back(address, value);
  }
  std::uint32_t sync_flag(std::uint32_t flag) override { return flags[flag]; }

  std::vector<DmaDescriptor> dmas;
  std::map<std::uint32_t, std::uint32_t> flags;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> remote;
};

/// A core whose bundles are written as text.
class BundleRunner {
 public:
  explicit BundleRunner(CoreShape shape = small_shape()) : state(shape) {}

  static CoreShape small_shape() {
    CoreShape shape;
    shape.vmem_rows = 1024;
    shape.smem_words = 256;
    return shape;
  }

  /// Runs bundles ("{ ... } { ... }") one after another.
  void run(const std::string& bundles) {
    const Kernel kernel = assemble("kernel k\n" + bundles, "test").at(0);
    for (std::uint32_t i = 0; i < kernel.bundles.size(); ++i) {
      execute_bundle(kernel, i, state, surroundings);
    }
  }

  /// The text of the fault that a bundle gives; "none" when it gives none.
  std::string fault(const std::string& bundle) {
    try {
      run(bundle);
    } catch (const std::exception& error) {
      return error.what();
    }
    return "none";
  }

  std::uint32_t& element(int reg, int sublane, int lane) {
    return state.vector(reg).word[static_cast<std::size_t>(kLanes * sublane + lane)];
  }
  float number(int reg, int sublane, int lane) { return as_float(element(reg, sublane, lane)); }

  void fill_random(int reg, std::uint32_t seed, bool floats) {
    std::mt19937 engine(seed);
    for (std::uint32_t& word : state.vector(reg).word) {
      word = static_cast<std::uint32_t>(engine());
      if (floats) word = as_bits(static_cast<float>(static_cast<std::int32_t>(word)) / 1e8f);
    }
  }

  CoreState state;
  RecordingSurroundings surroundings;
};

}  // namespace tpu::isa::test
