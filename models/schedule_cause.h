#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace tpu {

/// What made the schedule need a cycle in which the core runs: a bundle issues, or none may yet.
enum class ScheduleCause : std::uint8_t {
  // A port or slot that takes no more: only more of it, or less work for it, makes the code
  // shorter.
  kMxuPush,    ///< Ports of an MXU for operands and results: eight rows in eight cycles.
  kWeights,    ///< The port of an MXU for weights, and the matmul that waits for the last of them.
  kXlu,        ///< The port of the XLU.
  kEup,        ///< The port of the EUP.
  kLoad,       ///< The vector load slot.
  kStore,      ///< The vector store slot.
  kVectorAlu,  ///< Both vector ALU slots.
  kScalar,     ///< Both scalar slots.
  kOtherSlot,  ///< The slots for pushes, pops, DMAs and sync flags.
  // A result that is not there yet.
  kMxuResult,
  kXluResult,
  kEupResult,
  kLoadResult,
  kVectorResult,
  kScalarResult,
  kFillAndDrain,  ///< A unit's results before and behind a stretch in which its port is taken.
  kContact,       ///< The bundle behind a DMA start or a wait, which keep their place in the code.
  kBranch,        ///< The delay slot of a branch.
  kUnforced,   ///< Nothing of these: registers that are taken, or a schedule that could be shorter.
  kSlowClock,  ///< Not of the schedule: cycles of the machine that a chip of a slower clock leaves
               ///< out.
  kCount
};
constexpr std::size_t kScheduleCauses = static_cast<std::size_t>(ScheduleCause::kCount);
/// "mxu_push", as in reports and files.
const char* to_string(ScheduleCause cause);

using ScheduleCauseCycles = std::array<std::uint64_t, kScheduleCauses>;

}  // namespace tpu
