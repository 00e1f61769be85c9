#include "isa/kernel_encoding.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "isa/encoding.h"
#include "isa/opcode_table.h"
#include "sim/base/error.h"

namespace tpu::isa {
namespace {

constexpr std::uint32_t kKernelMark = 0x6b757074;  ///< "tpuk".
constexpr std::uint32_t kKernelVersion = 2;
constexpr std::uint32_t kInstructionBits = 31;  ///< Of the byte in front of a bundle.
constexpr std::uint32_t kDelayBit = 32;
constexpr std::size_t kNames = 9;

using NameList = std::array<std::uint32_t, kNames>;

NameList name_list(const VirtualNames& names) {
  return {names.dest,        names.guard,       names.operands[0],
          names.operands[1], names.operands[2], names.operands[3],
          names.base[0],     names.base[1],     names.mask_register};
}

VirtualNames virtual_names(const NameList& list) {
  return {list[0], list[1], {list[2], list[3], list[4], list[5]}, {list[6], list[7]}, list[8]};
}

class KernelWriter {
 public:
  void make_room(std::size_t bytes) { bytes_.reserve(bytes_.size() + bytes); }
  void byte(std::uint32_t value) { bytes_.push_back(static_cast<std::uint8_t>(value)); }
  void two_bytes(std::uint32_t value) { byte(value), byte(value >> 8); }
  void four_bytes(std::uint32_t value) {
    const std::array<std::uint8_t, 4> bytes{
        static_cast<std::uint8_t>(value), static_cast<std::uint8_t>(value >> 8),
        static_cast<std::uint8_t>(value >> 16), static_cast<std::uint8_t>(value >> 24)};
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  }
  void varint(std::size_t value) {
    for (; value >= 0x80; value >>= 7) byte(static_cast<std::uint32_t>(value & 0x7f) | 0x80);
    byte(static_cast<std::uint32_t>(value));
  }
  void text(const std::string& text) {
    varint(text.size());
    bytes_.insert(bytes_.end(), text.begin(), text.end());
  }
  std::vector<std::uint8_t> take() { return std::move(bytes_); }

 private:
  std::vector<std::uint8_t> bytes_;
};

struct InstructionHash {
  std::size_t operator()(const Instruction& in) const {
    std::uint64_t hash = static_cast<std::uint64_t>(in.opcode) | std::uint64_t{in.dest} << 16 |
                         std::uint64_t{in.guard.predicate} << 24 | std::uint64_t{in.unit} << 32;
    const auto add = [&](std::uint64_t value) {
      hash = (hash ^ value) * 0x9e3779b97f4a7c15;
      hash ^= hash >> 29;
    };
    for (const Operand& operand : in.operands)
      add(operand.reg | std::uint64_t{operand.immediate} << 8);
    add(in.address.base[0] | std::uint64_t{in.address.base[1]} << 8 |
        static_cast<std::uint64_t>(in.address.offset) << 16);
    return hash ^ hash >> 32;
  }
};

/// Each instruction of some kernels once, numbered in the order of first use. Code takes its
/// instructions from all over the place: the place in the table that is needed soon is asked for
/// before, and then the instruction with which that of the code is compared.
class InstructionNumbers {
 public:
  explicit InstructionNumbers(const std::vector<Kernel>& kernels) {
    std::size_t count = 0;
    for (const Kernel& kernel : kernels) count += kernel.instructions.size();
    uses_.reserve(count);
    while (places_.size() < count / 2) places_.resize(2 * places_.size());
    for (const Kernel& kernel : kernels) add(kernel.instructions);
  }

  /// Where each is used first.
  const std::vector<const Instruction*>& distinct() const { return distinct_; }
  /// The number of each instruction of the first kernel, then of the second, ...
  const std::vector<std::uint32_t>& uses() const { return uses_; }

 private:
  static constexpr std::size_t kSoon = 8;  ///< A power of two.
  struct Place {
    const Instruction* instruction = nullptr;  ///< Null: free.
    std::uint32_t number = 0;
    std::uint32_t hash = 0;  ///< Its upper half; the lower one says where to look first.
  };

  static std::uint32_t upper(std::uint64_t hash) { return static_cast<std::uint32_t>(hash >> 32); }
  std::size_t first_place(std::uint64_t hash) const { return hash & (places_.size() - 1); }
  std::size_t next_place(std::size_t at) const { return (at + 1) & (places_.size() - 1); }

