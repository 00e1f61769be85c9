#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "models/machine.h"
#include "sim/app/workload_source.h"
#include "traces/npz.h"
#include "workloads/compiler/buffers.h"

namespace tpu::app {

/// "arg_007", "out_012".
std::string array_name(const std::string& prefix, std::size_t number);

compiler::HostArray to_host_array(const traces::NpzArray& array);
traces::NpzArray to_npz_array(const compiler::HostArray& array);

/// The values that a program starts with: from a file, else from the zoo's initialisers, else from
/// a random sequence.
class InitialValues {
 public:
  /// `inputs` may be empty; arrays of other names than arg_NNN are ignored.
  InitialValues(const PreparedWorkload& workload, const traces::NpzFile& inputs,
                std::uint64_t seed);

  /// What the core at this place among the workload's cores loads before `steps` steps.
  CoreLoad load(std::size_t place, std::uint32_t steps) const;

  /// The words of one parameter's buffer on that core, before the first step.
  std::vector<std::uint32_t> words(const isa::Buffer& buffer, std::size_t place) const;

  /// Where the values come from, for the report.
  std::string origin() const;

 private:
  compiler::HostArray parameter(const isa::Buffer& buffer, std::uint32_t number, std::size_t place,
                                std::uint32_t step) const;
  compiler::HostArray from_file(const traces::NpzArray& array, const isa::Buffer& buffer,
                                std::uint32_t number, std::size_t place) const;
  /// What the core at this place has of a parameter.
  compiler::HostArray share_of(compiler::HostArray whole, std::uint32_t number,
                               std::size_t place) const;
  compiler::HostArray random(const isa::Buffer& buffer, std::uint32_t number) const;

  const PreparedWorkload& workload_;
  std::map<std::uint32_t, traces::NpzArray> inputs_;  ///< By parameter number.
  std::vector<std::uint32_t> infeed_numbers_;         ///< Parameter number of each infeed leaf.
  std::uint64_t seed_;
};

/// The outputs after a run, by output number: those of the first core, joined with those of the
/// others where each has a part.
std::map<std::uint32_t, compiler::HostArray> read_outputs(const PreparedWorkload& workload,
                                                          const MachineParams& params,
                                                          const Machine& machine);

/// Which part of the arrays of all devices the core at this place has: in XLA's programs they lie
/// over the cores in the order of their partitions, in ours in the order of the cores.
std::size_t part_number(const PreparedWorkload& workload, const MachineParams& params,
                        std::size_t place);

/// A device's part of an array.
compiler::HostArray part_of(const compiler::HostArray& whole, const compiler::ArrayParts& parts,
                            std::size_t device);
/// Puts a device's part where it stands in the whole array.
void put_part(const compiler::HostArray& part, const compiler::ArrayParts& parts,
              std::size_t device, compiler::HostArray& whole);

/// The output that holds a step's loss: the last of several, when it is a scalar; else null.
const isa::Buffer* loss_buffer(const isa::Program& program);
double read_loss(const isa::Buffer& buffer, const Machine& machine, std::uint32_t core);

}  // namespace tpu::app
