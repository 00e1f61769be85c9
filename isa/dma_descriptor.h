#pragma once

#include <array>
#include <cstdint>

namespace tpu::isa {

/// A memory that a DMA can reach.
enum class MemorySpace : std::uint8_t { kHbm, kVmem, kSmem, kInfeed, kOutfeed, kCmem };
const char* to_string(MemorySpace space);

/// One end of a DMA.
struct DmaEndpoint {
  std::uint32_t chip = 0;
  std::uint32_t core = 0;
  MemorySpace space = MemorySpace::kHbm;
  std::uint32_t address = 0;           ///< HBM: granules; VMEM, CMEM: rows; SMEM: words.
  std::uint32_t stride = 0;            ///< Granules from one run to the next.
  std::uint32_t granules_per_run = 0;  ///< Length of a run; 0 or >= the size: contiguous.

  friend bool operator==(const DmaEndpoint& a, const DmaEndpoint& b) {
    return a.chip == b.chip && a.core == b.core && a.space == b.space && a.address == b.address &&
           a.stride == b.stride && a.granules_per_run == b.granules_per_run;
  }
};

/// A DMA as the engine sees it, whatever instruction started it. On completion the size in granules
/// is added to the destination's sync flag, and for remote DMAs to the source's flag when the data
/// has left.
struct DmaDescriptor {
  DmaEndpoint source;
  DmaEndpoint destination;
  std::uint32_t granules = 0;
  std::uint32_t source_flag = 7;  ///< Sync flag of the issuing core; 7 = nobody's (local DMAs).
  std::uint32_t destination_flag = 0;  ///< Sync flag of the destination's core.
  bool remote = false;                 ///< Over the interconnect.

  friend bool operator==(const DmaDescriptor& a, const DmaDescriptor& b) {
    return a.source == b.source && a.destination == b.destination && a.granules == b.granules &&
           a.source_flag == b.source_flag && a.destination_flag == b.destination_flag &&
           a.remote == b.remote;
  }
};

/// The eight words in SMEM that `dma` reads; layout as observed in listings of libtpu 0.0.42.1:
///   0 destination address   1 destination endpoint: chip << 19 | core << 16 | code << 8
///   2 destination stride << 16 | granules per run
///   3 source address        4 source endpoint       5 source stride << 16 | granules per run
///   6 0x01400000 | granules (bit 31: remote)        7 source flag << 10 | destination flag (bit
///   30: remote)
/// code: 2 HBM, 4 VMEM; remote destinations: 64 + flag = VMEM, flag itself = HBM.
using DmaWords = std::array<std::uint32_t, 8>;

/// v4's `dma` has fifteen words (isa/meaning.cpp), of which word 3 is this mark; in the form above
/// that word is an address, which has fewer bits.
constexpr std::uint32_t kDmaWordsOfV4 = 15;
constexpr std::uint32_t kPlaceOfMarkOfV4 = 3;
constexpr std::uint32_t kMarkOfV4 = 0x80000001;

/// HBM and VMEM only; fields that do not fit the words are a bug of the caller.
DmaWords encode(const DmaDescriptor& descriptor);

/// Throws ProgramFault where the words are no descriptor that was ever observed.
DmaDescriptor decode(const DmaWords& words);

}  // namespace tpu::isa
