#include "workloads/graph/replica_groups.h"

#include <map>
#include <string>

#include "sim/base/token_cursor.h"

namespace tpu::hlo {

namespace {

using Numbers = std::vector<std::int64_t>;

constexpr std::size_t kMostAxes = 64;

class GroupsParser {
 public:
  explicit GroupsParser(TokenCursor& cursor) : cursor_(cursor) {}

  std::vector<Numbers> any() {
    if (cursor_.peek() == '[') return iota();
    if (cursor_.take("mesh")) return mesh();
    if (!cursor_.take('{')) cursor_.fail("{{0,1},{2,3}}, [2,2]<=[4] or mesh['x'=2,'y'=2] {'x'}");
    std::vector<Numbers> groups;
    cursor_.list('}', [&] { groups.push_back(numbers('{', '}', "a replica")); });
    return groups;
  }

 private:
  Numbers numbers(char opening, char closing, std::string_view what) {
    return cursor_.whole_numbers(opening, closing, what);
  }

  std::int64_t total_of(const Numbers& extents, const char* at) const {
    std::int64_t total = 1;
    if (extents.size() > kMostAxes) cursor_.fail_at(at, "at most 64 axes");
    for (std::int64_t extent : extents) {
      if (extent < 1 || extent > kMostReplicas || (total *= extent) > kMostReplicas) {
        cursor_.fail_at(at, "at most 2^20 replicas");
      }
    }
    return total;
  }

  std::vector<Numbers> iota() {
    const char* const begin = cursor_.next();
    const Numbers groups = numbers('[', ']', "an extent");
    cursor_.expect("<=");
    const Numbers mesh = numbers('[', ']', "an extent");
    Numbers order(mesh.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::int64_t>(i);
    if (cursor_.take('T')) {
      const char* const at = cursor_.next();
      order = numbers('(', ')', "an axis");
      std::vector<bool> seen(mesh.size(), false);
      for (std::int64_t axis : order) {
        if (axis >= static_cast<std::int64_t>(mesh.size()) || seen[static_cast<std::size_t>(axis)])
          cursor_.fail_at(at, "each axis of the mesh once");
        seen[static_cast<std::size_t>(axis)] = true;
      }
      if (order.size() != mesh.size()) cursor_.fail_at(at, "each axis of the mesh once");
    }
    const std::int64_t total = total_of(mesh, begin);
    if (groups.size() != 2 || groups[0] < 1 || groups[1] < 1 || groups[0] > total ||
        groups[1] > total || groups[0] * groups[1] != total) {
      cursor_.fail_at(begin, "[groups,members] whose product is " + std::to_string(total));
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

  std::string_view axis_name() { return cursor_.quoted("the name of an axis"); }

  /// A listed axis, or the `extent` values of it between the outer ones and the `inner` ones.
  struct Part {
    std::size_t axis = 0;
    std::int64_t extent = 1, inner = 1;
  };

  std::vector<Part> parts(const std::vector<std::string_view>& names, const Numbers& extents) {
    std::vector<Part> result;
    cursor_.list('{', '}', [&] {
      const std::string_view name = axis_name();
      const char* const at = name.data();
      Part part;
      while (part.axis < names.size() && names[part.axis] != name) ++part.axis;
      if (part.axis == names.size()) cursor_.fail_at(at, "an axis of the mesh");
      part.extent = extents[part.axis];
      if (cursor_.take(':')) {
        cursor_.expect('(');
        const std::int64_t outer = cursor_.whole_number("the extent outside of the part");
        cursor_.expect(')');
        part.extent = cursor_.whole_number("the extent of the part");
        if (outer < 1 || part.extent < 1 || outer > extents[part.axis] ||
            part.extent > extents[part.axis] || extents[part.axis] % (outer * part.extent) != 0) {
          cursor_.fail_at(at, "a part whose extents divide those of its axis");
        }
        part.inner = extents[part.axis] / (outer * part.extent);
      }
      for (const Part& other : result) {
        if (other.axis == part.axis) cursor_.fail_at(at, "an axis that is not listed yet");
      }
      result.push_back(part);
    });
    return result;
  }

  std::vector<Numbers> mesh() {
    std::vector<std::string_view> names;
    Numbers extents;
    const char* const begin = cursor_.next();
    cursor_.list('[', ']', [&] {
      names.push_back(axis_name());
      cursor_.expect('=');
      extents.push_back(cursor_.whole_number("the extent of the axis"));
    });
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

  TokenCursor& cursor_;
};

}  // namespace

std::vector<std::vector<std::int64_t>> read_replica_groups(TokenCursor& cursor) {
  std::vector<std::vector<std::int64_t>> groups = GroupsParser(cursor).any();
  if (!cursor.at_end()) cursor.fail("the end of the groups");
  return groups;
}

std::vector<std::vector<std::int64_t>> expand_replica_groups(std::string_view text) {
  TokenCursor cursor(text, "replica groups", TokenCursor::Places::kPartOfIt);
  return read_replica_groups(cursor);
}

}  // namespace tpu::hlo
