#pragma once

#include <cstddef>
#include <cstdint>

namespace tpu::fuzz {

/// What a fuzzer does with an input; one_input.cpp calls it and bounds its processor time.
void one_input(const std::uint8_t* data, std::size_t size);

}  // namespace tpu::fuzz
