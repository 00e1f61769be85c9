#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "isa/listing/listing_parser.h"
#include "isa/vector_arithmetic.h"
#include "sim/base/error.h"

namespace tpu::isa {
namespace {

constexpr std::uint32_t kMaxName = 1u << 28;
/// A word of SMEM below those of the runtime: the program registry of the top-level program has no
/// printed address, and nothing else lies here.
constexpr std::uint32_t kRegistryWord = 0x3f00 / 4 - 1;

constexpr std::array<bool, 256> opcode_characters() {
  std::array<bool, 256> found{};
  for (int c = 'a'; c <= 'z'; ++c) found[static_cast<std::size_t>(c)] = true;
  for (int c = '0'; c <= '9'; ++c) found[static_cast<std::size_t>(c)] = true;
  found['.'] = found['_'] = found['-'] = true;
  return found;
}

bool is_opcode_character(char c) {
  static constexpr std::array<bool, 256> kFound = opcode_characters();
  return kFound[static_cast<unsigned char>(c)];
}

int register_count(char file) {
  switch (file) {
    case 's':
      return kScalarRegisters;
    case 'v':
      return kVectorRegisters;
    case 'p':
      return kPredicateRegisters;
    default:
      return kMaskRegisters;
  }
}

/// Whether an operand with this letter of a signature may be a register.
bool takes_register(char letter) {
  return letter == 's' || letter == 'v' || letter == 'p' || letter == 'm';
}

/// "s", "v", "p" or "vm" at the cursor as the letter of the register file; 0 for none.
[[gnu::always_inline]] inline char take_file(TextCursor& cursor) {
  const char file = cursor.peek();
  if (file != 's' && file != 'v' && file != 'p') return 0;
  cursor.advance(1);
  return file == 'v' && cursor.take('m') ? 'm' : file;
}

/// Where the address that a scalar_lea computes leads.
ListingSpace space_of_pointer(Opcode scalar_lea) {
  switch (scalar_lea) {
    case Opcode::kScalarLeaVmem:
      return ListingSpace::kVmem;
    case Opcode::kScalarLeaSmem:
      return ListingSpace::kSmem;
    case Opcode::kScalarLeaSflag:
      return ListingSpace::kSyncFlag;
    case Opcode::kScalarLeaCmem:
      return ListingSpace::kCmem;
    default:
      return ListingSpace::kHbm;
  }
}

/// DMAs that have a form whose strides are constants, and one whose strides stand in SMEM.
struct DmaWithGaps {
  ListingSpace from, to;
  Opcode plain, strided, general;
};
constexpr std::array<DmaWithGaps, 6> kDmasWithGaps{{
    {ListingSpace::kHbm, ListingSpace::kVmem, Opcode::kDmaHbmToVmem, Opcode::kDmaHbmToVmemStrided,
     Opcode::kDmaGeneralHbmToVmem},
    {ListingSpace::kVmem, ListingSpace::kHbm, Opcode::kDmaVmemToHbm, Opcode::kDmaVmemToHbmStrided,
     Opcode::kDmaGeneralVmemToHbm},
    {ListingSpace::kCmem, ListingSpace::kVmem, Opcode::kDmaCmemToVmem,
     Opcode::kDmaCmemToVmemStrided, Opcode::kDmaGeneralCmemToVmem},
    {ListingSpace::kVmem, ListingSpace::kCmem, Opcode::kDmaVmemToCmem,
     Opcode::kDmaVmemToCmemStrided, Opcode::kDmaGeneralVmemToCmem},
    {ListingSpace::kHbm, ListingSpace::kCmem, Opcode::kDmaHbmToCmem, Opcode::kDmaHbmToCmemStrided,
     Opcode::kDmaGeneralHbmToCmem},
    {ListingSpace::kCmem, ListingSpace::kHbm, Opcode::kDmaCmemToHbm, Opcode::kDmaCmemToHbmStrided,
     Opcode::kDmaGeneralCmemToHbm},
}};

}  // namespace

const char* register_kind(char file) {
  switch (file) {
    case 's':
      return "a scalar register (%sN_sM)";
    case 'v':
      return "a vector register (%vN_vM)";
    case 'p':
      return "a predicate register (%pN_pM)";
    default:
      return "a mask register (%vmN_vmM)";
  }
}

ListingParser::Name ListingParser::parse_name() {
  const char* place = cursor_.at();
  Name name;
  if (!cursor_.take('%')) cursor_.fail("a name (%...)");
  const char file = take_file(cursor_);
  name.name = static_cast<std::uint32_t>(cursor_.decimal("the number of a name", kMaxName));
  if (file == 0) return name;
  name.file = file;
  cursor_.expect('_');
  const char* physical = cursor_.at();
  if (take_file(cursor_) != file) cursor_.fail_at(place, register_kind(file));
  const std::uint64_t number = cursor_.decimal("the number of a register");
  if (number >= static_cast<std::uint64_t>(register_count(file))) {
    cursor_.fail_at(physical, "a register below " + std::to_string(register_count(file)));
  }
  name.reg = static_cast<std::uint8_t>(number);
  return name;
}

ListingParser::Name ListingParser::parse_register(char file) {
  const char* place = cursor_.at();
  if (cursor_.peek() != '%') cursor_.fail(register_kind(file));
  const Name name = parse_name();
  if (name.file != file) cursor_.fail_at(place, register_kind(file));
  return name;
}

/// Without the type of an 8-bit float (`vor.u32.f8e4m3fn`, `.f8e5m2` and others): what joins sign
/// and magnitude says what the bits mean, and does to them what it does to any others.
static std::string_view without_float8(std::string_view text) {
  return text.substr(0, text.find(".f8e"));
}

/// `%dest = opcode operands`
void ListingParser::parse_instruction() {
  const Name dest = parse_name();
  cursor_.expect(" = ");
  const char* place = cursor_.at();
  const std::string_view text = cursor_.take_while(is_opcode_character);
  skip_space();
  define(dest.name);
  if (text == "vnop") return;  // Half of what is no instruction.
  const auto found = find_opcode(without_float8(text));
  if (!found) {
    if (text == "dma.general") return parse_general_dma(dest);
    if (parse_pseudo(dest, text, place)) return;
    return skip_unknown(text, place);
  }
  const OpcodeInfo& row = info(found->opcode);
  if (dest.file != row.dest_file) {
    cursor_.refuse_at(place, "expected " +
                                 std::string(row.dest_file == 0 ? "no result register"
                                                                : register_kind(row.dest_file)) +
                                 " as the result of \"" + std::string(text) + "\"");
  }
  if (found->opcode == Opcode::kSmov) return parse_smov(dest);
  if (found->opcode == Opcode::kCall) return parse_call();
  parse_by_signature(dest, row, found->unit);
}

/// Notes an instruction that the table lacks and goes on behind it.
void ListingParser::skip_unknown(std::string_view text, const char* place) {
  const auto known = std::find_if(unknown_.begin(), unknown_.end(),
                                  [&](const auto& other) { return other.text == text; });
  if (known != unknown_.end()) {
    ++known->count;
  } else {
    unknown_.push_back({std::string(text), cursor_.location(place), "", 1, 1});
  }
  while (!cursor_.at_end() && !cursor_.looking_at(";;") && cursor_.peek() != '}') {
    if (cursor_.looking_at("/*")) {
      skip_comment();
    } else {
      cursor_.advance(1);
    }
  }
}

/// `smov a`, `smov (p), a`, or a selection: `smov (p, a), b` is p ? b : a.
void ListingParser::parse_smov(const Name& dest) {
  Instruction instruction;
  VirtualNames names;
  std::vector<HbmReference> references;
  instruction.opcode = Opcode::kSmov;
  instruction.dest = dest.reg;
  names.dest = dest.name;
  if (cursor_.take('(')) {
    const bool negated = cursor_.take('!');
    const Name predicate = parse_register('p');
    if (cursor_.take(',')) {
      skip_space();
      const ParsedOperand otherwise = parse_operand('s');
      cursor_.expect(')');
      skip_space();
      cursor_.expect(',');
      skip_space();
      const ParsedOperand then = parse_operand('s');
      if (otherwise.hbm_allocation || then.hbm_allocation) {
        cursor_.fail("a selection without addresses of HBM");
      }
      instruction.opcode = Opcode::kScalarSelect;
      instruction.operands = {Operand::register_(predicate.reg, negated), then.operand,
                              otherwise.operand, Operand{}};
      names.operands = {predicate.name, then.name, otherwise.name, 0};
      return append(instruction, names);
    }
    cursor_.expect(')');
    instruction.guard = {predicate.reg, negated};
    names.guard = predicate.name;
    skip_space();
    cursor_.expect(',');
    skip_space();
  }
  parse_operands(info(Opcode::kSmov), instruction, names, references);
  if (instruction.guard.predicate == kNoRegister && references.empty() &&
      instruction.operands[0].kind == Operand::Kind::kImmediate) {
    constants_[dest.name] = instruction.operands[0].immediate;
  }
  listing_.hbm_references.insert(listing_.hbm_references.end(), references.begin(),
                                 references.end());
  append(instruction, names);
}

void ListingParser::parse_by_signature(const Name& dest, const OpcodeInfo& row, std::uint8_t unit) {
  Instruction instruction;
  VirtualNames names;
  std::vector<HbmReference> references;
  instruction.opcode = row.opcode;
  instruction.unit = unit;
  instruction.dest = dest.reg;
  names.dest = dest.name;
  if (cursor_.take("[thread:$0]")) skip_space();
  const bool transposes = row.queue == Queue::kTranspose && !row.pops;
  if (transposes) parse_transpose_position(instruction);
  bool never = false;
  if (row.address != 0) {
    parse_address(row.address, instruction, names);
    skip_space();
  }
  if (cursor_.peek() == '(') {
    never = parse_guard(instruction, names);
    skip_space();
    if (cursor_.take(',')) skip_space();
  }
  if (row.pops && cursor_.peek() == '%') names.operands[0] = parse_queue_name();
  if (row.opcode == Opcode::kVperm) {
    names.operands[1] = parse_queue_name();
    skip_space();
    cursor_.expect(',');
    skip_space();
  }
  if (row.opcode == Opcode::kSbrRel) {
    const char* place = cursor_.at();
    cursor_.expect("target = $region");
    const std::uint64_t region = cursor_.decimal("the number of a region");
    branches_.push_back({static_cast<std::uint32_t>(listing_.kernel.instructions.size()),
                         static_cast<std::uint32_t>(region), place,
                         static_cast<std::uint32_t>(listing_.kernel.bundles.size())});
    if (never) cursor_.fail("a branch that can be taken");
  } else {
    parse_operands(row, instruction, names, references);
  }
  if (never) return;
  listing_.hbm_references.insert(listing_.hbm_references.end(), references.begin(),
                                 references.end());
  append(instruction, names);
}

/// The name of the push whose result a pop takes, or of the pattern that a permutation uses.
std::uint32_t ListingParser::parse_queue_name() {
  const char* place = cursor_.at();
  const Name push = parse_name();
  if (push.file != 0) cursor_.fail_at(place, "the name of a push (%N)");
  return push.name;
}

/// "[3/16]" of a transpose: the number of this push and of all.
void ListingParser::parse_transpose_position(Instruction& instruction) {
  const char* place = cursor_.at();
  cursor_.expect('[');
  const std::uint64_t number = cursor_.decimal("the number of a push", 16);
  cursor_.expect('/');
  const std::uint64_t count = cursor_.decimal("a number of pushes", 16);
  cursor_.expect(']');
  if (number == 0 || number > count) cursor_.fail_at(place, "[i/n] with 1 <= i <= n");
  skip_space();
  for (const char* remark : {"(short)", "(narrow)"}) {  // Of the unit's work, not of its result.
    if (cursor_.take(remark)) skip_space();
  }
  instruction.operands[2] = Operand::immediate_(static_cast<std::uint32_t>(number));
  instruction.operands[3] = Operand::immediate_(static_cast<std::uint32_t>(count));
  skip_space();
}

/// "(%p3_p1)" or "(!%p3_p1)" or "(0)"
bool ListingParser::parse_guard(Instruction& instruction, VirtualNames& names) {
  cursor_.expect('(');
  if (cursor_.take("0)")) return true;
  instruction.guard.negated = cursor_.take('!');
  const Name predicate = parse_register('p');
  instruction.guard.predicate = predicate.reg;
  names.guard = predicate.name;
  cursor_.expect(')');
  return false;
}

void ListingParser::parse_operands(const OpcodeInfo& row, Instruction& instruction,
                                   VirtualNames& names, std::vector<HbmReference>& references) {
  for (std::uint8_t k = 0; k < row.operand_count; ++k) {
    if (instruction.operands[k].kind != Operand::Kind::kNone) continue;  // Read before: [i/n].
    if (k > 0) {
      skip_space();
      cursor_.expect(',');
    }
    skip_space();
    const char file = row.operand_files[k];
    if (file != 'p' && cursor_.peek() == '%' && takes_register(file)) {  // Most of them.
      const Name name = parse_register(file);
      instruction.operands[k] = Operand::register_(name.reg);
      names.operands[k] = name.name;
      continue;
    }
    const ParsedOperand parsed = parse_operand(file);
    instruction.operands[k] = parsed.operand;
    if (parsed.space && row.dest_file == 's') pointers_[names.dest] = *parsed.space;
    names.operands[k] = parsed.name;
    if (parsed.hbm_allocation) {
      references.push_back({static_cast<std::uint32_t>(listing_.kernel.instructions.size()), k,
                            *parsed.hbm_allocation});
    }
  }
  if (row.unit == UnitKind::kDma) parse_strides(instruction);
  const bool address =
      (row.opcode >= Opcode::kScalarLeaHbm && row.opcode <= Opcode::kScalarLeaSflag) ||
      row.opcode == Opcode::kScalarLeaCmem;
  if (!address) return;
  pointers_[names.dest] = space_of_pointer(row.opcode);
  skip_space();
  if (cursor_.peek() != '[') return;  // A remark: the allocation into which the address points.
  cursor_.advance(1);
  parse_allocation_number();
  cursor_.expect(']');
}

/// `, /*src_stride=*/%s5_s1, /*dst_stride=*/%s6_s2, /*steps_per_stride=*/%s5_s1` behind a DMA:
/// granules from run to run of the source and of the destination, granules of a run. Runs as long
/// as both strides leave no gaps.
void ListingParser::parse_strides(Instruction& instruction) {
  skip_space();
  if (!cursor_.take(',')) return;
  skip_space();
  const char* place = cursor_.at();
  std::array<ParsedOperand, 3> strides;
  for (std::size_t i = 0; i < strides.size(); ++i) {
    skip_space();
    if (i > 0) cursor_.expect(',');
    skip_space();
    strides[i] = parse_operand('s');
  }
  const auto same = [&](const ParsedOperand& other) {
    return other.operand == strides[0].operand && other.name == strides[0].name;
  };
  if (same(strides[1]) && same(strides[2])) return;
  std::array<std::uint32_t, 3> granules{};
  for (std::size_t i = 0; i < strides.size(); ++i) {
    const auto constant = constants_.find(strides[i].name);
    const bool number = strides[i].operand.kind == Operand::Kind::kImmediate;
    if (!number && constant == constants_.end()) {
      cursor_.refuse_at(place, "expected strides of a DMA that are constants, found a register");
    }
    granules[i] = number ? strides[i].operand.immediate : constant->second;
  }
  if (granules[0] == granules[2] && granules[1] == granules[2]) return;
  constexpr std::uint32_t kMost = 0xffff;
  const auto with_gaps =
      std::find_if(kDmasWithGaps.begin(), kDmasWithGaps.end(),
                   [&](const DmaWithGaps& each) { return each.plain == instruction.opcode; });
  if (with_gaps == kDmasWithGaps.end()) {
    cursor_.refuse_at(place,
                      "expected a DMA without gaps (source stride, destination stride and steps "
                      "per stride the same), found one with gaps, which is modelled between VMEM, "
                      "CMEM and HBM");
  }
  instruction.opcode = with_gaps->strided;
  if (*std::max_element(granules.begin(), granules.end()) > kMost || granules[2] == 0) {
    cursor_.refuse_at(place, "expected strides below 65536 granules, and runs of at least one");
  }
  instruction.address.offset = static_cast<std::int32_t>(granules[0]);
  instruction.address.sublane_stride = static_cast<std::int32_t>(granules[1]);
  instruction.address.pattern = granules[2];
}

/// A register with an address, and of which memory.
ListingSpace ListingParser::parse_pointer(Operand& operand, std::uint32_t& name) {
  skip_space();
  const char* place = cursor_.at();
  const ParsedOperand parsed = parse_operand('s');
  operand = parsed.operand;
  name = parsed.name;
  if (parsed.space && !parsed.hbm_allocation) return *parsed.space;
  const auto second = second_names_.find(parsed.name);
  const auto found = pointers_.find(second == second_names_.end() ? parsed.name : second->second);
  if (found == pointers_.end()) {
    cursor_.refuse_at(place,
                      "expected a register with an address: of an operand of this kernel, an "
                      "allocation or a scalar_lea");
  }
  return found->second;
}

/// `dma.general (%p1_p0), /*src=*/%s1_s1, /*size_in_granules=*/392, /*dst=*/%s2_s2,
/// /*dst_syncflagno=*/%s3_s3, /*src_syncflagno=*/%s4_s4, /*stridedescaddr=*/[#allocation8],
/// /*overrides=*/%s5_s5, /*dst_syncflagno_1=*/0`: the source's flag is a dummy, the overrides name
/// the core itself. From VMEM to VMEM it goes to another core, which the overrides name; the
/// source's flag rises when the data has left, and no listing writes strides.
void ListingParser::parse_general_dma(const Name& dest) {
  const char* place = cursor_.at();
  Instruction instruction;
  VirtualNames names;
  if (dest.file != 0) cursor_.fail_at(place, "no result register");
  bool never = false;
  if (cursor_.take("[thread:$0]")) skip_space();
  if (cursor_.peek() == '(') {
    never = parse_guard(instruction, names);
    skip_space();
    cursor_.expect(',');
  }
  const auto next = [&] {
    cursor_.expect(',');
    skip_space();
    return parse_operand('s');
  };
  const ListingSpace from = parse_pointer(instruction.operands[0], names.operands[0]);
  const ParsedOperand granules = next();
  cursor_.expect(',');
  const ListingSpace to = parse_pointer(instruction.operands[2], names.operands[2]);
  const ParsedOperand flag = next();
  const ParsedOperand source_flag = next();
  const char* words_place = cursor_.at();
  const ParsedOperand words = next();
  if (words.operand.kind != Operand::Kind::kImmediate || words.hbm_allocation) {
    cursor_.refuse_at(words_place, "expected an allocation of SMEM with the strides of the DMA");
  }
  const ParsedOperand overrides = next();
  const ParsedOperand last = next();
  if (!(last.operand == Operand::immediate_(0))) {
    cursor_.refuse_at(place, "expected a DMA with one sync flag of its destination, found two");
  }
  const auto with_gaps =
      std::find_if(kDmasWithGaps.begin(), kDmasWithGaps.end(),
                   [&](const DmaWithGaps& each) { return each.from == from && each.to == to; });
  const bool to_other_core = from == ListingSpace::kVmem && to == ListingSpace::kVmem;
  if (with_gaps == kDmasWithGaps.end() && !to_other_core) {
    cursor_.refuse_at(place, "expected a dma.general between VMEM, CMEM and HBM, found one from " +
                                 std::string(to_string(from)) + " to " + to_string(to) +
                                 ", which is not modelled");
  }
  if (to_other_core) {
    if (words.operand.immediate != 0) {
      cursor_.refuse_at(words_place,
                        "expected a dma.general from VMEM to VMEM without strides (an allocation "
                        "at the address 0), found strides");
    }
    set_far_end(instruction, names, {source_flag, overrides}, place);
  } else {
    instruction.opcode = with_gaps->general;
    instruction.address.offset = static_cast<std::int32_t>(words.operand.immediate);
  }
  instruction.operands[1] = granules.operand;
  names.operands[1] = granules.name;
  instruction.operands[3] = flag.operand;
  names.operands[3] = flag.name;
  if (!never) append(instruction, names);
}

/// The flag of this core and the word that names the other, as the registers of a DMA.
void ListingParser::set_far_end(Instruction& instruction, VirtualNames& names,
                                const std::array<ParsedOperand, 2>& words, const char* place) {
  instruction.opcode = Opcode::kDmaGeneralVmemToVmem;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i].operand.kind != Operand::Kind::kRegister) {
      cursor_.refuse_at(place,
                        "expected the source's sync flag and the overrides of a dma.general from "
                        "VMEM to VMEM in registers, found a number");
    }
    instruction.address.base[i] = words[i].operand.reg;
    names.base[i] = words[i].name;
  }
}

