#include "sim/report/run_diff.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <map>
#include <numeric>
#include <sstream>
#include <utility>

namespace tpu::report {
namespace {

constexpr std::size_t kShownOps = 20;
constexpr const char* kOutside = "(outside operations)";

/// "f32[8,64]{1,0:T(8,128)}" -> "f32[8,64]".
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

/// "(f32[64], bf16[128,56,56,64])" -> "[128,56,56,64]", the sides of the array with most elements:
/// what an operation is for; what compilers join with it differs, as do its types.
std::string largest_array(const std::string& shape) {
  std::string largest;
  double most = -1;
  for (std::size_t open = shape.find('['); open != std::string::npos;
       open = shape.find('[', open + 1)) {
    const std::string sides = shape.substr(open, shape.find(']', open) + 1 - open);
    double elements = 1;
    for (std::size_t at = 1; at < sides.size();
         at = std::min(sides.find(',', at), sides.size() - 1) + 1) {
      elements *= std::strtod(sides.c_str() + at, nullptr);
    }
    if (elements <= most) continue;
    most = elements;
    largest = sides;
  }
  return largest;
}

using Key = std::pair<std::string, std::string>;  // Scope and shape.
using Times = std::map<Key, ByResource>;

void add(ByResource& to, const ByResource& time, double factor) {
  for (std::size_t cause = 0; cause < kResources; ++cause) to[cause] += factor * time[cause];
}

/// us of a step by what is done, and the whole.
struct StepTimes {
  Times ops;
  ByResource all{};
};

StepTimes step_times(const traces::RunRecord& record) {
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
  add(times.all, path.shares(), cycles * us);
  for (std::size_t op = 0; op < path.ops.size(); ++op) {
    if (total(path.ops[op].cycles) == 0) continue;
    const isa::OpInfo& info = record.ops[op];
    add(times.ops[{info.op_name.empty() ? info.name : info.op_name, without_layout(info.shape)}],
        path.ops[op].cycles, us);
    add(in_ops, path.ops[op].cycles, us);
  }
  ByResource& outside = times.ops[{kOutside, ""}];
  outside = times.all;
  add(outside, in_ops, -1);
  return times;
}

/// Takes what both have out of them.
void match(Times& first, Times& second, std::vector<OpDifference>& rows) {
  for (auto mine = first.begin(); mine != first.end();) {
    const auto its = second.find(mine->first);
    if (its == second.end()) {
      ++mine;
      continue;
    }
    rows.push_back({mine->first.first, mine->first.second, true, true, mine->second, its->second});
    second.erase(its);
    mine = first.erase(mine);
  }
}

Times by_largest_array(const Times& times) {
  Times result;
  for (const auto& [key, time] : times)
    add(result[{key.first, largest_array(key.second)}], time, 1);
  return result;
}

Times by_scope(const Times& times) {
  Times result;
  for (const auto& [key, time] : times) add(result[{key.first, ""}], time, 1);
  return result;
}

/// "net/layer1/kernel/add" -> "net/layer1/kernel/...": compilers join operations of a scope in
/// other ways and call the whole by another of them. Empty for what is in no scope.
std::string enclosing(const std::string& scope) {
  const std::size_t last = scope.rfind('/');
  return last == std::string::npos ? "" : scope.substr(0, last) + "/...";
}

Times by_enclosing_scope(const Times& scopes) {
  Times result;
  for (const auto& [key, time] : scopes) {
    const std::string name = enclosing(key.first);
    if (!name.empty()) add(result[{name, ""}], time, 1);
  }
  return result;
}

void remove_matched(const Times& unmatched, Times& scopes) {
  for (auto each = scopes.begin(); each != scopes.end();) {
    const std::string name = enclosing(each->first.first);
    const bool is_left = name.empty() || unmatched.count({name, ""}) > 0;
    each = is_left ? std::next(each) : scopes.erase(each);
  }
}

/// Of scopes that one has alone those that stand in one of which the other has some, too.
void match_enclosing(Times& first, Times& second, std::vector<OpDifference>& rows) {
  Times mine = by_enclosing_scope(first), its = by_enclosing_scope(second);
  match(mine, its, rows);
  remove_matched(mine, first);
  remove_matched(its, second);
}

/// "vector ALU slots +12.1, waits for HBM -3.4": the causes that changed most.
std::string changed_causes(const OpDifference& row) {
  constexpr std::size_t kMost = 3;
  std::vector<std::size_t> order(kResources);
  for (std::size_t cause = 0; cause < kResources; ++cause) order[cause] = cause;
  const auto change = [&](std::size_t cause) { return row.second[cause] - row.first[cause]; };
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::abs(change(a)) > std::abs(change(b));
  });
  std::string text;
  for (std::size_t i = 0; i < kMost; ++i) {
    if (std::abs(change(order[i])) < 0.05 * std::abs(change(order[0])) || change(order[i]) == 0) {
      break;
    }
    text += (text.empty() ? "" : ", ") +
            std::string(tpu::to_string(static_cast<Resource>(order[i]))) +
            (change(order[i]) > 0 ? " +" : " -") + short_number(std::abs(change(order[i])));
  }
  return text;
}

