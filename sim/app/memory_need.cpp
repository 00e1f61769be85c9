#include "sim/app/memory_need.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "isa/program.h"
#include "sim/base/error.h"
#include "workloads/compiler/passes/memory/hbm_plan.h"

namespace tpu::app {

std::uint64_t memory_of_this_computer() {
  std::uint64_t bytes = ~std::uint64_t{0};
  const long pages = ::sysconf(_SC_PHYS_PAGES), page = ::sysconf(_SC_PAGESIZE);
  if (pages > 0 && page > 0) {
    bytes = static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(page);
  }
  struct rlimit largest {};
  if (::getrlimit(RLIMIT_AS, &largest) == 0 && largest.rlim_cur != RLIM_INFINITY) {
    bytes = std::min<std::uint64_t>(bytes, largest.rlim_cur);
  }
  return bytes;
}

void refuse_values_beyond_memory(const PreparedWorkload& workload, std::uint64_t available_bytes) {
  constexpr double kCopiesOfResults = 2;
  const auto cores = static_cast<double>(workload.cores.size());
  double bytes = static_cast<double>(workload.program.hbm_peak_bytes) * cores;
  for (const isa::Buffer& buffer : workload.program.buffers) {
    if (buffer.role != isa::BufferRole::kOutput) continue;
    bytes += kCopiesOfResults * static_cast<double>(buffer.unpadded_bytes);
  }
  if (bytes <= static_cast<double>(available_bytes)) return;
  throw WorkloadError(
      workload.program.name + ": --values on: expected values that fit the " +
      compiler::memory_size_text(available_bytes) + " of memory of this computer, found " +
      compiler::memory_size_text(static_cast<std::uint64_t>(bytes)) + " on " +
      std::to_string(workload.cores.size()) + (workload.cores.size() == 1 ? " core" : " cores") +
      "; take fewer cores or a smaller batch, or run with --values off");
}

}  // namespace tpu::app
