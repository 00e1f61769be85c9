#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/params.h"

namespace tpu::report {

/// A published figure and where it stands.
struct Published {
  double value = 0;
  std::string source;
};

/// Energies of operations in a process of the chip, pJ.
struct OperationEnergy {
  double bf16_multiply = 0, fp32_add = 0, fp32_multiply = 0;
  double vmem_64_bit = 0;
  double hbm_64_bit = 0;
  double ici_bit = 0;
};

/// Watts and area of a generation of the chip, as published.
struct ChipPower {
  Published idle, tdp, die_mm2;
  /// Over production workloads; 0 where nobody published them.
  double least_watts = 0, mean_watts = 0, most_watts = 0;
  double mean_flops = 0, mean_hbm = 0;  ///< Shares of the peaks, over production workloads.
  double peak_tflops = 0, peak_gb_per_s = 0;
  std::uint32_t made_vmem_mib = 0, made_cores = 0;  ///< What the die holds, beside its arrays.
  OperationEnergy operations;                       ///< In its process.
};

/// The generations whose power was published, by name, and the one that the factor is made from.
struct PublishedPower {
  std::map<std::string, ChipPower> chips;
  std::string measured;
  const ChipPower& measured_chip() const { return chips.at(measured); }
};

/// A GPU as the peaks of its data sheet.
struct Gpu {
  std::string name;
  double tflops_16_bit = 0, gb_per_s = 0, watts = 0;
};

const PublishedPower& published_power();
/// Of a text such as `published/energy.toml`.
PublishedPower read_power(std::string_view text);
const std::vector<Gpu>& gpus();
/// Dollars an hour of a slice; nothing for one that was never sold.
std::optional<double> price_per_hour(const MachineParams& params);

}  // namespace tpu::report
