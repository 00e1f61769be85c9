#include "sim/report/training_report.h"

#include <algorithm>
#include <cmath>
#include <sstream>

namespace tpu::report {
namespace {

constexpr double kPercentiles[] = {1, 50, 90, 99};

/// "4 d 3 h 12 min", "2 min 31.2 s", "812 ms".
std::string long_time(double seconds) {
  if (seconds < 60) return short_time(seconds * 1e3);
  std::ostringstream text;
  const auto minutes = static_cast<std::uint64_t>(seconds / 60);
  if (minutes >= 24 * 60) text << minutes / (24 * 60) << " d ";
  if (minutes >= 60) text << minutes / 60 % 24 << " h ";
  text << minutes % 60 << " min";
  if (minutes < 60) text << " " << fixed(seconds - 60 * static_cast<double>(minutes), 1) << " s";
  return text.str();
}

double mean_cycles(const TrainingTime& time) {
  double sum = 0, steps = 0;
  for (const auto& [cycles, count] : time.step_times) {
    sum += static_cast<double>(cycles) * static_cast<double>(count);
    steps += static_cast<double>(count);
  }
  return steps > 0 ? sum / steps : 0;
}

double share(const TrainingTime& time, TrainingCause cause) {
  return static_cast<double>(time.causes[static_cast<std::size_t>(cause)]) /
         static_cast<double>(time.cycles);
}

void print_shapes(std::ostringstream& out, const traces::RunRecord& record) {
  for (const traces::Training::Shape& shape : record.training->shapes) {
    out << "  " << left(shape.name, 12) << right(std::to_string(shape.batch), 10) << " examples"
        << right(short_time(1e3 * record.params.seconds(shape.cycles)), 12) << " on the chips";
    if (shape.input_cycles > 0) {
      out << ", " << short_time(1e3 * record.params.seconds(shape.input_cycles)) << " of input";
    }
    if (shape.compile_cycles > 0) {
      out << ", compiled in " << long_time(record.params.seconds(shape.compile_cycles))
          << " (modelled)";
    }
    out << "\n";
  }
}

}  // namespace

std::string training_text(const traces::RunRecord& record, const TextStyle& style) {
  if (!record.training) return "";
  const traces::Training& training = *record.training;
  const TrainingTime& time = training.time;
  const auto ms = [&](double cycles) {
    return short_time(cycles / (record.params.clock_mhz * 1e3));
  };
  const double seconds = record.params.seconds(time.cycles);
  std::ostringstream out;
  out << "Training: " << training.epochs << (training.epochs == 1 ? " epoch of " : " epochs of ")
      << grouped(training.examples) << " examples, scenario " << training.scenario << "\n";
  out << "  takes " << long_time(seconds) << ": " << grouped(time.steps) << " steps, "
      << short_number(static_cast<double>(training.epochs * training.examples) / seconds)
      << " examples/s; chips idle "
      << percent(1 - share(time, TrainingCause::kSteps) - share(time, TrainingCause::kRepeated) -
                 share(time, TrainingCause::kEvaluation))
      << "\n";
  out << "  from step to step: mean " << ms(mean_cycles(time)) << ", min "
      << ms(static_cast<double>(time.step_times.begin()->first)) << ", max "
      << ms(static_cast<double>(time.step_times.rbegin()->first));
  for (const double part : kPercentiles) {
    out << ", p" << part << " " << ms(static_cast<double>(percentile(time.step_times, part)));
  }
  out << "\n";
  for (std::size_t i = 0; i < kTrainingCauses; ++i) {
    if (time.causes[i] == 0) continue;
    const auto cause = static_cast<TrainingCause>(i);
    const double part = share(time, cause);
    out << "  " << left(to_string(cause), 16) << bar(part, bar_width(style), style)
        << right(percent(part), 8) << right(long_time(part * seconds), 18) << "\n";
  }
  print_shapes(out, record);
  out << "\n";
  return out.str();
}

nlohmann::ordered_json training_json(const traces::RunRecord& record) {
  if (!record.training) return nullptr;
  const traces::Training& training = *record.training;
  const TrainingTime& time = training.time;
  const auto ms = [&](std::uint64_t cycles) { return 1e3 * record.params.seconds(cycles); };
  nlohmann::ordered_json json;
  json["scenario"] = training.scenario;
  json["epochs"] = training.epochs;
  json["examples"] = training.examples;
  json["seconds"] = record.params.seconds(time.cycles);
  json["cycles"] = time.cycles;
  json["steps"] = time.steps;
  json["simulated_steps"] = time.simulated;
  json["compilations"] = time.compilations;
  json["evaluations"] = time.evaluations;
  json["checkpoints"] = time.checkpoints;
  json["step_to_step_ms"] = {{"mean", mean_cycles(time) / (record.params.clock_mhz * 1e3)},
                             {"min", ms(time.step_times.begin()->first)},
                             {"max", ms(time.step_times.rbegin()->first)}};
  for (const double part : kPercentiles) {
    json["step_to_step_ms"]["p" + std::to_string(static_cast<int>(part))] =
        ms(percentile(time.step_times, part));
  }
  for (std::size_t i = 0; i < kTrainingCauses; ++i) {
    const auto cause = static_cast<TrainingCause>(i);
    if (time.causes[i] > 0) json["causes"][to_string(cause)] = share(time, cause);
  }
  for (const traces::Training::Shape& shape : training.shapes) {
    json["shapes"].push_back({{"name", shape.name},
                              {"batch", shape.batch},
                              {"time_ms", ms(shape.cycles)},
                              {"input_ms", ms(shape.input_cycles)},
                              {"compile_s", record.params.seconds(shape.compile_cycles)}});
  }
  return json;
}

}  // namespace tpu::report
