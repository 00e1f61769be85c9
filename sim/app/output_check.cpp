#include "sim/app/output_check.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>

#include "sim/app/value_arrays.h"
#include "sim/base/error.h"

namespace tpu::app {
namespace {

constexpr double kMagnitude = 10;
constexpr std::size_t kListed = 5;  ///< Outputs that the text names.

/// The recorded values of one output and the flat indices where they stand; empty indices: all.
struct Reference {
  std::string name;
  std::vector<double> values;
  std::vector<double> indices;
  bool sampled = false;
};

const traces::NpzArray* find(const traces::NpzFile& file, const std::string& name) {
  const auto found = file.find(name);
  return found != file.end() ? &found->second : nullptr;
}

/// What is recorded of one output: rounded products first, then fp32; empty when nothing is.
std::vector<Reference> references_of(const traces::NpzFile& file, std::uint32_t number) {
  std::vector<Reference> references;
  const traces::NpzArray* indices = find(file, array_name("out", number) + "_idx");
  for (const char* prefix : {"bf16", "out"}) {
    const std::string name = array_name(prefix, number);
    const std::string sampled = name + "_val";
    if (const traces::NpzArray* whole = find(file, name)) {
      references.push_back({name, traces::to_doubles(*whole), {}, false});
    } else if (indices != nullptr && find(file, sampled) != nullptr) {
      references.push_back(
          {sampled, traces::to_doubles(*find(file, sampled)), traces::to_doubles(*indices), true});
    }
  }
  return references;
}

report::CheckedOutput compare(const std::vector<double>& values, const Reference& reference,
                              const std::string& file) {
  const auto fail = [&](const std::string& expected, std::size_t found) {
    throw WorkloadError(file + ": " + reference.name + ": expected " + expected + ", found " +
                        std::to_string(found));
  };
  if (!reference.sampled && reference.values.size() != values.size()) {
    fail(std::to_string(values.size()) + " elements", reference.values.size());
  }
  if (reference.sampled && reference.values.size() != reference.indices.size()) {
    fail(std::to_string(reference.indices.size()) + " values, one for each index",
         reference.values.size());
  }
  report::CheckedOutput check;
  check.name = reference.name;
  double error = 0, norm = 0;
  for (std::size_t i = 0; i < reference.values.size(); ++i) {
    std::size_t at = i;
    if (reference.sampled) {
      if (!(reference.indices[i] >= 0 &&
            reference.indices[i] < static_cast<double>(values.size()))) {
        fail("indices below " + std::to_string(values.size()),
             static_cast<std::size_t>(std::max(0.0, reference.indices[i])));
      }
      at = static_cast<std::size_t>(reference.indices[i]);
    }
    const double expected = reference.values[i];
    // Where the reference is infinite or no number, so has the output to be.
    const bool both_nan = std::isnan(values[at]) && std::isnan(expected);
    if (both_nan || (std::isinf(expected) && values[at] == expected)) continue;
    const double difference = values[at] - expected;
    if (!(std::abs(difference) <= check.max_error)) check.max_error = std::abs(difference);
    error += difference * difference;
    norm += expected * expected;
  }
  check.error = std::sqrt(norm > 0 ? error / norm : error);
  return check;
}

/// Relative L2 distance of two references with the same elements; 0 where one is missing.
double gap_between(const std::vector<Reference>& references) {
  if (references.size() < 2 || references[0].values.size() != references[1].values.size()) return 0;
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < references[0].values.size(); ++i) {
    const double rounded = references[0].values[i], exact = references[1].values[i];
    if (!std::isfinite(rounded) || !std::isfinite(exact)) continue;
    difference += (rounded - exact) * (rounded - exact);
    norm += exact * exact;
  }
  return std::sqrt(norm > 0 ? difference / norm : difference);
}

std::string in_words(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1e", value);
  return text;
}

/// How far an output moves, and whether that is because its bf16 or fp16 values may stay in fp32.
struct Sensitivity {
  double moves = 0;
  bool of_narrow_types = false;