std::string signed_number(double value) {
  return (value < 0 ? "-" : value > 0 ? "+" : "") + short_number(std::abs(value));
}

void print_row(std::ostringstream& out, double first, double second, const std::string& name) {
  out << right(short_number(first), 10) << right(short_number(second), 10)
      << right(signed_number(second - first), 10) << "  " << name << "\n";
}

void print_causes(std::ostringstream& out, const RunDifference& difference) {
  out << "By cause, us of a step\n         A         B       B-A  cause\n";
  std::vector<std::size_t> order;
  for (std::size_t cause = 0; cause < kResources; ++cause) {
    if (difference.first[cause] != 0 || difference.second[cause] != 0) order.push_back(cause);
  }
  const auto change = [&](std::size_t cause) {
    return std::abs(difference.second[cause] - difference.first[cause]);
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return change(a) > change(b); });
  for (const std::size_t cause : order) {
    print_row(out, difference.first[cause], difference.second[cause],
              tpu::to_string(static_cast<Resource>(cause)));
  }
  print_row(out, total(difference.first), total(difference.second), "all");
}

Json time_json(const ByResource& time) {
  Json json = Json::object();
  for (std::size_t cause = 0; cause < kResources; ++cause) {
    if (time[cause] != 0) json[tpu::to_string(static_cast<Resource>(cause))] = time[cause];
  }
  return json;
}

}  // namespace

double total(const ByResource& time) { return std::accumulate(time.begin(), time.end(), 0.0); }

RunDifference difference_of(const traces::RunRecord& first, const traces::RunRecord& second) {
  RunDifference result;
  StepTimes mine = step_times(first), its = step_times(second);
  result.first = mine.all;
  result.second = its.all;
  match(mine.ops, its.ops, result.ops);
  Times my_arrays = by_largest_array(mine.ops), its_arrays = by_largest_array(its.ops);
  match(my_arrays, its_arrays, result.ops);
  Times my_scopes = by_scope(my_arrays), its_scopes = by_scope(its_arrays);
  match(my_scopes, its_scopes, result.ops);
  match_enclosing(my_scopes, its_scopes, result.ops);
  for (const auto& [key, time] : my_scopes) {
    result.ops.push_back({key.first, key.second, true, false, time, {}});
  }
  for (const auto& [key, time] : its_scopes) {
    result.ops.push_back({key.first, key.second, false, true, {}, time});
  }
  std::stable_sort(result.ops.begin(), result.ops.end(),
                   [](const OpDifference& a, const OpDifference& b) {
                     return std::abs(a.change()) > std::abs(b.change());
                   });
  return result;
}

std::string diff_text(const traces::RunRecord& first, const traces::RunRecord& second,
                      const std::vector<std::string>& names, const TextStyle& style) {
  const RunDifference difference = difference_of(first, second);
  std::ostringstream out;
  const char letters[] = {'A', 'B'};
  const traces::RunRecord* records[] = {&first, &second};
  for (std::size_t i = 0; i < 2; ++i) {
    out << letters[i] << ": " << names[i] << ": " << records[i]->workload << " on "
        << records[i]->config << ", compiled by " << records[i]->compiler << "\n";
  }
  out << "\n";
  print_causes(out, difference);
  const std::size_t shown = std::min(kShownOps, difference.ops.size());
  out << "\nThe " << shown << " largest differences of " << difference.ops.size()
      << " operations, us of a step\n         A         B       B-A  operation\n";
  double rest_first = 0, rest_second = 0;
  for (std::size_t i = 0; i < difference.ops.size(); ++i) {
    const OpDifference& row = difference.ops[i];
    if (i >= shown) {
      rest_first += total(row.first);
      rest_second += total(row.second);
      continue;
    }
    const char* only = row.in_first && row.in_second ? ""
                       : row.in_first                ? "  (A alone)"
                                                     : "  (B alone)";
    print_row(out, total(row.first), total(row.second),
              fitted(row.name + "  " + row.shape + only, style.width - 34));
    const std::string causes = changed_causes(row);
    if (!causes.empty()) out << std::string(34, ' ') << causes << "\n";
  }
  if (difference.ops.size() > shown) print_row(out, rest_first, rest_second, "the others");
  print_row(out, total(difference.first), total(difference.second), "all");
  return fit_to_width(out.str(), style);
}

Json diff_json(const traces::RunRecord& first, const traces::RunRecord& second,
               const std::vector<std::string>& names) {
  const RunDifference difference = difference_of(first, second);
  Json json;
  json["schema_version"] = kJsonSchemaVersion;
  json["files"] = names;
  json["us"] = {total(difference.first), total(difference.second)};
  json["change_us"] = difference.change();
  json["causes"] = {time_json(difference.first), time_json(difference.second)};
  json["ops"] = Json::array();
  for (const OpDifference& row : difference.ops) {
    json["ops"].push_back({{"name", row.name},
                           {"shape", row.shape},
                           {"in", {row.in_first, row.in_second}},
                           {"us", {total(row.first), total(row.second)}},
                           {"change_us", row.change()},
                           {"causes", {time_json(row.first), time_json(row.second)}}});
  }
  return json;
}

}  // namespace tpu::report
