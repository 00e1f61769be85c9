#include "workloads/compiler/passes/layout/window_features.h"

#include <algorithm>

#include "workloads/compiler/cost.h"
#include "workloads/compiler/passes/edit.h"
#include "workloads/compiler/passes/expand/convolution_arrays.h"
#include "workloads/compiler/passes/layout/convolution_layouts.h"

namespace tpu::compiler {

using hlo::HloInstruction;
using hlo::HloOpcode;
using hlo::Shape;

namespace {

using Id = GraphEditor::Id;

/// How much longer a move takes than its bytes: lanes move one by one.
constexpr double kMoveFactor = 2;

/// An instruction that gives its operand's elements in another order or type.
bool only_moves(const HloInstruction& instruction) {
  switch (instruction.opcode) {
    case HloOpcode::kConvert:
    case HloOpcode::kCopy:
    case HloOpcode::kPad:
    case HloOpcode::kReshape:
    case HloOpcode::kTranspose:
      return true;
    default:
      return false;
  }
}

/// Whether the array lies in memory whatever becomes of the convolution, in the order that images
/// have there: neither a parameter, which lies as the convolution wants it, nor moved from one.
bool stands(const hlo::Computation& computation, Id id) {
  while (only_moves(computation.at(id))) id = computation.at(id).operands[0];
  return computation.at(id).opcode != HloOpcode::kParameter;
}

/// One convolution, its operands parameters.
class Alone {
 public:
  Alone(const hlo::Computation& computation, const HloInstruction& convolution)
      : module_(with_parameters(computation, convolution)), edit_(module_), form_(convolution) {
    form_.operands = {0, 1};
    edit_.stand_for(0);
  }

  /// Calls `visit(convolution, input, window)` of the form with these phases joined.
  template <typename Visit>
  void visit_joined(const std::vector<std::size_t>& dimensions, const Visit& visit) {
    join_phases(edit_, form_, dimensions, [&](HloInstruction next) {
      visit(next, edit_.shape(next.operands[0]), edit_.shape(next.operands[1]));
      return edit_.append_instruction(std::move(next));
    });
  }

 private:
  static hlo::Module with_parameters(const hlo::Computation& computation,
                                     const HloInstruction& convolution) {
    hlo::Module module;
    module.entry = 0;
    module.computations.emplace_back();
    for (const Id operand : convolution.operands) {
      HloInstruction parameter;
      parameter.opcode = HloOpcode::kParameter;
      parameter.shape = computation.at(operand).shape;
      append(module.entry_computation(), std::move(parameter));
    }
    return module;
  }

  hlo::Module module_;
  GraphEditor edit_;
  HloInstruction form_;
};

/// Bytes of the input with its features in the lanes.
double input_bytes(const HloInstruction& convolution, const Shape& input) {
  const bool gradient = has_large_window(convolution);
  const hlo::ConvolutionDimensions& dims = convolution.convolution;
  return padded_bytes(input, gradient ? dims.input_batch : dims.input_feature,
                      gradient ? dims.input_feature : dims.input_batch);
}

/// Whether a dimension of the window has one position.
bool has_one_position(const HloInstruction& convolution, std::size_t i) {
  const hlo::ConvolutionDimensions& dims = convolution.convolution;
  return has_large_window(convolution) ? extent_of(convolution.shape, dims.output_spatial[i]) == 1
                                       : convolution.window[i].size == 1;
}

/// The sets of dimensions whose phases could be joined, but for the empty one. A window of one
/// position, which meets one phase alone, takes few features along with larger windows over the
/// same image.
std::vector<std::vector<std::size_t>> sets_to_join(const HloInstruction& convolution,
                                                   const Shape& input, const Target& target) {
  std::vector<std::vector<std::size_t>> sets;
  const hlo::ConvolutionDimensions& dims = convolution.convolution;
  const bool gradient = has_large_window(convolution);
  const std::int64_t features = extent_of(input, gradient ? dims.input_batch : dims.input_feature);
  if (convolution.window.size() != 2 || convolution.feature_group_count > 1 ||
      convolution.batch_group_count > 1 || features >= target.mxu_rows) {
    return sets;
  }
  const auto phases = [&](std::size_t i) {
    const hlo::WindowDimension& w = convolution.window[i];
    return gradient ? w.window_dilation : w.stride;
  };
  const std::int64_t all_phases = phases(0) * phases(1);
  for (std::size_t i = 0; i < convolution.window.size(); ++i) {
    if (phases(i) == 1 || !has_phases(convolution.window[i])) continue;
    if (has_one_position(convolution, i) && features * all_phases > target.mxu_rows) continue;
    for (std::size_t set = sets.size(); set-- > 0;) {
      sets.push_back(sets[set]);
      sets.back().push_back(i);
    }
    sets.push_back({i});
  }
  return sets;
}

}  // namespace

std::optional<RowsForm> form_in_rows(const hlo::Computation& computation,
                                     const HloInstruction& convolution,
                                     ConvolutionKernels& kernels) {
  const Target& target = kernels.target();
  const Shape& input = computation.at(convolution.operands[0]).shape;
  const std::vector<std::vector<std::size_t>> sets = sets_to_join(convolution, input, target);
  std::optional<RowsForm> best;
  const auto plain =
      kernels.cycles(convolution, input, computation.at(convolution.operands[1]).shape, false);
  if (plain) best = RowsForm{{}, *plain, 0};
  if (sets.empty()) return best;
  const double bytes = input_bytes(convolution, input);
  const bool stood = stands(computation, convolution.operands[0]);
  const double made = stood ? 0 : bytes / target.hbm_bytes_per_cycle;
  const double rate = std::min(target.hbm_bytes_per_cycle, kTurnedBytesPerCycle);
  for (const std::vector<std::size_t>& set : sets) {
    Alone(computation, convolution)
        .visit_joined(set, [&](const HloInstruction& form, const Shape& from, const Shape& window) {
          const std::optional<double> product = kernels.cycles(form, from, window, false);
          if (!product) return;
          const double moved = kMoveFactor * (input_bytes(form, from) + (stood ? bytes : 0));
          const double cycles = *product + (moved / rate - made);
          if (!best || cycles < best->cycles) best = RowsForm{set, cycles, made};
        });
  }
  return best;
}

Id join_phases(GraphEditor& edit, HloInstruction convolution,
               const std::vector<std::size_t>& dimensions, const EmitConvolution& emit) {
  if (dimensions.empty()) return emit(std::move(convolution));
  return split_in_phases(edit, std::move(convolution), dimensions.back(), [&](HloInstruction next) {
    return join_phases(edit, std::move(next), {dimensions.begin(), dimensions.end() - 1}, emit);
  });
}

}  // namespace tpu::compiler
