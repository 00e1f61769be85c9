#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "isa/core_state.h"
#include "sim/base/error.h"
#include "tests/models/hbm_burst_twin.h"
#include "tests/models/test_program.h"

namespace tpu::dma_test {
namespace {

using test::fault_of;
using test::program_of;
using test::run;

std::string num(std::uint64_t value) { return std::to_string(value); }

/// From issue to flag of a read that begins with the run: a row is opened, 64 clocks of 900 MHz for
/// each granule of the fullest of 32 channels, 341 clocks for each refresh that falls due, at
/// clock 675 and every 3510 clocks after, before the last granule begins, and the latency.
std::uint64_t dma_cycles(std::uint64_t granules) {
  std::uint64_t last = 27 + 64 * ((granules + 31) / 32 - 1);
  for (std::uint64_t due = 675; last >= due; due += 3510) last += 341;
  return ((last + 64) * 940 + 899) / 900 + 140;
}

/// Halts unless flag 1 has `value` in the cycle `wait` after the DMA's start in cycle 0.
isa::Program flag_at(std::uint64_t granules, std::uint64_t wait, std::uint64_t value) {
  // The vsyncmov issues `wait` cycles after the DMA.
  return program_of("kernel top\n  { dma.hbm_to_vmem 0, " + num(granules) + ", 0, 1 ;; vdelay " +
                    num(wait - 1) + " }\n" + R"(
  { vsyncmov 1 }
  { %s1 = spop }
  { %p1 = scmp.ne.s32.totalorder %s1, )" +
                    num(value) + R"( }
  { shalt.err (%p1) }
)");
}

TEST(Dma, RaisesItsFlagExactlyAfterTransferAndLatency) {
  for (std::uint64_t granules : {1u, 64u, 4096u}) {
    const std::uint64_t cycles = dma_cycles(granules);
    EXPECT_EQ(fault_of(flag_at(granules, cycles - 1, 0)), "");
    EXPECT_EQ(fault_of(flag_at(granules, cycles, granules)), "");
    EXPECT_NE(fault_of(flag_at(granules, cycles - 1, granules)), "");
  }
}

TEST(Dma, AWaitEndsInTheCycleOfTheFlagAndCountsAsMemory) {
  const RunResult result = run(program_of(R"(
kernel top
  { dma.hbm_to_vmem 0, 256, 0, 1 }
  { dma.done.wait 1, 256 }
  { %s1 = smov 1 }
)"));
  // The wait's bundle issues in the cycle of the flag, then one more.
  EXPECT_EQ(result.cycles, dma_cycles(256) + 2);
  EXPECT_EQ(result.cores[0].total.core[CoreState::kMemoryWait], dma_cycles(256) - 1);
  EXPECT_EQ(result.cores[0].total.core[CoreState::kIssue], 3u);
  EXPECT_EQ(result.cores[0].total.hbm_read_bytes, 256u * 1024);
  EXPECT_EQ(result.cores[0].total.dmas, 1u);
}

TEST(Dma, ReadsInFlightPayTheLatencyOnce) {
  std::string text = "kernel top\n";
  for (int i = 0; i < 8; ++i) text += "  { dma.hbm_to_vmem " + num(64 * i) + ", 64, 0, 1 }\n";
  text += "  { dma.done.wait 1, 512 }\n";
  EXPECT_EQ(run(program_of(text)).cycles, dma_cycles(512) + 1);
}

TEST(Dma, ReadsAndWritesTogetherLoseTheTurnsOfTheChannels) {
  const RunResult result = run(program_of(R"(
kernel top
  { dma.hbm_to_vmem 0, 4096, 0, 1 }
  { dma.vmem_to_hbm 8192, 4096, 8192, 2 }
  { dma.done.wait 1, 4096 }
  { dma.done.wait 2, 4096 }
)"));
  test::HbmBurstTwin twin(HbmParams(), 940, 2);
  HbmRequest request;
  request.granules = 4096;
  twin.submit(request, 0);
  request.address = 8192;
  request.write = true;
  twin.submit(request, 1);
  const std::vector<std::uint64_t> done = twin.run();
  EXPECT_EQ(result.cycles, std::max(done[0] + 1, done[1]) + 1);
  EXPECT_GT(result.cycles, dma_cycles(8192) * 118 / 100);  // 27 clocks of 155
}

TEST(Dma, SmallChunksWaitForTheFullestChannel) {
  // 31 granules one by one: 31 apart all lie in one channel, 32 apart each in another.
  for (const std::uint32_t stride : {31u, 32u}) {
    isa::DmaDescriptor descriptor;
    descriptor.source.address = 31;
    descriptor.source.stride = stride;
    descriptor.source.granules_per_run = 1;
    descriptor.destination.space = isa::MemorySpace::kVmem;
    descriptor.granules = 31;
    descriptor.destination_flag = 5;
    isa::Program program = program_of("kernel top\n  { dma 512 }\n  { dma.done.wait 5, 31 }\n");
    const isa::DmaWords words = isa::encode(descriptor);
    for (std::uint32_t i = 0; i < 8; ++i) program.initial_smem.push_back({512 + i, words[i]});
    const std::uint64_t in_a_channel = stride == 31 ? 31 : 1;
    EXPECT_EQ(run(program).cycles, dma_cycles(32 * in_a_channel) + 1) << stride;
  }
}

/// Two runs of four fit, the two granules of the third one do not.
TEST(Dma, TheLastRunMayBeTheOneThatLeavesTheMemory) {
  const auto half = static_cast<std::uint32_t>((std::uint64_t{MachineParams().hbm.gib} << 20) / 2);
  for (const std::uint32_t room : {34u, 33u}) {
    isa::DmaDescriptor descriptor;
    descriptor.source.address = half - room;
    descriptor.source.stride = 16;
    descriptor.source.granules_per_run = 4;
    descriptor.destination.space = isa::MemorySpace::kVmem;
    descriptor.granules = 10;
    descriptor.destination_flag = 5;
    isa::Program program = program_of("kernel top\n  { dma 512 }\n  { dma.done.wait 5, 10 }\n");
    const isa::DmaWords words = isa::encode(descriptor);
    for (std::uint32_t i = 0; i < 8; ++i) program.initial_smem.push_back({512 + i, words[i]});
    const std::string fault = fault_of(program);
    if (room == 34) {
      EXPECT_EQ(fault, "");
    } else {
      EXPECT_NE(fault.find("the source of the DMA ends at HBM granule " + num(half + 1)),
                std::string::npos)
          << fault;
    }
  }
}

TEST(Dma, DescriptorsInSmemStartStridedDmas) {
  // 2 runs of 4 granules, 16 apart in HBM, into VMEM row 8; flag 5.
  isa::DmaDescriptor descriptor;
  descriptor.source.address = 100;
  descriptor.source.stride = 16;
  descriptor.source.granules_per_run = 4;
  descriptor.destination.space = isa::MemorySpace::kVmem;
  descriptor.destination.address = 8;
  descriptor.granules = 8;
  descriptor.destination_flag = 5;
  isa::Program program = program_of(R"(
kernel top
  { dma 512 }
  { dma.done.wait 5, 8 }
  { dma.vmem_to_hbm 8, 8, 0, 6 }
  { dma.done.wait 6, 8 }
)");
  const isa::DmaWords words = isa::encode(descriptor);
  for (std::uint32_t i = 0; i < 8; ++i) program.initial_smem.push_back({512 + i, words[i]});
  Machine machine(MachineParams(), program);
  CoreLoad load;
  load.hbm.push_back({100, std::vector<std::uint32_t>(4 * 256, 7)});
  load.hbm.push_back({116, std::vector<std::uint32_t>(4 * 256, 9)});
  machine.load(0, load);
  RunOptions options = test::on_core(0);
  options.values = true;
  machine.run(options);
  const std::vector<std::uint32_t> back = machine.read_hbm(0, 0, 8 * 256);
  EXPECT_EQ(back[0], 7u);
  EXPECT_EQ(back[4 * 256 - 1], 7u);
  EXPECT_EQ(back[4 * 256], 9u);
  EXPECT_EQ(back[8 * 256 - 1], 9u);
}

/// A MiB of CMEM has 2,048 rows of 512 bytes, two a granule: DMAs reach the last one, and no
/// further.
TEST(Machine, DataGoThroughTheLastGranuleOfCmem) {
  MachineParams params;
  params.core.cmem.mib = 1;
  RunOptions options = test::on_core(0);
  options.values = true;
  const auto program = [](const std::string& row) {
    return program_of("kernel top\n  { dma.hbm_to_cmem 100, 2, " + row +
                      ", 6 }\n  { dma.done.wait 6, 2 }\n  { dma.cmem_to_hbm " + row +
                      ", 2, 300, 7 }\n  { dma.done.wait 7, 2 }\n");
  };
  const isa::Program last = program("2044");
  Machine machine(params, last);
  CoreLoad load;
  load.hbm.push_back({100, std::vector<std::uint32_t>(2 * 256, 7)});
  machine.load(0, load);
  machine.run(options);
  EXPECT_EQ(machine.read_hbm(0, 300, 2 * 256), std::vector<std::uint32_t>(2 * 256, 7));
  EXPECT_NE(fault_of(program("2045"), options, params)
                .find("the destination of the DMA ends at CMEM row 2049, but there are 2048"),
            std::string::npos);
}

/// What a DMA brings is there for loads, to the last row of its last granule.
TEST(Machine, LoadsReadAllRowsThatADmaBrought) {
  const isa::Program program = program_of(R"(kernel top
  { dma.hbm_to_vmem 100, 8, 0, 6 }
  { dma.done.wait 6, 8 }
  { %v1 = vld [vmem:$0x8] }
  { vst [vmem:$0x20] %v1 }
  { dma.vmem_to_hbm 32, 4, 300, 7 }
  { dma.done.wait 7, 4 }
)");
  std::vector<std::uint32_t> words(8 * 256);
  for (std::uint32_t i = 0; i < words.size(); ++i) words[i] = 1000 + i;
  Machine machine(MachineParams(), program);
  CoreLoad load;
  load.hbm.push_back({100, words});
  machine.load(0, load);
  RunOptions options = test::on_core(0);
  options.values = true;
  machine.run(options);
  // Rows 8 to 15 are the last four granules.
  EXPECT_EQ(machine.read_hbm(0, 300, 4 * 256),
            std::vector<std::uint32_t>(words.begin() + 4 * 256, words.end()));
}

/// A row of 512 bytes: a MiB of CMEM has 2,048 of them, for loads and stores, too.
TEST(Machine, LoadsReachTheLastRowOfCmem) {
  MachineParams params;
  params.core.cmem.mib = 1;
  RunOptions options = test::on_core(0);
  options.values = true;
  const auto fault = [&](const std::string& row) {
    return test::fault_of(program_of("kernel top\n  { cst [cmem:" + row + "] %v1 }\n"), options,
                          params);
  };
  EXPECT_EQ(fault("$0x7f8"), "");
  EXPECT_NE(fault("$0x800").find("rows of CMEM below 2048"), std::string::npos);
}

/// Code that counts halves of the HBM's granules: runs lie apart in VMEM, one behind the other
/// in HBM.
TEST(Machine, RunsOfHalvesOfGranulesLieWhereTheDescriptorSays) {
  isa::DmaDescriptor descriptor;
  descriptor.source.address = 200;
  descriptor.destination.space = isa::MemorySpace::kVmem;
  descriptor.destination.stride = 4;
  descriptor.destination.granules_per_run = 1;
  descriptor.granules = 3;
  descriptor.destination_flag = 5;
  isa::Program program = program_of(R"(kernel top
  { dma 512 }
  { dma.done.wait 5, 3 }
  { dma.vmem_to_hbm 4, 1, 600, 6 }
  { dma.done.wait 6, 1 }
  { dma.vmem_to_hbm 8, 1, 601, 6 }
  { dma.done.wait 6, 2 }
)");
  program.conventions.granule_bytes = 512;
  const isa::DmaWords words = isa::encode(descriptor);
  for (std::uint32_t i = 0; i < 8; ++i) program.initial_smem.push_back({512 + i, words[i]});
  Machine machine(MachineParams(), program);
  std::vector<std::uint32_t> halves;
  for (const std::uint32_t value : {7u, 8u, 9u, 10u}) halves.resize(halves.size() + 128, value);
  CoreLoad load;
  load.hbm.push_back({100, halves});
  machine.load(0, load);
  RunOptions options = test::on_core(0);
  options.values = true;
  machine.run(options);
  EXPECT_EQ(machine.read_hbm(0, 300, 256),
            std::vector<std::uint32_t>(halves.begin() + 128, halves.begin() + 384));
}

/// XLA's gathers fetch what the padding of an array of indices names, and drop it: code out of a
/// listing may read what nothing has written, but for what is loaded before it starts.
TEST(Machine, ListingsMayReadWhatNothingHasWritten) {
  RunOptions options = test::on_core(0);
  options.values = true;
  isa::Program program = program_of(
      "kernel top\n  { dma.hbm_to_vmem 100, 2, 0, 6 }\n  { dma.done.wait 6, 2 }\n"
      "  { dma.vmem_to_hbm 0, 2, 300, 7 }\n  { dma.done.wait 7, 2 }\n");
  const std::string fault = "reads HBM granule 100, which nothing has written";
  EXPECT_NE(test::fault_of(program, options).find(fault), std::string::npos);
  program.kernels[0].names.resize(program.kernels[0].instructions.size());
  {
    Machine machine(MachineParams(), program);
    machine.run(options);
    EXPECT_EQ(machine.read_hbm(0, 300, 512), std::vector<std::uint32_t>(512, isa::kUnwrittenWord));
  }
  isa::Buffer parameter;
  parameter.role = isa::BufferRole::kParameter;
  parameter.granule = 99;
  parameter.bytes = 1025;
  program.buffers.push_back(parameter);
  EXPECT_NE(test::fault_of(program, options).find(fault), std::string::npos);
}

/// What a program reads before it has written it begins as zeros, all granules of it; to read what
/// lies behind it is a fault.
TEST(Machine, BuffersThatAreReadFirstBeginAsZeros) {
  RunOptions options = test::on_core(0);
  options.values = true;
  for (const std::string granules : {"2", "3"}) {
    isa::Program program = program_of("kernel top\n  { dma.hbm_to_vmem 100, " + granules +
                                      ", 0, 6 }\n  { dma.done.wait 6, " + granules +
                                      " }\n  { dma.vmem_to_hbm 0, 2, 300, 7 }\n"
                                      "  { dma.done.wait 7, 2 }\n");
    isa::Buffer buffer;
    buffer.granule = 100;
    buffer.bytes = 1500;
    buffer.zeroed = true;
    program.buffers.push_back(buffer);
    if (granules == "3") {
      EXPECT_NE(test::fault_of(program, options).find("reads HBM granule 102, which nothing has"),
                std::string::npos);
      continue;
    }
    Machine machine(MachineParams(), program);
    machine.run(options);
    EXPECT_EQ(machine.read_hbm(0, 300, 512), std::vector<std::uint32_t>(512));
  }
}

/// HBM is read by granules of 256 words, of the last one as many words as are asked for.
TEST(Machine, ReadsBackTheWordsThatAreAskedFor) {
  const isa::Program program = program_of("kernel top\n  { vdelay 1 }\n");
  Machine machine(MachineParams(), program);
  std::vector<std::uint32_t> words(3 * 256);
  for (std::uint32_t i = 0; i < words.size(); ++i) words[i] = 1000 + i;
  CoreLoad load;
  load.hbm.push_back({100, words});
  machine.load(0, load);
  RunOptions options = test::on_core(0);
  options.values = true;
  machine.run(options);
  for (const std::size_t count : {1u, 255u, 256u, 257u, 512u, 513u}) {
    const std::vector<std::uint32_t> back = machine.read_hbm(0, 100, count);
    EXPECT_EQ(back, std::vector<std::uint32_t>(words.begin(), words.begin() + count)) << count;
  }
  EXPECT_EQ(machine.read_hbm(0, 100, 0).size(), 0u);
}

/// A block takes whole granules, and may end where the core's half of the HBM ends.
TEST(Machine, ABlockOfWordsEndsInTheHalfOfItsCore) {
  const isa::Program program = program_of("kernel top\n  { vdelay 1 }\n");
  const std::uint64_t half = (std::uint64_t{MachineParams().hbm.gib} << 20) / 2;
  const auto error_of = [&](std::uint64_t granule, std::size_t words) -> std::string {
    Machine machine(MachineParams(), program);
    CoreLoad load;
    load.hbm.push_back({granule, std::vector<std::uint32_t>(words, 5)});
    machine.load(0, load);
    RunOptions options = test::on_core(0);
    options.values = true;
    try {
      machine.run(options);
    } catch (const WorkloadError& error) {
      return error.what();
    }
    EXPECT_EQ(machine.read_hbm(0, granule, words), std::vector<std::uint32_t>(words, 5));
    return "";
  };
  for (const std::uint64_t granules : {1, 2}) {
    EXPECT_EQ(error_of(half - granules, granules * 256), "") << granules;
    EXPECT_EQ(error_of(half - granules, granules * 256 - 255), "") << granules;
    EXPECT_EQ(error_of(half - granules, granules * 256 + 1),
              "a block loaded into HBM ends at HBM granule " + std::to_string(half + 1) +
                  ", but a core's half has " + std::to_string(half));
  }
}

/// A loop of four cycles a trip, of as many as %s2 says.
constexpr const char* kTrips = R"(
  { %s1 = smov 0 }
loop:
  { %s1 = sadd.s32 %s1, 1 }
  { %p1 = scmp.lt.s32.totalorder %s1, %s2 }
  { sbr.rel (%p1) target = loop }
  { %s3 = smov 0 }
)";

TEST(Dma, SmemTablesAreReadWithValuesOff) {
  // The trip count of the loop stands in HBM.
  isa::Program program = program_of(R"(
kernel top
  { dma.hbm_to_smem 40, 1, 1024, 1 }
  { dma.done.wait 1, 1 }
  { %s2 = sld [smem:$0x402] }
)" + std::string(kTrips));
  isa::Buffer table;
  table.granule = 40;
  table.data = {0, 0, 17};
  program.buffers.push_back(table);
  const std::uint64_t expected = dma_cycles(1) + 1 + 2 + 17 * 4;
  EXPECT_EQ(run(program).cycles, expected);
  // Without the table its content is unknown, and so is the branch.
  program.buffers.clear();
  EXPECT_NE(fault_of(program).find("--values on"), std::string::npos);
}

/// Copies `descriptor` in HBM with values off, where granules 100 + i hold a word above 0 of
/// `source` (0: nothing) and the 32 from 200 on the word 31, then loops as often as the first words
/// of two granules say together. One is of the copy, so the copy is followed.
isa::Program trips_of_copied(isa::DmaDescriptor descriptor,
                             const std::vector<std::uint32_t>& source, std::uint32_t copied,
                             std::uint32_t granule) {
  descriptor.source.address = 100;
  descriptor.destination.address = 200;
  descriptor.remote = true;  // To the core itself.
  descriptor.source_flag = 4;
  descriptor.granules = static_cast<std::uint32_t>(source.size());
  descriptor.destination_flag = 5;
  isa::Program program =
      program_of("kernel top\n  { dma 512 }\n  { dma.done.wait 5, " + num(source.size()) +
                 " }\n  { dma.hbm_to_smem " + num(copied) + ", 1, 1024, 1 }\n  { dma.hbm_to_smem " +
                 num(granule) + R"(, 1, 2048, 1 }
  { dma.done.wait 1, 2 }
  { %s2 = sld [smem:$0x400] }
  { %s3 = sld [smem:$0x800] ;; vdelay 1 }
  { %s2 = sadd.s32 %s2, %s3 }
)" + std::string(kTrips));
  const isa::DmaWords words = isa::encode(descriptor);
  for (std::uint32_t i = 0; i < 8; ++i) program.initial_smem.push_back({512 + i, words[i]});
  const auto hold = [&](std::uint64_t at, std::uint32_t word) {
    isa::Buffer buffer;
    buffer.granule = at;
    buffer.data = {word};
    program.buffers.push_back(buffer);
  };
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] > 0) hold(100 + i, source[i]);
  }
  for (std::uint64_t i = 0; i < 32; ++i) hold(200 + i, 31);
  return program;
}

