#pragma once

#include <sys/mman.h>
#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <new>
#include <string>

namespace tpu::app {

/// Processors that this process may run on.
std::uint32_t processors();

/// A process that does `work` and ends, with what this one has in memory; it ends with this one.
/// -1 where no more processes can be made: errno says why.
pid_t start_process(const std::function<void()>& work);

/// How a process ended, where it did not end well: "was ended by signal 9 (out of memory?)".
std::string end_text(int status);

/// Memory that processes share, until the end of a scope. `Work` needs no destruction.
template <class Work>
class SharedMemory {
 public:
  SharedMemory() {
    void* memory =
        ::mmap(nullptr, sizeof(Work), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    work_ = new (memory) Work;
  }
  ~SharedMemory() { ::munmap(work_, sizeof(Work)); }
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  Work& operator*() const { return *work_; }

 private:
  Work* work_;
};

}  // namespace tpu::app
