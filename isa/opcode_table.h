#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "isa/instruction.h"
#include "isa/opcode.h"

namespace tpu::isa {

/// The latencies of a machine that are parameters of its units; those that are part of the
/// instruction set stand in the table. Defaults: what XLA's schedules for v2 and v3 assume (minimum
/// distances over 800,000 bundles; the two chips do not differ).
struct Latencies {
  std::uint32_t matmul_cycles = 105;      ///< vmatmul to its vpop.
  std::uint32_t mxu_interval_cycles = 8;  ///< Push to push, and pop to pop, on one MXU.
  std::uint32_t xlu_cycles = 92;          ///< Reduction, rotation or permutation to its vpop.
  std::uint32_t xlu_interval_cycles = 8;  ///< Push to push on one XLU.
  std::uint32_t transpose_cycles = 1;     ///< The last push of a transpose to its first vpop.
  std::uint32_t eup_cycles = 4;           ///< Transcendental push to its vpop.
  std::uint32_t cmem_cycles = 53;         ///< cld to its vpop.crf, in schedules for v4.

  static Latencies v2() { return {}; }
  static Latencies v3() { return {}; }
};

/// One row of opcodes.def, with what follows from its signature.
struct OpcodeInfo {
  Opcode opcode = Opcode::kCount;
  std::string_view text;  ///< Mnemonic; {u} stands for the number of the unit.
  Slot slot = Slot::kMisc;
  std::string_view signature;
  UnitKind unit = UnitKind::kScalar;
  Queue queue = Queue::kNone;  ///< What it pushes into, or pops when `pops`.
  Latency latency = Latency::kNone;
  Status status = Status::kGuessed;
  std::string_view meaning;

  bool has_unit = false;                ///< The mnemonic carries a unit number.
  bool pops = false;                    ///< Takes its result from `queue`.
  char dest_file = 0;                   ///< 's', 'v', 'p', 'm', or 0 for none.
  std::uint8_t operand_count = 0;       ///< Operands without the address.
  std::array<char, 4> operand_files{};  ///< Letters of the signature: s v p m i L C.
  char address = 0;  ///< 'A' VMEM, 'a' SMEM, 'M' CMEM, 'D' strides, 'F' far end, 0 none.
  bool fits_misc_slot =
      false;  ///< Mask logic: in the misc slot when both vector ALU slots are taken.
  bool takes_smem_port = false;  ///< sld, sst, DMA starts and waits: one of them in a bundle.
  bool loads = false;            ///< Reads the memory at its address; otherwise writes it.
};

const OpcodeInfo& info(Opcode opcode);

/// "vmem", "smem" or "cmem": where the address of an instruction that has one points; "strides"
/// where it is none, but strides of a DMA, "far" where it is the far end of one.
std::string_view memory_of_address(const OpcodeInfo& row);

/// An opcode with the number of its unit.
struct OpcodeAndUnit {
  Opcode opcode = Opcode::kCount;
  std::uint8_t unit = 0;
};

/// Largest unit number + 1 that a mnemonic may carry (MXUs, XLUs, index address registers).
constexpr int kMaxUnits = 4;

/// "vmatpush.msra.mxu1" -> kVmatpush, unit 1; nothing when there is no such mnemonic.
std::optional<OpcodeAndUnit> find_opcode(std::string_view text);

/// The mnemonic with its unit number.
std::string opcode_text(Opcode opcode, std::uint8_t unit = 0);

/// The mnemonic nearest to a misspelt one, for error messages.
std::string nearest_opcode_text(std::string_view text);

/// Cycles from the issue of `producer` to the first bundle that may read its destination, or for a
/// push to the first bundle that may pop its result. 0: no result. No reader has a latency of its
/// own: XLA mostly leaves a cycle between a sum or product and vpack, but not always.
std::uint32_t result_latency(Opcode producer, const Latencies& latencies = {});

/// True when the core tolerates a reader before result_latency() has passed. XLA keeps two cycles
/// from a scalar load to its reader, but one where int_to_ptr, which is no instruction, stands
/// between them; both run on silicon. So the load is held back or forwarded: which, and whether it
/// costs a cycle, no listing tells.
inline bool is_interlocked(Opcode producer) { return producer == Opcode::kSld; }

/// Cycles from one instruction of this kind to the next on the same unit (of the same number).
/// Pushes of operands and pops of results keep separate intervals.
std::uint32_t issue_interval(Opcode opcode, const Latencies& latencies = {});

/// True when programs have confirmed the meaning by their values.
inline bool is_confirmed(Opcode opcode) { return info(opcode).status == Status::kConfirmed; }

/// True when the staged weights become active at the next vmatmul: vdwg and the .dwg forms.
bool swaps_weights(Opcode opcode);

/// What the multipliers of the MXU see of a word: fp32 rounded to bf16, or its high part (cut off)
/// or the high part of the rest.
enum class MultipliedPart { kRounded, kHigh, kLow };
MultipliedPart multiplied_part(Opcode opcode);

/// True for instructions of MXU and XLU that take sixteen rows of bf16, two in a sublane, instead
/// of eight of 32 bit.
bool takes_packed_rows(Opcode opcode);

/// True when pushed rows become columns of the weights.
bool pushes_transposed(Opcode opcode);

/// Which parts of an array an instruction of the MXU touches. An array of R x C blocks of 128x128
/// has R row parts (of the operand, the contracted dimension) and C column parts (of the results).
struct MxuParts {
  std::uint32_t row = 0;      ///< The part that a push is for.
  std::uint32_t column = 0;   ///< The part that a push of weights or a pop is for.
  std::uint32_t rows = 1;     ///< A vmatmul: parts of its operand; others: least parts needed.
  std::uint32_t columns = 1;  ///< A vmatmul: parts that get a result; others: least needed.
};
MxuParts parts_of(const Instruction& instruction);
/// The same by the immediates of the operands.
MxuParts parts_of(Opcode opcode, const std::array<std::uint32_t, 3>& numbers);

/// Largest count of row parts, and of column parts, of an array.
constexpr std::uint32_t kMaxMxuParts = 4;

/// True when the generation ("v2", "v3", "v4") has the instruction with this unit number: v2 has
/// one MXU, no fused .dwg and smul.u24 for smul.u32; v4 alone has CMEM and instructions on packed
/// rows.
bool generation_has(std::string_view chip, Opcode opcode, std::uint8_t unit = 0);

/// A number that changes when opcodes are added, moved or get other operands: stored programs carry
/// it, because their opcodes are rows of the table.
std::uint32_t table_fingerprint();

const char* to_string(Slot slot);
const char* to_string(UnitKind unit);
const char* to_string(Queue queue);
const char* to_string(Latency latency);
const char* to_string(Status status);

}  // namespace tpu::isa
