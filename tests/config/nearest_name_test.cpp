#include "sim/config/nearest_name.h"

#include <gtest/gtest.h>

namespace tpu::config {
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
}

TEST(NearestName, HalfOfTheLettersMayDiffer) {
  EXPECT_EQ(nearest_name("abcd", {"abxy"}), "abxy");
  EXPECT_EQ(nearest_name("abcd", {"axyz"}), "");
}

}  // namespace
}  // namespace tpu::config
