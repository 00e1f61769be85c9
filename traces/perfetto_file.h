#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "models/params.h"
#include "sim/base/output_file.h"
#include "traces/perfetto_writer.h"

namespace tpu::traces {

/// A Perfetto trace under way: the file, its writer, and the groups that all its tracks lie in, one
/// per chip and in it one per core, made when first asked for. Nothing is seen of it before
/// commit().
class PerfettoFile {
 public:
  using TrackId = PerfettoWriter::TrackId;

  PerfettoFile(const std::string& path, const MachineParams& params)
      : file_(path), writer_(file_), params_(params) {}

  PerfettoWriter& writer() { return writer_; }
  TrackId chip(std::uint32_t chip);
  /// The group of a core by its number in the slice.
  TrackId core(std::uint32_t number);
  void commit();

  /// Perfetto counts whole nanoseconds: those of a cycle number, rounded down.
  std::uint64_t nanoseconds(std::uint64_t cycles) const {
    const std::uint64_t mhz = params_.clock_mhz;
    return cycles / mhz * 1000 + cycles % mhz * 1000 / mhz;
  }

 private:
  OutputFile file_;
  PerfettoWriter writer_;
  const MachineParams& params_;
  std::map<std::uint32_t, TrackId> chips_, cores_;
};

}  // namespace tpu::traces
