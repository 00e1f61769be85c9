#include "workloads/frontend/zoo_options.h"

#include <charconv>
#include <cmath>

#include "sim/base/ceil_divide.h"
#include "sim/base/error.h"

namespace tpu::frontend {

namespace {

std::string found(std::string_view text) { return "found \"" + std::string(text) + "\""; }

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  std::size_t begin = 0;
  while (true) {
    const std::size_t end = text.find(separator, begin);
    parts.push_back(text.substr(begin, end - begin));
    if (end == std::string_view::npos) return parts;
    begin = end + 1;
  }
}

/// A whole number in decimal, nothing else around it.
std::optional<std::int64_t> whole_number(std::string_view text) {
  std::int64_t value = 0;
  const std::from_chars_result result =
      std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ec != std::errc() || result.ptr != text.data() + text.size()) return std::nullopt;
  return value;
}

std::int64_t parse_number(std::string_view option, std::string_view text) {
  const std::optional<std::int64_t> value = whole_number(text);
  if (!value) {
    throw UsageError("option " + std::string(option) + ": expected a whole number, " + found(text));
  }
  return *value;
}

double parse_real(std::string_view option, std::string_view text) {
  double value = 0;
  const std::from_chars_result result =
      std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ec != std::errc() || result.ptr != text.data() + text.size() ||
      !std::isfinite(value)) {
    throw UsageError("option " + std::string(option) + ": expected a number, " + found(text));
  }
  return value;
}

}  // namespace

void set_option(WorkloadOptions& options, std::string_view name, std::string_view value) {
  const std::pair<std::string_view, std::optional<std::int64_t> WorkloadOptions::*> numbers[] = {
      {"batch", &WorkloadOptions::batch},
      {"image", &WorkloadOptions::image},
      {"classes", &WorkloadOptions::classes},
      {"layers", &WorkloadOptions::layers},
      {"width", &WorkloadOptions::width},
      {"heads", &WorkloadOptions::heads},
      {"sequence", &WorkloadOptions::sequence},
      {"vocabulary", &WorkloadOptions::vocabulary},
      {"feature_multiple", &WorkloadOptions::feature_multiple}};
  const std::pair<std::string_view, std::optional<std::string> WorkloadOptions::*> texts[] = {
      {"dtype", &WorkloadOptions::dtype},   {"precision", &WorkloadOptions::precision},
      {"shape", &WorkloadOptions::shape},   {"kernel", &WorkloadOptions::kernel},
      {"stride", &WorkloadOptions::stride}, {"padding", &WorkloadOptions::padding},
      {"pass", &WorkloadOptions::pass}};
  for (const auto& [text, member] : numbers) {
    if (text == name) {
      options.*member = parse_number(name, value);
      return;
    }
  }
  for (const auto& [text, member] : texts) {
    if (text == name) {
      options.*member = std::string(value);
      return;
    }
  }
  if (name == "replicas") {
    options.replicas = parse_number(name, value);
  } else if (name == "learning_rate") {
    options.learning_rate = parse_real(name, value);
  } else {
    throw UsageError(
        "no workload option \"" + std::string(name) +
        "\" (there are: batch, replicas, dtype, precision, learning_rate, image, classes, "
        "layers, width, heads, sequence, vocabulary, feature_multiple, shape, kernel, stride, "
        "padding, pass)");
  }
}

std::int64_t checked_feature_multiple(const WorkloadOptions& options) {
  return checked("feature_multiple", options.feature_multiple.value_or(1), 1, 1 << 16);
}

std::int64_t full_width(const WorkloadOptions& options, std::int64_t width) {
  return round_up(width, checked_feature_multiple(options));
}

std::int64_t full_heads(const WorkloadOptions& options, std::int64_t width, std::int64_t heads) {
  const std::int64_t multiple = checked_feature_multiple(options);
  if (multiple == 1) return heads;
  while (heads > 1 && (width % heads != 0 || width / heads % multiple != 0)) --heads;
  return heads;
}

