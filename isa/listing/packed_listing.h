#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace tpu::isa {

/// The memories that a listing names.
enum class ListingSpace : std::uint8_t { kHbm, kCmem, kVmem, kSmem, kSyncFlag };
const char* to_string(ListingSpace space);

/// A line `#allocationN [...]`: a piece of memory that the compiler gave a place. The offset is
/// absent where something else decides it (constants, the program registry).
struct Allocation {
  std::uint32_t number = 0;
  ListingSpace space = ListingSpace::kHbm;
  std::uint64_t bytes = 0;
  std::optional<std::uint64_t> offset;  ///< Bytes.
  bool fixed = false;                   ///< The offset is absolute, else relative to the program's.
  bool scoped = false;
  bool spill = false;
  std::string shape;
  std::string tag;
};

/// A region of the code, in cycles of the schedule: empty cycles (later `vdelay`) count.
struct PackedRegion {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
};

/// A region that belongs to a `while` or a `conditional`: `$region22: #{while.3} parent=76 //
/// loop_header_branch`, and the region that its branch goes to.
struct ControlRegion {
  std::uint32_t number = 0;
  std::uint32_t parent = 0;
  std::string op;    ///< HLO instruction.
  std::string role;  ///< "pred_check_branch", "pred_region", "loop_header_branch", ...
  std::optional<std::uint32_t> target;
};

/// What XLA's `*-post-bundle-packing-post-ra.txt` tells beyond the final bundles of a kernel: where
/// its allocations lie, and the ranges of its regions.
class PackedListing {
 public:
  /// Throws WorkloadError with file, line and column where the text is no such listing.
  static PackedListing read(std::string_view text, const std::string& file);

  const Allocation* find(std::uint32_t number) const;
  const std::vector<Allocation>& allocations() const { return allocations_; }
  /// Null where the file has no such region or does not tell its range.
  const PackedRegion* region(std::uint32_t number) const;
  /// In the order of the code; outer regions before inner ones.
  const std::vector<ControlRegion>& control_regions() const { return control_regions_; }
  const std::string& file() const { return file_; }

 private:
  std::string file_;
  std::vector<Allocation> allocations_;
  std::unordered_map<std::uint32_t, std::uint32_t> index_;  ///< Number to place in allocations_.
  std::unordered_map<std::uint32_t, PackedRegion> regions_;
  std::vector<ControlRegion> control_regions_;
};

}  // namespace tpu::isa
