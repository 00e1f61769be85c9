#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <set>
#include <string>

#include "isa/generation.h"
#include "isa/schedule_survey.h"
#include "sim/base/error.h"
#include "workloads/xla/captured_folder.h"
#include "workloads/xla/listing_files.h"

// Prints the smallest distances that XLA's schedules keep beside the opcode table's latencies:
//     schedule_report FOLDER...
// FOLDER is a captured folder or holds captured folders at any depth. Exits with 1 when an
// instruction stands nearer than the table allows.

namespace {

namespace fs = std::filesystem;

void survey(const fs::path& folder, std::map<std::string, tpu::isa::ScheduleSurvey>& surveys) {
  for (const tpu::isa::Generation& generation : tpu::isa::generations()) {
    const std::string chip(generation.name);
    const std::string listings = folder.string() + "/" + chip + ".bundles";
    if (!fs::exists(listings) && !fs::exists(listings + ".tar.xz")) continue;
    const tpu::isa::Program program = tpu::xla::load_captured(folder.string(), chip);
    for (const tpu::isa::Kernel& kernel : program.kernels) {
      surveys[chip].add(kernel, folder.filename().string() + ", " + kernel.name);
    }
  }
}

/// Returns how many pairs stand too near.
int print(const std::string& chip, const tpu::isa::ScheduleSurvey& survey) {
  std::printf("%s: %llu bundles\n", chip.c_str(),
              static_cast<unsigned long long>(survey.bundles()));
  std::printf("%-9s %-34s %-34s %6s %9s %10s %10s  %s\n", "kind", "first", "second", "table",
              "smallest", "so often", "of", "where");
  int early = 0;
  for (const tpu::isa::Distance& distance : survey.distances()) {
    early += distance.early() ? 1 : 0;
    const char* remark = distance.early()                     ? "  TOO EARLY"
                         : distance.smallest < distance.table ? "  held back"
                                                              : "";
    std::printf("%-9s %-34s %-34s %6u %9u %10llu %10llu  %s%s\n", to_string(distance.kind),
                tpu::isa::opcode_text(distance.first).c_str(),
                tpu::isa::opcode_text(distance.second).c_str(), distance.table, distance.smallest,
                static_cast<unsigned long long>(distance.at_smallest),
                static_cast<unsigned long long>(distance.all), distance.where.c_str(), remark);
  }
  return early;
}

}  // namespace

int main(int argc, char** argv) {
  std::map<std::string, tpu::isa::ScheduleSurvey> surveys;
  try {
    for (int i = 1; i < argc; ++i) {
      std::set<fs::path> folders;
      if (tpu::xla::is_captured_folder(argv[i])) folders.insert(argv[i]);
      for (const auto& entry : fs::recursive_directory_iterator(argv[i])) {
        if (tpu::xla::is_captured_folder(entry.path().string())) folders.insert(entry.path());
      }
      for (const fs::path& folder : folders) survey(folder, surveys);
    }
  } catch (const tpu::UserError& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return static_cast<int>(error.exit_code());
  } catch (const fs::filesystem_error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return static_cast<int>(tpu::ExitCode::kBadWorkload);
  }
  int early = 0;
  for (const auto& [chip, result] : surveys) early += print(chip, result);
  return early > 0 ? 1 : 0;
}
