#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "isa/bundle_check.h"
#include "isa/core_state.h"
#include "isa/disassembler.h"
#include "isa/execute.h"
#include "isa/opcode_table.h"
#include "isa/program.h"
#include "sim/base/error.h"
#include "workloads/compiler/codegen/kernel_builder.h"
#include "workloads/compiler/target.h"

namespace tpu::test {

/// When a DMA of the harness moves its data: at its start, or only when somebody waits for it. A
/// kernel must give the same results with both: the late one shows missing waits and buffers that
/// are reused too early.
enum class DmaTiming { kAtOnce, kLate };

/// Checks what the machine checks of a schedule: that no register and no queue is read before the
/// opcode table's latency has passed and that units get their intervals.
class LatencyCheck {
 public:
  explicit LatencyCheck(const compiler::Target& target) {
    latencies_.matmul_cycles = target.matmul_latency_cycles;
    latencies_.mxu_interval_cycles = target.push_interval_cycles;
    latencies_.xlu_cycles = target.xlu_latency_cycles;
    latencies_.xlu_interval_cycles = target.xlu_interval_cycles;
    latencies_.eup_cycles = target.eup_latency_cycles;
    mxu_entries_ = target.result_queue_entries;
  }

  void issue(const isa::Kernel& kernel, const isa::Bundle& bundle, std::uint64_t cycle) {
    for (const isa::Instruction* in = kernel.begin(bundle); in != kernel.end(bundle); ++in) {
      read(*in, cycle);
    }
    for (const isa::Instruction* in = kernel.begin(bundle); in != kernel.end(bundle); ++in) {
      write(*in, cycle);
    }
  }
  /// No queue holds a result.
  bool all_popped() const {
    for (const auto& [key, queue] : queues_) {
      if (!queue.empty()) return false;
    }
    return true;
  }

 private:
  struct Written {
    std::uint64_t cycle = 0;
    isa::Opcode by = isa::Opcode::kCount;
  };
  void fail(const isa::Instruction& in, std::uint64_t cycle, const std::string& what) const {
    throw ProgramFault(isa::format_instruction(in) + " in cycle " + std::to_string(cycle) + ": " +
                       what);
  }
  void read_register(const isa::Instruction& in, char file, std::uint8_t reg,
                     std::uint64_t cycle) const {
    const auto found = written_.find({file, reg});
    if (found == written_.end()) return;
    const Written& written = found->second;
    const std::uint64_t ready = written.cycle + isa::result_latency(written.by, latencies_);
    if (cycle < ready)
      fail(in, cycle, std::string("reads ") + file + std::to_string(reg) + " early");
  }
  void read(const isa::Instruction& in, std::uint64_t cycle) {
    const isa::OpcodeInfo& row = isa::info(in.opcode);
    if (in.guard.predicate != isa::kNoRegister) read_register(in, 'p', in.guard.predicate, cycle);
    for (std::size_t i = 0; i < row.operand_count; ++i) {
      if (in.operands[i].kind != isa::Operand::Kind::kRegister) continue;
      read_register(in, row.operand_files[i], in.operands[i].reg, cycle);
    }
    for (std::uint8_t base : in.address.base) {
      if (base != isa::kNoRegister) read_register(in, 's', base, cycle);
    }
    if (in.address.mask_register != isa::kNoRegister) {
      read_register(in, 's', in.address.mask_register, cycle);
    }
  }
  void check_unit(const isa::Instruction& in, std::uint64_t cycle) {
    const isa::OpcodeInfo& row = isa::info(in.opcode);
    const std::uint32_t interval = isa::issue_interval(in.opcode, latencies_);
    if (interval <= 1) return;
    const bool weights = row.queue == isa::Queue::kNone;
    const bool latches = in.opcode == isa::Opcode::kVmatlatchPart;
    const isa::MxuParts parts = isa::parts_of(in);
    const std::uint32_t part = row.pops || weights ? parts.row * latches + parts.column : 0;
    const int kind = static_cast<int>(part) * 1024 + static_cast<int>(row.unit) * 8 +
                     (row.pops ? 4 : 0) + (weights ? 2 : 0) + (latches ? 1 : 0);
    const auto [last, first] = last_issue_.try_emplace({kind, in.unit}, cycle);
    if (!first && cycle < last->second + interval) fail(in, cycle, "its unit is busy");
    last->second = cycle;
  }
  void write(const isa::Instruction& in, std::uint64_t cycle) {
    const isa::OpcodeInfo& row = isa::info(in.opcode);
    check_unit(in, cycle);
    if (row.queue != isa::Queue::kNone) {
      const isa::MxuParts parts = isa::parts_of(in);
      const auto part_queue = [&](std::uint32_t column) -> std::deque<std::uint64_t>& {
        return queues_[{static_cast<int>(row.queue) + 64 * static_cast<int>(column), in.unit}];
      };
      std::deque<std::uint64_t>& queue = part_queue(parts.column);
      if (row.pops) {
        if (queue.empty()) fail(in, cycle, "pops an empty queue");
        if (cycle < queue.front()) {
          fail(in, cycle, "pops a result of cycle " + std::to_string(queue.front()));
        }
        queue.pop_front();
      } else {
        std::uint32_t results = 1;
        if (row.queue == isa::Queue::kTranspose) {
          const bool last = in.operands[2].immediate == in.operands[3].immediate;
          results = last ? in.operands[1].immediate / 8 : 0;
        }
        for (std::uint32_t i = 0; i < results; ++i) {
          queue.push_back(cycle + isa::result_latency(in.opcode, latencies_));
        }
        for (std::uint32_t column = 1; column < parts.columns; ++column) {
          part_queue(column).push_back(cycle + isa::result_latency(in.opcode, latencies_));
        }
        if (row.queue == isa::Queue::kMxuResult && queue.size() > mxu_entries_) {
          fail(in, cycle, "the result queue is full");
        }
      }
    }
    if (in.dest != isa::kNoRegister) written_[{row.dest_file, in.dest}] = {cycle, in.opcode};
  }

