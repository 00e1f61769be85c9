#include "isa/assembler.h"

#include <charconv>
#include <cstring>
#include <limits>
#include <map>
#include <optional>

#include "isa/assembler_cursor.h"
#include "isa/bundle_check.h"
#include "isa/opcode_table.h"
#include "isa/program_text.h"
#include "sim/base/error.h"

namespace tpu::isa {
namespace {

constexpr std::size_t kMaxTextBytes = std::size_t{1} << 28;
constexpr std::uint32_t kMaxInstructionsPerBundle = 16;
constexpr std::uint32_t kMaxDelay = 1 << 24;

/// A branch to a label that may follow later.
struct LabelUse {
  std::uint32_t instruction = 0;
  std::string label;
  const char* place = nullptr;
};

class Assembler {
 public:
  Assembler(std::string_view text, std::string_view file_name) : cursor_(text, file_name) {
    if (text.size() > kMaxTextBytes) {
      cursor_.refuse_at(cursor_.at(), "expected at most " + std::to_string(kMaxTextBytes) +
                                          " bytes of assembler text, found " +
                                          std::to_string(text.size()));
    }
  }

  /// Kernels; before the first one what `statements` reads.
  std::vector<Kernel> kernels(ProgramText* statements = nullptr) {
    while (!cursor_.at_end()) {
      if (cursor_.peek_word() == "kernel") {
        finish_kernel();
        begin_kernel();
      } else if (!kernels_.empty()) {
        bundle_or_label();
      } else if (statements == nullptr || !statements->take()) {
        cursor_.fail("\"kernel NAME\" before the first bundle");
      }
    }
    finish_kernel();
    return std::move(kernels_);
  }

  Program program(const SizeOfShape& size_of) {
    ProgramText statements(cursor_, size_of);
    return statements.finish(kernels(&statements));
  }

  Instruction single_instruction() {
    kernels_.emplace_back();
    const Instruction in = instruction();
    if (!label_uses_.empty()) {
      cursor_.refuse_at(label_uses_[0].place, "expected the number of a bundle, found a label");
    }
    if (!cursor_.at_end()) cursor_.fail("the end of the instruction");
    return in;
  }

 private:
  Kernel& kernel() { return kernels_.back(); }

  void begin_kernel() {
    cursor_.word();
    kernels_.emplace_back();
    kernel().name = cursor_.name("the name of a kernel");
  }

  void finish_kernel() {
    for (const LabelUse& use : label_uses_) {
      const auto label = labels_.find(use.label);
      if (label == labels_.end()) {
        cursor_.refuse_at(use.place,
                          "expected a label of this kernel, found \"" + use.label + "\"");
      }
      kernel().instructions[use.instruction].operands[0].immediate = label->second;
    }
    if (!kernels_.empty()) {
      for (const auto& [instruction, place] : branches_) {
        const std::uint32_t target = kernel().instructions[instruction].operands[0].immediate;
        if (target > kernel().bundles.size()) {
          cursor_.refuse_at(place, "expected a bundle up to " +
                                       std::to_string(kernel().bundles.size()) + ", found " +
                                       std::to_string(target));
        }
      }
    }
    label_uses_.clear();
    labels_.clear();
    branches_.clear();
  }

  void bundle_or_label() {
    const char* const begin = cursor_.next();
    const std::string word(cursor_.peek_word());
    if (!word.empty() && !is_digit(word[0])) {
      cursor_.word();
      if (!cursor_.take(":")) {
        cursor_.refuse_at(begin, "expected a bundle, a label with \":\" or \"kernel\", found \"" +
                                     word.substr(0, 40) + "\"");
      }
      const auto number = static_cast<std::uint32_t>(kernel().bundles.size());
      if (!labels_.insert({word, number}).second) {
        cursor_.refuse_at(begin,
                          "expected a new label, found \"" + word.substr(0, 40) + "\" again");
      }
      return;
    }
    if (!word.empty()) {
      const std::uint32_t number = cursor_.integer("the number of a bundle");
      if (number != kernel().bundles.size()) {
        cursor_.refuse_at(begin, "expected bundle " + std::to_string(kernel().bundles.size()) +
                                     ", found " + word.substr(0, 40));
      }
      cursor_.expect(":");
    }
    while (cursor_.take(">")) {
    }
    bundle();
  }

