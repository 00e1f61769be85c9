#include "sim/app/module_show.h"

#include <algorithm>
#include <map>
#include <sstream>
#include <unordered_map>

#include "sim/config/compiler_target.h"
#include "sim/report/text_report.h"
#include "workloads/compiler/passes/memory/hbm_plan.h"
#include "workloads/compiler/passes/memory/storage.h"
#include "workloads/compiler/passes/op_info.h"
#include "workloads/compiler/passes/pipeline.h"
#include "workloads/compiler/program/kernel_selection.h"
#include "workloads/compiler/program/program_assembly.h"
#include "workloads/graph/hlo_cost_analysis.h"

namespace tpu::app {

namespace {

using hlo::Computation;
using hlo::HloInstruction;
using hlo::HloOpcode;
using hlo::Module;

constexpr std::size_t kMostKernels = 25;
constexpr std::size_t kMostOpcodes = 20;
constexpr std::size_t kMostRefusals = 20;
/// Operations of the vector unit per cycle: 8 sublanes, 128 lanes, 2 ALUs.
constexpr double kVectorOpsPerCycle = 8 * 128 * 2;

std::string cell(std::string text, std::size_t width) {
  if (text.size() > width) text.resize(width);
  return text + std::string(width - text.size(), ' ');
}
std::string right(const std::string& text, std::size_t width) {
  return text.size() >= width ? text : std::string(width - text.size(), ' ') + text;
}

/// "12.3 G": a count with a decimal prefix.
std::string count_text(double value) {
  const char* prefix = "";
  for (const char* next : {"k", "M", "G", "T", "P", "E"}) {
    if (value < 1000) break;
    value /= 1000;
    prefix = next;
  }
  return report::short_number(value) + (*prefix == '\0' ? "" : std::string(" ") + prefix);
}

struct Work {
  std::size_t instructions = 0;
  double flops = 0, bytes = 0;
};

bool is_control(HloOpcode opcode) {
  return opcode == HloOpcode::kCall || opcode == HloOpcode::kFusion ||
         opcode == HloOpcode::kWhile || opcode == HloOpcode::kConditional ||
         opcode == HloOpcode::kAsyncStart;
}

/// A kernel of the compiled module: of the entry, or of the body of a loop or branch.
struct KernelRow {
  const Module* module = nullptr;
  const HloInstruction* instruction = nullptr;
  isa::OpInfo info;        ///< Of one execution.
  double executions = 1;   ///< A step.
  bool is_counted = true;  ///< False where they depend on data: one trip, every branch.
  double seconds = 0;      ///< Of all executions, on the last machine.
  std::vector<std::string> bounds;
};

class ModuleShow {
 public:
  ModuleShow(const Module& module, const std::vector<MachineParams>& machines,
             std::uint64_t bucket_bytes)
      : module_(module), machines_(machines), bucket_bytes_(bucket_bytes) {}

  std::string text() {
    overview();
    totals();
    opcodes();
    compile();
    return out_.str();
  }

 private:
  void overview() {
    std::size_t instructions = 0;
    for (const Computation& computation : module_.computations) {
      instructions += computation.instructions.size();
    }
    const bool scheduled = module_.raw_attributes.find("is_scheduled=true") != std::string::npos;
    out_ << "Module " << module_.name << ": " << report::grouped(instructions)
         << " instructions in " << report::grouped(module_.computations.size()) << " computations, "
         << report::grouped(module_.entry_computation().instructions.size())
         << " of them in the entry " << module_.entry_computation().name << "; "
         << (scheduled ? "scheduled" : "not scheduled") << "\n";
    if (module_.replicas > 1) {
      out_ << "  for " << module_.replicas << " devices: " << module_.replicas / module_.partitions
           << " replicas of " << module_.partitions << " partitions\n";
    }
    if (module_.examples_per_step > 0) {
      out_ << "  " << module_.examples_per_step << " examples a step and replica\n";
    }
  }

