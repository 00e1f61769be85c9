#pragma once

#include <string>

#include "traces/hdf5_file.h"

namespace tpu::traces {

/// A table as comma-separated values (RFC 4180, lines end in \n): a line of names, a line for each
/// row, texts in quotes where they need them, numbers in the shortest form that reads back exactly,
/// NaN empty.
std::string csv_text(const Table& table);

/// Writes each table of a run into a folder as NAME.csv: `events/ops` is events_ops.csv. The
/// columns are those of the results file; numbers that stand for names have them in
/// enumerations.csv.
void export_csv(const Hdf5Contents& contents, const std::string& folder);

}  // namespace tpu::traces
