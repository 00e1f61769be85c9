#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "sim/base/error.h"
#include "tests/compiler/kernel_harness.h"
#include "workloads/compiler/ir/array_layout.h"
#include "workloads/frontend/graph_builder.h"
#include "workloads/graph/graph.h"

namespace tpu::test {

/// An array of any type as doubles, row-major.
struct Array {
  hlo::Shape shape;
  std::vector<double> values;
};

inline float float_of(std::uint32_t bits) {
  float value = 0;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

inline std::uint16_t bf16_of(float value) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/// Row-major bytes of an array; s32 and pred are integers.
inline std::vector<std::uint8_t> bytes_of(const Array& array) {
  std::vector<std::uint8_t> bytes;
  const auto put = [&bytes](const void* data, std::size_t size) {
    const auto* first = static_cast<const std::uint8_t*>(data);
    bytes.insert(bytes.end(), first, first + size);
  };
  for (double value : array.values) {
    if (array.shape.type == hlo::ElementType::kBf16) {
      const std::uint16_t bits = bf16_of(static_cast<float>(value));
      put(&bits, sizeof bits);
    } else if (array.shape.type == hlo::ElementType::kF32) {
      const auto single = static_cast<float>(value);
      put(&single, sizeof single);
    } else {
      const auto integer = static_cast<std::int32_t>(value);
      put(&integer, sizeof integer);
    }
  }
  return bytes;
}

inline std::vector<double> values_of(const hlo::Shape& shape,
                                     const std::vector<std::uint8_t>& bytes) {
  std::vector<double> values(static_cast<std::size_t>(shape.element_count()));
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (shape.type == hlo::ElementType::kBf16) {
      std::uint16_t bits = 0;
      std::memcpy(&bits, bytes.data() + 2 * i, 2);
      values[i] = float_of(std::uint32_t{bits} << 16);
    } else if (shape.type == hlo::ElementType::kF32) {
      float single = 0;
      std::memcpy(&single, bytes.data() + 4 * i, 4);
      values[i] = single;
    } else {
      std::int32_t integer = 0;
      std::memcpy(&integer, bytes.data() + 4 * i, 4);
      values[i] = integer;
    }
  }
  return values;
}

/// The words of an array in its layout, with garbage (a NaN) wherever no element lies.
inline std::vector<std::uint32_t> words_of(const Array& array) {
  std::vector<std::uint32_t> words = hlo::pack(array.shape, bytes_of(array));
  const std::size_t bytes =
      array.values.size() * static_cast<std::size_t>(hlo::byte_size(array.shape.type));
  const std::vector<std::uint32_t> used =
      hlo::pack(array.shape, std::vector<std::uint8_t>(bytes, 0xff));
  for (std::size_t i = 0; i < words.size(); ++i) {
    words[i] |= ~used[i] & KernelHarness::kGarbage;
  }
  return words;
}

/// Random values: uniform in [low, high], rounded to the type.
inline Array random_array(const hlo::Shape& shape, std::uint32_t seed, double low, double high) {
  std::mt19937 engine(seed);
  std::uniform_real_distribution<double> uniform(low, high);
  Array array{shape, std::vector<double>(static_cast<std::size_t>(shape.element_count()))};
  for (double& value : array.values) {
    value = uniform(engine);
    if (shape.type == hlo::ElementType::kS32) value = std::floor(value);
  }
  array.values = values_of(shape, bytes_of(array));
  return array;
}

/// Evaluates a computation by its definition, in double precision.
class NaiveEvaluation {
 public:
  NaiveEvaluation(const hlo::Module& module, const std::vector<Array>& parameters)
      : NaiveEvaluation(module, module.entry_computation(), parameters) {}
  NaiveEvaluation(const hlo::Module& module, const hlo::Computation& computation,
                  const std::vector<Array>& parameters)
      : module_(module), computation_(computation), parameters_(parameters) {}

  std::vector<Array> run() {
    const hlo::Computation& entry = computation_;
    for (const hlo::HloInstruction& instruction : entry.instructions) {
      Array result{instruction.shape, {}};
      if (instruction.opcode != hlo::HloOpcode::kTuple) result.values = evaluate(instruction);
      known_.push_back(std::move(result));
    }
    const hlo::HloInstruction& root = entry.at(entry.root);
    std::vector<Array> results;
    if (root.opcode != hlo::HloOpcode::kTuple) return {value(root.id)};
    for (hlo::InstructionId id : root.operands) results.push_back(value(id));
    return results;
  }

