#include <malloc.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <exception>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "sim/app/commands.h"
#include "sim/base/error.h"
#include "sim/base/output_file.h"

namespace {

/// Leaves no half-written file behind and ends as the signal would have done.
void stop(int signal_number) {
  tpu::remove_unfinished_output_files();
  if (signal_number != SIGPIPE) {
    constexpr std::string_view kText = "\ntpusim: interrupted\n";
    [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, kText.data(), kText.size());
  }
  ::signal(signal_number, SIG_DFL);
  ::raise(signal_number);
}

void catch_signals() {
  struct sigaction action {};
  action.sa_handler = stop;
  for (const int signal_number : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) {
    ::sigaction(signal_number, &action, nullptr);
  }
  // A file that grows beyond its limit is a failed write, with its message.
  ::signal(SIGXFSZ, SIG_IGN);
}

/// Says so without allocating.
int without_memory() {
  tpu::remove_unfinished_output_files();
  constexpr std::string_view kText =
      "tpusim: the workload needs more memory than this computer has\n";
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, kText.data(), kText.size());
  return static_cast<int>(tpu::ExitCode::kBadWorkload);
}

/// What operator new calls when there is no memory. An exception would not do: a stream of the C++
/// library takes it for a failed write and goes on, so that a text in memory (a report, a number of
/// a configuration) ends in the middle and nobody hears of it.
[[noreturn]] void end_at_failed_allocation() { ::_exit(without_memory()); }

/// Modules of SystemC allocate in their destructors, out of which no exception gets.
[[noreturn]] void end_without_memory() {
  try {
    if (const std::exception_ptr thrown = std::current_exception()) std::rethrow_exception(thrown);
  } catch (const std::bad_alloc&) {
    ::_exit(without_memory());
  } catch (...) {
  }
  std::abort();
}

/// Whether the process may have as many addresses as it likes.
bool has_room() {
  for (const auto resource : {RLIMIT_AS, RLIMIT_DATA}) {
    struct rlimit largest {};
    if (::getrlimit(resource, &largest) != 0 || largest.rlim_cur != RLIM_INFINITY) return false;
  }
  return true;
}

/// Memory that is given back is used again: the C library would return large blocks to the system,
/// and each page of the next one is a fault (a fifth of the time that a large program takes to be
/// read). The first part of the heap is made of huge pages, where the system has them for whoever
/// asks: a fault for 2 MiB in place of 512. It takes addresses only, until it is used.
void keep_memory() {
  constexpr int kLargestInHeap = 32 << 20;  // The most that the library takes.
  constexpr int kGrowth = 16 << 20;
  constexpr int kHuge = 256 << 20;
  constexpr std::uintptr_t kPage = 4096;
  ::mallopt(M_MMAP_THRESHOLD, kLargestInHeap);
  ::mallopt(M_TRIM_THRESHOLD, 1 << 30);
  ::mallopt(M_TOP_PAD, kGrowth);
  if (!has_room()) return;
  // The first block that does not fit makes the heap grow, by so much more.
  ::mallopt(M_TOP_PAD, kHuge);
  void* const first = std::malloc(kGrowth);
  ::mallopt(M_TOP_PAD, kGrowth);
  if (first == nullptr) return;
  const std::uintptr_t begin =
      (reinterpret_cast<std::uintptr_t>(first) + kPage - 1) / kPage * kPage;
  const auto end = reinterpret_cast<std::uintptr_t>(::sbrk(0));
  // Refused where the heap is elsewhere: then there are no huge pages.
  if (begin < end) {
    void* const page =
        static_cast<char*>(first) + (begin - reinterpret_cast<std::uintptr_t>(first));
    ::madvise(page, end - begin, MADV_HUGEPAGE);
  }
  std::free(first);
}

}  // namespace

// Debian's libsystemc brings a main() that calls this; ours comes first and it is never called.
extern "C" int sc_main(int, char**) { return 1; }

int main(int argc, char** argv) {
  keep_memory();
  catch_signals();
  std::set_new_handler(end_at_failed_allocation);
  std::set_terminate(end_without_memory);
  try {
    return tpu::app::run_program(std::vector<std::string>(argv + 1, argv + argc));
  } catch (const std::bad_alloc&) {
    return without_memory();
  }
}
