#include "sim/app/child_process.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <iostream>
#include <thread>

namespace tpu::app {

std::uint32_t processors() { return std::max(1U, std::thread::hardware_concurrency()); }

pid_t start_process(const std::function<void()>& work) {
  std::cout.flush();
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child != 0) return child;
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(1);  // It ended before it could be asked to tell.
  int code = 0;
  try {
    work();
  } catch (const std::exception& error) {
    std::cerr << "tpusim: " << error.what() << std::endl;
    code = 1;
  }
  ::_exit(code);
}

std::string end_text(int status) {
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return "";
  if (!WIFSIGNALED(status)) return "could not go on";
  return "was ended by signal " + std::to_string(WTERMSIG(status)) +
         (WTERMSIG(status) == SIGKILL ? " (out of memory?)" : "");
}

}  // namespace tpu::app
