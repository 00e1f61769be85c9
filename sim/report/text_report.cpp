#include "sim/report/text_report.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <sstream>

#include "models/parameter_table.h"
#include "sim/report/all_reduce_report.h"
#include "sim/report/comparison.h"
#include "sim/report/comparison_table.h"
#include "sim/report/critical_path_report.h"
#include "sim/report/energy.h"
#include "sim/report/estimate_comparison.h"
#include "sim/report/op_groups.h"
#include "sim/report/part_accounts.h"
#include "sim/report/training_report.h"
#include "sim/report/what_if_report.h"

namespace tpu::report {
namespace {

constexpr std::size_t kExpensiveOps = 10;
constexpr std::size_t kDifferingOps = 10;

std::string machine_line(const traces::RunRecord& record) {
  const MachineParams& params = record.params;
  std::ostringstream text;
  text << "TPU " << params.chip << ", " << params.clock_mhz << " MHz, " << params.core.mxu.count
       << (params.core.mxu.count == 1 ? " MXU of " : " MXUs of ") << params.core.mxu.rows << "x"
       << params.core.mxu.columns << " a core, " << short_number(params.core_peak_flops() / 1e12)
       << " TFLOP/s and " << short_number(params.core_hbm_bytes_per_s() / 1e9)
       << " GB/s of HBM a core";
  return text.str();
}

std::string run_line(const traces::RunRecord& record) {
  const std::size_t cores = record.result.cores.size();
  std::ostringstream text;
  text << record.workload;
  if (record.batch > 0) text << ", batch " << record.batch;
  text << ", " << cores << (cores == 1 ? " core" : " cores") << " of " << record.config;
  if (record.params.name != record.config) text << " (" << record.params.name << ")";
  return text.str();
}

void line(std::ostringstream& out, const std::string& label, const std::string& value,
          const std::string& remark = "") {
  out << "  " << left(label, 24) << right(value, 14) << (remark.empty() ? "" : "   ") << remark
      << "\n";
}

void print_header(std::ostringstream& out, const traces::RunRecord& record,
                  const Summary& summary) {
  out << run_line(record) << "\n" << machine_line(record) << "\n";
  out << "compiled by " << record.compiler << "; " << summary.steps.size()
      << (summary.steps.size() == 1 ? " step" : " steps") << "; values "
      << (record.values ? "on" : "off");
  if (!record.values_from.empty()) out << " (" << record.values_from << ")";
  out << "\n\n";
}

void print_matrix_figures(std::ostringstream& out, const traces::RunRecord& record,
                          const Summary& summary) {
  const Utilization& used = summary.utilization;
  const double peak = record.params.core_peak_flops() / 1e12;
  line(out, "MXU utilization", percent(used.mxu),
       "push slots used; useful FLOPs are " + percent(used.mxu_flops) + " of " +
           short_number(peak) + " TFLOP/s a core");
  if (summary.model_flops_are_executed) {
    line(out, "Data decides", grouped(record.data_dependent_control),
         record.data_dependent_control == 1 ? "loop or branch: useful FLOPs are those that ran"
                                            : "loops, branches: useful FLOPs are those that ran");
  }
  if (summary.padded_matmul_flops > 1.005 * summary.useful_matmul_flops &&
      summary.useful_matmul_flops > 0) {
    line(out, "Padding of matrix work",
         fixed(summary.padded_matmul_flops / summary.useful_matmul_flops, 2) + " x",
         "FLOPs with dimensions padded to the MXU over useful FLOPs");
  }
}

/// "2nd", "13th".
std::string ordinal(std::uint64_t number) {
  const bool teen = number / 10 % 10 == 1;
  const std::uint64_t last = teen ? 0 : number % 10;
  return std::to_string(number) + (last == 1 ? "st" : last == 2 ? "nd" : last == 3 ? "rd" : "th");
}

/// Which step that was, and the first one beside it.
void print_steady_state(std::ostringstream& out, const Summary& summary) {
  const SteadyState& steady = summary.steady;
  std::string which = "the first of the run, which waits for the first batch: no warm step ran";
  if (steady.number > 1) {
    which = "of the run; the time above is the " + ordinal(steady.number) + " step's, " +
            (steady.repeats > 0 ? "which repeats the " + ordinal(steady.repeats)
                                : "and no step repeats another: no steady state yet");
  }
  line(out, "First step", short_time(steady.first_ms), which);
}

std::string joules(double value) { return short_number(value) + " J"; }

void print_energy_and_price(std::ostringstream& out, const traces::RunRecord& record,
                            const Summary& summary) {
  const Energy energy = energy_of(record);
  if (energy.is_known) {
    line(out, "Energy of a step", joules(energy.total()),
         "inferred, " + joules(energy.low) + " to " + joules(energy.high) + "; a chip takes " +
             fixed(energy.watts_per_chip, 0) + " W (TDP " + fixed(energy.tdp_watts, 0) + ")");
  } else {
    line(out, "Energy of a step", "not modelled", "no power of this chip was published");
  }
  const std::optional<double> dollars = whole_slice_price(record);
  if (!dollars || summary.examples_per_s <= 0) return;
  line(out, "Price", "$" + fixed(*dollars, 2) + "/h",
       short_number(3600 * summary.examples_per_s / *dollars) + " examples a dollar (list price)");
}

void print_key_figures(std::ostringstream& out, const traces::RunRecord& record,
                       const Summary& summary) {
  const std::uint64_t cycles = summary.steps.empty() ? 0 : summary.steps.back().cycles;
  std::string remark = grouped(cycles) + " cycles";
  if (summary.steps.size() > 1) {
    remark = "min " + short_time(summary.step_min_ms) + ", max " + short_time(summary.step_max_ms) +
             "; last step " + remark;
  }
  line(out, "Step time", short_time(summary.step_mean_ms), remark);
  if (!summary.steps.empty()) print_steady_state(out, summary);
  if (summary.examples_per_s > 0) {
    line(out, "Examples per second", short_number(summary.examples_per_s));
  }
  print_matrix_figures(out, record, summary);
  const Utilization& used = summary.utilization;
  line(out, "Vector ALU utilization", percent(used.vpu));
  line(out, "HBM utilization", percent(used.hbm),
       short_bytes(summary.hbm_bytes_per_step) + " a step and core, of " +
           short_number(record.params.core_hbm_bytes_per_s() / 1e9) + " GB/s");
  if (used.ici > 0) line(out, "ICI utilization", percent(used.ici));
  line(out, "TPU idle time", percent(summary.idle_fraction),
       "waits for the host or has nothing to run");
  const Roofline& roof = summary.roofline;
  if (roof.bound_ms > 0) {
    line(out, "Roofline bound", short_time(roof.bound_ms),
         std::string(roof.compute_ms >= roof.memory_ms ? "useful FLOPs" : "compulsory HBM bytes") +
             "; the step takes " + fixed(summary.step_mean_ms / roof.bound_ms, 2) + " x that");
  }
  const double moved_ms = moved_bytes_ms(record.params, summary);
  if (moved_ms > roof.bound_ms) {
    line(out, "Bound as moved", short_time(moved_ms),
         "HBM bytes that moved at the rate of the pins; the step takes " +
             fixed(summary.step_mean_ms / moved_ms, 2) + " x that");
  }
  print_energy_and_price(out, record, summary);
  const double host = summary.idle_fraction - summary.breakdown.finished;
  if (host > 0.5) {
    out << "  The host is the bottleneck: it prepares fewer examples than the cores take.\n";
  }
  for (const std::string& sentence : record.host_verdict) out << "  Input: " << sentence << ".\n";
  out << "\n";
}

/// Which core the others waited for most, where they did for more than a hundredth of the time.
void print_late_core(std::ostringstream& out, const Summary& summary) {
  if (summary.late_cores.empty()) return;
  double all = 0;
  for (const auto& [core, fraction] : summary.late_cores) all += fraction;
  if (all < 0.01) return;
  const auto& [core, fraction] = summary.late_cores.front();
  out << "  Cores wait for others that are late " << percent(all) << " of the time, most for core "
      << core << " (" << percent(fraction) << ").\n";
}

/// What the schedule needed the cycles of "compute" for, the most first, the rest as one.
void print_schedule(std::ostringstream& out, const SequencerAccount& account) {
  constexpr double kLeast = 0.005;
  const double all = total(account);
  std::vector<std::pair<double, std::string>> parts;
  double others = 0;
  for (std::size_t part = 0; part < kScheduleCauses; ++part) {
    const double share = all > 0 ? account[part] / all : 0;
    if (share < kLeast) {
      others += share;
    } else {
      parts.emplace_back(share, sequencer_part_name(part));
    }
  }
  if (parts.empty()) return;
  std::stable_sort(parts.begin(), parts.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  if (others >= 0.0005) parts.emplace_back(others, "others");
  out << "    for ";
  const char* separator = " ";
  for (const auto& [share, name] : parts) {
    out << separator << name << " " << percent(share);
    separator = ", ";
  }
  out << "\n";
}

void print_breakdown(std::ostringstream& out, const Summary& summary, const TextStyle& style) {
  const Breakdown& parts = summary.breakdown;
  const std::pair<const char*, double> rows[] = {{"compute", parts.compute},
                                                 {"memory wait", parts.memory_wait},
                                                 {"infeed wait", parts.infeed_wait},
                                                 {"outfeed wait", parts.outfeed_wait},
                                                 {"ICI transfer", parts.ici_wait},
                                                 {"peer wait", parts.peer_wait},
                                                 {"peer's infeed", parts.peer_host_wait},
                                                 {"host wait", parts.host_wait},
                                                 {"finished", parts.finished}};
  out << "What the cores do\n";
  for (const auto& [label, fraction] : rows) {
    if (fraction <= 0) continue;
    out << "  " << left(label, 14) << bar(fraction, bar_width(style), style)
        << right(percent(fraction), 9) << "\n";
    if (label == std::string("compute")) print_schedule(out, summary.sequencer);
  }
  print_late_core(out, summary);
  out << "\n";
}

void print_units(std::ostringstream& out, const Summary& summary) {
  out << "Units            busy nothing to do  memory wait  host wait  ICI, peer  finished\n";
  for (const UnitSummary& unit : summary.units) {
    const auto idle = [&](CoreState state) { return unit.idle[static_cast<std::size_t>(state)]; };
    out << "  " << left(tpu::to_string(unit.unit), 12) << right(percent(unit.busy), 7)
        << right(percent(idle(CoreState::kIssue) + idle(CoreState::kDelay)), 14)
        << right(percent(idle(CoreState::kMemoryWait)), 13)
        << right(percent(idle(CoreState::kInfeedWait) + idle(CoreState::kOutfeedWait) +
                         idle(CoreState::kPeerHostWait)),
                 11)
        << right(percent(idle(CoreState::kIciWait) + idle(CoreState::kPeerWait)), 11)
        << right(percent(idle(CoreState::kFinished)), 10) << "\n";
  }
  out << "\n";
}

/// Where operations come from in the user's program: scope of the framework and source line.
void print_origin(std::ostringstream& out, const std::string& scope, const std::string& source,
                  const TextStyle& style) {
  if (scope.empty() && source.empty()) return;
  const std::string separator = scope.empty() || source.empty() ? "" : "  ";
  out << "          " << fitted(scope + separator + source, style.width - 10) << "\n";
}

/// "fusion.3 and 2 alike  (loop fusion)".
std::string group_name(const traces::RunRecord& record, const OpGroup& group) {
  const isa::OpInfo& info = record.ops[group.sum.op];
  std::string name = info.name;
  if (group.ops.size() > 1) name += " and " + grouped(group.ops.size() - 1) + " alike";
  return info.category == info.name ? name : name + "  (" + info.category + ")";
}

/// XLA's estimate of all executions; 0 where it has none of an operation.
double estimate_of(const traces::RunRecord& record, const Summary& summary, const OpGroup& group) {
  double estimate = 0;
  for (const std::uint32_t index : group.ops) {
    const double cycles = static_cast<double>(record.ops[index].estimated_cycles);
    if (cycles == 0) return 0;
    const auto op = std::find_if(summary.ops.begin(), summary.ops.end(),
                                 [&](const OpSummary& each) { return each.op == index; });
    estimate += cycles * op->count;
  }
  return estimate;
}

/// Time and executions are those of a step.
void print_ops(std::ostringstream& out, const traces::RunRecord& record, const Summary& summary,
               const TextStyle& style) {
  if (summary.ops.empty()) return;
  const bool estimates = std::any_of(record.ops.begin(), record.ops.end(),
                                     [](const auto& op) { return op.estimated_cycles > 0; });
  double total = 0;
  for (const OpSummary& op : summary.ops) total += op.cycles;
  const std::vector<OpGroup> groups = alike_ops(record, summary);
  const std::size_t shown = std::min(kExpensiveOps, groups.size());
  out << "The " << shown << " most expensive of "
      << operations_text(groups.size(), summary.ops.size()) << "\n";
  // Beside the figures where there is room for a name, else below them.
  const int name_width = style.width - (estimates ? 80 : 72);
  const bool is_beside = name_width >= 20;
  const bool small = summary.step_mean_ms < 1;
  const double steps = static_cast<double>(std::max<std::size_t>(1, summary.steps.size()));
  const auto time = [&](double cycles) {
    return right(short_number(cycles / steps / (record.params.clock_mhz * (small ? 1.0 : 1e3))), 8);
  };
  out << (small ? "      us" : "      ms") << (estimates ? "   XLA's" : "")
      << "    part   count   MXU   VPU   HBM  bound by      padding"
      << (is_beside ? "  operation\n" : "\n");
  for (std::size_t i = 0; i < shown; ++i) {
    const OpSummary& op = groups[i].sum;
    const double padding = std::max(op.matmul_padding, op.layout_padding);
    const auto share = [](double value) { return right(fixed(100 * value, 0) + "%", 6); };
    const double estimate = estimate_of(record, summary, groups[i]);
    out << time(op.cycles)
        << (!estimates     ? ""
            : estimate > 0 ? time(estimate)
                           : std::string(8, ' '))
        << right(percent(total > 0 ? op.cycles / total : 0), 8)
        << right(short_number(op.count / steps), 8) << share(op.shares.mxu)
        << share(op.shares.vpu()) << share(op.shares.hbm) << "  " << left(to_string(op.bound), 12)
        << right(padding > 1.005 ? fixed(padding, 2) + "x" : "", 9)
        << (is_beside ? "  " : "\n          ")
        << fitted(group_name(record, groups[i]), is_beside ? name_width : style.width - 10) << "\n";
    print_origin(out, groups[i].scope, record.ops[op.op].source, style);
  }
  out << "\n  bound by: what shortens it by a third or more if it takes no time; balanced: nothing "
         "alone\n\n";
}

/// "   52.88   68.99    0.77": ours, XLA's, and their ratio, in units of so many cycles.
std::string beside(double cycles, double estimated, double unit) {
  return right(short_number(cycles / unit), 8) + right(short_number(estimated / unit), 8) +
         right(fixed(estimated > 0 ? cycles / estimated : 0, 2), 8);
}

void print_estimate_groups(std::ostringstream& out, const EstimateComparison& comparison,
                           double unit, bool small) {
  out << "XLA's own estimate beside ours (never used)\n"
      << (small ? "      us" : "      ms") << "   XLA's   ratio     ops  differ\n"
      << beside(comparison.cycles, comparison.estimated_cycles, unit)
      << right(grouped(comparison.ops.size()), 8) << "          all with an estimate\n";
  if (comparison.without > 0) {
    out << right(short_number(comparison.cycles_without / unit), 8)
        << right(grouped(comparison.without), 24) << "          without one\n";
  }
  for (const EstimateGroup& group : comparison.groups) {
    out << beside(group.cycles, group.estimated_cycles, unit) << right(grouped(group.count), 8)
        << right(grouped(group.differing), 8) << (group.is_longer ? "  longer: " : "  shorter: ")
        << to_string(group.reason) << "\n"
        << "          " << reason_text(group) << "\n";
  }
}

/// The operations whose time and estimate differ by more than a quarter, most cycles first.
void print_estimates(std::ostringstream& out, const traces::RunRecord& record,
                     const Summary& summary, const TextStyle& style) {
  const EstimateComparison comparison = compare_with_estimates(record, summary);
  if (comparison.ops.empty()) return;
  const bool small = summary.step_mean_ms < 1;
  const double steps = static_cast<double>(std::max<std::size_t>(1, summary.steps.size()));
  const double unit = steps * record.params.clock_mhz * (small ? 1.0 : 1e3);
  print_estimate_groups(out, comparison, unit, small);
  std::vector<const EstimatedOp*> differing;
  for (const EstimatedOp& op : comparison.ops) {
    if (op.differs()) differing.push_back(&op);
  }
  const std::size_t shown = std::min(kDifferingOps, differing.size());
  if (shown > 0) {
    out << "  Largest of the " << grouped(differing.size()) << " that differ by over a quarter\n";
  }
  for (std::size_t i = 0; i < shown; ++i) {
    const OpSummary& op = summary.ops[differing[i]->op];
    const isa::OpInfo& info = record.ops[op.op];
    out << beside(differing[i]->cycles, differing[i]->estimated_cycles, unit) << "  " << info.name
        << "  (" << info.category << ")\n          "
        << fitted(reason_text(*differing[i], op), style.width - 10) << "\n";
  }
  out << "\n";
}

void print_memory(std::ostringstream& out, const traces::RunRecord& record,
                  const Summary& summary) {
  const Memory& memory = summary.memory;
  if (memory.hbm_capacity_bytes == 0 || memory.hbm_plan_bytes == 0) return;
  out << "HBM of a core: " << short_bytes(static_cast<double>(memory.hbm_plan_bytes)) << " of "
      << short_bytes(static_cast<double>(memory.hbm_capacity_bytes)) << " planned, at most "
      << short_bytes(static_cast<double>(memory.hbm_peak_bytes)) << " in use";
  const char* separator = " (";
  for (std::size_t role = 0; role < memory.role_bytes.size(); ++role) {
    if (memory.role_bytes[role] == 0) continue;
    out << separator << role_name(static_cast<isa::BufferRole>(role)) << " "
        << short_bytes(static_cast<double>(memory.role_bytes[role]));
    separator = ", ";
  }
  if (separator[0] == ',') out << ")";
  out << "\n";
  for (const std::uint32_t index : memory.largest) {
    const isa::Buffer& buffer = record.buffers[index];
    out << "  " << right(short_bytes(static_cast<double>(buffer.bytes)), 10) << "  " << buffer.name
        << "  " << buffer.shape;
    if (buffer.unpadded_bytes > 0 &&
        buffer.bytes > buffer.unpadded_bytes + buffer.unpadded_bytes / 20) {
      out << "  ("
          << fixed(static_cast<double>(buffer.bytes) / static_cast<double>(buffer.unpadded_bytes),
                   1)
          << "x expansion due to padding)";
    }
    out << "\n";
  }
  out << "\n";
}

void print_losses(std::ostringstream& out, const traces::RunRecord& record) {
  if (record.losses.empty()) return;
  out << "Loss\n";
  for (std::size_t step = 0; step < record.losses.size(); ++step) {
    out << "  step " << left(std::to_string(step), 6) << fixed(record.losses[step], 6) << "\n";
  }
  out << "\n";
}

/// "6 trips", "2 to 9 trips in each of 3 executions", "branch 1".
std::string path_text(const PathTaken& path) {
  if (path.executions == 0) return "not reached";
  std::string text;
  if (path.branch_counts.empty()) {
    text = std::to_string(path.least_trips);
    if (path.most_trips != path.least_trips) text += " to " + std::to_string(path.most_trips);
    text += path.most_trips == 1 ? " trip" : " trips";
    if (path.executions > 1) {
      text += " in each of " + std::to_string(path.executions) + " executions";
    }
  } else {
    for (std::size_t b = 0; b < path.branch_counts.size(); ++b) {
      if (path.branch_counts[b] == 0) continue;
      text += (text.empty() ? "branch " : ", branch ") + std::to_string(b);
      if (path.executions > 1) text += " " + std::to_string(path.branch_counts[b]) + " times";
    }
  }
  if (path.stated) text += " (stated)";
  if (path.assumed) text += " (assumed)";
  return text;
}

void print_paths(std::ostringstream& out, const traces::RunRecord& record) {
  constexpr std::size_t kMostPaths = 12;
  const std::vector<PathTaken>& paths = record.result.paths;
  if (paths.empty()) return;
  out << "\nPaths of loops and conditionals";
  if (record.core_numbers.size() > 1) out << " (core " << record.core_numbers[0] << ")";
  out << "\n";
  for (std::size_t i = 0; i < std::min(paths.size(), kMostPaths); ++i) {
    const isa::ControlOp& op = record.control[paths[i].op];
    out << "  " << op.name << ": " << path_text(paths[i]);
    if (!op.source.empty()) out << "  " << op.source;
    if (!op.op_name.empty()) out << "  " << op.op_name;
    out << "\n";
  }
  if (paths.size() > kMostPaths) out << "  and " << paths.size() - kMostPaths << " more\n";
}

void print_notes(std::ostringstream& out, const traces::RunRecord& record) {
  if (record.result.notes.empty()) return;
  out << "Not modelled or not confirmed\n";
  for (const std::string& note : record.result.notes) out << "  " << note << "\n";
  out << "\n";
}

void print_cost(std::ostringstream& out, const Summary& summary, const SimulatorCost& cost) {
  out << "Simulated " << grouped(summary.core_cycles) << " core cycles in " << fixed(cost.cpu_s, 2)
      << " s of CPU time (building and compiling " << fixed(cost.compile_cpu_s, 2) << " s, machine "
      << fixed(cost.run_cpu_s, 2) << " s), peak memory "
      << short_bytes(static_cast<double>(cost.peak_rss_bytes)) << "\n";
}

}  // namespace

std::string text_report(const traces::RunRecord& record, const Summary& summary,
                        const SimulatorCost& cost, const TextStyle& style) {
  std::ostringstream out;
  print_header(out, record, summary);
  print_key_figures(out, record, summary);
  out << training_text(record, style);
  out << causes_text(record, summary, style);
  out << categories_text(record, summary);
  out << what_if_text(record, summary);
  print_breakdown(out, summary, style);
  print_units(out, summary);
  out << parts_text(record.result.parts);
  print_ops(out, record, summary, style);
  out << all_reduces_text(record, summary);
  print_estimates(out, record, summary, style);
  print_memory(out, record, summary);
  print_losses(out, record);
  print_paths(out, record);
  print_notes(out, record);
  print_cost(out, summary, cost);
  return fit_to_width(out.str(), style);
}

std::string comparison_report(const std::vector<traces::RunRecord>& records,
                              const std::vector<Summary>& summaries,
                              const std::vector<SimulatorCost>& costs, const TextStyle& style) {
  std::ostringstream out;
  if (records.empty()) return "";
  const std::size_t cores = records[0].result.cores.size();
  out << records[0].workload;
  if (records[0].batch > 0) out << ", batch " << records[0].batch;
  out << ", " << cores << (cores == 1 ? " core" : " cores") << "\n\n";

  std::vector<std::vector<std::string>> rows(1);
  std::vector<std::string>& head = rows[0];
  head.emplace_back("");
  for (const traces::RunRecord& record : records) head.push_back(record.config);
  for (std::size_t i = 1; i < records.size(); ++i) {
    head.push_back(records[i].config + " / " + records[0].config);
  }
  rows.push_back({"Parameters that differ"});
  for (const ParameterDifference& difference : differing_parameters(records)) {
    std::string label = difference.path;
    if (!difference.unit.empty()) label += ", " + difference.unit;
    std::vector<std::string> row{label};
    row.insert(row.end(), difference.values.begin(), difference.values.end());
    rows.push_back(row);
  }
  rows.push_back({""});
  rows.push_back({"Results"});
  for (const ResultRow& result : result_rows(records, summaries)) {
    if (std::all_of(result.values.begin(), result.values.end(),
                    [](double v) { return v == 0 || std::isnan(v); })) {
      continue;
    }
    std::vector<std::string> row{result.label};
    for (const double value : result.values) {
      row.push_back(std::isnan(value) ? result.missing : short_number(value));
    }
    for (std::size_t i = 1; i < result.values.size(); ++i) {
      const double ratio = result.values[i] / result.values[0];
      row.push_back(std::isfinite(ratio) ? fixed(ratio, 3) : "");
    }
    rows.push_back(row);
  }
  out << columns(rows, style.width) << "\n";
  out << gpu_bounds_text(gpu_bounds(records[0], summaries[0]));
  for (std::size_t i = 0; i < records.size(); ++i) {
    out << "== " << records[i].config << ": " << machine_line(records[i]) << "\n\n";
    print_breakdown(out, summaries[i], style);
    print_ops(out, records[i], summaries[i], style);
    print_losses(out, records[i]);
  }
  print_notes(out, records[0]);
  for (std::size_t i = 0; i < records.size(); ++i) {
    out << records[i].config << ": ";
    print_cost(out, summaries[i], costs[i]);
  }
  return fit_to_width(out.str(), style);
}

}  // namespace tpu::report
