#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// How a parameter or result of all devices together is handed out.
struct ArrayParts {
  hlo::Shape whole;
  std::vector<std::int64_t> part;  ///< Extents of a device's part.
  /// By device: where its part begins.
  std::vector<std::vector<std::int64_t>> starts;
};

/// A module for each of several devices.
struct PartitionedModule {
  hlo::Module module;
  std::vector<ArrayParts> parameters, results;  ///< Of arrays, tuples flattened.
};

/// Devices that a module with annotations is meant for: those of its meshes; 1 without any.
std::int64_t annotated_devices(const hlo::Module& module);

/// Pass: cuts a module with sharding annotations (`sharding_map.h`) into the program that each of
/// `devices` devices runs on its part of the arrays.
///
/// - Each operation is cut over factors of its dimensions (`factor_rule.h`): those of its result
///   first, then those of its operands. Operands that lie otherwise are moved before: by
///   all-to-all where an axis goes from one dimension to another, all-gather where a
///   dimension has to be whole, a slice by partition-id where it has to be cut.
/// - Products and reductions over a cut dimension leave partial sums, combined by reduce-scatter
///   where the result is cut along the axes, all-reduce otherwise.
/// - What is between GlobalToLocalShape and LocalToGlobalShape (shard_map) is left as it is.
/// - Operations of which nothing is known are done by every device on whole arrays.
///
/// Needs: a verified module. Leaves: one without annotations, whose arrays are those of one device;
/// its collectives have groups of devices, and partitions says how many run it. Throws
/// WorkloadError for an annotation that it does not understand.
PartitionedModule partition(hlo::Module module, std::int64_t devices);

}  // namespace tpu::compiler
