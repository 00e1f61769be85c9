#include "workloads/compiler/passes/fuse/bucket_phases.h"

#include <algorithm>
#include <cstdlib>
#include <set>
#include <string>
#include <vector>

#include "workloads/compiler/codegen/flag_ranges.h"
#include "workloads/compiler/cost.h"
#include "workloads/compiler/ir/array_layout.h"
#include "workloads/compiler/ir/bucket_shape.h"
#include "workloads/compiler/passes/edit.h"
#include "workloads/compiler/passes/expand/control_flow.h"
#include "workloads/compiler/passes/memory/storage.h"
#include "workloads/graph/hlo_cost_analysis.h"

namespace tpu::compiler {
namespace {

using hlo::Computation;
using hlo::HloInstruction;
using hlo::HloOpcode;
using hlo::InstructionId;

constexpr const char* kBeside = "beside_kernels=";
/// Flags and entrances repeat after so many.
constexpr std::uint32_t kNumbers = 2 * kMostBucketsUnderWay;

bool is_marked(const HloInstruction& instruction) {
  return instruction.opcode == HloOpcode::kAllReduce &&
         instruction.raw_attributes->find(kBeside) != std::string::npos;
}

class PhaseSplitter {
 public:
  PhaseSplitter(hlo::Module& module, const Target& target)
      : target_(target), entry_(module.entry_computation()), map_(entry_) {
    hlo::HloCostAnalysis analysis(module);
    const double rate = 2.0 * target.mxu_rows * target.mxu_columns * target.mxu_count;
    for (const HloInstruction& instruction : entry_.instructions) {
      double cycles = 0;
      if (!is_bookkeeping(instruction) && !runs_region(instruction)) {
        const hlo::HloCost cost = analysis.of(entry_, instruction);
        cycles = kKernelCycles +
                 std::max(static_cast<double>(cost.matmul_flops) / rate,
                          static_cast<double>(cost.hbm_bytes) / target.hbm_bytes_per_cycle);
      }
      cycles_.push_back(cycles);
    }
  }

  void run() {
    for (const HloInstruction& instruction : entry_.instructions) {
      if (is_marked(instruction)) buckets_.insert(instruction.id);
    }
    std::vector<Plan> plans;
    for (const HloInstruction& instruction : entry_.instructions) {
      if (!is_marked(instruction)) continue;
      const InstructionId start = kernel_behind(last_use_before(instruction), instruction.id);
      entry_.at(instruction.id).raw_attributes.reset();
      if (start < instruction.id) plans.push_back({instruction.id, start});
    }
    std::sort(plans.begin(), plans.end(),
              [](const Plan& a, const Plan& b) { return a.start < b.start; });
    for (const Plan& plan : plans) split(plan);
    if (!plans.empty()) tidy(entry_);
  }

 private:
  /// An all-reduce and the kernel before which it starts.
  struct Plan {
    InstructionId whole = 0, start = 0;
  };

  /// The last kernel before an all-reduce that makes or reads one of its arrays, or runs others.
  InstructionId last_use_before(const HloInstruction& whole) const {
    const std::vector<std::size_t>& own = map_.of(whole.id);
    const std::set<std::size_t> storages(own.begin(), own.end());
    const auto touches = [&](InstructionId id) {
      const std::vector<std::size_t>& of = map_.of(id);
      return std::any_of(of.begin(), of.end(),
                         [&](std::size_t storage) { return storages.count(storage) != 0; });
    };
    InstructionId last = 0;
    for (InstructionId id = 0; id < whole.id; ++id) {
      const HloInstruction& before = entry_.at(id);
      if (is_bookkeeping(before)) continue;
      const bool uses = runs_region(before) || touches(id) ||
                        std::any_of(before.operands.begin(), before.operands.end(), touches);
      if (uses) last = id;
    }
    return last;
  }

  /// The first kernel behind one, before `end`. Other buckets are none: their halves move, too.
  InstructionId kernel_behind(InstructionId id, InstructionId end) const {
    do ++id;
    while (id < end && (is_bookkeeping(entry_.at(id)) || buckets_.count(id) != 0));
    return id;
  }

