#include "isa/bundle_check.h"

#include <gtest/gtest.h>

#include "isa/assembler.h"
#include "random_program.h"
#include "sim/base/error.h"

namespace tpu::isa::bundle_check_test {
namespace {

std::string problem(const std::string& bundle) {
  try {
    assemble("kernel k\n" + bundle, "t");
  } catch (const WorkloadError& error) {
    return error.what();
  }
  return "fits";
}

TEST(BundleCheck, TheWidestBundleFits) {
  EXPECT_EQ(
      problem("{ %s1 = sadd.s32 %s1, 1 ;; %s2 = sld [smem:$0x1] ;; %v1 = vadd.f32 %v1, %v2 ;; "
              "vpow2.f32 %v3 ;; %vm1 = vmand %vm2, %vm3 ;; %v4 = vld [vmem:%s1] ;; "
              "vst [vmem:%s2] %v4 ;; vmatmul.f32.gmra.mxu0 %v5 ;; %v6 = vpop.f32.mrf.mxu1 }"),
      "fits");
}

/// Words of SMEM have no sublanes.
TEST(BundleCheck, AddressesInSmemHaveNoSublanes) {
  Instruction load;
  load.opcode = Opcode::kSld;
  load.dest = 1;
  EXPECT_FALSE(instruction_problem(load));
  Address with[4];
  with[0].sublane_stride = 2;
  with[1].sublane_mask = 0x7f;
  with[2].mask_register = 3;
  with[3].pattern = 1;
  for (const Address& address : with) {
    load.address = address;
    EXPECT_EQ(instruction_problem(load), "address: ss, sm or pattern in SMEM");
  }
}

TEST(BundleCheck, NumbersInPlaceOfPredicatesAndMasksAreZeroOrOne) {
  Instruction moves[2];
  moves[0].opcode = Opcode::kPmov;
  moves[1].opcode = Opcode::kVmmov;
  for (Instruction& move : moves) {
    move.dest = 1;
    for (const std::uint32_t number : {0u, 1u}) {
      move.operands[0] = Operand::immediate_(number);
      EXPECT_FALSE(instruction_problem(move));
    }
    move.operands[0] = Operand::immediate_(2);
    EXPECT_EQ(instruction_problem(move), "operand: expected 0 or 1, found 2");
  }
}

TEST(BundleCheck, StridesOfADmaAreThreeNumbersOf16Bits) {
  Instruction dma;
  dma.opcode = Opcode::kDmaCmemToVmemStrided;
  for (Operand& operand : dma.operands) operand = Operand::immediate_(1);
  dma.address.offset = 0xffff;
  dma.address.sublane_stride = 0;
  dma.address.pattern = 0xffff;
  EXPECT_FALSE(instruction_problem(dma));
  Address wrong[6];
  for (Address& address : wrong) address = dma.address;
  wrong[0].offset = 0x10000;
  wrong[1].offset = -1;
  wrong[2].sublane_stride = 0x10000;
  wrong[3].pattern = 0;
  wrong[4].pattern = 0x10000;
  wrong[5].base[0] = 3;
  for (const Address& address : wrong) {
    dma.address = address;
    EXPECT_EQ(instruction_problem(dma),
              "strides: expected three numbers below 65536, and runs of at least one");
  }
}

TEST(BundleCheck, EachSlotHasItsLimit) {
  EXPECT_EQ(problem("{ %s1 = smov 1 ;; %s2 = smov 1 ;; %s3 = smov 1 }"),
            "t:2:1: expected at most 2 scalar instructions, found 3");
  EXPECT_EQ(problem("{ %s1 = smov 1 ;; %p2 = pmov 1 ;; sbr.rel target = 0 }"),
            "t:2:1: expected at most 2 scalar instructions, found 3");
  EXPECT_EQ(problem("{ %s1 = smov 1 ;; %s2 = smov 1 ;; dma 8 }"),
            "t:2:1: expected at most 2 scalar instructions, found 3");
  EXPECT_EQ(problem("{ %v1 = vmov 1 ;; %vm2 = vweird.f32 %v1 ;; vtanh.f32 %v1 }"),
            "t:2:1: expected at most 2 vector ALU instructions, found 3");
  EXPECT_EQ(problem("{ %v1 = vld [vmem:$0x1] ;; %v2 = vld [vmem:$0x1] }"),
            "t:2:1: expected at most 1 vector load instruction, found 2");
  EXPECT_EQ(problem("{ vst [vmem:$0x1] 1 ;; vst.msk [vmem:$0x1] 1, 1 }"),
            "t:2:1: expected at most 1 vector store instruction, found 2");
  EXPECT_EQ(problem("{ vmatpush.msra.mxu0 %v1 ;; vrot.lane.b32.xlu0 %v1, 1 }"),
            "t:2:1: expected at most 1 push instruction, found 2");
  EXPECT_EQ(problem("{ %v1 = vpop.eup ;; %v2 = vpop.f32.mrf.mxu0 }"),
            "t:2:1: expected at most 1 pop instruction, found 2");
}

TEST(BundleCheck, MaskLogicTakesTheMiscSlotOrAVectorAluSlot) {
  const std::string mask = "%vm1 = vmneg %vm2";
  EXPECT_EQ(problem("{ %v1 = vmov 1 ;; %v2 = vmov 1 ;; " + mask + " }"), "fits");
  EXPECT_EQ(problem("{ %v1 = vmov 1 ;; vsyncadd 1, 1 ;; " + mask + " }"), "fits");
  EXPECT_EQ(problem("{ %v1 = vmov 1 ;; %v2 = vmov 1 ;; vsyncadd 1, 1 ;; " + mask + " }"),
            "t:2:1: expected at most 2 vector ALU instructions, found 3");
  EXPECT_EQ(problem("{ vsyncadd 1, 1 ;; vsyncadd 2, 1 }"),
            "t:2:1: expected at most 1 misc instruction, found 2");
}

TEST(BundleCheck, ScalarMemoryHasOnePortAndTheSequencerOneJump) {
  EXPECT_EQ(problem("{ %s1 = sld [smem:$0x1] ;; sst [smem:$0x2] 1 }"),
            "t:2:1: expected at most 1 sld, sst or DMA instruction, found 2");
  EXPECT_EQ(problem("{ dma 8 ;; sst [smem:$0x2] 1 }"),
            "t:2:1: expected at most 1 sld, sst or DMA instruction, found 2");
  EXPECT_EQ(problem("{ sbr.rel target = 0 ;; sbr.rel (%p1) target = 0 }"),
            "t:2:1: expected at most 1 branch or call instruction, found 2");
}

TEST(BundleCheck, ARegisterIsWrittenOnceUnlessGuardsDecide) {
  EXPECT_EQ(problem("{ %v1 = vmov 1 ;; %v1 = vld [vmem:$0x1] }"),
            "t:2:1: expected one write of each register, found two: %v1 = vmov 1 and %v1 = vld "
            "[vmem:$0x1]");
  EXPECT_EQ(problem("{ %s1 = smov (%p1), 1 ;; %s1 = smov (!%p1), 2 }"), "fits");
  EXPECT_EQ(problem("{ %s1 = smov 1 ;; %v1 = vmov 1 }"), "fits");
}

TEST(BundleCheck, KernelsAreCheckedInstructionByInstruction) {
  Kernel kernel;
  kernel.name = "k";
  kernel.instructions = {assemble_instruction("%s1 = sadd.s32 %s2, 3")};
  kernel.bundles = {{0, 0, 0}, {0, 1, 0}};
  EXPECT_NO_THROW(check_kernel(kernel));
  const auto problem_of = [&](auto change) -> std::string {
    Kernel broken = kernel;
    change(broken);
    try {
      check_kernel(broken);
    } catch (const WorkloadError& error) {
      return error.what();
    }
    return "fits";
  };
  EXPECT_EQ(problem_of([](Kernel& k) { k.instructions[0].dest = 32; }),
            "kernel k, bundle 0x1: sadd.s32: destination: expected a register below 32 of file s, "
            "found 32");
  EXPECT_EQ(problem_of([](Kernel& k) { k.instructions[0].operands[1] = {}; }),
            "kernel k, bundle 0x1: sadd.s32: operand missing");
  EXPECT_EQ(problem_of([](Kernel& k) { k.instructions[0].operands[2] = Operand::immediate_(1); }),
            "kernel k, bundle 0x1: sadd.s32: more operands than the signature");
  EXPECT_EQ(problem_of([](Kernel& k) { k.instructions[0].unit = 1; }),
            "kernel k, bundle 0x1: sadd.s32: expected a unit below 1, found 1");
  EXPECT_EQ(problem_of([](Kernel& k) { k.instructions[0].address.offset = 1; }),
            "kernel k, bundle 0x1: sadd.s32: an address where the instruction has none");
  EXPECT_EQ(problem_of([](Kernel& k) { k.instructions[0].guard.predicate = 16; }),
            "kernel k, bundle 0x1: sadd.s32: guard: expected a register below 16 of file p, found "
            "16");
  EXPECT_EQ(problem_of([](Kernel& k) { k.instructions[0].opcode = Opcode::kCount; }),
            "kernel k, bundle 0x1: ?: no such opcode");
  EXPECT_EQ(problem_of([](Kernel& k) { k.bundles[1].instruction_count = 2; }),
            "kernel k, bundle 0x1: more instructions than the kernel has");
  EXPECT_EQ(
      problem_of([](Kernel& k) { k.instructions[0] = assemble_instruction("sbr.rel target = 3"); }),
      "kernel k, bundle 0x1: expected a branch to a bundle up to 2, found 3");
}

TEST(BundleCheck, RandomKernelsOfTheGeneratorFit) {
  for (std::uint32_t seed = 0; seed < 20; ++seed) {
    EXPECT_NO_THROW(check_kernel(test::RandomProgram(seed).kernel(30)));
  }
}

}  // namespace
}  // namespace tpu::isa::bundle_check_test
