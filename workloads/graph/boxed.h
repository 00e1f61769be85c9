#pragma once

#include <memory>
#include <utility>

namespace tpu::hlo {

/// A value that most of its owners leave as it is made: a null pointer until it is written, then a
/// copy of its own. Keeps attributes that few instructions have from taking memory in all of them.
template <class Value>
class Boxed {
 public:
  Boxed() = default;
  explicit Boxed(Value value) : value_(std::make_unique<Value>(std::move(value))) {}
  Boxed(const Boxed& other)
      : value_(other.value_ ? std::make_unique<Value>(*other.value_) : nullptr) {}
  Boxed(Boxed&& other) noexcept = default;
  ~Boxed() = default;
  Boxed& operator=(const Boxed& other) {
    if (this != &other) value_ = other.value_ ? std::make_unique<Value>(*other.value_) : nullptr;
    return *this;
  }
  Boxed& operator=(Boxed&& other) noexcept = default;
  Boxed& operator=(Value value) {
    value_ = std::make_unique<Value>(std::move(value));
    return *this;
  }

  /// True once it is written.
  bool is_set() const { return value_ != nullptr; }
  const Value& get() const {
    static const Value kUnset{};
    return value_ ? *value_ : kUnset;
  }
  operator const Value&() const { return get(); }
  const Value* operator->() const { return &get(); }
  /// The value to write to.
  Value& edit() {
    if (!value_) value_ = std::make_unique<Value>();
    return *value_;
  }
  /// Back to what it was made as.
  void reset() { value_.reset(); }

  template <class Other>
  friend bool operator==(const Boxed& boxed, const Other& other) {
    return boxed.get() == other;
  }
  template <class Other>
  friend bool operator!=(const Boxed& boxed, const Other& other) {
    return boxed.get() != other;
  }

 private:
  std::unique_ptr<Value> value_;
};

}  // namespace tpu::hlo
