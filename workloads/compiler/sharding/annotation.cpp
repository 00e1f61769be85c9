#include "workloads/compiler/sharding/annotation.h"

#include <algorithm>

#include "sim/base/token_cursor.h"
#include "workloads/graph/sharding_text.h"

namespace tpu::compiler {

using Numbers = std::vector<std::int64_t>;

namespace {

/// Of a device or an extent; more than 2^20 devices are refused in the whole.
constexpr std::int64_t kLargest = std::int64_t{1} << 40;

std::int64_t number(TokenCursor& cursor) { return cursor.whole_number("a number", kLargest); }

Numbers numbers(TokenCursor& cursor, char opening, char closing) {
  Numbers values;
  cursor.list(opening, closing, [&] { values.push_back(number(cursor)); });
  return values;
}

std::string_view word(TokenCursor& cursor) {
  const auto is_of_word = [](char c) { return is_letter_or_digit(c) || c == '_'; };
  const std::string_view found = cursor.take_while(is_of_word);
  if (found.empty()) cursor.fail("a word");
  return found;
}

/// Goes behind the next of this word; false, and nowhere, where there is none.
bool find(TokenCursor& cursor, std::string_view word) {
  const std::string_view rest = cursor.rest();
  const std::size_t found = rest.find(word);
  if (found == std::string_view::npos) return false;
  cursor.move_to(rest.data() + found + word.size());
  return true;
}

std::int64_t product(const Numbers& values) {
  std::int64_t result = 1;
  for (std::int64_t value : values) {
    result *= value;
    if (value < 1 || result > (std::int64_t{1} << 20)) {
      throw WorkloadError("expected at most 2^20 devices in a sharding");
    }
  }
  return result;
}

/// The digits of a row-major mesh.
std::vector<DeviceDigit> row_major(const Numbers& extents) {
  product(extents);  // Refuses too many devices.
  std::vector<DeviceDigit> digits(extents.size());
  std::int64_t stride = 1;
  for (std::size_t i = extents.size(); i-- > 0;) {
    digits[i] = {extents[i], stride};
    stride *= extents[i];
  }
  return digits;
}

/// Devices in an explicit order as digits, the major one first; empty where there are none.
std::vector<DeviceDigit> digits_of_list(const Numbers& list) {
  std::vector<DeviceDigit> digits;
  std::int64_t span = 1;
  const auto count = static_cast<std::int64_t>(list.size());
  while (span < count) {
    const std::int64_t stride = list[static_cast<std::size_t>(span)] - list[0];
    std::int64_t size = 1;
    while (size * span < count &&
           list[static_cast<std::size_t>(size * span)] == list[0] + size * stride) {
      ++size;
    }
    if (stride < 1 || size < 2) return {};
    digits.insert(digits.begin(), {size, stride});
    span *= size;
  }
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t rest = i, device = 0;
    for (std::size_t k = digits.size(); k-- > 0;) {
      device += rest % digits[k].size * digits[k].stride;
      rest /= digits[k].size;
    }
    if (rest != 0 || list[static_cast<std::size_t>(i)] != device) return {};
  }
  return digits;
}

/// Takes digits worth `extent` from the front; the one at the boundary is split.
std::vector<DeviceDigit> take_digits(std::vector<DeviceDigit>& digits, std::int64_t extent) {
  std::vector<DeviceDigit> taken;
  while (extent > 1) {
    if (digits.empty()) throw WorkloadError("expected as many devices as the tiles ask for");
    DeviceDigit& front = digits.front();
    if (extent % front.size == 0) {
      extent /= front.size;
      taken.push_back(front);
      digits.erase(digits.begin());
    } else if (front.size % extent == 0) {
      const std::int64_t inner = front.size / extent;
      taken.push_back({extent, front.stride * inner});
      front.size = inner;
      extent = 1;
    } else {
      throw WorkloadError("expected tiles that divide the axes of the mesh");
    }
  }
  return taken;
}

std::string unescaped(std::string_view text) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 1 < text.size()) ++i;
    result += text[i];
  }
  return result;
}

/// The value of a frontend attribute, without its quotes and escapes; empty when there is none.
std::string frontend_attribute(std::string_view raw, std::string_view name) {
  std::size_t at = raw.find(std::string(name) + "=\"");
  if (at == std::string_view::npos) return "";
  at += name.size() + 2;
  std::size_t end = at;
  while (end < raw.size() && raw[end] != '"') end += raw[end] == '\\' ? 2 : 1;
  return unescaped(raw.substr(at, std::min(end, raw.size()) - at));
}

}  // namespace

