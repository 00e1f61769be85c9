#include "isa/listing/packed_listing.h"

#include <charconv>

#include "sim/base/text_cursor.h"

namespace tpu::isa {
namespace {

ListingSpace read_space(TextCursor& cursor) {
  if (cursor.take("hbm")) return ListingSpace::kHbm;
  if (cursor.take("cmem")) return ListingSpace::kCmem;
  if (cursor.take("vmem")) return ListingSpace::kVmem;
  if (cursor.take("smem")) return ListingSpace::kSmem;
  if (cursor.take("sflag")) return ListingSpace::kSyncFlag;
  cursor.fail("a memory space (hbm, cmem, vmem, smem, sflag)");
}

/// Text up to the closing quote of this line.
std::string read_quoted(TextCursor& cursor, std::string_view what) {
  cursor.expect("'");
  const std::string_view line = cursor.rest_of_line();
  const std::size_t close = line.find('\'');
  if (close == std::string_view::npos) cursor.fail(std::string(what) + " in quotes");
  std::string text(line.substr(0, close));
  cursor.advance(close + 1);
  return text;
}

/// `#allocation3_spill [shape = 's32[2]{0}', space=sflag, size = 0x8, offset = 0x4, scoped,
/// fixed_abs, tag = 'spilled sreg/preg']`, the cursor on the number sign.
Allocation read_allocation(TextCursor& cursor) {
  constexpr std::uint64_t kMaxBytes = std::uint64_t{1} << 44;
  Allocation allocation;
  cursor.expect("#allocation");
  allocation.number = static_cast<std::uint32_t>(cursor.decimal("the number of an allocation"));
  allocation.spill = cursor.take("_spill");
  cursor.expect(" [shape = ");
  allocation.shape = read_quoted(cursor, "a shape");
  cursor.expect(", space=");
  allocation.space = read_space(cursor);
  cursor.expect(", size = ");
  allocation.bytes = cursor.number("a size in bytes", kMaxBytes);
  if (cursor.take(", offset = ")) allocation.offset = cursor.number("an offset", kMaxBytes);
  allocation.scoped = cursor.take(", scoped");
  allocation.fixed = cursor.take(", fixed_abs");
  if (cursor.take(", tag = ")) {
    cursor.expect("'");
    const std::string_view line = cursor.rest_of_line();
    const std::size_t close = line.rfind("']");
    if (close == std::string_view::npos) cursor.fail("a tag in quotes and \"]\"");
    allocation.tag = std::string(line.substr(0, close));
    cursor.advance(close + 2);
  } else {
    cursor.expect("]");
  }
  return allocation;
}

}  // namespace

const char* to_string(ListingSpace space) {
  switch (space) {
    case ListingSpace::kHbm:
      return "hbm";
    case ListingSpace::kCmem:
      return "cmem";
    case ListingSpace::kVmem:
      return "vmem";
    case ListingSpace::kSmem:
      return "smem";
    case ListingSpace::kSyncFlag:
      return "sflag";
  }
  return "?";
}

namespace {

std::string_view between(std::string_view line, std::string_view before, std::string_view behind) {
  const std::size_t begin = line.find(before);
  if (begin == std::string_view::npos) return {};
  line.remove_prefix(begin + before.size());
  return line.substr(0, behind.empty() ? line.size() : line.find(behind));
}

std::optional<std::uint32_t> number_in(std::string_view text) {
  std::uint32_t number = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || read.ec != std::errc()) return std::nullopt;
  return number;
}

/// The rest of a line behind "$regionN"; nothing where no HLO instruction owns it or it has no
/// role.
std::optional<ControlRegion> control_region(std::uint32_t number, std::string_view rest) {
  ControlRegion region;
  region.number = number;
  region.op = between(rest, "#{", "}");
  region.role = between(rest, " // ", "");
  const std::optional<std::uint32_t> parent = number_in(between(rest, "parent=", " "));
  if (region.op.empty() || region.role.empty() || !parent) return std::nullopt;
  region.parent = *parent;
  return region;
}

}  // namespace

PackedListing PackedListing::read(std::string_view text, const std::string& file) {
  PackedListing listing;
  listing.file_ = file;
  TextCursor cursor(text, file);
  bool has_region = false;
  bool owned = false;
  std::uint32_t region = 0;
  while (!cursor.at_end()) {
    cursor.skip_blanks();
    if (cursor.looking_at("#allocation")) {
      const char* place = cursor.at();
      Allocation allocation = read_allocation(cursor);
      const auto index = static_cast<std::uint32_t>(listing.allocations_.size());
      if (!listing.index_.emplace(allocation.number, index).second) {
        cursor.refuse_at(place,
                         "expected one allocation of this number, found a second #allocation" +
                             std::to_string(allocation.number));
      }
      listing.allocations_.push_back(std::move(allocation));
    } else if (cursor.take("$region")) {
      region = static_cast<std::uint32_t>(cursor.decimal("the number of a region"));
      has_region = true;
      owned = false;
      if (std::optional<ControlRegion> control = control_region(region, cursor.take_line())) {
        listing.control_regions_.push_back(std::move(*control));
        owned = true;
      }
      continue;
    } else if (has_region && cursor.take("// region range: [")) {
      PackedRegion range;
      range.begin = static_cast<std::uint32_t>(cursor.decimal("the first bundle of a region"));
      cursor.expect(", ");
      range.end = static_cast<std::uint32_t>(cursor.decimal("the end of a region"));
      cursor.expect(")");
      listing.regions_.emplace(region, range);
    }
    const std::string_view rest = cursor.take_line();
    if (!owned || rest.find("= sbr.rel") == std::string_view::npos) continue;
    listing.control_regions_.back().target = number_in(between(rest, "region = ", ")"));
  }
  if (!has_region) cursor.fail("\"$region\" somewhere in a listing of regions and allocations");
  return listing;
}

const PackedRegion* PackedListing::region(std::uint32_t number) const {
  const auto found = regions_.find(number);
  return found == regions_.end() ? nullptr : &found->second;
}

const Allocation* PackedListing::find(std::uint32_t number) const {
  const auto found = index_.find(number);
  return found == index_.end() ? nullptr : &allocations_[found->second];
}

}  // namespace tpu::isa
