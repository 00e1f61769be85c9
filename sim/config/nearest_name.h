#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tpu::config {

/// Changes (insert, delete, replace a character, swap two neighbours) that turn one word into the
/// other.
std::size_t edit_distance(std::string_view a, std::string_view b);

/// The known name that is nearest to `word`, the first of equals; "" when none is near enough to be
/// what was meant (more than half of its letters differ).
std::string nearest_name(std::string_view word, const std::vector<std::string>& known);

/// "; the nearest is "y"" or nothing, then " (there are: a, b, c)".
std::string suggestion(std::string_view word, const std::vector<std::string>& known);

}  // namespace tpu::config
