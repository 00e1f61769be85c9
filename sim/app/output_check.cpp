#include "sim/app/output_check.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <sstream>

#include "sim/app/value_arrays.h"
#include "sim/base/error.h"

namespace tpu::app {
namespace {

constexpr std::size_t kWorst = 5;

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

bool reference_of(const traces::NpzFile& file, std::uint32_t number, Reference& reference) {
  const std::string out = array_name("out", number);
  const std::string bf16 = array_name("bf16", number);
  for (const std::string& name : {bf16, out}) {
    if (const traces::NpzArray* whole = find(file, name)) {
      reference = {name, traces::to_doubles(*whole), {}, false};
      return true;
    }
  }
  const traces::NpzArray* indices = find(file, out + "_idx");
  if (indices == nullptr) return false;
  for (const std::string& name : {bf16 + "_val", out + "_val"}) {
    if (const traces::NpzArray* values = find(file, name)) {
      reference = {name, traces::to_doubles(*values), traces::to_doubles(*indices), true};
      return true;
    }
  }
  return false;
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

}  // namespace

std::vector<report::CheckedOutput> check_outputs(
    const std::map<std::uint32_t, compiler::HostArray>& outputs, const traces::NpzFile& references,
    double tolerance, const std::string& file) {
  for (const std::uint32_t number : recorded_numbers(references)) {
    if (outputs.count(number) == 0) {
      throw WorkloadError(file + ": " + array_name("out", number) + ": the program has only " +
                          std::to_string(outputs.size()) + " outputs");
    }
  }
  std::vector<report::CheckedOutput> checks;
  for (const auto& [number, array] : outputs) {
    Reference reference;
    if (!reference_of(references, number, reference)) continue;
    report::CheckedOutput check = compare(traces::to_doubles(to_npz_array(array)), reference, file);
    check.passed = check.error <= tolerance;
    checks.push_back(check);
  }
  if (checks.empty()) {
    throw WorkloadError(file + ": expected recorded outputs out_000, out_001, ..., found none");
  }
  return checks;
}

std::string check_text(const std::vector<report::CheckedOutput>& checks, double tolerance) {
  std::vector<report::CheckedOutput> worst = checks;
  std::stable_sort(worst.begin(), worst.end(), [](const auto& a, const auto& b) {
    return std::isnan(a.error) != std::isnan(b.error) ? std::isnan(a.error) : a.error > b.error;
  });
  const auto failed =
      std::count_if(checks.begin(), checks.end(), [](auto& c) { return !c.passed; });
  std::ostringstream out;
  out << "Check: " << checks.size() - static_cast<std::size_t>(failed) << " of " << checks.size()
      << " outputs within a relative L2 error of " << tolerance << "; the worst:\n";
  for (std::size_t i = 0; i < std::min(kWorst, worst.size()); ++i) {
    char line[160];
    std::snprintf(line, sizeof line, "  %-14s relative %.3e   largest difference %.3e   %s\n",
                  worst[i].name.c_str(), worst[i].error, worst[i].max_error,
                  worst[i].passed ? "ok" : "FAILED");
    out << line;
  }
  return out.str();
}

}  // namespace tpu::app
