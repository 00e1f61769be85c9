#include <gtest/gtest.h>

#include <cstring>

#include "tests/app/program_fixture.h"
#include "traces/npz.h"

namespace tpu::app::op_arithmetic_test {
namespace {

const std::string kMlp = std::string(TPUSIM_SOURCE_DIR) + "/workloads/captured/mlp";

/// A product repeated while a counter that starts at `start` is below 12.
std::string loop_module(const std::string& start) {
  return "HloModule m\nbody {\n  p = (s32[], f32[128,128]) parameter(0)\n"
         "  i = s32[] get-tuple-element(p), index=0\n"
         "  x = f32[128,128] get-tuple-element(p), index=1\n  one = s32[] constant(1)\n"
         "  n = s32[] add(i, one)\n"
         "  d = f32[128,128] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}, "
         "metadata={op_name=\"scan/dot\"}\n  ROOT t = (s32[], f32[128,128]) tuple(n, d)\n}\n"
         "test {\n  p = (s32[], f32[128,128]) parameter(0)\n"
         "  i = s32[] get-tuple-element(p), index=0\n  l = s32[] constant(12)\n"
         "  ROOT c = pred[] compare(i, l), direction=LT\n}\n"
         "ENTRY e {\n  i = s32[] parameter(0)\n  x = f32[128,128] parameter(1)\n  five = s32[] "
         "constant(5)\n  t = (s32[], f32[128,128]) tuple(" +
         start +
         ", x)\n  w = (s32[], f32[128,128]) while(t), condition=test, body=body\n"
         "  ROOT r = f32[128,128] get-tuple-element(w), index=1\n}\n";
}

json product_of(const json& report) {
  for (const json& op : report["ops"]) {
    if (op["matmul_flops"] > 0) return op;
  }
  return {};
}

constexpr double kProduct = 2.0 * 128 * 128 * 128;

TEST_F(ProgramTest, UsefulFlopsOfAStepAreTheSameFromBothCompilersAndNoMoreThanPushed) {
  const json xla = report("run " + kMlp), ours = report("run " + kMlp + " --compiler tpusim");
  EXPECT_EQ(xla["flops"]["model"], ours["flops"]["model"]);
  for (const json& each : {xla, ours}) {
    const json& flops = each["flops"];
    EXPECT_EQ(flops["useful_matmul"].get<double>(), flops["model"].get<double>());
    EXPECT_LE(flops["useful_matmul"].get<double>(), flops["pushed_matmul"].get<double>());
    EXPECT_LE(each["utilization"]["mxu_flops"].get<double>(),
              each["utilization"]["mxu"].get<double>());
    for (const json& op : each["ops"]) {
      EXPECT_LE(op["matmul_flops"].get<double>(), op["pushed_matmul_flops"].get<double>());
    }
  }
  EXPECT_TRUE(xla.contains("xla_estimate"));
  EXPECT_FALSE(ours.contains("xla_estimate"));
}

TEST_F(ProgramTest, ALoopCountsEveryTrip) {
  write("m.hlo", loop_module("five"));
  const json counted = report("run m.hlo");
  EXPECT_EQ(counted["flops"]["model"], 7 * kProduct);
  EXPECT_EQ(counted["flops"]["model_from"], "graph");
  EXPECT_EQ(counted["flops"]["useful_matmul"], 7 * kProduct);
  // The body is one kernel, which is the loop, too; nobody reads its counter.
  EXPECT_EQ(product_of(counted)["count"], 1);
  EXPECT_EQ(product_of(counted)["matmul_flops"], 7 * kProduct);
  EXPECT_EQ(product_of(counted)["flops"], 7 * kProduct);
  EXPECT_EQ(product_of(counted)["op_name"], "scan/dot");
  const std::string shown = tpusim("show m.hlo").out;
  EXPECT_NE(shown.find("Every kernel can be made."), std::string::npos) << shown;
  EXPECT_NE(shown.find("       7     4.194 M"), std::string::npos) << shown;
  EXPECT_EQ(shown.find("while\n"), std::string::npos) << shown;
}

TEST_F(ProgramTest, ALoopThatDataEndsCountsTheTripsThatRan) {
  write("m.hlo", loop_module("i"));
  traces::NpzArray start, matrix;
  start.type = hlo::ElementType::kS32;
  start.bytes = {3, 0, 0, 0};
  matrix.dimensions = {128, 128};
  matrix.bytes.resize(4 * 128 * 128);
  traces::write_npz((folder_ / "v.npz").string(), {{"arg_000", start}, {"arg_001", matrix}});
  const std::string words = "run m.hlo --values on --inputs v.npz";
  const json ran = report(words);
  EXPECT_EQ(ran["flops"]["model_from"], "executed");
  EXPECT_EQ(ran["flops"]["model"], 9 * kProduct);
  EXPECT_EQ(product_of(ran)["count"], 9);
  EXPECT_NE(tpusim(words).out.find("those that ran"), std::string::npos);
  const std::string shown = tpusim("show m.hlo").out;
  EXPECT_NE(shown.find("       ?     4.194 M"), std::string::npos) << shown;
}

TEST_F(ProgramTest, ComplexNumbersComeFromFilesAndGoIntoThem) {
  write("m.hlo",
        "HloModule m\nENTRY main {\n  x = c64[2] parameter(0)\n  ROOT y = c64[2] multiply(x, "
        "x)\n}\n");
  const auto array = [](const std::vector<float>& words) {
    traces::NpzArray made;
    made.type = hlo::ElementType::kC64;
    made.dimensions = {2};
    made.bytes.resize(words.size() * sizeof(float));
    std::memcpy(made.bytes.data(), words.data(), made.bytes.size());
    return made;
  };
  const std::string file = (folder_ / "v.npz").string();
  traces::write_npz(file, {{"arg_000", array({1, 2, 0, -3})}, {"out_000", array({-3, 4, -9, 0})}});
  const std::string words = "run m.hlo --inputs v.npz --check v.npz";
  EXPECT_EQ(report(words + " --outputs o.npz")["checks"][0]["passed"], true);
  const traces::NpzArray found = traces::read_npz((folder_ / "o.npz").string()).at("out_000");
  EXPECT_EQ(found.type, hlo::ElementType::kC64);
  EXPECT_EQ(found.bytes, array({-3, 4, -9, -0.0F}).bytes);
  traces::write_npz(file, {{"arg_000", array({1, 2, 0, -3})}, {"out_000", array({-3, 5, -9, 0})}});
  EXPECT_NE(tpusim(words).exit_code, 0);
}

}  // namespace
}  // namespace tpu::app::op_arithmetic_test
