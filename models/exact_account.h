#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "models/part_account.h"

namespace tpu {

/// The account of a part as the part counts it: a wire in fractions of a cycle, which are rounded
/// so that the whole cycles add up.
struct ExactAccount : PartAccount {
  ExactAccount(PartAccount account) : PartAccount(std::move(account)) {}  // NOLINT: as it is.

  __extension__ using Count = unsigned __int128;  // Of a run of years.
  std::vector<Count> fractions;                   ///< Of a wire: instead of `cycles`.
  std::uint64_t fractions_of_cycle = 1;

  void round_fractions() {
    Count sum = 0, whole = 0;
    for (std::size_t i = 0; i < fractions.size(); ++i) {
      sum += fractions[i];
      cycles[i].second = static_cast<std::uint64_t>(sum / fractions_of_cycle - whole);
      whole = sum / fractions_of_cycle;
    }
  }
};
using ExactAccounts = std::vector<ExactAccount>;

}  // namespace tpu
