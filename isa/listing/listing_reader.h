#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "isa/listing/packed_listing.h"
#include "isa/listing/unknown_instruction.h"
#include "isa/program.h"

namespace tpu::isa {

/// Whether code has the virtual names of XLA's listings: only runs that compute values check them,
/// and they are two fifths of what code takes.
enum class CodeNames : std::uint8_t { kAll, kNone };

/// Where the relative addresses of a kernel begin. Offsets of the top-level program are absolute.
struct ListingPlacement {
  std::uint32_t smem_word = 0;
  std::uint32_t sync_flag = 0;
  /// Empty cycles of the schedule stand in the final bundles (vdelay), so that their cycles are
  /// those of the other file; else interlocks stand for them (CodeConventions), and neither the
  /// ranges of regions nor the length can be compared.
  bool keeps_empty_cycles = true;
  /// Patterns of shuffles have a hexadecimal digit for each sublane, from v4 on; else an octal one.
  bool hexadecimal_patterns = false;
  CodeNames names = CodeNames::kAll;
};

/// An operand that holds an address in an HBM allocation. The reader leaves the distance from the
/// begin of the allocation, in granules, as the immediate; the linker adds where it lies.
struct HbmReference {
  std::uint32_t instruction = 0;
  std::uint8_t operand = 0;
  std::uint32_t allocation = 0;
};

/// A declaration `inlined_call_operand`: a scalar register holds an operand when the kernel starts.
struct ListingOperand {
  enum class Space : std::uint8_t { kValue, kHbm, kCmem, kSmem };
  Space space = Space::kHbm;
  std::int32_t index = 0;  ///< Among the operands of the call; -1: a table of them in SMEM.
  std::uint8_t reg = 0;
  std::uint32_t name = 0;
  std::string kind;   ///< "input", "output", "const".
  std::string shape;  ///< HLO text.
};

/// An `inlined_call`. The operand of the instruction is the number of the call within the listing.
struct ListingCall {
  std::uint32_t bundle = 0;
  std::uint32_t instruction = 0;
  std::string callee;                 ///< HLO name: "fusion.12" or "<late-initialization>".
  std::string hlo_opcode;             ///< "fusion"; empty for runtime code.
  std::vector<std::string> operands;  ///< HLO names.
  std::vector<std::pair<std::uint8_t, std::uint32_t>> operand_names;  ///< Register, virtual name.
};

/// A branch and the region that it goes to.
struct ListingBranch {
  std::uint32_t bundle = 0;
  std::uint32_t region = 0;
};

/// One listing: a kernel with branches and on-chip addresses resolved, HBM addresses and calls not
/// yet linked.
struct Listing {
  Kernel kernel;
  std::vector<ListingCall> calls;
  std::vector<ListingBranch> branches;
  std::vector<ListingOperand> operands;
  std::vector<HbmReference> hbm_references;
};

/// Reads a `*-final_bundles.txt` of libtpu 0.0.42.1. Strict: what no listing of that version holds
/// is refused with WorkloadError, `file:line:column: expected ..., found ...`. The virtual names
/// stand in Kernel::names (number 0 goes unchecked); a push of a queue has its name as `dest`, a
/// pop the name of its push, and vperm that of its pattern, behind the names of its operands. Names
/// that nothing in the listing defines are left out: a few listings read them. Without names the
/// instructions are the same.
///
/// Not instructions of the machine and dropped: vnop, compiler-scheduling-barrier,
/// inlined_call_operand, and instructions guarded by the constant 0. vdelay becomes Bundle::delay.
/// phi becomes a renaming, int_to_ptr between two registers smov and within one a second name,
/// which the first replaces; `smov (p, a), b` becomes scalar_select p, b, a; `reloc 0` becomes smov
/// 0.
///
/// An instruction that the table lacks is refused; with `unknown` it is added there and left out of
/// the kernel, so that all of a program can be told at once (refuse_unknown()).
Listing read_listing(std::string_view text, const std::string& file, const PackedListing& packed,
                     const ListingPlacement& placement,
                     std::vector<UnknownInstruction>* unknown = nullptr);

}  // namespace tpu::isa
