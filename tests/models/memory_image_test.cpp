#include "models/memory/memory_image.h"

#include <gtest/gtest.h>

#include <optional>
#include <random>

namespace tpu::memory_image_test {
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
  EXPECT_FALSE(image.written(11));
  EXPECT_FALSE(image.written(9));
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
  image.write(650, words.data(), 1, Origin());
  EXPECT_TRUE(image.look_up(650, words.data()).plain());
  EXPECT_EQ(image.look_up(651, words.data()), Origin::kernel(9));
}

/// Steps repeat where the same is unknown: as much of it, from the same granule on, for the same
/// reason.
TEST(MemoryImage, WhatIsUnknownIsPartOfTheState) {
  const auto state_of = [](std::uint64_t granule, std::uint64_t granules, Origin why) {
    MemoryImage image;
    image.forget(granule, granules, why);
    StepState state(0);
    image.describe(state);
    return state.words();
  };
  const std::vector<std::uint64_t> state = state_of(10, 5, Origin::kernel(1));
  EXPECT_EQ(state_of(10, 5, Origin::kernel(1)), state);
  EXPECT_NE(state_of(10, 6, Origin::kernel(1)), state);
  EXPECT_NE(state_of(9, 6, Origin::kernel(1)), state);
  EXPECT_NE(state_of(10, 5, Origin::kernel(2)), state);
}

/// And where inputs, or copies of them, lie: the same granules of the same ones.
TEST(MemoryImage, WhereInputsLieIsPartOfTheState) {
  MemoryImage owner, other;
  const auto state_of = [](std::uint64_t granule, const MemoryImage::InputPart& part) {
    MemoryImage image;
    image.assume(0, 4, 1);
    image.hold(granule, part);
    StepState state(0);
    image.describe(state);
    EXPECT_TRUE(state.is_complete());
    std::vector<std::uint64_t> words = state.words();
    words[3] = 0;  // The image itself owns its input.
    return words;
  };
  const std::vector<std::uint64_t> state = state_of(10, {&owner, 1, 2, 3});
  EXPECT_EQ(state_of(10, {&owner, 1, 2, 3}), state);
  EXPECT_NE(state_of(11, {&owner, 1, 2, 3}), state);
  EXPECT_NE(state_of(10, {&other, 1, 2, 3}), state);
  EXPECT_NE(state_of(10, {&owner, 4, 2, 3}), state);
  EXPECT_NE(state_of(10, {&owner, 1, 3, 3}), state);
  EXPECT_NE(state_of(10, {&owner, 1, 2, 4}), state);
}

/// A page of words is 64 granules.
TEST(MemoryImage, NothingIsKnownBeforeAndBehindWhatWasWritten) {
  MemoryImage image;
  EXPECT_FALSE(image.any_known(0, 1000));
  image.write(650, std::vector<std::uint32_t>(kWords, 7).data(), 1);
  EXPECT_FALSE(image.any_known(0, 640));
  EXPECT_TRUE(image.any_known(0, 651));
  EXPECT_TRUE(image.any_known(650, 651));
  EXPECT_TRUE(image.any_known(650, 1000));
  EXPECT_FALSE(image.any_known(704, 1000));
  image.zero(800, 10);
  EXPECT_FALSE(image.any_known(704, 800));
  EXPECT_TRUE(image.any_known(704, 801));
  EXPECT_TRUE(image.any_known(809, 1000));
  EXPECT_FALSE(image.any_known(810, 1000));
}

TEST(MemoryImage, IsWhatAnArrayOfGranulesIs) {
  struct Granule {
    std::optional<std::uint32_t> word;
    Origin origin = Origin::nobody();
  };
  constexpr std::uint64_t kGranules = 300;
  std::mt19937 random(5);
  const auto below = [&](std::uint64_t end) {
    return std::uniform_int_distribution<std::uint64_t>(0, end - 1)(random);
  };
  for (int round = 0; round < 30; ++round) {
    MemoryImage image;
    std::vector<Granule> expected(kGranules);
    image.zero(70, 90);
    for (std::uint64_t g = 70; g < 160; ++g) expected[g] = {0, Origin()};
    for (int step = 0; step < 60; ++step) {
      const std::uint64_t begin = below(kGranules);
      const std::uint64_t count = 1 + below(std::min<std::uint64_t>(kGranules - begin, 100));
      const auto word = static_cast<std::uint32_t>(below(1000));
      const bool known = below(2) == 0;
      const auto which = static_cast<std::uint32_t>(below(3));
      Origin origin = known ? Origin::assumed(which) : Origin::kernel(which);
      if (known && which == 0) origin = Origin();
      if (known) {
        const std::vector<std::uint32_t> words(count * kWords, word);
        image.write(begin, words.data(), count, origin);
      } else {
        image.forget(begin, count, origin);
      }
      for (std::uint64_t g = begin; g < begin + count; ++g) {
        expected[g] = {known ? std::optional<std::uint32_t>(word) : std::nullopt, origin};
      }
    }
    std::vector<std::uint32_t> words(kWords);
    for (std::uint64_t g = 0; g < kGranules; ++g) {
      ASSERT_EQ(image.look_up(g, words.data()), expected[g].origin) << round << ", granule " << g;
      ASSERT_EQ(!image.read(g, words.data(), 1), expected[g].word.has_value()) << g;
      if (expected[g].word) {
        ASSERT_EQ(words[kWords - 1], *expected[g].word) << g;
      }
    }
  }
}

