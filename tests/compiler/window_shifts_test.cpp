#include "workloads/compiler/passes/expand/window_shifts.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/compiler/hlo_check.h"
#include "workloads/compiler/target.h"

namespace tpu::test::window_shifts_test {
namespace {

struct Windows {
  std::string array, indices, result, attributes;
};

/// Compiled, with places before the array's begin and behind its end; cycles of the step.
std::uint64_t cycles_of(const Windows& windows, double most) {
  HloCheck check;
  check.least = -3;
  check.most = most;
  const CompiledRun run = check_hlo("HloModule g\nENTRY main {\n  x = " + windows.array +
                                        " parameter(0)\n  i = " + windows.indices +
                                        " parameter(1)\n  ROOT r = " + windows.result +
                                        " gather(x, i), " + windows.attributes + "\n}\n",
                                    check);
  return run.result.cycles;
}

/// Images cut at random, one place each: the pixels of a window are no rows to be fetched. Four
/// steps along either dimension read two parts and write one, of 96 x 40 x 40 x 8 x 4 bytes; parts
/// along the inner one are copied first.
TEST(WindowShifts, ImagesAreCutEachAtAPlaceOfItsOwn) {
  const std::uint64_t cycles =
      cycles_of({"f32[96,40,40,8]", "s32[96,2]", "f32[96,32,32,8]",
                 "offset_dims={1,2,3}, operand_batching_dims={0}, start_indices_batching_dims={0}, "
                 "start_index_map={1,2}, index_vector_dim=1, slice_sizes={1,32,32,8}"},
                12);
  const double pass = 96.0 * 40 * 40 * 8 * 4 / compiler::Target{}.hbm_bytes_per_cycle;
  EXPECT_LT(static_cast<double>(cycles), 8 * 6 * pass);
  // A row of eight features would take seven cycles of a table in VMEM.
  EXPECT_LT(cycles, 7U * 96 * 32 * 32);
}

/// One dimension, or both; in front of what windows take whole, and behind it.
TEST(WindowShifts, WindowsAlongAnyDimension) {
  cycles_of({"f32[7,200,40]", "s32[7,1]", "f32[7,150,40]",
             "offset_dims={1,2}, operand_batching_dims={0}, start_indices_batching_dims={0}, "
             "start_index_map={1}, index_vector_dim=1, slice_sizes={1,150,40}"},
            60);
  cycles_of({"f32[40,200,7]", "s32[7,1]", "f32[7,40,171]",
             "offset_dims={1,2}, operand_batching_dims={2}, start_indices_batching_dims={0}, "
             "start_index_map={1}, index_vector_dim=1, slice_sizes={40,171,1}"},
            60);
  cycles_of({"bf16[6,30,33]", "s32[6,2]", "bf16[6,29,17]",
             "offset_dims={1,2}, operand_batching_dims={0}, start_indices_batching_dims={0}, "
             "start_index_map={2,1}, index_vector_dim=1, slice_sizes={1,29,17}"},
            20);
}

/// Of an array that all windows share, several places a batch, and whole images picked first.
TEST(WindowShifts, WindowsOfSharedArrays) {
  cycles_of({"f32[8,2000]", "s32[65,2]", "f32[65,8,256]",
             "offset_dims={1,2}, start_index_map={0,1}, index_vector_dim=1, slice_sizes={8,256}"},
            2000);
  cycles_of({"f32[3,60,90]", "s32[3,5,1]", "f32[3,5,60,70]",
             "offset_dims={2,3}, operand_batching_dims={0}, start_indices_batching_dims={0}, "
             "start_index_map={2}, index_vector_dim=2, slice_sizes={1,60,70}"},
            25);
  cycles_of({"f32[20,24,24,16]", "s32[9,3]", "f32[9,20,20,16]",
             "offset_dims={1,2,3}, collapsed_slice_dims={0}, start_index_map={0,1,2}, "
             "index_vector_dim=1, slice_sizes={1,20,20,16}"},
            22);
  cycles_of({"f32[24,20,24,16]", "s32[2,9,3]", "f32[2,20,9,20,16]",
             "offset_dims={1,3,4}, collapsed_slice_dims={1}, start_index_map={1,0,2}, "
             "index_vector_dim=2, slice_sizes={20,1,20,16}"},
            22);
}

/// The gradient of windows: what overlaps is added up, and a window that reaches beyond the array
/// is left out. Frames of a signal, images that were cut, parts of what a window takes from the
/// begin.
TEST(WindowShifts, WindowsAreAddedWhereTheyWereTaken) {
  struct Sum {
    std::string array, indices, updates, attributes;
    double most;
  };
  for (const Sum& sum : std::vector<Sum>{{"f32[8,3000]", "s32[65,2]", "f32[65,8,256]",
                                          "update_window_dims={1,2}, inserted_window_dims={}, "
                                          "scatter_dims_to_operand_dims={0,1}, index_vector_dim=1",
                                          0},
                                         {"f32[8,3000]", "s32[65,1]", "f32[65,8,256]",
                                          "update_window_dims={1,2}, inserted_window_dims={}, "
                                          "scatter_dims_to_operand_dims={1}, index_vector_dim=1",
                                          2800},
                                         {"f32[40,30,6]", "s32[5,7,2]", "f32[33,20,5,7,6]",
                                          "update_window_dims={0,1,4}, inserted_window_dims={}, "
                                          "scatter_dims_to_operand_dims={1,0}, index_vector_dim=2",
                                          12},
                                         {"bf16[50,40]", "s32[9,1]", "bf16[9,30,17]",
                                          "update_window_dims={1,2}, inserted_window_dims={}, "
                                          "scatter_dims_to_operand_dims={0}, index_vector_dim=1",
                                          22}}) {
    const std::string type = sum.array.substr(0, sum.array.find('['));
    HloCheck check;
    check.least = sum.most > 0 ? -3 : 0;
    check.most = sum.most;
    check.tolerance = type == "bf16" ? 4e-3 : 1e-5;  // Rounded once here, after each term there.
    const std::string text =
        "HloModule s\nsum {\n  a = " + type + "[] parameter(0)\n  b = " + type +
        "[] parameter(1)\n  ROOT c = " + type +
        "[] add(a, b)\n}\nENTRY main {\n  x = " + sum.array +
        " parameter(0)\n  i = " + sum.indices + " parameter(1)\n  u = " + sum.updates +
        " parameter(2)\n  ROOT r = " + sum.array + " scatter(x, i, u), " + sum.attributes +
        ", to_apply=sum\n}\n";
    const CompiledRun run = check_hlo(text, check);
    for (const isa::Kernel& kernel : run.program.kernels) {
      EXPECT_EQ(kernel.name.find("scatter"), std::string::npos) << text;
    }
  }
}

}  // namespace
}  // namespace tpu::test::window_shifts_test
