#pragma once

#include <cstdint>
#include <optional>

#include "models/memory/hbm_model.h"
#include "models/memory/memory_image.h"

namespace tpu {

/// One core's half of the HBM in the granules that the code counts: of 1 KiB, as MemoryImage and
/// the timing of the HBM have them, or halves of those (v4's code). A granule of which only one
/// half is known counts as unknown with values off; the other half of one that was never written
/// reads as isa::kUnwrittenWord after the first half was. The HBM's time of halves is that of the
/// whole granules that they lie in.
class GranuleView {
 public:
  GranuleView(MemoryImage& image, std::uint32_t granule_bytes, bool values)
      : image_(image), per_kib_(isa::kHbmGranuleBytes / granule_bytes), values_(values) {}

  std::uint32_t per_kib() const { return per_kib_; }
  std::uint32_t words() const { return isa::kHbmGranuleBytes / 4 / per_kib_; }
  std::uint32_t rows() const { return isa::kHbmGranuleBytes / isa::kVmemRowBytes / per_kib_; }
  std::uint32_t bytes() const { return isa::kHbmGranuleBytes / per_kib_; }

  /// As those of MemoryImage.
  std::optional<std::uint64_t> read(std::uint64_t granule, std::uint32_t* to,
                                    std::uint64_t granules) const;
  void write(std::uint64_t granule, const std::uint32_t* from, std::uint64_t granules,
             Origin origin);
  void forget(std::uint64_t granule, std::uint64_t granules, Origin origin);
  Origin look_up(std::uint64_t granule, std::uint32_t* to) const;
  bool any_known(std::uint64_t begin, std::uint64_t end) const;

  /// The same traffic in granules of 1 KiB.
  HbmRequest whole(HbmRequest request) const;

 private:
  void write_part(std::uint64_t granule, const std::uint32_t* from, Origin origin);
  std::uint64_t round_up(std::uint64_t granules) const {
    return (granules + per_kib_ - 1) / per_kib_;
  }

  MemoryImage& image_;
  std::uint32_t per_kib_;
  bool values_;
};

}  // namespace tpu
