#pragma once

#include <string>

#include "traces/hdf5_file.h"

namespace tpu::traces {

/// What stands in a column of a results file, beside its name.
struct ColumnText {
  std::string units;  ///< "cycles", "bytes"; empty for names, texts and plain numbers.
  std::string text;
};

/// The text of a column of a table; empty where nobody described it, which a test refuses.
ColumnText column_text(const std::string& table, const std::string& column);

/// Puts `units` and `long_name` on every column of the tables.
void describe_columns(Hdf5Contents& contents);

}  // namespace tpu::traces
