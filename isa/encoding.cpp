#include "isa/encoding.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <sstream>

#include "isa/bundle_check.h"
#include "isa/opcode_table.h"
#include "sim/base/error.h"

namespace tpu::isa {
namespace {

static_assert(kOpcodeCount <= 256, "the opcode field has 8 bits");

constexpr std::uint32_t kMaxInstructions = 31;
constexpr std::uint32_t kMaxImmediates = 7;  ///< Four operands, offset, stride, mask and pattern.

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

/// Those of one instruction.
struct Immediates {
  std::array<std::uint32_t, kMaxImmediates> values;
  std::uint32_t count = 0;

  void push_back(std::uint32_t value) { values[count++] = value; }
  const std::uint32_t* begin() const { return values.data(); }
  const std::uint32_t* end() const { return values.data() + count; }
  friend bool operator==(const Immediates& a, const Immediates& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }
};

std::uint64_t encode_address(const Address& address, Immediates& immediates) {
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

/// Of an instruction in which instruction_problem() finds nothing.
std::uint64_t bits_of(const Instruction& in, Immediates& immediates) {
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

std::uint64_t encode_instruction(const Instruction& in, Immediates& immediates) {
  const auto problem = instruction_problem(in);
  TPU_CHECK(!problem, "instruction without an encoding: " << *problem);
  return bits_of(in, immediates);
}

}  // namespace

/// Reads words one after another, low byte first, and refuses to run over the end.
class WordReader {
 public:
  WordReader(const std::uint8_t* words, std::size_t count, const std::string& source)
      : words_(words), count_(count), source_(source) {}
  WordReader(const std::vector<std::uint32_t>& words, const std::string& source)
      : WordReader(reinterpret_cast<const std::uint8_t*>(words.data()), words.size(), source) {}

  bool at_end() const { return next_ == count_; }
  std::size_t left() const { return count_ - next_; }
  std::uint32_t word(const char* what) {
    if (at_end()) refuse(std::string("expected ") + what + ", found the end");
    std::uint32_t word = 0;
    std::memcpy(&word, words_ + 4 * next_++, sizeof(word));
    return word;
  }
  std::uint64_t two_words(const char* what) {
    const std::uint64_t low = word(what);
    return std::uint64_t{word(what)} << 32 | low;
  }
  [[noreturn]] void refuse(const std::string& message) const {
    std::ostringstream text;
    text << source_ << ": word " << (next_ == 0 ? 0 : next_ - 1) << ": " << message;
    throw WorkloadError(text.str());
  }

 private:
  const std::uint8_t* words_;
  std::size_t count_;
  std::string source_;
  std::size_t next_ = 0;
};

class BundleDecoder {
 public:
  explicit BundleDecoder(WordReader& reader) : reader_(reader) {}

  /// An instruction outside of a bundle, its immediates behind it.
  Instruction decode_alone() {
    immediates_left_ = kMaxImmediates;
    return instruction(reader_.two_words("an instruction"));
  }

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
    Immediates values;
    for (std::size_t i = 0; i < row.operand_count; ++i) {
      if (immediate_bit(i).get(word) != 0) {
        in.operands[i] = Operand::immediate_(immediate());
        values.push_back(in.operands[i].immediate);
      } else {
        in.operands[i] = Operand::register_(static_cast<std::uint8_t>(operand_bits(i).get(word)),
                                            negated_bit(i).get(word) != 0);
      }
    }
    if (row.address != 0) address(word, in.address, values);
    if (auto problem = instruction_problem(in)) {
      reader_.refuse(opcode_text(in.opcode) + ": " + *problem);
    }
    Immediates again;
    const std::uint64_t canonical = bits_of(in, again);
    if (canonical != word || !(again == values)) {
      std::ostringstream text;
      text << "expected 0x" << std::hex << canonical << " for this " << row.text << ", found 0x"
           << word << std::dec << " (" << immediates_before - immediates_left_ << " immediates)";
      reader_.refuse(text.str());
    }
    return in;
  }

  void address(std::uint64_t word, Address& address, Immediates& values) {
    for (std::size_t i = 0; i < address.base.size(); ++i) {
      if (base_present_bit(i).get(word) == 0) continue;
      address.base[i] = static_cast<std::uint8_t>(base_bits(i).get(word));
    }
    if (negated_bit(kMaskRegisterOperand).get(word) != 0) {
      address.mask_register =
          static_cast<std::uint8_t>(operand_bits(kMaskRegisterOperand).get(word));
    }
    const auto next = [&] {
      const std::uint32_t value = immediate();
      values.push_back(value);
      return value;
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
      Immediates own;
      put(encode_instruction(*in, own));
      immediates.insert(immediates.end(), own.begin(), own.end());
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

std::vector<std::uint32_t> encode_instructions(
    const std::vector<const Instruction*>& instructions) {
  std::vector<std::uint32_t> words;
  words.reserve(3 * instructions.size());
  for (const Instruction* in : instructions) {
    Immediates immediates;
    const std::uint64_t word = encode_instruction(*in, immediates);
    words.push_back(static_cast<std::uint32_t>(word));
    words.push_back(static_cast<std::uint32_t>(word >> 32));
    words.insert(words.end(), immediates.begin(), immediates.end());
  }
  return words;
}

std::vector<std::uint32_t> encode_instructions(const std::vector<Instruction>& instructions) {
  std::vector<const Instruction*> each;
  each.reserve(instructions.size());
  for (const Instruction& in : instructions) each.push_back(&in);
  return encode_instructions(each);
}

struct InstructionReader::Reading {
  Reading(const std::uint8_t* words, std::size_t word_count, std::size_t count,
          const std::string& source)
      : reader(words, word_count, source), decoder(reader), left(count) {}

  WordReader reader;
  BundleDecoder decoder;
  std::size_t left;
};

InstructionReader::InstructionReader(const std::uint8_t* words, std::size_t word_count,
                                     std::size_t count, const std::string& source)
    : reading_(std::make_unique<Reading>(words, word_count, count, source)) {}
InstructionReader::~InstructionReader() = default;

Instruction InstructionReader::next() {
  TPU_CHECK(reading_->left > 0, "more instructions are read than there are");
  --reading_->left;
  return reading_->decoder.decode_alone();
}

void InstructionReader::check_end() const {
  TPU_CHECK(reading_->left == 0, reading_->left << " instructions were not read");
  const WordReader& reader = reading_->reader;
  if (reader.at_end()) return;
  reader.refuse("expected the end of the instructions, found " + std::to_string(reader.left()) +
                " more words");
}

std::vector<Instruction> decode_instructions(const std::vector<std::uint32_t>& words,
                                             std::size_t count, const std::string& source) {
  InstructionReader reader(reinterpret_cast<const std::uint8_t*>(words.data()), words.size(), count,
                           source);
  std::vector<Instruction> instructions;
  instructions.reserve(std::min(count, words.size() / 2));
  for (std::size_t i = 0; i < count; ++i) instructions.push_back(reader.next());
  reader.check_end();
  return instructions;
}

}  // namespace tpu::isa
