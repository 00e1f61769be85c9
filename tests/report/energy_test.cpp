#include "sim/report/energy.h"

#include <gtest/gtest.h>

#include <cmath>

#include "sim/report/json_report.h"
#include "sim/report/text_report.h"
#include "tests/traces/synthetic_record.h"

/// Energy from counts, against published power.

namespace tpu::report::energy_test {
namespace {

/// What the straight line between 45 and 7 nm in the logarithms has at 16 nm.
double at_16_nm(double nm7, double nm45) {
  return nm7 * std::pow(nm45 / nm7, std::log(16.0 / 7) / std::log(45.0 / 7));
}

/// The factor by which what was published for operations falls short of v3's mean power.
double factor() {
  const double macs = 0.38 * 123e12 / 2, hbm = 0.63 * 900e9;
  const double mac = at_16_nm(0.21, 0.68) + at_16_nm(0.38, 0.9);
  const double small = at_16_nm(8.5, 20), large = at_16_nm(14, 100);
  const double vmem = small * std::pow(large / small, std::log(4.0) / std::log(32.0));
  const double vmem_bytes = macs / (8 * 128 * 128) * 8192 + hbm;
  return (220 - 123) / (1e-12 * (macs * mac + vmem_bytes / 8 * vmem + hbm / 8 * 350));
}

double part(const Energy& energy, EnergyPart which) {
  return energy.joules[static_cast<std::size_t>(which)];
}

TEST(Energy, IsCountsTimesPublishedEnergies) {
  const traces::RunRecord record = test::synthetic_record();
  const Energy energy = energy_of(record);
  ASSERT_TRUE(energy.is_known);
  // A step of both cores moves 2 x 300 x 400 bytes, 350 pJ for 64 bit.
  EXPECT_NEAR(part(energy, EnergyPart::kHbm), factor() * 240000 / 8 * 350e-12, 1e-12);
  const double mac = at_16_nm(0.21, 0.68) + at_16_nm(0.38, 0.9);
  EXPECT_NEAR(part(energy, EnergyPart::kMxu), factor() * 240 * 131072 * mac * 1e-12, 1e-12);
  const double alu = (at_16_nm(0.38, 0.9) + at_16_nm(1.31, 3.7)) / 2;
  EXPECT_NEAR(part(energy, EnergyPart::kVpu), factor() * 600 * 1024 * alu * 1e-12, 1e-12);
  EXPECT_EQ(part(energy, EnergyPart::kIci), 0);
  // Both cores of a chip: its idle power over 1,100 cycles.
  EXPECT_NEAR(part(energy, EnergyPart::kStatic), 123 * 1100 / 940e6, 1e-12);
  EXPECT_NEAR(energy.watts_per_chip, energy.total() / (1100 / 940e6), 1e-6);
  EXPECT_NEAR(energy.examples_per_joule, 256 / energy.total(), 1e-6);
  EXPECT_LT(energy.low, energy.total());
  EXPECT_GT(energy.high, energy.total());
  EXPECT_TRUE(energy.is_die_as_made);
}

TEST(Energy, PowerIsThatWhichWasPublished) {
  EXPECT_NEAR(chip_watts("v3", 0.38, 0.63).value(), 220, 1e-9);  // Fitted.
  EXPECT_EQ(chip_watts("v3", 0, 0), 123);
  // Not fitted: v3 with all its arrays busy stays within its TDP and above what it was measured at
  // in production; v2 at its mean use stays within its own.
  EXPECT_GT(chip_watts("v3", 1, 1).value(), 262);
  EXPECT_LT(chip_watts("v3", 1, 1).value(), 450);
  EXPECT_LT(chip_watts("v2", 0.51, 0.66).value(), 280);
  EXPECT_LT(chip_watts("v2", 1, 1).value(), 280);
  // What README.md says of v2, of which nothing but the TDP was published.
  EXPECT_NEAR(chip_watts("v2", 0.51, 0.66).value(), 174, 0.5);
  EXPECT_NEAR(chip_watts("v2", 1, 1).value(), 218, 0.5);
  EXPECT_NEAR(chip_watts("v3", 1, 1).value(), 326, 0.5);
}

TEST(Energy, WhatIsNotModelledIsNoZero) {
  traces::RunRecord record = test::synthetic_record();
  record.params.chip = "v9";
  EXPECT_FALSE(energy_of(record).is_known);
  const Json json = to_json(record, summarize(record), {});
  EXPECT_EQ(json["energy"], "not modelled: no power of this chip was published");
  record.params.chip = "v3";
  for (CoreResult& core : record.result.cores) core.total.core = {};
  EXPECT_FALSE(energy_of(record).is_known);  // Steps that took no cycle.
  record = test::synthetic_record();
  record.params.core.mxu.count = 4;
  EXPECT_FALSE(to_json(record, summarize(record), {})["energy"].contains("die_mm2_below"));
}

/// A generation is a row of the data: without one nothing is said, with one nothing else is needed.
TEST(Energy, AGenerationIsARowOfTheData) {
  const std::string rest = R"([operation]
bf16_multiply = { nm7 = 1, nm45 = 8 }
fp32_add = { nm7 = 1, nm45 = 8 }
fp32_multiply = { nm7 = 1, nm45 = 8 }
sram_32_kib = { nm7 = 1, nm45 = 8 }
sram_1_mib = { nm7 = 1, nm45 = 8 }
[memory]
lane_kib = { value = 32 }
hbm_pj_per_64_bit = { low = 1, high = 3 }
[ici]
pj_per_bit = { value = 1 }
[factor]
chip = "v9"
)";
  const std::string row = R"([chip.v9]
made = { nm = 45, vmem_mib = 16, cores = 2 }
die_mm2 = { value = 400 }
tdp = { value = 90 }
idle = { value = 10 }
measured = { least = 20, mean = 30, most = 40 }
peak = { tflops = 0, gb_per_s = 8 }
mean_use = { flops = 0, hbm = 1 }
)";
  const PublishedPower made_up = read_power(rest + row);
  // At its mean use it moves 1e9 words of HBM and of VMEM, which cost 2 and 8 pJ: 0.01 W of the 20
  // above its rest, so that the factor is 2,000.
  EXPECT_NEAR(chip_watts("v9", 0, 1, made_up).value(), 30, 1e-9);
  EXPECT_NEAR(chip_watts("v9", 0, 0.5, made_up).value(), 20, 1e-9);
  EXPECT_FALSE(chip_watts("v3", 0, 1, made_up).has_value());

