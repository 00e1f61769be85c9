#include <gtest/gtest.h>

#include <cmath>

#include "isa/meaning.h"
#include "models/network/ici_router.h"
#include "sim/base/error.h"
#include "tests/models/hbm_burst_twin.h"
#include "tests/models/test_program.h"

namespace tpu::ici_test {
namespace {

using test::program_of;

constexpr std::uint64_t kHop = 940;    // 1000 ns at 940 MHz
constexpr std::uint64_t kLocal = 282;  // 300 ns

std::uint64_t link_cycles(std::uint64_t bytes) {
  // 656 Gb/s at 940 MHz: 4100 bytes in 47 cycles.
  return (bytes * 47 + 4099) / 4100;
}

std::string hex(std::uint32_t value) {
  char text[16];
  std::snprintf(text, sizeof(text), "%u", value);
  return text;
}

std::uint32_t remote(std::uint32_t chip, std::uint32_t core, std::uint32_t flag) {
  return flag | 0x40000 | core << 20 | chip << 21;
}

/// Every core jumps to its own code by its core and chip number in SMEM words 0 and 1. Core 0 of
/// chip 0 runs `first`, all others `second`.
isa::Program two_roles(const std::string& first, const std::string& second) {
  return program_of(R"(
kernel top
  { %s1 = sld [smem:$0x0] ;; vdelay 1 }
  { %s2 = sld [smem:$0x1] ;; vdelay 1 }
  { %s3 = sor.u32 %s1, %s2 }
  { %p1 = scmp.ne.s32.totalorder %s3, 0 }
  { sbr.rel (%p1) target = others }
  { %s4 = smov 0 }
)" + first + R"(
  { sbr.rel target = end }
  { %s4 = smov 0 }
others:
)" + second + R"(
end:
  { %s4 = smov 0 }
)");
}
/// Cycle in which `first` begins; `second` begins in the same.
constexpr std::uint64_t kBegin = 2 + 2 + 1 + 1 + 2;

RunResult run(const isa::Program& program, std::vector<std::uint32_t> cores,
              const MachineParams& params = {}) {
  RunOptions options;
  options.cores = std::move(cores);
  return test::run(program, options, params);
}

TEST(Ici, AnAdditionTakesAHopPerLink) {
  // Chip 1 is one hop away, chip 3 two; the other core of a chip is on the local path.
  const struct {
    std::uint32_t chip, core;
    std::uint64_t cycles;
  } cases[] = {{1, 0, kHop}, {2, 1, kHop}, {3, 0, 2 * kHop}, {0, 1, kLocal}};
  for (const auto& c : cases) {
    const isa::Program program =
        two_roles("  { vsyncadd.remote " + hex(remote(c.chip, c.core, 5)) + ", 1 }\n",
                  "  { vwait.ge.trace 5, 1 }\n");
    const std::uint32_t number = c.chip * 2 + c.core;
    const RunResult result = run(program, {0, number});
    // The waiting bundle issues in the cycle of the addition; one more follows.
    EXPECT_EQ(result.cores[1].end_cycle, kBegin + c.cycles + 2) << number;
    EXPECT_EQ(result.cores[1].total.core[CoreState::kIciWait], c.cycles) << number;
  }
}

/// A remote DMA of `granules` from VMEM row 0 to row 64 of another core: flags 3 here, 4 there.
isa::DmaDescriptor vmem_to_vmem(std::uint32_t chip, std::uint32_t core, std::uint32_t granules) {
  isa::DmaDescriptor descriptor;
  descriptor.source.space = isa::MemorySpace::kVmem;
  descriptor.destination.space = isa::MemorySpace::kVmem;
  descriptor.destination.address = 64;
  descriptor.destination.chip = chip;
  descriptor.destination.core = core;
  descriptor.granules = granules;
  descriptor.source_flag = 3;
  descriptor.destination_flag = 4;
  descriptor.remote = true;
  return descriptor;
}

void put_descriptor(isa::Program& program, const isa::DmaDescriptor& descriptor) {
  const isa::DmaWords words = isa::encode(descriptor);
  for (std::uint32_t i = 0; i < 8; ++i) program.initial_smem.push_back({512 + i, words[i]});
}

TEST(Ici, ARemoteDmaGoesToACoreThatTheSliceHas) {
  const auto fault = [](std::uint32_t chip, std::uint32_t core) {
    isa::Program program = two_roles("  { dma 512 }\n  { dma.done.wait 3, 64 }\n", "");
    put_descriptor(program, vmem_to_vmem(chip, core, 64));
    return test::fault_of(program);
  };
  const std::string slice = ", but the slice has 4 chips of 2 cores";
  EXPECT_EQ(fault(3, 1).find(slice), std::string::npos);
  EXPECT_NE(fault(3, 2).find("the remote DMA goes to chip 3, core 2" + slice), std::string::npos);
  EXPECT_NE(fault(4, 1).find("the remote DMA goes to chip 4, core 1" + slice), std::string::npos);
}

TEST(Ici, ARemoteDmaRaisesBothFlags) {
  constexpr std::uint64_t kBytes = 64 * 1024;
  const struct {
    std::uint32_t chip, core;
    std::uint64_t latency;
  } cases[] = {{1, 0, kHop}, {3, 1, 2 * kHop}, {0, 1, kLocal}};
  for (const auto& c : cases) {
    isa::Program program =
        two_roles("  { dma 512 }\n  { dma.done.wait 3, 64 }\n", "  { dma.done.wait 4, 64 }\n");
    put_descriptor(program, vmem_to_vmem(c.chip, c.core, 64));
    const RunResult result = run(program, {0, c.chip * 2 + c.core});
    // The source's flag rises when the last byte has left: the wait's bundle, a branch, its delay
    // slot and the end follow.
    EXPECT_EQ(result.cores[0].end_cycle, kBegin + link_cycles(kBytes) + 4);
    // The links work on the messages at the same time: a hop costs its latency, and the last of
    // the four messages of 16 KiB its passage once more per further link.
    const std::uint64_t links = c.latency / kHop;
    EXPECT_NEAR(static_cast<double>(result.cores[1].end_cycle),
                static_cast<double>(kBegin + link_cycles(kBytes) + c.latency + 2), 2.0)
        << links;
    EXPECT_EQ(result.cores[0].total.ici_bytes, kBytes);
    EXPECT_GT(result.cores[1].total.core[CoreState::kIciWait], link_cycles(kBytes));
  }
}

/// How XLA's code for v4 names flags and cores.
std::uint32_t remote_of_v4(std::uint32_t chip, std::uint32_t core, std::uint32_t flag) {
  return flag | (core + 2) << 14 | chip << 18;
}
isa::Program of_v4(isa::Program program) {
  program.chip = "v4";
  program.conventions = isa::generation("v4").listings;
  return program;
}
MachineParams params_of_v4() {
  MachineParams params;
  params.chip = "v4";
  return params;
}

TEST(Ici, AnAdditionOfV4NamesItsCoreInOtherBits) {
  for (const std::uint32_t number : {1U, 3U, 6U}) {
    const std::uint32_t chip = number / 2, core = number % 2;
    const std::uint64_t cycles = chip == 0 ? kLocal : chip == 3 ? 2 * kHop : kHop;
    const isa::Program program =
        of_v4(two_roles("  { vsyncadd.remote " + hex(remote_of_v4(chip, core, 0x205)) + ", 1 }\n",
                        "  { vwait.ge.trace 517, 1 }\n"));
    const RunResult result = run(program, {0, number}, params_of_v4());
    EXPECT_EQ(result.cores[1].end_cycle, kBegin + cycles + 2) << number;
  }
  RunOptions alone;
  alone.cores = {0};
  EXPECT_NE(test::fault_of(of_v4(two_roles("  { vsyncadd.remote 0x44005, 1 }\n", "")), alone,
                           params_of_v4())
                .find("flag | core + 2 << 14 | chip << 18"),
            std::string::npos);
}

/// 72 halves of a granule: 36 KiB at the rate of a link, and the latency of each. The data is that
/// of the source when its flag rises.
TEST(Ici, ADmaOfV4FromVmemToVmemTakesALinksTimeForItsBytes) {
  constexpr std::uint64_t kBytes = 72 * 512;
  for (const std::uint32_t number : {1U, 3U, 6U}) {
    const std::uint32_t chip = number / 2, core = number % 2;
    const std::string other = hex(0x80008000U | (core + 2) << 26 | chip);
    const isa::Program program = of_v4(two_roles(
        "  { %v1 = vmov 7.0 ;; %s5 = smov 3 }\n  { vst [vmem:$0x8] %v1 ;; %s6 = smov " + other +
            " }\n  { dma.general.vmem_to_vmem [far:%s5, %s6] 0, 72, 64, " +
            hex((core + 2) << 13 | 4) + " }\n  { dma.done.wait 3, 72 }\n",
        "  { dma.done.wait 4, 72 }\n  { %v2 = vld [vmem:$0x48] }\n  { vst [vmem:$0x0] %v2 }\n"
        "  { dma.vmem_to_hbm 0, 8, 5, 6 }\n  { dma.done.wait 6, 8 }\n"));
    RunOptions options;
    options.cores = {0, number};
    options.values = true;
    const MachineParams params = params_of_v4();
    Machine machine(params, program);
    const RunResult result = machine.run(options);
    // Two more bundles in front of the DMA; behind the wait a branch, its delay slot and the end.
    EXPECT_EQ(result.cores[0].end_cycle, kBegin + 2 + link_cycles(kBytes) + 4) << number;
    EXPECT_EQ(result.cores[0].total.ici_bytes, kBytes);
    const std::uint64_t links = chip == 0 ? 0 : chip == 3 ? 2 : 1;
    const std::uint64_t latency = chip == 0 ? kLocal : links * kHop;
    // From its start on; the two cycles before count as waiting for the peer.
    EXPECT_EQ(result.cores[1].total.core[CoreState::kIciWait], link_cycles(kBytes) + latency)
        << number;
    EXPECT_EQ(isa::as_float(machine.read_hbm(number, 2, 256)[128]), 7.0F) << number;
  }
}

/// Of code that counts halves of granules, no listing shows how it sends to or from HBM.
TEST(Ici, OfV4sRemoteDmasThoseBetweenVmemsAreKnown) {
  using Space = isa::MemorySpace;
  for (const Space source : {Space::kVmem, Space::kHbm}) {
    for (const Space destination : {Space::kVmem, Space::kHbm}) {
      isa::Program program = two_roles("  { dma 512 }\n  { dma.done.wait 3, 2 }\n", "");
      program.conventions.granule_bytes = 512;
      isa::DmaDescriptor descriptor = vmem_to_vmem(0, 0, 2);
      descriptor.source.space = source;
      descriptor.destination.space = destination;
      put_descriptor(program, descriptor);
      const bool is_known = source == Space::kVmem && destination == Space::kVmem;
      const std::string fault = test::fault_of(program);
      EXPECT_EQ(fault.empty(), is_known) << fault;
      EXPECT_EQ(fault.find("a remote DMA to or from HBM in XLA's code for v4") == std::string::npos,
                is_known)
          << fault;
    }
  }
}

/// A word of SMEM takes the way and the time of an addition, and is there when the flag rises.
TEST(Ici, AWordOfV4GoesToAnotherCoreWithAnAddition) {
  for (const std::uint32_t number : {1U, 3U, 6U}) {
    const std::uint32_t chip = number / 2, core = number % 2;
    isa::Program program =
        of_v4(two_roles("  { dma 512 }\n",
                        "  { vwait.ge.trace 50, 1 }\n"
                        "  { %s6 = sld [smem:$0x3d] ;; vdelay 1 }\n"
                        "  { %p2 = scmp.ne.s32.totalorder %s6, 77 }\n  { shalt.err (%p2) }\n"));
    std::vector<std::uint32_t> words(15, 1);
    words[0] = 0x81010000U | (core + 2) << 26 | chip;
    words[1] = 0;
    words[2] = (core + 2) << 13 | 50;
    words[3] = 0x80000001U;
    words[4] = 100;
    words[5] = 0x3d;
    for (std::uint32_t i = 0; i < words.size(); ++i) {
      program.initial_smem.push_back({512 + i, words[i]});
    }
    program.initial_smem.push_back({100, 77});
    const std::uint64_t cycles = chip == 0 ? kLocal : chip == 3 ? 2 * kHop : kHop;
    const RunResult result = run(program, {0, number}, params_of_v4());
    EXPECT_EQ(result.cores[1].total.core[CoreState::kIciWait], cycles) << number;
    EXPECT_EQ(result.cores[0].total.ici_bytes, 4u);
  }
}

/// It comes out of the last word of SMEM and goes there, and no further.
TEST(Ici, AWordOfV4LiesInSmemAtBothEnds) {
  const MachineParams params = params_of_v4();
  const auto fault = [&](std::uint32_t from, std::uint32_t to) {
    isa::Program program = of_v4(two_roles("  { dma 512 }\n", "  { vwait.ge.trace 50, 1 }\n"));
    std::vector<std::uint32_t> words(15, 1);
    words[0] = 0x81010000U | 3 << 26;  // To core 1 of chip 0.
    words[1] = 0;
    words[2] = 3 << 13 | 50;
    words[3] = 0x80000001U;
    words[4] = from;
    words[5] = to;
    for (std::uint32_t i = 0; i < words.size(); ++i) {
      program.initial_smem.push_back({512 + i, words[i]});
    }
    RunOptions options;
    options.cores = {0, 1};
    return test::fault_of(program, options, params);
  };
  const std::uint32_t size = params.core.smem_words;
  const std::string end =
      " of the DMA ends at SMEM word " + hex(size + 1) + ", but there are " + hex(size);
  EXPECT_EQ(fault(size - 1, size - 1), "");
  EXPECT_NE(fault(size, size - 1).find("the source" + end), std::string::npos);
  EXPECT_NE(fault(size - 1, size).find("the destination" + end), std::string::npos);
}

TEST(Ici, MessagesOverOneLinkWaitForEachOther) {
  // Cores 0 and 1 of chip 0 send to chip 1 over the same link.
  isa::Program program = program_of(R"(
kernel top
  { %s1 = sld [smem:$0x0] ;; vdelay 1 }
  { %p1 = scmp.ne.s32.totalorder %s1, 0 }
  { sbr.rel (%p1) target = receive }
  { %s4 = smov 0 }
  { dma 512 }
receive:
  { %s5 = sld [smem:$0x200] ;; vdelay 1 }
  { %s4 = scalar_select %p1, 128, 0 ;; vdelay 1 }
  { dma.done.wait 4, %s4 }
)");
  put_descriptor(program, vmem_to_vmem(1, 0, 64));
  const RunResult result = run(program, {0, 1, 2});
  EXPECT_GE(result.cores[2].end_cycle, link_cycles(2 * 64 * 1024) + kHop);
  EXPECT_LE(result.cores[2].end_cycle, link_cycles(2 * 64 * 1024) + kHop + 20);
}

TEST(Ici, OfMessagesInTheSameCycleThoseOfTheFirstCoreGoFirst) {
  isa::Program program = program_of(R"(
kernel top
  { %s1 = sld [smem:$0x0] ;; vdelay 1 }
  { %p1 = scmp.ne.s32.totalorder %s1, 0 }
  { sbr.rel (%p1) target = receive }
  { %s4 = smov 0 }
  { dma 512 }
  { dma.done.wait 3, 64 }
receive:
  { %s4 = scalar_select %p1, 128, 0 ;; vdelay 1 }
  { dma.done.wait 4, %s4 }
)");
  put_descriptor(program, vmem_to_vmem(1, 0, 64));
  const RunResult result = run(program, {1, 0, 2});
  const std::uint64_t begin = 2 + 1 + 2;
  const std::uint64_t rest = 1 + 2 + 1;  // the wait, the selection and its delay, no wait
  EXPECT_EQ(result.cores[1].end_cycle, begin + link_cycles(64 * 1024) + rest);
  EXPECT_EQ(result.cores[0].end_cycle, begin + link_cycles(2 * 64 * 1024) + rest);
}

TEST(Ici, HbmAtBothEndsTakesItsShare) {
  constexpr std::uint32_t kGranules = 4096;
  isa::Program program = two_roles("  { dma 512 }\n", "  { dma.done.wait 4, 4096 }\n");
  isa::DmaDescriptor descriptor = vmem_to_vmem(1, 0, kGranules);
  descriptor.source.space = isa::MemorySpace::kHbm;
  descriptor.destination.space = isa::MemorySpace::kHbm;
  put_descriptor(program, descriptor);
  const RunResult result = run(program, {0, 2});
  // The link is the slowest; the first message is read before it, the last written after it.
  const std::uint64_t sent =
      test::hbm_done(false, 16, kBegin) + link_cycles(kGranules * 1024) + kHop;
  const std::uint64_t written = test::hbm_done(true, 16, sent);
  EXPECT_NEAR(static_cast<double>(result.cores[1].end_cycle), static_cast<double>(written), 5);
  EXPECT_EQ(result.cores[0].total.hbm_read_bytes, kGranules * 1024u);
  EXPECT_EQ(result.cores[1].total.hbm_write_bytes, kGranules * 1024u);
}

/// Four granules of one channel of the HBM, one after the other: when the last one has been read,
/// the link takes what goes in one message with it.
TEST(Ici, AMessageHasAtMostTheKibibytesThatAreStated) {
  constexpr std::uint32_t kGranules = 4;
  isa::Program program = two_roles("  { dma 512 }\n  { dma.done.wait 3, 4 }\n", "");
  isa::DmaDescriptor descriptor = vmem_to_vmem(1, 0, kGranules);
  descriptor.source.space = isa::MemorySpace::kHbm;
  descriptor.source.address = 31;
  descriptor.source.granules_per_run = 1;
  descriptor.source.stride = 31;
  put_descriptor(program, descriptor);
  MachineParams params;
  test::HbmBurstTwin twin(params.hbm, params.clock_mhz, params.cores_per_chip);
  HbmRequest request;
  request.address = descriptor.source.address;
  request.granules = kGranules;
  request.granules_per_run = 1;
  request.stride = descriptor.source.stride;
  twin.submit(request, kBegin);
  const std::uint64_t read = twin.run()[0];
  ASSERT_GT(read, test::hbm_done(false, 1, kBegin) + 3 * link_cycles(kGranules * 1024));
  for (std::uint32_t kib = 1; kib <= 5; ++kib) {
    params.ici.message_kib = kib;
    const std::uint32_t in_last = (kGranules - 1) % kib + 1;
    // The wait's bundle, a branch, its delay slot and the end follow.
    EXPECT_EQ(run(program, {0, 2}, params).cores[0].end_cycle,
              read + link_cycles(in_last * 1024) + 4)
        << kib;
  }
}

TEST(Ici, RemoteDmasCarryValues) {
  isa::Program program = two_roles(R"(
  { dma.hbm_to_vmem 0, 4, 0, 1 }
  { dma.done.wait 1, 4 }
  { dma 512 }
  { dma.done.wait 3, 4 }
)",
                                   R"(
  { dma.done.wait 4, 4 }
  { dma.vmem_to_hbm 64, 4, 0, 1 }
  { dma.done.wait 1, 4 }
)");
  put_descriptor(program, vmem_to_vmem(2, 1, 4));
  Machine machine(MachineParams(), program);
  CoreLoad load;
  load.hbm.push_back({0, std::vector<std::uint32_t>(4 * 256, 1234)});
  machine.load(0, load);
  RunOptions options;
  options.cores = {0, 5};
  options.values = true;
  machine.run(options);
  EXPECT_EQ(machine.read_hbm(5, 3, 256)[255], 1234u);
}

TEST(Ici, TargetsThatDoNotRunAreFaults) {
  isa::Program program = two_roles("  { dma 512 }\n", "");
  put_descriptor(program, vmem_to_vmem(1, 0, 4));
  EXPECT_NE(test::fault_of(program).find("chip 1, core 0, which does not take part"),
            std::string::npos);
  put_descriptor(program, vmem_to_vmem(9, 0, 4));
  EXPECT_NE(test::fault_of(program).find("the slice has 4 chips"), std::string::npos);
  const isa::Program addition =
      two_roles("  { vsyncadd.remote " + hex(remote(1, 0, 5)) + ", 1 }\n", "");
  EXPECT_NE(test::fault_of(addition).find("does not take part"), std::string::npos);
  EXPECT_NE(test::fault_of(two_roles("  { vsyncadd.remote 5, 1 }\n", "")).find("0x40000"),
            std::string::npos);
}

TEST(Ici, ABarrierOfEightCoresEndsForAllAfterTheSlowest) {
  // Core n works 100 n cycles, then everybody adds 1 to flag 6 of everybody and waits for 8.
  std::string text = R"(
kernel top
  { %s1 = sld [smem:$0x0] ;; vdelay 1 }
  { %s2 = sld [smem:$0x1] ;; vdelay 1 }
  { %s3 = sshll.u32 %s1, 1 }
  { %s3 = sadd.s32 %s3, %s2 }
  { %s3 = sadd.s32 %s3, 1 }
work:
  { %s3 = ssub.s32 %s3, 1 ;; vdelay 96 }
  { %p1 = scmp.gt.s32.totalorder %s3, 0 }
  { sbr.rel (%p1) target = work }
  { %s4 = smov 0 }
)";
  for (std::uint32_t chip = 0; chip < 4; ++chip) {
    for (std::uint32_t core = 0; core < 2; ++core) {
      text += "  { vsyncadd.remote " + hex(remote(chip, core, 6)) + ", 1 }\n";
    }
  }
  text += "  { vwait.ge.trace 6, 8 }\n  { vsyncadd 6, -8 }\n";
  const RunResult result = run(program_of(text), {0, 1, 2, 3, 4, 5, 6, 7});
  const std::uint64_t slowest = 2 + 2 + 3 + 8 * 100;
  // Core 7 adds to chip 0 (two hops away) first, to its own chip's core 0 as seventh; the last to
  // hear of it is whoever is furthest away.
  for (const CoreResult& core : result.cores) {
    EXPECT_GT(core.end_cycle, slowest + kLocal);
    EXPECT_LE(core.end_cycle, slowest + 8 + 2 * kHop + 3);
    EXPECT_GT(core.total.core[CoreState::kIciWait], 0u);
  }
}

