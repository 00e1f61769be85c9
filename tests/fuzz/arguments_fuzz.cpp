#include <iostream>
#include <sstream>

#include "sim/app/arguments.h"
#include "sim/base/error.h"
#include "tests/fuzz/one_input.h"
#include "tests/fuzz/text_mutator.h"

/// The words of a command line, one a line.
void tpu::fuzz::one_input(const std::uint8_t* data, std::size_t size) {
  static std::ostringstream help;
  help.str("");
  std::streambuf* const terminal = std::cout.rdbuf(help.rdbuf());
  std::vector<std::string> words;
  std::istringstream text(std::string(reinterpret_cast<const char*>(data), size));
  for (std::string word; std::getline(text, word);) words.push_back(word);
  try {
    tpu::app::parse_arguments(words);
  } catch (const tpu::UsageError&) {
  }
  std::cout.rdbuf(terminal);
}
