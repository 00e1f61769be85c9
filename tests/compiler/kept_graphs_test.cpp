// Graphs that random ones shrank to when they failed, as HLO text in graphs/: each computes what
// the reference computes, on published machines and on others. TPUSIM_GRAPHS=FOLDER checks the
// files of another folder.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <vector>

#include "tests/compiler/graph_check.h"
#include "workloads/hlo/hlo_reader.h"

namespace tpu::test::kept_graphs_test {
namespace {

std::vector<std::filesystem::path> files_of(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".hlo") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

MachineParams machine_of(std::uint32_t arrays, std::uint32_t rows, std::uint32_t columns,
                         std::uint32_t vmem_mib) {
  MachineParams machine;
  machine.core.mxu.count = arrays;
  machine.core.mxu.rows = rows;
  machine.core.mxu.columns = columns;
  machine.core.vmem_mib = vmem_mib;
  machine.name = std::to_string(arrays) + " arrays of " + std::to_string(rows) + "x" +
                 std::to_string(columns) + ", " + std::to_string(vmem_mib) + " MiB of VMEM";
  return machine;
}

TEST(KeptGraphs, ComputeWhatTheReferenceComputes) {
  const char* folder = std::getenv("TPUSIM_GRAPHS");
  const std::vector<std::filesystem::path> files =
      files_of(folder == nullptr ? TPUSIM_SOURCE_DIR "/tests/compiler/graphs" : folder);
  EXPECT_FALSE(files.empty());
  for (const std::filesystem::path& file : files) {
    SCOPED_TRACE(file.filename().string());
    GraphCase graph = case_of(hlo::read_hlo_file(file.string()), 1);
    for (const MachineParams& machine :
         {MachineParams{}, v2_8(), machine_of(3, 256, 128, 32), machine_of(3, 128, 512, 16)}) {
      graph.machine = machine;
      const Verdict verdict = check_graph(graph);
      EXPECT_EQ(verdict.kind, Verdict::Kind::kEqual) << machine.name << ": " << verdict.message;
    }
  }
}

}  // namespace
}  // namespace tpu::test::kept_graphs_test
