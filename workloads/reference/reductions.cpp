#include <algorithm>
#include <numeric>

#include "sim/base/error.h"
#include "workloads/reference/operations.h"

namespace tpu::reference {

using hlo::HloInstruction;
using hlo::HloOpcode;
using Extents = std::vector<std::int64_t>;

namespace {

/// One result alone, several as a tuple.
Value one_or_tuple(const hlo::Shape& shape, std::vector<Value> values) {
  if (!shape.is_tuple()) return std::move(values.front());
  Value tuple = make_value(shape);
  tuple.elements = std::move(values);
  return tuple;
}

const hlo::Shape& shape_of_result(const HloInstruction& instruction, std::size_t i) {
  return instruction.shape.is_tuple() ? instruction.shape.elements[i] : instruction.shape;
}

/// Strides of a reduction's result along the dimensions of its operand; 0 for those that vanish.
Extents result_steps(const HloInstruction& instruction, const Extents& operand) {
  Extents kept;
  std::vector<std::size_t> places;
  for (std::size_t d = 0; d < operand.size(); ++d) {
    const Extents& gone = instruction.dimensions;
    if (std::find(gone.begin(), gone.end(), static_cast<std::int64_t>(d)) != gone.end()) continue;
    kept.push_back(operand[d]);
    places.push_back(d);
  }
  const Extents strides = strides_of(kept);
  Extents steps(operand.size(), 0);
  for (std::size_t i = 0; i < places.size(); ++i) steps[places[i]] = strides[i];
  return steps;
}

/// A sum in double, rounded once at the end.
Value sum_numbers(const HloInstruction& instruction, const Value& x, const Value& initial) {
  Value result = make_value(instruction.shape);
  std::vector<double> sums(result.size(), static_cast<double>(initial.numbers.at(0)));
  const Extents& limits = x.shape.dimensions;
  const Extents steps = result_steps(instruction, limits);
  Index index(Extents(limits.begin(), limits.end() - 1));
  const Extents outer(steps.begin(), steps.end() - 1);
  const std::int64_t row = limits.back();
  for (std::size_t from = 0; from < x.size(); index.next()) {
    std::int64_t to = index.offset(outer);
    for (std::int64_t i = 0; i < row; ++i, to += steps.back()) {
      sums[static_cast<std::size_t>(to)] += static_cast<double>(x.numbers[from++]);
    }
  }
  for (std::size_t i = 0; i < sums.size(); ++i) {
    result.numbers[i] = round_to(result.shape.type, sums[i]);
  }
  return result;
}

}  // namespace

Value reduce(const hlo::Module& module, const HloInstruction& instruction,
             const Operands& operands) {
  ScalarComputation computation(module, instruction.called[0]);
  const std::size_t arrays = operands.size() / 2;
  const Value& x = *operands[0];
  if (arrays == 1 && computation.single_operation() == HloOpcode::kAdd &&
      is_floating(x.shape.type) && x.shape.rank() > 0) {
    return sum_numbers(instruction, x, *operands[1]);
  }
  std::vector<Value> results;
  for (std::size_t a = 0; a < arrays; ++a) {
    results.push_back(make_value(shape_of_result(instruction, a)));
    for (std::size_t i = 0; i < results[a].size(); ++i) {
      set_element(results[a], i, element(*operands[arrays + a], 0));
    }
  }
  const Extents steps = result_steps(instruction, x.shape.dimensions);
  const NumberFunction2 fast = arrays == 1 && is_floating(x.shape.type)
                                   ? number_function2(computation.single_operation())
                                   : nullptr;
  Index index(x.shape.dimensions);
  std::vector<Scalar> parameters(2 * arrays);
  for (std::size_t i = 0; i < x.size(); ++i, index.next()) {
    const std::size_t to = static_cast<std::size_t>(index.offset(steps));
    if (fast != nullptr) {
      results[0].numbers[to] = round_to(x.shape.type, fast(results[0].numbers[to], x.numbers[i]));
      continue;
    }
    for (std::size_t a = 0; a < arrays; ++a) {
      parameters[a] = element(results[a], to);
      parameters[arrays + a] = element(*operands[a], i);
    }
    const std::vector<Scalar>& combined = computation.run(parameters);
    for (std::size_t a = 0; a < arrays; ++a) set_element(results[a], to, combined[a]);
  }
  return one_or_tuple(instruction.shape, std::move(results));
}

namespace {

/// The elements of an array under a window at one of its positions; padding and dilation gaps are
/// left out.
class WindowView {
 public:
  WindowView(const std::vector<hlo::WindowDimension>& window, const Extents& array)
      : window_(window), array_(array), strides_(strides_of(array)), inside_(window.size()) {}