/// XLA's own form.
class AnnotationReader::HloText {
 public:
  explicit HloText(std::string_view text)
      : cursor_(text, "sharding", TokenCursor::Places::kPartOfIt) {}

  std::vector<ShardingAnnotation> leaves() {
    std::vector<ShardingAnnotation> result;
    cursor_.expect('{');
    if (cursor_.peek() != '{') {
      result.push_back(one());
      return result;
    }
    cursor_.list('}', [&] {
      cursor_.expect('{');
      result.push_back(one());
    });
    return result;
  }

 private:
  /// Behind the opening brace.
  ShardingAnnotation one() {
    ShardingAnnotation result;
    if (cursor_.take("manual")) {
      result.is_manual = true;
    } else if (cursor_.take("devices=")) {
      result = tiled();
    } else if (cursor_.take("maximal device=")) {
      number(cursor_);
    } else if (!cursor_.take("replicated")) {
      cursor_.fail("replicated, manual, maximal device=, devices=[...]");
    }
    if (!find(cursor_, "}")) cursor_.fail("\"}\"");
    return result;
  }

  std::vector<DeviceDigit> devices(std::int64_t count) {
    if (cursor_.take("<=")) {
      std::vector<DeviceDigit> mesh = row_major(numbers(cursor_, '[', ']'));
      if (!cursor_.take('T')) return mesh;
      std::vector<DeviceDigit> transposed;
      for (std::int64_t axis : numbers(cursor_, '(', ')')) {
        if (axis >= static_cast<std::int64_t>(mesh.size())) cursor_.fail("an axis of the mesh");
        transposed.push_back(mesh[static_cast<std::size_t>(axis)]);
      }
      return transposed;
    }
    Numbers list;
    do list.push_back(number(cursor_));
    while (cursor_.take(','));
    std::vector<DeviceDigit> digits = digits_of_list(list);
    if (static_cast<std::int64_t>(list.size()) != count || (digits.empty() && count > 1)) {
      cursor_.fail("devices in the order of a mesh");
    }
    return digits;
  }

  ShardingAnnotation tiled() {
    ShardingAnnotation result;
    Numbers tiles = numbers(cursor_, '[', ']');
    result.devices = product(tiles);
    std::vector<DeviceDigit> digits = devices(result.devices);
    std::size_t others = 0;
    if (cursor_.take("last_tile_dim_replicate")) {
      others = 1;
    } else if (cursor_.take("last_tile_dims={")) {
      do {
        ++others;
        word(cursor_);
      } while (cursor_.take(','));
      cursor_.expect('}');
    }
    if (others > tiles.size()) cursor_.fail("as many tiles as kinds of subgroups");
    tiles.resize(tiles.size() - others);
    for (std::int64_t tile : tiles) result.dimensions.push_back(take_digits(digits, tile));
    return result;
  }

  TokenCursor cursor_;
};

/// The form of Shardy, JAX's partitioner.
class AnnotationReader::ShardyText {
 public:
  ShardyText(const std::vector<NamedMesh>& meshes, std::string_view text)
      : meshes_(meshes), cursor_(text, "sharding", TokenCursor::Places::kPartOfIt) {}

  /// "#sdy.sharding<@mesh, [...]>" or "#sdy.sharding_per_value<[<@mesh, [...]>, ...]>".
  std::vector<ShardingAnnotation> leaves() {
    std::vector<ShardingAnnotation> result;
    if (cursor_.take("#sdy.sharding_per_value")) {
      cursor_.expect('<');
      cursor_.list('[', ']', [&] { result.push_back(one()); });
      return result;
    }
    cursor_.expect("#sdy.sharding");
    result.push_back(one());
    return result;
  }

  /// "#sdy<manual_axes{"x"}>" of the module's mesh.
  std::vector<DeviceDigit> manual_axes() {
    std::vector<DeviceDigit> result;
    if (meshes_.empty() || !find(cursor_, "manual_axes")) return result;
    cursor_.list('{', '}', [&] { result.push_back(axis(meshes_.front())); });
    return result;
  }

 private:
  const NamedMesh& mesh() {
    cursor_.expect('@');
    const std::string_view name = word(cursor_);
    for (const NamedMesh& each : meshes_) {
      if (each.name == name) return each;
    }
    cursor_.fail_at(name.data(), "a mesh of the module");
  }

