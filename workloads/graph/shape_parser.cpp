#include <algorithm>
#include <cctype>
#include <limits>

#include "workloads/graph/part_error.h"
#include "workloads/graph/shape.h"

namespace tpu::hlo {

namespace {

/// Nesting of tuples beyond which a text is refused rather than followed.
constexpr int kDeepestTuple = 64;
constexpr std::size_t kMostDimensions = 255;

/// Reads a shape in HLO text: arrays, tuples, layouts with tiles and memory space. A layout's other
/// attributes (dimension levels D, element size E, tail padding L, splits SC, index and pointer
/// types, metadata M, physical shape P) do not exist on TPU v2 and v3: they are kept as text.
class ShapeParser {
 public:
  explicit ShapeParser(std::string_view text) : text_(text) {}

  Shape parse() {
    Shape shape = any_shape(0);
    skip_blanks();
    if (position_ != text_.size()) fail("the end of the shape");
    return shape;
  }

  Shape parse_first(std::size_t& length) {
    Shape shape = any_shape(0);
    length = position_;
    return shape;
  }

 private:
  [[noreturn]] void fail(const std::string& expected) const {
    throw PartError("shape", text_, position_, expected);
  }

  void skip_blanks() {
    while (position_ < text_.size()) {
      if (std::isspace(static_cast<unsigned char>(text_[position_])) != 0) {
        ++position_;
      } else if (text_.substr(position_, 2) == "/*") {
        const std::size_t end = text_.find("*/", position_ + 2);
        if (end == std::string_view::npos) fail("the end of the comment, */");
        position_ = end + 2;
      } else {
        return;
      }
    }
  }

  bool peek(char c) {
    skip_blanks();
    return position_ < text_.size() && text_[position_] == c;
  }
  bool take(char c) {
    if (!peek(c)) return false;
    ++position_;
    return true;
  }
  void expect(char c) {
    if (!take(c)) fail(std::string("'") + c + "'");
  }

  std::string_view word() {
    skip_blanks();
    const std::size_t begin = position_;
    while (position_ < text_.size() &&
           std::isalnum(static_cast<unsigned char>(text_[position_])) != 0) {
      ++position_;
    }
    return text_.substr(begin, position_ - begin);
  }

  std::int64_t number(const std::string& expected) {
    skip_blanks();
    if (position_ >= text_.size() ||
        std::isdigit(static_cast<unsigned char>(text_[position_])) == 0) {
      fail(expected);
    }
    const std::size_t begin = position_;
    std::int64_t value = 0;
    for (; position_ < text_.size() &&
           std::isdigit(static_cast<unsigned char>(text_[position_])) != 0;
         ++position_) {
      if (__builtin_mul_overflow(value, std::int64_t{10}, &value) ||
          __builtin_add_overflow(value, std::int64_t{text_[position_] - '0'}, &value)) {
        position_ = begin;
        fail(expected + " below 2^63");
      }
    }
    return value;
  }

  Shape any_shape(int depth) {
    if (!peek('(')) return array();
    if (depth == kDeepestTuple) fail("at most 64 nested tuples");
    expect('(');
    Shape shape;
    shape.type = ElementType::kTuple;
    if (take(')')) return shape;
    do {
      shape.elements.push_back(any_shape(depth + 1));
    } while (take(','));
    expect(')');
    return shape;
  }

  ElementType element_type() {
    skip_blanks();
    const std::size_t begin = position_;
    const std::string_view name = word();
    const ElementType type = hlo::element_type(name);
    if (type != ElementType::kCount && type != ElementType::kTuple) return type;
    position_ = begin;
    fail("an element type (pred, s8, ... u64, f16, bf16, f32, f64, c64, token, opaque)");
  }

  Shape array() {
    Shape shape;
    shape.type = element_type();
    expect('[');
    const std::size_t dimensions_at = position_;
    if (!take(']')) {
      do {
        if (take('<')) {
          if (shape.dimensions.size() >= 32) fail("a bound on one of the first 32 dimensions");
          shape.bounded |= std::uint32_t{1} << shape.dimensions.size();
          expect('=');
        }
        if (shape.dimensions.size() == kMostDimensions) fail("at most 255 dimensions");
        shape.dimensions.push_back(number("a dimension"));
      } while (take(','));
      expect(']');
    }
    check_size(shape, dimensions_at);
    if (position_ < text_.size() && text_[position_] == '{') layout(shape);
    return shape;
  }

