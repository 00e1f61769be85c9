#include "sim/report/energy.h"

#include <algorithm>
#include <numeric>

namespace tpu::report {
namespace {

using Parts = std::array<double, kEnergyParts>;

constexpr double kPico = 1e-12;
constexpr double kLanes = 1024;                           // Of a vector register: 8 x 128.
constexpr double kRegisterBytes = 4 * kLanes;             // Words of 32 bit.
constexpr double kMacsPerPush = 8 * 128 * 128;            // Eight rows through a block of 128x128.
constexpr double kVmemBytesPerPush = 2 * kRegisterBytes;  // Rows in, sums out.

std::size_t place(EnergyPart part) { return static_cast<std::size_t>(part); }

/// What was counted, of all cores together.
struct Counts {
  double pushes = 0, alu_ops = 0, vmem_bytes = 0, hbm_bytes = 0, ici_bytes = 0;
};

/// Joules without the factor and without static power.
Parts dynamic_joules(const Counts& counts) {
  const OperationEnergy& energy = operation_energy();
  Parts joules{};
  joules[place(EnergyPart::kMxu)] =
      counts.pushes * kMacsPerPush * (energy.bf16_multiply + energy.fp32_add) * kPico;
  joules[place(EnergyPart::kVpu)] =
      counts.alu_ops * kLanes * (energy.fp32_add + energy.fp32_multiply) / 2 * kPico;
  joules[place(EnergyPart::kVmem)] = counts.vmem_bytes / 8 * energy.vmem_64_bit * kPico;
  joules[place(EnergyPart::kHbm)] = counts.hbm_bytes / 8 * energy.hbm_64_bit * kPico;
  joules[place(EnergyPart::kIci)] = counts.ici_bytes * 8 * energy.ici_bit * kPico;
  return joules;
}

double sum(const Parts& parts) { return std::accumulate(parts.begin(), parts.end(), 0.0); }

/// What a chip as made counts in a second at shares of its peaks. The vector unit takes what the
/// MXUs need: rows loaded, sums stored; DMAs have their other end in VMEM.
Counts counts_at(const std::string& chip, double flops_share, double hbm_share) {
  const ChipPower& power = chip_power().at(chip);
  Counts counts;
  counts.pushes = flops_share * power.peak_tflops * 1e12 / 2 / kMacsPerPush;
  counts.hbm_bytes = hbm_share * power.peak_gb_per_s * 1e9;
  counts.vmem_bytes = counts.pushes * kVmemBytesPerPush + counts.hbm_bytes;
  return counts;
}

/// The factor that makes v3 take so many watts at its published mean use.
double factor_for(double watts) {
  const ChipPower& chip = chip_power().at("v3");
  const Counts counts = counts_at("v3", chip.mean_flops, chip.mean_hbm);
  return (watts - chip.idle.value) / sum(dynamic_joules(counts));
}

Counts counts_of(const traces::RunRecord& record, double steps) {
  Counts counts;
  for (const CoreResult& core : record.result.cores) {
    const Counters& total = core.total;
    const double hbm = static_cast<double>(total.hbm_read_bytes + total.hbm_write_bytes);
    const double ici = static_cast<double>(total.ici_bytes);
    const double accesses = static_cast<double>(total.vector_loads + total.vector_stores);
    counts.pushes += static_cast<double>(total.matmul_pushes) / steps;
    counts.alu_ops += static_cast<double>(total.vector_alu_ops) / steps;
    counts.vmem_bytes += (accesses * kRegisterBytes + hbm + 2 * ici) / steps;
    counts.hbm_bytes += hbm / steps;
    counts.ici_bytes += ici / steps;
  }
  return counts;
}

bool is_as_made(const MachineParams& params) {
  const MxuParams& mxu = params.core.mxu;
  return mxu.rows == 128 && mxu.columns == 128 && mxu.count == (params.chip == "v2" ? 1U : 2U) &&
         params.core.vmem_mib == 16 && params.cores_per_chip == 2;
}

}  // namespace

const char* const kEnergyNotModelled =
    "XLU, EUP, scalar unit, SMEM, PCIe and host have no energy of their own; the area of a machine "
    "other than the chips as made is not modelled";

const char* to_string(EnergyPart part) {
  constexpr std::array<const char*, kEnergyParts> kNames{"MXU", "VPU", "VMEM",
                                                         "HBM", "ICI", "static"};
  return kNames.at(place(part));
}

double Energy::total() const { return sum(joules); }

Energy energy_of(const traces::RunRecord& record) {
  Energy energy;
  const auto chip = chip_power().find(record.params.chip);
  std::size_t steps = 0;
  for (const CoreResult& core : record.result.cores) steps = std::max(steps, core.steps.size());
  if (chip == chip_power().end() || steps == 0) return energy;
  const double per_step = static_cast<double>(steps);
  std::uint64_t cycles = 0;
  for (const CoreResult& core : record.result.cores) {
    cycles = std::max(cycles, core.total.core.total());
  }
  const double seconds = record.params.seconds(cycles) / per_step;
  if (seconds <= 0) return energy;
  energy.is_known = true;
  const ChipPower& power = chip->second;
  const ChipPower& fitted = chip_power().at("v3");
  const double chips =
      static_cast<double>(record.result.cores.size()) / record.params.cores_per_chip;
  const double at_rest = power.idle.value * chips * seconds;
  const Parts counted = dynamic_joules(counts_of(record, per_step));
  const double dynamic = sum(counted);
  energy.joules = counted;
  for (double& part : energy.joules) part *= factor_for(fitted.mean_watts);
  energy.joules[place(EnergyPart::kStatic)] = at_rest;
  energy.low = dynamic * factor_for(fitted.least_watts) + at_rest;
  energy.high = dynamic * factor_for(fitted.most_watts) + at_rest;
  energy.watts_per_chip = energy.total() / seconds / chips;
  energy.tdp_watts = power.tdp.value;
  const double examples = static_cast<double>(record.examples_per_core) *
                          static_cast<double>(record.result.cores.size());
  energy.examples_per_joule = examples / energy.total();
  energy.die_mm2 = power.die_mm2.value;
  energy.is_die_as_made = is_as_made(record.params);
  return energy;
}

double chip_watts(const std::string& chip, double flops_share, double hbm_share) {
  const ChipPower& power = chip_power().at(chip);
  return power.idle.value + factor_for(chip_power().at("v3").mean_watts) *
                                sum(dynamic_joules(counts_at(chip, flops_share, hbm_share)));
}

}  // namespace tpu::report