TEST(MemoryImage, InputsAndCopiesOfThemHaveNamesUntilSomebodyLooks) {
  std::vector<std::uint32_t> contents(100 * kWords);
  for (std::size_t i = 0; i < contents.size(); ++i) contents[i] = static_cast<std::uint32_t>(i);
  int asked = 0;
  MemoryImage owner, other;
  owner.set_contents([&](std::uint32_t buffer) -> const auto& {
    EXPECT_EQ(buffer, 3u);
    ++asked;
    return contents;
  });
  owner.assume(1000, 100, 3);
  EXPECT_FALSE(owner.input_at(999));
  EXPECT_FALSE(owner.input_at(1100));
  other.forget(0, 500, Origin::kernel(1));
  other.hold(50, *owner.input_at(1010));
  const std::optional<MemoryImage::InputPart> copy = other.input_at(60);
  ASSERT_TRUE(copy.has_value());
  EXPECT_EQ(copy->owner, &owner);
  EXPECT_EQ(copy->first, 20u);
  EXPECT_EQ(copy->granules, 80u);
  EXPECT_EQ(owner.bytes() + other.bytes(), 0u);
  EXPECT_EQ(asked, 0);
  std::vector<std::uint32_t> words(kWords);
  EXPECT_EQ(other.look_up(60, words.data()), Origin::assumed(3));
  EXPECT_EQ(words[5], 20 * kWords + 5);
  EXPECT_EQ(asked, 1);
  EXPECT_EQ(other.look_up(49, words.data()), Origin::kernel(1));
  EXPECT_EQ(other.look_up(140, words.data()), Origin::kernel(1));
  // What is written over an input is gone until the next step; a copy in other memory is not, and
  // stays over the begin of a step.
  owner.write(1020, std::vector<std::uint32_t>(kWords, 7).data(), 1);
  EXPECT_TRUE(owner.look_up(1020, words.data()).plain());
  EXPECT_EQ(words[5], 7u);
  EXPECT_EQ(owner.input_at(1015)->granules, 5u);
  EXPECT_EQ(owner.input_at(1021)->first, 21u);
  EXPECT_EQ(other.look_up(60, words.data()), Origin::assumed(3));
  EXPECT_EQ(words[5], 20 * kWords + 5);
  owner.begin_step();
  other.begin_step();
  EXPECT_EQ(owner.look_up(1020, words.data()), Origin::assumed(3));
  EXPECT_EQ(words[5], 20 * kWords + 5);
  EXPECT_EQ(other.look_up(60, words.data()), Origin::assumed(3));
}

/// Any order of writes, of what is forgotten and of copies of inputs.
TEST(MemoryImage, CopiesOfInputsAreWhatAnArrayOfGranulesIs) {
  struct Granule {
    std::uint32_t word = 0;
    Origin origin = Origin::nobody();
  };
  constexpr std::uint64_t kGranules = 300;
  std::mt19937 random(9);
  const auto below = [&](std::uint64_t end) {
    return std::uniform_int_distribution<std::uint64_t>(0, end - 1)(random);
  };
  std::vector<std::uint32_t> contents(kGranules * kWords);
  for (std::size_t i = 0; i < contents.size(); ++i) {
    contents[i] = static_cast<std::uint32_t>(5000 + i / kWords);
  }
  MemoryImage owner;
  owner.set_contents([&](std::uint32_t) -> const auto& { return contents; });
  owner.assume(0, kGranules, 2);
  for (int round = 0; round < 30; ++round) {
    MemoryImage image;
    std::vector<Granule> expected(kGranules);
    image.forget(0, kGranules);
    for (int step = 0; step < 60; ++step) {
      const std::uint64_t begin = below(kGranules);
      const std::uint64_t count = 1 + below(std::min<std::uint64_t>(kGranules - begin, 100));
      const std::uint64_t kind = below(3), from = below(kGranules - count + 1);
      if (kind == 0) {
        image.write(begin, std::vector<std::uint32_t>(count * kWords, 9).data(), count);
      } else if (kind == 1) {
        image.forget(begin, count, Origin::kernel(4));
      } else {
        MemoryImage::InputPart part = *owner.input_at(from);
        part.granules = count;
        image.hold(begin, part);
      }
      for (std::uint64_t g = begin; g < begin + count; ++g) {
        expected[g] = {9, Origin()};
        if (kind == 1) expected[g] = {0, Origin::kernel(4)};
        if (kind == 2) {
          expected[g] = {static_cast<std::uint32_t>(5000 + from + g - begin), Origin::assumed(2)};
        }
      }
    }
    std::vector<std::uint32_t> words(kWords);
    for (std::uint64_t g = 0; g < kGranules; ++g) {
      ASSERT_EQ(image.look_up(g, words.data()), expected[g].origin) << round << ", granule " << g;
      if (expected[g].origin.known()) {
        ASSERT_EQ(words[kWords - 1], expected[g].word) << round << ", granule " << g;
      }
    }
  }
}

}  // namespace
}  // namespace tpu::memory_image_test
