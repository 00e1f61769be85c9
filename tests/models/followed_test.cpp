#include <gtest/gtest.h>

#include "isa/disassembler.h"
#include "isa/dma_descriptor.h"
#include "isa/opcode_table.h"
#include "models/core/followed_kernels.h"
#include "models/memory/dma_engine.h"
#include "tests/models/test_program.h"

namespace tpu::followed_test {
namespace {

using test::program_of;

/// Takes element 0 of HBM granule 40 through VMEM and the vector unit into s2, then loops s2 times
/// over four bundles.
const std::string kLoopOverLoaded = R"(
  { dma.hbm_to_vmem 40, 1, 0, 1 }
  { dma.done.wait 1, 1 }
  { %v1 = vld [vmem:$0x0 sm:$0x1] }
  { %v2 = vadd.s32 %v1, 2 }
  { vpush %v2 }
  { %s2 = spop }
  { %s1 = smov 0 }
loop:
  { %s1 = sadd.s32 %s1, 1 }
  { %p1 = scmp.lt.s32.totalorder %s1, %s2 }
  { sbr.rel (%p1) target = loop }
  { %s3 = smov 0 }
)";

void add_buffer(isa::Program& program, std::uint64_t granule, isa::BufferRole role,
                std::vector<std::uint32_t> data) {
  isa::Buffer buffer;
  buffer.name = "table";
  buffer.granule = granule;
  buffer.bytes = isa::kHbmGranuleBytes;
  buffer.role = role;
  buffer.data = std::move(data);
  program.buffers.push_back(buffer);
}

bool has_note(const RunResult& result, const std::string& text) {
  for (const std::string& note : result.notes) {
    if (note.find(text) != std::string::npos) return true;
  }
  return false;
}

std::uint64_t cycles_with_values(const isa::Program& program) {
  RunOptions options = test::on_core(0);
  options.values = true;
  return test::run(program, options).cycles;
}

TEST(Followed, ControlThatPassesThroughTheVectorUnitIsThatOfARunWithValues) {
  isa::Program program = program_of("kernel top\n" + kLoopOverLoaded);
  add_buffer(program, 40, isa::BufferRole::kConstant, {21});
  const RunResult result = test::run(program);
  EXPECT_EQ(result.cycles, cycles_with_values(program));
  EXPECT_TRUE(has_note(result, "control depends on data")) << result.notes.size();
  // Two trips more are eight bundles more.
  program.buffers[0].data = {23};
  EXPECT_EQ(test::run(program).cycles, result.cycles + 2 * 4);
}

/// A kernel that loops as often as the data says that another kernel has started to load; a third
/// one runs between, of which nobody knows which rows it writes.
isa::Program opened_loop() {
  isa::Program program = program_of(R"(
kernel top
  { inlined_call site = 2 }
  { inlined_call site = 1 }
  { inlined_call site = 0 }
kernel loop
  { dma.done.wait 1, 1 }
  { vsyncadd 1, -1 }
  { %v1 = vld [vmem:$0x0 sm:$0x1] }
  { vpush %v1 ;; vdelay 9 }
  { %s2 = spop }
  { %s1 = smov 0 }
again:
  { %s1 = sadd.s32 %s1, 1 }
  { %p1 = scmp.lt.s32.totalorder %s1, %s2 }
  { sbr.rel (%p1) target = again }
  { %s3 = smov 0 }
kernel between
  { vst [vmem:$0x100] %v7 ;; vdelay 400 }
kernel loop.loads
  { dma.hbm_to_vmem 40, 1, 0, 1 }
)");
  add_buffer(program, 40, isa::BufferRole::kConstant, {21});
  program.call_sites[2].op = 0;
  program.call_sites[2].opens = 0;
  return program;
}

TEST(Followed, RowsThatAKernelIsOpenedWithAreLeftAlone) {
  const isa::Program program = opened_loop();
  const RunResult result = test::run(program);
  EXPECT_EQ(result.cycles, cycles_with_values(program));
  EXPECT_TRUE(has_note(result, "was followed: loop (")) << result.notes.size();
  EXPECT_FALSE(has_note(result, "between"));
  EXPECT_FALSE(has_note(result, "loop.loads"));
}

/// When it has returned they are anybody's.
TEST(Followed, RowsOfAnOpenedKernelThatHasReturnedAreNot) {
  isa::Program program = opened_loop();
  program.kernels.push_back(isa::assemble(R"(
kernel reader
  { %v1 = vld [vmem:$0x0 sm:$0x1] }
  { vpush %v1 ;; vdelay 9 }
  { %s2 = spop }
  { %s1 = smov 0 }
again:
  { %s1 = sadd.s32 %s1, 1 }
  { %p1 = scmp.lt.s32.totalorder %s1, %s2 }
  { sbr.rel (%p1) target = again }
  { %s3 = smov 0 }
)",
                                          "reader")[0]);
  program.kernels[2] = isa::assemble(R"(
kernel between
  { %v7 = vadd.s32 %v6, 3 }
  { vst [vmem:$0x0] %v7 ;; vdelay 400 }
)",
                                     "between")[0];
  program.kernels[0] = isa::assemble(R"(
kernel top
  { inlined_call site = 2 }
  { inlined_call site = 0 }
  { inlined_call site = 1 }
  { inlined_call site = 3 }
)",
                                     "top")[0];
  isa::CallSite reader;
  reader.kernel = 4;
  reader.op = 1;
  program.call_sites.push_back(reader);
  EXPECT_EQ(test::run(program).cycles, cycles_with_values(program));
}

