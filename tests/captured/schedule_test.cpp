#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <set>

#include "isa/assembler.h"
#include "isa/schedule_survey.h"
#include "workloads/xla/captured_folder.h"

namespace tpu::test::schedule_test {
namespace {

namespace fs = std::filesystem;
using isa::Distance;
using isa::DistanceKind;
using isa::Opcode;

const std::string kReference = TPUSIM_SOURCE_DIR "/../shared/xla";

isa::Kernel kernel_of(const std::string& bundles) {
  return isa::assemble("kernel top\n" + bundles, "schedule_test.tpu").at(0);
}

std::vector<Distance> distances_of(const std::string& bundles) {
  isa::ScheduleSurvey survey;
  survey.add(kernel_of(bundles), "top");
  return survey.distances();
}

const Distance* find(const std::vector<Distance>& all, DistanceKind kind, Opcode first,
                     Opcode second) {
  for (const Distance& distance : all) {
    if (distance.kind == kind && distance.first == first && distance.second == second) {
      return &distance;
    }
  }
  return nullptr;
}

TEST(ScheduleSurvey, CountsBundlesAndDelaysFromTheWriterToTheReader) {
  const auto all = distances_of(
      "{ %v1 = vld [vmem:$0x0] ;; vdelay 3 }{ %s1 = smov 0 }{ %v2 = vadd.f32 %v1, %v1 }");
  const Distance* load = find(all, DistanceKind::kRegister, Opcode::kVld, Opcode::kVaddF32);
  ASSERT_NE(load, nullptr);
  EXPECT_EQ(load->smallest, 1u + 3u + 1u);
  EXPECT_EQ(load->all, 2u);
  EXPECT_EQ(load->where, "top, bundle 0x2");
}

TEST(ScheduleSurvey, APopTooEarlyIsFound) {
  const std::string push = "{ vpow2.f32 %v1 ;; vdelay ";
  const std::string pop = " }{ %v2 = vpop.eup }";
  const auto early = distances_of(push + "2" + pop);
  const auto in_time = distances_of(push + "3" + pop);
  EXPECT_TRUE(find(early, DistanceKind::kQueue, Opcode::kVpow2F32, Opcode::kVpopEup)->early());
  EXPECT_FALSE(find(in_time, DistanceKind::kQueue, Opcode::kVpow2F32, Opcode::kVpopEup)->early());
}

TEST(ScheduleSurvey, FollowsALoopAroundItsBranch) {
  // Around the loop the load stands two bundles in front of its reader, in the listing behind it.
  const auto all = distances_of(
      "loop:\n{ %s2 = sadd.s32 %s1, 1 }{ %p1 = scmp.lt.s32.totalorder %s2, 9 }"
      "{ sbr.rel (%p1) target = loop }{ %s1 = sld [smem:$0x0] }");
  const Distance* load = find(all, DistanceKind::kRegister, Opcode::kSld, Opcode::kSaddS32);
  ASSERT_NE(load, nullptr);
  EXPECT_EQ(load->smallest, 1u);
  EXPECT_FALSE(load->early()) << "a scalar load is held back or forwarded";
}

/// Captured folders below one, those of long listings only when TPUSIM_ALL_LISTINGS is set.
std::set<fs::path> listings_below(const fs::path& folder) {
  constexpr std::uintmax_t kLong = 300'000;
  std::set<fs::path> folders;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file() ||
        entry.path().string().find(".bundles.tar.xz") == std::string::npos)
      continue;
    if (entry.file_size() > kLong && std::getenv("TPUSIM_ALL_LISTINGS") == nullptr) continue;
    folders.insert(entry.path());
  }
  return folders;
}