/// Two runs of two granules, four apart: the first granule is unknown, the others are not.
TEST(Dma, WhatLiesBetweenTheRunsOfACopyStays) {
  isa::DmaDescriptor descriptor;
  descriptor.destination.granules_per_run = 2;
  descriptor.destination.stride = 4;
  const auto cycles_of = [&](std::uint32_t granule) {
    return run(trips_of_copied(descriptor, {0, 21, 22, 23}, 205, granule)).cycles;
  };
  const std::uint64_t none = cycles_of(201) - 21 * 4;
  EXPECT_EQ(cycles_of(202), none + 31 * 4);
  EXPECT_EQ(cycles_of(203), none + 31 * 4);
  EXPECT_EQ(cycles_of(204), none + 22 * 4);
  EXPECT_EQ(cycles_of(206), none + 31 * 4);
}

/// Two runs of four, eight apart, of which granules 3, 4 and 6 are unknown.
TEST(Dma, OfACopyEachGranuleIsKnownWhoseSourceIs) {
  isa::DmaDescriptor descriptor;
  descriptor.destination.granules_per_run = 4;
  descriptor.destination.stride = 8;
  const auto program = [&](std::uint32_t granule) {
    return trips_of_copied(descriptor, {20, 21, 22, 0, 0, 25, 0, 27}, 211, granule);
  };
  const std::uint64_t none = run(program(200)).cycles - 20 * 4;
  EXPECT_EQ(run(program(202)).cycles, none + 22 * 4);
  EXPECT_EQ(run(program(209)).cycles, none + 25 * 4);
  for (const std::uint32_t unknown : {203U, 208U, 210U}) {
    EXPECT_NE(fault_of(program(unknown)).find("--values on"), std::string::npos) << unknown;
  }
}

