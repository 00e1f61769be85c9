#include <gtest/gtest.h>

#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/app/program_fixture.h"

/// What the program makes of a results file: exports, the page, texts.

namespace tpu::app::saved_runs_test {
namespace {

class SavedRunsTest : public ProgramTest {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    ASSERT_EQ(tpusim("run matmul --shape 256x256x256 --cores 1 --steps 2 -o r.h5").exit_code, 0);
  }
  void expect_done(const std::string& words) const {
    const Outcome outcome = tpusim(words);
    EXPECT_EQ(outcome.exit_code, 0) << words << "\n" << outcome.err;
  }
};

TEST_F(SavedRunsTest, EachFormatWritesWhatItIsCalled) {
  expect_done("export r.h5 --format perfetto -o r.pftrace");
  expect_done("export r.h5 --format xplane -o r.xplane.pb");
  expect_done("export r.h5 --format xplane -o log");
  expect_done("export r.h5 --format chrome -o r.json");
  expect_done("export r.h5 --format csv -o tables");
  expect_done("export r.h5 --format vcd --window 4000:9000 -o r.vcd");
  EXPECT_GT(fs::file_size(folder_ / "r.pftrace"), 1000u);
  EXPECT_EQ(text_of(folder_ / "r.xplane.pb"),
            text_of(folder_ / "log/plugins/profile/tpusim/host0.xplane.pb"));
  EXPECT_FALSE(json::parse(text_of(folder_ / "r.json"), nullptr, false).is_discarded());
  EXPECT_EQ(text_of(folder_ / "tables/steps.csv").substr(0, 26), "core,step,begin_cycle,end_");
  EXPECT_NE(text_of(folder_ / "r.vcd").find("$enddefinitions"), std::string::npos);
}

/// What the captured module says: the product of the second layer reads what the first one made.
TEST_F(SavedRunsTest, AProgramOfXlaHasTheEdgesOfItsModule) {
  ASSERT_EQ(tpusim("run " TPUSIM_SOURCE_DIR "/workloads/captured/mlp --warmup 0 -o c.h5").exit_code,
            0);
  ASSERT_EQ(tpusim("export c.h5 --format csv -o tables").exit_code, 0);
  std::istringstream ops(text_of(folder_ / "tables/ops.csv")),
      edges(text_of(folder_ / "tables/op_operands.csv"));
  std::vector<std::string> names;
  std::string line;
  for (std::getline(ops, line); std::getline(ops, line);) {
    names.push_back(line.substr(0, line.find(',')));
  }
  std::map<std::string, std::set<std::string>> reads;
  for (std::getline(edges, line); std::getline(edges, line);) {
    std::istringstream columns(line);
    std::string op, operand, is_parameter;
    std::getline(columns, op, ',');
    std::getline(columns, operand, ',');
    std::getline(columns, is_parameter);
    reads[names.at(std::stoul(op))].insert(is_parameter == "0" ? names.at(std::stoul(operand))
                                                               : "parameter " + operand);
  }
  EXPECT_EQ(reads.size(), names.size() - 2) << "two ops of the launch read nothing";
  EXPECT_EQ(reads["convolution_add_fusion.2"],
            (std::set<std::string>{"convolution_add_fusion.3", "parameter 2", "parameter 3"}));
}

TEST_F(SavedRunsTest, ARunWritesTheBundlesOfAWindow) {
  const std::string words = "run matmul --shape 256x256x256 --cores 1 --warmup 0";
  const json run = report(words + " --format konata --window 0:1500 -o b.log");
  EXPECT_EQ(run["steps"], report(words)["steps"]);
  const std::string log = text_of(folder_ / "b.log");
  EXPECT_EQ(log.find("Kanata\t0004\nC=\t0\nI\t0\t0\t0\n"), 0u) << log.substr(0, 100);
  EXPECT_NE(log.find("\tmemory_wait\n"), std::string::npos);
  EXPECT_NE(log.find("vmatmul"), std::string::npos);
  // A bundle a cycle at most, and fewer of a shorter window.
  const auto bundles = [](const std::string& text) {
    std::size_t count = 0;
    for (std::size_t at = text.find("\nI\t"); at != std::string::npos;
         at = text.find("\nI\t", at + 1))
      ++count;
    return count;
  };
  report(words + " --format konata --window 1000:1040 -o part.log");
  const std::size_t part = bundles(text_of(folder_ / "part.log"));
  EXPECT_GT(part, 0u);
  EXPECT_LE(part, 40u);
  EXPECT_GT(bundles(log), 40u);
  EXPECT_EQ(report(words + " --format perfetto --window 0:1500 -o u.pftrace")["steps"],
            run["steps"]);
  EXPECT_EQ(tpusim(words + " --format perfetto --window 0:1 -o w.pftrace").exit_code, 0);
  // Tracks of the whole run stand in both.
  EXPECT_GT(fs::file_size(folder_ / "u.pftrace"), fs::file_size(folder_ / "w.pftrace") + 10000);
  for (const char* format : {" --format csv -o c.log", " --format konata"}) {
    expect_error(words + format, 2, "expected --format konata, perfetto or vcd with -o FILE");
  }
  expect_error("export r.h5 --format konata -o c.log", 2, "a results file has no bundles");
}

/// The dump of a results file, and beside it each unit with the instructions that keep it busy.
TEST_F(SavedRunsTest, AWindowAsADumpHasWhatItsUnitsDo) {
  const std::string words = "run matmul --shape 256x256x256 --cores 1 --warmup 0";
  const json run = report(words + " --format vcd --window 0:20000 -o u.vcd");
  const std::string dump = text_of(folder_ / "u.vcd");
  expect_done(words + " -o u.h5");
  expect_done("export u.h5 --format vcd --window 0:20000 -o e.vcd");
  const auto count = [](const std::string& text, const std::string& part) {
    std::size_t found = 0;
    for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
      ++found;
    }
    return found;
  };
  for (const char* unit :
       {"mxu0", "mxu1", "mxu0_pops", "mxu0_weights", "vld0", "vst0", "scalar_alu0", "dma0"}) {
    EXPECT_EQ(count(dump, std::string(" ") + unit + " $end"), 1u) << unit;
    EXPECT_EQ(count(text_of(folder_ / "e.vcd"), std::string(" ") + unit + " $end"), 0u) << unit;
  }
  // 256 rows in pushes of 8 through two blocks of 128 of each MXU, twice: each a change or a stay.
  EXPECT_GT(count(dump, "\nsvmatmul"), 2u);
  EXPECT_EQ(count(dump, " waits_for $end"), 1u);
  expect_done(words + " --format vcd --window 0:20 -o w.vcd");
  EXPECT_EQ(count(text_of(folder_ / "w.vcd"), "svmatmul"), 0u);
}

