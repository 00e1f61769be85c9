#include "workloads/compiler/ir/lane_parts.h"

#include <algorithm>
#include <vector>

#include "isa/instruction.h"
#include "workloads/compiler/ir/array_layout.h"

namespace tpu::compiler {

namespace {

/// The dimension of the array that two of the other one follow each other in; -1: none.
std::int64_t parted_dimension(const std::vector<std::int64_t>& whole,
                              const std::vector<std::int64_t>& parts) {
  if (whole.size() + 1 != parts.size()) return -1;
  std::size_t d = 0;
  while (d < whole.size() && whole[d] == parts[d]) ++d;
  if (d == whole.size() || whole[d] != parts[d] * parts[d + 1]) return -1;
  const auto behind = static_cast<std::ptrdiff_t>(d) + 1;
  return std::equal(whole.begin() + behind, whole.end(), parts.begin() + behind + 1)
             ? static_cast<std::int64_t>(d)
             : -1;
}

/// Rows of one tile and a vector that has an element of each in turns.
std::optional<LaneParts> parts_of_vector(const hlo::Shape& from, const hlo::Shape& to) {
  LaneParts found;
  found.joins = to.rank() == 1;
  const hlo::Shape& parts = found.joins ? from : to;
  if (from.rank() + to.rank() != 3 || from.type != to.type || hlo::byte_size(from.type) != 4 ||
      from.element_count() != to.element_count() || major_to_minor(parts).back() != 0) {
    return std::nullopt;
  }
  found.woven = true;
  found.count = parts.dimensions[1];
  found.lanes = parts.dimensions[0];
  if (found.count == 1 || found.count > isa::kSublanes || found.lanes < isa::kLanes) {
    return std::nullopt;
  }
  found.from = found.joins ? as_it_lies(from) : from;
  found.to = found.joins ? to : as_it_lies(to);
  return found;
}

}  // namespace

std::optional<LaneParts> lane_parts(const hlo::Shape& from, const hlo::Shape& to) {
  if (from.rank() == 1 || to.rank() == 1) return parts_of_vector(from, to);
  LaneParts found;
  found.joins = to.rank() < from.rank();
  const hlo::Shape &whole = found.joins ? to : from, &parts = found.joins ? from : to;
  if (from.type != to.type || whole.rank() < 2) return std::nullopt;
  const std::int64_t d = parted_dimension(whole.dimensions, parts.dimensions);
  if (d < 0) return std::nullopt;
  const std::vector<std::int64_t> order = major_to_minor(parts);
  found.woven = order.back() == d;
  const std::int64_t number = found.woven ? d + 1 : d, lanes = found.woven ? d : d + 1;
  const auto place = std::find(order.begin(), order.end(), number);
  if (order.end() - place <= 2) return std::nullopt;
  std::vector<std::int64_t> others;
  for (std::int64_t dimension : order) {
    if (dimension != number) others.push_back(dimension > d ? dimension - 1 : dimension);
  }
  if (order.back() != lanes || others != major_to_minor(whole)) return std::nullopt;
  found.dimension = static_cast<std::size_t>(place - order.begin());
  found.count = *std::next(parts.dimensions.begin(), number);
  found.lanes = *std::next(parts.dimensions.begin(), lanes);
  if (found.count == 1 || (found.woven && found.count > kMostWovenParts)) return std::nullopt;
  hlo::Shape of_whole = as_it_lies(whole);
  of_whole.dimensions.insert(std::next(of_whole.dimensions.begin(), place - order.begin()), 1);
  of_whole.layout = row_major_layout(of_whole.type, of_whole.rank());
  const hlo::Shape of_parts = as_it_lies(parts);
  found.from = found.joins ? of_parts : of_whole;
  found.to = found.joins ? of_whole : of_parts;
  return found;
}

}  // namespace tpu::compiler
