#include "workloads/hlo/proto_values.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>

#include "workloads/graph/primitive_types.h"
#include "workloads/graph/tiled_layout.h"

namespace tpu::hlo {

namespace {

constexpr int kDeepestTuple = 64;
constexpr std::size_t kMostDimensions = 255;

ElementType type_of(std::int64_t number) {
  if (number < 0 || number >= static_cast<std::int64_t>(kPrimitiveTypes.size())) {
    return ElementType::kCount;
  }
  return kPrimitiveTypes[static_cast<std::size_t>(number)];
}

void read_layout(ProtoCursor message, Shape& shape) {
  Layout& layout = shape.layout;
  std::vector<std::int64_t> levels;
  std::int64_t element_bits = 0;
  std::int64_t tail = 0;
  while (message.next()) {
    switch (message.field()) {
      case 1:
        message.integers("minor_to_major", layout.minor_to_major);
        break;
      case 6: {
        ProtoCursor tile = message.message("tiles");
        layout.tiles.emplace_back();
        while (tile.next()) {
          if (tile.field() == 1) tile.integers("dimensions", layout.tiles.back());
        }
        for (std::int64_t extent : layout.tiles.back()) {
          if (extent < 1 || extent > 1 << 20) tile.fail("extents of a tile from 1 to 2^20");
        }
        break;
      }
      case 7:
        element_bits = message.integer("element_size_in_bits");
        break;
      case 8: {
        const std::int64_t space = message.integer("memory_space");
        if (space < 0 || space > 1 << 20) message.fail("a memory space below 2^20");
        layout.memory_space = static_cast<int>(space);
        break;
      }
      case 9:
        message.integers("dim_level_types", levels);
        break;
      case 10:
      case 17:
        message.fail("a layout without a physical shape or splits, which no TPU v2 or v3 has");
      case 16:
        tail = message.integer("tail_padding_alignment_in_elements");
        break;
      default:
        break;
    }
  }
  std::vector<bool> seen(shape.dimensions.size());
  for (std::int64_t d : layout.minor_to_major) {
    if (d < 0 || d >= shape.rank() || seen[static_cast<std::size_t>(d)]) {
      message.fail("each dimension below " + std::to_string(shape.rank()) + " once");
    }
    seen[static_cast<std::size_t>(d)] = true;
  }
  if (static_cast<std::int64_t>(layout.minor_to_major.size()) != shape.rank()) {
    message.fail(std::to_string(shape.rank()) + " dimensions in minor_to_major");
  }
  if (std::any_of(levels.begin(), levels.end(), [](std::int64_t level) { return level != 0; })) {
    message.fail("a dense array");
  }
  if (tail > 1) layout.other.edit() += "L(" + std::to_string(tail) + ")";
  if (element_bits > 0) layout.other.edit() += "E(" + std::to_string(element_bits) + ")";
}

Shape shape_at_depth(ProtoCursor message, int depth) {
  if (depth > kDeepestTuple) message.fail("at most 64 nested tuples");
  Shape shape;
  shape.type = ElementType::kCount;
  std::vector<std::int64_t> dynamic;
  std::vector<ProtoCursor> layout;
  while (message.next()) {
    switch (message.field()) {
      case 2:
        shape.type = type_of(message.integer("element_type"));
        break;
      case 3:
        message.integers("dimensions", shape.dimensions);
        if (shape.dimensions.size() > kMostDimensions) message.fail("at most 255 dimensions");
        break;
      case 4:
        shape.elements.push_back(shape_at_depth(message.message("tuple_shapes"), depth + 1));
        break;
      case 5:
        layout.push_back(message.message("layout"));
        break;
      case 6:
        message.integers("is_dynamic_dimension", dynamic);
        break;
      default:
        break;
    }
  }
  if (shape.type == ElementType::kCount) message.fail("an element_type that HLO text has");
  if (!shape.is_tuple() && !shape.elements.empty()) {
    message.fail("tuple_shapes in a tuple only");
  }
  std::int64_t bytes = std::max(byte_size(shape.type), 1);
  for (std::int64_t dimension : shape.dimensions) {
    if (dimension < 0 ||
        __builtin_mul_overflow(bytes, std::max<std::int64_t>(dimension, 1), &bytes)) {
      message.fail("dimensions of at least 0 and fewer than 2^63 bytes");
    }
  }
  for (std::size_t i = 0; i < dynamic.size(); ++i) {
    if (dynamic[i] == 0) continue;
    if (i >= 32 || i >= shape.dimensions.size()) message.fail("bounds on the first 32 dimensions");
    shape.bounded |= std::uint32_t{1} << i;
  }
  // Scalars, tuples and tokens have an empty layout; text leaves it out.
  if (!layout.empty() && byte_size(shape.type) > 0) read_layout(layout.back(), shape);
  return shape;
}

/// The bytes of a repeated field of a literal, whose numbers are `size` bytes wide in an array.
void append_varints(std::string_view name, ProtoCursor& message, int size,
                    std::vector<std::uint8_t>& bytes) {
  std::vector<std::int64_t> values;
  message.integers(name, values);
  const std::size_t at = bytes.size();
  bytes.resize(at + values.size() * static_cast<std::size_t>(size));
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::memcpy(bytes.data() + at + i * static_cast<std::size_t>(size), &values[i],
                static_cast<std::size_t>(size));
  }
}

/// The number of the field of a LiteralProto that holds elements of the type; 0 for types of less
/// than a byte, which it packs.
int literal_field(ElementType type) {
  switch (type) {
    case ElementType::kPred:
      return 2;
    case ElementType::kU8:
      return 3;
    case ElementType::kS32:
      return 4;
    case ElementType::kS64:
      return 5;
    case ElementType::kU32:
      return 6;
    case ElementType::kU64:
      return 7;
    case ElementType::kF32:
      return 8;
    case ElementType::kF64:
      return 9;
    case ElementType::kF16:
      return 11;
    case ElementType::kC64:
      return 12;
    case ElementType::kBf16:
      return 13;
    case ElementType::kS8:
      return 15;
    case ElementType::kU16:
      return 16;
    case ElementType::kS16:
      return 17;
    case ElementType::kC128:
      return 18;
    case ElementType::kF8E5M2:
      return 19;
    case ElementType::kF8E4M3Fn:
      return 20;
    case ElementType::kF8E4M3B11Fnuz:
      return 23;
    case ElementType::kF8E5M2Fnuz:
      return 24;
    case ElementType::kF8E4M3Fnuz:
      return 25;
    case ElementType::kF8E4M3:
      return 28;
    case ElementType::kF8E3M4:
      return 29;
    case ElementType::kF8E8M0Fnu:
      return 33;
    default:
      return 0;
  }
}

/// Puts elements that lie as the layout says in row-major order.
std::vector<std::uint8_t> row_major(const Shape& shape, std::vector<std::uint8_t> bytes) {
  const std::vector<std::int64_t>& order = shape.layout.minor_to_major;
  if (std::is_sorted(order.rbegin(), order.rend())) return bytes;
  Shape plain = shape;
  plain.layout.tiles.clear();
  const TiledLayout layout(plain);
  const auto size = static_cast<std::size_t>(byte_size(shape.type));
  std::vector<std::uint8_t> result(bytes.size());
  std::vector<std::int64_t> index(shape.dimensions.size(), 0);
  for (std::size_t to = 0; to < result.size(); to += size) {
    std::int64_t from = 0;
    for (std::size_t d = 0; d < index.size(); ++d) from += layout.terms()[d].offset(index[d]);
    std::memcpy(result.data() + to, bytes.data() + static_cast<std::size_t>(from) * size, size);
    for (std::size_t d = index.size(); d-- > 0;) {
      if (++index[d] < shape.dimensions[d]) break;
      index[d] = 0;
    }
  }
  return result;
}

}  // namespace

