#include "workloads/xla/control_ops.h"

#include <algorithm>
#include <map>

namespace tpu::xla {
namespace {

using isa::ControlOp;
using isa::ControlPoint;
using isa::ControlRegion;

using Regions = std::vector<const ControlRegion*>;

bool is(const ControlRegion& region, const char* role) { return region.role == role; }

/// The bundle of the branch at the end of a region.
std::optional<std::uint32_t> branch_bundle(const isa::Listing& top, const ControlRegion& region) {
  if (!region.target) return std::nullopt;
  for (const isa::ListingBranch& branch : top.branches) {
    if (branch.region == *region.target) return branch.bundle;
  }
  return std::nullopt;
}

std::vector<ControlPoint> loop_points(const isa::Listing& top, const Regions& regions) {
  std::vector<ControlPoint> points;
  for (const ControlRegion* region : regions) {
    const bool again = is(*region, "loop_header_branch") || is(*region, "loop_footer_branch");
    if (!again && !is(*region, "pred_check_branch")) continue;
    const std::optional<std::uint32_t> bundle = branch_bundle(top, *region);
    if (!bundle) continue;
    ControlPoint point;
    point.bundle = *bundle;
    point.trip_when_taken = again;
    points.push_back(point);
  }
  return points;
}

/// The branches of a conditional that each of its regions holds, first and one behind the last.
using BranchRanges = std::map<std::uint32_t, std::pair<std::uint32_t, std::uint32_t>>;

BranchRanges branch_ranges(const Regions& regions, std::uint32_t& count) {
  BranchRanges ranges;
  std::map<std::uint32_t, std::uint32_t> parent;
  count = 0;
  for (const ControlRegion* region : regions) {
    if (!is(*region, "pred_region")) continue;
    parent[region->number] = region->parent;
    const bool holds_others =
        std::any_of(regions.begin(), regions.end(), [&](const ControlRegion* other) {
          return is(*other, "pred_check_branch") && other->parent == region->number;
        });
    ranges[region->number] = {count, count};
    if (holds_others) continue;
    ++count;
    for (std::uint32_t r = region->number; parent.count(r) != 0; r = parent[r]) {
      ranges[r].second = count;
    }
  }
  return ranges;
}

std::vector<ControlPoint> branch_points(const isa::Listing& top, const Regions& regions,
                                        std::uint32_t& count) {
  const BranchRanges ranges = branch_ranges(regions, count);
  std::vector<ControlPoint> points;
  for (std::size_t i = 0; i < regions.size(); ++i) {
    if (!is(*regions[i], "pred_check_branch")) continue;
    const std::optional<std::uint32_t> bundle = branch_bundle(top, *regions[i]);
    const auto left_out =
        std::find_if(regions.begin() + static_cast<std::ptrdiff_t>(i), regions.end(),
                     [&](const ControlRegion* other) {
                       return is(*other, "pred_region") && other->parent == regions[i]->parent;
                     });
    if (!bundle || left_out == regions.end()) continue;
    ControlPoint point;
    point.bundle = *bundle;
    point.first_branch = ranges.at((*left_out)->number).first;
    point.end_branch = ranges.at((*left_out)->number).second;
    points.push_back(point);
  }
  return points;
}

}  // namespace

std::vector<ControlOp> control_ops(const isa::Listing& top, const isa::PackedListing& packed,
                                   const InstructionIndex& index) {
  std::vector<std::string> names;
  std::map<std::string, Regions> by_name;
  for (const ControlRegion& region : packed.control_regions()) {
    Regions& regions = by_name[region.op];
    if (regions.empty()) names.push_back(region.op);
    regions.push_back(&region);
  }
  std::vector<ControlOp> ops;
  for (const std::string& name : names) {
    const InstructionIndex::Place place = index.find(name);
    if (place.instruction < 0) continue;
    const hlo::HloInstruction& instruction =
        index.module().computation(place.computation).at(place.instruction);
    ControlOp op;
    op.name = name;
    op.op_name = instruction.metadata.op_name;
    op.source = hlo::source_of(index.module(), instruction.metadata);
    const Regions& regions = by_name[name];
    op.points = instruction.opcode == hlo::HloOpcode::kWhile
                    ? loop_points(top, regions)
                    : branch_points(top, regions, op.branches);
    if (!op.points.empty()) ops.push_back(std::move(op));
  }
  return ops;
}

}  // namespace tpu::xla
