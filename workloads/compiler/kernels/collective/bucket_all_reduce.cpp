#include "workloads/compiler/kernels/collective/bucket_all_reduce.h"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "sim/base/ceil_divide.h"
#include "sim/base/error.h"
#include "workloads/compiler/cost.h"
#include "workloads/compiler/kernels/collective/exchange_emitter.h"

namespace tpu::compiler {
namespace {

constexpr std::uint32_t kGranulesOfRegister = isa::kSublanes / kRowsPerGranule;
constexpr std::uint32_t kLargestSummed = 256;  ///< Granules of a chunk.

ExchangeFlags flags_of(BucketPhase phase, std::uint32_t number) {
  const std::uint32_t place = 2 * (number % kMostBucketsUnderWay);
  const std::uint32_t way = phase == BucketPhase::kScatter ? 0 : 1;
  ExchangeFlags flags;
  flags.entered = kBucketEntranceFlags.begin + number % 2;
  flags.received = kBucketArrivalFlags.begin + place + way;
  flags.sent = kBucketSentFlags.begin + place + way;
  return flags;
}

/// The kernels of the three phases.
class BucketKernel : ExchangeEmitter {
 public:
  BucketKernel(BucketPhase phase, const BucketShape& shape, std::uint32_t number,
               const Target& target)
      : ExchangeEmitter(name_of(phase), shape.segment_granules, flags_of(phase, number), target),
        shape_(shape),
        scatter_flags_(flags_of(BucketPhase::kScatter, number)) {}

  isa::Kernel build(BucketPhase phase) {
    switch (phase) {
      case BucketPhase::kScatter:
        scatter();
        break;
      case BucketPhase::kSum:
        sum_up();
        break;
      case BucketPhase::kGather:
        kernel_.wait(dma_.received, others() * sum());
        kernel_.wait(dma_.sent, others() * sum());
        break;
    }
    return kernel_.finish();
  }

 private:
  static const char* name_of(BucketPhase phase) {
    switch (phase) {
      case BucketPhase::kScatter:
        return "all-reduce-scatter";
      case BucketPhase::kSum:
        return "all-reduce-sum";
      case BucketPhase::kGather:
        return "all-reduce-gather";
    }
    return "";
  }

  std::uint32_t others() const { return shape_.members - 1; }
  SReg segment(SReg member) {
    return kernel_.add(operand_, kernel_.mul(member, shape_.segment_granules));
  }
  /// The other cores, beginning with the one behind this: in each turn all send to different ones.
  void for_each_other(const std::function<void(SReg member, SReg turn)>& visit) {
    kernel_.loop(others(), [&](SReg turn) {
      const SReg ahead = kernel_.add(kernel_.add(own_, turn), 1);
      const SReg wrapped = kernel_.sub(ahead, shape_.members);
      visit(kernel_.select(kernel_.less(ahead, shape_.members), ahead, wrapped), turn);
    });
  }

  void scatter() {
    // What was not asked for is summed, too.
    clear(operand_, shape_.used_granules, shape_.granules());
    for_each_other([&](SReg member, SReg) { tell(peer(member)); });
    kernel_.wait(flags_.entered, others());
    for_each_other([&](SReg member, SReg turn) {
      send(peer(member), segment(member),
           kernel_.add(result_, kernel_.mul(turn, shape_.segment_granules)));
    });
  }

  void sum_up() {
    kernel_.wait(*scatter_flags_.received, others() * sum());
    // The others write their sums over what has left.
    kernel_.wait(*scatter_flags_.sent, others() * sum());
    kernel_.new_block();
    add_chunks();
    const SReg mine = segment(own_);
    for_each_other([&](SReg member, SReg) { send(peer(member), mine, mine); });
  }

  std::uint32_t chunk_rows() const { return shape_.chunk_granules * kRowsPerGranule; }

  /// A chunk of the core's own segment and those of all others beside it in VMEM, while the next
  /// ones are on their way.
  void add_chunks() {
    const std::uint32_t set_rows = shape_.members * chunk_rows();
    chunks_ = kernel_.allocate_vmem(2 * set_rows);
    loaded_ = kernel_.allocate_flag();
    written_ = kernel_.allocate_flag();
    const std::uint32_t chunk = shape_.chunk_granules;
    const std::uint32_t count = shape_.segment_granules / chunk;
    load(kernel_.constant(0), kernel_.constant(0));
    kernel_.loop(count, [&](SReg number) {
      const SReg set = kernel_.mul(kernel_.and_(number, 1), set_rows);
      kernel_.wait(loaded_, shape_.members * chunk);
      kernel_.if_(kernel_.less(0, number), [&] { kernel_.wait(written_, chunk); });
      kernel_.if_(kernel_.less(number, count - 1),
                  [&] { load(kernel_.add(number, 1), kernel_.sub(set_rows, set)); });
      add_others(set);
      const SReg offset = kernel_.mul(number, chunk);
      kernel_.dma_out(VmemAddress(chunks_, 0, set), kernel_.add(segment(own_), offset), chunk,
                      written_);
      kernel_.new_block();
    });
    kernel_.wait(written_, chunk);
    kernel_.new_block();
  }