  isa::Latencies latencies_;
  std::uint32_t mxu_entries_ = 0;
  std::map<std::pair<char, std::uint8_t>, Written> written_;
  std::map<std::pair<int, std::uint8_t>, std::deque<std::uint64_t>> queues_;
  std::map<std::pair<int, std::uint8_t>, std::uint64_t> last_issue_;
};

/// Executes one kernel on values, without the machine: every DMA is free, a wait for a flag that
/// nothing raises is a fault. Checks bundles, latencies, and that flags and queues end empty.
class KernelHarness : private isa::Surroundings {
 public:
  static constexpr std::uint32_t kGarbage = 0x7fc0dead;  ///< A NaN in memory that nobody wrote.

  struct Result {
    std::uint64_t cycles = 0;  ///< Bundles and delays: no DMA costs anything.
    std::uint64_t matmuls = 0;
    std::uint64_t dmas = 0;
    std::uint64_t dma_bytes = 0;
  };

  explicit KernelHarness(const compiler::Target& target, std::uint64_t hbm_bytes = 16 << 20)
      : target_(target), hbm_words_(hbm_bytes / 4), hbm_(kGranuleWords, kGarbage) {}

  /// Reserves HBM, fills it (the rest with garbage) and returns its granule.
  std::uint32_t place(const std::vector<std::uint32_t>& words) {
    const std::uint32_t granule = reserve(words.size() * 4);
    std::copy(words.begin(), words.end(),
              hbm_.begin() + static_cast<std::ptrdiff_t>(granule) * kGranuleWords);
    return granule;
  }
  std::uint32_t reserve(std::uint64_t bytes) {
    const std::uint32_t granule = next_granule_;
    // A granule of garbage behind each buffer: nothing may be written there.
    next_granule_ += static_cast<std::uint32_t>((bytes + 1023) / 1024) + 1;
    const std::uint64_t words = std::uint64_t{next_granule_} * kGranuleWords;
    TPU_CHECK(words <= hbm_words_, "harness: HBM is full");
    hbm_.resize(words, kGarbage);
    guards_.push_back(next_granule_ - 1);
    return granule;
  }
  std::vector<std::uint32_t> read(std::uint32_t granule, std::uint64_t words) const {
    const auto first = hbm_.begin() + static_cast<std::ptrdiff_t>(granule) * kGranuleWords;
    return {first, first + static_cast<std::ptrdiff_t>(words)};
  }

