#pragma once

#include <type_traits>

namespace tpu {

/// The least whole number not below `amount` / `by`, for a positive `by`.
template <typename Amount, typename By>
constexpr std::common_type_t<Amount, By> ceil_divide(Amount amount, By by) {
  return amount / by + (amount % by > 0 ? 1 : 0);
}

/// The least multiple of `of` not below `amount`, for a positive `of`.
template <typename Amount, typename Of>
constexpr std::common_type_t<Amount, Of> round_up(Amount amount, Of of) {
  return ceil_divide(amount, of) * of;
}

}  // namespace tpu
