#include "sim/app/file_roles.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <tuple>

#include "sim/app/export_run.h"
#include "sim/base/error.h"
#include "sim/base/output_file.h"
#include "workloads/frontend/zoo.h"
#include "workloads/xla/captured_folder.h"

namespace tpu::app {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kLeastOutputBytes = std::uint64_t{64} << 10;

/// A file and what it is to the command.
struct NamedFile {
  std::string role, path;
};
struct Output {
  std::string flag, path;
};

/// One number for all names of a file: inode and device; of a file that does not exist yet, the
/// path that it will have.
using Identity = std::tuple<ino_t, dev_t, std::string>;

/// Devices and pipes have none: they may be written by several and are not replaced.
bool find_identity(const std::string& path, Identity& identity) {
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0) {
    identity = {status.st_ino, status.st_dev, ""};
    return S_ISREG(status.st_mode);
  }
  std::error_code error;
  const fs::path future = fs::weakly_canonical(fs::absolute(written_path(path), error), error);
  identity = {0, 0, error ? path : future.string()};
  return true;
}

std::vector<Output> outputs_of(const Arguments& arguments) {
  std::vector<Output> files;
  const bool is_folder = exports_folder(arguments);
  if (!arguments.output.empty() && !is_folder) files.push_back({"-o", arguments.output});
  if (!arguments.outputs.empty()) files.push_back({"--outputs", arguments.outputs});
  if (!arguments.json.empty() && arguments.json != "-") files.push_back({"--json", arguments.json});
  return files;
}

/// The files of a captured program, or of several below one folder.
void add_folder(const std::string& folder, std::vector<NamedFile>& files) {
  std::error_code error;
  const auto options = fs::directory_options::skip_permission_denied;
  fs::recursive_directory_iterator entry(folder, options, error);
  for (; !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
    if (xla::is_captured_file(entry->path().string())) {
      files.push_back({"a file of the workload", entry->path().string()});
    }
  }
}

std::vector<NamedFile> inputs_of(const Arguments& arguments,
                                 const std::vector<config::Configuration>& configurations) {
  std::vector<NamedFile> files;
  if (!frontend::is_workload(arguments.input)) {
    files.push_back({"the input", arguments.input});
    add_folder(arguments.input, files);
  }
  for (const std::string& path : arguments.more_inputs) files.push_back({"an input", path});
  if (!arguments.inputs.empty())
    files.push_back({"the file that --inputs reads", arguments.inputs});
  if (!arguments.check.empty()) files.push_back({"the file that --check reads", arguments.check});
  if (!arguments.scenario.empty()) files.push_back({"the scenario", arguments.scenario});
  for (const config::Configuration& configuration : configurations) {
    for (const std::string& path : configuration.files)
      files.push_back({"a file of the configuration", path});
  }
  return files;
}

void check_name(const Output& output) {
  if (output.path != "-") return;
  throw UsageError(output.flag +
                   ": expected the name of a file, found \"-\"; ./- is a file of that name");
}

void check_distinct(const Output& output, const NamedFile& other) {
  Identity ours, theirs;
  if (!find_identity(output.path, ours) || !find_identity(other.path, theirs)) return;
  if (ours != theirs) return;
  throw UsageError(output.flag + " " + output.path + ": expected a file of its own, found " +
                   other.role + (other.path == output.path ? "" : ", " + other.path) +
                   "; choose another name");
}

}  // namespace

void check_files(const Arguments& arguments,
                 const std::vector<config::Configuration>& configurations) {
  const std::vector<Output> outputs = outputs_of(arguments);
  if (outputs.empty()) return;
  const std::vector<NamedFile> inputs = inputs_of(arguments, configurations);
  const NamedFile stdout_file{"standard output", "/dev/stdout"};
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    check_name(outputs[i]);
    for (const NamedFile& input : inputs) check_distinct(outputs[i], input);
    if (outputs[i].path != stdout_file.path) check_distinct(outputs[i], stdout_file);
    for (std::size_t k = 0; k < i; ++k)
      check_distinct(outputs[i], {"the file that " + outputs[k].flag + " writes", outputs[k].path});
    OutputFile(outputs[i].path).reserve(kLeastOutputBytes);
  }
}

}  // namespace tpu::app