  void bundle() {
    const char* const begin = cursor_.next();
    cursor_.expect("{");
    Bundle bundle;
    bundle.first_instruction = static_cast<std::uint32_t>(kernel().instructions.size());
    if (!cursor_.take("}")) {
      do {
        element(bundle);
      } while (cursor_.take(";;"));
      if (!cursor_.take("}")) cursor_.fail("\";;\" or \"}\"");
    }
    if (auto problem = bundle_problem(kernel(), bundle)) cursor_.refuse_at(begin, *problem);
    kernel().bundles.push_back(bundle);
  }

  void element(Bundle& bundle) {
    if (cursor_.peek_word() == "vdelay") {
      cursor_.word();
      const char* const place = cursor_.next();
      const std::uint32_t cycles = cursor_.integer("a number of cycles");
      if (cycles > kMaxDelay - bundle.delay) {
        cursor_.refuse_at(place, "expected a delay of at most " + std::to_string(kMaxDelay) +
                                     " cycles, found " + std::to_string(cycles));
      }
      bundle.delay += cycles;
      return;
    }
    const char* const begin = cursor_.next();
    if (bundle.instruction_count == kMaxInstructionsPerBundle) {
      cursor_.refuse_at(begin, "expected at most " + std::to_string(kMaxInstructionsPerBundle) +
                                   " instructions in a bundle, found more");
    }
    kernel().instructions.push_back(instruction());
    ++bundle.instruction_count;
  }

  Instruction instruction() {
    const char* const begin = cursor_.next();
    Instruction in;
    char dest_file = 0;
    if (cursor_.peek() == '%') {
      dest_file = register_(in.dest);
      cursor_.expect("=");
    }
    const char* const mnemonic_at = cursor_.next();
    const std::string_view mnemonic = cursor_.mnemonic();
    if (mnemonic.empty()) cursor_.fail("an instruction");
    const auto found = find_opcode(mnemonic);
    if (!found) {
      cursor_.refuse_at(mnemonic_at, "expected an instruction, found \"" +
                                         std::string(mnemonic.substr(0, 40)) +
                                         "\" (nearest: " + nearest_opcode_text(mnemonic) + ")");
    }
    in.opcode = found->opcode;
    in.unit = found->unit;
    const OpcodeInfo& row = info(in.opcode);
    if (dest_file != row.dest_file) {
      cursor_.refuse_at(begin, std::string("expected ") + destination_form(row.dest_file) +
                                   " before " + std::string(mnemonic) + ", found " +
                                   destination_form(dest_file));
    }
    arguments(in, row);
    if (auto problem = instruction_problem(in)) cursor_.refuse_at(begin, *problem);
    return in;
  }

  static std::string destination_form(char file) {
    switch (file) {
      case 0:
        return "no destination";
      case 'm':
        return "\"%vmN =\"";
      default:
        return std::string("\"%") + file + "N =\"";
    }
  }

  void arguments(Instruction& in, const OpcodeInfo& row) {
    std::size_t count = row.operand_count;
    if (row.queue == Queue::kTranspose && !row.pops) {
      cursor_.expect("[");
      in.operands[2] = Operand::immediate_(cursor_.integer("the number of this push"));
      cursor_.expect("/");
      in.operands[3] = Operand::immediate_(cursor_.integer("the number of pushes"));
      cursor_.expect("]");
      count = 2;
    }
    if (row.address != 0) address(in.address, row);
    guard(in.guard);
    const auto index = static_cast<std::uint32_t>(kernel().instructions.size());
    if (in.opcode == Opcode::kSbrRel) {
      cursor_.expect("target");
      cursor_.expect("=");
      const char* const place = cursor_.next();
      branches_.push_back({index, place});
      in.operands[0] = Operand::immediate_(branch_target(index, place));
      return;
    }
    if (in.opcode == Opcode::kCall) {
      cursor_.expect("site");
      cursor_.expect("=");
      in.operands[0] = Operand::immediate_(cursor_.integer("the number of a call site"));
      return;
    }
    for (std::size_t i = 0; i < count; ++i) {
      if (i > 0) cursor_.expect(",");
      in.operands[i] = operand(row.operand_files[i]);
    }
  }

