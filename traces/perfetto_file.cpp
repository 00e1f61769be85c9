#include "traces/perfetto_file.h"

namespace tpu::traces {

PerfettoFile::TrackId PerfettoFile::chip(std::uint32_t chip) {
  const auto [found, first] = chips_.try_emplace(chip, 0);
  if (first) {
    found->second =
        writer_.add_group("TPU " + params_.chip + " chip " + std::to_string(chip), chip);
  }
  return found->second;
}

PerfettoFile::TrackId PerfettoFile::core(std::uint32_t number) {
  const auto [found, first] = cores_.try_emplace(number, 0);
  if (first) {
    found->second =
        writer_.add_track("core " + std::to_string(number), chip(number / params_.cores_per_chip),
                          number % params_.cores_per_chip);
  }
  return found->second;
}

void PerfettoFile::commit() {
  writer_.flush();
  file_.commit();
}

}  // namespace tpu::traces
