#include "sim/app/printable_stream.h"

#include <charconv>
#include <new>

#include "sim/report/text_layout.h"

namespace tpu::app {
namespace {

constexpr char kEscape = '\x1b';
/// The first byte of the control characters of eight bits in UTF-8.
constexpr std::string_view kTwoByteControl = "\xc2";
constexpr std::size_t kLongestColour = 12;
constexpr std::size_t kUsualMessageBytes = 4096;

bool is_control(unsigned char byte) {
  return (byte < 0x20 && byte != '\n' && byte != '\t') || byte == 0x7f;
}

void append_code(unsigned char code, std::string& to) {
  constexpr std::string_view kHex = "0123456789abcdef";
  to += "\\u00";
  to += kHex[code >> 4];
  to += kHex[code & 15];
}

/// The bytes that follow the first one of a character of UTF-8.
int continuation_bytes(unsigned char first) {
  if (first >= 0xf0 && first < 0xf8) return 3;
  if (first >= 0xe0) return first < 0xf0 ? 2 : 0;
  return first >= 0xc2 ? 1 : 0;
}

/// Colours, their end, bold and faint; not what hides, blinks or turns colours round.
bool is_colour_code(int code) {
  return (code >= 0 && code <= 2) || code == 22 || (code >= 30 && code <= 37) || code == 39 ||
         (code >= 90 && code <= 97);
}

/// True for the whole of an escape sequence that sets a colour or a weight.
bool is_colour(std::string_view sequence) {
  if (sequence.substr(0, 2) != "\x1b[" || sequence.back() != 'm') return false;
  const char* at = sequence.data() + 2;
  const char* end = sequence.data() + sequence.size() - 1;
  while (at < end) {
    int code = -1;
    const auto result = std::from_chars(at, end, code);
    if (result.ec != std::errc() || !is_colour_code(code)) return false;
    at = result.ptr;
    if (at < end && *at++ != ';') return false;
  }
  return true;
}

/// Whether a sequence can still become a colour.
bool may_become_colour(std::string_view sequence) {
  if (sequence.size() >= kLongestColour) return false;
  if (sequence.size() == 1) return true;
  return sequence[1] == '[' &&
         sequence.find_first_not_of("0123456789;", 2) == std::string_view::npos;
}

}  // namespace

void PrintableText::append_byte(char byte, std::string& to) {
  const auto code = static_cast<unsigned char>(byte);
  const bool continues = continuation_ > 0 && (code & 0xc0) == 0x80;
  continuation_ = continues ? continuation_ - 1 : continuation_bytes(code);
  if (is_control(code) || (!continues && code >= 0x80 && code < 0xa0)) {
    append_code(code, to);
  } else {
    to += byte;
  }
}

void PrintableText::append(std::string_view text, std::string& to) {
  for (const char byte : text) {
    const auto code = static_cast<unsigned char>(byte);
    if (held_ == kTwoByteControl && code >= 0x80 && code < 0xa0) {
      append_code(code, to);
      held_.clear();
      continue;
    }
    if (held_ == kTwoByteControl || byte == kEscape) finish(to);
    if (held_.empty() && byte != kEscape && byte != kTwoByteControl.front()) {
      append_byte(byte, to);
      continue;
    }
    held_ += byte;
    if (colours_ && is_colour(held_)) {
      to += held_;
      held_.clear();
    } else if (held_ != kTwoByteControl && !may_become_colour(held_)) {
      finish(to);
    }
  }
}

void PrintableText::finish(std::string& to) {
  for (const char byte : held_) append_byte(byte, to);
  held_.clear();
}

std::string printable(std::string_view text) {
  std::string result;
  PrintableText filter;
  filter.append(text, result);
  filter.finish(result);
  return result;
}

PrintableStream::PrintableStream(std::ostream& stream, bool colours)
    : stream_(stream), target_(stream.rdbuf()), text_(colours) {
  // An error's message needs no memory then.
  buffer_.reserve(kUsualMessageBytes);
  stream_.rdbuf(this);
}

PrintableStream::~PrintableStream() {
  buffer_.clear();
  text_.finish(buffer_);
  pass_on(lines_ + buffer_);
  stream_.rdbuf(target_);
}

bool PrintableStream::pass_on(const std::string& text) {
  const auto size = static_cast<std::streamsize>(text.size());
  return target_->sputn(text.data(), size) == size;
}

/// The lines that are whole; the last one waits for its end.
bool PrintableStream::pass_on_fitted() {
  lines_ += buffer_;
  const std::size_t end = lines_.rfind('\n');
  if (end == std::string::npos) return true;
  report::TextStyle style;
  style.width = width_;
  const std::string fitted = report::fit_to_width(lines_.substr(0, end + 1), style);
  lines_.erase(0, end + 1);
  return pass_on(fitted);
}

std::streamsize PrintableStream::xsputn(const char* text, std::streamsize count) {
  buffer_.clear();
  try {
    text_.append({text, static_cast<std::size_t>(count)}, buffer_);
    if (width_ > 0) return pass_on_fitted() ? count : 0;
  } catch (const std::bad_alloc&) {  // A stream would take it for a failed write.
    memory_ran_out_ = true;
    return 0;
  }
  return pass_on(buffer_) ? count : 0;
}

PrintableStream::int_type PrintableStream::overflow(int_type byte) {
  if (traits_type::eq_int_type(byte, traits_type::eof())) return traits_type::not_eof(byte);
  const char letter = traits_type::to_char_type(byte);
  return xsputn(&letter, 1) == 1 ? byte : traits_type::eof();
}

int PrintableStream::sync() {
  pass_on(lines_);
  lines_.clear();
  return target_->pubsync();
}

}  // namespace tpu::app