  std::uint32_t branch_target(std::uint32_t instruction, const char* place) {
    if (is_digit(cursor_.peek())) return cursor_.integer("a bundle");
    const std::string label(cursor_.word());
    if (label.empty()) cursor_.fail("the number of a bundle or a label");
    label_uses_.push_back({instruction, label, place});
    return 0;
  }

  void guard(Guard& guard) {
    if (!cursor_.take("(")) return;
    guard.negated = cursor_.take("!");
    expect_register('p', guard.predicate);
    cursor_.expect(")");
    cursor_.take(",");
  }

  /// "%v3" -> file 'v', number 3; the mask file %vm is 'm'.
  char register_(std::uint8_t& number) {
    const char* const begin = cursor_.next();
    if (!cursor_.take('%')) cursor_.fail("a register");
    const std::string_view word = cursor_.word();
    const std::size_t letters = word.substr(0, 2) == "vm" ? 2 : 1;
    const char file = letters == 2 ? 'm' : word.empty() ? '\0' : word[0];
    std::uint32_t value = 0;
    const char* digits = word.data() + (letters < word.size() ? letters : word.size());
    const auto parsed = std::from_chars(digits, word.data() + word.size(), value);
    const bool known = file == 's' || file == 'v' || file == 'p' || file == 'm';
    if (!known || parsed.ec != std::errc() || parsed.ptr != word.data() + word.size()) {
      cursor_.refuse_at(begin, "expected a register (%s0, %v0, %p0, %vm0), found \"%" +
                                   std::string(word.substr(0, 40)) + "\"");
    }
    const std::uint32_t limit = file == 's' || file == 'v' ? 32 : 16;
    if (value >= limit) {
      cursor_.refuse_at(begin, "expected a register below " + std::to_string(limit) +
                                   ", found \"%" + std::string(word.substr(0, 40)) + "\"");
    }
    number = static_cast<std::uint8_t>(value);
    return file;
  }

  void expect_register(char file, std::uint8_t& number) {
    const char* const begin = cursor_.next();
    const char found = register_(number);
    if (found == file) return;
    const auto name = [](char letter) {
      return letter == 'm' ? std::string("%vm") : std::string("%") + letter;
    };
    cursor_.refuse_at(begin, "expected a register " + name(file) + "N, found " + name(found) +
                                 std::to_string(number));
  }

  Operand operand(char letter) {
    if (letter == 'i') return Operand::immediate_(cursor_.integer("a number"));
    Operand result;
    const bool negated = letter == 'p' && cursor_.take("!");
    if (cursor_.peek() == '%') {
      result.kind = Operand::Kind::kRegister;
      result.negated = negated;
      expect_register(letter, result.reg);
      return result;
    }
    if (negated) cursor_.fail("a register %pN");
    if (letter == 'p' || letter == 'm') {
      const char* const begin = cursor_.next();
      const std::string expected =
          std::string("a register %") + (letter == 'm' ? "vm" : "p") + "N, 0 or 1";
      const std::uint32_t value = cursor_.integer(expected);
      if (value > 1) {
        cursor_.refuse_at(begin, "expected " + expected + ", found " + std::to_string(value));
      }
      return Operand::immediate_(value);
    }
    return Operand::immediate_(
        cursor_.number(std::string("a register %") + letter + "N or a number", true));
  }

  void address(Address& address, const OpcodeInfo& row) {
    cursor_.expect("[");
    cursor_.expect(memory_of_address(row));
    cursor_.expect(":");
    if (row.address == 'D') return strides(address);
    if (row.address == 'F') return far_end(address);
    std::int64_t offset = 0;
    std::size_t bases = 0;
    bool negative = cursor_.take("-");
    do {
      term(address, bases, offset, negative);
      negative = cursor_.take("-");
    } while (negative || cursor_.take("+"));
    address.offset = static_cast<std::int32_t>(offset);
    while (!cursor_.take("]")) attribute(address, row);
  }

