#include "sim/config/part_setting.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string_view>

#include "models/slow_parts.h"
#include "sim/base/error.h"

namespace tpu::config {
namespace {

constexpr double kMbpsOfGbPerS = 8000;
constexpr double kFastestLink = 125000;  // GB/s, the limit of ici.link_mbps.

/// All of `text` as a number.
template <class Number>
bool read_all(std::string_view text, Number& number) {
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, number);
  return result.ec == std::errc() && result.ptr == end;
}

std::string chip_setting(const MachineParams& params, std::string_view chip,
                         const std::string& value, const std::string& flag) {
  std::uint32_t number = 0, mhz = 0;
  if (!read_all(chip, number)) {
    throw ConfigurationError(flag + ": expected the number of a chip, such as chip[3], found \"" +
                             std::string(chip) + "\"");
  }
  if (!read_all(value, mhz)) {
    throw ConfigurationError(flag + ": expected MHz as a whole number, found \"" + value + "\"");
  }
  ChipClocks clocks = read_chip_clocks(params.slow_chips);
  clocks[number] = mhz;
  return text_of(clocks);
}

/// A parameter of [host] of one host.
std::string host_setting(const MachineParams& params, std::string_view host,
                         const std::string& name, const std::string& value,
                         const std::string& flag) {
  std::uint32_t number = 0;
  double read = 0;
  if (!read_all(host, number)) {
    throw ConfigurationError(flag + ": expected the number of a host, such as host[3], found \"" +
                             std::string(host) + "\"");
  }
  if (!read_all(value, read)) {
    throw ConfigurationError(flag + ": expected a number, found \"" + value + "\"");
  }
  HostSettings hosts = read_host_settings(params.slow_hosts);
  hosts[number][name] = read;
  return text_of(hosts);
}

std::string link_setting(const MachineParams& params, std::string_view chips,
                         const std::string& value, const std::string& flag) {
  std::uint32_t a = 0, b = 0;
  const std::size_t dash = chips.find('-');
  if (dash == std::string_view::npos || !read_all(chips.substr(0, dash), a) ||
      !read_all(chips.substr(dash + 1), b)) {
    throw ConfigurationError(flag +
                             ": expected the numbers of two chips, such as link[0-1], found \"" +
                             std::string(chips) + "\"");
  }
  double gb_per_s = 0;
  if (!read_all(value, gb_per_s) || !(gb_per_s >= 0) || gb_per_s > kFastestLink) {
    throw ConfigurationError(flag + ": expected 0 (broken) to 125000 GB/s, found \"" + value +
                             "\"");
  }
  const auto mbps = static_cast<std::uint32_t>(std::llround(gb_per_s * kMbpsOfGbPerS));
  if (mbps == 0 && gb_per_s > 0) {
    throw ConfigurationError(flag + ": expected 0 (broken) or at least 0.000125 GB/s, found \"" +
                             value + "\"");
  }
  LinkRates rates = read_link_rates(params.ici.slow_links);
  rates[std::minmax(a, b)] = mbps;
  return text_of(rates);
}

}  // namespace

std::optional<PartSetting> part_setting(const MachineParams& params, const std::string& name,
                                        const std::string& value, const std::string& flag) {
  const std::size_t open = name.find('['), close = name.find(']');
  if (open == std::string::npos || close == std::string::npos || close < open) return std::nullopt;
  const std::string kind = name.substr(0, open) + "[]" + name.substr(close + 1);
  const std::string_view which = std::string_view(name).substr(open + 1, close - open - 1);
  if (kind == "chip[].clock_mhz") {
    return PartSetting{"slow_chips", chip_setting(params, which, value, flag)};
  }
  if (kind == "link[].gb_per_s") {
    return PartSetting{"ici.slow_links", link_setting(params, which, value, flag)};
  }
  if (kind.rfind("host[].", 0) == 0) {
    return PartSetting{"slow_hosts", host_setting(params, which, kind.substr(7), value, flag)};
  }
  throw ConfigurationError(flag +
                           ": expected chip[NUMBER].clock_mhz, host[NUMBER].PARAMETER or "
                           "link[NUMBER-NUMBER].gb_per_s of single parts, found \"" +
                           name + "\"");
}

}  // namespace tpu::config
