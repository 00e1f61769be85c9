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

}  // namespace
}  // namespace tpu
