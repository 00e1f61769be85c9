#include "sim/report/alike_names.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <set>
#include <utility>

namespace tpu::report {
namespace {

constexpr std::size_t kMostNamed = 4;

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

/// Texts and numbers by turns, a text first.
std::vector<std::string> parts_of(const std::string& scope) {
  std::vector<std::string> parts(1);
  for (const char c : scope) {
    const bool in_number = parts.size() % 2 == 0;
    if (is_digit(c) != in_number) parts.emplace_back();
    parts.back() += c;
  }
  return parts;
}

using Numbers = std::set<std::pair<unsigned long long, std::string>>;

/// "0-2", "1,4", "3": all that a number is among names.
std::string numbers_text(const Numbers& numbers) {
  if (numbers.size() == 1) return numbers.begin()->second;
  const bool is_range = numbers.rbegin()->first - numbers.begin()->first == numbers.size() - 1;
  if (numbers.size() > 2 && is_range) {
    return "{" + numbers.begin()->second + "-" + numbers.rbegin()->second + "}";
  }
  if (numbers.size() > kMostNamed) {
    return "{" + numbers.begin()->second + ".." + numbers.rbegin()->second + "}";
  }
  std::string text;
  for (const auto& [value, number] : numbers) text += (text.empty() ? "{" : ",") + number;
  return text + "}";
}

}  // namespace

std::string scope_pattern(const std::string& scope) {
  if (scope.find('/') == std::string::npos) return scope;
  std::string pattern;
  for (const char c : scope) {
    if (!is_digit(c)) {
      pattern += c;
    } else if (pattern.empty() || pattern.back() != '#') {
      pattern += '#';
    }
  }
  return pattern;
}

std::string joined_scopes(const std::vector<std::string>& scopes) {
  if (scopes.empty()) return "";
  std::vector<std::vector<std::string>> all;
  all.reserve(scopes.size());
  for (const std::string& scope : scopes) all.push_back(parts_of(scope));
  std::string joined;
  for (std::size_t part = 0; part < all[0].size(); ++part) {
    if (part % 2 == 0) {
      joined += all[0][part];
      continue;
    }
    Numbers numbers;
    for (const auto& parts : all) {
      numbers.emplace(std::strtoull(parts[part].c_str(), nullptr, 10), parts[part]);
    }
    joined += numbers_text(numbers);
  }
  return joined;
}

std::string without_layout(const std::string& shape) {
  std::string result;
  int depth = 0;
  for (const char c : shape) {
    if (c == '{') ++depth;
    if (depth == 0) result += c;
    if (c == '}') --depth;
  }
  return result;
}

}  // namespace tpu::report
