#include "sim/report/text_layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
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

/// Escape sequences take no columns, wherever they stand; one that does not end takes the rest.
TEST(TextLayout, ColoursTakeNoRoomWhereALineIsBroken) {
  const std::string on = "\033[36m", off = "\033[0m";
  EXPECT_EQ(fit(on + "ab" + off + " cd ef gh\n", 8), on + "ab" + off + " cd ef\n  gh\n");
  EXPECT_EQ(fit("ab " + on + "cd" + off + " ef gh\n", 8), "ab " + on + "cd" + off + " ef\n  gh\n");
  EXPECT_EQ(fit("ab cd ef " + on + "gh" + off + "\n", 8), "ab cd ef\n  " + on + "gh" + off + "\n");
  EXPECT_EQ(fit("ab cd ef \033[36 gh\n", 9), "ab cd ef \033[36 gh\n");
}

TEST(TextLayout, ColoursHeadingsAndBarsOnlyWhenAsked) {
  EXPECT_EQ(fit("Head\n  rest\n", 80, true), "\033[1mHead\033[0m\n  rest\n");
  TextStyle style;
  style.unicode = false;
  EXPECT_EQ(bar(0.5, 4, style), "##  ");
  style.unicode = style.color = true;
  EXPECT_EQ(bar(0.5, 4, style), "\033[36m\u2588\u2588\033[0m  ");
}

/// Four digits behind rounding, from both sides of each limit.
TEST(TextLayout, NumbersTimesAndBytesChangeTheirFormAtOneValue) {
  const std::pair<double, std::string> numbers[] = {
      {0, "0"},          {0.09994, "0.0999"}, {0.09996, "0.100"}, {1, "1"},
      {9.994, "9.994"},  {9.9955, "10.00"},   {12, "12"},         {99.94, "99.94"},
      {99.955, "100.0"}, {998, "998"},        {999.4, "999.4"},   {999.5, "1,000"},
      {-0.5, "-0.500"},  {-12.25, "-12.25"},  {-250.5, "-250.5"}, {0.00012345, "0.000123"}};
  for (const auto& [value, text] : numbers) EXPECT_EQ(short_number(value), text) << value;
  const std::pair<double, std::string> times[] = {
      {0.0999, "99.90 us"}, {0.1, "0.100 ms"}, {9999, "9,999 ms"}, {10000, "10 s"}};
  for (const auto& [ms, text] : times) EXPECT_EQ(short_time(ms), text) << ms;
  const std::pair<double, std::string> bytes[] = {
      {0, "0 B"}, {1023, "1023 B"}, {1024, "1.00 KiB"}, {1536, "1.50 KiB"}};
  for (const auto& [count, text] : bytes) EXPECT_EQ(short_bytes(count), text) << count;
  const char* const units[] = {"KiB", "MiB", "GiB", "TiB"};
  for (int unit = 0; unit < 4; ++unit) {
    EXPECT_EQ(short_bytes(std::ldexp(3.0, 10 * unit + 9)), std::string("1.50 ") + units[unit]);
  }
  EXPECT_EQ(short_bytes(std::ldexp(1.0, 50)), "1024.00 TiB");
  for (std::uint64_t number = 1, digits = 1; digits < 19; ++digits, number *= 10) {
    std::string text = grouped(number);
    EXPECT_EQ(text.size(), digits + (digits - 1) / 3);
    for (std::size_t at = text.size(); at > 4; at -= 4) EXPECT_EQ(text[at - 4], ',') << text;
  }
}

