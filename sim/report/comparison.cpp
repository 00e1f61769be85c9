#include "sim/report/comparison.h"

#include <limits>

#include "models/parameter_table.h"
#include "sim/report/energy.h"

namespace tpu::report {
namespace {

constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();
constexpr const char* kNotModelled = "not modelled";
constexpr const char* kNoPrice = "no price";

double known(const Energy& energy, double value) { return energy.is_known ? value : kMissing; }

}  // namespace

std::vector<ParameterDifference> differing_parameters(
    const std::vector<traces::RunRecord>& records) {
  std::vector<ParameterDifference> differences;
  std::vector<std::vector<ParameterValue>> tables;
  tables.reserve(records.size());
  for (const traces::RunRecord& record : records) tables.push_back(parameter_table(record.params));
  if (tables.empty()) return differences;
  for (std::size_t i = 0; i < tables[0].size(); ++i) {
    bool differ = false;
    ParameterDifference difference{tables[0][i].path, tables[0][i].unit, {}};
    for (const auto& table : tables) {
      differ = differ || !(table[i] == tables[0][i]);
      difference.values.push_back(value_text(table[i]));
    }
    if (differ && difference.path != "name") differences.push_back(difference);
  }
  return differences;
}

std::optional<double> whole_slice_price(const traces::RunRecord& record) {
  if (record.result.cores.size() != record.params.cores()) return std::nullopt;
  return price_per_hour(record.params);
}

std::vector<ResultRow> result_rows(const std::vector<traces::RunRecord>& records,
                                   const std::vector<Summary>& summaries) {
  std::vector<ResultRow> rows;
  const auto add = [&](const char* name, const char* label, auto&& value,
                       const char* missing = "") {
    ResultRow row{name, label, {}, missing};
    for (std::size_t i = 0; i < records.size(); ++i) {
      row.values.push_back(value(records[i], summaries[i]));
    }
    rows.push_back(std::move(row));
  };
  using Record = traces::RunRecord;
  add("step_time_ms", "step time, ms",
      [](const Record&, const Summary& s) { return s.step_mean_ms; });
  add("step_cycles", "step, cycles", [](const Record&, const Summary& s) {
    double cycles = 0;
    for (const StepSummary& step : s.steps) cycles += static_cast<double>(step.cycles);
    return s.steps.empty() ? 0 : cycles / static_cast<double>(s.steps.size());
  });
  add("examples_per_s", "examples/s",
      [](const Record&, const Summary& s) { return s.examples_per_s; });
  add("mxu", "MXU utilization, %",
      [](const Record&, const Summary& s) { return 100 * s.utilization.mxu; });
  add("mxu_flops", "useful FLOPs of peak, %",
      [](const Record&, const Summary& s) { return 100 * s.utilization.mxu_flops; });
  add("vpu", "vector ALU utilization, %",
      [](const Record&, const Summary& s) { return 100 * s.utilization.vpu; });
  add("hbm", "HBM utilization, %",
      [](const Record&, const Summary& s) { return 100 * s.utilization.hbm; });
  add("ici", "ICI utilization, %",
      [](const Record&, const Summary& s) { return 100 * s.utilization.ici; });
  add("idle", "TPU idle time, %",
      [](const Record&, const Summary& s) { return 100 * s.idle_fraction; });
  add("compute", "compute, %",
      [](const Record&, const Summary& s) { return 100 * s.breakdown.compute; });
  add("memory_wait", "memory wait, %",
      [](const Record&, const Summary& s) { return 100 * s.breakdown.memory_wait; });
  add("infeed_wait", "infeed wait, %",
      [](const Record&, const Summary& s) { return 100 * s.breakdown.infeed_wait; });
  add("ici_wait", "ICI wait, %",
      [](const Record&, const Summary& s) { return 100 * s.breakdown.ici_wait; });
  add("peer_wait", "peer wait, %", [](const Record&, const Summary& s) {
    return 100 * (s.breakdown.peer_wait + s.breakdown.peer_host_wait);
  });
  add("roofline_ms", "roofline bound, ms",
      [](const Record&, const Summary& s) { return s.roofline.bound_ms; });
  add(
      "joules", "energy of a step, J (inferred)",
      [](const Record& r, const Summary&) { return known(energy_of(r), energy_of(r).total()); },
      kNotModelled);
  add(
      "watts_per_chip", "power of a chip, W (inferred)",
      [](const Record& r, const Summary&) {
        return known(energy_of(r), energy_of(r).watts_per_chip);
      },
      kNotModelled);
  add(
      "examples_per_joule", "examples/J (inferred)",
      [](const Record& r, const Summary&) {
        return known(energy_of(r), energy_of(r).examples_per_joule);
      },
      kNotModelled);
  add(
      "dollars_per_hour", "$/h of the whole slice (list price)",
      [](const Record& r, const Summary&) { return whole_slice_price(r).value_or(kMissing); },
      kNoPrice);
  add(
      "dollars_per_epoch", "$ of an epoch of the dataset",
      [](const Record& r, const Summary& s) {
        const double examples = r.params.input.images;
        if (examples == 0 || s.examples_per_s <= 0) return kMissing;
        return examples / s.examples_per_s / 3600 * whole_slice_price(r).value_or(kMissing);
      },
      "no dataset or no price");
  add(
      "examples_per_dollar", "examples/$ of the whole slice",
      [](const Record& r, const Summary& s) {
        return 3600 * s.examples_per_s / whole_slice_price(r).value_or(kMissing);
      },
      kNoPrice);
  add("hbm_peak_gib", "HBM used, GiB", [](const Record&, const Summary& s) {
    return static_cast<double>(s.memory.hbm_peak_bytes) / (1 << 30);
  });
  return rows;
}

}  // namespace tpu::report
