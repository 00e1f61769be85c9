#include "workloads/compiler/kernels/collective/bucket_all_reduce.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <set>
#include <string>

#include "tests/compiler/run_compiled.h"
#include "workloads/compiler/compiler.h"
#include "workloads/hlo/hlo_reader.h"

namespace tpu::test::bucket_all_reduce_test {
namespace {

using compiler::Target;

constexpr int kLayers = 5;

/// Products one behind the other, each with a gradient of its own that is known when it ends; all
/// gradients are reduced at the end: for each g_i = sum over cores of (x_i transposed times x_i).
hlo::Module chain(std::uint32_t cores, std::int64_t width) {
  const std::string f32 = "f32[" + std::to_string(width) + "," + std::to_string(width) + "]";
  std::string text = "HloModule chain, replica_count=" + std::to_string(cores) +
                     "\nadd {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n"
                     "  ROOT s = f32[] add(a, b)\n}\nENTRY main {\n  x0 = " +
                     f32 + " parameter(0)\n";
  std::string names, types;
  for (int i = 0; i < kLayers; ++i) {
    const std::string n = std::to_string(i), x = "x" + n;
    text += "  g" + n + " = " + f32 + " dot(" + x + ", " + x +
            "), lhs_contracting_dims={0}, rhs_contracting_dims={0}\n";
    text += "  x" + std::to_string(i + 1) + " = " + f32 + " dot(" + x +
            ", x0), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n";
    names += (i > 0 ? ", g" : "g") + n;
    types += (i > 0 ? ", " : "") + f32;
  }
  text += "  r = (" + types + ") all-reduce(" + names + "), replica_groups={}, to_apply=add\n";
  std::string results;
  for (int i = 0; i < kLayers; ++i) {
    const std::string n = std::to_string(i);
    text += "  s" + n + " = " + f32 + " get-tuple-element(r), index=" + n + "\n";
    results += "s" + n + ", ";
  }
  text += "  ROOT t = (" + types + ", " + f32 + ") tuple(" + results + "x" +
          std::to_string(kLayers) + ")\n}\n";
  return hlo::read_hlo_text("chain.hlo", text);
}

/// Powers of two on the diagonal and zeros: products and sums are exact in bf16 and f32.
Bytes diagonal(std::uint32_t core, std::int64_t width) {
  std::vector<float> values(width * width, 0);
  for (std::int64_t i = 0; i < width; ++i) {
    values[static_cast<std::size_t>(i * width + i)] = (i + core) % 3 == 0 ? 2.0F : 1.0F;
  }
  Bytes bytes(values.size() * sizeof(float));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

struct Ran {
  isa::Program program;
  RunResult result;
  std::vector<std::vector<double>> outputs;  ///< Of core 1, by result.
};

Ran run_chain(const MachineParams& params, std::int64_t width, std::uint64_t bucket_bytes,
              std::uint32_t steps) {
  const std::uint32_t cores = params.cores();
  const hlo::Module module = chain(cores, width);
  Target target = target_of(params, cores);
  target.bucket_bytes = bucket_bytes;
  Ran ran;
  ran.program = compiler::compile(module, target);
  Machine machine(params, ran.program);
  for (std::uint32_t core = 0; core < cores; ++core) {
    CoreArguments arguments;
    arguments.parameters = {diagonal(core, width)};
    machine.load(core, load_of(module, ran.program, arguments));
  }
  RunOptions options;
  options.steps = steps;
  options.values = true;
  ran.result = machine.run(options);
  for (const compiler::HostArray& array : outputs_of(module, ran.program, machine, 1)) {
    ran.outputs.push_back(numbers_of(array));
  }
  return ran;
}

std::vector<std::string> collectives(const isa::Program& program) {
  std::vector<std::string> names;
  for (const isa::OpInfo& op : program.ops) {
    if (op.category == "all-reduce") names.push_back(op.name);
  }
  return names;
}

MachineParams slice(std::uint32_t x, std::uint32_t y) {
  MachineParams params;
  params.ici.mesh_x = x;
  params.ici.mesh_y = y;
  return params;
}

/// More buckets than may be under way, one of several arrays, on one chip, a board and 32 cores.
void check_sums(const MachineParams& params, std::int64_t width, std::int64_t arrays,
                std::size_t least_kernels) {
  const std::uint32_t cores = params.cores();
  SCOPED_TRACE(std::to_string(cores) + " cores, " + std::to_string(arrays) + " arrays");
  const auto bytes = static_cast<std::uint64_t>(arrays * width * width) * sizeof(float);
  const Ran ran = run_chain(params, width, bytes, cores > 8 ? 1 : 2);
  EXPECT_GE(collectives(ran.program).size(), least_kernels);
  ASSERT_EQ(ran.outputs.size(), kLayers + 1U);
  for (int layer = 0; layer < kLayers; ++layer) {
    const std::vector<double>& sums = ran.outputs[static_cast<std::size_t>(layer)];
    int wrong = 0;
    for (std::int64_t i = 0; i < width * width; ++i) {
      double expected = 0;
      const std::int64_t row = i / width;
      for (std::uint32_t core = 0; i % width == row && core < cores; ++core) {
        expected += std::pow((row + core) % 3 == 0 ? 2 : 1, 2 * (layer + 1));
      }
      wrong += sums[static_cast<std::size_t>(i)] != expected;
    }
    EXPECT_EQ(wrong, 0) << "layer " << layer;
  }
}

TEST(Buckets, EveryCoreEndsWithTheSumsOfAll) {
  // The last gradient is made by the last kernel, when the first buckets have to be done.
  check_sums(slice(1, 1), 512, 1, 8);
  check_sums(slice(2, 2), 512, 2, 4);
  check_sums(slice(4, 4), 128, 2, 2);
}

std::size_t collectives_by_cost(double link_bytes_per_cycle) {
  Target target = target_of(slice(2, 2), 8);
  target.link_bytes_per_cycle = link_bytes_per_cycle;
  target.bucket_bytes = compiler::kBucketsByCost;
  return collectives(compiler::compile(chain(8, 2048), target)).size();
}

/// Slow links have to be hidden; on fast ones the bytes of the HBM cost more.
TEST(Buckets, AreTakenWhereTheyTakeLess) {
  EXPECT_EQ(collectives_by_cost(87), 1U);
  EXPECT_GT(collectives_by_cost(20), 3U);
}

/// A bucket's kernels stand around others, and take less of the step than an all-reduce that all
/// wait for.
TEST(Buckets, GoOnBesideTheKernelsBehindThem) {
  const Ran at_once = run_chain(slice(1, 1), 768, 0, 1);
  const Ran buckets = run_chain(slice(1, 1), 768, std::uint64_t{768} * 768 * sizeof(float), 1);
  EXPECT_EQ(collectives(at_once.program).size(), 1U);
  std::set<std::string> open;
  std::size_t beside = 0;
  for (const isa::OpInfo& op : buckets.program.ops) {
    const auto ends_in = [&](const std::string& text) {
      return op.name.size() > text.size() &&
             op.name.compare(op.name.size() - text.size(), text.size(), text) == 0;
    };
    if (ends_in(".scatter")) open.insert(op.name.substr(0, op.name.size() - 8));
    if (op.category != "all-reduce" && !open.empty()) ++beside;
    open.erase(op.name);
    EXPECT_LE(open.size(), 3U);
  }
  EXPECT_TRUE(open.empty());
  EXPECT_GT(beside, 3U);
}

}  // namespace
}  // namespace tpu::test::bucket_all_reduce_test
