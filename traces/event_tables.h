#pragma once

#include <cstdint>
#include <string>

#include "sim/base/error.h"
#include "traces/hdf5_file.h"
#include "traces/run_record.h"

namespace tpu::traces {

/// The tables `events/ops`, `events/waits` and `events/dmas`.
void add_events(const Events& events, Hdf5Contents& contents);
/// Reads them back; throws WorkloadError for numbers that stand for nothing.
Events events_of(const Hdf5Contents& contents);

/// The names of the numbers in columns: `enumeration` (the column that has them), `number`, `name`.
Table enumerations_table();

/// A number of a file as the value of an enumeration with `count` values.
template <class Enum>
Enum checked_enum(std::uint32_t value, std::uint32_t count, const std::string& where) {
  if (value >= count) {
    throw WorkloadError(where + ": expected a number below " + std::to_string(count) + ", found " +
                        std::to_string(value));
  }
  return static_cast<Enum>(value);
}

}  // namespace tpu::traces
