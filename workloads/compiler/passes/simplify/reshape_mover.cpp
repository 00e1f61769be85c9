#include "workloads/compiler/passes/simplify/reshape_mover.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "isa/instruction.h"
#include "sim/base/contains.h"
#include "workloads/compiler/ir/dimension_order.h"
#include "workloads/compiler/passes/edit.h"
#include "workloads/compiler/passes/graph_editor.h"
#include "workloads/compiler/passes/simplify/constant_folding.h"

namespace tpu::compiler {

using hlo::Computation;
using hlo::HloInstruction;
using hlo::HloOpcode;
using hlo::InstructionId;

namespace {

using Dimensions = std::vector<std::int64_t>;

/// Neighbouring dimensions of two shapes that hold the same elements in the same order.
struct DimensionGroup {
  std::size_t after_begin, after_end;    ///< Of the reshaped extents.
  std::size_t before_begin, before_end;  ///< Of those before.
};

/// The smallest such groups.
std::vector<DimensionGroup> dimension_groups(const Dimensions& after, const Dimensions& before) {
  std::vector<DimensionGroup> groups;
  std::size_t a = 0, b = 0;
  while (a < after.size() || b < before.size()) {
    DimensionGroup group{a, a, b, b};
    std::int64_t there = 1, here = 1;
    do {
      if (b == before.size() || (a < after.size() && there <= here)) {
        there *= after[a++];
      } else {
        here *= before[b++];
      }
    } while (there != here);
    // Dimensions of extent 1 at the end belong to the last group.
    while (a < after.size() && after[a] == 1) ++a;
    while (b < before.size() && before[b] == 1) ++b;
    group.after_end = a;
    group.before_end = b;
    groups.push_back(group);
  }
  return groups;
}

/// Whether one is the other but for dimensions of extent 1.
bool differ_in_units(const Dimensions& one, const Dimensions& other) {
  return long_extents(one) == long_extents(other);
}

/// Strips of images become whole ones: a batch a smaller one (or none, where there is one image) of
/// longer images. `batch`: which dimension it is; below 0: any.
bool joins_strips(const Dimensions& after, const Dimensions& before, std::int64_t batch) {
  std::size_t joined = 0;
  for (const DimensionGroup& group : dimension_groups(after, before)) {
    const auto of = [](const Dimensions& extents, std::size_t begin, std::size_t end) {
      const auto at = extents.begin();
      return long_extents(
          {at + static_cast<std::ptrdiff_t>(begin), at + static_cast<std::ptrdiff_t>(end)});
    };
    const Dimensions whole = of(after, group.after_begin, group.after_end);
    const Dimensions cut = of(before, group.before_begin, group.before_end);
    if (whole == cut) continue;
    const bool joins =
        cut.size() == 2 && (whole.size() == 1 || (whole.size() == 2 && whole[0] < cut[0]));
    const bool is_batch = batch < 0 || group.before_begin == static_cast<std::size_t>(batch);
    if (!joins || !is_batch || ++joined > 1) return false;
  }
  return joined == 1;
}

/// Several images, cut into strips: which dimension is what.
struct StripsOfImages {
  std::size_t images, pixels;        ///< Of whole ones.
  std::size_t strips, strip_pixels;  ///< Of all images, one image after the other.
};

std::optional<StripsOfImages> strips_of_images(const DimensionGroup& group, const Dimensions& whole,
                                               const Dimensions& cut) {
  const auto long_ones = [](const Dimensions& extents, std::size_t begin, std::size_t end) {
    std::vector<std::size_t> found;
    for (std::size_t d = begin; d < end; ++d) {
      if (extents[d] > 1) found.push_back(d);
    }
    return found;
  };
  const auto after = long_ones(whole, group.after_begin, group.after_end);
  const auto before = long_ones(cut, group.before_begin, group.before_end);
  if (after.size() != 2 || before.size() != 2 || whole[after[0]] >= cut[before[0]] ||
      cut[before[0]] % whole[after[0]] != 0) {
    return std::nullopt;
  }
  return StripsOfImages{after[0], after[1], before[0], before[1]};
}

class ReshapeMover {
 public:
  explicit ReshapeMover(hlo::Module& module)
      : module_(module),
        entry_(module.entry_computation()),
        editor_(module),
        users_(users_of(entry_)) {}

