#include "sim/sweep/sweep_plan.h"

#include <toml++/toml.h>

#include <algorithm>
#include <charconv>

#include "sim/base/error.h"
#include "sim/config/nearest_name.h"
#include "sim/config/toml_text.h"

namespace tpu::sweep {
namespace {

constexpr std::size_t kMostPoints = 1000000;
constexpr std::size_t kMostBytes = std::size_t{1} << 29;  ///< Of the settings of all points.
constexpr config::TomlKind kSweepKind{"sweep", "core.mxu.count", std::size_t{1} << 24};
constexpr const char* kWorkload = "workload";

bool has(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// A name with the values that it takes, and where it stands.
struct Axis {
  std::string name;
  std::vector<std::string> values;
  toml::source_position place;
};

/// Reads the tables of one text.
class Reader {
 public:
  Reader(const std::string& file, const SettingNames& known) : known_(known) { plan_.file = file; }

  Plan read(const toml::table& table) {
    const std::vector<Axis> common = settings_of(table, true);
    for (const Axis& axis : common) note(axis.name);
    each_table(table, "grid", [&](const toml::table& grid) { add_grid(common, grid); });
    std::size_t points = 0;
    each_table(table, "points", [&](const toml::table&) { ++points; });
    check_room(points, common);
    each_table(table, "points",
               [&](const toml::table& point) { add_point(common, settings_of(point, false)); });
    if (plan_.points.empty()) {
      throw ConfigurationError(plan_.file +
                               ": expected a [grid] of lists or [[points]], found neither");
    }
    for (Point& point : plan_.points) order(point);
    return std::move(plan_);
  }

 private:
  [[noreturn]] void fail(const toml::source_position& at, const std::string& message) const {
    throw ConfigurationError(to_string(SourceLocation{plan_.file, static_cast<int>(at.line),
                                                      static_cast<int>(at.column)}) +
                             ": " + message);
  }

  template <class Use>
  void each_table(const toml::table& table, const char* name, Use&& use) const {
    const toml::node* node = table.get(name);
    if (node == nullptr) return;
    if (node->is_table()) return use(*node->as_table());
    const std::string expected =
        std::string(name) + ": expected a table, [" + name + "] or [[" + name + "]]";
    if (!node->is_array()) fail(node->source().begin, expected);
    for (const toml::node& each : *node->as_array()) {
      if (!each.is_table()) fail(each.source().begin, expected);
      use(*each.as_table());
    }
  }

  std::string text_of(const toml::node& node, const std::string& name) const {
    if (node.is_string()) return node.as_string()->get();
    if (node.is_integer()) return std::to_string(node.as_integer()->get());
    if (node.is_boolean()) return node.as_boolean()->get() ? "true" : "false";
    if (node.is_floating_point()) {
      char text[40];
      const auto end = std::to_chars(text, text + sizeof text, node.as_floating_point()->get());
      return {text, end.ptr};
    }
    fail(node.source().begin, name + ": expected a string, a number, true or false");
  }

  /// The settings of a table, dotted, in the order of the text.
  std::vector<Axis> settings_of(const toml::table& table, bool is_top) const {
    std::vector<Axis> axes;
    collect(table, "", is_top, axes);
    std::sort(axes.begin(), axes.end(), [](const Axis& a, const Axis& b) {
      return std::pair(a.place.line, a.place.column) < std::pair(b.place.line, b.place.column);
    });
    return axes;
  }

  void collect(const toml::table& table, const std::string& prefix, bool is_top,
               std::vector<Axis>& axes) const {
    for (auto&& [key, node] : table) {
      const std::string name = prefix + std::string(key.str());
      if (is_top && (name == "grid" || name == "points")) continue;
      if (node.is_table()) {
        collect(*node.as_table(), name + ".", false, axes);
        continue;
      }
      axes.push_back({checked(name, key.source().begin), {}, key.source().begin});
      if (!node.is_array()) {
        axes.back().values.push_back(text_of(node, name));
        continue;
      }
      for (const toml::node& value : *node.as_array()) {
        axes.back().values.push_back(text_of(value, name));
      }
    }
  }

  /// The name as flags and parameters have it.
  std::string checked(std::string name, const toml::source_position& at) const {
    if (name == kWorkload || has(known_.parameters, name)) return name;
    std::string flag = name;
    std::replace(flag.begin(), flag.end(), '_', '-');
    if (has(known_.flags, flag)) return flag;
    std::vector<std::string> all = known_.flags;
    all.emplace_back(kWorkload);
    all.insert(all.end(), known_.parameters.begin(), known_.parameters.end());
    const std::string nearest = config::nearest_name(name, all);
    fail(at,
         "a sweep sets workload, flags of `tpusim run` and parameters of `tpusim show`, found \"" +
             name + "\"" + (nearest.empty() ? "" : "; the nearest is \"" + nearest + "\""));
  }

  void note(const std::string& name) {
    if (!has(plan_.names, name)) plan_.names.push_back(name);
  }

  /// Settings that have one value each.
  void set_all(Point& point, const std::vector<Axis>& axes) {
    for (const Axis& axis : axes) {
      if (axis.values.size() != 1) {
        fail(axis.place, axis.name + ": expected one value (lists stand in [grid]), found " +
                             std::to_string(axis.values.size()));
      }
      set(point, axis.name, axis.values[0]);
    }
  }

  void add_point(const std::vector<Axis>& common, const std::vector<Axis>& own) {
    Point point;
    set_all(point, common);
    set_all(point, own);
    add(std::move(point));
  }

  void add_grid(const std::vector<Axis>& common, const toml::table& table) {
    const std::vector<Axis> axes = settings_of(table, false);
    for (const Axis& axis : axes) {
      if (axis.values.empty()) fail(axis.place, axis.name + ": expected a value, found none");
    }
    std::size_t points = axes.empty() ? 0 : 1;
    for (const Axis& axis : axes) {
      points = std::min(points * axis.values.size(), kMostPoints + 1);
    }
    std::vector<Axis> all = common;
    all.insert(all.end(), axes.begin(), axes.end());
    check_room(points, all);
    std::vector<std::size_t> at(axes.size(), 0);
    for (bool more = !axes.empty(); more;) {
      Point point;
      set_all(point, common);
      for (std::size_t i = 0; i < axes.size(); ++i) set(point, axes[i].name, axes[i].values[at[i]]);
      add(std::move(point));
      more = false;
      for (std::size_t i = axes.size(); i-- > 0 && !more;) {
        at[i] = (at[i] + 1) % axes[i].values.size();
        more = at[i] != 0;
      }
    }
  }

  /// Refuses points that are too many, or take too much memory, before they are made. Each of
  /// them has one value of each of the settings.
  void check_room(std::size_t points, const std::vector<Axis>& settings) {
    points_ += points;
    if (points_ > kMostPoints) {
      throw ConfigurationError(plan_.file + ": expected at most " + std::to_string(kMostPoints) +
                               " points");
    }
    std::size_t bytes = sizeof(Point);
    for (const Axis& axis : settings) {
      std::size_t longest = 0;
      for (const std::string& value : axis.values) longest = std::max(longest, value.size());
      bytes += sizeof(std::pair<std::string, std::string>) + axis.name.size() + longest;
    }
    bytes_ += points * bytes;
    if (bytes_ > kMostBytes) {
      throw ConfigurationError(plan_.file + ": expected points whose settings take at most " +
                               std::to_string(kMostBytes >> 20) + " MiB, found " +
                               std::to_string(bytes_ >> 20) +
                               " MiB; shorter values or fewer points");
    }
  }

  void set(Point& point, const std::string& name, const std::string& value) {
    note(name);
    for (auto& [known, text] : point.settings) {
      if (known == name) {
        text = value;
        return;
      }
    }
    point.settings.emplace_back(name, value);
  }

  void add(Point point) {
    if (point.value(kWorkload).empty()) {
      throw ConfigurationError(plan_.file + ": point " + std::to_string(plan_.points.size() + 1) +
                               ": expected a workload, such as workload = \"matmul\"");
    }
    plan_.points.push_back(std::move(point));
  }

  void order(Point& point) const {
    const auto place = [&](const std::string& name) {
      return std::find(plan_.names.begin(), plan_.names.end(), name);
    };
    std::sort(point.settings.begin(), point.settings.end(),
              [&](const auto& a, const auto& b) { return place(a.first) < place(b.first); });
  }

  const SettingNames& known_;
  Plan plan_;
  std::size_t points_ = 0, bytes_ = 0;  ///< That were found room for; of their settings.
};

}  // namespace

std::string Point::value(const std::string& name) const {
  for (const auto& [known, text] : settings) {
    if (known == name) return text;
  }
  return "";
}

std::vector<std::string> Point::words(const SettingNames& known) const {
  std::vector<std::string> words{"run", value(kWorkload)};
  for (const auto& [name, text] : settings) {
    if (name == kWorkload) continue;
    const bool is_flag = has(known.flags, name);
    words.push_back(is_flag ? "--" + name : "--set");
    words.push_back(is_flag ? text : name + "=" + text);
  }
  return words;
}

Plan parse_plan(const std::string& text, const std::string& file, const SettingNames& known) {
  return Reader(file, known).read(config::parse_toml(kSweepKind, text, file));
}

Plan read_plan(const std::string& file, const SettingNames& known) {
  return parse_plan(config::read_toml_file(kSweepKind, file, ""), file, known);
}

std::vector<std::size_t> shard(std::size_t points, std::size_t i, std::size_t n) {
  std::vector<std::size_t> share;
  for (std::size_t point = i - 1; point < points; point += n) share.push_back(point);
  return share;
}

}  // namespace tpu::sweep