  /// Runs the kernel with the operands in s0, s1, ...
  Result run(const isa::Kernel& kernel, const std::vector<std::uint32_t>& operands,
             DmaTiming timing = DmaTiming::kLate) {
    isa::check_kernel(kernel);
    timing_ = timing;
    isa::CoreShape shape;
    shape.mxus = target_.mxu_count;
    shape.mxu_rows = target_.mxu_rows;
    shape.mxu_columns = target_.mxu_columns;
    isa::CoreState state(shape);
    const std::vector<std::uint32_t> garbage(isa::kLanes, kGarbage);
    for (std::uint32_t row = 0; row < state.vmem.rows(); ++row) {
      std::copy(garbage.begin(), garbage.end(), state.vmem.row(row));
    }
    for (std::size_t i = 0; i < operands.size(); ++i) state.scalar.s[i] = operands[i];
    state_ = &state;
    flags_.clear();
    pending_.clear();
    result_ = {};
    execute(kernel, state);
    while (!pending_.empty()) throw ProgramFault("the kernel ends before a DMA that it started");
    for (const auto& [flag, value] : flags_) {
      if (value != 0) throw ProgramFault("flag " + std::to_string(flag) + " ends non-zero");
    }
    for (std::uint32_t guard : guards_) {
      for (std::uint32_t i = 0; i < kGranuleWords; ++i) {
        TPU_CHECK(hbm_[std::size_t{guard} * kGranuleWords + i] == kGarbage,
                  "the kernel wrote behind a buffer, granule " << guard);
      }
    }
    return result_;
  }

 private:
  static constexpr std::uint32_t kGranuleWords = isa::kHbmGranuleBytes / 4;

