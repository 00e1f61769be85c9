// Cores that stand for others, with values that nobody knows among what the scalar unit reads.

#include <gtest/gtest.h>

#include <cstdlib>
#include <random>
#include <sstream>

#include "tests/models/test_program.h"

namespace tpu::folded_unknown_test {
namespace {

/// Granules of an input and of what the host sends; rows of VMEM that it comes to.
constexpr std::uint32_t kInput = 40, kBatch = 64, kRows = 256;

/// Data from somewhere comes into the scalar unit and becomes addresses, among operations on what
/// differs between cores.
class RandomReads {
 public:
  explicit RandomReads(std::uint32_t seed) : random_(seed) {}

  isa::Program make() {
    const bool has_batch = below(2) == 0;  // Nobody knows what nothing has written, either.
    text_ << "kernel top\n";
    if (has_batch) {
      text_ << "  { dma.infeed_to_hbm 1, " << kBatch << ", 1 }\n"
            << "  { dma.done.wait 1, 1 }\n  { vsyncadd 1, -1 }\n";
    }
    text_ << "  { dma.hbm_to_vmem " << kBatch << ", 1, " << kRows << ", 1 }\n"
          << "  { dma.done.wait 1, 1 }\n  { vsyncadd 1, -1 }\n"
          << "  { %s1 = sld [smem:$0x0] ;; vdelay 2 }\n  { %s2 = sld [smem:$0x1] ;; vdelay 2 }\n";
    // In half of the programs a step leaves something to the next one.
    for (std::uint32_t i = has_batch ? 4 : 0; i < 4; ++i) {
      text_ << "  { %s" << 3 + i << " = smov " << i << " }\n  { sst [smem:$0x40" << i << "] %s"
            << 3 + i << " ;; vdelay 2 }\n";
    }
    for (std::uint32_t pieces = 4 + below(12); pieces > 0; --pieces) piece();
    isa::Program program = test::program_of(text_.str());
    program.infeed_bytes = has_batch ? isa::kHbmGranuleBytes : 0;
    program.examples_per_core = 1;
    program.cores = 8;
    isa::Buffer input;
    input.name = "index";
    input.role = isa::BufferRole::kParameter;
    input.granule = kInput;
    input.bytes = isa::kHbmGranuleBytes;
    program.buffers.push_back(input);
    return program;
  }

 private:
  std::uint32_t below(std::uint32_t bound) { return random_() % bound; }
  std::string reg() { return "%s" + std::to_string(1 + below(6)); }
  std::string word() { return "$0x40" + std::to_string(below(4)); }

  void piece() {
    switch (below(10)) {
      case 0:
        return read_words(kInput);
      case 1:
        return read_words(kBatch);
      case 2:
        return push(below(2) == 0 ? "vstv " + reg() : "vmov " + std::to_string(below(9)));
      case 3:
        text_ << "  { %v2 = vld [vmem:$0x" << std::hex << kRows << std::dec << "] ;; vdelay 3 }\n";
        return push("vmov %v2");
      case 4:
        text_ << "  { " << reg() << " = sld [smem:" << word() << "] ;; vdelay 2 }\n";
        return;
      case 5:
        text_ << "  { sst [smem:" << word() << "] " << reg() << " ;; vdelay 2 }\n";
        return;
      case 6:
        text_ << "  { %p1 = scmp.lt.s32.totalorder %s1, 2 ;; vdelay 2 }\n  { "
              << (below(2) == 0 ? reg() + " = sadd.s32 (%p1), " + reg() + ", 8"
                                : "sst [smem:" + word() + "] (%p1), " + reg())
              << " ;; vdelay 2 }\n";
        return;
      case 7:
        text_ << "  { " << reg() << " = sadd.s32 " << reg() << ", " << reg() << " }\n";
        return;
      case 8:  // What was known of it is so again when the next step begins.
        text_ << "  { dma.vmem_to_hbm " << kRows << ", 1, " << (below(2) == 0 ? kInput : kBatch)
              << ", 1 }\n  { dma.done.wait 1, 1 }\n  { vsyncadd 1, -1 }\n";
        return;
      default:
        return fetch();
    }
  }
  /// Four words of a granule come into SMEM.
  void read_words(std::uint32_t granule) {
    text_ << "  { dma.hbm_to_smem " << granule << ", 1, 1024, 1 }\n"
          << "  { dma.done.wait 1, 1 }\n  { vsyncadd 1, -1 }\n";
  }
  void push(const std::string& made) {
    text_ << "  { %v1 = " << made << " }\n  { vpush %v1 ;; vdelay 9 }\n"
          << "  { " << reg() << " = spop ;; vdelay 1 }\n";
  }
  /// Three rows that meet in one bank or do not, by what registers say.
  void fetch() {
    for (std::uint32_t row = 0; row < 3; ++row) {
      text_ << "  { %s8 = sand.u32 " << reg() << ", 7 }\n  { %s8 = sshll.u32 %s8, 6 }\n"
            << "  { %s8 = sadd.s32 %s8, 1000 }\n  { dma.hbm_to_vmem %s8, 1, 8, 2 }\n";
    }
    text_ << "  { dma.done.wait 2, 3 }\n  { vsyncadd 2, -3 }\n";
  }

