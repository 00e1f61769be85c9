#include "sim/report/what_if_report.h"

#include <algorithm>
#include <cmath>
#include <sstream>
#include <utility>

#include "sim/report/critical_path_report.h"

namespace tpu::report {
namespace {

using traces::WhatIf;

/// Below this share of the step a gain is called none.
constexpr double kNoGain = 0.005;

bool changes_batch(const WhatIf& what) { return what.settings.compare(0, 7, "--batch") == 0; }

bool changes_layers(const WhatIf& what) {
  return what.settings.find("--feature-multiple") != std::string::npos;
}

/// How many times the useful FLOPs of the run a variant with other layers has.
double times_the_flops(const WhatIf& what, const traces::RunRecord& record) {
  if (!changes_layers(what) || record.model_flops == 0 || what.model_flops == 0) return 1;
  return static_cast<double>(what.model_flops) / static_cast<double>(record.model_flops);
}

/// The step that a variant is told from: the run's, or that of the program compiled anew.
double as_it_is_ms(const WhatIf& what, const Summary& summary) {
  return what.as_it_is_ms > 0 ? what.as_it_is_ms : summary.step_mean_ms;
}

/// The share of the time of an example that is gained: of the step, where the batch is the same; of
/// a useful FLOP, where the layers are others.
double gain_of(const WhatIf& what, const traces::RunRecord& record, const Summary& summary) {
  if (changes_batch(what)) return 1 - summary.examples_per_s / what.examples_per_s;
  return 1 - what.step_ms / as_it_is_ms(what, summary) / times_the_flops(what, record);
}

/// The share of the time that depends on what a variant frees; 0 of what frees nothing alone.
double share_of(const WhatIf& what, const traces::RunRecord& record) {
  const std::pair<const char*, Resource> freed[] = {{"HBM free", Resource::kHbm},
                                                    {"infeed free", Resource::kHost},
                                                    {"ICI free", Resource::kIci},
                                                    {"twice the MXUs", Resource::kMxu}};
  for (const auto& [name, resource] : freed) {
    if (what.name == name) {
      return record.result.critical_path.shares()[static_cast<std::size_t>(resource)];
    }
  }
  return 0;
}

/// Those that ran, most gain first; of those whose gains print alike the greatest share first, as
/// the causes are.
std::vector<WhatIf> ranked(const traces::RunRecord& record, const Summary& summary) {
  std::vector<WhatIf> results;
  for (const WhatIf& what : record.what_if) {
    if (what.problem.empty()) results.push_back(what);
  }
  const auto key = [&](const WhatIf& what) {
    return std::make_pair(std::round(1e3 * gain_of(what, record, summary)), share_of(what, record));
  };
  std::stable_sort(results.begin(), results.end(),
                   [&](const WhatIf& a, const WhatIf& b) { return key(a) > key(b); });
  return results;
}

std::string lowered(const std::string& name) {
  return name == "infeed free"           ? "a free infeed"
         : name == "HBM free"            ? "a free HBM"
         : name == "ICI free"            ? "a free ICI"
         : name == "HBM and infeed free" ? "a free HBM and infeed"
                                         : name;
}

std::string gain_text(const WhatIf& what, const traces::RunRecord& record, const Summary& summary) {
  const double gain = gain_of(what, record, summary), step = as_it_is_ms(what, summary);
  return short_time(gain * step) + " of " + short_time(step) + " (" + percent(gain) + ")" +
         (what.as_it_is_ms > 0 ? ", both compiled by tpusim" : "");
}

std::string batch_advice(const WhatIf& what, const traces::RunRecord& record,
                         const Summary& summary) {
  const std::string lanes = ": a multiple of 128 fills the lanes, which padding fills now.";
  if (what.step_ms < summary.step_mean_ms) {
    return "batch " + std::to_string(record.examples_per_core) + " a core takes longer, " +
           short_time(summary.step_mean_ms) + ", than " + what.name + ", " +
           short_time(what.step_ms) + lanes;
  }
  return what.name + " makes " + short_number(what.examples_per_s) + " examples/s in place of " +
         short_number(summary.examples_per_s) + lanes;
}

std::string padding_advice(const WhatIf& what, const traces::RunRecord& record,
                           const Summary& summary) {
  const double flops = times_the_flops(what, record);
  const double time = what.step_ms / as_it_is_ms(what, summary);
  const double gain = gain_of(what, record, summary);
  const std::string where = what.name == "less padding" ? ", where their shapes can grow," : "";
  return "padding: layers as wide as the lanes that they take" + where + " have " +
         short_number(flops) + " x the useful FLOPs in " + short_number(time) + " x the time, " +
         percent(gain < 0 ? -gain : gain) + (gain < 0 ? " more" : " less") + " for each.";
}

/// What the host would have to give: what the cores take where nothing keeps them waiting for it.
std::string host_advice(const WhatIf& what) {
  if (what.examples_per_s <= 0) return "";
  return " That takes " + short_number(what.examples_per_s) +
         " examples/s from the host; beyond them the cores bound the step.";
}

void capitalize(std::vector<std::string>& sentences) {
  for (std::string& sentence : sentences) {
    if (sentence[0] >= 'a' && sentence[0] <= 'z') sentence[0] -= 'a' - 'A';
  }
}

/// What follows for the program as it is, where nothing was simulated again.
std::vector<std::string> advice_of_same_program(const traces::RunRecord& record,
                                                const Summary& summary) {
  std::vector<std::string> sentences;
  std::string nothing;
  for (const SameProgramGain& row : same_program_gains(record, summary)) {
    const double gain = summary.step_mean_ms > 0 ? row.gain_ms / summary.step_mean_ms : 0;
    if (gain < kNoGain) {
      nothing += (nothing.empty() ? "" : ", ") + lowered(row.what_if);
    } else {
      sentences.push_back(lowered(row.what_if) + " gains the same program " +
                          short_time(row.gain_ms) + " of " + short_time(summary.step_mean_ms) +
                          " (" + percent(gain) + ").");
    }
  }
  if (!nothing.empty()) sentences.push_back("Nothing to gain (below 0.5 %): " + nothing + ".");
  capitalize(sentences);
  return sentences;
}

}  // namespace

std::vector<std::string> advice(const traces::RunRecord& record, const Summary& summary) {
  if (record.what_if.empty()) return advice_of_same_program(record, summary);
  std::vector<std::string> sentences;
  std::string nothing;
  for (const WhatIf& what : ranked(record, summary)) {
    const double gain = gain_of(what, record, summary);
    if (changes_layers(what)) {
      sentences.push_back(padding_advice(what, record, summary));
    } else if (changes_batch(what)) {
      if (gain <= 0) continue;
      sentences.push_back(batch_advice(what, record, summary));
    } else if (gain < -kNoGain) {
      sentences.push_back(
          lowered(what.name) + " makes the step longer, " + short_time(what.step_ms) +
          ": the compiler chooses other tiles for that machine, and they are worse.");
    } else if (gain < kNoGain) {
      nothing += (nothing.empty() ? "" : ", ") + lowered(what.name);
    } else if (what.name == "HBM and infeed free") {
      sentences.push_back(
          short_time(what.step_ms) +
          " remain with HBM and infeed free: what the schedule of the cores needs.");
    } else {
      sentences.push_back(lowered(what.name) + " gains at most " +
                          gain_text(what, record, summary) + "." +
                          (what.name == "infeed free" ? host_advice(what) : ""));
    }
  }
  if (!nothing.empty()) sentences.push_back("Nothing to gain (below 0.5 %): " + nothing + ".");
  capitalize(sentences);
  return sentences;
}

std::string what_if_text(const traces::RunRecord& record, const Summary& summary) {
  if (record.what_if.empty()) return "";
  std::ostringstream out;
  out << "What if (each simulated again with these settings; change of the time of an example, "
         "without padding of that of a useful FLOP; what the same program would gain)\n";
  const auto row = [&](const std::string& name, double ms, const std::string& gain, double rate,
                       const std::string& settings) {
    std::string text = "  " + left(name, 21) + right(short_time(ms), 10) + right(gain, 10);
    text += right(rate > 0 ? short_number(rate) + "/s" : "", 14);
    const std::optional<double> expected = expected_gain_ms(record, summary, name);
    if (expected) text += right(percent(0.0 - *expected / summary.step_mean_ms), 10);
    out << text << "\n";
    if (!settings.empty()) out << "        " << settings << "\n";
  };
  row("as it is", summary.step_mean_ms, "", summary.examples_per_s, "");
  for (const WhatIf& what : ranked(record, summary)) {
    row(what.name, what.step_ms, percent(0.0 - gain_of(what, record, summary)), what.examples_per_s,
        what.settings + (what.as_it_is_ms > 0
                             ? "; without: " + short_time(what.as_it_is_ms) + ", compiled anew, too"
                             : ""));
  }
  for (const WhatIf& what : record.what_if) {
    if (!what.problem.empty()) out << "  " << what.name << ": " << what.problem << "\n";
  }
  for (const std::string& sentence : advice(record, summary)) out << "  " << sentence << "\n";
  out << "\n";
  return out.str();
}

Json what_if_json(const traces::RunRecord& record, const Summary& summary) {
  Json rows = Json::array();
  for (const WhatIf& what : record.what_if) {
    Json row = {{"name", what.name}, {"settings", what.settings}};
    if (what.problem.empty()) {
      row["step_time_ms"] = what.step_ms;
      row["gain_ms"] = as_it_is_ms(what, summary) - what.step_ms;
      if (what.as_it_is_ms > 0) row["as_it_is_ms"] = what.as_it_is_ms;
      row["gain"] = gain_of(what, record, summary);
      row["model_flops"] = what.model_flops;
      if (const auto same = expected_gain_ms(record, summary, what.name)) {
        row["same_program_gain_ms"] = *same;
      }
      row["examples_per_s"] = what.examples_per_s;
    } else {
      row["problem"] = what.problem;
    }
    rows.push_back(std::move(row));
  }
  Json same = Json::array();
  for (const SameProgramGain& row : same_program_gains(record, summary)) {
    same.push_back({{"name", row.what_if},
                    {"step_time_ms", summary.step_mean_ms - row.gain_ms},
                    {"gain_ms", row.gain_ms}});
  }
  return {{"same_program", same}, {"variants", rows}, {"advice", advice(record, summary)}};
}

}  // namespace tpu::report
