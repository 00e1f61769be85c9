#pragma once

#include <cstddef>
#include <string_view>

namespace tpu::config {

/// The most parts that a key of a TOML text has, "a.b.c" being three. It is known before toml++
/// reads the text, which recurses into them.
std::size_t longest_key(std::string_view text);
/// More no key of ours has.
inline constexpr std::size_t kMostKeyParts = 16;

}  // namespace tpu::config