 private:
  const Array& value(hlo::InstructionId id) const { return known_[static_cast<std::size_t>(id)]; }

  static void find_coordinates(const hlo::Shape& shape, std::int64_t flat,
                               std::vector<std::int64_t>& at) {
    at.resize(shape.dimensions.size());
    for (std::size_t i = at.size(); i-- > 0;) {
      at[i] = flat % shape.dimensions[i];
      flat /= shape.dimensions[i];
    }
  }
  static std::vector<std::int64_t> coordinates(const hlo::Shape& shape, std::int64_t flat) {
    std::vector<std::int64_t> at;
    find_coordinates(shape, flat, at);
    return at;
  }
  static std::int64_t flat_index(const hlo::Shape& shape, const std::vector<std::int64_t>& at) {
    std::int64_t flat = 0;
    for (std::size_t i = 0; i < at.size(); ++i) flat = flat * shape.dimensions[i] + at[i];
    return flat;
  }

  std::vector<double> evaluate(const hlo::HloInstruction& in) {
    using hlo::HloOpcode;
    if (in.opcode == HloOpcode::kParameter) {
      return parameters_[static_cast<std::size_t>(in.parameter_number)].values;
    }
    if (in.opcode == HloOpcode::kConstant) {
      std::vector<std::uint8_t> literal = in.literal;
      if (in.shape.type == hlo::ElementType::kPred) {
        return std::vector<double>(literal.begin(), literal.end());
      }
      return values_of(in.shape, literal);
    }
    if (in.opcode == HloOpcode::kReduce) return reduce(in);
    if (in.opcode == HloOpcode::kGather || in.opcode == HloOpcode::kScatter) return rows_of(in);
    if (in.opcode == HloOpcode::kReduceWindow) return reduce_window(in);
    if (in.opcode == HloOpcode::kSelectAndScatter) return select_and_scatter(in);
    if (moves_elements(in.opcode)) return moved(in);
    std::vector<double> result(static_cast<std::size_t>(in.shape.element_count()));
    std::vector<std::int64_t> at, from;
    for (std::size_t i = 0; i < result.size(); ++i) {
      if (in.opcode == HloOpcode::kIota) {
        find_coordinates(in.shape, static_cast<std::int64_t>(i), at);
        result[i] = static_cast<double>(at[static_cast<std::size_t>(in.dimensions[0])]);
      } else if (in.opcode == HloOpcode::kBroadcast) {
        find_coordinates(in.shape, static_cast<std::int64_t>(i), at);
        from.clear();
        for (std::int64_t d : in.dimensions) from.push_back(at[static_cast<std::size_t>(d)]);
        const Array& operand = value(in.operands[0]);
        result[i] = operand.values[static_cast<std::size_t>(flat_index(operand.shape, from))];
      } else {
        result[i] = pointwise(in, i);
      }
    }
    return result;
  }

  std::vector<double> reduce(const hlo::HloInstruction& in) {
    const Array& operand = value(in.operands[0]);
    const hlo::Computation& to_apply = module_.computation(in.called[0]);
    const hlo::HloOpcode opcode = to_apply.at(to_apply.root).opcode;
    std::vector<double> result(static_cast<std::size_t>(in.shape.element_count()),
                               value(in.operands[1]).values[0]);
    std::vector<std::int64_t> at, kept;
    for (std::size_t i = 0; i < operand.values.size(); ++i) {
      find_coordinates(operand.shape, static_cast<std::int64_t>(i), at);
      kept.clear();
      for (std::size_t d = 0; d < at.size(); ++d) {
        bool is_reduced = false;
        for (std::int64_t r : in.dimensions) is_reduced |= r == static_cast<std::int64_t>(d);
        if (!is_reduced) kept.push_back(at[d]);
      }
      double& sum = result[static_cast<std::size_t>(flat_index(in.shape, kept))];
      const double x = operand.values[i];
      sum = opcode == hlo::HloOpcode::kAdd       ? sum + x
            : opcode == hlo::HloOpcode::kMaximum ? std::max(sum, x)
                                                 : std::min(sum, x);
    }
    return result;
  }

  static bool moves_elements(hlo::HloOpcode opcode) {
    switch (opcode) {
      case hlo::HloOpcode::kSlice:
      case hlo::HloOpcode::kPad:
      case hlo::HloOpcode::kConcatenate:
      case hlo::HloOpcode::kReverse:
      case hlo::HloOpcode::kTranspose:
      case hlo::HloOpcode::kReshape:
      case hlo::HloOpcode::kCopy:
      case hlo::HloOpcode::kBitcast:
        return true;
      default:
        return false;
    }
  }

