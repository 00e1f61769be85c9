#include "models/machine.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <functional>
#include <random>

#include "tests/captured/functional_core.h"
#include "traces/npz.h"
#include "workloads/graph/shape.h"
#include "workloads/xla/captured_folder.h"

namespace tpu::test::machine_test {
namespace {

namespace fs = std::filesystem;
using isa::Buffer;
using isa::BufferRole;

const std::string kReference = TPUSIM_SOURCE_DIR "/../shared/xla";
constexpr std::uint32_t kCores = 8;

#define SKIP_WITHOUT(folder) \
  if (!fs::is_directory(folder)) GTEST_SKIP() << "no reference data at " << (folder)

std::vector<std::uint8_t> bytes_of(const std::vector<float>& values) {
  std::vector<std::uint8_t> bytes(values.size() * 4);
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

std::vector<float> floats_of(const std::vector<std::uint8_t>& bytes) {
  std::vector<float> values(bytes.size() / 4);
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

/// Row-major bytes of a parameter on a core.
using Inputs = std::function<std::vector<std::uint8_t>(std::uint32_t core, const Buffer& buffer)>;

/// v3-8, or the slice of 4x4 chips.
MachineParams slice_of(std::uint32_t cores) {
  MachineParams params;
  if (cores > kCores) {
    params.ici.mesh_x = 4;
    params.ici.mesh_y = 4;
  }
  return params;
}

/// Runs a program with values on the timed machine.
class TimedRun {
 public:
  TimedRun(const isa::Program& program, std::uint32_t cores, const Inputs& inputs)
      : program_(program), machine_(slice_of(cores), program) {
    RunOptions options;
    options.values = true;
    options.check_names = true;
    for (std::uint32_t core = 0; core < cores; ++core) {
      options.cores.push_back(core);
      CoreLoad load;
      for (const Buffer& buffer : program.buffers) {
        if (!buffer.data.empty()) load.hbm.push_back({buffer.granule, buffer.data});
        if (buffer.role != BufferRole::kParameter) continue;
        load.hbm.push_back(
            {buffer.granule, hlo::pack(hlo::parse_shape(buffer.shape), inputs(core, buffer))});
      }
      machine_.load(core, load);
    }
    result_ = machine_.run(options);
  }

  const RunResult& result() const { return result_; }
  std::vector<float> output(std::uint32_t core, std::uint32_t index) const {
    for (const Buffer& buffer : program_.buffers) {
      if (buffer.role != BufferRole::kOutput || buffer.index != index) continue;
      const hlo::Shape shape = hlo::parse_shape(buffer.shape);
      return floats_of(hlo::unpack(
          shape, machine_.read_hbm(core, buffer.granule, (buffer.bytes + 1023) / 1024 * 256)));
    }
    return {};
  }

 private:
  const isa::Program& program_;
  Machine machine_;
  RunResult result_;
};

/// Whole numbers, so that sums are exact in any order: partition p's share of an array.
std::vector<float> share(std::uint32_t partition, std::size_t count) {
  std::mt19937 random(partition);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(random() % 17) - 8;
  return values;
}

TEST(CapturedMachine, MatmulTakesTheCyclesOfSiliconAndGivesTheValuesOfTheCoreWithoutTime) {
  const std::string folder = kReference + "/ops/matmul_f32_512x512x512";
  SKIP_WITHOUT(folder);
  const isa::Program program = xla::load_captured(folder, "v3");
  const auto input = [](std::uint32_t, const Buffer& buffer) {
    return bytes_of(share(buffer.index, 512 * 512));
  };
  const TimedRun timed(program, 1, input);
  FunctionalCore functional(program, true);
  for (const Buffer& buffer : program.buffers) {
    if (buffer.role != BufferRole::kParameter) continue;
    functional.hbm.load(buffer.granule,
                        hlo::pack(hlo::parse_shape(buffer.shape), input(0, buffer)));
  }
  functional.run();
  for (const Buffer& buffer : program.buffers) {
    if (buffer.role != BufferRole::kOutput) continue;
    EXPECT_EQ(timed.output(0, 0),
              floats_of(hlo::unpack(hlo::parse_shape(buffer.shape),
                                    functional.hbm.words(buffer.granule, buffer.bytes))));
  }
  EXPECT_EQ(timed.result().cores[0].total.bundles, functional.bundles);
  EXPECT_GT(timed.result().cycles, functional.cycles);
  // Silicon: 9,490 cycles.
  EXPECT_NEAR(static_cast<double>(timed.result().cycles), 9490, 0.06 * 9490);
}

/// A collective of all cores on one array; expected(partition) is its result there.
void expect_collective(const std::string& name,
                       const std::function<std::vector<float>(std::uint32_t)>& expected,
                       std::size_t elements, std::uint32_t cores = kCores) {
  const std::string folder = kReference + "/ops/" + name;
  SKIP_WITHOUT(folder);
  const isa::Program program = xla::load_captured(folder, "v3");
  ASSERT_EQ(program.cores, cores);
  const MachineParams params = slice_of(cores);
  const TimedRun run(program, cores, [&](std::uint32_t core, const Buffer&) {
    return bytes_of(share(params.partition_of(core), elements));
  });
  for (std::uint32_t core = 0; core < cores; ++core) {
    const std::vector<float> found = run.output(core, 0);
    const bool same = found == expected(params.partition_of(core));
    EXPECT_TRUE(same) << name << ", core " << core;
  }
}

std::vector<float> sum_of_shares(std::size_t elements, std::uint32_t cores = kCores) {
  std::vector<float> sum(elements);
  for (std::uint32_t p = 0; p < cores; ++p) {
    const std::vector<float> values = share(p, elements);
    for (std::size_t k = 0; k < elements; ++k) sum[k] += values[k];
  }
  return sum;
}

TEST(CapturedMachine, AllReduceSumsOverEightCores) {
  constexpr std::size_t kElements = 8 * 128;
  expect_collective(
      "all_reduce_f32_8x128_n8", [&](std::uint32_t) { return sum_of_shares(kElements); },
      kElements);
}

TEST(CapturedMachine, AllReduceSumsOverThirtyTwoCores) {
  constexpr std::size_t kElements = 8 * 128;
  expect_collective(
      "all_reduce_f32_8x128_n32", [&](std::uint32_t) { return sum_of_shares(kElements, 32); },
      kElements, 32);
}

TEST(CapturedMachine, PermutationMovesAlongTheRingOfThirtyTwoPartitions) {
  constexpr std::size_t kElements = 512 * 128;
  expect_collective(
      "permute_ring_f32_512x128_n32",
      [&](std::uint32_t partition) { return share((partition + 31) % 32, kElements); }, kElements,
      32);
}

TEST(CapturedMachine, ReduceScatterGivesEachOfThirtyTwoPartitionsItsRows) {
  constexpr std::size_t kElements = 512 * 128;
  const std::vector<float> sum = sum_of_shares(kElements, 32);
  expect_collective(
      "reduce_scatter_f32_512x128_n32",
      [&](std::uint32_t partition) {
        const auto begin = sum.begin() + static_cast<std::ptrdiff_t>(partition * kElements / 32);
        return std::vector<float>(begin, begin + kElements / 32);
      },
      kElements, 32);
}

TEST(CapturedMachine, ReduceScatterGivesEachPartitionItsRows) {
  constexpr std::size_t kElements = 512 * 128;
  const std::vector<float> sum = sum_of_shares(kElements);
  expect_collective(
      "reduce_scatter_f32_512x128_n8",
      [&](std::uint32_t partition) {
        const auto begin =
            sum.begin() + static_cast<std::ptrdiff_t>(partition * kElements / kCores);
        return std::vector<float>(begin, begin + kElements / kCores);
      },
      kElements);
}

TEST(CapturedMachine, PermutationMovesAlongTheRingOfPartitions) {
  constexpr std::size_t kElements = 8 * 128;
  expect_collective(
      "permute_ring_f32_8x128_n8",
      [&](std::uint32_t partition) { return share((partition + kCores - 1) % kCores, kElements); },
      kElements);
}

TEST(CapturedMachine, AllToAllExchangesRows) {
  constexpr std::size_t kElements = 8 * 128;
  expect_collective(
      "all_to_all_f32_8x128_n8",
      [&](std::uint32_t partition) {
        std::vector<float> rows;
        for (std::uint32_t p = 0; p < kCores; ++p) {
          const std::vector<float> values = share(p, kElements);
          rows.insert(rows.end(), values.begin() + partition * 128,
                      values.begin() + (partition + 1) * 128);
        }
        return rows;
      },
      kElements);
}

/// Eight cores that train on the same examples take the mean of eight equal gradients: the step of
/// one core, launch and all-reduce included.
TEST(CapturedMachine, DataParallelStepOnEqualSharesIsTheStepOfOneCore) {
  const std::string single = kReference + "/programs/lenet_b128";
  SKIP_WITHOUT(single);
  const traces::NpzFile values = traces::read_npz(single + "/values.npz");
  const isa::Program program = xla::load_captured(kReference + "/programs/lenet_b128_dp8", "v3");
  const TimedRun run(program, kCores, [&](std::uint32_t, const Buffer& buffer) {
    const std::string digits = std::to_string(buffer.index);
    return values.at("arg_" + std::string(3 - digits.size(), '0') + digits).bytes;
  });
  int compared = 0;
  for (const Buffer& buffer : program.buffers) {
    if (buffer.role != BufferRole::kOutput) continue;
    const std::string digits = std::to_string(buffer.index);
    const auto recorded = values.find("bf16_" + std::string(3 - digits.size(), '0') + digits);
    const std::vector<float> found = run.output(0, buffer.index);
    for (std::uint32_t core = 1; core < kCores; ++core) {
      EXPECT_EQ(run.output(core, buffer.index), found) << buffer.index;
    }
    if (recorded == values.end()) continue;  // Only samples are recorded.
    const std::vector<double> expected = traces::to_doubles(recorded->second);
    double difference = 0;
    double norm = 0;
    for (std::size_t k = 0; k < expected.size(); ++k) {
      difference += (found[k] - expected[k]) * (found[k] - expected[k]);
      norm += expected[k] * expected[k];
    }
    EXPECT_LT(std::sqrt(difference / norm), 1e-5) << buffer.index;
    ++compared;
  }
  EXPECT_GT(compared, 10);
}

}  // namespace
}  // namespace tpu::test::machine_test
