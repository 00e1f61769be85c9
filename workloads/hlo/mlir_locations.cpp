#include "workloads/hlo/mlir_locations.h"

#include <algorithm>
#include <string>

namespace tpu::hlo {

namespace {

/// Locations inside each other beyond which nothing is read.
constexpr int kDeepest = 16;

}  // namespace

MlirLocations::MlirLocations(std::string_view text) {
  constexpr std::string_view kName = "#loc";
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    const std::size_t equals =
        line.substr(0, 4) == kName ? line.find(" = ") : std::string_view::npos;
    if (equals != std::string_view::npos)
      begins_[line.substr(1, equals - 1)] = line.data() + equals + 3;
    at = end + 1;
  }
}

bool MlirLocations::skip_alias(HloCursor& cursor) {
  if (cursor.peek() != '#') return false;
  cursor.take_while([](char c) { return c != '\n'; });
  return true;
}

void MlirLocations::take(HloCursor& cursor, Metadata& metadata) const {
  if (!cursor.take_word("loc")) return;
  cursor.expect('(');
  HloCursor inner = cursor;
  read(inner, metadata, 0);
  int depth = 1;
  while (depth > 0) {
    const char next = cursor.peek();
    if (next == '\0') cursor.fail("the end of this location, ')'");
    if (next == '"') {
      cursor.quoted("a name");
      continue;
    }
    depth += next == '(' ? 1 : next == ')' ? -1 : 0;
    cursor.take(next);
  }
}

void MlirLocations::read(HloCursor& cursor, Metadata& metadata, int depth) const {
  if (depth > kDeepest) return;
  if (cursor.take('#')) {
    const auto found = begins_.find(cursor.name("the name of a location"));
    if (found == begins_.end()) return;
    cursor.move_to(found->second);
    if (!cursor.take_word("loc") || !cursor.take('(')) return;
    return read(cursor, metadata, depth + 1);
  }
  if (cursor.take_word("callsite")) {
    if (cursor.take('(')) read(cursor, metadata, depth + 1);
    return;
  }
  if (cursor.peek() != '"') return;
  const std::string_view name = cursor.quoted("a name or file");
  if (cursor.take(':')) {
    metadata.source_file = std::string(name);
    metadata.source_line = cursor.number32("a line");
    return;
  }
  if (metadata.op_name->empty()) metadata.op_name = std::string(name);
  if (cursor.take('(')) read(cursor, metadata, depth + 1);
}

}  // namespace tpu::hlo