  std::vector<double> moved(const hlo::HloInstruction& in) {
    using hlo::HloOpcode;
    if (in.opcode == HloOpcode::kReshape || in.opcode == HloOpcode::kCopy ||
        in.opcode == HloOpcode::kBitcast) {
      return value(in.operands[0]).values;
    }
    std::vector<double> result(static_cast<std::size_t>(in.shape.element_count()));
    if (in.opcode == HloOpcode::kPad) {
      for (double& x : result) x = value(in.operands[1]).values[0];
    }
    std::int64_t joined = 0;
    const std::size_t arrays = in.opcode == HloOpcode::kConcatenate ? in.operands.size() : 1;
    for (std::size_t operand = 0; operand < arrays; ++operand) {
      const Array& source = value(in.operands[operand]);
      std::vector<std::int64_t> at;
      for (std::size_t i = 0; i < source.values.size(); ++i) {
        find_coordinates(source.shape, static_cast<std::int64_t>(i), at);
        const std::vector<std::int64_t> to = target_of(in, source.shape, at, joined);
        bool inside = true;
        for (std::size_t d = 0; d < to.size(); ++d) {
          inside &= to[d] >= 0 && to[d] < in.shape.dimensions[d];
        }
        if (inside) {
          result[static_cast<std::size_t>(flat_index(in.shape, to))] = source.values[i];
        }
      }
      if (arrays > 1) joined += source.shape.dimensions[static_cast<std::size_t>(in.dimensions[0])];
    }
    return result;
  }

  /// Where an element goes; outside the result: nowhere.
  static std::vector<std::int64_t> target_of(const hlo::HloInstruction& in,
                                             const hlo::Shape& source,
                                             const std::vector<std::int64_t>& at,
                                             std::int64_t joined) {
    std::vector<std::int64_t> to = at;
    for (std::size_t d = 0; d < at.size(); ++d) {
      bool is_named = false;
      for (std::int64_t named : in.dimensions) is_named |= named == static_cast<std::int64_t>(d);
      switch (in.opcode) {
        case hlo::HloOpcode::kSlice: {
          const std::int64_t stride = in.slice->strides.empty() ? 1 : in.slice->strides[d];
          const std::int64_t distance = at[d] - in.slice->starts[d];
          to[d] = distance >= 0 && distance % stride == 0 ? distance / stride : -1;
          break;
        }
        case hlo::HloOpcode::kPad:
          to[d] = in.padding[d].low + at[d] * (in.padding[d].interior + 1);
          break;
        case hlo::HloOpcode::kConcatenate:
          if (is_named) to[d] = at[d] + joined;
          break;
        case hlo::HloOpcode::kReverse:
          if (is_named) to[d] = source.dimensions[d] - 1 - at[d];
          break;
        default:  // A transpose.
          to[d] = at[static_cast<std::size_t>(in.dimensions[d])];
      }
    }
    return to;
  }

  /// A gather of rows of a table, or a scatter that adds rows to it.
  std::vector<double> rows_of(const hlo::HloInstruction& in) {
    const bool is_gather = in.opcode == hlo::HloOpcode::kGather;
    const Array& table = value(in.operands[0]);
    const Array& indices = value(in.operands[1]);
    const auto width = static_cast<std::size_t>(table.shape.dimensions[1]);
    const auto last = static_cast<double>(table.shape.dimensions[0] - 1);
    std::vector<double> result;
    if (!is_gather) result = table.values;
    for (std::size_t i = 0; i < indices.values.size(); ++i) {
      const double index = indices.values[i];
      const auto row = static_cast<std::size_t>(std::min(std::max(index, 0.0), last)) * width;
      for (std::size_t j = 0; j < width; ++j) {
        if (is_gather) {
          result.push_back(table.values[row + j]);
        } else if (index >= 0 && index <= last) {
          result[row + j] += value(in.operands[2]).values[i * width + j];
        }
      }
    }
    return result;
  }

