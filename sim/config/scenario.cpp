#include "sim/config/scenario.h"

#include <sys/stat.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>
#include <variant>

#include "sim/base/error.h"
#include "sim/config/built_in.h"
#include "sim/config/nearest_name.h"
#include "sim/config/toml_keys.h"

namespace tpu::config {
namespace {

constexpr std::uintmax_t kMostBytes = std::uintmax_t{1} << 20;
constexpr std::size_t kMostBases = 8;
constexpr double kMost = 1e15;

using Member = std::variant<std::uint64_t Scenario::*, double Scenario::*, bool Scenario::*>;
struct Key {
  const char* path;
  Member member;
  double least = 0;
};
const std::vector<Key>& keys() {
  static const std::vector<Key> list{
      {"training.epochs", &Scenario::epochs, 1},
      {"training.examples", &Scenario::examples},
      {"training.drop_last", &Scenario::drop_last},
      {"compile.base_s", &Scenario::compile_base_s},
      {"compile.ms_per_instruction", &Scenario::compile_ms_per_instruction},
      {"compile.cached", &Scenario::compile_cached},
      {"launch.us", &Scenario::launch_us},
      {"launch.iterations_per_loop", &Scenario::launch_steps, 1},
      {"launch.ahead", &Scenario::launch_ahead},
      {"transfer.in_background", &Scenario::transfer_in_background},
      {"transfer.mb_per_s", &Scenario::transfer_mb_per_s},
      {"readback.every", &Scenario::readback_every},
      {"readback.us", &Scenario::readback_us},
      {"fallback.per_step", &Scenario::fallback_per_step},
      {"fallback.bytes", &Scenario::fallback_bytes},
      {"fallback.cpu_us", &Scenario::fallback_cpu_us},
      {"evaluation.every", &Scenario::evaluation_every},
      {"evaluation.examples", &Scenario::evaluation_examples},
      {"checkpoint.every", &Scenario::checkpoint_every},
      {"checkpoint.mb_per_s", &Scenario::checkpoint_mb_per_s},
      {"checkpoint.in_background", &Scenario::checkpoint_in_background},
      {"preemption.after", &Scenario::preemption_after},
      {"preemption.restart_s", &Scenario::preemption_restart_s},
  };
  return list;
}

std::vector<std::string> key_names() {
  std::vector<std::string> names;
  for (const Key& key : keys()) names.emplace_back(key.path);
  return names;
}

const Key& key_of(const std::string& path, const std::string& where) {
  for (const Key& key : keys()) {
    if (path == key.path) return key;
  }
  throw ConfigurationError(where + ": a scenario has no \"" + path + "\"" +
                           suggestion(path, key_names()));
}

std::string text_of(const toml::node& node) {
  std::ostringstream text;
  if (node.is_string()) {
    text << '"' << node.as_string()->get() << '"';
  } else if (node.is_integer()) {
    text << node.as_integer()->get();
  } else if (node.is_floating_point()) {
    text << node.as_floating_point()->get();
  } else if (node.is_boolean()) {
    text << (node.as_boolean()->get() ? "true" : "false");
  } else {
    text << (node.is_table() ? "a table" : node.is_array() ? "an array" : "a date or time");
  }
  return text.str();
}

/// Sets a member from a value, or says what was expected.
void assign(Scenario& scenario, const Key& key, const toml::node& node, const std::string& where) {
  const auto fail = [&](const std::string& expected) {
    throw ConfigurationError(where + ": " + key.path + ": expected " + expected + ", found " +
                             text_of(node));
  };
  std::ostringstream range;
  range << key.least << " to " << kMost;
  if (const auto* truth = std::get_if<bool Scenario::*>(&key.member)) {
    if (!node.is_boolean()) fail("true or false");
    scenario.** truth = node.as_boolean()->get();
  } else if (const auto* count = std::get_if<std::uint64_t Scenario::*>(&key.member)) {
    const auto value = node.value_exact<std::int64_t>();
    if (!value || static_cast<double>(*value) < key.least || static_cast<double>(*value) > kMost) {
      fail("a whole number from " + range.str());
    }
    scenario.** count = static_cast<std::uint64_t>(*value);
  } else {
    const auto value = node.value<double>();
    if (!node.is_number() || !value || !(*value >= key.least && *value <= kMost)) {
      fail("a number from " + range.str());
    }
    scenario.*std::get<double Scenario::*>(key.member) = *value;
  }
}

class ScenarioReader {
 public:
  explicit ScenarioReader(Scenario& scenario) : scenario_(scenario) {}

