#include "traces/training_table.h"

#include "sim/base/error.h"
#include "traces/program_tables.h"

namespace tpu::traces {
namespace {

/// The numbers of a training by name; `visit(name, number)`.
template <class Record, class Visitor>
void visit_training_numbers(Record& training, Visitor&& visit) {
  visit("epochs", training.epochs);
  visit("examples", training.examples);
  visit("cycles", training.time.cycles);
  visit("steps", training.time.steps);
  visit("simulated_steps", training.time.simulated);
  visit("compilations", training.time.compilations);
  visit("evaluations", training.time.evaluations);
  visit("checkpoints", training.time.checkpoints);
}

}  // namespace

void add_training(const std::optional<Training>& training, Hdf5Contents& contents) {
  std::vector<std::string> names, causes;
  std::vector<std::uint64_t> numbers, cycles, times, counts;
  std::vector<Training::Shape> shapes;
  if (training) {
    shapes = training->shapes;
    visit_training_numbers(*training, [&](const char* name, std::uint64_t number) {
      names.emplace_back(name);
      numbers.push_back(number);
    });
    for (std::size_t i = 0; i < kTrainingCauses; ++i) {
      causes.emplace_back(to_string(static_cast<TrainingCause>(i)));
      cycles.push_back(training->time.causes[i]);
    }
    for (const auto& [time, count] : training->time.step_times) {
      times.push_back(time);
      counts.push_back(count);
    }
  }
  contents.attributes["scenario"] = training ? training->scenario : "";
  contents.tables["training"].add("name", names).add("value", numbers);
  contents.tables["training_shapes"]
      .add("name", column_of<std::string>(shapes, [](auto& s) { return s.name; }))
      .add("batch", column_of<std::uint64_t>(shapes, [](auto& s) { return s.batch; }))
      .add("cycles", column_of<std::uint64_t>(shapes, [](auto& s) { return s.cycles; }))
      .add("input_cycles", column_of<std::uint64_t>(shapes, [](auto& s) { return s.input_cycles; }))
      .add("compile_cycles",
           column_of<std::uint64_t>(shapes, [](auto& s) { return s.compile_cycles; }));
  contents.tables["training_causes"].add("name", causes).add("cycles", cycles);
  contents.tables["training_steps"].add("cycles", times).add("steps", counts);
}

std::optional<Training> training_of(const Hdf5Contents& contents) {
  const Table& numbers = contents.table("training");
  if (numbers.rows() == 0) return std::nullopt;
  Training training;
  training.scenario = contents.attribute("scenario");
  visit_training_numbers(training, [&](const char* name, std::uint64_t& number) {
    for (std::size_t i = 0; i < numbers.rows(); ++i) {
      if (numbers.column<std::string>("name")[i] == name) {
        number = numbers.column<std::uint64_t>("value")[i];
      }
    }
  });
  const Table& shapes = contents.table("training_shapes");
  for (std::size_t i = 0; i < shapes.rows(); ++i) {
    training.shapes.push_back(
        {shapes.column<std::string>("name")[i], shapes.column<std::uint64_t>("batch")[i],
         shapes.column<std::uint64_t>("cycles")[i], shapes.column<std::uint64_t>("input_cycles")[i],
         shapes.column<std::uint64_t>("compile_cycles")[i]});
  }
  const Table& causes = contents.table("training_causes");
  if (causes.rows() != kTrainingCauses) {
    throw WorkloadError(contents.file + ": training_causes: expected " +
                        std::to_string(kTrainingCauses) + " rows, found " +
                        std::to_string(causes.rows()));
  }
  for (std::size_t i = 0; i < kTrainingCauses; ++i) {
    training.time.causes[i] = causes.column<std::uint64_t>("cycles")[i];
  }
  const Table& steps = contents.table("training_steps");
  for (std::size_t i = 0; i < steps.rows(); ++i) {
    training.time.step_times[steps.column<std::uint64_t>("cycles")[i]] =
        steps.column<std::uint64_t>("steps")[i];
  }
  return training;
}

}  // namespace tpu::traces
