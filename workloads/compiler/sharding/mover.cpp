#include "workloads/compiler/sharding/mover.h"

#include <algorithm>

#include "sim/base/contains.h"
#include "sim/base/error.h"

namespace tpu::compiler {

using hlo::ElementType;
using hlo::HloInstruction;
using hlo::HloOpcode;

namespace {

/// Axes of `to` behind those of `from`; none where `from` is no beginning of it.
Axes missing(const Axes& from, const Axes& to) {
  if (!begins_with(to, from)) return {};
  return Axes(to.begin() + static_cast<std::ptrdiff_t>(from.size()), to.end());
}

std::size_t common(const Axes& a, const Axes& b) {
  std::size_t count = 0;
  while (count < a.size() && count < b.size() && a[count] == b[count]) ++count;
  return count;
}

}  // namespace

hlo::ComputationId Mover::combination(HloOpcode opcode, ElementType type) {
  const auto key = std::make_pair(opcode, type);
  const auto found = combinations_.find(key);
  if (found != combinations_.end()) return found->second;
  return combinations_[key] = edit_.scalar_computation(opcode, type);
}

Mover::Id Mover::collective(HloOpcode opcode, Id value, const Axes& axes, std::int64_t dimension,
                            std::vector<std::int64_t> extents, hlo::ComputationId called) {
  HloInstruction made =
      edit_.start(opcode, {value}, hlo::array_shape(edit_.shape(value).type, std::move(extents)));
  if (opcode != HloOpcode::kAllReduce) made.dimensions = {dimension};
  if (called >= 0) made.called = {called};
  made.replica_groups = mesh_.groups(axes);
  made.raw_attributes = std::string(
      opcode == HloOpcode::kAllToAll ? "channel_id=1" : "channel_id=1, use_global_device_ids=true");
  return edit_.append_instruction(std::move(made));
}

Mover::Id Mover::index(const Axes& axes) {
  Id result = edit_.scalar(ElementType::kS32, 0);
  const auto number = [this](std::int64_t value) {
    return edit_.scalar(ElementType::kS32, static_cast<double>(value));
  };
  const Id device =
      edit_.convert(edit_.append_instruction(edit_.start(HloOpcode::kPartitionId, {},
                                                         hlo::array_shape(ElementType::kU32, {}))),
                    ElementType::kS32);
  bool is_first = true;
  for (const DeviceDigit& digit : mesh_.digits(axes)) {
    Id place = device;
    if (digit.stride > 1) place = edit_.binary(HloOpcode::kDivide, place, number(digit.stride));
    if (digit.size * digit.stride < mesh_.devices()) {
      place = edit_.binary(HloOpcode::kRemainder, place, number(digit.size));
    }
    result = is_first ? place
                      : edit_.binary(HloOpcode::kAdd,
                                     edit_.binary(HloOpcode::kMultiply, result, number(digit.size)),
                                     place);
    is_first = false;
  }
  return result;
}

/// The device's own part along one dimension.
Mover::Id Mover::cut(Id value, std::size_t dimension, const Axes& axes) {
  std::vector<std::int64_t> extents = edit_.dimensions(value);
  const Id zero = edit_.scalar(ElementType::kS32, 0);
  extents[dimension] /= mesh_.extent(axes);
  HloInstruction slice = edit_.start(HloOpcode::kDynamicSlice, {value},
                                     hlo::array_shape(edit_.shape(value).type, extents));
  slice.operands.resize(extents.size() + 1, zero);
  slice.operands[1 + dimension] =
      edit_.binary(HloOpcode::kMultiply, index(axes),
                   edit_.scalar(ElementType::kS32, static_cast<double>(extents[dimension])));
  slice.dynamic_slice_sizes = extents;
  return edit_.append_instruction(std::move(slice));
}

Mover::Id Mover::combine(Id value, Sharding& from, const Sharding& to, Axes partial,
                         HloOpcode opcode) {
  const ElementType type = edit_.shape(value).type;
  for (std::size_t d = 0; d < to.dimensions.size() && opcode == HloOpcode::kAdd; ++d) {
    Axes run;
    for (int axis : missing(from.dimensions[d], to.dimensions[d])) {
      if (!contains(partial, axis)) break;
      run.push_back(axis);
    }
    if (run.empty()) continue;
    std::vector<std::int64_t> extents = edit_.dimensions(value);
    extents[d] /= mesh_.extent(run);
    value = collective(HloOpcode::kReduceScatter, value, run, static_cast<std::int64_t>(d),
                       std::move(extents), combination(opcode, type));
    for (int axis : run) {
      from.dimensions[d].push_back(axis);
      partial.erase(std::find(partial.begin(), partial.end(), axis));
    }
  }
  if (partial.empty()) return value;
  std::sort(partial.begin(), partial.end());
  return collective(HloOpcode::kAllReduce, value, partial, 0, edit_.dimensions(value),
                    combination(opcode, type));
}

bool Mover::cut_free_axes(Id& value, Sharding& from, const Sharding& to) {
  bool changed = false;
  for (std::size_t d = 0; d < to.dimensions.size(); ++d) {
    Axes run;
    for (int axis : missing(from.dimensions[d], to.dimensions[d])) {
      if (from.uses(axis)) break;
      run.push_back(axis);
    }
    if (run.empty()) continue;
    value = cut(value, d, run);
    from.dimensions[d].insert(from.dimensions[d].end(), run.begin(), run.end());
    changed = true;
  }
  return changed;
}

/// The last axes of one dimension become the next ones of another.
bool Mover::exchange(Id& value, Sharding& from, const Sharding& to) {
  for (std::size_t i = 0; i < to.dimensions.size(); ++i) {
    Axes& left = from.dimensions[i];
    const std::size_t kept = common(left, to.dimensions[i]);
    for (std::size_t j = 0; j < to.dimensions.size(); ++j) {
      if (i == j) continue;
      const Axes wanted = missing(from.dimensions[j], to.dimensions[j]);
      for (std::size_t begin = kept; begin < left.size(); ++begin) {
        const Axes run(left.begin() + static_cast<std::ptrdiff_t>(begin), left.end());
        if (!begins_with(wanted, run)) continue;
        const std::int64_t parts = mesh_.extent(run);
        std::vector<std::int64_t> extents = edit_.dimensions(value), order;
        const auto split = static_cast<std::ptrdiff_t>(j);
        extents[j] /= parts;
        extents.insert(extents.begin() + split, parts);
        value = edit_.reshape(value, extents);
        value = collective(HloOpcode::kAllToAll, value, run, static_cast<std::int64_t>(j), extents);
        for (std::size_t d = 0; d < extents.size(); ++d) {
          if (d != j) order.push_back(static_cast<std::int64_t>(d));
        }
        order.insert(order.begin() + static_cast<std::ptrdiff_t>(i), static_cast<std::int64_t>(j));
        value = edit_.transpose(value, order);
        extents.erase(extents.begin() + split);
        extents[i] *= parts;
        value = edit_.reshape(value, extents);
        left.resize(begin);
        from.dimensions[j].insert(from.dimensions[j].end(), run.begin(), run.end());
        return true;
      }
    }
  }
  return false;
}

bool Mover::gather(Id& value, Sharding& from, const Sharding& to) {
  for (std::size_t d = 0; d < to.dimensions.size(); ++d) {
    Axes& mine = from.dimensions[d];
    const std::size_t kept = common(mine, to.dimensions[d]);
    if (kept == mine.size()) continue;
    const Axes run(mine.begin() + static_cast<std::ptrdiff_t>(kept), mine.end());
    std::vector<std::int64_t> extents = edit_.dimensions(value);
    extents[d] *= mesh_.extent(run);
    value = collective(HloOpcode::kAllGather, value, run, static_cast<std::int64_t>(d),
                       std::move(extents));
    mine.resize(kept);
    return true;
  }
  return false;
}

Mover::Id Mover::move(Id value, Sharding from, const Sharding& to, Axes partial,
                      HloOpcode combination) {
  if (!partial.empty()) value = combine(value, from, to, std::move(partial), combination);
  while (!(from == to)) {
    const bool changed =
        cut_free_axes(value, from, to) || exchange(value, from, to) || gather(value, from, to);
    TPU_CHECK(changed, "no way from one sharding to another");
  }
  return value;
}

}  // namespace tpu::compiler
