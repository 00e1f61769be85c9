#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "workloads/compiler/codegen/kernel_builder.h"
#include "workloads/compiler/kernels/collective/remote_dma.h"

namespace tpu::compiler {

constexpr int kPlaceBits = 11;  ///< For the number of a core in a table.
constexpr std::uint32_t kMostCores = 1U << kPlaceBits;

/// The flags of an exchange; those that are not given are the kernel's own.
struct ExchangeFlags {
  std::uint32_t entered = 0;
  std::optional<std::uint32_t> received, sent;
};

/// What kernels have in common in which cores write blocks of so many granules into the HBM of each
/// other, piece by piece: who this core is, and DMAs from HBM to HBM whose peer is found at run
/// time.
class ExchangeEmitter {
 public:
  /// Throws WorkloadError for slices whose cores tables cannot number.
  ExchangeEmitter(const char* name, std::uint64_t granules, const ExchangeFlags& flags,
                  const Target& target);

 protected:
  Peer peer(SReg number);
  /// Adds one to a peer's entrance.
  void tell(const Peer& sender);
  /// Pieces of the same length; the last ones may overlap.
  void for_each_piece(const std::function<void(SReg offset)>& visit);
  void send(const Peer& to, SReg from, SReg there);
  void copy(SReg from, SReg to);
  /// Fills granules `begin` to `end` of a range with zeros.
  void clear(SReg base, std::uint64_t begin, std::uint64_t end);
  /// What all pieces of a block add to a flag.
  std::uint32_t sum() const { return pieces_ * piece_; }

  const Target& target_;
  const std::uint64_t granules_;
  KernelBuilder kernel_;
  SReg operand_, result_;  ///< s0 and s1.
  SReg chip_, core_;
  SReg own_;  ///< This core's number.
  ExchangeFlags flags_;
  std::uint32_t piece_ = 0, pieces_ = 0;
  RemoteDmaWords dma_;

 private:
  /// By way of which granules are copied and cleared.
  void allocate_region();
  std::uint32_t copied_ = 0;
  VmemRegion region_;
  bool has_region_ = false;
};

}  // namespace tpu::compiler
