#include "sim/report/energy.h"

#include <algorithm>
#include <numeric>

#include "isa/generation.h"

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
Parts dynamic_joules(const Counts& counts, const OperationEnergy& energy) {
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
Counts counts_at(const ChipPower& power, double flops_share, double hbm_share) {
  Counts counts;
  counts.pushes = flops_share * power.peak_tflops * 1e12 / 2 / kMacsPerPush;
  counts.hbm_bytes = hbm_share * power.peak_gb_per_s * 1e9;
  counts.vmem_bytes = counts.pushes * kVmemBytesPerPush + counts.hbm_bytes;
  return counts;
}

double dynamic_watts(const ChipPower& power, double flops_share, double hbm_share) {
  return sum(dynamic_joules(counts_at(power, flops_share, hbm_share), power.operations));
}

/// The factor that makes the chip whose power was measured take so many watts at its mean use.
double factor_for(const ChipPower& measured, double watts) {
  return (watts - measured.idle.value) /
         dynamic_watts(measured, measured.mean_flops, measured.mean_hbm);
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

bool is_as_made(const MachineParams& params, const ChipPower& power) {
  const isa::Generation* made = isa::find_generation(params.chip);
  const MxuParams& mxu = params.core.mxu;
  return made != nullptr && mxu.rows == made->mxu_rows && mxu.columns == made->mxu_columns &&
         mxu.count == made->mxus && params.core.vmem_mib == power.made_vmem_mib &&
         params.cores_per_chip == power.made_cores;
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

Energy energy_of(const traces::RunRecord& record, const PublishedPower& published) {
  Energy energy;
  const auto chip = published.chips.find(record.params.chip);
  std::size_t steps = 0;
  for (const CoreResult& core : record.result.cores) steps = std::max(steps, core.steps.size());
  if (chip == published.chips.end() || steps == 0) return energy;
  const double per_step = static_cast<double>(steps);
  std::uint64_t cycles = 0;
  for (const CoreResult& core : record.result.cores) {
    cycles = std::max(cycles, core.total.core.total());
  }
  const double seconds = record.params.seconds(cycles) / per_step;
  if (seconds <= 0) return energy;
  energy.is_known = true;
  const ChipPower& power = chip->second;
  const ChipPower& measured = published.measured_chip();
  const double chips =
      static_cast<double>(record.result.cores.size()) / record.params.cores_per_chip;
  const double at_rest = power.idle.value * chips * seconds;
  const Parts counted = dynamic_joules(counts_of(record, per_step), power.operations);
  const double dynamic = sum(counted);
  energy.joules = counted;
  for (double& part : energy.joules) part *= factor_for(measured, measured.mean_watts);
  energy.joules[place(EnergyPart::kStatic)] = at_rest;
  energy.low = dynamic * factor_for(measured, measured.least_watts) + at_rest;
  energy.high = dynamic * factor_for(measured, measured.most_watts) + at_rest;
  energy.watts_per_chip = energy.total() / seconds / chips;
  energy.tdp_watts = power.tdp.value;
  const double examples = static_cast<double>(record.examples_per_core) *
                          static_cast<double>(record.result.cores.size());
  energy.examples_per_joule = examples / energy.total();
  energy.die_mm2 = power.die_mm2.value;
  energy.is_die_as_made = is_as_made(record.params, power);
  return energy;
}

std::optional<double> chip_watts(const std::string& chip, double flops_share, double hbm_share,
                                 const PublishedPower& published) {
  const auto found = published.chips.find(chip);
  if (found == published.chips.end()) return std::nullopt;
  const ChipPower& measured = published.measured_chip();
  return found->second.idle.value + factor_for(measured, measured.mean_watts) *
                                        dynamic_watts(found->second, flops_share, hbm_share);
}

}  // namespace tpu::report
