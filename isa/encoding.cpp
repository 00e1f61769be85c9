#include "isa/encoding.h"

#include <algorithm>
#include <sstream>

#include "isa/bundle_check.h"
#include "isa/opcode_table.h"
#include "sim/base/error.h"

namespace tpu::isa {
namespace {

static_assert(kOpcodeCount <= 256, "the opcode field has 8 bits");

constexpr std::uint32_t kMaxInstructions = 31;
constexpr std::uint32_t kKernelMark = 0x6b757074;  ///< "tpuk".
constexpr std::uint32_t kKernelVersion = 1;

/// A field of the 64 bits of an instruction.
struct BitField {
  int first;
  int width;
  std::uint64_t mask() const { return (std::uint64_t{1} << width) - 1; }
  std::uint64_t put(std::uint64_t value) const { return (value & mask()) << first; }
  std::uint32_t get(std::uint64_t word) const {
    return static_cast<std::uint32_t>(word >> first & mask());
  }
};

constexpr BitField kOpcodeBits{0, 8};
constexpr BitField kUnitBits{8, 2};
constexpr BitField kGuardBits{10, 4};
constexpr BitField kGuardNegatedBit{14, 1};
constexpr BitField kGuardPresentBit{15, 1};
constexpr BitField kDestBits{16, 5};
constexpr BitField kOffsetBit{61, 1};
constexpr BitField kStrideBit{62, 1};
constexpr BitField kMaskBit{63, 1};
constexpr int kMaskRegisterOperand = 3;

constexpr BitField operand_bits(std::size_t index) { return {21 + 5 * static_cast<int>(index), 5}; }
constexpr BitField immediate_bit(std::size_t index) { return {41 + static_cast<int>(index), 1}; }
constexpr BitField negated_bit(std::size_t index) { return {45 + static_cast<int>(index), 1}; }
constexpr BitField base_bits(std::size_t index) { return {49 + 6 * static_cast<int>(index), 5}; }
constexpr BitField base_present_bit(std::size_t index) {
  return {54 + 6 * static_cast<int>(index), 1};
}

std::uint64_t encode_address(const Address& address, std::vector<std::uint32_t>& immediates) {
  std::uint64_t word = 0;
  for (std::size_t i = 0; i < address.base.size(); ++i) {
    if (address.base[i] == kNoRegister) continue;
    word |= base_bits(i).put(address.base[i]) | base_present_bit(i).put(1);
  }
  if (address.mask_register != kNoRegister) {
    word |= operand_bits(kMaskRegisterOperand).put(address.mask_register) |
            negated_bit(kMaskRegisterOperand).put(1);
  }
  if (address.offset != 0) {
    word |= kOffsetBit.put(1);
    immediates.push_back(static_cast<std::uint32_t>(address.offset));
  }
  if (address.sublane_stride != 1) {
    word |= kStrideBit.put(1);
    immediates.push_back(static_cast<std::uint32_t>(address.sublane_stride));
  }
  if (address.sublane_mask != 0xff || address.pattern != 0) {
    word |= kMaskBit.put(1);
    immediates.push_back(address.sublane_mask | address.pattern << 8);
  }
  return word;
}

std::uint64_t encode_instruction(const Instruction& in, std::vector<std::uint32_t>& immediates) {
  const auto problem = instruction_problem(in);
  TPU_CHECK(!problem, "instruction without an encoding: " << *problem);
  const OpcodeInfo& row = info(in.opcode);
  std::uint64_t word =
      kOpcodeBits.put(static_cast<std::uint64_t>(in.opcode)) | kUnitBits.put(in.unit);
  if (in.guard.predicate != kNoRegister) {
    word |= kGuardBits.put(in.guard.predicate) | kGuardNegatedBit.put(in.guard.negated) |
            kGuardPresentBit.put(1);
  }
  if (row.dest_file != 0) word |= kDestBits.put(in.dest);
  for (std::size_t i = 0; i < row.operand_count; ++i) {
    const Operand& operand = in.operands[i];
    if (operand.kind == Operand::Kind::kImmediate) {
      word |= immediate_bit(i).put(1);
      immediates.push_back(operand.immediate);
    } else {
      word |= operand_bits(i).put(operand.reg) | negated_bit(i).put(operand.negated);
    }
  }
  if (row.address != 0) word |= encode_address(in.address, immediates);
  return word;
}

/// Reads words one after another and refuses to run over the end.
class WordReader {
 public:
  WordReader(const std::vector<std::uint32_t>& words, const std::string& source)
      : words_(words), source_(source) {}

