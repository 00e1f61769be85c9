#include "models/memory/memory_image.h"

#include <algorithm>
#include <cstring>

namespace tpu {

MemoryImage::Page& MemoryImage::page(std::uint64_t number) {
  Page& found = pages_[number];
  if (found.words == nullptr) {
    found.words = std::make_unique<std::uint32_t[]>(kPageGranules * kGranuleWords);
  }
  return found;
}

void MemoryImage::write(std::uint64_t granule, const std::uint32_t* words, std::uint64_t granules) {
  while (granules > 0) {
    const std::uint64_t in_page = granule % kPageGranules;
    const std::uint64_t count = std::min(granules, kPageGranules - in_page);
    Page& target = page(granule / kPageGranules);
    std::memcpy(target.words.get() + in_page * kGranuleWords, words, count * isa::kHbmGranuleBytes);
    for (std::uint64_t i = 0; i < count; ++i) target.written |= std::uint64_t{1} << (in_page + i);
    if (target.origins != nullptr) {
      std::fill_n(target.origins->begin() + static_cast<std::ptrdiff_t>(in_page), count, Origin());
    }
    granule += count;
    words += count * kGranuleWords;
    granules -= count;
  }
}

void MemoryImage::load(std::uint64_t granule, const std::vector<std::uint32_t>& words) {
  const std::uint64_t whole = words.size() / kGranuleWords;
  write(granule, words.data(), whole);
  const std::uint64_t rest = words.size() % kGranuleWords;
  if (rest == 0) return;
  std::vector<std::uint32_t> last(kGranuleWords);
  std::copy(words.end() - static_cast<std::ptrdiff_t>(rest), words.end(), last.begin());
  write(granule + whole, last.data(), 1);
}

std::optional<std::uint64_t> MemoryImage::read(std::uint64_t granule, std::uint32_t* words,
                                               std::uint64_t granules) const {
  std::optional<std::uint64_t> missing;
  while (granules > 0) {
    const std::uint64_t in_page = granule % kPageGranules;
    const std::uint64_t count = std::min(granules, kPageGranules - in_page);
    const auto found = pages_.find(granule / kPageGranules);
    for (std::uint64_t i = 0; i < count; ++i) {
      const bool there = found != pages_.end() && (found->second.written >> (in_page + i) & 1) != 0;
      if (there) {
        std::memcpy(words + i * kGranuleWords,
                    found->second.words.get() + (in_page + i) * kGranuleWords,
                    isa::kHbmGranuleBytes);
      } else if (!missing) {
        missing = granule + i;
      }
    }
    granule += count;
    words += count * kGranuleWords;
    granules -= count;
  }
  return missing;
}

void MemoryImage::forget(std::uint64_t granule, std::uint64_t granules, Origin why) {
  if (granules == 0) return;
  if (keeps_origins_) return note_origins(granule, granules, why);
  const std::uint64_t end = granule + granules;
  for (auto it = pages_.lower_bound(granule / kPageGranules);
       it != pages_.end() && it->first * kPageGranules < end; ++it) {
    const std::uint64_t first = it->first * kPageGranules;
    for (std::uint64_t i = 0; i < kPageGranules; ++i) {
      if (first + i >= granule && first + i < end) {
        it->second.written &= ~(std::uint64_t{1} << i);
      }
    }
  }
}

void MemoryImage::write(std::uint64_t granule, const std::uint32_t* words, Origin origin) {
  write(granule, words, std::uint64_t{1});
  if (keeps_origins_ && !origin.plain()) note_origins(granule, 1, origin);
}

void MemoryImage::note_origins(std::uint64_t granule, std::uint64_t granules, Origin origin) {
  while (granules > 0) {
    const std::uint64_t in_page = granule % kPageGranules;
    const std::uint64_t count = std::min(granules, kPageGranules - in_page);
    Page& target = pages_[granule / kPageGranules];
    if (target.origins == nullptr) {
      target.origins = std::make_unique<std::array<Origin, kPageGranules>>();
    }
    for (std::uint64_t i = in_page; i < in_page + count; ++i) {
      if (!origin.known()) target.written &= ~(std::uint64_t{1} << i);
      (*target.origins)[i] = origin;
    }
    granule += count;
    granules -= count;
  }
}

void MemoryImage::assume_zeros(std::uint64_t granule, std::uint64_t granules,
                               std::uint32_t buffer) {
  assumed_[granule] = {granule + granules, buffer};
}

Origin MemoryImage::look_up(std::uint64_t granule, std::uint32_t* words) const {
  const auto found = pages_.find(granule / kPageGranules);
  const std::uint64_t in_page = granule % kPageGranules;
  if (found != pages_.end()) {
    const Page& page = found->second;
    const Origin origin = page.origins != nullptr ? (*page.origins)[in_page] : Origin();
    if ((page.written >> in_page & 1) != 0) {
      std::memcpy(words, page.words.get() + in_page * kGranuleWords, isa::kHbmGranuleBytes);
      return origin;
    }
    if (!origin.known()) return origin;
  }
  const auto behind = assumed_.upper_bound(granule);
  if (behind == assumed_.begin()) return Origin::nobody();
  const Assumed& assumed = std::prev(behind)->second;
  if (granule >= assumed.end) return Origin::nobody();
  std::fill_n(words, kGranuleWords, 0);
  return Origin::assumed(assumed.buffer);
}

bool MemoryImage::written(std::uint64_t granule) const {
  const auto found = pages_.find(granule / kPageGranules);
  return found != pages_.end() && (found->second.written >> (granule % kPageGranules) & 1) != 0;
}

}  // namespace tpu
