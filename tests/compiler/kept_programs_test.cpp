// What the compiler makes of programs that stay the same, beside small files that say what it was:
// the code of every kernel, so that a change of structure shows to be one, and the cycles of a
// step, so that nothing becomes slow unseen. Where a change is meant:
//
//     TPUSIM_UPDATE_KEPT=1 build/compiler_tests --gtest_filter='KeptPrograms.*'
//
// writes kept/kernel_codes.txt and kept/cycles.txt anew, and the commit shows what changed.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <vector>

#include "isa/encoding.h"
#include "models/machine.h"
#include "tests/compiler/machine_target.h"
#include "tests/kept_lines.h"
#include "workloads/compiler/compiler.h"
#include "workloads/compiler/kept_schedules.h"
#include "workloads/frontend/zoo.h"
#include "workloads/hlo/hlo_reader.h"

namespace tpu::test::kept_programs_test {
namespace {

/// A workload of the zoo with its options as the command line states them.
struct ZooProgram {
  std::string name;
  std::vector<std::pair<std::string, std::string>> options;

  std::string key() const {
    std::string text = name;
    for (const auto& [option, value] : options) text += " " + option + "=" + value;
    return text;
  }
  hlo::Module module() const {
    frontend::WorkloadOptions chosen;
    for (const auto& [option, value] : options) frontend::set_option(chosen, option, value);
    return frontend::build_workload(name, chosen).module;
  }
};

std::vector<ZooProgram> convolutions() {
  std::vector<ZooProgram> programs;
  for (const char* pass : {"fwd", "dgrad", "wgrad"}) {
    programs.push_back({"conv", {{"shape", "128x28x28x64x64"}, {"pass", pass}}});
    programs.push_back({"conv", {{"shape", "8x28x28x128x128"}, {"pass", pass}}});
    programs.push_back({"conv", {{"shape", "16x64x64x32x32"}, {"pass", pass}}});
  }
  return programs;
}

std::vector<ZooProgram> zoo_programs() {
  std::vector<ZooProgram> programs{
      {"matmul", {{"shape", "512x512x512"}}},
      {"matmul", {{"shape", "2048x2048x2048"}, {"dtype", "bf16"}}},
      {"mlp", {{"batch", "128"}}},
      {"lenet", {{"batch", "128"}}},
      {"transformer", {{"batch", "8"}}},
      {"resnet50", {{"batch", "8"}, {"image", "64"}}},
  };
  for (ZooProgram& program : convolutions()) programs.push_back(std::move(program));
  return programs;
}

using Programs = std::vector<std::pair<std::string, hlo::Module>>;

void add_files(Programs& programs, const std::string& folder) {
  for (const auto& entry : std::filesystem::directory_iterator(TPUSIM_SOURCE_DIR "/" + folder)) {
    programs.emplace_back(entry.path().stem().string(), hlo::read_hlo_file(entry.path().string()));
  }
}

/// Those whose cycles are kept: the zoo, and HLO of forms that it has not.
Programs timed_programs() {
  Programs programs;
  for (const ZooProgram& program : zoo_programs()) {
    programs.emplace_back(program.key(), program.module());
  }
  add_files(programs, "tests/compiler/kept/programs");
  return programs;
}

MachineParams two_arrays_of_256() {
  MachineParams machine;
  machine.name = "2 arrays of 256x256";
  machine.core.mxu.rows = machine.core.mxu.columns = 256;
  return machine;
}

// Codes of kernels.

std::string code_of(const isa::Kernel& kernel) {
  std::uint32_t hash = 2166136261u;  // FNV-1a
  for (const std::uint32_t word : isa::encode_bundles(kernel)) {
    for (int shift = 0; shift < 32; shift += 8) hash = (hash ^ (word >> shift & 0xff)) * 16777619u;
  }
  char text[9];
  std::snprintf(text, sizeof text, "%08x", hash);
  return text;
}

std::vector<std::string> words_of(const std::string& line) {
  std::istringstream stream(line);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

/// Names of kernels whose code is not what the line says.
std::string changed_kernels(const isa::Program& program, const std::vector<std::string>& kept) {
  std::string names;
  for (const isa::Kernel& kernel : program.kernels) {
    if (std::find(kept.begin(), kept.end(), code_of(kernel)) == kept.end()) {
      names += "\n  " + kernel.name + ": " + std::to_string(kernel.bundles.size()) + " bundles";
    }
  }
  return names;
}

void expect_kept_codes(KeptLines& kept, const std::string& key, const isa::Program& program) {
  std::string codes;
  for (const isa::Kernel& kernel : program.kernels) {
    codes += (codes.empty() ? "" : " ") + code_of(kernel);
  }
  if (KeptLines::updating()) return kept.set(key, codes);
  const std::vector<std::string> before = words_of(kept.at(key));
  EXPECT_TRUE(codes == kept.at(key))
      << key << ": " << before.size() << " kernels before, " << program.kernels.size()
      << " now; not as before:" << changed_kernels(program, before)
      << "\nmeant so? TPUSIM_UPDATE_KEPT=1 writes the file anew";
}

// Cycles of steps.

/// Of a step behind the first one, values off.
std::uint64_t cycles_of_step(const isa::Program& program, const MachineParams& machine) {
  RunOptions options;
  options.cores = {0};
  options.warmup_steps = 1;
  const RunResult result = Machine(machine, program).run(options);
  const StepSpan& step = result.cores.at(0).steps.back();
  return step.end - step.begin;
}

void expect_kept_cycles(KeptLines& kept, const std::string& key, std::uint64_t cycles) {
  if (KeptLines::updating()) return kept.set(key, std::to_string(cycles));
  ASSERT_NE(kept.at(key), "") << key << ": expected a line in kept/cycles.txt";
  EXPECT_LE(static_cast<double>(cycles), 1.02 * std::stod(kept.at(key))) << key;
}

// Of a compilation both.

TEST(KeptPrograms, KernelsHaveTheCodeThatTheyHadAndNoStepTakesTwoPercentLonger) {
  KeptLines codes("compiler/kept/kernel_codes.txt"), cycles("compiler/kept/cycles.txt");
  const std::vector<std::pair<std::string, MachineParams>> machines{
      {"v2", v2_8()}, {"v3", MachineParams{}}, {"256", two_arrays_of_256()}};
  Programs modules = timed_programs();
  const std::size_t timed = modules.size();
  add_files(modules, "tests/compiler/graphs");
  modules.emplace_back("captured mlp", hlo::read_hlo_file(TPUSIM_SOURCE_DIR
                                                          "/workloads/captured/mlp/before.hlo.gz"));
  for (std::size_t m = 0; m < modules.size(); ++m) {
    for (const auto& [chip, machine] : machines) {
      const std::string key = chip + " " + modules[m].first;
      const isa::Program program = compiler::compile(modules[m].second, target_of(machine, 1));
      expect_kept_codes(codes, key, program);
      if (m < timed && chip != "256") {
        expect_kept_cycles(cycles, key, cycles_of_step(program, machine));
      }
    }
  }
}

// Schedules that are kept from program to program.

/// The machine as it is, with a faster memory, more MXUs, other latencies.
std::vector<compiler::Target> targets_of_what_ifs() {
  std::vector<compiler::Target> all(5, target_of(MachineParams{}, 1));
  all[1].hbm_bytes_per_cycle *= 100;
  all[1].dma_latency_cycles = 60;
  all[2].mxu_count *= 2;
  all[3].matmul_latency_cycles += 3;
  all[4].eup_latency_cycles += 2;
  return all;
}

/// Those that are compiled in a tenth of a second, of all kinds of kernels.
Programs short_programs() {
  Programs programs;
  for (const ZooProgram& program : zoo_programs()) {
    const std::string key = program.key();
    const bool is_short = key.rfind("lenet", 0) == 0 || key.rfind("mlp", 0) == 0 ||
                          key.rfind("conv shape=8x", 0) == 0;
    if (is_short) programs.emplace_back(key, program.module());
  }
  add_files(programs, "tests/compiler/kept/programs");
  return programs;
}

std::vector<isa::Program> compiled_for_what_ifs() {
  std::vector<isa::Program> programs;
  for (const auto& [name, module] : short_programs()) {
    for (const compiler::Target& target : targets_of_what_ifs()) {
      programs.push_back(compiler::compile(module, target));
    }
  }
  return programs;
}

/// Programs that are compiled with the schedules of others at hand are those that are compiled
/// without, word for word.
TEST(KeptPrograms, DoNotChangeWithKeptSchedules) {
  const std::vector<isa::Program> without = compiled_for_what_ifs();
  EXPECT_EQ(compiler::schedules_taken_over(), 0u);
  compiler::keep_schedules(true);
  const std::vector<isa::Program> with = compiled_for_what_ifs();
  const std::size_t taken_over = compiler::schedules_taken_over();
  compiler::keep_schedules(false);
  std::size_t kernels = 0;
  ASSERT_EQ(with.size(), without.size());
  for (std::size_t p = 0; p < with.size(); ++p) {
    ASSERT_EQ(with[p].kernels.size(), without[p].kernels.size()) << with[p].name;
    kernels += with[p].kernels.size();
    for (std::size_t k = 0; k < with[p].kernels.size(); ++k) {
      const isa::Kernel& kernel = with[p].kernels[k];
      EXPECT_EQ(isa::encode_bundles(kernel), isa::encode_bundles(without[p].kernels[k]))
          << with[p].name << ", program " << p << ", " << kernel.name;
      EXPECT_EQ(kernel.vmem_bytes, without[p].kernels[k].vmem_bytes) << kernel.name;
    }
  }
  EXPECT_GT(taken_over, kernels);
  compiler::keep_schedules(true);
  compiler::compile(short_programs()[0].second, targets_of_what_ifs()[0]);
  EXPECT_LT(compiler::schedules_taken_over(), taken_over / 10);  // They were forgotten.
  compiler::keep_schedules(false);
}

}  // namespace
}  // namespace tpu::test::kept_programs_test