  bool at_end() const { return next_ == words_.size(); }
  std::size_t left() const { return words_.size() - next_; }
  std::uint32_t word(const char* what) {
    if (at_end()) refuse(std::string("expected ") + what + ", found the end");
    return words_[next_++];
  }
  std::uint64_t two_words(const char* what) {
    const std::uint64_t low = word(what);
    return std::uint64_t{word(what)} << 32 | low;
  }
  /// A number of elements of at least `words_each` words that have to follow.
  std::uint32_t count(const char* what, std::size_t words_each) {
    const std::uint32_t value = word(what);
    if (value > left() / words_each) {
      refuse(std::string("expected ") + what + " that fit the rest of the words, found " +
             std::to_string(value));
    }
    return value;
  }
  [[noreturn]] void refuse(const std::string& message) const {
    std::ostringstream text;
    text << source_ << ": word " << (next_ == 0 ? 0 : next_ - 1) << ": " << message;
    throw WorkloadError(text.str());
  }

 private:
  const std::vector<std::uint32_t>& words_;
  std::string source_;
  std::size_t next_ = 0;
};

class BundleDecoder {
 public:
  explicit BundleDecoder(WordReader& reader) : reader_(reader) {}

  void decode(Kernel& kernel) {
    const std::uint64_t header = reader_.two_words("the header of a bundle");
    const auto instructions = static_cast<std::uint32_t>(header & 31);
    immediates_left_ = static_cast<std::uint32_t>(header >> 5 & 255);
    if ((header >> 13 & 0x7ffff) != 0) reader_.refuse("expected 0 in the spare bits of a header");
    Bundle bundle;
    bundle.first_instruction = static_cast<std::uint32_t>(kernel.instructions.size());
    bundle.instruction_count = instructions;
    bundle.delay = static_cast<std::uint32_t>(header >> 32);
    std::vector<std::uint64_t> words(instructions);
    for (std::uint64_t& word : words) word = reader_.two_words("an instruction");
    for (std::uint64_t word : words) kernel.instructions.push_back(instruction(word));
    if (immediates_left_ != 0) {
      reader_.refuse("expected as many immediates as the instructions use, found " +
                     std::to_string(immediates_left_) + " more");
    }
    kernel.bundles.push_back(bundle);
  }

 private:
  std::uint32_t immediate() {
    if (immediates_left_ == 0) reader_.refuse("expected another immediate, found none");
    --immediates_left_;
    return reader_.word("an immediate");
  }

  Instruction instruction(std::uint64_t word) {
    Instruction in;
    if (kOpcodeBits.get(word) >= kOpcodeCount) {
      reader_.refuse("expected an opcode below " + std::to_string(kOpcodeCount) + ", found " +
                     std::to_string(kOpcodeBits.get(word)));
    }
    in.opcode = static_cast<Opcode>(kOpcodeBits.get(word));
    in.unit = static_cast<std::uint8_t>(kUnitBits.get(word));
    const OpcodeInfo& row = info(in.opcode);
    if (kGuardPresentBit.get(word) != 0) {
      in.guard.predicate = static_cast<std::uint8_t>(kGuardBits.get(word));
      in.guard.negated = kGuardNegatedBit.get(word) != 0;
    }
    if (row.dest_file != 0) in.dest = static_cast<std::uint8_t>(kDestBits.get(word));
    const std::uint32_t immediates_before = immediates_left_;
    std::vector<std::uint32_t> values;
    for (std::size_t i = 0; i < row.operand_count; ++i) {
      if (immediate_bit(i).get(word) != 0) {
        values.push_back(immediate());
        in.operands[i] = Operand::immediate_(values.back());
      } else {
        in.operands[i] = Operand::register_(static_cast<std::uint8_t>(operand_bits(i).get(word)),
                                            negated_bit(i).get(word) != 0);
      }
    }
    if (row.address != 0) address(word, in.address, values);
    if (auto problem = instruction_problem(in)) {
      reader_.refuse(opcode_text(in.opcode) + ": " + *problem);
    }
    std::vector<std::uint32_t> again;
    const std::uint64_t canonical = encode_instruction(in, again);
    if (canonical != word || again != values) {
      std::ostringstream text;
      text << "expected 0x" << std::hex << canonical << " for this " << row.text << ", found 0x"
           << word << std::dec << " (" << immediates_before - immediates_left_ << " immediates)";
      reader_.refuse(text.str());
    }
    return in;
  }

