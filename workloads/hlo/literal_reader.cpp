#include "workloads/hlo/literal_reader.h"

#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "workloads/graph/small_floats.h"

namespace tpu::hlo {

namespace {

/// The most bytes that one number may stand for.
constexpr std::int64_t kLargestFill = std::int64_t{1} << 28;

/// Takes the numbers of a literal one by one and lays them out as the type says.
class LiteralReader {
 public:
  explicit LiteralReader(TextCursor& cursor) : cursor_(cursor) {}

  std::vector<std::uint8_t> read(const Shape& shape) {
    value(shape);
    if (elided_) bytes_ = {};
    return std::move(bytes_);
  }

 private:
  void value(const Shape& shape) {
    if (is_elided()) return;
    if (shape.is_tuple()) return tuple(shape);
    skip_shape(shape);
    shape_ = &shape;
    const std::int64_t count = shape.element_count();
    if (shape.rank() > 0 && cursor_.peek() != '{') return fill(count);
    if (count == 0) return empty_array();
    const std::size_t room = cursor_.rest().size() / 2 + 1;
    const auto wanted = static_cast<std::size_t>(count);
    bytes_.reserve(bytes_.size() +
                   std::min(wanted, room) * static_cast<std::size_t>(byte_size(shape.type)));
    array(0);
  }

  bool is_elided() {
    const std::size_t begin = cursor_.position();
    if (cursor_.take('{') && cursor_.rest().substr(0, 3) == "...") {
      cursor_.expect("...");
      cursor_.expect('}');
      return elided_ = true;
    }
    cursor_.move_to(begin);
    return false;
  }

  /// Old texts have the shape once more in front of the value.
  void skip_shape(const Shape& shape) {
    const std::string_view type = to_string(shape.type);
    const std::string_view rest = cursor_.rest();
    if (rest.size() <= type.size() || rest.substr(0, type.size()) != type ||
        rest[type.size()] != '[') {
      return;
    }
    std::size_t length = 0;
    parse_shape(rest, length);
    cursor_.move_to(cursor_.position() + length);
  }

  void tuple(const Shape& shape) {
    cursor_.expect('(');
    for (std::size_t i = 0; i < shape.elements.size(); ++i) {
      if (i > 0) cursor_.expect(',');
      value(shape.elements[i]);
    }
    cursor_.expect(')');
  }

  void empty_array() {
    int open = 0;
    do {
      if (cursor_.take('{')) {
        ++open;
      } else if (cursor_.take('}')) {
        --open;
      } else if (!cursor_.take(',')) {
        cursor_.fail("no element of " + to_string(*shape_, false));
      }
    } while (open > 0);
  }

  /// One number for all elements.
  void fill(std::int64_t count) {
    const std::size_t at = bytes_.size();
    element();
    const std::size_t size = bytes_.size() - at;
    if (count * static_cast<std::int64_t>(size) > kLargestFill) {
      cursor_.fail("at most 2^28 bytes from one number, " + to_string(*shape_, false) +
                   " has more; write it as a broadcast");
    }
    bytes_.resize(at + static_cast<std::size_t>(count) * size);
    for (std::size_t i = at + size; i < bytes_.size(); ++i) bytes_[i] = bytes_[i - size];
  }

  void array(std::size_t dimension) {
    if (dimension == shape_->dimensions.size()) return element();
    cursor_.expect('{');
    const std::int64_t count = shape_->dimensions[dimension];
    for (std::int64_t i = 0; i < count; ++i) {
      if (i > 0 && !cursor_.take(',')) {
        cursor_.fail(std::to_string(count) + " elements of " + to_string(*shape_, false) +
                     " in this dimension (there are " + std::to_string(i) + ")");
      }
      array(dimension + 1);
    }
    if (!cursor_.take('}')) {
      cursor_.fail("the end of the literal after " + std::to_string(count) +
                   " elements in this dimension");
    }
  }

  void element() {
    switch (shape_->type) {
      case ElementType::kPred:
        return append<std::uint8_t>(integer<std::int64_t>(0, 1) != 0 ? 1 : 0);
      case ElementType::kS1:
        return append(static_cast<std::int8_t>(integer<std::int64_t>(-1, 0)));
      case ElementType::kS2:
        return append(static_cast<std::int8_t>(integer<std::int64_t>(-2, 1)));
      case ElementType::kS4:
        return append(static_cast<std::int8_t>(integer<std::int64_t>(-8, 7)));
      case ElementType::kU1:
        return append(static_cast<std::uint8_t>(integer<std::int64_t>(0, 1)));
      case ElementType::kU2:
        return append(static_cast<std::uint8_t>(integer<std::int64_t>(0, 3)));
      case ElementType::kU4:
        return append(static_cast<std::uint8_t>(integer<std::int64_t>(0, 15)));
      case ElementType::kS8:
        return whole<std::int8_t>();
      case ElementType::kS16:
        return whole<std::int16_t>();
      case ElementType::kS32:
        return whole<std::int32_t>();
      case ElementType::kS64:
        return whole<std::int64_t>();
      case ElementType::kU8:
        return whole<std::uint8_t>();
      case ElementType::kU16:
        return whole<std::uint16_t>();
      case ElementType::kU32:
        return whole<std::uint32_t>();
      case ElementType::kU64:
        return whole<std::uint64_t>();
      case ElementType::kF32:
        return floating<float, std::uint32_t>(23);
      case ElementType::kF64:
        return floating<double, std::uint64_t>(52);
      case ElementType::kC64:
        return complex<float, std::uint32_t>(23);
      case ElementType::kC128:
        return complex<double, std::uint64_t>(52);
      default:
        return small_float();
    }
  }

