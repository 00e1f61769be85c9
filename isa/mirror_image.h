#pragma once

#include <cstdint>

#include "isa/topology.h"

namespace tpu::isa {

/// The chip that stands for all mirror images of one: along each side the nearer end counts, where
/// the ends are linked no place differs from another. `exchanged`: with x and y exchanged, which is
/// an image only where the sides are alike.
std::uint32_t mirror_image(const Topology& topology, std::uint32_t chip, bool exchanged = false);
/// Whether x and y may be exchanged.
bool is_square(const Topology& topology);

}  // namespace tpu::isa
