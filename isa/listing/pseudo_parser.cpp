#include <cstring>

#include "isa/listing/listing_parser.h"
#include "sim/base/error.h"

namespace tpu::isa {

/// What the listing prints but the machine does not execute.
bool ListingParser::parse_pseudo(const Name& dest, std::string_view text, const char* place) {
  if (text == "compiler-scheduling-barrier") return true;
  if (text == "vdelay") {
    parse_delay();
  } else if (text == "sphi") {
    parse_phi(dest, 's', place);
  } else if (text == "vphi") {
    parse_phi(dest, 'v', place);
  } else if (text == "pphi") {
    parse_phi(dest, 'p', place);
  } else if (text == "vmphi") {
    parse_phi(dest, 'm', place);
  } else if (text == "int_to_ptr.hbm" || text == "int_to_ptr.smem" || text == "int_to_ptr.vmem" ||
             text == "int_to_ptr.cmem") {
    parse_pointer_cast(dest, place);
  } else if (text == "inlined_call_operand.") {
    cursor_.move_to(place + text.size());
    parse_call_operand(dest, place);
  } else if (text == "inlined_call_operand.hbm" || text == "inlined_call_operand.smem" ||
             text == "inlined_call_operand.cmem") {
    cursor_.move_to(place + std::strlen("inlined_call_operand."));
    parse_call_operand(dest, place);
  } else if (text == "reloc") {
    if (dest.file != 's') cursor_.fail_at(place, "a scalar result of \"reloc\"");
    if (cursor_.decimal("0") != 0) cursor_.fail_at(place, "\"reloc 0\"");
    Instruction instruction;
    instruction.opcode = Opcode::kSmov;
    instruction.dest = dest.reg;
    instruction.operands[0] = Operand::immediate_(0);
    VirtualNames names;
    names.dest = dest.name;
    append(instruction, names);
  } else {
    return false;
  }
  return true;
}

/// `%s5_s1 = sphi %s3_s1, %s4_s1`: the register holds the value already, whichever way control
/// came.
void ListingParser::parse_phi(const Name& dest, char file, const char* place) {
  if (dest.file != file) cursor_.fail_at(place, std::string("a phi into ") + register_kind(file));
  do {
    skip_space();
    const char* source_place = cursor_.at();
    const Name source = parse_register(file);
    if (source.reg != dest.reg) {
      cursor_.fail_at(source_place, "a phi within one register");
    }
    skip_space();
  } while (cursor_.take(','));
  listing_.kernel.renamings.push_back({static_cast<std::uint32_t>(listing_.kernel.bundles.size()),
                                       false, file, dest.reg, dest.name});
}

/// `%s11_s2 = int_to_ptr.hbm [resolvable:$false] %s919_s2`: a second name for a value, or a move to
/// another register. Readers may use either name: the second is replaced by the first.
void ListingParser::parse_pointer_cast(const Name& dest, const char* place) {
  if (dest.file != 's') cursor_.fail_at(place, "a scalar result of int_to_ptr");
  if (!cursor_.take("[resolvable:$true]")) cursor_.expect("[resolvable:$false]");
  skip_space();
  const Name source = parse_register('s');
  if (source.reg == dest.reg) {
    note_second_name(dest.name, source.name);
    return;
  }
  Instruction instruction;
  instruction.opcode = Opcode::kSmov;
  instruction.dest = dest.reg;
  instruction.operands[0] = Operand::register_(source.reg);
  VirtualNames names;
  names.dest = dest.name;
  names.operands[0] = source.name;
  append(instruction, names);
}

/// `%s5_s0 = inlined_call_operand.hbm [shape: f32[512,512], index: 0, kind: input, shape index:
/// {}]`
void ListingParser::parse_call_operand(const Name& dest, const char* place) {
  ListingOperand operand;
  if (dest.file != 's') cursor_.fail_at(place, "a scalar result of inlined_call_operand");
  if (cursor_.take("hbm")) {
    operand.space = ListingOperand::Space::kHbm;
  } else if (cursor_.take("cmem")) {
    operand.space = ListingOperand::Space::kCmem;
  } else if (cursor_.take("smem")) {
    operand.space = ListingOperand::Space::kSmem;
  } else if (cursor_.take("<no memory space>")) {
    operand.space = ListingOperand::Space::kValue;
  } else {
    cursor_.fail("a memory space (hbm, cmem, smem, <no memory space>)");
  }
  cursor_.expect(" [shape: ");
  const std::string_view line = cursor_.rest_of_line();
  const std::size_t index = line.find(", index: ");
  if (index == std::string_view::npos) cursor_.fail("a shape and \", index: \"");
  operand.shape = std::string(line.substr(0, index));
  cursor_.advance(index);
  cursor_.expect(", index: ");
  const bool negative = cursor_.take('-');
  operand.index = static_cast<std::int32_t>(cursor_.decimal("the index of an operand", 1u << 20));
  if (negative) operand.index = -operand.index;
  cursor_.expect(", kind: ");
  const char* kind = cursor_.at();
  operand.kind = cursor_.take_while([](char c) { return c >= 'a' && c <= 'z'; });
  if (operand.kind != "input" && operand.kind != "output" && operand.kind != "const") {
    cursor_.fail_at(kind, "input, output or const");
  }
  const auto is_index = [](char c) { return is_digit(c) || c == ','; };
  cursor_.expect(", shape index: {");
  cursor_.take_while(is_index);
  cursor_.expect('}');
  if (cursor_.take(", may-alias: {")) {
    cursor_.take_while(is_index);
    cursor_.expect('}');
  }
  cursor_.expect(']');
  operand.reg = dest.reg;
  operand.name = dest.name;
  if (operand.space == ListingOperand::Space::kHbm) pointers_[dest.name] = ListingSpace::kHbm;
  if (operand.space == ListingOperand::Space::kCmem) pointers_[dest.name] = ListingSpace::kCmem;
  listing_.kernel.operand_names.emplace_back(dest.reg, dest.name);
  listing_.operands.push_back(std::move(operand));
}

/// `%32 = inlined_call %s12_s0, %s13_s1 /* %fusion = fusion(%a.1, %b.1) */`
void ListingParser::parse_call() {
  ListingCall call;
  call.bundle = static_cast<std::uint32_t>(listing_.kernel.bundles.size());
  call.instruction = static_cast<std::uint32_t>(listing_.kernel.instructions.size());
  const char* place = cursor_.at();
  if (cursor_.peek() == '%') {
    do {
      skip_space();
      const Name operand = parse_register('s');
      call.operand_names.emplace_back(operand.reg, operand.name);
      comment_ = {};
      skip_space();
    } while (cursor_.take(','));
  }
  if (comment_.empty()) cursor_.fail_at(place, "the name of the kernel in a comment");
  parse_call_comment(call);
  Instruction instruction;
  instruction.opcode = Opcode::kCall;
  instruction.operands[0] = Operand::immediate_(static_cast<std::uint32_t>(listing_.calls.size()));
  append(instruction, {});
  listing_.calls.push_back(std::move(call));
}

/// " %fusion = fusion(%a.1, %b.1) " or " <late-initialization> "
void ListingParser::parse_call_comment(ListingCall& call) {
  std::string_view text = comment_;
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  if (!text.empty() && text.front() == '<') {
    call.callee = std::string(text);
    return;
  }
  const std::size_t equals = text.find(" = ");
  const std::size_t open = text.find('(', equals == std::string_view::npos ? 0 : equals);
  if (text.empty() || text.front() != '%' || equals == std::string_view::npos ||
      open == std::string_view::npos || text.back() != ')') {
    cursor_.fail_at(comment_.data(), "\"%name = opcode(operands)\" in the comment of a call");
  }
  call.callee = std::string(text.substr(1, equals - 1));
  call.hlo_opcode = std::string(text.substr(equals + 3, open - equals - 3));
  std::string_view operands = text.substr(open + 1, text.size() - open - 2);
  while (!operands.empty()) {
    const std::size_t comma = operands.find(',');
    std::string_view operand = operands.substr(0, comma);
    while (!operand.empty() && operand.front() == ' ') operand.remove_prefix(1);
    if (!operand.empty() && operand.front() == '%') operand.remove_prefix(1);
    call.operands.emplace_back(operand);
    if (comma == std::string_view::npos) break;
    operands.remove_prefix(comma + 1);
  }
}

}  // namespace tpu::isa
