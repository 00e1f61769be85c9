#include "workloads/xla/address_uses.h"

#include <gtest/gtest.h>

#include "tests/xla/listing_text.h"

namespace tpu::test::address_uses_test {
namespace {

const char kTopLevel[] =
    "$region0: #{TLP}\n"
    "  #allocation1 [shape = 'u32[256]{0}', space=smem, size = 0x400, offset = 0x104, scoped, tag "
    "= "
    "'tuple transfer buffer']\n"
    "  #allocation2_spill [shape = 'u32[1]{0}', space=smem, size = 0x4, offset = 0x108, scoped, "
    "tag "
    "= 'spilled sreg/preg']\n"
    "  #allocation3 [shape = 'f32[8,128]{1,0:T(8,128)}', space=hbm, size = 0x1000, offset = 0, tag "
    "= 'output of fusion.1@{}']\n"
    "  #allocation4 [shape = 'u32[]', space=smem, size = 0x4, offset = 0x3f90, fixed_abs, tag = "
    "'smem constant byte address 0x3f90 - output ptr']\n";

xla::AddressUses uses_in(const std::string& bundles, const std::string& packed = kTopLevel) {
  const isa::PackedListing allocations = isa::PackedListing::read(packed, "packed.txt");
  return xla::address_uses(
      isa::read_listing(kListingHeader + bundles, "kernel.txt", allocations, {}), allocations);
}

TEST(AddressUses, FollowsOutputsOutOfTheTableUnderBothNames) {
  const xla::AddressUses uses = uses_in(
      "     0   :  { %s1_s0 = sld [smem:[#allocation1]]  ;;  %s2_s0 = int_to_ptr.hbm "
      "[resolvable:$false] %s1_s0 }\n"
      "   0x1   :  { %s3_s1 = sld [smem:[#allocation1 + $0x2]] }\n"
      "   0x2   :  { %4 = inlined_call %s2_s0, %s3_s1 /* %custom-call.7 = custom-call() */ }\n"
      "   0x3   :  { %5 = inlined_call %s1_s0 /* %fusion = fusion() */ }\n");
  ASSERT_EQ(uses.of_output.size(), 2u);
  ASSERT_EQ(uses.of_output.at(0).size(), 2u);
  EXPECT_EQ(uses.of_output.at(0)[1].call, 1u);
  EXPECT_EQ(uses.of_output.at(2).at(0).operand, 1u);
}

TEST(AddressUses, ReadsASpillThatLiesInTheTable) {
  const xla::AddressUses uses = uses_in(
      "     0   :  { %s1_s0 = smov [#allocation3] }\n"
      "   0x1   :  { %2 = sst [smem:[#allocation2_spill]] %s1_s0 }\n"
      "   0x2   :  { %s3_s0 = sld [smem:[#allocation2_spill]] }\n"
      "   0x3   :  { %4 = inlined_call %s3_s0 /* %fusion = fusion() */ }\n"
      "   0x4   :  { %s5_s2 = smov 3 }\n"
      "   0x5   :  { %6 = sst [smem:[#allocation2_spill]] %s5_s2 }\n"
      "   0x6   :  { %s7_s0 = sld [smem:[#allocation1 + $0x3]] }\n"
      "   0x7   :  { %8 = inlined_call %s7_s0 /* %copy = copy() */ }\n");
  ASSERT_EQ(uses.of_allocation.size(), 1u);
  EXPECT_EQ(uses.of_allocation.at(3).at(0).call, 0u);
  ASSERT_EQ(uses.of_output.size(), 1u);
  EXPECT_EQ(uses.of_output.at(3).at(0).call, 1u);
}

TEST(AddressUses, FindsASingleOutputAtTheOutputPointer) {
  const std::string without_table =
      std::string("$region0: #{TLP}\n") +
      std::string(kTopLevel).substr(std::string(kTopLevel).find("  #allocation3"));
  const char* text =
      "     0   :  { %s1_s0 = sld [smem:[#allocation4]] }\n"
      "   0x1   :  { %2 = inlined_call %s1_s0 /* %custom-call = custom-call() */ }\n";
  EXPECT_EQ(uses_in(text, without_table).of_output.count(0), 1u);
  EXPECT_EQ(uses_in(text).of_output.count(0), 0u);  // The address of the table.
}

}  // namespace
}  // namespace tpu::test::address_uses_test