Shape read_shape(const ProtoCursor& message) { return shape_at_depth(message, 0); }

std::vector<std::uint8_t> read_literal(ProtoCursor message, const Shape& shape) {
  std::vector<std::uint8_t> bytes;
  std::size_t element = 0;
  Shape stated = shape;
  const int wanted = literal_field(shape.type);
  if (!shape.is_tuple() && wanted == 0) {
    message.fail("a constant of a type whose elements are whole bytes, not " +
                 to_string(shape, false));
  }
  while (message.next()) {
    const int field = message.field();
    if (field == 1) {
      stated = read_shape(message.message("shape"));
      if (!same_extent(stated, shape)) message.fail("a literal of " + to_string(shape, false));
    } else if (field == 10 && shape.is_tuple()) {
      if (element == shape.elements.size()) message.fail("as many literals as the tuple has");
      const std::vector<std::uint8_t> part =
          read_literal(message.message("tuple_literals"), shape.elements[element++]);
      bytes.insert(bytes.end(), part.begin(), part.end());
    } else if (field == wanted && (field == 2 || (field >= 4 && field <= 7))) {
      append_varints("elements", message, byte_size(shape.type), bytes);
    } else if (field == wanted) {
      const std::string_view part = message.text("elements");
      bytes.insert(bytes.end(), part.begin(), part.end());
    }
  }
  if (static_cast<std::int64_t>(bytes.size()) != shape.unpadded_bytes()) {
    message.fail("a literal of " + std::to_string(shape.unpadded_bytes()) + " bytes for " +
                 to_string(shape, false) + " (there are " + std::to_string(bytes.size()) + ")");
  }
  return shape.is_tuple() ? bytes : row_major(stated, std::move(bytes));
}