ListingParser::ParsedOperand ListingParser::parse_operand(char letter) {
  ParsedOperand parsed;
  const char* place = cursor_.at();
  const char file = takes_register(letter) ? letter : '\0';
  const bool negated = letter == 'p' && cursor_.take('!');
  if (cursor_.peek() == '%' && file != 0) {
    const Name name = parse_register(file);
    parsed.operand = Operand::register_(name.reg, negated);
    parsed.name = name.name;
    return parsed;
  }
  if (negated) cursor_.fail(register_kind('p'));
  if (letter == 's' && cursor_.peek() == '[') return parse_scalar_allocation();
  const bool number = is_digit(cursor_.peek()) || cursor_.peek() == '-' ||
                      cursor_.looking_at("inf") || cursor_.looking_at("nan");
  if (!number) {
    cursor_.fail(file == 0 ? std::string("a number")
                           : std::string(register_kind(file)) + " or a number");
  }
  std::uint32_t value = parse_literal();
  if (letter == 'v' && cursor_.peek() == '|') value = parse_packed_literal(value);
  if ((letter == 'p' || letter == 'm') && value > 1) {
    cursor_.fail_at(place, std::string(register_kind(file)) + ", 0 or 1");
  }
  parsed.operand = Operand::immediate_(value);
  return parsed;
}

