#pragma once

#include <chrono>
#include <string>

namespace tpu::app {

/// A line on stderr that shows how far the work is: only on a terminal, only once the work has
/// taken longer than a second, erased at the end.
class ProgressBar {
 public:
  explicit ProgressBar(const std::string& label);
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  /// `detail` stands behind the bar.
  void update(double fraction, const std::string& detail = "");

 private:
  using Clock = std::chrono::steady_clock;
  std::string label_;
  bool on_terminal_;
  bool shown_ = false;
  Clock::time_point begin_, last_;
};

}  // namespace tpu::app
