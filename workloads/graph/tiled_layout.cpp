#include "workloads/graph/tiled_layout.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "sim/base/ceil_divide.h"
#include "sim/base/error.h"

namespace tpu::hlo {

namespace {

/// One physical dimension: a chain of "divide, then take the remainder" of an array dimension.
struct Axis {
  struct Step {
    std::int64_t divisor = 1;
    std::int64_t modulus = 0;  ///< 0: none.
  };
  std::int64_t dimension = -1;  ///< -1: a dimension of extent 1 that a tile has added.
  std::int64_t extent = 1;
  std::vector<Step> steps;

  /// True for the outermost part, whose value is x divided by `divisor()`.
  bool outermost() const {
    return std::all_of(steps.begin(), steps.end(), [](const Step& s) { return s.modulus == 0; });
  }
  std::int64_t divisor() const {
    std::int64_t product = 1;
    for (const Step& step : steps) product *= step.divisor;
    return product;
  }
  std::int64_t value(std::int64_t x) const {
    for (const Step& step : steps) {
      x /= step.divisor;
      if (step.modulus != 0) x %= step.modulus;
    }
    return x;
  }
};

std::vector<Axis> untiled_axes(const Shape& shape) {
  std::vector<Axis> axes;
  for (std::int64_t i = 0; i < shape.rank(); ++i) {
    Axis axis;
    axis.dimension =
        shape.layout.minor_to_major.empty()
            ? i
            : shape.layout.minor_to_major[static_cast<std::size_t>(shape.rank() - 1 - i)];
    axis.extent = shape.dimensions[static_cast<std::size_t>(axis.dimension)];
    axes.push_back(axis);
  }
  return axes;
}

std::vector<Axis> apply_tile(std::vector<Axis> axes, const std::vector<std::int64_t>& tile) {
  while (axes.size() < tile.size()) axes.insert(axes.begin(), Axis());
  const std::size_t lead = axes.size() - tile.size();
  std::vector<Axis> result(axes.begin(), axes.begin() + static_cast<std::ptrdiff_t>(lead));
  for (std::size_t i = 0; i < tile.size(); ++i) {
    Axis outer = axes[lead + i];
    outer.extent = ceil_divide(outer.extent, tile[i]);
    outer.steps.push_back({tile[i], 0});
    result.push_back(outer);
  }
  for (std::size_t i = 0; i < tile.size(); ++i) {
    Axis inner = axes[lead + i];
    inner.extent = tile[i];
    inner.steps.push_back({1, tile[i]});
    result.push_back(inner);
  }
  return result;
}

}  // namespace

TiledLayout::TiledLayout(const Shape& shape) {
  TPU_CHECK(!shape.is_tuple(), "a tuple has no layout of its own: " << to_string(shape));
  const std::size_t rank = shape.dimensions.size();
  TPU_CHECK(shape.layout.minor_to_major.empty() || shape.layout.minor_to_major.size() == rank,
            to_string(shape));
  std::vector<Axis> axes = untiled_axes(shape);
  if (!axes.empty()) minor_dimension_ = axes.back().dimension;
  for (const std::vector<std::int64_t>& tile : shape.layout.tiles) {
    axes = apply_tile(std::move(axes), tile);
  }
  std::vector<std::int64_t> strides(axes.size());
  for (std::size_t i = axes.size(); i-- > 0;) {
    strides[i] = padded_elements_;
    if (__builtin_mul_overflow(padded_elements_, axes[i].extent, &padded_elements_)) {
      throw WorkloadError("shape " + to_string(shape) +
                          ": expected fewer than 2^63 bytes with padding; make its dimensions "
                          "smaller");
    }
  }
  terms_.resize(rank);
  for (const Axis& axis : axes) {
    if (axis.dimension < 0 || !axis.outermost()) continue;
    Term& term = terms_[static_cast<std::size_t>(axis.dimension)];
    term.period = axis.divisor();
    term.stride = strides[static_cast<std::size_t>(&axis - axes.data())];
  }
  for (std::size_t d = 0; d < rank; ++d) {
    Term& term = terms_[d];
    term.within.assign(static_cast<std::size_t>(term.period), 0);
    for (std::size_t i = 0; i < axes.size(); ++i) {
      if (axes[i].dimension != static_cast<std::int64_t>(d) || axes[i].outermost()) continue;
      for (std::int64_t x = 0; x < term.period; ++x) {
        term.within[static_cast<std::size_t>(x)] += axes[i].value(x) * strides[i];
      }
    }
  }
}

namespace {

constexpr std::int64_t kGranuleBytes = 1024;
/// Side of the square blocks in which a transposing copy walks both sides.
constexpr std::int64_t kCopyBlock = 64;

/// Copies the elements of one array between its row-major and its tiled form.
template <class Element, bool kPack>
class TiledCopy {
 public:
  TiledCopy(const Shape& shape, const TiledLayout& layout, const std::uint8_t* from,
            std::uint8_t* to)
      : layout_(layout), dimensions_(shape.dimensions), from_(from), to_(to) {
    strides_.assign(dimensions_.size(), 1);
    for (std::size_t i = dimensions_.size(); i-- > 1;) {
      strides_[i - 1] = strides_[i] * dimensions_[i];
    }
  }

