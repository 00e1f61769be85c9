#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "workloads/graph/boxed.h"

namespace tpu {
class TokenCursor;
}  // namespace tpu

namespace tpu::hlo {

/// Element types of HLO.
enum class ElementType : std::uint8_t {
  kPred,
  kS8,
  kS16,
  kS32,
  kS64,
  kU8,
  kU16,
  kU32,
  kU64,
  kF16,
  kBf16,
  kF32,
  kF64,
  kTuple,
  kToken,
  kOpaque,
  // Types that TPU v2 and v3 do not compute with; programs of other chips and old frontends have
  // them.
  kC64,
  kC128,
  kS1,
  kS2,
  kS4,
  kU1,
  kU2,
  kU4,
  kF4E2M1Fn,
  kF8E3M4,
  kF8E4M3,
  kF8E4M3Fn,
  kF8E4M3B11Fnuz,
  kF8E4M3Fnuz,
  kF8E5M2,
  kF8E5M2Fnuz,
  kF8E8M0Fnu,
  kCount
};

/// "f32", "bf16", ...
std::string_view to_string(ElementType type);
/// The type of that name; kCount when there is none.
ElementType element_type(std::string_view text);
/// Bytes of one element in memory; 0 for tuples and tokens.
int byte_size(ElementType type);

/// How an array lies in memory: the dimensions from minor to major, then tiles that cover the minor
/// ones in turn, as XLA prints them: {1,0:T(8,128)(2,1)}.
struct Layout {
  std::vector<std::int64_t> minor_to_major;
  std::vector<std::vector<std::int64_t>> tiles;
  int memory_space = 0;
  Boxed<std::string> other;  ///< Attributes of other chips, as text: element size, splits, ...
  friend bool operator==(const Layout& a, const Layout& b) {
    return a.minor_to_major == b.minor_to_major && a.tiles == b.tiles &&
           a.memory_space == b.memory_space && a.other.get() == b.other.get();
  }
};

/// Type and extent of a value; a tuple has elements and no dimensions. The layout is empty until it
/// is assigned.
struct Shape {
  ElementType type = ElementType::kF32;
  /// Bit d: dimension d is at most as long as `dimensions` says ("f32[<=8]").
  std::uint32_t bounded = 0;
  std::vector<std::int64_t> dimensions;
  Layout layout;
  std::vector<Shape> elements;

  bool is_tuple() const { return type == ElementType::kTuple; }
  std::int64_t rank() const { return static_cast<std::int64_t>(dimensions.size()); }
  /// Product of the dimensions: elements of an array.
  std::int64_t element_count() const;
  /// Bytes without padding; tuples: sum of their elements.
  std::int64_t unpadded_bytes() const;
  /// Bytes with the padding of the layout's tiles; tuples: sum of their elements.
  std::int64_t padded_bytes() const;
};

/// Same type and dimensions; layouts are not compared.
bool same_extent(const Shape& a, const Shape& b);
/// HLO text: "f32[512,512]{1,0:T(8,128)}", without the braces when `with_layout` is false or none
/// is set.
std::string to_string(const Shape& shape, bool with_layout = true);
/// Reads one shape in HLO text (array or tuple, with or without layout, which stands directly
/// behind the dimensions).
Shape read_shape(TokenCursor& cursor);
/// Of a text that is nothing else.
Shape parse_shape(std::string_view text);

Shape array_shape(ElementType type, std::vector<std::int64_t> dimensions);

/// Packs row-major elements (4, 2 or 1 bytes each as the type says) into the 32-bit words of the
/// shape's tiled layout; the size is padded_bytes() rounded up to whole granules of 1 KiB. Padding
/// is zero.
std::vector<std::uint32_t> pack(const Shape& shape, const std::vector<std::uint8_t>& row_major);
/// The inverse of pack().
std::vector<std::uint8_t> unpack(const Shape& shape, const std::vector<std::uint32_t>& words);

}  // namespace tpu::hlo
