#include "sim/app/printable_stream.h"

#include <gtest/gtest.h>

#include <sstream>
#include <string>

#include "tests/app/program_fixture.h"

namespace tpu::app::printable_stream_test {
namespace {

TEST(Printable, ControlCharactersBecomeVisible) {
  EXPECT_EQ(printable("a\tb\n"), "a\tb\n");
  EXPECT_EQ(printable("\x1b]0;title\x07"), "\\u001b]0;title\\u0007");
  EXPECT_EQ(printable(std::string("\r\x7f\0", 3)), "\\u000d\\u007f\\u0000");
  EXPECT_EQ(printable("\x1b[2J\x1b[1;1H"), "\\u001b[2J\\u001b[1;1H");
  EXPECT_EQ(printable("\x1b"), "\\u001b");
}

TEST(Printable, ControlCharactersOfEightBitsBecomeVisible) {
  EXPECT_EQ(printable("\xc2\x9b"
                      "2J"),
            "\\u009b2J");
  EXPECT_EQ(printable("\x9b"
                      "2J"),
            "\\u009b2J");
  EXPECT_EQ(printable("\xc2\xb5s \xe2\x94\x80 \xf0\x9f\x98\x80"),
            "\xc2\xb5s \xe2\x94\x80 \xf0\x9f\x98\x80");
  EXPECT_EQ(printable("\xe2\x1b[2J\xc2\x1b[2J\xc2"), "\xe2\\u001b[2J\xc2\\u001b[2J\xc2");
}

std::string through_stream(const std::string& text, bool colours) {
  std::ostringstream to;
  {
    const PrintableStream filter(to, colours);
    for (const char byte : text) to.put(byte);
  }
  to << "\r";  // The stream is as it was before.
  EXPECT_EQ(to.str().back(), '\r');
  return to.str().substr(0, to.str().size() - 1);
}

TEST(Printable, ColoursStayWhereReportsMayHaveThem) {
  for (const std::string colour : {"\x1b[31m", "\x1b[0m", "\x1b[m", "\x1b[1;32m", "\x1b[90m"}) {
    EXPECT_EQ(through_stream(colour, true), colour);
    EXPECT_EQ(through_stream(colour, false), "\\u001b" + colour.substr(1));
  }
  EXPECT_EQ(through_stream("\x1b[8m", true), "\\u001b[8m");
  EXPECT_EQ(through_stream("\x1b[1;8m", true), "\\u001b[1;8m");
  EXPECT_EQ(through_stream("\x1b[31", true), "\\u001b[31");
  EXPECT_EQ(through_stream("\x1b[\x1b[31m", true), "\\u001b[\x1b[31m");
}

TEST(Printable, AStreamGivesTheSameWhateverThePieces) {
  const std::string text = "a\x1b[31mred\x1b[0m\x1b[2J\xc2\x9b\xc2\xb5 \x1b";
  EXPECT_EQ(through_stream(text, false), printable(text));
}

TEST_F(ProgramTest, NamesOutOfFilesSendNothingToTheTerminal) {
  const std::string name = "a\x1b[31m\x1b]0;owned\x07";
  write("m.hlo",
        "HloModule m\nENTRY e {\n p = f32[8,128] parameter(0)\n"
        " ROOT a = f32[8,128] add(p, p), metadata={op_name=\"" +
            name + "\"}\n}\n");
  write("e.hlo", "HloModule m\nENTRY e {\n p = f32[8,128] " + name + "(0)\n}\n");
  EXPECT_EQ(tpusim("run --cores 1 m.hlo").exit_code, 0);
  for (const char* words : {"run --cores 1 m.hlo", "compile m.hlo -o m.h5 --dump-after fuse",
                            "run --cores 1 e.hlo", "run --cores 1 'no\x1b[2Jsuch'"}) {
    const Outcome outcome = tpusim(words);
    EXPECT_EQ((outcome.out + outcome.err).find('\x1b'), std::string::npos) << words;
    EXPECT_NE((outcome.out + outcome.err).find("\\u001b"), std::string::npos) << words;
  }
}

}  // namespace
}  // namespace tpu::app::printable_stream_test