  std::string text() const {
    return "the output's own sensitivity: it moves by " + in_words(moves) +
           (of_narrow_types ? " when bf16 and fp16 stay in fp32" : " with its inputs");
  }
};

/// Sets tolerance, reason and verdict of an output without a tolerance from the user.
void judge(report::CheckedOutput& check, std::optional<Sensitivity> sensitivity, double gap) {
  const std::string arithmetic =
      check.name.rfind("out", 0) == 0 ? "fp32 as on the vector unit" : "products rounded to bf16";
  const auto within = [&](double tolerance, const std::string& reason) {
    check.tolerance = tolerance;
    check.reason = reason;
    check.passed = check.error <= tolerance;
    return check.passed;
  };
  if (!sensitivity) {
    within(kWorst, "the file has no sensitivities");
    return;
  }
  if (within(kClose, gap > 0 ? arithmetic : "no product is rounded")) return;
  const double moves = kMoves * sensitivity->moves;
  if (moves > kClose && within(moves, sensitivity->text())) return;
  const double elsewhere = std::min(gap, kWorst);
  const std::string closer = check.reason;
  if (elsewhere > std::max(moves, kClose) &&
      within(elsewhere, "rounding of another operand: it moves the output by " + in_words(gap))) {
    return;
  }
  if (sensitivity->moves >= kNoise && !sensitivity->of_narrow_types) {
    within(kMagnitude, "no digit is certain, only the magnitude is compared: it moves by " +
                           in_words(sensitivity->moves) + " with its inputs");
    return;
  }
  within(std::max(kClose, moves), closer);
}

/// The numbers NNN of all arrays out_NNN... and bf16_NNN... in a file.
std::vector<std::uint32_t> recorded_numbers(const traces::NpzFile& file) {
  std::vector<std::uint32_t> numbers;
  for (const auto& [name, array] : file) {
    unsigned number = 0;
    if (std::sscanf(name.c_str(), "out_%u", &number) == 1 ||
        std::sscanf(name.c_str(), "bf16_%u", &number) == 1) {
      numbers.push_back(number);
    }
  }
  return numbers;
}

std::optional<double> recorded_number(const traces::NpzFile& file, const std::string& name,
                                      std::uint32_t number) {
  const traces::NpzArray* recorded = find(file, name);
  if (recorded == nullptr || number >= recorded->element_count()) return std::nullopt;
  return traces::to_doubles(*recorded)[number];
}

std::optional<Sensitivity> sensitivity_of(const traces::NpzFile& file, std::uint32_t number) {
  const std::optional<double> moves = recorded_number(file, "sensitivity", number);
  if (!moves) return std::nullopt;
  const std::optional<double> narrow = recorded_number(file, "sensitivity_narrow", number);
  return Sensitivity{*moves, narrow && *narrow > 0 && *narrow >= *moves};
}

}  // namespace

std::vector<report::CheckedOutput> check_outputs(
    const std::map<std::uint32_t, compiler::HostArray>& outputs, const traces::NpzFile& references,
    std::optional<double> tolerance, const std::string& file, bool draws_own_bits) {
  for (const std::uint32_t number : recorded_numbers(references)) {
    if (outputs.count(number) == 0) {
      throw WorkloadError(file + ": " + array_name("out", number) + ": the program has only " +
                          std::to_string(outputs.size()) + " outputs");
    }
  }
  std::vector<report::CheckedOutput> checks;
  for (const auto& [number, array] : outputs) {
    const std::vector<Reference> recorded = references_of(references, number);
    if (recorded.empty()) continue;
    const std::vector<double> values = traces::to_doubles(to_npz_array(array));
    report::CheckedOutput check = compare(values, recorded[0], file);
    for (const Reference& reference : recorded) {
      const report::CheckedOutput other = compare(values, reference, file);
      if (other.error < check.error) check = other;
    }
    if (tolerance) {
      check.tolerance = *tolerance;
      check.reason = "--tolerance";
      check.passed = check.error <= *tolerance;
    } else {
      judge(check, sensitivity_of(references, number), gap_between(recorded));
    }
    if (!check.passed && draws_own_bits) {
      check.reason +=
          "; the program draws bits from the chip's own generator, the reference others";
    }
    checks.push_back(check);
  }
  if (checks.empty()) {
    throw WorkloadError(file + ": expected recorded outputs out_000, out_001, ..., found none");
  }
  return checks;
}

std::string check_text(const std::vector<report::CheckedOutput>& checks) {
  std::vector<report::CheckedOutput> worst = checks;
  std::stable_sort(worst.begin(), worst.end(), [](const auto& a, const auto& b) {
    if (a.passed != b.passed) return b.passed;
    return std::isnan(a.error) != std::isnan(b.error) ? std::isnan(a.error) : a.error > b.error;
  });
  std::vector<double> errors;
  errors.reserve(checks.size());
  for (const report::CheckedOutput& check : checks) {
    errors.push_back(std::isnan(check.error) ? INFINITY : check.error);
  }
  std::sort(errors.begin(), errors.end());
  const auto passed = std::count_if(checks.begin(), checks.end(), [](auto& c) { return c.passed; });
  char line[256];
  std::snprintf(line, sizeof line,
                "Check: %zu of %zu outputs agree, median relative L2 error %.1e; the worst:\n",
                static_cast<std::size_t>(passed), checks.size(), errors[errors.size() / 2]);
  std::string text = line;
  for (std::size_t i = 0; i < std::min(kListed, worst.size()); ++i) {
    const report::CheckedOutput& check = worst[i];
    std::snprintf(line, sizeof line,
                  "  %-12s relative %.1e   largest difference %.1e   %-6s tolerance %.1e (%s)\n",
                  check.name.c_str(), check.error, check.max_error, check.passed ? "ok" : "FAILED",
                  check.tolerance, check.reason.c_str());
    text += line;
  }
  return text;
}

}  // namespace tpu::app
