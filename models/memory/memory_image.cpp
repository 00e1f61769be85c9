#include "models/memory/memory_image.h"

#include <algorithm>
#include <cstring>

namespace tpu {

std::uint64_t MemoryImage::bits(std::uint64_t first, std::uint64_t count) {
  const std::uint64_t ones =
      count == kPageGranules ? ~std::uint64_t{0} : (std::uint64_t{1} << count) - 1;
  return ones << first;
}

void MemoryImage::write(std::uint64_t granule, const std::uint32_t* words, std::uint64_t granules) {
  while (granules > 0) {
    const std::uint64_t in_page = granule % kPageGranules;
    const std::uint64_t count = std::min(granules, kPageGranules - in_page);
    Page& target = pages_[granule / kPageGranules];
    if (target.words == nullptr) {
      target.words = std::make_unique<std::uint32_t[]>(kPageGranules * kGranuleWords);
      ++pages_with_words_;
    }
    std::memcpy(target.words.get() + in_page * kGranuleWords, words, count * isa::kHbmGranuleBytes);
    target.written |= bits(in_page, count);
    if (keeps_origins_) note_origins(target, in_page, count, Origin());
    granule += count;
    words += count * kGranuleWords;
    granules -= count;
  }
}

void MemoryImage::write(std::uint64_t granule, const std::uint32_t* words, Origin origin) {
  write(granule, words, std::uint64_t{1});
  if (!keeps_origins_ || origin.plain()) return;
  note_origins(pages_[granule / kPageGranules], granule % kPageGranules, 1, origin);
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

void MemoryImage::zero(std::uint64_t granule, std::uint64_t granules) {
  std::uint64_t end = granule + granules;
  auto at = zeros_.upper_bound(granule);
  if (at != zeros_.begin() && std::prev(at)->second >= granule) --at;
  while (at != zeros_.end() && at->first <= end) {
    granule = std::min(granule, at->first);
    end = std::max(end, at->second);
    at = zeros_.erase(at);
  }
  zeros_[granule] = end;
}

bool MemoryImage::zero_at_start(std::uint64_t begin, std::uint64_t end) const {
  const auto behind = zeros_.lower_bound(end);
  return behind != zeros_.begin() && std::prev(behind)->second > begin;
}

bool MemoryImage::copy(std::uint64_t granule, std::uint32_t* words) const {
  const auto found = pages_.find(granule / kPageGranules);
  const std::uint64_t in_page = granule % kPageGranules;
  if (found != pages_.end()) {
    const Page& page = found->second;
    if ((page.written >> in_page & 1) != 0) {
      std::memcpy(words, page.words.get() + in_page * kGranuleWords, isa::kHbmGranuleBytes);
      return true;
    }
    if ((page.forgotten >> in_page & 1) != 0) return false;
  }
  if (!zero_at_start(granule, granule + 1)) return false;
  std::fill_n(words, kGranuleWords, 0);
  return true;
}

std::optional<std::uint64_t> MemoryImage::read(std::uint64_t granule, std::uint32_t* words,
                                               std::uint64_t granules) const {
  std::optional<std::uint64_t> missing;
  while (granules > 0) {
    const std::uint64_t in_page = granule % kPageGranules;
    const std::uint64_t count = std::min(granules, kPageGranules - in_page);
    const auto found = pages_.find(granule / kPageGranules);
    const std::uint64_t mask = bits(in_page, count);
    if (found != pages_.end() && (found->second.written & mask) == mask) {
      std::memcpy(words, found->second.words.get() + in_page * kGranuleWords,
                  count * isa::kHbmGranuleBytes);
    } else {
      for (std::uint64_t i = 0; i < count; ++i) {
        if (!copy(granule + i, words + i * kGranuleWords) && !missing) missing = granule + i;
      }
    }
    granule += count;
    words += count * kGranuleWords;
    granules -= count;
  }
  return missing;
}

void MemoryImage::forget(std::uint64_t granule, std::uint64_t granules, Origin why) {
  while (granules > 0) {
    const std::uint64_t in_page = granule % kPageGranules;
    const std::uint64_t count = std::min(granules, kPageGranules - in_page);
    if (keeps_origins_ || zero_at_start(granule, granule + count)) {
      forget_in_page(pages_[granule / kPageGranules], in_page, count, why);
    } else {
      const auto found = pages_.find(granule / kPageGranules);
      if (found != pages_.end()) forget_in_page(found->second, in_page, count, why);
    }
    granule += count;
    granules -= count;
  }
}

void MemoryImage::forget_in_page(Page& page, std::uint64_t first, std::uint64_t count, Origin why) {
  page.written &= ~bits(first, count);
  page.forgotten |= bits(first, count);
  if (page.written == 0 && page.words != nullptr) {
    page.words.reset();
    --pages_with_words_;
  }
  if (keeps_origins_) note_origins(page, first, count, why);
}

void MemoryImage::note_origins(Page& page, std::uint64_t first, std::uint64_t count,
                               Origin origin) {
  if (count == kPageGranules) {
    page.origin = origin;
    page.origins.reset();
    return;
  }
  if (page.origins == nullptr) {
    if (page.origin == origin) return;
    page.origins = std::make_unique<std::array<Origin, kPageGranules>>();
    page.origins->fill(page.origin);
  }
  std::fill_n(page.origins->begin() + static_cast<std::ptrdiff_t>(first), count, origin);
}

Origin MemoryImage::origin_of(const Page& page, std::uint64_t in_page) {
  return page.origins != nullptr ? (*page.origins)[in_page] : page.origin;
}

void MemoryImage::assume(std::uint64_t granule, std::uint64_t granules, std::uint32_t buffer) {
  assumed_[granule] = {granule + granules, buffer};
}

Origin MemoryImage::look_up(std::uint64_t granule, std::uint32_t* words) const {
  const auto found = pages_.find(granule / kPageGranules);
  const Origin origin =
      found != pages_.end() ? origin_of(found->second, granule % kPageGranules) : Origin();
  if (!origin.known()) return origin;
  if (copy(granule, words)) return origin;
  const auto behind = assumed_.upper_bound(granule);
  if (behind == assumed_.begin()) return Origin::nobody();
  const auto& [first, assumed] = *std::prev(behind);
  if (granule >= assumed.end) return Origin::nobody();
  const std::vector<std::uint32_t>& contents = contents_(assumed.buffer);
  const std::uint64_t begin =
      std::min<std::uint64_t>((granule - first) * kGranuleWords, contents.size());
  const std::uint64_t count = std::min<std::uint64_t>(kGranuleWords, contents.size() - begin);
  std::fill(std::copy_n(contents.begin() + static_cast<std::ptrdiff_t>(begin), count, words),
            words + kGranuleWords, 0);
  return Origin::assumed(assumed.buffer);
}

bool MemoryImage::written(std::uint64_t granule) const {
  const auto found = pages_.find(granule / kPageGranules);
  return found != pages_.end() && (found->second.written >> (granule % kPageGranules) & 1) != 0;
}

bool MemoryImage::any_known(std::uint64_t begin, std::uint64_t end) const {
  const auto found = pages_.lower_bound(begin / kPageGranules);
  if (found != pages_.end() && found->first * kPageGranules < end) return true;
  return zero_at_start(begin, end);
}

}  // namespace tpu