  void read_named(const std::string& name, const std::string& where) {
    for (const BuiltInFile& file : built_in_scenario_files()) {
      if (file.name == name)
        return read_text(std::string(file.text), "scenarios/" + name + ".toml");
    }
    const std::string_view ending = ".toml";
    if (name.size() > ending.size() &&
        name.compare(name.size() - ending.size(), ending.size(), ending) == 0) {
      return read_file(name, where);
    }
    throw ConfigurationError(where + "no scenario \"" + name + "\"" +
                             suggestion(name, built_in_scenarios()) +
                             "; a file of your own ends in .toml");
  }

  void read_text(const std::string& text, const std::string& file) {
    if (++depth_ > kMostBases) {
      throw ConfigurationError(file + ": expected at most " + std::to_string(kMostBases) +
                               " bases, one of the other; do they name each other?");
    }
    if (longest_key(text) > kMostKeyParts) {
      throw ConfigurationError(file + ": expected keys of two parts, found one of more than " +
                               std::to_string(kMostKeyParts));
    }
    toml::table table;
    try {
      table = toml::parse(text, file);
    } catch (const toml::parse_error& error) {
      throw ConfigurationError(place(file, error.source()) + ": " +
                               std::string(error.description()));
    }
    read_table(table, file);
  }

 private:
  static std::string place(const std::string& file, const toml::source_region& region) {
    return to_string(SourceLocation{file, static_cast<int>(region.begin.line),
                                    static_cast<int>(region.begin.column)});
  }

  void read_file(const std::string& name, const std::string& where) {
    struct stat status {};
    if (::stat(name.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) {
      throw ConfigurationError(where + name + ": no such scenario file");
    }
    if (static_cast<std::uintmax_t>(status.st_size) > kMostBytes) {
      throw ConfigurationError(name + ": expected a scenario of at most 1 MiB, found " +
                               std::to_string(status.st_size) + " bytes");
    }
    std::ifstream in(name, std::ios::binary);
    std::ostringstream text;
    text << in.rdbuf();
    if (!in) throw ConfigurationError(name + ": the scenario can't be read");
    scenario_.files.push_back(name);
    read_text(text.str(), name);
  }

  void read_table(const toml::table& table, const std::string& file) {
    if (const toml::node* base = table.get("base")) {
      const std::string where = place(file, base->source()) + ": ";
      if (!base->is_string()) {
        throw ConfigurationError(where + "base: expected a name or file, found " + text_of(*base));
      }
      read_named(base->as_string()->get(), where);
    }
    for (auto&& [key, node] : table) {
      const std::string name(key.str());
      if (name == "base") continue;
      const std::string where = place(file, key.source());
      if (!node.is_table()) key_of(name, where);  // No key stands outside a table.
      for (auto&& [inner, value] : *node.as_table()) {
        const std::string path = name + "." + std::string(inner.str());
        assign(scenario_, key_of(path, place(file, inner.source())), value,
               place(file, value.source()));
      }
      if (node.as_table()->empty()) key_of(name + ".", where);
    }
  }

  Scenario& scenario_;
  std::size_t depth_ = 0;
};

}  // namespace

std::vector<std::string> built_in_scenarios() {
  std::vector<std::string> names;
  for (const BuiltInFile& file : built_in_scenario_files()) names.emplace_back(file.name);
  return names;
}

Scenario load_scenario(const std::string& name_or_file) {
  Scenario scenario;
  ScenarioReader(scenario).read_named(name_or_file, "");
  scenario.name = name_or_file;
  return scenario;
}

Scenario parse_scenario(const std::string& text, const std::string& file) {
  Scenario scenario;
  ScenarioReader(scenario).read_text(text, file);
  scenario.name = file;
  return scenario;
}

void apply_to_scenario(Scenario& scenario, const std::string& assignment) {
  const std::string where = "--between " + assignment;
  const std::size_t equals = assignment.find('=');
  if (equals == std::string::npos) {
    throw ConfigurationError(where + ": expected KEY=VALUE, such as readback.every=10");
  }
  const Key& key = key_of(assignment.substr(0, equals), where);
  if (assignment.find_first_of("\n\r") != std::string::npos) {
    throw ConfigurationError("--between: expected KEY=VALUE in one line");
  }
  try {
    const toml::table table = toml::parse("value = " + assignment.substr(equals + 1));
    if (table.size() == 1) return assign(scenario, key, *table.get("value"), where);
  } catch (const toml::parse_error&) {
  }
  throw ConfigurationError(where + ": expected a number, true or false, found \"" +
                           assignment.substr(equals + 1) + "\"");
}

}  // namespace tpu::config
