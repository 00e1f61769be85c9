#include "isa/assembler.h"

#include <cctype>
#include <charconv>
#include <cstring>
#include <limits>
#include <map>
#include <optional>

#include "isa/bundle_check.h"
#include "isa/opcode_table.h"
#include "sim/base/error.h"

namespace tpu::isa {
namespace {

constexpr std::size_t kMaxTextBytes = std::size_t{1} << 28;
constexpr std::uint32_t kMaxInstructionsPerBundle = 16;
constexpr std::uint32_t kMaxDelay = 1 << 24;

bool is_word_character(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.';
}

/// A place in the text.
struct Mark {
  std::size_t offset = 0;
  int line = 1;
  int column = 1;
};

/// Walks over the text and says what it finds where.
class Cursor {
 public:
  Cursor(std::string_view text, std::string file) : text_(text), file_(std::move(file)) {}

  const Mark& mark() const { return at_; }
  bool at_end() const { return at_.offset >= text_.size(); }
  char peek(std::size_t ahead = 0) const {
    return at_.offset + ahead < text_.size() ? text_[at_.offset + ahead] : '\0';
  }

  void advance() {
    if (text_[at_.offset++] == '\n') {
      ++at_.line;
      at_.column = 1;
    } else {
      ++at_.column;
    }
  }

  void skip_space() {
    while (!at_end()) {
      if (std::isspace(static_cast<unsigned char>(peek())) != 0) {
        advance();
      } else if (peek() == '/' && peek(1) == '/') {
        while (!at_end() && peek() != '\n') advance();
      } else if (peek() == '/' && peek(1) == '*') {
        skip_comment();
      } else {
        return;
      }
    }
  }

  /// Takes `literal` when it stands here, behind space.
  bool take(std::string_view literal) {
    skip_space();
    if (text_.substr(at_.offset, literal.size()) != literal) return false;
    for (std::size_t i = 0; i < literal.size(); ++i) advance();
    return true;
  }

  void expect(std::string_view literal) {
    if (!take(literal)) fail("\"" + std::string(literal) + "\"");
  }

  /// Letters, digits, dots and underscores; empty when there are none.
  std::string_view word() {
    skip_space();
    const std::size_t begin = at_.offset;
    while (is_word_character(peek())) advance();
    return text_.substr(begin, at_.offset - begin);
  }

  /// A word whose parts hyphens may join: vclamp-gez-f32.
  std::string_view mnemonic() {
    const std::size_t begin = (skip_space(), at_.offset);
    while (!word().empty() && peek() == '-' && is_word_character(peek(1))) advance();
    return text_.substr(begin, at_.offset - begin);
  }

  std::string_view peek_word() {
    const Mark before = (skip_space(), at_);
    const std::string_view found = word();
    at_ = before;
    return found;
  }

  [[noreturn]] void fail(const std::string& expected) {
    skip_space();
    fail_at(at_, "expected " + expected + ", found " + describe());
  }

  [[noreturn]] void fail_at(const Mark& mark, const std::string& message) const {
    throw WorkloadError(to_string(SourceLocation{file_, mark.line, mark.column}) + ": " + message);
  }

  /// What stands here, for messages: printable, short.
  std::string describe() const {
    if (at_end()) return "the end of the text";
    std::size_t length = 1;
    if (is_word_character(peek())) {
      while (length < 40 && is_word_character(peek(length))) ++length;
    }
    std::string shown = "\"";
    for (std::size_t i = 0; i < length; ++i) {
      const auto byte = static_cast<unsigned char>(peek(i));
      if (byte >= 0x20 && byte < 0x7f) {
        shown += static_cast<char>(byte);
      } else {
        const char digits[] = "0123456789abcdef";
        shown += "\\x";
        shown += digits[byte >> 4];
        shown += digits[byte & 15];
      }
    }
    return shown + "\"";
  }

 private:
  void skip_comment() {
    const Mark begin = at_;
    advance();
    advance();
    while (!at_end() && !(peek() == '*' && peek(1) == '/')) advance();
    if (at_end()) fail_at(begin, "expected the end of this comment, found the end of the text");
    advance();
    advance();
  }

