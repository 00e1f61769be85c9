#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "sim/base/error.h"
#include "workloads/graph/graph.h"

namespace tpu::hlo::inference_detail {

/// Largest size, stride, dilation or padding of a window: keeps sums and products within 63 bits.
inline constexpr std::int64_t kLargestWindowNumber = std::int64_t{1} << 31;

using Dimensions = std::vector<std::int64_t>;

inline std::string join(const Dimensions& values) {
  std::string text;
  for (std::int64_t value : values) text += (text.empty() ? "" : ",") + std::to_string(value);
  return "{" + text + "}";
}

[[noreturn]] inline void fail(const std::string& message) { throw WorkloadError(message); }

inline bool floating(ElementType type) {
  return type == ElementType::kF16 || type == ElementType::kBf16 || type == ElementType::kF32 ||
         type == ElementType::kF64;
}

/// Equal, or both floating: XLA's programs for TPU mix bf16 and f32 operands.
inline bool compatible(ElementType a, ElementType b) {
  return a == b || (floating(a) && floating(b));
}

inline bool integral(ElementType type) {
  return type >= ElementType::kS8 && type <= ElementType::kU64;
}

/// The shape inference of one instruction; one method per kind of operation. window_inference.cpp
/// has those with windows, contractions and indices, shape_inference.cpp the others.
class Inference {
 public:
  Inference(const Module& module, const Computation& computation, const HloInstruction& instruction)
      : module_(module), computation_(computation), instruction_(instruction) {}

  std::optional<Shape> infer();

 private:
  const Shape& operand(std::size_t i) const {
    return computation_.at(instruction_.operands[i]).shape;
  }
  std::size_t operand_count() const { return instruction_.operands.size(); }
  Shape result(Dimensions dimensions) const {
    return array_shape(operand(0).type, std::move(dimensions));
  }

  void need_operands(std::size_t count) const {
    if (operand_count() != count) {
      fail("expected " + std::to_string(count) + " operands, found " +
           std::to_string(operand_count()));
    }
    for (std::size_t i = 0; i < count; ++i) need_array(i);
  }
  void need_array(std::size_t i) const {
    const ElementType type = operand(i).type;
    if (type == ElementType::kTuple || type == ElementType::kToken) {
      fail("expected an array as operand " + std::to_string(i) + ", found " +
           to_string(operand(i)));
    }
  }
  void need_called(std::size_t count) const {
    if (instruction_.called.size() != count) {
      fail("expected " + std::to_string(count) + " called computations, found " +
           std::to_string(instruction_.called.size()));
    }
  }
  void need_dimension(std::int64_t dimension, std::int64_t rank, const char* what) const {
    if (dimension < 0 || dimension >= rank) {
      fail(std::string("expected ") + what + " below the rank " + std::to_string(rank) +
           ", found " + std::to_string(dimension));
    }
  }
  /// Checks that the dimensions are below `rank` and differ.
  void need_distinct(const Dimensions& dimensions, std::int64_t rank, const char* what) const {
    std::vector<bool> seen(static_cast<std::size_t>(rank), false);
    for (std::int64_t d : dimensions) {
      need_dimension(d, rank, what);
      if (seen[static_cast<std::size_t>(d)]) {
        fail(std::string("expected ") + what + " that differ, found " + join(dimensions));
      }
      seen[static_cast<std::size_t>(d)] = true;
    }
  }
  void need_count(std::size_t found, std::int64_t expected, const char* what) const {
    if (static_cast<std::int64_t>(found) != expected) {
      fail("expected " + std::to_string(expected) + " " + what + ", found " +
           std::to_string(found));
    }
  }
  /// The result of the called computation.
  const Shape& called_result(std::size_t i) const {
    const Computation& called = module_.computation(instruction_.called[i]);
    return called.at(called.root).shape;
  }
  /// One shape alone, several as a tuple.
  static Shape one_or_tuple(std::vector<Shape> shapes) {
    if (shapes.size() == 1) return shapes.front();
    Shape tuple;
    tuple.type = ElementType::kTuple;
    tuple.elements = std::move(shapes);
    return tuple;
  }

  Shape elementwise() const;
  Shape compare() const;
  Shape select() const;
  Shape clamp() const;
  Shape broadcast() const;
  Shape reshape() const;
  Shape transpose() const;
  Shape slice() const;
  Shape concatenate() const;
  Shape pad() const;
  Shape reverse() const;
  Shape reduce() const;
  Shape reduce_window() const;
  Shape select_and_scatter() const;
  Shape dot() const;
  Shape ragged_dot() const;
  void need_numbers() const;
  Shape convolution() const;
  Shape gather() const;
  Shape scatter() const;
  Shape dynamic_slice() const;
  Shape dynamic_update_slice() const;
  Shape tuple() const;
  Shape get_tuple_element() const;
  Shape call() const;
  Shape while_loop() const;
  Shape conditional() const;
  Shape map() const;
  Shape sort() const;
  Shape all_reduce() const;
  Shape same_as_operands() const;
  Shape windowed(const Shape& base) const;
  void check_window(std::int64_t dimensions) const;
  void check_reducer(std::size_t arrays) const;
  void check_scalar_computation(std::size_t called, const std::vector<ElementType>& parameters,
                                const std::vector<ElementType>& results) const;
  void check_integers(std::size_t first) const;
  void check_one_parameter(std::size_t called, std::size_t from) const;

  const Module& module_;
  const Computation& computation_;
  const HloInstruction& instruction_;
};

}  // namespace tpu::hlo::inference_detail
