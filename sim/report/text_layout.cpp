#include "sim/report/text_layout.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <numeric>
#include <sstream>

#include "sim/base/ceil_divide.h"

namespace tpu::report {
namespace {

constexpr const char* kBarColor = "\033[36m";
constexpr const char* kHeading = "\033[1m";
constexpr const char* kPlain = "\033[0m";

/// Bytes of the character or escape sequence at a place, and the columns that it takes.
std::pair<std::size_t, int> character(const std::string& text, std::size_t at) {
  if (text[at] == '\033') {
    const std::size_t end = text.find('m', at);
    return {(end == std::string::npos ? text.size() : end + 1) - at, 0};
  }
  std::size_t bytes = 1;
  while (at + bytes < text.size() &&
         (static_cast<unsigned char>(text[at + bytes]) & 0xc0) == 0x80) {
    ++bytes;
  }
  return {bytes, 1};
}

int display_width(const std::string& text) {
  int width = 0;
  for (std::size_t at = 0; at < text.size();) {
    const auto [bytes, columns] = character(text, at);
    at += bytes;
    width += columns;
  }
  return width;
}

/// Where a line goes on below: under its last part that stands apart, in the left half, or two
/// columns in from its beginning.
std::size_t hanging(const std::string& line, int width) {
  const std::size_t begin = line.find_first_not_of(' ');
  const std::size_t apart = line.rfind("   ", static_cast<std::size_t>(width) * 6 / 10);
  if (apart == std::string::npos || apart < begin) return begin + 2;
  const std::size_t part = line.find_first_not_of(' ', apart);
  return part < static_cast<std::size_t>(width) * 8 / 10 ? part : begin + 2;
}

/// The last blank at which the line can be broken to fit; where there is none, the first one
/// `beyond`, or npos.
std::size_t break_of(const std::string& line, std::size_t indent, int width, bool beyond) {
  std::size_t best = std::string::npos;
  int column = 0;
  for (std::size_t at = 0;
       at < line.size() && (column <= width || (beyond && best == std::string::npos));) {
    if (line[at] == ' ' && at > indent && line.find_first_not_of(' ', at) != std::string::npos) {
      best = at;
    }
    const auto [bytes, columns] = character(line, at);
    at += bytes;
    column += columns;
  }
  return best;
}

/// Where a word that is wider than the line goes on below: behind the last of its separators that
/// fits; npos where there is none, for a name is never cut.
std::size_t cut_of(const std::string& line, std::size_t indent, int width) {
  std::size_t best = std::string::npos, at = 0;
  for (int column = 0; at < line.size();) {
    const auto [bytes, columns] = character(line, at);
    if (column + columns > width) break;
    column += columns;
    at += bytes;
    if (at > indent && std::string("/,;=)]").find(line[at - 1]) != std::string::npos) best = at;
  }
  return best;
}

std::string fit_line(std::string line, int width) {
  std::string fitted_lines;
  if (display_width(line) <= width) return line + "\n";
  std::size_t indent = hanging(line, width);
  const std::size_t least = std::min(line.find_first_not_of(' ') + 2, indent);
  while (display_width(line) > width) {
    std::size_t at = break_of(line, indent, width, false);
    std::string rest;
    if (at != std::string::npos) {
      rest = line.substr(line.find_first_not_of(' ', at));
    } else if (indent > least && line.find_first_not_of(' ') == indent) {
      indent = least;  // A long word has more room further left.
      line = std::string(indent, ' ') + line.substr(line.find_first_not_of(' '));
      continue;
    } else if (at = break_of(line, least, width, false);
               indent > least && at != std::string::npos) {
      indent = least;
      rest = line.substr(line.find_first_not_of(' ', at));
    } else {
      at = cut_of(line, indent, width);
      if (at == std::string::npos) at = break_of(line, indent, width, true);
      if (at == std::string::npos) break;
      rest = line.substr(line.find_first_not_of(' ', at));
    }
    std::string first = line.substr(0, at);
    first.erase(first.find_last_not_of(' ') + 1);
    fitted_lines += first + "\n";
    line = std::string(indent, ' ') + rest;
  }
  return fitted_lines + line + "\n";
}

}  // namespace

std::string grouped(std::uint64_t number) {
  std::string text = std::to_string(number);
  for (std::size_t at = text.size(); at > 3; at -= 3) text.insert(at - 3, ",");
  return text;
}

std::string short_number(double value) {
  const double size = std::abs(value);
  if (size >= 999.5) {
    const std::string text = grouped(static_cast<std::uint64_t>(std::llround(size)));
    return value < 0 ? "-" + text : text;
  }
  if (size == std::floor(size)) return fixed(value, 0);
  if (size >= 99.95) return fixed(value, 1);
  if (size >= 9.995) return fixed(value, 2);
  if (size >= 0.09995) return fixed(value, 3);
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, "%.3g", value);
  return buffer;
}

