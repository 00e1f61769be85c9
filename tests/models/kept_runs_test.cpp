// What the machine does with programs that stay the same, beside a small file that says what it
// did: of each run its cycles and a code of each kind of figure, so that no figure of any run
// changes unseen. Where a change is meant:
//
//     TPUSIM_UPDATE_KEPT=1 build/models_tests --gtest_filter='KeptRuns.*'
//
// writes kept/*.txt anew, and the commit shows what changed.

// What is random here depends on the order in which g++ evaluates operands; clang has another one.
#ifndef __clang__

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <functional>
#include <map>
#include <random>
#include <set>

#include "models/host/input_pipeline.h"
#include "models/host/loader.h"
#include "models/host/training_loop.h"
#include "models/parameter_table.h"
#include "sim/base/error.h"
#include "tests/kept_code.h"
#include "tests/kept_lines.h"
#include "tests/models/random_exchanges.h"
#include "tests/models/random_program.h"

namespace tpu::kept_runs_test {
namespace {

using test::Code;

/// What an observer is told, by kind.
class Watcher : public Observer {
 public:
  void on_step(std::uint32_t core, std::uint32_t step, std::uint64_t begin,
               std::uint64_t end) override {
    of(core).steps << step << begin << end;
  }
  void on_op(std::uint32_t core, std::uint32_t op, std::uint64_t begin, std::uint64_t end,
             const Counters& counters) override {
    of(core).ops << op << begin << end << counters.bundles << counters.dmas << counters.core.total()
                 << counters.hbm_read_bytes;
  }
  void on_wait(std::uint32_t core, CoreState reason, std::uint64_t begin,
               std::uint64_t end) override {
    of(core).waits << static_cast<std::uint64_t>(reason) << begin << end;
  }
  void on_dma(const DmaEvent& event) override {
    dmas_.insert({event.begin, event.end, event.bytes, event.source_chip, event.source_core,
                  event.destination_chip, event.destination_core,
                  static_cast<std::uint64_t>(event.source) << 8 |
                      static_cast<std::uint64_t>(event.destination)});
  }
  void on_bundles(const IssuedBundles& bundles) override {
    of(bundles.core).bundles << bundles.op << bundles.kernel << bundles.first << bundles.end
                             << bundles.cycle;
  }
  void on_account(const AccountBegin& begin) override {
    of(begin.number).steps << begin.chip << begin.core << begin.cycle;
  }
  void on_restart() override {
    cores_.clear();
    dmas_.clear();
  }
  std::string text() const {
    Code steps, ops, waits, bundles, dmas;
    for (const auto& [core, seen] : cores_) {
      steps << core << seen.steps.text();
      ops << core << seen.ops.text();
      waits << core << seen.waits.text();
      bundles << core << seen.bundles.text();
    }
    for (const auto& dma : dmas_) {
      for (const std::uint64_t value : dma) dmas << value;
    }
    return " seen: steps " + steps.text() + " ops " + ops.text() + " waits " + waits.text() +
           " bundles " + bundles.text() + " DMAs " + dmas.text();
  }

