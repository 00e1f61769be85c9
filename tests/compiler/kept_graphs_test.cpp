// Graphs that random ones shrank to when they failed, as HLO text in graphs/: each computes what
// the reference computes. TPUSIM_GRAPHS=FOLDER checks the files of another folder.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <vector>

#include "tests/compiler/graph_check.h"
#include "workloads/hlo/hlo_reader.h"

namespace tpu::test {
namespace {

std::vector<std::filesystem::path> files_of(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".hlo") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

TEST(KeptGraphs, ComputeWhatTheReferenceComputes) {
  const char* folder = std::getenv("TPUSIM_GRAPHS");
  const std::vector<std::filesystem::path> files =
      files_of(folder == nullptr ? TPUSIM_SOURCE_DIR "/tests/compiler/graphs" : folder);
  EXPECT_FALSE(files.empty());
  for (const std::filesystem::path& file : files) {
    SCOPED_TRACE(file.filename().string());
    const GraphCase graph = case_of(hlo::read_hlo_file(file.string()), 1);
    const Verdict verdict = check_graph(graph);
    EXPECT_EQ(verdict.kind, Verdict::Kind::kEqual) << verdict.message;
  }
}

}  // namespace
}  // namespace tpu::test