  void add(const std::vector<Instruction>& code) {
    std::array<std::uint64_t, 2 * kSoon> hashes{};
    for (std::size_t i = 0; i < code.size() + 2 * kSoon; ++i) {
      std::uint64_t& hash = hashes[i % (2 * kSoon)];
      if (i >= 2 * kSoon) uses_.push_back(number_of(code[i - 2 * kSoon], hash));
      if (i >= kSoon) {
        const Place& soon = places_[first_place(hashes[(i - kSoon) % (2 * kSoon)])];
        __builtin_prefetch(soon.instruction);
      }
      if (i >= code.size()) continue;
      hash = InstructionHash()(code[i]);
      __builtin_prefetch(&places_[first_place(hash)]);
    }
  }

  std::uint32_t number_of(const Instruction& in, std::uint64_t hash) {
    std::size_t at = first_place(hash);
    for (; places_[at].instruction != nullptr; at = next_place(at)) {
      const Place& place = places_[at];
      if (place.hash == upper(hash) && *place.instruction == in) return place.number;
    }
    const auto number = static_cast<std::uint32_t>(distinct_.size());
    places_[at] = {&in, number, upper(hash)};
    distinct_.push_back(&in);
    if (3 * distinct_.size() > 2 * places_.size()) grow();
    return number;
  }

  void grow() {
    places_.assign(2 * places_.size(), Place());
    for (std::uint32_t number = 0; number < distinct_.size(); ++number) {
      const std::uint64_t hash = InstructionHash()(*distinct_[number]);
      std::size_t at = first_place(hash);
      while (places_[at].instruction != nullptr) at = next_place(at);
      places_[at] = {distinct_[number], number, upper(hash)};
    }
  }

  std::vector<Place> places_ = std::vector<Place>(1 << 12);  ///< A power of two, a third free.
  std::vector<const Instruction*> distinct_;
  std::vector<std::uint32_t> uses_;
};

void put_bundles(const Kernel& kernel, KernelWriter& out) {
  out.varint(kernel.bundles.size());
  for (const Bundle& bundle : kernel.bundles) {
    TPU_CHECK(bundle.instruction_count <= kInstructionBits,
              kernel.name << ": a bundle of " << bundle.instruction_count << " instructions");
    out.byte(bundle.instruction_count | (bundle.delay != 0 ? kDelayBit : 0));
    if (bundle.delay != 0) out.varint(bundle.delay);
  }
}

void put_names(const Kernel& kernel, KernelWriter& out) {
  out.byte(kernel.names.empty() ? 0 : 1);
  for (const VirtualNames& names : kernel.names) {
    const NameList list = name_list(names);
    std::uint32_t present = 0;
    for (std::size_t i = 0; i < kNames; ++i) present |= (list[i] != 0 ? 1u : 0u) << i;
    out.two_bytes(present);
  }
  for (const VirtualNames& names : kernel.names) {
    for (const std::uint32_t name : name_list(names)) {
      if (name != 0) out.varint(name);
    }
  }
}

void put_tables(const Kernel& kernel, KernelWriter& out) {
  out.varint(kernel.renamings.size());
  for (const Renaming& renaming : kernel.renamings) {
    out.varint(renaming.bundle);
    out.varint(renaming.after ? 1 : 0);
    out.varint(static_cast<unsigned char>(renaming.file));
    out.varint(renaming.reg);
    out.varint(renaming.name);
  }
  out.varint(kernel.operand_names.size());
  for (const auto& [reg, name] : kernel.operand_names) out.varint(reg), out.varint(name);
}

/// Reads bytes one after another and refuses to run over the end.
class KernelReader {
 public:
  KernelReader(const std::vector<std::uint8_t>& bytes, const std::string& source)
      : bytes_(bytes.data()), size_(bytes.size()), source_(source) {}

  bool at_end() const { return next_ == size_; }
  std::size_t left() const { return size_ - next_; }
  std::uint32_t byte(const char* what) {
    if (at_end()) refuse(std::string("expected ") + what + ", found the end");
    return bytes_[next_++];
  }
  std::uint32_t varint(const char* what) {
    std::uint32_t value = byte(what);
    if (value < 0x80) return value;
    value &= 0x7f;
    for (int shift = 7; shift < 35; shift += 7) {
      const std::uint32_t part = byte(what);
      value |= (part & 0x7f) << shift;
      if (part >= 0x80) continue;
      if (part == 0 || (shift == 28 && part > 15)) break;
      return value;
    }
    refuse(std::string("expected ") + what + " in as few bytes as it needs, at most 32 bits");
  }
  /// A number of elements of at least `bytes_each` bytes that have to follow.
  std::uint32_t count(const char* what, std::size_t bytes_each) {
    const std::uint32_t value = varint(what);
    if (value > left() / bytes_each) {
      refuse(std::string("expected ") + what + " that fit the rest, found " +
             std::to_string(value));
    }
    return value;
  }
  /// So many bytes, which count() has found to be there or which are asked for here.
  const std::uint8_t* bytes(const char* what, std::size_t count) {
    if (count > left()) refuse(std::string("expected ") + what + ", found the end");
    next_ += count;
    return bytes_ + next_ - count;
  }
  std::uint32_t four_bytes(const char* what) {
    std::uint32_t value = 0;
    std::memcpy(&value, bytes(what, 4), 4);
    return value;
  }
  [[noreturn]] void refuse(const std::string& message) const {
    throw WorkloadError(source_ + ": byte " + std::to_string(next_) + ": " + message);
  }

