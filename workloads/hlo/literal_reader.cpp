#include "workloads/hlo/literal_reader.h"

#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>

namespace tpu::hlo {

namespace {

std::uint16_t to_bf16(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  if (std::isnan(value)) return static_cast<std::uint16_t>((bits >> 16) | 0x40);
  return static_cast<std::uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

std::uint16_t to_f16(double value) {
  const std::uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const double magnitude = std::fabs(value);
  if (std::isnan(value)) return sign | 0x7e00;
  if (magnitude >= 65520) return sign | 0x7c00;
  if (magnitude < std::ldexp(1.0, -14)) {
    return static_cast<std::uint16_t>(
        sign | static_cast<std::uint16_t>(std::nearbyint(std::ldexp(magnitude, 24))));
  }
  int exponent = std::ilogb(magnitude);
  double significand = std::nearbyint(std::ldexp(magnitude, 10 - exponent));
  if (significand >= 2048) {
    significand /= 2;
    ++exponent;
  }
  return static_cast<std::uint16_t>(sign | ((exponent + 15) << 10) |
                                    (static_cast<int>(significand) & 0x3ff));
}

/// Takes the numbers of a literal one by one and lays them out as the type says.
class LiteralReader {
 public:
  LiteralReader(TextCursor& cursor, const Shape& shape) : cursor_(cursor), shape_(shape) {}

  std::vector<std::uint8_t> read() {
    const std::int64_t count = shape_.element_count();
    if (is_elided()) return {};
    const std::size_t begin = cursor_.position();
    while (cursor_.peek() != ')') {
      if (cursor_.take('{') || cursor_.take('}') || cursor_.take(',')) continue;
      if (read_count_ == count) {
        cursor_.fail("the end of the literal after " + std::to_string(count) + " elements");
      }
      element();
      ++read_count_;
    }
    if (read_count_ != count) {
      cursor_.fail_at(begin, std::to_string(count) + " elements of " + to_string(shape_, false) +
                                 " (there are " + std::to_string(read_count_) + ")");
    }
    return std::move(bytes_);
  }

 private:
  bool is_elided() {
    const std::size_t begin = cursor_.position();
    if (cursor_.take('{') && cursor_.text().compare(cursor_.position(), 3, "...") == 0) {
      cursor_.move_to(cursor_.position() + 3);
      cursor_.expect('}');
      return true;
    }
    cursor_.move_to(begin);
    return false;
  }

  void element() {
    if (shape_.type == ElementType::kPred) {
      if (cursor_.take_word("true")) return append<std::uint8_t>(1);
      if (cursor_.take_word("false")) return append<std::uint8_t>(0);
      return append<std::uint8_t>(integer() != 0 ? 1 : 0);
    }
    switch (shape_.type) {
      case ElementType::kF32:
        return append(static_cast<float>(real()));
      case ElementType::kF64:
        return append(real());
      case ElementType::kBf16:
        return append(to_bf16(static_cast<float>(real())));
      case ElementType::kF16:
        return append(to_f16(real()));
      default:
        break;
    }
    switch (byte_size(shape_.type)) {
      case 1:
        return append(static_cast<std::uint8_t>(integer()));
      case 2:
        return append(static_cast<std::uint16_t>(integer()));
      case 4:
        return append(static_cast<std::uint32_t>(integer()));
      case 8:
        return append(static_cast<std::uint64_t>(integer()));
      default:
        cursor_.fail("a constant of an array type that TPU programs use");
    }
  }

  double real() {
    const bool negative = cursor_.peek() == '-';
    const std::size_t begin = cursor_.position();
    if (negative) cursor_.take('-');
    if (cursor_.take_word("inf")) return negative ? -INFINITY : INFINITY;
    if (cursor_.take_word("nan")) {
      if (cursor_.peek() == '(') {  // a payload that no TPU program depends on
        cursor_.take('(');
        cursor_.balanced("the payload of nan");
        cursor_.expect(')');
      }
      return negative ? -NAN : NAN;
    }
    cursor_.move_to(begin);
    cursor_.peek();
    double value = 0;
    const char* from = cursor_.text().data() + cursor_.position();
    const auto result = std::from_chars(from, cursor_.text().data() + cursor_.text().size(), value);
    if (result.ec != std::errc() && result.ec != std::errc::result_out_of_range) {
      cursor_.fail("a number");
    }
    cursor_.move_to(cursor_.position() + static_cast<std::size_t>(result.ptr - from));
    return value;
  }

  std::int64_t integer() {
    if (cursor_.take_word("true")) return 1;
    if (cursor_.take_word("false")) return 0;
    if (cursor_.peek() != '-') {
      std::uint64_t value = 0;
      const char* from = cursor_.text().data() + cursor_.position();
      const auto result =
          std::from_chars(from, cursor_.text().data() + cursor_.text().size(), value);
      if (result.ec != std::errc()) cursor_.fail("an integer");
      cursor_.move_to(cursor_.position() + static_cast<std::size_t>(result.ptr - from));
      return static_cast<std::int64_t>(value);
    }
    return cursor_.integer("an element");
  }

  template <class Type>
  void append(Type value) {
    const auto* raw = reinterpret_cast<const std::uint8_t*>(&value);
    bytes_.insert(bytes_.end(), raw, raw + sizeof value);
  }

  TextCursor& cursor_;
  const Shape& shape_;
  std::vector<std::uint8_t> bytes_;
  std::int64_t read_count_ = 0;
};

}  // namespace

std::vector<std::uint8_t> read_literal(TextCursor& cursor, const Shape& shape) {
  return LiteralReader(cursor, shape).read();
}

}  // namespace tpu::hlo
