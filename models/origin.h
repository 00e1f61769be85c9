#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <stdexcept>

#include "sim/base/error.h"

namespace tpu {

/// Where a value comes from when values are off. Known values have the origin that a default
/// constructor makes, or are zeros in place of an input that nobody gave, and what follows from
/// them. Unknown values have the origin of what would have made them. What is computed from several
/// values keeps one of their origins, an unknown one if there is any.
class Origin {
 public:
  constexpr Origin() = default;
  /// Zeros in place of the contents of a buffer of the program.
  static constexpr Origin assumed(std::uint32_t buffer) { return Origin(kPadding + 1 + buffer); }
  /// Rows of a tile that nobody knows behind others that are known: a compiler moves few rows
  /// alone, and what it computes of the others it masks.
  static constexpr Origin padding() { return Origin(kPadding); }
  /// Memory that nothing wrote, or data of which no record is kept.
  static constexpr Origin nobody() { return Origin(kNobody); }
  /// Data that some instruction of a kernel made, nobody knows which one.
  static constexpr Origin kernel(std::uint32_t index) { return Origin(kNobody + 1 + index); }
  /// Data that an instruction made, by its number in the whole program.
  static constexpr Origin instruction(std::uint32_t number) {
    return Origin(kFirstInstruction + number);
  }

  constexpr bool known() const { return code_ < kNobody; }
  constexpr bool plain() const { return code_ == 0; }
  /// Equal for equal ones.
  constexpr std::uint32_t code() const { return code_; }
  constexpr std::optional<std::uint32_t> assumed() const {
    if (code_ <= kPadding || !known()) return std::nullopt;
    return code_ - kPadding - 1;
  }
  constexpr std::optional<std::uint32_t> kernel() const {
    if (code_ <= kNobody || code_ >= kFirstInstruction) return std::nullopt;
    return code_ - kNobody - 1;
  }
  constexpr std::optional<std::uint32_t> instruction() const {
    if (code_ < kFirstInstruction) return std::nullopt;
    return code_ - kFirstInstruction;
  }
  friend constexpr Origin operator|(Origin a, Origin b) { return a.code_ > b.code_ ? a : b; }
  friend constexpr bool operator==(Origin a, Origin b) { return a.code_ == b.code_; }
  friend constexpr bool operator<(Origin a, Origin b) { return a.code_ < b.code_; }
  friend constexpr bool operator!=(Origin a, Origin b) { return !(a == b); }

 private:
  static constexpr std::uint32_t kPadding = 1;
  static constexpr std::uint32_t kNobody = 1U << 31;
  static constexpr std::uint32_t kFirstInstruction = kNobody + (1U << 24);
  explicit constexpr Origin(std::uint32_t code) : code_(code) {}
  std::uint32_t code_ = 0;
};

/// Control depends on a value that is unknown with values off. The machine begins again and follows
/// the data that the value comes from; where there is none to follow, this is a fault of the
/// program. Where it would cost too much, the value is assumed instead.
class UnknownControl : public ProgramFault {
 public:
  UnknownControl(const std::string& message, Origin origin,
                 std::optional<std::uint32_t> followed_kernel = std::nullopt)
      : ProgramFault(message), origin_(origin), followed_kernel_(followed_kernel) {}
  Origin origin() const { return origin_; }
  /// The kernel that cannot be followed without the value; none where the scalar unit needs it.
  std::optional<std::uint32_t> followed_kernel() const { return followed_kernel_; }

 private:
  Origin origin_;
  std::optional<std::uint32_t> followed_kernel_;
};

/// Kernels are followed, but the address of a DMA is unknown all the same, as is all that reached
/// the scalar unit from data so far: it comes from where nobody looks, the infeed for one.
class FollowedInVain : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A kernel that is followed costs more than RunOptions::follow allows.
class FollowLimit : public std::runtime_error {
 public:
  FollowLimit(const std::string& message, std::uint32_t kernel, bool is_of_memory = false)
      : std::runtime_error(message), kernel_(kernel), is_of_memory_(is_of_memory) {}
  std::uint32_t kernel() const { return kernel_; }
  /// Not of instructions.
  bool is_of_memory() const { return is_of_memory_; }

 private:
  std::uint32_t kernel_;
  bool is_of_memory_;
};

}  // namespace tpu
