#include "isa/opcode_table.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "isa/generation.h"
#include "sim/base/error.h"

namespace tpu::isa {
namespace {

constexpr OpcodeInfo make_info(Opcode opcode, std::string_view text, Slot slot,
                               std::string_view signature, UnitKind unit, Queue queue,
                               Latency latency, Status status, std::string_view meaning) {
  OpcodeInfo row;
  row.opcode = opcode;
  row.text = text;
  row.slot = slot;
  row.signature = signature;
  row.unit = unit;
  row.queue = queue;
  row.latency = latency;
  row.status = status;
  row.meaning = meaning;
  row.has_unit = text.find("{u}") != std::string_view::npos;
  const std::size_t equals = signature.find('=');
  if (equals > 1) throw "a signature has at most one letter in front of its =";
  if (equals == 1) row.dest_file = signature[0];
  for (char letter : signature.substr(equals + 1)) {
    if (letter == 'A' || letter == 'a' || letter == 'M' || letter == 'D' || letter == 'F') {
      row.address = letter;
    } else {
      if (row.operand_count == 4) throw "an instruction has at most 4 operands";
      row.operand_files[row.operand_count++] = letter;
    }
  }
  row.fits_misc_slot = row.dest_file == 'm' && row.operand_files[0] == 'm';
  row.takes_smem_port = row.address == 'a' || text.substr(0, 3) == "dma";
  row.loads = row.address != 0 && row.dest_file != 0;
  row.pops = queue != Queue::kNone && row.dest_file != 0;
  return row;
}

constexpr std::array<OpcodeInfo, kOpcodeCount> make_table() {
  using S = Slot;
  using U = UnitKind;
  using Q = Queue;
  using L = Latency;
  return {
#define TPU_OPCODE(enumerator, text, slot, signature, unit, queue, latency, status, meaning) \
  make_info(Opcode::enumerator, text, S::slot, signature, U::unit, Q::queue, L::latency,     \
            Status::status, meaning),
#include "isa/opcodes.def"
#undef TPU_OPCODE
  };
}

/// Made by the compiler: info() need not ask whether it is there, and a wrong signature is an error
/// of the build.
constexpr std::array<OpcodeInfo, kOpcodeCount> kRows = make_table();

/// The mnemonics with their unit numbers, in places that are found from their first and last
/// characters: a listing has millions of them.
class Mnemonics {
 public:
  Mnemonics() {
    for (const OpcodeInfo& row : kRows) {
      for (int unit = 0; unit < (row.has_unit ? kMaxUnits : 1); ++unit) {
        add(opcode_text(row.opcode, static_cast<std::uint8_t>(unit)),
            {row.opcode, static_cast<std::uint8_t>(unit)});
      }
    }
  }

  const OpcodeAndUnit* find(std::string_view text) const {
    const Ends ends(text);
    std::size_t at = ends.place();
    for (; places_[at].opcode.opcode != Opcode::kCount; at = (at + 1) % kPlaces) {
      if (places_[at].ends == ends && places_[at].is(text)) return &places_[at].opcode;
    }
    return nullptr;
  }

 private:
  static constexpr std::size_t kPlaces = 2048;
  static_assert(kOpcodeCount * kMaxUnits <= kPlaces / 2);

  /// The first and the last eight characters; all of a shorter text.
  struct Ends {
    std::uint64_t first = 0, last = 0;

    Ends() = default;
    explicit Ends(std::string_view text) {
      if (text.size() >= sizeof first) {
        std::memcpy(&first, text.data(), sizeof first);
        std::memcpy(&last, text.data() + text.size() - sizeof last, sizeof last);
      } else {
        for (const char c : text) first = first << 8 | static_cast<unsigned char>(c);
      }
    }
    bool operator==(const Ends& other) const { return first == other.first && last == other.last; }
    std::size_t place() const {
      return ((first * 0x9e3779b97f4a7c15 ^ last) * 0xff51afd7ed558ccd >> 32) % kPlaces;
    }
  };
  struct Place {
    Ends ends;
    OpcodeAndUnit opcode;
    std::string text;

    /// Whether that is the text, of which the ends are those of this one.
    bool is(std::string_view other) const {
      if (text.size() != other.size()) return false;
      const std::size_t in_ends = 2 * sizeof ends.first;
      return text.size() <= in_ends || text == other;
    }
  };

  void add(std::string text, OpcodeAndUnit opcode) {
    TPU_CHECK(find(text) == nullptr, "two rows of opcodes.def for " << text);
    const Ends ends(text);
    std::size_t at = ends.place();
    while (places_[at].opcode.opcode != Opcode::kCount) at = (at + 1) % kPlaces;
    places_[at] = {ends, opcode, std::move(text)};
  }

