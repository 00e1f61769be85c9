#include <sstream>

#include "tests/app/program_fixture.h"

namespace tpu::app::scaling_test {
namespace {

using Scaling = ProgramTest;

TEST_F(Scaling, IsOneTableOfEightyColumns) {
  const Outcome outcome = tpusim("scaling mlp --batch 40 --configs v3-8,v3-32");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  std::istringstream lines(outcome.out);
  std::size_t rows = 0, columns = 0;
  for (std::string line; std::getline(lines, line);) {
    EXPECT_LE(line.size(), 80U) << line;
    std::istringstream cells(line);
    const std::vector<std::string> row{std::istream_iterator<std::string>(cells), {}};
    if (row.empty() || line.rfind("  v3-", 0) != 0) continue;
    ++rows;
    if (columns == 0) columns = row.size();
    EXPECT_EQ(row.size(), columns) << line;  // No row goes on in the next line.
  }
  EXPECT_EQ(rows, 3U);  // Two weak ones and a strong one.
  EXPECT_NE(outcome.out.find("No strong scaling on v3-32: a batch of 40 is no multiple of 32"),
            std::string::npos)
      << outcome.out;
}

/// Efficiency and exposed time follow from runs that one can do by oneself.
TEST_F(Scaling, FiguresAreThoseOfSeparateRuns) {
  const json study = report("scaling mlp --batch 64 --configs v3-8,v3-32");
  const json& points = study["points"];
  ASSERT_EQ(points.size(), 2U);
  EXPECT_DOUBLE_EQ(points[0]["weak"]["efficiency"], 1);
  const json alone = report("run mlp --config v3-8 --batch 64");
  EXPECT_DOUBLE_EQ(points[0]["weak"]["step_ms"], alone["step_time_ms"]["mean"]);
  const json weak = report("run mlp --config v3-32 --batch 256");
  EXPECT_EQ(points[1]["weak"]["batch"], 256);
  EXPECT_DOUBLE_EQ(points[1]["weak"]["step_ms"], weak["step_time_ms"]["mean"]);
  const json strong = report("run mlp --config v3-32 --batch 64");
  EXPECT_DOUBLE_EQ(points[1]["strong"]["step_ms"], strong["step_time_ms"]["mean"]);
  double collectives = 0;
  for (const json& op : strong["ops"]) {
    if (op["category"] == "all-reduce") collectives += op["time_ms"].get<double>();
  }
  EXPECT_GT(collectives, 0);
  EXPECT_NEAR(points[1]["strong"]["exposed_all_reduce_ms"], collectives, 1e-9);
  const double per_core = 64 / points[1]["strong"]["step_ms"].get<double>() / 32;
  const double first = 64 / points[0]["weak"]["step_ms"].get<double>() / 8;
  EXPECT_NEAR(points[1]["strong"]["efficiency"], per_core / first, 1e-9);
}

}  // namespace
}  // namespace tpu::app::scaling_test
