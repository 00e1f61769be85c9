#pragma once

#include <array>
#include <cstdint>

#include "isa/opcode.h"

namespace tpu::isa {

constexpr int kScalarRegisters = 32;
constexpr int kVectorRegisters = 32;
constexpr int kPredicateRegisters = 16;
constexpr int kMaskRegisters = 16;
constexpr int kSublanes = 8;
constexpr int kLanes = 128;

/// No register: an absent destination, guard or address term.
constexpr std::uint8_t kNoRegister = 0xff;

/// The address units of the memories (the space decides what an address in a scalar register
/// counts).
constexpr std::uint32_t kHbmGranuleBytes =
    1024;  ///< HBM addresses and DMA sizes count granules of 1 KiB.
constexpr std::uint32_t kVmemRowBytes = 512;  ///< VMEM addresses count rows of 128 words of 32 bit.
constexpr std::uint32_t kSmemWordBytes = 4;   ///< SMEM addresses count words of 32 bit.

/// A source operand: a register of the file that the opcode's signature names, or an immediate of
/// 32 bits (an fp32 immediate is its bits).
struct Operand {
  enum class Kind : std::uint8_t { kNone, kRegister, kImmediate };
  Kind kind = Kind::kNone;
  std::uint8_t reg = kNoRegister;
  bool negated = false;  ///< Predicate operands only.
  std::uint32_t immediate = 0;

  static Operand register_(std::uint8_t reg, bool negated = false) {
    return {Kind::kRegister, reg, negated, 0};
  }
  static Operand immediate_(std::uint32_t value) {
    return {Kind::kImmediate, kNoRegister, false, value};
  }
  friend bool operator==(const Operand& a, const Operand& b) {
    return a.kind == b.kind && a.reg == b.reg && a.negated == b.negated &&
           a.immediate == b.immediate;
  }
};

/// The guard of an instruction: it acts only when the predicate register holds (or does not, when
/// negated).
struct Guard {
  std::uint8_t predicate = kNoRegister;
  bool negated = false;
  friend bool operator==(const Guard& a, const Guard& b) {
    return a.predicate == b.predicate && a.negated == b.negated;
  }
};

/// An address in VMEM (rows) or SMEM (words): the sum of up to two scalar registers and an offset;
/// in VMEM also the distance between sublanes in rows (`ss`), the mask of sublanes (`sm`, immediate
/// or scalar register) and the pattern of vld.sshfl. In a strided DMA `offset` is the stride of the
/// source, `sublane_stride` that of the destination and `pattern` the length of a run, in granules.
/// In a DMA to another core the first register has the flag of this core, the second names that.
struct Address {
  std::array<std::uint8_t, 2> base{kNoRegister, kNoRegister};
  std::uint8_t mask_register = kNoRegister;
  std::uint8_t sublane_mask = 0xff;
  std::int32_t offset = 0;
  std::int32_t sublane_stride = 1;
  std::uint32_t pattern = 0;
  friend bool operator==(const Address& a, const Address& b) {
    return a.base == b.base && a.mask_register == b.mask_register &&
           a.sublane_mask == b.sublane_mask && a.offset == b.offset &&
           a.sublane_stride == b.sublane_stride && a.pattern == b.pattern;
  }
};

/// One instruction with physical registers. The operands stand in the order of the signature,
/// without the address (letters A and a), which has its own member.
struct Instruction {
  Opcode opcode = Opcode::kVtrace;
  std::uint8_t unit = 0;
  std::uint8_t dest = kNoRegister;
  Guard guard;
  std::array<Operand, 4> operands;
  Address address;
  friend bool operator==(const Instruction& a, const Instruction& b) {
    return a.opcode == b.opcode && a.unit == b.unit && a.dest == b.dest && a.guard == b.guard &&
           a.operands == b.operands && a.address == b.address;
  }
};

/// The instructions that issue together, and the empty cycles that follow them (`vdelay`). All
/// instructions of a bundle read the state before the bundle, then all write.
struct Bundle {
  std::uint32_t first_instruction = 0;
  std::uint32_t instruction_count = 0;
  std::uint32_t delay = 0;
};

}  // namespace tpu::isa
