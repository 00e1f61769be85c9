#include "workloads/graph/hlo_cost_analysis.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "sim/base/ceil_divide.h"
#include "workloads/graph/compulsory_bytes.h"
#include "workloads/graph/while_loop_analysis.h"

namespace tpu::hlo {

namespace {

/// Adds and multiplies without overflow: a count too large for 63 bits stays at the largest.
std::int64_t saturating_multiply(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) return std::numeric_limits<std::int64_t>::max();
  return product;
}
std::int64_t saturating_add(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) return std::numeric_limits<std::int64_t>::max();
  return sum;
}

std::int64_t floor_divide(std::int64_t a, std::int64_t b) {
  return a >= 0 ? a / b : -(ceil_divide(-a, b));
}

/// Pairs (output position, window position) that read an element of the input rather than padding
/// or a dilation zero.
std::int64_t useful_window_pairs(std::int64_t extent, std::int64_t output,
                                 const WindowDimension& window) {
  const std::int64_t period = window.base_dilation / std::gcd(window.stride, window.base_dilation);
  const std::int64_t last = (extent - 1) * window.base_dilation;
  std::int64_t pairs = 0;
  for (std::int64_t k = 0; k < window.size; ++k) {
    const std::int64_t shift = k * window.window_dilation - window.padding_low;
    const std::int64_t low = std::max<std::int64_t>(0, -floor_divide(shift, window.stride));
    const std::int64_t high = std::min(output - 1, floor_divide(last - shift, window.stride));
    std::int64_t first = low;
    while (first <= high && first < low + period &&
           (first * window.stride + shift) % window.base_dilation != 0) {
      ++first;
    }
    if (first <= high && first < low + period) pairs += (high - first) / period + 1;
  }
  return pairs;
}

std::int64_t dot_flops(const Computation& computation, const HloInstruction& dot) {
  const Shape& lhs = computation.at(dot.operands[0]).shape;
  std::int64_t total = saturating_multiply(2, dot.shape.element_count());
  for (std::int64_t d : dot.dot->lhs_contracting) {
    total = saturating_multiply(total, lhs.dimensions[static_cast<std::size_t>(d)]);
  }
  return total;
}

std::int64_t convolution_flops(const Computation& computation, const HloInstruction& conv) {
  const ConvolutionDimensions& dims = conv.convolution;
  const Shape& input = computation.at(conv.operands[0]).shape;
  const Shape& kernel = computation.at(conv.operands[1]).shape;
  const auto extent = [](const Shape& shape, std::int64_t dimension) {
    return shape.dimensions[static_cast<std::size_t>(dimension)];
  };
  std::int64_t total = saturating_multiply(2, extent(conv.shape, dims.output_batch));
  total = saturating_multiply(total, extent(conv.shape, dims.output_feature));
  total = saturating_multiply(total, extent(kernel, dims.kernel_input_feature));
  for (std::size_t i = 0; i < conv.window.size(); ++i) {
    total = saturating_multiply(
        total, useful_window_pairs(extent(input, dims.input_spatial[i]),
                                   extent(conv.shape, dims.output_spatial[i]), conv.window[i]));
  }
  return total;
}

std::int64_t window_size(const HloInstruction& instruction) {
  std::int64_t size = 1;
  for (const WindowDimension& window : instruction.window) {
    size = saturating_multiply(size, window.size);
  }
  return size;
}

std::int64_t vector_flops(const Computation& computation, const HloInstruction& instruction) {
  switch (instruction.opcode) {
    case HloOpcode::kReduce: {
      std::int64_t total = 0;
      for (std::size_t i = 0; i < instruction.operands.size() / 2; ++i) {
        total =
            saturating_add(total, computation.at(instruction.operands[i]).shape.element_count());
      }
      return total;
    }
    case HloOpcode::kReduceWindow:
      return instruction.shape.is_tuple()
                 ? 0
                 : saturating_multiply(instruction.shape.element_count(), window_size(instruction));
    case HloOpcode::kSelectAndScatter:
      return saturating_multiply(computation.at(instruction.operands[1]).shape.element_count(),
                                 window_size(instruction));
    case HloOpcode::kScatter:
      return computation.at(instruction.operands.back()).shape.element_count();
    case HloOpcode::kMap:
      return instruction.shape.element_count();
    default:
      return is_elementwise(instruction.opcode) && instruction.opcode != HloOpcode::kConvert &&
                     instruction.opcode != HloOpcode::kBitcastConvert
                 ? instruction.shape.element_count()
                 : 0;
  }
}

