#include "workloads/compiler/passes/fuse/bucket_choice.h"

#include <algorithm>
#include <limits>

#include "isa/program.h"
#include "workloads/compiler/cost.h"
#include "workloads/compiler/ir/bucket_shape.h"
#include "workloads/compiler/ir/ring.h"
#include "workloads/graph/hlo_cost_analysis.h"

namespace tpu::compiler {
namespace {

using hlo::InstructionId;
using Buckets = std::vector<GradientBucket>;

/// When the products of a computation end, each as its arrays or the HBM take for it.
class ProductTimes {
 public:
  ProductTimes(const hlo::Module& module, const Target& target) {
    hlo::HloCostAnalysis analysis(module);
    const hlo::Computation& entry = module.entry_computation();
    const double rate = 2.0 * target.mxu_rows * target.mxu_columns * target.mxu_count;
    double cycles = 0;
    for (const hlo::HloInstruction& instruction : entry.instructions) {
      const hlo::HloCost cost = analysis.of(entry, instruction);
      if (cost.matmul_flops > 0) {
        cycles += std::max(static_cast<double>(cost.matmul_flops) / rate,
                           static_cast<double>(cost.hbm_bytes) / target.hbm_bytes_per_cycle);
      }
      cycles_.push_back(cycles);
    }
  }
  double at(InstructionId id) const { return cycles_[static_cast<std::size_t>(id)]; }
  double end() const { return cycles_.back(); }

 private:
  std::vector<double> cycles_;
};

class BucketSearch {
 public:
  BucketSearch(const hlo::Module& module, const std::vector<ReducedArray>& arrays,
               const Target& target)
      : arrays_(arrays), target_(target), times_(module, target) {
    for (std::size_t i = 0; i < arrays.size(); ++i) order_.push_back(i);
    std::stable_sort(order_.begin(), order_.end(),
                     [&](std::size_t a, std::size_t b) { return arrays_[a].id < arrays_[b].id; });
  }

  Buckets cheapest() const {
    constexpr std::uint64_t kSmallest = std::uint64_t{1} << 20, kLargest = kSmallest << 8;
    Buckets best = all_at_once();
    double least = waiting_cycles(best[0]);
    for (std::uint64_t bytes = kLargest; bytes >= kSmallest; bytes /= 2) {
      Buckets buckets = of_size(bytes);
      go_beside_kernels(buckets, true);
      const double cycles = cycles_of(buckets);
      if (cycles >= least) continue;
      least = cycles;
      best = std::move(buckets);
    }
    return best;
  }

  Buckets of_given_size() const {
    Buckets buckets = of_size(target_.bucket_bytes);
    go_beside_kernels(buckets, false);
    return buckets;
  }

  Buckets all_at_once() const {
    GradientBucket all;
    for (std::size_t i = 0; i < arrays_.size(); ++i) all.arrays.push_back(i);
    return {all};
  }

 private:
  Buckets of_size(std::uint64_t bytes) const {
    Buckets buckets;
    std::uint64_t filled = bytes;
    for (const std::size_t i : order_) {
      if (filled >= bytes) {
        buckets.emplace_back();
        filled = 0;
      }
      buckets.back().arrays.push_back(i);
      filled += arrays_[i].granules * isa::kHbmGranuleBytes;
    }
    return buckets;
  }

  /// Those that products follow; where asked, those alone that have gone when the last one ends.
  void go_beside_kernels(Buckets& buckets, bool whole) const {
    double free = 0;
    for (GradientBucket& bucket : buckets) {
      const double begin = std::max(free, times_.at(last_of(bucket)));
      const double end = begin + 2 * bucket_passage_cycles(shape(bucket), target_);
      bucket.beside_kernels = whole ? end <= times_.end() : begin < times_.end();
      if (bucket.beside_kernels) free = end;
    }
  }

  double cycles_of(const Buckets& buckets) const {
    double cycles = 0;
    GradientBucket waiting;
    for (const GradientBucket& bucket : buckets) {
      if (!bucket.beside_kernels) {
        waiting.arrays.insert(waiting.arrays.end(), bucket.arrays.begin(), bucket.arrays.end());
        continue;
      }
      // Three kernels; their entrance is a way there and back.
      cycles += 3 * kKernelCycles + 2.0 * target_.hop_cycles;
      cycles += bucket_memory_cycles(shape(bucket), target_);
    }
    if (!waiting.arrays.empty()) cycles += waiting_cycles(waiting);
    return cycles;
  }

  double waiting_cycles(const GradientBucket& bucket) const {
    return all_reduce_cycles(all_reduce_shape(granules(bucket), target_), target_);
  }
  std::uint64_t granules(const GradientBucket& bucket) const {
    std::uint64_t sum = 0;
    for (const std::size_t i : bucket.arrays) sum += arrays_[i].granules;
    return sum;
  }
  BucketShape shape(const GradientBucket& bucket) const {
    return bucket_shape(granules(bucket), target_);
  }
  InstructionId last_of(const GradientBucket& bucket) const {
    InstructionId last = 0;
    for (const std::size_t i : bucket.arrays) last = std::max(last, arrays_[i].id);
    return last;
  }

  const std::vector<ReducedArray>& arrays_;
  const Target& target_;
  const ProductTimes times_;
  std::vector<std::size_t> order_;  ///< In which they become known.
};

/// What waits is one all-reduce.
Buckets with_one_that_waits(const Buckets& buckets) {
  Buckets joined;
  GradientBucket waiting;
  for (const GradientBucket& bucket : buckets) {
    if (bucket.beside_kernels) {
      joined.push_back(bucket);
    } else {
      waiting.arrays.insert(waiting.arrays.end(), bucket.arrays.begin(), bucket.arrays.end());
    }
  }
  if (!waiting.arrays.empty()) joined.push_back(waiting);
  return joined;
}

}  // namespace

Buckets gradient_buckets(const hlo::Module& module, const std::vector<ReducedArray>& arrays,
                         const Target& target) {
  const BucketSearch search(module, arrays, target);
  if (target.bucket_bytes == 0 || !has_bucket_kernels(target)) return search.all_at_once();
  return with_one_that_waits(target.bucket_bytes == kBucketsByCost ? search.cheapest()
                                                                   : search.of_given_size());
}

}  // namespace tpu::compiler
