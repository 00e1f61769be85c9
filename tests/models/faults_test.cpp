#include <gtest/gtest.h>

#include "sim/base/error.h"
#include "tests/models/test_program.h"

namespace tpu::faults_test {
namespace {

using test::fault_of;
using test::program_of;
using test::run;

void expect_fault(const std::string& bundles, const std::string& what,
                  const RunOptions& options = test::on_core(0)) {
  const std::string fault = fault_of(program_of("kernel top\n" + bundles), options);
  EXPECT_NE(fault.find(what), std::string::npos) << fault;
}

RunOptions with_values() {
  RunOptions options = test::on_core(0);
  options.values = true;
  return options;
}

TEST(Faults, NameCoreCycleKernelBundleAndCode) {
  RunOptions options = test::on_core(3);
  const std::string fault = fault_of(
      program_of("kernel top\n{ %s1 = smov 1 ;; vdelay 4 }\n{ %v1 = vpop.eup }\n"), options);
  EXPECT_EQ(fault.rfind("core 3 (chip 1, core 1), cycle 5, kernel \"top\", bundle 0x1: vpop.eup: "
                        "expected a result",
                        0),
            0u)
      << fault;
  EXPECT_NE(fault.find("\n  { %v1 = vpop.eup }"), std::string::npos) << fault;
}

TEST(Faults, ScalarLoadsAreInterlocked) {
  EXPECT_EQ(fault_of(program_of("kernel top\n{ %s1 = sld [smem:$0x10] }{ %s2 = sadd.s32 %s1, 1 }")),
            "");
}

/// The memory that it takes is watched by the fuzzer of the assembler (found/assembler).
TEST(Faults, AParameterMayHaveAnyNumber) {
  const auto program = [](std::uint64_t granule) {
    isa::Program program = program_of(
        "kernel top\n{ %s1 = scalar_parameter_address -2147483648 }{ sst [smem:%s1] 1 }");
    isa::Buffer buffer;
    buffer.role = isa::BufferRole::kParameter;
    buffer.index = 0x80000000;
    buffer.granule = granule;
    buffer.bytes = buffer.unpadded_bytes = 1024;
    program.buffers.push_back(buffer);
    return program;
  };
  for (const RunOptions& options : {test::on_core(0), with_values()}) {
    EXPECT_EQ(fault_of(program(5), options), "");
    EXPECT_NE(fault_of(program(99999), options).find("99999"), std::string::npos)
        << fault_of(program(99999), options);
  }
}

/// What a guard of the vector unit asks is computed for it alone.
TEST(Faults, AGuardDecidesWhetherAPushFillsItsQueue) {
  const auto program = [](int left) {
    return program_of("kernel top\n{ %s1 = smov 3 }\n{ %p1 = scmp.eq.s32.totalorder %s1, " +
                      std::to_string(left) +
                      " }\n{ vmatmul.f32.gmra.mxu0 (%p1), %v0 ;; vdelay 104 }"
                      "{ %v1 = vpop.f32.mrf.mxu0 }");
  };
  EXPECT_EQ(fault_of(program(3)), "");
  EXPECT_NE(fault_of(program(4)).find("nothing was pushed that this could pop"), std::string::npos);
}

TEST(Faults, AResultPoppedTooEarly) {
  const auto program = [](int delay) {
    return program_of("kernel top\n{ vmatmul.f32.gmra.mxu1 %v0 ;; vdelay " + std::to_string(delay) +
                      " }{ %v1 = vpop.f32.mrf.mxu1 }");
  };
  EXPECT_EQ(fault_of(program(104)), "");
  EXPECT_NE(fault_of(program(103)).find("vpop.f32.mrf.mxu1: the result is not ready yet: 1 cycles"),
            std::string::npos);
}

TEST(Faults, PushesAndPopsCloserThanTheInterval) {
  expect_fault("{ vmatmul.f32.gmra.mxu0 %v0 ;; vdelay 6 }{ vmatmul.f32.gmra.mxu0 %v0 }",
               "does not take a push yet: 1 cycles too early");
  expect_fault("{ vmatpush.msra.mxu0 %v0 ;; vdelay 6 }{ vmatpush.msra.mxu0 %v0 }", "1 cycles");
  EXPECT_EQ(fault_of(program_of(
                "kernel top\n{ vmatmul.f32.gmra.mxu0 %v0 }{ vmatmul.f32.gmra.mxu1 %v0 }")),
            "");
  expect_fault(
      "{ vmatmul.f32.gmra.mxu0 %v0 ;; vdelay 7 }{ vmatmul.f32.gmra.mxu0 %v0 ;; vdelay 120 }"
      "{ %v1 = vpop.f32.mrf.mxu0 ;; vdelay 6 }{ %v1 = vpop.f32.mrf.mxu0 }",
      "does not give another result yet: 1 cycles");
}

TEST(Faults, QueuesThatAreFull) {
  std::string text;
  for (int i = 0; i < 33; ++i) text += "{ vmatmul.f32.gmra.mxu0 %v0 ;; vdelay 7 }";
  expect_fault(text, "bundle 0x20: vmatmul.f32.gmra.mxu0: the queue holds 32 results");
}

TEST(Faults, TransposedRowsComeAfterTheLastPush) {
  expect_fault("{ vxpose.xlu0.b32.start [1/2] %v1, 16 }{ %v2 = vpop.trf.xlu0 }",
               "nothing was pushed that this could pop");
  EXPECT_EQ(fault_of(program_of("kernel top\n{ vxpose.xlu0.b32.start [1/2] %v1, 16 ;; vdelay 7 }"
                                "{ vxpose.xlu0.b32.end [2/2] %v1, 16 }"
                                "{ %v2 = vpop.trf.xlu0 ;; vdelay 7 }{ %v2 = vpop.trf.xlu0 }")),
            "");
  expect_fault(
      "{ vxpose.xlu0.b32.start [1/2] %v1, 16 ;; vdelay 7 }"
      "{ vxpose.xlu0.b32.end [2/2] %v1, 16 ;; vdelay 7 }"
      "{ %v2 = vpop.trf.xlu0 ;; vdelay 7 }{ %v2 = vpop.trf.xlu0 ;; vdelay 7 }"
      "{ %v2 = vpop.trf.xlu0 }",
      "nothing was pushed that this could pop");
}

TEST(Faults, ATransposeOfOnePushIsWhole) {
  EXPECT_EQ(fault_of(program_of("kernel top\n{ vxpose.xlu0.b32.start [1/1] %v1, 16 ;; vdelay 40 }"
                                "{ %v2 = vpop.trf.xlu0 ;; vdelay 7 }{ %v2 = vpop.trf.xlu0 }")),
            "");
}

/// Each with its own interval and its own results.
TEST(Faults, ACoreHasAsManyXlusAsItIsSaid) {
  isa::Program both = program_of(
      "kernel top\n{ vadd.xlane.f32.xlu0 %v1 }{ vadd.xlane.f32.xlu1 %v1 ;; vdelay 100 }"
      "{ %v2 = vpop.xlane.xlu1 }");
  EXPECT_THROW(run(both), UserError);
  const auto fault = [](const std::string& bundles) {
    isa::Program program = program_of("kernel top\n" + bundles);
    program.conventions.xlus = 2;
    return fault_of(program);
  };
  both.conventions.xlus = 2;
  EXPECT_EQ(fault_of(both), "");
  EXPECT_NE(fault("{ vadd.xlane.f32.xlu0 %v1 ;; vdelay 100 }{ %v2 = vpop.xlane.xlu1 }")
                .find("nothing was pushed that this could pop"),
            std::string::npos);
  EXPECT_NE(
      fault("{ vadd.xlane.f32.xlu1 %v1 }{ vadd.xlane.f32.xlu1 %v1 }").find("7 cycles too early"),
      std::string::npos);
}

TEST(Faults, PartsBeyondTheArrayAreRefused) {
  EXPECT_EQ(fault_of(program_of("kernel top\n{ vmatmul.parts.f32.gmra.mxu0 %v1, 1, 1 }")), "");
  for (const char* parts : {"2, 1", "1, 2"}) {
    const std::string text = std::string("kernel top\n{ vmatmul.parts.f32.gmra.mxu0 %v1, ") + parts;
    EXPECT_THROW(run(program_of(text + " }")), UserError) << parts;
  }
}

// A bundle takes its cycle and its delay: 5 and 7 before the third.
TEST(Faults, OfComputedValuesHaveTheCycleOfTheirBundle) {
  expect_fault(
      "{ %s1 = smov 1 ;; vdelay 4 }{ %s1 = smov 2 ;; vdelay 6 }{ %v1 = vld [vmem:$0x8000] }",
      "cycle 12, kernel \"top\", bundle 0x2", with_values());
}

TEST(Faults, OfTheScalarUnitHaveTheCycleOfTheirBundle) {
  expect_fault("{ %s1 = smov 1 ;; vdelay 4 }{ %s1 = smov 2 ;; vdelay 6 }{ sst [smem:$0x1000] %s1 }",
               "cycle 12, kernel \"top\", bundle 0x2");
}

TEST(Faults, RoundingModesThatNoListingHasAreRefused) {
  const auto refused = [](const std::string& conversion) {
    try {
      run(program_of("kernel top\n{ " + conversion + " }"));
    } catch (const UserError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  for (const std::string form : {"%v1 = vcvt.pr.f32.s32 %v2, ", "%s1 = scvt.pr.f32.s32 %s2, "}) {
    EXPECT_EQ(refused(form + "-1"), "");
    EXPECT_EQ(refused(form + "2147483647"), "");
    EXPECT_NE(refused(form + "5").find("expected rounding mode -1"), std::string::npos) << form;
    EXPECT_NE(refused(form + "5").find("found 5"), std::string::npos) << form;
  }
}

TEST(Faults, NamesAreHandedOverAtACall) {
  isa::Program program = program_of(
      "kernel top\n{ %s1 = smov 5 }{ %s3 = smov 6 }{ inlined_call site = 0 }"
      "kernel callee\n{ %s2 = smov %s1 }");
  isa::VirtualNames defines, defines_other, reads;
  defines.dest = reads.operands[0] = 10;
  reads.dest = 11;
  defines_other.dest = 13;
  program.kernels[0].names = {defines, defines_other, {}};
  program.kernels[1].names = {reads};
  program.kernels[1].operand_names = {{1, 10}};
  program.call_sites[0].operand_names = {{1, 10}};
  RunOptions options = with_values();
  options.check_names = true;
  EXPECT_EQ(fault_of(program, options), "");
  program.call_sites[0].operand_names = {{1, 13}};
  EXPECT_NE(fault_of(program, options).find("expected name 13 in %s1, found name 10"),
            std::string::npos);
}

TEST(Faults, AddressesOutsideTheMemories) {
  expect_fault("{ dma.hbm_to_vmem 0, 64, 32704, 1 }",
               "destination of the DMA ends at VMEM row 32832");
  expect_fault("{ dma.hbm_to_vmem 16777215, 2, 0, 1 }", "ends at HBM granule 16777217");
  expect_fault("{ dma.hbm_to_smem 0, 16, 256, 1 }", "ends at SMEM word 4352");
  expect_fault(
      "{ %s1 = sld [smem:$0x1000] }{ dma.hbm_to_vmem 0, 1, 0, 1 }{ sbr.rel target = 3 }"
      "{ dma.hbm_to_vmem %s1, 1, 0, 1 }",
      "expected a word of SMEM below 4096, found 4096");
  expect_fault("{ %v1 = vld [vmem:$0x8000] }", "expected rows of VMEM below 32768", with_values());
}

TEST(Faults, UnknownSyncFlags) {
  expect_fault("{ dma.hbm_to_vmem 0, 1, 0, 1024 }", "expected a sync flag below 1024");
  expect_fault("{ vsyncadd 5000, 1 }", "expected a sync flag below 1024, found 5000");
  expect_fault("{ dma.done.wait -1, 1 }", "expected a sync flag below 1024, found -1");
}

TEST(Faults, TheProgramsOwnTrap) {
  expect_fault("{ %p1 = pmov 1 }{ shalt.err (%p1) }", "shalt.err");
  EXPECT_EQ(fault_of(program_of("kernel top\n{ %p1 = pmov 0 }{ shalt.err (%p1) }")), "");
}

TEST(Faults, AnEndlessLoop) {
  RunOptions options = test::on_core(0);
  options.runaway_cycles = 100000;
  expect_fault("loop:\n{ %s1 = smov 0 }{ sbr.rel target = loop }{ %s2 = smov 0 }",
               "without a DMA, a wait or an end", options);
}

TEST(Faults, AnEndlessLoopBundleByBundleEndsAtTheLimit) {
  RunOptions options = test::on_core(0);
  options.interpret = true;
  options.runaway_cycles = 100;
  expect_fault("loop:\n{ %s1 = smov 0 }{ sbr.rel target = loop }{ %s2 = smov 0 }",
               "has run for 101 cycles without a DMA, a wait or an end", options);
  options.runaway_cycles = ~std::uint64_t{0};
  options.max_step_cycles = 200;
  expect_fault("loop:\n{ %s1 = smov 0 }{ sbr.rel target = loop }{ %s2 = smov 0 }",
               "the step has taken more than 200 cycles", options);
}

/// Bundle by bundle the first one behind which the limit has passed is named, in a step that knows
/// what follows what, too.
TEST(Faults, AStraightStretchThatIsTooLongBundleByBundleEndsAtTheLimit) {
  RunOptions options = test::on_core(0);
  options.interpret = true;
  std::string text;
  for (int i = 0; i < 40; ++i) text += "{ %s1 = smov 0 ;; vdelay 9 }";
  for (const std::uint32_t steps : {1u, 2u}) {
    options.steps = steps;
    options.runaway_cycles = 400 * steps - 300;
    expect_fault(
        text, "bundle 0xa: the core has run for " + std::to_string(400 * steps - 290) + " cycles",
        options);
  }
}

/// In the third trip, when the interpreter knows what follows what.
TEST(Faults, AHaltIsWhereItStands) {
  for (const bool interpret : {false, true}) {
    RunOptions options = test::on_core(0);
    options.interpret = interpret;
    expect_fault(
        "{ %s1 = smov 0 }\nloop:\n{ %s1 = sadd.s32 %s1, 1 ;; vdelay 4 }"
        "{ %v1 = vadd.f32 %v1, %v1 }{ %p2 = scmp.eq.s32.totalorder %s1, 3 }{ vdelay 30 }"
        "{ %v1 = vadd.f32 %v1, %v1 ;; shalt.err (%p2) }"
        "{ %p1 = scmp.lt.s32.totalorder %s1, 5 }{ sbr.rel (%p1) target = loop }{ %s2 = smov 0 }",
        "cycle " + std::to_string(1 + 2 * 42 + 38) + ", kernel \"top\", bundle 0x5", options);
  }
}

/// One granule from HBM, over and over: each trip is a contact with the outside.
const char* const kEndlessDmas =
    "loop:\n{ dma.hbm_to_vmem 0, 1, 0, 8 }{ dma.done.wait 8, 1 }{ vsyncadd 8, -1 }"
    "{ sbr.rel target = loop }{ %s2 = smov 0 }";

TEST(Faults, AnEndlessLoopThatMovesData) {
  RunOptions options = test::on_core(0);
  options.max_step_cycles = 100000;
  expect_fault(kEndlessDmas, "the step has taken more than 100000 cycles", options);
}

TEST(Faults, ALimitOfCyclesIsThatOfAStep) {
  const isa::Program program = program_of("kernel top\n{ vdelay 1000 }{ vdelay 997 }");
  RunOptions options = test::on_core(0);
  options.steps = 3;
  options.max_step_cycles = 1999;  // Two bundles, 1,997 empty cycles.
  EXPECT_EQ(fault_of(program, options), "");
  options.max_step_cycles = 1998;
  EXPECT_NE(fault_of(program, options).find("the step has taken more than 1998 cycles"),
            std::string::npos);
}

TEST(Faults, ControlOnUnknownValues) {
  // Nothing has written granule 9 of HBM.
  const std::string pop =
      "{ dma.hbm_to_vmem 9, 1, 0, 8 }{ dma.done.wait 8, 1 }{ %v1 = vld [vmem:$0x0] }"
      "{ vpush %v1 }{ %s1 = spop }{ %s2 = sadd.s32 %s1, 1 }";
  expect_fault(pop +
                   "{ %p1 = scmp.eq.s32.totalorder %s2, 0 }{ sbr.rel (%p1) target = 9 }"
                   "{ %s3 = smov 1 }{ %s3 = smov 1 }",
               "bundle 0x7: a branch depends on a value that the vector unit computed");
  expect_fault(pop + "{ dma.hbm_to_vmem 0, %s2, 0, 1 }", "the size of the DMA is unknown");
  expect_fault(pop + "{ dma.hbm_to_smem 0, 1, %s2, 1 }", "the destination of the DMA is unknown");
  expect_fault(pop + "{ sst [smem:%s2] 1 }", "the address of sst");
  expect_fault(pop + "{ sst [smem:$0x206] %s2 }{ dma 512 }",
               "word 6 of the DMA's descriptor is unknown");
  // What is overwritten is known again, and sync flags always are.
  EXPECT_EQ(fault_of(program_of("kernel top\n" + pop +
                                "{ %s2 = smov 8 }{ vsyncadd 3, 4 }{ vsyncmov 3 }{ %s1 = spop }"
                                "{ dma.hbm_to_vmem %s2, %s1, 0, 1 }{ dma.done.wait 1, 4 }")),
            "");
  // With values on reading it is a fault.
  EXPECT_NE(fault_of(program_of("kernel top\n" + pop), with_values()).find("HBM granule 9"),
            std::string::npos);
}

TEST(Faults, AnUnknownAddressIsNoneButIsNoted) {
  RunOptions options = test::on_core(0);
  options.follow.instructions = 0;
  const RunResult result = run(program_of("kernel top\n{ %v1 = vmov 7 }{ vpush %v1 }{ %s1 = spop }"
                                          "{ dma.hbm_to_vmem %s1, 4, 0, 1 }"
                                          "{ dma.done.wait 1, 4 }"),
                               options);
  ASSERT_EQ(result.notes.size(), 1u);
  EXPECT_EQ(result.notes[0].rfind("1 DMAs go to or from addresses that are unknown", 0), 0u);
}

TEST(Faults, ABranchInADelaySlot) {
  for (const bool interpret : {false, true}) {
    RunOptions options = test::on_core(0);
    options.interpret = interpret;
    expect_fault("{ sbr.rel target = 0 }{ sbr.rel target = 0 }{ %s1 = smov 0 }", "delay slot",
                 options);
  }
}

TEST(Faults, ProgramsThatTheMachineCannotRun) {
  isa::Program program = program_of("kernel top\n{ %s1 = smov 1 }");
  program.chip = "v2";
  EXPECT_THROW(run(program), WorkloadError);
  MachineParams one_mxu;
  one_mxu.core.mxu.count = 1;
  EXPECT_THROW(
      run(program_of("kernel top\n{ vmatmul.f32.gmra.mxu1 %v0 }"), test::on_core(0), one_mxu),
      WorkloadError);
  EXPECT_THROW(run(program_of("kernel top\n{ %s1 = smov 1 }"), test::on_core(8)), UsageError);
  EXPECT_THROW(run(isa::Program()), WorkloadError);
}

TEST(Faults, WhatAVpushSendsIsThereInTheNextBundle) {
  EXPECT_EQ(fault_of(program_of("kernel top\n{ vpush %v0 }{ %s1 = spop }")), "");
  expect_fault("{ vpush %v0 ;; %s1 = spop }", "nothing was pushed that this could pop");
}

}  // namespace
}  // namespace tpu::faults_test
