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
  write(granule, words, granules, Origin());
}

void MemoryImage::write(std::uint64_t granule, const std::uint32_t* words, std::uint64_t granules,
                        Origin origin) {
  if (!marked_.empty() || !origin.plain()) mark(granule, granule + granules, origin);
  drop_inputs(granule, granule + granules);
  while (granules > 0) {
    const std::uint64_t in_page = granule % kPageGranules;
    const std::uint64_t count = std::min(granules, kPageGranules - in_page);
    Page& target = pages_[granule / kPageGranules];
    if (target.words == nullptr) {
      target.words = std::make_unique<std::uint32_t[]>(kPageGranules * kGranuleWords);
    }
    std::uint32_t* const to = target.words.get() + in_page * kGranuleWords;
    const std::uint64_t mask = bits(in_page, count);
    const bool holds_them = (target.written & mask) == mask &&
                            std::memcmp(to, words, count * isa::kHbmGranuleBytes) == 0;
    if (!holds_them) {
      ++changes_;
      std::memcpy(to, words, count * isa::kHbmGranuleBytes);
      target.written |= mask;
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
  if (found != pages_.end() && (found->second.written >> in_page & 1) != 0) {
    std::memcpy(words, found->second.words.get() + in_page * kGranuleWords, isa::kHbmGranuleBytes);
    return true;
  }
  if (!origin_of(granule).known() || !zero_at_start(granule, granule + 1)) return false;
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
  mark(granule, granule + granules, why);
  drop_words(granule, granules);
  drop_inputs(granule, granule + granules);
}

/// What stands out of the range stays.
void MemoryImage::drop_inputs(std::uint64_t begin, std::uint64_t end) {
  auto at = inputs_.upper_bound(begin);
  if (at != inputs_.begin()) --at;
  while (at != inputs_.end() && at->first < end) {
    const auto [first, part] = *at;
    const std::uint64_t last = first + part.granules;
    if (last <= begin) {
      ++at;
      continue;
    }
    at = inputs_.erase(at);
    if (first < begin) inputs_[first] = {part.owner, part.buffer, part.first, begin - first};
    if (last > end) inputs_[end] = {part.owner, part.buffer, part.first + end - first, last - end};
  }
}

void MemoryImage::drop_words(std::uint64_t granule, std::uint64_t granules) {
  const std::uint64_t end = granule + granules;
  auto at = pages_.lower_bound(granule / kPageGranules);
  while (at != pages_.end() && at->first * kPageGranules < end) {
    const std::uint64_t page = at->first * kPageGranules;
    const std::uint64_t first = std::max(granule, page) - page;
    const std::uint64_t mask = bits(first, std::min(end - page, kPageGranules) - first);
    if ((at->second.written & mask) != 0) ++changes_;
    at->second.written &= ~mask;
    at = at->second.written == 0 ? pages_.erase(at) : std::next(at);
  }
}

void MemoryImage::mark(std::uint64_t begin, std::uint64_t end, Origin origin) {
  if (begin == end) return;
  auto at = marked_.lower_bound(begin);
  if (at != marked_.begin() && std::prev(at)->second.end >= begin) {
    --at;
    // Most ranges lie in one of their kind or follow on it.
    if (at->second.origin == origin) {
      if (at->second.end >= end) return;
      const auto next = std::next(at);
      if (next == marked_.end() || next->first > end) {
        at->second.end = end;
        return;
      }
    }
  }
  // All that overlaps or touches goes; what stands out of it comes back, or joins the new range.
  std::uint64_t joined_begin = begin;
  std::uint64_t joined_end = end;
  std::map<std::uint64_t, Marked> rest;
  while (at != marked_.end() && at->first <= end) {
    const auto [first, old] = *at;
    at = marked_.erase(at);
    if (old.origin == origin) {
      joined_begin = std::min(joined_begin, first);
      joined_end = std::max(joined_end, old.end);
      continue;
    }
    if (first < begin) rest[first] = {std::min(old.end, begin), old.origin};
    if (old.end > end) rest[std::max(first, end)] = {old.end, old.origin};
  }
  marked_.merge(rest);
  if (!origin.plain()) marked_[joined_begin] = {joined_end, origin};
}

Origin MemoryImage::origin_of(std::uint64_t granule) const {
  const auto behind = marked_.upper_bound(granule);
  if (behind == marked_.begin()) return {};
  const Marked& before = std::prev(behind)->second;
  return granule < before.end ? before.origin : Origin();
}

void MemoryImage::assume(std::uint64_t granule, std::uint64_t granules, std::uint32_t buffer) {
  const InputPart part{this, buffer, 0, granules};
  assumed_[granule] = part;
  drop_inputs(granule, granule + granules);
  inputs_[granule] = part;
  // What was loaded stays.
  for (auto at = pages_.lower_bound(granule / kPageGranules);
       at != pages_.end() && at->first * kPageGranules < granule + granules; ++at) {
    for (std::uint64_t i = 0; i < kPageGranules; ++i) {
      const std::uint64_t loaded = at->first * kPageGranules + i;
      if ((at->second.written >> i & 1) != 0) drop_inputs(loaded, loaded + 1);
    }
  }
}

void MemoryImage::hold(std::uint64_t granule, const InputPart& part) {
  forget(granule, part.granules, Origin());
  inputs_[granule] = part;
}

std::optional<MemoryImage::InputPart> MemoryImage::input_at(std::uint64_t granule) const {
  const auto behind = inputs_.upper_bound(granule);
  if (behind == inputs_.begin()) return std::nullopt;
  const auto& [first, part] = *std::prev(behind);
  const std::uint64_t before = granule - first;
  if (before >= part.granules) return std::nullopt;
  return InputPart{part.owner, part.buffer, part.first + before, part.granules - before};
}

void MemoryImage::describe(StepState& state) const {
  state.add(changes_);
  state.add(inputs_.size());
  for (const auto& [begin, part] : inputs_) {
    state.add(begin);
    state.add(reinterpret_cast<std::uintptr_t>(part.owner));
    state.add(part.buffer);
    state.add(part.first);
    state.add(part.granules);
  }
  state.add(marked_.size());
  for (const auto& [begin, marked] : marked_) {
    state.add(begin);
    state.add(marked.end);
    state.add(marked.origin.code());
  }
}

void MemoryImage::begin_step() {
  for (auto& [first, marked] : marked_) {
    if (!marked.origin.known()) marked.origin = Origin::nobody();
  }
  for (const auto& [first, assumed] : assumed_) hold(first, assumed);
}

Origin MemoryImage::look_up(std::uint64_t granule, std::uint32_t* words) const {
  const Origin origin = origin_of(granule);
  if (!origin.known()) return origin;
  const std::optional<InputPart> input = input_at(granule);
  if (!input) return copy(granule, words) ? origin : Origin::nobody();
  const std::vector<std::uint32_t>& contents = input->owner->contents_(input->buffer);
  const std::uint64_t begin =
      std::min<std::uint64_t>(input->first * kGranuleWords, contents.size());
  const std::uint64_t count = std::min<std::uint64_t>(kGranuleWords, contents.size() - begin);
  std::fill(std::copy_n(contents.begin() + static_cast<std::ptrdiff_t>(begin), count, words),
            words + kGranuleWords, 0);
  return Origin::assumed(input->buffer);
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
