#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "models/schedule_cause.h"

namespace tpu {

/// What the time of a run goes to, as far as a machine could have more of it.
enum class Resource : std::uint8_t {
  kMxu,      ///< Ports of the matrix units: operands, results, weights.
  kVector,   ///< Slots of the vector unit, XLU, EUP.
  kLatency,  ///< The rest of what the schedule needs: results, branches, scalar code.
  kHbm,
  kHost,  ///< Infeed and outfeed.
  kIci,   ///< What is on its way between cores.
  kCount
};
constexpr std::size_t kResources = static_cast<std::size_t>(Resource::kCount);
/// Of these, the first ones take the time in which a core runs.
constexpr std::size_t kCoreResources = 3;
/// "MXU", as in reports and files.
const char* to_string(Resource resource);
constexpr Resource resource_of(ScheduleCause cause) {
  if (cause <= ScheduleCause::kWeights) return Resource::kMxu;
  return cause <= ScheduleCause::kVectorAlu ? Resource::kVector : Resource::kLatency;
}

using CyclesByResource = std::array<std::uint64_t, kResources>;

}  // namespace tpu