  void run() {
    if (dimensions_.empty()) return move(0, 0);
    for (std::int64_t dimension : dimensions_) {
      if (dimension == 0) return;
    }
    walk(0, 0, 0);
  }

 private:
  void move(std::int64_t plain, std::int64_t tiled) {
    constexpr std::int64_t kSize = sizeof(Element);
    if constexpr (kPack) {
      std::memcpy(to_ + tiled * kSize, from_ + plain * kSize, kSize);
    } else {
      std::memcpy(to_ + plain * kSize, from_ + tiled * kSize, kSize);
    }
  }

  void walk(std::size_t d, std::int64_t plain, std::int64_t tiled) {
    const std::size_t last = dimensions_.size() - 1;
    const std::size_t minor = static_cast<std::size_t>(layout_.minor_dimension());
    if (d == minor && d != last) return walk(d + 1, plain, tiled);
    if (d == last) {
      return minor == last ? row(plain, tiled, 0, dimensions_[last]) : plane(plain, tiled);
    }
    const TiledLayout::Term& term = layout_.terms()[d];
    for (std::int64_t x = 0; x < dimensions_[d]; ++x) {
      walk(d + 1, plain + x * strides_[d], tiled + term.offset(x));
    }
  }

  /// Elements [begin, end) of the last dimension.
  void row(std::int64_t plain, std::int64_t tiled, std::int64_t begin, std::int64_t end) {
    const TiledLayout::Term& term = layout_.terms().back();
    const std::int64_t* within = term.within.data();
    for (std::int64_t x = begin; x < end;) {
      const std::int64_t start = x % term.period;
      const std::int64_t count = std::min(term.period - start, end - x);
      const std::int64_t base = tiled + x / term.period * term.stride;
      for (std::int64_t i = 0; i < count; ++i) move(plain + x + i, base + within[start + i]);
      x += count;
    }
  }

  /// The last dimension and the minor one, block by block.
  void plane(std::int64_t plain, std::int64_t tiled) {
    const std::size_t minor = static_cast<std::size_t>(layout_.minor_dimension());
    const TiledLayout::Term& term = layout_.terms()[minor];
    for (std::int64_t y0 = 0; y0 < dimensions_[minor]; y0 += kCopyBlock) {
      const std::int64_t y1 = std::min(y0 + kCopyBlock, dimensions_[minor]);
      for (std::int64_t x0 = 0; x0 < dimensions_.back(); x0 += kCopyBlock) {
        const std::int64_t x1 = std::min(x0 + kCopyBlock, dimensions_.back());
        for (std::int64_t y = y0; y < y1; ++y) {
          row(plain + y * strides_[minor], tiled + term.offset(y), x0, x1);
        }
      }
    }
  }