  /// "[strides:16, 8, 8]": of the source, of the destination, granules of a run.
  void strides(Address& address) {
    address.offset = static_cast<std::int32_t>(stride("a stride of the source"));
    cursor_.expect(",");
    address.sublane_stride = static_cast<std::int32_t>(stride("a stride of the destination"));
    cursor_.expect(",");
    address.pattern = stride("granules of a run");
    cursor_.expect("]");
  }

  /// "[far:%s10, %s11]": the sync flag of this core, the other core.
  void far_end(Address& address) {
    expect_register('s', address.base[0]);
    cursor_.expect(",");
    expect_register('s', address.base[1]);
    cursor_.expect("]");
  }

  std::uint32_t stride(const char* what) {
    const char* const begin = cursor_.next();
    const std::uint32_t granules = cursor_.integer(what);
    if (granules > 0xffff) {
      cursor_.refuse_at(begin, std::string("expected ") + what + " below 65536, found more");
    }
    return granules;
  }

  void term(Address& address, std::size_t& bases, std::int64_t& offset, bool negative) {
    const char* const begin = cursor_.next();
    if (cursor_.take("$")) {
      const std::int64_t value = cursor_.integer("an offset");
      offset += negative ? -value : value;
      if (offset < std::numeric_limits<std::int32_t>::min() ||
          offset > std::numeric_limits<std::int32_t>::max()) {
        cursor_.refuse_at(
            begin, "expected an offset of 32 bits with sign, found " + std::to_string(offset));
      }
      return;
    }
    if (cursor_.peek() != '%') cursor_.fail("a register %sN or an offset $0x1");
    if (negative) cursor_.fail("an offset $0x1 behind \"-\"");
    if (bases == address.base.size()) cursor_.fail("at most two registers in an address");
    expect_register('s', address.base[bases++]);
  }

  void attribute(Address& address, const OpcodeInfo& row) {
    const char* const begin = cursor_.next();
    const std::string_view name = cursor_.peek_word();
    const bool rows = row.address != 'a';
    if (!rows || (name != "ss" && name != "sm" && name != "pattern")) {
      cursor_.fail(rows ? "\"+\", \"-\", \"ss:\", \"sm:\", \"pattern:\" or \"]\""
                        : "\"+\", \"-\" or \"]\"");
    }
    cursor_.word();
    cursor_.expect(":");
    if (name == "sm") {
      if (cursor_.peek() == '%') return expect_register('s', address.mask_register);
      cursor_.expect("$");
      const std::uint32_t mask = cursor_.integer("a sublane mask");
      if (mask > 0xff)
        cursor_.refuse_at(begin, "expected a mask of eight sublanes, found more bits");
      address.sublane_mask = static_cast<std::uint8_t>(mask);
      return;
    }
    cursor_.expect("$");
    if (name == "ss") {
      address.sublane_stride = static_cast<std::int32_t>(cursor_.integer("a stride of sublanes"));
      return;
    }
    address.pattern = cursor_.integer("a pattern");
    if (address.pattern >> 24 != 0) {
      cursor_.refuse_at(begin, "expected a pattern of eight octal digits, found more bits");
    }
  }

  AssemblerCursor cursor_;
  std::vector<Kernel> kernels_;
  std::map<std::string, std::uint32_t> labels_;
  std::vector<LabelUse> label_uses_;
  std::vector<std::pair<std::uint32_t, const char*>> branches_;
};

}  // namespace

std::vector<Kernel> assemble(std::string_view text, const std::string& file_name) {
  return Assembler(text, file_name).kernels();
}

Program assemble_program(std::string_view text, const std::string& file_name,
                         const SizeOfShape& size_of) {
  return Assembler(text, file_name).program(size_of);
}

Instruction assemble_instruction(std::string_view text) {
  return Assembler(text, "instruction").single_instruction();
}

}  // namespace tpu::isa
