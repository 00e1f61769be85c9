#include "workloads/compiler/kernels/exchange.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <string>

#include "isa/dma_descriptor.h"
#include "sim/base/error.h"
#include "workloads/compiler/codegen/kernel_builder.h"
#include "workloads/compiler/kernels/remote_dma.h"

namespace tpu::compiler {
namespace {

constexpr std::uint32_t kRowsPerGranule = isa::kHbmGranuleBytes / isa::kVmemRowBytes;
constexpr std::uint32_t kLargestPiece = 4096;  ///< Granules of a DMA.
/// Flags of the entrance: of everybody in order, and of the other groupings and permutations.
constexpr std::uint32_t kEntranceFlag = 29;
constexpr std::uint32_t kGroupEntranceFlagBegin = 640;
constexpr int kPlaceBits = 11;
constexpr std::uint32_t kMostCores = 1U << kPlaceBits;

class Exchange {
 public:
  Exchange(const char* name, std::uint64_t granules, std::uint32_t number, const Target& target)
      : target_(target), granules_(granules), kernel_(name, target) {
    if (number >= kMostRings || target.cores > kMostCores || target.cores_per_chip > 2) {
      throw WorkloadError("expected exchanges in at most " + std::to_string(kMostRings) +
                          " different groupings of at most " + std::to_string(kMostCores) +
                          " cores, two on a chip; found grouping " + std::to_string(number) +
                          " of " + std::to_string(target.cores) + " cores");
    }
    piece_ = static_cast<std::uint32_t>(std::min<std::uint64_t>(granules, kLargestPiece));
    pieces_ = static_cast<std::uint32_t>((granules + piece_ - 1) / piece_);
    entered_ = number == 0 ? kEntranceFlag : kGroupEntranceFlagBegin + number;
    operand_ = kernel_.operand(0);
    result_ = kernel_.operand(1);
    chip_ = kernel_.load_smem(kChipIdWord);
    core_ = kernel_.load_smem(kCoreIdWord);
    own_ = kernel_.add(kernel_.mul(chip_, target.cores_per_chip), core_);
    copied_ = kernel_.allocate_flag();
    dma_ = {kernel_.allocate_smem(8),
            kernel_.allocate_flag(),
            kernel_.allocate_flag(),
            piece_,
            true,
            true};
    region_ = kernel_.allocate_vmem((piece_ * kRowsPerGranule + isa::kSublanes - 1) /
                                    isa::kSublanes * isa::kSublanes);
    write_remote_dma(kernel_, dma_, {chip_, core_}, {chip_, core_});
    kernel_.new_block();
  }

 protected:
  Peer peer(SReg number) {
    const std::uint32_t per_chip = target_.cores_per_chip;
    return {kernel_.shift_right(number, per_chip - 1), kernel_.and_(number, per_chip - 1)};
  }
  void tell(const Peer& sender) {
    kernel_.misc(isa::Opcode::kVsyncaddRemote, {remote_flag_address(kernel_, sender, entered_), 1});
    kernel_.new_block();
  }
  /// Pieces of the same length; the last ones may overlap.
  void for_each_piece(const std::function<void(SReg offset)>& visit) {
    const auto last = static_cast<std::uint32_t>(granules_ - piece_);
    kernel_.loop(pieces_, [&](SReg number) {
      visit(kernel_.min(kernel_.mul(number, piece_), last));
      kernel_.new_block();
    });
  }
  void send(const Peer& to, SReg from, SReg there) {
    aim_remote_dma(kernel_, dma_, to);
    kernel_.new_block();
    for_each_piece([&](SReg offset) {
      start_remote_dma(kernel_, dma_, kernel_.add(from, offset), kernel_.add(there, offset));
    });
  }
  void copy(SReg from, SReg to) {
    for_each_piece([&](SReg offset) {
      kernel_.dma_in(kernel_.add(from, offset), region_, piece_, copied_);
      kernel_.wait(copied_, piece_);
      kernel_.dma_out(region_, kernel_.add(to, offset), piece_, copied_);
      kernel_.wait(copied_, piece_);
    });
  }
  std::uint32_t sum() const { return pieces_ * piece_; }

  const Target& target_;
  const std::uint64_t granules_;
  KernelBuilder kernel_;
  SReg operand_, result_, chip_, core_;
  SReg own_;  ///< This core's number.
  std::uint32_t piece_ = 0, pieces_ = 0, entered_ = 0, copied_ = 0;
  RemoteDmaWords dma_;
  VmemRegion region_;
};

class AllToAll : Exchange {
 public:
  AllToAll(std::uint64_t granules, const Target& target, const Ring& ring)
      : Exchange("all-to-all", granules, ring.number, target), members_(ring.members(target)) {
    if (!ring.groups.empty()) write_tables(ring);
  }

