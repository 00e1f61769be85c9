#include "isa/listing/listing_reader.h"

#include <gtest/gtest.h>

#include "isa/disassembler.h"
#include "sim/base/error.h"
#include "tests/xla/listing_text.h"

namespace tpu::test::listing_reader_test {
namespace {

using isa::Instruction;
using isa::kNoRegister;
using isa::Listing;
using isa::Opcode;
using isa::Operand;

Instruction one(const std::string& text) {
  const Listing listing = read_one(text);
  EXPECT_EQ(listing.kernel.instructions.size(), 1u) << text;
  return listing.kernel.instructions.at(0);
}

std::string error_of(const std::string& bundles, const std::string& packed = kPackedText) {
  try {
    read_bundles(bundles, packed);
  } catch (const WorkloadError& error) {
    return error.what();
  }
  return "no error";
}

std::string error_of_one(const std::string& instruction) {
  return error_of("     0   :  { " + instruction + " }\n");
}

TEST(ListingReader, ReadsRegistersOperandsAndNames) {
  const Listing listing = read_one("%v643_v4 = vshll.u32 %v642_v3, 2");
  const Instruction& in = listing.kernel.instructions.at(0);
  EXPECT_EQ(in.opcode, Opcode::kVshllU32);
  EXPECT_EQ(in.dest, 4);
  EXPECT_EQ(in.operands[0], Operand::register_(3));
  EXPECT_EQ(in.operands[1], Operand::immediate_(2));
  EXPECT_EQ(listing.kernel.names[0].dest, 643u);
}

const char kPackedWithCmem[] =
    "$region0: #{fusion}\n"
    "  #allocation1 [shape = 'f32[96]{0:T(128)S(3)}', space=cmem, size = 0x200, offset = 0x5000, "
    "tag = 'output of copy-start@{0}']\n";

/// From v4 on: an allocation in CMEM in rows of 512 bytes, a load with its pop, a copy of a
/// pointer.
TEST(ListingReader, ReadsCmem) {
  const Listing listing = read_bundles(
      "     0   :  { %s4_s2 = scalar_lea.cmem [#allocation1], 1  ;;  %188 = cld "
      "[cmem:[#allocation1 + $0x18] sm:$0xf] }\n"
      "   0x1   :  { %v189_v5 = vpop.crf %188  ;;  %s5_s3 = int_to_ptr.cmem [resolvable:$true] "
      "%s4_s2 }\n",
      kPackedWithCmem);
  const auto& all = listing.kernel.instructions;
  ASSERT_EQ(all.size(), 4u);
  EXPECT_EQ(all[0].operands[0], Operand::immediate_(0x28));
  EXPECT_EQ(all[1].address.offset, 0x28 + 0x18);
  EXPECT_EQ(all[1].address.sublane_mask, 0xf);
  EXPECT_EQ(listing.kernel.names[2].operands[0], 188u);
  EXPECT_EQ(all[3].opcode, Opcode::kSmov);
}

TEST(ListingReader, ADmaWithStridesHasNoGapsWhereAllThreeAreTheSame) {
  const std::string dma =
      "%8 = dma.cmem_to_vmem /*cmem=*/%s1_s1, /*size_in_granules=*/64, /*vmem=*/%s2_s2, "
      "/*dst_syncflagno=*/3, /*src_stride=*/%s3_s3, /*dst_stride=*/";
  const Instruction in = one(dma + "%s3_s3, /*steps_per_stride=*/%s3_s3");
  EXPECT_EQ(in.opcode, Opcode::kDmaCmemToVmem);
  EXPECT_EQ(in.operands[1], Operand::immediate_(64));
  EXPECT_EQ(error_of_one(dma + "%s4_s4, /*steps_per_stride=*/%s3_s3"),
            "kernel.txt:10:133: expected strides of a DMA that are constants, found a register");
}

/// 16 granules from run to run of the source, 8 of the destination, runs of 8.
TEST(ListingReader, ADmaWithGapsTakesItsStridesOutOfConstants) {
  const auto read = [](const std::string& dma) {
    return read_bundles(
               "     0   :  { %s3_s3 = smov 16  ;;  %s4_s4 = smov 8 }\n   0x1   :  { %8 = " + dma +
               ", /*dst_syncflagno=*/3, /*src_stride=*/%s3_s3, /*dst_stride=*/%s4_s4, "
               "/*steps_per_stride=*/%s4_s4 }\n")
        .kernel.instructions.at(2);
  };
  const Instruction in =
      read("dma.cmem_to_vmem (%p3_p1), /*cmem=*/%s1_s1, /*size_in_granules=*/64, /*vmem=*/%s2_s2");
  EXPECT_EQ(isa::format_instruction(in),
            "dma.cmem_to_vmem.strided [strides:16, 8, 8] (%p1), %s1, 64, %s2, 3");
  EXPECT_EQ(read("dma.vmem_to_hbm /*vmem=*/%s1_s1, /*size_in_granules=*/64, /*hbm=*/%s2_s2").opcode,
            Opcode::kDmaVmemToHbmStrided);
  EXPECT_EQ(read("dma.hbm_to_cmem /*hbm=*/%s1_s1, /*size_in_granules=*/64, /*cmem=*/%s2_s2").opcode,
            Opcode::kDmaHbmToCmemStrided);
  EXPECT_EQ(read("dma.cmem_to_hbm /*cmem=*/%s1_s1, /*size_in_granules=*/64, /*hbm=*/%s2_s2").opcode,
            Opcode::kDmaCmemToHbmStrided);
  try {
    read("dma.hbm_to_smem /*hbm=*/%s1_s1, /*size_in_granules=*/64, /*smem=*/%s2_s2");
    FAIL() << "no error";
  } catch (const WorkloadError& error) {
    EXPECT_NE(std::string(error.what()).find("modelled between VMEM, CMEM and HBM"),
              std::string::npos);
  }
}

/// Between which memories, its registers say: addresses that the kernel computes, operands, places.
TEST(ListingReader, AGeneralDmaHasItsStridesInSmem) {
  const std::string rest =
      ", /*dst_syncflagno=*/%s5_s5, /*src_syncflagno=*/%s6_s6, "
      "/*stridedescaddr=*/[#allocation3], /*overrides=*/%s7_s7, /*dst_syncflagno_1=*/";
  const auto read = [&](const std::string& source, const std::string& destination,
                        const std::string& last) {
    return read_bundles("     0   :  { %s1_s1 = " + source + "  ;;  %s2_s2 = " + destination +
                        " }\n   0x1   :  { %8 = dma.general (%p3_p1), /*src=*/%s1_s1, "
                        "/*size_in_granules=*/392, /*dst=*/%s2_s2" +
                        rest + last + " }\n");
  };
  const std::string cmem = "scalar_lea.cmem %s9_s9, %s8_s8", vmem = "smov [#allocation1]";
  const Listing listing = read(cmem, vmem, "0");
  EXPECT_EQ(isa::format_instruction(listing.kernel.instructions.at(2)),
            "dma.general.cmem_to_vmem [smem:$0x410] (%p1), %s1, 392, %s2, %s5");
  EXPECT_EQ(listing.kernel.names.at(2).operands[0], 1u);
  EXPECT_EQ(listing.kernel.names.at(2).operands[2], 2u);
  const std::string hbm =
      "inlined_call_operand.hbm [shape: f32[6,6,6], index: 0, kind: input, shape index: {}]";
  EXPECT_EQ(read(hbm, vmem, "0").kernel.instructions.back().opcode, Opcode::kDmaGeneralHbmToVmem);
  EXPECT_EQ(read(vmem, cmem, "0").kernel.instructions.back().opcode, Opcode::kDmaGeneralVmemToCmem);
  EXPECT_EQ(read(hbm, cmem, "0").kernel.instructions.back().opcode, Opcode::kDmaGeneralHbmToCmem);
  EXPECT_EQ(read(cmem, hbm, "0").kernel.instructions.back().opcode, Opcode::kDmaGeneralCmemToHbm);
  const auto error = [&](const std::string& source, const std::string& destination,
                         const std::string& last) {
    try {
      read(source, destination, last);
    } catch (const WorkloadError& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  EXPECT_NE(error(cmem, cmem, "0")
                .find("expected a dma.general between VMEM, CMEM and HBM, "
                      "found one from cmem to cmem"),
            std::string::npos);
  EXPECT_NE(error("smov 4", vmem, "0").find("expected a register with an address"),
            std::string::npos);
  EXPECT_NE(error(cmem, vmem, "3").find("one sync flag of its destination"), std::string::npos);
}

/// To another core, which the overrides name; without strides: an allocation of no size at 0.
TEST(ListingReader, AGeneralDmaFromVmemToVmemGoesToAnotherCore) {
  const auto read = [&](const std::string& strides, const std::string& overrides) {
    return read_bundles(
        "     0   :  { %s1_s1 = smov [#allocation1]  ;;  %s2_s2 = smov [#allocation1] }\n"
        "   0x1   :  { %s6_s6 = smov 3  ;;  %s7_s7 = smov 9 }\n"
        "   0x2   :  { %8 = dma.general (%p3_p1), /*src=*/%s1_s1, /*size_in_granules=*/16, "
        "/*dst=*/%s2_s2, /*dst_syncflagno=*/%s5_s5, /*src_syncflagno=*/%s6_s6, "
        "/*stridedescaddr=*/[#allocation" +
            strides + "], /*overrides=*/" + overrides +
            ", /*dst_syncflagno_1=*/0 /* vmem-to-vmem */ }\n",
        kPackedText +
            std::string("  #allocation7 [shape = 'u32[0]{0}', space=smem, size = 0, offset = 0, "
                        "fixed_abs, tag = 'smem constant byte address 0x0 - null']\n"));
  };
  const Listing listing = read("7", "%s7_s7");
  EXPECT_EQ(isa::format_instruction(listing.kernel.instructions.at(4)),
            "dma.general.vmem_to_vmem [far:%s6, %s7] (%p1), %s1, 16, %s2, %s5");
  EXPECT_EQ(listing.kernel.names.at(4).base[0], 6u);
  EXPECT_EQ(listing.kernel.names.at(4).base[1], 7u);
  const auto error = [&](const std::string& strides, const std::string& overrides) {
    try {
      read(strides, overrides);
    } catch (const WorkloadError& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  EXPECT_NE(error("3", "%s7_s7").find("without strides"), std::string::npos);
  EXPECT_NE(error("7", "5").find("in registers, found a number"), std::string::npos);
}

/// From v4 on a digit of a shuffle's pattern has four bits; there are eight rows all the same.
TEST(ListingReader, AShuffleOfV4HasHexadecimalDigits) {
  const auto read = [](const std::string& pattern) {
    isa::ListingPlacement placement{0x400, 32};
    placement.hexadecimal_patterns = true;
    return isa::read_listing(kListingHeader +
                                 std::string("     0   :  { %v1_v2 = vld.sshfl "
                                             "[vmem:[%s1_s1] pattern:$") +
                                 pattern + "] }\n",
                             "kernel.txt", isa::PackedListing::read(kPackedText, "packed.txt"),
                             placement)
        .kernel.instructions.at(0);
  };
  EXPECT_EQ(read("0x10765432").address.pattern, 010765432u);
  EXPECT_EQ(read("0x00543210").address.pattern, 00543210u);
  EXPECT_THROW(read("0x10765438"), WorkloadError);
}

TEST(ListingReader, ReadsATransposeOfOnePushWithItsRemarks) {
  const Instruction in =
      one("%99 = vxpose.xlu0.b32.start.end [1/1] (short) (narrow) /*vx=*/%v95_v14, /*width=*/24");
  EXPECT_EQ(in.opcode, Opcode::kVxposeStartEnd);
  EXPECT_EQ(in.operands[1], Operand::immediate_(24));
  EXPECT_EQ(in.operands[3], Operand::immediate_(1));
}

TEST(ListingReader, ReadsUnitNumbers) {
  const Instruction in = one("%10 = vmatmul.f32.dwg.msra.gmra.mxu1 %v5_v7");
  EXPECT_EQ(in.opcode, Opcode::kVmatmulDwg);
  EXPECT_EQ(in.unit, 1);
  EXPECT_EQ(in.dest, kNoRegister);
}

TEST(ListingReader, ReadsGuardsBeforeTheOperandsOrAfterTheAddress) {
  const Instruction add = one("%s2_s5 = sadd.s32 (!%p1_p3), 4294967295, %s9_s1");
  EXPECT_EQ(add.guard.predicate, 3);
  EXPECT_TRUE(add.guard.negated);
  EXPECT_EQ(add.operands[0], Operand::immediate_(0xffffffff));

  const Instruction load = one("%v3_v2 = vld [vmem:[#allocation1 + $0x8] ss:$-1 sm:$0x7] (%p1_p3)");
  EXPECT_EQ(load.guard.predicate, 3);
  EXPECT_FALSE(load.guard.negated);
  EXPECT_EQ(load.address.offset, 0x1000 / 512 + 8);
  EXPECT_EQ(load.address.sublane_stride, -1);
  EXPECT_EQ(load.address.sublane_mask, 7);

  const Instruction store =
      one("%4 = vst.msk [vmem:[%s7_s1 - $0x1] sm:%s8_s2] (!%p1_p3), %vm2_vm5, %v3_v2");
  EXPECT_EQ(store.guard.predicate, 3);
  EXPECT_EQ(store.address.base[0], 1);
  EXPECT_EQ(store.address.offset, -1);
  EXPECT_EQ(store.address.mask_register, 2);
  EXPECT_EQ(store.operands[0], Operand::register_(5));
  EXPECT_EQ(store.operands[1], Operand::register_(2));

  const Instruction dma =
      one("%6 = dma.hbm_to_vmem [thread:$0]  (%p1_p3), /*hbm=*/%s1_s4, /*size_in_granules=*/8, "
          "/*vmem=*/[#allocation1], /*dst_syncflagno=*/[#allocation2 + $0x1]");
  EXPECT_EQ(dma.guard.predicate, 3);
  EXPECT_EQ(dma.operands[1], Operand::immediate_(8));
  EXPECT_EQ(dma.operands[2], Operand::immediate_(0x1000 / 512));
  EXPECT_EQ(dma.operands[3], Operand::immediate_(4 / 4 + 32 + 1));
}

TEST(ListingReader, PlacesKernelRelativeSmemAboveItsBaseAndFixedWordsWhereTheyAre) {
  EXPECT_EQ(one("%s1_s1 = sld [smem:[#allocation3 + $0x3]]").address.offset, 0x400 + 0x40 / 4 + 3);
  EXPECT_EQ(one("%s1_s1 = sld [smem:[#allocation4]]").address.offset, 0x3f90 / 4);
  EXPECT_EQ(one("%s1_s1 = sld [smem:[#allocation5_spill]]").address.offset, 0x400 + 0x80 / 4);
}

TEST(ListingReader, LeavesPlacesInHbmToTheLinker) {
  const Listing listing = read_one("%s1_s1 = smov [#allocation6 + $0x2]");
  ASSERT_EQ(listing.hbm_references.size(), 1u);
  EXPECT_EQ(listing.hbm_references[0].allocation, 6u);
  EXPECT_EQ(listing.kernel.instructions[0].operands[0], Operand::immediate_(2));
}

TEST(ListingReader, TakesTheBitsOfNumbersInShortestDecimalForm) {
  const auto bits = [](const std::string& text) {
    return one("%v1_v1 = vmov " + text).operands[0].immediate;
  };
  EXPECT_EQ(bits("1.0"), 0x3f800000u);
  EXPECT_EQ(bits("-2.5"), 0xc0200000u);
  EXPECT_EQ(bits("1e-05"), 0x3727c5acu);
  EXPECT_EQ(bits("1.1754944e-38"), 0x00800000u);
  EXPECT_EQ(bits("inf"), 0x7f800000u);
  EXPECT_EQ(bits("-inf"), 0xff800000u);
  EXPECT_EQ(bits("nan"), 0x7fc00000u);
  EXPECT_EQ(bits("4294967295"), 0xffffffffu);
  EXPECT_EQ(bits("-1"), 0xffffffffu);
}

TEST(ListingReader, TakesTwoNumbersAsThePairOfBf16ThatPackingMakesOfThem) {
  const auto bits = [](const std::string& text) {
    return one("%v1_v1 = vmov " + text + " /* materialized constant */").operands[0].immediate;
  };
  EXPECT_EQ(bits("-inf|-inf"), 0xff80ff80u);
  EXPECT_EQ(bits("1.0|-2.0"), 0x3f80c000u);
  EXPECT_EQ(bits("1.00390625|1.01171875"), 0x3f803f82u);  // Halfway: to the even neighbour.
  EXPECT_THROW(bits("1.0|"), WorkloadError);
  EXPECT_THROW(read_one("%s1_s1 = smov 1|1"), WorkloadError);
}

TEST(ListingReader, ReadsTheSelectionThatLooksLikeAMove) {
  // smov (p, a), b is p ? b : a; scalar_select p, x, y is p ? x : y.
  const Instruction in = one("%s9_s3 = smov (!%p5_p1, %s7_s2), 17");
  EXPECT_EQ(in.opcode, Opcode::kScalarSelect);
  EXPECT_EQ(in.operands[0], Operand::register_(1, true));
  EXPECT_EQ(in.operands[1], Operand::immediate_(17));
  EXPECT_EQ(in.operands[2], Operand::register_(2));
  EXPECT_EQ(in.guard.predicate, kNoRegister);

  const Instruction guarded = one("%s9_s3 = smov (%p5_p1), 17");
  EXPECT_EQ(guarded.opcode, Opcode::kSmov);
  EXPECT_EQ(guarded.guard.predicate, 1);
}

TEST(ListingReader, ReadsPositionsOfTransposes) {
  const Instruction in = one("%8 = vxpose.xlu0.b32.cont [2/16] (%p1_p3), %v6_v9, 128");
  EXPECT_EQ(in.operands[0], Operand::register_(9));
  EXPECT_EQ(in.operands[1], Operand::immediate_(128));
  EXPECT_EQ(in.operands[2], Operand::immediate_(2));
  EXPECT_EQ(in.operands[3], Operand::immediate_(16));
  EXPECT_EQ(in.guard.predicate, 3);
}

TEST(ListingReader, KeepsTheNamesOfPushesBesideTheirPops) {
  const Listing listing = read_bundles(
      "     0   :  { %20 = vpow2.f32 %v1_v1 }\n"
      "   0x1   :  { %v21_v2 = vpop.eup %20 }\n"
      "   0x2   :  { %30 = vset.pattern.permute.xlu0 %v1_v1 }\n"
      "   0x3   :  { %31 = vperm.xlu0 %30, %v21_v2 }\n");
  EXPECT_EQ(listing.kernel.names[0].dest, 20u);
  EXPECT_EQ(listing.kernel.names[1].operands[0], 20u);
  EXPECT_EQ(listing.kernel.names[3].operands[0], 21u);
  EXPECT_EQ(listing.kernel.names[3].operands[1], 30u);
}

TEST(ListingReader, ForgetsNamesThatNothingDefines) {
  const Listing listing = read_one("%vm11592_vm1 = vmmov %vm11591_vm1");
  EXPECT_EQ(listing.kernel.names[0].dest, 11592u);
  EXPECT_EQ(listing.kernel.names[0].operands[0], 0u);
}

TEST(ListingReader, DropsWhatTheMachineDoesNotExecuteAndCountsDelays) {
  const Listing listing = read_bundles(
      "     0   :  { %1 = vnop  ;;  %2 = compiler-scheduling-barrier  ;;  %3 = vdelay 7 }\n"
      "   0x1   :  { %4 = dma (0), [#allocation3] }\n"
      "   0x2   :  { %s5_s1 = reloc 0 }\n");
  ASSERT_EQ(listing.kernel.bundles.size(), 3u);
  EXPECT_EQ(listing.kernel.bundles[0].instruction_count, 0u);
  EXPECT_EQ(listing.kernel.bundles[0].delay, 7u);
  EXPECT_EQ(listing.kernel.bundles[1].instruction_count, 0u);
  EXPECT_EQ(listing.kernel.instructions.at(0).opcode, Opcode::kSmov);
  EXPECT_EQ(listing.kernel.instructions.at(0).operands[0], Operand::immediate_(0));
}

TEST(ListingReader, TurnsPhisIntoRenamingsAndPointerCastsIntoSecondNames) {
  const Listing listing = read_bundles(
      "     0   :  { %s1_s4 = smov 0 }\n"
      "   0x1   :  { %s2_s4 = sphi %s1_s4, %s9_s4  ;;  %vm7_vm1 = vmphi %vm5_vm1, %vm6_vm1 }\n"
      "   0x2   :  { %s3_s5 = sld [smem:[#allocation4]]  ;;  %s4_s5 = int_to_ptr.hbm "
      "[resolvable:$false] %s3_s5 }\n"
      "   0x3   :  { %s8_s6 = int_to_ptr.hbm [resolvable:$false] %s4_s5 }\n");
  const auto& renamings = listing.kernel.renamings;
  ASSERT_EQ(renamings.size(), 2u);
  EXPECT_EQ(renamings[0].bundle, 1u);
  EXPECT_FALSE(renamings[0].after);
  EXPECT_EQ(renamings[0].file, 's');
  EXPECT_EQ(renamings[0].reg, 4);
  EXPECT_EQ(renamings[0].name, 2u);
  EXPECT_EQ(renamings[1].file, 'm');
  // Between two registers it is a move.
  const Instruction& move = listing.kernel.instructions.at(2);
  EXPECT_EQ(move.opcode, Opcode::kSmov);
  EXPECT_EQ(move.dest, 6);
  EXPECT_EQ(move.operands[0], Operand::register_(5));
  // A value has both names from the cast on; readers go by the first.
  EXPECT_EQ(listing.kernel.names.at(1).dest, 3u);
  EXPECT_EQ(listing.kernel.names.at(2).operands[0], 3u);
}

TEST(ListingReader, ReadsOperandsAndCalls) {
  const Listing listing = read_bundles(
      "     0   :  { %s5_s0 = inlined_call_operand.hbm [shape: f32[512,512], index: 0, kind: "
      "input, "
      "shape index: {}, may-alias: {0,11}] /* operand 0 */  ;;  %s6_s1 = "
      "inlined_call_operand.<no memory space> [shape: s32[], index: 1, kind: input, shape index: "
      "{}] } /* entry bundle: %fusion = fusion(%a.1) */\n"
      "   0x1   :  { %9 = inlined_call %s5_s0, %s6_s1 /* %fusion.3 = fusion(%a.1, %b) */ }\n"
      "   0x2   :  { %10 = inlined_call /* <late-finalization> */ } /* exit bundle: %fusion = "
      "fusion(%a.1) */\n");
  ASSERT_EQ(listing.operands.size(), 2u);
  EXPECT_EQ(listing.operands[0].shape, "f32[512,512]");
  EXPECT_EQ(listing.operands[0].reg, 0);
  EXPECT_EQ(listing.operands[1].index, 1);
  EXPECT_EQ(listing.operands[1].space, isa::ListingOperand::Space::kValue);
  ASSERT_EQ(listing.calls.size(), 2u);
  EXPECT_EQ(listing.calls[0].callee, "fusion.3");
  EXPECT_EQ(listing.calls[0].hlo_opcode, "fusion");
  EXPECT_EQ(listing.calls[0].operands, (std::vector<std::string>{"a.1", "b"}));
  EXPECT_EQ(listing.calls[0].operand_names[1], (std::pair<std::uint8_t, std::uint32_t>{1, 6}));
  EXPECT_EQ(listing.calls[1].callee, "<late-finalization>");
}

TEST(ListingReader, ResolvesBranchesByNotesAndChecksThemAgainstTheOtherFile) {
  const std::string bundles =
      "     0   :  { %1 = vnop }\n"
      "   0x1 LB: > > { %p2_p0 = scmp.eq.s32.totalorder %s1_s1, 0  ;;  %3 = vdelay 2 } /* Start "
      "region 5 :: Start/End empty region 6 */\n"
      "   0x2   :  { %4 = sbr.rel (!%p2_p0) target = $region5 }\n"
      "   0x3   :  { %5 = sbr.rel (%p2_p0) target = $region9 }\n"
      "   0x4 PF: { %6 = vnop } /* End region 0 */\n";
  const std::string packed =
      "$region0:\n // region range: [0, 6)\n $region5:\n // region range: [1, 6)\n $region9:\n // "
      "region range: [6, 6)\n";
  const Listing listing = read_bundles(bundles, packed);
  EXPECT_EQ(listing.kernel.instructions[1].operands[0], Operand::immediate_(1));
  EXPECT_EQ(listing.kernel.instructions[2].operands[0], Operand::immediate_(4));

  std::string moved = packed;
  moved.replace(moved.find("[1, 6)"), 6, "[2, 6)");
  EXPECT_EQ(error_of(bundles, moved),
            "kernel.txt:12:38: expected region 5 to begin in cycle 2 as in packed.txt, found cycle "
            "1");
  std::string longer = packed;
  longer.replace(longer.find("[0, 6)"), 6, "[0, 9)");
  EXPECT_EQ(
      error_of(bundles, longer),
      "kernel.txt:15:1: expected 9 cycles of bundles as in packed.txt, found 7: a part of one "
      "of the two files is missing");
}

TEST(ListingReader, StepsOverCommentsOfBoundsChecksThatDoNotClose) {
  const Listing listing = read_bundles(
      "     0   :  { %1 = shalt.err (%p1_p2) /* BoundsCheck 219 [deref of %s12] for %13 = "
      "dma.vmem_to_hbm [thread:$0]  /*vmem=*/%s124, /*hbm=*/%s7 /* \n"
      "base_bounds: (5, 2)\n"
      "hlo: fusion.72\n"
      " */  ;;  %s3_s1 = smov 4 }\n");
  ASSERT_EQ(listing.kernel.instructions.size(), 2u);
  EXPECT_EQ(listing.kernel.instructions[0].opcode, Opcode::kShaltErr);
  EXPECT_EQ(listing.kernel.instructions[0].guard.predicate, 2);
}

TEST(ListingReader, AMoveToItsOwnRegisterLeavesBothNames) {
  const Listing listing = read_bundles(
      "     0   :  { %v1_v2 = vlaneseq }\n"
      "   0x1   :  { %v2_v2 = vmov %v1_v2 }\n"
      "   0x2   :  { %v3_v2 = vmov %v2_v2  ;;  %v4_v3 = vmov %v1_v2 }\n"
      "   0x3   :  { %v5_v4 = vadd.s32 %v3_v2, %v4_v3 }\n");
  const auto& names = listing.kernel.names;
  EXPECT_EQ(names.at(1).dest, 1u);
  EXPECT_EQ(names.at(2).operands[0], 1u);
  EXPECT_EQ(names.at(3).dest, 4u);
  EXPECT_EQ(names.at(4).operands[0], 1u);
  EXPECT_EQ(names.at(4).operands[1], 4u);
}

TEST(ListingReader, LeavesOutWhichEightBitFloatSignAndMagnitudeMake) {
  for (const char* type : {"f8e4m3fn", "f8e5m2", "f8e4m3b11fnuz"}) {
    const Listing listing = read_one("%v3_v3 = vor.u32." + std::string(type) + " %v1_v1, %v2_v2");
    EXPECT_EQ(listing.kernel.instructions[0].opcode, Opcode::kVorU32) << type;
  }
  EXPECT_NE(error_of_one("%v3_v3 = vor.u32.f16 %v1_v1, %v2_v2"), "");
}

TEST(ListingReader, RefusesUnknownInstructionsWithTheNearestName) {
  EXPECT_EQ(error_of_one("%v1_v2 = vad.f32 %v1_v1, %v2_v2"),
            "kernel.txt:10:24: expected an instruction of libtpu 0.0.42.1, found \"vad.f32\" (the "
            "nearest known is \"vadd.f32\")");
}

TEST(ListingReader, NamesAllUnknownInstructionsAtOnce) {
  EXPECT_EQ(
      error_of("     0   :  { %v1_v2 = vad.f32 %v1_v1, %v2_v2 /* } ;; */  ;;  %s3_s1 = smov 4 }\n"
               "   0x1   :  { %p1_p2 = scmp.odd %s3_s1 ;; %v1_v2 = vad.f32 1.0, %v2_v2 }\n"),
      "kernel.txt:10:24: expected an instruction of libtpu 0.0.42.1, found \"vad.f32\" (the "
      "nearest known is \"vadd.f32\"); all that are unknown: \"vad.f32\" (2 times in 1 "
      "kernel), \"scmp.odd\" (1 time in 1 kernel, first in line 11)");
}

TEST(ListingReader, LeavesUnknownInstructionsOutWhereTheyAreCollected) {
  std::vector<isa::UnknownInstruction> unknown;
  const Listing listing = isa::read_listing(
      std::string(kListingHeader) +
          "     0   :  { %v1_v2 = vad.f32 %v1_v1, %v2_v2 /* } ;; */  ;;  %s3_s1 = smov 4 }\n",
      "kernel.txt", isa::PackedListing::read(kPackedText, "packed.txt"), {}, &unknown);
  ASSERT_EQ(listing.kernel.instructions.size(), 1u);
  EXPECT_EQ(listing.kernel.instructions[0].opcode, Opcode::kSmov);
  ASSERT_EQ(unknown.size(), 1u);
  EXPECT_EQ(unknown[0].text, "vad.f32");
}

TEST(ListingReader, SaysWhereAndWhatItExpected) {
  EXPECT_EQ(error_of_one("%v1_v2 = vadd.f32 %v1_v1"),
            "kernel.txt:10:40: expected \",\", found \"}\"");
  EXPECT_EQ(error_of_one("%v1_v2 = vadd.f32 %s1_s1, %v1_v1"),
            "kernel.txt:10:33: expected a vector register (%vN_vM), found \"%s1_s1, %v1_v1 }\"");
  EXPECT_EQ(error_of_one("%v1_v32 = vlaneseq"),
            "kernel.txt:10:19: expected a register below 32, found \"v32 = vlaneseq }\"");
  EXPECT_EQ(error_of_one("%s1_s2 = smov [#allocation77]"),
            "kernel.txt:10:30: expected an allocation that packed.txt lists, found #allocation77");
  EXPECT_EQ(error_of_one("%s1_s2 = sld [smem:[#allocation1]]"),
            "kernel.txt:10:35: expected an allocation in smem, found one in vmem");
  EXPECT_EQ(error_of_one("%s1_s2 = smov 4294967296"),
            "kernel.txt:10:29: expected a number of at most 4294967295, found \"4294967296 }\"");
  EXPECT_EQ(error_of_one("%v1_v2 = vld.sshfl [vmem:[%s1_s1] pattern:$0x54321076]"),
            "kernel.txt:10:58: expected a shuffle pattern of eight octal digits of at most "
            "16777215, found \"0x54321076] }\"");
  EXPECT_EQ(error_of_one("%s1_s2 = smov 99999999999999999999999"),
            "kernel.txt:10:29: expected a number of at most 4294967295, found "
            "\"99999999999999999999999 }\"");
  EXPECT_EQ(error_of_one("%v1_v2 = vld [vmem:[%s1_s1 + $0x11111111111111111]]"),
            "kernel.txt:10:45: expected an offset of at most 4294967295, found "
            "\"0x11111111111111111]] }\"");
  EXPECT_EQ(error_of_one("%v1_v2 = vld [vmem:[%s1_s1 + $0x]]"),
            "kernel.txt:10:45: expected an offset (0x...), found \"0x]] }\"");
  EXPECT_EQ(error_of_one("%s1_s2 = sadd.s32 %s1_s1, %s2_s2 %s3_s3"),
            "kernel.txt:10:48: expected \";;\" or \"}\" after an instruction, found \"%s3_s3 }\"");
}

TEST(ListingReader, RefusesFilesWithMissingParts) {
  EXPECT_EQ(error_of("     0   :  { %1 = vnop }\n   0x2   :  { %2 = vnop }\n"),
            "kernel.txt:11:4: expected bundle 1, found bundle 2: a part of the listing is missing");
  EXPECT_EQ(error_of("     0   :  { %1 = vnop ;; %s3_s1 = smov"),
            "kernel.txt:10:41: expected a scalar register (%sN_sM) or a number, found the end of "
            "the text");
  EXPECT_EQ(error_of("     0   :  { %1 = vnop /* region"),
            "kernel.txt:10:25: expected \"*/\", found the end of the text: a comment does not end");
  EXPECT_EQ(error_of(""),
            "kernel.txt:10:1: expected a bundle (\"0 : { ... }\"), found the end of "
            "the text");
}

TEST(ListingReader, RefusesAMegabyteOfBracesWithOneLine) {
  const std::string soup(1 << 20, '{');
  try {
    isa::read_listing(soup, "soup.txt", isa::PackedListing::read(kPackedText, "packed.txt"), {});
    FAIL();
  } catch (const WorkloadError& error) {
    const std::string text = error.what();
    EXPECT_EQ(text.substr(0, 60), "soup.txt:1:1: expected \"= control target key start\", the fir");
    EXPECT_EQ(text.find('\n'), std::string::npos);
  }
  EXPECT_EQ(error_of(soup).substr(0, 44), "kernel.txt:10:1: expected the number of a bu");
  EXPECT_EQ(error_of("     0   :  " + soup).substr(0, 43),
            "kernel.txt:10:14: expected a name (%...), f");
}

TEST(PackedListing, RefusesAllocationsThatContradictEachOther) {
  const std::string twice =
      std::string(kPackedText) + "  #allocation1 [shape = 'u32[]', space=smem, size = 0x4]\n";
  try {
    isa::PackedListing::read(twice, "packed.txt");
    FAIL();
  } catch (const WorkloadError& error) {
    EXPECT_STREQ(error.what(),
                 "packed.txt:8:3: expected one allocation of this number, found a second "
                 "#allocation1");
  }
}

TEST(PackedListing, RefusesOtherText) {
  try {
    isa::PackedListing::read("#allocation1 [shape = 'u32[]', space=flash, size = 0x4]\n", "p.txt");
    FAIL();
  } catch (const WorkloadError& error) {
    EXPECT_STREQ(
        error.what(),
        "p.txt:1:38: expected a memory space (hbm, cmem, vmem, smem, sflag), found \"flash, size "
        "= 0x4]\"");
  }
}

}  // namespace
}  // namespace tpu::test::listing_reader_test
