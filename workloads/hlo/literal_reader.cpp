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
  explicit LiteralReader(HloCursor& cursor, char opening = '{', char closing = '}')
      : cursor_(cursor), opening_(opening), closing_(closing) {}

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
    if (shape.rank() > 0 && cursor_.peek() != opening_) return fill(count);
    if (count == 0) return empty_array();
    const std::size_t room = cursor_.rest().size() / 2 + 1;
    const auto wanted = static_cast<std::size_t>(count);
    bytes_.reserve(bytes_.size() +
                   std::min(wanted, room) * static_cast<std::size_t>(byte_size(shape.type)));
    array(0);
  }

  bool is_elided() {
    const char* const begin = cursor_.next();
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
    if (cursor_.looking_at(std::string(to_string(shape.type)) + "[")) read_shape(cursor_);
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
      if (cursor_.take(opening_)) {
        ++open;
      } else if (cursor_.take(closing_)) {
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
    cursor_.expect(opening_);
    const std::int64_t count = shape_->dimensions[dimension];
    for (std::int64_t i = 0; i < count; ++i) {
      if (i > 0 && !cursor_.take(',')) {
        cursor_.fail(std::to_string(count) + " elements of " + to_string(*shape_, false) +
                     " in this dimension (there are " + std::to_string(i) + ")");
      }
      array(dimension + 1);
    }
    if (!cursor_.take(closing_)) {
      cursor_.fail("the end of the literal after " + std::to_string(count) +
                   " elements in this dimension");
    }
  }

  void element() {
    if (take_bits(static_cast<std::size_t>(byte_size(shape_->type)))) return;
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

  /// The bits of a number of so many bytes, as MLIR writes infinities and NaN: 0xFF800000.
  bool take_bits(std::size_t size) {
    const char* const place = cursor_.next();
    if (opening_ != '[' || !cursor_.take("0x")) return false;
    std::uint64_t bits = 0;
    const std::errc error = cursor_.take_number(bits, 16);
    if (error != std::errc() || size > sizeof bits || (size < 8 && bits >> (8 * size) != 0)) {
      cursor_.fail_at(place, "the bits of one element of " + to_string(*shape_, false));
    }
    for (std::size_t i = 0; i < size; ++i) append(static_cast<std::uint8_t>(bits >> (8 * i)));
    return true;
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
    const char* const place = cursor_.next();
    Wide value = 0;
    if (cursor_.take_number(value) != std::errc() || value < low || value > high) {
      cursor_.fail_at(place,
                      "a whole number from " + std::to_string(low) + " to " + std::to_string(high));
    }
    return value;
  }

  /// A number of the text; a NaN with a payload of its own leaves it in payload_, else 0.
  double real() {
    payload_ = 0;
    number_at_ = cursor_.next();
    const bool negative = cursor_.take('-');
    if (cursor_.touches('i') || cursor_.touches('n')) {
      if (cursor_.take_word("inf")) return negative ? -INFINITY : INFINITY;
      if (!cursor_.take_word("nan")) cursor_.fail("a number");
      if (cursor_.take('(')) payload();
      return negative ? -NAN : NAN;
    }
    cursor_.move_to(number_at_);
    double value = 0;
    const std::errc error = cursor_.take_number(value);
    if (error == std::errc::result_out_of_range) {
      // Too small is zero (or the smallest number); too large is an error.
      value = std::strtod(std::string(cursor_.since(number_at_)).c_str(), nullptr);
      if (std::isinf(value)) cursor_.fail_at(number_at_, "a number that a double holds");
    } else if (error != std::errc()) {
      cursor_.fail("a number");
    }
    return value;
  }

  void payload() {
    cursor_.expect("0x");
    const char* const place = cursor_.next();
    if (cursor_.take_number(payload_, 16) != std::errc() || payload_ == 0) {
      cursor_.fail_at(place, "the bits of a NaN's fraction");
    }
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
    if (take_bits(sizeof(Float))) return;
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

  HloCursor& cursor_;
  char opening_, closing_;        ///< Brackets of a dimension.
  const Shape* shape_ = nullptr;  ///< Of the array that is read.
  std::vector<std::uint8_t> bytes_;
  bool elided_ = false;
  std::uint64_t payload_ = 0;
  const char* number_at_ = nullptr;
};

/// "0x0000803F...": the bytes of all elements in memory, two digits each.
std::vector<std::uint8_t> bytes_of_string(HloCursor& cursor, const Shape& shape) {
  const std::string_view text = cursor.quoted("the bytes of all elements");
  const auto count = static_cast<std::size_t>(shape.element_count());
  const std::size_t size = count * static_cast<std::size_t>(byte_size(shape.type));
  if (text.substr(0, 2) != "0x" || text.size() != 2 + 2 * size) {
    cursor.fail_in(text, "0x and the " + std::to_string(size) + " bytes of " +
                             to_string(shape, false) + " as " + std::to_string(2 * size) +
                             " digits");
  }
  std::vector<std::uint8_t> bytes(size);
  for (std::size_t i = 0; i < size; ++i) {
    const char* at = text.data() + 2 + 2 * i;
    const auto result = std::from_chars(at, at + 2, bytes[i], 16);
    if (result.ptr != at + 2) cursor.fail_in(text.substr(2 + 2 * i), "two hexadecimal digits");
  }
  return bytes;
}

}  // namespace

std::vector<std::uint8_t> read_dense(HloCursor& cursor, const Shape& shape) {
  if (cursor.peek() == '>' && shape.element_count() == 0) return {};
  if (cursor.peek() == '"') {
    if (shape.element_count() > kLargestFill) cursor.fail("at most 2^28 elements");
    return bytes_of_string(cursor, shape);
  }
  return LiteralReader(cursor, '[', ']').read(shape);
}

std::vector<std::uint8_t> read_literal(HloCursor& cursor, const Shape& shape) {
  return LiteralReader(cursor).read(shape);
}

}  // namespace tpu::hlo
