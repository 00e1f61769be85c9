#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/compiler/gather_text.h"
#include "tests/compiler/hlo_check.h"
#include "workloads/compiler/ir/kernel_forms.h"
#include "workloads/compiler/passes/expand/indexed_access.h"
#include "workloads/hlo/hlo_reader.h"

namespace tpu::test::block_gather_test {
namespace {

/// Whether the gather is left as one of blocks, and nothing but numbers is computed beside it.
bool is_of_blocks(const std::string& text) {
  hlo::Module module = hlo::read_hlo_text("test.hlo", text);
  compiler::Refusals refusals;
  compiler::rewrite_indexed_access(module, compiler::Target(), refusals);
  const std::vector<hlo::HloInstruction>& all = module.entry_computation().instructions;
  return std::any_of(all.begin(), all.end(), [](const hlo::HloInstruction& each) {
    return each.opcode == hlo::HloOpcode::kGather && each.shape.rank() > 2;
  });
}

void check_blocks(const std::string& text, const HloCheck& check) {
  EXPECT_TRUE(is_of_blocks(text)) << text;
  check_hlo(text, check);
}

/// Of caches [layers, examples, beams, ...] each example's beams.
TEST(BlockGather, BlocksOfABatchBehindAnotherDimension) {
  const std::string attributes =
      "offset_dims={0,3,4}, collapsed_slice_dims={2}, operand_batching_dims={1}, "
      "start_indices_batching_dims={0}, start_index_map={2}, index_vector_dim=2, "
      "slice_sizes={3,1,1,12,128}";
  check_blocks(gather("f32[3,4,5,12,128]", "s32[4,7,1]", "f32[3,4,7,12,128]", attributes),
               indices(-2, 6));
  check_blocks(gather("bf16[3,4,5,12,128]", "s32[4,7,1]", "bf16[3,4,7,12,128]", attributes),
               indices(-2, 6));
}

/// Places along two dimensions, in the other order, of which one stays with extent 1.
TEST(BlockGather, BlocksAtPairsOfNumbers) {
  check_blocks(gather("f32[5,6,16,128]", "s32[9,2]", "f32[9,1,16,128]",
                      "offset_dims={1,2,3}, collapsed_slice_dims={0}, start_index_map={1,0}, "
                      "index_vector_dim=1, slice_sizes={1,1,16,128}"),
               indices(-1, 7));
}

/// More numbers than SMEM holds at a time, in groups of which the last one is smaller.
TEST(BlockGather, ManyBlocks) {
  check_blocks(gather("f32[3000,8,128]", "s32[2061]", "f32[2061,8,128]",
                      "offset_dims={1,2}, collapsed_slice_dims={0}, start_index_map={0}, "
                      "index_vector_dim=1, slice_sizes={1,8,128}"),
               indices(-3, 3010));
}

/// A block of which a buffer holds a part.
TEST(BlockGather, LargeBlocks) {
  check_blocks(gather("f32[3,3,400,400]", "s32[4]", "f32[4,3,400,400]",
                      "offset_dims={1,2,3}, collapsed_slice_dims={0}, start_index_map={0}, "
                      "index_vector_dim=1, slice_sizes={1,3,400,400}"),
               indices(-1, 3));
}

/// Blocks of the dimensions around the one with places, in a result that has the places in front,
/// between or behind them.
TEST(BlockGather, BlocksOfAnyDimensions) {
  const std::string attributes =
      "collapsed_slice_dims={1}, start_index_map={1}, index_vector_dim=1, slice_sizes={16,1,300}";
  check_blocks(
      gather("f32[16,40,300]", "s32[9]", "f32[9,16,300]", "offset_dims={1,2}, " + attributes),
      indices(-3, 43));
  check_blocks(
      gather("f32[16,40,300]", "s32[9]", "f32[16,9,300]", "offset_dims={0,2}, " + attributes),
      indices(-3, 43));
  check_blocks(gather("f32[64,16,128]", "s32[50]", "f32[16,128,50]",
                      "offset_dims={0,1}, collapsed_slice_dims={0}, start_index_map={0}, "
                      "index_vector_dim=1, slice_sizes={1,16,128}"),
               indices(-3, 66));
  check_blocks(gather("f32[6,24,7,200]", "s32[5,2]", "f32[24,5,200]",
                      "offset_dims={0,2}, collapsed_slice_dims={0,2}, start_index_map={2,0}, "
                      "index_vector_dim=1, slice_sizes={1,24,1,200}"),
               indices(-1, 8));
}

/// Blocks lie in the order that has the least padding, and so does what is gathered.
TEST(BlockGather, BlocksLieDensely) {
  const auto cycles = [](const std::string& block) {
    return check_hlo(gather("f32[32," + block, "s32[32]", "f32[32," + block,
                            "offset_dims={1,2,3}, collapsed_slice_dims={0}, start_index_map={0}, "
                            "index_vector_dim=1, slice_sizes={1," +
                                block.substr(0, block.size() - 1) + "}"),
                     indices(-3, 33))
        .result.cycles;
  };
  const std::uint64_t dense = cycles("12,64,128]");
  EXPECT_EQ(cycles("12,128,64]"), dense);
}

/// Images of a convolution have their pixels outside of the batch, images that are gathered have
/// not: there is a copy between them.
TEST(BlockGather, ImagesOfAConvolutionAreGathered) {
  for (const char* features : {"128", "8"}) {
    const std::string f = features;
    const std::string text =
        "HloModule g\nENTRY main {\n  x = f32[70,6,6," + f + "] parameter(0)\n  i = s32[16] " +
        "parameter(1)\n  w = f32[3,3," + f + ",24] parameter(2)\n  y = f32[16,6,6," + f +
        "] gather(x, i), offset_dims={1,2,3}, collapsed_slice_dims={0}, start_index_map={0}, "
        "index_vector_dim=1, slice_sizes={1,6,6," +
        f +
        "}\n  ROOT r = f32[16,6,6,24] convolution(y, w), window={size=3x3 pad=1_1x1_1}, "
        "dim_labels=b01f_01io->b01f\n}\n";
    HloCheck check = indices(-3, 72);
    check.tolerance = 5e-3;
    check_hlo(text, check);
  }
}

/// Blocks that are mostly padding are rows of elements.
TEST(BlockGather, OtherWindowsAreNoBlocks) {
  const std::string narrow =
      gather("f32[64,16,3]", "s32[50]", "f32[50,16,3]",
             "offset_dims={1,2}, collapsed_slice_dims={0}, "
             "start_index_map={0}, index_vector_dim=1, slice_sizes={1,16,3}");
  EXPECT_FALSE(is_of_blocks(narrow));
  check_hlo(narrow, indices(-3, 66));
}

TEST(BlockGather, TakesAsLongAsItsEstimate) {
  const compiler::Target target;
  for (std::int64_t rows : {16, 512}) {
    const std::string extents = std::to_string(rows) + ",128]";
    const auto cycles = [&](std::int64_t count) {
      const std::string picks = std::to_string(count);
      return static_cast<double>(
          check_hlo(
              gather("f32[20," + extents, "s32[" + picks + "]", "f32[" + picks + "," + extents,
                     "offset_dims={1,2}, collapsed_slice_dims={0}, start_index_map={0}, "
                     "index_vector_dim=1, slice_sizes={1," +
                         std::to_string(rows) + ",128}"),
              indices(0, 19))
              .result.cycles);
    };
    const auto estimate = [&](std::int64_t count) {
      return compiler::gathered_blocks_cycles({rows, 128}, hlo::ElementType::kF32, count, target);
    };
    EXPECT_NEAR((cycles(600) - cycles(200)) / (estimate(600) - estimate(200)), 1, 0.25) << rows;
  }
}

}  // namespace
}  // namespace tpu::test::block_gather_test
