#include "isa/topology.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <queue>
#include <set>

#include "isa/generation.h"
#include "isa/mirror_image.h"

namespace tpu::isa::topology_test {
namespace {

Topology slice(std::array<std::uint32_t, 3> chips, std::array<bool, 3> wraps = {}) {
  std::array<Topology::Dimension, 3> dimensions;
  for (std::size_t d = 0; d < 3; ++d) dimensions[d] = {chips[d], wraps[d]};
  return Topology(dimensions);
}

/// Of every form: mesh, partly and wholly a torus, two and three dimensions, odd sides, rows.
std::vector<Topology> slices() {
  std::vector<Topology> all;
  for (const std::array<std::uint32_t, 3>& chips : {std::array<std::uint32_t, 3>{1, 1, 1},
                                                    {2, 2, 1},
                                                    {4, 3, 1},
                                                    {7, 1, 1},
                                                    {4, 4, 4},
                                                    {2, 3, 5},
                                                    {1, 6, 2}}) {
    for (unsigned wraps = 0; wraps < 8; ++wraps) {
      all.push_back(slice(chips, {(wraps & 1) != 0, (wraps & 2) != 0, (wraps & 4) != 0}));
    }
  }
  return all;
}

Topology::Direction direction(std::size_t d) { return static_cast<Topology::Direction>(d); }

/// What was published of whole pods: 256 chips of v2 and 1,024 of v3 in a square (Jouppi et al.
/// 2020), 4,096 of v4 in a cube (2023).
TEST(Generation, PodsHaveTheChipsThatWerePublished) {
  using Sides = std::array<std::uint32_t, Topology::kDimensions>;
  EXPECT_EQ(generation("v2").pod, (Sides{16, 16, 1}));
  EXPECT_EQ(generation("v3").pod, (Sides{32, 32, 1}));
  EXPECT_EQ(generation("v4").pod, (Sides{16, 16, 16}));
}

TEST(Topology, PlacesAndNumbersAreInverse) {
  const Topology topology = slice({4, 3, 2});
  EXPECT_EQ(topology.place(0), (Topology::Place{0, 0, 0}));
  EXPECT_EQ(topology.place(5), (Topology::Place{1, 1, 0}));
  EXPECT_EQ(topology.place(23), (Topology::Place{3, 2, 1}));
  for (std::uint32_t chip = 0; chip < topology.chips(); ++chip) {
    EXPECT_EQ(topology.chip_at(topology.place(chip)), chip);
  }
}

TEST(Topology, TheThirdSideIsNamedWhereThereIsOne) {
  EXPECT_EQ(slice({4, 3, 1}).text(), "4x3");
  EXPECT_EQ(slice({4, 3, 2}).text(), "4x3x2");
  EXPECT_EQ(slice({1, 1, 7}).text(), "1x1x7");
}

TEST(Topology, EveryLinkLeadsBack) {
  for (const Topology& topology : slices()) {
    std::uint64_t links = 0;
    for (std::uint32_t chip = 0; chip < topology.chips(); ++chip) {
      for (std::size_t d = 0; d < Topology::kDirections; ++d) {
        if (!topology.has_link(chip, direction(d))) continue;
        ++links;
        const std::uint32_t to = topology.neighbour(chip, direction(d));
        EXPECT_NE(to, chip);
        EXPECT_TRUE(topology.has_link(to, Topology::opposite(direction(d))));
        EXPECT_EQ(topology.neighbour(to, Topology::opposite(direction(d))), chip);
      }
    }
    EXPECT_EQ(links, topology.links()) << topology.text();
  }
}

/// Links from a chip to each other, by search.
std::vector<std::uint32_t> distances(const Topology& topology, std::uint32_t from) {
  std::vector<std::uint32_t> distance(topology.chips(), ~0u);
  std::queue<std::uint32_t> open;
  distance[from] = 0;
  open.push(from);
  while (!open.empty()) {
    const std::uint32_t chip = open.front();
    open.pop();
    for (std::size_t d = 0; d < Topology::kDirections; ++d) {
      if (!topology.has_link(chip, direction(d))) continue;
      const std::uint32_t to = topology.neighbour(chip, direction(d));
      if (distance[to] != ~0u) continue;
      distance[to] = distance[chip] + 1;
      open.push(to);
    }
  }
  return distance;
}

TEST(Topology, MessagesTakeAShortestWay) {
  for (const Topology& topology : slices()) {
    for (std::uint32_t from = 0; from < topology.chips(); ++from) {
      const std::vector<std::uint32_t> shortest = distances(topology, from);
      for (std::uint32_t to = 0; to < topology.chips(); ++to) {
        EXPECT_EQ(topology.hops(from, to), shortest[to]);
        std::uint32_t chip = from, hops = 0;
        std::size_t dimension = 0;
        while (chip != to && hops <= shortest[to]) {
          const Topology::Direction next = topology.towards(chip, to);
          ASSERT_TRUE(topology.has_link(chip, next));
          EXPECT_GE(next / 2u, dimension) << "x before y before z";
          dimension = next / 2u;
          chip = topology.neighbour(chip, next);
          ++hops;
        }
        EXPECT_EQ(hops, shortest[to]) << topology.text() << ": " << from << " to " << to;
      }
    }
  }
}

TEST(Topology, OfTwoWaysAsLongTheOneUpwardsIsTaken) {
  EXPECT_EQ(slice({4, 1, 1}, {true}).towards(3, 1), Topology::kEast);
  EXPECT_EQ(slice({5, 1, 1}, {true}).towards(4, 2), Topology::kWest);
}

TEST(Topology, NeighboursInTheRingAreLinkedWhereASideIsEven) {
  for (const std::array<std::uint32_t, 3>& chips : {std::array<std::uint32_t, 3>{2, 2, 1},
                                                    {4, 3, 1},
                                                    {3, 4, 1},
                                                    {16, 32, 1},
                                                    {2, 2, 2},
                                                    {4, 4, 4},
                                                    {3, 4, 5},
                                                    {2, 3, 3}}) {
    const Topology topology = slice(chips);
    const std::vector<std::uint32_t> ring = topology.ring(topology.chips());
    EXPECT_EQ(std::set<std::uint32_t>(ring.begin(), ring.end()).size(), topology.chips());
    for (std::size_t i = 0; i < ring.size(); ++i) {
      EXPECT_EQ(topology.hops(ring[i], ring[(i + 1) % ring.size()]), 1u)
          << topology.text() << ", place " << i;
    }
  }
}

TEST(Topology, ARingIsAPartOfARowOrRowsOrPlanes) {
  // Along rows, unless only columns are even in number.
  EXPECT_EQ(slice({2, 2, 1}).ring(4), (std::vector<std::uint32_t>{0, 1, 3, 2}));
  EXPECT_EQ(slice({2, 3, 1}).ring(6), (std::vector<std::uint32_t>{0, 2, 4, 5, 3, 1}));
  const Topology topology = slice({4, 4, 4});
  EXPECT_EQ(topology.ring(3), (std::vector<std::uint32_t>{0, 1, 2}));
  for (const std::uint32_t chips : {1u, 4u, 8u, 16u, 32u, 64u}) {
    EXPECT_EQ(topology.ring(chips).size(), chips);
  }
  for (const std::uint32_t chips : {0u, 6u, 20u, 65u}) EXPECT_TRUE(topology.ring(chips).empty());
}

TEST(Topology, JaxListsOneHostAsARingAndMoreHostAfterHost) {
  EXPECT_EQ(slice({2, 2, 1}).listed_place(2), 3u);
  const Topology topology = slice({4, 4, 1});
  // The second host is chips 2, 3, 6, 7.
  EXPECT_EQ(topology.listed_place(2), 4u);
  EXPECT_EQ(topology.listed_place(7), 7u);
  EXPECT_EQ(topology.listed_place(15), 15u);
}

/// A host has four chips, two by two, and hosts follow each other row by row. Other slices are
/// listed as they are numbered.
TEST(Topology, TheChipsOfAHostAreListedBehindEachOther) {
  for (const std::array<std::uint32_t, 3>& chips :
       {std::array<std::uint32_t, 3>{2, 2, 1}, {4, 2, 1}, {2, 4, 1}, {6, 4, 1}, {4, 8, 1}}) {
    const Topology topology = slice(chips);
    std::vector<std::uint32_t> listed(topology.chips(), ~0u);
    for (std::uint32_t chip = 0; chip < topology.chips(); ++chip) {
      ASSERT_LT(topology.listed_place(chip), topology.chips());
      listed[topology.listed_place(chip)] = chip;
    }
    for (std::uint32_t place = 0; place < topology.chips(); ++place) {
      const std::uint32_t host = place / 4, hosts_in_row = chips[0] / 2;
      // A slice of one host goes around, others row by row.
      const bool around = topology.chips() == 4 && place % 4 >= 2;
      const std::uint32_t x = around ? 1 - place % 2 : place % 2;
      EXPECT_EQ(listed[place], topology.chip_at({host % hosts_in_row * 2 + x,
                                                 host / hosts_in_row * 2 + place % 4 / 2, 0}))
          << topology.text() << ", place " << place;
    }
  }
  for (const std::array<std::uint32_t, 3>& chips :
       {std::array<std::uint32_t, 3>{4, 4, 4}, {2, 2, 2}, {3, 4, 1}, {4, 3, 1}, {8, 1, 1}}) {
    const Topology topology = slice(chips);
    for (std::uint32_t chip = 0; chip < topology.chips(); ++chip) {
      EXPECT_EQ(topology.listed_place(chip), chip) << topology.text();
    }
  }
}

/// Rings of whole rows, and of whole planes, close: each chip is linked with the one before it,
/// also the first with the last, where a side is even; a part of a row is a line.
TEST(Topology, ARingOfAnyOfItsSizesVisitsItsChipsByLinks) {
  for (const std::array<std::uint32_t, 3>& chips :
       {std::array<std::uint32_t, 3>{4, 4, 1}, {4, 3, 2}, {1, 4, 2}, {6, 2, 3}}) {
    const Topology topology = slice(chips);
    for (std::uint32_t count = 0; count <= topology.chips() + 1; ++count) {
      const std::vector<std::uint32_t> ring = topology.ring(count);
      const std::uint32_t columns = std::min(count, chips[0]);
      const bool rows_are_whole = count > 0 && count <= topology.chips() && count % columns == 0;
      const std::uint32_t rows = rows_are_whole ? count / columns : 0;
      const bool is_ring = rows_are_whole && (rows <= chips[1] || rows % chips[1] == 0);
      ASSERT_EQ(ring.size(), is_ring ? count : 0) << topology.text() << ", " << count;
      if (!is_ring) continue;
      EXPECT_EQ(ring[0], 0u);
      std::vector<std::uint32_t> all = ring;
      std::sort(all.begin(), all.end());
      for (std::uint32_t i = 0; i < count; ++i) EXPECT_EQ(all[i], i) << topology.text();
      for (std::uint32_t i = 1; i < count; ++i) {
        EXPECT_EQ(topology.hops(ring[i - 1], ring[i]), 1u)
            << topology.text() << ", " << count << " chips, place " << i;
      }
      const bool closes = rows > 1 && columns > 1 && count % 2 == 0;
      const std::uint32_t last = topology.hops(ring.front(), ring.back());
      EXPECT_TRUE(!closes || last == 1) << topology.text() << ", " << count;
    }
  }
}

TEST(Topology, MirrorImagesHaveOneChipInCommon) {
  const Topology mesh({{{4, false}, {6, false}, {1, false}}});
  const auto at = [](const Topology& of, std::uint32_t x, std::uint32_t y) {
    return of.chip_at({x, y, 0});
  };
  for (const std::uint32_t x : {1u, 2u}) {
    for (const std::uint32_t y : {2u, 3u}) {
      EXPECT_EQ(mirror_image(mesh, at(mesh, x, y)), at(mesh, 1, 2)) << x << ' ' << y;
    }
  }
  EXPECT_NE(mirror_image(mesh, at(mesh, 0, 2)), mirror_image(mesh, at(mesh, 1, 2)));
  // Along a side whose ends are linked every place is as good as another.
  const Topology wrapped({{{4, true}, {6, false}, {1, false}}});
  EXPECT_EQ(mirror_image(wrapped, at(wrapped, 3, 4)), at(wrapped, 0, 1));
  const Topology square({{{4, false}, {4, false}, {1, false}}});
  EXPECT_TRUE(is_square(square));
  EXPECT_FALSE(is_square(mesh));
  EXPECT_EQ(mirror_image(square, at(square, 1, 3), true), at(square, 0, 1));
}

TEST(Generation, SidesAsLongAsThePodsAreRings) {
  const auto wraps = [](std::string_view chip, std::array<std::uint32_t, 3> chips) {
    const Topology topology = generation(chip).slice(chips);
    return std::pair(topology.dimension(0).wraps, topology.dimension(1).wraps);
  };
  EXPECT_EQ(wraps("v2", {16, 16, 1}), std::pair(true, true));
  EXPECT_EQ(wraps("v2", {8, 16, 1}), std::pair(false, true));
  EXPECT_EQ(wraps("v3", {16, 16, 1}), std::pair(false, false));
  EXPECT_EQ(wraps("v3", {16, 32, 1}), std::pair(false, true));
}

TEST(Generation, WholeCubesOfV4AreTori) {
  for (const std::array<std::uint32_t, 3> chips :
       {std::array<std::uint32_t, 3>{4, 4, 4}, {4, 4, 8}, {8, 16, 12}, {16, 16, 16}}) {
    const Topology topology = generation("v4").slice(chips);
    for (int d = 0; d < 3; ++d) EXPECT_TRUE(topology.dimension(d).wraps) << topology.text();
  }
  // One side that is no multiple of four leaves no whole cube.
  for (const std::array<std::uint32_t, 3> chips :
       {std::array<std::uint32_t, 3>{2, 2, 1}, {2, 4, 4}, {4, 4, 6}, {16, 16, 1}}) {
    const Topology topology = generation("v4").slice(chips);
    for (int d = 0; d < 3; ++d) EXPECT_FALSE(topology.dimension(d).wraps) << topology.text();
  }
}

TEST(Generation, OnlyThoseOfTheTableAreKnown) {
  EXPECT_EQ(find_generation("v1"), nullptr);
  EXPECT_EQ(generation_names(), "v2, v3 or v4");
}

}  // namespace
}  // namespace tpu::isa::topology_test
