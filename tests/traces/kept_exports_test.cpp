// What exports and results files hold of records that stay the same (tests/traces/random_record.h),
// beside a small file that says what they held: a code of each file and table, so that nothing in
// one changes unseen. Where a change is meant:
//
//     TPUSIM_UPDATE_KEPT=1 build/traces_tests --gtest_filter='KeptExports.*'

// What is random here depends on the order in which g++ evaluates operands; clang has another one.
#ifndef __clang__

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

#include "sim/base/error.h"
#include "tests/kept_code.h"
#include "tests/kept_lines.h"
#include "tests/models/random_program.h"
#include "tests/traces/random_record.h"
#include "traces/buffer_lifetimes.h"
#include "traces/bundle_recorder.h"
#include "traces/chrome_trace.h"
#include "traces/csv.h"
#include "traces/event_recorder.h"
#include "traces/konata.h"
#include "traces/link_loads.h"
#include "traces/perfetto.h"
#include "traces/program_file.h"
#include "traces/run_file.h"
#include "traces/run_hlo.h"
#include "traces/vcd.h"
#include "traces/xplane.h"

namespace tpu::traces::kept_exports_test {
namespace {

namespace fs = std::filesystem;
using test::Code;

class KeptExports : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "tpusim-kept-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
  }
  void TearDown() override { fs::remove_all(folder_); }

  /// The code of all that `write` puts where it is told to; or its error.
  template <class Write>
  std::string written(const std::string& name, const Write& write) const {
    const fs::path path = folder_ / name;
    fs::remove_all(path);
    try {
      write(path.string());
    } catch (const UserError& error) {
      // Without the path.
      std::string text = error.what();
      for (std::size_t at; (at = text.find(folder_.string())) != std::string::npos;) {
        text.erase(at, folder_.string().size());
      }
      return "(" + text.substr(0, 80) + ")";
    }
    std::map<std::string, std::string> files;
    if (fs::is_directory(path)) {
      for (const auto& file : fs::recursive_directory_iterator(path)) {
        if (file.is_regular_file()) {
          files[fs::relative(file.path(), path).string()] = bytes_of(file.path());
        }
      }
    } else {
      files[""] = bytes_of(path);
    }
    Code code;
    std::size_t bytes = 0;
    for (const auto& [file, text] : files) {
      code << std::string_view(file) << std::string_view(text);
      bytes += text.size();
    }
    return std::to_string(bytes) + " " + code.text();
  }
  static std::string bytes_of(const fs::path& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  fs::path folder_;
};

/// A code of each table.
std::string tables_text(const Hdf5Contents& contents) {
  std::string text;
  for (const auto& [name, table] : contents.tables) {
    text += " " + name + " " + (Code() << std::string_view(csv_text(table))).text();
  }
  Code rest;
  for (const auto& [name, value] : contents.attributes) {
    rest << std::string_view(name) << std::string_view(value);
  }
  for (const auto& [name, bytes] : contents.bytes) {
    rest << std::string_view(name);
    for (const std::uint8_t byte : bytes) rest << byte;
  }
  return text + " rest " + rest.text();
}

TEST_F(KeptExports, OfRecords) {
  test::KeptLines kept("traces/kept/records.txt");
  for (std::uint32_t seed = 2001; seed <= 2012; ++seed) {
    const RunRecord record = test::RandomRecord(seed).make();
    const std::string key = std::to_string(seed);
    Window window;
    if (seed % 3 == 0) window = {record.result.cycles / 5, record.result.cycles / 2};
    kept.expect(key + " chrome",
                written("t.json", [&](const auto& p) { export_chrome(record, p); }));
    kept.expect(key + " perfetto",
                written("t.pftrace", [&](const auto& p) { export_perfetto(record, p); }));
    kept.expect(key + " vcd",
                written("t.vcd", [&](const auto& p) { export_vcd(record, window, p); }));
    std::string left_out;
    for (const std::size_t most : {std::size_t{20}, std::size_t{1000000}}) {
      kept.expect(key + " xplane of " + std::to_string(most), written("t", [&](const auto& p) {
                    for (const std::string& line : export_xplane(record, {35, 20}, most, p)) {
                      left_out += line + "; ";
                    }
                  }));
    }
    kept.expect(key + " xplane leaves out", left_out);
    kept.expect(key + " csv", written("t", [&](const auto& p) {
                  fs::create_directory(p);
                  export_csv(run_contents(record), p);
                }));
    const std::string tables = tables_text(run_contents(record));
    kept.expect(key + " tables", tables);
    const std::string file = (folder_ / "t.h5").string();
    write_run_file(file, record);
    EXPECT_EQ(tables_text(run_contents(read_run_file(file))), tables) << seed << ": read back";
    Code links, memory;
    for (const LinkLoad& link : link_loads(record)) {
      links << link.from_chip << link.to_chip << static_cast<int>(link.direction) << link.bytes
            << link.utilization;
      for (const double bytes : link_bytes(record, link, 20)) links << bytes;
    }
    for (const std::uint64_t bytes : hbm_in_use(record)) memory << bytes;
    memory << hbm_peak_bytes(record);
    const RunHlo hlo = run_hlo(record);
    kept.expect(key + " links, memory, program",
                links.text() + " " + memory.text() + " " +
                    (Code() << std::string_view(hlo.proto) << hlo.program_id).text());
  }
}

/// Keeps what both recorders keep.
class Recorders : public EventRecorder {
 public:
  Recorders(const isa::Program& program, const MachineParams& params,
            std::pair<std::uint64_t, std::uint64_t> window)
      : bundles(program, params, window) {}
  void on_wait(std::uint32_t core, CoreState reason, std::uint64_t begin,
               std::uint64_t end) override {
    EventRecorder::on_wait(core, reason, begin, end);
    bundles.on_wait(core, reason, begin, end);
  }
  void on_bundles(const IssuedBundles& issued) override { bundles.on_bundles(issued); }
  BundleRecorder bundles;
};

TEST_F(KeptExports, OfRandomPrograms) {
  test::KeptLines kept("traces/kept/programs.txt");
  for (std::uint32_t seed = 2101; seed <= 2120; ++seed) {
    isa::Program program = test::RandomProgram(seed).make();
    const std::string key = std::to_string(seed);
    kept.expect(key + " program file",
                written("t.tpu.h5", [&](const auto& p) { write_program_file(p, program); }));
    const MachineParams params;
    std::pair<std::uint64_t, std::uint64_t> window = {0, 2000};
    if (seed % 3 == 0) window = {200, 500};
    Recorders recorders(program, params, window);
    RunOptions options = test::on_core(0);
    options.observer = &recorders;
    options.steps = 2;
    options.warmup_steps = seed % 2;
    RunRecord record = start_record(params, program);
    try {
      record.result = test::run(program, options);
    } catch (const ProgramFault&) {
      continue;
    }
    record.core_numbers = {0};
    record.has_events = true;
    record.events = recorders.take();
    const BundleLog log = recorders.bundles.take();
    kept.expect(key + " konata",
                written("t.log", [&](const auto& p) { export_konata(log, program.ops, p); }));
    kept.expect(key + " vcd", written("t.vcd", [&](const auto& p) {
                  export_vcd(record, {window.first, window.second}, p, {&program, &log});
                }));
    kept.expect(key + " tables", tables_text(run_contents(record)));
  }
}

}  // namespace
}  // namespace tpu::traces::kept_exports_test

#endif
