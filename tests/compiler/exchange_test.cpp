#include "workloads/compiler/kernels/collective/exchange.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "tests/compiler/run_compiled.h"
#include "workloads/hlo/hlo_reader.h"

namespace tpu::test::exchange_test {
namespace {

/// 16 chips of 4x4, 32 cores.
MachineParams sixteen_chips() {
  MachineParams params;
  params.ici.mesh_x = 4;
  params.ici.mesh_y = 4;
  return params;
}

/// Element `i` of what a core has: other cores have other numbers.
float element(std::uint32_t core, std::int64_t i) { return static_cast<float>(core * 8192 + i); }

/// Runs one operation on f32[count] of each core and compares element by element with
/// expected(core, i).
RunResult check_exchange(const std::string& call, std::int64_t count, const MachineParams& params,
                         const std::function<float(std::uint32_t, std::int64_t)>& expected) {
  const std::string type = "f32[" + std::to_string(count) + "]";
  const hlo::Module module = hlo::read_hlo_text(
      "test.hlo", "HloModule e, replica_count=" + std::to_string(params.cores()) +
                      "\nENTRY main {\n  x = " + type + " parameter(0)\n  ROOT r = " + type + " " +
                      call + "\n}\n");
  std::vector<CoreArguments> arguments(params.cores());
  for (std::uint32_t core = 0; core < params.cores(); ++core) {
    std::vector<float> values;
    for (std::int64_t i = 0; i < count; ++i) values.push_back(element(core, i));
    Bytes bytes(values.size() * sizeof(float));
    std::memcpy(bytes.data(), values.data(), bytes.size());
    arguments[core].parameters = {bytes};
  }
  const CompiledRun run = run_compiled(module, arguments, 2, params);
  for (std::uint32_t core = 0; core < params.cores(); ++core) {
    const std::vector<double> result = numbers_of(run.outputs[core].at(0));
    for (std::int64_t i = 0; i < count; ++i) {
      if (result[static_cast<std::size_t>(i)] == expected(core, i)) continue;
      ADD_FAILURE() << call << ", core " << core << ", element " << i << ": "
                    << result[static_cast<std::size_t>(i)] << " instead of " << expected(core, i);
      break;
    }
  }
  return run.result;
}

std::uint64_t sent(const RunResult& run, std::size_t core) {
  return run.cores.at(core).total.ici_bytes / 2;  // Of two steps.
}

TEST(Exchange, AllToAllSendsEachMemberItsBlockAndNoMore) {
  for (const MachineParams& params : {MachineParams(), sixteen_chips()}) {
    const std::int64_t cores = params.cores();
    const std::int64_t block = 1024;
    const RunResult run = check_exchange("all-to-all(x), dimensions={0}", cores * block, params,
                                         [&](std::uint32_t core, std::int64_t i) {
                                           return element(static_cast<std::uint32_t>(i / block),
                                                          core * block + i % block);
                                         });
    // A block for each of the others: a gather to all would be as many times as much.
    const auto blocks = static_cast<std::uint64_t>((cores - 1) * block) * sizeof(float);
    EXPECT_EQ(sent(run, 0), blocks);
    EXPECT_EQ(sent(run, params.cores() - 1), blocks);
  }
}

TEST(Exchange, AllToAllStaysInItsGroup) {
  const std::int64_t block = 1024;
  const std::vector<std::uint32_t> groups[] = {{0, 6, 3, 5}, {7, 1, 2, 4}};
  const RunResult run = check_exchange(
      "all-to-all(x), dimensions={0}, replica_groups={{0,6,3,5},{7,1,2,4}}", 4 * block, {},
      [&](std::uint32_t core, std::int64_t i) {
        for (const std::vector<std::uint32_t>& group : groups) {
          for (std::uint32_t place = 0; place < 4; ++place) {
            if (group[place] != core) continue;
            return element(group[static_cast<std::size_t>(i / block)], place * block + i % block);
          }
        }
        return -1.0F;
      });
  EXPECT_EQ(sent(run, 2), 3 * block * sizeof(float));
}

/// Whole, in pieces of which the last overlaps, to oneself, and to nobody.
TEST(Exchange, PermutePassesEachArrayOnOnce) {
  for (const MachineParams& params : {MachineParams(), sixteen_chips()}) {
    const std::uint32_t cores = params.cores();
    std::string pairs;
    std::vector<std::int64_t> source(cores, -1);
    for (std::uint32_t core = 0; core < cores; ++core) {
      if (core % 5 == 4) continue;
      const std::uint32_t to = core == 1 ? 1 : (core * 3 + 4) % cores;
      if (source[to] >= 0) continue;
      source[to] = core;
      pairs += (pairs.empty() ? "{" : ",{") + std::to_string(core) + "," + std::to_string(to) + "}";
    }
    const std::int64_t count = 5 * 1024;
    const RunResult run = check_exchange(
        "collective-permute(x), source_target_pairs={" + pairs + "}", count, params,
        [&](std::uint32_t core, std::int64_t i) {
          return source[core] < 0 ? 0.0F : element(static_cast<std::uint32_t>(source[core]), i);
        });
    EXPECT_EQ(sent(run, 0), count * sizeof(float));
    EXPECT_EQ(sent(run, 1), 0U);  // Its own.
    EXPECT_EQ(sent(run, 4), 0U);  // Nobody's.
  }
}

/// More than a DMA may take: pieces, of which the last overlaps the one before.
TEST(Exchange, LargeArraysGoInPieces) {
  const std::int64_t count = 5000 * 256;
  check_exchange(
      "collective-permute(x), source_target_pairs={{0,1},{1,0}}", count, {},
      [&](std::uint32_t core, std::int64_t i) { return core > 1 ? 0.0F : element(1 - core, i); });
}

}  // namespace
}  // namespace tpu::test::exchange_test
