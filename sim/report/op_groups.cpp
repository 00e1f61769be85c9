#include "sim/report/op_groups.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <sstream>
#include <tuple>

#include "sim/report/alike_names.h"

namespace tpu::report {

const StepTimes::Key kOutsideOps{"(outside operations)", ""};

namespace {

/// Categories, most time first.
std::vector<std::pair<std::string, OpTime>> categories_of(const StepTimes& times) {
  std::vector<std::pair<std::string, OpTime>> rows;
  for (const auto& [key, time] : times.by) rows.emplace_back(key.first, time);
  std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
    return total(a.second.us) > total(b.second.us);
  });
  return rows;
}

/// Adds an op, whose shares are those of its cycles.
void join(OpSummary& sum, const OpSummary& op) {
  const double all = sum.cycles + op.cycles;
  const double mine = all > 0 ? op.cycles / all : 0;
  const auto mean = [&](double& to, double value) { to += (value - to) * mine; };
  for (std::size_t r = 0; r < kResources; ++r) mean(sum.causes[r], op.causes[r]);
  for (const auto share :
       {&Shares::mxu, &Shares::vector_alu, &Shares::vector_load, &Shares::vector_store,
        &Shares::xlu, &Shares::eup, &Shares::hbm, &Shares::ici, &Shares::peer, &Shares::infeed,
        &Shares::memory_wait, &Shares::schedule}) {
    mean(sum.shares.*share, op.shares.*share);
  }
  for (const auto part : {&OpSummary::count, &OpSummary::cycles, &OpSummary::flops,
                          &OpSummary::matmul_flops, &OpSummary::padded_matmul_flops,
                          &OpSummary::pushed_matmul_flops, &OpSummary::compulsory_hbm_bytes,
                          &OpSummary::hbm_bytes, &OpSummary::dmas, &OpSummary::ici_bytes}) {
    sum.*part += op.*part;
  }
  sum.cycles_max = std::max(sum.cycles_max, op.cycles_max);
}

}  // namespace

double total(const ByResource& time) { return std::accumulate(time.begin(), time.end(), 0.0); }

void add_time(ByResource& to, const ByResource& time, double factor) {
  for (std::size_t cause = 0; cause < kResources; ++cause) to[cause] += factor * time[cause];
}

StepTimes step_times(const traces::RunRecord& record,
                     const std::function<StepTimes::Key(const isa::OpInfo&)>& key_of) {
  StepTimes times;
  ByResource in_ops{};
  const CriticalPath& path = record.result.critical_path;
  double cycles = 0;
  std::size_t steps = 1;
  for (const CoreResult& core : record.result.cores) {
    cycles += static_cast<double>(core.total.core.total()) /
              static_cast<double>(record.result.cores.size());
    steps = std::max(steps, core.steps.size());
  }
  const double us = 1 / (static_cast<double>(steps) * record.params.clock_mhz);
  add_time(times.all, path.shares(), cycles * us);
  for (std::size_t op = 0; op < path.ops.size(); ++op) {
    if (total(path.ops[op].cycles) == 0) continue;
    OpTime& row = times.by[key_of(record.ops[op])];
    add_time(row.us, path.ops[op].cycles, us);
    ++row.ops;
    add_time(in_ops, path.ops[op].cycles, us);
  }
  ByResource& outside = times.by[kOutsideOps].us;
  outside = times.all;
  add_time(outside, in_ops, -1);
  // Nothing is left of a resource but the rounding of the sums.
  for (double& time : outside) {
    if (std::abs(time) < 1e-9 * total(times.all)) time = 0;
  }
  return times;
}

StepTimes by_category(const traces::RunRecord& record) {
  return step_times(record, [](const isa::OpInfo& op) {
    return StepTimes::Key{op.category.empty() ? "(no category)" : op.category, ""};
  });
}

