#include "workloads/compiler/passes/expand/initial_values.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "workloads/compiler/ir/combining_operation.h"
#include "workloads/compiler/passes/expand/scalar_samples.h"
#include "workloads/compiler/passes/graph_editor.h"
#include "workloads/compiler/passes/refusal_list.h"
#include "workloads/compiler/passes/simplify/constant_folding.h"

namespace tpu::compiler {

using hlo::ElementType;
using hlo::HloInstruction;
using hlo::HloOpcode;
using hlo::WindowDimension;

namespace {

using Id = GraphEditor::Id;

bool is_float(ElementType type) { return type == ElementType::kF32 || type == ElementType::kBf16; }

/// The least number of the type, or the greatest.
double end_of(ElementType type, bool least) {
  if (is_float(type)) return least ? -HUGE_VAL : HUGE_VAL;
  if (type == ElementType::kS32) return least ? -2147483648.0 : 2147483647.0;
  if (least) return 0;
  return type == ElementType::kPred ? 1 : 4294967295.0;
}

/// The value that changes nothing; absent where that is not known.
std::optional<double> neutral_value(HloOpcode operation, ElementType type) {
  const bool is_integer = type == ElementType::kS32 || type == ElementType::kU32;
  if (!is_float(type) && !is_integer && type != ElementType::kPred) return std::nullopt;
  switch (operation) {
    case HloOpcode::kAdd:
    case HloOpcode::kOr:
    case HloOpcode::kXor:
      return 0;
    case HloOpcode::kMultiply:
      return 1;
    case HloOpcode::kMaximum:
      return end_of(type, true);
    case HloOpcode::kMinimum:
      return end_of(type, false);
    case HloOpcode::kAnd:
      return type == ElementType::kS32 ? -1 : end_of(type, false);
    default:
      return std::nullopt;
  }
}

/// Whether the computation makes a number of itself and the value; what it can't run counts as
/// such, for computations are written with the value that their reductions begin with.
bool leaves(const hlo::Computation& body, double value, double number) {
  const auto made = run_scalars(body, {value, number});
  if (!made || made->empty() || std::isnan(made->front())) return true;
  return made->front() == number || std::abs(made->front() - number) <= 1e-5 * std::abs(number);
}

bool leaves_numbers(const hlo::Computation& body, double value) {
  const std::vector<double> numbers{-7, -1, 1, 3, 40};
  return std::all_of(numbers.begin(), numbers.end(),
                     [&](double number) { return leaves(body, value, number); });
}

bool has_padding(const std::vector<WindowDimension>& window) {
  return std::any_of(window.begin(), window.end(), [](const WindowDimension& w) {
    return w.padding_low > 0 || w.padding_high > 0 || w.base_dilation > 1;
  });
}

class InitialValues {
 public:
  explicit InitialValues(hlo::Module& module) : module_(module), edit_(module) {}

  void visit(Id id) {
    const HloInstruction& instruction = module_.entry_computation().at(id);
    const bool is_window = instruction.opcode == HloOpcode::kReduceWindow;
    if ((!is_window && instruction.opcode != HloOpcode::kReduce) || instruction.shape.is_tuple() ||
        instruction.operands.size() != 2) {
      return;
    }
    const hlo::Computation& body = module_.computation(instruction.called.at(0));
    const auto value = scalar_value(module_.entry_computation().at(instruction.operands[1]));
    if (!is_window && value) return;  // Reductions begin with any constant.
    const auto neutral = neutral_value(combining_operation(body), instruction.shape.type);
    if (neutral && value == neutral) return;
    if (!neutral && (!is_window || (value && leaves_numbers(body, *value)))) return;
    const bool may_repeat = value && leaves(body, *value, *value);
    if (!neutral && !may_repeat && has_padding(instruction.window)) {
      refuse("expected an initial value that changes nothing, or no padding");
    }
    separate(id, neutral.value_or(value.value_or(0)));
  }

 private:
  void separate(Id id, double begin) {
    edit_.stand_for(id);
    HloInstruction from = module_.entry_computation().at(id);
    const Id value = from.operands[1];
    const hlo::ComputationId body = from.called.at(0);
    const GraphEditor::Extents extents = from.shape.dimensions;
    from.operands[1] = edit_.scalar(from.shape.type, begin);
    from.name += ".begun";
    const Id result = edit_.append_instruction(std::move(from));
    edit_.finish(edit_.apply(body, {edit_.broadcast(value, extents, {}), result}).at(0));
  }

  hlo::Module& module_;
  GraphEditor edit_;
};

}  // namespace

void separate_initial_values(hlo::Module& module, Refusals& refusals) {
  InitialValues values(module);
  rewrite_each(module, refusals, [&](Id id) { values.visit(id); });
}

}  // namespace tpu::compiler
