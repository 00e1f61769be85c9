#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "tests/compiler/elementwise_check.h"
#include "tests/compiler/hlo_check.h"
#include "workloads/compiler/cost.h"
#include "workloads/compiler/ir/kernel_forms.h"
#include "workloads/compiler/ir/tile_parts.h"
#include "workloads/compiler/kernels/lowering.h"
#include "workloads/compiler/kernels/relayout/relayout_mover.h"
#include "workloads/frontend/graph_builder.h"

namespace tpu::test::relayout_test {
namespace {

using frontend::Extents;
using frontend::GraphBuilder;
using frontend::Tensor;
using hlo::ElementType;
using hlo::Shape;

/// One operation that moves elements of some arrays.
struct Move {
  std::vector<Extents> inputs;
  std::function<Tensor(GraphBuilder&, const std::vector<Tensor>&)> build;
  std::vector<std::int64_t> source_layout;  ///< Minor to major; empty: row-major.
  std::vector<std::int64_t> target_layout;
};

KernelHarness::Result check(const Move& move, ElementType type = ElementType::kF32,
                            const compiler::Target& target = {}) {
  GraphBuilder graph("test");
  std::vector<Tensor> parameters;
  for (const Extents& extents : move.inputs) {
    parameters.push_back(graph.parameter("x", hlo::array_shape(type, extents)));
  }
  const Tensor result = move.build(graph, parameters);
  hlo::Module module = graph.finish(result, parameters);
  hlo::Computation& entry = module.entry_computation();
  if (entry.at(entry.root).opcode == hlo::HloOpcode::kParameter) {
    hlo::HloInstruction copy;
    copy.opcode = hlo::HloOpcode::kCopy;
    copy.id = static_cast<hlo::InstructionId>(entry.instructions.size());
    copy.name = "copy";
    copy.shape = entry.at(entry.root).shape;
    copy.operands = {entry.root};
    entry.root = copy.id;
    entry.instructions.push_back(copy);
  }
  std::vector<Array> inputs;
  for (hlo::HloInstruction& instruction : entry.instructions) {
    const bool is_root = instruction.id == entry.root;
    const std::vector<std::int64_t>& order = is_root ? move.target_layout : move.source_layout;
    Shape& shape = instruction.shape;
    shape.layout = order.empty() || shape.rank() != static_cast<std::int64_t>(order.size())
                       ? compiler::row_major_layout(shape.type, shape.rank())
                       : compiler::tiled_layout(shape.type, order);
  }
  for (hlo::InstructionId id : entry.parameters()) {
    inputs.push_back(
        random_array(entry.at(id).shape, static_cast<std::uint32_t>(inputs.size() + 1), -9, 9));
  }
  const hlo::HloInstruction& root = entry.at(entry.root);
  const compiler::LoweredKernel lowered = compiler::lower_relayout(module, entry, root, target);
  const std::vector<Array> expected = NaiveEvaluation(module, inputs).run();
  KernelHarness::Result cost;
  for (DmaTiming timing : {DmaTiming::kAtOnce, DmaTiming::kLate}) {
    std::vector<Array> operands = inputs;
    // A padding value is an operand without a buffer.
    while (operands.size() < root.operands.size()) {
      operands.push_back({hlo::array_shape(ElementType::kF32, {}), {0}});
    }
    const auto found = run_kernel(lowered.kernel, operands, {root.shape}, timing, &cost);
    expect_close(expected[0], found[0], {0, 0}, std::string(hlo::to_string(root.opcode)));
  }
  return cost;
}

Move slice(const Extents& input, const Extents& starts, const Extents& limits,
           const Extents& strides = {}) {
  return {{input},
          [=](GraphBuilder& g, const std::vector<Tensor>& x) {
            return g.slice(x[0], starts, limits, strides);
          },
          {},
          {}};
}

Move concatenate(const std::vector<Extents>& inputs, std::int64_t dimension) {
  return {
      inputs,
      [=](GraphBuilder& g, const std::vector<Tensor>& x) { return g.concatenate(x, dimension); },
      {},
      {}};
}

Move pad(const Extents& input, const std::vector<hlo::PaddingDimension>& padding, double value) {
  return {
      {input},
      [=](GraphBuilder& g, const std::vector<Tensor>& x) { return g.pad(x[0], padding, value); },
      {},
      {}};
}

Move reverse(const Extents& input, const Extents& dimensions) {
  return {
      {input},
      [=](GraphBuilder& g, const std::vector<Tensor>& x) { return g.reverse(x[0], dimensions); },
      {},
      {}};
}

TEST(Relayout, SlicesOfWholeTilesAreDmas) {
  check(slice({100, 700}, {0, 256}, {100, 384}));
  check(slice({100, 700}, {16, 128}, {90, 700}));
  check(slice({100, 700}, {16, 128}, {90, 700}), ElementType::kBf16);
  check(slice({6, 20, 300}, {1, 8, 0}, {5, 20, 300}, {2, 1, 1}));
  check(slice({3000}, {1024}, {2900}));
  check(slice({2000, 130}, {8, 128}, {2000, 130}));
}

TEST(Relayout, ConcatenationsOfWholeTilesAreDmas) {
  check(concatenate({{50, 128}, {50, 256}, {50, 30}}, 1));
  check(concatenate({{50, 128}, {50, 256}, {50, 30}}, 1), ElementType::kBf16);
  check(concatenate({{16, 100}, {8, 100}, {21, 100}}, 0));
  check(concatenate({{3, 10, 50}, {2, 10, 50}}, 0));
}

TEST(Relayout, PaddingOfMajorDimensionsAreDmas) {
  check(pad({3, 4, 10, 50}, {{1, 2, 0}, {2, 0, 1}, {0, 0, 0}, {0, 0, 0}}, 1.5));
  check(pad({3, 4, 10, 50}, {{1, 2, 0}, {-1, 0, 0}, {0, 0, 0}, {0, 0, 0}}, -2), ElementType::kBf16);
  check(pad({16, 128}, {{8, 3, 0}, {128, 5, 0}}, 4));
}

TEST(Relayout, SlicesThatCutTiles) {
  check(slice({100, 700}, {3, 37}, {90, 600}));
  check(slice({100, 700}, {3, 37}, {90, 600}), ElementType::kBf16);
  check(slice({50, 300}, {5, 0}, {20, 300}));
  check(slice({6, 20, 300}, {1, 5, 100}, {5, 19, 290}, {2, 3, 1}));
  check(slice({40, 60}, {1, 20}, {40, 60}, {2, 1}));
  check(slice({3000}, {100}, {2900}));
  check(slice({300}, {7}, {70}));
}

TEST(Relayout, ConcatenationsThatCutTiles) {
  check(concatenate({{50, 100}, {50, 60}, {50, 300}}, 1));
  check(concatenate({{13, 100}, {8, 100}, {21, 100}}, 0));
  check(concatenate({{13, 100}, {8, 100}, {21, 100}}, 0), ElementType::kBf16);
  check(concatenate({{100}, {28}, {1000}}, 0));
  check(concatenate({{3, 5, 7}, {3, 6, 7}}, 1));
}

/// Rows that fill whole tiles at every index above them are one long column of tiles.
TEST(Relayout, FeaturesOfManyRowsAreJoinedAndSplit) {
  check(concatenate({{3, 5, 16, 20}, {3, 5, 16, 12}}, 3));
  check(concatenate({{2, 3, 8, 100}, {2, 3, 8, 160}}, 3), ElementType::kBf16);
  check(slice({4, 6, 16, 64}, {0, 0, 0, 32}, {4, 6, 16, 64}));
  check(slice({4, 6, 16, 64}, {1, 2, 0, 5}, {4, 5, 16, 37}));
  check(slice({4, 6, 16, 64}, {1, 2, 8, 5}, {4, 5, 16, 37}));
  check(slice({4, 6, 16, 64}, {1, 2, 0, 5}, {4, 5, 8, 37}));
  check(pad({2, 3, 8, 20}, {{0, 0, 0}, {0, 0, 0}, {0, 8, 0}, {3, 0, 0}}, 1.5));
  check(slice({4, 6, 16, 64}, {0, 1, 0, 5}, {4, 6, 16, 37}, {1, 2, 1, 1}));
  check(slice({4, 6, 12, 300}, {0, 0, 0, 130}, {4, 6, 12, 290}));
}

TEST(Relayout, PaddingThatCutsTiles) {
  check(pad({10, 50}, {{1, 2, 0}, {3, 4, 0}}, 1.5));
  check(pad({10, 150}, {{1, 2, 1}, {30, 4, 0}}, 1.5), ElementType::kBf16);
  check(pad({10, 150}, {{-2, -3, 0}, {-30, 4, 0}}, -1));
  check(pad({100}, {{5, 20, 0}}, 7));
}

TEST(Relayout, ReversalOfRowsAndMajors) {
  check(reverse({3, 4, 10, 50}, {0, 1}));
  check(reverse({4, 21, 150}, {0, 1}));
  compiler::Target v2;
  v2.chip = "v2";
  check(reverse({3, 40, 21, 300}, {0, 1}), ElementType::kF32, v2);
  check(reverse({9, 40, 300}, {0, 1, 2}), ElementType::kF32, v2);
}

/// Blocks follow each other over all dimensions: one after the other each of the 15 would wait for
/// the latency of a load and of a store. Of 600 blocks a dimension of 300 has no digits that scalar
/// registers tell: what stands around it is a loop.
TEST(Relayout, MovedBlocksDoNotWaitForEachOther) {
  const auto reversed = [](const std::string& shape, const std::string& dimensions) {
    return static_cast<double>(check_hlo("HloModule r\nENTRY main {\n  x = f32[" + shape +
                                         "] parameter(0)\n  ROOT r = f32[" + shape +
                                         "] reverse(x), dimensions={" + dimensions + "}\n}\n")
                                   .result.cycles);
  };
  EXPECT_LT(reversed("5,3,16,128", "0,1"), 15.0 * compiler::Target().dma_latency_cycles);
  reversed("2,2,300,8,128", "0,2");
}

/// Lanes and rows that fill their tiles, one of them, or neither; a part of one tile.
TEST(Relayout, ReversalOfLanes) {
  for (const std::int64_t rows : {8, 16, 13, 1}) {
    for (const std::int64_t lanes : {128, 384, 300, 2600, 5, 1}) {
      check(reverse({2, rows, lanes}, {2}));
      check(reverse({2, rows, lanes}, {1, 2}));
    }
  }
  check(reverse({3, 21, 150}, {0, 1, 2}), ElementType::kBf16);
  check(reverse({5, 16, 256}, {0, 2}), ElementType::kBf16);
}

/// A tile of eight rows takes one permutation, or two where its lanes stand in two tiles of the
/// source: each keeps the unit for 8 cycles, and the last one of 16 tiles is waited for. The rows
/// of the tile take none.
TEST(Relayout, AReversedTileTakesThePermutationsOfItsSources) {
  constexpr double kTiles = 64 * 8;
  const double waits = kTiles / 16 * compiler::Target{}.xlu_latency_cycles;
  for (const Extents& along : {Extents{1}, Extents{0, 1}}) {
    for (const auto& [lanes, permutations] :
         {std::pair(1024, kTiles), std::pair(1000, 2 * kTiles - 64)}) {
      const auto cycles = static_cast<double>(check(reverse({512, lanes}, along)).cycles);
      EXPECT_GE(cycles, permutations * 8);
      EXPECT_LT(cycles, 1.1 * (permutations * 8 + waits) + 500);
    }
  }
}

/// Neighbours stay neighbours: no other order is asked for, nothing is copied.
TEST(Relayout, AnArrayIsReversedAsItLies) {
  for (const std::string along : {"{0,1,2}", "{2}", "{1,2}"}) {
    const CompiledRun run = check_hlo(
        "HloModule m\nENTRY main {\n  x = f32[40,20,130] parameter(0)\n"
        "  ROOT r = f32[40,20,130] reverse(x), dimensions=" +
        along + "\n}\n");
    EXPECT_EQ(run.program.ops.size(), 1U) << along;
  }
}

/// The edges of reflected images: rows of 70 tiles of four granules, in two DMAs each way, for each
/// of the three that are reversed. Where no dimension keeps its direction, tiles go one by one.
TEST(Relayout, TheLongestDimensionThatStaysIsRowsOfDmas) {
  EXPECT_EQ(check(reverse({70, 3, 8, 100}, {1})).dmas, 3U * 2 * 2);
  EXPECT_EQ(check(reverse({3, 70, 8, 100}, {0})).dmas, 3U * 2 * 2);
  EXPECT_EQ(check(reverse({7, 3, 8, 100}, {0, 1})).dmas, 7U * 3 * 2);
  EXPECT_EQ(check(slice({200, 5, 8, 100}, {0, 0, 0, 0}, {200, 4, 8, 100}, {1, 2, 1, 1})).dmas,
            2U * 4 * 2);
}

Move transpose(const Extents& input, const Extents& permutation) {
  return {
      {input},
      [=](GraphBuilder& g, const std::vector<Tensor>& x) { return g.transpose(x[0], permutation); },
      {},
      {}};
}

TEST(Relayout, TransposesOfLanes) {
  check(transpose({100, 300}, {1, 0}));
  check(transpose({100, 300}, {1, 0}), ElementType::kBf16);
  check(transpose({5, 20, 150}, {0, 2, 1}));
  check(transpose({5, 20, 150}, {2, 1, 0}));
  check(transpose({5, 20, 150}, {2, 0, 1}));
  check(transpose({5, 20, 150}, {1, 2, 0}));
  check(transpose({7, 8, 9, 10}, {3, 1, 0, 2}));
  check(transpose({150, 3, 5, 20}, {3, 1, 2, 0}));
}

TEST(Relayout, TransposesThatKeepLanes) {
  check(transpose({5, 20, 150}, {1, 0, 2}));
  check(transpose({3, 5, 20, 150}, {1, 0, 2, 3}));
  check(transpose({3, 5, 20, 150}, {2, 1, 0, 3}), ElementType::kBf16);
}

TEST(Relayout, CopiesBetweenLayouts) {
  Move move{{{9, 5, 6, 70}},
            [](GraphBuilder&, const std::vector<Tensor>& x) { return x[0]; },
            {3, 0, 2, 1},
            {3, 2, 1, 0}};
  check(move);
  check(move, ElementType::kBf16);
  std::swap(move.source_layout, move.target_layout);
  check(move);
}

Move reshape(const Extents& from, const Extents& to) {
  return {{from},
          [=](GraphBuilder& g, const std::vector<Tensor>& x) { return g.reshape(x[0], to); },
          {},
          {}};
}

TEST(Relayout, Reshapes) {
  check(reshape({9, 5, 5, 16}, {9, 400}));
  check(reshape({9, 400}, {9, 5, 5, 16}));
  check(reshape({6, 20, 150}, {120, 150}));
  check(reshape({3, 40, 50}, {6, 20, 50}));
  check(reshape({30, 70}, {2100}));
  check(reshape({1500}, {30, 50}));
  check(reshape({9, 5, 5, 16}, {9, 400}), ElementType::kBf16);
}

/// Rows of matrices that fill no tiles, one behind the other and parted again.
TEST(Relayout, RowsOfAnyLengthBecomeOthersInPieces) {
  check(reshape({309}, {1, 309}));
  check(reshape({1, 309}, {309}));
  check(reshape({24, 5}, {120}));
  check(reshape({2600}, {40, 65}));
  check(reshape({1000, 4}, {4000}));
  check(reshape({77, 309}, {77 * 309}));
  check(reshape({3, 7, 11}, {33, 7}));
  check(reshape({3, 7, 11}, {33, 7}), ElementType::kBf16);
  check(reshape({64, 100}, {50, 128}), ElementType::kBf16);
  // One rotation of a row each, not one of an element.
  EXPECT_LT(check(reshape({309}, {1, 309})).cycles, 1200);
  EXPECT_LT(check(concatenate({{8}, {120}, {24}, {96}, {24}, {32}, {5}}, 0)).cycles, 2400);
}

TEST(Relayout, SmallMatricesMoveSeveralAtATime) {
  const std::vector<Extents> parts(6, {20, 4, 4, 20});
  // One by one each would wait for its rotation: 42 thousand cycles.
  EXPECT_LT(check(concatenate(parts, 3)).cycles, 12000);
  check(concatenate({{5, 3, 4, 20}, {5, 3, 4, 150}}, 3));
  check(slice({9, 5, 3, 40}, {1, 1, 1, 7}, {8, 4, 3, 30}));
}

TEST(Relayout, PartsOfVectorsMoveEightRowsAtATime) {
  for (const auto& [from, until] : {std::pair<std::int64_t, std::int64_t>{1, 2999},
                                    {129, 1153},
                                    {127, 130},
                                    {500, 2500},
                                    {5, 128},
                                    {256, 261}}) {
    check(slice({3000}, {from}, {until}));
    check(pad({until - from}, {{from, 7, 0}}, 3));
  }
  check(concatenate({{1}, {127}, {2000}, {3}, {1500}}, 0));
}

/// Less than the arrays of the tests below take.
compiler::Target small_vmem() {
  compiler::Target target;
  target.vmem_bytes = 2 << 20;
  return target;
}

/// Arrays that no dimension cuts but the one along which boxes move: vectors, rows and lanes.
TEST(Relayout, WhatMovesAlongADimensionIsCutAlongIt) {
  const compiler::Target small = small_vmem();
  check(slice({1600000}, {1}, {1599998}), ElementType::kF32, small);
  check(slice({1600000}, {2048}, {1599998}), ElementType::kF32, small);
  check(concatenate({{600001}, {7}, {1024}, {800000}}, 0), ElementType::kF32, small);
  check(pad({1200000}, {{1027, 160000, 0}}, 2.5), ElementType::kF32, small);
  for (const ElementType type : {ElementType::kF32, ElementType::kBf16}) {
    check(slice({20000, 20}, {3, 0}, {19990, 20}), type, small);
    check(pad({20000, 20}, {{13, 9, 0}, {0, 0, 0}}, 2.5), type, small);
    check(pad({20000, 20}, {{8000, -8, 0}, {3, 1, 0}}, 2.5), type, small);
    check(concatenate({{12001, 20}, {5, 20}, {7999, 20}}, 0), type, small);
    check(slice({3, 200000}, {0, 77}, {3, 199000}), type, small);
    check(concatenate({{3, 200001}, {3, 120000}}, 1), type, small);
    check(concatenate({{2, 9, 80000}, {2, 9, 257}}, 2), type, small);
  }
  check(pad({40, 300, 130}, {{0, 0, 0}, {1, 2, 0}, {0, 0, 0}}, 2.5), ElementType::kF32, small);
  check(slice({3000, 5, 20}, {1001, 1, 1}, {2999, 4, 20}), ElementType::kF32, small);
}

/// With steps, backwards, and with gaps between.
TEST(Relayout, WhatMovesInStepsIsCutAlongThem) {
  const compiler::Target small = small_vmem();
  for (const ElementType type : {ElementType::kF32, ElementType::kBf16}) {
    check(slice({20000, 20}, {3, 0}, {19999, 20}, {2, 1}), type, small);
    check(slice({20000, 20}, {4001, 0}, {19990, 20}, {7, 1}), type, small);
    check(slice({2, 20000, 2}, {0, 0, 0}, {2, 20000, 2}, {1, 50, 1}), type, small);
    check(reverse({20003, 20}, {0}), type, small);
    check(reverse({10001, 128}, {0, 1}), type, small);
    check(reverse({3, 150001}, {1}), type, small);
    check(pad({4000, 20}, {{13, 9, 2}, {0, 0, 0}}, 2.5), type, small);
    check(pad({9000, 20}, {{1, -3, 1}, {2, 0, 0}}, 2.5), type, small);
    check(pad({400, 9, 130}, {{2, 0, 3}, {1, 0, 0}, {0, 0, 0}}, 2.5), type, small);
  }
}

/// Random boxes, which begin and end anywhere.
TEST(Relayout, MovesOfAnyBoxesInALittleVmem) {
  std::mt19937 random(7);
  const auto among = [&random](std::int64_t from, std::int64_t to) {
    return std::uniform_int_distribution<std::int64_t>(from, to)(random);
  };
  const compiler::Target small = small_vmem();
  for (int i = 0; i < 40; ++i) {
    const auto rank = static_cast<std::size_t>(among(1, 3));
    const auto along = static_cast<std::size_t>(among(0, static_cast<std::int64_t>(rank) - 1));
    Extents extents(rank);
    std::int64_t padded = rank == 1 ? 8 : 1;
    for (std::size_t d = 0; d < rank; ++d) {
      if (d == along) continue;
      extents[d] = among(1, d + 1 == rank ? 200 : 12);
      padded *= d + 1 == rank   ? 128 * ((extents[d] + 127) / 128)
                : d + 2 == rank ? 8 * ((extents[d] + 7) / 8)
                                : extents[d];
    }
    const std::int64_t extent = among(400000, 1000000) / padded + 1;
    extents[along] = extent;
    // Packed vectors become f32 before they get their layouts.
    const bool is_packed = rank > 1 && among(0, 1) == 1;
    const ElementType type = is_packed ? ElementType::kBf16 : ElementType::kF32;
    SCOPED_TRACE(i);
    if (const std::int64_t kind = among(0, 2); kind == 0) {
      Extents starts(rank, 0), limits = extents;
      starts[along] = among(0, extent / 2);
      limits[along] = among(starts[along] + 1, extent);
      check(slice(extents, starts, limits), type, small);
    } else if (kind == 1) {
      std::vector<hlo::PaddingDimension> padding(rank, {0, 0, 0});
      padding[along] = {among(-extent / 3, extent / 3), among(-extent / 3, extent / 3), 0};
      check(pad(extents, padding, 1.5), type, small);
    } else {
      std::vector<Extents> parts;
      for (std::int64_t left = extent; left > 0; left -= parts.back()[along]) {
        parts.push_back(extents);
        parts.back()[along] = std::min(left, among(1, extent));
      }
      check(concatenate(parts, static_cast<std::int64_t>(along)), type, small);
    }
  }
}

/// The tiles that have the rows, not all of the array: 2048 tiles would take 28 thousand cycles.
TEST(Relayout, AFewRowsOfManyAreFetchedAlone) {
  EXPECT_LT(check(slice({16384, 100}, {9001, 0}, {9030, 100})).cycles, 2500);
  EXPECT_LT(check(slice({2000000}, {1000001}, {1000301})).cycles, 2500);
}

/// A descriptor for each of 1,000 parts would fill SMEM twice: a loop goes over them.
TEST(Relayout, PartsOfManyLanesMoveInALoop) {
  Move move = reshape({17, 1000, 256}, {17, 256000});
  move.source_layout = {2, 0, 1};
  // Three tiles of rows, two of lanes each.
  EXPECT_LE(check(move).dmas, 2U * 3 * 1000);
  check(reshape({1, 300000}, {300000}), ElementType::kF32, small_vmem());
  check(reshape({300000}, {1, 300000}), ElementType::kF32, small_vmem());
}

/// Slabs of rows that begin nowhere in the tiles of a vector: eight rows of 4001 lanes and whole
/// tiles of the vector meet after 16 MB.
TEST(Relayout, RowsOfAnyLengthBecomePartsOfALine) {
  const compiler::Target small = small_vmem();
  for (const auto& [rows, lanes] : std::vector<std::pair<std::int64_t, std::int64_t>>{
           {200, 4001}, {2000, 301}, {1003, 517}, {16, 20001}, {6000, 129}, {1603, 509}}) {
    check(reshape({rows, lanes}, {rows * lanes}), ElementType::kF32, small);
    check(reshape({rows * lanes}, {rows, lanes}), ElementType::kF32, small);
  }
  check(reshape({40, 13, 1001}, {40 * 13 * 1001}), ElementType::kF32, small);
  check(reshape({40 * 13 * 1001}, {40, 13, 1001}), ElementType::kF32, small);
}

/// Eight rows do not fit VMEM: parts of one row at a time, of vectors of a tile of rows.
/// 128 lanes are a vector, too.
TEST(Relayout, LongRowsGoPartByPart) {
  const compiler::Target small = small_vmem();
  const std::vector<Extents> arrays{
      {3, 70001}, {2, 100000}, {11, 66000}, {2, 3, 65537}, {8, 80128}};
  for (const Extents& extents : arrays) {
    std::int64_t elements = 1;
    for (const std::int64_t extent : extents) elements *= extent;
    const auto joined = check(reshape(extents, {elements}), ElementType::kF32, small);
    const auto cut = check(reshape({elements}, extents), ElementType::kS32, small);
    // Eight elements in four cycles, by lanes of 128.
    EXPECT_LT(joined.cycles, elements / 128 + 20000);
    EXPECT_LT(cut.cycles, elements / 128 + 20000);
  }
  check(reshape({2, 96000}, {1500, 128}), ElementType::kF32, small);
  check(reshape({1500, 128}, {2, 96000}), ElementType::kU32, small);
  compiler::Target v2 = small;
  v2.chip = "v2";
  check(reshape({3, 70001}, {210003}), ElementType::kF32, v2);
  check(reshape({210003}, {3, 70001}), ElementType::kF32, v2);
}

TEST(Relayout, RowsBetweenAColumnAndMatrices) {
  for (const ElementType type : {ElementType::kF32, ElementType::kBf16}) {
    check(reshape({3 * 37, 300}, {3, 37, 300}), type);
    check(reshape({3, 37, 300}, {3 * 37, 300}), type);
    check(reshape({2, 3, 5, 200}, {30, 200}), type);
    check(reshape({5 * 144, 90}, {5, 144, 90}), type);
    check(reshape({19, 6, 128}, {6 * 19, 128}), type);
    check(reshape({4, 6, 14, 150}, {4, 84, 150}), type);
    check(reshape({4, 84, 150}, {4, 6, 14, 150}), type);
    check(reshape({5, 3, 9, 300}, {5, 27, 300}), type);
    check(reshape({2, 60, 40}, {2, 3, 20, 40}), type);
  }
}

TEST(Relayout, LargeArraysAreCutIntoSlabs) {
  compiler::Target small;
  small.vmem_bytes = 1 << 20;
  check(slice({300, 700}, {0, 37}, {300, 600}), ElementType::kF32, small);
  check(transpose({5, 200, 350}, {0, 2, 1}), ElementType::kF32, small);
  check(transpose({300, 700}, {1, 0}), ElementType::kF32, small);
  check(reshape({90, 5, 5, 16}, {90, 400}), ElementType::kF32, small);
  check(reshape({40, 20, 130}, {800, 130}), ElementType::kF32, small);
  check(reshape({400, 384}, {400, 6, 64}), ElementType::kF32, small);
  check(reshape({400, 6, 64}, {400, 384}), ElementType::kBf16, small);
  check(reshape({90, 12, 50}, {45, 1200}), ElementType::kF32, small);
}

/// Columns of 128 lanes, 32 of them: the next one comes and the one before leaves while one is
/// worked on, in five cycles a row at most. One by one they wait for the memory twice each.
TEST(Relayout, PiecesFollowEachOther) {
  const compiler::Target target;
  const CompiledRun run = check_hlo(
      "HloModule m\nENTRY main {\n  x = f32[3,20,4096] parameter(0)\n  ROOT r = f32[60,4096] "
      "reshape(x)\n}\n",
      {});
  const double bytes = 4.0 * 4096 * (3 * 24 + 64);
  const auto cycles = static_cast<double>(run.result.cycles);
  EXPECT_GT(cycles, bytes / target.hbm_bytes_per_cycle);
  EXPECT_LT(cycles, 32 * 60 * 5 + 4.0 * target.dma_latency_cycles);
}

TEST(Relayout, SlabsThatAreTooLargeAreCutIntoPieces) {
  compiler::Target small;
  small.vmem_bytes = 1 << 20;
  check(transpose({60, 20, 150}, {2, 1, 0}), ElementType::kF32, small);
  check(transpose({16, 3, 24, 140}, {2, 1, 3, 0}), ElementType::kF32, small);
  small.vmem_bytes = 3 << 19;
  check(transpose({16, 3, 24, 140}, {2, 1, 3, 0}), ElementType::kBf16, small);
  small.vmem_bytes = 1 << 18;
  EXPECT_THROW(check(transpose({60, 20, 150}, {2, 1, 0}), ElementType::kF32, small), WorkloadError);
}

/// Groups that begin with a tile of the long row, and a rest of fewer rows; matrices that begin at
/// any lane; groups as long as code may be, of rows of two tiles, with a rest that begins within a
/// tile.
TEST(Relayout, LongRowsAreSplitAndJoinedInGroups) {
  for (const Extents& deep : std::vector<Extents>{{9, 16, 24, 3},
                                                  {4, 20, 24, 3},
                                                  {5, 28, 28, 1},
                                                  {11, 30, 30, 5},
                                                  {3, 7, 20, 9},
                                                  {2, 200, 100},
                                                  {2, 72, 129},
                                                  {10, 136, 129}}) {
    std::int64_t lanes = 1;
    for (std::size_t i = 1; i < deep.size(); ++i) lanes *= deep[i];
    const Extents flat{deep.front(), lanes};
    for (ElementType type : {ElementType::kF32, ElementType::kBf16}) {
      check(reshape(deep, flat), type);
      check(reshape(flat, deep), type);
    }
  }
}

/// The images' tiles pass the HBM once; what happens to them in VMEM is done meanwhile. A cycle of
/// v3 is 490 bytes.
TEST(Relayout, ImagesBecomeRowsAtTheRateOfTheHbm) {
  const double bytes = 4096.0 * (32 * 32 * 4 + 4 * 24);
  EXPECT_LT(static_cast<double>(check(reshape({32, 32, 32, 3}, {32, 3072})).cycles),
            1.1 * bytes / 490);
  EXPECT_LT(static_cast<double>(check(reshape({32, 3072}, {32, 32, 32, 3})).cycles),
            1.1 * bytes / 490);
}

/// Rows of more than a tile of lanes, of several, of whole tiles; of matrices whose rows fill none;
/// more of them than loops take at once, and some that are left.
TEST(Relayout, VectorsBecomeLongRowsAndBack) {
  for (const Extents& rows : std::vector<Extents>{{700, 129},
                                                  {500, 333},
                                                  {389, 1003},
                                                  {90, 1000},
                                                  {50, 2085},
                                                  {600, 256},
                                                  {80, 11, 200},
                                                  {1000, 100}}) {
    std::int64_t elements = 1;
    for (std::int64_t extent : rows) elements *= extent;
    check(reshape({elements}, rows));
    check(reshape(rows, {elements}));
  }
  // The same between matrices, packed ones.
  check(reshape({1375, 128}, {80, 11, 200}), ElementType::kBf16);
  check(reshape({80, 11, 200}, {1375, 128}), ElementType::kBf16);
  // A load, two turns and a store for each of 784 rows, and little else.
  EXPECT_LT(check(reshape({784 * 1000}, {784, 1000})).cycles, 784 * 25 + 10000);
  EXPECT_LT(check(reshape({784, 1000}, {784 * 1000})).cycles, 784 * 25 + 10000);
}

/// Rows that have no row of the other side's length: those of attention that knows distances (a
/// column more, read in rows of another length), odd ones of both sides, of a few lanes and of more
/// than eight tiles of them, matrices in four dimensions; in slabs, too.
TEST(Relayout, RowsBecomeRowsOfAnyOtherLength) {
  compiler::Target small;
  small.vmem_bytes = 3 << 19;
  for (const auto& [one, other] :
       std::vector<std::pair<Extents, Extents>>{{{3, 2, 128, 257}, {3, 2, 257, 128}},
                                                {{256, 257}, {257, 256}},
                                                {{6, 100, 301}, {6, 301, 100}},
                                                {{2, 3, 90, 77}, {2, 3, 77, 90}},
                                                {{77, 1300}, {1300, 77}},
                                                {{130, 1025}, {5, 205, 130}},
                                                {{4000, 9}, {2400, 15}}}) {
    for (ElementType type : {ElementType::kF32, ElementType::kBf16}) {
      check(reshape(one, other), type);
      check(reshape(other, one), type);
    }
  }
  check(reshape({3, 2, 128, 257}, {3, 2, 257, 128}), ElementType::kF32, small);
  check(reshape({6, 301, 100}, {6, 100, 301}), ElementType::kF32, small);
  check(reshape({4000, 9}, {2400, 15}), ElementType::kF32, small);
  // As two moves between rows and vectors, see above: a row of either side takes 25 cycles at most.
  EXPECT_LT(check(reshape({8, 128, 257}, {8, 257, 128})).cycles, 8 * (128 + 257) * 25 + 10000);
  EXPECT_LT(check(reshape({8, 257, 128}, {8, 128, 257})).cycles, 8 * (128 + 257) * 25 + 10000);
}

/// The estimate by which a reshape's way is chosen, where the HBM does not bound it: rows that are
/// split and joined, in groups that begin with a tile and that do not, moved in alike pieces,
/// appended and cut.
TEST(Relayout, AReshapeTakesAsLongAsItsEstimate) {
  const auto shape_of = [](const Extents& extents) {
    hlo::Shape shape = hlo::array_shape(ElementType::kF32, extents);
    shape.layout = compiler::row_major_layout(shape.type, shape.rank());
    return shape;
  };
  compiler::Target fast;
  fast.hbm_bytes_per_cycle = 1e9;
  for (const auto& [from, to] :
       std::vector<std::pair<Extents, Extents>>{{{64, 200, 3}, {64, 600}},
                                                {{960, 6, 2}, {20, 576}},
                                                {{6656, 16}, {256, 416}},
                                                {{256, 416}, {6656, 16}},
                                                {{4000, 24}, {250, 384}},
                                                {{400, 384}, {400, 6, 64}},
                                                {{4096, 33}, {4096 * 33}},
                                                {{1024, 257}, {2056, 128}},
                                                {{1000, 257}, {257, 1000}},
                                                {{40, 500, 130}, {20000, 130}}}) {
    const double estimate = compiler::reshape_cycles(shape_of(from), shape_of(to), fast);
    EXPECT_NEAR(
        static_cast<double>(check(reshape(from, to)).cycles) / (estimate - compiler::kKernelCycles),
        1, 0.4)
        << testing::PrintToString(from) << testing::PrintToString(to) << " " << estimate;
  }
  EXPECT_EQ(compiler::reshape_cycles(shape_of({6, 16, 130}), shape_of({96, 130}), {}), 0);
}

/// The same of copies to another order: rows that stay, whole tiles of them and single ones, blocks
/// that are turned, full and nearly empty, of both types.
TEST(Relayout, ACopyTakesAsLongAsItsEstimate) {
  compiler::Target fast;
  fast.hbm_bytes_per_cycle = 1e9;
  const std::vector<std::int64_t> before{2, 1, 0};
  for (const ElementType type : {ElementType::kF32, ElementType::kBf16}) {
    for (const auto& [extents, behind] :
         std::vector<std::pair<Extents, std::vector<std::int64_t>>>{{{64, 24, 128}, {2, 0, 1}},
                                                                    {{40, 30, 200}, {2, 0, 1}},
                                                                    {{24, 64, 130}, {2, 1, 0}},
                                                                    {{4, 256, 256}, {1, 2, 0}},
                                                                    {{3, 300, 100}, {1, 2, 0}},
                                                                    {{200, 6, 130}, {1, 2, 0}},
                                                                    {{130, 6, 200}, {0, 2, 1}},
                                                                    {{1, 8, 4000}, {1, 2, 0}},
                                                                    {{1, 4000, 8}, {1, 2, 0}},
                                                                    {{256, 20, 100}, {0, 1, 2}}}) {
      const Move move{{extents},
                      [](GraphBuilder&, const std::vector<Tensor>& x) { return x[0]; },
                      before,
                      behind};
      hlo::Shape from = hlo::array_shape(type, extents), to = from;
      from.layout = compiler::tiled_layout(type, before);
      to.layout = compiler::tiled_layout(type, behind);
      const double estimate = compiler::move_cycles(from, to, fast) - compiler::kKernelCycles;
      if (behind == before) continue;
      EXPECT_NEAR(static_cast<double>(check(move, type).cycles) / estimate, 1, 0.4)
          << hlo::to_string(to) << " " << estimate;
    }
  }
}

hlo::Shape tiled(ElementType type, const Extents& extents,
                 const std::vector<std::int64_t>& minor_to_major) {
  hlo::Shape shape = hlo::array_shape(type, extents);
  shape.layout = compiler::tiled_layout(type, minor_to_major);
  return shape;
}

/// An array and its parts in other lanes, orders from minor to major.
struct PartsCase {
  Extents whole, parts;
  std::vector<std::int64_t> whole_order, parts_order;
};

/// Both ways in both types; what it took, and what it was expected to take beside the memory.
void move_parts(const std::vector<PartsCase>& cases, bool woven,
                const std::function<void(const PartsCase&, ElementType,
                                         const KernelHarness::Result&, double)>& check_cost) {
  compiler::Target fast;
  fast.hbm_bytes_per_cycle = 1e9;
  for (const PartsCase& each : cases) {
    for (const ElementType type : {ElementType::kF32, ElementType::kBf16}) {
      for (const bool joins : {false, true}) {
        Move move = joins ? reshape(each.parts, each.whole) : reshape(each.whole, each.parts);
        move.source_layout = joins ? each.parts_order : each.whole_order;
        move.target_layout = joins ? each.whole_order : each.parts_order;
        const hlo::Shape from = tiled(type, move.inputs[0], move.source_layout);
        const hlo::Shape to = tiled(type, joins ? each.whole : each.parts, move.target_layout);
        SCOPED_TRACE(hlo::to_string(to));
        const auto found = compiler::tile_parts(from, to);
        ASSERT_TRUE(found && found->woven == woven);
        const KernelHarness::Result cost = check(move, type);
        EXPECT_EQ(cost.dma_bytes,
                  static_cast<std::uint64_t>(from.padded_bytes() + to.padded_bytes()));
        check_cost(each, type, cost,
                   compiler::move_cycles(from, to, fast) - compiler::kKernelCycles);
      }
    }
  }
}

/// Heads of attention leave the lanes for a dimension of their own outside of the tiles, and come
/// back, in one kernel: each register is turned once, or twice where a head stands in two tiles of
/// lanes; heads of whole tiles are moved by DMAs alone. It takes as long as its estimate.
TEST(Relayout, PartsOfTheLanesGetADimensionOfTheirOwn) {
  const std::vector<PartsCase> cases{
      {{16, 64, 192}, {16, 64, 3, 64}, {2, 1, 0}, {3, 1, 2, 0}},
      {{16, 64, 192}, {16, 64, 3, 64}, {2, 1, 0}, {3, 1, 0, 2}},
      {{36, 37, 192}, {36, 37, 6, 32}, {2, 1, 0}, {3, 1, 2, 0}},
      {{1200, 200}, {1200, 5, 40}, {1, 0}, {2, 0, 1}},
      {{8, 100, 300}, {8, 100, 2, 150}, {2, 0, 1}, {3, 0, 1, 2}},
      {{8, 128, 1024}, {8, 128, 16, 64}, {2, 1, 0}, {3, 1, 2, 0}},
      {{2, 12, 64, 64}, {2, 12, 64, 8, 8}, {3, 2, 1, 0}, {4, 2, 1, 3, 0}},
      {{16, 1536}, {16, 64, 24}, {1, 0}, {2, 0, 1}},
      {{3, 20, 384}, {3, 20, 3, 128}, {2, 1, 0}, {3, 1, 2, 0}}};
  move_parts(
      cases, false,
      [](const PartsCase& each, ElementType, const KernelHarness::Result& cost, double estimate) {
        const auto cycles = static_cast<double>(cost.cycles);
        const std::int64_t lanes = each.parts.back();
        if (lanes % 128 == 0) {
          EXPECT_LT(cycles, 240);
        } else if (lanes >= 32) {
          EXPECT_NEAR(cycles / estimate, 1, 0.6) << estimate;
        }
      });
}

/// Parts along several dimensions in any order, and beside dimensions that are split outside of the
/// tiles, or of which the parts are a part. Boxes of few rows wait for each other, at most as long
/// as two take.
TEST(Relayout, PartsOfTheLanesGetSeveralDimensions) {
  const std::vector<PartsCase> cases{
      {{2, 3, 4, 180, 256}, {2, 3, 4, 180, 2, 2, 64}, {4, 3, 2, 1, 0}, {6, 3, 5, 2, 4, 1, 0}},
      {{2, 3, 200, 480}, {2, 3, 200, 5, 3, 32}, {3, 2, 1, 0}, {5, 2, 3, 1, 0, 4}},
      {{64, 51, 128}, {64, 204, 32}, {2, 0, 1}, {2, 0, 1}},
      {{24, 200, 128}, {4, 6, 200, 2, 64}, {2, 1, 0}, {4, 2, 3, 1, 0}}};
  move_parts(cases, false,
             [](const PartsCase&, ElementType, const KernelHarness::Result& cost, double estimate) {
               EXPECT_GT(static_cast<double>(cost.cycles), estimate);
               EXPECT_LT(static_cast<double>(cost.cycles), 3 * estimate);
             });
}

/// Lanes in turns (even and odd ones) leave for a dimension of their own outside of the tiles, and
/// come back, in one kernel: a permutation for each part of a register. It takes as long as its
/// estimate where there is enough to do.
TEST(Relayout, LanesInTurnsGetADimensionOfTheirOwn) {
  const std::vector<PartsCase> cases{
      {{16, 6000}, {16, 3000, 2}, {1, 0}, {1, 0, 2}},
      {{16, 9000}, {16, 3000, 3}, {1, 0}, {1, 0, 2}},
      {{3, 21, 640}, {3, 21, 80, 8}, {2, 1, 0}, {2, 1, 3, 0}},
      {{4, 64, 64}, {4, 64, 32, 2}, {2, 1, 0}, {2, 1, 0, 3}},
      {{4, 3, 20, 260}, {4, 3, 20, 52, 5}, {3, 2, 1, 0}, {3, 2, 1, 4, 0}},
      {{130, 40}, {65, 2, 40}, {0, 1}, {0, 2, 1}},
      {{9, 16 * 133}, {9, 133, 16}, {1, 0}, {1, 0, 2}},
      {{600, 2560}, {600, 1280, 2}, {1, 0}, {1, 0, 2}}};
  move_parts(
      cases, true,
      [](const PartsCase&, ElementType type, const KernelHarness::Result& cost, double estimate) {
        if (type != ElementType::kF32 || estimate <= 1000) return;
        EXPECT_NEAR(static_cast<double>(cost.cycles) / estimate, 1, 0.45);
      });
  const hlo::Shape whole = tiled(ElementType::kF32, {16, 600}, {1, 0});
  EXPECT_FALSE(compiler::tile_parts(whole, tiled(ElementType::kF32, {16, 300, 2}, {1, 2, 0})));
  EXPECT_FALSE(compiler::tile_parts(whole, tiled(ElementType::kF32, {16, 30, 20}, {1, 0, 2})));
}

/// Rows in turns, as pixels that are put between each other, leave for a dimension of their own and
/// come back, in one kernel: eight of them by one store or load with a distance where they fill no
/// more lanes than a tile's, else by one for each tile that they stand in.
TEST(Relayout, RowsInTurnsGetADimensionOfTheirOwn) {
  const std::vector<PartsCase> cases{
      {{3, 32, 64}, {3, 16, 2, 64}, {2, 1, 0}, {3, 1, 2, 0}},
      {{5, 42, 40}, {5, 14, 3, 40}, {2, 1, 0}, {3, 1, 2, 0}},
      {{7, 18, 200}, {7, 9, 2, 200}, {2, 1, 0}, {3, 1, 0, 2}},
      {{2, 3, 35, 300}, {2, 3, 7, 5, 300}, {3, 2, 1, 0}, {4, 2, 1, 3, 0}},
      {{40, 1024, 64}, {40, 512, 2, 64}, {2, 1, 0}, {3, 1, 2, 0}},
      {{3, 1600, 256}, {3, 200, 8, 256}, {2, 1, 0}, {3, 1, 2, 0}},
      {{64, 20, 3, 130}, {4, 16, 20, 3, 130}, {3, 0, 2, 1}, {4, 0, 3, 2, 1}}};
  move_parts(
      cases, true,
      [](const PartsCase&, ElementType type, const KernelHarness::Result& cost, double estimate) {
        if (type != ElementType::kF32 || estimate <= 1000) return;
        EXPECT_NEAR(static_cast<double>(cost.cycles) / estimate, 1, 0.45) << estimate;
      });
  const hlo::Shape whole = tiled(ElementType::kF32, {3, 32, 64}, {2, 1, 0});
  const auto parts = [](const std::vector<std::int64_t>& order) {
    return tiled(ElementType::kF32, {3, 16, 2, 64}, order);
  };
  EXPECT_TRUE(compiler::tile_parts(whole, parts({3, 1, 0, 2})));
  EXPECT_FALSE(compiler::tile_parts(whole, parts({3, 2, 1, 0})));
  EXPECT_FALSE(compiler::tile_parts(whole, parts({1, 3, 2, 0})));
}

/// Orders that a reshape asks for: the parts right outside of the tiles, or with what is major to
/// them in one dimension.
TEST(Relayout, OrdersOfParts) {
  using Orders = std::vector<std::vector<std::int64_t>>;
  const auto orders = [](const hlo::Shape& whole, const Extents& parts) {
    return compiler::orders_of_parts(whole, hlo::array_shape(whole.type, parts));
  };
  const hlo::Shape pixels = tiled(ElementType::kF32, {2, 6, 24, 96}, {3, 2, 1, 0});
  EXPECT_EQ(orders(pixels, {2, 6, 24, 3, 32}), (Orders{{0, 1, 3, 2, 4}}));
  EXPECT_EQ(orders(pixels, {2, 6, 12, 2, 96}), (Orders{{0, 1, 3, 2, 4}}));
  EXPECT_EQ(orders(pixels, {2, 6, 24, 96}), Orders());
  EXPECT_EQ(orders(tiled(ElementType::kF32, {16, 51, 128}, {2, 0, 1}), {16, 204, 32}),
            (Orders{{1, 0, 2}}));
}

/// Rows of one tile become a vector that has their elements in turns, and come back.
TEST(Relayout, RowsOfATileAreWovenToAVector) {
  struct Case {
    std::int64_t lanes, rows;
  };
  for (const auto& [lanes, rows] : std::vector<Case>{{128, 2},
                                                     {257, 3},
                                                     {1025, 7},
                                                     {2048, 8},
                                                     {40000, 2},
                                                     {300000, 2},
                                                     {99969, 3},
                                                     {98561, 3},
                                                     {100003, 5}}) {
    for (const bool joins : {false, true}) {
      const Extents parts{lanes, rows}, whole{lanes * rows};
      Move move = joins ? reshape(parts, whole) : reshape(whole, parts);
      (joins ? move.source_layout : move.target_layout) = {0, 1};
      const hlo::Shape matrix = tiled(ElementType::kF32, parts, {0, 1});
      hlo::Shape vector = hlo::array_shape(ElementType::kF32, whole);
      vector.layout = compiler::row_major_layout(vector.type, 1);
      ASSERT_TRUE(compiler::tile_parts(joins ? matrix : vector, joins ? vector : matrix));
      const KernelHarness::Result cost = check(move);
      EXPECT_EQ(cost.dma_bytes,
                static_cast<std::uint64_t>(matrix.padded_bytes() + vector.padded_bytes()));
    }
  }
}

/// Where the parts are rows of a tile, or the orders differ otherwise, it is no such reshape.
TEST(Relayout, PartsOfTheLanesStandOutsideOfTheTiles) {
  const auto shape_of = [](const Extents& extents, const std::vector<std::int64_t>& order) {
    return tiled(ElementType::kF32, extents, order);
  };
  const hlo::Shape whole = shape_of({4, 24, 192}, {2, 1, 0});
  EXPECT_TRUE(compiler::tile_parts(whole, shape_of({4, 24, 3, 64}, {3, 1, 2, 0})));
  EXPECT_FALSE(compiler::tile_parts(whole, shape_of({4, 24, 3, 64}, {3, 2, 1, 0})));
  EXPECT_FALSE(compiler::tile_parts(whole, shape_of({4, 24, 3, 64}, {3, 0, 2, 1})));
  EXPECT_FALSE(compiler::tile_parts(whole, shape_of({4, 24, 3, 64}, {1, 3, 2, 0})));
  EXPECT_FALSE(compiler::tile_parts(whole, shape_of({4, 3, 8, 192}, {3, 2, 1, 0})));
  EXPECT_FALSE(
      compiler::tile_parts(shape_of({3, 4, 192}, {2, 1, 0}), shape_of({12, 3, 64}, {2, 0, 1})));
  // Rows that are split, too.
  EXPECT_FALSE(
      compiler::tile_parts(shape_of({48, 192}, {1, 0}), shape_of({4, 12, 3, 64}, {3, 1, 0, 2})));
  // As many boxes as parts.
  const hlo::Shape long_rows = shape_of({24, 8192}, {1, 0});
  EXPECT_TRUE(compiler::tile_parts(long_rows, shape_of({24, 8, 8, 128}, {3, 0, 2, 1})));
  EXPECT_FALSE(compiler::tile_parts(long_rows, shape_of({24, 16, 8, 64}, {3, 0, 2, 1})));
}

/// The elements one behind the other in rows of 128, and eight rows that are touched for none of
/// their lanes; in whole tiles. None where one side is such rows, or has rows of the other's.
TEST(Relayout, ScratchHoldsAllElements) {
  const auto rows = [](const Extents& from, const Extents& to) {
    return compiler::ElementMover::reshape_scratch({{}, {}, from}, {{}, {}, to});
  };
  EXPECT_EQ(rows({1000, 257}, {257, 1000}), (257000 / 128 + 1 + 8 + 7) / 8 * 8);
  EXPECT_EQ(rows({1000, 257}, {2008, 128}), 0);
  EXPECT_EQ(rows({64, 600}, {64, 200, 3}), 0);
}

TEST(Relayout, LargeVectorsAreCutIntoSlabs) {
  compiler::Target small;
  small.vmem_bytes = 1 << 20;
  check(reshape({600 * 512}, {512, 600}), ElementType::kF32, small);
  check(reshape({512, 600}, {600 * 512}), ElementType::kF32, small);
  // 39 times 128 rows of three, which are three rows of a vector's tiles, and eight rows.
  check(reshape({5000 * 3}, {5000, 3}), ElementType::kF32, small);
  check(reshape({5000, 3}, {5000 * 3}), ElementType::kF32, small);
}

/// The batch stays in the lanes, in one tile of them or two; rows of some dimensions become those
/// of others.
TEST(Relayout, ReshapesOfRowsInOtherOrders) {
  const auto in_orders = [](Move move, std::vector<std::int64_t> source,
                            std::vector<std::int64_t> target) {
    move.source_layout = std::move(source);
    move.target_layout = std::move(target);
    return move;
  };
  for (ElementType type : {ElementType::kF32, ElementType::kBf16}) {
    for (std::int64_t batch : {6, 140}) {
      const Extents rows{batch, 20 * 9 * 3}, images{batch, 20, 9, 3};
      check(in_orders(reshape(rows, images), {0, 1}, {0, 3, 2, 1}), type);
      check(in_orders(reshape(images, rows), {0, 3, 2, 1}, {0, 1}), type);
    }
    check(in_orders(reshape({10, 6, 14}, {10, 6, 2, 7}), {0, 2, 1}, {0, 3, 2, 1}), type);
    check(in_orders(reshape({5, 12, 30}, {3, 20, 30}), {1, 0, 2}, {1, 0, 2}), type);
  }
}

TEST(Relayout, HeadsAreSplitAndMergedEightRowsAtATime) {
  for (ElementType type : {ElementType::kF32, ElementType::kBf16}) {
    check(reshape({3, 20, 192}, {3, 20, 3, 64}), type);
    check(reshape({3, 20, 3, 64}, {3, 20, 192}), type);
    check(reshape({24, 300}, {24, 2, 150}), type);
    check(reshape({4, 6, 2, 150}, {24, 300}), type);
    check(reshape({11, 2, 9, 20}, {11, 360}), type);
    // Rows that fill no tiles on one side only, or on both.
    check(reshape({3, 20, 192}, {3, 20, 16, 12}), type);
    check(reshape({3, 20, 16, 12}, {3, 20, 192}), type);
    check(reshape({4, 12, 3, 5, 20}, {4, 12, 300}), type);
    check(reshape({8, 450}, {8, 3, 10, 15}), type);
  }
  // A tile of 8 rows of 6 heads: so many rotations of 8 cycles each, and little else.
  const KernelHarness::Result cost = check(reshape({512, 384}, {512, 6, 64}));
  EXPECT_LT(cost.cycles, 512 / 8 * 6 * 8 * 2 + 4000);
  // 28 rows in tiles on one side, merged with the dimensions above on the other.
  const KernelHarness::Result groups = check(reshape({16, 28, 128}, {16, 28, 32, 4}));
  EXPECT_LT(groups.cycles, 16 * 4 * 32 * 8 * 2 + 4000);
}

}  // namespace
}  // namespace tpu::test::relayout_test
