#include "sim/app/sweep_run.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <iterator>
#include <memory>

#include "sim/app/child_process.h"
#include "sim/app/command_options.h"
#include "sim/app/simulation.h"
#include "sim/app/workload_digest.h"
#include "sim/base/sha256.h"
#include "sim/report/comparison.h"

namespace tpu::app {
namespace {

constexpr std::size_t kPrograms = 32;  ///< That a process keeps.
constexpr const char* kRunFlags[] = {"config", "batch",  "core-batch", "cores", "compiler",
                                     "steps",  "warmup", "detail",     "seed",  "values"};

sweep::PointResult failure(const std::string& error, ExitCode code) {
  sweep::PointResult result;
  result.error = error;
  result.exit_code = static_cast<int>(code);
  return result;
}

}  // namespace

const sweep::SettingNames& sweep_names() {
  static const sweep::SettingNames kNames = [] {
    sweep::SettingNames all;
    all.flags.assign(std::begin(kRunFlags), std::end(kRunFlags));
    all.flags.insert(all.flags.end(), workload_flags().begin(), workload_flags().end());
    all.parameters = config::setting_names();
    return all;
  }();
  return kNames;
}

PointRunner::PointRunner() : program_(digest_of_file("/proc/self/exe")), programs_(kPrograms) {}

const config::Configuration& PointRunner::base(const std::string& name) {
  const auto found = bases_.find(name);
  if (found != bases_.end()) return found->second;
  return bases_.emplace(name, config::load_configuration(name)).first->second;
}

config::Configuration PointRunner::configuration_of(const Arguments& arguments) {
  config::Configuration configuration = base(arguments.configs[0]);
  for (const std::string& setting : arguments.settings) {
    config::apply_setting(configuration, setting);
  }
  config::check(configuration);
  return configuration;
}

const std::string& PointRunner::digest_of_workload(const std::string& name) {
  const auto found = workloads_.find(name);
  if (found != workloads_.end()) return found->second;
  return workloads_.emplace(name, name + " " + digest_of_contents(name)).first->second;
}

std::string PointRunner::hash(const sweep::Point& point) {
  Sha256 digest;
  const auto add = [&](const std::string& text) { digest.add(text + '\0'); };
  add(program_);
  const std::vector<std::string> words = point.words(sweep_names());
  try {
    const std::optional<Arguments> arguments = parse_arguments(words);
    TPU_CHECK(arguments.has_value(), "a point that asks for help");
    const config::Configuration configuration = configuration_of(*arguments);
    add(traces::configuration_sha256(configuration.params));
    add(digest_of_workload(arguments->input));
    for (const auto& [name, text] : point.settings) {
      const auto& flags = sweep_names().flags;
      const bool is_flag = std::find(flags.begin(), flags.end(), name) != flags.end();
      if (is_flag && name != "config") add(name + "=" + text);
    }
  } catch (const UserError& error) {
    for (const std::string& word : words) add(word);
    add(error.what());
  }
  return digest.hex();
}

sweep::PointResult PointRunner::run(const sweep::Point& point) {
  try {
    const std::optional<Arguments> arguments = parse_arguments(point.words(sweep_names()));
    TPU_CHECK(arguments.has_value(), "a point that asks for help");
    const config::Configuration configuration = configuration_of(*arguments);
    const PreparedWorkload& workload = programs_.prepare(*arguments, configuration.params);
    const Simulation simulation =
        simulate(*arguments, configuration, arguments->configs[0], workload, true);
    const report::Summary summary = report::summarize(simulation.record);
    sweep::PointResult result;
    for (const report::ResultRow& row : report::result_rows({simulation.record}, {summary})) {
      if (!std::isnan(row.values[0])) result.figures.emplace_back(row.name, row.values[0]);
    }
    return result;
  } catch (const UserError& error) {
    return failure(error.what(), error.exit_code());
  } catch (const SimulatorBug& error) {
    return failure(std::string("a bug of tpusim: ") + error.what(), ExitCode::kSimulatorBug);
  }
}

namespace {

/// What the processes of a sweep share.
struct SharedWork {
  std::atomic<std::size_t> next{0}, done{0};
  std::atomic<std::size_t> at[4096];  ///< The point that each process is at, from 1; 0: none.
};

}  // namespace

std::vector<std::string> run_points(PointRunner& runner, const sweep::Plan& plan,
                                    const std::vector<std::size_t>& todo,
                                    const std::vector<std::string>& hashes,
                                    const sweep::PointStore& store, std::uint32_t jobs,
                                    const std::function<void(std::size_t done)>& progress) {
  const SharedMemory<SharedWork> memory;
  SharedWork& work = *memory;
  const auto take = [&](std::size_t process) {
    for (std::size_t i = work.next++; i < todo.size(); i = work.next++) {
      work.at[process] = todo[i] + 1;
      store.write(hashes[todo[i]], runner.run(plan.points[todo[i]]));
      ++work.done;
      if (jobs == 1) progress(work.done);
    }
    work.at[process] = 0;
  };
  std::vector<std::string> died;
  if (jobs == 1) {
    take(0);
    return died;
  }
  std::map<pid_t, std::size_t> running;
  for (std::size_t process = 0; process < jobs; ++process) {
    const pid_t child = start_process([&] { take(process); });
    if (child < 0) {
      throw UsageError("--jobs: no more processes can be made: " +
                       std::string(std::strerror(errno)));
    }
    running[child] = process;
  }
  while (!running.empty()) {
    int status = 0;
    const auto ended = running.find(::waitpid(-1, &status, WNOHANG));
    if (ended == running.end()) {
      ::usleep(20000);
      progress(work.done);
      continue;
    }
    const std::string text = end_text(status);
    if (!text.empty()) {
      died.push_back("point " + std::to_string(work.at[ended->second]) + ": its process " + text);
    }
    running.erase(ended);
  }
  return died;
}

}  // namespace tpu::app
