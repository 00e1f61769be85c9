#include "models/memory/granule_view.h"

#include <gtest/gtest.h>

#include <vector>

namespace tpu::granule_view_test {
namespace {

using Words = std::vector<std::uint32_t>;

TEST(GranuleView, HalvesKeepTheirNeighbours) {
  MemoryImage image;
  GranuleView halves(image, 512, true);
  halves.write(7, Words(128, 7).data(), 1, Origin());
  halves.write(8, Words(3 * 128, 9).data(), 3, Origin());
  Words back(128);
  EXPECT_FALSE(halves.read(7, back.data(), 1).has_value());
  EXPECT_EQ(back, Words(128, 7));
  Words whole(256);
  EXPECT_FALSE(image.read(4, whole.data(), 1).has_value());
  EXPECT_EQ(whole, Words(256, 9));
  halves.write(9, Words(128, 1).data(), 1, Origin());
  EXPECT_FALSE(halves.read(8, back.data(), 1).has_value());
  EXPECT_EQ(back, Words(128, 9));
  Words two(256);
  EXPECT_EQ(halves.read(11, two.data(), 2), 12u);
}

TEST(GranuleView, WithoutValuesAHalfOfWhatIsUnknownStaysUnknown) {
  MemoryImage image;
  GranuleView halves(image, 512, false);
  Words back(128);
  halves.write(4, Words(128, 3).data(), 1, Origin());
  EXPECT_FALSE(halves.look_up(4, back.data()).known());
  halves.write(4, Words(256, 3).data(), 2, Origin());
  EXPECT_TRUE(halves.look_up(5, back.data()).known());
  EXPECT_EQ(back, Words(128, 3));
  halves.forget(5, 1, Origin::nobody());
  EXPECT_FALSE(halves.look_up(4, back.data()).known());
}

TEST(GranuleView, TheHbmSeesTheWholeGranulesInWhichHalvesLie) {
  MemoryImage image;
  const GranuleView halves(image, 512, true);
  HbmRequest request;
  request.address = 5;
  request.granules = 4;  // Halves 5 to 8 lie in granules 2 to 4.
  const HbmRequest whole = halves.whole(request);
  EXPECT_EQ(whole.address, 2u);
  EXPECT_EQ(whole.granules, 3u);
  EXPECT_EQ(GranuleView(image, 1024, true).whole(request).granules, 4u);
  request.granules_per_run = 2;  // Two runs of two halves, seven halves apart.
  request.stride = 7;
  const HbmRequest runs = halves.whole(request);
  EXPECT_EQ(runs.address, 2u);
  EXPECT_EQ(runs.granules_per_run, 1u);
  EXPECT_EQ(runs.granules, 2u);
  EXPECT_EQ(runs.stride, 4u);
}

}  // namespace
}  // namespace tpu::granule_view_test