  void run() {
    const std::size_t count = entry_.instructions.size();
    before_.assign(count, -1);
    find_made_by_products();
    for (std::size_t i = 0; i < count; ++i) visit(static_cast<InstructionId>(i));
    tidy(entry_);
  }

 private:
  const HloInstruction& at(InstructionId id) const { return entry_.at(id); }
  const Dimensions& extents(InstructionId id) const { return at(id).shape.dimensions; }
  InstructionId before(InstructionId id) const {
    return static_cast<std::size_t>(id) < before_.size() ? before_[static_cast<std::size_t>(id)]
                                                         : -1;
  }
  bool reshapes_product(const HloInstruction& instruction) const;
  bool may_broadcast(const HloInstruction& broadcast, const Dimensions& whole) const;
  bool has_form(InstructionId operand, const Dimensions& whole) const;
  bool is_made_by_dot(InstructionId id) const;
  void find_made_by_products();
  bool goes_along(InstructionId operand, const Dimensions& whole) const;
  bool goes_to_convolution(InstructionId id, const Dimensions& whole) const;
  InstructionId form_of(InstructionId operand, const Dimensions& whole);
  InstructionId moved(InstructionId id, const Dimensions& whole);
  InstructionId broadcast_before(InstructionId id, const Dimensions& whole);
  void visit(InstructionId id);
  void reduce_before(InstructionId id);