std::string list_text(const std::vector<std::int64_t>& values) {
  std::string text = "{";
  for (std::int64_t value : values) text += (text.size() > 1 ? "," : "") + std::to_string(value);
  return text + "}";
}

std::string escaped(std::string_view bytes) {
  std::string text;
  for (char c : bytes) {
    const auto code = static_cast<unsigned char>(c);
    switch (c) {
      case '\n':
        text += "\\n";
        break;
      case '\r':
        text += "\\r";
        break;
      case '\t':
        text += "\\t";
        break;
      case '"':
      case '\'':
      case '\\':
        text += '\\';
        text += c;
        break;
      default:
        if (code >= 0x20 && code < 0x7f) {
          text += c;
        } else {
          text += '\\';
          text += static_cast<char>('0' + (code >> 6));
          text += static_cast<char>('0' + (code >> 3 & 7));
          text += static_cast<char>('0' + (code & 7));
        }
    }
  }
  return text;
}

std::string frontend_attributes_text(ProtoCursor message) {
  std::map<std::string, std::string> map;
  while (message.next()) {
    if (message.field() != 1) continue;
    ProtoCursor entry = message.message("map");
    std::string key, value;
    while (entry.next()) {
      if (entry.field() == 1) key = entry.text("key");
      if (entry.field() == 2) value = entry.text("value");
    }
    map[key] = value;
  }
  std::string text;
  for (const auto& [key, value] : map) {
    const bool braces = !value.empty() && value.front() == '{';
    text += (text.empty() ? "" : ",") + key + "=" + (braces ? value : "\"" + escaped(value) + "\"");
  }
  return text;
}

Metadata read_metadata(ProtoCursor message) {
  Metadata metadata;
  const auto line = [&](std::string_view name) {
    const std::int64_t value = message.integer(name);
    if (value < 0 || value > INT32_MAX) message.fail("a " + std::string(name) + " below 2^31");
    return static_cast<int>(value);
  };
  const auto other = [&](const std::string& text) {
    std::string& all = metadata.other.edit();
    all += (all.empty() ? "" : " ") + text;
  };
  while (message.next()) {
    switch (message.field()) {
      case 1:
        metadata.op_type = escaped(message.text("op_type"));
        break;
      case 2:
        metadata.op_name = escaped(message.text("op_name"));
        break;
      case 3:
        metadata.source_file = escaped(message.text("source_file"));
        break;
      case 4:
        metadata.source_line = line("source_line");
        break;
      case 12:
        other("deduplicated_name=\"" + escaped(message.text("deduplicated_name")) + "\"");
        break;
      case 15:
        metadata.stack_frame_id = line("stack_frame_id");
        break;
      case 16:
        other("scheduling_name=\"" + escaped(message.text("scheduling_name")) + "\"");
        break;
      case 17:
        other("source_end_line=" + std::to_string(line("source_end_line")));
        break;
      case 18:
        other("source_column=" + std::to_string(line("source_column")));
        break;
      case 19:
        other("source_end_column=" + std::to_string(line("source_end_column")));
        break;
      default:
        break;
    }
  }
  return metadata;
}

