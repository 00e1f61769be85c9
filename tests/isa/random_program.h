#pragma once

#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "isa/bundle_check.h"
#include "isa/opcode_table.h"
#include "isa/program.h"

namespace tpu::isa::test {

/// Valid instructions, bundles and kernels from a fixed seed.
class RandomProgram {
 public:
  explicit RandomProgram(std::uint32_t seed) : engine_(seed) {}

  std::uint32_t below(std::uint32_t limit) { return static_cast<std::uint32_t>(engine_()) % limit; }
  std::uint32_t word() {
    switch (below(5)) {
      case 0:
        return below(200);
      case 1:
        return 0u - below(200);
      case 2: {
        const float value = static_cast<float>(below(2000)) / 64.0f - 10.0f;
        std::uint32_t bits;
        std::memcpy(&bits, &value, sizeof(bits));
        return bits;
      }
      default:
        return static_cast<std::uint32_t>(engine_());
    }
  }

  Operand operand(char letter) {
    const bool immediate = below(3) == 0;
    switch (letter) {
      case 's':
      case 'v':
        return immediate ? Operand::immediate_(word()) : Operand::register_(reg(32));
      case 'p':
        return immediate ? Operand::immediate_(below(2))
                         : Operand::register_(reg(16), below(2) != 0);
      case 'm':
        return immediate ? Operand::immediate_(below(2)) : Operand::register_(reg(16));
      case 'L':
        return Operand::immediate_(0);
      default:
        return Operand::immediate_(word());
    }
  }

  Address address(char space) {
    Address a;
    if (space == 'D') {
      a.offset = static_cast<std::int32_t>(below(1 << 16));
      a.sublane_stride = static_cast<std::int32_t>(below(1 << 16));
      a.pattern = 1 + below((1 << 16) - 1);
      return a;
    }
    if (space == 'F') {
      a.base = {reg(32), reg(32)};
      return a;
    }
    for (std::uint32_t i = 0; i < below(3); ++i) a.base[i] = reg(32);
    if (a.base[0] == kNoRegister) a.base[1] = kNoRegister;
    if (below(2) != 0) a.offset = static_cast<std::int32_t>(word());
    if (space == 'a') return a;
    if (below(3) == 0) a.sublane_stride = static_cast<std::int32_t>(word());
    if (below(3) == 0) a.sublane_mask = static_cast<std::uint8_t>(below(256));
    if (below(4) == 0) {
      a.sublane_mask = 0xff;
      a.mask_register = reg(32);
    }
    if (below(4) == 0) a.pattern = below(1 << 24);
    return a;
  }

  Instruction instruction(Opcode opcode) {
    const OpcodeInfo& row = info(opcode);
    Instruction in;
    in.opcode = opcode;
    if (row.has_unit) in.unit = static_cast<std::uint8_t>(below(kMaxUnits));
    if (row.dest_file != 0) {
      in.dest = reg(row.dest_file == 's' || row.dest_file == 'v' ? 32 : 16);
    }
    if (below(3) == 0) in.guard = {reg(16), below(2) != 0};
    for (std::size_t i = 0; i < row.operand_count; ++i) {
      in.operands[i] = operand(row.operand_files[i]);
    }
    if (row.address != 0) in.address = address(row.address);
    return in;
  }

  /// Each as likely. A new row of the table takes the place of others where it is drawn alone: what
  /// a seed gives is otherwise what it was.
  Opcode opcode() {
    const std::uint64_t drawn = engine_();
    std::uint64_t most = 0;
    Opcode chosen = Opcode::kCount;
    for (std::size_t i = 0; i < kOpcodeCount; ++i) {
      std::uint64_t lot = (seed_of(static_cast<Opcode>(i)) ^ drawn << 32) * 0x9e3779b97f4a7c15u;
      lot = (lot ^ lot >> 29) * 0xbf58476d1ce4e5b9u;
      lot ^= lot >> 32;
      if (chosen != Opcode::kCount && lot <= most) continue;
      most = lot;
      chosen = static_cast<Opcode>(i);
    }
    return chosen;
  }

  /// A number that an instruction keeps where rows of the table are added.
  static std::uint32_t seed_of(Opcode opcode) {
    static const std::vector<std::uint32_t> seeds = [] {
      std::vector<std::uint32_t> all(kOpcodeCount, 2166136261U);  // FNV-1a.
      for (std::size_t i = 0; i < kOpcodeCount; ++i) {
        for (const char letter : info(static_cast<Opcode>(i)).text) {
          all[i] = (all[i] ^ static_cast<std::uint8_t>(letter)) * 16777619U;
        }
      }
      return all;
    }();
    return seeds[static_cast<std::size_t>(opcode)];
  }

  /// A kernel whose bundles fit the slots and whose branches stay inside.
  Kernel kernel(std::uint32_t bundles) {
    Kernel kernel;
    kernel.name = "random." + std::to_string(bundles);
    for (std::uint32_t i = 0; i < bundles; ++i) {
      Bundle bundle;
      bundle.first_instruction = static_cast<std::uint32_t>(kernel.instructions.size());
      if (below(4) == 0) bundle.delay = below(1000);
      for (std::uint32_t tries = below(8); tries > 0; --tries) {
        Instruction in = instruction(opcode());
        if (in.opcode == Opcode::kSbrRel) in.operands[0].immediate = below(bundles);
        kernel.instructions.push_back(in);
        ++bundle.instruction_count;
        if (bundle_problem(kernel, bundle)) {
          kernel.instructions.pop_back();
          --bundle.instruction_count;
        }
      }
      kernel.bundles.push_back(bundle);
    }
    return kernel;
  }

 private:
  std::uint8_t reg(std::uint32_t limit) { return static_cast<std::uint8_t>(below(limit)); }

  std::mt19937 engine_;
};

inline bool same_code(const Kernel& a, const Kernel& b) {
  if (a.bundles.size() != b.bundles.size() || a.instructions != b.instructions) return false;
  for (std::size_t i = 0; i < a.bundles.size(); ++i) {
    if (a.bundles[i].first_instruction != b.bundles[i].first_instruction ||
        a.bundles[i].instruction_count != b.bundles[i].instruction_count ||
        a.bundles[i].delay != b.bundles[i].delay) {
      return false;
    }
  }
  return true;
}

}  // namespace tpu::isa::test
