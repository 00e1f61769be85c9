#include "sim/config/nearest_name.h"

#include <gtest/gtest.h>

#include <ctime>

namespace tpu::config::nearest_name_test {
namespace {

TEST(NearestName, DistanceCountsChangesOfALetter) {
  EXPECT_EQ(edit_distance("", ""), 0u);
  EXPECT_EQ(edit_distance("abc", ""), 3u);
  EXPECT_EQ(edit_distance("", "abc"), 3u);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
  EXPECT_EQ(edit_distance("ab", "ba"), 1u);
}

TEST(NearestName, TheFirstOfEqualsIsTaken) {
  EXPECT_EQ(nearest_name("run", {"rum", "rub", "compare"}), "rum");
}

TEST(NearestName, NothingIsSuggestedForAWordThatResemblesNone) {
  EXPECT_EQ(nearest_name("xyz", {"run", "compare"}), "");
  EXPECT_EQ(suggestion("xyz", {"run", "compare"}), " (there are: run, compare)");
  std::vector<std::string> many;
  for (int i = 10; i < 60; ++i) many.push_back("name" + std::to_string(i));
  EXPECT_EQ(suggestion("name3", many),
            "; the nearest is \"name30\" (there are 50, such as name30, name31, name32, name33, "
            "name34)");
}

TEST(NearestName, WhatTheWordBeginsComesFirst) {
  EXPECT_EQ(nearest_name("--bat", {"--set", "--batch"}), "--batch");
  EXPECT_EQ(nearest_name("hbm.pin", {"hbm.gib", "hbm.pin_mbps"}), "hbm.pin_mbps");
}

/// A word of a megabyte against a thousand names: nothing is near it, and that is known at once.
TEST(NearestName, AWordOfAMegabyteIsNotComparedByItsLetters) {
  const std::string word(std::size_t{1} << 20, 'a');
  std::vector<std::string> many;
  for (int i = 0; i < 1000; ++i) many.push_back("name_of_many_letters_" + std::to_string(i));
  const auto begin = std::clock();
  EXPECT_EQ(suggestion(word, many).find(" (there are 1000, such as name"), 0u);
  // By its letters it takes minutes; this, three seconds with sanitizers.
  EXPECT_LT(std::clock() - begin, 20 * CLOCKS_PER_SEC);
}

TEST(NearestName, HalfOfTheLettersMayDiffer) {
  EXPECT_EQ(nearest_name("abcd", {"abxy"}), "abxy");
  EXPECT_EQ(nearest_name("abcd", {"axyz"}), "");
}

}  // namespace
}  // namespace tpu::config::nearest_name_test