  std::string_view text_;
  std::string file_;
  Mark at_;
};

/// A branch to a label that may follow later.
struct LabelUse {
  std::uint32_t instruction = 0;
  std::string label;
  Mark mark;
};

class Assembler {
 public:
  Assembler(std::string_view text, const std::string& file_name) : cursor_(text, file_name) {
    if (text.size() > kMaxTextBytes) {
      cursor_.fail_at({}, "expected at most " + std::to_string(kMaxTextBytes) +
                              " bytes of assembler text, found " + std::to_string(text.size()));
    }
  }

  std::vector<Kernel> file() {
    for (cursor_.skip_space(); !cursor_.at_end(); cursor_.skip_space()) {
      if (cursor_.peek_word() == "kernel") {
        finish_kernel();
        begin_kernel();
      } else if (kernels_.empty()) {
        cursor_.fail("\"kernel NAME\" before the first bundle");
      } else {
        bundle_or_label();
      }
    }
    finish_kernel();
    return std::move(kernels_);
  }

  Instruction single_instruction() {
    kernels_.emplace_back();
    const Instruction in = instruction();
    if (!label_uses_.empty()) {
      cursor_.fail_at(label_uses_[0].mark, "expected the number of a bundle, found a label");
    }
    cursor_.skip_space();
    if (!cursor_.at_end()) cursor_.fail("the end of the instruction");
    return in;
  }

 private:
  Kernel& kernel() { return kernels_.back(); }

  void begin_kernel() {
    cursor_.word();
    kernels_.emplace_back();
    cursor_.skip_space();
    if (cursor_.peek() == '"') {
      kernel().name = quoted_name();
      return;
    }
    const auto belongs = [](char c) {
      return is_word_character(c) || c == '-' || c == '<' || c == '>';
    };
    while (belongs(cursor_.peek())) {
      kernel().name += cursor_.peek();
      cursor_.advance();
    }
    if (kernel().name.empty()) cursor_.fail("the name of a kernel");
  }

  std::string quoted_name() {
    const Mark begin = cursor_.mark();
    cursor_.advance();
    std::string name;
    while (cursor_.peek() != '"') {
      if (cursor_.at_end() || cursor_.peek() == '\n') {
        cursor_.fail_at(begin, "expected a closing quote on this line, found none");
      }
      char c = cursor_.peek();
      if (c == '\\') {
        cursor_.advance();
        c = cursor_.peek();
        if (c == 'x') {
          cursor_.advance();
          const int high = hex_digit();
          const int low = hex_digit();
          name += static_cast<char>(high << 4 | low);
          continue;
        }
        if (c != '"' && c != '\\') cursor_.fail("\\\", \\\\ or \\xHH");
      }
      name += c;
      cursor_.advance();
    }
    cursor_.advance();
    if (name.empty()) cursor_.fail_at(begin, "expected the name of a kernel, found an empty one");
    return name;
  }

  int hex_digit() {
    const char c = cursor_.peek();
    if (std::isxdigit(static_cast<unsigned char>(c)) == 0) cursor_.fail("a hexadecimal digit");
    cursor_.advance();
    if (c <= '9') return c - '0';
    return (c | 0x20) - 'a' + 10;
  }