  void totals() {
    const Computation& entry = module_.entry_computation();
    std::int64_t elements = 0, bytes = 0;
    const std::vector<hlo::InstructionId> parameters = entry.parameters();
    for (hlo::InstructionId id : parameters) {
      bytes += entry.at(id).shape.unpadded_bytes();
      elements += leaves(entry.at(id).shape);
    }
    const hlo::Shape& result = entry.at(entry.root).shape;
    const std::size_t results = result.is_tuple() ? result.elements.size() : 1;
    const hlo::HloCost cost = hlo::HloCostAnalysis(module_).of(module_.entry);
    const auto flops = static_cast<double>(cost.flops), moved = static_cast<double>(cost.hbm_bytes);
    const auto matmul = static_cast<double>(cost.matmul_flops);
    const double least = static_cast<double>(bytes + result.unpadded_bytes());
    out_ << "  parameters: " << parameters.size() << ", "
         << count_text(static_cast<double>(elements)) << " elements, "
         << report::short_bytes(static_cast<double>(bytes)) << "\n"
         << "  results:    " << results << ", "
         << report::short_bytes(static_cast<double>(result.unpadded_bytes())) << "; "
         << module_.aliases.size() << " in the memory of a parameter\n"
         << "  FLOPs:      " << count_text(flops) << ", " << count_text(matmul)
         << " in dots and convolutions\n"
         << "  HBM bytes:  " << report::short_bytes(least)
         << " at least (parameters and results once), " << report::short_bytes(moved)
         << " if every instruction read and wrote its own\n"
         << "  intensity:  " << report::short_number(flops / std::max(least, 1.0))
         << " FLOP per byte at least traffic, "
         << report::short_number(flops / std::max(moved, 1.0)) << " without fusion";
    for (const MachineParams& machine : machines_) {
      out_ << "; " << machine.name << " balances at "
           << report::short_number(machine.core_peak_flops() / machine.core_hbm_bytes_per_s());
    }
    out_ << "\n";
  }

  static std::int64_t leaves(const hlo::Shape& shape) {
    if (!shape.is_tuple()) return shape.element_count();
    std::int64_t count = 0;
    for (const hlo::Shape& element : shape.elements) count += leaves(element);
    return count;
  }

  /// Each instruction once, wherever it stands; bodies of loops are not multiplied here.
  void opcodes() {
    std::map<HloOpcode, Work> work;
    hlo::HloCostAnalysis analysis(module_);
    for (const Computation& computation : module_.computations) {
      for (const HloInstruction& instruction : computation.instructions) {
        Work& row = work[instruction.opcode];
        ++row.instructions;
        if (is_control(instruction.opcode)) continue;
        const hlo::HloCost cost = analysis.of(computation, instruction);
        row.flops += static_cast<double>(cost.flops);
        row.bytes += static_cast<double>(cost.hbm_bytes);
      }
    }
    std::vector<std::pair<HloOpcode, Work>> rows(work.begin(), work.end());
    std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
      return a.second.instructions > b.second.instructions;
    });
    out_ << "\nInstructions by opcode (text as it stands: a loop's body once)\n"
         << "  " << cell("opcode", 26) << right("count", 9) << right("FLOPs", 13)
         << right("bytes", 13) << "\n";
    for (std::size_t i = 0; i < rows.size() && i < kMostOpcodes; ++i) {
      out_ << "  " << cell(std::string(to_string(rows[i].first)), 26)
           << right(report::grouped(rows[i].second.instructions), 9)
           << right(count_text(rows[i].second.flops), 13)
           << right(report::short_bytes(rows[i].second.bytes), 13) << "\n";
    }
    if (rows.size() > kMostOpcodes) out_ << "  and " << rows.size() - kMostOpcodes << " more\n";
  }

  void compile() {
    std::string last, why;
    compiler::Target target =
        config::target_of(machines_.back(), static_cast<std::uint32_t>(std::clamp<std::int64_t>(
                                                module_.replicas, 1, machines_.back().cores())));
    target.bucket_bytes = bucket_bytes_;
    compiler::ScheduledModule lowered;
    try {
      lowered = compiler::lower_to_kernels(
          module_, target, nullptr,
          [&](const compiler::PassResult& result) { last = result.pass(); });
    } catch (const WorkloadError& error) {
      out_ << "\nNot compiled: the pass after " << (last.empty() ? "the beginning" : last)
           << " refuses it; this affects all " << report::grouped(instructions_of(module_))
           << " instructions\n  " << error.what() << "\n";
      return;
    }
    collect(lowered, target, 1, true);
    kernels();
    refusals(target);
    try {
      compiler::plan_hbm(lowered, target);
    } catch (const WorkloadError& error) {
      out_ << "\nDoes not run on " << machines_.back().name << ":\n" << error.what() << "\n";
    }
  }

