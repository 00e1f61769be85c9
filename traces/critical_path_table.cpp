#include "traces/critical_path_table.h"

#include <algorithm>
#include <string>

#include "sim/base/error.h"
#include "traces/program_tables.h"

namespace tpu::traces {
namespace {

using U64 = std::vector<std::uint64_t>;

/// "mxu", "vpu": in names of columns.
std::string column_name(std::size_t resource) {
  std::string name = to_string(static_cast<Resource>(resource));
  std::transform(name.begin(), name.end(), name.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
  });
  return name;
}

/// "HBM, MXU"; the set of none is the run as it is.
std::string set_name(std::size_t set) {
  std::string name;
  for (std::size_t r = 0; r < kResources; ++r) {
    if ((set >> r & 1) == 0) continue;
    name += (name.empty() ? "" : ", ") + std::string(to_string(static_cast<Resource>(r)));
  }
  return name;
}

}  // namespace

void add_critical_path(const CriticalPath& path, Hdf5Contents& contents) {
  if (path.cycles == 0) return;
  std::vector<std::string> resources, sets;
  std::vector<double> shares;
  for (std::size_t r = 0; r < kResources; ++r) {
    resources.emplace_back(to_string(static_cast<Resource>(r)));
    shares.push_back(path.shares()[r]);
  }
  contents.tables["critical_path"]
      .add("resource", resources)
      .add("path_cycles", U64(path.path.begin(), path.path.end()))
      .add("share", shares);
  for (std::size_t set = 0; set < CriticalPath::kSets; ++set) sets.push_back(set_name(set));
  U64 cycles(path.without.begin(), path.without.end());
  sets.emplace_back("half of MXU");
  cycles.push_back(path.twice_the_mxus);
  contents.tables["free_resources"].add("free", sets).add("cycles", cycles);
  Table& ops = contents.tables["op_critical_path"];
  for (std::size_t r = 0; r < kResources; ++r) {
    ops.add(column_name(r) + "_path_cycles",
            column_of<std::uint64_t>(path.ops, [r](auto& op) { return op.path[r]; }));
    ops.add(column_name(r) + "_share_cycles",
            column_of<double>(path.ops, [r](auto& op) { return op.cycles[r]; }));
    ops.add(column_name(r) + "_free_gains_cycles",
            column_of<double>(path.ops, [r](auto& op) { return static_cast<double>(op.gain[r]); }));
  }
}

CriticalPath critical_path_of(const Hdf5Contents& contents) {
  CriticalPath path;
  if (contents.tables.count("critical_path") == 0) return path;
  const Table& table = contents.table("critical_path");
  const Table& free = contents.table("free_resources");
  const U64& on_path = table.column<std::uint64_t>("path_cycles");
  const U64& cycles = free.column<std::uint64_t>("cycles");
  if (on_path.size() != kResources || cycles.size() != CriticalPath::kSets + 1) {
    throw WorkloadError(contents.file + ": expected the critical path of " +
                        std::to_string(kResources) + " resources, found " +
                        std::to_string(on_path.size()));
  }
  std::copy(on_path.begin(), on_path.end(), path.path.begin());
  std::copy(cycles.begin(), cycles.end() - 1, path.without.begin());
  path.twice_the_mxus = cycles.back();
  for (const std::uint64_t each : path.path) path.cycles += each;
  const Table& ops = contents.table("op_critical_path");
  path.ops.resize(ops.rows());
  for (std::size_t r = 0; r < kResources; ++r) {
    const U64& mine = ops.column<std::uint64_t>(column_name(r) + "_path_cycles");
    const auto& cycles = ops.column<double>(column_name(r) + "_share_cycles");
    const auto& gains = ops.column<double>(column_name(r) + "_free_gains_cycles");
    for (std::size_t op = 0; op < path.ops.size(); ++op) {
      path.ops[op].path[r] = mine[op];
      path.ops[op].cycles[r] = cycles[op];
      const bool fits = gains[op] > -9e18 && gains[op] < 9e18;
      path.ops[op].gain[r] = fits ? static_cast<std::int64_t>(gains[op]) : 0;
    }
  }
  return path;
}

}  // namespace tpu::traces