  void execute(const isa::Kernel& kernel, isa::CoreState& state) {
    LatencyCheck latencies(target_);
    std::uint32_t pc = 0;
    std::uint32_t jump = 0;
    bool jumps = false;
    std::uint64_t steps = 0;
    while (pc < kernel.bundles.size()) {
      if (++steps > 200000000) throw ProgramFault("the kernel does not end");
      const isa::Bundle& bundle = kernel.bundles[pc];
      const isa::ControlRequest control = isa::control_of(kernel, bundle, state.scalar);
      if (control.waits) wait(control.flag, control.value);
      latencies.issue(kernel, bundle, result_.cycles);
      count(kernel, bundle);
      check_products(kernel, bundle, state);
      try {
        isa::execute_bundle(kernel, pc, state, *this);
      } catch (const ProgramFault& fault) {
        throw ProgramFault("bundle " + std::to_string(pc) + ": " + fault.what());
      }
      result_.cycles += 1 + bundle.delay;
      const std::uint32_t next = jumps ? jump : pc + 1;
      jumps = control.branches;
      jump = control.target;
      pc = next;
    }
    if (jumps) throw ProgramFault("a branch in the last bundle has no delay slot");
    if (!latencies.all_popped()) throw ProgramFault("the kernel ends with results in a queue");
  }
  /// v2 multiplies 24 bits without a sign: no index may have more.
  static void check_products(const isa::Kernel& kernel, const isa::Bundle& bundle,
                             const isa::CoreState& state) {
    for (const isa::Instruction* in = kernel.begin(bundle); in != kernel.end(bundle); ++in) {
      if (in->opcode != isa::Opcode::kSmulU24) continue;
      for (const isa::Operand& operand : in->operands) {
        if (operand.kind != isa::Operand::Kind::kRegister) continue;
        const std::uint32_t value = state.scalar.s.at(operand.reg);
        if (value >> 24 != 0) {
          throw ProgramFault(kernel.name + ": a product of " + std::to_string(value) +
                             ", expected 24 bits");
        }
      }
    }
  }
  void count(const isa::Kernel& kernel, const isa::Bundle& bundle) {
    for (const isa::Instruction* in = kernel.begin(bundle); in != kernel.end(bundle); ++in) {
      const isa::OpcodeInfo& row = isa::info(in->opcode);
      result_.matmuls += row.queue == isa::Queue::kMxuResult && !row.pops;
    }
  }
  void wait(std::uint32_t flag, std::uint32_t value) {
    while (static_cast<std::int32_t>(flags_[flag]) < static_cast<std::int32_t>(value)) {
      auto next = pending_.begin();
      while (next != pending_.end() && next->destination_flag != flag) ++next;
      if (next == pending_.end()) {
        throw ProgramFault("deadlock: flag " + std::to_string(flag) + " is " +
                           std::to_string(flags_[flag]) + " of " + std::to_string(value));
      }
      move(*next);
      pending_.erase(next);
    }
  }
  void start_dma(const isa::DmaDescriptor& descriptor) override {
    ++result_.dmas;
    result_.dma_bytes += std::uint64_t{descriptor.granules} * isa::kHbmGranuleBytes;
    if (timing_ == DmaTiming::kLate) {
      pending_.push_back(descriptor);
    } else {
      move(descriptor);
    }
  }
  std::uint32_t* granule(const isa::DmaEndpoint& end, std::uint32_t index) {
    const std::uint32_t run = end.granules_per_run;
    const std::uint64_t at = run == 0 ? index : index / run * end.stride + index % run;
    if (end.space == isa::MemorySpace::kHbm) {
      const std::uint64_t place = end.address + at;
      if (place >= next_granule_) throw ProgramFault("DMA beyond the buffers in HBM");
      return hbm_.data() + place * kGranuleWords;
    }
    if (end.space == isa::MemorySpace::kSmem) {
      const std::uint64_t word = end.address + at * kGranuleWords;
      if (word + kGranuleWords > state_->scalar.smem.size()) throw ProgramFault("DMA beyond SMEM");
      return state_->scalar.smem.data() + word;
    }
    if (end.space != isa::MemorySpace::kVmem) throw ProgramFault("DMA to or from this memory");
    const std::uint64_t row = end.address + 2 * at;
    if (row + 2 > state_->vmem.rows()) throw ProgramFault("DMA beyond VMEM");
    state_->vmem.mark_written(static_cast<std::uint32_t>(row), 2);
    return state_->vmem.row(static_cast<std::uint32_t>(row));
  }
  void move(const isa::DmaDescriptor& descriptor) {
    for (std::uint32_t i = 0; i < descriptor.granules; ++i) {
      const std::uint32_t* from = granule(descriptor.source, i);
      std::copy_n(from, kGranuleWords, granule(descriptor.destination, i));
    }
    flags_[descriptor.destination_flag] += descriptor.granules;
  }
  void add_to_sync_flag(std::uint32_t flag, std::uint32_t value) override { flags_[flag] += value; }
  void add_to_remote_sync_flag(std::uint32_t, std::uint32_t) override {
    throw ProgramFault("the harness has no other core");
  }
  std::uint32_t sync_flag(std::uint32_t flag) override { return flags_[flag]; }

  compiler::Target target_;
  std::uint64_t hbm_words_;
  std::vector<std::uint32_t> hbm_;  ///< As much of it as is reserved.
  std::uint32_t next_granule_ = 1;
  std::vector<std::uint32_t> guards_;
  DmaTiming timing_ = DmaTiming::kLate;
  isa::CoreState* state_ = nullptr;
  std::map<std::uint32_t, std::uint32_t> flags_;
  std::deque<isa::DmaDescriptor> pending_;
  Result result_;
};

}  // namespace tpu::test