  /// Flat indices of the elements of `image` in the window at `at`, in row-major order; those in
  /// padding are left out.
  static std::vector<std::size_t> window_elements(const hlo::HloInstruction& in,
                                                  const hlo::Shape& image,
                                                  const std::vector<std::int64_t>& at) {
    hlo::Shape window = image;
    for (std::size_t d = 0; d < at.size(); ++d) window.dimensions[d] = in.window[d].size;
    std::vector<std::size_t> elements;
    for (std::int64_t i = 0; i < window.element_count(); ++i) {
      std::vector<std::int64_t> place = coordinates(window, i);
      bool inside = true;
      for (std::size_t d = 0; d < at.size(); ++d) {
        place[d] = at[d] * in.window[d].stride + place[d] * in.window[d].window_dilation -
                   in.window[d].padding_low;
        const std::int64_t base = in.window[d].base_dilation;
        inside &= place[d] >= 0 && place[d] % base == 0 && place[d] / base < image.dimensions[d];
        place[d] /= base;
      }
      if (inside) elements.push_back(static_cast<std::size_t>(flat_index(image, place)));
    }
    return elements;
  }

  std::vector<double> reduce_window(const hlo::HloInstruction& in) {
    const Array& image = value(in.operands[0]);
    const hlo::Computation& to_apply = module_.computation(in.called[0]);
    const bool sums = to_apply.at(to_apply.root).opcode == hlo::HloOpcode::kAdd;
    std::vector<double> result(static_cast<std::size_t>(in.shape.element_count()),
                               value(in.operands[1]).values[0]);
    for (std::size_t i = 0; i < result.size(); ++i) {
      const std::vector<std::int64_t> at = coordinates(in.shape, static_cast<std::int64_t>(i));
      for (std::size_t element : window_elements(in, image.shape, at)) {
        const double x = image.values[element];
        result[i] = sums ? result[i] + x : std::max(result[i], x);
      }
    }
    return result;
  }

  std::vector<double> select_and_scatter(const hlo::HloInstruction& in) {
    const Array& image = value(in.operands[0]);
    const Array& source = value(in.operands[1]);
    std::vector<double> result(image.values.size(), 0);
    for (std::size_t i = 0; i < source.values.size(); ++i) {
      const std::vector<std::int64_t> at = coordinates(source.shape, static_cast<std::int64_t>(i));
      const std::vector<std::size_t> window = window_elements(in, image.shape, at);
      std::size_t chosen = window.front();
      for (std::size_t element : window) {
        if (image.values[element] > image.values[chosen]) chosen = element;
      }
      result[chosen] += source.values[i];
    }
    return result;
  }

  double operand(const hlo::HloInstruction& in, std::size_t which, std::size_t i) const {
    const Array& array = value(in.operands[which]);
    return array.values[array.shape.rank() == 0 ? 0 : i];
  }

  /// Conversions, and what has steps, see a value of bf16 as memory would hold it.
  double operand_as_stored(const hlo::HloInstruction& in, std::size_t which, std::size_t i) const {
    using hlo::HloOpcode;
    const double exact = operand(in, which, i);
    const bool has_steps = in.opcode == HloOpcode::kConvert || in.opcode == HloOpcode::kCompare ||
                           in.opcode == HloOpcode::kFloor || in.opcode == HloOpcode::kCeil;
    const bool is_short = value(in.operands[which]).shape.type == hlo::ElementType::kBf16;
    if (!has_steps || !is_short) return exact;
    return float_of(std::uint32_t{bf16_of(static_cast<float>(exact))} << 16);
  }

  double pointwise(const hlo::HloInstruction& in, std::size_t i) const {
    using hlo::HloOpcode;
    const double a = operand_as_stored(in, 0, i);
    const double b = in.operands.size() > 1 ? operand_as_stored(in, 1, i) : 0;
    const double c = in.operands.size() > 2 ? operand(in, 2, i) : 0;
    switch (in.opcode) {
      case HloOpcode::kAdd:
        return a + b;
      case HloOpcode::kSubtract:
        return a - b;
      case HloOpcode::kMultiply:
        return a * b;
      case HloOpcode::kDivide:
        return a / b;
      case HloOpcode::kMaximum:
        return std::max(a, b);
      case HloOpcode::kMinimum:
        return std::min(a, b);
      case HloOpcode::kPower:
        return std::pow(a, b);
      case HloOpcode::kAnd:
        return a != 0 && b != 0 ? 1 : 0;
      case HloOpcode::kOr:
        return a != 0 || b != 0 ? 1 : 0;
      case HloOpcode::kXor:
        return (a != 0) != (b != 0) ? 1 : 0;
      case HloOpcode::kNot:
        return a == 0 ? 1 : 0;
      case HloOpcode::kNegate:
        return -a;
      case HloOpcode::kAbs:
        return std::fabs(a);
      case HloOpcode::kSign:
        return a > 0 ? 1 : a < 0 ? -1 : 0;
      case HloOpcode::kExponential:
        return std::exp(a);
      case HloOpcode::kExponentialMinusOne:
        return std::expm1(a);
      case HloOpcode::kLog:
        return std::log(a);
      case HloOpcode::kLogPlusOne:
        return std::log1p(a);
      case HloOpcode::kSqrt:
        return std::sqrt(a);
      case HloOpcode::kRsqrt:
        return 1 / std::sqrt(a);
      case HloOpcode::kTanh:
        return std::tanh(a);
      case HloOpcode::kLogistic:
        return 1 / (1 + std::exp(-a));
      case HloOpcode::kErf:
        return std::erf(a);
      case HloOpcode::kFloor:
        return std::floor(a);
      case HloOpcode::kCeil:
        return std::ceil(a);
      case HloOpcode::kCompare:
        return compare(in.direction, a, b) ? 1 : 0;
      case HloOpcode::kSelect:
        return a != 0 ? b : c;
      case HloOpcode::kClamp:
        return std::min(std::max(b, a), c);
      case HloOpcode::kConvert:
        if (in.shape.type == hlo::ElementType::kBf16) {
          return float_of(std::uint32_t{bf16_of(static_cast<float>(a))} << 16);
        }
        return in.shape.type == hlo::ElementType::kS32 ? std::trunc(a) : a;
      default:
        throw SimulatorBug("naive evaluation: no " + std::string(hlo::to_string(in.opcode)));
    }
  }

