#pragma once

#include <cstdint>
#include <string>

#include "isa/listing/listing_reader.h"
#include "isa/program.h"

namespace tpu::app {

/// Programs that were read out of XLA's listings, kept as program files from one run of tpusim to
/// the next: a large listing takes seconds to read, its program file a tenth of one.
///
/// A program is found by the SHA-256 of everything that made it: the contents of the files that
/// load_captured() reads, the chip, whether it has names, and the build of tpusim that read them.
/// So nothing in the cache is ever out of date; what changes gets another name. A damaged file is
/// read anew and replaced. Files appear when they are complete, so that processes may share a
/// folder; those used least recently go where all are larger than the limit. A folder that can't be
/// written is no error: the listings are read then.
class ListingCache {
 public:
  struct Limits {
    std::uint64_t smallest_listing = std::uint64_t{1} << 20;  ///< Bytes; others are read at once.
    std::uint64_t most_bytes = std::uint64_t{1} << 29;        ///< Of all files together.
  };

  /// An empty folder: every listing is read.
  explicit ListingCache(std::string folder) : ListingCache(std::move(folder), Limits()) {}
  ListingCache(std::string folder, const Limits& limits)
      : folder_(std::move(folder)), limits_(limits) {}

  /// As xla::load_captured(), but for names that nobody asks for.
  isa::Program load(const std::string& captured, const std::string& chip,
                    isa::CodeNames names = isa::CodeNames::kAll) const;

 private:
  void keep(const std::string& path, const isa::Program& program) const;
  void drop_oldest() const;

  std::string folder_;
  Limits limits_;
};

/// The user's: $TPUSIM_CACHE ("off": none), else $XDG_CACHE_HOME/tpusim/listings, else
/// ~/.cache/tpusim/listings; "" where there is none.
std::string listing_cache_folder();

}  // namespace tpu::app
