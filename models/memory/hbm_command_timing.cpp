#include "models/memory/hbm_command_timing.h"

#include <algorithm>
#include <string>

#include "isa/instruction.h"
#include "sim/base/error.h"

namespace tpu {
namespace {

void check_commands(const HbmParams& params) {
  const std::uint32_t groups = params.command.bank_groups;
  if (groups == 0 || (groups & (groups - 1)) != 0 || params.banks % groups != 0) {
    throw ConfigurationError(
        "hbm.command.bank_groups: expected a power of two that divides hbm.banks = " +
        std::to_string(params.banks) + ", found " + std::to_string(groups));
  }
  if (params.command.queue_granules == 0) {
    throw ConfigurationError("hbm.command.queue_granules: expected at least 1, found 0");
  }
}

}  // namespace

HbmCommandTiming::HbmCommandTiming(const HbmParams& params, std::uint32_t clock_mhz)
    : pin_mbps_(params.pin_mbps), clock_mhz_(clock_mhz) {
  check_commands(params);
  const auto clocks = [&](std::uint64_t ns) { return (ns * params.pin_mbps + 1999) / 2000; };
  const HbmCommandParams& command = params.command;
  const std::uint32_t burst_bytes =
      params.channel_bits / params.pseudo_channels * params.burst_beats / 8;
  burst = params.burst_beats / 2;
  column_to_column_group = std::max<std::uint64_t>(command.column_to_column_group_clocks, burst);
  row_to_column = {clocks(params.read_activate_ns), clocks(params.write_activate_ns)};
  column_to_data = {clocks(params.read_latency_ns), clocks(params.write_latency_ns)};
  row_open = clocks(command.row_open_ns);
  precharge = clocks(params.precharge_ns);
  read_to_precharge = clocks(params.read_to_precharge_ns);
  write_recovery = clocks(params.write_recovery_ns);
  row_to_row = clocks(command.row_to_row_ns);
  row_to_row_group = clocks(command.row_to_row_group_ns);
  four_rows = clocks(command.four_rows_ns);
  write_to_read = clocks(command.write_to_read_other_ns);
  write_to_read_group = clocks(params.write_to_read_ns);
  bus_turn = params.bus_turn_clocks;
  banks = params.banks;
  groups = command.bank_groups;
  bursts_per_granule = static_cast<std::uint32_t>(isa::kHbmGranuleBytes) / burst_bytes;
  granules_per_row = params.row_bytes / static_cast<std::uint32_t>(isa::kHbmGranuleBytes);
  drain_bursts = params.drain_bursts;
  queue_granules = command.queue_granules;
  single_bank_refresh = command.single_bank_refresh;
  if (params.refresh_interval_ns == 0) return;
  refresh_interval = clocks(params.refresh_interval_ns);
  first_refresh = clocks(params.first_refresh_ns);
  refresh = clocks(single_bank_refresh ? command.bank_refresh_ns : params.refresh_ns);
  if (single_bank_refresh) {
    refresh_interval = std::max<std::uint64_t>(refresh_interval / banks, 1);
    if (refresh + precharge >= refresh_interval * banks) {
      throw ConfigurationError(
          "hbm.command.bank_refresh_ns: expected less than a bank's interval "
          "between refreshes, found " +
          std::to_string(command.bank_refresh_ns));
    }
  }
}

std::uint64_t HbmCommandTiming::clock_of(std::uint64_t cycle) const {
  const std::uint64_t whole = cycle / (2 * clock_mhz_);
  const std::uint64_t rest = cycle % (2 * clock_mhz_);
  return whole * pin_mbps_ + (rest * pin_mbps_ + 2 * clock_mhz_ - 1) / (2 * clock_mhz_);
}

std::uint64_t HbmCommandTiming::cycle_of(std::uint64_t clock) const {
  const std::uint64_t whole = clock / pin_mbps_;
  const std::uint64_t rest = clock % pin_mbps_;
  return whole * 2 * clock_mhz_ + (rest * 2 * clock_mhz_ + pin_mbps_ - 1) / pin_mbps_;
}

}  // namespace tpu
