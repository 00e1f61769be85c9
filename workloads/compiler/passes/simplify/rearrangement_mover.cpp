#include "workloads/compiler/passes/simplify/rearrangement_mover.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "sim/base/contains.h"
#include "workloads/compiler/ir/dimension_order.h"
#include "workloads/compiler/passes/edit.h"
#include "workloads/compiler/passes/graph_editor.h"
#include "workloads/compiler/passes/simplify/element_orders.h"

namespace tpu::compiler {

using hlo::Computation;
using hlo::HloInstruction;
using hlo::HloOpcode;
using hlo::InstructionId;

namespace {

using Dimensions = std::vector<std::int64_t>;

/// Regions that move in a module, at most.
constexpr int kMoves = 64;

bool is_rearrangement(const HloInstruction& instruction) {
  return instruction.opcode == HloOpcode::kReshape || instruction.opcode == HloOpcode::kTranspose;
}

bool makes_products(const HloInstruction& instruction) {
  return instruction.opcode == HloOpcode::kDot || instruction.opcode == HloOpcode::kConvolution;
}

/// A value as a rearrangement of another one.
struct Origin {
  InstructionId source = -1;
  ElementOrder order;
};

/// How a region's arrays are other ones, rearranged: those that it could compute instead.
struct Space {
  ElementOrder order;
  Dimensions extents;  ///< Of the other arrays.
};

/// A broadcast or reduction in a space.
struct MovedDimensions {
  std::vector<ElementPiece> pieces;
  std::vector<bool> is_marked;  ///< Dimensions of the space with a piece in a marked dimension.
  bool is_mixed = false;        ///< One has others, too.
};

/// Whether tiles and lanes are rearranged: an order of dimensions is as good as another one where
/// layouts are free.
bool splits_dimensions(const ElementOrder& order, const Dimensions& extents,
                       const Dimensions& from) {
  if (is_same_order(order)) return false;
  const auto pieces = pieces_of(order, extents, from);
  return !pieces || pieces->size() != long_extents(extents).size() ||
         pieces->size() != long_extents(from).size();
}

class RearrangementMover {
 public:
  explicit RearrangementMover(hlo::Module& module)
      : module_(module), entry_(module.entry_computation()), editor_(module) {}

  /// True when something moved.
  bool run();

 private:
  using Region = std::vector<InstructionId>;

  const HloInstruction& at(InstructionId id) const { return entry_.at(id); }
  const Dimensions& extents(InstructionId id) const { return at(id).shape.dimensions; }
  const std::vector<InstructionId>& users(InstructionId id) const {
    return users_[static_cast<std::size_t>(id)];
  }
  const Origin& origin(InstructionId id) const { return origins_[static_cast<std::size_t>(id)]; }
  bool is_in(InstructionId id, const Region& region) const {
    return region_of_[static_cast<std::size_t>(id)] == region.front();
  }
  double bytes(InstructionId id) const {
    return static_cast<double>(at(id).shape.element_count()) *
           std::max(2, static_cast<int>(hlo::byte_size(at(id).shape.type)));
  }

  void find_origins();
  std::vector<Region> find_regions();
  std::vector<InstructionId> inputs_of(const Region& region) const;
  std::vector<InstructionId> ends_of(InstructionId member) const;
  std::vector<Space> spaces_of(const Region& region) const;
  std::optional<MovedDimensions> moved(const Dimensions& extents, const Space& space,
                                       const Dimensions& marked) const;
  std::optional<double> gain(const Region& region, const Space& space) const;
  double gain_of_input(InstructionId input, const Region& region, const Space& space) const;
  double gain_of_result(InstructionId member, const Region& region, const Space& space) const;
  bool reduces(InstructionId user, InstructionId member) const;
  bool is_scalar(InstructionId id) const;

  InstructionId form_of(InstructionId operand, const Space& space);
  InstructionId moved_broadcast(InstructionId id, const Space& space);
  void move_reduce(InstructionId id, const Space& space);
  void move(const Region& region, const Space& space);