namespace {

/// What is in front of the last dimensions of a tile assignment.
struct Sharding {
  std::int64_t type = 0;
  std::vector<std::int64_t> dimensions, devices, reshape, transpose, last_types;
  std::vector<std::string> tuple;
  bool replicate_last = false;
};

std::string sharding_type(std::int64_t type) {
  static constexpr const char* kNames[] = {"replicated", "maximal", "tuple",    "other",
                                           "manual",     "unknown", "unreduced"};
  return type >= 0 && type < 7 ? kNames[type] : "";
}

std::string tiled_text(const Sharding& sharding) {
  const auto brackets = [](const std::vector<std::int64_t>& values, char open, char close) {
    std::string text = list_text(values);
    text.front() = open;
    text.back() = close;
    return text;
  };
  std::string text = "devices=" + brackets(sharding.dimensions, '[', ']');
  if (!sharding.reshape.empty()) {
    text += "<=" + brackets(sharding.reshape, '[', ']');
    if (!std::is_sorted(sharding.transpose.begin(), sharding.transpose.end())) {
      text += "T" + brackets(sharding.transpose, '(', ')');
    }
  } else {
    const std::string devices = list_text(sharding.devices);
    text += devices.substr(1, devices.size() - 2);
  }
  if (sharding.replicate_last) text += " last_tile_dim_replicate";
  if (!sharding.last_types.empty()) {
    std::string types;
    for (std::int64_t type : sharding.last_types) {
      types += (types.empty() ? "" : ", ") + sharding_type(type);
    }
    text += " last_tile_dims={" + types + "}";
  }
  return text;
}

std::string sharding_at_depth(ProtoCursor message, int depth) {
  if (depth > 1) message.fail("tuple shardings without tuples of their own");
  Sharding sharding;
  while (message.next()) {
    switch (message.field()) {
      case 1:
        sharding.type = message.integer("type");
        break;
      case 3:
        message.integers("tile_assignment_dimensions", sharding.dimensions);
        break;
      case 4:
        message.integers("tile_assignment_devices", sharding.devices);
        break;
      case 5:
        sharding.tuple.push_back(sharding_at_depth(message.message("tuple_shardings"), depth + 1));
        break;
      case 6:
        sharding.replicate_last = message.boolean("replicate_on_last_tile_dim");
        break;
      case 8:
        message.integers("last_tile_dims", sharding.last_types);
        break;
      case 9:
        message.integers("iota_reshape_dims", sharding.reshape);
        break;
      case 10:
        message.integers("iota_transpose_perm", sharding.transpose);
        break;
      case 14:
        message.fail("a sharding without named axes; print the module as text");
      default:
        break;
    }
  }
  if (sharding.type == 2) {
    std::string text;
    for (std::size_t i = 0; i < sharding.tuple.size(); ++i) {
      if (i > 0) text += ", ";
      if (i > 0 && i % 5 == 0) text += "/*index=" + std::to_string(i) + "*/";
      text += sharding.tuple[i];
    }
    return "{" + text + "}";
  }
  if (sharding.type == 3) return "{" + tiled_text(sharding) + "}";
  if (sharding.type == 1) {
    if (sharding.devices.size() != 1) message.fail("one device in a maximal sharding");
    return "{maximal device=" + std::to_string(sharding.devices[0]) + "}";
  }
  const std::string name = sharding_type(sharding.type);
  if (name.empty()) message.fail("a type of sharding from 0 to 6");
  return "{" + name + "}";
}

}  // namespace

std::string sharding_text(const ProtoCursor& message) { return sharding_at_depth(message, 0); }

}  // namespace tpu::hlo