TEST_F(SavedRunsTest, PagesAndTextsComeFromTheFile) {
  expect_done("report r.h5 r.h5 -o r.html");
  EXPECT_NE(text_of(folder_ / "r.html").find("\"workload\":\"matmul\""), std::string::npos);
  EXPECT_EQ(tpusim("profile r.h5 --level 1").out.find("Timestamp: 00:00:00\n  TPU type: TPU v3\n"),
            0u);
  EXPECT_NE(tpusim("profile r.h5").out.find("Number of TPU cores: 1 (Replica count = 1"),
            std::string::npos);
  EXPECT_EQ(tpusim("metrics r.h5").out.find("Metric: ExecuteTime\n  TotalSamples: 2\n"), 0u);
}

TEST_F(SavedRunsTest, ManyRunsAreHeldAgainstTheFirst) {
  fs::copy(folder_ / "r.h5", folder_ / "s.h5");
  ASSERT_EQ(tpusim("run matmul --shape 256x256x256 --cores 1 --config v2-8 -o t.h5").exit_code, 0);
  const json diffs = report("diff r.h5 s.h5 t.h5");
  ASSERT_EQ(diffs["diffs"].size(), 2u);
  EXPECT_EQ(diffs["diffs"][0]["change_us"], 0);
  EXPECT_GT(diffs["diffs"][1]["change_us"], 0);
  EXPECT_EQ(diffs["diffs"][1], report("diff r.h5 t.h5"));
}

TEST_F(SavedRunsTest, AComparisonIsATableOrAPage) {
  const std::string words = "compare matmul --shape 256x256x256 --cores 1 --configs v2-8,v3-8 -o ";
  expect_done(words + "c.csv");
  EXPECT_EQ(text_of(folder_ / "c.csv").find("figure,what,v2-8,v3-8,P100 (bound),"), 0u);
  expect_done(words + "c.md");
  EXPECT_EQ(text_of(folder_ / "c.md").find("| figure | what | v2-8 | v3-8 | P100 (bound) |"), 0u);
  expect_done(words + "c.html");
  EXPECT_NE(text_of(folder_ / "c.html").find("<!DOCTYPE html>"), std::string::npos);
  expect_error(words + "c.txt", 2, "expected a name that ends in .csv, .md or .html");
}

TEST_F(SavedRunsTest, MistakesAreNamedAndNothingIsOverwritten) {
  fs::copy(folder_ / "r.h5", folder_ / "s.h5");
  const std::string before = text_of(folder_ / "s.h5");
  expect_error("report r.h5 s.h5 -o s.h5", 2, "found an input");
  expect_error("report r.h5", 2, "tpusim report: expected -o FILE");
  expect_error("profile r.h5 --level 3", 2, "expected a whole number from 1 to 2");
  expect_error("export r.h5 --format vcd --window 5 -o r.vcd", 2, "--window A:B: B");
  expect_error("export r.h5 --format vcd --window 5:5 -o r.vcd", 2, "--window A:B: B");
  expect_error("export r.h5 --format xplane --max-events 0 -o r.pb", 2, "from 1 to");
  expect_error("export r.h5 --format kanata -o r.txt", 2, "no \"kanata\"");
  expect_error("export r.h5 --format csv -o r.h5", 2, "-o r.h5: expected a folder");
  expect_error("export r.h5 --format xplane -o r.h5", 2, "-o r.h5: expected a log folder");
  EXPECT_TRUE(text_of(folder_ / "s.h5") == before);
  EXPECT_TRUE(text_of(folder_ / "r.h5") == before);
}

}  // namespace
}  // namespace tpu::app::saved_runs_test