 private:
  const std::uint8_t* bytes_;
  std::size_t size_, next_ = 0;
  const std::string& source_;
};

/// The instructions that occur, each read when it is used first. They stand side by side: code
/// copies them from all over the place, and what it takes soon is asked for before.
class InstructionTable {
 public:
  InstructionTable(KernelReader& in, const std::string& source)
      : count_(in.count("instructions", 8)), reader_(read(in, source)) {
    read_.reserve(count_);
  }

  /// Adds the instructions of so many numbers to the code.
  void use(const std::uint8_t* numbers, std::size_t count, KernelReader& in,
           std::vector<Instruction>& code) {
    constexpr std::size_t kSoon = 12;
    const auto number_at = [&](std::size_t i) {
      std::uint32_t number = 0;
      std::memcpy(&number, numbers + i * 4, 4);
      return number;
    };
    code.reserve(count);
    for (std::size_t i = 0; i < count; ++i) {
      if (i + kSoon < count) {
        const std::uint32_t soon = number_at(i + kSoon);
        if (soon < read_.size()) __builtin_prefetch(&read_[soon]);
      }
      const std::uint32_t number = number_at(i);
      if (number >= read_.size()) read_next(number, in);
      code.push_back(read_[number]);
    }
  }

  void check_end(KernelReader& in) const {
    if (read_.size() != count_) {
      in.refuse("expected code that uses all " + std::to_string(count_) +
                " instructions, found that it uses " + std::to_string(read_.size()));
    }
    reader_.check_end();
  }

 private:
  void read_next(std::uint32_t number, KernelReader& in) {
    if (number != read_.size() || number >= count_) {
      in.refuse("expected the next of " + std::to_string(count_) +
                " instructions or one before it, found number " + std::to_string(number));
    }
    read_.push_back(reader_.next());
  }
  InstructionReader read(KernelReader& in, const std::string& source) const {
    const std::uint32_t words = in.count("words of instructions", 4);
    return {in.bytes("words of instructions", std::size_t{words} * 4), words, count_,
            source + ", instructions"};
  }