/// "[#allocation3]" or "[#allocation3 + $0x10]" as a number.
ListingParser::ParsedOperand ListingParser::parse_scalar_allocation() {
  ParsedOperand parsed;
  const char* place = cursor_.at();
  cursor_.expect('[');
  const Allocation& allocation = parse_allocation_number();
  std::uint32_t address = address_of(allocation, place);
  if (cursor_.take(" + $")) {
    address += static_cast<std::uint32_t>(cursor_.hexadecimal("an offset"));
  } else if (cursor_.take(" - $")) {
    address -= static_cast<std::uint32_t>(cursor_.hexadecimal("an offset"));
  }
  cursor_.expect(']');
  parsed.operand = Operand::immediate_(address);
  parsed.space = allocation.space;
  if (allocation.space == ListingSpace::kHbm) parsed.hbm_allocation = allocation.number;
  return parsed;
}

/// "#allocation3" or "#allocation3_spill"
const Allocation& ListingParser::parse_allocation_number() {
  const char* place = cursor_.at();
  cursor_.expect("#allocation");
  const auto number = static_cast<std::uint32_t>(cursor_.decimal("the number of an allocation"));
  const bool spill = cursor_.take("_spill");
  const Allocation* allocation = packed_.find(number);
  if (allocation == nullptr || allocation->spill != spill) {
    cursor_.refuse_at(place, "expected an allocation that " + packed_.file() +
                                 " lists, found #allocation" + std::to_string(number) +
                                 (spill ? "_spill" : ""));
  }
  return *allocation;
}