  std::vector<Place> places_ = std::vector<Place>(kPlaces);
};

/// Apart from info(), which decoding asks millions of times.
[[noreturn, gnu::cold, gnu::noinline]] void refuse_opcode(Opcode opcode) {
  throw SimulatorBug("expected an opcode below " + std::to_string(kOpcodeCount) + ", found " +
                     std::to_string(static_cast<int>(opcode)));
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substituted = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({substituted, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

}  // namespace

const OpcodeInfo& info(Opcode opcode) {
  if (opcode >= Opcode::kCount) refuse_opcode(opcode);
  return kRows[static_cast<std::size_t>(opcode)];
}

std::string_view memory_of_address(const OpcodeInfo& row) {
  if (row.address == 'a') return "smem";
  if (row.address == 'D') return "strides";
  if (row.address == 'F') return "far";
  return row.address == 'A' ? "vmem" : "cmem";
}

std::optional<OpcodeAndUnit> find_opcode(std::string_view text) {
  static const Mnemonics kMnemonics;
  const OpcodeAndUnit* found = kMnemonics.find(text);
  if (found == nullptr) return std::nullopt;
  return *found;
}

std::string opcode_text(Opcode opcode, std::uint8_t unit) {
  std::string text(info(opcode).text);
  const std::size_t place = text.find("{u}");
  if (place != std::string::npos) text.replace(place, 3, std::to_string(unit));
  return text;
}

std::string nearest_opcode_text(std::string_view text) {
  text = text.substr(0, 64);
  std::string best;
  std::size_t best_distance = ~std::size_t{0};
  for (const OpcodeInfo& row : kRows) {
    for (int unit = 0; unit < (row.has_unit ? kMaxUnits : 1); ++unit) {
      const std::string candidate = opcode_text(row.opcode, static_cast<std::uint8_t>(unit));
      const std::size_t distance = edit_distance(text, candidate);
      if (distance < best_distance) {
        best_distance = distance;
        best = candidate;
      }
    }
  }
  return best;
}

std::uint32_t result_latency(Opcode producer, const Latencies& latencies) {
  switch (info(producer).latency) {
    case Latency::kNone:
      return 0;
    case Latency::kOne:
      return 1;
    case Latency::kTwo:
      return 2;
    case Latency::kMatmul:
      return latencies.matmul_cycles;
    case Latency::kXlu:
      return latencies.xlu_cycles;
    case Latency::kTranspose:
      return latencies.transpose_cycles;
    case Latency::kEup:
      return latencies.eup_cycles;
    case Latency::kCmem:
      return latencies.cmem_cycles;
  }
  return 0;
}

std::uint32_t issue_interval(Opcode opcode, const Latencies& latencies) {
  const OpcodeInfo& row = info(opcode);
  if (opcode == Opcode::kVdwg || opcode == Opcode::kVsetPatternPermute) return 1;
  if (row.unit == UnitKind::kMxu) return latencies.mxu_interval_cycles;
  if (row.queue == Queue::kTranspose) return latencies.xlu_interval_cycles;
  if (row.unit == UnitKind::kXlu && !row.pops) return latencies.xlu_interval_cycles;
  return 1;
}

bool swaps_weights(Opcode opcode) {
  return opcode == Opcode::kVdwg || opcode == Opcode::kVmatmulDwg ||
         opcode == Opcode::kVmatmulHiDwg || opcode == Opcode::kVmatmulLowDwg ||
         opcode == Opcode::kVmatmulPartsDwg || opcode == Opcode::kVmatmulMskDwg ||
         opcode == Opcode::kVmatmulBf16Dwg || opcode == Opcode::kVmatmulBf16MskDwg;
}

bool takes_packed_rows(Opcode opcode) {
  switch (opcode) {
    case Opcode::kVmatpushBf16:
    case Opcode::kVmatpushBf16Msk:
    case Opcode::kVmatpushBf16Xpose:
    case Opcode::kVmatpushBf16XposeMsk:
    case Opcode::kVmatmulBf16:
    case Opcode::kVmatmulBf16Dwg:
    case Opcode::kVmatmulBf16Msk:
    case Opcode::kVmatmulBf16MskDwg:
    case Opcode::kVxposeB16Start:
    case Opcode::kVxposeB16Cont:
    case Opcode::kVxposeB16End:
    case Opcode::kVxposeB16StartEnd:
      return true;
    default:
      return false;
  }
}

MultipliedPart multiplied_part(Opcode opcode) {
  switch (opcode) {
    case Opcode::kVmatpushHi:
    case Opcode::kVmatpushHiXpose:
    case Opcode::kVmatmulHi:
    case Opcode::kVmatmulHiDwg:
      return MultipliedPart::kHigh;
    case Opcode::kVmatpushLow:
    case Opcode::kVmatpushLowXpose:
    case Opcode::kVmatmulLow:
    case Opcode::kVmatmulLowDwg:
      return MultipliedPart::kLow;
    default:
      return MultipliedPart::kRounded;
  }
}

bool pushes_transposed(Opcode opcode) {
  switch (opcode) {
    case Opcode::kVmatpushXpose:
    case Opcode::kVmatpushHiXpose:
    case Opcode::kVmatpushLowXpose:
    case Opcode::kVmatpushXposeBlock:
    case Opcode::kVmatpushXposeMsk:
    case Opcode::kVmatpushBf16Xpose:
    case Opcode::kVmatpushBf16XposeMsk:
      return true;
    default:
      return false;
  }
}

MxuParts parts_of(Opcode opcode, const std::array<std::uint32_t, 3>& numbers) {
  switch (opcode) {
    case Opcode::kVmatpushBlock:
    case Opcode::kVmatpushXposeBlock:
      return {numbers[1], numbers[2], numbers[1] + 1, numbers[2] + 1};
    case Opcode::kVmatlatchPart:
      return {numbers[1], 0, numbers[1] + 1, 1};
    case Opcode::kVmatmulParts:
    case Opcode::kVmatmulPartsDwg:
      return {0, 0, numbers[1], numbers[2]};
    case Opcode::kVpopMrfPart:
      return {0, numbers[0], 1, numbers[0] + 1};
    default:
      return {};
  }
}

MxuParts parts_of(const Instruction& in) {
  return parts_of(in.opcode,
                  {in.operands[0].immediate, in.operands[1].immediate, in.operands[2].immediate});
}

bool generation_has(std::string_view chip, Opcode opcode, std::uint8_t unit) {
  const Generation& has = generation(chip);
  if (info(opcode).unit == UnitKind::kMxu && unit >= has.named_mxus) return false;
  if (opcode >= Opcode::kScalarLeaCmem) return has.cmem_and_packed_rows;
  if (opcode == Opcode::kSmulU32) return has.multiplies_32_bits;
  if (opcode == Opcode::kSmulU24) return !has.multiplies_32_bits;
  return has.swaps_with_push || opcode == Opcode::kVdwg || !swaps_weights(opcode);
}

std::uint32_t table_fingerprint() {
  std::uint32_t hash = 2166136261u;
  const auto add = [&hash](std::string_view text) {
    for (char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
    hash = (hash ^ 0xffu) * 16777619u;
  };
  for (const OpcodeInfo& row : kRows) {
    add(row.text);
    add(row.signature);
  }
  return hash;
}

const char* to_string(Slot slot) {
  switch (slot) {
    case Slot::kScalar:
      return "scalar";
    case Slot::kVectorAlu:
      return "vector ALU";
    case Slot::kVectorLoad:
      return "vector load";
    case Slot::kVectorStore:
      return "vector store";
    case Slot::kPush:
      return "push";
    case Slot::kPop:
      return "pop";
    case Slot::kMisc:
      return "misc";
    case Slot::kCount:
      break;
  }
  return "?";
}

const char* to_string(UnitKind unit) {
  switch (unit) {
    case UnitKind::kScalar:
      return "scalar";
    case UnitKind::kControl:
      return "sequencer";
    case UnitKind::kVectorAlu:
      return "vector ALU";
    case UnitKind::kVectorLoad:
      return "vector load";
    case UnitKind::kVectorStore:
      return "vector store";
    case UnitKind::kCmem:
      return "CMEM";
    case UnitKind::kMxu:
      return "MXU";
    case UnitKind::kXlu:
      return "XLU";
    case UnitKind::kEup:
      return "EUP";
    case UnitKind::kDma:
      return "DMA";
    case UnitKind::kSync:
      return "sync flags";
    case UnitKind::kTrace:
      return "trace";
    case UnitKind::kCount:
      break;
  }
  return "?";
}

const char* to_string(Queue queue) {
  switch (queue) {
    case Queue::kNone:
      return "none";
    case Queue::kMxuResult:
      return "MXU results";
    case Queue::kEup:
      return "EUP results";
    case Queue::kXlu:
      return "XLU results";
    case Queue::kTranspose:
      return "transposed rows";
    case Queue::kVectorToScalar:
      return "vector to scalar";
    case Queue::kCmem:
      return "CMEM loads";
    case Queue::kCount:
      break;
  }
  return "?";
}

const char* to_string(Latency latency) {
  switch (latency) {
    case Latency::kNone:
      return "none";
    case Latency::kOne:
      return "1";
    case Latency::kTwo:
      return "2";
    case Latency::kMatmul:
      return "MXU";
    case Latency::kXlu:
      return "XLU";
    case Latency::kTranspose:
      return "transpose";
    case Latency::kEup:
      return "EUP";
    case Latency::kCmem:
      return "CMEM";
  }
  return "?";
}

const char* to_string(Status status) {
  switch (status) {
    case Status::kConfirmed:
      return "confirmed";
    case Status::kRead:
      return "read";
    case Status::kGuessed:
      return "guessed";
    case Status::kOurs:
      return "ours";
  }
  return "?";
}

}  // namespace tpu::isa