  void address(std::uint64_t word, Address& address, std::vector<std::uint32_t>& values) {
    for (std::size_t i = 0; i < address.base.size(); ++i) {
      if (base_present_bit(i).get(word) == 0) continue;
      address.base[i] = static_cast<std::uint8_t>(base_bits(i).get(word));
    }
    if (negated_bit(kMaskRegisterOperand).get(word) != 0) {
      address.mask_register =
          static_cast<std::uint8_t>(operand_bits(kMaskRegisterOperand).get(word));
    }
    const auto next = [&] {
      values.push_back(immediate());
      return values.back();
    };
    if (kOffsetBit.get(word) != 0) address.offset = static_cast<std::int32_t>(next());
    if (kStrideBit.get(word) != 0) address.sublane_stride = static_cast<std::int32_t>(next());
    if (kMaskBit.get(word) != 0) {
      const std::uint32_t value = next();
      address.sublane_mask = static_cast<std::uint8_t>(value & 0xff);
      address.pattern = value >> 8;
    }
  }

  WordReader& reader_;
  std::uint32_t immediates_left_ = 0;
};

void put_string(const std::string& text, std::vector<std::uint32_t>& words) {
  words.push_back(static_cast<std::uint32_t>(text.size()));
  for (std::size_t i = 0; i < text.size(); i += 4) {
    std::uint32_t word = 0;
    for (std::size_t j = 0; j < 4 && i + j < text.size(); ++j) {
      word |= std::uint32_t{static_cast<unsigned char>(text[i + j])} << 8 * j;
    }
    words.push_back(word);
  }
}

std::string take_string(WordReader& reader) {
  const std::uint32_t size = reader.word("the length of a name");
  if (size / 4 > reader.left()) reader.refuse("expected a name that fits the rest of the words");
  std::string text;
  for (std::uint32_t i = 0; i < size; i += 4) {
    const std::uint32_t word = reader.word("a name");
    for (std::uint32_t j = 0; j < 4; ++j) {
      const char c = static_cast<char>(word >> 8 * j & 0xff);
      if (i + j < size) {
        text += c;
      } else if (c != 0) {
        reader.refuse("expected 0 behind a name");
      }
    }
  }
  return text;
}

char take_file(WordReader& reader) {
  const std::uint32_t letter = reader.word("a register file");
  if (letter != 's' && letter != 'v' && letter != 'p' && letter != 'm') {
    reader.refuse("expected a register file s, v, p or m, found " + std::to_string(letter));
  }
  return static_cast<char>(letter);
}

std::uint8_t take_register(WordReader& reader, char file) {
  const std::uint32_t number = reader.word("a register");
  const std::uint32_t limit = file == 'p'   ? kPredicateRegisters
                              : file == 'm' ? kMaskRegisters
                                            : kScalarRegisters;
  if (number >= limit) {
    reader.refuse("expected a register below " + std::to_string(limit) + ", found " +
                  std::to_string(number));
  }
  return static_cast<std::uint8_t>(number);
}

Renaming take_renaming(WordReader& reader) {
  Renaming renaming;
  renaming.bundle = reader.word("a renaming");
  const std::uint32_t after = reader.word("a renaming");
  if (after > 1) reader.refuse("expected 0 or 1, found " + std::to_string(after));
  renaming.after = after != 0;
  renaming.file = take_file(reader);
  renaming.reg = take_register(reader, renaming.file);
  renaming.name = reader.word("a renaming");
  return renaming;
}

void put_names(const VirtualNames& names, std::vector<std::uint32_t>& words) {
  words.insert(words.end(), {names.dest, names.guard});
  words.insert(words.end(), names.operands.begin(), names.operands.end());
  words.insert(words.end(), names.base.begin(), names.base.end());
  words.push_back(names.mask_register);
}

VirtualNames take_names(WordReader& reader) {
  const auto next = [&] { return reader.word("a virtual name"); };
  VirtualNames names;
  names.dest = next();
  names.guard = next();
  for (std::uint32_t& name : names.operands) name = next();
  for (std::uint32_t& name : names.base) name = next();
  names.mask_register = next();
  return names;
}

}  // namespace

std::vector<std::uint32_t> encode_bundles(const Kernel& kernel) {
  std::vector<std::uint32_t> words;
  std::vector<std::uint32_t> immediates;
  const auto put = [&words](std::uint64_t value) {
    words.push_back(static_cast<std::uint32_t>(value));
    words.push_back(static_cast<std::uint32_t>(value >> 32));
  };
  for (const Bundle& bundle : kernel.bundles) {
    TPU_CHECK(bundle.instruction_count <= kMaxInstructions,
              kernel.name << ": a bundle of " << bundle.instruction_count << " instructions");
    immediates.clear();
    const std::size_t header = words.size();
    put(0);
    for (const Instruction* in = kernel.begin(bundle); in != kernel.end(bundle); ++in) {
      put(encode_instruction(*in, immediates));
    }
    TPU_CHECK(immediates.size() < 256, kernel.name << ": " << immediates.size() << " immediates");
    words[header] = bundle.instruction_count | static_cast<std::uint32_t>(immediates.size()) << 5;
    words[header + 1] = bundle.delay;
    words.insert(words.end(), immediates.begin(), immediates.end());
  }
  return words;
}

Kernel decode_bundles(const std::vector<std::uint32_t>& words, const std::string& source) {
  Kernel kernel;
  WordReader reader(words, source);
  BundleDecoder decoder(reader);
  while (!reader.at_end()) decoder.decode(kernel);
  return kernel;
}

std::vector<std::uint32_t> encode_kernel(const Kernel& kernel) {
  std::vector<std::uint32_t> words = {kKernelMark, kKernelVersion, table_fingerprint()};
  put_string(kernel.name, words);
  const std::vector<std::uint32_t> bundles = encode_bundles(kernel);
  words.push_back(static_cast<std::uint32_t>(bundles.size()));
  words.insert(words.end(), bundles.begin(), bundles.end());
  words.push_back(static_cast<std::uint32_t>(kernel.names.size()));
  for (const VirtualNames& names : kernel.names) put_names(names, words);
  words.push_back(static_cast<std::uint32_t>(kernel.renamings.size()));
  for (const Renaming& renaming : kernel.renamings) {
    words.insert(words.end(),
                 {renaming.bundle, renaming.after ? 1u : 0u,
                  static_cast<std::uint32_t>(renaming.file), renaming.reg, renaming.name});
  }
  words.push_back(static_cast<std::uint32_t>(kernel.operand_names.size()));
  for (const auto& [reg, name] : kernel.operand_names) words.insert(words.end(), {reg, name});
  return words;
}

Kernel decode_kernel(const std::vector<std::uint32_t>& words, const std::string& source) {
  WordReader reader(words, source);
  if (reader.word("the mark of a kernel") != kKernelMark) {
    reader.refuse("expected the mark of a kernel, found another word");
  }
  const std::uint32_t version = reader.word("the version");
  if (version != kKernelVersion) {
    reader.refuse("expected version " + std::to_string(kKernelVersion) + ", found " +
                  std::to_string(version) + ": compile the program again");
  }
  if (reader.word("the fingerprint of the opcode table") != table_fingerprint()) {
    reader.refuse(
        "expected code for this instruction set, found code for an older or newer one: "
        "compile the program again");
  }
  const std::string name = take_string(reader);
  const std::uint32_t bundle_words = reader.count("bundles", 1);
  const auto first = words.end() - static_cast<std::ptrdiff_t>(reader.left());
  Kernel kernel = decode_bundles({first, first + bundle_words}, source + ", bundles of " + name);
  kernel.name = name;
  for (std::uint32_t i = 0; i < bundle_words; ++i) reader.word("bundles");
  kernel.names.resize(reader.count("virtual names", 9));
  if (!kernel.names.empty() && kernel.names.size() != kernel.instructions.size()) {
    reader.refuse("expected names for " + std::to_string(kernel.instructions.size()) +
                  " instructions, found " + std::to_string(kernel.names.size()));
  }
  for (VirtualNames& names : kernel.names) names = take_names(reader);
  kernel.renamings.resize(reader.count("renamings", 5));
  for (Renaming& renaming : kernel.renamings) renaming = take_renaming(reader);
  const auto earlier = [](const Renaming& a, const Renaming& b) { return a.bundle < b.bundle; };
  if (!std::is_sorted(kernel.renamings.begin(), kernel.renamings.end(), earlier)) {
    reader.refuse("expected renamings in the order of their bundles, found another");
  }
  kernel.operand_names.resize(reader.count("operand names", 2));
  for (auto& [reg, operand_name] : kernel.operand_names) {
    reg = take_register(reader, 's');
    operand_name = reader.word("an operand name");
  }
  if (!reader.at_end()) {
    reader.refuse("expected the end of the kernel, found " + std::to_string(reader.left()) +
                  " more words");
  }
  return kernel;
}

}  // namespace tpu::isa
