#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "models/params.h"

namespace tpu {

// Parts of a slice that are slower than the rest. A configuration holds them as text, so that they
// travel with the other parameters: slow_chips = "3=470", slow_hosts = "3.vcpus=4", ici.slow_links
// = "0-1=82000 1-3=0".

/// MHz by chip.
using ChipClocks = std::map<std::uint32_t, std::uint32_t>;
/// Both directions of all links between two chips, the lower number first: Mb/s, 0 of a broken one.
using LinkRates = std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t>;

/// What differs of a host's parameters (HostParams), by host.
using HostSettings = std::map<std::uint32_t, std::map<std::string, double>>;

/// Reads MachineParams::slow_chips and IciParams::slow_links. Throw ConfigurationError for a text
/// that says nothing, for chips that the slice does not have, for a clock above the machine's, and
/// for chips that are not linked.
ChipClocks slow_chips(const MachineParams& params);
LinkRates slow_links(const MachineParams& params);
/// MachineParams::slow_hosts. Throws ConfigurationError for hosts that the slice does not have, and
/// for what is no parameter of a single host.
HostSettings slow_hosts(const MachineParams& params);

/// Hosts of a slice, each with the next `host.chips` chips.
std::uint32_t host_count(const MachineParams& params);
/// The machine as one of its hosts sees it: HostParams are its own.
MachineParams as_host(const MachineParams& params, std::uint32_t host);
/// One of the hosts that are alike, and the machine as it sees it.
struct HostKind {
  std::uint32_t host;
  MachineParams params;
};
/// One for each kind of host that there is, by number: each that is named is a kind of its own, the
/// first that is not stands for all others.
std::vector<HostKind> kinds_of_host(const MachineParams& params);

/// The same without a look at the slice, and the text again.
ChipClocks read_chip_clocks(const std::string& text);
LinkRates read_link_rates(const std::string& text);
HostSettings read_host_settings(const std::string& text);
std::string text_of(const ChipClocks& clocks);
std::string text_of(const LinkRates& rates);
std::string text_of(const HostSettings& hosts);

}  // namespace tpu
