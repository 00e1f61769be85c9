#include "sim/app/module_show.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "sim/app/largest_batch.h"
#include "sim/config/configuration.h"
#include "workloads/hlo/hlo_reader.h"

namespace tpu::app::module_show_test {
namespace {

std::string show(const std::string& lines) {
  const hlo::Module module =
      hlo::read_hlo_text("m.hlo", "HloModule m\nENTRY e {\n" + lines + "}\n");
  return show_module(module, {config::load_configuration("v2-8").params,
                              config::load_configuration("v3-8").params});
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(ModuleShow, CountsWorkAndSaysWhatIsFusedAndWhatBindsIt) {
  const std::string text = show(
      "  a = f32[1024,1024] parameter(0)\n  b = f32[1024,1024] parameter(1)\n"
      "  d = f32[1024,1024] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
      "  n = f32[1024,1024] negate(d)\n  ROOT t = f32[1024,1024] tanh(n)\n");
  // 2 * 1024^3 in the dot, 1024^2 in each of the others; 12 MiB at least.
  EXPECT_TRUE(has(text, "parameters: 2, 2.097 M elements")) << text;
  EXPECT_TRUE(has(text, "2.147 G in dots and convolutions")) << text;
  EXPECT_TRUE(has(text, "12.00 MiB at least")) << text;
  EXPECT_TRUE(has(text, "After fusion, 1 kernels")) << text;
  EXPECT_TRUE(has(text, "dot, negate, tanh")) << text;
  EXPECT_TRUE(has(text, "Every kernel can be made.")) << text;
  // 41 us of products on v3, 28 us of traffic at its 450 GB/s.
  EXPECT_TRUE(has(text, "100 % mxu")) << text;
}

TEST(ModuleShow, SaysWhatTheCompilerRefusesAndHowMuchThatIs) {
  const std::string text = show(
      "  a = f32[8,128] parameter(0)\n  b = f32[8,128] cholesky(a), lower=true\n"
      "  ROOT t = f32[8,128] tanh(b)\n");
  EXPECT_TRUE(has(text, "cholesky")) << text;
  EXPECT_TRUE(has(text, "No kernel for 1 instructions") || has(text, "Not compiled")) << text;
}

TEST(LargestBatch, IsFoundToTheExample) {
  int tries = 0;
  const auto fits = [&](std::int64_t batch) {
    ++tries;
    return batch <= 37;
  };
  EXPECT_EQ(largest_batch_text(256, 8, fits),
            "The largest batch that fits is 37 per core: --batch 296.");
  EXPECT_LE(tries, 10);
  EXPECT_EQ(largest_batch_text(4, 2, [](std::int64_t) { return false; }),
            "Not even one example per core fits; make the model smaller or use more cores.");
}

/// The gradient of the first product is known before the second one ends.
TEST(ModuleShow, ReducesInBucketsWhereTheyAreAskedFor) {
  const hlo::Module module = hlo::read_hlo_text(
      "m.hlo",
      "HloModule m, replica_count=8\nadd {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n"
      "  ROOT s = f32[] add(a, b)\n}\nENTRY e {\n  a = f32[1024,1024] parameter(0)\n"
      "  d = f32[1024,1024] dot(a, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
      "  e = f32[1024,1024] dot(d, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
      "  f = f32[1024,1024] dot(e, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
      "  r = (f32[1024,1024], f32[1024,1024]) all-reduce(d, f), replica_groups={}, to_apply=add\n"
      "  g = f32[1024,1024] get-tuple-element(r), index=0\n"
      "  h = f32[1024,1024] get-tuple-element(r), index=1\n"
      "  ROOT t = (f32[1024,1024], f32[1024,1024]) tuple(g, h)\n}\n");
  const std::vector<MachineParams> machine{config::load_configuration("v3-8").params};
  EXPECT_FALSE(has(show_module(module, machine, 0), "all-reduce-start"));
  EXPECT_TRUE(has(show_module(module, machine, 1 << 20), "all-reduce-start"))
      << show_module(module, machine, 1 << 20);
}

}  // namespace
}  // namespace tpu::app::module_show_test
