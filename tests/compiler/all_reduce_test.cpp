#include "workloads/compiler/kernels/collective/all_reduce.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <random>
#include <set>

#include "models/machine.h"
#include "sim/base/error.h"
#include "tests/compiler/machine_target.h"
#include "workloads/compiler/kernels/collective/mesh_all_reduce.h"
#include "workloads/compiler/kernels/collective/mesh_cut.h"

namespace tpu::test::all_reduce_test {
namespace {

using compiler::AllReduceShape;
using compiler::Target;

constexpr std::uint32_t kFirstGranule = 3;
constexpr std::uint32_t kWordsPerGranule = 256;

/// A program whose only op is the all-reduce of the range behind granule 3.
isa::Program all_reduce_program(const AllReduceShape& shape, const Target& target) {
  isa::Program program;
  program.name = "all-reduce";
  program.chip = target.chip;
  program.cores = target.cores;
  isa::Kernel top;
  top.name = "top";
  isa::Instruction move;
  move.opcode = isa::Opcode::kSmov;
  move.dest = 0;
  move.operands[0] = isa::Operand::immediate_(kFirstGranule);
  isa::Instruction call;
  call.opcode = isa::Opcode::kCall;
  call.operands[0] = isa::Operand::immediate_(0);
  top.instructions = {move, call};
  top.bundles = {{0, 1, 0}, {1, 1, 0}};
  program.kernels = {top, compiler::all_reduce_kernel(shape, target)};
  program.call_sites.resize(1);
  program.call_sites[0].kernel = 1;
  program.ops.resize(1);
  program.ops[0].name = "all-reduce";
  isa::Buffer buffer;
  buffer.name = "gradients";
  buffer.granule = kFirstGranule;
  buffer.bytes = shape.granules * 1024;
  program.buffers = {buffer};
  return program;
}

std::vector<std::uint32_t> cores_up_to(std::uint32_t count) {
  std::vector<std::uint32_t> cores(count);
  for (std::uint32_t i = 0; i < count; ++i) cores[i] = i;
  return cores;
}

/// Small whole numbers: their sums are exact in any order.
std::vector<std::uint32_t> whole_numbers(std::uint64_t words, std::uint32_t seed) {
  std::mt19937 engine(seed);
  std::vector<std::uint32_t> values(words);
  for (std::uint32_t& word : values) {
    const float value = static_cast<float>(static_cast<int>(engine() % 2001) - 1000);
    std::memcpy(&word, &value, sizeof word);
  }
  return values;
}

float as_float(std::uint32_t word) {
  float value = 0;
  std::memcpy(&value, &word, sizeof value);
  return value;
}

/// The shape of the ring of all cores, also where the mesh is cheaper.
AllReduceShape ring_shape(std::uint64_t granules, const Target& target) {
  AllReduceShape shape = compiler::all_reduce_shape(granules, target);
  shape.mesh = {};
  shape.granules =
      std::uint64_t{shape.streams} * target.cores * shape.rounds * shape.chunk_granules;
  return shape;
}

/// The shape along the dimensions, also where the ring is cheaper.
AllReduceShape mesh_shape(std::uint64_t granules, const Target& target) {
  AllReduceShape shape = compiler::all_reduce_shape(granules, target);
  shape.mesh = compiler::cheapest_mesh_shape(granules, target);
  EXPECT_GT(shape.mesh.buckets, 0U);
  shape.granules = std::uint64_t{shape.mesh.buckets} * shape.mesh.bucket_granules;
  return shape;
}

/// Runs so many steps and checks every word on every core: each step multiplies the sum by the
/// number of cores.
RunResult check_sums(const MachineParams& params, std::uint32_t cores, std::uint64_t granules,
                     std::uint32_t steps, bool ring) {
  const Target target = target_of(params, cores);
  const AllReduceShape shape = ring ? ring_shape(granules, target) : mesh_shape(granules, target);
  EXPECT_GE(shape.granules, granules);
  const isa::Program program = all_reduce_program(shape, target);
  Machine machine(params, program);
  const std::uint64_t words = shape.granules * kWordsPerGranule;
  std::vector<double> sums(words, 0);
  for (std::uint32_t core = 0; core < cores; ++core) {
    CoreLoad load;
    load.hbm = {{kFirstGranule, whole_numbers(granules * kWordsPerGranule, 100 + core)}};
    const std::vector<std::uint32_t>& own = load.hbm[0].words;
    for (std::uint64_t i = 0; i < own.size(); ++i) sums[i] += as_float(own[i]);
    machine.load(core, load);
  }
  RunOptions options;
  options.steps = steps;
  options.values = true;
  options.cores = cores_up_to(cores);
  const RunResult result = machine.run(options);
  const double growth = std::pow(cores, steps - 1);
  for (std::uint32_t core = 0; core < cores; ++core) {
    const std::vector<std::uint32_t> after = machine.read_hbm(core, kFirstGranule, words);
    for (std::uint64_t i = 0; i < words; ++i) {
      if (as_float(after[i]) == sums[i] * growth) continue;
      ADD_FAILURE() << "core " << core << " word " << i << ": " << as_float(after[i])
                    << " instead of " << sums[i] * growth;
      break;
    }
  }
  return result;
}

TEST(AllReduce, EveryCoreEndsWithTheSumOfAll) {
  for (std::uint32_t cores : {2U, 4U, 8U}) {
    for (std::uint64_t granules : {1U, 150U, 1000U}) {
      SCOPED_TRACE(std::to_string(cores) + " cores, " + std::to_string(granules) + " granules");
      check_sums({}, cores, granules, 1, true);
    }
  }
}

TEST(AllReduce, SeveralRoundsAndSeveralStepsKeepTheirFlagsApart) {
  // More than one round: 4 streams x 8 cores x 256 granules make one.
  const AllReduceShape shape = compiler::all_reduce_shape(9000, target_of({}, 8));
  EXPECT_EQ(shape.rounds, 2U);
  check_sums({}, 8, 9000, 2, true);
}

TEST(AllReduce, RunsOnV2) {
  check_sums(v2_8(), 8, 300, 2, true);
  check_sums(v2_8(), 8, 300, 2, false);
}

TEST(AllReduce, RunsOnASliceOfSixteenChips) {
  MachineParams params;
  params.ici.mesh_x = 4;
  params.ici.mesh_y = 4;
  check_sums(params, 32, 500, 1, true);
}

MachineParams mesh(std::uint32_t x, std::uint32_t y, bool wrap_x, bool wrap_y) {
  MachineParams params;
  params.ici.mesh_x = x;
  params.ici.mesh_y = y;
  params.ici.wrap_x = wrap_x;
  params.ici.wrap_y = wrap_y;
  params.core.vmem_mib = 1;  // Small buckets.
  return params;
}

TEST(MeshAllReduce, EveryCoreEndsWithTheSumOfAll) {
  for (const MachineParams& params :
       {mesh(2, 2, false, false), mesh(4, 2, false, false), mesh(2, 4, false, true),
        mesh(4, 4, true, true), mesh(4, 4, false, false), mesh(1, 2, false, false)}) {
    // Parts of less than a register, several buckets, a range that they do not fill.
    for (const std::uint64_t granules : {1U, 24U, 150U, 1000U}) {
      const std::uint32_t cores = params.cores();
      SCOPED_TRACE(std::to_string(cores) + " cores, " + std::to_string(granules) + " granules");
      check_sums(params, cores, granules, 2, false);
    }
  }
}

RunResult timed(const AllReduceShape& shape, const MachineParams& params, bool full) {
  const isa::Program program = all_reduce_program(shape, target_of(params, params.cores()));
  Machine machine(params, program);
  RunOptions options;
  options.pod_full = full;
  options.steps = 2;
  return machine.run(options);
}

TEST(MeshAllReduce, LargeSegmentsTravelInTwoParts) {
  for (MachineParams params : {mesh(4, 1, false, false), mesh(4, 1, true, false)}) {
    SCOPED_TRACE(params.topology().text());
    params.core.vmem_mib = 4;
    const AllReduceShape shape = mesh_shape(2000, target_of(params, params.cores()));
    const std::uint32_t members = params.ici.mesh_x;
    EXPECT_EQ(compiler::segment_parts(shape.mesh.bucket_granules / 2 / members, members), 2U);
    check_sums(params, params.cores(), 2000, 2, false);
  }
}

/// While one part's latency passes the other one is on the links: without parts the steps of 8x8
/// chips that do not wrap take their latency each.
TEST(MeshAllReduce, PartsHideTheLatencyOfLongSides) {
  MachineParams params = mesh(8, 8, false, false);
  params.core.vmem_mib = 16;
  const Target target = target_of(params, params.cores());
  const AllReduceShape shape = mesh_shape(24000, target);
  const RunResult result = timed(shape, params, false);
  // Of half of the range seven eighths cross the links of a line twice, then an eighth of it.
  const double link_bytes_per_cycle = params.ici.link_mbps * 1e6 / 8 / (params.clock_mhz * 1e6);
  const double bytes = 24000 * 1024.0 / 2 * 2 * (7.0 / 8 + 7.0 / 64);
  const double step = static_cast<double>(result.cycles) / 2;
  EXPECT_GT(step, bytes / link_bytes_per_cycle);
  EXPECT_LT(step, 1.9 * bytes / link_bytes_per_cycle);
}

/// Sides of one step, of several from the nearer side, of more than the cost model would cut.
TEST(MeshAllReduce, LongSidesTakePartsFromBothWaysRound) {
  for (const MachineParams& params : {mesh(8, 1, true, false), mesh(1, 16, false, true)}) {
    SCOPED_TRACE(params.topology().text());
    check_sums(params, params.cores(), 300, 2, false);
  }
}

/// A ring of 16 chips has 8 steps each way, not 15: its hops alone say so.
TEST(MeshAllReduce, TakesHalfARingOfStepsForEachHalf) {
  MachineParams params = mesh(1, 16, false, true);
  params.core.vmem_mib = 16;
  const Target target = target_of(params, params.cores());
  const RunResult result = timed(mesh_shape(64, target), params, false);
  const double hop = params.ici.hop_latency_ns * 1e-3 * params.clock_mhz;
  const double step = static_cast<double>(result.cycles) / 2;
  EXPECT_GT(step, 2 * 8 * hop);
  EXPECT_LT(step, 2 * 15 * hop);
}

TEST(MeshAllReduce, OneChipOfTwoCoresToo) {
  check_sums(mesh(1, 1, false, false), 2, 100, 2, false);
}

TEST(MeshAllReduce, IsFasterThanTheRingAndTheSameOnAllCoresOfASquare) {
  for (const std::uint32_t side : {2U, 4U}) {
    MachineParams params = mesh(side, side, true, true);
    params.core.vmem_mib = 16;
    const Target target = target_of(params, params.cores());
    const AllReduceShape shape = mesh_shape(6000, target);
    const RunResult folded = timed(shape, params, false);
    EXPECT_EQ(folded.simulated_cores, 1U);
    EXPECT_EQ(folded.cycles, timed(shape, params, true).cycles);
    if (side == 2) continue;  // There the ring has as much to do, and fewer steps alone.
    EXPECT_LT(folded.cycles, timed(ring_shape(6000, target), params, true).cycles);
  }
}

/// Of each quarter of a mesh, or eighth of a cuboid, one chip, on a ring one of a side's half; the
/// cores of a chip are the same transposed on a square, where they share no links.
std::uint64_t places_that_differ(const isa::Topology& slice) {
  std::uint64_t places = 1;
  for (const std::size_t d : {0U, 1U, 2U}) {
    const isa::Topology::Dimension& along = slice.dimension(d);
    if (!along.wraps && along.size > 1) places *= along.size / 2;
  }
  const bool square = slice.dimension(0).size == slice.dimension(1).size;
  return square && slice.dimension(2).size == 1 ? places : 2 * places;
}

void expect_folded_to_the_same_cycles(const MachineParams& params, std::uint64_t granules) {
  SCOPED_TRACE(params.topology().text() + ", " + std::to_string(granules) + " granules");
  const AllReduceShape shape = mesh_shape(granules, target_of(params, params.cores()));
  const RunResult folded = timed(shape, params, false), full = timed(shape, params, true);
  EXPECT_LE(folded.simulated_cores, places_that_differ(params.topology()));
  for (std::size_t core = 0; core < full.cores.size(); ++core) {
    EXPECT_EQ(folded.cores[core].end_cycle, full.cores[core].end_cycle) << core;
  }
}

/// On sides that do not wrap cores stand differently; each takes the cycles that it takes by
/// itself.
TEST(MeshAllReduce, FoldsOnEverySliceToTheSameCycles) {
  for (const MachineParams& params :
       {mesh(4, 4, false, false), mesh(8, 8, false, false), mesh(2, 8, false, true),
        mesh(4, 8, false, true), mesh(8, 4, true, false), mesh(8, 8, true, true)}) {
    expect_folded_to_the_same_cycles(params, 900);
  }
}

MachineParams cuboid(std::array<std::uint32_t, 3> sides, std::array<bool, 3> wraps) {
  MachineParams params = mesh(sides[0], sides[1], wraps[0], wraps[1]);
  params.ici.mesh_z = sides[2];
  params.ici.wrap_z = wraps[2];
  return params;
}

TEST(MeshAllReduce, GoesAlongThreeDimensions) {
  for (const MachineParams& params :
       {cuboid({2, 2, 2}, {}), cuboid({2, 4, 2}, {false, true, false}), cuboid({1, 2, 4}, {}),
        cuboid({1, 1, 4}, {})}) {
    // Parts of less than a register, several buckets, a range that they do not fill.
    for (const std::uint64_t granules : {1U, 150U, 1000U}) {
      SCOPED_TRACE(params.topology().text() + ", " + std::to_string(granules) + " granules");
      check_sums(params, params.cores(), granules, 2, false);
    }
  }
  MachineParams large = cuboid({4, 1, 4}, {true, false, false});
  large.core.vmem_mib = 4;  // Segments in two parts.
  check_sums(large, large.cores(), 2000, 1, false);
}

/// A line is a line, whichever dimension it is: 15 steps of hops and links either way.
TEST(MeshAllReduce, TheThirdDimensionTakesTheTimeOfTheSecond) {
  const auto cycles = [](const MachineParams& params) {
    const AllReduceShape shape = mesh_shape(64, target_of(params, params.cores()));
    return static_cast<double>(timed(shape, params, true).cycles);
  };
  const double along_y = cycles(cuboid({1, 16, 1}, {false, true, false}));
  EXPECT_NEAR(cycles(cuboid({1, 1, 16}, {false, false, true})) / along_y, 1, 0.01);
}

/// On a torus one chip is simulated for all: its cores share the links along z, on which one of
/// them goes first. On a mesh the cores of each mirror image are alike.
TEST(MeshAllReduce, FoldsOnSlicesOfThreeDimensions) {
  const MachineParams torus = cuboid({4, 2, 4}, {true, true, true});
  const AllReduceShape shape = all_reduce_shape(300, target_of(torus, torus.cores()));
  EXPECT_GT(shape.mesh.buckets, 0U);
  const RunResult folded = timed(shape, torus, false), full = timed(shape, torus, true);
  EXPECT_LE(folded.simulated_cores, 2U);
  for (std::size_t core = 0; core < full.cores.size(); ++core) {
    EXPECT_EQ(folded.cores[core].end_cycle, full.cores[core].end_cycle) << core;
  }
  EXPECT_LT(folded.cycles,
            timed(ring_shape(300, target_of(torus, torus.cores())), torus, true).cycles);
  expect_folded_to_the_same_cycles(cuboid({2, 2, 4}, {}), 300);
}

/// Segments in two parts are on the links at once, and what one core forwards meets what another
/// one sends in the same cycle: on both halves of a side with the same outcome.
TEST(MeshAllReduce, LargeRangesFoldAsSmallOnes) {
  for (MachineParams params : {mesh(4, 4, false, false), mesh(4, 8, false, false),
                               mesh(8, 8, false, false), mesh(4, 8, false, true)}) {
    params.core.vmem_mib = 16;
    expect_folded_to_the_same_cycles(params, 12000);
  }
}

/// The cores of a chip begin along different sides, also where these differ, so the links of both
/// work at once. If both cores began along the same side, one dimension after the other would carry
/// two halves of the range.
TEST(MeshAllReduce, BothSidesOfAnOblongWorkAtOnce) {
  for (MachineParams params : {mesh(4, 8, false, false), mesh(8, 2, false, false)}) {
    SCOPED_TRACE(params.topology().text());
    check_sums(params, params.cores(), 150, 2, false);
    check_sums(params, params.cores(), 1000, 2, false);
    params.core.vmem_mib = 16;
    const Target target = target_of(params, params.cores());
    constexpr double kGranules = 100'000;
    const RunResult result = timed(mesh_shape(100'000, target), params, false);
    const double link_bytes_per_cycle = params.ici.link_mbps * 1e6 / 8 / (params.clock_mhz * 1e6);
    const double x = params.ici.mesh_x, y = params.ici.mesh_y;
    // Of a line of n chips its busiest link carries (n - 1) / n of what goes round, back and forth;
    // along the second side goes what a core has of the first.
    const auto half = [&](double first, double second) {
      return 2 * ((first - 1) / first + (second - 1) / second / first) * kGranules * 1024 / 2 /
             link_bytes_per_cycle;
    };
    const double step = static_cast<double>(result.cycles) / 2;
    EXPECT_GT(step, std::max(half(x, y), half(y, x)));
    EXPECT_LT(step, 2 * std::min(half(x, y), half(y, x)));
  }
}

/// Where sides do not wrap both ways of a line share its links: the mesh is dearer than a ring
/// there, but by less than half, and one core is simulated for all that stand alike.
TEST(MeshAllReduce, IsTakenOnEverySliceOfTwoSides) {
  for (const auto& [x, y] :
       {std::pair(4U, 8U), std::pair(8U, 8U), std::pair(8U, 16U), std::pair(16U, 16U)}) {
    MachineParams params = mesh(x, y, false, false);
    params.core.vmem_mib = 16;
    const Target target = target_of(params, params.cores());
    const AllReduceShape shape = all_reduce_shape(100'000, target);
    EXPECT_GT(shape.mesh.buckets, 0U) << x << 'x' << y;
    EXPECT_LT(all_reduce_cycles(shape, target),
              1.5 * all_reduce_cycles(ring_shape(100'000, target), target))
        << x << 'x' << y;
  }
}

/// Links that cost nothing leave what the memory takes: a ring reads and writes its range there,
/// too, so it is no cheaper than the mesh, which folds.
TEST(MeshAllReduce, IsTakenWhereTheMemoryBoundsBoth) {
  MachineParams params = mesh(2, 2, false, false);
  params.core.vmem_mib = 16;
  params.ici.link_mbps = 1'000'000'000;
  params.ici.hop_latency_ns = params.ici.local_latency_ns = 0;
  const Target target = target_of(params, params.cores());
  const AllReduceShape ring = ring_shape(100'000, target);
  const double once = static_cast<double>(ring.granules) * 1024 / target.hbm_bytes_per_cycle;
  EXPECT_EQ(all_reduce_cycles(ring, target), 2 * once);
  EXPECT_GT(static_cast<double>(timed(ring, params, true).cycles) / 2, 2 * once);
  EXPECT_GT(all_reduce_shape(100'000, target).mesh.buckets, 0U);
}

/// The side that wraps, or the longer one, has the shorter ring for whole buckets.
TEST(MeshAllReduce, BucketsGoFirstAlongTheSideOnWhichTheyTakeLess) {
  const auto y_first = [](const MachineParams& params) {
    return mesh_shape(900, target_of(params, params.cores())).mesh.y_first;
  };
  EXPECT_TRUE(y_first(mesh(4, 4, false, true)));
  EXPECT_FALSE(y_first(mesh(4, 4, true, false)));
  check_sums(mesh(2, 8, false, true), 32, 150, 2, false);
  check_sums(mesh(4, 4, false, true), 32, 150, 2, false);
}

TEST(AllReduce, NeighboursInTheRingAreNeighboursInTheMesh) {
  for (const auto& [width, height] :
       {std::pair<std::uint32_t, std::uint32_t>{2, 2}, {4, 4}, {8, 8}, {16, 16}, {4, 3}, {3, 4}}) {
    Target target;
    target.slice = isa::Topology({{{width, false}, {height, false}, {1, false}}});
    target.cores = 2 * width * height;
    const std::vector<std::uint32_t> ring = compiler::ring_of_chips(target);
    EXPECT_EQ(std::set<std::uint32_t>(ring.begin(), ring.end()).size(), width * height);
    for (std::size_t i = 0; i < ring.size(); ++i) {
      const std::int64_t a = ring[i], b = ring[(i + 1) % ring.size()];
      const std::int64_t w = width;
      EXPECT_EQ(std::abs(a % w - b % w) + std::abs(a / w - b / w), 1)
          << width << "x" << height << ": chip " << a << " to chip " << b;
    }
  }
}

/// A ring's kernel on blocks: operand behind granule 3, result behind that.
isa::Program block_program(const AllReduceShape& shape, const Target& target,
                           std::uint64_t operand_granules, std::uint64_t result_granules) {
  isa::Program program = all_reduce_program(shape, target);
  isa::Instruction move = program.kernels[0].instructions[0];
  move.dest = 1;
  move.operands[0] =
      isa::Operand::immediate_(static_cast<std::uint32_t>(kFirstGranule + operand_granules));
  isa::Kernel& top = program.kernels[0];
  top.instructions.insert(top.instructions.begin(), move);
  top.bundles = {{0, 1, 0}, {1, 1, 0}, {2, 1, 0}};
  program.buffers[0].bytes = (operand_granules + result_granules) * 1024;
  return program;
}

RunResult run_blocks(const MachineParams& params, compiler::RingKind kind, std::uint64_t granules) {
  const Target target = target_of(params, 8);
  const AllReduceShape shape = compiler::ring_block_shape(kind, granules, target);
  const bool gathers = kind == compiler::RingKind::kAllGather;
  const isa::Program program = block_program(shape, target, gathers ? granules : 8 * granules,
                                             gathers ? 8 * granules : granules);
  Machine machine(params, program);
  RunOptions options;
  options.cores = cores_up_to(8);
  return machine.run(options);
}

TEST(AllReduce, GatherAndScatterTakeHalfOfItEach) {
  MachineParams params;
  const std::uint64_t granules = 4096;  // A block of 4 MiB.
  const double link_bytes_per_cycle = params.ici.link_mbps * 1e6 / 8 / (params.clock_mhz * 1e6);
  // Each direction of a link carries the halves of all blocks but one.
  const double bound = 7 * granules * 1024.0 / 2 / link_bytes_per_cycle;
  for (const compiler::RingKind kind :
       {compiler::RingKind::kAllGather, compiler::RingKind::kReduceScatter}) {
    const auto cycles = static_cast<double>(run_blocks(params, kind, granules).cycles);
    EXPECT_GT(cycles, bound);
    EXPECT_LT(cycles, 1.4 * bound);
  }
}

TEST(AllReduce, RefusesCoresThatFillNoRowsOfTheSlice) {
  Target target;
  target.cores = 6;
  EXPECT_THROW(compiler::ring_of_chips(target), WorkloadError);
  target.cores = 3;
  EXPECT_THROW(compiler::ring_of_chips(target), WorkloadError);
}

TEST(AllReduce, BothDirectionsOfTheLinksWork) {
  MachineParams params;
  const std::uint64_t granules = 32768;  // 32 MiB of gradients.
  const Target target = target_of(params, 8);
  const AllReduceShape shape = compiler::all_reduce_shape(granules, target);
  const isa::Program program = all_reduce_program(shape, target);
  Machine machine(params, program);
  RunOptions options;
  options.cores = cores_up_to(8);
  const RunResult result = machine.run(options);
  // Each direction of a link carries 2 (n - 1) / n of half the range.
  const double link_bytes_per_cycle = params.ici.link_mbps * 1e6 / 8 / (params.clock_mhz * 1e6);
  const double bytes = shape.granules * 1024.0 / 2 * 2 * 7 / 8;
  const double bound = bytes / link_bytes_per_cycle;
  EXPECT_GT(static_cast<double>(result.cycles), bound);
  EXPECT_LT(static_cast<double>(result.cycles), 1.4 * bound);
}

}  // namespace
}  // namespace tpu::test::all_reduce_test
