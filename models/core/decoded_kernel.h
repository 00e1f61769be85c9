#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "isa/program.h"
#include "models/core/followed_kernels.h"
#include "models/params.h"

namespace tpu {

/// The scalar state that control depends on, as one file: s0..s31, p0..p15 (0 or 1), what a branch
/// and a call decide, scratch for instructions of one bundle that need each other's old values, and
/// a zero.
namespace scalar_file {
constexpr std::uint8_t kPredicates = 32;
constexpr std::uint8_t kBranchTaken = 48;
constexpr std::uint8_t kCallTaken = 49;
constexpr std::uint8_t kScratch = 50;
constexpr std::uint8_t kScratchEnd = 63;
constexpr std::uint8_t kZero = 63;
constexpr std::size_t kSize = 64;
}  // namespace scalar_file

/// When an instruction acts: the register of the scalar file holds 1 (or 0, when negated).
struct DecodedGuard {
  std::uint8_t reg = scalar_file::kZero;
  bool holds_when = false;  ///< kZero and false: always.
  bool always() const { return reg == scalar_file::kZero; }
};

/// One instruction of the scalar slice. A scalar operand is register + immediate, a predicate
/// operand register xor immediate.
struct MicroOp {
  enum class Kind : std::uint8_t {
    kCompute,    ///< isa::scalar_result.
    kCompare,    ///< isa::scalar_comparison.
    kAdd,        ///< The most frequent ones of kCompute: dest = a + b,
    kOrWords,    ///< dest = a | b,
    kShift,      ///< dest = a << b.
    kLess,       ///< And of kCompare: dest = a < b.
    kCopy,       ///< dest = a.
    kCopyBit,    ///< dest = a, predicates.
    kSelect,     ///< dest = bit a ? b : c.
    kNand,       ///< Predicates.
    kOr,         ///< Predicates.
    kNot,        ///< Predicates.
    kLoad,       ///< dest = SMEM[a + b].
    kStore,      ///< SMEM[a + b] = c.
    kVpush,      ///< A value that only the vector unit knows enters the queue to the scalar unit;
                 ///< immediate[0]: number of the instruction in the kernel.
    kSpop,       ///< Pops that queue.
    kHalt,       ///< Stops with a fault.
    kQueueGuard  ///< Notes whether a guarded push or pop acts.
  };
  Kind kind = Kind::kCopy;
  isa::Opcode opcode = isa::Opcode::kSmov;
  std::uint8_t dest = scalar_file::kZero;
  std::array<std::uint8_t, 3> reg{scalar_file::kZero, scalar_file::kZero, scalar_file::kZero};
  DecodedGuard guard;
  std::array<std::uint32_t, 3> immediate{};
};

/// A scalar operand: register of the scalar file + immediate.
struct ScalarOperand {
  std::uint8_t reg = scalar_file::kZero;
  std::uint32_t immediate = 0;
};

/// What a bundle does with the outside, before anything else of it acts.
struct Interaction {
  isa::Opcode opcode = isa::Opcode::kDma;
  DecodedGuard guard;
  std::array<ScalarOperand, 4> operands;
  std::uint32_t instruction = 0;  ///< Number in the bundle.
};

/// A push into a queue or a pop out of one.
struct QueueOp {
  enum class Kind : std::uint8_t {
    kMxuPop,
    kXluPop,
    kTransposePop,
    kEupPop,
    kCmemPop,
    kScalarPop,
    kMxuRows,
    kMxuSwap,
    kMxuLatch,
    kMxuWeights,
    kXluPush,
    kTransposePush,
    kEupPush,
    kScalarPush,
    kCmemPush
  };
  Kind kind = Kind::kMxuPop;
  std::uint8_t unit = 0;
  bool guarded = false;       ///< Acts when the next bit of the queue guards says so.
  std::uint8_t part = 0;      ///< Row part of a latch, column part of weights and pops (MXU).
  std::uint16_t results = 0;  ///< Of a transpose push; column parts of a matmul.
  std::uint16_t blocks = 1;   ///< Of 128x128 that a matmul passes.
  bool packed = false;        ///< Sixteen rows instead of eight.
  bool swaps = false;         ///< The next matmul swaps in the weights that were pushed.
  std::uint32_t instruction = 0;
};

/// Registers for the latency check: s, v, p and m in one numbering.
namespace timed_register {
constexpr std::uint8_t kScalar = 0;
constexpr std::uint8_t kVector = 32;
constexpr std::uint8_t kPredicate = 64;
constexpr std::uint8_t kMask = 80;
constexpr std::size_t kCount = 96;
/// Of a register of the file 's', 'v', 'p' or 'm'.
constexpr std::uint8_t number(char file, std::uint8_t reg) {
  const std::uint8_t first = file == 's'   ? kScalar
                             : file == 'v' ? kVector
                             : file == 'p' ? kPredicate
                                           : kMask;
  return static_cast<std::uint8_t>(first + reg);
}
}  // namespace timed_register

/// Registers that a bundle reads, a bit each.
using ReadSet = std::array<std::uint32_t, 3>;

/// A write that the next bundle cannot see yet.
struct SlowWrite {
  std::uint8_t reg = 0;  ///< timed_register.
  std::uint8_t latency = 0;
};

/// What one bundle means to the sequencer.
struct DecodedBundle {
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  std::uint32_t first_op = 0;  ///< In DecodedKernel::ops; each list ends where the next bundle's
                               ///< begins.
  std::uint32_t first_interaction = 0;
  std::uint32_t first_queue_op = 0;
  std::uint32_t first_slow_write = 0;
  std::uint32_t delay = 0;
  std::uint32_t branch_target = kNone;
  std::uint32_t call_site = kNone;
  std::uint16_t guarded_queue_ops = 0;
  ReadSet reads{};
};

/// What most questions about an instruction ask: a large program's instructions do not fit the
/// caches of a processor, these do.
struct BriefInstruction {
  std::uint8_t opcode = 0;
  std::uint8_t dest = isa::kNoRegister;
  std::uint8_t guard = isa::kNoRegister;  ///< Predicate.