  template <class Integer>
  void whole() {
    using Wide = std::conditional_t<std::is_signed_v<Integer>, std::int64_t, std::uint64_t>;
    append(static_cast<Integer>(
        integer<Wide>(std::numeric_limits<Integer>::min(), std::numeric_limits<Integer>::max())));
  }

  template <class Wide>
  Wide integer(Wide low, Wide high) {
    if (cursor_.take_word("true")) return 1;
    if (cursor_.take_word("false")) return 0;
    const std::string_view rest = cursor_.rest();
    Wide value = 0;
    const auto result = std::from_chars(rest.data(), rest.data() + rest.size(), value);
    if (result.ec != std::errc() || value < low || value > high) {
      cursor_.fail("a whole number from " + std::to_string(low) + " to " + std::to_string(high));
    }
    cursor_.move_to(cursor_.position() + static_cast<std::size_t>(result.ptr - rest.data()));
    return value;
  }

  /// A number of the text; a NaN with a payload of its own leaves it in payload_, else 0.
  double real() {
    payload_ = 0;
    std::string_view rest = cursor_.rest();
    const bool negative = !rest.empty() && rest[0] == '-';
    if (negative) rest.remove_prefix(1);
    if (!rest.empty() && (rest[0] == 'i' || rest[0] == 'n')) {
      if (negative) cursor_.move_to(cursor_.position() + 1);
      if (cursor_.take_word("inf")) return negative ? -INFINITY : INFINITY;
      if (!cursor_.take_word("nan")) cursor_.fail("a number");
      if (cursor_.take('(')) payload();
      return negative ? -NAN : NAN;
    }
    rest = cursor_.rest();
    double value = 0;
    const auto result = std::from_chars(rest.data(), rest.data() + rest.size(), value);
    if (result.ec == std::errc::result_out_of_range) {
      // Too small is zero (or the smallest number); too large is an error.
      value = std::strtod(std::string(rest.data(), result.ptr).c_str(), nullptr);
      if (std::isinf(value)) cursor_.fail("a number that a double holds");
    } else if (result.ec != std::errc()) {
      cursor_.fail("a number");
    }
    number_at_ = cursor_.position();
    cursor_.move_to(cursor_.position() + static_cast<std::size_t>(result.ptr - rest.data()));
    return value;
  }

  void payload() {
    cursor_.expect("0x");
    const std::string_view rest = cursor_.rest();
    const auto result = std::from_chars(rest.data(), rest.data() + rest.size(), payload_, 16);
    if (result.ec != std::errc() || payload_ == 0) cursor_.fail("the bits of a NaN's fraction");
    cursor_.move_to(cursor_.position() + static_cast<std::size_t>(result.ptr - rest.data()));
    cursor_.expect(')');
  }

  /// Puts the payload of a NaN in the place of its fraction.
  template <class Bits>
  void set_payload(Bits& bits, int fraction_bits) {
    if (payload_ == 0) return;
    const Bits mask = static_cast<Bits>((Bits{1} << fraction_bits) - 1);
    if (payload_ > mask)
      cursor_.fail("a NaN whose fraction has " + std::to_string(fraction_bits) + " bits");
    bits = static_cast<Bits>((bits & ~mask) | payload_);
  }

  [[noreturn]] void fail_range() {
    cursor_.fail_at(number_at_,
                    "a number within the range of " + std::string(to_string(shape_->type)));
  }

  template <class Float, class Bits>
  void floating(int fraction_bits) {
    const double number = real();
    const Float value = static_cast<Float>(number);
    if (std::isinf(value) && !std::isinf(number)) fail_range();
    Bits bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    set_payload(bits, fraction_bits);
    append(bits);
  }

  template <class Float, class Bits>
  void complex(int fraction_bits) {
    const bool pair = cursor_.take('(');
    floating<Float, Bits>(fraction_bits);
    if (!pair) return append(Float{0});
    cursor_.expect(',');
    floating<Float, Bits>(fraction_bits);
    cursor_.expect(')');
  }

  void small_float() {
    const std::optional<FloatFormat> format = float_format(shape_->type);
    if (!format) {
      cursor_.fail("no value of " + to_string(*shape_, false) + ", which is no array");
    }
    double number = real();
    // XLA rounds to f32 first.
    if (shape_->type == ElementType::kBf16) number = static_cast<float>(number);
    const std::optional<std::uint32_t> bits = bits_of_float(*format, number);
    if (!bits) fail_range();
    if (byte_size(shape_->type) == 1) return append(static_cast<std::uint8_t>(*bits));
    auto half = static_cast<std::uint16_t>(*bits);
    set_payload(half, format->fraction_bits);
    append(half);
  }

  template <class Type>
  void append(Type value) {
    const auto* raw = reinterpret_cast<const std::uint8_t*>(&value);
    bytes_.insert(bytes_.end(), raw, raw + sizeof value);
  }

  TextCursor& cursor_;
  const Shape* shape_ = nullptr;  ///< Of the array that is read.
  std::vector<std::uint8_t> bytes_;
  bool elided_ = false;
  std::uint64_t payload_ = 0;
  std::size_t number_at_ = 0;
};

}  // namespace

std::vector<std::uint8_t> read_literal(TextCursor& cursor, const Shape& shape) {
  return LiteralReader(cursor).read(shape);
}

}  // namespace tpu::hlo
