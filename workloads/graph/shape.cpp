#include "workloads/graph/shape.h"

#include <iterator>
#include <optional>

#include "sim/base/ceil_divide.h"
#include "sim/base/error.h"
#include "workloads/graph/tiled_layout.h"

namespace tpu::hlo {

namespace {

struct TypeRow {
  ElementType type;
  std::string_view text;
  int bytes;
};

constexpr TypeRow kTypes[] = {
    {ElementType::kPred, "pred", 1},
    {ElementType::kS8, "s8", 1},
    {ElementType::kS16, "s16", 2},
    {ElementType::kS32, "s32", 4},
    {ElementType::kS64, "s64", 8},
    {ElementType::kU8, "u8", 1},
    {ElementType::kU16, "u16", 2},
    {ElementType::kU32, "u32", 4},
    {ElementType::kU64, "u64", 8},
    {ElementType::kF16, "f16", 2},
    {ElementType::kBf16, "bf16", 2},
    {ElementType::kF32, "f32", 4},
    {ElementType::kF64, "f64", 8},
    {ElementType::kTuple, "tuple", 0},
    {ElementType::kToken, "token", 0},
    {ElementType::kOpaque, "opaque", 0},
    {ElementType::kC64, "c64", 8},
    {ElementType::kC128, "c128", 16},
    {ElementType::kS1, "s1", 1},
    {ElementType::kS2, "s2", 1},
    {ElementType::kS4, "s4", 1},
    {ElementType::kU1, "u1", 1},
    {ElementType::kU2, "u2", 1},
    {ElementType::kU4, "u4", 1},
    {ElementType::kF4E2M1Fn, "f4e2m1fn", 1},
    {ElementType::kF8E3M4, "f8e3m4", 1},
    {ElementType::kF8E4M3, "f8e4m3", 1},
    {ElementType::kF8E4M3Fn, "f8e4m3fn", 1},
    {ElementType::kF8E4M3B11Fnuz, "f8e4m3b11fnuz", 1},
    {ElementType::kF8E4M3Fnuz, "f8e4m3fnuz", 1},
    {ElementType::kF8E5M2, "f8e5m2", 1},
    {ElementType::kF8E5M2Fnuz, "f8e5m2fnuz", 1},
    {ElementType::kF8E8M0Fnu, "f8e8m0fnu", 1},
};
static_assert(std::size(kTypes) == static_cast<std::size_t>(ElementType::kCount));

const TypeRow& row_of(ElementType type) { return kTypes[static_cast<std::size_t>(type)]; }

std::int64_t multiply(std::int64_t a, std::int64_t b, const Shape& shape) {
  std::int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) {
    throw WorkloadError("shape " + to_string(shape, false) +
                        ": expected fewer than 2^63 bytes; make its dimensions smaller");
  }
  return product;
}

std::string join(const std::vector<std::int64_t>& values) {
  std::string text;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i > 0) text += ',';
    text += std::to_string(values[i]);
  }
  return text;
}

std::string layout_text(const Layout& layout) {
  std::string text = "{" + join(layout.minor_to_major);
  if (!layout.tiles.empty() || layout.memory_space != 0 || layout.other.is_set()) text += ':';
  if (!layout.tiles.empty()) {
    text += 'T';
    for (const std::vector<std::int64_t>& tile : layout.tiles) text += "(" + join(tile) + ")";
  }
  text += layout.other.get();
  if (layout.memory_space != 0) text += "S(" + std::to_string(layout.memory_space) + ")";
  return text + "}";
}

