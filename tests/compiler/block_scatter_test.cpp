#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/compiler/gather_text.h"
#include "tests/compiler/hlo_check.h"
#include "workloads/compiler/ir/array_part.h"
#include "workloads/compiler/ir/kernel_forms.h"
#include "workloads/compiler/passes/expand/indexed_access.h"
#include "workloads/hlo/hlo_reader.h"

namespace tpu::test::block_scatter_test {
namespace {

/// Blocks that updates meet along a dimension of an array; without an operation they replace what
/// stands there.
struct BlockScatter {
  std::string array, picks, updates;  ///< Extents.
  std::string attributes =
      "update_window_dims={1,2}, inserted_window_dims={0}, "
      "scatter_dims_to_operand_dims={0}, index_vector_dim=1";
  std::string type = "f32", operation = "add";
  bool is_uniform = false;  ///< The array has one value everywhere.

  std::string text() const {
    const std::string whole = type + "[" + array + "]";
    const std::string combined = operation.empty()
                                     ? "  ROOT b = " + type + "[] parameter(1)\n"
                                     : "  b = " + type + "[] parameter(1)\n  ROOT c = " + type +
                                           "[] " + operation + "(a, b)\n";
    const std::string table = is_uniform ? "  z = " + type + "[] constant(3)\n  x = " + whole +
                                               " broadcast(z), dimensions={}\n"
                                         : "  x = " + whole + " parameter(2)\n";
    return "HloModule s\ncombine {\n  a = " + type + "[] parameter(0)\n" + combined +
           "}\nENTRY main {\n  i = s32[" + picks + "] parameter(0)\n  u = " + type + "[" + updates +
           "] parameter(1)\n" + table + "  ROOT r = " + whole + " scatter(x, i, u), " + attributes +
           ", to_apply=combine\n}\n";
  }
};

bool is_of_blocks(const std::string& text) {
  hlo::Module module = hlo::read_hlo_text("test.hlo", text);
  compiler::Refusals refusals;
  compiler::rewrite_indexed_access(module, compiler::Target(), refusals);
  const std::vector<hlo::HloInstruction>& all = module.entry_computation().instructions;
  return std::any_of(all.begin(), all.end(), [](const hlo::HloInstruction& each) {
    return each.opcode == hlo::HloOpcode::kScatter && each.shape.rank() > 2 &&
           each.gather->collapsed_slice_dims == std::vector<std::int64_t>{0} &&
           each.name.find(".rows.") != std::string::npos;
  });
}

CompiledRun check_blocks(const BlockScatter& scatter, const HloCheck& check) {
  EXPECT_TRUE(is_of_blocks(scatter.text())) << scatter.text();
  return check_hlo(scatter.text(), check);
}

/// Few blocks and many updates: several of a group meet the same one, in their order; others meet
/// none.
TEST(BlockScatter, UpdatesMeetInTheirOrder) {
  for (const char* operation : {"add", "", "multiply", "maximum"}) {
    BlockScatter scatter{"300,40,200", "61", "61,40,200"};
    scatter.operation = operation;
    HloCheck check = indices(-2, 9);
    check.low = -1.1, check.high = 1.1;
    check_blocks(scatter, check);
  }
  BlockScatter words{"300,40,200", "50", "50,40,200"};
  words.type = "s32";
  check_blocks(words, indices(-2, 9));
}

/// Groups that are not full, and more numbers than SMEM holds at a time.
TEST(BlockScatter, AnyNumberOfUpdates) {
  for (const char* picks : {"7", "15", "16", "17", "2061"}) {
    check_blocks({"600,40,200", picks, std::string(picks) + ",40,200"}, indices(-2, 602));
  }
}

/// What has one value everywhere is written, not read.
TEST(BlockScatter, IntoOneValue) {
  for (const char* blocks : {"24", "60", "300", "1030"}) {
    BlockScatter scatter{std::string(blocks) + ",40,200", "30", "30,40,200"};
    scatter.is_uniform = true;
    check_blocks(scatter, indices(-2, 62));
  }
}

/// A block of which VMEM holds a part.
TEST(BlockScatter, LargeBlocks) {
  BlockScatter scatter{"5,3,400,400", "6", "6,3,400,400"};
  scatter.type = "s32";
  scatter.attributes =
      "update_window_dims={1,2,3}, inserted_window_dims={0}, "
      "scatter_dims_to_operand_dims={0}, index_vector_dim=1";
  check_blocks(scatter, indices(-1, 3));
}

/// Places along a dimension between those of a block, along two, and blocks of several places.
TEST(BlockScatter, BlocksOfAnyDimensions) {
  BlockScatter between{"16,100,300", "30", "16,30,300"};
  between.attributes =
      "update_window_dims={0,2}, inserted_window_dims={1}, "
      "scatter_dims_to_operand_dims={1}, index_vector_dim=1";
  check_blocks(between, indices(-3, 103));
  BlockScatter pairs{"6,24,7,200", "40,2", "40,24,200"};
  pairs.attributes =
      "update_window_dims={1,2}, inserted_window_dims={0,2}, "
      "scatter_dims_to_operand_dims={2,0}, index_vector_dim=1";
  check_blocks(pairs, indices(-1, 8));
}

/// A step that keeps its table changes only what the updates are for: the table is not moved.
TEST(BlockScatter, ATableThatIsGivenAwayStays) {
  const auto cycles = [](const char* blocks) {
    BlockScatter scatter{std::string(blocks) + ",40,200", "30", "30,40,200"};
    std::string text = scatter.text();
    text.replace(0, 11, "HloModule s, input_output_alias={ {}: (2, {}, must-alias) }");
    return check_hlo(text, indices(0, 99)).result.cycles;
  };
  EXPECT_EQ(cycles("100"), cycles("1000"));
}

TEST(BlockScatter, TakesAsLongAsItsEstimate) {
  const compiler::Target target;
  for (std::int64_t rows : {16, 160}) {
    const std::string extents = "," + std::to_string(rows) + ",128";
    const auto cycles = [&](std::int64_t count) {
      const std::string picks = std::to_string(count);
      return static_cast<double>(
          check_hlo(BlockScatter{"20" + extents, picks, picks + extents}.text(), indices(0, 19))
              .result.cycles);
    };
    const auto estimate = [&](std::int64_t count) {
      return compiler::scattered_blocks_cycles({rows, 128}, count, target);
    };
    EXPECT_NEAR((cycles(300) - cycles(100)) / (estimate(300) - estimate(100)), 1, 0.1) << rows;
  }
}

/// A table of one block may lie as one of many does, where which block it is stands outside of the
/// tiles: its updates lie like it.
TEST(BlockScatter, ATableOfOneBlockLiesAsOneOfManyDoes) {
  const hlo::Module module = hlo::read_hlo_text("test.hlo", R"(HloModule one
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
ENTRY main {
  t = f32[1,7,200,2] parameter(0)
  i = s32[100] parameter(1)
  u = f32[100,7,200,2] parameter(2)
  ROOT s = f32[1,7,200,2] scatter(t, i, u), update_window_dims={1,2,3}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add
})");
  const hlo::Computation& entry = module.entry_computation();
  const auto lies = [&](const compiler::DimensionOrder& order) {
    return compiler::lies_for_parts(entry, entry.at(entry.root), order);
  };
  EXPECT_TRUE(lies({0, 1, 2, 3}));
  EXPECT_FALSE(lies({1, 0, 2, 3}));  // Blocks would be several ranges.
  EXPECT_FALSE(lies({1, 3, 0, 2}));  // Or rows of tiles.
}

}  // namespace
}  // namespace tpu::test::block_scatter_test
