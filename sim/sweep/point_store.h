#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tpu::sweep {

/// What came out of a point: figures by name, or the error that it ended with.
struct PointResult {
  std::vector<std::pair<std::string, double>> figures;
  std::string error;
  int exit_code = 0;  ///< That `tpusim run` would have had.
};

/// A folder with a file for each point that was simulated, under the hash of everything that its
/// result depends on: settings that mean the same share a file, changed ones get another. Files
/// appear when they are complete, so several processes and machines may write into one folder.
class PointStore {
 public:
  /// Makes the folder where it is not there yet; UsageError when it can't be made.
  static PointStore create(const std::string& folder);
  explicit PointStore(std::string folder) : folder_(std::move(folder)) {}

  const std::string& folder() const { return folder_; }
  bool has(const std::string& hash) const;
  /// The result; nothing where there is no file or another has written into it.
  std::optional<PointResult> read(const std::string& hash) const;
  void write(const std::string& hash, const PointResult& result) const;
  /// When the file was written, seconds; nothing where there is none.
  std::optional<double> written_at(const std::string& hash) const;

 private:
  std::string path_of(const std::string& hash) const { return folder_ + "/" + hash + ".json"; }
  std::string folder_;
};

}  // namespace tpu::sweep
