#include "workloads/compiler/passes/regular_gathers.h"

#include <gtest/gtest.h>

#include "tests/compiler/hlo_check.h"
#include "workloads/hlo/hlo_reader.h"

namespace tpu::test::regular_gathers_test {
namespace {

/// Checks values in the interpreter and on the machine; the gathers and scatters that are left.
std::size_t left_of(const std::string& text) {
  const hlo::Module before = hlo::read_hlo_text("test.hlo", text);
  hlo::verify(before);
  hlo::Module after = before;
  compiler::rewrite_regular_gathers(after);
  hlo::verify(after);
  std::mt19937 engine(5);
  std::vector<reference::Value> arguments;
  for (hlo::InstructionId id : before.entry_computation().parameters()) {
    arguments.push_back(random_value(before.entry_computation().at(id).shape, engine, {}));
  }
  const reference::Value wanted = reference::Interpreter(before).run(arguments);
  const reference::Value found = reference::Interpreter(after).run(arguments);
  EXPECT_LE(distance(numbers_of(found), numbers_of(wanted)), 1e-6) << text;
  check_hlo(text);
  const std::vector<hlo::HloInstruction>& all = after.entry_computation().instructions;
  return static_cast<std::size_t>(std::count_if(all.begin(), all.end(), [](const auto& i) {
    return i.opcode == hlo::HloOpcode::kGather || i.opcode == hlo::HloOpcode::kScatter;
  }));
}

TEST(RegularGathers, NearestNeighboursOfAnImageAreRepetitions) {
  EXPECT_EQ(left_of(R"(HloModule m
ENTRY main {
  x = f32[2,4,6,10] parameter(0)
  i = f32[12] iota(), iota_dimension=0
  half = f32[] constant(0.5)
  halves = f32[12] broadcast(half), dimensions={}
  middle = f32[12] add(i, halves)
  c = f32[] constant(6)
  cs = f32[12] broadcast(c), dimensions={}
  d = f32[] constant(12)
  ds = f32[12] broadcast(d), dimensions={}
  scaled = f32[12] multiply(middle, cs)
  place = f32[12] divide(scaled, ds)
  lower = f32[12] floor(place)
  number = s32[12] convert(lower)
  indices = s32[12,1] reshape(number)
  ROOT y = f32[2,4,12,10] gather(x, indices), offset_dims={0,1,3}, collapsed_slice_dims={2}, start_index_map={2}, index_vector_dim=1, slice_sizes={2,4,1,10}
}
)"),
            0U);
}

TEST(RegularGathers, TheirGradientAddsWhatWasRepeated) {
  EXPECT_EQ(left_of(R"(HloModule m
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
ENTRY main {
  x = f32[2,4,10] parameter(0)
  g = f32[2,8,10] parameter(1)
  indices = s32[8,1] constant({{0},{0},{1},{1},{2},{2},{3},{3}})
  ROOT y = f32[2,4,10] scatter(x, indices, g), update_window_dims={0,2}, inserted_window_dims={1}, scatter_dims_to_operand_dims={1}, index_vector_dim=1, to_apply=add
}
)"),
            0U);
}

TEST(RegularGathers, AReflectedBorderIsMadeOfPieces) {
  EXPECT_EQ(left_of(R"(HloModule m
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
ENTRY main {
  x = f32[5,20] parameter(0)
  g = f32[9,20] parameter(1)
  indices = s32[9] constant({2,1,0,1,2,3,4,3,2})
  y = f32[9,20] gather(x, indices), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,20}
  z = f32[5,20] scatter(x, indices, g), update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add
  ROOT r = (f32[9,20], f32[5,20]) tuple(y, z)
}
)"),
            0U);
}

TEST(RegularGathers, EveryThirdRowComesToTheFront) {
  EXPECT_EQ(left_of(R"(HloModule m
ENTRY main {
  x = f32[7,10,16] parameter(0)
  indices = s32[3] constant({9,6,3})
  ROOT y = f32[3,7,16] gather(x, indices), offset_dims={1,2}, collapsed_slice_dims={1}, start_index_map={1}, index_vector_dim=1, slice_sizes={7,1,16}
}
)"),
            0U);
}

TEST(RegularGathers, IndicesOutsideAndIndicesThatDataDecideStay) {
  EXPECT_EQ(left_of(R"(HloModule m
ENTRY main {
  x = f32[8,128] parameter(0)
  data = s32[4] parameter(1)
  outside = s32[4] constant({0,1,2,8})
  y = f32[4,128] gather(x, outside), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,128}
  z = f32[4,128] gather(x, data), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,128}
  ROOT r = (f32[4,128], f32[4,128]) tuple(y, z)
}
)"),
            2U);
}

}  // namespace
}  // namespace tpu::test::regular_gathers_test