TEST(Ici, DimensionOrderAndWrap) {
  // A ring of four chips in x: chip 3 is one hop from chip 0 when the ends are linked.
  for (bool wrap : {false, true}) {
    MachineParams params;
    params.ici.mesh_x = 4;
    params.ici.mesh_y = 1;
    params.ici.wrap_x = wrap;
    const isa::Program program = two_roles(
        "  { vsyncadd.remote " + hex(remote(3, 0, 5)) + ", 1 }\n", "  { vwait.ge.trace 5, 1 }\n");
    const RunResult result = run(program, {0, 6}, params);
    EXPECT_EQ(result.cores[1].end_cycle, kBegin + (wrap ? 1 : 3) * kHop + 2);
  }
}

/// The links that a message of a chip takes to another one.
std::vector<IciRouter::Direction> way(const MachineParams& params, std::uint32_t from,
                                      std::uint32_t to) {
  std::vector<IciRouter::Direction> links;
  const IciRoutes routes(params);
  std::uint32_t chip = from;
  while (chip != to) {
    IciRouter router(params, routes, chip);
    IciMessage message;
    message.source_chip = from;
    message.destination_chip = to;
    router.head_arrives(message, 0);
    router.advance(0, true, [&](IciRouter::Direction link, const IciMessage&, std::uint64_t) {
      links.push_back(link);
    });
    const std::uint32_t x = chip % params.ici.mesh_x;
    const std::uint32_t y = chip / params.ici.mesh_x;
    const std::uint32_t columns = params.ici.mesh_x, rows = params.ici.mesh_y;
    switch (links.back()) {
      case isa::Topology::kEast:
        chip = y * columns + (x + 1) % columns;
        break;
      case isa::Topology::kWest:
        chip = y * columns + (x + columns - 1) % columns;
        break;
      case isa::Topology::kNorth:
        chip = (y + 1) % rows * columns + x;
        break;
      default:
        chip = (y + rows - 1) % rows * columns + x;
    }
    EXPECT_LE(links.size(), 16u) << from << " to " << to;
    if (links.size() > 16) break;
  }
  return links;
}

