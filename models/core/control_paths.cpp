#include "models/core/control_paths.h"

#include <algorithm>

namespace tpu {
namespace {

/// A loop whose only branch is the one back makes its first trip untested.
std::uint64_t untested_trips(const isa::ControlOp& op) {
  const bool tested = std::any_of(op.points.begin(), op.points.end(),
                                  [](const auto& point) { return !point.trip_when_taken; });
  return tested ? 0 : 1;
}

}  // namespace

ControlPaths::ControlPaths(const isa::Program& program, const RunOptions& options)
    : program_(program), options_(options), now_(program.control.size()) {
  for (std::uint32_t o = 0; o < program.control.size(); ++o) {
    const isa::ControlOp& op = program.control[o];
    for (std::uint32_t p = 0; p < op.points.size(); ++p) points_[op.points[p].bundle] = {o, p};
    PathTaken path;
    path.op = o;
    path.branch_counts.resize(op.branches);
    taken_.push_back(path);
    begin_execution(o);
  }
}

void ControlPaths::describe(StepState& state) const {
  for (const Now& now : now_) {
    state.add(now.trips);
    for (const bool open : now.open) state.add(open ? 1 : 0);
    state.add(now.counted ? 1 : 0);
  }
}

void ControlPaths::begin_execution(std::uint32_t op) {
  now_[op] = {untested_trips(program_.control[op]),
              std::vector<bool>(program_.control[op].branches, true), false};
}

std::optional<bool> ControlPaths::decide(std::uint32_t bundle, std::optional<bool> known,
                                         bool assume) {
  const auto found = points_.find(bundle);
  if (found == points_.end()) return known;
  const Place place = found->second;
  const isa::ControlOp& op = program_.control[place.op];
  PathTaken& path = taken_[place.op];
  if (op.branches > 0 && place.point == 0) begin_execution(place.op);
  const std::optional<bool> stated = wanted(place);
  if (stated) path.stated = true;
  std::optional<bool> taken = stated ? stated : known;
  if (!taken && assume) {
    path.assumed = true;
    taken = wanted_by(op.points[place.point], place, op.branches > 0 ? 0 : 1);
  }
  if (!taken) return std::nullopt;
  if (op.branches > 0) {
    note_branch(place, *taken);
  } else {
    note_loop(place, *taken == op.points[place.point].trip_when_taken);
  }
  return taken;
}

std::optional<bool> ControlPaths::wanted(const Place& place) const {
  const auto stated = options_.paths.find(place.op);
  if (stated == options_.paths.end()) return std::nullopt;
  return wanted_by(program_.control[place.op].points[place.point], place, stated->second);
}

/// Whether the branch is taken when the loop makes so many trips, or this branch is to run.
std::optional<bool> ControlPaths::wanted_by(const isa::ControlPoint& point, const Place& place,
                                            std::uint64_t number) const {
  if (program_.control[place.op].branches > 0) {
    return number < point.first_branch || number >= point.end_branch;
  }
  const bool trip = now_[place.op].trips < number;
  return trip == point.trip_when_taken;
}

void ControlPaths::note_loop(const Place& place, bool trip) {
  Now& now = now_[place.op];
  if (trip) {
    if (++now.trips > options_.max_trips && options_.paths.count(place.op) == 0) {
      endless_ = &program_.control[place.op];
    }
    return;
  }
  PathTaken& path = taken_[place.op];
  path.least_trips = path.executions == 0 ? now.trips : std::min(path.least_trips, now.trips);
  path.most_trips = std::max(path.most_trips, now.trips);
  ++path.executions;
  begin_execution(place.op);
}

void ControlPaths::note_branch(const Place& place, bool taken) {
  const isa::ControlPoint& point = program_.control[place.op].points[place.point];
  Now& now = now_[place.op];
  for (std::uint32_t b = 0; b < now.open.size(); ++b) {
    const bool inside = b >= point.first_branch && b < point.end_branch;
    if (inside == taken) now.open[b] = false;
  }
  if (now.counted || std::count(now.open.begin(), now.open.end(), true) != 1) return;
  now.counted = true;
  PathTaken& path = taken_[place.op];
  ++path.executions;
  const auto branch = std::find(now.open.begin(), now.open.end(), true) - now.open.begin();
  ++path.branch_counts[static_cast<std::size_t>(branch)];
}

}  // namespace tpu
