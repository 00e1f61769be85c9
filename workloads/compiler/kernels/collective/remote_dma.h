#pragma once

#include <cstdint>

#include "workloads/compiler/codegen/kernel_builder.h"

namespace tpu::compiler {

/// Another core, by chip and number on the chip.
struct Peer {
  SReg chip, core;
};

/// A DMA between VMEM (or HBM) here and the VMEM (or HBM) of a peer whose descriptor is put
/// together at run time (isa/dma_descriptor.h).
struct RemoteDmaWords {
  std::uint32_t word = 0;      ///< SMEM: the eight words of the descriptor.
  std::uint32_t received = 0;  ///< Sync flag there, below 64.
  std::uint32_t sent = 0;      ///< Sync flag here.
  std::uint32_t granules = 0;
  bool from_hbm = false;
  bool to_hbm = false;
};
/// Stores all words but the two addresses.
void write_remote_dma(KernelBuilder& kernel, const RemoteDmaWords& dma, const Peer& here,
                      const Peer& there);
/// Stores the word of the peer, for another one.
void aim_remote_dma(KernelBuilder& kernel, const RemoteDmaWords& dma, const Peer& there);
/// Starts it: an address here, a row of VMEM or a granule of HBM there.
void start_remote_dma(KernelBuilder& kernel, const RemoteDmaWords& dma, ScalarOperand from,
                      ScalarOperand to);

/// The address of a peer's sync flag, for vsyncadd.remote.
SReg remote_flag_address(KernelBuilder& kernel, const Peer& there, std::uint32_t flag);

/// Fills granules `begin` to `end` of a range of HBM with zeros, by way of the first
/// `region_granules` of a region.
void clear_granules(KernelBuilder& kernel, VmemRegion region, std::uint64_t region_granules,
                    SReg base, std::uint64_t begin, std::uint64_t end, std::uint32_t flag);

}  // namespace tpu::compiler
