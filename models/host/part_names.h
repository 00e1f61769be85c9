#pragma once

#include <cstddef>
#include <string>

namespace tpu {

/// Names of the parts of a host in the accounts of a run (part_account.h): who counts them and who
/// reads them from a results file know them from here.
inline std::string host_name(std::size_t host) { return "host " + std::to_string(host); }
inline std::string storage_name(const std::string& host) { return "storage of " + host; }
inline std::string threads_name(const std::string& host) { return "threads of " + host; }
inline std::string copies_name(const std::string& host) { return "copies of " + host; }
inline std::string network_name(const std::string& host) { return "network of " + host; }
inline std::string hand_over_name(const std::string& host) { return "hand-over of " + host; }
inline std::string pcie_down_name(const std::string& host, std::size_t chip) {
  return "PCIe of " + host + ", chip " + std::to_string(chip) + ", down";
}
inline std::string pcie_up_name(const std::string& host, std::size_t chip) {
  return "PCIe of " + host + ", chip " + std::to_string(chip) + ", up";
}

}  // namespace tpu
