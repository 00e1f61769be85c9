#include <gtest/gtest.h>

#include "tests/compiler/elementwise_check.h"
#include "workloads/compiler/kernels/lowering.h"
#include "workloads/compiler/passes/layout/layouts.h"
#include "workloads/frontend/graph_builder.h"

namespace tpu::test::embedding_test {
namespace {

using frontend::GraphBuilder;
using frontend::Tensor;
using hlo::ElementType;

struct Embedding {
  std::int64_t rows = 10, width = 100, count = 20;
  double low = 0, high = 10;  ///< Range of the indices.
  bool in_range = false;      ///< A gather is told so.
};

hlo::Module module_of(bool is_gather, const Embedding& sizes, ElementType type) {
  GraphBuilder graph("test");
  const Tensor table = graph.parameter("table", hlo::array_shape(type, {sizes.rows, sizes.width}));
  const Tensor indices =
      graph.parameter("indices", hlo::array_shape(ElementType::kS32, {sizes.count}));
  std::vector<Tensor> parameters{table, indices};
  hlo::GatherDimensions dimensions;
  dimensions.offset_dims = {1};
  dimensions.collapsed_slice_dims = {0};
  dimensions.start_index_map = {0};
  dimensions.index_vector_dim = 1;
  Tensor result;
  if (is_gather) {
    dimensions.slice_sizes = {1, sizes.width};
    dimensions.indices_in_range = sizes.in_range;
    result = graph.gather(table, indices, dimensions);
  } else {
    parameters.push_back(
        graph.parameter("updates", hlo::array_shape(type, {sizes.count, sizes.width})));
    result = graph.scatter_add(table, indices, parameters[2], dimensions);
  }
  hlo::Module module = graph.finish(result, parameters);
  compiler::assign_layouts(module);
  return module;
}

/// Lowers a gather of rows or the scatter that adds rows, and compares. The kernel.
compiler::LoweredKernel check(bool is_gather, const Embedding& sizes,
                              const compiler::Target& target = {},
                              ElementType type = ElementType::kF32,
                              KernelHarness::Result* cost = nullptr) {
  const hlo::Module module = module_of(is_gather, sizes, type);
  const hlo::Computation& entry = module.entry_computation();
  std::vector<Array> inputs;
  for (hlo::InstructionId id : entry.parameters()) {
    const bool is_index = inputs.size() == 1;
    inputs.push_back(
        random_array(entry.at(id).shape, 7, is_index ? sizes.low : -2, is_index ? sizes.high : 2));
  }
  const hlo::HloInstruction& root = entry.at(entry.root);
  const compiler::LoweredKernel lowered = compiler::lower_embedding(module, entry, root, target);
  const std::vector<Array> expected = NaiveEvaluation(module, inputs).run();
  for (DmaTiming timing : {DmaTiming::kAtOnce, DmaTiming::kLate}) {
    const auto found = run_kernel(lowered.kernel, inputs, {root.shape}, timing, cost);
    expect_close(expected[0], found[0], {1e-5, 1e-4}, is_gather ? "gather" : "scatter");
  }
  return lowered;
}

TEST(Embedding, GathersRows) {
  check(true, {10, 100, 20, 0, 10});
  check(true, {300, 300, 100, 0, 300});
  check(true, {77, 128, 1100, 0, 77});
  check(true, {77, 130, 2048, 0, 77});
  check(true, {5, 20, 3, 0, 5});
}

TEST(Embedding, ClampsIndicesOfAGather) { check(true, {30, 40, 50, -20, 60}); }

/// Indices in range are not clamped, but for those that stand behind the last one: of one group of
/// 64, of a chunk's whole ones and a part of one, behind whole chunks.
TEST(Embedding, IndicesInRangeTakeLess) {
  for (const ElementType type : {ElementType::kF32, ElementType::kBf16}) {
    for (const std::int64_t count : {20, 64, 100, 2048, 2050, 4232}) {
      const double last = 198;
      KernelHarness::Result clamped, in_range;
      check(true, {199, 128, count, 0, last, false}, {}, type, &clamped);
      check(true, {199, 128, count, 0, last, true}, {}, type, &in_range);
      if (count < 2048) continue;
      EXPECT_LT(in_range.cycles, 0.75 * static_cast<double>(clamped.cycles)) << count;
    }
    check(true, {77, 300, 150, 0, 76, true}, {}, type);
    check(true, {77, 600, 150, 0, 76, true}, {}, type);
  }
}

compiler::Target with_vmem(std::uint64_t bytes) {
  compiler::Target target;
  target.vmem_bytes = bytes;
  return target;
}

TEST(Embedding, TablesThatDoNotFitVmemGiveRowsByDmasOfTheirOwn) {
  check(true, {300, 128, 100, 0, 300}, with_vmem(256 << 10));
  check(true, {1000, 130, 1500, -3, 1010}, with_vmem(512 << 10));
}

/// Of 32 rows the pairs that they stand in and the tiles that they become, two buffers each, beside
/// 64 KiB for what finds no register; of a byte less VMEM, half of the lanes of all rows.
TEST(Embedding, RowsThatAreTooLongAreGatheredInParts) {
  const std::uint64_t whole = 2 * 32 * 12 * (2 + 1) * 512 + (64 << 10);
  const auto at_once = check(true, {2000, 1500, 50, -3, 2010}, with_vmem(whole));
  EXPECT_EQ(at_once.vmem_bytes, (2 * 32 * 12 * (2 + 1) + 8U) * 512);
  const auto halves = check(true, {2000, 1500, 50, -3, 2010}, with_vmem(whole - 1));
  EXPECT_EQ(halves.vmem_bytes, (2 * 32 * 6 * (2 + 1) + 8U) * 512);
  check(true, {2000, 1500, 1100, 0, 2000}, with_vmem(256 << 10));
  check(true, {2000, 1500, 50, 0, 2000}, with_vmem(256 << 10), ElementType::kBf16);
}

/// As many lanes of all rows as fit beside four buffers of 64 rows, a spare row and 64 KiB for what
/// finds no register; of a byte less VMEM, half of them.
TEST(Embedding, OfATableAsManyLanesAsFitStandInVmemForAGather) {
  const auto lowered = check(true, {200, 200, 500, 0, 200}, with_vmem(400 << 10));
  EXPECT_EQ(lowered.vmem_bytes, (200U + 4 * 64) * 512);
  const std::uint64_t whole = (104 + 8 + 4 * 64) * 512 * 4 + (64 << 10);
  const auto all = check(true, {100, 500, 1500, -3, 110}, with_vmem(whole));
  EXPECT_EQ(all.vmem_bytes, (104U + 4 * 64) * 512 * 4);
  const auto halves = check(true, {100, 500, 1500, -3, 110}, with_vmem(whole - 1));
  EXPECT_EQ(halves.vmem_bytes, (104U + 4 * 64) * 512 * 2);
}

/// A table of bf16 stands in VMEM as rows of 32 bits, beside two buffers of 64 of its tiles, 64
/// rows that are put together and four buffers of as many packed ones. Of two lane tiles it is
/// unpacked by 32 tile rows, which room is left for; where both have no room (of a byte less), one
/// has.
TEST(Embedding, ATableOfBf16StandsUnpackedInVmem) {
  const std::uint64_t packed_table = 2 * 64 * 4, lanes = 64 + 4 * 64 / 2;
  const auto both = check(true, {300, 200, 2000, -3, 310}, with_vmem(4 << 20), ElementType::kBf16);
  EXPECT_EQ(both.vmem_bytes, (packed_table + 2 * (lanes + 2 * 32 * 8)) * 512);
  const std::uint64_t whole = ((4 * 64 + 8 + 304) * 2 + 2 * 64 * 8) * 512 + (64 << 10);
  const auto just = check(true, {300, 200, 2000, -3, 310}, with_vmem(whole), ElementType::kBf16);
  EXPECT_EQ(just.vmem_bytes, both.vmem_bytes);
  const auto one = check(true, {300, 200, 2000, -3, 310}, with_vmem(whole - 1), ElementType::kBf16);
  EXPECT_EQ(one.vmem_bytes, (packed_table + lanes + 64 * 8) * 512);
}

TEST(Embedding, ATableIsNotFetchedForAFewRows) {
  const auto few = check(true, {9000, 100, 50, 0, 9000});
  EXPECT_LT(few.vmem_bytes, 9000U * 512);
  const auto many = check(true, {1000, 100, 500, 0, 1000});
  EXPECT_GE(many.vmem_bytes, 1000U * 512);
}

/// Fewer than a tile has are not moved, nor have a group of 32 to stand in: of each row a granule
/// for each of its lane tiles, twice, and the tiles of the result.
TEST(Embedding, OfFewRowsThoseAloneAreMoved) {
  for (const ElementType type : {ElementType::kF32, ElementType::kBf16}) {
    const std::uint64_t tile_rows = type == ElementType::kF32 ? 8 : 4;
    for (const std::int64_t count : {1, 3, 8, 9}) {
      KernelHarness::Result cost;
      const auto few = check(true, {900, 1000, count, -3, 910}, {}, type, &cost);
      const std::uint64_t tiles = count > 8 ? 2 : 1;
      EXPECT_EQ(few.vmem_bytes, (2 * 8 * tiles * 8 * (2 + 1) + 8U) * 512) << count;
      const auto moved = static_cast<std::uint64_t>(count > 8 ? 16 : count);
      const std::uint64_t indices = 4096;
      EXPECT_EQ(cost.dma_bytes, moved * 8 * 1024 + tiles * 8 * tile_rows * 512 + indices) << count;
    }
  }
}

TEST(Embedding, AddsRows) {
  check(false, {10, 100, 20, 0, 10});
  check(false, {300, 300, 100, 0, 300});
  check(false, {77, 128, 1100, 0, 77});
  check(false, {77, 130, 2048, 0, 77});
}

TEST(Embedding, SkipsIndicesOutsideTheTableOfAScatter) { check(false, {30, 40, 50, -20, 60}); }

TEST(Embedding, TablesLargerThanVmemAreCutIntoParts) {
  compiler::Target small;
  small.vmem_bytes = 256 << 10;
  check(false, {300, 300, 100, 0, 300}, small);
  check(false, {1000, 130, 200, 0, 1000}, small);
}

/// All lanes of the table and a spare row stand in VMEM, beside four buffers of 64 updates and 64
/// KiB for what finds no register; of a byte less VMEM, half of the lanes do, in two passes.
TEST(Embedding, OfATableAsManyLanesAsFitStandInVmemForAScatter) {
  const std::uint64_t rows = 304 * 2 + 8 * 2 + 4 * 64 * 2;  // Of VMEM.
  const std::uint64_t whole = rows * 512 + (64 << 10);
  EXPECT_EQ(check(false, {300, 200, 90, 0, 300}, with_vmem(whole)).vmem_bytes, rows * 512);
  EXPECT_EQ(check(false, {300, 200, 90, 0, 300}, with_vmem(whole - 1)).vmem_bytes, rows * 256);
}

/// By DMA, a few of many, and from VMEM; even and odd rows, one and three lane tiles.
TEST(Embedding, GathersRowsOfPackedTables) {
  check(true, {9000, 100, 50, 0, 9000}, {}, ElementType::kBf16);
  check(true, {9001, 300, 77, -3, 9010}, {}, ElementType::kBf16);
  check(true, {10, 100, 20, 0, 10}, {}, ElementType::kBf16);
  check(true, {1001, 300, 1100, -3, 1010}, {}, ElementType::kBf16);
}

TEST(Embedding, PackedTablesTakeNoUpdates) {
  EXPECT_THROW(check(false, {10, 100, 20, 0, 10}, {}, ElementType::kBf16), WorkloadError);
}

}  // namespace
}  // namespace tpu::test::embedding_test