void add(HloCost& sum, const HloCost& more) {
  sum.flops = saturating_add(sum.flops, more.flops);
  sum.matmul_flops = saturating_add(sum.matmul_flops, more.matmul_flops);
  sum.hbm_bytes = saturating_add(sum.hbm_bytes, more.hbm_bytes);
}

HloCost times(const HloCost& cost, std::uint64_t count) {
  constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  const auto factor = static_cast<std::int64_t>(std::min(count, kMost));
  return {saturating_multiply(cost.flops, factor), saturating_multiply(cost.matmul_flops, factor),
          saturating_multiply(cost.hbm_bytes, factor)};
}

bool is_product(HloOpcode opcode) {
  return opcode == HloOpcode::kDot || opcode == HloOpcode::kConvolution;
}

/// Whether an instruction that this one calls, or one that those call, is a dot or convolution.
bool holds_product(const Module& module, const HloInstruction& instruction, int depth = 0) {
  constexpr int kDeepest = 8;
  if (is_product(instruction.opcode)) return true;
  if (depth > kDeepest) return false;
  return std::any_of(
      instruction.called.begin(), instruction.called.end(), [&](ComputationId called) {
        const std::vector<HloInstruction>& all = module.computation(called).instructions;
        return std::any_of(all.begin(), all.end(), [&](const HloInstruction& inner) {
          return holds_product(module, inner, depth + 1);
        });
      });
}

}  // namespace

HloCostAnalysis::HloCostAnalysis(const Module& module)
    : module_(module), known_(module.computations.size()) {}

HloCost HloCostAnalysis::of(const Computation& computation, const HloInstruction& instruction) {
  HloCost cost;
  switch (instruction.opcode) {
    case HloOpcode::kCall:
      return of_called(instruction);
    case HloOpcode::kConditional:
      return of_longest_branch(instruction);
    case HloOpcode::kWhile:
      return times(of_called(instruction),
                   trip_count(module_, computation, instruction).value_or(1));
    case HloOpcode::kFusion:
    case HloOpcode::kAsyncStart:
      cost = of_called(instruction);
      break;
    case HloOpcode::kDot:
      cost.flops = cost.matmul_flops = dot_flops(computation, instruction);
      break;
    case HloOpcode::kConvolution:
      cost.flops = cost.matmul_flops = convolution_flops(computation, instruction);
      break;
    default:
      cost.flops = vector_flops(computation, instruction);
      break;
  }
  cost.hbm_bytes = compulsory_bytes(module_, computation, instruction);
  return cost;
}

HloCost HloCostAnalysis::of(ComputationId id) {
  Known& known = known_[static_cast<std::size_t>(id)];
  if (known.is_known) return known.cost;
  const Computation& computation = module_.computation(id);
  HloCost total;
  for (const HloInstruction& instruction : computation.instructions) {
    add(total, of(computation, instruction));
  }
  known = {true, total};
  return total;
}

HloCost HloCostAnalysis::of_called(const HloInstruction& instruction) {
  HloCost total;
  for (const ComputationId id : instruction.called) add(total, of(id));
  return total;
}

HloCost HloCostAnalysis::of_longest_branch(const HloInstruction& instruction) {
  HloCost longest;
  for (const ComputationId id : instruction.called) {
    const HloCost branch = of(id);
    longest.flops = std::max(longest.flops, branch.flops);
    longest.matmul_flops = std::max(longest.matmul_flops, branch.matmul_flops);
    longest.hbm_bytes = std::max(longest.hbm_bytes, branch.hbm_bytes);
  }
  return longest;
}

std::string category(const Module& module, const HloInstruction& instruction) {
  switch (instruction.opcode) {
    case HloOpcode::kFusion:
      if (holds_product(module, instruction)) return "convolution fusion";
      if (instruction.fusion_kind.get() == "kInput") return "input fusion";
      if (instruction.fusion_kind.get() == "kOutput") return "output fusion";
      if (instruction.fusion_kind.get() == "kCustom") return "custom fusion";
      return "loop fusion";
    case HloOpcode::kDot:
    case HloOpcode::kConvolution:
      return "convolution";
    case HloOpcode::kCopy:
    case HloOpcode::kTranspose:
    case HloOpcode::kReshape:
    case HloOpcode::kDynamicReshape:
      return "data formatting";
    default:
      return is_elementwise(instruction.opcode) ? "non-fusion elementwise"
                                                : std::string(to_string(instruction.opcode));
  }
}

std::int64_t flops(const Module& module, const Computation& computation,
                   const HloInstruction& instruction) {
  return HloCostAnalysis(module).of(computation, instruction).flops;
}

std::int64_t matmul_flops(const Module& module) {
  return HloCostAnalysis(module).of(module.entry).matmul_flops;
}

}  // namespace tpu::hlo