/// Lines of words as wide as they may be: no line is wider, none could have taken the word that
/// begins the next one, all words are there in their order, and what goes on is further in.
TEST(TextLayout, LinesTakeAsManyWordsAsFit) {
  std::mt19937 engine(1);
  for (int round = 0; round < 400; ++round) {
    const int width = 20 + static_cast<int>(engine() % 40);
    const std::string begin(engine() % 5, ' ');
    std::string text = begin;
    for (std::size_t word = 0, words = 1 + engine() % 30; word < words; ++word) {
      text +=
          (word > 0 ? " " : "") + std::string(1 + engine() % 9, static_cast<char>('a' + word % 26));
    }
    std::istringstream lines(fit(text + "\n", width)), words(text);
    std::string before;
    for (std::string line; std::getline(lines, line);) {
      ASSERT_LE(line.size(), static_cast<std::size_t>(width)) << text;
      const std::size_t indent = line.find_first_not_of(' ');
      ASSERT_EQ(indent, begin.size() + (before.empty() ? 0 : 2)) << line;
      std::istringstream of_line(line);
      for (std::string word; of_line >> word;) {
        std::string expected;
        words >> expected;
        ASSERT_EQ(word, expected) << text;
        if (!before.empty()) {
          ASSERT_GT(before.size() + 1 + word.size(), static_cast<std::size_t>(width)) << text;
          before.clear();
        }
      }
      before = line;
    }
    std::string left_over;
    EXPECT_FALSE(words >> left_over) << text;
  }
}

TEST(TextLayout, BarsAreAsLongAsTheirFractionInEighths) {
  TextStyle style;
  for (int width : {1, 10}) {
    for (int eighths = 0; eighths <= 8 * width; ++eighths) {
      const double fraction = eighths / (8.0 * width);
      style.unicode = true;
      std::string text = bar(fraction, width, style);
      int filled = 0, columns = 0;
      for (std::size_t at = 0; at < text.size(); ++columns) {
        if (text[at] == ' ') {
          ++at;
          continue;
        }
        // U+2588 is a full block, U+2589 seven eighths of one, and so on to U+258f.
        ASSERT_EQ(text.substr(at, 2), "\xe2\x96");
        filled += 8 - (static_cast<unsigned char>(text[at + 2]) - 0x88);
        at += 3;
      }
      EXPECT_EQ(filled, eighths);
      EXPECT_EQ(columns, width);
      style.unicode = false;
      const std::string plain = bar(fraction, width, style);
      EXPECT_EQ(plain.size(), static_cast<std::size_t>(width));
      EXPECT_EQ(static_cast<long>(std::count(plain.begin(), plain.end(), '#')),
                std::lround(eighths / 8.0));
    }
    EXPECT_EQ(bar(7, width, style), std::string(static_cast<std::size_t>(width), '#'));
    EXPECT_EQ(bar(-7, width, style), std::string(static_cast<std::size_t>(width), ' '));
  }
}

/// Two blanks in front, names to the left, figures to the right, and what does not fit below, where
/// the names stand again.
TEST(TextLayout, ColumnsThatDoNotFitStandBelow) {
  const std::vector<std::vector<std::string>> rows{
      {"", "first", "second", "x"}, {"a", "1", "22", "333"}, {"name", "4444444", "5"}};
  // 2 + 4 + 7 + 6 + 3 columns of texts, three blanks between them.
  EXPECT_EQ(columns(rows),
            "           first   second     x\n"
            "  a            1       22   333\n"
            "  name   4444444        5\n");
  EXPECT_EQ(columns(rows, 31), columns(rows));
  // Two blanks between them save the room that is missing.
  EXPECT_EQ(columns(rows, 30),
            "          first  second    x\n"
            "  a           1      22  333\n"
            "  name  4444444       5\n");
  EXPECT_EQ(columns(rows, 28), columns(rows, 30));
  EXPECT_EQ(columns(rows, 27),
            "          first  second\n"
            "  a           1      22\n"
            "  name  4444444       5\n"
            "\n"
            "          x\n"
            "  a     333\n"
            "  name\n");
  EXPECT_EQ(columns(rows, 19),
            "          first\n"
            "  a           1\n"
            "  name  4444444\n"
            "\n"
            "        second    x\n"
            "  a         22  333\n"
            "  name       5\n");
  // One at a time, whether it fits or not.
  EXPECT_EQ(columns(rows, 18), columns(rows, 1));
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
