#include "workloads/compiler/passes/layout/copy_steps.h"

#include <gtest/gtest.h>

#include "tests/compiler/graph_check.h"
#include "tests/compiler/hlo_check.h"
#include "workloads/compiler/ir/array_layout.h"
#include "workloads/hlo/hlo_reader.h"

namespace tpu::test::copy_steps_test {
namespace {

constexpr const char* kCopy = R"(HloModule copies
ENTRY main {
  x = f32[136,3,16,136] parameter(0)
  ROOT y = f32[136,3,16,136] copy(x)
}
)";

/// A copy into the order 2, 3, 1, 0: both minor dimensions change.
hlo::Module copy_module() {
  hlo::Module module = hlo::read_hlo_text("copies.hlo", kCopy);
  hlo::Computation& entry = module.entry_computation();
  for (hlo::HloInstruction& instruction : entry.instructions) {
    const bool is_copy = instruction.opcode == hlo::HloOpcode::kCopy;
    instruction.shape.layout = compiler::tiled_layout(
        hlo::ElementType::kF32,
        is_copy ? std::vector<std::int64_t>{0, 1, 3, 2} : std::vector<std::int64_t>{3, 2, 1, 0});
  }
  return module;
}

std::size_t copies_after(std::uint64_t vmem_bytes) {
  hlo::Module module = copy_module();
  compiler::Target target;
  target.vmem_bytes = vmem_bytes;
  compiler::split_large_copies(module, target);
  return module.entry_computation().instructions.size() - 1;
}

TEST(CopySteps, ACopyOfWhichNoPartFitsBecomesTwo) {
  EXPECT_EQ(copies_after(std::uint64_t{16} << 20), 1U);
  EXPECT_EQ(copies_after(std::uint64_t{1} << 20), 2U);
}

/// The same bytes move under other names of the dimensions.
TEST(CopySteps, ATransposeOfWhichNoPartFitsBecomesTwoCopies) {
  for (const auto& [vmem_mib, copies] : {std::pair(16U, 0), std::pair(1U, 2)}) {
    hlo::Module module = copy_module();
    hlo::Computation& entry = module.entry_computation();
    hlo::HloInstruction& move = entry.at(entry.root);
    move.opcode = hlo::HloOpcode::kTranspose;
    move.dimensions = {2, 3, 1, 0};
    move.shape.dimensions = {16, 136, 3, 136};
    move.shape.layout = compiler::tiled_layout(hlo::ElementType::kF32, {3, 2, 1, 0});
    compiler::Target target;
    target.vmem_bytes = std::uint64_t{vmem_mib} << 20;
    compiler::split_large_copies(module, target);
    int found = 0, transposes = 0;
    for (const hlo::HloInstruction& instruction : entry.instructions) {
      found += instruction.opcode == hlo::HloOpcode::kCopy ? 1 : 0;
      transposes += instruction.opcode == hlo::HloOpcode::kTranspose ? 1 : 0;
    }
    EXPECT_EQ(found, copies);
    EXPECT_EQ(transposes, copies == 0 ? 1 : 0);
  }
}

TEST(CopySteps, BothStepsTogetherMoveEveryElementToItsPlace) {
  const std::string text = R"(HloModule moves
ENTRY main {
  x = f32[136,3,16,136] parameter(0)
  ROOT y = f32[16,136,3,136] transpose(x), dimensions={2,3,1,0}
}
)";
  GraphCase graph = case_of(hlo::read_hlo_text("moves.hlo", text), 5);
  graph.machine.core.vmem_mib = 1;
  const Verdict verdict = check_graph(graph);
  EXPECT_EQ(verdict.kind, Verdict::Kind::kEqual) << verdict.message;
}

/// Rows that tiles hold together and no part of VMEM can: with lanes that are whole tiles, or not.
TEST(CopySteps, LongRowsComeOneByOne) {
  for (const auto& [row, features] : {std::pair(40000, 5), std::pair(39995, 5)}) {
    const std::string rows = "f32[4," + std::to_string(row) + "]";
    const std::string pixels =
        "f32[4," + std::to_string(row / features) + "," + std::to_string(features) + "]";
    for (const auto& [from, to] : {std::pair(rows, pixels), std::pair(pixels, rows)}) {
      GraphCase graph = case_of(
          hlo::read_hlo_text("long.hlo", "HloModule long\nENTRY main {\n  x = " + from +
                                             " parameter(0)\n  n = " + from +
                                             " negate(x)\n  ROOT y = " + to + " reshape(n)\n}\n"),
          5);
      const Verdict verdict = check_graph(graph);
      EXPECT_EQ(verdict.kind, Verdict::Kind::kEqual) << from << verdict.message;
    }
  }
}

/// No dimension but the lanes' one tile stays in place, and the result does not fit VMEM.
TEST(CopySteps, APadAlongAllLongDimensionsBecomesTwo) {
  for (const auto& [padding, rows] : {std::pair<std::string, int>{"30_16x4_40x0_0", 64},
                                      {"30_16x4_1_2x0_0", 63},
                                      {"-1_47x4_40x0_0", 64}}) {
    GraphCase graph =
        case_of(hlo::read_hlo_text(
                    "pads.hlo",
                    "HloModule pads\nENTRY main {\n  x = f32[2,20,128] parameter(0)\n"
                    "  n = f32[2,20,128] negate(x)\n  z = f32[] constant(3)\n"
                    "  ROOT y = f32[48," +
                        std::to_string(rows) + ",128] pad(n, z), padding=" + padding + "\n}\n"),
                5);
    graph.machine.core.vmem_mib = 1;
    const Verdict verdict = check_graph(graph);
    EXPECT_EQ(verdict.kind, Verdict::Kind::kEqual) << padding << verdict.message;
  }
}