  BriefInstruction() = default;
  explicit BriefInstruction(const isa::Instruction& instruction)
      : opcode(static_cast<std::uint8_t>(instruction.opcode)),
        dest(instruction.dest),
        guard(instruction.guard.predicate) {
    static_assert(isa::kOpcodeCount <= 256);
  }
};

/// Instructions of a bundle by slot, a byte each: in one word, they stay in a register.
using SlotCounts = std::uint64_t;
inline std::uint32_t count_of(SlotCounts counts, isa::Slot slot) {
  return static_cast<std::uint32_t>(counts >> (8 * static_cast<unsigned>(slot)) & 0xff);
}
/// In counts of slots a one, and the top bit, of each byte; and what sets that where a slot has any
/// instruction, when it is added to them.
constexpr SlotCounts kLowestOfSlots = 0x0101'0101'0101'0101;
constexpr SlotCounts kTopOfSlots = 0x80 * kLowestOfSlots;
constexpr SlotCounts kAnySlotTaken = 0x7f * kLowestOfSlots;
/// By opcode, of an instruction alone; a table that is there before anything asks, as a million
/// instructions do.
extern const std::array<SlotCounts, isa::kOpcodeCount> kSlotCounts;

/// Those of a kernel, numbered as its instructions.
struct BriefCode {
  std::vector<BriefInstruction> instructions;
  const BriefInstruction* begin(const isa::Bundle& bundle) const {
    return instructions.data() + bundle.first_instruction;
  }
  const BriefInstruction* end(const isa::Bundle& bundle) const {
    return begin(bundle) + bundle.instruction_count;
  }
};

/// A kernel in the form that the core executes.
struct DecodedKernel {
  BriefCode brief;
  std::vector<DecodedBundle> bundles;  ///< One more than the kernel has: the end of the lists.
  std::vector<MicroOp> ops;
  std::vector<Interaction> interactions;
  std::vector<QueueOp> queue_ops;
  std::vector<SlowWrite> slow_writes;
};

/// Checks the program against the machine (throws WorkloadError) and decodes its kernels. Of the
/// scalar code only the backward slice of what reaches branches, calls, traps, SMEM, DMAs and sync
/// flags remains: with values off nothing else needs to be known. Liveness of registers over each
/// kernel's control flow, across calls: what a callee may read is live before the call, what any
/// caller may read is live at its end. SMEM is live as a whole. Kernels that are followed keep all
/// their scalar code.
std::vector<DecodedKernel> decode(const isa::Program& program, const MachineParams& params,
                                  const FollowedKernels& followed);

}  // namespace tpu