  static std::size_t instructions_of(const Module& module) {
    std::size_t count = 0;
    for (const Computation& computation : module.computations) {
      count += computation.instructions.size();
    }
    return count;
  }

  /// Seconds of a kernel on a machine, and what they go to.
  static double bound_of(const isa::OpInfo& info, const MachineParams& machine,
                         std::string& bound) {
    const double peak = machine.core_peak_flops();
    const double clock = machine.clock_mhz * 1e6;
    const double mxu = static_cast<double>(info.padded_matmul_flops) / peak;
    const double vpu =
        static_cast<double>(info.flops - info.matmul_flops) / (kVectorOpsPerCycle * clock);
    const double hbm = static_cast<double>(info.hbm_bytes) / machine.core_hbm_bytes_per_s();
    const double most = std::max({mxu, vpu, hbm});
    bound = most <= 0 ? "none" : most == mxu ? "mxu" : most == hbm ? "hbm" : "vpu";
    return most;
  }

  /// The kernels of a module and of the loops and branches in it.
  void collect(const compiler::ScheduledModule& lowered, const compiler::Target& target,
               double executions, bool is_counted) {
    for (const HloInstruction& instruction : lowered.module.entry_computation().instructions) {
      if (compiler::is_bookkeeping(instruction)) continue;
      if (compiler::runs_region(instruction)) {
        const compiler::ScheduledRegion& region =
            lowered.regions[static_cast<std::size_t>(instruction.tuple_index)];
        const double trips = static_cast<double>(region.trips.value_or(1));
        for (const compiler::ScheduledModule& body : region.bodies) {
          collect(body, target, executions * trips, is_counted && region.trips.has_value());
        }
        continue;
      }
      KernelRow row;
      row.module = &lowered.module;
      row.instruction = &instruction;
      row.info = compiler::op_info(lowered.module, instruction, target);
      row.executions = executions;
      row.is_counted = is_counted;
      for (const MachineParams& machine : machines_) {
        row.seconds = executions * bound_of(row.info, machine, row.bounds.emplace_back());
      }
      rows_.push_back(std::move(row));
    }
  }

  void kernels() {
    std::map<std::string, double> shares;
    double total = 0;
    bool is_counted = true;
    std::vector<const KernelRow*> order;
    for (const KernelRow& row : rows_) {
      shares[row.bounds.back()] += row.seconds;
      total += row.seconds;
      is_counted = is_counted && row.is_counted;
      order.push_back(&row);
    }
    std::stable_sort(order.begin(), order.end(), [](const KernelRow* a, const KernelRow* b) {
      return a->seconds > b->seconds;
    });
    out_ << "\nAfter fusion, " << report::grouped(rows_.size())
         << " kernels; the least time on one " << machines_.back().name << " core is "
         << report::short_number(total * 1e3) << " ms:";
    for (const auto& [bound, seconds] : shares) {
      out_ << " " << report::short_number(100 * seconds / std::max(total, 1e-30)) << " % " << bound;
    }
    if (!is_counted)
      out_ << "\n  (? : how often depends on data; one trip of the loop, each branch)";
    out_ << "\n  " << cell("kernel", 30) << right("ms", 9) << right("count", 8)
         << right("FLOPs", 12) << right("bytes", 12) << right("FLOP/B", 9);
    for (const MachineParams& machine : machines_) out_ << "  " << cell(machine.name, 6);
    out_ << "  made of\n";
    for (std::size_t i = 0; i < order.size() && i < kMostKernels; ++i) print(*order[i]);
    if (order.size() > kMostKernels) out_ << "  and " << order.size() - kMostKernels << " more\n";
  }

