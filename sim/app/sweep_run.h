#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sim/app/arguments.h"
#include "sim/app/program_cache.h"
#include "sim/config/configuration.h"
#include "sim/sweep/point_store.h"
#include "sim/sweep/sweep_plan.h"

namespace tpu::app {

/// What a sweep may set: flags of `tpusim run` that change a result, parameters of configurations.
const sweep::SettingNames& sweep_names();

/// Turns points into runs. Configurations, parsed modules and compiled programs are shared between
/// the points of a process.
class PointRunner {
 public:
  PointRunner();

  /// The hash of everything that the result depends on: this program, the effective parameters, the
  /// contents of the workload, the flags. Points that can't be read have one, too.
  std::string hash(const sweep::Point& point);
  /// Simulates a point; a mistake of the user or a bug in it is its result.
  sweep::PointResult run(const sweep::Point& point);

 private:
  const config::Configuration& base(const std::string& name);
  config::Configuration configuration_of(const Arguments& arguments);
  const std::string& digest_of_workload(const std::string& name);

  std::string program_;  ///< Digest of this program.
  std::map<std::string, config::Configuration> bases_;
  std::map<std::string, std::string> workloads_;  ///< Digests.
  ProgramCache programs_;
};

/// Simulates points in several processes; each takes the next one when it is ready. `progress` is
/// called now and then with how many are done. Returns what processes that died were at.
std::vector<std::string> run_points(PointRunner& runner, const sweep::Plan& plan,
                                    const std::vector<std::size_t>& todo,
                                    const std::vector<std::string>& hashes,
                                    const sweep::PointStore& store, std::uint32_t jobs,
                                    const std::function<void(std::size_t done)>& progress);

}  // namespace tpu::app