/// What XLA does with the addresses of arguments that are more than one list in SMEM holds: words
/// that the program stored go to HBM and come back elsewhere; values are off.
TEST(Dma, WordsOfSmemWaitInHbmWithValuesOff) {
  const auto text = [](const std::string& first_word) {
    return R"(
kernel top
  { sst [smem:$0x400] 9 }
  { sst [smem:)" +
           first_word + R"(] 17 }
  { dma.smem_to_hbm 1024, 1, 40, 1 }
  { dma.done.wait 1, 1 }
  { vsyncadd 1, -1 }
  { dma.hbm_to_smem 40, 1, 2048, 1 }
  { dma.done.wait 1, 1 }
  { %s2 = sld [smem:$0x802] }
)" + kTrips;
  };
  const std::uint64_t of_17 = run(program_of(text("$0x402"))).cycles;
  // Without the store the word is the 0 that SMEM begins with: one trip of four cycles in place of
  // 17.
  EXPECT_EQ(of_17 - run(program_of(text("$0x403"))).cycles, 16u * 4);
}

/// Words come and go in the cycles in which their DMAs end, whether anybody looks at the flag or
/// not; the core is ahead of the memory then.
TEST(Dma, WordsOfSmemMoveWhenTheirDmaEnds) {
  isa::Program comes = program_of(R"(
kernel top
  { dma.hbm_to_smem 40, 1, 1024, 1 }
  { vdelay 999 }
  { vsyncadd 7, 1 }
  { %s2 = sld [smem:$0x402] }
)" + std::string(kTrips));
  isa::Buffer table;
  table.granule = 40;
  table.data = {0, 0, 17};
  comes.buffers.push_back(table);
  const isa::Program goes = program_of(R"(
kernel top
  { sst [smem:$0x402] 17 }
  { dma.smem_to_hbm 1024, 1, 40, 1 }
  { vdelay 999 }
  { vsyncadd 7, 1 }
  { sst [smem:$0x402] 3 }
  { dma.done.wait 1, 1 }
  { vsyncadd 1, -1 }
  { dma.hbm_to_smem 40, 1, 2048, 1 }
  { vdelay 999 }
  { vsyncadd 7, 1 }
  { %s2 = sld [smem:$0x802] }
)" + std::string(kTrips));
  for (const bool interpret : {false, true}) {
    RunOptions options = test::on_core(0);
    options.interpret = interpret;
    EXPECT_EQ(run(comes, options).cycles, 1u + 1000 + 1 + 1 + 1 + 17 * 4) << interpret;
    EXPECT_EQ(run(goes, options).cycles, 2u + 1000 + 5 + 1000 + 1 + 1 + 1 + 17 * 4) << interpret;
  }
}

