#include <algorithm>
#include <cstring>
#include <optional>
#include <string_view>

#include "sim/base/token_cursor.h"
#include "traces/npz.h"

namespace tpu::traces {
namespace {

constexpr std::string_view kNpyMagic = "\x93NUMPY";
constexpr std::size_t kMaximumRank = 32;
constexpr std::int64_t kLargestDimension = std::int64_t{1} << 56;

struct TypeName {
  std::string_view descr;  ///< Without the byte-order character.
  hlo::ElementType type;
};
constexpr TypeName kTypes[] = {
    {"b1", hlo::ElementType::kPred}, {"i1", hlo::ElementType::kS8},  {"i2", hlo::ElementType::kS16},
    {"i4", hlo::ElementType::kS32},  {"i8", hlo::ElementType::kS64}, {"u1", hlo::ElementType::kU8},
    {"u2", hlo::ElementType::kU16},  {"u4", hlo::ElementType::kU32}, {"u8", hlo::ElementType::kU64},
    {"f2", hlo::ElementType::kF16},  {"f4", hlo::ElementType::kF32}, {"f8", hlo::ElementType::kF64},
    {"V2", hlo::ElementType::kBf16}, {"c8", hlo::ElementType::kC64},
};

/// Reads the header of a .npy image: a Python dictionary literal with exactly the keys descr,
/// fortran_order and shape.
class HeaderParser {
 public:
  HeaderParser(std::string_view text, const std::string& where)
      : text_(text),
        where_(where),
        name_(where + ": .npy header"),
        cursor_(text, name_, TokenCursor::Places::kPartOfIt, TokenCursor::Comments::kNone) {}

  struct Header {
    std::string descr;
    bool fortran_order = false;
    std::vector<std::int64_t> shape;
  };

  Header parse() {
    cursor_.list('{', '}', [this] {
      const std::string_view key = cursor_.quoted("a key");
      cursor_.expect(':');
      value_of(key);
    });
    if (!cursor_.at_end()) cursor_.fail("the end of the header");
    if (!descr_ || !fortran_order_ || !shape_) {
      throw WorkloadError(where_ +
                          ": expected the keys descr, fortran_order and shape in the "
                          ".npy header, found " +
                          std::string(text_));
    }
    return {*descr_, *fortran_order_, *shape_};
  }

 private:
  void value_of(std::string_view key) {
    if (key == "descr") {
      if (cursor_.peek() == '[') {
        throw WorkloadError(where_ + ": expected an array of numbers, found a structured array");
      }
      descr_ = cursor_.quoted("a type");
    } else if (key == "fortran_order") {
      fortran_order_ = cursor_.take("True");
      if (!*fortran_order_ && !cursor_.take("False")) cursor_.fail("True or False");
    } else if (key == "shape") {
      shape_.emplace();
      cursor_.list('(', ')', [this] {
        if (shape_->size() == kMaximumRank) cursor_.fail("at most 32 dimensions");
        shape_->push_back(cursor_.whole_number("a dimension", kLargestDimension));
      });
    } else {
      cursor_.fail_at(key.data(), "one of the keys descr, fortran_order, shape");
    }
  }

