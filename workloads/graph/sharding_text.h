#pragma once

#include <string_view>

namespace tpu::hlo {

/// The value of sharding= among attributes that are kept as text, its braces included and those of
/// frontend attributes left out; empty when there is none.
std::string_view sharding_text(std::string_view raw_attributes);

}  // namespace tpu::hlo