  void stand_before(InstructionId id, InstructionId kernel) {
    entry_.at(kernel).control_predecessors.edit().push_back(id);
  }

  InstructionId append_phase(HloOpcode opcode, InstructionId whole, const char* suffix,
                             std::vector<InstructionId> operands, std::vector<hlo::Shape> results) {
    HloInstruction phase;
    phase.opcode = opcode;
    phase.name = entry_.at(whole).name + suffix;
    phase.operands = std::move(operands);
    phase.metadata = entry_.at(whole).metadata;
    phase.raw_attributes = number_text();
    phase.shape.type = hlo::ElementType::kTuple;
    phase.shape.elements = std::move(results);
    return append(entry_, std::move(phase));
  }

  std::string number_text() const { return kBeside + std::to_string(split_.size() % kNumbers); }

  void split(const Plan& plan) {
    const HloInstruction whole = entry_.at(plan.whole);
    const BucketShape shape = bucket_shape(granules(whole.shape), target_);
    std::vector<hlo::Shape> results = whole.shape.elements;
    if (!whole.shape.is_tuple()) results = {whole.shape};
    std::vector<hlo::Shape> with_landing = results;
    hlo::Shape landing = hlo::array_shape(
        hlo::ElementType::kF32,
        {static_cast<std::int64_t>(shape.landing_granules() * isa::kHbmGranuleBytes / 4)});
    landing.layout = tiled_layout(hlo::ElementType::kF32, {0});
    with_landing.push_back(landing);
    const InstructionId start = append_phase(HloOpcode::kAllReduceStart, plan.whole, ".scatter",
                                             whole.operands, with_landing);
    const InstructionId update =
        append_phase(HloOpcode::kAsyncUpdate, plan.whole, ".sum", {start}, results);
    HloInstruction& end = entry_.at(plan.whole);
    end.opcode = HloOpcode::kAllReduceDone;
    end.operands = {update};
    end.called.clear();
    end.raw_attributes = number_text();
    if (split_.size() >= kMostBucketsUnderWay) {
      stand_before(split_[split_.size() - kMostBucketsUnderWay], start);
    }
    stand_before(start, plan.start);
    // The links carry one after the other.
    const double passage = bucket_passage_cycles(shape, target_);
    double now = 0;
    for (InstructionId id = 0; id < plan.start; ++id) now += cycles_[static_cast<std::size_t>(id)];
    const double arrived = std::max(now, links_free_) + passage;
    links_free_ = arrived + passage;
    InstructionId id = plan.start;
    for (; id < plan.whole && now < arrived; ++id) now += cycles_[static_cast<std::size_t>(id)];
    const InstructionId place = kernel_behind(id - 1, plan.whole);
    if (place < plan.whole) stand_before(update, place);
    split_.push_back(plan.whole);
  }

  const Target& target_;
  Computation& entry_;
  const StorageMap map_;
  std::set<InstructionId> buckets_;
  std::vector<double> cycles_;  ///< Of each instruction, about.
  std::vector<InstructionId> split_;
  double links_free_ = 0;
};

}  // namespace

void split_into_phases(hlo::Module& module, const Target& target) {
  const std::vector<HloInstruction>& all = module.entry_computation().instructions;
  if (std::none_of(all.begin(), all.end(), is_marked)) return;
  PhaseSplitter(module, target).run();
}

void mark_beside_kernels(HloInstruction& all_reduce) {
  all_reduce.raw_attributes = std::string(kBeside) + "0";
}

bool is_bucket_phase(const HloInstruction& instruction) {
  const bool is_phase = instruction.opcode == HloOpcode::kAllReduceStart ||
                        instruction.opcode == HloOpcode::kAsyncUpdate ||
                        instruction.opcode == HloOpcode::kAllReduceDone;
  return is_phase && instruction.raw_attributes->find(kBeside) != std::string::npos;
}

std::uint32_t bucket_number(const HloInstruction& phase) {
  const std::size_t at = phase.raw_attributes->find(kBeside);
  return static_cast<std::uint32_t>(
      std::strtoul(phase.raw_attributes->c_str() + at + std::string(kBeside).size(), nullptr, 10));
}

}  // namespace tpu::compiler