  std::uint32_t count_;
  InstructionReader reader_;
  std::vector<Instruction> read_;
};

/// Returns how many instructions the bundles have.
std::uint64_t take_bundles(KernelReader& in, Kernel& kernel) {
  kernel.bundles.resize(in.count("bundles", 1));
  std::uint64_t first = 0;
  for (Bundle& bundle : kernel.bundles) {
    const std::uint32_t head = in.byte("a bundle");
    if (head >= 2 * kDelayBit) in.refuse("expected 0 in the spare bits of a bundle");
    bundle.first_instruction = static_cast<std::uint32_t>(first);
    bundle.instruction_count = head & kInstructionBits;
    if ((head & kDelayBit) != 0) {
      bundle.delay = in.varint("a delay");
      if (bundle.delay == 0) in.refuse("expected a delay above 0");
    }
    first += bundle.instruction_count;
  }
  return first;
}

void take_code(KernelReader& in, InstructionTable& table, Kernel& kernel) {
  const std::uint64_t in_bundles = take_bundles(in, kernel);
  const std::uint32_t count = in.count("code", 4);
  if (count != in_bundles) {
    in.refuse("expected the code of " + std::to_string(in_bundles) + " instructions, found " +
              std::to_string(count));
  }
  const std::uint8_t* numbers = in.bytes("code", std::size_t{count} * 4);
  table.use(numbers, count, in, kernel.instructions);
}

void take_names(KernelReader& in, Kernel& kernel) {
  const std::uint32_t has_names = in.byte("whether there are names");
  if (has_names > 1) in.refuse("expected 0 or 1, found " + std::to_string(has_names));
  if (has_names == 0) return;
  const std::size_t count = kernel.instructions.size();
  if (count == 0) in.refuse("expected no names where there is no instruction");
  const std::uint8_t* present = in.bytes("which names there are", count * 2);
  kernel.names.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    NameList list{};
    std::uint32_t bits = present[2 * i] | std::uint32_t{present[2 * i + 1]} << 8;
    if (bits >> kNames != 0) in.refuse("expected 0 in the spare bits of names");
    for (; bits != 0; bits &= bits - 1) {
      const std::uint32_t name = in.varint("a virtual name");
      if (name == 0) in.refuse("expected a virtual name above 0");
      list[static_cast<std::size_t>(__builtin_ctz(bits))] = name;
    }
    kernel.names.push_back(virtual_names(list));
  }
}

std::uint8_t take_register(KernelReader& in, char file) {
  const std::uint32_t number = in.varint("a register");
  const std::uint32_t limit = file == 'p'   ? kPredicateRegisters
                              : file == 'm' ? kMaskRegisters
                                            : kScalarRegisters;
  if (number >= limit) {
    in.refuse("expected a register below " + std::to_string(limit) + ", found " +
              std::to_string(number));
  }
  return static_cast<std::uint8_t>(number);
}

Renaming take_renaming(KernelReader& in) {
  Renaming renaming;
  renaming.bundle = in.varint("a renaming");
  const std::uint32_t after = in.varint("a renaming");
  if (after > 1) in.refuse("expected 0 or 1, found " + std::to_string(after));
  renaming.after = after != 0;
  const std::uint32_t file = in.varint("a register file");
  if (file != 's' && file != 'v' && file != 'p' && file != 'm') {
    in.refuse("expected a register file s, v, p or m, found " + std::to_string(file));
  }
  renaming.file = static_cast<char>(file);
  renaming.reg = take_register(in, renaming.file);
  renaming.name = in.varint("a renaming");
  return renaming;
}

void take_tables(KernelReader& in, Kernel& kernel) {
  kernel.renamings.resize(in.count("renamings", 5));
  for (Renaming& renaming : kernel.renamings) renaming = take_renaming(in);
  const auto earlier = [](const Renaming& a, const Renaming& b) { return a.bundle < b.bundle; };
  if (!std::is_sorted(kernel.renamings.begin(), kernel.renamings.end(), earlier)) {
    in.refuse("expected renamings in the order of their bundles, found another");
  }
  kernel.operand_names.resize(in.count("operand names", 2));
  for (auto& [reg, name] : kernel.operand_names) {
    reg = take_register(in, 's');
    name = in.varint("an operand name");
  }
}

void check_head(KernelReader& in) {
  if (in.four_bytes("the mark of kernels") != kKernelMark) {
    in.refuse("expected the mark of kernels, found another word");
  }
  const std::uint32_t version = in.four_bytes("the version");
  if (version != kKernelVersion) {
    in.refuse("expected version " + std::to_string(kKernelVersion) + ", found " +
              std::to_string(version) + ": compile the program again");
  }
  if (in.four_bytes("the fingerprint of the opcode table") != table_fingerprint()) {
    in.refuse(
        "expected code for this instruction set, found code for an older or newer one: compile "
        "the program again");
  }
}

}  // namespace

std::vector<std::uint8_t> encode_kernels(const std::vector<Kernel>& kernels) {
  KernelWriter out;
  for (const std::uint32_t word : {kKernelMark, kKernelVersion, table_fingerprint()}) {
    out.four_bytes(word);
  }
  const InstructionNumbers numbers(kernels);
  const std::vector<std::uint32_t> words = encode_instructions(numbers.distinct());
  std::size_t bundles = 0;
  for (const Kernel& kernel : kernels) bundles += kernel.bundles.size();
  out.make_room(4 * (words.size() + numbers.uses().size()) + 2 * bundles);
  out.varint(numbers.distinct().size());
  out.varint(words.size());
  for (const std::uint32_t word : words) out.four_bytes(word);
  out.varint(kernels.size());
  const std::uint32_t* use = numbers.uses().data();
  for (const Kernel& kernel : kernels) {
    out.text(kernel.name);
    put_bundles(kernel, out);
    out.varint(kernel.instructions.size());
    for (std::size_t i = 0; i < kernel.instructions.size(); ++i) out.four_bytes(*use++);
    put_names(kernel, out);
    put_tables(kernel, out);
  }
  return out.take();
}

std::vector<Kernel> decode_kernels(const std::vector<std::uint8_t>& bytes,
                                   const std::string& source) {
  KernelReader in(bytes, source);
  check_head(in);
  InstructionTable table(in, source);
  std::vector<Kernel> kernels(in.count("kernels", 1));
  for (Kernel& kernel : kernels) {
    const std::uint32_t length = in.count("a name", 1);
    const std::uint8_t* name = in.bytes("a name", length);
    kernel.name.assign(name, name + length);
    take_code(in, table, kernel);
    take_names(in, kernel);
    take_tables(in, kernel);
  }
  table.check_end(in);
  if (!in.at_end()) {
    in.refuse("expected the end, found " + std::to_string(in.left()) + " more bytes");
  }
  return kernels;
}

}  // namespace tpu::isa
