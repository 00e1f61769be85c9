#include "sim/config/configuration.h"

#include <toml++/toml.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>
#include <tuple>

#include "models/parameter_table.h"
#include "sim/base/error.h"
#include "sim/config/built_in.h"
#include "sim/config/nearest_name.h"
#include "sim/config/parameter_text.h"
#include "sim/config/toml_text.h"

namespace tpu::config {
namespace {

constexpr std::string_view kSourceMark = "Source: ";

/// The value types of parameters as a TOML file holds them; `fail` gets what was expected.
template <class Fail>
void assign(std::uint32_t& to, const toml::node& node, Fail&& fail) {
  const auto value = node.value_exact<std::int64_t>();
  if (!value || *value < 0 || *value > std::numeric_limits<std::uint32_t>::max()) {
    fail(whole_number_range());
  }
  to = static_cast<std::uint32_t>(*value);
}
template <class Fail>
void assign(double& to, const toml::node& node, Fail&& fail) {
  const auto value = node.value<double>();
  if (!node.is_number() || !value || !std::isfinite(*value)) fail("expected a number");
  to = *value;
}
template <class Fail>
void assign(bool& to, const toml::node& node, Fail&& fail) {
  if (!node.is_boolean()) fail("expected true or false");
  to = node.as_boolean()->get();
}
template <class Fail>
void assign(std::string& to, const toml::node& node, Fail&& fail) {
  if (!node.is_string()) fail("expected a string");
  to = node.as_string()->get();
}

std::string found(const toml::node& node) { return ", found " + described(node); }

template <class Struct>
std::vector<std::string> field_names() {
  std::vector<std::string> names;
  for_each_field<Struct>([&](const auto& field) { names.emplace_back(field.name); });
  return names;
}

/// Reads the parameters of one text into a Configuration.
class Reader {
 public:
  Reader(Configuration& configuration, const std::string& text, const std::string& file)
      : configuration_(configuration), file_(file) {
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) lines_.push_back(line);
  }

  void read(const toml::table& table) { read_table(configuration_.params, table, ""); }

 private:
  template <class Struct>
  void read_table(Struct& params, const toml::table& table, const std::string& prefix);
  std::string place(const toml::source_region& region) const { return toml_place(file_, region); }
  std::string comment_behind(const toml::node& node) const;

  Configuration& configuration_;
  const std::string& file_;
  std::vector<std::string> lines_;
};

/// Goes on in the lines below that hold nothing else and are indented.
std::string Reader::comment_behind(const toml::node& node) const {
  const toml::source_position end = node.source().end;
  if (end.line == 0 || end.line > lines_.size()) return "";
  std::string comment;
  const auto add = [&comment](const std::string& line, std::size_t mark) {
    const std::size_t begin =
        mark == std::string::npos ? mark : line.find_first_not_of(' ', mark + 1);
    if (begin == std::string::npos) return;
    comment += (comment.empty() ? "" : " ") + line.substr(begin);
  };
  add(lines_[end.line - 1], lines_[end.line - 1].find('#', end.column > 0 ? end.column - 1 : 0));
  for (std::size_t i = end.line; i < lines_.size(); ++i) {
    const std::size_t mark = lines_[i].find_first_not_of(' ');
    if (mark == 0 || mark == std::string::npos || lines_[i][mark] != '#') break;
    add(lines_[i], mark);
  }
  const std::size_t mark = comment.find(kSourceMark);
  return mark == std::string::npos ? comment : comment.substr(mark + kSourceMark.size());
}

template <class Struct>
void Reader::read_table(Struct& params, const toml::table& table, const std::string& prefix) {
  for (auto&& entry : table) {
    const toml::key& key = entry.first;
    const toml::node& node = entry.second;
    const std::string_view name = key.str();
    if (prefix.empty() && name == "base") continue;
    bool known = false;
    for_each_field<Struct>([&](const auto& field) {
      if (field.name != name) return;
      known = true;
      auto& value = params.*(field.member);
      const std::string path = prefix + std::string(name);
      const std::string where = place(node.source());
      if constexpr (HasFields<std::decay_t<decltype(value)>>::value) {
        if (!node.is_table()) {
          throw ConfigurationError(where + ": " + path + ": expected a table [" + path + "]" +
                                   found(node));
        }
        read_table(value, *node.as_table(), path + ".");
      } else {
        assign(value, node, [&](const std::string& expected) {
          throw ConfigurationError(where + ": " + path + ": " + expected + found(node));
        });
        configuration_.origins[path] = {place(key.source()), comment_behind(node)};
      }
    });
    if (known) continue;
    std::vector<std::string> names = field_names<Struct>();
    if (prefix.empty()) names.emplace_back("base");
    const std::string group =
        prefix.empty() ? "at the top level" : "in " + prefix.substr(0, prefix.size() - 1);
    throw ConfigurationError(place(key.source()) + ": no parameter \"" + std::string(name) + "\" " +
                             group + suggestion(name, names));
  }
}

/// Reads texts with their bases into a configuration.
TomlWithBases texts_of(Configuration& configuration) {
  const auto names = [](bool as_base) {
    std::vector<std::string> known = built_in_names();
    if (as_base) {
      for (const std::string& part : built_in_parts()) known.push_back(part);
    }
    return known;
  };
  return {
      {{"configuration", "hbm.pin_mbps"}, built_in_files(), "", names},
      [&configuration](const toml::table& table, const std::string& text, const std::string& file) {
        Reader(configuration, text, file).read(table);
      }};
}

/// Refuses a file that leaves open what machine it is: a parameter of which the built-in machines
/// set a value would silently be the program's default.
void check_complete(const Configuration& configuration, const std::string& file) {
  std::vector<std::string> missing;
  for (const auto& [path, origin] : load_configuration("v3-8").origins) {
    if (configuration.origins.count(path) == 0) missing.push_back(path);
  }
  if (missing.empty()) return;
  throw ConfigurationError(
      file + ": expected a machine to start from, such as base = \"v3-8\", or every parameter; " +
      missing.front() +
      (missing.size() == 1 ? " is" : " and " + std::to_string(missing.size() - 1) + " more are") +
      " not set");
}

/// A basic string of TOML.
std::string quoted(const std::string& text) {
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string out = "\"";
  for (const char letter : text) {
    const auto code = static_cast<unsigned char>(letter);
    if (letter == '"' || letter == '\\') {
      out += '\\';
      out += letter;
    } else if (code < 0x20 || code == 0x7f) {
      out += "\\u00";
      out += kHex[code >> 4];
      out += kHex[code & 15];
    } else {
      out += letter;
    }
  }
  return out + '"';
}

std::string toml_value(const ParameterValue& parameter) {
  if (const auto* text = std::get_if<std::string>(&parameter.value)) return quoted(*text);
  std::string text = value_text(parameter);
  if (std::holds_alternative<double>(parameter.value) &&
      text.find_first_of(".e") == std::string::npos) {
    text += ".0";
  }
  return text;
}

/// A comment that stands behind "# " in a column, in lines of the width where it has one.
std::string broken(const std::string& comment, std::size_t width, std::size_t column) {
  if (width == 0) return comment;
  std::string text;
  std::size_t used = column + 2;
  for (std::size_t begin = 0; begin < comment.size();) {
    const std::size_t end = std::min(comment.find(' ', begin), comment.size());
    const std::size_t word = end - begin;
    if (begin > 0 && used + 1 + word > width) {
      text += '\n' + std::string(column, ' ') + "# ";
      used = column + 2;
    } else if (begin > 0) {
      text += ' ';
      ++used;
    }
    text.append(comment, begin, word);
    used += word;
    begin = end + 1;
  }
  return text;
}

}  // namespace

