#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tpu {

/// A file that appears under its name only when it is complete.
///
/// Until commit() its bytes lie in the target's folder in a file without a name, of which nothing
/// is left when the program ends, however it ends. Where the file system has no such files it is a
/// temporary file ".tpusim-PID-N", locked while its owner lives: the destructor or a signal handler
/// removes it, and after a kill -9 the next OutputFile in that folder. A target that is a device or
/// a pipe gets the bytes at commit() instead, and is never replaced. Every failure is a UsageError
/// that names the target.
class OutputFile {
 public:
  /// What holds the bytes before commit(); kUnnamed becomes kNamed where it has to.
  enum class Temporary { kUnnamed, kNamed };

  explicit OutputFile(std::string path, Temporary temporary = Temporary::kUnnamed);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  /// Fails when there is no room for so many bytes; they stay reserved.
  void reserve(std::uint64_t bytes);
  void write(const void* data, std::size_t bytes);
  void write(std::string_view text) { write(text.data(), text.size()); }
  /// Makes the file visible, with its bytes on the disk before its name and its name after.
  void commit();

 private:
  [[noreturn]] void fail(const std::string& what, int error_number) const;
  void open_unnamed(const std::string& folder);
  void open_named(const std::string& folder);
  void copy_to_device();
  void give_temporary_name();
  void move_to_target();

  std::string path_;
  std::string target_;     ///< path_ with symbolic links resolved.
  std::string temporary_;  ///< Empty while there is no such name.
  int descriptor_ = -1;
  int slot_ = -1;  ///< In the list of temporary files that a signal handler removes.
  bool to_device_ = false;
};

/// The path that writing a file of this name writes: symbolic links are followed, also to a file
/// that does not exist yet.
std::string written_path(const std::string& path);

/// Removes the temporary files of all unfinished OutputFiles. Async-signal-safe: for the handler of
/// SIGINT and SIGTERM.
void remove_unfinished_output_files() noexcept;

}  // namespace tpu
