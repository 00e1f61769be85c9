#include "tests/fuzz/one_input.h"

#include <sys/time.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <string_view>

namespace {

/// Processor time that an input may take, of this process and in its calls of the system. It is
/// not multiplied by what the sanitizers cost: what keeps it here is several times as fast without
/// them (README.md). libFuzzer's own limit is time on the wall, which other processes take.
constexpr int kSeconds = 2;

void set_timer(int seconds) {
  itimerval timer{};
  timer.it_value.tv_sec = seconds;
  if (::setitimer(ITIMER_PROF, &timer, nullptr) != 0) std::abort();
}

/// The stack that libFuzzer prints then is the place that takes so long.
void too_slow(int) {
  constexpr std::string_view text =
      "expected at most 2 s of processor time an input, found more: the stack says where\n";
  if (::write(STDERR_FILENO, text.data(), text.size()) < 0) std::abort();
  std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const bool handled = std::signal(SIGPROF, too_slow) != SIG_ERR;
  if (!handled) std::abort();
  set_timer(kSeconds);
  tpu::fuzz::one_input(data, size);
  set_timer(0);
  return 0;
}
