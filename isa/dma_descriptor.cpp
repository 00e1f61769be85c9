#include "isa/dma_descriptor.h"

#include <sstream>

#include "sim/base/error.h"

namespace tpu::isa {
namespace {

constexpr std::uint32_t kCodeHbm = 2;
constexpr std::uint32_t kCodeVmem = 4;
constexpr std::uint32_t kRemoteVmemCode = 64;  ///< Plus the receiver's flag.
constexpr std::uint32_t kSizeMark = 0x01400000;
constexpr std::uint32_t kSizeMask = 0x000fffff;
constexpr std::uint32_t kRemoteSize = 0x80000000;
constexpr std::uint32_t kRemoteFlags = 0x40000000;
constexpr std::uint32_t kFlagMask = 0x3ff;
constexpr std::uint32_t kRemoteFlagLimit = 64;
constexpr std::uint32_t kNobodysFlag = 7;

std::uint32_t endpoint_word(const DmaEndpoint& end, std::uint32_t code) {
  TPU_CHECK(end.chip < (1u << 13), "chip " << end.chip << " has more than 13 bits");
  TPU_CHECK(end.core < 8, "core " << end.core << " has more than 3 bits");
  return end.chip << 19 | end.core << 16 | code << 8;
}

std::uint32_t stride_word(const DmaEndpoint& end) {
  TPU_CHECK(end.stride <= 0xffff, "stride " << end.stride << " has more than 16 bits");
  TPU_CHECK(end.granules_per_run <= 0xffff,
            "run of " << end.granules_per_run << " granules has more than 16 bits");
  return end.stride << 16 | end.granules_per_run;
}

std::uint32_t memory_code(MemorySpace space) {
  TPU_CHECK(space == MemorySpace::kHbm || space == MemorySpace::kVmem,
            "a descriptor in SMEM reaches HBM and VMEM only, found " << to_string(space));
  return space == MemorySpace::kHbm ? kCodeHbm : kCodeVmem;
}

[[noreturn]] void refuse(const DmaWords& words, std::size_t index, const char* expected) {
  std::ostringstream text;
  text << "DMA descriptor: expected " << expected << " in word " << index << ", found 0x"
       << std::hex << words[index] << " (words";
  for (std::uint32_t word : words) text << " 0x" << word;
  text << "): the program stored something that is no descriptor";
  throw ProgramFault(text.str());
}

DmaEndpoint endpoint_of(const DmaWords& words, std::size_t first) {
  DmaEndpoint end;
  end.address = words[first];
  end.chip = words[first + 1] >> 19;
  end.core = words[first + 1] >> 16 & 7;
  end.stride = words[first + 2] >> 16;
  end.granules_per_run = words[first + 2] & 0xffff;
  if ((words[first + 1] & 0xff) != 0)
    refuse(words, first + 1, "chip << 19 | core << 16 | code << 8");
  return end;
}

MemorySpace space_of(const DmaWords& words, std::size_t index) {
  const std::uint32_t code = words[index] >> 8 & 0xff;
  if (code != kCodeHbm && code != kCodeVmem) refuse(words, index, "code 2 (HBM) or 4 (VMEM)");
  return code == kCodeHbm ? MemorySpace::kHbm : MemorySpace::kVmem;
}

}  // namespace

const char* to_string(MemorySpace space) {
  switch (space) {
    case MemorySpace::kHbm:
      return "HBM";
    case MemorySpace::kVmem:
      return "VMEM";
    case MemorySpace::kSmem:
      return "SMEM";
    case MemorySpace::kInfeed:
      return "infeed";
    case MemorySpace::kOutfeed:
      return "outfeed";
    case MemorySpace::kCmem:
      return "CMEM";
  }
  return "?";
}

DmaWords encode(const DmaDescriptor& descriptor) {
  const DmaEndpoint& source = descriptor.source;
  const DmaEndpoint& destination = descriptor.destination;
  TPU_CHECK(descriptor.granules <= kSizeMask,
            "DMA of " << descriptor.granules << " granules has more than 20 bits");
  std::uint32_t destination_code = memory_code(destination.space);
  std::uint32_t flags = kNobodysFlag << 10 | descriptor.destination_flag;
  std::uint32_t size = kSizeMark | descriptor.granules;
  if (descriptor.remote) {
    TPU_CHECK(descriptor.destination_flag < kRemoteFlagLimit,
              "flag " << descriptor.destination_flag << " of a remote DMA has more than 6 bits");
    TPU_CHECK(descriptor.source_flag <= kFlagMask,
              "source flag " << descriptor.source_flag << " has more than 10 bits");
    destination_code = descriptor.destination_flag +
                       (destination.space == MemorySpace::kVmem ? kRemoteVmemCode : 0);
    flags = kRemoteFlags | descriptor.source_flag << 10 | descriptor.destination_flag;
    size |= kRemoteSize;
  } else {
    TPU_CHECK(source.space != destination.space, "a local DMA goes from HBM to VMEM or back");
    TPU_CHECK(descriptor.destination_flag <= kFlagMask,
              "flag " << descriptor.destination_flag << " has more than 10 bits");
    TPU_CHECK(descriptor.source_flag == kNobodysFlag,
              "source flag " << descriptor.source_flag << " of a local DMA is not 7");
  }
  return {destination.address,
          endpoint_word(destination, destination_code),
          stride_word(destination),
          source.address,
          endpoint_word(source, memory_code(source.space)),
          stride_word(source),
          size,
          flags};
}

DmaDescriptor decode(const DmaWords& words) {
  DmaDescriptor descriptor;
  descriptor.destination = endpoint_of(words, 0);
  descriptor.source = endpoint_of(words, 3);
  descriptor.source.space = space_of(words, 4);
  descriptor.granules = words[6] & kSizeMask;
  descriptor.remote = (words[6] & kRemoteSize) != 0;
  if ((words[6] & ~(kSizeMask | kRemoteSize)) != kSizeMark) {
    refuse(words, 6, "0x01400000 | granules (bit 31: remote)");
  }
  descriptor.source_flag = words[7] >> 10 & kFlagMask;
  descriptor.destination_flag = words[7] & kFlagMask;
  if (descriptor.remote) {
    const std::uint32_t code = words[1] >> 8 & 0xff;
    if ((words[7] & ~(kFlagMask << 10 | kFlagMask)) != kRemoteFlags) {
      refuse(words, 7, "0x40000000 | source flag << 10 | destination flag");
    }
    if (code >= 2 * kRemoteVmemCode || code % kRemoteVmemCode != descriptor.destination_flag) {
      refuse(words, 1, "the destination flag of word 7 as code (plus 64 for VMEM)");
    }
    descriptor.destination.space = code >= kRemoteVmemCode ? MemorySpace::kVmem : MemorySpace::kHbm;
  } else {
    descriptor.destination.space = space_of(words, 1);
    if (words[7] >> 10 != kNobodysFlag) refuse(words, 7, "0x1c00 | destination flag");
    if (descriptor.source.space == descriptor.destination.space) {
      refuse(words, 4, "HBM to VMEM or VMEM to HBM");
    }
  }
  return descriptor;
}

}  // namespace tpu::isa
