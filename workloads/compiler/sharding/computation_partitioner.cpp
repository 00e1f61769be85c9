#include "workloads/compiler/sharding/computation_partitioner.h"

#include <algorithm>

#include "sim/base/error.h"
#include "workloads/compiler/passes/edit.h"

namespace tpu::compiler {

using hlo::ElementType;
using hlo::HloInstruction;
using hlo::HloOpcode;
using hlo::Shape;

namespace {

using Id = GraphEditor::Id;

/// Factors that the rule leaves uncut because one above them in the same dimension is not cut into
/// single elements.
void drop_unreachable(const DeviceMesh& mesh, const FactorRule& rule, std::vector<Axes>& axes) {
  const auto drop = [&](const std::vector<FactorRule::ArrayFactors>& arrays) {
    bool changed = false;
    for (const FactorRule::ArrayFactors& array : arrays) {
      for (const FactorRule::Factors& dimension : array) {
        bool is_open = true;
        for (int factor : dimension) {
          Axes& mine = axes[static_cast<std::size_t>(factor)];
          if (!is_open && !mine.empty()) {
            mine.clear();
            changed = true;
          }
          is_open =
              is_open && mesh.extent(mine) == rule.factors[static_cast<std::size_t>(factor)].size;
        }
      }
    }
    return changed;
  };
  while (drop(rule.operands) || drop(rule.results)) {
  }
}

}  // namespace

ComputationPartitioner::ComputationPartitioner(hlo::Module& module, const ShardingMap& map,
                                               hlo::ComputationId computation,
                                               std::vector<Sharding> results)
    : module_(module),
      map_(map),
      computation_(computation),
      results_(std::move(results)),
      mover_(module, computation, map.mesh()) {}

void ComputationPartitioner::run() {
  const std::size_t count = body().instructions.size();
  for (std::size_t i = 0; i < count; ++i) value_of_.push_back(static_cast<Id>(i));
  for (std::size_t i = 0; i < count; ++i) {
    mover_.edit().stand_for(static_cast<Id>(i));
    visit(static_cast<Id>(i));
  }
  const Id root = body().root;
  mover_.edit().stand_for(root);
  body().root = adjusted(value(root), shardings(computation_, root), results_);
  tidy(body());
}

std::vector<Sharding> ComputationPartitioner::shardings(hlo::ComputationId computation,
                                                        Id id) const {
  std::vector<Sharding> result;
  for (ValueId leaf : map_.values(computation, id)) result.push_back(map_.sharding(leaf));
  return result;
}

Shape ComputationPartitioner::local_shape(const Shape& shape, const std::vector<Sharding>& leaves,
                                          std::size_t& leaf) const {
  Shape local = shape;
  if (!shape.is_tuple()) {
    local.dimensions = local_extents(map_.mesh(), leaves.at(leaf++), shape.dimensions);
    return local;
  }
  for (Shape& element : local.elements) element = local_shape(element, leaves, leaf);
  return local;
}

Shape ComputationPartitioner::local_shape(const Shape& shape,
                                          const std::vector<Sharding>& leaves) const {
  std::size_t leaf = 0;
  return local_shape(shape, leaves, leaf);
}

Id ComputationPartitioner::moved(Id value, const Sharding& from, const Sharding& to) {
  if (from == to) return value;
  const auto key = std::make_pair(value, to.dimensions);
  const auto found = moved_.find(key);
  if (found != moved_.end()) return found->second;
  const HloInstruction& made = at(value);
  const bool is_uniform =
      made.opcode == HloOpcode::kBroadcast && at(made.operands[0]).shape.rank() == 0;
  return moved_[key] = is_uniform ? repeated(made, from, to) : mover_.move(value, from, to);
}

/// The part of another shape of an array whose elements are all equal.
Id ComputationPartitioner::repeated(const HloInstruction& uniform, const Sharding& from,
                                    const Sharding& to) {
  std::vector<std::int64_t> extents = uniform.shape.dimensions;
  for (std::size_t d = 0; d < extents.size(); ++d) {
    extents[d] =
        extents[d] * map_.mesh().extent(from.dimensions[d]) / map_.mesh().extent(to.dimensions[d]);
  }
  return mover_.edit().broadcast(uniform.operands[0], extents, {});
}

Id ComputationPartitioner::adjusted(Id value, const std::vector<Sharding>& from,
                                    const std::vector<Sharding>& to) {
  if (from == to) return value;
  std::size_t leaf = 0;
  return adjusted(value, from, to, leaf);
}

Id ComputationPartitioner::adjusted(Id value, const std::vector<Sharding>& from,
                                    const std::vector<Sharding>& to, std::size_t& leaf) {
  GraphEditor& edit = mover_.edit();
  const Shape shape = edit.shape(value);
  if (!shape.is_tuple()) {
    const std::size_t mine = leaf++;
    return moved(value, from.at(mine), to.at(mine));
  }
  HloInstruction tuple = edit.start(HloOpcode::kTuple, {}, shape);
  for (std::size_t i = 0; i < shape.elements.size(); ++i) {
    HloInstruction element = edit.start(HloOpcode::kGetTupleElement, {value}, shape.elements[i]);
    element.tuple_index = static_cast<std::int64_t>(i);
    const Id part = adjusted(edit.append_instruction(std::move(element)), from, to, leaf);
    tuple.operands.push_back(part);
    tuple.shape.elements[i] = edit.shape(part);
  }
  tuple.name += "." + std::to_string(body().instructions.size());
  return edit.append_instruction(std::move(tuple));
}

void ComputationPartitioner::visit(Id id) {
  HloInstruction& instruction = at(id);
  switch (instruction.opcode) {
    case HloOpcode::kParameter:
      instruction.shape = local_shape(instruction.shape, shardings(computation_, id));
      return;
    case HloOpcode::kTuple:
    case HloOpcode::kGetTupleElement:
    case HloOpcode::kOptimizationBarrier:
      return visit_tuple(id);
    case HloOpcode::kWhile:
    case HloOpcode::kConditional:
      return visit_region(id);
    default:
      break;
  }
  if (map_.boundary(computation_, id) != nullptr) return visit_boundary(id);
  visit_operation(id);
}

/// What only names values.
void ComputationPartitioner::visit_tuple(Id id) {
  HloInstruction& instruction = at(id);
  for (Id& operand : instruction.operands) operand = value(operand);
  if (instruction.opcode == HloOpcode::kTuple) {
    for (std::size_t i = 0; i < instruction.operands.size(); ++i) {
      instruction.shape.elements[i] = at(instruction.operands[i]).shape;
    }
  } else {
    const Shape& operand = at(instruction.operands[0]).shape;
    instruction.shape =
        instruction.opcode == HloOpcode::kOptimizationBarrier
            ? operand
            : operand.elements.at(static_cast<std::size_t>(instruction.tuple_index));
  }
}

/// Arrays enter a loop or branch as its parameters lie.
void ComputationPartitioner::visit_region(Id id) {
  const HloInstruction region = at(id);
  std::vector<Id> operands;
  for (std::size_t i = 0; i < region.operands.size(); ++i) {
    const Id operand = region.operands[i];
    std::vector<Sharding> wanted = shardings(computation_, operand);
    if (region.opcode == HloOpcode::kWhile) {
      wanted = shardings(computation_, id);
    } else if (i == 0) {
      wanted.assign(1, Sharding());
    } else {
      wanted.clear();
      for (ValueId leaf : map_.parameter_values(region.called.at(i - 1))) {
        wanted.push_back(map_.sharding(leaf));
      }
    }
    operands.push_back(adjusted(value(operand), shardings(computation_, operand), wanted));
  }
  at(id).operands = operands;
  at(id).shape = local_shape(region.shape, shardings(computation_, id));
}

/// Into a part that is written for one device, or out of it: the arrays pass as they are.
void ComputationPartitioner::visit_boundary(Id id) {
  const HloInstruction boundary = at(id);
  const std::vector<Sharding>& outside = map_.boundary(computation_, id)->leaves;
  const bool enters = enters_manual_part(boundary);
  std::vector<Id> operands;
  std::vector<Sharding> inside;
  std::size_t leaf = 0;
  for (Id operand : boundary.operands) {
    const std::vector<Sharding> from = shardings(computation_, operand);
    std::vector<Sharding> to;
    for (const Sharding& each : from) {
      to.push_back(enters ? outside.at(leaf) : Sharding(each.dimensions.size()));
      inside.emplace_back(each.dimensions.size());
      ++leaf;
    }
    operands.push_back(adjusted(value(operand), from, to));
  }
  HloInstruction& made = at(id);
  const bool is_tuple = boundary.shape.is_tuple() && !at(operands[0]).shape.is_tuple();
  made.opcode = is_tuple ? HloOpcode::kTuple : HloOpcode::kCopy;
  made.operands = operands;
  made.custom_call_target.reset();
  made.raw_attributes.reset();
  const Shape expected = enters ? boundary.shape : local_shape(boundary.shape, outside);
  if (!is_tuple) made.shape = at(operands[0]).shape;
  for (std::size_t i = 0; is_tuple && i < operands.size(); ++i) {
    made.shape.elements[i] = at(operands[i]).shape;
  }
  if (to_string(made.shape, false) != to_string(expected, false)) {
    throw WorkloadError("instruction \"" + boundary.name + "\": expected parts of " +
                        to_string(expected, false) + ", found that its annotation makes them " +
                        to_string(made.shape, false));
  }
  value_of_[static_cast<std::size_t>(id)] =
      adjusted(id, enters ? inside : outside, shardings(computation_, id));
}

namespace {

/// Takes the axes of each factor that continue what is chosen and that no other factor has.
void take_axes(const std::vector<Axes>& proposed, const std::vector<char>& eligible,
               std::vector<Axes>& chosen) {
  for (std::size_t f = 0; f < proposed.size(); ++f) {
    if (!eligible[f] || !begins_with(proposed[f], chosen[f])) continue;
    for (std::size_t i = chosen[f].size(); i < proposed[f].size(); ++i) {
      const int axis = proposed[f][i];
      const bool is_used = std::any_of(chosen.begin(), chosen.end(), [axis](const Axes& axes) {
        return std::find(axes.begin(), axes.end(), axis) != axes.end();
      });
      if (is_used) break;
      chosen[f].push_back(axis);
    }
  }
}

}  // namespace

/// Bytes that a device receives when an array goes from one sharding to another: everything behind
/// the axes that stay, since an exchange of parts gathers them, too.
double ComputationPartitioner::bytes_to_move(double whole, const Sharding& from,
                                             const Sharding& to) const {
  double kept = whole;
  bool is_cut = true;
  for (std::size_t d = 0; d < from.dimensions.size(); ++d) {
    const Axes& mine = from.dimensions[d];
    const Axes& wanted = to.dimensions[d];
    is_cut = is_cut && begins_with(wanted, mine);
    const auto same =
        std::mismatch(
            mine.begin(),
            mine.begin() + static_cast<std::ptrdiff_t>(std::min(mine.size(), wanted.size())),
            wanted.begin())
            .first;
    kept /= static_cast<double>(map_.mesh().extent(Axes(mine.begin(), same)));
  }
  return is_cut ? 0 : kept;
}

/// Bytes that a device receives when an operation is cut over these axes.
double ComputationPartitioner::cost_of(const HloInstruction& instruction, const FactorRule& rule,
                                       const std::vector<Axes>& axes) {
  double bytes = 0;
  for (std::size_t i = 0; i < rule.operands.size(); ++i) {
    if (rule.operands[i].empty()) continue;
    const Sharding& from = map_.sharding(computation_, instruction.operands[i]);
    const auto local =
        static_cast<double>(at(value(instruction.operands[i])).shape.unpadded_bytes());
    const double whole = local * static_cast<double>(parts_of(from));
    bytes +=
        bytes_to_move(whole, from, sharding_of_factors(map_.mesh(), rule, rule.operands[i], axes));
  }
  std::int64_t partial = 1;
  for (std::size_t f = 0; f < axes.size(); ++f) {
    if (rule.factors[f].is_reduced) partial *= map_.mesh().extent(axes[f]);
  }
  const std::vector<ValueId>& mine = map_.values(computation_, instruction.id);
  for (std::size_t k = 0; k < rule.results.size() && k < mine.size(); ++k) {
    const Sharding made = sharding_of_factors(map_.mesh(), rule, rule.results[k], axes);
    const Sharding& wanted = map_.sharding(mine[k]);
    const Shape& shape =
        instruction.shape.is_tuple() ? instruction.shape.elements[k] : instruction.shape;
    const auto whole = static_cast<double>(shape.unpadded_bytes());
    const double local = whole / static_cast<double>(parts_of(made));
    if (partial == 1) {
      bytes += bytes_to_move(whole, made, wanted);
    } else {
      // Each half of an all-reduce receives the result once; a reduce-scatter is the first half.
      bytes += parts_of(wanted) >= parts_of(made) * partial ? local : 2 * local;
    }
  }
  return bytes;
}

std::int64_t ComputationPartitioner::parts_of(const Sharding& sharding) const {
  std::int64_t parts = 1;
  for (const Axes& axes : sharding.dimensions) parts *= map_.mesh().extent(axes);
  return parts;
}

/// The axes along which each factor is cut: those of the result, then those of the operands; or
/// reduced factors first, where that receives fewer bytes.
std::vector<Axes> ComputationPartitioner::choose(const HloInstruction& instruction,
                                                 const FactorRule& rule) {
  std::vector<std::vector<Axes>> proposals;
  const std::vector<ValueId>& mine = map_.values(computation_, instruction.id);
  for (std::size_t k = 0; k < mine.size() && k < rule.results.size(); ++k) {
    proposals.push_back(
        axes_of_factors(map_.mesh(), rule, rule.results[k], map_.sharding(mine[k])));
  }
  for (std::size_t i = 0; i < instruction.operands.size(); ++i) {
    if (rule.operands[i].empty()) continue;
    proposals.push_back(axes_of_factors(map_.mesh(), rule, rule.operands[i],
                                        map_.sharding(computation_, instruction.operands[i])));
  }
  std::vector<char> all(rule.factors.size(), 1), reduced;
  for (const FactorRule::Factor& factor : rule.factors) {
    reduced.push_back(factor.is_reduced ? 1 : 0);
  }
  const bool reduces = std::find(reduced.begin(), reduced.end(), 1) != reduced.end();
  std::vector<std::vector<std::vector<char>>> orders{{all}};
  if (reduces) orders = {{all}, {reduced, all}};
  std::vector<Axes> best;
  double least = 0;
  for (const std::vector<std::vector<char>>& order : orders) {
    std::vector<Axes> chosen(rule.factors.size());
    for (const std::vector<char>& eligible : order) {
      for (const std::vector<Axes>& proposed : proposals) take_axes(proposed, eligible, chosen);
    }
    drop_unreachable(map_.mesh(), rule, chosen);
    const double cost = orders.size() == 1 ? 0 : cost_of(instruction, rule, chosen);
    if (!best.empty() && cost >= least) continue;
    best = std::move(chosen);
    least = cost;
    if (best.empty()) break;
  }
  return best;
}

std::vector<Id> ComputationPartitioner::moved_operands(const HloInstruction& instruction,
                                                       const FactorRule& rule,
                                                       const std::vector<Axes>& axes) {
  std::vector<Id> operands;
  for (std::size_t i = 0; i < instruction.operands.size(); ++i) {
    const Id operand = instruction.operands[i];
    const std::vector<Sharding> from = shardings(computation_, operand);
    std::vector<Sharding> to;
    to.reserve(from.size());
    for (const Sharding& each : from) {
      to.push_back(rule.operands[i].empty()
                       ? Sharding(each.dimensions.size())
                       : sharding_of_factors(map_.mesh(), rule, rule.operands[i], axes));
    }
    operands.push_back(adjusted(value(operand), from, to));
  }
  return operands;
}

/// Sizes that attributes repeat from shapes, where a dimension is taken whole.
void ComputationPartitioner::fit_attributes(HloInstruction& instruction,
                                            const FactorRule& rule) const {
  const auto& local = [&](std::size_t i) -> const std::vector<std::int64_t>& {
    return module_.computation(computation_).at(instruction.operands[i]).shape.dimensions;
  };
  switch (instruction.opcode) {
    case HloOpcode::kSlice:
      for (std::size_t d = 0; d < instruction.slice->limits.size(); ++d) {
        if (!rule.operands[0][d].empty()) instruction.slice.edit().limits[d] = local(0)[d];
      }
      break;
    case HloOpcode::kDynamicSlice:
      instruction.dynamic_slice_sizes = instruction.shape.dimensions;
      break;
    case HloOpcode::kGather: {
      hlo::GatherDimensions& gather = instruction.gather.edit();
      for (std::size_t d = 0; d < gather.slice_sizes.size(); ++d) {
        const auto is_batch =
            std::find(gather.operand_batching_dims.begin(), gather.operand_batching_dims.end(),
                      static_cast<std::int64_t>(d)) != gather.operand_batching_dims.end();
        if (!rule.operands[0][d].empty() && !is_batch) gather.slice_sizes[d] = local(0)[d];
      }
      break;
    }
    case HloOpcode::kCustomCall:
      if (instruction.operands.size() == 1 && !rule.factors.empty() &&
          !instruction.shape.is_tuple()) {
        instruction.opcode = HloOpcode::kCopy;
        instruction.custom_call_target.reset();
        instruction.raw_attributes.reset();
      }
      break;
    default:
      break;
  }
}

/// Zero everywhere but on the first device along the axes.
Id ComputationPartitioner::counted_once(Id operand, const Axes& partial) {
  GraphEditor& edit = mover_.edit();
  const std::vector<std::int64_t> extents = edit.dimensions(operand);
  const Id is_first = edit.compare(mover_.index(partial), edit.scalar(ElementType::kS32, 0),
                                   hlo::ComparisonDirection::kEq);
  return edit.select(edit.broadcast(is_first, extents, {}), operand,
                     edit.splat(edit.shape(operand).type, extents, 0));
}

Id ComputationPartitioner::with_offset(Id iota, const Axes& axes) {
  GraphEditor& edit = mover_.edit();
  const HloInstruction made = at(iota);
  const std::int64_t size =
      made.shape.dimensions.at(static_cast<std::size_t>(made.dimensions.at(0)));
  const Id offset = edit.binary(HloOpcode::kMultiply, mover_.index(axes),
                                edit.scalar(ElementType::kS32, static_cast<double>(size)));
  return edit.binary(
      HloOpcode::kAdd, iota,
      edit.broadcast(edit.convert(offset, made.shape.type), made.shape.dimensions, {}));
}

void ComputationPartitioner::visit_operation(Id id) {
  const FactorRule& rule = map_.rule(computation_, id);
  HloInstruction made = at(id);
  const std::vector<Axes> axes = choose(made, rule);
  made.operands = moved_operands(made, rule, axes);
  Axes partial;
  for (std::size_t f = 0; f < axes.size(); ++f) {
    if (rule.factors[f].is_reduced) partial.insert(partial.end(), axes[f].begin(), axes[f].end());
  }
  if (!partial.empty() && rule.operand_counted_once >= 0) {
    Id& operand = made.operands[static_cast<std::size_t>(rule.operand_counted_once)];
    operand = counted_once(operand, partial);
  }
  std::vector<Sharding> implied;
  for (const FactorRule::ArrayFactors& result : rule.results) {
    implied.push_back(sharding_of_factors(map_.mesh(), rule, result, axes));
  }
  const bool is_flat = implied.size() == map_.values(computation_, id).size();
  if (!is_flat) implied.clear();
  for (std::size_t k = 0; !is_flat && k < map_.values(computation_, id).size(); ++k) {
    const std::size_t rank = map_.sharding(computation_, id, k).dimensions.size();
    implied.emplace_back(rank);
  }
  made.shape = local_shape(made.shape, implied);
  fit_attributes(made, rule);
  at(id) = made;
  Id result = id;
  if (made.opcode == HloOpcode::kIota && !made.dimensions.empty()) {
    const Axes& cut = implied[0].dimensions.at(static_cast<std::size_t>(made.dimensions[0]));
    if (!cut.empty()) result = with_offset(id, cut);
  }
  if (!partial.empty()) {
    result =
        mover_.move(result, implied[0], map_.sharding(computation_, id), partial, rule.combination);
  } else {
    result = adjusted(result, implied, shardings(computation_, id));
  }
  value_of_[static_cast<std::size_t>(id)] = result;
}

}  // namespace tpu::compiler