  const TiledLayout& layout_;
  const std::vector<std::int64_t>& dimensions_;
  std::vector<std::int64_t> strides_;
  const std::uint8_t* from_;
  std::uint8_t* to_;
};

template <bool kPack>
void copy_elements(const Shape& shape, const TiledLayout& layout, const std::uint8_t* from,
                   std::uint8_t* to) {
  const auto run = [&](auto element) {
    TiledCopy<decltype(element), kPack>(shape, layout, from, to).run();
  };
  switch (byte_size(shape.type)) {
    case 1:
      return run(std::uint8_t{});
    case 2:
      return run(std::uint16_t{});
    case 4:
      return run(std::uint32_t{});
    default:
      throw WorkloadError("shape " + to_string(shape) +
                          ": expected an array of elements of 1, 2, 4 or 8 bytes");
  }
}

std::size_t words_of(const Shape& shape, const TiledLayout& layout) {
  const std::int64_t bytes = layout.padded_elements() * byte_size(shape.type);
  return static_cast<std::size_t>(round_up(bytes, kGranuleBytes) / 4);
}

/// Elements of 64 bits lie as two arrays of 32-bit words of this shape, the low ones before the
/// high ones: the kernels of XLA's X64SplitLow and X64SplitHigh read them so.
Shape half_shape(const Shape& shape) {
  Shape half = shape;
  half.type = ElementType::kU32;
  return half;
}

/// The chip has no doubles: XLA computes with the sum of two floats. The double rounded lies where
/// integers have their low words, what is left where they have the high ones (found with values:
/// products of the other order are wrong).
std::vector<std::uint8_t> floats_of_doubles(const std::vector<std::uint8_t>& doubles) {
  std::vector<std::uint8_t> pairs(doubles.size());
  for (std::size_t at = 0; at < doubles.size(); at += 8) {
    double value = 0;
    std::memcpy(&value, doubles.data() + at, 8);
    const auto rounded = static_cast<float>(value);
    const float rest = std::isfinite(rounded) ? static_cast<float>(value - rounded) : 0.0F;
    std::memcpy(pairs.data() + at, &rounded, 4);
    std::memcpy(pairs.data() + at + 4, &rest, 4);
  }
  return pairs;
}

std::vector<std::uint8_t> doubles_of_floats(std::vector<std::uint8_t> pairs) {
  for (std::size_t at = 0; at < pairs.size(); at += 8) {
    float rounded = 0;
    float rest = 0;
    std::memcpy(&rounded, pairs.data() + at, 4);
    std::memcpy(&rest, pairs.data() + at + 4, 4);
    const double value = std::isfinite(rounded) ? static_cast<double>(rounded) + rest : rounded;
    std::memcpy(pairs.data() + at, &value, 8);
  }
  return pairs;
}

/// Copies every second word, from the first (the low ones) or the second.
std::vector<std::uint8_t> half_of(const std::vector<std::uint8_t>& elements, std::size_t half) {
  std::vector<std::uint8_t> words(elements.size() / 2);
  for (std::size_t i = 0; i * 4 < words.size(); ++i) {
    std::memcpy(words.data() + i * 4, elements.data() + i * 8 + half * 4, 4);
  }
  return words;
}

}  // namespace

std::vector<std::uint32_t> pack(const Shape& shape, const std::vector<std::uint8_t>& row_major) {
  TPU_CHECK(static_cast<std::int64_t>(row_major.size()) == shape.unpadded_bytes(),
            to_string(shape) << " from " << row_major.size() << " bytes");
  if (byte_size(shape.type) == 8) {
    const std::vector<std::uint8_t> pairs =
        shape.type == ElementType::kF64 ? floats_of_doubles(row_major) : row_major;
    std::vector<std::uint32_t> words = pack(half_shape(shape), half_of(pairs, 0));
    const std::vector<std::uint32_t> high = pack(half_shape(shape), half_of(pairs, 1));
    words.insert(words.end(), high.begin(), high.end());
    return words;
  }
  const TiledLayout layout(shape);
  std::vector<std::uint32_t> words(words_of(shape, layout));
  copy_elements<true>(shape, layout, row_major.data(),
                      reinterpret_cast<std::uint8_t*>(words.data()));
  return words;
}

std::vector<std::uint8_t> unpack(const Shape& shape, const std::vector<std::uint32_t>& words) {
  TPU_CHECK(words.size() * 4 >= static_cast<std::size_t>(shape.padded_bytes()),
            to_string(shape) << " from " << words.size() << " words");
  std::vector<std::uint8_t> row_major(static_cast<std::size_t>(shape.unpadded_bytes()));
  if (byte_size(shape.type) == 8) {
    const Shape half = half_shape(shape);
    const auto middle = words.begin() + static_cast<std::ptrdiff_t>(words.size() / 2);
    const std::vector<std::uint8_t> halves[] = {unpack(half, {words.begin(), middle}),
                                                unpack(half, {middle, words.end()})};
    for (std::size_t at = 0; at < row_major.size(); at += 4) {
      std::memcpy(row_major.data() + at, halves[at / 4 % 2].data() + at / 8 * 4, 4);
    }
    return shape.type == ElementType::kF64 ? doubles_of_floats(std::move(row_major)) : row_major;
  }
  const TiledLayout layout(shape);
  copy_elements<false>(shape, layout, reinterpret_cast<const std::uint8_t*>(words.data()),
                       row_major.data());
  return row_major;
}

}  // namespace tpu::hlo
