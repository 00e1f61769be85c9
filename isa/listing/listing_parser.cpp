#include "isa/listing/listing_parser.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "sim/base/error.h"

namespace tpu::isa {
namespace {

constexpr std::string_view kHeaderBegin = "= control target key start";
constexpr std::string_view kHeaderEnd = "= control target key end";
constexpr std::uint32_t kLongestDelay = 1u << 20;

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

struct MarkCounts {
  std::size_t lines = 0, semicolons = 0;
};

/// Sums of bytes, which stay below 256 for as many steps, are what compilers make vectors of.
MarkCounts count_marks(std::string_view text) {
  constexpr std::size_t kAtOnce = 32, kSteps = 255;
  MarkCounts counts;
  while (!text.empty()) {
    std::array<std::uint8_t, kAtOnce> lines{}, semicolons{};
    const std::size_t steps = std::min(kSteps, text.size() / kAtOnce);
    for (std::size_t step = 0; step < steps; ++step) {
      const char* at = text.data() + step * kAtOnce;
      for (std::size_t i = 0; i < kAtOnce; ++i) {
        lines[i] = static_cast<std::uint8_t>(lines[i] + (at[i] == '\n'));
        semicolons[i] = static_cast<std::uint8_t>(semicolons[i] + (at[i] == ';'));
      }
    }
    for (std::size_t i = 0; i < kAtOnce; ++i) {
      counts.lines += lines[i];
      counts.semicolons += semicolons[i];
    }
    if (steps == 0) {
      for (const char c : text) counts.lines += c == '\n', counts.semicolons += c == ';';
      break;
    }
    text.remove_prefix(steps * kAtOnce);
  }
  return counts;
}

}  // namespace

Listing read_listing(std::string_view text, const std::string& file, const PackedListing& packed,
                     const ListingPlacement& placement, std::vector<UnknownInstruction>* unknown) {
  ListingParser parser(text, file, packed, placement);
  Listing listing = parser.parse();
  if (unknown == nullptr) {
    refuse_unknown(parser.unknown());
  } else {
    *unknown = parser.unknown();
  }
  return listing;
}

Listing ListingParser::parse() {
  parse_header();
  make_room();
  while (true) {
    cursor_.take_while(is_space);
    if (cursor_.at_end()) break;
    parse_bundle();
  }
  if (listing_.kernel.bundles.empty()) cursor_.fail("a bundle (\"0 : { ... }\")");
  resolve_branches();
  check_regions();
  resolve_names();
  return std::move(listing_);
}

/// For all bundles and instructions: growing step by step touches three times the memory.
void ListingParser::make_room() {
  const MarkCounts counts = count_marks(cursor_.rest());
  const std::size_t bundles = counts.lines + 1;  // One to a line; ";;" parts instructions.
  const std::size_t instructions = bundles + counts.semicolons / 2;
  listing_.kernel.bundles.reserve(bundles);
  listing_.kernel.instructions.reserve(instructions);
  if (placement_.names == CodeNames::kAll) listing_.kernel.names.reserve(instructions);
}

/// The key of the marks, between two lines that begin with an equals sign.
void ListingParser::parse_header() {
  const char* begin = cursor_.at();
  if (cursor_.take_line() != kHeaderBegin) {
    cursor_.fail_at(begin, "\"" + std::string(kHeaderBegin) +
                               "\", the first line of a listing of bundles of libtpu 0.0.42.1");
  }
  while (!cursor_.at_end()) {
    const char* place = cursor_.at();
    const std::string_view line = cursor_.take_line();
    if (line == kHeaderEnd) return;
    const bool mark = line.size() > 3 && line[0] >= 'A' && line[0] <= 'Z' && line[2] == ':';
    if (!mark) cursor_.fail_at(place, "\"" + std::string(kHeaderEnd) + "\"");
  }
  cursor_.fail("\"" + std::string(kHeaderEnd) + "\"");
}

/// `0x2 LB: > { ins ;; ins } /* Start region 5 */`
void ListingParser::parse_bundle() {
  const auto number = static_cast<std::uint32_t>(listing_.kernel.bundles.size());
  const char* place = cursor_.at();
  const std::uint64_t address = cursor_.number("the number of a bundle");
  if (address != number) {
    cursor_.refuse_at(place, "expected bundle " + std::to_string(number) + ", found bundle " +
                                 std::to_string(address) + ": a part of the listing is missing");
  }
  cursor_.skip_blanks();
  while (cursor_.peek() >= 'A' && cursor_.peek() <= 'Z') {
    static constexpr std::string_view kMarks[] = {"LH", "LB", "LE", "PB", "PF", "CT"};
    const bool known = std::any_of(std::begin(kMarks), std::end(kMarks),
                                   [&](std::string_view mark) { return cursor_.take(mark); });
    if (!known) cursor_.fail("one of the marks LH, LB, LE, PB, PF, CT");
    cursor_.skip_blanks();
  }
  cursor_.expect(':');
  cursor_.skip_blanks();
  while (cursor_.take('>')) cursor_.skip_blanks();
  cursor_.expect('{');
  bundle_ = Bundle{};
  bundle_.first_instruction = static_cast<std::uint32_t>(listing_.kernel.instructions.size());
  while (true) {
    skip_space();
    if (cursor_.take('}')) break;  // v4: "{}".
    parse_instruction();
    skip_space();
    if (cursor_.take('}')) break;
    if (!cursor_.take(";;")) cursor_.fail("\";;\" or \"}\" after an instruction");
  }
  bundle_.instruction_count =
      static_cast<std::uint32_t>(listing_.kernel.instructions.size()) - bundle_.first_instruction;
  const std::uint32_t cycle =
      cycle_.empty() ? 0 : cycle_.back() + 1 + listing_.kernel.bundles.back().delay;
  cycle_.push_back(cycle);
  parse_notes();
  listing_.kernel.bundles.push_back(bundle_);
}

/// The comment behind a bundle, notes with "::" between them.
void ListingParser::parse_notes() {
  cursor_.skip_blanks();
  while (cursor_.looking_at("/*")) {
    const char* place = cursor_.at();
    skip_comment();
    std::string_view notes = comment_;
    while (!notes.empty()) {
      const std::size_t separator = notes.find("::");
      parse_note(trimmed(notes.substr(0, separator)), place);
      if (separator == std::string_view::npos) break;
      notes.remove_prefix(separator + 2);
    }
    cursor_.skip_blanks();
  }
  if (!cursor_.at_end() && !cursor_.take('\n')) cursor_.fail("the end of the line after a bundle");
}

void ListingParser::parse_note(std::string_view note, const char* place) {
  static constexpr std::string_view kStarts[] = {"Start region ", "Start/End empty region "};
  for (const std::string_view start : kStarts) {
    if (note.substr(0, start.size()) != start) continue;
    TextCursor number = cursor_;
    number.narrow_to(note.substr(start.size()));
    const auto region = static_cast<std::uint32_t>(number.decimal("the number of a region"));
    region_begin_.emplace(region, static_cast<std::uint32_t>(listing_.kernel.bundles.size()));
    return;
  }
  if (note.substr(0, 11) == "End region ") return;
  if (note.substr(0, 14) == "entry bundle: " || note.substr(0, 13) == "exit bundle: ") return;
  cursor_.fail_at(place, "notes on regions (\"Start region N\", \"End region N\")");
}

/// Blanks, line ends and comments.
void ListingParser::skip_space() {
  while (true) {
    cursor_.take_while(is_space);
    if (cursor_.peek() != '/' || cursor_.peek(1) != '*') return;
    skip_comment();
  }
}

/// Comments nest. Those of bounds checks quote an instruction with comments of its own and do not
/// close all of them: they end where an instruction can end.
void ListingParser::skip_comment() {
  const char* begin = cursor_.at();
  const bool bounds_check = cursor_.looking_at("/* BoundsCheck");
  int depth = 0;
  const char* c = begin;
  while (true) {
    c = static_cast<const char*>(
        c + 1 < cursor_.end() ? std::memchr(c, '*', static_cast<std::size_t>(cursor_.end() - c))
                              : nullptr);
    if (c == nullptr || c + 1 >= cursor_.end())
      cursor_.refuse_at(begin,
                        "expected \"*/\", found the end of the text: a comment does not end");
    if (c != begin && c[-1] == '/') {
      ++depth;
      ++c;
      continue;
    }
    if (c[1] != '/') {
      ++c;
      continue;
    }
    c += 2;
    if (bounds_check) {
      const char* next = c;
      while (next != cursor_.end() && is_space(*next)) ++next;
      const bool ends =
          next != cursor_.end() &&
          (*next == '}' || (*next == ';' && next + 1 != cursor_.end() && next[1] == ';'));
      if (ends) break;
    } else if (--depth == 0) {
      break;
    }
  }
  comment_ = std::string_view(begin + 2, static_cast<std::size_t>(c - begin) - 4);
  cursor_.move_to(c);
}

/// A move of a register to itself leaves a value that code reads under the old name and the new.
bool moves_to_itself(const Instruction& instruction) {
  switch (instruction.opcode) {
    case Opcode::kSmov:
    case Opcode::kVmov:
    case Opcode::kPmov:
    case Opcode::kVmmov:
      return instruction.operands[0] == Operand::register_(instruction.dest);
    default:
      return false;
  }
}

void ListingParser::append(const Instruction& instruction, const VirtualNames& names) {
  if (moves_to_itself(instruction) && is_defined(names.operands[0])) {
    note_second_name(names.dest, names.operands[0]);
  }
  listing_.kernel.instructions.push_back(instruction);
  if (placement_.names == CodeNames::kAll) listing_.kernel.names.push_back(names);
}

void ListingParser::define(std::uint32_t name) {
  const std::size_t word = name / 64;
  if (word >= defined_.size()) defined_.resize(word + 1 + word / 2);
  defined_[word] |= std::uint64_t{1} << (name % 64);
}

bool ListingParser::is_defined(std::uint32_t name) const {
  const std::size_t word = name / 64;
  return word < defined_.size() && (defined_[word] >> (name % 64) & 1) != 0;
}

void ListingParser::parse_delay() {
  bundle_.delay += static_cast<std::uint32_t>(cursor_.decimal("a number of cycles", kLongestDelay));
  if (bundle_.delay > kLongestDelay) cursor_.fail("a shorter delay");
}

std::optional<std::uint32_t> ListingParser::bundle_of_cycle(std::uint32_t cycle) const {
  const auto found = std::lower_bound(cycle_.begin(), cycle_.end(), cycle);
  if (found == cycle_.end() || *found != cycle) return std::nullopt;
  return static_cast<std::uint32_t>(found - cycle_.begin());
}

/// A branch goes to the bundle with the note on the begin of its region; a region without a note
/// begins at the exit bundle. The ranges of the other file must say the same.
void ListingParser::resolve_branches() {
  for (const OpenBranch& branch : branches_) {
    const auto noted = region_begin_.find(branch.region);
    const auto exit = static_cast<std::uint32_t>(listing_.kernel.bundles.size()) - 1;
    const std::uint32_t target = noted == region_begin_.end() ? exit : noted->second;
    const PackedRegion* range = packed_.region(branch.region);
    if (range == nullptr) {
      cursor_.refuse_at(branch.place, "expected the range of region " +
                                          std::to_string(branch.region) + " in " + packed_.file() +
                                          ", found none");
    }
    if (placement_.keeps_empty_cycles && bundle_of_cycle(range->begin) != target) {
      cursor_.refuse_at(branch.place, "expected region " + std::to_string(branch.region) +
                                          " to begin in cycle " + std::to_string(range->begin) +
                                          " as in " + packed_.file() + ", found cycle " +
                                          std::to_string(cycle_[target]));
    }
    listing_.kernel.instructions[branch.instruction].operands[0] = Operand::immediate_(target);
    listing_.branches.push_back({branch.bundle, branch.region});
  }
}

/// The outermost region of the other file tells how long the code is.
void ListingParser::check_regions() const {
  const PackedRegion* whole = packed_.region(0);
  if (whole == nullptr || !placement_.keeps_empty_cycles) return;
  const std::uint32_t cycles = cycle_.back() + 1 + listing_.kernel.bundles.back().delay;
  if (cycles != whole->end && cycles != whole->end + 1) {
    cursor_.refuse_at(cursor_.at(), "expected " + std::to_string(whole->end) +
                                        " cycles of bundles as in " + packed_.file() + ", found " +
                                        std::to_string(cycles) +
                                        ": a part of one of the two files is missing");
  }
}

void ListingParser::note_second_name(std::uint32_t second, std::uint32_t first) {
  const auto known = second_names_.find(first);
  second_names_[second] = known == second_names_.end() ? first : known->second;
}

/// A value goes by its first name; names that nothing defines are forgotten.
void ListingParser::resolve_names() {
  const auto use_first = [&](std::uint32_t& name) {
    if (second_names_.empty()) return;
    const auto first = second_names_.find(name);
    if (first != second_names_.end()) name = first->second;
  };
  const auto resolve = [&](std::uint32_t& name) {
    use_first(name);
    if (!is_defined(name)) name = 0;
  };
  for (VirtualNames& names : listing_.kernel.names) {
    use_first(names.dest);
    resolve(names.guard);
    for (std::uint32_t& name : names.operands) resolve(name);
    for (std::uint32_t& name : names.base) resolve(name);
    resolve(names.mask_register);
  }
  for (ListingCall& call : listing_.calls) {
    for (auto& [reg, name] : call.operand_names) resolve(name);
  }
}

}  // namespace tpu::isa
