#include "sim/config/toml_text.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "sim/base/error.h"
#include "sim/config/nearest_name.h"
#include "sim/config/toml_keys.h"

namespace tpu::config {
namespace {

constexpr std::string_view kSuffix = ".toml";
constexpr std::size_t kMostNested = 16;
/// A text that names two bases, which name two each, and so on, would be read 65,536 times.
constexpr std::size_t kMostTexts = 256;

}  // namespace

std::string toml_place(const std::string& file, const toml::source_region& region) {
  return to_string(SourceLocation{file, static_cast<int>(region.begin.line),
                                  static_cast<int>(region.begin.column)});
}

std::string described(const toml::node& node) {
  if (node.is_string()) return "the string \"" + node.as_string()->get() + "\"";
  if (node.is_integer()) return std::to_string(node.as_integer()->get());
  if (node.is_boolean()) return node.as_boolean()->get() ? "true" : "false";
  if (node.is_table()) return "a table";
  if (node.is_array()) return "an array";
  if (node.is_floating_point()) {
    std::ostringstream text;
    text << node.as_floating_point()->get();
    return text.str();
  }
  return "a date or time";
}

bool is_toml_file_name(std::string_view name) {
  return name.size() > kSuffix.size() && name.substr(name.size() - kSuffix.size()) == kSuffix;
}

std::string read_toml_file(const TomlKind& kind, const std::string& file,
                           const std::string& where) {
  const std::string expected = where + file + ": expected a " + std::string(kind.noun) + " file";
  struct stat status {};
  if (::stat(file.c_str(), &status) != 0) {
    throw ConfigurationError(expected + ": " + std::strerror(errno));
  }
  if (S_ISDIR(status.st_mode)) throw ConfigurationError(expected + ", found a directory");
  const std::string of_size =
      expected + " of at most " + std::to_string(kind.most_bytes >> 20) + " MiB, found ";
  if (static_cast<std::uintmax_t>(status.st_size) > kind.most_bytes) {
    throw ConfigurationError(of_size + std::to_string(status.st_size) + " bytes");
  }
  // A pipe or a device says no size and need not end.
  std::ifstream in(file, std::ios::binary);
  std::string text(kind.most_bytes + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (in.bad() || !(in || in.eof())) {
    throw ConfigurationError(where + file + ": the " + std::string(kind.noun) +
                             " file can't be read");
  }
  text.resize(static_cast<std::size_t>(in.gcount()));
  if (text.size() > kind.most_bytes) throw ConfigurationError(of_size + "more");
  return text;
}

toml::table parse_toml(const TomlKind& kind, const std::string& text, const std::string& file) {
  if (const std::size_t parts = longest_key(text); parts > kMostKeyParts) {
    throw ConfigurationError(file + ": expected keys of at most " + std::to_string(kMostKeyParts) +
                             " parts, such as " + std::string(kind.example_key) +
                             ", found one of " + std::to_string(parts));
  }
  try {
    return toml::parse(text, file);
  } catch (const toml::parse_error& error) {
    throw ConfigurationError(toml_place(file, error.source()) + ": " +
                             std::string(error.description()));
  }
}

void TomlWithBases::read_named(const std::string& name, const std::string& from,
                               const std::string& where) {
  if (is_toml_file_name(name)) {
    const std::string file = (std::filesystem::path(from).parent_path() / name).string();
    const std::string text = read_toml_file(library_.kind, file, where);
    files_.push_back(file);
    return read_text(text, file);
  }
  for (const BuiltInFile& file : library_.files) {
    if (file.name == name) {
      return read_text(std::string(file.text),
                       std::string(library_.folder) + name + std::string(kSuffix));
    }
  }
  throw ConfigurationError(where + "no " + std::string(library_.kind.noun) + " \"" + name + "\"" +
                           suggestion(name, library_.names(!from.empty())) +
                           "; the name of a file has to end in .toml");
}

void TomlWithBases::read_text(const std::string& text, const std::string& file) {
  const std::string noun(library_.kind.noun);
  if (std::find(open_.begin(), open_.end(), file) != open_.end()) {
    throw ConfigurationError(file + ": the " + noun + " is its own base, through " + open_.back());
  }
  if (open_.size() == kMostNested || ++texts_ > kMostTexts) {
    throw ConfigurationError(
        file + ": expected at most " +
        std::to_string(open_.size() == kMostNested ? kMostNested : kMostTexts) + " " + noun + "s " +
        (open_.size() == kMostNested ? "that are each other's base" : "as bases"));
  }
  open_.push_back(file);
  const toml::table table = parse_toml(library_.kind, text, file);
  if (const toml::node* base = table.get("base")) read_bases(*base, file);
  use_(table, text, file);
  open_.pop_back();
}

void TomlWithBases::read_bases(const toml::node& node, const std::string& file) {
  const auto read_one = [&](const toml::node& name) {
    const std::string where = toml_place(file, name.source()) + ": base: ";
    if (!name.is_string()) {
      throw ConfigurationError(where + "expected the name of a " + std::string(library_.kind.noun) +
                               ", found " + described(name));
    }
    read_named(name.as_string()->get(), file, where);
  };
  if (!node.is_array()) return read_one(node);
  for (const toml::node& name : *node.as_array()) read_one(name);
}

}  // namespace tpu::config