  /// Calls visit(offset in the array) in row-major order of the window.
  template <class Visitor>
  void at(const Extents& position, Visitor&& visit) {
    for (std::size_t d = 0; d < window_.size(); ++d) find_inside(d, position[d]);
    along(0, 0, visit);
  }

 private:
  /// The offsets of those places along a dimension that are in the array.
  void find_inside(std::size_t d, std::int64_t position) {
    const hlo::WindowDimension& w = window_[d];
    inside_[d].clear();
    for (std::int64_t i = 0; i < w.size; ++i) {
      const std::int64_t place = position * w.stride + i * w.window_dilation - w.padding_low;
      if (place < 0 || place % w.base_dilation != 0 || place / w.base_dilation >= array_[d])
        continue;
      inside_[d].push_back(place / w.base_dilation * strides_[d]);
    }
  }
  template <class Visitor>
  void along(std::size_t d, std::int64_t offset, Visitor&& visit) const {
    if (d == window_.size()) return visit(static_cast<std::size_t>(offset));
    for (const std::int64_t step : inside_[d]) along(d + 1, offset + step, visit);
  }

  const std::vector<hlo::WindowDimension>& window_;
  const Extents& array_;
  Extents strides_;
  std::vector<Extents> inside_;
};

}  // namespace

Value reduce_window(const hlo::Module& module, const HloInstruction& instruction,
                    const Operands& operands) {
  ScalarComputation computation(module, instruction.called[0]);
  const std::size_t arrays = operands.size() / 2;
  const Value& x = *operands[0];
  WindowView window(instruction.window, x.shape.dimensions);
  std::vector<Value> results;
  for (std::size_t a = 0; a < arrays; ++a) {
    results.push_back(make_value(shape_of_result(instruction, a)));
  }
  const bool sum =
      arrays == 1 && is_floating(x.shape.type) && computation.single_operation() == HloOpcode::kAdd;
  const bool largest = arrays == 1 && is_floating(x.shape.type) &&
                       computation.single_operation() == HloOpcode::kMaximum;
  const NumberFunction2 larger = number_function2(HloOpcode::kMaximum);
  Index index(results[0].shape.dimensions);
  std::vector<Scalar> parameters(2 * arrays);
  for (std::size_t i = 0; i < results[0].size(); ++i, index.next()) {
    for (std::size_t a = 0; a < arrays; ++a) parameters[a] = element(*operands[arrays + a], 0);
    window.at(index.at(), [&](std::size_t from) {
      if (sum) {
        parameters[0].number += static_cast<double>(x.numbers[from]);
      } else if (largest) {
        parameters[0].number = larger(parameters[0].number, x.numbers[from]);
      } else {
        for (std::size_t a = 0; a < arrays; ++a) {
          parameters[arrays + a] = element(*operands[a], from);
        }
        const std::vector<Scalar>& combined = computation.run(parameters);
        std::copy(combined.begin(), combined.end(), parameters.begin());
      }
    });
    for (std::size_t a = 0; a < arrays; ++a) set_element(results[a], i, parameters[a]);
  }
  return one_or_tuple(instruction.shape, std::move(results));
}

Value select_and_scatter(const hlo::Module& module, const HloInstruction& instruction,
                         const Operands& operands) {
  ScalarComputation select(module, instruction.called[0]);
  ScalarComputation combine(module, instruction.called[1]);
  const Value& x = *operands[0];
  const Value& source = *operands[1];
  Value result = make_value(instruction.shape);
  for (std::size_t i = 0; i < result.size(); ++i) set_element(result, i, element(*operands[2], 0));
  WindowView window(instruction.window, x.shape.dimensions);
  // Of bf16 contributions that meet, the sum is rounded once: kept in f32 until the end.
  const hlo::Shape rounded = result.shape;
  if (is_floating(rounded.type)) result.shape.type = hlo::ElementType::kF32;
  Index index(source.shape.dimensions);
  for (std::size_t i = 0; i < source.size(); ++i, index.next()) {
    bool found = false;
    std::size_t chosen = 0;
    window.at(index.at(), [&](std::size_t from) {
      if (!found || select.run(element(x, chosen), element(x, from)).integer == 0) chosen = from;
      found = true;
    });
    if (!found) continue;
    set_element(result, chosen, combine.run(element(result, chosen), element(source, i)));
  }
  result.shape = rounded;
  for (float& number : result.numbers) number = round_to(rounded.type, number);
  return result;
}

Value map(const hlo::Module& module, const HloInstruction& instruction, const Operands& operands) {
  ScalarComputation computation(module, instruction.called[0]);
  Value result = make_value(instruction.shape);
  std::vector<Scalar> parameters(operands.size());
  for (std::size_t i = 0; i < result.size(); ++i) {
    for (std::size_t a = 0; a < operands.size(); ++a) parameters[a] = element(*operands[a], i);
    set_element(result, i, computation.run(parameters).front());
  }
  return result;
}

Value sort(const hlo::Module& module, const HloInstruction& instruction, const Operands& operands) {
  ScalarComputation before(module, instruction.called[0]);
  const Extents& limits = operands[0]->shape.dimensions;
  const std::size_t along = static_cast<std::size_t>(instruction.dimensions.at(0));
  const std::size_t length = static_cast<std::size_t>(limits[along]);
  const std::size_t step = static_cast<std::size_t>(strides_of(limits)[along]);
  std::vector<Value> results;  // Of the first elements alone, where those are wanted.
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const bool is_tuple = instruction.shape.is_tuple();
    results.push_back(make_value(is_tuple ? instruction.shape.elements[i] : instruction.shape));
  }
  const Extents& kept = results[0].shape.dimensions;
  std::vector<Scalar> parameters(2 * operands.size());
  std::vector<std::size_t> order(length);
  Extents lines = limits;
  lines[along] = 1;
  Index index(lines);
  const Extents strides = strides_of(limits), strides_kept = strides_of(kept);
  const std::size_t count = length == 0 ? 0 : operands[0]->size() / length;
  for (std::size_t line = 0; line < count; ++line, index.next()) {
    const std::size_t first = static_cast<std::size_t>(index.offset(strides));
    const std::size_t place = static_cast<std::size_t>(index.offset(strides_kept));
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      for (std::size_t i = 0; i < operands.size(); ++i) {
        parameters[2 * i] = element(*operands[i], first + a * step);
        parameters[2 * i + 1] = element(*operands[i], first + b * step);
      }
      return before.run(parameters).front().integer != 0;
    });
    for (std::size_t i = 0; i < operands.size(); ++i) {
      for (std::size_t k = 0; k < static_cast<std::size_t>(kept[along]); ++k) {
        const std::size_t step_kept = static_cast<std::size_t>(strides_kept[along]);
        set_element(results[i], place + k * step_kept,
                    element(*operands[i], first + order[k] * step));
      }
    }
  }
  return one_or_tuple(instruction.shape, std::move(results));
}

