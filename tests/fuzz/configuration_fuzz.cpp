#include "sim/base/error.h"
#include "sim/config/configuration.h"
#include "tests/fuzz/one_input.h"
#include "tests/fuzz/text_mutator.h"

/// A configuration file; behind a line "====" the values of --set, one a line. It is a machine
/// whose file reads back, or it is refused.
void tpu::fuzz::one_input(const std::uint8_t* data, std::size_t size) {
  using namespace tpu::config;
  const std::string text(reinterpret_cast<const char*>(data), size);
  const std::size_t end = text.find("\n====\n");
  std::string printed;
  try {
    Configuration configuration = parse_configuration(text.substr(0, end), "f.toml");
    std::string rest = end == std::string::npos ? "" : text.substr(end + 6);
    while (!rest.empty()) {
      const std::size_t line = std::min(rest.find('\n'), rest.size());
      if (line > 0) apply_setting(configuration, rest.substr(0, line));
      rest.erase(0, line + 1);
    }
    check(configuration);
    printed = to_toml(configuration);
  } catch (const tpu::UserError&) {
    return;
  }
  // What we print of a machine that passed check() is a configuration: no mistake of a user is
  // left.
  parse_configuration(printed, "printed.toml");
}
