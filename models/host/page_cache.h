#pragma once

#include <cstdint>

#include "models/params.h"
#include "models/step_state.h"

namespace tpu {

/// The files that the operating system of a host keeps in RAM once they were read: those of the
/// dataset, or the prepared examples on the local disk. It holds what the batches that are made
/// ahead and the shuffle buffer leave of the RAM, and gives away whole files, the least recently
/// used first. So in every epoch but the first one
///   - all reads find their file where all files fit,
///   - none does where they don't and each epoch reads them in one order (a scan that is longer
///     than the cache throws out what it is about to read),
///   - in a new order in each epoch those do between whose two reads fewer than the files held were
///     read: of a part c of the files, c + (1 - c) ln(1 - c).
/// Reads that find their file are spread evenly over an epoch, in 1024ths: on a host they are more
/// at its begin, as the files read last wait there.
class PageCache {
 public:
  /// Files of `file_bytes` beside batches of so many examples of `example_bytes`.
  PageCache(const MachineParams& params, std::uint64_t file_bytes, std::uint64_t examples,
            std::uint64_t example_bytes);

  /// Share of the reads that find their file, where a part of all files is held.
  static double found_share(double held, bool shuffled);

  /// The part of all files that it holds.
  double held() const { return held_; }
  /// Share of the reads that find their file.
  double found() const { return found_ / kParts; }
  /// Whether the next read does.
  bool finds_next();
  void describe(StepState& state) const { state.add(phase_); }

 private:
  static constexpr double kParts = 1024;

  double held_ = 0;
  std::uint32_t found_ = 0;  ///< Of kParts reads.
  std::uint32_t phase_ = 0;
};

/// Bytes of the batches that are made ahead, the one that leaves included.
double bytes_made_ahead(const MachineParams& params, std::uint64_t examples,
                        std::uint64_t example_bytes);

}  // namespace tpu
