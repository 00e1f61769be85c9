#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "sim/report/json_report.h"
#include "sim/report/summary.h"
#include "sim/report/text_layout.h"

namespace tpu::report {

/// Of all resources.
double total(const ByResource& time);
void add_time(ByResource& to, const ByResource& time, double factor = 1);

/// us of a step by the resource that it depends on, mean of the cores, of some operations.
struct OpTime {
  ByResource us{};
  std::size_t ops = 0;
};

/// The time of a step by what operations have in common. What is in none of them, the rest of the
/// step, has a row of its own; the rows add up to `all`.
struct StepTimes {
  using Key = std::pair<std::string, std::string>;
  std::map<Key, OpTime> by;
  ByResource all{};
};
/// The key of the time outside of operations.
extern const StepTimes::Key kOutsideOps;

StepTimes step_times(const traces::RunRecord& record,
                     const std::function<StepTimes::Key(const isa::OpInfo&)>& key_of);
StepTimes by_category(const traces::RunRecord& record);

/// Operations that do the same at several places of the user's program: of one category, shape and
/// source line, whose scopes differ in numbers alone.
struct OpGroup {
  OpSummary sum;  ///< Of all; `op` is the most expensive one. Shares are means over their time.
  std::vector<std::uint32_t> ops;  ///< Indices into RunRecord::ops, most cycles first.
  std::string scope;               ///< Of all of them: "net/block{0-2}/conv".
};
/// Most cycles first.
std::vector<OpGroup> alike_ops(const traces::RunRecord& record, const Summary& summary);

/// "26 operations", "9 kinds of operations (26 operations)".
std::string operations_text(std::size_t kinds, std::size_t ops);

/// Rows: the categories of operations, most time first, and by what each is bound.
std::string categories_text(const traces::RunRecord& record, const Summary& summary);
Json categories_json(const traces::RunRecord& record);

}  // namespace tpu::report
