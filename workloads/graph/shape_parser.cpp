#include <algorithm>
#include <limits>

#include "sim/base/token_cursor.h"
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
  explicit ShapeParser(TokenCursor& cursor) : cursor_(cursor) {}

  Shape any_shape(int depth = 0) {
    if (cursor_.peek() != '(') return array();
    if (depth == kDeepestTuple) cursor_.fail("at most 64 nested tuples");
    cursor_.expect('(');
    Shape shape;
    shape.type = ElementType::kTuple;
    if (cursor_.take(')')) return shape;
    do {
      shape.elements.push_back(any_shape(depth + 1));
    } while (cursor_.take(','));
    cursor_.expect(')');
    return shape;
  }

 private:
  ElementType element_type() {
    const std::string_view name = cursor_.take_while(is_letter_or_digit);
    const ElementType type = hlo::element_type(name);
    if (type != ElementType::kCount && type != ElementType::kTuple) return type;
    cursor_.fail_at(name.data(),
                    "an element type (pred, s8, ... u64, f16, bf16, f32, f64, c64, token, opaque)");
  }

  Shape array() {
    Shape shape;
    shape.type = element_type();
    cursor_.expect('[');
    const char* const dimensions_at = cursor_.at();
    if (!cursor_.take(']')) {
      do {
        if (cursor_.take('<')) {
          if (shape.dimensions.size() >= 32)
            cursor_.fail("a bound on one of the first 32 dimensions");
          shape.bounded |= std::uint32_t{1} << shape.dimensions.size();
          cursor_.expect('=');
        }
        if (shape.dimensions.size() == kMostDimensions) cursor_.fail("at most 255 dimensions");
        shape.dimensions.push_back(cursor_.whole_number("a dimension"));
      } while (cursor_.take(','));
      cursor_.expect(']');
    }
    check_size(shape, dimensions_at);
    if (cursor_.touches('{')) layout(shape);
    return shape;
  }

  /// Refuses a shape whose bytes do not fit 63 bits, at its own column.
  void check_size(const Shape& shape, const char* dimensions_at) {
    std::int64_t bytes = std::max(byte_size(shape.type), 1);
    for (std::int64_t dimension : shape.dimensions) {
      if (__builtin_mul_overflow(bytes, std::max<std::int64_t>(dimension, 1), &bytes)) {
        cursor_.fail_at(dimensions_at, "dimensions of fewer than 2^63 bytes");
      }
    }
  }

  void layout(Shape& shape) {
    cursor_.expect('{');
    const char* const order_at = cursor_.next();
    std::vector<bool> seen(shape.dimensions.size());
    while (cursor_.peek() != '}' && cursor_.peek() != ':') {
      if (!shape.layout.minor_to_major.empty()) cursor_.expect(',');
      const char* const at = cursor_.next();
      const std::int64_t dimension = cursor_.whole_number("a dimension number");
      if (dimension >= shape.rank() || seen[static_cast<std::size_t>(dimension)]) {
        cursor_.fail_at(at,
                        "each dimension number below " + std::to_string(shape.rank()) + " once");
      }
      seen[static_cast<std::size_t>(dimension)] = true;
      shape.layout.minor_to_major.push_back(dimension);
    }
    if (static_cast<std::int64_t>(shape.layout.minor_to_major.size()) != shape.rank()) {
      cursor_.fail_at(order_at, std::to_string(shape.rank()) + " dimension numbers");
    }
    if (cursor_.take(':')) {
      while (cursor_.peek() != '}') layout_attribute(shape);
    }
    cursor_.expect('}');
  }

  void layout_attribute(Shape& shape) {
    const char* const begin = cursor_.next();
    if (cursor_.take('T')) {
      do shape.layout.tiles.push_back(tile());
      while (cursor_.peek() == '(');
      return;
    }
    const bool is_space = cursor_.take('S') && cursor_.peek() != 'C';
    if (is_space) {
      cursor_.expect('(');
      constexpr int kLast = std::numeric_limits<int>::max();
      shape.layout.memory_space = static_cast<int>(cursor_.whole_number("a memory space", kLast));
      return cursor_.expect(')');
    }
    if (cursor_.at() != begin) cursor_.expect('C');
    if (cursor_.at() == begin && cursor_.take('D')) return levels(shape, begin);
    if (cursor_.at() == begin && !cursor_.take('L') && !cursor_.take('E') && !cursor_.take('M') &&
        !cursor_.take('P') && !cursor_.take('#') && !cursor_.take('*')) {
      cursor_.fail("T(...) for tiles or S(...) for the memory space");
    }
    skip_parenthesised();
    shape.layout.other.edit() += cursor_.since(begin);
  }

  /// D(D,C): how each dimension is stored: D dense, C compressed, S singleton, H loose; '+' not
  /// unique, '~' not ordered.
  void levels(Shape& shape, const char* begin) {
    cursor_.expect('(');
    do {
      if (!cursor_.take('D') && !cursor_.take('C') && !cursor_.take('S') && !cursor_.take('H'))
        cursor_.fail("D, C, S or H");
      cursor_.take('+');
      cursor_.take('~');
    } while (cursor_.take(','));
    cursor_.expect(')');
    shape.layout.other.edit() += cursor_.since(begin);
  }

  std::vector<std::int64_t> tile() {
    std::vector<std::int64_t> extents;
    cursor_.expect('(');
    do {
      const char* const at = cursor_.next();
      extents.push_back(cursor_.whole_number("the extent of a tile"));
      if (extents.back() == 0 || extents.back() > kLargestTileExtent) {
        cursor_.fail_at(at, "a tile extent from 1 to " + std::to_string(kLargestTileExtent));
      }
    } while (cursor_.take(','));
    cursor_.expect(')');
    return extents;
  }

  void skip_parenthesised() {
    cursor_.expect('(');
    for (int open = 1; open > 0;) {
      cursor_.take_while([](char c) { return c != '(' && c != ')'; });
      if (cursor_.take('(')) {
        ++open;
      } else {
        cursor_.expect(')');
        --open;
      }
    }
  }

  static constexpr std::int64_t kLargestTileExtent = 1 << 20;

  TokenCursor& cursor_;
};

}  // namespace

Shape read_shape(TokenCursor& cursor) { return ShapeParser(cursor).any_shape(); }

Shape parse_shape(std::string_view text) {
  TokenCursor cursor(text, "shape", TokenCursor::Places::kPartOfIt);
  Shape shape = read_shape(cursor);
  if (!cursor.at_end()) cursor.fail("the end of the shape");
  return shape;
}

}  // namespace tpu::hlo