  void load(SReg number, SReg set) {
    const std::uint32_t chunk = shape_.chunk_granules;
    const SReg offset = kernel_.mul(number, chunk);
    kernel_.dma_in(kernel_.add(segment(own_), offset), VmemAddress(chunks_, 0, set), chunk,
                   loaded_);
    kernel_.new_block();
    kernel_.loop(others(), [&](SReg other) {
      const SReg from = kernel_.add(kernel_.mul(other, shape_.segment_granules), offset);
      const SReg row = kernel_.add(set, kernel_.mul(other, chunk_rows()));
      kernel_.dma_in(kernel_.add(result_, from), VmemAddress(chunks_, chunk_rows(), row), chunk,
                     loaded_);
      kernel_.new_block();
    });
  }

  /// In the order of arrival, which is another on each core, but each sum is made on one alone.
  void add_others(SReg set) {
    kernel_.new_block();
    kernel_.loop(chunk_rows() / isa::kSublanes, [&](SReg turn) {
      const SReg row = kernel_.add(set, kernel_.mul(turn, isa::kSublanes));
      VReg total = kernel_.load(VmemAddress(chunks_, 0, row));
      for (std::uint32_t other = 1; other < shape_.members; ++other) {
        const std::int64_t behind = std::int64_t{other} * chunk_rows();
        total = kernel_.add(total, kernel_.load(VmemAddress(chunks_, behind, row)));
      }
      kernel_.store(VmemAddress(chunks_, 0, row), total);
    });
    kernel_.new_block();
  }

  const BucketShape& shape_;
  const ExchangeFlags scatter_flags_;
  VmemRegion chunks_;
  std::uint32_t loaded_ = 0, written_ = 0;
};

/// What the fullest link carries when each core sends so many bytes to every other one.
double fullest_link(double bytes, const Target& target) {
  const std::uint32_t chips = target.cores / target.cores_per_chip;
  const double of_chips = bytes * target.cores_per_chip * target.cores_per_chip;
  std::map<std::pair<std::uint32_t, int>, double> carried;
  double most = 0;
  for (std::uint32_t from = 0; from < chips; ++from) {
    for (std::uint32_t to = 0; to < chips; ++to) {
      for (std::uint32_t at = from; at != to;) {
        const isa::Topology::Direction way = target.slice.towards(at, to);
        most = std::max(most, carried[{at, way}] += of_chips);
        at = target.slice.neighbour(at, way);
      }
    }
  }
  return most;
}

}  // namespace

BucketShape bucket_shape(std::uint64_t granules, const Target& target) {
  BucketShape shape;
  shape.members = target.cores;
  shape.used_granules = granules;
  const std::uint64_t vmem = target.vmem_bytes / isa::kHbmGranuleBytes;
  const std::uint64_t most = std::clamp<std::uint64_t>(
      vmem / 4 / shape.members / kGranulesOfRegister * kGranulesOfRegister, kGranulesOfRegister,
      kLargestSummed);
  const std::uint64_t segment = ceil_divide(granules, std::uint64_t{shape.members});
  const std::uint64_t count = std::max<std::uint64_t>(1, ceil_divide(segment, most));
  const std::uint64_t chunk = round_up(std::max<std::uint64_t>(1, ceil_divide(segment, count)),
                                       std::uint64_t{kGranulesOfRegister});
  shape.chunk_granules = static_cast<std::uint32_t>(chunk);
  shape.segment_granules = static_cast<std::uint32_t>(chunk * count);
  return shape;
}

bool has_bucket_kernels(const Target& target) {
  return target.cores > 1 && target.cores <= kMostBucketMembers && target.cores_per_chip <= 2 &&
         target.cores == target.slice.chips() * target.cores_per_chip;
}

isa::Kernel bucket_kernel(BucketPhase phase, const BucketShape& shape, std::uint32_t number,
                          const Target& target) {
  return BucketKernel(phase, shape, number, target).build(phase);
}

double bucket_passage_cycles(const BucketShape& shape, const Target& target) {
  const double segment = static_cast<double>(shape.segment_granules) * isa::kHbmGranuleBytes;
  std::uint32_t hops = 0;
  for (std::uint32_t chip = 0; chip < target.slice.chips(); ++chip) {
    hops = std::max(hops, target.slice.hops(0, chip));
  }
  return fullest_link(segment, target) / target.link_bytes_per_cycle +
         static_cast<double>(hops) * target.hop_cycles;
}

double bucket_memory_cycles(const BucketShape& shape, const Target& target) {
  // Sent and landed, added, the sums sent and landed.
  const auto landing = static_cast<double>(shape.landing_granules());
  const double added = landing + 2.0 * shape.segment_granules;
  const double rate = kMixedTrafficRate * target.hbm_bytes_per_cycle;
  return (4 * landing + added) * isa::kHbmGranuleBytes / rate;
}

}  // namespace tpu::compiler
