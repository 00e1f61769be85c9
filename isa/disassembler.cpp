#include "isa/disassembler.h"

#include <cctype>
#include <charconv>
#include <cmath>
#include <cstring>
#include <ostream>

#include "isa/opcode_table.h"

namespace tpu::isa {
namespace {

std::string hex(std::uint32_t value) {
  char text[16];
  const auto end = std::to_chars(text, text + sizeof(text), value, 16).ptr;
  return "0x" + std::string(text, end);
}

/// The shortest decimal that reads back as the same fp32, with a mark that it is no integer.
std::string format_float(std::uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  if (std::isnan(value)) return hex(bits);
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  char text[64];
  const auto end = std::to_chars(text, text + sizeof(text), value).ptr;
  std::string shortest(text, end);
  if (shortest.find_first_of(".e") == std::string::npos) shortest += ".0";
  return shortest;
}

bool shows_floats(const OpcodeInfo& row) { return row.text.find("f32") != std::string_view::npos; }

std::string format_immediate(const OpcodeInfo& row, char letter, std::uint32_t value) {
  if (letter == 'i') return std::to_string(static_cast<std::int32_t>(value));
  if ((letter == 'v' || letter == 's') && shows_floats(row) && value != 0) {
    return format_float(value);
  }
  return std::to_string(value);
}

const char* register_prefix(char letter) {
  switch (letter) {
    case 's':
      return "%s";
    case 'v':
      return "%v";
    case 'p':
      return "%p";
    case 'm':
      return "%vm";
    default:
      return "%?";
  }
}

std::string format_operand(const OpcodeInfo& row, std::size_t index, const Operand& operand) {
  const char letter = row.operand_files[index];
  if (operand.kind == Operand::Kind::kRegister) {
    return std::string(operand.negated ? "!" : "") + register_prefix(letter) +
           std::to_string(operand.reg);
  }
  return format_immediate(row, letter, operand.immediate);
}

std::string format_address(const OpcodeInfo& row, const Address& address) {
  if (row.address == 'D') {
    return "[strides:" + std::to_string(address.offset) + ", " +
           std::to_string(address.sublane_stride) + ", " + std::to_string(address.pattern) + "]";
  }
  if (row.address == 'F') {
    return "[far:%s" + std::to_string(address.base[0]) + ", %s" + std::to_string(address.base[1]) +
           "]";
  }
  std::string text = "[" + std::string(memory_of_address(row)) + ":";
  bool first = true;
  for (std::uint8_t base : address.base) {
    if (base == kNoRegister) continue;
    if (!first) text += " + ";
    text += "%s" + std::to_string(base);
    first = false;
  }
  const std::int64_t offset = address.offset;
  if (first) {
    text += offset < 0 ? "-$" : "$";
    text += hex(static_cast<std::uint32_t>(offset < 0 ? -offset : offset));
  } else if (offset != 0) {
    text += offset < 0 ? " - $" : " + $";
    text += hex(static_cast<std::uint32_t>(offset < 0 ? -offset : offset));
  }
  if (address.sublane_stride != 1) text += " ss:$" + std::to_string(address.sublane_stride);
  if (address.mask_register != kNoRegister) {
    text += " sm:%s" + std::to_string(address.mask_register);
  } else if (address.sublane_mask != 0xff) {
    text += " sm:$" + hex(address.sublane_mask);
  }
  if (address.pattern != 0) text += " pattern:$" + hex(address.pattern);
  return text + "]";
}

std::string format_guard(const Guard& guard) {
  return std::string(guard.negated ? "(!%p" : "(%p") + std::to_string(guard.predicate) + ")";
}

bool is_transpose(const OpcodeInfo& row) { return row.queue == Queue::kTranspose && !row.pops; }

/// Appends an operand behind a space, or a comma where an operand or guard stands before it.
void append(std::string& text, bool& comma, const std::string& operand) {
  text += comma ? ", " : " ";
  text += operand;
  comma = true;
}

bool is_plain_name(const std::string& name) {
  for (char c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && std::strchr("_.-<>", c) == nullptr) {
      return false;
    }
  }
  return !name.empty();
}

std::string quoted(const std::string& name) {
  std::string text = "\"";
  for (char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      text += '\\';
      text += c;
    } else if (byte < 0x20 || byte == 0x7f) {
      const char digits[] = "0123456789abcdef";
      text += "\\x";
      text += digits[byte >> 4];
      text += digits[byte & 15];
    } else {
      text += c;
    }
  }
  return text + "\"";
}

}  // namespace

std::string format_instruction(const Instruction& in) {
  const OpcodeInfo& row = info(in.opcode);
  std::string text;
  if (row.dest_file != 0) text = register_prefix(row.dest_file) + std::to_string(in.dest) + " = ";
  text += opcode_text(in.opcode, in.unit);
  std::size_t operands = row.operand_count;
  if (is_transpose(row)) {
    text += " [" + format_operand(row, 2, in.operands[2]) + "/" +
            format_operand(row, 3, in.operands[3]) + "]";
    operands = 2;
  }
  bool comma = false;
  if (row.address != 0) text += " " + format_address(row, in.address);
  if (in.guard.predicate != kNoRegister) append(text, comma, format_guard(in.guard));
  if (in.opcode == Opcode::kSbrRel) {
    return text + " target = " + hex(in.operands[0].immediate);
  }
  if (in.opcode == Opcode::kCall) {
    return text + " site = " + std::to_string(in.operands[0].immediate);
  }
  for (std::size_t i = 0; i < operands; ++i) {
    append(text, comma, format_operand(row, i, in.operands[i]));
  }
  return text;
}

std::string format_bundle(const Kernel& kernel, const Bundle& bundle) {
  std::string text = "{";
  const char* separator = " ";
  for (const Instruction* in = kernel.begin(bundle); in != kernel.end(bundle); ++in) {
    text += separator + format_instruction(*in);
    separator = "  ;;  ";
  }
  if (bundle.delay != 0) text += separator + ("vdelay " + std::to_string(bundle.delay));
  return text + " }";
}

std::string quoted_name(const std::string& name) {
  return is_plain_name(name) ? name : quoted(name);
}

void print_kernel(std::ostream& out, const Kernel& kernel) {
  out << "kernel " << quoted_name(kernel.name) << "\n";
  for (std::size_t i = 0; i < kernel.bundles.size(); ++i) {
    std::string number = i == 0 ? "0" : hex(static_cast<std::uint32_t>(i));
    out << std::string(number.size() < 6 ? 6 - number.size() : 0, ' ') << number << " : "
        << format_bundle(kernel, kernel.bundles[i]) << "\n";
  }
}

void print_kernels(std::ostream& out, const std::vector<Kernel>& kernels) {
  for (const Kernel& kernel : kernels) print_kernel(out, kernel);
}

}  // namespace tpu::isa
