#include "workloads/compiler/kernels/collective/exchange_emitter.h"

#include <algorithm>
#include <string>

#include "isa/program.h"
#include "sim/base/ceil_divide.h"
#include "sim/base/error.h"

namespace tpu::compiler {
namespace {

constexpr std::uint32_t kLargestPiece = 4096;  ///< Granules of a DMA.

}  // namespace

ExchangeEmitter::ExchangeEmitter(const char* name, std::uint64_t granules,
                                 const ExchangeFlags& flags, const Target& target)
    : target_(target), granules_(granules), kernel_(name, target), flags_(flags) {
  if (target.cores > kMostCores || target.cores_per_chip > 2) {
    throw WorkloadError("expected exchanges of at most " + std::to_string(kMostCores) +
                        " cores, two on a chip; found " + std::to_string(target.cores) +
                        " cores, " + std::to_string(target.cores_per_chip) + " on a chip");
  }
  piece_ = static_cast<std::uint32_t>(std::min<std::uint64_t>(granules, kLargestPiece));
  pieces_ = static_cast<std::uint32_t>(ceil_divide(granules, piece_));
  operand_ = kernel_.operand(0);
  result_ = kernel_.operand(1);
  chip_ = kernel_.load_smem(kChipIdWord);
  core_ = kernel_.load_smem(kCoreIdWord);
  own_ = kernel_.add(kernel_.mul(chip_, target.cores_per_chip), core_);
  dma_.word = kernel_.allocate_smem(8);
  dma_.received = flags.received ? *flags.received : kernel_.allocate_flag();
  dma_.sent = flags.sent ? *flags.sent : kernel_.allocate_flag();
  dma_.granules = piece_;
  dma_.from_hbm = dma_.to_hbm = true;
  write_remote_dma(kernel_, dma_, {chip_, core_}, {chip_, core_});
  kernel_.new_block();
}

Peer ExchangeEmitter::peer(SReg number) {
  const std::uint32_t per_chip = target_.cores_per_chip;
  return {kernel_.shift_right(number, per_chip - 1), kernel_.and_(number, per_chip - 1)};
}

void ExchangeEmitter::tell(const Peer& sender) {
  kernel_.misc(isa::Opcode::kVsyncaddRemote,
               {remote_flag_address(kernel_, sender, flags_.entered), 1});
  kernel_.new_block();
}

void ExchangeEmitter::for_each_piece(const std::function<void(SReg offset)>& visit) {
  const auto last = static_cast<std::uint32_t>(granules_ - piece_);
  kernel_.loop(pieces_, [&](SReg number) {
    visit(kernel_.min(kernel_.mul(number, piece_), last));
    kernel_.new_block();
  });
}

void ExchangeEmitter::send(const Peer& to, SReg from, SReg there) {
  aim_remote_dma(kernel_, dma_, to);
  kernel_.new_block();
  for_each_piece([&](SReg offset) {
    start_remote_dma(kernel_, dma_, kernel_.add(from, offset), kernel_.add(there, offset));
  });
}

void ExchangeEmitter::allocate_region() {
  if (has_region_) return;
  has_region_ = true;
  copied_ = kernel_.allocate_flag();
  region_ = kernel_.allocate_vmem((piece_ * kRowsPerGranule + isa::kSublanes - 1) / isa::kSublanes *
                                  isa::kSublanes);
}

void ExchangeEmitter::copy(SReg from, SReg to) {
  allocate_region();
  for_each_piece([&](SReg offset) {
    kernel_.dma_in(kernel_.add(from, offset), region_, piece_, copied_);
    kernel_.wait(copied_, piece_);
    kernel_.dma_out(region_, kernel_.add(to, offset), piece_, copied_);
    kernel_.wait(copied_, piece_);
  });
}

void ExchangeEmitter::clear(SReg base, std::uint64_t begin, std::uint64_t end) {
  if (begin == end) return;
  allocate_region();
  clear_granules(kernel_, region_, piece_, base, begin, end, copied_);
}

}  // namespace tpu::compiler
