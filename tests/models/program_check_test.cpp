#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "isa/opcode_table.h"
#include "models/core/decoded_kernel.h"
#include "sim/base/error.h"

namespace tpu::program_check_test {
namespace {

using isa::Instruction;
using isa::Opcode;
using isa::Operand;

int registers_of(char file) {
  switch (file) {
    case 's':
    case 'v':
      return 32;
    default:
      return 16;  // p and m.
  }
}

bool is_file(char letter) {
  return letter == 's' || letter == 'v' || letter == 'p' || letter == 'm';
}

/// An instruction with the last register of its file wherever one may stand.
Instruction with_last_registers(Opcode opcode) {
  const isa::OpcodeInfo& row = isa::info(opcode);
  Instruction i;
  i.opcode = opcode;
  i.guard.predicate = 15;
  if (row.dest_file != 0) i.dest = static_cast<std::uint8_t>(registers_of(row.dest_file) - 1);
  for (std::size_t o = 0; o < row.operand_count; ++o) {
    const char file = row.operand_files[o];
    i.operands[o] = is_file(file)
                        ? Operand::register_(static_cast<std::uint8_t>(registers_of(file) - 1))
                        : Operand::immediate_(0);
  }
  if (row.address != 0) {
    i.address.base = {31, 31};
    i.address.mask_register = 31;
  }
  return i;
}

/// What the machine has against a program of one such instruction.
std::string problem_of(const Instruction& instruction) {
  isa::Program program;
  program.name = "test";
  program.kernels.resize(1);
  program.kernels[0].name = "top";
  program.kernels[0].instructions = {instruction};
  program.kernels[0].bundles = {{0, 1, 0}, {1, 0, 0}};
  try {
    decode(program, MachineParams(), FollowedKernels(program));
  } catch (const WorkloadError& problem) {
    return problem.what();
  }
  return {};
}

/// Each instruction is refused where one register is a register too many, and only there.
TEST(ProgramCheck, RegistersAndOperandsOfEachOpcode) {
  std::size_t refused = 0;
  const auto expect = [&](const Instruction& right, const std::string& what,
                          const std::function<void(Instruction&)>& change) {
    Instruction wrong = right;
    change(wrong);
    const std::string problem = problem_of(wrong);
    EXPECT_NE(problem.find(what), std::string::npos)
        << isa::opcode_text(right.opcode) << ": " << problem;
    ++refused;
  };
  for (std::size_t o = 0; o < isa::kOpcodeCount; ++o) {
    const auto opcode = static_cast<Opcode>(o);
    const isa::OpcodeInfo& row = isa::info(opcode);
    const Instruction right = with_last_registers(opcode);
    const std::string problem = problem_of(right);
    EXPECT_EQ(problem.find("register"), std::string::npos) << problem;
    EXPECT_EQ(problem.find("operand"), std::string::npos) << problem;
    expect(right, "no register p16", [](Instruction& i) { i.guard.predicate = 16; });
    if (row.dest_file != 0) {
      expect(right, std::string("no register ") + row.dest_file, [](Instruction& i) { ++i.dest; });
    }
    for (std::size_t at = 0; at < right.operands.size(); ++at) {
      if (at >= row.operand_count) {
        expect(right, "a register where the instruction has no operand",
               [&](Instruction& i) { i.operands[at] = Operand::register_(0); });
        continue;
      }
      expect(right, "operand missing", [&](Instruction& i) { i.operands[at] = {}; });
      if (is_file(row.operand_files[at])) {
        expect(right, std::string("no register ") + row.operand_files[at],
               [&](Instruction& i) { ++i.operands[at].reg; });
      } else {
        expect(right, "expected an immediate operand",
               [&](Instruction& i) { i.operands[at] = Operand::register_(0); });
      }
    }
    if (row.address == 0) continue;
    expect(right, "no register s32", [](Instruction& i) { i.address.base[0] = 32; });
    expect(right, "no register s32", [](Instruction& i) { i.address.base[1] = 32; });
    expect(right, "no register s32", [](Instruction& i) { i.address.mask_register = 32; });
  }
  EXPECT_GT(refused, 5 * isa::kOpcodeCount);
}

/// The number of an opcode is one of the table's, whatever stands behind the table in memory.
TEST(ProgramCheck, TheFirstOpcodeBehindTheTableIsNone) {
  for (const std::size_t number : {isa::kOpcodeCount, isa::kOpcodeCount + 1}) {
    Instruction i;
    i.opcode = static_cast<Opcode>(number);
    EXPECT_NE(problem_of(i).find("no such opcode"), std::string::npos) << number;
  }
}

}  // namespace
}  // namespace tpu::program_check_test