Value topk(const HloInstruction& instruction, const Value& operand) {
  const std::size_t length = static_cast<std::size_t>(operand.shape.dimensions.back());
  const std::size_t count =
      static_cast<std::size_t>(instruction.shape.elements[0].dimensions.back());
  const bool largest = instruction.raw_attributes->find("largest=false") == std::string::npos;
  Value values = make_value(instruction.shape.elements[0]),
        places = make_value(instruction.shape.elements[1]);
  const bool is_number = is_floating(operand.shape.type);
  std::vector<std::size_t> order(length);
  for (std::size_t line = 0; line * length < operand.size(); ++line) {
    const auto less = [&](std::size_t a, std::size_t b) {
      const Scalar x = element(operand, line * length + a), y = element(operand, line * length + b);
      return is_number ? x.number < y.number : x.integer < y.integer;
    };
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return largest ? less(b, a) : less(a, b);
    });
    for (std::size_t k = 0; k < count; ++k) {
      set_element(values, line * count + k, element(operand, line * length + order[k]));
      Scalar place;
      place.integer = static_cast<std::int64_t>(order[k]);
      set_element(places, line * count + k, place);
    }
  }
  return one_or_tuple(instruction.shape, {std::move(values), std::move(places)});
}

}  // namespace tpu::reference
