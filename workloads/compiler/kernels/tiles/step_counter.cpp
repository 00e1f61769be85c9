#include "workloads/compiler/kernels/tiles/step_counter.h"

#include <utility>

#include "sim/base/error.h"

namespace tpu::compiler {

StepCounter::StepCounter(KernelBuilder& builder, std::vector<std::uint32_t> extents, Digits digits)
    : builder_(builder), extents_(std::move(extents)), place_(digits), digits_(extents_.size()) {
  const auto count = static_cast<std::uint32_t>(extents_.size());
  if (place_ == Digits::kSmem) words_ = builder.allocate_smem(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    TPU_CHECK(extents_[i] > 0, "steps of nothing");
    if (extents_[i] == 1) continue;
    if (place_ == Digits::kSmem) {
      builder.store_smem(words_ + i, 0);
    } else {
      digits_[i] = builder.scalar_variable(0);
    }
  }
}

std::uint64_t StepCounter::steps() const {
  std::uint64_t steps = 1;
  for (std::uint32_t extent : extents_) steps *= extent;
  return steps;
}

std::vector<SReg> StepCounter::present() {
  std::vector<SReg> digits(extents_.size());
  for (std::uint32_t i = 0; i < extents_.size(); ++i) {
    if (extents_[i] == 1) continue;
    digits[i] = place_ == Digits::kSmem ? builder_.load_smem(words_ + i) : builder_.get(digits_[i]);
  }
  return digits;
}

std::vector<SReg> StepCounter::behind(const std::vector<SReg>& present, PReg moves) {
  std::vector<SReg> digits(extents_.size());
  PReg carry = moves;
  for (std::size_t i = extents_.size(); i-- > 0;) {
    if (extents_[i] == 1) continue;
    const SReg digit = present[i];
    const SReg incremented = builder_.add(digit, 1);
    const PReg wraps = builder_.equal(incremented, extents_[i]);
    const SReg moved = builder_.select(wraps, 0, incremented);
    digits[i] = carry ? builder_.select(carry, moved, digit) : moved;
    carry = carry ? builder_.and_(wraps, carry) : wraps;
  }
  return digits;
}

void StepCounter::advance(const std::vector<SReg>& next) {
  for (std::uint32_t i = 0; i < extents_.size(); ++i) {
    if (extents_[i] == 1) continue;
    if (place_ == Digits::kSmem) {
      builder_.store_smem(words_ + i, next[i]);
    } else {
      builder_.set(digits_[i], next[i]);
    }
  }
}

void loop_over_steps(KernelBuilder& builder, std::uint64_t steps, std::uint32_t at_once,
                     const std::function<void(SReg index)>& step) {
  if (steps % at_once != 0) at_once = 1;
  builder.loop(steps / at_once, [&](SReg index) {
    const SReg first = at_once > 1 ? builder.mul(index, at_once) : index;
    for (std::uint32_t i = 0; i < at_once; ++i) step(i > 0 ? builder.add(first, i) : first);
  });
}

SReg weighted_sum(KernelBuilder& builder, const std::vector<SReg>& digits,
                  const std::vector<std::uint32_t>& distances, SReg base) {
  SReg sum = base;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (!digits[i] || distances[i] == 0) continue;
    const SReg term = builder.mul(digits[i], distances[i]);
    sum = sum ? builder.add(sum, term) : term;
  }
  return sum;
}

}  // namespace tpu::compiler
