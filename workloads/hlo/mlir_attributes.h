#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "workloads/hlo/hlo_cursor.h"

namespace tpu::hlo {

/// The attributes of one operation of MLIR text, by name, as the text has them; what is read of
/// them fails at their own place in the text.
class MlirAttributes {
 public:
  MlirAttributes(const HloCursor& cursor, const char* place) : cursor_(&cursor), place_(place) {}

  void set(std::string_view name, std::string_view value) { values_[name] = value; }
  /// Reads `name = value, name` behind an opening brace up to and with `closing`.
  void read_dictionary(HloCursor& cursor, std::string_view closing);

  bool has(std::string_view name) const { return values_.count(name) > 0; }
  /// Fails at the operation where it has no such attribute.
  std::string_view text(std::string_view name) const;
  std::string_view text_or(std::string_view name, std::string_view absent) const;
  /// `true`, or a name without a value.
  bool flag(std::string_view name) const;
  std::int64_t integer(std::string_view name) const;
  /// `[1, 2]`, `array<i64: 1, 2>`, `dense<[[1], [2]]> : tensor<2x1xi64>` or one number; of a splat,
  /// as many as its type says. Empty where there is no such attribute.
  std::vector<std::int64_t> integers(std::string_view name) const;
  const std::map<std::string_view, std::string_view>& all() const { return values_; }

  [[noreturn]] void fail(const std::string& expected) const { cursor_->fail_at(place_, expected); }
  [[noreturn]] void fail_in(std::string_view name, const std::string& expected) const {
    cursor_->fail_in(text(name), expected);
  }

 private:
  const HloCursor* cursor_;
  const char* place_;  ///< Of the operation.
  std::map<std::string_view, std::string_view> values_;
};

/// Text up to one of `ends` outside all brackets and quotes; "->" is no bracket.
std::string_view mlir_value(HloCursor& cursor, std::string_view ends);

/// All whole numbers of a list; `true` is 1.
std::vector<std::int64_t> mlir_integers(const HloCursor& cursor, std::string_view text);

}  // namespace tpu::hlo
