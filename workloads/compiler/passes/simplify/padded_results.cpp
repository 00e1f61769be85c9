#include "workloads/compiler/passes/simplify/padded_results.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "workloads/compiler/passes/edit.h"
#include "workloads/compiler/passes/graph_editor.h"

namespace tpu::compiler {

using hlo::Computation;
using hlo::HloInstruction;
using hlo::HloOpcode;
using hlo::InstructionId;

namespace {

using Dimensions = std::vector<std::int64_t>;

/// Of the whole extent, so much may be padding.
constexpr double kMostPadding = 0.25;
/// That a padded result is made of.
constexpr std::size_t kMostValues = 256;

class PaddedResults {
 public:
  explicit PaddedResults(hlo::Module& module)
      : entry_(module.entry_computation()), editor_(module), users_(users_of(entry_)) {}

  void run() {
    const std::size_t count = entry_.instructions.size();
    for (std::size_t i = 0; i < count; ++i) visit(static_cast<InstructionId>(i));
    tidy(entry_);
  }

 private:
  const HloInstruction& at(InstructionId id) const { return entry_.at(id); }
  const Dimensions& extents(InstructionId id) const { return at(id).shape.dimensions; }
  bool cuts_whole(const HloInstruction& slice) const;
  bool has_whole(InstructionId id, bool is_result);
  bool finds_whole(InstructionId id, bool is_result);
  InstructionId whole_of(InstructionId id);
  InstructionId whole_broadcast(InstructionId id);
  InstructionId inside();
  void visit(InstructionId id);

  Computation& entry_;
  GraphEditor editor_;
  std::vector<std::vector<InstructionId>> users_;
  std::vector<hlo::PaddingDimension> padding_;         ///< Of the pad at hand.
  Dimensions whole_;                                   ///< Its extents.
  std::map<InstructionId, bool> has_whole_;            ///< Of values looked at for it.
  std::map<InstructionId, InstructionId> whole_form_;  ///< What has been made for it.
};

/// Whether it takes from an array of the whole extent what the padding leaves.
bool PaddedResults::cuts_whole(const HloInstruction& slice) const {
  if (extents(slice.operands[0]) != whole_) return false;
  for (std::size_t d = 0; d < whole_.size(); ++d) {
    if (slice.slice->starts[d] != padding_[d].low || slice.slice->strides[d] != 1) return false;
  }
  return true;
}

/// Whether the value can be had for the whole extent. The result that is padded needs nothing else.
bool PaddedResults::has_whole(InstructionId id, bool is_result) {
  const auto [found, is_new] = has_whole_.try_emplace(id, false);
  if (!is_new) return found->second;
  if (has_whole_.size() > kMostValues) return false;
  return has_whole_[id] = finds_whole(id, is_result);
}

bool PaddedResults::finds_whole(InstructionId id, bool is_result) {
  const HloInstruction& value = at(id);
  if (value.shape.is_tuple()) return false;
  if (value.shape.rank() == 0) return true;
  if (value.opcode == HloOpcode::kSlice) return !is_result && cuts_whole(value);
  if (value.opcode == HloOpcode::kBroadcast) {
    return !is_result && std::is_sorted(value.dimensions.begin(), value.dimensions.end());
  }
  if (value.opcode == HloOpcode::kIota) {
    return !is_result && padding_[static_cast<std::size_t>(value.dimensions[0])].low == 0;
  }
  const bool is_between = hlo::is_elementwise(value.opcode) && !value.operands.empty() &&
                          (!is_result || users_[static_cast<std::size_t>(id)].size() == 1);
  return is_between &&
         std::all_of(value.operands.begin(), value.operands.end(),
                     [this](InstructionId operand) { return has_whole(operand, false); });
}

InstructionId PaddedResults::whole_broadcast(InstructionId id) {
  const HloInstruction spread = at(id);
  InstructionId value = spread.operands[0];
  std::vector<hlo::PaddingDimension> padding;
  bool pads = false;
  for (std::int64_t d : spread.dimensions) {
    padding.push_back(padding_[static_cast<std::size_t>(d)]);
    pads |= padding.back().low > 0 || padding.back().high > 0;
  }
  if (pads) value = editor_.pad(value, padding);
  return editor_.broadcast(value, whole_, spread.dimensions);
}

InstructionId PaddedResults::whole_of(InstructionId id) {
  if (at(id).shape.rank() == 0) return id;
  const auto [found, is_new] = whole_form_.try_emplace(id, -1);
  if (!is_new) return found->second;
  InstructionId value = -1;
  if (at(id).opcode == HloOpcode::kSlice) {
    value = at(id).operands[0];
  } else if (at(id).opcode == HloOpcode::kBroadcast) {
    value = whole_broadcast(id);
  } else if (at(id).opcode == HloOpcode::kIota) {
    value = editor_.iota(at(id).shape.type, whole_, at(id).dimensions[0]);
  } else {
    HloInstruction form = at(id);
    for (InstructionId& operand : form.operands) operand = whole_of(operand);
    form.shape = hlo::array_shape(form.shape.type, whole_);
    form.name += ".whole";
    value = editor_.append_instruction(std::move(form));
  }
  whole_form_[id] = value;
  return value;
}

/// Where no padding is.
InstructionId PaddedResults::inside() {
  InstructionId all = -1;
  const auto also = [&](InstructionId test) {
    all = all < 0 ? test : editor_.binary(HloOpcode::kAnd, all, test);
  };
  for (std::size_t d = 0; d < whole_.size(); ++d) {
    if (padding_[d].low == 0 && padding_[d].high == 0) continue;
    const InstructionId position =
        editor_.iota(hlo::ElementType::kS32, whole_, static_cast<std::int64_t>(d));
    const auto bound = [&](std::int64_t number) {
      return editor_.splat(hlo::ElementType::kS32, whole_, static_cast<double>(number));
    };
    if (padding_[d].low > 0) {
      also(editor_.compare(position, bound(padding_[d].low), hlo::ComparisonDirection::kGe));
    }
    if (padding_[d].high > 0) {
      also(editor_.compare(position, bound(whole_[d] - padding_[d].high),
                           hlo::ComparisonDirection::kLt));
    }
  }
  return all;
}

void PaddedResults::visit(InstructionId id) {
  if (at(id).opcode != HloOpcode::kPad) return;
  padding_ = at(id).padding;
  whole_ = extents(id);
  const InstructionId result = at(id).operands[0], filling = at(id).operands[1];
  const bool is_plain = std::all_of(padding_.begin(), padding_.end(), [](const auto& d) {
    return d.low >= 0 && d.high >= 0 && d.interior == 0;
  });
  const auto elements = static_cast<double>(at(id).shape.element_count());
  const auto kept = static_cast<double>(at(result).shape.element_count());
  const bool is_little = kept < elements && elements - kept <= kMostPadding * elements;
  has_whole_.clear();
  if (!is_plain || !is_little || !has_whole(result, true)) return;
  whole_form_.clear();
  editor_.stand_for(id);
  const InstructionId value = whole_of(result);
  const InstructionId outside = editor_.broadcast(filling, whole_, {});
  editor_.finish(editor_.select(inside(), value, outside));
}

}  // namespace

void pad_operands(hlo::Module& module) { PaddedResults(module).run(); }

}  // namespace tpu::compiler