TEST(Followed, AnOpeningIsNoExecutionOfItsOperation) {
  const RunResult result = test::run(opened_loop());
  EXPECT_EQ(result.cores[0].ops[0].count, 1u);
  EXPECT_EQ(result.cores[0].ops[0].counters.dmas, 1u);
}

TEST(Followed, BundleByBundleTheSameIsKnown) {
  isa::Program program = program_of("kernel top\n" + kLoopOverLoaded);
  add_buffer(program, 40, isa::BufferRole::kConstant, {21});
  RunOptions options = test::on_core(0);
  options.interpret = true;
  EXPECT_EQ(test::run(program, options).cycles, test::run(program).cycles);
}

/// What the vector unit sent is overwritten: the word is known again, in this block and later.
TEST(Followed, AKnownWordOverAnUnknownOneIsKnown) {
  const isa::Program program = program_of(R"(
kernel top
  { vpush %v0 }
  { %s1 = spop }
  { sst [smem:$0x400] %s1 }
  { sst [smem:$0x400] 5 }
  { vsyncadd 9, 1 }
  { %s2 = sld [smem:$0x400] }
  { %s1 = smov 0 }
loop:
  { %s1 = sadd.s32 %s1, 1 }
  { %p1 = scmp.lt.s32.totalorder %s1, %s2 }
  { sbr.rel (%p1) target = loop }
  { %s3 = smov 0 }
)");
  const RunResult result = test::run(program);
  EXPECT_EQ(result.cycles, 7u + 5 * 4);
  EXPECT_FALSE(has_note(result, "control depends on data"));
}

/// The second granule of a DMA lies behind the first one, in HBM and in VMEM.
TEST(Followed, ControlOnTheSecondGranuleOfADmaIsThatOfARunWithValues) {
  isa::Program program = program_of(R"(
kernel top
  { dma.hbm_to_vmem 40, 2, 0, 1 }
  { dma.done.wait 1, 2 }
  { %v1 = vld [vmem:$0x2 sm:$0x1] }
  { vpush %v1 ;; vdelay 9 }
  { %s2 = spop }
  { %s1 = smov 0 }
loop:
  { %s1 = sadd.s32 %s1, 1 }
  { %p1 = scmp.lt.s32.totalorder %s1, %s2 }
  { sbr.rel (%p1) target = loop }
  { %s3 = smov 0 }
)");
  add_buffer(program, 39, isa::BufferRole::kConstant, {91});
  add_buffer(program, 40, isa::BufferRole::kConstant, {92});
  add_buffer(program, 41, isa::BufferRole::kConstant, {21});
  const std::uint64_t of_21 = test::run(program).cycles;
  EXPECT_EQ(of_21, cycles_with_values(program));
  program.buffers[2].data = {23};
  EXPECT_EQ(test::run(program).cycles, of_21 + 2 * 4);
}

/// Rows of which nobody knew anything are known when a DMA has brought all four granules.
TEST(Followed, AllRowsAreThoseOfTheLastDma) {
  for (const std::string row : {"$0x0", "$0x6", "$0x7"}) {
    isa::Program program = program_of(R"(
kernel top
  { dma.hbm_to_vmem 60, 4, 0, 1 }
  { dma.done.wait 1, 4 }
  { dma.hbm_to_vmem 40, 4, 0, 1 }
  { dma.done.wait 1, 8 }
  { %v1 = vld [vmem:)" + row + R"( sm:$0x1] }
  { vpush %v1 ;; vdelay 9 }
  { %s2 = spop }
  { %s1 = smov 0 }
loop:
  { %s1 = sadd.s32 %s1, 1 }
  { %p1 = scmp.lt.s32.totalorder %s1, %s2 }
  { sbr.rel (%p1) target = loop }
  { %s3 = smov 0 }
)");
    add_buffer(program, 40, isa::BufferRole::kConstant, std::vector<std::uint32_t>(4 * 256, 21));
    program.buffers[0].bytes = 4 * isa::kHbmGranuleBytes;
    const std::uint64_t of_21 = test::run(program).cycles;
    program.buffers[0].data.assign(4 * 256, 23);
    EXPECT_EQ(test::run(program).cycles, of_21 + 2 * 4) << row;
  }
}

/// Lane 8 of the loaded row is the first element of the second block that comes out.
TEST(Followed, ControlThatPassesThroughATransposeIsThatOfARunWithValues) {
  isa::Program program = program_of(R"(
kernel top
  { dma.hbm_to_vmem 40, 1, 0, 1 }
  { dma.done.wait 1, 1 }
  { %v1 = vld [vmem:$0x0 sm:$0x1] }
  { vxpose.xlu0.b32.start [1/1] %v1, 16 ;; vdelay 100 }
  { %v2 = vpop.trf.xlu0 ;; vdelay 7 }
  { %v3 = vpop.trf.xlu0 }
  { vpush %v3 ;; vdelay 9 }
  { %s2 = spop }
  { %s1 = smov 0 }
loop:
  { %s1 = sadd.s32 %s1, 1 }
  { %p1 = scmp.lt.s32.totalorder %s1, %s2 }
  { sbr.rel (%p1) target = loop }
  { %s3 = smov 0 }
)");
  EXPECT_NE(test::fault_of(program).find("a branch depends on a value"), std::string::npos);
  add_buffer(program, 40, isa::BufferRole::kConstant, {99, 1, 1, 1, 1, 1, 1, 1, 21});
  const std::uint64_t of_21 = test::run(program).cycles;
  EXPECT_EQ(of_21, cycles_with_values(program));
  program.buffers[0].data[8] = 23;
  EXPECT_EQ(test::run(program).cycles, of_21 + 2 * 4);
}

