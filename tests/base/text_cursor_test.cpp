#include "sim/base/text_cursor.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "sim/base/token_cursor.h"

namespace tpu::text_cursor_test {
namespace {

template <class Act>
std::string error_of(Act act) {
  try {
    act();
  } catch (const WorkloadError& error) {
    return error.what();
  }
  return "no error";
}

TEST(TextCursor, TakesOnlyWhatStandsHere) {
  TextCursor cursor("ab  12\t0x1F 3.5\nrest", "f");
  EXPECT_FALSE(cursor.take("b"));
  EXPECT_TRUE(cursor.take('a'));
  EXPECT_TRUE(cursor.take("b"));
  EXPECT_FALSE(cursor.take('1'));
  cursor.skip_blanks();
  EXPECT_EQ(cursor.number("a number"), 12u);
  cursor.skip_blanks();
  EXPECT_EQ(cursor.number("a number"), 31u);
  cursor.skip_blanks();
  float value = 0;
  EXPECT_EQ(cursor.take_number(value), std::errc());
  EXPECT_EQ(value, 3.5f);
  EXPECT_EQ(cursor.take_line(), "");
  EXPECT_EQ(cursor.take_while([](char c) { return c != 's'; }), "re");
  EXPECT_EQ(cursor.take_number(value), std::errc::invalid_argument);
  EXPECT_EQ(cursor.rest(), "st");
  EXPECT_EQ(cursor.take_line(), "st");
  EXPECT_TRUE(cursor.at_end());
  EXPECT_EQ(cursor.peek(), '\0');
  EXPECT_FALSE(cursor.take('\0'));
}

TEST(TextCursor, NumbersEndWhereTheirDigitsDo) {
  const std::string digits = "9081726354091827364";
  for (std::size_t length = 1; length <= digits.size(); ++length) {
    const std::string number = digits.substr(0, length);
    for (int behind = 0; behind < 256; ++behind) {
      const char next = static_cast<char>(behind);
      if (is_digit(next)) continue;
      for (const std::string rest : {"", "123456789"}) {
        const std::string text = number + next + rest;
        TextCursor cursor(text, "f");
        ASSERT_EQ(cursor.decimal("a number", ~std::uint64_t{0}), std::stoull(number)) << text;
        ASSERT_EQ(cursor.at(), text.data() + length) << text;
      }
    }
    TextCursor alone(number, "f");
    EXPECT_EQ(alone.decimal("a number", ~std::uint64_t{0}), std::stoull(number));
    EXPECT_TRUE(alone.at_end());
  }
  TextCursor limited("4096 40960", "f");
  EXPECT_EQ(error_of([&] { limited.decimal("a number", 4095); }),
            "f:1:1: expected a number of at most 4095, found \"4096 40960\"");
  EXPECT_EQ(limited.decimal("a number", 4096), 4096u);
}

TEST(TextCursor, ErrorsHaveFileLineAndColumnAndWhatStandsThere) {
  TextCursor cursor("one\ntwo \x1b[31m\xff\n\nlast", "f");
  const char* const begin = cursor.at();
  EXPECT_EQ(error_of([&] { cursor.expect("two"); }), "f:1:1: expected \"two\", found \"one\"");
  EXPECT_EQ(error_of([&] { cursor.fail_at(begin + 3, "more"); }),
            "f:1:4: expected more, found the end of the line");
  EXPECT_EQ(error_of([&] { cursor.fail_at(begin + 8, "colours"); }),
            "f:2:5: expected colours, found \"\\x1b[31m\\xff\"");
  EXPECT_EQ(error_of([&] { cursor.fail_at(begin + 15, "a line"); }),
            "f:3:1: expected a line, found the end of the line");
  EXPECT_EQ(error_of([&] { cursor.fail_at(cursor.end(), "more"); }),
            "f:4:5: expected more, found the end of the text");
  EXPECT_EQ(error_of([&] { cursor.refuse_at(begin + 4, "two is too many"); }),
            "f:2:1: two is too many");
}

TEST(TextCursor, LongTextsAreCutInErrors) {
  const std::string line(300, 'x');
  TextCursor cursor(line, "f", TextCursor::Places::kLines);
  const char* const begin = cursor.at();
  EXPECT_EQ(
      error_of([&] { cursor.fail("y"); }),
      "f:1:1: expected y, found \"" + std::string(40, 'x') + "...\"\n  " + std::string(160, 'x'));
  EXPECT_EQ(error_of([&] { cursor.fail_at(begin + 299, "y"); }),
            "f:1:300: expected y, found \"x\"\n  " + std::string(81, 'x'));
  TextCursor part(line, "word", TextCursor::Places::kPartOfIt);
  EXPECT_EQ(error_of([&] { part.fail_at(part.at() + 299, "y"); }),
            "word \"" + std::string(120, 'x') + "\", column 300: expected y, found \"x\"");
}

TEST(TextCursor, NumbersBeyondTheirLimitAreRefusedWhereTheyBegin) {
  const auto decimal = [](const std::string& text, std::uint64_t limit) {
    return error_of([&] { TextCursor(text, "f").decimal("a number", limit); });
  };
  constexpr std::uint64_t kLast = 0xffffffffffffffffu;
  EXPECT_EQ(decimal("18446744073709551615", kLast), "no error");
  EXPECT_EQ(decimal("18446744073709551616", kLast),
            "f:1:1: expected a number of at most 18446744073709551615, found "
            "\"18446744073709551616\"");
  EXPECT_EQ(decimal("99999999999999999999", kLast).substr(0, 31),
            "f:1:1: expected a number of at ");
  EXPECT_EQ(decimal("3", 3), "no error");
  EXPECT_EQ(decimal("4", 3), "f:1:1: expected a number of at most 3, found \"4\"");
  EXPECT_EQ(decimal("-1", 3), "f:1:1: expected a number, found \"-1\"");
  const auto hexadecimal = [](const std::string& text, std::uint64_t limit) {
    return error_of([&] { TextCursor(text, "f").hexadecimal("a number", limit); });
  };
  EXPECT_EQ(hexadecimal("0xffffffffffffffff", kLast), "no error");
  EXPECT_NE(hexadecimal("0x10000000000000000", kLast), "no error");
  EXPECT_EQ(hexadecimal("0x7", 7), "no error");
  EXPECT_EQ(hexadecimal("0x8", 7), "f:1:1: expected a number of at most 7, found \"0x8\"");
  EXPECT_EQ(hexadecimal("0x", 7), "f:1:1: expected a number (0x...), found \"0x\"");
}

TEST(TextCursor, ErrorsOfAPartHaveTheirPlaceInTheWhole) {
  const std::string text = "first\n  second";
  TextCursor cursor(text, "f");
  cursor.narrow_to(std::string_view(text).substr(8, 3));
  EXPECT_TRUE(cursor.take("sec"));
  EXPECT_TRUE(cursor.at_end());
  EXPECT_EQ(error_of([&] { cursor.expect("t"); }), "f:2:6: expected \"t\", found \"ond\"");
}

TEST(TokenCursor, SpaceAndCommentsSeparate) {
  TokenCursor cursor("  a /* b */ // c\n\t= /**/ -7,", "f");
  EXPECT_TRUE(cursor.take('a'));
  EXPECT_FALSE(cursor.touches('='));
  EXPECT_EQ(cursor.peek(), '=');
  EXPECT_TRUE(cursor.touches('='));
  cursor.expect("=");
  EXPECT_EQ(cursor.integer("a number"), -7);
  EXPECT_FALSE(cursor.at_end());
  EXPECT_TRUE(cursor.take(','));
  EXPECT_TRUE(cursor.at_end());
  TokenCursor plain("/ /* b", "f", TokenCursor::Places::kFile, TokenCursor::Comments::kNone);
  EXPECT_TRUE(plain.take('/'));
  EXPECT_TRUE(plain.take("/* b"));
  TokenCursor open("a\n /* b", "f");
  open.expect('a');
  EXPECT_EQ(error_of([&] { open.peek(); }),
            "f:2:2: expected the end of this comment, */, found the end of the text");
}

TEST(TokenCursor, ErrorsStandAtTheNextToken) {
  TokenCursor cursor("a\n   b", "f");
  cursor.expect('a');
  EXPECT_EQ(error_of([&] { cursor.expect('c'); }), "f:2:4: expected \"c\", found \"b\"");
  EXPECT_EQ(error_of([&] { cursor.whole_number("a size"); }),
            "f:2:4: expected a size, a whole number, found \"b\"");
  EXPECT_EQ(error_of([&] { cursor.integer("a size"); }),
            "f:2:4: expected a size, an integer, found \"b\"");
}

TEST(TokenCursor, ListsHaveCommasBetweenTheirElements) {
  const auto numbers = [](const std::string& text) {
    return TokenCursor(text, "f").whole_numbers('[', ']', "a number");
  };
  EXPECT_EQ(numbers("[]"), std::vector<std::int64_t>{});
  EXPECT_EQ(numbers("[ 1, 2 , 3]"), (std::vector<std::int64_t>{1, 2, 3}));
  EXPECT_EQ(numbers("[1,]"), std::vector<std::int64_t>{1});
  EXPECT_EQ(error_of([&] { numbers("[1 2]"); }), "f:1:4: expected \",\" or \"]\", found \"2]\"");
  EXPECT_EQ(error_of([&] { numbers("[1"); }),
            "f:1:3: expected \",\" or \"]\", found the end of the text");
  EXPECT_EQ(error_of([&] { numbers("[,]"); }),
            "f:1:2: expected a number, a whole number, found \",]\"");
}

TEST(TokenCursor, QuotedTextEndsAtItsOwnQuote) {
  TokenCursor cursor(R"( "a\"b'" '' 'c"' "open\")", "f");
  EXPECT_EQ(cursor.quoted("a name"), R"(a\"b')");
  EXPECT_EQ(cursor.quoted("a name"), "");
  EXPECT_EQ(cursor.quoted("a name"), "c\"");
  EXPECT_EQ(error_of([&] { cursor.quoted("a name"); }),
            "f:1:18: expected the closing quote of this string, found the end of the text");
  TokenCursor bare("name", "f");
  EXPECT_EQ(error_of([&] { bare.quoted("a name"); }),
            "f:1:1: expected a name in quotes, found \"name\"");
}

}  // namespace
}  // namespace tpu::text_cursor_test
