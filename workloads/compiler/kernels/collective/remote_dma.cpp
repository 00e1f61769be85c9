#include "workloads/compiler/kernels/collective/remote_dma.h"

#include <algorithm>

namespace tpu::compiler {
namespace {

constexpr int kChipShift = 19;
constexpr int kCoreShift = 16;
constexpr std::uint32_t kHbmEndpoint = 2U << 8;
constexpr std::uint32_t kVmemEndpoint = 4U << 8;
constexpr std::uint32_t kRemoteFlagEndpoint = 64;
constexpr std::uint32_t kRemoteSize = 0x81400000;
constexpr std::uint32_t kRemoteFlags = 1U << 30;
// Address of another core's sync flag.
constexpr std::uint32_t kRemoteFlagAddress = 0x40000;
constexpr int kFlagCoreShift = 20;
constexpr int kFlagChipShift = 21;

SReg endpoint(KernelBuilder& kernel, const Peer& peer) {
  return kernel.or_(kernel.shift_left(peer.chip, kChipShift),
                    kernel.shift_left(peer.core, kCoreShift));
}

}  // namespace

void write_remote_dma(KernelBuilder& kernel, const RemoteDmaWords& dma, const Peer& here,
                      const Peer& there) {
  const std::uint32_t contiguous = dma.granules << 16 | dma.granules;
  aim_remote_dma(kernel, dma, there);
  kernel.store_smem(dma.word + 2, contiguous);
  kernel.store_smem(dma.word + 4, kernel.or_(endpoint(kernel, here),
                                             dma.from_hbm ? kHbmEndpoint : kVmemEndpoint));
  kernel.store_smem(dma.word + 5, contiguous);
  kernel.store_smem(dma.word + 6, kRemoteSize | dma.granules);
  kernel.store_smem(dma.word + 7, kRemoteFlags | dma.sent << 10 | dma.received);
}

void aim_remote_dma(KernelBuilder& kernel, const RemoteDmaWords& dma, const Peer& there) {
  const std::uint32_t code = dma.received + (dma.to_hbm ? 0 : kRemoteFlagEndpoint);
  kernel.store_smem(dma.word + 1, kernel.or_(endpoint(kernel, there), code << 8));
}

void start_remote_dma(KernelBuilder& kernel, const RemoteDmaWords& dma, ScalarOperand from,
                      ScalarOperand to) {
  kernel.store_smem(dma.word, to);
  kernel.store_smem(dma.word + 3, from);
  kernel.misc(isa::Opcode::kDma, {dma.word});
}

SReg remote_flag_address(KernelBuilder& kernel, const Peer& there, std::uint32_t flag) {
  return kernel.or_(kernel.or_(kernel.shift_left(there.core, kFlagCoreShift),
                               kernel.shift_left(there.chip, kFlagChipShift)),
                    kRemoteFlagAddress | flag);
}

void clear_granules(KernelBuilder& kernel, VmemRegion region, std::uint64_t region_granules,
                    SReg base, std::uint64_t begin, std::uint64_t end, std::uint32_t flag) {
  if (begin == end) return;
  const std::uint64_t length = std::min(region_granules, end - begin);
  const std::uint64_t registers = (length * kRowsPerGranule + isa::kSublanes - 1) / isa::kSublanes;
  kernel.loop(registers, [&](SReg i) {
    kernel.store(VmemAddress(region, 0, kernel.mul(i, isa::kSublanes)), 0.0F);
  });
  kernel.new_block();
  for (std::uint64_t at = begin; at < end; at += length) {
    const auto size = static_cast<std::uint32_t>(std::min(length, end - at));
    kernel.dma_out(region, kernel.add(base, static_cast<std::uint32_t>(at)), size, flag);
    kernel.wait(flag, size);
  }
}

}  // namespace tpu::compiler
