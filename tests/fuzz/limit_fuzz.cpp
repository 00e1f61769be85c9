#include <chrono>
#include <cstdlib>
#include <ctime>
#include <string>
#include <thread>

#include "tests/fuzz/one_input.h"

/// No reader of ours: what limit_test.sh tries the limit with. "compute 3000" computes for three
/// seconds of processor time, "wait 3000" waits as long.
void tpu::fuzz::one_input(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const std::size_t space = text.find(' ');
  if (space == std::string::npos) return;
  const int milliseconds = std::atoi(text.c_str() + space);
  if (text[0] == 'w') std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
  const std::clock_t end = std::clock() + milliseconds * (CLOCKS_PER_SEC / 1000);
  while (text[0] == 'c' && std::clock() < end) {
  }
}