TEST(Dma, ReadingWhatNothingWroteIsAFaultWithValuesOn) {
  const isa::Program program = program_of(R"(
kernel top
  { dma.hbm_to_vmem 33, 2, 0, 1 }
  { dma.done.wait 1, 2 }
)");
  EXPECT_EQ(fault_of(program), "");
  RunOptions options = test::on_core(0);
  options.values = true;
  const std::string fault = fault_of(program, options);
  EXPECT_NE(fault.find("HBM granule 33"), std::string::npos) << fault;
  EXPECT_NE(fault.find("bundle 0x0"), std::string::npos) << fault;
}

TEST(Dma, TheOutfeedCrossesPcie) {
  const RunResult result = run(program_of(R"(
kernel top
  { dma.hbm_to_outfeed 0, 64, 1 }
  { dma.done.wait 1, 64 }
)"));
  // HBM, then 64 KiB at 15 GB/s = 15000 / 940 bytes a cycle, then 1000 ns.
  const auto pcie = static_cast<std::uint64_t>(std::ceil(65536.0 * 940 / 15000)) + 940;
  EXPECT_EQ(result.cycles, dma_cycles(64) + pcie + 1);
  EXPECT_EQ(result.cores[0].total.core[CoreState::kOutfeedWait], dma_cycles(64) + pcie - 1);
  EXPECT_EQ(result.critical_path.path[static_cast<std::size_t>(Resource::kHost)], pcie);
  EXPECT_EQ(result.critical_path.gain(CriticalPath::set_of(Resource::kHost)),
            static_cast<std::int64_t>(pcie));
}

TEST(Dma, StartsOfOneCoreKeepTheIssueInterval) {
  // No refresh, and the memory in step with the core: only the starts differ.
  MachineParams params;
  params.hbm.refresh_interval_ns = 0;
  params.hbm.pin_mbps = 2 * params.clock_mhz;
  const std::string starts =
      "{ dma.hbm_to_vmem 0, 1, 0, 1 }{ dma.hbm_to_vmem 1, 1, 8, 2 }{ dma.hbm_to_vmem 2, 1, 16, 3 }";
  const auto last_end = [&](std::uint32_t interval) {
    params.dma.issue_interval_cycles = interval;
    return test::run(program_of("kernel top\n" + starts + "{ dma.done.wait 3, 1 }"),
                     test::on_core(0), params)
        .cycles;
  };
  // Issued in cycles 0, 1 and 2; at an interval of 500 they start in 0, 500 and 1000.
  const std::uint64_t at_once = last_end(1);
  EXPECT_EQ(last_end(500), at_once - 2 + 1000);
  EXPECT_EQ(last_end(2), at_once - 2 + 4);
}

}  // namespace
}  // namespace tpu::dma_test