std::int64_t checked(std::string_view option, std::int64_t value, std::int64_t low,
                     std::int64_t high) {
  if (value < low || value > high) {
    throw UsageError("option " + std::string(option) + ": expected " + std::to_string(low) +
                     " to " + std::to_string(high) + ", found " + std::to_string(value));
  }
  return value;
}

std::int64_t checked(std::string_view option, const std::optional<std::int64_t>& value,
                     std::int64_t otherwise, std::int64_t low, std::int64_t high) {
  return checked(option, value.value_or(otherwise), low, high);
}

void check_heads(std::int64_t width, std::int64_t heads) {
  if (width % heads == 0) return;
  throw UsageError("option heads: expected a divisor of the width " + std::to_string(width) +
                   ", found " + std::to_string(heads));
}

double checked_rate(const std::optional<double>& value, double otherwise) {
  const double rate = value.value_or(otherwise);
  if (!(rate >= 0 && rate <= 1000)) {
    throw UsageError("option learning_rate: expected 0 to 1000, found " + std::to_string(rate));
  }
  return rate;
}

std::string checked_precision(const std::optional<std::string>& value) {
  std::string precision = value.value_or("default");
  if (precision == "default" || precision == "high" || precision == "highest") return precision;
  throw UsageError("option precision: expected default, high or highest, " + found(precision));
}

hlo::ElementType element_type(const std::optional<std::string>& value, hlo::ElementType otherwise) {
  if (!value) return otherwise;
  if (*value == "f32") return hlo::ElementType::kF32;
  if (*value == "bf16") return hlo::ElementType::kBf16;
  throw UsageError("option dtype: expected f32 or bf16, " + found(*value));
}

Extents parse_extents(std::string_view option, std::string_view text, std::size_t count,
                      std::string_view form, std::int64_t low) {
  Extents extents;
  for (std::string_view part : split(text, 'x')) {
    const std::optional<std::int64_t> value = whole_number(part);
    if (!value || *value < low || *value > kLargestExtent) break;
    extents.push_back(*value);
  }
  if (extents.size() != count || split(text, 'x').size() != count) {
    throw UsageError("option " + std::string(option) + ": expected " + std::string(form) +
                     ", each from " + std::to_string(low) + " to " +
                     std::to_string(kLargestExtent) + ", " + found(text));
  }
  return extents;
}

Extents parse_pair(std::string_view option, std::string_view text) {
  if (text.find('x') != std::string_view::npos) {
    return parse_extents(option, text, 2, "a number or HEIGHTxWIDTH");
  }
  const Extents one = parse_extents(option, text, 1, "a number or HEIGHTxWIDTH");
  return {one[0], one[0]};
}

std::vector<Padding> parse_padding(std::string_view text, const Extents& input,
                                   const Extents& kernel, const Extents& stride) {
  if (text == "valid") return {Padding(), Padding()};
  if (text == "same") {
    return {same_padding(input[0], kernel[0], stride[0]),
            same_padding(input[1], kernel[1], stride[1])};
  }
  std::vector<Padding> result;
  for (std::string_view part : split(text, 'x')) {
    const std::vector<std::string_view> sides = split(part, '_');
    const std::optional<std::int64_t> low = whole_number(sides.front());
    const std::optional<std::int64_t> high = whole_number(sides.back());
    if (sides.size() > 2 || !low || !high || *low < 0 || *high < 0 || *low > kLargestExtent ||
        *high > kLargestExtent) {
      result.clear();
      break;
    }
    result.push_back({*low, *high});
  }
  if (result.size() == 1) result.push_back(result.front());
  if (result.size() != 2) {
    throw UsageError(
        "option padding: expected same, valid, a number, HEIGHTxWIDTH or LOW_HIGHxLOW_HIGH, " +
        found(text));
  }
  return result;
}

}  // namespace tpu::frontend
