#pragma once

#include <functional>
#include <string>
#include <utility>
#include <variant>

#include "sim/base/error.h"
#include "workloads/compiler/kernels/lowering.h"

namespace tpu::compiler {

/// Why there is no kernel for what was asked.
struct Refusal {
  std::string why;
};

/// What was found, or why there is none. Whoever asks what kernels there are goes on without it;
/// whoever needs it throws the reason.
template <class T>
class OrRefusal {
 public:
  // NOLINTNEXTLINE(google-explicit-constructor): a function returns either as it is.
  OrRefusal(T value) : found_(std::move(value)) {}
  // NOLINTNEXTLINE(google-explicit-constructor)
  OrRefusal(Refusal refusal) : found_(std::move(refusal)) {}

  explicit operator bool() const { return std::holds_alternative<T>(found_); }
  T& operator*() { return std::get<T>(found_); }
  T* operator->() { return &std::get<T>(found_); }
  /// Of what was not found.
  const Refusal& refusal() const { return std::get<Refusal>(found_); }
  /// The value; throws WorkloadError where there is none.
  T value() && {
    if (!*this) throw WorkloadError(refusal().why);
    return std::move(std::get<T>(found_));
  }

 private:
  std::variant<T, Refusal> found_;
};

/// How a kernel is made whose blocks are chosen: a kernel may be asked for without making it.
using KernelPlan = std::function<LoweredKernel()>;

}  // namespace tpu::compiler
