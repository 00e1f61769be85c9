#include "sim/sweep/sweep_table.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "sim/base/error.h"
#include "sim/sweep/sweep_page.h"
#include "traces/csv.h"

namespace tpu::sweep::sweep_table_test {
namespace {

TEST(SweepTable, HasARowForEachPointWhateverBecameOfIt) {
  Plan plan;
  plan.names = {"shape", "batch"};
  plan.points = {{{{"shape", "8x8"}, {"batch", "4"}}},
                 {{{"shape", "a \"b\",c"}, {"batch", "8"}}},
                 {{{"shape", ""}, {"batch", "16"}}}};
  PointResult done, failed;
  done.figures = {{"step_ms", 0.1}, {"mxu", 100}};
  failed.error = "does not fit";
  const traces::Table table = sweep_table(plan, {done, failed, std::nullopt});
  EXPECT_EQ(table.column<std::uint64_t>("batch"), (std::vector<std::uint64_t>{4, 8, 16}));
  EXPECT_EQ(traces::csv_text(table),
            "point,shape,batch,state,error,step_ms,mxu\n"
            "1,8x8,4,done,,0.1,100\n"
            "2,\"a \"\"b\"\",c\",8,failed,does not fit,,\n"
            "3,,16,missing,,,\n");
}

TEST(SweepPage, HoldsThePointsAndNoTextOfThemLeavesTheData) {
  Plan plan;
  plan.file = "s.toml";
  plan.names = {"shape"};
  plan.points = {{{{"shape", "</script><img>"}}}, {{{"shape", "8x8"}}}};
  PointResult done;
  done.figures = {{"step_time_ms", 0.125}};
  const std::string page = sweep_html(plan, sweep_table(plan, {done, std::nullopt}));
  EXPECT_EQ(page.find("<img"), std::string::npos);
  EXPECT_NE(page.find("{\"name\":\"step_time_ms\",\"values\":[0.125,null]}"), std::string::npos);
  for (const char* loading : {"src=\"", "href=", "url(", "@import", "fetch("}) {
    EXPECT_EQ(page.find(loading), std::string::npos) << loading;
  }
}

TEST(SweepTable, TheNameSaysTheForm) {
  EXPECT_NO_THROW(check_table_name("a/b.csv"));
  EXPECT_NO_THROW(check_table_name("b.h5"));
  EXPECT_NO_THROW(check_table_name("b.html"));
  EXPECT_THROW(check_table_name("b.xls"), UsageError);
}

class PointStoreTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "tpusim-points-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string folder_;
};

TEST_F(PointStoreTest, ResultsComeBackAsTheyWere) {
  const PointStore store = PointStore::create(folder_ + "/a/b");
  PointResult result;
  result.figures = {{"z", 0.1}, {"a", 1e300}, {"zero", 0}};
  result.error = "line\n\"quoted\"";
  result.exit_code = 4;
  EXPECT_FALSE(store.read("h").has_value());
  store.write("h", result);
  const auto back = store.read("h");
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(back->figures, result.figures);
  EXPECT_EQ(back->error, result.error);
  EXPECT_EQ(back->exit_code, 4);
}

TEST_F(PointStoreTest, WhatAnotherHasWrittenIsNoResult) {
  const PointStore store(folder_);
  store.write("h", {});
  EXPECT_TRUE(store.read("h").has_value());
  for (const char* text : {"", "{", "[]", "{\"schema_version\": 1}",
                           "{\"schema_version\": 1, \"hash\": \"other\", \"error\": \"\", "
                           "\"exit_code\": 0, \"figures\": {}}",
                           "{\"schema_version\": 2, \"hash\": \"h\", \"error\": \"\", "
                           "\"exit_code\": 0, \"figures\": {}}",
                           "{\"schema_version\": 1, \"hash\": \"h\", \"error\": \"\", "
                           "\"exit_code\": 0, \"figures\": {\"a\": \"b\"}}"}) {
    std::ofstream(folder_ + "/h.json") << text;
    EXPECT_FALSE(store.read("h").has_value()) << text;
  }
}

TEST_F(PointStoreTest, AFileInTheWayIsNamed) {
  std::ofstream(folder_ + "/file") << "x";
  EXPECT_THROW(PointStore::create(folder_ + "/file"), UsageError);
}

}  // namespace
}  // namespace tpu::sweep::sweep_table_test
