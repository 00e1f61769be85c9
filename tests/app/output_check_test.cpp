#include "sim/app/output_check.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "sim/app/value_arrays.h"
#include "sim/base/error.h"

namespace tpu::app::output_check_test {
namespace {

traces::NpzArray floats(const std::vector<float>& values) {
  traces::NpzArray array;
  array.dimensions = {static_cast<std::int64_t>(values.size())};
  array.bytes.resize(values.size() * 4);
  std::memcpy(array.bytes.data(), values.data(), array.bytes.size());
  return array;
}
traces::NpzArray integers(const std::vector<std::int32_t>& values) {
  traces::NpzArray array = floats(std::vector<float>(values.size()));
  array.type = hlo::ElementType::kS32;
  std::memcpy(array.bytes.data(), values.data(), array.bytes.size());
  return array;
}

using Outputs = std::map<std::uint32_t, compiler::HostArray>;
Outputs outputs(const std::vector<float>& values) { return {{0, to_host_array(floats(values))}}; }

std::string error_of(const Outputs& found, const traces::NpzFile& file) {
  try {
    check_outputs(found, file, 0.1, "f.npz");
  } catch (const WorkloadError& error) {
    return error.what();
  }
  return "";
}

TEST(OutputCheck, TheErrorIsTheRelativeL2Norm) {
  const auto checks = check_outputs(outputs({3, 4.5F}), {{"out_000", floats({3, 4})}}, 0.1, "f");
  ASSERT_EQ(checks.size(), 1u);
  EXPECT_DOUBLE_EQ(checks[0].error, 0.5 / 5);
  EXPECT_DOUBLE_EQ(checks[0].max_error, 0.5);
  EXPECT_TRUE(checks[0].passed);
}

TEST(OutputCheck, BeyondTheToleranceFails) {
  EXPECT_FALSE(
      check_outputs(outputs({3, 4.5F}), {{"out_000", floats({3, 4})}}, 0.0999, "f")[0].passed);
}

TEST(OutputCheck, TheNearerReferenceCounts) {
  const traces::NpzFile file{{"out_000", floats({3, 5})}, {"bf16_000", floats({3, 4})}};
  auto checks = check_outputs(outputs({3, 4}), file, 0, "f");
  EXPECT_EQ(checks[0].name, "bf16_000");
  EXPECT_EQ(checks[0].error, 0);
  checks = check_outputs(outputs({3, 5}), file, 0, "f");
  EXPECT_EQ(checks[0].name, "out_000");
  EXPECT_EQ(checks[0].error, 0);
  checks = check_outputs(outputs({3, 4.5F}), file, 0, "f");
  EXPECT_FALSE(checks[0].passed);
}

TEST(OutputCheck, SamplesStandAtTheirIndices) {
  traces::NpzFile file{{"out_000_idx", integers({2, 0})}, {"out_000_val", floats({7, 5})}};
  auto checks = check_outputs(outputs({5, 6, 7}), file, 0, "f");
  EXPECT_EQ(checks[0].name, "out_000_val");
  EXPECT_EQ(checks[0].error, 0);
  file["bf16_000_val"] = floats({8, 5});
  checks = check_outputs(outputs({5, 6, 7.9F}), file, 0, "f");
  EXPECT_EQ(checks[0].name, "bf16_000_val");
  EXPECT_NEAR(checks[0].max_error, 0.1, 1e-6);
}

/// The outcome for an output that is off by `error`, with references 4e-3 apart.
report::CheckedOutput judged(float error, std::optional<float> sensitivity) {
  traces::NpzFile file{{"out_000", floats({1.004F})}, {"bf16_000", floats({1})}};
  if (sensitivity) file["sensitivity"] = floats({*sensitivity});
  return check_outputs(outputs({1 - error}), file, std::nullopt, "f")[0];
}

TEST(OutputCheck, TheToleranceSaysWhereItComesFrom) {
  EXPECT_TRUE(judged(9e-5F, 0).passed);
  EXPECT_EQ(judged(9e-5F, 0).tolerance, 1e-4);
  EXPECT_EQ(judged(9e-5F, 0).reason, "products rounded to bf16");

  EXPECT_TRUE(judged(2.9e-2F, 1e-2F).passed);
  EXPECT_EQ(judged(2.9e-2F, 1e-2F).reason,
            "the output's own sensitivity: it moves by 1.0e-02 with its inputs");
  EXPECT_FALSE(judged(3.1e-2F, 1e-2F).passed);

  EXPECT_TRUE(judged(3.9e-3F, 0).passed);
  EXPECT_EQ(judged(3.9e-3F, 0).reason,
            "rounding of another operand: it moves the output by 4.0e-03");
  EXPECT_FALSE(judged(4.1e-3F, 0).passed);
  EXPECT_EQ(judged(4.1e-3F, 0).tolerance, 1e-4);

  EXPECT_TRUE(judged(9.9e-3F, std::nullopt).passed);
  EXPECT_FALSE(judged(1.1e-2F, std::nullopt).passed);
  EXPECT_EQ(judged(0, std::nullopt).reason, "the file has no sensitivities");
}

TEST(OutputCheck, OfNoiseTheMagnitudeAloneIsCompared) {
  EXPECT_TRUE(judged(0.26F, 0.09F).passed);
  EXPECT_FALSE(judged(0.28F, 0.09F).passed);
  EXPECT_EQ(judged(0.29F, 0.1F).reason,
            "the output's own sensitivity: it moves by 1.0e-01 with its inputs");
  EXPECT_TRUE(judged(9.9F, 0.1F).passed);
  EXPECT_EQ(judged(9.9F, 0.1F).reason,
            "no digit is certain, only the magnitude is compared: it moves by 1.0e-01 with its "
            "inputs");
  EXPECT_FALSE(judged(10.1F, 0.1F).passed);
}

TEST(OutputCheck, BitsOfTheChipsOwnGeneratorAreNamedWhereTheyDiffer) {
  const traces::NpzFile file{{"out_000", floats({1})}};
  const auto reason = [&](float value) {
    return check_outputs(outputs({value}), file, 0.1, "f", true)[0].reason;
  };
  EXPECT_EQ(reason(1), "--tolerance");
  EXPECT_EQ(reason(2),
            "--tolerance; the program draws bits from the chip's own generator, the reference "
            "others");
}

TEST(OutputCheck, SensitivityOfNarrowTypesIsNamed) {
  const traces::NpzFile file{{"bf16_000", floats({1})},
                             {"sensitivity", floats({0.01F})},
                             {"sensitivity_narrow", floats({0.01F})}};
  EXPECT_EQ(check_outputs(outputs({1.02F}), file, std::nullopt, "f")[0].reason,
            "the output's own sensitivity: it moves by 1.0e-02 when bf16 and fp16 stay in fp32");
}

TEST(OutputCheck, AnOutputInFp32IsNamedAsSuch) {
  const traces::NpzFile file{
      {"out_000", floats({1})}, {"bf16_000", floats({1.01F})}, {"sensitivity", floats({0})}};
  const auto checks = check_outputs(outputs({1}), file, std::nullopt, "f");
  EXPECT_TRUE(checks[0].passed);
  EXPECT_EQ(checks[0].reason, "fp32 as on the vector unit");
}

TEST(OutputCheck, InfinitiesAndNanOfTheReferenceHaveToBeThere) {
  const traces::NpzFile file{{"out_000", floats({NAN, INFINITY, 4})}};
  EXPECT_EQ(check_outputs(outputs({NAN, INFINITY, 4}), file, 0, "f")[0].error, 0);
  EXPECT_FALSE(check_outputs(outputs({NAN, -INFINITY, 4}), file, 0.1, "f")[0].passed);
  EXPECT_FALSE(check_outputs(outputs({1, INFINITY, 4}), file, 0.1, "f")[0].passed);
}

TEST(OutputCheck, NotANumberFails) {
  const auto checks = check_outputs(outputs({NAN, 4}), {{"out_000", floats({3, 4})}}, 1e30, "f");
  EXPECT_FALSE(checks[0].passed);
}

TEST(OutputCheck, AReferenceOfZerosIsComparedAbsolutely) {
  const auto checks = check_outputs(outputs({0.5F, 0}), {{"out_000", floats({0, 0})}}, 0.6, "f");
  EXPECT_DOUBLE_EQ(checks[0].error, 0.5);
  EXPECT_TRUE(checks[0].passed);
}

TEST(OutputCheck, WhatDoesNotFitIsNamed) {
  EXPECT_EQ(error_of(outputs({1, 2}), {{"out_000", floats({1})}}),
            "f.npz: out_000: expected 2 elements, found 1");
  EXPECT_EQ(error_of(outputs({1, 2}), {{"out_001", floats({1})}}),
            "f.npz: out_001: the program has only 1 outputs");
  EXPECT_EQ(error_of(outputs({1, 2}), {{"arg_000", floats({1})}}),
            "f.npz: expected recorded outputs out_000, out_001, ..., found none");
  EXPECT_EQ(
      error_of(outputs({1, 2}), {{"out_000_idx", integers({2})}, {"out_000_val", floats({7})}}),
      "f.npz: out_000_val: expected indices below 2, found 2");
  EXPECT_EQ(
      error_of(outputs({1, 2}), {{"out_000_idx", integers({0, 1})}, {"out_000_val", floats({7})}}),
      "f.npz: out_000_val: expected 2 values, one for each index, found 1");
}

TEST(OutputCheck, FailuresComeFirstThenTheWorst) {
  std::vector<report::CheckedOutput> checks(4);
  checks[0] = {"out_000", 0.01, 1, true, 0.1, "a"};
  checks[1] = {"out_001", 0.3, 2, false, 0.1, "b"};
  checks[2] = {"out_002", NAN, 3, false, 0.1, "c"};
  checks[3] = {"out_003", 0.4, 3, true, 0.5, "d"};
  const std::string text = check_text(checks);
  EXPECT_EQ(text.find("Check: 2 of 4 outputs agree, median relative L2 error 4.0e-01"), 0u) << text;
  EXPECT_LT(text.find("out_002"), text.find("out_001"));
  EXPECT_LT(text.find("out_001"), text.find("out_003"));
  EXPECT_LT(text.find("out_003"), text.find("out_000"));
  EXPECT_NE(text.find("FAILED tolerance 1.0e-01 (b)"), std::string::npos) << text;
}

TEST(ValueArrays, SixtyFourBitsBecomeThirtyTwo) {
  traces::NpzArray wide;
  wide.type = hlo::ElementType::kF64;
  wide.dimensions = {1};
  const double value = 1.5;
  wide.bytes.resize(8);
  std::memcpy(wide.bytes.data(), &value, 8);
  const compiler::HostArray narrow = to_host_array(wide);
  EXPECT_EQ(narrow.shape.type, hlo::ElementType::kF32);
  EXPECT_EQ(traces::to_doubles(to_npz_array(narrow)), (std::vector<double>{1.5}));
  EXPECT_EQ(array_name("out", 7), "out_007");
  EXPECT_EQ(array_name("arg", 1234), "arg_1234");
}

}  // namespace
}  // namespace tpu::app::output_check_test
