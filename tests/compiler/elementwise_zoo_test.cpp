#include <gtest/gtest.h>

#include <set>

#include "tests/compiler/elementwise_check.h"
#include "workloads/compiler/kernels/kernel_sequence.h"
#include "workloads/compiler/kernels/lowering.h"
#include "workloads/compiler/passes/pipeline.h"
#include "workloads/frontend/zoo.h"

namespace tpu::test::elementwise_zoo_test {
namespace {

using hlo::HloOpcode;

/// The naive evaluation of more takes too long.
constexpr std::int64_t kMostElements = 40000;

/// Runs every loop and input fusion (but the largest) of a workload on random values and compares
/// it with the fused computation's definition; in sequences those that they hold.
void check_fusions(const hlo::Module& module, const char* name, const compiler::Target& target,
                   std::set<std::string>& seen) {
  const hlo::Computation& entry = module.entry_computation();
  for (const hlo::HloInstruction& instruction : entry.instructions) {
    if (instruction.opcode != HloOpcode::kFusion || instruction.fusion_kind.get() == "kOutput")
      continue;
    if (compiler::is_kernel_sequence(instruction)) {
      hlo::Module inside = module;
      inside.entry = instruction.called.at(0);
      check_fusions(inside, name, target, seen);
      continue;
    }
    const hlo::Computation& fused = module.computation(instruction.called.at(0));
    std::string key;
    bool has_bf16 = false;
    for (const hlo::HloInstruction& inner : fused.instructions) {
      has_bf16 |= inner.shape.type == hlo::ElementType::kBf16;
      key += std::string(hlo::to_string(inner.opcode)) + hlo::to_string(inner.shape);
    }
    std::int64_t elements = 0;
    for (hlo::InstructionId id : fused.parameters()) {
      elements += fused.at(id).shape.element_count();
    }
    if (elements > kMostElements || !seen.insert(key).second) continue;
    std::vector<Array> inputs;
    for (hlo::InstructionId id : fused.parameters()) {
      const bool integers = fused.at(id).shape.type == hlo::ElementType::kS32;
      inputs.push_back(random_array(fused.at(id).shape, static_cast<std::uint32_t>(inputs.size()),
                                    integers ? 0 : 0.05, integers ? 8 : 2));
    }
    const compiler::LoweredKernel lowered =
        compiler::lower_elementwise(module, entry, instruction, target);
    std::vector<hlo::Shape> shapes{instruction.shape};
    if (instruction.shape.is_tuple()) shapes = instruction.shape.elements;
    const auto found = run_kernel(lowered.kernel, inputs, shapes);
    const std::vector<Array> expected = NaiveEvaluation(module, fused, inputs).run();
    for (std::size_t i = 0; i < found.size(); ++i) {
      double scale = 0;
      for (double x : expected[i].values) {
        if (std::isfinite(x)) scale = std::max(scale, std::fabs(x));
      }
      // Where both sides round to bf16 a last bit of fp32 may become one of bf16.
      const Tolerance tolerance =
          has_bf16 ? Tolerance{1.0 / 128, scale / 256} : Tolerance{2e-5, 1e-5 * scale};
      expect_close(expected[i], found[i], tolerance,
                   std::string(name) + " " + instruction.name + " result " + std::to_string(i));
    }
  }
}

void check_fusions(const char* name, const frontend::WorkloadOptions& options) {
  compiler::Target target;
  target.hbm_bytes = std::uint64_t{8} << 30;
  const frontend::Workload workload = frontend::build_workload(name, options);
  const compiler::ScheduledModule scheduled = compiler::schedule(workload.module, target, nullptr);
  std::set<std::string> seen;
  check_fusions(scheduled.module, name, target, seen);
  EXPECT_GT(seen.size(), 5U);
}

TEST(ElementwiseZoo, Mlp) { check_fusions("mlp", {}); }

TEST(ElementwiseZoo, Lenet) {
  frontend::WorkloadOptions options;
  options.batch = 5;
  check_fusions("lenet", options);
}

TEST(ElementwiseZoo, Transformer) {
  frontend::WorkloadOptions options;
  options.batch = 2;
  options.layers = 1;
  options.sequence = 24;
  options.width = 48;
  options.heads = 3;
  options.vocabulary = 50;
  check_fusions("transformer", options);
}

TEST(ElementwiseZoo, Resnet) {
  frontend::WorkloadOptions options;
  options.batch = 3;
  options.image = 32;
  options.classes = 20;
  check_fusions("resnet50", options);
}

}  // namespace
}  // namespace tpu::test::elementwise_zoo_test
