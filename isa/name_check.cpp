#include "isa/name_check.h"

#include <algorithm>
#include <sstream>

#include "isa/disassembler.h"
#include "sim/base/error.h"

namespace tpu::isa {
namespace {

std::uint64_t& name_of(RegisterNames& names, char file, std::uint8_t reg) {
  switch (file) {
    case 's':
      return names.s.at(reg);
    case 'v':
      return names.v.at(reg);
    case 'p':
      return names.p.at(reg);
    default:
      return names.m.at(reg);
  }
}

std::uint64_t name_of(const RegisterNames& names, char file, std::uint8_t reg) {
  switch (file) {
    case 's':
      return names.s.at(reg);
    case 'v':
      return names.v.at(reg);
    case 'p':
      return names.p.at(reg);
    default:
      return names.m.at(reg);
  }
}

/// A copy of a register to itself.
bool moves_nothing(const Instruction& in) {
  const bool is_copy = in.opcode == Opcode::kSmov || in.opcode == Opcode::kVmov ||
                       in.opcode == Opcode::kVmmov || in.opcode == Opcode::kPmov;
  return is_copy && in.operands[0].kind == Operand::Kind::kRegister &&
         in.operands[0].reg == in.dest;
}

/// Of a set of names; 0 is none.
void set(std::vector<bool>& of, std::uint32_t name) {
  if (name == 0) return;
  if (name >= of.size()) of.resize(std::size_t{name} + 1);
  of[name] = true;
}

std::string describe(std::uint64_t name, std::uint32_t number) {
  if (name == 0) return "no name";
  std::string text = "name " + std::to_string(name & 0xffffffff);
  if (name >> 32 != number) text += " of kernel " + std::to_string(name >> 32);
  return text;
}

}  // namespace

NameCheck::NameCheck(const Kernel& kernel, std::uint32_t kernel_number)
    : kernel_(kernel), number_(kernel_number), active_(!kernel.names.empty()) {
  if (!active_) return;
  TPU_CHECK(kernel.names.size() == kernel.instructions.size(),
            kernel.name << ": " << kernel.names.size() << " names for "
                        << kernel.instructions.size() << " instructions");
  const auto define = [this](std::uint32_t name) { set(defined_, name); };
  for (const VirtualNames& names : kernel.names) define(names.dest);
  for (const Renaming& renaming : kernel.renamings) define(renaming.name);
  for (const auto& operand : kernel.operand_names) define(operand.second);
  note_reads();
}

void NameCheck::note_reads() {
  for (const VirtualNames& names : kernel_.names) {
    set(read_, names.guard);
    set(read_, names.mask_register);
    for (std::uint32_t name : names.operands) set(read_, name);
    for (std::uint32_t name : names.base) set(read_, name);
  }
}

void NameCheck::enter(RegisterNames& names) const {
  for (const auto& [reg, name] : kernel_.operand_names) names.s.at(reg) = full_name(name);
}

void NameCheck::check_call(const CallSite& site, const RegisterNames& names) const {
  if (!active_) return;
  for (const auto& [reg, name] : site.operand_names) {
    if (name == 0 || !is_defined(name) || names.s.at(reg) == full_name(name)) continue;
    std::ostringstream text;
    text << "call out of kernel " << kernel_.name << ": expected name " << name << " in %s"
         << int{reg} << ", found " << describe(names.s.at(reg), number_);
    throw ProgramFault(text.str());
  }
}

void NameCheck::rename(std::uint32_t bundle, bool after, RegisterNames& names) const {
  auto renaming = std::lower_bound(
      kernel_.renamings.begin(), kernel_.renamings.end(), bundle,
      [](const Renaming& entry, std::uint32_t number) { return entry.bundle < number; });
  for (; renaming != kernel_.renamings.end() && renaming->bundle == bundle; ++renaming) {
    if (renaming->after != after) continue;
    name_of(names, renaming->file, renaming->reg) = full_name(renaming->name);
  }
}

void NameCheck::rename_before(std::uint32_t bundle, RegisterNames& names) const {
  rename(bundle, false, names);
}

void NameCheck::rename_after(std::uint32_t bundle, RegisterNames& names) const {
  rename(bundle, true, names);
}

void NameCheck::check(std::uint32_t instruction, char file, std::uint8_t reg, std::uint32_t name,
                      const RegisterNames& names) const {
  if (name == 0 || reg == kNoRegister || !is_defined(name)) return;
  const std::uint64_t found = name_of(names, file, reg);
  if (found == full_name(name)) return;
  std::ostringstream text;
  text << format_instruction(kernel_.instructions[instruction]) << ": expected name " << name
       << " in %" << (file == 'm' ? "vm" : std::string(1, file)) << int{reg} << ", found "
       << describe(found, number_);
  throw ProgramFault(text.str());
}

void NameCheck::check_guard(std::uint32_t instruction, const RegisterNames& names) const {
  check(instruction, 'p', kernel_.instructions[instruction].guard.predicate,
        kernel_.names[instruction].guard, names);
}

void NameCheck::check_reads(std::uint32_t instruction, const RegisterNames& names) const {
  const Instruction& in = kernel_.instructions[instruction];
  const VirtualNames& virtual_names = kernel_.names[instruction];
  const OpcodeInfo& row = info(in.opcode);
  for (std::size_t i = 0; i < row.operand_count; ++i) {
    if (in.operands[i].kind != Operand::Kind::kRegister) continue;
    check(instruction, row.operand_files[i], in.operands[i].reg, virtual_names.operands[i], names);
  }
  for (std::size_t i = 0; i < in.address.base.size(); ++i) {
    check(instruction, 's', in.address.base[i], virtual_names.base[i], names);
  }
  check(instruction, 's', in.address.mask_register, virtual_names.mask_register, names);
}

void NameCheck::check_queue(std::uint32_t instruction, std::uint64_t found) const {
  const std::size_t behind = info(kernel_.instructions[instruction].opcode).operand_count;
  const std::uint32_t name = kernel_.names[instruction].operands.at(behind);
  if (name == 0 || !is_defined(name) || found == full_name(name)) return;
  std::ostringstream text;
  text << format_instruction(kernel_.instructions[instruction]) << ": expected the result of %"
       << name << " at the head of the queue, found " << describe(found, number_);
  throw ProgramFault(text.str());
}

std::uint64_t NameCheck::written_name(std::uint32_t instruction, const RegisterNames& names) const {
  const Instruction& in = kernel_.instructions[instruction];
  const std::uint32_t name = kernel_.names[instruction].dest;
  if (moves_nothing(in) && !is_read(name)) {
    return name_of(names, info(in.opcode).operand_files[0], in.dest);
  }
  return full_name(name);
}

}  // namespace tpu::isa