std::string short_bytes(double bytes) {
  const char* const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  while (bytes >= 1024 && unit + 1 < std::size(units)) {
    bytes /= 1024;
    ++unit;
  }
  return (unit == 0 ? fixed(bytes, 0) : fixed(bytes, 2)) + " " + units[unit];
}

std::string fixed(double value, int digits) {
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, "%.*f", digits, value);
  return buffer;
}

std::string percent(double fraction) { return fixed(100 * fraction, 1) + " %"; }

std::string left(std::string text, std::size_t width) {
  if (text.size() < width) text.append(width - text.size(), ' ');
  return text;
}
std::string right(const std::string& text, std::size_t width) {
  return text.size() < width ? std::string(width - text.size(), ' ') + text : text;
}

std::string short_time(double ms) {
  if (ms < 0.1) return short_number(ms * 1e3) + " us";
  if (ms < 1e4) return short_number(ms) + " ms";
  return short_number(ms / 1e3) + " s";
}

std::string fitted(const std::string& text, int width) {
  const auto most = static_cast<std::size_t>(std::max(20, width));
  return text.size() <= most ? text : text.substr(0, most - 2) + "..";
}

std::string bar(double fraction, int width, const TextStyle& style) {
  const double length = std::clamp(fraction, 0.0, 1.0) * width;
  if (!style.unicode) {
    return left(std::string(static_cast<std::size_t>(std::lround(length)), '#'),
                static_cast<std::size_t>(width));
  }
  static const char* const kEighths[] = {"",       "\u258f", "\u258e", "\u258d",
                                         "\u258c", "\u258b", "\u258a", "\u2589"};
  const long eighths = std::lround(length * 8);
  std::string text;
  for (long i = 0; i < eighths / 8; ++i) text += "\u2588";
  text += kEighths[eighths % 8];
  const long used = ceil_divide(eighths, 8);
  if (style.color) text = kBarColor + text + kPlain;
  return text + std::string(static_cast<std::size_t>(width - used), ' ');
}

int bar_width(const TextStyle& style) { return std::clamp(style.width - 40, 10, 40); }

std::string columns(const std::vector<std::vector<std::string>>& rows, int width) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()), 0);
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  const std::size_t all = std::accumulate(widths.begin(), widths.end(), std::size_t{2});
  const bool is_wide = width > 0 && all + 3 * (widths.size() - 1) > static_cast<std::size_t>(width);
  const std::string gap(is_wide ? 2 : 3, ' ');
  std::string text;
  std::size_t begin = 1, end = 1;
  do {  // As many columns as fit, the first in front of them; the others below.
    std::size_t used = widths.empty() ? 0 : 2 + widths[0];
    for (end = begin; end < widths.size(); ++end) {
      used += gap.size() + widths[end];
      if (end > begin && is_wide && used > static_cast<std::size_t>(width)) break;
    }
    if (begin > 1) text += "\n";
    for (const auto& row : rows) {
      std::string one = row.empty() ? "" : "  " + left(row[0], widths[0]);
      for (std::size_t i = begin; i < std::min(end, row.size()); ++i) {
        one += gap + right(row[i], widths[i]);
      }
      one.erase(one.find_last_not_of(' ') + 1);
      text += one + "\n";
    }
    begin = end;
  } while (end < widths.size());
  return text;
}

std::string fit_to_width(const std::string& text, const TextStyle& style) {
  std::string fitted_text;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const bool is_heading = style.color && !line.empty() && line[0] != ' ';
    std::string fitted_line = fit_line(line, style.width);
    if (is_heading) {
      fitted_line.pop_back();
      fitted_line = kHeading + fitted_line + kPlain + "\n";
    }
    fitted_text += fitted_line;
  }
  return fitted_text;
}

}  // namespace tpu::report
