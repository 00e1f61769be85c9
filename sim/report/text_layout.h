#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tpu::report {

/// How a report is drawn.
struct TextStyle {
  bool unicode = true;  ///< Bars of block characters; otherwise of '#'.
  int width = 100;      ///< Columns of the terminal.
  bool color = false;   ///< Headings bold, bars coloured, by escape sequences.
};

/// "1,234,567".
std::string grouped(std::uint64_t number);
/// A quantity with three or four significant digits: "0.0123", "12.3", "1,234".
std::string short_number(double value);
/// "1.23 GiB".
std::string short_bytes(double bytes);
/// A time with the unit that suits it: "12.3 us", "1.23 ms", "1.23 s".
std::string short_time(double ms);
std::string fixed(double value, int digits);
std::string percent(double fraction);

/// Padded with blanks to the width, text to the left or to the right.
std::string left(std::string text, std::size_t width);
std::string right(const std::string& text, std::size_t width);
/// A text cut to the width (at least 20), its end replaced by "..".
std::string fitted(const std::string& text, int width);
/// Columns of the bars of a report: 40 from 80 columns on.
int bar_width(const TextStyle& style);
/// A bar of `width` columns for a fraction, in eighths of a column where the terminal can.
std::string bar(double fraction, int width, const TextStyle& style);
/// Rows of text cells as columns: the first to the left, the others to the right. A blank closer
/// together where they are wider than `width` (0: any width will do); what is wider even so goes on
/// below as a table of its own, the first column again in front of it.
std::string columns(const std::vector<std::vector<std::string>>& rows, int width = 0);

/// The text without a line wider than the style's width: what is wider goes on below, under the
/// last part of its line that stands apart by three blanks, or indented. Lines are broken at
/// blanks, a word of more than a line behind one of "/,;=)]".
/// With colour, lines that begin at the margin are headings.
std::string fit_to_width(const std::string& text, const TextStyle& style);

}  // namespace tpu::report
