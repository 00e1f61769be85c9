#pragma once

#include <cstdint>

#include "traces/run_record.h"

namespace tpu::test {

/// The critical path of the run below: nothing of it hides behind anything, so what a resource
/// takes is what a free one gains.
inline CriticalPath synthetic_path() {
  CriticalPath path;
  const auto add = [&](std::size_t op, Resource resource, std::uint64_t cycles,
                       std::uint64_t mean_cycles) {
    const auto r = static_cast<std::size_t>(resource);
    path.cycles += cycles;
    path.path[r] += cycles;
    path.ops[op].path[r] = cycles;
    path.ops[op].cycles[r] = static_cast<double>(mean_cycles);
    path.ops[op].gain[r] = static_cast<std::int64_t>(mean_cycles);
  };
  path.ops.resize(3);
  add(0, Resource::kMxu, 960, 960);
  add(0, Resource::kLatency, 240, 240);
  add(1, Resource::kVector, 100, 100);
  add(1, Resource::kHbm, 500, 500);
  add(2, Resource::kHost, 400, 300);
  for (std::size_t set = 0; set < CriticalPath::kSets; ++set) {
    for (std::size_t r = 0; r < kResources; ++r) {
      if ((set >> r & 1) == 0) path.without[set] += path.path[r];
    }
  }
  path.twice_the_mxus = path.cycles - path.path[static_cast<std::size_t>(Resource::kMxu)] / 2;
  return path;
}

/// A run of two steps of three ops on the two cores of a chip, made up so that every figure of a
/// report can be worked out by hand. A step takes 1000 cycles on core 0 and 1100 on core 1.
///
///   op 0 "fusion.1"   600 cycles, both MXUs take pushes in 480 of them, flops padded twice
///   op 1 "copy.2"     300 cycles, moves 300 x 400 bytes
///   op 2 "infeed.3"   100 cycles on core 0 and 200 on core 1, all of it waiting
inline traces::RunRecord synthetic_record() {
  traces::RunRecord record;
  record.config = "v3-8";
  record.workload = "made-up";
  record.program = "made_up";
  record.compiler = "by hand";
  record.batch = 256;
  record.examples_per_core = 128;
  record.model_flops = 2 * 65536ULL * 100;
  record.compulsory_hbm_bytes = 50000;
  record.hbm_plan_bytes = std::uint64_t{3} << 30;
  record.infeed_bytes = 4096;
  record.infeed_host_bytes = 2048;
  record.configuration_toml = "name = \"v3-8\"\n";
  record.workload_sha256 = "made up, too";
  record.detail = "core=interpret";
  record.values = true;
  record.values_from = "by hand";
  record.core_numbers = {0, 1};

  isa::OpInfo fusion{"fusion.1",
                     "convolution fusion",
                     "jit(step)/dot_general",
                     "model.py:12",
                     "f32[8,64]{1,0:T(8,128)}",
                     1000,
                     800,
                     1600,
                     5000,
                     0};
  isa::OpInfo copy{"copy.2", "copy", "", "", "f32[8,128]{1,0:T(8,128)}", 0, 0, 0, 8192, 0};
  isa::OpInfo infeed{"infeed.3", "infeed", "", "", "", 0, 0, 0, 0, 0};
  fusion.vmem_bytes = 3 << 20;
  record.ops = {fusion, copy, infeed};
  record.kernels = {{0, 1, "dot.1", 500, 2000}, {1, 2, "copy", 30, 40}, {2, 3, "infeed", 4, 5}};
  record.operands = {{0, 0, true}, {1, 0, false}, {1, 0, true}};
  isa::Buffer weights;
  weights.name = "w";
  weights.role = isa::BufferRole::kParameter;
  weights.granule = 16;
  weights.bytes = 8192;
  weights.unpadded_bytes = 1024;
  weights.shape = "f32[8,32]{1,0:T(8,128)}";
  isa::Buffer donated = weights;
  donated.name = "new w";
  donated.role = isa::BufferRole::kOutput;
  isa::Buffer temporary;
  temporary.name = "t";
  temporary.role = isa::BufferRole::kTemporary;
  temporary.granule = 64;
  temporary.bytes = 100 * 1024;
  temporary.unpadded_bytes = 100 * 1024;
  temporary.shape = "f32[25600]";
  record.buffers = {weights, donated, temporary};
  record.lifetimes = {{0, 2}, {0, 2}, {0, 1}};

  const std::uint64_t steps = 2;
  for (std::uint32_t number = 0; number < 2; ++number) {
    CoreResult core;
    core.chip = 0;
    core.core = number;
    const std::uint64_t wait = 100 + 100 * number;
    const std::uint64_t length = 900 + wait;
    for (std::uint64_t step = 0; step < steps; ++step) {
      core.steps.push_back({step * length, (step + 1) * length});
    }
    core.ops.resize(3);
    core.ops[0].count = steps;
    core.ops[0].cycles = steps * 600;
    core.ops[0].counters.bundles = steps * 500;
    core.ops[0].counters.matmul_pushes = steps * 120;
    core.ops[0].counters.vector_alu_ops = steps * 300;
    core.ops[0].counters.busy_cycles[static_cast<std::size_t>(Unit::kMxu0)] = steps * 480;
    core.ops[0].counters.busy_cycles[static_cast<std::size_t>(Unit::kMxu1)] = steps * 480;
    const auto schedule = [](Counters& counters, ScheduleCause cause) -> std::uint64_t& {
      return counters.schedule[static_cast<std::size_t>(cause)];
    };
    schedule(core.ops[0].counters, ScheduleCause::kMxuPush) = steps * 400;
    schedule(core.ops[0].counters, ScheduleCause::kWeights) = steps * 80;
    schedule(core.ops[0].counters, ScheduleCause::kMxuResult) = steps * 120;
    schedule(core.ops[1].counters, ScheduleCause::kLoad) = steps * 50;
    schedule(core.total, ScheduleCause::kMxuPush) = steps * 400;
    schedule(core.total, ScheduleCause::kWeights) = steps * 80;
    schedule(core.total, ScheduleCause::kMxuResult) = steps * 120;
    schedule(core.total, ScheduleCause::kLoad) = steps * 50;
    core.ops[0].counters.core.add(CoreState::kIssue, steps * 500);
    core.ops[0].counters.core.add(CoreState::kDelay, steps * 100);
    core.ops[1].count = steps;
    core.ops[1].cycles = steps * 300;
    core.ops[1].counters.hbm_read_bytes = steps * 300 * 300;
    core.ops[1].counters.hbm_write_bytes = steps * 300 * 100;
    core.ops[1].counters.core.add(CoreState::kIssue, steps * 50);
    core.ops[1].counters.core.add(CoreState::kMemoryWait, steps * 250);
    core.ops[2].count = steps;
    core.ops[2].cycles = steps * wait;
    core.ops[2].counters.core.add(CoreState::kInfeedWait, steps * wait);
    core.total.matmul_pushes = steps * 120;
    core.total.busy_cycles = core.ops[0].counters.busy_cycles;
    core.total.vector_alu_ops = steps * 300;
    core.total.hbm_read_bytes = steps * 300 * 300;
    core.total.hbm_write_bytes = steps * 300 * 100;
    core.total.core.add(CoreState::kIssue, steps * 550);
    core.total.core.add(CoreState::kDelay, steps * 100);
    core.total.core.add(CoreState::kMemoryWait, steps * 250);
    core.total.core.add(CoreState::kInfeedWait, steps * wait);
    core.total.core.add(CoreState::kFinished, 2200 - steps * length);
    for (std::size_t unit = 0; unit < kUnits; ++unit) {
      // mxu1 works on for 20 cycles of the memory's wait.
      const std::uint64_t beside = unit == static_cast<std::size_t>(Unit::kMxu1) ? steps * 20 : 0;
      CycleAccount<CoreState>& idle = core.total.idle[unit];
      idle.add(CoreState::kIssue, steps * 650 - (core.total.busy_cycles[unit] - beside));
      idle.add(CoreState::kMemoryWait, steps * 250 - beside);
      idle.add(CoreState::kInfeedWait, steps * wait);
      idle.add(CoreState::kFinished, 2200 - steps * length);
    }
    core.end_cycle = steps * length;
    core.waited_for[1 - number] = 10 + number;
    core.ops[1].beside = {{2, 30 + number}, {OpResult::kNoOp, 4}};
    record.result.cores.push_back(core);
  }
  record.result.cycles = 2200;
  record.result.critical_path = synthetic_path();
  record.result.parts = {
      {"HBM of core 1, channel 7", {{"data", 800}, {"idle: not asked", 1400}}, 1, 7, {}},
      {"link 0 of chip 1", {{"busy", 200}, {"idle: not asked", 2000}}},
      {"link 1 of chip 1", {{"busy", 0}, {"idle: not asked", 2200}}}};
  record.result.parts[0].moved = {{0, 9400}, {1100, 4700}};
  record.result.events = 77;
  record.host_verdict = {"decode and augment bounds the input"};
  record.result.notes = {"host: send and receive are not modelled"};
  record.losses = {2.5, 1.25};
  record.training.emplace();
  record.training->scenario = "jax";
  record.training->epochs = 2;
  record.training->examples = 512;
  record.training->shapes = {{"step", 256, 1100, 900, 5000}};
  record.training->time.cycles = 9600;
  record.training->time.steps = record.training->time.simulated = 4;
  record.training->time.compilations = 1;
  record.training->time.causes = {4400, 0, 200, 5000};
  record.training->time.step_times = {{1100, 3}, {6300, 1}};
  return record;
}

/// The same with events: the ops in turn, a wait, and DMAs that overlap, touch and are empty.
inline traces::RunRecord synthetic_record_with_events() {
  traces::RunRecord record = synthetic_record();
  record.has_events = true;
  for (std::uint32_t number = 0; number < 2; ++number) {
    const std::uint64_t length = 1000 + 100 * number;
    for (std::uint64_t step = 0; step < 2; ++step) {
      const std::uint64_t begin = step * length;
      record.events.ops.push_back({number, 0, begin, begin + 600, 120, 300, 0, {480, 480, 0, 0}});
      record.events.ops.push_back({number, 1, begin + 600, begin + 900, 0, 0, 120000, {}});
      record.events.ops.push_back({number, 2, begin + 900, begin + length, 0, 0, 0, {}});
      record.events.waits.push_back({number, CoreState::kInfeedWait, begin + 900, begin + length});
    }
  }
  const auto dma = [&](isa::MemorySpace from, isa::MemorySpace to, std::uint32_t to_core,
                       std::uint64_t begin, std::uint64_t end, std::uint64_t bytes) {
    DmaEvent event;
    event.destination_core = to_core;
    event.source = from;
    event.destination = to;
    event.begin = begin;
    event.end = end;
    event.bytes = bytes;
    record.events.dmas.push_back(event);
  };
  using isa::MemorySpace;
  dma(MemorySpace::kHbm, MemorySpace::kVmem, 0, 600, 800, 60000);
  dma(MemorySpace::kHbm, MemorySpace::kVmem, 0, 610, 700, 30000);
  dma(MemorySpace::kHbm, MemorySpace::kVmem, 0, 700, 900, 30000);
  dma(MemorySpace::kVmem, MemorySpace::kHbm, 0, 800, 800, 0);
  dma(MemorySpace::kVmem, MemorySpace::kVmem, 1, 850, 950, 4096);
  return record;
}

}  // namespace tpu::test
