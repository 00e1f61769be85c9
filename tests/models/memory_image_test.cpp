#include "models/memory/memory_image.h"

#include <gtest/gtest.h>

namespace tpu {
namespace {

constexpr std::size_t kWords = MemoryImage::kGranuleWords;

TEST(MemoryImage, ReadsBackWhatWasWrittenAcrossPages) {
  MemoryImage image;
  std::vector<std::uint32_t> words(70 * kWords);
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = static_cast<std::uint32_t>(i * 7);
  image.write(60, words.data(), 70);
  std::vector<std::uint32_t> back(70 * kWords);
  EXPECT_FALSE(image.read(60, back.data(), 70).has_value());
  EXPECT_EQ(back, words);
}

TEST(MemoryImage, NamesTheFirstGranuleThatNothingWrote) {
  MemoryImage image;
  const std::vector<std::uint32_t> words(2 * kWords, 1);
  image.write(10, words.data(), 2);
  std::vector<std::uint32_t> back(4 * kWords);
  EXPECT_EQ(image.read(9, back.data(), 1), 9u);
  EXPECT_EQ(image.read(10, back.data(), 4), 12u);
  image.forget(11, 5);
  EXPECT_EQ(image.read(10, back.data(), 4), 11u);
  EXPECT_TRUE(image.written(10));
}

TEST(MemoryImage, LoadsFillTheirLastGranuleWithZeros) {
  MemoryImage image;
  image.load(3, std::vector<std::uint32_t>(kWords + 5, 9));
  std::vector<std::uint32_t> back(2 * kWords, 1);
  EXPECT_FALSE(image.read(3, back.data(), 2).has_value());
  EXPECT_EQ(back[kWords + 4], 9u);
  EXPECT_EQ(back[kWords + 5], 0u);
}

TEST(MemoryImage, ZerosAndWhatIsForgottenTakeNoWords) {
  MemoryImage image;
  image.zero(100, 1000);
  image.zero(50, 60);
  std::vector<std::uint32_t> back(2 * kWords, 1);
  EXPECT_EQ(image.read(49, back.data(), 1), 49u);
  EXPECT_FALSE(image.read(50, back.data(), 2).has_value());
  EXPECT_EQ(back, std::vector<std::uint32_t>(2 * kWords));
  EXPECT_FALSE(image.read(1098, back.data(), 2).has_value());
  EXPECT_EQ(image.read(1099, back.data(), 2), 1100u);
  EXPECT_EQ(image.bytes(), 0u);
  image.write(200, std::vector<std::uint32_t>(kWords, 7).data(), 1);
  EXPECT_GT(image.bytes(), 0u);
  image.forget(190, 20);
  EXPECT_EQ(image.bytes(), 0u);
  EXPECT_EQ(image.read(200, back.data(), 1), 200u);
  EXPECT_EQ(image.read(209, back.data(), 1), 209u);
  EXPECT_FALSE(image.read(210, back.data(), 1).has_value());
}

TEST(MemoryImage, OriginsAreThoseOfTheLastWrite) {
  MemoryImage image;
  image.keep_origins();
  const std::vector<std::uint32_t> contents{5, 6};
  image.set_contents([&](std::uint32_t) -> const auto& { return contents; });
  image.assume(640, 128, 3);
  std::vector<std::uint32_t> words(kWords, 1);
  EXPECT_EQ(image.look_up(640, words.data()), Origin::assumed(3));
  EXPECT_EQ(words[1], 6u);
  EXPECT_EQ(words[2], 0u);
  EXPECT_EQ(image.look_up(641, words.data()), Origin::assumed(3));
  EXPECT_EQ(words[1], 0u);
  EXPECT_EQ(image.look_up(768, words.data()), Origin::nobody());
  image.forget(640, 64, Origin::kernel(9));
  EXPECT_EQ(image.look_up(703, words.data()), Origin::kernel(9));
  EXPECT_EQ(image.look_up(704, words.data()), Origin::assumed(3));
  image.write(650, words.data(), Origin());
  EXPECT_TRUE(image.look_up(650, words.data()).plain());
  EXPECT_EQ(image.look_up(651, words.data()), Origin::kernel(9));
}

}  // namespace
}  // namespace tpu