  /// Refuses a shape whose bytes do not fit 63 bits, at its own column.
  void check_size(const Shape& shape, std::size_t dimensions_at) {
    std::int64_t bytes = std::max(byte_size(shape.type), 1);
    for (std::int64_t dimension : shape.dimensions) {
      if (__builtin_mul_overflow(bytes, std::max<std::int64_t>(dimension, 1), &bytes)) {
        position_ = dimensions_at;
        fail("dimensions of fewer than 2^63 bytes");
      }
    }
  }

  void layout(Shape& shape) {
    expect('{');
    skip_blanks();
    const std::size_t order_at = position_;
    std::vector<bool> seen(shape.dimensions.size());
    while (!peek('}') && !peek(':')) {
      if (!shape.layout.minor_to_major.empty()) expect(',');
      skip_blanks();
      const std::size_t at = position_;
      const std::int64_t dimension = number("a dimension number");
      if (dimension >= shape.rank() || seen[static_cast<std::size_t>(dimension)]) {
        position_ = at;
        fail("each dimension number below " + std::to_string(shape.rank()) + " once");
      }
      seen[static_cast<std::size_t>(dimension)] = true;
      shape.layout.minor_to_major.push_back(dimension);
    }
    if (static_cast<std::int64_t>(shape.layout.minor_to_major.size()) != shape.rank()) {
      position_ = order_at;
      fail(std::to_string(shape.rank()) + " dimension numbers");
    }
    if (take(':')) {
      while (!peek('}')) layout_attribute(shape);
    }
    expect('}');
  }

  void layout_attribute(Shape& shape) {
    skip_blanks();
    const std::size_t begin = position_;
    if (take('T')) {
      if (!peek('(')) fail("'('");
      while (peek('(')) shape.layout.tiles.push_back(tile());
      return;
    }
    const bool is_space = take('S') && !peek('C');
    if (is_space) {
      expect('(');
      const std::int64_t space = number("a memory space");
      if (space > std::numeric_limits<int>::max()) fail("a memory space below 2^31");
      shape.layout.memory_space = static_cast<int>(space);
      return expect(')');
    }
    if (position_ > begin) expect('C');
    if (position_ == begin && take('D')) return levels(shape, begin);
    if (position_ == begin && !take('L') && !take('E') && !take('M') && !take('P') && !take('#') &&
        !take('*')) {
      fail("T(...) for tiles or S(...) for the memory space");
    }
    skip_parenthesised();
    shape.layout.other.edit() += text_.substr(begin, position_ - begin);
  }

  /// D(D,C): how each dimension is stored: D dense, C compressed, S singleton, H loose; '+' not
  /// unique, '~' not ordered.
  void levels(Shape& shape, std::size_t begin) {
    expect('(');
    do {
      if (!take('D') && !take('C') && !take('S') && !take('H')) fail("D, C, S or H");
      take('+');
      take('~');
    } while (take(','));
    expect(')');
    shape.layout.other.edit() += text_.substr(begin, position_ - begin);
  }

  std::vector<std::int64_t> tile() {
    std::vector<std::int64_t> extents;
    expect('(');
    do {
      skip_blanks();
      const std::size_t at = position_;
      extents.push_back(number("the extent of a tile"));
      if (extents.back() == 0 || extents.back() > kLargestTileExtent) {
        position_ = at;
        fail("a tile extent from 1 to " + std::to_string(kLargestTileExtent));
      }
    } while (take(','));
    expect(')');
    return extents;
  }

  void skip_parenthesised() {
    expect('(');
    int open = 1;
    for (; open > 0; ++position_) {
      if (position_ >= text_.size()) fail("')'");
      if (text_[position_] == '(') ++open;
      if (text_[position_] == ')') --open;
    }
  }

  static constexpr std::int64_t kLargestTileExtent = 1 << 20;

  std::string_view text_;
  std::size_t position_ = 0;
};

}  // namespace

Shape parse_shape(std::string_view text) { return ShapeParser(text).parse(); }

Shape parse_shape(std::string_view text, std::size_t& length) {
  return ShapeParser(text).parse_first(length);
}

}  // namespace tpu::hlo
