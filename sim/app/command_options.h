#pragma once

#include <boost/program_options/options_description.hpp>
#include <vector>

namespace tpu::app {

/// The groups of flags that a command takes.
struct Command {
  const char* name;
  const char* input;  ///< What its one argument is, or "".
  const char* summary;
  bool set, one_machine, many_machines, workload, run, report, destination;
};

/// The commands, in the order of the help.
const std::vector<Command>& commands();

/// Flags that choose what a workload of the zoo is, without their dashes.
const std::vector<const char*>& workload_flags();

/// What --check stands for without a file.
inline constexpr const char* kBesideTheProgram = "FOLDER/values.npz";

/// The flags of a command.
boost::program_options::options_description options_of(const Command& command);

}  // namespace tpu::app
