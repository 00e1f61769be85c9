#pragma once

#include <string>
#include <string_view>

namespace tpu::traces {

/// The text with U+FFFD in the place of each byte that is no part of a UTF-8 character.
std::string valid_utf8(std::string_view text);

}  // namespace tpu::traces
