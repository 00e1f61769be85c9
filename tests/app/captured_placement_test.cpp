#include "sim/app/captured_placement.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "sim/app/value_arrays.h"
#include "sim/base/error.h"

namespace tpu::app::captured_placement_test {
namespace {

namespace fs = std::filesystem;
using Extents = std::vector<std::int64_t>;

class CapturedPlacementTest : public testing::Test {
 protected:
  CapturedPlacementTest() {
    folder_ = fs::temp_directory_path() / ("tpusim_placement_" + std::to_string(::getpid()));
    fs::create_directories(folder_);
    program_.chip = "v3";
    program_.cores = 2;
    program_.buffers.resize(2);
    program_.buffers[0].role = isa::BufferRole::kParameter;
    program_.buffers[0].shape = "f32[2,3]{1,0}";
    program_.buffers[1].role = isa::BufferRole::kOutput;
    program_.buffers[1].shape = "s32[]";
  }
  ~CapturedPlacementTest() override { fs::remove_all(folder_); }

  CapturedPlacement read(const std::string& parameter) {
    std::ofstream(folder_ / "facts.json") << R"({"batch": 4, "v3": {"placement": {"parameters": [)"
                                          << parameter << R"(], "results": [{"whole": []}]}}})";
    return captured_placement(folder_.string(), program_);
  }
  std::string error_of(const std::string& parameter) {
    try {
      read(parameter);
    } catch (const WorkloadError& error) {
      const std::string text = error.what();
      return text.substr(text.find("placement: "));
    }
    return "";
  }

  fs::path folder_;
  isa::Program program_;
};

TEST_F(CapturedPlacementTest, PartsLieWhereTheFileSays) {
  const CapturedPlacement placement =
      read(R"({"whole": [4, 3], "part": [2, 3], "starts": [[2, 0], [0, 0]]})");
  ASSERT_EQ(placement.parameters.size(), 1u);
  const compiler::ArrayParts& parts = placement.parameters[0];
  EXPECT_EQ(parts.whole.dimensions, (Extents{4, 3}));
  EXPECT_EQ(parts.part, (Extents{2, 3}));
  EXPECT_EQ(parts.starts, (std::vector<Extents>{{2, 0}, {0, 0}}));
  ASSERT_EQ(placement.results.size(), 1u);
  EXPECT_EQ(placement.results[0].part, Extents{});
  EXPECT_EQ(placement.results[0].starts.size(), 2u);
}

TEST_F(CapturedPlacementTest, AnArrayWithoutPartsIsEverywhere) {
  const CapturedPlacement placement = read(R"({"whole": [2, 3]})");
  EXPECT_EQ(placement.parameters[0].starts, (std::vector<Extents>{{0, 0}, {0, 0}}));
}

TEST_F(CapturedPlacementTest, ProgramsOfOneCoreAndOldCapturesHaveNone) {
  EXPECT_TRUE(captured_placement(folder_.string(), program_).parameters.empty());
  std::ofstream(folder_ / "facts.json") << R"({"v3": {}})";
  EXPECT_TRUE(captured_placement(folder_.string(), program_).parameters.empty());
  program_.cores = 1;
  EXPECT_TRUE(read("not even JSON").parameters.empty());
}

TEST_F(CapturedPlacementTest, WhatDoesNotFitTheProgramIsNamed) {
  EXPECT_EQ(error_of(R"({"whole": [4, 3], "part": [1, 3], "starts": [[0, 0], [1, 0]]})"),
            "placement: parameter 0: expected the part of a device to be f32[2,3], found f32[1,3]");
  EXPECT_EQ(error_of(R"({"whole": [4, 3], "part": [2, 3], "starts": [[0, 0]]})"),
            "placement: parameter 0: expected 2 devices, found 1");
  EXPECT_EQ(error_of(R"({"whole": [4, 3], "part": [2, 3], "starts": [[0, 0], [3, 0]]})"),
            "placement: parameter 0: a part lies outside of f32[4,3]");
  EXPECT_EQ(error_of(R"({"whole": [4, 3], "part": [2, 3], "starts": [[0, 0], [-1, 0]]})"),
            "placement: parameter 0: a part lies outside of f32[4,3]");
  EXPECT_EQ(error_of(R"({"whole": [4, 3], "part": [2, 3], "starts": [[0], [1]]})"),
            "placement: parameter 0: expected 2 dimensions");
  EXPECT_EQ(error_of(R"({"whole": [2, 3]}, {"whole": [2, 3]})"),
            "placement: parameter 1: the program has none");
  EXPECT_NE(error_of(R"({"part": [2, 3]})"), "");
  EXPECT_NE(error_of(R"({"whole": "4"})"), "");
  EXPECT_NE(error_of("["), "");
}

TEST(PartNumber, XlasPartitionsGoRoundTheRingOfAHost) {
  MachineParams params;
  params.ici.mesh_x = params.ici.mesh_y = 2;
  params.cores_per_chip = 2;
  PreparedWorkload workload;
  workload.cores = {0, 1, 2, 3, 4, 5, 6, 7};
  EXPECT_EQ(part_number(workload, params, 4), 4u);
  workload.is_from_xla = true;
  EXPECT_EQ(part_number(workload, params, 4), 6u);
  EXPECT_EQ(part_number(workload, params, 6), 4u);
  workload.cores = {5};
  EXPECT_EQ(part_number(workload, params, 0), 0u);
}

}  // namespace
}  // namespace tpu::app::captured_placement_test
