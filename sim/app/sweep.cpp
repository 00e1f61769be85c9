#include "sim/app/sweep.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <set>

#include "sim/app/child_process.h"
#include "sim/app/file_roles.h"
#include "sim/app/progress_bar.h"
#include "sim/app/sweep_run.h"
#include "sim/sweep/point_store.h"
#include "sim/sweep/sweep_plan.h"
#include "sim/sweep/sweep_table.h"

namespace tpu::app {
namespace {

std::string folder_of(const Arguments& arguments) {
  if (!arguments.sweep.points.empty()) return arguments.sweep.points;
  return std::filesystem::path(arguments.input).replace_extension(".points").string();
}

/// "1 min 20 s", "1 h 5 min".
std::string duration(double seconds) {
  const auto whole = static_cast<std::uint64_t>(std::llround(seconds));
  const auto part = [](std::uint64_t n, const char* unit) {
    return std::to_string(n) + " " + unit;
  };
  if (whole < 60) return part(whole, "s");
  if (whole < 3600) return part(whole / 60, "min ") + part(whole % 60, "s");
  return part(whole / 3600, "h ") + part(whole % 3600 / 60, "min");
}

/// A word as a shell takes it.
std::string shell_word(const std::string& word) {
  const std::string plain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-./=,:+@%";
  if (!word.empty() && word.find_first_not_of(plain) == std::string::npos) return word;
  std::string quoted = "'";
  for (const char letter : word) quoted += letter == '\'' ? "'\\''" : std::string(1, letter);
  return quoted + "'";
}

/// A sweep that was read, with the place of its results.
class Sweep {
 public:
  explicit Sweep(const Arguments& arguments)
      : arguments_(arguments),
        plan_(sweep::read_plan(arguments.input, sweep_names())),
        store_(folder_of(arguments)) {
    for (const sweep::Point& point : plan_.points) hashes_.push_back(runner_.hash(point));
  }

  void print_plan() const {
    for (const std::size_t point : chosen()) {
      std::cout << point + 1 << '\t' << (store_.has(hashes_[point]) ? "done" : "missing")
                << "\ttpusim";
      for (const std::string& word : plan_.points[point].words(sweep_names())) {
        std::cout << ' ' << shell_word(word);
      }
      std::cout << '\n';
    }
  }

  /// Simulates what is missing.
  ExitCode run() {
    const sweep::PointStore store = sweep::PointStore::create(store_.folder());
    const std::vector<std::size_t> all = chosen();
    std::vector<std::size_t> todo;
    std::set<std::string> taken;
    for (const std::size_t point : all) {
      if (!store.read(hashes_[point]) && taken.insert(hashes_[point]).second) todo.push_back(point);
    }
    const std::vector<std::string> died = simulate_all(store, todo);
    std::size_t failed = 0;
    bool bug = !died.empty();
    for (const std::size_t point : all) {
      const auto result = store.read(hashes_[point]);
      if (!result || result->error.empty()) continue;
      ++failed;
      bug = bug || result->exit_code == static_cast<int>(ExitCode::kSimulatorBug);
    }
    std::cout << all.size() << (all.size() == 1 ? " point: " : " points: ") << todo.size()
              << " simulated, " << all.size() - todo.size() << " known already, " << failed
              << " failed; " << store.folder() << "\n";
    for (const std::string& text : died) std::cerr << "tpusim: " << text << "\n";
    return bug ? ExitCode::kSimulatorBug : ExitCode::kDone;
  }

  void print_status() const {
    std::size_t done = 0, failed = 0;
    double first = 0, last = 0;
    std::set<std::string> files;
    for (const std::size_t point : chosen()) {
      const auto result = store_.read(hashes_[point]);
      if (!result) continue;
      ++(result->error.empty() ? done : failed);
      if (!files.insert(hashes_[point]).second) continue;
      const double at = store_.written_at(hashes_[point]).value_or(0);
      first = files.size() == 1 ? at : std::min(first, at);
      last = std::max(last, at);
    }
    const std::size_t all = chosen().size(), missing = all - done - failed;
    std::cout << all << (all == 1 ? " point: " : " points: ") << done << " done, " << failed
              << " failed, " << missing << " missing; " << store_.folder() << "\n";
    if (missing == 0 || files.size() < 2 || last <= first) return;
    const double rate = static_cast<double>(files.size() - 1) / (last - first);
    std::cout << "at the rate so far the rest takes "
              << duration(static_cast<double>(missing) / rate) << "\n";
  }

  void merge() const {
    std::vector<std::optional<sweep::PointResult>> results;
    std::size_t missing = 0;
    for (const std::string& hash : hashes_) {
      results.push_back(store_.read(hash));
      missing += results.back() ? 0 : 1;
    }
    if (missing > 0 && !arguments_.sweep.partial) {
      throw UsageError(arguments_.input + ": expected the results of all " +
                       std::to_string(hashes_.size()) + " points in " + store_.folder() +
                       ", found " + std::to_string(missing) +
                       " missing; tpusim sweep run makes them, --partial leaves them out");
    }
    sweep::write_sweep_table(arguments_.output, plan_, sweep::sweep_table(plan_, results));
  }

 private:
  /// The points that --point or --shard name.
  std::vector<std::size_t> chosen() const {
    const SweepArguments& wanted = arguments_.sweep;
    if (!wanted.point) return sweep::shard(plan_.points.size(), wanted.shard, wanted.shards);
    if (*wanted.point > plan_.points.size()) {
      throw UsageError("--point: " + arguments_.input + " has the points 1 to " +
                       std::to_string(plan_.points.size()) + ", found " +
                       std::to_string(*wanted.point));
    }
    return {*wanted.point - 1};
  }

  std::vector<std::string> simulate_all(const sweep::PointStore& store,
                                        const std::vector<std::size_t>& todo) {
    const std::uint32_t wanted = arguments_.sweep.jobs > 0 ? arguments_.sweep.jobs : processors();
    const auto most = static_cast<std::uint32_t>(
        std::max<std::size_t>(1, std::min<std::size_t>(wanted, todo.size())));
    ProgressBar bar("sweep");
    const auto begin = std::chrono::steady_clock::now();
    return run_points(runner_, plan_, todo, hashes_, store, most, [&](std::size_t done) {
      const double passed =
          std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      const std::size_t left = todo.size() - done;
      const std::string rest =
          done == 0
              ? ""
              : ", " + duration(passed / static_cast<double>(done) * static_cast<double>(left)) +
                    " left";
      bar.update(static_cast<double>(done) / static_cast<double>(todo.size()),
                 std::to_string(done) + " of " + std::to_string(todo.size()) + rest);
    });
  }

  const Arguments& arguments_;
  sweep::Plan plan_;
  sweep::PointStore store_;
  PointRunner runner_;
  std::vector<std::string> hashes_;  ///< Of the points.
};

}  // namespace

ExitCode sweep(const Arguments& arguments) {
  if (!arguments.output.empty()) sweep::check_table_name(arguments.output);
  check_files(arguments, {});
  Sweep sweep(arguments);
  ExitCode code = ExitCode::kDone;
  const std::string& action = arguments.sweep.action;
  if (action == "plan") sweep.print_plan();
  if (action == "status") sweep.print_status();
  if (action == "run" || action.empty()) code = sweep.run();
  if (action == "merge" || (action.empty() && !arguments.output.empty())) sweep.merge();
  return code;
}

}  // namespace tpu::app
