#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "isa/topology.h"

namespace tpu::compiler {

/// SMEM words that kernels may use while they run, where the machine has as many; they keep nothing
/// from kernel to kernel.
constexpr std::uint32_t kKernelSmemBegin = 512;
constexpr std::uint32_t kKernelSmemEnd = 3072;
/// What kernels need at least: the indices of a gather and what keeps count of its tiles; the
/// results of a transposition beside those that wait to be popped.
constexpr std::uint32_t kLeastSmemWords = 2048;
constexpr std::uint32_t kLeastXluQueueEntries = 32;

/// Addresses of operands and results that a call leaves in scalar registers, at most: who calls
/// takes one more to move them with the iterations of loops.
constexpr std::uint32_t kMostKernelAddresses = 30;

/// Buckets of gradients of the size that takes least, by estimate.
constexpr std::uint64_t kBucketsByCost = ~std::uint64_t{0};

/// Where a kernel has what is its own, and what it leaves to its caller, so that its first loads
/// may be under way while the kernel before runs.
struct KernelPlace {
  /// VMEM from the last row down, and flags of their own: of two kernels that follow each other
  /// one is high.
  bool is_high = false;
  bool caller_starts_loads = false;  ///< The first ones (codegen/first_load.h).
};

/// What the compiler knows of the machine: sizes and latencies that its schedules must respect.
struct Target {
  std::string chip = "v3";  ///< Instruction set: an isa::Generation.
  std::uint32_t mxu_count = 2;
  std::uint32_t mxu_rows = 128;
  std::uint32_t mxu_columns = 128;
  std::uint32_t matmul_latency_cycles = 105;  ///< Of this array, whatever its size.
  std::uint32_t push_interval_cycles = 8;
  std::uint32_t result_queue_entries = 32;
  std::uint32_t xlu_latency_cycles = 92;
  std::uint32_t xlu_interval_cycles = 8;
  std::uint32_t xlu_queue_entries = 64;
  std::uint32_t eup_latency_cycles = 4;
  std::uint32_t eup_queue_entries = 8;
  std::uint32_t smem_words = 4096;
  std::uint64_t vmem_bytes = std::uint64_t{16} << 20;
  std::uint64_t hbm_bytes = 0;                                  ///< That a program may use.
  std::uint64_t hbm_reserved_bytes = std::uint64_t{532} << 20;  ///< What it may not, for reports.
  double hbm_bytes_per_cycle = 440;  ///< For the tile search's cost model.
  std::uint32_t dma_latency_cycles = 217;
  std::uint32_t cores = 1;  ///< Replicas that run the program together.
  std::uint32_t cores_per_chip = 2;
  isa::Topology slice;  ///< Chips of the whole slice; programs run on the first cores of it.
  double link_bytes_per_cycle = 87;  ///< For the choice of collectives, as what follows.
  std::uint32_t hop_cycles = 940;
  std::uint32_t local_hop_cycles = 282;  ///< Between the cores of a chip.
  /// Of gradients that are reduced together while kernels behind them run, or kBucketsByCost; 0:
  /// all at once, and nothing else meanwhile.
  std::uint64_t bucket_bytes = 0;

  /// What a kernel is made for, beside its operation; of the machine it says nothing.
  KernelPlace place;

  /// SMEM words that kernels have for themselves, from kKernelSmemBegin on.
  std::uint32_t kernel_smem_words() const {
    return std::min(smem_words, kKernelSmemEnd) - kKernelSmemBegin;
  }
  /// Blocks of 128x128 of an array along the contracted dimension and along the results' columns.
  std::uint32_t row_parts() const { return mxu_rows / 128; }
  std::uint32_t column_parts() const { return mxu_columns / 128; }
};

}  // namespace tpu::compiler