  std::string_view text_;
  const std::string& where_;
  std::string name_;
  TokenCursor cursor_;
  std::optional<std::string> descr_;
  std::optional<bool> fortran_order_;
  std::optional<std::vector<std::int64_t>> shape_;
};

hlo::ElementType element_type(const std::string& descr, const std::string& where) {
  const std::string_view text = descr;
  if (text.size() == 3 && text[0] == '>') {
    throw WorkloadError(where + ": expected little-endian elements, found '" + descr +
                        "'; convert the array with .astype(x.dtype.newbyteorder('<'))");
  }
  if (text.size() == 3) {
    for (const TypeName& entry : kTypes) {
      if (entry.descr == text.substr(1)) return entry.type;
    }
  }
  throw WorkloadError(
      where + ": expected elements of type bool, (u)int8 to 64, float16, 32, 64, complex64 " +
      "or bfloat16, found '" + descr + "'");
}

std::size_t header_length(const std::vector<std::uint8_t>& image, std::size_t* begin,
                          const std::string& where) {
  if (image.size() < 10 || std::memcmp(image.data(), kNpyMagic.data(), kNpyMagic.size()) != 0) {
    throw WorkloadError(where + ": expected a .npy array, found other bytes");
  }
  const int major = image[6];
  if (major < 1 || major > 3) {
    throw WorkloadError(where + ": expected .npy version 1, 2 or 3, found " +
                        std::to_string(major));
  }
  std::size_t length = image[8] | std::size_t{image[9]} << 8;
  *begin = 10;
  if (major >= 2) {
    if (image.size() < 12) throw WorkloadError(where + ": the .npy header is cut");
    length |= std::size_t{image[10]} << 16 | std::size_t{image[11]} << 24;
    *begin = 12;
  }
  if (length > image.size() - *begin) throw WorkloadError(where + ": the .npy header is cut");
  return length;
}

std::vector<std::uint8_t> row_major(const std::vector<std::uint8_t>& columns,
                                    const std::vector<std::int64_t>& dimensions, std::size_t size) {
  std::vector<std::uint8_t> result(columns.size());
  std::vector<std::size_t> index(dimensions.size(), 0);
  for (std::size_t to = 0; to < result.size(); to += size) {
    std::size_t from = 0;
    for (std::size_t d = dimensions.size(); d-- > 0;) {
      from = from * static_cast<std::size_t>(dimensions[d]) + index[d];
    }
    std::memcpy(result.data() + to, columns.data() + from * size, size);
    for (std::size_t d = dimensions.size(); d-- > 0;) {
      if (++index[d] < static_cast<std::size_t>(dimensions[d])) break;
      index[d] = 0;
    }
  }
  return result;
}

}  // namespace

NpzArray parse_npy(const std::vector<std::uint8_t>& image, const std::string& where) {
  std::size_t begin = 0;
  const std::size_t length = header_length(image, &begin, where);
  const std::string_view text(reinterpret_cast<const char*>(image.data()) + begin, length);
  const HeaderParser::Header header = HeaderParser(text, where).parse();

  NpzArray array;
  array.type = element_type(header.descr, where);
  array.dimensions = header.shape;
  const std::size_t size = static_cast<std::size_t>(hlo::byte_size(array.type));
  std::size_t expected = size;
  bool empty = false;
  for (const std::int64_t extent : header.shape) empty = empty || extent == 0;
  for (const std::int64_t extent : header.shape) {
    if (empty) break;
    if (__builtin_mul_overflow(expected, static_cast<std::size_t>(extent), &expected)) {
      throw WorkloadError(where + ": the array's shape exceeds any memory");
    }
  }
  if (empty) expected = 0;
  const std::size_t found = image.size() - begin - length;
  if (found != expected) {
    throw WorkloadError(where + ": expected " + std::to_string(expected) +
                        " bytes of elements for its shape, found " + std::to_string(found));
  }
  array.bytes.assign(image.end() - static_cast<std::ptrdiff_t>(found), image.end());
  if (header.fortran_order && array.dimensions.size() > 1) {
    array.bytes = row_major(array.bytes, array.dimensions, size);
  }
  return array;
}

std::vector<std::uint8_t> npy_image(const NpzArray& array) {
  std::string descr;
  for (const TypeName& entry : kTypes) {
    if (entry.type == array.type) descr = entry.descr;
  }
  TPU_CHECK(!descr.empty(), "no numpy type for " << hlo::to_string(array.type));
  const bool single_byte = hlo::byte_size(array.type) == 1;
  std::string header = "{'descr': '" + std::string(single_byte ? "|" : "<") + descr +
                       "', 'fortran_order': False, 'shape': (";
  for (std::size_t d = 0; d < array.dimensions.size(); ++d) {
    header += (d > 0 ? ", " : "") + std::to_string(array.dimensions[d]);
  }
  header += array.dimensions.size() == 1 ? ",), }" : "), }";
  const std::size_t prefix = kNpyMagic.size() + 4;
  header.append(63 - (prefix + header.size()) % 64, ' ');
  header.push_back('\n');
  TPU_CHECK(header.size() <= 0xffff, "a header of " << header.size() << " bytes");

  std::vector<std::uint8_t> image(kNpyMagic.begin(), kNpyMagic.end());
  image.push_back(1);
  image.push_back(0);
  image.push_back(static_cast<std::uint8_t>(header.size() & 0xff));
  image.push_back(static_cast<std::uint8_t>(header.size() >> 8));
  image.insert(image.end(), header.begin(), header.end());
  image.insert(image.end(), array.bytes.begin(), array.bytes.end());
  return image;
}

}  // namespace tpu::traces
