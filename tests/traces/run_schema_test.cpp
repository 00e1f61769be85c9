#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "tests/traces/synthetic_record.h"
#include "traces/column_texts.h"
#include "traces/host_stages.h"
#include "traces/link_loads.h"
#include "traces/run_file.h"

/// traces/README.md is the schema of results files, and what the writer writes.

namespace tpu::traces::run_schema_test {
namespace {

/// The words in backquotes of a line of the README.
std::vector<std::string> quoted_words(const std::string& line) {
  std::vector<std::string> words;
  for (std::size_t at = line.find('`'); at != std::string::npos; at = line.find('`', at)) {
    const std::size_t end = line.find('`', at + 1);
    if (end == std::string::npos) break;
    words.push_back(line.substr(at + 1, end - at - 1));
    at = end + 1;
  }
  return words;
}

/// With every table that a run may have.
RunRecord full_record() { return test::synthetic_record_with_events(); }

std::vector<std::string> readme() {
  std::ifstream in(TPUSIM_SOURCE_DIR "/traces/README.md");
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

TEST(RunFileSchema, TheReadmeHasEachTableWithItsColumns) {
  std::map<std::string, std::vector<std::string>> described;
  for (const std::string& line : readme()) {
    const std::vector<std::string> words = quoted_words(line);
    if (line.rfind("| `", 0) != 0 || words.empty()) continue;
    described.emplace(words[0], std::vector<std::string>(words.begin() + 1, words.end()));
  }
  for (const auto& [name, table] : run_contents(full_record()).tables) {
    std::vector<std::string> columns;
    for (const Table::NamedColumn& column : table.columns()) columns.push_back(column.name);
    EXPECT_EQ(described[name], columns) << "traces/README.md: " << name;
  }
}

/// A row of the README for each column: name, table where tables differ, units, text.
TEST(RunFileSchema, TheReadmeHasUnitsAndMeaningOfEachColumn) {
  const std::vector<std::string> lines = readme();
  const std::string text = [&] {
    std::string all = "\n";
    for (const std::string& line : lines) all += line + "\n";
    return all;
  }();
  for (const auto& [path, table] : run_contents(full_record()).tables) {
    for (const Table::NamedColumn& column : table.columns()) {
      EXPECT_FALSE(column.long_name.empty())
          << path << ": " << column.name << ": describe it in traces/column_texts.cpp";
      const std::string row = " | " + column.units + " | " + column.long_name + " |\n";
      const std::string plain = "\n| " + column.name + row;
      const std::string of_table = "\n| " + column.name + " of " + path + row;
      EXPECT_TRUE(text.find(plain) != std::string::npos || text.find(of_table) != std::string::npos)
          << "traces/README.md: expected" << of_table;
    }
  }
}

TEST(RunFileSchema, TheReadmeHasEachAttribute) {
  std::string text;
  for (const std::string& line : readme()) text += line;
  for (const auto& [name, value] : run_contents(test::synthetic_record()).attributes) {
    EXPECT_NE(text.find("`" + name + "`"), std::string::npos) << "traces/README.md: " << name;
  }
}

TEST(RunFileSchema, AttributesNameWhatWasRun) {
  RunRecord record = test::synthetic_record();
  const auto attributes = run_contents(record).attributes;
  EXPECT_EQ(attributes.at("creator").find("tpusim "), 0u);
  EXPECT_EQ(attributes.at("schema_version"), "10");
  EXPECT_EQ(attributes.at("configuration_sha256").size(), 64u);
  record.params.hbm.pin_mbps += 1;
  EXPECT_NE(run_contents(record).attributes.at("configuration_sha256"),
            attributes.at("configuration_sha256"));
}

/// DMAs between chips 0 and 3 of 2x2 chips pass the corner along x first.
TEST(LinkLoads, BytesTakeTheWayOfTheNetwork) {
  RunRecord record = test::synthetic_record_with_events();
  record.events.dmas.clear();
  DmaEvent dma;
  dma.source = dma.destination = isa::MemorySpace::kVmem;
  dma.source_chip = 0;
  dma.destination_chip = 3;
  dma.bytes = 1000;
  record.events.dmas = {dma, dma};
  dma.destination_chip = 0;  // Stays on its chip.
  record.events.dmas.push_back(dma);
  const std::vector<LinkLoad> links = link_loads(record);
  ASSERT_EQ(links.size(), 8u);
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint64_t> bytes;
  for (const LinkLoad& link : links) bytes[{link.from_chip, link.to_chip}] = link.bytes;
  EXPECT_EQ((bytes[{0, 1}]), 2000u);
  EXPECT_EQ((bytes[{1, 3}]), 2000u);
  EXPECT_EQ((bytes[{0, 2}]), 0u);
  EXPECT_EQ((bytes[{1, 0}]), 0u);
  // 2,200 cycles at 940 MHz, 82 GB/s.
  EXPECT_NEAR(links[0].utilization, 2000 / (2200 / 940e6 * 82e9), 1e-9);
  record.has_events = false;
  EXPECT_TRUE(link_loads(record).empty());
}

TEST(LinkLoads, TwoChipsHaveLinksOneHasNone) {
  RunRecord record = test::synthetic_record_with_events();
  record.events.dmas.clear();
  record.params.ici.mesh_x = 2;
  record.params.ici.mesh_y = 1;
  EXPECT_EQ(link_loads(record).size(), 2u);
  record.params.ici.mesh_x = 1;
  EXPECT_TRUE(link_loads(record).empty());
}

TEST(HostStages, TheRateIsThatOfTheChipsTheCapacityThatOfTheStage) {
  RunRecord record = test::synthetic_record();
  std::vector<HostStage> stages = host_stages(record);
  ASSERT_EQ(stages.size(), 1u);  // No dataset is described.
  EXPECT_EQ(stages[0].name, "PCIe");
  // 2,048 bytes of 128 examples on the host; 15 GB/s for each of four chips.
  EXPECT_NEAR(stages[0].capacity, 4 * 15e9 / 16, 1);
  // Two steps of 2 x 128 examples in 2,200 cycles.
  EXPECT_NEAR(stages[0].examples_per_s, 512 / (2200 / 940e6), 1);
  record.params.host.examples_per_s = 1000;
  stages = host_stages(record);
  ASSERT_EQ(stages.size(), 2u);
  EXPECT_EQ(stages[0].name, "stated rate");
  EXPECT_EQ(stages[0].capacity, 1000);
  record.params.host.examples_per_s = 0;
  record.params.input.images = 1000;
  record.params.input.file_bytes = 100000;
  record.params.input.augment_us = 1000;
  stages = host_stages(record);
  ASSERT_EQ(stages.size(), 4u);
  EXPECT_EQ(stages[1].name, "decode and augment");
  EXPECT_NEAR(stages[1].capacity, 96 * 1000.0, 1);
  record.params.slow_hosts = "0.vcpus=4";
  EXPECT_NEAR(host_stages(record)[1].capacity, 4 * 1000.0, 1);
  record.infeed_bytes = 0;
  EXPECT_TRUE(host_stages(record).empty());
}

TEST(HostStages, ARunOfNoCyclesTookNoExamples) {
  RunRecord record = test::synthetic_record();
  for (CoreResult& core : record.result.cores) core.total = {};
  for (const HostStage& stage : host_stages(record)) EXPECT_EQ(stage.examples_per_s, 0);
}

}  // namespace
}  // namespace tpu::traces::run_schema_test
