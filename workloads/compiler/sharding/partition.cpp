#include "workloads/compiler/sharding/partition.h"

#include <algorithm>
#include <map>
#include <set>

#include "sim/base/error.h"
#include "workloads/compiler/passes/expand/async_pairs.h"
#include "workloads/compiler/passes/expand/custom_calls.h"
#include "workloads/compiler/passes/simplify/simplify.h"
#include "workloads/compiler/passes/unique_names.h"
#include "workloads/compiler/sharding/computation_partitioner.h"
#include "workloads/compiler/sharding/sharding_map.h"

namespace tpu::compiler {

using hlo::Computation;
using hlo::ComputationId;
using hlo::HloInstruction;
using hlo::HloOpcode;

namespace {

/// Every body of a loop or branch is called once, so that it can be cut as its caller needs it.
void separate_bodies(hlo::Module& module) {
  std::set<ComputationId> seen;
  std::vector<ComputationId> work{module.entry};
  while (!work.empty()) {
    const ComputationId id = work.back();
    work.pop_back();
    const std::size_t count = module.computation(id).instructions.size();
    for (std::size_t i = 0; i < count; ++i) {
      const HloInstruction caller = module.computation(id).instructions[i];
      if (caller.opcode != HloOpcode::kWhile && caller.opcode != HloOpcode::kConditional) continue;
      for (std::size_t k = 0; k < caller.called.size(); ++k) {
        ComputationId called = caller.called[k];
        if (!seen.insert(called).second) {
          Computation copy = module.computation(called);
          called = static_cast<ComputationId>(module.computations.size());
          copy.name += "." + std::to_string(called);
          module.computations.push_back(std::move(copy));
          module.computations[static_cast<std::size_t>(id)].instructions[i].called[k] = called;
          seen.insert(called);
        }
        work.push_back(called);
      }
    }
  }
}

ArrayParts parts_of(const DeviceMesh& mesh, const hlo::Shape& whole, const Sharding& sharding) {
  ArrayParts parts;
  parts.whole = hlo::array_shape(whole.type, whole.dimensions);
  parts.part = local_extents(mesh, sharding, whole.dimensions);
  for (std::int64_t device = 0; device < mesh.devices(); ++device) {
    std::vector<std::int64_t> starts;
    for (std::size_t d = 0; d < parts.part.size(); ++d) {
      starts.push_back(mesh.index(device, sharding.dimensions[d]) * parts.part[d]);
    }
    parts.starts.push_back(std::move(starts));
  }
  return parts;
}

void list_arrays(const hlo::Shape& shape, std::vector<hlo::Shape>& arrays) {
  if (!shape.is_tuple()) arrays.push_back(shape);
  for (const hlo::Shape& element : shape.elements) list_arrays(element, arrays);
}

std::vector<ArrayParts> all_parts(const DeviceMesh& mesh, const std::vector<hlo::Shape>& arrays,
                                  const std::vector<Sharding>& shardings) {
  std::vector<ArrayParts> parts;
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    parts.push_back(parts_of(mesh, arrays[i], shardings.at(i)));
  }
  return parts;
}

/// How the arrays of each computation's root have to lie.
std::map<ComputationId, std::vector<Sharding>> wanted_results(const hlo::Module& module,
                                                              const ShardingMap& map) {
  std::map<ComputationId, std::vector<Sharding>> wanted;
  wanted[module.entry] = map.results();
  for (ComputationId id : map.order()) {
    for (const HloInstruction& instruction : module.computation(id).instructions) {
      std::vector<Sharding> mine;
      for (ValueId value : map.values(id, instruction.id)) mine.push_back(map.sharding(value));
      if (instruction.opcode == HloOpcode::kConditional) {
        for (ComputationId called : instruction.called) wanted[called] = mine;
      } else if (instruction.opcode == HloOpcode::kWhile) {
        wanted[instruction.called.at(0)] = mine;
        wanted[instruction.called.at(1)] = {Sharding()};
      }
    }
  }
  return wanted;
}

}  // namespace

std::int64_t annotated_devices(const hlo::Module& module) {
  const AnnotationReader reader(module);
  std::int64_t devices = reader.mesh_devices();
  for (const Computation& computation : module.computations) {
    for (const HloInstruction& instruction : computation.instructions) {
      if (instruction.raw_attributes->find("sharding={") == std::string::npos) continue;
      for (const ShardingAnnotation& leaf : reader.read(instruction).leaves) {
        devices = std::max(devices, leaf.devices);
      }
    }
  }
  return devices;
}

PartitionedModule partition(hlo::Module module, std::int64_t devices) {
  join_async_pairs(module);
  drop_scalar_annotations(module);
  flatten_calls_everywhere(module);
  separate_bodies(module);
  PartitionedModule result;
  const ShardingMap map(module, devices);
  const Computation& entry = module.entry_computation();
  std::vector<hlo::Shape> arrays;
  std::vector<Sharding> shardings;
  for (hlo::InstructionId parameter : entry.parameters()) {
    list_arrays(entry.at(parameter).shape, arrays);
    for (ValueId value : map.values(module.entry, parameter)) {
      shardings.push_back(map.sharding(value));
    }
  }
  result.parameters = all_parts(map.mesh(), arrays, shardings);
  arrays.clear();
  list_arrays(entry.at(entry.root).shape, arrays);
  result.results = all_parts(map.mesh(), arrays, map.results());
  auto wanted = wanted_results(module, map);
  for (ComputationId id : map.order()) {
    ComputationPartitioner(module, map, id, wanted[id]).run();
  }
  module.entry_layout = hlo::Boxed<hlo::EntryLayout>{};
  module.entry_computation().name += "_spmd";
  module.partitions = devices;
  module.replicas = devices;
  make_names_unique(module);
  hlo::verify(module);
  result.module = std::move(module);
  return result;
}

}  // namespace tpu::compiler
