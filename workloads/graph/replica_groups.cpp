#include "workloads/graph/replica_groups.h"

#include <charconv>
#include <map>
#include <string>

#include "workloads/graph/part_error.h"

namespace tpu::hlo {

namespace {

using Numbers = std::vector<std::int64_t>;

constexpr std::size_t kMostAxes = 64;

class GroupsParser {
 public:
  explicit GroupsParser(std::string_view text) : text_(text) {}

  std::vector<Numbers> parse() {
    std::vector<Numbers> groups = any();
    skip_blanks();
    if (position_ != text_.size()) fail("the end of the groups");
    return groups;
  }

 private:
  [[noreturn]] void fail_at(std::size_t position, const std::string& expected) const {
    throw PartError("replica groups", text_, position, expected);
  }
  [[noreturn]] void fail(const std::string& expected) const { fail_at(position_, expected); }

  void skip_blanks() {
    while (position_ < text_.size() && (text_[position_] == ' ' || text_[position_] == '\n')) {
      ++position_;
    }
  }
  bool peek(std::string_view word) {
    skip_blanks();
    return text_.compare(position_, word.size(), word) == 0;
  }
  bool take(std::string_view word) {
    if (!peek(word)) return false;
    position_ += word.size();
    return true;
  }
  void expect(std::string_view word) {
    if (!take(word)) fail("'" + std::string(word) + "'");
  }
  std::int64_t number(const char* what) {
    skip_blanks();
    std::int64_t value = 0;
    const char* const begin = text_.data() + position_;
    const auto result = std::from_chars(begin, text_.data() + text_.size(), value);
    if (result.ec != std::errc() || value < 0) fail(std::string(what) + ", a whole number");
    position_ += static_cast<std::size_t>(result.ptr - begin);
    return value;
  }
  Numbers numbers(std::string_view open, std::string_view close, const char* what) {
    Numbers values;
    expect(open);
    while (!take(close)) {
      values.push_back(number(what));
      if (!take(",") && !peek(close)) fail("',' or '" + std::string(close) + "'");
    }
    return values;
  }

  std::vector<Numbers> any() {
    if (peek("[")) return iota();
    if (take("mesh")) return mesh();
    if (!peek("{")) fail("{{0,1},{2,3}}, [2,2]<=[4] or mesh['x'=2,'y'=2] {'x'}");
    std::vector<Numbers> groups;
    expect("{");
    while (!take("}")) {
      groups.push_back(numbers("{", "}", "a replica"));
      if (!take(",") && !peek("}")) fail("',' or '}'");
    }
    return groups;
  }

  std::int64_t total_of(const Numbers& extents, std::size_t at) const {
    std::int64_t total = 1;
    if (extents.size() > kMostAxes) fail_at(at, "at most 64 axes");
    for (std::int64_t extent : extents) {
      if (extent < 1 || extent > kMostReplicas || (total *= extent) > kMostReplicas) {
        fail_at(at, "at most 2^20 replicas");
      }
    }
    return total;
  }

