#pragma once

#include <array>
#include <optional>
#include <string>

#include "sim/report/published_data.h"
#include "traces/run_record.h"

namespace tpu::report {

/// The parts that joules are given by.
enum class EnergyPart : std::uint8_t { kMxu, kVpu, kVmem, kHbm, kIci, kStatic, kCount };
const char* to_string(EnergyPart part);
constexpr std::size_t kEnergyParts = static_cast<std::size_t>(EnergyPart::kCount);
/// What has no part of its own: its share is in the factor on the others, or nowhere.
extern const char* const kEnergyNotModelled;

/// Joules of a step of all cores that run: counts times published energies, and static power over
/// the step. MXU: a bf16 multiply and an fp32 add for each pushed multiply-add. VPU: the mean of an
/// fp32 add and multiply for each lane of an ALU operation. VMEM: loads, stores, and the other end
/// of DMAs. HBM, ICI: bits moved. Static: idle power of the chip, shared by its cores. Each but
/// static times the factor that published_data's `energy` explains.
struct Energy {
  bool is_known = false;  ///< Not for generations of which no power was published.
  std::array<double, kEnergyParts> joules{};
  double total() const;
  /// The same with the factor that fits the least and the greatest measured power.
  double low = 0, high = 0;
  double watts_per_chip = 0;  ///< Of a chip all of whose cores run so.
  double tdp_watts = 0;
  double examples_per_joule = 0;
  double die_mm2 = 0;
  bool is_die_as_made = false;  ///< The machine has the arrays and memories of the chip as made.
};
Energy energy_of(const traces::RunRecord& record,
                 const PublishedPower& published = published_power());

/// Watts of a chip at shares of its peaks: of FLOPs and of the published rate of the HBM, without
/// traffic between chips. Nothing where no power was published.
std::optional<double> chip_watts(const std::string& chip, double flops_share, double hbm_share,
                                 const PublishedPower& published = published_power());

}  // namespace tpu::report