 private:
  struct Seen {
    Code steps, ops, waits, bundles;
  };
  Seen& of(std::uint32_t core) { return cores_[core]; }
  std::map<std::uint32_t, Seen> cores_;
  std::multiset<std::array<std::uint64_t, 8>> dmas_;
};

struct CounterCodes {
  Code counts, states, units, schedule;
  void add(const Counters& c) {
    for (const std::uint64_t count :
         {c.bundles, c.scalar_ops, c.vector_alu_ops, c.vector_loads, c.vector_stores,
          c.matmul_pushes, c.weight_pushes, c.xlu_pushes, c.eup_pushes, c.dmas, c.hbm_read_bytes,
          c.hbm_write_bytes, c.ici_bytes}) {
      counts << count;
    }
    for (const std::uint64_t busy : c.busy_cycles) units << busy;
    for (std::size_t s = 0; s < static_cast<std::size_t>(CoreState::kCount); ++s) {
      states << c.core[static_cast<CoreState>(s)];
      for (const auto& idle : c.idle) units << idle[static_cast<CoreState>(s)];
    }
    for (const std::uint64_t cycles : c.schedule) schedule << cycles;
  }
  std::string text() const {
    return " counts " + counts.text() + " states " + states.text() + " units " + units.text() +
           " schedule " + schedule.text();
  }
};

std::string text_of(const RunResult& result) {
  CounterCodes total, of_ops;
  Code spans, ops, path, parts, paths;
  for (const CoreResult& core : result.cores) {
    total.add(core.total);
    spans << core.chip << core.core << core.begin_cycle << core.end_cycle;
    for (const auto* steps : {&core.warmup, &core.steps}) {
      for (const StepSpan& step : *steps) spans << step.begin << step.end;
    }
    for (const auto& [late, cycles] : core.waited_for) spans << late << cycles;
    for (const OpResult& op : core.ops) {
      ops << op.count << op.cycles;
      for (const auto& [other, cycles] : op.beside) ops << other << cycles;
      of_ops.add(op.counters);
    }
  }
  const CriticalPath& critical = result.critical_path;
  for (const std::uint64_t cycles : critical.path) path << cycles;
  for (const std::uint64_t cycles : critical.without) path << cycles;
  path << critical.twice_the_mxus << critical.cuts;
  for (const CriticalPath::Op& op : critical.ops) {
    for (const std::uint64_t cycles : op.path) path << cycles;
    for (const std::int64_t cycles : op.gain) path << static_cast<std::uint64_t>(cycles);
    for (const double cycles : op.cycles) path << cycles;
  }
  for (const PartAccount& part : result.parts) {
    parts << part.part << part.core << part.channel;
    for (const auto& [activity, cycles] : part.cycles) parts << activity << cycles;
    for (const PartAccount::Moved& moved : part.moved) parts << moved.begin_cycle << moved.bytes;
  }
  for (const PathTaken& taken : result.paths) {
    paths << taken.executions << taken.least_trips << taken.most_trips;
  }
  for (const std::string& note : result.notes) paths << note;
  return std::to_string(result.cycles) + " cycles;" + total.text() + " spans " + spans.text() +
         " ops " + ops.text() + of_ops.text() + " path " + path.text() + " parts " + parts.text() +
         " notes " + paths.text();
}

/// In one line.
std::string message_of(const std::exception& error) {
  std::string text = error.what();
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text.substr(0, 300);
}

std::string outcome(const isa::Program& program, RunOptions options,
                    const MachineParams& params = {}, const CoreLoad* load = nullptr) {
  Watcher watcher;
  options.observer = &watcher;
  try {
    Machine machine(params, program);
    if (load != nullptr) {
      for (const std::uint32_t core : options.cores) machine.load(core, *load);
    }
    std::string text = text_of(machine.run(options));
    text += watcher.text();
    if (options.values) {
      Code memory;
      for (const std::uint32_t word : machine.read_hbm(0, 0, 512 * 256)) memory << word;
      text += " HBM " + memory.text();
    }
    return text;
  } catch (const UserError& error) {
    return message_of(error);
  }
}

std::string key(const char* kind, std::uint32_t seed) {
  char text[64];
  std::snprintf(text, sizeof text, "%s %03u", kind, seed);
  return text;
}

TEST(KeptRuns, OfACore) {
  test::KeptLines lines("models/kept/core.txt");
  CoreLoad load;
  load.hbm.push_back({0, std::vector<std::uint32_t>(512 * 256)});
  for (std::size_t i = 0; i < load.hbm[0].words.size(); ++i) {
    load.hbm[0].words[i] = 0x3f800000u + static_cast<std::uint32_t>(i * 2654435761u >> 9);
  }
  for (std::uint32_t seed = 1001; seed <= 1060; ++seed) {
    RunOptions options = test::on_core(seed % 2);
    options.steps = 1 + seed % 3;
    options.warmup_steps = seed % 4 == 0 ? 1 : 0;
    options.hbm_command = seed % 10 == 0;
    options.interpret = seed % 7 == 0;
    lines.expect(key("program", seed), outcome(test::RandomProgram(seed).make(), options));
  }
  for (std::uint32_t seed = 1101; seed <= 1120; ++seed) {
    RunOptions options = test::on_core(0);
    options.values = true;
    options.interpret = options.mxu_array = seed % 5 == 0;
    lines.expect(key("values", seed),
                 outcome(test::RandomProgram(seed).make(), options, {}, &load));
  }
  MachineParams large;
  large.core.mxu.rows = large.core.mxu.columns = 256;
  for (std::uint32_t seed = 1201; seed <= 1220; ++seed) {
    lines.expect(
        key("large array", seed),
        outcome(test::RandomProgram::for_large_arrays(seed).make(), test::on_core(0), large));
  }
}

/// Programs that are wrong, and what is said of them.
TEST(KeptRuns, OfWhatIsWrong) {
  test::KeptLines lines("models/kept/faults.txt");
  for (std::uint32_t seed = 1301; seed <= 1400; ++seed) {
    isa::Program program = test::RandomProgram(seed).make();
    std::mt19937 random(seed);
    test::damage(program, random);
    RunOptions options = test::on_core(0);
    options.runaway_cycles = 1 << 20;
    options.interpret = seed % 2 == 0;
    options.values = seed % 3 == 0;
    lines.expect(key("damaged", seed), outcome(program, options));
  }
}

template <class Number>
Number one_of(std::mt19937& random, std::initializer_list<Number> values) {
  return values.begin()[random() % values.size()];
}

MachineParams random_slice(std::mt19937& random) {
  MachineParams params;
  params.ici.mesh_x = 1u << random() % 3;
  params.ici.mesh_y = 1u << random() % 3;
  params.ici.wrap_x = random() % 2 == 0;
  params.ici.wrap_y = random() % 2 == 0;
  params.host.examples_per_s = one_of(random, {0.0, 1e5, 1e6});
  params.host.chips = one_of(random, {1u, 3u, 4u});
  params.host.hand_over_us = one_of(random, {0.0, 2.5});
  params.host.network_mb_per_s = one_of(random, {0.0, 0.0, 1000.0});
  params.ici.hop_latency_ns = one_of(random, {0u, 100u, 120u});
  params.ici.link_mbps = one_of(random, {100000u, 656000u});
  if (random() % 4 == 0) {
    params.slow_chips =
        std::to_string(random() % params.chips()) + "=" + std::to_string(100 + random() % 840);
  }
  return params;
}

TEST(KeptRuns, OfSlices) {
  test::KeptLines lines("models/kept/slices.txt");
  for (std::uint32_t seed = 1501; seed <= 1560; ++seed) {
    std::mt19937 random(seed);
    const MachineParams params = random_slice(random);
    RunOptions options;
    options.warmup_steps = seed % 2;
    options.steps = 1 + seed % 3;
    options.ici_packet = seed % 6 == 0;
    options.pod_full = seed % 3 == 0;
    options.hbm_command = seed % 15 == 0;
    lines.expect(key("slice", seed),
                 outcome(test::RandomExchanges(seed, params.ici.mesh_x, params.ici.mesh_y).make(),
                         options, params));
  }
}

/// A host with an input pipeline of its own, all of whose costs are of one size.
MachineParams random_host(std::mt19937& random) {
  MachineParams params;
  const auto below = [&](std::uint32_t count) { return random() % count; };
  params.host.vcpus = 1 + below(16);
  params.host.storage_mb_per_s = 50 + below(500);
  params.host.storage_latency_us = one_of(random, {0u, 500u, 4000u});
  params.host.storage_parallel_reads = 1 + below(16);
  params.host.disk_mb_per_s = 100 + below(500);
  params.host.disk_latency_us = below(300);
  params.host.copy_mb_per_s = 300 + below(2000);
  params.host.ram_gib = 1 + below(2);
  params.host.network_mb_per_s = one_of(random, {0u, 200u});
  params.host.hand_over_us = one_of(random, {0.0, 50.0, 800.0});
  params.input.images = 1000 + below(20000);
  params.input.file_bytes = 50000 + below(100000);
  params.input.pixels = 10000 + below(50000);
  params.input.decode_ns_per_pixel = 5 + below(30);
  params.input.augment_us = below(500);
  params.input.workers = below(2) == 0 ? 0 : 1 + below(12);
  params.input.reader = one_of<const char*>(random, {"ahead", "worker"});
  params.input.cache = one_of<const char*>(random, {"none", "none", "disk", "ram"});
  params.input.page_cache = below(2) == 0;
  params.input.prefetch_batches = 1 + below(3);
  return params;
}

/// Takes a batch each step, works, and sends some of it back.
isa::Program taker() {
  isa::Program program = test::program_of(R"(
kernel top
  { dma.infeed_to_hbm 64, 0, 1 }
  { dma.done.wait 1, 64 }
  { vsyncadd 1, -64 }
  { %s1 = smov 0 ;; vdelay 5000 }
  { dma.hbm_to_outfeed 0, 8, 2 }
  { dma.done.wait 2, 8 }
  { vsyncadd 2, -8 }
)");
  program.infeed_bytes = 64 << 10;
  program.infeed_host_bytes = 48 << 10;
  program.examples_per_core = 4;
  return program;
}

TEST(KeptRuns, OfHosts) {
  test::KeptLines lines("models/kept/hosts.txt");
  for (std::uint32_t seed = 1601; seed <= 1680; ++seed) {
    std::mt19937 random(seed);
    MachineParams params = random_host(random);
    const std::uint64_t examples = 1 + random() % 64, bytes = 1000 + random() % 400000;
    Code times, stages;
    std::uint64_t last = 0;
    try {
      Loader loader(params, examples, bytes);
      for (int batch = 0; batch < 12; ++batch) {
        last = loader.make(random() % 3 == 0 ? last + random() % 1000000 : 0);
        times << last;
      }
      for (const LoaderStage& stage : loader_stages(params, bytes, examples)) {
        stages << std::string_view(stage.name) << stage.examples_per_s;
      }
      const ThreadWork work = thread_work(params, bytes);
      stages << work.load << work.decode << work.augment
             << loader_ram_bytes(params, examples, bytes);
      lines.expect(key("loader", seed), std::to_string(last) + " cycles; batches " + times.text() +
                                            " stages " + stages.text());
    } catch (const UserError& error) {
      lines.expect(key("loader", seed), message_of(error));
    }
    if (seed % 4 != 0) continue;
    // The same host feeds a board whose cores take a batch each step.
    isa::Program program = taker();
    program.examples_per_core = 2 + random() % 8;
    RunOptions options;
    options.steps = 5;
    options.warmup_steps = 1;
    lines.expect(key("board", seed), outcome(program, options, params));
  }
}

TEST(KeptRuns, OfTrainings) {
  test::KeptLines lines("models/kept/trainings.txt");
  for (std::uint32_t seed = 1701; seed <= 1780; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&](std::uint64_t count) { return random() % count; };
    const auto perhaps = [&](std::uint64_t count) { return below(2) == 0 ? 1 + below(count) : 0; };
    TrainingPlan plan;
    plan.steps_of_epoch = 1 + below(120);
    plan.epochs = 1 + below(20);
    plan.full = {1 + below(90), perhaps(150), below(1000)};
    plan.has_ragged = below(2) == 0;
    plan.ragged = {1 + below(60), below(50), below(900)};
    plan.evaluation = {1 + below(40), below(30), below(500)};
    plan.first_batch_cycles = below(400);
    plan.first_input_cycles = perhaps(300);
    plan.batches_ahead = 1 + below(5);
    plan.launch_cycles = below(60);
    plan.steps_a_launch = 1 + below(8);
    plan.launches_ahead = below(3);
    plan.transfer_cycles = perhaps(30);
    plan.fallback_cycles = perhaps(40);
    plan.compile_is_cached = below(2) == 0;
    plan.readback_every = perhaps(20);
    plan.readback_cycles = below(80);
    plan.evaluation_every = perhaps(60);
    plan.evaluation_steps = 1 + below(9);
    plan.checkpoint_every = perhaps(40);
    plan.checkpoint_read_cycles = below(100);
    plan.checkpoint_write_cycles = below(3000);
    plan.checkpoint_in_background = below(2) == 0;
    plan.preempted_after = perhaps(500);
    plan.restart_cycles = below(2000);
    const TrainingTime time = TrainingLoop(plan).run();
    Code causes, counts;
    for (const std::uint64_t cycles : time.causes) causes << cycles;
    for (const auto& [cycles, count] : time.step_times) counts << cycles << count;
    counts << time.steps << time.compilations << time.evaluations << time.checkpoints;
    lines.expect(key("training", seed), std::to_string(time.cycles) + " cycles; causes " +
                                            causes.text() + " steps " + counts.text());
  }
}

void change(std::uint32_t& value) { value = value == 0 ? 1 : 2 * value; }
void change(double& value) { value = value == 0 ? 1 : 1.5 * value; }
void change(bool& value) { value = !value; }
void change(std::string& /*value*/) {}

/// The cycles of a run, and a code of all that it tells.
std::string short_outcome(const isa::Program& program, const RunOptions& options,
                          const MachineParams& params) {
  const std::string text = outcome(program, options, params);
  const std::size_t cycles = text.find(" cycles;");
  if (cycles == std::string::npos) return " (" + text.substr(0, 120) + ")";
  return " " + text.substr(0, cycles) + " " + (Code() << std::string_view(text)).text();
}

/// What programs do on a core, on a slice and behind hosts.
std::vector<std::string> short_outcomes(const std::function<MachineParams(MachineParams)>& with) {
  std::vector<std::string> outcomes;
  for (const std::uint32_t seed : {1001u, 1013u, 1020u}) {
    RunOptions options = test::on_core(0);
    options.hbm_command = seed % 2 == 0;
    outcomes.push_back(short_outcome(test::RandomProgram(seed).make(), options, with({})));
  }
  for (const std::uint32_t seed : {1504u, 1511u}) {
    MachineParams params;
    params.ici.mesh_x = params.ici.mesh_y = 2;
    params.host.examples_per_s = 1e6;
    RunOptions options;
    options.ici_packet = seed % 2 == 0;
    params = with(params);
    const std::uint32_t x = params.ici.mesh_x, y = params.ici.mesh_y;
    outcomes.push_back(short_outcome(test::RandomExchanges(seed, x, y).make(), options, params));
  }
  for (const std::uint32_t seed : {1602u, 1603u}) {
    std::mt19937 random(seed);
    RunOptions options;
    options.steps = 4;
    outcomes.push_back(short_outcome(taker(), options, with(random_host(random))));
  }
  return outcomes;
}

/// Each parameter of the machine by itself has another value; "=" where that changes nothing.
TEST(KeptRuns, WithEachParameterChanged) {
  test::KeptLines lines("models/kept/parameters.txt");
  const std::vector<std::string> before = short_outcomes([](MachineParams p) { return p; });
  std::string line;
  for (const std::string& text : before) line += text;
  lines.expect("none", line);
  const MachineParams defaults;
  visit_parameters(defaults, "", [&](const std::string& changed, const auto&, const auto& of) {
    if constexpr (std::is_arithmetic_v<std::decay_t<decltype(of)>>) {
      const std::vector<std::string> now = short_outcomes([&](MachineParams params) {
        visit_parameters(params, "", [&](const std::string& path, const auto&, auto& value) {
          if (path == changed) change(value);
        });
        return params;
      });
      line.clear();
      for (std::size_t i = 0; i < now.size(); ++i) line += now[i] == before[i] ? " =" : now[i];
      lines.expect(changed, line);
    }
  });
}

}  // namespace
}  // namespace tpu::kept_runs_test

#endif
