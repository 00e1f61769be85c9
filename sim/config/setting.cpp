#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>
#include <vector>

#include "models/parameter_table.h"
#include "sim/base/error.h"
#include "sim/config/configuration.h"
#include "sim/config/derived_settings.h"
#include "sim/config/nearest_name.h"
#include "sim/config/parameter_text.h"
#include "sim/config/part_setting.h"

namespace tpu::config {
namespace {

/// The values of parameters out of the text of --set; `fail` gets what was expected.
template <class Fail>
void assign(std::uint32_t& to, const std::string& text, Fail&& fail) {
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, to);
  if (result.ec != std::errc() || result.ptr != end) fail(whole_number_range());
}
template <class Fail>
void assign(double& to, const std::string& text, Fail&& fail) {
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, to);
  if (result.ec != std::errc() || result.ptr != end || !std::isfinite(to)) {
    fail("expected a number");
  }
}
template <class Fail>
void assign(bool& to, const std::string& text, Fail&& fail) {
  if (text != "true" && text != "false") fail("expected true or false");
  to = text == "true";
}
template <class Fail>
void assign(std::string& to, const std::string& text, Fail&& /*fail*/) {
  to = text;
}

/// The text of the parameter that a derived quantity sets.
std::string derived_text(const DerivedSetting& derived, const MachineParams& params,
                         const std::string& flag, const std::string& text) {
  constexpr double kLargest = 1e15;
  double quantity = 0;
  assign(quantity, text, [&](const std::string& expected) {
    throw ConfigurationError(flag + ": " + expected + ", found \"" + text + "\"");
  });
  const double value = std::clamp(derived.value(params, quantity), -kLargest, kLargest);
  return std::to_string(std::llround(value));
}

}  // namespace

std::vector<std::string> setting_names() {
  std::vector<std::string> names;
  const MachineParams params;
  visit_parameters(params, "", [&](const std::string& name, const auto&, const auto&) {
    names.push_back(name);
  });
  for (const DerivedSetting& derived : derived_settings()) names.emplace_back(derived.name);
  return names;
}

void apply_setting(Configuration& configuration, const std::string& assignment) {
  const std::string flag = "--set " + assignment;
  const std::size_t equals = assignment.find('=');
  if (equals == std::string::npos || equals == 0) {
    throw UsageError(flag + ": expected PARAMETER=VALUE, such as hbm.pin_mbps=2000");
  }
  const std::string stated = assignment.substr(0, equals);
  std::string path = stated, text = assignment.substr(equals + 1);
  if (const DerivedSetting* derived = derived_setting(stated)) {
    path = derived->path;
    text = derived_text(*derived, configuration.params, flag, text);
  } else if (auto part = part_setting(configuration.params, stated, text, flag)) {
    path = std::move(part->path);
    text = std::move(part->text);
  }
  bool known = false;
  visit_parameters(
      configuration.params, "", [&](const std::string& name, const auto& /*field*/, auto& value) {
        if (name != path) return;
        known = true;
        assign(value, text, [&](const std::string& expected) {
          throw ConfigurationError(flag + ": " + expected + ", found \"" + text + "\"");
        });
        configuration.origins[path] = {flag, "the command line"};
      });
  if (!known) {
    throw ConfigurationError(flag + ": no parameter \"" + path + "\"" +
                             suggestion(path, setting_names()));
  }
}

}  // namespace tpu::config