/// What sets the generator, and each number that was drawn before, decides the next one, and the
/// state that can be read back.
TEST(Followed, ControlThatPassesThroughTheRandomNumberGeneratorIsThatOfARunWithValues) {
  for (const std::string last : {"vrng", "getrngseed"}) {
    for (const std::string seed : {"12345", "54321", "99"}) {
      const isa::Program program = program_of("kernel top\n  { %v1 = vmov " + seed + R"( }
  { set.rngseed %v1 }
  { %v2 = vrng }
  { %v3 = )" + last + R"( }
  { %v4 = vand.u32 %v3, 63 }
  { vpush %v4 }
  { %s2 = spop }
  { %s1 = smov 0 }
loop:
  { %s1 = sadd.s32 %s1, 1 }
  { %p1 = scmp.lt.s32.totalorder %s1, %s2 }
  { sbr.rel (%p1) target = loop }
  { %s3 = smov 0 }
)");
      EXPECT_EQ(test::run(program).cycles, cycles_with_values(program)) << last << ' ' << seed;
    }
  }
}

/// A store of some elements leaves others: where either is unknown, so is the row.
TEST(Followed, AMaskedStoreOfWhatNobodyKnowsLeavesARowThatNobodyKnows) {
  const auto program = [](const char* stored) {
    return program_of(std::string(R"(
kernel top
  { dma.hbm_to_vmem 40, 1, 8, 1 }
  { dma.done.wait 1, 1 }
  { %v1 = vmov 12 ;; %vm1 = vmmov 1 }
  { vst [vmem:$0x0] %v1 }
  { %v2 = vld [vmem:$0x8] }
  { vst.msk [vmem:$0x0] %vm1, )") +
                      stored + R"( }
  { %v3 = vld [vmem:$0x0] }
  { vpush %v3 ;; vdelay 9 }
  { %s2 = spop }
  { %p1 = scmp.ne.s32.totalorder %s2, 12 }
  { sbr.rel (%p1) target = end }
  { %s3 = smov 0 }
  { vdelay 100 }
end:
  { %s3 = smov 0 }
)");
  };
  EXPECT_EQ(test::fault_of(program("%v1")), "");
  EXPECT_NE(test::fault_of(program("%v2")).find("a branch depends on a value"), std::string::npos);
}

TEST(Followed, InputsThatNobodyGaveAreZerosAndNoted) {
  isa::Program program = program_of("kernel top\n" + kLoopOverLoaded);
  add_buffer(program, 40, isa::BufferRole::kConstant, {0});
  const std::uint64_t of_zeros = test::run(program).cycles;
  program.buffers[0].role = isa::BufferRole::kParameter;
  program.buffers[0].data.clear();
  const RunResult result = test::run(program);
  EXPECT_EQ(result.cycles, of_zeros);
  EXPECT_TRUE(has_note(result, "table (zeros, for nobody gave them)"));
  // With the input there is nothing to assume.
  Machine machine(MachineParams(), program);
  CoreLoad load;
  load.hbm.push_back({40, {5}});
  machine.load(0, load);
  const RunResult given = machine.run(test::on_core(0));
  EXPECT_EQ(given.cycles, of_zeros + 5 * 4);
  EXPECT_FALSE(has_note(given, "zeros"));
}

TEST(Followed, ControlOnMemoryThatNothingWroteIsAFault) {
  const isa::Program program = program_of("kernel top\n" + kLoopOverLoaded);
  const std::string fault = test::fault_of(program);
  EXPECT_NE(fault.find("a branch depends on a value"), std::string::npos) << fault;
  EXPECT_NE(fault.find("kernel \"top\", bundle 0x9"), std::string::npos) << fault;
}

/// Two granules are the rows of a tile of which the second one is padding: what stands behind known
/// rows is taken for it, and noted.
TEST(Followed, RowsThatNobodyKnowsBehindKnownOnesArePadding) {
  const auto program = [](const std::string& rows) {
    std::string text = kLoopOverLoaded;
    text.replace(text.find("40, 1, 0, 1"), 11, "40, 2, 0, 1");
    text.replace(text.find("wait 1, 1"), 9, "wait 1, 2");
    text.replace(text.find("$0x0 sm:$0x1"), 12, rows);
    isa::Program made = program_of("kernel top\n" + text);
    add_buffer(made, 40, isa::BufferRole::kConstant, {21});
    return made;
  };
  const RunResult result = test::run(program("$0x0 sm:$0xf"));
  EXPECT_TRUE(has_note(result, "taken for padding"));
  isa::Program known = program("$0x0 sm:$0xf");
  add_buffer(known, 41, isa::BufferRole::kConstant, {1});
  const RunResult of_known = test::run(known);
  EXPECT_EQ(result.cycles, of_known.cycles);
  EXPECT_FALSE(has_note(of_known, "taken for padding"));
  EXPECT_EQ(test::fault_of(program("$0x0 sm:$0x3")), "");
  EXPECT_NE(test::fault_of(program("$0x2 sm:$0x3")).find("a branch depends on a value"),
            std::string::npos);
}

/// A number that is stored over what came out of such memory is known.
TEST(Followed, AWordThatIsStoredIsKnownWhateverLayThereBefore) {
  const auto program = [](const std::string& trips) {
    return program_of(R"(
kernel top
  { dma.hbm_to_smem 40, 1, 1024, 1 }
  { dma.done.wait 1, 1 }
  { %s4 = smov )" + trips +
                      R"( }
  { sst [smem:$0x400] %s4 }
  { %s2 = sld [smem:$0x400] ;; vdelay 1 }
  { %s1 = smov 0 }
loop:
  { %s1 = sadd.s32 %s1, 1 }
  { %p1 = scmp.lt.s32.totalorder %s1, %s2 }
  { sbr.rel (%p1) target = loop }
  { %s3 = smov 0 }
)");
  };
  EXPECT_EQ(test::fault_of(program("3")), "");
  EXPECT_EQ(test::run(program("7")).cycles, test::run(program("3")).cycles + 4 * 4);
}

/// Whether a vector instruction acts is control, too: its guard comes out of the HBM.
TEST(Followed, AGuardOfWhatControlNeedsHasToBeKnown) {
  isa::Program program = program_of(R"(
kernel top
  { dma.hbm_to_smem 40, 1, 1024, 1 }
  { dma.done.wait 1, 1 }
  { %s4 = sld [smem:$0x400] ;; vdelay 1 }
  { %p2 = scmp.ne.s32.totalorder %s4, 0 }
  { %v1 = vmov 6 }
  { %v1 = vmov (%p2) 19 }
  { vpush %v1 ;; vdelay 9 }
  { %s2 = spop }
  { %s1 = smov 0 }
loop:
  { %s1 = sadd.s32 %s1, 1 }
  { %p1 = scmp.lt.s32.totalorder %s1, %s2 }
  { sbr.rel (%p1) target = loop }
  { %s3 = smov 0 }
)");
  const std::string fault = test::fault_of(program);
  EXPECT_NE(fault.find("the guard of %v1 = vmov (%p2), 19 is unknown"), std::string::npos) << fault;
  add_buffer(program, 40, isa::BufferRole::kConstant, {0});
  const std::uint64_t of_six = test::run(program).cycles;
  EXPECT_EQ(of_six, cycles_with_values(program));
  program.buffers[0].data = {1};
  EXPECT_EQ(test::run(program).cycles, of_six + 13 * 4);
}

/// A kernel writes a table into HBM, which the top-level program reads into SMEM; another kernel
/// does the same with data that control never sees.
TEST(Followed, TheKernelThatMadeTheDataIsFollowedAndNoOther) {
  isa::Program program = program_of(R"(
kernel top
  { inlined_call site = 0 }
  { inlined_call site = 1 }
  { dma.hbm_to_smem 50, 1, 1024, 1 }
  { dma.done.wait 1, 1 }
  { %s2 = sld [smem:$0x400] }
  { %s1 = smov 0 }
loop:
  { %s1 = sadd.s32 %s1, 1 }
  { %p1 = scmp.lt.s32.totalorder %s1, %s2 }
  { sbr.rel (%p1) target = loop }
  { %s3 = smov 0 }
kernel counts
  { %v1 = vmov 11 }
  { vst [vmem:$0x0] %v1 }
  { dma.vmem_to_hbm 0, 1, 50, 2 }
  { dma.done.wait 2, 1 }
  { vsyncadd 2, -1 }
kernel computes
  { %v1 = vmov 99 }
  { vst [vmem:$0x0] %v1 }
  { dma.vmem_to_hbm 0, 1, 60, 2 }
  { dma.done.wait 2, 1 }
  { vsyncadd 2, -1 }
)");
  const RunResult result = test::run(program);
  EXPECT_EQ(result.cycles, cycles_with_values(program));
  EXPECT_TRUE(has_note(result, "was followed: counts"));
  EXPECT_FALSE(has_note(result, "computes"));
}

TEST(Followed, AKernelThatIsNotFollowedLeavesNothingKnownInVmem) {
  // What top stores is lost in the call: to know it, the kernel has to be followed, too.
  isa::Program program = program_of(R"(
kernel top
  { %v1 = vmov 3 }
  { vst [vmem:$0x0] %v1 }
  { inlined_call site = 0 }
  { %v1 = vld [vmem:$0x0] }
  { vpush %v1 }
  { %s1 = spop }
  { %p1 = scmp.eq.s32.totalorder %s1, 8 }
  { sbr.rel (%p1) target = end }
  { %s3 = smov 0 }
  { %s3 = smov 0 ;; vdelay 100 }
end:
  { %s3 = smov 0 }
kernel overwrites
  { %v1 = vmov 8 }
  { vst [vmem:$0x0] %v1 }
)");
  const RunResult result = test::run(program);
  EXPECT_EQ(result.cycles, cycles_with_values(program));
  EXPECT_LT(result.cycles, 100u);
  EXPECT_TRUE(has_note(result, "overwrites"));
}

TEST(Followed, MessagesBetweenCoresCarryWhatControlNeeds) {
  // Core 0 sends the row that it computes; core 1 loops as often as it says.
  isa::DmaDescriptor descriptor;
  descriptor.remote = true;
  descriptor.source.space = isa::MemorySpace::kVmem;
  descriptor.source.address = 8;
  descriptor.destination.space = isa::MemorySpace::kVmem;
  descriptor.destination.address = 16;
  descriptor.destination.core = 1;
  descriptor.granules = 1;
  descriptor.source_flag = 3;
  descriptor.destination_flag = 4;
  isa::Program program = program_of(R"(
kernel top
  { %s1 = sld [smem:$0x1] ;; vdelay 1 }
  { %p1 = scmp.eq.s32.totalorder %s1, 1 }
  { sbr.rel (%p1) target = receive }
  { %s4 = smov 0 }
  { %v1 = vlaneseq }
  { %v2 = vadd.s32 %v1, 40 }
  { vst [vmem:$0x8] %v2 }
  { dma 512 }
  { sbr.rel target = end }
  { %s4 = smov 0 }
receive:
  { dma.done.wait 4, 1 }
  { %v1 = vld [vmem:$0x10] }
  { vpush %v1 }
  { %s2 = spop }
  { %s1 = smov 0 }
loop:
  { %s1 = sadd.s32 %s1, 1 }
  { %p1 = scmp.lt.s32.totalorder %s1, %s2 }
  { sbr.rel (%p1) target = loop }
  { %s3 = smov 0 }
end:
  { %s4 = smov 0 }
)");
  const isa::DmaWords words = isa::encode(descriptor);
  for (std::uint32_t i = 0; i < 8; ++i) program.initial_smem.push_back({512 + i, words[i]});
  RunOptions options;
  options.cores = {0, 1};
  RunOptions with_values = options;
  with_values.values = true;
  const RunResult result = test::run(program, options);
  const RunResult expected = test::run(program, with_values);
  EXPECT_EQ(result.cycles, expected.cycles);
  EXPECT_EQ(result.cores[1].total.bundles, expected.cores[1].total.bundles);
  EXPECT_GT(result.cores[1].total.bundles, 40u * 4);
}

TEST(Followed, TheObserverHearsThatTheRunBeginsAgain) {
  struct Watcher : Observer {
    int steps = 0;
    int restarts = 0;
    void on_step(std::uint32_t, std::uint32_t, std::uint64_t, std::uint64_t) override { ++steps; }
    void on_op(std::uint32_t, std::uint32_t, std::uint64_t, std::uint64_t,
               const Counters&) override {}
    void on_wait(std::uint32_t, CoreState, std::uint64_t, std::uint64_t) override {}
    void on_dma(const DmaEvent&) override {}
    void on_restart() override {
      ++restarts;
      steps = 0;
    }
  } watcher;
  isa::Program program = program_of("kernel top\n" + kLoopOverLoaded);
  add_buffer(program, 40, isa::BufferRole::kConstant, {21});
  RunOptions options = test::on_core(0);
  options.observer = &watcher;
  test::run(program, options);
  EXPECT_EQ(watcher.restarts, 1);
  EXPECT_EQ(watcher.steps, 1);
}

/// Counts to 12 in VMEM, passes the count through the XLU and
/// loops as often; between that it computes for `rounds` what nobody asks for.
isa::Program counts_and_computes(std::uint32_t rounds) {
  return program_of(R"(
kernel top
  { %v9 = vmov 1 }
  { %v8 = vmov 0 }
  { %s5 = smov 0 }
work:
  { %v9 = vadd.s32 %v9, 3 }
  { vst [vmem:$0x40] %v9 ;; vrcp.f32 %v9 }
  { vdelay 8 }
  { %v7 = vpop.eup }
  { %v7 = vld [vmem:$0x40] ;; %s5 = sadd.s32 %s5, 1 }
  { %p2 = scmp.lt.s32.totalorder %s5, )" +
                    std::to_string(rounds) + R"( }
  { sbr.rel (%p2) target = work }
  { %v8 = vadd.s32 %v8, 4 }
  { %v1 = vmov 12 }
  { vst [vmem:$0x8] %v1 }
  { vst [vmem:$0x10] %v8 }
  { %v2 = vld [vmem:$0x8] }
  { vmax.xlane.f32.xlu0 %v2 }
  { vdelay 100 }
  { %v3 = vpop.xlane.xlu0 }
  { vpush %v3 }
  { vdelay 10 }
  { %s2 = spop }
  { %s1 = smov 0 }
loop:
  { %s1 = sadd.s32 %s1, 1 }
  { %p1 = scmp.lt.s32.totalorder %s1, %s2 }
  { sbr.rel (%p1) target = loop }
  { %s3 = smov 0 }
)");
}

TEST(Followed, EveryStepBeginsWithTheInputsOfTheFirst) {
  // The step replaces its input.
  isa::Program program = program_of("kernel top\n" + kLoopOverLoaded + R"(
  { %v4 = vmov 9 }
  { vst [vmem:$0x0] %v4 }
  { dma.vmem_to_hbm 0, 1, 40, 2 }
  { dma.done.wait 2, 1 }
  { vsyncadd 2, -1 }
  { vsyncadd 1, -1 }
)");
  add_buffer(program, 40, isa::BufferRole::kParameter, {});
  RunOptions options = test::on_core(0);
  options.inputs = [](std::uint32_t, const isa::Buffer&) { return std::vector<std::uint32_t>{30}; };
  options.steps = 3;
  const RunResult result = test::run(program, options);
  ASSERT_EQ(result.cores[0].steps.size(), 3u);
  for (const StepSpan& step : result.cores[0].steps) EXPECT_GT(step.end - step.begin, 32u * 4);
  // The load, the sum and what is pushed; not the store.
  EXPECT_TRUE(has_note(result, "top (2 of 4 vector instructions)")) << result.notes.at(0);
}

TEST(Followed, TheLimitOfBytesIsOneOfWhatIsRemembered) {
  // Each step writes a page of a parameter, which begins the next one as it was.
  isa::Program program = program_of("kernel top\n" + kLoopOverLoaded + R"(
  { dma.vmem_to_hbm 0, 1, 256, 2 }
  { dma.done.wait 2, 1 }
  { vsyncadd 2, -1 }
  { vsyncadd 1, -1 }
)");
  add_buffer(program, 40, isa::BufferRole::kParameter, {});
  add_buffer(program, 256, isa::BufferRole::kParameter, {});
  RunOptions options = test::on_core(0);
  options.inputs = [](std::uint32_t, const isa::Buffer&) { return std::vector<std::uint32_t>{30}; };
  options.steps = 3;
  constexpr std::uint64_t kPageBytes = 64 * isa::kHbmGranuleBytes;
  options.follow.bytes = kPageBytes;
  EXPECT_TRUE(has_note(test::run(program, options), "was followed"));
  options.follow.bytes = kPageBytes - 1;
  EXPECT_FALSE(has_note(test::run(program, options), "was followed"));
}

/// A DMA to the HBM of a core of the same chip, of which word 512 of SMEM begins the descriptor.
void add_copy(isa::Program& program, std::uint32_t from, std::uint32_t to, std::uint32_t granules,
              std::uint32_t to_core = 0, std::uint32_t stride = 0) {
  isa::DmaDescriptor descriptor;
  descriptor.remote = true;
  descriptor.source.space = isa::MemorySpace::kHbm;
  descriptor.source.address = from;
  descriptor.destination.space = isa::MemorySpace::kHbm;
  descriptor.destination.address = to;
  descriptor.destination.core = to_core;
  if (stride > 0) {
    descriptor.destination.granules_per_run = 1;
    descriptor.destination.stride = stride;
  }
  descriptor.granules = granules;
  descriptor.source_flag = 3;
  descriptor.destination_flag = 4;
  const isa::DmaWords words = isa::encode(descriptor);
  for (std::uint32_t i = 0; i < 8; ++i) program.initial_smem.push_back({512 + i, words[i]});
}

TEST(Followed, CopiesOfInputsTakeNoMemoryAndAskForNothing) {
  // 256 granules of an input are copied, of which nobody reads one, and control reads another.
  isa::Program program = program_of("kernel top\n" + kLoopOverLoaded + R"(
  { dma 512 }
  { dma.done.wait 4, 256 }
  { vsyncadd 4, -256 }
  { vsyncadd 3, -256 }
  { vsyncadd 1, -1 }
)");
  add_buffer(program, 40, isa::BufferRole::kParameter, {});
  add_buffer(program, 1024, isa::BufferRole::kParameter, {});
  program.buffers.back().bytes = 256 * isa::kHbmGranuleBytes;
  add_copy(program, 1024, 2048, 256);
  RunOptions options = test::on_core(0);
  std::vector<std::uint64_t> asked;
  options.inputs = [&](std::uint32_t, const isa::Buffer& buffer) {
    asked.push_back(buffer.granule);
    return std::vector<std::uint32_t>{30};
  };
  options.follow.bytes = 0;
  options.steps = 2;
  const RunResult result = test::run(program, options);
  EXPECT_TRUE(has_note(result, "was followed"));
  EXPECT_EQ(asked, std::vector<std::uint64_t>{40});
  EXPECT_GT(result.cores[0].total.bundles, 2 * 32u * 4);
}

/// A copy of a granule of an input and of two of the program's own behind it.
TEST(Followed, WhatLiesBehindAnInputIsCopiedWithIt) {
  for (const std::uint32_t granule : {201U, 202U}) {
    const auto cycles_of = [&](std::uint32_t first, std::uint32_t second) {
      isa::Program program =
          program_of("kernel top\n  { dma 512 }\n  { dma.done.wait 4, 3 }\n  { dma.hbm_to_vmem " +
                     std::to_string(granule) + R"(, 1, 0, 1 }
  { dma.done.wait 1, 1 }
  { %v1 = vld [vmem:$0x0 sm:$0x1] }
  { vpush %v1 ;; vdelay 9 }
  { %s2 = spop }
  { %s1 = smov 0 }
loop:
  { %s1 = sadd.s32 %s1, 1 }
  { %p1 = scmp.lt.s32.totalorder %s1, %s2 }
  { sbr.rel (%p1) target = loop }
  { %s3 = smov 0 }
)");
      add_buffer(program, 40, isa::BufferRole::kParameter, {});
      add_buffer(program, 41, isa::BufferRole::kConstant, {first});
      add_buffer(program, 42, isa::BufferRole::kConstant, {second});
      add_copy(program, 40, 200, 3);
      return test::run(program).cycles;
    };
    const std::uint64_t trips = granule == 201 ? 21 : 23;
    EXPECT_EQ(cycles_of(21, 23), cycles_of(1, 1) + (trips - 1) * 4) << granule;
  }
}

TEST(Followed, ACopyOfAnInputOfAnotherCoreIsThatInput) {
  // Core 0 sends its input to core 1, which loops as often as its second granule says.
  isa::Program program = program_of(R"(
kernel top
  { %s1 = sld [smem:$0x1] ;; vdelay 1 }
  { %p1 = scmp.eq.s32.totalorder %s1, 1 }
  { sbr.rel (%p1) target = receive }
  { %s4 = smov 0 }
  { dma 512 }
  { sbr.rel target = end }
  { %s4 = smov 0 }
receive:
  { dma.done.wait 4, 2 }
  { dma.hbm_to_vmem 203, 1, 0, 1 }
  { dma.done.wait 1, 1 }
  { %v1 = vld [vmem:$0x0 sm:$0x1] }
  { vpush %v1 }
  { %s2 = spop }
  { %s1 = smov 0 }
loop:
  { %s1 = sadd.s32 %s1, 1 }
  { %p1 = scmp.lt.s32.totalorder %s1, %s2 }
  { sbr.rel (%p1) target = loop }
  { %s3 = smov 0 }
end:
  { %s4 = smov 0 }
)");
  add_buffer(program, 40, isa::BufferRole::kParameter, {});
  program.buffers.back().bytes = 2 * isa::kHbmGranuleBytes;
  add_copy(program, 40, 200, 2, 1, 3);
  RunOptions options;
  options.cores = {0, 1};
  options.inputs = [](std::uint32_t core, const isa::Buffer&) {
    std::vector<std::uint32_t> words(2 * isa::kHbmGranuleBytes / 4, 5);
    words[isa::kHbmGranuleBytes / 4] = core == 0 ? 70 : 11;
    return words;
  };
  const RunResult result = test::run(program, options);
  // Of 70 rounds of four bundles.
  const std::uint64_t rest = result.cores[1].total.bundles - 70 * 4;
  EXPECT_LT(rest, 40u);
  EXPECT_TRUE(has_note(result, "was followed"));
}

TEST(Followed, GranulesOfAPayloadWithWordsEndWhereAnInputBegins) {
  DmaPayload payload;
  payload.origins.assign(5, Origin::assumed(1));
  payload.inputs = {{2, {nullptr, 1, 7, 2}}};
  EXPECT_EQ(payload.same_origin(0, 5), 2u);
  EXPECT_EQ(payload.same_origin(4, 1), 1u);
  EXPECT_FALSE(payload.input_at(1));
  EXPECT_EQ(payload.input_at(3)->first, 8u);
  EXPECT_EQ(payload.input_at(3)->granules, 1u);
  EXPECT_FALSE(payload.input_at(4));
}

TEST(Followed, ARunEndsThoughItsCopiesExceedTheLimitOfBytes) {
  // A table of the program goes from HBM to HBM by a kernel that nobody follows.
  isa::Program program = program_of("kernel top\n" + kLoopOverLoaded + R"(
  { inlined_call site = 0 }
  { %s4 = smov 0 }
kernel copies
  { dma 512 }
  { dma.done.wait 4, 64 }
  { vsyncadd 4, -64 }
)");
  add_buffer(program, 40, isa::BufferRole::kParameter, {});
  add_buffer(program, 1024, isa::BufferRole::kConstant,
             std::vector<std::uint32_t>(64 * isa::kHbmGranuleBytes / 4, 5));
  add_copy(program, 1024, 2048, 64);
  RunOptions options = test::on_core(0);
  options.inputs = [](std::uint32_t, const isa::Buffer&) { return std::vector<std::uint32_t>{30}; };
  constexpr std::uint64_t kPageBytes = 64 * isa::kHbmGranuleBytes;
  options.follow.bytes = kPageBytes;
  const RunResult within = test::run(program, options);
  options.follow.bytes = kPageBytes - 1;
  const RunResult beyond = test::run(program, options);
  EXPECT_TRUE(has_note(beyond, "was followed: top"));
  EXPECT_EQ(beyond.cycles, within.cycles);
}

TEST(Followed, OfAKernelTheSliceThatReachesControl) {
  const isa::Program program = counts_and_computes(500);
  RunOptions options = test::on_core(0);
  // Two stores in each round count; the rest of the kernel's 3,500 vector instructions does not.
  options.follow.instructions = 600;
  const RunResult result = test::run(program, options);
  EXPECT_EQ(result.cycles, cycles_with_values(program));
  EXPECT_TRUE(has_note(result, "was followed: top (5 of 14 vector instructions)"))
      << result.notes.at(0);
  options.follow.instructions = 400;
  EXPECT_FALSE(has_note(test::run(program, options), "was followed"));
  // The limit is one of a step: others behind it change nothing.
  options.follow.instructions = 600;
  options.steps = 3;
  const RunResult three = test::run(program, options);
  EXPECT_EQ(three.cores[0].steps[0].end, result.cycles);
  EXPECT_TRUE(has_note(three, "was followed: top (5 of 14 vector instructions)"));
}

TEST(Followed, AnInstructionIsOneOfItsKernel) {
  const isa::Program program = program_of(R"(
kernel top
  { %s1 = smov 0 }
  { inlined_call site = 0 }
kernel other
  { %v1 = vmov 1 }
  { %v2 = vmov 2 }
)");
  FollowedKernels followed(program);
  EXPECT_TRUE(followed.can_add(followed.made_by(1, 1)));
  EXPECT_TRUE(followed.add(followed.made_by(1, 1)));
  EXPECT_FALSE(followed.can_add(followed.made_by(1, 1)));
  EXPECT_TRUE(followed.can_add(followed.made_by(1, 0)));
  EXPECT_TRUE(followed.can_add(followed.made_by(0, 1)));
}

TEST(Followed, WhatIsFollowedOnceIsNotAddedAgain) {
  const isa::Program program = counts_and_computes(1);
  FollowedKernels followed(program);
  EXPECT_TRUE(followed.add(Origin::nobody()));
  EXPECT_FALSE(followed.add(Origin::nobody()));
  EXPECT_TRUE(followed.add(followed.made_by(0, 5)));
  EXPECT_FALSE(followed.add(followed.made_by(0, 5)));
  EXPECT_TRUE(followed.add(followed.made_by(0, 7)));
  followed.want(followed.made_by(0, 8));
  EXPECT_TRUE(followed.add(followed.made_by(0, 7)));
  EXPECT_FALSE(followed.add(followed.made_by(0, 8)));
  EXPECT_TRUE(followed.add(Origin::kernel(0)));
  EXPECT_FALSE(followed.add(Origin::kernel(0)));
  EXPECT_FALSE(followed.add(followed.made_by(0, 9)));
}

/// Mnemonics of the slice that the instructions with these mnemonics demand.
std::vector<std::string> slice_for(const std::string& code, const std::string& demanded) {
  const isa::Program program = program_of("kernel top\n" + code);
  const isa::Kernel& kernel = program.kernels[0];
  VectorDemand demand;
  for (std::uint32_t i = 0; i < kernel.instructions.size(); ++i) {
    if (isa::opcode_text(kernel.instructions[i].opcode) == demanded) demand.instructions.insert(i);
  }
  std::vector<std::string> texts;
  for (const isa::Instruction& in : slice_of(kernel, demand).code.instructions) {
    texts.push_back(isa::format_instruction(in));
  }
  return texts;
}
using Texts = std::vector<std::string>;

TEST(VectorSlice, IsWhatReachesTheDemandAlongTheFlow) {
  EXPECT_EQ(
      slice_for("{ %v1 = vmov 1 }{ %v1 = vmov 2 }{ %v2 = vmov 3 }{ vpush %v1 }{ %v1 = vmov 4 }",
                "vpush"),
      Texts({"%v1 = vmov 2"}));
  // A guarded write and a load of some sublanes leave something of what was there.
  EXPECT_EQ(slice_for("{ %v1 = vmov 1 }{ %v1 = vmov (%p1) 2 }{ vpush %v1 }", "vpush").size(), 2u);
  EXPECT_EQ(
      slice_for("{ %v1 = vmov 1 }{ %v1 = vld [vmem:$0x0 sm:$0x1] }{ vpush %v1 }", "vpush").size(),
      2u);
  EXPECT_EQ(slice_for("{ %v1 = vmov 1 }{ %v1 = vld [vmem:$0x0] }{ vpush %v1 }", "vpush").size(),
            1u);
  // A bundle reads what was there before it.
  EXPECT_EQ(slice_for("{ %v1 = vmov 1 }{ %v1 = vmov 2 ;; vpush %v1 }", "vpush"),
            Texts({"%v1 = vmov 1"}));
}

/// Both halves of a slice are of the kernel that faults of the slice name.
TEST(VectorSlice, HasTheNameOfItsKernel) {
  const isa::Program program = program_of("kernel reduced\n{ %v1 = vmov 1 }{ vpush %v1 }");
  VectorDemand demand;
  demand.instructions.insert(1);
  const VectorSlice slice = slice_of(program.kernels[0], demand);
  EXPECT_EQ(slice.code.name, "reduced");
  EXPECT_EQ(slice.other_stores.name, "reduced");
}

TEST(VectorSlice, GoesRoundLoopsAndThroughDelaySlots) {
  const std::string loop = R"(
  { %v1 = vmov 0 }
  { %v2 = vmov 0 }
loop:
  { vpush %v1 }
  { %p1 = scmp.lt.s32.totalorder %s1, 3 }
  { sbr.rel (%p1) target = loop }
  { %v1 = vadd.s32 %v1, %v2 }
  { %v2 = vmov 7 }
)";
  EXPECT_EQ(slice_for(loop, "vpush"),
            Texts({"%v1 = vmov 0", "%v2 = vmov 0", "%v1 = vadd.s32 %v1, %v2"}));
}

TEST(VectorSlice, TakesAllOfAQueueOrNothing) {
  const std::string code = R"(
  { %v1 = vmov 1 }
  { %v2 = vmov 2 }
  { vrcp.f32 %v1 }
  { vrcp.f32 %v2 }
  { %v3 = vpop.eup }
  { %v4 = vpop.eup }
  { %m1 = vcmp.eq.s32.totalorder %v1, %v2 }
  { vst.msk [vmem:$0x0] %m1, %v4 }
  { vpush %v1 }
)";
  EXPECT_EQ(slice_for(code, "vst.msk").size(), 8u);
  EXPECT_EQ(slice_for(code, "vpush"), Texts({"%v1 = vmov 1"}));
}

}  // namespace
}  // namespace tpu::followed_test
