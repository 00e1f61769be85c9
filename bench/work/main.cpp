// Pieces of work whose results are checked: each runs once, and prints its units and its CPU time.
// Under callgrind each has a dump of its own, named like it; bench/work.py reads them.
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <functional>
#include <string>
#include <vector>

#include "bench/hbm_twins/traffic.h"
#include "bench/loops.h"
#include "isa/assembler.h"
#include "models/machine.h"
#include "models/memory/hbm_command_controller.h"
#include "models/memory/hbm_controller.h"
#include "sim/config/compiler_target.h"
#include "workloads/compiler/compiler.h"
#include "workloads/frontend/zoo.h"
#include "workloads/hlo/hlo_reader.h"
#include "workloads/xla/captured_folder.h"
#if __has_include(<valgrind/callgrind.h>)
#include <valgrind/callgrind.h>
#else
#define CALLGRIND_START_INSTRUMENTATION
#define CALLGRIND_STOP_INSTRUMENTATION
#define CALLGRIND_ZERO_STATS
#define CALLGRIND_DUMP_STATS_AT(name)
#endif

// libsystemc holds a main() that calls this.
extern "C" int sc_main(int, char**) { return 1; }

namespace tpu::bench {
namespace {

/// What a piece of work returns: how many units it did, and whether the result is right.
struct Done {
  std::uint64_t units = 0;
  bool right = false;
};

struct Work {
  const char* name;
  const char* unit;
  /// Prepares; what it returns is measured.
  std::function<std::function<Done()>()> prepare;
};

isa::Program program_of(const std::string& text) {
  isa::Program program;
  program.name = "work";
  program.chip = "v3";
  program.kernels = isa::assemble(text, "work");
  return program;
}

RunResult run(const isa::Program& program, const RunOptions& options) {
  Machine machine(MachineParams(), program);
  return machine.run(options);
}

RunOptions on_one_core() {
  RunOptions options;
  options.cores = {0};
  return options;
}

/// A program that takes so many cycles.
std::function<Done()> timed(const std::string& text, const RunOptions& options,
                            std::uint64_t cycles, std::uint64_t units) {
  return [program = program_of(text), options, cycles, units] {
    return Done{units, run(program, options).cycles == cycles};
  };
}

std::function<Done()> bundles(bool interpret, bool values, std::uint64_t trips,
                              bool is_cut = false) {
  RunOptions options = on_one_core();
  options.interpret = interpret;
  options.values = values;
  const std::uint64_t count = 2 + kLoopBundles * trips;
  return timed(vector_loop(trips, is_cut), options, count, count);
}

std::function<Done()> pushes(bool values, std::uint64_t trips, bool is_cut = false) {
  RunOptions options = on_one_core();
  options.values = values;
  return timed(mxu_loop(trips, is_cut), options, 1 + 33 * 8 + trips * 16 * 8, 16 + 16 * trips);
}

std::function<Done()> dmas(bool interpret, std::uint64_t count) {
  RunOptions options = on_one_core();
  options.interpret = interpret;
  return [program = program_of(dma_loop(count)), options, count] {
    const Counters total = run(program, options).cores[0].total;
    return Done{count, total.dmas == count && total.hbm_read_bytes == count * 16 * 1024};
  };
}

template <class Model>
std::function<Done()> memory(std::uint64_t count) {
  return [count] {
    Model hbm(HbmParams(), 940, 2);
    const HbmTraffic traffic{"", mixed(count, 64, 1), 6, 0};
    const std::uint64_t granules = 2 * count * 64;
    const std::uint64_t end = run(hbm, traffic);
    // No faster than the pins, no slower than half of them.
    const std::uint64_t pins = granules * 1024 / 490;
    return Done{granules, end > pins && end < 2 * pins};
  };
}

hlo::Module module_of(const char* name, const frontend::WorkloadOptions& options = {}) {
  return frontend::build_workload(name, options).module;
}

/// Of two layers. Its tokens, out of the infeed, are addresses that nobody knows.
frontend::WorkloadOptions small_roberta() {
  frontend::WorkloadOptions options;
  options.batch = 8;
  options.layers = options.heads = 2;
  options.width = 128;
  options.sequence = 32;
  options.vocabulary = 20000;
  return options;
}

std::function<Done()> step(const char* name, std::uint32_t cores, bool every_core,
                           const frontend::WorkloadOptions& of_model = {}) {
  const isa::Program program =
      compiler::compile(module_of(name, of_model), config::target_of({}, cores));
  RunOptions options;
  for (std::uint32_t core = 0; core < cores; ++core) options.cores.push_back(core);
  options.pod_full = every_core;
  return [program, options, cores, every_core] {
    const RunResult result = run(program, options);
    return Done{1, result.cycles > 0 && result.cores.size() == cores &&
                       result.simulated_cores == (every_core ? cores : 1)};
  };
}

std::vector<Work> all_work() {
  return {
      {"calibration", "step",
       [] {
         return [] {
           // Multiplications that depend on each other: as fast as the machine, whatever it is.
           std::uint64_t value = 1;
           for (int i = 0; i < 2000000; ++i) value = value * 6364136223846793005U + 1;
           return Done{2000000, value == 14254829189407089537U};
         };
       }},
      {"bundles by block", "bundle", [] { return bundles(false, false, 40000, true); }},
      {"bundles of counted trips", "bundle", [] { return bundles(false, false, 40000); }},
      {"bundles interpreted", "bundle", [] { return bundles(true, false, 10000); }},
      {"bundles with values", "bundle", [] { return bundles(false, true, 300); }},
      {"MXU pushes", "push", [] { return pushes(false, 10000, true); }},
      {"MXU pushes of counted trips", "push", [] { return pushes(false, 10000); }},
      {"MXU pushes with values", "push", [] { return pushes(true, 20); }},
      {"DMAs", "DMA", [] { return dmas(false, 4000); }},
      {"DMAs, core interpreted", "DMA", [] { return dmas(true, 2000); }},
      {"HBM, both directions", "granule", [] { return memory<HbmController>(200); }},
      {"HBM, command by command", "granule", [] { return memory<HbmCommandController>(8); }},
      {"step of mlp, one core", "step", [] { return step("mlp", 1, false); }},
      {"step of mlp, eight cores folded", "step", [] { return step("mlp", 8, false); }},
      {"step of mlp, eight cores", "step", [] { return step("mlp", 8, true); }},
      {"step of a small roberta, eight cores folded", "step",
       [] { return step("roberta", 8, false, small_roberta()); }},
      {"compiling mlp", "module",
       [] {
         const hlo::Module module = module_of("mlp");
         return [module] {
           const isa::Program program = compiler::compile(module, config::target_of({}, 1));
           return Done{1, program.kernels.size() > 1 && program.model_flops > 0};
         };
       }},
      {"reading HLO", "instruction",
       [] {
         const std::string text = hlo::to_string(module_of("transformer"));
         return [text] {
           const hlo::Module module = hlo::read_hlo_text("transformer.hlo", text);
           std::uint64_t instructions = 0;
           for (const auto& computation : module.computations) {
             instructions += computation.instructions.size();
           }
           return Done{instructions, hlo::to_string(module) == text};
         };
       }},
      {"reading XLA's bundles", "bundle",
       [] {
         return [] {
           const isa::Program program =
               xla::load_captured(TPUSIM_SOURCE_DIR "/workloads/captured/mlp", "v3");
           std::uint64_t bundles = 0;
           for (const isa::Kernel& kernel : program.kernels) bundles += kernel.bundles.size();
           return Done{bundles, program.kernels.size() > 1 && bundles > 1000};
         };
       }},
  };
}

bool measure(const Work& work) {
  const std::function<Done()> act = work.prepare();
  const std::clock_t begin = std::clock();
  CALLGRIND_START_INSTRUMENTATION;
  CALLGRIND_ZERO_STATS;
  const Done done = act();
  CALLGRIND_DUMP_STATS_AT(work.name);
  CALLGRIND_STOP_INSTRUMENTATION;
  const double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  std::printf("%s\t%s\t%llu\t%.9f\t%s\n", work.name, work.unit,
              static_cast<unsigned long long>(done.units), seconds, done.right ? "right" : "wrong");
  return done.right;
}

}  // namespace
}  // namespace tpu::bench

int main() {
  bool right = true;
  for (const tpu::bench::Work& work : tpu::bench::all_work()) {
    right = tpu::bench::measure(work) && right;
  }
  return right ? 0 : 1;
}
