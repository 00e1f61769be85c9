#include "sim/config/derived_settings.h"

namespace tpu::config {
namespace {

constexpr double kMegabitsPerGigabyte = 8000;

double pin_rate(const MachineParams& params, double gb_per_s) {
  const double pins = 1.0 * params.hbm.channels * params.hbm.channel_bits;
  return gb_per_s * kMegabitsPerGigabyte / pins;
}

double link_rate(const MachineParams& /*params*/, double gb_per_s) {
  return gb_per_s * kMegabitsPerGigabyte;
}

}  // namespace

const std::vector<DerivedSetting>& derived_settings() {
  static const std::vector<DerivedSetting> kSettings{
      {"hbm.gb_per_s", "hbm.pin_mbps",
       "GB/s of a chip's HBM at its pins; the pins take whole Mb/s, the nearest.", pin_rate},
      {"ici.link_gb_per_s", "ici.link_mbps", "GB/s of a link in one direction.", link_rate}};
  return kSettings;
}

const DerivedSetting* derived_setting(std::string_view name) {
  for (const DerivedSetting& setting : derived_settings()) {
    if (setting.name == name) return &setting;
  }
  return nullptr;
}

}  // namespace tpu::config
