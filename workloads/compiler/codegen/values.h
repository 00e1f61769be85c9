#pragma once

#include <cstdint>
#include <cstring>

namespace tpu::compiler {

/// The register files of a core.
enum class RegisterFile : std::uint8_t { kScalar, kVector, kPredicate, kMask };

/// A value that one instruction of a kernel computes: a handle, assigned once. The register comes
/// with the schedule.
template <RegisterFile File>
struct Value {
  static constexpr RegisterFile kFile = File;
  std::uint32_t id = 0;  ///< 0: none.
  explicit operator bool() const { return id != 0; }
  friend bool operator==(Value a, Value b) { return a.id == b.id; }
  friend bool operator!=(Value a, Value b) { return a.id != b.id; }
};

using SReg = Value<RegisterFile::kScalar>;
using VReg = Value<RegisterFile::kVector>;
using PReg = Value<RegisterFile::kPredicate>;
using MReg = Value<RegisterFile::kMask>;

/// A variable that may be assigned more than once: it keeps one register over its whole life.
/// Blocks of a loop's body see what the iteration before assigned.
template <RegisterFile File>
struct Variable {
  static constexpr RegisterFile kFile = File;
  std::uint32_t index = 0xffffffff;
};

using SVariable = Variable<RegisterFile::kScalar>;
using VVariable = Variable<RegisterFile::kVector>;

inline std::uint32_t float_bits(float value) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

/// A scalar source: a register or an immediate of 32 bits.
struct ScalarOperand {
  SReg reg;
  std::uint32_t immediate = 0;
  ScalarOperand(SReg value) : reg(value) {}
  ScalarOperand(int value) : immediate(static_cast<std::uint32_t>(value)) {}
  ScalarOperand(std::uint32_t value) : immediate(value) {}
  ScalarOperand(std::uint64_t value) : immediate(static_cast<std::uint32_t>(value)) {}
  ScalarOperand(std::int64_t value) : immediate(static_cast<std::uint32_t>(value)) {}
};

/// A vector source: a register, or an immediate that every element gets. A float is its bits, an
/// integer itself.
struct VectorOperand {
  VReg reg;
  std::uint32_t immediate = 0;
  VectorOperand(VReg value) : reg(value) {}
  VectorOperand(float value) : immediate(float_bits(value)) {}
  VectorOperand(std::uint32_t value) : immediate(value) {}
  VectorOperand(int value) : immediate(static_cast<std::uint32_t>(value)) {}
};

/// A predicate, or its negation, or a constant.
struct PredicateOperand {
  PReg reg;
  bool negated = false;
  bool constant = true;
  PredicateOperand(PReg value, bool is_negated = false) : reg(value), negated(is_negated) {}
  PredicateOperand(bool value) : constant(value) {}
};
inline PredicateOperand not_(PReg value) { return {value, true}; }

/// A range of VMEM rows that one purpose owns. Accesses to different regions never depend on each
/// other.
struct VmemRegion {
  std::uint32_t id = 0;  ///< 0: none: may be anywhere.
  std::uint32_t row = 0;
  std::uint32_t rows = 0;
};

/// Where a vector load or store goes: row region.row + base + base2 + offset, then sublane_stride
/// rows from sublane to sublane; sublanes outside the mask are loaded as 0 and not stored.
struct VmemAddress {
  VmemRegion region;
  std::int32_t offset = 0;
  SReg base;
  SReg base2;
  std::int32_t sublane_stride = 1;
  std::uint8_t sublane_mask = 0xff;
  SReg mask_register;  ///< In place of sublane_mask when set.

  VmemAddress() = default;
  VmemAddress(VmemRegion where, std::int64_t rows = 0, SReg first = {}, SReg second = {})
      : region(where), offset(static_cast<std::int32_t>(rows)), base(first), base2(second) {}
  VmemAddress stride(std::int32_t rows) const {
    VmemAddress address = *this;
    address.sublane_stride = rows;
    return address;
  }
  VmemAddress mask(std::uint8_t sublanes) const {
    VmemAddress address = *this;
    address.sublane_mask = sublanes;
    return address;
  }
  VmemAddress plus(std::int64_t rows) const {
    VmemAddress address = *this;
    address.offset += static_cast<std::int32_t>(rows);
    return address;
  }
};

}  // namespace tpu::compiler
