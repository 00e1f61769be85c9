#include "models/params.h"

#include <gtest/gtest.h>

namespace tpu::params_test {
namespace {

std::vector<std::uint32_t> partitions(std::uint32_t mesh_x, std::uint32_t mesh_y) {
  MachineParams params;
  params.ici.mesh_x = mesh_x;
  params.ici.mesh_y = mesh_y;
  std::vector<std::uint32_t> result;
  for (std::uint32_t core = 0; core < params.cores(); ++core) {
    result.push_back(params.partition_of(core));
  }
  return result;
}

TEST(MachineParams, PartitionsOfOneHostGoRoundTheRing) {
  // Chips by place: (0,0), (1,0), then (0,1), (1,1), which the ring meets the other way round.
  EXPECT_EQ(partitions(2, 2), (std::vector<std::uint32_t>{0, 1, 2, 3, 6, 7, 4, 5}));
}

TEST(MachineParams, PartitionsOfASliceGoHostAfterHost) {
  // Two hosts of 2x2 chips side by side: the first row of chips has two chips of each.
  EXPECT_EQ(partitions(4, 2), (std::vector<std::uint32_t>{0, 1, 2, 3, 8, 9, 10, 11,  //
                                                          4, 5, 6, 7, 12, 13, 14, 15}));
  const std::vector<std::uint32_t> sixteen = partitions(4, 4);
  EXPECT_EQ(sixteen[2 * 8], 16u);       // Chip (0,2) begins the third host.
  EXPECT_EQ(sixteen[2 * 15 + 1], 31u);  // The last core of all.
}

TEST(MachineParams, PartitionsOfASliceWithoutHostsOfFourAreTheCores) {
  EXPECT_EQ(partitions(1, 2), (std::vector<std::uint32_t>{0, 1, 2, 3}));
  EXPECT_EQ(partitions(3, 1), (std::vector<std::uint32_t>{0, 1, 2, 3, 4, 5}));
}

}  // namespace
}  // namespace tpu::params_test
