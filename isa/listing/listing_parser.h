#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "isa/listing/listing_reader.h"
#include "isa/opcode_table.h"
#include "sim/base/text_cursor.h"

namespace tpu::isa {

/// What a register of a file ('s', 'v', 'p', 'm') is called in errors.
const char* register_kind(char file);

/// The recursive-descent parser behind read_listing(): bundles in listing_parser.cpp, instructions
/// in instruction_parser.cpp, what is printed like one but is none, and calls in pseudo_parser.cpp.
/// One pass over the text; branches are resolved at its end.
class ListingParser {
 public:
  ListingParser(std::string_view text, const std::string& file, const PackedListing& packed,
                const ListingPlacement& placement)
      : cursor_(text, file), packed_(packed), placement_(placement) {}

  Listing parse();
  const std::vector<UnknownInstruction>& unknown() const { return unknown_; }

 private:
  /// "%s659_s0", "%vm12_vm3", or "%662" (no register).
  struct Name {
    char file = 0;  ///< 's', 'v', 'p', 'm'; 0 without register.
    std::uint8_t reg = kNoRegister;
    std::uint32_t name = 0;
  };
  /// Either a register or a number.
  struct ParsedOperand {
    Operand operand;
    std::uint32_t name = 0;
    std::optional<std::uint32_t> hbm_allocation;
    std::optional<ListingSpace> space;  ///< Of an allocation.
  };
  struct OpenBranch {
    std::uint32_t instruction = 0;
    std::uint32_t region = 0;
    const char* place = nullptr;
    std::uint32_t bundle = 0;
  };

  void make_room();
  void parse_header();
  void parse_bundle();
  void parse_notes();
  void parse_note(std::string_view note, const char* place);
  void parse_instruction();
  void parse_by_signature(const Name& dest, const OpcodeInfo& row, std::uint8_t unit);
  void skip_unknown(std::string_view text, const char* place);
  bool parse_pseudo(const Name& dest, std::string_view text, const char* place);
  void parse_delay();
  void parse_phi(const Name& dest, char file, const char* place);
  void parse_pointer_cast(const Name& dest, const char* place);
  void parse_call_operand(const Name& dest, const char* place);
  void parse_call();
  void parse_call_comment(ListingCall& call);
  void parse_smov(const Name& dest);
  void parse_transpose_position(Instruction& instruction);
  std::uint32_t parse_queue_name();
  /// True when the instruction is guarded by the constant 0: it never acts.
  bool parse_guard(Instruction& instruction, VirtualNames& names);
  void parse_strides(Instruction& instruction);
  std::uint32_t parse_stride();
  void parse_general_dma(const Name& dest);
  void set_far_end(Instruction& instruction, VirtualNames& names,
                   const std::array<ParsedOperand, 2>& words, const char* place);
  ListingSpace parse_pointer(Operand& operand, std::uint32_t& name);
  std::uint32_t parse_pattern();
  void parse_operands(const OpcodeInfo& row, Instruction& instruction, VirtualNames& names,
                      std::vector<HbmReference>& references);
  ParsedOperand parse_operand(char letter);
  ParsedOperand parse_scalar_allocation();
  void parse_address(char letter, Instruction& instruction, VirtualNames& names);
  void parse_address_terms(ListingSpace space, Instruction& instruction, VirtualNames& names);
  void parse_address_options(Instruction& instruction, VirtualNames& names);

  Name parse_name();
  Name parse_register(char file);
  std::uint32_t parse_literal();
  std::uint32_t parse_packed_literal(std::uint32_t high);
  const Allocation& parse_allocation_number();
  std::uint32_t address_of(const Allocation& allocation, const char* place) const;
  void skip_space();
  void skip_comment();
  void append(const Instruction& instruction, const VirtualNames& names);
  void define(std::uint32_t name);
  bool is_defined(std::uint32_t name) const;

  void resolve_branches();
  void check_regions() const;
  void note_second_name(std::uint32_t second, std::uint32_t first);
  void resolve_names();
  /// Bundle that begins in this cycle of the schedule; nothing where none does.
  std::optional<std::uint32_t> bundle_of_cycle(std::uint32_t cycle) const;

  TextCursor cursor_;
  const PackedListing& packed_;
  ListingPlacement placement_;
  Listing listing_;
  Bundle bundle_;
  std::string_view comment_;  ///< The last comment that was stepped over.
  std::vector<OpenBranch> branches_;
  std::vector<UnknownInstruction> unknown_;
  std::unordered_map<std::uint32_t, std::uint32_t> region_begin_;  ///< Region to bundle.
  std::vector<std::uint32_t> cycle_;                               ///< Of the schedule, per bundle.
  std::unordered_map<std::uint32_t, std::uint32_t> second_names_;  ///< To the first name.
  std::unordered_map<std::uint32_t, std::uint32_t> constants_;     ///< Of scalars, by name.
  std::unordered_map<std::uint32_t, ListingSpace> pointers_;       ///< Where they lead, by name.
  std::vector<std::uint64_t> defined_;                             ///< A bit per virtual name.
};

}  // namespace tpu::isa
