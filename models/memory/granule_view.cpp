#include "models/memory/granule_view.h"

#include <algorithm>
#include <array>

#include "isa/core_state.h"

namespace tpu {
namespace {

using WholeGranule = std::array<std::uint32_t, MemoryImage::kGranuleWords>;

}  // namespace

std::optional<std::uint64_t> GranuleView::read(std::uint64_t granule, std::uint32_t* to,
                                               std::uint64_t granules) const {
  if (per_kib_ == 1) return image_.read(granule, to, granules);
  std::optional<std::uint64_t> missing;
  WholeGranule whole{};
  for (std::uint64_t i = 0; i < granules; ++i, to += words()) {
    const std::uint64_t at = granule + i;
    if (image_.read(at / per_kib_, whole.data(), 1) && !missing) missing = at;
    std::copy_n(whole.begin() + static_cast<std::ptrdiff_t>(at % per_kib_ * words()), words(), to);
  }
  return missing;
}

void GranuleView::write(std::uint64_t granule, const std::uint32_t* from, std::uint64_t granules,
                        Origin origin) {
  if (per_kib_ == 1) return image_.write(granule, from, granules, origin);
  for (std::uint64_t i = 0; i < granules;) {
    const bool whole = (granule + i) % per_kib_ == 0 && granules - i >= per_kib_;
    if (whole) {
      image_.write((granule + i) / per_kib_, from + i * words(), 1, origin);
    } else {
      write_part(granule + i, from + i * words(), origin);
    }
    i += whole ? per_kib_ : 1;
  }
}

void GranuleView::write_part(std::uint64_t granule, const std::uint32_t* from, Origin origin) {
  const std::uint64_t at = granule / per_kib_;
  WholeGranule whole;
  whole.fill(isa::kUnwrittenWord);
  const Origin before = image_.look_up(at, whole.data());
  if (!values_ && !before.known()) return image_.forget(at, 1, before);
  std::copy_n(from, words(),
              whole.begin() + static_cast<std::ptrdiff_t>(granule % per_kib_ * words()));
  image_.write(at, whole.data(), 1, before.known() ? origin | before : origin);
}

void GranuleView::forget(std::uint64_t granule, std::uint64_t granules, Origin origin) {
  const std::uint64_t first = granule / per_kib_;
  image_.forget(first, round_up(granule + granules) - first, origin);
}

Origin GranuleView::look_up(std::uint64_t granule, std::uint32_t* to) const {
  if (per_kib_ == 1) return image_.look_up(granule, to);
  WholeGranule whole{};
  const Origin origin = image_.look_up(granule / per_kib_, whole.data());
  std::copy_n(whole.begin() + static_cast<std::ptrdiff_t>(granule % per_kib_ * words()), words(),
              to);
  return origin;
}

bool GranuleView::any_known(std::uint64_t begin, std::uint64_t end) const {
  return image_.any_known(begin / per_kib_, round_up(end));
}

HbmRequest GranuleView::whole(HbmRequest request) const {
  if (per_kib_ == 1) return request;
  const std::uint64_t first = request.address / per_kib_;
  const bool contiguous =
      request.granules_per_run == 0 || request.granules_per_run >= request.granules;
  if (contiguous) {
    const std::uint64_t end = round_up(request.address + request.granules);
    request.granules = request.granules == 0 ? 0 : end - first;
    request.granules_per_run = 0;
  } else {
    const std::uint64_t runs = (request.granules - 1) / request.granules_per_run + 1;
    request.granules_per_run = round_up(request.granules_per_run);
    request.granules = runs * request.granules_per_run;
    request.stride = round_up(request.stride);
  }
  request.address = first;
  return request;
}

}  // namespace tpu
