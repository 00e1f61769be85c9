#include "workloads/compiler/passes/expand/convolution_kernels.h"

#include <vector>

#include "workloads/compiler/ir/dimension_order.h"
#include "workloads/compiler/ir/kernel_forms.h"
#include "workloads/compiler/passes/edit.h"
#include "workloads/compiler/passes/layout/convolution_layouts.h"

namespace tpu::compiler {

using hlo::HloInstruction;
using hlo::Shape;

namespace {

/// A convolution whose arrays lie as assign_layouts lays them.
struct LaidOutConvolution {
  HloInstruction instruction;
  Shape input, window;

  std::string key() const {
    HloInstruction alike = instruction;
    alike.operands.clear();
    return value_key(alike) + to_string(input) + to_string(window);
  }
};

LaidOutConvolution lay_out(const HloInstruction& convolution, const Shape& input,
                           const Shape& window, bool batch_in_lanes) {
  const ConvolutionOrders orders = convolution_orders(convolution, batch_in_lanes);
  LaidOutConvolution laid_out{convolution, in_order(input, orders.input),
                              in_order(window, orders.window)};
  laid_out.instruction.shape = in_order(convolution.shape, orders.output);
  return laid_out;
}

template <typename Answer, typename Ask>
Answer once(std::map<std::string, Answer>& known, const LaidOutConvolution& convolution,
            const Ask& ask) {
  const auto [entry, is_new] = known.emplace(convolution.key(), Answer{});
  if (is_new) entry->second = ask(convolution.instruction, convolution.input, convolution.window);
  return entry->second;
}

}  // namespace

bool ConvolutionKernels::has_kernel(const HloInstruction& convolution, const Shape& input,
                                    const Shape& window, bool batch_in_lanes) {
  return once(has_kernel_, lay_out(convolution, input, window, batch_in_lanes),
              [this](const auto&... of) { return has_convolution_kernel(of..., target_); });
}

std::optional<double> ConvolutionKernels::cycles(const HloInstruction& convolution,
                                                 const Shape& input, const Shape& window,
                                                 bool batch_in_lanes) {
  return once(cycles_, lay_out(convolution, input, window, batch_in_lanes),
              [this](const auto&... of) { return convolution_cycles(of..., target_); });
}

}  // namespace tpu::compiler