/// In the unit of its memory; HBM: 0, the linker knows the place.
std::uint32_t ListingParser::address_of(const Allocation& allocation, const char* place) const {
  if (allocation.space == ListingSpace::kHbm) return 0;
  if (!allocation.offset) {
    if (allocation.space == ListingSpace::kSmem && allocation.tag == "Program registry") {
      return kRegistryWord;
    }
    cursor_.refuse_at(place, "expected the offset of #allocation" +
                                 std::to_string(allocation.number) + " in " + packed_.file() +
                                 ", found none");
  }
  const bool rows =
      allocation.space == ListingSpace::kVmem || allocation.space == ListingSpace::kCmem;
  const std::uint32_t unit = rows ? kVmemRowBytes : 4;
  const std::uint64_t address = *allocation.offset / unit;
  if (*allocation.offset % unit != 0 || address > 0x7fffffff) {
    cursor_.refuse_at(place, "expected #allocation" + std::to_string(allocation.number) +
                                 " at a multiple of " + std::to_string(unit) + " bytes, found " +
                                 std::to_string(*allocation.offset));
  }
  std::uint32_t base = 0;
  if (!allocation.fixed && allocation.space == ListingSpace::kSmem) base = placement_.smem_word;
  if (!allocation.fixed && allocation.space == ListingSpace::kSyncFlag) base = placement_.sync_flag;
  return static_cast<std::uint32_t>(address) + base;
}

