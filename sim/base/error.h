#pragma once

#include <sstream>
#include <stdexcept>
#include <string>

namespace tpu {

/// The exit code of `tpusim` for each class of failure.
enum class ExitCode : int {
  kDone = 0,
  kSimulatedProgramFailed = 1,
  kUsage = 2,
  kBadConfiguration = 3,
  kBadWorkload = 4,
  kSimulatorBug = 70,
};

/// A mistake of the user: bad command line, configuration or workload. The message is one line that
/// says what was expected, what was found and where (`file:line:column: ...`), and what to do;
/// further lines may follow it.
class UserError : public std::runtime_error {
 public:
  UserError(ExitCode exit_code, const std::string& message)
      : std::runtime_error(message), exit_code_(exit_code) {}
  ExitCode exit_code() const { return exit_code_; }

 private:
  ExitCode exit_code_;
};

/// A command line that names no known command, flag or value. Exit code 2.
class UsageError : public UserError {
 public:
  explicit UsageError(const std::string& message) : UserError(ExitCode::kUsage, message) {}
};

/// A hardware configuration that can't be used. Exit code 3.
class ConfigurationError : public UserError {
 public:
  explicit ConfigurationError(const std::string& message)
      : UserError(ExitCode::kBadConfiguration, message) {}
};

/// A model, HLO file, listing or compiled program that can't be read, compiled or placed. Exit
/// code 4.
class WorkloadError : public UserError {
 public:
  explicit WorkloadError(const std::string& message) : UserError(ExitCode::kBadWorkload, message) {}
};

/// The simulated program did something that the machine cannot do: an access beyond VMEM, a pop of
/// a result that will never come, a deadlock. Exit code 1.
class ProgramFault : public UserError {
 public:
  explicit ProgramFault(const std::string& message)
      : UserError(ExitCode::kSimulatedProgramFailed, message) {}
};

/// A broken invariant of the simulator itself. Exit code 70.
class SimulatorBug : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

/// A place in a text file; line and column count from 1.
struct SourceLocation {
  std::string file;
  int line = 0;
  int column = 0;
};

inline std::string to_string(const SourceLocation& where) {
  return where.file + ":" + std::to_string(where.line) + ":" + std::to_string(where.column);
}

}  // namespace tpu

/// Checks an invariant of ours, in release builds too; `message` may use `<<`.
#define TPU_CHECK(condition, message)                                                   \
  do {                                                                                  \
    if (!(condition)) {                                                                 \
      std::ostringstream tpu_check_text;                                                \
      tpu_check_text << __FILE__ << ":" << __LINE__ << ": " #condition ": " << message; \
      throw ::tpu::SimulatorBug(tpu_check_text.str());                                  \
    }                                                                                   \
  } while (false)