  hlo::Module& module_;
  Computation& entry_;
  GraphEditor editor_;
  std::vector<std::vector<InstructionId>> users_;
  std::vector<Origin> origins_;
  std::vector<InstructionId> region_of_;         ///< Its first member; -1.
  std::map<InstructionId, InstructionId> form_;  ///< What was moved, in its space.
};

void RearrangementMover::find_origins() {
  origins_.clear();
  for (const HloInstruction& each : entry_.instructions) {
    Origin origin{each.id, {}};
    if (!each.shape.is_tuple()) origin.order = same_order(each.shape.element_count());
    if (each.opcode == HloOpcode::kReshape) {
      origin = origins_[static_cast<std::size_t>(each.operands[0])];
    } else if (each.opcode == HloOpcode::kTranspose) {
      const Origin& before = origins_[static_cast<std::size_t>(each.operands[0])];
      if (auto order = transposed(before.order, extents(each.operands[0]), each.dimensions)) {
        origin = {before.source, *order};
      }
    }
    origins_.push_back(std::move(origin));
  }
}

/// Elementwise operations that hand each other arrays.
std::vector<RearrangementMover::Region> RearrangementMover::find_regions() {
  const std::size_t count = entry_.instructions.size();
  region_of_.assign(count, -1);
  const auto is_member = [&](const HloInstruction& each) {
    return hlo::is_elementwise(each.opcode) && !each.shape.is_tuple() && each.shape.rank() > 0 &&
           std::all_of(each.operands.begin(), each.operands.end(), [&](InstructionId operand) {
             return at(operand).shape.rank() == 0 || extents(operand) == each.shape.dimensions;
           });
  };
  std::vector<bool> members(count);
  for (std::size_t i = 0; i < count; ++i) members[i] = is_member(entry_.instructions[i]);
  std::vector<Region> regions;
  for (std::size_t i = 0; i < count; ++i) {
    if (!members[i] || region_of_[i] >= 0) continue;
    Region region, work{static_cast<InstructionId>(i)};
    region_of_[i] = work[0];
    while (!work.empty()) {
      const InstructionId id = work.back();
      work.pop_back();
      region.push_back(id);
      const auto take = [&](InstructionId next) {
        const auto place = static_cast<std::size_t>(next);
        if (!members[place] || region_of_[place] >= 0 || at(next).shape.rank() == 0) return;
        region_of_[place] = static_cast<InstructionId>(i);
        work.push_back(next);
      };
      for (InstructionId operand : at(id).operands) take(operand);
      for (InstructionId user : users(id)) take(user);
    }
    std::sort(region.begin(), region.end());
    regions.push_back(std::move(region));
  }
  return regions;
}

/// Arrays from elsewhere, each once.
std::vector<InstructionId> RearrangementMover::inputs_of(const Region& region) const {
  std::set<InstructionId> inputs;
  for (InstructionId id : region) {
    for (InstructionId operand : at(id).operands) {
      if (at(operand).shape.rank() > 0 && !is_in(operand, region)) inputs.insert(operand);
    }
  }
  return {inputs.begin(), inputs.end()};
}

/// The rearrangements of a member that something else reads.
std::vector<InstructionId> RearrangementMover::ends_of(InstructionId member) const {
  std::vector<InstructionId> ends, work{member};
  while (!work.empty()) {
    const InstructionId id = work.back();
    work.pop_back();
    bool is_end = id == entry_.root;
    for (InstructionId user : users(id)) {
      if (is_rearrangement(at(user)) && origin(user).source == member) {
        work.push_back(user);
      } else {
        is_end = true;
      }
    }
    if (is_end && id != member) ends.push_back(id);
  }
  return ends;
}

/// Those of what the region's arrays are rearrangements of, and of their own rearrangements, where
/// no order of dimensions does as well.
std::vector<Space> RearrangementMover::spaces_of(const Region& region) const {
  std::vector<Space> spaces;
  const Dimensions& here = extents(region.front());
  const auto add = [&](const ElementOrder& order, const Dimensions& space) {
    if (space.empty() || !splits_dimensions(order, here, space)) return;
    for (const Space& other : spaces) {
      const auto difference = composed(inverse(order), other.order);
      if (other.extents == space && difference && is_same_order(*difference)) return;
    }
    spaces.push_back({order, space});
  };
  for (InstructionId input : inputs_of(region)) {
    const Origin& from = origin(input);
    if (from.source != input && !is_in(from.source, region)) add(from.order, extents(from.source));
  }
  for (InstructionId member : region) {
    for (InstructionId end : ends_of(member)) add(inverse(origin(end).order), extents(end));
  }
  return spaces;
}

/// Marked dimensions of a region's extents in a space.
std::optional<MovedDimensions> RearrangementMover::moved(const Dimensions& extents,
                                                         const Space& space,
                                                         const Dimensions& marked) const {
  auto pieces = pieces_of(space.order, extents, space.extents);
  if (!pieces) return std::nullopt;
  MovedDimensions result{std::move(*pieces), std::vector<bool>(space.extents.size()), false};
  std::vector<bool> has_other(space.extents.size());
  for (const ElementPiece& piece : result.pieces) {
    const bool is_marked = contains(marked, static_cast<std::int64_t>(piece.dimension));
    (is_marked ? result.is_marked : has_other)[piece.source] = true;
  }
  for (std::size_t d = 0; d < has_other.size(); ++d) {
    result.is_mixed |= result.is_marked[d] && has_other[d];
  }
  return result;
}

bool RearrangementMover::is_scalar(InstructionId id) const {
  return at(id).shape.rank() == 0 || (at(id).opcode == HloOpcode::kBroadcast &&
                                      at(at(id).operands[0]).shape.element_count() == 1);
}

bool RearrangementMover::reduces(InstructionId user, InstructionId member) const {
  const HloInstruction& reduce = at(user);
  return reduce.opcode == HloOpcode::kReduce && !reduce.shape.is_tuple() &&
         reduce.operands.size() == 2 && reduce.operands[0] == member;
}

/// Bytes that are not rearranged any more.
double RearrangementMover::gain_of_input(InstructionId input, const Region& region,
                                         const Space& space) const {
  if (is_scalar(input)) return 0;
  const HloInstruction& value = at(input);
  if (value.opcode == HloOpcode::kBroadcast &&
      std::is_sorted(value.dimensions.begin(), value.dimensions.end())) {
    if (const auto places = moved(extents(input), space, value.dimensions)) {
      double filled = 4;
      for (std::size_t d = 0; d < space.extents.size(); ++d) {
        if (places->is_marked[d]) filled *= static_cast<double>(space.extents[d]);
      }
      return -filled;
    }
  }
  // What multiplies does elementwise operations behind itself.
  if (makes_products(value)) return -2 * bytes(input);
  double result = 0;
  const Origin& from = origin(input);
  const bool vanishes = std::all_of(users(input).begin(), users(input).end(),
                                    [&](InstructionId user) { return is_in(user, region); });
  if (from.source != input && vanishes &&
      splits_dimensions(from.order, extents(input), extents(from.source))) {
    result += bytes(input);
  }
  const auto order = is_in(from.source, region) ? std::optional<ElementOrder>()
                                                : composed(inverse(space.order), from.order);
  if (!order || splits_dimensions(*order, space.extents, extents(from.source))) {
    result -= bytes(input);
  }
  return result;
}

double RearrangementMover::gain_of_result(InstructionId member, const Region& region,
                                          const Space& space) const {
  double result = 0;
  bool is_needed = member == entry_.root;
  for (InstructionId user : users(member)) {
    if (is_in(user, region)) continue;
    if (is_rearrangement(at(user)) && origin(user).source == member) continue;
    const auto places =
        reduces(user, member) ? moved(extents(member), space, at(user).dimensions) : std::nullopt;
    if (places && !places->is_mixed) {
      result -= at(user).shape.rank() == 0 ? 0 : bytes(user);
    } else {
      is_needed = true;
      if (makes_products(at(user))) result -= bytes(member);
    }
  }
  for (InstructionId end : ends_of(member)) {
    const auto order = composed(origin(end).order, space.order);
    if (!order) {
      is_needed = true;
      continue;
    }
    const Dimensions& there = extents(end);
    if (splits_dimensions(origin(end).order, there, extents(member))) result += bytes(member);
    if (splits_dimensions(*order, there, space.extents)) result -= bytes(member);
  }
  return is_needed ? result - bytes(member) : result;
}

/// Bytes that are not rearranged when a region is computed in a space; none where nothing can be
/// said.
std::optional<double> RearrangementMover::gain(const Region& region, const Space& space) const {
  double result = 0;
  for (InstructionId input : inputs_of(region)) result += gain_of_input(input, region, space);
  for (InstructionId member : region) {
    // Vectors of bf16 are stored in words, which a reshape of packed ones does not make.
    if (at(member).shape.type == hlo::ElementType::kBf16 &&
        (space.extents.size() < 2 || at(member).shape.rank() < 2)) {
      return std::nullopt;
    }
    result += gain_of_result(member, region, space);
  }
  return result;
}

InstructionId RearrangementMover::moved_broadcast(InstructionId id, const Space& space) {
  const auto places = moved(extents(id), space, at(id).dimensions);
  InstructionId value = at(id).operands[0];
  // Conversions come last: the array as it is, a parameter mostly, is rearranged, and never bf16.
  std::vector<hlo::ElementType> types;
  while (at(value).opcode == HloOpcode::kConvert) {
    types.push_back(at(value).shape.type);
    value = at(value).operands[0];
  }
  if (editor_.shape(value).type == hlo::ElementType::kBf16) {
    types.push_back(hlo::ElementType::kBf16);
    value = editor_.convert(value, hlo::ElementType::kF32);
  }
  // Pieces that the value has, in its own order, then in that of the space; others are filled.
  std::vector<ElementPiece> filled;
  ElementOrder order;
  Dimensions given, filled_extents, from;
  std::int64_t stride = 1;
  for (auto piece = places->pieces.rbegin(); piece != places->pieces.rend(); ++piece) {
    if (places->is_marked[piece->source]) filled.push_back(*piece);
  }
  std::stable_sort(filled.begin(), filled.end(), [](const ElementPiece& a, const ElementPiece& b) {
    return a.stride > b.stride;
  });
  const Dimensions marked = at(id).dimensions;
  const auto is_given = [&](const ElementPiece& piece) {
    return contains(marked, static_cast<std::int64_t>(piece.dimension));
  };
  std::map<std::int64_t, std::int64_t> stride_of;
  for (auto piece = places->pieces.rbegin(); piece != places->pieces.rend(); ++piece) {
    if (!is_given(*piece)) continue;
    stride_of[piece->stride] = stride;
    stride *= piece->extent;
  }
  for (const ElementPiece& piece : filled) {
    if (is_given(piece)) {
      from.push_back(static_cast<std::int64_t>(filled_extents.size()));
      given.push_back(piece.extent);
      order.push_back({piece.extent, stride_of.at(piece.stride)});
    }
    filled_extents.push_back(piece.extent);
  }
  value = rearrange(editor_, value, order, given);
  if (given.size() != filled.size()) value = editor_.broadcast(value, filled_extents, from);
  Dimensions joined, joined_places;
  for (std::size_t d = 0; d < space.extents.size(); ++d) {
    if (!places->is_marked[d]) continue;
    joined.push_back(space.extents[d]);
    joined_places.push_back(static_cast<std::int64_t>(d));
  }
  if (editor_.dimensions(value) != joined) value = editor_.reshape(value, joined);
  for (auto type = types.rbegin(); type != types.rend(); ++type) {
    value = editor_.convert(value, *type);
  }
  return editor_.broadcast(value, space.extents, joined_places);
}

/// An operand of a region in a space; scalars as they are.
InstructionId RearrangementMover::form_of(InstructionId operand, const Space& space) {
  if (at(operand).shape.rank() == 0) return operand;
  if (const auto form = form_.find(operand); form != form_.end()) return form->second;
  const HloInstruction& value = at(operand);
  InstructionId form = -1;
  if (is_scalar(operand)) {
    const InstructionId number = value.operands[0];
    form = editor_.broadcast(at(number).shape.rank() == 0 ? number : editor_.reshape(number, {}),
                             space.extents, {});
  } else if (value.opcode == HloOpcode::kBroadcast &&
             std::is_sorted(value.dimensions.begin(), value.dimensions.end()) &&
             moved(extents(operand), space, value.dimensions)) {
    form = moved_broadcast(operand, space);
  } else {
    const Origin from = origin(operand);
    const auto order = composed(inverse(space.order), from.order);
    form = order && form_.count(from.source) == 0
               ? rearrange(editor_, from.source, *order, space.extents)
               : rearrange(editor_, operand, inverse(space.order), space.extents);
  }
  form_[operand] = form;
  return form;
}

void RearrangementMover::move_reduce(InstructionId id, const Space& space) {
  const InstructionId member = at(id).operands[0];
  const auto places = moved(extents(member), space, at(id).dimensions);
  if (!places || places->is_mixed) return;
  editor_.stand_for(id);
  HloInstruction form = at(id);
  const Dimensions result = form.shape.dimensions, marked = form.dimensions;
  form.operands[0] = form_.at(member);
  form.dimensions.clear();
  Dimensions left;
  for (std::size_t d = 0; d < space.extents.size(); ++d) {
    if (places->is_marked[d] || result.empty()) {
      form.dimensions.push_back(static_cast<std::int64_t>(d));
    } else {
      left.push_back(space.extents[d]);
    }
  }
  // Where what is left stands among itself.
  std::vector<ElementPiece> kept;
  for (const ElementPiece& piece : places->pieces) {
    if (!contains(marked, static_cast<std::int64_t>(piece.dimension))) kept.push_back(piece);
  }
  ElementOrder order;
  for (const ElementPiece& piece : kept) {
    std::int64_t stride = 1;
    for (const ElementPiece& other : kept) {
      if (other.stride < piece.stride) stride *= other.extent;
    }
    order.push_back({piece.extent, stride});
  }
  form.shape = hlo::array_shape(form.shape.type, left);
  form.name += ".moved";
  const InstructionId value = editor_.append_instruction(std::move(form));
  editor_.finish(rearrange(editor_, value, order, result));
}

void RearrangementMover::move(const Region& region, const Space& space) {
  form_.clear();
  for (InstructionId id : region) {
    editor_.stand_for(id);
    HloInstruction form = at(id);
    for (InstructionId& operand : form.operands) operand = form_of(operand, space);
    form.shape = hlo::array_shape(form.shape.type, space.extents);
    form.name += ".moved";
    form_[id] = editor_.append_instruction(std::move(form));
  }
  for (InstructionId id : region) {
    for (InstructionId user : users(id)) {
      if (!is_in(user, region) && reduces(user, id)) move_reduce(user, space);
    }
    for (InstructionId end : ends_of(id)) {
      const auto order = composed(origin(end).order, space.order);
      if (!order) continue;
      editor_.stand_for(end);
      const Dimensions behind = extents(end);
      InstructionId value = rearrange(editor_, form_.at(id), *order, behind);
      editor_.finish(value);
    }
    editor_.stand_for(id);
    const Dimensions here = extents(id);
    editor_.finish(rearrange(editor_, form_.at(id), space.order, here));
  }
}

bool RearrangementMover::run() {
  users_ = users_of(entry_);
  find_origins();
  for (const Region& region : find_regions()) {
    const Space* best = nullptr;
    double most = 0;
    const std::vector<Space> spaces = spaces_of(region);
    for (const Space& space : spaces) {
      const auto saved = gain(region, space);
      if (saved && *saved > most) {
        most = *saved;
        best = &space;
      }
    }
    if (best == nullptr) continue;
    move(region, *best);
    return true;
  }
  return false;
}

}  // namespace

void move_rearrangements(hlo::Module& module) {
  // What one region became may let its neighbour follow. Each move leaves fewer bytes to rearrange.
  for (int i = 0; i < kMoves; ++i) {
    RearrangementMover mover(module);
    if (!mover.run()) break;
    tidy(module.entry_computation());
  }
}

}  // namespace tpu::compiler
