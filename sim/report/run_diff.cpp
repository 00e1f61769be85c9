#include "sim/report/run_diff.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <map>
#include <sstream>
#include <tuple>
#include <utility>

#include "sim/report/alike_names.h"

namespace tpu::report {
namespace {

constexpr std::size_t kShownOps = 20;

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

using Key = StepTimes::Key;  // Scope and shape.
using Times = std::map<Key, ByResource>;

/// What is done, by scope and shape.
StepTimes by_place(const traces::RunRecord& record) {
  return step_times(record, [](const isa::OpInfo& info) {
    return Key{info.op_name.empty() ? info.name : info.op_name, without_layout(info.shape)};
  });
}

/// What is done, by its part of a training step and by kind, and largest array. A gradient's scope
/// is a "transpose(..)", in JAX and in our frontend.
StepTimes by_kind(const traces::RunRecord& record) {
  return step_times(record, [](const isa::OpInfo& info) {
    const bool is_backward = info.op_name.find("transpose(") != std::string::npos;
    const std::string kind = info.category.empty() ? "operations" : info.category;
    return Key{(is_backward ? "backward, " : "forward or update, ") + kind,
               largest_array(info.shape)};
  });
}

Times times_of(const StepTimes& times) {
  Times result;
  for (const auto& [key, time] : times.by) result.emplace(key, time.us);
  return result;
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
    add_time(result[{key.first, largest_array(key.second)}], time);
  return result;
}

Times by_scope(const Times& times) {
  Times result;
  for (const auto& [key, time] : times) add_time(result[{key.first, ""}], time);
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
    if (!name.empty()) add_time(result[{name, ""}], time);
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

/// What only one of them has.
void add_alone(const Times& first, const Times& second, std::vector<OpDifference>& rows) {
  for (const auto& [key, time] : first) {
    rows.push_back({key.first, key.second, true, false, time, {}});
  }
  for (const auto& [key, time] : second) {
    rows.push_back({key.first, key.second, false, true, {}, time});
  }
}

void sort_by_change(std::vector<OpDifference>& rows) {
  std::stable_sort(rows.begin(), rows.end(), [](const OpDifference& a, const OpDifference& b) {
    return std::abs(a.change()) > std::abs(b.change());
  });
}

std::vector<OpDifference> matched_by_scope(Times first, Times second) {
  std::vector<OpDifference> rows;
  match(first, second, rows);
  Times my_arrays = by_largest_array(first), its_arrays = by_largest_array(second);
  match(my_arrays, its_arrays, rows);
  Times my_scopes = by_scope(my_arrays), its_scopes = by_scope(its_arrays);
  match(my_scopes, its_scopes, rows);
  match_enclosing(my_scopes, its_scopes, rows);
  add_alone(my_scopes, its_scopes, rows);
  return rows;
}

std::vector<OpDifference> matched_by_kind(Times first, Times second) {
  std::vector<OpDifference> rows;
  match(first, second, rows);
  Times my_kinds = by_scope(first), its_kinds = by_scope(second);
  match(my_kinds, its_kinds, rows);
  add_alone(my_kinds, its_kinds, rows);
  return rows;
}

/// Whether a quarter of the time of all operations is in such as both runs have.
bool agree_in_names(const std::vector<OpDifference>& rows) {
  double both = 0, all = 0;
  for (const OpDifference& row : rows) {
    if (row.name == kOutsideOps.first) continue;
    const double us = total(row.first) + total(row.second);
    all += us;
    if (row.in_first && row.in_second) both += us;
  }
  return both >= 0.25 * all;
}

/// 0 for what only the rounding of sums makes of nothing.
double change_of(double first, double second) {
  constexpr double kRounding = 1e-9;
  const double change = second - first;
  const double size = std::max({1.0, std::abs(first), std::abs(second)});
  return std::abs(change) < kRounding * size ? 0 : change;
}

/// "vector ALU slots +12.1, waits for HBM -3.4": the causes that changed most.
std::string changed_causes(const OpDifference& row) {
  constexpr std::size_t kMost = 3;
  std::vector<std::size_t> order(kResources);
  for (std::size_t cause = 0; cause < kResources; ++cause) order[cause] = cause;
  const auto change = [&](std::size_t cause) {
    return change_of(row.first[cause], row.second[cause]);
  };
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
      << right(signed_number(change_of(first, second)), 10) << "  " << name << "\n";
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

void print_categories(std::ostringstream& out, const RunDifference& difference) {
  out << "\nBy category, us of a step\n         A         B       B-A  category\n";
  const double least = 5e-4 * std::max(total(difference.first), total(difference.second));
  for (const OpDifference& row : difference.categories) {
    if (std::abs(row.change()) < least) continue;
    print_row(out, total(row.first), total(row.second), left(row.name, 24) + changed_causes(row));
  }
}

/// Where it is in the user's program, and its shape: beside it where there is room.
void print_place(std::ostringstream& out, const OpDifference& row, const TextStyle& style) {
  std::string place = row.name;
  if (row.places > 1) place += "  at " + grouped(row.places) + " places";
  if (!row.in_first || !row.in_second) place += row.in_first ? "  A alone" : "  B alone";
  const std::string indent(10, ' ');
  const bool is_beside =
      place.size() + 2 + row.shape.size() + indent.size() <= static_cast<std::size_t>(style.width);
  out << indent << place;
  if (!row.shape.empty()) {
    out << (is_beside ? "  " : "\n" + indent) << fitted(row.shape, style.width - 10);
  }
  out << "\n";
}

Json time_json(const ByResource& time) {
  Json json = Json::object();
  for (std::size_t cause = 0; cause < kResources; ++cause) {
    if (time[cause] != 0) json[tpu::to_string(static_cast<Resource>(cause))] = time[cause];
  }
  return json;
}

}  // namespace

RunDifference difference_of(const traces::RunRecord& first, const traces::RunRecord& second) {
  RunDifference result;
  const StepTimes mine = by_place(first), its = by_place(second);
  result.first = mine.all;
  result.second = its.all;
  result.ops = matched_by_scope(times_of(mine), times_of(its));
  result.by_scope = agree_in_names(result.ops);
  if (!result.by_scope) {
    result.ops = matched_by_kind(times_of(by_kind(first)), times_of(by_kind(second)));
  }
  Times my_categories = times_of(by_category(first)),
        its_categories = times_of(by_category(second));
  match(my_categories, its_categories, result.categories);
  add_alone(my_categories, its_categories, result.categories);
  sort_by_change(result.ops);
  sort_by_change(result.categories);
  return result;
}

std::vector<OpDifference> alike_differences(const std::vector<OpDifference>& ops) {
  std::map<std::tuple<std::string, std::string, bool, bool>, std::size_t> places;
  std::vector<OpDifference> rows;
  std::vector<std::vector<std::string>> scopes;
  for (const OpDifference& op : ops) {
    const auto [place, is_new] = places.emplace(
        std::make_tuple(scope_pattern(op.name), op.shape, op.in_first, op.in_second), rows.size());
    if (is_new) {
      rows.push_back(op);
      scopes.push_back({op.name});
      continue;
    }
    OpDifference& row = rows[place->second];
    add_time(row.first, op.first);
    add_time(row.second, op.second);
    row.places += op.places;
    scopes[place->second].push_back(op.name);
  }
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i].name = joined_scopes(scopes[i]);
  sort_by_change(rows);
  return rows;
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
  print_categories(out, difference);
  const std::vector<OpDifference> rows = alike_differences(difference.ops);
  const std::size_t shown = std::min(kShownOps, rows.size());
  out << "\nThe " << shown << " largest differences of "
      << operations_text(rows.size(), difference.ops.size()) << ", us of a step\n";
  if (!difference.by_scope) {
    out << "  The runs call less than a quarter of their time alike: matched by kind and array.\n";
  }
  out << "         A         B       B-A  what changed\n";
  double rest_first = 0, rest_second = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const OpDifference& row = rows[i];
    if (i >= shown) {
      rest_first += total(row.first);
      rest_second += total(row.second);
      continue;
    }
    print_row(out, total(row.first), total(row.second), changed_causes(row));
    print_place(out, row, style);
  }
  if (rows.size() > shown) print_row(out, rest_first, rest_second, "the others");
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
  json["matched_by"] = difference.by_scope ? "scope" : "kind";
  json["categories"] = Json::array();
  for (const OpDifference& row : difference.categories) {
    json["categories"].push_back({{"category", row.name},
                                  {"us", {total(row.first), total(row.second)}},
                                  {"change_us", row.change()},
                                  {"causes", {time_json(row.first), time_json(row.second)}}});
  }
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
