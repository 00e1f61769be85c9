#include "models/slow_parts.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <set>
#include <sstream>
#include <string_view>

#include "sim/base/error.h"

namespace tpu {
namespace {

constexpr const char* kChips = "slow_chips";
constexpr const char* kHosts = "slow_hosts";
constexpr const char* kLinks = "ici.slow_links";

/// A number at the begin of `text`, which is taken off.
bool take_number(std::string_view& text, std::uint32_t& number) {
  const auto result = std::from_chars(text.data(), text.data() + text.size(), number);
  if (result.ec != std::errc()) return false;
  text.remove_prefix(static_cast<std::size_t>(result.ptr - text.data()));
  return true;
}

bool take_sign(std::string_view& text, char sign) {
  if (text.empty() || text.front() != sign) return false;
  text.remove_prefix(1);
  return true;
}

/// Calls `read(word)` for each word of a list; it says whether it understood.
template <class Read>
void read_list(const std::string& text, const std::string& parameter, const char* expected,
               const Read& read) {
  std::istringstream in(text);
  for (std::string word; in >> word;) {
    if (read(std::string_view(word))) continue;
    throw ConfigurationError(parameter + ": expected " + expected + ", found \"" + word + "\"");
  }
}

void check_chip(const MachineParams& params, const char* parameter, std::uint32_t chip) {
  if (chip < params.chips()) return;
  throw ConfigurationError(std::string(parameter) + ": expected chips below " +
                           std::to_string(params.chips()) + " (" + params.topology().text() +
                           "), found chip " + std::to_string(chip));
}

bool are_linked(const isa::Topology& slice, std::uint32_t a, std::uint32_t b) {
  for (std::uint8_t d = 0; d < isa::Topology::kDirections; ++d) {
    const auto direction = static_cast<isa::Topology::Direction>(d);
    if (slice.has_link(a, direction) && slice.neighbour(a, direction) == b) return true;
  }
  return false;
}

/// Sets a parameter of a single host. How many chips it feeds is one number for all of them.
void set_host_value(HostParams& host, const std::string& name, double value) {
  bool known = false;
  for_each_field<HostParams>([&](const auto& field) {
    if (field.name != name || name == "chips") return;
    known = true;
    auto& member = host.*(field.member);
    using Type = std::decay_t<decltype(member)>;
    if constexpr (std::is_integral_v<Type>) {
      constexpr auto kMost = static_cast<double>(std::numeric_limits<Type>::max());
      if (!(value >= 0) || value > kMost || value != std::floor(value)) {
        std::ostringstream found;
        found << kHosts << ": expected a whole number of " << name << ", found " << value;
        throw ConfigurationError(found.str());
      }
    }
    member = static_cast<Type>(value);
  });
  if (known) return;
  std::string names;
  for_each_field<HostParams>([&](const auto& field) {
    if (field.name != "chips") names += (names.empty() ? "" : ", ") + std::string(field.name);
  });
  throw ConfigurationError(std::string(kHosts) + ": expected a parameter of one host (" + names +
                           "), found \"" + name + "\"");
}

}  // namespace

ChipClocks read_chip_clocks(const std::string& text) {
  ChipClocks clocks;
  read_list(text, kChips, "CHIP=MHZ, such as 3=470", [&](std::string_view word) {
    std::uint32_t chip = 0, mhz = 0;
    if (!take_number(word, chip) || !take_sign(word, '=') || !take_number(word, mhz)) return false;
    clocks[chip] = mhz;
    return word.empty();
  });
  return clocks;
}

LinkRates read_link_rates(const std::string& text) {
  LinkRates rates;
  read_list(text, kLinks, "CHIP-CHIP=MBPS, such as 0-1=82000", [&](std::string_view word) {
    std::uint32_t a = 0, b = 0, mbps = 0;
    if (!take_number(word, a) || !take_sign(word, '-') || !take_number(word, b)) return false;
    if (!take_sign(word, '=') || !take_number(word, mbps)) return false;
    rates[std::minmax(a, b)] = mbps;
    return word.empty();
  });
  return rates;
}

HostSettings read_host_settings(const std::string& text) {
  HostSettings hosts;
  read_list(text, kHosts, "HOST.PARAMETER=VALUE, such as 3.vcpus=4", [&](std::string_view word) {
    std::uint32_t host = 0;
    const std::size_t equals = word.find('=');
    if (!take_number(word, host) || !take_sign(word, '.')) return false;
    const std::string name(word.substr(0, word.find('=')));
    word.remove_prefix(name.size());
    double value = 0;
    if (equals == std::string_view::npos || !take_sign(word, '=')) return false;
    const auto read = std::from_chars(word.data(), word.data() + word.size(), value);
    if (read.ec != std::errc() || read.ptr != word.data() + word.size()) return false;
    hosts[host][name] = value;
    return true;
  });
  return hosts;
}

std::string text_of(const ChipClocks& clocks) {
  std::string text;
  for (const auto& [chip, mhz] : clocks) {
    text += (text.empty() ? "" : " ") + std::to_string(chip) + "=" + std::to_string(mhz);
  }
  return text;
}

std::string text_of(const LinkRates& rates) {
  std::string text;
  for (const auto& [ends, mbps] : rates) {
    text += (text.empty() ? "" : " ") + std::to_string(ends.first) + "-" +
            std::to_string(ends.second) + "=" + std::to_string(mbps);
  }
  return text;
}

std::string text_of(const HostSettings& hosts) {
  std::string text;
  for (const auto& [host, settings] : hosts) {
    for (const auto& [name, value] : settings) {
      std::array<char, 40> buffer{};
      const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr;
      text += (text.empty() ? "" : " ") + std::to_string(host) + "." + name + "=" +
              std::string(buffer.data(), end);
    }
  }
  return text;
}

ChipClocks slow_chips(const MachineParams& params) {
  ChipClocks clocks = read_chip_clocks(params.slow_chips);
  for (const auto& [chip, mhz] : clocks) {
    check_chip(params, kChips, chip);
    if (mhz >= 1 && mhz <= params.clock_mhz) continue;
    throw ConfigurationError(
        std::string(kChips) + ": expected 1 to " + std::to_string(params.clock_mhz) +
        " MHz of chip " + std::to_string(chip) +
        " (clock_mhz is that of the fastest chips), found " + std::to_string(mhz));
  }
  return clocks;
}

LinkRates slow_links(const MachineParams& params) {
  LinkRates rates = read_link_rates(params.ici.slow_links);
  for (const auto& [ends, mbps] : rates) {
    check_chip(params, kLinks, ends.first);
    check_chip(params, kLinks, ends.second);
    if (are_linked(params.topology(), ends.first, ends.second)) continue;
    throw ConfigurationError(std::string(kLinks) + ": expected neighbours in the slice of " +
                             params.topology().text() + " chips, found chips " +
                             std::to_string(ends.first) + " and " + std::to_string(ends.second));
  }
  return rates;
}

std::uint32_t host_count(const MachineParams& params) {
  const std::uint32_t chips = std::max<std::uint32_t>(params.host.chips, 1);
  return (params.chips() + chips - 1) / chips;
}

HostSettings slow_hosts(const MachineParams& params) {
  HostSettings hosts = read_host_settings(params.slow_hosts);
  for (const auto& [host, settings] : hosts) {
    if (host >= host_count(params)) {
      throw ConfigurationError(
          std::string(kHosts) + ": expected hosts below " + std::to_string(host_count(params)) +
          " (" + params.topology().text() + ", a host for " + std::to_string(params.host.chips) +
          " chips), found host " + std::to_string(host));
    }
    HostParams changed = params.host;
    for (const auto& [name, value] : settings) set_host_value(changed, name, value);
  }
  return hosts;
}

MachineParams as_host(const MachineParams& params, std::uint32_t host) {
  MachineParams changed = params;
  changed.slow_hosts.clear();
  const HostSettings hosts = read_host_settings(params.slow_hosts);
  const auto found = hosts.find(host);
  if (found == hosts.end()) return changed;
  for (const auto& [name, value] : found->second) set_host_value(changed.host, name, value);
  return changed;
}

std::vector<HostKind> kinds_of_host(const MachineParams& params) {
  std::set<std::uint32_t> hosts;
  std::uint32_t other = 0;
  for (const auto& [host, settings] : slow_hosts(params)) {
    hosts.insert(host);
    if (host == other) ++other;
  }
  if (other < host_count(params)) hosts.insert(other);
  std::vector<HostKind> kinds;
  kinds.reserve(hosts.size());
  for (const std::uint32_t host : hosts) kinds.push_back({host, as_host(params, host)});
  return kinds;
}

}  // namespace tpu