  isa::Kernel build() {
    const auto block = static_cast<std::uint32_t>(granules_);
    const std::uint32_t others = members_ - 1;
    place_ = first_ ? kernel_.and_(*first_, kMostCores - 1) : own_;
    for_each_other([&](SReg member) { tell(peer(number_of(member))); });
    kernel_.wait(entered_, others);
    const SReg mine = kernel_.mul(place_, block);
    for_each_other([&](SReg member) {
      send(peer(number_of(member)), kernel_.add(operand_, kernel_.mul(member, block)),
           kernel_.add(result_, mine));
    });
    copy(kernel_.add(operand_, mine), kernel_.add(result_, mine));
    kernel_.wait(dma_.sent, others * sum());
    kernel_.wait(dma_.received, others * sum());
    return kernel_.finish();
  }

 private:
  /// Of each core its place in the group and where that group begins in the list of all groups.
  void write_tables(const Ring& ring) {
    list_ = kernel_.allocate_smem(target_.cores);
    const std::uint32_t table = kernel_.allocate_smem(target_.cores);
    std::uint32_t begin = 0;
    for (const std::vector<std::uint32_t>& group : ring.groups) {
      for (std::uint32_t i = 0; i < members_; ++i) {
        kernel_.store_smem(list_ + begin + i, group[i]);
        kernel_.store_smem(table + group[i], i | begin << kPlaceBits);
      }
      begin += members_;
    }
    first_ = kernel_.load_smem(table, own_);
    kernel_.new_block();
  }
  SReg number_of(SReg member) {
    if (!first_) return member;
    return kernel_.load_smem(list_, kernel_.add(kernel_.shift_right(*first_, kPlaceBits), member));
  }
  /// The other members, beginning with the one behind this.
  void for_each_other(const std::function<void(SReg member)>& visit) {
    kernel_.loop(members_ - 1, [&](SReg turn) {
      const SReg ahead = kernel_.add(kernel_.add(place_, turn), 1);
      visit(kernel_.select(kernel_.less(ahead, members_), ahead, kernel_.sub(ahead, members_)));
    });
  }

  const std::uint32_t members_;
  std::uint32_t list_ = 0;
  std::optional<SReg> first_;  ///< This core's entry of the table of places, where there is one.
  SReg place_;
};

class Permute : Exchange {
 public:
  Permute(std::uint64_t granules, const std::vector<std::int64_t>& sources, std::uint32_t number,
          const Target& target)
      : Exchange("collective-permute", granules, number, target), sources_(sources) {}

  isa::Kernel build() {
    const SReg entry = kernel_.load_smem(write_table(), own_);
    const auto number = [&](int shift) {
      return kernel_.and_(kernel_.shift_right(entry, shift), kMostCores - 1);
    };
    const auto is = [&](int bit) {
      return kernel_.equal(kernel_.and_(kernel_.shift_right(entry, bit), 1), 1);
    };
    const PReg receives = is(kReceives), sends = is(kSends), keeps = is(kKeeps);
    const PReg has_none = is(kHasNone);
    const SReg target = number(0), source = number(kPlaceBits);
    kernel_.new_block();
    kernel_.if_(receives, [&] { tell(peer(source)); });
    kernel_.if_(sends, [&] {
      kernel_.wait(entered_, 1);
      send(peer(target), operand_, result_);
    });
    kernel_.if_(keeps, [&] { copy(operand_, result_); });
    kernel_.if_(has_none,
                [&] { clear_granules(kernel_, region_, piece_, result_, 0, granules_, copied_); });
    kernel_.if_(sends, [&] { kernel_.wait(dma_.sent, sum()); });
    kernel_.if_(receives, [&] { kernel_.wait(dma_.received, sum()); });
    return kernel_.finish();
  }

 private:
  static constexpr int kReceives = 2 * kPlaceBits, kSends = kReceives + 1, kKeeps = kSends + 1,
                       kHasNone = kKeeps + 1;

  /// Of each core whom it sends to, whom it receives from, and whether.
  std::uint32_t write_table() {
    std::vector<std::uint32_t> entries(target_.cores, 0);
    for (std::uint32_t to = 0; to < target_.cores; ++to) {
      const std::int64_t from = sources_.at(to);
      if (from < 0) {
        entries[to] |= 1U << kHasNone;
      } else if (from == to) {
        entries[to] |= 1U << kKeeps;
      } else {
        entries[to] |= static_cast<std::uint32_t>(from) << kPlaceBits | 1U << kReceives;
        entries[static_cast<std::size_t>(from)] |= to | 1U << kSends;
      }
    }
    const std::uint32_t table = kernel_.allocate_smem(target_.cores);
    for (std::uint32_t core = 0; core < target_.cores; ++core) {
      kernel_.store_smem(table + core, entries[core]);
    }
    kernel_.new_block();
    return table;
  }

  const std::vector<std::int64_t>& sources_;
};

}  // namespace

isa::Kernel all_to_all_kernel(std::uint64_t block_granules, const Target& target,
                              const Ring& ring) {
  return AllToAll(block_granules, target, ring).build();
}

isa::Kernel permute_kernel(std::uint64_t granules, const std::vector<std::int64_t>& sources,
                           std::uint32_t number, const Target& target) {
  return Permute(granules, sources, number, target).build();
}

}  // namespace tpu::compiler
