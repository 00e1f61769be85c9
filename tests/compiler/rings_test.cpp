#include "workloads/compiler/passes/expand/rings.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "sim/base/error.h"
#include "tests/compiler/run_compiled.h"
#include "workloads/hlo/hlo_reader.h"

namespace tpu::test::rings_test {
namespace {

constexpr std::uint32_t kCores = 8;

/// Replica 0 takes the branch `one`, the others `other`; each has x and y.
std::string choice(const std::string& type, const std::string& one, const std::string& other) {
  const auto branch = [&](const std::string& name, const std::string& body) {
    const std::string pair = "(" + type + ", " + type + ")";
    return name + " {\n  p = " + pair + " parameter(0)\n  x = " + type +
           " get-tuple-element(p), index=0\n  y = " + type + " get-tuple-element(p), index=1\n" +
           body + "}\n";
  };
  return "HloModule m, replica_count=" + std::to_string(kCores) +
         "\nsum {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n"
         "  ROOT s = f32[] add(a, b)\n}\n" +
         branch("one", one) + branch("other", other) + "ENTRY main {\n  x = " + type +
         " parameter(0)\n  y = " + type + " parameter(1)\n  t = (" + type + ", " + type +
         ") tuple(x, y)\n  id = u32[] replica-id()\n  zero = u32[] constant(0)\n"
         "  first = pred[] compare(id, zero), direction=EQ\n  ROOT r = " +
         type + " conditional(first, t, t), true_computation=one, false_computation=other\n}\n";
}

std::string reduce(const std::string& type, const std::string& name, const std::string& operand,
                   int channel) {
  return "  " + name + " = " + type + " all-reduce(" + operand +
         "), replica_groups={}, to_apply=sum, channel_id=" + std::to_string(channel) + "\n";
}

/// x is 1 on core 0, 2 on core 1 and so on; y ten times that.
CompiledRun run(const std::string& text, std::size_t elements) {
  std::vector<CoreArguments> arguments(kCores);
  for (std::uint32_t core = 0; core < kCores; ++core) {
    for (const float scale : {1.0F, 10.0F}) {
      const std::vector<float> values(elements, scale * static_cast<float>(core + 1));
      Bytes bytes(elements * sizeof(float));
      std::memcpy(bytes.data(), values.data(), bytes.size());
      arguments[core].parameters.push_back(bytes);
    }
  }
  return run_compiled(hlo::read_hlo_text("test.hlo", text), arguments);
}

TEST(Rings, ChannelsOfBranchesInAnotherOrderAreACycleOfWaiters) {
  // Along the mesh, and a ring of all cores.
  for (const std::size_t rows : {8U, 2048U}) {
    const std::string type = "f32[" + std::to_string(rows) + ",128]";
    const auto branch = [&](const std::string& a, int channel_a, const std::string& b,
                            int channel_b) {
      return reduce(type, "first", a, channel_a) + "  m = " + type + " multiply(first, " + b +
             ")\n" + reduce(type, "second", "m", channel_b) + "  ROOT r = " + type +
             " add(first, second)\n";
    };
    const std::string in_order = branch("x", 1, "y", 2), turned = branch("y", 2, "x", 1);
    try {
      run(choice(type, in_order, turned), rows * 128);
      ADD_FAILURE() << "no deadlock of " << type;
    } catch (const ProgramFault& fault) {
      const std::string text = fault.what();
      EXPECT_NE(text.find("cycle of waiters: core 0 waits for core "), std::string::npos) << text;
      EXPECT_NE(text.find(" waits for core 0\n"), std::string::npos) << text;
    }
    // 36 of x; 360 of y times that sum, from each of eight cores.
    const CompiledRun met = run(choice(type, in_order, in_order), rows * 128);
    for (std::uint32_t core = 0; core < kCores; ++core) {
      for (const double value : numbers_of(met.outputs[core].at(0))) {
        ASSERT_EQ(value, 36 + 36 * 360) << type << ", core " << core;
      }
    }
  }
}

TEST(Rings, ChannelsOfABranchThatDoNotWaitForEachOtherStayOne) {
  const std::string type = "f32[8,128]";
  const auto branch = [&](const std::string& operation) {
    return reduce(type, "a", "x", 3) + reduce(type, "b", "y", 4) + "  ROOT r = " + type + " " +
           operation + "(a, b)\n";
  };
  const CompiledRun joined = run(choice(type, branch("add"), branch("subtract")), 8 * 128);
  EXPECT_EQ(std::count_if(joined.program.kernels.begin(), joined.program.kernels.end(),
                          [](const isa::Kernel& kernel) { return kernel.name == "all-reduce"; }),
            1);
  for (std::uint32_t core = 0; core < kCores; ++core) {
    EXPECT_EQ(numbers_of(joined.outputs[core].at(0)).at(5), core == 0 ? 36 + 360 : 36 - 360);
  }
}

TEST(Rings, ManyChannelsOfBranchesShareTheNumberOfTheirGrouping) {
  const std::string type = "f32[8,128]";
  std::string body;
  for (int i = 0; i < 200; ++i) {
    const std::string before = i == 0 ? "x" : "r" + std::to_string(i - 1);
    body += reduce(type, "r" + std::to_string(i), before, i + 1);
  }
  body += "  ROOT r = " + type + " add(r199, y)\n";
  hlo::Module module = hlo::read_hlo_text("test.hlo", choice(type, body, body));
  compiler::number_rings(module);
  std::map<std::uint32_t, int> found;
  for (const hlo::Computation& computation : module.computations) {
    for (const hlo::HloInstruction& instruction : computation.instructions) {
      if (instruction.opcode != hlo::HloOpcode::kAllReduce) continue;
      ++found[compiler::ring_of(instruction).number];
    }
  }
  ASSERT_EQ(found.size(), 128u);  // 127 channels, and the ring of all cores.
  EXPECT_EQ(found.rbegin()->first, 127u);
  EXPECT_EQ(found.at(1), 2);  // The same channel in both branches.
  EXPECT_EQ(found.at(0), 2 * (200 - 127));
}

}  // namespace
}  // namespace tpu::test::rings_test