  const hlo::Module& module_;
  Computation& entry_;
  GraphEditor editor_;
  std::vector<std::vector<InstructionId>> users_;
  std::vector<bool> made_by_product_;
  std::vector<InstructionId> before_;  ///< The same elements in the extent of a product; or -1.
};

/// Whether it splits dimensions of a product that nothing else reads, or takes those of extent 1
/// from a convolution (of a line of pixels), or joins strips of its images. Where it joins others,
/// the operations behind it have fewer padding rows.
bool ReshapeMover::reshapes_product(const HloInstruction& instruction) const {
  if (instruction.opcode != HloOpcode::kReshape) return false;
  const InstructionId operand = instruction.operands[0];
  if (users_[static_cast<std::size_t>(operand)].size() != 1 || operand == entry_.root) return false;
  if (at(operand).opcode == HloOpcode::kConvolution) {
    // Kernels of depthwise convolutions take no operations behind them; their strips are strips.
    const bool has_groups =
        at(operand).feature_group_count > 1 || at(operand).batch_group_count > 1;
    return (!has_groups && differ_in_units(extents(operand), instruction.shape.dimensions)) ||
           joins_strips(instruction.shape.dimensions, extents(operand),
                        at(operand).convolution->output_batch);
  }
  if (at(operand).opcode != HloOpcode::kDot || instruction.shape.rank() == 0) return false;
  const bool cuts_lanes = extents(operand).back() % isa::kLanes == 0 &&
                          instruction.shape.dimensions.back() < isa::kLanes;
  return cuts_lanes || extents(operand).size() < instruction.shape.dimensions.size();
}

/// Whether it has less than all elements even where whole groups of dimensions are filled.
bool ReshapeMover::may_broadcast(const HloInstruction& broadcast, const Dimensions& whole) const {
  const Dimensions& places = broadcast.dimensions;
  if (!std::is_sorted(places.begin(), places.end())) return false;
  const std::vector<DimensionGroup> groups = dimension_groups(broadcast.shape.dimensions, whole);
  return std::any_of(groups.begin(), groups.end(), [&](const DimensionGroup& group) {
    std::int64_t elements = 1;
    for (std::size_t d = group.after_begin; d < group.after_end; ++d) {
      if (contains(places, static_cast<std::int64_t>(d))) return false;
      elements *= broadcast.shape.dimensions[d];
    }
    return elements > 1;
  });
}

/// Whether a dot and operations behind it make the value.
bool ReshapeMover::is_made_by_dot(InstructionId id) const {
  std::set<InstructionId> seen{id};
  std::vector<InstructionId> work{id};
  while (!work.empty()) {
    const InstructionId next = work.back();
    work.pop_back();
    if (before(next) >= 0) continue;
    if (at(next).opcode == HloOpcode::kDot) return true;
    if (!hlo::is_elementwise(at(next).opcode)) continue;
    for (InstructionId operand : at(next).operands) {
      if (seen.insert(operand).second) work.push_back(operand);
    }
  }
  return false;
}

/// Whether a convolution reads what operations that take nothing of another dot make of the value.
bool ReshapeMover::goes_to_convolution(InstructionId id, const Dimensions& whole) const {
  std::set<InstructionId> seen{id};
  std::vector<InstructionId> work{id};
  while (!work.empty()) {
    const InstructionId value = work.back();
    work.pop_back();
    const auto joins_another = [&](const HloInstruction& user) {
      return std::any_of(user.operands.begin(), user.operands.end(), [&](InstructionId other) {
        return other != value && is_made_by_dot(other);
      });
    };
    for (InstructionId user : users_[static_cast<std::size_t>(value)]) {
      const HloInstruction& next = at(user);
      if (next.opcode == HloOpcode::kConvolution) return true;
      const bool goes_on =
          next.opcode == HloOpcode::kReshape
              ? differ_in_units(extents(user), whole)
              : hlo::is_elementwise(next.opcode) && !next.shape.is_tuple() && !joins_another(next);
      if (goes_on && seen.insert(user).second) work.push_back(user);
    }
  }
  return false;
}

bool ReshapeMover::has_form(InstructionId operand, const Dimensions& whole) const {
  const HloInstruction& value = at(operand);
  if (value.shape.is_tuple()) return false;
  if (value.shape.rank() == 0) return true;
  if (before(operand) >= 0 && extents(before(operand)) == whole) return true;
  if (value.opcode == HloOpcode::kReshape && extents(value.operands[0]) == whole) return true;
  if (differ_in_units(extents(operand), whole)) return true;
  return value.opcode == HloOpcode::kBroadcast && may_broadcast(value, whole);
}

/// Of dots and convolutions and operations behind them.
void ReshapeMover::find_made_by_products() {
  for (const HloInstruction& instruction : entry_.instructions) {
    const bool is_product =
        instruction.opcode == HloOpcode::kDot || instruction.opcode == HloOpcode::kConvolution;
    made_by_product_.push_back(
        is_product || (hlo::is_elementwise(instruction.opcode) &&
                       std::any_of(instruction.operands.begin(), instruction.operands.end(),
                                   [this](InstructionId operand) {
                                     return made_by_product_[static_cast<std::size_t>(operand)];
                                   })));
  }
}

/// Whether nobody else reads what an operation makes of arrays that have the product's extent but
/// for dimensions of extent 1 (a moment of an optimiser, decayed): as the reshaped arrays' it
/// stands in the product's kernel.
bool ReshapeMover::goes_along(InstructionId operand, const Dimensions& whole) const {
  const HloInstruction& value = at(operand);
  return hlo::is_elementwise(value.opcode) && differ_in_units(value.shape.dimensions, whole) &&
         users_[static_cast<std::size_t>(operand)].size() == 1 &&
         !made_by_product_[static_cast<std::size_t>(operand)] &&
         std::all_of(value.operands.begin(), value.operands.end(),
                     [&](InstructionId of) { return has_form(of, whole); });
}

/// The operand in the product's extent; scalars as they are.
InstructionId ReshapeMover::form_of(InstructionId operand, const Dimensions& whole) {
  if (at(operand).shape.rank() == 0) return operand;
  if (before(operand) >= 0 && extents(before(operand)) == whole) return before(operand);
  const HloInstruction& value = at(operand);
  if (value.opcode == HloOpcode::kReshape && extents(value.operands[0]) == whole) {
    return value.operands[0];
  }
  if (value.opcode == HloOpcode::kBroadcast && may_broadcast(value, whole)) {
    return broadcast_before(operand, whole);
  }
  if (!goes_along(operand, whole)) return editor_.reshape(operand, whole);
  return before_[static_cast<std::size_t>(operand)] = moved(operand, whole);
}

/// The operation on forms of its operands.
InstructionId ReshapeMover::moved(InstructionId id, const Dimensions& whole) {
  HloInstruction form = at(id);
  for (InstructionId& operand : form.operands) operand = form_of(operand, whole);
  form.shape = hlo::array_shape(form.shape.type, whole);
  form.name += ".product";
  return editor_.append_instruction(std::move(form));
}

InstructionId ReshapeMover::broadcast_before(InstructionId id, const Dimensions& whole) {
  const Dimensions split = extents(id), places = at(id).dimensions;
  InstructionId value = at(id).operands[0];
  Dimensions filled, filled_extents, from, joined, joined_places;
  for (const DimensionGroup& group : dimension_groups(split, whole)) {
    const auto is_in = [&](std::size_t d) {
      return contains(places, static_cast<std::int64_t>(d));
    };
    bool is_any = false;
    for (std::size_t d = group.after_begin; d < group.after_end; ++d) is_any |= is_in(d);
    if (!is_any) continue;
    const std::optional<StripsOfImages> of_images = strips_of_images(group, split, whole);
    if (of_images && is_in(of_images->images) && !is_in(of_images->pixels)) {
      // Each image's for all of its strips.
      const std::int64_t images = split[of_images->images], strips = whole[of_images->strips];
      from.push_back(static_cast<std::int64_t>(filled.size()));
      filled.insert(filled.end(), {static_cast<std::int64_t>(of_images->images), -1});
      filled_extents.insert(filled_extents.end(), {images, strips / images});
      joined.push_back(strips);
      joined_places.push_back(static_cast<std::int64_t>(of_images->strips));
      continue;
    }
    for (std::size_t d = group.after_begin; d < group.after_end; ++d) {
      if (is_in(d)) from.push_back(static_cast<std::int64_t>(filled.size()));
      filled.push_back(static_cast<std::int64_t>(d));
      filled_extents.push_back(split[d]);
    }
    for (std::size_t d = group.before_begin; d < group.before_end; ++d) {
      joined.push_back(whole[d]);
      joined_places.push_back(static_cast<std::int64_t>(d));
    }
  }
  // Conversions come last: the array as it is, a parameter mostly, is reshaped.
  std::vector<hlo::ElementType> types;
  while (at(value).opcode == HloOpcode::kConvert) {
    types.push_back(at(value).shape.type);
    value = at(value).operands[0];
  }
  if (filled != places) value = editor_.broadcast(value, filled_extents, from);
  if (joined != filled_extents) {
    // No kernel reshapes bf16 between vectors, which stand in words, and packed arrays.
    const hlo::ElementType type = editor_.shape(value).type;
    if (type == hlo::ElementType::kBf16) {
      types.push_back(type);
      value = editor_.convert(value, hlo::ElementType::kF32);
    }
    value = editor_.reshape(value, joined);
  }
  for (auto type = types.rbegin(); type != types.rend(); ++type) {
    value = editor_.convert(value, *type);
  }
  return editor_.broadcast(value, whole, joined_places);
}

void ReshapeMover::visit(InstructionId id) {
  if (reshapes_product(at(id))) {
    before_[static_cast<std::size_t>(id)] = at(id).operands[0];
    return;
  }
  if (at(id).opcode == HloOpcode::kReduce) return reduce_before(id);
  if (!hlo::is_elementwise(at(id).opcode) || at(id).shape.is_tuple()) return;
  // Vectors of bf16 are stored in words, which a reshape of packed ones does not make. (What
  // selects by a mask goes where the mask does.)
  if (at(id).shape.type == hlo::ElementType::kBf16 && at(id).shape.rank() < 2) return;
  const std::vector<InstructionId> operands = at(id).operands;
  const auto first = std::find_if(operands.begin(), operands.end(),
                                  [this](InstructionId operand) { return before(operand) >= 0; });
  if (first == operands.end()) return;
  const Dimensions whole = extents(before(*first));
  if (!std::all_of(operands.begin(), operands.end(),
                   [&](InstructionId operand) { return has_form(operand, whole); })) {
    return;
  }
  // What joins a dot on its way to other dots would give all of them the order of the image.
  const bool joins_dot = std::any_of(operands.begin(), operands.end(), [&](InstructionId operand) {
    return before(operand) < 0 && is_made_by_dot(operand);
  });
  if (joins_dot && !goes_to_convolution(id, whole)) return;
  editor_.stand_for(id);
  const InstructionId value = moved(id, whole);
  before_[static_cast<std::size_t>(id)] = value;
  const Dimensions reshaped = extents(id);
  editor_.finish(editor_.reshape(value, reshaped));
}

/// What reduces whole images reduces their strips; what reduces their pixels those of strips, then
/// the sums of strips.
void ReshapeMover::reduce_before(InstructionId id) {
  HloInstruction form = at(id);
  if (form.operands.size() != 2 || form.shape.is_tuple()) return;
  const InstructionId strips = before(form.operands[0]);
  if (strips < 0 || !joins_strips(extents(form.operands[0]), extents(strips), -1)) return;
  const Dimensions whole = extents(form.operands[0]), cut = extents(strips);
  const bool may_go_in_parts = starts_from_neutral(module_, form);
  Dimensions reduced, left, apart, further;  // `apart`: the strips of each image by themselves.
  for (const DimensionGroup& group : dimension_groups(whole, cut)) {
    const std::optional<StripsOfImages> of_images = strips_of_images(group, whole, cut);
    const auto is_gone = [&](std::size_t d) {
      return contains(form.dimensions, static_cast<std::int64_t>(d));
    };
    std::size_t kept = 0, gone = 0;
    for (std::size_t d = group.after_begin; d < group.after_end; ++d) {
      if (whole[d] != 1) ++(is_gone(d) ? gone : kept);
    }
    const bool of_pixels = of_images && is_gone(of_images->pixels) && !is_gone(of_images->images);
    if (kept > 0 && gone > 0 && !(of_pixels && may_go_in_parts)) return;
    for (std::size_t d = group.before_begin; d < group.before_end; ++d) {
      if (of_pixels ? d == of_images->strip_pixels : gone > 0) {
        reduced.push_back(static_cast<std::int64_t>(d));
        continue;
      }
      left.push_back(cut[d]);
      if (of_pixels && d == of_images->strips) {
        apart.push_back(whole[of_images->images]);
        further.push_back(static_cast<std::int64_t>(apart.size()));
        apart.push_back(cut[d] / whole[of_images->images]);
      } else {
        apart.push_back(cut[d]);
      }
    }
  }
  editor_.stand_for(id);
  const Dimensions reshaped = form.shape.dimensions;
  form.operands[0] = strips;
  form.dimensions = reduced;
  form.shape = hlo::array_shape(form.shape.type, left);
  form.name += ".product";
  InstructionId value = editor_.append_instruction(form);
  if (!further.empty()) {
    form.operands[0] = editor_.reshape(value, apart);
    form.dimensions = further;
    apart.erase(apart.begin() + further[0]);
    form.shape = hlo::array_shape(form.shape.type, apart);
    form.name += ".images";
    value = editor_.append_instruction(std::move(form));
  }
  editor_.finish(editor_.reshape(value, reshaped));
}

}  // namespace

void move_reshapes(hlo::Module& module) { ReshapeMover(module).run(); }

}  // namespace tpu::compiler
