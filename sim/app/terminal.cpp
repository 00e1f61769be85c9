#include "sim/app/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

namespace tpu::app {
namespace {

constexpr int kNarrow = 40;
constexpr int kWide = 140;
constexpr int kDefaultWidth = 110;

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

int width() {
  const int stated = stated_width();
  return stated > 0 ? std::min(stated, kWide) : kDefaultWidth;
}

bool is_unicode() {
  std::string locale;
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    if (locale.empty()) locale = environment(name);
  }
  return locale.find("UTF-8") != std::string::npos || locale.find("utf8") != std::string::npos ||
         locale.find("UTF8") != std::string::npos;
}

bool has_color(const std::string& when) {
  if (when != "auto") return when == "always";
  return ::isatty(STDOUT_FILENO) != 0 && environment("NO_COLOR").empty() &&
         environment("TERM") != "dumb";
}

}  // namespace

int stated_width() {
  const int stated = std::atoi(environment("COLUMNS").c_str());
  if (stated > 0) return std::max(stated, kNarrow);
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    return std::max<int>(size.ws_col, kNarrow);
  }
  return 0;
}

report::TextStyle text_style(const std::string& when) {
  report::TextStyle style;
  style.width = width();
  style.unicode = is_unicode();
  style.color = has_color(when);
  return style;
}

}  // namespace tpu::app
