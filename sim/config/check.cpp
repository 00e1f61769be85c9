#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <string>

#include "isa/generation.h"
#include "models/memory/hbm_command_timing.h"
#include "models/memory/hbm_timing.h"
#include "models/network/ici_routes.h"
#include "models/parameter_table.h"
#include "models/slow_parts.h"
#include "sim/base/error.h"
#include "sim/config/configuration.h"
#include "sim/config/limits.h"

namespace tpu::config {
namespace {

void fail_at(const Configuration& configuration, const std::string& path,
             const std::string& message) {
  const auto origin = configuration.origins.find(path);
  const std::string where =
      origin != configuration.origins.end() ? origin->second.where + ": " : "";
  throw ConfigurationError(where + path + ": " + message);
}

std::string number_text(double value) {
  std::array<char, 40> buffer{};
  const bool whole = value == std::floor(value) && std::abs(value) < 1e15;
  const auto end = whole ? std::to_chars(buffer.data(), buffer.data() + buffer.size(),
                                         static_cast<std::int64_t>(value))
                               .ptr
                         : std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr;
  return {buffer.data(), end};
}

void check_ranges(const Configuration& configuration) {
  visit_parameters(
      configuration.params, "", [&](const std::string& path, const auto& field, const auto& value) {
        using Type = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<Type, std::uint32_t> || std::is_same_v<Type, double>) {
          const Limits* limits = limits_of(path);
          TPU_CHECK(limits != nullptr, "no limits for " << path);
          const double number = static_cast<double>(value);
          if (number >= limits->minimum && number <= limits->maximum) return;
          const std::string unit = field.unit.empty() ? "" : " " + std::string(field.unit);
          const std::string range =
              limits->minimum == limits->maximum
                  ? number_text(limits->minimum)
                  : number_text(limits->minimum) + " to " + number_text(limits->maximum);
          const std::string reason =
              limits->reason.empty() ? "" : " (" + std::string(limits->reason) + ")";
          fail_at(configuration, path,
                  "expected " + range + unit + reason + ", found " + number_text(number));
        }
      });
}

void check_arrays(const Configuration& configuration) {
  const MachineParams& params = configuration.params;
  for (const auto& [path, size] : {std::pair("core.mxu.rows", params.core.mxu.rows),
                                   std::pair("core.mxu.columns", params.core.mxu.columns)}) {
    if (size % 128 != 0) {
      fail_at(configuration, path,
              "expected a multiple of 128 (the instruction set pushes vector registers of 8 x 128 "
              "into it), found " +
                  std::to_string(size));
    }
  }
  const MxuParams& mxu = params.core.mxu;
  for (const auto& [path, cells] :
       {std::pair("core.mxu.sum_cells_per_cycle", mxu.sum_cells_per_cycle),
        std::pair("core.mxu.operand_cells_per_cycle", mxu.operand_cells_per_cycle)}) {
    if (128 % cells != 0) {
      fail_at(configuration, path,
              "expected a power of two up to 128 (a block of 128 x 128 cells is crossed in whole "
              "cycles), found " +
                  std::to_string(cells));
    }
  }
}

void check_slice(const Configuration& configuration) {
  const MachineParams& params = configuration.params;
  if (isa::find_generation(params.chip) == nullptr) {
    fail_at(configuration, "chip",
            "expected " + isa::generation_names() + ", found \"" + params.chip + "\"");
  }
  if (params.chips() > isa::kMaxChips) {
    fail_at(configuration, "ici.mesh_x",
            "expected a slice of at most " + std::to_string(isa::kMaxChips) +
                " chips (addresses of sync flags have 11 bits for the chip), found " +
                params.topology().text());
  }
}

void check_input(const Configuration& configuration) {
  const InputParams& input = configuration.params.input;
  if (input.reader != "ahead" && input.reader != "worker") {
    fail_at(configuration, "input.reader",
            "expected ahead or worker, found \"" + input.reader + "\"");
  }
  if (input.cache != "none" && input.cache != "ram" && input.cache != "disk") {
    fail_at(configuration, "input.cache",
            "expected none, ram or disk, found \"" + input.cache + "\"");
  }
  if (input.order != "shuffled" && input.order != "sequential") {
    fail_at(configuration, "input.order",
            "expected shuffled or sequential, found \"" + input.order + "\"");
  }
}

/// What a part of the models says about the parameter that its message begins with.
template <class Work>
void check_part(const Configuration& configuration, const Work& work) {
  try {
    work();
  } catch (const ConfigurationError& error) {
    const std::string text = error.what();
    const std::size_t colon = text.find(": ");
    fail_at(configuration, text.substr(0, colon), text.substr(colon + 2));
  }
}

void check_host_range(const Configuration& configuration, std::uint32_t host,
                      const std::string& name, double value) {
  const Limits* limits = limits_of("host." + name);
  TPU_CHECK(limits != nullptr, "no limits for host." << name);
  if (value >= limits->minimum && value <= limits->maximum) return;
  fail_at(configuration, "slow_hosts",
          "expected " + number_text(limits->minimum) + " to " + number_text(limits->maximum) +
              " of host." + name + ", found " + number_text(value) + " of host " +
              std::to_string(host));
}

void check_slow_parts(const Configuration& configuration) {
  check_part(configuration, [&] {
    slow_chips(configuration.params);
    for (const auto& [host, settings] : slow_hosts(configuration.params)) {
      for (const auto& [name, value] : settings) check_host_range(configuration, host, name, value);
    }
    IciRoutes(configuration.params);
  });
}

void check_hbm(const Configuration& configuration) {
  const MachineParams& params = configuration.params;
  if (params.hbm.channels % params.cores_per_chip != 0) {
    fail_at(configuration, "hbm.channels",
            "expected a multiple of cores_per_chip = " + std::to_string(params.cores_per_chip) +
                ", found " + std::to_string(params.hbm.channels));
  }
  const std::uint64_t half_mib = std::uint64_t{params.hbm.gib} * 1024 / params.cores_per_chip;
  if (params.hbm.reserved_mib >= half_mib) {
    fail_at(configuration, "hbm.reserved_mib",
            "expected less than a core's share of the HBM, " + std::to_string(half_mib) +
                " MiB, found " + std::to_string(params.hbm.reserved_mib));
  }
  check_part(configuration, [&] {
    HbmTiming(params.hbm, params.clock_mhz);
    HbmCommandTiming(params.hbm, params.clock_mhz);
  });
}

}  // namespace

void check(const Configuration& configuration) {
  check_ranges(configuration);
  check_arrays(configuration);
  check_slice(configuration);
  check_hbm(configuration);
  check_slow_parts(configuration);
  check_input(configuration);
}

}  // namespace tpu::config
