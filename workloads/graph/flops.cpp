#include <algorithm>
#include <limits>
#include <numeric>

#include "workloads/graph/graph.h"
#include "workloads/graph/shape_inference.h"

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
  return a >= 0 ? a / b : -((-a + b - 1) / b);
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

/// Trip count of a while as its backend_config states it ("known_trip_count":{"n":"5"}); 1 if not.
std::int64_t stated_trip_count(const HloInstruction& loop) {
  const std::string& text = loop.raw_attributes;
  const std::size_t at = text.find("known_trip_count");
  if (at == std::string::npos) return 1;
  const std::size_t digits = text.find_first_of("0123456789", at);
  std::int64_t count = 0;
  for (std::size_t i = digits; i < text.size() && text[i] >= '0' && text[i] <= '9'; ++i) {
    count = saturating_add(saturating_multiply(count, 10), text[i] - '0');
  }
  return count;
}

/// Walks the computations that an instruction calls; each is counted once per call.
class FlopCounter {
 public:
  FlopCounter(const Module& module, bool only_matmuls)
      : module_(module), only_matmuls_(only_matmuls), known_(module.computations.size(), -1) {}

  std::int64_t of(const Computation& computation, const HloInstruction& instruction) {
    switch (instruction.opcode) {
      case HloOpcode::kDot:
        return dot_flops(computation, instruction);
      case HloOpcode::kConvolution:
        return convolution_flops(computation, instruction);
      case HloOpcode::kCall:
      case HloOpcode::kFusion:
      case HloOpcode::kAsyncStart:
        return of_called(instruction);
      case HloOpcode::kConditional:
        return of_longest_branch(instruction);
      case HloOpcode::kWhile:
        return saturating_multiply(stated_trip_count(instruction), of_called(instruction));
      default:
        return only_matmuls_ ? 0 : of_vector_work(computation, instruction);
    }
  }

  std::int64_t of(ComputationId id) {
    std::int64_t& known = known_[static_cast<std::size_t>(id)];
    if (known >= 0) return known;
    const Computation& computation = module_.computation(id);
    std::int64_t total = 0;
    for (const HloInstruction& instruction : computation.instructions) {
      total = saturating_add(total, of(computation, instruction));
    }
    return known = total;
  }

 private:
  std::int64_t of_called(const HloInstruction& instruction) {
    std::int64_t total = 0;
    for (ComputationId id : instruction.called) total = saturating_add(total, of(id));
    return total;
  }

  std::int64_t of_longest_branch(const HloInstruction& instruction) {
    std::int64_t longest = 0;
    for (ComputationId id : instruction.called) longest = std::max(longest, of(id));
    return longest;
  }

  static std::int64_t of_vector_work(const Computation& computation,
                                     const HloInstruction& instruction) {
    switch (instruction.opcode) {
      case HloOpcode::kReduce: {
        std::int64_t total = 0;
        for (std::size_t i = 0; i < instruction.operands.size() / 2; ++i) {
          total += computation.at(instruction.operands[i]).shape.element_count();
        }
        return total;
      }
      case HloOpcode::kReduceWindow:
        return instruction.shape.is_tuple() ? 0
                                            : saturating_multiply(instruction.shape.element_count(),
                                                                  window_size(instruction));
      case HloOpcode::kSelectAndScatter:
        return saturating_multiply(computation.at(instruction.operands[1]).shape.element_count(),
                                   window_size(instruction));
      case HloOpcode::kScatter:
        return computation.at(instruction.operands.back()).shape.element_count();
      case HloOpcode::kMap:
        return instruction.shape.element_count();
      default:
        return is_elementwise(instruction.opcode) && instruction.opcode != HloOpcode::kConvert
                   ? instruction.shape.element_count()
                   : 0;
    }
  }

  const Module& module_;
  bool only_matmuls_;
  std::vector<std::int64_t> known_;
};

}  // namespace

std::int64_t flops(const Module& module, const Computation& computation,
                   const HloInstruction& instruction) {
  return FlopCounter(module, false).of(computation, instruction);
}

std::int64_t matmul_flops(const Module& module) {
  return FlopCounter(module, true).of(module.entry);
}

}  // namespace tpu::hlo