TEST(ScheduleSurvey, TheProgramsThatConfirmInstructionsReadNoResultBeforeTheTableHasIt) {
  for (const std::string chip : {"v2", "v3"}) {
    isa::ScheduleSurvey survey;
    for (const char* name : {"scalars", "conversions", "narrow", "comparisons"}) {
      const std::string folder = TPUSIM_SOURCE_DIR "/tests/captured/" + std::string(name);
      const isa::Program program = xla::load_captured(folder, chip);
      for (const isa::Kernel& kernel : program.kernels) survey.add(kernel, kernel.name);
    }
    const std::vector<Distance> all = survey.distances();
    for (const Distance& distance : all) {
      EXPECT_FALSE(distance.early())
          << isa::opcode_text(distance.second) << " stands " << distance.smallest
          << " cycles behind " << isa::opcode_text(distance.first) << ", the table says "
          << distance.table << " (" << chip << ", " << distance.where << ")";
    }
    // Conversions and comparisons on the scalar unit are read in the next bundle.
    for (const auto& [first, second] : {std::pair(Opcode::kScvtPrF32S32, Opcode::kScvtS32F32),
                                        std::pair(Opcode::kScmpLtF32, Opcode::kScalarSelect),
                                        std::pair(Opcode::kScU32, Opcode::kScalarSelect)}) {
      const Distance* distance = find(all, DistanceKind::kRegister, first, second);
      ASSERT_NE(distance, nullptr) << isa::opcode_text(first) << " " << chip;
      EXPECT_EQ(distance->smallest, 1u) << isa::opcode_text(first) << " " << chip;
    }
  }
}

/// The table against XLA's schedules: nothing stands nearer than it says, and where a unit is the
/// limit, much stands exactly so near.
TEST(ScheduleSurvey, NoListingOfTheReferenceReadsAResultBeforeTheTableHasIt) {
  if (!fs::is_directory(kReference)) GTEST_SKIP() << "no reference data at " << kReference;
  for (const std::string chip : {"v2", "v3"}) {
    isa::ScheduleSurvey survey;
    for (const fs::path& archive : listings_below(kReference)) {
      if (archive.filename().string().substr(0, 2) != chip) continue;
      const isa::Program program = xla::load_captured(archive.parent_path().string(), chip);
      for (const isa::Kernel& kernel : program.kernels) {
        survey.add(kernel, archive.parent_path().filename().string() + ", " + kernel.name);
      }
    }
    EXPECT_GT(survey.bundles(), 100'000u);
    const std::vector<Distance> all = survey.distances();
    for (const Distance& distance : all) {
      EXPECT_FALSE(distance.early())
          << to_string(distance.kind) << ": " << isa::opcode_text(distance.second) << " stands "
          << distance.smallest << " cycles behind " << isa::opcode_text(distance.first)
          << ", the table says " << distance.table << " (" << chip << ", " << distance.where << ")";
    }
    const auto smallest = [&](DistanceKind kind, Opcode first, Opcode second) {
      const Distance* distance = find(all, kind, first, second);
      return distance == nullptr ? 0 : distance->smallest;
    };
    const isa::Latencies table;
    EXPECT_EQ(smallest(DistanceKind::kQueue, Opcode::kVmatmul, Opcode::kVpopMrf),
              table.matmul_cycles);
    EXPECT_EQ(smallest(DistanceKind::kQueue, Opcode::kVaddXlane, Opcode::kVpopXlane),
              table.xlu_cycles);
    EXPECT_EQ(smallest(DistanceKind::kQueue, Opcode::kVrotLane, Opcode::kVpopPermute),
              table.xlu_cycles);
    EXPECT_EQ(smallest(DistanceKind::kQueue, Opcode::kVrcpF32, Opcode::kVpopEup), table.eup_cycles);
    EXPECT_EQ(smallest(DistanceKind::kInterval, Opcode::kVmatmul, Opcode::kVmatmul),
              table.mxu_interval_cycles);
    EXPECT_EQ(smallest(DistanceKind::kInterval, Opcode::kVmatpush, Opcode::kVmatpush),
              table.mxu_interval_cycles);
  }
}

}  // namespace
}  // namespace tpu::test::schedule_test
