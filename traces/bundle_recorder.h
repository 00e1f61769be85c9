#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "isa/program.h"
#include "models/machine.h"
#include "models/params.h"

namespace tpu::traces {

/// A bundle that issued.
struct BundleEvent {
  std::uint32_t core = 0;
  std::uint32_t op = 0;  ///< Index into Program::ops, or none of it.
  std::uint64_t cycle = 0;
  std::uint64_t waited = 0;  ///< Cycles just before.
  std::uint32_t delay = 0;   ///< Cycles behind it in which nothing issues.
  std::uint32_t result = 0;  ///< Cycles until its last result may be read; 0: it has none.
  std::uint32_t text = 0;    ///< Index into BundleLog::texts.
  std::uint32_t kernel = 0;  ///< Of the program.
  std::uint32_t number = 0;  ///< In the kernel.
  CoreState reason = CoreState::kMemoryWait;  ///< Of the wait.
};

/// The bundles of a window of a run.
struct BundleLog {
  std::vector<BundleEvent> bundles;  ///< In the order of their issue.
  std::vector<std::string> texts;    ///< Kernel, number and code.
  std::uint64_t left_out = 0;        ///< Of the window, behind the last one.
};

/// Keeps the bundles that issue in a window of cycles, the first kMostBundles of them, each with
/// its text and with what its core waited for just before.
class BundleRecorder {
 public:
  static constexpr std::size_t kMostBundles = 100000;

  /// The program has to outlive the recorder.
  BundleRecorder(const isa::Program& program, const MachineParams& params,
                 std::pair<std::uint64_t, std::uint64_t> window)
      : program_(program), params_(params), window_(window) {}

  void on_wait(std::uint32_t core, CoreState reason, std::uint64_t begin, std::uint64_t end);
  void on_bundles(const IssuedBundles& bundles);
  void forget();
  BundleLog take();

 private:
  struct Wait {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    CoreState reason = CoreState::kMemoryWait;
  };

  std::uint32_t text_of(std::uint32_t kernel, std::uint32_t bundle);
  std::uint32_t result_cycles(const isa::Kernel& kernel, const isa::Bundle& bundle) const;

  const isa::Program& program_;
  const MachineParams& params_;
  const std::pair<std::uint64_t, std::uint64_t> window_;
  BundleLog log_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> text_numbers_;
  std::map<std::uint32_t, Wait> waits_;  ///< The last one of each core.
};

}  // namespace tpu::traces