  void finish_kernel() {
    for (const LabelUse& use : label_uses_) {
      const auto label = labels_.find(use.label);
      if (label == labels_.end()) {
        cursor_.fail_at(use.mark, "expected a label of this kernel, found \"" + use.label + "\"");
      }
      kernel().instructions[use.instruction].operands[0].immediate = label->second;
    }
    if (!kernels_.empty()) {
      for (const auto& [instruction, mark] : branches_) {
        const std::uint32_t target = kernel().instructions[instruction].operands[0].immediate;
        if (target > kernel().bundles.size()) {
          cursor_.fail_at(mark, "expected a bundle up to " +
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
    const Mark begin = cursor_.mark();
    const std::string word(cursor_.peek_word());
    if (!word.empty() && std::isdigit(static_cast<unsigned char>(word[0])) == 0) {
      cursor_.word();
      if (!cursor_.take(":")) {
        cursor_.fail_at(begin, "expected a bundle, a label with \":\" or \"kernel\", found \"" +
                                   word.substr(0, 40) + "\"");
      }
      const auto number = static_cast<std::uint32_t>(kernel().bundles.size());
      if (!labels_.insert({word, number}).second) {
        cursor_.fail_at(begin, "expected a new label, found \"" + word.substr(0, 40) + "\" again");
      }
      return;
    }
    if (!word.empty()) {
      const std::uint32_t number = integer("the number of a bundle");
      if (number != kernel().bundles.size()) {
        cursor_.fail_at(begin, "expected bundle " + std::to_string(kernel().bundles.size()) +
                                   ", found " + word.substr(0, 40));
      }
      cursor_.expect(":");
    }
    while (cursor_.take(">")) {
    }
    bundle();
  }

  void bundle() {
    cursor_.skip_space();
    const Mark begin = cursor_.mark();
    cursor_.expect("{");
    Bundle bundle;
    bundle.first_instruction = static_cast<std::uint32_t>(kernel().instructions.size());
    if (!cursor_.take("}")) {
      do {
        element(bundle);
      } while (cursor_.take(";;"));
      if (!cursor_.take("}")) cursor_.fail("\";;\" or \"}\"");
    }
    if (auto problem = bundle_problem(kernel(), bundle)) cursor_.fail_at(begin, *problem);
    kernel().bundles.push_back(bundle);
  }

  void element(Bundle& bundle) {
    if (cursor_.peek_word() == "vdelay") {
      cursor_.word();
      const Mark mark = (cursor_.skip_space(), cursor_.mark());
      const std::uint32_t cycles = integer("a number of cycles");
      if (cycles > kMaxDelay - bundle.delay) {
        cursor_.fail_at(mark, "expected a delay of at most " + std::to_string(kMaxDelay) +
                                  " cycles, found " + std::to_string(cycles));
      }
      bundle.delay += cycles;
      return;
    }
    const Mark begin = (cursor_.skip_space(), cursor_.mark());
    if (bundle.instruction_count == kMaxInstructionsPerBundle) {
      cursor_.fail_at(begin, "expected at most " + std::to_string(kMaxInstructionsPerBundle) +
                                 " instructions in a bundle, found more");
    }
    kernel().instructions.push_back(instruction());
    ++bundle.instruction_count;
  }

  Instruction instruction() {
    cursor_.skip_space();
    const Mark begin = cursor_.mark();
    Instruction in;
    char dest_file = 0;
    if (cursor_.peek() == '%') {
      dest_file = register_(in.dest);
      cursor_.expect("=");
    }
    cursor_.skip_space();
    const Mark mnemonic_mark = cursor_.mark();
    const std::string_view mnemonic = cursor_.mnemonic();
    if (mnemonic.empty()) cursor_.fail("an instruction");
    const auto found = find_opcode(mnemonic);
    if (!found) {
      cursor_.fail_at(mnemonic_mark, "expected an instruction, found \"" +
                                         std::string(mnemonic.substr(0, 40)) +
                                         "\" (nearest: " + nearest_opcode_text(mnemonic) + ")");
    }
    in.opcode = found->opcode;
    in.unit = found->unit;
    const OpcodeInfo& row = info(in.opcode);
    if (dest_file != row.dest_file) {
      cursor_.fail_at(begin, std::string("expected ") + destination_form(row.dest_file) +
                                 " before " + std::string(mnemonic) + ", found " +
                                 destination_form(dest_file));
    }
    arguments(in, row);
    if (auto problem = instruction_problem(in)) cursor_.fail_at(begin, *problem);
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
      in.operands[2] = Operand::immediate_(integer("the number of this push"));
      cursor_.expect("/");
      in.operands[3] = Operand::immediate_(integer("the number of pushes"));
      cursor_.expect("]");
      count = 2;
    }
    if (row.address != 0) address(in.address, row);
    guard(in.guard);
    const auto index = static_cast<std::uint32_t>(kernel().instructions.size());
    if (in.opcode == Opcode::kSbrRel) {
      cursor_.expect("target");
      cursor_.expect("=");
      cursor_.skip_space();
      const Mark mark = cursor_.mark();
      branches_.push_back({index, mark});
      in.operands[0] = Operand::immediate_(branch_target(index, mark));
      return;
    }
    if (in.opcode == Opcode::kCall) {
      cursor_.expect("site");
      cursor_.expect("=");
      in.operands[0] = Operand::immediate_(integer("the number of a call site"));
      return;
    }
    for (std::size_t i = 0; i < count; ++i) {
      if (i > 0) cursor_.expect(",");
      in.operands[i] = operand(row.operand_files[i]);
    }
  }

  std::uint32_t branch_target(std::uint32_t instruction, const Mark& mark) {
    const char c = cursor_.peek();
    if (std::isdigit(static_cast<unsigned char>(c)) != 0) return integer("a bundle");
    const std::string label(cursor_.word());
    if (label.empty()) cursor_.fail("the number of a bundle or a label");
    label_uses_.push_back({instruction, label, mark});
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
    cursor_.skip_space();
    const Mark begin = cursor_.mark();
    if (cursor_.peek() != '%') cursor_.fail("a register");
    cursor_.advance();
    const std::string_view word = cursor_.word();
    const std::size_t letters = word.substr(0, 2) == "vm" ? 2 : 1;
    const char file = letters == 2 ? 'm' : word.empty() ? '\0' : word[0];
    std::uint32_t value = 0;
    const char* digits = word.data() + (letters < word.size() ? letters : word.size());
    const auto parsed = std::from_chars(digits, word.data() + word.size(), value);
    const bool known = file == 's' || file == 'v' || file == 'p' || file == 'm';
    if (!known || parsed.ec != std::errc() || parsed.ptr != word.data() + word.size()) {
      cursor_.fail_at(begin, "expected a register (%s0, %v0, %p0, %vm0), found \"%" +
                                 std::string(word.substr(0, 40)) + "\"");
    }
    const std::uint32_t limit = file == 's' || file == 'v' ? 32 : 16;
    if (value >= limit) {
      cursor_.fail_at(begin, "expected a register below " + std::to_string(limit) + ", found \"%" +
                                 std::string(word.substr(0, 40)) + "\"");
    }
    number = static_cast<std::uint8_t>(value);
    return file;
  }

  void expect_register(char file, std::uint8_t& number) {
    cursor_.skip_space();
    const Mark begin = cursor_.mark();
    const char found = register_(number);
    if (found == file) return;
    const auto name = [](char letter) {
      return letter == 'm' ? std::string("%vm") : std::string("%") + letter;
    };
    cursor_.fail_at(begin, "expected a register " + name(file) + "N, found " + name(found) +
                               std::to_string(number));
  }

  Operand operand(char letter) {
    cursor_.skip_space();
    if (letter == 'i') return Operand::immediate_(integer("a number"));
    Operand result;
    const bool negated = letter == 'p' && cursor_.take("!");
    cursor_.skip_space();
    if (cursor_.peek() == '%') {
      result.kind = Operand::Kind::kRegister;
      result.negated = negated;
      expect_register(letter, result.reg);
      return result;
    }
    if (negated) cursor_.fail("a register %pN");
    if (letter == 'p' || letter == 'm') {
      const Mark begin = cursor_.mark();
      const std::string expected =
          std::string("a register %") + (letter == 'm' ? "vm" : "p") + "N, 0 or 1";
      const std::uint32_t value = integer(expected);
      if (value > 1) {
        cursor_.fail_at(begin, "expected " + expected + ", found " + std::to_string(value));
      }
      return Operand::immediate_(value);
    }
    return Operand::immediate_(
        number(std::string("a register %") + letter + "N or a number", true));
  }

  std::uint32_t integer(const std::string& expected) { return number(expected, false); }

  /// Bits of an integer (decimal, hexadecimal, negative) or, where allowed, of an fp32 number.
  std::uint32_t number(const std::string& expected, bool floats) {
    cursor_.skip_space();
    const Mark begin = cursor_.mark();
    std::string text;
    char last = '\0';
    while (text.size() < 64) {
      const char c = cursor_.peek();
      const bool sign = (c == '-' || c == '+') && (text.empty() || last == 'e' || last == 'E');
      if (!sign && !is_word_character(c)) break;
      const bool hexadecimal = text.size() > 1 && (text[1] == 'x' || text[1] == 'X');
      if (sign && hexadecimal) break;
      text += c;
      last = c;
      cursor_.advance();
    }
    if (text.empty()) cursor_.fail(expected);
    const auto value = floats ? parse_number(text) : parse_integer(text);
    if (!value) cursor_.fail_at(begin, "expected " + expected + ", found \"" + text + "\"");
    return *value;
  }

  static std::optional<std::uint32_t> parse_integer(const std::string& text) {
    const bool negative = text[0] == '-';
    std::string_view digits = std::string_view(text).substr(negative ? 1 : 0);
    int base = 10;
    if (digits.size() > 2 && digits[0] == '0' && (digits[1] == 'x' || digits[1] == 'X')) {
      base = 16;
      digits.remove_prefix(2);
    }
    std::uint64_t value = 0;
    const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
    if (parsed.ec != std::errc() || parsed.ptr != digits.data() + digits.size()) return {};
    if (value > (negative ? std::uint64_t{1} << 31 : 0xffffffffull)) return {};
    const auto bits = static_cast<std::uint32_t>(value);
    return negative ? 0u - bits : bits;
  }

  static std::optional<std::uint32_t> parse_number(const std::string& text) {
    if (auto integer = parse_integer(text)) return integer;
    if (text.find_first_of(".eEnN") == std::string::npos) return {};
    float value = 0;
    const char* begin = text.data() + (text[0] == '+' ? 1 : 0);
    const auto parsed = std::from_chars(begin, text.data() + text.size(), value);
    if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size()) return {};
    if (value != value) return text[0] == '-' ? 0xffc00000u : 0x7fc00000u;
    std::uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof(bits));
    return bits;
  }

  void address(Address& address, const OpcodeInfo& row) {
    cursor_.expect("[");
    cursor_.expect(memory_of_address(row));
    cursor_.expect(":");
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

  void term(Address& address, std::size_t& bases, std::int64_t& offset, bool negative) {
    cursor_.skip_space();
    const Mark begin = cursor_.mark();
    if (cursor_.take("$")) {
      const std::int64_t value = integer("an offset");
      offset += negative ? -value : value;
      if (offset < std::numeric_limits<std::int32_t>::min() ||
          offset > std::numeric_limits<std::int32_t>::max()) {
        cursor_.fail_at(begin,
                        "expected an offset of 32 bits with sign, found " + std::to_string(offset));
      }
      return;
    }
    if (cursor_.peek() != '%') cursor_.fail("a register %sN or an offset $0x1");
    if (negative) cursor_.fail("an offset $0x1 behind \"-\"");
    if (bases == address.base.size()) cursor_.fail("at most two registers in an address");
    expect_register('s', address.base[bases++]);
  }

  void attribute(Address& address, const OpcodeInfo& row) {
    cursor_.skip_space();
    const Mark begin = cursor_.mark();
    const std::string_view name = cursor_.peek_word();
    const bool rows = row.address != 'a';
    if (!rows || (name != "ss" && name != "sm" && name != "pattern")) {
      cursor_.fail(rows ? "\"+\", \"-\", \"ss:\", \"sm:\", \"pattern:\" or \"]\""
                        : "\"+\", \"-\" or \"]\"");
    }
    cursor_.word();
    cursor_.expect(":");
    if (name == "sm") {
      cursor_.skip_space();
      if (cursor_.peek() == '%') return expect_register('s', address.mask_register);
      cursor_.expect("$");
      const std::uint32_t mask = integer("a sublane mask");
      if (mask > 0xff) cursor_.fail_at(begin, "expected a mask of eight sublanes, found more bits");
      address.sublane_mask = static_cast<std::uint8_t>(mask);
      return;
    }
    cursor_.expect("$");
    if (name == "ss") {
      address.sublane_stride = static_cast<std::int32_t>(integer("a stride of sublanes"));
      return;
    }
    address.pattern = integer("a pattern");
    if (address.pattern >> 24 != 0) {
      cursor_.fail_at(begin, "expected a pattern of eight octal digits, found more bits");
    }
  }

  Cursor cursor_;
  std::vector<Kernel> kernels_;
  std::map<std::string, std::uint32_t> labels_;
  std::vector<LabelUse> label_uses_;
  std::vector<std::pair<std::uint32_t, Mark>> branches_;
};

}  // namespace

std::vector<Kernel> assemble(std::string_view text, const std::string& file_name) {
  return Assembler(text, file_name).file();
}

Instruction assemble_instruction(std::string_view text) {
  return Assembler(text, "instruction").single_instruction();
}

}  // namespace tpu::isa
