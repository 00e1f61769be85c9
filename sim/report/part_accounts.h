#pragma once

#include <string>
#include <utility>
#include <vector>

#include "models/machine.h"
#include "sim/report/json_report.h"

namespace tpu::report {

/// Parts of a kind beside the cores (the channels of the HBM, the links): what they did in the
/// steps that count, in the mean. Where cores are simulated as one, its channels and DMAs stand for
/// those of all.
struct PartGroup {
  std::string name;
  std::size_t count = 0;
  double busy = 0;     ///< Share of their time: of a channel, with data on its bus.
  double busiest = 0;  ///< That of the one which did most.
  /// Shares of the rest, in the order of the accounts; they add up to 1 with `busy`.
  std::vector<std::pair<std::string, double>> others;
};

/// In the order of the way from the arrays to the user's files; without kinds that did nothing.
std::vector<PartGroup> part_groups(const std::vector<PartAccount>& parts);

/// A line for each of them, empty where there are none.
std::string parts_text(const std::vector<PartAccount>& parts);
/// The same as the key `parts`: `part`, `count`, `busy`, `busiest`, `others`.
Json parts_json(const std::vector<PartAccount>& parts);

}  // namespace tpu::report