  traces::RunRecord record = test::synthetic_record();
  EXPECT_FALSE(energy_of(record, made_up).is_known);  // A v3.
  record.params.chip = "v9";
  const Energy energy = energy_of(record, made_up);
  EXPECT_NEAR(part(energy, EnergyPart::kHbm), 2000 * 240000 / 8 * 2e-12, 1e-12);
  EXPECT_EQ(energy.tdp_watts, 90);
  EXPECT_FALSE(energy.is_die_as_made);  // Nobody says what arrays it was made with.
  EXPECT_FALSE(energy_of(record).is_known);
  EXPECT_FALSE(price_per_hour(record.params).has_value());
  EXPECT_NE(
      text_report(record, summarize(record), {}, {}).find("no power of this chip was published"),
      std::string::npos);

  // Its energy of operations is that of its process: 1 pJ at 7 nm in place of 8.
  const std::string smaller = std::string(row).replace(row.find("45"), 2, "7");
  const PublishedPower shrunk = read_power(rest + smaller);
  EXPECT_NEAR(shrunk.chips.at("v9").operations.fp32_add, 1, 1e-12);
  EXPECT_NEAR(made_up.chips.at("v9").operations.fp32_add, 8, 1e-12);
}

TEST(Energy, PricesAreThoseOfWholeSlices) {
  traces::RunRecord record = test::synthetic_record();
  EXPECT_EQ(price_per_hour(record.params), 8.0);
  EXPECT_FALSE(to_json(record, summarize(record), {}).contains("cost"));  // Two of eight cores.
  record.params.ici.mesh_x = record.params.ici.mesh_y = 1;
  EXPECT_FALSE(price_per_hour(record.params).has_value());  // Nobody sold a single chip.
}

}  // namespace
}  // namespace tpu::report::energy_test