  std::vector<Numbers> iota() {
    const std::size_t begin = position_;
    const Numbers groups = numbers("[", "]", "an extent");
    expect("<=");
    const Numbers mesh = numbers("[", "]", "an extent");
    Numbers order(mesh.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::int64_t>(i);
    if (take("T")) {
      const std::size_t at = position_;
      order = numbers("(", ")", "an axis");
      std::vector<bool> seen(mesh.size(), false);
      for (std::int64_t axis : order) {
        if (axis >= static_cast<std::int64_t>(mesh.size()) || seen[static_cast<std::size_t>(axis)])
          fail_at(at, "each axis of the mesh once");
        seen[static_cast<std::size_t>(axis)] = true;
      }
      if (order.size() != mesh.size()) fail_at(at, "each axis of the mesh once");
    }
    const std::int64_t total = total_of(mesh, begin);
    if (groups.size() != 2 || groups[0] < 1 || groups[1] < 1 || groups[0] > total ||
        groups[1] > total || groups[0] * groups[1] != total) {
      fail_at(begin, "[groups,members] whose product is " + std::to_string(total));
    }
    std::vector<Numbers> result(static_cast<std::size_t>(groups[0]));
    for (std::int64_t i = 0; i < total; ++i) {
      std::int64_t rest = i;
      Numbers coordinate(mesh.size());
      for (std::size_t axis = order.size(); axis-- > 0;) {
        const auto from = static_cast<std::size_t>(order[axis]);
        coordinate[from] = rest % mesh[from];
        rest /= mesh[from];
      }
      std::int64_t device = 0;
      for (std::size_t axis = 0; axis < mesh.size(); ++axis)
        device = device * mesh[axis] + coordinate[axis];
      result[static_cast<std::size_t>(i / groups[1])].push_back(device);
    }
    return result;
  }

  std::string_view axis_name() {
    expect("'");
    const std::size_t begin = position_;
    const std::size_t end = text_.find('\'', begin);
    if (end == std::string_view::npos) fail("the closing quote of this name");
    position_ = end + 1;
    return text_.substr(begin, end - begin);
  }

  /// A listed axis, or the `extent` values of it between the outer ones and the `inner` ones.
  struct Part {
    std::size_t axis = 0;
    std::int64_t extent = 1, inner = 1;
  };

  std::vector<Part> parts(const std::vector<std::string_view>& names, const Numbers& extents) {
    std::vector<Part> result;
    expect("{");
    while (!take("}")) {
      const std::size_t at = position_ + 1;
      const std::string_view name = axis_name();
      Part part;
      while (part.axis < names.size() && names[part.axis] != name) ++part.axis;
      if (part.axis == names.size()) fail_at(at, "an axis of the mesh");
      part.extent = extents[part.axis];
      if (take(":")) {
        expect("(");
        const std::int64_t outer = number("the extent outside of the part");
        expect(")");
        part.extent = number("the extent of the part");
        if (outer < 1 || part.extent < 1 || outer > extents[part.axis] ||
            part.extent > extents[part.axis] || extents[part.axis] % (outer * part.extent) != 0) {
          fail_at(at, "a part whose extents divide those of its axis");
        }
        part.inner = extents[part.axis] / (outer * part.extent);
      }
      for (const Part& other : result) {
        if (other.axis == part.axis) fail_at(at, "an axis that is not listed yet");
      }
      result.push_back(part);
      if (!take(",") && !peek("}")) fail("',' or '}'");
    }
    return result;
  }

  std::vector<Numbers> mesh() {
    std::vector<std::string_view> names;
    Numbers extents;
    const std::size_t begin = position_;
    expect("[");
    while (!take("]")) {
      names.push_back(axis_name());
      expect("=");
      extents.push_back(number("the extent of the axis"));
      if (!take(",") && !peek("]")) fail("',' or ']'");
    }
    const std::int64_t total = total_of(extents, begin);
    const std::vector<Part> listed = parts(names, extents);
    // The last axis of the mesh is the minor one; in a group, the last one listed.
    std::map<std::int64_t, std::map<std::int64_t, std::int64_t>> groups;
    for (std::int64_t device = 0; device < total; ++device) {
      Numbers coordinate(extents.size());
      std::int64_t rest = device;
      for (std::size_t i = extents.size(); i-- > 0;) {
        coordinate[i] = rest % extents[i];
        rest /= extents[i];
      }
      std::int64_t member = 0;
      for (const Part& part : listed) {
        const std::int64_t value = coordinate[part.axis] / part.inner % part.extent;
        coordinate[part.axis] -= value * part.inner;
        member = member * part.extent + value;
      }
      std::int64_t group = 0;
      for (std::size_t i = 0; i < extents.size(); ++i) group = group * extents[i] + coordinate[i];
      groups[group][member] = device;
    }
    std::vector<Numbers> result;
    for (const auto& [group, members] : groups) {
      result.emplace_back();
      for (const auto& [member, device] : members) result.back().push_back(device);
    }
    return result;
  }

  std::string_view text_;
  std::size_t position_ = 0;
};

}  // namespace

std::vector<std::vector<std::int64_t>> expand_replica_groups(std::string_view text) {
  return GroupsParser(text).parse();
}

}  // namespace tpu::hlo
