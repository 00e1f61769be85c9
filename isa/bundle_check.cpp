#include "isa/bundle_check.h"

#include <algorithm>
#include <array>
#include <sstream>

#include "isa/disassembler.h"
#include "isa/opcode_table.h"
#include "sim/base/error.h"

namespace tpu::isa {
namespace {

int file_size(char letter) {
  switch (letter) {
    case 's':
      return kScalarRegisters;
    case 'v':
      return kVectorRegisters;
    case 'p':
      return kPredicateRegisters;
    case 'm':
      return kMaskRegisters;
    default:
      return 0;
  }
}

/// What is wrong with a register that its file does not have.
std::string register_problem(const char* what, char letter, int reg) {
  std::ostringstream text;
  text << what << ": expected a register below " << file_size(letter) << " of file " << letter
       << ", found " << (reg == kNoRegister ? "none" : std::to_string(reg));
  return text.str();
}

/// Whether an operand is right; `problem` says what is not. So no text is handed on where nothing
/// is wrong: files of programs ask half a million times.
bool is_right(char letter, const Operand& operand, std::string& problem) {
  switch (operand.kind) {
    case Operand::Kind::kNone:
      problem = "operand missing";
      return false;
    case Operand::Kind::kRegister:
      if (file_size(letter) == 0) {
        problem = "operand: expected a number, found a register";
      } else if (operand.negated && letter != 'p') {
        problem = "operand: only predicates are negated";
      } else if (operand.immediate != 0) {
        problem = "operand: a register with an immediate";
      } else if (operand.reg >= file_size(letter)) {
        problem = register_problem("operand", letter, operand.reg);
      } else {
        return true;
      }
      return false;
    case Operand::Kind::kImmediate:
      if (operand.negated || operand.reg != kNoRegister) {
        problem = "operand: an immediate with a register or negation";
      } else if ((letter == 'p' || letter == 'm') && operand.immediate > 1) {
        problem = "operand: expected 0 or 1, found " + std::to_string(operand.immediate);
      } else {
        return true;
      }
      return false;
  }
  problem = "operand: unknown kind";
  return false;
}

std::optional<std::string> address_problem(const OpcodeInfo& row, const Address& address) {
  if (row.address == 0) {
    if (address == Address{}) return std::nullopt;
    return std::string("an address where the instruction has none");
  }
  if (row.address == 'D') {
    constexpr std::int32_t kMost = 0xffff;
    Address plain;
    plain.offset = address.offset;
    plain.sublane_stride = address.sublane_stride;
    plain.pattern = address.pattern;
    const bool fits = address.offset >= 0 && address.offset <= kMost &&
                      address.sublane_stride >= 0 && address.sublane_stride <= kMost &&
                      address.pattern <= static_cast<std::uint32_t>(kMost);
    if (plain == address && fits && address.pattern > 0) return std::nullopt;
    return std::string("strides: expected three numbers below 65536, and runs of at least one");
  }
  if (row.address == 'F') {
    Address plain;
    plain.base = address.base;
    const bool registers = std::all_of(address.base.begin(), address.base.end(),
                                       [](std::uint8_t reg) { return reg < kScalarRegisters; });
    if (plain == address && registers) return std::nullopt;
    return std::string("far end of a DMA: expected two scalar registers");
  }
  for (std::uint8_t base : address.base) {
    if (base != kNoRegister && base >= kScalarRegisters) {
      return register_problem("address", 's', base);
    }
  }
  if (address.base[0] == kNoRegister && address.base[1] != kNoRegister) {
    return std::string("address: a second register without a first");
  }
  if (row.address == 'a') {
    Address plain = address;
    plain.sublane_stride = 1;
    plain.sublane_mask = 0xff;
    plain.mask_register = kNoRegister;
    plain.pattern = 0;
    if (!(plain == address)) return std::string("address: ss, sm or pattern in SMEM");
    return std::nullopt;
  }
  if (address.mask_register != kNoRegister) {
    if (address.sublane_mask != 0xff) return std::string("address: two sublane masks");
    if (address.mask_register < kScalarRegisters) return std::nullopt;
    return register_problem("address", 's', address.mask_register);
  }
  if (address.pattern >> 24 != 0) return std::string("address: a pattern of more than 24 bits");
  return std::nullopt;
}

bool is_jump(Opcode opcode) { return opcode == Opcode::kSbrRel || opcode == Opcode::kCall; }

std::string too_many(const char* slot, int found, int slots) {
  std::ostringstream text;
  text << "expected at most " << slots << " " << slot << " instruction" << (slots == 1 ? "" : "s")
       << ", found " << found;
  return text.str();
}

std::optional<std::string> slot_problem(const Kernel& kernel, const Bundle& bundle) {
  std::array<int, static_cast<std::size_t>(Slot::kCount)> used{};
  int mask_logic = 0;
  int smem_port = 0;
  int jumps = 0;
  for (const Instruction* in = kernel.begin(bundle); in != kernel.end(bundle); ++in) {
    const OpcodeInfo& row = info(in->opcode);
    if (row.fits_misc_slot) {
      ++mask_logic;
    } else {
      ++used[static_cast<std::size_t>(row.slot)];
    }
    smem_port += row.takes_smem_port;
    jumps += is_jump(in->opcode);
  }
  const auto count = [&](Slot slot) -> int& { return used[static_cast<std::size_t>(slot)]; };
  if (mask_logic > 0 && count(Slot::kMisc) == 0) --mask_logic;
  count(Slot::kVectorAlu) += mask_logic;
  for (std::size_t i = 0; i < used.size(); ++i) {
    const auto slot = static_cast<Slot>(i);
    const int slots = slot == Slot::kScalar || slot == Slot::kVectorAlu ? 2 : 1;
    if (used[i] > slots) return too_many(to_string(slot), used[i], slots);
  }
  if (smem_port > 1) return too_many("sld, sst or DMA", smem_port, 1);
  if (jumps > 1) return too_many("branch or call", jumps, 1);
  return std::nullopt;
}

std::optional<std::string> write_problem(const Kernel& kernel, const Bundle& bundle) {
  for (const Instruction* a = kernel.begin(bundle); a != kernel.end(bundle); ++a) {
    const char file = info(a->opcode).dest_file;
    if (file == 0 || a->guard.predicate != kNoRegister) continue;
    for (const Instruction* b = kernel.begin(bundle); b != a; ++b) {
      if (info(b->opcode).dest_file == file && b->dest == a->dest &&
          b->guard.predicate == kNoRegister) {
        return "expected one write of each register, found two: " + format_instruction(*b) +
               " and " + format_instruction(*a);
      }
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> instruction_problem(const Instruction& in) {
  if (in.opcode >= Opcode::kCount) return std::string("no such opcode");
  const OpcodeInfo& row = info(in.opcode);
  if (in.unit >= (row.has_unit ? kMaxUnits : 1)) {
    return "expected a unit below " + std::to_string(row.has_unit ? kMaxUnits : 1) + ", found " +
           std::to_string(in.unit);
  }
  if (row.dest_file == 0) {
    if (in.dest != kNoRegister) return std::string("a destination where there is none");
  } else if (in.dest >= file_size(row.dest_file)) {
    return register_problem("destination", row.dest_file, in.dest);
  }
  if (in.guard.predicate == kNoRegister) {
    if (in.guard.negated) return std::string("a negated guard without a predicate");
  } else if (in.guard.predicate >= file_size('p')) {
    return register_problem("guard", 'p', in.guard.predicate);
  }
  std::string problem;
  for (std::size_t i = 0; i < in.operands.size(); ++i) {
    if (i >= row.operand_count) {
      if (!(in.operands[i] == Operand{})) return std::string("more operands than the signature");
    } else if (!is_right(row.operand_files[i], in.operands[i], problem)) {
      return problem;
    }
  }
  return address_problem(row, in.address);
}

std::optional<std::string> bundle_problem(const Kernel& kernel, const Bundle& bundle) {
  if (auto problem = slot_problem(kernel, bundle)) return problem;
  return write_problem(kernel, bundle);
}

void check_kernel(const Kernel& kernel) {
  for (std::size_t i = 0; i < kernel.bundles.size(); ++i) {
    const Bundle& bundle = kernel.bundles[i];
    const auto refuse = [&](const std::string& problem) {
      std::ostringstream text;
      text << "kernel " << kernel.name << ", bundle 0x" << std::hex << i << ": " << problem;
      throw WorkloadError(text.str());
    };
    if (std::uint64_t{bundle.first_instruction} + bundle.instruction_count >
        kernel.instructions.size()) {
      refuse("more instructions than the kernel has");
    }
    for (const Instruction* in = kernel.begin(bundle); in != kernel.end(bundle); ++in) {
      if (auto problem = instruction_problem(*in)) {
        refuse((in->opcode < Opcode::kCount ? opcode_text(in->opcode) : "?") + ": " + *problem);
      }
      if (in->opcode == Opcode::kSbrRel && in->operands[0].immediate > kernel.bundles.size()) {
        refuse("expected a branch to a bundle up to " + std::to_string(kernel.bundles.size()) +
               ", found " + std::to_string(in->operands[0].immediate));
      }
    }
    if (auto problem = bundle_problem(kernel, bundle)) refuse(*problem);
  }
}

}  // namespace tpu::isa