  std::mt19937 random_;
  std::ostringstream text_;
};

struct Outcome {
  std::string text;
  std::uint32_t simulated = 0;
  bool repeats = false;  ///< Some steps are counted, not simulated.
};

/// `kinds`: cores have so many different inputs.
Outcome outcome(const isa::Program& program, std::uint32_t kinds, bool refreshes, bool full) {
  MachineParams params;
  if (!refreshes) params.hbm.refresh_interval_ns = 0;
  RunOptions options;
  options.steps = refreshes ? 4 : 150;  // The phases of the two clocks come again after some.
  options.pod_full = full;
  options.inputs = [&](std::uint32_t core, const isa::Buffer&) {
    return std::vector<std::uint32_t>{3 + core % kinds, 7, 2 * (core % kinds), 1};
  };
  options.inputs_from = "a test";
  std::ostringstream out;
  try {
    const RunResult result = test::run(program, options, params);
    bool repeats = false;
    for (const std::string& note : result.notes) {
      // Where every core is simulated, so is every step.
      const bool of_repetition = note.find("cycle for cycle") != std::string::npos;
      repeats = repeats || of_repetition;
      if (!of_repetition) out << note << '\n';
    }
    for (const CoreResult& core : result.cores) {
      out << core.end_cycle << ' ' << core.total.dmas << ' ' << core.total.hbm_read_bytes << ' '
          << core.total.scalar_ops;
      for (const auto& step : core.steps) out << " " << step.end;
      out << '\n';
    }
    return {out.str(), result.simulated_cores, repeats};
  } catch (const ProgramFault& fault) {
    return {fault.what(), 0, false};
  }
}

std::uint32_t programs() {
  const char* count = std::getenv("TPUSIM_FOLDED_PROGRAMS");
  return count != nullptr ? static_cast<std::uint32_t>(std::atoi(count)) : 200;
}

TEST(FoldedUnknown, AgreesWithEveryCoreSimulatedOnRandomPrograms) {
  std::uint32_t ended_well = 0, folded = 0, split = 0, repeating = 0;
  for (std::uint32_t seed = 1; seed <= programs(); ++seed) {
    const isa::Program program = RandomReads(seed).make();
    const std::uint32_t kinds = seed % 3 + 1;
    const bool refreshes = seed % 2 == 0;  // Without, steps repeat sooner.
    const Outcome full = outcome(program, kinds, refreshes, true);
    const Outcome fold = outcome(program, kinds, refreshes, false);
    ASSERT_EQ(full.text, fold.text) << "seed " << seed;
    if (full.simulated > 0) ++ended_well;
    if (fold.simulated == 1) ++folded;
    if (fold.repeats) ++repeating;
    if (fold.simulated > 1 && fold.simulated < full.simulated) ++split;
  }
  if (programs() < 100) return;  // Too few to say which kinds there are.
  EXPECT_GT(ended_well, programs() / 2);
  EXPECT_GT(folded, programs() / 10);
  EXPECT_GT(split, programs() / 100);
  EXPECT_GT(repeating, programs() / 20);
}

}  // namespace
}  // namespace tpu::folded_unknown_test
