#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "isa/listing/listing_reader.h"

namespace tpu::xla {

/// A text file of a captured folder, with the name that error messages give.
struct TextFile {
  std::string name;
  std::string text;
};

/// What the two listings of a kernel say.
struct ReadListing {
  isa::PackedListing packed;
  isa::Listing bundles;
  std::vector<isa::UnknownInstruction> unknown;
};

/// The two listings of one kernel.
struct KernelFiles {
  std::uint64_t fingerprint = 0;  ///< The number before the name; a retried kernel has several.
  TextFile final_bundles;
  TextFile packed;
  std::optional<ReadListing> read;  ///< Then the texts are empty.
};

/// What is read of a folder `{v2,v3}.bundles/` or `{v2,v3}.bundles.tar.xz`.
struct ListingFiles {
  std::map<std::string, KernelFiles> kernels;  ///< By HLO name; "TLP" is the top-level program.
  TextFile deduplication;                      ///< Empty name: there is none.
  TextFile hlo;                                ///< TLP-hlo.txt: the only file with all constants.
  /// A listing came twice, or the top-level program's with another fingerprint: the last counts.
  bool replaced = false;
};

/// The path of the listings of `chip` in a captured folder. Throws WorkloadError where `folder` is
/// no captured folder or holds none for the chip, and says which chips it holds.
std::string listings_path(const std::string& folder, const std::string& chip);

/// Is given the bundles of a kernel as soon as they are there, with all files so far; says whether
/// it has read them, so that their text need not be kept.
using TakeBundles =
    std::function<bool(ListingFiles& files, const std::string& kernel, std::string_view bundles)>;

/// Reads the listings at a path that listings_path() gave: an archive in one pass, or the files of
/// a folder. Of a kernel with several fingerprints the highest counts: the compiler tried again.
ListingFiles read_listing_files(const std::string& path, const TakeBundles& take = {});

/// The deduplication map, kernel to the one whose listing serves it: "key:NAME", then lines that
/// are indented name the kernels that share its listing.
std::map<std::string, std::string> read_deduplication(const TextFile& file);

}  // namespace tpu::xla