std::vector<std::string> built_in_names() {
  std::vector<std::string> names;
  for (const BuiltInFile& file : built_in_files()) {
    if (file.name.find('/') == std::string_view::npos) names.emplace_back(file.name);
  }
  // By generation, the smallest first.
  std::sort(names.begin(), names.end(), [](const std::string& a, const std::string& b) {
    const auto key = [](const std::string& name) {
      return std::tuple(name.substr(0, name.find('-')), name.size(), name);
    };
    return key(a) < key(b);
  });
  return names;
}

std::vector<std::string> built_in_parts() {
  std::vector<std::string> names;
  for (const BuiltInFile& file : built_in_files()) {
    if (file.name.find('/') != std::string_view::npos) names.emplace_back(file.name);
  }
  return names;
}

Configuration load_configuration(const std::string& name_or_file) {
  Configuration configuration;
  TomlWithBases texts = texts_of(configuration);
  texts.read(name_or_file);
  configuration.files = texts.files();
  if (is_toml_file_name(name_or_file)) check_complete(configuration, name_or_file);
  return configuration;
}

Configuration parse_configuration(const std::string& text, const std::string& file) {
  Configuration configuration;
  TomlWithBases texts = texts_of(configuration);
  texts.read_text(text, file);
  configuration.files = texts.files();
  return configuration;
}

std::string to_toml(const Configuration& configuration, std::size_t width) {
  struct Line {
    std::string text, comment;
  };
  std::vector<Line> lines;
  std::string group;
  for (const ParameterValue& parameter : parameter_table(configuration.params)) {
    const std::size_t dot = parameter.path.rfind('.');
    const std::string parent = dot == std::string::npos ? "" : parameter.path.substr(0, dot);
    const std::string name =
        dot == std::string::npos ? parameter.path : parameter.path.substr(dot + 1);
    if (parent != group) {
      lines.push_back({"", ""});
      lines.push_back({"[" + parent + "]", ""});
      group = parent;
    }
    std::string comment = parameter.help;
    if (!parameter.unit.empty()) comment = parameter.unit + ". " + comment;
    const auto origin = configuration.origins.find(parameter.path);
    const bool is_default = origin == configuration.origins.end();
    std::string source = is_default ? "the default of the program" : origin->second.source;
    if (source.empty()) source = "not stated";
    comment += " " + std::string(kSourceMark) + source;
    lines.push_back({name + " = " + toml_value(parameter), comment});
  }
  std::size_t column = 0;  // Of the comments.
  for (const Line& line : lines) column = std::max(column, line.text.size() + 2);
  if (width > 0) column = std::min(column, width / 2);
  std::string text;
  for (const Line& line : lines) {
    text += line.text;
    if (!line.comment.empty()) {
      if (line.text.size() + 2 > column) text += '\n';
      const std::size_t used = line.text.size() + 2 > column ? 0 : line.text.size();
      text.append(column - used, ' ');
      text += "# " + broken(line.comment, width, column);
    }
    text += '\n';
  }
  return text;
}

}  // namespace tpu::config
