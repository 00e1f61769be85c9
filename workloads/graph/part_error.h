#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "sim/base/error.h"

namespace tpu::hlo {

/// A part of HLO text (a shape, replica groups) that is not what it should be. Who reads the whole
/// text turns it into an error with file and line.
class PartError : public WorkloadError {
 public:
  /// `what` the text should be, and what was expected at a position of it.
  PartError(const std::string& what, std::string_view text, std::size_t position,
            std::string expected)
      : WorkloadError(what + " \"" + std::string(text.substr(0, 120)) + "\", column " +
                      std::to_string(position + 1) + ": expected " + expected + ", found " +
                      (position < text.size() ? "\"" + std::string(text.substr(position, 16)) + "\""
                                              : std::string("the end of the text"))),
        position_(position),
        expected_(std::move(expected)) {}
  std::size_t position() const { return position_; }
  const std::string& expected() const { return expected_; }

 private:
  std::size_t position_;
  std::string expected_;
};

}  // namespace tpu::hlo
