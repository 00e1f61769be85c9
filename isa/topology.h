#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace tpu::isa {

/// Chips that programs can name: 11 bits in the address of another chip's sync flag (a DMA
/// descriptor has 13).
constexpr std::uint32_t kMaxChips = 1U << 11;

/// The chips of a slice: how they are numbered, which of them are linked, and which way a message
/// takes. A mesh or a torus of two or three dimensions; a torus links the ends of a dimension.
/// Chips are numbered along x first, then y, then z: these are the numbers in DMA descriptors and
/// in the addresses of sync flags. Source: Jouppi et al. 2020 (v2, v3: 2-D torus, four links a
/// chip), 2023 (v4: 3-D torus, six links).
class Topology {
 public:
  struct Dimension {
    std::uint32_t size = 1;
    bool wraps = false;  ///< The ends are linked.
  };
  static constexpr std::size_t kDimensions = 3;
  /// Of a link: up and down in each dimension.
  enum Direction : std::uint8_t { kEast, kWest, kNorth, kSouth, kUp, kDown, kDirections };
  using Place = std::array<std::uint32_t, kDimensions>;

  Topology() = default;
  explicit Topology(const std::array<Dimension, kDimensions>& dimensions)
      : dimensions_(dimensions) {}

  const Dimension& dimension(std::size_t number) const { return dimensions_[number]; }
  std::uint32_t chips() const;
  Place place(std::uint32_t chip) const;
  std::uint32_t chip_at(const Place& place) const;

  /// Whether a chip has a link in this direction.
  bool has_link(std::uint32_t chip, Direction direction) const;
  /// The chip at the other end of it.
  std::uint32_t neighbour(std::uint32_t chip, Direction direction) const;
  static Direction opposite(Direction direction) { return static_cast<Direction>(direction ^ 1); }
  /// The link that a message for another chip takes: along x, then y, then z, the shorter way round
  /// where the ends are linked, upwards where both are as long.
  Direction towards(std::uint32_t chip, std::uint32_t to) const;
  std::uint32_t hops(std::uint32_t from, std::uint32_t to) const;
  /// Links of all chips, each direction by itself.
  std::uint64_t links() const;

  /// The first `chips` chips as a ring. They have to be a part of a row, or rows, or planes;
  /// otherwise the ring is empty. Neighbours in the ring are neighbours in the slice where a side
  /// is even, or where a row or column wraps; otherwise one way of the ring is longer.
  std::vector<std::uint32_t> ring(std::uint32_t chips) const;

  /// The place of a chip in the order in which JAX lists the devices of a slice of v2 or v3. On one
  /// host (2x2 chips) that is a ring, chips 0, 1, 3, 2; else host after host, each of 2x2 chips,
  /// both row by row. XLA's collectives hold the peers of that order.
  std::uint32_t listed_place(std::uint32_t chip) const;

  /// "4x4", "4x4x8".
  std::string text() const;

 private:
  std::uint32_t line(std::uint32_t number) const;

  std::array<Dimension, kDimensions> dimensions_{{{2, false}, {2, false}, {1, false}}};
};

}  // namespace tpu::isa
