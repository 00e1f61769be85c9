// What every instruction does to a random state, how it is written, and what is said of text and
// bundles that are wrong, beside small files that say what it was. Where a change is meant:
//
//     TPUSIM_UPDATE_KEPT=1 build/isa_tests --gtest_filter='KeptInstructions.*'

// What is random here depends on the order in which g++ evaluates operands; clang has another one.
#ifndef __clang__

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "isa/bundle_check.h"
#include "isa/disassembler.h"
#include "isa/encoding.h"
#include "isa/generation.h"
#include "sim/base/error.h"
#include "tests/isa/bundle_runner.h"
#include "tests/isa/random_program.h"
#include "tests/kept_code.h"
#include "tests/kept_lines.h"

namespace tpu::isa::kept_instructions_test {
namespace {

using test::BundleRunner;
using test::RandomProgram;
using tpu::test::Code;
using tpu::test::KeptLines;

std::string one_line(const std::string& text) {
  std::string line = text.substr(0, 160);
  for (char& letter : line) {
    if (letter == '\n') letter = ' ';
  }
  return line;
}

/// Whether one of the two bf16 numbers of a word is an infinity or a NaN; if so, the fp32 number is
/// one where the upper of them is.
std::uint32_t special_half(std::uint32_t word) {
  if ((word & 0x7f800000) == 0x7f800000) return 0x40000000;
  return (word & 0x7f80) == 0x7f80 ? 0x4000 : 0;
}

/// A number in place of a NaN: which of two NaNs a sum gives depends on how the library is
/// compiled.
std::uint32_t number_of(std::uint32_t word) {
  while (const std::uint32_t half = special_half(word)) word &= ~half;
  return word;
}

bool is_nan(std::uint32_t word) { return (word & 0x7fffffff) > 0x7f800000; }

/// One NaN for all of them.
std::uint32_t as_shown(std::uint32_t word) {
  if (is_nan(word)) return 0x7fc00000;
  if ((word & 0x7fff0000) > 0x7f800000) word = (word & 0xffff) | 0x7fc00000;
  if ((word & 0x7fff) > 0x7f80) word = (word & 0xffff0000) | 0x7fc0;
  return word;
}

/// Registers, masks, memories and queues full of numbers; scalars small enough for addresses.
void fill(BundleRunner& core, RandomProgram& random) {
  for (std::uint32_t& word : core.state.scalar.s) {
    word = random.below(2) == 0 ? random.below(300) : random.word();
  }
  for (auto& predicate : core.state.scalar.p) predicate = random.below(2) != 0;
  for (int reg = 0; reg < kVectorRegisters; ++reg) {
    const bool are_floats = random.below(2) == 0;
    core.fill_random(reg, random.below(1u << 30), are_floats);
    for (int i = 0; i < 8; ++i) {
      const std::uint32_t word = random.word();
      core.element(reg, i, static_cast<int>(random.below(kLanes))) = word;
    }
    for (std::uint32_t& word : core.state.vector(reg).word) word = number_of(word);
  }
  for (std::uint32_t row = 0; row < core.state.vmem.rows(); ++row) {
    std::uint32_t* words = core.state.vmem.row(row);
    std::fill_n(words, kLanes, 0U);  // It holds whatever the computer's memory did.
    for (int lane = 0; lane < kLanes; lane += 1 + static_cast<int>(random.below(40))) {
      words[lane] = number_of(random.word());
    }
  }
  core.state.vmem.mark_written(0, core.state.vmem.rows() / 2);
}

void add_state(BundleRunner& core, Code& code) {
  for (const std::uint32_t word : core.state.scalar.s) code << (is_nan(word) ? 0x7fc00000 : word);
  for (const auto predicate : core.state.scalar.p) code << static_cast<int>(predicate);
  for (int reg = 0; reg < kVectorRegisters; ++reg) {
    for (const std::uint32_t word : core.state.vector(reg).word) code << as_shown(word);
  }
  for (std::uint32_t row = 0; row < core.state.vmem.rows(); ++row) {
    code << core.state.vmem.is_written(row);
    for (int lane = 0; lane < kLanes; ++lane) code << as_shown(core.state.vmem.row(row)[lane]);
  }
  for (const auto& offsets : core.state.index_offsets) {
    for (const std::int32_t offset : offsets) code << offset;
  }
  const auto add_queue = [&](const VectorQueue& queue) {
    code << queue.size();
    for (const QueuedVector& each : queue) {
      for (const std::uint32_t word : core.state.pool[each.index].word) code << as_shown(word);
    }
  };
  for (const auto& array : core.state.mxu_results) {
    for (const VectorQueue& queue : array) add_queue(queue);
  }
  add_queue(core.state.eup);
  for (const XluState& xlu : core.state.xlus) {
    add_queue(xlu.results);
    add_queue(xlu.transposed);
    code << xlu.collected.size();
  }
  for (const auto& [flag, value] : core.surroundings.flags) code << flag << value;
  for (const auto& [address, value] : core.surroundings.remote) code << address << value;
  for (const DmaDescriptor& dma : core.surroundings.dmas) {
    code << dma.granules << dma.source.address << dma.destination.address << dma.source_flag
         << dma.destination_flag << dma.remote;
  }
}

/// Each instruction several times in bundles of its own, behind pushes that fill the queues.
TEST(KeptInstructions, DoWhatTheyDid) {
  KeptLines lines("isa/kept/execution.txt");
  for (std::size_t number = 0; number < static_cast<std::size_t>(kOpcodeCount); ++number) {
    const auto opcode = static_cast<Opcode>(number);
    RandomProgram random(RandomProgram::seed_of(opcode));
    CoreShape shape = BundleRunner::small_shape();
    shape.vmem_rows = 256;
    BundleRunner core(shape);
    fill(core, random);
    for (const char* mxu : {"0", "1"}) {
      for (int push = 0; push < 16; ++push) {
        core.run("{ vmatpush.msra.mxu" + std::string(mxu) + " %v" + std::to_string(push) + " }");
      }
    }
    core.run("{ vmatmul.f32.gmra.mxu0 %v1 }{ vmatmul.f32.gmra.mxu1 %v1 }");
    std::string fault;
    Kernel kernel;
    for (int i = 0; i < 6; ++i) {
      Instruction in = random.instruction(opcode);
      // Most do something: units that there are, addresses inside, no guard.
      if (i > 0) {
        in.unit = info(opcode).unit == UnitKind::kXlu ? 0 : static_cast<std::uint8_t>(in.unit % 2);
        if (info(opcode).address != 0 && info(opcode).address != 'D' &&
            info(opcode).address != 'F') {
          in.address.offset = static_cast<std::int32_t>(random.below(200));
          in.address.base = {kNoRegister, kNoRegister};
          in.address.sublane_stride = 1 + static_cast<std::int32_t>(random.below(3));
        }
      }
      if (i > 1) in.guard = {};
      kernel.bundles.push_back({static_cast<std::uint32_t>(kernel.instructions.size()), 1, 0});
      kernel.instructions.push_back(in);
    }
    for (std::uint32_t bundle = 0; bundle < kernel.bundles.size(); ++bundle) {
      try {
        if (bundle == 2) core.run("{ vmatmul.f32.gmra.mxu0 %v1 }");
        core.run("{ vpow2.f32 %v2 }{ vadd.xlane.f32.xlu0 %v3 }");
        execute_bundle(kernel, bundle, core.state, core.surroundings);
      } catch (const UserError& error) {
        fault += "; " + one_line(error.what());
      }
    }
    Code code;
    add_state(core, code);
    lines.expect(std::string(info(opcode).text), code.text() + fault);
  }
}

TEST(KeptInstructions, AreWrittenAsTheyWere) {
  KeptLines lines("isa/kept/text.txt");
  for (std::size_t number = 0; number < static_cast<std::size_t>(kOpcodeCount); ++number) {
    const auto opcode = static_cast<Opcode>(number);
    RandomProgram random(RandomProgram::seed_of(opcode) + 1);
    Code words;
    std::string first;
    for (int i = 0; i < 5; ++i) {
      const Instruction in = random.instruction(opcode);
      const std::string text = format_instruction(in);
      if (i == 0) first = text;
      words << std::string_view(text);
      std::vector<std::uint32_t> bits = encode_instructions({in});
      bits[0] &= ~0xffU;  // Which row of the table it is.
      for (const std::uint32_t word : bits) words << word;
    }
    lines.expect(std::string(info(opcode).text), words.text() + " " + first);
  }
}

/// A letter of a kernel's text is another one; instructions are put together at random.
TEST(KeptInstructions, WhatIsWrongIsSaidAsItWas) {
  KeptLines lines("isa/kept/problems.txt");
  for (std::uint32_t seed = 7001; seed <= 7150; ++seed) {
    RandomProgram random(seed);
    std::ostringstream out;
    print_kernel(out, random.kernel(3));
    std::string text = out.str();
    const std::string letters = " {}()[]%,;:=!$0123456789abcxvsmp.-+/*\"\n";
    text[random.below(static_cast<std::uint32_t>(text.size()))] =
        letters[random.below(static_cast<std::uint32_t>(letters.size()))];
    std::string said;
    try {
      Code code;
      for (const Kernel& kernel : assemble(text, "k")) {
        std::ostringstream again;
        print_kernel(again, kernel);
        code << std::string_view(again.str());
      }
      said = code.text();
    } catch (const UserError& error) {
      said = one_line(error.what());
    }
    lines.expect("text " + std::to_string(seed), said);
    Kernel kernel;
    Bundle bundle;
    for (std::uint32_t i = 2 + random.below(6); i > 0; --i) {
      kernel.instructions.push_back(random.instruction(random.opcode()));
      ++bundle.instruction_count;
    }
    lines.expect("bundle " + std::to_string(seed),
                 one_line(bundle_problem(kernel, bundle).value_or("none")));
    // A field of an instruction is something else.
    Instruction in = random.instruction(random.opcode());
    const auto value = static_cast<std::uint8_t>(random.below(300));
    switch (random.below(7)) {
      case 0:
        in.dest = value;
        break;
      case 1:
        in.unit = value % 8;
        break;
      case 2:
        in.guard.predicate = value;
        break;
      case 3:
        in.address.base[random.below(2)] = value;
        break;
      case 4:
        in.address.pattern = random.word();
        break;
      case 5:
        in.operands[random.below(4)].reg = value;
        break;
      default:
        in.operands[random.below(4)] = Operand::immediate_(random.word());
    }
    lines.expect("instruction " + std::to_string(seed),
                 one_line(instruction_problem(in).value_or("none")));
    std::vector<std::uint32_t> words = encode_bundles(random.kernel(3));
    words[random.below(static_cast<std::uint32_t>(words.size()))] ^= 1u << random.below(32);
    try {
      Code code;
      const Kernel decoded = decode_bundles(words, "w");
      for (const Instruction& each : decoded.instructions) {
        code << std::string_view(format_instruction(each));
      }
      said = code.text();
    } catch (const UserError& error) {
      said = one_line(error.what());
    }
    lines.expect("words " + std::to_string(seed), said);
  }
}

}  // namespace
}  // namespace tpu::isa::kept_instructions_test

#endif
