#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include "workloads/graph/graph.h"

namespace tpu::reference {

/// A value of the interpreter: row-major elements, or the parts of a tuple. Floating types are held
/// as floats that the element type can represent, integers and pred as 64-bit integers within the
/// type's range (u64: the same bits).
struct Value {
  hlo::Shape shape;
  std::vector<float> numbers;
  std::vector<std::int64_t> integers;
  std::vector<Value> elements;

  std::size_t size() const { return numbers.size() + integers.size(); }
};

/// True for types that are held as floats. f64 and types without elements are refused by
/// check_type().
bool is_floating(hlo::ElementType type);
/// Throws WorkloadError for a type that the interpreter does not hold.
void check_type(const hlo::Shape& shape);

/// An array of zeros or an empty tuple.
Value make_value(const hlo::Shape& shape);
/// From row-major bytes, as in memory; tuples have no bytes of their own.
Value from_bytes(const hlo::Shape& shape, const std::vector<std::uint8_t>& bytes);
std::vector<std::uint8_t> to_bytes(const Value& value);

/// The nearest number of a floating type, ties to even.
float round_to_f16(float value);
inline float round_to_bf16(float value) {
  if (value != value) return value;
  std::uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  const std::uint32_t below = bits & 0xffff;
  bits &= 0xffff0000;
  const bool odd = (bits & 0x10000) != 0;
  if (below > 0x8000 || (below == 0x8000 && odd)) bits += 0x10000;
  std::memcpy(&value, &bits, sizeof bits);
  return value;
}
inline float round_to(hlo::ElementType type, double value) {
  const float number = static_cast<float>(value);
  if (type == hlo::ElementType::kF32) return number;
  return type == hlo::ElementType::kBf16 ? round_to_bf16(number) : round_to_f16(number);
}
/// The low bits of an integer, as the type reads them.
std::int64_t wrap_to(hlo::ElementType type, std::int64_t value);

/// Elements between neighbours along each dimension of a row-major array.
std::vector<std::int64_t> strides_of(const std::vector<std::int64_t>& dimensions);

/// Steps through the indices of an array in row-major order.
class Index {
 public:
  explicit Index(const std::vector<std::int64_t>& limits) : limits_(limits), at_(limits.size()) {}
  const std::vector<std::int64_t>& at() const { return at_; }
  /// Offset of the index in an array of the given strides.
  std::int64_t offset(const std::vector<std::int64_t>& strides) const {
    std::int64_t sum = 0;
    for (std::size_t d = 0; d < at_.size(); ++d) sum += at_[d] * strides[d];
    return sum;
  }
  void next() {
    for (std::size_t d = at_.size(); d-- > 0;) {
      if (++at_[d] < limits_[d]) return;
      at_[d] = 0;
    }
  }

 private:
  std::vector<std::int64_t> limits_, at_;
};

}  // namespace tpu::reference
