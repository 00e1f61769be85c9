#include "sim/app/progress_bar.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "sim/app/printable_stream.h"

namespace tpu::app {
namespace {

constexpr std::chrono::milliseconds kDelay{1000};
constexpr std::chrono::milliseconds kInterval{100};
constexpr int kWidth = 40;

}  // namespace

ProgressBar::ProgressBar(const std::string& label)
    : label_(printable(label)),
      on_terminal_(::isatty(STDERR_FILENO) == 1),
      begin_(Clock::now()),
      last_(begin_) {}

ProgressBar::~ProgressBar() {
  if (shown_) std::fputs("\r\033[K", stderr);
}

void ProgressBar::update(double fraction, const std::string& detail) {
  if (!on_terminal_) return;
  const Clock::time_point now = Clock::now();
  if (now - begin_ < kDelay || now - last_ < kInterval) return;
  last_ = now;
  shown_ = true;
  fraction = std::clamp(fraction, 0.0, 1.0);
  const int filled = static_cast<int>(std::lround(fraction * kWidth));
  const std::string bar = std::string(static_cast<std::size_t>(filled), '#') +
                          std::string(static_cast<std::size_t>(kWidth - filled), ' ');
  std::fprintf(stderr, "\r%s [%s] %3.0f %% %s\033[K", label_.c_str(), bar.c_str(), 100 * fraction,
               detail.c_str());
  std::fflush(stderr);
}

}  // namespace tpu::app
