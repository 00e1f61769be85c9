#include "isa/topology.h"

#include <algorithm>

namespace tpu::isa {
namespace {

std::size_t dimension_of(Topology::Direction direction) { return direction / 2; }
bool is_upwards(Topology::Direction direction) { return direction % 2 == 0; }

/// Steps up from `from` to `to`, over the end where there is need.
std::uint32_t steps_up(const Topology::Dimension& dimension, std::uint32_t from, std::uint32_t to) {
  return (to + dimension.size - from) % dimension.size;
}

bool goes_up(const Topology::Dimension& dimension, std::uint32_t from, std::uint32_t to) {
  if (!dimension.wraps) return to > from;
  const std::uint32_t up = steps_up(dimension, from, to);
  return up <= dimension.size - up;
}

}  // namespace

std::uint32_t Topology::chips() const {
  std::uint32_t count = 1;
  for (const Dimension& dimension : dimensions_) count *= dimension.size;
  return count;
}

Topology::Place Topology::place(std::uint32_t chip) const {
  Place place{};
  for (std::size_t d = 0; d < kDimensions; ++d) {
    place[d] = chip % dimensions_[d].size;
    chip /= dimensions_[d].size;
  }
  return place;
}

std::uint32_t Topology::chip_at(const Place& place) const {
  std::uint32_t chip = 0;
  for (std::size_t d = kDimensions; d-- > 0;) chip = chip * dimensions_[d].size + place[d];
  return chip;
}

bool Topology::has_link(std::uint32_t chip, Direction direction) const {
  const Dimension& along = dimensions_[dimension_of(direction)];
  if (along.size < 2) return false;
  const std::uint32_t at = place(chip)[dimension_of(direction)];
  return along.wraps || (is_upwards(direction) ? at + 1 < along.size : at > 0);
}

std::uint32_t Topology::neighbour(std::uint32_t chip, Direction direction) const {
  Place there = place(chip);
  const std::size_t d = dimension_of(direction);
  const std::uint32_t size = dimensions_[d].size;
  there[d] = (there[d] + (is_upwards(direction) ? 1 : size - 1)) % size;
  return chip_at(there);
}

Topology::Direction Topology::towards(std::uint32_t chip, std::uint32_t to) const {
  const Place from = place(chip);
  const Place there = place(to);
  std::size_t d = 0;
  while (d + 1 < kDimensions && from[d] == there[d]) ++d;
  const std::size_t down = goes_up(dimensions_[d], from[d], there[d]) ? 0 : 1;
  return static_cast<Direction>(2 * d + down);
}

std::uint32_t Topology::hops(std::uint32_t from, std::uint32_t to) const {
  const Place a = place(from);
  const Place b = place(to);
  std::uint32_t sum = 0;
  for (std::size_t d = 0; d < kDimensions; ++d) {
    const std::uint32_t straight = std::max(a[d], b[d]) - std::min(a[d], b[d]);
    sum += dimensions_[d].wraps ? std::min(straight, dimensions_[d].size - straight) : straight;
  }
  return sum;
}

std::uint64_t Topology::links() const {
  std::uint64_t count = 0;
  for (const Dimension& dimension : dimensions_) {
    if (dimension.size < 2) continue;
    const std::uint64_t lines = chips() / dimension.size;
    count += 2 * lines * (dimension.wraps ? dimension.size : dimension.size - 1);
  }
  return count;
}

/// The first chip of a row of the slice, in an order in which rows that follow each other are
/// linked: up one plane, down the next.
std::uint32_t Topology::line(std::uint32_t number) const {
  const std::uint32_t rows = dimensions_[1].size;
  const std::uint32_t z = number / rows;
  const std::uint32_t y = z % 2 == 0 ? number % rows : rows - 1 - number % rows;
  return chip_at({0, y, z});
}

std::vector<std::uint32_t> Topology::ring(std::uint32_t chips) const {
  const std::uint32_t columns = std::min(chips, dimensions_[0].size);
  const std::uint32_t rows = columns == 0 ? 0 : chips / columns;
  const bool is_planes = rows <= dimensions_[1].size || rows % dimensions_[1].size == 0;
  if (chips == 0 || chips > this->chips() || chips % columns != 0 || !is_planes) return {};
  const auto chip = [this](std::uint32_t x, std::uint32_t row) { return line(row) + x; };
  std::vector<std::uint32_t> ring;
  if (rows == 1 || columns == 1) {
    for (std::uint32_t i = 0; i < chips; ++i) ring.push_back(rows == 1 ? chip(i, 0) : chip(0, i));
    return ring;
  }
  // Down the first column, back up in serpentines over the others. With an odd number of rows the
  // serpentine runs over columns when those are even.
  const bool swap = rows % 2 != 0 && columns % 2 == 0;
  const std::uint32_t lines = swap ? columns : rows;
  const std::uint32_t length = swap ? rows : columns;
  const auto at = [&](std::uint32_t line, std::uint32_t along) {
    return swap ? chip(line, along) : chip(along, line);
  };
  ring.push_back(at(0, 0));
  for (std::uint32_t line = 0; line < lines; ++line) {
    for (std::uint32_t i = 1; i < length; ++i) {
      ring.push_back(at(line, line % 2 == 0 ? i : length - i));
    }
  }
  for (std::uint32_t line = lines - 1; line > 0; --line) ring.push_back(at(line, 0));
  return ring;
}

std::uint32_t Topology::listed_place(std::uint32_t chip) const {
  const std::uint32_t width = dimensions_[0].size;
  const std::uint32_t height = dimensions_[1].size;
  if (width % 2 != 0 || height % 2 != 0 || dimensions_[2].size != 1) return chip;
  const Place at = place(chip);
  const bool one_host = width == 2 && height == 2;
  const std::uint32_t of_host = one_host && at[1] == 1 ? 3 - at[0] : at[1] % 2 * 2 + at[0] % 2;
  const std::uint32_t host = at[1] / 2 * (width / 2) + at[0] / 2;
  return host * 4 + of_host;
}

std::string Topology::text() const {
  std::string text =
      std::to_string(dimensions_[0].size) + "x" + std::to_string(dimensions_[1].size);
  if (dimensions_[2].size > 1) text += "x" + std::to_string(dimensions_[2].size);
  return text;
}

}  // namespace tpu::isa