TEST(IciRouter, MessagesGoAlongXFirst) {
  MachineParams params;
  params.ici.mesh_x = params.ici.mesh_y = 4;
  using Way = std::vector<IciRouter::Direction>;
  EXPECT_EQ(way(params, 0, 10), (Way{isa::Topology::kEast, isa::Topology::kEast,
                                     isa::Topology::kNorth, isa::Topology::kNorth}));
  EXPECT_EQ(way(params, 10, 1),
            (Way{isa::Topology::kWest, isa::Topology::kSouth, isa::Topology::kSouth}));
  EXPECT_EQ(way(params, 12, 3),
            (Way{isa::Topology::kEast, isa::Topology::kEast, isa::Topology::kEast,
                 isa::Topology::kSouth, isa::Topology::kSouth, isa::Topology::kSouth}));
}

TEST(IciRouter, OfTwoWaysRoundTheShorterIsTakenAndOfEqualOnesThatUpwards) {
  MachineParams params;
  params.ici.mesh_x = params.ici.mesh_y = 4;
  params.ici.wrap_x = params.ici.wrap_y = true;
  using Way = std::vector<IciRouter::Direction>;
  EXPECT_EQ(way(params, 0, 3), Way{isa::Topology::kWest});
  EXPECT_EQ(way(params, 3, 0), Way{isa::Topology::kEast});
  EXPECT_EQ(way(params, 0, 12), Way{isa::Topology::kSouth});
  // Two hops either way.
  EXPECT_EQ(way(params, 0, 2), (Way{isa::Topology::kEast, isa::Topology::kEast}));
  EXPECT_EQ(way(params, 3, 1), (Way{isa::Topology::kEast, isa::Topology::kEast}));
  EXPECT_EQ(way(params, 13, 5), (Way{isa::Topology::kNorth, isa::Topology::kNorth}));
}

