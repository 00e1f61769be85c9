#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tpu {

/// A file that appears under its name only when it is complete.
///
/// The bytes go to a temporary file beside the target, which commit() renames; a destructor without
/// commit() removes it. A target that is a device or a pipe gets the bytes at commit() instead, and
/// is never replaced. Every failure is a UsageError that names the target.
class OutputFile {
 public:
  explicit OutputFile(std::string path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(const void* data, std::size_t bytes);
  void write(std::string_view text) { write(text.data(), text.size()); }
  /// Makes the file visible: flushes, closes and renames.
  void commit();

 private:
  [[noreturn]] void fail(const std::string& what, int error_number) const;
  void copy_to_device();

  std::string path_;
  std::string target_;     ///< path_ with symbolic links resolved.
  std::string temporary_;  ///< Empty once it is renamed or removed.
  int descriptor_ = -1;
  int slot_ = -1;  ///< In the list of temporary files that a signal handler removes.
  bool to_device_ = false;
};

/// Removes the temporary files of all unfinished OutputFiles. Async-signal-safe: for the handler of
/// SIGINT and SIGTERM.
void remove_unfinished_output_files() noexcept;

}  // namespace tpu