  /// FLOPs and bytes of one execution, milliseconds of all.
  void print(const KernelRow& row) {
    const auto flops = static_cast<double>(row.info.flops);
    const auto bytes = static_cast<double>(row.info.hbm_bytes);
    out_ << "  " << cell(row.instruction->name, 30)
         << right(report::short_number(row.seconds * 1e3), 9)
         << right(row.is_counted ? report::short_number(row.executions) : "?", 8)
         << right(count_text(flops), 12) << right(report::short_bytes(bytes), 12)
         << right(report::short_number(flops / std::max(bytes, 1.0)), 9);
    for (const std::string& bound : row.bounds) out_ << "  " << cell(bound, 6);
    out_ << "  " << contents(*row.module, *row.instruction);
    if (!row.info.op_name.empty()) out_ << "  [" << row.info.op_name << "]";
    out_ << "\n";
  }

  /// The opcodes of a fusion in order, equal neighbours counted: "multiply, dot, 2 add".
  static std::string contents(const Module& module, const HloInstruction& instruction) {
    if (instruction.opcode != HloOpcode::kFusion) {
      return std::string(to_string(instruction.opcode));
    }
    std::vector<std::pair<HloOpcode, int>> parts;
    for (const HloInstruction& inner : module.computation(instruction.called[0]).instructions) {
      if (compiler::is_bookkeeping(inner)) continue;
      if (parts.empty() || parts.back().first != inner.opcode) parts.emplace_back(inner.opcode, 0);
      ++parts.back().second;
    }
    std::string text;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (i == 8) return text + ", ... (" + std::to_string(parts.size() - i) + " more)";
      text += (i > 0 ? ", " : "") +
              (parts[i].second > 1 ? std::to_string(parts[i].second) + " " : std::string()) +
              std::string(to_string(parts[i].first));
    }
    return text;
  }

  /// Makes each distinct kernel to see which the compiler refuses.
  void refusals(const compiler::Target& target) {
    std::unordered_map<std::string, std::string> known;
    std::map<std::string, Work> refused;
    Work all;
    for (const KernelRow& row : rows_) {
      const auto [found, is_new] =
          known.try_emplace(compiler::kernel_fingerprint(*row.module, *row.instruction));
      if (is_new) found->second = refusal(*row.module, *row.instruction, target);
      if (found->second.empty()) continue;
      for (Work* work : {&refused[found->second], &all}) {
        ++work->instructions;
        work->flops += static_cast<double>(row.info.flops) * row.executions;
        work->bytes += static_cast<double>(row.info.hbm_bytes) * row.executions;
      }
    }
    if (refused.empty()) {
      out_ << "\nEvery kernel can be made.\n";
      return;
    }
    out_ << "\nNo kernel for " << report::grouped(all.instructions) << " instructions, "
         << count_text(all.flops) << " FLOPs, " << report::short_bytes(all.bytes) << ":\n";
    std::size_t shown = 0;
    for (const auto& [why, work] : refused) {
      if (shown++ == kMostRefusals) {
        out_ << "  and " << refused.size() - kMostRefusals << " more kinds\n";
        break;
      }
      out_ << "  " << report::grouped(work.instructions) << " x " << why << " ("
           << count_text(work.flops) << " FLOPs, " << report::short_bytes(work.bytes) << ")\n";
    }
  }

  /// Why there is no kernel; empty when there is one.
  static std::string refusal(const Module& fused, const HloInstruction& instruction,
                             const compiler::Target& target) {
    try {
      compiler::make_kernel(fused, instruction, target);
      return "";
    } catch (const WorkloadError& error) {
      return error.what();
    }
  }

  const Module& module_;
  const std::vector<MachineParams>& machines_;
  const std::uint64_t bucket_bytes_;
  std::vector<KernelRow> rows_;
  std::ostringstream out_;
};

}  // namespace

std::string show_module(const Module& module, const std::vector<MachineParams>& machines,
                        std::uint64_t bucket_bytes) {
  return ModuleShow(module, machines, bucket_bytes).text();
}

}  // namespace tpu::app