/// Elements with the padding of one tile over the minor dimensions, or of one whose rows are packed
/// in pairs, which pads no more: what nearly all arrays have. TiledLayout counts the same of any
/// tiles, slowly; none: it has to.
std::optional<std::int64_t> elements_of_one_tile(const Shape& shape) {
  using Tile = std::vector<std::int64_t>;
  const std::vector<Tile>& tiles = shape.layout.tiles;
  const Tile& tile = tiles[0];
  const bool has_pairs =
      tiles.size() == 2 && tiles[1] == Tile{2, 1} && tile.size() == 2 && tile[0] % 2 == 0;
  const std::vector<std::int64_t>& order = shape.layout.minor_to_major;
  if ((tiles.size() != 1 && !has_pairs) || order.size() < tile.size() ||
      order.size() != shape.dimensions.size()) {
    return {};
  }
  std::int64_t product = 1;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const auto dimension = static_cast<std::size_t>(order[i]);
    if (dimension >= order.size()) return {};
    const std::int64_t extent = shape.dimensions[dimension];
    const std::int64_t unit = i < tile.size() ? tile[tile.size() - 1 - i] : 1;
    constexpr std::int64_t kMost = std::int64_t{1} << 62;
    if (extent <= 0 || extent > kMost || unit <= 0 || unit > kMost) return {};
    if (__builtin_mul_overflow(product, round_up(extent, unit), &product)) return {};
  }
  return product;
}

}  // namespace

std::string_view to_string(ElementType type) { return row_of(type).text; }

ElementType element_type(std::string_view text) {
  for (const TypeRow& row : kTypes) {
    if (row.text == text) return row.type;
  }
  return ElementType::kCount;
}

int byte_size(ElementType type) { return row_of(type).bytes; }

std::int64_t Shape::element_count() const {
  for (std::int64_t dimension : dimensions) {
    if (dimension == 0) return 0;
  }
  std::int64_t count = 1;
  for (std::int64_t dimension : dimensions) count = multiply(count, dimension, *this);
  return count;
}

std::int64_t Shape::unpadded_bytes() const {
  if (!is_tuple()) return multiply(element_count(), byte_size(type), *this);
  std::int64_t sum = 0;
  for (const Shape& element : elements) sum += element.unpadded_bytes();
  return sum;
}

std::int64_t Shape::padded_bytes() const {
  if (is_tuple()) {
    std::int64_t sum = 0;
    for (const Shape& element : elements) sum += element.padded_bytes();
    return sum;
  }
  if (layout.tiles.empty()) return unpadded_bytes();
  const std::optional<std::int64_t> counted = elements_of_one_tile(*this);
  const std::int64_t elements = counted ? *counted : TiledLayout(*this).padded_elements();
  return multiply(elements, byte_size(type), *this);
}

bool same_extent(const Shape& a, const Shape& b) {
  if (a.type != b.type || a.dimensions != b.dimensions || a.elements.size() != b.elements.size()) {
    return false;
  }
  for (std::size_t i = 0; i < a.elements.size(); ++i) {
    if (!same_extent(a.elements[i], b.elements[i])) return false;
  }
  return true;
}

std::string to_string(const Shape& shape, bool with_layout) {
  if (shape.is_tuple()) {
    std::string text = "(";
    for (std::size_t i = 0; i < shape.elements.size(); ++i) {
      if (i > 0) text += ", ";
      if (i > 0 && i % 5 == 0) text += "/*index=" + std::to_string(i) + "*/";
      text += to_string(shape.elements[i], with_layout);
    }
    return text + ")";
  }
  std::string text = std::string(to_string(shape.type)) + "[";
  for (std::size_t i = 0; i < shape.dimensions.size(); ++i) {
    if (i > 0) text += ',';
    if (i < 32 && (shape.bounded >> i & 1) != 0) text += "<=";
    text += std::to_string(shape.dimensions[i]);
  }
  text += ']';
  const bool has_layout = !shape.layout.minor_to_major.empty() || !shape.layout.tiles.empty() ||
                          shape.layout.memory_space != 0 || shape.layout.other.is_set();
  if (with_layout && has_layout) text += layout_text(shape.layout);
  return text;
}

Shape array_shape(ElementType type, std::vector<std::int64_t> dimensions) {
  Shape shape;
  shape.type = type;
  shape.dimensions = std::move(dimensions);
  return shape;
}

}  // namespace tpu::hlo
