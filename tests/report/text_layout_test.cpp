#include "sim/report/text_layout.h"

#include <gtest/gtest.h>

#include <sstream>

#include "sim/report/text_report.h"
#include "tests/traces/synthetic_record.h"

namespace tpu::report::text_layout_test {
namespace {

std::string fit(const std::string& text, int width, bool color = false) {
  TextStyle style;
  style.width = width;
  style.color = color;
  return fit_to_width(text, style);
}

TEST(TextLayout, LeavesWhatFits) { EXPECT_EQ(fit("a b\n\n  c\n", 3), "a b\n\n  c\n"); }

TEST(TextLayout, GoesOnUnderThePartThatStandsApart) {
  EXPECT_EQ(fit("  label   12   one two three four\n", 24),
            "  label   12   one two\n               three\n               four\n");
  EXPECT_EQ(fit("one two three four five\n", 10), "one two\n  three\n  four\n  five\n");
}

TEST(TextLayout, APartFarToTheRightHasNoRoomBelowIt) {
  EXPECT_EQ(fit("  aaaa bbbb cccc dddd eeee   one two three four\n", 40),
            "  aaaa bbbb cccc dddd eeee   one two\n    three four\n");
  EXPECT_EQ(fit("  a             b c d e f g\n", 20), "  a             b c\n    d e f g\n");
}

TEST(TextLayout, BlanksAtTheBeginOrEndSetNothingApart) {
  EXPECT_EQ(fit("    one two three\n", 12), "    one two\n      three\n");
  EXPECT_EQ(fit("aa bb      \n", 6), "aa bb      \n");
}

TEST(TextLayout, NumbersHaveFourDigitsAfterRoundingToo) {
  EXPECT_EQ(short_number(999.6), "1,000");
  EXPECT_EQ(short_number(999.5), "1,000");
  EXPECT_EQ(short_number(999.4), "999.4");
  EXPECT_EQ(short_number(99.96), "100.0");
  EXPECT_EQ(short_number(9.996), "10.00");
  EXPECT_EQ(short_number(-1234567.2), "-1,234,567");
}

TEST(TextLayout, ATextIsCutToTwentyColumnsAtLeast) {
  EXPECT_EQ(fitted(std::string(30, 'x'), 5), std::string(18, 'x') + "..");
  EXPECT_EQ(fitted(std::string(20, 'x'), 5), std::string(20, 'x'));
  EXPECT_EQ(fitted(std::string(30, 'x'), 21), std::string(19, 'x') + "..");
}

TEST(TextLayout, NeverCutsAWord) {
  EXPECT_EQ(fit("  a_name_of_fifteen x\n", 10), "  a_name_of_fifteen\n    x\n");
  EXPECT_EQ(fit("  a_name_of_fifteen\n", 10), "  a_name_of_fifteen\n");
}

TEST(TextLayout, ALongWordMovesLeftThenBreaksBehindItsSeparators) {
  EXPECT_EQ(fit("  label   12   a_word_of_18_columns\n", 24),
            "  label   12\n    a_word_of_18_columns\n");
  EXPECT_EQ(fit("  name/of/a/long/scope=1;2;3\n", 16),
            "  name/of/a/\n    long/scope=\n    1;2;3\n");
}

TEST(TextLayout, BarsLeaveRoomForTheirFigures) {
  TextStyle style;
  for (const auto& [width, bar] : {std::pair{40, 10}, {60, 20}, {80, 40}, {140, 40}}) {
    style.width = width;
    EXPECT_EQ(bar_width(style), bar);
  }
}

TEST(TextLayout, CountsColumnsNotBytes) {
  EXPECT_EQ(fit("\u2588\u2588\u2588 \u2588\n", 5), "\u2588\u2588\u2588 \u2588\n");
  EXPECT_EQ(fit("\033[36mabc\033[0m de\n", 6), "\033[36mabc\033[0m de\n");
}

TEST(TextLayout, ColoursHeadingsAndBarsOnlyWhenAsked) {
  EXPECT_EQ(fit("Head\n  rest\n", 80, true), "\033[1mHead\033[0m\n  rest\n");
  TextStyle style;
  style.unicode = false;
  EXPECT_EQ(bar(0.5, 4, style), "##  ");
  style.unicode = style.color = true;
  EXPECT_EQ(bar(0.5, 4, style), "\033[36m\u2588\u2588\033[0m  ");
}

TEST(TextLayout, AReportFitsEightyColumns) {
  traces::RunRecord record = test::synthetic_record();
  record.ops[0].estimated_cycles = 400;
  record.ops[0].name = "a_fusion_with_a_name_that_is_long_enough_for_two";
  record.data_dependent_control = 2;
  record.result.notes.push_back(std::string(12, 'a') + " " + std::string(70, 'b') + " and more");
  TextStyle style;
  style.width = 80;
  for (const bool unicode : {false, true}) {
    style.unicode = unicode;
    std::istringstream lines(text_report(record, summarize(record), {}, style));
    for (std::string line; std::getline(lines, line);) {
      std::size_t columns = 0;
      for (const char byte : line) {
        columns += (static_cast<unsigned char>(byte) & 0xc0) != 0x80 ? 1 : 0;
      }
      EXPECT_LE(columns, 80u) << line;
    }
  }
}

}  // namespace
}  // namespace tpu::report::text_layout_test