  static bool compare(hlo::ComparisonDirection direction, double a, double b) {
    switch (direction) {
      case hlo::ComparisonDirection::kEq:
        return a == b;
      case hlo::ComparisonDirection::kNe:
        return a != b;
      case hlo::ComparisonDirection::kLt:
        return a < b;
      case hlo::ComparisonDirection::kLe:
        return a <= b;
      case hlo::ComparisonDirection::kGt:
        return a > b;
      case hlo::ComparisonDirection::kGe:
        return a >= b;
    }
    return false;
  }

  const hlo::Module& module_;
  const hlo::Computation& computation_;
  const std::vector<Array>& parameters_;
  std::vector<Array> known_;
};

/// Runs a kernel on arrays and returns the results' values.
inline std::vector<std::vector<double>> run_kernel(const isa::Kernel& kernel,
                                                   const std::vector<Array>& inputs,
                                                   const std::vector<hlo::Shape>& results,
                                                   DmaTiming timing = DmaTiming::kLate,
                                                   KernelHarness::Result* cost = nullptr) {
  std::uint64_t bytes = 1 << 20;
  for (const Array& input : inputs) bytes += words_of(input).size() * 4 + 2048;
  for (const hlo::Shape& shape : results) bytes += compiler::granules(shape) * 1024 + 2048;
  KernelHarness harness(compiler::Target{}, bytes);
  std::vector<std::uint32_t> operands;
  for (const Array& input : inputs) operands.push_back(harness.place(words_of(input)));
  std::vector<std::uint64_t> words;
  for (const hlo::Shape& shape : results) {
    words.push_back(compiler::granules(shape) * 256);
    operands.push_back(harness.reserve(words.back() * 4));
  }
  const KernelHarness::Result result = harness.run(kernel, operands, timing);
  if (cost != nullptr) *cost = result;
  std::vector<std::vector<double>> values;
  for (std::size_t i = 0; i < results.size(); ++i) {
    const std::uint32_t granule = operands[inputs.size() + i];
    values.push_back(
        values_of(results[i], hlo::unpack(results[i], harness.read(granule, words[i]))));
  }
  return values;
}

/// Greatest error allowed: relative to the value, and absolute.
struct Tolerance {
  double relative = 2e-6;
  double absolute = 1e-6;
};

inline void expect_close(const Array& expected, const std::vector<double>& found,
                         const Tolerance& tolerance, const std::string& what) {
  ASSERT_EQ(expected.values.size(), found.size()) << what;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const double rounding = expected.shape.type == hlo::ElementType::kBf16 ? 1.0 / 256 : 0;
    const double allowed =
        tolerance.absolute + (tolerance.relative + rounding) * std::fabs(expected.values[i]);
    const bool alike =
        expected.values[i] == found[i] || (std::isnan(expected.values[i]) && std::isnan(found[i]));
    if (!alike && !(std::fabs(expected.values[i] - found[i]) <= allowed)) {
      FAIL() << what << ": element " << i << " of " << hlo::to_string(expected.shape)
             << ": expected " << expected.values[i] << ", found " << found[i];
    }
  }
}

}  // namespace tpu::test
