#include "sim/app/output_check.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "sim/app/value_arrays.h"
#include "sim/base/error.h"

namespace tpu::app {
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

TEST(OutputCheck, TheSharpReferenceWins) {
  const auto checks = check_outputs(
      outputs({3, 4}), {{"out_000", floats({3, 5})}, {"bf16_000", floats({3, 4})}}, 0, "f");
  EXPECT_EQ(checks[0].name, "bf16_000");
  EXPECT_EQ(checks[0].error, 0);
}

TEST(OutputCheck, SamplesStandAtTheirIndices) {
  traces::NpzFile file{{"out_000_idx", integers({2, 0})}, {"out_000_val", floats({7, 5})}};
  auto checks = check_outputs(outputs({5, 6, 7}), file, 0, "f");
  EXPECT_EQ(checks[0].name, "out_000_val");
  EXPECT_EQ(checks[0].error, 0);
  file["bf16_000_val"] = floats({8, 5});
  checks = check_outputs(outputs({5, 6, 7}), file, 0, "f");
  EXPECT_EQ(checks[0].name, "bf16_000_val");
  EXPECT_EQ(checks[0].max_error, 1);
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

TEST(OutputCheck, TheWorstTensorsComeFirst) {
  std::vector<report::CheckedOutput> checks(3);
  checks[0] = {"out_000", 0.01, 1, true};
  checks[1] = {"out_001", 0.3, 2, false};
  checks[2] = {"out_002", NAN, 3, false};
  const std::string text = check_text(checks, 0.1);
  EXPECT_EQ(text.find("Check: 1 of 3 outputs within a relative L2 error of 0.1"), 0u);
  EXPECT_LT(text.find("out_002"), text.find("out_001"));
  EXPECT_LT(text.find("out_001"), text.find("out_000"));
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
}  // namespace tpu::app
