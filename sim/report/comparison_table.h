#pragma once

#include <string>
#include <vector>

#include "sim/report/comparison.h"
#include "traces/hdf5_file.h"

namespace tpu::report {

/// A GPU beside a run: no simulation, the roofline of its data sheet. No GPU takes less time for
/// the run's useful FLOPs and compulsory bytes (of all its cores together).
struct GpuBound {
  std::string name;
  double step_ms = 0;         ///< At least.
  double examples_per_s = 0;  ///< At most.
  double watts = 0;           ///< Its board's limit.
  const char* bound_by = "";  ///< "FLOPs" or "bytes".
};
std::vector<GpuBound> gpu_bounds(const traces::RunRecord& record, const Summary& summary);

/// The bounds as columns of a text, under a heading; empty for none.
std::string gpu_bounds_text(const std::vector<GpuBound>& bounds);

/// A comparison as a table: a row for each figure and each parameter that differs; a column for
/// each machine and for each GPU, "P100 (bound)". What a column does not have is empty. Cells are
/// text.
traces::Table comparison_table(const std::vector<traces::RunRecord>& records,
                               const std::vector<Summary>& summaries);

/// Any table of texts as Markdown, numbers with six digits: for people, as CSV is for programs.
std::string markdown_text(const traces::Table& table);

}  // namespace tpu::report
