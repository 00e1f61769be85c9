#include "isa/mirror_image.h"

#include <algorithm>
#include <utility>

namespace tpu::isa {

std::uint32_t mirror_image(const Topology& topology, std::uint32_t chip, bool exchanged) {
  Topology::Place image = topology.place(chip);
  for (std::size_t d = 0; d < image.size(); ++d) {
    const Topology::Dimension& along = topology.dimension(d);
    image[d] = along.wraps ? 0 : std::min(image[d], along.size - 1 - image[d]);
  }
  if (exchanged) std::swap(image[0], image[1]);
  return topology.chip_at(image);
}

bool is_square(const Topology& topology) {
  const Topology::Dimension &x = topology.dimension(0), &y = topology.dimension(1);
  return x.size == y.size && x.wraps == y.wraps;
}

}  // namespace tpu::isa
