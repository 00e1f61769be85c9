#include "isa/opcode_table.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace tpu::isa::opcode_table_test {
namespace {

Opcode opcode_at(std::size_t index) { return static_cast<Opcode>(index); }

TEST(OpcodeTable, TextOfEveryOpcodeFindsItAndItsUnitAgain) {
  std::set<std::string> seen;
  for (std::size_t i = 0; i < kOpcodeCount; ++i) {
    const OpcodeInfo& row = info(opcode_at(i));
    for (int unit = 0; unit < (row.has_unit ? kMaxUnits : 1); ++unit) {
      const std::string text = opcode_text(opcode_at(i), static_cast<std::uint8_t>(unit));
      EXPECT_TRUE(seen.insert(text).second) << text;
      const auto found = find_opcode(text);
      ASSERT_TRUE(found) << text;
      EXPECT_EQ(found->opcode, opcode_at(i));
      EXPECT_EQ(found->unit, unit);
    }
  }
}

TEST(OpcodeTable, UnknownMnemonicsAreNotFoundAndTheNearestIsNamed) {
  EXPECT_FALSE(find_opcode("vmatpush.msra.mxu9"));
  EXPECT_FALSE(find_opcode("vmatpush.msra.mxu{u}"));
  EXPECT_FALSE(find_opcode(""));
  // Begin and end of a mnemonic, with something else between.
  EXPECT_TRUE(find_opcode("vmatmul.f32.dwg.msra.gmra.mxu0"));
  EXPECT_FALSE(find_opcode("vmatmul.f32.dwg.nsra.gmra.mxu0"));
  EXPECT_FALSE(find_opcode("vmatmul.gmra.mxu0"));
  EXPECT_EQ(nearest_opcode_text("sad.s32"), "sadd.s32");
  EXPECT_EQ(nearest_opcode_text("vmatpush.msar.mxu1"), "vmatpush.msra.mxu1");
  EXPECT_EQ(nearest_opcode_text("vmatpush.msar.mxu3"), "vmatpush.msra.mxu3");
}

TEST(OpcodeTable, SignatureGivesFilesAndOperandCounts) {
  const OpcodeInfo& select = info(Opcode::kVsel);
  EXPECT_EQ(select.dest_file, 'v');
  EXPECT_EQ(select.operand_count, 3);
  EXPECT_EQ(select.operand_files, (std::array<char, 4>{'m', 'v', 'v', 0}));
  const OpcodeInfo& store = info(Opcode::kVstMsk);
  EXPECT_EQ(store.dest_file, 0);
  EXPECT_EQ(store.operand_count, 2);
  EXPECT_EQ(store.address, 'A');
  EXPECT_FALSE(store.loads);
  EXPECT_TRUE(info(Opcode::kSld).loads);
  EXPECT_EQ(info(Opcode::kDmaHbmToVmem).operand_count, 4);
}

TEST(OpcodeTable, EveryPushHasAPopOfItsQueueAndEveryPopAPush) {
  std::set<Queue> pushed;
  std::set<Queue> popped;
  for (std::size_t i = 0; i < kOpcodeCount; ++i) {
    const OpcodeInfo& row = info(opcode_at(i));
    if (row.queue == Queue::kNone) continue;
    (row.pops ? popped : pushed).insert(row.queue);
  }
  EXPECT_EQ(pushed, popped);
  EXPECT_EQ(pushed.size(), static_cast<std::size_t>(Queue::kCount) - 1);
}

TEST(OpcodeTable, ResultLatenciesAreTheParametersOfTheUnits) {
  Latencies machine;
  machine.matmul_cycles = 77;
  machine.eup_cycles = 9;
  EXPECT_EQ(result_latency(Opcode::kVmatmul, Latencies::v3()), 105u);
  EXPECT_EQ(result_latency(Opcode::kVmatmul, machine), 77u);
  EXPECT_EQ(result_latency(Opcode::kVtanhF32, machine), 9u);
  EXPECT_EQ(result_latency(Opcode::kVaddXlane, machine), 92u);
  EXPECT_EQ(result_latency(Opcode::kSld, machine), 2u);
  EXPECT_EQ(result_latency(Opcode::kVst, machine), 0u);
}

TEST(OpcodeTable, MxuAndXluTakeAPushEveryEightCycles) {
  EXPECT_EQ(issue_interval(Opcode::kVmatpush), 8u);
  EXPECT_EQ(issue_interval(Opcode::kVmatmulDwg), 8u);
  EXPECT_EQ(issue_interval(Opcode::kVpopMrf), 8u);
  EXPECT_EQ(issue_interval(Opcode::kVxposeCont), 8u);
  EXPECT_EQ(issue_interval(Opcode::kVpopTrf), 8u);
  EXPECT_EQ(issue_interval(Opcode::kVtanhF32), 1u);
}

/// They move no rows: what is loaded takes its place, a pattern is set.
TEST(OpcodeTable, ASwapOfWeightsAndAPatternKeepNothingBusy) {
  EXPECT_EQ(issue_interval(Opcode::kVdwg), 1u);
  EXPECT_EQ(issue_interval(Opcode::kVsetPatternPermute), 1u);
}

TEST(OpcodeTable, V2HasOneMxuAndNoFusedSwap) {
  EXPECT_TRUE(generation_has("v3", Opcode::kVmatmul, 1));
  EXPECT_FALSE(generation_has("v2", Opcode::kVmatmul, 1));
  EXPECT_FALSE(generation_has("v2", Opcode::kVmatmulDwg, 0));
  EXPECT_FALSE(generation_has("v2", Opcode::kSmulU32));
  EXPECT_FALSE(generation_has("v3", Opcode::kSmulU24));
}

TEST(OpcodeTable, OnlyV3SwapsWeightsInThePushOfAMatmul) {
  for (const Opcode opcode : {Opcode::kVmatmulDwg, Opcode::kVmatmulHiDwg, Opcode::kVmatmulLowDwg}) {
    EXPECT_FALSE(generation_has("v2", opcode, 0));
    EXPECT_TRUE(generation_has("v3", opcode, 0));
  }
  for (const char* chip : {"v2", "v3"}) EXPECT_TRUE(generation_has(chip, Opcode::kVdwg, 0));
}

}  // namespace
}  // namespace tpu::isa::opcode_table_test
