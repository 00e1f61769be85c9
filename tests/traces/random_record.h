#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <random>
#include <string>

#include "tests/traces/synthetic_record.h"
#include "traces/run_record.h"

namespace tpu::test {

/// Writes records of runs that nobody made: any number of cores and operations, each kind of figure
/// there or not, no two counters alike. Events follow each other as those of a run do; figures that
/// a machine would make add up to each other need not.
class RandomRecord {
 public:
  explicit RandomRecord(std::uint32_t seed) : random_(seed) {}

  traces::RunRecord make() {
    record_.params.ici.mesh_x = 1u << below(3);
    record_.params.ici.mesh_y = 1u << below(3);
    record_.params.ici.wrap_x = perhaps();
    record_.params.ici.wrap_y = perhaps();
    if (below(3) == 0) {
      record_.params.chip = "v2";
      record_.params.clock_mhz = 700;
      record_.params.core.mxu.count = 1;
      record_.params.hbm.pin_mbps = 1400;
    }
    record_.config = "made of numbers";
    record_.workload = one_of({"resnet50", "made-up", "transformer"});
    record_.program = "program " + text(below(100));
    record_.compiler = "nobody";
    record_.configuration_toml = "name = \"x\"\n";
    record_.workload_sha256 = "of nothing";
    record_.command = {"run", record_.workload};
    record_.examples_per_core = below(3) == 0 ? 0 : 1 + below(256);
    record_.model_flops = any(1'000'000'000);
    record_.data_dependent_control = below(4) == 0 ? 1 + below(5) : 0;
    record_.compulsory_hbm_bytes = any(10'000'000);
    record_.hbm_plan_bytes = any(std::uint64_t{1} << 32);
    record_.infeed_bytes = perhaps() ? any(100000) : 0;
    record_.infeed_host_bytes = perhaps() ? any(80000) : 0;
    record_.values = perhaps();
    if (record_.values) record_.values_from = "somewhere";
    if (perhaps()) record_.detail = "core=interpret";
    if (perhaps()) record_.params.host.examples_per_s = static_cast<double>(any(100000));
    if (perhaps()) record_.params.input.images = 1000 + below(1000000);
    add_ops();
    add_buffers();
    add_cores();
    add_path();
    add_parts();
    add_training();
    if (record_.values) {
      for (std::size_t s = 0; s < steps_; ++s) {
        record_.losses.push_back(static_cast<double>(any(1000)) / 128);
      }
    }
    if (perhaps()) record_.host_verdict = {"PCIe bounds the input", "a second line"};
    if (perhaps()) record_.result.notes = {"one is not modelled", "another is"};
    record_.result.events = any(100000);
    if (below(4) != 0) add_events();
    return record_;
  }

 private:
  std::uint64_t below(std::uint64_t count) { return random_() % count; }
  bool perhaps() { return random_() % 2 == 0; }
  /// From `least` to twice of it.
  std::uint64_t any(std::uint64_t least) { return least + below(least); }
  std::string one_of(std::initializer_list<const char*> texts) {
    return texts.begin()[below(texts.size())];
  }
  static std::string text(std::uint64_t number) { return std::to_string(number); }
  double ms() { return static_cast<double>(any(1000000)) / 1024; }

  void add_ops() {
    const std::size_t count = 2 + below(12);
    for (std::size_t i = 0; i < count; ++i) {
      isa::OpInfo op;
      op.category =
          one_of({"convolution fusion", "loop fusion", "copy", "infeed", "all-reduce", "custom"});
      op.name = op.category.substr(0, op.category.find(' ')) + "." + text(i);
      if (below(4) != 0) {
        op.op_name = "jit(step)/block" + text(below(3)) + "/" +
                     one_of({"dot_general", "add", "conv_general_dilated", "mul"});
      }
      if (perhaps()) op.source = "model.py:" + text(below(50));
      if (below(5) != 0) {
        op.shape = one_of({"f32", "bf16"}) + "[" + text(8 * (1 + below(4))) + "," +
                   text(1 + below(200)) + "]{1,0:T(8,128)}";
      }
      if (perhaps()) {
        op.matmul_flops = any(10000);
        op.padded_matmul_flops = op.matmul_flops + below(20000);
      }
      op.flops = op.matmul_flops + below(5000);
      op.hbm_bytes = perhaps() ? any(100000) : 0;
      op.estimated_cycles = perhaps() ? any(3000) : 0;
      op.vmem_bytes = below(3) == 0 ? 0 : any(1 << 20);
      record_.ops.push_back(op);
      const auto number = static_cast<std::uint32_t>(i);
      record_.kernels.push_back({number, static_cast<std::uint32_t>(1 + below(count)),
                                 "kernel " + text(i), any(100), any(300)});
      if (perhaps()) record_.operands.push_back({number, number / 2, perhaps()});
    }
  }

  void add_buffers() {
    const std::size_t count = 1 + below(9);
    for (std::size_t i = 0; i < count; ++i) {
      isa::Buffer buffer;
      buffer.name = "buffer" + text(i);
      buffer.role = static_cast<isa::BufferRole>(below(5));
      buffer.granule = 16 * below(1000);
      buffer.bytes = 1024 * (1 + below(500));
      buffer.unpadded_bytes = buffer.bytes - below(buffer.bytes);
      buffer.shape = "f32[" + text(1 + below(100)) + ",128]{1,0:T(8,128)}";
      record_.buffers.push_back(buffer);
      const auto first = static_cast<std::uint32_t>(below(record_.ops.size()));
      const auto last = static_cast<std::uint32_t>(first + below(record_.ops.size() - first));
      record_.lifetimes.push_back({first, last});
    }
  }

  void fill(Counters& c, std::uint64_t least) {
    for (std::uint64_t* count :
         {&c.bundles, &c.scalar_ops, &c.vector_alu_ops, &c.vector_loads, &c.vector_stores,
          &c.matmul_pushes, &c.weight_pushes, &c.xlu_pushes, &c.eup_pushes, &c.dmas,
          &c.hbm_read_bytes, &c.hbm_write_bytes, &c.ici_bytes}) {
      *count = below(5) == 0 ? 0 : any(least);
    }
    for (std::uint64_t& busy : c.busy_cycles) busy = any(least);
    for (std::uint64_t& cause : c.schedule) cause = perhaps() ? any(least) : 0;
    for (std::size_t state = 0; state < static_cast<std::size_t>(CoreState::kCount); ++state) {
      c.core.add(static_cast<CoreState>(state), below(4) == 0 ? 0 : any(least));
      for (auto& idle : c.idle) idle.add(static_cast<CoreState>(state), any(least));
    }
  }

  void add_cores() {
    steps_ = 1 + below(4);
    const std::size_t warmup = below(3);
    const std::uint32_t all = record_.params.cores();
    const std::uint32_t count = perhaps() ? all : 1 + static_cast<std::uint32_t>(below(all));
    const std::uint32_t first = static_cast<std::uint32_t>(below(all - count + 1));
    for (std::uint32_t number = first; number < first + count; ++number) {
      record_.core_numbers.push_back(number);
      CoreResult core;
      core.chip = number / record_.params.cores_per_chip;
      core.core = number % record_.params.cores_per_chip;
      std::uint64_t now = 0;
      for (std::size_t s = 0; s < warmup + steps_; ++s) {
        const std::uint64_t end = now + any(10000);
        (s < warmup ? core.warmup : core.steps).push_back({now, end});
        now = end;
      }
      core.begin_cycle = core.steps[0].begin;
      core.end_cycle = now;
      fill(core.total, 20000);
      core.ops.resize(record_.ops.size());
      for (std::size_t op = 0; op < record_.ops.size(); ++op) {
        if (below(6) == 0) continue;
        core.ops[op].count = steps_ * (1 + below(2));
        core.ops[op].cycles = any(3000);
        fill(core.ops[op].counters, 500);
        if (below(3) == 0) {
          core.ops[op].beside = {{static_cast<std::uint32_t>(below(record_.ops.size())), any(100)},
                                 {OpResult::kNoOp, any(10)}};
        }
      }
      if (perhaps()) core.waited_for[first + static_cast<std::uint32_t>(below(count))] = any(100);
      record_.result.cycles = std::max(record_.result.cycles, now);
      record_.result.cores.push_back(core);
    }
    record_.result.simulated_cores = 1 + static_cast<std::uint32_t>(below(count));
    record_.batch = record_.examples_per_core * count;
  }

  void add_path() {
    CriticalPath& path = record_.result.critical_path;
    path.ops.resize(record_.ops.size());
    for (CriticalPath::Op& op : path.ops) {
      for (std::size_t r = 0; r < kResources; ++r) {
        if (perhaps()) continue;
        op.path[r] = any(200);
        op.gain[r] = static_cast<std::int64_t>(any(150)) - (below(5) == 0 ? 250 : 0);
        op.cycles[r] = static_cast<double>(any(1000)) / 4;
        path.path[r] += op.path[r];
        path.cycles += op.path[r];
      }
    }
    for (std::size_t set = 0; set < CriticalPath::kSets; ++set) {
      for (std::size_t r = 0; r < kResources; ++r) {
        if ((set >> r & 1) == 0) path.without[set] += path.path[r];
      }
      path.without[set] += set % 3 == 1 ? below(50) : 0;
    }
    path.without[0] = path.cycles;
    path.twice_the_mxus = path.cycles - path.path[0] / 3;
  }

  void add_parts() {
    const std::size_t count = below(6);
    for (std::uint32_t i = 0; i < count; ++i) {
      PartAccount part;
      if (perhaps()) {
        part.core = record_.core_numbers[below(record_.core_numbers.size())];
        part.channel = i;
        part.part = channel_name(part.core, i);
        part.cycles = {{"data", any(800)}, {"turn", any(40)}, {"idle: not asked", any(500)}};
        part.moved = {{0, any(9000)}, {any(1000), any(4000)}, {any(3000), 0}};
      } else {
        part.part = "link " + text(i) + " of chip " + text(below(4));
        part.cycles = {{"busy", any(200)}, {"idle: not asked", any(2000)}};
      }
      record_.result.parts.push_back(part);
    }
  }

  void add_training() {
    if (perhaps()) {
      record_.what_if = {
          {"HBM free", "hbm.pin_mbps=1", ms(), static_cast<double>(any(5000)), "", any(9000), 0},
          {"MXU free", "core.mxu.count=4", ms(), 0, "it has no kernel", 0, 0},
          {"bf16", "dtype=bf16", ms(), static_cast<double>(any(5000)), "", any(9000), ms()}};
    }
    if (perhaps()) return;
    traces::Training& training = record_.training.emplace();
    training.scenario = one_of({"jax", "torch_xla"});
    training.epochs = 1 + below(50);
    training.examples = any(10000);
    training.shapes = {{"step", 256, any(1000), any(900), any(5000)}};
    if (perhaps()) training.shapes.push_back({"last batch", 17, any(500), any(400), any(3000)});
    TrainingTime& time = training.time;
    time.steps = any(1000);
    time.simulated = time.steps / 3;
    time.compilations = below(4);
    time.evaluations = below(9);
    time.checkpoints = below(9);
    for (std::uint64_t& cycles : time.causes) {
      if (perhaps()) cycles = any(100000);
      time.cycles += cycles;
    }
    time.step_times = {{any(1000), time.steps - 3}, {any(5000), 2}, {any(20000), 1}};
  }

  void add_events() {
    record_.has_events = true;
    const auto spaces = {isa::MemorySpace::kHbm, isa::MemorySpace::kVmem};
    for (std::size_t place = 0; place < record_.result.cores.size(); ++place) {
      const std::uint32_t number = record_.core_numbers[place];
      const CoreResult& core = record_.result.cores[place];
      for (const StepSpan& step : core.steps) {
        std::uint64_t now = step.begin;
        for (std::uint32_t op = 0; op < record_.ops.size() && now < step.end; ++op) {
          const std::uint64_t end = std::min(step.end, now + any(500));
          record_.events.ops.push_back({number,
                                        op,
                                        now,
                                        end,
                                        below(60),
                                        below(200),
                                        below(50000),
                                        {below(end - now), below(end - now), 0, 0}});
          if (below(3) == 0) {
            record_.events.waits.push_back(
                {number, static_cast<CoreState>(2 + below(4)), now + (end - now) / 2, end});
          }
          now = end + (perhaps() ? below(30) : 0);
        }
        for (std::size_t i = below(6); i > 0; --i) {
          DmaEvent dma;
          dma.source_chip = core.chip;
          dma.source_core = core.core;
          const std::size_t to = perhaps() ? place : below(record_.result.cores.size());
          dma.destination_chip = record_.result.cores[to].chip;
          dma.destination_core = record_.result.cores[to].core;
          dma.source = spaces.begin()[to == place ? below(2) : 1];
          dma.destination = spaces.begin()[below(2)];
          dma.begin = step.begin + below(step.end - step.begin);
          dma.end = dma.begin + below(3000);
          dma.bytes = 1024 * below(200);
          record_.events.dmas.push_back(dma);
        }
      }
    }
    const auto by_begin = [](const auto& a, const auto& b) { return a.begin < b.begin; };
    std::stable_sort(record_.events.ops.begin(), record_.events.ops.end(), by_begin);
    std::stable_sort(record_.events.waits.begin(), record_.events.waits.end(), by_begin);
    std::stable_sort(record_.events.dmas.begin(), record_.events.dmas.end(), by_begin);
  }

  std::mt19937 random_;
  traces::RunRecord record_;
  std::size_t steps_ = 1;
};

}  // namespace tpu::test