/// A concatenation of 40 arrays.
TEST(CopySteps, ManyArraysAreJoinedInSteps) {
  std::string text = "HloModule many\nENTRY main {\n", operands;
  for (int i = 0; i < 40; ++i) {
    const std::string name = "x" + std::to_string(i);
    text += "  " + name + " = f32[4,20] parameter(" + std::to_string(i) + ")\n";
    operands += (i == 0 ? "" : ", ") + name;
  }
  text += "  ROOT y = f32[160,20] concatenate(" + operands + "), dimensions={0}\n}\n";
  const Verdict verdict = check_graph(case_of(hlo::read_hlo_text("many.hlo", text), 5));
  EXPECT_EQ(verdict.kind, Verdict::Kind::kEqual) << verdict.message;
}

/// What a module of one operation on a parameter becomes with 1 MiB of VMEM: its values are right.
void expect_equal_in_little_vmem(const std::string& operand, const std::string& operation) {
  GraphCase graph = case_of(
      hlo::read_hlo_text(
          "m.hlo", "HloModule m\nENTRY main {\n  x = " + operand +
                       " parameter(0)\n  z = f32[] constant(3)\n  ROOT r = " + operation + "\n}\n"),
      5);
  graph.machine.core.vmem_mib = 1;
  const Verdict verdict = check_graph(graph);
  EXPECT_EQ(verdict.kind, Verdict::Kind::kEqual) << operation << " " << verdict.message;
}

/// No dimension that a kernel could cut stays in place.
TEST(CopySteps, WhatMovesAlongAllDimensionsMovesAlongOneAfterTheOther) {
  expect_equal_in_little_vmem("f32[40,37,17]", "f32[40,37,17] reverse(x), dimensions={0,1,2}");
  expect_equal_in_little_vmem("bf16[130,30,9,7]",
                              "bf16[101,21,8,5] slice(x), slice={[9:110], [3:24], [1:9], [2:7]}");
  expect_equal_in_little_vmem(
      "f32[3,24,24,130]", "f32[2,11,16,53] slice(x), slice={[1:3], [1:22:2], [8:24], [4:110:2]}");
  expect_equal_in_little_vmem("f32[3,30,24,40]",
                              "f32[5,33,25,43] pad(x, z), padding=1_1x2_1x0_1x3_0");
}

/// Matrices of five lanes become a vector by way of rows of 720: 36,864 rows that are appended one
/// by one take 16 cycles each at least.
TEST(CopySteps, AReshapeGoesByTheShapesThatTakeTheLeast) {
  const auto cycles = [](const std::string& from, const std::string& to) {
    return check_hlo("HloModule m\nENTRY main {\n  x = f32[" + from +
                     "] parameter(0)\n  ROOT r = f32[" + to + "] reshape(x)\n}\n")
        .result.cycles;
  };
  EXPECT_LT(cycles("256,24,6,5", "184320"), 36864U * 16 / 2);
  cycles("184320", "256,24,6,5");
  cycles("64,129,33,8", "2112,4,258");
  // No part of 65 rows and of 1,024 elements is one of few: matrices of rows come between.
  cycles("2,256,65,31", "1031680");
}

/// Eight rows of 416 lanes are 26 times eight rows of 16, each by one rotation of 8 cycles; VMEM
/// holds more of them than are straight code. Appended one by one the rows took 16 cycles each.
TEST(CopySteps, PiecesOfRowsAreMovedAgainAndAgain) {
  const auto cycles =
      static_cast<double>(check_hlo("HloModule m\nENTRY main {\n  x = f32[53248,16] parameter(0)\n"
                                    "  ROOT r = f32[2048,416] reshape(x)\n}\n")
                              .result.cycles);
  constexpr double kBytesPerCycle = 490, kRotations = 53248.0 / 8 * 8;
  constexpr double kTransfers = 4 * (53248.0 * 128 + 2048 * 512) / kBytesPerCycle;
  EXPECT_GT(cycles, kTransfers);
  EXPECT_LT(cycles, 1.6 * (kRotations + 2 * kTransfers));
}

/// The result in row-major order fills two of eight rows and one of 128 lanes. By way of what its
/// first dimension has in the lanes a tenth of one pass over that is plenty; each element is read
/// and written at least. The copies around belong to the way.
TEST(CopySteps, FewRowsAndLanesGoOutOfTheTiles) {
  const auto expect_few_cycles = [](const std::string& from, const std::string& to, double elements,
                                    double tiles) {
    const std::string text = "HloModule m\nENTRY main {\n  x0 = f32[" + from +
                             "] parameter(0)\n  x = f32[" + from + "] negate(x0)\n  r = f32[" + to +
                             "] reshape(x)\n  ROOT q = f32[" + to + "] negate(r)\n}\n";
    const auto cycles = static_cast<double>(check_hlo(text).result.cycles);
    constexpr double kBytesPerCycle = 490;
    EXPECT_GT(cycles, 2 * 4 * elements / kBytesPerCycle) << to;
    EXPECT_LT(cycles, 4096 * tiles / kBytesPerCycle / 10) << to;
  };
  expect_few_cycles("127,192,17", "204,1016,2,1", 127 * 192 * 17, 204 * 1016);
  expect_few_cycles("204,1016,2,1", "127,192,17", 127 * 192 * 17, 204 * 1016);
}

}  // namespace
}  // namespace tpu::test::copy_steps_test
