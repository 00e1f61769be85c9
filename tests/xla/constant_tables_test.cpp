#include "workloads/xla/constant_tables.h"

#include <gtest/gtest.h>

#include <cstring>

#include "sim/base/error.h"
#include "tests/xla/listing_text.h"
#include "workloads/hlo/hlo_reader.h"

namespace tpu::test::constant_tables_test {
namespace {

/// Two constants of one shape: the first goes into the body of a loop, the second stays outside.
const char kModule[] =
    "HloModule m\n"
    "%body (p: (s32[], f32[2])) -> (s32[], f32[2]) {\n"
    "  %p = (s32[], f32[2]{0:T(256)}) parameter(0)\n"
    "  %count = s32[] get-tuple-element(%p), index=0\n"
    "  %row = f32[2]{0:T(256)} get-tuple-element(%p), index=1\n"
    "  ROOT %again = (s32[], f32[2]{0:T(256)}) tuple(%count, %row)\n"
    "}\n"
    "%condition (q: (s32[], f32[2])) -> pred[] {\n"
    "  %q = (s32[], f32[2]{0:T(256)}) parameter(0)\n"
    "  ROOT %no = pred[] constant(false)\n"
    "}\n"
    "ENTRY %main (start: s32[]) -> f32[2] {\n"
    "  %start = s32[] parameter(0)\n"
    "  %first = f32[2]{0:T(256)} constant({1, 2})\n"
    "  %second = f32[2]{0:T(256)} constant({3, 4})\n"
    "  %state = (s32[], f32[2]{0:T(256)}) tuple(%start, %first)\n"
    "  %loop = (s32[], f32[2]{0:T(256)}) while(%state), condition=%condition, body=%body\n"
    "  %after = f32[2]{0:T(256)} get-tuple-element(%loop), index=1\n"
    "  ROOT %sum = f32[2]{0:T(256)} add(%after, %second)\n"
    "}\n";

const char kAllocations[] =
    "$region0: #{TLP}\n"
    "  #allocation1 [shape = 'f32[2]{0:T(256)}', space=hbm, size = 0x400, tag = 'constant "
    "literal']\n";

/// The first word of the constant that a call with this operand takes.
float first_word(const std::string& operand) {
  const isa::PackedListing packed = isa::PackedListing::read(kAllocations, "packed.txt");
  const isa::Listing listing = isa::read_listing(
      std::string(kListingHeader) + "     0   :  { %s1_s0 = smov [#allocation1] }\n" +
          "   0x1   :  { %2 = inlined_call %s1_s0 /* %copy = copy(%" + operand + ") */ }\n",
      "kernel.txt", packed, {});
  const auto constants = xla::find_constants(listing, packed, xla::address_uses(listing, packed),
                                             hlo::read_hlo_text("m.txt", kModule));
  float value = 0;
  std::memcpy(&value, &constants.at(0).words.at(0), sizeof value);
  return value;
}

TEST(ConstantTables, TheOperandOfACallTellsConstantsOfOneShapeApart) {
  EXPECT_EQ(first_word("first"), 1);
  EXPECT_EQ(first_word("second"), 3);
}

TEST(ConstantTables, FollowsAConstantIntoTheBodyOfALoopAndOutOfIt) {
  EXPECT_EQ(first_word("row"), 1);
  EXPECT_EQ(first_word("after"), 1);
}

TEST(ConstantTables, RefusesToGuess) {
  EXPECT_THROW(first_word("start"), WorkloadError);
  EXPECT_THROW(first_word("count"), WorkloadError);
}

}  // namespace
}  // namespace tpu::test::constant_tables_test
