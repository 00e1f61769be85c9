#include "isa/assembler.h"

#include <gtest/gtest.h>

#include <sstream>

#include "isa/disassembler.h"
#include "random_program.h"
#include "sim/base/error.h"

namespace tpu::isa::assembler_test {
namespace {

using test::RandomProgram;
using test::same_code;

std::string error_of(const std::string& text) {
  try {
    assemble(text, "f.tpu");
  } catch (const WorkloadError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Assembler, AddressesAreWrittenWithTheirSign) {
  for (const char* address : {"$0x0", "$0x10", "-$0x10", "%s1", "%s1 + $0x10", "%s1 - $0x10"}) {
    const std::string text = std::string("%v1 = vld [vmem:") + address + "]";
    const Kernel kernel = assemble("kernel k\n{ " + text + " }", "test").at(0);
    EXPECT_EQ(format_instruction(kernel.instructions.at(0)), text);
  }
}

TEST(Assembler, ReadsTheNotationOfTheListings) {
  const char* text =
      "kernel add\n"
      "  0x0 : > { %v2 = vld [vmem:%s3 + $0x10 ss:$-1 sm:$0xf]  ;;  %s4 = sadd.s32 (!%p3), %s3, 1 "
      "}\n"
      "{ vst [vmem:%s1 + %s2 - $0x8] (%p1), %v2 ;; vdelay 3 } // two registers\n";
  const Kernel kernel = assemble(text, "f.tpu").at(0);
  EXPECT_EQ(kernel.name, "add");
  ASSERT_EQ(kernel.bundles.size(), 2u);
  EXPECT_EQ(kernel.bundles[1].delay, 3u);
  const Instruction& load = kernel.instructions.at(0);
  EXPECT_EQ(load.opcode, Opcode::kVld);
  EXPECT_EQ(load.dest, 2);
  EXPECT_EQ(load.address.base[0], 3);
  EXPECT_EQ(load.address.offset, 16);
  EXPECT_EQ(load.address.sublane_stride, -1);
  EXPECT_EQ(load.address.sublane_mask, 0xf);
  const Instruction& add = kernel.instructions.at(1);
  EXPECT_EQ(add.guard, (Guard{3, true}));
  EXPECT_EQ(add.operands[0], Operand::register_(3));
  EXPECT_EQ(add.operands[1], Operand::immediate_(1));
  const Instruction& store = kernel.instructions.at(2);
  EXPECT_EQ(store.address.base[1], 2);
  EXPECT_EQ(store.address.offset, -8);
  EXPECT_EQ(store.guard, (Guard{1, false}));
}

TEST(Assembler, LabelsNameBundlesBeforeAndAfter) {
  const Kernel kernel = assemble(
                            "kernel k\n{}\nloop:\n{ sbr.rel (%p0) target = end }\n{}\n"
                            "{ sbr.rel target = loop }\n{}\nend:\n{}\n",
                            "f.tpu")
                            .at(0);
  EXPECT_EQ(kernel.instructions.at(0).operands[0].immediate, 5u);
  EXPECT_EQ(kernel.instructions.at(1).operands[0].immediate, 1u);
}

TEST(Assembler, SeveralKernelsHaveTheirOwnLabelsAndAnyName) {
  const auto kernels = assemble(
      "kernel \"a b\\\"\\x1f\"\nx:\n{ sbr.rel target = x }\nkernel <late-initialization>\nx:\n{}\n",
      "f.tpu");
  ASSERT_EQ(kernels.size(), 2u);
  EXPECT_EQ(kernels[0].name, "a b\"\x1f");
  EXPECT_EQ(kernels[1].name, "<late-initialization>");
  std::ostringstream out;
  print_kernels(out, kernels);
  const auto again = assemble(out.str(), "out");
  EXPECT_EQ(again.at(0).name, kernels[0].name);
  EXPECT_EQ(again.at(1).name, kernels[1].name);
}

/// The asterisk that opens a comment does not close it.
TEST(Assembler, CommentsEndAtAnAsteriskAndASlashOfTheirOwn) {
  EXPECT_EQ(assemble("kernel k /*/ { */\n{}\n", "f.tpu").at(0).bundles.size(), 1u);
}

TEST(Assembler, FloatsIntegersAndTheirBitsAreTheSameImmediates) {
  const auto bits = [](const std::string& text) {
    return assemble_instruction("%v1 = vadd.f32 %v2, " + text).operands[1].immediate;
  };
  EXPECT_EQ(bits("1.0"), 0x3f800000u);
  EXPECT_EQ(bits("0x3f800000"), 0x3f800000u);
  EXPECT_EQ(bits("1065353216"), 0x3f800000u);
  EXPECT_EQ(bits("-1"), 0xffffffffu);
  EXPECT_EQ(bits("-2147483648"), 0x80000000u);
  EXPECT_THROW(bits("-2147483649"), UserError);  // No integer of 32 bits.
  EXPECT_THROW(bits("4294967296"), UserError);
  EXPECT_EQ(bits("1.1754944e-38"), 0x00800000u);
  EXPECT_EQ(bits("1e-45"), 1u);
  EXPECT_EQ(bits("-inf"), 0xff800000u);
  EXPECT_EQ(bits("nan"), 0x7fc00000u);
  EXPECT_EQ(bits("-nan"), 0xffc00000u);
  EXPECT_EQ(bits("+1.5"), 0x3fc00000u);
  EXPECT_EQ(bits("-1.5"), 0xbfc00000u);
}

TEST(Assembler, TextOfEveryOpcodeReadsBackAsTheSameInstruction) {
  RandomProgram random(1);
  for (std::size_t opcode = 0; opcode < kOpcodeCount; ++opcode) {
    for (int i = 0; i < 100; ++i) {
      const Instruction in = random.instruction(static_cast<Opcode>(opcode));
      const std::string text = format_instruction(in);
      const Instruction again = assemble_instruction(text);
      ASSERT_EQ(again, in) << text << " / " << format_instruction(again);
      ASSERT_EQ(format_instruction(again), text);
    }
  }
}

TEST(Assembler, PrintedKernelsReadBackAsTheSameCode) {
  for (std::uint32_t seed = 0; seed < 20; ++seed) {
    const Kernel kernel = RandomProgram(seed).kernel(40);
    std::ostringstream out;
    print_kernel(out, kernel);
    const auto again = assemble(out.str(), "out");
    ASSERT_EQ(again.size(), 1u);
    EXPECT_TRUE(same_code(again[0], kernel)) << out.str();
  }
}

TEST(Assembler, ErrorsNameThePlaceWhatWasExpectedAndWhatWasFound) {
  const std::string head = "kernel k\n";
  EXPECT_EQ(error_of("{}"),
            "f.tpu:1:1: expected \"kernel NAME\" before the first bundle, found \"{}\"");
  EXPECT_EQ(error_of("kernel"),
            "f.tpu:1:7: expected the name of a kernel, found the end of the text");
  EXPECT_EQ(error_of("kernel \"a\n{}"),
            "f.tpu:1:8: expected the closing quote of this string, found the end of the text");
  EXPECT_EQ(error_of(head + "{ %s1 = sad.s32 %s2, 1 }"),
            "f.tpu:2:9: expected an instruction, found \"sad.s32\" (nearest: sadd.s32)");
  EXPECT_EQ(error_of(head + "{ sadd.s32 %s2, 1 }"),
            "f.tpu:2:3: expected \"%sN =\" before sadd.s32, found no destination");
  EXPECT_EQ(error_of(head + "{ %v1 = sadd.s32 %s2, 1 }"),
            "f.tpu:2:3: expected \"%sN =\" before sadd.s32, found \"%vN =\"");
  EXPECT_EQ(error_of(head + "{ %s1 = sadd.s32 %v2, 1 }"),
            "f.tpu:2:18: expected a register %sN, found %v2");
  EXPECT_EQ(error_of(head + "{ %s1 = sadd.s32 %s32, 1 }"),
            "f.tpu:2:18: expected a register below 32, found \"%s32\"");
  EXPECT_EQ(error_of(head + "{ %p1 = pmov %p16 }"),
            "f.tpu:2:14: expected a register below 16, found \"%p16\"");
  EXPECT_EQ(error_of(head + "{ %s1 = sadd.s32 %q2, 1 }"),
            "f.tpu:2:18: expected a register (%s0, %v0, %p0, %vm0), found \"%q2\"");
  EXPECT_EQ(error_of(head + "{ %s1 = sadd.s32 %s2 }"), "f.tpu:2:22: expected \",\", found \"}\"");
  EXPECT_EQ(error_of(head + "{ %s1 = sadd.s32 %s2, 99999999999 }"),
            "f.tpu:2:23: expected a register %sN or a number, found \"99999999999\"");
  EXPECT_EQ(error_of(head + "{ %p1 = pmov 2 }"),
            "f.tpu:2:14: expected a register %pN, 0 or 1, found 2");
  EXPECT_EQ(error_of(head + "{ %s1 = sld [vmem:$0x1] }"),
            "f.tpu:2:14: expected \"smem\", found \"vmem:$0x1] }\"");
  EXPECT_EQ(error_of(head + "{ %v1 = vld [vmem:%s1 + %s2 + %s3] }"),
            "f.tpu:2:31: expected at most two registers in an address, found \"%s3] }\"");
  EXPECT_EQ(error_of(head + "{ %v1 = vld [vmem:%s1 zz:$1] }"),
            "f.tpu:2:23: expected \"+\", \"-\", \"ss:\", \"sm:\", \"pattern:\" or \"]\", found "
            "\"zz:$1] }\"");
  EXPECT_EQ(error_of(head + "{ %v1 = vld [vmem:%s1 sm:$0x100] }"),
            "f.tpu:2:23: expected a mask of eight sublanes, found more bits");
  EXPECT_EQ(error_of(head + "{ %v1 = vld.sshfl [vmem:%s1 pattern:$0x1000000] }"),
            "f.tpu:2:29: expected a pattern of eight octal digits, found more bits");
  EXPECT_EQ(error_of(head + "n" + std::string(60, 'o')),
            "f.tpu:2:1: expected a bundle, a label with \":\" or \"kernel\", found \"n" +
                std::string(39, 'o') + "\"");
  EXPECT_EQ(error_of(head + "{ sbr.rel target = nowhere }"),
            "f.tpu:2:20: expected a label of this kernel, found \"nowhere\"");
  EXPECT_EQ(error_of(head + "{ sbr.rel target = 9 }"),
            "f.tpu:2:20: expected a bundle up to 1, found 9");
  EXPECT_EQ(error_of(head + "a:\na:\n{}"), "f.tpu:3:1: expected a new label, found \"a\" again");
  EXPECT_EQ(error_of(head + "0x1 : {}"), "f.tpu:2:1: expected bundle 0, found 0x1");
  const std::string zeros(40, '0');
  EXPECT_EQ(error_of(head + zeros + "5 : {}"), "f.tpu:2:1: expected bundle 0, found " + zeros);
  // A number has at most 64 characters: what is behind them is looked at by itself.
  EXPECT_EQ(error_of(head + "{ %s1 = smov " + std::string(64, '0') + "1 }"),
            "f.tpu:2:78: expected \";;\" or \"}\", found \"1 }\"");
  for (const char* offset : {"+ $0x80000000", "- $0x80000001"}) {
    EXPECT_EQ(error_of(head + "{ %v1 = vld [vmem:%s1 " + offset + "] }").substr(0, 61),
              "f.tpu:2:25: expected an offset of 32 bits with sign, found " +
                  std::string(offset[0] == '+' ? "21" : "-2"));
  }
  EXPECT_EQ(error_of(head + "{ %s1 = smov \x7f }"),
            "f.tpu:2:14: expected a register %sN or a number, found \"\\x7f }\"");
  EXPECT_EQ(error_of(head + "{ sfence"),
            "f.tpu:2:9: expected \";;\" or \"}\", found the end of the text");
  EXPECT_EQ(error_of(head + "/* {}"),
            "f.tpu:2:1: expected the end of this comment, */, found the end of the text");
  EXPECT_EQ(error_of(head + "{ vdelay 99999999 }"),
            "f.tpu:2:10: expected a delay of at most 16777216 cycles, found 99999999");
  EXPECT_EQ(error_of(head + "\n  { sfence ;; vtrace 1 }"),
            "f.tpu:3:3: expected at most 1 misc instruction, found 2");
  EXPECT_EQ(error_of(head + "\x80"), "f.tpu:2:1: expected \"{\", found \"\\x80\"");
}

/// What a field takes up to its end, and the first value beyond it.
TEST(Assembler, EachFieldTakesItsLastValueAndNoMore) {
  struct Field {
    std::string before, last, beyond, after;
  };
  for (const Field& field :
       std::vector<Field>{{"{ %s", "31", "32", " = smov 0 }"},
                          {"{ %v", "31", "32", " = vmov 0 }"},
                          {"{ %p", "15", "16", " = pmov 0 }"},
                          {"{ %vm", "15", "16", " = vmmov 0 }"},
                          {"{ %p1 = pmov ", "1", "2", " }"},
                          {"{ %s1 = smov ", "4294967295", "4294967296", " }"},
                          {"{ %s1 = smov ", "-2147483648", "-2147483649", " }"},
                          {"{ %v1 = vld [vmem:%s1 + $", "0x7fffffff", "0x80000000", "] }"},
                          {"{ %v1 = vld [vmem:%s1 - $", "0x80000000", "0x80000001", "] }"},
                          {"{ %v1 = vld [vmem:%s1 sm:$", "0xff", "0x100", "] }"},
                          {"{ %v1 = vld.sshfl [vmem:%s1 pattern:$", "0xffffff", "0x1000000", "] }"},
                          {"{ vdelay ", "16777216", "16777217", " }"},
                          {"{ vdelay 16777215 ;; vdelay ", "1", "2", " }"},
                          {"{ sbr.rel target = ", "1", "2", " }"},
                          {"{}\n", "0x1", "0x2", " : {}"},
                          {"{}\n", "1", "0", " : {}"}}) {
    const std::string head = "kernel k\n" + field.before;
    EXPECT_EQ(error_of(head + field.last + field.after), "no error") << head << field.last;
    EXPECT_NE(error_of(head + field.beyond + field.after), "no error") << head << field.beyond;
  }
}

/// What terminals take for a command is written as an escape; whatever is in a name comes back.
TEST(Assembler, NamesOfAnyBytesAreWrittenPrintableAndReadBack) {
  for (int byte = 1; byte < 256; ++byte) {
    Kernel kernel = assemble("kernel k\n{}\n", "f.tpu").at(0);
    kernel.name = std::string("a ") + static_cast<char>(byte);
    std::ostringstream out;
    print_kernel(out, kernel);
    const std::string text = out.str();
    for (const char letter : text.substr(0, text.find('\n'))) {
      const auto code = static_cast<unsigned char>(letter);
      EXPECT_TRUE(code >= 0x20 && code != 0x7f) << byte;
    }
    EXPECT_EQ(assemble(text, "out").at(0).name, kernel.name) << byte;
  }
  EXPECT_EQ(assemble("kernel \"\\x4A\\x4a\\xfF\"\n{}", "f.tpu").at(0).name, "JJ\xff");
  EXPECT_EQ(error_of("kernel \"a\\q\"\n{}"),
            "f.tpu:1:11: expected \\\", \\\\ or \\xHH, found \"q\"\"");
  EXPECT_EQ(error_of("kernel \"a\\x4g\"\n{}"),
            "f.tpu:1:13: expected a hexadecimal digit, found \"g\"\"");
}

/// The place of an error is that of what was found, not of the blanks in front of it.
TEST(Assembler, BlanksAreNoPartOfWhatIsWrong) {
  const std::pair<std::string, int> texts[] = {{"{ sfence (   %s2) }", 14},
                                               {"{ %s1 = sadd.s32   %v2, 1 }", 20},
                                               {"{ %v1 = vld [vmem:   %v1] }", 22},
                                               {"{ %v1 = vld [vmem:%s1 sm:   %v1] }", 29},
                                               {"{ %s1 =   sad.s32 %s2, 1 }", 11},
                                               {"{   sad.s32 %s2, 1 }", 5},
                                               {"   a b", 4},
                                               {"{ vdelay   99999999 }", 12}};
  for (const auto& [text, column] : texts) {
    const std::string error = error_of("kernel k\n" + text);
    EXPECT_EQ(error.substr(0, error.find(": ")), "f.tpu:2:" + std::to_string(column)) << text;
  }
}

TEST(Assembler, RandomBytesGiveAnErrorOrAProgramNeverAnythingElse) {
  std::mt19937 engine(7);
  for (int i = 0; i < 3000; ++i) {
    std::string text = i % 2 == 0 ? "kernel k\n{ " : "";
    for (std::uint32_t n = static_cast<std::uint32_t>(engine()) % 200; n > 0; --n) {
      text += static_cast<char>(engine());
    }
    EXPECT_NE(error_of(text), "");
  }
}

TEST(Assembler, MutatedProgramsGiveAnErrorWithAPlaceOrTheSameTwice) {
  std::mt19937 engine(8);
  const auto random = [&engine](std::size_t limit) { return engine() % limit; };
  const std::string alphabet = "{}[]()%$:;,+-!=/*\"\\ \n0x19svpmklabel.nainfe";
  int accepted = 0;
  int refused = 0;
  for (int i = 0; i < 2000; ++i) {
    std::ostringstream out;
    print_kernel(out, RandomProgram(static_cast<std::uint32_t>(i % 50)).kernel(6));
    std::string text = out.str();
    for (std::size_t n = random(3) + 1; n > 0; --n) {
      const std::size_t place = random(text.size());
      switch (random(3)) {
        case 0:
          text[place] = alphabet[random(alphabet.size())];
          break;
        case 1:
          text.erase(place, random(10));
          break;
        default:
          text.insert(place, 1, alphabet[random(alphabet.size())]);
      }
      if (text.empty()) text = " ";
    }
    try {
      const auto kernels = assemble(text, "f.tpu");
      std::ostringstream first;
      print_kernels(first, kernels);
      std::ostringstream second;
      print_kernels(second, assemble(first.str(), "again"));
      EXPECT_EQ(first.str(), second.str());
      ++accepted;
    } catch (const WorkloadError& error) {
      EXPECT_EQ(std::string(error.what()).rfind("f.tpu:", 0), 0u) << error.what();
      ++refused;
    }
  }
  EXPECT_GT(accepted, 50);
  EXPECT_GT(refused, 500);
}

}  // namespace
}  // namespace tpu::isa::assembler_test
