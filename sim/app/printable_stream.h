#pragma once

#include <ostream>
#include <streambuf>
#include <string>
#include <string_view>

namespace tpu::app {

/// Makes the text that it is given, piece by piece, harmless for a terminal: names of operations
/// and files come from files that anybody may have written.
///
/// Control characters but the ends of lines and tabs become "\u001b", which JSON reads as what it
/// was. Where a report may be coloured, colours and weights go through as they are.
class PrintableText {
 public:
  explicit PrintableText(bool colours = false) : colours_(colours) {}

  /// Appends what `text` becomes to `to`; what may be the beginning of a colour waits for the rest.
  void append(std::string_view text, std::string& to);
  /// Appends what still waits.
  void finish(std::string& to);

 private:
  void append_byte(char byte, std::string& to);

  bool colours_;
  std::string held_;      ///< From an escape character on, or the first half of a control.
  int continuation_ = 0;  ///< Bytes that the character of UTF-8 still has.
};

/// A text that is whole.
std::string printable(std::string_view text);

/// While it lives, what is written to a stream is printable, and no line wider than asked for.
class PrintableStream : public std::streambuf {
 public:
  explicit PrintableStream(std::ostream& stream, bool colours = false);
  ~PrintableStream() override;
  PrintableStream(const PrintableStream&) = delete;
  PrintableStream& operator=(const PrintableStream&) = delete;

  /// Before the first text.
  void let_colours_through(bool colours) { text_ = PrintableText(colours); }
  /// From now on lines of text are broken at blanks to fit so many columns; 0: as they are.
  void fit_lines_to(int width) { width_ = width; }
  /// Whether text was lost because there was no memory for it.
  bool memory_ran_out() const { return memory_ran_out_; }

 protected:
  int_type overflow(int_type byte) override;
  std::streamsize xsputn(const char* text, std::streamsize count) override;
  int sync() override;

 private:
  bool pass_on(const std::string& text);
  bool pass_on_fitted();

  std::ostream& stream_;
  std::streambuf* target_;
  PrintableText text_;
  std::string buffer_, lines_;
  int width_ = 0;
  bool memory_ran_out_ = false;
};

}  // namespace tpu::app
