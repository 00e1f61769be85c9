#include "workloads/compiler/kernels/collective/exchange.h"

#include <functional>
#include <optional>
#include <string>

#include "sim/base/error.h"
#include "workloads/compiler/codegen/kernel_builder.h"
#include "workloads/compiler/kernels/collective/exchange_emitter.h"

namespace tpu::compiler {
namespace {

/// The flags of an exchange among all cores in order, or of another grouping.
ExchangeFlags flags_of(std::uint32_t number) {
  ExchangeFlags flags;
  flags.entered = number == 0 ? kExchangeEntranceFlag.begin : kGroupEntranceFlags.begin + number;
  return flags;
}

void check_number(std::uint32_t number) {
  if (number < kMostRings) return;
  throw WorkloadError("expected exchanges in at most " + std::to_string(kMostRings) +
                      " different groupings of cores, found grouping " + std::to_string(number));
}

/// Blocks for each member of a group.
class BlockExchange : ExchangeEmitter {
 public:
  BlockExchange(const char* name, std::uint64_t granules, const Target& target, const Ring& ring)
      : ExchangeEmitter(name, granules, flags_of(ring.number), target),
        members_(ring.members(target)) {
    if (!ring.groups.empty()) write_tables(ring);
  }

  isa::Kernel build_own_block() {
    find_place();
    const auto block = static_cast<std::uint32_t>(granules_);
    copy(kernel_.add(operand_, kernel_.mul(place_, block)), result_);
    return kernel_.finish();
  }

  isa::Kernel build_all_to_all() {
    find_place();
    const auto block = static_cast<std::uint32_t>(granules_);
    const std::uint32_t others = members_ - 1;
    for_each_other([&](SReg member) { tell(peer(number_of(member))); });
    kernel_.wait(flags_.entered, others);
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
  void find_place() { place_ = first_ ? kernel_.and_(*first_, kMostCores - 1) : own_; }

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

class Permute : ExchangeEmitter {
 public:
  Permute(std::uint64_t granules, const std::vector<std::int64_t>& sources, std::uint32_t number,
          const Target& target)
      : ExchangeEmitter("collective-permute", granules, flags_of(number), target),
        sources_(sources) {}

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
      kernel_.wait(flags_.entered, 1);
      send(peer(target), operand_, result_);
    });
    kernel_.if_(keeps, [&] { copy(operand_, result_); });
    kernel_.if_(has_none, [&] { clear(result_, 0, granules_); });
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
  check_number(ring.number);
  return BlockExchange("all-to-all", block_granules, target, ring).build_all_to_all();
}

isa::Kernel own_block_kernel(std::uint64_t block_granules, const Target& target, const Ring& ring) {
  check_number(ring.number);
  return BlockExchange("own-block", block_granules, target, ring).build_own_block();
}

isa::Kernel permute_kernel(std::uint64_t granules, const std::vector<std::int64_t>& sources,
                           std::uint32_t number, const Target& target) {
  check_number(number);
  return Permute(granules, sources, number, target).build();
}

}  // namespace tpu::compiler