/// A slice of four chips in a row: what chip 2 forwards for chip 3, or chip 1 for chip 0, goes
/// before what enters there in the same cycle, whoever has the lower number.
TEST(IciRouter, OfHeadsInOneCycleTheOneThatComesFurthestGoesFirst) {
  constexpr std::uint64_t kBytes = 16 * 1024;
  MachineParams params;
  params.ici.mesh_x = 4;
  params.ici.mesh_y = 1;
  const IciRoutes routes(params);
  for (const bool mirrored : {false, true}) {
    const auto chip = [&](std::uint32_t place) { return mirrored ? 3 - place : place; };
    std::vector<IciRouter> routers;
    for (std::uint32_t c = 0; c < 4; ++c) routers.emplace_back(params, routes, c);
    const auto send = [&](std::uint32_t from, std::uint64_t number, std::uint64_t at) {
      IciMessage message;
      message.source_chip = chip(from);
      message.destination_chip = chip(2);
      message.bytes = kBytes;
      message.number = number;
      routers[chip(from)].send(message, at);
    };
    send(1, 7, 100 + kHop);
    send(0, 8, 100);
    std::vector<std::pair<std::uint64_t, std::uint64_t>> arrivals;  // Cycle, number.
    for (const std::uint32_t place : {0u, 1u, 2u}) {
      IciRouter& router = routers[chip(place)];
      while (const auto next = router.next_event()) {
        for (const IciRouter::Event& event :
             router.advance(next->cycle, true,
                            [&](std::size_t direction, const IciMessage&message, std::uint64_t at) {
                              const auto to = static_cast<IciRouter::Direction>(direction);
                              routers[routes.neighbour(chip(place), to)].head_arrives(message, at);
                            })) {
          if (event.kind != IciRouter::Event::Kind::kArrived) continue;
          arrivals.emplace_back(event.cycle, event.message.number);
        }
      }
    }
    const std::uint64_t first = 100 + 2 * kHop + link_cycles(kBytes);
    const std::uint64_t behind = 100 + 2 * kHop + link_cycles(2 * kBytes);
    EXPECT_EQ(arrivals,
              (std::vector<std::pair<std::uint64_t, std::uint64_t>>{{first, 8}, {behind, 7}}))
        << mirrored;
  }
}

