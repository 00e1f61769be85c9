#include "workloads/hlo/annotations.h"

#include <algorithm>
#include <string_view>

#include "workloads/graph/sharding_text.h"

namespace tpu::hlo {

namespace {

bool ends_with(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

/// True for devices=[...] with an extent above 1 that is no replication.
bool is_tiled(std::string_view sharding) {
  std::size_t at = sharding.find("devices=[");
  for (; at != std::string_view::npos; at = sharding.find("devices=[", at + 1)) {
    const std::string_view list = sharding.substr(at + 9, sharding.find(']', at) - at - 9);
    const bool replicates = sharding.find("last_tile_dim_replicate", at) < sharding.find('}', at);
    const std::string_view tiled = replicates ? list.substr(0, list.rfind(',')) : list;
    for (std::size_t i = 0; i < tiled.size();) {
      const std::size_t end = std::min(tiled.find(',', i), tiled.size());
      if (tiled.substr(i, end - i) != "1") return true;
      i = end + 1;
    }
  }
  return false;
}

/// True where a dimension of a sharding of Shardy has an axis, as in `{\"data\"}`.
bool has_axes(std::string_view attributes) {
  const std::size_t begin = attributes.find("#sdy.sharding");
  return begin != std::string_view::npos &&
         (attributes.find("{\\\"", begin) != std::string_view::npos ||
          attributes.find("{\"", begin) != std::string_view::npos);
}

}  // namespace

std::string unpartitioned_annotation(const Module& module) {
  if (ends_with(module.entry_computation().name, "_spmd")) return "";
  for (const Computation& computation : module.computations) {
    for (const HloInstruction& instruction : computation.instructions) {
      const std::string_view sharding = sharding_text(instruction.raw_attributes.get());
      if (instruction.custom_call_target == "xla.sdy.GlobalToLocalShape" ||
          instruction.custom_call_target == "SPMDFullToShardShape") {
        return "instruction \"" + instruction.name + "\", a " +
               instruction.custom_call_target.get();
      }
      if (is_tiled(sharding)) {
        return "instruction \"" + instruction.name + "\" with sharding=" + std::string(sharding);
      }
      if (has_axes(instruction.raw_attributes.get())) {
        return "instruction \"" + instruction.name + "\" with a sharding of Shardy";
      }
    }
  }
  return "";
}

std::int64_t stated_devices(const Module& module) {
  std::int64_t devices = std::max<std::int64_t>(module.replicas, 1);
  if (devices > 1) return devices;
  for (const Computation& computation : module.computations) {
    for (const HloInstruction& instruction : computation.instructions) {
      for (const std::vector<std::int64_t>& group : instruction.replica_groups.get()) {
        for (std::int64_t device : group) devices = std::max(devices, device + 1);
      }
    }
  }
  return devices;
}

}  // namespace tpu::hlo