  DeviceDigit axis(const NamedMesh& mesh) {
    const std::string_view name = cursor_.quoted("the name of an axis");
    const auto found = std::find(mesh.axes.begin(), mesh.axes.end(), name);
    if (found == mesh.axes.end()) cursor_.fail_at(name.data(), "an axis of mesh " + mesh.name);
    DeviceDigit digit = mesh.digits[static_cast<std::size_t>(found - mesh.axes.begin())];
    if (cursor_.take(':')) {
      cursor_.expect('(');
      const std::int64_t outer = number(cursor_);
      cursor_.expect(')');
      const std::int64_t size = number(cursor_);
      if (outer < 1 || size < 1 || digit.size % (outer * size) != 0) {
        cursor_.fail("a part whose extents divide those of its axis");
      }
      digit = {size, digit.stride * (digit.size / (outer * size))};
    }
    return digit;
  }

  ShardingAnnotation one() {
    ShardingAnnotation result;
    cursor_.expect('<');
    const NamedMesh& of = mesh();
    result.devices = of.devices;
    cursor_.expect(',');
    cursor_.list('[', ']', [&] { dimension(of, result); });
    while (cursor_.take(',')) {
      if (cursor_.take("unreduced")) cursor_.fail("an array without partial sums");
      cursor_.expect("replicated");
      cursor_.expect('=');
      if (!find(cursor_, "}")) cursor_.fail("\"}\"");
    }
    cursor_.expect('>');
    return result;
  }

  void dimension(const NamedMesh& of, ShardingAnnotation& result) {
    result.dimensions.emplace_back();
    result.open.push_back(false);
    cursor_.list('{', '}', [&] {
      if (cursor_.take('?')) {
        result.open.back() = true;
      } else {
        result.dimensions.back().push_back(axis(of));
      }
    });
    if (cursor_.take('p')) number(cursor_);
  }

  const std::vector<NamedMesh>& meshes_;
  TokenCursor cursor_;
};

AnnotationReader::AnnotationReader(const hlo::Module& module) : module_(module) {
  const std::string text = unescaped(module.frontend_attributes);
  if (text.find("xla.sdy.meshes={") == std::string::npos) return;
  TokenCursor cursor(text, "frontend_attributes", TokenCursor::Places::kPartOfIt);
  find(cursor, "xla.sdy.meshes=");
  cursor.list('{', '}', [&] {
    NamedMesh mesh;
    mesh.name = word(cursor);
    cursor.expect('=');
    cursor.expect("#sdy.mesh<");
    Numbers extents;
    cursor.list('[', ']', [&] {
      mesh.axes.emplace_back(cursor.quoted("the name of an axis"));
      cursor.expect('=');
      extents.push_back(number(cursor));
    });
    if (!cursor.take('>')) cursor.fail("a mesh whose devices stand in the order of their numbers");
    mesh.digits = row_major(extents);
    mesh.devices = product(extents);
    meshes_.push_back(std::move(mesh));
  });
}

std::int64_t AnnotationReader::mesh_devices() const {
  std::int64_t most = 1;
  for (const NamedMesh& mesh : meshes_) most = std::max(most, mesh.devices);
  return most;
}

InstructionAnnotation AnnotationReader::read(const hlo::HloInstruction& instruction) const {
  InstructionAnnotation result;
  const std::string& raw = instruction.raw_attributes;
  if (raw.find("sharding") == std::string::npos) return result;
  const std::string_view own = hlo::sharding_text(raw);
  std::string shardy;
  for (const char* name : {"xla.sdy.sharding", "xla.sdy.in_shardings", "xla.sdy.out_shardings"}) {
    if (shardy.empty()) shardy = frontend_attribute(raw, name);
  }
  result.text = own.empty() ? shardy : "sharding=" + std::string(own);
  try {
    if (!own.empty()) {
      result.leaves = HloText(own).leaves();
    } else if (!shardy.empty()) {
      result.leaves = ShardyText(meshes_, shardy).leaves();
    }
    const std::string manual = frontend_attribute(raw, "xla.sdy.manual_axes");
    if (!manual.empty()) result.manual_axes = ShardyText(meshes_, manual).manual_axes();
  } catch (const WorkloadError& error) {
    const std::string source = source_of(module_, instruction.metadata);
    throw WorkloadError("annotation of \"" + instruction.name + "\"" +
                        (source.empty() ? "" : " (" + source + ")") + ": " + error.what());
  }
  return result;
}

}  // namespace tpu::compiler