TEST(IciRouter, EachCoreOfAChipHasALocalPathOfItsOwn) {
  constexpr std::uint64_t kBytes = 16 * 1024;
  const IciRoutes routes{MachineParams()};
  IciRouter router(MachineParams(), routes, 0);
  IciMessage message;
  message.bytes = kBytes;
  // Both cores send to each other, and core 0 once more.
  for (const std::uint32_t to : {0u, 1u, 1u}) {
    message.source_core = 1 - to;
    message.destination_core = to;
    ++message.number;
    router.send(message, 100);
  }
  std::vector<std::pair<std::uint64_t, std::uint64_t>> arrivals;  // Cycle, number.
  while (const auto next = router.next_event()) {
    for (const IciRouter::Event& event : router.advance(next->cycle, true, [](auto&&...) {})) {
      if (event.kind != IciRouter::Event::Kind::kArrived) continue;
      arrivals.emplace_back(event.cycle, event.message.number);
    }
  }
  const std::uint64_t alone = 100 + link_cycles(kBytes) + kLocal;
  const std::uint64_t behind = 100 + link_cycles(2 * kBytes) + kLocal;
  EXPECT_EQ(arrivals, (std::vector<std::pair<std::uint64_t, std::uint64_t>>{
                          {alone, 2}, {alone, 1}, {behind, 3}}));
}

TEST(Ici, AWaitForTheDataToLeaveIsOneForTheNetwork) {
  isa::Program program =
      two_roles("  { dma 512 }\n  { dma.done.wait 3, 64 }\n", "  { dma.done.wait 4, 64 }\n");
  put_descriptor(program, vmem_to_vmem(1, 0, 64));
  const RunResult result = run(program, {0, 2});
  const Counters& sender = result.cores[0].total;
  EXPECT_EQ(sender.core[CoreState::kIciWait], link_cycles(64 * 1024) - 1);
  EXPECT_EQ(sender.core[CoreState::kMemoryWait], 0u);
}

}  // namespace
}  // namespace tpu::ici_test