std::vector<OpGroup> alike_ops(const traces::RunRecord& record, const Summary& summary) {
  std::map<std::tuple<std::string, std::string, std::string, std::string>, std::size_t> places;
  std::vector<OpGroup> groups;
  std::vector<std::vector<std::string>> scopes;
  for (const OpSummary& op : summary.ops) {
    const isa::OpInfo& info = record.ops[op.op];
    const std::string pattern = scope_pattern(info.op_name);
    // Without a scope nothing says that two ops do the same.
    const std::string key = pattern.find('/') == std::string::npos ? info.name : pattern;
    const auto [place, is_new] =
        places.emplace(std::make_tuple(key, info.category, info.source, info.shape), groups.size());
    if (is_new) {
      groups.push_back({op, {op.op}, ""});
      scopes.push_back({info.op_name});
      continue;
    }
    OpGroup& group = groups[place->second];
    join(group.sum, op);
    group.ops.push_back(op.op);
    scopes[place->second].push_back(info.op_name);
  }
  for (std::size_t i = 0; i < groups.size(); ++i) {
    OpGroup& group = groups[i];
    group.scope = joined_scopes(scopes[i]);
    if (group.ops.size() == 1) continue;
    if (group.sum.matmul_flops > 0 && group.sum.padded_matmul_flops > 0) {
      group.sum.matmul_padding = group.sum.padded_matmul_flops / group.sum.matmul_flops;
    }
    find_bound(record.result.critical_path, group.ops, group.sum);
  }
  std::stable_sort(groups.begin(), groups.end(),
                   [](const OpGroup& a, const OpGroup& b) { return a.sum.cycles > b.sum.cycles; });
  return groups;
}

std::string operations_text(std::size_t kinds, std::size_t ops) {
  const std::string text = grouped(ops) + (ops == 1 ? " operation" : " operations");
  return kinds == ops ? text : grouped(kinds) + " kinds of operations (" + text + ")";
}

std::string categories_text(const traces::RunRecord& record, const Summary& summary) {
  const StepTimes times = by_category(record);
  const double all = total(times.all);
  if (all <= 0 || summary.ops.empty()) return "";
  const bool small = summary.step_mean_ms < 1;
  std::ostringstream out;
  out << left("Time by category", 24) << (small ? "      us" : "      ms") << "    part   ops";
  std::vector<std::size_t> named;
  for (std::size_t cause = 0; cause < kResources; ++cause) {
    if (times.all[cause] < 5e-4 * all) continue;
    named.push_back(cause);
    out << right(tpu::to_string(static_cast<Resource>(cause)), cause == 2 ? 9 : 6);
  }
  out << "\n";
  for (const auto& [name, time] : categories_of(times)) {
    const double us = total(time.us);
    if (us < 5e-4 * all) continue;
    out << "  " << left(name, 22) << right(short_number(small ? us : us / 1e3), 8)
        << right(percent(us / all), 8) << right(time.ops > 0 ? grouped(time.ops) : "", 6);
    for (const std::size_t cause : named) {
      out << right(fixed(std::max(0.0, 100 * time.us[cause] / us), 0) + "%", cause == 2 ? 9 : 6);
    }
    out << "\n";
  }
  out << "\n";
  return out.str();
}

Json categories_json(const traces::RunRecord& record) {
  const StepTimes times = by_category(record);
  const double all = total(times.all);
  Json rows = Json::array();
  for (const auto& [name, time] : categories_of(times)) {
    const double us = total(time.us);
    Json causes = Json::object();
    for (std::size_t cause = 0; cause < kResources; ++cause) {
      if (time.us[cause] == 0) continue;
      causes[tpu::to_string(static_cast<Resource>(cause))] = time.us[cause] / us;
    }
    rows.push_back({{"category", name},
                    {"ops", time.ops},
                    {"time_ms", us / 1e3},
                    {"fraction", all > 0 ? us / all : 0},
                    {"causes", causes}});
  }
  return rows;
}

}  // namespace tpu::report
