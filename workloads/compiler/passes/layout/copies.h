#pragma once

#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// Pass: inserts the copies without which two values would have to share memory that both need.
///
/// - All-reduces, loops, dynamic-update-slices and scatters (but those that start from one value
///   everywhere) work in place: an operand that is a
/// constant or a
///   parameter whose memory is not the result's anyway, or whose old value is read later, is
///   copied. So is what two all-reduces work on, since each needs one range. Where the value was
///   made from nothing (zeros for a loop to fill) it is made again instead of copied.
/// - A result that shares its buffer with a parameter is computed into it when nothing reads the
///   parameter afterwards: readers come first where they do not need the result. Otherwise it is
///   copied there at the end. A parameter that is returned as
///   another result is copied first of all.
///
/// Needs: the final schedule, fused.
/// Leaves: results_in_parameters() names a place for every alias; the order of the others as it
/// was.
void insert_copies(hlo::Module& module);

/// For each alias of the module whose result is computed (not the parameter itself): the index of
/// the storage (StorageMap of the entry) that the parameter's memory takes.
struct ResultInParameter {
  std::size_t storage = 0;
  std::int64_t parameter_number = 0;
};
std::vector<ResultInParameter> results_in_parameters(const hlo::Module& module);

}  // namespace tpu::compiler
