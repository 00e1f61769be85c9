#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "isa/instruction.h"
#include "models/origin.h"

namespace tpu {

/// The contents of one core's half of the HBM: pages of 64 granules of 1 KiB that come into being
/// when they are written, with a bit per granule that was written. No timing.
class MemoryImage {
 public:
  static constexpr std::uint64_t kGranuleWords = isa::kHbmGranuleBytes / 4;

  void write(std::uint64_t granule, const std::uint32_t* words, std::uint64_t granules);
  /// Loads words from the start of a granule; the rest of the last granule becomes zero.
  void load(std::uint64_t granule, const std::vector<std::uint32_t>& words);
  /// Copies granules; returns the first one that was never written, if any (its words stay as they
  /// were).
  std::optional<std::uint64_t> read(std::uint64_t granule, std::uint32_t* words,
                                    std::uint64_t granules) const;

  // For runs with values off, where some of what is written is unknown.

  /// Writes a granule whose contents have an origin; that is kept after keep_origins().
  void write(std::uint64_t granule, const std::uint32_t* words, Origin origin);
  /// The granules hold something unknown from now on; why, is kept after keep_origins().
  void forget(std::uint64_t granule, std::uint64_t granules, Origin why = Origin::nobody());
  void keep_origins() { keeps_origins_ = true; }
  /// Granules that are zeros until somebody writes them: a buffer of the program without contents.
  void assume_zeros(std::uint64_t granule, std::uint64_t granules, std::uint32_t buffer);
  /// Copies a granule when it is known; its origin.
  Origin look_up(std::uint64_t granule, std::uint32_t* words) const;
  bool written(std::uint64_t granule) const;
  /// Whether a page exists between two granules.
  bool any_page(std::uint64_t begin, std::uint64_t end) const {
    const auto found = pages_.lower_bound(begin / kPageGranules);
    return found != pages_.end() && found->first * kPageGranules < end;
  }

 private:
  static constexpr std::uint64_t kPageGranules = 64;
  struct Page {
    std::unique_ptr<std::uint32_t[]> words;
    std::uint64_t written = 0;
    std::unique_ptr<std::array<Origin, kPageGranules>> origins;
  };
  struct Assumed {
    std::uint64_t end = 0;
    std::uint32_t buffer = 0;
  };
  Page& page(std::uint64_t number);
  void note_origins(std::uint64_t granule, std::uint64_t granules, Origin origin);

  std::map<std::uint64_t, Page> pages_;
  bool keeps_origins_ = false;
  std::map<std::uint64_t, Assumed> assumed_;  ///< By first granule.
};

}  // namespace tpu
