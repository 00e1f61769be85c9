#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "isa/listing/listing_reader.h"
#include "workloads/xla/listing_files.h"

namespace tpu::xla {

/// End of the program-relative allocations of one memory, in bytes.
std::uint64_t end_of(const isa::PackedListing& packed, isa::ListingSpace space);

/// How the listings of a chip are read, and where the relative addresses of its kernels begin.
isa::ListingPlacement placement_of_top_level(const std::string& chip);
isa::ListingPlacement placement_of_kernels(const isa::PackedListing& top_level,
                                           const std::string& chip);

/// Reads the bundles of a kernel; refuses instructions that the chip lacks, but for those that no
/// chip has, which go into `unknown`.
isa::Listing read_bundles(std::string_view text, const std::string& file,
                          const isa::PackedListing& packed, const isa::ListingPlacement& placement,
                          const std::string& chip, std::vector<isa::UnknownInstruction>& unknown);

/// Reads listings of kernels as soon as an archive gives them, so that their texts need not be
/// kept: they are several times as long as what is read of them. The top-level program has to come
/// first, as it does in the archives of a capture; nothing is refused here: what cannot be read
/// yet, or not at all, stays a text.
class EarlyListings {
 public:
  EarlyListings(std::string chip, isa::CodeNames names) : chip_(std::move(chip)), names_(names) {}

  /// For read_listing_files().
  bool take(ListingFiles& files, const std::string& kernel, std::string_view bundles);
  /// False where a listing came twice after kernels had been read: they have to be read anew.
  bool fit(const ListingFiles& files) const { return !placed_ || !files.replaced; }

 private:
  std::string chip_;
  isa::CodeNames names_;
  bool placed_ = false;
  isa::ListingPlacement placement_;  ///< Of all kernels below the top-level program.
};

}  // namespace tpu::xla
