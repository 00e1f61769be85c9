#include "sim/config/scenario.h"

#include <toml++/toml.h>

#include <sstream>
#include <variant>

#include "sim/base/error.h"
#include "sim/config/built_in.h"
#include "sim/config/nearest_name.h"
#include "sim/config/toml_text.h"

namespace tpu::config {
namespace {

constexpr double kMost = 1e15;

using Member = std::variant<std::uint64_t Scenario::*, double Scenario::*, bool Scenario::*>;
struct Key {
  const char* path;
  Member member;
  double least = 0;
};
const std::vector<Key>& keys() {
  static const std::vector<Key> kList{
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
  return kList;
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

/// Sets a member from a value, or says what was expected.
void assign(Scenario& scenario, const Key& key, const toml::node& node, const std::string& where) {
  const auto fail = [&](const std::string& expected) {
    throw ConfigurationError(where + ": " + key.path + ": expected " + expected + ", found " +
                             described(node));
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

/// Sets what one text names.
void read_scenario_table(Scenario& scenario, const toml::table& table, const std::string& file) {
  for (auto&& [key, node] : table) {
    const std::string name(key.str());
    if (name == "base") continue;
    const std::string where = toml_place(file, key.source());
    if (!node.is_table()) key_of(name, where);  // No key stands outside a table.
    for (auto&& [inner, value] : *node.as_table()) {
      const std::string path = name + "." + std::string(inner.str());
      assign(scenario, key_of(path, toml_place(file, inner.source())), value,
             toml_place(file, value.source()));
    }
    if (node.as_table()->empty()) key_of(name + ".", where);
  }
}

/// Reads texts with their bases into a scenario.
TomlWithBases texts_of_scenario(Scenario& scenario) {
  return {{{"scenario", "launch.us"},
           built_in_scenario_files(),
           "scenarios/",
           [](bool) { return built_in_scenarios(); }},
          [&scenario](const toml::table& table, const std::string&, const std::string& file) {
            read_scenario_table(scenario, table, file);
          }};
}

}  // namespace

std::vector<std::string> built_in_scenarios() {
  std::vector<std::string> names;
  for (const BuiltInFile& file : built_in_scenario_files()) names.emplace_back(file.name);
  return names;
}

Scenario load_scenario(const std::string& name_or_file) {
  Scenario scenario;
  TomlWithBases texts = texts_of_scenario(scenario);
  texts.read(name_or_file);
  scenario.files = texts.files();
  scenario.name = name_or_file;
  return scenario;
}

Scenario parse_scenario(const std::string& text, const std::string& file) {
  Scenario scenario;
  TomlWithBases texts = texts_of_scenario(scenario);
  texts.read_text(text, file);
  scenario.files = texts.files();
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