/// An integer below 2^32 (or above -2^31), or an fp32 number in shortest decimal form: its bits.
std::uint32_t ListingParser::parse_literal() {
  const char* begin = cursor_.at();
  const bool negative = cursor_.take('-');
  float value = 0;
  if (cursor_.take("inf")) {
    value = std::numeric_limits<float>::infinity();
  } else if (cursor_.take("nan")) {
    value = std::numeric_limits<float>::quiet_NaN();
  } else {
    const char* c = cursor_.at();
    while (c != cursor_.end() && is_digit(*c)) ++c;
    if (c == cursor_.end() || (*c != '.' && *c != 'e')) {
      const std::uint64_t limit = negative ? 0x80000000u : 0xffffffffu;
      const auto integer = static_cast<std::uint32_t>(cursor_.decimal("a number", limit));
      return negative ? ~integer + 1 : integer;
    }
    if (cursor_.take_number(value) != std::errc{}) {
      cursor_.fail_at(begin, "a number that fp32 can hold");
    }
  }
  if (negative) value = -value;
  std::uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

/// `-inf|-inf`: two fp32 numbers as bf16 in one word, as `vpack.i.bf16` of them makes it. Listings
/// seen have equal halves; that the first is the high one, as with vpack's operands, is assumed.
std::uint32_t ListingParser::parse_packed_literal(std::uint32_t high) {
  cursor_.expect('|');
  const std::uint32_t low = parse_literal();
  return round_to_bf16(high) | round_to_bf16(low) >> 16;
}

/// `[vmem:[%s3_s1 + $0x8] ss:$-1 sm:$0xff]` or `[smem:[#allocation3]]`
void ListingParser::parse_address(char letter, Instruction& instruction, VirtualNames& names) {
  const ListingSpace space = letter == 'A'   ? ListingSpace::kVmem
                             : letter == 'a' ? ListingSpace::kSmem
                                             : ListingSpace::kCmem;
  cursor_.expect(letter == 'A' ? "[vmem:[" : letter == 'a' ? "[smem:[" : "[cmem:[");
  parse_address_terms(space, instruction, names);
  cursor_.expect(']');
  if (letter != 'a') parse_address_options(instruction, names);
  cursor_.expect(']');
}

void ListingParser::parse_address_terms(ListingSpace space, Instruction& instruction,
                                        VirtualNames& names) {
  Address& address = instruction.address;
  std::int64_t offset = 0;
  std::size_t bases = 0;
  bool minus = false;
  while (true) {
    const char* place = cursor_.at();
    if (cursor_.take('$')) {
      const auto value = static_cast<std::int64_t>(cursor_.hexadecimal("an offset"));
      offset += minus ? -value : value;
    } else if (minus) {
      cursor_.fail("a number ($0x...) to subtract");
    } else if (cursor_.peek() == '#') {
      const Allocation& allocation = parse_allocation_number();
      if (allocation.space != space) {
        cursor_.refuse_at(place, "expected an allocation in " + std::string(to_string(space)) +
                                     ", found one in " + to_string(allocation.space));
      }
      offset += address_of(allocation, place);
    } else {
      const Name base = parse_register('s');
      if (bases == address.base.size()) cursor_.fail_at(place, "at most two registers");
      address.base[bases] = base.reg;
      names.base[bases++] = base.name;
    }
    minus = cursor_.looking_at(" - ");
    if (!minus && !cursor_.looking_at(" + ")) break;
    cursor_.advance(3);
  }
  constexpr std::int64_t kLimit = std::int64_t{1} << 31;
  if (offset < -kLimit || offset >= kLimit) cursor_.fail("an offset of 32 bits");
  address.offset = static_cast<std::int32_t>(offset);
}

void ListingParser::parse_address_options(Instruction& instruction, VirtualNames& names) {
  Address& address = instruction.address;
  constexpr std::uint64_t kMaxStride = 1u << 20;
  if (cursor_.take(" ss:$")) {
    const bool negative = cursor_.take('-');
    const auto stride = static_cast<std::int32_t>(cursor_.decimal("a stride", kMaxStride));
    address.sublane_stride = negative ? -stride : stride;
  }
  if (cursor_.take(" sm:$")) {
    address.sublane_mask =
        static_cast<std::uint8_t>(cursor_.hexadecimal("a mask of sublanes", 0xff));
  } else if (cursor_.take(" sm:")) {
    const Name mask = parse_register('s');
    address.mask_register = mask.reg;
    names.mask_register = mask.name;
  }
  if (cursor_.take(" pattern:$")) {
    address.pattern = parse_pattern();
  }
}

/// A digit for each sublane, that of sublane 0 last.
std::uint32_t ListingParser::parse_pattern() {
  if (!placement_.hexadecimal_patterns) {
    return static_cast<std::uint32_t>(
        cursor_.hexadecimal("a shuffle pattern of eight octal digits", 0xffffff));
  }
  const char* place = cursor_.at();
  const auto digits = static_cast<std::uint32_t>(
      cursor_.hexadecimal("a shuffle pattern of eight hexadecimal digits", 0xffffffff));
  std::uint32_t pattern = 0;
  for (int sublane = 0; sublane < kSublanes; ++sublane) {
    const std::uint32_t row = digits >> 4 * sublane & 0xf;
    if (row >= kSublanes) {
      cursor_.refuse_at(place,
                        "expected rows below 8 in a shuffle pattern, found " + std::to_string(row));
    }
    pattern |= row << 3 * sublane;
  }
  return pattern;
}

}  // namespace tpu::isa
